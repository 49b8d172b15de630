//! `nccl-stacks completions`: shell completion scripts for the program's options.
//!
//! clap_complete's scripts take the first word that is not an option as a command. Here it is usually a trace, with the main job's options
//! after it, so the scripts are patched. A patch whose text is not found changes nothing; the tests run the shells.

use clap::{Arg, CommandFactory, ValueHint};
use clap_complete::Shell;

use super::args::{Cli, Completions};
use super::failure::Failure;
use super::output::Output;
use super::stop::Stop;

pub(super) fn run(args: &Completions) -> Result<(), Stop> {
    let command = Cli::command();
    let name = command.get_name().to_owned();
    let mut command = command.mut_args(hint).mut_subcommands(|command| command.mut_args(hint));
    let commands: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    // Not directly to standard output: clap panics if the write fails.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    let script = String::from_utf8(script).map_err(|e| Failure::Form { source: std::io::Error::other(e) })?;
    let script = match args.shell {
        Shell::Bash => bash(&script),
        Shell::Fish => fish(&script, &commands),
        Shell::Zsh => zsh(&script, &commands),
        Shell::Elvish => elvish(&script, &commands),
        Shell::PowerShell => powershell(&script, &commands),
        _ => script,
    };
    Output::Stdout.finish(script.as_bytes())
}

/// Shells offer files for values that they know nothing about. Clap knows which values are paths; all others are numbers, times, or names in
/// the trace, for which nothing is offered.
fn hint(arg: Arg) -> Arg {
    let is_free = arg.get_action().takes_values() && arg.get_possible_values().is_empty();
    if is_free && arg.get_value_hint() == ValueHint::Unknown { arg.value_hint(ValueHint::Other) } else { arg }
}

/// The script sets a variable to `nccl__stacks__subcmd__sql` and then compares it with `nccl__subcmd__stacks__subcmd__sql`, because of
/// the hyphen in the program's name.
fn bash(script: &str) -> String {
    script.replace("nccl__subcmd__stacks", "nccl__stacks")
}

/// The main job's options are valid wherever no command was typed, not only before the first word.
fn fish(script: &str, commands: &[String]) -> String {
    let before_any_word = "-n \"__fish_nccl_stacks_needs_command\" -";
    let without_command = format!("-n \"not __fish_seen_subcommand_from {}\" -", commands.join(" "));
    let lines = script.split_inclusive('\n').map(|line| {
        let is_option =
            !line.contains(&format!("{before_any_word}a")) && !line.contains(&format!("{before_any_word}f"));
        if is_option { line.replace(before_any_word, &without_command) } else { line.to_owned() }
    });
    lines.collect()
}

/// The script expects a trace and then a command. Here the first word is either a command or a trace.
fn zsh(script: &str, commands: &[String]) -> String {
    const MAIN: &str = "_nccl-stacks() {\n";
    const FIRST_WORD: &str = "\
_nccl-stacks_first_word() {
    (( CURRENT == 2 )) && _nccl-stacks_commands
    _files
}

";
    const OPTIONS: &str = "    _arguments \"${_arguments_options[@]}\" : \\\n";
    const COMMAND_LAST: &str = "\":: :_nccl-stacks_commands\" \\\n\"*::: :->nccl-stacks\" \\\n&& ret=0\n";
    let command_first = format!(
        "    if (( CURRENT > 2 )) && [[ $words[2] == ({}) ]]; then
        line=('' \"$words[2]\")
        words=(\"${{(@)words[3,-1]}}\")
        (( CURRENT -= 2 ))
        state=nccl-stacks
    else
{OPTIONS}",
        commands.join("|")
    );
    let (before, after) = script.split_once("':trace -- ").unwrap_or((script, ""));
    let after =
        after.replacen(":_files'", ":_nccl-stacks_first_word'", 1).replacen(COMMAND_LAST, "&& ret=0\n    fi\n", 1);
    let before = before.replacen(OPTIONS, &command_first, 1).replacen(MAIN, &format!("{FIRST_WORD}{MAIN}"), 1);
    format!("{before}':trace -- {after}")
}

/// The script takes all words before an option for the name of a command. Only commands belong to that name.
fn elvish(script: &str, commands: &[String]) -> String {
    let joined = "        set command = $command';'$word\n";
    let only_commands = format!(
        "        if (not (builtin:has-value [{}] $word)) {{
            break
        }}
{joined}",
        commands.join(" ")
    );
    script.replacen(joined, &only_commands, 1)
}

/// The same patch as for elvish.
fn powershell(script: &str, commands: &[String]) -> String {
    let option = "$element.Value.StartsWith('-') -or\n";
    let indent = " ".repeat(16);
    let only_commands = format!("{option}{indent}$element.Value -notin @('{}') -or\n", commands.join("', '"));
    script.replacen(option, &only_commands, 1)
}
