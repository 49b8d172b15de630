//! Pipelines with microbatches: in which order a stage works, and all stages together.

use std::collections::BTreeMap;

use super::Job;
use super::layout::Layout;
use super::machine::Pending;
use super::program::Phase;
use super::simulation::Together;

/// The microbatches of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Microbatches {
    pub(crate) count: u32,
    pub(crate) order: Order,
    /// How long a microbatch takes forward on a stage; back it takes twice as long.
    pub(crate) forward_ns: i64,
}

/// In which order a stage works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// All forward, then all back.
    Sweep,
    /// One forward, one back.
    InTurn,
    /// The same, with so many parts of the model on each stage. The number of microbatches is a multiple of that of stages, which are more than two.
    Interleaved { chunks: u32 },
    /// As in turn, but what is sent back is computed first, and the gradients of weights after that.
    ZeroBubble,
}

/// What a stage does with a microbatch: in this part of the model, or for its weights.
#[derive(Clone, Copy)]
enum Work {
    Forward(u32),
    Back(u32),
    Weights,
}

impl Microbatches {
    fn chunks(self) -> u32 {
        if let Order::Interleaved { chunks } = self.order { chunks } else { 1 }
    }

    fn work(self, stage: u32, stages: u32) -> Vec<Work> {
        let (chunks, all) = (self.chunks(), self.count * self.chunks());
        let ahead = match self.order {
            Order::Sweep => all,
            Order::InTurn | Order::ZeroBubble => stages - 1 - stage,
            Order::Interleaved { .. } => (stages - 1 - stage) * 2 + (chunks - 1) * stages,
        };
        let ahead = ahead.min(all);
        let chunk = |number: u32| number / stages % chunks;
        let mut found: Vec<Work> = (0..ahead).map(|number| Work::Forward(chunk(number))).collect();
        for number in 0..all {
            found.extend((ahead + number < all).then(|| Work::Forward(chunk(ahead + number))));
            found.push(Work::Back(chunks - 1 - chunk(number)));
            found.extend((self.order == Order::ZeroBubble).then_some(Work::Weights));
        }
        found
    }

    /// The phases of a stage in a step, up to the last microbatch.
    pub(super) fn phases(self, stage: u32, stages: u32) -> Vec<Phase> {
        let (last, chunks) = (stages - 1, self.chunks());
        let (after, before) = ((stage + 1) % stages, (stage + last) % stages);
        let mut found = Vec::new();
        for work in self.work(stage, stages) {
            let (is_forward, from, to) = match work {
                Work::Forward(chunk) => (
                    true,
                    (stage > 0 || chunk > 0).then_some(before),
                    (stage < last || chunk + 1 < chunks).then_some(after),
                ),
                Work::Back(chunk) => (
                    false,
                    (stage < last || chunk + 1 < chunks).then_some(after),
                    (stage > 0 || chunk > 0).then_some(before),
                ),
                Work::Weights => (false, None, None),
            };
            let ns = match work {
                Work::Back(_) if self.order != Order::ZeroBubble => 2 * self.forward_ns,
                _ => self.forward_ns,
            };
            found.extend(from.map(|stage| Phase::Take { stage, is_forward }));
            found.push(Phase::Microbatch { is_forward, ns: ns / i64::from(chunks) });
            found.extend(to.map(|stage| Phase::Give { stage, is_forward }));
        }
        found
    }
}

/// The phases of a rank in a step.
pub(super) fn phases(job: &Job, layout: &Layout, rank: u32, of: Microbatches) -> Vec<Phase> {
    let work = of.phases(layout.stage(rank), job.pp);
    let ends = [Phase::Norm, Phase::Reduce, Phase::Gather, Phase::End];
    [Phase::Begin].into_iter().chain(work).chain(ends).collect()
}

/// What waits for its other members.
#[derive(Default)]
struct Waiting {
    /// By sender and receiver: what was sent, or what is to be received.
    sent: BTreeMap<(u32, u32), (bool, Pending)>,
    received: BTreeMap<(u32, u32), Pending>,
    members: BTreeMap<usize, Vec<(u32, Pending)>>,
}

impl Together<'_> {
    /// Runs a step in which each rank goes on as far as it can. A rank waits for what it receives, and for the other members of a collective; what it has
    /// sent may be on its way while it goes on, until it sends the next one in that direction.
    pub(super) fn run_pipeline(&mut self, lists: &[Vec<Phase>], step: u32) {
        let mut waiting = Waiting::default();
        let (mut at, mut is_blocked) = (vec![0; lists.len()], vec![false; lists.len()]);
        loop {
            let before = at.clone();
            for rank in 0..lists.len() {
                while !is_blocked[rank]
                    && let Some(phase) = lists[rank].get(at[rank])
                    && self.may_run(&waiting, rank as u32, *phase)
                {
                    at[rank] += 1;
                    self.run_one(&mut waiting, &mut is_blocked, rank as u32, *phase, step);
                }
            }
            if at == before {
                assert!(at.iter().zip(lists).all(|(at, list)| *at == list.len()), "no stage waits for ever");
                return;
            }
        }
    }

    fn may_run(&self, waiting: &Waiting, rank: u32, phase: Phase) -> bool {
        let mut sent = waiting.sent.iter().filter(|((from, _), _)| *from == rank);
        match phase {
            Phase::Give { is_forward, .. } => !sent.any(|(_, (of, _))| *of == is_forward),
            Phase::Take { .. } | Phase::Microbatch { .. } => true,
            _ => sent.next().is_none(),
        }
    }

    fn run_one(&mut self, waiting: &mut Waiting, is_blocked: &mut [bool], rank: u32, phase: Phase, step: u32) {
        let Some(pending) = self.begin(rank, phase, step) else { return };
        let (sent, received) = match phase {
            Phase::Give { stage, is_forward } => {
                let link = (rank, self.layout.in_stage(rank, stage));
                let Some(received) = waiting.received.remove(&link) else {
                    waiting.sent.insert(link, (is_forward, pending));
                    return;
                };
                is_blocked[link.1 as usize] = false;
                ((rank, pending), (link.1, received))
            }
            Phase::Take { stage, .. } => {
                let link = (self.layout.in_stage(rank, stage), rank);
                let Some((_, sent)) = waiting.sent.remove(&link) else {
                    waiting.received.insert(link, pending);
                    is_blocked[rank as usize] = true;
                    return;
                };
                ((link.0, sent), (rank, pending))
            }
            _ => {
                let group = pending.comm.group;
                let members = waiting.members.entry(group).or_default();
                members.push((rank, pending));
                is_blocked[rank as usize] = true;
                if members.len() == self.layout.groups[group].ranks.len() {
                    let members = std::mem::take(members);
                    members.iter().for_each(|(rank, _)| is_blocked[*rank as usize] = false);
                    self.finish(members, true);
                }
                return;
            }
        };
        self.finish(vec![sent, received], false);
    }
}
