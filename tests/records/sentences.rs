//! What programs beside the watchdog say of ranks that others wait for.

use nccl_stacks::answers::hang::Outcome;
use nccl_stacks::answers::hang::document::verdict;

use crate::records::hang::judged;

/// Texts, with the outcome, the ranks at fault, and what is said.
fn check(cases: &[(&str, Outcome, &[u32], &str)]) {
    for (text, outcome, culprits, said) in cases {
        let report = judged(&[("train.log", format!("{text}\n"))]);
        let found = verdict(&report);
        assert_eq!((report.outcome, &report.culprits[..]), (*outcome, *culprits), "{text}\n{found}");
        assert!(found.contains(said), "{found}");
    }
}

#[test]
fn sentences_that_name_ranks_say_who_is_awaited() {
    let barrier = "did not reach a monitored_barrier in which others waited";
    let id = "is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: \
              wait timeout after 600000ms, keys: /default_pg/0//cuda//0";
    check(&[
        (
            "[rank0]: RuntimeError: [Rank 0]: Ranks 4, 5, 6, 7 failed to pass monitoredBarrier in 2000000 ms",
            Outcome::Hung,
            &[4, 5, 6, 7],
            &format!("The job hangs on ranks 4-7: by the log, they {barrier}."),
        ),
        (
            "[E ProcessGroupGloo.cpp:2791] [Rank 0]: Rank 1 failed to pass monitoredBarrier in 2000 ms",
            Outcome::Hung,
            &[1],
            barrier,
        ),
        // The barrier of a group has its own numbers.
        (
            "[rank8]: RuntimeError: [Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 120000 ms",
            Outcome::Unclear,
            &[],
            "The log says of rank 8: it waited for what rank 1, 2 of its group did not reach",
        ),
        (
            &format!(
                "[rank1]: DistBackendError: [1] {id}\n[rank3]: DistBackendError: [3] {}",
                id.replace("iev", "eiv")
            ),
            Outcome::Hung,
            &[0],
            "by the log, it gave no ncclUniqueId, for which others waited.",
        ),
        (
            "RuntimeError: eval: timed out waiting for ranks [2, 5]",
            Outcome::Hung,
            &[2, 5],
            "on ranks 2 and 5: by the log, they did not come where others waited",
        ),
        (
            "[rank3]:[E1028 12:13:38.405081 ProcessGroupNCCL.cpp:1412] [PG ID 0 PG GUID 0(default_pg) Rank 3] Heartbeat monitor timed out! Process will be \
             terminated after dumping debug info. workMetaList_.size()=1",
            Outcome::Unclear,
            &[],
            "The log says of rank 3: Heartbeat monitor timed out.",
        ),
    ]);
}

/// Horovod warns each minute of what is stalled then. It is proved once it gives up.
#[test]
fn a_stall_is_one_until_it_is_over() {
    let warned = "W horovod/common/stall_inspector.cc:105] One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are \
                  waiting for remainder of ranks for more than 60 seconds. This may indicate that";
    let list = format!(
        "[1,0]<stderr>:{warned}\n[1,0]<stderr>:Missing ranks:\n[1,0]<stderr>:0: [grads_0, grads_1 ...]\n[1,0]<stderr>:2: [grads_1]\n"
    );
    check(&[
        (
            &list,
            Outcome::Lagging,
            &[],
            "By the log, rank 0 did not submit grads_0; rank 2 did not submit grads_1. This alone does not show",
        ),
        (
            &format!("{list}{warned}\nMissing ranks:\n3: [grads_7]\n4 steps: [done]"),
            Outcome::Lagging,
            &[],
            "By the log, rank 3 did not submit grads_7. This",
        ),
        (
            &format!(
                "{warned}\nStalled ops:Broadcast_bias_0 [missing ranks: 1, 3]\nW operations.cc:588] kernel_0 [missing ranks: 1]"
            ),
            Outcome::Lagging,
            &[],
            "By the log, ranks 1 and 3 did not submit Broadcast_bias_0. This",
        ),
        (
            &format!(
                "{warned}\nStalled ranks:\n1!: [allreduce.noname.17]\nOne or more rank (marked by \"!\") is stalled for longer than 120 seconds. Will shutdown."
            ),
            Outcome::Hung,
            &[1],
            "The job hangs on rank 1: by the log, it did not submit allreduce.noname.17.",
        ),
    ]);
}

/// With `TORCH_DISTRIBUTED_DEBUG=DETAIL` each rank that finds another call prints both.
#[test]
fn calls_that_ranks_print_are_compared() {
    let call = |number: u32, name: &str, shape: &str| {
        format!(
            "CollectiveFingerPrint(SequenceNumber={number}, OpType={name}, TensorShape=[{shape}], TensorDtypes=Float, TensorDeviceTypes=x)"
        )
    };
    let differ = |own: u32, of_own: &str, other: u32, of_other: &str| {
        format!(
            "[rank{own}]: RuntimeError: Detected mismatch between collectives on ranks. Rank {own} is running collective: {of_own}, but Rank {other} is running \
             collective: {of_other}.Collectives differ in the following aspects:\n"
        )
    };
    let (most, odd) = (call(5, "ALLREDUCE", "20, 10"), call(5, "REDUCE", "20, 10"));
    let three: String = [0, 2, 3].map(|rank| differ(rank, &most, 1, &odd)).concat() + &differ(1, &odd, 0, &most);
    let sizes = differ(1, &call(3104, "ALLREDUCE", "8"), 0, &call(3104, "ALLREDUCE", "6"));
    let fewer = "CollectiveFingerPrint(SequenceNumber=0OpType=REDUCE)";
    let of_group = differ(0, &most, 1, &odd).replace("[rank0]", "[rank4]");
    check(&[
        (
            &three,
            Outcome::Hung,
            &[1],
            "The job hangs on rank 1: it made a different call than the others, as in all_reduce 5",
        ),
        (
            &sizes,
            Outcome::Hung,
            &[],
            "In all_reduce 3104 rank 1 has 8 elements, and rank 0 6 elements; nothing says who",
        ),
        (&differ(1, &call(101, "ALLGATHER", "1"), 7, fewer), Outcome::Hung, &[7], "on rank 7: it did not enqueue"),
        // Numbers that began at random are not compared.
        (
            &differ(0, &call(683_057_617, "BROADCAST", "1"), 1, &call(51_387_681, "REDUCE", "1")),
            Outcome::Hung,
            &[],
            "nothing says who is right",
        ),
        (&of_group, Outcome::Hung, &[], "The job hangs in the group that TORCH_DISTRIBUTED_DEBUG compared. "),
        (
            "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running inconsistent collective: \
             CollectiveFingerPrint(OpType=BROADCAST, TensorShape=[34112], TensorDtypes=Float)",
            Outcome::Unclear,
            &[],
            "The log says of rank 0: broadcast is not what others of its group called.",
        ),
    ]);
}
