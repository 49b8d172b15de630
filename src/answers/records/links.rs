//! Links: what each channel of a rank sent to and received from each peer, how long that kept it busy, and how many bytes went from rank to rank.
//!
//! A link is busy while at least one of its steps is in flight. If steps are not recorded, or a step has no end (NCCL leaves some open with sockets),
//! the time from start to end of the proxy operation counts. Bytes are those on the wire: with protocol LL half of them are flags, with LL128 one in
//! sixteen.

use std::collections::BTreeMap;

use serde::Serialize;

use super::steady::Steady;
use crate::operations::communicators::Communicators;
use crate::records::Records;
use crate::time::Ns;

/// A channel between a rank and a peer, in one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LinkRow {
    /// The communicator: its description and ranks, or NCCL's hash.
    pub communicator: Option<String>,
    /// The rank within the communicator that recorded it.
    pub rank: Option<u32>,
    /// The peer, a rank within the communicator.
    pub peer: i64,
    /// The channel.
    pub channel: u32,
    /// Whether the rank sends or receives.
    #[cfg_attr(test, schemars(extend("enum" = ["send", "receive"])))]
    pub direction: &'static str,
    /// The number of proxy operations.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub operations: u64,
    /// The bytes on the wire; `None` if no operation has them.
    pub bytes: Option<u64>,
    /// How long at least one step was in flight; `None` if times are unknown.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub busy_ns: Option<Ns>,
    /// Bytes divided by time, in GB/s (10^9 bytes), over operations for which both are known; `None` if there are none.
    pub gb_per_s: Option<f64>,
    /// The bandwidths of single operations, in GB/s.
    #[serde(skip)]
    pub each: Option<Steady>,
    /// The mean size of these operations in bytes.
    #[serde(skip)]
    pub mean_bytes: u64,
}

/// The bytes sent from one rank to another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PairRow {
    /// The communicator: its description and ranks, or NCCL's hash.
    pub communicator: Option<String>,
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives.
    pub to: u32,
    /// The number of bytes.
    pub bytes: u64,
    /// Where this comes from: `wire` for bytes moved by proxies, `call` for the sizes of sends and receives.
    #[cfg_attr(test, schemars(extend("enum" = ["wire", "call"])))]
    pub by: &'static str,
}

type Link = (Option<usize>, Option<u32>, i64, u32, bool);

#[derive(Default)]
struct Moved {
    row: LinkRow,
    /// When its steps were in flight: those of completely recorded operations, and others.
    spans: [Vec<(Ns, Ns)>; 2],
    /// The bytes of completely recorded operations. The others took an unknown time.
    bytes: u64,
    /// The bandwidths of these.
    each: Vec<f64>,
}

pub(super) fn rows(records: &Records, communicators: &Communicators) -> Vec<LinkRow> {
    let mut rows: BTreeMap<Link, Moved> = BTreeMap::new();
    // By proxy operation: the spans of its steps, and whether any step lacks one.
    let mut of_steps: Vec<(Vec<(Ns, Ns)>, bool)> = vec![(Vec::new(), false); records.proxy_ops.len()];
    for step in &records.proxy_steps {
        let Some((spans, lacks)) = of_steps.get_mut(step.proxy_op) else { continue };
        match step.start.zip(step.end) {
            Some(span) => spans.push(span),
            None => *lacks = true,
        }
    }
    for (op, (mut spans, lacks)) in records.proxy_ops.iter().zip(of_steps) {
        let key = (communicators.of_row(records, op.operation), op.place, op.peer, op.channel, op.is_send);
        let Moved { row, spans: of_link, bytes, each } = rows.entry(key).or_default();
        row.operations += 1;
        if let Some(bytes) = op.bytes {
            row.bytes = Some(row.bytes.unwrap_or(0).saturating_add(bytes));
        }
        let whole = op.start.zip(op.end);
        spans.extend(whole.filter(|_| lacks || spans.is_empty()));
        let is_whole = op.bytes.is_some() && !spans.is_empty() && (!lacks || whole.is_some());
        if is_whole {
            *bytes = bytes.saturating_add(op.bytes.unwrap_or_default());
            let took = union(&mut spans.clone()).filter(|took| *took > Ns::ZERO);
            each.extend(took.map(|took| op.bytes.unwrap_or_default() as f64 / took.as_f64()));
        }
        of_link[usize::from(!is_whole)].extend(spans);
    }
    let row = |((group, rank, peer, channel, is_send), moved): (Link, Moved)| {
        let Moved { row, spans: [mut spans, others], bytes, each } = moved;
        let mean_bytes = bytes.checked_div(each.len() as u64).unwrap_or(0);
        let timed = union(&mut spans).filter(|timed| *timed > Ns::ZERO);
        spans.extend(others);
        LinkRow {
            communicator: communicators.title(group),
            rank,
            peer,
            channel,
            direction: if is_send { "send" } else { "receive" },
            gb_per_s: timed.map(|timed| bytes as f64 / timed.as_f64()),
            busy_ns: union(&mut spans),
            each: Steady::find(each),
            mean_bytes,
            ..row
        }
    };
    rows.into_iter().map(row).collect()
}

/// How long at least one of these spans lasted; `None` if there are none.
fn union(spans: &mut [(Ns, Ns)]) -> Option<Ns> {
    spans.sort();
    let mut reached = spans.first()?.0;
    let mut busy = Ns::ZERO;
    for (start, end) in spans {
        busy += (*end - reached.max(*start)).max(Ns::ZERO);
        reached = reached.max(*end);
    }
    Some(busy)
}

/// The two ends of a pair: the bytes that one rank sent, and the bytes that the other received.
type Ends = [Option<u64>; 2];

pub(super) fn pairs(records: &Records, communicators: &Communicators) -> Vec<PairRow> {
    let mut cells: BTreeMap<(Option<usize>, u32, u32, &'static str), Ends> = BTreeMap::new();
    let mut add = |group, (rank, peer): (u32, u32), is_send: bool, by, bytes: u64| {
        let (from, to) = if is_send { (rank, peer) } else { (peer, rank) };
        let end = &mut cells.entry((group, from, to, by)).or_default()[usize::from(!is_send)];
        *end = Some(end.unwrap_or(0).saturating_add(bytes));
    };
    for op in &records.proxy_ops {
        if let (Some(place), Ok(peer), Some(bytes)) = (op.place, u32::try_from(op.peer), op.bytes) {
            add(communicators.of_row(records, op.operation), (place, peer), op.is_send, "wire", bytes);
        }
    }
    for operation in &records.operations {
        let is_send = match operation.collective.as_deref() {
            Some("send") => true,
            Some("recv") => false,
            _ => continue,
        };
        let peer = operation.peer.and_then(|peer| u32::try_from(peer).ok());
        if let (Some(group), Some(rank), Some(peer), Some(bytes)) =
            (communicators.of_operation(operation), operation.place_or_rank(), peer, operation.bytes)
        {
            add(Some(group), (rank, peer), is_send, "call", bytes);
        }
    }
    // If both ends recorded, the larger value counts: a ring buffer may have lost events of one end.
    let row = |((group, from, to, by), ends): ((Option<usize>, u32, u32, &'static str), Ends)| {
        let bytes = ends.into_iter().flatten().max().unwrap_or(0);
        PairRow { communicator: communicators.title(group), from, to, bytes, by }
    };
    cells.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{ProxyOp, ProxyStep};

    #[test]
    fn overlapping_steps_are_busy_once() {
        let spans = |spans: &[(i64, i64)]| {
            let mut spans: Vec<(Ns, Ns)> = spans.iter().map(|(a, b)| (Ns(*a), Ns(*b))).collect();
            union(&mut spans)
        };
        assert_eq!(spans(&[(0, 10), (5, 12), (20, 25), (21, 22)]), Some(Ns(17)));
        assert_eq!((spans(&[]), spans(&[(3, 3)])), (None, Some(Ns::ZERO)));
    }
    /// Operations without an end add to a link's bytes but not to its bandwidth.
    #[test]
    fn a_bandwidth_is_of_what_has_both_bytes_and_time() {
        let op = |bytes, end| ProxyOp { bytes, start: Some(Ns(0)), end, ..ProxyOp::default() };
        let step = |proxy_op, start, end: Option<i64>| ProxyStep {
            proxy_op,
            start: Some(Ns(start)),
            end: end.map(Ns),
            ..ProxyStep::default()
        };
        let found = |proxy_ops: Vec<ProxyOp>, proxy_steps: Vec<ProxyStep>| {
            let mut records = Records::default();
            (records.proxy_ops, records.proxy_steps) = (proxy_ops, proxy_steps);
            let [row] = &rows(&records, &Communicators::find(&records))[..] else { panic!("one link") };
            (row.bytes, row.busy_ns, row.gb_per_s)
        };
        // 100 bytes in 50 ns; 900 in an unknown time.
        let whole = (Some(1_000), Some(Ns(50)), Some(2.0));
        assert_eq!(found(vec![op(Some(100), Some(Ns(50))), op(Some(900), None)], vec![]), whole);
        let busy = (Some(1_000), Some(Ns(70)), Some(2.0));
        let steps = vec![step(0, 0, Some(50)), step(1, 60, Some(80)), step(1, 80, None)];
        assert_eq!(found(vec![op(Some(100), None), op(Some(900), None)], steps), busy);
        // An operation with an end that has a step without one.
        let steps = vec![step(0, 0, Some(10)), step(0, 10, None)];
        assert_eq!(found(vec![op(Some(100), Some(Ns(50)))], steps), (Some(100), Some(Ns(50)), Some(2.0)));
        assert_eq!(found(vec![op(None, Some(Ns(50)))], vec![]), (None, Some(Ns(50)), None));
    }
}
