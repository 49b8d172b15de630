//! The arguments of `nccl-stacks describe`.

use std::path::PathBuf;

use crate::answers::describe::document::DescribeAnswer;
use clap::Args;

use super::answering::{Answering, forms};
use super::shared::Reading;

const EXAMPLES: &str = "\
Examples:
  What a trace is, what it can answer, and what to turn on for the rest:
    nccl-stacks describe trace.json.gz
  The same for a trace of replayed CUDA graphs, with the trace of their capture:
    nccl-stacks describe trace.json.gz --capture-trace capture.json.gz
  NCCL's own records of a job, from any recorder:
    nccl-stacks describe dumps/
  As JSON, for a check that every rank was recorded with shapes:
    nccl-stacks describe traces/ --json --output described.json";

/// What files are and what they can answer.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
#[command(next_help_heading = "Show")]
#[command(mut_arg("format", forms::<DescribeAnswer<'_>>))]
pub(crate) struct Describe {
    /// Traces, NCCL's own records, folders or archives of either; `-` for standard input
    ///
    /// Traces are described one after the other. The records of an argument are described together.
    #[arg(required = true, value_name = "TRACE", help_heading = "Arguments")]
    pub(crate) files: Vec<PathBuf>,

    /// A trace of the capture of CUDA graphs that the trace replays, as in the main job. Repeatable
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub(crate) capture_trace: Vec<PathBuf>,

    /// The form of the answer, and where it goes.
    #[command(flatten)]
    pub(crate) answering: Answering,

    /// How to read the files.
    #[command(flatten)]
    pub(crate) reading: Reading,
}
