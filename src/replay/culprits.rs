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
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Culprit {
    /// Its name.
    pub name: String,
    /// How much earlier the job ends if it takes as long as on the peers, in ns.
    pub saves_ns: i64,
    /// How much longer it takes than on the peers, as a multiple of that; `None` of calls that the peers do not make.
    #[cfg_attr(test, schemars(range(min = 0)))]
    pub slower: Option<f64>,
    /// The same of all the rest of the work; `None` where it is not looked at. Where both are equally much slower, it is the processor that is, and not the function.
    #[cfg_attr(test, schemars(range(min = 0)))]
    pub rest_slower: Option<f64>,
}

/// What is slower by more than so many times as much as the rest is a cause by itself. In simulated jobs a CPU that is slower as a whole has functions of
/// 0.5 to 1.8 times the rest, and a function that is made slower more than 7 times.
const BY_ITSELF: f64 = 3.0;

impl Culprit {
    /// Those that save something, most first.
    pub(super) fn ranked(found: impl Iterator<Item = Self>) -> Vec<Self> {
        let mut found: Vec<Self> = found.filter(|of| of.saves_ns > 0).collect();
        found.sort_by(|a, b| b.saves_ns.cmp(&a.saves_ns).then_with(|| a.name.cmp(&b.name)));
        found
    }

    /// Whether it is much slower than the rest, as far as that is known.
    pub fn is_by_itself(&self) -> bool {
        self.slower.zip(self.rest_slower).is_none_or(|(slower, rest)| slower > BY_ITSELF * rest)
    }
}

/// How long something takes on the set and on its peers, in ns.
#[derive(Debug, Clone, Copy, Default)]
struct Compared {
    own: i64,
    peers: i64,
}

impl Compared {
    /// How much longer it takes, as a multiple of what it takes on the peers; of what they do not do, as much as can be.
    fn slower(self) -> f64 {
        (self.own - self.peers).max(0) as f64 / self.peers.max(1) as f64
    }
}

/// The work in which functions or kernels are looked for.
pub(super) struct Culprits<'a, 'q> {
    question: &'a Question<'q>,
    set: &'a [usize],
    part: Part,
    /// The job, and the one in which the set does as its peers.
    base: &'a Times,
    cured: &'a Times,
    /// The intervals of the work that differs, if it is not all.
    intervals: Option<BTreeSet<RankInterval>>,
}

impl<'a, 'q> Culprits<'a, 'q> {
    /// `places` are those of the peers at which the set takes longer; `None` for all.
    pub(super) fn new(
        question: &'a Question<'q>,
        (set, part): (&'a [usize], Part),
        [base, cured]: [&'a Times; 2],
        places: Option<&[usize]>,
    ) -> Self {
        let nodes = |places: &[usize]| {
            let members = places.iter().flat_map(|at| question.peers.members(*at));
            let own = members.filter(|(rank, _)| set.contains(&(*rank as usize)));
            own.filter_map(|(_, node)| question.interval(*node as usize)).collect()
        };
        Culprits { question, set, part, base, cured, intervals: places.map(nodes) }
    }

    /// Those that save something by themselves, most first. The job ends at `end` without that.
    pub(super) fn find(&self, end: i64) -> Vec<Culprit> {
        let candidates = if self.part == Part::Cpu { self.functions() } else { self.kernels() };
        let ends = self.question.ends(candidates.len(), |at| {
            let mut times = self.base.clone();
            candidates[at].less.iter().for_each(|(node, less)| times.own[*node] -= less);
            times
        });
        let culprit = |(of, ended): (Candidate, i64)| Culprit {
            name: of.name,
            saves_ns: end - ended,
            slower: Some(of.own.slower()),
            // At a few places nothing else shows how slow the rest is; that it is only there says that the processor is not.
            rest_slower: self.intervals.is_none().then(|| of.rest.slower()),
        };
        Culprit::ranked(candidates.into_iter().zip(ends).map(culprit))
    }

    /// How much longer a node's work takes than on the peers.
    fn excess(&self, node: usize) -> i64 {
        self.question.peers.work_in(self.question.job, self.base, node) - self.cured.own[node]
    }

    fn is_asked(&self, of: RankInterval) -> bool {
        self.set.contains(&of.0) && self.intervals.as_ref().is_none_or(|intervals| intervals.contains(&of))
    }

    /// Kernels with the most excess.
    fn kernels(&self) -> Vec<Candidate> {
        let Question { ranks, peers, job, .. } = *self.question;
        let mut of: BTreeMap<&str, (Compared, Vec<usize>)> = BTreeMap::new();
        for node in self.set.iter().flat_map(|rank| self.question.work(*rank, self.part)) {
            if self.question.interval(node).is_some_and(|interval| self.is_asked(interval)) {
                let (rank, of_rank) = (job.nodes[node].rank as usize, job.nodes[node].of);
                let (sum, nodes) = of.entry(ranks[rank].name(of_rank)).or_default();
                sum.own += peers.work_in(job, self.base, node);
                sum.peers += self.cured.own[node];
                nodes.push(node);
            }
        }
        let less = |nodes: Vec<usize>| nodes.into_iter().map(|node| (node, self.excess(node))).collect();
        most(of.into_iter().map(|(name, (sum, nodes))| (name.to_owned(), sum, nodes)).collect(), less)
    }

    /// The same of functions. Their excess is taken from the work of the interval, from each piece in proportion to its own.
    fn functions(&self) -> Vec<Candidate> {
        let less = |of: BTreeMap<RankInterval, Compared>| {
            let mut less = Less::new();
            for (interval, Compared { own, peers }) in of.into_iter().filter(|(_, of)| of.own > of.peers) {
                let nodes = self.question.in_interval(interval).map(|node| (node, self.excess(node)));
                let nodes = nodes.filter(|(_, excess)| *excess > 0);
                let all: i64 = nodes.clone().map(|(_, excess)| excess).sum();
                // A function takes no more of the excess than there is.
                let share = (own - peers).min(all) as f64 / all.max(1) as f64;
                less.extend(nodes.map(|(node, excess)| (node, (excess as f64 * share) as i64)));
            }
            less
        };
        let sum = |of: &BTreeMap<RankInterval, Compared>| {
            of.values()
                .fold(Compared::default(), |sum, of| Compared { own: sum.own + of.own, peers: sum.peers + of.peers })
        };
        let of = self.function_times().into_iter();
        most(of.map(|(name, of)| (name.to_owned(), sum(&of), of)).collect(), less)
    }

    /// By function, and by rank and interval: how long it takes there, and the median of the peers that are not in the set.
    fn function_times(&self) -> BTreeMap<&str, BTreeMap<RankInterval, Compared>> {
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
        let mut found: BTreeMap<&str, BTreeMap<RankInterval, Compared>> = BTreeMap::new();
        for rank in self.set {
            for at in asked(*rank) {
                let others = &same[&place((*rank, at))];
                let functions = ranks[*rank].intervals[at as usize].functions.iter().filter(|_| !others.is_empty());
                for (name, time) in functions {
                    let of = (*rank, *name);
                    let mut theirs: Vec<i64> =
                        others.iter().map(|(other, at)| self.time_of(&texts, of, *other, *at)).collect();
                    let middle = theirs.len() / 2;
                    let peers = *theirs.select_nth_unstable(middle).1;
                    // An annotation, as the name of a step, says when a thread did something, and not what. Outside of all slices nothing says it.
                    let is_known = !ranks[*rank].is_annotation(*name) && ranks[*rank].texts[*name as usize] != OUTSIDE;
                    let name = if is_known { ranks[*rank].texts[*name as usize].as_str() } else { "" };
                    let sum = found.entry(name).or_default().entry((*rank, at)).or_default();
                    (sum.own, sum.peers) = (sum.own + time.0, sum.peers + peers);
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

/// A function or kernel that may be a cause.
struct Candidate {
    name: String,
    own: Compared,
    rest: Compared,
    less: Less,
}

/// Those that have most excess; what has no name is part of the rest.
fn most<T>(mut of: Vec<(String, Compared, T)>, less: impl Fn(T) -> Less) -> Vec<Candidate> {
    let all = |get: fn(&Compared) -> i64| of.iter().map(|(_, of, _)| get(of)).sum::<i64>();
    let (own, peers) = (all(|of| of.own), all(|of| of.peers));
    of.retain(|(name, of, _)| !name.is_empty() && of.own > of.peers);
    of.sort_by(|a, b| (b.1.own - b.1.peers).cmp(&(a.1.own - a.1.peers)).then_with(|| a.0.cmp(&b.0)));
    of.truncate(ASKED);
    let candidate = |(name, of, nodes): (String, Compared, T)| Candidate {
        name,
        own: of,
        rest: Compared { own: own - of.own, peers: peers - of.peers },
        less: less(nodes),
    };
    of.into_iter().map(candidate).collect()
}
