//! The project's own tables: the attribution of kernels to launches, the call tree, and the operations.
//!
//! PerfettoSQL has no counterpart. All are computed when a query first reads one of them ([`super::source`]). Columns in `_ns` and `_ts`, `ts` and
//! `dur` are in ns.

use super::source::Source;
use super::table::Lookup::{Integer, Scan, Sorted};
use super::table::{Cell, Column, Table, id, int, known, size, text};
use crate::attribution::KernelLaunch;
use crate::attribution::backward::Node;
use crate::attribution::forward::Forward;
use crate::attribution::launches::{Evidence, WindowOn};
use crate::attribution::threads::thread_name;
use crate::id::{PathId, SliceId};
use crate::names::frames;
use crate::operation::{Communicator, Operation};
use crate::operations::join::Unjoined;

fn launch(s: &Source, i: usize) -> &KernelLaunch {
    &s.attributed().attribution.kernels[i]
}

/// `kernel_launch`: one row per kernel of the trace, see [`KernelLaunch`].
pub(super) static KERNEL_LAUNCH: Table = Table {
    name: c"kernel_launch",
    rows: |s| s.launches().kernels.len(),
    columns: &[
        id(),
        int("kernel_id", Sorted, |s, i| Cell::Int(s.launched(i).kernel.into())),
        int("launch_id", Integer, |s, i| known(s.launched(i).call)),
        text("evidence", |s, i| match s.launched(i).evidence {
            Evidence::None(_) => Cell::Null,
            evidence => Cell::Text(evidence.name()),
        }),
        text("unattributed", |s, i| match s.launched(i).evidence {
            Evidence::None(reason) => Cell::Text(reason.name()),
            _ => Cell::Null,
        }),
        int("is_uncertain", Scan, |s, i| Cell::Int(s.launched(i).uncertain.into())),
        int("flow_disagrees", Scan, |s, i| Cell::Int(s.launched(i).flow_disagrees.into())),
        int("path_id", Integer, |s, i| known(launch(s, i).path)),
        int("forward_path_id", Integer, |s, i| known(launch(s, i).forward)),
        int("capture_path_id", Integer, |s, i| known(launch(s, i).capture)),
        int("utid", Integer, |s, i| known(s.launched(i).call.and_then(|call| s.thread_of(call)))),
        text("helper_thread", |s, i| match launch(s, i).helper_thread {
            Some(thread) => Cell::Owned(thread_name(s, thread, false)),
            None => Cell::Null,
        }),
        int("gpu_ns", Scan, |s, i| Cell::Int(s.launched(i).gpu_time(s).into())),
        int("exposed_ns", Scan, |s, i| Cell::Int(launch(s, i).exposed.into())),
        int("queue_delay_ns", Scan, |s, i| known(launch(s, i).queue_delay)),
        text("family", |s, i| s.family(i).into()),
        int("collective_id", Integer, |s, i| known(s.attributed().operation_of[i])),
        int("rank", Integer, |s, i| known(s.attributed().ranks[i])),
        int("gpu_upid", Integer, |s, i| Cell::Int(s.gpu_of(s.launched(i).kernel).process.into())),
        int("op_id", Integer, |s, i| known(s.op_of_kernel(i))),
        int("node_id", Integer, |s, i| known(s.backward().places[i].node)),
        int("forward_id", Integer, |s, i| known(s.backward().places[i].forward)),
        int("is_recomputed", Scan, |s, i| Cell::Int(s.backward().places[i].is_recomputed.into())),
        // The time that places it in a window chosen by launches.
        Column {
            hidden: true,
            ..int("window_ts", Scan, |s, i| Cell::Int(s.launched(i).at(s, WindowOn::Launch).into()))
        },
    ],
};

fn node(s: &Source, i: usize) -> &Node {
    &s.backward().nodes[i]
}

/// `backward_node`: one row per node of the backward pass, see [`Node`].
pub(super) static BACKWARD_NODE: Table = Table {
    name: c"backward_node",
    rows: |s| s.backward().nodes.len(),
    columns: &[
        int("id", Sorted, |s, i| Cell::Int(node(s, i).slice.into())),
        text("name", |s, i| Cell::Text(frames::node(s.slice_name(node(s, i).slice)))),
        int("sequence_number", Integer, |s, i| known(s.autograd(node(s, i).slice).map(|number| number.sequence))),
        int("forward_id", Integer, |s, i| known(forward(s, i))),
        text("evidence", |s, i| match node(s, i).forward {
            Some(Forward::ByNumber(_)) => Cell::Text("number"),
            Some(Forward::ByFlow(_)) => Cell::Text("flow"),
            _ => Cell::Null,
        }),
        text("unpaired", |s, i| match node(s, i).forward {
            Some(Forward::NotRecorded) => Cell::Text("not-recorded"),
            Some(Forward::Ambiguous) => Cell::Text("ambiguous"),
            _ => Cell::Null,
        }),
        int("is_named_alike", Scan, |s, i| {
            let node = frames::node(s.slice_name(node(s, i).slice));
            known(forward(s, i).map(|operator| i64::from(frames::is_node_of(node, s.slice_name(operator)))))
        }),
        int("flow_disagrees", Scan, |s, i| known(node(s, i).flow_disagrees.map(i64::from))),
        int("last_node_id", Integer, |s, i| known(node(s, i).last)),
    ],
};

/// The operator of the forward pass that made a node.
fn forward(s: &Source, i: usize) -> Option<SliceId> {
    node(s, i).forward.and_then(Forward::operator)
}

/// `call_path`, the call tree: one row per call path that leads to a launch, callers before their callees.
pub(super) static CALL_PATH: Table = Table {
    name: c"call_path",
    rows: |s| s.attributed().attribution.paths.len(),
    columns: &[
        id(),
        int("parent_id", Integer, |s, i| known(s.attributed().attribution.paths.caller(PathId::of_row(i)))),
        int("depth", Scan, |s, i| Cell::Int(s.attributed().attribution.paths.depth(PathId::of_row(i)).into())),
        text("name", |s, i| Cell::Text(s.attributed().attribution.paths.name(PathId::of_row(i)))),
    ],
};

fn operation(s: &Source, i: usize) -> &Operation {
    s.operation(i)
}

fn communicator(s: &Source, i: usize) -> Option<&Communicator> {
    s.communicator_of_row(i).map(|row| s.communicator(row))
}

/// The call path in the record itself, outermost first, one frame per line.
fn recorded_path(s: &Source, i: usize) -> Cell<'_> {
    let path = operation(s, i).recorded_path.and_then(|path| s.records().paths.get(path as usize));
    path.map_or(Cell::Null, |path| Cell::Owned(path.join("\n")))
}

fn owned(text: Option<String>) -> Cell<'static> {
    text.map_or(Cell::Null, Cell::Owned)
}

/// `collective`: one row per collective or point-to-point operation, see [`Operation`].
pub(super) static COLLECTIVE: Table = Table {
    name: c"collective",
    rows: Source::operations,
    columns: &[
        id(),
        int("kernel_id", Integer, |s, i| known(s.kernel_of_row(i).and_then(Result::ok))),
        int("rank", Integer, |s, i| known(operation(s, i).rank)),
        text("communicator", |s, i| owned(communicator(s, i).and_then(Communicator::key))),
        text("group_name", |s, i| communicator(s, i).and_then(|group| group.name.as_deref()).into()),
        text("group_description", |s, i| communicator(s, i).and_then(|group| group.description.as_deref()).into()),
        int("group_size", Scan, |s, i| size(communicator(s, i).and_then(|group| group.size))),
        int("seq", Integer, |s, i| operation(s, i).sequence.into()),
        text("collective", |s, i| operation(s, i).collective.as_deref().into()),
        text("dtype", |s, i| operation(s, i).dtype.as_deref().into()),
        int("in_elements", Scan, |s, i| size(operation(s, i).in_elements)),
        int("out_elements", Scan, |s, i| size(operation(s, i).out_elements)),
        int("bytes", Scan, |s, i| size(operation(s, i).bytes)),
        int("peer", Scan, |s, i| operation(s, i).peer.into()),
        int("enqueue_ts", Scan, |s, i| known(operation(s, i).enqueued)),
        int("launch_id", Integer, |s, i| known::<SliceId>(operation(s, i).launch)),
        int("launch_ts", Scan, |s, i| known(operation(s, i).launched)),
        int("ts", Scan, |s, i| known(operation(s, i).start)),
        int("dur", Scan, |s, i| known(operation(s, i).took())),
        text("state", |s, i| operation(s, i).state.name().into()),
        text("algorithm", |s, i| operation(s, i).algorithm.as_deref().into()),
        text("protocol", |s, i| operation(s, i).protocol.as_deref().into()),
        int("path_id", Integer, |s, i| known(operation(s, i).path)),
        int("capture_path_id", Integer, |s, i| known(operation(s, i).capture)),
        int("gpu_upid", Integer, |s, i| known(operation(s, i).gpu.map(|gpu| gpu.process))),
        int("stream_utid", Integer, |s, i| known(operation(s, i).stream)),
        text("source", |s, i| Cell::Text(operation(s, i).source.name())),
        int("file_id", Integer, |s, i| known(s.record_of_row(i).and_then(|at| s.records().file_of.get(at).copied()))),
        int("communicator_id", Integer, |s, i| s.communicator_of_row(i).map(|row| row as i64).into()),
        int("place", Scan, |s, i| known(operation(s, i).place)),
        int("channels", Scan, |s, i| known(operation(s, i).channels)),
        text("stream", |s, i| owned(operation(s, i).stream_handle.map(|handle| format!("{handle:#x}")))),
        text("recorded_path", recorded_path),
        text("unjoined", |s, i| s.kernel_of_row(i).and_then(Result::err).map(Unjoined::name).into()),
        // As text: it may be too large for SQLite's integers.
        text("user_tag", |s, i| owned(operation(s, i).user_tag.map(|tag| tag.to_string()))),
    ],
};
