//! Files of the flow extractor: what a patched NCCL 2.18 plans to send over each channel, without running it.
//!
//! Three files a rank, distinguished by their keys: `proxy_flow_rank<R>.jsonl` has a line per operation and channel, `flow_steps_rank<R>.jsonl` one
//! per step and peer, `flow_rank<R>.json` the first line of the first and all of the second. None has a time, a host, or the communicator: all
//! communicators of a process, and all runs in one folder, are appended to the same files. A folder is therefore what belongs together, see [`runs`].

pub mod runs;
pub mod stages;

use std::borrow::Cow;
use std::fmt;
use std::io;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::file::RecordFile;
use super::lines;
use super::reader::{Reader, Reading};
use super::tables::{FlowOp, FlowStep, Records};
use crate::operation::Source;

pub(super) const READER: Reader = Reader { source: Source::FLOW, sniff, read, leaves_holes: false };

/// In how many of the first lines one of the extractor's is looked for: those before it may be damaged.
const LOOKED_AT: usize = 8;

const NOT_UNDERSTOOD: &str = "lines that are neither operations nor steps";

fn sniff(head: &[u8]) -> bool {
    if is_aggregate(head) {
        return true;
    }
    let lines = head.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).take(LOOKED_AT);
    let is_row =
        |line| serde_json::from_slice(line).is_ok_and(|line| row(line, false, &mut Records::default()).is_some());
    lines.into_iter().any(is_row)
}

fn read(reading: &mut Reading<'_>) -> io::Result<()> {
    if is_aggregate(reading.bytes.fill_buf()?) { aggregate(reading) } else { of_lines(reading) }
}

const BAD_STEPS: &str = "elements of `steps` that are not steps";

/// Whether a file begins as an aggregate does: `{"rank": 0, "meta":`.
fn is_aggregate(head: &[u8]) -> bool {
    let mut rest = head;
    for part in ["{", "\"rank\"", ":"] {
        let Some(after) = rest.trim_ascii_start().strip_prefix(part.as_bytes()) else { return false };
        rest = after;
    }
    let rest = rest.trim_ascii_start();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let Some(rest) = rest[digits..].trim_ascii_start().strip_prefix(b",") else { return false };
    digits > 0 && rest.trim_ascii_start().starts_with(b"\"meta\"")
}

fn of_lines(reading: &mut Reading<'_>) -> io::Result<()> {
    let Reading { bytes, file, records, .. } = reading;
    // What is left of a line that is too long is no operation either, and is counted as such.
    lines::for_each(*bytes, |line, offset| {
        let text = line.trim_ascii();
        if !text.is_empty() && !add(serde_json::from_slice(text).ok(), None, file, records) {
            file.skip(NOT_UNDERSTOOD, Some(offset));
        }
    })?;
    Ok(())
}

/// A line of either kind. Keys that are not here are accepted: others write these files, too, with more keys.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    op_count: u64,
    rank: u32,
    channel: u32,
    #[serde(borrow)]
    pattern: Cow<'a, str>,
    #[serde(borrow)]
    protocol: Cow<'a, str>,
    nsteps: Option<u32>,
    nbytes: Option<i64>,
    chunk_size: Option<u64>,
    slice_steps: Option<u32>,
    chunk_steps: Option<u32>,
    dtype: Option<u32>,
    red_op: Option<u32>,
    ring_prev: Option<i64>,
    ring_next: Option<i64>,
    step: Option<u32>,
    #[serde(borrow, default)]
    op: Cow<'a, str>,
    peer: Option<u32>,
    bytes: Option<i64>,
    #[serde(borrow, default)]
    stage: Cow<'a, str>,
}

enum Row {
    Op(FlowOp),
    Step(FlowStep),
}

/// Where in an aggregate a line is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Meta,
    Steps,
}

/// Adds a line; whether it has all that one of the extractor has, and is where such a one belongs.
fn add(line: Option<Line<'_>>, within: Option<Within>, file: &mut RecordFile, records: &mut Records) -> bool {
    match line.and_then(|line| row(line, within.is_some(), records)) {
        Some(Row::Op(op)) if within != Some(Within::Steps) => records.flow_ops.push(op),
        Some(Row::Step(step)) if within != Some(Within::Meta) => records.flow_steps.push(step),
        _ => return false,
    }
    file.records += 1;
    true
}

/// The row of a line; `None` if it lacks something that the extractor writes.
fn row(line: Line<'_>, is_aggregate: bool, records: &mut Records) -> Option<Row> {
    let Line { op_count, rank, channel, .. } = line;
    let of_plan = (line.nsteps, line.nbytes, line.chunk_size, line.slice_steps, line.chunk_steps);
    let (pattern, protocol) = (Some(records.text(&line.pattern)), Some(records.text(&line.protocol)));
    if let (Some(steps), Some(slice_bytes), Some(chunk_bytes), Some(slice_steps), Some(chunk_steps)) = of_plan
        && let Some((dtype, reduction)) = line.dtype.zip(line.red_op)
    {
        let place = |rank: Option<i64>| rank.and_then(|rank| u32::try_from(rank).ok());
        return Some(Row::Op(FlowOp {
            file: 0,
            is_aggregate,
            op_count,
            rank,
            channel,
            steps,
            slice_bytes,
            chunk_bytes,
            slice_steps,
            chunk_steps,
            dtype,
            reduction,
            pattern,
            protocol,
            ring: place(line.ring_prev).zip(place(line.ring_next)),
        }));
    }
    Some(Row::Step(FlowStep {
        file: 0,
        is_aggregate,
        op_count,
        rank,
        channel,
        step: line.step?,
        is_send: matches!(&*line.op, "SEND" | "RECV").then_some(line.op == "SEND")?,
        peer: line.peer?,
        bytes: line.bytes?,
        pattern,
        protocol,
        recorded_stage: (!line.stage.is_empty()).then(|| records.text(&line.stage)),
        stage: None,
    }))
}

/// Reads a `flow_rank<R>.json` in a stream: it has a line for each step, and there may be millions.
fn aggregate(reading: &mut Reading<'_>) -> io::Result<()> {
    let mut json = serde_json::Deserializer::from_reader(io::BufReader::new(&mut *reading.bytes));
    let aggregate = Aggregate { within: Within::Meta, file: &mut *reading.file, records: &mut *reading.records };
    let done = aggregate.deserialize(&mut json).and_then(|()| json.end());
    match done {
        Err(error) if error.is_io() => Err(error.into()),
        Err(error) => {
            reading.file.skip("ends of an aggregate that are not JSON", None);
            reading.file.note(format!("the aggregate is not read to its end: {error}"));
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

struct Aggregate<'a> {
    within: Within,
    file: &'a mut RecordFile,
    records: &'a mut Records,
}

impl<'de> DeserializeSeed<'de> for Aggregate<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        match self.within {
            Within::Meta => json.deserialize_map(self),
            Within::Steps => json.deserialize_seq(self),
        }
    }
}

impl<'de> Visitor<'de> for Aggregate<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.within {
            Within::Meta => "an object with `rank`, `meta` and `steps`",
            Within::Steps => "an array of steps",
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Aggregate { within, file, records } = self;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "meta" => {
                    let value: Value = map.next_value()?;
                    if !add(Line::deserialize(&value).ok(), Some(within), file, records) {
                        file.skip("values of `meta` that are not operations", None);
                    }
                }
                "steps" => map.next_value_seed(Aggregate { within: Within::Steps, file, records })?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut steps: A) -> Result<(), A::Error> {
        while let Some(value) = steps.next_element::<Value>()? {
            if !add(Line::deserialize(&value).ok(), Some(self.within), self.file, self.records) {
                self.file.skip(BAD_STEPS, None);
            }
        }
        Ok(())
    }
}
