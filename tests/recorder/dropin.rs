//! Megatrace's log as the recorder writes it, read by our reader of such logs, and compared with texts and values that were worked out by hand.

use std::ffi::CString;
use std::path::PathBuf;

use nccl_stacks::input;
use nccl_stacks::operation::Source;
use nccl_stacks::records::{self, Keep, Records};
use nccl_stacks::time::Ns;
use nccl_stacks_recorder_format::{Communicator, Facts, Handle, Kind, Record, Writer, layout};
use nccl_stacks_recorder_text::megatrace::{About, Form, KEPT, Log};

/// A recording in a folder that is removed at the end.
pub(crate) struct Recording {
    folder: tempfile::TempDir,
    pub(crate) writer: Writer,
}

impl Recording {
    pub(crate) fn new(ring_records: u64) -> Self {
        Recording::of_rank(3, ring_records)
    }

    pub(crate) fn of_rank(rank: i32, ring_records: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = CString::new(folder.path().join("a.ncclrec").to_str().unwrap()).unwrap();
        let facts =
            Facts { ring_records, pid: 77, ranks: [rank, 8, 3], boot: b"b", host: b"node7", command: b"c", events: 0 };
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
