//! The arguments of an event as key-value rows, and which of them a load keeps.

use std::ops::Range;

use crate::names::args;
use crate::names::category::CategoryKind;
use crate::names::described;

/// The value of one flattened argument.
#[derive(Debug, Clone, PartialEq)]
pub enum ArgValue<T> {
    Int(i64),
    Real(f64),
    /// `true` or `false`.
    Bool(bool),
    Text(T),
}

impl<T> ArgValue<T> {
    #[inline]
    pub fn map<U>(self, text: impl FnOnce(T) -> U) -> ArgValue<U> {
        match self {
            ArgValue::Int(value) => ArgValue::Int(value),
            ArgValue::Real(value) => ArgValue::Real(value),
            ArgValue::Bool(value) => ArgValue::Bool(value),
            ArgValue::Text(value) => ArgValue::Text(text(value)),
        }
    }

    /// The value as a whole number. Accepts 5.0, which tools that rewrite traces write for 5, and a text that is only a number, which
    /// XSigma's profiler writes throughout. `text` returns the text.
    pub fn whole<'a>(&'a self, text: impl FnOnce(&'a T) -> Option<&'a str>) -> Option<i64> {
        match self {
            ArgValue::Int(number) => Some(*number),
            ArgValue::Real(number) if number.fract() == 0.0 && number.abs() < 9.0e15 => Some(*number as i64),
            ArgValue::Text(value) => text(value)?.parse().ok(),
            ArgValue::Real(_) | ArgValue::Bool(_) => None,
        }
    }
}

/// The flattened arguments of one event, in a buffer that is reused for the next one.
///
/// `{"grid":[512,1]}` is two rows, `args.grid[0]` and `args.grid[1]`, with the flat key `args.grid`, as in Perfetto's `args`.
#[derive(Debug, Default)]
pub struct ArgList {
    text: String,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    key: Range<usize>,
    flat_key: Option<Range<usize>>,
    value: ArgValue<Range<usize>>,
}

impl ArgList {
    /// Removes all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.rows.clear();
    }

    /// Adds a row. `flat_key` is `None` if it equals `key`.
    pub fn push(&mut self, key: &str, flat_key: Option<&str>, value: ArgValue<&str>) {
        let key = self.keep(key);
        let flat_key = flat_key.map(|k| self.keep(k));
        let value = value.map(|text| self.keep(text));
        self.rows.push(Row { key, flat_key, value });
    }

    fn keep(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The total length of keys and texts in bytes.
    pub fn text_len(&self) -> usize {
        self.text.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows: key, flat key, value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, ArgValue<&str>)> {
        self.rows.iter().map(|row| {
            let key = &self.text[row.key.clone()];
            let flat_key = row.flat_key.as_ref().map_or(key, |range| &self.text[range.clone()]);
            (key, flat_key, row.value.clone().map(|range| &self.text[range]))
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ArgsWanted {
    /// Every argument of every event: for SQL and export.
    #[default]
    All,
    Keys(KeySet),
    /// The same, and whether operators and the like ([`CategoryKind::Cpu`]) have certain other keys: their value is kept as `true`, so that
    /// a list costs one row whatever its length.
    Present {
        values: KeySet,
        /// The keys whose presence is kept, as the profiler writes them.
        present: &'static [&'static str],
    },
}

impl ArgsWanted {
    /// The arguments that describe collectives: for the main job.
    pub const COLLECTIVES: ArgsWanted = ArgsWanted::Keys(KeySet::COLLECTIVES);

    /// The same, plus the place of a collective in the order of its group: for comparing ranks.
    pub const OPERATIONS: ArgsWanted = ArgsWanted::Keys(KeySet::OPERATIONS);

    /// The same, plus how operators were recorded: for describing a trace.
    pub const DESCRIBED: ArgsWanted = ArgsWanted::Present { values: KeySet::OPERATIONS, present: described::PRESENT };

    /// The keys whose values are kept, and the keys whose presence alone is kept; `None` for all arguments.
    pub fn keys(&self) -> Option<(KeySet, &'static [&'static str])> {
        match *self {
            ArgsWanted::All => None,
            ArgsWanted::Keys(set) => Some((set, &[])),
            ArgsWanted::Present { values, present } => Some((values, present)),
        }
    }

    /// The inputs of operators, and the hardware counters.
    pub const OPERATORS: ArgsWanted = ArgsWanted::Keys(KeySet { keys: args::OF_CALLS, of: EventsOf::Cpu });

    /// Allocations and releases of memory.
    pub const MEMORY: ArgsWanted = ArgsWanted::Keys(KeySet { keys: args::OF_MEMORY, of: EventsOf::Memory });
}

/// Argument keys, and the events for which they are kept: the fewer events, the cheaper the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySet {
    /// The keys, as the profiler writes them. Values nested below them are included.
    pub keys: &'static [&'static str],
    pub of: EventsOf,
}

/// The events that a [`KeySet`] covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventsOf {
    Any,
    /// The records of collectives, the NCCL and RCCL kernels to which Kineto copied a record, and kernels with an annotation.
    Collectives,
    /// The same, plus all CPU operators and annotations.
    Operators,
    /// CPU events other than Python and runtime calls: operators, and a few others.
    Cpu,
    /// Allocations and releases of memory.
    Memory,
}

/// Whether an event keeps the keys of a [`KeySet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    Nothing,
    /// It keeps them if it has the record of a collective, or what a kernel of a graph says itself.
    IfRecorded,
    /// It keeps them if it has what a kernel of a graph says itself.
    IfAnnotated,
    Keys,
}

/// How many bytes of a kernel's name are searched for its library's name: a mangled name begins with `_ZN` and a number.
const NAME_START: usize = 16;

impl Keep {
    /// One of these keys has to be there.
    pub fn markers(self) -> &'static [&'static str] {
        match self {
            Keep::IfRecorded => &[args::COLLECTIVE, args::ANNOTATION],
            Keep::IfAnnotated => &[args::ANNOTATION],
            Keep::Nothing | Keep::Keys => &[],
        }
    }
}

impl KeySet {
    pub const COLLECTIVES: KeySet = KeySet { keys: args::OF_COLLECTIVES, of: EventsOf::Collectives };

    /// The same, plus its place among others.
    pub const OPERATIONS: KeySet = KeySet { keys: args::OF_OPERATIONS, of: EventsOf::Collectives };

    /// Whether an event keeps the keys, by its category and the bytes of its name in the file.
    #[inline(always)]
    pub fn keep(&self, kind: CategoryKind, name: &[u8]) -> Keep {
        match (self.of, kind) {
            (EventsOf::Any, _) => Keep::Keys,
            (EventsOf::Operators, CategoryKind::Cpu) => Keep::Keys,
            (EventsOf::Collectives | EventsOf::Operators, CategoryKind::Kernel) => {
                match name[..name.len().min(NAME_START)].windows(3).any(|part| part == b"ccl") {
                    true => Keep::IfRecorded,
                    false => Keep::IfAnnotated,
                }
            }
            (EventsOf::Collectives, CategoryKind::Cpu) if name == args::COLLECTIVE_RECORD.as_bytes() => Keep::Keys,
            (EventsOf::Cpu, CategoryKind::Cpu) => Keep::Keys,
            (EventsOf::Memory, CategoryKind::Cpu) if name == args::MEMORY.as_bytes() => Keep::Keys,
            (EventsOf::Collectives | EventsOf::Operators | EventsOf::Cpu | EventsOf::Memory, _) => Keep::Nothing,
        }
    }

    /// The key that an event without a category has if it is a kernel.
    pub const MARKER_WITHOUT_CATEGORY: &str = args::HLO_OP;

    /// Whether events with only numeric arguments may have such keys. The collective itself is a text.
    #[inline]
    pub fn may_be_numbers(&self) -> bool {
        !matches!(self.of, EventsOf::Collectives | EventsOf::Operators)
    }
}
