//! Files into which the traces of several ranks were merged, as people do it: one after the other, with the header of the first.

use std::process::Output;

use serde_json::Value;

use crate::job::{Job, Offsets};
use crate::ranks::inputs::{Files, assert_names, late};
use crate::support::program::{run, stderr, stdout};

/// How the processes and GPUs of a rank are kept apart from those of others.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Apart {
    /// By numbers alone.
    Numbers,
    /// By numbers and by names.
    Names,
    /// By texts for numbers.
    Texts,
    /// By numbers, and an argument of each kernel.
    Arguments,
    /// Not at all.
    Nothing,
}

/// Merges the traces of four ranks.
fn merged(files: &Files, apart: Apart) -> String {
    let mut text = String::new();
    for rank in 0..4_u32 {
        let edited = files.edited(rank, "unused.json", |event| {
            let Some((before, rest)) = event.split_once("\"pid\": ") else { return Some(event.to_owned()) };
            let (pid, rest) = rest.split_once(',').unwrap();
            // Kineto's marks have texts.
            let Ok(number) = pid.parse::<u64>() else { return Some(event.to_owned()) };
            let other = number + 100_000_000 * u64::from(rank);
            let pid = match apart {
                Apart::Nothing => number.to_string(),
                Apart::Texts => format!("\"[TP{rank:02}] {number}\""),
                _ => other.to_string(),
            };
            let mut event = format!("{before}\"pid\": {pid},{rest}");
            if apart == Apart::Names && event.contains("\"process_name\"") {
                event = event.replace("\"name\": \"python\"", &format!("\"name\": \"RANK {rank} - python\""));
            }
            if apart == Apart::Arguments && event.contains("\"cat\": \"kernel\"") {
                event = event.replace("\"queued\"", &format!("\"rank\": {rank}, \"queued\""));
            }
            Some(event)
        });
        let trace = std::fs::read_to_string(edited).unwrap();
        let (header, events) = trace.split_once("\"traceEvents\": [").unwrap();
        let (events, _) = events.split_once("\n  ],\n").unwrap();
        text += &if rank == 0 { format!("{header}\"traceEvents\": [{events}") } else { format!(",{events}") };
    }
    files.put(&format!("merged/{apart:?}.json"), (text + "\n  ]\n}\n").as_bytes())
}

fn ranks(traces: &[&str], options: &[&str]) -> Output {
    run(&[&["ranks", "--quiet", "--json"], options, traces].concat())
}

/// What is said of the job, without the names and the windows of traces: a merged file has one window.
fn facts(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    let mut answer: Value = serde_json::from_str(&stdout(output)).unwrap();
    for gone in ["trace", "damage"] {
        assert!(answer.as_object_mut().unwrap().remove(gone).is_some());
    }
    for rank in answer["ranks"].as_array_mut().unwrap() {
        for gone in ["trace", "window", "wall_ns", "queue_empty_share"] {
            assert!(rank.as_object_mut().unwrap().remove(gone).is_some());
        }
    }
    answer
}

/// All ranks have the same correlation ids, and clocks that show nothing.
#[test]
fn merged_ranks_are_those_of_their_traces() {
    use Apart::{Arguments, Names, Numbers, Texts};
    let jobs = [
        (late(), &[Numbers, Names, Texts, Arguments][..]),
        (Job { offsets: Offsets::None, ..late() }, &[Numbers, Names, Texts, Arguments]),
        (Job { offsets: Offsets::None, tp: 2, dp: 2, ..late() }, &[Numbers, Names, Texts, Arguments]),
        // Nothing is recorded of replayed kernels, and no argument of such a kernel is loaded.
        (Job { offsets: Offsets::None, graphs: true, ..late() }, &[Names, Texts]),
    ];
    for (job, all) in jobs {
        let files = Files::new(&job);
        let traces = files.ranks(&[0, 1, 2, 3]);
        let traces: Vec<&str> = traces.iter().map(String::as_str).collect();
        let expected = facts(&ranks(&traces, &[]));
        assert!(expected["verdict"].to_string().contains("rank 2"), "{}", expected["verdict"]);
        for apart in all {
            assert_eq!(facts(&ranks(&[&merged(&files, *apart)], &[])), expected, "{apart:?} {job:?}");
        }
    }
}

/// Where nothing says which rank a GPU is, the error names what to give.
#[test]
fn merged_ranks_that_nothing_names_can_be_given() {
    let files = Files::new(&Job { graphs: true, ..late() });
    let traces = files.ranks(&[0, 1, 2, 3]);
    let expected = facts(&ranks(&traces.iter().map(String::as_str).collect::<Vec<_>>(), &[]));
    let merged = merged(&files, Apart::Numbers);
    let output = ranks(&[&merged], &[]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert_names(&stderr(&output), &["Numbers.json/GPU 0: ", "--rank RANK=TRACE"]);
    let given = ["0=GPU 0", "1=GPU 100000000", "2=Numbers.json/GPU 200000000", "3=GPU 300000000"];
    let options: Vec<&str> = given.iter().flat_map(|given| ["--rank", given]).collect();
    assert_eq!(facts(&ranks(&[&merged], &options)), expected);
}

/// Where the GPUs of several ranks have one number, nothing tells their kernels apart.
#[test]
fn merged_ranks_on_one_gpu_are_refused() {
    let files = Files::new(&late());
    let output = ranks(&[&merged(&files, Apart::Nothing)], &[]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert_names(&stderr(&output), &["Nothing.json/GPU 0: kernels of ranks 0-3", "the traces that were merged"]);
    assert!(!stderr(&output).contains("--rank"), "{}", stderr(&output));
}
