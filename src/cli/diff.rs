//! `nccl-stacks diff`: two traces side by side.

use std::path::Path;

use crate::answers::OnPage;
use crate::answers::bound::{Bound, Bounded};
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
use crate::run::{Question, Run, StackAnswer, inputs};

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
    let run = opening::run(&args.reading);
    // What cannot be compared is refused before the other is read.
    let [before, after] = [&args.before, &args.after].map(|trace| files(args, run, trace));
    let (before, after) = (before?, after?);
    let output = show.open([&args.before, &args.after].into_iter().chain(&args.selection.family_file))?;
    if args.ranks {
        return ranks(args, &question, &bounds, &show, output, [before, after]);
    }
    question.stacks.counts_steps = true;
    question.by_step = wished(args) == Per::Step;
    let (before, mut damage) = ask(run, &question, "Before", (&args.before, &before))?;
    let (after, of_after) = ask(run, &question, "After", (&args.after, &after))?;
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
        let why = match void.of {
            Bounded::Step => "so that there is no step; --total bounds the length of the windows",
            _ => "and per call the count is always 1; --total bounds the total count",
        };
        return Err(Stop::void(void, &format!("not all of the traces mark steps, {why}")));
    }
    let sides = [&found.before, &found.after];
    let (steps, are_damaged) = (sides.map(|side| &side.steps), sides.map(|side| side.damage.is_unknown()));
    let ranks = sides.map(|side| &side.ranks);
    let differ = notes::not_comparable((found.per, found.not_per_step), ranks, steps, are_damaged);
    if let (Some(why), false) = (differ, bounds.is_empty()) {
        return Err(Stop::NotComparable(why));
    }
    let exceeded: Vec<String> =
        bounds.iter().filter(|bound| found.exceeds(bound)).map(|bound| notes::exceeded(found, bound)).collect();
    Stop::if_exceeded(&exceeded, found.before.damage.is_unknown() || found.after.damage.is_unknown())
}

/// The files of one side.
/// Errors: none of them has a trace, or with --ranks a part.
fn files(args: &Args, run: Run<'_>, trace: &Path) -> Result<Inputs, Stop> {
    let files = match args.ranks {
        true => Inputs::without_records(trace)?,
        false => Inputs { traces: inputs::expand(&[trace.to_owned()])?, ..Inputs::default() },
    };
    if files.parts.is_empty() {
        run.find_trace(&files.traces)?;
    }
    Ok(files)
}

/// The stacks of one of the traces. The trace itself is dropped, because two traces may not fit into memory.
fn ask(
    run: Run<'_>,
    question: &Question,
    which: &str,
    (trace, files): (&Path, &Inputs),
) -> Result<(StackReport, Vec<String>), Stop> {
    note(&format!("{which}: {}", trace.display()));
    let StackAnswer { report, damage, .. } = run.stacks(files, question)?;
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
    let is_wrong = |bound: &&Bound| if args.ranks { bound.is_of_stacks() } else { bound.is_of_ranks() };
    let Some(wrong) = args.fail_if.iter().find(is_wrong) else {
        return Ok(args.fail_if.iter().collect());
    };
    let why = match args.ranks {
        true => "a bound on stacks; with --ranks, bound step, idle, waited, caused or late",
        false => "a bound on ranks; add --ranks",
    };
    Err(Stop::Usage(format!("--fail-if '{}' is {why}", wrong.text)))
}

fn ranks(
    args: &Args,
    question: &Question,
    bounds: &[&Bound],
    show: &Show<'_>,
    output: Output,
    [before, after]: [Inputs; 2],
) -> Result<(), Stop> {
    let run = opening::run(&args.reading);
    let mut damage = Vec::new();
    let mut report = |which: &str, trace: &Path, files: &Inputs| -> Result<RankReport, Stop> {
        note(&format!("{which}: {}", trace.display()));
        let parts = run.ranks(files, question)?;
        let lacks = (&parts.damage[..], parts.is_damaged, opening::what(&args.selection));
        let compared = compared(run, parts.ranks, question.clock, lacks)?;
        let report = compared.measured();
        parts.damage.iter().for_each(|line| say(line));
        damage.extend(parts.damage.iter().map(|line| format!("{which}: {line}")));
        Ok(report)
    };
    let (before, after) = (report("Before", &args.before, &before)?, report("After", &args.after, &after)?);
    let names = [&args.before, &args.after].map(|trace| trace.display().to_string());
    let mut changes = RankChanges::new((&names[0], &before), (&names[1], &after), wished(args));
    notes::rank_changes(&changes);
    changes.stacks.truncate(args.limit.unwrap_or(usize::MAX));
    show.print(&ChangesAnswer { changes: &changes, on_page: on_page(args, damage) }, output)?;
    if bounds.iter().any(|bound| bound.is_growth) {
        let ranks = [&before, &after].map(|report| report.ranks.iter().map(|of| Some(of.rank)).collect());
        let sides = [&changes.before.steps, &changes.after.steps];
        let are_damaged = [&before, &after].map(|report| report.damage.is_unknown());
        if let Some(why) =
            notes::not_comparable((changes.per, changes.not_per_step), [&ranks[0], &ranks[1]], sides, are_damaged)
        {
            return Err(Stop::NotComparable(why));
        }
        if let Some(void) = bounds.iter().find(|bound| changes.is_void(bound)) {
            let why = match [&before, &after].iter().any(|report| report.ranks.len() < 2) {
                true => "steps are compared of several ranks; without --ranks those of one are",
                false => "not all of the traces mark steps",
            };
            return Err(Stop::void(void, why));
        }
    }
    let is_damaged = before.damage.is_unknown() || after.damage.is_unknown();
    let why_void = |bound: &Bound| after.why_void(bound).or_else(|| before.why_void(bound).filter(|_| bound.is_growth));
    if let Some((bound, why)) = bounds.iter().find_map(|bound| Some((bound, why_void(bound)?))) {
        return Err(Stop::void(bound, &why).or_damaged(is_damaged));
    }
    let exceeded = bounds.iter().filter(|bound| changes.exceed(bound, &before, &after));
    let line = |bound: &&Bound| match bound.is_growth {
        true => notes::grown(bound, &changes.bounded(bound, &before, &after), changes.per),
        false => notes::exceeded_by_ranks(&after, bound),
    };
    Stop::if_exceeded(&exceeded.map(line).collect::<Vec<_>>(), is_damaged)
}
