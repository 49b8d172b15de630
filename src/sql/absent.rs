//! Tables of PerfettoSQL that are always empty here, so that queries over them return no rows instead of failing.
//!
//! Most hold data that a PyTorch profiler does not record: how an operating system schedules its threads. Counters are different: a trace may have
//! them, but they are not read. An empty answer would then be silently wrong, so [`why_empty`] returns the reason for the program to print.

use super::table::Lookup::Scan;
use super::table::{Cell, Column, Table};
use crate::damage::Damage;
use crate::store::Store;

/// All absent tables.
pub(super) const TABLES: &[&Table] =
    &[&COUNTER, &COUNTER_TRACK, &PROCESS_COUNTER_TRACK, &SCHED, &CPU, &THREAD_STATE, &TRACE_IMPORT_LOGS];

fn find(table: &str) -> Option<&'static Table> {
    TABLES.iter().copied().find(|known| known.name.to_bytes().eq_ignore_ascii_case(table.as_bytes()))
}

/// Whether a table is absent; case does not matter, as in SQL.
pub(super) fn is_absent(table: &str) -> bool {
    find(table).is_some()
}

/// The reason why a table is empty, as a sentence; `None` if it is not absent, or if the trace has no events for it.
pub fn why_empty(table: &str, store: &Store) -> Option<String> {
    let known = find(table)?;
    let name = known.name.to_string_lossy();
    if name == "_trace_import_logs" {
        return Some(format!(
            "{name} is always empty here; problems of the trace are counted in stats (SELECT * FROM stats WHERE value > 0)"
        ));
    }
    match store.damage.get(Damage::PhaseNotShown).count {
        0 => None,
        n => Some(format!(
            "{name} is empty because such events are not read: {n} event(s) of this trace have phases that no table shows (counters, \
             samples, thread states, other metadata)"
        )),
    }
}

const fn absent(name: &'static str, sql_type: &'static str) -> Column {
    Column { name, sql_type, hidden: false, lookup: Scan, cell: |_, _| Cell::Null }
}

const fn int(name: &'static str) -> Column {
    absent(name, "INTEGER")
}

const fn text(name: &'static str) -> Column {
    absent(name, "TEXT")
}

static COUNTER: Table = Table {
    name: c"counter",
    rows: |_| 0,
    columns: &[int("id"), int("ts"), int("track_id"), absent("value", "REAL"), int("arg_set_id")],
};

static COUNTER_TRACK: Table = Table {
    name: c"counter_track",
    rows: |_| 0,
    columns: &[
        int("id"),
        text("name"),
        int("parent_id"),
        text("type"),
        int("dimension_arg_set_id"),
        int("source_arg_set_id"),
        int("machine_id"),
        text("unit"),
        text("description"),
    ],
};

static PROCESS_COUNTER_TRACK: Table = Table {
    name: c"process_counter_track",
    rows: |_| 0,
    columns: &[
        int("id"),
        text("name"),
        text("type"),
        int("parent_id"),
        int("source_arg_set_id"),
        int("machine_id"),
        text("unit"),
        text("description"),
        int("upid"),
    ],
};

static SCHED: Table = Table {
    name: c"sched",
    rows: |_| 0,
    columns: &[
        int("id"),
        int("ts"),
        int("dur"),
        int("cpu"),
        int("utid"),
        text("end_state"),
        int("priority"),
        int("ucpu"),
        int("ts_end"),
    ],
};

static CPU: Table = Table {
    name: c"cpu",
    rows: |_| 0,
    columns: &[
        int("id"),
        int("ucpu"),
        int("cpu"),
        int("cluster_id"),
        text("processor"),
        int("machine_id"),
        int("capacity"),
        int("arg_set_id"),
    ],
};

static THREAD_STATE: Table = Table {
    name: c"thread_state",
    rows: |_| 0,
    columns: &[
        int("id"),
        int("ts"),
        int("dur"),
        int("cpu"),
        int("utid"),
        text("state"),
        int("io_wait"),
        text("blocked_function"),
        int("waker_utid"),
        int("waker_id"),
        int("irq_context"),
        int("ucpu"),
    ],
};

static TRACE_IMPORT_LOGS: Table = Table {
    name: c"_trace_import_logs",
    rows: |_| 0,
    columns: &[
        int("id"),
        int("trace_id"),
        int("ts"),
        int("byte_offset"),
        text("severity"),
        text("name"),
        int("arg_set_id"),
    ],
};
