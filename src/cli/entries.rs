//! `nccl-stacks ranks` for NCCL's own records.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nccl_stacks::ranks::entries::EntryReport;
use nccl_stacks::ranks::recorded_reductions::RecordedReductions;
use nccl_stacks::ranks::reduction::RankReduction;
use nccl_stacks::records::{Keep, Records};
use nccl_stacks::report::Answer;
use nccl_stacks::report::ranks::{EntriesAnswer, entries_verdict};
use nccl_stacks::run::{self, Completeness, damage_lines, give_ranks};

use super::args::Ranks;
use super::show::Show;
use super::stop::Stop;
use super::terminal::note;
use super::{opening, typed};

/// Answers from records of when NCCL was entered. From records of when kernels ran, returns the reductions, which are then compared like those
/// Why the ranks are unknown, and how to provide them.
fn without_ranks(records: &Records) -> String {
    let sources: BTreeSet<&str> = records.operations.iter().map(|operation| operation.source.title()).collect();
    let sources: Vec<&str> = sources.into_iter().collect();
    format!(
        "Nothing found: it is unknown which ranks of the job recorded this ({}). NCCL numbers ranks within each communicator. To know them, give \
         one file for each rank, all with a communicator in common, or name the rank of each file with --rank 3=FILE.",
        sources.join(", ")
    )
}
