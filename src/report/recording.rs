//! The sentences about what recordings lack.

use super::format::count;
use crate::analysis::recording::Loss;

/// `The recording lacks 88 communicators for which there was no room.`; `None` if it lacks nothing.
pub fn lacks(losses: &[Loss]) -> Option<String> {
    let lost: Vec<String> = losses.iter().map(|Loss { what, count: n, .. }| format!("{} {what}", count(*n))).collect();
    (!lost.is_empty()).then(|| format!("The recording lacks {}.", lost.join(", and ")))
}
