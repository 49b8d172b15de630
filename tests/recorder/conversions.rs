//! Records in the forms of other programs: read again by our readers of these forms, and compared with values that were worked out by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use nccl_stacks::answers::records::flows;
use nccl_stacks::answers::records::flows::Finding;
use nccl_stacks::operation::Source;
use nccl_stacks::records::{Keep, Records, read_all};
use nccl_stacks::time::Ns;
use nccl_stacks_recorder_format::{Communicator, Handle, Header, Kind, Record, layout};
use nccl_stacks_recorder_text::flow::{Flow, Link, Of, links};
use nccl_stacks_recorder_text::megatrace::{Form, Log};
use serde_json::Value;

use crate::recorder::dropin::{ABOUT, Recording, call};
use crate::support::program::{ended, run, stderr, testdata};
use crate::support::shared;

/// The files of a folder and of those in it.
fn files_of(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_of(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

/// Converts by the program. What it wrote is in the folder.
fn convert(input: &Path, flag: &str, name: &str) -> (tempfile::TempDir, PathBuf, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let output = run(&["export", input.to_str().unwrap(), flag, path.to_str().unwrap()]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    (folder, path, said)
}

fn read_folder(folder: &Path) -> Records {
    read_all(&files_of(folder), Keep::All, 2)
}

/// The other side, whether it is sent to, and from when on each step moves.
type Neighbour = (u32, bool, i64);

/// An all-reduce of a rank with proxies on channel 0: so many transfers to and from each neighbour.
fn all_reduce(recording: &Recording, algorithm: &str, transfers: u64, proxies: &[Neighbour]) {
    let of = |kind, parent: Option<Handle>| Record {
        communicator: 1,
        parent: parent.map_or(0, Handle::number),
        ..Record::new(kind)
    };
    let [function, dtype, algorithm, protocol] =
        ["AllReduce", "ncclFloat32", algorithm, "SIMPLE"].map(|text| recording.text(text));
    let coll = Record { a: 1 << 20, b: 5, function, dtype, algorithm, protocol, channel: 1, ..of(Kind::Coll, None) };
    let coll = recording.put(1, 1_000, coll);
    recording.put(1, 2_000, of(Kind::Stop, Some(coll)));
    let clock = 1_755_590_104_000_000_000;
    let kernel = recording.put(1, 3_000, Record { a: clock, ..of(Kind::KernelChannel, Some(coll)) });
    recording.put(1, 900_000, Record { a: 22, b: clock + 890_000, ..of(Kind::State, Some(kernel)) });
    for (peer, is_send, from) in proxies {
        let small = u8::from(*is_send);
        let op =
            Record { a: 77, b: transfers | 65_536 << 32, c: (*peer).into(), small, ..of(Kind::ProxyOp, Some(coll)) };
        let op = recording.put(2, 4_000, op);
        recording.put(2, 5_000, Record { a: 19, ..of(Kind::State, Some(op)) });
        for number in 0..transfers {
            let at = from + number as i64 * 1_000;
            let step = recording.put(2, at, Record { a: number, ..of(Kind::ProxyStep, Some(op)) });
            let states = if *is_send { [(8, 0), (20, 10), (9, 20)] } else { [(10, 0), (11, 20), (12, 30)] };
            for (state, after) in states {
                recording.put(2, at + after, Record { a: state, b: 65_536, ..of(Kind::State, Some(step)) });
            }
            recording.put(2, at + 40, of(Kind::Stop, Some(step)));
        }
        recording.put(2, 800_000, of(Kind::Stop, Some(op)));
    }
}

/// The recordings of three ranks, in a folder, of which each has these neighbours.
fn recordings(algorithm: &str, transfers: u64, ranks: [&[Neighbour]; 3]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (rank, proxies) in (0..).zip(ranks) {
        let recording = Recording::of_rank(rank, 1 << 10);
        let known = Communicator { hash: 0xabc, rank, size: 3, by: 1, ..Communicator::default() };
        assert_eq!(recording.writer.communicator(&known), 1);
        all_reduce(&recording, algorithm, transfers, proxies);
        std::fs::copy(recording.path(), folder.path().join(format!("{rank}.ncclrec"))).unwrap();
    }
    folder
}

/// By stage, how many steps a rank has with a peer in a direction.
fn stages(records: &Records, rank: u32) -> BTreeMap<(u32, bool, &str), u32> {
    let mut counts = BTreeMap::new();
    for step in records.flow_steps.iter().filter(|step| step.rank == rank && !step.is_aggregate) {
        *counts.entry((step.peer, step.is_send, step.recorded_stage.as_deref().unwrap_or("none"))).or_default() += 1;
    }
    counts
}

#[test]
fn a_ring_passes_the_checks_of_flows() {
    // Three ranks: a loop is 2 x 2 chunks of 4 steps, so 8 transfers of 2 steps. Two loops.
    let ring: [&[Neighbour]; 3] = [
        &[(2, false, 20_000), (1, true, 10_000)],
        &[(0, false, 20_000), (2, true, 10_000)],
        &[(1, false, 20_000), (0, true, 10_000)],
    ];
    let recordings = recordings("RING", 16, ring);
    let (_folder, flows, said) = convert(recordings.path(), "--flows", "flows");
    assert!(!said.contains("left out"), "{said}");
    let records = read_folder(&flows);
    let report = flows::report(&records).unwrap();
    let run = &report.runs[0];
    assert_eq!((report.runs.len(), run.size, run.ops, run.steps), (1, Some(3), 3, 3 * 2 * 32));
    assert_eq!((run.expected_steps, run.paired_steps), (Some(192), 96));
    assert_eq!((run.unpaired_by_op_count, run.aggregates, run.differing_aggregates), (0, 3, 0));
    assert_eq!(run.findings, [] as [Finding; 0]);
    let each = |peer, is_send| [((peer, is_send, "reduce-scatter"), 16), ((peer, is_send, "allgather"), 16)];
    assert_eq!(stages(&records, 0), each(1, true).into_iter().chain(each(2, false)).collect());

    let recorded = std::fs::read(recordings.path().join("0.ncclrec")).unwrap();
    let header = Header::parse(&recorded).unwrap();
    let at = |since: i64| header.realtime(header.start.monotonic + since);
    // From when the proxies were given their work to the end of the last step.
    let text = std::fs::read_to_string(flows.join("proxy_flow_rank0.jsonl")).unwrap();
    let base = "{\"opCount\":0,\"rank\":0,\"channel\":0,\"nsteps\":32,\"nbytes\":65536,\"chunkSize\":65536,\"sliceSteps\":2,\
                \"chunkSteps\":4,\"dtype\":7,\"redOp\":0,\"pattern\":\"RING_TWICE\",\"protocol\":\"SIMPLE\",\"ringPrev\":2,\
                \"ringNext\":1,\"commHash\":2748,\"seqNumber\":5,\"ts_ns\":TS,\"dur_ns\":31040,\
                \"trans_bytes\":2097152,\"synthetic\":true}\n";
    assert_eq!(text, base.replace("TS", &at(4_000).to_string()));
    // A transfer is two steps; its time is at the first.
    let text = std::fs::read_to_string(flows.join("flow_steps_rank0.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let second = &lines[34];
    assert_eq!((&second["op"], &second["step"], &second["peer"]), (&"SEND".into(), &2.into(), &1.into()));
    assert_eq!((&second["ts_ns"], &second["dur_ns"]), (&at(11_000).into(), &40.into()));
    assert!(lines[35].get("ts_ns").is_none() && lines.iter().all(|line| line["synthetic"] == true));
}

#[test]
fn a_tree_passes_them_with_the_stages_that_times_say() {
    // Rank 1 has the child 2 and the parent 0: what it sends up goes after what came from its child, and before what comes down.
    let tree: [&[Neighbour]; 3] = [
        &[(1, false, 30_000), (1, true, 40_000)],
        &[(0, true, 20_000), (0, false, 50_000), (2, false, 10_000), (2, true, 60_000)],
        &[(1, true, 5_000), (1, false, 70_000)],
    ];
    let (_folder, flows, _) = convert(recordings("TREE", 3, tree).path(), "--flows", "flows");
    let records = read_folder(&flows);
    let report = flows::report(&records).unwrap();
    let run = &report.runs[0];
    assert_eq!((run.ops, run.steps, run.unpaired_steps), (3, 3 * 8, 0));
    assert_eq!(run.findings, [] as [Finding; 0]);
    let expected = [
        ((0, true, "tree-up"), 3),
        ((0, false, "tree-down"), 3),
        ((2, false, "tree-up"), 3),
        ((2, true, "tree-down"), 3),
    ];
    assert_eq!(stages(&records, 1), BTreeMap::from(expected));
    // The reader works the stages out by the order of the lines.
    assert!(records.flow_steps.iter().all(|step| step.stage == step.recorded_stage.as_deref()));
}

/// A flow made within the job has all steps of the operations that the rings still hold, and none of others.
#[test]
fn what_rings_have_overwritten_has_no_steps() {
    let recording = Recording::new(256);
    let writer = &recording.writer;
    let known = Communicator { hash: 0xabc, rank: 0, size: 3, by: 1, ..Communicator::default() };
    assert_eq!(writer.communicator(&known), 1);
    for _ in 0..50 {
        all_reduce(&recording, "RING", 4, &[(2, false, 20_000), (1, true, 10_000)]);
    }
    // The ring of operations keeps 4 of them, and that of proxies the work of 5.
    (0..240).for_each(|_| _ = recording.put(1, 0, Record::new(Kind::Stop)));
    let (mut proxies, mut without_operation) = (0, 0);
    for (ring, position) in (0..layout::RINGS).flat_map(|ring| (1..=writer.claimed(ring)).map(move |at| (ring, at))) {
        let Some((_, record)) = writer.at(ring, position).filter(|(_, of)| of.kind == Kind::ProxyOp) else { continue };
        let operation = Handle::from_number(record.parent).and_then(|operation| writer.get(operation));
        *(if operation.is_some() { &mut proxies } else { &mut without_operation }) += 1;
    }
    assert_eq!((proxies, without_operation), (8, 3));
    let of = Of::find(writer, 1).unwrap();
    let (mut links, mut pairs) = (vec![Link::default(); links(writer)], vec![0; of.pairs()]);
    let mut text = String::new();
    assert_eq!(Flow::new(writer, 77, of, &mut links, &mut pairs, 0).write(&mut text), Ok(0));
    let file: Value = serde_json::from_str(&text).unwrap();
    // 4 transfers of 2 steps.
    assert_eq!(file["steps"].as_array().unwrap().len(), proxies * 8);
    assert_eq!((&file["meta"]["ringPrev"], &file["meta"]["ringNext"]), (&2.into(), &1.into()));
}

#[test]
fn a_trace_has_tracks_and_flows_from_calls_to_steps() {
    let (_folder, path, said) = convert(Path::new(&testdata("records/pair/plugin_dump.txt")), "--chrome", "trace.json");
    assert!(!said.contains("left out"), "{said}");
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |ph: &str| events.iter().filter(|event| event["ph"] == ph).collect::<Vec<_>>();
    let names: BTreeMap<u64, &str> = of("M")
        .iter()
        .filter(|event| event["name"] == "thread_name")
        .map(|event| (event["tid"].as_u64().unwrap(), event["args"]["name"].as_str().unwrap()))
        .collect();
    // One all-reduce on two channels, on each of which a proxy receives from rank 1 and another sends to it.
    let threads: BTreeSet<&str> = names.values().copied().collect();
    let expected = [
        "calls",
        "channel 0",
        "channel 1",
        "kernels, stream 0x5020",
        "proxy, channel 0: receive from 1",
        "proxy, channel 0: send to 1",
        "proxy, channel 1: receive from 1",
        "proxy, channel 1: send to 1",
        "steps, channel 0: receive from 1",
        "steps, channel 0: send to 1",
        "steps, channel 1: receive from 1",
        "steps, channel 1: send to 1",
    ];
    assert_eq!(threads, expected.into_iter().collect());
    assert_eq!(of("s").len(), 4);
    let on = |event: &Value| names[&event["tid"].as_u64().unwrap()];
    // The times are those of the dump: microseconds from its all-reduce's call, which is the first of all.
    let slices = of("X");
    let channel = slices.iter().find(|event| on(event) == "channel 0").unwrap();
    let call = slices.iter().find(|event| on(event) == "calls").unwrap();
    assert_eq!((call["ts"].as_f64(), channel["dur"].as_f64()), (Some(0.0), Some(41.0)));
    assert_eq!(trace["baseTimeNanoseconds"], 1_760_000_000_000_099_500_u64);
    // Each flow goes through slices that are there, in the order of time, from the call to a step.
    for first in of("s") {
        let flow: Vec<&Value> = events.iter().filter(|event| event["id"] == first["id"]).collect();
        let phases: Vec<&str> = flow.iter().map(|event| event["ph"].as_str().unwrap()).collect();
        assert_eq!(phases, ["s", "t", "t", "t", "f"]);
        assert_eq!(on(flow[0]), "calls");
        assert!(flow.iter().any(|event| on(event).starts_with("kernels")));
        assert!(flow.iter().any(|event| on(event).starts_with("channel")));
        assert!(flow.iter().any(|event| on(event).starts_with("steps")));
        let times: Vec<f64> = flow.iter().map(|event| event["ts"].as_f64().unwrap()).collect();
        assert!(times.is_sorted(), "{times:?}");
        let is_at = |event: &&Value, slice: &&&Value| slice["tid"] == event["tid"] && slice["ts"] == event["ts"];
        assert!(flow.iter().all(|event| slices.iter().any(|slice| is_at(event, &slice))));
    }
    assert_nested(&slices);
}

/// On one track slices lie within each other or beside each other.
fn assert_nested(slices: &[&Value]) {
    let mut tracks: BTreeMap<u64, Vec<(i64, i64)>> = BTreeMap::new();
    for slice in slices {
        let nanos = |key: &str| (slice[key].as_f64().unwrap() * 1000.0).round() as i64;
        tracks.entry(slice["tid"].as_u64().unwrap()).or_default().push((nanos("ts"), nanos("ts") + nanos("dur")));
    }
    for (track, mut own) in tracks {
        own.sort_by_key(|(start, end)| (*start, -end));
        let mut open: Vec<i64> = Vec::new();
        for (start, end) in own {
            open.retain(|until| *until > start);
            assert!(open.iter().all(|until| *until >= end), "track {track}: {start} to {end} within {open:?}");
            open.push(end);
        }
    }
}

#[test]
fn logs_of_megatrace_are_what_they_were() {
    let input = testdata("records/megatrace");
    let before = read_folder(Path::new(&input));
    let (_folder, logs, _) = convert(Path::new(&input), "--megatrace", "logs");
    assert_eq!(files_of(&logs).len(), 8);
    let after = read_folder(&logs);
    let rows = |records: &Records| -> BTreeSet<_> {
        let rows = records.operations.iter().map(|row| {
            let hash = records.communicator_of(row).and_then(|of| of.hash);
            let of = (row.rank.unwrap().0, row.enqueued, row.collective.clone(), row.in_elements.or(row.out_elements));
            (of, row.stream_handle.unwrap_or(0), row.sequence, hash)
        });
        rows.collect()
    };
    assert!(before.operations.len() > 100);
    assert_eq!(before.operations.len(), after.operations.len());
    assert_eq!(rows(&before), rows(&after));
    assert!(after.files.iter().all(|file| file.source == Some(Source::MEGATRACE)));
}

/// The older form says the same but for the host, and our reader finds it.
#[test]
fn logs_of_the_older_form_say_the_same() {
    let input = testdata("records/megatrace");
    let (folder, brackets, _) = convert(Path::new(&input), "--megatrace", "logs");
    let words = folder.path().join("words");
    ended(&["export", &input, "--megatrace", words.to_str().unwrap(), "--megatrace-words"], 0);
    let line =
        |folder: &Path| std::fs::read_to_string(folder.join("rank_0.log")).unwrap().lines().next().unwrap().to_owned();
    let (one, other) = (line(&brackets), line(&words));
    assert!(
        one.contains("[Func nccl") && other.starts_with("[save_count 1] ") && other.contains(" Fun nccl"),
        "{other}"
    );
    let rows = |folder: &Path| -> Vec<_> {
        let records = read_folder(folder);
        let row = |row: &nccl_stacks::operation::Operation| {
            let hash = records.communicator_of(row).and_then(|of| of.hash);
            (row.rank, row.enqueued, row.collective.clone(), row.in_elements, row.sequence, row.stream_handle, hash)
        };
        records.operations.iter().map(row).collect()
    };
    assert!(rows(&brackets).len() > 100);
    assert_eq!(rows(&brackets), rows(&words));
    let output = run(&["export", &input, "--chrome", words.to_str().unwrap(), "--megatrace-words"]);
    assert_eq!(output.status.code(), Some(2), "a form of logs that nobody asked for");
}

/// What each line says from the function on: its count, stream, number and group.
fn calls_of(text: &str) -> Vec<&str> {
    text.lines().map(|line| &line[line.find("[Func").unwrap()..]).collect()
}

#[test]
fn logs_have_the_hashes_that_the_recorder_writes_in_the_job() {
    let recording = Recording::new(64);
    let of = |by, hash, group_hash| Communicator { by, hash, group_hash, rank: 3, size: 8, ..Communicator::default() };
    // One that plugin and interceptor know, one that was split off, one whose id alone is known, and one that nobody knows.
    let (nccl, megatrace) = (0x6afe_1cc1_7717_e1f4, 0x20b4_8553_2cbd_7f67);
    recording.writer.communicator(&of(1, nccl, 0));
    let world = recording.writer.communicator(&of(2, nccl, megatrace));
    let split = recording.writer.communicator(&of(2, 0xabc, 0));
    let only = recording.writer.communicator(&of(2, 0, 0x5a14_ae0b_34f4_c517));
    let reduce = recording.text("ncclAllReduce");
    for (at, communicator) in (0..).zip([world, split, only, 0, world]) {
        recording.put(1, 1_000 * at, call(reduce, 0x5591, 1024, communicator));
    }
    let (mut log, mut within) = (Box::new(Log::new()), String::new());
    log.collect(&recording.writer);
    assert_eq!(log.write(Form::Brackets, &ABOUT, &mut within), Ok(5));
    let (_folder, logs, _) = convert(&recording.path(), "--megatrace", "logs");
    let after = std::fs::read_to_string(logs.join("rank_3.log")).unwrap();
    assert_eq!(calls_of(&after), calls_of(&within));
    let hashes: Vec<&str> = after.lines().map(|line| line.rsplit_once("groupHash ").unwrap().1).collect();
    let [world, none] = ["0x20b485532cbd7f67]", "0x0000000000000000]"];
    assert_eq!(hashes, [world, none, "0x5a14ae0b34f4c517]", none, world]);
    // A plugin's dump knows NCCL's hash alone.
    let dump = testdata("records/pair/plugin_dump.txt");
    let (_folder, logs, _) = convert(Path::new(&dump), "--megatrace", "logs");
    assert!(std::fs::read_to_string(logs.join("rank_0.log")).unwrap().ends_with("[groupHash 0x1f2e3d4c5b6a7988]\n"));
}

#[test]
fn several_sources_of_a_rank_are_not_written_twice() {
    let input = testdata("records/job/records");
    let (_folder, logs, said) = convert(Path::new(&input), "--megatrace", "logs");
    assert!(said.contains("another source recorded this rank"), "{said}");
    let records = read_folder(&logs);
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    records.operations.iter().for_each(|row| *counts.entry(row.rank.unwrap().0).or_default() += 1);
    // Two all-reduces in each of two steps; Megatrace knows the streams.
    assert_eq!(counts, BTreeMap::from([(0, 4), (1, 4)]));
    let streams: BTreeSet<Option<u64>> = records.operations.iter().map(|row| row.stream_handle).collect();
    assert_eq!(streams, BTreeSet::from([Some(0x5591_9d27_1000)]));
    let times: Vec<Option<Ns>> = records.operations.iter().map(|row| row.enqueued).collect();
    assert!(times.iter().all(Option::is_some));
}

#[test]
fn what_no_record_has_is_said_and_no_file_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let output = ended(&["export", &testdata("records/megatrace"), "--flows", path.to_str().unwrap()], 3);
    assert!(stderr(&output).contains("no record has what --flows needs"), "{}", stderr(&output));
    let trace = testdata("costs.json");
    ended(&["export", &trace, "--chrome", path.to_str().unwrap()], 3);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn real_samples_are_converted() {
    let Some(shared) = shared() else { return };
    let dump = shared.join("records/nccl_example_plugin/p2p_4ranks_nccl2.28.json");
    let (_folder, path, said) = convert(&dump, "--chrome", "trace.json");
    assert!(!said.contains("--chrome:"), "{said}");
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let count = |ph: &str| events.iter().filter(|event| event["ph"] == ph).count();
    // 8 sends and receives with a kernel and 16 channels each, whose stops NCCL 2.28 loses, so each is open; a call leads to each channel.
    assert_eq!((count("X"), count("B"), count("s"), count("f")), (8, 8 * (1 + 16), 128, 128));
    let (_folder, logs, _) = convert(&dump, "--megatrace", "logs");
    let records = read_folder(&logs);
    assert_eq!((records.operations.len(), files_of(&logs).len()), (8, 4));
    assert!(records.operations.iter().all(|row| row.in_elements.or(row.out_elements) == Some(268_435_456)));

    let dump = shared.join("records/nccl_example_plugin/allreduce_readme_nccl2.28.json");
    let (_folder, flows, _) = convert(&dump, "--flows", "flows");
    let records = read_folder(&flows);
    let steps: u64 = flows::report(&records).unwrap().runs[0].steps;
    assert_eq!((records.flow_ops.iter().filter(|op| !op.is_aggregate).count(), steps % 2), (1, 0));
}
