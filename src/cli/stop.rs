//! Why a run ends without an answer: the message and the exit code.

use std::path::Path;
use std::process::ExitCode;

use crate::answers::bound::Bound;
use crate::document::format::{count, visible};
use crate::error::Error;
use crate::run::inputs::ALIKE;
use crate::run::{Completeness, NotChosen, RunError, WindowError};
use clap::CommandFactory;

use super::args::Cli;
use super::failure::Failure;
use super::notes::window_text;
use super::terminal::{note, say};

/// The end of a run without an answer. Each variant has its own exit code.
#[derive(Debug)]
pub(crate) enum Stop {
    /// 1: something failed.
    Failed(Failure),
    /// 2: the arguments are incomplete, or contradict each other or the trace.
    Usage(String),
    /// 3: the trace does not have what was asked for.
    NotFound(String),
    /// 4: the job hangs.
    Hung(String),
    /// 5: a trace costs more than the arguments allow.
    Exceeded(String),
    /// 6: ranks are missing from the answer, or a damaged file may lack anything. Empty if the answer itself reports it.
    Incomplete(String),
    /// 7: the two sides of a diff are of other ranks or steps, or damaged, so that a growth says nothing.
    NotComparable(String),
    /// The exit code of the job that was recorded.
    Job(u8),
    /// 130: the user left the picker.
    Left,
    /// 130: the user interrupted the run.
    Interrupted,
    /// 0: nobody reads the output any more, as with `| head -1`.
    OutputClosed,
    /// 0: a help text was asked for, and is written.
    Helped,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error.into())
    }
}

impl From<RunError> for Stop {
    fn from(error: RunError) -> Self {
        let nothing = |error: &RunError| Stop::NotFound(format!("Nothing found: {error}."));
        match error {
            RunError::Window { trace, window } => window_stop(trace.as_deref(), &window),
            RunError::NoCollective { is_damaged } => nothing(&error).or_damaged(is_damaged),
            RunError::NoParts => nothing(&error),
            RunError::RecordsWithoutParts => {
                Stop::NotFound(format!("Nothing found: {error}. `nccl-stacks ranks` compares when ranks call NCCL"))
            }
            RunError::GivenRank(_) | RunError::PartsBesideTraces { .. } => Stop::Usage(error.to_string()),
            RunError::NotChosen(NotChosen::Left) => Stop::Left,
            RunError::NotChosen(NotChosen::NotShown(why)) => {
                Stop::Usage(format!("the list cannot be shown ({why}); choose with --index"))
            }
            RunError::NoSuchFile { path, near } => match command_meant(&path) {
                Some(command) => Failure::NoSuchCommand { path, command }.into(),
                None => Failure::Run(RunError::NoSuchFile { path, near }).into(),
            },
            error => Stop::Failed(error.into()),
        }
    }
}

/// The message for a missing window, with the options that help.
fn window_stop(trace: Option<&str>, window: &WindowError) -> Stop {
    let of_trace = |message: String| match trace {
        Some(trace) => format!("{}: {message}", visible(trace)),
        None => message,
    };
    match window {
        WindowError::NoSteps
        | WindowError::NoSuchStep { .. }
        | WindowError::NoSuchFunction { .. }
        | WindowError::NoSuchIndex { .. }
        | WindowError::BeforeTrace { .. } => Stop::NotFound(of_trace(window_text(window))),
        _ => Stop::Usage(of_trace(window_text(window))),
    }
}

/// The command that was probably meant by a word that is not a file. A command is one plain word, so `traces/rank1.jsno` does not suggest `ranks`.
fn command_meant(path: &Path) -> Option<String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_word = path.as_os_str() == &*name && !name.contains('.');
    let command = Cli::command();
    let mut commands = command.get_subcommands().map(clap::Command::get_name);
    commands.find(|command| is_word && strsim::jaro_winkler(command, &name) > ALIKE).map(str::to_owned)
}

impl Stop {
    /// The end of a run whose answer was printed. `is_damaged`: files are damaged so that it is unknown what is missing, as the answer has said.
    pub(crate) fn unless(is_damaged: bool) -> Result<(), Self> {
        if is_damaged { Err(Stop::Incomplete(String::new())) } else { Ok(()) }
    }

    /// The end of a run whose answer exceeds bounds, if these lines say so; else as [`Stop::unless`].
    pub(crate) fn if_exceeded(lines: &[String], is_damaged: bool) -> Result<(), Self> {
        if lines.is_empty() { Stop::unless(is_damaged) } else { Err(Stop::Exceeded(lines.join("\n"))) }
    }

    /// The end of a run whose answer has nothing that a bound could be on.
    pub(crate) fn void(bound: &Bound, why: &str) -> Self {
        Stop::NotFound(format!("Nothing to bound: --fail-if '{}': {why}", bound.text))
    }

    /// The same if nothing was found, because it may have been in the missing part.
    pub(crate) fn or_damaged(self, is_damaged: bool) -> Self {
        match self {
            Stop::NotFound(message) if is_damaged => Stop::Incomplete(message),
            other => other,
        }
    }

    /// Adds to how an answer ended which ranks are missing, of `expect` if that is given. If it failed, its exit code stays.
    pub(crate) fn if_incomplete(
        answered: Result<(), Self>,
        completeness: &Completeness,
        expect: Option<u32>,
    ) -> Result<(), Self> {
        let lacks = completeness.lacks(expect).join(". ");
        match (&answered, expect) {
            (Ok(()), _) if !lacks.is_empty() => return Err(Stop::Incomplete(lacks)),
            (Ok(()), Some(size)) => note(&format!("All {} ranks are here", count(u64::from(size)))),
            (Err(_), _) if !lacks.is_empty() => say(&lacks),
            _ => {}
        }
        answered
    }

    pub(crate) fn message(&self) -> Option<String> {
        match self {
            Stop::Failed(failure) => Some(format!("error: {}", harmless(&failure.to_string()))),
            Stop::Usage(message) => Some(format!("error: {message}")),
            // Where it is empty, the printed answer already has it.
            Stop::NotFound(message)
            | Stop::Hung(message)
            | Stop::Exceeded(message)
            | Stop::NotComparable(message)
            | Stop::Incomplete(message) => Some(message.clone()).filter(|message| !message.is_empty()),
            Stop::Interrupted => Some("Interrupted.".to_owned()),
            Stop::Left => Some("Nothing was chosen.".to_owned()),
            Stop::OutputClosed | Stop::Helped | Stop::Job(_) => None,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Stop::OutputClosed | Stop::Helped => 0,
            Stop::Job(code) => *code,
            Stop::Failed(_) => 1,
            Stop::Usage(_) => 2,
            Stop::NotFound(_) => 3,
            Stop::Hung(_) => 4,
            Stop::Exceeded(_) => 5,
            Stop::Incomplete(_) => 6,
            Stop::NotComparable(_) => 7,
            Stop::Left | Stop::Interrupted => 130,
        })
    }
}

/// A message without control characters, because file names in an archive are arbitrary.
fn harmless(message: &str) -> String {
    message.lines().map(visible).collect::<Vec<_>>().join("\n")
}
