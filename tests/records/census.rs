//! What `nccl-stacks records` says of the small records of two ranks, worked out by hand.

use std::path::PathBuf;

use crate::support::program::{run, stderr_of, stdout, stdout_of, testdata};
use nccl_stacks::answers::records as recorded;
use nccl_stacks::answers::records::RecordsReport;
use nccl_stacks::document::{Finding, FindingKind};
use nccl_stacks::records::{Keep, Records, read_all};
use nccl_stacks::time::Ns;

fn report(names: &[&str]) -> RecordsReport {
    let paths: Vec<PathBuf> = names.iter().map(|name| testdata(&format!("records/pair/{name}")).into()).collect();
    recorded::report(&read_all(&paths, Keep::All, 2))
}

#[test]
fn operations_are_counted_by_collective_and_size() {
    let report = report(&["inspector/rank0.log", "inspector/rank1.log"]);
    let [reduce, gather] = &report.census[..] else { panic!("{:?}", report.census) };
    assert_eq!((reduce.count, reduce.ranks, reduce.collective.as_deref()), (5, 2, Some("all_reduce")));
    // 50, 52, 51, 50 and 96 us: their sum, and the one in the middle.
    let time = reduce.time.unwrap();
    assert_eq!((time.total_ns, time.median_ns, time.max_ns), (Ns(299_000), 51_000.0, Ns(96_000)));
    // 2^20 bytes in 51 us; of two ranks the bus bandwidth is the same.
    assert!((reduce.busbw_gb_per_s.unwrap() - 1_048_576.0 / 51_000.0).abs() < 1e-9);
    assert_eq!((reduce.algorithms["RING"], reduce.algorithms["TREE"]), (4, 1));
    // Each of two ranks gives 2^19 bytes; 40 and 41 us; half of it crosses the bus.
    assert_eq!((gather.count, gather.size.unwrap().max_bytes), (2, 1 << 20));
    let between = (1_048_576.0 / 40_000.0 + 1_048_576.0 / 41_000.0) / 2.0 / 2.0;
    assert!((gather.busbw_gb_per_s.unwrap() - between).abs() < 1e-9);
    assert_eq!(report.bandwidth_check.as_ref().unwrap().agree, 7);
    let [mixed, gaps, small] = &report.diagnoses[..] else { panic!("{:?}", report.diagnoses) };
    let kinds = [mixed, gaps, small].map(|of| of.kind);
    assert_eq!(kinds, [FindingKind::MixedMethods, FindingKind::Gaps, FindingKind::SmallLeftOut]);
    let ways = "ran in 2 ways: RING/SIMPLE on ranks 0 and 1; TREE/LL on rank 1.";
    assert!(mixed.what.starts_with("all_reduce of 1.05 MB in ") && mixed.what.ends_with(ways), "{mixed:?}");
    assert_eq!(gaps.place.ranks, [1]);
    assert!(gaps.what.starts_with("1 operation between others is not in the records of NCCL Inspector, on rank 1:"));
    assert!(small.what.starts_with("No operation is smaller than 1.05 MB:"), "{small:?}");
}

#[test]
fn a_bandwidth_that_does_not_follow_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(testdata("records/pair/inspector/rank0.log")).unwrap();
    let path = folder.path().join("log");
    // 1 % more than 20.97152.
    std::fs::write(&path, text.replace("\"coll_busbw_gbs\": 20.97152", "\"coll_busbw_gbs\": 22.1")).unwrap();
    let report = recorded::report(&read_all(&[path], Keep::All, 1));
    let check = report.bandwidth_check.as_ref().unwrap();
    assert_eq!((check.agree, check.differ), (3, 1));
    let differ = "1 of 4 recorded bus bandwidths differ from size by time.";
    let is_that = |of: &Finding| of.kind == FindingKind::BandwidthsDiffer && of.what == differ;
    assert!(report.diagnoses.iter().any(is_that), "{:?}", report.diagnoses);
}

#[test]
fn proxies_links_and_channels_of_a_dump_are_summed_up() {
    let report = report(&["plugin_dump.txt"]);
    let [receive, send] = &report.proxies[..] else { panic!("{:?}", report.proxies) };
    // Two channels of two steps; those of channel 1 wait 150 us more each.
    let phases = (send.phases.gpu_wait_ns, send.phases.peer_wait_ns, send.phases.network_ns);
    assert_eq!(phases, (Ns(20_000), Ns(308_000), Ns(40_000)));
    assert_eq!((send.bound, receive.bound), (Some("receiver-late"), Some("network-or-late-peer")));
    let phases = (receive.phases.network_ns, receive.phases.flush_ns, receive.phases.gpu_wait_ns);
    assert_eq!(phases, (Ns(348_000), Ns(4_000), Ns(16_000)));
    assert_eq!(report.links.len(), 4);
    // Steps of channel 0's send: 140 to 157 and 160 to 177 us, 524,288 bytes.
    let link = report.links.iter().find(|link| link.channel == 0 && link.direction == "send").unwrap();
    assert_eq!((link.busy_ns, link.bytes), (Some(Ns(34_000)), Some(524_288)));
    assert!((link.gb_per_s.unwrap() - 524_288.0 / 34_000.0).abs() < 1e-9);
    // Kernels of 41 and 351 us: 196 in the mean.
    let channels = &report.channels[0];
    let time = channels.time.unwrap();
    assert_eq!((time.channel, time.mean, channels.bytes.unwrap().ratio), (1, 196_000.0, 1.0));
    // One operation is no rule.
    assert!(!report.diagnoses.iter().any(|of| of.kind == FindingKind::SlowChannel));
    let cells: Vec<_> = report.pairs.iter().map(|pair| (pair.from, pair.to, pair.bytes, pair.by)).collect();
    assert_eq!(cells, [(0, 1, 1_048_576, "wire"), (1, 0, 1_048_576, "wire")]);
    // The dump does not know how many ranks there are; Inspector's files of the same communicator do.
    assert_eq!(report.census[0].busbw_gb_per_s, None);
    let both = self::report(&["plugin_dump.txt", "inspector/rank0.log"]);
    let of_dump = both.census.iter().find(|row| row.source == "plugin-dump").unwrap();
    assert!((of_dump.busbw_gb_per_s.unwrap() - 1_048_576.0 / 351_000.0).abs() < 1e-9);
}

/// Logs with a line for each call: whether their last operations are kept or all, each call counts once.
#[test]
fn calls_that_are_kept_as_operations_count_once() {
    let lines = |folder: &str| -> usize {
        let files =
            std::fs::read_dir(folder).unwrap().map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
        files.map(|text| text.matches("opCount").count()).sum()
    };
    let folder = testdata("records/megatrace");
    let paths: Vec<PathBuf> = (0..8).map(|rank| PathBuf::from(&folder).join(format!("rank_{rank}.log"))).collect();
    for keep in [Keep::All, Keep::Last(64), Keep::Last(3)] {
        let report = recorded::report(&read_all(&paths, keep, 2));
        let census: u64 = report.census.iter().map(|row| row.count).sum();
        let communicators: u64 = report.communicators.iter().map(|row| row.operations).sum();
        assert_eq!((census, communicators), (lines(&folder) as u64, lines(&folder) as u64), "{keep:?}");
    }
    let temporary = tempfile::tempdir().unwrap();
    let log = temporary.path().join("nccl.log");
    let call = "node:7:9 [0] NCCL INFO AllReduce: opCount 1 sendbuff 0x1 recvbuff 0x2 count 64 datatype 7 op 0 root 0 comm 0x5 \
                [nranks=2] stream 0x6\n";
    std::fs::write(&log, call.repeat(5)).unwrap();
    let report = recorded::report(&read_all(&[log], Keep::All, 1));
    assert_eq!(report.census.iter().map(|row| row.count).collect::<Vec<_>>(), [5]);
}

/// Two communicators may well use two algorithms, and so may two sizes.
#[test]
fn methods_are_mixed_only_where_all_else_is_known_to_be_equal() {
    let mut records = read_all(&[testdata("records/pair/inspector/rank1.log").into()], Keep::All, 1);
    let is_mixed =
        |records: &Records| recorded::report(records).diagnoses.iter().any(|of| of.kind == FindingKind::MixedMethods);
    assert!(is_mixed(&records));
    let known = records.clone();
    records.operations.iter_mut().for_each(|operation| operation.communicator = None);
    assert!(!is_mixed(&records));
    records = known;
    records.operations.iter_mut().for_each(|operation| operation.bytes = None);
    assert!(!is_mixed(&records));
}

#[test]
fn the_program_writes_all_forms() {
    let folder = testdata("records/pair");
    let text = stdout_of(&["records", &folder, "--quiet"]);
    // One time is lost, which is said first.
    assert!(text.starts_with("Left out: 1 times of 0") && text.contains("\n8 operations of 1 communicator"), "{text}");
    let table = stdout(&run(&["records", &folder, "--format", "table", "--quiet"]));
    for title in ["Operations", "Communicators", "Proxies", "Links", "Channels", "Bytes from rank to rank", "Files"] {
        assert!(table.contains(&format!("\n{title}\n")), "{title}: {table}");
    }
    let csv = stdout(&run(&["records", &folder, "--format", "csv", "--quiet", "--limit", "2"]));
    assert_eq!(csv.lines().count(), 3, "{csv}");
    let json: serde_json::Value =
        serde_json::from_slice(&run(&["records", &folder, "--json", "--quiet"]).stdout).unwrap();
    assert_eq!((&json["rows_found"], json["files"].as_array().unwrap().len()), (&3.into(), 3));
    // Whatever the order of the files, and of the threads that read them.
    let other = run(&["records", &folder, "--json", "--quiet", "--threads", "1"]);
    assert_eq!(json, serde_json::from_slice::<serde_json::Value>(&other.stdout).unwrap());
    stderr_of(&["records", &testdata("costs.json")], 1);
}
