//! What answers say of recordings that lack something, or in which calls of NCCL failed. What is expected is worked out by hand.

use std::path::Path;

use nccl_stacks::answers::hang::{Outcome, hang};
use nccl_stacks::answers::records::document as recorded;
use nccl_stacks::records::{Keep, read_all};
use nccl_stacks_recorder_format::layout::header;
use nccl_stacks_recorder_format::{Kind, Record, flag};
use serde_json::{Value, json};

use crate::records::recorder::{Process, first_ring, folder, job, read_folder};
use crate::support::program::{has, refused, run, stdout, testdata, verdict_of};

/// The verdict of `records` about a folder.
fn verdict(folder: &Path) -> String {
    recorded::verdict(&nccl_stacks::answers::records::report(&read_folder(folder)))
}

/// A file that is cut off has lost what its header says its rings were given; what was never written is not lost.
#[test]
fn a_recording_that_is_cut_off_is_damage() {
    let folder = folder();
    let process = Process::new(folder.path(), 0, 2, &[2]);
    (0..50).for_each(|number| _ = process.call(number * 1_000, 1, "ncclAllReduce", 4));
    process.set_clock();
    let whole = std::fs::read(&process.path).unwrap();
    let begin = first_ring(&whole);
    // Each call has two records.
    for (length, lost) in [(begin, Some(100)), (begin + 64 * 51, Some(49)), (begin + 64 * 100, None)] {
        std::fs::write(&process.path, &whole[..length]).unwrap();
        let verdict = verdict(folder.path());
        let Some(lost) = lost else {
            assert!(!verdict.contains("missing"), "{length}: {verdict}");
            continue;
        };
        assert!(!verdict.contains("Nothing is off"), "{length}: {verdict}");
        has(&verdict, &format!("{lost} records in a part of the file that is missing"));
    }
    std::fs::write(&process.path, &whole[..begin]).unwrap();
    for form in ["text", "table"] {
        let text = stdout(&run(&["records", folder.path().to_str().unwrap(), "--format", form, "--quiet"]));
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words.matches("100 records in a part of the file").count(), 1, "{form}: {text}");
    }
}

/// What newer records have overwritten, and records that are not complete, are in the verdict, whatever else is off.
#[test]
fn damage_is_in_the_verdict_beside_what_is_off() {
    let folder = folder();
    let process = Process::bare(folder.path(), [0, 2, 0], 7, 64);
    process.communicator(2, 0xabc, 0, 2);
    (0..100).for_each(|number| _ = process.call(number * 1_000, 1, "ncclAllReduce", 4));
    process.set_clock();
    let mut bytes = std::fs::read(&process.path).unwrap();
    let at = first_ring(&bytes);
    bytes[at..at + 8].fill(0);
    std::fs::write(&process.path, bytes).unwrap();
    let verdict = verdict(folder.path());
    assert!(verdict.starts_with("Left out: "), "{verdict}");
    // Rank 1 is not here. Of 200 records the ring has 64, of which one is torn.
    has(&verdict, "Of the 2 ranks");
    has(&verdict, "136 records that newer ones have overwritten");
    has(&verdict, "1 records that are not complete");
}

/// Sets a number in the header of the recording of a rank.
fn set(folder: &Path, rank: u32, at: usize, value: i64) {
    use std::os::unix::fs::FileExt as _;
    let path = folder.join(format!("node0-{}.ncclrec", 40 + rank));
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&value.to_le_bytes(), at as u64).unwrap();
}

/// The answer of `hang` in JSON, and its exit code.
fn answer(folder: &Path) -> (Value, Option<i32>) {
    let output = run(&["hang", folder.to_str().unwrap(), "--json", "--quiet"]);
    (serde_json::from_slice(&output.stdout).unwrap(), output.status.code())
}

#[test]
fn a_recording_that_lacks_something_shows_no_absence_of_a_hang() {
    for by in [1, 2] {
        let folder = folder();
        job(folder.path(), &[by], true, [6; 4]);
        let (whole, code) = answer(folder.path());
        assert_eq!((whole["outcome"].as_str(), code), (Some("clear"), Some(0)), "{whole}");
        assert_eq!(verdict_of(&whole), "No hang: in 1 group of 4 ranks no rank waits for another.");
        assert_eq!(whole["losses"], json!([]));

        set(folder.path(), 1, header::LOST_COMMUNICATORS, 3);
        set(folder.path(), 2, header::LOST_COMMUNICATORS, 2);
        let (lossy, code) = answer(folder.path());
        assert_eq!((lossy["outcome"].as_str(), code), (Some("unclear"), Some(0)), "{lossy}");
        let lacks = "The recording lacks 5 communicators for which there was no room.";
        let first = "Cannot say whether the job hangs: in 1 group of 4 ranks no rank is seen to wait.";
        let helps = "A recording has room for 512 communicators at a time: destroy those that are not used any more.";
        assert_eq!(verdict_of(&lossy), format!("{first} {lacks} {helps}"));
        let what = "communicators for which there was no room";
        let loss = json!([{"what": what, "why": null, "advice": helps, "count": 5}]);
        assert_eq!(lossy["losses"], loss);
        assert!(verdict(folder.path()).contains("5 communicators for which there was no room"));
    }
}

/// Four ranks of which each counts so many all-reduces, the seventh of which does not end. Of rank 0 so many have records.
fn counted_job(folder: &Path, calls: [usize; 4], recorded: usize) {
    for (rank, calls) in (0..).zip(calls) {
        let process = Process::new(folder, rank, 4, &[1]);
        for number in 0..calls {
            let counted = u64::from(process.writer.next_collective(1)) << 32;
            if rank > 0 || number < recorded {
                let time = 10_000 * number as i64 + i64::from(rank);
                process.numbered(time, 1, counted, if number < 6 { 2 } else { 0 });
            }
        }
        process.set_clock();
    }
}

#[test]
fn a_hang_that_is_seen_is_said_with_what_the_recording_lacks() {
    for at in [header::LOST_COMMUNICATORS, header::LOST] {
        let folder = folder();
        counted_job(folder.path(), [7, 7, 6, 7], 7);
        (0..4).for_each(|rank| set(folder.path(), rank, at, 1));
        let (answer, code) = answer(folder.path());
        assert_eq!((code, &answer["culprits"]), (Some(4), &json!([2])), "{answer}");
        let verdict = verdict_of(&answer);
        assert!(verdict.starts_with("The job hangs on rank 2: it did not enqueue"), "{verdict}");
        has(&verdict, ". The recording lacks 4 ");
    }
}

/// Rank 0 called all seven, and the record of the last is lost. That it is not there does not mean that it is complete, which would
/// make those guilty that wait.
#[test]
fn what_is_lost_is_not_complete() {
    let folder = folder();
    counted_job(folder.path(), [7; 4], 6);
    set(folder.path(), 0, header::LOST, 4);
    let report = hang(&read_folder(folder.path()));
    assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Unclear, &[][..]));
    assert_eq!((report.hung.len(), &report.open[0].waiting_ranks[..]), (0, &[1, 2, 3][..]));
    let verdict = nccl_stacks::answers::hang::document::verdict(&report);
    assert!(verdict.ends_with("The recording lacks 4 records for which there was no space."), "{verdict}");
}

/// Rank 0 called all six, and the last three while its program had switched recording off. That they have no end does not mean that they hang.
#[test]
fn what_was_switched_off_does_not_hang() {
    for (recorded, left_out, outcome) in [(3, 3, Outcome::Unclear), (6, 0, Outcome::Clear)] {
        let folder = folder();
        counted_job(folder.path(), [6; 4], recorded);
        set(folder.path(), 0, header::LEFT_OUT, left_out);
        let report = hang(&read_folder(folder.path()));
        let verdict = nccl_stacks::answers::hang::document::verdict(&report);
        assert_eq!((report.outcome, &report.culprits[..]), (outcome, &[][..]), "{verdict}");
        let said = "3 calls and events while the program had switched recording off";
        assert_eq!(verdict.ends_with(&format!(" The recording lacks {said}.")), left_out > 0, "{verdict}");
        let records = self::verdict(folder.path());
        assert_eq!(records.contains(said), left_out > 0, "{records}");
    }
}

/// Four ranks call the same seven times, without plugin. Calls of a rank return these results, the others 0.
fn failing_job(folder: &Path, rank_of: i32, results: [u64; 7]) {
    for rank in 0..4 {
        let process = Process::new(folder, rank, 4, &[2]);
        let function = process.writer.text(b"ncclAllReduce");
        for (number, result) in results.into_iter().enumerate() {
            let c = u64::from(process.writer.next_collective(1)) << 32;
            let call = Record { communicator: 1, function, a: 4, dtype: 8, c, ..Record::new(Kind::Call) };
            let call = process.put(1_000 * number as i64 + i64::from(rank), call);
            if rank == rank_of && result != 0 {
                process.put(1_000 * number as i64 + 500, Record { parent: call, a: result, ..Record::new(Kind::Stop) });
            }
        }
        process.set_clock();
    }
}

#[test]
fn a_rank_whose_call_failed_does_not_wait_in_it() {
    let folder = folder();
    failing_job(folder.path(), 2, [0, 0, 0, 0, 0, 0, 4]);
    let (answer, _) = answer(folder.path());
    let said = "ncclAllReduce failed on rank 2 with error 4 (ncclInvalidArgument).";
    has(&verdict_of(&answer), said);
    // The others have called it seven times, and rank 2 six times.
    let lagging = &answer["lagging"][0];
    assert_eq!((&answer["outcome"], &lagging["missing_ranks"]), (&"lagging".into(), &json!([2])));
    let evidence = &lagging["evidence"][0];
    assert_eq!((evidence["here"].as_str(), evidence["there"].as_str()), (Some("6"), Some("7")));
    let failed =
        json!([{"function": "ncclAllReduce", "error": 4, "name": "ncclInvalidArgument", "ranks": [2], "count": 1}]);
    assert_eq!((&answer["failed_calls"], &answer["operation_count"]), (&failed, &27.into()));
    let verdict = verdict(folder.path());
    has(&verdict, said);
    assert!(verdict.starts_with("27 operations of 1 communicator"), "{verdict}");
}

/// A call that is repeated after an error is the one that the others wait for: both count as one.
#[test]
fn a_call_that_is_repeated_counts_once() {
    let folder = folder();
    failing_job(folder.path(), 1, [0, 0, 5, 5, 0, 0, 0]);
    let (answer, _) = answer(folder.path());
    let evidence = &answer["lagging"][0]["evidence"][0];
    assert_eq!((evidence["here"].as_str(), evidence["there"].as_str()), (Some("5"), Some("7")), "{answer}");
    has(&verdict_of(&answer), "ncclAllReduce failed 2 times on rank 1 with error 5 (ncclInvalidUsage).");
}

/// 7 says that a communicator that does not block goes on in the background.
#[test]
fn a_call_that_goes_on_has_not_failed() {
    let folder = folder();
    failing_job(folder.path(), 2, [0, 0, 0, 7, 0, 0, 7]);
    let (answer, _) = answer(folder.path());
    assert_eq!((answer["outcome"].as_str(), &answer["failed_calls"]), (Some("clear"), &json!([])));
    assert!(!verdict(folder.path()).contains("failed"), "{}", verdict(folder.path()));
}

/// Errors of functions that are no operations: making a communicator, and the end of a group, of which then nothing ran.
#[test]
fn calls_that_are_no_operations_fail_too() {
    let folder = folder();
    let process = Process::new(folder.path(), 0, 2, &[2]);
    let text = |text: &str| process.writer.text(text.as_bytes());
    let call = |time: i64, function: &str, parent: u64| {
        let function = text(function);
        process.put(time, Record { communicator: 1, function, parent, a: 4, dtype: 8, ..Record::new(Kind::Call) })
    };
    let stop = |time: i64, call: u64, result: u64| {
        _ = process.put(time, Record { parent: call, a: result, ..Record::new(Kind::Stop) })
    };
    stop(15, call(10, "ncclCommInitRank", 0), 2);
    // A group that is sound, and one that is not.
    for (time, result) in [(100, 0), (200, 3)] {
        call(time, "ncclGroupStart", 0);
        call(time + 1, "ncclAllReduce", 1);
        call(time + 2, "ncclBroadcast", 1);
        let end = call(time + 3, "ncclGroupEnd", 0);
        stop(time + 9, end, result);
    }
    call(300, "ncclAllGather", 0);
    process.set_clock();
    let report = hang(&read_folder(folder.path()));
    let failed: Vec<(&str, u32, u64)> =
        report.failed_calls.iter().map(|of| (&*of.function, of.error, of.count)).collect();
    assert_eq!(failed, [("ncclCommInitRank", 2, 1), ("ncclGroupEnd", 3, 1)]);
    assert_eq!(report.operation_count, 3);
    let verdict = verdict(folder.path());
    assert!(verdict.starts_with("3 operations of 1 communicator"), "{verdict}");
    let records = nccl_stacks::answers::records::report(&read_folder(folder.path()));
    let advice = "read what NCCL prints about it with NCCL_DEBUG=WARN.";
    let advised = records.diagnoses.iter().filter(|of| of.advice.as_deref() == Some(advice)).count();
    assert_eq!(advised, 2, "{:?}", records.diagnoses);
    for said in [
        "ncclCommInitRank failed on rank 0 with error 2 (ncclSystemError).",
        "ncclGroupEnd failed on rank 0 with error 3 (ncclInternalError).",
    ] {
        has(&verdict, said);
    }
}

/// What a recorder leaves that cannot create its file: an empty file, whose name has the system's error.
#[test]
fn processes_that_could_not_record_are_said() {
    let folder = folder();
    for name in ["n-1.E28.ncclrec-failed", "n-2.E28.ncclrec-failed", "n-3.E13.ncclrec-failed"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    let full = "2 processes could not record: the disk is full.";
    let path = folder.path().to_str().unwrap();
    let (found, code) = answer(folder.path());
    assert_eq!((found["outcome"].as_str(), code), (Some("unclear"), Some(0)), "{found}");
    for said in [full, "1 process could not record: the user of the job may not write into the folder."] {
        has(&verdict_of(&found), said);
    }
    let records = stdout(&run(&["records", path, "--quiet"]));
    let words = records.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.starts_with("Nothing was recorded.") && words.contains(full), "{records}");
    refused(&["ranks", path, "--quiet"], 3, full);

    // Beside recordings of the others nobody is said to wait for nobody.
    job(folder.path(), &[2], true, [6; 4]);
    let (found, _) = answer(folder.path());
    assert_eq!(found["outcome"], "unclear");
    let of_hang = verdict_of(&found);
    assert!(of_hang.starts_with("Cannot say whether the job hangs") && of_hang.contains(full), "{found}");
    let verdict = verdict(folder.path());
    assert!(verdict.contains("in 4 files.") && verdict.contains(full), "{verdict}");
}

/// A graph's calls under capture are no operations that ran: its replays are.
#[test]
fn captured_calls_are_not_counted() {
    let folder = folder();
    for (rank, by_both) in [(0, false), (1, true)] {
        let process = Process::new(folder.path(), rank, 2, if by_both { &[2, 1] } else { &[1] });
        let plugin = if by_both { 2 } else { 1 };
        let [function, call] = ["AllReduce", "ncclAllReduce"].map(|text| process.writer.text(text.as_bytes()));
        for number in 0..10 {
            let time = 100 * number;
            if by_both {
                let call = Record { communicator: 1, function: call, a: 1024, dtype: 8, ..Record::new(Kind::Call) };
                process.put(time, call);
            }
            let api = Record { communicator: plugin, function, a: 1024, b: 5, ..Record::new(Kind::CollApi) };
            let api = process.put(time + 1, Record { flags: flag::CAPTURED, ..api });
            (1..13).for_each(|replay| _ = process.planned(10_000 * replay + time, plugin, api, 2));
        }
        process.set_clock();
    }
    let verdict = verdict(folder.path());
    assert!(verdict.starts_with("240 operations of 1 communicator"), "{verdict}");
    assert_eq!(hang(&read_folder(folder.path())).operation_count, 240);
    let calls = nccl_stacks::operations::calls::Calls::from_records(&read_folder(folder.path()));
    assert_eq!(calls.calls, 0, "captures do not wait for other ranks");
}

/// Without plugin nothing says what is complete.
#[test]
fn what_is_called_is_not_done() {
    let states = |by: u32, last: usize| {
        let folder = folder();
        job(folder.path(), &[by], true, [6, 6, last as i64, 6]);
        let text = stdout(&run(&["hang", folder.path().to_str().unwrap(), "--quiet"]));
        let (answer, _) = answer(folder.path());
        (text, answer["matrix"][0]["cells"][0]["state"].as_str().map(str::to_owned))
    };
    let (text, state) = states(2, 3);
    assert_eq!(state.as_deref(), Some("enqueued"));
    assert!(text.contains("unknown, called 6") && !text.contains("done 6"), "{text}");
}

/// Rank 3's file is here, with or without its communicator: that it called nothing is another thing than that it is not here.
#[test]
fn a_file_without_operations_is_here() {
    for with_communicator in [true, false] {
        let folder = folder();
        job(folder.path(), &[2], true, [5, 5, 5, 0]);
        if !with_communicator {
            std::fs::remove_file(folder.path().join("node0-43.ncclrec")).unwrap();
            has(&verdict(folder.path()), "Of the 4 ranks of 0xabc, 3 are here.");
            Process::bare(folder.path(), [3, 4, 3], 43, 1024).set_clock();
        }
        let verdict = verdict(folder.path());
        has(&verdict, "Rank 3's file has no operations of 0xabc.");
        assert!(!verdict.contains("are here") && !verdict.contains("add the files"), "{verdict}");
    }
    let folder = folder();
    job(folder.path(), &[2], true, [5, 5, 0, 0]);
    let verdict = verdict(folder.path());
    has(&verdict, "The files of ranks 2 and 3 have no operations of 0xabc.");
    assert!(!verdict.contains("are here") && !verdict.contains("add the files"), "{verdict}");
}

/// That nothing is off is not said of records without any durations: what to ask instead depends on what they have.
#[test]
fn without_durations_nothing_is_cleared() {
    let of = |paths: Vec<std::path::PathBuf>| {
        recorded::verdict(&nccl_stacks::answers::records::report(&read_all(&paths, Keep::All, 2)))
    };
    let line = |rank: u32| format!("[1746686438.08606820{rank}] [Rank {rank}] Fun AllGather Data 32 stream 0x55\n");
    let calls = folder();
    std::fs::write(calls.path().join("rank_0.log"), line(0).repeat(3)).unwrap();
    let said = of(vec![calls.path().join("rank_0.log")]);
    has(&said, "None of the 3 operations of Megatrace log says how long it took. First: ask `nccl-stacks ranks` with");
    let timed =
        of(["rank0.log", "rank1.log"].map(|name| testdata(&format!("records/pair/inspector/{name}")).into()).into());
    assert!(!said.contains("Nothing is off") && !timed.contains("says how long it took"), "{said} {timed}");
}

/// What to do is not what was done already.
#[test]
fn advice_is_not_what_is_so_already() {
    let said = |mask: Option<u64>| {
        let folder = folder();
        job(folder.path(), &[2], true, [5; 4]);
        for rank in 0..4 {
            set(folder.path(), rank, header::PLUGIN, if mask.is_some() { 5 } else { 0 });
            set(folder.path(), rank, header::EVENTS, mask.unwrap_or(0) as i64);
        }
        let described = stdout(&run(&["describe", folder.path().to_str().unwrap(), "--quiet"]));
        (verdict(folder.path()), described)
    };
    let (verdict, described) = said(None);
    has(&verdict, "load the profiler plugin");
    has(&described, "nccl-stacks record with its kernel channels");
    let (verdict, described) = said(Some(2 | 4 | 8));
    has(&verdict, "add kernel-channels to `nccl-stacks record --events`");
    has(&described, "nccl-stacks record with its kernel channels");
    let (verdict, described) = said(Some(2 | 4 | 8 | 64));
    has(&verdict, "though the channels of their kernels were asked for");
    assert!(!verdict.contains("record the channels of kernels"), "{verdict}");
    assert!(!described.contains("nccl-stacks record with its kernel channels"), "{described}");
}
