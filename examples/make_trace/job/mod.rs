//! Simulates a distributed job and writes Kineto's recording of it: one trace per rank, and the truth, which real traces never come with. So tests
//! can compare conclusions from the traces about clocks, late ranks and lost kernels with the truth.
//!
//! This folder depends on nothing outside but serde, so that tests can include it with `#[path]`. The same job gives the same bytes.

#![allow(dead_code, reason = "each program that includes this uses a part of it")]

mod clock;
mod events;
mod layout;
mod machine;
mod model;
mod path;
mod pipeline;
mod program;
mod records;
mod rng;
mod simulation;
mod text;
mod truth;

use serde::Serialize;

use clock::Clock;
use events::{Event, Name};
use layout::Layout;
use machine::Moment;
use simulation::{Done, simulate};

pub(crate) use model::KERNELS;
#[allow(unused_imports, reason = "each program that includes this uses a part of it")]
pub(crate) use path::PathTime;
#[allow(unused_imports, reason = "each program that includes this uses a part of it")]
pub(crate) use pipeline::{Microbatches, Order};
#[allow(unused_imports, reason = "each program that includes this uses a part of it")]
pub(crate) use records::{Inspector, Megatrace, RankRecords, RecordFile, RecordTruth, Recorder, Recording};
#[allow(unused_imports, reason = "each program that includes this uses a part of it")]
pub(crate) use truth::{Lost, RankTruth, Totals, Truth};

/// A job to simulate. Rank `(d * pp + p) * tp + t` is in data-parallel replica `d`, pipeline stage `p` and tensor-parallel place `t`.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) tp: u32,
    pub(crate) pp: u32,
    pub(crate) dp: u32,
    /// Experts are spread over so many data-parallel replicas, a divisor of their number; with 1 there are none.
    pub(crate) ep: u32,
    pub(crate) steps: u32,
    /// Layers per stage.
    pub(crate) layers: u32,
    pub(crate) seed: u64,
    /// The largest random extra time of a piece of CPU or GPU work.
    pub(crate) jitter_ns: i64,
    pub(crate) offsets: Offsets,
    /// The ranks are divided among so many hosts in order, each with one clock that its GPUs follow to a microsecond; with 0 each rank has its own.
    pub(crate) hosts: u32,
    /// The largest deviation of a clock's speed: 20 means 20 µs per second.
    pub(crate) drift_ppm: f64,
    /// The approximate length of the job, including idle time between steps. It cannot be shorter than the work.
    pub(crate) length_ns: i64,
    pub(crate) late: Option<Late>,
    /// Further ranks that are late, each once.
    pub(crate) also_late: Vec<Late>,
    /// How many kernels of collectives ran but are in no trace.
    pub(crate) lose: u32,
    /// The ranks without a trace.
    pub(crate) missing: Vec<u32>,
    /// The rank whose trace ends early, and after which share of the job.
    pub(crate) cut: Option<(u32, f64)>,
    /// Whether each step is one replay of a CUDA graph.
    pub(crate) graphs: bool,
    /// Whether a part of each layer, its collective included, is a replay of a small graph.
    pub(crate) pieces: bool,
    /// Whether the traces have Python functions.
    pub(crate) stacks: bool,
    /// Whether each step also has a small all-reduce of 512 bytes.
    pub(crate) small: bool,
    /// Whether the traces name process groups, and the kernels and records have the arguments of their collectives.
    pub(crate) arguments: bool,
    /// The microbatches of a step; without them each stage works once in a step, and only forward.
    pub(crate) microbatches: Option<Microbatches>,
    /// How each step waits for the GPU: only at its end, after the optimizer and then the scheduler of its learning rate. Without this, the loss is read before
    /// the optimizer, and at the end nothing but the optimizer is waited for.
    pub(crate) sync: Option<StepSync>,
    /// The ranks whose traces lack a step of several, and which.
    pub(crate) lacks: Vec<(u32, Part)>,
    /// Whether the truth has the critical path, which takes memory for each moment.
    pub(crate) path: bool,
}

/// How a step waits for the GPU at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepSync {
    /// For the stream of its kernels.
    Stream,
    /// For all streams.
    Device,
    /// For an event that is recorded after the last kernel.
    Event,
    /// A number is read, into pageable memory: the call of the copy waits, and then one for the stream finds nothing to wait for.
    Item,
    /// The same into pinned memory: the call of the copy returns at once, and the one for the stream waits.
    PinnedItem,
}

/// A step that a trace lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The trace begins when the second step does.
    FirstStep,
    /// It ends before the last step begins.
    LastStep,
}

/// The constant offsets of the clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Offsets {
    None,
    /// Up to this much fast or slow.
    Random {
        max_ns: i64,
    },
}

/// The cause of a late rank.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Late {
    pub(crate) rank: u32,
    pub(crate) extra_ns: i64,
    pub(crate) how: How,
    /// For a function or kernel: which of its calls take the extra time.
    pub(crate) when: When,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    /// A Python function itself takes the extra time, at its beginning. A function that the program does not have is added: in each layer, or in each
    /// step if that suits `when` better, or if a graph is replayed.
    Cpu { function: String },
    /// A compute kernel takes the extra time: one of [`KERNELS`].
    Gpu { kernel: String },
    /// All CPU work takes longer by this factor.
    SlowCpu { factor: f64 },
    /// The CPU waits for its GPU, at the beginning of each layer.
    Sync,
    /// The rank starts later by the extra time, with nothing recorded until then.
    Lag,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum When {
    /// Once per step; for layers' work, in the first layer.
    EveryStep,
    /// In each layer for layers' work, otherwise in each step.
    EveryLayer,
    /// As [`Self::EveryStep`], but only in this step.
    Once { step: u32 },
}

impl When {
    fn is_due(self, Moment { step, layer }: Moment) -> bool {
        let is_first = layer.is_none_or(|layer| layer == 0);
        match self {
            Self::EveryLayer => true,
            Self::EveryStep => is_first,
            Self::Once { step: wanted } => is_first && step == wanted,
        }
    }
}

/// The traces of a job, and its truth.
pub(crate) struct Made {
    /// Rank and JSON text.
    pub(crate) traces: Vec<(u32, Vec<u8>)>,
    pub(crate) truth: Truth,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            tp: 4,
            pp: 1,
            dp: 1,
            ep: 1,
            steps: 4,
            layers: 8,
            seed: 1,
            jitter_ns: 2_000,
            offsets: Offsets::None,
            hosts: 0,
            drift_ppm: 0.0,
            length_ns: 0,
            late: None,
            also_late: Vec::new(),
            lose: 0,
            missing: Vec::new(),
            cut: None,
            graphs: false,
            pieces: false,
            stacks: true,
            small: false,
            arguments: true,
            microbatches: None,
            sync: None,
            lacks: Vec::new(),
            path: false,
        }
    }
}

impl Job {
    pub(crate) fn ranks(&self) -> u32 {
        self.tp * self.pp * self.dp
    }

    pub(crate) fn make(&self) -> Made {
        let mut traces = Vec::new();
        let truth = self.each(|rank, trace| traces.push((rank, trace)));
        Made { traces, truth }
    }

    /// Makes the traces one after the other, in order of rank.
    ///
    /// # Panics
    ///
    /// If the job has no ranks or steps, or lacks what should be late, because its truth would be wrong.
    pub(crate) fn each(&self, mut f: impl FnMut(u32, Vec<u8>)) -> Truth {
        self.each_rank(|layout, rank, clock, events| {
            if !self.missing.contains(&rank) {
                f(rank, text::trace(self, layout, rank, clock, &events));
            }
        })
    }

    /// The same with NCCL's own records of each rank; ranks without a trace have records, too.
    ///
    /// # Panics
    ///
    /// As [`Self::each`]; also if graphs are replayed, because then nothing calls NCCL, and if the traces have no step.
    pub(crate) fn each_recorded(
        &self,
        recording: &Recording,
        mut f: impl FnMut(u32, Option<Vec<u8>>, RankRecords),
    ) -> Truth {
        assert!(!self.graphs, "a replayed graph calls no NCCL, so there is nothing to record");
        assert!(recording.trace_from_step < self.steps, "the traces have a step at least");
        self.each_rank(|layout, rank, clock, mut events| {
            let records = records::of_rank(self, recording, layout, rank, clock, &events);
            records::trace_part(recording, &mut events);
            let has_trace = !self.missing.contains(&rank);
            let trace = has_trace.then(|| text::trace(self, layout, rank, clock, &events));
            f(rank, trace, records);
        })
    }

    /// Runs the job, and then each rank alone.
    fn each_rank(&self, mut f: impl FnMut(&Layout, u32, Clock, Vec<Event<'_>>)) -> Truth {
        self.check();
        let layout = Layout::new(self);
        let mut outcome = simulate(self, &layout);
        outcome.lose(self);
        let mut per_rank = Vec::new();
        let mut all: Option<(i64, i64)> = None;
        for rank in 0..layout.ranks() {
            let clock = Clock::new(self, rank);
            per_rank.push(clock.truth(rank, self.missing.contains(&rank)));
            let mut events = simulation::record(self, &layout, rank, &outcome.done[rank as usize]);
            self.cut_off(rank, &mut events);
            self.leave_out(rank, &mut events);
            for event in events.iter().filter(|_| !self.missing.contains(&rank)) {
                let (start, end) = all.unwrap_or((event.start, event.end));
                all = Some((start.min(event.start), end.max(event.end)));
            }
            f(&layout, rank, clock, events);
        }
        let lost = (0..).zip(&outcome.done).flat_map(|(rank, done)| lost(&layout, rank, done)).collect();
        outcome.length_ns = all.map_or(0, |(start, end)| end - start);
        Truth::new(self, &layout, per_rank, lost, outcome)
    }

    /// Drops the events after the end of a trace that is cut.
    fn cut_off(&self, rank: u32, events: &mut Vec<Event<'_>>) {
        let Some((_, share)) = self.cut.filter(|(cut, _)| *cut == rank) else { return };
        let end = events.iter().map(|event| event.end).max().unwrap_or_default();
        let until = (end as f64 * share) as i64;
        events.retain(|event| event.end <= until);
    }

    /// Drops the events of a step that a trace lacks. Steps end with a call that waits, so nothing of a step runs during the next one, but for sends.
    fn leave_out(&self, rank: u32, events: &mut Vec<Event<'_>>) {
        for (_, part) in self.lacks.iter().filter(|(of, _)| *of == rank) {
            let wanted = if *part == Part::FirstStep { 1 } else { self.steps - 1 };
            let is_wanted = |event: &&Event<'_>| matches!(event.name, Name::Step(step) if step == wanted);
            let Some(begin) = events.iter().find(is_wanted).map(|event| event.start) else { continue };
            events.retain(|event| (event.start >= begin) == (*part == Part::FirstStep));
        }
    }

    /// What makes a rank late.
    fn late_of(&self, rank: u32) -> Option<&Late> {
        self.late.iter().chain(&self.also_late).find(|late| late.rank == rank)
    }

    fn check(&self) {
        assert!(self.ranks() > 0 && self.steps > 0, "a job has ranks and steps");
        assert!(self.lacks.is_empty() || self.steps > 1, "a trace that lacks a step has another one");
        assert!(self.ep > 0 && self.dp.is_multiple_of(self.ep), "experts are spread over a divisor of the replicas");
        for late in self.late.iter().chain(&self.also_late) {
            assert!(late.rank < self.ranks(), "there is no rank {}", late.rank);
            if let How::Gpu { kernel } = &late.how {
                assert!(KERNELS.contains(&kernel.as_str()), "there is no kernel `{kernel}`");
            }
        }
    }
}

fn lost<'a>(layout: &'a Layout, rank: u32, done: &'a [Done]) -> impl Iterator<Item = Lost> + use<'a> {
    done.iter().filter(|done| done.is_lost).map(move |done| {
        let group = &layout.groups[done.group];
        Lost {
            rank,
            collective: done.collective.to_owned(),
            group_name: group.name.clone(),
            group_description: group.description.to_owned(),
            group: group.ranks.clone(),
            seq: done.seq,
        }
    })
}
