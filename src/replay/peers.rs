//! Like ranks, what they do at the same place, and the times of a job in which a rank does as its peers do.
//!
//! Work is what a rank's own doing determines: what its threads do from one node to the next, and how long its kernels take.

use std::collections::HashMap;
use std::ops::Range;

use foldhash::fast::FixedState;
use serde::Serialize;

use super::alike::Alike;
use super::job::{JobGraph, Node, Role, Times};
use super::lists::Lists;
use super::rank::{EdgeKind, RankGraph};
use crate::operations::matching::Matches;
use crate::statistics::median_time;
use crate::time::{Ns, Window};

/// The words for a part of a rank's work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "WorkPart"))]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// What its threads do.
    #[default]
    Cpu,
    /// What its GPUs do, without collectives.
    Gpu,
}

impl Part {
    pub fn role(self) -> Role {
        if self == Part::Cpu { Role::Cpu } else { Role::Gpu }
    }

    /// As a sentence names it.
    pub(crate) fn name(self) -> &'static str {
        if self == Part::Cpu { "CPU" } else { "GPU" }
    }
}

/// A place: its role, and its members.
pub type Place<'a> = (Role, &'a [(u32, u32)]);

/// Like ranks, and what they have in common.
#[derive(Debug)]
pub struct Peers {
    pub alike: Alike,
    /// By node of the job's graph: its work, if it is not its own time, in ns. A thread's work at a node that its peers lack counts at the next node that they have.
    moved: HashMap<u32, i64, FixedState>,
    /// By node: whether it is one of these. For all others a run's own time says it alone.
    is_moved: Vec<bool>,
    /// The places that several like ranks have: their roles, and where their members are.
    places: Vec<(Role, Range<u32>)>,
    /// Of each place: its ranks, with their nodes in the job's graph.
    members: Vec<(u32, u32)>,
    /// By place: whether a thread goes on there that another one woke.
    are_woken: Vec<bool>,
    /// Nodes that no peer has, though its trace goes on there.
    alone: Vec<u32>,
}

impl Peers {
    /// Finds like ranks, and what they have in common.
    pub fn find(job: &JobGraph, ranks: &[&RankGraph], matches: &Matches) -> Self {
        Peers::of(Alike::find(ranks, matches), job, ranks)
    }

    pub(crate) fn of(alike: Alike, job: &JobGraph, ranks: &[&RankGraph]) -> Self {
        let nodes = job.nodes.len();
        let mut peers = Peers {
            alike,
            moved: HashMap::default(),
            is_moved: vec![false; nodes],
            places: Vec::new(),
            members: Vec::new(),
            are_woken: Vec::new(),
            alone: Vec::new(),
        };
        let is_common = peers.find_places(job, ranks);
        peers.find_work(job, ranks, &is_common);
        peers
    }

    /// The number of a rank's step, by the first rank's.
    pub fn step(&self, rank: usize, step: u32) -> Option<u32> {
        u32::try_from(i64::from(step) - self.alike.step_shifts[rank]).ok()
    }

    /// How many ranks are like a rank, itself included.
    pub fn alike(&self, rank: usize) -> usize {
        self.alike.sizes[self.alike.class[rank] as usize]
    }

    pub fn with_peers(&self) -> Vec<usize> {
        (0..self.alike.class.len()).filter(|rank| self.alike(*rank) > 1).collect()
    }

    /// Finds the places that most of a class have, and by node whether it is at one.
    fn find_places(&mut self, job: &JobGraph, ranks: &[&RankGraph]) -> Vec<bool> {
        let mut is_common = vec![false; job.nodes.len()];
        let common = self.common_spans(job);
        // By class: how many places come before its own.
        let first: Vec<usize> =
            self.alike.places_in.iter().scan(0, |next, places| Some(std::mem::replace(next, *next + places))).collect();
        let of_rank = |rank: usize| {
            let nodes = self.alike.place_of[rank].iter().zip(&job.ends[rank]);
            let first = first[self.alike.class[rank] as usize] as u32;
            nodes.map(move |(place, end)| (first + place, (rank as u32, *end)))
        };
        let at = Lists::new(self.alike.places_in.iter().sum(), (0..ranks.len()).flat_map(of_rank));
        let places = (0..).zip(&first).zip(&self.alike.places_in);
        for (class, place) in
            places.flat_map(|((class, first), places)| (*first..first + places).map(move |place| (class, place)))
        {
            let members = at.of(place as u32);
            let role = job.node(members[0].1 as usize).role;
            if members.len() > 1 && members.len() * 2 > self.alike(class) {
                members.iter().for_each(|(_, node)| is_common[*node as usize] = true);
                // A collective that is matched on some ranks only is nobody's work.
                if role.is_work() && members.iter().all(|(_, node)| job.node(*node as usize).role == role) {
                    let first = self.members.len() as u32;
                    self.members.extend(members);
                    self.places.push((role, first..self.members.len() as u32));
                }
            } else {
                let span = common[class][usize::from(role != Role::Cpu)];
                let is_recorded = |(_, node): &&(u32, u32)| span.contains(Ns(job.node(*node as usize).time));
                self.alone.extend(members.iter().filter(is_recorded).map(|(_, node)| *node));
            }
        }
        let members = &self.members;
        self.places.sort_by_key(|(_, of)| members[of.start as usize]);
        let is_woken = |(_, node): &(u32, u32)| is_woken(job, *node as usize);
        let are_woken = self.places().map(|(_, members)| members.iter().any(is_woken)).collect();
        self.are_woken = are_woken;
        self.alone.sort_unstable();
        is_common
    }

    /// By class: from when to when all its ranks have recorded their threads' work, and the rest. A trace may be cut, or begin later.
    fn common_spans(&self, job: &JobGraph) -> Vec<[Window; 2]> {
        let mut spans = vec![[(i64::MAX, i64::MIN); 2]; self.alike.class.len()];
        for Node { role, rank, time, .. } in job.nodes.iter() {
            if !matches!(role, Role::Arrival | Role::Rendezvous | Role::Outside(_)) {
                let (first, last) = &mut spans[rank as usize][usize::from(role != Role::Cpu)];
                (*first, *last) = ((*first).min(time), (*last).max(time));
            }
        }
        let mut common = vec![[Window::ALL; 2]; self.alike.class.len()];
        for (class, spans) in self.alike.class.iter().zip(spans) {
            for (common, (first, last)) in common[*class as usize].iter_mut().zip(spans) {
                *common = Window { start: common.start.max(Ns(first)), end: common.end.min(Ns(last) + Ns(1)) };
            }
        }
        common
    }

    fn find_work(&mut self, job: &JobGraph, ranks: &[&RankGraph], is_common: &[bool]) {
        // By rank and thread: the work since the last node that its peers have.
        let mut pending: Vec<Vec<i64>> = vec![Vec::new(); ranks.len()];
        for (at, node) in job.nodes.iter().enumerate().filter(|(_, node)| node.role == Role::Cpu) {
            let (lane, of_rank) =
                (ranks[node.rank as usize].nodes[node.of as usize].lane, &mut pending[node.rank as usize]);
            of_rank.resize(of_rank.len().max(lane as usize + 1), 0);
            let work = of_rank[lane as usize] + job.times.own[at];
            let (work, pending) = if is_common[at] { (work, 0) } else { (0, work) };
            of_rank[lane as usize] = pending;
            if work != job.times.own[at] {
                self.moved.insert(at as u32, work);
                self.is_moved[at] = true;
            }
        }
    }

    /// The places that several like ranks have: their roles, and the ranks there with their nodes.
    pub fn places(&self) -> impl Iterator<Item = Place<'_>> {
        self.places.iter().enumerate().map(|(at, (role, _))| (*role, self.members(at)))
    }

    /// The ranks at a place, with their nodes.
    pub(super) fn members(&self, place: usize) -> &[(u32, u32)] {
        let (_, of) = &self.places[place];
        &self.members[of.start as usize..of.end as usize]
    }

    /// The times of a job in which these ranks do this part of their work as the median of their peers does: of those that are not among them, or of
    /// all if all are.
    pub fn like_peers(&self, job: &JobGraph, mut times: Times, set: &[bool], part: Part) -> Times {
        let places = self.places.iter().enumerate().filter(|(_, (role, _))| *role == part.role());
        self.cure(job, &mut times, set, places.map(|(place, _)| place));
        for node in self.alone() {
            let (rank, role) = (job.node(node).rank as usize, job.node(node).role);
            if role == part.role() && set[rank] && self.alike(rank) > 1 {
                times.own[node] = 0;
                job.change_wait(&mut times, node, |wait| wait.is_asked = role != Role::Cpu);
            }
        }
        times
    }

    /// The same at some places alone.
    pub(super) fn like_peers_at(&self, job: &JobGraph, times: &Times, set: &[bool], places: &[usize]) -> Times {
        let mut times = times.clone();
        self.cure(job, &mut times, set, places.iter().copied());
        times
    }

    /// The times of a job in which these ranks do this part of their work as the median of them all.
    pub(super) fn like_each_other(&self, job: &JobGraph, times: &Times, set: &[bool], part: Part) -> Times {
        let mut found = times.clone();
        let mut work: Vec<Ns> = Vec::new();
        for (_, members) in self.places().filter(|place| place.0 == part.role()) {
            let own = || members.iter().filter(|(rank, _)| set[*rank as usize]).map(|(_, node)| *node as usize);
            work.clear();
            work.extend(own().map(|node| Ns(self.work_in(job, times, node))));
            let usual = median_time(&mut work).0;
            own().for_each(|node| found.own[node] = usual);
        }
        found
    }

    fn cure(&self, job: &JobGraph, times: &mut Times, set: &[bool], places: impl Iterator<Item = usize>) {
        let is_set = |(rank, _): &&(u32, u32)| set[*rank as usize];
        let mut work: Vec<Ns> = Vec::new();
        for place in places {
            let members = self.members(place);
            if !members.iter().any(|member| is_set(&member)) {
                continue;
            }
            let is_all = members.iter().all(|member| is_set(&member));
            let peers = members.iter().filter(|member| is_all || !is_set(member)).map(|(_, node)| *node as usize);
            work.clear();
            work.extend(peers.clone().map(|node| Ns(self.work_in(job, times, node))));
            let usual = median_time(&mut work).0;
            let own = || members.iter().filter(is_set).map(|(_, node)| *node as usize);
            own().for_each(|node| times.own[node] = usual);
            if !self.are_woken[place] {
                continue;
            }
            // How long a thread takes to wake another one is work of its own.
            let woken = peers.filter(|node| is_woken(job, *node));
            let mut wakes: Vec<Ns> = woken.map(|node| Ns(job.wait(times, node).extra)).collect();
            if !wakes.is_empty() {
                let extra = median_time(&mut wakes).0;
                let own = own().filter(|node| is_woken(job, *node));
                own.for_each(|node| job.change_wait(times, node, |wait| wait.extra = extra));
            }
        }
    }

    pub(super) fn alone(&self) -> impl Iterator<Item = usize> {
        self.alone.iter().map(|node| *node as usize)
    }

    /// What a node's work is in a run, in ns: a time that was changed is of work already.
    #[inline]
    pub fn work_in(&self, job: &JobGraph, times: &Times, node: usize) -> i64 {
        let own = times.own[node];
        if self.is_moved[node] && own == job.times.own[node] { self.moved[&(node as u32)] } else { own }
    }

    /// The times of the job with the work of each place given to another of its ranks at random. `below` gives a random number below another one.
    pub fn shuffled(&self, job: &JobGraph, times: &Times, below: &mut dyn FnMut(usize) -> usize) -> Times {
        let mut found = times.clone();
        let mut work: Vec<i64> = Vec::new();
        for (_, members) in self.places() {
            work.clear();
            work.extend(members.iter().map(|(_, node)| self.work_in(job, times, *node as usize)));
            for at in (1..work.len()).rev() {
                work.swap(at, below(at + 1));
            }
            for ((_, node), own) in members.iter().zip(&work) {
                found.own[*node as usize] = *own;
            }
        }
        // Kernels that one rank alone runs come to none by chance.
        for node in self.alone() {
            match job.node(node).role {
                Role::Cpu => found.own[node] = self.work_in(job, times, node),
                Role::Gpu => found.own[node] = 0,
                _ => {}
            }
        }
        found
    }
}

/// Whether a thread goes on at a node that another one woke.
fn is_woken(job: &JobGraph, node: usize) -> bool {
    let node = job.node(node);
    node.role == Role::Cpu && node.binding == EdgeKind::Wake
}
