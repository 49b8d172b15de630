//! `nccl-stacks record`: runs a job with the recorder in it, and reports what was recorded.
//!
//! The recorder is a library inside the job's processes. This command only prepares the environment that loads it; `--print-env` prints that
//! environment for launchers that cannot be wrapped. The job keeps its standard output, where nothing of ours is printed, and its exit code. If the
//! recording cannot be prepared, the job runs all the same, unrecorded.

mod collect;
mod job;
mod keep;
mod library;
mod setup;
mod trust;
mod verdicts;

use std::io::Write;

use crate::document::format::shell_word;

use super::args::Record;
use super::output::Output;
use super::stop::Stop;
use super::terminal::say;
use setup::Setup;

pub(super) fn run(args: &Record) -> Result<(), Stop> {
    if let (Some(folder), Some(output)) = (&args.collect, &args.output) {
        return collect::run(folder, output);
    }
    let setup = Setup::new(args);
    if args.print_env {
        let setup = setup?;
        let mut text = Vec::new();
        setup.variables.iter().for_each(|(name, value)| {
            // Writing into memory cannot fail.
            let _ = writeln!(text, "export {name}={}", shell_word(&value.to_string_lossy()));
        });
        return Output::Stdout.finish(&text);
    }
    let setup = setup.map_err(|stop| say(&unrecorded(&stop))).ok();
    if let Some(setup) = &setup {
        keep::prune(&setup.folder, args.keep, args.max_size);
    }
    let (end, not_started) = job::run(&args.command, setup.as_ref().map_or(&[][..], |setup| &setup.variables))?;
    if let Some(failure) = not_started {
        say(&Stop::from(failure).message().unwrap_or_default());
        return Err(Stop::Job(end));
    }
    if let Some(setup) = setup.filter(|_| !args.no_report) {
        verdicts::say_all(&setup.folder);
    }
    match end {
        0 => Ok(()),
        code => Err(Stop::Job(code)),
    }
}

fn unrecorded(stop: &Stop) -> String {
    let why = stop.message().unwrap_or_default();
    format!("The job runs unrecorded: {}", why.strip_prefix("error: ").unwrap_or(&why))
}
