//! Several runs of a job, and several dumps of one run, in one input: which of them is judged, and what is said of the others.

use std::path::Path;

use serde_json::json;

use crate::records::hang::answer;
use crate::support::program::{run, stderr, stdout};

/// Writes the dump of a rank of four: it has ended so many all-reduces, the first at `second`, and may be in one more.
fn dump(path: &Path, rank: u32, ended: i64, waits: bool, second: i64) {
    let entry = |number: i64| {
        let state = if number > ended { "started" } else { "completed" };
        json!({
            "record_id": number, "process_group": ["0", "default_pg"], "collective_seq_id": number, "p2p_seq_id": 0,
            "profiling_name": "nccl:all_reduce", "time_created_ns": second * 1_000_000_000 + number * 1_000_000 + i64::from(rank),
            "state": state, "input_sizes": [[8]], "output_sizes": [[8]], "input_dtypes": ["Float"], "output_dtypes": ["Float"],
        })
    };
    let entries: Vec<_> = (1..=ended + i64::from(waits)).map(entry).collect();
    let groups = json!({"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}});
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, json!({"version": "2.10", "pg_config": groups, "entries": entries}).to_string()).unwrap();
}

/// Writes the dumps of some ranks, of which rank 2 has not come to the call in which the others wait.
fn dumps(folder: &Path, ranks: &[u32], ended: i64, second: i64) {
    ranks.iter().for_each(|rank| dump(&folder.join(format!("rank_{rank}.json")), *rank, ended, *rank != 2, second));
}

/// The answer without the sentence on the runs, and what is said beside that.
fn hang(path: &Path) -> (String, String) {
    let output = run(&["hang", path.to_str().unwrap()]);
    let (text, said) = (stdout(&output), stderr(&output));
    match text.split_once('\n') {
        Some((runs, text)) if runs.starts_with("There are") => (text.to_owned(), format!("{said}{runs}")),
        _ => (text, said),
    }
}

const ALL: &[u32] = &[0, 1, 2, 3];
const OLDER: &str = "it is an older dump of the same run, and is left out";

#[test]
fn of_several_dumps_of_a_rank_the_newest_counts() {
    let once = tempfile::tempdir().unwrap();
    dumps(once.path(), ALL, 8, 1000);
    let (alone, _) = hang(once.path());
    assert!(alone.starts_with("The job hangs on rank 2: it did not enqueue"), "{alone}");
    // Ranks of the first dumps, how many calls had ended then, and ranks of the second.
    for (first, ended, second, wanted) in [
        (ALL, 4, ALL, alone.as_str()),
        (ALL, 8, ALL, alone.as_str()),
        // Nothing has moved, so the older one of rank 2 shows how far it is.
        (ALL, 8, &[0, 1, 3], alone.as_str()),
        // The others have gone on since rank 2 was asked.
        (ALL, 4, &[0, 1, 3], "Unclear: in 1 group operations are incomplete that all ranks with records have enqueued"),
        (&[0, 1], 4, ALL, alone.as_str()),
    ] {
        let folder = tempfile::tempdir().unwrap();
        dumps(&folder.path().join("t1"), first, ended, 1000);
        dumps(&folder.path().join("t2"), second, 8, 1000);
        // Two dumps never have the same text.
        for rank in second {
            let path = folder.path().join(format!("t2/rank_{rank}.json"));
            let text = std::fs::read_to_string(&path).unwrap().replacen('{', "{ ", 1);
            std::fs::write(path, text).unwrap();
        }
        let (text, said) = hang(folder.path());
        assert!(text.starts_with(wanted), "{first:?} {ended} {second:?}: {text}");
        assert!(said.contains(OLDER) && !said.contains("runs"), "{said}");
        assert_eq!(text.contains("There are no records of rank 2"), ended == 4 && second.len() == 3, "{text}");
    }
}

/// A dump that is left over from another day has the same numbers. An hour may be how long a rank has done nothing.
#[test]
fn dumps_that_are_days_apart_are_of_two_runs() {
    for (hours, is_other) in [(1, false), (24, true)] {
        let folder = tempfile::tempdir().unwrap();
        dumps(folder.path(), &[0, 1, 3], 8, 1_000_000);
        dumps(folder.path(), &[2], 8, 1_000_000 - hours * 3600);
        let (text, said) = hang(folder.path());
        assert_eq!(text.starts_with("The job hangs on rank 2"), !is_other, "{text}");
        assert_eq!(text.contains("There are no records of rank 2"), is_other, "{text}");
        assert_eq!(said.contains("There are 2 runs. This is run 2, the newest"), is_other, "{said}");
    }
    // Ranks whose numbers have nothing in common may be of one run, whatever their clocks.
    let folder = tempfile::tempdir().unwrap();
    dumps(folder.path(), &[0, 1, 3], 8, 1_000_000);
    dump(&folder.path().join("rank_2.json"), 2, 0, false, 0);
    let (text, said) = hang(folder.path());
    assert!(text.contains("There are no records of rank 2") && !said.contains("runs"), "{text}{said}");
}

#[test]
fn answers_of_ras_with_other_processes_and_communicators_are_of_another_run() {
    let before = answer("01", &[(0, 9), (1, 8), (2, 9), (3, 9)]);
    let after = answer("09", &[(0, 5), (1, 5), (2, 5), (3, 5)]);
    let restarted = after.replace("0xabc", "0xdef").replace("\"pid\":1", "\"pid\":2");
    // A communicator that the same processes have made since: both are judged.
    let another = after.replace("0xabc", "0xdef");
    for (after, is_other) in [(restarted, true), (another, false)] {
        for in_one in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let files = if in_one { vec![format!("{before}\n{after}")] } else { vec![before.clone(), after.clone()] };
            files.iter().enumerate().for_each(|(at, text)| {
                std::fs::write(folder.path().join(format!("{at}.json")), text).unwrap();
            });
            let (text, said) = hang(folder.path());
            let wanted = if is_other { "Nothing seen" } else { "In communicator 0xabc: Rank 1 lags" };
            assert!(text.starts_with(wanted), "{text}");
            let found = if in_one { "1 answers are of an earlier run" } else { "There are 2 runs. This is run 2" };
            assert_eq!(said.contains(found), is_other, "{said}");
        }
    }
}

/// NCCL Inspector knows a rank by its place in a communicator alone.
#[test]
fn inspector_logs_of_a_restarted_job_are_of_two_runs() {
    let log = |rank: i64, pid: i64, id: &str, second: i64, late: i64| {
        let of = |number: i64| {
            let start = (second + number) * 1_000_000 + if rank == late { 1500 } else { 0 };
            let end = (second + number) * 1_000_000 + 2000;
            json!({
                "header": {"id": id, "rank": rank, "n_ranks": 4, "nnodes": 1},
                "metadata": {"inspector_output_format_version": "v4.0", "hostname": "n", "pid": pid},
                "coll_perf": {"coll": "AllReduce", "coll_sn": number, "coll_msg_size_bytes": 4096, "coll_exec_time_us": end - start,
                    "event_trace_ts": {"coll_start_ts": start - 50, "coll_stop_ts": start - 40, "kernel_events": [
                        {"channel_id": 0, "kernel_start_ts": start, "kernel_stop_ts": end}]}},
            })
        };
        (0..10).map(|number| format!("{}\n", of(number))).collect::<String>()
    };
    // The second run: its processes, when it is, and whether it is one.
    for (pid, id, second, is_other) in
        [(200, "0x2", 1_700_003_600, true), (200, "0x2", 1_700_000_000, false), (100, "0x2", 1_700_003_600, false)]
    {
        let folder = tempfile::tempdir().unwrap();
        for rank in 0..4 {
            let write = |name: String, text: String| std::fs::write(folder.path().join(name), text).unwrap();
            write(format!("a{rank}.log"), log(rank, 100 + rank, "0x1", 1_700_000_000, 2));
            write(format!("b{rank}.log"), log(rank, pid + rank, id, second, 1));
        }
        let output = run(&["ranks", folder.path().to_str().unwrap()]);
        let (text, said) = (stdout(&output), stderr(&output));
        assert_eq!(said.contains("There are 2 runs. This is run 2, the newest"), is_other, "{said}");
        assert_eq!(text.contains("100.0 % of it for rank 1"), is_other, "{text}");
    }
}

/// Without times of operations those count at which the records were written.
#[test]
fn inspector_logs_that_were_written_hours_apart_are_of_two_runs() {
    let log = |rank: i64, pid: i64, id: &str, second: i64, last: i64| {
        let of = |number: i64| {
            json!({
                "header": {"id": id, "rank": rank, "n_ranks": 4, "nnodes": 1},
                "metadata": {"inspector_output_format_version": "v4.0", "hostname": "n", "pid": pid, "dump_timestamp_us": (second + number) * 1_000_000},
                "coll_perf": {"coll": "AllReduce", "coll_sn": number, "coll_msg_size_bytes": 4096, "coll_exec_time_us": 9},
            })
        };
        (1..=last).map(|number| format!("{}\n", of(number))).collect::<String>()
    };
    for (second, wanted, is_other) in [
        (1_700_014_400, "Nothing seen", true),
        (1_700_000_000, "In communicator 0x1: Rank 1 lags by 5 all_reduce", false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        for rank in 0..4 {
            let write = |name: String, text: String| std::fs::write(folder.path().join(name), text).unwrap();
            write(format!("a{rank}.log"), log(rank, 100 + rank, "0x1", 1_700_000_000, if rank == 1 { 5 } else { 10 }));
            write(format!("b{rank}.log"), log(rank, 200 + rank, "0x2", second, 10));
        }
        let (text, said) = hang(folder.path());
        assert!(text.starts_with(wanted), "{text}");
        assert_eq!(said.contains("There are 2 runs. This is run 2, the newest"), is_other, "{said}");
    }
}

/// What a rank of four prints when it times out in a call, or when another does.
fn watchdog(rank: u32, day: &str, at: i64, waits: bool) -> String {
    let head = format!("[rank{rank}]:[E{day} ProcessGroupNCCL.cpp");
    let (last, done) = (if waits { at } else { at - 1 }, at - 1);
    let group = format!("[PG ID 0 PG GUID 0(default_pg) Rank {rank}]");
    let timeout = format!(
        "{head}:616] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={at}, OpType=ALLREDUCE, NumelIn=9, \
         NumelOut=9, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n"
    );
    let reached = if waits {
        format!("Exception (either an error or timeout) detected by watchdog at work: {at}, last enqueued")
    } else {
        "Received a dump signal due to a collective timeout from rank 0. Last enqueued".to_owned()
    };
    let timeout = if waits { timeout } else { String::new() };
    format!("{timeout}{head}:1785] {group} {reached} NCCL work: {last}, last completed NCCL work: {done}.\n")
}

#[test]
fn a_log_of_a_restarted_job_has_several_timeouts() {
    let of_run = |day: &str, at: i64, missing: u32| -> Vec<String> {
        (0..4).map(|rank| watchdog(rank, day, at, rank != missing)).collect()
    };
    let (first, later, lower) =
        (of_run("626 06:24:44.9", 808, 1), of_run("626 09:24:44.9", 811, 3), of_run("626 06:25:44.9", 55, 3));
    let by_rank: Vec<String> = first.iter().zip(&later).map(|(first, later)| format!("{first}{later}")).collect();
    for (text, rank, at) in [
        (first.concat(), 1, 808),
        // Hours later, with higher numbers, and at once with lower ones. The lines of a rank may be together.
        ([first.concat(), later.concat()].concat(), 3, 811),
        ([first.concat(), lower.concat()].concat(), 3, 55),
        (by_rank.concat(), 3, 811),
        // Lines without a group are of several groups, whose numbers have nothing in common.
        (
            first.concat()
                + &first[0].replace("[PG ID 0 PG GUID 0(default_pg) Rank 0]", "[Rank 0]").replace("808", "5"),
            1,
            808,
        ),
        // A rank that says something hours after the others is of their run, if it has said nothing before.
        ([watchdog(0, "626 06:24:44.9", 808, true), watchdog(1, "626 09:24:44.9", 808, false)].concat(), 1, 808),
    ] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &text).unwrap();
        let (answer, said) = hang(file.path());
        let wanted =
            format!("The job hangs on rank {rank}: it did not enqueue what its peers wait in, as in all_reduce {at} ");
        assert!(answer.starts_with(&wanted), "{wanted}: {answer}");
        let is_of_several = rank == 3;
        assert_eq!(said.contains("7 lines of the watchdog are of earlier runs"), is_of_several, "{said}");
    }
    // The same in two files, in a folder each or in one.
    for [earlier, newest] in [["a/log", "b/log"], ["a.log", "b.log"]] {
        let folder = tempfile::tempdir().unwrap();
        for (name, lines) in [(earlier, &first), (newest, &later)] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, lines.concat()).unwrap();
        }
        let (answer, said) = hang(folder.path());
        assert!(answer.starts_with("The job hangs on rank 3: it did not enqueue"), "{answer}");
        assert!(said.contains("There are 2 runs. This is run 2, the newest"), "{said}");
    }
}

/// Two jobs at once have the same ranks and groups. One log may be there twice, in part.
#[test]
fn logs_that_say_in_two_ways_where_a_rank_has_stopped_are_of_two_jobs() {
    let job =
        |late: u32, at: i64| (0..4).map(|rank| watchdog(rank, "626 06:24:44.9", at, rank != late)).collect::<String>();
    let part = job(2, 500).lines().take(3).map(|line| format!("{line}\n")).collect::<String>();
    for (other, are_two) in [(job(1, 700), true), (part, false), (job(2, 500) + "the end\n", false)] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.log"), job(2, 500)).unwrap();
        std::fs::write(folder.path().join("b.log"), &other).unwrap();
        let (text, said) = hang(folder.path());
        assert_eq!(said.contains("There are 2 runs at the same time"), are_two, "{other}{said}{text}");
        let late = if text.contains("700") { 1 } else { 2 };
        assert!(text.starts_with(&format!("The job hangs on rank {late}: it did not enqueue")), "{text}");
    }
}
