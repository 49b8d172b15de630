//! Files of this project's recorder, written by the recorder's own writer: the calls as its interceptor sees them, and the events that NCCL reports
//! to its plugin.
//!
//! The header has the clocks of the writing machine. They are replaced by the job's, so that the bytes only depend on the job.

use std::ffi::CString;

use nccl_stacks_recorder_format::layout::header;
use nccl_stacks_recorder_format::{Communicator, Facts, Handle, Kind, Record, Writer};

use super::calls::{Call, comm_hash, group_hash, handle};
use super::{Recorder, Writing, Written};

/// The monotonic clock at the start of the job.
const STARTED: i64 = 7_000_000_000_000;
/// The threads: of the program, of the proxy, and of the profiler.
const CALLER: u32 = 1;
const PROXY: u32 = 2;
const PROFILER: u32 = 3;
/// The number of steps of a proxy operation, and the maximum number of records of a call.
const STEPS: u32 = 2;
const RECORDS: u64 = 64;
/// NCCL's number of bfloat16, from 1.
const BFLOAT16: u8 = 10;
/// All events of interface 5.
const EVENTS: u64 = 4095;

pub(super) fn write<'a>(writing: &Writing<'a>) -> Vec<Written<'a>> {
    if writing.recording.recorder == Recorder::None {
        return Vec::new();
    }
    // The writer needs a file to map. A problem ends the program, as everywhere here.
    let folder = tempfile::tempdir().expect("a folder for a file");
    let path = folder.path().join("recording");
    let name = CString::new(path.to_string_lossy().into_owned()).expect("a path without zeros");
    let facts = Facts {
        ring_records: (writing.calls.len() as u64 * RECORDS).max(64),
        pid: 40_000 + writing.rank,
        ranks: [writing.rank.cast_signed(), writing.layout.ranks().cast_signed(), -1],
        boot: b"made",
        host: b"node0",
        command: b"python train.py",
        events: EVENTS,
    };
    let writer = Writer::create(&name, &facts).expect("a new file");
    let mut file = File { writing, writer, communicators: Vec::new() };
    file.communicators();
    writing.calls.iter().for_each(|call| file.call(call));
    writer.close();
    let mut bytes = std::fs::read(&path).expect("the file");
    for (at, value) in [
        (header::REALTIME, writing.clock.at(0)),
        (header::LAST_REALTIME, writing.clock.at(0)),
        (header::MONOTONIC, STARTED),
        (header::LAST_MONOTONIC, STARTED),
    ] {
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    let name = format!("node0-{}.ncclrec", facts.pid);
    vec![Written { name, bytes, calls: writing.calls.clone() }]
}

struct File<'w, 'a> {
    writing: &'w Writing<'a>,
    writer: Writer,
    /// By group: the plugin's and the interceptor's number for it.
    communicators: Vec<[u16; 2]>,
}

impl File<'_, '_> {
    fn has(&self, part: Recorder) -> bool {
        [part, Recorder::Both].contains(&self.writing.recording.recorder)
    }

    fn communicators(&mut self) {
        let (layout, rank) = (self.writing.layout, self.writing.rank);
        for (number, group) in layout.groups.iter().enumerate() {
            let is_here = group.ranks.contains(&rank);
            let about = |by| Communicator {
                name: group.description.as_bytes(),
                by,
                hash: comm_hash(number),
                group_hash: group_hash(number),
                rank: if is_here { layout.place(number, rank).cast_signed() } else { -1 },
                size: group.ranks.len() as i32,
                nodes: 1,
                ..Communicator::default()
            };
            let of = |part, by| if is_here && self.has(part) { self.writer.communicator(&about(by)) } else { 0 };
            let numbers = [of(Recorder::Plugin, 1), of(Recorder::Interceptor, 2)];
            self.communicators.push(numbers);
        }
        if self.has(Recorder::Plugin) {
            self.writer.set_plugin(5, EVENTS);
        }
    }

    /// Writes a record at a time of the job; returns the number of its handle.
    fn put(&self, thread: u32, at: i64, record: Record) -> u64 {
        let clock = self.writing.clock;
        let time = STARTED + clock.at(at) - clock.at(0);
        self.writer.put(thread as usize, 0, &Record { thread, time, ..record }).map_or(0, Handle::number)
    }

    fn state(&self, thread: u32, at: i64, parent: u64, state: u64, b: u64) {
        self.put(thread, at, Record { parent, a: state, b, ..Record::new(Kind::State) });
    }

    fn stop(&self, thread: u32, at: i64, parent: u64) {
        self.put(thread, at, Record { parent, ..Record::new(Kind::Stop) });
    }

    fn call(&self, call: &Call<'_>) {
        let [_, communicator] = self.communicators[call.comm.group];
        let number = if call.is_collective() { call.of_comm + 1 } else { 0 };
        let number = number << 32 | u64::from(call.peer.unwrap_or(0));
        let (name, stream) = (format!("nccl{}", call.function), handle(call.stream));
        let intercepted = self.has(Recorder::Interceptor).then(|| {
            let function = self.writer.text(name.as_bytes());
            let (a, b, c) = (call.count, stream, number);
            let record = Record { a, b, c, communicator, function, dtype: BFLOAT16, ..Record::new(Kind::Call) };
            self.put(CALLER, call.called, record)
        });
        if self.has(Recorder::Plugin) {
            self.planned(call, number);
        }
        if let Some(intercepted) = intercepted {
            self.stop(CALLER, call.returned, intercepted);
        }
    }

    /// Writes what NCCL reports of a call.
    fn planned(&self, call: &Call<'_>, number: u64) {
        let [communicator, _] = self.communicators[call.comm.group];
        let at = call.called;
        let (api, of) = if call.is_collective() { (Kind::CollApi, Kind::Coll) } else { (Kind::P2pApi, Kind::P2p) };
        let text = |text: Option<&str>| text.map_or(0, |text| self.writer.text(text.as_bytes()));
        let (function, dtype) = (text(Some(call.function)), text(Some("ncclBfloat16")));
        let (stream, count) = (handle(call.stream), call.count);
        let like = |kind| Record { communicator, function, dtype, a: count, ..Record::new(kind) };
        let group = self.put(CALLER, at + 100, Record { a: 1, communicator, ..Record::new(Kind::GroupApi) });
        self.state(CALLER, at + 110, group, 23, 0);
        let api = self.put(CALLER, at + 200, Record { parent: group, b: stream, ..like(api) });
        self.stop(CALLER, at + 300, api);
        self.state(CALLER, at + 310, group, 24, 0);
        let launch = Record { parent: group, b: stream, ..Record::new(Kind::KernelLaunch) };
        let launch = self.put(CALLER, at + 400, launch);
        self.stop(CALLER, at + 800, launch);
        let plan = Record {
            parent: api,
            b: call.sequence,
            c: number,
            algorithm: text(call.plan.algorithm),
            protocol: text(call.plan.protocol),
            channel: call.plan.channels as u8,
            ..like(of)
        };
        let operation = self.put(CALLER, at + 900, plan);
        // Handles of ended events can still be parents.
        self.stop(CALLER, at + 950, operation);
        self.stop(CALLER, at + 1_000, group);
        self.kernel(call, operation, communicator);
    }

    fn kernel(&self, call: &Call<'_>, parent: u64, communicator: u16) {
        let on_gpu = |ns: i64| (self.writing.clock.at(ns) / 32 * 32).cast_unsigned();
        for channel in 0..call.plan.channels {
            let seen = 2_000 + 150 * i64::from(channel);
            let start = Record {
                parent,
                communicator,
                a: on_gpu(call.ran.0),
                channel: channel as u8,
                ..Record::new(Kind::KernelChannel)
            };
            let kernel = self.put(PROFILER, call.ran.0 + seen, start);
            if channel == 0 && call.plan.algorithm == Some("RING") {
                self.proxy(call, parent, communicator);
            }
            self.state(PROFILER, call.ran.1 + seen, kernel, 22, on_gpu(call.ran.1));
            self.stop(PROFILER, call.ran.1 + seen + 50, kernel);
        }
    }

    /// The proxy thread receives from the previous rank and sends to the next. The phases of each step take a half, a quarter and a quarter of it.
    fn proxy(&self, call: &Call<'_>, parent: u64, communicator: u16) {
        let ranks = self.writing.layout.groups[call.comm.group].ranks.len() as u32;
        let place = self.writing.layout.place(call.comm.group, self.writing.rank);
        let (start, end) = call.ran;
        let bytes = call.bytes() / u64::from(STEPS);
        for (small, peer, phases) in
            [(0, (place + ranks - 1) % ranks, [10, 11, 12]), (1, (place + 1) % ranks, [8, 20, 9])]
        {
            let op = Record {
                parent,
                communicator,
                a: 40_000 + u64::from(self.writing.rank),
                b: u64::from(STEPS) | bytes << 32,
                c: peer.into(),
                small,
                ..Record::new(Kind::ProxyOp)
            };
            let op = self.put(PROXY, start, op);
            self.state(PROXY, start + 500, op, 19, 0);
            let length = (end - start - 1_000) / i64::from(STEPS);
            for step in 0..STEPS {
                let from = start + 500 + length * i64::from(step);
                let record = Record { parent: op, a: step.into(), ..Record::new(Kind::ProxyStep) };
                let step = self.put(PROXY, from, record);
                for (phase, after) in phases.into_iter().zip([0, length / 2, length / 4 * 3]) {
                    self.state(PROXY, from + after, step, phase, bytes);
                }
                self.stop(PROXY, from + length, step);
            }
            self.stop(PROXY, end, op);
        }
    }
}
