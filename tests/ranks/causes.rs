//! Causes that are put into simulated jobs: each job is made twice with the same random times, with and without its cause, so that it is known which ranks are
//! late, in what, and how much shorter the job would have been. The finding that is printed first has to say that.

use nccl_stacks::replay::findings::{Extent, LateWork, Reruns};
use serde_json::Value;

use super::simulated::{compare, each, pick};
use crate::job::{How, Job, KERNELS, Late, Offsets, Part, StepSync, When};
use crate::support::random::{is_long, rounds};

const MLP: &str = "mlp.py(50): mlp";
const ATTENTION: &str = "attention.py(30): attention";
/// A function that the peers do not call.
const COLLECT: &str = "gc.py(1): collect";

/// What is called last in a step before it waits for the GPU.
const LAST: [&str; 2] = ["optimizer.py(60): step", "lr_scheduler.py(25): step"];

/// Why a job takes longer.
#[derive(Clone, Copy, Debug)]
enum Cause {
    /// A rank takes longer in a function, once in each step.
    EachStep,
    /// The same in each layer.
    EachLayer,
    /// A kernel of a rank takes longer.
    Kernel,
    /// A rank takes 3 ms longer, once.
    Once,
    /// A rank takes longer at the end of each step, just before this.
    Before(StepSync),
    /// So many ranks of so many take longer in a function, in each layer.
    Most {
        late: u32,
        of: u32,
    },
    /// The CPU of a rank takes so many times as long for all it does.
    SlowCpu(f64),
    /// A rank takes longer in each layer, and the trace of another rank lacks a step.
    WithoutStep(Part),
    Nothing,
}

/// What a finding has to say.
struct Truth {
    /// The ranks that are late, in order.
    ranks: Vec<u32>,
    /// The function or kernel in which they are; `None` if it is all that a CPU does.
    name: Option<&'static str>,
}

/// A job in which nothing is late, different for each seed.
fn quiet(cause: Cause, seed: u64) -> Job {
    const SYNCS: [Option<StepSync>; 6] = [
        None,
        Some(StepSync::Stream),
        Some(StepSync::Device),
        Some(StepSync::Event),
        Some(StepSync::Item),
        Some(StepSync::PinnedItem),
    ];
    let layouts: &[_] = match cause {
        Cause::Most { of: 4, .. } => &[(4, 1, 1)],
        Cause::Most { of: 64, .. } => &[(8, 1, 8)],
        Cause::Most { .. } => &[(8, 1, 1), (4, 1, 2)],
        // Where ranks have no collectives but those of their gradients, only these show who is late.
        Cause::EachStep | Cause::EachLayer | Cause::Once | Cause::Nothing => {
            &[(4, 1, 1), (8, 1, 1), (4, 1, 2), (2, 2, 2), (1, 1, 8)]
        }
        _ => &[(4, 1, 1), (8, 1, 1), (4, 1, 2)],
    };
    let (tp, pp, dp) = pick(seed, 1, layouts);
    let sync = if let Cause::Before(sync) = cause { Some(sync) } else { pick(seed, 2, &SYNCS) };
    Job {
        tp,
        pp,
        dp,
        steps: pick(seed, 3, &[4, 6]),
        layers: pick(seed, 4, &[4, 8]),
        jitter_ns: pick(seed, 5, &[2_000, 10_000]),
        offsets: Offsets::Random { max_ns: 1_000_000 },
        sync,
        seed: seed + 1,
        ..Job::default()
    }
}

/// A job with its cause, the same without, and the truth.
fn jobs(cause: Cause, seed: u64) -> (Job, Job, Truth) {
    let mut quiet = quiet(cause, seed);
    let mut ranks: Vec<u32> = (0..quiet.ranks()).collect();
    // The first ones of these are late.
    for at in 0..ranks.len() {
        let with = pick(seed, 100 + at as u64, &(at..ranks.len()).collect::<Vec<_>>());
        ranks.swap(at, with);
    }
    let function = pick(seed, 6, &[MLP, ATTENTION]);
    let rare = pick(seed, 6, &[MLP, ATTENTION, COLLECT]);
    let size = |least: i64| pick(seed, 7, &[least, 2 * least, 3 * least]);
    let (count, name, extra_ns, when) = match cause {
        Cause::EachStep => (1, Some(rare), size(300_000), When::EveryStep),
        Cause::EachLayer => (1, Some(rare), size(100_000), When::EveryLayer),
        // The GPUs wait for the launches of their CPUs, so that what is shorter than these delays nobody.
        Cause::Kernel => (1, Some(pick(seed, 6, KERNELS)), size(400_000), When::EveryLayer),
        Cause::Once => (1, Some(rare), 3_000_000, When::Once { step: pick(seed, 8, &[1, 2]) }),
        Cause::Before(_) => (1, Some(pick(seed, 6, &LAST)), size(300_000), When::EveryStep),
        Cause::Most { late, .. } => (late as usize, Some(function), size(100_000), When::EveryLayer),
        Cause::SlowCpu(_) => (1, None, 0, When::EveryStep),
        Cause::WithoutStep(part) => {
            quiet.lacks = vec![(ranks[1], part)];
            (1, Some(function), size(100_000), When::EveryLayer)
        }
        Cause::Nothing => (0, None, 0, When::EveryStep),
    };
    ranks.truncate(count);
    ranks.sort_unstable();
    let how = match (cause, name) {
        (Cause::SlowCpu(factor), _) => How::SlowCpu { factor },
        (Cause::Kernel, name) => How::Gpu { kernel: name.unwrap_or_default().to_owned() },
        (_, name) => How::Cpu { function: name.unwrap_or_default().to_owned() },
    };
    let late: Vec<Late> = ranks.iter().map(|rank| Late { rank: *rank, extra_ns, how: how.clone(), when }).collect();
    (Job { also_late: late, ..quiet.clone() }, quiet, Truth { ranks, name })
}

/// Whom a finding names.
enum Named {
    Late(Vec<u32>),
    /// These ranks are faster than all others.
    Faster(Vec<u32>),
}

fn named(finding: &LateWork) -> Named {
    match finding.are_peers_faster {
        true => Named::Faster(finding.peers.clone()),
        false => Named::Late(finding.ranks.clone()),
    }
}

/// A saving is right within its stated error, or within so much of the job's length.
const CLOSE: f64 = 0.03;

/// What is right of the first finding.
#[derive(Clone, Copy, Debug)]
struct Right {
    set: bool,
    function: bool,
    saving: bool,
    /// The error that is stated, as a share of the job's length: with a large one every saving is right.
    stated: f64,
}

impl Right {
    fn is_all(self) -> bool {
        self.set && self.function && self.saving
    }
}

/// Where nothing is late, any finding is wrong, and where something is, none.
fn judge(job: &Job, truth: &Truth, reruns: &Reruns, saving: i64, length: i64) -> Right {
    let first = match reruns.findings.first() {
        Some(first) if !truth.ranks.is_empty() => first,
        found => {
            let is_right = found.is_none() && truth.ranks.is_empty();
            return Right { set: is_right, function: is_right, saving: is_right, stated: 0.0 };
        }
    };
    let set = match named(first) {
        Named::Late(ranks) => ranks == truth.ranks,
        // Where most are late, the others may be named.
        Named::Faster(ranks) => {
            let others: Vec<u32> = (0..job.ranks()).filter(|rank| !truth.ranks.contains(rank)).collect();
            truth.ranks.len() > others.len() && ranks == others
        }
    };
    let bound = first.error_ns.max((length as f64 * CLOSE) as i64);
    Right {
        set,
        function: first.culprit().map(|culprit| culprit.name.as_str()) == truth.name,
        saving: (first.saves_ns - saving).abs() <= bound,
        stated: first.error_ns as f64 / length as f64,
    }
}

/// How much longer the one of two jobs is, and how long it is, from the first to the last event of its traces.
fn saving(with: &Job, without: &Job) -> (i64, i64) {
    let [with, without] = [with, without].map(|job| job.each(|_, _| ()).length_ns);
    (with - without, with)
}

/// The job as all its traces have it.
fn common(job: &Job) -> Job {
    let lacks = job.lacks.iter().flat_map(|(_, part)| (0..job.ranks()).map(|rank| (rank, *part))).collect();
    Job { lacks, ..job.clone() }
}

/// In so many of a hundred jobs the set, the function or kernel, and the saving must be right.
const SETS: usize = 98;
const FUNCTIONS: usize = 95;
const SAVINGS: usize = 95;

/// In so many of a hundred jobs in which nothing is late nobody must be named.
const NOBODY: usize = 99;

/// What is less of the job's length is no cause.
const CAUSE: f64 = 0.01;

/// Makes jobs of each cause, and returns how many there are, and in how many the set, the function and the saving are right.
fn count(causes: &[Cause], jobs_of_each: usize) -> (usize, [usize; 3]) {
    let mut all = (0, [0; 3]);
    for cause in causes.iter().copied() {
        let found = each(0..rounds(jobs_of_each) as u64, |seed| {
            let (with, without, truth) = jobs(cause, seed);
            let reruns = compare(&with.make()).report().reruns.unwrap();
            // A step that not all traces have is not judged, and so is not in what is saved.
            let (saving, length) = match reruns.left_out_steps {
                0 => saving(&with, &without),
                _ => saving(&common(&with), &common(&without)),
            };
            let is_cause = saving as f64 >= CAUSE * length as f64;
            assert_eq!(is_cause, !truth.ranks.is_empty(), "{cause:?} {seed}: {saving} of {length} ns, {with:?}");
            let right = judge(&with, &truth, &reruns, saving, length);
            let said = (!right.is_all()).then(|| {
                let short = |of: &LateWork| {
                    let by = of.culprits.iter().take(3).map(|of| (&*of.name, of.saves_ns)).collect::<Vec<_>>();
                    format!("{:?} {:?} {:?} {} ± {} {by:?}", of.ranks, of.part, of.extent, of.saves_ns, of.error_ns)
                };
                let findings: Vec<String> = reruns.findings.iter().map(short).collect();
                let Truth { ranks, name } = &truth;
                let error = &reruns.error;
                format!("{right:?} {with:?}\n    {ranks:?} {name:?} {saving} of {length}: {findings:#?} {error:?}")
            });
            (right, said)
        });
        for (seed, (_, said)) in &found {
            said.iter().for_each(|said| println!("{cause:?} {seed}: {said}"));
        }
        let right = |of: fn(&Right) -> bool| found.iter().filter(|(_, (right, _))| of(right)).count();
        let rights = [right(|of| of.set), right(|of| of.function), right(|of| of.saving)];
        let (n, [set, function, saving]) = (found.len(), rights);
        let stated = found.iter().map(|(_, (right, _))| right.stated * 100.0).fold(0.0, f64::max);
        println!(
            "{cause:?}: set right {set} of {n}, function {function} of {n}, saving {saving} of {n}; the largest stated error is \
             {stated:.1} % of the length"
        );
        all.0 += n;
        all.1.iter_mut().zip(rights).for_each(|(all, right)| *all += right);
    }
    all
}

/// One of a few is more than the share that may be wrong.
fn is_enough(right: usize, jobs: usize, share: usize) -> bool {
    right * 100 >= share * jobs || right + 1 >= jobs
}

fn check(causes: &[Cause], jobs_of_each: usize) {
    let (jobs, [set, function, saving]) = count(causes, jobs_of_each);
    assert!(
        is_enough(set, jobs, SETS) && is_enough(function, jobs, FUNCTIONS) && is_enough(saving, jobs, SAVINGS),
        "{causes:?}: of {jobs} jobs the set is right in {set}, the function in {function}, the saving in {saving}"
    );
}

#[test]
fn one_late_rank_is_found() {
    check(&[Cause::EachStep, Cause::EachLayer, Cause::Kernel, Cause::Once], 2);
}

/// A rank that is late just before the end of each step, where all wait for their GPUs: its own call waits for nothing, and the others' for it.
#[test]
fn a_rank_late_before_the_end_of_a_step_is_found() {
    let syncs = [StepSync::Stream, StepSync::Device, StepSync::Event, StepSync::Item, StepSync::PinnedItem];
    check(&syncs.map(Cause::Before), 1);
}

/// Where most ranks are late, their peers are the few that are not.
#[test]
fn most_ranks_that_are_late_are_found() {
    check(&[(3, 4), (5, 8), (7, 8)].map(|(late, of)| Cause::Most { late, of }), 2);
}

/// Of many ranks not all sets are compared: they grow by the rank that gains most.
#[test]
fn sets_of_many_ranks_are_found() {
    let late = if is_long() { &[1, 2, 8, 17, 33, 63][..] } else { &[2, 33] };
    let causes: Vec<Cause> = late.iter().map(|late| Cause::Most { late: *late, of: 64 }).collect();
    check(&causes, 1);
}

/// Of a job of more than 200,000 nodes only the likeliest sets are asked about, and where they are late only afterwards.
#[test]
fn what_happens_once_in_a_large_job_is_found() {
    let quiet = Job { tp: 8, steps: 56, layers: 64, offsets: Offsets::Random { max_ns: 1_000_000 }, ..Job::default() };
    let how = How::Cpu { function: MLP.to_owned() };
    let late = Late { rank: 5, extra_ns: 60_000_000, how, when: When::Once { step: 3 } };
    let with = Job { also_late: vec![late], ..quiet.clone() };
    let reruns = compare(&with.make()).report().reruns.unwrap();
    let (saving, length) = saving(&with, &quiet);
    let right = judge(&with, &Truth { ranks: vec![5], name: Some(MLP) }, &reruns, saving, length);
    let extent = reruns.findings[0].extent;
    assert!(right.is_all() && extent == Extent::Pieces, "{right:?} {extent:?} {:#?}", reruns.findings);
    if is_long() {
        let quiet = compare(&quiet.make()).report().reruns.unwrap();
        assert!(quiet.findings.is_empty(), "{:#?}", quiet.findings);
    }
}

/// A CPU that is slower in all it does is late in no function more than in others.
#[test]
fn a_slow_cpu_is_no_function() {
    check(&[Cause::SlowCpu(1.1), Cause::SlowCpu(3.0)], 2);
}

#[test]
fn a_late_rank_is_found_beside_a_trace_that_lacks_a_step() {
    check(&[Part::FirstStep, Part::LastStep].map(Cause::WithoutStep), 2);
}

#[test]
fn where_nothing_is_late_nobody_is_named() {
    let (jobs, [set, ..]) = count(&[Cause::Nothing], 8);
    assert!(is_enough(set, jobs, NOBODY), "in {} of {jobs} jobs somebody is named", jobs - set);
}

/// The events of a rank's trace, as category, name, start and end in ns.
fn events(text: &[u8]) -> Vec<(String, String, i64, i64)> {
    let trace: Value = serde_json::from_slice(text).unwrap();
    let slices = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X").cloned();
    let ns = |value: &Value| (value.as_f64().unwrap() * 1_000.0).round() as i64;
    let said = |value: &Value| value.as_str().unwrap().to_owned();
    slices.map(|of| (said(&of["cat"]), said(&of["name"]), ns(&of["ts"]), ns(&of["ts"]) + ns(&of["dur"]))).collect()
}

/// The simulator's calls that wait return as those of real traces do: 6 to 8 µs after the end of what they wait for. Times since 1970 are read as doubles here,
/// and so rounded to a quarter of a microsecond.
#[test]
fn simulated_calls_return_soon_after_what_they_wait_for() {
    for (sync, call) in [
        (StepSync::Stream, "cudaStreamSynchronize"),
        (StepSync::Device, "cudaDeviceSynchronize"),
        (StepSync::Event, "cudaEventSynchronize"),
        (StepSync::Item, "cudaMemcpyAsync"),
        (StepSync::PinnedItem, "cudaStreamSynchronize"),
    ] {
        let how = How::Gpu { kernel: KERNELS[3].to_owned() };
        let late = Late { rank: 0, extra_ns: 500_000, how, when: When::EveryStep };
        let made = Job { sync: Some(sync), late: Some(late), ..Job::default() }.make();
        for (rank, text) in &made.traces {
            let events = events(text);
            let on_gpu = |of: &&(String, String, i64, i64)| of.0 == "kernel" || of.0 == "gpu_memcpy";
            let calls: Vec<_> = events.iter().filter(|of| of.0 == "cuda_runtime" && of.1 == call).collect();
            assert_eq!(calls.len(), 4, "{sync:?}, rank {rank}: one in each step");
            for (.., start, end) in calls {
                let last = events.iter().filter(on_gpu).map(|of| of.3).filter(|of| of < end).max().unwrap();
                assert!(*rank > 0 || end - start > 400_000, "{sync:?}: {start} {end}");
                let gap = end - last;
                assert!(last <= *start || (5_500..8_500).contains(&gap), "{sync:?}, rank {rank}: {gap} ns");
            }
        }
    }
}

/// A trace that lacks a step has what the same trace has of the other ones.
#[test]
fn simulated_traces_may_lack_a_step() {
    let whole = Job { sync: Some(StepSync::Device), ..Job::default() };
    let all = events(&whole.make().traces[1].1);
    let begin = |step: u32| all.iter().find(|of| of.1 == format!("ProfilerStep#{step}")).unwrap().2;
    for (part, from, until) in [(Part::FirstStep, begin(1), i64::MAX), (Part::LastStep, i64::MIN, begin(3))] {
        let lacking = Job { lacks: vec![(1, part)], ..whole.clone() }.make();
        let is_kept = |of: &&(String, String, i64, i64)| of.0 != "Trace" && (from..until).contains(&of.2);
        let found = events(&lacking.traces[1].1);
        assert!(found.iter().filter(|of| of.0 != "Trace").eq(all.iter().filter(is_kept)), "{part:?}");
        assert_eq!(lacking.truth.length_ns, whole.make().truth.length_ns);
    }
}
