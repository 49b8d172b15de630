//! `nccl-stacks export`: what is written is what was read, and other programs can read it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use nccl_stacks::load::{LoadOptions, load};
use nccl_stacks::sql::queries::{self, Query};
use nccl_stacks::sql::{Database, TABLES};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use support::program::{run, scratch, stderr, stdout, testdata};
use support::shared;

fn database(trace: &str) -> Database {
    Database::open(load(Path::new(trace), LoadOptions::default(), |_| {}).unwrap().store).unwrap()
}

/// All that a query gives, with its parameters by name.
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

/// Every query with parameters that find something in a trace of an LLM server.
fn questions(database: &Database) -> Vec<(Query, Vec<(&'static str, Value)>)> {
    let text = |text: &str| Value::Text(text.to_owned());
    let (start, end) = database.store().bounds;
    let window = [(":start", Value::Integer(start)), (":end", Value::Integer(end))];
    let frames =
        rows(database.connection(), "SELECT name_id FROM slice_name WHERE name LIKE '%forward%' AND of_cpu", &[]);
    let frames: Vec<String> = frames.iter().map(|row| shown(row)).collect();
    let parameters = |query: &Query| match query.name {
        "annotation_names" => vec![(":category", text("cpu_op"))],
        "function_names" => vec![(":pattern", text("%forward%")), (":is_like", Value::Integer(1))],
        "function_slices" => vec![(":names", text(&format!("[{}]", frames.join(","))))],
        "graph_launches" => [&window[..], &[(":names", text(r#"["cudaGraphLaunch","cudaLaunchKernel"]"#))]].concat(),
        "kernels_in_window" => window.to_vec(),
        "kernel_names" | "cpu_names" | "kernel_span" | "trace_span" => vec![],
        other => panic!("{other}: give it parameters here"),
    };
    queries::ALL.iter().map(|query| (*query, parameters(query))).collect()
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

/// Exports a trace, and asks the file what the database in memory was asked.
fn check_sqlite(trace: &str) {
    let (folder, _) = scratch("x", b"");
    let file = folder.path().join("trace.db");
    let output = run(&["export", trace, "--sqlite", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains(&format!("Written: {}, ", file.display())), "{}", stderr(&output));
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

/// Asks the same of the program that is called sqlite3, if there is one.
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
fn and_so_they_do_for_real_traces() {
    let Some(shared) = shared() else { return };
    for name in ["lora-dev-script__sglang_tp4_A_mixed_rank0", "HTA__trace_diff_test_v100_cudagraph"] {
        check_sqlite(shared.join(format!("traces/{name}.json.gz")).to_str().unwrap());
    }
}

#[test]
fn a_database_knows_what_it_is_and_finds_by_index() {
    let (folder, _) = scratch("x", b"");
    let file = folder.path().join("trace.db");
    let file = file.to_str().unwrap();
    assert_eq!(run(&["export", &testdata("evidence.json"), "--sqlite", file]).status.code(), Some(0));
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
    let shown: Vec<String> = {
        let statement = plain.prepare("SELECT * FROM slices").unwrap();
        statement.column_names().into_iter().map(str::to_owned).collect()
    };
    assert_eq!((shown.len(), shown.last().map(String::as_str)), (15, Some("slice_id")), "hidden columns stay hidden");
}

#[test]
fn a_file_is_replaced_whole_or_not_at_all() {
    let trace = testdata("evidence.json");
    let (folder, file) = scratch("trace.db", b"old");
    // Refused before anything is read.
    for (args, want) in [
        (&["export", &trace][..], "required"),
        (&["export", &file, "--sqlite", &file], "this is the trace itself"),
        (&["export", &trace, "--sqlite", folder.path().to_str().unwrap()], "this is a directory"),
        (&["export", &trace, "--sqlite", "/dev/null"], "this is no regular file"),
        (&["export", &trace, "--sqlite", "/no/such/folder/trace.db"], "the folder does not exist"),
        (&["export", "/no/such/trace", "--sqlite", &file], "there is no such file"),
    ] {
        let output = run(args);
        assert!(stderr(&output).contains(want), "{args:?}: {}", stderr(&output));
        assert!(matches!(output.status.code(), Some(1 | 2)), "{args:?}");
        assert_eq!(std::fs::read(&file).unwrap(), b"old");
    }
    assert_eq!(run(&["export", &trace, "--sqlite", &file]).status.code(), Some(0));
    assert!(std::fs::read(&file).unwrap().starts_with(b"SQLite format 3\0"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
}
