//! The arguments of `nccl-stacks hang`.

use std::path::PathBuf;

use crate::answers::hang::document::HangAnswer;
use crate::time::Ns;
use clap::Args;

use super::answering::{Answering, forms};
use super::shared::{OneRun, Reading, parse_length};
use super::words::{COLOUR, Colour, one_of};

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
#[command(mut_arg("format", forms::<HangAnswer<'_>>))]
pub(crate) struct Hang {
    /// Records of the job, of any number of its ranks: files, folders or archives
    #[arg(required = true, value_name = "FILE", help_heading = "Arguments")]
    pub(crate) files: Vec<PathBuf>,

    /// The form of the answer, and where it goes.
    #[command(flatten)]
    pub(crate) answering: Answering,

    /// When to use colours: on a terminal, always or never
    #[arg(long, value_name = "WHEN", value_parser = one_of(COLOUR), default_value = "auto")]
    pub(crate) color: Colour,

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
