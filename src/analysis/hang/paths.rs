//! The call path of a rank at fault next to that of a waiting rank.

use std::sync::Arc;

use serde::Serialize;

use super::finding::Finding;
use crate::records::Records;

/// Two call paths side by side, outermost caller first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ComparedPaths {
    /// The rank at fault.
    pub rank: u32,
    /// What it did: the odd or incomplete operation, or the last one it enqueued.
    pub collective: Option<String>,
    /// Its call path.
    pub path: Vec<String>,
    /// A rank that waits.
    pub other_rank: u32,
    /// The operation that it waits in.
    pub other_collective: Option<String>,
    /// Its call path.
    pub other_path: Vec<String>,
    /// The index of the first frame that differs, from 0; `None` if the paths are equal.
    pub first_difference: Option<usize>,
}

/// Compares the operation that ranks wait in with that of a rank at fault. `None` if either has no call path.
pub(super) fn compare(finding: &Finding, at_fault: Option<usize>, records: &Records) -> Option<ComparedPaths> {
    let of = |at: usize| {
        let operation = &records.operations[at];
        let path: &Vec<Arc<str>> = records.paths.get(operation.recorded_path? as usize)?;
        let rank = operation.rank.map(|rank| rank.0).or(operation.place)?;
        Some((rank, operation.collective.as_deref().map(str::to_owned), path))
    };
    let (rank, collective, path) = of(at_fault?)?;
    let (other_rank, other_collective, other_path) = of(finding.awaited?)?;
    let same = path.iter().zip(other_path).take_while(|(a, b)| a == b).count();
    let owned = |path: &[Arc<str>]| path.iter().map(|frame| frame.as_ref().to_owned()).collect();
    Some(ComparedPaths {
        rank,
        collective,
        path: owned(path),
        other_rank,
        other_collective,
        other_path: owned(other_path),
        first_difference: (path != other_path).then_some(same),
    })
}
