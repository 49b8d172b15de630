//! NCCL's own log: calls, communicators, choices, in a stream of any length.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Instant;

use nccl_stacks::operation::{Counts, Source};
use nccl_stacks::records::{Keep, read_all};

use crate::records::megatrace::Logs;

const INIT: &str = "node:100:101 [0] NCCL INFO ncclCommInitRank comm 0x5600 rank 3 nranks 8 cudaDev 0 nvmlDev 0 busId 1000 \
                    commId 0xabcd - Init COMPLETE\n";

fn call(thread: u32, function: &str, number: u64, count: u64, comm: &str) -> String {
    format!(
        "node:100:{thread} [0] NCCL INFO {function}: opCount {number:x} sendbuff 0x7f recvbuff 0x7f count {count} datatype 9 op 0 \
         root 2 comm {comm} [nranks=8] stream 0x55\n"
    )
}

#[test]
fn calls_find_their_communicator_and_choice() {
    let mut text = INIT.to_owned();
    text.push_str("node:100:101 [0] NCCL INFO Connected all rings\n");
    text.push_str(&call(101, "AllReduce", 26, 1024, "0x5600"));
    // Of another thread with the same function: its choice is its own.
    text.push_str(&call(102, "AllReduce", 27, 2048, "0x5600"));
    text.push_str(&call(101, "Broadcast", 28, 64, "0x5600"));
    text.push_str("node:100:102 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}\n");
    text.push_str("node:100:101 [0] NCCL INFO AllReduce: 2048 Bytes -> Algo 1 proto 2 time 20.5\n");
    // A pointer of which nothing says what it is, and a line that is cut.
    text.push_str(&call(101, "AllGather", 0, 16, "0x9900"));
    text.push_str("node:100:101 [0] NCCL INFO AllReduce: opCount 1d sendbu\n");
    let records = Logs::new(&[("nccl.log", &text)]).read(Keep::All);
    let file = &records.files[0];
    assert_eq!((file.source, file.records, file.skipped[0].count), (Some(Source::DEBUG_LOG), 4, 1));
    assert!(
        file.notes[0].starts_with("1 calls use communicators whose creation is not in the log"),
        "{:?}",
        file.notes
    );
    let shown: Vec<_> = records
        .operations
        .iter()
        .map(|of| {
            let hash = records.communicator_of(of).and_then(|of| of.hash);
            (of.sequence.unwrap(), hash, of.place, of.bytes.unwrap(), of.algorithm.as_deref(), of.protocol.as_deref())
        })
        .collect();
    let (hash, place) = (Some(0xabcd), Some(3));
    assert_eq!(
        shown,
        [
            (26, hash, place, 2048, Some("RING"), Some("SIMPLE")),
            (27, hash, place, 4096, Some("TREE"), Some("LL")),
            (28, hash, place, 128, None, None),
            // 16 of two bytes from each of eight ranks.
            (0, None, None, 256, None, None),
        ]
    );
    assert!(records.operations.iter().all(|of| of.counts == Counts::Communicator && of.enqueued.is_none()));
    assert_eq!((records.operations[2].peer, records.operations[1].channels), (Some(2), Some(2)));
    let status = &records.rank_status[0];
    assert_eq!((status.host.as_deref(), status.pid, status.place), (Some("node"), Some(100), Some(3)));
}

/// Of a group all calls come first, and then the choices, those of large calls first. A call on one rank has none.
#[test]
fn choices_in_a_group_go_by_size() {
    let choice = |bytes: u64, algorithm: &str| {
        format!(
            "node:100:101 [0] NCCL INFO AllReduce: {bytes} Bytes -> Algo {algorithm} proto LL channel{{Lo..Hi}}={{0..0}}\n"
        )
    };
    let mut text = INIT.to_owned();
    text.push_str(&call(101, "AllReduce", 0, 2048, "0x7700").replace("nranks=8", "nranks=1"));
    for number in 0..100 {
        text.push_str(&call(101, "AllReduce", number, 1024, "0x5600"));
    }
    text.push_str(&call(101, "AllReduce", 100, 2048, "0x5600"));
    text.push_str(&call(101, "Send", 101, 2048, "0x5600"));
    text.push_str(&choice(4096, "RING"));
    (0..100).for_each(|_| text.push_str(&choice(2048, "TREE")));
    // Its size is of no call that has no choice yet, and two of the function have none.
    text.push_str(&call(101, "AllReduce", 102, 1, "0x5600"));
    text.push_str(&call(101, "AllReduce", 103, 2, "0x5600"));
    text.push_str(&choice(64, "NVLS"));
    // Rank 3 of another communicator prints nothing; the first rank of this one does.
    let text = text.replacen("rank 3", "rank 0", 1)
        + &INIT.replace("0x5600", "0x8800").replace("0xabcd", "0xef01")
        + &call(101, "AllReduce", 200, 512, "0x8800")
        + &call(101, "AllReduce", 201, 512, "0x5600")
        + &choice(1024, "PAT");
    let records = Logs::new(&[("nccl.log", &text)]).read(Keep::All);
    let algorithm = |number: i64| {
        let of = |of: &&nccl_stacks::operation::Operation| of.sequence == Some(number) && of.communicator.is_some();
        records.operations.iter().find(of).unwrap().algorithm.as_deref()
    };
    assert!((0..100).all(|number| algorithm(number) == Some("TREE")));
    assert_eq!([100, 101, 102, 103].map(algorithm), [Some("RING"), None, None, None]);
    assert_eq!([200, 201].map(algorithm), [None, Some("PAT")]);
    assert_eq!(records.operations.iter().filter(|of| of.algorithm.is_some()).count(), 102);
}

/// Older versions say neither the function nor names.
#[test]
fn choices_without_a_function_are_those_of_their_size() {
    let mut text = INIT.replace("rank 3", "rank 0");
    text.push_str(&call(101, "AllReduce", 0, 64, "0x5600"));
    text.push_str(&call(101, "AllGather", 1, 32, "0x5600"));
    // 32 elements of two bytes from each of eight ranks.
    text.push_str("node:100:101 [0] NCCL INFO 512 Bytes -> Algo 1 proto 0 time 12.500000\n");
    text.push_str("node:100:101 [0] NCCL INFO 128 Bytes -> Algo 0 proto 2 time 12.500000\n");
    let records = Logs::new(&[("nccl.log", &text)]).read(Keep::All);
    let choices: Vec<_> =
        records.operations.iter().map(|of| (of.algorithm.as_deref(), of.protocol.as_deref())).collect();
    assert_eq!(choices, [(Some("TREE"), Some("SIMPLE")), (Some("RING"), Some("LL"))]);
}

#[test]
fn choices_may_be_many() {
    // More than are looked through, each twice.
    let mut text = INIT.to_owned();
    for number in 0..200 {
        text.push_str(&call(101, "AllReduce", number, 64, "0x5600"));
        let last = number % 100;
        writeln!(
            text,
            "node:100:101 [0] NCCL INFO AllReduce: 64 Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..{last}}}"
        )
        .unwrap();
    }
    let records = Logs::new(&[("nccl.log", &text)]).read(Keep::All);
    let channels: Vec<_> = records.operations.iter().map(|of| u64::from(of.channels.unwrap())).collect();
    assert_eq!(channels, (1..=100).chain(1..=100).collect::<Vec<_>>());
    assert!(records.calls.len() == 100 && records.calls.iter().all(|(_, count)| *count == 2));
}

/// Children of a communicator have no id: they are what their parent, its count of children and the color make them.
#[test]
fn children_of_communicators_are_distinguished() {
    let child = |comm: &str, parent: &str, count: u32, color: u32, end: &str| {
        format!(
            "node:100:101 [0] NCCL INFO ncclCommSplit comm {comm} rank 1 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 parent {parent} \
             splitCount {count} color {color} key 0{end}\n"
        )
    };
    let made = |comm: &str, parent: &str, count: u32, color: u32| {
        child(comm, parent, count, color, "- Init START") + &child(comm, parent, count, color, " - Init COMPLETE")
    };
    let mut text = INIT.to_owned();
    text.push_str(&made("0x7700", "0x5600", 1, 0));
    text.push_str(&call(101, "AllReduce", 0, 64, "0x7700"));
    // At the place of the one before; a child of that; and one of a parent that is not in the log, at its place again.
    text.push_str(&made("0x7700", "0x5600", 2, 0));
    text.push_str(&call(101, "AllReduce", 1, 64, "0x7700"));
    text.push_str(&made("0x8800", "0x7700", 1, 3));
    text.push_str(&call(101, "AllReduce", 2, 64, "0x8800"));
    text.push_str(&made("0x7700", "0x1234", 1, 0));
    text.push_str(&call(101, "AllReduce", 3, 64, "0x7700"));
    // Another rank's process names the first like this one, whatever its pointers.
    let other = (INIT.to_owned() + &made("0x7700", "0x5600", 1, 0) + &call(101, "AllReduce", 0, 64, "0x7700"))
        .replace("node:100", "other:200")
        .replace("0x5600", "0x99")
        .replace("0x7700", "0xaa")
        .replace("rank 1", "rank 2");
    let records = Logs::new(&[("a.log", &text), ("b.log", &other)]).read(Keep::All);
    let of = |at: usize| {
        let operation = &records.operations[at];
        let name = records.communicator_of(operation).and_then(|of| of.name.clone());
        (name, operation.place)
    };
    let of: Vec<_> = (0..5).map(of).collect();
    let first = Some("child 1 of 0xabcd, color 0".to_owned());
    assert_eq!((&of[0], &of[4]), (&(first.clone(), Some(1)), &(first, Some(2))));
    assert_eq!(of[1], (Some("child 2 of 0xabcd, color 0".to_owned()), Some(1)));
    assert_eq!(of[2], (Some("child 1 of (child 2 of 0xabcd, color 0), color 3".to_owned()), Some(1)));
    assert_eq!(of[3], (None, None));
    assert!(records.files[0].notes[0].starts_with("1 calls use communicators"), "{:?}", records.files[0].notes);
}

#[test]
fn a_pointer_that_is_used_again_is_another_communicator() {
    let text = INIT.to_owned()
        + &call(101, "AllReduce", 0, 1, "0x5600")
        + &INIT.replace("0xabcd", "0xef01").replace("rank 3", "rank 1")
        + &call(101, "AllReduce", 0, 1, "0x5600");
    let records = Logs::new(&[("nccl.log", &text)]).read(Keep::All);
    let of = |at: usize| (records.communicator_of(&records.operations[at]).unwrap().hash, records.operations[at].place);
    assert_eq!((of(0), of(1)), ((Some(0xabcd), Some(3)), (Some(0xef01), Some(1))));
}

/// NCCL up to 2.14 says no id of a communicator. Processes make theirs in one order, unless they are of several.
#[test]
fn communicators_without_an_id_are_those_of_one_order() {
    let process = |pid: u32, rank: u32, size: u32, count: u64| {
        format!(
            "node:{pid}:101 [0] NCCL INFO comm 0x5600 rank {rank} nranks {size} cudaDev 0 busId 1000 - Init COMPLETE\n"
        ) + &call(101, "AllReduce", 0, count, "0x5600").replace("node:100", &format!("node:{pid}"))
    };
    let judged = |text: String| {
        let records = Logs::new(&[("nccl.log", &text)]).read(Keep::All);
        let culprits = nccl_stacks::answers::hang::hang(&records).culprits;
        let places: Vec<u32> = records.operations.iter().filter_map(|of| of.place).collect();
        (culprits, places, records.files[0].notes.len())
    };
    let of_three = |last: u64| [process(1, 0, 3, 53), process(2, 1, 3, 53), process(3, 2, 3, last)].concat();
    assert_eq!(judged(of_three(53)), (vec![], vec![0, 1, 2], 0));
    assert_eq!(judged(of_three(25_503_912)), (vec![2], vec![0, 1, 2], 0));
    // Another one at the place of the first, which was ended.
    let ended = |pid: u32, rank: u32| {
        format!(
            "node:{pid}:101 [0] NCCL INFO comm 0x5600 rank {rank} nranks 3 cudaDev 0 busId 1000 - Destroy COMPLETE\n"
        )
    };
    let twice: String = (0..3)
        .map(|rank| process(rank + 1, rank, 3, 53) + &ended(rank + 1, rank) + &process(rank + 1, rank, 3, 7))
        .collect();
    assert_eq!(judged(twice), (vec![], vec![0, 0, 1, 1, 2, 2], 0));
    // Two communicators of two ranks.
    let of_two = [process(1, 0, 2, 1), process(2, 1, 2, 1), process(3, 0, 2, 9), process(4, 1, 2, 9)].concat();
    assert!(judged(of_two).1.is_empty());
}

#[test]
fn the_last_are_kept_and_all_are_counted() {
    let mut text = INIT.to_owned();
    for number in 0..1000 {
        text.push_str(&call(101, "AllReduce", number, 1024 << (number % 2), "0x5600"));
        if number % 4 < 2 {
            let bytes = 2048 << (number % 2);
            writeln!(
                text,
                "node:100:101 [0] NCCL INFO AllReduce: {bytes} Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..0}}"
            )
            .unwrap();
        }
    }
    let records = Logs::new(&[("nccl.log", &text)]).read(Keep::Last(3));
    let kept: Vec<i64> = records.operations.iter().map(|of| of.sequence.unwrap()).collect();
    assert_eq!(kept, [997, 998, 999]);
    let counts: Vec<_> =
        records.calls.iter().map(|(like, count)| (like.bytes.unwrap(), like.algorithm.as_deref(), *count)).collect();
    assert_eq!(counts.iter().map(|(.., count)| count).sum::<u64>(), 1000);
    assert!(counts.contains(&(2048, Some("RING"), 250)) && counts.contains(&(4096, None, 250)), "{counts:?}");
}

/// Measures, with the profile that it is compiled with: `cargo test --release --test program -- --ignored --nocapture big_log`.
#[test]
#[ignore = "writes a gigabyte"]
fn a_big_log_is_read_in_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nccl.log");
    let megabytes: usize = std::env::var("NCCL_LOG_MB").map_or(1000, |text| text.parse().unwrap());
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    let (mut written, mut number, mut block) = (0, 0_u64, String::new());
    for rank in 0..8 {
        block.push_str(&INIT.replace("0x5600", &format!("0x56{rank}0")).replace("rank 3", &format!("rank {rank}")));
    }
    while written < megabytes << 20 {
        for rank in 0..8 {
            block.push_str(&call(100 + rank, "AllReduce", number, 1024 << (number % 20), &format!("0x56{rank}0")));
            writeln!(
                block,
                "node:100:{} [0] NCCL INFO AllReduce: 1 Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..3}}",
                100 + rank
            )
            .unwrap();
        }
        number += 1;
        file.write_all(block.as_bytes()).unwrap();
        written += block.len();
        block.clear();
    }
    file.into_inner().unwrap();
    let start = Instant::now();
    let records = read_all(&[path], Keep::Last(8), 1);
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(records.files[0].records, 8 * number);
    assert_eq!(records.calls.iter().map(|(_, count)| count).sum::<u64>(), 8 * number);
    assert_eq!(records.operations.len(), 64);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    eprintln!("{:.0} MB/s, {peak}", written as f64 / 1e6 / seconds);
}
