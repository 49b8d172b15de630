//! `nccl-stacks report`: a page for a browser, from any inputs.
//!
//! It is the page that the command for these inputs writes with `--format html`: the stacks for one rank, who waits for whom for several ranks;
//! for records, whether the job hangs, else who came late, else what was recorded.

use std::path::PathBuf;

use crate::answers::hang::Outcome;
use crate::document::Form;
use crate::run::inputs;
use crate::run::inputs::Inputs;

use super::args::{Answering, Colour, Ranks, Records, Report};
use super::show::Show;
use super::stop::Stop;
use super::{hang, opening, ranks, records, typed};

pub(super) fn run(args: &Report) -> Result<(), Stop> {
    let files = Inputs::sort(&args.inputs)?;
    if files.traces.is_empty() && files.parts.is_empty() {
        return of_records(args, &files.records);
    }
    ranks::run(&ranks_of(args), true)
}

/// A page, as an answer of another command.
fn answering(args: &Report) -> Answering {
    Answering { format: Some(Form::Html), json: false, output: args.output.clone(), no_pager: true }
}

fn ranks_of(args: &Report) -> Ranks {
    Ranks {
        traces: args.inputs.clone(),
        expect: None,
        of_ranks: args.of_ranks.clone(),
        capture_trace: args.capture_trace.clone(),
        answering: answering(args),
        limit: None,
        color: Colour::Never,
        fail_if: Vec::new(),
    }
}

/// If the job hangs, that is the page. Otherwise the records may have the times of kernels, or of calls to NCCL.
fn of_records(args: &Report, records: &[PathBuf]) -> Result<(), Stop> {
    let (report, damage) = opening::one_run(&args.of_ranks.reading, args.of_ranks.one_run).hang(records, None)?;
    let is_open = matches!(report.outcome, Outcome::Hung | Outcome::Lagging | Outcome::Unclear);
    let page_of_hang = || {
        let show = Show { form: Form::Html, path: args.output.as_deref(), colour: Colour::Never, verbose: false };
        let output = show.open(records)?;
        let on_page = typed::on_page(&args.inputs, &[], damage.clone());
        hang::print(&show, &report, &inputs::in_order(&args.inputs), on_page, output)
    };
    if is_open && !report.is_empty() {
        return page_of_hang();
    }
    match ranks::run(&ranks_of(args), false) {
        // One rank alone cannot show whether a job hangs.
        Err(Stop::NotFound(_)) if !report.is_empty() && report.rank_count > 1 => page_of_hang(),
        Err(Stop::NotFound(_)) => records::run(&Records {
            files: args.inputs.clone(),
            answering: answering(args),
            limit: None,
            flow_rank: None,
            one_run: args.of_ranks.one_run,
            reading: args.of_ranks.reading.clone(),
        }),
        answered => answered,
    }
}
