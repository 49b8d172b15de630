//! Megatrace logs: every generation, what is wrong with them, and the real samples.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use nccl_stacks::operation::{Counts, Source};
use nccl_stacks::records::{Keep, Records, read_all};

/// Files in a folder that is removed at the end.
pub(crate) struct Logs {
    folder: tempfile::TempDir,
    files: Vec<PathBuf>,
}

impl Logs {
    pub(crate) fn new(texts: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |(name, text): &(&str, &str)| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let files = texts.iter().map(file).collect();
        Logs { folder, files }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn read(&self, keep: Keep) -> Records {
        read_all(&self.files, keep, 2)
    }
}

/// A log of the second generation: ten calls a second apart, from a number on.
fn calls(save_count: u64, second: u64, first: u64, count: u64) -> String {
    let mut text = String::new();
    for at in 0..count {
        writeln!(
            text,
            "[save_count {save_count}] [{}.000000007] [Rank 4] Fun AllReduce Data 64 stream 0xab opCount {}",
            second + at,
            first + at
        )
        .unwrap();
    }
    text
}

fn what(records: &Records, skipped: bool) -> Vec<(&'static str, u64, Option<u64>)> {
    let file = &records.files[0];
    let list = if skipped { &file.skipped } else { &file.repaired };
    list.iter().map(|remark| (remark.what, remark.count, remark.first_offset)).collect()
}

#[test]
fn every_generation_is_one_source() {
    let lines = [
        "[1746686438.086068203] [Rank 0] Fun AllGather Data 32 stream 0x55f615683660",
        "[save_count 1] [1746686438.086068203] [Rank 0] Fun AllGather Data 32 stream (nil) opCount 9",
        "[save_count 1] [1746686438.086068203] [Rank 0] Fun AllGather Data 32 stream 0x1 opCount 9 groupHash -2",
        "[j] [1] [10.0.0.1] [host-a] [save_count 1] [1746686438.086068203] [Rank 0] [PCI 0000:18:00.0] [Func ncclAllGather] \
         [Data 32] [stream (nil)] [opCount 9] [groupHash 0x0000000000000000]",
        "[10.0.0.1] [host-a] [save_count 1] [1746686438.086068203] [Rank 0] [PCI 0] [Func ncclAllGather] [Data 32] \
         [stream 0x1] [opCount 9] [groupHash 0xfffffffffffffffe]",
        "=== NCCL trace ===\nRank: 0\n1746686438.086068203,NCCL_API,AllGather,count=32,datatype=7,stream=0x1,comm=0x5,\
         group_hash=0xfffffffffffffffe\n1746686438.1,CUDA_KERNEL,func=0x1",
    ];
    let hashes = [None, None, Some(u64::MAX - 1), None, Some(u64::MAX - 1), Some(u64::MAX - 1)];
    for (at, (line, hash)) in lines.iter().zip(hashes).enumerate() {
        let records = Logs::new(&[("any.name", line)]).read(Keep::All);
        assert_eq!(records.files[0].source, Some(Source::MEGATRACE), "{line}");
        let [operation] = &records.operations[..] else { panic!("{line}: {}", records.operations.len()) };
        assert_eq!(operation.enqueued.unwrap().0, 1_746_686_438_086_068_203, "{line}");
        assert_eq!(operation.rank.unwrap().0, 0, "{line}");
        assert_eq!(operation.collective.as_deref(), Some("all_gather"), "{line}");
        // What each rank gives; how many there are is unknown.
        assert_eq!((operation.in_elements, operation.out_elements), (Some(32), None), "{line}");
        assert_eq!(records.communicator_of(operation).and_then(|of| of.hash), hash, "{line}");
        assert_eq!(operation.counts == Counts::Stream, [3, 4].contains(&at), "{line}");
        assert_eq!(operation.sequence, (1..5).contains(&at).then_some(9), "{line}");
        let host = records.rank_status.first().and_then(|status| status.host.as_deref());
        assert_eq!(host, [3, 4].contains(&at).then_some("host-a"), "{line}");
        assert_eq!(operation.stream_handle, Some([0x55f6_1568_3660, 0, 1, 0, 1, 1][at]), "{line}");
    }
}

#[test]
fn what_is_wrong_is_counted() {
    let mut text = calls(1, 1_700_000_000, 0, 3);
    let console_at = text.len();
    text.push_str("[2025-08-19 08:35:04.253968] [Rank: 4] [INFO] [a.cc:1:f] hello\n");
    let garbled_at = text.len();
    text.push_str("[1700000004.00[save_count 1] [1700000005.000000007] [Rank 4] Fun AllRe\n");
    let gap_at = text.len();
    // 3 to 9 are missing.
    text.push_str(&calls(2, 1_700_000_010, 10, 2));
    let records = Logs::new(&[("a", &text)]).read(Keep::All);
    assert_eq!(console_at + 63, garbled_at);
    assert_eq!((records.operations.len(), records.files[0].records), (5, 5));
    assert_eq!(
        what(&records, true),
        [
            ("lines that are garbled", 1, Some(garbled_at as u64)),
            ("calls that were overwritten in memory before they were written", 7, Some(gap_at as u64)),
        ]
    );
}

#[test]
fn lines_that_are_cut_are_used_as_far_as_they_go() {
    let line = |hash: &str| {
        format!(
            "[save_count 1] [1755590104.253968145] [Rank 7] Fun ReduceScatter Data 268423 stream 0x55919d27b4b0 opCount 5 \
             groupHash {hash}"
        )
    };
    let whole = line("-12345678");
    let cut = line("-1234567890123456789")[..127].to_owned();
    assert!(cut.ends_with("groupHash -1234567"), "{cut}");
    // Nothing says how the hash goes on; then another line does.
    for (text, hash, repaired) in
        [(format!("{cut}\n"), None, 1), (format!("{whole}\n{cut}\n"), Some(12_345_678_u64.wrapping_neg()), 2)]
    {
        let records = Logs::new(&[("a", &text)]).read(Keep::All);
        let last = records.operations.last().unwrap();
        assert_eq!((last.sequence, last.in_elements, last.out_elements), (Some(5), None, Some(268_423)));
        assert_eq!(records.communicator_of(last).and_then(|of| of.hash), hash);
        assert_eq!(what(&records, false).len(), repaired, "{:?}", what(&records, false));
    }
}

/// A bracket without its end is no second entry.
#[test]
fn a_bracket_that_is_cut_is_one_repair() {
    let name = "x".repeat(74);
    let whole = format!(
        "[{name}] [10.0.0.7] [node-a] [save_count 2] [1755590104.253968145] [Rank 3] [PCI 0000:18:00.0] \
         [Func ncclAllGather] [Data 25165824] [stream 0x55919d27b4b0] [opCount 1] [groupHash 0x00000000000000ff]"
    );
    let records = Logs::new(&[("a", &format!("{}\n", &whole[..255]))]).read(Keep::All);
    assert_eq!((records.operations.len(), what(&records, true)), (1, vec![]));
    assert_eq!(what(&records, false), [("lines that are cut off at the end of the writer's buffer", 1, Some(0))]);
}

#[test]
fn an_earlier_run_in_the_file_is_left_out() {
    let text = calls(1, 1_700_000_000, 0, 10) + &calls(2, 1_700_000_020, 10, 10) + &calls(1, 1_700_005_000, 0, 4);
    let records = Logs::new(&[("a", &text)]).read(Keep::All);
    assert_eq!(records.operations.len(), 4);
    assert_eq!(what(&records, true)[0].0, "calls of an earlier run in the same file");
    assert_eq!(what(&records, true)[0].1, 20);
    // Pieces in another order are no other run.
    let text = calls(2, 1_700_000_020, 10, 10) + &calls(1, 1_700_000_000, 0, 10);
    let records = Logs::new(&[("a", &text)]).read(Keep::All);
    assert_eq!(records.operations.len(), 20);
    assert!(records.operations.is_sorted_by_key(|operation| operation.enqueued));
    assert!(records.files[0].notes[0].contains("its times go back"), "{:?}", records.files[0].notes);
}

/// Ranks that write into one file count by themselves.
#[test]
fn ranks_in_one_file_are_no_other_runs() {
    let of = |rank: u32, save: u64, second: u64, first: u64| {
        calls(save, second, first, 2).replace("[Rank 4]", &format!("[Rank {rank}]"))
    };
    let mut text = String::new();
    for at in 0..5 {
        text.push_str(&of(1, 20 + at, 1_700_000_000 + 4 * at, 2 * at));
        text.push_str(&of(2, 3 + at, 1_700_000_002 + 4 * at, 2 * at));
    }
    let records = Logs::new(&[("a", &text)]).read(Keep::All);
    assert_eq!((records.operations.len(), records.files[0].records), (20, 20));
    assert!(records.files[0].skipped.is_empty() && records.files[0].notes.is_empty(), "{:?}", records.files[0]);
    // One of the two begins again.
    let again = text.len() as u64;
    text.push_str(&of(2, 1, 1_700_000_100, 0));
    let records = Logs::new(&[("a", &text)]).read(Keep::All);
    let rank = |rank: u32| records.operations.iter().filter(|of| of.rank.is_some_and(|of| of.0 == rank)).count();
    assert_eq!((rank(1), rank(2), records.files[0].records), (10, 2, 12));
    assert_eq!(what(&records, true), [("calls of an earlier run in the same file", 10, Some(again))]);
}

#[test]
fn the_last_calls_of_each_stream_are_kept() {
    let mut text = calls(1, 1_700_000_000, 0, 30);
    text.push_str(&calls(1, 1_700_000_030, 0, 5).replace("0xab", "0xcd").replace("AllReduce", "Send"));
    let records = Logs::new(&[("a", &text)]).read(Keep::Last(2));
    let kept: Vec<(u64, i64)> =
        records.operations.iter().map(|of| (of.stream_handle.unwrap(), of.sequence.unwrap())).collect();
    assert_eq!(kept, [(0xab, 28), (0xab, 29), (0xcd, 3), (0xcd, 4)]);
    let counts: Vec<(&str, u64)> =
        records.calls.iter().map(|(like, count)| (like.collective.as_deref().unwrap(), *count)).collect();
    assert_eq!(counts, [("all_reduce", 30), ("send", 5)]);
}

/// The real logs: as many calls as lines, and the calls that are overwritten by another count.
#[test]
fn real_logs_are_read_whole() {
    let Some(shared) = crate::support::shared() else { return };
    for (name, ranks, calls, lost) in [
        ("rank2_slow_8ranks_generation2.tar.gz", 8, 114_097, Some((2, 7227))),
        ("TP2PP4DP8_64ranks_generation1.tar.gz", 64, 16 * 7792 + 32 * 7392 + 16 * 8592, None),
    ] {
        let path = shared.join("records/megatrace").join(name);
        let records = read_all(&[path], Keep::All, 1);
        let of_source = records.files.iter().filter(|file| file.source == Some(Source::MEGATRACE));
        assert_eq!((of_source.count(), records.operations.len()), (ranks, calls), "{name}");
        if let Some((rank, lost)) = lost {
            let file = records.files.iter().find(|file| file.name.ends_with(&format!("rank_{rank}.log"))).unwrap();
            assert_eq!(file.skipped[0].count, lost);
        }
    }
}
