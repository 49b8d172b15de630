//! Why the late rank was late: its CPU launched late, its GPU was still busy, it waited elsewhere itself, or nothing says why.
//!
//! What a rank does between two launches is compared with what the other ranks do between the same two. A launch is late in one of
//! several ways, which need different remedies: one event; the same place again and again; slower everywhere; or a constant lag, because
//! the rank fell back once and all ranks launch at the same pace since. A function is named only if it has most of the excess, and more
//! of it than of the time: on a CPU that is slower everywhere every function takes longer.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::chain::Chains;
use super::clock::{Clocks, median_of};
use super::job::Job;
use super::matching::{Matches, Unit};
use super::part::{Class, Outlier, PartStack, RankPart, Row, Segment};
use crate::nccl::calls::waits_for_gpu;
use crate::time::Ns;

/// Why a rank came late to a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// Its CPU launched the kernel after the others' kernels had started.
    LaunchLate,
    /// It was launched in time, but other kernels still ran.
    GpuLate,
    /// It was in a collective of another group, at which it waited for another rank.
    WaitingElsewhere,
    /// None of these.
    Unknown,
}

/// A collective at which a rank was late.
#[derive(Debug, Clone, Copy)]
pub(super) struct LateAt {
    /// The positions of unit, column, and of the rank.
    pub(super) unit: usize,
    pub(super) column: usize,
    pub(super) rank: usize,
    /// Its row.
    pub(super) row: u32,
    /// What the others waited.
    pub(super) caused: Ns,
    /// How much later it came than the last but one.
    pub(super) added: Ns,
}

/// Why a rank was late, over all collectives at which it was.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LateRank {
    /// The rank.
    pub rank: u32,
    /// What the others waited for it where it was late.
    #[serde(rename = "caused_ns")]
    pub caused: Ns,
    /// What others waited for it, also by way of ranks that waited for it themselves, less what it caused because it waited for others.
    #[serde(rename = "root_caused_ns")]
    pub root_caused: Ns,
    /// How much of that is for which reason.
    #[serde(rename = "caused_by_ns")]
    pub by: BTreeMap<Why, Ns>,
    /// How its launches were late.
    pub launch: Option<LaunchLate>,
    /// Which kernels took longer.
    pub gpu: Option<Excess>,
    /// For whom it waited elsewhere, and what the others waited because of that, the most first.
    pub roots: Vec<Root>,
}

/// A rank for which a late rank waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Root {
    /// The rank at the end of the chain.
    pub rank: u32,
    /// What others waited for it by way of the late rank.
    #[serde(rename = "caused_ns")]
    pub caused: Ns,
}

/// In which way launches are late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// One segment has most of the excess.
    OneEvent,
    /// The segments between the same two places have it.
    SamePlace,
    /// Nearly all segments are longer than those of other ranks.
    SlowerEverywhere,
    /// The segments are as long as those of other ranks, but all launches come late by about the same time.
    ConstantLag,
    /// Its thread is blocked until its GPU is done, longer than those of other ranks.
    BlockedByGpu,
    /// It was late at the first of these launches already, and is catching up.
    EarlierLag,
    /// None of these: its segments are now longer and now shorter.
    Unsteady,
}

/// How a rank's launches are late.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LaunchLate {
    /// In which way.
    pub pattern: Pattern,
    /// How many times between launches were compared with those of other ranks.
    pub segments: u64,
    /// How many are longer than the median of the other ranks'.
    pub longer: u64,
    /// The median of the differences.
    #[serde(rename = "median_excess_ns")]
    pub median_excess: Ns,
    /// Their sum.
    #[serde(rename = "total_excess_ns")]
    pub total_excess: Ns,
    /// The largest of them.
    #[serde(rename = "largest_excess_ns")]
    pub largest_excess: Ns,
    /// The sum of the other ranks' medians.
    #[serde(rename = "others_ns")]
    pub others: Ns,
    /// How long its launches were after the median of the others' where it was late, in the median; `None` without clocks.
    #[serde(rename = "lag_ns")]
    pub lag: Option<Ns>,
    /// The longest such time.
    #[serde(rename = "largest_lag_ns")]
    pub largest_lag: Option<Ns>,
    /// Between which launches, for one event and the same place.
    pub place: Option<Place>,
    /// The functions with the largest excess of their own time. None has a large part of it where the list is empty.
    pub excess: Excess,
}

/// Between which launches something happens: the frames that show best where they come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Place {
    /// The launch before.
    pub from: Option<String>,
    /// The launch after.
    pub to: Option<String>,
    /// Whether a new step begins there.
    pub is_new_step: bool,
}

/// What takes longer than on other ranks.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Excess {
    /// In all.
    #[serde(rename = "total_ns")]
    pub total: Ns,
    /// Functions or kernels, the one with the most first.
    pub parts: Vec<ExcessPart>,
}

/// A function or kernel that takes longer than on other ranks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ExcessPart {
    /// Its name.
    pub name: String,
    /// How much longer, in all.
    #[serde(rename = "excess_ns")]
    pub excess: Ns,
}

/// A kernel that starts this long after its launch waited for something else.
const LAUNCH_DELAY: Ns = Ns(50_000);

/// A kernel that starts this soon after another ended was held up by it.
const SOON: Ns = Ns(30_000);

/// What is longer by less is nothing that a person could act on.
const WORTH: Ns = Ns(20_000);

/// So much of the excess is most of it.
const MOST: f64 = 0.5;

/// A part of the excess is blamed if it is so many times its part of the time.
const OUT_OF_PROPORTION: f64 = 1.5;

/// What has so much of the excess is blamed even if nothing else ran.
const NEARLY_ALL: f64 = 0.9;

/// How many standard deviations the share of longer segments must be above one half.
const SIGNIFICANT: f64 = 3.0;

/// Two CPUs never take the same time to a few µs.
const LEAST_NOISE: f64 = 3_000.0;

/// A sum is more than chance from so many standard deviations on.
const BEYOND_CHANCE: f64 = 5.0;

/// A lag that is shorter may be chance: a rank that is behind stays so for a while.
const LONG_LAG: f64 = 50_000.0;

/// How many functions or kernels are named.
const NAMED: usize = 3;

/// The collectives at which a rank was late, by why.
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

/// Looks for causes in the parts of a job.
pub(super) struct Causes<'a> {
    job: &'a Job,
    matches: &'a Matches,
    clocks: &'a Clocks,
    /// By rank and row: unit, column and member.
    places: Vec<Vec<Option<(u32, u32, u32)>>>,
    /// By rank: its stacks, numbered alike on all ranks.
    stacks: Vec<Vec<u32>>,
    chains: Chains<'a>,
}

impl<'a> Causes<'a> {
    pub(super) fn new(job: &'a Job, matches: &'a Matches, clocks: &'a Clocks) -> Self {
        let mut places: Vec<Vec<_>> = job.parts.iter().map(|part| vec![None; part.rows.len()]).collect();
        for (number, unit) in matches.units.iter().enumerate() {
            for (at, column) in unit.columns.iter().enumerate() {
                for (member, row) in column.rows.iter().enumerate() {
                    if let Some(row) = row {
                        places[unit.members[member]][*row as usize] = Some((number as u32, at as u32, member as u32));
                    }
                }
            }
        }
        let mut numbers: BTreeMap<&PartStack, u32> = BTreeMap::new();
        let mut number = |stack: &'a PartStack| {
            let next = numbers.len() as u32;
            *numbers.entry(stack).or_insert(next)
        };
        let stacks = job.parts.iter().map(|part| part.stacks.iter().map(&mut number).collect()).collect();
        Causes { job, matches, clocks, places, stacks, chains: Chains::new(job, matches, clocks) }
    }

    /// Why ranks were late, of the collectives at which they were. Those that caused most are looked into: so many.
    pub(super) fn of_ranks(&self, late: BTreeMap<usize, Vec<LateAt>>, explained: usize) -> Vec<LateRank> {
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
        sorted.into_iter().map(|of| self.of_rank(of, caused)).collect()
    }

    fn of_rank(&self, of: Sorted, root_caused: impl Fn(usize) -> Ns) -> LateRank {
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

    fn row(&self, at: &LateAt) -> (&'a RankPart, &'a Row) {
        let part = &self.job.parts[at.rank];
        (part, &part.rows[at.row as usize])
    }

    /// Why it was late at one collective, and which rank is at the end of the chain if it waited elsewhere.
    fn why(&self, at: &LateAt) -> (Why, Option<usize>) {
        if let Some(root) = self.chains.root(at.unit, at.column, at.rank, at.added) {
            return (Why::WaitingElsewhere, Some(root));
        }
        let (part, row) = self.row(at);
        let launched = row.segment.map(|segment| part.segments[segment as usize].end);
        let before = row.before_end.unwrap_or(Ns::MIN);
        if let Some(launched) = launched.filter(|launched| *launched >= before) {
            let soon =
                row.start - launched < LAUNCH_DELAY || self.others_started(at).is_some_and(|others| launched > others);
            return (if soon { Why::LaunchLate } else { Why::Unknown }, None);
        }
        if row.start - before >= SOON {
            return (Why::Unknown, None);
        }
        (Why::GpuLate, None)
    }

    /// When the last of the others started, on the late rank's clock.
    fn others_started(&self, at: &LateAt) -> Option<Ns> {
        let unit = &self.matches.units[at.unit];
        if !self.clocks.cover(unit) {
            return None;
        }
        let clock = |rank: usize| &self.clocks.ranks[rank];
        let (_, row) = self.row(at);
        let own = clock(at.rank).aligned(row.start);
        let column = &unit.columns[at.column];
        let others = (0..unit.members.len()).filter(|member| unit.members[*member] != at.rank);
        let starts = others
            .filter_map(|member| Some(clock(unit.members[member]).aligned(unit.row(self.job, column, member)?.start)));
        Some(row.start - (own - starts.max()?))
    }

    /// How the launches of a rank were late: by what its thread did; if that shows nothing, by how long it was blocked until its GPU was
    /// done; and at last by both. The other ranks are blocked until the late one has come, so their segments are long because its are.
    fn launch(&self, rank: usize, late: &[LateAt]) -> Option<LaunchLate> {
        let active = self.launch_by(rank, late, Segment::active)?;
        if matches!(active.pattern, Pattern::OneEvent | Pattern::SamePlace | Pattern::SlowerEverywhere) {
            return Some(active);
        }
        let blocked = self.launch_by(rank, late, |segment| segment.blocked)?;
        if matches!(blocked.pattern, Pattern::OneEvent | Pattern::SamePlace | Pattern::SlowerEverywhere) {
            let excess = self.excess(rank, |part| &part.gpu, |_| true);
            if !excess.parts.is_empty() {
                return Some(LaunchLate { pattern: Pattern::BlockedByGpu, excess, ..blocked });
            }
        }
        if active.pattern != Pattern::Unsteady {
            return Some(active);
        }
        let whole = self.launch_by(rank, late, |segment| segment.end - segment.start)?;
        Some(if whole.pattern == Pattern::Unsteady { active } else { whole })
    }

    fn launch_by(&self, rank: usize, late: &[LateAt], length: fn(&Segment) -> Ns) -> Option<LaunchLate> {
        let compared = self.compared(rank, length);
        let excess: Vec<Ns> = compared.iter().map(Compared::excess).collect();
        let lags: Vec<f64> = late.iter().filter_map(|at| self.lag(at)).map(Ns::as_f64).collect();
        let lag = (!lags.is_empty()).then(|| Ns::rounded(median_of(lags.iter().copied())));
        let (largest, at_largest) = excess.iter().zip(0..).map(|(excess, at)| (*excess, at)).max()?;
        let (pattern, place) =
            pattern(&compared, &excess, &Lagging::of(&lags, lag, largest, excess.iter().copied().sum()));
        let class = if pattern == Pattern::OneEvent { Some(compared[at_largest].class) } else { place };
        let parts = match pattern {
            Pattern::OneEvent => self.excess_of_one(rank, compared[at_largest].segment, &compared[at_largest]),
            Pattern::SamePlace => self.excess(rank, |part| &part.cpu, |key| Some(key) == place),
            Pattern::SlowerEverywhere => self.excess(rank, |part| &part.cpu, |_| true),
            _ => Excess::default(),
        };
        Some(LaunchLate {
            pattern,
            segments: excess.len() as u64,
            longer: excess.iter().filter(|excess| **excess > Ns::ZERO).count() as u64,
            median_excess: Ns::rounded(median_of(excess.iter().map(|excess| excess.as_f64()))),
            total_excess: excess.iter().copied().sum(),
            others: compared.iter().map(|segment| segment.others).sum(),
            largest_excess: largest,
            lag,
            largest_lag: lag.map(|_| Ns::rounded(lags.iter().copied().fold(0.0, f64::max))),
            place: class.map(|(from, to, is_new_step)| Place {
                from: self.headline(rank, from),
                to: self.headline(rank, to),
                is_new_step,
            }),
            excess: parts,
        })
    }

    /// The frame that shows best where a stack comes from.
    fn headline(&self, rank: usize, stack: Option<u32>) -> Option<String> {
        let at = self.stacks[rank].iter().position(|known| Some(*known) == stack)?;
        self.job.parts[rank].stacks[at].telling.first().cloned()
    }

    /// The segments of a rank beside those of others that end with the launch of the same collective, and begin at the same place. Those
    /// of graphs are compared only if there are no others: what they launch is not what they replay.
    fn compared(&self, rank: usize, length: fn(&Segment) -> Ns) -> Vec<Compared> {
        let part = &self.job.parts[rank];
        let eager = |row: &Row| !row.is_replay;
        let any_eager = part.rows.iter().any(eager);
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        for (at, row) in part.rows.iter().enumerate().filter(|(_, row)| !any_eager || eager(row)) {
            let (Some(segment), Some((unit, column, _))) = (row.segment, self.places[rank][at]) else { continue };
            let own = &part.segments[segment as usize];
            let class = self.class_key(rank, &part.cpu[own.class as usize]);
            if !seen.insert(segment) || class.0.is_none() {
                continue;
            }
            let unit = &self.matches.units[unit as usize];
            let others: Vec<f64> = (0..unit.members.len())
                .filter(|member| unit.members[*member] != rank)
                .filter_map(|member| self.length(unit, column, member, class, length))
                .collect();
            if !others.is_empty() {
                let others = Ns::rounded(median_of(others.into_iter()));
                found.push(Compared { segment, class, own: length(own), others });
            }
        }
        found
    }

    /// How long a member's segment of a collective is, if it begins and ends at the same places.
    fn length(
        &self,
        unit: &Unit,
        column: u32,
        member: usize,
        class: ClassKey,
        length: fn(&Segment) -> Ns,
    ) -> Option<f64> {
        let rank = unit.members[member];
        let part = &self.job.parts[rank];
        let segment = &part.segments[unit.row(self.job, &unit.columns[column as usize], member)?.segment? as usize];
        (self.class_key(rank, &part.cpu[segment.class as usize]) == class).then(|| length(segment).as_f64())
    }

    fn class_key(&self, rank: usize, class: &Class) -> ClassKey {
        let number = |stack: Option<u32>| stack.map(|stack| self.stacks[rank][stack as usize]);
        (number(class.from), number(class.to), class.is_new_step)
    }

    /// How long the late rank's launch ended after the median of the others'.
    fn lag(&self, at: &LateAt) -> Option<Ns> {
        let unit = &self.matches.units[at.unit];
        if !self.clocks.cover(unit) {
            return None;
        }
        let launched = |member: usize| {
            let rank = unit.members[member];
            let row = unit.row(self.job, &unit.columns[at.column], member)?;
            Some(self.clocks.ranks[rank].aligned(self.job.parts[rank].segments[row.segment? as usize].end))
        };
        let own = unit.members.iter().position(|rank| *rank == at.rank)?;
        let base = launched(own)?;
        let others = (0..unit.members.len()).filter(|member| *member != own).filter_map(launched);
        let lags: Vec<f64> = others.map(|other| (base - other).as_f64()).collect();
        (!lags.is_empty()).then(|| Ns::rounded(median_of(lags.into_iter())))
    }

    /// What takes longer on a rank than on the median of the others that have the same classes.
    fn excess(
        &self,
        rank: usize,
        classes: impl Fn(&'a RankPart) -> &'a Vec<Class>,
        is_asked: impl Fn(ClassKey) -> bool,
    ) -> Excess {
        let of_rank = |rank: usize| {
            let classes = classes(&self.job.parts[rank]).iter();
            classes.map(|class| (self.class_key(rank, class), class)).collect::<BTreeMap<ClassKey, &Class>>()
        };
        let own = of_rank(rank);
        let others: Vec<(usize, BTreeMap<ClassKey, &Class>)> =
            self.neighbours(rank).into_iter().map(|other| (other, of_rank(other))).collect();
        let (mut total, mut of_others) = (0.0, 0.0);
        let mut parts: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for (key, class) in own.into_iter().filter(|(key, _)| is_asked(*key) && key.0.is_some()) {
            let theirs: Vec<(usize, &Class)> =
                others.iter().filter_map(|(other, classes)| Some((*other, *classes.get(&key)?))).collect();
            if theirs.is_empty() {
                continue;
            }
            let count = f64::from(class.count);
            let median_mean = |of: &dyn Fn(usize, &Class) -> Ns| {
                median_of(
                    theirs.iter().map(|(other, class)| of(*other, class).as_f64() / f64::from(class.count.max(1))),
                )
            };
            let expected = median_mean(&|_, class| class.total) * count;
            total += class.total.as_f64() - expected;
            of_others += expected;
            let names = class.parts.iter().map(|(text, time)| (self.job.parts[rank].text(*text), *time));
            for (name, time) in names.filter(|(name, _)| !waits_for_gpu(name)) {
                let expected = count * median_mean(&|other, class| self.time_of(other, &class.parts, name));
                let (excess, of_time) = parts.entry(name).or_default();
                *excess += time.as_f64() - expected;
                *of_time += expected;
            }
        }
        named(total, of_others, parts)
    }

    fn time_of(&self, rank: usize, parts: &[(u32, Ns)], name: &str) -> Ns {
        parts.iter().find(|(text, _)| self.job.parts[rank].text(*text) == name).map_or(Ns::ZERO, |(_, time)| *time)
    }

    /// The other ranks of its groups.
    fn neighbours(&self, rank: usize) -> Vec<usize> {
        let of_groups = self.matches.units.iter().filter(|unit| unit.members.contains(&rank));
        let all: BTreeSet<usize> = of_groups.flat_map(|unit| unit.members.iter().copied()).collect();
        all.into_iter().filter(|other| *other != rank).collect()
    }

    /// The same for a single segment of the rank, beside the means of the others.
    fn excess_of_one(&self, rank: usize, segment: u32, compared: &Compared) -> Excess {
        let part = &self.job.parts[rank];
        let Some(outlier) = part.cpu_outliers.iter().find(|outlier| outlier.at == segment) else {
            // It is no outlier of its class, as where that has no other.
            let is_only = part.cpu[part.segments[segment as usize].class as usize].count == 1;
            return self.excess(rank, |part| &part.cpu, |key| key == compared.class && is_only);
        };
        let outlier = Some(outlier);
        let total = (compared.own - compared.others).as_f64();
        self.excess_of(rank, outlier, total, compared.others.as_f64(), compared.class, |part| &part.cpu)
    }

    fn excess_of(
        &self,
        rank: usize,
        outlier: Option<&Outlier>,
        total: f64,
        of_others: f64,
        key: ClassKey,
        classes: impl Fn(&'a RankPart) -> &'a Vec<Class>,
    ) -> Excess {
        let parts = outlier.map_or(&[][..], |outlier| &outlier.parts);
        let neighbours = self.neighbours(rank);
        let class_of =
            |other: usize| classes(&self.job.parts[other]).iter().find(|class| self.class_key(other, class) == key);
        let mut found: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for (text, time) in parts {
            let name = self.job.parts[rank].text(*text);
            let means = neighbours.iter().filter_map(|other| {
                let class = class_of(*other)?;
                Some(self.time_of(*other, &class.parts, name).as_f64() / f64::from(class.count.max(1)))
            });
            let expected = median_of(means);
            found.insert(name, (time.as_f64() - expected, expected));
        }
        named(total, of_others, found)
    }

    /// Which kernels took longer before the collectives to which a rank's GPU came late.
    fn gpu(&self, rank: usize, late: &[LateAt]) -> Excess {
        let part = &self.job.parts[rank];
        let is_late = |key: ClassKey| {
            late.iter().any(|at| {
                let class = part.rows[at.row as usize].gpu_class;
                class.is_some_and(|class| self.class_key(rank, &part.gpu[class as usize]) == key)
            })
        };
        let everywhere = self.excess(rank, |part| &part.gpu, is_late);
        if !everywhere.parts.is_empty() || late.len() > 3 {
            return everywhere;
        }
        // A few times only: what ran before the worst of them.
        let Some(worst) = late.iter().max_by_key(|at| at.added) else { return everywhere };
        let Some(outlier) = part.gpu_outliers.iter().find(|outlier| outlier.at == worst.row) else { return everywhere };
        let Some(class) = part.rows[worst.row as usize].gpu_class else { return everywhere };
        let key = self.class_key(rank, &part.gpu[class as usize]);
        self.excess_of(rank, Some(outlier), worst.added.as_f64(), 0.0, key, |part| &part.gpu)
    }
}

/// The places where a segment begins and ends: stacks, numbered over all ranks; and whether it ends in a new step.
type ClassKey = (Option<u32>, Option<u32>, bool);

impl Compared {
    fn excess(&self) -> Ns {
        self.own - self.others
    }
}

/// In which way segments are longer than those of others, and at which place.
fn pattern(compared: &[Compared], excess: &[Ns], lagging: &Lagging) -> (Pattern, Option<ClassKey>) {
    let positive: Ns = excess.iter().filter(|excess| **excess > Ns::ZERO).copied().sum();
    let (total, largest) = (excess.iter().copied().sum(), excess.iter().copied().max().unwrap_or_default());
    let noise = Noise::of(excess);
    let top = TopPlace::of(compared, positive);
    let place = |of: fn(&TopPlace) -> bool| top.as_ref().filter(|top| of(top)).map(|top| top.class);
    let (special, certain) = (place(TopPlace::is_special), place(TopPlace::is_certain));
    // Of two that are alike the larger one has a little more than half.
    let is_most = largest.as_f64() > MOST * positive.as_f64();
    let is_alone = excess.iter().filter(|excess| excess.as_f64() > MOST * largest.as_f64()).count() == 1;
    if noise.is_beyond(largest, 1) && is_most && is_alone && compared.len() > 2 {
        (Pattern::OneEvent, None)
    } else if special.is_some() {
        (Pattern::SamePlace, special)
    } else if *lagging == Lagging::Steady {
        (Pattern::ConstantLag, None)
    } else if are_longer(excess) && noise.is_so_far_beyond(total, excess.len(), SIGNIFICANT) {
        (Pattern::SlowerEverywhere, None)
    } else if certain.is_some() {
        (Pattern::SamePlace, certain)
    } else if *lagging == Lagging::Earlier {
        (Pattern::EarlierLag, None)
    } else {
        (Pattern::Unsteady, None)
    }
}

/// Whether so many differences are above 0 that it is not by chance.
fn are_longer(excess: &[Ns]) -> bool {
    let longer = excess.iter().filter(|excess| **excess > Ns::ZERO).count() as f64;
    let all = excess.len().max(1) as f64;
    (longer / all - 0.5) * 2.0 * all.sqrt() >= SIGNIFICANT
}

/// The place that has most of the excess.
struct TopPlace {
    class: ClassKey,
    /// Its part of the excess, and of the time.
    share: f64,
    of_time: f64,
    excess: Vec<Ns>,
    noise: Noise,
}

impl TopPlace {
    fn of(compared: &[Compared], positive: Ns) -> Option<Self> {
        let mut by: BTreeMap<ClassKey, (Ns, Ns, Vec<Ns>)> = BTreeMap::new();
        for segment in compared {
            let (longer, time, excess) = by.entry(segment.class).or_default();
            *longer += segment.excess().max(Ns::ZERO);
            *time += segment.others;
            excess.push(segment.excess());
        }
        let all: Ns = by.values().map(|(_, time, _)| *time).sum();
        let most = by.into_iter().max_by_key(|(class, (longer, ..))| (*longer, std::cmp::Reverse(*class)));
        let (class, (longer, time, excess)) = most?;
        let others = compared.iter().filter(|segment| segment.class != class).map(Compared::excess).collect::<Vec<_>>();
        let noise = Noise::of(if others.len() < excess.len() { &excess } else { &others });
        let (share, of_time) = (longer.share_of(positive)?, time.share_of(all).unwrap_or(0.0));
        Some(TopPlace { class, share, of_time, excess, noise })
    }

    fn is_beyond_chance(&self) -> bool {
        self.share > MOST && self.noise.is_beyond(self.excess.iter().copied().sum(), self.excess.len())
    }

    /// Whether it has more of the excess than of the time.
    fn is_special(&self) -> bool {
        self.is_beyond_chance() && self.share > OUT_OF_PROPORTION * self.of_time
    }

    /// Whether nearly all of its segments are longer.
    fn is_certain(&self) -> bool {
        self.is_beyond_chance() && are_longer(&self.excess)
    }
}

/// How much the segments of a rank differ from those of others by chance.
#[derive(Debug, Clone, Copy)]
struct Noise {
    /// The standard deviation of one difference, from their median deviation, because what is to be found is no part of it.
    deviation: f64,
}

impl Noise {
    fn of(excess: &[Ns]) -> Self {
        let median = median_of(excess.iter().map(|excess| excess.as_f64()));
        let deviation = median_of(excess.iter().map(|excess| (excess.as_f64() - median).abs()));
        Noise { deviation: (1.4826 * deviation).max(LEAST_NOISE) }
    }

    /// Whether the sum of so many differences is more than chance, and worth naming.
    fn is_beyond(self, sum: Ns, count: usize) -> bool {
        self.is_so_far_beyond(sum, count, BEYOND_CHANCE)
    }

    fn is_so_far_beyond(self, sum: Ns, count: usize, deviations: f64) -> bool {
        sum > WORTH && sum.as_f64() > deviations * self.deviation * (count as f64).sqrt()
    }
}

/// How far launches are after those of others, from one collective to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lagging {
    /// By about the same time throughout, and no segment is so much longer.
    Steady,
    /// Most of it at the first already, and less from then on.
    Earlier,
    /// Neither.
    Otherwise,
}

impl Lagging {
    fn of(lags: &[f64], median: Option<Ns>, largest_excess: Ns, total_excess: Ns) -> Self {
        let Some(lag) = median.map(Ns::as_f64) else { return Lagging::Otherwise };
        let away = median_of(lags.iter().map(|of| (of - lag).abs()));
        let most = lags.iter().copied().fold(0.0, f64::max);
        let is_small = |excess: Ns, beside: f64| excess.as_f64() < MOST * beside;
        if lag > LONG_LAG && away < 0.25 * lag && is_small(largest_excess, lag) && is_small(total_excess, lag) {
            Lagging::Steady
        } else if most > LONG_LAG && lags[0] > MOST * most && is_small(total_excess, most) {
            Lagging::Earlier
        } else {
            Lagging::Otherwise
        }
    }
}

/// A segment beside those of other ranks.
struct Compared {
    segment: u32,
    class: ClassKey,
    own: Ns,
    /// The median of the others'.
    others: Ns,
}

/// The parts with most of an excess, if they have more of it than of the time. `parts` are excess and expected time by name.
fn named(total: f64, of_others: f64, parts: BTreeMap<&str, (f64, f64)>) -> Excess {
    let mut sorted: Vec<(&str, (f64, f64))> = parts.into_iter().filter(|(_, (excess, _))| *excess > 0.0).collect();
    sorted.sort_by(|a, b| b.1.0.total_cmp(&a.1.0).then_with(|| a.0.cmp(b.0)));
    sorted.truncate(NAMED);
    let blamed = |(_, (excess, expected)): &(&str, (f64, f64))| {
        let share = excess / total.max(1.0);
        let of_time = if of_others > 0.0 { expected / of_others } else { 0.0 };
        (share > 0.1 && share > OUT_OF_PROPORTION * of_time) || share > NEARLY_ALL
    };
    sorted.retain(blamed);
    let sum: f64 = sorted.iter().map(|(_, (excess, _))| excess).sum();
    if total < WORTH.as_f64() || sum < MOST * total {
        sorted.clear();
    }
    let part =
        |(name, (excess, _)): (&str, (f64, f64))| ExcessPart { name: name.to_owned(), excess: Ns::rounded(excess) };
    Excess { total: Ns::rounded(total), parts: sorted.into_iter().map(part).collect() }
}
