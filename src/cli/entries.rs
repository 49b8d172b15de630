//! `nccl-stacks ranks` of NCCL's own records.

use std::path::{Path, PathBuf};

use nccl_stacks::ranks::part::RankPart;
use nccl_stacks::ranks::recorded::entries::EntryReport;
use nccl_stacks::ranks::recorded::parts::RecordedParts;
use nccl_stacks::records::Keep;
use nccl_stacks::report::Screen;
use nccl_stacks::report::ranks::RankForm;
use nccl_stacks::report::ranks::entries::{EntryForm, entries};

use super::args::Ranks;
use super::failure::Failure;
use super::output::Output;
use super::stop::Stop;
use super::terminal::{note, say};
use super::{notes, recorded, traces};

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
    let records = recorded::read(files, Keep::All, &args.reading)?;
    let RecordedParts { parts, without_times, without_rank, source, of_other_sources, .. } =
        RecordedParts::of(&records);
    if !parts.is_empty() {
        for (count, why) in [(without_times, "when they ran"), (without_rank, "on which rank they ran")] {
            if count > 0 {
                say(&format!("Left out: {count} operations, because nothing says {why}"));
            }
        }
        if of_other_sources > 0 {
            note(&format!(
                "Compared are the records of {}; {of_other_sources} operations of other sources are left out",
                source.title()
            ));
        }
        return Ok(Some(parts));
    }
    let report = EntryReport::of(&records, args.outliers.into());
    if report.calls == 0 {
        return Err(Stop::NotFound("Nothing found: the records have no times.".to_owned()));
    }
    let form = match form {
        RankForm::Text | RankForm::Table => EntryForm::Text,
        RankForm::Json => EntryForm::Json,
        _ => return Err(Stop::Usage("--format: an answer about calls of NCCL has the forms text and json".to_owned())),
    };
    let inputs: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let output = Output::open(args.output.as_deref(), &inputs)?;
    let screen = Screen {
        width: output.width(),
        verbose: args.reading.verbose,
        colour: output.has_colours(args.color),
        ..Screen::default()
    };
    let name = traces::in_order(&args.traces);
    let mut bytes = Vec::new();
    entries(&report, form, &name, args.limit, &screen, &mut bytes).map_err(|source| Failure::Form { source })?;
    output.finish(&bytes)?;
    if let Some(path) = &args.output {
        notes::answer_written(path, bytes.len() as u64);
    }
    Ok(None)
}
