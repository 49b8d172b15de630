//! `nccl-stacks hang`: whether a job hangs, on which ranks and in which call.

use std::time::Duration;

use crate::answers::OnPage;
use crate::answers::hang::document::{HangAnswer, verdict};
use crate::answers::hang::{HangReport, Outcome};
use crate::document::Form;
use crate::document::format;
use crate::run::inputs;
use crate::run::inputs::record_files;

use super::args::Hang;
use super::output::Output;
use super::show::Show;
use super::stop::Stop;
use super::{opening, typed};

pub(super) fn run(args: &Hang) -> Result<(), Stop> {
    let show = Show::new::<HangAnswer<'_>>(&args.answering, Form::Text, args.color, &args.reading)?;
    let files = record_files(&args.files)?;
    let wait = args.wait.map(|wait| Duration::from_nanos(u64::try_from(wait.0).unwrap_or(0)));
    let output = show.open(&files)?;
    let (report, damage) = opening::one_run(&args.reading, args.one_run).hang(&files, wait)?;
    if report.is_empty() {
        let files = typed::on_page(&args.files, &[], Vec::new()).inputs;
        return Err(Stop::NotFound(match report.operation_count {
            0 => "Nothing found: the records have neither operations nor counters to judge by.".to_owned(),
            count => format!(
                "Nothing found: of the {} operations ({}) nothing says in which group or on which rank they are, so that no rank can be compared with its peers. When ranks enter NCCL is \
                 another question: nccl-stacks ranks {files}",
                format::count(count as u64),
                report.sources.join(" and ")
            ),
        }));
    }
    print(&show, &report, &inputs::in_order(&args.files), typed::on_page(&args.files, &[], damage), output)
}

/// Prints the answer about the files called `name`, and returns its exit code.
pub(super) fn print(
    show: &Show<'_>,
    report: &HangReport,
    name: &str,
    on_page: OnPage,
    output: Output,
) -> Result<(), Stop> {
    show.print(&HangAnswer { report, name, on_page }, output)?;
    match report.outcome {
        // The answer already has the verdict, unless it went to a file.
        Outcome::Hung => Err(Stop::Hung(if show.path.is_some() { verdict(report) } else { String::new() })),
        Outcome::NothingSeen => Err(Stop::NotFound(if show.path.is_some() { verdict(report) } else { String::new() })),
        _ => Ok(()),
    }
}
