//! Real jobs whose answer is known, recorded by PyTorch's profiler on a GPU: `testdata/README.md` says how.

use std::collections::BTreeMap;

use nccl_stacks::answers::ranks::data::{Compared, RankReport};
use nccl_stacks::answers::ranks::pipeline::Schedule;
use nccl_stacks::answers::ranks::what_if::{Also, Rule};

use super::real;
use crate::support::program::{run, stdout, testdata};

fn compared(job: &str, ranks: u32) -> Compared {
    let paths: Vec<_> = (0..ranks).map(|rank| testdata(&format!("{job}/rank{rank}.json.gz")).into()).collect();
    real::compared(&paths)
}

/// A pause of 2 ms that a real job had, in every second of its steps on rank 1 before it replayed its graph: the other steps are how long these would have
/// been without it.
#[test]
fn a_recorded_pause_costs_what_its_rerun_saves() {
    let compared = compared("pause", 2);
    let steps: Vec<i64> = compared.job.reductions[0].steps.iter().map(|step| step.window.duration().0).collect();
    assert_eq!(steps.len(), 8);
    let truth: i64 = steps.chunks(2).map(|pair| pair[0] - pair[1]).sum();
    // The GPUs get slower from step to step, so the truth has an error, too.
    let others = || steps.chunks(2).map(|pair| pair[1]);
    let varies = others().max().unwrap() - others().min().unwrap();
    let reruns = compared.report().reruns.unwrap();
    let first = &reruns.findings[0];
    assert_eq!((first.ranks.as_slice(), first.culprit().unwrap().name.as_str()), (&[1][..], "train.py(56): busy_wait"));
    let saves = first.culprit().unwrap().saves_ns;
    println!("truth {truth} +- {varies}, saves {saves} +- {}", first.error_ns);
    assert!((saves - truth).abs() <= first.error_ns + varies && first.error_ns < truth / 10, "{saves} of {truth}");
    assert!((saves - truth).abs() < truth / 20, "{saves} of {truth}");
    // Without the pause those steps are as long as the others, so the even ones alone are saved something.
    let (even, odd): (Vec<_>, Vec<_>) = first.saves_by_step_ns.iter().enumerate().partition(|(step, _)| step % 2 == 0);
    let sum = |of: Vec<(usize, &i64)>| of.iter().map(|(_, saves)| **saves).sum::<i64>();
    let (even, odd) = (sum(even), sum(odd));
    assert!(odd.abs() * 10 < even, "{even} {odd}");
}

/// The CPUs are 1,022 launches ahead, so that they wait for the GPU: only the kernels of rank 1 make the job longer, by what was measured without them.
#[test]
fn launches_that_wait_for_a_full_queue_are_no_work_of_a_cpu() {
    let compared = compared("full_queue", 2);
    let report = compared.report();
    let pace = report.pace();
    assert!(pace.is_some_and(|pace| pace.cpus < 0.001 && pace.gpus > 0.45), "{pace:?}");
    let reruns = report.reruns.unwrap();
    let [found] = &reruns.findings[..] else { panic!("{:?}", reruns.findings) };
    let culprit = found.culprit().unwrap();
    assert_eq!(found.ranks, [1]);
    assert!(culprit.name.contains("vectorized_elementwise_kernel"), "{}", culprit.name);
    let truth = 28.6e6;
    println!("truth {truth}, saves {} +- {}", culprit.saves_ns, found.error_ns);
    assert!((culprit.saves_ns as f64 - truth).abs() < 0.15 * truth, "{}", culprit.saves_ns);
    let saved = |rule: &str| {
        let answer = compared.what_if(&[Rule::parse(rule).unwrap()], Also::Nothing).unwrap().unwrap();
        answer.answers[0].saves_ns as f64 / answer.length_ns as f64
    };
    assert!(
        saved("cpus x0.5").abs() < 0.001 && saved("gpus x0.5") > 0.45,
        "{} {}",
        saved("cpus x0.5"),
        saved("gpus x0.5")
    );
}

/// The sentence about the pace is there where the GPUs set it, after what one of the ranks takes longer.
#[test]
fn the_gpus_set_the_pace_of_a_full_queue() {
    let traces = [0, 1].map(|rank| testdata(&format!("full_queue/rank{rank}.json.gz")));
    let text = stdout(&run(&["ranks", &traces[0], &traces[1]]));
    let pace = "; the GPUs set the pace: with GPUs twice as fast it would be ";
    assert!(text.contains(pace) && !text.contains("CPUs set the pace"), "{text}");
}

/// Sends and receives that PyTorch launches together, without a collective of all ranks: four stages on one clock.
#[test]
fn batched_messages_make_a_pipeline() {
    let compared = compared("pipeline", 4);
    let report: RankReport = compared.report();
    for rank in &report.ranks {
        assert!(rank.offset_ns.unwrap().0.abs() <= 20_000, "{:?} +- {:?}", rank.offset_ns, rank.uncertainty_ns);
    }
    let traces: Vec<String> = (0..4).map(|rank| testdata(&format!("pipeline/rank{rank}.json.gz"))).collect();
    let args: Vec<&str> = ["ranks"].into_iter().chain(traces.iter().map(String::as_str)).collect();
    assert!(stdout(&run(&args)).contains("\nClocks: aligned by messages between ranks.\n"));
    let found = report.pipeline.as_ref().unwrap();
    let ranks: Vec<&[u32]> = found.stages.iter().map(|stage| &stage.ranks[..]).collect();
    assert_eq!(ranks, [[0], [1], [2], [3]]);
    assert_eq!((found.microbatches, found.chunks, found.schedule, found.steps), (4.0, 1.0, Schedule::InTurn, 2));
    // The kernels, by the threads of their launches, summed from the traces: those of the main thread up to the last message, and those of the other one.
    let computed: Vec<[i64; 2]> =
        found.stages.iter().map(|of| [of.forward_ns, of.backward_ns].map(|time| time.unwrap().0)).collect();
    let by_traces = [[3_413_853, 7_173_305], [3_182_458, 7_888_656], [3_193_311, 7_958_144], [3_710_808, 8_168_620]];
    assert_eq!(computed, by_traces);
    // Four messages each way between neighbours in each of two steps; 7, 13, 11 and 5 kernels a step, and 21 from before.
    let mut messages: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for group in &compared.matches.groups {
        group.name.pair.into_iter().for_each(|pair| *messages.entry(pair).or_default() += group.collectives.len());
    }
    let pairs = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)];
    assert_eq!(messages, pairs.map(|pair| (pair, 8)).into());
    assert_eq!(report.matches.kernels, 2 * (7 + 13 + 11 + 5) + 21);
}
