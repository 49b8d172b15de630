//! `nccl-stacks man`: the manual, one page for the program and one for each command, for packagers and `man`.

use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory};

use crate::error::Error;

use super::args::{Cli, Man};
use super::failure::Failure;
use super::output::Output;
use super::stop::Stop;

pub(super) fn run(args: &Man) -> Result<(), Stop> {
    let mut program = Cli::command().disable_help_subcommand(true);
    // The commands get the program's name, as in nccl-stacks-sql.
    program.build();
    if let Some(folder) = &args.dir {
        return write_all(&program, folder);
    }
    let command = match &args.page {
        None => &program,
        Some(name) => program.find_subcommand(name).ok_or_else(|| {
            let known: Vec<&str> = program.get_subcommands().map(Command::get_name).collect();
            Stop::Usage(format!("man {name}: there is no such command; the commands are {}", known.join(", ")))
        })?,
    };
    Output::Stdout.finish(&text(&page(command))?)
}

fn write_all(program: &Command, folder: &Path) -> Result<(), Stop> {
    fs::create_dir_all(folder).map_err(|source| Error::Write { path: folder.to_owned(), source })?;
    for page in std::iter::once(program).chain(program.get_subcommands()).map(page) {
        // No trace is read, so none can be overwritten.
        Output::open(Some(&folder.join(page.get_filename())), [""; 0])?.finish(&text(&page)?)?;
    }
    Ok(())
}

/// The page of a command. Its synopsis is the usage of the help, because clap_mangen would list all options. clap_mangen leaves out what is
/// printed before the help, which are the examples, so they go after it.
fn page(command: &Command) -> clap_mangen::Man {
    let examples = command.get_before_long_help().or(command.get_before_help());
    let texts = examples.into_iter().chain(command.get_after_long_help());
    let text: Vec<String> = texts.map(ToString::to_string).collect();
    let usage = command.clone().render_usage().to_string();
    let command = command.clone().override_usage(usage.trim_start_matches("Usage: ").to_owned());
    clap_mangen::Man::new(command.after_long_help(text.join("\n\n")))
}

fn text(page: &clap_mangen::Man) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    page.render(&mut text).map_err(|source| Failure::Form { source })?;
    Ok(text)
}
