//! The main job, from the arguments to the stacks.

use super::args::Stacks;
use super::output::Output;
use super::question::{Asked, DEPTH, Question};
use super::{Stop, captures, notes, opening, span};
use crate::analysis::missing;
use crate::error::Error;
use crate::report::{Answer, Form};

pub(super) fn run(args: &Stacks) -> Result<(), Stop> {
    let trace = args.trace()?;
    let form = Form::from(args.format);
    let question = Question {
        wanted: opening::wanted(&args.selection, &args.reading)?,
        span: &args.span,
        climbing: &args.climbing,
        // Of a cut stack the width below the cut stands beside that of others which has nothing to do with it.
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
    let answer = Answer { report: &report, trace: &name, weight: args.weight.into(), width: output.width() };
    let mut bytes = Vec::new();
    answer.write(form, &mut bytes).map_err(|source| Error::Form { source })?;
    output.finish(&bytes)?;
    notes::coverage(&report);
    notes::left_out(&report, &question.how());
    notes::damage(database.store());
    // What ran is told even where nobody knows who launched it.
    if report.stacks_found == 0 {
        let missing = missing::explain(&database, window, &report)?;
        return Err(Stop::NotFound(notes::missing(&missing, opening::what(&args.selection))));
    }
    Ok(())
}
