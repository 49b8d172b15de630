//! `nccl-stacks hang`: whether a job hangs, on which ranks and in which call.

use std::path::{Path, PathBuf};

use nccl_stacks::analysis::hang::{HangReport, Outcome};
use nccl_stacks::report::hang::{HangForm, verdict, write};
use nccl_stacks::report::{OnPage, Screen};
use nccl_stacks::run::files;
use nccl_stacks::run::sources::record_files;

use super::args::{Colour, Hang};
use super::failure::Failure;
use super::output::Output;
use super::stop::Stop;
use super::{notes, opening, typed};

pub(super) fn run(args: &Hang) -> Result<(), Stop> {
    let form = if args.json { HangForm::Json } else { HangForm::from(args.format) };
    let files = record_files(&args.files)?;
    let inputs: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let output = Output::open(args.output.as_deref(), &inputs)?.of_form(form == HangForm::Html)?;
    let (report, damage) = opening::run(&args.reading).hang(&files)?;
    if report.is_empty() {
        return Err(Stop::NotFound(
            "Nothing found: the records have neither operations nor counters to judge by.".to_owned(),
        ));
    }
    let shown = Shown { form, verbose: args.reading.verbose, colour: args.color, path: args.output.as_deref() };
    let on_page = typed::on_page(&args.files, &[], damage);
    shown.print(&report, &files::in_order(&args.files), &on_page, output)
}

/// How the answer is shown.
pub(super) struct Shown<'a> {
    pub(super) form: HangForm,
    pub(super) verbose: bool,
    pub(super) colour: Colour,
    pub(super) path: Option<&'a Path>,
}

impl Shown<'_> {
    /// Prints the answer about the files called `name`, and returns its exit code.
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
            // The answer already has the verdict, unless it went to a file.
            Outcome::Hung => Err(Stop::Hung(if self.path.is_some() { verdict(report) } else { String::new() })),
            _ => Ok(()),
        }
    }
}
