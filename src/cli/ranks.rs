//! `nccl-stacks ranks`: who waits for whom over the ranks of a job.

use crate::answers::OnPage;
use crate::answers::cost::Order;
use crate::answers::ranks::data::Compared;
use crate::answers::ranks::document::{RankAnswer, WhatIfAnswer, too_large};
use crate::answers::ranks::reduction::RankReduction;
use crate::answers::ranks::what_if::Also;
use crate::answers::stacks::data::StackReport;
use crate::answers::stacks::document::StacksAnswer;
use crate::document::format::visible;
use crate::document::{Form, Screen};
use crate::operations::clocks::ClockMode;
use crate::run::inputs::Inputs;
use crate::run::{RanksOfFiles, Run, RunError, StackAnswer, inputs};

use super::args::{OfRanks, Ranks, WhatIf};
use super::failure::Failure;
use super::output::Output;
use super::show::Show;
use super::stacks::print_answer;
use super::stop::Stop;
use super::terminal::say;
use super::watcher::{RERUNNING, TERMINAL};
use super::{entries, notes, opening, typed};

/// A single rank waits for nobody: with `or_stacks`, the answer is then a page of its stacks.
pub(super) fn run(args: &Ranks, or_stacks: bool) -> Result<(), Stop> {
    let show = Show::new::<RankAnswer<'_>>(&args.answering, Form::Text, args.color, &args.of_ranks.reading)?;
    let OfRanks { selection, span, climbing, rank, clock, one_run, reading } = &args.of_ranks;
    let files = Inputs::sort(&args.traces)?;
    let of_records = match files.traces.is_empty() && files.parts.is_empty() {
        false => None,
        true => match entries::run(args, &show, &files.records)? {
            None => return Ok(()),
            reductions => reductions,
        },
    };
    let records_left_out = files.left_out();
    records_left_out.iter().for_each(|line| say(line));
    if matches!(files.are_parts(), Ok(true)) {
        opening::refuse_for_parts(span, climbing, &[("capture-trace", !args.capture_trace.is_empty())])?;
    }
    let output = show.open(selection.family_file.iter().chain(files.all()))?;
    let run = opening::one_run(reading, *one_run);
    let (mut question, span) = opening::rank_question(&run, &args.of_ranks, &files)?;
    (question.draws, question.captures) = (show.form == Form::Html, args.capture_trace.clone());
    let of_records = of_records.map(RanksOfFiles::from_records);
    let found = of_records.map_or_else(|| run.ranks(&files, &question), Ok)?;
    let RanksOfFiles { ranks, stacks, damage, is_damaged, mut left_out, mut completeness, .. } = found;
    left_out.extend(records_left_out);
    let options = typed::options(selection, &span, climbing);
    let on_page = typed::on_page(&args.traces, &options, [&damage[..], &left_out].concat());
    let (mut stacks, on_page) = drawn(args, stacks, OnPage { of_ranks: typed::of_ranks(rank, *clock), ..on_page });
    if let Some(report) = stacks.take_if(|_| or_stacks && ranks.len() < 2) {
        let name = inputs::in_order(&args.traces);
        let answer = StacksAnswer { window_on: span.window_on, on_page, ..StacksAnswer::new(&report, &name) };
        return print_answer(&show, &Screen::default(), answer, (&damage, &[]), output);
    }
    let what = opening::what(selection);
    let answered = compared(run, ranks, question.clock, (&damage, is_damaged, what)).and_then(|compared| {
        completeness.narrow(&compared);
        print(args, &show, &compared, &damage, (stacks, on_page), output)
    });
    Stop::if_incomplete(answered, &completeness, args.expect)
}

fn print(
    args: &Ranks,
    show: &Show<'_>,
    compared: &Compared,
    damage: &[String],
    (stacks, on_page): (Option<StackReport>, OnPage),
    output: Output,
) -> Result<(), Stop> {
    let report = TERMINAL.meanwhile(RERUNNING, || compared.report());
    damage.iter().for_each(|line| say(line));
    for refused in &report.refused {
        if args.of_ranks.reading.strict {
            let list = format!("\n  {}", refused.why);
            return Err(Failure::Strict { name: refused.trace.clone(), list }.into());
        }
        if !show.form.is_for_people() {
            say(&format!("Left out: {}: {}", visible(&refused.trace), refused.why));
        }
    }
    let name = inputs::in_order(&args.traces);
    let answer =
        RankAnswer { compared, report: &report, name: &name, limit: args.limit, stacks: stacks.as_ref(), on_page };
    show.print(&answer, output)?;
    let is_damaged = report.damage.is_unknown();
    if let Some((bound, why)) = args.fail_if.iter().find_map(|bound| Some((bound, report.why_void(bound)?))) {
        return Err(Stop::void(bound, &why).or_damaged(is_damaged));
    }
    let exceeded = args.fail_if.iter().filter(|bound| report.exceeds(bound));
    let exceeded: Vec<String> = exceeded.map(|bound| notes::exceeded_by_ranks(&report, bound)).collect();
    Stop::if_exceeded(&exceeded, is_damaged)
}

/// What a page shows besides who waits for whom: the stacks of all traces as one answer, with the timelines.
fn drawn(args: &Ranks, stacks: Option<StackAnswer>, on_page: OnPage) -> (Option<StackReport>, OnPage) {
    let Some(StackAnswer { mut report, timelines, missing, .. }) = stacks else {
        return (None, on_page);
    };
    report.arrange(Order::Exposed, 0.0, args.limit);
    let selection = &args.of_ranks.selection;
    let missing = notes::missing(&missing, opening::what(selection), &selection.kernel_name);
    (Some(report), on_page.timelines(timelines).reason(missing.as_deref()))
}

/// The comparison of the ranks. If there is no collective, prints the damage of the traces, and names the kernels that were looked for.
pub(super) fn compared(
    run: Run<'_>,
    ranks: Vec<RankReduction>,
    clock: ClockMode,
    (damage, is_damaged, what): (&[String], bool, &str),
) -> Result<Compared, Stop> {
    TERMINAL.meanwhile("Comparing the ranks", || run.compare(ranks, clock)).map_err(|error| match error {
        RunError::NoCollective { is_damaged: of_ranks } => {
            damage.iter().for_each(|line| say(line));
            let nothing = format!("Nothing found: no {what} ran in the window of any trace.");
            Stop::NotFound(nothing).or_damaged(is_damaged || of_ranks)
        }
        error => error.into(),
    })
}

/// `nccl-stacks what-if`: what a job would take if something were different.
pub(super) fn what_if(args: &WhatIf) -> Result<(), Stop> {
    let show = Show::new::<WhatIfAnswer<'_>>(&args.answering, Form::Text, args.color, &args.of_ranks.reading)?;
    let files = Inputs::sort(&args.traces)?;
    files.left_out().iter().for_each(|line| say(line));
    let output = show.open(args.of_ranks.selection.family_file.iter().chain(files.all()))?;
    let run = opening::one_run(&args.of_ranks.reading, args.of_ranks.one_run);
    let (question, _) = opening::rank_question(&run, &args.of_ranks, &files)?;
    let RanksOfFiles { ranks, damage, is_damaged, left_out, completeness, .. } = run.ranks(&files, &question)?;
    left_out.iter().for_each(|line| say(line));
    let what = opening::what(&args.of_ranks.selection);
    let compared = compared(run, ranks, question.clock, (&damage, is_damaged, what))?;
    damage.iter().for_each(|line| say(line));
    let also = if show.form == Form::Perfetto { Also::Slices(None) } else { Also::Nothing };
    let found = TERMINAL.meanwhile(RERUNNING, || compared.what_if(&args.rules, also)).map_err(Failure::Rule)?;
    if let Some(large) = &compared.too_large {
        return Err(Failure::TooLarge(too_large(large)).into());
    }
    let Some(found) = found else {
        return Err(Stop::NotFound(
            "Nothing found: no launches or kernels are recorded here that could be different. Traces have them, NCCL's own records do not."
                .to_owned(),
        ));
    };
    let name = inputs::in_order(&args.traces);
    show.print(&WhatIfAnswer { found: &found, name: &name }, output)?;
    Stop::if_incomplete(Stop::unless(found.report.damage.is_unknown()), &completeness, None)
}
