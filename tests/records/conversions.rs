//! Recordings in the forms of other programs, read again: the forms keep times, numbers and counts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use nccl_stacks_recorder_format::{Kind, Record};
use serde_json::Value;

use crate::recorder::{EPOCH, Process};
use crate::support::program::{run, stderr};

/// Converts a recording by the program; the path of what it wrote, in the same folder, and what it said.
fn convert(input: &Path, flag: &str, name: &str) -> (std::path::PathBuf, String) {
    let path = input.parent().unwrap().join(name);
    let output = run(&["export", input.to_str().unwrap(), flag, path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    (path, stderr(&output))
}

fn events(path: &Path) -> Vec<Value> {
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    trace["traceEvents"].as_array().unwrap().clone()
}

/// Calls every 100 µs, each of which has a channel that the GPU starts 10 µs later and runs for 50 µs, and that the host sees 1 µs late. The GPU's clock
/// is so many ns ahead of the host's.
fn with_gpu_clock(process: &Process, ahead: i64) {
    for number in 0..20 {
        let at = number * 100_000;
        process.call(at, 1, "ncclAllReduce", 1024);
        let [function, dtype, algorithm, protocol] =
            ["AllReduce", "ncclFloat32", "RING", "LL128"].map(|text| process.writer.text(text.as_bytes()));
        let coll = Record { communicator: 1, a: 1024, channel: 1, ..Record::new(Kind::Coll) };
        // A call that has returned is not the one of the plan; NCCL plans within it.
        let coll = process.put(at + 50, Record { function, dtype, algorithm, protocol, ..coll });
        let gpu = (EPOCH + at + 10_000 + ahead).cast_unsigned();
        let kernel = process.put(at + 11_000, Record { parent: coll, a: gpu, ..Record::new(Kind::KernelChannel) });
        process.state(at + 61_000, kernel, 22, gpu + 50_000);
    }
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
        let (calls, kernels) = (of("call"), of("kernel"));
        assert_eq!((calls.len(), kernels.len()), (20, 20));
        for (call, kernel) in calls.iter().zip(&kernels) {
            // If the clocks agree the GPU's times are as they are, else they are where the host saw them.
            let after = if ahead == 0 { 10.0 } else { 11.0 };
            assert_eq!((kernel.0 - call.0, kernel.1), (after, 50.0), "{ahead}");
        }
        let starts = events.iter().filter(|event| event["ph"] == "s").count();
        assert_eq!(starts, 20, "a flow leads from each call to its kernel");
        let rows = crate::support::program::stdout(&run(&[
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
