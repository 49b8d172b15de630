//! The lines of the extractor's files, and the frame that its aggregate puts around them. Keys of our own follow the extractor's.

use core::fmt::{self, Write};

use crate::json::Escaped;

/// What the extractor's lines do not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Own {
    /// NCCL's hash of the communicator.
    pub hash: Option<u64>,
    /// NCCL's number among the collectives of its function.
    pub number: Option<i64>,
    /// When it began, ns since 1970.
    pub start: Option<i64>,
    /// How long it took, ns.
    pub took: Option<i64>,
    /// What was transferred.
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

/// A line of `proxy_flow_rank<R>.jsonl`: an operation on a channel.
#[derive(Debug, Clone, Copy)]
pub struct Op<'a> {
    /// Its number, with 1 in the lowest bit for a send or receive.
    pub op_count: u64,
    /// The rank in the communicator.
    pub rank: u32,
    /// The channel.
    pub channel: u32,
    /// Steps of the FIFO.
    pub steps: u32,
    /// Bytes of a slice.
    pub slice_bytes: i64,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Steps of a slice.
    pub slice_steps: u32,
    /// Steps of a chunk.
    pub chunk_steps: u32,
    /// NCCL's number of the type.
    pub dtype: u32,
    /// The extractor's number of the reduction.
    pub reduction: u32,
    /// `RING_TWICE`.
    pub pattern: &'a str,
    /// `SIMPLE`.
    pub protocol: &'a str,
    /// The ranks before and after it on the ring; -1 for unknown.
    pub ring: Option<(i64, i64)>,
    /// Our own keys.
    pub own: Own,
}

impl fmt::Display for Op<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Op { op_count, rank, channel, steps, slice_bytes, chunk_bytes, .. } = self;
        write!(out, "{{\"opCount\":{op_count},\"rank\":{rank},\"channel\":{channel},\"nsteps\":{steps}")?;
        write!(out, ",\"nbytes\":{slice_bytes},\"chunkSize\":{chunk_bytes}")?;
        let Op { slice_steps, chunk_steps, dtype, reduction, .. } = self;
        write!(
            out,
            ",\"sliceSteps\":{slice_steps},\"chunkSteps\":{chunk_steps},\"dtype\":{dtype},\"redOp\":{reduction}"
        )?;
        let [pattern, protocol] = [self.pattern, self.protocol].map(|text| Escaped(text.as_bytes()));
        write!(out, ",\"pattern\":\"{pattern}\",\"protocol\":\"{protocol}\"")?;
        if let Some((before, after)) = self.ring {
            write!(out, ",\"ringPrev\":{before},\"ringNext\":{after}")?;
        }
        self.own.write(out)?;
        out.write_str("}")
    }
}

/// A line of `flow_steps_rank<R>.jsonl`: a step with a peer.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// That of its operation.
    pub op_count: u64,
    /// The rank in the communicator.
    pub rank: u32,
    /// The channel.
    pub channel: u32,
    /// Its number, from 0.
    pub step: u32,
    /// Whether it sends.
    pub is_send: bool,
    /// The other side, a rank in the communicator.
    pub peer: u32,
    /// The most that it can move.
    pub bytes: i64,
    /// `RING_TWICE`.
    pub pattern: &'a str,
    /// `SIMPLE`.
    pub protocol: &'a str,
    /// What it is for.
    pub stage: Option<&'a str>,
    /// Our own keys.
    pub own: Own,
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step { op_count, rank, channel, step, peer, bytes, .. } = self;
        let op = if self.is_send { "SEND" } else { "RECV" };
        write!(out, "{{\"opCount\":{op_count},\"rank\":{rank},\"channel\":{channel},\"step\":{step}")?;
        write!(out, ",\"op\":\"{op}\",\"peer\":{peer},\"bytes\":{bytes}")?;
        let [pattern, protocol] = [self.pattern, self.protocol].map(|text| Escaped(text.as_bytes()));
        write!(out, ",\"pattern\":\"{pattern}\",\"protocol\":\"{protocol}\"")?;
        if let Some(stage) = self.stage {
            write!(out, ",\"stage\":\"{}\"", Escaped(stage.as_bytes()))?;
        }
        self.own.write(out)?;
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
    ///
    /// # Errors
    /// The error of `out`.
    pub fn begin(rank: u32, op: &dyn fmt::Display, out: &'a mut dyn Write) -> Result<Self, fmt::Error> {
        write!(out, "{{\n  \"rank\": {rank},\n  \"meta\": {op}\n  ,\n  \"steps\": [\n")?;
        Ok(Aggregate { out, is_empty: true })
    }

    /// Adds a step.
    ///
    /// # Errors
    /// The error of `out`.
    pub fn step(&mut self, step: &dyn fmt::Display) -> fmt::Result {
        let between = if self.is_empty { "" } else { ",\n" };
        self.is_empty = false;
        write!(self.out, "{between}    {step}")
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The error of its output.
    pub fn end(self) -> fmt::Result {
        self.out.write_str("\n  ]\n}\n")
    }
}
