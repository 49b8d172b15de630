//! PyTorch's flight recorder, in its JSON form: the state of each operation at the end of the job.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::layout::list;
use super::calls::Call;
use super::{Writing, Written};

/// How late the watchdog notices that something has happened.
const DISCOVERED: i64 = 100_000_000;

pub(super) fn write<'a>(writing: &Writing<'a>) -> Vec<Written<'a>> {
    let (layout, rank) = (writing.layout, writing.rank);
    let (mut configuration, mut status) = (BTreeMap::new(), BTreeMap::new());
    // Entries number the groups of their rank in order of creation.
    let numbers: BTreeMap<&str, usize> =
        layout.groups_of(rank).enumerate().map(|(number, group)| (group.name.as_str(), number)).collect();
    for group in layout.groups_of(rank) {
        let ranks = list(&group.ranks);
        configuration
            .insert(group.name.as_str(), json!({"name": group.name, "desc": group.description, "ranks": ranks}));
        let last = writing.calls.iter().filter(|call| layout.groups[call.comm.group].name == group.name);
        let last = last.filter(|call| call.is_collective()).map(|call| i64::from(call.comm.seq)).max().unwrap_or(-1);
        status.insert(
            numbers[group.name.as_str()].to_string(),
            json!({"last_enqueued_collective": last, "last_started_collective": -1, "last_completed_collective": last}),
        );
    }
    let mut peer_to_peer = BTreeMap::new();
    let entries: Vec<Value> = (0..)
        .zip(&writing.calls)
        .map(|(record, call)| {
            let group = &layout.groups[call.comm.group];
            let number = numbers[group.name.as_str()];
            let sent = peer_to_peer.entry(number).or_insert(0_u32);
            *sent += u32::from(!call.is_collective());
            entry(writing, call, record, number, *sent)
        })
        .collect();
    let dump = json!({
        "version": "2.9", "nccl_version": "2.27.5", "pg_config": configuration, "pg_status": status, "entries": entries,
    });
    let name = format!("nccl_trace_rank_{rank}");
    vec![Written { name, bytes: format!("{dump}\n").into_bytes(), calls: writing.calls.clone() }]
}

fn entry(writing: &Writing<'_>, call: &Call<'_>, record: u32, number: usize, sent: u32) -> Value {
    let group = &writing.layout.groups[call.comm.group];
    let own = writing.layout.place(call.comm.group, writing.rank);
    let name = match (call.function, call.peer.unwrap_or_default()) {
        ("Send", peer) => format!("nccl:send {own}->{peer}"),
        ("Recv", peer) => format!("nccl:recv {own}<-{peer}"),
        ("ReduceScatter", _) => "nccl:_reduce_scatter_base".to_owned(),
        ("AllGather", _) => "nccl:_all_gather_base".to_owned(),
        _ => "nccl:all_reduce".to_owned(),
    };
    let frames: Vec<Value> = call.frames.iter().map(|frame| frame_of(frame)).collect();
    let at = |ns: i64| writing.clock.at(ns);
    let collective = if call.is_collective() { call.comm.seq } else { 0 };
    json!({
        "record_id": record, "pg_id": number, "process_group": [group.name, group.description],
        "collective_seq_id": collective, "p2p_seq_id": sent, "op_id": collective + sent, "profiling_name": name,
        "time_created_ns": at(call.enqueued), "duration_ms": (call.ran.1 - call.ran.0) as f64 / 1e6,
        "input_sizes": [[call.comm.elements_in]], "input_dtypes": ["BFloat16"],
        "output_sizes": [[call.comm.elements_out]], "output_dtypes": ["BFloat16"],
        "state": "completed", "time_discovered_started_ns": at(call.ran.0 + DISCOVERED),
        "time_discovered_completed_ns": at(call.ran.1 + DISCOVERED), "retired": true, "timeout_ms": 600_000,
        "is_p2p": !call.is_collective(), "frames": frames,
    })
}

/// Splits `mlp.py(50): mlp` into its parts.
fn frame_of(frame: &str) -> Value {
    let (place, name) = frame.split_once(": ").unwrap_or(("", frame));
    let (file, line) = place.split_once('(').unwrap_or((place, "0)"));
    let line: u32 = line.trim_end_matches(')').parse().unwrap_or_default();
    json!({"name": name, "filename": file, "line": line})
}
