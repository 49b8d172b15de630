//! The project's own tables about single calls: what the arguments of an operator or a memory event show, and where it was called.
//!
//! They complete `op` and `memory_event`, row by row, with what takes a climb to the callers or a look into lists. Exports do not have them.

use serde_json::{Value as Json, json};

use super::metadata_tables::{event, memory, object, op, operators};
use super::source::Source;
use super::stacks::CallerStacks;
use super::table::Lookup::{Integer, Scan, Sorted};
use super::table::{Cell, Table, int, known, text};
use crate::names::args;
use crate::names::frames::UserCode;
use crate::recorded_args::{List, OddTensor, Recorded, device_name};

pub(super) const TABLES: &[&Table] = &[&OP_CALL, &MEMORY_CALL];

/// The frames that show best where a slice comes from, as a JSON array, the best first.
fn telling(stacks: &CallerStacks, i: usize) -> Cell<'static> {
    Cell::Owned(json!(stacks.key(i).telling_frames(&UserCode::default())).to_string())
}

/// The callers, outermost first.
fn stack(stacks: &CallerStacks, i: usize) -> Cell<'static> {
    Cell::Owned(stacks.key(i).frames.join(";"))
}

/// A list; NULL if it is malformed, which `op` shows as recorded.
fn list(s: &Source, i: usize, list: List) -> Cell<'static> {
    operators(s).list_of(op(s, i), list).known().map_or(Cell::Null, |value| Cell::Owned(value.to_string()))
}

/// The tensors that are not contiguous, as a JSON array.
fn odd_tensors(s: &Source, i: usize) -> Cell<'static> {
    let tensors = operators(s).odd_tensors(op(s, i));
    if tensors.is_empty() {
        return Cell::Null;
    }
    // Lists as in `op`, with a blank after each comma.
    let tensor = |tensor: &OddTensor| {
        let inputs: Vec<String> = tensor.inputs.iter().map(usize::to_string).collect();
        json!({
            "inputs": inputs.join(", "),
            "layout": tensor.layout.name(),
            "dims": format!("{:?}", tensor.dims),
            "strides": format!("{:?}", tensor.strides),
        })
    };
    Cell::Owned(Json::Array(tensors.iter().map(tensor).collect()).to_string())
}

/// The path of its modules by the frames around it, or else as recorded.
fn module(s: &Source, i: usize) -> Cell<'static> {
    let recorded = || operators(s).module(op(s, i)).map(str::to_owned);
    s.module_frames().path(s.store(), i).or_else(recorded).map_or(Cell::Null, Cell::Owned)
}

/// `op_call`: one row per operator, in the order of `op`.
static OP_CALL: Table = Table {
    name: c"op_call",
    rows: |s| s.operator_slices().len(),
    columns: &[
        int("id", Sorted, |s, i| Cell::Int(op(s, i).into())),
        int("caller_id", Integer, |s, i| known(s.op_caller(i))),
        text("module", module),
        text("input_dims", |s, i| list(s, i, List::Dims)),
        text("input_types", |s, i| list(s, i, List::Types)),
        text("shape", |s, i| operators(s).shape(op(s, i)).known().map_or(Cell::Null, Cell::Owned)),
        text("odd_tensors", odd_tensors),
        text("scalars", |s, i| {
            object(operators(s).scalars(op(s, i)).into_iter().map(|(input, value)| (input.to_string(), value)))
        }),
        text("malformed", |s, i| object(operators(s).malformed(op(s, i)))),
        int("stack_id", Integer, |s, i| Cell::Int(s.op_stacks().number(i))),
        text("telling", |s, i| telling(s.op_stacks(), i)),
        text("stack", |s, i| stack(s.op_stacks(), i)),
    ],
};

/// Whether address and size are known.
fn is_complete(s: &Source, i: usize) -> bool {
    let bytes = memory(s, i, args::MEMORY_BYTES);
    matches!((s.memory_events().0.address(s, event(s, i)), bytes), (Recorded::Known(_), Recorded::Known(_)))
}

fn malformed(s: &Source, i: usize) -> Cell<'static> {
    let text = |key: &str| match key {
        args::MEMORY_ADDRESS => s.memory_events().0.address(s, event(s, i)).malformed(),
        key => memory(s, i, key).malformed(),
    };
    object(args::OF_MEMORY.iter().filter_map(|key| Some((*key, text(key)?))))
}

/// `memory_call`: one row per memory event, in the order of `memory_event`.
static MEMORY_CALL: Table = Table {
    name: c"memory_call",
    rows: |s| s.memory_events().1.len(),
    columns: &[
        int("id", Sorted, |s, i| Cell::Int(event(s, i).into())),
        int("upid", Integer, |s, i| known(s.process_of(event(s, i)))),
        text("trace", |s, i| {
            s.traces.get(s.trace_of(event(s, i)).row()).and_then(|trace| trace.name.as_deref()).into()
        }),
        text("device", |s, i| {
            let [kind, device] = [args::MEMORY_DEVICE_TYPE, args::MEMORY_DEVICE].map(|key| memory(s, i, key).known());
            Cell::Owned(device_name(kind, device))
        }),
        int("is_complete", Scan, |s, i| Cell::Int(is_complete(s, i).into())),
        text("malformed", malformed),
        int("stack_id", Integer, |s, i| Cell::Int(s.memory_stacks().number(i))),
        text("telling", |s, i| telling(s.memory_stacks(), i)),
        text("stack", |s, i| stack(s.memory_stacks(), i)),
    ],
};
