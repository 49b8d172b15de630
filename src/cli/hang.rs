//! `nccl-stacks hang`: whether a job hangs, on which ranks, in which call.

use std::path::{Path, PathBuf};

use nccl_stacks::analysis::hang::{HangReport, Outcome, hang};
use nccl_stacks::operation::{Operation, Source};
use nccl_stacks::records::Keep;
use nccl_stacks::report::format::count;
use nccl_stacks::report::hang::{HangForm, verdict, write};
use nccl_stacks::report::{OnPage, Screen};

use super::args::{Colour, Hang, Reading};
use super::failure::Failure;
use super::notes;
use super::output::Output;
use super::recorded;
use super::stop::Stop;
use super::terminal::note;
use super::traces;
use super::typed;

/// Of logs so many calls of each rank and communicator are compared, the last ones: a call takes several times the memory of its line, and what
/// hangs is among them.
const LAST: usize = 1 << 14;

pub(super) fn run(args: &Hang) -> Result<(), Stop> {
    let form = if args.json { HangForm::Json } else { HangForm::from(args.format) };
    let files = recorded::expand(&args.files)?;
    let inputs: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let output = Output::open(args.output.as_deref(), &inputs)?.of_form(form == HangForm::Html)?;
    let (report, damage) = judged(&files, &args.reading)?;
    if report.is_empty() {
        return Err(Stop::NotFound(
            "Nothing found: the records have no operation and no count by which to judge.".to_owned(),
        ));
    }
    let shown = Shown { form, verbose: args.reading.verbose, colour: args.color, path: args.output.as_deref() };
    let on_page = typed::on_page(&args.files, &[], damage);
    shown.print(&report, &traces::in_order(&args.files), &on_page, output)
}

/// Whether a job hangs by some files, and what is wrong with these.
pub(super) fn judged(files: &[PathBuf], reading: &Reading) -> Result<(HangReport, Vec<String>), Stop> {
    let records = recorded::read(files, Keep::Last(LAST), reading)?;
    let report = hang(&records);
    let called: u64 = records.calls.iter().map(|calls| calls.count).sum();
    let is_of_log = |operation: &&Operation| matches!(operation.source, Source::DebugLog | Source::Megatrace);
    if !report.is_empty() && called > records.operations.iter().filter(is_of_log).count() as u64 {
        note(&format!("Compared are the last {} calls of each rank and communicator", count(LAST as u64)));
    }
    Ok((report, recorded::damage(&records)))
}

/// How the answer is shown.
pub(super) struct Shown<'a> {
    pub(super) form: HangForm,
    pub(super) verbose: bool,
    pub(super) colour: Colour,
    pub(super) path: Option<&'a Path>,
}

impl Shown<'_> {
    /// Prints the answer about files with a name, and stops with its exit code.
    pub(super) fn print(self, report: &HangReport, name: &str, on_page: &OnPage, output: Output) -> Result<(), Stop> {
        let screen = Screen {
            width: output.width(),
            verbose: self.verbose,
            colour: output.has_colours(self.colour),
            ..Screen::default()
        };
        let mut bytes = Vec::new();
        write(report, self.form, name, &screen, on_page, &mut bytes).map_err(|source| Failure::Form { source })?;
        output.finish(&bytes)?;
        if let Some(path) = self.path {
            notes::answer_written(path, bytes.len() as u64);
        }
        match report.outcome {
            // The answer has said so already, unless it went elsewhere.
            Outcome::Hung => Err(Stop::Hung(if self.path.is_some() { verdict(report) } else { String::new() })),
            _ => Ok(()),
        }
    }
}
