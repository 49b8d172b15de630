//! The tables of NCCL's own records: the contents of [`crate::records::tables`](crate::records), row by row. Without records they are empty.

use super::source::Source;
use super::table::Lookup::{Integer, Scan};
use super::table::{Cell, Table, id, int, known, size, text};
use crate::operation::Communicator;
use crate::operations::processes::Process;
use crate::records::{
    FlowOp, FlowStep, Group, KernelChannel, ProfilerEvent, ProxyOp, ProxyStep, RankStatus, RecordFile, Remark,
};

fn number(value: Option<usize>) -> Cell<'static> {
    value.map(|value| value as i64).into()
}

/// A position among the operations of the records as a row of `collective`.
fn collective(s: &Source, operation: Option<usize>) -> Cell<'static> {
    number(operation.map(|operation| s.row_of_record(operation)))
}

fn communicator(s: &Source, i: usize) -> &Communicator {
    s.communicator(i)
}

/// `communicator`: one row per communicator of the trace or of a source, see [`Communicator`].
pub(super) static COMMUNICATOR: Table = Table {
    name: c"communicator",
    rows: Source::communicators,
    columns: &[
        id(),
        text("key", |s, i| communicator(s, i).key().map_or(Cell::Null, Cell::Owned)),
        text("name", |s, i| communicator(s, i).name.as_deref().into()),
        text("description", |s, i| communicator(s, i).description.as_deref().into()),
        int("size", Scan, |s, i| size(communicator(s, i).size)),
        text("ranks", |s, i| {
            communicator(s, i).ranks.as_ref().map_or(Cell::Null, |ranks| Cell::Owned(format!("{ranks:?}")))
        }),
        // As text: half of the hashes are too large for SQLite's integers.
        text("hash", |s, i| communicator(s, i).hash.map_or(Cell::Null, |hash| Cell::Owned(format!("{hash:#x}")))),
    ],
};

fn file(s: &Source, i: usize) -> &RecordFile {
    &s.records().files[i]
}

/// `record_file`: one row per file of records, see [`RecordFile`].
pub(super) static RECORD_FILE: Table = Table {
    name: c"record_file",
    rows: |s| s.records().files.len(),
    columns: &[
        id(),
        text("name", |s, i| Cell::Text(&file(s, i).name)),
        text("source", |s, i| file(s, i).source.map(crate::operation::Source::name).into()),
        text("version", |s, i| file(s, i).version.as_deref().into()),
        int("records", Scan, |s, i| size(Some(file(s, i).records))),
        int("bytes", Scan, |s, i| size(Some(file(s, i).bytes))),
        int("skipped", Scan, |s, i| size(Some(Remark::sum(&file(s, i).skipped)))),
        int("repaired", Scan, |s, i| size(Some(Remark::sum(&file(s, i).repaired)))),
    ],
};

fn status(s: &Source, i: usize) -> &RankStatus {
    &s.records().rank_status[i]
}

fn count(s: &Source, i: usize, collective: &str) -> Cell<'static> {
    size(status(s, i).counts.get(collective).copied())
}

/// `rank_status`: the status of a rank at one time, from one source, see [`RankStatus`].
pub(super) static RANK_STATUS: Table = Table {
    name: c"rank_status",
    rows: |s| s.records().rank_status.len(),
    columns: &[
        id(),
        text("source", |s, i| Cell::Text(status(s, i).source.name())),
        int("file_id", Integer, |s, i| Cell::Int(status(s, i).file.into())),
        int("communicator_id", Integer, |s, i| number(s.communicator_of_record(status(s, i).communicator))),
        int("rank", Integer, |s, i| known(status(s, i).rank)),
        int("place", Scan, |s, i| known(status(s, i).place)),
        int("ts", Scan, |s, i| known(status(s, i).at)),
        text("host", |s, i| status(s, i).host.as_deref().into()),
        int("pid", Scan, |s, i| status(s, i).pid.into()),
        int("device", Scan, |s, i| status(s, i).device.into()),
        int("last_enqueued", Scan, |s, i| status(s, i).last_enqueued.into()),
        int("last_started", Scan, |s, i| status(s, i).last_started.into()),
        int("last_completed", Scan, |s, i| status(s, i).last_completed.into()),
        int("all_reduce", Scan, |s, i| count(s, i, "all_reduce")),
        int("all_gather", Scan, |s, i| count(s, i, "all_gather")),
        int("reduce_scatter", Scan, |s, i| count(s, i, "reduce_scatter")),
        int("broadcast", Scan, |s, i| count(s, i, "broadcast")),
        int("reduce", Scan, |s, i| count(s, i, "reduce")),
        text("faults", |s, i| Cell::Owned(status(s, i).faults.join(", "))),
    ],
};

fn process(s: &Source, i: usize) -> &Process {
    &s.processes()[i]
}

/// `nccl_process`: a process that a source names, or a GPU of it, see [`Process`].
pub(super) static NCCL_PROCESS: Table = Table {
    name: c"nccl_process",
    rows: |s| s.processes().len(),
    columns: &[
        id(),
        text("source", |s, i| Cell::Text(process(s, i).source.name())),
        text("host", |s, i| process(s, i).host.as_deref().into()),
        int("pid", Integer, |s, i| process(s, i).pid.into()),
        int("device", Scan, |s, i| process(s, i).device.into()),
        int("rank", Integer, |s, i| known(process(s, i).rank)),
        int("is_unique", Scan, |s, i| Cell::Int(process(s, i).is_unique.into())),
        text("faults", |s, i| {
            Cell::Owned(process(s, i).faults.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
        }),
    ],
};

fn channel(s: &Source, i: usize) -> &KernelChannel {
    &s.records().channels[i]
}

/// `kernel_channel`: one row per channel of an operation, see [`KernelChannel`].
pub(super) static KERNEL_CHANNEL: Table = Table {
    name: c"kernel_channel",
    rows: |s| s.records().channels.len(),
    columns: &[
        id(),
        int("collective_id", Integer, |s, i| collective(s, channel(s, i).operation)),
        int("channel", Scan, |s, i| Cell::Int(channel(s, i).channel.into())),
        int("gpu_ts", Scan, |s, i| known(channel(s, i).gpu_start)),
        int("gpu_end_ts", Scan, |s, i| known(channel(s, i).gpu_stop)),
        int("gpu_offset", Scan, |s, i| known(Some(channel(s, i).gpu_offset))),
        int("ts", Scan, |s, i| known(channel(s, i).start)),
        int("end_ts", Scan, |s, i| known(channel(s, i).end)),
    ],
};

fn proxy_op(s: &Source, i: usize) -> &ProxyOp {
    &s.records().proxy_ops[i]
}

/// `proxy_op`: one row per operation of a proxy thread on one channel with one peer, see [`ProxyOp`].
pub(super) static PROXY_OP: Table = Table {
    name: c"proxy_op",
    rows: |s| s.records().proxy_ops.len(),
    columns: &[
        id(),
        int("collective_id", Integer, |s, i| collective(s, proxy_op(s, i).operation)),
        int("place", Scan, |s, i| known(proxy_op(s, i).place)),
        int("channel", Scan, |s, i| Cell::Int(proxy_op(s, i).channel.into())),
        int("peer", Scan, |s, i| Cell::Int(proxy_op(s, i).peer)),
        int("is_send", Scan, |s, i| Cell::Int(proxy_op(s, i).is_send.into())),
        int("steps", Scan, |s, i| Cell::Int(proxy_op(s, i).steps.into())),
        int("chunk_bytes", Scan, |s, i| size(proxy_op(s, i).chunk_bytes)),
        int("bytes", Scan, |s, i| size(proxy_op(s, i).bytes)),
        int("queued_ts", Scan, |s, i| known(proxy_op(s, i).queued)),
        int("ts", Scan, |s, i| known(proxy_op(s, i).start)),
        int("end_ts", Scan, |s, i| known(proxy_op(s, i).end)),
    ],
};

fn proxy_step(s: &Source, i: usize) -> &ProxyStep {
    &s.records().proxy_steps[i]
}

/// `proxy_step`: one row per step of these, with the times of its phases, see [`ProxyStep`].
pub(super) static PROXY_STEP: Table = Table {
    name: c"proxy_step",
    rows: |s| s.records().proxy_steps.len(),
    columns: &[
        id(),
        int("proxy_op_id", Integer, |s, i| number(Some(proxy_step(s, i).proxy_op))),
        int("step", Scan, |s, i| Cell::Int(proxy_step(s, i).step.into())),
        int("ts", Scan, |s, i| known(proxy_step(s, i).start)),
        int("end_ts", Scan, |s, i| known(proxy_step(s, i).end)),
        int("gpu_wait", Scan, |s, i| known(proxy_step(s, i).gpu_wait)),
        int("peer_wait", Scan, |s, i| known(proxy_step(s, i).peer_wait)),
        int("network", Scan, |s, i| known(proxy_step(s, i).network)),
        int("flush", Scan, |s, i| known(proxy_step(s, i).flush)),
        int("bytes", Scan, |s, i| size(proxy_step(s, i).bytes)),
    ],
};

fn event(s: &Source, i: usize) -> &ProfilerEvent {
    &s.records().profiler_events[i]
}

/// The fields that only this kind of event has, as a JSON object.
fn details(s: &Source, i: usize) -> Cell<'static> {
    let pairs: Vec<String> = event(s, i).details.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
    if pairs.is_empty() { Cell::Null } else { Cell::Owned(format!("{{{}}}", pairs.join(","))) }
}

/// `profiler_event`: the other events of NCCL's profiler interface, see [`ProfilerEvent`].
pub(super) static PROFILER_EVENT: Table = Table {
    name: c"profiler_event",
    rows: |s| s.records().profiler_events.len(),
    columns: &[
        id(),
        int("file_id", Integer, |s, i| Cell::Int(event(s, i).file.into())),
        text("kind", |s, i| Cell::Text(event(s, i).kind)),
        int("rank", Integer, |s, i| known(event(s, i).rank)),
        int("communicator_id", Integer, |s, i| number(s.communicator_of_record(event(s, i).communicator))),
        int("place", Scan, |s, i| known(event(s, i).place)),
        int("collective_id", Integer, |s, i| collective(s, event(s, i).operation)),
        int("proxy_step_id", Integer, |s, i| number(event(s, i).proxy_step)),
        int("channel", Scan, |s, i| known(event(s, i).channel)),
        text("name", |s, i| event(s, i).name.as_deref().into()),
        int("ts", Scan, |s, i| known(event(s, i).start)),
        int("end_ts", Scan, |s, i| known(event(s, i).end)),
        int("bytes", Scan, |s, i| size(event(s, i).bytes)),
        text("details", details),
    ],
};

fn group(s: &Source, i: usize) -> &Group {
    &s.records().groups[i]
}

/// `nccl_group`: operations that were called within one group, or planned together, see [`Group`].
pub(super) static NCCL_GROUP: Table = Table {
    name: c"nccl_group",
    rows: |s| s.records().groups.len(),
    columns: &[
        id(),
        int("file_id", Integer, |s, i| Cell::Int(group(s, i).file.into())),
        text("kind", |s, i| Cell::Text(group(s, i).kind)),
        int("rank", Integer, |s, i| known(group(s, i).rank)),
        int("depth", Scan, |s, i| known(group(s, i).depth)),
        int("ts", Scan, |s, i| known(group(s, i).start)),
        int("end_ts", Scan, |s, i| known(group(s, i).end)),
        int("operations", Scan, |s, i| Cell::Int(group(s, i).operations.into())),
    ],
};

/// `nccl_group_member`: an operation of such a group.
pub(super) static NCCL_GROUP_MEMBER: Table = Table {
    name: c"nccl_group_member",
    rows: |s| s.records().group_members.len(),
    columns: &[
        id(),
        int("group_id", Integer, |s, i| number(Some(s.records().group_members[i].0))),
        int("collective_id", Integer, |s, i| collective(s, Some(s.records().group_members[i].1))),
    ],
};

fn flow_op(s: &Source, i: usize) -> &FlowOp {
    &s.records().flow_ops[i]
}

/// `flow_op`: the flow extractor's plan for a rank on a channel, see [`FlowOp`].
pub(super) static FLOW_OP: Table = Table {
    name: c"flow_op",
    rows: |s| s.records().flow_ops.len(),
    columns: &[
        id(),
        int("file_id", Integer, |s, i| Cell::Int(flow_op(s, i).file.into())),
        int("op_count", Scan, |s, i| size(Some(flow_op(s, i).op_count))),
        int("rank", Integer, |s, i| Cell::Int(flow_op(s, i).rank.into())),
        int("channel", Scan, |s, i| Cell::Int(flow_op(s, i).channel.into())),
        int("steps", Scan, |s, i| Cell::Int(flow_op(s, i).steps.into())),
        int("slice_bytes", Scan, |s, i| Cell::Int(flow_op(s, i).slice_bytes)),
        int("chunk_bytes", Scan, |s, i| size(Some(flow_op(s, i).chunk_bytes))),
        int("slice_steps", Scan, |s, i| Cell::Int(flow_op(s, i).slice_steps.into())),
        int("chunk_steps", Scan, |s, i| Cell::Int(flow_op(s, i).chunk_steps.into())),
        text("pattern", |s, i| flow_op(s, i).pattern.as_deref().into()),
        text("protocol", |s, i| flow_op(s, i).protocol.as_deref().into()),
        int("ring_previous", Scan, |s, i| known(flow_op(s, i).ring.map(|(previous, _)| previous))),
        int("ring_next", Scan, |s, i| known(flow_op(s, i).ring.map(|(_, next)| next))),
    ],
};

fn flow_step(s: &Source, i: usize) -> &FlowStep {
    &s.records().flow_steps[i]
}

/// `flow_step`: a step of such a plan with one peer in one direction, see [`FlowStep`].
pub(super) static FLOW_STEP: Table = Table {
    name: c"flow_step",
    rows: |s| s.records().flow_steps.len(),
    columns: &[
        id(),
        int("file_id", Integer, |s, i| Cell::Int(flow_step(s, i).file.into())),
        int("op_count", Scan, |s, i| size(Some(flow_step(s, i).op_count))),
        int("rank", Integer, |s, i| Cell::Int(flow_step(s, i).rank.into())),
        int("channel", Scan, |s, i| Cell::Int(flow_step(s, i).channel.into())),
        int("step", Scan, |s, i| Cell::Int(flow_step(s, i).step.into())),
        int("is_send", Scan, |s, i| Cell::Int(flow_step(s, i).is_send.into())),
        int("peer", Integer, |s, i| Cell::Int(flow_step(s, i).peer.into())),
        int("bytes", Scan, |s, i| Cell::Int(flow_step(s, i).bytes)),
        text("pattern", |s, i| flow_step(s, i).pattern.as_deref().into()),
        text("protocol", |s, i| flow_step(s, i).protocol.as_deref().into()),
        text("recorded_stage", |s, i| flow_step(s, i).recorded_stage.as_deref().into()),
        text("stage", |s, i| flow_step(s, i).stage.into()),
    ],
};
