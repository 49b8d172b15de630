//! What a file is and what it can answer: facts about a trace and, for each [question](questions), how much of the trace has what it needs.
//!
//! Shares are counted from the events, and not taken from what the header says was asked for: a profiler that was asked for stacks may
//! have recorded none. The header only decides which advice is given. One file per part: `header` reads the header, `tally` counts,
//! `above` climbs from launches, `questions` is the table, `answers` decides, `sources` does the same for records.

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
    /// How many slices.
    pub count: u64,
}

/// A category that matters and that no slice has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MissingCategory {
    /// The category, in Kineto's words.
    pub category: &'static str,
    /// What is lost by that.
    pub what: &'static str,
    /// What to turn on; `None` if it takes another accelerator.
    pub turn_on: Option<&'static str>,
}

/// The rank of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RankFact {
    /// The rank.
    pub rank: u32,
    /// What says so.
    pub from: &'static str,
}

/// A trace, and what it can answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TraceDescription {
    /// What the header says.
    #[serde(flatten)]
    pub header: HeaderFacts,
    /// The rank, if anything says it.
    pub rank: Option<RankFact>,
    /// The ranks of the collectives in this file: several if it was merged.
    pub ranks: Vec<u32>,
    /// The span of its slices, on its own clock.
    #[serde(rename = "start_ns")]
    pub start: Ns,
    /// Its length.
    #[serde(rename = "length_ns")]
    pub length: Ns,
    /// How many bytes of decompressed text it has.
    pub text_bytes: u64,
    /// How many events.
    pub events: u64,
    /// Slices by category, the most frequent first.
    pub slices: Vec<CategoryCount>,
    /// Categories that matter and are missing.
    pub missing: Vec<MissingCategory>,
    /// The steps, by name.
    pub steps: Vec<StepCount>,
    /// How many GPUs have kernels.
    pub gpus_with_kernels: u64,
    /// How many kernels there are.
    pub kernels: u64,
    /// How many of them are collectives.
    pub collectives: u64,
    /// How many of them graphs replay.
    pub replayed: u64,
    /// How many calls launch a graph.
    pub graph_launches: u64,
    /// How many different graphs the kernels name.
    pub graph_ids: u64,
    /// How many captures of graphs begin in it.
    pub captures: u64,
    /// The answers of all questions, in the order of the table.
    pub answers: Vec<Answer>,
    /// What is wrong with it.
    pub damage: Losses,
}

/// Whether any kernel of a trace may be one that a graph replays, so that its captures are worth reading.
pub fn has_replays(store: &Store) -> bool {
    let launches = tally::launches(store);
    launches.kernels.iter().any(|launched| tally::may_be_captured(store, launched))
}

/// Describes the only trace of a store, which was loaded with [`crate::event::ArgsWanted::DESCRIBED`]. `captures` are those of its graphs, as far as
/// there are traces of them.
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

/// What no slice is, although most questions need it. Of a program that is no profiler of GPUs nothing is expected.
fn missing(tally: &Tally, header: &HeaderFacts) -> Vec<MissingCategory> {
    let is_nsys = *header.writer == Writer::NSIGHT_SYSTEMS;
    // Another accelerator than CUDA and ROCm has calls of its own.
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
