//! Why the late rank was late: its CPU launched late, its GPU was still busy, it was waiting elsewhere, or the reason is unknown.
//!
//! What a rank does between two launches is compared with what the other ranks do between the same two. A launch can be late in several ways, with
//! different remedies: one event; the same place repeatedly; slower everywhere; or a constant lag, because the rank lost time once and all ranks
//! have launched at the same pace since. A function is named only if it has most of the excess, and a larger share of it than of the time: on a CPU
//! that is slower everywhere, every function takes longer.

mod compare;
mod excess;
mod launch;
mod pattern;

use std::collections::BTreeMap;

use serde::Serialize;

use super::chain::Chains;
use super::job::Job;
use super::reduction::{RankReduction, ReducedStack, Row};
use crate::operations::clocks::Clocks;
use crate::operations::matching::Matches;
use crate::statistics::median;
use crate::time::Ns;

/// Why a rank was late to a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// Its CPU launched the kernel after the others' kernels had started.
    LaunchLate,
    /// It was launched in time, but other kernels were still running.
    GpuLate,
    /// It was in a collective of another group, waiting for another rank.
    WaitingElsewhere,
    /// None of these.
    Unknown,
}

/// A collective at which a rank was late.
#[derive(Debug, Clone, Copy)]
pub(super) struct LateAt {
    /// The indices of group, collective and rank.
    pub(super) group: usize,
    pub(super) collective: usize,
    pub(super) rank: usize,
    /// The index of its row.
    pub(super) row: u32,
    /// How long the others waited.
    pub(super) caused: Ns,
    /// How much later it came than the second to last rank.
    pub(super) added: Ns,
}

/// Why a rank was late, over all collectives at which it was late.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LateRank {
    /// The rank.
    pub rank: u32,
    /// How long the others waited for it where it was late.
    #[serde(rename = "caused_ns")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub caused: Ns,
    /// How long others waited for it, including through ranks that waited for it, but excluding what it caused by waiting for others.
    #[serde(rename = "root_caused_ns")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub root_caused: Ns,
    /// How much of `caused_ns` has which reason, in ns.
    #[serde(rename = "caused_by_ns")]
    #[cfg_attr(test, schemars(with = "crate::operations::written::Words<Why, u64>"))]
    pub by: BTreeMap<Why, Ns>,
    /// How its launches were late; `None` if they were not, or cannot be compared.
    pub launch: Option<LaunchLate>,
    /// Which kernels took longer before the collectives to which its GPU came late; `None` if it came to none.
    pub gpu: Option<Excess>,
    /// The ranks it waited for elsewhere, and how long others waited because of that, longest first.
    pub roots: Vec<Root>,
}

/// A rank that a late rank waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Root {
    /// The rank at the end of the chain.
    pub rank: u32,
    /// How long others waited for it through the late rank.
    #[serde(rename = "caused_ns")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub caused: Ns,
}

/// The ways in which launches can be late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// One segment between two launches has most of the excess.
    OneEvent,
    /// The segments between the same two places have most of it.
    SamePlace,
    /// Nearly all segments are longer than those of other ranks.
    SlowerEverywhere,
    /// The segments are as long as those of other ranks, but all launches are late by about the same time.
    ConstantLag,
    /// Its thread is blocked until its GPU is done, for longer than those of other ranks.
    BlockedByGpu,
    /// It was late already at the first of these launches, and is catching up.
    EarlierLag,
    /// No pattern: some of its segments are longer than those of other ranks, some shorter.
    Unsteady,
}

/// How a rank's launches are late. A segment is the time from one launch to the next; it is compared with those of other ranks between the same two
/// launches.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LaunchLate {
    /// The pattern.
    pub pattern: Pattern,
    /// The number of segments between launches that were compared with those of other ranks.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub segments: u64,
    /// The number of segments longer than the median of the other ranks.
    pub longer: u64,
    /// The median of the differences.
    #[serde(rename = "median_excess_ns")]
    #[cfg_attr(test, schemars(with = "i64"))]
    pub median_excess: Ns,
    /// Their sum.
    #[serde(rename = "total_excess_ns")]
    #[cfg_attr(test, schemars(with = "i64"))]
    pub total_excess: Ns,
    /// The largest difference.
    #[serde(rename = "largest_excess_ns")]
    #[cfg_attr(test, schemars(with = "i64"))]
    pub largest_excess: Ns,
    /// The sum of the other ranks' medians.
    #[serde(rename = "others_ns")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub others: Ns,
    /// The median time by which its late launches ended after the median of the other ranks; `None` without clocks.
    #[serde(rename = "lag_ns")]
    #[cfg_attr(test, schemars(with = "Option<i64>"))]
    pub lag: Option<Ns>,
    /// The longest such time; `None` without clocks.
    #[serde(rename = "largest_lag_ns")]
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub largest_lag: Option<Ns>,
    /// The launches around it, for one event and the same place; `None` for other patterns.
    pub place: Option<Place>,
    /// The functions with the largest excess of their own time; for a CPU blocked by its GPU, the kernels. Empty if none has a large part of it.
    pub excess: Excess,
}

/// The two launches between which something happens, by the frames that best show where they come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Place {
    /// The launch before; `None` if it has no such frame.
    pub from: Option<String>,
    /// The launch after; `None` if it has no such frame.
    pub to: Option<String>,
    /// Whether a new step begins there.
    pub is_new_step: bool,
}

/// What takes longer than on other ranks.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Excess {
    /// The total.
    #[serde(rename = "total_ns")]
    #[cfg_attr(test, schemars(with = "i64"))]
    pub total: Ns,
    /// Functions or kernels, largest excess first; empty if none has a large part of it.
    pub parts: Vec<ExcessPart>,
}

/// A function or kernel that takes longer than on other ranks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ExcessPart {
    /// Its name.
    pub name: String,
    /// The total by which it takes longer.
    #[serde(rename = "excess_ns")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub excess: Ns,
}

/// A kernel that starts this long after its launch waited for something other than the launch.
const LAUNCH_DELAY: Ns = Ns(50_000);

/// A smaller excess is not worth acting on.
const WORTH: Ns = Ns(20_000);

/// The share of the excess that counts as most of it.
const MOST: f64 = 0.5;

/// A function or kernel is named if its share of the excess is this many times its share of the time.
const OUT_OF_PROPORTION: f64 = 1.5;

/// The collectives at which a rank was late, by reason.
#[derive(Debug, Default)]
struct Sorted {
    rank: usize,
    by: BTreeMap<Why, Ns>,
    launches: Vec<LateAt>,
    gpu: Vec<LateAt>,
    roots: BTreeMap<usize, Ns>,
}

impl Sorted {
    fn caused(&self) -> Ns {
        self.by.values().copied().sum()
    }
}

/// Finds the causes of lateness in the reductions of a job.
pub(super) struct Causes<'a> {
    job: &'a Job,
    matches: &'a Matches,
    clocks: &'a Clocks,
    /// By rank: its stacks, numbered alike on all ranks.
    stacks: Vec<Vec<u32>>,
    chains: Chains<'a>,
}

impl<'a> Causes<'a> {
    pub(super) fn new(job: &'a Job, matches: &'a Matches, clocks: &'a Clocks) -> Self {
        let mut numbers: BTreeMap<&ReducedStack, u32> = BTreeMap::new();
        let mut number = |stack: &'a ReducedStack| {
            let next = numbers.len() as u32;
            *numbers.entry(stack).or_insert(next)
        };
        let stacks =
            job.reductions.iter().map(|reduction| reduction.stacks.iter().map(&mut number).collect()).collect();
        Causes { job, matches, clocks, stacks, chains: Chains::new(job, matches, clocks) }
    }

    /// Why ranks were late, given the collectives at which they were. Only the first `explained` ranks, which caused most waiting, are included.
    pub(super) fn explain(&self, late: BTreeMap<usize, Vec<LateAt>>, explained: usize) -> Vec<LateRank> {
        let mut sorted: Vec<Sorted> = Vec::new();
        let mut root_caused: BTreeMap<usize, Ns> = BTreeMap::new();
        for (rank, late) in late {
            let mut of = Sorted { rank, ..Sorted::default() };
            for at in late {
                let (why, root) = self.why(&at);
                *root_caused.entry(root.unwrap_or(rank)).or_default() += at.caused;
                *of.by.entry(why).or_default() += at.caused;
                match (why, root) {
                    (_, Some(root)) => *of.roots.entry(root).or_default() += at.caused,
                    (Why::LaunchLate, _) => of.launches.push(at),
                    (Why::GpuLate, _) => of.gpu.push(at),
                    _ => {}
                }
            }
            sorted.push(of);
        }
        let caused = |rank: usize| root_caused.get(&rank).copied().unwrap_or_default();
        sorted.sort_by_key(|of| (std::cmp::Reverse((caused(of.rank), of.caused())), of.rank));
        sorted.truncate(explained);
        sorted.into_iter().map(|of| self.explain_rank(of, caused)).collect()
    }

    fn explain_rank(&self, of: Sorted, root_caused: impl Fn(usize) -> Ns) -> LateRank {
        let caused = of.caused();
        let Sorted { rank, by, launches, gpu, roots } = of;
        let mut roots: Vec<Root> =
            roots.into_iter().map(|(rank, caused)| Root { rank: self.job.ranks[rank], caused }).collect();
        roots.sort_by_key(|root| (std::cmp::Reverse(root.caused), root.rank));
        LateRank {
            rank: self.job.ranks[rank],
            caused,
            root_caused: root_caused(rank),
            by,
            launch: if launches.is_empty() { None } else { self.launch(rank, &launches) },
            gpu: (!gpu.is_empty()).then(|| self.gpu(rank, &gpu)),
            roots,
        }
    }

    fn row(&self, at: &LateAt) -> (&'a RankReduction, &'a Row) {
        let reduction = &self.job.reductions[at.rank];
        (reduction, &reduction.rows[at.row as usize])
    }

    /// Why the rank was late at one collective, and the rank at the end of the chain if it was waiting elsewhere.
    fn why(&self, at: &LateAt) -> (Why, Option<usize>) {
        if let Some(root) = self.chains.root(at.group, at.collective, at.rank, at.added) {
            return (Why::WaitingElsewhere, Some(root));
        }
        let (reduction, row) = self.row(at);
        // How much longer than others its GPU was idle, or busy, since the previous collective.
        let (idle, busy) =
            (self.excess_of_row(at, |row| row.idle_before), self.excess_of_row(at, |row| row.busy_before));
        let most = MOST * at.added.as_f64();
        let launched = row.segment.map(|segment| reduction.segments[segment as usize].end);
        let why = match launched {
            Some(_) if idle >= busy && idle > most => Why::LaunchLate,
            _ if busy > most => Why::GpuLate,
            // The first collective of a trace has no previous one.
            Some(launched) if row.start - launched < LAUNCH_DELAY => Why::LaunchLate,
            Some(launched) if self.others_started(at).is_some_and(|others| launched > others) => Why::LaunchLate,
            _ => Why::Unknown,
        };
        (why, None)
    }

    /// By how much a value of the late rank's row exceeds the median of the other ranks.
    fn excess_of_row(&self, at: &LateAt, get: fn(&Row) -> Ns) -> f64 {
        let (group, (_, own)) = (&self.matches.groups[at.group], self.row(at));
        let collective = &group.collectives[at.collective];
        let others = (0..group.members.len()).filter(|member| group.members[*member] != at.rank);
        let theirs = others.filter_map(|member| self.job.row(group, collective, member)).map(|row| get(row).as_f64());
        get(own).as_f64() - median(theirs)
    }

    /// When the last of the other ranks started, on the late rank's clock.
    fn others_started(&self, at: &LateAt) -> Option<Ns> {
        let group = &self.matches.groups[at.group];
        if !self.clocks.cover(group) {
            return None;
        }
        let clock = |rank: usize| &self.clocks.ranks[rank];
        let (_, row) = self.row(at);
        let own = clock(at.rank).aligned(row.start);
        let collective = &group.collectives[at.collective];
        let others = (0..group.members.len()).filter(|member| group.members[*member] != at.rank);
        let starts = others.filter_map(|member| {
            Some(clock(group.members[member]).aligned(self.job.row(group, collective, member)?.start))
        });
        Some(row.start - (own - starts.max()?))
    }
}
