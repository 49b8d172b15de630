//! The header of a trace: every field beside the events, flattened to path and value.

use serde_json::Value;

use super::repair::{Outcome, Recoverer};
use crate::damage::Damage;
use crate::event::{ArgValue, HeaderField};

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
