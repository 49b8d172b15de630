//! Who holds a job up by made dumps of the flight recorder: what is unknown, what disagrees, and how groups are named.

use std::time::{Duration, Instant};

use nccl_stacks::answers::OnPage;
use nccl_stacks::answers::hang::document::HangAnswer;
use nccl_stacks::answers::hang::{CellState, EvidenceKind, HangReport, Outcome};
use nccl_stacks::document::{Answer, Form, Screen};
use nccl_stacks::records::Keep;
use serde_json::{Value, json};

use crate::records::hang::{Op, dump, judged, of_all, of_dumps, shows};
use crate::support::program::{has, program, run, stderr, stderr_of};

#[test]
fn a_rank_whose_type_is_unknown_hides_no_other() {
    let right: &[Op] = &[("0", "all_reduce", 5, "started")];
    let mut dumps: Vec<Value> = (0..4).map(|rank| dump(rank, right)).collect();
    for key in ["input_dtypes", "output_dtypes"] {
        dumps[0]["entries"][0][key] = json!([]);
        dumps[3]["entries"][0][key] = json!(["Half"]);
    }
    let report = of_dumps(&dumps);
    // Ranks 1 and 2 against 3; rank 0 may be on either side.
    assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Hung, &[3][..]));
    assert!(shows(&report.hung[0], EvidenceKind::OtherType));
    assert_eq!(report.hung[0].waiting_ranks, [0, 1, 2]);
}

/// The watchdog writes the numbers of `pg_status`, and the operations are asked themselves when a dump is written.
#[test]
fn a_status_that_is_late_makes_nobody_stuck() {
    let waits: &[Op] = &[("1", "all_reduce", 7, "completed"), ("1", "all_reduce", 8, "started")];
    let mut late = dump(1, &[("1", "all_reduce", 7, "completed")]);
    late["entries"][0]["pg_id"] = json!(3);
    late["pg_status"] =
        json!({"3": {"last_enqueued_collective": 7, "last_started_collective": 7, "last_completed_collective": 6}});
    let report = of_dumps(&[dump(0, waits), late]);
    assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Hung, &[1][..]));
    assert_eq!((&report.hung[0].missing_ranks[..], report.hung[0].stuck_ranks.len()), (&[1][..], 0));
}

/// Each rank did something else last.
#[test]
fn dumps_of_many_ranks_are_compared_in_time() {
    const RANKS: u32 = 1500;
    let members: Vec<u32> = (0..RANKS).collect();
    let of_rank = |rank: u32| {
        let (number, state) = if rank == 0 { (i64::from(RANKS), "started") } else { (i64::from(rank), "completed") };
        json!({"version": "2.10", "rank": rank, "pg_config": {"0": {"name": "0", "desc": "all", "ranks": members}},
            "entries": [{"record_id": 0, "process_group": ["0", "all"], "collective_seq_id": number, "profiling_name":
            "nccl:broadcast", "time_created_ns": 1, "state": state, "input_sizes": [[8]], "output_sizes": [[8]]}]})
    };
    let names: Vec<String> = members.iter().map(|rank| format!("dump{rank:05}")).collect();
    let files: Vec<(&str, String)> =
        names.iter().zip(&members).map(|(name, rank)| (name.as_str(), of_rank(*rank).to_string())).collect();
    let start = Instant::now();
    let report = judged(&files);
    let group = &report.hung[0];
    assert_eq!((group.missing_ranks.len(), group.evidence.len(), group.evidence_left_out), (1499, 100, 1399));
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

/// Two families of groups, of which each blames the rank that waits in all groups of the other.
#[test]
fn groups_that_wait_for_many_groups_take_time_by_their_number() {
    const GROUPS: usize = 8000;
    let of_rank = |rank: u32| {
        let config: serde_json::Map<String, Value> = (0..2 * GROUPS)
            .map(|at| (at.to_string(), json!({"name": at.to_string(), "desc": "g", "ranks": [0, 1]})))
            .collect();
        let entries: Vec<Value> = (0..2 * GROUPS)
            .filter(|at| at % 2 == rank as usize)
            .map(|at| {
                json!({"record_id": at / 2, "process_group": [at.to_string(), "g"], "collective_seq_id": 1, "profiling_name":
                "nccl:all_reduce", "time_created_ns": at, "state": "started", "input_sizes": [[8]], "output_sizes": [[8]]})
            })
            .collect();
        json!({"version": "2.10", "rank": rank, "pg_config": config, "entries": entries}).to_string()
    };
    let files = [("a", of_rank(0)), ("b", of_rank(1))];
    let start = Instant::now();
    let report = judged(&files);
    assert_eq!((report.outcome, &report.circle[..], report.hung.len()), (Outcome::Hung, &[0, 1][..], 2 * GROUPS));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

/// The call path of a rank at fault is that of the culprit, and not of a rank that waits elsewhere.
#[test]
fn the_path_of_the_culprit_is_compared() {
    let mut dumps = vec![
        // Rank 0 waits in a group that rank 1 has not come to, and so do not come to the next of all.
        dump(0, &[("0", "all_reduce", 4, "completed"), ("1", "all_reduce", 8, "started")]),
        dump(1, &[("0", "all_reduce", 4, "completed"), ("1", "all_reduce", 7, "completed")]),
        dump(2, &[("0", "all_reduce", 5, "started")]),
        dump(3, &[("0", "all_reduce", 5, "started")]),
    ];
    for made in &mut dumps {
        for entry in made["entries"].as_array_mut().unwrap() {
            entry["frames"] = json!([{"name": "step", "filename": "train.py", "line": 12}]);
        }
    }
    let report = of_dumps(&dumps);
    assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Hung, &[1][..]));
    let of_all = report.hung.iter().find(|group| group.name.group == "default_pg 0").unwrap();
    assert_eq!((&of_all.missing_ranks[..], &of_all.culprits[..]), (&[0, 1][..], &[1][..]));
    assert_eq!(of_all.paths.as_ref().unwrap().rank, 1);
}

/// Groups of one name are common: their letters are those of their columns.
#[test]
fn groups_of_one_name_have_letters_of_their_own() {
    let mut dumps: Vec<Value> = vec![
        dump(0, &[("1", "all_reduce", 8, "started")]),
        dump(1, &[("1", "all_reduce", 7, "completed")]),
        dump(2, &[("2", "all_reduce", 8, "started")]),
        dump(3, &[("2", "all_reduce", 7, "completed")]),
    ];
    for made in &mut dumps[2..] {
        let text = made.to_string().replace("\"2\"", "\"1\"");
        *made = serde_json::from_str(&text).unwrap();
    }
    let report = of_dumps(&dumps);
    let text = text(&report, None);
    assert!(text.contains("A  tp 1, ranks 0 and 1") && text.contains("B  tp 1, ranks 2 and 3"), "{text}");
}

/// What is said of the first open operation, by what each rank has.
#[test]
fn what_is_open_is_said_with_what_is_known() {
    let of = |state: &'static str| -> [Op; 1] { [("0", "all_reduce", 5, state)] };
    for (last, said) in [
        ("started", "This may be a slow or broken link, or a running job."),
        (
            "scheduled",
            "It has begun on ranks 0-2, and not on rank 3, where something before it may be stuck on the GPU; or the job runs.",
        ),
    ] {
        let report = of_all([&of("started"), &of("started"), &of("started"), &of(last)]);
        has(&nccl_stacks::answers::hang::document::verdict(&report), said);
    }
    let report = of_all([&of("scheduled"), &of("scheduled"), &of("scheduled"), &of("scheduled")]);
    has(&nccl_stacks::answers::hang::document::verdict(&report), "or a running job.");
}

/// Ranks 0 and 1 share group 1, ranks 0 and 2 group 3; group 4 is of ranks 1 and 2. Each has started one of its two groups.
#[test]
fn three_groups_in_other_orders_are_a_circle() {
    let circle = |states: [&'static str; 6]| {
        let calls: [(u32, [(&str, &str); 2]); 3] = [
            (0, [("1", states[0]), ("3", states[1])]),
            (1, [("4", states[2]), ("1", states[3])]),
            (2, [("3", states[4]), ("4", states[5])]),
        ];
        let of_rank = |(rank, calls): (u32, [(&str, &str); 2])| {
            let entries = calls.iter().enumerate().map(|(at, (group, state))| {
                json!({"record_id": at, "process_group": [group, "g"], "collective_seq_id": 1, "profiling_name": "nccl:all_reduce",
                    "time_created_ns": 1 + at, "state": state, "input_sizes": [[8]], "output_sizes": [[8]]})
            });
            let groups =
                [("1", [0, 1]), ("3", [0, 2]), ("4", [1, 2])].into_iter().filter(|(_, ranks)| ranks.contains(&rank));
            let groups =
                groups.map(|(name, ranks)| (name.to_owned(), json!({"name": name, "desc": "g", "ranks": ranks})));
            let groups: serde_json::Map<String, Value> = groups.collect();
            json!({"version": "2.10", "rank": rank, "pg_config": groups, "entries": entries.collect::<Vec<Value>>()})
        };
        of_dumps(&calls.map(of_rank))
    };
    let said = "most likely because ranks 0-2 wait for each other: they call 3 groups in different orders.";
    // Without timing nothing is ever started.
    for states in [["started", "scheduled"].repeat(3), vec!["scheduled"; 6]] {
        let report = circle(states.try_into().unwrap());
        assert_eq!((report.outcome, &report.circle[..]), (Outcome::Hung, &[0, 1, 2][..]));
        has(&nccl_stacks::answers::hang::document::verdict(&report), said);
    }
    // On rank 2 nothing has begun, so that no circle is seen.
    let report = circle(["started", "scheduled", "started", "scheduled", "scheduled", "scheduled"]);
    assert_eq!((report.outcome, report.hung.len()), (Outcome::Unclear, 0));
}

/// Rank 1 sends to rank 2, which receives from rank 0: whoever of them names the wrong rank. If rank 0 has sent before, it is late.
#[test]
fn a_send_to_a_rank_that_receives_from_another_may_name_the_wrong_one() {
    let of = |rank: u32, calls: &[(&str, &str)]| {
        let entries: Vec<Value> = calls
            .iter()
            .enumerate()
            .map(|(at, (name, state))| {
                json!({"record_id": at, "process_group": ["5", "pp"], "collective_seq_id": 0, "p2p_seq_id": 1 + at, "is_p2p": true,
                    "profiling_name": format!("nccl:{name}"), "time_created_ns": 1 + at, "state": state, "input_sizes": [[8]],
                    "output_sizes": [[8]]})
            })
            .collect();
        let config = json!({"5": {"name": "5", "desc": "pp", "ranks": [0, 1, 2]}});
        json!({"version": "2.10", "rank": rank, "pg_config": config, "entries": entries,
            "pg_status": {"5": {"last_enqueued_collective": 0}}})
    };
    let waits = [of(1, &[("send 1->2", "started")]), of(2, &[("recv 2<-0", "started")])];
    let report = of_dumps(&[&[of(0, &[])][..], &waits].concat());
    assert_eq!((report.outcome, report.culprits.len()), (Outcome::Hung, 0));
    let said = nccl_stacks::answers::hang::document::verdict(&report);
    has(
        &said,
        "Rank 1 sends to rank 2, which receives from rank 0, and rank 0 has not sent to it yet: one of the three may name the wrong rank.",
    );
    let report = of_dumps(&[&[of(0, &[("send 0->2", "completed")])][..], &waits].concat());
    assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Hung, &[0][..]));
    // Of rank 0 there is no dump: rank 2 waits for it, and is not missing itself.
    let report = of_dumps(&waits);
    assert_eq!(report.culprits, [0]);
    has(&nccl_stacks::answers::hang::document::verdict(&report), "rank 2 waits for rank 0, which left no records");
    let cells: Vec<_> = report.matrix[0].cells.iter().map(|cell| cell.state).collect();
    assert_eq!(cells, [CellState::Unknown, CellState::Waiting, CellState::Waiting]);
}

/// Rank 0 comes by a path of its own by right, as it logs: the fault shows beside a rank that is like the one at fault.
#[test]
fn the_path_is_compared_with_that_of_the_rank_most_alike() {
    let with = |rank: u32, lines: &[u32]| {
        let of: Vec<Op> = (0..lines.len())
            .map(|at| ("0", "all_reduce", 1 + at as i64, if at == 2 { "started" } else { "completed" }))
            .collect();
        let mut made = dump(rank, &of);
        for (entry, line) in made["entries"].as_array_mut().unwrap().iter_mut().zip(lines) {
            entry["frames"] = json!([{"name": "step", "filename": "train.py", "line": line}]);
        }
        made
    };
    let with_last = |last: &[u32]| {
        let report = of_dumps(&[with(0, &[1, 1, 1]), with(1, &[2, 2, 2]), with(2, last), with(3, &[2, 2, 2])]);
        let paths = report.hung[0].paths.clone().unwrap();
        (paths.rank, paths.other_rank, paths.first_difference)
    };
    assert_eq!(with_last(&[2, 2]), (2, 1, None));
    assert_eq!(with_last(&[1, 1]), (2, 0, None));
}

/// Four ranks have enqueued 41 and more. Of the ring of rank 2 the first entries may be overwritten, and its status may say what has ended.
#[test]
fn what_a_full_ring_has_lost_is_unknown() {
    let waits: &[Op] = &[("0", "all_reduce", 40, "completed"), ("0", "all_reduce", 41, "started")];
    let ahead: &[Op] = &[("0", "all_reduce", 51, "scheduled"), ("0", "all_reduce", 52, "scheduled")];
    for (first, ended, outcome, culprits, cell) in [
        (11, Some(40), Outcome::Unclear, &[][..], (CellState::Waiting, Some(41))),
        (11, None, Outcome::Unclear, &[], (CellState::Enqueued, Some(51))),
        // Somewhere from 40 on.
        (11, Some(39), Outcome::Unclear, &[], (CellState::Enqueued, Some(51))),
        (11, Some(50), Outcome::Hung, &[0, 1, 3], (CellState::Waiting, Some(51))),
        (0, None, Outcome::Hung, &[0, 1, 3], (CellState::Waiting, Some(51))),
    ] {
        let mut of_2 = dump(2, ahead);
        for (entry, at) in of_2["entries"].as_array_mut().unwrap().iter_mut().zip(first..) {
            (entry["record_id"], entry["pg_id"]) = (json!(at), json!(0));
        }
        if let Some(ended) = ended {
            of_2["pg_status"] = json!({"0": {"last_enqueued_collective": 52, "last_completed_collective": ended}});
        }
        let report = of_dumps(&[dump(0, waits), dump(1, waits), of_2, dump(3, waits)]);
        assert_eq!((report.outcome, &report.culprits[..]), (outcome, culprits), "{first} {ended:?}");
        let of_2 = &report.matrix[0].cells[2];
        assert_eq!((of_2.state, of_2.sequence), cell, "{first} {ended:?}");
    }
}

/// Rank 2 has enqueued less than the others have completed: all of them took part in an all-reduce, so that its dump is older. A broadcast may end before.
#[test]
fn a_dump_that_is_older_than_those_of_its_peers_proves_nothing() {
    for (name, last, is_older) in
        [("all_reduce", 30, true), ("all_gather", 30, true), ("broadcast", 30, false), ("all_reduce", 40, false)]
    {
        let waits: &[Op] = &[("0", name, 40, "completed"), ("0", name, 41, "started")];
        let report = of_all([waits, waits, &[("0", name, last, "completed")], waits]);
        let (outcome, culprits) = if is_older { (Outcome::Unclear, &[][..]) } else { (Outcome::Hung, &[2][..]) };
        assert_eq!((report.outcome, &report.culprits[..]), (outcome, culprits), "{name} {last}");
        assert_eq!(report.ranks_without_records, if is_older { vec![2] } else { vec![] }, "{name} {last}");
    }
}

/// Rank 2 waits in what the others have not called: it may have made the call too often, or they too seldom.
#[test]
fn a_rank_that_is_ahead_of_all_others_is_named_first() {
    let done: &[Op] = &[("0", "all_reduce", 41, "completed")];
    let ahead: &[Op] = &[("0", "all_reduce", 41, "completed"), ("0", "all_reduce", 42, "started")];
    let elsewhere: &[Op] = &[("0", "all_reduce", 41, "completed"), ("2", "all_reduce", 5, "started")];
    let report = of_all([done, done, ahead, done]);
    assert_eq!((report.outcome, report.culprits.len()), (Outcome::Hung, 0));
    has(
        &nccl_stacks::answers::hang::document::verdict(&report),
        "Rank 2 alone waits in all_reduce 42. Ranks 0, 1 and 3 wait in nothing, and the last they enqueued is 41: either rank 2 made a call too many, or ranks 0, \
         1 and 3 one too few.",
    );
    // Two are ahead, or the others do not wait for the same reason.
    for (of, culprits) in [([done, done, ahead, ahead], &[0, 1][..]), ([done, done, ahead, elsewhere], &[0, 1])] {
        let report = of_all(of);
        assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Hung, culprits));
        assert!(!report.hung.iter().any(|group| shows(group, EvidenceKind::Ahead)));
    }
}

/// Nothing says what the rank of an empty dump did, unless its status does.
#[test]
fn a_dump_that_holds_nothing_says_nothing() {
    let waits: &[Op] = &[("0", "all_reduce", 5, "started")];
    let mut empty = dump(3, &[]);
    let with = |empty: &Value| of_dumps(&[dump(0, waits), dump(1, waits), dump(2, waits), empty.clone()]);
    let report = with(&empty);
    assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Hung, &[3][..]));
    empty["pg_status"] = json!({});
    let report = with(&empty);
    assert_eq!((report.outcome, &report.ranks_without_records[..]), (Outcome::Unclear, &[3][..]));
    // A full ring may have lost all of a group.
    let mut full = dump(3, &[("2", "all_reduce", 9, "completed")]);
    for (first, outcome) in [(0, Outcome::Hung), (7, Outcome::Unclear)] {
        full["entries"][0]["record_id"] = json!(first);
        assert_eq!(with(&full).outcome, outcome, "{first}");
    }
}

/// Gloo numbers its operations apart from NCCL's, in a group of the same name.
#[test]
fn dumps_of_gloo_are_beside_those_of_nccl() {
    let done: &[Op] = &[("0", "all_reduce", 40, "completed")];
    let gloo = |rank: u32| {
        let waits: &[Op] = &[("0", "all_reduce", 6, "completed"), ("0", "all_reduce", 7, "started")];
        dump(rank, if rank == 1 { &waits[..1] } else { waits }).to_string().replace("nccl:", "gloo:")
    };
    let names: Vec<String> = (0..4).flat_map(|rank| [format!("gloo_{rank}"), format!("nccl_{rank}")]).collect();
    let texts = (0..4).flat_map(|rank| [gloo(rank), dump(rank, done).to_string()]);
    let files: Vec<(&str, String)> = names.iter().map(String::as_str).zip(texts).collect();
    let report = judged(&files);
    assert_eq!((report.outcome, &report.culprits[..], report.group_count), (Outcome::Hung, &[1][..], 2));
    assert_eq!(report.hung[0].name.group, "default_pg 0 (gloo)");
    let alone: Vec<(&str, String)> = files.into_iter().step_by(2).collect();
    assert_eq!(judged(&alone).hung[0].name.group, "default_pg 0");
}

/// Ranks 2 and 3 receive from each other. Rank 0 waits for rank 1, and rank 1 for rank 2.
#[test]
fn of_a_circle_its_own_ranks_are_looked_at() {
    let report = of_all([
        &[("0", "recv 0<-1", 1, "started")],
        &[("0", "recv 1<-2", 1, "started")],
        &[("0", "recv 2<-3", 1, "started")],
        &[("0", "recv 3<-2", 1, "started")],
    ]);
    assert_eq!(report.circle, [2, 3]);
    has(&text(&report, Some(500)), "First: check whether the processes of ranks 2 and 3 still run");
}

/// Every third call comes from line 9. Rank 2 left out the call 5, so that each of its calls is the next of the others: those of 5 differ first, and those of 7
/// and 10 are equal by chance.
#[test]
fn paths_that_are_shifted_part_where_the_call_was_left_out() {
    let made = |rank: u32, numbers: &[u32]| {
        let of: Vec<Op> = (1..=numbers.len())
            .map(|at| ("0", "all_reduce", at as i64, if at == 11 { "started" } else { "completed" }))
            .collect();
        let mut made = dump(rank, &of);
        for (entry, number) in made["entries"].as_array_mut().unwrap().iter_mut().zip(numbers) {
            let line = if number % 3 == 0 { 9 } else { 1 };
            entry["frames"] = json!([{"name": "step", "filename": "train.py", "line": line}]);
        }
        made
    };
    let (all, without): (Vec<u32>, Vec<u32>) = ((1..=11).collect(), (1..=11).filter(|at| *at != 5).collect());
    let report = of_dumps(&[made(0, &all), made(1, &all), made(2, &without), made(3, &all)]);
    let paths = report.hung[0].paths.clone().unwrap();
    assert_eq!((paths.rank, paths.since_sequence, paths.first_difference), (2, Some(5), Some(0)));
}

/// Dumps one per line, of which two are of one rank: the last counts.
#[test]
fn all_dumps_of_a_file_are_read() {
    let waits: &[Op] = &[("0", "all_reduce", 5, "started")];
    let dumps = [dump(3, waits), dump(0, waits), dump(1, waits), dump(2, waits), dump(3, &[])];
    let lines = dumps.map(|dump| dump.to_string());
    let folder = tempfile::tempdir().unwrap();
    for (between, from, culprits) in [("\n", 1, &[3][..]), ("\r\n", 0, &[3]), ("", 1, &[3])] {
        std::fs::write(folder.path().join("all.jsonl"), lines[from..].join(between)).unwrap();
        let records = nccl_stacks::records::read_all(&[folder.path().join("all.jsonl")], Keep::All, 1);
        let report = nccl_stacks::answers::hang::hang(&records);
        assert_eq!((report.rank_count, &report.culprits[..]), (4, culprits), "{between:?}");
        assert_eq!(records.files[0].skipped.len(), 1 - from, "{between:?}");
    }
}

fn text(report: &HangReport, width: Option<usize>) -> String {
    let (screen, mut text) = (Screen { width, ..Screen::default() }, Vec::new());
    HangAnswer { report, name: "", on_page: OnPage::default() }.write(Form::Text, &screen, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn what_is_unclear_is_said_as_it_is() {
    let report = of_all([&[("1", "all_reduce", 5, "started")], &[("1", "all_reduce", 5, "completed")], &[], &[]]);
    let text = text(&report, Some(500));
    // On rank 1 it is complete.
    has(&text, "operations are incomplete that all ranks with records have enqueued");
    has(&text, "rank 0 in all_reduce 5");
}

#[test]
fn files_that_cannot_be_read_are_left_out_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("good"), dump(0, &[("1", "all_reduce", 5, "started")]).to_string()).unwrap();
    std::fs::write(path("note.txt"), "nothing").unwrap();
    let output = run(&["hang", &path("good"), &path("missing"), &path("note.txt")]);
    let said = stderr(&output);
    assert!(said.contains("Left out, because they are no records:") && said.contains("note.txt"), "{said}");
    assert!(said.contains("Left out: ") && said.contains("missing: there is no such file"), "{said}");
    assert_eq!(output.status.code(), Some(0), "{said}");
    stderr_of(&["hang", "--strict", &path("good"), &path("missing")], 1);
    stderr_of(&["hang", "--strict", &path("good"), &path("note.txt")], 0);
}

/// A folder may have pipes of whatever else runs there: opening one waits for a writer.
#[cfg(unix)]
#[test]
fn pipes_in_a_folder_are_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("good"), dump(0, &[("1", "all_reduce", 5, "started")]).to_string()).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    let mut child =
        program().args(["hang", folder.path().to_str().unwrap()]).stdout(std::process::Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if start.elapsed() > Duration::from_secs(30) => {
                child.kill().unwrap();
                panic!("it waits for the pipe");
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    assert_eq!(status.code(), Some(0));
}

/// A job leaves dumps and a log of one group. Only a rank without a dump is in the log alone.
#[test]
fn a_group_of_dumps_is_not_listed_once_more_for_the_log() {
    let head = |rank: u32| {
        format!("[rank{rank}]:[E626 06:24:44.9 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]")
    };
    let line = |rank: u32| {
        let done = if rank == 2 { 6 } else { 7 };
        let last = if rank == 2 { 6 } else { 8 };
        format!(
            "{} Timeout at NCCL work: {last}, last enqueued NCCL work: {last}, last completed NCCL work: {done}.\n",
            head(rank)
        )
    };
    let log: String = [0, 1, 3].map(line).concat();
    let operations = |rank: u32| -> &[Op] {
        match rank {
            2 => &[("0", "all_reduce", 7, "completed")],
            _ => &[("0", "all_reduce", 7, "completed"), ("0", "all_reduce", 8, "started")],
        }
    };
    for (dumped, groups) in [(&[0, 1, 2, 3][..], 1), (&[2, 3], 2)] {
        let dumps = dumped.iter().map(|rank| (*rank, dump(*rank, operations(*rank)).to_string()));
        let names = ["a", "b", "c", "d"];
        let mut files: Vec<(&str, String)> = dumps.map(|(rank, text)| (names[rank as usize], text)).collect();
        files.push(("x.log", log.clone()));
        let report = judged(&files);
        let listed = report.hung.len() + report.open.len();
        assert_eq!((listed, &report.culprits[..]), (groups, &[2][..]), "{report:?}");
    }
}
