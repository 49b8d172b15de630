//! The arguments of `nccl-stacks what-if`.

use std::path::PathBuf;

use crate::answers::ranks::document::WhatIfAnswer;
use crate::answers::ranks::what_if::Rule;
use clap::Args;

use super::answering::{Answering, forms};
use super::ranks::OfRanks;
use super::words::{COLOUR, Colour, one_of};

const EXAMPLES: &str = "\
Examples:
  What would make the steps of a job shorter, most first:
    nccl-stacks what-if traces/
  What if rank 3 were as fast as its peers, and the second stack's collectives took no time:
    nccl-stacks what-if traces/ --if 'rank 3 like peers' --if 'stack 2 free'
  What if one function took half as long:
    nccl-stacks what-if traces/ --if \"'*forward_normal' cpu x0.5\"";

/// Options of reruns.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
#[command(next_help_heading = "Show")]
#[command(mut_arg("format", forms::<WhatIfAnswer<'_>>))]
pub(crate) struct WhatIf {
    /// Traces of the ranks, folders, archives, or what `nccl-stacks part` wrote
    #[arg(required = true, value_name = "TRACE", help_heading = "Arguments")]
    pub(crate) traces: Vec<PathBuf>,

    /// What is different: 'rank 3 like peers', 'ranks 8-15 cpu like peers', 'all like peers', 'all begin together', 'stack 2 free' (as `ranks`
    /// numbers them), "'*forward_normal' cpu x0.5", "kernel '*gemm*' x0.8", 'cpus x0.5', 'rank 3 gpu x0.5'. Several at once are one rerun. Repeatable
    #[arg(long = "if", value_name = "RULE", value_parser = Rule::parse, help_heading = "Rules")]
    pub(crate) rules: Vec<Rule>,

    /// What to read of each rank.
    #[command(flatten)]
    pub(crate) of_ranks: OfRanks,

    /// The form of the answer, and where it goes.
    #[command(flatten)]
    pub(crate) answering: Answering,

    /// When to use colours: on a terminal, always or never
    #[arg(long, value_name = "WHEN", value_parser = one_of(COLOUR), default_value = "auto")]
    pub(crate) color: Colour,
}
