//! The arguments of an event: rows of key and value, and which of them a load keeps.

use std::ops::Range;

use crate::names::args;
use crate::names::category::CategoryKind;
use crate::names::described;

/// The value of one flattened argument.
#[derive(Debug, Clone, PartialEq)]
pub enum ArgValue<T> {
    /// An integer within `i64`.
    Int(i64),
    /// Any other number.
    Real(f64),
    /// `true` or `false`.
    Bool(bool),
    /// Text.
    Text(T),
}

impl<T> ArgValue<T> {
    /// The whole number that the value is: also 5.0, into which tools that rewrite traces turn 5, and a text of nothing but the number,
    /// as XSigma's profiler writes all of them. `text` gives the text.
    pub fn whole<'a>(&'a self, text: impl FnOnce(&'a T) -> Option<&'a str>) -> Option<i64> {
        match self {
            ArgValue::Int(number) => Some(*number),
            ArgValue::Real(number) if number.fract() == 0.0 && number.abs() < 9.0e15 => Some(*number as i64),
            ArgValue::Text(value) => text(value)?.parse().ok(),
            ArgValue::Real(_) | ArgValue::Bool(_) => None,
        }
    }
}

/// The flattened arguments of one event, in a buffer that is used again for the next one.
///
/// `{"grid":[512,1]}` is two rows with the keys `args.grid[0]` and `args.grid[1]`, both with the flat key `args.grid`,
/// as in Perfetto's `args` table.
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
    /// Removes all rows, keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.rows.clear();
    }

    /// Adds a row. `flat_key` is `None` where it equals `key`.
    pub fn push(&mut self, key: &str, flat_key: Option<&str>, value: ArgValue<&str>) {
        let key = self.keep(key);
        let flat_key = flat_key.map(|k| self.keep(k));
        let value = match value {
            ArgValue::Int(v) => ArgValue::Int(v),
            ArgValue::Real(v) => ArgValue::Real(v),
            ArgValue::Bool(v) => ArgValue::Bool(v),
            ArgValue::Text(v) => ArgValue::Text(self.keep(v)),
        };
        self.rows.push(Row { key, flat_key, value });
    }

    fn keep(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// How many bytes their keys and texts have.
    pub fn text_len(&self) -> usize {
        self.text.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows: key, flat key, value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, ArgValue<&str>)> {
        self.rows.iter().map(|row| {
            let key = &self.text[row.key.clone()];
            let flat_key = row.flat_key.as_ref().map_or(key, |range| &self.text[range.clone()]);
            let value = match &row.value {
                ArgValue::Int(v) => ArgValue::Int(*v),
                ArgValue::Real(v) => ArgValue::Real(*v),
                ArgValue::Bool(v) => ArgValue::Bool(*v),
                ArgValue::Text(range) => ArgValue::Text(&self.text[range.clone()]),
            };
            (key, flat_key, value)
        })
    }
}

/// Which arguments a load keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ArgsWanted {
    /// Every argument of every event: for SQL and export.
    #[default]
    All,
    /// Those that a question needs.
    Keys(KeySet),
    /// Such, and of others only whether operators and the like ([`CategoryKind::Cpu`]) have them: their value is kept as `true`, so that a list
    /// of any length, or an empty one, costs a row.
    Present {
        /// Those whose values are kept.
        values: KeySet,
        /// The others, as the profiler writes them.
        present: &'static [&'static str],
    },
}

impl ArgsWanted {
    /// Those that describe collectives: for the main job.
    pub const COLLECTIVES: ArgsWanted = ArgsWanted::Keys(KeySet::COLLECTIVES);

    /// The same with what places them among those of other ranks: for comparing ranks.
    pub const OPERATIONS: ArgsWanted = ArgsWanted::Keys(KeySet::OPERATIONS);

    /// The same, and what tells how operators were recorded: for describing a trace.
    pub const DESCRIBED: ArgsWanted = ArgsWanted::Present { values: KeySet::OPERATIONS, present: described::PRESENT };

    /// The keys whose values are kept, and those of which only that is kept whether they are there; `None` for all arguments.
    pub fn keys(&self) -> Option<(KeySet, &'static [&'static str])> {
        match *self {
            ArgsWanted::All => None,
            ArgsWanted::Keys(set) => Some((set, &[])),
            ArgsWanted::Present { values, present } => Some((values, present)),
        }
    }

    /// Those that say to which module and code an operator belongs: for pairs of forward and backward.
    pub const MODULES: ArgsWanted = ArgsWanted::Keys(KeySet::MODULES);

    /// What operators were called with, and what was counted meanwhile.
    pub const OPERATORS: ArgsWanted = ArgsWanted::Keys(KeySet { keys: args::OF_CALLS, of: EventsOf::Cpu });

    /// What was allocated and released.
    pub const MEMORY: ArgsWanted = ArgsWanted::Keys(KeySet { keys: args::OF_MEMORY, of: EventsOf::Memory });
}

/// Argument keys, and the events that they are kept of: the fewer these are, the cheaper is the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySet {
    /// The keys, as the profiler writes them. What is nested in their values belongs to them.
    pub keys: &'static [&'static str],
    /// The events.
    pub of: EventsOf,
}

/// The events that a [`KeySet`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventsOf {
    /// All.
    Any,
    /// The records of collectives, and the kernels of NCCL and RCCL that Kineto has copied a record to.
    Collectives,
    /// The same, and all operators and annotations of a CPU.
    Operators,
    /// Those of a CPU that are neither calls of Python functions nor of a runtime: operators, and a few others.
    Cpu,
    /// Allocations and releases of memory.
    Memory,
}

/// Whether the keys of a [`KeySet`] are kept of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// No.
    Nothing,
    /// If it has an argument with the key [`KeySet::marker`].
    IfMarked,
    /// Yes.
    Keys,
}

/// How much of a kernel's name is searched for that of its library: a mangled one begins with `_ZN` and a number.
const NAME_START: usize = 16;

impl KeySet {
    /// What a collective was asked to do.
    pub const COLLECTIVES: KeySet = KeySet { keys: args::OF_COLLECTIVES, of: EventsOf::Collectives };

    /// The same, and its place among others.
    pub const OPERATIONS: KeySet = KeySet { keys: args::OF_OPERATIONS, of: EventsOf::Collectives };

    /// The module and the callers of an operator.
    pub const MODULES: KeySet = KeySet { keys: args::OF_MODULES, of: EventsOf::Any };

    /// Whether the keys are kept of an event, by its category and its name's bytes in the file.
    #[inline(always)]
    pub fn keep(&self, kind: CategoryKind, name: &[u8]) -> Keep {
        match (self.of, kind) {
            (EventsOf::Any, _) => Keep::Keys,
            // Their names say what they are, if not with the first letter, then soon.
            (EventsOf::Operators, CategoryKind::Cpu) => Keep::Keys,
            (EventsOf::Collectives | EventsOf::Operators, CategoryKind::Kernel)
                if name[..name.len().min(NAME_START)].windows(3).any(|part| part == b"ccl") =>
            {
                Keep::IfMarked
            }
            (EventsOf::Collectives, CategoryKind::Cpu) if name == args::COLLECTIVE_RECORD.as_bytes() => Keep::Keys,
            (EventsOf::Cpu, CategoryKind::Cpu) => Keep::Keys,
            (EventsOf::Memory, CategoryKind::Cpu) if name == args::MEMORY.as_bytes() => Keep::Keys,
            (EventsOf::Collectives | EventsOf::Operators | EventsOf::Cpu | EventsOf::Memory, _) => Keep::Nothing,
        }
    }

    /// The key that tells kernels with a copied record from others.
    pub fn marker(&self) -> Option<&'static str> {
        (self.of != EventsOf::Any).then_some(args::COLLECTIVE)
    }

    /// Whether arguments that are nothing but numbers may have such keys: which collective it is, is text.
    #[inline]
    pub fn may_be_numbers(&self) -> bool {
        !matches!(self.of, EventsOf::Collectives | EventsOf::Operators)
    }
}
