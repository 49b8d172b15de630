//! CoMMA's lines: operations, proxy operations with and without one, and groups.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use nccl_stacks::input;
use nccl_stacks::operation::{Source, State};
use nccl_stacks::records::{self, Keep, Records};
use nccl_stacks::time::Ns;

const LINES: &str = r#"{"ph":"X","ts":1760000000000100,"dur":4,"cat":"GROUP","name":"Group"}
{"ph":"X","ts":1760000000000101,"dur":2,"cat":"COLL","rank":1,"args":{"size":4096},"comm_hash":"0xf00000000000000f","name":"all_reduce","seq_num":7,"algo":"ring","proto":"simple","n_max_channel":2,"child_start_ts":1760000000000110,"child_dur":40,"proxyops":[{"ph":"X","cat":"PROXY","name":"ProxyOp","rank":1,"pid":5,"peer":2,"parent":"<ncclop 1>","is_send":true,"n_steps":2,"chunk_size":2048,"channel_id":1,"ts":1760000000000112,"dur":30,"steps":[{"step":0,"size":2048,"start_time":1760000000000112,"fifo_ready_time":1760000000000115,"end_time":1760000000000122},{"step":1,"size":1024,"start_time":1760000000000120,"end_time":1760000000000142}]}]}
{"ph":"X","ts":1760000000000200,"dur":0,"cat":"P2P","rank":1,"args":{"size":100},"comm_hash":"0xf00000000000000f","name":"recv","peer":0,"child_start_ts":1760000000000210,"reclaimed":true,"timeout_dur":900}
{"ph":"X","cat":"PROXY","name":"ProxyOp","rank":0,"pid":6,"peer":3,"parent":"<null>","is_send":false,"n_steps":1,"chunk_size":10,"channel_id":0}
{"ph":"X","ts":1760000000000300,"dur":1,"cat":"COLL","rank":1,"args":{"size":64},"comm_hash":"0xf00000000000000f","name":"all_gather"
"#;

fn read(text: &str) -> Records {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latency-5.txt");
    std::fs::write(&path, text).unwrap();
    records::read(input::open(&path).unwrap(), Keep::All).unwrap()
}

#[test]
fn lines_become_operations_and_proxy_operations() {
    let records = read(LINES);
    let file = &records.files[0];
    assert_eq!((file.source, file.records, file.skipped.len()), (Some(Source::COMMA), 4, 1));
    let [all_reduce, recv] = &records.operations[..] else { panic!("{file:?}") };
    let second = 1_760_000_000_000_000_000;
    assert_eq!((all_reduce.enqueued, all_reduce.start), (Some(Ns(second + 101_000)), Some(Ns(second + 110_000))));
    assert_eq!((all_reduce.end, all_reduce.bytes), (Some(Ns(second + 150_000)), Some(4096)));
    assert_eq!((all_reduce.algorithm.as_deref(), all_reduce.protocol.as_deref()), (Some("RING"), Some("SIMPLE")));
    assert_eq!((all_reduce.state, recv.state, recv.end), (State::Completed, State::Started, None));
    assert_eq!(records.communicators[0].hash, Some(0xf000_0000_0000_000f));
    let [of_operation, alone] = &records.proxy_ops[..] else { panic!("{file:?}") };
    assert_eq!((of_operation.operation, of_operation.bytes), (Some(0), Some(3072)));
    assert_eq!((alone.operation, alone.place, alone.peer, alone.start), (None, Some(0), 3, None));
    let phases: Vec<_> = records.proxy_steps.iter().map(|step| (step.peer_wait, step.network)).collect();
    assert_eq!(phases, [(Some(Ns(3_000)), Some(Ns(7_000))), (None, Some(Ns(22_000)))]);
}

#[test]
fn what_is_not_known_is_not_worked_out() {
    // Less than a microsecond; an end that is only that of what was seen; an end before the start; a proxy without a channel.
    let records = read(
        &LINES
            .replace("\"child_dur\":40", "\"child_dur\":0")
            .replace("\"reclaimed\":true", "\"reclaimed\":true,\"child_dur\":5")
            .replace("\"end_time\":1760000000000142", "\"end_time\":1760000000000119")
            .replace("\"n_steps\":1,\"chunk_size\":10,\"channel_id\":0", "\"n_steps\":1"),
    );
    let [all_reduce, recv] = &records.operations[..] else { panic!("{:?}", records.files) };
    assert_eq!((all_reduce.state, all_reduce.end), (State::Completed, all_reduce.start));
    assert_eq!((recv.state, recv.end), (State::Started, None));
    let step = &records.proxy_steps[1];
    assert_eq!((step.end, step.network), (None, None));
    assert_eq!(records.proxy_ops.len(), 1);
    let skipped: Vec<_> = records.files[0].skipped.iter().map(|of| (of.what, of.count)).collect();
    assert!(skipped.contains(&("proxy operations without a channel and a peer", 1)), "{skipped:?}");
}

/// Groups may come before the first operation, and more of them than of anything else.
#[test]
fn groups_at_the_beginning_do_not_hide_what_it_is() {
    let group = LINES.lines().next().unwrap();
    let records = read(&format!("{}{LINES}", format!("{group}\n").repeat(20)));
    assert_eq!((records.files[0].source, records.operations.len()), (Some(Source::COMMA), 2));
}

#[test]
fn times_that_do_not_count_from_the_epoch_are_named() {
    let records = read(&LINES.replace("17600000000", "00000"));
    // A number with zeros before it is no JSON.
    assert_eq!(records.files[0].source, None);
    let records = read(&LINES.replace("1760000000000", "1"));
    assert_eq!(records.operations[0].start, Some(Ns(1_110_000)));
    assert!(records.files[0].notes[0].contains("start of the process"), "{:?}", records.files[0].notes);
}
