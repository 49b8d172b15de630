//! Parts that were written before, put together.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use super::completeness::Completeness;
use super::error::RunError;
use super::memory;
use super::question::Question;
use super::ranks::RanksOfFiles;
use super::reading::Run;
use super::stacks::StackAnswer;
use super::watch::Event;
use crate::answers::ranks::job::{Job, JobError, rank_of};
use crate::answers::stacks::data::{StackOptions, StackReport};
use crate::answers::stacks::reduction::StackReduction;
use crate::document::format::{count, visible};
use crate::load::Progress;
use crate::names::frames::UserCode;
use crate::parts::TracePart;
use crate::parts::entry::{Entry, StacksOf};
use crate::parts::set::{PartSet, Unread};

/// After so many parts it is looked whether they still fit into memory.
const LOOK: usize = 32;

/// How many duplicate traces are named.
const NAMED: usize = 3;

/// The question that parts of records answer: records take no options.
pub const ASKED_OF_RECORDS: &str = "records";

impl Run<'_> {
    /// Reads parts, and reports what is wrong with them. `asked` are the options that they must have been made with; without any they may be what
    /// they like, if all are the same.
    fn part_set(&self, files: &[PathBuf], asked: Option<&str>) -> Result<PartSet, RunError> {
        let size = files.iter().map(|file| Some(std::fs::metadata(file).ok()?.len())).sum();
        let set = PartSet::read(files, |taken| self.report(Event::Progress(Progress { taken, size })));
        self.report(Event::ReadingEnded);
        let mut questions = set.questions();
        if let Some(asked) = asked {
            questions.retain(|of, _| *of != ASKED_OF_RECORDS);
            // Parts of all kernels may have those of the families alone, see `refuse_others`.
            if !(is_of_families(asked) && questions.keys().all(|of| of.is_empty())) {
                questions.entry(asked).or_insert(Path::new("this command"));
            }
        }
        if questions.len() > 1 {
            return Err(different(questions));
        }
        set.unread.iter().for_each(|unread| self.warn_unread(unread));
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
        let damage = damage_of(&set);
        match damage.first().filter(|_| self.reading.strict) {
            Some(first) => {
                let name = first.split(": ").next().unwrap_or_default().to_owned();
                Err(RunError::Strict { name, list: damage.iter().map(|line| format!("\n  {line}")).collect() })
            }
            None => Ok(set),
        }
    }

    fn warn_unread(&self, unread: &Unread) {
        self.warn(&format!("Left out: {}", failure(unread)));
    }

    /// Leaves parts out that cannot be used, each with the reason.
    fn leave_out(&self, set: &mut PartSet, wrong: Vec<(Entry, String)>) {
        let before = set.unread.len();
        set.leave_out(wrong);
        set.unread[before..].iter().for_each(|unread| self.warn_unread(unread));
    }

    fn part_threads(&self) -> NonZero<usize> {
        self.reading.threads.unwrap_or_else(|| std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN))
    }

    /// Joins parts into one set, which can be written as one file. Parts that are not whole are left out.
    /// Errors: parts that were made with other options than `asked`, or with different ones; no part that is whole; damage where nothing may be
    /// damaged.
    pub fn joined_parts(&self, files: &[PathBuf], asked: &str) -> Result<(PartSet, Completeness), RunError> {
        let mut set = self.part_set(files, Some(asked).filter(|asked| !asked.is_empty()))?;
        let wrong = set.each(self.part_threads(), |entry| entry.part().err());
        let wrong = wrong.filter_map(|(entry, error)| Some((entry.clone(), error?.to_string()))).collect();
        self.leave_out(&mut set, wrong);
        check_any(&set)?;
        // Another file may have the other ranks.
        let completeness = Completeness { by_headers: None, ..Completeness::of_parts(&set) };
        Ok((set, completeness))
    }

    /// Adds the ranks of all parts. A part that cannot be used is left out.
    pub(super) fn add_ranks_of_parts(
        &self,
        files: &[PathBuf],
        asked: Option<&str>,
        question: &Question,
        found: &mut RanksOfFiles,
    ) -> Result<(), RunError> {
        let mut set = self.part_set(files, asked)?;
        found.damage.extend(damage_of(&set));
        let mut wrong = Vec::new();
        let parts = set.entries.len();
        for (at, (entry, ranks)) in set.each(self.part_threads(), |entry| entry.ranks()).enumerate() {
            self.report(Event::Counted { what: "Parts", done: at + 1, of: parts });
            if at % LOOK == LOOK - 1 {
                memory::fit(&mut found.ranks, self.memory());
            }
            if let (Ok(ranks), true) = (&ranks, asked.is_some_and(is_of_families)) {
                let kernels = ranks.iter().flat_map(|rank| rank.kinds.iter().map(|kind| rank.text(kind.kernel)));
                refuse_others(entry, question, kernels)?;
            }
            match ranks {
                Ok(ranks) => match ranks.iter().find_map(|rank| rank_of(rank).err()) {
                    None => found.ranks.extend(ranks),
                    Some(error) => {
                        let why = format!("{error}. Make its part again with --rank RANK=TRACE");
                        wrong.push((entry.clone(), why));
                    }
                },
                Err(error) => wrong.push((entry.clone(), error.to_string())),
            }
        }
        self.report(Event::ReadingEnded);
        self.leave_out(&mut set, wrong);
        check_any(&set)?;
        // The traces may have one name on all machines; their parts have not.
        if let Err(twice) = check_twice(&set)
            && matches!(Job::from_reductions(found.ranks.clone()), Err(JobError::Twice { .. }))
        {
            return Err(twice);
        }
        let silent = set.entries.iter().filter(|entry| !entry.head().has_collectives);
        for entry in silent.clone() {
            self.note_silent(&entry.head().trace);
            if let Ok(StacksOf { stacks: Some(stacks) }) = entry.document() {
                found.add_silent(stacks.damage);
            }
        }
        let silent = silent.flat_map(|entry| entry.head().ranks.iter().copied()).collect();
        found.completeness = Completeness { silent, ..Completeness::of_parts(&set) };
        Ok(())
    }

    /// Reports a trace without a collective.
    pub(super) fn note_silent(&self, trace: &str) {
        self.note(&format!("{}: no collective in its window", visible(trace)));
    }

    /// The stacks of all ranks, by parts. Parts that cannot be read are left out.
    /// Errors: no part that can be read, parts that were made with other options than the question's, a rank that is there twice, and damage where
    /// nothing may be damaged.
    pub(super) fn stacks_of_parts(&self, files: &[PathBuf], question: &Question) -> Result<StackAnswer, RunError> {
        let mut set = self.part_set(files, question.asked_of_parts())?;
        check_twice(&set)?;
        let damage = damage_of(&set);
        let user_code = match set.entries.first().map(|first| first.document::<TracePart>()) {
            Some(Ok(first)) => first.user_code,
            _ => Vec::new(),
        };
        let per_rank = question.stacks.per_rank;
        let how = StackOptions { per_rank, user_code: UserCode::new(user_code), ..StackOptions::default() };
        let (mut wrong, mut refused) = (Vec::new(), None);
        let is_of_families = question.asked_of_parts().is_some_and(is_of_families);
        let parts = set.each(self.part_threads(), |entry| entry.document::<StacksOf>());
        let parts = parts.enumerate().filter_map(|(at, (entry, document))| {
            self.report(Event::Counted { what: "Parts", done: at + 1, of: set.entries.len() });
            match document {
                Ok(StacksOf { stacks, .. }) => {
                    if let (Some(stacks), true) = (&stacks, is_of_families && refused.is_none()) {
                        refused = refuse_others(entry, question, stacks.kernel_names()).err();
                    }
                    stacks
                }
                Err(error) => {
                    wrong.push((entry.clone(), error.to_string()));
                    None::<StackReduction>
                }
            }
        });
        let report = StackReport::merge(parts, &how);
        self.report(Event::ReadingEnded);
        if let Some(refused) = refused {
            return Err(refused);
        }
        self.leave_out(&mut set, wrong);
        check_any(&set)?;
        let completeness = Completeness::of_parts(&set);
        Ok(StackAnswer { report, damage, completeness, ..StackAnswer::default() })
    }
}

/// Whether families are all that is asked for.
fn is_of_families(asked: &str) -> bool {
    let words: Vec<&str> = asked.split(' ').collect();
    !asked.is_empty() && words.chunks(2).all(|words| matches!(words, ["--family", _]))
}

/// Refuses a part with kernels that are not asked for: what all of its kernels cost together cannot be taken apart.
fn refuse_others<'n>(
    entry: &Entry,
    question: &Question,
    mut names: impl Iterator<Item = &'n str>,
) -> Result<(), RunError> {
    match names.find(|name| !question.wanted.fits(name)) {
        None => Ok(()),
        Some(name) => Err(RunError::Part {
            name: entry.file().display().to_string(),
            message: format!("it has other kernels, too ({}). Make it again with {}", visible(name), question.asked),
        }),
    }
}

/// The damage of the traces, in lines. They come from the parts' files, so they may contain control characters.
fn damage_of(set: &PartSet) -> Vec<String> {
    set.damage().iter().map(|line| visible(line).into_owned()).collect()
}

/// Why a file, or a document in it, cannot be used.
fn failure(unread: &Unread) -> RunError {
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
fn different(questions: BTreeMap<&str, &Path>) -> RunError {
    let named = |(asked, file): (&str, &Path)| {
        let asked = if asked.is_empty() { "no options" } else { asked };
        format!("{} with {}", visible(&file.display().to_string()), visible(asked))
    };
    RunError::DifferentQuestions { list: questions.into_iter().map(named).collect::<Vec<_>>().join("; ") }
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
