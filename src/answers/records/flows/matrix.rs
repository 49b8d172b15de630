//! How much each rank sends to each other rank.

use std::collections::BTreeMap;

use super::{FlowRunReport, Link};
use crate::records::flow::runs::Plan;
use crate::records::flow::stages::Ops;
use crate::records::{FlowOp, FlowStep, Records};

/// Fills the matrix. A step recorded by only one side counts too: the larger side is used.
pub(super) fn links(records: &Records, of_ops: &Ops<'_>, plan: &Plan<'_>, report: &mut FlowRunReport) {
    // By pair of ranks: what one sent, and what the other received.
    let mut sides: BTreeMap<(u32, u32), [Link; 2]> = BTreeMap::new();
    for steps in of_ops.values() {
        let rows = || steps.iter().map(|at| &records.flow_steps[*at]);
        let count = rows().map(|step| step.step.saturating_add(1)).max().unwrap_or_default();
        for step in rows() {
            let Some(bytes) = plan.op(step, count).and_then(|op| payload(op, step)) else {
                report.unsized_steps += 1;
                continue;
            };
            let (from, to) = if step.is_send { (step.rank, step.peer) } else { (step.peer, step.rank) };
            let link = &mut sides.entry((from, to)).or_default()[usize::from(!step.is_send)];
            link.steps += 1;
            link.bytes = link.bytes.saturating_add(bytes);
        }
    }
    let larger = |((from, to), [sent, received]): (_, [Link; 2])| {
        let link = if received.steps > sent.steps { received } else { sent };
        Link { from, to, ..link }
    };
    report.matrix = sides.into_iter().map(larger).collect();
}

/// The most data bytes that a step can hold. The recorded size is that of a slice, which spans several steps and the whole buffer, including flags,
/// even if the chunks are smaller.
fn payload(op: &FlowOp, step: &FlowStep) -> Option<u64> {
    let slice = u64::try_from(op.slice_bytes).ok()?.min(op.chunk_bytes);
    let wire = slice.checked_div(u64::from(op.slice_steps))?;
    match step.protocol.as_deref()? {
        "LL" => Some(wire / 2),
        "LL128" => Some(wire / 16 * 15),
        "SIMPLE" => Some(wire),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_unused_room_are_no_data() {
        let of = |protocol: &str, slice_bytes, chunk_bytes, slice_steps| {
            let op = FlowOp { slice_bytes, chunk_bytes, slice_steps, ..FlowOp::default() };
            payload(&op, &FlowStep { protocol: Some(protocol.into()), ..FlowStep::default() })
        };
        assert_eq!(of("LL", 65_536, 65_536, 1), Some(32_768));
        assert_eq!(of("LL128", 65_536, 65_536, 1), Some(61_440));
        // A ring has two steps per slice; the chunks of a tree are smaller than the buffer.
        assert_eq!(of("SIMPLE", 1 << 20, 2 << 20, 2), Some(1 << 19));
        assert_eq!(of("SIMPLE", 1 << 19, 1 << 18, 1), Some(1 << 18));
        assert_eq!(of("SIMPLE", 1 << 19, 1 << 18, 0), None);
        assert_eq!(of("SIMPLE", -1, 1 << 18, 1), None);
    }
}
