//! Tables of PerfettoSQL that are always empty here, so that queries over them return no rows instead of failing.
//!
//! Most hold data that a PyTorch profiler does not record: how an operating system schedules its threads. Counters are different: a trace may have
//! them, but they are not read. An empty answer would then be silently wrong, so [`why_empty`] returns the reason for the program to print.

use super::table::{Table, null};
use crate::damage::Damage;
use crate::store::Store;

macro_rules! absent {
    ($($name:literal: $($column:ident)*;)*) => {
        pub(super) const TABLES: &[&Table] =
            &[$(&Table { name: $name, rows: |_| 0, columns: &[$(null(stringify!($column))),*] }),*];
    };
}

absent! {
    c"counter": id ts track_id value arg_set_id;
    c"counter_track": id name parent_id type dimension_arg_set_id source_arg_set_id machine_id unit description;
    c"process_counter_track": id name type parent_id source_arg_set_id machine_id unit description upid;
    c"sched": id ts dur cpu utid end_state priority ucpu ts_end;
    c"cpu": id ucpu cpu cluster_id processor machine_id capacity arg_set_id;
    c"thread_state": id ts dur cpu utid state io_wait blocked_function waker_utid waker_id irq_context ucpu;
    c"_trace_import_logs": id trace_id ts byte_offset severity name arg_set_id;
}

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
