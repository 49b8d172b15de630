//! Sends without receives, and receives without sends.
//!
//! Each rank counts its own sends and receives, so numbers do not pair them. Between two ranks, operations in one direction run in order: the first
//! send with the first receive. A dump may start anywhere, but it contains every incomplete operation. So the incomplete sends of a direction are
//! paired with the incomplete receives; the remainder has no partner.

use std::collections::BTreeMap;

use super::finding::{Finding, is_open};
use super::{Evidence, EvidenceKind, Outcome};
use crate::names::collectives::{Collective, element_bytes};
use crate::operation::Operation;
use crate::operations::recorded_groups::RecordedGroup;
use crate::records::Records;

/// The incomplete operations from one rank to another, oldest first.
#[derive(Default)]
struct Direction {
    sends: Vec<usize>,
    receives: Vec<usize>,
}

/// Adds what the sends and receives of a group show.
pub(super) fn add(group: &RecordedGroup, records: &Records, finding: &mut Finding) {
    let mut directions: BTreeMap<(u32, u32), Direction> = BTreeMap::new();
    for (rank, member) in &group.members {
        let open = member.peers.iter().filter(|at| is_open(&records.operations[**at]));
        for at in open {
            finding.waiting.insert(*rank);
            finding.outcome = finding.outcome.or(Some(Outcome::Unclear));
            let oldest = finding.oldest.entry(*rank).or_insert(*at);
            if records.operations[*at].enqueued < records.operations[*oldest].enqueued {
                *oldest = *at;
            }
            let Some(peer) = peer_of(group, records, *at) else { continue };
            match records.operations[*at].collective.as_deref().and_then(Collective::of_record) {
                Some(Collective::Send) => directions.entry((*rank, peer)).or_default().sends.push(*at),
                Some(Collective::Recv) => directions.entry((peer, *rank)).or_default().receives.push(*at),
                _ => {}
            }
        }
    }
    for ((from, to), direction) in directions {
        let paired = direction.sends.len().min(direction.receives.len());
        let fits =
            |(send, receive): &(&usize, &usize)| fit(&records.operations[**send], &records.operations[**receive]);
        let mut pairs = direction.sends.iter().zip(&direction.receives);
        if let Some((send, receive)) = pairs.find(|pair| !fits(pair)) {
            let operation = &records.operations[*send];
            finding.outcome = Some(Outcome::Hung);
            finding.crowds.extend([(vec![from], vec![to]), (vec![to], vec![from])]);
            if finding.collective.is_none() {
                finding.collective = operation.collective.as_deref().map(str::to_owned);
                finding.awaited = Some(*send);
                finding.theirs = Some(*receive);
            }
            let elements = |at: usize| elements(&records.operations[at]).map(|elements| elements.to_string());
            let evidence = Evidence::new(EvidenceKind::OtherMessage, vec![from], vec![to]);
            finding.evidence.push(Evidence { here: elements(*send), there: elements(*receive), ..evidence });
        }
        let sends = &direction.sends[paired..];
        let receives = &direction.receives[paired..];
        let (rest, rank, peer, kind) = match sends.is_empty() {
            false => (sends, from, to, EvidenceKind::NoReceive),
            true => (receives, to, from, EvidenceKind::NoSend),
        };
        // Without records of the peer, nothing is known.
        if let Some(first) = rest.first()
            && group.members.contains_key(&peer)
        {
            let operation = &records.operations[*first];
            let has_collectives = finding.sequence.is_some();
            finding.outcome = Some(Outcome::Hung);
            finding.waits.insert((rank, peer));
            finding.missing.insert(peer);
            let collective = operation.collective.as_deref().map(str::to_owned);
            if !has_collectives && finding.collective.is_none() {
                finding.collective.clone_from(&collective);
                finding.awaited = Some(*first);
            }
            let here = Some(rest.len().to_string());
            let evidence = Evidence::new(kind, vec![rank], vec![peer]);
            finding.evidence.push(Evidence { collective, sequence: operation.sequence, here, ..evidence });
        }
    }
}

/// Whether a receive takes what a send gives, as far as is known. Types of one size may differ.
fn fit(send: &Operation, receive: &Operation) -> bool {
    let bytes = |of: &Operation| elements(of).zip(of.dtype.as_deref().and_then(element_bytes));
    match bytes(send).zip(bytes(receive)) {
        Some(((sent, of_send), (received, of_receive))) => {
            sent.saturating_mul(of_send) == received.saturating_mul(of_receive)
        }
        None => true,
    }
}

/// The elements of a message, which some versions record on one side only.
fn elements(of: &Operation) -> Option<u64> {
    of.in_elements.or(of.out_elements)
}

/// The peer's rank. Sources record its position in the group.
fn peer_of(group: &RecordedGroup, records: &Records, at: usize) -> Option<u32> {
    let place = u32::try_from(records.operations[at].peer?).ok()?;
    if !group.is_global {
        return Some(place);
    }
    group.name.ranks.get(place as usize).copied()
}
