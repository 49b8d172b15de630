//! Megatrace's log: a line for each call of a collective, send or receive.
//!
//! ```text
//! [save_count 1] [1755590104.253968145] [Rank 3] Fun ncclAllReduce Data 1024 stream 0x55919d27b4b0 opCount 17 groupHash -42
//! ```
//!
//! This is the [form](Form) of Megatrace's own documentation, and the only one that analyses by that documentation read. Newer versions write fields
//! in brackets instead. Their leading fields, which users may configure, are left out: readers need only `save_count` with the node's address and
//! name before it, and find the rest by keywords.
//!
//! As in Megatrace, the last 10,000 calls are kept until the rank is silent: nothing is written while a job makes progress. Calls are numbered per
//! stream when they are collected, so a gap shows how many were lost. Where a ring has overwritten calls before that, the recorder's numbers of the
//! communicator have a gap, which becomes a gap on the stream of the next call.

use core::fmt::{self, Write};

use nccl_stacks_recorder_format::layout::COMMUNICATORS;
use nccl_stacks_recorder_format::{Entry, Kind, Record, Writer};

use crate::functions::{FUNCTIONS, function};
use crate::merge::{Cursors, Merge};

/// How many calls are kept.
pub const KEPT: usize = 10_000;

/// The number of streams with their own numbering. Calls on further streams have number 0.
const STREAMS: usize = 1024;

/// The forms of lines, by generation of Megatrace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// Fields after keywords, as documented: no host, and signed hashes. Megatrace cuts these lines off after 127 bytes; here they are whole.
    #[default]
    Words,
    /// ```text
    /// [10.0.0.7] [node7] [save_count 1] [1755590104.253968145] [Rank 3] [PCI unknown] [Func ncclAllReduce] [Data 1024] [stream 0x55919d27b4b0] [opCount 17] [groupHash 0x20b485532cbd7f67]
    /// ```
    Brackets,
}

#[derive(Debug, Clone, Copy)]
struct Call {
    time: i64,
    stream: u64,
    count: u64,
    number: u64,
    group: u64,
    /// Its index among the functions.
    function: u8,
}

const NO_CALL: Call = Call { time: 0, stream: 0, count: 0, number: 0, group: 0, function: 0 };

/// How many calls were collected from a communicator's number.
#[derive(Clone, Copy)]
struct Counted {
    /// How many communicators had the number before.
    before: u64,
    /// The numbers of the newest collective, and of the newest send or receive.
    last: [u32; 2],
}

/// The fields that all lines share.
#[derive(Debug, Clone, Copy, Default)]
pub struct About<'a> {
    /// The node's address; empty if it is unknown.
    pub address: &'a str,
    /// The node's name; empty if it is unknown.
    pub host: &'a str,
    pub rank: u32,
    /// What to add to a call's time to get `CLOCK_REALTIME`, ns.
    pub offset: i64,
}

/// The calls of a process that will be written. It has no pointers, so a static one takes no memory until it is used.
pub struct Log {
    calls: [Call; KEPT],
    /// How many calls were ever collected. The last of them are kept.
    collected: usize,
    written: usize,
    /// Streams by address, with open addressing. A place with count 0 is free.
    streams: [(u64, u64); STREAMS],
    counted: [Counted; COMMUNICATORS],
    /// How many calls those counts miss.
    missing: u64,
    cursors: Cursors,
    newest: i64,
    saves: u64,
}

impl Default for Log {
    fn default() -> Self {
        Log::new()
    }
}

impl Log {
    pub const fn new() -> Log {
        Log {
            calls: [NO_CALL; KEPT],
            collected: 0,
            written: 0,
            streams: [(0, 0); STREAMS],
            counted: [Counted { before: 0, last: [0; 2] }; COMMUNICATORS],
            missing: 0,
            cursors: Cursors::new(),
            newest: 0,
            saves: 0,
        }
    }

    pub fn clear(&mut self) {
        (self.collected, self.written, self.newest, self.saves, self.missing) = (0, 0, 0, 0, 0);
        self.streams.fill((0, 0));
        self.counted.fill(Counted { before: 0, last: [0; 2] });
        self.cursors = Cursors::new();
    }

    /// Collects the records since the last time.
    #[inline(never)]
    pub fn collect(&mut self, writer: &Writer) {
        let mut merge = Merge::new(writer, core::mem::replace(&mut self.cursors, Cursors::new()));
        while let Some((_, record)) = merge.next() {
            if record.kind == Kind::Call
                && let Some(function) = function(writer, record.function)
            {
                self.newest = self.newest.max(record.time);
                self.push(writer, &record, function as u8, merge.lost());
            }
        }
        self.cursors = merge.cursors;
    }

    /// Keeps a call. Up to `lost` records before it may have been calls.
    fn push(&mut self, writer: &Writer, record: &Record, function: u8, lost: u64) {
        // The communicator is looked up now, because another one may have its number when the log is written.
        let known = writer.known(record.communicator);
        let known = known.as_ref().map(Entry::communicator).filter(|known| known.times().contains(&record.time));
        let missing = known.map_or(0, |known| self.missing_before(record, known.before, function, lost));
        let call = Call {
            time: record.time,
            stream: record.b,
            count: record.a,
            number: self.number(record.b, missing),
            group: known.map_or(0, |known| known.group_hash),
            function,
        };
        if let Some(place) = self.calls.get_mut(self.collected % KEPT) {
            *place = call;
        }
        self.collected = self.collected.wrapping_add(1);
    }

    /// How many calls of its communicator are missing before this one. Threads may number calls in a different order than their times, so a gap
    /// only counts if records were lost.
    fn missing_before(&mut self, record: &Record, before: u64, function: u8, lost: u64) -> u64 {
        let Ok(number @ 1..) = u32::try_from(record.c >> 32) else { return 0 };
        let communicator = usize::from(record.communicator).checked_sub(1);
        let Some(counted) = communicator.and_then(|at| self.counted.get_mut(at)) else { return 0 };
        if counted.before != before {
            *counted = Counted { before, last: [0; 2] };
        }
        let is_send = matches!(FUNCTIONS.get(usize::from(function)), Some(("Send" | "Recv", _)));
        let Some(last) = counted.last.get_mut(usize::from(is_send)) else { return 0 };
        let newer = number.wrapping_sub(*last).cast_signed();
        if newer <= 0 {
            return 0;
        }
        *last = number;
        let gap = u64::from(newer.unsigned_abs()).saturating_sub(1).min(lost.saturating_sub(self.missing));
        self.missing = self.missing.saturating_add(gap);
        gap
    }

    /// The number of the next call on a stream, from 1, after `missing` calls.
    fn number(&mut self, stream: u64, missing: u64) -> u64 {
        let first = (stream.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize;
        for place in 0..STREAMS {
            let Some((of, count)) = self.streams.get_mut(first.wrapping_add(place) % STREAMS) else { return 0 };
            if *count == 0 || *of == stream {
                *of = stream;
                *count = count.saturating_add(missing).saturating_add(1);
                return *count;
            }
        }
        0
    }

    /// How many calls are missing in the numbers so far.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Whether there are unwritten calls, and the newest is at least `silence` ns old.
    pub fn is_silent(&self, now: i64, silence: i64) -> bool {
        self.collected > self.written && now.saturating_sub(self.newest) >= silence
    }

    /// Writes the calls that were not written yet, and returns their number.
    pub fn write(&mut self, form: Form, about: &About<'_>, out: &mut impl Write) -> Result<usize, fmt::Error> {
        let first = self.written.max(self.collected.saturating_sub(KEPT));
        self.written = self.collected;
        if first == self.collected {
            return Ok(0);
        }
        self.saves = self.saves.saturating_add(1);
        for at in first..self.collected {
            let Some(&Call { time, stream, count, number, group, function }) = self.calls.get(at % KEPT) else { break };
            let function = FUNCTIONS.get(usize::from(function)).map_or("", |(name, _)| name);
            let (about, saves, number) = (*about, self.saves, number.cast_signed());
            Line { about, saves, time, function, count, stream, number, group }.write(form, out)?;
        }
        Ok(self.collected.saturating_sub(first))
    }
}

/// The name, or `unknown` if it would break the line.
fn or_unknown(name: &str) -> &str {
    if name.is_empty() || name.contains(['[', ']', '\n']) { "unknown" } else { name }
}

#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    pub about: About<'a>,
    /// How often the log was written, including this time.
    pub saves: u64,
    /// When NCCL was entered, ns.
    pub time: i64,
    /// The function without `nccl`.
    pub function: &'a str,
    pub count: u64,
    pub stream: u64,
    /// The number of the call on its stream.
    pub number: i64,
    pub group: u64,
}

impl Line<'_> {
    pub fn write(&self, form: Form, out: &mut impl Write) -> fmt::Result {
        let Line { about: About { address, host, rank, offset }, saves, time, function, count, number, group, .. } =
            self;
        if form == Form::Brackets {
            write!(out, "[{}] [{}] ", or_unknown(address), or_unknown(host))?;
        }
        let time = time.saturating_add(*offset).max(0);
        let (seconds, rest) = (time / 1_000_000_000, time % 1_000_000_000);
        write!(out, "[save_count {saves}] [{seconds}.{rest:09}] [Rank {rank}] ")?;
        let stream = Pointer(self.stream);
        match form {
            Form::Brackets => {
                // Only CUDA knows the device, and it is not asked.
                write!(out, "[PCI unknown] [Func nccl{function}] [Data {count}] [stream {stream}] ")?;
                writeln!(out, "[opCount {number}] [groupHash 0x{group:016x}]")
            }
            Form::Words => {
                write!(out, "Fun nccl{function} Data {count} stream {stream} ")?;
                writeln!(out, "opCount {number} groupHash {}", group.cast_signed())
            }
        }
    }
}

/// An address in C's format.
struct Pointer(u64);

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("(nil)"),
            address => write!(f, "0x{address:x}"),
        }
    }
}
