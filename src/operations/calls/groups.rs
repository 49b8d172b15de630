//! Which ranks call collectives together.
//!
//! Where a source names communicators, these are the groups. Otherwise streams are compared: members of a group call the same functions
//! with the same numbers of elements in the same order. Replicas of a model do so, too, so a class of equal streams may contain several
//! groups. Members of a group wait for each other at every call and enter the next one at nearly the same time, whereas other replicas
//! drift. So two ranks are compared by how much the difference of their times varies, which a constant offset of their clocks does not change,
//! and a class is divided into the groups that are clear by that (`nearness`). The numbers of the ranks have no part in it.
//!
//! Traces without records of their groups are grouped by equal sequences, too (see [`matching`](crate::operations::matching)). There the ends
//! of kernels show which ranks belong together, and half of the kernels may be missing; calls have no ends, so nearly all must be equal.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::layout::Layout;
use super::{CallKind, Calls, Stream};
use crate::operations::nearness::Nearness;
use crate::statistics::Deviation;
use crate::time::Ns;

/// Streams with fewer calls are not grouped: with fewer samples, noise may pass for a clear group.
const FEWEST_CALLS: usize = 32;

/// Two streams are equal, but for lost calls, if at least this share of their calls is alike.
const ALIKE: f64 = 0.95;

/// The distance of two streams is measured with at most, and if there are many streams with at least, so many calls of each.
const SAMPLES: (usize, usize) = (2048, 64);

/// Differences that are taken for a class at most, by sampling the calls of many streams more sparsely: 1.6 s of work for 1,024 streams.
const DIFFERENCES: usize = 1 << 26;

/// What a group is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
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
pub struct CallGroup {
    pub role: Role,
    /// Whether no rank of it has a stream with more calls.
    pub is_busiest: bool,
    /// Its ranks, ascending.
    pub ranks: Vec<u32>,
    /// By rank: its stream, a position in [`Calls::streams`].
    pub streams: Vec<usize>,
}

/// The groups, and the layout that they show.
#[derive(Debug, Clone, Default)]
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
    /// How many are on streams that others equal, in a class of clear groups to none of which they belong.
    pub unclear_calls: u64,
}

impl CallGroups {
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
        let busiest = busiest(calls, named.values().flatten().chain(&collective));
        for streams in named.into_values() {
            groups.add(calls, &busiest, |_| Role::Named, streams);
        }
        groups.infer(calls, &busiest, &collective, &p2p);
        groups
    }

    fn add(&mut self, calls: &Calls, busiest: &HashSet<usize>, role: impl Fn(&CallGroup) -> Role, streams: Vec<usize>) {
        if streams.len() < 2 {
            self.alone_calls += count(calls, &streams);
            return;
        }
        let ranks = streams.iter().map(|at| calls.streams[*at].rank).collect();
        let is_busiest = streams.iter().all(|at| busiest.contains(at));
        let group = CallGroup { role: Role::Equal, is_busiest, ranks, streams };
        self.groups.push(CallGroup { role: role(&group), ..group });
    }

    fn infer(&mut self, calls: &Calls, busiest: &HashSet<usize>, collective: &[usize], p2p: &[usize]) {
        let (few, enough): (Vec<usize>, Vec<usize>) =
            collective.iter().partition(|at| calls.streams[**at].calls.len() < FEWEST_CALLS);
        self.few_calls = count(calls, &few);
        let classes_of_all = classes(calls, &enough);
        let (main, others): (Vec<_>, Vec<_>) =
            classes_of_all.into_iter().partition(|class| class.iter().all(|at| busiest.contains(at)));
        let [of_main, of_others] =
            [&main, &others].map(|of| of.iter().flat_map(|class| self.divide(calls, class)).collect::<Vec<_>>());
        // Where all groups are of one kind, nothing shows which kind it is.
        let has_others = !others.is_empty() || !p2p.is_empty();
        let layout = has_others.then(|| Layout::infer(calls, &of_main, &main, &classes(calls, p2p))).flatten();
        for streams in of_main.into_iter().chain(of_others) {
            let role = |group: &CallGroup| match &layout {
                Some(_) if group.is_busiest => Role::Tensor,
                Some(layout) if layout.are_replicas(&group.ranks) => Role::Data,
                _ => Role::Equal,
            };
            self.add(calls, busiest, role, streams);
        }
        self.layout = layout;
    }

    /// The groups of a class: those that are clear, or all of it.
    fn divide(&mut self, calls: &Calls, class: &[usize]) -> Vec<Vec<usize>> {
        let pairs = class.len() * class.len().saturating_sub(1) / 2;
        let (most, least) = SAMPLES;
        let rows = calls.rows(class, (DIFFERENCES / pairs.max(1)).clamp(least, most));
        let Some(Nearness { groups, alone }) = Nearness::find(class.len(), |a, b| distance(&rows, a, b)) else {
            return vec![class.to_vec()];
        };
        let streams = |members: Vec<usize>| members.into_iter().map(|member| class[member]).collect::<Vec<_>>();
        self.unclear_calls += count(calls, &streams(alone));
        groups.into_iter().map(|group| streams(group.members)).collect()
    }
}

fn count(calls: &Calls, streams: &[usize]) -> u64 {
    streams.iter().map(|at| calls.streams[*at].calls.len() as u64).sum()
}

/// The stream of each rank that has most calls; of several the first.
fn busiest<'s>(calls: &Calls, streams: impl Iterator<Item = &'s usize>) -> HashSet<usize> {
    let mut busiest: BTreeMap<u32, usize> = BTreeMap::new();
    for at in streams {
        let best = busiest.entry(calls.streams[*at].rank).or_insert(*at);
        let key = |at: usize| (calls.streams[at].calls.len(), std::cmp::Reverse(at));
        if key(*at) > key(*best) {
            *best = *at;
        }
    }
    busiest.into_values().collect()
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

/// How far two columns are apart, in ns: by how much the difference of their times varies, its median absolute deviation.
fn distance(rows: &[Vec<Option<Ns>>], a: usize, b: usize) -> f64 {
    let difference = |row: &Vec<Option<Ns>>| Some((row[a]? - row[b]?).as_f64());
    let differences: Vec<f64> = rows.iter().filter_map(difference).collect();
    if differences.is_empty() { f64::INFINITY } else { Deviation::measure(differences).distance }
}
