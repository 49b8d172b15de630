//! `nccl-stacks ranks` for NCCL's own records.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::answers::entries::EntryReport;
use crate::answers::entries::document::EntriesAnswer;
use crate::answers::entries::sentences::verdict;
use crate::answers::ranks::recorded_reductions::RecordedReductions;
use crate::answers::ranks::reduction::RankReduction;
use crate::document::Answer;
use crate::operation::{Operation, Source, State};
use crate::records::{Keep, Records};
use crate::run::{self, Completeness, damage_lines, give_ranks};

use super::args::Ranks;
use super::show::Show;
use super::stop::Stop;
use super::terminal::note;
use super::{opening, typed};

/// Answers from records of when NCCL was entered. From records of when kernels ran, returns the reductions, which are then compared like those
/// of traces.
pub(super) fn run(args: &Ranks, show: &Show<'_>, files: &[PathBuf]) -> Result<Option<Vec<RankReduction>>, Stop> {
    let runner = opening::one_run(&args.of_ranks.reading, args.of_ranks.one_run);
    let mut records = runner.records(files, Keep::All)?;
    give_ranks(&args.of_ranks.rank, &mut records)?;
    let found = RecordedReductions::from_records(&records);
    runner.report_recorded_parts(&found);
    let RecordedReductions { reductions, without_rank, .. } = found;
    if !reductions.is_empty() {
        // The times of the calls explain why a rank's kernels were late.
        let calls = EntryReport::compare(&records);
        if !calls.slow.is_empty() {
            note(&verdict(&calls).join(" "));
        }
        return Ok(Some(reductions));
    }
    let report = EntryReport::compare(&records);
    if report.ranks_here.is_empty() && (report.calls > 0 || without_rank > 0) {
        return Err(Stop::NotFound(without_ranks(&records)));
    }
    if report.calls == 0 {
        return Err(Stop::NotFound(without_times(&records)));
    }
    let is_open =
        |of: &Operation| of.source == Source::FLIGHT_RECORDER && matches!(of.state, State::Scheduled | State::Started);
    if records.operations.iter().any(is_open) {
        let files = typed::on_page(&args.traces, &[], Vec::new()).inputs;
        note(&format!("Some operations have not ended. Whether the job hangs: nccl-stacks hang {files}"));
    }
    if !args.fail_if.is_empty() {
        return Err(Stop::Usage(
            "--fail-if: the records have only the times of calls to NCCL, not who waited for whom".to_owned(),
        ));
    }
    if !EntriesAnswer::forms().any(|form| form == show.form) {
        return Err(Stop::Usage(
            "--format: an answer about calls of NCCL has the forms text, json and html".to_owned(),
        ));
    }
    let output = show.open(files)?;
    let name = run::inputs::in_order(&args.traces);
    let on_page = typed::on_page(&args.traces, &[], damage_lines(&records));
    show.print(&EntriesAnswer { report: &report, name: &name, limit: args.limit, on_page }, output)?;
    let mut completeness = Completeness::default();
    completeness.ranks.extend(&report.ranks_here);
    Stop::if_incomplete(Ok(()), &completeness, args.expect).map(|()| None)
}

/// Which times are missing, and how to record them.
fn without_times(records: &Records) -> String {
    let has_lengths = |of: &Operation| of.source == Source::INSPECTOR && of.duration.is_some();
    match records.operations.iter().any(has_lengths) {
        true => "Nothing found: these records (NCCL Inspector) say how long operations took, and not when. With NCCL_INSPECTOR_DUMP_VERBOSE=1 the next \
                 ones say both."
            .to_owned(),
        false => "Nothing found: the records have no times.".to_owned(),
    }
}

/// Why the ranks are unknown, and how to provide them.
fn without_ranks(records: &Records) -> String {
    let sources: BTreeSet<&str> = records.operations.iter().map(|operation| operation.source.title()).collect();
    let sources: Vec<&str> = sources.into_iter().collect();
    format!(
        "Nothing found: it is unknown which ranks of the job recorded this ({}). NCCL numbers ranks within each communicator. To know them, give \
         one file for each rank, all with a communicator in common, or name the rank of each file with --rank 3=FILE.",
        sources.join(", ")
    )
}
