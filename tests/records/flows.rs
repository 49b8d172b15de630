//! Files of the flow extractor: runs whose numbers are known, and small ones written by hand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nccl_stacks::answers::records::document::RecordsAnswer;
use nccl_stacks::answers::records::document::flows::text;
use nccl_stacks::answers::records::flows::{Finding, FlowReport, FlowRunReport};
use nccl_stacks::answers::records::{RecordsReport, flows};
use nccl_stacks::document::{Answer, Form};
use nccl_stacks::export::flow_rank::aggregate;
use nccl_stacks::operation::Source;
use nccl_stacks::records::{Keep, Records, read_all};

use crate::support::program::{program, stderr};
use crate::support::random::Random;
use crate::support::{read_text, shared};

/// The numbers of a case in the table beside the samples.
#[derive(Debug, PartialEq)]
struct Known {
    ops: u64,
    channels: u64,
    steps: u64,
    expected: u64,
    sequences: u64,
    unpaired: (u64, u64),
    unpaired_by_op_count: u64,
    wrong_ring_peers: u64,
    repeated: (u64, u64),
    unjoined: u64,
    aggregates: (u64, u64),
}

/// Reads the table: a heading for each case, and a line each for operations and steps.
fn table(text: &str) -> BTreeMap<String, Known> {
    let first = regex::Regex::new(r"^C1 (\d+) lines .*?(\d+) channels;").unwrap();
    let second = regex::Regex::new(
        r"^C2 (\d+) exp (\d+); .*; seq (\d+), sym (\d+)/(\d+), symOp (\d+), ringPeer (\d+), dup2 (\d+), dup1 (\d+), join (\d+), C3bad (\d+) of (\d+)",
    )
    .unwrap();
    let (mut cases, mut name, mut ops) = (BTreeMap::new(), String::new(), (0, 0));
    for line in text.lines() {
        if let Some(case) = line.strip_prefix("## ") {
            case.clone_into(&mut name);
        } else if let Some(found) = first.captures(line) {
            ops = (found[1].parse().unwrap(), found[2].parse().unwrap());
        } else if let Some(found) = second.captures(line) {
            let n: Vec<u64> = found.iter().skip(1).map(|group| group.unwrap().as_str().parse().unwrap()).collect();
            let known = Known {
                ops: ops.0,
                channels: ops.1,
                steps: n[0],
                expected: n[1],
                sequences: n[2],
                unpaired: (n[3], n[4]),
                unpaired_by_op_count: n[5],
                wrong_ring_peers: n[6],
                repeated: (n[7], n[8]),
                unjoined: n[9],
                aggregates: (n[10], n[11]),
            };
            cases.insert(name.clone(), known);
        }
    }
    cases
}

fn found(run: &FlowRunReport) -> Known {
    Known {
        ops: run.ops,
        channels: u64::from(run.channels),
        steps: run.steps,
        expected: run.expected_steps.unwrap(),
        sequences: run.broken_sequences,
        unpaired: (run.unpaired_steps, run.paired_steps),
        unpaired_by_op_count: run.unpaired_by_op_count,
        wrong_ring_peers: run.wrong_ring_peers,
        repeated: (run.repeated_steps, run.repeated_ops),
        unjoined: run.unjoined_ops,
        aggregates: (run.differing_aggregates, run.aggregates),
    }
}

/// The samples: what was read, and the table.
fn samples() -> Option<(Records, BTreeMap<String, Known>)> {
    let flows = shared()?.join("records/flows");
    let records = read_all(&[flows.join("cases.tar.gz")], Keep::All, 1);
    Some((records, table(&read_text(&flows.join("README.md")))))
}

/// The name of the case that a folder is of: `cases/ar_5r/output/nvlink`.
fn case(folder: &str) -> String {
    let parts: Vec<&str> = folder.split('/').collect();
    parts[parts.len() - 3].to_owned()
}

#[test]
fn all_samples_have_the_numbers_of_their_table() {
    let Some((records, known)) = samples() else { return };
    assert_eq!(known.len(), 31);
    assert!(records.files.iter().all(|file| file.source == Some(Source::FLOW) && file.skipped.is_empty()));
    let report = flows::report(&records).unwrap();
    let runs: BTreeMap<String, &FlowRunReport> = report.runs.iter().map(|run| (case(&run.folder), run)).collect();
    assert_eq!(runs.len(), 31);
    for (name, known) in &known {
        assert_eq!(&found(runs[name]), known, "{name}");
    }
}

#[test]
fn stages_are_those_that_nccl_logged() {
    let Some((records, _)) = samples() else { return };
    let report = flows::report(&records).unwrap();
    let mut wrong = BTreeMap::new();
    for run in &report.runs {
        for row in &run.patterns {
            let name = (case(&run.folder), row.pattern.clone());
            if row.wrong_stages > 0 {
                *wrong.entry(name).or_insert(0) += row.wrong_stages;
            }
            assert_eq!(row.unknown_stages, 0, "{}", run.folder);
        }
    }
    // Half of the steps of every tree, and a third where a ring has three loops.
    let known: [(&str, &str, u64); 5] = [
        ("ar_large_simple_5r", "RING_TWICE", 640),
        ("net_ar_16r", "TREE_UP_DOWN", 30),
        ("net_ar_small_8r", "TREE_UP_DOWN", 14),
        ("tree_ar_large_5r", "TREE_UP_DOWN", 512),
        ("tree_ar_small_5r", "TREE_UP_DOWN", 8),
    ];
    let known: BTreeMap<_, _> =
        known.into_iter().map(|(case, pattern, n)| ((case.to_owned(), pattern.to_owned()), n)).collect();
    assert_eq!(wrong, known);
}

#[test]
fn aggregates_are_what_the_extractor_writes() {
    let Some((records, _)) = samples() else { return };
    let folder = unpacked();
    let mut compared = 0;
    for made in aggregate(&records) {
        let path = folder.join(&made.folder[made.folder.find(&case(&made.folder)).unwrap()..]).join(&made.name);
        let zipped = PathBuf::from(format!("{}.gz", path.display()));
        let Some(path) = [path, zipped].into_iter().find(|path| path.exists()) else { continue };
        assert_eq!(made.text, read_text(&path), "{}", path.display());
        compared += 1;
    }
    // The sum of the last numbers of the table.
    let aggregates: u64 = flows::report(&records).unwrap().runs.iter().map(|run| run.aggregates).sum();
    assert_eq!(compared, aggregates);
    assert!(compared > 150, "{compared}");
}

/// The samples as files.
fn unpacked() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("flow-cases");
    std::fs::create_dir_all(&folder).unwrap();
    let archive = shared().unwrap().join("records/flows/cases.tar.gz");
    let status = std::process::Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&folder).status().unwrap();
    assert!(status.success());
    let inner = folder.join("cases");
    if inner.is_dir() { inner } else { folder }
}

/// Whether there is one finding, of this kind and with this beginning.
fn is_only(findings: &[Finding], kind: &str, what: &str) -> bool {
    matches!(findings, [only] if only.kind == kind && only.what.starts_with(what))
}

#[test]
fn what_is_off_is_said() {
    let Some((records, _)) = samples() else { return };
    let report = flows::report(&records).unwrap();
    let of = |name: &str| &report.runs.iter().find(|run| case(&run.folder) == name).unwrap().findings;
    for twice in ["two_runs_5r", "two_comms_same_5r"] {
        assert!(is_only(of(twice), "repeated", "80 lines of steps and 5 of operations occur twice"), "{twice}");
    }
    assert!(is_only(of("blocking_mp_5r"), "no_steps", "Operations were planned, and no steps were written; 80 were"));
    // 30 of 60 were launched before it hung.
    let unfinished = "60 operations on channels were planned, and only 30 have steps";
    assert!(of("fifo_hang_partial_5r").iter().any(|of| of.kind == "unfinished" && of.what.starts_with(unfinished)));
    assert!(is_only(of("a2a_self_5r"), "self_sends", "10 sends and receives have no steps"));
    // All-to-all among 8 ranks, in two parts of one and of two steps.
    assert!(is_only(of("net_a2a_8r"), "self_sends", "32 sends and receives have no steps"));
    assert!(of("ar_small_ll_5r").is_empty());
    assert_eq!(of("p2p_large_0to3_5r")[..], []);
    let said = text(&report);
    assert_eq!(said.matches("two communicators of equal size").count(), 2);
}

/// Writes files into a folder of the test's own, and reads all of them.
fn read(test: &str, files: &[(&str, String)]) -> Records {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("flows").join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let write = |(name, text): &(&str, String)| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let paths: Vec<PathBuf> = files.iter().map(write).collect();
    read_all(&paths, Keep::All, 1)
}

fn op(rank: u32, (steps, chunk_steps): (u32, u32), pattern: &str, ring: (u32, u32)) -> String {
    format!(
        "{{\"opCount\":0,\"rank\":{rank},\"channel\":0,\"nsteps\":{steps},\"nbytes\":1000,\"chunkSize\":2000,\"sliceSteps\":1,\
         \"chunkSteps\":{chunk_steps},\"dtype\":7,\"redOp\":0,\"pattern\":\"{pattern}\",\"protocol\":\"SIMPLE\",\
         \"ringPrev\":{},\"ringNext\":{}}}\n",
        ring.0, ring.1
    )
}

fn step(rank: u32, step: u32, op: &str, peer: u32, pattern: &str, stage: &str) -> String {
    format!(
        "{{\"opCount\":0,\"rank\":{rank},\"channel\":0,\"step\":{step},\"op\":\"{op}\",\"peer\":{peer},\"bytes\":1000,\
         \"pattern\":\"{pattern}\",\"protocol\":\"SIMPLE\",\"stage\":\"{stage}\"}}\n"
    )
}

/// An all-reduce of two loops over a ring 0, 2, 1: in each loop a rank sends and receives two steps of each stage.
fn ring(rank: u32, before: u32, after: u32) -> [String; 2] {
    let half = |at: u32| if at < 4 { "reduce-scatter" } else { "allgather" };
    let side =
        |op: &str, peer: u32| -> String { (0..8).map(|at| step(rank, at, op, peer, "RING_TWICE", half(at))).collect() };
    [op(rank, (8, 1), "RING_TWICE", (before, after)), side("RECV", before) + &side("SEND", after)]
}

#[test]
fn a_ring_of_three_ranks_by_hand() {
    let [ops, steps] =
        std::array::from_fn(|file| [ring(0, 1, 2), ring(2, 0, 1), ring(1, 2, 0)].map(|of| of[file].clone()));
    let records = read("ring", &[("all", ops.concat() + &steps.concat())]);
    let report = flows::report(&records).unwrap();
    let [run] = &report.runs[..] else { panic!("{report:?}") };
    assert_eq!((run.size, run.ops, run.steps, run.expected_steps), (Some(3), 3, 48, Some(48)));
    assert_eq!((run.unpaired_steps, run.paired_steps, run.wrong_ring_peers), (0, 24, 0));
    let stages: Vec<_> = records.flow_steps[..8].iter().map(|step| step.stage.unwrap()).collect();
    let one = ["reduce-scatter", "reduce-scatter", "allgather", "allgather"];
    assert_eq!(stages, [one, one].concat());
    // Of each loop's four steps the labels have two wrong in the half where they differ: steps 2, 3, 4 and 5.
    assert!(is_only(&run.findings, "wrong_stages", "24 of 48 steps of RING_TWICE have a wrong stage in the files"));
    let matrix = written(&report, Form::Csv);
    assert_eq!(matrix.lines().nth(1).unwrap().rsplit('/').next().unwrap(), "ring,0,2,8,8000");
    let links: Vec<_> = run.matrix.iter().map(|link| (link.from, link.to, link.steps, link.bytes)).collect();
    assert_eq!(links, [(0, 2, 8, 8000), (1, 0, 8, 8000), (2, 1, 8, 8000)]);
}

#[test]
fn a_tree_of_three_ranks_by_hand() {
    const TREE: &str = "TREE_UP_DOWN";
    let line = |rank, op, peer| step(rank, 0, op, peer, TREE, "tree-down");
    // 1 is the root, 0 and 2 are its children.
    let leaf = |rank| line(rank, "SEND", 1) + &line(rank, "RECV", 1);
    let root = line(1, "RECV", 0) + &line(1, "RECV", 2) + &line(1, "SEND", 0) + &line(1, "SEND", 2);
    let ops = |rank: u32| op(rank, (1, 1), TREE, ((rank + 2) % 3, (rank + 1) % 3));
    let files = [
        ("proxy_flow_rank0.jsonl", ops(0)),
        ("proxy_flow_rank1.jsonl", ops(1)),
        ("proxy_flow_rank2.jsonl", ops(2)),
        ("flow_steps_rank0.jsonl", leaf(0)),
        ("flow_steps_rank1.jsonl", root),
        ("flow_steps_rank2.jsonl", leaf(2)),
    ];
    let records = read("tree", &files);
    let report = flows::report(&records).unwrap();
    let [run] = &report.runs[..] else { panic!("{report:?}") };
    assert_eq!((run.steps, run.expected_steps, run.unpaired_steps), (8, Some(8), 0));
    let [tree] = &run.trees[..] else { panic!("{:?}", run.trees) };
    assert_eq!(tree.parents, BTreeMap::from([(0, Some(1)), (1, None), (2, Some(1))]));
    let stages: Vec<_> = records.flow_steps.iter().map(|step| step.stage.unwrap()).collect();
    assert_eq!(
        stages,
        ["tree-up", "tree-down", "tree-up", "tree-up", "tree-down", "tree-down", "tree-up", "tree-down"]
    );
}

#[test]
fn damaged_lines_are_counted_and_extra_keys_accepted() {
    let good = step(0, 0, "SEND", 1, "SEND", "generic");
    let longer = good.replace('}', ",\"commHash\":18446744073709551615,\"synthetic\":true}");
    let cut = &good[..60];
    let records = read("damaged", &[("steps", format!("{cut}\n{longer}\n\u{0}\n{good}"))]);
    assert_eq!(records.flow_steps.len(), 2);
    assert_eq!(records.files[0].source, Some(Source::FLOW));
    assert_eq!((records.files[0].skipped[0].count, records.files[0].skipped[0].first_offset), (2, Some(0)));
}

#[test]
fn an_aggregate_alone_is_used_and_one_beside_its_files_compared() {
    let [ops, steps] = ring(0, 1, 1);
    let [other_ops, other_steps] = ring(1, 0, 0);
    let alone = aggregate(&read("whole", &[("a", ops.clone()), ("b", steps.clone())])).remove(0).text;
    let records = read("alone", &[("flow_rank0.json", alone.clone())]);
    let report = flows::report(&records).unwrap();
    assert_eq!((report.runs[0].ops, report.runs[0].steps), (1, 16));
    assert!(report.runs[0].findings.iter().any(|of| of.kind == "aggregate_only" && of.what.starts_with("For rank 0 ")));

    let beside = |text: String| {
        let files = [("a", ops.clone() + &other_ops), ("b", steps.clone() + &other_steps), ("flow_rank0.json", text)];
        let report = flows::report(&read("beside", &files)).unwrap();
        let run = &report.runs[0];
        (run.steps, run.aggregates, run.differing_aggregates)
    };
    assert_eq!(beside(alone.clone()), (32, 1, 0));
    assert_eq!(beside(alone.replacen("\"step\":7", "\"step\":6", 1)), (32, 1, 1));
    // One that is cut off has what is before the cut.
    assert_eq!(beside(alone[..alone.len() - 300].to_owned()), (32, 1, 1));
}

#[test]
fn other_texts_are_no_flows() {
    let texts = [
        "",
        "{}\n",
        "{\"rank\": 0, \"steps\": []}",
        "{\"opCount\":0,\"rank\":0,\"channel\":0,\"pattern\":\"RING\",\"protocol\":\"LL\"}\n",
        "{\"header\":{\"id\":\"0x1\",\"rank\":0}}\n",
    ];
    for text in texts {
        let records = read("none", &[("file", text.to_owned())]);
        assert_eq!(records.files[0].source, None, "{text}");
    }
}

/// Bytes overwritten, removed and repeated anywhere: a report or none, and what is read never exceeds what is there.
#[test]
fn no_damage_panics() {
    const TREE: &str = "TREE_UP_DOWN";
    let [ops, steps] =
        std::array::from_fn(|file| [ring(0, 1, 2), ring(2, 0, 1), ring(1, 2, 0)].map(|of| of[file].clone()));
    let tree: String = [(false, 1), (true, 1)]
        .iter()
        .map(|(sends, peer)| step(0, 0, if *sends { "SEND" } else { "RECV" }, *peer, TREE, "tree-down"))
        .collect();
    let whole = ops.concat() + &steps.concat() + &op(0, (1, 1), TREE, (1, 1)) + &tree;
    let made = aggregate(&read("fuzz", &[("all", whole.clone())])).remove(0).text;
    let mut random = Random(17);
    let mut understood = 0;
    for round in 0..300 {
        let mut text = if round % 3 == 0 { made.clone().into_bytes() } else { whole.clone().into_bytes() };
        for _ in 0..1 + random.below(6) {
            let at = random.below(text.len());
            match random.below(4) {
                0 => text[at] = b"0123456789-\"{}[],:\n\xff"[random.below(20)],
                1 => drop(text.drain(at..text.len().min(at + random.below(40)))),
                2 => text.truncate(at.max(text.len() / 2)),
                _ => text.insert(at, b'9'),
            }
        }
        let lines = text.split(|byte| *byte == b'\n').count();
        let records = read_bytes("fuzz", &text);
        assert!(records.flow_ops.len() + records.flow_steps.len() <= lines);
        if let Some(report) = flows::report(&records) {
            understood += 1;
            assert!(!report_text(&report).is_empty());
            aggregate(&records);
        }
    }
    assert!(understood > 200, "{understood}");
}

fn report_text(report: &FlowReport) -> String {
    RecordsAnswer::forms().map(|form| written(report, form)).collect()
}

fn written(report: &FlowReport, form: Form) -> String {
    let report = RecordsReport { flows: Some(report.clone()), ..RecordsReport::default() };
    String::from_utf8(RecordsAnswer::new(&report, "flows").bytes(form).unwrap()).unwrap()
}

fn read_bytes(test: &str, bytes: &[u8]) -> Records {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("flows").join(test).join("all");
    std::fs::write(&path, bytes).unwrap();
    read_all(&[path], Keep::All, 1)
}

/// A folder's name separates its aggregates from those of others: no two are one, and none leads elsewhere.
#[test]
fn aggregates_of_several_folders_are_beside_each_other() {
    let root = tempfile::tempdir().unwrap();
    let here = root.path().join("here");
    for folder in ["here/a_b", "here/a/b"] {
        std::fs::create_dir_all(root.path().join(folder)).unwrap();
    }
    let [ops, _] = ring(0, 1, 1);
    for file in ["proxy_flow_rank0.jsonl", "here/a_b/proxy_flow_rank0.jsonl", "here/a/b/proxy_flow_rank0.jsonl"] {
        std::fs::write(root.path().join(file), &ops).unwrap();
    }
    let mut program = program();
    program.current_dir(&here).args(["records", "../proxy_flow_rank0.jsonl", "a_b", "a/b", "--flow-rank", "out"]);
    let output = program.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut written: Vec<String> = std::fs::read_dir(here.join("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    written.sort();
    assert_eq!(written, ["a_b", "a_b_2", "folder"]);
    assert!(here.join("out/folder/flow_rank0.json").is_file() && !here.join("flow_rank0.json").exists());
    // The job's own aggregate is a file that is read.
    std::fs::write(here.join("a/b/flow_rank0.json"), "mine").unwrap();
    let mut program = self::program();
    let output = program.current_dir(&here).args(["records", "a/b", "--flow-rank", "a/b"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(here.join("a/b/flow_rank0.json")).unwrap(), "mine");
}
