//! The arguments of `nccl-stacks ranks`.

use std::path::PathBuf;

use crate::answers::bound::Bound;
use crate::answers::ranks::document::RankAnswer;
pub(crate) use crate::answers::ranks::reduction::GivenRank as RankOf;
use crate::operations::clocks::ClockMode;
use clap::Args;

use super::answering::{Answering, forms};
use super::shared::{Climbing, OneRun, Reading, Selection, Span, parse_count, parse_limit};
use super::words::{CLOCK, COLOUR, Colour, one_of};

const EXAMPLES: &str = "\
Examples:
  Who waits for whom in a job, from the traces of its ranks:
    nccl-stacks ranks traces/
  The same for one step:
    nccl-stacks ranks rank*.json.gz --function-name 'ProfilerStep#%' --index 2
  All ranks side by side in ui.perfetto.dev, on one clock:
    nccl-stacks ranks traces/ --format perfetto --output ranks.json.gz
  Reduce each trace where it is, and compare the parts elsewhere:
    nccl-stacks part rank3.json.gz --output parts/rank3.parquet
    nccl-stacks ranks parts/ --expect 512";

pub(super) fn parse_rank(text: &str) -> Result<RankOf, String> {
    let parsed = text.split_once('=').and_then(|(rank, trace)| Some((rank.parse().ok()?, trace)));
    let (rank, trace) = parsed.ok_or("expected a rank and its trace, such as 3=node1.json.gz")?;
    Ok(RankOf { rank, trace: PathBuf::from(trace) })
}

/// What is read of each rank, and how their clocks are compared.
#[derive(Debug, Clone, Args)]
pub(crate) struct OfRanks {
    #[command(flatten)]
    pub(crate) selection: Selection,

    #[command(flatten)]
    pub(crate) span: Span,

    #[command(flatten)]
    pub(crate) climbing: Climbing,

    /// The rank of a trace, or of a file of records, that names none itself: 3=node1.json.gz. Repeatable
    #[arg(long, value_name = "RANK=TRACE", value_parser = parse_rank, help_heading = "Input")]
    pub(crate) rank: Vec<RankOf>,

    /// How to compare the ranks' clocks: align them by the ends of collectives, trust them as they are, or none, which compares only the
    /// durations of kernels
    #[arg(long, value_name = "HOW", value_parser = one_of(CLOCK), default_value = "align", help_heading = "Input")]
    pub(crate) clock: ClockMode,

    #[command(flatten)]
    pub(crate) one_run: OneRun,

    #[command(flatten)]
    pub(crate) reading: Reading,
}

/// Options of the comparison of ranks.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
#[command(next_help_heading = "Show")]
#[command(mut_arg("format", |arg| forms::<RankAnswer<'_>>(arg).long_help("\
    Form of the answer [default: by the ending of --output, else text]\n\n\
    perfetto is a trace with all ranks side by side on one clock; html a page in one file, with a heat map of waiting by rank and step.")))]
pub(crate) struct Ranks {
    /// Traces of the ranks, or NCCL's own records of them, folders, archives, or what `nccl-stacks part` wrote
    #[arg(required = true, value_name = "TRACE", help_heading = "Arguments")]
    pub(crate) traces: Vec<PathBuf>,

    /// The number of ranks of the job. Missing and surplus ranks are named, and the exit code is then 6 [default for parts: by the traces' headers]
    #[arg(long, value_name = "N", value_parser = parse_count::<u32>, help_heading = "Input")]
    pub(crate) expect: Option<u32>,

    #[command(flatten)]
    pub(crate) of_ranks: OfRanks,

    /// A trace of the capture of CUDA graphs that these traces replay, as in the main job. Repeatable
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub(crate) capture_trace: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: Answering,

    /// Show only the first N stacks [default: 5 in text]
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub(crate) limit: Option<usize>,

    /// When to use colours: on a terminal, always or never
    #[arg(long, value_name = "WHEN", value_parser = one_of(COLOUR), default_value = "auto")]
    pub(crate) color: Colour,

    /// Exit with 5 if ranks wait for longer than this: 'waited>20%', 'caused(rank=3)>2ms', 'late>10'. Repeatable
    #[arg(long, value_name = "BOUND", value_parser = Bound::on_ranks)]
    pub(crate) fail_if: Vec<Bound>,
}
