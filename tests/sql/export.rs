//! `nccl-stacks export`: the files hold what was read, and other programs can read them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::events::{slice, tied};
use crate::support::program::{ended, has, refused, run, scratch, stderr, stderr_of, stdout, testdata, trace_of};
use crate::support::random::is_long;
use crate::support::{read_text, shared};
use nccl_stacks::damage::{Cost, Damage};
use nccl_stacks::id::SliceId;
use nccl_stacks::load::{LoadOptions, load};
use nccl_stacks::sql::queries::{self, Query};
use nccl_stacks::sql::{Database, TABLES};
use nccl_stacks::store::Store;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};

fn database(trace: &str) -> Database {
    Database::open(load(Path::new(trace), LoadOptions::default(), |_| {}).unwrap().store).unwrap()
}

/// All rows of a query, with its parameters by name.
fn rows(connection: &Connection, sql: &str, parameters: &[(&str, Value)]) -> Vec<Vec<Value>> {
    let mut statement = connection.prepare(sql).unwrap_or_else(|e| panic!("{e}: {sql}"));
    for (name, value) in parameters {
        let index = statement.parameter_index(name).unwrap().unwrap_or_else(|| panic!("{name} is not in {sql}"));
        statement.raw_bind_parameter(index, value).unwrap();
    }
    let columns = statement.column_count();
    let mut rows = statement.raw_query();
    let mut found = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        found.push((0..columns).map(|i| row.get(i).unwrap()).collect());
    }
    found
}

/// Every query, with parameters for which a trace of an LLM server has rows.
fn questions(database: &Database) -> Vec<(Query, Vec<(&'static str, Value)>)> {
    let text = |text: &str| Value::Text(text.to_owned());
    let bounds = database.store().bounds;
    let window = [(":start", bounds.start), (":end", bounds.end)].map(|(name, time)| (name, Value::Integer(time.0)));
    let frames =
        rows(database.connection(), "SELECT name_id FROM slice_name WHERE name LIKE '%forward%' AND of_cpu", &[]);
    let frames: Vec<String> = frames.iter().map(|row| shown(row)).collect();
    let parameters = |query: &Query| match query.name {
        "annotation_names" => vec![(":category", text("cpu_op"))],
        "function_names" => vec![(":pattern", text("%forward%")), (":is_like", Value::Integer(1))],
        "function_slices" => vec![(":names", text(&format!("[{}]", frames.join(","))))],
        "graph_launches" => [&window[..], &[(":names", text(r#"["cudaGraphLaunch","cudaLaunchKernel"]"#))]].concat(),
        "stacks" | "cpu_names" | "kernel_span" => vec![],
        other => panic!("{other}: give it parameters here"),
    };
    // Queries about the program itself are not asked of a file, and of those for people, only one needs no functions of the program.
    let of_people: Vec<String> = queries::named().map(|query| query.name).filter(|name| name != "stacks").collect();
    let of_program = ["sql_functions", "table_columns"];
    let is_of_traces =
        |query: &&Query| !of_program.contains(&query.name) && !of_people.iter().any(|name| name == query.name);
    let of_traces = queries::ALL.iter().filter(is_of_traces);
    of_traces.map(|query| (*query, parameters(query))).collect()
}

/// A row as `sqlite3 -list -nullvalue NULL` prints it.
fn shown(row: &[Value]) -> String {
    let value = |value: &Value| match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(value) => value.to_string(),
        Value::Text(text) => text.clone(),
        other => panic!("{other:?}: no query gives such values"),
    };
    row.iter().map(value).collect::<Vec<_>>().join("|")
}

/// Exports a trace, and asks the file the same as the database in memory.
fn check_sqlite(trace: &str) {
    let (folder, _) = scratch("x", b"");
    let file = folder.path().join("trace.db");
    refused(&["export", trace, "--sqlite", file.to_str().unwrap()], 0, &format!("Written: {}, ", file.display()));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
    let database = database(trace);
    let plain = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    for table in TABLES {
        let columns: Vec<String> = table.columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
        let sql = format!("SELECT {} FROM {} ORDER BY rowid", columns.join(", "), table.name());
        assert_eq!(rows(&plain, &sql, &[]), rows(database.connection(), &sql, &[]), "{}", table.name());
    }
    for (query, parameters) in questions(&database) {
        let want = rows(database.connection(), query.sql, &parameters);
        assert!(!want.is_empty(), "{}: it finds nothing, so that nothing is compared", query.name);
        assert_eq!(rows(&plain, query.sql, &parameters), want, "{}", query.name);
        sqlite3_agrees(&file, &query, &parameters, &want);
    }
}

/// Asks the program sqlite3 the same, if there is one.
fn sqlite3_agrees(file: &Path, query: &Query, parameters: &[(&str, Value)], want: &[Vec<Value>]) {
    let set = parameters.iter().map(|(name, value)| match value {
        Value::Text(text) => format!(".parameter set {name} \"'{}'\"\n", text.replace('"', "\\\"")),
        other => format!(".parameter set {name} {}\n", shown(std::slice::from_ref(other))),
    });
    let script: String = set.chain([query.sql.to_owned()]).collect();
    let child = Command::new("sqlite3")
        .args(["-batch", "-bail", "-list", "-nullvalue", "NULL", "-init", "/dev/null"])
        .arg(file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "SKIPPED: no program sqlite3 for {}", query.name);
        return;
    };
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), script.as_bytes()).unwrap();
    let answer = child.wait_with_output().unwrap();
    let want: Vec<String> = want.iter().map(|row| shown(row)).collect();
    assert_eq!(stdout(&answer).lines().collect::<Vec<_>>(), want, "{}", query.name);
}

#[test]
fn the_queries_give_the_same_rows_in_a_file() {
    check_sqlite(&testdata("sglang_decode.json.gz"));
}

#[test]
fn the_queries_give_the_same_rows_for_real_traces() {
    let Some(shared) = shared() else { return };
    let names = ["HTA__trace_diff_test_v100_cudagraph", "lora-dev-script__sglang_tp4_A_mixed_rank0"];
    for name in &names[..if is_long() { 2 } else { 1 }] {
        check_sqlite(shared.join(format!("traces/{name}.json.gz")).to_str().unwrap());
    }
}

#[test]
fn a_database_has_its_application_id_and_indexes() {
    let (folder, _) = scratch("x", b"");
    let file = folder.path().join("trace.db");
    let file = file.to_str().unwrap();
    ended(&["export", &testdata("evidence.json"), "--sqlite", file], 0);
    let plain = Connection::open(file).unwrap();
    let number = |sql: &str| plain.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(number("PRAGMA application_id"), 0x6e63_636c);
    assert_eq!(number("PRAGMA user_version"), 1);
    let plan = |sql: &str| {
        let plan = rows(&plain, &format!("EXPLAIN QUERY PLAN {sql}"), &[]);
        plan.iter().map(|row| shown(&row[3..])).collect::<Vec<_>>().join("; ")
    };
    for (condition, want) in [
        ("id = 3", "SEARCH slice USING INTEGER PRIMARY KEY (rowid=?)"),
        ("correlation = 3", "SEARCH slice USING INDEX slice_by_correlation (correlation=?)"),
        ("parent_id = 3", "SEARCH slice USING INDEX slice_by_parent_id (parent_id=?)"),
        ("name = 'x'", "SEARCH slice USING INDEX slice_by_name (name=?)"),
    ] {
        assert_eq!(plan(&format!("SELECT * FROM slice WHERE {condition}")), want);
    }
    let statement = plain.prepare("SELECT * FROM slices").unwrap();
    let names: Vec<&str> = statement.column_names().collect();
    assert_eq!((names.len(), names.last()), (15, Some(&"slice_id")), "hidden columns stay hidden");
}

#[test]
fn a_file_is_replaced_whole_or_not_at_all() {
    let trace = testdata("evidence.json");
    let (folder, file) = scratch("trace.db", b"old");
    let also = format!("{}/./trace.db", folder.path().display());
    let below_a_file = format!("{file}/folder/trace.db");
    // Refused before anything is read.
    for (args, want) in [
        (&["export", &trace][..], "required"),
        (&["export", &file, "--sqlite", &file], "this is an input file"),
        (&["export", &trace, "--sqlite", folder.path().to_str().unwrap()], "this is a directory"),
        (&["export", &trace, "--sqlite", "/dev/null"], "this is not a regular file"),
        (&["export", &trace, "--sqlite", &file, "--trace", &also], "two results cannot have the same name"),
        (&["export", &trace, "--sqlite", &below_a_file], "cannot be written"),
        (&["export", "/no/such/trace", "--sqlite", &file], "there is no such file"),
    ] {
        let output = run(args);
        assert!(stderr(&output).contains(want), "{args:?}: {}", stderr(&output));
        assert!(matches!(output.status.code(), Some(1 | 2)), "{args:?}");
        assert_eq!(std::fs::read(&file).unwrap(), b"old");
    }
    ended(&["export", &trace, "--sqlite", &file], 0);
    assert!(std::fs::read(&file).unwrap().starts_with(b"SQLite format 3\0"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
}

/// A cut: the program's notes, the new trace, and its text parsed by a JSON parser that knows nothing of traces.
struct Cut {
    folder: tempfile::TempDir,
    notes: String,
    text: String,
    json: serde_json::Map<String, serde_json::Value>,
}

impl Cut {
    fn new(trace: &str, flags: &[&str]) -> Cut {
        let (folder, path) = scratch("cut.json.gz", b"");
        let output = run(&[&["export", trace, "--trace", &path], flags].concat());
        let notes = stderr(&output);
        let code = if notes.contains("Lost in all: unknown") { 6 } else { 0 };
        assert_eq!(output.status.code(), Some(code), "{trace} {flags:?}: {notes}");
        let text = read_text(Path::new(&path));
        let json = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{trace} {flags:?}: {e}"));
        Cut { folder, notes, text, json }
    }

    fn path(&self) -> String {
        self.folder.path().join("cut.json.gz").to_str().unwrap().to_owned()
    }

    fn events(&self) -> &[serde_json::Value] {
        self.json["traceEvents"].as_array().unwrap()
    }

    /// The copies of kernels on tracks of their own, and the names of these tracks.
    fn marks(&self) -> Vec<&serde_json::Value> {
        self.events().iter().filter(|event| event["cat"] == "nccl-stacks").collect()
    }

    fn marked(&self) -> Vec<&serde_json::Value> {
        self.events().iter().filter(|event| event["args"]["nccl-stacks"] == "match").collect()
    }
}

/// The rest of the first note of the program with this beginning.
fn note<'a>(notes: &'a str, beginning: &str) -> Option<&'a str> {
    notes.lines().find_map(|line| line.strip_prefix(beginning))
}

/// The whole span of a trace, as the program reports it, in ns.
fn span(trace: &str) -> (i64, i64) {
    let notes = stderr(&run(&[trace, "--kernel-name", "/./"]));
    let times = note(&notes, "Window: ").unwrap().split("--start-ts ").nth(1).unwrap();
    let (start, duration) = times.trim_end_matches(')').split_once(" --duration ").unwrap();
    (start.parse().unwrap(), duration.parse().unwrap())
}

/// Cuts a part of a trace, and compares it with the whole: the same question has the same answer, and no reference dangles.
fn check_cut(trace: &str, flags: &[&str], more: &[&str]) -> Cut {
    let cut = Cut::new(trace, flags);
    let ask = |trace: &str| run(&[&[trace, "--stack-depth", "0"], flags, more].concat());
    let (whole, part) = (ask(trace), ask(&cut.path()));
    assert_eq!(part.status.code(), whole.status.code(), "{trace} {flags:?}: {}\n{}", stderr(&whole), stderr(&part));
    // The fastest kernel of the whole trace may be outside of the window, and so of the cut.
    let text = |output: &Output| {
        let text = stdout(output);
        let lines = text.lines().filter(|line| !line.starts_with("  First: "));
        let without_waiting = |line: &str| line.split(" They take a mean of ").next().unwrap_or_default().to_owned();
        lines.map(without_waiting).collect::<Vec<_>>()
    };
    let (of_whole, of_part) = (text(&whole), text(&part));
    // Pieces of a compiled model have the numbers of a whole forward pass, which a cut need not have.
    if !trace.contains("/pieces") {
        assert_eq!(of_whole, of_part, "{trace} {flags:?}");
    }
    let (whole, part) = (stderr(&whole), stderr(&part));
    for line in ["Coverage: ", "Without a launch: ", "Forward pass: "] {
        assert_eq!(note(&part, line), note(&whole, line), "{trace} {flags:?}");
    }
    let in_window = |notes: &str| Some(note(notes, "Kernels: ")?.split(" match, ").nth(1)?.to_owned());
    assert_eq!(in_window(&part), in_window(&whole), "{trace} {flags:?}");
    if let Some(in_window) = in_window(&whole) {
        let count = in_window.split(' ').next().unwrap().replace(',', "");
        assert_eq!(cut.marked().len().to_string(), count, "{trace} {flags:?}");
    }
    check_damage(trace, &cut);
    check_marks(&cut);
    cut
}

/// The cut has the damage of the whole trace, and no more, and every flow in it is whole.
fn check_damage(trace: &str, cut: &Cut) {
    let (whole, part) = (database(trace), database(&cut.path()));
    for (description, tally) in part.store().damage.iter() {
        let before = whole.store().damage.get(description.kind).count;
        assert!(tally.count <= before, "{trace}: {} {}", tally.count, description.phrase);
        // What is nested too deeply is only not kept: its text is valid, and copied.
        let is_lost = description.cost == Cost::Lost && description.kind != Damage::ArgsTooDeep;
        assert!(!is_lost || tally.count == before, "{trace}: {} {}", tally.count, description.phrase);
    }
    for kind in [Damage::FlowEndWithoutStart, Damage::FlowStepWithoutStart, Damage::FlowNoEnclosingSlice] {
        assert_eq!(part.store().damage.get(kind).count, 0, "{trace}: {kind:?}");
    }
    let end = |store: &Store, slice: SliceId| (store.slice_name(slice).to_owned(), store.slices.ts(slice));
    let ends = |store: &Store| -> BTreeSet<_> {
        let flows = store.flows.slice_out.iter().zip(&store.flows.slice_in);
        flows.map(|(from, to)| (end(store, *from), end(store, *to))).collect()
    };
    // Where slices overlap, the end of a flow may bind to another slice when some of them are gone.
    if whole.store().spilled.is_empty() {
        assert!(ends(part.store()).is_subset(&ends(whole.store())), "{trace}");
    }
}

/// Each marked kernel has one copy, on a thread that has nothing else, and copies on one thread do not overlap.
fn check_marks(cut: &Cut) {
    let is_slice = |event: &&serde_json::Value| event["ph"] == "X";
    let key = |event: &serde_json::Value| ["name", "pid", "ts", "dur"].map(|key| event[key].to_string());
    let (marks, marked) = (cut.marks(), cut.marked());
    let named = |event: &serde_json::Value| {
        let [name, pid, ts, dur] = key(event);
        [name.replacen('"', "\"match: ", 1), pid, ts, dur]
    };
    let mut slices: Vec<_> = marks.iter().copied().filter(is_slice).map(key).collect();
    let mut want: Vec<_> = marked.into_iter().map(named).collect();
    slices.sort();
    want.sort();
    assert_eq!(slices, want);
    let tid = |event: &serde_json::Value| event["tid"].as_i64();
    let of_marks: BTreeSet<_> = marks.iter().map(|event| tid(event).unwrap()).collect();
    let others = cut.events().iter().filter(|event| event["cat"] != "nccl-stacks");
    assert!(others.filter_map(tid).all(|tid| !of_marks.contains(&tid)));
    let store = load(Path::new(&cut.path()), LoadOptions::default(), |_| {}).unwrap().store;
    assert!(store.spilled.iter().all(|slice| store.strings.get(store.slices.category(*slice)) != Some("nccl-stacks")));
    for tid in of_marks {
        let names: Vec<_> = marks.iter().filter(|event| event["ph"] == "M" && event["tid"] == tid).collect();
        assert_eq!(names.len(), 1);
        assert!(names[0]["args"]["name"].as_str().unwrap().starts_with("matched kernels"));
    }
}

/// Four parts of a trace, by launch and by kernel, of all kernels and of NCCL's. By day, two of the parts, each in one of these four ways: of
/// eight numbers in a row, each part has each way. At night, all parts in all ways.
fn check_cuts(number: usize, trace: &str, more: &[&str]) {
    let (start, duration) = span(trace);
    for part in 0..4 {
        let (start, duration) = ((start + duration * part / 4).to_string(), (duration / 4).max(1).to_string());
        let ways = ["launch", "kernel"].into_iter().flat_map(|on| [(on, &["--kernel-name", "/./"][..]), (on, &[])]);
        for (way, (on, kernels)) in ways.enumerate() {
            if is_long() || part as usize % 2 == number / 4 % 2 && way == (part as usize + number) % 4 {
                let window = ["--start-ts", &start, "--duration", &duration, "--window-on", on];
                check_cut(trace, &[&window[..], kernels].concat(), more);
            }
        }
    }
}

#[test]
fn a_cut_answers_as_the_whole_trace() {
    let names = std::fs::read_dir(testdata("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut traces: Vec<String> = names.filter(|name| name.contains(".json")).collect();
    traces.sort();
    assert!(traces.len() >= 12, "{traces:?}");
    for (number, name) in traces.iter().enumerate() {
        check_cuts(number, &testdata(name), &[]);
    }
    let capture = testdata("replay/capture_traces/capture.json");
    check_cuts(0, &testdata("replay/trace.json"), &["--capture-trace", &capture]);
}

#[test]
fn cuts_of_real_traces_answer_as_the_whole_trace() {
    let Some(shared) = shared() else { return };
    let trace = |name: &str| shared.join(format!("traces/{name}.json.gz")).to_str().unwrap().to_owned();
    let resnet = trace("TraceLens__mi300_ddp_resnet_rank0");
    let (start, duration) = span(&resnet);
    let (start, duration) = ((start + duration / 10).to_string(), (duration / 10).to_string());
    let cut = check_cut(&resnet, &["--start-ts", &start, "--duration", &duration], &[]);
    assert!(cut.events().len() > 1_000);
    // By day the bare list.
    let names = ["kineto__resnet50_2021_bare_array", "lora-dev-script__sglang_tp4_A_mixed_rank0"];
    for name in &names[..if is_long() { 2 } else { 1 }] {
        check_cuts(1, &trace(name), &[]);
    }
}

/// A kernel that was launched before the window runs for 500 of the 900 µs from the first to the last kernel launched in it: the cut has it, so that the GPU
/// is not called idle there.
#[test]
fn a_cut_has_what_runs_between_the_kernels_of_its_window() {
    let call = |ts: u32, id: u32| tied("cuda_runtime", "cudaLaunchKernel", (1, 1), ts, 5, id);
    const REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
    let (_folder, trace) = trace_of(&[
        call(0, 1),
        slice("user_annotation", "second", (1, 1), 100, 50),
        call(110, 2),
        call(120, 3),
        tied("kernel", REDUCE, (0, 7), 200, 100, 2),
        tied("kernel", "gemm", (0, 8), 400, 500, 1),
        tied("kernel", REDUCE, (0, 7), 1_000, 100, 3),
    ]);
    let cut = check_cut(&trace, &["--function-name", "second"], &[]);
    has(&cut.text, "gemm");
    has(&stdout(&run(&[&cut.path(), "--function-name", "second"])), "GPU busy with any work 77.8 %");
}

/// An event as text, without what is added to those that match.
fn unmarked(event: &serde_json::Value) -> String {
    let mut event = event.clone();
    let is_added = event["args"].as_object().is_some_and(|args| args.len() == 1 && args.contains_key("nccl-stacks"));
    if is_added {
        event.as_object_mut().unwrap().remove("args");
    } else if let Some(args) = event["args"].as_object_mut() {
        args.remove("nccl-stacks");
    }
    event.to_string()
}

/// The window of a step: every event is a copy, letter by letter, and all that overlap the window are there.
#[test]
fn a_cut_is_a_copy() {
    let trace = testdata("sglang_decode.json.gz");
    let whole_text = read_text(Path::new(&trace));
    let whole: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&whole_text).unwrap();
    let flags =
        ["--kernel-name", "ncclDevKernel_AllReduce", "--function-name", "%forward_batch_generation", "--index", "0"];
    let cut = Cut::new(&trace, &flags);
    // 916.7 µs from 3412907118220506 ns on, and the 8 all-reduces that the README shows for them.
    let (start, end) = (3_412_907_118_220.506, 3_412_907_119_137.201);
    has(&cut.notes, "(--start-ts 3412907118220506 --duration 916695)");
    has(&cut.notes, " of 2,403 events, 8 kernels marked");
    assert_eq!(cut.marked().len(), 8);
    let kept = note(&cut.notes, "Cut: ").unwrap().split(' ').next().unwrap().replace(',', "");
    assert_eq!((cut.events().len() - cut.marks().len()).to_string(), kept);
    // The header, and all events but those that match, are unchanged in the file.
    for (key, value) in whole.iter().filter(|(key, _)| *key != "traceEvents") {
        assert_eq!(cut.json.get(key), Some(value), "{key}");
    }
    assert_eq!(cut.json.len(), whole.len());
    let mut there: BTreeMap<String, usize> = BTreeMap::new();
    for event in whole["traceEvents"].as_array().unwrap() {
        *there.entry(unmarked(event)).or_default() += 1;
    }
    let mut kept = BTreeSet::new();
    for event in cut.events().iter().filter(|event| event["cat"] != "nccl-stacks") {
        let event = unmarked(event);
        let left = there.get_mut(&event).unwrap_or_else(|| panic!("{event} is not in the trace"));
        assert!(*left > 0, "{event} is there too often");
        *left -= 1;
        kept.insert(event);
    }
    for line in cut.text.lines().filter(|line| !line.contains("nccl-stacks")) {
        assert!(whole_text.contains(line), "{line}");
    }
    let overlaps = |event: &&serde_json::Value| match (event["ts"].as_f64(), event["dur"].as_f64()) {
        (Some(ts), Some(dur)) if event["ph"] == "X" => ts < end && ts + dur > start,
        _ => false,
    };
    let events = whole["traceEvents"].as_array().unwrap();
    for event in events.iter().filter(|event| event["ph"] == "M" || overlaps(event)) {
        assert!(kept.contains(&unmarked(event)), "{event}");
    }
    assert!(events.iter().filter(overlaps).count() > 100);
    assert!(cut.events().len() < whole["traceEvents"].as_array().unwrap().len() / 2);
}

/// Both rules that need more than times, on events worked out by hand. The window is 100 to 200 µs.
#[test]
fn events_that_belong_to_the_window_are_kept() {
    let (_folder, trace) = trace_of(&[
        r#""ph":"M","name":"process_name","pid":1,"args":{"name":"python"}"#,
        r#""ph":"X","cat":"cpu_op","name":"before","pid":1,"tid":1,"ts":10,"dur":20"#,
        r#""ph":"X","cat":"cpu_op","name":"caller of early","pid":1,"tid":1,"ts":40,"dur":30"#,
        r#""ph":"X","cat":"cuda_runtime","name":"early launch","pid":1,"tid":1,"ts":50,"dur":5,"args":{"correlation":1}"#,
        r#""ph":"s","id":1,"pid":1,"tid":1,"ts":50,"cat":"ac2g","name":"ac2g""#,
        r#""ph":"X","cat":"cuda_runtime","name":"launch of nothing kept","pid":1,"tid":1,"ts":60,"dur":5,"args":{"correlation":2}"#,
        r#""ph":"s","id":2,"pid":1,"tid":1,"ts":60,"cat":"ac2g","name":"ac2g""#,
        r#""ph":"X","cat":"kernel","name":"nccl early","pid":0,"tid":7,"ts":70,"dur":5,"args":{"correlation":2}"#,
        r#""ph":"f","bp":"e","id":2,"pid":0,"tid":7,"ts":70,"cat":"ac2g","name":"ac2g""#,
        r#""ph":"X","cat":"kernel","name":"nccl over the edge","pid":0,"tid":7,"ts":90,"dur":20,"args":{"correlation":1}"#,
        r#""ph":"f","bp":"e","id":1,"pid":0,"tid":7,"ts":90,"cat":"ac2g","name":"ac2g""#,
        r#""ph":"X","cat":"cpu_op","name":"ends at the start","pid":1,"tid":2,"ts":90,"dur":10"#,
        r#""ph":"X","cat":"cuda_runtime","name":"launch","pid":1,"tid":1,"ts":199,"dur":5,"args":{"correlation":3}"#,
        r#""ph":"X","cat":"cpu_op","name":"starts at the end","pid":1,"tid":2,"ts":200,"dur":10"#,
        r#""ph":"X","cat":"kernel","name":"nccl late","pid":0,"tid":7,"ts":500,"dur":20,"args":{"correlation":3}"#,
        r#""ph":"X","cat":"gpu_memcpy","name":"copy","pid":0,"tid":8,"ts":600,"dur":20,"args":{"correlation":3}"#,
        r#""ph":"C","name":"counter in","pid":1,"ts":150,"args":{"x":1}"#,
        r#""ph":"C","name":"counter out","pid":1,"ts":250,"args":{"x":1}"#,
        r#""ph":"B","cat":"cpu_op","name":"open","pid":1,"tid":3,"ts":20"#,
        r#""ph":"B","cat":"cpu_op","name":"open within","pid":1,"tid":3,"ts":30"#,
        r#""ph":"E","pid":1,"tid":3,"ts":40"#,
        r#""ph":"E","pid":1,"tid":3,"ts":120"#,
        r#""ph":"i","s":"t","name":"moment","pid":1,"tid":3,"ts":100"#,
    ]);
    let cut = check_cut(&trace, &["--start-ts", "100us", "--duration", "100us"], &[]);
    let names = |phase: &str| {
        let of_phase = cut.events().iter().filter(|event| event["ph"] == phase && event["cat"] != "nccl-stacks");
        of_phase.map(|event| event["name"].as_str().unwrap_or("-")).collect::<Vec<_>>()
    };
    // The first is the first slice of the process's main thread, which makes it the main thread.
    let slices = ["before", "caller of early", "early launch", "nccl over the edge", "launch", "nccl late", "copy"];
    assert_eq!(names("X"), slices);
    assert_eq!((names("B"), names("E"), names("C")), (vec!["open"], vec!["-"], vec!["counter in"]));
    assert_eq!((names("s").len(), names("f").len(), names("i").len(), names("M").len()), (1, 1, 1, 1));
    let matched: Vec<_> = cut.marked().iter().map(|event| event["name"].as_str().unwrap()).collect();
    assert_eq!(matched, ["nccl late"]);
    let tracks: Vec<_> = cut.marks().iter().filter_map(|event| event["args"]["name"].as_str()).collect();
    assert_eq!(tracks, ["matched kernels on stream 7"]);
}

#[test]
fn a_cut_of_everything_is_everything_and_cutting_again_renews_the_marks() {
    let tids = regex::Regex::new(r#""tid": 10000000\d\d,"#).unwrap();
    for name in ["overlap_pdl.json", "begin_end_async.json", "strangers.json", "sglang_decode.json.gz"] {
        let trace = testdata(name);
        let all = Cut::new(&trace, &["--kernel-name", "/./"]);
        let whole: serde_json::Value = serde_json::from_str(&read_text(Path::new(&trace))).unwrap();
        let events = whole.as_array().or(whole["traceEvents"].as_array()).unwrap();
        let plain = all.events().iter().filter(|event| event["cat"] != "nccl-stacks");
        let texts = |events: &mut dyn Iterator<Item = &serde_json::Value>| events.map(unmarked).collect::<Vec<_>>();
        assert_eq!(texts(&mut plain.clone()), texts(&mut events.iter()), "{name}");
        let again = Cut::new(&all.path(), &["--kernel-name", "/./"]);
        assert_eq!(tids.replace_all(&again.text, ""), tids.replace_all(&all.text, ""), "{name}");
    }
}

/// Kernels that overlap on a stream get tracks of their own: the second begins before the first ends.
#[test]
fn marks_of_kernels_that_overlap_stay_apart() {
    let (_folder, trace) = trace_of(&[
        r#""ph":"X","cat":"kernel","name":"nccl a","pid":0,"tid":7,"ts":10,"dur":20"#,
        r#""ph":"X","cat":"kernel","name":"nccl b","pid":0,"tid":7,"ts":20,"dur":20,"args":null"#,
        r#""ph":"X","cat":"kernel","name":"nccl c","pid":0,"tid":7,"ts":30,"dur":5,"args":{ }"#,
        r#""ph":"X","cat":"kernel","name":"other","pid":0,"tid":1000000000,"ts":30,"dur":5"#,
    ]);
    let cut = Cut::new(&trace, &[]);
    check_marks(&cut);
    let marks: Vec<_> = cut.marks().iter().map(|e| (e["name"].as_str().unwrap(), e["tid"].as_i64().unwrap())).collect();
    let (first, second) = (1_000_000_001, 1_000_000_002);
    let of_second = [("thread_name", second), ("match: nccl b", second)];
    let want = [&[("thread_name", first), ("match: nccl a", first)], &of_second[..], &[("match: nccl c", first)]];
    assert_eq!(marks, want.concat());
    let names: Vec<_> = cut.marks().iter().filter_map(|event| event["args"]["name"].as_str()).collect();
    assert_eq!(names, ["matched kernels on stream 7", "matched kernels on stream 7 (2)"]);
}

#[test]
fn a_damaged_trace_is_exported_undamaged() {
    let damaged = Cut::new(&testdata("damaged.json"), &[]);
    let names: Vec<_> = damaged.events().iter().map(|event| event["name"].as_str().unwrap()).collect();
    let kernel = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    let mark = format!("match: {kernel}");
    let operators = ["train.py(3): main", "c10d::allreduce_", "cudaLaunchKernelExC"];
    assert_eq!(names, [&operators[..], &[kernel, "thread_name", &mark, "gemm_bf16_128x64_tn"]].concat());
    assert_eq!(damaged.json["schemaVersion"], 1);
    let whole = std::fs::read(testdata("sglang_decode.json.gz")).unwrap();
    for length in [whole.len() / 3, whole.len() / 2, whole.len() - 1] {
        let (_folder, trace) = scratch("cut_off.json.gz", &whole[..length]);
        let cut = Cut::new(&trace, &[]);
        assert!(cut.events().len() > 100, "{length}");
        has(&cut.notes, "Left out: the rest of a file that is cut off");
    }
    let inf = slice("kernel", "nccl", (0, 7), 10, 20) + r#","args":{"warps per SM":inf}"#;
    let (_folder, trace) = trace_of(&[inf, slice("kernel", "nccl", (0, 7), 40, 20)]);
    let cut = Cut::new(&trace, &[]);
    // `inf` is no JSON; it becomes text.
    assert_eq!(cut.marked().len(), 2);
    assert!(cut.events().iter().any(|event| event["args"]["warps per SM"] == "inf"));
}

#[test]
fn export_errors_come_before_anything_is_read() {
    let (trace, missing) = (testdata("evidence.json"), "/no/such/folder/out");
    for (args, want) in [
        (&["-", "--trace", missing][..], "--trace reads the trace twice, which standard input and pipes do not allow"),
        (&["/dev/stdin", "--trace", missing], "--trace reads the trace twice"),
        (&[&trace, "--sqlite", missing, "--kernel-name", "x"], "options for kernels and windows need --trace"),
        (&[&trace, "--sqlite", missing, "--start-ts", "1", "--duration", "1"], "need --trace"),
        (&[&trace, "--sqlite", missing, "--trace", missing], "two results cannot have the same name"),
        (&[&trace, "--trace", missing, "--family", "none"], "there is no such family"),
        (&[&trace, "--trace", &trace], "--trace "),
        (&[&trace, "--trace", "-"], "--trace -: this is not a regular file"),
        (&[&trace, "--sqlite", "-"], "--sqlite -: this is not a regular file"),
    ] {
        let said = stderr_of(&[&["export"], args].concat(), 2);
        assert!(said.contains(want), "{args:?}: {said}");
        assert!(!said.contains("Trace loaded"), "{args:?}");
    }
    let (folder, _) = scratch("x", b"");
    let [database, cut, outside] =
        ["a.db", "b.json.gz", "c.json.gz"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    stderr_of(&["export", &trace, "--sqlite", &database, "--trace", &cut], 0);
    let window = ["export", &trace, "--trace", &outside, "--start-ts", "9s", "--duration", "1us"];
    refused(&window, 3, "the window lies outside of the trace, which goes from ");
    assert_eq!([database, cut, outside].map(|path| Path::new(&path).is_file()), [true, true, false]);
    let nothing = Cut::new(&trace, &["--kernel-name", "no such kernel"]);
    has(&nothing.notes, "no such kernel lies in the window, so that nothing is marked");
}

/// Other programs decide by the name whether to decompress.
#[test]
fn a_cut_is_packed_unless_its_name_says_json() {
    let (folder, plain) = scratch("cut.json", b"");
    let packed = folder.path().join("cut.gz");
    let trace = testdata("two_matches.json");
    for path in [&plain, packed.to_str().unwrap()] {
        stderr_of(&["export", &trace, "--trace", path], 0);
    }
    assert!(std::fs::read_to_string(&plain).unwrap().starts_with('{'));
    assert!(std::fs::read(&packed).unwrap().starts_with(b"\x1f\x8b"));
    assert_eq!(read_text(Path::new(&plain)), read_text(&packed));
}

/// On each thread of a smaller trace with lanes, slices nest or come one after the other. Without, two overlap (`testdata/README.md`); one of
/// these is a chosen kernel, which is marked all the same.
#[test]
fn slices_that_overlap_are_on_lanes() {
    let trace = testdata("overlap_pdl.json");
    let folder = tempfile::tempdir().unwrap();
    let mut kernels = Vec::new();
    for (more, overlapping) in [(&[][..], 2), (&["--lanes"], 0)] {
        let path = folder.path().join("cut.json");
        let path = path.to_str().unwrap();
        stderr_of(&[&["export", &trace, "--trace", path], more].concat(), 0);
        let cut: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let events = cut["traceEvents"].as_array().unwrap();
        let of_event = |event: &serde_json::Value| {
            let (ts, dur) = (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap());
            (format!("{} {}", event["pid"], event["tid"]), ts, ts + dur)
        };
        let slices: Vec<_> = events.iter().filter(|event| event["ph"] == "X").map(of_event).collect();
        let overlaps = |(thread, start, end): &&(String, f64, f64)| {
            slices.iter().any(|(other, from, to)| other == thread && from < start && start < to && to < end)
        };
        assert_eq!(slices.iter().filter(overlaps).count(), overlapping, "{more:?}");
        let marked = |event: &&serde_json::Value| event["args"]["nccl-stacks"] == "match";
        kernels.push(events.iter().filter(marked).count());
        let stacks = |path: &str| stdout(&run(&["--format", "script", path]));
        assert_eq!(stacks(path), stacks(&trace), "{more:?}");
    }
    assert_eq!(kernels, [2, 2]);
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_build_without_parquet_reports_that() {
    let args = ["export", &testdata("evidence.json"), "--parquet", "/no/such/folder"];
    refused(&args, 2, "this build was made without Parquet; `cargo install");
}

#[cfg(feature = "parquet")]
mod parquet_files {
    use ::parquet::basic::Encoding;
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::Field;

    use super::*;

    /// The rows of a file as text, the names of its columns first.
    fn lines(file: &Path) -> Vec<String> {
        let reader = SerializedFileReader::new(std::fs::File::open(file).unwrap()).unwrap();
        let names = reader.metadata().file_metadata().schema().get_fields().iter().map(|field| field.name().to_owned());
        let field = |field: &Field| match field {
            Field::Null => "NULL".to_owned(),
            Field::Long(value) => value.to_string(),
            Field::Double(value) => format!("{value:?}"),
            Field::Str(text) => text.clone(),
            other => panic!("{other:?}"),
        };
        let rows = reader.get_row_iter(None).unwrap().map(|row| {
            let row = row.unwrap();
            row.get_column_iter().map(|(_, value)| field(value)).collect::<Vec<_>>().join("|")
        });
        [names.collect::<Vec<_>>().join("|")].into_iter().chain(rows).collect()
    }

    fn check(trace: &str) {
        let (folder, _) = scratch("x", b"");
        let folder = folder.path().join("new/tables");
        stderr_of(&["export", trace, "--parquet", folder.to_str().unwrap()], 0);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), TABLES.len());
        assert_eq!(std::fs::read_dir(folder.parent().unwrap()).unwrap().count(), 1, "nothing is left behind");
        let database = database(trace);
        let value = |value: &Value| {
            if let Value::Real(v) = value { format!("{v:?}") } else { shown(std::slice::from_ref(value)) }
        };
        for table in TABLES {
            let columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
            let quoted = columns.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
            let rows =
                rows(database.connection(), &format!("SELECT {quoted} FROM {} ORDER BY rowid", table.name()), &[]);
            let rows = rows.iter().map(|row| row.iter().map(value).collect::<Vec<_>>().join("|"));
            let want: Vec<String> = [columns.join("|")].into_iter().chain(rows).collect();
            assert_eq!(lines(&folder.join(format!("{}.parquet", table.name()))), want, "{}", table.name());
        }
    }

    #[test]
    fn hold_the_rows_of_the_tables() {
        check(&testdata("sglang_decode.json.gz"));
        check(&testdata("begin_end_async.json"));
        let Some(shared) = shared() else { return };
        let name = if is_long() { "TraceLens__mi300_ddp_resnet_rank0" } else { "TraceLens__h100_nsfw_small" };
        check(shared.join(format!("traces/{name}.json.gz")).to_str().unwrap());
    }

    #[test]
    fn a_row_is_where_it_was_put() {
        let args = r#","args":{"correlation":9,"x":[0.5,true]}"#;
        let (folder, trace) = trace_of(&[slice("kernel", "nccl", (0, 7), 1.5, 2) + args]);
        let tables = folder.path().join("tables");
        std::fs::create_dir(&tables).unwrap();
        stderr_of(&["export", &trace, "--parquet", tables.to_str().unwrap()], 0);
        let slice = lines(&tables.join("slice.parquet"));
        assert_eq!(slice.len(), 2);
        assert!(slice[1].starts_with("0|1500|2000|0|kernel|nccl|0|NULL|0|NULL"), "{}", slice[1]);
        let args = ["1|0|args.x|args.x[0]|NULL|NULL|0.5|real|0.5", "2|0|args.x|args.x[1]|1|NULL|NULL|bool|true"];
        assert_eq!(lines(&tables.join("args.parquet"))[2..], args);
        let reader = SerializedFileReader::new(std::fs::File::open(tables.join("slice.parquet")).unwrap()).unwrap();
        let names =
            reader.metadata().row_group(0).columns().iter().find(|c| c.column_path().string() == "name").unwrap();
        assert!(names.encodings().any(|encoding| encoding == Encoding::RLE_DICTIONARY));
        // A folder with files in it is not overwritten.
        refused(&["export", &trace, "--parquet", tables.to_str().unwrap()], 2, "this folder is not empty");
        for folder in [&format!("{trace}/folder/tables"), &trace] {
            refused(&["export", &trace, "--parquet", folder], 1, "cannot be written");
        }
    }
}
