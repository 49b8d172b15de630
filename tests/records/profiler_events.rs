//! What NCCL's profiler interface reports besides operations: rows of a table of their own, and a count of each kind.

use nccl_stacks_recorder_format::{Kind, Record};
use serde_json::{Value, json};

use crate::records::recorder::{EPOCH, Process};
use crate::support::program::{json_of, run, stdout};
use crate::support::schema::{Schema, read};

fn ask(process: &Process, query: &str) -> Vec<Value> {
    let answer: Value = json_of(&["sql", process.path.to_str().unwrap(), query, "--quiet", "--format", "json"]);
    answer.as_array().unwrap().clone()
}

/// A collective whose step has transfers, and whose kernel has phases; a collective of copy engines; and what a proxy's thread does.
fn recorded(folder: &std::path::Path) -> Process {
    let process = Process::new(folder, 3, 8, &[1]);
    let text = |text: &str| process.writer.text(text.as_bytes());
    let of = |kind, parent| Record { communicator: 1, parent, ..Record::new(kind) };
    let coll = Record { function: text("AllReduce"), a: 1024, channel: 1, ..of(Kind::Coll, 0) };
    let coll = process.put(1_000, coll);
    process.put(1_000, Record { a: u64::MAX, ..of(Kind::More, coll) });

    let proxy = process.put(2_000, Record { channel: 5, small: 1, b: 2, ..of(Kind::ProxyOp, coll) });
    let step = process.put(2_100, Record { a: 7, ..of(Kind::ProxyStep, proxy) });
    let transfer = Record { a: 77 | 2 << 32, b: 4096, c: 9, small: 3, ..of(Kind::NetIb, step) };
    let transfer = process.put(2_200, transfer);
    process.stop(2_700, transfer);
    let socket = process.put(2_300, Record { a: 12, b: 100, c: 1, ..of(Kind::NetSocket, step) });
    process.stop(2_301, socket);
    // It has no end.
    process.put(2_400, Record { a: 1 << 16 | 2, ..of(Kind::NetPlugin, step) });

    // The GPU is 3 s ahead of the host, which sees all phases when the kernel stops.
    let gpu = (EPOCH + 3_000_000_000).cast_unsigned();
    let kernel = process.put(5_000, Record { a: gpu + 5_000, channel: 5, ..of(Kind::KernelChannel, coll) });
    let phase =
        Record { a: gpu + 5_100, channel: 5, small: 1, function: text("compute"), ..of(Kind::KernelPhase, kernel) };
    let phase = process.put(9_000, phase);
    process.state(9_000, phase, 31, gpu + 8_100);
    process.state(9_001, kernel, 22, gpu + 9_000);

    let engines = Record { function: text("AllGather"), a: 1024, ..of(Kind::CeColl, 0) };
    let engines = process.put(10_000, engines);
    let sync = process.put(10_100, Record { a: 1, b: 8, ..of(Kind::CeSync, engines) });
    process.stop(10_400, sync);
    let batch = process.put(10_200, Record { a: 16, b: 1 << 20, small: 1, ..of(Kind::CeBatch, engines) });
    process.stop(10_250, batch);

    let control = process.put(20_000, of(Kind::ProxyControl, 0));
    process.state(20_010, control, 13, 0);
    process.state(20_500, control, 14, 0);
    process.stop(20_600, control);
    let control = process.put(21_000, of(Kind::ProxyControl, 0));
    process.state(21_010, control, 17, 4);
    process.stop(21_100, control);
    process.put(22_000, Record { a: 1 << 20, ..of(Kind::UnknownEvent, 0) });
    process.set_clock();
    process
}

#[test]
fn they_are_rows_with_what_they_belong_to() {
    let folder = tempfile::tempdir().unwrap();
    let process = recorded(folder.path());
    let query = "SELECT e.kind, e.rank, e.name, e.channel, e.ts, e.end_ts, e.bytes, e.details, c.collective, p.step \
                 FROM profiler_event AS e LEFT JOIN collective AS c ON c.id = e.collective_id \
                 LEFT JOIN proxy_step AS p ON p.id = e.proxy_step_id ORDER BY e.id";
    let columns = ["kind", "rank", "name", "channel", "ts", "end_ts", "bytes", "details", "collective", "step"];
    let row = |row: Value| Value::from(columns.map(|name| row[name].clone()).to_vec());
    let rows: Vec<Value> = ask(&process, query).into_iter().map(row).collect();
    let at = |time: i64| EPOCH + time;
    let expected = [
        json!([
            "net-ib",
            3,
            null,
            5,
            at(2_200),
            at(2_700),
            4096,
            "{\"device\":2,\"queue_pair\":77,\"work_request\":9,\"opcode\":3}",
            "all_reduce",
            7
        ]),
        json!([
            "net-socket",
            3,
            null,
            5,
            at(2_300),
            at(2_301),
            100,
            "{\"descriptor\":12,\"operation\":1}",
            "all_reduce",
            7
        ]),
        json!(["net-plugin", 3, null, 5, at(2_400), null, null, "{\"plugin\":65538}", "all_reduce", 7]),
        json!(["kernel-phase", 3, "compute", 5, at(5_100), at(8_100), null, "{\"phase\":1}", "all_reduce", null]),
        json!([
            "ce-sync",
            3,
            null,
            null,
            at(10_100),
            at(10_400),
            null,
            "{\"is_complete\":1,\"ranks\":8}",
            "all_gather",
            null
        ]),
        json!([
            "ce-batch",
            3,
            null,
            null,
            at(10_200),
            at(10_250),
            1 << 20,
            "{\"operations\":16,\"is_synchronised\":1}",
            "all_gather",
            null
        ]),
        json!(["proxy-control", 3, "idle", null, at(20_000), at(20_500), null, null, null, null]),
        json!(["proxy-control", 3, "append", null, at(21_000), at(21_100), null, "{\"operations\":4}", null, null]),
        json!(["unknown", 3, null, null, at(22_000), null, null, "{\"type\":1048576}", null, null]),
    ];
    assert_eq!(rows, expected);
    let tags = ask(&process, "SELECT collective, user_tag FROM collective ORDER BY id");
    assert_eq!(tags[0]["user_tag"], "18446744073709551615");
    assert!(tags[1]["user_tag"].is_null(), "{tags:?}");
}

#[test]
fn they_are_counted_by_kind() {
    let folder = tempfile::tempdir().unwrap();
    let process = recorded(folder.path());
    let path = process.path.to_str().unwrap();
    let answer: Value = serde_json::from_str(&stdout(&run(&["records", path, "--json"]))).unwrap();
    Schema::new(read("records")).unwrap().check(&answer).unwrap();
    let rows = answer["profiler_events"].as_array().unwrap();
    let row = |kind: &str| rows.iter().find(|row| row["kind"] == kind).unwrap();
    assert_eq!(rows.len(), 8);
    // Idle for 500 ns, and 100 ns with what was appended.
    let control = json!({"kind": "proxy-control", "count": 2, "ranks": 1, "timed": 2, "time_ns": 600, "bytes": null});
    assert_eq!(*row("proxy-control"), control);
    let net = json!({"kind": "net-ib", "count": 1, "ranks": 1, "timed": 1, "time_ns": 500, "bytes": 4096});
    assert_eq!(*row("net-ib"), net);
    assert_eq!((&row("net-plugin")["timed"], &row("kernel-phase")["time_ns"]), (&0.into(), &3_000.into()));
    let text = stdout(&run(&["records", path]));
    let line = text.lines().find(|line| line.contains("proxy-control")).unwrap();
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells, ["proxy-control", "2", "600", "ns", "1"], "{text}");
    // Records without such events say nothing of them.
    let none = stdout(&run(&["records", &crate::support::program::testdata("records/pair/plugin_dump.txt")]));
    assert!(text.contains("Other events") && !none.contains("Other events"), "{none}");
}
