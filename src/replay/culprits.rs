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
    /// What the peers run there.
    #[serde(skip)]
    pub instead: Instead,
}

/// What the peers run where a rank runs a kernel or function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Instead {
    #[default]
    Same,
    Nothing,
    /// Another kernel.
    Other(String),
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
        let are_late: BTreeSet<&usize> = set.iter().collect();
        let nodes = |places: &[usize]| {
            let members = places.iter().flat_map(|at| question.peers.members(*at));
            let own = members.filter(|(rank, _)| are_late.contains(&(*rank as usize)));
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
            instead: self.instead(&of),
            name: of.name,
            saves_ns: end - ended,
            slower: Some(of.own.slower()),
            // At a few places nothing else shows how slow the rest is; that it is only there says that the processor is not.
            rest_slower: self.intervals.is_none().then(|| of.rest.slower()),
        };
        Culprit::ranked(candidates.into_iter().zip(ends).map(culprit))
    }

    /// What the peers run at the places of a kernel. Of functions it is not known: one that takes no time by itself is in no list.
    fn instead(&self, of: &Candidate) -> Instead {
        let Question { ranks, peers, job, .. } = self.question;
        let (is_set, is_it) = (self.question.flags(self.set), |name: &str| name == of.name);
        let mut others = ranks.iter().zip(&is_set).filter(|(_, is_set)| !**is_set).map(|(graph, _)| graph).peekable();
        if self.part == Part::Cpu || others.peek().is_none() {
            return Instead::Same;
        }
        if of.own.peers == 0 {
            return Instead::Nothing;
        }
        if others.flat_map(|graph| &graph.texts).any(|text| is_it(text)) {
            return Instead::Same;
        }
        let name = |(rank, node): &(u32, u32)| ranks[*rank as usize].name(job.node(*node as usize).of);
        let other = peers.places().filter(|place| place.0 == self.part.role()).find_map(|(_, members)| {
            let (own, others): (Vec<_>, Vec<_>) = members.iter().partition(|(rank, _)| is_set[*rank as usize]);
            own.iter().any(|member| is_it(name(member))).then(|| others.first().map(|other| name(other).to_owned()))?
        });
        other.map_or(Instead::Same, Instead::Other)
    }

    /// How much longer a node's work takes than on the peers.
    fn excess(&self, node: usize) -> i64 {
        self.question.peers.work_in(self.question.job, self.base, node) - self.cured.own[node]
    }

    fn is_asked(&self, of: RankInterval) -> bool {
        self.intervals.as_ref().is_none_or(|intervals| intervals.contains(&of))
    }

    /// Kernels with the most excess.
    fn kernels(&self) -> Vec<Candidate> {
        let Question { ranks, peers, job, .. } = *self.question;
        let mut of: BTreeMap<&str, (Compared, Vec<usize>)> = BTreeMap::new();
        for node in self.set.iter().flat_map(|rank| self.question.work(*rank, self.part)) {
            if self.question.interval(node).is_some_and(|interval| self.is_asked(interval)) {
                let (rank, of_rank) = (job.node(node).rank as usize, job.node(node).of);
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
        let less = |of: FunctionTimes| {
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
        let sum = |of: &FunctionTimes| {
            of.iter().fold(Compared::default(), |sum, (_, of)| Compared {
                own: sum.own + of.own,
                peers: sum.peers + of.peers,
            })
        };
        let of = self.function_times().into_iter();
        most(of.map(|(name, of)| (name.to_owned(), sum(&of), of)).collect(), less)
    }

    /// By function: how long it takes in which interval, and the median of the peers that are not in the set. What has no name is one function.
    fn function_times(&self) -> Vec<(&str, FunctionTimes)> {
        let Question { ranks, peers, .. } = *self.question;
        let is_set = self.question.flags(self.set);
        let place = |(rank, at): RankInterval| (peers.alike.class[rank], peers.alike.interval_of[rank][at as usize]);
        // By place: the intervals of the set, and those of its peers.
        let mut same: HashMap<(u32, u32), [Vec<RankInterval>; 2], FixedState> = HashMap::default();
        let intervals = |rank: usize| (0..ranks[rank].intervals.len() as u32).map(move |at| (rank, at));
        for own in self.set.iter().flat_map(|rank| intervals(*rank)).filter(|of| self.is_asked(*of)) {
            same.entry(place(own)).or_default()[0].push(own);
        }
        for other in (0..ranks.len()).filter(|rank| !is_set[*rank]).flat_map(intervals) {
            same.get_mut(&place(other)).into_iter().for_each(|of| of[1].push(other));
        }
        let (names, texts) = texts(ranks);
        let mut found: Vec<FunctionTimes> = vec![Vec::new(); names.len()];
        for [own, others] in same.into_values().filter(|[_, others]| !others.is_empty()) {
            let others = Others::of(ranks, &texts, &others);
            // By function, and whether Python functions are recorded where it is.
            let mut usual: HashMap<(u32, bool), i64, FixedState> = HashMap::default();
            for (rank, at) in own {
                let has_python = texts[rank].has_python;
                for (name, time) in &ranks[rank].intervals[at as usize].functions {
                    let number = texts[rank].numbers[*name as usize];
                    let is_python = texts[rank].is_python[*name as usize];
                    let known = usual.entry((number, has_python));
                    let peers = *known.or_insert_with(|| others.median(number, is_python, has_python));
                    // An annotation, as the name of a step, says when a thread did something, and not what. Outside of all slices nothing says it.
                    let is_known = !ranks[rank].is_annotation(*name) && names[number as usize] != OUTSIDE;
                    let of_name = &mut found[if is_known { number } else { NO_NAME } as usize];
                    match of_name.last_mut() {
                        Some((of, sum)) if *of == (rank, at) => {
                            (sum.own, sum.peers) = (sum.own + time.0, sum.peers + peers)
                        }
                        _ => of_name.push(((rank, at), Compared { own: time.0, peers })),
                    }
                }
            }
        }
        names.into_iter().zip(found).filter(|(_, of)| !of.is_empty()).collect()
    }
}

/// By interval: how long a function takes there.
type FunctionTimes = Vec<(RankInterval, Compared)>;

/// What peers do at a place, which is the same for all of a set there. Times are in ns.
struct Others {
    /// By function: which of them list it, and for how long.
    listed: HashMap<u32, Vec<(usize, i64)>, FixedState>,
    rest: Vec<Other>,
}

struct Other {
    has_python: bool,
    /// How long any function took that is not listed, at most.
    at_most: i64,
    all: i64,
    of_python: i64,
}

impl Others {
    fn of(ranks: &[&RankGraph], texts: &[Texts], intervals: &[RankInterval]) -> Self {
        let mut found = Others { listed: HashMap::default(), rest: Vec::with_capacity(intervals.len()) };
        for (at, (rank, interval)) in intervals.iter().enumerate() {
            let (functions, texts) = (&ranks[*rank].intervals[*interval as usize].functions, &texts[*rank]);
            let mut other = Other { has_python: texts.has_python, at_most: 0, all: 0, of_python: 0 };
            for (name, time) in functions {
                found.listed.entry(texts.numbers[*name as usize]).or_default().push((at, time.0));
                other.all += time.0;
                other.of_python += if texts.is_python[*name as usize] { time.0 } else { 0 };
            }
            other.at_most = functions.last().filter(|_| functions.len() == FUNCTIONS).map_or(0, |(_, time)| time.0);
            found.rest.push(other);
        }
        found
    }

    /// How long they are in a function at most: the median. What was recorded without Python functions has their time in what called them.
    fn median(&self, number: u32, is_python: bool, has_python: bool) -> i64 {
        let mut times: Vec<i64> = self.rest.iter().map(|of| of.at_most).collect();
        self.listed.get(&number).into_iter().flatten().for_each(|(at, time)| times[*at] = *time);
        for (time, other) in times.iter_mut().zip(&self.rest) {
            match is_python && !other.has_python {
                true => *time = other.all,
                false => *time += if has_python { 0 } else { other.of_python },
            }
        }
        let middle = times.len() / 2;
        *times.select_nth_unstable(middle).1
    }
}

struct Texts {
    /// By text: its number among the names.
    numbers: Vec<u32>,
    /// Whether they are of Python functions.
    is_python: Vec<bool>,
    /// Whether any of them is.
    has_python: bool,
}

/// The number of what has no name.
const NO_NAME: u32 = 0;

/// The names of all ranks, each once, and the texts of each.
fn texts<'r>(ranks: &[&'r RankGraph]) -> (Vec<&'r str>, Vec<Texts>) {
    let mut known: Numbers<&str> = Numbers::default();
    known.number("");
    let mut of_rank = Vec::new();
    for graph in ranks {
        let numbers = graph.texts.iter().map(|text| known.number(text.as_str())).collect();
        let is_python: Vec<bool> = graph.texts.iter().map(|text| is_python(text)).collect();
        of_rank.push(Texts { numbers, has_python: is_python.contains(&true), is_python });
    }
    (known.list, of_rank)
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
