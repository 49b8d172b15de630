//! `nccl-stacks merge`: answers of `ranks` and of the main job from the parts of a job.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nccl_stacks::attribution::launches::WindowOn;
use nccl_stacks::parts::set::PartSet;
use nccl_stacks::report::format::{count, visible};
use nccl_stacks::report::{OnPage, Screen};
use nccl_stacks::run::{Completeness, Expected, Run, RunError, files, part_failure};

use super::args::{Merge, MergeFormat};
use super::failure::Failure;
use super::output::Output;
use super::part::PartFile;
use super::show::Show;
use super::stop::Stop;
use super::terminal::{note, say};
use super::{opening, ranks as of_ranks, stacks as of_stacks};

pub(super) fn run(args: &Merge) -> Result<(), Stop> {
    let run = opening::run(&args.reading);
    let files = run.part_files(&args.parts)?;
    let inputs: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let format = if args.json { MergeFormat::Json } else { args.format };
    check_format(args, format)?;
    let target = match (format, &args.output) {
        (MergeFormat::Parts, Some(path)) => Some(PartFile::open(path, &inputs)?),
        _ => None,
    };
    let output = match target {
        Some(_) => None,
        None => Some(Output::open(args.output.as_deref(), &inputs)?),
    };
    let mut set = run.part_set(&files)?;
    let unread = set.unread.len();
    let damage = set.damage();
    if let (true, Some(first)) = (args.reading.strict, damage.first()) {
        let list = damage.iter().map(|line| format!("\n  {}", visible(line))).collect();
        return Err(Failure::Strict { name: first.split(": ").next().unwrap_or_default().to_owned(), list }.into());
    }
    let answered = match (target, output) {
        (Some(target), _) => parts(run, &mut set, &target),
        (None, Some(output)) if args.stacks => stacks(args, format, (run, &mut set), output),
        (None, Some(output)) => ranks(args, format, (run, &mut set), output),
        (None, None) => Ok(None),
    };
    for unread in &set.unread[unread..] {
        say(&format!("Left out: {}", part_failure(unread)));
    }
    // If the answer fails and ranks are missing, both are reported. The exit code is the answer's.
    let (here, stop) = match answered {
        Ok(here) => (here, None),
        Err(stop) => (None, Some(stop)),
    };
    match (stop, complete(&set, here.as_ref(), expected(args, format, &set))) {
        (None, complete) => complete,
        (Some(stop), Err(Stop::Incomplete(lacks))) => {
            say(&lacks);
            Err(stop)
        }
        (Some(stop), _) => Err(stop),
    }
}

/// The ranks in the answer, if they differ from the ranks of the parts; and how many parts belong to another job.
type RanksHere = (BTreeSet<u32>, u64);

/// Writes all intact parts into one file.
fn parts(run: Run<'_>, set: &mut PartSet, target: &PartFile<'_>) -> Result<Option<RanksHere>, Stop> {
    run.leave_out_broken(set)?;
    target.write(set).map(|()| None)
}

/// Refuses, before anything is read, a form that the answer does not have.
fn check_format(args: &Merge, format: MergeFormat) -> Result<(), Stop> {
    let wrong = |why: &str| Err(Stop::Usage(format!("--format: {why}")));
    match (format, args.stacks) {
        (MergeFormat::Parts, _) if args.output.is_none() => {
            wrong("parts need --output with a name that ends with .parquet or .json")
        }
        (MergeFormat::Parts, _) => Ok(()),
        (_, true) if format.of_stacks().is_none() => {
            wrong("stacks have the forms text, table, script, json, csv, folded, speedscope and svg")
        }
        (_, false) if format.of_ranks().is_none() => {
            wrong("who waits for whom has the forms text, table, json, csv, perfetto and svg; the others need --stacks")
        }
        _ => Ok(()),
    }
}

fn ranks(
    args: &Merge,
    format: MergeFormat,
    (run, set): (Run<'_>, &mut PartSet),
    output: Output,
) -> Result<Option<RanksHere>, Stop> {
    let Some(form) = format.of_ranks() else { return Ok(None) };
    let damage = shown_damage(set);
    let merged = run.merge_ranks(set, args.clock.into()).inspect_err(|error| {
        if matches!(error, RunError::NoCollectiveInParts) {
            damage.iter().for_each(|line| say(line));
        }
    })?;
    let show = Show { form, path: args.output.as_deref(), colour: args.color, verbose: args.reading.verbose };
    let shown = of_ranks::Shown { show, strict: args.reading.strict, limit: args.limit, fail_if: &args.fail_if };
    let here = (merged.ranks.clone(), merged.refused());
    shown.print(&merged.compared, &damage, None, &files::in_order(&args.parts), output).map(|()| Some(here))
}

/// The damage of the traces. The lines come from the parts' files, so they may contain control characters.
fn shown_damage(set: &PartSet) -> Vec<String> {
    set.damage().iter().map(|line| visible(line).into_owned()).collect()
}

fn stacks(
    args: &Merge,
    format: MergeFormat,
    (run, set): (Run<'_>, &mut PartSet),
    output: Output,
) -> Result<Option<RanksHere>, Stop> {
    let Some(form) = format.of_stacks() else { return Ok(None) };
    let damage = shown_damage(set);
    let report = run.merge_stacks(set, args.per_rank)?;
    let show = Show { form, path: args.output.as_deref(), colour: args.color, verbose: args.reading.verbose };
    let depth = args.stack_depth;
    let full_stacks = args.full_stacks || (output.is_file() && depth.is_none());
    let shown = of_stacks::Shown {
        screen: Screen { full_stacks, ..of_stacks::screen_of(&show, depth, &output) },
        show,
        sort: args.sort,
        min_share: None,
        limit: args.limit,
        weight: args.weight,
        window_on: WindowOn::default(),
        on_page: OnPage::default(),
    };
    if !report.has_answer() && report.coverage.kernels == 0 {
        return Err(Stop::NotFound("Nothing found: these parts have no kernels.".to_owned()));
    }
    let (has_answer, is_damaged) = (report.has_answer(), report.damage.is_unknown());
    shown.print(report, &damage, &files::in_order(&args.parts), output)?;
    match has_answer {
        true => Stop::unless(is_damaged).map(|()| None),
        false => Err(Stop::NotFound("Nothing found: none of the kernels of these parts has a launch.".to_owned())),
    }
}

/// How many ranks there should be. A file of parts is not checked: another file may have the missing ranks.
fn expected(args: &Merge, format: MergeFormat, set: &PartSet) -> Expected {
    match Expected::new(args.expect, set) {
        Expected::ByHeaders(_) if format == MergeFormat::Parts => Expected::Unknown,
        expected => expected,
    }
}

/// Reports missing and surplus ranks.
fn complete(set: &PartSet, here: Option<&RanksHere>, expected: Expected) -> Result<(), Stop> {
    let Completeness { lacks, .. } = Completeness::check(set, here.map(|(ranks, refused)| (ranks, *refused)), expected);
    if !lacks.is_empty() {
        return Err(Stop::Incomplete(lacks.join(". ")));
    }
    if let Expected::Given(size) = expected {
        note(&format!("All {} ranks are here", count(u64::from(size))));
    }
    Ok(())
}
