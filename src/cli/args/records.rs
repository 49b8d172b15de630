//! The arguments of `nccl-stacks records`.

use std::path::PathBuf;

use crate::answers::records::document::RecordsAnswer;
use clap::Args;

use super::answering::{Answering, forms};
use super::shared::{OneRun, Reading, parse_limit};

const EXAMPLES: &str = "\
Examples:
  What the files of a job contain, from any recorder:
    nccl-stacks records logs/
  Every table: communicators, proxies, links, channels, bytes from rank to rank, files:
    nccl-stacks records logs/ --format table
  Bandwidths by collective and size, for a spreadsheet:
    nccl-stacks records inspector/*.log --format csv --output bandwidths.csv";

/// The contents of NCCL's own records.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
#[command(next_help_heading = "Show")]
#[command(mut_arg("format", |arg| forms::<RecordsAnswer<'_>>(arg).long_help("\
    Form of the answer [default: by the ending of --output, else text]\n\n\
    csv has only the operations, or the bytes from rank to rank if there are only flow files. table and json have everything; html is a \
    page in one file.")))]
pub(crate) struct Records {
    /// NCCL's own records: files, folders of them, or archives
    ///
    /// Dumps of PyTorch's flight recorder, NCCL's RAS, Inspector and example profiler plugin, Megatrace logs, flow files, files of the
    /// recorder, and logs with NCCL_DEBUG=INFO; recognised by their contents. Plain, or compressed with gzip or zstd.
    #[arg(required = true, value_name = "FILE", help_heading = "Arguments")]
    pub(crate) files: Vec<PathBuf>,

    /// The form of the answer, and where it goes.
    #[command(flatten)]
    pub(crate) answering: Answering,

    /// Show only the first N rows of each table [default: 20 in text]
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub(crate) limit: Option<usize>,

    /// Write the aggregates of flow files, flow_rank<R>.json, into this folder
    ///
    /// The flow extractor writes the same files when a program asks for them. Each of several folders of flow files has its own.
    #[arg(long, value_name = "DIR")]
    pub(crate) flow_rank: Option<PathBuf>,

    /// Which of several runs.
    #[command(flatten)]
    pub(crate) one_run: OneRun,

    /// How to read the files.
    #[command(flatten)]
    pub(crate) reading: Reading,
}
