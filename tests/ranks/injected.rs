//! Causes put into real traces: one function of one rank takes longer once, or in each interval, or a rank's CPU or a kernel is slower, and everything that waits for it moves, as
//! the causal graph says. The answer has to name the ranks, and how much longer the job is for it.

use std::collections::HashMap;

use nccl_stacks::answers::ranks::data::Compared;
use nccl_stacks::answers::ranks::reduction::RankReduction;
use nccl_stacks::operations::clocks::ClockMode;
use nccl_stacks::replay::findings::LateWork;
use nccl_stacks::replay::job::{JobGraph, Role};
use nccl_stacks::replay::peers::Peers;
use nccl_stacks::replay::rank::{NodeKind, RankGraph};
use nccl_stacks::time::{Ns, Window};

use super::real::{MERGED, SET_A, SET_F, SET_F_COMPAT, SET_J, compared, paths};
use super::simulated::pick;
use crate::support::random::is_long;
use crate::support::shared;

const PAUSE: i64 = 2_000_000;

/// A pause: on a rank, before a node of its graph, in a function.
struct Pause {
    rank: usize,
    node: usize,
    function: u32,
}

/// A pause at random, where the rank takes about as long as its peers, also in the function that takes longest there.
fn choose(compared: &Compared, seed: u64) -> Pause {
    let graphs = graphs(compared);
    let job = JobGraph::join(&graphs, &compared.matches, &compared.clocks);
    let peers = Peers::find(&job, &graphs, &compared.matches);
    let rank = pick(seed, 1, &(0..graphs.len()).collect::<Vec<_>>());
    let graph = graphs[rank];
    // How long the ranks are in a function in the same interval.
    let times = |function: u32, interval: u32| {
        let place = peers.alike.interval_of[rank][interval as usize];
        let time = |other: usize| {
            let at = peers.alike.interval_of[other].iter().position(|of| *of == place)?;
            let functions = &graphs[other].intervals[at].functions;
            let name = &graph.texts[function as usize];
            functions.iter().find(|(text, _)| graphs[other].texts[*text as usize] == *name).map(|(_, time)| time.0)
        };
        (0..graphs.len()).map(time).collect::<Option<Vec<i64>>>()
    };
    let function = |node: usize| {
        let interval = graph.nodes[node].interval;
        let function = graph.intervals[interval as usize].functions.first()?.0;
        let times = times(function, interval)?;
        times.iter().all(|time| (time - times[rank]).abs() < PAUSE / 20).then_some(function)
    };
    // How much longer its work is there than the median of its peers.
    let mut excess: HashMap<u32, i64> = HashMap::new();
    for (_, members) in peers.places() {
        let work = |node: &u32| peers.work_in(&job, &job.times, *node as usize);
        for (_, own) in members.iter().filter(|(of, _)| *of as usize == rank) {
            let mut others: Vec<i64> = members.iter().filter(|(_, of)| of != own).map(|(_, of)| work(of)).collect();
            others.sort_unstable();
            let median = others[(others.len() - 1) / 2].midpoint(others[others.len() / 2]);
            excess.insert(*own, work(own) - median);
        }
    }
    let is_possible = |node: &usize| {
        let excess = excess.get(&job.ends[rank][*node]).copied().unwrap_or_default();
        graph.nodes[*node].kind == NodeKind::Launch && excess.abs() < PAUSE / 20 && function(*node).is_some()
    };
    let node = pick(seed, 2, &(0..graph.nodes.len()).filter(is_possible).collect::<Vec<_>>());
    Pause { rank, node, function: function(node).unwrap() }
}

fn graphs(compared: &Compared) -> Vec<&RankGraph> {
    compared.job.reductions.iter().map(|reduction| &reduction.graph).collect()
}

/// The ranks with the pause, and by how much the job is longer.
fn inject(compared: &Compared, pause: &Pause) -> (Vec<RankReduction>, i64) {
    let graph = &compared.job.reductions[pause.rank].graph;
    let interval = graph.nodes[pause.node].interval as usize;
    let mut longer = Longer::default();
    longer.nodes.push((pause.rank, pause.node, PAUSE));
    longer.functions.push((pause.rank, interval, pause.function, PAUSE));
    longer.put_into(compared)
}

/// Work that takes longer.
#[derive(Default)]
struct Longer {
    /// By rank and node of its graph, in ns.
    nodes: Vec<(usize, usize, i64)>,
    /// By rank, interval and function.
    functions: Vec<(usize, usize, u32, i64)>,
}

impl Longer {
    /// The ranks with it, and by how much the job is longer.
    fn put_into(&self, compared: &Compared) -> (Vec<RankReduction>, i64) {
        let graphs = graphs(compared);
        let job = JobGraph::join(&graphs, &compared.matches, &compared.clocks);
        let mut times = job.times.clone();
        for (rank, node, longer) in &self.nodes {
            times.own[job.ends[*rank][*node] as usize] += longer;
        }
        let (recorded, moved) = (job.windows(&graphs, &job.times), job.windows(&graphs, &times));
        let mut reductions = compared.job.reductions.clone();
        for (reduction, (recorded, moved)) in reductions.iter_mut().zip(recorded.iter().zip(&moved)) {
            for (node, (recorded, moved)) in reduction.graph.nodes.iter_mut().zip(recorded.iter().zip(moved)) {
                let (start, end) = (moved.start - recorded.start, moved.end - recorded.end);
                (node.start, node.end) = (node.start + start, node.end + end);
                if let NodeKind::Collective(row) = node.kind {
                    let row = &mut reduction.rows[row as usize];
                    (row.start, row.dur) = (row.start + start, row.dur + end - start);
                }
            }
        }
        for (rank, interval, function, longer) in &self.functions {
            let functions = &mut reductions[*rank].graph.intervals[*interval].functions;
            let of = functions.iter_mut().filter(|(name, _)| name == function);
            of.for_each(|(_, time)| *time += Ns(*longer));
            functions.sort_by_key(|(name, time)| (std::cmp::Reverse(*time), *name));
        }
        let end = |windows: &[Vec<Window>]| windows.iter().flatten().map(|window| window.end.0).max().unwrap();
        (reductions, end(&moved) - end(&recorded))
    }

    /// All that a rank's threads do takes longer by this share.
    fn slow_cpu(&mut self, compared: &Compared, rank: usize, share: f64) {
        let graphs = graphs(compared);
        let job = JobGraph::join(&graphs, &compared.matches, &compared.clocks);
        for (at, node) in graphs[rank].nodes.iter().enumerate().filter(|(_, node)| node.kind.is_cpu()) {
            let own = job.times.own[job.ends[rank][at] as usize];
            if job.node(job.ends[rank][at] as usize).role == Role::Cpu && own > 0 && node.end > Ns(0) {
                self.nodes.push((rank, at, (own as f64 * share) as i64));
            }
        }
        for (at, interval) in graphs[rank].intervals.iter().enumerate() {
            let longer = |(name, time): &(u32, Ns)| (rank, at, *name, (time.as_f64() * share) as i64);
            self.functions.extend(interval.functions.iter().map(longer));
        }
    }

    /// The kernel that takes longest in all takes longer by this share on a rank.
    fn slow_kernel(&mut self, compared: &Compared, rank: usize, share: f64) {
        let graph = &compared.job.reductions[rank].graph;
        let mut sums: std::collections::BTreeMap<u32, Ns> = std::collections::BTreeMap::new();
        let slices = || graph.nodes.iter().enumerate().filter(|(_, node)| node.kind == NodeKind::Slice);
        slices().for_each(|(_, node)| *sums.entry(node.name).or_default() += node.end - node.start);
        let longest = *sums.iter().max_by_key(|(_, time)| **time).unwrap().0;
        let of = slices().filter(|(_, node)| node.name == longest);
        self.nodes.extend(of.map(|(at, node)| (rank, at, ((node.end - node.start).as_f64() * share) as i64)));
    }

    /// A function takes longer by this in each interval of a rank in which it is: the one that is in most.
    fn each_time(&mut self, compared: &Compared, rank: usize, extra: i64) {
        let graph = &compared.job.reductions[rank].graph;
        let mut counts: std::collections::BTreeMap<u32, usize> = std::collections::BTreeMap::new();
        let known = |name: &u32| !graph.is_annotation(*name) && graph.texts[*name as usize] != "(outside of any slice)";
        let all = graph.intervals.iter().flat_map(|interval| &interval.functions);
        all.filter(|(name, _)| known(name)).for_each(|(name, _)| *counts.entry(*name).or_default() += 1);
        let function = *counts.iter().max_by_key(|(_, count)| **count).unwrap().0;
        let mut seen = std::collections::BTreeSet::new();
        for (at, node) in graph.nodes.iter().enumerate().filter(|(_, node)| node.kind == NodeKind::Launch) {
            let interval = node.interval as usize;
            let has = graph.intervals[interval].functions.iter().any(|(name, _)| *name == function);
            if has && seen.insert(interval) {
                self.nodes.push((rank, at, extra));
                self.functions.push((rank, interval, function, extra));
            }
        }
    }
}

/// Ten causes in each of four real jobs: the ranks are right in 95 of 100 of those whose effect can be found at all, which is above the error and above what the job says that it could hide.
#[test]
fn a_cause_in_a_real_trace_is_found() {
    let Some(shared) = shared() else { return };
    let (mut asked, mut right) = (0, 0);
    for (at, set) in [SET_A, SET_F, SET_J, MERGED].into_iter().enumerate() {
        let compared = compared(&paths(&shared, set));
        let before = compared.report().reruns.unwrap();
        let ranks = compared.job.ranks.len();
        // Each cause in two of the jobs.
        for variant in (0..10).filter(|variant| is_long() || (variant + at) % 4 == 0) {
            let rank = variant % ranks;
            let mut longer = Longer::default();
            let mut late = vec![compared.job.ranks[rank]];
            match variant / 2 {
                0 => longer.slow_cpu(&compared, rank, 0.3),
                1 => {
                    let other = (rank + 1) % ranks;
                    longer.slow_cpu(&compared, rank, 0.3);
                    longer.slow_cpu(&compared, other, 0.3);
                    late.push(compared.job.ranks[other]);
                    late.sort_unstable();
                }
                2 => longer.slow_kernel(&compared, rank, 1.0),
                3 => longer.each_time(&compared, rank, 300_000),
                _ => longer.slow_cpu(&compared, rank, 1.0),
            }
            let (reductions, effect) = longer.put_into(&compared);
            let report = Compared::from_reductions(reductions, ClockMode::Align).unwrap().report();
            let reruns = report.reruns.unwrap();
            let error = reruns.error.unwrap().of_saving(reruns.steps) * reruns.length_ns as f64;
            let is_asked = effect as f64 > error && effect > before.hidden_ns;
            let first = reruns.findings.first();
            // One job has a rank that is faster than the others by more than most of these causes, which is said before them.
            let is_right = reruns.findings.iter().any(|of| of.ranks == late);
            println!(
                "{set} {variant}: ranks {late:?}, {effect} ns longer, error {error:.0} ns, hidden {} ns: {is_asked} {is_right} {:?}",
                before.hidden_ns,
                first.map(|of| (&of.ranks, of.part, of.saves_ns, of.are_peers_faster))
            );
            (asked, right) = (asked + u32::from(is_asked), right + u32::from(is_asked && is_right));
        }
    }
    println!("of {asked} that can be found {right} are right");
    assert!(asked >= if is_long() { 20 } else { 5 } && right * 100 >= 95 * asked, "{right} of {asked}");
}

/// What is asked: of 21 pauses that make the job longer by 0.6 % or more, 19 are found: the rank, the function, and the time to 10 %. Everyday, of 9.
#[test]
fn a_pause_in_a_real_trace_is_found() {
    let Some(shared) = shared() else { return };
    let (mut asked, mut right) = (0, 0);
    let each: u32 = if is_long() { 7 } else { 2 };
    for (set, seeds) in [(SET_A, 0..), (SET_F, 100..), (SET_F_COMPAT, 200..)] {
        let compared = compared(&paths(&shared, set));
        let length = compared.report().reruns.unwrap().length_ns;
        let longer = seeds.map(|seed| choose(&compared, seed)).map(|pause| (inject(&compared, &pause), pause));
        for ((reductions, longer), pause) in
            longer.filter(|((_, longer), _)| *longer as f64 > 0.006 * length as f64).take(each as usize)
        {
            let rank = compared.job.ranks[pause.rank];
            let name = &compared.job.reductions[pause.rank].graph.texts[pause.function as usize];
            let report = Compared::from_reductions(reductions, ClockMode::Align).unwrap().report();
            let reruns = report.reruns.unwrap();
            let culprit = |of: &LateWork| of.ranks.contains(&rank).then(|| of.culprit().cloned()).flatten();
            let found = reruns.findings.iter().filter_map(culprit).find(|of| of.name == *name);
            let is_right = found.as_ref().is_some_and(|of| (of.saves_ns - longer).abs() * 10 <= longer);
            println!("{set}: rank {rank}, {name}, {longer} ns longer: {found:?} {is_right}");
            (asked, right) = (asked + 1, right + u32::from(is_right));
        }
    }
    assert!(asked == 3 * each && right * 21 >= 19 * asked, "{right} of {asked}");
}
