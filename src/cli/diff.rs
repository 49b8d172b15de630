//! `nccl-stacks diff`: two traces side by side.

use std::path::Path;

use nccl_stacks::analysis::diff::{Bound, Diff};
use nccl_stacks::analysis::stacks::StackReport;
use nccl_stacks::report::diff;

use super::args::Diff as Args;
use super::failure::Failure;
use super::output::Output;
use super::question::{Asked, Question};
use super::stop::Stop;
use super::terminal::{note, say};
use super::{notes, opening, span, traces};

pub(super) fn run(args: &Args) -> Result<(), Stop> {
    let question = Question {
        wanted: opening::wanted(&args.selection, &args.reading)?,
        span: &args.span,
        climbing: &args.climbing,
        per_rank: false,
        captures: &[],
        reading: &args.reading,
    };
    span::check(&args.span)?;
    for trace in [&args.before, &args.after] {
        if trace.as_os_str() == "-" {
            return Err(Stop::Usage("diff reads two files, and standard input is not one".to_owned()));
        }
    }
    let others = std::iter::once(&args.after).chain(&args.selection.family_file);
    let output = Output::open(args.output.as_deref(), &opening::inputs(&args.before, others))?;
    let before = ask(&question, "Before", &args.before)?;
    let after = ask(&question, "After", &args.after)?;
    if before.coverage.kernels + after.coverage.kernels == 0 {
        let what = opening::what(&args.selection);
        return Err(Stop::NotFound(format!("Nothing found: no {what} ran in the window of either trace.")));
    }
    let names = [&args.before, &args.after].map(|trace| trace.display().to_string());
    let mut found = Diff::new((&names[0], before), (&names[1], after));
    found.arrange(args.sort.into(), args.limit);
    notes::diff(&found, args.span.function_name.is_some() || args.span.start_ts.is_some());
    let mut bytes = Vec::new();
    diff::write(&found, args.format.into(), output.width(), &mut bytes).map_err(|source| Failure::Form { source })?;
    output.finish(&bytes)?;
    // A trace without these kernels costs nothing; that is no success.
    if let (Some(nothing), false) =
        (notes::nothing_on_a_side(&found, opening::what(&args.selection)), args.fail_if.is_empty())
    {
        return Err(Stop::NotFound(format!("Nothing to bound: {nothing}.")));
    }
    let exceeded: Vec<&Bound> = args.fail_if.iter().filter(|bound| bound.is_exceeded(&found)).collect();
    if exceeded.is_empty() { Ok(()) } else { Err(Stop::Exceeded(notes::exceeded(&found, &exceeded))) }
}

/// The stacks of one of the traces. The trace itself is dropped: two of them may not fit into memory.
fn ask(question: &Question<'_>, which: &str, trace: &Path) -> Result<StackReport, Stop> {
    note(&format!("{which}: {}", trace.display()));
    let Asked { report, damage, .. } = question.ask(&traces::expand(&[trace.to_owned()])?)?;
    notes::coverage(&report);
    notes::not_asked(&report);
    damage.iter().for_each(|line| say(line));
    Ok(report)
}
