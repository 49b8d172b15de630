//! The main job, from the arguments to the stacks.

use nccl_stacks::analysis::missing;
use nccl_stacks::report::{Answer, Form};

use super::args::Stacks;
use super::failure::Failure;
use super::output::Output;
use super::question::{Asked, DEPTH, Question};
use super::stop::Stop;
use super::{captures, notes, opening, span};

pub(super) fn run(args: &Stacks) -> Result<(), Stop> {
    // Clap makes sure that there is one.
    let Some(trace) = args.trace.as_deref() else {
        return Err(Stop::Usage("name a trace; --help shows examples".to_owned()));
    };
    let form = Form::from(args.format);
    let question = Question {
        wanted: opening::wanted(&args.selection, &args.reading)?,
        span: &args.span,
        climbing: &args.climbing,
        // In a flame graph, stacks without their outer callers would be merged with unrelated ones.
        depth: (!form.is_flame_graph()).then_some(DEPTH),
        captures: &args.capture_trace,
        reading: &args.reading,
    };
    span::check(&args.span)?;
    let captures = captures::paths(&args.capture_trace, trace);
    let inputs = opening::inputs(trace, args.selection.family_file.iter().chain(&captures));
    let output = Output::open(args.output.as_deref(), &inputs)?;
    let Asked { database, window, mut report } = question.ask(trace)?;
    if report.coverage.kernels == 0 {
        let missing = missing::explain(&database, window, &report)?;
        notes::damage(database.store());
        return Err(Stop::NotFound(notes::missing(&missing, opening::what(&args.selection))));
    }
    report.arrange(args.sort.into(), args.min_share.unwrap_or(0.0), args.limit);
    let name = trace.display().to_string();
    let answer = Answer::new(&report, &name).weight(args.weight.into()).width(output.width());
    let mut bytes = Vec::new();
    answer.write(form, &mut bytes).map_err(|source| Failure::Form { source })?;
    output.finish(&bytes)?;
    notes::coverage(&report);
    notes::left_out(&report, &question.how());
    notes::damage(database.store());
    // Without stacks, the answer still has the summary of what ran.
    if report.stacks_found == 0 {
        let missing = missing::explain(&database, window, &report)?;
        return Err(Stop::NotFound(notes::missing(&missing, opening::what(&args.selection))));
    }
    Ok(())
}
