//! Which ranks call collectives together.
//!
//! Where a source names communicators, these are the groups. Otherwise streams are compared: members of a group call the same functions
//! with the same numbers of elements in the same order. Replicas of a model do so, too, so a class of equal streams may contain several
//! groups. Members of a group wait for each other at every call and enter the next one at nearly the same time, whereas other replicas
//! drift. So two ranks are compared by how much the difference of their times varies, which a constant offset of their clocks does not change.
//!
//! Traces without records of their groups are grouped by equal sequences, too (see [`matching`](crate::operations::matching)). There the ends
//! of kernels show which ranks belong together, and half of the kernels may be missing; calls have no ends, so nearly all must be equal.

use std::collections::{BTreeMap, HashMap};

use super::layout::Layout;
use super::{CallKind, Calls, Stream};
use crate::statistics::{median, median_time};
use crate::time::Ns;

/// Streams with fewer calls are not grouped.
const FEWEST_CALLS: usize = 16;

/// Two streams are equal, but for lost calls, if at least this share of their calls is alike.
const ALIKE: f64 = 0.95;

/// A rank is compared with those at most this far from it in the order of its class.
const NEAR: usize = 64;

/// At most this many matched calls of two streams are compared.
const SAMPLES: usize = 2048;

/// Ranks outside a group must be at least this many times as far away as its members.
const NEARER: f64 = 1.3;

/// At least this share of the ranks must be nearer to the members of their group than to others.
const AGREE: f64 = 0.9;

/// What a group is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Role {
    /// The source names it.
    Named,
    /// The group with most calls: its ranks share each layer.
    Tensor,
    /// Its ranks have replicas of the same part of the model.
    Data,
    /// Its streams of calls are equal, and its purpose is unknown.
    Equal,
}

impl Role {
    /// How a sentence names a group with this role.
    pub fn title(self) -> &'static str {
        match self {
            Role::Named => "communicator",
            Role::Tensor => "tensor parallel group",
            Role::Data => "data parallel group",
            Role::Equal => "group of equal streams",
        }
    }
}

/// Ranks that call collectives together.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallGroup {
    /// What it is for.
    pub role: Role,
    /// Its ranks, ascending.
    pub ranks: Vec<u32>,
    /// By rank: its stream, a position in [`Calls::streams`].
    pub streams: Vec<usize>,
}

/// The groups, and the layout that they show.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CallGroups {
    /// All groups of two or more ranks.
    pub groups: Vec<CallGroup>,
    /// Tensor, pipeline and data parallel ranks; `None` if the streams do not show them.
    pub layout: Option<Layout>,
    /// How many calls are barriers and flags, which are not compared.
    pub control_calls: u64,
    /// How many are sends and receives, which are not compared.
    pub point_to_point_calls: u64,
    /// How many are on streams that no other rank has.
    pub alone_calls: u64,
    /// How many are on streams with too few calls to be compared.
    pub few_calls: u64,
}

impl CallGroups {
    /// Finds the groups.
    pub fn find(calls: &Calls) -> Self {
        let mut groups = CallGroups::default();
        let mut named: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut collective = Vec::new();
        let mut p2p: Vec<usize> = Vec::new();
        for (at, stream) in calls.streams.iter().enumerate() {
            let count = stream.calls.len() as u64;
            if calls.all(stream, CallKind::is_point_to_point) {
                groups.point_to_point_calls += count;
                p2p.push(at);
            } else if let Some(communicator) = stream.communicator {
                named.entry(communicator).or_default().push(at);
            } else if calls.all(stream, CallKind::is_control) {
                groups.control_calls += count;
            } else {
                collective.push(at);
            }
        }
        for streams in named.into_values() {
            groups.add(calls, Role::Named, streams);
        }
        groups.infer(calls, &collective, &p2p);
        groups
    }

    fn add(&mut self, calls: &Calls, role: Role, streams: Vec<usize>) {
        if streams.len() < 2 {
            self.alone_calls += streams.iter().map(|at| calls.streams[*at].calls.len() as u64).sum::<u64>();
            return;
        }
        let ranks = streams.iter().map(|at| calls.streams[*at].rank).collect();
        self.groups.push(CallGroup { role, ranks, streams });
    }

    fn infer(&mut self, calls: &Calls, collective: &[usize], p2p: &[usize]) {
        let lengths = collective.iter().map(|at| calls.streams[*at].calls.len());
        self.few_calls = lengths.filter(|length| *length < FEWEST_CALLS).sum::<usize>() as u64;
        let found = classes(calls, collective);
        if found.is_empty() {
            return;
        }
        // The classes of the busiest stream of each rank are those of tensor parallelism, if there are others.
        let mut busiest: BTreeMap<u32, usize> = BTreeMap::new();
        for at in collective {
            let best = busiest.entry(calls.streams[*at].rank).or_insert(*at);
            if calls.streams[*at].calls.len() > calls.streams[*best].calls.len() {
                *best = *at;
            }
        }
        let is_main = |class: &Vec<usize>| class.iter().all(|at| busiest.get(&calls.streams[*at].rank) == Some(at));
        let (main, others): (Vec<_>, Vec<_>) = found.into_iter().partition(is_main);
        if others.is_empty() && p2p.is_empty() {
            main.into_iter().for_each(|class| self.add(calls, Role::Equal, class));
            return;
        }
        let size = group_size(calls, &main);
        self.layout = size.and_then(|size| Layout::infer(calls, &main, &classes(calls, p2p), size));
        for class in main {
            let size = size.filter(|size| class.len().is_multiple_of(*size)).unwrap_or(class.len());
            let role = if size == class.len() && self.layout.is_none() { Role::Equal } else { Role::Tensor };
            class.chunks(size).for_each(|group| self.add(calls, role, group.to_vec()));
        }
        for class in others {
            match &self.layout {
                Some(layout) => {
                    let mut of_place: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
                    for at in class {
                        of_place.entry(layout.replicas_of(calls.streams[at].rank)).or_default().push(at);
                    }
                    of_place.into_values().for_each(|group| self.add(calls, Role::Data, group));
                }
                None => self.add(calls, Role::Equal, class),
            }
        }
    }
}

/// Streams with the same calls, each class by rank. A rank with several such streams has one in each of several classes.
fn classes(calls: &Calls, streams: &[usize]) -> Vec<Vec<usize>> {
    let mut exact: HashMap<(Vec<u32>, usize), usize> = HashMap::new();
    let mut classes: Vec<Vec<usize>> = Vec::new();
    for at in streams {
        let stream = &calls.streams[*at];
        if stream.calls.len() < FEWEST_CALLS {
            continue;
        }
        let kinds: Vec<u32> = stream.calls.iter().map(|call| call.kind).collect();
        let has_rank = |class: &Vec<usize>| class.iter().any(|other| calls.streams[*other].rank == stream.rank);
        let mut key = (kinds, 0);
        while exact.get(&key).is_some_and(|class| has_rank(&classes[*class])) {
            key.1 += 1;
        }
        let next = classes.len();
        match exact.get(&key) {
            Some(class) => classes[*class].push(*at),
            None => {
                let alike =
                    classes.iter().position(|class| !has_rank(class) && is_alike(stream, &calls.streams[class[0]]));
                let class = alike.unwrap_or(next);
                if class == next {
                    classes.push(Vec::new());
                }
                classes[class].push(*at);
                exact.insert(key, class);
            }
        }
    }
    classes.iter_mut().for_each(|class| class.sort_by_key(|at| calls.streams[*at].rank));
    classes
}

/// Whether two streams have the same calls, but for some that are lost. The order is looked at where the numbers of each kind allow it:
/// streams that differ from call to call take long to match.
fn is_alike(a: &Stream, b: &Stream) -> bool {
    let (short, long) = (a.calls.len().min(b.calls.len()), a.calls.len().max(b.calls.len()));
    let is_enough = |alike: usize| alike as f64 >= ALIKE * long as f64;
    is_enough(short) && is_enough(in_common(a, b)) && is_enough(a.pairs(b).len())
}

/// How many calls two streams have in common, whatever their order.
fn in_common(a: &Stream, b: &Stream) -> usize {
    let mut counts: HashMap<u32, usize> = HashMap::new();
    a.calls.iter().for_each(|call| *counts.entry(call.kind).or_default() += 1);
    let has = |kind: u32| match counts.get_mut(&kind) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    };
    b.calls.iter().map(|call| call.kind).map(has).filter(|has| *has).count()
}

/// How many ranks the groups of the classes have, by their times; `None` if no size divides them clearly.
fn group_size(calls: &Calls, classes: &[Vec<usize>]) -> Option<usize> {
    let mut votes: BTreeMap<usize, usize> = BTreeMap::new();
    for class in classes {
        *votes.entry(size_within(calls, class).unwrap_or(class.len())).or_default() += class.len();
    }
    let ranks: usize = classes.iter().map(Vec::len).sum();
    let (size, _) = votes.into_iter().rev().max_by_key(|(_, ranks)| *ranks)?;
    (ranks >= 2 && classes.iter().all(|class| class.len().is_multiple_of(size))).then_some(size)
}

/// The size of the groups in a class, if its ranks in their order fall into groups that are nearer to each other than to the rest.
fn size_within(calls: &Calls, class: &[usize]) -> Option<usize> {
    let n = class.len();
    let candidates = (2..=n / 2).filter(|size| n.is_multiple_of(*size) && *size <= NEAR);
    let candidates: Vec<usize> = candidates.collect();
    if candidates.is_empty() {
        return None;
    }
    let distances = Distances::measure(calls, class);
    let ratio_of = |size: usize| {
        let mut ratios: Vec<f64> = Vec::with_capacity(n);
        for at in 0..n {
            let own = at / size;
            let (mut inside, mut outside) = (0.0_f64, f64::INFINITY);
            for (other, distance) in distances.from(at) {
                match other / size == own {
                    true => inside = inside.max(distance),
                    false => outside = outside.min(distance),
                }
            }
            ratios.push(if outside.is_finite() { outside / inside.max(1.0) } else { 0.0 });
        }
        let agree = ratios.iter().filter(|ratio| **ratio > 1.0).count() as f64;
        (agree >= AGREE * n as f64).then(|| median(ratios))
    };
    let best = candidates.into_iter().filter_map(|size| Some((size, ratio_of(size)?)));
    best.filter(|(_, ratio)| *ratio >= NEARER).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(size, _)| size)
}

/// By stream of a class and each of those after it that are near: how much the difference of their times varies, in ns: its median
/// absolute deviation.
struct Distances(Vec<Vec<f64>>);

impl Distances {
    fn measure(calls: &Calls, class: &[usize]) -> Self {
        let row = |at: usize| {
            let near = &class[at + 1..class.len().min(at + NEAR)];
            near.iter().map(|other| distance(&calls.streams[class[at]], &calls.streams[*other])).collect()
        };
        Distances((0..class.len()).map(row).collect())
    }

    /// The others near a stream, with their distances.
    fn from(&self, at: usize) -> impl Iterator<Item = (usize, f64)> {
        let before = (at.saturating_sub(NEAR - 1)..at).map(move |other| (other, self.0[other][at - other - 1]));
        before.chain((at + 1..).zip(self.0[at].iter().copied()))
    }
}

fn distance(a: &Stream, b: &Stream) -> f64 {
    let pairs = a.pairs(b);
    let step = pairs.len().div_ceil(SAMPLES).max(1);
    let difference = |(i, j): &(usize, usize)| a.calls[*i].time - b.calls[*j].time;
    let mut differences: Vec<Ns> = pairs.iter().step_by(step).map(difference).collect();
    let center = median_time(&mut differences);
    let mut deviations: Vec<Ns> =
        differences.iter().map(|of| Ns(of.0.saturating_sub(center.0).saturating_abs())).collect();
    if deviations.is_empty() { f64::INFINITY } else { median_time(&mut deviations).as_f64() }
}
