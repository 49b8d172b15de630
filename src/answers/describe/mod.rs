//! Describes a file: facts about a trace and, for each [`Question`], how much of the trace has what it needs.
//!
//! Shares are counted from the events, not taken from what the header says was asked for: a profiler that was asked for stacks may have recorded
//! none. The header only determines the advice. `header` reads the header, `tally` counts, by the flags of `has`, `above` climbs from launches, `sources` counts in records,
//! `questions` has the tables, `answers` decides, `verdict` sums up over several files.

mod above;
mod answers;
pub mod document;
mod has;
pub(crate) mod header;
mod questions;
mod sources;
mod tally;
mod verdict;

use std::collections::BTreeSet;

use serde::Serialize;

use super::damage::Losses;
use crate::attribution::capture::Captures;
use crate::attribution::launches;
use crate::attribution::launches::{Evidence, Launched, Launches};
use crate::records::Records;
use crate::store::Store;
use crate::time::{Ns, Window};

pub use crate::event::Writer;
pub use answers::{Answer, Possible, RecordAnswer, one_of};
pub use header::{Gpus, HeaderFacts, ProcessGroup, Version};
pub use questions::{Basis, Question, Recorder};
use questions::{OF_RECORDS, OF_TRACES};
pub use sources::SourceRow;
use tally::Tally;
pub use tally::{CategoryCount, Counts, Lack, RankFact, StepCount};
pub use verdict::{Answered, First};

/// What some files are.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Descriptions {
    /// What was described, in the order of the arguments.
    pub files: Vec<Described>,
    /// The files that cannot be read.
    pub unread: Vec<Unread>,
}

/// A trace, or the records of a file or folder.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Described {
    /// Its name; for a trace in an archive, the archive's name comes first.
    pub name: String,
    /// What it is, if it is a trace.
    pub trace: Option<Box<TraceDescription>>,
    /// What it is, if it is NCCL's own records.
    pub records: Option<RecordsDescription>,
}

/// A file that cannot be read.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unread {
    /// Its name.
    pub name: String,
    /// The reason.
    pub why: String,
}

impl Descriptions {
    pub fn traces(&self) -> impl Iterator<Item = &TraceDescription> {
        self.files.iter().filter_map(|file| file.trace.as_deref())
    }

    pub fn records(&self) -> impl Iterator<Item = &RecordsDescription> {
        self.files.iter().filter_map(|file| file.records.as_ref())
    }
}

/// An important category without any slice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MissingCategory {
    /// The category by its Kineto name.
    pub category: &'static str,
    /// What the trace lacks without it.
    pub what: &'static str,
    /// What to turn on; `None` for another accelerator.
    pub turn_on: Option<&'static str>,
}

/// A trace, and which questions it can answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TraceDescription {
    /// Facts from the header.
    #[serde(flatten)]
    pub header: HeaderFacts,
    /// What is in it.
    #[serde(flatten)]
    pub counts: Counts,
    /// The start of its slices, on its own clock.
    #[cfg_attr(test, schemars(with = "i64"))]
    pub start_ns: Ns,
    /// The length of the span of its slices.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub length_ns: Ns,
    /// The size of its decompressed text in bytes.
    pub text_bytes: u64,
    /// The number of events.
    pub events: u64,
    /// Important categories without any slice.
    pub missing: Vec<MissingCategory>,
    /// The answers to all questions, in the order of the table.
    pub answers: Vec<Answer>,
    /// What is wrong with the trace.
    pub damage: Losses,
}

/// NCCL's own records, and which questions they can answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecordsDescription {
    /// One row per source.
    pub sources: Vec<SourceRow>,
    /// The number of communicators named in the records.
    pub communicators: u64,
    /// The number of files that are not records.
    pub other_files: u64,
    /// What is wrong with the files, and other remarks for the reader: one line each, without duplicates.
    pub remarks: Vec<String>,
    /// The answers to all questions.
    pub answers: Vec<RecordAnswer>,
}

pub fn describe_records(records: &Records) -> RecordsDescription {
    let sources = sources::rows(records);
    let lines = records.files.iter().flat_map(|file| file.damage_lines().chain(file.notes.iter().cloned()));
    RecordsDescription {
        answers: OF_RECORDS.iter().map(|row| row.answer(&sources)).collect(),
        sources,
        communicators: records.communicators.len() as u64,
        other_files: records.files.iter().filter(|file| file.source.is_none()).count() as u64,
        remarks: lines.collect::<BTreeSet<String>>().into_iter().collect(),
    }
}

/// Whether a graph may have replayed any kernel of a trace, so that its captures are worth reading.
pub fn has_replays(store: &Store) -> bool {
    let may_be = |of: &Launched| of.evidence == Evidence::GraphReplay || store.graph_node(of.kernel).is_some();
    launches(store).kernels.iter().any(may_be)
}

fn launches(store: &Store) -> Launches {
    launches::for_work(store, store.kernels.clone())
}

/// Describes the only trace of a store, loaded with [`crate::event::ArgsWanted::DESCRIBED`]. `captures` are the captures of its graphs, from the
/// traces at hand.
pub fn describe(store: &Store, captures: Captures) -> TraceDescription {
    let mut launches = launches(store);
    let captured = captures.stacks(store, &mut launches);
    let tally = Tally::count(store, &launches, &captured);
    let header = HeaderFacts::read(store, tally.has_categories(), tally.has_kineto());
    let Window { start, end } = store.span;
    TraceDescription {
        answers: OF_TRACES.iter().map(|row| row.answer(&tally, &header)).collect(),
        missing: missing(&tally, &header),
        start_ns: start,
        length_ns: end - start,
        text_bytes: store.traces.iter().map(|trace| trace.text_bytes).sum(),
        events: store.events,
        counts: tally.counts,
        damage: Losses::count(store),
        header,
    }
}

/// The categories that most questions need but no slice has. Empty for a program that is not a GPU profiler.
fn missing(tally: &Tally, header: &HeaderFacts) -> Vec<MissingCategory> {
    let [kernels_on, operators_on] = [questions::KERNELS, questions::OPERATORS].map(|setting| setting.words(header));
    // Accelerators other than CUDA and ROCm have runtime calls of their own.
    let gpu_on = kernels_on.filter(|_| !tally.other_accelerator);
    let all = [
        (tally.counts.kernels, "kernel", "no time on a GPU", gpu_on),
        (tally.number(has::RUNTIME), "cuda_runtime", "no launches", kernels_on),
        (tally.number(has::OPERATOR), "cpu_op", "no operators, shapes or records of collectives", operators_on),
    ];
    let is_missing = |(count, ..): &(u64, _, _, _)| header.writer.is_profiler && *count == 0;
    let row = |(_, category, what, turn_on)| MissingCategory { category, what, turn_on };
    all.into_iter().filter(is_missing).map(row).collect()
}
