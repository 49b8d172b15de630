//! The program around the library: arguments in, exit code out. The only part that knows of a terminal.

mod archives;
pub mod args;
mod captures;
mod completions;
mod config;
mod diff;
mod export;
mod interrupt;
mod kernels;
mod man;
mod notes;
mod opening;
mod output;
mod picker;
mod progress;
mod prompt;
mod question;
mod repair;
mod span;
mod sql;
mod stacks;

use std::io::Write;
use std::process::ExitCode;

use args::{Cli, Command};

use crate::error::Error;
use crate::report::text::visible;

/// Why a run ends without an answer. Each has an exit code of its own.
#[derive(Debug)]
enum Stop {
    /// 1: something failed.
    Failed(Error),
    /// 2: the arguments do not say enough, or contradict each other or the trace.
    Usage(String),
    /// 3: what was asked for is not in the trace.
    NotFound(String),
    /// 5: a trace costs more than the arguments allow.
    Exceeded(String),
    /// 130: the person left the picker.
    Left,
    /// 130: the person stopped what was running.
    Interrupted,
    /// 0: nobody reads the output any more, as after `| head -1`.
    NobodyListens,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

/// Runs the program with the arguments of the process.
pub fn main() -> ExitCode {
    interrupt::survive_size_limits();
    let (message, code) = match config::arguments().and_then(|cli| run(&cli)) {
        Ok(()) | Err(Stop::NobodyListens) => return ExitCode::SUCCESS,
        Err(Stop::Failed(error)) => (format!("error: {}", harmless(&error.to_string())), 1),
        Err(Stop::Usage(message)) => (format!("error: {message}"), 2),
        Err(Stop::NotFound(message)) => (message, 3),
        Err(Stop::Exceeded(message)) => (message, 5),
        Err(Stop::Interrupted) => ("Interrupted.".to_owned(), 130),
        Err(Stop::Left) => ("Nothing was chosen.".to_owned(), 130),
    };
    say(&message);
    ExitCode::from(code)
}

/// Lines without what would steer a terminal: files in an archive may be called anything.
fn harmless(message: &str) -> String {
    message.lines().map(visible).collect::<Vec<_>>().join("\n")
}

/// Does what the arguments ask for.
fn run(cli: &Cli) -> Result<(), Stop> {
    match &cli.command {
        None => stacks::run(&cli.stacks),
        Some(Command::Kernels(args)) => kernels::run(args),
        Some(Command::Diff(args)) => diff::run(args),
        Some(Command::Export(args)) => export::run(args),
        Some(Command::Repair(args)) => repair::run(args),
        Some(Command::Sql(args)) => sql::run(args),
        Some(Command::Completions(args)) => completions::run(args),
        Some(Command::Man(args)) => man::run(args),
    }
}

/// A line for the person, on standard error.
fn say(message: &str) {
    // If standard error is closed there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{}", message.trim_end());
}

/// How many columns the screen has that standard error goes to, if it goes to one.
fn screen_width() -> Option<usize> {
    terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| width.0.into())
}
