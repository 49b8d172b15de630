//! Looks for ranks that make a job longer: by when they begin, by calls of their own, and by the work of a part, each without what was found before.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::culprits::{Culprit, Culprits, Instead};
use super::job::Times;
use super::late::{Control, LARGE_JOB, LEAST_SHARE, Search, Standing, Standout};
use super::peers::Part;
use super::question::Question;
use super::rank::{EdgeKind, NodeKind};
use crate::names::frames::is_python;
use crate::statistics::median_time;
use crate::time::Ns;

/// Most of what several ranks save together, and nearly all of it.
const MOST: f64 = 0.5;
const NEARLY_ALL: f64 = 0.8;

/// Jobs in which nothing differs but chance are within so many standard deviations of each other.
const UNSTEADY: i64 = 2;

/// Calls that a rank makes this many times as often as any of its peers are more than the same ones elsewhere.
const MORE: usize = 2;

/// So often it is looked for what else stands out, without what was found: more often in a small job, and once in a large one.
const ROUNDS: usize = 3;
const MOST_ROUNDS: usize = 8;
const SMALL: usize = 20_000;

/// How many ranks that begin later, or make calls of their own, are asked about one by one.
const ASKED: usize = 16;

/// So far apart the seeds of shuffled jobs of several rounds are.
const SEEDS: usize = 1_000;

/// A peer with this share of the excess of a late rank is as slow.
const AS_SLOW: f64 = 0.8;

/// What saves no more than this many times its error is not found.
pub(crate) const BEYOND_ERROR: i64 = 2;

/// With fewer steps nothing shows whether a rank is slow in most of them.
const FEWEST_STEPS: usize = 3;

/// A rank is slow in a step if it takes longer there by this share of what it takes longer in all.
const SLOW: f64 = 0.3;

/// Ranks that take longer than their peers.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LateWork {
    /// The ranks.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub ranks: Vec<u32>,
    /// Their peers: the other ranks that do the same. Empty if these are all of them, who are then compared with the median of all.
    pub peers: Vec<u32>,
    /// Which part of their work is longer.
    pub part: Part,
    /// How much of it.
    pub extent: Extent,
    /// At how many places of the job's sequence of work that is, if these are few; 0 if it is everywhere.
    pub pieces: u64,
    /// Whether the peers are few and faster than all others, which are these ranks.
    pub are_peers_faster: bool,
    /// Ranks that are peers and take about as much longer, but others do not wait for them.
    pub as_slow: Vec<u32>,
    /// Whether the traces of these ranks have Python functions, so that one could be named.
    pub has_python: bool,
    /// How much earlier the job ends if they do that as their peers.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub saves_ns: i64,
    /// How much longer the rank of them that takes longest takes than the peers, in ns.
    #[cfg_attr(test, schemars(range(min = 0)))]
    pub excess_ns: i64,
    /// Whether it delays the job. Where ranks are missing that may be as late, that is so only if it does though these come no earlier than they did, and if more
    /// than half of each group is here.
    pub is_proven: bool,
    /// What would be saved if their work were distributed over all of them at random.
    #[cfg_attr(test, schemars(range(min = 0)))]
    pub by_chance_ns: i64,
    /// The error of that: of the graph, and by chance.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub error_ns: i64,
    /// By step: how much shorter it is then, in ns; empty without steps.
    pub saves_by_step_ns: Vec<i64>,
    /// The functions or kernels that take longer there, each with what it saves by itself. What several save does not add up.
    pub culprits: Vec<Culprit>,
    /// Ranks with more, if it saves far less by itself than without what these take longer.
    #[serde(skip)]
    pub after: Vec<u32>,
    /// Of ranks that save together what none of them saves by itself: what each takes longer in.
    #[serde(skip)]
    pub each: Vec<(u32, String)>,
}

impl LateWork {
    /// What the culprit saves by itself; without one, what all of it saves.
    pub fn named_saving(&self) -> i64 {
        self.culprit().map_or(self.saves_ns, |culprit| culprit.saves_ns)
    }

    /// The function or kernel that has most of it by itself.
    pub fn culprit(&self) -> Option<&Culprit> {
        self.culprits.first().filter(|of| self.extent == Extent::Calls || self.has_most(of) && of.is_by_itself())
    }

    fn has_most(&self, of: &Culprit) -> bool {
        of.saves_ns as f64 >= MOST * self.saves_ns as f64 && of.saves_ns > BEYOND_ERROR * self.error_ns
    }

    /// How many times as long the work takes, if one function or kernel has most of it and the rest is as much slower.
    pub fn slower_alike(&self) -> Option<f64> {
        let of = self.culprits.first().filter(|of| self.has_most(of) && !of.is_by_itself())?;
        of.slower.map(|slower| 1.0 + slower)
    }
}

/// How much of a rank's work takes longer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    /// All of it.
    #[default]
    Everywhere,
    /// Single pieces: once, or a few times.
    Pieces,
    /// Calls that wait for the GPU, and that the peers do not make there.
    Calls,
    /// None: their threads begin later. Why is before their traces begin.
    Begin,
}

/// The times in which some ranks do as their peers.
type Cure<'c> = dyn Fn(&[usize]) -> Times + Sync + 'c;

/// Looks for ranks whose work of a part is longer.
pub(super) struct LateSearch<'a, 'q> {
    pub(super) question: &'a Question<'q>,
    pub(super) part: Part,
    /// What is saved if the part takes half as long, and the error of reruns, in ns.
    pub(super) half: i64,
    pub(super) of_graph: i64,
}

impl LateSearch<'_, '_> {
    /// What is found, each with what was found before taken away: ranks that begin later, ranks that wait in calls of their own, and those whose work takes longer. And what
    /// may be hidden.
    pub(super) fn find(&self, control: &Control) -> (Vec<LateWork>, i64) {
        let question = self.question;
        let (mut base, mut end) = (question.job.times.clone(), question.end);
        let mut found: Vec<LateWork> = Vec::new();
        let least = self.of_graph + UNSTEADY * control.unsteady as i64;
        if self.part == Part::Cpu {
            let beginners = question.late_beginners(least);
            let with_begin = |base: &Times, set: &[usize]| question.begin_as_peers(base, set);
            self.cure(Extent::Begin, &beginners, (&mut base, &mut end), least, &with_begin, &mut found);
            let calls = question.calls();
            let with_calls: Vec<usize> = (0..calls.len()).filter(|rank| !calls[*rank].is_empty()).collect();
            let cure =
                |base: &Times, set: &[usize]| question.without_calls(base, set.iter().flat_map(|rank| &calls[*rank]));
            self.cure(Extent::Calls, &with_calls, (&mut base, &mut end), least, &cure, &mut found);
        }
        let mut hidden = 0;
        let (first_base, first_end) = (base.clone(), end);
        let mut settling = Settling::default();
        let mut ranks = question.peers.with_peers();
        let mut again = (!found.is_empty()).then(|| Control::new(question, &base, 0));
        let rounds = match question.job.nodes.len() {
            nodes if nodes <= SMALL => MOST_ROUNDS,
            nodes if nodes <= LARGE_JOB => ROUNDS,
            _ => 1,
        };
        for round in 0..rounds {
            let control = again.as_ref().unwrap_or(control);
            let LateSearch { part, half, of_graph, .. } = *self;
            let search = Search { question, part, ranks: ranks.clone(), base: &base, end, control, half, of_graph };
            let (mut standouts, here) = search.find();
            hidden = if round == 0 { here } else { hidden.max(here) };
            // Nobody is late if another rank takes longest each time; what that costs is not the set's.
            standouts.retain(|of| {
                let is_late = !self.are_in_turn(of, &base, end);
                hidden = if is_late { hidden } else { hidden.max(of.saves) };
                is_late
            });
            let Some(first) = standouts.iter().max_by_key(|of| of.saves) else { break };
            let times = self.without(&base, first);
            // What varies beside the cause shows where that is taken away.
            let mut next = Control::new(question, &times, (round + 1) * SEEDS);
            if round + 1 == rounds {
                next.forget_jobs();
            }
            let error = |of: &Standout| {
                let varies = UNSTEADY * (next.unsteady as i64).max(of.varies);
                // The largest pieces are also those that chance made larger, and a few ranks that are faster those that it made faster.
                let by_chance = match of.standing {
                    Standing::Slower => end - question.end_of(question.like_each_other(&base, &of.set, self.part)),
                    _ if of.places.is_empty() => 0,
                    _ => of.by_chance,
                };
                (self.of_graph + varies + by_chance.abs()).max(1)
            };
            let mut works: Vec<(LateWork, &Standout)> =
                standouts.iter().map(|of| (self.late_work(of, &base, end, error(of)), of)).collect();
            works.sort_by_key(|(_, of)| std::cmp::Reverse(of.saves));
            for (work, of) in works {
                settling.works.push(work);
                settling.standouts.push(of.clone());
            }
            settling.unsteady = next.unsteady as i64;
            // What else these ranks do is asked again without what they did at a few places.
            if first.places.is_empty() {
                let are_late: BTreeSet<&usize> = first.set.iter().collect();
                ranks.retain(|rank| !are_late.contains(rank));
                if standouts.len() > 1 || first.standing == Standing::Slower {
                    break;
                }
            }
            if round + 1 < rounds {
                end = question.end_of(times.clone());
                (base, again) = (times, Some(next));
            }
        }
        found.extend(self.settle(settling, &first_base, first_end));
        (found, hidden)
    }

    /// Each was found without what was found before. What several save together and none by itself is that of the fewest with nearly all of it; and what was found of
    /// the same ranks several times is one.
    fn settle(&self, settling: Settling, base: &Times, end: i64) -> Vec<LateWork> {
        let (question, Settling { works, standouts, unsteady }) = (self.question, settling);
        let (mut works, mut found): (Vec<LateWork>, Vec<LateWork>) = (works, Vec::new());
        let are_late: Vec<&Standout> = standouts.iter().filter(|of| of.standing != Standing::Slower).collect();
        let sets: BTreeSet<&Vec<usize>> = are_late.iter().map(|of| &of.set).collect();
        let saved = |set: &[usize]| end - question.end_of(question.like_peers(base.clone(), set, self.part));
        let mut set: Vec<usize> =
            sets.iter().copied().flatten().copied().collect::<BTreeSet<usize>>().into_iter().collect();
        if sets.len() > 1 {
            let joint = saved(&set);
            let alone: i64 = sets.iter().map(|set| saved(set)).sum();
            if (alone as f64) < MOST * joint as f64 {
                for rank in set.clone() {
                    let rest: Vec<usize> = set.iter().copied().filter(|of| *of != rank).collect();
                    if !rest.is_empty() && saved(&rest) as f64 >= NEARLY_ALL * joint as f64 {
                        set = rest;
                    }
                }
                let each = |rank: &usize| {
                    let of_rank = works.iter().filter(|of| of.ranks.contains(&(*rank as u32)));
                    let most = of_rank.max_by_key(|of| of.excess_ns)?;
                    Some((*rank as u32, most.culprits.first()?.name.clone()))
                };
                let each = set.iter().filter_map(each).collect();
                let of = Standout {
                    standing: Standing::Late,
                    saves: saved(&set),
                    set,
                    by_chance: 0,
                    varies: unsteady,
                    places: Vec::new(),
                };
                let error = (self.of_graph + UNSTEADY * unsteady).max(1);
                let slower = works.into_iter().zip(&standouts).filter(|(_, of)| of.standing == Standing::Slower);
                let slower: Vec<LateWork> = slower.map(|(of, _)| of).collect();
                return [LateWork { each, ..self.late_work(&of, base, end, error) }]
                    .into_iter()
                    .chain(slower)
                    .collect();
            }
        }
        for (work, of) in works.iter_mut().zip(&standouts) {
            let alone = end - question.end_of(self.without(base, of));
            if (alone as f64) < NEARLY_ALL * of.saves as f64 {
                let before = found.iter().flat_map(|of: &LateWork| of.ranks.iter().copied());
                work.after =
                    before.filter(|rank| !work.ranks.contains(rank)).collect::<BTreeSet<u32>>().into_iter().collect();
            }
            let name = |of: &LateWork| of.culprits.first().map(|of| of.name.clone());
            let is_same = |known: &&mut LateWork| {
                known.ranks == work.ranks && known.extent == work.extent && name(known) == name(work)
            };
            match found.iter_mut().find(is_same).filter(|_| work.extent == Extent::Everywhere) {
                Some(known) => known.add(work),
                None => found.push(work.clone()),
            }
        }
        found
    }

    /// Whether another rank takes longest each time: those of a set do in few steps, and without what all do so the job is far shorter than without the set's.
    fn are_in_turn(&self, of: &Standout, base: &Times, end: i64) -> bool {
        let question = self.question;
        if of.standing == Standing::Once || !of.places.is_empty() {
            return false;
        }
        let steps = question.work_by_step(self.part, base);
        let is_in = question.flags(&of.set);
        let usual = |work: &Vec<Option<i64>>| {
            let others = work.iter().zip(&is_in).filter(|(_, is_in)| !**is_in);
            let mut others: Vec<Ns> = others.filter_map(|(work, _)| work.map(Ns)).collect();
            if others.is_empty() { 0 } else { median_time(&mut others).0 }
        };
        let usual: Vec<i64> = steps.iter().map(usual).collect();
        let is_steady = |rank: &usize| {
            let of_rank = || steps.iter().zip(&usual).filter_map(|(work, usual)| Some((work[*rank]? - usual, *usual)));
            let rate = |excess: i64, usual: i64| excess as f64 / usual.max(1) as f64;
            let all = of_rank().fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
            let slow = of_rank().filter(|of| rate(of.0, of.1) >= SLOW * rate(all.0, all.1)).count();
            slow * 2 > of_rank().count()
        };
        if steps.len() < FEWEST_STEPS || of.set.iter().all(is_steady) {
            return false;
        }
        let all = question.like_peers(base.clone(), &question.peers.with_peers(), self.part);
        (of.saves as f64) < NEARLY_ALL * (end - question.end_of(all)) as f64
    }

    /// The job without what stands out.
    fn without(&self, base: &Times, of: &Standout) -> Times {
        match &of.places[..] {
            [] => self.question.like_peers(base.clone(), &of.set, self.part),
            places => self.question.at_places(base, &of.set, places),
        }
    }

    fn late_work(&self, of: &Standout, base: &Times, end: i64, error: i64) -> LateWork {
        let (question, set) = (self.question, &of.set);
        let cured = self.without(base, of);
        let places = Some(&of.places[..]).filter(|places| !places.is_empty());
        let culprits = Culprits::new(question, (set, self.part), [base, &cured], places).find(end);
        let extent = if of.standing == Standing::Once { Extent::Pieces } else { Extent::Everywhere };
        let mut work = self.work(extent, set, of.saves, error, question.by_step(base, &cured), culprits);
        work.pieces = of.places.len() as u64;
        work.are_peers_faster = of.standing == Standing::Slower;
        work.by_chance_ns = of.by_chance;
        work.excess_ns =
            set.iter().map(|rank| question.excess(*rank, self.part, base, &cured)).max().unwrap_or_default();
        work.is_proven = self.is_proven(set, [base, &cured]);
        work.as_slow = if of.standing == Standing::Late { self.as_slow(set, base) } else { Vec::new() };
        work
    }

    /// Whether the job is shorter without what a set does though ranks that are not here come no earlier.
    fn is_proven(&self, set: &[usize], [base, cured]: [&Times; 2]) -> bool {
        let Some(bound) = &self.question.bound else { return true };
        let end = |times: &Times| self.question.bounded_end(times.clone(), bound);
        let saves = end(base) - end(cured);
        let is_large = saves > 2 * self.of_graph && saves as f64 >= LEAST_SHARE * self.question.length() as f64;
        is_large && !set.iter().any(|rank| bound.minorities.contains(rank))
    }

    /// Peers that take about as much longer than the others as the set does.
    fn as_slow(&self, set: &[usize], base: &Times) -> Vec<u32> {
        let question = self.question;
        let are_late: BTreeSet<&usize> = set.iter().collect();
        let others: Vec<usize> =
            question.peers.with_peers().into_iter().filter(|rank| !are_late.contains(rank)).collect();
        if others.len() < 3 {
            return Vec::new();
        }
        let all = question.sums_of_work(self.part, base);
        let sum = |rank: usize| all[rank];
        let mut sums: Vec<i64> = others.iter().map(|rank| sum(*rank)).collect();
        let middle = sums.len() / 2;
        let usual = *sums.select_nth_unstable(middle).1;
        let least = set.iter().map(|rank| sum(*rank) - usual).min().unwrap_or_default();
        let is_as_slow = |rank: &usize| least > 0 && (sum(*rank) - usual) as f64 >= AS_SLOW * least as f64;
        others.into_iter().filter(is_as_slow).map(|rank| rank as u32).collect()
    }

    fn work(
        &self,
        extent: Extent,
        set: &[usize],
        saves: i64,
        error: i64,
        by_step: Vec<i64>,
        culprits: Vec<Culprit>,
    ) -> LateWork {
        let question = self.question;
        // Begins are compared on one clock.
        let like = |rank: usize| {
            (question.peers.alike.class[rank], (extent == Extent::Begin).then(|| question.job.clocks[rank]))
        };
        let are_late: BTreeSet<&usize> = set.iter().collect();
        let of_set: BTreeSet<_> = set.iter().map(|rank| like(*rank)).collect();
        let is_peer = |rank: &usize| !are_late.contains(rank) && of_set.contains(&like(*rank));
        LateWork {
            ranks: set.iter().map(|rank| *rank as u32).collect(),
            peers: (0..question.ranks.len()).filter(is_peer).map(|rank| rank as u32).collect(),
            part: self.part,
            extent,
            has_python: set.iter().all(|rank| question.ranks[*rank].texts.iter().any(|text| is_python(text))),
            saves_ns: saves,
            is_proven: question.bound.is_none(),
            error_ns: error,
            saves_by_step_ns: by_step,
            culprits,
            ..LateWork::default()
        }
    }

    /// What some ranks do of which no shuffled job says anything: the smallest set that has nearly all of it, if that is more than `least`.
    fn cure(
        &self,
        extent: Extent,
        rest: &[usize],
        (base, end): (&mut Times, &mut i64),
        least: i64,
        cure: &(dyn Fn(&Times, &[usize]) -> Times + Sync),
        found: &mut Vec<LateWork>,
    ) {
        let question = self.question;
        let mut rest = rest[..rest.len().min(ASKED)].to_vec();
        while let Some(set) = question.smallest(*end, &rest, least, &|set| cure(base, set)) {
            rest.retain(|rank| !set.contains(rank));
            let times = cure(base, &set);
            let saves = *end - question.end_of(times.clone());
            if saves <= least {
                break;
            }
            let by_step = question.by_step(base, &times);
            let culprits = match extent {
                Extent::Calls => question.names_of_calls(base, *end, &set),
                _ => Vec::new(),
            };
            let mut work = self.work(extent, &set, saves, least.max(1), by_step, culprits);
            work.is_proven = self.is_proven(&set, [base, &times]);
            found.push(work);
            (*base, *end) = (times, *end - saves);
        }
    }
}

/// What was found of a part, in that order, and how much the length of jobs varies without all of it, in ns.
#[derive(Default)]
struct Settling {
    works: Vec<LateWork>,
    standouts: Vec<Standout>,
    unsteady: i64,
}

impl LateWork {
    /// Adds what was found of the same work later, without this: such savings add up.
    fn add(&mut self, other: &LateWork) {
        self.pieces += other.pieces;
        self.saves_ns += other.saves_ns;
        self.excess_ns += other.excess_ns;
        self.by_chance_ns += other.by_chance_ns;
        self.error_ns = self.error_ns.max(other.error_ns);
        self.is_proven |= other.is_proven;
        self.saves_by_step_ns.iter_mut().zip(&other.saves_by_step_ns).for_each(|(sum, of)| *sum += of);
        if let (Some(first), Some(of)) = (self.culprits.first_mut(), other.culprits.first()) {
            first.saves_ns += of.saves_ns;
        }
    }
}

impl Question<'_> {
    /// By step and rank: how long its work of a part is at the places that its peers have, too; `None` if there is none.
    fn work_by_step(&self, part: Part, times: &Times) -> Vec<Vec<Option<i64>>> {
        let mut found: Vec<Vec<Option<i64>>> = Vec::new();
        for (_, members) in self.peers.places().filter(|place| place.0 == part.role()) {
            for (rank, node) in members.iter().map(|(rank, node)| (*rank as usize, *node as usize)) {
                let step = self.ranks[rank].nodes[self.job.node(node).of as usize].step;
                if let Some(step) = step.get().and_then(|step| self.peers.step(rank, step)) {
                    found.resize_with(found.len().max(step as usize + 1), || vec![None; self.ranks.len()]);
                    *found[step as usize][rank].get_or_insert(0) += self.peers.work_in(self.job, times, node);
                }
            }
        }
        found.retain(|work| work.iter().any(Option::is_some));
        found
    }

    /// Whether in many steps another rank takes longest: none does in more than half of those in which one takes far longer than the others.
    pub(super) fn is_another_each_time(&self, part: Part) -> bool {
        let longest = |work: &Vec<Option<i64>>| {
            let (most, rank) = work.iter().zip(0..).filter_map(|(work, rank)| Some(((*work)?, rank))).max()?;
            let mut all: Vec<Ns> = work.iter().filter_map(|work| work.map(Ns)).collect();
            Some((most - median_time(&mut all).0, rank))
        };
        let steps = self.work_by_step(part, &self.job.times);
        let mut longest: Vec<(i64, usize)> = steps.iter().filter_map(longest).collect();
        let least = SLOW * longest.iter().map(|(excess, _)| *excess).max().unwrap_or_default() as f64;
        longest.retain(|(excess, _)| *excess as f64 >= least && *excess > 0);
        let count = |rank: usize| longest.iter().filter(|of| of.1 == rank).count();
        longest.len() >= FEWEST_STEPS && longest.iter().all(|(_, rank)| count(*rank) * 2 <= longest.len())
    }

    /// The ranks that begin later than their peers by more than `least`, the latest first. The job cannot end earlier by more than that.
    ///
    /// Where profilers say when they began, a rank that begins later may just have been recorded later.
    fn late_beginners(&self, least: i64) -> Vec<usize> {
        if self.job.profiled_from.iter().all(Option::is_some) {
            return Vec::new();
        }
        let late = self.each_late(&self.begins(&self.job.times));
        let mut found: Vec<(i64, usize)> = self.peers.with_peers().into_iter().map(|rank| (late[rank], rank)).collect();
        found.retain(|(late, _)| *late > least);
        found.sort_by_key(|(late, rank)| (std::cmp::Reverse(*late), *rank));
        found.into_iter().map(|(_, rank)| rank).collect()
    }

    /// By rank: its calls that wait for the GPU, and that its peers do not make there. Where a peer has others of that name, both may be the same calls,
    /// which one makes elsewhere.
    fn calls(&self) -> Vec<Vec<usize>> {
        // By class and name: the calls of each rank.
        let mut found: BTreeMap<(u32, &str), BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
        for at in self.peers.alone() {
            let node = self.job.node(at);
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
            let thread = self.job.edges_into(*node).find(|edge| edge.kind == EdgeKind::Thread);
            let before =
                thread.map_or(self.job.wait(&times, *node).begin, |edge| self.job.node(edge.from as usize).time);
            times.own[*node] = times.own[*node].min((self.job.node(*node).start - before).max(0));
            self.job.change_wait(&mut times, *node, |wait| wait.is_asked = false);
        }
        times
    }

    /// The names of the calls, with what each saves.
    fn names_of_calls(&self, base: &Times, end: i64, set: &[usize]) -> Vec<Culprit> {
        let of_ranks = self.calls();
        let calls = set.iter().flat_map(|rank| &of_ranks[*rank]);
        let mut of: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for node in calls {
            let name = self.ranks[self.job.node(*node).rank as usize].name(self.job.node(*node).of);
            of.entry(name).or_default().push(*node);
        }
        let (names, calls): (Vec<&str>, Vec<Vec<usize>>) = of.into_iter().unzip();
        let ends = self.ends(calls.len(), |at| self.without_calls(base, calls[at].iter()));
        let culprit = |(name, of): (&str, i64)| Culprit {
            name: name.to_owned(),
            saves_ns: end - of,
            slower: None,
            rest_slower: None,
            instead: Instead::Nothing,
        };
        Culprit::ranked(names.into_iter().zip(ends).map(culprit))
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

    /// How much longer a rank's work of a part takes than in another run.
    fn excess(&self, rank: usize, part: Part, times: &Times, cured: &Times) -> i64 {
        self.work(rank, part).map(|node| self.peers.work_in(self.job, times, node) - cured.own[node]).sum()
    }

    /// By rank: how long its work of a part is at the places that its peers have, too.
    fn sums_of_work(&self, part: Part, times: &Times) -> Vec<i64> {
        let mut sums = vec![0; self.ranks.len()];
        for (_, members) in self.peers.places().filter(|place| place.0 == part.role()) {
            for (rank, node) in members {
                sums[*rank as usize] += self.peers.work_in(self.job, times, *node as usize);
            }
        }
        sums
    }

    /// By step: how much shorter it is in one run than in another.
    fn by_step(&self, before: &Times, after: &Times) -> Vec<i64> {
        // By step: its end in each run.
        let mut ends: Vec<Option<(i64, i64)>> = Vec::new();
        let [before, after] = self.job.reruns([before, after].map(Times::clone));
        for (rank, (graph, of_rank)) in self.ranks.iter().zip(&self.job.ends).enumerate() {
            for (node, at) in graph.nodes.iter().zip(of_rank) {
                let Some(step) = node.step.get().and_then(|step| self.peers.step(rank, step)) else { continue };
                ends.resize(ends.len().max(step as usize + 1), None);
                let times = (before.times[*at as usize], after.times[*at as usize]);
                let end = ends[step as usize].get_or_insert(times);
                *end = (end.0.max(times.0), end.1.max(times.1));
            }
        }
        let mut last = 0;
        let earlier = ends
            .into_iter()
            .map(|end| end.map_or(0, |(before, after)| before - after - std::mem::replace(&mut last, before - after)));
        earlier.collect()
    }
}
