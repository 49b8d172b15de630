//! Collectives that are not judged: outside of the span that the traces of all ranks have, and of kernels that show nothing about waiting. The
//! verdict says how much that is, and the tables are of the rest, as the verdict is.

use serde_json::{Value, json};

use crate::job::Job;
use crate::ranks::inputs::{Files, assert_names, late};
use crate::support::program::{json_of, run, stderr_of, stdout, verdict_of};

/// A kernel of which it is unknown what it does.
const MSCCLPP: &str = "void mscclpp::executionKernel<__half, mscclpp::LL8Packet, true>(int)";

fn answer(traces: &[String], options: &[&str]) -> Value {
    let traces: Vec<&str> = traces.iter().map(String::as_str).collect();
    json_of(&[&["ranks", "--quiet", "--json"], options, &traces].concat())
}

fn is_collective(event: &str) -> bool {
    event.contains("\"cat\": \"kernel\"") && event.contains("\"name\": \"nccl")
}

/// A time of an event, in ns: the job writes µs with three decimals.
fn nanos(event: &str, key: &str) -> Option<i64> {
    let (_, rest) = event.split_once(&format!("\"{key}\": "))?;
    let number: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    number.replace('.', "").parse().ok()
}

/// The starts and lengths of a rank's collectives.
fn collectives(files: &Files, rank: u32) -> Vec<(i64, i64)> {
    let mut found = Vec::new();
    files.edited(rank, "unused.json", |event| {
        let time = |key| nanos(event, key).unwrap();
        is_collective(event).then(|| found.push((time("ts"), time("dur"))));
        None
    });
    found.sort_unstable();
    found
}

/// The trace of a rank without what starts before its collective number `from`, or at or after its collective number `to`.
fn cut(files: &Files, folder: &str, rank: u32, (from, to): (usize, usize)) -> String {
    let starts = collectives(files, rank);
    let (first, last) = (starts[from].0, starts.get(to).map_or(i64::MAX, |(start, _)| *start));
    files.edited(rank, &format!("{folder}/rank{rank}.json"), |event| {
        let is_in = (if from == 0 { i64::MIN } else { first }..last).contains(&nanos(event, "ts").unwrap());
        // Names, and the mark that ends the file.
        (is_in || !event.contains("\"ph\": \"X\"") || event.contains("traceName")).then(|| event.to_owned())
    })
}

/// Each trace with its part of the collectives.
fn cut_all(files: &Files, folder: &str, parts: [(usize, usize); 4]) -> Vec<String> {
    (0..).zip(parts).map(|(rank, part)| cut(files, folder, rank, part)).collect()
}

fn of_ranks(answer: &Value, field: &str) -> Vec<Value> {
    answer["ranks"].as_array().unwrap().iter().map(|rank| rank[field].clone()).collect()
}

#[test]
fn traces_of_different_lengths_are_judged_over_what_all_have() {
    let files = Files::new(&late());
    let all: Vec<Vec<(i64, i64)>> = (0..4).map(|rank| collectives(&files, rank)).collect();
    let (count, whole) = (all[0].len(), (0, all[0].len()));
    assert_eq!(count, 9);
    for (name, parts, (from, to)) in [
        ("another-ends", [whole, whole, whole, (0, 4)], (0, 4)),
        ("the-late-one-ends", [whole, whole, (0, 5), whole], (0, 5)),
        ("one-begins-later", [(3, count), whole, whole, whole], (3, count)),
        ("all-differ", [(1, 8), (2, 7), (0, 6), whole], (2, 6)),
    ] {
        let traces = cut_all(&files, name, parts);
        let equal = cut_all(&files, &format!("{name}-equal"), [(from, to); 4]);
        let [cut, expected] = [&traces, &equal].map(|traces| answer(traces, &["--clock", "none"]));
        for field in ["collectives", "waited_ns", "measured_ns", "late", "together", "doubtful", "pairs"] {
            assert_eq!(cut[field], expected[field], "{name}: {field}");
        }
        for field in ["waited_ns", "caused_ns", "added_ns", "late_count", "transfer_ns"] {
            assert_eq!(of_ranks(&cut, field), of_ranks(&expected, field), "{name}: {field}");
        }
        // The rest of each trace is left out, and it is said how much that is: first if it is most.
        let rest = |(rank, (first, last)): (usize, (usize, usize))| -> i64 {
            (first..last).filter(|at| !(from..to).contains(at)).map(|at| all[rank][at].1).sum()
        };
        let left_out: Vec<i64> = parts.into_iter().enumerate().map(rest).collect();
        assert_eq!(of_ranks(&cut, "left_out_ns"), left_out.iter().map(|of| json!(of)).collect::<Vec<_>>(), "{name}");
        let is_most = 2 * left_out.iter().sum::<i64>() >= cut["gpu_ns"].as_i64().unwrap();
        assert_eq!(verdict_of(&cut).starts_with("Left out: "), is_most, "{name}: {}", verdict_of(&cut));
        let said = |answer: &Value| format!("{} {}", answer["verdict"], answer["notes"]);
        assert_eq!(said(&cut).matches("Left out: ").count(), 1, "{}", said(&cut));
        assert!(!said(&expected).contains("Left out"), "{}", said(&expected));
        // With clocks, the verdict names the rank that caused the waiting.
        let cut = answer(&traces, &[]);
        assert_eq!(cut["collectives"], expected["collectives"], "{name}");
        let of = |value: &Value| value.as_f64().unwrap();
        let share = 100.0 * of(&cut["ranks"][2]["caused_ns"]) / of(&cut["waited_ns"]);
        assert!(share > 95.0, "{name}: {share}");
        // Of a trace that begins or ends elsewhere than the others too little may be like theirs.
        let named = &cut["reruns"]["findings"][0]["ranks"];
        assert!(*named == json!([2]) || name == "all-differ" && named.is_null(), "{name}: {}", cut["reruns"]);
    }
}

/// A kernel that was lost is followed by others, so its trace has not ended there.
#[test]
fn a_lost_kernel_is_not_the_end_of_a_trace() {
    let files = Files::new(&late());
    let mut traces = files.ranks(&[0, 1, 2]);
    let mut before = 0;
    traces.push(files.edited(3, "lost/rank3.json", |event| {
        before += usize::from(is_collective(event));
        (before != 5 || !is_collective(event)).then(|| event.to_owned())
    }));
    let answer = answer(&traces, &[]);
    assert_eq!((&answer["matches"]["partial"], &answer["doubtful"]), (&json!(3), &json!(1)));
    assert_eq!(of_ranks(&answer, "left_out_ns"), [0, 0, 0, 0].map(|none| json!(none)));
    assert!(!verdict_of(&answer).contains("Left out"), "{}", verdict_of(&answer));
}

/// Of two tensor-parallel groups only one has the rank whose trace ends; the other is tied to it by the data-parallel groups.
#[test]
fn the_end_of_a_trace_concerns_other_groups_too() {
    let files = Files::new(&Job { tp: 2, dp: 2, steps: 6, ..late() });
    let each = collectives(&files, 0).len() / 6;
    let mut traces = files.ranks(&[0, 1, 2]);
    traces.push(cut(&files, "cut", 3, (0, 2 * each)));
    let answer = answer(&traces, &[]);
    let left_out: Vec<i64> = of_ranks(&answer, "left_out_ns").iter().map(|of| of.as_i64().unwrap()).collect();
    // Two of six steps are judged, and of ranks 0 and 1 also what they did together before the next collective with the other ranks.
    for (rank, left_out) in left_out.into_iter().enumerate() {
        let all = collectives(&files, rank as u32);
        let after = |steps: usize| all[steps * each..].iter().map(|(_, dur)| dur).sum::<i64>();
        match rank {
            3 => assert_eq!(left_out, 0),
            2 => assert_eq!(left_out, after(2)),
            _ => assert!(after(3) <= left_out && left_out < after(2), "{left_out}: {} to {}", after(3), after(2)),
        }
    }
    assert_eq!(answer["doubtful"], 0);
}

/// The traces of a job whose graphs are replayed, so that nothing is recorded of a kernel but its name: in place of some collectives there are kernels
/// of another library. With them the time of these, and of all.
fn with_mscclpp(files: &Files, folder: &str, is_other: fn(usize) -> bool) -> (Vec<String>, i64, i64) {
    let (mut other, mut all) = (0, 0);
    let mut trace = |rank: u32| {
        let mut number = 0;
        files.edited(rank, &format!("{folder}/rank{rank}.json"), |event| {
            if !is_collective(event) {
                return Some(event.to_owned());
            }
            number += 1;
            let dur = nanos(event, "dur").unwrap();
            all += dur;
            if !is_other(number) {
                return Some(event.to_owned());
            }
            other += dur;
            let (before, rest) = event.split_once("\"name\": \"").unwrap();
            let (_, rest) = rest.split_once('"').unwrap();
            Some(format!("{before}\"name\": \"{MSCCLPP}\"{rest}"))
        })
    };
    let traces = (0..4).map(&mut trace).collect();
    (traces, other, all)
}

#[test]
fn kernels_that_show_nothing_are_said_in_the_verdict() {
    let files = Files::new(&Job { graphs: true, ..late() });
    let millis = |nanos: i64| format!("{:.2} ms", nanos as f64 / 1e6);
    let (traces, other, all) = with_mscclpp(&files, "mixed", |number| number % 3 != 0);
    let mixed = answer(&traces, &[]);
    let said = format!(
        "No waiting can be measured in {:.1} % of collectives' time: {} of {} over all ranks, in kernels of mscclpp.",
        100.0 * other as f64 / all as f64,
        millis(other),
        millis(all)
    );
    assert_eq!(mixed["unmeasured_ns"], json!({ "mscclpp": other }));
    assert_eq!(mixed["gpu_ns"], all);
    assert!(verdict_of(&mixed).contains(&said), "{said}: {}", verdict_of(&mixed));
    assert!(!mixed["notes"].to_string().contains("Not measured"), "{}", mixed["notes"]);
    let folder = [files.path("mixed")];
    for format in ["text", "html"] {
        let output = run(&["ranks", "--quiet", "--format", format, &folder[0]]);
        assert_names(&stdout(&output).replace('\n', " "), &["No waiting can be measured in", "in kernels of mscclpp"]);
    }
    // If there is nothing else, nothing is known. If there is nothing of the kind, nothing is said.
    let none = answer(&with_mscclpp(&files, "all", |_| true).0, &[]);
    assert_names(&verdict_of(&none), &["No collective can be measured", "100.0 % of collectives' time"]);
    let whole = answer(&with_mscclpp(&files, "whole", |_| false).0, &[]);
    assert_eq!(whole["unmeasured_ns"], json!({}));
    assert!(!verdict_of(&whole).contains("measured"), "{}", verdict_of(&whole));
}

/// Who waits at a send or receive only clocks can show.
#[test]
fn clocks_are_asked_for_where_they_would_help() {
    let files = Files::new(&Job { tp: 2, pp: 2, ..late() });
    let traces = files.ranks(&[0, 1, 2, 3]);
    let without = answer(&traces, &["--clock", "none"]);
    assert_names(&verdict_of(&without), &["No waiting can be measured in", "; aligned clocks would show who waits "]);
    let with = answer(&traces, &[]);
    assert!(!verdict_of(&with).contains("aligned clocks"), "{}", verdict_of(&with));
    // Not for kernels of which no clock shows more.
    let files = Files::new(&Job { graphs: true, ..late() });
    let unknown = answer(&with_mscclpp(&files, "mixed", |number| number % 3 != 0).0, &["--clock", "none"]);
    assert_names(&verdict_of(&unknown), &["in kernels of mscclpp."]);
    assert!(!verdict_of(&unknown).contains("aligned clocks"), "{}", verdict_of(&unknown));
}

/// The arguments of a kernel, with those that all have.
fn of_kernel(id: usize, is_collective: bool, args: &Value) -> Value {
    let common = json!({"correlation": id, "stream": 7, "device": 0});
    let group = json!({"Group size": 3, "dtype": "Float", "Process Group Name": "0",
        "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1, 2]"});
    let of_group = if is_collective { &group } else { &Value::Null };
    [&common, of_group, args].into_iter().filter_map(Value::as_object).flat_map(Clone::clone).collect()
}

/// A rank's six all-reduces, and an all-to-all with these parts, to which rank 1 comes 400 µs later than the others. The more a rank gets, the longer it takes.
fn uneven(rank: usize, parts: [[u32; 3]; 3]) -> String {
    let mut events = Vec::new();
    let mut add = |id: usize, name: &str, ts: usize, dur: usize, args: Value| {
        let args = of_kernel(id, true, &args);
        events.push(json!({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": 1, "tid": 1, "ts": ts - 20, "dur": 10,
            "args": {"correlation": id}}));
        events.push(
            json!({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": args}),
        );
    };
    for at in 1..7 {
        let args = json!({"Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 1024});
        add(at, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 1000 * at, 50, args);
    }
    let (sent, got) = (parts[rank], parts.map(|of| of[rank]));
    let (start, end) = (if rank == 1 { 10_400 } else { 10_000 }, 10_500 + got.iter().sum::<u32>() as usize);
    let args = json!({"Collective name": "all_to_allv", "In msg nelems": sent.iter().sum::<u32>(), "Out msg nelems": got.iter().sum::<u32>(),
        "In split size": format!("{sent:?}"), "Out split size": format!("{got:?}")});
    add(7, "ncclDevKernel_SendRecv(x)", start, end - start, args);
    let info = json!({"backend": "nccl", "rank": rank, "world_size": 3});
    json!({"distributedInfo": info, "traceEvents": events}).to_string()
}

/// Where each rank gets something from each, none ends before all have come. Where some may get nothing, nothing shows who waits.
#[test]
fn all_to_alls_are_measured_where_all_get_something() {
    let files = Files::new(&late());
    for (name, parts, waited) in [
        ("uneven", [[10, 20, 60], [20, 30, 40], [30, 30, 50]], [400_000, 0, 400_000]),
        ("even", [[30; 3]; 3], [400_000, 0, 400_000]),
        ("some-get-nothing", [[10, 20, 60], [20, 0, 40], [30, 30, 50]], [0; 3]),
    ] {
        let traces: Vec<String> =
            (0..3).map(|rank| files.put(&format!("{name}/rank{rank}.json"), uneven(rank, parts).as_bytes())).collect();
        let answer = answer(&traces, &[]);
        let of_clocks = |time: &Value| (time.as_i64().unwrap() + 500) / 1000 * 1000;
        let found: Vec<i64> = of_ranks(&answer, "waited_ns").iter().map(of_clocks).collect();
        assert_eq!(found, waited, "{name}: {answer}");
        let unmeasured = answer["unmeasured_ns"].get("alltoall").is_some();
        assert_eq!(unmeasured, name == "some-get-nothing", "{name}: {answer}");
    }
}

/// Steps in which three ranks send each other parts, compute on what they got, which takes rank 2 as much longer, and send it back.
fn experts(rank: usize, steps: usize, of_last: u32) -> String {
    let (mut events, mut id) = (Vec::new(), 0);
    let parts = [100, 100, of_last];
    let (own, got) = (parts.iter().sum::<u32>(), 3 * parts[rank]);
    let (sent, back) = (format!("{parts:?}"), format!("{:?}", [parts[rank]; 3]));
    for step in 0..steps {
        let begin = 2_000 * step;
        let (computed, all) = (if rank == 2 { 600 } else { 200 }, 600);
        for (at, name, start, dur, args) in [
            (
                0,
                "ncclDevKernel_SendRecv(x)",
                100,
                100,
                json!({"Collective name": "all_to_allv", "In msg nelems": own, "Out msg nelems": got,
                "In split size": sent, "Out split size": back}),
            ),
            (1, "gemm(x)", 200, computed, json!({})),
            (
                2,
                "ncclDevKernel_SendRecv(x)",
                200 + computed,
                all - computed + 100,
                json!({"Collective name": "all_to_allv",
                "In msg nelems": got, "Out msg nelems": own, "In split size": back, "Out split size": sent}),
            ),
            (
                3,
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)",
                900,
                50,
                json!({"Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 1024}),
            ),
        ] {
            id += 1;
            let args = of_kernel(id, name != "gemm(x)", &args);
            events.push(json!({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": 1, "tid": 1,
                "ts": begin + 10 * at, "dur": 8, "args": {"correlation": id}}));
            events.push(json!({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": begin + start, "dur": dur, "args": args}));
        }
        events.push(json!({"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "pid": 1, "tid": 1,
            "ts": begin + 50, "dur": 905, "args": {"correlation": 1000 + step}}));
    }
    let info = json!({"backend": "nccl", "rank": rank, "world_size": 3});
    json!({"distributedInfo": info, "traceEvents": events}).to_string()
}

/// A rank whose kernels take longer because it is given more is no slow GPU.
#[test]
fn a_rank_that_receives_more_is_no_slow_one() {
    let files = Files::new(&late());
    // Of ranks 0 and 1 only half of the steps may be there.
    for (name, of_last, steps) in [("more", 300, 12), ("slow", 100, 12), ("more", 300, 6), ("slow", 101, 6)] {
        let traces: Vec<String> = (0..3)
            .map(|rank| {
                let text = experts(rank, if rank == 2 { 12 } else { steps }, of_last);
                files.put(&format!("{name}/rank{rank}.json"), text.as_bytes())
            })
            .collect();
        // As much in each, however many there are.
        let text = stdout(&run(&["ranks", &traces[0], &traces[1], &traces[2]]));
        assert_eq!(text.contains("; rank 2 receives 1.4 times the mean"), name == "more", "{name}: {text}");
        assert_eq!(text.contains(" times the mean"), name == "more", "{name}: {text}");
        if steps < 12 {
            continue;
        }
        let answer = answer(&traces, &[]);
        let of_rank = |found: &&Value| found["place"]["ranks"] == json!([2]) && found["what"] == "rank 2: gemm";
        let Some(found) = answer["findings"].as_array().unwrap().iter().find(of_rank) else {
            panic!("{name}: {answer}");
        };
        let texts = found.to_string();
        // It gets 900 elements and, in the second one, 500; the others 300 and 500.
        assert_eq!(texts.contains("Rank 2 receives 1.4 times the mean"), name == "more", "{name}: {found}");
        assert_eq!(texts.contains("see how data is distributed"), name == "more", "{name}: {found}");
        let loads =
            answer["stacks"].as_array().unwrap().iter().flat_map(|stack| stack["loads"].as_array().unwrap()).count();
        assert_eq!(loads > 0, name == "more", "{name}: {answer}");
    }
}

/// A trace that is cut off before its first collective leaves its rank out, and that is said before anything else. Whole traces have no such sentence.
#[test]
fn a_rank_that_is_left_out_for_its_damage_is_said_first() {
    let files = Files::new(&late());
    let traces: Vec<String> = (0..4).map(|rank| files.path(&format!("rank{rank}.json"))).collect();
    let first = |traces: &[String]| {
        let args: Vec<&str> = ["ranks", "--quiet"].into_iter().chain(traces.iter().map(String::as_str)).collect();
        stdout(&run(&args)).lines().take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(!first(&traces).iter().any(|line| line.contains("cut off") || line.contains("Not here")));
    let text = std::fs::read(&traces[0]).unwrap();
    let until = text.windows(13).position(|part| part == b"ncclDevKernel").unwrap();
    std::fs::write(&traces[0], &text[..until]).unwrap();
    let said = first(&traces);
    assert!(said[0].starts_with("Not here: rank 0. ") && said[0].ends_with("upper bounds."), "{said:?}");
    assert!(said[1].contains("rank0.json is cut off (copy it again, or record again)"), "{said:?}");
    // With no other trace, what is missing may have had collectives; what is whole has none of that name.
    for (command, args, code) in [
        ("ranks", vec![traces[0].as_str()], 6),
        ("what-if", vec![traces[0].as_str()], 6),
        ("ranks", vec![traces[1].as_str(), "--kernel-name", "no_such_kernel"], 3),
    ] {
        stderr_of(&[&[command][..], &args].concat(), code);
    }
}
