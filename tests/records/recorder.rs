//! Files of the recorder: written by its own writer, record by record, and read. What is expected is worked out by hand.

use std::ffi::CString;
use std::os::unix::fs::{FileExt as _, PermissionsExt};
use std::path::{Path, PathBuf};

use nccl_stacks::answers::hang::{EvidenceKind, Outcome, hang};
use nccl_stacks::operation::{Counts, Operation, State};
use nccl_stacks::records::{self, Keep, RecordFile, Records, read_all};
use nccl_stacks::time::Ns;
use nccl_stacks_recorder_format::layout::{self, header};
use nccl_stacks_recorder_format::{Communicator, Facts, Handle, Header, Kind, Record, Writer, flag};
use tempfile::TempDir;

use crate::checks::records::check_as;
use crate::records::read;
use crate::support::program::{ended, has, json_of, stdout, stdout_of, testdata};
use crate::support::random::{Random, rounds};

/// What the host's clock showed when the monotonic one showed 0.
pub(crate) const EPOCH: i64 = 1_700_000_000_000_000_000;

/// All events of interface 5, and those without channels of kernels.
const ALL: u64 = 4095;

/// A process that is recorded.
pub(crate) struct Process {
    pub(crate) path: PathBuf,
    pub(crate) writer: Writer,
    pub(crate) thread: u32,
}

impl Process {
    /// With a communicator of that rank and size, made known by plugin (1), interceptor (2) or both.
    pub(crate) fn new(folder: &Path, rank: i32, size: i32, by: &[u32]) -> Process {
        let process = Process::bare(folder, [rank, size, -1], 40 + rank.cast_unsigned(), 1024);
        by.iter().for_each(|by| process.communicator(*by, 0xabc, rank, size));
        process
    }

    pub(crate) fn bare(folder: &Path, ranks: [i32; 3], pid: u32, ring_records: u64) -> Process {
        let path = folder.join(format!("node0-{pid}.ncclrec"));
        let facts = Facts { ring_records, pid, ranks, boot: b"b", host: b"node0", command: b"python", events: ALL };
        let writer = Writer::create(&CString::new(path.to_str().unwrap()).unwrap(), &facts).unwrap();
        // Tests change what a job may not.
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        Process { path, writer, thread: 1 }
    }

    pub(crate) fn communicator(&self, by: u32, hash: u64, rank: i32, size: i32) {
        let about = Communicator { name: b"world", by, hash, rank, size, ..Communicator::default() };
        assert!(self.writer.communicator(&about) > 0);
        if by == 1 {
            self.writer.set_plugin(5, ALL);
        }
    }

    pub(crate) fn put(&self, time: i64, record: Record) -> u64 {
        let record = Record { time, thread: self.thread, ..record };
        // Rings for events have the size that was asked for.
        self.writer.put(layout::CALL_RINGS + self.thread as usize, 0, &record).map_or(0, Handle::number)
    }

    pub(crate) fn stop(&self, time: i64, parent: u64) {
        self.put(time, Record { parent, ..Record::new(Kind::Stop) });
    }

    pub(crate) fn state(&self, time: i64, parent: u64, state: u64, b: u64) {
        self.put(time, Record { parent, a: state, b, ..Record::new(Kind::State) });
    }

    pub(crate) fn call(&self, time: i64, communicator: u16, function: &str, count: u64) -> u64 {
        let function = self.writer.text(function.as_bytes());
        // NCCL's number of float32 is 7.
        let record = Record { communicator, function, a: count, b: 0x77, dtype: 8, ..Record::new(Kind::Call) };
        let call = self.put(time, record);
        self.stop(time + 90, call);
        call
    }

    /// A collective of the plugin with two channels, of which so many stop.
    pub(crate) fn planned(&self, time: i64, communicator: u16, parent: u64, stopped: u8) -> u64 {
        self.planned_as(Record { communicator, parent, time, ..Record::new(Kind::Coll) }, stopped)
    }

    /// The same without parent, with its number in the high half of this.
    pub(crate) fn numbered(&self, time: i64, communicator: u16, c: u64, stopped: u8) -> u64 {
        self.planned_as(Record { communicator, c, time, ..Record::new(Kind::Coll) }, stopped)
    }

    fn planned_as(&self, record: Record, stopped: u8) -> u64 {
        let time = record.time;
        let [function, dtype, algorithm, protocol] =
            ["AllReduce", "ncclFloat32", "RING", "LL128"].map(|text| self.writer.text(text.as_bytes()));
        let record = Record { a: 1024, channel: 2, function, dtype, algorithm, protocol, ..record };
        let operation = self.put(time, record);
        self.stop(time + 1, operation);
        for channel in 0..2 {
            let gpu = (EPOCH + time + 100 + i64::from(channel)).cast_unsigned();
            let start = Record { parent: operation, channel, a: gpu, ..Record::new(Kind::KernelChannel) };
            let kernel = self.put(time + 200, start);
            if channel < stopped {
                self.state(time + 400, kernel, 22, gpu + 150);
            }
        }
        operation
    }

    pub(crate) fn set(&self, values: &[(usize, i64)]) {
        let file = std::fs::OpenOptions::new().write(true).open(&self.path).unwrap();
        values.iter().for_each(|(at, value)| file.write_all_at(&value.to_le_bytes(), *at as u64).unwrap());
    }

    /// Reads the file, which is not closed, with a clock that is known.
    pub(crate) fn read(&self) -> Records {
        self.set_clock();
        read(&self.path)
    }

    pub(crate) fn set_clock(&self) {
        self.set(&[(header::REALTIME, EPOCH), (header::MONOTONIC, 0)]);
        self.set(&[(header::LAST_REALTIME, EPOCH), (header::LAST_MONOTONIC, 0)]);
    }
}

/// Where the first ring in use begins.
pub(crate) fn first_ring(bytes: &[u8]) -> usize {
    let sizes = Header::parse(bytes).unwrap().rings;
    (0..layout::RINGS).map(|ring| sizes.at(ring) as usize).find(|at| bytes[*at] != 0).unwrap()
}

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn at(time: i64) -> Option<Ns> {
    Some(Ns(EPOCH + time))
}

fn skipped(file: &RecordFile) -> Vec<(&str, u64)> {
    file.skipped.iter().map(|remark| (remark.what, remark.count)).collect()
}

fn sequences(records: &Records) -> Vec<Option<i64>> {
    records.operations.iter().map(|operation| operation.sequence).collect()
}

/// An all-reduce that interceptor and plugin both saw, with all that NCCL says of it.
#[test]
fn what_both_saw_is_one_operation() {
    let folder = folder();
    let mut process = Process::new(folder.path(), 3, 8, &[2, 1]);
    let text = |text: &str| process.writer.text(text.as_bytes());
    let (function, of_plugin, dtype) = (text("ncclAllReduce"), text("AllReduce"), text("ncclFloat32"));
    let call = Record { communicator: 1, function, a: 1024, b: 0x77, c: 9 << 32, dtype: 8, ..Record::new(Kind::Call) };
    let call = process.put(1_000, call);
    let group = process.put(1_010, Record { communicator: 2, ..Record::new(Kind::GroupApi) });
    let plugin = Record { communicator: 2, function: of_plugin, dtype, a: 1024, b: 0x77, ..Record::new(Kind::CollApi) };
    let api = process.put(1_020, Record { parent: group, ..plugin });
    process.stop(1_030, api);
    process.put(1_040, Record { parent: group, b: 0x77, ..Record::new(Kind::KernelLaunch) });
    // What NCCL calls of itself while it is called.
    let inside = Record { communicator: 1, function, flags: flag::INSIDE_CALL, ..Record::new(Kind::Call) };
    process.put(1_045, inside);
    let operation = process.planned(1_050, 2, api, 2);
    process.stop(1_500, call);
    process.thread = 2;
    let proxy = Record { communicator: 2, a: 43, b: 1 | 4096 << 32, c: 4, channel: 1, ..Record::new(Kind::ProxyOp) };
    let proxy = process.put(2_000, Record { parent: operation, small: 1, ..proxy });
    process.state(2_100, proxy, 19, 0);
    let step = process.put(2_200, Record { parent: proxy, a: 5, ..Record::new(Kind::ProxyStep) });
    // The receiver is asked twice.
    for (time, state) in [(2_210, 8), (2_300, 20), (2_350, 20), (2_500, 9)] {
        process.state(time, step, state, 4096);
    }
    process.stop(2_900, step);
    process.stop(3_000, proxy);

    let records = process.read();
    let [operation] = &records.operations[..] else { panic!("{:?}", records.operations) };
    let Operation { rank, place, peer, sequence, counts, state, .. } = operation;
    assert_eq!((rank.map(|rank| rank.0), *place, *peer), (Some(3), Some(3), None));
    assert_eq!((*sequence, *counts, *state), (Some(9), Counts::Collectives, State::Completed));
    assert_eq!((operation.collective.as_deref(), operation.dtype.as_deref()), (Some("all_reduce"), Some("Float")));
    assert_eq!((operation.algorithm.as_deref(), operation.protocol.as_deref()), (Some("RING"), Some("LL128")));
    assert_eq!((operation.in_elements, operation.out_elements, operation.bytes), (Some(1024), Some(1024), Some(4096)));
    assert_eq!((operation.channels, operation.stream_handle), (Some(2), Some(0x77)));
    assert_eq!((operation.enqueued, operation.launched), (at(1_000), at(1_040)));
    // The channels start at 1150 and 1151, and run for 150.
    assert_eq!((operation.start, operation.end), (at(1_150), at(1_301)));
    let [communicator] = &records.communicators[..] else { panic!("{:?}", records.communicators) };
    let about = (communicator.hash, communicator.size, communicator.name.as_deref());
    assert_eq!(about, (Some(0xabc), Some(8), Some("world")));
    let [first, second] = &records.channels[..] else { panic!("{:?}", records.channels) };
    assert_eq!((first.operation, first.channel, first.gpu_stop, first.end), (Some(0), 0, at(1_300), at(1_450)));
    assert_eq!((second.operation, second.channel, second.gpu_start, second.start), (Some(0), 1, at(1_151), at(1_250)));
    let [proxy] = &records.proxy_ops[..] else { panic!("{:?}", records.proxy_ops) };
    let of = (proxy.operation, proxy.place, proxy.peer, proxy.is_send, proxy.channel);
    assert_eq!(of, (Some(0), Some(3), 4, true, 1));
    assert_eq!((proxy.steps, proxy.chunk_bytes, proxy.bytes), (1, Some(4096), Some(4096)));
    // It is done with its last step, though NCCL says so later.
    assert_eq!((proxy.queued, proxy.start, proxy.end), (at(2_000), at(2_100), at(2_900)));
    let [step] = &records.proxy_steps[..] else { panic!("{:?}", records.proxy_steps) };
    assert_eq!((step.proxy_op, step.step, step.start, step.end, step.bytes), (0, 5, at(2_200), at(2_900), Some(4096)));
    let phases = (step.gpu_wait, step.peer_wait, step.network, step.flush);
    assert_eq!(phases, (Some(Ns(90)), Some(Ns(200)), Some(Ns(400)), None));
    let file = &records.files[0];
    assert_eq!((file.source.map(|of| of.name()), file.version.as_deref()), (Some("recorder"), Some("2")));
    assert!(skipped(file).is_empty() && file.notes.is_empty(), "{file:?}");
    let status = &records.rank_status[1];
    assert_eq!((status.host.as_deref(), status.pid, status.last_enqueued), (Some("node0"), Some(43), Some(9)));
}

#[test]
fn states_are_what_channels_show() {
    let folder = folder();
    let process = Process::new(folder.path(), 0, 2, &[1]);
    for (number, stopped) in [2, 1, 2, 1].into_iter().enumerate() {
        process.planned(1_000 * number as i64, 1, 0, stopped);
    }
    let function = process.writer.text(b"Broadcast");
    process.put(9_000, Record { communicator: 1, function, c: 1, ..Record::new(Kind::Coll) });
    let records = process.read();
    let states: Vec<State> = records.operations.iter().map(|operation| operation.state).collect();
    // What comes before a completed one cannot be open: its end is lost.
    let expected = [State::Completed, State::Unknown, State::Completed, State::Started, State::Scheduled];
    assert_eq!(states, expected);
    assert_eq!(sequences(&records), [1, 2, 3, 4, 5].map(Some));
    let ends: Vec<bool> = records.operations.iter().map(|operation| operation.end.is_some()).collect();
    assert_eq!(ends, [true, false, true, false, false]);
    assert_eq!(records.operations[4].peer, Some(1));
}

/// Sends and receives of a group, which an older plugin reports when the group ends; the calls have their times.
#[test]
fn operations_of_a_group_are_joined_in_order() {
    let folder = folder();
    let process = Process::new(folder.path(), 0, 4, &[2, 1]);
    process.writer.set_plugin(4, 255);
    let function = |name: &[u8]| process.writer.text(name);
    let (send, planned) = (function(b"ncclSend"), function(b"Send"));
    for (c, time) in [(1, 100), (2, 250), (1, 100)] {
        let call = Record { communicator: 1, a: 8, parent: 1, dtype: 8, function: send, ..Record::new(Kind::Call) };
        process.put(time, Record { c, ..call });
    }
    process.put(400, Record { function: function(b"ncclGroupEnd"), ..Record::new(Kind::Call) });
    let planned = Record { communicator: 2, a: 8, channel: 1, function: planned, ..Record::new(Kind::P2p) };
    [2, 1, 1].into_iter().for_each(|c| _ = process.put(5_000, Record { c, ..planned }));
    let records = process.read();
    let seen: Vec<_> = records.operations.iter().map(|of| (of.peer, of.enqueued, of.channels, of.sequence)).collect();
    let expected = [(1, 100), (1, 100), (2, 250)].map(|(peer, time)| (Some(peer), at(time), Some(1), None));
    assert_eq!(seen, expected);
}

#[test]
fn graphs_have_an_operation_each_time() {
    let folder = folder();
    let process = Process::new(folder.path(), 0, 2, &[1]);
    let function = process.writer.text(b"AllReduce");
    let api = Record { flags: flag::CAPTURED, communicator: 1, function, a: 1024, b: 5, ..Record::new(Kind::CollApi) };
    let api = process.put(10, api);
    for replay in 1..4 {
        process.planned(replay * 10_000, 1, api, 2);
    }
    let records = process.read();
    let seen: Vec<_> =
        records.operations.iter().map(|of| (of.state, of.enqueued, of.start, of.stream_handle)).collect();
    let replay = |time: i64| (State::Completed, None, at(time + 100), Some(5));
    assert_eq!(seen, [(State::Unknown, at(10), None, Some(5)), replay(10_000), replay(20_000), replay(30_000)]);
}

#[test]
fn what_the_ring_has_overwritten_is_counted() {
    let folder = folder();
    let process = Process::bare(folder.path(), [0, 2, 0], 7, 64);
    process.communicator(2, 0xabc, 0, 2);
    let first = process.call(0, 1, "ncclAllReduce", 4);
    (1..100).for_each(|number| _ = process.call(number * 1_000, 1, "ncclAllReduce", 4));
    // A state of the first, whose record is gone.
    process.state(200_000, first, 19, 0);
    let records = process.read();
    // Of 201 positions the ring has 64: a stop without its call, 31 calls with theirs, and the state.
    assert_eq!(records.operations.len(), 31);
    let expected =
        [("records that newer ones have overwritten", 137), ("records whose beginning the ring has overwritten", 2)];
    assert_eq!(skipped(&records.files[0]), expected);
    assert!(sequences(&records).iter().all(Option::is_none), "nothing says which numbers they have");

    // With numbers of its own a record says which it is.
    let counted = Process::bare(folder.path(), [1, 2, 0], 8, 64);
    counted.communicator(2, 0xabc, 1, 2);
    let function = counted.writer.text(b"ncclAllReduce");
    for number in 0..100 {
        let c = u64::from(counted.writer.next_collective(1)) << 32;
        counted.put(number, Record { communicator: 1, function, a: 4, c, ..Record::new(Kind::Call) });
    }
    let records = counted.read();
    assert_eq!(sequences(&records), (37..=100).map(Some).collect::<Vec<_>>());
    assert_eq!(records.rank_status[1].last_enqueued, Some(100));
}

/// A file that is cut off anywhere is read as far as it goes; one that is being written, too.
#[test]
fn files_may_end_anywhere() {
    let folder = folder();
    let process = Process::new(folder.path(), 0, 2, &[2]);
    (0..50).for_each(|number| _ = process.call(number * 1_000, 1, "ncclAllReduce", 4));
    let records = process.read();
    assert_eq!(records.operations.len(), 50);
    let whole = std::fs::read(&process.path).unwrap();
    let begin = first_ring(&whole);
    let path = folder.path().join("copy");
    for (length, calls) in [(begin, 0), (begin + 63, 0), (begin + 64, 1), (begin + 64 * 51, 26), (whole.len() - 1, 50)]
    {
        std::fs::write(&path, &whole[..length]).unwrap();
        let records = read(&path);
        assert_eq!(records.operations.len(), calls, "{length}");
        assert!(records.files[0].notes[0].starts_with("It is cut off"), "{:?}", records.files);
    }
    for length in [8, 12, 4096, layout::RINGS_AT - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert_eq!(skipped(&read(&path).files[0]), [("recordings that cannot be read", 1)], "{length}");
    }
    // The first words of the second record, whose position is not there yet.
    let mut torn = whole.clone();
    torn[begin + 64..begin + 72].fill(0);
    std::fs::write(&path, &torn).unwrap();
    let file = &read(&path).files[0];
    assert_eq!(skipped(file), [("records that are not complete", 1)]);
    assert_eq!(file.skipped[0].first_offset, Some(begin as u64 + 64));
    let mut other = whole;
    other[8] = 3;
    std::fs::write(&path, &other).unwrap();
    assert_eq!(read(&path).files[0].notes, ["Its layout has version 3, and this program reads versions 1 to 2."]);
}

/// A number that two communicators had, one after the other, is that of the later one. What was read while they changed places is of neither.
#[test]
fn what_names_a_communicator_that_gave_its_number_away_names_none() {
    let folder = folder();
    let process = Process::bare(folder.path(), [0, 2, 0], 7, 64);
    let writer = process.writer;
    let function = writer.text(b"ncclAllReduce");
    let reduce = |time, count| {
        let c = u64::from(writer.next_collective(1)) << 32;
        process.put(time, Record { communicator: 1, function, a: count, c, ..Record::new(Kind::Call) });
    };
    let about = |hash, made| Communicator { by: 2, hash, rank: 0, size: 2, made, ..Communicator::default() };
    (1..=512).for_each(|made| _ = writer.communicator(&about(made, made as i64)));
    reduce(600, 1);
    writer.ended(1, 700);
    let before = std::fs::read(&process.path).unwrap();
    assert_eq!(writer.communicator(&about(0xabc, 800)), 1);
    reduce(900, 2);
    process.set_clock();
    let hashes = || {
        let records = read(&process.path);
        let of = |row: &Operation| records.communicator_of(row).and_then(|of| of.hash);
        records.operations.iter().map(|row| (row.in_elements, of(row), row.sequence)).collect::<Vec<_>>()
    };
    let new = (Some(2), Some(0xabc), Some(1));
    assert_eq!(hashes(), [(Some(1), None, None), new]);
    // The tables are read first, the rings after that.
    let mut bytes = std::fs::read(&process.path).unwrap();
    bytes[layout::COMMUNICATORS_AT..layout::RINGS_AT]
        .copy_from_slice(&before[layout::COMMUNICATORS_AT..layout::RINGS_AT]);
    std::fs::write(&process.path, bytes).unwrap();
    assert_eq!(hashes(), [(Some(1), Some(1), Some(1)), (Some(2), None, None)]);
}

/// Four threads write more than the rings hold; whatever is read meanwhile is what one of them wrote.

#[test]
fn a_file_is_read_while_it_is_written() {
    let folder = folder();
    let process = Process::bare(folder.path(), [0, 2, 0], 7, 256);
    process.communicator(2, 0xabc, 0, 2);
    process.set_clock();
    let (path, writer) = (process.path.clone(), process.writer);
    let function = writer.text(b"ncclAllReduce");
    let is_done = std::sync::atomic::AtomicUsize::new(0);
    let order = std::sync::atomic::Ordering::SeqCst;
    let readings = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 1..=4u32 {
            let (is_done, readings) = (&is_done, &readings);
            scope.spawn(move || {
                for number in 0..20_000 {
                    // On a busy machine all could be written before the first reading.
                    let start = std::time::Instant::now();
                    while number == 10_000 && readings.load(order) == 0 && start.elapsed().as_secs() < 20 {
                        std::thread::yield_now();
                    }
                    let c = u64::from(writer.next_collective(1)) << 32;
                    let call =
                        Record { communicator: 1, function, a: 4, c, thread, time: number, ..Record::new(Kind::Call) };
                    let parent = writer.put(thread as usize, 0, &call).unwrap().number();
                    let stop = Record { parent, thread, time: number, ..Record::new(Kind::Stop) };
                    writer.put(thread as usize, 0, &stop).unwrap();
                }
                is_done.fetch_add(1, order);
            });
        }
        while is_done.load(order) < 4 {
            let records = read(&path);
            for operation in &records.operations {
                let seen = (operation.collective.as_deref(), operation.in_elements, operation.communicator);
                assert_eq!(seen, (Some("all_reduce"), Some(4), Some(0)));
                assert!(operation.sequence.is_some_and(|number| (1..=80_000).contains(&number)));
            }
            readings.fetch_add(1, order);
        }
    });
    assert!(readings.into_inner() > 0);
    let records = read(&path);
    assert_eq!(records.rank_status[1].last_enqueued, Some(80_000));
    assert_eq!(sequences(&records).into_iter().max(), Some(Some(80_000)));
}

#[test]
fn clocks_that_differ_are_said() {
    let folder = folder();
    let process = Process::new(folder.path(), 0, 2, &[1]);
    // The GPU is three seconds ahead of the host.
    let operation = process.planned(1_000, 1, 0, 0);
    let gpu = (EPOCH + 3_000_000_000).cast_unsigned();
    for channel in 2..9 {
        let kernel =
            process.put(5_000, Record { parent: operation, channel, a: gpu, ..Record::new(Kind::KernelChannel) });
        process.state(9_000, kernel, 22, gpu + 700);
    }
    let records = process.read();
    let note = "A GPU's clock is 3.000 s ahead of the host's. Starts and ends are on the host's.";
    assert_eq!(records.files[0].notes, [note]);
    assert_eq!(records.channels[2].gpu_start, at(3_000_000_000));
    // The host's clock was set by 5 ms when the last communicator was made.
    process.set(&[(header::LAST_REALTIME, EPOCH + 105_000_000), (header::LAST_MONOTONIC, 100_000_000)]);
    let file = &read(&process.path).files[0];
    assert!(file.notes.iter().any(|note| note.contains("was set by 5.000 ms")), "{file:?}");
}

pub(crate) fn read_folder(folder: &Path) -> Records {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    read_all(&paths, Keep::Last(64), 2)
}

/// Four ranks make so many calls each, ten at most.
pub(crate) fn job(folder: &Path, by: &[u32], ranks_are_known: bool, calls: [i64; 4]) {
    for (rank, calls) in (0..).zip(calls) {
        let ranks = if ranks_are_known { [rank, 4, rank] } else { [-1; 3] };
        let process = Process::bare(folder, ranks, 40 + rank.cast_unsigned(), 1024);
        by.iter().for_each(|by| process.communicator(*by, 0xabc, rank, 4));
        for number in 0..calls {
            let time = number * 10_000 + i64::from(rank);
            // In the last call, which waits for all ranks, no channel stops.
            match by.contains(&1) {
                true => _ = process.planned(time, 1, 0, if number < *[calls, 6].iter().min().unwrap() { 2 } else { 0 }),
                false => _ = process.call(time, 1, "ncclAllReduce", 1024),
            }
        }
        process.set_clock();
    }
}

#[test]
fn the_rank_that_does_not_come_is_named() {
    for ranks_are_known in [true, false] {
        for missing in [6, 0] {
            let of_plugin = folder();
            job(of_plugin.path(), &[1], ranks_are_known, [7, 7, missing, 7]);
            let report = hang(&read_folder(of_plugin.path()));
            if missing == 6 {
                assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Hung, &[2][..]));
                let output = ended(&["hang", of_plugin.path().to_str().unwrap()], 4);
                has(&stdout(&output), "ask again after some seconds");
                assert_eq!((report.hung[0].sequence, &report.hung[0].waiting_ranks[..]), (Some(7), &[0, 1, 3][..]));
            }
            assert_eq!(report.hung[0].missing_ranks, [2], "{:?}", report.hung[0]);

            let of_calls = folder();
            job(of_calls.path(), &[2], ranks_are_known, [7, 7, missing, 7]);
            let report = hang(&read_folder(of_calls.path()));
            assert_eq!(report.outcome, Outcome::Lagging);
            let evidence = &report.lagging[0].evidence[0];
            assert_eq!((evidence.kind, &evidence.ranks[..]), (EvidenceKind::FewerCalls, &[2][..]));
            assert_eq!((evidence.here.as_deref(), evidence.there.as_deref()), (Some(&*missing.to_string()), Some("7")));
        }
    }
    let all = folder();
    job(all.path(), &[2], true, [7; 4]);
    assert_eq!(hang(&read_folder(all.path())).outcome, Outcome::Clear);
}

#[test]
fn ranks_are_those_of_the_communicator_of_all_files() {
    let folder = folder();
    job(folder.path(), &[2], false, [3; 4]);
    let records = read_folder(folder.path());
    let ranks: Vec<_> = records.operations.iter().map(|operation| operation.rank.unwrap().0).collect();
    assert_eq!(ranks, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
    assert!(records.files[3].notes[0].contains("it is rank 3 of"), "{:?}", records.files[3]);
    // Without one of the files nothing says so.
    std::fs::remove_file(folder.path().join("node0-41.ncclrec")).unwrap();
    let records = read_folder(folder.path());
    assert!(records.operations.iter().all(|operation| operation.rank.is_none() && operation.place.is_some()));
    // Unless the number of all ranks is known, and a communicator has as many.
    let process = Process::bare(folder.path(), [-1, 4, 0], 91, 64);
    process.communicator(2, 0xabc, 2, 4);
    process.communicator(2, 0xdef, 0, 2);
    process.call(1, 2, "ncclBroadcast", 4);
    let records = process.read();
    assert_eq!((records.operations[0].rank.map(|rank| rank.0), records.operations[0].place), (Some(2), Some(0)));
    assert!(records.files[0].notes[0].contains("it is rank 2 of the communicator of all ranks"));
    // Nor for a process that has several ranks.
    let process = Process::bare(folder.path(), [0, 2, 0], 90, 64);
    [0, 1].into_iter().for_each(|rank| process.communicator(2, 0xabc, rank, 2));
    [1, 2].into_iter().for_each(|number| _ = process.call(i64::from(number), number, "ncclBroadcast", 4));
    let seen: Vec<_> = process.read().operations.iter().map(|of| (of.rank, of.place)).collect();
    assert_eq!(seen, [(None, Some(0)), (None, Some(1))]);
}

/// Rank 1 enters each call 400 µs after its peers.
#[test]
fn the_rank_that_enters_late_is_named() {
    let folder = folder();
    let mut random = Random(3);
    for rank in 0..4 {
        let process = Process::new(folder.path(), rank, 4, &[2]);
        for number in 0..400 {
            let late = if rank == 1 { 400_000 } else { 0 };
            process.call(number * 5_000_000 + late + random.below(20_000) as i64, 1, "ncclAllReduce", 1 << 20);
        }
        process.set_clock();
    }
    let path = folder.path().to_str().unwrap();
    let answer: serde_json::Value = json_of(&["ranks", path, "--json", "--quiet"]);
    let slow: Vec<_> = answer["slow"].as_array().unwrap().iter().map(|of| &of["rank"]).collect();
    assert_eq!(slow, [1], "{answer}");
    let query = "SELECT count(*), count(DISTINCT rank), min(source) FROM collective";
    has(&stdout_of(&["sql", path, query, "--quiet", "--format", "csv"]), "1600,4,\"recorder\"");
}

/// Bytes that are changed, gone or there twice: no panic, and rows name rows that exist.
#[test]
fn changed_bytes_are_no_panic() {
    let folder = folder();
    let process = Process::bare(folder.path(), [0, 2, 0], 7, 64);
    [2, 1].into_iter().for_each(|by| process.communicator(by, 0xabc, 0, 2));
    for number in 0..8 {
        let call = process.call(number * 10_000, 1, "ncclAllReduce", 1024);
        let operation = process.planned(number * 10_000 + 100, 2, call, 2);
        let begin = number * 10_000;
        let proxy = process.put(begin + 200, Record { parent: operation, b: 2, ..Record::new(Kind::ProxyOp) });
        let step = process.put(begin + 300, Record { parent: proxy, ..Record::new(Kind::ProxyStep) });
        process.state(begin + 400, step, 9, 77);
        process.stop(begin + 500, step);
    }
    process.set_clock();
    let whole = std::fs::read(&process.path).unwrap();
    let rings: Vec<usize> = (0..layout::RINGS)
        .map(|ring| layout::RingSizes::new(64).at(ring) as usize)
        .filter(|at| whole[*at] != 0 || whole[at + 8] != 0)
        .collect();
    // The header, the first communicators, the first texts, and the rings that are used.
    let parts = [&[0, layout::COMMUNICATORS_AT, layout::TEXTS_AT], &rings[..]].concat();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut recognised = 0;
    for _ in 0..rounds(125) {
        let mut bytes = whole.clone();
        for _ in 0..=random.below(6) {
            let at = parts[random.below(parts.len())] + random.below(1200);
            match random.below(4) {
                0 => bytes[at] = random.below(256) as u8,
                1 => bytes[at & !7..][..8].copy_from_slice(&[0xff; 8]),
                2 => bytes[at & !7..][..8].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0x80]),
                // A record that is sound by itself and says something else: its check is written anew.
                _ => forge(&mut bytes, rings[random.below(rings.len())] + 64 * random.below(64), &mut random),
            }
        }
        recognised += usize::from(records::source_of(&bytes).is_some());
        check_as(8, 64, &bytes);
    }
    assert!(recognised * 10 > rounds(125) * 9, "{recognised}");
    let mut bytes = whole;
    (0..64).for_each(|slot| forge(&mut bytes, rings[0] + 64 * slot, &mut random));
    std::fs::write(&process.path, &bytes).unwrap();
    let file = &read(&process.path).files[0];
    // Forged ones are not refused, or the above would only show that checks are checked. A few have no kind any more.
    let refused = skipped(file).iter().find(|(what, _)| what.contains("not complete")).map_or(0, |of| of.1);
    assert!(refused < 20, "{refused}");
}

/// Records that are complete and say anything: of kinds that exist, with parents among those before them.
#[test]
fn any_records_are_no_panic() {
    const KINDS: &[u8] = &[1, 2, 3, 16, 17, 18, 19, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 64];
    let mut random = Random(11);
    for _ in 0..rounds(50) {
        let mut bytes: Vec<u8> = (0..9 * 64).map(|_| random.below(256) as u8).collect();
        for (at, record) in bytes.chunks_mut(9).enumerate() {
            record[0] = KINDS[random.below(KINDS.len())];
            // The time mostly follows the order, and states are those that NCCL has.
            record[1] = if random.below(8) > 0 { at as u8 } else { record[1] };
            record[2] = (random.below(at + 1) as u8) << 2;
            record[3] %= 32;
            record[6] %= 3;
            record[8] &= 3;
        }
        check_as(8, random.below(256) as u8, &bytes);
    }
}

/// Changes a word of a record and makes its check right.
fn forge(bytes: &mut [u8], at: usize, random: &mut Random) {
    let word = 8 * (1 + random.below(7));
    let value = match random.below(3) {
        0 => u64::MAX,
        1 => random.below(1 << 14) as u64,
        _ => bytes[at + word..at + word + 8].iter().fold(0, |value, byte| value << 8 | u64::from(*byte)),
    };
    bytes[at + word..at + word + 8].copy_from_slice(&value.to_le_bytes());
    bytes[at + 18..at + 20].fill(0);
    let sum = bytes[at..at + 64].chunks(8).enumerate().fold(0u64, |sum, (index, word)| {
        sum ^ u64::from_le_bytes(word.try_into().unwrap()).rotate_left(7 * index as u32)
    });
    let check = (sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16;
    bytes[at + 18..at + 20].copy_from_slice(&check.to_le_bytes());
}

/// What a recorder wrote whose layout had rings of one size: two ranks of `tests/recorder/job.c`, 20 all-reduces each.
#[test]
fn recordings_of_the_first_layout_are_read() {
    let records = read(testdata("records/layout1.tar.gz"));
    let versions: Vec<_> = records.files.iter().map(|file| file.version.as_deref()).collect();
    assert_eq!(versions, [Some("1"), Some("1")], "{:?}", records.files);
    assert!(records.files.iter().all(|file| skipped(file).is_empty() && file.notes.is_empty()), "{:?}", records.files);
    assert_eq!((records.operations.len(), records.channels.len()), (40, 80));
    assert!(records.operations.iter().all(|of| of.state == State::Completed && of.bytes == Some(2 << 20)));
    let last = records.rank_status.iter().filter_map(|status| Some((status.rank?.0, status.last_completed?)));
    assert_eq!(last.collect::<Vec<_>>(), [(0, 20), (1, 20)]);
}
