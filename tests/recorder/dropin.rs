//! What the recorder writes in the forms of other programs, read by the readers of these forms, and compared with texts and values that were
//! worked out by hand.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::PathBuf;

use nccl_stacks::input;
use nccl_stacks::operation::Source;
use nccl_stacks::records::{self, Keep, Records};
use nccl_stacks::time::Ns;
use nccl_stacks_recorder_format::{Communicator, Facts, Handle, Kind, Record, Writer, flag, layout};
use nccl_stacks_recorder_text::dump::{self, Link, Written};
use nccl_stacks_recorder_text::megatrace::{About, Form, KEPT, Log};
use serde_json::Value;

/// A recording in a folder that is removed at the end.
pub(crate) struct Recording {
    folder: tempfile::TempDir,
    pub(crate) writer: Writer,
}

impl Recording {
    pub(crate) fn new(ring_records: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = CString::new(folder.path().join("a.ncclrec").to_str().unwrap()).unwrap();
        let facts =
            Facts { ring_records, pid: 77, ranks: [3, 8, 3], boot: b"b", host: b"node7", command: b"c", events: 0 };
        Recording { folder, writer: Writer::create(&path, &facts).unwrap() }
    }

    /// Its file.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("a.ncclrec")
    }

    /// A time that is written as so many ns.
    pub(crate) fn at(&self, since: i64) -> i64 {
        self.writer.header(&mut [0; layout::COMMUNICATORS_AT]).unwrap().start.monotonic + since
    }

    pub(crate) fn put(&self, thread: u64, since: i64, record: Record) -> Handle {
        self.writer.put(layout::CALL_RINGS + thread as usize, 0, &Record { time: self.at(since), ..record }).unwrap()
    }

    pub(crate) fn text(&self, text: &str) -> u8 {
        self.writer.text(text.as_bytes())
    }

    /// The dump of a communicator, and what our reader says of it.
    pub(crate) fn dump(&self, communicator: u16) -> (String, Written, Records) {
        let mut links = vec![Link::default(); dump::links(&self.writer)];
        let mut text = String::new();
        let written = dump::write(&self.writer, communicator, &mut links, &mut text).unwrap();
        let records = self.read("dump.json", &text);
        (text, written, records)
    }

    fn read(&self, name: &str, text: &str) -> Records {
        let path: PathBuf = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        records::read(input::open(&path).unwrap(), Keep::All).unwrap()
    }
}

pub(crate) const ABOUT: About<'_> = About { address: "10.0.0.7", host: "node7", rank: 3, offset: 0 };

pub(crate) fn call(function: u8, stream: u64, count: u64, communicator: u16) -> Record {
    Record { function, a: count, b: stream, communicator, ..Record::new(Kind::Call) }
}

#[test]
fn calls_are_lines_of_megatraces_newer_form() {
    let recording = Recording::new(64);
    let known = Communicator { group_hash: 0x20b4_8553_2cbd_7f67, rank: 3, size: 8, by: 2, ..Communicator::default() };
    let world = recording.writer.communicator(&known);
    let (reduce, send) = (recording.text("ncclAllReduce"), recording.text("Send"));
    let (config, start) = (recording.text("ncclAllGatherConfig"), recording.text("ncclGroupStart"));
    // Three threads, so three rings; what is no call of a collective or send has no line.
    recording.put(1, 2_000, call(reduce, 0x5591, 1024, world));
    recording.put(2, 1_000, call(send, 0, 7, 0));
    recording.put(3, 3_000, call(config, 0x5591, 0, world));
    recording.put(3, 500, call(start, 0, 0, 0));
    recording.put(1, 600, Record { function: reduce, communicator: world, ..Record::new(Kind::Coll) });

    let mut log = Box::new(Log::new());
    log.collect(&recording.writer);
    let newest = recording.at(3_000);
    assert!(!log.is_silent(newest + 2_999_999, 3_000_000) && log.is_silent(newest + 3_000_000, 3_000_000));
    // 1755590104.253968145 is the time of the newest.
    let about = About { offset: 1_755_590_104_253_968_145 - newest, ..ABOUT };
    let mut text = String::new();
    assert_eq!(log.write(Form::Brackets, &about, &mut text), Ok(3));
    assert!(!log.is_silent(i64::MAX, 1));
    recording.put(2, 2_500, call(reduce, 0x5591, 8, world));
    log.collect(&recording.writer);
    assert_eq!(log.write(Form::Brackets, &About { address: "", host: "a]b", ..about }, &mut text), Ok(1));
    assert_eq!(log.write(Form::Brackets, &about, &mut text), Ok(0));
    let lines = "\
[10.0.0.7] [node7] [save_count 1] [1755590104.253966145] [Rank 3] [PCI unknown] [Func ncclSend] [Data 7] [stream (nil)] [opCount 1] [groupHash 0x0000000000000000]
[10.0.0.7] [node7] [save_count 1] [1755590104.253967145] [Rank 3] [PCI unknown] [Func ncclAllReduce] [Data 1024] [stream 0x5591] [opCount 1] [groupHash 0x20b485532cbd7f67]
[10.0.0.7] [node7] [save_count 1] [1755590104.253968145] [Rank 3] [PCI unknown] [Func ncclAllGather] [Data 0] [stream 0x5591] [opCount 2] [groupHash 0x20b485532cbd7f67]
[unknown] [unknown] [save_count 2] [1755590104.253967645] [Rank 3] [PCI unknown] [Func ncclAllReduce] [Data 8] [stream 0x5591] [opCount 3] [groupHash 0x20b485532cbd7f67]
";
    assert_eq!(text, lines);

    let records = recording.read("rank_3.log", &text);
    let file = &records.files[0];
    assert_eq!((file.source, file.records), (Some(Source::MEGATRACE), 4));
    assert!(file.skipped.is_empty() && file.repaired.is_empty(), "{file:?}");
    let rows: Vec<_> = records
        .operations
        .iter()
        .map(|row| {
            let hash = records.communicator_of(row).and_then(|of| of.hash);
            let rank = row.rank.unwrap().0;
            (
                rank,
                row.collective.as_deref().unwrap(),
                row.in_elements,
                row.sequence,
                row.stream_handle,
                row.enqueued,
                hash,
            )
        })
        .collect();
    let (group, at) = (Some(0x20b4_8553_2cbd_7f67), |rest: i64| Some(Ns(1_755_590_104_253_960_000 + rest)));
    assert_eq!(rows[0], (3, "send", Some(7), Some(1), Some(0), at(6145), None));
    assert_eq!(rows[1], (3, "all_reduce", Some(1024), Some(1), Some(0x5591), at(7145), group));
    assert_eq!((rows[3].3, rows[3].5), (Some(3), at(7645)));
    assert_eq!(records.rank_status[0].host.as_deref(), Some("node7"));
}

#[test]
fn of_many_calls_the_last_are_kept_and_the_rest_shows_in_the_numbers() {
    let recording = Recording::new(1 << 14);
    let reduce = recording.text("ncclAllReduce");
    let mut log = Box::new(Log::new());
    let calls = KEPT as i64 + 3;
    for at in 0..calls {
        recording.put(1, at, call(reduce, 9, at as u64, 0));
    }
    log.collect(&recording.writer);
    let mut text = String::new();
    // As if it was 2025, for the reader takes no time of another digit count.
    let about = About { offset: 1_755_590_104_000_000_000 - recording.at(0), ..ABOUT };
    assert_eq!(log.write(Form::Brackets, &about, &mut text), Ok(KEPT));
    let records = recording.read("rank_3.log", &text);
    assert_eq!(records.operations.len(), KEPT);
    assert_eq!(records.operations[0].sequence, Some(4));
    let skipped: Vec<_> = records.files[0].skipped.iter().map(|remark| (remark.what, remark.count)).collect();
    assert_eq!(skipped, [("calls that were overwritten in memory before they were written", 3)]);

    // Of calls without numbers of their own, such as those of older recorders, nothing is known before they are collected.
    let small = Recording::new(64);
    for at in 0..100 {
        small.put(1, at, call(small.text("ncclSend"), 9, 0, 0));
    }
    log.clear();
    log.collect(&small.writer);
    let mut text = String::new();
    assert_eq!(log.write(Form::Brackets, &ABOUT, &mut text), Ok(64));
    assert!(text.lines().next().unwrap().contains("[save_count 1]") && text.contains("[opCount 1]"));
}

/// A call that has its number among the collectives, or the sends and receives, of its communicator.
fn numbered(recording: &Recording, function: &str, stream: u64, communicator: u16) -> Record {
    let writer = &recording.writer;
    let number = match function {
        "ncclSend" | "ncclRecv" => writer.next_send_or_receive(communicator),
        _ => writer.next_collective(communicator),
    };
    Record { c: u64::from(number) << 32 | 5, ..call(recording.text(function), stream, 8, communicator) }
}

/// What a log says of the calls that were collected: the numbers on each stream, and how many its reader misses.
fn numbers(recording: &Recording, log: &mut Log) -> (Vec<(u64, i64)>, u64) {
    let mut text = String::new();
    let about = About { offset: 1_755_590_104_000_000_000 - recording.at(0), ..ABOUT };
    log.write(Form::Brackets, &about, &mut text).unwrap();
    let records = recording.read("rank_3.log", &text);
    let rows = records.operations.iter().map(|row| (row.stream_handle.unwrap(), row.sequence.unwrap()));
    let missing = records.files[0].skipped.iter().map(|remark| {
        assert_eq!(remark.what, "calls that were overwritten in memory before they were written");
        remark.count
    });
    (rows.collect(), missing.sum())
}

#[test]
fn what_a_ring_loses_is_missing_in_the_numbers() {
    let recording = Recording::new(64);
    let writer = &recording.writer;
    let world = writer.communicator(&Communicator { group_hash: 1, by: 2, ..Communicator::default() });
    let mut log = Box::new(Log::new());
    // 70 all-reduces and 30 sends, with their errors beside them: of 200 records the last 64 are there, 32 calls. 2 all-reduces are among them.
    for at in 0..100 {
        let (function, stream) = if at < 70 { ("ncclAllReduce", 1) } else { ("ncclSend", 2) };
        let call = recording.put(1, 10 * at, numbered(&recording, function, stream, world));
        recording.put(1, 10 * at + 1, Record { parent: call.number(), a: 3, ..Record::new(Kind::Stop) });
    }
    log.collect(writer);
    let (rows, missing) = numbers(&recording, &mut log);
    assert_eq!(rows.len(), 32);
    assert_eq!((&rows[..3], missing), (&[(1, 69), (1, 70), (2, 1)][..], 68));
    assert_eq!(rows[31], (2, 30));

    // Of a second pass: 80 more, of which 64 are there. Those that were read before are not lost.
    for at in 100..180 {
        recording.put(1, 10 * at, numbered(&recording, "ncclAllReduce", 1, world));
    }
    log.collect(writer);
    let (rows, _) = numbers(&recording, &mut log);
    assert_eq!((rows.len(), rows[0], rows[63]), (64, (1, 87), (1, 150)));
}

#[test]
fn where_nothing_is_lost_nothing_is_missing() {
    let recording = Recording::new(64);
    let writer = &recording.writer;
    let about = |made| Communicator { group_hash: 1, by: 2, made, ..Communicator::default() };
    (0..512).for_each(|made| _ = writer.communicator(&about(made)));
    let mut log = Box::new(Log::new());
    // Numbers were taken in another order than that of the times, on two threads, one of which is collected late.
    let [first, second, third] = [(); 3].map(|()| numbered(&recording, "ncclAllReduce", 1, 1));
    recording.put(2, 30, third);
    recording.put(1, 20, first);
    log.collect(writer);
    recording.put(1, 10, second);
    log.collect(writer);
    // A communicator that gets the number of one that has ended counts anew.
    writer.ended(1, recording.at(50));
    assert_eq!(writer.communicator(&about(recording.at(60))), 1);
    for at in 0..3 {
        recording.put(1, 70 + at, numbered(&recording, "ncclBcast", 1, 1));
        recording.put(2, 70 + at, numbered(&recording, "ncclRecv", 1, 1));
    }
    log.collect(writer);
    let (rows, missing) = numbers(&recording, &mut log);
    let mut found: Vec<i64> = rows.into_iter().map(|(_, number)| number).collect();
    found.sort_unstable();
    assert_eq!((found, missing), ((1..=9).collect(), 0));
}

#[test]
fn calls_are_lines_of_megatraces_documented_form() {
    let recording = Recording::new(64);
    let group_hash = 0xb248_5532_cbd7_f670;
    let world = recording.writer.communicator(&Communicator { group_hash, by: 2, ..Communicator::default() });
    recording.put(1, 1_000, call(recording.text("ncclAllReduce"), 0x5591, 25_165_824, world));
    recording.put(1, 2_000, call(recording.text("ncclSend"), 0, 7, 0));
    let mut log = Box::new(Log::new());
    log.collect(&recording.writer);
    let about = About { offset: 1_755_590_104_253_968_145 - recording.at(2_000), ..ABOUT };
    let mut text = String::new();
    assert_eq!(log.write(Form::Words, &about, &mut text), Ok(2));
    let lines = "\
[save_count 1] [1755590104.253967145] [Rank 3] Fun ncclAllReduce Data 25165824 stream 0x5591 opCount 1 groupHash -5600132459978557840
[save_count 1] [1755590104.253968145] [Rank 3] Fun ncclSend Data 7 stream (nil) opCount 1 groupHash 0
";
    assert_eq!(text, lines);
    let records = recording.read("rank_3.log", &text);
    let file = &records.files[0];
    assert_eq!((file.source, file.records), (Some(Source::MEGATRACE), 2));
    assert!(file.skipped.is_empty() && file.repaired.is_empty(), "{file:?}");
    let row = &records.operations[0];
    assert_eq!(records.communicator_of(row).and_then(|of| of.hash), Some(group_hash));
    assert_eq!((row.in_elements, row.sequence, row.stream_handle), (Some(25_165_824), Some(1), Some(0x5591)));
    assert_eq!(row.enqueued, Some(Ns(1_755_590_104_253_967_145)));
    assert_eq!(records.operations[1].stream_handle, Some(0));
}

/// A group with an all-reduce of two channels, one of which sends two steps, and the begins and ends of all of it.
fn one_collective(recording: &Recording, communicator: u16) -> Handle {
    let of = |kind, parent: Option<Handle>| Record {
        communicator,
        parent: parent.map_or(0, Handle::number),
        ..Record::new(kind)
    };
    let stop = |thread, since, event: Handle| recording.put(thread, since, of(Kind::Stop, Some(event)));
    let state = |since, event: Handle, state, b| {
        recording.put(2, since, Record { a: state, b, ..of(Kind::State, Some(event)) });
    };
    let (function, dtype) = (recording.text("AllReduce"), recording.text("ncclBfloat16"));
    let (algorithm, protocol) = (recording.text("RING"), recording.text("SIMPLE"));
    let group = recording.put(1, 1_000, Record { a: 1, ..of(Kind::GroupApi, None) });
    let api = Record { a: 1024, b: 0x5591, function, dtype, flags: flag::CAPTURED, ..of(Kind::CollApi, Some(group)) };
    let api = recording.put(1, 2_000, api);
    stop(1, 3_000, api);
    let launch = recording.put(1, 4_000, Record { b: 0x5591, ..of(Kind::KernelLaunch, Some(group)) });
    stop(1, 5_000, launch);
    let coll = Record {
        a: 1024,
        b: 6,
        function,
        dtype,
        algorithm,
        protocol,
        channel: 2,
        small: 16,
        ..of(Kind::Coll, Some(api))
    };
    let coll = recording.put(1, 6_000, coll);
    stop(1, 7_001, coll);
    stop(1, 8_000, group);
    for channel in 0..2_u8 {
        let clock = 1_755_590_104_000_000_000 + u64::from(channel);
        let kernel = recording.put(2, 9_000, Record { a: clock, channel, ..of(Kind::KernelChannel, Some(coll)) });
        state(91_000, kernel, 22, clock + 80_000);
    }
    let op = Record { a: 77, b: 2 | 4096 << 32, c: 4, channel: 1, small: 1, ..of(Kind::ProxyOp, Some(coll)) };
    let op = recording.put(2, 10_000, op);
    state(11_000, op, 19, 0);
    for number in 0..2 {
        let since = 20_000 + 10_000 * number as i64;
        let step = recording.put(2, since, Record { a: number, ..of(Kind::ProxyStep, Some(op)) });
        state(since, step, 8, 0);
        state(since + 1_000, step, 20, 0);
        state(since + 2_000, step, 20, 0);
        state(since + 3_000, step, 9, 1000 + number);
        stop(2, since + 5_000, step);
    }
    stop(2, 50_000, op);
    coll
}

fn tp(recording: &Recording) -> u16 {
    let known = Communicator { name: b"tp", hash: u64::MAX - 1, rank: 3, size: 8, by: 1, ..Communicator::default() };
    recording.writer.communicator(&known)
}

#[test]
fn a_collective_is_events_of_the_plugin() {
    let recording = Recording::new(256);
    let (other, own) = (recording.writer.communicator(&Communicator::default()), tp(&recording));
    one_collective(&recording, own);
    assert_eq!(dump::name(&recording.writer, own), Some((u64::MAX - 1, 3)));
    let (text, written, records) = recording.dump(own);
    let step = |number: u64, ts: i64| {
        let net = |name: &str, phase: &str, ts: i64, args: &str| {
            format!(
                "{{\"name\": \"{name}\", \"cat\": \"NET\", \"ph\": \"{phase}\", \"id\": {number}, \"pid\": 77, \"tid\": 1, \
                 \"ts\": {ts}.000000{args}}},\n"
            )
        };
        let args = format!(", \"args\": {{\"Step\": {number}}}");
        [
            net("SendGpuWait", "b", ts, &args),
            net("SendGpuWait", "e", ts + 1, ""),
            net("SendPeerWait", "b", ts + 1, &args),
            net("SendPeerWait", "e", ts + 3, ""),
            net("SendWait", "b", ts + 3, &args),
            net("SendWait", "e", ts + 5, ""),
        ]
        .concat()
    };
    let expected = format!(
        r#"[
{{"name": "Group API", "cat": "GROUP_API", "ph": "b", "id": 0, "pid": 77, "tid": 1, "ts": 1.000000, "args": {{"groupApiId": 0, "groupDepth": 1}}}},
{{"name": "KernelLaunch", "cat": "KERNEL_LAUNCH", "ph": "b", "id": 0, "pid": 77, "tid": 1, "ts": 4.000000, "args": {{"groupId": 0, "Stream": "0x5591"}}}},
{{"name": "KernelLaunch", "cat": "KERNEL_LAUNCH", "ph": "e", "id": 0, "pid": 77, "tid": 1, "ts": 5.000000}},
{{"name": "AllReduce", "cat": "COLL_API", "ph": "b", "id": 0, "pid": 77, "tid": 1, "ts": 2.000000, "args": {{"count": 1024, "datatype": "ncclBfloat16", "root": 0, "GraphCaptured": 1, "Stream": "0x5591"}}}},
{{"name": "AllReduce", "cat": "COLL", "ph": "b", "id": 0, "pid": 77, "tid": 1, "ts": 6.000000, "args": {{"SeqNum": 6, "CommHash": 18446744073709551614, "Rank": 3, "Count": 1024, "Datatype": "ncclBfloat16", "Algorithm": "RING", "Protocol": "SIMPLE", "nChannels": 2}}}},
{{"name": "KernelCh", "cat": "GPU", "ph": "b", "id": 0, "pid": 77, "tid": 1, "ts": 9.000000, "args": {{"Channel": 0, "StartGpuClk": 1755590104000000000, "StopGpuClk": 1755590104000080000}}}},
{{"name": "KernelCh", "cat": "GPU", "ph": "e", "id": 0, "pid": 77, "tid": 1, "ts": 91.000000}},
{{"name": "KernelCh", "cat": "GPU", "ph": "b", "id": 1, "pid": 77, "tid": 1, "ts": 9.000000, "args": {{"Channel": 1, "StartGpuClk": 1755590104000000001, "StopGpuClk": 1755590104000080001}}}},
{{"name": "KernelCh", "cat": "GPU", "ph": "e", "id": 1, "pid": 77, "tid": 1, "ts": 91.000000}},
{{"name": "ScheduleSend", "cat": "PROXY", "ph": "b", "id": 0, "pid": 77, "tid": 1, "ts": 10.000000, "args": {{"Channel": 1, "Peer": 4, "Steps": 2, "ChunkSize": 4096, "transSize": 2001}}}},
{{"name": "ScheduleSend", "cat": "PROXY", "ph": "e", "id": 0, "pid": 77, "tid": 1, "ts": 11.000000}},
{{"name": "ProgressSend", "cat": "PROXY", "ph": "b", "id": 0, "pid": 77, "tid": 1, "ts": 11.000000, "args": {{"Channel": 1, "Peer": 4, "Steps": 2, "ChunkSize": 4096, "transSize": 2001}}}},
{}{}{{"name": "ProgressSend", "cat": "PROXY", "ph": "e", "id": 0, "pid": 77, "tid": 1, "ts": 50.000000}},
{{"name": "AllReduce", "cat": "COLL", "ph": "e", "id": 0, "pid": 77, "tid": 1, "ts": 7.001000}},
{{"name": "AllReduce", "cat": "COLL_API", "ph": "e", "id": 0, "pid": 77, "tid": 1, "ts": 3.000000}},
{{"name": "Group API", "cat": "GROUP_API", "ph": "e", "id": 0, "pid": 77, "tid": 1, "ts": 8.000000}}
]
"#,
        step(0, 20),
        step(1, 30)
    );
    assert_eq!(text, expected);
    assert_eq!(written, Written { events: 14, left_out: 0 });
    serde_json::from_str::<Value>(&text).unwrap();

    let file = &records.files[0];
    assert_eq!((file.source, file.records), (Some(Source::PLUGIN_DUMP), 28));
    assert!(file.skipped.is_empty() && file.repaired.is_empty() && file.notes.is_empty(), "{file:?}");
    let row = &records.operations[0];
    assert_eq!((row.collective.as_deref(), row.dtype.as_deref()), (Some("all_reduce"), Some("BFloat16")));
    assert_eq!((row.place, row.sequence, row.bytes, row.channels), (Some(3), Some(6), Some(2048), Some(2)));
    assert_eq!((row.algorithm.as_deref(), row.protocol.as_deref()), (Some("RING"), Some("SIMPLE")));
    assert_eq!(records.communicator_of(row).unwrap().hash, Some(u64::MAX - 1));
    // The median of the channels ties the dump to the GPU's clock: of two it is the second, 9 µs after the dump's 0.
    let epoch = 1_755_590_104_000_000_001 - 9_000;
    assert_eq!((row.enqueued, row.launched), (Some(Ns(epoch + 2_000)), Some(Ns(epoch + 4_000))));
    assert_eq!((row.start, row.end), (Some(Ns(epoch + 8_999)), Some(Ns(epoch + 89_000))));
    let op = &records.proxy_ops[0];
    assert_eq!((op.operation, op.channel, op.peer, op.is_send, op.steps), (Some(0), 1, 4, true, 2));
    assert_eq!((op.chunk_bytes, op.bytes), (Some(4096), Some(2001)));
    let of_op = [op.queued, op.start, op.end].map(|time| time.unwrap().0 - epoch);
    assert_eq!(of_op, [10_000, 11_000, 50_000]);
    let last = &records.proxy_steps[1];
    assert_eq!((last.step, last.start, last.end), (1, Some(Ns(epoch + 30_000)), Some(Ns(epoch + 35_000))));
    assert_eq!([last.gpu_wait, last.peer_wait, last.network], [1_000, 2_000, 2_000].map(|ns| Some(Ns(ns))));
    // Nothing of it is another communicator's.
    assert_eq!(recording.dump(other).0, "[\n]\n");
}

#[test]
fn what_is_open_or_belongs_to_nothing_stays_so() {
    let recording = Recording::new(64);
    let own = tp(&recording);
    let (send, dtype) = (recording.text("Send"), recording.text("ncclFloat32"));
    let of = |kind| Record { communicator: own, ..Record::new(kind) };
    // NCCL before 2.28: no call. It never stops.
    let p2p = recording.put(1, 1_000, Record { a: 5, c: 1, function: send, dtype, channel: 1, ..of(Kind::P2p) });
    let kernel = Record { parent: p2p.number(), a: 1_755_590_104_000_000_000, channel: 4, ..of(Kind::KernelChannel) };
    recording.put(1, 2_000, kernel);
    // For another process, whose handles mean nothing here.
    let rank = 6 << 32;
    let op = Record { parent: p2p.number(), a: 78, b: 1 | 512 << 32, c: 9 | rank, channel: 2, ..of(Kind::ProxyOp) };
    let op = Record { communicator: 0, ..op };
    let foreign = recording.put(2, 3_000, op);
    let step = recording.put(2, 4_000, Record { parent: foreign.number(), a: 0, ..of(Kind::ProxyStep) });
    recording.put(2, 5_000, Record { parent: step.number(), a: 11, b: 300, ..of(Kind::State) });
    // What belongs to a position that no ring has yet.
    let lost = Record { parent: (1 << 40) | 1, ..of(Kind::KernelChannel) };
    recording.put(3, 6_000, lost);
    recording.put(3, 6_000, Record { kind: Kind::ProxyStep, ..lost });
    let (text, written, records) = recording.dump(own);
    let dumped: Vec<Value> = serde_json::from_str(&text).unwrap();
    let seen: Vec<(&str, &str, f64)> = dumped
        .iter()
        .map(|event| (event["name"].as_str().unwrap(), event["ph"].as_str().unwrap(), event["ts"].as_f64().unwrap()))
        .collect();
    let expected = [
        ("ScheduleRecv", "b", 3.0),
        ("RecvWait", "b", 4.0),
        ("RecvWait", "e", 5.0),
        ("RecvFlushWait", "b", 5.0),
        ("Send", "b", 1.0),
        ("KernelCh", "b", 2.0),
    ];
    assert_eq!(seen, expected);
    assert!(dumped[5]["args"].get("StopGpuClk").is_none());
    assert_eq!(written, Written { events: 5, left_out: 2 });
    assert!(records.files[0].skipped.is_empty(), "{:?}", records.files[0]);
    assert_eq!((records.operations[0].peer, records.operations[0].place), (Some(1), Some(3)));
    assert_eq!((records.channels[0].channel, records.channels[0].gpu_stop), (4, None));
    assert_eq!((records.proxy_ops[0].operation, records.proxy_ops[0].bytes), (None, Some(300)));
}

#[test]
fn every_event_that_the_rings_have_is_in_the_dump() {
    // The ring of the calls holds 32 of 50 collectives; those of the proxies come from another thread.
    let recording = Recording::new(256);
    let own = tp(&recording);
    for _ in 0..50 {
        one_collective(&recording, own);
    }
    let mut recorded: BTreeMap<&str, u64> = BTreeMap::new();
    for ring in 0..16 {
        for position in 1..=recording.writer.claimed(ring) {
            let Some((_, record)) = recording.writer.at(ring, position) else { continue };
            let category = match record.kind {
                Kind::GroupApi => "GROUP_API",
                Kind::CollApi => "COLL_API",
                Kind::KernelLaunch => "KERNEL_LAUNCH",
                Kind::Coll => "COLL",
                Kind::KernelChannel => "GPU",
                _ => continue,
            };
            *recorded.entry(category).or_default() += 1;
        }
    }
    let (text, written, _) = recording.dump(own);
    let mut dumped: BTreeMap<&str, u64> = BTreeMap::new();
    let events: Vec<Value> = serde_json::from_str(&text).unwrap();
    for event in events.iter().filter(|event| event["ph"] == "b") {
        let category = recorded.keys().find(|category| event["cat"] == **category);
        category.iter().for_each(|category| *dumped.entry(category).or_default() += 1);
    }
    // Of the first proxy operation that is overwritten the ring may still have steps.
    assert!(written.left_out <= 2, "{written:?}");
    assert_eq!(dumped, recorded);
    assert!((30..50).contains(&recorded["COLL"]) && recorded["GPU"] > 10, "{recorded:?}");
}
