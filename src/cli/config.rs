//! The arguments of the process, with the defaults of a config file.
//!
//! A config file has one option a line, as a user types it. Its lines go before the typed arguments, so clap parses both alike, and a typed
//! option may require one of the file. The command line wins: a line is left out if a typed option answers the same question, or if the
//! arguments are right without it and wrong with it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches, ValueHint};

use crate::document::Form;
use crate::error::Error;

use super::args::{Cli, SHORT_HELP};
use super::failure::Failure;
use super::output::not_written;
use super::stop::Stop;
use super::terminal::{Settings, check_stdout};
use super::{notes, terminal};

/// The file's name in a project's folder, and in the user's settings.
const NAME: &str = "nccl-stacks.conf";

/// Options that answer the same question: which kernels.
const KERNELS: &[&str] = &["kernel_name", "family"];

/// Options that say which form an answer has.
const FORMS: &[&str] = &["format", "json"];

/// Parses the typed arguments. Like clap, ends the process if they are wrong.
pub(super) fn arguments(typed: &[OsString]) -> Result<Cli, Stop> {
    let mut program = Cli::command();
    if typed.len() == 2 && typed[1] == "-h" {
        program = program.override_help(SHORT_HELP);
    }
    // Which options are typed is known even if one of them is wrong. The second parse reports that.
    let matches = program.clone().ignore_errors(true).try_get_matches_from(typed).map_err(ended)?;
    let (command, matches) = matches.subcommand().map_or((None, &matches), |(name, matches)| (Some(name), matches));
    let Some(path) = find(matches) else {
        let (cli, matches) = parse(typed).map_err(ended)?;
        set_loudness(&matches);
        return Ok(cli);
    };
    program.build();
    let running = command.and_then(|name| program.find_subcommand(name)).unwrap_or(&program);
    let command_line = CommandLine { program: &program, running, typed, matches };
    let taken = command_line.taken(&path)?;
    // If the arguments are wrong even without the file, that error is reported.
    let all = command_line.with(&taken);
    let (cli, matches) = parse(&all).map_err(|e| ended(parse(typed).err().unwrap_or(e)))?;
    // The file is reported before its own --quiet takes effect: only a typed one hides it.
    if !taken.iter().any(|option| option == "--quiet") {
        set_loudness(&matches);
    }
    notes::config(&path, taken.iter().map(|option| name(option)));
    set_loudness(&matches);
    Ok(cli)
}

/// A help text is an answer: what cannot be written is an error.
fn ended(error: clap::Error) -> Stop {
    if error.use_stderr() {
        error.exit()
    }
    check_stdout().and_then(|()| error.print()).map_or_else(not_written, |()| Stop::Helped)
}

fn parse(words: &[OsString]) -> Result<(Cli, ArgMatches), clap::Error> {
    let program = Cli::command();
    // A value such as -1 is wrong for its option, and no option itself, for which clap would give a tip.
    let matches = match program.clone().try_get_matches_from(words) {
        Err(_) if words.iter().any(is_negative) => {
            program.clone().try_get_matches_from(with_negatives(&program, words))?
        }
        matches => matches?,
    };
    Ok((Cli::from_arg_matches(&matches)?, matches))
}

fn is_negative(word: &OsString) -> bool {
    matches!(word.as_encoded_bytes(), [b'-', second, ..] if second.is_ascii_digit())
}

/// The words, with negative numbers as values of the options before them: `--index=-1`.
fn with_negatives(program: &Command, words: &[OsString]) -> Vec<OsString> {
    let commands = || std::iter::once(program).chain(program.get_subcommands());
    let takes_value = |word: &OsString| {
        let name = word.to_str().and_then(|word| word.strip_prefix("--"));
        let mut options = commands().flat_map(Command::get_arguments).filter(|arg| arg.get_action().takes_values());
        name.is_some_and(|name| options.any(|arg| arg.get_long() == Some(name)))
    };
    let mut joined: Vec<OsString> = Vec::new();
    for word in words {
        match joined.last_mut() {
            Some(option) if is_negative(word) && takes_value(option) => {
                option.push("=");
                option.push(word);
            }
            _ => joined.push(word.clone()),
        }
    }
    joined
}

/// Sets how much is printed beside the answer, and whether CSV is guarded for spreadsheets.
fn set_loudness(matches: &ArgMatches) {
    let matches = matches.subcommand().map_or(matches, |(_, matches)| matches);
    // Commands that read no trace lack these options.
    let is_on = |id| matches.try_get_one(id).is_ok_and(|is_on| is_on == Some(&true));
    terminal::set(Settings {
        has_pager: !is_on("no_pager"),
        guards_csv: is_on("guard_csv"),
        is_quiet: is_on("quiet"),
        is_verbose: is_on("verbose"),
    });
}

/// The first of: the file of --config, of the environment, in the current folder, in the user's settings. `None` if there is none, if the
/// arguments or the environment turn it off, and for commands that read no trace.
fn find(matches: &ArgMatches) -> Option<PathBuf> {
    matches.try_contains_id("config").ok()?;
    // If the arguments are wrong, some switches have no value.
    if matches.get_one("no_config").is_some_and(|is_typed| *is_typed) {
        return None;
    }
    if let Some(path) = matches.get_one::<PathBuf>("config") {
        return Some(path.clone());
    }
    if let Some(path) = env::var_os("NCCL_STACKS_CONFIG") {
        return (!path.is_empty()).then(|| path.into());
    }
    let places = [Some(PathBuf::from(NAME)), folder().map(|folder| folder.join(NAME))];
    places.into_iter().flatten().find(|path| path.is_file())
}

/// The folder of the user's settings.
pub(super) fn folder() -> Option<PathBuf> {
    own_folder("XDG_CONFIG_HOME", ".config")
}

/// The program's folder in one of the user's. The XDG specification says to ignore relative folders.
pub(super) fn own_folder(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    Some(absolute(variable).or_else(|| Some(absolute("HOME")?.join(below_home)))?.join("nccl-stacks"))
}

/// The command line to which a file adds defaults.
struct CommandLine<'a> {
    program: &'a Command,
    running: &'a Command,
    typed: &'a [OsString],
    matches: &'a ArgMatches,
}

impl CommandLine<'_> {
    /// The options of a file that apply here. All of the file is checked, so that a mistake is reported at once.
    fn taken(&self, path: &Path) -> Result<Vec<String>, Failure> {
        let file = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|source| Error::Read { name: file.clone(), source })?;
        let is_right = parse(self.typed).is_ok();
        let mut taken = Vec::new();
        for (line, option) in (1..).zip(text.lines().map(str::trim)) {
            if option.is_empty() || option.starts_with('#') {
                continue;
            }
            let wrong = |message| Failure::Config { name: file.clone(), line, message };
            let Some(arg) = self.arg(option).map_err(wrong)? else { continue };
            let alone = parse(&self.with(&[option.to_owned()])).err();
            let contradicts = |error: &clap::Error| error.kind() == ErrorKind::ArgumentConflict;
            if self.is_answered(arg) || alone.is_some_and(|error| is_right || contradicts(&error)) {
                continue;
            }
            taken.push(option.to_owned());
            if let Some(error) = parse(&self.with(&taken)).err().filter(contradicts) {
                return Err(wrong(message(&error)));
            }
        }
        Ok(taken)
    }

    /// The running command's option of a line. `None` if only other commands have that option, or only they have the value.
    fn arg(&self, option: &str) -> Result<Option<&Arg>, String> {
        if !option.starts_with("--") {
            return Err(format!("{option}: expected an option with its value, such as --sort=gpu"));
        }
        let commands = || std::iter::once(self.program).chain(self.program.get_subcommands()).filter(reads_traces);
        if commands().flat_map(Command::get_arguments).any(|arg| is_named(arg, option) && is_of_one_run(arg)) {
            return Err(format!(
                "--{} is not for a config file: it names a file of one run, or asks about the program",
                name(option)
            ));
        }
        match refusal(self.running, option) {
            None => Ok(self.running.get_arguments().find(|arg| is_named(arg, option))),
            Some(_) if commands().any(|command| refusal(command, option).is_none()) => Ok(None),
            Some(error) => Err(message(&error)),
        }
    }

    /// Whether a typed option answers the question of an option.
    fn is_answered(&self, arg: &Arg) -> bool {
        let id = arg.get_id().as_str();
        let is_typed = |id: &str| {
            self.matches.try_contains_id(id).is_ok() && self.matches.value_source(id) == Some(ValueSource::CommandLine)
        };
        let is_of_group = |name: &str| {
            self.running.get_groups().any(|group| group.get_id() == name && group.get_args().any(|member| member == id))
        };
        let chooses = is_of_group("Selection") || is_of_group("Span");
        // Without --trace, the whole trace is exported, and statements of the user's own have no window.
        let is_elsewhere = match self.running.get_name() {
            "export" => chooses && !is_typed("cut"),
            "sql" => chooses && !is_typed("query"),
            _ => false,
        };
        // The name of the output says which form it has.
        let is_named = FORMS.contains(&id)
            && is_typed("output")
            && self
                .matches
                .get_one::<PathBuf>("output")
                .is_some_and(|path| Form::of_file(&path.to_string_lossy()).is_some());
        is_elsewhere || is_named || is_typed(id) || KERNELS.contains(&id) && KERNELS.iter().any(|id| is_typed(id))
    }

    /// The typed arguments, with these options before them.
    fn with(&self, options: &[String]) -> Vec<OsString> {
        let mut all = self.typed.to_vec();
        // A command must stay the first word: after options of the main job, it would be taken for a trace.
        let at = if self.running.get_name() == self.program.get_name() { 1 } else { 2 };
        let at = all.len().min(at);
        all.splice(at..at, options.iter().map(OsString::from));
        all
    }
}

/// Whether a command reads traces, and with them a config file.
fn reads_traces(command: &&Command) -> bool {
    command.get_arguments().any(|arg| arg.get_id() == "config")
}

/// The name of an option in a line, such as `sort` in `--sort=gpu`.
fn name(option: &str) -> &str {
    option.trim_start_matches('-').split('=').next().unwrap_or_default()
}

fn is_named(arg: &Arg, option: &str) -> bool {
    arg.get_long() == Some(name(option))
}

/// Whether an option is for the command line alone. Otherwise a file in the current folder could choose which file is written. Families of the
/// user's own are for all runs.
fn is_of_one_run(arg: &Arg) -> bool {
    let is_path = matches!(arg.get_value_hint(), ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath);
    let is_help = matches!(arg.get_action(), ArgAction::Help | ArgAction::Version);
    is_help || is_path && arg.get_id() != "family_file"
}

/// Why a command does not take an option with its value; `None` if it does.
fn refusal(command: &Command, option: &str) -> Option<clap::Error> {
    let error = command.clone().try_get_matches_from([command.get_name(), option]).err()?;
    // These are about what else is typed.
    let is_of_others = matches!(error.kind(), ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict);
    (!is_of_others).then_some(error)
}

/// What is wrong, in the words of clap, without the usage.
fn message(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.split("\n\nUsage:").next().and_then(|text| text.split("\n\nFor more").next()).unwrap_or_default();
    text.trim_start_matches("error: ").to_owned()
}
