//! The clocks of simulated jobs, whose truth is known: many groups on many hosts, whose clocks are far apart and drift.

use nccl_stacks::answers::ranks::data::Compared;
use nccl_stacks::time::Ns;

use super::simulated::{comparison, each, pick};
use crate::job::{How, Job, KERNELS, Late, Offsets, Truth, When};
use crate::support::random::{is_long, rounds};

/// Tensor, pipeline, data and expert parallel ranks.
const LAYOUTS: &[(u32, u32, u32, u32)] = &[
    (2, 1, 1, 1),
    (4, 1, 1, 1),
    (8, 1, 1, 1),
    (2, 1, 2, 1),
    (4, 1, 2, 2),
    (1, 1, 8, 1),
    (1, 1, 8, 4),
    (2, 2, 2, 1),
    (4, 2, 2, 2),
    (1, 4, 2, 1),
    (8, 1, 2, 1),
    (4, 1, 4, 4),
];

const LARGE: &[(u32, u32, u32, u32)] = &[
    (4, 4, 4, 1),
    (8, 1, 8, 1),
    (8, 2, 4, 2),
    (1, 1, 64, 8),
    (8, 4, 4, 4),
    (8, 2, 16, 8),
    (8, 1, 32, 4),
    (4, 8, 8, 1),
];

/// A job, different for each seed. Of some, one kernel in a hundred is lost, and one trace ends early.
fn job(seed: u64) -> Job {
    let is_large = seed % 8 == 7;
    let (tp, pp, dp, ep) = pick(seed, 1, if is_large { LARGE } else { LAYOUTS });
    let ranks = tp * pp * dp;
    let hosts = pick(seed, 2, &[1, 2, 4, 8, 16, 32]).min(ranks);
    let job = Job { tp, pp, dp, ep, hosts, seed, ..Job::default() };
    let steps = pick(seed, 3, if is_large { &[4, 6] } else { &[6, 10, 16] });
    let layers = pick(seed, 4, &[2, 4, 6]);
    let graphs = pick(seed, 5, &[false, false, true]);
    let arguments = pick(seed, 6, &[true, false]);
    let offsets = Offsets::Random { max_ns: pick(seed, 7, &[0, 1_000_000, 1_000_000_000]) };
    let drift_ppm = pick(seed, 8, &[0.0, 2.0, 20.0, 50.0]);
    let length_ns = pick(seed, 9, &[1, 5, 20, 100, 300]) * 1_000_000_000;
    let jitter_ns = pick(seed, 13, &[2_000, 10_000, 50_000]);
    let of_step = if tp > 1 { layers } else { 0 } + if dp > 1 { 2 } else { 0 } + if ep > 1 { 2 * layers } else { 0 };
    let lose = pick(seed, 10, &[0, ranks * steps * of_step / 100]);
    let cut = pick(seed, 11, &[None, Some((ranks - 1, pick(seed, 12, &[0.5, 0.8])))]);
    Job { steps, layers, graphs, arguments, offsets, drift_ppm, length_ns, jitter_ns, lose, cut, ..job }
}

/// What the clock of a rank shows at a true time.
fn shown(truth: &Truth, rank: usize, time: i64) -> i64 {
    let of = &truth.per_rank[rank];
    time + of.offset_ns + (time as f64 * of.drift_ppm / 1e6).round() as i64
}

/// When every job starts on its own clock.
const START: i64 = 1_759_300_374_000_000_000;

/// How the clocks of a job are found.
#[derive(Default, Debug)]
struct Outcome {
    /// Why the job is not compared, or a rank is left out.
    refused: Option<String>,
    /// How many ranks have a clock, and of how many the offset is within what is printed.
    ranks: usize,
    within: usize,
    /// The greatest error in the middle of a rank's trace, and what is printed there, in ns.
    worst: (i64, i64),
    /// Ranks of a group of several without a clock.
    apart: usize,
    /// Inferred groups that are none of the job's.
    invented: Vec<Vec<u32>>,
    blamed: Option<u32>,
}

fn outcome(job: &Job) -> Outcome {
    let made = job.make();
    let compared = match comparison(&made) {
        Ok(compared) => compared,
        Err(error) => return Outcome { refused: Some(error), ..Outcome::default() },
    };
    let mut outcome = Outcome {
        ranks: compared.clocks.ranks.iter().filter(|clock| clock.component.is_some()).count(),
        refused: compared.job.refused.first().map(|refused| refused.why.clone()),
        ..Outcome::default()
    };
    for (at, clock) in compared.clocks.ranks.iter().enumerate() {
        let rank = compared.job.ranks[at] as usize;
        let Some(first) = clock.component else {
            outcome.apart += usize::from(job.tp > 1 || job.dp > 1);
            continue;
        };
        let first = compared.job.ranks[first] as usize;
        let share = job.cut.filter(|(cut, _)| *cut as usize == rank).map_or(1.0, |(_, share)| share);
        let time = (job.length_ns as f64 * share / 2.0) as i64;
        let aligned = clock.aligned(Ns(START + shown(&made.truth, rank, time))).0 - START;
        let error = (aligned - shown(&made.truth, first, time)).abs();
        outcome.within += usize::from(error <= clock.uncertainty.0);
        outcome.worst = outcome.worst.max((error, clock.uncertainty.0));
    }
    for group in &compared.matches.groups {
        let ranks: Vec<u32> = group.members.iter().map(|member| compared.job.ranks[*member]).collect();
        if group.gap.is_some() && !is_group(job, &ranks) {
            outcome.invented.push(ranks);
        }
    }
    outcome.blamed = blamed(&compared);
    outcome
}

/// The rank that reruns blame first.
fn blamed(compared: &Compared) -> Option<u32> {
    compared.report().reruns?.findings.first().map(|finding| finding.ranks[0])
}

/// Whether these ranks are in one process group of the job, or in several of one stage, which end at once where an all-reduce of each comes
/// right before.
fn is_group(job: &Job, ranks: &[u32]) -> bool {
    let stride = job.tp * job.pp;
    let is_one = |of: &dyn Fn(u32) -> u32| ranks.iter().all(|rank| of(*rank) == of(ranks[0]));
    is_one(&|rank| rank / job.tp)
        || is_one(&|rank| rank % stride)
        || is_one(&|rank| rank / job.tp % job.pp) && ranks.len() as u32 > job.dp
}

fn described(job: &Job) -> String {
    let Job { tp, pp, dp, ep, hosts, steps, layers, graphs, arguments, offsets, .. } = job;
    let Job { drift_ppm, length_ns, jitter_ns, lose, cut, .. } = job;
    let (length, jitter) = (length_ns / 1_000_000_000, jitter_ns / 1_000);
    format!(
        "{tp}x{pp}x{dp}/{ep} on {hosts} hosts, {steps} steps of {layers}, graphs {graphs}, arguments {arguments}, {offsets:?}, \
         {drift_ppm} ppm, {length} s, jitter {jitter} us, lost {lose}, cut {cut:?}"
    )
}

/// In so many of a hundred jobs offsets are within what is printed, and in so many at most a job is refused or somebody blamed.
const WITHIN: usize = 95;
const WRONG: usize = 1;

/// Jobs are compared, offsets are within what is printed, and nobody is blamed for what the clocks do.
#[test]
fn clocks_of_many_groups_are_found() {
    let jobs = if is_long() { 400 } else { 8 };
    let found = each(0..jobs, |seed| outcome(&job(seed)));
    let jobs = found.len();
    let count = |of: &dyn Fn(&Outcome) -> bool| found.iter().filter(|(_, outcome)| of(outcome)).count();
    for (seed, outcome) in &found {
        let is_right = outcome.refused.is_none() && outcome.blamed.is_none() && outcome.invented.is_empty();
        if !is_right || outcome.apart > 0 || outcome.within < outcome.ranks {
            println!("{seed}: {}: {outcome:?}", described(&job(*seed)));
        }
    }
    let compared = count(&|outcome| outcome.ranks > 0);
    let within = count(&|outcome| outcome.ranks > 0 && outcome.within == outcome.ranks);
    let refused = count(&|outcome| outcome.refused.is_some());
    let blamed = count(&|outcome| outcome.blamed.is_some());
    let invented = count(&|outcome| !outcome.invented.is_empty());
    let apart = count(&|outcome| outcome.apart > 0);
    println!(
        "{jobs} jobs: {compared} compared, {within} with all offsets within what is printed, {refused} refused, {blamed} with a rank blamed, \
         {invented} with invented groups, {apart} with ranks without a clock"
    );
    assert!(within * 100 >= WITHIN * compared, "{within} of {compared}");
    // One of a few jobs is more than one in a hundred.
    let most = (jobs * WRONG / 100).max(1);
    assert!(refused <= most, "{refused} of {jobs} are refused");
    assert!(blamed <= most, "{blamed} of {jobs}");
    assert!(invented * 100 <= WRONG * jobs, "{invented} of {jobs}");
    // Where everything is recorded, every rank has a clock, and what is printed holds.
    let is_recorded = |seed: u64| job(seed).arguments && !job(seed).graphs;
    let wrong = found.iter().filter(|(seed, outcome)| {
        is_recorded(*seed) && (outcome.refused.is_some() || outcome.apart > 0 || outcome.within < outcome.ranks)
    });
    let recorded = found.iter().filter(|(seed, _)| is_recorded(*seed)).count();
    let wrong = wrong.count();
    assert!(wrong * 100 <= WRONG * recorded, "{wrong} of {recorded}");
}

/// What a job of several hosts needs: three that were refused, or where a rank was blamed for its clock.
#[test]
fn drift_of_many_groups_is_found() {
    let second = 1_000_000_000;
    let four = Job { tp: 4, pp: 4, dp: 4, drift_ppm: 20.0, length_ns: 20 * second, ..Job::default() };
    let eight = Job { tp: 8, dp: 8, drift_ppm: 2.0, length_ns: 120 * second, ..Job::default() };
    let long = Job { tp: 4, dp: 2, steps: 100, drift_ppm: 20.0, ..Job::default() };
    for job in [four, eight, long] {
        let found = outcome(&job);
        println!("{}: {found:?}", described(&job));
        assert_eq!((found.refused, found.blamed, found.apart), (None, None, 0));
        assert_eq!(found.within, found.ranks);
        assert!(found.worst.1 < 5_000, "{:?}", found.worst);
    }
}

/// A trace of another run is never taken for one of this: the rank is left out, has no clock, or all are refused.
#[test]
fn another_run_is_refused() {
    // The eighth is the first large one.
    let jobs = if is_long() { 200 } else { 7 };
    let accepted = each(0..jobs, |seed| {
        // Two runs that differ by less than a few µs from step to step are the same to anybody.
        let this = Job { pp: 1, jitter_ns: 50_000, lose: 0, cut: None, steps: 10, ..job(seed) };
        let this = if this.tp * this.dp == 1 { Job { tp: 2, ..this } } else { this };
        let other = Job { seed: seed + 1_000_000, offsets: Offsets::None, ..this.clone() };
        let (mut made, other) = (this.make(), other.make());
        let rank = this.ranks() / 2;
        made.traces[rank as usize] = other.traces[rank as usize].clone();
        let compared = comparison(&made).ok()?;
        let at = compared.job.ranks.iter().position(|of| *of == rank)?;
        let first = compared.clocks.ranks[at].component?;
        let others = (0..compared.job.ranks.len()).filter(|of| *of != at);
        let with = others.filter(|of| compared.clocks.ranks[*of].component == Some(first)).count();
        (with > 0).then(|| described(&this))
    });
    let accepted: Vec<_> = accepted.into_iter().filter_map(|(seed, of)| Some((seed, of?))).collect();
    assert!(accepted.is_empty(), "{accepted:#?}");
}

/// A graph of tensor and data parallel collectives on one stream, and no arguments: the ends show the groups, and so who is late.
#[test]
fn who_is_late_in_graphs_without_arguments() {
    for seed in 0..rounds(2) as u64 {
        let (tp, dp) = pick(seed, 1, &[(4, 4), (4, 2), (8, 2)]);
        let quiet = Job { tp, dp, steps: 12, layers: 6, graphs: true, arguments: false, seed, ..Job::default() };
        let quiet = Job { jitter_ns: 10_000, offsets: Offsets::Random { max_ns: 1_000_000 }, ..quiet };
        let rank = pick(seed, 2, &(0..tp * dp).collect::<Vec<_>>());
        let how = How::Gpu { kernel: KERNELS[2].to_owned() };
        let late = Job { late: Some(Late { rank, extra_ns: 300_000, how, when: When::EveryLayer }), ..quiet.clone() };
        let found = outcome(&quiet);
        let wrong = (found.refused, found.blamed, found.invented, found.apart);
        assert_eq!(wrong, (None, None, Vec::new(), 0), "seed {seed}");
        let compared = comparison(&late.make()).unwrap();
        let report = compared.report();
        let reruns = report.reruns.as_ref().unwrap();
        let blamed: Vec<&[u32]> = reruns.findings.iter().map(|finding| &finding.ranks[..]).collect();
        // Of eight pairs whose ends tell too little some may be unknown. Then reruns are wrong, and say so.
        let is_known = reruns.error.unwrap().mean < 0.01;
        assert!(is_known || tp == 8, "seed {seed}: {reruns:?}");
        let expected: &[&[u32]] = if is_known { &[&[rank]] } else { &[] };
        assert_eq!(blamed, expected, "seed {seed}: {reruns:?} {:?}", report.refused);
        let groups = report.groups.iter().filter(|group| group.ranks_here.len() > 1);
        for group in groups {
            // Reduce-scatters of all replicas end at once, after an all-reduce of each: nothing tells them apart.
            let is_all = group.ranks_here.len() as u32 == late.ranks() && group.gap.is_none();
            let is_one = is_group(&late, &group.ranks_here) && group.gap.is_some_and(|gap| gap > 2.0);
            assert!(is_all || is_one || !is_known, "{group:?}");
        }
    }
}
