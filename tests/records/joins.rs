//! Records beside traces: which record is of which kernel, on made jobs whose truth is known.

use crate::support::random::rounds;
use std::collections::BTreeMap;
use std::io::Cursor;

use nccl_stacks::attribution::capture::Captured;
use nccl_stacks::attribution::operations::Operations;
use nccl_stacks::attribution::selection::{Wanted, choose};
use nccl_stacks::attribution::{AttributionOptions, Attributor, launches};
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::input::from_reader;
use nccl_stacks::load::{LoadOptions, load_input};
use nccl_stacks::operations::join::Joined;
use nccl_stacks::records::{Keep, Records, read};
use nccl_stacks::store::Store;

use crate::job::{Inspector, Job, Megatrace, Offsets, RecordTruth, Recorder, Recording};

/// A trace and its operations.
struct Trace {
    rank: u32,
    store: Store,
    operations: Operations,
}

fn trace(rank: u32, text: Vec<u8>) -> Trace {
    let input = from_reader(format!("rank{rank}.json"), None, Box::new(Cursor::new(text))).unwrap();
    let options = LoadOptions { args: ArgsWanted::OPERATIONS, ..LoadOptions::default() };
    let store = load_input(input, options, |_| {}).unwrap().store;
    let wanted = Wanted::collectives();
    let launches = launches::find(&store, &choose(&store, &wanted));
    let attributor = Attributor::new(&store, &wanted, Captured::default());
    let attribution = attributor.attribute(launches.kernels.iter(), AttributionOptions::default());
    let operations = Operations::find(&store, &attribution);
    Trace { rank, store, operations }
}

/// The traces and records of a job, and by operation of the records what is true of it.
fn make(job: &Job, recording: &Recording) -> (Vec<Trace>, Records, Vec<RecordTruth>) {
    let (mut traces, mut records, mut truths) = (Vec::new(), Records::default(), Vec::new());
    job.each_recorded(recording, |rank, text, of_rank| {
        traces.extend(text.map(|text| trace(rank, text)));
        for file in of_rank.files {
            let input = from_reader(file.name.clone(), None, Box::new(Cursor::new(file.bytes))).unwrap();
            let of_file = read(input, Keep::All).unwrap();
            let of_truth: Vec<RecordTruth> =
                of_rank.truth.iter().filter(|truth| truth.file == file.name).cloned().collect();
            assert_eq!(of_file.operations.len(), of_truth.len(), "{}", file.name);
            records.append(of_file);
            truths.extend(of_truth);
        }
    });
    (traces, records, truths)
}

/// How many records of a source have the right kernel, a wrong one, none though there is one, and rightly none.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Judged {
    right: u64,
    wrong: u64,
    unjoined: u64,
    rightly_not: u64,
}

/// Joins each trace by itself, as the main job does.
fn judge(traces: &[Trace], records: &Records, truths: &[RecordTruth]) -> BTreeMap<&'static str, Judged> {
    let mut kernels: Vec<Vec<(u32, i64)>> = vec![Vec::new(); truths.len()];
    for Trace { rank, store, operations } in traces {
        let joined = Joined::find(operations, records);
        for (found, kernel) in kernels.iter_mut().zip(&joined.kernels) {
            found.extend(kernel.and_then(Result::ok).map(|kernel| (*rank, store.slices.ts(kernel).0)));
        }
    }
    let mut judged: BTreeMap<&'static str, Judged> = BTreeMap::new();
    for (found, truth) in kernels.iter().zip(truths) {
        let of_source = judged.entry(truth.source).or_default();
        match (&found[..], truth.kernel_ts_ns) {
            ([], Some(_)) => of_source.unjoined += 1,
            ([], None) => of_source.rightly_not += 1,
            ([one], Some(ts)) if *one == (truth.rank, ts) => of_source.right += 1,
            _ => of_source.wrong += 1,
        }
    }
    judged
}

fn job(seed: u64) -> Job {
    let (tp, pp, dp) = [(2, 1, 1), (2, 1, 2), (2, 2, 2), (4, 1, 2)][seed as usize % 4];
    let offsets = Offsets::Random { max_ns: [0, 1_000_000, 1_000_000_000][seed as usize % 3] };
    Job { tp, pp, dp, steps: 4, layers: 6, small: seed.is_multiple_of(2), offsets, seed, ..Job::default() }
}

/// How many jobs of each kind. Of twelve, each has other groups, offsets and recorders.
const JOBS: usize = 12;

/// All jobs of a kind, judged by source.
fn all(recording: impl Fn(u64) -> Recording) -> BTreeMap<&'static str, Judged> {
    let mut sums: BTreeMap<&'static str, Judged> = BTreeMap::new();
    for seed in 0..rounds(JOBS) as u64 {
        let (traces, records, truths) = make(&job(seed), &recording(seed));
        for (source, Judged { right, wrong, unjoined, rightly_not }) in judge(&traces, &records, &truths) {
            let sum = sums.entry(source).or_default();
            sum.right += right;
            sum.wrong += wrong;
            sum.unjoined += unjoined;
            sum.rightly_not += rightly_not;
        }
    }
    sums
}

fn megatrace(seed: u64) -> Megatrace {
    if seed.is_multiple_of(2) { Megatrace::L2 } else { Megatrace::L4 }
}

fn recorder(seed: u64) -> Recorder {
    [Recorder::Both, Recorder::Plugin, Recorder::Interceptor][(seed / 4) as usize % 3]
}

#[test]
fn every_record_is_joined_to_its_kernel() {
    let judged = all(|seed| Recording { megatrace: megatrace(seed), recorder: recorder(seed), ..Recording::default() });
    assert_eq!(judged.len(), 5);
    for (source, Judged { right, wrong, unjoined, rightly_not }) in judged {
        assert!(right > 2_000 && (wrong, unjoined, rightly_not) == (0, 0, 0), "{source} {right} {wrong} {unjoined}");
    }
}

#[test]
fn lost_records_and_shifted_clocks_cost_nothing_else() {
    let judged = all(|seed| Recording {
        megatrace: megatrace(seed),
        recorder: recorder(seed),
        lose_percent: 1.0,
        max_offset_ns: 900_000_000,
        ..Recording::default()
    });
    for (source, Judged { right, wrong, unjoined, .. }) in judged {
        // What is asked is 98 of 100, and that the rest is counted as not joined.
        assert!(wrong == 0 && right * 2 > unjoined * 98, "{source} {right} {wrong} {unjoined}");
    }
}

#[test]
fn records_of_before_the_trace_are_not_joined() {
    let judged = all(|seed| Recording {
        megatrace: megatrace(seed),
        recorder: recorder(seed),
        trace_from_step: 2,
        max_offset_ns: 900_000,
        ..Recording::default()
    });
    for (source, Judged { right, wrong, unjoined, rightly_not }) in judged {
        assert!((wrong, unjoined) == (0, 0) && right > 1_000, "{source} {right} {wrong} {unjoined}");
        assert_eq!(right, rightly_not, "{source}");
    }
}

/// Lengths in whole microseconds and numbers are less than times: some fit at several places, and a few at a wrong one.
#[test]
fn records_without_times_are_joined_by_numbers_and_lengths() {
    let judged = all(|_| Recording { inspector: Inspector::Brief, lose_percent: 1.0, ..Recording::default() });
    let Judged { right, wrong, unjoined, .. } = judged["inspector"];
    let of = right + wrong + unjoined;
    assert!(wrong * 100 <= of && right * 100 >= 95 * of, "{right} {wrong} {unjoined}");
}
