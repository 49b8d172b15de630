//! The `nccl-stacks` program: the command line around the library of the same name, of which it uses the public API alone.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
