//! `nccl-stacks records`: what NCCL's own records have.

use std::path::Path;

use nccl_stacks::analysis::recorded;
use nccl_stacks::records::Keep;
use nccl_stacks::report::Screen;
use nccl_stacks::report::recorded::{RecordsAnswer, RecordsForm};

use super::args::Records;
use super::failure::Failure;
use super::notes;
use super::output::Output;
use super::recorded::read;
use super::stop::Stop;

/// Of a log with a line per call so many of each rank and communicator are kept; the counts are of all.
const KEPT: usize = 64;

pub(super) fn run(args: &Records) -> Result<(), Stop> {
    let form = if args.json { RecordsForm::Json } else { RecordsForm::from(args.format) };
    let inputs: Vec<&Path> = args.files.iter().map(AsRef::as_ref).collect();
    let output = Output::open(args.output.as_deref(), &inputs)?;
    let records = read(&args.files, Keep::Last(KEPT), &args.reading)?;
    let report = recorded::of(&records);
    let names: Vec<String> = args.files.iter().map(|file| file.display().to_string()).collect();
    let name = names.join(", ");
    let screen = Screen { width: output.width(), verbose: args.reading.verbose, ..Screen::default() };
    let mut bytes = Vec::new();
    let answer = RecordsAnswer::new(&report, &name).shown(screen, args.limit);
    answer.write(form, &mut bytes).map_err(|source| Failure::Form { source })?;
    output.finish(&bytes)?;
    if let Some(path) = &args.output {
        notes::answer_written(path, bytes.len() as u64);
    }
    Ok(())
}
