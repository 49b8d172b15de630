//! The contents of a config file: the user's own families, and defaults for the program's options.
//!
//! The keys and values are those of clap's options, so a new option is automatically a new key. Everything in the file is checked, even what
//! the running command does not use, so that a mistake is reported at once.

use std::ffi::OsString;
use std::fs;
use std::ops::Range;
use std::path::Path;

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command, ValueHint};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::attribution::selection::{OwnFamilies, Pattern};
use crate::error::Error;

use crate::cli::failure::Failure;

/// The contents of a file for the running command.
pub(super) struct Config<'a> {
    pub(super) families: OwnFamilies,
    /// Sorted by key.
    pub(super) defaults: Vec<Default<'a>>,
}

/// A default for an option.
pub(super) struct Default<'a> {
    pub(super) key: String,
    /// The option of the running command.
    pub(super) arg: &'a Arg,
    /// The arguments that a user would type; empty for a switch that is off.
    pub(super) arguments: Vec<OsString>,
}

/// A mistake, and where it is in the file, in bytes.
struct Wrong {
    at: Range<usize>,
    message: String,
}

type Entry<'t, 'i> = (&'t str, Range<usize>, &'t Spanned<DeValue<'i>>);

/// Reads a file for the running command of the program.
pub(super) fn read<'a>(path: &Path, program: &'a Command, running: &'a Command) -> Result<Config<'a>, Failure> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|source| Error::Read { name: name.clone(), source })?;
    parse(&text, program, running).map_err(|wrong| {
        let before = text.get(..wrong.at.start).unwrap_or(&text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let (line, column) = (1 + before.matches('\n').count(), 1 + before[line_start..].chars().count());
        Failure::Config { name, line, column, message: wrong.message }
    })
}

fn parse<'a>(text: &str, program: &'a Command, running: &'a Command) -> Result<Config<'a>, Wrong> {
    let table = DeTable::parse(text)
        .map_err(|e| Wrong { at: e.span().unwrap_or_default(), message: format!("not TOML: {}", e.message()) })?;
    let mut config = Config { families: OwnFamilies::default(), defaults: Vec::new() };
    for (key, at, value) in entries(table.get_ref()) {
        let inner = value.get_ref().as_table();
        match (key, inner) {
            ("families", Some(inner)) => families(inner, &mut config.families)?,
            ("defaults", Some(inner)) => config.defaults = defaults(inner, program, running)?,
            ("families" | "defaults", None) => return wrong(at, format!("{key} is a table: write [{key}]")),
            _ => return wrong(at, format!("{key} is not known; expected [families] or [defaults]")),
        }
    }
    Ok(config)
}

/// The entries of a table in file order, so that the first mistake is reported.
fn entries<'t, 'i>(table: &'t DeTable<'i>) -> Vec<Entry<'t, 'i>> {
    let mut entries: Vec<_> = table.iter().map(|(key, value)| (&**key.get_ref(), key.span(), value)).collect();
    entries.sort_by_key(|(_, at, _)| at.start);
    entries
}

fn wrong<T>(at: Range<usize>, message: String) -> Result<T, Wrong> {
    Err(Wrong { at, message })
}

fn families(table: &DeTable<'_>, families: &mut OwnFamilies) -> Result<(), Wrong> {
    for (name, at, value) in entries(table) {
        let patterns = match value.get_ref() {
            DeValue::Array(patterns) => patterns.iter().collect(),
            _ => vec![value],
        };
        if patterns.is_empty() {
            return wrong(at, format!("{name}: a family needs a pattern, as in {name} = [\"myAllReduce*\"]"));
        }
        for pattern in patterns {
            let Some(text) = pattern.get_ref().as_str() else {
                return wrong(pattern.span(), format!("{name}: expected patterns in quotes"));
            };
            families.add(name, text).map_err(|e| {
                let message = format!("{name}: {text:?}: {}", why_no_pattern(e));
                Wrong { at: pattern.span(), message }
            })?;
        }
    }
    Ok(())
}

/// What is wrong with a pattern, without repeating the pattern.
fn why_no_pattern(error: Error) -> String {
    if let Error::BadPattern { message, .. } = error { message } else { error.to_string() }
}

/// Defaults for all commands, and defaults for one command in a table with its name. The latter win.
fn defaults<'a>(table: &DeTable<'_>, program: &'a Command, running: &'a Command) -> Result<Vec<Default<'a>>, Wrong> {
    let all: Vec<&Command> =
        std::iter::once(program).chain(program.get_subcommands()).filter(|command| reads_traces(command)).collect();
    let (mut of_all, mut of_one) = (Vec::new(), Vec::new());
    for (key, at, value) in entries(table) {
        let Some(inner) = value.get_ref().as_table() else {
            of_all.extend(default((key, at, value), &all, running)?);
            continue;
        };
        let Some(&command) = all[1..].iter().find(|command| command.get_name() == key) else {
            let shown = all[1..].iter().filter(|command| !command.is_hide_set());
            let names: Vec<&str> = shown.map(|command| command.get_name()).collect();
            return wrong(at, format!("no command {key} takes defaults; these do: {}", names.join(", ")));
        };
        for entry in entries(inner) {
            of_one.extend(default(entry, &[command], running)?);
        }
    }
    of_all.retain(|default| of_one.iter().all(|other| other.key != default.key));
    of_all.extend(of_one);
    of_all.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(of_all)
}

/// Whether a command reads traces, and with them a config file.
pub(crate) fn reads_traces(command: &Command) -> bool {
    command.get_arguments().any(|arg| arg.get_id() == "config")
}

/// A default for all of the commands that have the option and accept the value; an error if none does. `None` if the running command is not one
/// of them.
fn default<'a>(
    (key, at, value): Entry<'_, '_>,
    commands: &[&'a Command],
    running: &Command,
) -> Result<Option<Default<'a>>, Wrong> {
    let option =
        |command: &&'a Command| options(command).find(|arg| arg.get_long() == Some(key)).map(|arg| (*command, arg));
    let having: Vec<(&Command, &Arg)> = commands.iter().filter_map(option).collect();
    if having.is_empty() {
        return wrong(at, unknown(key, commands));
    }
    let (mut found, mut first_wrong, mut is_accepted) = (None, None, false);
    for (command, arg) in having {
        let arguments = match why_not(arg) {
            Some(why) => wrong(at.clone(), format!("{key} cannot be a default: {why}")),
            None => arguments(key, arg, value),
        };
        match arguments {
            Ok(arguments) if command.get_name() == running.get_name() => {
                (found, is_accepted) = (Some(Default { key: key.to_owned(), arg, arguments }), true);
            }
            Ok(_) => is_accepted = true,
            Err(wrong) => first_wrong = first_wrong.or(Some(wrong)),
        }
    }
    match first_wrong.filter(|_| !is_accepted) {
        Some(wrong) => Err(wrong),
        None => Ok(found),
    }
}

/// The options in a command's help.
fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| arg.get_long().is_some() && !arg.is_hide_set())
}

/// Why an option cannot have a default; `None` if it can.
fn why_not(arg: &Arg) -> Option<&'static str> {
    match arg.get_id().as_str() {
        "help" | "version" => Some("it asks about the program"),
        "config" | "no_config" => Some("a config file does not say which one is read"),
        "family_file" => Some("families of your own go under [families]"),
        "index" => Some("it counts the slices of one trace"),
        "start_ts" | "duration" => Some("it is a time of one trace"),
        "rank" => Some("it names a file of one run"),
        "expect" => Some("it is the size of one job"),
        "query" | "param" => Some("it is the question of one run"),
        _ if matches!(arg.get_value_hint(), ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath) => {
            Some("it names a file of one run")
        }
        _ => None,
    }
}

fn unknown(key: &str, commands: &[&Command]) -> String {
    let can = commands.iter().flat_map(|command| options(command)).filter(|arg| why_not(arg).is_none());
    let mut known: Vec<&str> = can.filter_map(Arg::get_long).collect();
    known.sort_unstable();
    known.dedup();
    let nearest = known.iter().max_by(|a, b| strsim::jaro_winkler(a, key).total_cmp(&strsim::jaro_winkler(b, key)));
    let nearest = nearest.filter(|name| strsim::jaro_winkler(name, key) > 0.8);
    let meant = nearest.map_or(String::new(), |name| format!(" Did you mean {name}?"));
    format!("there is no option --{key}.{meant} Defaults can be given for {}", known.join(", "))
}

/// The arguments that a user would type for a value.
fn arguments(key: &str, arg: &Arg, value: &Spanned<DeValue<'_>>) -> Result<Vec<OsString>, Wrong> {
    let expected = |at, what: &str| wrong(at, format!("{key}: expected {what}"));
    let values = match (arg.get_action(), value.get_ref()) {
        (ArgAction::SetTrue, DeValue::Boolean(is_on)) => {
            return Ok(is_on.then(|| format!("--{key}").into()).into_iter().collect());
        }
        (ArgAction::SetTrue, _) => return expected(value.span(), "true or false"),
        (ArgAction::Append, DeValue::Array(values)) => values.iter().collect(),
        _ => vec![value],
    };
    let mut arguments = Vec::new();
    for value in values {
        let Some(text) = text(value.get_ref()) else {
            let is_list = matches!(arg.get_action(), ArgAction::Append);
            let what = if is_list { "a quoted string, or a list of them" } else { "a number or a quoted string" };
            return expected(value.span(), what);
        };
        if let Some(why) = why_no_value(arg, &text) {
            return wrong(value.span(), format!("{key} = {text:?}: {why}"));
        }
        arguments.push(format!("--{key}={text}").into());
    }
    Ok(arguments)
}

/// A single value as a user would type it.
fn text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// Why the option's own parser refuses a value. Patterns have their own check, because clap accepts any text for them.
fn why_no_value(arg: &Arg, text: &str) -> Option<String> {
    if arg.get_id() == "kernel_name" {
        return Pattern::parse(text).err().map(why_no_pattern);
    }
    let alone = Arg::new("value").long("value").value_parser(arg.get_value_parser().clone());
    let asked =
        Command::new("config").arg(alone).try_get_matches_from(["config".to_owned(), format!("--value={text}")]);
    let error = asked.err()?;
    match (error.get(ContextKind::ValidValue), std::error::Error::source(&error)) {
        (Some(ContextValue::Strings(known)), _) if !known.is_empty() => {
            Some(format!("expected one of {}", known.join(", ")))
        }
        (_, Some(source)) => Some(source.to_string()),
        _ if text.is_empty() => Some("it is empty".to_owned()),
        _ => Some("this is not a valid value".to_owned()),
    }
}
