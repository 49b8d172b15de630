//! The schema: PerfettoSQL's tables over the store, with its names and column order, and the project's own tables.
//!
//! Hidden columns at the end of a table are the project's own. `SELECT *` leaves them out, so that queries written for Perfetto see the columns
//! that they expect. Times and durations are in ns.

use super::launch_tables::{BACKWARD_NODE, CALL_PATH, COLLECTIVE, KERNEL_LAUNCH};
use super::metadata_tables::{MEMORY_EVENT, OP};
use super::record_tables::{
    COMMUNICATOR, FLOW_OP, FLOW_STEP, KERNEL_CHANNEL, NCCL_GROUP, NCCL_GROUP_MEMBER, NCCL_PROCESS, PROFILER_EVENT,
    PROXY_OP, PROXY_STEP, RANK_STATUS, RECORD_FILE,
};
use super::table::Lookup::{FewValues, Integer, IntegerIn, Row, Scan, Sorted, Text};
use super::table::{Cell, CellOf, Column, Lookup, Table, int, null, real};
use crate::damage::DESCRIPTIONS;
use crate::damage::Description;
use crate::event::ArgValue;
use crate::id::{SliceId, TrackId};
use crate::names::category::CategoryKind;
use crate::store::Store;
use crate::store::args::ArgSetId;
use crate::store::strings::StringId;
use crate::store::traces::Trace;

/// All tables with rows; [`super::absent`] has those that are always empty.
pub const TABLES: &[&Table] = &[
    &SLICE,
    &FLOW,
    &ARGS,
    &THREAD,
    &PROCESS,
    &TRACK,
    &THREAD_TRACK,
    &PROCESS_TRACK,
    &STATS,
    &METADATA,
    &TRACE_BOUNDS,
    &HEADER,
    &SLICE_NAME,
    &KERNEL_LAUNCH,
    &BACKWARD_NODE,
    &CALL_PATH,
    &COLLECTIVE,
    &OP,
    &MEMORY_EVENT,
    &COMMUNICATOR,
    &RECORD_FILE,
    &RANK_STATUS,
    &NCCL_PROCESS,
    &KERNEL_CHANNEL,
    &PROXY_OP,
    &PROXY_STEP,
    &PROFILER_EVENT,
    &NCCL_GROUP,
    &NCCL_GROUP_MEMBER,
    &FLOW_OP,
    &FLOW_STEP,
];

const fn text(name: &'static str, lookup: Lookup, cell: CellOf) -> Column {
    Column { name, sql_type: "TEXT", hidden: false, lookup, cell }
}

const fn hidden(column: Column) -> Column {
    Column { hidden: true, ..column }
}

/// A column with the row's number.
const fn row(name: &'static str) -> Column {
    int(name, Row, |_, i| Cell::Int(i as i64))
}

/// The trace, which Perfetto calls a machine.
const fn machine_id(cell: CellOf) -> Column {
    int("machine_id", Scan, cell)
}

fn id(row: usize) -> SliceId {
    SliceId::of_row(row)
}

fn string(store: &Store, id: StringId) -> Cell<'_> {
    store.strings.get(id).into()
}

fn arg_set(store: &Store, set: ArgSetId) -> Cell<'static> {
    store.args.first_row(set).map(i64::from).into()
}

/// A typical depth of deep stacks, to estimate how many slices share a depth.
const USUAL_DEPTH: usize = 64;

pub(super) static SLICE: Table = Table {
    name: c"slice",
    rows: |s| s.slices.len(),
    columns: &[
        row("id"),
        int("ts", Sorted, |s, i| Cell::Int(s.slices.ts(id(i)).into())),
        int("dur", Scan, |s, i| Cell::Int(s.slices.dur(id(i)).into())),
        int("track_id", FewValues(|s| s.tracks.tracks.len()), |s, i| Cell::Int(s.slices.track(id(i)).into())),
        text("category", Text(|s, i| s.slices.category(id(i))), |s, i| string(s, s.slices.category(id(i)))),
        text("name", Text(|s, i| s.slices.name(id(i))), |s, i| string(s, s.slices.name(id(i)))),
        int("depth", FewValues(|_| USUAL_DEPTH), |s, i| Cell::Int(s.slices.depth(id(i)).into())),
        int("parent_id", Integer, |s, i| s.slices.parent(id(i)).map(i64::from).into()),
        int("arg_set_id", Integer, |s, i| arg_set(s, s.slices.args(id(i)))),
        int("thread_ts", Scan, |s, i| s.slices.thread_times(id(i)).0.map(i64::from).into()),
        int("thread_dur", Scan, |s, i| s.slices.thread_times(id(i)).1.map(i64::from).into()),
        null("thread_instruction_count"),
        null("thread_instruction_delta"),
        text("cat", Text(|s, i| s.slices.category(id(i))), |s, i| string(s, s.slices.category(id(i)))),
        row("slice_id"),
        hidden(int("name_id", Integer, |s, i| Cell::Int(s.slices.name(id(i)).0.into()))),
        hidden(text("kind", Scan, |s, i| Cell::Text(s.category_kind(id(i)).name()))),
        hidden(int("correlation", Integer, |s, i| s.correlation(id(i)).into())),
        // NULL except for kernels, so that its index need not hold all slices.
        hidden(int("kernel_name_id", IntegerIn(|s| &s.kernels), |s, i| match s.category_kind(id(i)) {
            CategoryKind::Kernel => Cell::Int(s.slices.name(id(i)).0.into()),
            _ => Cell::Null,
        })),
    ],
};

pub(super) static FLOW: Table = Table {
    name: c"flow",
    rows: |s| s.flows.len(),
    columns: &[
        row("id"),
        int("slice_out", Integer, |s, i| Cell::Int(s.flows.slice_out[i].into())),
        int("slice_in", Integer, |s, i| Cell::Int(s.flows.slice_in[i].into())),
        int("trace_id", Integer, |s, i| Cell::Int(s.flows.trace_id[i] as i64)),
        int("arg_set_id", Scan, |s, i| arg_set(s, s.flow_args(i))),
    ],
};

static ARGS: Table = Table {
    name: c"args",
    rows: |s| s.args.rows().len(),
    columns: &[
        row("id"),
        int("arg_set_id", Sorted, |s, i| arg_set(s, s.args.set_of_row(i as u32))),
        text("flat_key", Text(|s, i| s.args.rows()[i].flat_key), |s, i| string(s, s.args.rows()[i].flat_key)),
        text("key", Text(|s, i| s.args.rows()[i].key), |s, i| string(s, s.args.rows()[i].key)),
        int("int_value", Scan, |s, i| match s.args.rows()[i].value {
            ArgValue::Int(v) => Cell::Int(v),
            ArgValue::Bool(v) => Cell::Int(v.into()),
            _ => Cell::Null,
        }),
        text("string_value", Scan, |s, i| match s.args.rows()[i].value {
            ArgValue::Text(v) => string(s, v),
            _ => Cell::Null,
        }),
        real("real_value", |s, i| match s.args.rows()[i].value {
            ArgValue::Real(v) => Cell::Real(v),
            _ => Cell::Null,
        }),
        text("value_type", Scan, |s, i| {
            Cell::Text(match s.args.rows()[i].value {
                ArgValue::Int(_) => "int",
                ArgValue::Bool(_) => "bool",
                ArgValue::Real(_) => "real",
                ArgValue::Text(_) => "string",
            })
        }),
        text("display_value", Scan, |s, i| match s.args.rows()[i].value {
            ArgValue::Int(v) => Cell::Owned(v.to_string()),
            ArgValue::Bool(v) => Cell::Text(if v { "true" } else { "false" }),
            ArgValue::Real(v) => Cell::Owned(format!("{v:?}")),
            ArgValue::Text(v) => string(s, v),
        }),
    ],
};

static THREAD: Table = Table {
    name: c"thread",
    rows: |s| s.tracks.threads.len(),
    columns: &[
        row("utid"),
        row("id"),
        int("tid", Integer, |s, i| Cell::Int(s.tracks.threads[i].tid)),
        text("name", Text(|s, i| s.tracks.threads[i].name), |s, i| string(s, s.tracks.threads[i].name)),
        null("start_ts"),
        null("end_ts"),
        int("upid", Integer, |s, i| Cell::Int(s.tracks.threads[i].upid.into())),
        int("is_main_thread", Scan, |s, i| {
            let thread = &s.tracks.threads[i];
            Cell::Int((s.tracks.process(thread.upid).pid == thread.tid).into())
        }),
        int("is_idle", Scan, |_, i| Cell::Int((i == 0).into())),
        machine_id(|s, i| Cell::Int(s.tracks.process(s.tracks.threads[i].upid).trace.into())),
        int("arg_set_id", Scan, |s, i| arg_set(s, s.tracks.threads[i].args)),
    ],
};

static PROCESS: Table = Table {
    name: c"process",
    rows: |s| s.tracks.processes.len(),
    columns: &[
        row("upid"),
        row("id"),
        int("pid", Integer, |s, i| Cell::Int(s.tracks.processes[i].pid)),
        text("name", Text(|s, i| s.tracks.processes[i].name), |s, i| string(s, s.tracks.processes[i].name)),
        null("start_ts"),
        null("end_ts"),
        null("parent_upid"),
        null("uid"),
        null("android_appid"),
        null("android_user_id"),
        null("cmdline"),
        int("arg_set_id", Scan, |s, i| arg_set(s, s.tracks.processes[i].args)),
        machine_id(|s, i| Cell::Int(s.tracks.processes[i].trace.into())),
    ],
};

static TRACK: Table = Table {
    name: c"track",
    rows: |s| s.tracks.tracks.len(),
    columns: &[
        row("id"),
        text("name", Scan, |s, i| string(s, s.tracks.tracks[i].name)),
        text("type", Scan, |s, i| Cell::Text(s.tracks.tracks[i].owner.track_type())),
        null("dimension_arg_set_id"),
        null("parent_id"),
        null("source_arg_set_id"),
        machine_id(|s, i| Cell::Int(s.tracks.tracks[i].trace.into())),
        null("track_group_id"),
    ],
};

/// The track of row `i` in `thread_track` or `process_track`.
fn track_at(tracks: &[TrackId], i: usize) -> usize {
    tracks[i].row()
}

static THREAD_TRACK: Table = Table {
    name: c"thread_track",
    rows: |s| s.thread_tracks.len(),
    columns: &[
        int("id", Sorted, |s, i| Cell::Int(track_at(&s.thread_tracks, i) as i64)),
        text("name", Scan, |s, i| string(s, s.tracks.tracks[track_at(&s.thread_tracks, i)].name)),
        text("type", Scan, |s, i| Cell::Text(s.tracks.tracks[track_at(&s.thread_tracks, i)].owner.track_type())),
        null("parent_id"),
        null("source_arg_set_id"),
        machine_id(|s, i| Cell::Int(s.tracks.tracks[track_at(&s.thread_tracks, i)].trace.into())),
        int("utid", Integer, |s, i| s.tracks.thread_of(s.thread_tracks[i]).map(i64::from).into()),
    ],
};

static PROCESS_TRACK: Table = Table {
    name: c"process_track",
    rows: |s| s.process_tracks.len(),
    columns: &[
        int("id", Sorted, |s, i| Cell::Int(track_at(&s.process_tracks, i) as i64)),
        text("name", Scan, |s, i| string(s, s.tracks.tracks[track_at(&s.process_tracks, i)].name)),
        text("type", Scan, |s, i| Cell::Text(s.tracks.tracks[track_at(&s.process_tracks, i)].owner.track_type())),
        null("parent_id"),
        null("source_arg_set_id"),
        machine_id(|s, i| Cell::Int(s.tracks.tracks[track_at(&s.process_tracks, i)].trace.into())),
        int("upid", Integer, |s, i| {
            s.tracks.tracks[track_at(&s.process_tracks, i)].owner.process().map(i64::from).into()
        }),
    ],
};

/// The number of row groups in `stats`: one per trace, and a last one for the archive if there are several.
fn stat_groups(store: &Store) -> usize {
    if store.traces.len() < 2 { 1 } else { store.traces.len() + 1 }
}

/// A row of `stats`: its trace (`None`: the archive), the kind of damage, and the count.
fn stat(store: &Store, row: usize) -> (Option<u32>, &'static Description, u64) {
    let (group, kind) = (row / DESCRIPTIONS.len(), &DESCRIPTIONS[row % DESCRIPTIONS.len()]);
    let all = store.damage.get(kind.kind).count;
    let of_trace = |trace: &Trace| trace.damage.get(kind.kind).count;
    match store.traces.get(group) {
        _ if stat_groups(store) == 1 => (Some(0), kind, all),
        Some(trace) => (Some(group as u32), kind, of_trace(trace)),
        None => (None, kind, all - store.traces.iter().map(of_trace).sum::<u64>()),
    }
}

static STATS: Table = Table {
    name: c"stats",
    rows: |s| DESCRIPTIONS.len() * stat_groups(s),
    columns: &[
        row("id"),
        text("name", Scan, |s, i| Cell::Text(stat(s, i).1.name)),
        null("key"),
        null("idx"),
        text("severity", Scan, |s, i| Cell::Text(stat(s, i).1.severity)),
        text("source", Scan, |_, _| Cell::Text("analysis")),
        int("value", Scan, |s, i| Cell::Int(stat(s, i).2 as i64)),
        text("description", Scan, |s, i| Cell::Text(stat(s, i).1.phrase)),
        machine_id(|s, i| stat(s, i).0.map(i64::from).into()),
        int("trace_id", Scan, |s, i| stat(s, i).0.map(i64::from).into()),
    ],
};

/// The fields of the headers' `metadata` objects, as in Perfetto; nested fields are flattened here.
static METADATA: Table = Table {
    name: c"metadata",
    rows: |s| s.metadata.len(),
    columns: &[
        row("id"),
        text("name", Scan, |s, i| Cell::Text(&s.metadata[i].key)),
        text("key_type", Scan, |_, _| Cell::Text("single")),
        int("int_value", Scan, |s, i| match &s.metadata[i].value {
            ArgValue::Int(v) => Cell::Int(*v),
            ArgValue::Bool(v) => Cell::Int((*v).into()),
            _ => Cell::Null,
        }),
        text("str_value", Scan, |s, i| match &s.metadata[i].value {
            ArgValue::Text(v) => Cell::Text(v),
            ArgValue::Real(v) => Cell::Owned(format!("{v:?}")),
            _ => Cell::Null,
        }),
        machine_id(|s, i| Cell::Int(s.metadata[i].trace.into())),
        int("trace_id", Scan, |s, i| Cell::Int(s.metadata[i].trace.into())),
    ],
};

static TRACE_BOUNDS: Table = Table {
    name: c"trace_bounds",
    rows: |_| 1,
    columns: &[
        int("start_ts", Scan, |s, _| Cell::Int(s.bounds.start.into())),
        int("end_ts", Scan, |s, _| Cell::Int(s.bounds.end.into())),
    ],
};

/// The project's own: the fields of the header, which is everything beside the events: `distributedInfo.rank`, `deviceProperties[0].name`.
static HEADER: Table = Table {
    name: c"header",
    rows: |s| s.header.len(),
    columns: &[
        row("id"),
        text("key", Scan, |s, i| Cell::Text(&s.header[i].key)),
        Column {
            name: "value",
            sql_type: "",
            hidden: false,
            lookup: Scan,
            cell: |s, i| match &s.header[i].value {
                ArgValue::Int(v) => Cell::Int(*v),
                ArgValue::Bool(v) => Cell::Int((*v).into()),
                ArgValue::Real(v) => Cell::Real(*v),
                ArgValue::Text(v) => Cell::Text(v),
            },
        },
        hidden(machine_id(|s, i| Cell::Int(s.header[i].trace.into()))),
    ],
};

/// The project's own: the distinct names of slices (a few thousand for millions of slices), and the kinds of slices with them.
static SLICE_NAME: Table = Table {
    name: c"slice_name",
    rows: |s| s.names.len(),
    columns: &[
        int("name_id", Sorted, |s, i| Cell::Int(s.names[i].id.0.into())),
        text("name", Text(|s, i| s.names[i].id), |s, i| string(s, s.names[i].id)),
        int("of_kernel", Scan, |s, i| Cell::Int(s.names[i].of_kernel.into())),
        int("of_cpu", Scan, |s, i| Cell::Int(s.names[i].of_cpu.into())),
    ],
};
