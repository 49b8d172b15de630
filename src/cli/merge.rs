//! `nccl-stacks merge`: parts, put together to the answers of `ranks` and of the main job.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::{Path, PathBuf};

use nccl_stacks::analysis::part::Part as StacksPart;
use nccl_stacks::analysis::stacks::{StackOptions, StackReport};
use nccl_stacks::error::Error;
use nccl_stacks::nccl::frames::UserCode;
use nccl_stacks::parts::TracePart;
use nccl_stacks::parts::entry::{Entry, StacksOf};
use nccl_stacks::parts::set::{PartSet, Unread};
use nccl_stacks::ranks::job::{JobError, rank_of};
use nccl_stacks::ranks::part::RankPart;
use nccl_stacks::ranks::ranges::ranges;
use nccl_stacks::ranks::report::{Compared, RanksError};
use nccl_stacks::report::format::{count, visible};
use nccl_stacks::report::{OnPage, Screen};

use super::args::{Merge, MergeFormat, Reading};
use super::failure::Failure;
use super::output::Output;
use super::part::PartFile;
use super::stop::Stop;
use super::terminal::{note, say};
use super::{ranks as of_ranks, stacks as of_stacks, traces};

/// The endings of files of parts.
const ENDINGS: [&str; 2] = ["parquet", "json"];

/// How many ranges of ranks are named.
const RANGES: usize = 20;

/// How many traces are named of those that are there twice.
const NAMED: usize = 3;

pub(super) fn run(args: &Merge) -> Result<(), Stop> {
    let files = files(&args.parts)?;
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
    let mut set = read(&files)?;
    let unread = set.unread.len();
    let damage = set.damage();
    if let (true, Some(first)) = (args.reading.strict, damage.first()) {
        let list = damage.iter().map(|line| format!("\n  {}", visible(line))).collect();
        return Err(Failure::Strict { name: first.split(": ").next().unwrap_or_default().to_owned(), list }.into());
    }
    let answered = match (target, output) {
        (Some(target), _) => parts(args, &mut set, &target),
        (None, Some(output)) if args.stacks => stacks(args, format, &mut set, output),
        (None, Some(output)) => ranks(args, format, &mut set, output),
        (None, None) => Ok(None),
    };
    for unread in &set.unread[unread..] {
        say(&format!("Left out: {}", failure(unread)));
    }
    // What stops the answer says so first.
    let (here, stop) = match answered {
        Ok(here) => (here, None),
        Err(stop) => (None, Some(stop)),
    };
    match (stop, complete(&set, here.as_ref(), Size::asked(args, format, &set))) {
        (None, complete) => complete,
        (Some(stop), Err(Stop::Incomplete(lacks))) => {
            say(&lacks);
            Err(stop)
        }
        (Some(stop), _) => Err(stop),
    }
}

/// The ranks that an answer has, where these are not simply those of its parts; and which of the parts are of another job.
struct Here {
    ranks: BTreeSet<u32>,
    refused: u64,
}

/// Writes all parts that are whole into one file.
fn parts(args: &Merge, set: &mut PartSet, target: &PartFile<'_>) -> Result<Option<Here>, Stop> {
    let wrong = set.each(threads(&args.reading), |entry| entry.part().err());
    let wrong = wrong.filter_map(|(entry, error)| Some((entry.clone(), error?.to_string()))).collect();
    set.leave_out(wrong);
    if set.entries.is_empty() {
        return Err(nothing(set));
    }
    target.write(set).map(|()| None)
}

/// Refuses a form that the question does not have, before anything is read.
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

/// The files that the arguments mean. Of a folder these are all that are named like parts: one that is none may be one that broke.
fn files(arguments: &[PathBuf]) -> Result<Vec<PathBuf>, Stop> {
    let mut files = BTreeSet::new();
    for argument in arguments {
        if super::opening::is_read_once(argument) {
            return Err(Stop::Usage(format!("{}: parts are read from files, not from pipes", argument.display())));
        }
        if !argument.is_dir() {
            files.extend(traces::expand(std::slice::from_ref(argument))?);
            continue;
        }
        let failed = |source| Error::Read { name: argument.display().to_string(), source };
        let is_named = |path: &PathBuf| {
            path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| ENDINGS.contains(&ending))
        };
        let found = std::fs::read_dir(argument).map_err(failed)?;
        let paths = found.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<PathBuf>>>().map_err(failed)?;
        // A pipe would be waited for.
        files.extend(paths.into_iter().filter(is_named).filter(|path| !path.exists() || path.is_file()));
    }
    match files.is_empty() {
        true => Err(Stop::NotFound("Nothing found: no file in these folders is named .parquet or .json.".to_owned())),
        false => Ok(files.into_iter().collect()),
    }
}

/// Reads parts, and says what is wrong with them.
pub(super) fn read(files: &[PathBuf]) -> Result<PartSet, Stop> {
    let set = PartSet::read(files);
    let questions = set.questions();
    if questions.len() > 1 {
        return Err(different(questions.into_iter().map(|(asked, file)| (asked, file.display().to_string()))));
    }
    for unread in &set.unread {
        say(&format!("Left out: {}", failure(unread)));
    }
    for (first, second) in set.twice.iter().take(NAMED) {
        say(&format!("There twice, and counted once: {} and {}", visible(first), visible(second)));
    }
    if let Some(more) = set.twice.len().checked_sub(NAMED).filter(|more| *more > 0) {
        say(&format!("There twice, and counted once: {} more", count(more as u64)));
    }
    let tools = set.tools();
    if tools.len() > 1 {
        let of_tool = |(tool, parts): (&str, u64)| format!("{} ({})", visible(tool), count(parts));
        let list: Vec<String> = tools.into_iter().map(of_tool).collect();
        say(&format!("These parts are of different versions of the program: {}", list.join(", ")));
    }
    Ok(set)
}

/// Parts that were made with different options, each with a file.
fn different<'a>(questions: impl Iterator<Item = (&'a str, String)>) -> Stop {
    let named = |(asked, file): (&str, String)| {
        let asked = if asked.is_empty() { "no options" } else { asked };
        format!("{} with {}", visible(&file), visible(asked))
    };
    Failure::DifferentQuestions { list: questions.map(named).collect::<Vec<_>>().join("; ") }.into()
}

/// Refuses parts beside other options than those that they were made with.
pub(super) fn check_asked(set: &PartSet, asked: &str) -> Result<(), Stop> {
    let other = set.questions().into_iter().find(|(of, _)| *of != asked && *of != super::part::OF_RECORDS);
    match other {
        Some((of, file)) => {
            Err(different([(of, file.display().to_string()), (asked, "this command".to_owned())].into_iter()))
        }
        None => Ok(()),
    }
}

/// Why a file, or a document in it, cannot be used.
pub(super) fn failure(unread: &Unread) -> Failure {
    let file = unread.file.display();
    let name = unread.number.map_or_else(|| file.to_string(), |number| format!("{file}:{number}"));
    Failure::Part { name, message: unread.why.clone() }
}

/// Why there is no answer.
fn nothing(set: &PartSet) -> Stop {
    match set.unread.first() {
        Some(unread) => failure(unread).into(),
        None => Stop::NotFound("Nothing found: these files have no parts.".to_owned()),
    }
}

fn threads(reading: &Reading) -> NonZero<usize> {
    reading.threads.unwrap_or_else(|| std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN))
}

/// The ranks of all parts. Those that cannot be read are left out, and added to the set's.
fn rank_parts(set: &mut PartSet, reading: &Reading) -> Vec<RankPart> {
    let (mut parts, mut wrong) = (Vec::new(), Vec::new());
    for (entry, ranks) in set.each(threads(reading), |entry| entry.ranks()) {
        match ranks {
            Ok(ranks) => match ranks.iter().find_map(|rank| rank_of(rank).err()) {
                None => parts.extend(ranks),
                Some(error) => {
                    let why = format!("{error}. Make its part again with --rank RANK=TRACE");
                    wrong.push((entry.clone(), why));
                }
            },
            Err(error) => wrong.push((entry.clone(), error.to_string())),
        }
    }
    set.leave_out(wrong);
    parts
}

/// Refuses two parts of one rank. Copies of a trace count once before that.
fn check_twice(set: &PartSet) -> Result<(), Stop> {
    let mut known: BTreeMap<u32, &Path> = BTreeMap::new();
    for entry in &set.entries {
        for rank in &entry.head().ranks {
            if let Some(first) = known.insert(*rank, entry.file()) {
                let [first, second] =
                    [first, entry.file()].map(|file| visible(&file.display().to_string()).into_owned());
                return Err(Failure::RankTwice { rank: *rank, first, second }.into());
            }
        }
    }
    Ok(())
}

/// The same, where no part may be left out.
pub(super) fn ranks_of_all(set: &mut PartSet, reading: &Reading) -> Result<Vec<RankPart>, Stop> {
    let parts = rank_parts(set, reading);
    match set.unread.first() {
        Some(unread) => Err(failure(unread).into()),
        None => Ok(parts),
    }
}

fn ranks(args: &Merge, format: MergeFormat, set: &mut PartSet, output: Output) -> Result<Option<Here>, Stop> {
    let Some(form) = format.of_ranks() else { return Ok(None) };
    let damage = shown_damage(set);
    let parts = rank_parts(set, &args.reading);
    if set.entries.is_empty() {
        return Err(nothing(set));
    }
    if parts.iter().all(|part| part.rows.is_empty()) {
        damage.iter().for_each(|line| say(line));
        return Err(Stop::NotFound("Nothing found: no collective ran in the window of any part.".to_owned()));
    }
    for head in set.entries.iter().map(Entry::head).filter(|head| !head.has_collectives) {
        note(&format!("{}: no collective in its window", visible(&head.trace)));
    }
    let compared = Compared::of(parts, args.clock.into()).map_err(|error| match error {
        // The traces may have one name on all machines; their parts have not.
        RanksError::Job(JobError::Twice { .. }) => {
            check_twice(set).err().unwrap_or_else(|| Failure::from(error).into())
        }
        error => Failure::from(error).into(),
    })?;
    let silent = set.entries.iter().map(Entry::head).filter(|head| !head.has_collectives);
    let silent = silent.flat_map(|head| head.ranks.iter().copied());
    let here = Here {
        ranks: compared.job.ranks.iter().copied().chain(silent).collect(),
        refused: compared.job.refused.len() as u64,
    };
    let shown = of_ranks::Shown {
        form,
        strict: args.reading.strict,
        verbose: args.reading.verbose,
        colour: args.color,
        limit: args.limit,
        path: args.output.as_deref(),
        fail_if: &args.fail_if,
    };
    shown.print(&compared, &damage, None, &traces::in_order(&args.parts), output).map(|()| Some(here))
}

/// What is wrong with the traces. Nothing says that the lines of a file are harmless.
fn shown_damage(set: &PartSet) -> Vec<String> {
    set.damage().iter().map(|line| visible(line).into_owned()).collect()
}

fn stacks(args: &Merge, format: MergeFormat, set: &mut PartSet, output: Output) -> Result<Option<Here>, Stop> {
    let Some(form) = format.of_stacks() else { return Ok(None) };
    let damage = shown_damage(set);
    check_twice(set)?;
    let user_code = match set.entries.first().map(|first| first.document::<TracePart>()) {
        Some(Ok(first)) => first.user_code,
        _ => Vec::new(),
    };
    let how = StackOptions { per_rank: args.per_rank, user_code: UserCode::new(user_code), ..StackOptions::default() };
    let mut wrong = Vec::new();
    let parts = set.each(threads(&args.reading), |entry| entry.document::<StacksOf>());
    let parts = parts.filter_map(|(entry, document)| match document {
        Ok(StacksOf { stacks, .. }) => stacks,
        Err(error) => {
            wrong.push((entry.clone(), error.to_string()));
            None::<StacksPart>
        }
    });
    let report = StackReport::of(parts, &how);
    set.leave_out(wrong);
    if set.entries.is_empty() {
        return Err(nothing(set));
    }
    let shown = of_stacks::Shown {
        form,
        sort: args.sort,
        min_share: None,
        limit: args.limit,
        weight: args.weight,
        window_on: how.window_on,
        path: args.output.as_deref(),
        on_page: OnPage::default(),
        screen: Screen {
            full_stacks: args.full_stacks || (output.is_file() && args.stack_depth.is_none()),
            ..of_stacks::screen_of(form, args.stack_depth, args.reading.verbose, args.color, &output)
        },
    };
    if !report.has_answer() && report.coverage.kernels == 0 {
        return Err(Stop::NotFound("Nothing found: these parts have no kernels.".to_owned()));
    }
    let (has_answer, is_damaged) = (report.has_answer(), report.damage.is_unknown());
    shown.print(report, &damage, &traces::in_order(&args.parts), output)?;
    match has_answer {
        true => Stop::unless(is_damaged).map(|()| None),
        false => Err(Stop::NotFound("Nothing found: none of the kernels of these parts has a launch.".to_owned())),
    }
}

/// How many ranks there should be.
#[derive(Clone, Copy)]
enum Size {
    /// As the user says.
    Expected(u32),
    /// As the headers of the traces say.
    OfHeaders(u32),
    /// Nothing says it.
    Unknown,
}

impl Size {
    /// A file of parts is no answer: it may have some of the ranks, and another the others.
    fn asked(args: &Merge, format: MergeFormat, set: &PartSet) -> Self {
        match (args.expect, set.world_size()) {
            (Some(expect), _) => Size::Expected(expect),
            (None, Some(size)) if format != MergeFormat::Parts => Size::OfHeaders(size),
            (None, _) => Size::Unknown,
        }
    }
}

/// Whether all ranks are here.
fn complete(set: &PartSet, here: Option<&Here>, expected: Size) -> Result<(), Stop> {
    let of_parts = set.ranks();
    let ranks = here.map_or(&of_parts, |here| &here.ranks);
    let unread: BTreeSet<&Path> = set.unread.iter().map(|unread| unread.file.as_path()).collect();
    let mut lacks = Vec::new();
    if let Size::Expected(size) | Size::OfHeaders(size) = expected {
        let (missing, list) = gaps(ranks, size);
        let size_text = count(u64::from(size));
        if missing > 0 {
            let by = if matches!(expected, Size::OfHeaders(_)) { " that the traces' headers count" } else { "" };
            lacks.push(format!("Missing: {} of {size_text} ranks{by}: {list}", count(missing)));
        }
        let beyond: Vec<u32> = ranks.range(size..).copied().collect();
        // What headers count is held against each part before.
        if matches!(expected, Size::Expected(_)) && !beyond.is_empty() {
            lacks.push(format!("Beyond the {size_text} ranks of --expect: {}", some_ranges(&beyond)));
        }
    }
    if !unread.is_empty() {
        lacks.push(format!("Files that cannot be used: {}", count(unread.len() as u64)));
    }
    if let Some(Here { refused: refused @ 1.., .. }) = here {
        lacks.push(format!("Parts that do not fit the others: {}", count(*refused)));
    }
    match (lacks.is_empty(), expected) {
        (false, _) => Err(Stop::Incomplete(lacks.join(". "))),
        (true, Size::Expected(size)) => {
            note(&format!("All {} ranks are here", count(u64::from(size))));
            Ok(())
        }
        (true, Size::OfHeaders(_) | Size::Unknown) => Ok(()),
    }
}

/// How many of the first ranks are not there, and which. By what is between those that are: there may be billions.
fn gaps(here: &BTreeSet<u32>, expect: u32) -> (u64, String) {
    let (mut missing, mut list, mut next) = (0, Vec::new(), 0);
    for rank in here.range(..expect).copied().chain([expect]) {
        if next < rank {
            missing += u64::from(rank - next);
            list.push(if rank - next == 1 { next.to_string() } else { format!("{next}-{}", rank - 1) });
        }
        next = rank.saturating_add(1);
    }
    (missing, shortened(&list))
}

/// Ranks as ranges, of which many are not all named.
fn some_ranges(ranks: &[u32]) -> String {
    shortened(&ranges(ranks).split(", ").map(str::to_owned).collect::<Vec<_>>())
}

fn shortened(ranges: &[String]) -> String {
    let more = ranges.len().saturating_sub(RANGES);
    let more = if more > 0 { format!(" and {} more", count(more as u64)) } else { String::new() };
    format!("{}{more}", ranges[..ranges.len().min(RANGES)].join(", "))
}
