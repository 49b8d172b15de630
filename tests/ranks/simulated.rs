//! Jobs that are simulated, so that it is known who is late and why.

use std::io::Cursor;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use nccl_stacks::answers::ranks::data::Compared;
use nccl_stacks::answers::ranks::reduce::collectives;
use nccl_stacks::answers::ranks::reduction::RankReduction;
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::input::from_reader;
use nccl_stacks::load::{LoadOptions, load_input};
use nccl_stacks::operations::clocks::ClockMode;

use crate::job::{How, Job, Late, Made, Offsets, When};
use crate::support::random::{Random, rounds};

/// What a trace is reduced to.
pub(crate) fn parts(name: &str, text: Vec<u8>) -> Vec<RankReduction> {
    let input = from_reader(name.to_owned(), None, Box::new(Cursor::new(text))).unwrap();
    let options = LoadOptions { args: ArgsWanted::OPERATIONS, ..LoadOptions::default() };
    let store = load_input(input, options, |_| {}).unwrap().store;
    collectives(name, &store)
}

pub(crate) fn compare(made: &Made) -> Compared {
    comparison(made).unwrap()
}

/// The same of jobs that may be refused.
pub(crate) fn comparison(made: &Made) -> Result<Compared, String> {
    let parts = made.traces.iter().flat_map(|(rank, text)| parts(&format!("rank{rank}.json"), text.clone())).collect();
    Compared::from_reductions(parts, ClockMode::Align).map_err(|error| error.to_string())
}

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

/// Clocks that differ by up to a second are found to 2 us, from the true offsets that the job was made with.
#[test]
fn offsets_are_recovered() {
    for seed in 0..20 {
        let made = Job { offsets: Offsets::Random { max_ns: 1_000_000_000 }, ..job(seed) }.make();
        let report = compare(&made).report();
        assert_eq!(report.clock.method, "align");
        let truth = &made.truth.per_rank;
        for (rank, of) in report.ranks.iter().zip(truth) {
            let error = rank.offset_ns.unwrap().0 - (of.offset_ns - truth[0].offset_ns);
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
            let error = rank.drift_ns_per_ms - (of.drift_ppm - truth[0].drift_ppm);
            // Over 12 s a slope that is wrong by 0.1 ns per ms is wrong by 1.2 us.
            assert!(
                error.abs() <= 0.1,
                "seed {seed}, rank {}: {} for {}",
                rank.rank,
                rank.drift_ns_per_ms,
                of.drift_ppm
            );
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
            let error = rank.waited_ns.0 - truth.waited_ns;
            assert!(error.abs() <= most, "seed {seed}, rank {}: {} for {}", rank.rank, rank.waited_ns, truth.waited_ns);
            let error = rank.caused_ns.0 - truth.caused_ns;
            assert!(
                error.abs() <= most * report.ranks.len() as i64,
                "seed {seed}, rank {}: {} for {}",
                rank.rank,
                rank.caused_ns,
                truth.caused_ns
            );
        }
    }
}
