//! Exports of Nsight Systems: databases made here, with answers worked out by hand, and a real one against SQLite itself.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::Output;

use nccl_stacks::damage::Damage;
use nccl_stacks::event::ArgValue;
use nccl_stacks::input::from_reader;
use nccl_stacks::load::{LoadOptions, Loaded, load_input};
use nccl_stacks::store::Store;
use nccl_stacks::time::Ns;
use nccl_stacks::{Error, load};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::pack::{gunzip, gzip, tar_of};
use crate::support::packets::args;
use crate::support::program::{
    ended, has, refused, run, run_json, stacks, stderr, stderr_of, stdout, stdout_of, testdata,
};

/// When the recording started.
const EPOCH: i64 = 1_700_000_000_000_000_000;

/// The columns that the tables of 2026.2 have, as far as they matter; real ones are declared NOT NULL, which a damaged file need not be.
const SCHEMA: &str = "
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, systemClockNs INTEGER);
CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,
  correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER,
  graphNodeId INTEGER, graphId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,
  correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, correlationId INTEGER,
  nameId INTEGER, returnValue INTEGER, callchainId INTEGER);
CREATE TABLE CUDA_CALLCHAINS (id INTEGER NOT NULL, symbol INTEGER, module INTEGER, stackDepth INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, rangeId INTEGER, text TEXT, globalTid INTEGER, textId INTEGER,
  domainId INTEGER, jsonText TEXT, binaryData BLOB);
CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId INTEGER, schemaId INTEGER, idx INTEGER, type INTEGER, name TEXT, offset INTEGER);
";

const STRINGS: &[(i64, &str)] = &[
    (1, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    (2, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"),
    (3, "cudaLaunchKernelExC_v11060"),
    (4, "gemm(float*)"),
    (6, "cudaLaunchKernel_ptsz_v7000"),
    (7, "cudaGraphLaunch_v10000"),
    (8, "train_step"),
    (10, "pt_autograd_0"),
    (12, "reduce_gradients(ncclComm*)"),
    (13, "main"),
];

/// The number of a thread in an export; that of a process is its thread 0.
fn global(pid: i64, tid: i64) -> i64 {
    1 << 48 | pid << 24 | tid
}

/// An export with texts and a start, and what `fill` adds.
fn export(folder: &TempDir, name: &str, fill: impl FnOnce(&Connection)) -> PathBuf {
    let path = folder.path().join(name);
    let connection = Connection::open(&path).unwrap();
    // Every row waiting for the disk would take seconds.
    connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF").unwrap();
    connection.execute_batch(SCHEMA).unwrap();
    for row in STRINGS {
        connection.execute("INSERT INTO StringIds VALUES (?1, ?2)", *row).unwrap();
    }
    connection.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?1, '', 28254349605)", [EPOCH]).unwrap();
    fill(&connection);
    connection.close().unwrap();
    path
}

/// An export alone in its folder.
fn report(fill: impl FnOnce(&Connection)) -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    let path = export(&folder, "report.sqlite", fill).to_str().unwrap().to_owned();
    (folder, path)
}

/// start, end, device, stream, correlation, process, name, graph node, graph
fn kernel(to: &Connection, row: (i64, i64, i64, i64, i64, i64, i64, Option<i64>, Option<i64>)) {
    let sql = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId, globalPid, \
               demangledName, shortName, gridX, graphNodeId, graphId) VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, 2, 32, ?8, ?9)";
    let (start, end, device, stream, correlation, pid, name, node, graph) = row;
    to.execute(sql, (start, end, device, stream, correlation, global(pid, 0), name, node, graph)).unwrap();
}

/// start, end, thread, correlation, name, chain
fn call(to: &Connection, row: (i64, i64, i64, i64, i64, Option<i64>)) {
    let sql = "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?1, ?2, 0, ?3, ?4, ?5, 0, ?6)";
    to.execute(sql, row).unwrap();
}

/// start, end, kind, text, number of a text, thread, domain
fn range(to: &Connection, row: (i64, Option<i64>, i64, Option<&str>, Option<i64>, i64, i64)) {
    let sql = "INSERT INTO NVTX_EVENTS (start, end, eventType, text, textId, globalTid, domainId) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    to.execute(sql, row).unwrap();
}

/// Process 100 on GPU 0 and process 200 on GPU 1, which number their calls alike.
fn two_processes(to: &Connection) {
    let (main, autograd, other) = (global(100, 100), global(100, 101), global(200, 200));
    to.execute("INSERT INTO ThreadNames VALUES (10, 20, ?1)", [autograd]).unwrap();
    to.execute("INSERT INTO PROCESSES VALUES (?1, 100, 'python3')", [global(100, 0)]).unwrap();
    range(to, (0, None, 75, Some("NCCL"), None, main, 1));
    range(to, (1_000, Some(9_000), 59, None, Some(8), main, 0));
    range(to, (2_000, Some(5_000), 59, Some("layer"), None, main, 0));
    range(to, (2_100, Some(2_400), 59, Some("aten::mm, seq = 7, op_id = 11"), None, main, 0));
    range(to, (3_000, Some(3_300), 59, Some("ncclAllReduce"), None, main, 1));
    // They overlap, and enclose launches whose callers they are not.
    range(to, (1_500, Some(6_000), 60, Some("epoch 1"), None, main, 0));
    range(to, (1_800, Some(7_000), 60, Some("epoch 2"), None, main, 0));
    range(to, (2_900, Some(4_000), 59, Some("other_step"), None, other, 0));
    call(to, (2_200, 2_250, main, 1, 6, None));
    call(to, (3_100, 3_200, main, 2, 3, Some(5)));
    call(to, (4_000, 4_100, autograd, 3, 3, None));
    call(to, (6_000, 6_100, main, 4, 7, None));
    call(to, (3_050, 3_150, other, 2, 3, None));
    for (symbol, depth) in [(12, 0), (13, 1)] {
        to.execute("INSERT INTO CUDA_CALLCHAINS VALUES (5, ?1, 0, ?2)", (symbol, depth)).unwrap();
    }
    kernel(to, (100, 200, 0, 7, 999, 100, 1, None, None));
    kernel(to, (2_500, 3_500, 0, 7, 1, 100, 4, None, None));
    kernel(to, (3_600, 4_600, 0, 7, 2, 100, 1, None, None));
    kernel(to, (4_700, 4_900, 0, 7, 3, 100, 1, None, None));
    kernel(to, (6_500, 6_900, 0, 7, 4, 100, 1, Some(77), Some(9)));
    kernel(to, (3_700, 4_650, 1, 7, 2, 200, 1, None, None));
}

fn sorted_stacks(output: &Output) -> Vec<Vec<String>> {
    let mut found = stacks(output);
    assert!(found.iter().all(|(count, _)| *count == 1), "{found:?}");
    found.sort();
    found.into_iter().map(|(_, frames)| frames).collect()
}

fn loaded(path: impl AsRef<Path>) -> Loaded {
    load(path, LoadOptions::default(), |_| {}).unwrap()
}

fn text(store: &Store, id: nccl_stacks::id::SliceId) -> &str {
    store.slice_name(id)
}

#[test]
fn stacks_are_those_of_each_process() {
    let (_folder, path) = report(two_processes);
    let output = run_json(&[&path]);
    let reduce = "reduce_gradients(ncclComm*)";
    let stacks = [
        &["[thread pt_autograd_]", "cudaLaunchKernelExC"][..],
        &["other_step", "cudaLaunchKernelExC"],
        &["train_step", "cudaGraphLaunch"],
        &["train_step", "layer", "ncclAllReduce", "main", reduce, "cudaLaunchKernelExC"],
    ];
    assert_eq!(sorted_stacks(&output), stacks);
    let answer: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(answer["coverage"]["kernels"], 5, "{answer}");
    has(&stderr(&output), "Traces loaded: 2 (pid100, pid200)");
    let notes = stderr(&run(&[&path]));
    has(&notes, "4 of 5 kernels attributed: 3 by correlation, 1 by graph replay");
    has(&notes, "1 kernel (100 ns), launched before recording began");
    let table = stdout(&run(&["sql", &path, "--query", "kernels", "--format", "csv"]));
    // 100 + 1000 + 200 + 400 + 950 ns, five of them, the mean, the median, least and most.
    for (kernel, numbers) in
        [("AllReduce", ",2650,5,530.0,400.0,100,1000,"), ("gemm(float*)", ",1000,1,1000.0,1000.0,1000,1000,")]
    {
        has(table.lines().find(|line| line.contains(kernel)).unwrap(), numbers);
    }
}

#[test]
fn events_are_those_of_a_trace() {
    let (_folder, path) = report(|to| {
        two_processes(to);
        let copy = "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (5000, 5100, 0, 1, 8, 70, ?1, 4096, 1, 1, 2)";
        to.execute(copy, [global(100, 0)]).unwrap();
    });
    let store = loaded(&path).store;
    let slices: BTreeMap<(i64, &str), &str> = store
        .slices
        .ids()
        .map(|slice| {
            let category = store.strings.get(store.slices.category(slice)).unwrap();
            ((store.slices.ts(slice).0 - EPOCH, text(&store, slice)), category)
        })
        .collect();
    for (slice, category) in [
        ((1_000, "train_step"), "user_annotation"),
        ((2_100, "aten::mm"), "cpu_op"),
        ((3_000, "ncclAllReduce"), "nvtx"),
        ((3_100, "main"), "callchain"),
        ((3_100, "cudaLaunchKernelExC"), "cuda_runtime"),
        ((2_200, "cudaLaunchKernel"), "cuda_runtime"),
        ((2_500, "gemm(float*)"), "kernel"),
        ((5_000, "Memcpy HtoD (Pinned -> Device)"), "gpu_memcpy"),
    ] {
        assert_eq!(slices.get(&slice), Some(&category), "{slice:?} of {slices:?}");
    }
    // Six kernels, a copy, seven ranges, five calls, two functions around one of them.
    assert_eq!((store.slices.len(), store.events), (21, 21));
    let node = store.kernels.iter().find_map(|kernel| store.graph_node(*kernel));
    assert_eq!(node, Some((9, 77)));
    let mm = store.slices.ids().find(|slice| text(&store, *slice) == "aten::mm").unwrap();
    let arg = |key| store.args.get(store.slices.args(mm), store.arg_key(key).unwrap());
    assert_eq!((arg("Sequence number"), arg("op_id")), (Some(ArgValue::Int(7)), Some(ArgValue::Int(11))));
    // The overlapping ranges are whole, on two tracks, and no thread's.
    let epochs: Vec<_> = store.slices.ids().filter(|slice| text(&store, *slice).starts_with("epoch")).collect();
    let lengths: Vec<Ns> = epochs.iter().map(|slice| store.slices.dur(*slice)).collect();
    assert_eq!(lengths, [Ns(4_500), Ns(5_200)]);
    assert_ne!(store.slices.track(epochs[0]), store.slices.track(epochs[1]));
    assert_eq!(store.thread_of(epochs[0]), None);
    assert!(store.damage.faults().next().is_none());
}

#[test]
fn ranges_are_windows() {
    let (_folder, path) = report(two_processes);
    // Process 200 has no such range: as in an archive, each trace needs one.
    has(&stderr(&run(&[&path, "--function-name", "layer"])), "pid200: Nothing found: no CPU slice is named `layer`");
    let (_folder, only) = report(|to| {
        two_processes(to);
        for table in ["CUPTI_ACTIVITY_KIND_KERNEL WHERE globalPid", "CUPTI_ACTIVITY_KIND_RUNTIME WHERE globalTid"] {
            to.execute(&format!("DELETE FROM {table} >> 24 = ?1"), [global(200, 0) >> 24]).unwrap();
        }
    });
    for (window, count) in [("layer", 2), ("epoch 1", 2), ("epoch 2", 3), ("train_step", 3)] {
        let output = run_json(&[&only, "--function-name", window]);
        assert_eq!(sorted_stacks(&output).len(), count, "{window}: {}", stderr(&output));
    }
}

/// Whatever is around it, and also through a pipe, where SQLite cannot seek.
#[test]
fn containers_change_nothing() {
    let (_folder, path) = report(two_processes);
    let bytes = std::fs::read(&path).unwrap();
    let tar = tar_of(&[("report.sqlite", &bytes)]);
    let names =
        |store: &Store| -> Vec<String> { store.traces.iter().map(|trace| trace.name.clone().unwrap()).collect() };
    let slices = |store: &Store| -> Vec<(Ns, Ns, String)> {
        let of = |slice| (store.slices.ts(slice), store.slices.dur(slice), text(store, slice).to_owned());
        store.slices.ids().map(of).collect()
    };
    let plain = loaded(&path).store;
    assert_eq!(names(&plain), ["pid100", "pid200"]);
    for (bytes, of) in [
        (bytes.clone(), ""),
        (gzip(&bytes), ""),
        (zstd::encode_all(&bytes[..], 1).unwrap(), ""),
        (tar.clone(), "report.sqlite/"),
        (gzip(&tar), "report.sqlite/"),
    ] {
        let input = from_reader("piped".to_owned(), None, Box::new(Cursor::new(bytes))).unwrap();
        let store = load_input(input, LoadOptions::default(), |_| {}).unwrap().store;
        assert_eq!(names(&store), [format!("{of}pid100"), format!("{of}pid200")]);
        assert_eq!(slices(&store), slices(&plain));
    }
}

/// The program that was started says its rank in its environment; several processes are not it.
#[test]
fn an_only_process_may_say_its_rank() {
    let environment = |to: &Connection| {
        for value in ["RANK=\"3\"", "WORLD_SIZE=\"8\""] {
            let sql = "INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', ?1)";
            to.execute(sql, [value]).unwrap();
        }
    };
    let ranks = |path: &str| -> Vec<String> { loaded(path).store.header.into_iter().map(|field| field.key).collect() };
    let (_folder, one) = report(|to| {
        environment(to);
        kernel(to, (100, 200, 0, 7, 1, 100, 1, None, None));
    });
    assert_eq!(ranks(&one), ["distributedInfo.rank", "distributedInfo.world_size"]);
    let (_folder, two) = report(|to| {
        environment(to);
        two_processes(to);
    });
    assert_eq!(ranks(&two), Vec::<String>::new());
    has(&stderr(&run(&["ranks", &two])), "pid100: neither its header");
}

/// That is what Nsight Systems records by default. It is what the GPU did, and its name says what to do.
#[test]
fn a_graph_may_be_recorded_as_a_whole() {
    let (_folder, path) = report(|to| {
        to.execute_batch(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, end INT, deviceId INT, streamId INT, correlationId INT,
               globalPid INT, graphId INT)",
        )
        .unwrap();
        let sql = "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (100, 400, 0, 7, 5, ?1, 9)";
        to.execute(sql, [global(100, 0)]).unwrap();
        call(to, (60, 70, global(100, 100), 5, 7, None));
    });
    let output = run(&["sql", &path, "--query", "kernels", "--format", "csv"]);
    has(&stdout(&output), ",300,1,300.0,300.0,300,300,");
    has(&stdout(&output), "CUDA graph, recorded as a whole");
    has(&stdout(&ended(&[&path], 3)), "--cuda-graph-trace=node");
}

/// In a container the only process may be number 1, and so may be its GPU.
#[test]
fn a_gpu_is_not_the_process_with_its_number() {
    let (_folder, path) = report(|to| {
        range(to, (50, Some(300), 59, Some("step"), None, global(1, 1), 0));
        call(to, (60, 70, global(1, 1), 5, 3, None));
        kernel(to, (100, 200, 1, 1, 5, 1, 1, None, None));
    });
    let store = loaded(&path).store;
    assert_ne!(store.process_of(store.kernels[0]), store.process_of(store.runtime_calls[0]));
    assert_eq!(sorted_stacks(&run_json(&[&path])), [["step", "cudaLaunchKernelExC"]]);
}

/// In binary by their schema, or in JSON, which has the names itself. A wrong length, an unknown schema, too few bytes, and JSON that is
/// no object are not read.
#[test]
fn payloads_become_arguments() {
    let blob = |schema: u64, length: u64, payload: &[u8]| {
        let header = [1, schema, length, length + 32].map(u64::to_le_bytes);
        Some([&header.concat(), payload].concat())
    };
    let payload =
        [&0xa1b2_c3d4_e5f6_0718_u64.to_le_bytes()[..], &4096_u64.to_le_bytes(), &[2, 0, 0, 0], &[0xff; 4]].concat();
    let json = r#"{"NCCL communicator ID": 18, "Message size [bytes]": 64, "x": [1], "half": 0.5, "none": null}"#;
    let (_folder, path) = report(|to| {
        let sql =
            "CREATE TABLE NVTX_PAYLOAD_ENUM_ENTRIES (domainId INTEGER, schemaId INTEGER, name TEXT, value INTEGER);
                   INSERT INTO NVTX_PAYLOAD_ENUM_ENTRIES VALUES (1, (1 << 24) + 16, 'Max', 2);
                   INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES (1, 7, 0, 18, 'NCCL communicator ID', NULL),
                     (1, 7, 1, 22, 'Message size [bytes]', 8), (1, 7, 2, (1 << 24) + 16, 'Reduction operation', 16),
                     (1, 7, 3, 5, 'Peer rank', 20);";
        to.execute_batch(sql).unwrap();
        range(to, (0, None, 75, Some("NCCL"), None, global(100, 100), 1));
        let sql = "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId, jsonText, binaryData) \
                   VALUES (?1, ?1 + 5, 59, 'ncclAllReduce', ?2, 1, ?3, ?4)";
        for (start, json, binary) in [
            (10, None, blob(7, 24, &payload)),
            (20, Some(json), None),
            (30, None, blob(7, 9, &payload[..9])),
            (40, None, None),
            (50, None, blob(7, 25, &payload)),
            (60, None, blob(8, 24, &payload)),
            (70, None, Some(vec![0; 31])),
            (80, Some("[1]"), None),
        ] {
            to.execute(sql, (start, global(100, 100), json, binary)).unwrap();
        }
    });
    let store = loaded(&path).store;
    let mut found: Vec<Vec<String>> = store.slices.ids().map(|slice| args(&store, slice)).collect();
    found.iter_mut().for_each(|rows| rows.sort());
    let row = |key: &str, value: &str| format!("args.{key} args.{key} {value}");
    let [size, communicator] = ["Message size [bytes]", "NCCL communicator ID"];
    let domain = ("domain", r#""NCCL""#);
    let of_binary = [
        (size, "Int(4096)"),
        (communicator, r#""0xa1b2c3d4e5f60718""#),
        ("Peer rank", "Int(-1)"),
        ("Reduction operation", r#""Max""#),
        domain,
    ];
    let of_json = [(size, "Int(64)"), (communicator, r#""0x12""#), domain, ("half", "Real(0.5)"), ("x", r#""[1]""#)];
    for (found, want) in found.iter().zip([of_binary, of_json]) {
        assert_eq!(*found, want.map(|(key, value)| row(key, value)));
    }
    assert_eq!(found[2].len(), 2, "one field fits");
    assert!(found[3..].iter().all(|args| *args == [row(domain.0, domain.1)]));
    assert_eq!((found.len(), store.damage.get(Damage::PayloadNotExported).count), (8, 5));
}

/// Rows that are nonsense are counted, and the rest is read.
#[test]
fn nonsense_is_left_out() {
    let (_folder, path) = report(|to| {
        kernel(to, (100, 200, 0, 7, 1, 100, 1, None, None));
        kernel(to, (300, 250, 0, 7, 2, 100, 1, None, None));
        kernel(to, (0, 0, 0, 7, 3, 100, 1, None, None));
        for values in ["(end, globalPid) VALUES (5, ?1)", "(start, end, globalPid) VALUES (5, 'x', ?1)"] {
            to.execute(&format!("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL {values}"), [global(100, 0)]).unwrap();
        }
        // It was open at the end, which is no damage.
        range(to, (50, None, 59, Some("open"), None, global(100, 100), 0));
        call(to, (60, 70, global(100, 100), 1, 3, None));
    });
    let store = loaded(&path).store;
    let kinds = [Damage::NegativeDuration, Damage::EventWithoutTimestamp, Damage::InvalidDuration];
    assert_eq!((kinds.map(|kind| store.damage.get(kind).count), store.kernels.len()), ([1, 2, 1], 1));
    let output = run_json(&[&path]);
    assert_eq!(sorted_stacks(&output), [["open", "cudaLaunchKernelExC"]]);
    has(&stderr(&output), "Left out: slices of negative duration: 1\n");
    ended(&[&path, "--strict"], 1);
}

/// An export of one process does not need to say which it is; of several each row does.
#[test]
fn rows_of_no_process() {
    for (processes, kernels, lost) in [(0, 2, 0), (1, 3, 0), (2, 2, 2)] {
        let (_folder, path) = report(|to| {
            for at in [200, 300] {
                let sql = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, demangledName) VALUES (?1, ?1 + 5, 1)";
                to.execute(sql, [at]).unwrap();
            }
            (0..processes).for_each(|pid| kernel(to, (100, 150, 0, 7, 1, 100 + pid, 1, None, None)));
        });
        let store = loaded(&path).store;
        assert_eq!((store.kernels.len(), store.damage.get(Damage::IncompleteEvent).count), (kernels, lost));
    }
}

/// What would take a small file's reader hours, or all memory.
#[test]
fn hostile_databases_take_no_longer() {
    let folder = TempDir::new().unwrap();
    let begun = std::time::Instant::now();
    // Row numbers at the end of what there is, whose sum no number holds.
    let path = export(&folder, "rows.sqlite", |to| {
        two_processes(to);
        for table in ["NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"] {
            to.execute(&format!("INSERT INTO {table} (rowid) VALUES (?1)"), [i64::MAX]).unwrap();
        }
    });
    assert_eq!(loaded(&path).store.kernels.len(), 6);
    // Texts that have to be looked for from the first on.
    let path = export(&folder, "texts.sqlite", |to| {
        to.execute_batch("DROP TABLE StringIds; CREATE TABLE StringIds (id INT, value TEXT)").unwrap();
        for at in 0..30_000 {
            to.execute("INSERT INTO StringIds VALUES (?1, 'kernel' || ?1)", [at]).unwrap();
            kernel(to, (at * 10, at * 10 + 5, 0, 7, at, 100, at, None, None));
        }
    });
    let store = loaded(&path).store;
    assert_eq!(text(&store, store.kernels[29_999]), "kernel29999");
    // A call chain that is the whole table, and calls that all have it.
    let path = export(&folder, "chains.sqlite", |to| {
        for at in 0..3_000 {
            call(to, (at * 10, at * 10 + 5, global(100, 100), at, 3, Some(5)));
            to.execute("INSERT INTO CUDA_CALLCHAINS VALUES (5, 12, 0, 0)", []).unwrap();
        }
    });
    assert_eq!(loaded(&path).store.slices.len(), 6_000);
    // A payload that is a long text, and ranges that all have it.
    let path = export(&folder, "payloads.sqlite", |to| {
        let fields: Vec<String> = (0..100_000).map(|at| format!("\"f{at}\": 1")).collect();
        to.execute("INSERT INTO StringIds VALUES (99, ?1)", [format!("{{{}}}", fields.join(", "))]).unwrap();
        to.execute_batch("ALTER TABLE NVTX_EVENTS ADD jsonTextId INTEGER").unwrap();
        for at in 0..3_000 {
            range(to, (at * 10, Some(at * 10 + 5), 59, Some("ncclAllReduce"), None, global(100, 100), 1));
        }
        to.execute_batch("UPDATE NVTX_EVENTS SET jsonTextId = 99").unwrap();
    });
    assert_eq!(loaded(&path).store.slices.len(), 3_000);
    // A process for each row.
    let path = export(&folder, "processes.sqlite", |to| {
        (0..2_000).for_each(|pid| kernel(to, (100, 150, 0, 7, 1, 100 + pid, 1, None, None)));
    });
    has(&message(&path), "it names 2000 processes, more than 1024");
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
}

/// The pages of a table lead to each other, each to the next by all of its entries: rows without end, of a process or of none.
#[test]
fn a_tree_of_pages_that_never_ends() {
    const PAGE: usize = 4096;
    let (_folder, path) = report(|to| {
        for at in 0..2_000 {
            kernel(to, (at * 10, at * 10 + 5, 0, 7, at, 100 + at % 2, 1, None, None));
        }
    });
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'";
    let root: usize = Connection::open(&path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let page: Vec<u8> = bytes[(root - 1) * PAGE..root * PAGE].to_vec();
    let number = |at: usize| usize::from(u16::from_be_bytes([page[at], page[at + 1]]));
    // An inner page: the number of its cells, the page after the last of them, and where each is, which begins with a page.
    assert_eq!(page[0], 5);
    let pointers: Vec<usize> = (0..number(3)).map(|cell| number(12 + 2 * cell)).chain([8]).collect();
    let pages: Vec<usize> =
        pointers.iter().map(|at| u32::from_be_bytes(page[*at..at + 4].try_into().unwrap()) as usize).collect();
    assert!(pages.len() > 10, "{pages:?}");
    for (own, next) in std::iter::once(&root).chain(&pages).zip(&pages) {
        let mut inner = page.clone();
        pointers.iter().for_each(|at| inner[*at..at + 4].copy_from_slice(&(*next as u32).to_be_bytes()));
        bytes[(own - 1) * PAGE..own * PAGE].copy_from_slice(&inner);
    }
    std::fs::write(&path, bytes).unwrap();
    has(&message(&path), "CUPTI_ACTIVITY_KIND_KERNEL has more rows than the file has bytes");
}

/// Older exports have fewer tables and columns.
#[test]
fn what_is_absent_is_absent() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("old.sqlite");
    let connection = Connection::open(&path).unwrap();
    let batch = format!(
        "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
         INSERT INTO StringIds VALUES (1, 'ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)'), (2, 'cudaLaunchKernel_v7000');
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT, correlationId INT, shortName INT);
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 200, 0, 7, 5, 1);
         CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId INT, nameId INT);
         INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (50, 60, {}, 5, 2);",
        global(100, 100)
    );
    connection.execute_batch(&batch).unwrap();
    connection.close().unwrap();
    assert_eq!(sorted_stacks(&run_json(&[path.to_str().unwrap()])), [["cudaLaunchKernel"]]);
    assert_eq!(loaded(&path).store.slices.ts(loaded(&path).store.kernels[0]), Ns(100));
}

fn message(path: impl AsRef<Path>) -> String {
    load(path, LoadOptions::default(), |_| {}).unwrap_err().to_string()
}

#[test]
fn other_databases_are_refused() {
    let folder = TempDir::new().unwrap();
    let other = folder.path().join("other.sqlite");
    let connection = Connection::open(&other).unwrap();
    connection.execute_batch("CREATE TABLE bookmarks (url TEXT)").unwrap();
    connection.close().unwrap();
    has(&message(&other), "this is an SQLite database, but not an export of Nsight Systems: it has no table StringIds");
    let ours = folder.path().join("ours.sqlite");
    stderr_of(&["export", &testdata("costs.json"), "--sqlite", ours.to_str().unwrap()], 0);
    has(&message(&ours), "that nccl-stacks exported");
    has(&message(report(|_| {}).1), "neither GPU work nor NVTX ranges");
    // In an archive it is a file that is no trace.
    let archive = folder.path().join("all.tar");
    std::fs::write(&archive, tar_of(&[("other.sqlite", &std::fs::read(&other).unwrap())])).unwrap();
    let error = load(&archive, LoadOptions::default(), |_| {}).unwrap_err();
    assert!(matches!(error, Error::NoTraceInArchive { .. }), "{error}");
}

/// A view could go on for ever.
#[test]
fn views_are_not_read() {
    let (_folder, path) = report(|to| {
        to.execute_batch(
            "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL;
             CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n (start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n)
               SELECT start, start + 1 AS end, 0 AS globalPid FROM n;",
        )
        .unwrap();
        range(to, (50, Some(60), 59, Some("step"), None, global(100, 100), 0));
    });
    let store = loaded(&path).store;
    assert_eq!((store.kernels.len(), store.slices.len()), (0, 1));
}

/// Cut off anywhere, and overwritten anywhere: an error or an answer, and a message that names the file.
#[test]
fn damaged_databases_are_refused() {
    let (folder, path) = report(|to| {
        for at in 0..2_000 {
            kernel(to, (at * 10, at * 10 + 5, 0, 7, at, 100, 1, None, None));
        }
    });
    let bytes = std::fs::read(&path).unwrap();
    let cut = folder.path().join("cut.sqlite");
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let found = message(&cut);
    assert!(found.contains("cut.sqlite: this SQLite database is damaged") && found.contains("nsys export"), "{found}");
    // SQLite itself takes what is missing from the last page for zeros.
    for missing in [1, 100, 4_095, 4_096] {
        let there = bytes.len() - missing;
        std::fs::write(&cut, &bytes[..there]).unwrap();
        let found = message(&cut);
        let how = format!("it is cut off: it has {there} of {} bytes (copy it again, or export it again)", bytes.len());
        assert!(found.contains(&how) || missing == 4_096 && found.contains("is damaged"), "{missing}: {found}");
    }
    let page = 4096;
    let mut failed = 0;
    for at in 1..bytes.len() / page {
        let mut broken = bytes.clone();
        broken[at * page..(at + 1) * page].fill(0xff);
        std::fs::write(&cut, &broken).unwrap();
        match load(&cut, LoadOptions::default(), |_| {}) {
            Ok(loaded) => assert!(loaded.store.kernels.len() <= 2_000),
            Err(error) => {
                assert!(matches!(error, Error::CorruptDatabase { .. } | Error::NotATrace { .. }), "{error}");
                failed += 1;
            }
        }
    }
    assert!(failed > 10, "{failed}");
    // Single bytes, all over the file.
    for at in (0..crate::support::random::rounds(100)).map(|n| n * 7_919 % bytes.len()) {
        let mut broken = bytes.clone();
        broken[at] ^= 0x55;
        std::fs::write(&cut, &broken).unwrap();
        if let Ok(loaded) = load(&cut, LoadOptions::default(), |_| {}) {
            assert!(loaded.store.slices.len() < bytes.len());
        }
    }
}

#[test]
fn commands_that_copy_events_refuse() {
    let (folder, path) = report(two_processes);
    let out = folder.path().join("out.json");
    let out = out.to_str().unwrap();
    for (args, why) in [
        (&["repair", &path, "-o", out][..], "this is an export of Nsight Systems; only JSON can be repaired"),
        (&["export", &path, "--trace", out], "a window of an export of Nsight Systems cannot be written as a trace"),
        (&[&path, "--max-bytes", "1k"], "more than 1024 bytes of text"),
    ] {
        refused(args, 1, why);
    }
}

/// Name, count, sum, least and most of kernels.
type Row = (String, i64, i64, i64, i64);

/// A real export of two processes: the kernels as SQLite itself sums them up, 64 of 66 with their launch, and ranges around them.
#[test]
fn a_real_export() {
    let Some(shared) = crate::support::shared() else { return };
    let packed = shared.join("records/nsys/mfu_2gpu_before.sqlite.gz");
    if !packed.exists() {
        let _ = writeln!(std::io::stderr(), "SKIPPED: no {}", packed.display());
        return;
    }
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("report.sqlite");
    std::fs::write(&path, gunzip(&std::fs::read(&packed).unwrap())).unwrap();
    let connection = Connection::open(&path).unwrap();
    let sql = "SELECT value, count(*), sum(end - start), min(end - start), max(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL \
               JOIN StringIds ON id = demangledName GROUP BY value ORDER BY value";
    let mut statement = connection.prepare(sql).unwrap();
    let of_row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?));
    let want: Vec<Row> = statement.query_map([], of_row).unwrap().collect::<Result<_, _>>().unwrap();
    let store = loaded(&path).store;
    let mut found: BTreeMap<String, (i64, i64, i64, i64)> = BTreeMap::new();
    for kernel in &store.kernels {
        let dur = store.slices.dur(*kernel).0;
        let row = found.entry(text(&store, *kernel).to_owned()).or_insert((0, 0, i64::MAX, 0));
        *row = (row.0 + 1, row.1 + dur, row.2.min(dur), row.3.max(dur));
    }
    let found: Vec<Row> = found.into_iter().map(|(name, (n, sum, min, max))| (name, n, sum, min, max)).collect();
    assert_eq!(found, want);
    assert_eq!(want.iter().map(|row| row.1).sum::<i64>(), 4_010);
    let output = run_json(&[packed.to_str().unwrap()]);
    let of_nccl = ["c10d::alltoall_base_", "record_param_comms", "nccl:all_to_all", "ncclGroupEnd", "cuLaunchKernelEx"];
    let frames: Vec<String> = ["AllToAll4D"].iter().chain(&of_nccl).map(|frame| (*frame).to_owned()).collect();
    assert_eq!(stacks(&output), [(64, frames)]);
    let matched = run(&["ranks", path.to_str().unwrap(), "--rank", "0=pid144", "--rank", "1=pid145"]);
    let text = stdout(&matched);
    assert!(text.contains("Matched: 66 of 66 kernels"), "{text}{}", stderr(&matched));
}

/// Nothing in an export says which rank a process is: SQL's tables of ranks and the page take it from `--rank`.
#[test]
fn ranks_of_processes_are_given() {
    let (folder, path) = report(two_processes);
    let page = folder.path().join("page.html");
    let query = "SELECT rank, trace FROM rank ORDER BY rank";
    refused(&["sql", &path, query], 1, "--rank RANK=TRACE says which rank a trace is");
    let given = ["--rank", "3=pid100", "--rank", "1=pid200"];
    let known = stdout_of(&[&["sql", &path], &given[..], &[query]].concat());
    assert_eq!(known, "\"rank\",\"trace\"\n1,\"pid200\"\n3,\"pid100\"\n");
    let unknown = stderr(&run(&["sql", &path, "--rank", "0=pid300", query]));
    has(&unknown, "--rank 0=pid300: no such trace is among those given");
    stderr_of(&[&["report", &path, "-o", page.to_str().unwrap()], &given[..]].concat(), 0);
    assert!(std::fs::read_to_string(page).unwrap().contains("pid200"));
}
