//! Parts that were written before, put together.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::{Path, PathBuf};

use super::error::RunError;
use super::files::{self, is_read_once};
use super::reading::Run;
use crate::analysis::reduction::StackReduction;
use crate::analysis::stacks::{StackOptions, StackReport};
use crate::error::Error;
use crate::names::frames::UserCode;
use crate::operation::ranges::ranges;
use crate::operations::clocks::ClockMode;
use crate::parts::TracePart;
use crate::parts::entry::{Entry, StacksOf};
use crate::parts::set::{PartSet, Unread};
use crate::ranks::job::{JobError, rank_of};
use crate::ranks::reduction::RankReduction;
use crate::ranks::report::{Compared, RanksError};
use crate::report::format::{count, visible};

/// The endings of files of parts.
const ENDINGS: [&str; 2] = ["parquet", "json"];

/// How many ranges of ranks are named.
const RANGES: usize = 20;

/// How many duplicate traces are named.
const NAMED: usize = 3;

/// The question that parts of records answer: records take no options.
pub const ASKED_OF_RECORDS: &str = "records";

/// The ranks of parts beside each other.
#[derive(Debug)]
#[non_exhaustive]
pub struct MergedRanks {
    /// The comparison.
    pub compared: Compared,
    /// The ranks of the comparison, and the ranks whose traces have no collective.
    pub ranks: BTreeSet<u32>,
}

impl MergedRanks {
    /// How many parts are of another job.
    pub fn refused(&self) -> u64 {
        self.compared.job.refused.len() as u64
    }
}

/// How many ranks there should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// As given by the caller.
    Given(u32),
    /// As the headers of the traces say.
    ByHeaders(u32),
    /// Nothing says it.
    Unknown,
}

/// Whether the parts have all ranks.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Completeness {
    /// What is missing, too much or unfit, in sentences without full stops.
    pub lacks: Vec<String>,
}

impl Run<'_> {
    /// The files of parts that some paths name. In a folder these are all files named like parts, so that a broken one is reported and not skipped.
    ///
    /// # Errors
    /// A pipe, a folder that cannot be read, and folders without such files.
    pub fn part_files(&self, paths: &[PathBuf]) -> Result<Vec<PathBuf>, RunError> {
        let mut found = BTreeSet::new();
        for path in paths {
            if is_read_once(path) {
                return Err(RunError::PartFromPipe { path: path.clone() });
            }
            if !path.is_dir() {
                found.extend(files::expand(std::slice::from_ref(path))?);
                continue;
            }
            let failed = |source| Error::Read { name: path.display().to_string(), source };
            let is_named = |file: &PathBuf| {
                file.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| ENDINGS.contains(&ending))
            };
            let entries = std::fs::read_dir(path).map_err(failed)?;
            let of_folder =
                entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<PathBuf>>>().map_err(failed)?;
            // A pipe would be waited for.
            found.extend(of_folder.into_iter().filter(is_named).filter(|file| !file.exists() || file.is_file()));
        }
        if found.is_empty() { Err(RunError::NoPartFiles) } else { Ok(found.into_iter().collect()) }
    }

    /// Reads parts, and reports what is wrong with them.
    ///
    /// # Errors
    /// Parts that answer different questions.
    pub fn part_set(&self, files: &[PathBuf]) -> Result<PartSet, RunError> {
        let set = PartSet::read(files);
        let questions = set.questions();
        if questions.len() > 1 {
            return Err(different(questions.into_iter().map(|(asked, file)| (asked, file.display().to_string()))));
        }
        for unread in &set.unread {
            self.warn(&format!("Left out: {}", failure(unread)));
        }
        for (first, second) in set.twice.iter().take(NAMED) {
            self.warn(&format!("There twice, and counted once: {} and {}", visible(first), visible(second)));
        }
        if let Some(more) = set.twice.len().checked_sub(NAMED).filter(|more| *more > 0) {
            self.warn(&format!("There twice, and counted once: {} more", count(more as u64)));
        }
        let tools = set.tools();
        if tools.len() > 1 {
            let of_tool = |(tool, parts): (&str, u64)| format!("{} ({})", visible(tool), count(parts));
            let list: Vec<String> = tools.into_iter().map(of_tool).collect();
            self.warn(&format!("These parts are of different versions of the program: {}", list.join(", ")));
        }
        Ok(set)
    }

    fn part_threads(&self) -> NonZero<usize> {
        self.reading.threads.unwrap_or_else(|| std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN))
    }

    /// The ranks of all parts. A part that cannot be read is left out, and recorded as unread in the set.
    fn ranks_of_parts(&self, set: &mut PartSet) -> Vec<RankReduction> {
        let (mut parts, mut wrong) = (Vec::new(), Vec::new());
        for (entry, ranks) in set.each(self.part_threads(), |entry| entry.ranks()) {
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

    /// The ranks of all parts; a part that cannot be read is an error.
    pub(super) fn ranks_of_all_parts(&self, set: &mut PartSet) -> Result<Vec<RankReduction>, RunError> {
        let parts = self.ranks_of_parts(set);
        match set.unread.first() {
            Some(unread) => Err(failure(unread)),
            None => Ok(parts),
        }
    }

    /// Leaves out parts that are not whole.
    ///
    /// # Errors
    /// Parts of which none is whole.
    pub fn leave_out_broken(&self, set: &mut PartSet) -> Result<(), RunError> {
        let wrong = set.each(self.part_threads(), |entry| entry.part().err());
        let wrong = wrong.filter_map(|(entry, error)| Some((entry.clone(), error?.to_string()))).collect();
        set.leave_out(wrong);
        check_any(set)
    }

    /// Who waits for whom, by parts. Parts that cannot be read are left out.
    ///
    /// # Errors
    /// No part that can be read, no collective in any, a rank that is there twice, and what [`Compared::from_reductions`] fails with.
    pub fn merge_ranks(&self, set: &mut PartSet, clock: ClockMode) -> Result<MergedRanks, RunError> {
        let parts = self.ranks_of_parts(set);
        check_any(set)?;
        if parts.iter().all(|part| part.rows.is_empty()) {
            return Err(RunError::NoCollectiveInParts);
        }
        for head in set.entries.iter().map(Entry::head).filter(|head| !head.has_collectives) {
            self.note(&format!("{}: no collective in its window", visible(&head.trace)));
        }
        let compared = Compared::from_reductions(parts, clock).map_err(|error| match error {
            // The traces may have one name on all machines; their parts have not.
            RanksError::Job(JobError::Twice { .. }) => check_twice(set).err().unwrap_or(RunError::Ranks(error)),
            error => RunError::Ranks(error),
        })?;
        let silent = set.entries.iter().map(Entry::head).filter(|head| !head.has_collectives);
        let silent = silent.flat_map(|head| head.ranks.iter().copied());
        let ranks = compared.job.ranks.iter().copied().chain(silent).collect();
        Ok(MergedRanks { compared, ranks })
    }

    /// The stacks of all ranks, by parts. Parts that cannot be read are left out.
    ///
    /// # Errors
    /// No part that can be read, and a rank that is there twice.
    pub fn merge_stacks(&self, set: &mut PartSet, per_rank: bool) -> Result<StackReport, RunError> {
        check_twice(set)?;
        let user_code = match set.entries.first().map(|first| first.document::<TracePart>()) {
            Some(Ok(first)) => first.user_code,
            _ => Vec::new(),
        };
        let how = StackOptions { per_rank, user_code: UserCode::new(user_code), ..StackOptions::default() };
        let mut wrong = Vec::new();
        let parts = set.each(self.part_threads(), |entry| entry.document::<StacksOf>());
        let parts = parts.filter_map(|(entry, document)| match document {
            Ok(StacksOf { stacks, .. }) => stacks,
            Err(error) => {
                wrong.push((entry.clone(), error.to_string()));
                None::<StackReduction>
            }
        });
        let report = StackReport::merge(parts, &how);
        set.leave_out(wrong);
        check_any(set)?;
        Ok(report)
    }
}

/// Why a file, or a document in it, cannot be used.
pub fn failure(unread: &Unread) -> RunError {
    let file = unread.file.display();
    let name = unread.number.map_or_else(|| file.to_string(), |number| format!("{file}:{number}"));
    RunError::Part { name, message: unread.why.clone() }
}

/// Refuses a set without parts.
fn check_any(set: &PartSet) -> Result<(), RunError> {
    if !set.entries.is_empty() {
        return Ok(());
    }
    Err(set.unread.first().map_or(RunError::NoParts, failure))
}

/// Parts that were made with different options, each with a file.
fn different<'a>(questions: impl Iterator<Item = (&'a str, String)>) -> RunError {
    let named = |(asked, file): (&str, String)| {
        let asked = if asked.is_empty() { "no options" } else { asked };
        format!("{} with {}", visible(&file), visible(asked))
    };
    RunError::DifferentQuestions { list: questions.map(named).collect::<Vec<_>>().join("; ") }
}

/// Refuses parts that were made with other options than these.
pub(super) fn check_asked(set: &PartSet, asked: &str) -> Result<(), RunError> {
    let other = set.questions().into_iter().find(|(of, _)| *of != asked && *of != ASKED_OF_RECORDS);
    match other {
        Some((of, file)) => {
            Err(different([(of, file.display().to_string()), (asked, "this command".to_owned())].into_iter()))
        }
        None => Ok(()),
    }
}

/// Refuses two parts of one rank. Copies of a trace count once before that.
fn check_twice(set: &PartSet) -> Result<(), RunError> {
    let mut known: BTreeMap<u32, &Path> = BTreeMap::new();
    for entry in &set.entries {
        for rank in &entry.head().ranks {
            if let Some(first) = known.insert(*rank, entry.file()) {
                let [first, second] =
                    [first, entry.file()].map(|file| visible(&file.display().to_string()).into_owned());
                return Err(RunError::RankTwice { rank: *rank, first, second });
            }
        }
    }
    Ok(())
}

impl Expected {
    /// The given number or, without one, the number in the headers of the traces.
    pub fn new(given: Option<u32>, set: &PartSet) -> Self {
        match (given, set.world_size()) {
            (Some(size), _) => Expected::Given(size),
            (None, Some(size)) => Expected::ByHeaders(size),
            (None, None) => Expected::Unknown,
        }
    }
}

impl Completeness {
    /// Checks a set of parts. `answered` has the ranks of the answer, where they differ from the ranks of the parts, and the number of parts that
    /// belong to another job.
    pub fn check(set: &PartSet, answered: Option<(&BTreeSet<u32>, u64)>, expected: Expected) -> Self {
        let of_parts = set.ranks();
        let ranks = answered.map_or(&of_parts, |(ranks, _)| ranks);
        let unread: BTreeSet<&Path> = set.unread.iter().map(|unread| unread.file.as_path()).collect();
        let mut lacks = Vec::new();
        if let Expected::Given(size) | Expected::ByHeaders(size) = expected {
            let (missing, list) = gaps(ranks, size);
            let size_text = count(u64::from(size));
            if missing > 0 {
                let by =
                    if matches!(expected, Expected::ByHeaders(_)) { " that the traces' headers count" } else { "" };
                lacks.push(format!("Missing: {} of {size_text} ranks{by}: {list}", count(missing)));
            }
            let beyond: Vec<u32> = ranks.range(size..).copied().collect();
            // What headers count is held against each part before.
            if matches!(expected, Expected::Given(_)) && !beyond.is_empty() {
                lacks.push(format!("Beyond the {size_text} ranks of --expect: {}", some_ranges(&beyond)));
            }
        }
        if !unread.is_empty() {
            lacks.push(format!("Files that cannot be used: {}", count(unread.len() as u64)));
        }
        if let Some((_, refused @ 1..)) = answered {
            lacks.push(format!("Parts that do not fit the others: {}", count(refused)));
        }
        Completeness { lacks }
    }
}

/// How many of the first `expect` ranks are missing, and which. It looks at the gaps, because `expect` may be in the billions.
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
