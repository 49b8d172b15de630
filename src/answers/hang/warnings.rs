//! What NCCL itself warned of, the same for all processes that print it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::records::{Records, Warning};

/// The kinds of warnings that name what is broken, most telling first.
const TELLING: &[&str] = &["mismatch", "cuda", "network", "system"];

/// A warning of NCCL, and the processes that printed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NcclWarning {
    /// What it is about: `network`, `cuda`, `system`, `mismatch` or `other`.
    pub kind: &'static str,
    /// The text of the first.
    pub text: String,
    /// How often it was printed with any numbers.
    pub count: u64,
    /// How many processes printed it.
    pub process_count: u64,
    /// The host of the first.
    pub host: Option<String>,
    /// Its process.
    pub pid: Option<i64>,
    /// Its CUDA device.
    pub gpu: Option<i64>,
    /// The hosts on the other side, where the texts name them.
    pub peers: Vec<String>,
}

impl NcclWarning {
    /// Whether it names something that is broken.
    pub fn is_telling(&self) -> bool {
        TELLING.contains(&self.kind)
    }
}

/// The warnings of all processes, most telling first, then the most frequent.
pub(crate) fn merged(records: &Records) -> Vec<NcclWarning> {
    let mut by_text: BTreeMap<(&str, String), Vec<&Warning>> = BTreeMap::new();
    for warning in &records.warnings {
        // The lines differ by numbers and by the names of hosts.
        let peer = warning.peer.as_deref().unwrap_or_default();
        let text = if peer.is_empty() { warning.text.clone() } else { warning.text.replace(peer, "") };
        let text = text.chars().filter(|letter| !letter.is_ascii_hexdigit()).collect();
        by_text.entry((warning.kind, text)).or_default().push(warning);
    }
    let merge = |of: Vec<&Warning>| {
        let processes: BTreeSet<_> = of.iter().map(|one| (&one.host, one.pid, one.device)).collect();
        let peers: BTreeSet<&String> = of.iter().filter_map(|one| one.peer.as_ref()).collect();
        let first = of.first()?;
        Some(NcclWarning {
            kind: first.kind,
            text: first.text.clone(),
            count: of.iter().fold(0, |sum, one| sum.saturating_add(one.count)),
            process_count: processes.len() as u64,
            host: first.host.clone(),
            pid: first.pid,
            gpu: first.device,
            peers: peers.into_iter().cloned().collect(),
        })
    };
    let mut all: Vec<NcclWarning> = by_text.into_values().filter_map(merge).collect();
    let telling = |of: &NcclWarning| TELLING.iter().position(|kind| *kind == of.kind).unwrap_or(TELLING.len());
    all.sort_by(|a, b| telling(a).cmp(&telling(b)).then_with(|| b.count.cmp(&a.count)));
    all
}
