//! Sends and receives in logs, which have every call and no states: of each pair of ranks one sends as often as the other receives.

use super::finding::Finding;
use super::peers::directions;
use super::{Evidence, EvidenceKind, Outcome};
use crate::names::collectives::Collective;
use crate::operation::Source;
use crate::operations::recorded_groups::RecordedGroup;
use crate::records::Records;

/// Adds the ranks that called less sends or receives than their peers call of the other.
pub(super) fn add(group: &RecordedGroup, records: &Records, finding: &mut Finding) {
    if group.source != Source::DEBUG_LOG || finding.outcome == Some(Outcome::Hung) || !is_whole(records) {
        return;
    }
    let is_here = |rank: &u32| group.members.get(rank).is_some_and(|member| !member.is_cut);
    for ((from, to), direction) in directions(group, records, |_| true) {
        let (sends, receives) = (direction.sends.len(), direction.receives.len());
        if sends == receives || !is_here(&from) || !is_here(&to) {
            continue;
        }
        let (rank, peer, called) =
            if sends < receives { (from, to, Collective::Send) } else { (to, from, Collective::Recv) };
        finding.outcome = Some(Outcome::Lagging);
        finding.missing.insert(rank);
        finding.collective = finding.collective.take().or_else(|| Some(called.name().to_owned()));
        finding.prove(|| Evidence {
            collective: Some(called.name().to_owned()),
            here: Some(sends.min(receives).to_string()),
            there: Some(sends.max(receives).to_string()),
            ..Evidence::new(EvidenceKind::FewerMessages, vec![rank], vec![peer])
        });
    }
}

/// Whether all calls of the logs are kept: of long logs the last are.
fn is_whole(records: &Records) -> bool {
    let calls = records.calls.iter().filter(|(like, _)| like.source == Source::DEBUG_LOG);
    let kept = records.operations.iter().filter(|operation| operation.source == Source::DEBUG_LOG).count();
    calls.map(|(_, count)| *count).fold(0, u64::saturating_add) == kept as u64
}
