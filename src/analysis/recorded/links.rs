//! Links: what each rank's channel sent to and received from each peer, how long it was busy with that, and how much went from rank to
//! rank.
//!
//! A link is busy while at least one of its steps is in flight. Where steps are not recorded, that is from a proxy operation's start to
//! its end. Bytes are those on the wire: with the protocol LL half of them are flags, with LL128 one of sixteen.

use std::collections::BTreeMap;

use serde::Serialize;

use super::groups::{Group, Groups, rank_of};
use crate::operation::{Communicator, Operation};
use crate::records::{ProxyOp, Records};
use crate::time::Ns;

/// One channel between a rank and a peer, in one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LinkRow {
    /// The communicator.
    pub communicator: Option<String>,
    /// The rank that recorded it.
    pub rank: Option<u32>,
    /// The other side.
    pub peer: i64,
    /// The channel.
    pub channel: u32,
    /// `send` or `receive`.
    pub direction: &'static str,
    /// How many proxy operations.
    pub operations: u64,
    /// How many bytes; `None` if no operation has them.
    pub bytes: Option<u64>,
    /// How long at least one step was in flight; `None` if no times are known.
    #[serde(rename = "busy_ns")]
    pub busy: Option<Ns>,
    /// Bytes by that time, in GB/s (10^9 bytes).
    pub gb_per_s: Option<f64>,
}

/// How much went from one rank to another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PairRow {
    /// The communicator.
    pub communicator: Option<String>,
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives.
    pub to: u32,
    /// How many bytes.
    pub bytes: u64,
    /// What says so: `wire` for what proxies moved, `call` for the sizes of sends and receives.
    pub by: &'static str,
}

type Link = (Group, Option<u32>, i64, u32, bool);

pub(super) fn of(records: &Records, groups: &Groups) -> Vec<LinkRow> {
    let mut rows: BTreeMap<Link, (LinkRow, Vec<(Ns, Ns)>)> = BTreeMap::new();
    let mut keys = Vec::with_capacity(records.proxy_ops.len());
    let mut of_steps: Vec<Vec<(Ns, Ns)>> = vec![Vec::new(); records.proxy_ops.len()];
    for step in &records.proxy_steps {
        if let (Some(spans), Some(span)) = (of_steps.get_mut(step.proxy_op), step.start.zip(step.end)) {
            spans.push(span);
        }
    }
    for (op, spans) in records.proxy_ops.iter().zip(of_steps) {
        let key = (groups.of_operation(records, op.operation), op.place, op.peer, op.channel, op.is_send);
        let (row, busy) = rows.entry(key).or_default();
        row.operations += 1;
        if let Some(bytes) = op.bytes {
            row.bytes = Some(row.bytes.unwrap_or(0).saturating_add(bytes));
        }
        match op.start.zip(op.end) {
            Some(whole) if spans.is_empty() => busy.push(whole),
            _ => busy.extend(spans),
        }
        keys.push(key);
    }
    let row = |((group, rank, peer, channel, is_send), (row, spans)): (Link, (LinkRow, Vec<(Ns, Ns)>))| {
        let busy = union(spans);
        let bandwidth = |(bytes, busy): (u64, Ns)| (busy > Ns::ZERO).then(|| bytes as f64 / busy.as_f64());
        LinkRow {
            communicator: groups.key(group),
            rank,
            peer,
            channel,
            direction: if is_send { "send" } else { "receive" },
            gb_per_s: row.bytes.zip(busy).and_then(bandwidth),
            busy,
            ..row
        }
    };
    rows.into_iter().map(row).collect()
}

/// How long at least one of some spans lasted; `None` if there are none.
fn union(mut spans: Vec<(Ns, Ns)>) -> Option<Ns> {
    spans.sort();
    let mut reached = spans.first()?.0;
    let mut busy = Ns::ZERO;
    for (start, end) in spans {
        busy += (end - start.max(reached)).max(Ns::ZERO);
        reached = reached.max(end);
    }
    Some(busy)
}

/// What each end of a pair says: bytes that the one sent, and bytes that the other received.
type Ends = [Option<u64>; 2];

pub(super) fn pairs(records: &Records, groups: &Groups) -> Vec<PairRow> {
    let mut cells: BTreeMap<(Group, u32, u32, &'static str), Ends> = BTreeMap::new();
    let mut add = |group, (rank, peer): (u32, u32), is_send: bool, by, bytes: u64| {
        let (from, to) = if is_send { (rank, peer) } else { (peer, rank) };
        let end = &mut cells.entry((group, from, to, by)).or_default()[usize::from(!is_send)];
        *end = Some(end.unwrap_or(0).saturating_add(bytes));
    };
    for op in &records.proxy_ops {
        if let (Some((place, peer)), Some(bytes)) = (sides(op), op.bytes) {
            add(groups.of_operation(records, op.operation), (place, peer), op.is_send, "wire", bytes);
        }
    }
    for operation in &records.operations {
        let communicator = records.communicator_of(operation);
        if let Some((rank, peer, is_send, bytes)) = point_to_point(operation, communicator) {
            add(groups.group(operation.communicator), (rank, peer), is_send, "call", bytes);
        }
    }
    // Where both ends recorded, the larger is it: a ring of events may have lost some of one end.
    let row = |((group, from, to, by), ends): ((Group, u32, u32, &'static str), Ends)| {
        let bytes = ends.into_iter().flatten().max().unwrap_or(0);
        PairRow { communicator: groups.key(group), from, to, bytes, by }
    };
    cells.into_iter().map(row).collect()
}

fn sides(op: &ProxyOp) -> Option<(u32, u32)> {
    op.place.zip(u32::try_from(op.peer).ok())
}

/// Rank, peer, whether it sends, and the bytes of a send or receive of NCCL's own records.
fn point_to_point(operation: &Operation, communicator: Option<&Communicator>) -> Option<(u32, u32, bool, u64)> {
    let is_send = match operation.collective.as_deref()? {
        "send" => true,
        "recv" => false,
        _ => return None,
    };
    communicator?;
    Some((rank_of(operation)?, u32::try_from(operation.peer?).ok()?, is_send, operation.bytes?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_steps_are_busy_once() {
        let spans = |spans: &[(i64, i64)]| union(spans.iter().map(|(a, b)| (Ns(*a), Ns(*b))).collect());
        assert_eq!(spans(&[(0, 10), (5, 12), (20, 25), (21, 22)]), Some(Ns(17)));
        assert_eq!((spans(&[]), spans(&[(3, 3)])), (None, Some(Ns::ZERO)));
    }
}
