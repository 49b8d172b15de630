//! What NCCL itself warned of, the same for all processes that print it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::records::{Records, Warning};

/// The kinds of warnings that name what is broken, most telling first: connections break where a process ends.
const TELLING: &[&str] = &["mismatch", "setup", "cuda", "system", "network"];

/// A warning of NCCL, and the processes that printed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NcclWarning {
    /// What it is about: `network`, `cuda`, `system`, `setup`, `mismatch` or `other`.
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
    /// How many processes name the first of these in any warning, if they are more than those that name others: the fault may be there.
    #[serde(skip)]
    pub peer_process_count: u64,
    /// Whether it names its own host: what it is about began elsewhere.
    #[serde(skip)]
    is_of_own_host: bool,
    /// Where the first is: the file, and the offset in it.
    #[serde(skip)]
    place: (u32, u64),
}

impl NcclWarning {
    /// Whether it names something that is broken.
    pub fn is_telling(&self) -> bool {
        TELLING.contains(&self.kind)
    }
}

/// Whether the other side is the host itself.
fn is_own_host(of: &Warning) -> bool {
    let is_it = |(peer, host): (&String, &String)| peer == host || peer.starts_with(&format!("{host}."));
    of.peer.as_ref().zip(of.host.as_ref()).is_some_and(is_it)
}

/// The warnings of all processes, most telling first. Within one log the first comes first, because others follow from it; between logs, the most frequent.
pub(crate) fn merged(records: &Records) -> Vec<NcclWarning> {
    let mut by_text: BTreeMap<(&str, bool, String), Vec<&Warning>> = BTreeMap::new();
    let mut by_peer: BTreeMap<&str, BTreeSet<_>> = BTreeMap::new();
    for warning in &records.warnings {
        // The lines differ by numbers and by the names of hosts.
        let peer = warning.peer.as_deref().unwrap_or_default();
        let text = if peer.is_empty() { warning.text.clone() } else { warning.text.replace(peer, "") };
        let text = text.chars().filter(|letter| !letter.is_ascii_hexdigit()).collect();
        let is_own = is_own_host(warning);
        by_text.entry((warning.kind, is_own, text)).or_default().push(warning);
        if !is_own && !peer.is_empty() {
            by_peer.entry(peer).or_default().insert((&warning.host, warning.pid, warning.device));
        }
    }
    let naming = |peer: &str| by_peer.get(peer).map_or(0, BTreeSet::len);
    let all_naming: usize = by_peer.values().map(BTreeSet::len).sum();
    let merge = |((_, is_of_own_host, _), of): ((&str, bool, String), Vec<&Warning>)| {
        let processes: BTreeSet<_> = of.iter().map(|one| (&one.host, one.pid, one.device)).collect();
        let peers: BTreeSet<&String> = of.iter().filter_map(|one| one.peer.as_ref()).collect();
        let mut peers: Vec<String> = peers.into_iter().cloned().collect();
        peers.sort_by_key(|peer| std::cmp::Reverse(naming(peer)));
        let most = peers.first().map_or(0, |peer| naming(peer));
        let first = of.first()?;
        Some(NcclWarning {
            kind: first.kind,
            text: first.text.clone(),
            count: of.iter().fold(0, |sum, one| sum.saturating_add(one.count)),
            process_count: processes.len() as u64,
            host: first.host.clone(),
            pid: first.pid,
            gpu: first.device,
            peer_process_count: if most * 2 > all_naming { most as u64 } else { 0 },
            peers,
            is_of_own_host,
            place: (first.file, first.offset),
        })
    };
    let mut all: Vec<NcclWarning> = by_text.into_iter().filter_map(merge).collect();
    let is_one_log = all.iter().all(|of| of.place.0 == all[0].place.0);
    let telling = |of: &NcclWarning| TELLING.iter().position(|kind| *kind == of.kind).unwrap_or(TELLING.len());
    all.sort_by_key(|of| {
        let count = if is_one_log { 0 } else { of.count };
        (telling(of), of.is_of_own_host, std::cmp::Reverse(count), of.place)
    });
    all
}
