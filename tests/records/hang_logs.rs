//! Who holds a job up by sources that count without states: RAS, and logs of calls.

use std::io::Cursor;

use nccl_stacks::answers::OnPage;
use nccl_stacks::answers::hang::document::{HangAnswer, verdict};
use nccl_stacks::answers::hang::{EvidenceKind, HangReport, Outcome, hang};
use nccl_stacks::document::{Answer, Form, Screen};
use nccl_stacks::operation::Source;
use nccl_stacks::records::{Keep, Records, read_as};

use crate::records::hang::{answer, judged, shows};
use crate::support::program::{has, run, stdout};

/// A call: the function, its number and its size.
type Call<'a> = (&'a str, u64, u64);

/// A log of NCCL of all ranks of one communicator, each a process.
fn log(ranks: &[(u32, &[Call<'_>])]) -> String {
    log_of(ranks.len(), ranks)
}

/// The same of some of its ranks.
fn log_of(size: usize, ranks: &[(u32, &[Call<'_>])]) -> String {
    let mut text = String::new();
    for (rank, calls) in ranks {
        let head = format!("node:{}:1 [0] NCCL INFO", 100 + rank);
        text += &format!(
            "{head} ncclCommInitRank comm 0x5600 rank {rank} nranks {size} cudaDev 0 busId 1000 commId 0xabcd - Init COMPLETE\n"
        );
        for (function, number, count) in *calls {
            text += &format!(
                "{head} {function}: opCount {number:x} sendbuff 0x7f recvbuff 0x7f count {count} datatype 7 op 0 root 0 comm 0x5600 \
                 [nranks={size}] stream 0x55\n"
            );
        }
    }
    text
}

fn records(text: String, keep: Keep) -> Records {
    read_as(Source::DEBUG_LOG, "nccl.log", Box::new(Cursor::new(text.into_bytes())), keep)
}

fn judge(text: String, keep: Keep) -> HangReport {
    hang(&records(text, keep))
}

fn shown(report: &HangReport) -> String {
    let mut text = Vec::new();
    let screen = Screen { verbose: true, ..Screen::default() };
    HangAnswer { report, name: "", on_page: OnPage::default() }.write(Form::Text, &screen, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// What the watchdog prints on a rank: of which operation the time is over, if of any, and the last that it enqueued.
fn timeout(rank: u32, group: &str, operation: Option<&str>, last: u32) -> String {
    let head = |line: u32| {
        format!("[rank{rank}]:[E626 06:24:44.9 ProcessGroupNCCL.cpp:{line}] [PG ID 0 PG GUID {group} Rank {rank}]")
    };
    let caught = operation.map_or(String::new(), |of| {
        format!(
            "{} Watchdog caught collective operation timeout: WorkNCCL(SeqNum={last}, OpType={of}, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for \
             600020 milliseconds before timing out.\n",
            head(616)
        )
    });
    let done = if operation.is_some() { last - 1 } else { last };
    let at = if operation.is_some() {
        format!("Exception (either an error or timeout) detected by watchdog at work: {last}, last")
    } else {
        "Last".to_owned()
    };
    format!("{caught}{} {at} enqueued NCCL work: {last}, last completed NCCL work: {done}.\n", head(1785))
}

/// The watchdog's time is over, so that the job does not run. Which ranks a group has is known of the group of all alone: up to the last rank.
#[test]
fn a_timeout_is_no_running_job() {
    let all = |ranks: &[u32]| {
        ranks.iter().map(|rank| timeout(*rank, "0(default_pg)", Some("ALLREDUCE"), 55)).collect::<String>()
    };
    let pipeline =
        [timeout(0, "5(pp)", Some("SEND"), 12), timeout(1, "5(pp)", None, 11), timeout(2, "5(pp)", Some("RECV"), 12)]
            .concat();
    let part = timeout(0, "5(pp)", Some("ALLREDUCE"), 12) + &timeout(2, "5(pp)", Some("ALLREDUCE"), 12);
    let slow = "This may be a slow or broken link, or a rank that is not in these records: the job does not run, as the watchdog's time is over.";
    let of_group =
        "that all ranks with records have enqueued, first all_reduce 12 of pp 5. This may be a slow or broken link, or";
    let of_pipeline = "operations are incomplete, first send of pp 5. Rank 1 does not wait in this group, and may be what ranks 0 and 2 \
                       wait for.";
    for (text, unknown, said) in [
        (all(&[0, 1, 2, 3]), &[][..], slow),
        (all(&[0, 1, 3]), &[2], "There are no records of rank 2, which may be what they wait for."),
        (part, &[], of_group),
        (pipeline, &[], of_pipeline),
    ] {
        let report = judged(&[("train.log", text)]);
        assert_eq!((report.outcome, &report.ranks_without_records[..]), (Outcome::Unclear, unknown), "{report:?}");
        has(&verdict(&report), said);
        assert!(!verdict(&report).contains("running job"), "{}", verdict(&report));
    }
}

/// Whether the watchdog says it or two answers of RAS: one rank has made a call that the others have not.
#[test]
fn of_a_rank_that_is_ahead_nothing_says_who_is_right() {
    let counts = |most: usize| [0, 1, 2, 3].map(|rank| (rank, if (rank as usize) < most { 10 } else { 9 }));
    let answers = |most| vec![("a", answer("01", &counts(most))), ("b", answer("02", &counts(most)))];
    let default = |most: u32| {
        (0..4).map(move |rank| match rank < most {
            true => timeout(rank, "0(default_pg)", Some("ALLREDUCE"), 10),
            false => timeout(rank, "0(default_pg)", None, 9),
        })
    };
    for (files, said) in [
        (
            answers(1),
            "Rank 0 alone has enqueued 10 all_reduce, and ranks 1-3 9: either rank 0 made a call too many, or ranks 1-3 one too few.",
        ),
        (answers(2), "The job hangs on ranks 2 and 3 of communicator 0xabc"),
        (
            vec![("train.log", default(1).collect())],
            "Rank 0 alone waits in all_reduce 10. Ranks 1-3 wait in nothing, and the last they enqueued is 9: either rank 0",
        ),
        (vec![("train.log", default(2).collect())], "The job hangs on ranks 2 and 3: they did not enqueue"),
    ] {
        has(&verdict(&judged(&files)), said);
    }
}

/// Sizes of collectives that gather say how many ranks a group has. Which these are, and which do nothing, the other lines may show.
#[test]
fn ranks_that_are_not_in_a_log_are_looked_for() {
    let gathers = |ranks: &[u32], of: u32| {
        let all = ranks.iter().map(|rank| timeout(*rank, "3(fsdp)", Some("_ALLGATHER_BASE"), 55)).collect::<String>();
        all.replace("NumelOut=8", &format!("NumelOut={}", 8 * of))
    };
    let idle = |rank: u32| timeout(rank, "0(default_pg)", None, 9);
    for (text, unknown, said) in [
        // Of 8 ranks 5 are missing, of 4 none, and of a group that may be anywhere some.
        (
            gathers(&[0, 3, 4], 8),
            &[1, 2, 5, 6, 7][..],
            "of which 3 are in these records. There are no records of ranks 1, 2 and 5-7,",
        ),
        (gathers(&[0, 1, 2, 3], 4), &[], "of fsdp 3. This may be a slow or broken link: the job does not run"),
        (
            gathers(&[8, 11], 8),
            &[],
            "By its sizes that group has 8 ranks, of which 2 are in these records. Look at the others first.",
        ),
        (
            gathers(&[0, 1, 3], 1) + &idle(2),
            &[],
            "Rank 2 does not wait in this group, and may be what ranks 0, 1 and 3 wait for.",
        ),
        (gathers(&[5], 1), &[], "No other rank is in these records, so that they do not show what it waits for."),
        (
            gathers(&[0, 1], 4).replace("3(fsdp)", "0(default_pg)"),
            &[2, 3],
            "There are no records of ranks 2 and 3, which may be what they wait for.",
        ),
    ] {
        let report = judged(&[("train.log", text)]);
        assert_eq!((report.outcome, &report.ranks_without_records[..]), (Outcome::Unclear, unknown), "{report:?}");
        has(&verdict(&report), said);
    }
}

/// Several collectives in one have sizes that tell them from sends and receives, which may be of any size.
#[test]
fn sizes_of_coalesced_collectives_are_compared() {
    for (sizes, culprits) in [
        ([(8, 32), (8, 32), (9, 36), (8, 32)], &[2][..]),
        ([(32, 8), (32, 8), (36, 9), (32, 8)], &[2]),
        ([(8, 8), (8, 8), (9, 9), (8, 8)], &[]),
        ([(0, 0), (8, 32), (8, 32), (u64::MAX, u64::MAX)], &[]),
    ] {
        let text = (0..4).zip(sizes).map(|(rank, (input, output))| {
            let text = timeout(rank, "3(fsdp)", Some("COALESCED"), 55);
            text.replace("NumelIn=8, NumelOut=8", &format!("NumelIn={input}, NumelOut={output}"))
        });
        let report = judged(&[("train.log", text.collect())]);
        assert_eq!(report.culprits, culprits, "{sizes:?}");
    }
}

/// The numbers of sends and receives are the rank's own: nothing is compared with the others' collectives.
#[test]
fn a_rank_that_sends_does_not_show_how_far_its_collectives_are() {
    let text = timeout(0, "0(default_pg)", Some("SEND"), 15)
        + &timeout(1, "0(default_pg)", Some("RECV"), 16)
        + &timeout(2, "0(default_pg)", Some("ALLREDUCE"), 15);
    let report = judged(&[("train.log", text)]);
    assert_eq!((report.outcome, report.culprits.len()), (Outcome::Unclear, 0), "{report:?}");
    has(&shown(&report), "rank 2 in all_reduce 15, rank 1 in recv, rank 0 in send");
}

/// Each rank has a count of its own, and each count all the same peers.
#[test]
fn ranks_that_all_count_differently_take_no_more_memory_than_their_number() {
    let calls: Vec<(u32, [Call<'_>; 1])> =
        (0..4000).map(|rank| (rank, [("AllReduce", u64::from(rank.min(2500)), 8)])).collect();
    let ranks: Vec<(u32, &[Call<'_>])> = calls.iter().map(|(rank, calls)| (*rank, &calls[..])).collect();
    let report = judge(log(&ranks), Keep::All);
    let group = &report.lagging[0];
    assert_eq!((group.missing_ranks.len(), group.evidence.len(), group.evidence_left_out), (2500, 100, 2400));
    // Those furthest from the others are kept.
    assert_eq!((&group.evidence[0].ranks[..], group.evidence[0].peers.len()), (&[0][..], 1500));
    assert!(shown(&report).contains("2,400 more differences between ranks are left out"), "{}", shown(&report));
    let counts: Vec<(u32, u64)> = (0..3000).map(|rank| (rank, u64::from(rank.min(2500)))).collect();
    let report = judged(&[("ras", answer("01", &counts))]);
    let group = &report.lagging[0];
    assert_eq!((group.missing_ranks.len(), group.evidence.len(), group.evidence_left_out), (2500, 100, 2400));
}

#[test]
fn a_rank_that_no_longer_answers_has_not_moved() {
    let before = answer("01", &[(0, 9), (1, 9), (2, 8), (3, 9)]);
    let after = answer("02", &[(0, 9), (2, 8), (3, 9)])
        .replace("\"missing_ranks\":[]", "\"missing_ranks\":[{\"rank\": 1, \"status\": {\"unresponsive\": true}}]");
    let report = judged(&[("a", before), ("b", after)]);
    assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Hung, &[1, 2][..]));
    assert!(!shows(&report.hung[0], EvidenceKind::Progress) && shows(&report.hung[0], EvidenceKind::Fault));
}

#[test]
fn of_frozen_counts_the_lowest_are_waited_for() {
    let counts = [(0, 100), (1, 98), (2, 99), (3, 100)];
    let report = judged(&[("a", answer("01", &counts)), ("b", answer("02", &counts))]);
    has(&shown(&report), "No count moved between the last two answers, 60.0 s apart.");
    // Rank 2 may not have gone on because of rank 1.
    assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Hung, &[1][..]));
    assert_eq!((&report.hung[0].missing_ranks[..], &report.hung[0].waiting_ranks[..]), (&[1, 2][..], &[0, 2, 3][..]));
}

/// What is said of ranks that have called less, by two answers: how many seconds apart, and the counts of ranks 0 to 3.
#[test]
fn two_answers_show_who_moved() {
    let counts = |of: [u64; 4]| (0..4).zip(of).collect::<Vec<(u32, u64)>>();
    let (one, two) = ([64, 64, 60, 64], [64, 60, 60, 64]);
    for (seconds, before, after, said) in [
        ("59", one, [94, 94, 64, 94], "It moves, so this is slow and no hang."),
        ("59", two, [94, 64, 64, 94], "They move, so this is slow and no hang."),
        ("59", one, [94, 94, 60, 94], "It called nothing in 59.0 s while its peers went on: it may hang."),
        ("59", two, [94, 60, 60, 94], "They called nothing in 59.0 s while others went on: they may hang."),
        ("59", two, [94, 70, 60, 94], "Of these rank 2 called nothing in 59.0 s while others went on: it may hang."),
        ("19", one, one, "No count moved in 19.0 s, which is too short to show whether it is stuck or slow."),
        ("20", one, one, ""),
    ] {
        let later = answer("01", &counts(after)).replace("00:01:00", &format!("00:01:{seconds}"));
        let report = judged(&[("a", answer("01", &counts(before))), ("b", later)]);
        // In 20 s it is a hang.
        let outcome = if said.is_empty() { Outcome::Hung } else { Outcome::Lagging };
        assert_eq!(report.outcome, outcome, "{before:?} {after:?}");
        has(&verdict(&report), said);
        assert_eq!(shown(&report).contains("ask again after a minute"), seconds == "19", "{}", shown(&report));
    }
    // All ranks are reported, so that none holds the others up.
    let all = answer("01", &counts([0; 4])).replace("\"cuda_dev\"", "\"status\":{\"init_state\":7},\"cuda_dev\"");
    has(&verdict(&judged(&[("a", all.clone())])), "All ranks are, so that this does not show which one");
    let one = all.replacen("\"init_state\":7", "\"init_state\":0", 1);
    has(&verdict(&judged(&[("a", one)])), "Their peers cannot go on without them.");
}

/// A rank that was in an answer and is not in the next has left: only an answer with a time, as JSON is, lists all ranks.
#[test]
fn a_rank_that_is_in_no_answer_any_more_is_said() {
    let before = answer("01", &[(0, 9), (1, 9), (2, 9), (3, 9)]);
    for (counts, left) in [([(0, 9), (2, 9), (3, 9)], &[1][..]), ([(0, 9), (1, 9), (2, 9)], &[3])] {
        let report = judged(&[("a", before.clone()), ("b", answer("02", &counts))]);
        assert_eq!((report.outcome, &report.lagging[0].missing_ranks[..]), (Outcome::Lagging, left));
        assert!(shows(&report.lagging[0], EvidenceKind::NoAnswer));
        has(&verdict(&report), "is not in the last: its process has ended, or has destroyed the communicator.");
    }
    let fewer = answer("01", &[(0, 9), (2, 9), (3, 9)]);
    let report = judged(&[("a", fewer), ("b", before.replace("00:01:00", "00:02:00"))]);
    assert!(report.lagging.is_empty(), "{report:?}");
}

/// An answer about two groups of two processes each, of which process 1002 is in both: by count of each place.
fn two_groups(time: &str, tp: [u64; 2], dp: [u64; 2]) -> String {
    let group = |hash: &str, of: [(u32, u64); 2]| {
        let ranks: Vec<String> = of
            .iter()
            .enumerate()
            .map(|(rank, (pid, count))| {
                let gpu = pid - 1000;
                format!(r#"{{"rank":{rank},"host":"h","pid":{pid},"cuda_dev":{gpu},"collective_counts":{{"AllReduce":{count}}}}}"#)
            })
            .collect();
        format!(r#"{{"hash":"{hash}","size":2,"ranks":[{}],"missing_ranks":[]}}"#, ranks.join(","))
    };
    let (tp, dp) = (group("0x101", [(1002, tp[0]), (1003, tp[1])]), group("0x200", [(1000, dp[0]), (1002, dp[1])]));
    format!(
        r#"{{"nccl_version":"2.28.9","timestamp":"2026-01-01 00:{time}:00","communicators_count":2,"communicators":[{tp},{dp}]}}"#
    )
}

/// No communicator has all processes, so that no rank of the job is known; waiting is followed by process all the same.
#[test]
fn a_process_that_waits_in_one_group_is_at_fault_in_none() {
    let text = [two_groups("01", [10, 9], [5, 4]), two_groups("02", [10, 9], [5, 4])].concat();
    let report = judged(&[("ras", text)]);
    has(&verdict(&report), "The job hangs on rank 1 of communicator 0x101: it did not enqueue what its peers wait in");
    let of: Vec<_> = report.hung.iter().map(|of| (of.name.group.as_str(), &of.culprits[..], of.distance)).collect();
    assert_eq!(of, [("communicator 0x101", &[1][..], Some(0)), ("communicator 0x200", &[][..], Some(1))]);
    assert!(!shown(&report).contains("--pid PID"), "{}", shown(&report));
    // Process 1002 is ahead in neither.
    let text = [two_groups("01", [9, 10], [5, 4]), two_groups("02", [9, 10], [5, 4])].concat();
    has(&verdict(&judged(&[("ras", text)])), "The job hangs on process 1002 (h, GPU 2), rank 0 of communicator 0x101.");
    // One answer: the process that has gone on elsewhere may wait there.
    let report = judged(&[("ras", two_groups("01", [10, 9], [5, 4]))]);
    let said = verdict(&report);
    assert!(said.starts_with("In communicator 0x101: Rank 1 lags by 1 all_reduce"), "{said}");
    let further = "In 1 further group ranks have done less than others, too; rank 1 of communicator 0x200 may only wait for that.";
    has(&said, further);
    let said = verdict(&judged(&[("ras", two_groups("01", [10, 10], [5, 4]))]));
    assert!(!said.contains("further group") && said.starts_with("In communicator 0x200"), "{said}");
}

#[test]
fn ranks_of_two_communicators_are_not_the_same() {
    let both = |time: &str| {
        let one = answer(time, &[(0, 9), (1, 8), (2, 9), (3, 9)]);
        let other = answer(time, &[(0, 9), (1, 9), (2, 9), (3, 7)]).replace("0xabc", "0xdef");
        [one, other]
    };
    let ([one, other], [later, other_later]) = (both("01"), both("02"));
    let report = judged(&[("a", one), ("b", other), ("c", later), ("d", other_later)]);
    let sentence = verdict(&report);
    assert_eq!(sentence, "The job hangs on rank 1 of communicator 0xabc; rank 3 of communicator 0xdef.");
    let of: Vec<_> = report.hung.iter().map(|group| (group.name.group.as_str(), &group.culprits[..])).collect();
    assert_eq!(of, [("communicator 0xabc", &[1][..]), ("communicator 0xdef", &[3][..])]);
}

#[test]
fn a_rank_that_never_called_is_after_the_others() {
    let calls: &[Call<'_>] = &[("AllReduce", 0, 8), ("AllReduce", 1, 8)];
    let report = judge(log(&[(0, calls), (1, calls), (2, &[]), (3, calls)]), Keep::All);
    assert_eq!((report.outcome, report.lagging.len()), (Outcome::Lagging, 1));
    assert_eq!(report.lagging[0].missing_ranks, [2]);
    let text = shown(&report);
    has(&text, "Rank 2 lags: nothing against 1 on ranks 0, 1 and 3.");
}

/// With sends the numbers say nothing, and calls are counted; of long logs all of them, and not those that are kept.
#[test]
fn calls_that_are_not_kept_are_counted() {
    let of_all: Vec<Call<'_>> = (0..20).map(|number| ("AllReduce", number, 8)).chain([("Send", 20, 8)]).collect();
    let fewer = [&of_all[..12], &of_all[20..]].concat();
    let text = log(&[(0, &of_all), (1, &fewer)]);
    for keep in [Keep::All, Keep::Last(6)] {
        let report = judge(text.clone(), keep);
        let of = &report.lagging[0].evidence[0];
        let found = (report.outcome, of.kind, &of.ranks[..]);
        assert_eq!(found, (Outcome::Lagging, EvidenceKind::FewerCalls, &[1][..]), "{keep:?}");
        assert_eq!((of.here.as_deref(), of.there.as_deref()), (Some("12"), Some("20")));
    }
}

#[test]
fn a_call_that_is_cut_off_is_no_other_call() {
    // Two calls under each number. Rank 1 made one more of the next number, so that the six that are kept begin within a number.
    let calls: Vec<Call<'_>> =
        (0..6).flat_map(|number| [("AllGather", number, 8), ("ReduceScatter", number, 8)]).collect();
    let longer = [&calls[..], &[("AllGather", 6, 8)]].concat();
    let report = judge(log(&[(0, &calls), (1, &longer)]), Keep::Last(6));
    assert_eq!((report.outcome, report.hung.len()), (Outcome::Lagging, 0), "{:?}", report.hung);
    // Rank 0 is within a number at the end of its log.
    let report = judge(log(&[(0, &calls[..11]), (1, &calls)]), Keep::All);
    assert_eq!((report.outcome, report.hung.len()), (Outcome::NothingSeen, 0), "{:?}", report.hung);
    // What is written differs.
    let mut other = calls.clone();
    other[10].0 = "AllReduce";
    let report = judge(log(&[(0, &other[..11]), (1, &calls), (2, &calls)]), Keep::All);
    assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Hung, &[0][..]));
}

#[test]
fn numbers_that_sends_advance_are_not_compared() {
    let one: &[Call<'_>] = &[("Send", 0, 8), ("AllReduce", 1, 8), ("AllGather", 2, 8)];
    let other: &[Call<'_>] = &[("AllReduce", 0, 8), ("AllGather", 1, 8)];
    let report = judge(log(&[(0, one), (1, other)]), Keep::All);
    assert_eq!((report.outcome, report.hung.len()), (Outcome::Lagging, 0), "{:?}", report.hung);
    // The one send has no receive.
    assert!(report.lagging[0].evidence.iter().all(|of| of.kind == EvidenceKind::FewerMessages), "{report:?}");
}

/// Calls under one number are what a file says: of many some are named.
#[test]
fn of_many_calls_those_that_differ_are_named() {
    let calls = |last: &'static str| -> Vec<Call<'_>> {
        (0..5000).map(|_| ("AllReduce", 1, 8)).chain([(last, 1, 8), ("AllReduce", 2, 8)]).collect()
    };
    let (right, odd) = (calls("AllGather"), calls("Broadcast"));
    let report = judge(log(&[(0, &right), (1, &odd), (2, &right)]), Keep::All);
    let of = &report.hung[0].evidence[0];
    assert_eq!((&of.ranks[..], of.kind), (&[1][..], EvidenceKind::OtherCollective));
    assert_eq!(of.here.as_deref(), Some("broadcast after 5000 others"));
    assert_eq!(of.there.as_deref(), Some("all_gather after 5000 others"));
}

/// A log has calls, and not whether they ended: that all ranks called the same is no proof that none waits.
#[test]
fn equal_logs_are_no_proof_that_no_rank_waits() {
    let calls: Vec<Call<'_>> = (0..20).map(|number| ("AllReduce", number, 8)).collect();
    let report = judge(log(&[(0, &calls), (1, &calls)]), Keep::All);
    let found = (report.outcome, report.hung.len(), &report.sources[..]);
    assert_eq!(found, (Outcome::NothingSeen, 0, &["NCCL_DEBUG log"][..]));
    // Nobody knows what a rank did that wrote no log.
    let report = judge(log_of(4, &[(0, &calls), (1, &calls), (3, &calls)]), Keep::All);
    assert_eq!((report.outcome, &report.ranks_without_records[..]), (Outcome::Unclear, &[2][..]));
    let unseen = "there are no records of rank 2 of communicator 0xabcd: it may wait, or be what others wait for.";
    has(&verdict(&report), unseen);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    std::fs::write(&path, log(&[(0, &calls), (1, &calls)])).unwrap();
    let output = run(&["hang", path.to_str().unwrap()]);
    let said = stdout(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.starts_with("Nothing seen: ") && !said.contains("No hang"), "{said}");
}

/// The same log with other words in one call of a rank.
fn changed(text: &str, rank: u32, number: u64, from: &str, to: &str) -> String {
    let is_it = |line: &str| {
        line.starts_with(&format!("node:{}:", 100 + rank)) && line.contains(&format!("opCount {number:x} "))
    };
    text.lines().map(|line| if is_it(line) { line.replace(from, to) } else { line.to_owned() } + "\n").collect()
}

/// A log does not say what has ended. What differs is said; it is a hang only where the difference stops the job.
#[test]
fn calls_that_differ_are_no_hang_if_they_may_end() {
    const UNPROVED: &str = "That is an error, and gives wrong values or a hang. Whether the job hangs, these records (NCCL_DEBUG log) do not show.";
    let of = |function: &'static str| {
        let calls: Vec<Call<'_>> = (0..5).map(|number| (function, number, 8)).collect();
        log(&[(0, &calls), (1, &calls), (2, &calls), (3, &calls)])
    };
    let (root, of_two) = ("root 0", ["root 0", "root 2"]);
    for (function, ranks, [from, to], outcome, said) in [
        (
            "Broadcast",
            &[2][..],
            of_two,
            Outcome::Unclear,
            "In communicator 0xabcd, in broadcast 3 rank 2 has root 2, and ranks 0, 1 and 3 root 0.",
        ),
        ("Broadcast", &[2, 3], of_two, Outcome::Unclear, "nothing says who is right."),
        ("AllReduce", &[2], of_two, Outcome::NothingSeen, "another collective, type, size or root."),
        (
            "AllReduce",
            &[2],
            ["datatype 7", "datatype 2"],
            Outcome::Unclear,
            "In communicator 0xabcd, in all_reduce 3 rank 2 has Int, and ranks 0, 1 and 3 Float.",
        ),
        (
            "AllReduce",
            &[2],
            ["datatype 7", "datatype 6"],
            Outcome::Hung,
            "The job hangs on rank 2 of communicator 0xabcd",
        ),
        ("AllReduce", &[2], ["count 8", "count 9"], Outcome::Hung, "The job hangs on rank 2 of communicator 0xabcd"),
    ] {
        let text = ranks.iter().fold(of(function), |text, rank| changed(&text, *rank, 3, from, to));
        let report = judge(text, Keep::All);
        let differing = usize::from(outcome == Outcome::Unclear);
        assert_eq!((report.outcome, report.differing.len()), (outcome, differing), "{function} {to}");
        has(&verdict(&report), said);
        assert_eq!(verdict(&report).contains(UNPROVED), outcome == Outcome::Unclear, "{}", verdict(&report));
    }
    // What stops the job comes before what may have ended, which is said, too.
    let both = changed(&changed(&of("Broadcast"), 2, 1, root, "root 2"), 1, 3, "count 8", "count 9");
    let report = judge(both, Keep::All);
    assert_eq!((report.outcome, report.hung[0].sequence), (Outcome::Hung, Some(3)));
    has(&verdict(&report), "In communicator 0xabcd, in broadcast 1 rank 2 has root 2, and ranks 0, 1 and 3 root 0.");
    // Of a log the reduction is not known.
    let mut records = records(of("AllReduce"), Keep::All);
    for (reduction, said) in [(0, None), (2, Some("in all_reduce 0 rank 1 has maximum, and ranks 0, 2 and 3 sum."))] {
        for operation in &mut records.operations {
            operation.reduction = Some(if operation.place == Some(1) { reduction } else { 0 });
        }
        let report = hang(&records);
        assert_eq!(report.differing.len(), usize::from(said.is_some()));
        said.into_iter().for_each(|said| has(&verdict(&report), said));
    }
    // The census says it, too.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    for (text, is_said) in [(of("Broadcast"), false), (changed(&of("Broadcast"), 2, 3, root, "root 2"), true)] {
        std::fs::write(&path, text).unwrap();
        let said = stdout(&run(&["records", path.to_str().unwrap()]));
        assert_eq!(said.contains("in broadcast 3 rank 2 has root 2"), is_said, "{said}");
        // A log has no durations, so that nothing can be called in order.
        assert!(!said.contains("Nothing is off"), "{said}");
    }
}

/// A job that is restarted goes on with its log: its processes have the GPUs of those before. Others may come after them on other GPUs, or on other hosts.
#[test]
fn the_last_run_of_a_log_of_nccl_counts() {
    let calls: Vec<Call<'_>> = (0..9).map(|number| ("AllReduce", number, 8)).collect();
    let first = log(&[(0, &calls), (1, &calls), (2, &calls[..8]), (3, &calls)]);
    let all = log(&[(0, &calls), (1, &calls), (2, &calls), (3, &calls)]).replace("0xabcd", "0xef");
    let again = all.replace("node:10", "node:20");
    let mixed: String = first.lines().zip(again.lines()).map(|(one, other)| format!("{one}\n{other}\n")).collect();
    let note = "35 calls are of earlier runs of the job, whose processes have ended, and are left out";
    for (second, is_other) in [
        (again.clone(), true),
        (again.replace("[0] NCCL", "[1] NCCL"), false),
        (again.replace("node:", "n2:"), false),
        // The same processes make another communicator.
        (all.clone(), false),
    ] {
        let text = first.clone() + &second;
        let found = records(text.clone(), Keep::All);
        let lagging: usize = hang(&found).lagging.iter().map(|group| group.missing_ranks.len()).sum();
        assert_eq!(
            (lagging, found.files[0].notes.iter().any(|of| of == note)),
            (usize::from(!is_other), is_other),
            "{text}"
        );
    }
    // Of two jobs at once neither is earlier.
    assert_eq!(judge(mixed, Keep::All).lagging.len(), 2);
}

/// A rank's sends to a peer are as many as the peer's receives from it.
#[test]
fn messages_that_are_missing_are_counted() {
    let of =
        |function: &'static str, n: u64| -> Vec<Call<'static>> { (0..n).map(|number| (function, number, 8)).collect() };
    let between = |sends: u64, receives: u64, keep| {
        let text = log(&[(0, &of("Send", sends)), (1, &of("Recv", receives))]);
        let text: String = text
            .lines()
            .map(|line| if line.contains(" Send:") { line.replace("root 0", "root 1") } else { line.to_owned() } + "\n")
            .collect();
        judge(text, keep)
    };
    for (sends, receives, said) in [
        (
            6,
            5,
            "Rank 1 called 5 receives from rank 0, which called 6 sends to it. This alone does not show whether it is stuck or slow.",
        ),
        (5, 6, "Rank 0 called 5 sends to rank 1, which called 6 receives from it."),
    ] {
        let report = between(sends, receives, Keep::All);
        assert_eq!(report.outcome, Outcome::Lagging);
        has(&verdict(&report), said);
        // What is not kept is not counted.
        assert_eq!(between(sends, receives, Keep::Last(5)).outcome, Outcome::NothingSeen);
    }
    assert_eq!(between(6, 6, Keep::All).outcome, Outcome::NothingSeen);
}

/// Inspector writes what has ended, numbered by function: a size that differs is an error, and no hang.
#[test]
fn sizes_of_what_has_ended_are_compared() {
    let of = |bytes: u64| {
        let line = |rank: u32, number: u64| {
            let bytes = if (rank, number) == (1, 5) { bytes } else { 4096 };
            format!(
                r#"{{"id":"0xff","rank":{rank},"n_ranks":3,"nnodes":1,"pid":{rank},"hostname":"a","coll_perf":{{"coll":"AllReduce","coll_sn":{number},"coll_msg_size_bytes":{bytes},"coll_exec_time_us":12}}}}"#
            ) + "\n"
        };
        let text: String = (0..3).flat_map(|rank| (3..8).map(move |number| line(rank, number))).collect();
        judged(&[("inspector.log", text)])
    };
    let report = of(2048);
    assert_eq!((report.outcome, report.differing.len()), (Outcome::Unclear, 1));
    has(&verdict(&report), "in all_reduce 5 rank 1 has 2048 bytes, and ranks 0 and 2 4096 bytes. That is an error");
    has(&shown(&report), "What ranks called differently");
    assert_eq!(of(4096).outcome, Outcome::NothingSeen);
}

/// NCCL from 2.27 on may print `opCount 0` in every line: then lines are counted.
#[test]
fn calls_without_numbers_are_counted() {
    let calls: Vec<Call<'_>> = vec![("AllReduce", 0, 8); 20];
    let report = judge(log(&[(0, &calls), (1, &calls), (2, &calls[..19])]), Keep::All);
    assert_eq!((report.outcome, &report.lagging[0].missing_ranks[..]), (Outcome::Lagging, &[2][..]));
    let of = &report.lagging[0].evidence[0];
    assert_eq!((of.here.as_deref(), of.there.as_deref()), (Some("19"), Some("20")));
    assert_eq!(judge(log(&[(0, &calls), (1, &calls)]), Keep::All).outcome, Outcome::NothingSeen);
}

/// What a log has lost of a rank's last call is no call that it did not make.
#[test]
fn lines_that_are_cut_or_glued_blame_nobody() {
    let calls: Vec<Call<'_>> = (0..4).map(|number| ("AllReduce", number, 8)).collect();
    let whole = log(&[(0, &calls), (1, &calls), (2, &calls[..3]), (3, &calls)]);
    let last = log(&[(2, &calls)]).lines().last().unwrap().to_owned();
    let other_comm = log(&[(2, &[])]).replace("0x5600", "0x7700").replace("0xabcd", "0xef");
    let (head, tail) = whole.rsplit_once("0x7f recvbuff").unwrap();
    let own = |line: &str| if line.contains("node:102") { line.replace("0x5600", "0x5602") } else { line.to_owned() };
    let apart: String = whole.lines().map(|line| own(line) + "\n").collect();
    // A call of each rank after the other.
    let (init, mut turns): (Vec<&str>, Vec<&str>) = whole.lines().partition(|line| line.contains("Init"));
    turns.sort_by_key(|line| line.split("opCount").nth(1));
    let turns: String = init.into_iter().chain(turns).map(|line| format!("{line}\n")).collect();
    let from = |word: &str| {
        let last = own(&last);
        last[last.find(word).unwrap()..].to_owned()
    };
    let cut = |end: &str| format!("{whole}{}", &last[..last.find(end).unwrap()]);
    let coll_only = cut("recvbuff")
        .lines()
        .filter(|line| !line.contains("Init"))
        .fold(String::new(), |all, line| all + line + "\n");
    assert!(records(coll_only, Keep::All).calls.iter().map(|(_, count)| count).sum::<u64>() == 15, "whose the last is");
    // As it is, rank 2 lags. With a part of its last line that has the number, it does not; and without, nothing says how far it is.
    for (text, lagging, is_known) in [
        (whole.clone(), &[2][..], true),
        (cut("0x7f"), &[], true),
        (cut(" sendbuff"), &[], false),
        // Of which of its two communicators the call is, its line says only at the end.
        (format!("{other_comm}{}", cut("recvbuff")), &[], false),
        (format!("{other_comm}{}", cut("stream")), &[], true),
        // A call after that shows how far the rank got.
        (format!("{}\n{last}", cut(" sendbuff")), &[], true),
        // The head is lost: whose the rest is, its communicator's pointer shows, if no other process has the same.
        (format!("{apart}{}", from("AllReduce")), &[], true),
        (format!("{apart}{}", from("de:102:1 [0] NCCL")), &[], true),
        (format!("{apart}{}", from("Reduce: ")), &[], false),
        (format!("{apart}{}", from("recvbuff")), &[], false),
        (format!("{whole}{}", &last[last.find("AllReduce").unwrap()..]), &[], false),
        // It breaks off before it says anything.
        (format!("{whole}node:102:1 [0] NC"), &[], false),
        (format!("{whole}node:102:1 [0] NCCL INFO AllRe"), &[], false),
        (format!("{whole}node:10"), &[], false),
        (format!("{whole}node:102:1 [0] NCCL INFO Connected all rings"), &[2], true),
        // The log goes on elsewhere, and so may rank 2.
        (turns.clone(), &[2], true),
        (format!("{turns}node:103:1 [0] NCCL INFO AllReduce: opCount 3 sendb"), &[], false),
        // Into the line of another process, whole or cut.
        (whole.replacen("stream 0x55\nnode:103", &format!("stream 0x55{last}\nnode:103"), 1), &[], true),
        (format!("{head}0x7f rec{last}\n{tail}"), &[], true),
    ] {
        let report = judge(text.clone(), Keep::All);
        let found: Vec<u32> = report.lagging.iter().flat_map(|group| group.missing_ranks.clone()).collect();
        assert_eq!((&found[..], report.hung.len()), (lagging, 0), "{text}");
        let here = records(text.clone(), Keep::All).rank_status.iter().any(|of| of.place == Some(2) && of.is_cut);
        assert_eq!(here, !is_known, "{text}");
    }
}

/// A rank without calls may be in the making of its communicator, or have given it up.
#[test]
fn communicators_that_are_not_made_are_reported() {
    let made = |rank: u32, end: &str| {
        let number = 100 + rank;
        format!(
            "node:{number}:1 [0] NCCL INFO ncclCommInitRank comm 0x5600 rank {rank} nranks 4 cudaDev 0 busId 1000 commId 0xabcd - Init {end}\n"
        )
    };
    let aborted = |rank: u32| {
        let number = 100 + rank;
        format!(
            "node:{number}:1 [0] NCCL INFO comm 0x5600 rank {rank} nranks 4 cudaDev 0 busId 1000 - Abort COMPLETE\n"
        )
    };
    let began: String = (0..4).map(|rank| made(rank, "START")).collect();
    let ended = |ranks: &[u32]| ranks.iter().map(|rank| made(*rank, "COMPLETE")).collect::<String>();
    let all = format!("{began}{}", ended(&[0, 1, 2, 3]));
    let without_2 = began.replacen(&made(2, "START"), "", 1);
    let call = log(&[(0, &[("AllReduce", 0, 8)])]).lines().last().unwrap().to_owned();
    let other = made(2, "START").replace("0xabcd", "0xef") + &made(2, "COMPLETE").replace("0xabcd", "0x12");
    for (text, reported, note) in [
        (all.clone(), None, None),
        (format!("{began}{}", ended(&[0, 1, 3])), Some("rank 2 has not made communicator 0xabcd"), None),
        (began.clone(), None, Some("none of the 4 ranks has made communicator 0xabcd: ranks 0-3 began")),
        // Where its log is not here, nothing says what it did.
        (
            without_2.clone(),
            Some("there is no line of rank 2 in the making of communicator 0xabcd, which ranks 0-1, 3 began"),
            None,
        ),
        (
            format!("{without_2}node:102:1 [2] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n"),
            Some("rank 2 has not begun communicator 0xabcd, which ranks 0-1, 3 began"),
            None,
        ),
        // It is the process that is this rank of another communicator.
        (
            format!("{all}{}", without_2.replace("0x5600", "0x7700").replace("0xabcd", "0xef")),
            Some("rank 2 has not begun communicator 0xef, which ranks 0-1, 3 began"),
            None,
        ),
        // Who calls has made it.
        (format!("{began}{call}"), Some("rank 1 has not made communicator 0xabcd"), None),
        (format!("{all}{}", aborted(1)), Some("rank 1 has aborted communicator 0xabcd"), None),
        // Another communicator at its place: nothing says what became of the first.
        (format!("{all}{other}"), None, None),
        // A job that ends gives up all.
        (format!("{all}{}", (0..4).map(aborted).collect::<String>()), None, None),
    ] {
        let found = records(text.clone(), Keep::All);
        let report = hang(&found);
        let said = report.processes.first().and_then(|of| of.faults.first().cloned());
        let noted = found.files[0].notes.iter().find(|of| of.starts_with("none")).map(String::as_str);
        assert_eq!((said.as_deref(), noted), (reported, note), "{text}");
        assert_eq!(report.outcome == Outcome::Lagging, reported.is_some(), "{text}");
    }
}

/// What NCCL warns of, the first thing first; and the peer that many name before that.
#[test]
fn warnings_are_said_where_they_name_what_is_wrong() {
    let closed = |from: u32, peer: &str| {
        format!(
            "n{from}:900{from}:1 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer {peer}<4{from}830>\n"
        )
    };
    let all = |peer: &dyn Fn(u32) -> String| [1, 2, 4].map(|from| closed(from, &peer(from))).concat();
    let cascade = "a22:18:2 [1] misc/socket.cc:518 NCCL WARN Net : Call to recv from 10.200.84.247<58355> failed : Broken pipe\n\
                   a22:18:2 [1] proxy.cc:1119 NCCL WARN [Proxy Service 9] Failed to execute operation Connect from rank 9, retcode 6\n\
                   a22:18:3 [1] misc/socket.cc:538 NCCL WARN Net : Connection closed by remote peer a22.cluster<47861>\n";
    let warned = |what: &str| format!("h:1:2 [0] init.cc:497 NCCL WARN {what}\n");
    for (text, wanted) in [
        (
            all(&|_| "n3".to_owned()),
            "Look at n3 first: 3 processes warn of it. NCCL warned on process 9001 (n1, GPU 0) and 2 more: ",
        ),
        (all(&|from| format!("n{}", from + 1)), "NCCL warned on process 9001 (n1, GPU 0) and 2 more: "),
        (
            cascade.to_owned(),
            "NCCL warned on process 18 (a22, GPU 1): \"Net : Call to recv from 10.200.84.247<58355> failed",
        ),
        (
            warned("Duplicate GPU detected : rank 2 and rank 0 both on CUDA device 1000"),
            "NCCL warned on process 1 (h, GPU 0): \"Duplicate GPU detected : rank 2 and rank 0",
        ),
        (
            warned("Mismatched collective detected, please check your collective calls at and around rank 11."),
            "NCCL warned on process 1 (h, GPU 0): \"Mismatched collective detected",
        ),
        (warned("Missing \"iommu=pt\" from kernel command line"), "The records have nothing by which to judge."),
    ] {
        let report = judge(text, Keep::All);
        let said = verdict(&report);
        assert!(said.starts_with(wanted) && report.outcome == Outcome::NothingSeen, "{said}");
        assert!(
            said.ends_with("by which to judge.") || said.ends_with("Whether the job hangs, these records do not show.")
        );
    }
}

/// What `records` says of logs: that a collective timed out, who is missing in the making of a communicator, and that nothing can be judged.
#[test]
fn nothing_is_called_sound_that_cannot_be_judged() {
    let timed_out: String = [0, 1, 3].map(|rank| timeout(rank, "0(default_pg)", Some("ALLREDUCE"), 55)).concat();
    let begins = "n:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n";
    let began = "n:2:1 [0] NCCL INFO ncclCommInitRank comm 0x5600 rank 0 nranks 2 cudaDev 0 busId 1000 commId 0xabcd - Init START\n";
    let mismatch = "h:1:2 [0] init.cc:497 NCCL WARN Mismatched collective detected\n";
    for (text, wanted, rightly_not) in [
        (begins.to_owned(), "The records have nothing by which to judge.", "Nothing is off"),
        (format!("{begins}{began}"), "rank 1 has not begun communicator 0xabcd, which rank 0 began", "Nothing is off"),
        (timed_out, "A collective timed out: all_reduce 55 of default_pg 0 on ranks 0, 1 and 3.", "how long"),
        (
            log(&[(0, &[("AllReduce", 0, 8)])]),
            "None of the 1 operation of NCCL_DEBUG log says how long it took.",
            "judge",
        ),
        (mismatch.to_owned(), "First: let all ranks log their calls", "nccl-stacks hang` with the same files"),
    ] {
        let said = nccl_stacks::answers::records::document::verdict(&nccl_stacks::answers::records::report(&records(
            text,
            Keep::All,
        )));
        assert!(said.contains(wanted) && !said.contains(rightly_not), "{said}");
    }
}

/// Collectors put JSON, times or marks around the lines, and divide long ones.
#[test]
fn a_log_is_read_within_what_collectors_put_around_its_lines() {
    let text: String = [0, 1, 3].map(|rank| timeout(rank, "0(default_pg)", Some("ALLREDUCE"), 55)).concat()
        + &timeout(2, "0(default_pg)", None, 54);
    let each = |of: &dyn Fn(&str) -> String| text.lines().map(of).collect::<String>();
    let time = "2025-06-26T06:24:44.9Z";
    for around in [
        text.clone(),
        each(&|line| format!("{}\n", serde_json::json!({"log": format!("{line}\n"), "stream": "stderr"}))),
        each(&|line| format!("{}\n", serde_json::json!({"labels": {}, "line": line}))),
        each(&|line| {
            let (first, rest) = line.split_at(line.len() / 2);
            format!("{time} stderr P {first}\n{time} stderr F {rest}\n")
        }),
    ] {
        let report = judged(&[("x.log", around)]);
        assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Hung, &[2][..]), "{report:?}");
    }
}
