//! Communicators that the interceptor knows without a hash, and the plugin with one: which are one, and which stay unknown. What is expected is
//! worked out by hand.

use nccl_stacks::records::Records;
use nccl_stacks_recorder_format::{Communicator, Kind, Record};

use crate::records::recorder::{Process, folder};

/// Enters a communicator of the plugin (1) or the interceptor (2); its number.
fn enter(process: &Process, by: u32, hash: u64, [rank, size]: [i32; 2], made: i64) -> u16 {
    if by == 1 {
        process.writer.set_plugin(5, 78);
    }
    process.writer.communicator(&Communicator { by, hash, rank, size, made, ..Communicator::default() })
}

/// A call that makes communicators, from one time to another; the end names what it made.
fn making(process: &Process, function: &str, size: u64, time: [i64; 2], made: u16) {
    let function = process.writer.text(function.as_bytes());
    let call = process.put(time[0], Record { function, a: size, ..Record::new(Kind::Call) });
    process.put(time[1], Record { parent: call, communicator: made, ..Record::new(Kind::Stop) });
}

/// An all-reduce that the interceptor sees under one number, and the plugin under another, if it does.
fn reduce(process: &Process, time: i64, of_call: u16, of_plugin: Option<u16>) {
    let [function, of_api] = ["ncclAllReduce", "AllReduce"].map(|text| process.writer.text(text.as_bytes()));
    let call = Record { communicator: of_call, function, a: 1024, dtype: 8, ..Record::new(Kind::Call) };
    process.put(time, call);
    if let Some(communicator) = of_plugin {
        let api = Record { communicator, function: of_api, a: 1024, ..Record::new(Kind::CollApi) };
        let api = process.put(time + 10, api);
        process.planned(time + 20, communicator, api, 2);
    }
}

/// Hash of the communicator and rank in it, of each operation.
fn seen(records: &Records) -> Vec<(Option<u64>, Option<u32>)> {
    let hash = |of: Option<usize>| of.and_then(|at| records.communicators[at].hash);
    records.operations.iter().map(|of| (hash(of.communicator), of.place)).collect()
}

fn process(folder: &tempfile::TempDir) -> Process {
    Process::bare(folder.path(), [-1; 3], 40, 1024)
}

/// Each of two ranks is made while the call runs; nothing is called by which the plugin could say more.
#[test]
fn what_was_made_while_the_call_ran_is_one() {
    let folder = folder();
    let process = process(&folder);
    let plugins = [0, 1].map(|rank| enter(&process, 1, 0xabc, [rank, 2], 150 + i64::from(rank)));
    let own = [0, 1].map(|rank| enter(&process, 2, 0, [rank, 2], 190));
    making(&process, "ncclCommInitAll", 2, [100, 200], 0);
    // The calls alone.
    own.iter().for_each(|own| reduce(&process, 1_000 + i64::from(*own), *own, None));
    let records = process.read();
    assert_eq!(seen(&records), [(Some(0xabc), Some(0)), (Some(0xabc), Some(1))]);
    assert_eq!(records.communicators.len(), 1);
    // With what the plugin reports of two further calls there are four operations, not six.
    (0..2).for_each(|rank| reduce(&process, 5_000 + 1_000 * rank as i64, own[rank], Some(plugins[rank])));
    let records = process.read();
    let both = [(Some(0xabc), Some(0)), (Some(0xabc), Some(1))];
    assert_eq!(seen(&records), [both, both].concat());
    assert!(records.operations[2].algorithm.is_some() && records.operations[2].enqueued.is_some());
}

/// One that was made at another time, or with another rank, is another.
#[test]
fn what_was_made_elsewhere_is_another() {
    for (made, rank, is_one) in [(150, 0, true), (250, 0, false), (50, 0, false), (150, 1, false)] {
        let folder = folder();
        let process = process(&folder);
        enter(&process, 1, 0xabc, [rank, 4], made);
        let own = enter(&process, 2, 0, [0, 4], 90);
        making(&process, "ncclCommGrow", 4, [100, 200], own);
        reduce(&process, 1_000, own, None);
        let hash = if is_one { Some(0xabc) } else { None };
        assert_eq!(seen(&process.read()), [(hash, Some(0))], "made at {made} with rank {rank}");
    }
}

/// Two that grew at the same time on two threads, to one rank and size: only their calls distinguish them.
#[test]
fn two_of_one_time_are_distinguished_by_their_calls() {
    let folder = folder();
    let mut process = process(&folder);
    let plugins = [0xaaa, 0xbbb].map(|hash| enter(&process, 1, hash, [0, 4], 150));
    let own = [90, 91].map(|made| enter(&process, 2, 0, [0, 4], made));
    for (at, own) in own.iter().enumerate() {
        process.thread = 1 + at as u32;
        making(&process, "ncclCommGrow", 4, [100 + at as i64, 200], *own);
    }
    own.iter().for_each(|own| reduce(&process, 1_000 + i64::from(*own), *own, None));
    // Nothing says which is which.
    assert_eq!(seen(&process.read()), [(None, Some(0)); 2]);
    // The first one is the second of the plugin; then the other is what is left.
    process.thread = 1;
    reduce(&process, 2_000, own[0], Some(plugins[1]));
    assert_eq!(seen(&process.read()), [(Some(0xbbb), Some(0)), (Some(0xaaa), Some(0)), (Some(0xbbb), Some(0))]);
}

/// Calls of one in which the plugin names two: neither is it, and no operation is there twice.
#[test]
fn one_that_would_be_two_is_none() {
    let folder = folder();
    let process = process(&folder);
    let plugins = [0xaaa, 0xbbb].map(|hash| enter(&process, 1, hash, [0, 4], 150));
    let own = enter(&process, 2, 0, [0, 4], 90);
    making(&process, "ncclCommSplit", 0, [100, 200], own);
    plugins.iter().enumerate().for_each(|(at, of)| reduce(&process, 1_000 * (1 + at as i64), own, Some(*of)));
    assert_eq!(seen(&process.read()), [(None, Some(0)); 2]);
}

/// A handle with rank and size, whose making nobody saw: its calls say what it is, unless rank or size contradict.
#[test]
fn a_handle_is_known_by_its_calls() {
    for (size, hash) in [(4, Some(0xaaa)), (8, None)] {
        let folder = folder();
        let process = process(&folder);
        let plugin = enter(&process, 1, 0xaaa, [2, 4], 150);
        let own = enter(&process, 2, 0, [2, size], 900);
        (1..4).for_each(|number| reduce(&process, 1_000 * number, own, Some(plugin)));
        let records = process.read();
        assert_eq!(seen(&records), [(hash, Some(2)); 3], "of {size} ranks");
    }
}

/// Two children that one group has made: announced with their hashes, used under handles of which only rank and size are known. The plugin knows
/// them by hash.
#[test]
fn announced_children_are_those_whose_calls_the_plugin_names() {
    let folder = folder();
    let process = process(&folder);
    let [first, second] = [0xaaa, 0xbbb].map(|hash| {
        enter(&process, 2, hash, [-1, -1], 100);
        enter(&process, 1, hash, [1, 4], 150)
    });
    let handles = [900, 901].map(|made| enter(&process, 2, 0, [1, 4], made));
    reduce(&process, 1_000, handles[0], Some(second));
    reduce(&process, 2_000, handles[1], Some(first));
    let records = process.read();
    assert_eq!(seen(&records), [(Some(0xbbb), Some(1)), (Some(0xaaa), Some(1))]);
    // An announcement without a rank is no second rank of the process.
    assert!(!records.files[0].notes.iter().any(|note| note.contains("several ranks")), "{:?}", records.files[0].notes);
}

/// The same without plugin: which child a handle is nobody knows, so nobody says that the rank has called nothing of either.
#[test]
fn a_rank_whose_children_are_unknown_is_not_said_to_lack_their_calls() {
    let status = |is_used_by_handle: bool| {
        let folder = folder();
        let process = process(&folder);
        enter(&process, 2, 0xaaa, [-1, -1], 100);
        let handle = enter(&process, 2, 0, [1, 4], 900);
        if is_used_by_handle {
            reduce(&process, 1_000, handle, None);
        } else {
            // The handle is another communicator's, which the plugin knows.
            let plugin = enter(&process, 1, 0xccc, [1, 4], 150);
            reduce(&process, 1_000, handle, Some(plugin));
        }
        let records = process.read();
        let hash = |at: usize| records.communicators[at].hash;
        records.rank_status.iter().filter_map(|status| status.communicator.and_then(hash)).collect::<Vec<u64>>()
    };
    assert!(status(true).is_empty());
    assert_eq!(status(false), [0xaaa, 0xccc]);
}
