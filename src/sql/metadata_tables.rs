//! The project's own tables of recorded data beyond names and times: operators' arguments, and memory.
//!
//! A cell is read when a query asks for it, so that a query for names parses no lists.

use serde_json::{Map, Value as Json};

use super::source::Source;
use super::table::Lookup::{Integer, Scan, Sorted, Text};
use super::table::{Cell, Column, Table, int, known, real, text};
use crate::id::SliceId;
use crate::names::args;
use crate::recorded_args::{List, Operators, Recorded};

pub(super) fn op(s: &Source, i: usize) -> SliceId {
    s.operator_slices()[i]
}

pub(super) fn operators(s: &Source) -> Operators<'_> {
    Operators::with(s.store(), s.operator_keys().clone())
}

/// A list as text, or its own text if it is not a list.
fn list(s: &Source, i: usize, list: List) -> Cell<'_> {
    match operators(s).list_of(op(s, i), list) {
        Recorded::Missing => Cell::Null,
        Recorded::Known(value) => Cell::Owned(value.to_string()),
        Recorded::Malformed(text) => Cell::Owned(text),
    }
}

fn number(s: &Source, i: usize, key: &str) -> Cell<'static> {
    operators(s).number(op(s, i), key).known().into()
}

fn counter(s: &Source, i: usize, name: &str) -> Option<f64> {
    operators(s).counter(op(s, i), name).known()
}

/// A counter, as a whole number; NULL if it is too large.
fn count(s: &Source, i: usize, name: &str) -> Cell<'static> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    counter(s, i, name).filter(|number| number.abs() < BEYOND).map(|number| number as i64).into()
}

/// The ratio of two counters; NULL if one is not recorded or the divisor is 0.
fn ratio(s: &Source, i: usize, of: &str, by: &str, factor: f64) -> Cell<'static> {
    match (counter(s, i, of), counter(s, i, by)) {
        (Some(of), Some(by)) if by != 0.0 && (of / by * factor).is_finite() => Cell::Real(of / by * factor),
        _ => Cell::Null,
    }
}

/// The documented keys with numbers.
const NUMBERS: [&str; 4] = [args::SEQUENCE_NUMBER, args::FORWARD_THREAD, args::RECORD_FUNCTION_ID, args::EVENT_INDEX];

fn is_malformed(s: &Source, i: usize) -> bool {
    let (operators, slice) = (operators(s), op(s, i));
    List::ALL.iter().any(|list| operators.list_of(slice, *list).is_malformed())
        || NUMBERS.iter().any(|key| operators.number(slice, key).is_malformed())
        || args::COUNTERS.iter().any(|name| operators.counter(slice, name).is_malformed())
}

/// A JSON object; NULL if it is empty.
pub(super) fn object<N: Into<String>, V: Into<Json>>(fields: impl IntoIterator<Item = (N, V)>) -> Cell<'static> {
    let object: Map<String, Json> = fields.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    if object.is_empty() { Cell::Null } else { Cell::Owned(Json::Object(object).to_string()) }
}

fn module(s: &Source, i: usize) -> Cell<'_> {
    match operators(s).module(op(s, i)) {
        // It borrows from the store, which the source owns.
        Some(path) => Cell::Owned(path.to_owned()),
        None => s.module_frames().path(s.store(), i).map_or(Cell::Null, Cell::Owned),
    }
}

/// `op`: one row per CPU operator, see [`Operators`].
pub(super) static OP: Table = Table {
    name: c"op",
    rows: |s| s.operator_slices().len(),
    columns: &[
        int("id", Sorted, |s, i| Cell::Int(op(s, i).into())),
        int("ts", Sorted, |s, i| Cell::Int(s.slices.ts(op(s, i)).into())),
        int("dur", Scan, |s, i| Cell::Int(s.slices.dur(op(s, i)).into())),
        Column {
            lookup: Text(|s, i| s.slices.name(op(s, i))),
            ..text("name", |s, i| s.strings.get(s.slices.name(op(s, i))).into())
        },
        text("module", module),
        text("call_stack", |s, i| {
            operators(s).call_stack(op(s, i)).map_or(Cell::Null, |stack| Cell::Owned(stack.to_owned()))
        }),
        text("input_dims", |s, i| list(s, i, List::Dims)),
        text("input_types", |s, i| list(s, i, List::Types)),
        text("input_strides", |s, i| list(s, i, List::Strides)),
        text("concrete_inputs", |s, i| list(s, i, List::Concrete)),
        int("is_malformed", Scan, |s, i| Cell::Int(is_malformed(s, i).into())),
        int("sequence_number", Integer, |s, i| number(s, i, args::SEQUENCE_NUMBER)),
        int("fwd_thread_id", Scan, |s, i| number(s, i, args::FORWARD_THREAD)),
        int("record_function_id", Integer, |s, i| number(s, i, args::RECORD_FUNCTION_ID)),
        int("ev_idx", Integer, |s, i| number(s, i, args::EVENT_INDEX)),
        text("kwargs", |s, i| object(operators(s).keyword_arguments(op(s, i)))),
        int("cycles", Scan, |s, i| count(s, i, "cycles")),
        int("instructions", Scan, |s, i| count(s, i, "instructions")),
        int("cache_misses", Scan, |s, i| count(s, i, "cache_misses")),
        int("cache_references", Scan, |s, i| count(s, i, "cache_references")),
        int("branch_misses", Scan, |s, i| count(s, i, "branch_misses")),
        int("branches", Scan, |s, i| count(s, i, "branches")),
        int("pagefaults", Scan, |s, i| count(s, i, "pagefaults")),
        int("backend_stall_cycles", Scan, |s, i| count(s, i, "backend-stall-cycles")),
        int("frontend_stall_cycles", Scan, |s, i| count(s, i, "frontend-stall-cycles")),
        real("ipc", |s, i| ratio(s, i, "instructions", "cycles", 1.0)),
        real("cache_miss_rate", |s, i| ratio(s, i, "cache_misses", "cache_references", 1.0)),
        real("branch_misses_per_1000_instructions", |s, i| ratio(s, i, "branch_misses", "instructions", 1_000.0)),
    ],
};

pub(super) fn event(s: &Source, i: usize) -> SliceId {
    s.memory_events().1[i]
}

/// A number of a memory event.
pub(super) fn memory(s: &Source, i: usize, key: &str) -> Recorded<i64> {
    s.memory_events().0.number(s, event(s, i), key)
}

/// `memory_event`: one row per recorded allocation and release, see [`crate::recorded_args::MemoryKeys`].
pub(super) static MEMORY_EVENT: Table = Table {
    name: c"memory_event",
    rows: |s| s.memory_events().1.len(),
    columns: &[
        int("id", Sorted, |s, i| Cell::Int(event(s, i).into())),
        int("ts", Sorted, |s, i| Cell::Int(s.slices.ts(event(s, i)).into())),
        int("device_type", Scan, |s, i| memory(s, i, args::MEMORY_DEVICE_TYPE).known().into()),
        int("device_id", Scan, |s, i| memory(s, i, args::MEMORY_DEVICE).known().into()),
        text("address", |s, i| match s.memory_events().0.address(s, event(s, i)) {
            Recorded::Known(address) => Cell::Owned(address.to_string()),
            Recorded::Malformed(text) => Cell::Owned(text),
            Recorded::Missing => Cell::Null,
        }),
        int("bytes", Scan, |s, i| memory(s, i, args::MEMORY_BYTES).known().into()),
        int("total_allocated", Scan, |s, i| memory(s, i, args::MEMORY_ALLOCATED).known().into()),
        int("total_reserved", Scan, |s, i| memory(s, i, args::MEMORY_RESERVED).known().into()),
        int("utid", Integer, |s, i| known(s.thread_of(event(s, i)))),
    ],
};
