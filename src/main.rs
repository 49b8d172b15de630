//! The `nccl-stacks` program: a command line over the public API of the library of the same name.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
