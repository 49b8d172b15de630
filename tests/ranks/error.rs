//! How far reruns of real jobs can be trusted: by giving ranks each other's work, by graphs that lack edges, and by giving a step the work of another.

use std::collections::{BTreeMap, HashMap, HashSet};

use nccl_stacks::answers::ranks::data::Compared;
use nccl_stacks::answers::ranks::reduction::RankReduction;
use nccl_stacks::operations::clocks::ClockMode;
use nccl_stacks::replay::job::{Edge, JobGraph, Role};
use nccl_stacks::replay::peers::{Part, Peers};
use nccl_stacks::replay::rank::{EdgeKind, NodeKind, RankEdge, RankGraph};
use nccl_stacks::replay::transplant::{RerunError, of_graph};

use super::simulated::compare;
use crate::job::{How, Job, KERNELS, Late, When};
use crate::ranks::real::{MERGED, PARAM, SET_A, SET_F, SET_J, parts, paths};
use crate::support::shared;

/// The ranks of a set.
fn ranks_of(shared: &std::path::Path, set: &str) -> Vec<RankReduction> {
    paths(shared, set).iter().flat_map(|path| parts(path)).collect()
}

/// The graph of a job of these ranks, and what ranks have in common.
fn with_graph<T>(ranks: &[RankReduction], ask: impl FnOnce(&JobGraph, &[&RankGraph], &Peers) -> T) -> T {
    let compared = Compared::from_reductions(ranks.to_vec(), ClockMode::Align).unwrap();
    let graphs: Vec<&RankGraph> = compared.job.reductions.iter().map(|of| &of.graph).collect();
    let job = JobGraph::join(&graphs, &compared.matches, &compared.clocks);
    let peers = Peers::find(&job, &graphs, &compared.matches);
    ask(&job, &graphs, &peers)
}

fn error(ranks: &[RankReduction]) -> RerunError {
    with_graph(ranks, |job, graphs, peers| of_graph(job, graphs, peers, &HashMap::new()).unwrap())
}

/// Takes edges out of a graph.
type Remove = fn(&mut RankGraph);

/// What a graph may lack.
const LACKING: [(&str, Remove); 6] = [
    ("launches", |graph| without(graph, &[EdgeKind::Launch])),
    ("streams", |graph| without(graph, &[EdgeKind::Stream])),
    ("edges between streams", |graph| without(graph, &[EdgeKind::WaitEvent, EdgeKind::Unexplained])),
    ("calls that wait", |graph| without(graph, &[EdgeKind::Blocked])),
    ("threads that wake others", |graph| without(graph, &[EdgeKind::Wake])),
    ("rendezvous", |graph| {
        for node in graph.nodes.iter_mut().filter(|node| matches!(node.kind, NodeKind::Collective(_))) {
            node.kind = NodeKind::Slice;
        }
    }),
];

fn without(graph: &mut RankGraph, kinds: &[EdgeKind]) {
    let is_kept = |edge: &RankEdge| !kinds.contains(&edge.kind);
    graph.edges = graph.edges.iter().map(|edges| edges.iter().copied().filter(is_kept)).collect();
}

/// With nothing changed, reruns are exact. Giving each rank the work of another one changes the length of a step by the error of the graph; a graph that
/// does not know for what something waits has the waiting of one rank in the work of another, and errs.
#[test]
fn reruns_of_real_jobs_are_as_good_as_they_say() {
    let Some(shared) = shared() else { return };
    // The mean and the largest error of a step in percent, as measured and with some room; and what must not be missing.
    for (set, mean, max, needed) in [
        (SET_A, 0.5, 1.5, &["streams"][..]),
        (SET_F, 0.5, 1.0, &["streams"]),
        (SET_J, 0.5, 5.0, &["streams", "rendezvous"]),
        (PARAM, 0.5, 1.0, &["streams", "edges between streams", "threads that wake others"]),
        (MERGED, 0.5, 1.0, &["launches", "streams", "edges between streams", "threads that wake others"]),
    ] {
        let ranks = ranks_of(&shared, set);
        let whole = error(&ranks);
        println!("{set}: mean {:.2} %, max {:.2} %", 100.0 * whole.mean, 100.0 * whole.max);
        assert!(100.0 * whole.mean <= mean && 100.0 * whole.max <= max, "{set}: {whole:?}");
        for (what, remove) in LACKING {
            let mut lacking = ranks.clone();
            lacking.iter_mut().for_each(|rank| remove(&mut rank.graph));
            let of = error(&lacking);
            println!("    without {what}: mean {:.2} %, max {:.2} %", 100.0 * of.mean, 100.0 * of.max);
            if needed.contains(&what) {
                assert!(of.mean > 3.0 * whole.mean, "{set} without {what}: {of:?}, {whole:?}");
            }
        }
    }
}

/// Like ranks wait alike, so that ranks may be renamed in a graph that takes waiting for work. It errs where what they wait for is another's: all ranks wait
/// for their GPUs in each layer, and one has a slow kernel, without which the job is as long as the simulator says.
#[test]
fn a_graph_without_calls_that_wait_takes_waiting_for_work() {
    let waiting = |rank| Late { rank, extra_ns: 0, how: How::Sync, when: When::EveryLayer };
    let also_late: Vec<Late> = (0..4).map(waiting).collect();
    let quiet = Job { tp: 4, steps: 6, layers: 4, jitter_ns: 2_000, also_late, ..Job::default() };
    let slow =
        Late { rank: 2, extra_ns: 500_000, how: How::Gpu { kernel: KERNELS[0].to_owned() }, when: When::EveryLayer };
    let late = Job { late: Some(slow), ..quiet.clone() };
    let [quiet, late] = [quiet, late].map(|job| compare(&job.make()).job.reductions.clone());
    let end = |job: &JobGraph| job.nodes.iter().map(|node| node.time).max().unwrap();
    let start = |job: &JobGraph| job.nodes.iter().map(|node| node.start).min().unwrap();
    let length = |ranks: &[RankReduction]| with_graph(ranks, |job, _, _| end(job) - start(job));
    let saved = |ranks: &[RankReduction]| {
        let set = [false, false, true, false];
        with_graph(ranks, |job, _, peers| {
            end(job) - job.rerun(peers.like_peers(job, job.times.clone(), &set, Part::Gpu)).end
        })
    };
    let truth = length(&late) - length(&quiet);
    let mut lacking = late.clone();
    lacking.iter_mut().for_each(|rank| without(&mut rank.graph, &[EdgeKind::Blocked]));
    let (whole, without) = (saved(&late), saved(&lacking));
    println!("truth {truth} ns, by the graph {whole} ns, without calls that wait {without} ns");
    assert!((whole as f64 / truth as f64 - 1.0).abs() < 0.01, "{whole} {truth}");
    assert!(without < truth / 2, "{without} {truth}");
}

/// What each rank does in a step.
struct Step {
    /// By rank and place: its node, of a collective where it has arrived and where it ends.
    nodes: BTreeMap<(u32, u64), Vec<usize>>,
    /// From the first start to the last end, in ns.
    start: i64,
    end: i64,
}

impl Step {
    fn length(&self) -> i64 {
        self.end - self.start
    }
}

/// The graph of a step with the work of another one that does the same is as long as that one.
#[test]
fn a_step_with_the_work_of_another_is_as_long_as_that() {
    let Some(shared) = shared() else { return };
    // The mean error in percent, as measured and with some room.
    for (set, most) in [(SET_A, 1.0), (SET_F, 1.0), (SET_J, 1.0)] {
        let errors = with_graph(&ranks_of(&shared, set), |job, graphs, _| transplanted(job, graphs));
        let of = |which: fn(&(f64, f64)) -> f64| {
            let values: Vec<f64> = errors.iter().map(which).collect();
            (values.iter().sum::<f64>() / values.len() as f64, values.iter().copied().fold(0.0, f64::max))
        };
        let ((mean, max), (other, other_max)) = (of(|of| of.0), of(|of| of.1));
        println!(
            "{set}: {} pairs, by the graph mean {mean:.2} %, max {max:.2} %; as long as the other {other:.2} %, {other_max:.2} %",
            errors.len()
        );
        assert!(mean <= most && mean < other, "{set}: {errors:?}");
    }
}

fn steps(job: &JobGraph, graphs: &[&RankGraph]) -> BTreeMap<u32, Step> {
    let mut steps: BTreeMap<u32, Step> = BTreeMap::new();
    for (rank, graph) in graphs.iter().enumerate() {
        for (at, node) in graph.nodes.iter().enumerate() {
            let Some(step) = node.step.get() else { continue };
            let step = steps.entry(step).or_insert(Step { nodes: BTreeMap::new(), start: i64::MAX, end: i64::MIN });
            let [arrival, end] = [&job.arrivals, &job.ends].map(|of| of[rank][at] as usize);
            let nodes = if arrival == end { vec![end] } else { vec![arrival, end] };
            step.nodes.insert((rank as u32, node.place), nodes);
            step.start = step.start.min(job.node(arrival).start);
            step.end = step.end.max(job.node(end).time);
        }
    }
    steps
}

/// Whether two steps do the same after the same.
fn are_alike(job: &JobGraph, one: &Step, other: &Step) -> bool {
    let kinds = |node: usize| job.edges_into(node).map(|edge| edge.kind);
    let mut nodes = one.nodes.values().flatten().zip(other.nodes.values().flatten());
    one.nodes.keys().eq(other.nodes.keys()) && nodes.all(|(one, other)| kinds(*one).eq(kinds(*other)))
}

/// Of all pairs of like steps: how wrong the length of one is with the work of the other, and how wrong it is to call them equally long, in percent.
/// What a step waits for from before it comes as long after its start as in the other one.
fn transplanted(job: &JobGraph, graphs: &[&RankGraph]) -> Vec<(f64, f64)> {
    let steps = steps(job, graphs);
    let mut errors = Vec::new();
    for (number, step) in &steps {
        for like in steps.iter().filter(|(other, like)| *other != number && are_alike(job, step, like)).map(|of| of.1) {
            let is_inside: HashSet<usize> = step.nodes.values().flatten().copied().collect();
            let (mut times, mut waits) = (job.times.clone(), HashMap::new());
            for (nodes, theirs) in step.nodes.values().zip(like.nodes.values()) {
                for (at, other) in nodes.iter().zip(theirs) {
                    times.own[*at] = job.times.own[*other];
                    let (own, theirs) = (job.recorded_wait(*at), job.recorded_wait(*other));
                    let are_bound_alike = job.node(*at).binding == job.node(*other).binding;
                    job.change_wait(&mut times, *at, |wait| {
                        wait.extra = if are_bound_alike { theirs.extra } else { wait.extra };
                        wait.begin += (theirs.begin - like.start) - (own.begin - step.start);
                    });
                    for (into, (edge, same)) in job.edges_into(*at).zip(job.edges_into(*other)).enumerate() {
                        if is_inside.contains(&(edge.from as usize))
                            || job.node(edge.from as usize).role == Role::Rendezvous
                        {
                            continue;
                        }
                        let since = |from: u32, step: &Step| job.node(from as usize).time - step.start;
                        let later = since(same.from, like) - since(edge.from, step);
                        match edge.kind {
                            EdgeKind::Thread => times.own[*at] += later,
                            _ => *waits.entry((*at, into)).or_insert(0) += later,
                        }
                    }
                }
            }
            let mut changed = JobGraph::default();
            for (at, node) in job.nodes.iter().enumerate() {
                let later = |into: usize| waits.get(&(at, into)).copied().unwrap_or_default();
                let edges = job.edges_into(at).enumerate();
                let edges = edges.map(|(into, edge)| Edge { least: edge.least + later(into), ..edge });
                changed.push(node, job.times.own[at], job.nodes.extra(at), edges);
            }
            let rerun = changed.rerun(times).times;
            let predicted = step.nodes.values().flatten().map(|node| rerun[*node]).max().unwrap() - step.start;
            let off = |of: i64| 100.0 * (of - like.length()).abs() as f64 / like.length() as f64;
            errors.push((off(predicted), off(step.length())));
        }
    }
    errors
}
