//! The main job: the stacks of traces.

use crate::answers::cost::Order;
use crate::answers::stacks::data::StackReport;
use crate::answers::stacks::document::{StacksAnswer, coverage};
use crate::answers::stacks::grouping::MOST_GROUPS;
use crate::attribution::launches::WindowOn;
use crate::document::{Form, Screen};
use crate::run::StackAnswer;
use crate::run::inputs::{Alone, Inputs};

use super::args::{Span, Stacks};
use super::output::Output;
use super::show::Show;
use super::stop::Stop;
use super::terminal::{note, say};
use super::{notes, opening, typed};

/// How many callers above the user's own code are shown in text by default: enough to see where a call comes from, and few enough for a screen.
const DEPTH: usize = 6;

/// How many callers above the launch get_call_stacks.py prints.
const SCRIPT_DEPTH: usize = 12;

const ONLY_RECORDS: &str = "these are NCCL's own records, without a trace. The commands hang, records and ranks read records alone; together with a trace they are joined to its kernels";

const EXPECT_OF_TRACES: &str =
    "--expect counts the ranks of parts, and these are traces. `nccl-stacks ranks` counts those of traces, too";

const ONLY_STACKS: &str = "the form of get_call_stacks.py has only stacks; use another --format with --group-by";

pub(super) fn run(args: &Stacks) -> Result<(), Stop> {
    let show = Show::new::<StacksAnswer<'_>>(&args.answering, Form::Text, args.color, &args.reading)?;
    let form = show.form;
    let mut question = opening::question(&args.selection, &args.span, &args.climbing)?;
    if form == Form::Script && question.stacks.grouping.is_asked() {
        return Err(Stop::Usage(ONLY_STACKS.to_owned()));
    }
    let run = opening::run(&args.reading);
    let (files, records) = run.traces_and_records(&args.traces, &args.records, Alone::Refused)?;
    check_parts(args, &files)?;
    question.stacks.per_rank = args.per_rank;
    question.stacks.records = records;
    // A page shows all groups.
    question.stacks.largest_groups =
        args.limit.filter(|limit| *limit <= MOST_GROUPS && form != Form::Html).map(|_| args.sort);
    question.captures = args.capture_trace.clone();
    (question.draws, question.critical) = (form == Form::Html, args.sort == Order::Critical);
    run.choose_for_all(&mut question, &files.traces)?;
    let span = &args.span.with(&question.window);
    let captures: Vec<_> = files.traces.iter().flat_map(|file| run.capture_files(&args.capture_trace, file)).collect();
    let others = args.selection.family_file.iter().chain(&captures).chain(&files.traces).chain(&files.parts);
    let output = show.open(others)?;
    let answer = run.stacks(&files, &question)?;
    let completeness = answer.completeness.clone();
    Stop::if_incomplete(print(args, show, span, answer, output), &completeness, args.expect)
}

fn check_parts(args: &Stacks, files: &Inputs) -> Result<(), Stop> {
    if !files.are_parts()? {
        return match (files.traces.is_empty(), args.expect) {
            (true, _) => Err(Stop::Usage(ONLY_RECORDS.to_owned())),
            (false, Some(_)) => Err(Stop::Usage(EXPECT_OF_TRACES.to_owned())),
            (false, None) => Ok(()),
        };
    }
    let others = [
        ("capture-trace", !args.capture_trace.is_empty()),
        ("records", !args.records.is_empty()),
        ("sort critical", args.sort == Order::Critical),
    ];
    opening::refuse_for_parts(&args.span, &args.climbing, &others)?;
    files.left_out().iter().for_each(|line| say(line));
    Ok(())
}

fn print(args: &Stacks, show: Show<'_>, span: &Span, answer: StackAnswer, output: Output) -> Result<(), Stop> {
    let form = show.form;
    let StackAnswer { mut report, missing, damage, left_out, next_steps, timelines, completeness, .. } = answer;
    let reason = match completeness.has_parts {
        true => missing_in_parts(&report),
        false => notes::missing(&missing, opening::what(&args.selection), &args.selection.kernel_name),
    };
    // Without kernels, a form for programs would be empty; forms for people have the summary of what ran.
    let is_empty = report.coverage.kernels == 0;
    let has_summary = form.is_for_people() && show.path.is_none() && report.summary.kernel_names_found > 0;
    // A page explains why it is empty.
    if let (Some(reason), true) = (&reason, is_empty && !has_summary && form != Form::Html) {
        damage.iter().for_each(|line| say(line));
        return Err(Stop::NotFound(reason.clone()).or_damaged(report.damage.is_unknown()));
    }
    let order = if form == Form::Script { Order::Count } else { args.sort };
    report.arrange(order, args.min_share.unwrap_or(0.0), args.limit);
    let depth = args.climbing.stack_depth;
    let full_stacks = args.full_stacks || (output.is_file() && depth.is_none());
    let screen = Screen { full_stacks, ..screen_of(&show, depth, &output) };
    let names: Vec<String> = args.traces.iter().map(|trace| trace.display().to_string()).collect();
    let answer = StacksAnswer {
        report: &report,
        trace: &names.join(", "),
        weight: args.weight,
        depth: screen.depth,
        window_on: args.span.window_on,
        on_page: typed::on_page(&args.traces, &options(args, span), [&damage[..], &left_out].concat())
            .timelines(timelines)
            .reason(reason.as_deref()),
    };
    print_answer(&show, &screen, answer, (&damage, &next_steps), output)
}

/// Why parts have no stacks, if they have none: what else ran is not in them.
fn missing_in_parts(report: &StackReport) -> Option<String> {
    match (report.has_answer(), report.coverage.kernels) {
        (true, _) => None,
        (false, 0) => Some("Nothing found: these parts have no kernels.".to_owned()),
        (false, _) => Some("Nothing found: none of the kernels of these parts has a launch.".to_owned()),
    }
}

fn options(args: &Stacks, span: &Span) -> Vec<(&'static str, Option<String>)> {
    let mut options = typed::options(&args.selection, span, &args.climbing);
    for (name, files) in [("capture-trace", &args.capture_trace), ("records", &args.records)] {
        options.extend(files.iter().map(|file| (name, Some(file.display().to_string()))));
    }
    if args.per_rank {
        options.push(("per-rank", None));
    }
    options
}

/// Prints an answer whose stacks are arranged, the damage of the traces, and what to do next.
pub(super) fn print_answer(
    show: &Show<'_>,
    screen: &Screen,
    answer: StacksAnswer<'_>,
    (damage, next_steps): (&[String], &[String]),
    output: Output,
) -> Result<(), Stop> {
    let report = answer.report;
    // In a trace that was cut off, the window selects kernels by when they ran.
    let is_limited = report.traces.iter().any(|trace| report.damage.limits(trace.window));
    let window_on = if is_limited { WindowOn::Kernel } else { answer.window_on };
    if report.coverage.kernels > 0 {
        notes::coverage(coverage::lines(report, window_on));
        next_steps.iter().for_each(|step| note(&format!("Next: {step}")));
    }
    damage.iter().for_each(|line| say(line));
    let reason = answer.on_page.reason.clone();
    show.print_on(&StacksAnswer { window_on, ..answer }, screen, output)?;
    let is_damaged = report.damage.is_unknown();
    // Without stacks, the answer still has the summary of what ran.
    reason.map_or(Stop::unless(is_damaged), |reason| Err(Stop::NotFound(reason).or_damaged(is_damaged)))
}

/// How the answer is shown in forms for people, without --full-stacks.
fn screen_of(show: &Show<'_>, depth: Option<usize>, output: &Output) -> Screen {
    let depth = depth.unwrap_or(if show.form == Form::Script { SCRIPT_DEPTH } else { DEPTH });
    Screen { depth: Some(depth).filter(|depth| *depth > 0), ..show.screen(output) }
}
