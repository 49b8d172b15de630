//! One debug annotation: an argument of a track event, parsed but for its parts.

use super::state::{Lookup, Table};
use super::wire::{Field, Fields, Malformed, Value};

/// The fields of `DebugAnnotation`.
const NAME_IID: u32 = 1;
const BOOL: u32 = 2;
const UINT: u32 = 3;
const INT: u32 = 4;
const DOUBLE: u32 = 5;
const STRING: u32 = 6;
const POINTER: u32 = 7;
const NESTED: u32 = 8;
const JSON: u32 = 9;
const NAME: u32 = 10;
pub(super) const DICT_ENTRY: u32 = 11;
pub(super) const ARRAY_VALUE: u32 = 12;
const STRING_IID: u32 = 17;

/// One annotation.
pub(super) struct Annotation<'a> {
    pub(super) name: Option<&'a [u8]>,
    pub(super) message: &'a [u8],
    pub(super) value: Option<Content<'a>>,
}

/// The value of an annotation.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Real(f64),
    Text(&'a [u8]),
    Pointer(u64),
    Json(&'a [u8]),
    Nested(&'a [u8]),
    /// Entries or elements, which are fields of the annotation itself.
    Parts,
}

impl<'a> Annotation<'a> {
    pub(super) fn new(message: &'a [u8], names: &Lookup<'a>) -> Result<Self, Malformed> {
        let mut read = Annotation { name: None, message, value: None };
        let mut name_iid = 0;
        for field in Fields::new(message) {
            let Field { number, value } = field?;
            let value = match (number, value) {
                (NAME, Value::Bytes(name)) => {
                    read.name = Some(name);
                    continue;
                }
                (NAME_IID, Value::Varint(iid)) => {
                    name_iid = iid;
                    continue;
                }
                (DICT_ENTRY | ARRAY_VALUE, Value::Bytes(_)) => Some(Content::Parts),
                (STRING_IID, Value::Varint(iid)) => names.text(Table::AnnotationTexts, iid).map(Content::Text),
                (BOOL, Value::Varint(value)) => Some(Content::Bool(value != 0)),
                (INT, Value::Varint(value)) => Some(Content::Int(value as i64)),
                (UINT, Value::Varint(value)) => Some(Content::Uint(value)),
                (POINTER, Value::Varint(value)) => Some(Content::Pointer(value)),
                (DOUBLE, Value::Fixed64(bits)) => Some(Content::Real(f64::from_bits(bits))),
                (STRING, Value::Bytes(text)) => Some(Content::Text(text)),
                (JSON, Value::Bytes(text)) => Some(Content::Json(text)),
                (NESTED, Value::Bytes(value)) => Some(Content::Nested(value)),
                _ => continue,
            };
            read.value = value;
        }
        if name_iid != 0 {
            read.name = names.text(Table::AnnotationNames, name_iid);
        }
        Ok(read)
    }
}
