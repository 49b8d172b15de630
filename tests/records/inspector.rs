//! Logs of NCCL Inspector: the documented records, its variants, and damaged lines.

use nccl_stacks::answers::records as recorded;
use nccl_stacks::operation::{Operation, Source};
use nccl_stacks::records::{Keep, read_all};
use nccl_stacks::time::Ns;

use crate::records::{read, read_text};

#[test]
fn bandwidths_of_the_documented_records_are_worked_out_alike() {
    let Some(shared) = crate::support::shared() else { return };
    let records = read(shared.join("records/nccl_inspector/documented_records.jsonl"));
    assert_eq!((records.operations.len(), records.files[0].skipped.len()), (2, 0));
    assert_eq!(records.files[0].version.as_deref(), Some("v4.0"));
    let report = recorded::report(&records);
    let check = report.bandwidth_check.unwrap();
    assert_eq!((check.recorded, check.agree, check.differ, check.not_comparable), (2, 2, 0, 0));
    assert!(check.largest_difference.unwrap() < 1e-6, "{:?}", check.largest_difference);
    // By hand: 17,179,869,184 bytes in 61,974 us are 277.2109 GB/s, times 2 * 7 / 8; and 8 * 2,147,483,648 in 41,057 us, times 7 / 8.
    let buses: Vec<f64> = report.census.iter().map(|row| row.busbw_gb_per_s.unwrap()).collect();
    assert!((buses[0] - 485.119_099).abs() < 1e-5 && (buses[1] - 366.134_533).abs() < 1e-5, "{buses:?}");
    let verbose = &records.operations[1];
    assert_eq!(verbose.enqueued, Some(Ns(1_752_867_229_235_059_000)));
    assert_eq!(verbose.start, Some(Ns(1_752_867_229_235_181_000)));
    assert_eq!((verbose.end, verbose.duration), (Some(Ns(1_752_867_229_275_811_000)), Some(Ns(41_057_000))));
    assert_eq!((records.operations[0].start, records.operations[0].sequence), (None, Some(1407)));
}

const FLAT: &str = r#"{"id":"0xffffffffffffffff","rank":3,"n_ranks":4,"nnodes":1,"pid":9,"hostname":"a","coll_perf":{"coll":"AllGather","coll_sn":5,"coll_msg_size_bytes":1000,"coll_exec_time_us":12.5,"coll_algo":"Ring","coll_proto":"ll128","coll_n_channels":4,"coll_algobw_gbs":0.32,"coll_busbw_gbs":0.24,"decomposition":{"proxy_gpu_wait_us":3.5,"proxy_gpu_recv_wait_us":1,"proxy_network_us":10,"proxy_peer_wait_us":2,"proxy_flush_us":0.5,"n_proxy_ops":4}}}"#;

const P2P: &str = r#"{
  "header": {
    "id": "0xffffffffffffffff",
    "comm_name": "pp",
    "rank": 0,
    "n_ranks": 4,
    "nnodes": 1
  },
  "metadata": {"inspector_output_format_version": "v4.0", "more": [1, {"x": 2}]},
  "p2p_perf": {
    "p2p": "Send", "p2p_sn": 2, "p2p_peer": 1, "p2p_msg_size_bytes": 5000, "p2p_exec_time_us": 10, "p2p_timing_source": "kernel_gpu",
    "p2p_algobw_gbs": 0.5, "p2p_busbw_gbs": 0.5,
    "event_trace_ts": {"p2p_start_ts": 1760000000000001, "kernel_events": [
      {"channel_id": 0, "kernel_start_ts": 1760000000000005, "kernel_stop_ts": 1760000000000015},
      {"channel_id": 1, "kernel_start_ts": 1760000000000004, "kernel_stop_ts": 0}
    ]}
  }
}"#;

#[test]
fn variants_are_read() {
    let records = read_text(&format!("{FLAT}\n{P2P}\n"));
    assert_eq!((records.files[0].source, records.files[0].records), (Some(Source::INSPECTOR), 2));
    let [flat, p2p] = &records.operations[..] else { panic!("{:?}", records.files) };
    assert_eq!((flat.collective.as_deref(), flat.bytes, flat.place), (Some("all_gather"), Some(4000), Some(3)));
    assert_eq!(
        (flat.algorithm.as_deref(), flat.protocol.as_deref(), flat.channels),
        (Some("RING"), Some("LL128"), Some(4))
    );
    assert_eq!((flat.duration, flat.took()), (Some(Ns(12_500)), Some(Ns(12_500))));
    // The CPU's clock reads 13 µs between start and end; a measure counts, negative times do not.
    let times = |start: i64, end: i64| Operation { start: Some(Ns(start)), end: Some(Ns(end)), ..flat.clone() };
    assert_eq!(times(0, 13_000).took(), Some(Ns(12_500)));
    let unmeasured = |end: i64| Operation { duration: None, ..times(0, end) }.took();
    assert_eq!([13_000, 0, -1].map(unmeasured), [Some(Ns(13_000)), Some(Ns(0)), None]);
    let of_flat = &records.measures[0];
    assert_eq!((of_flat.gpu_wait, of_flat.peer_wait), (Some(Ns(4_500)), Some(Ns(2_000))));
    assert_eq!((of_flat.network, of_flat.flush), (Some(Ns(10_000)), Some(Ns(500))));
    assert_eq!((p2p.collective.as_deref(), p2p.peer, p2p.bytes), (Some("send"), Some(1), Some(5000)));
    // A channel has no stop, so the end is not known; the time of execution is.
    assert_eq!((p2p.start, p2p.end), (Some(Ns(1_760_000_000_000_004_000)), None));
    assert_eq!(p2p.duration, Some(Ns(10_000)));
    assert_eq!(records.communicators.iter().map(|of| of.hash).collect::<Vec<_>>(), [Some(u64::MAX); 2]);
    let report = recorded::report(&records);
    // One communicator by its hash, with the name that one of the records has.
    assert_eq!((report.communicators.len(), report.communicators[0].name.as_deref()), (1, Some("pp")));
    assert_eq!(report.bandwidth_check.unwrap().agree, 2);
    let both = &report.proxies[0];
    assert_eq!((both.direction, both.bound, both.phases.all()), ("both", Some("network-or-late-peer"), Ns(17_000)));
}

#[test]
fn channels_that_are_not_named_are_counted() {
    let text =
        P2P.replace("{\"channel_id\": 1, ", "{").replace("\"p2p_exec_time_us\": 10", "\"p2p_exec_time_us\": -10");
    let records = read_text(&text);
    let skipped: Vec<_> = records.files[0].skipped.iter().map(|of| (of.what, of.count)).collect();
    assert_eq!(skipped, [("kernel events without a channel", 1)]);
    assert_eq!((records.channels.len(), records.operations[0].end, records.operations[0].duration), (1, None, None));
}

#[test]
fn damaged_lines_are_counted_and_left_out() {
    let good = FLAT;
    let text = format!(
        "{good}\n{}\n{good}\nnot a record\n{}\n{}\n{}",
        &good[..200],
        good.replace("\"rank\":3", "\"rank\":\"three\""),
        good.replace("\"coll\":\"AllGather\",", ""),
        &good[..50],
    );
    let records = read_text(&text);
    assert_eq!((records.operations.len(), records.files[0].records), (2, 2));
    let mut skipped: Vec<(&str, u64)> =
        records.files[0].skipped.iter().map(|remark| (remark.what, remark.count)).collect();
    skipped.sort_unstable();
    let counts: Vec<u64> = skipped.iter().map(|(_, count)| *count).collect();
    assert_eq!((counts.len(), counts.iter().sum::<u64>()), (5, 5), "{skipped:?}");
}

/// A process that is killed has written a part of its last record: that it did no more is not known.
#[test]
fn a_log_that_breaks_off_does_not_show_how_far_its_rank_got() {
    let folder = tempfile::tempdir().unwrap();
    let judged = |cut: usize| {
        for rank in 0..3 {
            let text: String = (0..5)
                .map(|number| {
                    FLAT.replace("\"rank\":3", &format!("\"rank\":{rank}"))
                        .replace("\"coll_sn\":5", &format!("\"coll_sn\":{number}"))
                        + "\n"
                })
                .collect();
            let end = if rank == 2 { text.len() - cut } else { text.len() };
            std::fs::write(folder.path().join(format!("{rank}.log")), &text[..end]).unwrap();
        }
        let files: Vec<_> = (0..3).map(|rank| folder.path().join(format!("{rank}.log"))).collect();
        let report = nccl_stacks::answers::hang::hang(&read_all(&files, Keep::All, 1));
        // Whose log is cut has records.
        assert!(
            report.ranks_without_records.iter().all(|rank| *rank == 3),
            "{cut}: {:?}",
            report.ranks_without_records
        );
        report.lagging.iter().flat_map(|group| group.missing_ranks.clone()).collect::<Vec<u32>>()
    };
    assert_eq!((judged(0), judged(10), judged(FLAT.len() + 1)), (vec![], vec![], vec![2]));
}

/// Inspector loses records. Who lacks some between others may lack the last, too.
#[test]
fn lost_records_are_no_lag() {
    let judged = |numbers: [&[u32]; 4]| {
        let folder = tempfile::tempdir().unwrap();
        let write = |rank: usize| {
            let line = |number: &u32| {
                FLAT.replace("\"rank\":3", &format!("\"rank\":{rank}"))
                    .replace("\"coll_sn\":5", &format!("\"coll_sn\":{number}"))
                    + "\n"
            };
            let path = folder.path().join(format!("{rank}.log"));
            std::fs::write(&path, numbers[rank].iter().map(line).collect::<String>()).unwrap();
            path
        };
        let report = nccl_stacks::answers::hang::hang(&read_all(&[0, 1, 2, 3].map(write), Keep::All, 1));
        report.lagging.iter().flat_map(|group| group.missing_ranks.clone()).collect::<Vec<u32>>()
    };
    let all = &[1, 2, 3, 5, 6][..];
    // 4 is too small for Inspector.
    assert_eq!(judged([all, all, all, &all[..3]]), [3]);
    assert!(judged([all, all, all, &[1, 3]]).is_empty());
    assert_eq!(judged([all, &all[..4], all, &[1, 3]]), [1]);
}
