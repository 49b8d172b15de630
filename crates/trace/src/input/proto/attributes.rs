//! The attributes of a trace: keys and values, shown as metadata under Perfetto's names, `trace_attribute.` and the key.

use super::summary::Summary;
use super::wire::{Field, Fields, Malformed, Value};
use crate::damage::Damage;
use crate::event::{ArgValue, HeaderField};

/// How many are kept, and how many bytes each may have.
const MAX_ATTRIBUTES: usize = 10_000;
const MAX_TEXT: usize = 64 << 10;

/// The field of `TraceAttributes`, and those of its `Attribute`.
const ATTRIBUTE: u32 = 1;
const KEY: u32 = 1;
const INT: u32 = 2;
const TEXT: u32 = 3;

/// Adds a `TraceAttributes`.
pub(super) fn add(message: &[u8], summary: &mut Summary) -> Result<(), Malformed> {
    for field in Fields::new(message) {
        let Field { number: ATTRIBUTE, value: Value::Bytes(attribute) } = field? else { continue };
        let (mut key, mut found) = (None, None);
        for field in Fields::new(attribute) {
            let Field { number, value } = field?;
            match (number, value) {
                (KEY, Value::Bytes(text)) => key = Some(text),
                (INT, Value::Varint(number)) => found = Some(ArgValue::Int(number as i64)),
                (TEXT, Value::Bytes(text)) => found = Some(ArgValue::Text(text)),
                _ => {}
            }
        }
        let (Some(key), Some(value)) = (key, found) else { continue };
        let length = key.len() + if let ArgValue::Text(text) = value { text.len() } else { 0 };
        if length > MAX_TEXT || summary.header.len() >= MAX_ATTRIBUTES {
            summary.damage.count(Damage::HeaderSkipped, None);
            continue;
        }
        let value = match value {
            ArgValue::Text(text) => ArgValue::Text(String::from_utf8_lossy(text).into_owned()),
            ArgValue::Int(number) => ArgValue::Int(number),
            ArgValue::Real(number) => ArgValue::Real(number),
            ArgValue::Bool(is) => ArgValue::Bool(is),
        };
        summary.header.push(HeaderField { key: format!("trace_attribute.{}", String::from_utf8_lossy(key)), value });
    }
    Ok(())
}
