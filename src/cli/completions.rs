//! `nccl-stacks completions`: shell completion scripts for the program's options.

use clap::{Arg, Command, CommandFactory, ValueHint};
use clap_complete::Shell;

use super::args::{Cli, Completions};
use super::failure::Failure;
use super::output::Output;
use super::stop::Stop;

/// The program's name.
const NAME: &str = env!("CARGO_PKG_NAME");

pub(super) fn run(args: &Completions) -> Result<(), Stop> {
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
