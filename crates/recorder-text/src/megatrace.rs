//! Megatrace's log in its current form: a line for each call of a collective, send or receive.
//!
//! ```text
//! [10.0.0.7] [node7] [save_count 1] [1755590104.253968145] [Rank 3] [PCI unknown] [Func ncclAllReduce] [Data 1024] [stream 0x55919d27b4b0] [opCount 17] [groupHash 0x20b485532cbd7f67]
//! ```
//!
//! Of Megatrace's forms it is the newest, without the fields that a user may have chosen to come first: those need nothing but `save_count`
//! with the node's address and name before it, and both that program's description and our own reader find the rest by its words. The
//! older form with job and round before them differs in these alone, and a job that is none of a scheduler has none.
//!
//! As in Megatrace the last 10,000 calls are kept until the rank is silent: it is a flight recorder for hangs, and writes nothing while a job
//! runs well. Calls are numbered for each stream when they are collected, so a gap says how many were given up.

use core::fmt::{self, Write};

use nccl_stacks_recorder_format::{Kind, Record, Writer};

use crate::merge::{Cursors, Merge};

/// How many calls are kept.
pub const KEPT: usize = 10_000;

/// The streams that have numbers of their own. Calls on others have number 0.
const STREAMS: usize = 1024;

/// The functions that have lines, without `nccl`: what Megatrace intercepts, and what came to NCCL later.
const FUNCTIONS: &[&str] = &[
    "AllReduce",
    "ReduceScatter",
    "AllGather",
    "Broadcast",
    "Bcast",
    "Reduce",
    "Send",
    "Recv",
    "AlltoAll",
    "Gather",
    "Scatter",
];

/// A call that is kept.
#[derive(Debug, Clone, Copy)]
struct Call {
    time: i64,
    stream: u64,
    count: u64,
    number: u64,
    communicator: u16,
    /// Its place among the functions.
    function: u8,
}

const NO_CALL: Call = Call { time: 0, stream: 0, count: 0, number: 0, communicator: 0, function: 0 };

/// What all lines have alike.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// The node's address; empty if it is unknown.
    pub address: &'a str,
    /// The node's name.
    pub host: &'a str,
    /// The rank.
    pub rank: u32,
    /// What is to be added to a record's time for `CLOCK_REALTIME`, ns.
    pub offset: i64,
}

/// The calls of a process that are to be written. It has no pointers: a static one needs no memory until it is used.
pub struct Log {
    calls: [Call; KEPT],
    /// How many calls were ever collected: the last of them are kept.
    collected: usize,
    written: usize,
    /// Streams by address, in open places; a count of 0 is a free place.
    streams: [(u64, u64); STREAMS],
    cursors: Cursors,
    /// The time of the newest call.
    newest: i64,
    saves: u64,
}

impl Default for Log {
    fn default() -> Self {
        Log::new()
    }
}

impl Log {
    /// Nothing was collected.
    pub const fn new() -> Log {
        Log {
            calls: [NO_CALL; KEPT],
            collected: 0,
            written: 0,
            streams: [(0, 0); STREAMS],
            cursors: Cursors::new(),
            newest: 0,
            saves: 0,
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        (self.collected, self.written, self.newest, self.saves) = (0, 0, 0, 0);
        self.streams.fill((0, 0));
        self.cursors = Cursors::new();
    }

    /// Takes what the rings have since the last time.
    pub fn collect(&mut self, writer: &Writer) {
        let (mut cursors, mut newest) = (Cursors::new(), self.newest);
        core::mem::swap(&mut cursors, &mut self.cursors);
        for (_, record) in Merge::new(writer, &mut cursors) {
            if let Some(function) = function(writer, &record) {
                newest = newest.max(record.time);
                self.push(&record, function);
            }
        }
        (self.cursors, self.newest) = (cursors, newest);
    }

    fn push(&mut self, record: &Record, function: u8) {
        let call = Call {
            time: record.time,
            stream: record.b,
            count: record.a,
            number: self.number(record.b),
            communicator: record.communicator,
            function,
        };
        if let Some(place) = self.calls.get_mut(self.collected % KEPT) {
            *place = call;
        }
        self.collected = self.collected.wrapping_add(1);
    }

    /// The number of the next call on a stream, from 1.
    fn number(&mut self, stream: u64) -> u64 {
        let first = (stream.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize;
        for place in 0..STREAMS {
            let Some((of, count)) = self.streams.get_mut(first.wrapping_add(place) % STREAMS) else { return 0 };
            if *count == 0 || *of == stream {
                *of = stream;
                *count = count.saturating_add(1);
                return *count;
            }
        }
        0
    }

    /// Whether there are calls, and the newest of them is so old, ns.
    pub fn is_silent(&self, now: i64, silence: i64) -> bool {
        self.collected > self.written && now.saturating_sub(self.newest) >= silence
    }

    /// Writes the calls that were not written yet; how many these are.
    pub fn write(&mut self, writer: &Writer, about: &About<'_>, out: &mut impl Write) -> Result<usize, fmt::Error> {
        let first = self.written.max(self.collected.saturating_sub(KEPT));
        self.written = self.collected;
        if first == self.collected {
            return Ok(0);
        }
        self.saves = self.saves.saturating_add(1);
        for at in first..self.collected {
            let Some(call) = self.calls.get(at % KEPT) else { break };
            let group = writer.known(call.communicator).map_or(0, |known| known.communicator().group_hash);
            line(call, about, self.saves, group, out)?;
        }
        Ok(self.collected.saturating_sub(first))
    }
}

/// The place of a call among the functions; `None` for what has no line.
fn function(writer: &Writer, record: &Record) -> Option<u8> {
    let name = (record.kind == Kind::Call).then(|| writer.text_at(record.function))??;
    let name = name.strip_prefix(b"nccl").unwrap_or(&name);
    let name = name.strip_suffix(b"Config").unwrap_or(name);
    FUNCTIONS.iter().position(|known| known.as_bytes() == name).and_then(|at| u8::try_from(at).ok())
}

/// A name, unless it would break the line.
fn or_unknown(name: &str) -> &str {
    if name.is_empty() || name.contains(['[', ']', '\n']) { "unknown" } else { name }
}

fn line(call: &Call, about: &About<'_>, saves: u64, group: u64, out: &mut impl Write) -> fmt::Result {
    Line {
        address: about.address,
        host: about.host,
        saves,
        time: call.time.saturating_add(about.offset),
        rank: about.rank,
        function: FUNCTIONS.get(usize::from(call.function)).copied().unwrap_or_default(),
        count: call.count,
        stream: call.stream,
        number: call.number.cast_signed(),
        group,
    }
    .write(out)
}

/// A line of the log: a call.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// The node's address.
    pub address: &'a str,
    /// The node's name.
    pub host: &'a str,
    /// How often the log was written before, and this time.
    pub saves: u64,
    /// When NCCL was entered, ns since 1970; not before that.
    pub time: i64,
    /// The rank of the job.
    pub rank: u32,
    /// The function without `nccl`.
    pub function: &'a str,
    /// Elements.
    pub count: u64,
    /// The stream's address.
    pub stream: u64,
    /// The number of the call on its stream.
    pub number: i64,
    /// The group's hash.
    pub group: u64,
}

impl Line<'_> {
    /// Writes it, with its end.
    ///
    /// # Errors
    /// What the writer fails with.
    pub fn write(&self, out: &mut impl Write) -> fmt::Result {
        let (address, host) = (or_unknown(self.address), or_unknown(self.host));
        let time = self.time.max(0);
        let (seconds, rest) = (time / 1_000_000_000, time % 1_000_000_000);
        write!(out, "[{address}] [{host}] [save_count {}] [{seconds}.{rest:09}] [Rank {}] ", self.saves, self.rank)?;
        // Which device it is only CUDA knows, which is not asked.
        write!(out, "[PCI unknown] [Func nccl{}] [Data {}] ", self.function, self.count)?;
        match self.stream {
            0 => out.write_str("[stream (nil)] ")?,
            stream => write!(out, "[stream 0x{stream:x}] ")?,
        }
        writeln!(out, "[opCount {}] [groupHash 0x{:016x}]", self.number, self.group)
    }
}
