//! A rank that alone waits in what several others have not called, while these wait in nothing: it made a call too many, or the others one too few.
//!
//! As with calls that differ, the one is more likely wrong. But ranks that do nothing are also what others wait for, so that nobody is proved to be at fault.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use super::graph::Rank;
use super::waits::Part;
use super::{Evidence, EvidenceKind, Outcome};
use crate::operations::recorded_groups::RecordedGroups;

/// Replaces what a group shows of the others by what it shows of that rank.
pub(super) fn add(groups: &RecordedGroups, found: &mut [Finding]) {
    let parts = || {
        let all = groups.all.iter().zip(&*found).enumerate();
        all.map(|(at, (group, finding))| Part { at, group, finding, processes: &groups.processes })
    };
    let busy: BTreeSet<Rank> = parts()
        .flat_map(|part| {
            let Finding { waiting, unknown, stuck, odd, .. } = part.finding;
            // Counts do not say what is open.
            let unknown = unknown.iter().filter(|_| part.finding.moved.is_none());
            part.all(waiting.iter().chain(unknown).chain(stuck).chain(odd))
        })
        .collect();
    // By rank that is missing: in how many groups it is.
    let mut missing: BTreeMap<Rank, usize> = BTreeMap::new();
    for rank in parts().flat_map(|part| part.all(&part.finding.missing)) {
        *missing.entry(rank).or_default() += 1;
    }
    let is_idle = |rank: &Rank| !busy.contains(rank) && missing.get(rank) == Some(&1);
    let is_ahead = |part: &Part<'_>| {
        let finding = part.finding;
        finding.outcome == Some(Outcome::Hung)
            && one_of(finding).is_some()
            && finding.proved.is_empty()
            && finding.waits.is_empty()
            && finding.unmet.is_empty()
            && finding.waiting.len() == 1
            && finding.missing.len() > 1
            && part.group.unknown().is_empty()
            && part.all(&finding.missing).iter().all(is_idle)
    };
    let ahead: Vec<usize> = parts().filter(is_ahead).map(|part| part.at).collect();
    for at in ahead {
        let finding = &mut found[at];
        let Some(evidence) = one_of(finding).cloned() else { continue };
        let (one, others) = (evidence.peers.clone(), evidence.ranks.clone());
        finding.levels.clear();
        // Either may be what the other waits for.
        finding.crowds = vec![(one.clone(), others.clone()), (others, one)];
        let Evidence { ranks: peers, peers: ranks, here: there, there: here, .. } = evidence.clone();
        finding.evidence.retain(|of| of.kind == EvidenceKind::NoProgress);
        finding.evidence.insert(0, Evidence { kind: EvidenceKind::Ahead, ranks, peers, here, there, ..evidence });
    }
}

/// The only thing that a group shows: that some ranks did less than the others, all of them equally.
fn one_of(finding: &Finding) -> Option<&Evidence> {
    let mut others = finding.evidence.iter().filter(|of| of.kind != EvidenceKind::NoProgress);
    let is_fewer = |of: &&Evidence| matches!(of.kind, EvidenceKind::NeverEnqueued | EvidenceKind::FewerCalls);
    let first = others.next().filter(is_fewer)?;
    let is_all = others.next().is_none()
        && finding.left_out == 0
        && first.ranks.len() == finding.missing.len()
        && first.peers.len() == finding.waiting.len();
    is_all.then_some(first)
}
