//! Who holds a job up: on real dumps whose faults were injected, and on small made ones with one thing wrong each.

use std::path::Path;

use nccl_stacks::answers::hang::{EvidenceKind, HangReport, HungGroup, Outcome, hang};
use nccl_stacks::records::{Keep, Records, read_all};
use nccl_stacks::time::Ns;
use serde_json::{Value, json};

use crate::support::program::{ended, run, testdata};

fn records(folder: &Path) -> Records {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    read_all(&files, Keep::All, 2)
}

pub(crate) fn judged(files: &[(&str, String)]) -> HangReport {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let records = records(folder.path());
    for file in &records.files {
        assert!(file.source.is_some() && file.skipped.is_empty(), "{file:?}");
    }
    hang(&records)
}

pub(crate) fn shows(group: &HungGroup, kind: EvidenceKind) -> bool {
    group.evidence.iter().any(|evidence| evidence.kind == kind)
}

/// An operation of a made dump: group, collective, number, state.
pub(crate) type Op = (&'static str, &'static str, i64, &'static str);

const WORLD: &[(&str, &str, &[u32])] =
    &[("0", "default_pg", &[0, 1, 2, 3]), ("1", "tp", &[0, 1]), ("2", "tp", &[2, 3]), ("3", "pp", &[0, 2])];

fn entry(at: usize, (group, name, sequence, state): &Op) -> Value {
    let description = WORLD.iter().find(|(of, ..)| of == group).unwrap().1;
    let is_p2p = name.starts_with("send") || name.starts_with("recv");
    let (collective, p2p) = if is_p2p { (1, *sequence) } else { (*sequence, 0) };
    json!({
        "record_id": at, "process_group": [group, description], "collective_seq_id": collective, "p2p_seq_id": p2p,
        "profiling_name": format!("nccl:{name}"), "time_created_ns": 1_000 + at, "state": state, "is_p2p": is_p2p,
        "input_sizes": [[8]], "output_sizes": [[8]], "input_dtypes": ["Float"], "output_dtypes": ["Float"],
    })
}

/// A dump of a rank in the groups of `WORLD` that it is in. Without operations its status says that there were none.
pub(crate) fn dump(rank: u32, operations: &[Op]) -> Value {
    let groups = WORLD.iter().filter(|(.., ranks)| ranks.contains(&rank));
    let config: serde_json::Map<String, Value> = groups
        .map(|(name, desc, ranks)| {
            ((*name).to_owned(), json!({"name": name, "desc": desc, "ranks": format!("{ranks:?}")}))
        })
        .collect();
    let entries: Vec<Value> = operations.iter().enumerate().map(|(at, of)| entry(at, of)).collect();
    let none = json!({"last_enqueued_collective": -1, "last_started_collective": -1, "last_completed_collective": -1});
    let of_none = (0..config.len()).filter(|_| operations.is_empty()).map(|id| (id.to_string(), none.clone()));
    let status: serde_json::Map<String, Value> = of_none.collect();
    json!({"version": "2.10", "rank": rank, "pg_config": config, "pg_status": status, "entries": entries})
}

pub(crate) fn of_dumps(dumps: &[Value]) -> HangReport {
    let names = ["a", "b", "c", "d"];
    let files: Vec<(&str, String)> =
        names.into_iter().zip(dumps).map(|(name, dump)| (name, dump.to_string())).collect();
    judged(&files)
}

pub(crate) fn of_all(operations: [&[Op]; 4]) -> HangReport {
    let dumps: Vec<Value> = (0..4).zip(operations).map(|(rank, operations)| dump(rank, operations)).collect();
    of_dumps(&dumps)
}

#[test]
fn gpu_errors_on_ranks_12_and_14_are_found() {
    let Some(shared) = crate::support::shared() else { return };
    let archive = shared.join("records/flight_recorder/gpu_error_1st_16ranks.tar.gz");
    let records = read_all(&[archive], Keep::All, 1);
    assert_eq!(records.files.iter().filter(|file| file.source.is_some()).count(), 16);
    let report = hang(&records);
    assert_eq!((report.outcome, &report.culprits[..], report.rank_count), (Outcome::Hung, &[12, 14][..], 16));
    // What the README of the samples says of group 74, and of the tensor-parallel groups.
    let group = |name: &str| report.hung.iter().find(|group| group.name.group.ends_with(name)).unwrap();
    let experts = group("EXPERT_MODEL_PARALLEL_GROUP 74");
    assert_eq!((experts.sequence, experts.collective.as_deref()), (Some(20537), Some("alltoall")));
    assert_eq!((&experts.missing_ranks[..], &experts.stuck_ranks[..]), (&[12][..], &[12, 14][..]));
    assert_eq!((experts.distance, &experts.waiting_ranks[..]), (Some(0), &[13, 15][..]));
    assert_eq!(group("GROUP 41").stuck_ranks, [12]);
    assert_eq!((&group("GROUP 42").stuck_ranks[..], group("GROUP 42").missing_ranks.len()), (&[14][..], 0));
    let oldest: Vec<_> = ["GROUP 41", "GROUP 42"]
        .iter()
        .filter_map(|name| group(name).evidence.iter().find(|of| of.kind == EvidenceKind::Stuck)?.sequence)
        .collect();
    assert_eq!(oldest, [42806, 42806]);
    // The pipeline waits, and nobody of it is to blame.
    assert!(report.hung.iter().any(|group| group.name.group.starts_with("PIPELINE") && group.distance > Some(0)));
}

#[test]
fn held_processes_of_ranks_9_and_14_are_found() {
    let Some(shared) = crate::support::shared() else { return };
    let report = hang(&read_all(&[shared.join("records/flight_recorder/lock_gil_1st_16ranks.tar.gz")], Keep::All, 1));
    assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Hung, &[9, 14][..]));
    assert_eq!(report.ranks_without_operations, [9, 14]);
    let first = &report.hung[0];
    assert_eq!((&first.missing_ranks[..], first.sequence), (&[9, 14][..], Some(45265)));
    assert!(shows(first, EvidenceKind::NoOperations));
    assert_eq!(first.evidence[0].last, Some(45264));
}

#[test]
fn one_answer_of_ras_shows_who_is_after_the_others() {
    let Some(shared) = crate::support::shared() else { return };
    let report = hang(&read_all(&[shared.join("records/nccl_ras/mismatch_4hosts_2.28.9.json")], Keep::All, 1));
    assert_eq!((report.outcome, report.culprits.len(), report.hung.len()), (Outcome::Lagging, 0, 0));
    let group = &report.lagging[0];
    assert_eq!((&group.missing_ranks[..], group.collective.as_deref()), (&[1][..], Some("all_reduce")));
    let of = &group.evidence[0];
    assert_eq!((of.here.as_deref(), of.there.as_deref(), &of.peers[..]), (Some("100"), Some("101"), &[0, 2, 3][..]));
}

/// An answer of RAS about ranks and their counts of all-reduces.
pub(crate) fn answer(time: &str, counts: &[(u32, u64)]) -> String {
    let ranks: Vec<Value> = counts
        .iter()
        .map(|(rank, count)| json!({"rank": rank, "host": "h", "pid": 1, "cuda_dev": 0, "collective_counts": {"AllReduce": count}}))
        .collect();
    let size = counts.iter().map(|(rank, _)| rank + 1).max().unwrap_or_default().max(4);
    json!({
        "nccl_version": "2.28.9", "timestamp": format!("2026-01-01 00:{time}:00"), "communicators_count": 1,
        "communicators": [{"hash": "0xabc", "size": size, "ranks": ranks, "missing_ranks": []}],
    })
    .to_string()
}

#[test]
fn two_answers_of_ras_decide_between_stuck_and_slow() {
    let before = answer("01", &[(0, 9), (1, 8), (2, 9), (3, 9)]);
    // In one file or in two.
    let after = answer("02", &[(0, 9), (1, 8), (2, 9), (3, 9)]);
    for files in [
        vec![("a", format!("{before}\n{after}"))],
        vec![("a", format!("Defaulted container \"a\" out of: a, b (init)\n{before}\n{after}\nsession ended\n"))],
        vec![("a", after.clone()), ("b", before.clone())],
    ] {
        let report = judged(&files);
        assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Hung, &[1][..]));
        assert!(shows(&report.hung[0], EvidenceKind::NoProgress));
    }
    let moved = answer("02", &[(0, 11), (1, 10), (2, 11), (3, 11)]);
    let report = judged(&[("a", before.clone()), ("b", moved)]);
    assert_eq!((report.outcome, report.culprits.len()), (Outcome::Lagging, 0));
    assert!(shows(&report.lagging[0], EvidenceKind::Progress));
    // Rank 1 was not in the first answer, so nothing says that it does not move.
    let first = answer("01", &[(0, 9), (2, 9), (3, 9)]);
    let report = judged(&[("a", first), ("b", after)]);
    assert_eq!((report.outcome, report.culprits.len()), (Outcome::Lagging, 0));
    // Who has enqueued as much as the others may be stuck with them: one answer says nothing, and two that are equal say for how long.
    let equal = answer("02", &[(0, 9), (1, 9), (2, 9), (3, 9)]);
    assert_eq!(judged(&[("a", equal.clone())]).outcome, Outcome::NothingSeen);
    let report = judged(&[("a", answer("01", &[(0, 9), (1, 9), (2, 9), (3, 9)])), ("b", equal.clone())]);
    let standstill = report.standstill.map(|of| (of.group_count, of.duration_ns));
    assert_eq!((report.outcome, standstill), (Outcome::Unclear, Some((1, Some(Ns(60_000_000_000))))));
    let report = judged(&[("a", answer("01", &[(0, 7), (1, 7), (2, 7), (3, 7)])), ("b", equal)]);
    assert_eq!((report.outcome, report.standstill.is_some()), (Outcome::Clear, false));
}

/// Who has called `ncclCommFinalize` alone does not take part any more; where all have, the job ends.
#[test]
fn a_state_that_few_ranks_have_is_reported() {
    let with = |called: [bool; 4]| {
        let mut made: Value = serde_json::from_str(&answer("01", &[(0, 9), (1, 9), (2, 9), (3, 9)])).unwrap();
        for (rank, called) in called.into_iter().enumerate() {
            made["communicators"][0]["ranks"][rank]["status"] = json!({"finalize_called": called});
        }
        judged(&[("a", made.to_string())])
    };
    for (called, ranks, state) in [
        ([true, false, false, false], &[0][..], "status finalize"),
        ([true, true, true, false], &[3], "status running"),
        ([true; 4], &[], ""),
        ([false; 4], &[], ""),
    ] {
        let report = with(called);
        let found: Vec<_> = report.lagging.iter().flat_map(|group| &group.evidence).collect();
        let said = found.first().and_then(|of| of.here.as_deref()).unwrap_or_default();
        assert_eq!((found.first().map_or(&[][..], |of| &of.ranks), said), (ranks, state), "{called:?}");
    }
}

#[test]
fn the_comma_that_ras_leaves_out_is_put_in() {
    let text = r#"{"nccl_version": "2.28.9", "timestamp": "2026-01-01 00:00:00", "communicators_count": 1, "communicators": [
        {"hash": "0xabc", "size": 4, "ranks": [{"rank": 0, "collective_counts": {"AllReduce": 3}}], "missing_ranks": [
        {"rank": 2, "status": {"unresponsive": true, "considered_dead": false}}
        {"rank": 3, "status": {"unresponsive": true, "considered_dead": true}}]}]}"#;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ras"), text).unwrap();
    let records = records(folder.path());
    let repaired = &records.files[0].repaired;
    assert_eq!((repaired.len(), repaired[0].count), (1, 1));
    assert_eq!(repaired[0].first_offset, text.find("{\"rank\": 3").map(|at| at as u64));
    let faults: Vec<_> = records.rank_status.iter().map(|status| (status.place, status.faults.join(", "))).collect();
    let expected = [(0, ""), (2, "unresponsive"), (3, "unresponsive, considered dead")];
    assert_eq!(faults, expected.map(|(place, faults)| (Some(place), faults.to_owned())));
    assert_eq!(hang(&records).lagging[0].missing_ranks, [2, 3]);
}

#[test]
fn the_odd_rank_is_found_by_majority() {
    let right: &[Op] = &[("0", "all_reduce", 5, "started")];
    // The first rank, which is not right because it is first.
    let report = of_all([&[("0", "broadcast", 5, "started")], right, right, right]);
    assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Hung, &[0][..]));
    assert_eq!((&report.hung[0].odd_ranks[..], report.hung[0].collective.as_deref()), (&[0][..], Some("all_reduce")));
    assert!(shows(&report.hung[0], EvidenceKind::OtherCollective));
    for (key, value, kind) in [
        ("input_dtypes", json!(["Half"]), EvidenceKind::OtherType),
        ("input_sizes", json!([[4], [8]]), EvidenceKind::OtherSize),
    ] {
        let mut dumps: Vec<Value> = (0..4).map(|rank| dump(rank, right)).collect();
        dumps[0]["entries"][0][key] = value;
        let report = of_dumps(&dumps);
        assert_eq!((&report.culprits[..], &report.hung[0].odd_ranks[..]), (&[0][..], &[0][..]), "{key}");
        assert!(shows(&report.hung[0], kind), "{key}: {:?}", report.hung[0].evidence);
    }
}

/// In a damaged file all ranks may differ. All are named; of evidence, which grows with the square of their number, there is a limit.
#[test]
fn of_ranks_that_all_differ_some_are_shown() {
    let call = |rank: u32| {
        let name = if rank < 600 { "AllReduce".to_owned() } else { format!("Call{rank}") };
        format!("[1755590104.253968145] [Rank {rank}] Fun {name} Data 64 stream 0x1 opCount 0 groupHash 5\n")
    };
    let report = judged(&[("trace.log", (0..2100).map(call).collect())]);
    assert_eq!((report.outcome, report.hung.len()), (Outcome::Hung, 1));
    let group = &report.hung[0];
    assert_eq!((group.waiting_ranks.len(), group.odd_ranks.len(), group.evidence.len()), (600, 1500, 100));
    assert_eq!(group.evidence_left_out, 1400);
    assert_eq!(report.culprits, group.odd_ranks);
}

#[test]
fn a_tie_is_undecidable() {
    let report = of_all([&[("1", "all_reduce", 5, "started")], &[("1", "all_gather", 5, "started")], &[], &[]]);
    assert_eq!((report.outcome, report.culprits.len(), &report.circle[..]), (Outcome::Hung, 0, &[0, 1][..]));
    assert!(report.hung[0].odd_ranks.is_empty() && shows(&report.hung[0], EvidenceKind::Undecidable));
}

#[test]
fn all_to_alls_may_differ_in_size() {
    let right: &[Op] = &[("0", "all_to_all", 5, "started")];
    let mut dumps: Vec<Value> = (0..4).map(|rank| dump(rank, right)).collect();
    // Together they send what they receive.
    dumps[1]["entries"][0]["input_sizes"] = json!([[4]]);
    dumps[2]["entries"][0]["input_sizes"] = json!([[12]]);
    let report = of_dumps(&dumps);
    assert_eq!((report.outcome, report.hung.len(), report.open.len()), (Outcome::Unclear, 0, 1));
    dumps[2]["entries"][0]["input_sizes"] = json!([[8]]);
    let report = of_dumps(&dumps);
    let evidence = &report.hung[0].evidence[0];
    let said = (evidence.kind, evidence.here.as_deref(), evidence.there.as_deref());
    assert_eq!(said, (EvidenceKind::OtherTotals, Some("28"), Some("32")));
    assert_eq!((report.outcome, report.culprits.len()), (Outcome::Hung, 0));
    // Who sends to whom is known by the parts: rank 1 expects 3 of rank 0, which sends 2.
    let parts = |dump: &mut Value, sent: [u64; 4], received: [u64; 4]| {
        (dump["entries"][0]["input_split_sizes"], dump["entries"][0]["output_split_sizes"]) =
            (json!(sent), json!(received));
    };
    dumps.iter_mut().for_each(|dump| parts(dump, [2; 4], [2; 4]));
    parts(&mut dumps[1], [2; 4], [3, 2, 2, 2]);
    let report = of_dumps(&dumps);
    let evidence = &report.hung[0].evidence[0];
    let said =
        (evidence.kind, &evidence.ranks[..], &evidence.peers[..], evidence.here.as_deref(), evidence.there.as_deref());
    assert_eq!(said, (EvidenceKind::OtherMessage, &[0][..], &[1][..], Some("2"), Some("3")));
    assert_eq!(report.hung[0].evidence.len(), 1);
    // What is not seen of one rank may be what the others miss.
    assert_eq!(of_dumps(&dumps[..3]).outcome, Outcome::Unclear);
}

#[test]
fn sends_and_receives_are_paired_in_both_directions() {
    let both = of_all([&[("3", "send 0->1", 1, "started")], &[], &[("3", "recv 1<-0", 1, "started")], &[]]);
    assert_eq!((both.outcome, both.open[0].waiting_ranks.as_slice()), (Outcome::Unclear, &[0, 2][..]));
    // Place 1 of the group is rank 2.
    let sends = of_all([&[("3", "send 0->1", 1, "started")], &[], &[], &[]]);
    assert_eq!((&sends.culprits[..], shows(&sends.hung[0], EvidenceKind::NoReceive)), (&[2][..], true));
    let receives = of_all([&[], &[], &[("3", "recv 1<-0", 1, "started")], &[]]);
    assert_eq!((&receives.culprits[..], shows(&receives.hung[0], EvidenceKind::NoSend)), (&[0][..], true));
    // Rank 2 has no dump, and no other group: who waits for it is said.
    let pipeline: &[Op] = &[("3", "send 0->1", 1, "started")];
    let report = of_dumps(&[dump(0, pipeline)]);
    assert_eq!((report.outcome, &report.ranks_without_records[..]), (Outcome::Unclear, &[2][..]));
    // Both receive first.
    let circle = of_all([&[("3", "recv 0<-1", 1, "started")], &[], &[("3", "recv 1<-0", 1, "started")], &[]]);
    assert_eq!((circle.culprits.len(), &circle.circle[..]), (0, &[0, 2][..]));
}

#[test]
fn members_of_a_coalesced_group_have_its_state() {
    let group = |state: &'static str| -> [Op; 3] {
        [("3", "send 0->1", 7, "scheduled"), ("3", "recv 0<-1", 7, "scheduled"), ("3", "coalesced", 7, state)]
    };
    let with = |state: &'static str| {
        let mut made = dump(0, &group(state));
        made["entries"][2]["p2p_seq_id"] = json!(7);
        made["entries"][2]["collective_seq_id"] = json!(1);
        made["entries"][2]["is_p2p"] = json!(true);
        of_dumps(&[made, dump(2, &[])])
    };
    assert_eq!(with("completed").outcome, Outcome::Clear);
    let hung = with("started");
    assert_eq!((hung.outcome, &hung.culprits[..], hung.operation_count), (Outcome::Hung, &[2][..], 2));
}

/// A dump that breaks off has lost what its rank did last. That is not missing, but unknown.
#[test]
fn a_dump_that_breaks_off_blames_nobody() {
    let waits: &[Op] = &[("0", "all_reduce", 4, "completed"), ("0", "all_reduce", 5, "started")];
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..4 {
        let text = dump(rank, waits).to_string();
        // The keys are sorted: "entries" and then "pg_config".
        let end = if rank == 2 { text.rfind("\"record_id\"").unwrap() } else { text.len() };
        std::fs::write(folder.path().join(format!("dump_{rank}")), &text[..end]).unwrap();
    }
    let records = records(folder.path());
    let cut = &records.files[2];
    assert_eq!((cut.records, cut.skipped[0].what), (1, "ends of dumps that are cut off"));
    let of_cut = records.operations.iter().filter(|of| of.rank.is_some_and(|rank| rank.0 == 2)).count();
    assert_eq!((of_cut, records.operations.len()), (1, 7));
    let report = hang(&records);
    assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Unclear, &[][..]));
    assert_eq!((&report.ranks_without_records[..], &report.open[0].unknown_ranks[..]), (&[2][..], &[2][..]));
}

/// What a dump says of its groups is before its operations, and counts late what has ended: where the operations are cut off, it shows what was enqueued and
/// nothing more.
#[test]
fn the_status_before_a_cut_shows_what_was_enqueued() {
    let ended: &[Op] = &[("0", "all_reduce", 31, "completed")];
    let with = |enqueued: u32, others: &'static [Op]| {
        let mut text: Vec<String> = [0, 1, 3].map(|rank| dump(rank, others).to_string()).to_vec();
        text.push(format!(
            r#"{{"version":"2.10","rank":2,"pg_config":{{"0":{{"name":"0","desc":"default_pg","ranks":"[0, 1, 2, 3]"}}}},"pg_status":{{"0":{{"last_enqueued_collective":{enqueued},"last_completed_collective":30}}}},"entries":[{},{{"record"#,
            entry(0, &("0", "all_reduce", 29, "completed"))
        ));
        let folder = tempfile::tempdir().unwrap();
        text.iter()
            .enumerate()
            .for_each(|(at, text)| std::fs::write(folder.path().join(format!("{at}.json")), text).unwrap());
        let records = records(folder.path());
        assert!(records.files.iter().any(|file| file.is_cut));
        hang(&records)
    };
    // It enqueued 31, which the others have ended: that it had ended there, too, may only not have been counted.
    let report = with(31, ended);
    assert_eq!((report.outcome == Outcome::Hung, report.culprits.len()), (false, 0), "{report:?}");
    let waits: &[Op] = &[("0", "all_reduce", 31, "started")];
    assert_eq!(with(30, waits).culprits, [2]);
    assert!(with(31, waits).culprits.is_empty());
}

#[test]
fn missing_dumps_make_it_say_less() {
    let waits: &[Op] = &[("0", "all_reduce", 5, "started")];
    let report = of_dumps(&[dump(0, waits), dump(1, waits), dump(2, waits)]);
    assert_eq!((report.outcome, &report.ranks_without_records[..]), (Outcome::Unclear, &[3][..]));
    assert_eq!((report.culprits.len(), &report.open[0].unknown_ranks[..]), (0, &[3][..]));
    // With a rank that is proved to be missing it is a hang all the same.
    let report = of_dumps(&[dump(0, waits), dump(1, &[("0", "all_reduce", 4, "completed")])]);
    assert_eq!((&report.culprits[..], &report.ranks_without_records[..]), (&[1][..], &[2, 3][..]));
}

/// Rank 3 left no dump, which is the commonest shape of a hang: who failed writes none. Rank 2 waits for it in tp 2, and ranks 0 and 1 for rank 2: who waits in any
/// group is at fault in none.
#[test]
fn waiting_is_followed_to_a_rank_without_a_dump() {
    let ended = ("0", "all_reduce", 1, "completed");
    let waits = ("0", "all_reduce", 2, "started");
    let dumps =
        [dump(0, &[ended, waits]), dump(1, &[ended, waits]), dump(2, &[ended, ("2", "all_reduce", 7, "started")])];
    let report = of_dumps(&dumps);
    assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Hung, &[3][..]));
    let first = &report.hung[0];
    assert_eq!((&first.culprits[..], &first.waiting_ranks[..], first.distance), (&[3][..], &[2][..], Some(0)));
    assert!(shows(first, EvidenceKind::NoRecords));
    assert_eq!((first.collective.as_deref(), first.sequence), (Some("all_reduce"), Some(7)));
    assert_eq!((report.hung[1].distance, &report.hung[1].culprits[..]), (Some(1), &[][..]));
    let said = nccl_stacks::answers::hang::document::verdict(&report);
    assert!(
        said.starts_with("The job hangs: rank 2 waits for rank 3, which left no records: look there first."),
        "{said}"
    );

    // With its dump, it is known what rank 3 did.
    let with = [dumps.to_vec(), vec![dump(3, &[ended, ("2", "all_reduce", 6, "completed")])]].concat();
    let report = of_dumps(&with);
    assert_eq!(report.culprits, [3]);
    assert!(!nccl_stacks::answers::hang::document::verdict(&report).contains("no records"));
    // A rank that waits nowhere and is awaited is at fault, whatever rank 3 did.
    let idle = [dump(0, &[ended, waits]), dump(1, &[ended]), dump(2, &[ended, ("2", "all_reduce", 7, "started")])];
    assert_eq!(of_dumps(&idle).culprits, [1]);
    // Ranks 0 and 1 wait for each other, whatever ranks 2 and 3 did.
    let circle = [dump(0, &[ended, waits]), dump(1, &[ended, ("1", "all_reduce", 7, "started")])];
    let report = of_dumps(&circle);
    assert_eq!((&report.circle[..], &report.culprits[..]), (&[0, 1][..], &[][..]));
}

#[test]
fn a_pipeline_that_waits_for_a_tensor_group_is_no_culprit() {
    let report = of_all([
        &[("3", "recv 0<-1", 1, "started")],
        &[],
        &[("2", "all_reduce", 8, "started")],
        &[("2", "all_reduce", 7, "completed")],
    ]);
    assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Hung, &[3][..]));
    let order: Vec<_> = report.hung.iter().map(|group| (group.name.group.as_str(), group.distance)).collect();
    assert_eq!(order, [("tp 2", Some(0)), ("pp 3", Some(1))]);
}

#[test]
fn ranks_that_wait_for_each_other_are_a_circle() {
    let one: &[Op] = &[("0", "all_reduce", 5, "completed"), ("1", "all_reduce", 9, "started")];
    let other: &[Op] = &[("1", "all_reduce", 8, "completed"), ("0", "all_reduce", 6, "started")];
    let report = of_dumps(&[dump(0, one), dump(1, other)]);
    assert_eq!((report.outcome, report.culprits.len(), &report.circle[..]), (Outcome::Hung, 0, &[0, 1][..]));
}

#[test]
fn what_has_ended_everywhere_is_no_hang() {
    let done: &[Op] = &[("0", "all_reduce", 5, "completed")];
    let report = of_all([done, done, done, done]);
    assert_eq!((report.outcome, report.hung.len(), report.rank_count), (Outcome::Clear, 0, 4));
    // What a rank without a dump did is unknown, and others may wait for it that left none, too.
    let report = of_dumps(&[dump(0, done), dump(1, done), dump(2, done)]);
    assert_eq!((report.outcome, &report.ranks_without_records[..]), (Outcome::Unclear, &[3][..]));
    let said = nccl_stacks::answers::hang::document::verdict(&report);
    assert!(said.ends_with("there are no records of rank 3: it may wait, or be what others wait for."), "{said}");
}

#[test]
fn the_program_shows_where_the_odd_rank_went_and_exits_with_4() {
    let dumps = testdata("records/hang");
    let output = ended(&["hang", &dumps, "--json"], 4);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["culprits"], &answer["hung"][0]["odd_ranks"]), (&json!([2]), &json!([2])));
    let paths = &answer["hung"][0]["paths"];
    // `step` calls the one in line 64 and the other in line 66.
    assert_eq!((&paths["rank"], &paths["first_difference"]), (&json!(2), &json!(1)));
    assert_eq!(paths["path"][2], "train.py(71): evaluate");
    assert_eq!(paths["other_path"][2], "optimizer.py(17): reduce_gradients");
    let one = format!("{dumps}/nccl_trace_rank_0.json");
    assert_eq!(run(&["hang", &one]).status.code(), Some(0));
    let empty = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(empty.path(), "{\"version\": \"2.9\", \"pg_config\": {}, \"entries\": []}").unwrap();
    assert_eq!(run(&["hang", empty.path().to_str().unwrap()]).status.code(), Some(3));
}
