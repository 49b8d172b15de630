//! The arguments of the process, with the defaults of a config file.
//!
//! The file's defaults are inserted before the typed arguments. So clap parses both alike, and a typed option may require one from the file. A
//! default is left out if a typed option answers the same question: the command line wins, lists are replaced, and nothing in the file
//! contradicts the command line.

mod file;
mod find;

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory, Parser};

use super::args::{Cli, SHORT_HELP};
use super::notes;
use super::stop::Stop;
use file::Default;
pub(super) use file::reads_traces;
pub(super) use find::folder;

/// Typed options, and the defaults that each replaces because both answer the same question: which kernels, or which window.
const ANSWERED: &[(&str, &[&str])] =
    &[("kernel_name", &["family"]), ("family", &["kernel_name"]), ("start_ts", &["function_name", "interactive"])];

/// Parses the typed arguments. Like clap, ends the process if they are wrong or ask for help.
pub(super) fn arguments(typed: Vec<OsString>) -> Result<Cli, Stop> {
    let mut program = Cli::command();
    if typed.len() == 2 && typed[1] == "-h" {
        program = program.override_help(SHORT_HELP);
    }
    // The second parse reports errors: a typed option may require one from the file.
    let matches = program.clone().ignore_errors(true).try_get_matches_from(&typed).unwrap_or_else(|e| e.exit());
    program.build();
    let (name, matches) = matches.subcommand().map_or((None, &matches), |(name, matches)| (Some(name), matches));
    let running = name.and_then(|name| program.find_subcommand(name)).unwrap_or(&program);
    let Some(path) = find::find(matches) else {
        let mut cli = Cli::parse_from(typed);
        cli.set_loudness();
        return Ok(cli);
    };
    let file = file::read(&path, &program, running)?;
    let taken: Vec<&Default> = file.defaults.iter().filter(|default| is_free(default.arg, running, matches)).collect();
    // A command must stay the first word: after options of the main job, it would be taken for a trace.
    let at = typed.len().min(if name.is_some() { 2 } else { 1 });
    let mut all = typed.clone();
    all.splice(at..at, taken.iter().flat_map(|default| default.arguments.iter().cloned()));
    // If the arguments are wrong even without the file, that error is reported.
    let mut cli = Cli::try_parse_from(all).unwrap_or_else(|e| Cli::try_parse_from(typed).err().unwrap_or(e).exit());
    let given: Vec<&Default> = taken.into_iter().filter(|default| !default.arguments.is_empty()).collect();
    // The file is reported before its own `quiet` takes effect: only a typed `--quiet` hides it.
    if !given.iter().any(|default| default.key == "quiet") {
        cli.set_loudness();
    }
    notes::config(&path, given.iter().map(|default| &*default.key));
    cli.set_loudness();
    if let Some(reading) = cli.reading_mut() {
        reading.families = file.families;
    }
    Ok(cli)
}

/// Whether a default of the file applies: no typed option answers its question or contradicts it.
fn is_free(arg: &Arg, running: &Command, matches: &ArgMatches) -> bool {
    let is_typed =
        |id: &str| matches.try_contains_id(id).is_ok() && matches.value_source(id) == Some(ValueSource::CommandLine);
    let id = arg.get_id().as_str();
    let is_answered = ANSWERED.iter().any(|(typed, answered)| answered.contains(&id) && is_typed(typed));
    let contradicts = |one: &Arg, other: &Arg| running.get_arg_conflicts_with(one).contains(&other);
    let is_contradicted = running
        .get_arguments()
        .filter(|other| is_typed(other.get_id().as_str()))
        .any(|other| contradicts(arg, other) || contradicts(other, arg));
    // Without --trace, the whole trace is exported, and options that choose a part are errors.
    let chooses = running.get_groups().any(|group| {
        ["Selection", "Span"].contains(&group.get_id().as_str()) && group.get_args().any(|member| member == id)
    });
    let is_for_a_part = chooses && running.get_name() == "export" && !is_typed("cut");
    // Statements of the user's own have no window.
    let is_for_a_query = (chooses || id == "limit") && running.get_name() == "sql" && !is_typed("query");
    let is_elsewhere = is_for_a_part || is_for_a_query;
    !is_typed(id) && !is_typed(&format!("no_{id}")) && !is_answered && !is_contradicted && !is_elsewhere
}
