//! The arguments of `nccl-stacks report`.

use std::path::PathBuf;

use clap::Args;

use super::ranks::OfRanks;

const EXAMPLES: &str = "\
Examples:
  One trace: which code launched the collectives, and what they cost:
    nccl-stacks report trace.json.gz --output report.html
  All ranks of a job: who waits for whom, at which line:
    nccl-stacks report traces/ --output report.html
  One step of it:
    nccl-stacks report traces/ --function-name 'ProfilerStep#%' --index 2 --output step.html
  Why a job hangs, from the dumps of PyTorch's flight recorder:
    nccl-stacks report dumps/ --output hang.html";

/// A page for a browser.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
#[command(next_help_heading = "Show")]
pub(crate) struct Report {
    /// Traces, one for each rank, NCCL's own records, parts that `nccl-stacks part` wrote, or folders and archives of these
    #[arg(required = true, value_name = "INPUT", help_heading = "Arguments")]
    pub(crate) inputs: Vec<PathBuf>,

    /// Write the page to this file: whole, or not at all. Required on a terminal
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// What to read of each rank.
    #[command(flatten)]
    pub(crate) of_ranks: OfRanks,

    /// A trace of the capture of CUDA graphs that these traces replay, as in the main job. Repeatable
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub(crate) capture_trace: Vec<PathBuf>,
}
