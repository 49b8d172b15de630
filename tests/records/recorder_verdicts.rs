//! What answers say of recordings that lack something, or in which calls of NCCL failed. What is expected is worked out by hand.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use nccl_stacks::analysis::hang::{Outcome, hang};
use nccl_stacks::report::{self, recorded};
use nccl_stacks_recorder_format::layout::{self, header};
use serde_json::Value;

use crate::recorder::{Process, folder, job, read_folder};
use crate::support::program::{run, stdout};

/// The verdict of `records` about a folder.
fn verdict(folder: &Path) -> String {
    recorded::verdict(&nccl_stacks::analysis::recorded::of(&read_folder(folder)))
}

/// A file that is cut off has lost what its header says its rings were given; what was never written is not lost.
#[test]
fn a_recording_that_is_cut_off_is_damage() {
    let folder = folder();
    let process = Process::new(folder.path(), 0, 2, &[2]);
    (0..50).for_each(|number| _ = process.call(number * 1_000, 1, "ncclAllReduce", 4));
    process.set_clock();
    let whole = std::fs::read(&process.path).unwrap();
    let ring = whole[layout::RINGS_AT..].chunks(1024 * layout::RECORD).position(|ring| ring[0] != 0).unwrap();
    let begin = layout::ring_at(ring, 1024) as usize;
    // Each call has two records.
    for (length, lost) in [(begin, Some(100)), (begin + 64 * 51, Some(49)), (begin + 64 * 100, None)] {
        std::fs::write(&process.path, &whole[..length]).unwrap();
        let verdict = verdict(folder.path());
        assert!(!verdict.contains("Nothing is off") || lost.is_none(), "{length}: {verdict}");
        match lost {
            Some(lost) => {
                let said = format!("{lost} records in a part of the file that is missing");
                assert!(verdict.contains(&said), "{length}: {verdict}");
            }
            None => assert!(!verdict.contains("missing"), "{length}: {verdict}"),
        }
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
    let ring = bytes[layout::RINGS_AT..].chunks(64 * layout::RECORD).position(|ring| ring[0] != 0).unwrap();
    let at = layout::ring_at(ring, 64) as usize;
    bytes[at..at + 8].fill(0);
    std::fs::write(&process.path, bytes).unwrap();
    let verdict = verdict(folder.path());
    // Rank 1 is not here, which comes first. Of 200 records the ring has 64, of which one is torn.
    assert!(verdict.contains("Of the 2 ranks"), "{verdict}");
    assert!(verdict.contains("136 records that newer ones have overwritten"), "{verdict}");
    assert!(verdict.contains("1 records that are not complete"), "{verdict}");
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
        assert_eq!(whole["verdict"], "No hang: in 1 group of 4 ranks nobody waits for anybody.");
        assert_eq!(whole["losses"], serde_json::json!([]));

        set(folder.path(), 1, header::LOST_COMMUNICATORS, 3);
        set(folder.path(), 2, header::LOST_COMMUNICATORS, 2);
        let (lossy, code) = answer(folder.path());
        assert_eq!((lossy["outcome"].as_str(), code), (Some("unclear"), Some(0)), "{lossy}");
        let lacks = "The recording lacks 5 communicators for which there was no room.";
        let first = "Cannot say whether the job hangs: in 1 group of 4 ranks nobody is seen to wait.";
        assert_eq!(lossy["verdict"], format!("{first} {lacks}"));
        let loss = serde_json::json!([{"what": "communicators for which there was no room", "count": 5}]);
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
        assert_eq!((code, &answer["culprits"]), (Some(4), &serde_json::json!([2])), "{answer}");
        let verdict = answer["verdict"].as_str().unwrap();
        assert!(verdict.starts_with("The job hangs on rank 2: it did not enqueue"), "{verdict}");
        assert!(verdict.contains(". The recording lacks 4 "), "{verdict}");
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
    let verdict = report::hang::verdict(&report);
    assert!(verdict.ends_with("The recording lacks 4 records for which there was no memory."), "{verdict}");
}
