//! The arguments of `nccl-stacks pairs`.

use std::path::PathBuf;

use crate::analysis::cost::Order;
use crate::report::Form;
use crate::report::pairs::PairsAnswer;
use clap::Args;

use super::shared::{Reading, Span, parse_limit};
use super::words::{COLOUR, COSTS, Colour, form_of, one_of};

const EXAMPLES: &str = "\
Examples:
  What the backward pass of each module costs, and the collectives in it:
    nccl-stacks pairs trace.json.gz
  The same for one step, with layers counted separately, the most exposed collectives first:
    nccl-stacks pairs trace.json.gz --function-name 'ProfilerStep#%' --index 1 --exact-names --sort exposed
  All ranks together, every pair, for a spreadsheet:
    nccl-stacks pairs traces/ --format csv --output pairs.csv";

/// Forward and backward.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Pairs {
    /// Traces, folders of traces or archives, as in the main job; the costs of several traces are summed
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<PathBuf>,

    /// Which part of each trace.
    #[command(flatten)]
    pub(crate) span: Span,

    /// Families of collectives of your own, as in the main job. Repeatable
    #[arg(long, value_name = "FILE", help_heading = "Select")]
    pub(crate) family_file: Vec<PathBuf>,

    /// Count Python files whose paths begin with this as your own code, too: as in the main job. Repeatable
    #[arg(long, value_name = "PREFIX", help_heading = "Show")]
    pub(crate) user_code: Vec<String>,

    /// Keep module names as they are, so that layers count separately
    #[arg(long, overrides_with = "no_exact_names", help_heading = "Show")]
    pub(crate) exact_names: bool,

    /// Turns off --exact-names of a config file.
    #[arg(long, hide = true, overrides_with = "exact_names")]
    pub(crate) no_exact_names: bool,

    /// Order: by the number of nodes, their GPU time including collectives, the exposed time of the collectives, or the mean GPU time of a node
    #[arg(long, value_name = "BY", value_parser = one_of(COSTS), default_value = "gpu", help_heading = "Show")]
    pub(crate) sort: Order,

    /// Show only the first N modules and the first N pairs
    #[arg(long, value_name = "N", value_parser = parse_limit, help_heading = "Show")]
    pub(crate) limit: Option<usize>,

    /// Form of the answer
    #[arg(long, value_name = "FORM", value_parser = form_of::<PairsAnswer<'_>>(), default_value = "text", help_heading = "Show")]
    pub(crate) format: Form,

    /// When to use colours: on a terminal, always or never
    #[arg(long, value_name = "WHEN", value_parser = one_of(COLOUR), default_value = "auto", help_heading = "Show")]
    pub(crate) color: Colour,

    /// Write the answer to this file instead of standard output: whole, or not at all
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// How to read the traces.
    #[command(flatten)]
    pub(crate) reading: Reading,
}
