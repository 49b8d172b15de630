//! `nccl-stacks sql` as a person or a script uses it.
//!
//! Answers over small traces are worked out by hand from testdata/README.md; those over real traces are computed here independently, by
//! plain loops over the rows that a real trace_processor shows.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::support::program::{has, is_ignored, program, run, scratch, stderr, stdout, testdata, trace_of};
use serde_json::{Value, json};

fn sql(trace: &str, rest: &[&str]) -> Output {
    run(&[&["sql", trace], rest].concat())
}

/// The answer of a run that must succeed.
fn answer(trace: &str, rest: &[&str]) -> String {
    let output = sql(trace, rest);
    assert_eq!(output.status.code(), Some(0), "{rest:?}: {}", stderr(&output));
    stdout(&output)
}

/// The error of a run that must fail, without the line on the load.
fn error(trace: &str, rest: &[&str], code: i32) -> String {
    let output = sql(trace, rest);
    assert_eq!(output.status.code(), Some(code), "{rest:?}: {}", stderr(&output));
    stderr(&output).lines().filter(|line| !line.starts_with("Trace loaded")).collect::<Vec<_>>().join("\n")
}

fn with_stdin(args: &[&str], input: &[u8]) -> Output {
    let mut child =
        program().args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

const FIRST: &str = "SELECT id, name, parent_id, dur / 1000.0 AS us FROM slice WHERE id < 4";

#[test]
fn the_three_forms() {
    let trace = testdata("begin_end_async.json");
    assert_eq!(
        answer(&trace, &[FIRST]),
        "\"id\",\"name\",\"parent_id\",\"us\"\n0,\"load\",\"[NULL]\",100.0\n1,\"read\",0,20.0\n2,\"tick\",1,0.0\n3,\"parse\",0,20.0\n"
    );
    assert_eq!(
        answer(&trace, &[FIRST, "--format", "json"]),
        "[\n{\"id\":0,\"name\":\"load\",\"parent_id\":null,\"us\":100.0},\n\
         {\"id\":1,\"name\":\"read\",\"parent_id\":0,\"us\":20.0},\n\
         {\"id\":2,\"name\":\"tick\",\"parent_id\":1,\"us\":0.0},\n\
         {\"id\":3,\"name\":\"parse\",\"parent_id\":0,\"us\":20.0}\n]\n"
    );
    assert_eq!(
        answer(&trace, &[FIRST, "--format", "table"]),
        "id  name   parent_id     us\n\
         ───────────────────────────\n \
         0  load      [NULL]  100.0\n \
         1  read           0   20.0\n \
         2  tick           1    0.0\n \
         3  parse          0   20.0\n"
    );
}

#[test]
fn statements_run_one_after_the_other() {
    let trace = testdata("begin_end_async.json");
    let script = "-- what stands in front ; of it\n\
                  INCLUDE PERFETTO MODULE slices.with_context;\n\
                  CREATE TABLE mine AS SELECT name FROM thread_slice WHERE tid = 11 AND depth = 0;\n\
                  SELECT count(*) AS n FROM mine;\n\
                  CREATE TEMP VIEW v AS SELECT ';' AS semicolon; SELECT * FROM v;;\n\
                  SELECT name FROM mine WHERE 0";
    // On thread 11: relay, receiver, next, consumer, unclosed.
    let want = "\"n\"\n5\n\n\"semicolon\"\n\";\"\n\n\"name\"\n";
    assert_eq!(answer(&trace, &[script]), want);
    let (_folder, file) = scratch("query.sql", script.as_bytes());
    assert_eq!(answer(&trace, &["--file", &file]), want);
    for args in [&["sql", &trace][..], &["sql", &trace, "--file", "-"]] {
        let output = with_stdin(args, script.as_bytes());
        assert_eq!((stdout(&output), output.status.code()), (want.to_owned(), Some(0)), "{}", stderr(&output));
    }
    let piped = with_stdin(&["sql", "-", "SELECT count(*) AS n FROM slice"], &std::fs::read(&trace).unwrap());
    assert_eq!(stdout(&piped), "\"n\"\n19\n");
    assert_eq!(answer(&trace, &["CREATE TABLE a(b)"]), "");
    assert_eq!(
        answer(
            &trace,
            &[
                "--format",
                "json",
                "SELECT 1 a, 2 a; SELECT 9223372036854775807 n, NULL m, x'00ff' b WHERE 1; SELECT 1 WHERE 0"
            ]
        ),
        "[\n{\"a\":1,\"a:1\":2}\n]\n\n[\n{\"n\":9223372036854775807,\"m\":null,\"b\":\"x'00ff'\"}\n]\n\n[]\n"
    );
}

#[test]
fn an_output_file_is_written_whole_or_not_at_all() {
    let trace = testdata("begin_end_async.json");
    let (folder, file) = scratch("answer.csv", b"old");
    assert_eq!(answer(&trace, &["SELECT 1 AS one; SELECT 2 AS two", "--output", &file]), "");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "\"one\"\n1\n\n\"two\"\n2\n");
    error(&trace, &["SELECT 3 AS three; SELECT nothing", "--output", &file], 1);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "\"one\"\n1\n\n\"two\"\n2\n");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn errors_name_the_offset_and_the_nearest_name() {
    let trace = testdata("begin_end_async.json");
    for (query, want) in [
        (
            "SELECT nmae FROM slice",
            "error: SQL statement 1 (line 1): no such column: nmae\n  SELECT nmae FROM slice\n         ^\nDid you mean name?",
        ),
        (
            "SELECT 1;\n\nSELECT id,\n\tt.utdi\nFROM thread t;",
            "error: SQL statement 2 (line 3): no such column: t.utdi\n   t.utdi\n   ^\nDid you mean utid?",
        ),
        ("SELECT * FROM slce", "error: SQL statement 1 (line 1): no such table: slce\nDid you mean slice?"),
        (
            "SELECT '☃', regexp_extrct('a', 'b')",
            "error: SQL statement 1 (line 1): no such function: regexp_extrct\n  SELECT '☃', regexp_extrct('a', 'b')\n              ^\n\
             Did you mean regexp_extract?",
        ),
        (
            "SELECT * FORM slice",
            "error: SQL statement 1 (line 1): near \"FORM\": syntax error\n  SELECT * FORM slice\n           ^",
        ),
        (
            "SELECT * FROM ancestor_slice(99)",
            "error: SQL statement 1 (line 1): ancestor_slice: there is no slice with id 99",
        ),
        (
            "SELECT name FROM slice WHERE id = :id",
            "error: SQL statement 1 (line 1): :id is a parameter without a value; write the value itself, or use \
             --query and --param",
        ),
        (
            "SELECT count!(id) FROM slice",
            "error: SQL statement 1 (line 1): unrecognized token: \"!\"\n  SELECT count!(id) FROM slice\n              ^\n\
             Macros, name!(…), are PerfettoSQL's own; write out the macro's expansion",
        ),
        (
            "CREATE OR REPLACE PERFETTO TABLE t AS SELECT 1",
            "error: SQL statement 1 (line 1): CREATE PERFETTO TABLE is PerfettoSQL's own; write plain SQL: DROP TABLE IF EXISTS name; \
             CREATE TABLE name AS SELECT …",
        ),
        (
            "CREATE VIRTUAL TABLE s USING SPAN_JOIN(a, b)",
            "error: SQL statement 1 (line 1): no such module: SPAN_JOIN\nSpan joins are Perfetto's own; join on the times: ON a.ts < b.ts + \
             b.dur AND b.ts < a.ts + a.dur",
        ),
        (
            "INCLUDE PERFETTO MODULE slices.flat_slices; SELECT * FROM _flattened",
            "error: SQL statement 2 (line 1): no such table: _flattened\nINCLUDE PERFETTO MODULE only brings the tables of \
             slices.with_context here",
        ),
    ] {
        let got = error(&trace, &[query], 1);
        assert_eq!(got, want, "{query}");
    }
    // Rows printed before the error stay.
    assert_eq!(stdout(&sql(&trace, &["SELECT 1 AS one; SELECT nothing"])), "\"one\"\n1\n");
    // Names come from any trace or table; they must not reach the terminal unescaped.
    let hostile = error(&trace, &["CREATE TABLE \"ab\u{1b}[2Jcd\"(x); SELECT * FROM \"ab\u{1b}[2Jcx\""], 1);
    assert!(!hostile.contains('\u{1b}') && hostile.contains("Did you mean ab\\u{1b}[2Jcd?"), "{hostile}");
}

#[test]
fn wrong_usage_and_failure_have_different_exit_codes() {
    let trace = testdata("begin_end_async.json");
    for (args, want) in [
        (&["", "--threads", "1"][..], "the query is empty"),
        (&["-- nothing\n;"], "the query is empty"),
        (&[], "the query is empty"),
        (&["SELECT 1", "--file", "x.sql"], "cannot be used with"),
        (&["SELECT 1", "--format", "xml"], "invalid value 'xml'"),
        (&["--formt"], "--formt is neither an option nor a query"),
    ] {
        let message = error(&trace, args, 2);
        assert!(message.contains(want), "{args:?}: {message}");
    }
    assert!(error("-", &["--file", "-"], 2).contains("the trace comes from standard input, so the query must be"));
    assert!(error("-", &[], 2).contains("the trace comes from standard input, so the query must be"));
    assert!(error(&trace, &["--file", "/nowhere/x.sql"], 1).contains("/nowhere/x.sql: cannot be read"));
    assert!(error("/nowhere/t.json", &["SELECT 1"], 1).contains("there is no such file"));
    assert!(error(&testdata("damaged.json"), &["SELECT 1", "--strict"], 1).contains("--strict was given"));
    let output = sql(&testdata("damaged.json"), &["SELECT count(*) AS n FROM slice"]);
    assert_eq!(stdout(&output), "\"n\"\n5\n");
    has(&stderr(&output), "Left out: slices of negative duration: 1");
}

#[test]
fn statements_write_no_files_and_leave_the_trace_alone() {
    let trace = testdata("begin_end_async.json");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made.db").to_str().unwrap().to_owned();
    for (query, want) in [
        (format!("ATTACH '{file}' AS other"), "ATTACH, DETACH and VACUUM INTO are refused"),
        (format!("ATTACH 'file:{file}?mode=rwc' AS other"), "ATTACH, DETACH and VACUUM INTO are refused"),
        (format!("VACUUM INTO '{file}'"), "ATTACH, DETACH and VACUUM INTO are refused"),
        ("DETACH main".to_owned(), "ATTACH, DETACH and VACUUM INTO are refused"),
        (format!("SELECT load_extension('{file}')"), "load_extension is refused"),
        ("PRAGMA journal_mode = WAL".to_owned(), "PRAGMA journal_mode may be read here, not set"),
        ("PRAGMA writable_schema = ON".to_owned(), "PRAGMA writable_schema may be read here, not set"),
        (format!("PRAGMA temp_store_directory = '{file}'"), "PRAGMA temp_store_directory may be read here, not set"),
        ("PRAGMA temp_store(FILE)".to_owned(), "PRAGMA temp_store may be read here, not set"),
        (format!("SELECT writefile('{file}', 'x')"), "no such function: writefile"),
        ("DROP VIEW thread_slice".to_owned(), "thread_slice belongs to the trace and cannot be dropped"),
        ("DROP TABLE slice".to_owned(), "table slice may not be dropped"),
        ("UPDATE slice SET dur = 0".to_owned(), "table slice may not be modified"),
        ("INSERT INTO thread_slice(id) VALUES (1)".to_owned(), "cannot modify thread_slice because it is a view"),
    ] {
        let message = error(&trace, &[&query], 1);
        assert!(message.contains(want), "{query}: {message}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    // What is allowed.
    for (query, want) in [
        ("PRAGMA journal_mode", "\"journal_mode\"\n\"memory\"\n"),
        ("SELECT name FROM pragma_table_info('flow') LIMIT 2", "\"name\"\n\"id\"\n\"slice_out\"\n"),
        ("PRAGMA case_sensitive_like = ON; SELECT 'A' LIKE 'a' AS l", "\"l\"\n0\n"),
        ("BEGIN; CREATE TABLE a(b); INSERT INTO a VALUES (1), (2); COMMIT; SELECT sum(b) AS s FROM a", "\"s\"\n3\n"),
        ("CREATE TABLE a(b); CREATE INDEX i ON a(b); DROP TABLE a", ""),
        ("CREATE VIEW w AS SELECT 1 AS one; SELECT * FROM w; DROP VIEW w", "\"one\"\n1\n"),
    ] {
        assert_eq!(answer(&trace, &[query]), want, "{query}");
    }
}

#[test]
fn empty_tables_get_a_note() {
    let (_folder, trace) = trace_of(&[
        r#""ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1"#,
        r#""ph":"C","name":"memory","pid":1,"ts":2,"args":{"bytes":5}"#,
    ]);
    let note = |query: &str| {
        let output = sql(&trace, &[query]);
        assert_eq!(output.status.code(), Some(0), "{query}");
        stderr(&output).lines().filter(|line| line.contains(" is ")).collect::<Vec<_>>().join("\n")
    };
    let want = "Note: counter is empty because such events are not read: 1 event(s) of this trace have phases that no table shows";
    for query in ["SELECT count(*) FROM counter", "CREATE VIEW v AS SELECT value FROM counter; SELECT * FROM v"] {
        assert!(note(query).starts_with(want), "{}", note(query));
    }
    assert!(note("SELECT * FROM _trace_import_logs").contains("is always empty here"));
    assert_eq!(note("SELECT count(*) FROM slice"), "");
}

/// Ctrl-C stops a query that would run for hours.
#[cfg(unix)]
#[test]
fn a_query_can_be_stopped() {
    if is_ignored("INT") {
        return;
    }
    let trace = testdata("sglang_decode.json.gz");
    let endless =
        "SELECT 1 AS began; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    let mut child = program()
        .args(["sql", &trace, endless])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(child.try_wait().unwrap().is_none(), "the query has ended by itself");
    // The shell's own, because not every system has a program of that name.
    let interrupt = format!("kill -INT {}", child.id());
    assert!(std::process::Command::new("/bin/sh").args(["-c", &interrupt]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).ends_with("Interrupted.\n"), "{}", stderr(&output));
    assert_eq!(stdout(&output), "\"began\"\n1\n");
}

/// Rows are printed as they are found, and it is no error if the reader leaves.
#[cfg(unix)]
#[test]
fn rows_are_not_kept_until_the_end() {
    let trace = testdata("sglang_decode.json.gz");
    for format in ["csv", "json"] {
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
        let mut child = program()
            .args(["sql", &trace, endless, "--format", format])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 20];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(!stderr(&output).contains("error"), "{}", stderr(&output));
    }
}

/// A slice as a trace_processor shows it.
struct Slice {
    ts: i64,
    dur: i64,
    category: Value,
    name: Value,
    depth: i64,
    parent: Option<usize>,
    tid: Value,
}

/// Traces whose times Perfetto and we convert alike, so that ids and parents are equal.
const TRACES: &[&str] = &[
    "HTA__trace_diff_test_v100_cudagraph",
    "HTA__trace_diff_control_a100",
    "param__dlrm_kineto_worker0_step_12_1694128201545_pt_trace",
    "lora-dev-script__sglang_tp4_A_mixed_rank0",
    "TraceLens__mi300_ddp_resnet_rank0",
];

struct Oracle {
    csv: String,
    slices: Vec<Slice>,
    flows: Vec<(usize, usize)>,
}

fn oracle(shared: &Path, name: &str) -> Oracle {
    let path = |end: &str| shared.join("oracle").join(format!("{name}.{end}.csv.gz"));
    let csv = crate::support::read_text(&path("slice"));
    let number = |field: &Option<String>| field.as_ref().map(|n| n.parse::<i64>().unwrap());
    let slice = |row: Vec<Option<String>>| Slice {
        ts: number(&row[1]).unwrap(),
        dur: number(&row[2]).unwrap(),
        category: json!(row[3]),
        name: json!(row[4]),
        depth: number(&row[5]).unwrap(),
        parent: number(&row[6]).map(|id| id as usize),
        tid: json!(number(&row[9])),
    };
    let slices = crate::support::csv_rows(&csv).map(slice).collect();
    let flow = |row: Vec<Option<String>>| (number(&row[1]).unwrap() as usize, number(&row[2]).unwrap() as usize);
    let flows = if path("flow").exists() {
        crate::support::csv_rows(&crate::support::read_text(&path("flow"))).map(flow).collect()
    } else {
        Vec::new()
    };
    Oracle { csv, slices, flows }
}

/// Sums by key, as rows of key and sum: the greatest first, equal sums by key.
fn sums(rows: impl Iterator<Item = (Value, i64)>, limit: usize) -> Vec<Vec<Value>> {
    let mut sums: BTreeMap<String, (Value, i64)> = BTreeMap::new();
    for (key, n) in rows {
        // NULL sorts before all texts.
        let sorted = key.as_str().map_or(String::new(), |text| format!("x{text}"));
        sums.entry(sorted).or_insert((key, 0)).1 += n;
    }
    let mut sums: Vec<(Value, i64)> = sums.into_values().collect();
    sums.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    sums.truncate(limit);
    sums.into_iter().map(|(key, n)| vec![key, json!(n)]).collect()
}

/// A query, the fields of its JSON, the rows.
type Question = (&'static str, &'static str, Vec<Vec<Value>>);

impl Oracle {
    fn ancestors(&self, id: usize) -> Vec<usize> {
        let mut found: Vec<usize> =
            std::iter::successors(self.slices[id].parent, |id| self.slices[*id].parent).collect();
        found.reverse();
        found
    }

    /// Ten questions as Perfetto's documentation asks them, and their answers.
    fn questions(&self) -> Vec<Question> {
        let all = || self.slices.iter().enumerate();
        let kernel = |id: usize| self.slices[id].category.as_str().is_some_and(|c| c.eq_ignore_ascii_case("kernel"));
        let mut delays: Vec<(i64, usize, usize)> = self
            .flows
            .iter()
            .filter(|(_, to)| kernel(*to))
            .map(|(from, to)| (self.slices[*to].ts - self.slices[*from].ts, *from, *to))
            .collect();
        delays.sort_by_key(|(delay, from, to)| (std::cmp::Reverse(*delay), *to, *from));
        let mut enclosed = vec![0i64; self.slices.len()];
        let mut inner = vec![0i64; self.slices.len()];
        for (id, slice) in all() {
            self.ancestors(id).into_iter().for_each(|above| enclosed[above] += 1);
            slice.parent.into_iter().for_each(|parent| inner[parent] += slice.dur);
        }
        let mut tops: Vec<(i64, usize)> =
            all().filter(|(_, s)| s.depth == 0).map(|(id, _)| (enclosed[id], id)).collect();
        tops.sort_by_key(|(n, id)| (std::cmp::Reverse(*n), *id));
        let launches: Vec<usize> = self.flows.iter().take(200).map(|(from, _)| *from).collect();
        let launch_set: std::collections::BTreeSet<usize> = launches.into_iter().collect();
        vec![
            (
                "SELECT name, count(*) AS n FROM slice GROUP BY name ORDER BY n DESC, name LIMIT 20",
                "name n",
                sums(all().map(|(_, s)| (s.name.clone(), 1)), 20),
            ),
            (
                "SELECT category, sum(dur) AS total FROM slices GROUP BY category ORDER BY total DESC, category",
                "category total",
                sums(all().map(|(_, s)| (s.category.clone(), s.dur)), usize::MAX),
            ),
            (
                "SELECT f.id, o.name, i.name FROM flow f JOIN slice o ON o.id = f.slice_out JOIN slice i ON i.id = f.slice_in ORDER BY f.id",
                "id name name:1",
                self.flows
                    .iter()
                    .enumerate()
                    .map(|(id, (from, to))| {
                        vec![json!(id), self.slices[*from].name.clone(), self.slices[*to].name.clone()]
                    })
                    .collect(),
            ),
            (
                "SELECT i.ts - o.ts AS delay, o.id, i.id FROM flow f JOIN slice o ON o.id = f.slice_out JOIN slice i ON i.id = f.slice_in \
                 WHERE lower(i.category) = 'kernel' ORDER BY delay DESC, i.id, o.id LIMIT 10",
                "delay id id:1",
                delays.iter().take(10).map(|(delay, from, to)| vec![json!(delay), json!(from), json!(to)]).collect(),
            ),
            (
                "SELECT s.id, a.id, a.name FROM (SELECT DISTINCT slice_out AS id FROM flow WHERE id < 200) s, ancestor_slice(s.id) a \
                 ORDER BY s.id, a.depth",
                "id id:1 name",
                launch_set
                    .iter()
                    .flat_map(|id| {
                        self.ancestors(*id)
                            .into_iter()
                            .map(move |above| vec![json!(id), json!(above), self.slices[above].name.clone()])
                    })
                    .collect(),
            ),
            (
                "SELECT (SELECT count(*) FROM descendant_slice(s.id)) AS n, s.id FROM slice s WHERE depth = 0 ORDER BY n DESC, s.id LIMIT 10",
                "n id",
                tops.iter().take(10).map(|(n, id)| vec![json!(n), json!(id)]).collect(),
            ),
            (
                "SELECT tid, count(*) AS n FROM thread_slice WHERE category IN ('kernel', 'cpu_op') GROUP BY tid ORDER BY tid",
                "tid n",
                {
                    let mut by_tid: BTreeMap<i64, i64> = BTreeMap::new();
                    let wanted = |s: &Slice| s.category == "kernel" || s.category == "cpu_op";
                    // Threads with text ids in the file get numbers of each program's own, but neither of these is one.
                    all()
                        .filter(|(_, s)| wanted(s))
                        .filter_map(|(_, s)| s.tid.as_i64())
                        .for_each(|tid| *by_tid.entry(tid).or_default() += 1);
                    by_tid.into_iter().map(|(tid, n)| vec![json!(tid), json!(n)]).collect()
                },
            ),
            (
                "SELECT s.name, sum(s.dur - coalesce((SELECT sum(c.dur) FROM slice c WHERE c.parent_id = s.id), 0)) AS self \
                 FROM slice s GROUP BY s.name ORDER BY self DESC, s.name LIMIT 10",
                "name self",
                sums(all().map(|(id, s)| (s.name.clone(), s.dur - inner[id])), 10),
            ),
            (
                "SELECT count(*) AS n, min(ts) AS first FROM instant",
                "n first",
                vec![vec![
                    json!(all().filter(|(_, s)| s.dur == 0).count()),
                    json!(all().filter(|(_, s)| s.dur == 0).map(|(_, s)| s.ts).min()),
                ]],
            ),
            (
                "SELECT sum(slice_is_ancestor(s.parent_id, s.id)) AS n, trace_dur() AS dur FROM slice s",
                "n dur",
                vec![vec![
                    json!(all().filter(|(_, s)| s.parent.is_some()).count()),
                    json!(all().map(|(_, s)| s.ts + s.dur.max(0)).max().unwrap() - self.slices[0].ts),
                ]],
            ),
        ]
    }
}

#[test]
fn questions_over_real_traces_have_the_answers_of_a_trace_processors_rows() {
    let Some(shared) = crate::support::shared() else { return };
    for name in TRACES {
        let trace = shared.join("traces").join(format!("{name}.json.gz"));
        let trace = trace.to_str().unwrap();
        let oracle = oracle(&shared, name);
        let questions = oracle.questions();
        let text: Vec<&str> = questions.iter().map(|(sql, ..)| *sql).collect();
        let json = answer(trace, &[&text.join(";\n"), "--format", "json"]);
        let sets: Vec<Vec<serde_json::Map<String, Value>>> =
            serde_json::Deserializer::from_str(&json).into_iter().collect::<Result<_, _>>().unwrap();
        assert_eq!(sets.len(), questions.len());
        let mut rows = 0;
        for ((sql, keys, want), got) in questions.iter().zip(&sets) {
            let keys: Vec<&str> = keys.split(' ').collect();
            let got: Vec<Vec<Value>> =
                got.iter().map(|row| keys.iter().map(|key| row[*key].clone()).collect()).collect();
            assert!(
                got == *want,
                "{name}: {sql}\n{:?}\n{:?}",
                got.iter().take(3).collect::<Vec<_>>(),
                want.iter().take(3).collect::<Vec<_>>()
            );
            rows += want.len();
        }
        println!("{name}: {rows} rows");
    }
}

/// The oracle's files begin with these columns, so each of its lines begins with ours, byte for byte.
#[test]
fn csv_is_a_trace_processors_byte_for_byte() {
    let Some(shared) = crate::support::shared() else { return };
    for name in TRACES {
        let trace = shared.join("traces").join(format!("{name}.json.gz"));
        let query = "SELECT id, ts, dur, category, name, depth, parent_id FROM slice";
        let got = answer(trace.to_str().unwrap(), &[query]);
        let want = oracle(&shared, name).csv;
        assert_eq!(got.lines().count(), want.lines().count(), "{name}");
        for (got, want) in got.lines().zip(want.lines()) {
            assert!(want.starts_with(&format!("{got},")), "{name}:\n{got}\n{want}");
        }
    }
}
