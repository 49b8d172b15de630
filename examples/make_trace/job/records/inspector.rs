//! NCCL Inspector's log: a line of JSON for each collective, send or receive of at least 8,192 bytes. Only verbose lines have times.

use std::fmt::Write;

use super::calls::{Call, comm_hash};
use super::{Inspector, Writing, Written};

/// Inspector's default: smaller operations are not written.
const LEAST_BYTES: u64 = 8192;

pub(super) fn write<'a>(writing: &Writing<'a>) -> Vec<Written<'a>> {
    let calls: Vec<&Call<'a>> = writing.calls.iter().copied().filter(|call| call.bytes() >= LEAST_BYTES).collect();
    let is_verbose = match writing.recording.inspector {
        Inspector::Verbose => true,
        Inspector::Brief => false,
        Inspector::Mixed => writing.rank.is_multiple_of(2),
    };
    let mut text = String::new();
    for call in &calls {
        line(writing, call, is_verbose, &mut text);
    }
    let name = format!("node0-pid{}.log", 40_000 + writing.rank);
    vec![Written { name, bytes: text.into_bytes(), calls }]
}

fn line(writing: &Writing<'_>, call: &Call<'_>, is_verbose: bool, text: &mut String) {
    let group = &writing.layout.groups[call.comm.group];
    let (ranks, place) = (group.ranks.len(), writing.layout.place(call.comm.group, writing.rank));
    let kind = if call.is_collective() { "coll" } else { "p2p" };
    let us = |ns: i64| ns / 1_000;
    let [enqueued, returned, start, end] =
        [call.called, call.returned, call.ran.0, call.ran.1].map(|ns| us(writing.clock.at(ns)));
    let took = us(call.ran.1 - call.ran.0);
    let of_all = matches!(call.function, "AllGather" | "ReduceScatter");
    let moved = call.bytes() * if of_all { ranks as u64 } else { 1 };
    let algbw = moved as f64 / (took as f64 * 1e3);
    let n = ranks as f64;
    let factor = match call.function {
        "AllReduce" => 2.0 * (n - 1.0) / n,
        "AllGather" | "ReduceScatter" => (n - 1.0) / n,
        _ => 1.0,
    };
    let peer = call.peer.map_or(String::new(), |peer| format!("\"p2p_peer\":{peer},"));
    // Writing to a String never fails.
    let _ = write!(
        text,
        "{{\"header\":{{\"id\":\"{:#x}\",\"comm_name\":\"unknown\",\"rank\":{place},\"n_ranks\":{ranks},\"nnodes\":1}},\
         \"metadata\":{{\"inspector_output_format_version\":\"v4.0\",\"git_rev\":\"\",\"rec_mechanism\":\"nccl_profiler_interface\",\
         \"dump_timestamp_us\":{},\"hostname\":\"node0\",\"pid\":{}}},\"{kind}_perf\":{{\"{kind}\":\"{}\",\"{kind}_sn\":{},{peer}\
         \"{kind}_msg_size_bytes\":{},\"{kind}_exec_time_us\":{took},\"{kind}_timing_source\":\"kernel_gpu\",\
         \"{kind}_algobw_gbs\":{algbw:.6},\"{kind}_busbw_gbs\":{:.6}",
        comm_hash(call.comm.group),
        end + 500,
        40_000 + writing.rank,
        call.function,
        call.sequence,
        call.bytes(),
        algbw * factor
    );
    if is_verbose {
        let events = |suffix: &str, [started, stopped, recorded]: [i64; 3]| {
            let of = |channel: u32| {
                format!(
                    "{{\"channel_id\":{channel},\"kernel_start_{suffix}\":{started},\"kernel_stop_{suffix}\":{stopped},\
                     \"kernel_record_{suffix}\":{recorded}}}"
                )
            };
            (0..call.plan.channels).map(of).collect::<Vec<_>>().join(",")
        };
        let (numbers, times) = (events("sn", [3, 5, 4]), events("ts", [start, end, end]));
        let _ = write!(
            text,
            ",\"event_trace_sn\":{{\"{kind}_start_sn\":1,\"{kind}_stop_sn\":2,\"kernel_events\":[{numbers}]}},\
             \"event_trace_ts\":{{\"{kind}_start_ts\":{enqueued},\"{kind}_stop_ts\":{returned},\"kernel_events\":[{times}]}}"
        );
    }
    text.push_str("}}\n");
}
