//! Dumps of NCCL's example profiler plugin: every event has a place, times of 0 are none, and what is damaged is counted.

use std::collections::BTreeMap;
use std::path::Path;

use nccl_stacks::operation::State;
use nccl_stacks::records::Records;
use nccl_stacks::time::Ns;

use crate::records::{read, read_text};
use crate::support::program::testdata;

/// How many begins and ends a file has of each category and name, by its text alone.
fn counted(path: &Path) -> BTreeMap<(String, String), u64> {
    let event = regex::Regex::new(r#"name": "([^"]+)", "cat": "([A-Z_0-9]+)", "ph": "([be])""#).unwrap();
    let mut counts = BTreeMap::new();
    for found in event.captures_iter(&std::fs::read_to_string(path).unwrap()) {
        *counts.entry((found[2].to_owned(), found[3].to_owned())).or_default() += 1;
    }
    counts
}

fn begins(counts: &BTreeMap<(String, String), u64>, cat: &str) -> u64 {
    counts.get(&(cat.to_owned(), "b".to_owned())).copied().unwrap_or(0)
}

fn remark(records: &Records, part: &str) -> u64 {
    let remarks = records.files[0].skipped.iter().chain(&records.files[0].repaired);
    remarks.filter(|remark| remark.what.contains(part)).map(|remark| remark.count).sum()
}

/// No time of any row may be one of the zeros that the plugin never set.
fn assert_no_zero_times(records: &Records) {
    for operation in &records.operations {
        for time in [operation.enqueued, operation.launched, operation.start, operation.end] {
            assert_ne!(time, Some(Ns::ZERO));
        }
    }
    for channel in &records.channels {
        for time in [channel.gpu_start, channel.gpu_stop, channel.start, channel.end] {
            assert!(time.is_none_or(|time| time > Ns(1_000_000_000_000_000_000)), "{time:?}");
        }
    }
}

#[test]
fn all_310_events_of_the_real_point_to_point_dump_are_placed() {
    let Some(shared) = crate::support::shared() else { return };
    let path = shared.join("records/nccl_example_plugin/p2p_4ranks_nccl2.28.json");
    let (records, counts) = (read(&path), counted(&path));
    assert_eq!((records.files[0].records, counts.values().sum::<u64>()), (310, 310));
    assert_eq!((remark(&records, "within nothing"), remark(&records, "without a begin")), (0, 0));
    assert_eq!(records.operations.len() as u64, begins(&counts, "P2P"));
    assert_eq!(records.channels.len() as u64, begins(&counts, "GPU"));
    assert_no_zero_times(&records);
    // By hand: a ring of four ranks, 2^28 floats each, 16 channels.
    let mut pairs: Vec<(u32, &str, i64)> = Vec::new();
    for operation in &records.operations {
        pairs.push((operation.place.unwrap(), operation.collective.as_deref().unwrap(), operation.peer.unwrap()));
        assert_eq!((operation.bytes, operation.channels, operation.end), (Some(1 << 30), Some(16), None));
        assert!(operation.enqueued.is_some() && operation.start.is_some() && operation.launched.is_none());
        assert_eq!(operation.state, State::Unknown, "its stops are 0: nothing says that it ran to its end");
    }
    pairs.sort_unstable();
    assert_eq!(pairs[..3], [(0, "recv", 3), (0, "send", 1), (1, "recv", 0)]);
    // More digits than a double has: 12715772615376301750.
    assert_eq!(records.communicators[0].hash, Some(12_715_772_615_376_301_750));
    assert_eq!(remark(&records, "begins of calls that are 0"), 8);
    assert_eq!(remark(&records, "stops of channels that are 0"), 128);
}

#[test]
fn all_44_events_of_the_readmes_dump_are_placed() {
    let Some(shared) = crate::support::shared() else { return };
    let path = shared.join("records/nccl_example_plugin/allreduce_readme_nccl2.28.json");
    let (records, counts) = (read(&path), counted(&path));
    assert_eq!((records.files[0].records, counts.values().sum::<u64>()), (44, 44));
    assert_eq!((remark(&records, "within nothing"), remark(&records, "without a begin")), (0, 0));
    assert_eq!((remark(&records, "typographic"), remark(&records, "another number")), (1, 3));
    assert_no_zero_times(&records);
    let [operation] = &records.operations[..] else { panic!("{} operations", records.operations.len()) };
    assert_eq!((operation.collective.as_deref(), operation.algorithm.as_deref()), (Some("all_reduce"), Some("RING")));
    // One of its two channels is in the file: its start is known, its end is not.
    assert_eq!((operation.start, operation.end), (Some(Ns(1_756_135_989_724_672_000)), None));
    assert_eq!(records.channels[0].gpu_stop, Some(Ns(1_756_135_989_732_831_232)));
    let [recv, send] = &records.proxy_ops[..] else { panic!("{} proxy operations", records.proxy_ops.len()) };
    assert!(!recv.is_send && send.is_send && recv.end.is_some() && send.end.is_none());
    // Four steps were received, of the fifth two phases are there: 119,807.691986 - 119,707.677979 microseconds on the network.
    assert_eq!(records.proxy_steps.len(), 5);
    let first = &records.proxy_steps[0];
    assert_eq!((first.network, first.flush), (Some(Ns(100_014)), Some(Ns(59_647))));
    let last = &records.proxy_steps[4];
    let of_last = (last.gpu_wait, last.peer_wait, last.network, last.end);
    assert_eq!(of_last, (Some(Ns(98_004)), Some(Ns(10_336)), None, None));
}

/// The clock of the made dump: channels start at 140.5 microseconds of the plugin, and at 140,000 ns past a second of the GPU.
#[test]
fn times_are_on_the_clock_of_the_gpu() {
    let records = read(testdata("records/pair/plugin_dump.txt"));
    let second = 1_760_000_000_000_000_000;
    let operation = &records.operations[0];
    assert_eq!((operation.start, operation.end), (Some(Ns(second + 140_000)), Some(Ns(second + 491_000))));
    // The group began at 100 microseconds, and the call with it.
    assert_eq!(operation.enqueued, Some(Ns(second + 100_000 - 500)));
    assert_eq!(operation.state, State::Completed);
    assert_eq!((records.proxy_ops.len(), records.proxy_steps.len()), (4, 8));
    let step = records.proxy_steps.last().unwrap();
    let phases = (step.gpu_wait, step.peer_wait, step.network, step.flush);
    assert_eq!(phases, (Some(Ns(5_000)), Some(Ns(152_000)), Some(Ns(10_000)), None));
}

#[test]
fn a_killed_process_leaves_no_end() {
    let whole = std::fs::read_to_string(testdata("records/pair/plugin_dump.txt")).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let cut = format!("{}\n{}", lines[..30].join("\n"), &lines[30][..40]);
    let records = read_text(&cut);
    // The first line opens the list.
    assert_eq!(records.files[0].records, 29);
    assert_eq!(remark(&records, "cut off by the end"), 1);
    let notes = &records.files[0].notes;
    assert!(notes.iter().any(|note| note.contains("no end")), "{notes:?}");
    assert_eq!((records.operations.len(), records.operations[0].end), (1, None));
}

#[test]
fn events_without_their_place_and_other_lines_are_counted() {
    let text = r#"[
{"name": "AllReduce", "cat": "COLL", "ph": "b", "id": 0, "pid": 1, "tid": 1, "ts": 5.0, "args": {"SeqNum": 0, "CommHash": 18446744073709551615, "Rank": 1, "Count": 4, "Datatype": 7, "Algorithm": 1, "Protocol": 2, "nMaxChannels": 1}},
{"name": "SendWait", "cat": "NET", "ph": "b", "id": 0, "pid": 1, "tid": 1, "ts": 6.0, "args": {"Step": 0}},
{"name": "KernelCh", "cat": "GPU", "ph": "e", "id": 0, "pid": 1, "tid": 1, "ts": 7.0},
{"name": "cudaMalloc", "cat": "cpu_op", "ph": "X", "ts": 1, "dur": 2},
rank 1: killed
{"name": "AllReduce", "cat": "COLL", "ph": "e", "id": 0, "pid": 1, "tid": 1, "ts": 8.0},
{"name": "AllReduce", "cat": "CO
{"name": "Idle", "cat": "PROXY", "ph": "b", "id": 0, "pid": 1, "tid": 1, "ts": 9.0},
{}]
"#;
    // The foreign event is too early for a file whose first events decide.
    let idle = "{\"name\": \"Idle\", \"cat\": \"PROXY\", \"ph\": \"b\", \"id\": 0, \"pid\": 1, \"tid\": 1, \"ts\": 1.0},\n\
                {\"name\": \"Idle\", \"cat\": \"PROXY\", \"ph\": \"e\", \"id\": 0, \"pid\": 1, \"tid\": 1, \"ts\": 2.0},\n";
    let foreign = "{\"name\": \"cudaMalloc\"";
    let records = read_text(&text.replacen(foreign, &format!("{}{foreign}", idle.repeat(16)), 1));
    for part in ["within nothing", "without a begin", "none of the plugin's", "lines that are not records", "cut off"] {
        assert_eq!(remark(&records, part), 1, "{part}");
    }
    let operation = &records.operations[0];
    // The numbers of 2.23: float, ring, simple.
    assert_eq!((operation.dtype.as_deref(), operation.bytes), (Some("Float"), Some(16)));
    assert_eq!((operation.algorithm.as_deref(), operation.protocol.as_deref()), (Some("RING"), Some("SIMPLE")));
    assert_eq!(records.communicators[0].hash, Some(u64::MAX));
    // Without a channel there is no epoch: its times are the plugin's own.
    assert_eq!((operation.enqueued, operation.start), (Some(Ns(5_000)), None));
}

/// 2.23 to 2.26 have one event for a proxy operation, with its states within, and a group at the root.
#[test]
fn older_dumps_are_read() {
    let text = r#"[
{"name": "Group", "cat": "GROUP", "ph": "b", "id": 0, "pid": 1, "tid": 1, "ts": 1.0, "args": {"groupId": 0}},
{"name": "AllReduce", "cat": "COLL", "ph": "b", "id": 0, "pid": 1, "tid": 1, "ts": 2.0, "args": {"SeqNum": 3, "CommHash": 7, "Rank": 0, "Count": 4, "Datatype": "ncclInt8", "Algorithm": "TREE", "Protocol": "LL", "nMaxChannels": 2}},
{"name": "Send", "cat": "PROXY", "ph": "b", "id": 0, "pid": 1, "tid": 1, "ts": 3.0, "args": {"Channel": 1, "Peer": 2, "Steps": 1, "ChunkSize": 8, "transSize": 8, "POSTED": {"step": 1, "ts": 3.5}, "DONE": {"step": 1, "ts": 9.0}}},
{"name": "SendBufferWait", "cat": "NET", "ph": "b", "id": 0, "pid": 1, "tid": 1, "ts": 3.0, "args": {"Step": 0}},
{"name": "SendBufferWait", "cat": "NET", "ph": "e", "id": 0, "pid": 1, "tid": 1, "ts": 4.0},
{"name": "SendGpuWait", "cat": "NET", "ph": "b", "id": 0, "pid": 1, "tid": 1, "ts": 4.0, "args": {"Step": 0}},
{"name": "SendGpuWait", "cat": "NET", "ph": "e", "id": 0, "pid": 1, "tid": 1, "ts": 6.0},
{"name": "SendWait", "cat": "NET", "ph": "b", "id": 0, "pid": 1, "tid": 1, "ts": 6.0, "args": {"Step": 0}},
{"name": "Qp", "cat": "NET_IB", "ph": "b", "id": 0, "pid": 1, "tid": 1, "ts": 6.1, "args": {"device": 0, "qp_num": 1, "opcode": 2, "wr_id": 3, "size": 8}},
{"name": "Qp", "cat": "NET_IB", "ph": "e", "id": 0, "pid": 1, "tid": 1, "ts": 6.9},
{"name": "SendWait", "cat": "NET", "ph": "e", "id": 0, "pid": 1, "tid": 1, "ts": 9.0},
{"name": "Send", "cat": "PROXY", "ph": "e", "id": 0, "pid": 1, "tid": 1, "ts": 9.0},
{"name": "AllReduce", "cat": "COLL", "ph": "e", "id": 0, "pid": 1, "tid": 1, "ts": 9.5},
{"name": "Group", "cat": "GROUP", "ph": "e", "id": 0, "pid": 1, "tid": 1, "ts": 9.6},
{}]
"#;
    let records = read_text(text);
    assert_eq!((records.files[0].records, records.files[0].skipped.len()), (14, 0));
    let op = &records.proxy_ops[0];
    assert_eq!((op.channel, op.peer, op.bytes, op.start, op.end), (1, 2, Some(8), Some(Ns(3_000)), Some(Ns(9_000))));
    let step = &records.proxy_steps[0];
    let of_step = (step.start, step.gpu_wait, step.network, step.bytes);
    assert_eq!(of_step, (Some(Ns(3_000)), Some(Ns(2_000)), Some(Ns(3_000)), Some(8)));
    assert_eq!(records.operations[0].channels, Some(2));
    // The same, printed over several lines.
    let value: serde_json::Value = serde_json::from_str(text).unwrap();
    for text in [serde_json::to_string_pretty(&value).unwrap(), serde_json::to_string(&value).unwrap()] {
        let again = read_text(&text);
        assert_eq!((again.files[0].records, again.proxy_steps.len()), (14, 1), "{text}");
    }
}

/// Copy engines: their collective has a duration of its own, and its parts are placed within it.
#[test]
fn collectives_of_copy_engines_are_placed() {
    let text = r#"[
{"name": "Group API", "cat": "GROUP_API", "ph": "b", "id": 0, "pid": 1, "tid": 1, "ts": 1.0, "args": {"groupApiId": 0, "groupDepth":1}},
{"name": "AllGather", "cat": "COLL_API", "ph": "b", "id": 0, "pid": 1, "tid": 1, "ts": 2.0, "args": {"count": 8, "datatype": "ncclInt64", "root": 0, "GraphCaptured":0, "Stream": "0x10"}},
{"name": "AllGather", "cat": "CE_COLL", "ph": "b", "id": 0, "pid": 1, "tid": 1, "ts": 3.0, "args": {"eventId": 0, "count": 8, "datatype": "ncclInt64", "strategy": "UC", "duration_cpu_us": 9.5, "duration_gpu_us": 7.25}},
{"name": "CeBatch", "cat": "CE_BATCH", "ph": "b", "id": 0, "pid": 1, "tid": 1, "ts": 4.0, "args": {"eventId": 1, "numOps": 2, "totalBytes": 64}},
{"name": "CeBatch", "cat": "CE_BATCH", "ph": "e", "id": 0, "pid": 1, "tid": 1, "ts": 5.0},
{"name": "AllGather", "cat": "CE_COLL", "ph": "e", "id": 0, "pid": 1, "tid": 1, "ts": 6.0},
{"name": "AllGather", "cat": "COLL_API", "ph": "e", "id": 0, "pid": 1, "tid": 1, "ts": 7.0},
{"name": "Group API", "cat": "GROUP_API", "ph": "e", "id": 0, "pid": 1, "tid": 1, "ts": 8.0},
{}]
"#;
    let records = read_text(text);
    assert_eq!((records.files[0].records, records.files[0].skipped.len()), (8, 0));
    let [operation] = &records.operations[..] else { panic!("{} operations", records.operations.len()) };
    assert_eq!((operation.duration, operation.enqueued), (Some(Ns(7_250)), Some(Ns(2_000))));
    // Without the number of ranks the size of an all-gather is not known; what each gives is.
    assert_eq!((operation.in_elements, operation.bytes, operation.communicator), (Some(8), None, None));
}
