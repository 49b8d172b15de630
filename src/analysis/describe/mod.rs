//! Describes a file: facts about a trace and, for each [question](questions), how much of the trace has what it needs.
//!
//! Shares are counted from the events, not taken from what the header says was asked for: a profiler that was asked for stacks may have recorded
//! none. The header only determines the advice. `header` reads the header, `tally` counts, `above` climbs from launches, `questions` is the table,
//! `answers` decides, `sources` does the same for records.

mod above;
mod answers;
mod header;
pub mod questions;
pub mod sources;
mod steps;
mod tally;

use serde::Serialize;

use super::losses::Losses;
use crate::attribution::capture::Captures;
use crate::store::Store;
use crate::time::{Ns, Window};

pub use crate::event::Writer;
pub use answers::{Answer, Possible};
pub use header::{Gpus, HeaderFacts, ProcessGroup, Version};
pub use steps::StepCount;
use tally::Tally;

/// The slices of a category.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CategoryCount {
    /// The category; `None` for slices without one.
    pub category: Option<String>,
    /// The number of slices.
    pub count: u64,
}

/// An important category without any slice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MissingCategory {
    /// The category by its Kineto name.
    pub category: &'static str,
    /// What the trace lacks without it.
    pub what: &'static str,
    /// What to turn on; `None` for another accelerator.
    pub turn_on: Option<&'static str>,
}

/// The rank of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RankFact {
    /// The rank.
    pub rank: u32,
    /// Where the rank was found.
    pub from: &'static str,
}

/// A trace, and which questions it can answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TraceDescription {
    /// Facts from the header.
    #[serde(flatten)]
    pub header: HeaderFacts,
    /// The rank, if known.
    pub rank: Option<RankFact>,
    /// The ranks of the collectives in this file: several if the file was merged.
    pub ranks: Vec<u32>,
    /// The start of its slices, on its own clock.
    #[serde(rename = "start_ns")]
    pub start: Ns,
    /// The length of the span of its slices.
    #[serde(rename = "length_ns")]
    pub length: Ns,
    /// The size of its decompressed text in bytes.
    pub text_bytes: u64,
    /// The number of events.
    pub events: u64,
    /// Slices by category, most frequent first.
    pub slices: Vec<CategoryCount>,
    /// Important categories without any slice.
    pub missing: Vec<MissingCategory>,
    /// The steps, by name.
    pub steps: Vec<StepCount>,
    /// The number of GPUs that have kernels.
    pub gpus_with_kernels: u64,
    /// The number of kernels.
    pub kernels: u64,
    /// The number of kernels that are collectives.
    pub collectives: u64,
    /// The number of kernels that graphs replay.
    pub replayed: u64,
    /// The number of calls that launch a graph.
    pub graph_launches: u64,
    /// The number of distinct graphs that the kernels name.
    pub graph_ids: u64,
    /// The number of graph captures that begin in the trace.
    pub captures: u64,
    /// The answers to all questions, in the order of the table.
    pub answers: Vec<Answer>,
    /// What is wrong with the trace.
    pub damage: Losses,
}

/// Whether a graph may have replayed any kernel of a trace, so that its captures are worth reading.
pub fn has_replays(store: &Store) -> bool {
    let launches = tally::launches(store);
    launches.kernels.iter().any(|launched| tally::may_be_captured(store, launched))
}

/// Describes the only trace of a store, loaded with [`crate::event::ArgsWanted::DESCRIBED`]. `captures` are the captures of its graphs, from the
/// traces at hand.
pub fn describe(store: &Store, captures: Captures) -> TraceDescription {
    let mut launches = tally::launches(store);
    let captured = captures.stacks(store, &mut launches);
    let tally = Tally::count(store, &launches, captured.tally);
    let header = HeaderFacts::read(store, tally.has_categories(), tally.has_kineto());
    let Window { start, end } = store.span;
    TraceDescription {
        answers: answers::answers(&tally, &header),
        missing: missing(&tally, &header),
        rank: tally.rank.map(|(rank, from)| RankFact { rank, from }),
        ranks: tally.ranks.into_iter().collect(),
        start,
        length: end - start,
        text_bytes: store.traces.iter().map(|trace| trace.text_bytes).sum(),
        events: store.events,
        slices: tally.categories.into_iter().map(|(category, count)| CategoryCount { category, count }).collect(),
        steps: tally.steps.of,
        gpus_with_kernels: tally.gpus,
        kernels: tally.kernels,
        collectives: tally.collectives,
        replayed: tally.replayed,
        graph_launches: tally.graph_launches,
        graph_ids: tally.graph_ids,
        captures: tally.captures_here,
        damage: Losses::count(store),
        header,
    }
}

/// The categories that most questions need but no slice has. Empty for a program that is not a GPU profiler.
fn missing(tally: &Tally, header: &HeaderFacts) -> Vec<MissingCategory> {
    let is_nsys = *header.writer == Writer::NSIGHT_SYSTEMS;
    // Accelerators other than CUDA and ROCm have runtime calls of their own.
    let on = |kineto: &'static str, nsys: &'static str| if is_nsys { nsys } else { kineto };
    let accelerator = tally.other_accelerator;
    let all = [
        (
            tally.kernels,
            "kernel",
            "no time on a GPU",
            Some(on(questions::KERNELS_ON, "--trace=cuda")).filter(|_| !accelerator),
        ),
        (tally.runtime_calls, "cuda_runtime", "no launches", Some(on(questions::KERNELS_ON, "--trace=cuda"))),
        (
            tally.operators,
            "cpu_op",
            "no operators, shapes or records of collectives",
            Some(on(questions::OPERATORS_ON, "--pytorch=autograd-nvtx")),
        ),
    ];
    let row = |(count, category, what, turn_on)| {
        (header.writer.is_profiler && count == 0).then_some(MissingCategory { category, what, turn_on })
    };
    all.into_iter().filter_map(row).collect()
}
