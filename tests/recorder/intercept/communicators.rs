//! Communicators: who they are in NCCL's files and in Megatrace's, and which number a call has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use nccl_stacks::input;
use nccl_stacks::records::{self, Keep};
use nccl_stacks_recorder_format::Communicator;

use crate::recorder::jobs::{Job, built};

/// Hashes of the ids `A` (bytes 0 to 127) and `B` (37 i + 200), computed by implementations of NCCL's and Megatrace's rules in C and Python.
const NCCL: [u64; 2] = [0x6afe_1cc1_7717_e1f4, 0x130b_f80b_b2fc_3c2b];
const MEGATRACE: [u64; 2] = [0x20b4_8553_2cbd_7f67, 0x5a14_ae0b_34f4_c517];
/// NCCL before 2.26: DJB2a over signed characters, computed in Python.
const NCCL_OLD: [u64; 2] = [0xbf47_c767_cbdf_3105, 0x6d51_a6fa_7a62_0005];
/// Children of `A`, computed in Python: the first split with colour 3, the second with 1, the third with 1; a shrunken one.
const CHILDREN: [u64; 4] = [0x2211_6033_4d3d_ef2e, 0x535b_c1d9_7d3f_e009, 0xad90_915e_3ac6_f792, 0x3ab8_d78e_8fb6_dbda];

/// Parent, rank, size, colour, key, hash; whether it ended.
fn facts(about: &Communicator<'_>) -> (u16, i32, i32, i32, i32, u64, bool) {
    (about.parent, about.rank, about.size, about.color, about.key, about.hash, about.ended != 0)
}

/// The communicator of each call of `ncclAllReduce`, by its count.
fn of_reductions(job: &Job) -> Vec<(u64, u16)> {
    let recording = job.recording();
    let calls = recording.calls().into_iter().filter(|(name, _)| *name == "ncclAllReduce");
    calls.map(|(_, record)| (record.a, record.communicator)).collect()
}

#[test]
fn ids_are_hashed_as_nccl_and_megatrace_do() {
    let steps = ["init 0 8 3 A", "init 1 8 4 B"];
    for (library, want) in [("new", NCCL), ("old", NCCL_OLD)] {
        let mut job = Job::new(&steps).env("LD_LIBRARY_PATH", built().path(library));
        job.run();
        let recording = job.recording();
        let all = recording.communicators();
        assert_eq!([all[0].hash, all[1].hash], want);
        assert_eq!([all[0].group_hash, all[1].group_hash], MEGATRACE);
        assert!(all.iter().all(|about| about.by == 2 && about.address != 0 && about.made > 0));
    }
}

#[test]
fn children_have_their_parents_hash_in_theirs() {
    let steps = [
        "init 0 8 5 A",
        "split 1 0 3 1",
        "split 2 0 1 0",
        "split 3 0 1 2",
        "split 4 0 -1 0",
        "shrink 5 0 2",
        "grow 6 0 12 -1",
        "grow 7 -1 12 11",
        "reduce 1 1 0",
        "reduce 2 2 0",
        "reduce 3 3 0",
        "reduce 5 5 0",
        "reduce 6 6 0",
        "reduce 7 7 0",
        "split 8 1 9 0",
        "finalize 2",
        "destroy 3",
        "abort 1",
    ];
    let mut job = Job::new(&steps);
    assert!(job.lines().is_empty());
    let recording = job.recording();
    let got: Vec<_> = recording.communicators().iter().map(facts).collect();
    // The made NCCL gives the key as rank and halves the size.
    let want = [
        (0, 5, 8, 0, 0, NCCL[0], false),
        (1, 1, 4, 3, 1, CHILDREN[0], true),
        (1, 0, 4, 1, 0, CHILDREN[1], true),
        (1, 2, 4, 1, 2, CHILDREN[2], true),
        (1, 5, 7, 0, 0, CHILDREN[3], false),
        // A grown one's hash comes from what only NCCL knows.
        (1, 5, 12, 0, 0, 0, false),
        (0, 11, 12, 0, 0, 0, false),
        (2, 0, 2, 9, 0, got[7].5, false),
    ];
    assert_eq!(got, want);
    assert!(got[7].5 != 0);
    assert_eq!(of_reductions(&job), [(1, 2), (2, 3), (3, 4), (5, 5), (6, 6), (7, 7)]);
}

/// What a group makes is there at its end, after the call that passed the place; so it is learned when it is used.
#[test]
fn a_child_that_a_group_makes_is_known_at_its_first_use() {
    let steps = ["init 0 8 5 A", "start", "start", "split 1 0 3 1", "end", "end", "reduce 1 1 0", "reduce 1 2 0"];
    let mut job = Job::new(&steps);
    job.run();
    assert_eq!(of_reductions(&job), [(1, 2), (2, 2)]);
    let recording = job.recording();
    let got: Vec<_> = recording.communicators().iter().skip(1).map(facts).collect();
    assert_eq!(got, [(1, 1, 4, 3, 1, CHILDREN[0], false)]);
}

/// Two children of one group of which nothing is known but colour and key: which of them a program uses first nobody can say. Each has a number of
/// its own with what NCCL says of it.
#[test]
fn children_that_cannot_be_told_apart_are_not_mixed() {
    let steps = [
        "init 0 8 5 A",
        "start",
        "split 1 0 3 1",
        "split 2 0 1 0",
        "end",
        "reduce 2 7 0",
        "reduce 1 8 0",
        "reduce 2 9 0",
        "destroy 2",
    ];
    let mut job = Job::new(&steps);
    job.run();
    assert_eq!(of_reductions(&job), [(7, 4), (8, 5), (9, 4)]);
    let recording = job.recording();
    let got: Vec<_> = recording.communicators().iter().skip(1).map(facts).collect();
    let want = [
        (1, -1, -1, 3, 1, CHILDREN[0], false),
        (1, -1, -1, 1, 0, CHILDREN[1], false),
        (0, 0, 4, 0, 0, 0, true),
        (0, 1, 4, 0, 0, 0, false),
    ];
    assert_eq!(got, want);
}

/// Result 7, `ncclInProgress`: a communicator from an id is usable as a key at once, one that is split is there later.
#[test]
fn communicators_that_do_not_block_are_known_at_their_first_use() {
    let steps = [
        "initconfig 0 8 5 A",
        "reduce 0 1 0",
        "split 1 0 3 1",
        "reduce 0 2 0",
        "poll 0",
        "reduce 1 3 0",
        "finalize 1",
        "destroy 1",
    ];
    let mut job = Job::new(&steps).env("FAKE_NCCL_NONBLOCKING", "1");
    assert_eq!(job.lines(), ["! initconfig 0 8 5 A: 7", "! split 1 0 3 1: 7"]);
    assert_eq!(of_reductions(&job), [(1, 1), (2, 1), (3, 2)]);
    let recording = job.recording();
    assert_eq!(facts(&recording.communicators()[1]), (1, 1, 4, 3, 1, CHILDREN[0], true));
    let results = recording.results();
    assert_eq!(results[..2], [("ncclCommInitRankConfig", 7), ("ncclCommSplit", 7)]);
}

#[test]
fn one_that_could_not_be_made_has_ended() {
    let mut job = Job::new(&["init 0 8 5 A", "reduce 0 1 0"]).env("FAKE_NCCL_RESULT", "ncclCommInitRank:2");
    assert_eq!(job.lines(), ["! init 0 8 5 A: 2", "! reduce 0 1 0: 4"]);
    assert!(job.recording().communicators()[0].ended > 0);
    assert_eq!(of_reductions(&job), [(1, 0)]);
}

/// The allocator gives the same address again.
#[test]
fn an_address_that_comes_again_is_another_communicator() {
    let mut job = Job::new(&["cycle 20 1"]);
    job.run();
    let recording = job.recording();
    let all = recording.communicators();
    assert_eq!(all.len(), 20);
    assert!(all.iter().all(|about| about.ended != 0));
    // Otherwise nothing was tested.
    assert!(all.iter().skip(1).any(|about| about.address == all[0].address));
    let want: Vec<(u64, u16)> = (0..20).map(|n| (1000 + n, n as u16 + 1)).collect();
    assert_eq!(of_reductions(&job), want);
}

/// Eight threads make and end communicators at the same time, at addresses that the others have just given back.
#[test]
fn threads_do_not_mix_their_communicators() {
    let mut job = Job::new(&["churn 8 60"]);
    job.run();
    let recording = job.recording();
    let mut threads = BTreeMap::<u32, Vec<(&str, u16)>>::new();
    for (name, record) in recording.calls() {
        threads.entry(record.thread).or_default().push((name, record.communicator));
    }
    let mut numbers = BTreeSet::new();
    for calls in threads.values() {
        for calls in calls.chunks(3) {
            let number = calls[0].1;
            let want = [("ncclCommInitRank", number), ("ncclAllReduce", number), ("ncclCommDestroy", number)];
            assert_eq!(calls, want);
            assert!(numbers.insert(number));
        }
    }
    assert_eq!(numbers, (1..=480).collect());
    let addresses: BTreeSet<u64> = recording.communicators().iter().map(|about| about.address).collect();
    assert!(addresses.len() < 480, "no address came again");
}

#[test]
fn many_communicators_and_more_than_the_file_holds() {
    let mut job = Job::new(&["initall 0 64", "reduce 63 1 0", "reduce 0 2 0"]);
    job.run();
    let recording = job.recording();
    let all = recording.communicators();
    assert_eq!((all.len(), all[63].rank, all[63].size, all[63].hash), (64, 63, 64, 0));
    assert_eq!(of_reductions(&job), [(1, 64), (2, 1)]);

    let mut job = Job::new(&["cycle 600 0"]);
    job.run();
    let recording = job.recording();
    assert_eq!((recording.communicators().len(), recording.header().lost_communicators), (512, 88));
    let want: Vec<(u64, u16)> = (0..600).map(|n| (1000 + n, if n < 512 { n as u16 + 1 } else { 0 })).collect();
    assert_eq!(of_reductions(&job), want);
}

/// The file keeps 512, and says of each record whose it is, or that it does not know.
#[test]
fn of_many_communicators_one_after_the_other_none_is_lost() {
    let steps: Vec<String> = (0..600)
        .flat_map(|n| [format!("init 0 1000 {n} A"), format!("reduce 0 {} 0", 5000 + n), "destroy 0".to_owned()])
        .collect();
    let mut job = Job::new(&steps.iter().map(String::as_str).collect::<Vec<_>>());
    job.run();
    let recording = job.recording();
    let header = recording.header();
    assert_eq!((header.lost_communicators, header.reused), (0, 88));
    // The first 88 had ended first, one after the other.
    let want: Vec<(u64, u16)> = (0..600).map(|n| (5000 + n, (n % 512) as u16 + 1)).collect();
    assert_eq!(of_reductions(&job), want);
    let ranks = recording.communicators().into_iter().map(|about| about.rank);
    assert!(ranks.eq((512..600).chain(88..512)));

    let path = fs::read_dir(job.folder.path().join("records")).unwrap().next().unwrap().unwrap().path();
    let records = records::read(input::open(&path).unwrap(), Keep::All).unwrap();
    let places = records.operations.iter().map(|row| (row.in_elements.unwrap() - 5000, row.place));
    assert!(places.eq((0..600).map(|n| (n, (n >= 88).then_some(n as u32)))));
    let note = "88 communicators had ended and gave their numbers to newer ones. Their records name no communicator.";
    assert!(records.files[0].notes.iter().any(|known| known == note), "{:?}", records.files[0].notes);
}

#[test]
fn of_513_communicators_at_once_one_is_lost() {
    let mut job = Job::new(&["initall 0 512", "init 512 8 5 A", "reduce 512 1 0", "destroy 7", "init 513 8 6 A"]);
    job.run();
    let recording = job.recording();
    let header = recording.header();
    assert_eq!((header.lost_communicators, header.reused), (1, 1));
    assert_eq!(of_reductions(&job), [(1, 0)]);
    assert_eq!(facts(&recording.communicators()[7]), (0, 6, 8, 0, 0, NCCL[0], false));
}

/// NCCL may still be given it, to destroy it.
#[test]
fn a_communicator_that_is_finalized_keeps_its_number() {
    let steps = ["init 0 8 5 A", "initall 1 511", "finalize 0", "init 600 4 2 B", "destroy 0", "init 601 4 3 B"];
    let mut job = Job::new(&steps);
    job.run();
    let recording = job.recording();
    let header = recording.header();
    assert_eq!((header.lost_communicators, header.reused), (1, 1));
    let calls = recording.calls().into_iter().map(|(name, record)| (name, record.communicator));
    let want = [
        ("ncclCommInitRank", 1),
        ("ncclCommInitAll", 0),
        ("ncclCommFinalize", 1),
        ("ncclCommInitRank", 0),
        ("ncclCommDestroy", 1),
        ("ncclCommInitRank", 1),
    ];
    assert_eq!(calls.collect::<Vec<_>>(), want);
    assert_eq!(facts(&recording.communicators()[0]), (0, 3, 4, 0, 0, NCCL[1], false));
}

#[test]
fn a_forked_process_has_its_own_file_and_communicators() {
    let steps = ["init 0 8 5 A", "reduce 0 1 0", "fork", "reduce 0 2 0", "init 1 4 2 B", "reduce 1 3 0"];
    let mut job = Job::new(&steps);
    assert_eq!(job.lines(), ["parent"]);
    let all = job.recordings();
    assert_eq!(all.len(), 2);
    let calls = |index: usize| -> Vec<(&str, u64, u16)> {
        all[index].calls().iter().map(|(name, r)| (*name, r.a, r.communicator)).collect()
    };
    let (init, reduce) = ("ncclCommInitRank", "ncclAllReduce");
    assert_eq!(calls(0), [(init, 8, 1), (reduce, 1, 1), (reduce, 2, 1), (init, 4, 2), (reduce, 3, 2)]);
    // The parent's communicators are not in the child's file.
    assert_eq!(calls(1), [(reduce, 2, 0), (init, 4, 1), (reduce, 3, 1)]);
    assert_ne!(all[0].header().pid, all[1].header().pid);
    assert_eq!((all[1].header().nccl, all[1].communicators().len()), (23203, 1));
}

#[test]
fn a_program_that_replaces_itself_begins_again() {
    let mut job = Job::new(&["init 0 8 5 A", "reduce 0 1 0", "exec", "init 0 8 5 B", "reduce 0 2 0"]);
    job.run();
    let all = job.recordings();
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].header().pid, all[1].header().pid);
    let counts: Vec<Vec<u64>> = all.iter().map(|one| one.calls().iter().map(|(_, r)| r.a).collect()).collect();
    assert_eq!(counts, [[8, 1], [8, 2]]);
    // The first one could not say that it ended.
    assert_eq!((all[0].header().is_closed, all[1].header().is_closed), (false, true));
    assert_eq!((all[0].communicators()[0].hash, all[1].communicators()[0].hash), (NCCL[0], NCCL[1]));
}
