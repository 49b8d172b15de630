//! A rank's graph without what other ranks have not recorded: the steps before the first, and after the last, that all ranks have.
//!
//! A trace that begins or ends a step later than another one has work there that nothing can be compared with, and what it waited for is not known.

use super::places::step_shifts;
use super::rank::{EdgeKind, NO_NODE, NodeKind, RankEdge, RankGraph, RankNode};
use crate::operations::matching::Matches;
use crate::time::{Ns, Window};

/// A stream starts work later than so much after its launch because it is busy: it does at most 10 µs after it if it is idle.
const BUSY: Ns = Ns(50_000);

/// The steps of a rank that all ranks have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Common {
    /// The first of them, by the rank's own numbers, and how many there are.
    pub(crate) first: u32,
    count: u32,
    /// Whether any rank has steps before them, or after them.
    has_before: bool,
    has_after: bool,
}

/// By rank: the steps that all ranks have; `None` if all have the same ones, or some have none.
pub(crate) fn common_steps(ranks: &[&RankGraph], matches: &Matches) -> Option<Vec<Common>> {
    if ranks.len() < 2 || ranks.iter().any(|graph| graph.steps == 0) {
        return None;
    }
    let shifts = step_shifts(ranks, matches);
    let begin = |rank: usize| -shifts[rank];
    let end = |rank: usize| i64::from(ranks[rank].steps) - shifts[rank];
    let first = (0..ranks.len()).map(begin).max()?;
    let last = (0..ranks.len()).map(end).min()?;
    let has_before = (0..ranks.len()).any(|rank| begin(rank) < first);
    let has_after = (0..ranks.len()).any(|rank| end(rank) > last);
    if !has_before && !has_after || first >= last {
        return None;
    }
    let count = u32::try_from(last - first).ok()?;
    let own = |rank: usize| {
        let first = u32::try_from(first + shifts[rank]).ok()?;
        Some(Common { first, count, has_before, has_after })
    };
    (0..ranks.len()).map(own).collect()
}

/// Leaves out what is not of these steps. `steps` are the windows of all of the rank's.
pub(crate) fn trim(graph: &RankGraph, common: Common, steps: &[Window]) -> RankGraph {
    let Common { first, count, has_before, has_after } = common;
    let last = first + count;
    // What is in no step counts where no rank has a further one.
    let begin = steps.get(first as usize).filter(|_| has_before).map_or(Ns::MIN, |step| step.start);
    let ended = || steps.get(last as usize).map(|step| step.start).or(Some(steps.get(last as usize - 1)?.end));
    let end = if has_after { ended().unwrap_or(Ns::MAX) } else { Ns::MAX };
    let window = Window { start: begin, end };
    let is_in = |node: &RankNode| match node.step.get() {
        Some(step) => (first..last).contains(&step),
        None => window.contains(if node.kind.is_cpu() { node.end } else { node.start }),
    };
    let mut keeps: Vec<bool> = graph.nodes.iter().map(is_in).collect();
    // Work is of the step in which it was launched.
    for (at, edges) in graph.edges.iter().enumerate().filter(|(at, _)| !graph.nodes[*at].kind.is_cpu()) {
        if let Some(launch) = edges.iter().find(|edge| edge.kind == EdgeKind::Launch) {
            keeps[at] = keeps[launch.from as usize];
        }
    }
    // What a stream still runs of before is there without its reasons.
    let mut still: Vec<Option<u32>> = Vec::new();
    let mut has_begun: Vec<bool> = Vec::new();
    for (node, at) in graph.nodes.iter().zip(0..).filter(|(node, _)| !node.kind.is_cpu()) {
        let lane = node.lane as usize;
        still.resize(still.len().max(lane + 1), None);
        has_begun.resize(still.len(), false);
        has_begun[lane] |= keeps[at as usize];
        let ends_last = still[lane].is_none_or(|known| graph.nodes[known as usize].end <= node.end);
        if !has_begun[lane] && node.end > begin && ends_last {
            still[lane] = Some(at);
        }
    }
    // A stream that starts its first work later than all that is known allows was busy with what was launched before, and is not recorded.
    let mut first: Vec<Option<u32>> = vec![None; still.len()];
    for (node, at) in graph.nodes.iter().zip(0..).filter(|(node, at)| keeps[*at as usize] && !node.kind.is_cpu()) {
        first[node.lane as usize].get_or_insert(at);
    }
    let was_busy = |at: &u32| {
        let (node, edges) = (graph.nodes[*at as usize], &graph.edges[*at as usize]);
        let known =
            edges.iter().filter(|edge| keeps[edge.from as usize]).map(|edge| graph.nodes[edge.from as usize].end);
        has_before && still[node.lane as usize].is_none() && known.max().is_some_and(|end| node.start > end + BUSY)
    };
    let busy: Vec<u32> = first.iter().flatten().copied().filter(was_busy).collect();
    // Equal on all ranks, whatever it was.
    let place = |lane: u32, known: u64| first[lane as usize].map_or(known, |at| !graph.nodes[at as usize].place);
    let still: Vec<u32> = still.into_iter().flatten().collect();
    still.iter().for_each(|at| keeps[*at as usize] = true);
    let mut number = vec![NO_NODE; graph.nodes.len()];
    let mut found = RankGraph {
        intervals: graph.intervals.clone(),
        texts: graph.texts.clone(),
        annotations: graph.annotations.clone(),
        steps: graph.steps,
        left_out_steps: graph.steps - count,
        profiled_from: graph.profiled_from,
        ..RankGraph::default()
    };
    for at in &busy {
        let node = graph.nodes[*at as usize];
        let (start, end) = (begin.max(node.start - BUSY), node.start);
        let (kind, place) = (NodeKind::Earlier, place(node.lane, node.place));
        found.nodes.push(RankNode { kind, start, end, place, step: None.into(), ..node });
        found.slices.extend((!graph.slices.is_empty()).then_some(None));
        found.edges.push([]);
    }
    for at in (0..graph.nodes.len()).filter(|at| keeps[*at]) {
        number[at] = found.nodes.len() as u32;
        let mut node = graph.nodes[at];
        if still.contains(&(at as u32)) {
            node.place = place(node.lane, node.place);
            (node.kind, node.start, node.step) = (NodeKind::Earlier, node.start.max(begin).min(node.end), None.into());
        }
        found.nodes.push(node);
        found.slices.extend(graph.slices.get(at).copied());
    }
    for at in (0..graph.nodes.len()).filter(|at| keeps[*at]) {
        let node = &mut found.nodes[number[at] as usize];
        let is_known = |edge: &&RankEdge| number[edge.from as usize] != NO_NODE && node.kind != NodeKind::Earlier;
        let edges = graph.edges[at].iter().filter(is_known);
        let edges = edges.map(|edge| RankEdge { from: number[edge.from as usize], kind: edge.kind });
        let earlier = busy.iter().position(|of| *of as usize == at).map(|from| from as u32);
        let earlier = earlier.map(|from| RankEdge { from, kind: EdgeKind::Stream });
        found.edges.push(edges.chain(earlier));
        // A thread begins with the step.
        let before = graph.edges[at].iter().find(|edge| edge.kind == EdgeKind::Thread);
        if before.is_some_and(|edge| number[edge.from as usize] == NO_NODE) {
            let before = before.map_or(node.start, |edge| graph.nodes[edge.from as usize].end);
            node.start = node.start.min(before.max(begin));
        }
    }
    found
}
