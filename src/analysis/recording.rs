//! What recordings lack: every answer that they give depends on it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::records::{Records, Remark};

/// Something that recordings lack and that may be what a rank did last, so that nothing follows from what is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Loss {
    /// What is counted: `communicators for which there was no room`.
    pub what: &'static str,
    /// How many, in all files.
    pub count: u64,
}

/// What some recordings lack, in the order of its names.
pub(super) fn losses(records: &Records) -> Vec<Loss> {
    let mut found: BTreeMap<&'static str, u64> = BTreeMap::new();
    let remarks = records.files.iter().flat_map(|file| &file.skipped);
    for Remark { what, count, .. } in remarks.filter(|remark| remark.may_be_last) {
        let sum = found.entry(what).or_default();
        *sum = sum.saturating_add(*count);
    }
    found.into_iter().map(|(what, count)| Loss { what, count }).collect()
}
