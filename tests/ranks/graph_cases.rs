//! Traces whose causal graph can be written down, and jobs that were made with and without a cause, so that what they would save is known. And what holds for the graph of
//! every trace.

use std::path::Path;

use nccl_stacks::answers::ranks::data::Compared;
use nccl_stacks::operations::clocks::Clocks;
use nccl_stacks::operations::matching::Matches;
use nccl_stacks::replay::findings::{Extent, LateWork, Reruns};
use nccl_stacks::replay::job::{Edge, JobGraph, Role};
use nccl_stacks::replay::rank::{EdgeKind, NodeKind, RankGraph};
use nccl_stacks::time::Ns;
use serde_json::Value;

use super::real::{self, MERGED, PARAM, SET_A, SET_F, SET_J, parts, paths};
use super::simulated::compare;
use crate::job::{Job, Offsets, StepSync};
use crate::support::program::{run, scratch, stderr, stdout, testdata};
use crate::support::random::is_long;
use crate::support::{real_traces, shared};

/// What is said of a trace by itself, as a share of its length: a kind of the critical path, or what a rule saves.
fn shares(path: &str, rules: &[&str]) -> (Value, Vec<f64>) {
    let rank = format!("0={path}");
    let json = |args: &[&str]| -> Value {
        let output = run(&[args, &["--json", "--quiet", "--rank", &rank, path]].concat());
        serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{path}: {}", stderr(&output)))
    };
    let answer = json(&["ranks"]);
    let saved = |rule: &&str| {
        let answer = json(&["what-if", "--if", rule]);
        100.0 * answer["answers"][0]["saves_ns"].as_f64().unwrap() / answer["length_ns"].as_f64().unwrap()
    };
    let saved = rules.iter().map(saved).collect();
    (answer, saved)
}

fn kind(answer: &Value, kind: &str) -> f64 {
    let path = &answer["critical_path"];
    let kinds = path["kinds"].as_array().unwrap();
    let time = kinds.iter().find(|of| of["kind"] == kind).map_or(0.0, |of| of["path_ns"].as_f64().unwrap());
    100.0 * time / path["length_ns"].as_f64().unwrap()
}

#[track_caller]
fn assert_near(found: f64, truth: f64, within: f64, what: &str) {
    assert!((found - truth).abs() <= within, "{what}: {found:.2} for {truth}");
}

/// Ten kernels of 980 µs on one stream, a kernel of 5 µs launched later on another, and a device synchronisation, which waits for the long ones. In the control the long kernels were
/// launched last.
#[test]
fn a_device_synchronisation_waits_for_all_streams() {
    for (name, compute) in [("dev_cud", 88.6), ("dev_control", 87.2)] {
        let (answer, saved) = shares(&testdata(&format!("graph/{name}.json")), &["gpus x0.5"]);
        assert_near(kind(&answer, "compute"), compute, 1.0, name);
        assert_near(saved[0], 43.9, 1.0, name);
    }
}

/// The copy of one trace blocks in its call and starts before that returns; in the other it returns at once. Nothing else differs.
#[test]
fn a_copy_that_blocks_makes_no_other_copy_start_early() {
    for name in ["neg_with", "neg_without"] {
        let rules = ["cpus x0.5", "'preprocess.py(1): prepare' cpu x0"];
        let (_, saved) = shares(&testdata(&format!("graph/{name}.json")), &rules);
        assert_near(saved[0], 49.9, 1.0, name);
        assert_near(saved[1], 78.5, 1.0, name);
    }
}

/// Within a step the kernel waits until the GPU is done with the step before, which is idle time of the path, and no latency of its launch.
#[test]
fn what_the_gpu_still_runs_of_the_step_before_is_idle_time() {
    let text = r#"{"traceEvents": [
        {"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":0,"dur":100},
        {"ph":"X","cat":"user_annotation","name":"ProfilerStep#2","pid":1,"tid":1,"ts":100,"dur":100},
        {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":10,"dur":5,"args":{"correlation":1}},
        {"ph":"X","cat":"kernel","name":"before","pid":0,"tid":7,"ts":20,"dur":600,"args":{"correlation":1,"stream":7,"device":0}},
        {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":110,"dur":5,"args":{"correlation":2}},
        {"ph":"X","cat":"kernel","name":"after","pid":0,"tid":7,"ts":620,"dur":50,"args":{"correlation":2,"stream":7,"device":0}}
    ]}"#;
    let (_folder, path) = scratch("trace.json", text.as_bytes());
    let output = run(&[&path, "--quiet", "--json", "--sort", "critical", "--kernel-name", "*", "--step", "2"]);
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    assert_eq!(answer["critical_path_ns"], serde_json::json!({"compute": 50_000, "idle": 520_000}), "{answer}");
}

/// The job `case_mixed` waits 25 µs for a late kernel of 10 µs, and then 635 µs until the next one, which waits for the collective; each of the others has one reason.
#[test]
fn a_collective_is_exposed_stretch_by_stretch() {
    let output = run(&["ranks", "--quiet", "--json", &testdata("graph/hid")]);
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let stacks = answer["stacks"].as_array().unwrap();
    assert_eq!(stacks.len(), 6);
    for stack in stacks {
        let case = stack["headline"].as_str().unwrap();
        let share = |why: &str| {
            let of = stack["exposed_for"].as_array().unwrap().iter().filter(|of| of["why"] == why);
            let time: f64 = of.map(|of| of["exposed_ns"].as_f64().unwrap()).sum();
            100.0 * time / stack["exposed_ns"].as_f64().unwrap()
        };
        match case {
            "case_mixed" => {
                assert_near(share("waited-for"), 96.2, 0.1, case);
                assert_near(share("launched-late"), 3.8, 0.1, case);
            }
            "case_waited" => assert_near(share("waited-for"), 100.0, 0.1, case),
            _ => {
                let why = case.strip_prefix("case_").unwrap().replace('_', "-");
                assert_near(share(&why), 100.0, 0.1, case);
            }
        }
    }
}

/// What was put into a job: the ranks that are late, or those that are faster than all others, or nobody.
enum Truth {
    Late(&'static [u32]),
    Faster(&'static [u32]),
    Nobody,
}

/// Jobs that were each made with and without a cause: what it is, the function, and what the job would save, in ms.
const JOBS: [(&str, Truth, Option<&str>, f64); 19] = [
    ("a01_host8", Truth::Late(&[8, 9, 10, 11, 12, 13, 14, 15]), Some("mlp.py(50): mlp"), 3.990),
    ("a02_3of4", Truth::Faster(&[0]), Some("mlp.py(50): mlp"), 4.000),
    ("a06_nopy_late", Truth::Late(&[1]), None, 3.188),
    ("a08_mixed", Truth::Nobody, None, 0.0),
    ("a13_steps", Truth::Late(&[1]), Some("mlp.py(50): mlp"), f64::NAN),
    ("a14_none_1", Truth::Nobody, None, 0.0),
    ("a14_none_2", Truth::Nobody, None, 0.0),
    ("a14_none_3", Truth::Nobody, None, 0.0),
    ("a20_gc_once", Truth::Late(&[5]), Some("mlp.py(50): mlp"), 2.992),
    ("a21_item", Truth::Late(&[2]), Some("cudaStreamSynchronize"), 1.201),
    ("a23_slow10", Truth::Late(&[1]), None, 0.484),
    ("b02_item_step", Truth::Late(&[2]), Some("cudaStreamSynchronize"), 0.124),
    ("b03_steps_4of5", Truth::Late(&[1]), Some("mlp.py(50): mlp"), f64::NAN),
    ("b04_3of4_host", Truth::Late(&[1, 2, 3]), Some("mlp.py(50): mlp"), 2.000),
    ("c01_opt_3000", Truth::Late(&[2]), Some("optimizer.py(60): step"), 14.869),
    ("c01_opt_600", Truth::Late(&[2]), Some("optimizer.py(60): step"), 2.869),
    ("c06_opt_gpubound", Truth::Late(&[2]), Some("optimizer.py(60): step"), 7.508),
    ("d01_devsync", Truth::Late(&[2]), Some("optimizer.py(60): step"), 2.869),
    ("d05_devsync_slow", Truth::Late(&[2]), None, 1.489),
];

/// The first finding is what was put into the job, and saves what the job without it is shorter by.
#[test]
fn what_was_put_into_a_job_is_found() {
    let Some(shared) = shared() else { return };
    let mut wrong = Vec::new();
    for (name, truth, function, saving) in JOBS {
        let path = shared.join("cases/graph/jobs").join(name);
        let reruns = real::compared(&paths_in(&path)).report().reruns.unwrap();
        let first = reruns.findings.first();
        let is_set = match &truth {
            Truth::Late(ranks) => first.is_some_and(|of| of.ranks == *ranks && !of.are_peers_faster),
            Truth::Faster(ranks) => first.is_some_and(|of| of.peers == *ranks && of.are_peers_faster),
            Truth::Nobody => first.is_none(),
        };
        let named = first.and_then(LateWork::culprit).map(|of| of.name.as_str());
        let saves = first.map_or(0.0, |of| of.saves_ns as f64 / 1e6);
        let error = first.map_or(0.0, |of| of.error_ns as f64 / 1e6);
        // The calls of `.item()` are given without the copies that they wait for.
        let within = if first.is_some_and(|of| of.extent == Extent::Calls) { 0.08 } else { 0.03 };
        let is_saved = saving.is_nan() || (saves - saving).abs() <= (within * saving).max(0.001);
        // That one rank is faster than three is compared with that one alone, whose chance is the job's: here 33 µs in 5 steps.
        let chance = if matches!(truth, Truth::Faster(_)) { 0.034 } else { 0.013 };
        let is_in_error = saving.is_nan() || (saves - saving).abs() <= error.max(chance);
        println!("{name}: {is_set} {named:?} {saves:.3} ± {error:.3} for {saving:.3}");
        if !(is_set && named == function && is_saved && is_in_error) {
            wrong.push((name, named.map(str::to_owned), saves, error));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

fn paths_in(folder: &Path) -> Vec<std::path::PathBuf> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<std::path::PathBuf> =
        files.filter(|path| path.to_str().is_some_and(|path| path.contains(".json"))).collect();
    files.sort();
    files
}

/// The graph of a rank by itself.
fn alone(graph: &RankGraph) -> JobGraph {
    JobGraph::join(&[graph], &Matches::default(), &Clocks::given(&[Ns::ZERO]))
}

/// How long calls of a rank were blocked until work ended, and how many.
fn blocked(graph: &RankGraph) -> (i64, i64) {
    let mut found = (0, 0);
    for (node, edges) in graph.nodes.iter().zip(graph.edges.iter()).filter(|(node, _)| node.kind == NodeKind::Blocked) {
        let ends = edges.iter().filter(|edge| edge.kind == EdgeKind::Blocked);
        if let Some(end) = ends.map(|edge| graph.nodes[edge.from as usize].end).max() {
            found = (found.0 + (end - node.start).0.max(0), found.1 + 1);
        }
    }
    found
}

/// A job in which GPUs and collectives take no time, and no work starts later than its launch.
fn free(job: &JobGraph) -> JobGraph {
    let mut found = JobGraph::default();
    for (at, node) in job.nodes.iter().enumerate() {
        let is_free = matches!(node.role, Role::Gpu | Role::Alone | Role::Transfer | Role::Arrival);
        let time = |time: i64| if is_free { 0 } else { time };
        let edges = job.edges_into(at).map(|edge| Edge { least: time(edge.least), ..edge });
        found.push(node, time(job.times.own[at]), time(job.nodes.extra(at)), edges);
    }
    found
}

/// What holds for the graph of any rank.
#[track_caller]
fn assert_sound(name: &str, graph: &RankGraph) {
    let job = alone(graph);
    let edges = (0..job.nodes.len()).flat_map(|at| job.edges_into(at));
    let least = edges.map(|edge| edge.least).min().unwrap_or_default();
    assert!(least >= 0, "{name}: a least latency of {least} ns");
    let recorded: Vec<i64> = job.nodes.iter().map(|node| node.time).collect();
    assert_eq!(job.rerun(job.times.clone()).times, recorded, "{name}");
    let Some(start) = job.nodes.iter().map(|node| node.start).min() else { return };
    let end = recorded.iter().copied().max().unwrap();
    let free = free(&job);
    let saves = end - free.rerun(free.times.clone()).end;
    let (blocked, calls) = blocked(graph);
    let least = blocked - 10_000 * calls - (end - start) / 1000;
    println!("{name}: {saves} ns are saved of {} ns, {blocked} ns of {calls} calls are blocked", end - start);
    assert!(saves >= least, "{name}: {saves} ns are saved, and {blocked} ns of {calls} calls blocked");
}

/// Without GPUs a job is shorter by all that its threads were blocked, but for a wake-up each. So a call that waited has the edge for which it did.
#[test]
fn without_gpus_nothing_is_blocked() {
    for sync in [StepSync::Stream, StepSync::Device, StepSync::Event, StepSync::Item, StepSync::PinnedItem] {
        let job = Job { tp: 4, sync: Some(sync), offsets: Offsets::None, ..Job::default() };
        for (rank, of) in compare(&job.make()).job.reductions.iter().enumerate() {
            assert_sound(&format!("{sync:?}, rank {rank}"), &of.graph);
        }
    }
    let Some(shared) = shared() else { return };
    let mut count = 0;
    for (name, path) in real_traces(&shared) {
        for part in parts(&path).iter().filter(|part| !part.graph.is_empty()) {
            assert_sound(&name, &part.graph);
            count += 1;
        }
    }
    assert!(count >= if is_long() { 18 } else { 15 }, "{count}");
}

/// Four ranks of a decode loop, whose GPUs are busy from 3.3 ms on, with gaps of no more than 23 µs: they wait in four synchronisations each, 46.6 ms in all, and what sets their pace is
/// their GPUs.
#[test]
fn a_loop_that_its_gpus_hold_is_not_its_cpus() {
    let Some(shared) = shared() else { return };
    let all: Vec<_> = paths(&shared, SET_F).iter().flat_map(|path| parts(path)).collect();
    let blocked: i64 = all.iter().map(|part| blocked(&part.graph).0).sum();
    assert_near(blocked as f64 / 1e6, 46.6, 0.5, "ms blocked");
    let reruns = real::compared(&paths(&shared, SET_F)).report().reruns.unwrap();
    let share = |saves: i64| 100.0 * saves as f64 / reruns.length_ns as f64;
    // The GPUs hold it until they take as long as the CPUs, which without waiting is 56.9 of 68.3 ms.
    assert_near(share(reruns.gpus_twice_as_fast_saves_ns), 16.7, 1.0, "GPUs twice as fast");
    assert!(
        share(reruns.cpus_twice_as_fast_saves_ns) < 3.0 && share(reruns.both_twice_as_fast_saves_ns) > 35.0,
        "{reruns:?}"
    );
}

/// What is named where some ranks are missing, judged by all of them.
struct Claims {
    /// How many sets of ranks have a finding, which are named, and how many of these are late with all ranks here: they save more than half of what is said, or 1 % of the
    /// job.
    claims: usize,
    named: usize,
    right: usize,
    /// Savings that are said as at most, and are more with all ranks.
    beyond: usize,
}

fn claims(set: &[nccl_stacks::answers::ranks::reduction::RankReduction]) -> Claims {
    let of = |ranks: Vec<_>| Compared::from_reductions(ranks, nccl_stacks::operations::clocks::ClockMode::Align).ok();
    let whole = of(set.to_vec()).unwrap();
    let truth = |finding: &LateWork| {
        let ranks: Vec<String> = finding.ranks.iter().map(u32::to_string).collect();
        let part = if format!("{:?}", finding.part) == "Cpu" { "cpu" } else { "gpu" };
        let rule = format!("ranks {} {part} like peers", ranks.join(","));
        let rule = nccl_stacks::answers::ranks::what_if::Rule::parse(&rule).unwrap();
        whole.what_if(&[rule], nccl_stacks::answers::ranks::what_if::Also::Nothing).unwrap().unwrap().answers[0]
            .saves_ns
    };
    let length = whole.report().reruns.map_or(i64::MAX, |of| of.length_ns);
    let mut found = Claims { claims: 0, named: 0, right: 0, beyond: 0 };
    for chosen in 1_usize..(1 << set.len()) - 1 {
        if chosen.count_ones() < 2 {
            continue;
        }
        let some = set.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1).map(|(_, of)| of.clone()).collect();
        let Some(compared) = of(some) else { continue };
        let report = compared.report();
        assert!(report.absent.is_some(), "{chosen:b}: nobody is missing");
        let Some(reruns) = report.reruns.filter(|of: &Reruns| !of.are_useless()) else { continue };
        for finding in reruns.findings.iter().filter(|of| !of.are_peers_faster && of.extent != Extent::Begin) {
            let with_all = truth(finding);
            found.claims += 1;
            found.beyond += usize::from(with_all > finding.saves_ns + finding.error_ns);
            if finding.is_proven {
                found.named += 1;
                found.right += usize::from(with_all * 2 > finding.saves_ns || with_all * 100 >= length);
                println!(
                    "{chosen:b}: {:?} {:?} {} of {}: {with_all}",
                    finding.ranks, finding.part, finding.saves_ns, finding.error_ns
                );
            }
        }
    }
    found
}

/// Of all sets of some of a job's ranks: who is named, and is it so with all of them?
#[test]
fn what_is_said_of_some_ranks_holds_with_all() {
    let Some(shared) = shared() else { return };
    let mut wrong = 0;
    let sets = [("A", SET_A), ("HPC", MERGED), ("param", PARAM), ("F", SET_F), ("J", SET_J)];
    for (name, pattern) in sets.into_iter().take(if is_long() { 5 } else { 3 }) {
        let set: Vec<_> = paths(&shared, pattern).iter().flat_map(|path| parts(path)).collect();
        // Of eight ranks three of each four, and by day one of two, which is enough to see.
        let most = if is_long() { 6 } else { 4 };
        let set = if set.len() > most { set[..most].to_vec() } else { set };
        let Claims { claims, named, right, beyond } = claims(&set);
        println!(
            "{name}: {claims} findings, {named} named, {right} of them right, {beyond} savings are more with all ranks"
        );
        wrong += named - right;
    }
    // A rank that is named is not found with all where one that is missing is as late.
    assert!(wrong <= 2, "{wrong} are named that are not late with all ranks");
}
