//! Why an answer has no stacks: what is in the window instead.

use rusqlite::named_params;
use serde::Serialize;
use serde_json::json;

use super::stacks::StackReport;
use crate::attribution::selection::Names;
use crate::error::Error;
use crate::nccl::calls::GRAPH_LAUNCHES;
use crate::nccl::families::FAMILIES;
use crate::nccl::kernels::is_related;
use crate::sql::{Database, queries};
use crate::time::Window;

/// A name and how often it occurs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NameCount {
    /// The name.
    pub name: String,
    /// How often.
    pub count: u64,
}

/// The reasons for an answer without stacks.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub enum Missing {
    /// The kernels ran in the window, and nothing ties them to a call.
    NoLaunchLink {
        /// How many ran.
        kernels: u64,
        /// How many others ran and were launched outside the window.
        elsewhere: u64,
        /// Calls in the window that launch a graph.
        graph_launches: Vec<NameCount>,
    },
    /// The kernels ran in the window and were launched outside it.
    LaunchedElsewhere {
        /// How many ran.
        kernels: u64,
    },
    /// Other kernels ran in the window.
    OtherKernels {
        /// Those whose names suggest a collective; the most frequent of all if there are none.
        kernels: Vec<NameCount>,
        /// Whether their names suggest a collective.
        related: bool,
        /// How many chosen kernels there are elsewhere in the trace.
        elsewhere: u64,
        /// The families of collective kernels that ran.
        families: Vec<NameCount>,
    },
    /// No kernel ran in the window.
    NoKernels {
        /// Where the trace has kernels, and how many, if it has any.
        span: Option<(Window, u64)>,
    },
}

/// How many unrelated kernels are worth showing.
const MOST_FREQUENT: usize = 10;

/// Finds the reason why a report has no stacks.
///
/// # Errors
/// What SQLite fails with.
pub fn explain(database: &Database, window: Window, report: &StackReport) -> Result<Missing, Error> {
    if report.coverage.unattributed() > 0 {
        return Ok(Missing::NoLaunchLink {
            kernels: report.coverage.unattributed(),
            elsewhere: report.elsewhere,
            graph_launches: graph_launches(database, window)?,
        });
    }
    if report.elsewhere > 0 {
        return Ok(Missing::LaunchedElsewhere { kernels: report.elsewhere });
    }
    let params = named_params! { ":start": window.start, ":end": window.end };
    let kernels = database
        .rows(queries::KERNELS_IN_WINDOW, params, |row| Ok(NameCount { name: row.get(0)?, count: row.get(1)? }))?;
    if kernels.is_empty() {
        let spans = database.rows(queries::KERNEL_SPAN, [], |row| {
            let span = row.get::<_, Option<i64>>(0)?.zip(row.get::<_, Option<i64>>(1)?);
            Ok(span.map(|(start, end)| (Window { start, end }, row.get::<_, u64>(2).unwrap_or(0))))
        })?;
        return Ok(Missing::NoKernels { span: spans.first().copied().flatten() });
    }
    let elsewhere = report.kernels_in_trace;
    let families = families(&kernels);
    let related: Vec<NameCount> = kernels.iter().filter(|k| is_related(&k.name)).cloned().collect();
    if related.is_empty() {
        let kernels = kernels.into_iter().take(MOST_FREQUENT).collect();
        return Ok(Missing::OtherKernels { kernels, related: false, elsewhere, families });
    }
    Ok(Missing::OtherKernels { kernels: related, related: true, elsewhere, families })
}

/// The families of some kernels, in the order of the table; of families with the same count the first.
fn families(kernels: &[NameCount]) -> Vec<NameCount> {
    let all = FAMILIES.iter().map(|family| {
        let names = Names::of(&[family]);
        let count = kernels.iter().filter(|kernel| names.fit(&kernel.name)).map(|kernel| kernel.count).sum();
        NameCount { name: family.name.to_owned(), count }
    });
    let mut found: Vec<NameCount> = all.filter(|family| family.count > 0).collect();
    found.dedup_by_key(|family| family.count);
    found
}

fn graph_launches(database: &Database, window: Window) -> Result<Vec<NameCount>, Error> {
    let names = json!(GRAPH_LAUNCHES).to_string();
    let params = named_params! { ":start": window.start, ":end": window.end, ":names": names };
    database.rows(queries::GRAPH_LAUNCHES, params, |row| Ok(NameCount { name: row.get(0)?, count: row.get(1)? }))
}
