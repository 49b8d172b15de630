//! The first step of every command: turn the arguments into a run and a question.

use std::path::PathBuf;

use crate::answers::stacks::data::StackOptions;
use crate::attribution::selection::{OwnFamilies, Pattern, Wanted};
use crate::error::Error;
use crate::input::limit::Limits;
use crate::names::frames::UserCode;
use crate::run::inputs::Inputs;
use crate::run::{self, Question, Run};

use super::args::{Climbing, OfRanks, OneRun, Reading, Selection, Span, asked};
use super::failure::Failure;
use super::stop::Stop;
use super::terminal::is_verbose;
use super::watcher::TERMINAL;
use super::{notes, picker};

/// A run that reads files according to the arguments, and reports to the terminal.
pub(super) fn run(reading: &Reading) -> Run<'static> {
    let options = run::Reading {
        time: reading.ts_unit,
        threads: reading.threads,
        limits: reading.max_bytes.map_or_else(Limits::default, Limits::of_text),
        strict: reading.strict,
        names_all_damage: is_verbose(),
        run: None,
        memory: None,
    };
    Run::new(options, &TERMINAL)
}

/// The same for one of several runs in the files.
pub(super) fn one_run(reading: &Reading, one_run: OneRun) -> Run<'static> {
    let mut run = run(reading);
    run.reading.run = one_run.run;
    run
}

/// The question of the arguments, without the window that a terminal may be asked for.
pub(super) fn question(selection: &Selection, span: &Span, climbing: &Climbing) -> Result<Question, Stop> {
    let wanted = wanted(selection)?;
    check_window(span)?;
    let asked = asked(selection, span, climbing);
    let stacks = StackOptions {
        exact_names: climbing.exact_names,
        window_on: span.window_on,
        without_forward: !climbing.forward_stacks,
        user_code: UserCode::new(climbing.user_code.clone()),
        grouping: climbing.grouping(),
        ..StackOptions::default()
    };
    Ok(Question { wanted, window: span.choice(), stacks, asked, ..Question::default() })
}

/// What to ask of the ranks of a job, and which part of each trace that is: the same for all, which a terminal may be asked for.
pub(super) fn rank_question(run: &Run<'_>, args: &OfRanks, files: &Inputs) -> Result<(Question, Span), Stop> {
    let OfRanks { selection, span, climbing, rank, clock, .. } = args;
    let mut question = question(selection, span, climbing)?;
    (question.given, question.clock) = (rank.clone(), *clock);
    run.choose_for_all(&mut question, &files.traces)?;
    let span = span.with(&question.window);
    question.asked = asked(selection, &span, climbing);
    Ok((question, span))
}

/// Refuses, before anything is read, a window that needs a terminal if there is none, and a name that is not a valid pattern.
pub(super) fn check_window(span: &Span) -> Result<(), Stop> {
    if span.interactive && span.start_ts.is_none() && !picker::can_ask() {
        return Err(Stop::Usage(
            "--interactive needs a terminal; choose with --function-name and --index, or with --start-ts and --duration".to_owned(),
        ));
    }
    let Some(name) = &span.function_name else { return Ok(()) };
    Pattern::parse(name).map(drop).map_err(|error| Stop::Usage(format!("--function-name: {error}")))
}

/// Refuses options that only traces answer, and these by name, where there are parts alone. That other options are those of the parts is checked
/// when these are read.
pub(super) fn refuse_for_parts(span: &Span, climbing: &Climbing, others: &[(&str, bool)]) -> Result<(), Stop> {
    let of_all = [("interactive", span.interactive), ("group-by", climbing.grouping().is_asked())];
    match of_all.iter().chain(others).find(|(_, is_given)| *is_given) {
        Some((name, _)) => Err(Stop::Usage(format!("--{name} needs the traces, and these are parts of them"))),
        None => Ok(()),
    }
}

/// Refuses several traces where one is needed; `one` says why.
pub(super) fn refuse_if_several(one: &str, names: &[String]) -> Result<(), Stop> {
    if names.len() < 2 {
        return Ok(());
    }
    Err(Stop::Usage(format!(
        "{one}, and this archive has {}: {}. Unpack it and name one of them",
        names.len(),
        notes::some_names(names)
    )))
}

pub(super) fn wanted(selection: &Selection) -> Result<Wanted, Stop> {
    let own = own_families(&selection.family_file)?;
    let wanted = Wanted::parse(&selection.kernel_name, &selection.family, &own);
    wanted.map_err(|error| Stop::Usage(Failure::from(error).to_string()))
}

pub(super) fn own_families(files: &[PathBuf]) -> Result<OwnFamilies, Stop> {
    let mut own = OwnFamilies::default();
    for path in files {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read { name: name.clone(), source })?;
        own.parse(&name, &text)?;
    }
    Ok(own)
}

/// What to call these kernels if none is found.
pub(super) fn what(selection: &Selection) -> &'static str {
    let asked = !selection.kernel_name.is_empty() || !selection.family.is_empty();
    if asked { "such kernel" } else { "collective" }
}
