//! The functions and kernels that take longer on some ranks than on their peers, by reruns in which each takes as long as there.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::FixedState;
use serde::Serialize;

use super::build::OUTSIDE;
use super::job::Times;
use super::peers::Part;
use super::question::{Question, RankInterval};
use super::rank::{FUNCTIONS, RankGraph};
use crate::names::frames::is_python;
use crate::numbers::Numbers;

/// Of so many with the most excess the reruns are computed.
const ASKED: usize = 5;

/// By node of the job's graph: how much less time it takes, in ns.
type Less = Vec<(usize, i64)>;

/// A function or kernel that takes longer than on peers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Culprit {
    /// Its name.
    pub name: String,
    /// How much earlier the job ends if it takes as long as on the peers, in ns.
    #[serde(rename = "saves_ns")]
    pub saves: i64,
}

impl Culprit {
    /// Those that save something, most first.
    pub(super) fn ranked(found: impl Iterator<Item = Self>) -> Vec<Self> {
        let mut found: Vec<Self> = found.filter(|of| of.saves > 0).collect();
        found.sort_by(|a, b| b.saves.cmp(&a.saves).then_with(|| a.name.cmp(&b.name)));
        found
    }
}

/// The work in which functions or kernels are looked for.
pub(super) struct Culprits<'a, 'q> {
    question: &'a Question<'q>,
    set: &'a [usize],
    part: Part,
    /// `None` for all.
    intervals: Option<BTreeSet<RankInterval>>,
}

impl<'a, 'q> Culprits<'a, 'q> {
    pub(super) fn new(
        question: &'a Question<'q>,
        set: &'a [usize],
        part: Part,
        intervals: Option<BTreeSet<RankInterval>>,
    ) -> Self {
        Culprits { question, set, part, intervals }
    }

    /// Those that save something by themselves, most first. The job ends at `end` without that.
    pub(super) fn find(&self, base: &Times, end: i64) -> Vec<Culprit> {
        let candidates = if self.part == Part::Cpu { self.functions() } else { self.kernels() };
        let ends = self.question.ends(candidates.len(), |at| {
            let mut times = base.clone();
            candidates[at].1.iter().for_each(|(node, less)| times.own[*node] -= less);
            times
        });
        let culprits = candidates.into_iter().zip(ends).map(|((name, _), of)| Culprit { name, saves: end - of });
        Culprit::ranked(culprits)
    }

    fn is_asked(&self, of: RankInterval) -> bool {
        self.set.contains(&of.0) && self.intervals.as_ref().is_none_or(|intervals| intervals.contains(&of))
    }

    /// Kernels with the most excess, and how much that is at which nodes.
    fn kernels(&self) -> Vec<(String, Less)> {
        let Question { ranks, peers, job, .. } = *self.question;
        let mut of: BTreeMap<&str, (i64, Vec<usize>)> = BTreeMap::new();
        for node in self.set.iter().flat_map(|rank| self.question.work(*rank, self.part)) {
            if self.question.interval(node).is_some_and(|interval| self.is_asked(interval)) {
                let (rank, of_rank) = (job.nodes[node].rank as usize, job.nodes[node].of);
                let (sum, nodes) = of.entry(ranks[rank].name(of_rank)).or_default();
                *sum += peers.excess[node];
                nodes.push(node);
            }
        }
        let less = |nodes: Vec<usize>| nodes.into_iter().map(|node| (node, peers.excess[node])).collect();
        most(of.into_iter().map(|(name, (sum, nodes))| (name.to_owned(), sum, nodes)).collect(), less)
    }

    /// The same of functions. Their excess is taken from the work of the interval, from each piece in proportion to its own.
    fn functions(&self) -> Vec<(String, Less)> {
        let peers = self.question.peers;
        // Where single pieces are far longer, the rest of their intervals is not.
        let is_longer = |node: &usize| match self.intervals {
            Some(_) => peers.is_single(*node),
            None => peers.excess[*node] > 0,
        };
        let less = |of: BTreeMap<RankInterval, i64>| {
            let mut less = Less::new();
            for (interval, excess) in of {
                let nodes = self.question.in_interval(interval).filter(is_longer);
                let all: i64 = nodes.clone().map(|node| peers.excess[node]).sum();
                // A function takes no more of the excess than there is.
                let share = excess.min(all) as f64 / all as f64;
                less.extend(nodes.map(|node| (node, (peers.excess[node] as f64 * share) as i64)));
            }
            less
        };
        let of = self.function_excess().into_iter();
        most(of.map(|(name, of)| (name.to_owned(), of.values().sum(), of)).collect(), less)
    }

    /// By function, and by rank and interval: its excess over the median of the peers that are not in the set.
    fn function_excess(&self) -> BTreeMap<&str, BTreeMap<RankInterval, i64>> {
        let Question { ranks, peers, .. } = *self.question;
        let asked = |rank: usize| (0..ranks[rank].intervals.len() as u32).filter(move |at| self.is_asked((rank, *at)));
        let place = |(rank, at): RankInterval| (peers.alike.class[rank], peers.alike.interval_of[rank][at as usize]);
        let of_set = self.set.iter().flat_map(|rank| asked(*rank).map(|at| place((*rank, at))));
        let mut same: HashMap<(u32, u32), Vec<RankInterval>, FixedState> = of_set.map(|of| (of, Vec::new())).collect();
        for (rank, graph) in ranks.iter().enumerate().filter(|(rank, _)| !self.set.contains(rank)) {
            for other in (0..graph.intervals.len() as u32).map(|at| (rank, at)) {
                same.get_mut(&place(other)).into_iter().for_each(|of| of.push(other));
            }
        }
        let texts = texts(ranks);
        let mut found: BTreeMap<&str, BTreeMap<RankInterval, i64>> = BTreeMap::new();
        for rank in self.set {
            for at in asked(*rank) {
                let others = &same[&place((*rank, at))];
                let functions = ranks[*rank].intervals[at as usize].functions.iter().filter(|_| !others.is_empty());
                for (name, time) in functions {
                    let of = (*rank, *name);
                    let mut theirs: Vec<i64> =
                        others.iter().map(|(other, at)| self.time_of(&texts, of, *other, *at)).collect();
                    let name = ranks[*rank].texts[*name as usize].as_str();
                    let middle = theirs.len() / 2;
                    let excess = time.0 - *theirs.select_nth_unstable(middle).1;
                    // Where a thread is in no slice, nothing shows what it does.
                    if excess > 0 && name != OUTSIDE {
                        found.entry(name).or_default().insert((*rank, at), excess);
                    }
                }
            }
        }
        found
    }

    /// How long another rank was in a function of a rank in an interval, at most. What was recorded without Python functions has their time in what called
    /// them.
    fn time_of(&self, texts: &[Texts], (rank, name): (usize, u32), other: usize, interval: u32) -> i64 {
        let functions = &self.question.ranks[other].intervals[interval as usize].functions;
        let sum = |of: &dyn Fn(u32) -> bool| -> i64 {
            functions.iter().filter(|(text, _)| of(*text)).map(|(_, time)| time.0).sum()
        };
        let (own, theirs) = (&texts[rank], &texts[other]);
        if own.is_python[name as usize] && !theirs.has_python {
            return sum(&|_| true);
        }
        let number = own.numbers[name as usize];
        let known = functions.iter().find(|(text, _)| theirs.numbers[*text as usize] == number);
        let at_most = functions.last().filter(|_| functions.len() == FUNCTIONS);
        let hidden = if own.has_python { 0 } else { sum(&|text| theirs.is_python[text as usize]) };
        known.or(at_most).map_or(0, |(_, time)| time.0) + hidden
    }
}

/// The texts of a rank.
struct Texts {
    /// Numbers that are equal for equal texts of all ranks.
    numbers: Vec<u32>,
    /// Whether they are of Python functions.
    is_python: Vec<bool>,
    /// Whether any of them is.
    has_python: bool,
}

fn texts(ranks: &[&RankGraph]) -> Vec<Texts> {
    let mut known: Numbers<&str> = Numbers::default();
    let mut of_rank = Vec::new();
    for graph in ranks {
        let numbers = graph.texts.iter().map(|text| known.number(text.as_str())).collect();
        let is_python: Vec<bool> = graph.texts.iter().map(|text| is_python(text)).collect();
        of_rank.push(Texts { numbers, has_python: is_python.contains(&true), is_python });
    }
    of_rank
}

/// Those that have most excess.
fn most<T>(mut of: Vec<(String, i64, T)>, less: impl Fn(T) -> Less) -> Vec<(String, Less)> {
    of.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    of.truncate(ASKED);
    of.into_iter().map(|(name, _, of)| (name, less(of))).collect()
}
