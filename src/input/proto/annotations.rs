//! Debug annotations: the arguments of a track event, as rows and as the numbers that tie events together.
//!
//! The rows have the keys that Perfetto gives them, `debug.` and the annotation's name. What the main job asks for is found by the
//! names that Kineto writes into the `args` of its JSON, since a tool that turns such a trace into this format keeps them.

use std::fmt::Write;

use super::state::{Sequence, Table};
use super::wire::{Field, Fields, Malformed, Value};
use crate::damage::Damage;
use crate::event::{ArgList, ArgValue, ArgsWanted, Ids};
use crate::nccl::args;
use crate::nccl::category::CategoryKind;

/// The fields of `DebugAnnotation`.
const NAME_IID: u32 = 1;
const BOOL: u32 = 2;
const UINT: u32 = 3;
const INT: u32 = 4;
const DOUBLE: u32 = 5;
const STRING: u32 = 6;
const POINTER: u32 = 7;
const JSON: u32 = 9;
const NAME: u32 = 10;
const DICT_ENTRY: u32 = 11;
const ARRAY_VALUE: u32 = 12;
const STRING_IID: u32 = 17;

/// Annotations nested deeper than this are left out; real ones have four levels.
const MAX_DEPTH: usize = 64;

/// How much of a kernel's name is looked at for that of its library: a mangled one begins with `_ZN` and a number.
const NAME_START: usize = 16;

/// What is known of the event that has the annotations.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) kind: CategoryKind,
    pub(super) name: &'a [u8],
}

/// Reads annotations. Keeps the buffers that all share.
#[derive(Debug)]
pub(super) struct Annotations {
    wanted: ArgsWanted,
    pub(super) list: ArgList,
    key: String,
    flat_key: String,
    /// How many names and texts were defined nowhere.
    unknown: usize,
}

/// One annotation, not looked into yet.
struct Annotation<'a> {
    name: Option<&'a [u8]>,
    message: &'a [u8],
    value: Option<ArgValue<&'a [u8]>>,
    has_parts: bool,
}

impl Annotations {
    pub(super) fn new(wanted: ArgsWanted) -> Self {
        let (list, key, flat_key) = (ArgList::default(), String::new(), String::new());
        Annotations { wanted, list, key, flat_key, unknown: 0 }
    }

    /// Forgets those of the event before.
    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    /// Reads the annotations of an event, which are one of its fields, repeated. What ties it to others.
    pub(super) fn read(
        &mut self,
        event: &[u8],
        field: u32,
        owner: Owner<'_>,
        sequence: &Sequence,
        mut damage: impl FnMut(Damage),
    ) -> Result<Ids, Malformed> {
        let mut found = Found::default();
        let mut tells_of_collective = self.wanted == ArgsWanted::All || owner.is_record();
        let annotations = || Fields::new(event).filter(|f| !f.is_ok_and(|f| f.number != field));
        self.unknown = 0;
        for annotation in annotations() {
            let annotation = self.annotation(annotation?.value.bytes().ok_or(Malformed)?, sequence)?;
            if let (Some(name), Some(value)) = (annotation.name, annotation.value) {
                found.see(name, value);
                tells_of_collective |= owner.is_collective() && name == args::COLLECTIVE.as_bytes();
            }
        }
        if tells_of_collective {
            // They are looked at twice, and deeper this time.
            self.unknown = 0;
            for annotation in annotations() {
                let annotation = self.annotation(annotation?.value.bytes().ok_or(Malformed)?, sequence)?;
                if self.wanted == ArgsWanted::All || annotation.is_of_collective() {
                    self.key.replace_range(.., "debug");
                    self.flat_key.replace_range(.., "debug");
                    self.member(&annotation, sequence, 0)?;
                }
            }
        }
        (0..self.unknown).for_each(|_| damage(Damage::NameUnknown));
        Ok(found.ids(owner.kind))
    }

    fn annotation<'a>(&mut self, message: &'a [u8], sequence: &'a Sequence) -> Result<Annotation<'a>, Malformed> {
        let mut read = Annotation { name: None, message, value: None, has_parts: false };
        for field in Fields::new(message) {
            let Field { number, value } = field?;
            match (number, value) {
                (NAME, Value::Bytes(name)) => read.name = Some(name),
                (NAME_IID, Value::Varint(iid)) => read.name = self.known(sequence, Table::AnnotationNames, iid),
                (DICT_ENTRY | ARRAY_VALUE, Value::Bytes(_)) => read.has_parts = true,
                (STRING_IID, Value::Varint(iid)) => {
                    read.value = self.known(sequence, Table::AnnotationTexts, iid).map(ArgValue::Text);
                }
                (BOOL, Value::Varint(value)) => read.value = Some(ArgValue::Bool(value != 0)),
                (INT, Value::Varint(value)) => read.value = Some(ArgValue::Int(value as i64)),
                // What fits no i64 wraps in Perfetto's tables, too.
                (UINT | POINTER, Value::Varint(value)) => read.value = Some(ArgValue::Int(value as i64)),
                (DOUBLE, Value::Fixed64(bits)) => read.value = Some(ArgValue::Real(f64::from_bits(bits))),
                (STRING | JSON, Value::Bytes(text)) => read.value = Some(ArgValue::Text(text)),
                _ => {}
            }
        }
        Ok(read)
    }

    fn known<'a>(&mut self, sequence: &'a Sequence, table: Table, iid: u64) -> Option<&'a [u8]> {
        let text = sequence.text(table, iid);
        self.unknown += usize::from(text.is_none());
        text
    }

    /// Adds the rows of an annotation that has a name.
    fn member(&mut self, annotation: &Annotation<'_>, sequence: &Sequence, depth: usize) -> Result<(), Malformed> {
        let Some(name) = annotation.name else { return Ok(()) };
        let (before, flat_before) = (self.key.len(), self.flat_key.len());
        let name = String::from_utf8_lossy(name).replace(['.', '[', ']'], "_");
        for key in [&mut self.key, &mut self.flat_key] {
            key.push('.');
            key.push_str(&name);
        }
        let result = self.value(annotation, sequence, depth);
        self.key.truncate(before);
        self.flat_key.truncate(flat_before);
        result
    }

    fn value(&mut self, annotation: &Annotation<'_>, sequence: &Sequence, depth: usize) -> Result<(), Malformed> {
        if !annotation.has_parts {
            let Some(value) = &annotation.value else { return Ok(()) };
            let flat_key = (self.key != self.flat_key).then_some(&*self.flat_key);
            match value {
                ArgValue::Text(text) => {
                    self.list.push(&self.key, flat_key, ArgValue::Text(&String::from_utf8_lossy(text)));
                }
                ArgValue::Int(value) => self.list.push(&self.key, flat_key, ArgValue::Int(*value)),
                ArgValue::Real(value) => self.list.push(&self.key, flat_key, ArgValue::Real(*value)),
                ArgValue::Bool(value) => self.list.push(&self.key, flat_key, ArgValue::Bool(*value)),
            }
            return Ok(());
        }
        if depth >= MAX_DEPTH {
            return Ok(());
        }
        let mut index = 0;
        for field in Fields::new(annotation.message) {
            let Field { number, value } = field?;
            match (number, value) {
                (DICT_ENTRY, Value::Bytes(entry)) => {
                    let entry = self.annotation(entry, sequence)?;
                    self.member(&entry, sequence, depth + 1)?;
                }
                (ARRAY_VALUE, Value::Bytes(element)) => {
                    let element = self.annotation(element, sequence)?;
                    let before = self.key.len();
                    write!(self.key, "[{index}]").expect("writing to a String does not fail");
                    index += 1;
                    let result = self.value(&element, sequence, depth + 1);
                    self.key.truncate(before);
                    result?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Annotation<'_> {
    fn is_of_collective(&self) -> bool {
        self.name.is_some_and(|name| args::OF_COLLECTIVES.iter().any(|key| key.as_bytes() == name))
    }
}

impl Owner<'_> {
    /// Whether it is the record of a collective.
    fn is_record(self) -> bool {
        self.kind == CategoryKind::Cpu && self.name == args::COLLECTIVE_RECORD.as_bytes()
    }

    /// Whether it may be the kernel of one: NCCL's and RCCL's say what they are.
    fn is_collective(self) -> bool {
        self.kind == CategoryKind::Kernel && self.name.windows(3).take(NAME_START - 2).any(|part| part == b"ccl")
    }
}

/// The numbers that tie an event to others, as far as there are any.
#[derive(Debug, Default)]
struct Found {
    /// In the order of [`args::IDS`].
    numbers: [Option<i64>; args::IDS.len()],
}

impl Found {
    /// Of several values with one name the first counts.
    fn see(&mut self, name: &[u8], value: ArgValue<&[u8]>) {
        let Some(at) = args::IDS.iter().position(|key| key.as_bytes() == name) else { return };
        let number = match value {
            ArgValue::Int(number) => Some(number),
            ArgValue::Real(number) if number.fract() == 0.0 && number.abs() < 9.0e15 => Some(number as i64),
            ArgValue::Text(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
            _ => None,
        };
        self.numbers[at] = self.numbers[at].or(number);
    }

    fn number(&self, key: &str) -> Option<i64> {
        args::IDS.iter().position(|known| *known == key).and_then(|at| self.numbers[at])
    }

    fn id(&self, key: &str) -> i64 {
        self.number(key).unwrap_or(0).max(0)
    }

    fn one_more(&self, key: &str) -> i64 {
        self.number(key).map_or(0, |number| number.saturating_add(1).max(0))
    }

    /// See [`Ids`].
    fn ids(&self, kind: CategoryKind) -> Ids {
        let correlation = self.id(args::CORRELATION);
        match kind {
            CategoryKind::Frame => {
                Ids { own: self.id(args::PYTHON_ID), other: self.one_more(args::PYTHON_PARENT_ID), more: (0, 0) }
            }
            CategoryKind::Cpu => {
                let other = self.one_more(args::SEQUENCE_NUMBER);
                let thread = if other == 0 { 0 } else { self.id(args::FORWARD_THREAD) };
                Ids { own: self.id(args::EXTERNAL_ID), other, more: (thread, 0) }
            }
            CategoryKind::Kernel | CategoryKind::Gpu => {
                let node = self.id(args::GRAPH_NODE_ID);
                let graph = if node == 0 { 0 } else { self.id(args::GRAPH_ID) };
                Ids { own: correlation, other: self.id(args::EXTERNAL_ID), more: (graph, node) }
            }
            CategoryKind::Runtime => Ids { own: correlation, ..Ids::default() },
        }
    }
}
