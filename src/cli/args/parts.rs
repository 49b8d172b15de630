//! The arguments of `nccl-stacks part`.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::ranks::{RankOf, parse_rank};
use super::shared::{Climbing, OneRun, Reading, Selection, Span};
use super::words::{SWITCH, one_of};

const EXAMPLES: &str = "\
Examples:
  Reduce a trace where it is, to some tens of KB:
    nccl-stacks part rank3.json.gz --output parts/rank3.parquet
  The same for one step, with the same options on all nodes:
    nccl-stacks part rank3.json.gz --function-name 'ProfilerStep#%' --index 2 --output parts/rank3.parquet
  Who waits for whom, from the parts of all 512 ranks, and the call stacks of all of them:
    nccl-stacks ranks parts/ --expect 512
    nccl-stacks parts/ --expect 512
  One file with all parts:
    nccl-stacks part parts/ --output all.parquet";

/// The reduction of traces to parts.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
#[command(next_help_heading = "Show")]
pub(crate) struct Part {
    /// Traces of ranks, or NCCL's own records of them, folders or archives; or parts, which are joined into one file
    #[arg(required = true, value_name = "TRACE", help_heading = "Arguments")]
    pub(crate) traces: Vec<PathBuf>,

    /// Write the parts to this file: whole, or not at all. Its extension is the format: .parquet or .json
    #[arg(short, long, value_name = "FILE", required = true)]
    pub(crate) output: PathBuf,

    #[command(flatten)]
    pub(crate) selection: Selection,

    #[command(flatten)]
    pub(crate) span: Span,

    /// The rank of a trace, or of a file of records, that names none itself: 3=node1.json.gz. Repeatable
    #[arg(long, value_name = "RANK=TRACE", value_parser = parse_rank, help_heading = "Input")]
    pub(crate) rank: Vec<RankOf>,

    /// A trace of the capture of CUDA graphs, as in the main job. Repeatable
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub(crate) capture_trace: Vec<PathBuf>,

    /// For kernels of the backward pass, keep the stack of the forward pass that they belong to
    #[arg(long, value_name = "WHETHER", value_parser = one_of(SWITCH), default_value = "on", action = ArgAction::Set)]
    pub(crate) forward_stacks: bool,

    /// Count Python files whose paths begin with this as your own code, too. Repeatable
    #[arg(long, value_name = "PREFIX")]
    pub(crate) user_code: Vec<String>,

    /// Keep names as they are, so that layers and runs count separately
    #[arg(long, overrides_with = "no_exact_names")]
    pub(crate) exact_names: bool,

    /// Turns off --exact-names of a config file.
    #[arg(long, hide = true, overrides_with = "exact_names")]
    pub(crate) no_exact_names: bool,

    #[command(flatten)]
    pub(crate) one_run: OneRun,

    #[command(flatten)]
    pub(crate) reading: Reading,
}

impl Part {
    pub(crate) fn climbing(&self) -> Climbing {
        Climbing {
            forward_stacks: self.forward_stacks,
            user_code: self.user_code.clone(),
            exact_names: self.exact_names,
            ..Climbing::default()
        }
    }
}
