//! Jobs that are simulated, so that it is known who is late and why.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::Cursor;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use nccl_stacks::analysis::stacks::StackOptions;
use nccl_stacks::attribution::Attributor;
use nccl_stacks::attribution::capture::Captured;
use nccl_stacks::attribution::launches;
use nccl_stacks::attribution::selection::{Wanted, choose};
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::input::from_reader;
use nccl_stacks::load::{LoadOptions, load_input};
use nccl_stacks::operations::clocks::ClockMode;
use nccl_stacks::ranks::cause::Pattern;
use nccl_stacks::ranks::reduce::reduce;
use nccl_stacks::ranks::reduction::RankReduction;
use nccl_stacks::ranks::report::{Compared, RankReport};
use nccl_stacks::ranks::verdict::Reason;
use nccl_stacks::time::Window;

use crate::job::{How, Job, KERNELS, Late, Made, Offsets, When};
use crate::support::random::{Random, rounds};

/// What a trace is reduced to.
pub(crate) fn parts(name: &str, text: Vec<u8>) -> Vec<RankReduction> {
    let input = from_reader(name.to_owned(), None, Box::new(Cursor::new(text))).unwrap();
    let options = LoadOptions { args: ArgsWanted::OPERATIONS, ..LoadOptions::default() };
    let store = load_input(input, options, |_| {}).unwrap().store;
    let wanted = Wanted::collectives();
    let launches = launches::find(&store, &choose(&store, &wanted));
    let attributor = Attributor::new(&store, &wanted, Captured::default());
    reduce(name, attributor, &launches, Window::ALL, &StackOptions::default())
}

pub(crate) fn compare(made: &Made) -> Compared {
    let parts = made.traces.iter().flat_map(|(rank, text)| parts(&format!("rank{rank}.json"), text.clone())).collect();
    Compared::from_reductions(parts, ClockMode::Align).unwrap()
}

/// How many jobs of each kind.
fn jobs() -> u64 {
    rounds(40) as u64
}

/// In so many of a hundred the answer must be the truth.
const RIGHT: u64 = 95;

/// A number that depends on a seed alone.
pub(crate) fn pick<T: Clone>(seed: u64, salt: u64, from: &[T]) -> T {
    let mut random = Random(seed.wrapping_mul(1_000_003).wrapping_add(salt));
    from[random.below(from.len())].clone()
}

/// A small job, different for each seed.
fn job(seed: u64) -> Job {
    let (tp, dp) = pick(seed, 1, &[(2, 1), (4, 1), (3, 1), (2, 2), (4, 2)]);
    let offsets = Offsets::Random { max_ns: pick(seed, 2, &[0, 1_000, 1_000_000, 1_000_000_000]) };
    Job { tp, dp, steps: pick(seed, 3, &[3, 4, 5]), layers: pick(seed, 4, &[4, 6, 8]), offsets, seed, ..Job::default() }
}

/// What each seed gives, on two threads.
pub(crate) fn each<T: Send>(seeds: std::ops::Range<u64>, of: impl Fn(u64) -> T + Sync) -> Vec<(u64, T)> {
    let next = AtomicU64::new(seeds.start);
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let result = of(seed);
                    found.lock().unwrap().push((seed, result));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap();
    found.sort_by_key(|(seed, _)| *seed);
    found
}

/// For how many seeds something holds, and the seeds for which it does not.
fn count(holds: impl Fn(u64) -> Result<(), String> + Sync) -> (u64, Vec<String>) {
    let found = each(0..jobs(), holds).into_iter();
    let wrong: Vec<String> = found.filter_map(|(seed, held)| Some(format!("seed {seed}: {}", held.err()?))).collect();
    (jobs() - wrong.len() as u64, wrong)
}

/// Whether the first rank that is blamed is this one, and the first thing that is blamed there.
fn blames(report: &RankReport, rank: u32, name: &str) -> Result<(), String> {
    let verdict = report.verdict();
    let first = verdict.blamed.first().ok_or("nobody is blamed")?;
    let named = match first.reason {
        Reason::Launch(launch) => launch.excess.parts.first(),
        Reason::Gpu { kernels, .. } => kernels.first(),
        _ => None,
    };
    match named {
        Some(named) if first.rank == rank && named.name == name => Ok(()),
        named => Err(format!("rank {} is blamed, not {rank}: {named:?}, {:?}", first.rank, report.late_ranks)),
    }
}

#[test]
fn time_in_a_function_of_one_rank_is_found() {
    let (right, wrong) = count(|seed| {
        let job = job(seed);
        let functions = [
            "mlp.py(50): mlp",
            "attention.py(30): attention",
            "data.py(7): prepare_batch",
            "lora.py(12): prepare_lora_batch",
        ];
        let function = pick(seed, 5, &functions);
        let rank = pick(seed, 6, &(0..job.ranks()).collect::<Vec<_>>());
        let when = pick(seed, 7, &[When::EveryStep, When::EveryLayer, When::Once { step: 1 }]);
        let extra_ns = match when {
            When::Once { .. } => pick(seed, 8, &[1_000_000, 3_000_000]),
            _ => pick(seed, 8, &[100_000, 300_000, 1_000_000]),
        };
        let late = Some(Late { rank, extra_ns, how: How::Cpu { function: function.to_owned() }, when });
        let made = Job { late, ..job }.make();
        blames(&compare(&made).report(), rank, function)
    });
    let jobs = jobs();
    println!("{right} of {jobs}; not: {wrong:#?}");
    assert!(right * 100 >= RIGHT * jobs, "{right} of {jobs}: {wrong:#?}");
}

#[test]
fn time_in_a_kernel_of_one_rank_is_found() {
    let (right, wrong) = count(|seed| {
        let job = job(seed);
        let kernel = pick(seed, 5, KERNELS);
        let rank = pick(seed, 6, &(0..job.ranks()).collect::<Vec<_>>());
        let when = pick(seed, 7, &[When::EveryStep, When::EveryLayer, When::Once { step: 1 }]);
        let extra_ns = match when {
            When::Once { .. } => pick(seed, 8, &[2_000_000, 4_000_000]),
            _ => pick(seed, 8, &[200_000, 500_000, 1_000_000]),
        };
        let late = Some(Late { rank, extra_ns, how: How::Gpu { kernel: kernel.to_owned() }, when });
        let made = Job { late, ..job }.make();
        blames(&compare(&made).report(), rank, kernel)
    });
    let jobs = jobs();
    println!("{right} of {jobs}; not: {wrong:#?}");
    assert!(right * 100 >= RIGHT * jobs, "{right} of {jobs}: {wrong:#?}");
}

#[test]
fn nobody_is_blamed_for_chance() {
    let (right, wrong) = count(|seed| {
        let made = job(seed).make();
        let compared = compare(&made);
        let report = compared.report();
        match report.verdict().blamed.first() {
            None => Ok(()),
            Some(blame) => Err(format!("{blame:?}")),
        }
    });
    let jobs = jobs();
    println!("{right} of {jobs}; not: {wrong:#?}");
    assert!(right * 100 >= RIGHT * jobs, "{right} of {jobs}: {wrong:#?}");
}

/// Clocks that differ by up to a second are found to 2 us, from the true offsets that the job was made with.
#[test]
fn offsets_are_recovered() {
    for seed in 0..20 {
        let made = Job { offsets: Offsets::Random { max_ns: 1_000_000_000 }, ..job(seed) }.make();
        let report = compare(&made).report();
        assert_eq!(report.clock.method, "align");
        let truth = &made.truth.per_rank;
        for (rank, of) in report.ranks.iter().zip(truth) {
            let error = rank.offset.unwrap().0 - (of.offset_ns - truth[0].offset_ns);
            assert!(error.abs() <= 2_000, "seed {seed}, rank {}: off by {error} ns", rank.rank);
        }
        let matches = &report.matches;
        assert_eq!(matches.matched, matches.kernels, "seed {seed}: {matches:?}");
    }
}

/// Over 12 s with clocks that run up to 20 us a second apart, every end is aligned to 2 us: slopes are earned there.
#[test]
fn drift_is_recovered() {
    for seed in 0..4 {
        let job = Job { tp: 4, dp: 1, steps: 24, drift_ppm: 20.0, length_ns: 12_000_000_000, ..job(seed) };
        let made = Job { offsets: Offsets::Random { max_ns: 1_000_000_000 }, ..job }.make();
        let report = compare(&made).report();
        let truth = &made.truth.per_rank;
        for (rank, of) in report.ranks.iter().zip(truth) {
            // 1 ppm is 1 ns per ms.
            let error = rank.drift - (of.drift_ppm - truth[0].drift_ppm);
            // Over 12 s a slope that is wrong by 0.1 ns per ms is wrong by 1.2 us.
            assert!(error.abs() <= 0.1, "seed {seed}, rank {}: {} for {}", rank.rank, rank.drift, of.drift_ppm);
        }
        let p95 = report.clock.residual.residual_p95_ns.unwrap();
        assert!(p95.0 <= 2_000, "seed {seed}: {p95} ns");
        assert!(report.clock.unsteady_ranks.is_empty());
    }
}

/// One lost kernel of some 400 costs the row that it was in, and nothing else.
#[test]
fn a_lost_kernel_costs_one_collective() {
    for (seed, graphs) in (0..rounds(6) as u64).flat_map(|seed| [(seed, false), (seed, true)]) {
        let whole = Job { tp: 4, dp: 1, steps: 5, layers: 20, graphs, ..job(seed) };
        let made = Job { lose: 1, ..whole }.make();
        let report = compare(&made).report();
        println!("{:?} {:?}", report.refused, made.truth.lost);
        let matches = &report.matches;
        let all: usize = made.truth.per_rank.len() * 100;
        assert_eq!(matches.kernels as usize, all - 1, "seed {seed} {graphs}: {matches:?}");
        assert_eq!((matches.partial, matches.matched), (3, matches.kernels - 3), "seed {seed} {graphs}: {matches:?}");
        assert!(matches.mismatched.is_empty() && matches.unmatched.is_empty(), "seed {seed}: {matches:?}");
    }
}

/// What ranks waited is what the simulation says, but for how sharply ends agree.
#[test]
fn waiting_is_the_truth() {
    for seed in 0..20 {
        let late = Late { rank: 1, extra_ns: 400_000, how: How::SlowCpu { factor: 1.3 }, when: When::EveryStep };
        let made = Job { late: Some(late), ..job(seed) }.make();
        let report = compare(&made).report();
        for (rank, truth) in report.ranks.iter().zip(&made.truth.totals) {
            // Each collective's clock error is below 2 us.
            let most = rank.kernels as i64 * 2_000;
            let error = rank.waited.0 - truth.waited_ns;
            assert!(error.abs() <= most, "seed {seed}, rank {}: {} for {}", rank.rank, rank.waited, truth.waited_ns);
            let error = rank.caused.0 - truth.caused_ns;
            assert!(
                error.abs() <= most * report.ranks.len() as i64,
                "seed {seed}, rank {}: {} for {}",
                rank.rank,
                rank.caused,
                truth.caused_ns
            );
        }
    }
}

/// A profile of three steps has what happens in each twice, since the first launch ends no segment: it is unknown what was before. That is
/// not one event.
#[test]
fn what_happens_twice_is_not_one_event() {
    let mut wrong = Vec::new();
    for seed in 0..40 {
        let how = How::Cpu { function: "mlp.py(50): mlp".to_owned() };
        let late = Late { rank: seed as u32 % 4, extra_ns: 300_000, how, when: When::EveryStep };
        let job = Job { tp: 4, dp: 1, steps: 3, layers: 3, late: Some(late), ..job(seed) };
        let report = compare(&job.make()).report();
        let pattern = report.late_ranks.first().and_then(|late| Some(late.launch.as_ref()?.pattern));
        let named = blames(&report, seed as u32 % 4, "mlp.py(50): mlp");
        if pattern != Some(Pattern::SamePlace) || named.is_err() {
            wrong.push(format!("seed {seed}: {pattern:?}, {named:?}"));
        }
    }
    println!("{} of 40 are wrong: {wrong:#?}", wrong.len());
    assert!(wrong.is_empty(), "{} of 40: {wrong:#?}", wrong.len());
}
