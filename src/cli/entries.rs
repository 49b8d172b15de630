//! `nccl-stacks ranks` of NCCL's own records.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nccl_stacks::ranks::part::RankPart;
use nccl_stacks::ranks::recorded::entries::EntryReport;
use nccl_stacks::ranks::recorded::parts::RecordedParts;
use nccl_stacks::ranks::recorded::whose;
use nccl_stacks::records::{Keep, RecordFile, Records};
use nccl_stacks::report::Screen;
use nccl_stacks::report::ranks::entries::{EntryForm, entries, verdict};
use nccl_stacks::report::ranks::{RankForm, entries_page};

use super::args::{RankOf, Ranks};
use super::failure::Failure;
use super::output::Output;
use super::stop::Stop;
use super::terminal::{note, say};
use super::{notes, recorded, traces, typed};

/// The files that the arguments mean.
#[derive(Default)]
pub(super) struct Inputs {
    /// Traces and parts.
    pub(super) traces: Vec<PathBuf>,
    /// NCCL's own records.
    pub(super) records: Vec<PathBuf>,
}

impl Inputs {
    /// Distinguishes the files by their beginnings. Of a folder these are those that are named like traces; if there are none, all.
    pub(super) fn of(arguments: &[PathBuf]) -> Result<Self, Stop> {
        let mut inputs = Inputs::default();
        for argument in arguments {
            let argument = std::slice::from_ref(argument);
            let files = match traces::expand(argument) {
                Err(_) if argument[0].is_dir() => {
                    let files = recorded::expand(argument)?;
                    // Files of no known source are named where the others are read; without any there is no trace either.
                    if files.iter().any(|file| recorded::has_records(file)) {
                        inputs.records.extend(files);
                        continue;
                    }
                    traces::expand(argument)?
                }
                found => found?,
            };
            for file in files {
                let of_kind = if recorded::has_records(&file) { &mut inputs.records } else { &mut inputs.traces };
                if !of_kind.contains(&file) {
                    of_kind.push(file);
                }
            }
        }
        Ok(inputs)
    }
}

/// Answers for records that know when NCCL was entered. Of records that know when kernels ran these are the parts: they are compared as
/// those of traces are.
pub(super) fn run(args: &Ranks, form: RankForm, files: &[PathBuf]) -> Result<Option<Vec<RankPart>>, Stop> {
    let mut records = recorded::read(files, Keep::All, &args.reading)?;
    give_ranks(&args.rank, &mut records)?;
    let found = RecordedParts::of(&records);
    report_parts(&found);
    let RecordedParts { parts, without_rank, .. } = found;
    if !parts.is_empty() {
        // When a rank called says why its kernels were late.
        let calls = EntryReport::of(&records, args.outliers.into());
        if !calls.slow.is_empty() {
            note(&verdict(&calls, &Screen::default()).join(" "));
        }
        return Ok(Some(parts));
    }
    let report = EntryReport::of(&records, args.outliers.into());
    if report.ranks_here.is_empty() && (report.calls > 0 || without_rank > 0) {
        return Err(Stop::NotFound(without_ranks(&records)));
    }
    if report.calls == 0 {
        return Err(Stop::NotFound("Nothing found: the records have no times.".to_owned()));
    }
    if !args.fail_if.is_empty() {
        return Err(Stop::Usage(
            "--fail-if: the records know only when NCCL was called, not who waited for whom".to_owned(),
        ));
    }
    let is_page = form == RankForm::Html;
    let form = match form {
        RankForm::Text | RankForm::Table | RankForm::Html => EntryForm::Text,
        RankForm::Json => EntryForm::Json,
        _ => {
            return Err(Stop::Usage(
                "--format: an answer about calls of NCCL has the forms text, json and html".to_owned(),
            ));
        }
    };
    let inputs: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let output = Output::open(args.output.as_deref(), &inputs)?.of_form(is_page)?;
    let screen = Screen {
        width: output.width(),
        verbose: args.reading.verbose,
        colour: output.has_colours(args.color),
        ..Screen::default()
    };
    let name = traces::in_order(&args.traces);
    let mut bytes = Vec::new();
    match is_page {
        true => {
            let on_page = typed::on_page(&args.traces, &[], recorded::damage(&records));
            entries_page(&report, &name, &on_page, &mut bytes)
        }
        false => entries(&report, form, &name, args.limit, &screen, &mut bytes),
    }
    .map_err(|source| Failure::Form { source })?;
    output.finish(&bytes)?;
    if let Some(path) = &args.output {
        notes::answer_written(path, bytes.len() as u64);
    }
    Ok(None)
}

/// Says which operations are not compared.
pub(super) fn report_parts(found: &RecordedParts) {
    left_out(found).iter().for_each(|line| say(line));
    if !found.parts.is_empty() && found.of_other_sources > 0 {
        note(&format!(
            "Compared are the records of {}; {} operations of other sources are left out",
            found.source.title(),
            found.of_other_sources
        ));
    }
}

/// Which operations have no part in the comparison, a line for each reason.
pub(super) fn left_out(found: &RecordedParts) -> Vec<String> {
    if found.parts.is_empty() {
        return Vec::new();
    }
    let reasons = [(found.without_times, "when they ran"), (found.without_rank, "on which rank they ran")];
    let reasons = reasons.into_iter().filter(|(count, _)| *count > 0);
    reasons.map(|(count, why)| format!("Left out: {count} operations, because nothing says {why}")).collect()
}

/// Sets the ranks that the user gives.
pub(super) fn give_ranks(given: &[RankOf], records: &mut Records) -> Result<(), Stop> {
    for RankOf { rank, trace } in given {
        let of = format!("--rank {rank}={}", trace.display());
        let is_it = |file: &RecordFile| Path::new(&file.name).ends_with(trace);
        let found: Vec<usize> = (0..records.files.len()).filter(|at| is_it(&records.files[*at])).collect();
        match found[..] {
            [file] if whose::give(records, file, *rank) => {}
            [_] => return Err(Stop::Usage(format!("{of}: its records are of several ranks"))),
            [] => return Err(Stop::Usage(format!("{of}: no such file is among those given"))),
            _ => return Err(Stop::Usage(format!("{of}: {} of the files end with that name", found.len()))),
        }
    }
    Ok(())
}

/// Why the ranks are not known, and what says them.
fn without_ranks(records: &Records) -> String {
    let sources: BTreeSet<&str> = records.operations.iter().map(|operation| operation.source.title()).collect();
    let sources: Vec<&str> = sources.into_iter().collect();
    format!(
        "Nothing found: nothing says which ranks of the job recorded this ({}). NCCL counts ranks within each communicator; what says them \
         is a file for each rank with one communicator that is in all of these, or --rank 3=FILE for the file of each rank.",
        sources.join(", ")
    )
}
