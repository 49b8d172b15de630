//! The options of every answer: its form, and where it goes.

use std::path::PathBuf;

use crate::answers::stacks::document::StacksAnswer;
use crate::document::{Answer, Form};
use clap::{Arg, Args};

use super::words::form_of;

/// The form of an answer, and where it goes. A command has the forms of its own answer by [`forms`].
#[derive(Debug, Args)]
pub(crate) struct Answering {
    /// Form of the answer [default: by the ending of --output, else text]
    #[arg(long, value_name = "FORM", value_parser = form_of::<StacksAnswer<'_>>())]
    pub(crate) format: Option<Form>,

    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,

    /// Write the answer to this file instead of standard output: whole, or not at all. An ending such as .json, .csv or .html chooses the form
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Print a text that is longer than the terminal as it is, and not through $NCCL_STACKS_PAGER, $PAGER or less
    #[arg(long)]
    pub(crate) no_pager: bool,
}

/// The option --format with the forms of an answer.
pub(crate) fn forms<A: Answer>(format: Arg) -> Arg {
    format.value_parser(form_of::<A>())
}

impl Answering {
    /// The form that is asked for, or the first of those that the name of the output says; `usual` without both. `known` are the forms of the answer.
    /// Errors: a name of another form than the one that is asked for, or of none of the answer's.
    pub(crate) fn form(&self, known: impl Iterator<Item = Form>, usual: Form) -> Result<Form, String> {
        self.asked(known).map(|form| form.unwrap_or(usual))
    }

    /// The same; `None` without both.
    pub(crate) fn asked(&self, known: impl Iterator<Item = Form>) -> Result<Option<Form>, String> {
        let asked = if self.json { Some(Form::Json) } else { self.format };
        let Some((path, named)) =
            self.output.as_deref().and_then(|path| Some((path, Form::of_file(&path.to_string_lossy())?)))
        else {
            return Ok(asked);
        };
        let words = |forms: &[Form]| forms.iter().map(|form| form.word()).collect::<Vec<_>>().join(", ");
        let known: Vec<Form> = known.collect();
        match asked {
            Some(form) if named.contains(&form) => Ok(asked),
            Some(form) => Err(format!(
                "--output {}: by its ending this is a file of the form {}, and the answer is {}; give another name or form",
                path.display(),
                named[0].word(),
                form.word()
            )),
            None => match named.iter().find(|form| known.contains(form)) {
                Some(form) => Ok(Some(*form)),
                None => Err(format!(
                    "--output {}: this answer has no form {}; its forms are {}",
                    path.display(),
                    words(named),
                    words(&known)
                )),
            },
        }
    }
}
