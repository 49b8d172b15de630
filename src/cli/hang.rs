//! `nccl-stacks hang`: whether a job hangs, on which ranks, in which call.

use std::path::{Path, PathBuf};

use nccl_stacks::analysis::hang::{Outcome, hang};
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

/// Of files larger than this, in bytes, not all calls of logs are kept: a call takes several times the memory of its line.
const LARGE: u64 = 256 << 20;

/// How many are.
const LAST: usize = 1 << 14;

pub(super) fn run(args: &Hang) -> Result<(), Stop> {
    let form = if args.json { HangForm::Json } else { HangForm::from(args.format) };
    let files = recorded::expand(&args.files)?;
    let inputs: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let output = Output::open(args.output.as_deref(), &inputs)?;
    let size: u64 = files.iter().filter_map(|file| std::fs::metadata(file).ok()).map(|file| stored(&file)).sum();
    let keep = if size > LARGE {
        note(&format!("Of logs the last {} calls of each rank and communicator are compared", count(LAST as u64)));
        Keep::Last(LAST)
    } else {
        Keep::All
    };
    let records = recorded::read(&files, keep, &args.reading)?;
    let report = hang(&records);
    if report.is_empty() {
        return Err(Stop::NotFound(
            "Nothing found: the records have no operation and no count by which to judge.".to_owned(),
        ));
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

/// How many bytes a file has on the disk: the recorder's files are as long as all of their rings, of which most are never used.
fn stored(file: &std::fs::Metadata) -> u64 {
    #[cfg(unix)]
    return file.len().min(std::os::unix::fs::MetadataExt::blocks(file).saturating_mul(512));
    #[cfg(not(unix))]
    file.len()
}
