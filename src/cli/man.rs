//! `nccl-stacks man`: the manual, one page for the program and one for each command, for packagers and `man`.
//!
//! The pages are generated from the text of `--help`. Sections that only man pages have are laid out here: clap has the examples before a
//! command's help, and the exit codes after it.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::builder::PossibleValue;
use clap::{Arg, Command, CommandFactory};
use clap_mangen::roff::{Roff, bold, roman};

use crate::error::Error;

use super::args::{Cli, Man};
use super::config;
use super::failure::Failure;
use super::output::Output;
use super::stop::Stop;

/// The exit codes and what they mean.
const EXIT_STATUS: &[(&str, &str)] = &[
    ("0", "Success, also if the reader of the output closed it early."),
    (
        "1",
        "Something failed: a file cannot be read or written, a query or a config file is wrong, or a trace is damaged and --strict was given.",
    ),
    ("2", "Wrong usage: the arguments are incomplete, or contradict each other or the trace."),
    ("3", "Nothing was found."),
    ("4", "The job hangs, according to the command hang."),
    ("5", "A bound of --fail-if is exceeded."),
    (
        "6",
        "Ranks or parts are missing; or a file is cut off or corrupt, so that it is unknown what is missing. The answer covers the rest.",
    ),
    ("130", "The user left the picker, or interrupted the run."),
];

/// The environment variables that the program reads.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("NCCL_STACKS_CONFIG", "The config file. Empty: none is read."),
    ("XDG_CONFIG_HOME", "The folder of settings, in place of ~/.config."),
    ("NO_COLOR", "Not empty: no colours."),
];

/// The description of config files.
const CONFIG_FILE: &[&str] = &[
    "A config file has your own kernel families, and defaults for the options of the program and of its commands. It \
     is the file that --config names; else the one that $NCCL_STACKS_CONFIG names; else nccl-stacks.toml in the working directory; else \
     nccl-stacks/nccl-stacks.toml in $XDG_CONFIG_HOME or ~/.config. A line on standard error says which one was read, and which \
     options were taken from it.",
    "The command line wins: a list on it replaces the list in the file, and --no-strict, --no-interactive and --no-exact-names turn \
     off what the file turns on. Keys are the names of options; options that name a file or a time of one run cannot be \
     given. A command takes the options that it has, with the values that it knows; a table with its name is for it alone.",
];

/// An example of a config file.
const CONFIG_EXAMPLE: &str = "\
[families]
mine = [\"myAllReduce*\", \"/(?i)ring/\"]

[defaults]
family = [\"nccl\", \"mine\"]
stack-depth = 20
sort = \"exposed\"

[defaults.sql]
format = \"table\"";

pub(super) fn run(args: &Man) -> Result<(), Stop> {
    let mut command = Cli::command();
    // The commands get the program's name, as in nccl-stacks-sql.
    command.build();
    if let Some(folder) = &args.dir {
        return write_all(&command, folder);
    }
    let page = match &args.page {
        None => &command,
        Some(name) => command.find_subcommand(name).ok_or_else(|| {
            let known: Vec<&str> = commands(&command).map(Command::get_name).collect();
            Stop::Usage(format!("man {name}: there is no such command; the commands are {}", known.join(", ")))
        })?,
    };
    Output::Stdout.finish(&text(&command, page)?)
}

fn write_all(command: &Command, folder: &Path) -> Result<(), Stop> {
    fs::create_dir_all(folder).map_err(|source| Error::Write { path: folder.to_owned(), source })?;
    for page in std::iter::once(command).chain(commands(command)) {
        let path = folder.join(format!("{}.1", full_name(page)));
        // No trace is read, so none can be overwritten.
        Output::open(Some(&path), &[])?.finish(&text(command, page)?)?;
    }
    Ok(())
}

/// The commands that have a page: all but the one that clap adds for help.
fn commands(program: &Command) -> impl Iterator<Item = &Command> {
    program.get_subcommands().filter(|command| command.get_name() != "help" && !command.is_hide_set())
}

/// The full name of a command, such as `nccl-stacks-sql`.
fn full_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// The page of a command, which is the program or one of its commands.
fn text(program: &Command, command: &Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    write_page(program, command, &mut page).map_err(|source| Failure::Form { source })?;
    Ok(page)
}

fn write_page(program: &Command, command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let version = format!("{} {}", program.get_name(), program.get_version().unwrap_or_default());
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let man = clap_mangen::Man::new(command.clone().mut_args(values_in_help).override_usage(usage));
    // Written by hand, because clap_mangen drops empty words. No date, so that the same source gives the same page.
    let title = full_name(command).to_uppercase();
    writeln!(page, ".TH \"{title}\" 1 \"\" \"{version}\" \"User Commands\"")?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    let mut before = Roff::default();
    examples(&mut before, command);
    before.to_writer(page)?;
    man.render_options_section(page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(page)?;
    }
    let mut after = Roff::default();
    if config::reads_traces(command) {
        config_file(&mut after);
    }
    exit_status(&mut after);
    notes(&mut after, program);
    environment(&mut after);
    see_also(&mut after, program, command);
    after.to_writer(page)
}

/// Moves the possible values to the end of an option's help, as in `--help`; clap_mangen gives each a paragraph.
fn values_in_help(arg: Arg) -> Arg {
    let values = arg.get_possible_values();
    if values.is_empty() || arg.is_hide_possible_values_set() || !arg.get_action().takes_values() {
        return arg;
    }
    let names: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let help = format!("{help} [possible values: {}]", names.join(", "));
    arg.help(help).hide_possible_values(true)
}

/// The examples before a command's help: sentences, each followed by commands that are indented further.
fn examples(roff: &mut Roff, command: &Command) {
    let text = command.get_before_long_help().or(command.get_before_help());
    let Some(text) = text.map(ToString::to_string) else { return };
    roff.control("SH", ["EXAMPLES"]);
    for (i, line) in text.lines().skip(1).enumerate() {
        if let Some(typed) = line.strip_prefix("    ") {
            roff.control("RS", ["4"]).control("nf", []).text([bold(typed)]).control("fi", []).control("RE", []);
            continue;
        }
        if i > 0 {
            roff.control("PP", []);
        }
        roff.text([roman(line.trim())]);
    }
}

fn exit_status(roff: &mut Roff) {
    roff.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in EXIT_STATUS {
        roff.control("TP", []).text([bold(*code)]).text([roman(*meaning)]);
    }
}

/// The notes on times, which `--help` prints after the exit codes.
fn notes(roff: &mut Roff, program: &Command) {
    let text = program.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    roff.control("SH", ["NOTES"]);
    for line in text.lines().filter(|line| !line.starts_with("Exit codes:")) {
        roff.text([roman(line)]);
    }
}

fn config_file(roff: &mut Roff) {
    roff.control("SH", ["CONFIG FILE"]);
    for (i, paragraph) in CONFIG_FILE.iter().enumerate() {
        if i > 0 {
            roff.control("PP", []);
        }
        roff.text([roman(*paragraph)]);
    }
    roff.control("PP", []).text([roman("For example:")]).control("RS", ["4"]).control("nf", []);
    CONFIG_EXAMPLE.lines().for_each(|line| {
        roff.text([roman(line)]);
    });
    roff.control("fi", []).control("RE", []);
}

fn environment(roff: &mut Roff) {
    roff.control("SH", ["ENVIRONMENT"]);
    for (name, meaning) in ENVIRONMENT {
        roff.control("TP", []).text([bold(*name)]).text([roman(*meaning)]);
    }
}

/// The list of the other pages.
fn see_also(roff: &mut Roff, program: &Command, command: &Command) {
    roff.control("SH", ["SEE ALSO"]);
    let all = std::iter::once(program).chain(commands(program));
    let others: Vec<&str> = all.map(full_name).filter(|name| *name != full_name(command)).collect();
    for (i, name) in others.iter().enumerate() {
        let comma = if i + 1 < others.len() { "," } else { "" };
        roff.text([bold(*name), roman(format!("(1){comma}"))]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The help lists the exit codes in one sentence, the page in a section.
    #[test]
    fn the_page_has_the_exit_codes_of_the_help() {
        let help = Cli::command().get_after_long_help().unwrap().to_string();
        let line = help.lines().find_map(|line| line.strip_prefix("Exit codes: ")).unwrap();
        let codes: Vec<&str> = line.split(", ").map(|code| code.split(' ').next().unwrap()).collect();
        assert_eq!(codes, EXIT_STATUS.iter().map(|(code, _)| *code).collect::<Vec<_>>());
    }
}
