//! What PyTorch's watchdog prints, in the forms of its versions and as launchers and servers write it.

use nccl_stacks::answers::hang::Outcome;
use nccl_stacks::answers::hang::document::verdict;

use crate::records::hang::judged;

/// The line of a collective that timed out.
fn caught(head: &str, number: u32) -> String {
    format!(
        "{head} Watchdog caught collective operation timeout: WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) \
         ran for 600020 milliseconds before timing out.\n"
    )
}

/// A rank that timed out in an operation, as PyTorch says so from 2.6 on: without the group in the first line, and without `NCCL` in the second.
fn waits(before: &str, group: &str, place: u32, number: u32) -> String {
    let second = format!(
        "{before}[E626 06:24:44.90 ProcessGroupNCCL.cpp:2268] [PG ID 1 PG GUID {group} Rank {place}]  failure detected by watchdog at work sequence id: \
         {number} PG status: last enqueued work: {number}, last completed work: {}\n",
        number - 1
    );
    caught(&format!("{before}[E626 06:24:44.90 ProcessGroupNCCL.cpp:683] [Rank {place}]"), number) + &second
}

/// A rank that was asked for a dump after another one timed out, and how far it got.
fn asked(before: &str, group: &str, place: u32, by: &str, number: u32) -> String {
    format!(
        "{before}[E626 06:24:45.01 ProcessGroupNCCL.cpp:1870] [PG ID 1 PG GUID {group} Rank {place}] Received a dump signal due to a collective timeout from \
         {by} and we will try our best to dump the debug info. Last enqueued NCCL work: {number}, last completed NCCL work: {number}.This is\n"
    )
}

/// The same of three ranks that wait for rank `late`, each line after what a launcher writes.
fn job(before: impl Fn(u32) -> String, late: u32, number: u32) -> String {
    let others = (0..4).filter(|rank| *rank != late);
    let waiting: String = others.map(|rank| waits(&before(rank), "0(default_pg)", rank, number)).collect();
    waiting + &asked(&before(late), "0(default_pg)", late, " rank 0", number - 1)
}

#[test]
fn all_forms_say_who_is_waited_for() {
    let plain = |rank: u32| format!("[rank{rank}]:");
    let engine = |engine: u32, pid: u32| {
        move |rank: u32| format!("(EngineCore_DP{engine} pid={pid}) (Worker_TP{rank} pid={}) [rank{rank}]:", pid + rank)
    };
    let worker =
        |name: &'static str, pid: u32| move |rank: u32| format!("({name}{rank} pid={}) [rank{rank}]:", pid + rank);
    let unnamed = |rank: u32, place: u32, number: u32| {
        caught(&format!("[rank{rank}]:[E626 06:24:44.90 ProcessGroupNCCL.cpp:683] [Rank {place}]"), number)
    };
    let numbered = |rank: u32, place: u32, number: u32| {
        caught(&format!("[rank{rank}]:[E626 06:24:44.90 ProcessGroupNCCL.cpp:565] [PG 1 Rank {place}]"), number)
    };
    let first_only = job(plain, 2, 808).replacen(&waits("[rank3]:", "0(default_pg)", 3, 808), &unnamed(3, 3, 808), 1);
    let nothing_open =
        asked("[rank0]:", "0(default_pg)", 0, " rank 2", 90) + &asked("[rank1]:", "0(default_pg)", 1, " rank 2", 90);
    let two_pipelines: String = (0..8).map(|rank| numbered(rank, rank % 4, if rank < 4 { 33 } else { 10 })).collect();
    let cases: [(&str, String, &[u32], &str); 13] = [
        ("2.6", job(plain, 2, 808), &[2], "The job hangs on rank 2: it did not enqueue"),
        ("one line of a rank is lost", first_only, &[2], "in all_reduce 808 of default_pg 0"),
        // A launcher's rank is that on its node.
        ("a rank of the launcher", job(|rank| format!("[rank{}]:[rank{rank}]:", rank % 2), 3, 808), &[3], "on rank 3"),
        ("an actor's rank", job(|rank| format!("(Worker[rank=97] pid=3) [rank{rank}]:"), 1, 808), &[1], "on rank 1"),
        // Digits of the last number may be lost: 80 of 807.
        (
            "cut in a number",
            job(plain, 2, 808).split_once("work: 807, last completed NCCL").unwrap().0.to_owned() + "work: 80",
            &[],
            "Unclear: ",
        ),
        (
            "two engines",
            job(engine(0, 100), 3, 500) + &job(engine(1, 200), 1, 700),
            &[3],
            "all_reduce 500 of default_pg 0",
        ),
        (
            "two engines, in the names of workers",
            job(worker("Worker_DP0_TP", 100), 3, 500) + &job(worker("Worker_DP1_TP", 200), 1, 700),
            &[3],
            "all_reduce 500 of default_pg 0",
        ),
        // Workers with names of their own ranks are one job.
        ("one engine", job(worker("Worker_TP", 100), 3, 500), &[3], "all_reduce 500 of default_pg 0"),
        (
            "two jobs without names",
            job(plain, 3, 500) + &job(plain, 1, 700),
            &[],
            "Unclear: collectives timed out on ranks 0-3, and nothing says in which group",
        ),
        // A timeout is never "No hang".
        (
            "nothing open where the log looks",
            nothing_open,
            &[],
            "Unclear: collectives timed out on rank 2, and nothing says in which group",
        ),
        (
            "groups without names, of other places",
            unnamed(0, 0, 96117) + &unnamed(4, 0, 96117),
            &[],
            "Unclear: collectives timed out on ranks 0 and 4,",
        ),
        (
            "groups without names, far apart",
            unnamed(0, 0, 96117) + &unnamed(7, 7, 64088),
            &[],
            "Unclear: collectives timed out on ranks 0 and 7,",
        ),
        // Before 2.4 each process numbers its groups.
        ("two groups of one number", two_pipelines, &[], "in 2 groups operations are incomplete"),
    ];
    for (name, text, culprits, said) in cases {
        let report = judged(&[("train.log", text.clone())]);
        let outcome = if culprits.is_empty() { Outcome::Unclear } else { Outcome::Hung };
        let found = verdict(&report);
        assert_eq!((report.outcome, &report.culprits[..]), (outcome, culprits), "{name}: {found}\n{text}");
        assert!(found.contains(said), "{name}: {found}");
    }
}

/// Lines of December are older than those of January.
#[test]
fn a_run_of_the_new_year_is_the_last_one() {
    let plain = |rank: u32| format!("[rank{rank}]:");
    let old = job(plain, 3, 500).replace("[E626 ", "[E1231 ");
    let new = job(plain, 1, 20).replace("[E626 ", "[E101 ");
    for text in [old.clone() + &new, new + &old] {
        let report = judged(&[("train.log", text)]);
        assert_eq!(report.culprits, [1], "{}", verdict(&report));
    }
}

/// A rank that failed is said first. Where it left no records of what all others wait in, it is what they wait for.
#[test]
fn ranks_that_failed_are_said_first() {
    let before = |rank: u32| format!("[rank{rank}]:");
    let waiting: String = [0, 1, 3].map(|rank| waits(&before(rank), "0(default_pg)", rank, 808)).concat();
    let memory = "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.35 GiB.\n";
    let report = judged(&[("train.log", waiting.clone() + memory)]);
    let failed = "The log says of rank 2: torch.OutOfMemoryError: CUDA out of memory. The job hangs: ranks 0, 1 and 3 wait for rank 2, which left no records";
    assert!(verdict(&report).starts_with(failed), "{}", verdict(&report));
    assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Hung, &[2][..]));
    let without = judged(&[("train.log", waiting.clone())]);
    assert!(verdict(&without).ends_with("There are no records of rank 2, which may be what they wait for."));
    // A rank that waits with the others, or is of no group that waits, is no culprit by that.
    for (rank, waiting) in [(3, waiting.as_str()), (5, &waiting.replace("default_pg", "tp"))] {
        let report = judged(&[("train.log", waiting.to_owned() + &memory.replace("rank2", &format!("rank{rank}")))]);
        assert_eq!((report.outcome, report.culprits.len()), (Outcome::Unclear, 0), "{}", verdict(&report));
    }
    // What ended an earlier run says nothing of the last one.
    let earlier: String = [0, 1, 3].map(|rank| waits(&before(rank), "0(default_pg)", rank, 500)).concat();
    let later =
        judged(&[("train.log", memory.to_owned() + &earlier + &job(before, 1, 20).replace("[E626 ", "[E627 "))]);
    assert!(verdict(&later).starts_with("The job hangs on rank 1: "), "{}", verdict(&later));
    let alone = judged(&[("train.log", memory.to_owned())]);
    let failed = "The log says of rank 2: torch.OutOfMemoryError: CUDA out of memory.";
    assert_eq!((alone.outcome, verdict(&alone).as_str()), (Outcome::Unclear, failed));
}

/// The table has the operation in which a rank waits, not the last that it enqueued.
#[test]
fn a_rank_waits_in_its_oldest_operation() {
    let lines = |rank: u32| {
        waits(&format!("[rank{rank}]:"), "0(default_pg)", rank, 808).replace("enqueued work: 808", "enqueued work: 811")
    };
    let whole = lines(0);
    let second = lines(1).lines().nth(1).unwrap().to_owned() + "\n";
    let report = judged(&[("train.log", whole + &second)]);
    let cells: Vec<Option<i64>> = report.matrix[0].cells.iter().map(|cell| cell.sequence).collect();
    assert_eq!(cells, [Some(808), Some(808)]);
}

/// Libraries of other devices have a watchdog with the same words and another name.
#[test]
fn other_libraries_have_the_same_watchdog() {
    let before = |rank: u32| format!("[rank{rank}]:");
    let ascend = |rank: u32, number: u32| {
        format!(
            "[rank{rank}]:[E324 13:00:25.428029551 compiler_depend.ts:574] [Rank {rank}] Watchdog caught collective operation timeout: \
             WorkHCCL(SeqNum={number}, OpType=ALLREDUCE, Timeout(ms)=3600000) ran for 3600185 milliseconds before timing out.\n"
        )
    };
    for text in [
        job(before, 2, 808).replace("NCCL", "XCCL"),
        job(before, 2, 808).replace("WorkNCCL", "WorkXCCL"),
        ascend(0, 196) + &ascend(1, 196) + &ascend(2, 195),
    ] {
        let report = judged(&[("train.log", text)]);
        assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Hung, &[2][..]), "{}", verdict(&report));
    }
}

/// `TORCH_NCCL_DESYNC_DEBUG=1`: the rank that times out says how far all others got.
#[test]
fn a_report_of_one_rank_says_how_far_all_got() {
    let first = caught("[E ProcessGroupNCCL.cpp:821] [Rank 1]", 4);
    let newer = caught("[rank1]:[E626 06:24:44.90 ProcessGroupNCCL.cpp:683] [Rank 1]", 4)
        + "[rank1]:[E626 06:24:44.90 ProcessGroupNCCL.cpp:1234] [PG ID 0 PG GUID 0(default_pg) Rank 1] \n";
    let of_group = newer.replace("0(default_pg) Rank 1", "3(tp) Rank 0").replace("[Rank 1]", "[Rank 0]");
    let late = "\t - [1] Timeout at collective: ALLREDUCE, #4\n\
                \t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n\
                \t     [0] finished collective #3, but didn't join collective #4 (count from 1)\n\
                \t - Snapshot of ranks' latest states:\n\
                \t   #3 finished ranks:\n\t     [0] finished ALLREDUCE\n\
                \t   #4 started ranks:\n\t     [1, 2, 3] started ALLREDUCE\n";
    let stuck = "\t   - [2] joined but didn't finish collective #3 (count from 1)\n\
                 \t   #3 started ranks:\n\t     [2] started ALLREDUCE\n\
                 \t   #4 started ranks:\n\t     [0, 1, 3] started ALLREDUCE\n";
    let never = "\t - To our best knowledge, ranks [5, 6] are the lagging ranks that caused this timeout. They never joined any collectives\n";
    for (text, culprits, said) in [
        (first.clone() + late, &[0][..], "on rank 0: it did not enqueue what its peers wait in, as in all_reduce 4 of"),
        (newer.clone() + late, &[0], "as in all_reduce 4 of default_pg 0"),
        // What a rank says of itself comes first.
        (newer.clone() + late + &waits("[rank0]:", "0(default_pg)", 0, 4), &[], "Unclear: "),
        // Which ranks of the job those of a part are, the report does not say.
        (of_group + late, &[], "first all_reduce 4 of tp 3"),
        (first.clone() + stuck, &[2], "on rank 2: it has not finished what its peers have, as in all_reduce 3"),
        (first.clone() + never, &[], "Ranks 5 and 6 wait in nothing, and they enqueued nothing there: either rank 1"),
        (late.to_owned() + &newer, &[], "Unclear: "),
    ] {
        let report = judged(&[("train.log", text.clone())]);
        assert_eq!(report.culprits, culprits, "{text}{}", verdict(&report));
        assert!(verdict(&report).contains(said), "{}", verdict(&report));
    }
}
