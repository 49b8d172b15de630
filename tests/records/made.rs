//! The made job with all sources at once: its truth is compared with the texts themselves, by other means than the writers'.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::job::{Inspector, Job, Megatrace, Offsets, RankRecords, Recording};

/// The traces and records of each rank.
fn make(job: &Job, recording: &Recording) -> Vec<(Option<Vec<u8>>, RankRecords)> {
    let mut made = Vec::new();
    job.each_recorded(recording, |_, trace, records| made.push((trace, records)));
    made
}

fn job() -> Job {
    let offsets = Offsets::Random { max_ns: 400_000 };
    Job { tp: 2, pp: 2, dp: 2, steps: 3, layers: 2, small: true, offsets, ..Job::default() }
}

/// The starts of a trace's communication kernels in ns, with their collectives. Read from the text: as floating-point numbers these
/// times would lose their last digits.
fn kernels(trace: &[u8]) -> BTreeMap<i64, String> {
    let text = String::from_utf8(trace.to_vec()).unwrap();
    let kernel = r#"(?s)"cat": "kernel", "name": "nccl[^"]*".*?"ts": (\d+)\.(\d{3}),.*?"Collective name": "(\w+)""#;
    let found = regex::Regex::new(kernel).unwrap();
    found
        .captures_iter(&text)
        .map(|found| (format!("{}{}", &found[1], &found[2]).parse().unwrap(), found[3].to_owned()))
        .collect()
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8(bytes.to_vec()).unwrap().lines().map(str::to_owned).collect()
}

/// What a file says of when each of its records was: the start on the GPU, or the call, on the source's clock.
fn times(source: &str, bytes: &[u8]) -> Vec<i64> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    match source {
        "plugin-dump" => {
            let clock = regex::Regex::new(r#""Channel": 0, "StartGpuClk": (\d+)"#).unwrap();
            clock.captures_iter(&text).map(|found| found[1].parse().unwrap()).collect()
        }
        "inspector" => lines(bytes)
            .iter()
            .map(|line| {
                let record: Value = serde_json::from_str(line).unwrap();
                let perf = record.get("coll_perf").or(record.get("p2p_perf")).unwrap();
                perf["event_trace_ts"]["kernel_events"][0]["kernel_start_ts"].as_i64().unwrap() * 1_000
            })
            .collect(),
        "flight-recorder" => {
            let dump: Value = serde_json::from_str(&text).unwrap();
            dump["entries"].as_array().unwrap().iter().map(|entry| entry["time_created_ns"].as_i64().unwrap()).collect()
        }
        _ => {
            let at = regex::Regex::new(r"\[(\d+)\.(\d{9})\]").unwrap();
            at.captures_iter(&text).map(|found| format!("{}{}", &found[1], &found[2]).parse().unwrap()).collect()
        }
    }
}

#[test]
fn every_record_has_its_kernel() {
    for megatrace in [Megatrace::L2, Megatrace::L4] {
        let recording = Recording { max_offset_ns: 900_000, megatrace, ..Recording::default() };
        let mut checked = BTreeMap::new();
        for (trace, records) in make(&job(), &recording) {
            let kernels = kernels(&trace.unwrap());
            for file in &records.files {
                let truths: Vec<_> = records.truth.iter().filter(|truth| truth.file == file.name).collect();
                let times = times(truths[0].source, &file.bytes);
                assert_eq!(times.len(), truths.len(), "{}", file.name);
                for (index, (truth, time)) in truths.iter().zip(times).enumerate() {
                    assert_eq!(truth.index, index);
                    let kernel = truth.kernel_ts_ns.unwrap();
                    let named = &kernels[&kernel];
                    let function = truth.function.to_lowercase();
                    assert_eq!(named.replace("_base", "").replace('_', ""), function, "{truth:?}");
                    // The GPU's times are rounded to 32 ns or 1 µs; a call is before its kernel, which may wait for others.
                    let before = kernel + truth.offset_ns - time;
                    let limit =
                        if matches!(truth.source, "plugin-dump" | "inspector") { 0..1_000 } else { 0..2_000_000 };
                    assert!(limit.contains(&before), "{before} {truth:?}");
                    *checked.entry(truth.source).or_insert(0) += 1;
                }
            }
        }
        // In each of 3 steps 2 all-reduces, a small one, a reduce-scatter, an all-gather, and on 4 of 8 ranks a send, on 4 a receive.
        let all = 8 * 3 * 6;
        assert_eq!((checked["plugin-dump"], checked["flight-recorder"], checked["megatrace"]), (all, all, all));
        assert_eq!(checked["inspector"], all - 8 * 3);
    }
}

#[test]
fn numbers_agree_between_ranks_and_count_each_function() {
    let mut numbers: BTreeMap<(String, String), Vec<Vec<u64>>> = BTreeMap::new();
    for (_, records) in make(&job(), &Recording { inspector: Inspector::Mixed, ..Recording::default() }) {
        let log = records.files.iter().find(|file| file.name.starts_with("node0-pid")).unwrap();
        let mut own: BTreeMap<(String, String), Vec<u64>> = BTreeMap::new();
        for line in lines(&log.bytes) {
            let record: Value = serde_json::from_str(&line).unwrap();
            if let Some(perf) = record.get("coll_perf") {
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                let key = (text(&record["header"]["id"]), text(&perf["coll"]));
                own.entry(key).or_default().push(perf["coll_sn"].as_u64().unwrap());
            }
        }
        own.into_iter().for_each(|(key, of_rank)| numbers.entry(key).or_default().push(of_rank));
    }
    // Four tensor-parallel groups with all-reduces, four data-parallel ones with two functions each.
    assert_eq!(numbers.len(), 4 + 4 * 2);
    for ((_, function), ranks) in numbers {
        assert_eq!((ranks.len(), &ranks[0]), (2, &ranks[1]));
        let steps: Vec<u64> = ranks[0].windows(2).map(|pair| pair[1] - pair[0]).collect();
        // Two all-reduces of a step follow each other; the third is too small for Inspector, and its number is skipped.
        let expected: &[u64] = if function == "AllReduce" { &[1, 2, 1, 2, 1] } else { &[1, 1] };
        assert_eq!(steps, expected, "{function}");
    }
}

#[test]
fn lost_records_are_not_in_the_truth_and_the_rest_stays() {
    let whole: Vec<_> =
        make(&job(), &Recording::default()).into_iter().flat_map(|(_, records)| records.truth).collect();
    let recording = Recording { lose_percent: 10.0, ..Recording::default() };
    let made = make(&job(), &recording);
    let kept: Vec<_> = made.iter().flat_map(|(_, records)| &records.truth).collect();
    let share = 1.0 - kept.len() as f64 / whole.len() as f64;
    assert!((0.05..0.15).contains(&share), "{share}");
    for truth in kept {
        assert!(
            whole
                .iter()
                .any(|of| (of.source, of.rank, of.kernel_ts_ns) == (truth.source, truth.rank, truth.kernel_ts_ns))
        );
    }
    let bytes = |made: &[(Option<Vec<u8>>, RankRecords)]| -> Vec<Vec<u8>> {
        made.iter().flat_map(|(_, records)| &records.files).map(|file| file.bytes.clone()).collect()
    };
    assert_eq!(bytes(&made), bytes(&make(&job(), &recording)));
}

#[test]
fn records_outlive_traces() {
    let job = Job { missing: vec![1], lose: 3, ..job() };
    let made = make(&job, &Recording::default());
    assert!(made[1].0.is_none() && made[1].1.truth.iter().all(|truth| truth.kernel_ts_ns.is_none()));
    let without = |rank: usize| made[rank].1.truth.iter().filter(|truth| truth.kernel_ts_ns.is_none());
    // Three kernels are in no trace. All of the other three sources have them; Inspector may not.
    let lost = (0..8).filter(|rank| *rank != 1).flat_map(without).filter(|truth| truth.source == "megatrace").count();
    assert_eq!(lost, 3);
}

#[test]
fn traces_may_begin_later_than_records() {
    let recording = Recording { trace_from_step: 2, ..Recording::default() };
    let whole = make(&job(), &Recording::default());
    for ((trace, records), (_, all)) in make(&job(), &recording).into_iter().zip(whole) {
        let kernels = kernels(&trace.unwrap());
        let of = |source: &'static str| records.truth.iter().filter(move |truth| truth.source == source);
        // 6 calls in each of 3 steps, of which the trace has the last.
        assert_eq!((of("megatrace").count(), kernels.len()), (18, 6));
        let known: Vec<i64> = of("megatrace").filter_map(|truth| truth.kernel_ts_ns).collect();
        assert!(known.iter().eq(kernels.keys()));
        assert!(records.files.iter().zip(&all.files).all(|(one, other)| one.bytes == other.bytes));
    }
}
