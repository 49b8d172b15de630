//! `nccl-stacks diff`: two traces side by side.

use std::path::{Path, PathBuf};

use crate::answers::OnPage;
use crate::answers::bound::Bound;
use crate::answers::diff::Diff;
use crate::answers::diff::delta::Per;
use crate::answers::diff::document::DiffAnswer;
use crate::answers::ranks::change::RankChanges;
use crate::answers::ranks::data::RankReport;
use crate::answers::ranks::document::ChangesAnswer;
use crate::answers::stacks::data::StackReport;
use crate::answers::stacks::document::{beside, coverage};
use crate::document::Form;
use crate::run::inputs::Inputs;
use crate::run::{Question, StackAnswer, inputs};

use super::args::{Colour, Diff as Args};
use super::output::Output;
use super::ranks::compared;
use super::show::Show;
use super::stop::Stop;
use super::terminal::{note, say};
use super::{notes, opening, typed};

pub(super) fn run(args: &Args) -> Result<(), Stop> {
    let mut question = opening::question(&args.selection, &args.span, &args.climbing)?;
    let bounds = bounds(args)?;
    for trace in [&args.before, &args.after] {
        if trace.as_os_str() == "-" {
            return Err(Stop::Usage("diff reads two files, and standard input is not one".to_owned()));
        }
    }
    let show = Show::new::<DiffAnswer<'_>>(&args.answering, Form::Table, Colour::Never, &args.reading)?;
    let output = show.open([&args.before, &args.after].into_iter().chain(&args.selection.family_file))?;
    if args.ranks {
        return ranks(args, &question, &bounds, &show, output);
    }
    question.stacks.counts_steps = true;
    question.by_step = wished(args) == Per::Step;
    let (before, mut damage) = ask(args, &question, "Before", &args.before)?;
    let (after, of_after) = ask(args, &question, "After", &args.after)?;
    damage.extend(of_after);
    if before.coverage.kernels + after.coverage.kernels == 0 {
        let what = opening::what(&args.selection);
        let nothing = Stop::NotFound(format!("Nothing found: no {what} ran in the window of either trace."));
        return Err(nothing.or_damaged(before.damage.is_unknown() || after.damage.is_unknown()));
    }
    let names = [&args.before, &args.after].map(|trace| trace.display().to_string());
    // One call of a chosen function in each trace is comparable without steps.
    let is_one_call = args.span.function_name.is_some() && before.traces.len() == after.traces.len();
    let has_steps = [&before, &after].iter().all(|report| report.steps.count > 0);
    let per = if is_one_call && !has_steps { Per::Total } else { wished(args) };
    let mut found = Diff::new((&names[0], before), (&names[1], after), per);
    found.arrange(args.sort, args.limit);
    notes::diff(&found, args.span.is_narrowed());
    show.print(&DiffAnswer { diff: &found, on_page: on_page(args, damage) }, output)?;
    check(&found, &bounds, opening::what(&args.selection))
}

/// Checks the bounds, and refuses bounds that have nothing to compare.
fn check(found: &Diff, bounds: &[&Bound], what: &str) -> Result<(), Stop> {
    // A trace without these kernels costs nothing, which must not pass as a success.
    if let (Some(nothing), false) = (notes::nothing_on_a_side(found, what), bounds.is_empty()) {
        return Err(Stop::NotFound(format!("Nothing to bound: {nothing}.")));
    }
    if let Some(void) = bounds.iter().find(|bound| found.is_void(bound)) {
        return Err(Stop::NotFound(format!(
            "Nothing to bound: --fail-if '{}': not all of the traces mark steps, and per call the count is always 1; --total bounds the \
             total count",
            void.text
        )));
    }
    let exceeded: Vec<&Bound> = bounds.iter().copied().filter(|bound| found.exceeds(bound)).collect();
    if !exceeded.is_empty() {
        return Err(Stop::Exceeded(notes::exceeded(found, &exceeded)));
    }
    Stop::unless(found.before.damage.is_unknown() || found.after.damage.is_unknown())
}

/// The stacks of one of the traces. The trace itself is dropped, because two traces may not fit into memory.
fn ask(args: &Args, question: &Question, which: &str, trace: &Path) -> Result<(StackReport, Vec<String>), Stop> {
    note(&format!("{which}: {}", trace.display()));
    let files = Inputs { traces: inputs::expand(&[trace.to_owned()])?, ..Inputs::default() };
    let StackAnswer { report, damage, .. } = opening::run(&args.reading).stacks(&files, question)?;
    notes::coverage(coverage::launches(&report));
    // Where there are no such kernels, others were not asked for.
    beside(&report.not_asked).filter(|_| report.coverage.kernels > 0).for_each(|text| note(&text));
    damage.iter().for_each(|line| say(line));
    let damage = damage.into_iter().map(|line| format!("{which}: {line}")).collect();
    Ok((report, damage))
}

/// The requested denominator of the comparison. It does not apply to traces without steps.
fn wished(args: &Args) -> Per {
    if args.total { Per::Total } else { Per::Step }
}

fn on_page(args: &Args, damage: Vec<String>) -> OnPage {
    let mut options = typed::options(&args.selection, &args.span, &args.climbing);
    if args.total {
        options.push(("total", None));
    }
    typed::on_page(&[args.before.clone(), args.after.clone()], &options, damage)
}

/// The bounds, on ranks with `--ranks` and on stacks without.
fn bounds(args: &Args) -> Result<Vec<&Bound>, Stop> {
    let Some(wrong) = args.fail_if.iter().find(|bound| bound.is_of_ranks() != args.ranks) else {
        return Ok(args.fail_if.iter().collect());
    };
    let why = match args.ranks {
        true => "a bound on stacks; with --ranks, bound waited, caused or late",
        false => "a bound on ranks; add --ranks",
    };
    Err(Stop::Usage(format!("--fail-if '{}' is {why}", wrong.text)))
}

/// Who waits for whom in two runs.
fn ranks(args: &Args, question: &Question, bounds: &[&Bound], show: &Show<'_>, output: Output) -> Result<(), Stop> {
    let run = opening::run(&args.reading);
    let mut damage = Vec::new();
    let mut report = |which: &str, trace: &PathBuf| -> Result<RankReport, Stop> {
        note(&format!("{which}: {}", trace.display()));
        let parts = run.ranks(&Inputs::without_records(trace)?, question)?;
        let lacks = (&parts.damage[..], parts.is_damaged, opening::what(&args.selection));
        let compared = compared(run, parts.ranks, question.clock, lacks)?;
        let report = compared.measured();
        parts.damage.iter().for_each(|line| say(line));
        damage.extend(parts.damage.iter().map(|line| format!("{which}: {line}")));
        Ok(report)
    };
    let (before, after) = (report("Before", &args.before)?, report("After", &args.after)?);
    let names = [&args.before, &args.after].map(|trace| trace.display().to_string());
    let mut changes = RankChanges::new((&names[0], &before), (&names[1], &after), wished(args));
    notes::rank_changes(&changes);
    changes.stacks.truncate(args.limit.unwrap_or(usize::MAX));
    show.print(&ChangesAnswer { changes: &changes, on_page: on_page(args, damage) }, output)?;
    let exceeded = bounds.iter().filter(|bound| changes.exceed(bound, &before, &after));
    let exceeded: Vec<&str> = exceeded.map(|bound| bound.text.as_str()).collect();
    Stop::if_beyond(&exceeded, before.damage.is_unknown() || after.damage.is_unknown())
}
