//! What NCCL attaches to its ranges: the communicator, the size of a message, the peer, root or reduction.
//!
//! An export has it as JSON (`--include-json=true`), in binary (`--include-blobs=true`), or by default not at all. The binary form begins
//! with 32 bytes: domain and schema in 8 bytes each, of which 4 are used, the length of the payload, and the length of all. The schema
//! says which fields it has (`nvToolsExtPayload.h`).

use std::collections::{BTreeMap, HashMap, HashSet};

use rusqlite::Result;
use serde_json::Value;

use super::export::Export;
use super::tables::Table;
use crate::event::{ArgList, ArgValue};

const ENTRIES: Table = Table {
    name: "NVTX_PAYLOAD_SCHEMA_ENTRIES",
    columns: &["domainId", "schemaId", "idx", "type", "name", "offset"],
    process: None,
};

const ENUMS: Table =
    Table { name: "NVTX_PAYLOAD_ENUM_ENTRIES", columns: &["domainId", "schemaId", "name", "value"], process: None };

/// The length of what comes before a payload in binary, and where the numbers in it are.
const HEADER: usize = 32;
const SCHEMA_AT: usize = 8;
const LENGTH_AT: usize = 16;

/// How many fields of a payload are read, and the longest JSON that is. Many rows may have one text and one schema, so that a small file
/// could have more of them than any memory holds. NCCL's payloads have three fields.
const FIELDS: usize = 64;
const LONGEST: usize = 16 * 1024;

/// Types from here on are schemas and enumerations of the program itself.
const OWN_TYPES: i64 = 1 << 24;

/// The part of a name that says that a number is an identity, which NCCL writes with hexadecimal digits.
const IDENTITY: &str = "communicator ID";

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    kind: i64,
    name: String,
    offset: usize,
}

/// Domain and number of a schema or an enumeration.
type Key = (i64, i64);

#[derive(Debug, Default)]
pub(super) struct Payloads {
    /// The fields of each schema, by their index.
    schemas: HashMap<Key, BTreeMap<i64, Entry>>,
    words: HashMap<Key, HashMap<i64, String>>,
    domains: HashSet<i64>,
}

impl Payloads {
    /// Several processes have the same schemas, each in rows of its own.
    pub(super) fn read(export: &Export) -> Result<Self> {
        let mut payloads = Payloads::default();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        export.database.each(&ENTRIES, None, |row| {
            let key = (row.number(0).unwrap_or(0), row.number(1).unwrap_or(0));
            payloads.domains.insert(key.0);
            // The first field has no offset.
            let offset = usize::try_from(row.number(5).unwrap_or(0)).ok();
            if let (Some(at), Some(kind), Some(name), Some(offset)) =
                (row.number(2), row.number(3), row.bytes(4), offset)
            {
                let entry = Entry { kind, name: text(name), offset };
                payloads.schemas.entry(key).or_default().insert(at, entry);
            }
            Ok(true)
        })?;
        export.database.each(&ENUMS, None, |row| {
            let key = (row.number(0).unwrap_or(0), row.number(1).unwrap_or(0));
            if let (Some(name), Some(value)) = (row.bytes(2), row.number(3)) {
                payloads.words.entry(key).or_default().insert(value, text(name));
            }
            Ok(true)
        })?;
        Ok(payloads)
    }

    /// Whether ranges of a domain may have payloads.
    pub(super) fn has(&self, domain: i64) -> bool {
        self.domains.contains(&domain)
    }

    /// Adds a payload in binary to arguments. Returns whether it could be read.
    pub(super) fn binary(&self, domain: i64, bytes: &[u8], args: &mut ArgList) -> bool {
        let header = |at: usize, length| number(bytes.get(at..)?, length);
        let payload = bytes.get(HEADER..).filter(|payload| header(LENGTH_AT, 8) == Some(payload.len() as u64));
        let entries = header(SCHEMA_AT, 4).and_then(|schema| self.schemas.get(&(domain, schema as i64)));
        let (Some(payload), Some(entries)) = (payload, entries) else { return false };
        for entry in entries.values().take(FIELDS) {
            let Some(value) = value(entry.kind, payload.get(entry.offset..).unwrap_or_default()) else { continue };
            let word = match value {
                Number::Int(number) => self.words.get(&(domain, entry.kind)).and_then(|words| words.get(&number)),
                _ => None,
            };
            push(
                args,
                &entry.name,
                match (&value, word) {
                    (_, Some(word)) => ArgValue::Text(word),
                    (Number::Int(number), None) => ArgValue::Int(*number),
                    (Number::Real(number), None) => ArgValue::Real(*number),
                    (Number::Unsigned(text), None) => ArgValue::Text(text),
                },
            );
        }
        true
    }
}

/// Adds a payload in JSON to arguments. Returns whether it could be read.
pub(super) fn json(bytes: &[u8], args: &mut ArgList) -> bool {
    if bytes.len() > LONGEST {
        return false;
    }
    let Ok(Value::Object(fields)) = serde_json::from_slice(bytes) else { return false };
    for (name, value) in fields.iter().take(FIELDS) {
        let text;
        push(
            args,
            name,
            match value {
                Value::Bool(value) => ArgValue::Bool(*value),
                Value::String(value) => ArgValue::Text(value),
                Value::Number(number) if number.is_i64() && !name.contains(IDENTITY) => {
                    ArgValue::Int(number.as_i64().unwrap_or(0))
                }
                Value::Number(number) if number.is_f64() => ArgValue::Real(number.as_f64().unwrap_or(0.0)),
                Value::Number(number) => {
                    text = number.as_u64().map_or_else(|| number.to_string(), |number| format!("{number:#x}"));
                    ArgValue::Text(&text)
                }
                Value::Null => continue,
                nested => {
                    text = nested.to_string();
                    ArgValue::Text(&text)
                }
            },
        );
    }
    true
}

fn push(args: &mut ArgList, name: &str, value: ArgValue<&str>) {
    match value {
        ArgValue::Int(number) if name.contains(IDENTITY) => {
            args.push(&format!("args.{name}"), None, ArgValue::Text(&format!("{:#x}", number as u64)));
        }
        value => args.push(&format!("args.{name}"), None, value),
    }
}

#[derive(Debug, PartialEq)]
enum Number {
    Int(i64),
    Real(f64),
    /// One that is too large for an `i64`, with hexadecimal digits.
    Unsigned(String),
}

/// The value at the beginning of some bytes, by its type.
fn value(kind: i64, bytes: &[u8]) -> Option<Number> {
    let signed = |length: usize| {
        let shift = 64 - 8 * length as u32;
        Some(Number::Int(((number(bytes, length)? << shift) as i64) >> shift))
    };
    let unsigned = |length: usize| {
        let number = number(bytes, length)?;
        Some(i64::try_from(number).map_or_else(|_| Number::Unsigned(format!("{number:#x}")), Number::Int))
    };
    match kind {
        1 | 11 => signed(1),
        2 | 12 => unsigned(1),
        3 | 13 => signed(2),
        4 | 14 => unsigned(2),
        5 | 15 => signed(4),
        6 | 16 => unsigned(4),
        7 | 9 | 17 => signed(8),
        8 | 10 | 18 | 22 | 23 => unsigned(8),
        19 => Some(Number::Real(f64::from(f32::from_bits(number(bytes, 4)? as u32)))),
        20 => Some(Number::Real(f64::from_bits(number(bytes, 8)?))),
        // An enumeration is as long as C makes it.
        own if own >= OWN_TYPES => signed(4),
        _ => None,
    }
}

/// The number in this many bytes, the lowest first.
fn number(bytes: &[u8], length: usize) -> Option<u64> {
    Some(bytes.get(..length)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
