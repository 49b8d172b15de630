//! Files of the flow extractor: what a patched NCCL 2.18 plans to send over each channel, without running it.
//!
//! Three files a rank, distinguished by their keys: `proxy_flow_rank<R>.jsonl` has a line per operation and channel,
//! `flow_steps_rank<R>.jsonl` one per step and peer, `flow_rank<R>.json` the first line of the first and all of the second. None has a
//! time, a host, or the communicator: all communicators of a process, and all runs in one folder, are appended to the same files. A
//! folder is therefore what belongs together, see [`runs`].

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
use super::reader::{Reading, RecordReader};
use super::tables::{FlowOp, FlowStep, Records};
use crate::operation::Source;

/// Reads the flow extractor's files.
pub(super) struct Flow;

/// In how many of the first lines one of the extractor's is looked for: those before it may be damaged.
const LOOKED_AT: usize = 8;

const NOT_UNDERSTOOD: &str = "lines that are neither operations nor steps";

impl RecordReader for Flow {
    fn source(&self) -> Source {
        Source::FLOW
    }

    fn sniff(&self, head: &[u8]) -> bool {
        if is_aggregate(head) {
            return true;
        }
        let lines = head.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).take(LOOKED_AT);
        lines.into_iter().any(|line| row(line).is_some())
    }

    fn read(&self, reading: &mut Reading<'_>) -> io::Result<()> {
        if is_aggregate(reading.bytes.fill_buf()?) { aggregate(reading) } else { of_lines(reading) }
    }

    fn complete(&self, records: &mut Records) {
        stages::fill(records);
    }
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
        match row(text) {
            Some(row) => add(row, false, file, records),
            None if text.is_empty() => {}
            None => file.skip(NOT_UNDERSTOOD, Some(offset)),
        }
    })?;
    Ok(())
}

/// A line of either kind. Keys that are not here are accepted: others write these files, too, with more keys.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "opCount")]
    op_count: u64,
    rank: u32,
    channel: u32,
    #[serde(borrow)]
    pattern: Cow<'a, str>,
    #[serde(borrow)]
    protocol: Cow<'a, str>,
    nsteps: Option<u32>,
    nbytes: Option<i64>,
    #[serde(rename = "chunkSize")]
    chunk_size: Option<u64>,
    #[serde(rename = "sliceSteps")]
    slice_steps: Option<u32>,
    #[serde(rename = "chunkSteps")]
    chunk_steps: Option<u32>,
    dtype: Option<u32>,
    #[serde(rename = "redOp")]
    reduction: Option<u32>,
    #[serde(rename = "ringPrev")]
    ring_prev: Option<i64>,
    #[serde(rename = "ringNext")]
    ring_next: Option<i64>,
    step: Option<u32>,
    #[serde(borrow, default)]
    op: Cow<'a, str>,
    peer: Option<u32>,
    bytes: Option<i64>,
    #[serde(borrow, default)]
    stage: Cow<'a, str>,
}

/// A line that has all that one of the extractor has.
enum Row<'a> {
    Op(Line<'a>),
    Step(Line<'a>),
}

fn row(line: &[u8]) -> Option<Row<'_>> {
    classify(serde_json::from_slice(line).ok()?)
}

fn classify(line: Line<'_>) -> Option<Row<'_>> {
    let of_plan = (line.nsteps, line.nbytes, line.chunk_size, line.slice_steps, line.chunk_steps);
    match of_plan {
        (Some(_), Some(_), Some(_), Some(_), Some(_)) if line.dtype.is_some() && line.reduction.is_some() => {
            Some(Row::Op(line))
        }
        _ => {
            let is_step = line.step.is_some() && line.peer.is_some() && line.bytes.is_some();
            (is_step && matches!(&*line.op, "SEND" | "RECV")).then_some(Row::Step(line))
        }
    }
}

fn add(row: Row<'_>, is_aggregate: bool, file: &mut RecordFile, records: &mut Records) {
    file.records += 1;
    match row {
        Row::Op(line) => {
            let op = op(line, is_aggregate, records);
            records.flow_ops.push(op);
        }
        Row::Step(line) => {
            let step = step(line, is_aggregate, records);
            records.flow_steps.push(step);
        }
    }
}

fn op(line: Line<'_>, is_aggregate: bool, records: &mut Records) -> FlowOp {
    let place = |rank: Option<i64>| rank.and_then(|rank| u32::try_from(rank).ok());
    FlowOp {
        file: 0,
        is_aggregate,
        op_count: line.op_count,
        rank: line.rank,
        channel: line.channel,
        steps: line.nsteps.unwrap_or_default(),
        slice_bytes: line.nbytes.unwrap_or_default(),
        chunk_bytes: line.chunk_size.unwrap_or_default(),
        slice_steps: line.slice_steps.unwrap_or_default(),
        chunk_steps: line.chunk_steps.unwrap_or_default(),
        dtype: line.dtype.unwrap_or_default(),
        reduction: line.reduction.unwrap_or_default(),
        pattern: Some(records.text(&line.pattern)),
        protocol: Some(records.text(&line.protocol)),
        ring: place(line.ring_prev).zip(place(line.ring_next)),
    }
}

fn step(line: Line<'_>, is_aggregate: bool, records: &mut Records) -> FlowStep {
    FlowStep {
        file: 0,
        is_aggregate,
        op_count: line.op_count,
        rank: line.rank,
        channel: line.channel,
        step: line.step.unwrap_or_default(),
        is_send: line.op == "SEND",
        peer: line.peer.unwrap_or_default(),
        bytes: line.bytes.unwrap_or_default(),
        pattern: Some(records.text(&line.pattern)),
        protocol: Some(records.text(&line.protocol)),
        recorded_stage: (!line.stage.is_empty()).then(|| records.text(&line.stage)),
        stage: None,
    }
}

/// Reads a `flow_rank<R>.json` in a stream: it has a line for each step, and there may be millions.
fn aggregate(reading: &mut Reading<'_>) -> io::Result<()> {
    let mut bytes = io::BufReader::new(&mut *reading.bytes);
    let mut json = serde_json::Deserializer::from_reader(&mut bytes);
    let mut rest = Reading {
        disk: None,
        bytes: &mut io::empty(),
        file: &mut *reading.file,
        records: &mut *reading.records,
        keep: reading.keep,
    };
    let done = Aggregate(&mut rest).deserialize(&mut json).and_then(|()| json.end());
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

struct Aggregate<'a, 'r>(&'a mut Reading<'r>);

impl<'de> DeserializeSeed<'de> for Aggregate<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Aggregate<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `rank`, `meta` and `steps`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "meta" => {
                    let value: Value = map.next_value()?;
                    match Line::deserialize(&value).ok().and_then(classify) {
                        Some(Row::Op(line)) => add(Row::Op(line), true, self.0.file, self.0.records),
                        _ => self.0.file.skip("values of `meta` that are not operations", None),
                    }
                }
                "steps" => map.next_value_seed(Steps(self.0))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

struct Steps<'a, 'r>(&'a mut Reading<'r>);

impl<'de> DeserializeSeed<'de> for Steps<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Steps<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of steps")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut steps: A) -> Result<(), A::Error> {
        while let Some(value) = steps.next_element::<Value>()? {
            match Line::deserialize(&value).ok().and_then(classify) {
                Some(Row::Step(line)) => add(Row::Step(line), true, self.0.file, self.0.records),
                _ => self.0.file.skip(BAD_STEPS, None),
            }
        }
        Ok(())
    }
}
