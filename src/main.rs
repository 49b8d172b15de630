//! The program: [`nccl_stacks::cli`] with the arguments of the process.

fn main() -> std::process::ExitCode {
    nccl_stacks::cli::main()
}
