//! The arguments of `nccl-stacks describe`.

use std::path::PathBuf;

use crate::report::Form;
use crate::report::describe::DescribeAnswer;
use clap::Args;

use super::shared::Reading;
use super::words::form_of;

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
pub(crate) struct Describe {
    /// Traces, NCCL's own records, folders or archives of either; `-` for standard input
    ///
    /// Traces are described one after the other. The records of an argument are described together.
    #[arg(required = true, value_name = "TRACE", help_heading = "Arguments")]
    pub(crate) files: Vec<PathBuf>,

    /// A trace of the capture of CUDA graphs that the trace replays, as in the main job. Repeatable
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub(crate) capture_trace: Vec<PathBuf>,

    /// Form of the answer
    #[arg(long, value_name = "FORM", value_parser = form_of::<DescribeAnswer<'_>>(), default_value = "text")]
    pub(crate) format: Form,

    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,

    /// Write the answer to this file instead of standard output: whole, or not at all
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// How to read the files.
    #[command(flatten)]
    pub(crate) reading: Reading,
}
