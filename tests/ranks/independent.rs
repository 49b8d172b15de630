//! Who waits for whom, worked out once more by another method: by brute force on the JSON of the traces, the k-th kernel of each rank with
//! the k-th of the others. Nothing of this crate is used for that.

use std::path::{Path, PathBuf};

use serde_json::Value;

use nccl_stacks::Ns;
use nccl_stacks::answers::ranks::data::Compared;
use nccl_stacks::answers::ranks::job::Matched;
use nccl_stacks::answers::ranks::waiting::{Measured, by_lengths, measure};
use nccl_stacks::operations::clocks::Clocks;

use crate::support::program::json_of;
use crate::support::random::is_long;
use crate::support::{read_text, shared};

/// What is shorter is no delay.
const TOGETHER: i64 = 5_000;

/// Start and length of a kernel, in ns on its rank's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kernel {
    start: i64,
    dur: i64,
}

/// What happened at one collective.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    /// By rank.
    waited: Vec<i64>,
    last: usize,
    is_late: bool,
}

/// Sums over all collectives, by rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sums {
    waited: Vec<i64>,
    caused: Vec<i64>,
    late: Vec<u64>,
    together: u64,
}

/// The text with quotes around the numbers of `ts` and `dur`, which so keep all their digits. Within a text the quotes of such a key are
/// escaped, so it is found as a key only.
fn with_exact_times(text: &str) -> String {
    quoted(&quoted(text, "\"ts\":"), "\"dur\":")
}

fn quoted(text: &str, key: &str) -> String {
    let mut all = String::with_capacity(text.len() + text.len() / 8);
    let mut rest = text;
    while let Some(at) = rest.find(key) {
        let (before, after) = rest.split_at(at + key.len());
        let number = after.trim_start();
        let end = number.find([',', '}', ' ', '\n', '\r']).unwrap();
        all.extend([before, "\"", number[..end].trim_matches('"'), "\""]);
        rest = &number[end..];
    }
    all.push_str(rest);
    all
}

/// Microseconds in decimals as ns, exactly.
fn nanos(value: &Value) -> i64 {
    let text = value.as_str().unwrap();
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let decimals = decimals.trim_end_matches('0');
    assert!(decimals.len() <= 3 && decimals.chars().all(|c| c.is_ascii_digit()), "{text} has parts of a ns");
    let decimals: i64 = format!("{decimals:0<3}").parse().unwrap();
    whole.parse::<i64>().unwrap() * 1000 + decimals
}

/// The NCCL kernels of a trace, by their starts.
fn kernels(path: &Path) -> Vec<Kernel> {
    let trace: Value = serde_json::from_str(&with_exact_times(&read_text(path))).unwrap();
    let is_wanted = |event: &&Value| {
        let name = event["name"].as_str().unwrap_or_default();
        event["cat"] == "kernel" && (name.starts_with("ncclDevKernel") || name.starts_with("ncclKernel"))
    };
    let kernel = |event: &Value| Kernel { start: nanos(&event["ts"]), dur: nanos(&event["dur"]) };
    let mut found: Vec<Kernel> =
        trace["traceEvents"].as_array().unwrap().iter().filter(is_wanted).map(kernel).collect();
    found.sort_unstable();
    found
}

/// By clocks that are ahead by these offsets.
fn event_by_clocks(members: &[Kernel], offsets: &[i64]) -> Event {
    let starts: Vec<i64> = members.iter().zip(offsets).map(|(kernel, offset)| kernel.start - offset).collect();
    let latest = *starts.iter().max().unwrap();
    let last = starts.iter().position(|start| *start == latest).unwrap();
    let second = starts.iter().enumerate().filter(|(rank, _)| *rank != last).map(|(_, start)| *start).max().unwrap();
    let waited = starts.iter().zip(members).map(|(start, kernel)| (latest - start).min(kernel.dur)).collect();
    Event { waited, last, is_late: latest - second >= TOGETHER }
}

/// By the lengths of the kernels.
fn event_by_lengths(members: &[Kernel]) -> Event {
    let mut lengths: Vec<i64> = members.iter().map(|kernel| kernel.dur).collect();
    let waited = lengths.iter().map(|dur| dur - lengths.iter().min().unwrap()).collect();
    let last = (0..lengths.len()).min_by_key(|rank| lengths[*rank]).unwrap();
    lengths.sort_unstable();
    Event { waited, last, is_late: lengths[1] - lengths[0] >= TOGETHER }
}

/// The collectives: by number, by rank.
fn collectives(ranks: &[Vec<Kernel>]) -> Vec<Vec<Kernel>> {
    assert!(ranks.iter().all(|kernels| kernels.len() == ranks[0].len()));
    (0..ranks[0].len()).map(|at| ranks.iter().map(|kernels| kernels[at]).collect()).collect()
}

/// By clocks whoever comes last has caused the waiting, by lengths only who is late.
fn sums(events: &[Event], of_all: bool) -> Sums {
    let ranks = events[0].waited.len();
    let mut sums = Sums { waited: vec![0; ranks], caused: vec![0; ranks], late: vec![0; ranks], together: 0 };
    for event in events {
        sums.waited.iter_mut().zip(&event.waited).for_each(|(sum, waited)| *sum += waited);
        if event.is_late || of_all {
            sums.caused[event.last] += event.waited.iter().sum::<i64>();
        }
        if event.is_late {
            sums.late[event.last] += 1;
        }
        sums.together += u64::from(!event.is_late);
    }
    sums
}

/// The traces of a set, rank by rank.
fn set_a(shared: &Path) -> Vec<PathBuf> {
    let name = |rank| format!("traces/lora-dev-script__sglang_tp4_A_mixed_rank{rank}.json.gz");
    (0..4).map(|rank| shared.join(name(rank))).collect()
}

fn param(shared: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(shared.join("traces")).unwrap().map(|entry| entry.unwrap().path());
    let is_of_it =
        |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("param__dlrm_kineto_worker");
    let mut found: Vec<PathBuf> = all.filter(is_of_it).collect();
    // One digit each, so they are in the order of their ranks.
    found.sort();
    assert_eq!(found.len(), 8);
    found
}

/// The library's answer at each collective, those of a start on the lowest rank in order.
fn of_library(compared: &Compared, how: impl Fn(Matched<'_>) -> Measured) -> Vec<Event> {
    let ranks = compared.job.ranks.len();
    let mut found = Vec::new();
    for group in &compared.matches.groups {
        for of in compared.job.collectives(group) {
            let measured = how(of);
            let mut waited = vec![0; ranks];
            measured.waits.iter().for_each(|(member, wait)| waited[of.rank(*member)] = wait.0);
            let last = of.rank(measured.last);
            let first = of.row(0).unwrap().start;
            let is_late = measured.late.is_some();
            found.push((first, Event { waited, last, is_late }));
        }
    }
    found.sort_by_key(|(start, _)| *start);
    found.into_iter().map(|(_, event)| event).collect()
}

/// What the program says, with the offsets that it found.
fn of_program(paths: &[PathBuf]) -> Value {
    let paths: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    json_of(&[&["ranks", "--json", "--quiet"], &paths[..]].concat())
}

fn by_rank(report: &Value, get: impl Fn(&Value) -> &Value) -> Vec<i64> {
    report["ranks"].as_array().unwrap().iter().map(|rank| get(rank).as_i64().unwrap()).collect()
}

/// Compares program, library and brute force, with several offsets, to the ns. Returns the collectives and the offsets that the program found.
fn all_agree(paths: &[PathBuf]) -> (Vec<Vec<Kernel>>, Vec<i64>) {
    let collectives = collectives(&paths.iter().map(|path| kernels(path)).collect::<Vec<_>>());
    let report = of_program(paths);
    let found = by_rank(&report, |rank| &rank["offset_ns"]);
    assert!(report["ranks"].as_array().unwrap().iter().all(|rank| rank["drift_ns_per_ms"] == 0.0));
    let by_clocks = |offsets: &[i64]| -> Vec<Event> {
        collectives.iter().map(|members| event_by_clocks(members, offsets)).collect()
    };
    let expected = sums(&by_clocks(&found), true);
    assert_eq!(by_rank(&report, |rank| &rank["waited_ns"]), expected.waited);
    assert_eq!(by_rank(&report, |rank| &rank["caused_ns"]), expected.caused);
    assert_eq!(report["waited_ns"], expected.waited.iter().sum::<i64>());
    assert_eq!(report["measured_ns"], collectives.iter().flatten().map(|kernel| kernel.dur).sum::<i64>());

    let lengths: Vec<Event> = collectives.iter().map(|members| event_by_lengths(members)).collect();
    let of_lengths = sums(&lengths, false);
    let said = |name: &str| by_rank(&report, |rank| &rank["by_lengths"][name]);
    assert_eq!(said("waited_ns"), of_lengths.waited);
    assert_eq!(said("caused_ns"), of_lengths.caused);
    assert_eq!(said("late_count"), of_lengths.late.iter().map(|count| *count as i64).collect::<Vec<_>>());

    let mut compared = crate::ranks::real::compared(paths);
    let library = of_library(&compared, |of| by_lengths(of).unwrap());
    assert_eq!(library, lengths);
    let ranks = paths.len() as i64;
    // None, those found, and such with which kernels would end before others start. By day every second of them.
    let several =
        [0, 1, 7_001, -33_333, -500_000_000, 900_001].map(|step| (0..ranks).map(|rank| rank * step).collect());
    for offsets in several.into_iter().step_by(if is_long() { 1 } else { 2 }).chain([found.clone()]) {
        let clocks: Vec<Ns> = offsets.iter().copied().map(Ns).collect();
        compared = compared.with_clocks(Clocks::given(&clocks));
        let events = by_clocks(&offsets);
        let library = of_library(&compared, |of| measure(of, &compared.clocks).unwrap());
        assert_eq!(library, events, "{offsets:?}");
        let (report, expected) = (compared.report(), sums(&events, true));
        for (at, rank) in report.ranks.iter().enumerate() {
            let of_rank = (rank.waited_ns.0, rank.caused_ns.0, rank.late_count);
            let (waited, caused) = (expected.waited[at], expected.caused[at]);
            assert_eq!(of_rank, (waited, caused, expected.late[at]), "{offsets:?}, rank {at}");
        }
        assert_eq!((report.together, report.collectives), (expected.together, events.len() as u64), "{offsets:?}");
    }
    (collectives, found)
}

/// Whether it is within one part in a thousand of so many ms.
#[track_caller]
fn assert_near(ns: i64, ms: f64) {
    assert!((ns as f64 / 1e6 - ms).abs() <= ms / 1000.0, "{ns} ns are not about {ms} ms");
}

/// Whether a time is this many ms, to 0.01 ms.
#[track_caller]
fn assert_ms(ns: i64, ms: f64) {
    assert!((ns as f64 / 1e6 - ms).abs() < 0.0101, "{ns} ns are not {ms} ms");
}

#[test]
fn times_keep_all_their_digits() {
    let text =
        r#"{"traceEvents": [{"ts": 1106964729866.648, "dur":3,"name": "a \"ts\": 5, b"}, {"dur": 0.5, "ts":"7.25"}]}"#;
    let trace: Value = serde_json::from_str(&with_exact_times(text)).unwrap();
    let events = &trace["traceEvents"];
    assert_eq!((nanos(&events[0]["ts"]), nanos(&events[0]["dur"])), (1_106_964_729_866_648, 3_000));
    assert_eq!((nanos(&events[1]["ts"]), nanos(&events[1]["dur"])), (7_250, 500));
    assert_eq!(events[0]["name"], "a \"ts\": 5, b");
}

#[test]
fn four_ranks_of_a_server() {
    let Some(shared) = shared() else { return };
    let (collectives, found) = all_agree(&set_a(&shared));
    println!("offsets: {found:?}");
    assert_eq!(collectives.len(), 392);
    assert_ms(collectives.iter().flatten().map(|kernel| kernel.dur).sum(), 170.06);
    let events = collectives.iter().map(|members| event_by_clocks(members, &[0, 175, 630, 1011]));
    let clocks = sums(&events.collect::<Vec<_>>(), true);
    assert_ms(clocks.waited.iter().sum(), 138.69);
    for (rank, ms) in [0.27, 0.84, 61.43, 76.16].into_iter().enumerate() {
        assert_ms(clocks.caused[rank], ms);
    }
    let lengths = sums(&collectives.iter().map(|members| event_by_lengths(members)).collect::<Vec<_>>(), false);
    println!("{clocks:?}\n{lengths:?}");
    assert_ms(lengths.waited.iter().sum(), 138.17);
    assert_ms(lengths.caused[3], 71.61);
    assert_ms(lengths.caused[2], 58.94);
    assert_eq!(lengths.together, 298);
}

#[test]
fn eight_ranks_of_a_training() {
    let Some(shared) = shared() else { return };
    let (collectives, found) = all_agree(&param(&shared));
    println!("offsets: {found:?}");
    assert_eq!(collectives.len(), 8);
    assert_ms(collectives.iter().flatten().map(|kernel| kernel.dur).sum(), 48.54);
    let clocks = sums(&collectives.iter().map(|members| event_by_clocks(members, &found)).collect::<Vec<_>>(), true);
    let lengths = sums(&collectives.iter().map(|members| event_by_lengths(members)).collect::<Vec<_>>(), false);
    println!("{clocks:?}\n{lengths:?}");
    // Its times are whole microseconds, so eight ends do not say more exactly how far the clocks are apart.
    assert_near(clocks.waited.iter().sum(), 46.86);
    assert_near(clocks.caused[7], 35.56);
    assert_ms(lengths.waited.iter().sum(), 46.81);
    assert_ms(lengths.caused[7], 35.54);
}
