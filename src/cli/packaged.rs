//! What is installed beside the program: the completion scripts of shells (`nccl-stacks completions`), and the manual (`nccl-stacks man`), with a
//! page for the program and one for each command.

use std::fs;
use std::path::Path;

use clap::{Arg, Command, CommandFactory, ValueHint};
use clap_complete::Shell;

use crate::error::Error;

use super::args::{Cli, Completions, Man};
use super::failure::Failure;
use super::output::Output;
use super::stop::Stop;

const NAME: &str = env!("CARGO_PKG_NAME");

pub(super) fn completions(args: &Completions) -> Result<(), Stop> {
    let program = Cli::command();
    // Without the main job's traces: the scripts expect a command after them, and here the first word is either a trace or a command.
    let options = program.get_arguments().filter(|arg| !arg.is_positional());
    let mut command =
        Command::new(NAME).version(env!("CARGO_PKG_VERSION")).args(options).subcommands(program.get_subcommands());
    command = command.mut_args(hint).mut_subcommands(|command| command.mut_args(hint));
    // Not directly to standard output: clap panics if the write fails.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, NAME, &mut script);
    let script = String::from_utf8(script).map_err(|e| Failure::Form { source: std::io::Error::other(e) })?;
    Output::Stdout.finish(whole(args.shell, script).as_bytes())
}

/// Shells offer files for values that they know nothing about. Clap knows which values are paths; all others are numbers, times, or names in
/// the trace, for which nothing is offered.
fn hint(arg: Arg) -> Arg {
    let is_free = arg.get_action().takes_values() && arg.get_possible_values().is_empty();
    if is_free && arg.get_value_hint() == ValueHint::Unknown { arg.value_hint(ValueHint::Other) } else { arg }
}

/// The script with what clap_complete leaves out for a program like this one.
fn whole(shell: Shell, script: String) -> String {
    match shell {
        // Because of the hyphen in the program's name, a variable is `nccl__stacks__subcmd__sql` and compared with another word.
        Shell::Bash => script.replace("nccl__subcmd__stacks", "nccl__stacks"),
        // The first word may also be a trace.
        Shell::Zsh => script.replacen("\":: :_nccl-stacks_commands\"", "\":: :{_nccl-stacks_commands; _files}\"", 1),
        _ => script,
    }
}

pub(super) fn man(args: &Man) -> Result<(), Stop> {
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
