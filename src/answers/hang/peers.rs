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

/// Sends and receives from one rank to another, oldest first.
#[derive(Default)]
pub(super) struct Direction {
    pub(super) sends: Vec<usize>,
    pub(super) receives: Vec<usize>,
}

/// By the rank that sends and the one that receives: those of their sends and receives that are meant.
pub(super) fn directions(
    group: &RecordedGroup,
    records: &Records,
    is_meant: impl Fn(&Operation) -> bool,
) -> BTreeMap<(u32, u32), Direction> {
    let mut found: BTreeMap<(u32, u32), Direction> = BTreeMap::new();
    for (rank, member) in &group.members {
        for at in member.peers.iter().filter(|at| is_meant(&records.operations[**at])) {
            let Some(peer) = peer_of(group, records, *at) else { continue };
            match records.operations[*at].known_collective() {
                Some(Collective::Send) => found.entry((*rank, peer)).or_default().sends.push(*at),
                Some(Collective::Recv) => found.entry((peer, *rank)).or_default().receives.push(*at),
                _ => {}
            }
        }
    }
    found
}

/// Adds what the sends and receives of a group show.
pub(super) fn add(group: &RecordedGroup, records: &Records, finding: &mut Finding) {
    for (rank, member) in &group.members {
        let open = member.peers.iter().filter(|at| is_open(&records.operations[**at]));
        for at in open {
            finding.waiting.insert(*rank);
            finding.outcome = finding.outcome.or(Some(Outcome::Unclear));
            let oldest = finding.oldest.entry(*rank).or_insert(*at);
            if records.operations[*at].enqueued < records.operations[*oldest].enqueued {
                *oldest = *at;
            }
        }
    }
    for ((from, to), direction) in directions(group, records, is_open) {
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
        if let Some(first) = rest.first().filter(|_| !group.members.contains_key(&peer)) {
            finding.unmet.push((peer, rank, *first));
        } else if let Some(first) = rest.first() {
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
    other_peer(group, records, finding);
}

/// Replaces a receive from a rank that has never sent, and a send of another rank to the same receiver, by what they are together: one of the three may
/// name the wrong rank. In a pipeline such a send waits, too, until its time has come, but there the first rank has sent before.
fn other_peer(group: &RecordedGroup, records: &Records, finding: &mut Finding) {
    let of_kind = |kind: EvidenceKind| {
        let of_kind = finding.evidence.iter().filter(move |of| of.kind == kind);
        of_kind.filter_map(|of| of.ranks.first().copied().zip(of.peers.first().copied()))
    };
    let has_sent = |from: u32, to: u32| {
        let is_one = |(rank, is_send): (u32, bool), other: u32| {
            let of_rank = group.members.get(&rank).into_iter().flat_map(|member| &member.peers);
            let wanted = if is_send { Collective::Send } else { Collective::Recv };
            let of_peer = of_rank.filter(|at| peer_of(group, records, **at) == Some(other));
            of_peer
                .map(|at| &records.operations[*at])
                .any(|of| of.known_collective() == Some(wanted) && (is_send || !is_open(of)))
        };
        is_one((from, true), to) || is_one((to, false), from)
    };
    let found = of_kind(EvidenceKind::NoSend).find_map(|(receiver, awaited)| {
        let mut senders = of_kind(EvidenceKind::NoReceive).filter(|(_, to)| *to == receiver);
        let (giver, _) = senders.find(|(from, _)| *from != awaited)?;
        (!has_sent(awaited, receiver)).then_some((giver, receiver, awaited))
    });
    let Some((giver, receiver, awaited)) = found else { return };
    finding.waits.remove(&(receiver, awaited));
    finding.waits.insert((receiver, giver));
    if !finding.waits.iter().any(|(_, other)| *other == awaited) {
        finding.missing.remove(&awaited);
    }
    finding.evidence.retain(|of| of.kind != EvidenceKind::NoSend || of.ranks != [receiver] || of.peers != [awaited]);
    finding.evidence.retain(|of| of.kind != EvidenceKind::NoReceive || of.ranks != [giver] || of.peers != [receiver]);
    let evidence = Evidence::new(EvidenceKind::OtherPeer, vec![giver], vec![receiver]);
    finding.evidence.insert(0, Evidence { here: Some(awaited.to_string()), ..evidence });
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
pub(super) fn peer_of(group: &RecordedGroup, records: &Records, at: usize) -> Option<u32> {
    let place = u32::try_from(records.operations[at].peer?).ok()?;
    if !group.is_global {
        return Some(place);
    }
    group.name.ranks.get(place as usize).copied()
}
