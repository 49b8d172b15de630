//! Why collectives are not hidden, in simulated jobs of which that is known.

use nccl_stacks::answers::ranks::data::{RankReport, StackWaits};
use nccl_stacks::answers::ranks::hidden::WhyExposed;

use super::simulated::{compare, each, pick};
use crate::job::{How, Job, KERNELS, Late, Offsets, When};
use crate::support::random::rounds;

/// A reason holds for a stack if it does for this share of the time.
const AGREES: f64 = 0.8;

/// A job whose GPUs take longer than its CPUs.
fn slow_gpus(job: Job) -> Job {
    let slow = |rank| {
        let how = How::Gpu { kernel: KERNELS[1].to_owned() };
        Late { rank, extra_ns: 400_000, how, when: When::EveryLayer }
    };
    Job { late: Some(slow(0)), also_late: (1..job.ranks()).map(slow).collect(), ..job }
}

/// By the reason that holds: a job, and the collective that is exposed for it.
fn jobs(seed: u64) -> Vec<(WhyExposed, &'static str, Job)> {
    let (tp, steps) = (pick(seed, 1, &[2, 4, 8]), pick(seed, 2, &[2, 3, 5]));
    let layers = pick(seed, 3, &[6, 8, 12]);
    let offsets = Offsets::Random { max_ns: 1_000_000 };
    let jitter_ns = pick(seed, 4, &[2_000, 10_000, 30_000]);
    let quiet = Job { tp, steps, layers, jitter_ns, offsets, seed: seed + 1, ..Job::default() };
    vec![
        // The next layer waits for the result, as an event says.
        (WhyExposed::WaitedFor, "all_reduce", slow_gpus(quiet.clone())),
        // A graph has all on one stream.
        (WhyExposed::SameStream, "all_reduce", Job { graphs: true, ..quiet.clone() }),
        // Launching takes longer than running, if ranks are not late by chance for longer than that. The last layer is followed by a call that waits.
        (WhyExposed::LaunchedLate, "all_reduce", Job { layers: 12, jitter_ns: 2_000, ..quiet.clone() }),
        // The loss is read after the only layer.
        (WhyExposed::CpuWaits, "all_reduce", Job { layers: 1, dp: 2, ..slow_gpus(Job { dp: 2, ..quiet.clone() }) }),
        // The updated parameters are gathered at the end of the step.
        (WhyExposed::NothingLeft, "all_gather", Job { tp: 1, dp: tp, ..quiet }),
    ]
}

/// The share of a stack's exposed time for which a reason holds.
fn share(stack: &StackWaits, why: WhyExposed) -> f64 {
    let of = stack.exposed_for.iter().filter(|of| of.why == why);
    of.map(|of| of.exposed_ns).sum::<nccl_stacks::time::Ns>().share_of(stack.exposed_ns).unwrap_or_default()
}

fn stack<'r>(report: &'r RankReport, collective: &str) -> &'r StackWaits {
    let has = |stack: &&StackWaits| stack.collectives.contains_key(collective);
    report.stacks.iter().filter(has).max_by_key(|stack| stack.exposed_ns).unwrap()
}

#[test]
fn the_reason_is_the_one_that_was_built_in() {
    let found = each(0..rounds(4) as u64, |seed| {
        let judge = |(why, collective, job): (WhyExposed, &str, Job)| {
            let report = compare(&job.make()).report();
            let stack = stack(&report, collective);
            (why, share(stack, why), format!("{:?} {:?}", stack.exposed_ns, stack.exposed_for))
        };
        jobs(seed).into_iter().map(judge).collect::<Vec<_>>()
    });
    let all: Vec<_> = found.iter().flat_map(|(seed, of)| of.iter().map(move |of| (seed, of))).collect();
    for (seed, (why, share, reasons)) in all.iter().filter(|(_, (_, share, _))| *share < AGREES) {
        println!("{seed}: {why:?} {share:.2}: {reasons}");
    }
    let right = all.iter().filter(|(_, (_, share, _))| *share >= AGREES).count();
    println!("of {} jobs {right} are right", all.len());
    assert!(right * 100 >= 95 * all.len(), "{right} of {}", all.len());
}
