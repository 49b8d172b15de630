//! What SQL has beside the tables: functions, views, and table functions.
//!
//! Walks from slice to slice are compared with walks written here independently, from the rules alone, over the rows of a real
//! trace_processor: its slices with their parents and its flows.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::path::Path;

use crate::support::random::{Random, is_long};
use nccl_stacks::input::from_reader;
use nccl_stacks::load::{LoadOptions, load, load_input};
use nccl_stacks::sql::{Database, absent};
use nccl_stacks::time::TimeRule;
use rusqlite::StatementStatus;
use rusqlite::types::Value;

fn open(path: &Path, time: TimeRule) -> Database {
    Database::open(load(path, LoadOptions { time, ..LoadOptions::default() }, |_| {}).unwrap().store).unwrap()
}

fn testdata(name: &str) -> Database {
    open(crate::support::program::testdata(name).as_ref(), TimeRule::Exact)
}

/// The rows of a query, its values joined with `|`.
fn rows(database: &Database, sql: &str) -> Result<Vec<String>, rusqlite::Error> {
    let mut statement = database.connection().prepare(sql)?;
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        let values: Result<Vec<String>, rusqlite::Error> = (0..columns)
            .map(|i| {
                Ok(match row.get(i)? {
                    Value::Null => "NULL".to_owned(),
                    Value::Integer(value) => value.to_string(),
                    Value::Real(value) => format!("{value:?}"),
                    Value::Text(text) => text,
                    Value::Blob(bytes) => format!("{bytes:?}"),
                })
            })
            .collect();
        Ok(values?.join("|"))
    })?;
    rows.collect()
}

fn ids(database: &Database, sql: &str) -> Vec<u32> {
    rows(database, sql).unwrap().iter().map(|id| id.parse().unwrap()).collect()
}

/// The names of a query's columns, joined with blanks.
fn columns(database: &Database, sql: &str) -> String {
    let statement = database.connection().prepare(sql).unwrap();
    statement.column_names().collect::<Vec<_>>().join(" ")
}

/// How many steps SQLite's virtual machine takes for a query.
fn steps(database: &Database, sql: &str) -> i32 {
    let mut statement = database.connection().prepare(sql).unwrap();
    let mut rows = statement.query([]).unwrap();
    while rows.next().unwrap().is_some() {}
    drop(rows);
    statement.get_status(StatementStatus::VmStep)
}

#[test]
fn functions_of_text_and_numbers() {
    let database = testdata("evidence.json");
    for (expression, want) in [
        // Perfetto's own examples for the replacement.
        ("regexp_replace_simple('abcde', 'c', 'C')", "abCde"),
        ("regexp_replace_simple('abcde', 'i', 'I')", "abcde"),
        ("regexp_replace_simple('abcde', '', '|')", "|a|b|c|d|e|"),
        ("regexp_replace_simple('a1b22', '([0-9]+)', '$1-')", "a$1-b$1-"),
        ("regexp_replace_simple(NULL, 'a', 'b')", "NULL"),
        ("'ncclDevKernel_AllReduce_Sum' REGEXP '^nccl.*Reduce'", "1"),
        ("'ncclDevKernel' REGEXP 'Kernel$'", "1"),
        ("'ncclDevKernel' REGEXP 'kernel'", "0"),
        ("'naïve ☃' REGEXP '^.{7}$'", "1"),
        ("512 REGEXP '^5'", "1"),
        ("NULL REGEXP 'a'", "NULL"),
        ("'a' REGEXP NULL", "NULL"),
        ("regexp('b', 'abc')", "1"),
        ("regexp_extract('Linear_12', '[0-9]+')", "12"),
        ("regexp_extract('Linear_12', '_([0-9])')", "1"),
        ("regexp_extract('Linear', '[0-9]+')", "NULL"),
        ("regexp_extract('ab', 'a(x)?')", "a"),
        ("unhex('0x1F')", "31"),
        ("unhex(' ff ')", "255"),
        ("unhex('7fffffffffffffff')", "9223372036854775807"),
        ("typeof(unhex('41', ''))", "blob"),
        ("unhex(NULL)", "NULL"),
        ("ln(1)", "0.0"),
        ("ln(0)", "NULL"),
        ("ln('1')", "0.0"),
        ("ln(-1)", "NULL"),
        ("ln('x')", "NULL"),
        ("exp(0)", "1.0"),
        ("sqrt(2.25)", "1.5"),
        ("sqrt('9')", "3.0"),
        ("sqrt(-1)", "NULL"),
        ("to_timecode(3723004005006)", "01:02:03 004 005 006"),
        ("to_timecode(0)", "00:00:00 000 000 000"),
        ("to_timecode(NULL)", "NULL"),
        ("'aten::add' GLOB 'aten*'", "1"),
    ] {
        assert_eq!(rows(&database, &format!("SELECT {expression}")).unwrap(), [want], "{expression}");
    }
    for (expression, why) in [
        ("'a' REGEXP '('", "unclosed group"),
        ("regexp_extract('a', '(a)(b)')", "more than one group"),
        ("unhex('xyz')", "not a hexadecimal number"),
        ("unhex('ffffffffffffffff')", "not a hexadecimal number"),
        ("unhex('')", "not a hexadecimal number"),
        ("to_timecode('x')", "a time is an integer"),
    ] {
        let error = rows(&database, &format!("SELECT {expression}")).unwrap_err().to_string();
        assert!(error.contains(why), "{expression}: {error}");
    }
}

/// begin_end_async.json, whose slices are in testdata/README.md: from 100 µs to 1,020 µs; slices 9 and 17 never end.
#[test]
fn functions_of_the_trace() {
    let database = testdata("begin_end_async.json");
    for (expression, want) in [
        ("trace_start()", "100000"),
        ("trace_end()", "1020000"),
        ("trace_dur()", "920000"),
        ("slice_is_ancestor(0, 1)", "1"),
        ("slice_is_ancestor(0, 2)", "1"),
        ("slice_is_ancestor(1, 0)", "0"),
        ("slice_is_ancestor(0, 0)", "0"),
        ("slice_is_ancestor(1, 3)", "0"),
        ("slice_is_ancestor(7, 8)", "1"),
        // Open slices, and one of another track that lies within it in time.
        ("slice_is_ancestor(17, 18)", "1"),
        ("slice_is_ancestor(9, 18)", "0"),
        ("slice_is_ancestor(0, 99)", "NULL"),
        ("slice_is_ancestor(-1, 0)", "NULL"),
        ("slice_is_ancestor(NULL, 0)", "NULL"),
    ] {
        assert_eq!(rows(&database, &format!("SELECT {expression}")).unwrap(), [want], "{expression}");
    }
}

/// The same trace: load (0) encloses read (1), which encloses tick (2), and parse (3). Flows: 10 → 11 → 12, 13 → 14, 15 → 16.
#[test]
fn tables_with_an_argument() {
    let database = testdata("begin_end_async.json");
    for (sql, want) in [
        ("SELECT id, name, depth, parent_id FROM ancestor_slice(2)", &["0|load|0|NULL", "1|read|1|0"][..]),
        ("SELECT id FROM ancestor_slice(0)", &[]),
        ("SELECT id, name FROM descendant_slice(0)", &["1|read", "2|tick", "3|parse"]),
        ("SELECT id FROM descendant_slice(17)", &["18"]),
        ("SELECT name FROM ancestor_slice(NULL)", &[]),
        ("SELECT id FROM following_flow(NULL)", &[]),
        ("SELECT * FROM directly_connected_flow(11)", &["0|10|11|0|NULL", "1|11|12|0|NULL"]),
        ("SELECT id, slice_out, slice_in FROM directly_connected_flow(12)", &["0|11|12", "1|10|11"]),
        ("SELECT id, slice_out, slice_in FROM following_flow(10)", &["0|10|11", "1|11|12"]),
        ("SELECT id FROM following_flow(12)", &[]),
        ("SELECT id, slice_out, slice_in FROM preceding_flow(12)", &["0|11|12", "1|10|11"]),
        ("SELECT s.id, a.name FROM slice s, ancestor_slice(s.id) a WHERE s.name = 'tick'", &["2|load", "2|read"]),
        ("SELECT a.id FROM ancestor_slice(2) a JOIN slice s ON s.id = a.id WHERE s.name = 'read'", &["1"]),
        ("SELECT count(*) FROM slice s LEFT JOIN descendant_slice(s.id) d WHERE s.id IN (0, 1, 2)", &["5"]),
        ("SELECT id FROM ancestor_slice WHERE start_id IN (2, 8) ORDER BY id", &["0", "1", "7"]),
        ("SELECT id FROM ancestor_slice((SELECT max(id) FROM slice WHERE name = 'tick')) WHERE depth = 1", &["1"]),
    ] {
        let got = rows(&database, sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
        // Whether these flows have args depends on how they are written; what counts here is where they lead.
        let got: Vec<String> = match sql.contains("SELECT * FROM directly") {
            true => got.iter().map(|row| format!("{}|NULL", row.rsplit_once('|').unwrap().0)).collect(),
            false => got,
        };
        assert_eq!(got, want, "{sql}");
    }
    for (sql, why) in [
        ("SELECT * FROM ancestor_slice(19)", "ancestor_slice: there is no slice with id 19"),
        ("SELECT * FROM preceding_flow(-1)", "preceding_flow: there is no slice with id -1"),
        ("SELECT * FROM descendant_slice('x')", "descendant_slice: a slice's id must be an integer"),
        ("SELECT * FROM following_flow(0.5)", "following_flow: a slice's id must be an integer"),
        (
            "SELECT * FROM ancestor_slice",
            "ancestor_slice: this function needs a slice's id as argument, as in ancestor_slice(5)",
        ),
        ("SELECT * FROM ancestor_slice(1, 2)", "too many arguments"),
        ("DELETE FROM ancestor_slice", "may not be modified"),
    ] {
        let error = rows(&database, sql).unwrap_err().to_string();
        assert!(error.contains(why), "{sql}: {error}");
    }
    let columns = |sql: &str| columns(&database, sql);
    let slice = "id ts dur track_id category name depth parent_id arg_set_id thread_ts thread_dur \
                 thread_instruction_count thread_instruction_delta";
    assert_eq!(columns("SELECT * FROM ancestor_slice(0)"), slice);
    assert_eq!(columns("SELECT * FROM descendant_slice(0)"), slice);
    for name in ["directly_connected_flow", "following_flow", "preceding_flow"] {
        assert_eq!(columns(&format!("SELECT * FROM {name}(0)")), "id slice_out slice_in trace_id arg_set_id", "{name}");
    }
}

/// The slices and flows of a trace as a real trace_processor shows them.
struct Oracle {
    /// By slice.
    parents: Vec<Option<u32>>,
    children: BTreeMap<u32, Vec<u32>>,
    /// By flow: the slice that it leaves, the slice where it arrives.
    flows: Vec<(u32, u32)>,
    /// The flows of each slice that they leave, and of each where they arrive, in order.
    leaving: BTreeMap<u32, Vec<usize>>,
    arriving: BTreeMap<u32, Vec<usize>>,
}

impl Oracle {
    fn read(shared: &Path, name: &str) -> Option<Oracle> {
        let text = |end: &str| {
            let file = shared.join("oracle").join(format!("{name}.{end}.csv.gz"));
            file.exists().then(|| crate::support::read_text(&file))
        };
        let number = |field: &Option<String>| field.as_ref().map(|n| n.parse::<u32>().unwrap());
        let parents: Vec<Option<u32>> = crate::support::csv_rows(&text("slice")?).map(|row| number(&row[6])).collect();
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (id, parent) in parents.iter().enumerate() {
            parent.iter().for_each(|parent| children.entry(*parent).or_default().push(id as u32));
        }
        let flow = |row: Vec<Option<String>>| (number(&row[1]).unwrap(), number(&row[2]).unwrap());
        let flows: Vec<(u32, u32)> =
            text("flow").map_or(Vec::new(), |csv| crate::support::csv_rows(&csv).map(flow).collect());
        let (mut leaving, mut arriving) = (BTreeMap::<u32, Vec<usize>>::new(), BTreeMap::<u32, Vec<usize>>::new());
        for (flow, (from, to)) in flows.iter().enumerate() {
            leaving.entry(*from).or_default().push(flow);
            arriving.entry(*to).or_default().push(flow);
        }
        Some(Oracle { parents, children, flows, leaving, arriving })
    }

    fn ancestors(&self, id: u32) -> Vec<u32> {
        match self.parents[id as usize] {
            None => Vec::new(),
            Some(parent) => [self.ancestors(parent), vec![parent]].concat(),
        }
    }

    fn descendants(&self, id: u32) -> Vec<u32> {
        let mut found: Vec<u32> = self.children.get(&id).cloned().unwrap_or_default();
        found.extend(found.clone().into_iter().flat_map(|child| self.descendants(child)).collect::<Vec<_>>());
        found.sort_unstable();
        found
    }

    /// The walks along flows, written literally from the rules. `forwards` and `backwards` say in which directions.
    fn flows(&self, start: u32, backwards: bool, forwards: bool, relatives: impl Fn(u32) -> Vec<u32>) -> Vec<usize> {
        let (mut seen, mut queue) = (HashSet::from([start]), VecDeque::from([(start, "start")]));
        let mut answer = Vec::new();
        while let Some((slice, how)) = queue.pop_front() {
            if how != "relative" {
                queue.extend(relatives(slice).into_iter().filter(|id| seen.insert(*id)).map(|id| (id, "relative")));
            }
            for flow in self.arriving.get(&slice).into_iter().flatten().filter(|_| backwards && how != "forwards") {
                answer.push(*flow);
                let (from, _) = self.flows[*flow];
                queue.extend(seen.insert(from).then_some((from, "backwards")));
            }
            for flow in self.leaving.get(&slice).into_iter().flatten().filter(|_| forwards && how != "backwards") {
                answer.push(*flow);
                let (_, to) = self.flows[*flow];
                queue.extend(seen.insert(to).then_some((to, "forwards")));
            }
        }
        answer
    }
}

/// What a table function returns for a slice: the ids, or for flows their ends.
fn compare(database: &Database, oracle: &Oracle, id: u32, counts: &mut BTreeMap<&str, usize>) {
    for (function, want) in [("ancestor_slice", oracle.ancestors(id)), ("descendant_slice", oracle.descendants(id))] {
        assert_eq!(ids(database, &format!("SELECT id FROM {function}({id})")), want, "{function}({id})");
        *counts.entry(function).or_default() += want.len();
    }
    // From a slice with very many descendants the walk above takes too long.
    let walkable = oracle.descendants(id).len() < 300;
    let mut walks = vec![
        ("directly_connected_flow", oracle.flows(id, true, true, |_| Vec::new())),
        ("preceding_flow", oracle.flows(id, true, false, |id| oracle.ancestors(id))),
    ];
    if walkable {
        walks.push(("following_flow", oracle.flows(id, false, true, |id| oracle.descendants(id))));
    }
    for (function, want) in walks {
        let ends = want.iter().map(|flow| oracle.flows[*flow]).enumerate();
        let want: Vec<String> = ends.map(|(row, (from, to))| format!("{row}|{from}|{to}")).collect();
        let got = rows(database, &format!("SELECT id, slice_out, slice_in FROM {function}({id})")).unwrap();
        assert_eq!(got, want, "{function}({id})");
        *counts.entry(function).or_default() += want.len();
    }
}

#[test]
fn walks_are_those_over_a_trace_processors_rows() {
    let Some(shared) = crate::support::shared() else { return };
    let (mut random, mut counts, mut compared) = (Random(9), BTreeMap::new(), 0);
    // So many slices of each trace, and of its flows.
    let each = if is_long() { 12 } else { 6 };
    for (name, path) in crate::support::real_traces(&shared) {
        let Some(oracle) = Oracle::read(&shared, &name) else { continue };
        let database = open(&path, TimeRule::Perfetto);
        for _ in 0..each {
            let id = random.below(oracle.parents.len()) as u32;
            compare(&database, &oracle, id, &mut counts);
            // Most slices enclose no others.
            let above = oracle.ancestors(id);
            above.get(random.below(above.len())).iter().for_each(|id| compare(&database, &oracle, **id, &mut counts));
        }
        for _ in 0..if oracle.flows.is_empty() { 0 } else { each } {
            let (from, to) = oracle.flows[random.below(oracle.flows.len())];
            compare(&database, &oracle, from, &mut counts);
            compare(&database, &oracle, to, &mut counts);
        }
        compared += 1;
    }
    println!("{compared} traces: {counts:?}");
    assert!(compared >= 26, "only {compared} traces");
    let least = [5_000, 1_000_000, 30_000, 30_000, 200];
    for ((function, rows), least) in counts.iter().zip(least) {
        assert!(*rows >= least * each / 12, "only {rows} rows of {function}");
    }
    assert_eq!(counts.len(), 5);
}

/// A table function in a join is called once per row of the other side. With 1,867 slices a scan per row would be millions of steps.
#[test]
fn joins_with_tables_that_have_an_argument_are_fast() {
    let database = testdata("sglang_decode.json.gz");
    for (sql, most) in [
        ("SELECT a.id FROM slice s, ancestor_slice(s.id) a", 300_000),
        ("SELECT a.id FROM ancestor_slice(s.id) a, slice s", 300_000),
        (
            "SELECT a.name FROM slice s JOIN ancestor_slice(s.id) a ON a.depth = 0 WHERE s.name = 'cudaGraphLaunch'",
            2_000,
        ),
        (
            "SELECT k.name FROM slice l, following_flow(l.id) f JOIN slice k ON k.id = f.slice_in \
          WHERE l.name = 'cudaGraphLaunch'",
            5_000,
        ),
    ] {
        let taken = steps(&database, sql);
        println!("{taken:>7} steps: {sql}");
        assert!(taken <= most, "{taken} steps, at most {most} wanted: {sql}");
    }
}

const VIEWS: &[(&str, &str)] = &[
    (
        "slices",
        "id ts dur track_id category name depth parent_id arg_set_id thread_ts thread_dur thread_instruction_count \
         thread_instruction_delta cat slice_id",
    ),
    ("instant", "ts track_id name arg_set_id"),
    (
        "thread_slice",
        "id ts dur category name track_id track_name thread_name utid tid is_main_thread process_name upid pid depth \
         parent_id arg_set_id thread_ts thread_dur",
    ),
    (
        "process_slice",
        "id ts dur category name track_id track_name process_name upid pid depth parent_id arg_set_id thread_ts \
         thread_dur",
    ),
    (
        "thread_or_process_slice",
        "id ts dur category name track_id track_name thread_name utid tid process_name upid pid depth parent_id \
         arg_set_id",
    ),
];

#[test]
fn views_have_perfettos_columns_and_rows() {
    let database = testdata("begin_end_async.json");
    for (view, want) in VIEWS {
        assert_eq!(columns(&database, &format!("SELECT * FROM {view}")), *want, "{view}");
    }
    for (sql, want) in [
        ("SELECT count(*) FROM slices", &["19"][..]),
        ("SELECT name FROM instant ORDER BY ts", &["tick", "whole_trace", "whole_process", "no_scope", "fetch"]),
        // 19 slices minus one instant of the whole trace, one of the process, and three on asynchronous tracks of the whole trace.
        ("SELECT count(*), min(tid), max(tid) FROM thread_slice", &["14|10|11"]),
        ("SELECT id, name, pid, track_name FROM process_slice", &["5|whole_process|10|NULL"]),
        ("SELECT count(*) FROM thread_or_process_slice", &["15"]),
        (
            "SELECT id, name, utid, tid, pid FROM thread_or_process_slice WHERE utid IS NULL",
            &["5|whole_process|NULL|NULL|10"],
        ),
        (
            "SELECT s.name, t.tid FROM slice s JOIN thread_or_process_slice t ON t.id = s.parent_id WHERE s.depth = 2",
            &["tick|10"],
        ),
    ] {
        assert_eq!(rows(&database, sql).unwrap(), want, "{sql}");
    }
}

/// A view costs no more than the join that it abbreviates, by SQLite's own count of steps.
#[test]
fn views_are_as_fast_as_their_joins() {
    let database = testdata("sglang_decode.json.gz");
    let join = "FROM slice s JOIN thread_track tt ON tt.id = s.track_id JOIN thread t USING (utid) \
                JOIN process p USING (upid)";
    for (view, written) in [
        (
            "SELECT thread_name, pid FROM thread_slice WHERE name = 'cudaGraphLaunch'",
            format!("SELECT t.name, p.pid {join} WHERE s.name = 'cudaGraphLaunch'"),
        ),
        (
            "SELECT thread_name, pid FROM thread_slice WHERE id = 1000",
            format!("SELECT t.name, p.pid {join} WHERE s.id = 1000"),
        ),
        ("SELECT id FROM thread_slice WHERE tid = 419664", format!("SELECT s.id {join} WHERE t.tid = 419664")),
        (
            "SELECT v.tid FROM slice k JOIN thread_slice v ON v.id = k.parent_id WHERE k.name = 'cudaGraphLaunch'",
            format!(
                "SELECT t.tid {} WHERE k.name = 'cudaGraphLaunch'",
                join.replace("FROM slice s", "FROM slice k JOIN slice s ON s.id = k.parent_id")
            ),
        ),
        (
            "SELECT pid FROM thread_or_process_slice WHERE name = 'cudaGraphLaunch'",
            format!("SELECT p.pid {join} WHERE s.name = 'cudaGraphLaunch'"),
        ),
        ("SELECT pid FROM thread_or_process_slice WHERE id = 1000", format!("SELECT p.pid {join} WHERE s.id = 1000")),
        (
            "SELECT v.pid FROM slice k JOIN thread_or_process_slice v ON v.id = k.parent_id WHERE k.name = 'cudaGraphLaunch'",
            format!(
                "SELECT p.pid {} WHERE k.name = 'cudaGraphLaunch'",
                join.replace("FROM slice s", "FROM slice k JOIN slice s ON s.id = k.parent_id")
            ),
        ),
        (
            "SELECT ts FROM slices WHERE name = 'cudaGraphLaunch'",
            "SELECT ts FROM slice WHERE name = 'cudaGraphLaunch'".to_owned(),
        ),
    ] {
        let (got, want) = (steps(&database, view), steps(&database, &written));
        println!("{got:>7} steps, {want:>7} by hand: {view}");
        assert!(got <= want * 2 && got <= 400, "{got} steps, {want} by hand: {view}");
        assert_eq!(rows(&database, view).unwrap(), rows(&database, &written).unwrap(), "{view}");
    }
}

#[test]
fn empty_tables_give_the_reason() {
    let parse = |text: &'static str| {
        let input = from_reader("test".to_owned(), None, Box::new(text.as_bytes())).unwrap();
        Database::open(load_input(input, LoadOptions::default(), |_| {}).unwrap().store).unwrap()
    };
    let plain = parse(r#"[{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1}]"#);
    let counting = parse(
        r#"[{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1},{"ph":"C","name":"c","pid":1,"ts":2,"args":{"bytes":1}}]"#,
    );
    for name in ["counter", "counter_track", "process_counter_track", "sched", "cpu", "thread_state"] {
        assert_eq!(rows(&counting, &format!("SELECT * FROM {name}")).unwrap(), Vec::<String>::new());
        assert_eq!(absent::why_empty(name, plain.store()), None, "{name}");
        let why = absent::why_empty(name, counting.store()).unwrap();
        assert!(why.starts_with(&format!("{name} is empty because such events are not read: 1 event")), "{why}");
    }
    assert!(absent::why_empty("_trace_import_logs", plain.store()).unwrap().contains("FROM stats"));
    assert_eq!(absent::why_empty("slice", counting.store()), None);
}
