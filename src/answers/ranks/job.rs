//! Which rank each part is, and whether the parts are of one job.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::reduction::{RankReduction, RankRows, RankSource, Row, Step};
use crate::operation::ranges::ranges;
use crate::operations::matching::{MatchedCollective, MatchedGroup, Matches};
use crate::replay::rank::RankGraph;
use crate::replay::trim;
use crate::time::Window;

/// The ranks of a job, as far as they are here.
#[derive(Debug, Default)]
pub struct Job {
    /// The ranks' numbers, ascending.
    pub ranks: Vec<u32>,
    pub reductions: Vec<RankReduction>,
    /// How many ranks the job has, if a header says so.
    pub world_size: Option<u32>,
    /// The ranks that are not here, as far as headers and groups name them.
    pub missing: Vec<u32>,
    /// Traces that are not of this job.
    pub refused: Vec<Refused>,
    /// By rank: the part of its trace that is judged, on its own clock, by the starts of collectives. Empty until they are matched.
    pub(super) spans: Vec<Window>,
}

/// A trace that was left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Refused {
    /// The trace.
    pub trace: String,
    /// The rank that it claims to be.
    pub rank: u32,
    /// Why it was left out.
    pub why: String,
}

#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error("{trace}: {} says that it is rank {}, {} says rank {}", first.0.name(), first.1, second.0.name(), second.1)]
    Contradiction { trace: String, first: (RankSource, u32), second: (RankSource, u32) },
    /// Several ranks in one file have a GPU of one number.
    #[error(
        "{trace}: kernels of ranks {} are there together, and nothing tells them apart: compare the traces that were merged",
        ranges(ranks)
    )]
    Shared {
        /// The file and the GPU.
        trace: String,
        ranks: Vec<u32>,
    },
    #[error("rank {rank} is there twice: {first} and {second}{}", of_one(first, second))]
    Twice { rank: u32, first: String, second: String },
    #[error("{trace}: neither its header, nor records of collectives, nor its name says which rank it is")]
    Unknown { trace: String },
    #[error("{first} is of a job of {first_size} ranks, {second} of one of {second_size}")]
    DifferentJobs { first: String, first_size: u32, second: String, second_size: u32 },
}

/// How to give the traces of one of two jobs or replicas in a folder, if their names differ in one number after a word: `TP-0-DP-0`, `TP-0-DP-1`.
fn of_one(first: &str, second: &str) -> String {
    let is_number = |c: char| c.is_ascii_digit();
    let same = first.bytes().zip(second.bytes()).take_while(|(a, b)| a == b).count();
    let head = first.get(..same).unwrap_or_default().trim_end_matches(is_number);
    let [of_first, of_second] = [first, second].map(|name| name.get(head.len()..).unwrap_or_default());
    let word = head.trim_end_matches(['-', '_', '.']);
    let word = &head[word.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len()..];
    let numbers = [of_first, of_second].map(|rest| rest.len() - rest.trim_start_matches(is_number).len());
    if !word.starts_with(|c: char| c.is_ascii_alphabetic())
        || numbers.contains(&0)
        || of_first[numbers[0]..] != of_second[numbers[1]..]
    {
        return String::new();
    }
    format!(
        ". If they are of two jobs, compare those of one alone: the files with {word}{}, or those with {word}{}",
        &of_first[..numbers[0]],
        &of_second[..numbers[1]]
    )
}

impl Job {
    /// The job that some parts, in any order, are of.
    /// Errors: a part whose rank is unknown or contradicted, and two parts of one rank.
    pub fn from_reductions(reductions: Vec<RankReduction>) -> Result<Self, JobError> {
        let mut numbered: Vec<(u32, RankReduction)> = reductions
            .into_iter()
            .map(|reduction| Ok((rank_of(&reduction)?, reduction)))
            .collect::<Result<_, JobError>>()?;
        numbered.sort_by(|a, b| (a.0, &a.1.trace).cmp(&(b.0, &b.1.trace)));
        let (world_size, mut refused) = refuse_other_sizes(&mut numbered)?;
        refused.extend(refuse_misfits(&mut numbered, world_size));
        if let Some(pair) = numbered.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let [first, second] = [&pair[0], &pair[1]].map(|(_, reduction)| reduction.trace.clone());
            return Err(JobError::Twice { rank: pair[0].0, first, second });
        }
        let (ranks, reductions): (Vec<u32>, Vec<RankReduction>) = numbered.into_iter().unzip();
        let missing = missing(&ranks, &reductions, world_size);
        Ok(Job { ranks, reductions, world_size, missing, refused, spans: Vec::new() })
    }

    pub fn rank_rows(&self) -> Vec<RankRows<'_>> {
        self.ranks.iter().zip(&self.reductions).map(|(rank, reduction)| reduction.rank_rows(*rank)).collect()
    }

    pub fn collectives<'a>(&'a self, group: &'a MatchedGroup) -> impl DoubleEndedIterator<Item = Matched<'a>> {
        group.collectives.iter().map(move |collective| Matched { job: self, group, collective })
    }

    /// Leaves out of the graphs what is of steps that not all ranks have.
    pub(super) fn trim(&mut self, matches: &Matches) {
        let graphs: Vec<&RankGraph> = self.reductions.iter().map(|of| &of.graph).collect();
        let Some(common) = trim::common_steps(&graphs, matches) else { return };
        for (reduction, steps) in self.reductions.iter_mut().zip(common) {
            let windows: Vec<Window> = reduction.steps.iter().map(|step| step.window).collect();
            reduction.graph = trim::trim(&reduction.graph, steps, &windows);
            // So that those of all ranks are the same.
            reduction.leave_steps_out(steps.first);
        }
    }

    /// Leaves out ranks that have no step of the others' by the profilers' numbers, and were recorded at another time: those that are fewer.
    pub(super) fn refuse_other_steps(&mut self) {
        let numbers = |of: &RankReduction| of.steps.iter().map(Step::number).collect::<Option<BTreeSet<u64>>>();
        let Some(of_ranks) = self.reductions.iter().map(numbers).collect::<Option<Vec<BTreeSet<u64>>>>() else {
            return;
        };
        let window = |rank: usize| self.reductions[rank].steps.iter().map(|step| step.window).reduce(Window::around);
        // Sets of ranks, each with the steps of all of its ranks.
        let mut sets: Vec<(Vec<usize>, BTreeSet<u64>, Option<Window>)> = Vec::new();
        for (rank, steps) in of_ranks.into_iter().enumerate() {
            let mut set = (vec![rank], steps, window(rank));
            sets.retain(|(ranks, steps, span)| {
                let is_at_once =
                    span.zip(set.2).is_none_or(|(one, other)| one.start < other.end && other.start < one.end);
                let is_apart = steps.is_disjoint(&set.1) && !is_at_once;
                if !is_apart {
                    set.0.extend(ranks);
                    set.1.extend(steps);
                    set.2 = set.2.into_iter().chain(*span).reduce(Window::around);
                }
                is_apart
            });
            sets.push(set);
        }
        let Some(most) =
            (0..sets.len()).max_by_key(|at| (sets[*at].0.len(), std::cmp::Reverse(sets[*at].0.iter().min())))
        else {
            return;
        };
        let (_, kept, _) = sets.remove(most);
        let span = |steps: &BTreeSet<u64>| match (steps.first(), steps.last()) {
            (Some(first), Some(last)) => format!("{first} to {last}"),
            _ => String::new(),
        };
        let others = sets.iter().flat_map(|(ranks, steps, _)| ranks.iter().map(move |rank| (*rank, steps)));
        let mut others: Vec<(usize, String)> = others.map(|(rank, steps)| (rank, span(steps))).collect();
        others.sort();
        for (rank, steps) in others.into_iter().rev() {
            self.missing.push(self.ranks[rank]);
            self.missing.sort_unstable();
            self.refuse(rank, format!("it has the profiler's steps {steps}, the others {}", span(&kept)));
        }
    }

    pub(super) fn refuse(&mut self, at: usize, why: String) {
        let (rank, reduction) = (self.ranks.remove(at), self.reductions.remove(at));
        self.refused.push(Refused { trace: reduction.trace, rank, why });
        self.refused.sort();
    }
}

/// A collective of a job, with the group that ran it.
#[derive(Clone, Copy)]
pub struct Matched<'a> {
    pub job: &'a Job,
    pub group: &'a MatchedGroup,
    pub collective: &'a MatchedCollective,
}

impl<'a> Matched<'a> {
    /// The position of a member among the ranks.
    pub fn rank(self, member: usize) -> usize {
        self.group.members[member]
    }

    pub fn row(self, member: usize) -> Option<&'a Row> {
        let (rank, row) = self.group.place(self.collective, member)?;
        Some(&self.job.reductions[rank].rows[row])
    }

    /// The members that have it, with their rows.
    pub fn rows(self) -> impl Iterator<Item = (usize, &'a Row)> + Clone {
        (0..self.group.members.len()).filter_map(move |member| Some((member, self.row(member)?)))
    }

    /// The same, without those whose kernel counts elsewhere.
    pub fn counted_rows(self) -> impl Iterator<Item = (usize, &'a Row)> + Clone {
        self.rows().filter(move |(member, _)| self.collective.counts(*member))
    }

    /// Whether it is in the span that the traces of all ranks have.
    pub(super) fn is_in_common(self) -> bool {
        let span = |member: usize| self.job.spans.get(self.rank(member));
        self.rows().all(|(member, row)| span(member).is_none_or(|span| span.contains(row.start)))
    }
}

/// Which rank a part is.
/// Errors: nothing says it, or two sources contradict each other.
pub fn rank_of(reduction: &RankReduction) -> Result<u32, JobError> {
    let trace = reduction.trace.clone();
    let of_records = reduction.said.iter().filter(|(source, _)| *source == RankSource::Records);
    let ranks: Vec<u32> = of_records.map(|(_, rank)| *rank).collect();
    if ranks.len() > 1 {
        return Err(JobError::Shared { trace, ranks });
    }
    let given = reduction.said.iter().find(|(source, _)| *source == RankSource::Given);
    let Some(first) = given.or(reduction.said.first()).copied() else { return Err(JobError::Unknown { trace }) };
    // The name of a file is a hint: of several hosts it has the local rank.
    let is_name = |source: RankSource| matches!(source, RankSource::FileName | RankSource::FileWord);
    let mut others = reduction.said.iter().copied().filter(|(source, _)| !is_name(*source));
    match others.find(|(_, rank)| given.is_none() && *rank != first.1) {
        Some(second) => Err(JobError::Contradiction { trace, first, second }),
        None => Ok(first.1),
    }
}

/// Leaves out what is of a job of another size than most.
fn refuse_other_sizes(reductions: &mut Vec<(u32, RankReduction)>) -> Result<(Option<u32>, Vec<Refused>), JobError> {
    let mut sizes: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, (_, reduction)) in reductions.iter().enumerate() {
        reduction.world_size.into_iter().for_each(|size| sizes.entry(size).or_default().push(at));
    }
    let mut by_count: Vec<(u32, Vec<usize>)> = sizes.into_iter().collect();
    by_count.sort_by_key(|(_, of)| std::cmp::Reverse(of.len()));
    let Some((size, most)) = by_count.first() else { return Ok((None, Vec::new())) };
    if let Some((other, of)) = by_count.get(1).filter(|(_, of)| of.len() == most.len()) {
        let trace = |of: &[usize]| reductions[of[0]].1.trace.clone();
        return Err(JobError::DifferentJobs {
            first: trace(most),
            first_size: *size,
            second: trace(of),
            second_size: *other,
        });
    }
    let (size, mut refused) = (*size, Vec::new());
    reductions.retain(|(rank, reduction)| match reduction.world_size.filter(|other| *other != size) {
        Some(other) => {
            let why = format!("it is of a job of {other} ranks, the others of one of {size}");
            refused.push(Refused { trace: reduction.trace.clone(), rank: *rank, why });
            false
        }
        None => true,
    });
    Ok((Some(size), refused))
}

/// Leaves out ranks that the job, or their own groups, do not have.
fn refuse_misfits(reductions: &mut Vec<(u32, RankReduction)>, world_size: Option<u32>) -> Vec<Refused> {
    let mut refused = Vec::new();
    reductions.retain(|(rank, reduction)| {
        let misfit = groups(reduction).find(|ranks| !ranks.contains(rank));
        let why = match (world_size.filter(|size| rank >= size), misfit) {
            (Some(size), _) => format!("it is rank {rank}, and the job has {size} ranks"),
            (None, Some(ranks)) => format!("it is rank {rank}, and runs collectives of ranks {}", ranges(ranks)),
            (None, None) => return true,
        };
        refused.push(Refused { trace: reduction.trace.clone(), rank: *rank, why });
        false
    });
    refused
}

/// The ranks of each group whose collectives a rank runs, as far as they are known.
fn groups(reduction: &RankReduction) -> impl Iterator<Item = &Vec<u32>> {
    let used: BTreeSet<u32> = reduction.rows.iter().filter_map(|row| row.group).collect();
    used.into_iter().filter_map(|group| reduction.groups[group as usize].ranks.as_ref())
}

/// The ranks that headers and groups name, and that are not here.
fn missing(ranks: &[u32], reductions: &[RankReduction], world_size: Option<u32>) -> Vec<u32> {
    let groups: BTreeSet<&Vec<u32>> = reductions.iter().flat_map(groups).collect();
    let named: BTreeSet<u32> = match world_size {
        Some(size) => (0..size).collect(),
        None => groups.into_iter().flatten().copied().collect(),
    };
    named.into_iter().filter(|rank| ranks.binary_search(rank).is_err()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_two_jobs_are_kept_apart_by_a_number() {
        for (first, second, says) in [
            (
                "f/1.1-TP-0-DP-0.json",
                "f/1.1-TP-0-DP-1.json",
                "those of one alone: the files with DP-0, or those with DP-1",
            ),
            ("run9_rank0.json", "run10_rank0.json", "the files with run9, or those with run10"),
            ("rank0.json", "rank0.json.gz", ""),
            ("a/rank0.json", "b/rank0.json", ""),
            ("1.json", "2.json", ""),
        ] {
            let said = of_one(first, second);
            assert!(said.ends_with(says) && said.is_empty() == says.is_empty(), "{first}: {said}");
        }
    }
}
