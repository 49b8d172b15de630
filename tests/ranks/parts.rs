//! Parts: what is put together of them is what the traces themselves answer, in any order; and what is missing or broken is named.

use std::path::Path;
use std::process::Output;

use nccl_stacks::answers::ranks::document::verdict;
use nccl_stacks::run::{Reading, Silent};
use nccl_stacks::{ClockMode, Inputs, Question, Run, Wanted};
use serde_json::{Value, json};

use crate::job::Job;
use crate::ranks::inputs::{Files, assert_names, late, small};
use crate::ranks::real::{PARAM, SET_A, pattern};
use crate::support::pack::zip_of;
use crate::support::program::{ended, has, refused, run, stderr, stderr_of, stdout, testdata};
use crate::support::random::{Random, is_long, rounds};
use crate::support::shared;

/// Reduces each trace to a part of its own, and returns their folder. The exit code says so if a trace is damaged.
pub(crate) fn parts_of(files: &Files, traces: &[String], options: &[&str]) -> String {
    for trace in traces {
        let name = Path::new(trace).file_stem().unwrap().to_str().unwrap();
        let output = files.path(&format!("parts/{name}.part.json"));
        std::fs::create_dir_all(files.path("parts")).unwrap();
        let code = if name == "damaged" { 6 } else { 0 };
        part(&[&[&**trace], options].concat(), &output, code);
    }
    files.path("parts")
}

/// A job's traces and parts.
fn job(job: &Job) -> (Files, Vec<String>, String) {
    let files = Files::new(job);
    let traces: Vec<String> = files.ranks(&(0..job.ranks()).collect::<Vec<_>>());
    let parts = parts_of(&files, &traces, &[]);
    (files, traces, parts)
}

/// The answer of a run, without the line that lists the arguments.
#[track_caller]
fn answer(args: &[&str]) -> Value {
    let output = run(&[args, &["--quiet", "--json"]].concat());
    assert!(matches!(output.status.code(), Some(0 | 6)), "{args:?}: {}", stderr(&output));
    whole(&output)
}

fn whole(output: &Output) -> Value {
    let mut answer: Value = serde_json::from_str(&stdout(output)).unwrap();
    assert!(answer.as_object_mut().unwrap().remove("trace").is_some());
    answer
}

fn strings(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

/// Makes a part of traces, or of parts, which ends with this code; what is said.
#[track_caller]
fn part(inputs: &[&str], output: &str, code: i32) -> String {
    stderr_of(&[&["part", "--quiet", "--output", output], inputs].concat(), code)
}

#[test]
fn who_waits_for_whom_is_what_the_traces_say() {
    for of in [late(), Job { tp: 2, pp: 2, dp: 2, ..small() }, Job { graphs: true, lose: 2, ..late() }] {
        let (files, traces, parts) = job(&of);
        let of_traces = answer(&[&["ranks"], &strings(&traces)[..]].concat());
        assert_eq!(answer(&["ranks", &parts]), of_traces);
        assert_eq!(answer(&["ranks", &parts, "--clock", "none"]), answer(&["ranks", files.root(), "--clock", "none"]));
        // Parts are read beside traces, too.
        let first = files.path("parts/rank0.part.json");
        let mixed = [&["ranks", &first], &strings(&traces)[1..]].concat();
        assert_eq!(answer(&mixed), of_traces);
    }
}

/// Two answers about stacks: everything is equal, but medians and percentiles come from histograms, and sums of fractions from another order.
fn assert_stacks(path: &str, one: &Value, other: &Value) {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>(), "{path}");
            a.iter().for_each(|(key, value)| assert_stacks(&format!("{path}.{key}"), value, &b[key]));
        }
        (Value::Array(a), Value::Array(b)) => {
            assert_eq!(a.len(), b.len(), "{path}");
            (0..).zip(a.iter().zip(b)).for_each(|(at, (a, b))| assert_stacks(&format!("{path}[{at}]"), a, b));
        }
        (Value::Number(a), Value::Number(b)) if a != b => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            let of_histogram = ["median_ns", "p95_ns"].iter().any(|key| path.ends_with(key));
            let of_fractions = ["std_dev_ns", "gb_per_s"].iter().any(|key| path.ends_with(key));
            let within = if of_histogram {
                0.008
            } else if of_fractions {
                1e-9
            } else {
                0.0
            };
            assert!((a - b).abs() <= within * a.abs().max(b.abs()), "{path}: {a} and {b}");
        }
        (a, b) => assert_eq!(a, b, "{path}"),
    }
}

#[test]
fn stacks_are_those_of_the_traces() {
    for of in [late(), Job { tp: 2, pp: 2, dp: 2, ..small() }, Job { graphs: true, ..late() }] {
        let (_files, traces, parts) = job(&of);
        for options in [&[][..], &["--per-rank"], &["--sort", "gpu", "--limit", "2"]] {
            let of_traces = answer(&[&strings(&traces)[..], options].concat());
            assert_stacks("", &of_traces, &answer(&[&[&*parts], options].concat()));
        }
        // Another window and other kernels, of which a part has no collectives.
        let options = ["--function-name", "ProfilerStep#%", "--index", "1", "--kernel-name", "*gemm*"];
        let files = Files::new(&of);
        let parts = parts_of(&files, &traces, &options);
        let of_traces = answer(&[&strings(&traces)[..], &options].concat());
        assert_stacks("", &of_traces, &answer(&[&*parts]));
    }
}

/// One trace has its table of kernels, which several have not.
#[test]
fn one_part_is_its_trace() {
    let outlier = "traces/04_first_collective_waits.json";
    let others = ["sglang_decode.json.gz", "ddp_backward.json.gz", "damaged.json", "evidence.json", outlier];
    for name in ["costs.json"].into_iter().chain(others) {
        let files = Files::new(&Job { steps: 1, layers: 1, ..small() });
        let trace = testdata(name);
        let parts = parts_of(&files, std::slice::from_ref(&trace), &[]);
        // Some of these traces say that their job had other ranks.
        let merged = run(&["--quiet", "--json", &parts]);
        assert!(matches!(merged.status.code(), Some(0 | 6)), "{name}: {}", stderr(&merged));
        assert_stacks(name, &answer(&[&trace]), &whole(&merged));
    }
}

#[test]
fn damage_is_said_with_the_trace_that_has_it() {
    let files = Files::new(&Job { steps: 1, layers: 1, ..small() });
    let trace = testdata("damaged.json");
    let parts = parts_of(&files, std::slice::from_ref(&trace), &[]);
    let said = stderr(&run(&["--quiet", &parts]));
    let of_trace = stderr(&run(&[&trace, "--quiet"]));
    assert!(of_trace.lines().count() > 0, "{of_trace}");
    assert_eq!(said, of_trace.lines().map(|line| format!("{trace}: {line}\n")).collect::<String>());
    assert_eq!(stdout(&ended(&["--strict", &parts], 1)), "");
}

/// Rank 2 comes last, so its kernels are the only short ones.
#[test]
fn ranks_that_differ_in_a_stack_are_named() {
    let (_files, _, parts) = job(&late());
    let answer = answer(&[&*parts]);
    let over = &answer["stacks"][0]["over_ranks"];
    assert_eq!((&over["ranks"], &over["ranks_in_all"]), (&json!(4), &json!(4)));
    let outliers: Vec<&Value> = over["outliers"].as_array().unwrap().iter().map(|of| &of["rank"]).collect();
    assert_eq!(outliers, [&json!("rank 2")]);
    assert_eq!(over["outliers"][0]["gpu_time_ns"], over["gpu_time_ns"]["min"]);
    let text = stdout(&run(&[&parts, "--quiet"]));
    assert_names(&text, &["over 4 ranks", "rank 2"]);
}

/// Puts parts together in pairs, triples and so on, by chance, some of them twice; until there is one file.
fn merged_by_chance(files: &Files, parts: &[String], random: &mut Random, name: &str) -> String {
    let mut left: Vec<String> = parts.to_vec();
    for at in 0.. {
        let mut taken = Vec::new();
        for _ in 0..=1 + random.below(3) {
            if !left.is_empty() {
                taken.push(left.swap_remove(random.below(left.len())));
            }
        }
        if random.below(3) == 0 {
            taken.push(parts[random.below(parts.len())].clone());
        }
        let node = files.path(&format!("{name}.{at}.json"));
        part(&strings(&taken), &node, 0);
        if left.is_empty() {
            return node;
        }
        left.push(node);
    }
    unreachable!()
}

#[test]
fn any_tree_of_merges_gives_the_same_bytes() {
    let (files, traces, parts) = job(&Job { tp: 2, pp: 2, dp: 2, ..late() });
    let of_traces = answer(&[&["ranks"], &strings(&traces)[..]].concat());
    let single: Vec<String> = (0..8).map(|rank| format!("{parts}/rank{rank}.part.json")).collect();
    let mut random = Random(7);
    let all = files.path("all.json");
    part(&[&parts], &all, 0);
    let bytes = std::fs::read(&all).unwrap();
    for tree in 0..20 {
        let node = merged_by_chance(&files, &single, &mut random, &format!("tree{tree}"));
        assert!(std::fs::read(&node).unwrap() == bytes, "tree {tree}");
    }
    assert_eq!(answer(&["ranks", &all]), of_traces);
    // Once more the same part: the same bytes.
    let again = files.path("again.json");
    part(&[&traces[3]], &again, 0);
    assert!(std::fs::read(again).unwrap() == std::fs::read(&single[3]).unwrap());
}

/// What is said, and the answer, of parts of which some are missing or broken.
#[track_caller]
fn incomplete(args: &[&str]) -> (String, Value) {
    let output = ended(&[args, &["--quiet", "--json"]].concat(), 6);
    (stderr(&output), whole(&output))
}

#[test]
fn missing_ranks_are_named() {
    let (files, traces, parts) = job(&late());
    assert_eq!(answer(&["ranks", &parts, "--expect", "4"]), answer(&["ranks", &parts]));
    let (said, _) = incomplete(&["ranks", &parts, "--expect", "7"]);
    assert_eq!(said, "Missing: 3 of 7 ranks: 4-6\n");
    std::fs::remove_file(format!("{parts}/rank1.part.json")).unwrap();
    let (said, of_three) = incomplete(&["ranks", &parts, "--expect", "4"]);
    assert_eq!(said, "Missing: 1 of 4 ranks: 1\n");
    assert_eq!(of_three, answer(&["ranks", &traces[0], &traces[2], &traces[3]]));
    // Traces, and records of calls, are checked if a number is given.
    let (said, _) = incomplete(&["ranks", &traces[0], &traces[2], &traces[3], "--expect", "4"]);
    assert_eq!(said, "Missing: 1 of 4 ranks: 1\n");
    let output = run(&["ranks", "--quiet", &testdata("records/megatrace"), "--expect", "9"]);
    assert_eq!((output.status.code(), &*stderr(&output)), (Some(6), "Missing: 1 of 9 ranks: 8\n"));
    // Headers say how many there are, too.
    for args in [&["ranks", &*parts][..], &[&*parts]] {
        let (said, _) = incomplete(args);
        assert_eq!(said, "Missing: 1 of 4 ranks that the traces' headers count: 1\n");
    }
    // The user knows better: so many were traced, or so many are in one file of parts that is merged with others later.
    let one = answer(&["ranks", &format!("{parts}/rank0.part.json"), "--expect", "1"]);
    assert_eq!(one["missing_ranks"], json!([1, 2, 3]));
    assert_eq!(part(&[&parts], &files.path("some.json"), 0), "");
    for (expected, said) in [
        // Billions of ranks are not listed.
        ("4294967295", "Missing: 4,294,967,292 of 4,294,967,295 ranks: 1, 4-4294967294\n"),
        ("1", "Beyond the 1 ranks of --expect: 2-3\n"),
        ("2", "Missing: 1 of 2 ranks: 1. Beyond the 2 ranks of --expect: 2-3\n"),
    ] {
        assert_eq!(incomplete(&["ranks", &parts, "--expect", expected]).0, said);
    }
    // A bound that is exceeded is the exit code; the missing ranks are named all the same.
    let output = ended(&["ranks", "--quiet", &parts, "--expect", "4", "--fail-if", "waited>0%"], 5);
    assert_names(&stderr(&output), &["Missing: 1 of 4 ranks: 1"]);
    // A rank without collectives is here, and has no part in the comparison.
    let silent = r#"{"distributedInfo":{"rank":1,"world_size":4},"traceEvents":[
        {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1,"dur":2,"args":{"device":0,"stream":7,"correlation":1}},
        {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":5,"dur":2,"args":{"device":0,"stream":7,"correlation":2}}]}"#;
    let cut = files.put("cut/rank1.json", &silent.as_bytes()[..silent.len() - 30]);
    let silent = files.put("silent/rank1.json", silent.as_bytes());
    let of_rank = files.path("parts/rank1.part.json");
    part(&[&silent], &of_rank, 0);
    let of_traces = answer(&["ranks", &traces[0], &silent, &traces[2], &traces[3]]);
    assert_eq!(answer(&["ranks", &parts, "--expect", "4"]), of_traces);
    assert_names(&stderr_of(&["ranks", &parts], 0), &[&format!("{silent}: no collective in its window")]);
    // If its end is missing, it may have had some.
    part(&[&cut], &of_rank, 6);
    let of_parts = ended(&["ranks", "--quiet", &parts, "--json"], 6);
    let of_traces = ended(&["ranks", "--quiet", &traces[0], &cut, &traces[2], &traces[3], "--json"], 6);
    assert_eq!(whole(&of_parts), whole(&of_traces));
    let found = whole(&of_parts);
    has(&found["verdict"].to_string(), "is cut off");
    assert_eq!(found["damage"]["unknown"][0]["trace"], json!(cut));
    ended(&["what-if", "--quiet", &parts, "--if", "rank 0 cpu like peers"], 6);
}

#[test]
fn a_broken_part_costs_its_rank_and_is_named() {
    let (files, traces, parts) = job(&late());
    let path = format!("{parts}/rank3.part.json");
    let text = std::fs::read(&path).unwrap();
    let rest = answer(&["ranks", &traces[0], &traces[1], &traces[2]]);
    let other_version = String::from_utf8(text.clone()).unwrap().replacen("part\":8,", "part\":9,", 1);
    let mut flipped = text.clone();
    flipped[text.len() / 2] ^= 1;
    for (broken, says) in [
        (&b""[..], "it is empty"),
        (&text[..text.len() / 2], "its checksum is wrong"),
        (&flipped[..], "its checksum is wrong"),
        (other_version.as_bytes(), "wrote it as version 9, and this program reads version 8"),
        (b"{\"ranks\":[]}", "this is not a part"),
        (b"\n\n", "there is no part in it"),
        (b"PAR1", if cfg!(feature = "parquet") { "Parquet" } else { "without the feature `parquet`" }),
    ] {
        std::fs::write(&path, broken).unwrap();
        let (said, of_rest) = incomplete(&["ranks", &parts, "--expect", "4"]);
        assert_names(&said, &[&path, says, "Missing: 1 of 4 ranks: 3", "Files that cannot be used: 1"]);
        assert_eq!(of_rest, rest, "{says}");
        // One that is joined with others, too.
        let all = files.path("all.json");
        part(&[&parts], &all, 6);
        assert_eq!(answer(&["ranks", &all, "--expect", "3"]), rest, "{says}");
        // One that is named itself, and in the main job.
        let first = files.path("parts/rank0.part.json");
        for command in [&["ranks"][..], &[]] {
            let of_two = [command, &[&first, &path, "--expect", "4"]].concat();
            assert_names(&incomplete(&of_two).0, &[&path, says, "Missing: 3 of 4 ranks: 1-3"]);
        }
    }
    // No byte can change unseen. Nothing but broken parts is an error, for which the other ones need not be compared.
    for at in (0..text.len()).step_by(text.len() / 40) {
        let mut other = text.clone();
        other[at] ^= 1 << (at % 7);
        std::fs::write(&path, &other).unwrap();
        refused(&["ranks", "--quiet", &path], 1, &path);
    }
}

#[test]
fn a_trace_counts_once() {
    let (files, traces, parts) = job(&small());
    let copy = files.put("copies/rank1.json", &std::fs::read(&traces[1]).unwrap());
    let of_copy = files.path("parts/copy.part.json");
    part(&[&copy], &of_copy, 0);
    let output = ended(&["ranks", "--quiet", "--json", &parts], 0);
    assert_names(&stderr(&output), &["There twice, and counted once", &copy, &traces[1]]);
    assert_eq!(whole(&output)["ranks"].as_array().unwrap().len(), 4);
    // Another trace of the same rank is an error, as in `ranks`. The parts are named: the traces may have one name on all machines.
    let other = Files::new(&Job { seed: 99, ..small() });
    part(&[&other.path("rank1.json")], &of_copy, 0);
    for args in [&["ranks", &*parts][..], &[&*parts]] {
        let said = stderr_of(&[args, &["--quiet"]].concat(), 1);
        assert_names(&said, &["rank 1 is there twice", &of_copy, &files.path("parts/rank1.part.json")]);
    }
}

#[test]
fn parts_of_other_questions_and_programs_are_distinguished() {
    let (files, traces, parts) = job(&small());
    let of_rank = files.path("parts/rank1.part.json");
    let text = std::fs::read_to_string(&of_rank).unwrap();
    part(&[&traces[1], "--exact-names"], &of_rank, 0);
    let said = stderr_of(&["ranks", "--quiet", &parts], 1);
    assert_names(&said, &["different questions", "with no options", "with --exact-names", "rank1.part.json"]);
    // `ranks` does not take options that its parts were not made with.
    let first = files.path("parts/rank0.part.json");
    refused(&["ranks", "--quiet", &first, "--exact-names"], 1, "this command with --exact-names");
    // The same version of the form, of another version of the program.
    std::fs::write(&of_rank, changed(&text, "\"tool\":\"nccl-stacks ", "\"tool\":\"nccl-stacks 9.")).unwrap();
    let said = stderr_of(&["ranks", "--quiet", &parts], 0);
    assert_names(&said, &["different versions of the program: nccl-stacks", "nccl-stacks 9.", "(1)", "(3)"]);
}

/// A document with a field changed, and its checksum.
fn changed(text: &str, from: &str, to: &str) -> String {
    let other = text.replacen(from, to, 1);
    assert_ne!(other, text, "{from}");
    let end = other.find(",\"checksum\":").unwrap();
    format!("{},\"checksum\":\"{:016x}\"}}\n", &other[..end], twox_hash::XxHash3_64::oneshot(&other.as_bytes()[..end]))
}

/// Parts that are whole by their checksum, and yet cannot be.
#[test]
fn hostile_parts_cost_their_rank() {
    let (files, traces, parts) = job(&Job { steps: 1, layers: 1, ..small() });
    let path = format!("{parts}/rank3.part.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let rest = answer(&["ranks", &traces[0], &traces[1], &traces[2]]);
    let number = |of: &str| {
        let at = text.find(of).unwrap() + of.len();
        let end = text[at..].find(|c: char| !c.is_ascii_digit() && c != '-').unwrap();
        text[at - of.len()..at + end].to_owned()
    };
    for (from, to, says) in [
        (number("\"kernel\":"), "\"kernel\":4000000000".to_owned(), "points to what it does not have"),
        (number("\"world_size\":"), "\"world_size\":4294967295".to_owned(), "more than 16 million ranks"),
        ("\"steps\":[{".to_owned(), "\"stairs\":[{".to_owned(), "missing field `steps`"),
        (r#""said":[["header",3]"#.to_owned(), r#""said":[["header",7]"#.to_owned(), "Make its part again with --rank"),
    ] {
        std::fs::write(&path, changed(&text, &from, &to)).unwrap();
        let (said, of_rest) = incomplete(&["ranks", &parts]);
        assert_names(&said, &["Left out: ", &path, says]);
        assert_eq!(of_rest, rest, "{says}");
        let out = files.path("out.json");
        let code = run(&["part", "--quiet", &parts, "--output", &out]).status.code();
        assert!(code == Some(6) || says.contains("--rank"), "{says}");
    }
    // Limits the wrong way round: no panic.
    let (min, max) = (number("\"min_ns\":"), "\"min_ns\":9223372036854775807".to_owned());
    std::fs::write(&path, changed(&text, &min, &max)).unwrap();
    ended(&["--quiet", &parts], 0);
}

/// A trace of another job is no part of the answer, and so its rank is missing.
#[test]
fn refused_ranks_are_missing() {
    let (files, _, parts) = job(&small());
    let path = files.path("parts/rank0.part.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, changed(&text, "\"world_size\":4", "\"world_size\":7")).unwrap();
    let (said, answer) = incomplete(&["ranks", &parts, "--expect", "4"]);
    assert_names(&said, &["Missing: 1 of 4 ranks: 0", "Parts that do not fit the others: 1"]);
    assert_eq!(answer["refused"][0]["rank"], json!(0));
}

#[test]
fn a_rank_can_be_given() {
    let files = Files::new(&small());
    let trace = files.put("named/node.json", &std::fs::read(files.path("rank1.json")).unwrap());
    for options in [&[][..], &["--kernel-name", "*gemm*"]] {
        let given = files.path("given.json");
        part(&[&[&*trace, "--rank", "9=node.json"], options].concat(), &given, 0);
        let stacks = ["--per-rank", &given];
        // The other ranks of the job are not there. A part without collectives has no header's count of them.
        let stacks = if options.is_empty() { incomplete(&stacks).1 } else { answer(&stacks) };
        assert_eq!((&stacks["traces"][0]["rank"], &stacks["stacks"][0]["rank"]), (&json!(9), &json!("rank 9")));
    }
    part(&[&trace, "--rank", "9=other.json"], &files.path("x.json"), 2);
    // The header overrules the file's name.
    let renamed = files.put("named/rank7.json", &std::fs::read(files.path("rank1.json")).unwrap());
    assert_eq!(part(&[&renamed], &files.path("x.json"), 0), "");
    assert_eq!(incomplete(&["--per-rank", &files.path("x.json")]).1["traces"][0]["rank"], json!(1));
}

/// Records that know when kernels ran are compared as traces are.
#[test]
fn records_are_parts_too() {
    let files = Files::new(&Job { steps: 1, layers: 1, ..small() });
    let folder = testdata("records/job/records");
    let output = files.path("inspector.json");
    part(&[&folder], &output, 0);
    assert_eq!(answer(&["ranks", &output]), answer(&["ranks", &folder]));
    // Several ranks in one file have its digest together.
    let dumps = ["0", "1"].map(|rank| format!("{folder}/nccl_profile_6496957725218703892_{rank}.json"));
    let [first, second] = dumps.map(|dump| std::fs::read_to_string(dump).unwrap());
    // The plugin's text is nearly JSON: one list of the events of both.
    let events = (first.trim_end().trim_end_matches(']'), second.trim_start().trim_start_matches('['));
    let both = files.put("both.json", format!("{},{}", events.0, events.1).as_bytes());
    let of_both = answer(&["ranks", &both]);
    assert_eq!(of_both["ranks"].as_array().unwrap().len(), 2);
    part(&[&both], &output, 0);
    assert_eq!(answer(&["ranks", &output]), of_both);
    part(&[&testdata("records/megatrace")], &output, 3);
}

#[test]
fn arguments_that_cannot_be_are_refused() {
    let (files, traces, parts) = job(&Job { steps: 1, layers: 1, ..small() });
    let both = "this answers from parts or from traces, not from both";
    for (args, says) in [
        (&["part", &traces[0]][..], "--output"),
        (&["part", &traces[0], "--output", "part.txt"], "ends with .parquet or .json"),
        (&["part", &parts, &traces[0], "--output", "all.json"], both),
        (&[&parts, &traces[0]], both),
        (&["part", &parts, "--output", "all.json", "--rank", "3=a.json"], "--rank needs the traces"),
        (&[&parts, "--records", &testdata("records/job/records")], "--records needs the traces"),
        (&[&parts, "--capture-trace", &traces[0]], "--capture-trace needs the traces"),
        (&[&parts, "--group-by", "module"], "--group-by needs the traces"),
        (&["ranks", &parts, "--group-by", "module"], "--group-by needs the traces"),
        (&["ranks", &parts, "--capture-trace", &traces[0]], "--capture-trace needs the traces"),
        (&[&traces[0], "--expect", "4"], "--expect counts the ranks of parts"),
    ] {
        refused(args, 2, says);
    }
    let first = format!("{parts}/rank0.part.json");
    for args in
        [&["export", &first, "--sqlite", "/no/such/place"][..], &["sql", &first, "SELECT 1"], &["describe", &first]]
    {
        refused(args, 1, "this is a part of a rank, which nccl-stacks does not read as a trace. The main command");
    }
    let empty = files.path("empty");
    std::fs::create_dir(&empty).unwrap();
    stderr_of(&["ranks", &empty], 1);
    // A broken trace among others: its part is missing, and the exit code says so.
    let broken = files.put("broken/rank1.json", b"no trace at all");
    let two = files.path("two.json");
    assert_names(&part(&[&traces[0], &broken], &two, 6), &["No part of: ", &broken]);
    assert_eq!(std::fs::read_to_string(&two).unwrap().lines().count(), 1);
    // The same in an archive. What is not named like a trace would not be taken for one in a folder, either.
    for (name, code) in [("rank1.json", 6), ("notes.txt", 0)] {
        let zip = zip_of(&[("rank0.json", &std::fs::read(&traces[0]).unwrap()), (name, b"no trace at all")]);
        let archive = files.put(&format!("archives/of_{name}.zip"), &zip);
        let said = part(&[&archive], &two, code);
        assert_eq!(said.contains(&format!("No part of: {archive}/rank1.json")), code == 6, "{said}");
        assert_eq!(std::fs::read_to_string(&two).unwrap().lines().count(), 1);
    }
}

#[test]
fn real_jobs_are_put_together_as_they_are() {
    let Some(shared) = shared() else { return };
    for name in [SET_A, PARAM] {
        let of = pattern(&shared, name);
        let files = Files::new(&Job { steps: 1, layers: 1, ..small() });
        let all = files.path("all.json");
        part(&[&of], &all, 0);
        assert_eq!(answer(&["ranks", &all]), answer(&["ranks", &of]), "{name}");
        assert_stacks(name, &answer(&[&of]), &answer(&[&*all]));
    }
}

/// Every column is described.
#[test]
fn columns_are_documented() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/cluster.md")).unwrap();
    for column in nccl_stacks::parts::flat::COLUMNS {
        assert!(page.contains(&format!("`{}`", column.name)), "{}", column.name);
    }
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_program_without_parquet_says_so() {
    let said = stderr_of(&["part", &testdata("costs.json"), "--output", "part.parquet"], 2);
    assert_names(&said, &["without the feature `parquet`", ".json"]);
}

#[cfg(feature = "parquet")]
mod tables {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs::File;

    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::Field;

    use super::*;

    /// The rows of a table, without what is null.
    fn rows(path: &str) -> Vec<BTreeMap<String, Field>> {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let row = |row: ::parquet::record::Row| {
            row.get_column_iter()
                .filter(|(_, of)| **of != Field::Null)
                .map(|(name, of)| (name.clone(), of.clone()))
                .collect()
        };
        reader.get_row_iter(None).unwrap().map(|of| row(of.unwrap())).collect()
    }

    fn int(row: &BTreeMap<String, Field>, column: &str) -> i64 {
        match row[column] {
            Field::Long(value) => value,
            ref other => panic!("{column}: {other}"),
        }
    }

    fn text<'r>(row: &'r BTreeMap<String, Field>, column: &str) -> &'r str {
        match &row[column] {
            Field::Str(value) => value,
            other => panic!("{column}: {other}"),
        }
    }

    fn table(files: &Files, traces: &[&str], name: &str) -> String {
        let table = files.path(name);
        part(traces, &table, 0);
        table
    }

    /// The sums of the rows are those of `ranks`, and of the collectives that the traces have.
    #[test]
    fn rows_add_up_to_the_ranks() {
        let (files, traces, _) = job(&Job { tp: 2, pp: 2, dp: 2, ..late() });
        let of_traces = answer(&[&["ranks"], &strings(&traces)[..]].concat());
        let all = table(&files, &strings(&traces), "all.parquet");
        assert_eq!(answer(&["ranks", &all]), of_traces);
        let rows = rows(&all);
        let of = |kind: &str| rows.iter().filter(|row| text(row, "row") == kind).collect::<Vec<_>>();
        let (ranks, stacks, steps) = (of("rank"), of("stack"), of("step"));
        assert_eq!((ranks.len(), steps.len()), (8, 8 * 3));
        for (row, want) in ranks.iter().zip(of_traces["ranks"].as_array().unwrap()) {
            let rank = int(row, "rank");
            assert_eq!((&json!(rank), &json!(text(row, "trace"))), (&want["rank"], &want["trace"]));
            assert_eq!(json!(int(row, "end_ns")), want["window"]["end_ns"]);
            assert_eq!(int(row, "world_size"), 8);
            let own: Vec<_> = stacks.iter().filter(|stack| int(stack, "rank") == rank).collect();
            for (column, field) in [("count", "kernels"), ("gpu_ns", "gpu_ns"), ("exposed_ns", "exposed_ns")] {
                let sum: i64 = own.iter().map(|stack| int(stack, column)).sum();
                assert_eq!(
                    [sum, int(row, column)].map(|of| json!(of)),
                    [&want[field]; 2].map(Value::clone),
                    "{column}"
                );
            }
            let own = steps.iter().filter(|step| int(step, "rank") == rank);
            assert_eq!(json!(own.map(|step| int(step, "count")).sum::<i64>()), want["kernels"]);
        }
        let mut hashes: BTreeMap<&str, &str> = BTreeMap::new();
        for stack in &stacks {
            let (hash, frames) = (text(stack, "stack_hash"), text(stack, "frames"));
            assert_eq!(*hashes.entry(hash).or_insert(frames), frames);
            let counts =
                text(stack, "gpu_histogram").split(' ').map(|of| of.split_once(':').unwrap().1.parse::<i64>().unwrap());
            assert_eq!(counts.sum::<i64>(), int(stack, "count"));
            let (count, sum) = (int(stack, "count"), int(stack, "gpu_ns"));
            assert!(int(stack, "gpu_min_ns") * count <= sum && sum <= int(stack, "gpu_max_ns") * count);
        }
        assert_eq!(hashes.len(), hashes.values().collect::<BTreeSet<_>>().len());
    }

    #[test]
    fn tables_are_merged_to_the_same_bytes() {
        let (files, traces, parts) = job(&late());
        let merged = |name: &str, parts: &[&str]| table(&files, parts, name);
        let single: Vec<String> =
            traces.iter().zip(0..).map(|(of, at)| merged(&format!("{at}.parquet"), &[of])).collect();
        let all = merged("all.parquet", &strings(&single));
        let (right, left) = (merged("right.parquet", &[&single[3], &single[1]]), merged("left.parquet", &[&single[2]]));
        let tree = merged("tree.parquet", &[&right, &left, &single[0], &single[3]]);
        assert!(std::fs::read(&tree).unwrap() == std::fs::read(&all).unwrap());
        // From text to a table and back.
        let json = merged("all.json", &[&all]);
        let texts = merged("texts.json", &[&parts]);
        assert!(std::fs::read(&json).unwrap() == std::fs::read(&texts).unwrap());
        assert!(std::fs::read(merged("again.parquet", &[&texts])).unwrap() == std::fs::read(&all).unwrap());
    }

    /// Parts may be written beside their traces, and an answer beside the parts.
    #[test]
    fn a_folder_is_of_traces_or_of_parts() {
        let (files, traces, _) = job(&Job { steps: 1, layers: 1, ..small() });
        let [of_ranks, of_stacks] = [&["ranks", files.root()][..], &[files.root()]].map(answer);
        traces.iter().zip(0..).for_each(|(of, at)| drop(table(&files, &[of], &format!("{at}.parquet"))));
        assert_eq!(answer(&["ranks", files.root()]), of_ranks);
        assert_eq!(answer(&[files.root()]), of_stacks);
        std::fs::create_dir(files.path("t")).unwrap();
        traces.iter().zip(0..).for_each(|(of, at)| drop(table(&files, &[of], &format!("t/{at}.parquet"))));
        let parts = files.path("t");
        assert_eq!(answer(&["ranks", &parts]), of_ranks);
        assert_stacks("", &of_stacks, &answer(&[&*parts]));
        stderr_of(&["ranks", &parts, "--json", "--output", &files.path("t/answer.json")], 0);
        let (said, again) = incomplete(&["ranks", &parts]);
        assert_names(&said, &["answer.json: this is not a part", "Files that cannot be used: 1"]);
        assert_eq!(again, of_ranks);
    }

    #[test]
    fn a_damaged_table_costs_its_ranks() {
        let (files, traces, _) = job(&Job { steps: 1, layers: 1, ..small() });
        std::fs::create_dir(files.path("t")).unwrap();
        let [first, second] = [0, 1].map(|at| table(&files, &[&traces[at]], &format!("t/{at}.parquet")));
        let bytes = std::fs::read(&second).unwrap();
        // zstd's frames begin with this number; the only ones that are not within a page are those of the document.
        let begins: Vec<usize> =
            bytes.windows(4).enumerate().filter(|(_, of)| *of == [0x28, 0xb5, 0x2f, 0xfd]).map(|(at, _)| at).collect();
        let document = *begins.last().unwrap();
        let mut flipped = bytes.clone();
        flipped[document + 400] ^= 8;
        for broken in [&bytes[..bytes.len() - 9], &bytes[..40], &flipped] {
            std::fs::write(&second, broken).unwrap();
            let output = ended(&["ranks", "--quiet", "--json", &files.path("t")], 6);
            assert_names(&stderr(&output), &["Left out: ", &second]);
            assert_eq!(whole(&output), answer(&["ranks", &traces[0]]));
        }
        assert_eq!(answer(&["ranks", &first, "--expect", "1"]), answer(&["ranks", &traces[0]]));
        // Another table is no table of parts.
        let folder = files.path("tables");
        ended(&["export", &traces[0], "--parquet", &folder], 0);
        refused(&["ranks", "--quiet", &files.path("tables/slice.parquet")], 1, "it has no column `document`");
    }

    /// The crate that reads tables panics at some of these, as at a column that begins before the file.
    #[test]
    fn no_damage_to_a_table_panics() {
        let (files, traces, _) = job(&Job { steps: 1, layers: 1, ..small() });
        std::fs::create_dir(files.path("t")).unwrap();
        table(&files, &[&traces[0]], "t/0.parquet");
        let bytes = std::fs::read(table(&files, &[&traces[1]], "1.parquet")).unwrap();
        // What a table consists of is at its end, with its own length before the mark.
        let (length, _) = bytes[bytes.len() - 8..].split_at(4);
        let footer = bytes.len() - 8 - u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let cut: Vec<String> = (0..60).map(|at| files.path(&format!("t/cut{at}.parquet"))).collect();
        for (at, path) in cut.iter().enumerate() {
            std::fs::write(path, &bytes[..bytes.len() * (at + 1) / 62]).unwrap();
        }
        let mut random = Random(7);
        for at in 0..rounds(60) {
            let mut flipped = bytes.clone();
            let from = if at % 4 == 0 { 4 } else { footer };
            flipped[from + random.below(bytes.len() - from)] ^= 1 << random.below(8);
            std::fs::write(files.path(&format!("t/flipped{at}.parquet")), &flipped).unwrap();
        }
        let output = run(&["ranks", "--json", &files.path("t")]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(6), "{said}");
        assert!(!said.contains("panicked"), "{said}");
        assert_names(&said, &cut.iter().map(|path| &**path).collect::<Vec<_>>());
        has(&said, "flipped");
        // The lowest bit of a number is its sign: among these are the columns' offsets.
        let path = files.path("sign.parquet");
        let mut caught = 0;
        for at in footer..bytes.len() - 8 {
            // By day the first is enough.
            if caught > 0 && !is_long() {
                break;
            }
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            std::fs::write(&path, &flipped).unwrap();
            let found = nccl_stacks::parts::parquet::documents(File::open(&path).unwrap());
            caught += u32::from(found.is_err_and(|error| error.to_string().contains("it is damaged: ")));
        }
        assert!(caught > 0);
    }
}

#[test]
fn reruns_that_do_not_fit_into_memory_are_left_out() {
    let compared = |files: &str, memory: u64| {
        let reading = Reading { memory: Some(memory), ..Reading::default() };
        let (run, question) = (Run::new(reading, &Silent), Question::about(Wanted::collectives()));
        let ranks = run.ranks(&Inputs::sort(&[files.into()]).unwrap(), &question).unwrap().ranks;
        run.compare(ranks, ClockMode::Align).unwrap()
    };
    // More parts than are read before it is looked how large they are.
    let (_files, _, parts) = job(&Job { tp: 2, pp: 1, dp: 32, steps: 2, ..small() });
    for files in [testdata("ranks"), parts] {
        let all = compared(&files, u64::MAX);
        let nodes: u64 = all.job.reductions.iter().map(|of| of.graph.nodes.len() as u64).sum();
        let few = compared(&files, 200 * nodes);
        let [all, few] = [all, few].map(|of| of.report());
        assert!(all.too_large.is_none() && all.reruns.is_some(), "{files}");
        let large = few.too_large.unwrap();
        assert_eq!((large.nodes, large.available_bytes), (nodes, 200 * nodes), "{files}");
        assert!(large.needs_bytes > 300 * nodes && few.reruns.is_none() && few.critical_path.is_none(), "{files}");
        assert_eq!((few.waited_ns, few.collectives, few.late), (all.waited_ns, all.collectives, all.late), "{files}");
        let said = verdict(&few);
        assert!(said.starts_with("Reruns are left out: they need about "), "{said}");
        has(&said, " MB are free. Fewer ranks, or one step of each (`--step`), may fit.");
        assert!(!verdict(&all).contains("Reruns are left out"), "{files}");
    }
}
