//! The `nccl-stacks` program; all of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    nccl_stacks::cli::main()
}
