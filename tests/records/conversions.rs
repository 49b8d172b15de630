//! Recordings in the forms of other programs, read again: the forms keep times, numbers and counts.

use std::path::Path;

use nccl_stacks::answers::records::flows;
use nccl_stacks::records::{Keep, read_all};
use nccl_stacks_recorder_format::{Kind, Record};
use serde_json::{Value, json};

use crate::records::recorder::{EPOCH, Process};
use crate::support::program::{has, run, run_json, stacks, stderr_of, stdout};

/// Converts a recording by the program; the path of what it wrote, in the same folder, and what it said.
fn convert(input: &Path, flag: &str, name: &str) -> (std::path::PathBuf, String) {
    let folder = if input.is_dir() { input } else { input.parent().unwrap() };
    let path = folder.join(name);
    let said = stderr_of(&["export", input.to_str().unwrap(), flag, path.to_str().unwrap()], 0);
    (path, said)
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

/// An all-reduce of two ranks: the call with its number and reduction, a channel of its kernel, and proxies, each with its transfers from that time on.
fn all_reduce(process: &Process, number: u64, algorithm: &str, reduction: u8, proxies: &[(bool, &[i64])]) {
    let at = number as i64 * 1_000_000;
    let text = |text: &str| process.writer.text(text.as_bytes());
    let call = Record { communicator: 1, a: 1 << 20, c: number << 32, dtype: 8, ..Record::new(Kind::Call) };
    process.put(at, Record { function: text("ncclAllReduce"), algorithm: reduction, ..call });
    let [function, dtype, algorithm, protocol] = ["AllReduce", "ncclFloat32", algorithm, "SIMPLE"].map(text);
    let coll = Record { function, dtype, algorithm, protocol, b: number + 6, channel: 1, ..Record::new(Kind::Coll) };
    let coll = process.put(at + 10, Record { communicator: 1, a: 1 << 20, ..coll });
    let of = |kind, parent| Record { communicator: 1, parent, channel: 3, ..Record::new(kind) };
    let gpu = (EPOCH + at + 1_000).cast_unsigned();
    let kernel = process.put(at + 1_100, Record { a: gpu, ..of(Kind::KernelChannel, coll) });
    process.state(at + 900_000, kernel, 22, gpu + 500_000);
    for (is_send, times) in proxies {
        let op =
            Record { b: times.len() as u64 | 65_536 << 32, c: 1, small: u8::from(*is_send), ..of(Kind::ProxyOp, coll) };
        let op = process.put(at + 2_000, Record { a: 40, ..op });
        for (step, time) in (0..).zip(*times) {
            let step = process.put(at + time, Record { a: step, ..of(Kind::ProxyStep, op) });
            let states = if *is_send { [8, 20, 9] } else { [10, 11, 12] };
            states.into_iter().for_each(|state| process.state(at + time, step, state, 65_536));
            process.stop(at + time + 50, step);
        }
        process.stop(at + 800_000, op);
    }
}

fn lines(folder: &Path, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Numbers and reductions are the recorded ones, also where operations between them are in no line.
#[test]
fn flows_have_the_numbers_and_reductions_of_their_calls() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::new(folder.path(), 0, 2, &[2, 1]);
    let ring: &[(bool, &[i64])] = &[(true, &[3_000, 4_000, 5_000, 6_000]), (false, &[3_500, 4_500, 5_500, 6_500])];
    // NCCL's numbers from 0 with 1 added: the maximum, none, an average, one of the program's own.
    all_reduce(&process, 2, "RING", 3, ring);
    all_reduce(&process, 5, "RING", 5, ring);
    all_reduce(&process, 6, "RING", 255, ring);
    process.set_clock();
    let (flows, said) = convert(&process.path, "--flows", "flows");
    assert!(!said.contains("no proxy"), "{said}");
    let ops = lines(&flows, "proxy_flow_rank0.jsonl");
    let of = |line: &Value| ["opCount", "redOp", "seqNumber", "synthetic"].map(|key| line[key].clone());
    let expected = [json!([2, 2, 8, null]), json!([8, 0, 11, null]), json!([10, 0, 12, true])];
    assert_eq!(ops.iter().map(|line| json!(of(line))).collect::<Vec<_>>(), expected);
    let steps = lines(&flows, "flow_steps_rank0.jsonl");
    // Four transfers of two steps each, to and from the other rank.
    assert_eq!(steps.len(), 3 * 2 * 8);
    assert!(steps.iter().all(|step| step["stage"].is_string()));
    let numbers: Vec<u64> = steps.iter().step_by(16).map(|step| step["opCount"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [2, 8, 10]);
}

/// Where ranks exchange data without a proxy there are operations, and nobody is made up as their peer.
#[test]
fn channels_without_a_proxy_are_operations_without_peers() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::new(folder.path(), 0, 2, &[2, 1]);
    all_reduce(&process, 1, "RING", 1, &[]);
    process.set_clock();
    let (flows, said) = convert(&process.path, "--flows", "flows");
    has(&said, "no proxy was recorded for 1 channels of operations, as with NVLink");
    let text = std::fs::read_to_string(flows.join("proxy_flow_rank0.jsonl")).unwrap();
    // It ran from 1,001,000 ns on for 500 µs.
    let line = "{\"opCount\":0,\"rank\":0,\"channel\":3,\"nsteps\":0,\"nbytes\":0,\"chunkSize\":0,\"sliceSteps\":2,\"chunkSteps\":4,\
                \"dtype\":7,\"redOp\":0,\"pattern\":\"RING_TWICE\",\"protocol\":\"SIMPLE\",\"ringPrev\":-1,\"ringNext\":-1,\
                \"commHash\":2748,\"seqNumber\":7,\"ts_ns\":1700000000001001000,\"dur_ns\":500000,\"peers\":\"unknown\"}\n";
    assert_eq!(text, line);
    assert!(!flows.join("flow_steps_rank0.jsonl").exists());
    let report = flows::report(&read_all(&[flows.join("proxy_flow_rank0.jsonl")], Keep::All, 1)).unwrap();
    assert_eq!((report.runs[0].ops, report.runs[0].steps), (1, 0));
}

/// The tree of a channel is that of all operations: one whose times say nothing has the stages of the others.
#[test]
fn stages_of_a_tree_are_those_of_its_channel() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::new(folder.path(), 0, 2, &[2, 1]);
    let same: &[(bool, &[i64])] = &[(true, &[3_000]), (false, &[3_000])];
    all_reduce(&process, 1, "TREE", 1, same);
    process.set_clock();
    let stages = |name: &str| -> Vec<Value> {
        let (flows, _) = convert(&process.path, "--flows", name);
        lines(&flows, "flow_steps_rank0.jsonl").iter().map(|step| step["stage"].clone()).collect()
    };
    assert_eq!(stages("before"), [Value::Null, Value::Null]);
    // It sends before it receives: the other rank is its parent.
    all_reduce(&process, 2, "TREE", 1, &[(true, &[3_000]), (false, &[4_000])]);
    assert_eq!(stages("after"), ["tree-up", "tree-down", "tree-up", "tree-down"]);
    // Another operation says the contrary, so that nothing is sure.
    all_reduce(&process, 3, "TREE", 1, &[(true, &[5_000]), (false, &[4_000])]);
    let unsure = stages("unsure");
    assert_eq!(unsure[..2], [Value::Null, Value::Null]);
    assert_eq!(unsure[2..], ["tree-up", "tree-down", "tree-up", "tree-down"]);
}
