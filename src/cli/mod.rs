//! The command line: arguments in, exit code out. Only this module knows terminals, prompts, flags and exit codes.
//!
//! With the feature `cli` alone, which is on by default: the library needs no crates for terminals.

#[allow(rustdoc::invalid_html_tags, rustdoc::bare_urls, reason = "the comments of options are their help")]
mod args;
mod config;
mod conversions;
mod describe;
mod diff;
mod entries;
mod export;
mod failure;
mod hang;
mod interrupt;
mod notes;
mod opening;
mod output;
mod packaged;
mod pager;
mod part;
mod picker;
mod prompt;
mod query;
mod ranks;
mod record;
mod records;
mod repair;
mod report;
mod session;
mod show;
mod sql;
mod stacks;
mod stop;
mod terminal;
mod typed;
mod watcher;

use std::process::ExitCode;

use args::{Cli, Command};
use stop::Stop;

/// Runs the program with the arguments of the process. `has_stdout`: whether standard output was open when the process began.
pub fn main(has_stdout: bool) -> ExitCode {
    terminal::set_stdout(has_stdout);
    interrupt::survive_size_limits();
    let answered = config::arguments(&std::env::args_os().collect::<Vec<_>>()).and_then(|cli| run(&cli));
    let Err(stop) = answered else { return ExitCode::SUCCESS };
    if let Some(message) = stop.message() {
        terminal::say(&message);
    }
    stop.exit_code()
}

fn run(cli: &Cli) -> Result<(), Stop> {
    // While a job is recorded, signals belong to the job.
    if !matches!(cli.command, Some(Command::Record(_))) {
        interrupt::handle_signals();
    }
    match &cli.command {
        None => stacks::run(&cli.stacks),
        Some(Command::Ranks(args)) => ranks::run(args, false),
        Some(Command::WhatIf(args)) => ranks::what_if(args),
        Some(Command::Part(args)) => part::run(args),
        Some(Command::Record(args)) => record::run(args),
        Some(Command::Records(args)) => records::run(args),
        Some(Command::Hang(args)) => hang::run(args),
        Some(Command::Diff(args)) => diff::run(args),
        Some(Command::Export(args)) => export::run(args),
        Some(Command::Repair(args)) => repair::run(args),
        Some(Command::Report(args)) => report::run(args),
        Some(Command::Describe(args)) => describe::run(args),
        Some(Command::Sql(args)) if !args.query.is_empty() => query::run(args),
        Some(Command::Sql(args)) => sql::run(args),
        Some(Command::Completions(args)) => packaged::completions(args),
        Some(Command::Man(args)) => packaged::man(args),
    }
}
