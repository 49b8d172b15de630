//! The options of every answer: its form, and where it goes.

use std::path::PathBuf;

use crate::answers::stacks::document::StacksAnswer;
use crate::document::{Answer, Form};
use clap::{Arg, Args};

use super::words::form_of;

/// The form of an answer, and where it goes. A command has the forms of its own answer by [`forms`].
#[derive(Debug, Args)]
pub(crate) struct Answering {
    /// Form of the answer
    #[arg(long, value_name = "FORM", value_parser = form_of::<StacksAnswer<'_>>(), default_value = "text")]
    pub(crate) format: Form,

    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,

    /// Write the answer to this file instead of standard output: whole, or not at all
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// The option --format with the forms of an answer.
pub(crate) fn forms<A: Answer>(format: Arg) -> Arg {
    format.value_parser(form_of::<A>())
}
