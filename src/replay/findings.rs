//! What makes a job longer than its ranks' peers would, by reruns: which ranks, which part of their work, which functions or kernels.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::culprits::{Culprit, Culprits};
use super::job::{Node, Times};
use super::peers::Part;
use super::question::{Question, RankInterval, as_many, both, each};
use super::rank::{EdgeKind, NodeKind};
use super::transplant::{self, RerunError};
use crate::operations::random::Random;
use crate::statistics::std_dev;

/// A rank's work is longer than its peers' beyond so many standard deviations of the sum. In 400 simulated jobs in which nothing is late
/// somebody is named in two, and at 7 in one.
const BEYOND_CHANCE: f64 = 4.5;

/// What a rank takes longer in some steps is this many times what it takes less in others.
const STEADY: i64 = 4;

/// If one of so many pieces is far longer, that is everywhere.
const FEW: usize = 3;

/// Most of what several ranks save together, and nearly all of it.
const MOST: f64 = 0.5;
const NEARLY_ALL: f64 = 0.8;

/// Jobs in which nothing differs but chance are within so many standard deviations of each other.
const UNSTEADY: i64 = 2;

/// Calls that a rank makes this many times as often as any of its peers are more than the same ones elsewhere.
const MORE: usize = 2;

/// A smaller share of the job is none as it is printed.
pub(crate) const SEEN: f64 = 0.0005;

/// With a larger error reruns say nothing: on real jobs it is below 0.01, without some of the collectives, or with a trace that is cut off, 0.1 and more.
const USELESS: f64 = 0.1;

/// How many ranks are asked about one by one.
const ASKED: usize = 16;

/// How often work is distributed at random, and at least in a large job.
const SHUFFLES: usize = 12;
const DRAWS: usize = 5;
const LEAST: usize = 4;

/// What reruns of a job say. Times are in ns.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Reruns {
    /// From the first start to the last end.
    #[serde(rename = "length_ns")]
    pub length: i64,
    /// How many steps that are.
    pub steps: u32,
    /// The error of reruns; `None` if no two ranks are alike, so that it cannot be measured.
    pub error: Option<RerunError>,
    /// How much earlier the job ends if all ranks do as their peers.
    #[serde(rename = "all_like_peers_saves_ns")]
    pub all_like_peers: i64,
    /// The same of a job in which work is distributed over like ranks at random: the mean of several.
    #[serde(rename = "chance_saves_ns")]
    pub chance: i64,
    /// How much the length of such jobs varies: a standard deviation.
    #[serde(rename = "unsteady_ns")]
    pub unsteady: i64,
    /// How much earlier the job ends if all threads take half as long for what they do.
    #[serde(rename = "cpus_twice_as_fast_saves_ns")]
    pub fast_cpus: i64,
    /// The same of all kernels, copies and fills.
    #[serde(rename = "gpus_twice_as_fast_saves_ns")]
    pub fast_gpus: i64,
    /// The same of both.
    #[serde(rename = "both_twice_as_fast_saves_ns")]
    pub fast_both: i64,
    /// What would save most, first.
    pub findings: Vec<LateWork>,
    /// Where nobody is named, though more is saved than by chance: how much earlier the job ends if one rank alone does as its peers, the rank that saves
    /// most first, in ns.
    #[serde(rename = "alone_like_peers_saves_ns")]
    pub alone: Vec<(u32, i64)>,
    /// The ranks of which nothing shows why they are late: no other rank does the same, or what their threads did was not recorded.
    pub unjudged: Vec<u32>,
}

/// Ranks that take longer than their peers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LateWork {
    /// The ranks.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub ranks: Vec<u32>,
    /// Their peers: the other ranks that do the same. Empty if these are all of them, who are then compared with the median of all.
    pub peers: Vec<u32>,
    /// Which part of their work is longer.
    pub part: WorkPart,
    /// How much of it.
    pub extent: Extent,
    /// How much earlier the job ends if they do that as their peers.
    #[serde(rename = "saves_ns")]
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub saves: i64,
    /// The error of that: of the graph, and by chance.
    #[serde(rename = "error_ns")]
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub error: i64,
    /// By step: how much shorter it is then, in ns; empty without steps.
    #[serde(rename = "saves_by_step_ns")]
    pub by_step: Vec<i64>,
    /// The functions or kernels that take longer there, each with what it saves by itself. What several save does not add up.
    pub culprits: Vec<Culprit>,
}

impl Reruns {
    /// Whether they are so wrong that nothing follows from them.
    pub fn are_useless(&self) -> bool {
        self.error.is_some_and(|error| error.worst() > USELESS)
    }

    /// Whether all that is saved if all ranks do as their peers is saved as well where work is distributed over them at random.
    pub fn is_chance(&self) -> bool {
        self.all_like_peers <= self.chance + UNSTEADY * self.unsteady
    }
}

impl LateWork {
    /// What the culprit saves by itself; without one, what all of it saves.
    pub fn named_saving(&self) -> i64 {
        self.culprit().map_or(self.saves, |culprit| culprit.saves)
    }

    /// The function or kernel that has most of it by itself.
    pub fn culprit(&self) -> Option<&Culprit> {
        self.culprits.first().filter(|of| of.saves as f64 >= MOST * self.saves as f64 && of.saves > self.error)
    }
}

/// How much of a rank's work takes longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    /// All of it.
    Everywhere,
    /// Single pieces.
    Pieces,
    /// Calls that wait for the GPU, and that the peers do not make there.
    Calls,
    /// None: their threads begin later. Why is before their traces begin.
    Begin,
}

/// The words for a part of a rank's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WorkPart {
    /// What its threads do.
    Cpu,
    /// What its GPUs do, without collectives.
    Gpu,
}

/// Asks what makes a job longer than its ranks' peers would. `numbers` are the ranks' numbers.
pub(crate) fn find(question: &Question<'_>, numbers: &[u32]) -> Reruns {
    let mut reruns = question.reruns();
    for ranks in reruns.findings.iter_mut().flat_map(|finding| [&mut finding.ranks, &mut finding.peers]) {
        ranks.iter_mut().for_each(|rank| *rank = numbers[*rank as usize]);
        ranks.sort_unstable();
    }
    reruns.alone.iter_mut().for_each(|(rank, _)| *rank = numbers[*rank as usize]);
    let ranks = numbers.iter().zip(question.ranks).enumerate();
    let unjudged = ranks.filter(|(at, (_, graph))| question.peers.alike(*at) == 1 || !graph.has_threads());
    reruns.unjudged = unjudged.map(|(_, (rank, _))| *rank).collect();
    reruns
}

/// The times in which some ranks do as their peers.
type Cure<'c> = dyn Fn(&[usize]) -> Times + Sync + 'c;

/// Ranks that do as their peers.
struct Cured {
    extent: Extent,
    set: Vec<usize>,
    /// How much earlier the job ends.
    saves: i64,
    /// How much less work that is.
    less: i64,
    times: Times,
}

impl Question<'_> {
    fn reruns(&self) -> Reruns {
        let (job, peers) = (self.job, self.peers);
        let all: Vec<usize> = peers.with_peers();
        let half = |parts: &[Part]| {
            let mut times = job.times.clone();
            parts.iter().for_each(|part| self.scale(&mut times, *part, |_| 0.5));
            times
        };
        let all_at_once = |at: usize| match at {
            0 => self.all_like_peers(job.times.clone(), &all),
            1 => half(&[Part::Cpu]),
            2 => half(&[Part::Gpu]),
            _ => half(&[Part::Cpu, Part::Gpu]),
        };
        // If all do as their peers, what was distributed no longer matters: that job is the same each time.
        let shuffled = |at: usize| {
            let mut random = seeded(at);
            peers.shuffled(job, &mut |below| random.below(below))
        };
        let shuffled_or_like_peers = |at: usize| match at {
            0 => self.all_like_peers(shuffled(0), &all),
            at => shuffled(at - 1),
        };
        let shuffles = if all.is_empty() { 0 } else { as_many(job, SHUFFLES, LEAST) + 1 };
        let (error, (saved, ends)) = both(
            || transplant::measure(job, self.ranks, peers),
            || (self.saved(4, all_at_once), self.ends(shuffles, shuffled_or_like_peers)),
        );
        let mut reruns = Reruns {
            length: self.length(),
            steps: self.ranks.iter().map(|graph| graph.steps).max().unwrap_or_default(),
            error,
            all_like_peers: saved[0],
            fast_cpus: saved[1],
            fast_gpus: saved[2],
            fast_both: saved[3],
            ..Reruns::default()
        };
        let Some(error) = reruns.error else { return reruns };
        let (like_peers, ends) = (ends[0], ends[1..].iter().map(|end| *end as f64).collect::<Vec<f64>>());
        (reruns.chance, reruns.unsteady) = (mean(&ends) as i64 - like_peers, std_dev(ends.iter().copied()) as i64);
        let of_graph = (reruns.length as f64 * error.of_saving(reruns.steps)) as i64;
        let parts = [Part::Cpu, Part::Gpu];
        let late = each(parts.len(), |at| self.late_work(parts[at], of_graph, reruns.unsteady));
        reruns.findings.extend(late.into_iter().flatten());
        // If most ranks are longer here and there, and no function or call shows why, it is distributed over them and none is late.
        let is_named = |of: &LateWork| of.culprit().is_some() || of.extent == Extent::Begin;
        let nameless = reruns.findings.iter().filter(|of| !is_named(of));
        let late: BTreeSet<u32> = nameless.flat_map(|of| of.ranks.iter().copied()).collect();
        if late.len() * 2 > all.len() {
            reruns.findings.retain(is_named);
        }
        // What is printed as 0.0 % of the job is nothing to look at.
        let least = SEEN * reruns.length as f64;
        reruns.findings.retain(|of| of.saves as f64 >= least);
        reruns.findings.sort_by_key(|finding| std::cmp::Reverse(finding.saves));
        if reruns.findings.is_empty() && reruns.all_like_peers > of_graph && !reruns.is_chance() {
            let asked = &all[..all.len().min(ASKED)];
            let saved = self.saved(asked.len(), |at| self.all_like_peers(job.times.clone(), &asked[at..=at]));
            let saved = asked.iter().map(|rank| *rank as u32).zip(saved);
            reruns.alone.extend(saved.filter(|(_, saved)| *saved as f64 >= least));
            reruns.alone.sort_by_key(|(rank, saved)| (std::cmp::Reverse(*saved), *rank));
        }
        reruns
    }

    /// What is saved if these ranks do as peers at random: the mean, and the standard deviation. The job ends at `end` without that.
    fn saved_by_draws(&self, base: &Times, end: i64, set: &[usize], part: Part) -> (i64, i64) {
        let flags = self.flags(set);
        let draw = |at: usize| {
            let mut random = seeded(SHUFFLES + at);
            let mut below = |below| random.below(below);
            self.peers.like_peers(self.job, base.clone(), &flags, part, Some(&mut below))
        };
        let ends = self.ends(as_many(self.job, DRAWS, LEAST), draw);
        let draws: Vec<f64> = ends.into_iter().map(|of| (end - of) as f64).collect();
        (mean(&draws) as i64, std_dev(draws.iter().copied()) as i64)
    }

    /// The ranks whose work of a part is longer, each with those before it as fast as their peers: those that are slower everywhere, others with
    /// single pieces that are far longer, and those that wait in calls of their own. What saves most comes first; of what saves equally much, what takes less work away.
    fn late_work(&self, part: Part, of_graph: i64, unsteady: i64) -> Vec<LateWork> {
        let (mut base, mut end) = (self.job.times.clone(), self.end);
        let mut found = Vec::new();
        let least = of_graph + UNSTEADY * unsteady;
        let everywhere = self.longer(part);
        let pieces = self.with_singles(part, &everywhere);
        let calls = if part == Part::Cpu { self.calls() } else { Vec::new() };
        let with_calls = (0..calls.len()).filter(|rank| !calls[*rank].is_empty()).collect();
        let late = if part == Part::Cpu { self.late_beginners(least) } else { Vec::new() };
        let mut left = [
            (Extent::Begin, late),
            (Extent::Everywhere, everywhere),
            (Extent::Pieces, pieces),
            (Extent::Calls, with_calls),
        ];
        left.iter_mut().for_each(|(_, rest)| rest.truncate(ASKED));
        loop {
            let cure = |extent: Extent, base: &Times, set: &[usize]| match extent {
                Extent::Everywhere => self.like_peers(base.clone(), set, part),
                Extent::Pieces => self.without_singles(base, set, part),
                Extent::Calls => self.without_calls(base, set.iter().flat_map(|rank| &calls[*rank])),
                Extent::Begin => self.with_begin(base, set),
            };
            let cured = |(extent, rest): &(Extent, Vec<usize>)| {
                let set = self.smallest(end, rest, least, &|set| cure(*extent, &base, set))?;
                let times = cure(*extent, &base, &set);
                let less: i64 = base.own.iter().zip(&times.own).map(|(before, after)| (before - after).max(0)).sum();
                Some(Cured { extent: *extent, saves: end - self.end_of(times.clone()), set, less, times })
            };
            let mut candidates: Vec<Cured> = left.iter().filter_map(cured).collect();
            let most = candidates.iter().map(|of| of.saves).max().unwrap_or_default();
            candidates.retain(|of| of.saves + least >= most);
            let Some(Cured { extent, set, saves, times, .. }) = candidates.into_iter().min_by_key(|of| of.less) else {
                break;
            };
            for (_, rest) in left.iter_mut().filter(|(of, _)| *of == extent) {
                rest.retain(|rank| !set.contains(rank));
            }
            let end_before = end;
            end -= saves;
            let (saves, deviation) = match extent {
                Extent::Everywhere => self.saved_by_draws(&base, end_before, &set, part),
                _ => (saves, 0),
            };
            let error = (of_graph + UNSTEADY * deviation.max(unsteady)).max(1);
            if saves <= error {
                continue;
            }
            let by_step = self.by_step(&base, &times);
            let culprits = match extent {
                Extent::Everywhere => Culprits::new(self, &set, part, None).find(&base, end_before),
                Extent::Pieces => {
                    Culprits::new(self, &set, part, Some(self.intervals_of_singles(&set, part))).find(&base, end_before)
                }
                Extent::Begin => Vec::new(),
                Extent::Calls => self.names_of_calls(&base, end_before, set.iter().flat_map(|rank| &calls[*rank])),
            };
            // Begins are compared on one clock.
            let like =
                |rank: usize| (self.peers.alike.class[rank], (extent == Extent::Begin).then(|| self.job.clocks[rank]));
            let is_peer = |rank: &usize| !set.contains(rank) && set.iter().any(|of| like(*of) == like(*rank));
            let peers = (0..self.ranks.len()).filter(is_peer).map(|rank| rank as u32).collect();
            let ranks = set.iter().map(|rank| *rank as u32).collect();
            found.push(LateWork { ranks, peers, part: part.into(), extent, saves, error, by_step, culprits });
            base = times;
        }
        found
    }

    /// The ranks that begin later than their peers by more than `least`, the latest first. The job cannot end earlier by more than that.
    fn late_beginners(&self, least: i64) -> Vec<usize> {
        let begins = self.begins(&self.job.times);
        let late = |rank: usize| (self.late(&begins, rank, &[rank]), rank);
        let mut found: Vec<(i64, usize)> = self.peers.with_peers().into_iter().map(late).collect();
        found.retain(|(late, _)| *late > least);
        found.sort_by_key(|(late, rank)| (std::cmp::Reverse(*late), *rank));
        found.into_iter().map(|(_, rank)| rank).collect()
    }

    fn with_begin(&self, base: &Times, set: &[usize]) -> Times {
        let mut times = base.clone();
        self.begin_as_peers(&mut times, set);
        times
    }

    /// By rank: its calls that wait for the GPU, and that its peers do not make there. Where a peer has others of that name, both may be the same calls,
    /// which one makes elsewhere.
    fn calls(&self) -> Vec<Vec<usize>> {
        // By class and name: the calls of each rank.
        let mut found: BTreeMap<(u32, &str), BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
        for at in self.peers.alone() {
            let node = self.job.nodes[at];
            let (rank, graph) = (node.rank as usize, self.ranks[node.rank as usize]);
            if graph.nodes[node.of as usize].kind == NodeKind::Blocked && self.peers.alike(rank) > 1 {
                let of_name = found.entry((self.peers.alike.class[rank], graph.name(node.of))).or_default();
                of_name.entry(rank).or_default().push(at);
            }
        }
        let mut of_rank = vec![Vec::new(); self.ranks.len()];
        for of_name in found.into_values() {
            let mut counts: Vec<usize> = of_name.values().map(Vec::len).collect();
            counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
            let second = counts.get(1).copied().unwrap_or_default();
            for (rank, calls) in of_name {
                let of_peers = if calls.len() == counts[0] { second } else { counts[0] };
                if calls.len() > MORE * of_peers {
                    of_rank[rank].extend(calls);
                }
            }
        }
        of_rank
    }

    /// The times in which some calls take no time, and wait for nothing; what their threads do before them stays.
    fn without_calls<'n>(&self, base: &Times, calls: impl Iterator<Item = &'n usize>) -> Times {
        let mut times = base.clone();
        for node in calls {
            let thread = self.job.edges_into(*node).iter().find(|edge| edge.kind == EdgeKind::Thread);
            let before =
                thread.map_or(self.job.wait(&times, *node).begin, |edge| self.job.nodes[edge.from as usize].time);
            times.own[*node] = times.own[*node].min((self.job.nodes[*node].start - before).max(0));
            self.job.change_wait(&mut times, *node, |wait| wait.is_asked = false);
        }
        times
    }

    /// The names of the calls, with what each saves.
    fn names_of_calls<'n>(&self, base: &Times, end: i64, calls: impl Iterator<Item = &'n usize>) -> Vec<Culprit> {
        let mut of: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for node in calls {
            let name = self.ranks[self.job.nodes[*node].rank as usize].name(self.job.nodes[*node].of);
            of.entry(name).or_default().push(*node);
        }
        let (names, calls): (Vec<&str>, Vec<Vec<usize>>) = of.into_iter().unzip();
        let ends = self.ends(calls.len(), |at| self.without_calls(base, calls[at].iter()));
        let culprit = |(name, of): (&str, i64)| Culprit { name: name.to_owned(), saves: end - of };
        Culprit::ranked(names.into_iter().zip(ends).map(culprit))
    }

    /// Whether single pieces that are far longer are few of a rank's.
    fn are_singles_few(&self, rank: usize, part: Part) -> bool {
        self.singles(rank, part).count() * FEW < self.work(rank, part).count()
    }

    /// The ranks with single pieces of work that are far longer than their peers', without those that are so everywhere.
    fn with_singles(&self, part: Part, everywhere: &[usize]) -> Vec<usize> {
        let is_apart = |rank: &usize| !everywhere.contains(rank) || self.are_singles_few(*rank, part);
        let others = self.peers.with_peers().into_iter().filter(is_apart);
        let mut found: Vec<(i64, usize)> = others.map(|rank| (self.single_excess(rank, part), rank)).collect();
        found.retain(|(excess, _)| *excess > 0);
        found.sort_by_key(|(excess, rank)| (std::cmp::Reverse(*excess), *rank));
        found.into_iter().map(|(_, rank)| rank).collect()
    }

    /// The rank that has most of what several save together, if not all save theirs by themselves; else the fewest that have nearly all of it. `None` if
    /// they save too little. `end` is when the job ends without that.
    fn smallest(&self, end: i64, rest: &[usize], least: i64, cure: &Cure<'_>) -> Option<Vec<usize>> {
        if rest.is_empty() {
            return None;
        }
        let saved = |set: &[usize]| end - self.end_of(cure(set));
        let joint = saved(rest);
        if joint <= least {
            return None;
        }
        let ends = self.ends(rest.len(), |at| cure(&rest[at..=at]));
        let singles: Vec<(i64, usize)> = ends.into_iter().map(|of| end - of).zip(rest.iter().copied()).collect();
        let sum: i64 = singles.iter().map(|(saved, _)| saved).sum();
        let best = singles.into_iter().max_by_key(|(saved, rank)| (*saved, std::cmp::Reverse(*rank)));
        let (most, rank) = best.filter(|(saved, _)| *saved > least).unwrap_or_default();
        if most as f64 >= MOST * joint as f64 || most > 0 && sum as f64 >= NEARLY_ALL * joint as f64 {
            return Some(vec![rank]);
        }
        let enough = (1..=rest.len()).find(|size| saved(&rest[..*size]) as f64 >= NEARLY_ALL * joint as f64);
        Some(rest[..enough.unwrap_or(rest.len())].to_vec())
    }

    /// The ranks whose work is longer than their peers' beyond chance, the one with most excess first.
    fn longer(&self, part: Part) -> Vec<usize> {
        // A single piece says nothing about the rest, unless most are such.
        let are_few: Vec<bool> = (0..self.ranks.len()).map(|rank| self.are_singles_few(rank, part)).collect();
        // By rank: how much longer by step, of what is in none first, and how much that varies.
        let mut sums: Vec<(Vec<i64>, f64)> =
            self.ranks.iter().map(|graph| (vec![0; graph.steps as usize + 1], 0.0)).collect();
        for (at, node) in self.job.nodes.iter().enumerate().filter(|(_, node)| node.role == part.role()) {
            if !(are_few[node.rank as usize] && self.peers.is_single(at)) {
                let (steps, variance) = &mut sums[node.rank as usize];
                let step = self.ranks[node.rank as usize].nodes[node.of as usize].step;
                steps[step.map_or(0, |step| step as usize + 1)] += self.peers.excess[at];
                *variance += self.peers.noise[at].powi(2);
            }
        }
        let mut found: Vec<(i64, usize)> = Vec::new();
        for rank in self.peers.with_peers() {
            let (steps, variance) = &sums[rank];
            let longer: i64 = steps.iter().filter(|excess| **excess > 0).sum();
            let shorter: i64 = steps.iter().filter(|excess| **excess < 0).sum();
            let is_beyond = (longer + shorter) as f64 > BEYOND_CHANCE * f64::max(variance.sqrt(), 1.0);
            if is_beyond && longer >= STEADY * -shorter {
                found.push((longer + shorter, rank));
            }
        }
        found.sort_by_key(|(sum, rank)| (std::cmp::Reverse(*sum), *rank));
        found.into_iter().map(|(_, rank)| rank).collect()
    }

    /// The single pieces of a rank's work that are far longer than its peers'.
    fn singles(&self, rank: usize, part: Part) -> impl Iterator<Item = usize> {
        self.work(rank, part).filter(|node| self.peers.is_single(*node))
    }

    fn single_excess(&self, rank: usize, part: Part) -> i64 {
        self.singles(rank, part).map(|node| self.peers.excess[node]).sum()
    }

    fn intervals_of_singles(&self, set: &[usize], part: Part) -> BTreeSet<RankInterval> {
        set.iter().flat_map(|rank| self.singles(*rank, part)).filter_map(|node| self.interval(node)).collect()
    }

    fn without_singles(&self, base: &Times, set: &[usize], part: Part) -> Times {
        let mut times = base.clone();
        for node in set.iter().flat_map(|rank| self.singles(*rank, part)) {
            times.own[node] -= self.peers.excess[node];
        }
        times
    }

    /// By step: how much shorter it is in one run than in another.
    fn by_step(&self, before: &Times, after: &Times) -> Vec<i64> {
        let step = |Node { rank, of, .. }: &Node| {
            let rank = *rank as usize;
            self.peers.step(rank, self.ranks[rank].nodes.get(*of as usize)?.step?)
        };
        // By step: its end in each run.
        let mut ends: Vec<Option<(i64, i64)>> = Vec::new();
        let [before, after] = self.job.reruns([before, after].map(Times::clone));
        for (node, times) in self.job.nodes.iter().zip(before.times.into_iter().zip(after.times)) {
            let Some(step) = step(node).map(|step| step as usize) else { continue };
            ends.resize(ends.len().max(step + 1), None);
            let end = ends[step].get_or_insert(times);
            *end = (end.0.max(times.0), end.1.max(times.1));
        }
        let mut last = 0;
        let earlier = ends
            .into_iter()
            .map(|end| end.map_or(0, |(before, after)| before - after - std::mem::replace(&mut last, before - after)));
        earlier.collect()
    }
}

impl From<Part> for WorkPart {
    fn from(part: Part) -> Self {
        if part == Part::Cpu { WorkPart::Cpu } else { WorkPart::Gpu }
    }
}

/// Random numbers that differ from one rerun to the next, and are the same each time.
fn seeded(rerun: usize) -> Random {
    Random(0x9e37_79b9_7f4a_7c15 ^ (rerun as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
