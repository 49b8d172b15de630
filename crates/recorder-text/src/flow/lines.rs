//! The lines of the extractor's files, and the frame that its aggregate puts around them. Keys of our own follow the extractor's.

use core::fmt::{self, Write};

use super::shape::Shape;
use crate::json::Escaped;

/// What the extractor's lines do not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Own {
    pub hash: Option<u64>,
    /// NCCL's number among the collectives of its function.
    pub number: Option<i64>,
    /// When it began, ns since 1970.
    pub start: Option<i64>,
    /// How long it took, ns.
    pub took: Option<i64>,
    pub bytes: Option<i64>,
    /// Whether no record names the peers.
    pub lacks_peers: bool,
    /// Whether `opCount` or `redOp` is not the recorded one.
    pub is_synthetic: bool,
}

impl Own {
    fn write(&self, out: &mut dyn Write) -> fmt::Result {
        if let Some(hash) = self.hash {
            write!(out, ",\"commHash\":{hash}")?;
        }
        let numbers =
            [("seqNumber", self.number), ("ts_ns", self.start), ("dur_ns", self.took), ("trans_bytes", self.bytes)];
        for (key, number) in numbers {
            if let Some(number) = number {
                write!(out, ",\"{key}\":{number}")?;
            }
        }
        if self.lacks_peers {
            out.write_str(",\"peers\":\"unknown\"")?;
        }
        if self.is_synthetic { out.write_str(",\"synthetic\":true") } else { Ok(()) }
    }
}

/// What all lines of an operation on a channel have.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// By [`of_collective`](super::of_collective) or [`of_pair`](super::of_pair).
    pub op_count: u64,
    pub rank: u32,
    pub channel: u32,
    /// `SIMPLE`.
    pub protocol: &'a str,
    pub own: Own,
}

#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    pub head: Head<'a>,
    /// `RING_TWICE`.
    pub pattern: &'a str,
    pub what: What<'a>,
}

#[derive(Debug, Clone, Copy)]
pub enum What<'a> {
    /// In `proxy_flow_rank<R>.jsonl`: the operation on the channel.
    Op {
        steps: u32,
        slice_bytes: i64,
        chunk_bytes: u64,
        slice_steps: u32,
        chunk_steps: u32,
        dtype: u32,
        reduction: u32,
        /// The ranks before and after it on the ring; -1 for unknown.
        ring: Option<(i64, i64)>,
    },
    /// In `flow_steps_rank<R>.jsonl`: a step with a peer.
    Step(Step<'a>),
}

#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// From 0.
    pub number: u32,
    pub is_send: bool,
    pub peer: u32,
    /// The most that it can move.
    pub bytes: i64,
    /// What it is for: `reduce-scatter`.
    pub stage: Option<&'a str>,
}

/// What a proxy did for an operation on a channel.
#[derive(Debug, Clone, Copy, Default)]
pub struct Work {
    /// How many transfers it was given, of `sliceSteps` steps each.
    pub transfers: u32,
    pub chunk: u64,
    /// ns since 1970, as the end.
    pub start: Option<i64>,
    pub end: Option<i64>,
    pub bytes: Option<u64>,
}

impl Work {
    /// The work of both. Its end and bytes are known only if those of both are.
    pub fn and(self, other: Work) -> Work {
        Work {
            transfers: self.transfers.max(other.transfers),
            chunk: self.chunk.max(other.chunk),
            start: self.start.into_iter().chain(other.start).min(),
            end: self.end.zip(other.end).map(|(end, other)| end.max(other)),
            bytes: self.bytes.zip(other.bytes).map(|(bytes, other)| bytes.saturating_add(other)),
        }
    }
}

impl<'a> Head<'a> {
    /// The line of an operation with all work on the channel. Without a shape only its keys are known.
    pub fn op(
        self,
        shape: Option<Shape>,
        work: &Work,
        dtype: u32,
        reduction: Option<u32>,
        ring: (i64, i64),
    ) -> Line<'a> {
        let (slice_steps, chunk_steps) = shape.map_or((1, 1), |shape| (shape.slice_steps, shape.chunk_steps));
        let what = What::Op {
            steps: work.transfers.saturating_mul(slice_steps),
            slice_bytes: i64::try_from(work.chunk).unwrap_or(i64::MAX),
            chunk_bytes: work.chunk,
            slice_steps,
            chunk_steps,
            dtype,
            reduction: reduction.unwrap_or(0),
            ring: Some(ring),
        };
        let took = work.start.zip(work.end).map(|(start, end)| end.saturating_sub(start));
        let own = Own { start: work.start, took, bytes: signed(work.bytes), ..self.own };
        Line { head: Head { own, ..self }, pattern: shape.map_or("UNKNOWN", |shape| shape.pattern), what }
    }

    /// The lines of a transfer, one of `transfers` among `size` ranks, whose number is in `step`. Its first step has its time and bytes.
    pub fn transfer(
        self,
        step: Step<'a>,
        shape: Shape,
        transfers: u32,
        size: Option<u64>,
    ) -> impl Iterator<Item = Line<'a>> {
        let steps = transfers.saturating_mul(shape.slice_steps);
        let others = Own { start: None, took: None, bytes: None, ..self.own };
        (0..shape.slice_steps).map(move |of_slice| {
            let number = step.number.saturating_mul(shape.slice_steps).saturating_add(of_slice);
            let stage = step.stage.or_else(|| shape.stage(number, steps, size));
            let own = if of_slice == 0 { self.own } else { others };
            let what = What::Step(Step { number, stage, ..step });
            Line { head: Head { own, ..self }, pattern: shape.pattern, what }
        })
    }
}

/// A number of bytes as lines have it.
pub fn signed(bytes: Option<u64>) -> Option<i64> {
    bytes.and_then(|bytes| i64::try_from(bytes).ok())
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Head { op_count, rank, channel, protocol, own } = &self.head;
        write!(out, "{{\"opCount\":{op_count},\"rank\":{rank},\"channel\":{channel}")?;
        match &self.what {
            What::Op { steps, slice_bytes, chunk_bytes, slice_steps, chunk_steps, dtype, reduction, .. } => {
                write!(out, ",\"nsteps\":{steps},\"nbytes\":{slice_bytes},\"chunkSize\":{chunk_bytes}")?;
                write!(out, ",\"sliceSteps\":{slice_steps},\"chunkSteps\":{chunk_steps}")?;
                write!(out, ",\"dtype\":{dtype},\"redOp\":{reduction}")?;
            }
            What::Step(Step { number, is_send, peer, bytes, .. }) => {
                let op = if *is_send { "SEND" } else { "RECV" };
                write!(out, ",\"step\":{number},\"op\":\"{op}\",\"peer\":{peer},\"bytes\":{bytes}")?;
            }
        }
        let [pattern, protocol] = [self.pattern, protocol].map(|text| Escaped(text.as_bytes()));
        write!(out, ",\"pattern\":\"{pattern}\",\"protocol\":\"{protocol}\"")?;
        match &self.what {
            What::Op { ring: Some((before, after)), .. } => {
                write!(out, ",\"ringPrev\":{before},\"ringNext\":{after}")?;
            }
            What::Step(Step { stage: Some(stage), .. }) => {
                write!(out, ",\"stage\":\"{}\"", Escaped(stage.as_bytes()))?;
            }
            _ => {}
        }
        own.write(out)?;
        out.write_str("}")
    }
}

/// `flow_rank<R>.json` in the making: a rank's first operation, then all of its steps, one line each.
pub struct Aggregate<'a> {
    out: &'a mut dyn Write,
    is_empty: bool,
}

impl<'a> Aggregate<'a> {
    /// Begins the file with the line of the first operation.
    pub fn begin(rank: u32, op: &dyn fmt::Display, out: &'a mut dyn Write) -> Result<Self, fmt::Error> {
        write!(out, "{{\n  \"rank\": {rank},\n  \"meta\": {op}\n  ,\n  \"steps\": [\n")?;
        Ok(Aggregate { out, is_empty: true })
    }

    pub fn step(&mut self, step: &Line<'_>) -> fmt::Result {
        let between = if self.is_empty { "" } else { ",\n" };
        self.is_empty = false;
        write!(self.out, "{between}    {step}")
    }

    pub fn end(self) -> fmt::Result {
        self.out.write_str("\n  ]\n}\n")
    }
}
