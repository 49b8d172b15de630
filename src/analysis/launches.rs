//! Which call launched a kernel.
//!
//! A kernel and the runtime call that launched it carry the same correlation id in their arguments; that is CUPTI's and ROCm's
//! own record of the fact. The `flow` table says the same by arrows, but binds an arrow to whatever lies on the stream at that
//! moment, which for overlapping kernels is another kernel. So an arrow is believed only where one of the two has no
//! correlation id.

use rusqlite::named_params;

use crate::error::Error;
use crate::sql::{Database, id_list, queries};

/// A kernel and the call that launched it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launched {
    /// The kernel's slice id.
    pub kernel: i64,
    /// When the kernel started, in ns.
    pub kernel_ts: i64,
    /// How long it ran, in ns.
    pub kernel_dur: i64,
    /// The call, if it is in the trace.
    pub call: Option<Call>,
}

/// A call that launched a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Its slice id.
    pub slice: i64,
    /// When it started, in ns.
    pub ts: i64,
}

/// The launches of all chosen kernels of a trace.
#[derive(Debug, Default)]
pub struct Launches {
    /// By kernel, in time order.
    pub kernels: Vec<Launched>,
    /// How many kernels share their correlation id with several calls; the latest call that began before the kernel was taken.
    pub ambiguous: usize,
}

/// Finds the launches of all kernels with these names.
///
/// # Errors
/// What SQLite fails with.
pub fn find(database: &Database, names: &[i64]) -> Result<Launches, Error> {
    let names = id_list(names.iter().copied());
    let rows = database.rows(queries::LAUNCHES, named_params! { ":names": names }, |row| {
        let call = match (row.get(5)?, row.get(6)?) {
            (Some(slice), Some(ts)) => Some(Call { slice, ts }),
            _ => None,
        };
        Ok(Launched { kernel: row.get(0)?, kernel_ts: row.get(1)?, kernel_dur: row.get(2)?, call })
    })?;
    let mut launches = Launches::default();
    for candidates in rows.chunk_by(|a, b| a.kernel == b.kernel) {
        let before = candidates.iter().rfind(|c| c.call.is_some_and(|call| call.ts <= c.kernel_ts));
        let mut launched = *before.unwrap_or(&candidates[0]);
        launches.ambiguous += usize::from(candidates.len() > 1);
        if launched.call.is_none() {
            launched.call = by_flow(database, launched.kernel)?;
        }
        launches.kernels.push(launched);
    }
    Ok(launches)
}

fn by_flow(database: &Database, kernel: i64) -> Result<Option<Call>, Error> {
    let calls = database.rows(queries::FLOW_LAUNCHES, named_params! { ":kernel": kernel }, |row| {
        Ok(Call { slice: row.get(0)?, ts: row.get(1)? })
    })?;
    Ok(calls.last().copied())
}
