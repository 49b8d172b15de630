//! Recordings in the forms of other programs, read again: the forms keep times, numbers and counts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use nccl_stacks::analysis::recorded::{self, Diagnosis};
use nccl_stacks::records::{Keep, Records, read_all};
use nccl_stacks_recorder_format::{Kind, Record};
use serde_json::Value;

use crate::recorder::{EPOCH, Process};
use crate::support::program::{run, run_json, stacks, stderr, stdout};

/// Converts a recording by the program; the path of what it wrote, in the same folder, and what it said.
fn convert(input: &Path, flag: &str, name: &str) -> (std::path::PathBuf, String) {
    let folder = if input.is_dir() { input } else { input.parent().unwrap() };
    let path = folder.join(name);
    let output = run(&["export", input.to_str().unwrap(), flag, path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    (path, stderr(&output))
}

fn events(path: &Path) -> Vec<Value> {
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    trace["traceEvents"].as_array().unwrap().clone()
}

/// Calls every 100 µs, each of which has a kernel.
fn with_gpu_clock(process: &Process, ahead: i64) {
    for number in 0..20 {
        let at = number * 100_000;
        let function = process.writer.text(b"ncclAllReduce");
        process.put(at, Record { communicator: 1, function, a: 1024, dtype: 8, ..Record::new(Kind::Call) });
        process.kernel(at + 50, "AllReduce", number as u64, ahead);
    }
}

impl Process {
    /// A collective that the plugin sees, with a channel that the GPU starts 10 µs later and runs for 50 µs, and that the host sees 1 µs late. The GPU's
    /// clock is so many ns ahead of the host's.
    fn kernel(&self, at: i64, function: &str, number: u64, ahead: i64) {
        let [function, dtype, algorithm, protocol] =
            [function, "ncclFloat32", "RING", "LL128"].map(|text| self.writer.text(text.as_bytes()));
        let coll = Record { communicator: 1, a: 1024, b: number, channel: 1, ..Record::new(Kind::Coll) };
        let coll = self.put(at, Record { function, dtype, algorithm, protocol, ..coll });
        let gpu = (EPOCH + at + 10_000 + ahead).cast_unsigned();
        let kernel = self.put(at + 11_000, Record { parent: coll, a: gpu, ..Record::new(Kind::KernelChannel) });
        self.state(at + 61_000, kernel, 22, gpu + 50_000);
    }
}

/// Four functions take turns, each a hundred times; the recorder counts all of them, NCCL each by itself, from 0.
#[test]
fn lines_of_inspector_count_each_function() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::bare(folder.path(), [0, 2, 0], 7, 1 << 12);
    [2, 1].into_iter().for_each(|by| process.communicator(by, 0xabc, 0, 2));
    let functions = ["AllReduce", "AllGather", "ReduceScatter", "Broadcast"];
    for number in 0..400 {
        let name = functions[number as usize % 4];
        let function = process.writer.text(format!("nccl{name}").as_bytes());
        let c = u64::from(process.writer.next_collective(1)) << 32;
        let call = Record { communicator: 1, function, a: 1024, c, dtype: 8, ..Record::new(Kind::Call) };
        process.put(number * 100_000, call);
        process.kernel(number * 100_000 + 50, name, number as u64 / 4, 0);
    }
    let records = process.read();
    assert_eq!(
        records.operations.iter().filter_map(|row| row.sequence).collect::<Vec<_>>(),
        (1..=400).collect::<Vec<_>>()
    );
    let (path, _) = convert(&process.path, "--inspector", "out.jsonl");
    let again = read_all(std::slice::from_ref(&path), Keep::All, 1);
    let seen: Vec<_> = again.operations.iter().map(|row| (row.collective.as_deref(), row.sequence)).collect();
    let names = ["all_reduce", "all_gather", "reduce_scatter", "broadcast"];
    let expected: Vec<_> = (0..400).map(|number| (Some(names[number % 4]), Some(number as i64 / 4))).collect();
    assert_eq!(seen, expected);
    let has_gaps =
        |records: &Records| recorded::of(records).diagnoses.iter().any(|of| matches!(of, Diagnosis::Gaps { .. }));
    assert!(!has_gaps(&again));
    // A line that is not there is missed.
    let text = std::fs::read_to_string(&path).unwrap();
    let kept: Vec<&str> = text.lines().enumerate().filter(|(at, _)| *at != 200).map(|(_, line)| line).collect();
    std::fs::write(&path, kept.join("\n")).unwrap();
    assert!(has_gaps(&read_all(&[path], Keep::All, 1)));
}

/// The main job on the trace: each operation is a kernel of NCCL, and its stack is its call.
#[test]
fn the_main_job_reads_a_trace_of_records() {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..2 {
        let process = Process::new(folder.path(), rank, 2, &[2, 1]);
        let functions = ["AllReduce", "AllGather"];
        for number in 0..10 {
            let (at, name) = (number * 100_000 + i64::from(rank) * 1_000, functions[number as usize % 2]);
            let function = process.writer.text(format!("nccl{name}").as_bytes());
            let c = u64::from(process.writer.next_collective(1)) << 32;
            let call = Record { communicator: 1, function, a: 1024, b: 0x77, c, dtype: 8, ..Record::new(Kind::Call) };
            process.put(at, call);
            process.kernel(at + 50, name, number as u64 / 2, 5_000_000_000);
        }
        process.set_clock();
    }
    let (path, _) = convert(folder.path(), "--chrome", "trace.json");
    let path = path.to_str().unwrap();
    let output = run_json(&[path]);
    let seen: Vec<(u64, Vec<String>)> = stacks(&output);
    let expected = |name: &str| (10, vec![format!("nccl{name}")]);
    assert_eq!(seen, ["AllGather", "AllReduce"].map(expected), "{}", stdout(&output));
    let query = "SELECT c.rank, c.collective, c.seq, c.bytes, c.group_size, l.evidence, s.name AS kernel, c.dur, count(*) AS count \
                 FROM collective AS c JOIN kernel_launch AS l ON l.kernel_id = c.kernel_id JOIN slice AS s ON s.id = c.kernel_id \
                 WHERE c.seq < 3 GROUP BY 1, 2, 3 ORDER BY 1, 3";
    let rows = stdout(&run(&["sql", path, query, "--quiet", "--format", "csv"]));
    // 1024 floats, which each of two ranks gives; 50 µs.
    let row = |rank: u32, name: &str, seq: u32, bytes: u32, kernel: &str| {
        format!("{rank},\"{name}\",{seq},{bytes},2,\"correlation\",\"ncclDevKernel_{kernel}_RING_LL128\",50000,1")
    };
    let of_rank = |rank| [row(rank, "all_reduce", 1, 4096, "AllReduce"), row(rank, "all_gather", 2, 8192, "AllGather")];
    let expected: Vec<String> = [0, 1].into_iter().flat_map(of_rank).collect();
    assert_eq!(rows.lines().skip(1).collect::<Vec<_>>(), expected);
}

#[test]
fn kernels_in_a_trace_are_on_the_clock_of_their_calls() {
    for ahead in [5_000_000_000, -5_000_000_000, 0] {
        let folder = tempfile::tempdir().unwrap();
        let process = Process::new(folder.path(), 0, 2, &[2, 1]);
        with_gpu_clock(&process, ahead);
        process.set_clock();
        let (path, _) = convert(&process.path, "--chrome", "trace.json");
        let events = events(&path);
        let of = |cat: &str| -> Vec<(f64, f64)> {
            let of = events.iter().filter(|event| event["cat"] == cat && event["ph"] == "X");
            of.map(|event| (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap())).collect()
        };
        let (calls, kernels) = (of("nccl_runtime"), of("kernel"));
        assert_eq!((calls.len(), kernels.len()), (20, 20));
        for (call, kernel) in calls.iter().zip(&kernels) {
            // If the clocks agree the GPU's times are as they are, else they are where the host saw them.
            let after = if ahead == 0 { 10.05 } else { 11.05 };
            assert!((kernel.0 - call.0 - after).abs() < 1e-6, "{ahead}: {call:?} {kernel:?}");
            assert_eq!(kernel.1, 50.0);
        }
        assert_eq!(of("channel"), kernels);
        let starts = events.iter().filter(|event| event["ph"] == "s").count();
        assert_eq!(starts, 20, "a flow leads from each call to its kernel");
        let rows = stdout(&run(&[
            "sql",
            process.path.to_str().unwrap(),
            "SELECT DISTINCT gpu_ts + gpu_offset - ts AS difference FROM kernel_channel",
            "--quiet",
            "--format",
            "csv",
        ]));
        assert_eq!(rows.trim_end(), if ahead == 0 { "\"difference\"\n-1000" } else { "\"difference\"\n0" });
    }
}
