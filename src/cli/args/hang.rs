//! The arguments of `nccl-stacks hang`.

use std::path::PathBuf;

use crate::report::Form;
use crate::report::hang::HangAnswer;
use crate::time::Ns;
use clap::Args;

use super::shared::{OneRun, Reading, parse_length};
use super::words::{Colour, form_of};

const EXAMPLES: &str = "\
Examples:
  Why a job hangs, from the dumps of PyTorch's flight recorder:
    nccl-stacks hang dumps/
  From two answers of NCCL's RAS:
    ncclras -f json > a.json; sleep 60; ncclras -f json > b.json
    nccl-stacks hang a.json b.json
  For a script, with exit code 4 if it hangs:
    nccl-stacks hang dumps/ --json --output hang.json";

/// Whether a job hangs.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
#[command(next_help_heading = "Show")]
pub(crate) struct Hang {
    /// Records of the job, of any number of its ranks: files, folders or archives
    #[arg(required = true, value_name = "FILE", help_heading = "Arguments")]
    pub(crate) files: Vec<PathBuf>,

    /// Form of the answer
    #[arg(long, value_name = "FORM", value_parser = form_of::<HangAnswer<'_>>(), default_value = "text")]
    pub(crate) format: Form,

    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,

    /// When to use colours: on a terminal, always or never
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Colour::Auto)]
    pub(crate) color: Colour,

    /// Write the answer to this file instead of standard output: whole, or not at all
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Of a job that runs: how long nothing may have moved before it is said to hang [default: 5s]
    ///
    /// Files of the recorder are read while the job goes on. If its last operation is a moment ago, they are read again after this time. A job that
    /// writes checkpoints or evaluates is idle for longer.
    #[arg(long, value_name = "TIME", value_parser = parse_length, help_heading = "Input")]
    pub(crate) wait: Option<Ns>,

    /// Which of several runs.
    #[command(flatten)]
    pub(crate) one_run: OneRun,

    /// How to read the records.
    #[command(flatten)]
    pub(crate) reading: Reading,
}
