//! Which call launched a kernel.
//!
//! A kernel and the runtime call that launched it carry the same correlation id in their arguments; that is CUPTI's and ROCm's
//! own record of the fact. The `flow` table says the same by arrows, but binds an arrow to whatever lies on the stream at that
//! moment, which for overlapping kernels is another kernel. So an arrow is believed only where one of the two has no
//! correlation id, and to choose between several calls that have the kernel's.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rusqlite::named_params;
use serde::Serialize;

use crate::error::Error;
use crate::sql::{Database, id_list, queries};

/// How much later than its kernel a call may begin and still be its launch: the clocks of CPU and GPU are aligned by the
/// profiler to well under this. A call that is later still has the id by chance, or because ids were used again.
const MAX_CLOCK_SKEW: i64 = 10_000_000;

/// A kernel and the call that launched it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Launched {
    /// The kernel's slice id.
    pub kernel: i64,
    /// When the kernel started, in ns.
    pub kernel_ts: i64,
    /// How long it ran, in ns.
    pub kernel_dur: i64,
    /// The call, if it is in the trace.
    pub call: Option<Call>,
    /// What ties the two.
    pub evidence: Evidence,
}

/// What ties a kernel to the call that launched it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Evidence {
    /// The correlation id, which no other call has.
    Correlation,
    /// The correlation id, which several calls have, and a flow from one of them.
    CorrelationAndFlow,
    /// The correlation id, which several calls have: the latest that began before the kernel.
    LatestOfSeveral,
    /// A flow.
    Flow,
    /// Nothing.
    None,
}

/// A call that launched a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Call {
    /// Its slice id.
    pub slice: i64,
    /// When it started, in ns.
    pub ts: i64,
}

/// The launches of all chosen kernels of a trace.
#[derive(Debug, Default, Serialize)]
pub struct Launches {
    /// By kernel, in time order.
    pub kernels: Vec<Launched>,
}

/// Finds the launches of all kernels with these names.
///
/// # Errors
/// What SQLite fails with.
pub fn find(database: &Database, names: &[i64]) -> Result<Launches, Error> {
    let names = id_list(names.iter().copied());
    let kernels = database.rows(queries::KERNELS, named_params! { ":names": names }, |row| {
        let kernel_ts = row.get(1)?;
        let none = Evidence::None;
        let launched = Launched { kernel: row.get(0)?, kernel_ts, kernel_dur: row.get(2)?, call: None, evidence: none };
        Ok((launched, row.get::<_, Option<i64>>(3)?))
    })?;
    // All kernels of a graph ask for the same id.
    let mut calls: HashMap<i64, Vec<Call>> = HashMap::new();
    let mut launches = Launches::default();
    for (mut launched, correlation) in kernels {
        let candidates = match correlation {
            None => &[][..],
            Some(id) => match calls.entry(id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(calls_with(database, id)?),
            },
        };
        let may_be = candidates.partition_point(|call| call.ts <= launched.kernel_ts.saturating_add(MAX_CLOCK_SKEW));
        (launched.call, launched.evidence) = choose(database, &launched, &candidates[..may_be])?;
        launches.kernels.push(launched);
    }
    Ok(launches)
}

/// Which of the calls with a kernel's correlation id launched it; if there is none, which call a flow comes from.
fn choose(database: &Database, kernel: &Launched, candidates: &[Call]) -> Result<(Option<Call>, Evidence), Error> {
    if let [only] = candidates {
        return Ok((Some(*only), Evidence::Correlation));
    }
    let flows = database.rows(queries::FLOW_LAUNCHES, named_params! { ":kernel": kernel.kernel }, |row| {
        Ok((Call { slice: row.get(0)?, ts: row.get(1)? }, row.get::<_, bool>(2)?))
    })?;
    let Some(latest) = candidates.last() else {
        let tied = flows.into_iter().find(|(_, is_only_tie)| *is_only_tie);
        return Ok(tied.map_or((None, Evidence::None), |(call, _)| (Some(call), Evidence::Flow)));
    };
    if let Some((call, _)) =
        flows.into_iter().find(|(call, _)| candidates.binary_search_by_key(&call.slice, |c| c.slice).is_ok())
    {
        return Ok((Some(call), Evidence::CorrelationAndFlow));
    }
    let before = candidates.partition_point(|call| call.ts <= kernel.kernel_ts);
    let call = candidates[..before].last().unwrap_or(latest);
    Ok((Some(*call), Evidence::LatestOfSeveral))
}

fn calls_with(database: &Database, correlation: i64) -> Result<Vec<Call>, Error> {
    database.rows(queries::CALLS, named_params! { ":correlation": correlation }, |row| {
        Ok(Call { slice: row.get(0)?, ts: row.get(1)? })
    })
}
