//! The arguments of `nccl-stacks part` and `nccl-stacks merge`.

use std::path::PathBuf;

use clap::Args;
use nccl_stacks::ranks::verdict::RankBound;

use super::ranks::{RankOf, parse_rank};
use super::shared::{Climbing, GroupArgs, Reading, Selection, Span, parse_limit};
use super::words::{Colour, MergeFormat, Sort, Switch, Weigh, WhichClock};

const PART_EXAMPLES: &str = "\
Examples:
  Reduce a trace where it is, to some tens of KB:
    nccl-stacks part rank3.json.gz --output parts/rank3.parquet
  The same for one step, with the same options on all nodes:
    nccl-stacks part rank3.json.gz --function-name 'ProfilerStep#%' --index 2 --output parts/rank3.parquet
  Who waits for whom, from all parts:
    nccl-stacks merge parts/ --expect 512";

const MERGE_EXAMPLES: &str = "\
Examples:
  Who waits for whom, from the parts of a job:
    nccl-stacks merge parts/
  The call stacks of all ranks, with their costs; exit code 6 if one of 512 ranks is missing:
    nccl-stacks merge parts/ --stacks --expect 512
  One file with all parts, which can be merged again:
    nccl-stacks merge parts/ --format parts --output all.parquet";

/// The reduction of traces to parts.
#[derive(Debug, Args)]
#[command(before_help = PART_EXAMPLES)]
#[command(next_help_heading = "Show")]
pub(crate) struct Part {
    /// Traces of ranks, or NCCL's own records of them, folders or archives
    #[arg(required = true, value_name = "TRACE", help_heading = "Arguments")]
    pub(crate) traces: Vec<PathBuf>,

    /// Write the parts to this file: whole, or not at all. Its extension is the format: .parquet or .json
    #[arg(short, long, value_name = "FILE", required = true)]
    pub(crate) output: PathBuf,

    /// Which kernels.
    #[command(flatten)]
    pub(crate) selection: Selection,

    /// Which part of each trace.
    #[command(flatten)]
    pub(crate) span: Span,

    /// The rank of a trace, or of a file of records, that names none itself: 3=node1.json.gz. Repeatable
    #[arg(long, value_name = "RANK=TRACE", value_parser = parse_rank, help_heading = "Input")]
    pub(crate) rank: Vec<RankOf>,

    /// A trace of the capture of CUDA graphs, as in the main job. Repeatable
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub(crate) capture_trace: Vec<PathBuf>,

    /// For kernels of the backward pass, keep the stack of the forward pass that they belong to
    #[arg(long, value_name = "WHETHER", value_enum, default_value_t = Switch::On)]
    pub(crate) forward_stacks: Switch,

    /// Count Python files whose paths begin with this as your own code, too. Repeatable
    #[arg(long, value_name = "PREFIX")]
    pub(crate) user_code: Vec<String>,

    /// Keep names as they are, so that layers and runs count separately
    #[arg(long, overrides_with = "no_exact_names")]
    pub(crate) exact_names: bool,

    /// Turns off --exact-names of a config file.
    #[arg(long, hide = true, overrides_with = "exact_names")]
    pub(crate) no_exact_names: bool,

    /// How to read the traces.
    #[command(flatten)]
    pub(crate) reading: Reading,
}

impl Part {
    /// The options for stacks.
    pub(crate) fn climbing(&self) -> Climbing {
        Climbing {
            forward_stacks: self.forward_stacks,
            user_code: self.user_code.clone(),
            ..Climbing::of_groups(GroupArgs::default(), self.exact_names)
        }
    }
}

/// The merge of parts.
#[derive(Debug, Args)]
#[command(before_help = MERGE_EXAMPLES)]
#[command(next_help_heading = "Show")]
pub(crate) struct Merge {
    /// Files that `nccl-stacks part` or `merge` wrote, or folders with such .parquet and .json files
    #[arg(required = true, value_name = "PART", help_heading = "Arguments")]
    pub(crate) parts: Vec<PathBuf>,

    /// The number of ranks of the job, if its traces do not record it or not all ranks were traced. Missing and surplus ranks are named, and
    /// the exit code is then 6
    #[arg(long, value_name = "N", help_heading = "Input")]
    pub(crate) expect: Option<u32>,

    /// Show the call stacks of all ranks, as the main job does, instead of who waits for whom
    #[arg(long)]
    pub(crate) stacks: bool,

    /// How the ranks' clocks are compared: align, trust or none, as in `nccl-stacks ranks`
    #[arg(long, value_name = "HOW", value_enum, default_value_t = WhichClock::Align, help_heading = "Input")]
    pub(crate) clock: WhichClock,

    /// Form of the answer: text, table, json, csv, svg; perfetto; with --stacks also script, folded, speedscope; or parts
    ///
    /// parts is one file with all parts, which can be merged again; the extension of --output is its format, .parquet or .json.
    #[arg(long, value_name = "FORM", value_enum, default_value_t = MergeFormat::Text, hide_possible_values = true)]
    pub(crate) format: MergeFormat,

    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,

    /// With --stacks: order by exposed time, GPU time, count or mean time, the largest first
    #[arg(long, value_name = "BY", value_enum, default_value_t = Sort::Exposed)]
    pub(crate) sort: Sort,

    /// With --stacks: show the stacks of each rank separately
    #[arg(long, requires = "stacks")]
    pub(crate) per_rank: bool,

    /// With --stacks: show every frame, including library frames
    #[arg(long)]
    pub(crate) full_stacks: bool,

    /// With --stacks: how many callers to show, 0 for all, as in the main job
    #[arg(long, value_name = "N")]
    pub(crate) stack_depth: Option<usize>,

    /// With --stacks: what the widths of flame graphs (folded, speedscope, svg) mean
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Weigh::Gpu)]
    pub(crate) weight: Weigh,

    /// Show only the first N stacks [default: 5 in text without --stacks]
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub(crate) limit: Option<usize>,

    /// When to use colours: on a terminal, always or never
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Colour::Auto)]
    pub(crate) color: Colour,

    /// Exit with 5 if ranks wait for longer than this, as in `nccl-stacks ranks`. Repeatable
    #[arg(long, value_name = "BOUND", value_parser = RankBound::parse, conflicts_with = "stacks")]
    pub(crate) fail_if: Vec<RankBound>,

    /// Write the answer to this file instead of standard output: whole, or not at all
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// How to read the parts.
    #[command(flatten)]
    pub(crate) reading: Reading,
}
