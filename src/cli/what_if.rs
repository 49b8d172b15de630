//! `nccl-stacks what-if`: what a job would take if something were different.

use std::path::{Path, PathBuf};

use nccl_stacks::report::Form;
use nccl_stacks::report::what_if::WhatIfAnswer;
use nccl_stacks::run::sources::Sources;
use nccl_stacks::run::{RankQuestion, RanksOfFiles, files};

use super::args::{WhatIf, asked};
use super::failure::Failure;
use super::opening;
use super::ranks::compared;
use super::show::Show;
use super::stop::Stop;
use super::terminal::say;

pub(super) fn run(args: &WhatIf) -> Result<(), Stop> {
    let form = if args.json { Form::Json } else { args.format };
    let show = Show { form, path: args.output.as_deref(), colour: args.color, verbose: args.reading.verbose };
    let files = Sources::sort(&args.traces)?;
    files.left_out().iter().for_each(|line| say(line));
    let inputs = args.selection.family_file.iter().chain(&files.traces).chain(&files.parts);
    let others: Vec<&Path> = inputs.map(PathBuf::as_path).collect();
    let output = show.open(&others)?;
    opening::check_window(&args.span)?;
    let run = opening::run(&args.reading);
    let wanted = opening::wanted(&args.selection, &args.reading)?;
    let mut traces = opening::question(wanted, &args.span, &args.climbing);
    let chosen = run.window_for_all(&traces.window, &traces.wanted, &files.traces)?;
    let span = &chosen.as_ref().map_or_else(|| args.span.clone(), |chosen| args.span.with(chosen));
    traces.window = chosen.unwrap_or(traces.window);
    let question = RankQuestion {
        traces,
        asked: asked(&args.selection, span, &args.climbing),
        given: args.rank.clone(),
        clock: args.clock.into(),
        draws: false,
    };
    let RanksOfFiles { ranks, damage, left_out, .. } = run.ranks(&files, &question)?;
    left_out.iter().for_each(|line| say(line));
    let what = opening::what(&args.selection);
    let compared = compared(run, ranks, question.clock, (&damage, what))?;
    damage.iter().for_each(|line| say(line));
    let found = compared.what_if(&args.rules).map_err(Failure::Rule)?;
    let Some(found) = found else {
        return Err(Stop::NotFound(
            "Nothing found: no launches or kernels are recorded here that could be different. Traces have them, NCCL's own records do not."
                .to_owned(),
        ));
    };
    let name = files::in_order(&args.traces);
    show.print(&WhatIfAnswer::new(&found, &name), &show.screen(&output), output)
}
