//! `nccl-stacks hang`: whether a job hangs, on which ranks, in which call.

use std::path::{Path, PathBuf};

use nccl_stacks::analysis::hang::{Outcome, hang};
use nccl_stacks::operation::{Operation, Source};
use nccl_stacks::records::Keep;
use nccl_stacks::report::Screen;
use nccl_stacks::report::format::count;
use nccl_stacks::report::hang::{HangForm, verdict, write};

use super::args::Hang;
use super::failure::Failure;
use super::notes;
use super::output::Output;
use super::recorded;
use super::stop::Stop;
use super::terminal::note;
use super::traces;

/// Of logs so many calls of each rank and communicator are compared, the last ones: a call takes several times the memory of its line, and what
/// hangs is among them.
const LAST: usize = 1 << 14;

pub(super) fn run(args: &Hang) -> Result<(), Stop> {
    let form = if args.json { HangForm::Json } else { HangForm::from(args.format) };
    let files = recorded::expand(&args.files)?;
    let inputs: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let output = Output::open(args.output.as_deref(), &inputs)?;
    let records = recorded::read(&files, Keep::Last(LAST), &args.reading)?;
    let report = hang(&records);
    if report.is_empty() {
        return Err(Stop::NotFound(
            "Nothing found: the records have no operation and no count by which to judge.".to_owned(),
        ));
    }
    let called: u64 = records.calls.iter().map(|calls| calls.count).sum();
    let is_of_log = |operation: &&Operation| matches!(operation.source, Source::DebugLog | Source::Megatrace);
    if called > records.operations.iter().filter(is_of_log).count() as u64 {
        note(&format!("Compared are the last {} calls of each rank and communicator", count(LAST as u64)));
    }
    let name = traces::in_order(&args.files);
    let screen = Screen {
        width: output.width(),
        verbose: args.reading.verbose,
        colour: output.has_colours(args.color),
        ..Screen::default()
    };
    let mut bytes = Vec::new();
    write(&report, form, &name, &screen, &mut bytes).map_err(|source| Failure::Form { source })?;
    output.finish(&bytes)?;
    if let Some(path) = &args.output {
        notes::answer_written(path, bytes.len() as u64);
    }
    match report.outcome {
        // The answer has said so already, unless it went elsewhere.
        Outcome::Hung => Err(Stop::Hung(if args.output.is_some() { verdict(&report) } else { String::new() })),
        _ => Ok(()),
    }
}
