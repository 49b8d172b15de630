//! What answers say of recordings that lack something, or in which calls of NCCL failed. What is expected is worked out by hand.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use nccl_stacks::report::recorded;
use nccl_stacks_recorder_format::layout;

use crate::recorder::{Process, folder, read_folder};
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
