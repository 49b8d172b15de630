//! Arguments that are fields of their own in a track event: the source location, a log message, the correlation id.
//!
//! The keys are Perfetto's. Its fields for Chrome's events are skipped.

use super::annotations::Annotations;
use super::state::{Lookup, Table};
use super::wire::{Field, Fields, Malformed, Value};
use crate::event::ArgValue;

/// The fields of `TrackEvent`.
const LOG_MESSAGE: u32 = 21;
const SOURCE: u32 = 33;
const SOURCE_IID: u32 = 34;
const CORRELATION: u32 = 52;
const CORRELATION_TEXT: u32 = 53;
const CORRELATION_IID: u32 = 54;

/// The fields of `SourceLocation`.
const FILE: u32 = 2;
const FUNCTION: u32 = 3;
const LINE: u32 = 4;

/// The fields of `LogMessage`.
const LOG_SOURCE_IID: u32 = 1;
const LOG_BODY_IID: u32 = 2;
const LOG_PRIORITY: u32 = 3;

/// Keys of a source location: file, function, line.
type Keys = [&'static str; 3];
const IN_EVENT: Keys = ["source_location.file_name", "source_location.function_name", "source_location.line_number"];
const INTERNED: Keys = ["source.file_name", "source.function_name", "source.line_number"];
const OF_LOG: Keys = [
    "track_event.log_message.file_name",
    "track_event.log_message.function_name",
    "track_event.log_message.line_number",
];

const CORRELATION_KEY: &str = "correlation_id";

/// The typed arguments of an event.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Typed<'a> {
    log: Option<&'a [u8]>,
    source: Option<&'a [u8]>,
    source_iid: Option<u64>,
    correlation: Option<Correlation<'a>>,
}

#[derive(Debug, Clone, Copy)]
enum Correlation<'a> {
    Id(u64),
    Text(&'a [u8]),
    Iid(u64),
}

impl<'a> Typed<'a> {
    /// Takes a field of the event. If there are several, the last one wins.
    pub(super) fn see(&mut self, number: u32, value: Value<'a>) {
        match (number, value) {
            (LOG_MESSAGE, Value::Bytes(message)) => self.log = Some(message),
            (SOURCE, Value::Bytes(location)) => self.source = Some(location),
            (SOURCE_IID, Value::Varint(iid)) => self.source_iid = Some(iid),
            (CORRELATION, Value::Varint(id)) => self.correlation = Some(Correlation::Id(id)),
            (CORRELATION_TEXT, Value::Bytes(text)) => self.correlation = Some(Correlation::Text(text)),
            (CORRELATION_IID, Value::Varint(iid)) => self.correlation = Some(Correlation::Iid(iid)),
            _ => {}
        }
    }

    /// Adds the rows.
    pub(super) fn add(&self, names: &Lookup<'_>, list: &mut Annotations) -> Result<(), Malformed> {
        if let Some(location) = self.source_iid.and_then(|iid| names.text(Table::SourceLocations, iid)) {
            source(location, INTERNED, list)?;
        }
        if let Some(location) = self.source {
            source(location, IN_EVENT, list)?;
        }
        if let Some(message) = self.log {
            log(message, names, list)?;
        }
        match self.correlation {
            Some(Correlation::Id(id)) => list.push(CORRELATION_KEY, ArgValue::Text(format!("tp:#{id}").as_bytes())),
            Some(Correlation::Text(text)) => list.push(CORRELATION_KEY, ArgValue::Text(text)),
            Some(Correlation::Iid(iid)) => {
                if let Some(text) = names.text(Table::CorrelationIds, iid) {
                    list.push(CORRELATION_KEY, ArgValue::Text(text));
                }
            }
            None => {}
        }
        Ok(())
    }
}

fn source(message: &[u8], keys: Keys, list: &mut Annotations) -> Result<(), Malformed> {
    for field in Fields::new(message) {
        let Field { number, value } = field?;
        match (number, value) {
            (FILE, Value::Bytes(file)) => list.push(keys[0], ArgValue::Text(file)),
            (FUNCTION, Value::Bytes(function)) => list.push(keys[1], ArgValue::Text(function)),
            (LINE, Value::Varint(line)) => list.push(keys[2], ArgValue::Int(line as i64)),
            _ => {}
        }
    }
    Ok(())
}

fn log(message: &[u8], names: &Lookup<'_>, list: &mut Annotations) -> Result<(), Malformed> {
    for field in Fields::new(message) {
        let Field { number, value } = field?;
        match (number, value) {
            (LOG_BODY_IID, Value::Varint(iid)) => {
                if let Some(text) = names.text(Table::LogBodies, iid) {
                    list.push("track_event.log_message", ArgValue::Text(text));
                }
            }
            (LOG_SOURCE_IID, Value::Varint(iid)) => {
                if let Some(location) = names.text(Table::SourceLocations, iid) {
                    source(location, OF_LOG, list)?;
                }
            }
            (LOG_PRIORITY, Value::Varint(priority)) => {
                list.push("track_event.priority", ArgValue::Int(priority as i64))
            }
            _ => {}
        }
    }
    Ok(())
}
