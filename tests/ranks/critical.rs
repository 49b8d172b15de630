//! The critical path: its pieces add up to the job on every set of traces, and in simulated jobs it is the one that the simulator went.

use std::collections::BTreeMap;

use nccl_stacks::answers::ranks::critical::CriticalPath;
use nccl_stacks::answers::ranks::data::Compared;
use nccl_stacks::operations::clocks::ClockMode;

use super::real::{MERGED, PARAM, SET_A, SET_F, SET_F_COMPAT, compared, paths};
use super::reruns::{job, late};
use super::simulated::{each, parts, pick};
use crate::job::{Job, Made, Offsets};
use crate::support::random::rounds;
use crate::support::shared;

/// A path is right if so much of it is on the same ranks and of the same kinds as the simulator's. Where two ranks arrive within the error of their clocks,
/// either may be the last.
const SAME: f64 = 0.95;

fn sums(path: &CriticalPath, compared: &Compared) -> BTreeMap<(u32, &'static str), i64> {
    let mut sums = BTreeMap::new();
    for piece in &path.pieces {
        let kind = match piece.kind.name() {
            "CPU" => "cpu",
            "launch latency" => "launch-latency",
            name => name,
        };
        *sums.entry((compared.job.ranks[piece.rank], kind)).or_default() += piece.window.duration().0;
    }
    sums
}

/// The share of the path that is where the simulator has it.
fn same(made: &Made, clock: ClockMode) -> (f64, String) {
    let parts = made.traces.iter().flat_map(|(rank, text)| parts(&format!("rank{rank}.json"), text.clone())).collect();
    let compared = Compared::from_reductions(parts, clock).unwrap();
    let path = compared.report().critical_path.unwrap();
    assert_adds_up(&path);
    let found = sums(&path, &compared);
    let truth: i64 = made.truth.path.iter().map(|of| of.ns).sum();
    let both = made.truth.path.iter().map(|of| of.ns.min(found.get(&(of.rank, of.kind)).copied().unwrap_or_default()));
    (both.sum::<i64>() as f64 / truth as f64, format!("{:?}\n    {found:?}", made.truth.path))
}

/// Pieces follow each other; by kind, rank and line they are as long as the job.
pub(super) fn assert_adds_up(path: &CriticalPath) {
    let sums = [
        path.kinds.iter().map(|of| of.path_ns).sum::<i64>(),
        path.ranks.iter().map(|(_, time)| time).sum(),
        path.lines.iter().map(|of| of.path_ns).sum(),
        path.pieces.iter().map(|of| of.window.duration().0).sum(),
    ];
    assert_eq!(sums, [path.length_ns; 4]);
    assert!(path.lines.iter().all(|line| line.path_ns > 0 && !line.ranks.is_empty()));
}

/// Of jobs with and without something late, the share in a hundred whose path is the simulator's.
fn check(clock: ClockMode, offsets: Offsets, least: usize) {
    let found = each(0..rounds(8) as u64, |seed| {
        let quiet = job(seed);
        let how = pick(seed, 20, &["function", "kernel", "slow", "sync", "nothing"]);
        let late = (how != "nothing").then(|| late(seed, how));
        let with = Job { graphs: quiet.graphs && how != "sync", late, path: true, offsets, ..quiet };
        (same(&with.make(), clock), with)
    });
    for (seed, ((_, sums), job)) in found.iter().filter(|(_, ((share, _), _))| *share < SAME) {
        println!("{seed}: {job:?}\n    {sums}");
    }
    let mut shares: Vec<f64> = found.iter().map(|(_, ((share, _), _))| *share).collect();
    shares.sort_by(f64::total_cmp);
    let right = shares.iter().filter(|share| **share >= SAME).count();
    println!(
        "{clock:?}: of {} paths {right} are right; the least {:.3?}",
        shares.len(),
        &shares[..shares.len().min(10)]
    );
    // One of a few is more than the share that may be wrong.
    assert!(right * 100 >= least * shares.len() || right + 1 >= shares.len(), "{right} of {}", shares.len());
}

/// The sets of real traces.
#[test]
fn paths_of_real_jobs_add_up() {
    let Some(shared) = shared() else { return };
    for set in [SET_A, SET_F, SET_F_COMPAT, PARAM, MERGED] {
        let report = compared(&paths(&shared, set)).report();
        let path = report.critical_path.unwrap();
        assert_adds_up(&path);
        assert_eq!(path.length_ns, report.reruns.unwrap().length_ns, "{set}");
        // Nothing saves more than there is, up to what calls that wait take themselves.
        for line in path.lines.iter().filter(|line| line.without_it_saves_ns.is_some()) {
            assert!(line.without_it_saves_ns.unwrap() <= path.length_ns, "{set}: {line:?}");
        }
    }
}

#[test]
fn the_path_is_the_one_that_the_simulator_went() {
    check(ClockMode::Trust, Offsets::None, 99);
}

/// Clocks that have to be aligned first are known to a microsecond or two, and where two ranks arrive at once either may seem to be the last.
#[test]
fn the_path_is_found_with_aligned_clocks() {
    check(ClockMode::Align, Offsets::Random { max_ns: 1_000_000 }, 97);
}
