//! What is asked for by options and by the name of the output, and what is refused.

use std::path::Path;

use crate::support::events::slice;
use crate::support::pack::{gunzip, tar_of};
use crate::support::program::{ended, has, json_of, refused, run, says, stderr, stderr_of, stdout, testdata, trace_of};
use serde_json::Value;

/// What an answer that goes to a file of this name has in it.
fn written(folder: &Path, name: &str, args: &[&str]) -> Vec<u8> {
    let path = folder.join(name);
    ended(&[args, &["--quiet", "--output", path.to_str().unwrap()]].concat(), 0);
    std::fs::read(path).unwrap()
}

#[test]
fn the_name_of_the_output_says_the_form() {
    let folder = tempfile::tempdir().unwrap();
    let (costs, later, ranks) = (testdata("costs.json"), testdata("costs_later.json"), testdata("ranks"));
    let hang = testdata("records/hang");
    for (args, name, form) in [
        (&[costs.as_str()][..], "a.json", "json"),
        (&[&costs], "a.csv", "csv"),
        (&[&costs], "a.svg", "svg"),
        (&[&costs], "a.SVG", "svg"),
        (&[&costs], "a.html", "html"),
        (&[&costs], "a.folded", "folded"),
        (&[&costs], "a.speedscope.json", "speedscope"),
        (&[&costs], "a.txt", "text"),
        (&[&costs], "answer", "text"),
        (&["diff", &costs, &later], "d.json", "json"),
        (&["diff", &costs, &later], "d.txt", "table"),
        (&["ranks", &ranks], "r.csv", "csv"),
        (&["ranks", &ranks], "r.json.gz", "perfetto"),
        (&["describe", &costs], "d.json", "json"),
        (&["sql", &costs, "SELECT 1 AS one"], "s.json", "json"),
        (&["sql", &costs, "SELECT 1 AS one"], "s.csv", "csv"),
        (&["sql", &costs, "--query", "kernels"], "q.json", "json"),
    ] {
        let by_name = written(folder.path(), name, args);
        let asked = written(folder.path(), "asked", &[args, &["--format", form]].concat());
        // Outside of a file for it, a trace is not compressed; a page has the command in it.
        match form {
            "perfetto" => assert_eq!(gunzip(&by_name), asked, "{name}"),
            "html" => assert!(by_name.starts_with(b"<!"), "{name}"),
            _ => assert!(by_name == asked, "{args:?} {name}: {}", String::from_utf8_lossy(&by_name)),
        }
    }
    // A form that its ending allows is no contradiction.
    written(folder.path(), "b.json", &[&costs, "--format", "speedscope"]);
    written(folder.path(), "b.json", &[&costs, "--json"]);
    written(folder.path(), "b.txt", &[&costs, "--json"]);
    for (args, name, said) in [
        (&[costs.as_str(), "--format", "json"][..], "c.svg", "the form svg, and the answer is json"),
        (&[&costs, "--json"], "c.csv", "the form csv, and the answer is json"),
        (&["hang", &hang], "c.svg", "this answer has no form svg; its forms are text, json, html"),
        (&["sql", &costs, "SELECT 1", "--format", "csv"], "c.json", "the form json, and the answer is csv"),
        (&["sql", &costs, "SELECT 1"], "c.html", "this answer has no form html; its forms are table, csv, json"),
    ] {
        let path = folder.path().join(name);
        refused(&[args, &["--output", path.to_str().unwrap()]].concat(), 2, said);
        assert!(!path.exists(), "{args:?}");
    }
    // A default of a config file gives way.
    let config = folder.path().join("nccl-stacks.conf");
    std::fs::write(&config, "--format=csv\n").unwrap();
    let by_name = written(folder.path(), "e.json", &[&costs, "--config", config.to_str().unwrap()]);
    assert!(serde_json::from_slice::<Value>(&by_name).is_ok());
}

#[test]
fn sql_has_json_by_a_short_option() {
    let trace = testdata("costs.json");
    let rows = |args: &[&str]| -> Value { json_of(&[&["sql"], args, &["--json", "--quiet"]].concat()) };
    assert_eq!(rows(&[&trace, "SELECT 1 AS one, 'a' AS two"]), serde_json::json!([{ "one": 1, "two": "a" }]));
    assert!(!rows(&[&trace, "--query", "kernels"]).as_array().unwrap().is_empty());
    let queries = rows(&["--query"]);
    let names: Vec<&str> = queries.as_array().unwrap().iter().map(|row| row["query"].as_str().unwrap()).collect();
    let listed = stdout(&run(&["sql", "--query"]));
    assert!(names.contains(&"kernels") && names.len() == listed.lines().count(), "{names:?}");
    stderr_of(&["sql", &trace, "SELECT 1", "--json", "--format", "csv"], 2);
}

/// A wrong number is named with what is expected, and not taken for an option.
#[test]
fn wrong_numbers_are_values_of_their_options() {
    let trace = testdata("costs.json");
    for (args, option, expected) in [
        (&["--function-name", "x", "--index", "-1"][..], "--index <N>", "from 0 up"),
        (&["--function-name", "x", "--index", "two"], "--index <N>", "from 0 up"),
        (&["--threads", "0"], "--threads <N>", "from 1 up"),
        (&["--threads", "-2"], "--threads <N>", "from 1 up"),
        (&["--stack-depth", "-1"], "--stack-depth <N>", "0 shows all"),
        (&["--limit", "-1"], "--limit <N>", "from 1 up"),
        (&["--step", "-1"], "--step <N[..M]>", "3..5"),
        (&["--expect", "-1"], "--expect <N>", "from 0 up"),
        (&["--min-share", "-5%"], "--min-share <PERCENT>", "from 0 to 100"),
        (&["--start-ts", "+0", "--duration", "-5ms"], "--duration <TIME>", "cannot be negative"),
        (&["--max-bytes", "-1"], "--max-bytes <SIZE>", "512M"),
    ] {
        let said = stderr_of(&[&[trace.as_str()], args].concat(), 2);
        assert!(said.contains(&format!("invalid value '{}' for '{option}'", args.last().unwrap())), "{args:?}: {said}");
        assert!(said.contains(expected) && !said.contains("as a value, use"), "{args:?}: {said}");
    }
    // What is no value of an option is said as before.
    has(&stderr(&run(&[&trace, "-1"])), "unexpected argument '-1'");
}

#[test]
fn a_time_without_its_plus_sign_is_named_with_it() {
    let kernel = |start: u64| slice("kernel", "ncclDevKernel_AllReduce", (0, 7), start, 5);
    let (_folder, trace) = trace_of(&[kernel(1_000_000), kernel(1_020_000)]);
    for (start, meant) in [("10ms", "+10ms"), ("1500us", "+1500us"), ("7", "+7ns")] {
        let output = ended(&[&trace, "--start-ts", start, "--duration", "1us"], 3);
        let said = format!("which begins at 1000000000 ns. A time from there on has a plus sign: --start-ts {meant}\n");
        has(&stderr(&output), &said);
        assert_eq!(stdout(&output), "");
    }
    // A time in the trace, and ones that are not within it either way.
    for start in ["1000ms", "5s", "50ms"] {
        says(&[(&[&trace, "--start-ts", start, "--duration", "1us"], 3, &[], &["plus sign"])]);
    }
}

#[test]
fn what_is_not_there_has_one_exit_code() {
    let (ranks, two) = (testdata("ranks/rank0.json.gz"), testdata("two_matches.json"));
    for (args, said) in [
        (&[ranks.as_str(), "--step", "7"][..], "Nothing found: --step 7: the trace has the steps 0 to 2"),
        (&["ranks", &ranks, "--step", "7"], "Nothing found: --step 7: the trace has the steps 0 to 2"),
        (&["sql", &ranks, "--query", "kernels", "--step", "7"], "Nothing found: --step 7"),
        (&[&ranks, "--function-name", "nothing"], "Nothing found: no CPU slice is named `nothing`."),
        (&[&two, "--function-name", "train.py", "--index", "9"], "Nothing found: --index 9: there are"),
    ] {
        refused(args, 3, said);
    }
}

/// Plain text is the beginning of a name, as for kernels; a slice of exactly this name comes first.
#[test]
fn functions_are_chosen_as_kernels_are() {
    let function = |name: &str, start: u64| slice("python_function", name, (1, 1), start, 10);
    let (_folder, trace) = trace_of(&[
        function("step", 0),
        function("step 1", 20),
        function("step 2", 40),
        function("model.py(3): Forward", 60),
        slice("kernel", "ncclDevKernel_AllReduce", (0, 7), 1, 5),
    ]);
    for (name, code, parts) in [
        ("step", 3, &["Window: step [1 of 1, --index 0]"][..]),
        ("step 2", 3, &["Window: step 2 [1 of 1, --index 0]"]),
        ("step ", 2, &["2 slices have this name; choose one with --index"]),
        ("model.py(3)", 3, &["Window: model.py(3): Forward [1 of 1"]),
        ("Forward", 3, &["no CPU slice is named `Forward`.", "'*Forward*' matches"]),
        ("forward", 3, &["'%forward%' matches anywhere in a name, in upper and lower case"]),
        ("STEP 1", 3, &["no CPU slice is named `STEP 1`; did you mean `step 1`?"]),
    ] {
        says(&[(&[&trace, "--function-name", name, "--window-on", "kernel"], code, parts, &[])]);
    }
    for (name, part) in [
        ("allreduce", "No name has 'allreduce'; did you mean '*AllReduce*'?"),
        ("nccldev", "did you mean 'ncclDev'?"),
        ("AllReduce", "--kernel-name '*AllReduce*' matches anywhere"),
    ] {
        refused(&[&trace, "--kernel-name", name], 3, part);
    }
}

/// What other kernels cost was not asked.
#[test]
fn an_empty_answer_judges_nothing() {
    for trace in [testdata("costs.json"), testdata("sglang_decode.json.gz")] {
        // The figures of what ran are there, to choose from.
        let parts = ["GPU busy", "ncclDevKernel_AllReduce", "no such kernel among them"];
        let judged = ["Collectives ran", "not asked for", "explain", "comes from"];
        says(&[(&[&trace, "--kernel-name", "nothing"], 3, &parts, &judged)]);
    }
    let sides = ["costs.json", "costs_later.json"].map(testdata);
    says(&[
        (&["diff", &sides[0], &sides[1], "--kernel-name", "nothing"], 3, &[], &["not asked for"]),
        // Without a choice, what is not there was asked for.
        (&[&testdata("sglang_decode.json.gz"), "--family", "deepep"], 3, &[], &["Collectives ran"]),
    ]);
}

/// What cannot be compared is refused before the other side is read.
#[test]
fn a_side_without_traces_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (ranks, one) = (testdata("ranks"), testdata("ranks/rank0.json.gz"));
    let text = folder.path().join("notes/readme.txt");
    std::fs::create_dir(text.parent().unwrap()).unwrap();
    std::fs::write(&text, "nothing of a trace").unwrap();
    let archive = folder.path().join("notes.tar");
    std::fs::write(&archive, tar_of(&[("readme.txt", b"nothing of a trace")])).unwrap();
    let part = folder.path().join("rank0.part.json");
    ended(&["part", &one, "-o", part.to_str().unwrap()], 0);
    let [notes, archive, part, text] =
        [text.parent().unwrap(), &archive, &part, &text].map(|path| path.to_str().unwrap());
    for (args, said) in [
        (vec!["diff", &one, notes], "this folder has no traces"),
        (vec!["diff", &one, archive], "there is no trace in this archive, which holds 1 file: readme.txt"),
        (vec!["diff", &one, text], "readme.txt: "),
        (vec!["diff", &one, part], "rank0.part.json: "),
        (vec!["diff", "--ranks", &ranks, notes], "this folder has no traces"),
        (vec!["diff", "--ranks", &ranks, archive], "there is no trace in this archive"),
        (vec!["diff", archive, &one], "there is no trace in this archive"),
    ] {
        says(&[(&args, 1, &[said], &["loaded"])]);
    }
}

/// The traces of two archives have the same names.
#[test]
fn traces_of_archives_are_named_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let archives = [("first.tar", "rank0"), ("second.tar", "rank1")].map(|(name, rank)| {
        let path = folder.path().join(name);
        let trace = std::fs::read(testdata(&format!("ranks/{rank}.json.gz"))).unwrap();
        std::fs::write(&path, tar_of(&[("trace.json.gz", &trace), ("notes.txt", b"nothing of a trace")])).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let [first, second] = &archives;
    let said = stderr(&run(&["ranks", first, second, "--kernel-name", "nothing"]));
    for archive in &archives {
        has(&said, &format!("{archive}/trace.json.gz: no collective in its window"));
        has(&said, &format!("Note: 1 file of {archive} is not a trace: notes.txt"));
    }
    refused(&[first, second, "--step", "9"], 3, &format!("{first}/trace.json.gz: Nothing found: --step 9"));
    let copy = first.replace("first", "copy");
    std::fs::copy(first, &copy).unwrap();
    let twice = format!("There twice, and counted once: {first}/trace.json.gz and {copy}/trace.json.gz");
    has(&stderr(&run(&[first, &copy, "--quiet"])), &twice);
}

#[test]
fn parts_of_all_kernels_answer_families() {
    let folder = tempfile::tempdir().unwrap();
    let part = |name: &str| {
        let path = folder.path().join(format!("{}.json", name.replace('/', "_")));
        let path = path.to_str().unwrap().to_owned();
        ended(&["part", &testdata(name), "-o", &path], 0);
        path
    };
    let (first, second) = (part("ranks/rank0.json.gz"), part("ranks/rank1.json.gz"));
    for command in [&[][..], &["ranks"]] {
        // Two of four ranks are here.
        let parts = [command, &[&first, &second, "--json", "--quiet"]].concat();
        let answer = |more: &[&str]| stdout(&ended(&[&parts, more].concat(), 6));
        assert_eq!(answer(&["--family", "nccl"]), answer(&[]));
        let others = ["it has other kernels, too (ncclDevKernel_", "--family deepep"];
        says(&[(&[&parts[..], &["--family", "deepep"]].concat(), 1, &others, &[])]);
    }
    // Other options still have to be those of the parts.
    refused(&[&first, "--kernel-name", "nccl"], 1, "answer different questions");
}
