//! What the stages of a pipeline compute: forward or back, and for which microbatch.
//!
//! PyTorch runs the backward pass on a thread of its own, so that the thread that launches a kernel shows its direction; what is sent in a direction then
//! comes after work of that direction. The microbatch is the number of what the rank has sent in that direction before. Where it sends nothing, all microbatches
//! have equally many kernels.

use std::collections::BTreeMap;

use super::messages::{Own, Ranks, Step};
use crate::attribution::busy::Busy;
use crate::replay::rank::{EdgeKind, NodeKind};
use crate::time::{Ns, Window};

/// The gradients of weights come after what is sent back if at least this share of a microbatch's backward pass is still to do after the last message: they
/// are about a half of it. In recorded schedules it is 1.6 and 1.7 of one, in simulated ones 0.5, and in seven recorded ones without that 0.
const WEIGHTS: f64 = 0.25;

/// What a rank computes for a microbatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// A position in the ranks.
    pub rank: usize,
    pub is_forward: bool,
    /// Its microbatch, from 0; `None` if that is not known.
    pub microbatch: Option<u32>,
    /// From its first start to its last end, on the rank's own clock.
    pub window: Window,
}

/// A kernel, copy or fill.
#[derive(Clone, Copy)]
struct Work {
    thread: u32,
    /// When it starts on the job's clock.
    at: Ns,
    window: Window,
}

/// By step, what a rank computes, in the order of starts; and the thread of the forward pass, which launches what comes first.
fn work(compared: Ranks<'_>, rank: usize) -> Option<(u32, BTreeMap<Step, Vec<Work>>)> {
    let graph = &compared.job.reductions[rank].graph;
    let mut steps: BTreeMap<Step, Vec<Work>> = BTreeMap::new();
    for (node, edges) in graph.nodes.iter().zip(graph.edges.iter()).filter(|(node, _)| node.kind == NodeKind::Slice) {
        let Some(launch) = edges.iter().find(|edge| edge.kind == EdgeKind::Launch) else { continue };
        let (thread, at) = (graph.nodes[launch.from as usize].lane, compared.clocks.ranks[rank].aligned(node.start));
        let work = Work { thread, at, window: Window { start: node.start, end: node.end } };
        steps.entry(compared.step(rank, node.step.get())).or_default().push(work);
    }
    let mut first: BTreeMap<u32, usize> = BTreeMap::new();
    for work in steps.values_mut() {
        work.sort_by_key(|work| work.at);
        *first.entry(work[0].thread).or_default() += 1;
    }
    let forward = first.into_iter().max_by_key(|(_, steps)| *steps)?.0;
    Some((forward, steps))
}

/// What the ranks of a pipeline compute.
pub(super) struct Computed {
    /// By stage: how long back and forward, over its ranks.
    pub(super) stages: Vec<[Ns; 2]>,
    pub(super) pieces: Vec<Piece>,
    /// Whether the gradients of weights come after what is sent back.
    pub(super) weights_later: bool,
}

impl Computed {
    /// Finds it; `None` unless all ranks show it. `parts` is how many parts of the model each stage has, and how many microbatches go through all of these
    /// in a step.
    pub(super) fn find(
        compared: Ranks<'_>,
        stage_of: &BTreeMap<usize, usize>,
        own: &BTreeMap<(usize, Step), Own>,
        parts: Option<(usize, usize)>,
    ) -> Option<Self> {
        let last = stage_of.values().max().copied()?;
        own.values().find(|own| !own.sends[0].is_empty())?;
        let all = parts.map(|(_, all)| all);
        let (mut stages, mut pieces) = (vec![[Ns::ZERO; 2]; last + 1], Vec::new());
        // How much of the last stage's backward pass comes after what is sent back last.
        let mut after = Ns::ZERO;
        for (rank, stage) in stage_of {
            let (forward, mut steps) = work(compared, *rank)?;
            steps.retain(|step, _| own.contains_key(&(*rank, *step)));
            let sends = || steps.iter().flat_map(|(step, work)| sent_after(work, forward, &own[&(*rank, *step)]));
            if 2 * sends().filter(|is_after_work| *is_after_work).count() <= sends().count() {
                return None;
            }
            for (step, mut work) in steps {
                let own = &own[&(*rank, step)];
                // What follows the last microbatch is the optimizer's.
                let until = own.events.last().copied().unwrap_or(Ns::MAX);
                work.retain(|work| work.thread != forward || work.at < until);
                let back = |from: Ns| length(&work, |work| work.thread != forward && work.at >= from);
                stages[*stage][0] += back(Ns::MIN);
                stages[*stage][1] += length(&work, |work| work.thread == forward);
                after += own.sends[0].last().filter(|_| *stage == last).map_or(Ns::ZERO, |sent| back(*sent));
                pieces.extend(split(*rank, forward, &work, own, all));
            }
        }
        let share = after.share_of(stages[last][0]).unwrap_or_default() * all.unwrap_or(1) as f64;
        let weights_later = share >= WEIGHTS;
        for piece in &mut pieces {
            // What comes after a message may belong to one before.
            let number = piece.microbatch.filter(|_| piece.is_forward || !weights_later).zip(parts);
            piece.microbatch = number.and_then(|(number, parts)| microbatch(number as usize, last + 1, parts));
        }
        Some(Computed { stages, pieces, weights_later })
    }
}

/// By message that a rank sends in a step: whether work of its direction has come since it last sent one in that direction.
fn sent_after(work: &[Work], forward: u32, own: &Own) -> Vec<bool> {
    let of_direction = |(is_forward, sends): (usize, &Vec<Ns>)| {
        let own = work.iter().filter(move |work| usize::from(work.thread == forward) == is_forward);
        let starts: Vec<Ns> = own.map(|work| work.at).collect();
        let before = |sent: &Ns| starts.partition_point(|at| at < sent);
        let mut last = 0;
        let is_after = |sent: &Ns| std::mem::replace(&mut last, before(sent)) < before(sent);
        sends.iter().map(is_after).collect::<Vec<bool>>()
    };
    own.sends.iter().enumerate().flat_map(of_direction).collect()
}

fn length(work: &[Work], is_meant: impl Fn(&&Work) -> bool) -> Ns {
    let busy = Busy::from_spans(work.iter().filter(is_meant).map(|work| (work.at, work.window.duration())));
    busy.within(Ns::MIN, Ns::MAX)
}

/// The microbatch of the so manieth piece of a rank: of a model in several parts, as many go through one part as there are stages, then they go through the
/// next one.
fn microbatch(number: usize, stages: usize, (chunks, all): (usize, usize)) -> Option<u32> {
    let is_even = chunks == 1 || all.is_multiple_of(stages * chunks);
    is_even.then_some((number / (stages * chunks) * stages + number % stages) as u32)
}

/// The work of a rank in a step, by direction and number among those of its direction.
fn split(rank: usize, forward: u32, work: &[Work], own: &Own, parts: Option<usize>) -> Vec<Piece> {
    let mut seen = [0, 0];
    let count = |is_forward: bool| work.iter().filter(|work| (work.thread == forward) == is_forward).count();
    let counts = [false, true].map(count);
    let mut found: Vec<Piece> = Vec::new();
    let mut key = None;
    for Work { thread, at, window } in work {
        let is_forward = *thread == forward;
        let (sends, seen) = (&own.sends[usize::from(is_forward)], &mut seen[usize::from(is_forward)]);
        let number = parts.and_then(|parts| match counts[usize::from(is_forward)] {
            _ if sends.len() == parts => Some(sends.partition_point(|sent| sent <= at)),
            count if parts > 0 && count % parts == 0 => Some(*seen / (count / parts)),
            _ => None,
        });
        *seen += 1;
        let number = number.filter(|number| Some(*number) < parts).map(|number| number as u32);
        let events = if number.is_none() { own.events.partition_point(|event| event <= at) } else { 0 };
        match found.last_mut() {
            Some(last) if key == Some((is_forward, number, events)) => last.window = last.window.around(*window),
            _ => found.push(Piece { rank, is_forward, microbatch: number, window: *window }),
        }
        key = Some((is_forward, number, events));
    }
    found
}
