//! Runs a job twice. First all ranks run together, because the end of each collective depends on its last member; only these ends are kept. Then
//! each rank runs alone with these ends, and its events are recorded. So never more than one rank's events are in memory.

use std::collections::BTreeMap;

use super::events::Event;
use super::layout::Layout;
use super::machine::Pending;
use super::path::{Moments, PathTime, critical_path};
use super::program::{Phase, Program};
use super::rng::Rng;
use super::truth::{Totals, count};
use super::{Job, pipeline};

/// How much later than the earliest possible moment a rank's kernel ends.
const SKEW: i64 = 1_000;

/// A communication of a rank.
pub(super) struct Done {
    end: i64,
    pub(super) collective: &'static str,
    pub(super) group: usize,
    pub(super) seq: u32,
    pub(super) is_collective: bool,
    /// Whether it is missing from all traces.
    pub(super) is_lost: bool,
}

/// The result of the first run.
pub(super) struct Outcome {
    /// By rank, in order.
    pub(super) done: Vec<Vec<Done>>,
    pub(super) totals: Vec<Totals>,
    pub(super) path: Vec<PathTime>,
    /// From the first to the last event of all traces, which the second run gives.
    pub(super) length_ns: i64,
}

/// All ranks together.
pub(super) struct Together<'a> {
    pub(super) layout: &'a Layout,
    programs: Vec<Program<'a>>,
    /// By rank: sends that were not received yet.
    sent: Vec<Option<Pending>>,
    rng: Rng,
    outcome: Outcome,
}

/// The first run.
pub(super) fn simulate(job: &Job, layout: &Layout) -> Outcome {
    let ranks = layout.ranks();
    let done = (0..ranks).map(|_| Vec::new()).collect();
    let mut together = Together {
        layout,
        programs: (0..ranks).map(|rank| Program::new(job, layout, rank, false)).collect(),
        sent: (0..ranks).map(|_| None).collect(),
        rng: Rng::new(job.seed, 1),
        outcome: Outcome { done, totals: Totals::of_all(layout), path: Vec::new(), length_ns: 0 },
    };
    if let Some(of) = job.microbatches {
        let lists: Vec<Vec<Phase>> = (0..ranks).map(|rank| pipeline::phases(job, layout, rank, of)).collect();
        (0..job.steps).for_each(|step| together.run_pipeline(&lists, step));
    }
    let (before, after) = Program::phases(job);
    for step in (0..job.steps).filter(|_| job.microbatches.is_none()) {
        // A send ends when the next stage receives, so all stages reach this point before any goes on.
        for phases in [&before, &after] {
            for stage in 0..layout.stages() {
                phases.iter().for_each(|&phase| together.run(stage, phase, step));
            }
        }
    }
    let moments: Vec<&Moments> = together.programs.iter().filter_map(|program| program.moments()).collect();
    together.outcome.path = critical_path(&moments);
    together.outcome
}

impl Together<'_> {
    /// Runs a phase on all ranks of a stage.
    fn run(&mut self, stage: u32, phase: Phase, step: u32) {
        let mut groups: BTreeMap<usize, Vec<(u32, Pending)>> = BTreeMap::new();
        for rank in (0..self.layout.ranks()).filter(|&rank| self.layout.stage(rank) == stage) {
            let Some(pending) = self.begin(rank, phase, step) else { continue };
            match phase {
                Phase::Send => self.sent[rank as usize] = Some(pending),
                Phase::Receive => {
                    let sender = self.layout.previous(rank).unwrap_or_default();
                    let sent = self.sent[sender as usize].take();
                    let pair = sent.map(|sent| (sender, sent)).into_iter().chain([(rank, pending)]).collect();
                    self.finish(pair, false);
                }
                _ => groups.entry(pending.comm.group).or_default().push((rank, pending)),
            }
        }
        groups.into_values().for_each(|members| self.finish(members, true));
    }

    /// Runs a phase on a rank, up to the communication at its end.
    pub(super) fn begin(&mut self, rank: u32, phase: Phase, step: u32) -> Option<Pending> {
        let mut pending = self.programs[rank as usize].run(phase, step)?;
        let (done, comm) = (&mut self.outcome.done[rank as usize], pending.comm);
        let is_collective = comm.peer.is_none();
        let (collective, group, seq) = (comm.collective, comm.group, comm.seq);
        done.push(Done { end: 0, collective, group, seq, is_collective, is_lost: false });
        pending.number = done.len() - 1;
        Some(pending)
    }

    /// Ends a communication of which all members have started.
    pub(super) fn finish(&mut self, members: Vec<(u32, Pending)>, is_collective: bool) {
        let starts: Vec<(u32, i64)> = members.iter().map(|(rank, pending)| (*rank, pending.start)).collect();
        let last = starts.iter().map(|(_, start)| *start).max().unwrap_or_default();
        let after =
            members.iter().map(|(_, pending)| pending).find(|pending| pending.start == last).and_then(|of| of.moment);
        count(&mut self.outcome.totals, &starts, is_collective);
        for (rank, pending) in members {
            let end = last + pending.transfer + self.rng.up_to(SKEW);
            self.programs[rank as usize].machine().complete(&pending, (end, after), false);
            self.outcome.done[rank as usize][pending.number].end = end;
        }
    }
}

impl Outcome {
    /// Marks some collectives of ranks with a trace as lost.
    pub(super) fn lose(&mut self, job: &Job) {
        let mut rng = Rng::new(job.seed, 2);
        let has_trace = |rank: &usize| !job.missing.contains(&(*rank as u32));
        let mut candidates: Vec<(usize, usize)> = (0..self.done.len())
            .filter(has_trace)
            .flat_map(|rank| self.done[rank].iter().enumerate().map(move |(index, done)| (rank, index, done)))
            .filter(|(_, _, done)| done.is_collective)
            .map(|(rank, index, _)| (rank, index))
            .collect();
        for _ in 0..(job.lose as usize).min(candidates.len()) {
            let (rank, index) = candidates.swap_remove(rng.index(candidates.len()));
            self.done[rank][index].is_lost = true;
        }
    }
}

/// The second run of one rank.
pub(super) fn record<'a>(job: &'a Job, layout: &'a Layout, rank: u32, done: &[Done]) -> Vec<Event<'a>> {
    let mut program = Program::new(job, layout, rank, true);
    let mut done = done.iter();
    let (before, after) = Program::phases(job);
    let whole = before.into_iter().chain(after).collect();
    let phases = job.microbatches.map_or(whole, |of| pipeline::phases(job, layout, rank, of));
    for step in 0..job.steps {
        for &phase in &phases {
            if let Some(pending) = program.run(phase, step)
                && let Some(done) = done.next()
            {
                program.machine().complete(&pending, (done.end, None), done.is_lost);
            }
        }
    }
    program.into_machine().events()
}
