//! Pipelines: the stages, the bubble and its parts, on simulated schedules whose bubble is known in closed form.

use nccl_stacks::answers::ranks::data::{Compared, RankReport};
use nccl_stacks::answers::ranks::pipeline::{Pipeline, Schedule, Stage};
use nccl_stacks::operations::clocks::ClockMode;
use nccl_stacks::time::Ns;
use serde_json::{Value, json};

use super::inputs::Files;
use super::simulated::{compare, parts};
use crate::job::{How, Job, KERNELS, Late, Made, Microbatches, Offsets, Order, When};
use crate::support::program::{run, stdout};
use crate::support::random::is_long;

/// What messages take of a step here, which the closed forms leave out.
const MESSAGES: f64 = 0.012;

fn pipeline(pp: u32, count: u32, order: Order) -> Job {
    let microbatches = Some(Microbatches { count, order, forward_ns: 2_000_000 });
    Job { tp: 1, pp, steps: 6, layers: 1, jitter_ns: 0, microbatches, ..Job::default() }
}

fn report(made: &Made) -> RankReport {
    compare(made).report()
}

/// Without messages: of `count` microbatches that take F forward and 2 F back on each of `stages`.
fn closed(stages: u32, count: u32, order: Order) -> f64 {
    let (before, count) = (f64::from(stages) - 1.0, f64::from(count));
    match order {
        Order::Sweep | Order::InTurn => before / (count + before),
        Order::Interleaved { chunks } => before / (f64::from(chunks) * count + before),
        // Nothing is sent back later than F after it came: of each stage's 3 F a microbatch, before the first and after the last it idles for 2 F.
        Order::ZeroBubble => 2.0 * before / (3.0 * count + 2.0 * before),
    }
}

/// All times add up; returns the sum of the stages.
fn assert_adds_up(pipeline: &Pipeline) -> Stage {
    let mut all = Stage::default();
    for stage in &pipeline.stages {
        let parts = stage.compute_ns
            + stage.transfer_ns
            + stage.waits_for_previous_ns
            + stage.waits_for_next_ns
            + stage.waits_in_collectives_ns
            + stage.idle_ns;
        assert_eq!(parts, stage.length_ns);
        assert_eq!(stage.warm_up_ns + stage.steady_ns + stage.cool_down_ns, stage.bubble());
        all.length_ns += stage.length_ns;
        all.compute_ns += stage.compute_ns;
        all.transfer_ns += stage.transfer_ns;
    }
    all
}

#[test]
fn the_bubble_is_that_of_the_closed_forms() {
    let sizes = [(2, 4), (2, 8), (4, 4), (4, 8), (4, 16), (8, 16)];
    for (stages, count) in sizes {
        for order in [Order::Sweep, Order::InTurn, Order::Interleaved { chunks: 2 }, Order::ZeroBubble] {
            if stages == 2 && matches!(order, Order::Interleaved { .. }) {
                continue;
            }
            let found = report(&pipeline(stages, count, order).make()).pipeline.unwrap();
            let of = format!("{stages} stages, {count} microbatches, {order:?}: {found:?}");
            assert_eq!(found.stages.len(), stages as usize, "{of}");
            assert_eq!(found.microbatches, f64::from(count), "{of}");
            let chunks = if let Order::Interleaved { chunks } = order { f64::from(chunks) } else { 1.0 };
            assert_eq!(found.chunks, chunks, "{of}");
            let schedule = match order {
                Order::Sweep => Schedule::ForwardThenBackward,
                Order::InTurn | Order::Interleaved { .. } => Schedule::InTurn,
                Order::ZeroBubble => Schedule::ZeroBubble,
            };
            assert_eq!(found.schedule, schedule, "{of}");
            for stage in &found.stages {
                let forward = Ns(6 * i64::from(count) * 2_000_000);
                assert_eq!((stage.forward_ns, stage.backward_ns), (Some(forward), Some(forward + forward)), "{of}");
            }
            let off = found.bubble_share() - closed(stages, count, order);
            assert!(off.abs() < MESSAGES, "{:.4} and {:.4}: {of}", found.bubble_share(), closed(stages, count, order));
            let off = found.least_bubble_share() - closed(stages, count, order);
            assert!(off.abs() < 1e-9 || order == Order::ZeroBubble, "{of}");
            assert_adds_up(&found);
        }
    }
}

/// The microbatches of a rank's pieces in a step: forward, and back.
fn numbers(found: &Pipeline, rank: usize) -> [Vec<Option<u32>>; 2] {
    let pieces = found.pieces.iter().filter(|piece| piece.rank == rank);
    let of = |is_forward| pieces.clone().filter(|of| of.is_forward == is_forward).map(|of| of.microbatch).collect();
    [of(true), of(false)]
}

/// All microbatches go through each stage in their order; with two parts of the model on each of four stages, four at a time go through one part.
#[test]
fn pieces_have_the_numbers_of_microbatches() {
    for (order, numbered) in [
        (Order::Sweep, (0..8).collect::<Vec<u32>>()),
        (Order::InTurn, (0..8).collect()),
        (Order::Interleaved { chunks: 2 }, vec![0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7]),
        (Order::ZeroBubble, (0..8).collect()),
    ] {
        let found = report(&Job { steps: 1, ..pipeline(4, 8, order) }.make()).pipeline.unwrap();
        let numbered: Vec<Option<u32>> = numbered.into_iter().map(Some).collect();
        for rank in 0..4 {
            let [forward, back] = numbers(&found, rank);
            assert_eq!(forward, numbered, "{order:?}, rank {rank}");
            // What comes after a message may be the weights of one before.
            let is_known = order != Order::ZeroBubble;
            let expected = if is_known { numbered.clone() } else { vec![None; back.len()] };
            assert_eq!(back, expected, "{order:?}, rank {rank}");
        }
        // Each piece that has a number is one kernel or two, so that it is as long as these.
        let long = |of: &nccl_stacks::answers::ranks::schedule::Piece| of.window.duration().0 as f64 / 1e6;
        let chunks = found.chunks;
        let forward = found.pieces.iter().filter(|of| of.is_forward);
        assert!(forward.map(long).all(|long| (long - 2.0 / chunks).abs() < 0.001), "{order:?}");
    }
}

/// Where one thread launches all, nothing says what is forward and what is back; nor where a second one launches something else, such as the optimizer.
#[test]
fn one_thread_shows_no_directions() {
    let made = pipeline(3, 6, Order::InTurn).make();
    for second in [None, Some(KERNELS[3])] {
        let on_one = |text: &[u8]| {
            let mut trace: Value = serde_json::from_slice(text).unwrap();
            let events = trace["traceEvents"].as_array_mut().unwrap();
            let seconds: Vec<Value> = events
                .iter()
                .filter(|event| second.is_some_and(|second| event["name"] == second))
                .map(|event| event["args"]["correlation"].clone())
                .collect();
            let calls = events.iter_mut().filter(|event| event["cat"] != "kernel" && event["tid"].is_u64());
            for event in calls {
                let is_second = event["cat"] == "cuda_runtime" && seconds.contains(&event["args"]["correlation"]);
                event["tid"] = json!(event["pid"].as_u64().unwrap() + u64::from(is_second));
            }
            serde_json::to_vec(&trace).unwrap()
        };
        let of_rank = |(rank, text): &(u32, Vec<u8>)| parts(&format!("rank{rank}.json"), on_one(text));
        let all = made.traces.iter().flat_map(of_rank).collect();
        let found = Compared::from_reductions(all, ClockMode::Align).unwrap().report().pipeline.unwrap();
        assert!(found.stages.iter().all(|of| of.forward_ns.is_none() && of.backward_ns.is_none()), "{found:?}");
        assert!(found.pieces.is_empty(), "{found:?}");
        assert_eq!(found.schedule, Schedule::InTurn);
    }
}

/// The compute kernels of a rank, by its trace alone.
fn computed(trace: &[u8]) -> Ns {
    let trace: Value = serde_json::from_slice(trace).unwrap();
    let is_compute = |event: &&Value| event["cat"] == "kernel" && !event["name"].as_str().unwrap().starts_with("nccl");
    let all = trace["traceEvents"].as_array().unwrap().iter().filter(is_compute);
    Ns(all.map(|event| (event["dur"].as_f64().unwrap() * 1000.0).round() as i64).sum())
}

/// Two replicas of two ranks a stage, which are not equally fast each time, and a last stage that takes longer.
#[test]
fn a_stage_that_is_too_long_is_the_one_that_others_wait_for() {
    let slow = |rank| {
        let how = How::Gpu { kernel: KERNELS[2].to_owned() };
        Late { rank, extra_ns: 1_000_000, how, when: When::EveryLayer }
    };
    let job = Job { tp: 2, dp: 2, jitter_ns: 20_000, ..pipeline(4, 8, Order::InTurn) };
    let made = Job { late: Some(slow(6)), also_late: [7, 14, 15].map(slow).to_vec(), ..job }.make();
    let found = report(&made).pipeline.unwrap();
    assert_adds_up(&found);
    for (stage, first) in found.stages.iter().zip([0, 2, 4, 6]) {
        assert_eq!(stage.ranks, [first, first + 1, first + 8, first + 9]);
        let by_traces: Ns = stage.ranks.iter().map(|rank| computed(&made.traces[*rank as usize].1)).sum();
        assert_eq!(stage.compute_ns, by_traces);
    }
    let [first, .., last] = &found.stages[..] else { panic!("four stages") };
    // 16 pieces of work a step take 1 ms longer each.
    let longer = (last.compute_ns - first.compute_ns).0 as f64 / (4.0 * 6.0);
    assert!((longer - 16e6).abs() < 0.5e6, "{longer}");
    assert!(
        first.waits_for_next_ns.0 > last.waits_for_previous_ns.0 * 3 && last.waits_for_next_ns == Ns::ZERO,
        "{found:?}"
    );
}

/// What equal stages would save is what a job saves in which all ranks have their share of what the last stage has more. Equal ones would save nothing.
#[test]
fn equal_stages_are_predicted() {
    let slow = |rank, extra_ns| {
        let how = How::Gpu { kernel: KERNELS[2].to_owned() };
        Late { rank, extra_ns, how, when: When::EveryLayer }
    };
    let job = Job { jitter_ns: 20_000, ..pipeline(4, 8, Order::InTurn) };
    let reports = [
        Job { late: Some(slow(3, 1_600_000)), ..job.clone() },
        Job {
            late: Some(slow(0, 400_000)),
            also_late: (1..4).map(|rank| slow(rank, 400_000)).collect(),
            ..job.clone()
        },
        job,
    ]
    .map(|job| report(&job.make()));
    let [long, equal, _] = reports.each_ref().map(|of| of.reruns.as_ref().unwrap().length_ns);
    let [of_long, of_equal, of_quiet] =
        reports.each_ref().map(|of| of.pipeline.as_ref().unwrap().balanced_saves_ns.unwrap());
    assert!(((of_long - (long - equal)) as f64).abs() < 0.02 * long as f64, "{of_long} of {}", long - equal);
    assert!(of_equal.abs() < equal / 200 && of_quiet.abs() < equal / 200, "{of_equal} {of_quiet}");
    assert!(of_long > long / 10, "{of_long} of {long}");
}

/// The longest stage is named where that costs something. That stages have no peers is said, and nothing else about why one is late.
#[test]
fn the_longest_stage_is_named_where_it_costs_something() {
    let slow = |extra_ns| {
        let how = How::Gpu { kernel: KERNELS[2].to_owned() };
        Late { rank: 3, extra_ns, how, when: When::EveryLayer }
    };
    // Where three ranks are the last stage, and one of them is slow, that one is named instead.
    for (extra_ns, dp, is_longest) in [(1_600_000, 1, true), (20_000, 1, false), (1_600_000, 3, false)] {
        let job = Job { dp, late: Some(slow(extra_ns)), jitter_ns: 5_000, ..pipeline(4, 8, Order::InTurn) };
        let files = Files::new(&job);
        let traces: Vec<String> = (0..4 * dp).map(|rank| files.path(&format!("rank{rank}.json"))).collect();
        let args: Vec<&str> = ["ranks", "--quiet"].into_iter().chain(traces.iter().map(String::as_str)).collect();
        let text = stdout(&run(&args));
        assert_eq!(text.contains("; stage 3 computes longest"), is_longest, "{text}");
        assert_eq!(text.contains("Each rank does other work"), dp == 1, "{text}");
        assert_eq!(text.contains("as fast on rank 3 as on its peers"), dp == 3, "{text}");
        assert!(!text.contains("Nothing here shows why"), "{text}");
    }
}

/// A stage does other work than another one at the same place, and is none of its peers. By day, each order with two of the three jobs.
#[test]
fn stages_are_no_peers_of_each_other() {
    for (number, order) in [Order::Sweep, Order::InTurn, Order::Interleaved { chunks: 2 }].into_iter().enumerate() {
        let is_asked = |job: usize| is_long() || number != job;
        if is_asked(0) {
            let quiet = report(&Job { jitter_ns: 10_000, ..pipeline(4, 8, order) }.make()).reruns.unwrap();
            assert!(quiet.findings.is_empty(), "{order:?}: {:?}", quiet.findings);
        }
        // A CPU that is slower, but waits most of the time; the stages between the first and the last have kernels of the same names.
        let slow = Late { rank: 6, extra_ns: 0, how: How::SlowCpu { factor: 1.5 }, when: When::EveryStep };
        let unimportant = Job { dp: 2, jitter_ns: 20_000, late: Some(slow), ..pipeline(4, 8, order) };
        if is_asked(1) {
            let found = report(&unimportant.make()).reruns.unwrap().findings;
            assert!(found.iter().all(|of| of.ranks == [6]), "{order:?}: {found:?}");
        }
        let how = How::Gpu { kernel: KERNELS[2].to_owned() };
        let late = Some(Late { rank: 5, extra_ns: 300_000, how, when: When::EveryLayer });
        let with = Job { dp: 2, jitter_ns: 10_000, late, ..pipeline(4, 8, order) };
        if is_asked(2) {
            let found = report(&with.make()).reruns.unwrap().findings;
            assert_eq!(found.iter().map(|of| &of.ranks[..]).collect::<Vec<_>>(), [[5]], "{order:?}: {found:?}");
            assert_eq!(found[0].culprit().unwrap().name, KERNELS[2]);
        }
    }
}

/// A rank of a job in which each sends to the next and receives from the one before, the last from the first, and all reduce at the end.
fn ring(rank: u64, ranks: u64) -> Vec<u8> {
    let mut events = Vec::new();
    let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    let group: Vec<u64> = (0..ranks).collect();
    for round in 0..24_u64 {
        let messages = [("send", "Dst Rank", next, 30), ("recv", "Src Rank", before, 28)];
        let order = if rank.is_multiple_of(2) { messages } else { [messages[1], messages[0]] };
        let calls = order.into_iter().map(Some).chain([None]);
        for (at, message) in (0_u64..).zip(calls) {
            let (id, ts) = (3 * round + at + 1, 1000 * round + 200 * at);
            let (collective, stream) = message.map_or(("allreduce", 20), |(name, _, _, stream)| (name, stream));
            let mut args = json!({
                "correlation": id, "stream": stream, "device": 0, "Collective name": collective, "In msg nelems": 1024,
                "Out msg nelems": 1024, "Group size": ranks, "dtype": "Float", "Process Group Name": "0",
                "Process Group Description": "default_pg", "Process Group Ranks": format!("{group:?}"),
            });
            message.into_iter().for_each(|(_, key, peer, _)| args[key] = json!(peer));
            let kernel = if message.is_some() {
                "ncclDevKernel_SendRecv(x)"
            } else {
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"
            };
            events.push(json!({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": 1, "tid": 1,
                "ts": ts, "dur": 10, "args": {"correlation": id}}));
            events.push(json!({"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": stream,
                "ts": ts + 20, "dur": 50, "args": args}));
        }
    }
    let config = json!([{"pg_name": "0", "pg_desc": "default_pg", "pg_size": ranks, "ranks": group}]);
    let info = json!({"backend": "nccl", "rank": rank, "world_size": ranks, "pg_config": config});
    serde_json::to_vec(&json!({"distributedInfo": info, "traceEvents": events})).unwrap()
}

#[test]
fn what_only_exchanges_is_no_pipeline() {
    for ranks in [2, 3, 4] {
        let all = (0..ranks).flat_map(|rank| parts(&format!("rank{rank}.json"), ring(rank, ranks))).collect();
        let report = Compared::from_reductions(all, ClockMode::Align).unwrap().report();
        assert!(report.matches.matched >= 24 * ranks, "{:?}", report.matches);
        assert_eq!(report.pipeline, None, "{ranks} ranks");
    }
    let experts = Job { tp: 2, dp: 4, ep: 4, ..Job::default() };
    assert_eq!(report(&experts.make()).pipeline, None);
    // Stages that only send forward, on clocks that are known.
    let made = Job { tp: 2, pp: 3, ..Job::default() }.make();
    let all = || made.traces.iter().flat_map(|(rank, text)| parts(&format!("rank{rank}.json"), text.clone())).collect();
    let found = Compared::from_reductions(all(), ClockMode::Trust).unwrap().report().pipeline.unwrap();
    assert_eq!((found.stages.len(), found.microbatches, found.schedule), (3, 1.0, Schedule::ForwardOnly));
    assert_adds_up(&found);
    // Where nothing compares the clocks of stages, nothing says how long they wait.
    assert_eq!(Compared::from_reductions(all(), ClockMode::Align).unwrap().report().pipeline, None);
}

/// Too few collectives compare the clocks of the stages, whose hosts are up to a second apart. What they send to each other does.
#[test]
fn messages_in_both_directions_compare_clocks() {
    for (seed, steps) in [(1, 1), (2, 2), (3, 4)] {
        let offsets = Offsets::Random { max_ns: 1_000_000_000 };
        let made = Job { hosts: 4, offsets, steps, jitter_ns: 20_000, seed, ..pipeline(4, 8, Order::InTurn) }.make();
        let report = report(&made);
        let truth = |rank: usize| made.truth.per_rank[rank].offset_ns - made.truth.per_rank[0].offset_ns;
        for (at, rank) in report.ranks.iter().enumerate() {
            let off = rank.offset_ns.unwrap().0 - truth(at);
            assert!(off.abs() <= 5_000, "{steps} steps, rank {at}: {off} ns, {:?}", rank.uncertainty_ns);
        }
        let found = report.pipeline.unwrap();
        assert_eq!((found.microbatches, found.steps), (8.0, u64::from(steps)));
        assert!((found.bubble_share() - closed(4, 8, Order::InTurn)).abs() < 2.0 * MESSAGES, "{found:?}");
    }
}

/// Without a collective that compares clocks, those that are trusted are taken as they are, however late a trace begins.
#[test]
fn trusted_clocks_need_no_collectives() {
    let made = Job { tp: 1, pp: 3, ..Job::default() }.make();
    let all = made.traces.iter().flat_map(|(rank, text)| parts(&format!("rank{rank}.json"), text.clone())).collect();
    let trusted = Compared::from_reductions(all, ClockMode::Trust).unwrap().report();
    assert!(trusted.ranks.iter().all(|rank| rank.offset_ns == Some(Ns::ZERO)), "{:?}", trusted.ranks);
}

/// The messages of a trace that ends early are those of the other ranks' first steps, and the rest is left out.
#[test]
fn a_trace_that_ends_early_leaves_steps_out() {
    let offsets = Offsets::Random { max_ns: 1_000_000 };
    let job = Job { dp: 2, steps: 12, jitter_ns: 20_000, offsets, ..pipeline(4, 8, Order::InTurn) };
    let report = report(&Job { cut: Some((5, 0.5)), ..job }.make());
    // Of a replica of rank 5's, half of the messages of its two neighbours have no other side.
    let lacking = report.matches.unmatched.values().sum::<u64>() + report.matches.partial;
    assert!(lacking < 300, "{:?}", report.matches);
    let found = report.pipeline.unwrap();
    assert_eq!(found.steps + found.steps_left_out, 12);
    assert!((5..=7).contains(&found.steps_left_out), "{found:?}");
    assert_eq!(found.microbatches, 8.0);
    assert!((found.bubble_share() - closed(4, 8, Order::InTurn)).abs() < 2.0 * MESSAGES, "{found:?}");
    assert_adds_up(&found);
}

/// A trace from its second step on.
fn without_first_step(trace: &[u8]) -> Vec<u8> {
    let mut trace: Value = serde_json::from_slice(trace).unwrap();
    let events = trace["traceEvents"].as_array_mut().unwrap();
    let is_step = |event: &&Value| {
        event["cat"] == "user_annotation" && event["name"].as_str().unwrap().starts_with("ProfilerStep#")
    };
    let mut starts: Vec<f64> = events.iter().filter(is_step).map(|event| event["ts"].as_f64().unwrap()).collect();
    starts.sort_by(f64::total_cmp);
    events.retain(|event| event["ph"] == "M" || event["ts"].as_f64().unwrap() >= starts[1]);
    serde_json::to_vec(&trace).unwrap()
}

/// Its first step is the others' second one.
#[test]
fn a_trace_that_begins_a_step_later_has_the_same_steps() {
    let made = Job { dp: 2, steps: 8, jitter_ns: 20_000, ..pipeline(4, 8, Order::InTurn) }.make();
    let part = |(rank, text): &(u32, Vec<u8>)| {
        let text = if *rank == 5 { without_first_step(text) } else { text.clone() };
        parts(&format!("rank{rank}.json"), text)
    };
    let found =
        Compared::from_reductions(made.traces.iter().flat_map(part).collect(), ClockMode::Align).unwrap().report();
    let found = found.pipeline.unwrap();
    assert_eq!((found.steps, found.steps_left_out, found.microbatches), (7, 1, 8.0), "{found:?}");
    assert!((found.bubble_share() - closed(4, 8, Order::InTurn)).abs() < MESSAGES, "{found:?}");
    // All steps are alike, so that 7 of 8 have the same phases.
    let whole = report(&made).pipeline.unwrap();
    for (found, whole) in found.stages.iter().zip(&whole.stages) {
        let share = |time: Ns, of: &Stage| time.share_of(of.length_ns).unwrap();
        assert!(
            (share(found.warm_up_ns, found) - share(whole.warm_up_ns, whole)).abs() < 0.005,
            "{found:?}, {whole:?}"
        );
        assert!((share(found.steady_ns, found) - share(whole.steady_ns, whole)).abs() < 0.005, "{found:?}, {whole:?}");
    }
}
