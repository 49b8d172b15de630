//! What a trace has beside its events: the header, flattened to paths and values, what was wrong, and how it ended.

use std::io;

use serde_json::Value;

use super::list::End;
use super::repair::{Outcome, Recoverer};
use super::value::unescape;
use crate::damage::Damage;
use crate::event::{ArgValue, HeaderField};
use crate::input::containers::packed::{PackedCause, PackedFailure};
use crate::input::reader::Summary;

/// Flattens one top-level field, and returns what was wrong with it. What cannot be read at all is kept as text.
pub(super) fn read(key: &str, text: &[u8], fields: &mut Vec<HeaderField>) -> Vec<Damage> {
    let mut faults = Vec::new();
    let value = serde_json::from_slice(text).ok().or_else(|| {
        let (json, kinds) = recovered(text, 0)?;
        faults = kinds;
        serde_json::from_slice(&json).ok()
    });
    match value {
        Some(value) => flatten(key.to_owned(), value, fields),
        None => {
            let value = ArgValue::Text(String::from_utf8_lossy(text).into_owned());
            fields.push(HeaderField { key: key.to_owned(), value });
            faults = vec![Damage::HeaderSkipped];
        }
    }
    faults
}

/// The JSON that a value was meant to be, and what was wrong with it. `max_depth` is the recoverer's.
pub(super) fn recovered(value: &[u8], max_depth: usize) -> Option<(Vec<u8>, Vec<Damage>)> {
    let mut recoverer = Recoverer::up_to_depth(max_depth);
    let (before, object, after) = match value {
        [b'{', ..] => (0, value.to_vec(), 0),
        _ => (BEFORE.len(), [BEFORE, value, b"}"].concat(), 1),
    };
    let is_whole = recoverer.object(&object, 0, true) == Outcome::Whole { end: object.len() };
    let json = recoverer.json.get(before..recoverer.json.len().saturating_sub(after)).filter(|_| is_whole)?;
    Some((json.to_vec(), recoverer.faults.iter().map(|(kind, _)| *kind).collect()))
}

/// What makes an object of any value.
const BEFORE: &[u8] = b"{\"\":";

fn flatten(key: String, value: Value, fields: &mut Vec<HeaderField>) {
    let value = match value {
        Value::Null => return,
        Value::Bool(value) => ArgValue::Bool(value),
        Value::String(value) => ArgValue::Text(value),
        Value::Number(number) => match number.as_i64() {
            Some(value) => ArgValue::Int(value),
            None if number.is_u64() => ArgValue::Text(number.to_string()),
            None => ArgValue::Real(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::Array(values) => {
            for (i, value) in values.into_iter().enumerate() {
                flatten(format!("{key}[{i}]"), value, fields);
            }
            return;
        }
        Value::Object(members) => {
            for (name, value) in members {
                flatten(format!("{key}.{name}"), value, fields);
            }
            return;
        }
    };
    fields.push(HeaderField { key, value });
}

impl Summary {
    pub(super) fn add(&mut self, more: Summary) {
        self.header.extend(more.header);
        self.keys.extend(more.keys);
        self.elements += more.elements;
        self.events += more.events;
        self.damage.add(&more.damage);
    }

    /// Adds a field of the header; `value` is `None` if it was too long to keep.
    pub(super) fn header_field(&mut self, key: &[u8], value: Option<&[u8]>, offset: u64, bytes: u64) {
        let key = unescape(key);
        if key == "displayTimeUnit" {
            self.damage.count(Damage::DisplayTimeUnit, None);
        }
        let faults = value.map(|value| read(&key, value, &mut self.header));
        match faults {
            Some(faults) => faults.into_iter().for_each(|kind| self.damage.count(kind, Some(offset))),
            None => self.damage.lose(Damage::HeaderSkipped, Some(offset), bytes),
        }
        self.keys.push(key.into_owned());
    }

    pub(super) fn end(&mut self, end: End, text_bytes: u64, failure: Option<io::Error>) {
        let packed = failure.as_ref().and_then(PackedFailure::find_in);
        if let Some((kind, offset)) = packed.map(PackedFailure::damage) {
            self.damage.count(kind, offset);
        }
        let mut lose = |kind, offset| self.damage.lose(kind, Some(offset), text_bytes - offset);
        match end {
            End::Whole => {}
            End::CutOff { offset } => {
                self.cut_off_at = Some(offset);
                // What the decompressor has reported is not reported of the text too.
                if packed.is_none_or(|failure| failure.cause == PackedCause::Checksum) {
                    lose(Damage::Truncated, offset);
                }
            }
            End::Broken { offset } => lose(Damage::BrokenStructure, offset),
            End::Trailing { offset } => lose(Damage::TrailingBytes, offset),
        }
        (self.failure, self.text_bytes) = (failure, text_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_flattened_to_paths() {
        let mut fields = Vec::new();
        let info = br#"{"rank": 3, "pg_config": [{"pg_name": "0"}], "none": null}"#;
        assert_eq!(read("distributedInfo", info, &mut fields), []);
        assert_eq!(read("INFO", b"[NaN]", &mut fields), [Damage::InvalidValue]);
        assert_eq!(read("bad", b"[}", &mut fields), [Damage::HeaderSkipped]);
        let shown: Vec<_> = fields.iter().map(|f| format!("{} {:?}", f.key, f.value)).collect();
        assert_eq!(
            shown,
            [
                r#"distributedInfo.pg_config[0].pg_name Text("0")"#,
                "distributedInfo.rank Int(3)",
                r#"INFO[0] Text("NaN")"#,
                r#"bad Text("[}")"#,
            ]
        );
    }
}
