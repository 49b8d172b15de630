//! Records with bytes that are changed, gone or there twice: no reader may panic, and rows keep naming rows that exist.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::support;

use nccl_stacks::analysis::recorded;
use nccl_stacks::input;
use nccl_stacks::records::{self, Keep, Records};
use support::program::testdata;
use support::random::Random;

fn assert_sound(records: &Records) {
    let operations = records.operations.len();
    assert_eq!(records.file_of.len(), operations);
    assert!(records.channels.iter().all(|row| row.operation.is_none_or(|at| at < operations)));
    assert!(records.proxy_ops.iter().all(|row| row.operation.is_none_or(|at| at < operations)));
    assert!(records.proxy_steps.iter().all(|row| row.proxy_op < records.proxy_ops.len()));
    assert!(records.measures.iter().all(|row| row.operation < operations));
    for operation in &records.operations {
        assert!(operation.start.zip(operation.end).is_none_or(|(start, end)| start <= end), "{operation:?}");
    }
}

#[test]
fn changed_bytes_are_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut read, mut recognised) = (0, 0);
    for name in ["pair/plugin_dump.txt", "pair/inspector/rank0.log", "pair/inspector/rank1.log"] {
        let whole = std::fs::read(testdata(&format!("records/{name}"))).unwrap();
        for _ in 0..400 {
            let mut bytes = whole.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len());
                match random.below(4) {
                    0 => bytes[at] = random.below(256) as u8,
                    1 => bytes[at] = b"{}[]\",:0-9e\n"[random.below(12)],
                    2 => drop(bytes.drain(at..(at + random.below(40)).min(bytes.len()))),
                    _ => {
                        let copy = bytes[at..(at + random.below(200)).min(bytes.len())].to_vec();
                        bytes.splice(at..at, copy);
                    }
                }
            }
            let path = folder.path().join("records");
            std::fs::write(&path, &bytes).unwrap();
            let records = records::read(input::open(&path).unwrap(), Keep::All).unwrap();
            assert_sound(&records);
            recorded::of(&records);
            read += 1;
            recognised += usize::from(records.files[0].source.is_some());
        }
    }
    assert!(recognised * 10 > read * 9, "{recognised} of {read}");
}
