//! The tables of attribution equal the program's answers on every trace, and what was worked out by hand on small ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nccl_stacks::answers::stacks::reduction::stack_report;
use nccl_stacks::attribution::Attributor;
use nccl_stacks::attribution::capture::{Captured, Captures};
use nccl_stacks::attribution::launches;
use nccl_stacks::attribution::selection::choose;
use nccl_stacks::sql::queries;
use nccl_stacks::sql::rusqlite::Row;
use nccl_stacks::{Database, LoadOptions, StackOptions, StackReport, Wanted, Window, load};

use crate::support::program::{has, run, stderr};
use crate::support::shared;

/// The stack key, as one text for each part: capture, forward pass, thread, frames.
type Key = (Option<String>, Option<String>, Option<String>, Option<String>);

/// Count, GPU time in ns, exposed time in ns.
type Costs = (u64, i64, i64);

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn captures(path: Option<&Path>) -> Option<Captures> {
    let mut captures = Captures::new(false);
    captures.add(&load(path?, LoadOptions::default(), |_| {}).unwrap().store);
    Some(captures)
}

fn database(trace: &Path, capture: Option<&Path>) -> Option<Database> {
    // Some traces are broken on purpose.
    let loaded = load(trace, LoadOptions::default(), |_| {}).ok()?;
    Some(Database::open_with(loaded.store, captures(capture)).unwrap())
}

/// The program's stacks with all callers: NCCL's and RCCL's kernels of the whole trace.
fn answered(database: &Database, capture: Option<&Path>) -> StackReport {
    let (store, wanted) = (database.store(), Wanted::collectives());
    let mut launches = launches::find(store, &choose(store, &wanted));
    let captured = captures(capture).map_or_else(Captured::default, |known| known.stacks(store, &mut launches));
    stack_report(Attributor::new(store, &wanted, captured), &launches, Window::ALL, StackOptions::default())
}

fn in_sql(database: &Database) -> BTreeMap<Key, Costs> {
    let row = |row: &Row<'_>| {
        let key: Key = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        Ok((key, (row.get(4)?, row.get(5)?, row.get(6)?)))
    };
    database.rows(queries::STACKS, [], row).unwrap().into_iter().collect()
}

fn by_program(report: &StackReport) -> BTreeMap<Key, Costs> {
    let joined = |frames: &[String]| (!frames.is_empty()).then(|| frames.join(" -> "));
    let rows = report.stacks.iter().map(|stack| {
        let part = |part: &Option<nccl_stacks::attribution::call_tree::CallPath>| {
            part.as_ref().and_then(|path| joined(&path.frames))
        };
        let key =
            (part(&stack.key.captured), part(&stack.key.forward), stack.key.thread.clone(), joined(&stack.key.frames));
        (key, (stack.count, stack.cost.gpu_time.total_ns.0, stack.cost.exposed_ns.0))
    });
    rows.collect()
}

fn traces_in(folder: &Path) -> Vec<PathBuf> {
    let mut traces: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let is_trace = |path: &Path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        !name.ends_with(".report.json") && [".json", ".json.gz", ".pftrace"].iter().any(|end| name.ends_with(end))
    };
    traces.retain(|path| path.is_file() && is_trace(path));
    traces.sort();
    traces
}

#[test]
fn the_main_answer_in_sql_is_the_programs() {
    let mut traces = traces_in(&in_repository("testdata"));
    traces.extend(traces_in(&in_repository("testdata/broken")));
    if let Some(shared) = shared() {
        traces.extend(crate::support::real_traces(&shared).into_iter().map(|(_, path)| path));
    }
    let (mut compared, mut stacks) = (0, 0);
    for trace in traces {
        let Some(database) = database(&trace, None) else { continue };
        let report = answered(&database, None);
        assert_eq!(in_sql(&database), by_program(&report), "{}", trace.display());
        compared += 1;
        stacks += report.stacks.len();
    }
    assert!(compared > 40 && stacks > 30, "{compared} traces, {stacks} stacks");
}

/// Two all-reduces and an all-gather have the stack of their capture; the all-gather has no launch besides (`testdata/README.md`).
#[test]
fn captures_are_in_the_tables() {
    let (trace, capture) =
        (in_repository("testdata/replay/trace.json"), in_repository("testdata/replay/capture_traces/capture.json"));
    let database = database(&trace, Some(&capture)).unwrap();
    let found = in_sql(&database);
    assert_eq!(found, by_program(&answered(&database, Some(&capture))));
    let sql = "SELECT count(*), count(capture_path_id), count(path_id) FROM kernel_launch WHERE family = 'nccl'";
    let counts = database.connection().query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    assert_eq!(counts.unwrap(), (5, 3, 4));
}

/// The table of kernels of `costs.json` in `testdata/README.md`, which was worked out by hand: start and length in µs, the collective,
/// its size in bytes, exposed time and queue delay in µs.
#[test]
fn kernels_and_operations_are_those_worked_out_by_hand() {
    let database = database(&in_repository("testdata/costs.json"), None).unwrap();
    let sql = "SELECT c.ts / 1000, c.dur / 1000, c.collective, c.bytes, k.exposed_ns / 1000, k.queue_delay_ns / 1000 \
               FROM collective c JOIN kernel_launch k ON k.collective_id = c.id WHERE k.family = 'nccl' ORDER BY c.ts";
    let mut statement = database.connection().prepare(sql).unwrap();
    type Kernel = (i64, i64, String, Option<i64>, i64, Option<i64>);
    let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?));
    let found: Vec<Kernel> = statement.query_map([], row).unwrap().map(Result::unwrap).collect();
    const MB: i64 = 1_000_000;
    let want = [
        (10, 10, "all_reduce", None, 10, None),
        (100, 100, "all_reduce", Some(10 * MB), 100, Some(20)),
        (250, 100, "all_reduce", Some(20 * MB), 0, Some(20)),
        (500, 200, "all_reduce", Some(20 * MB), 100, Some(20)),
        (1050, 100, "all_reduce", Some(10 * MB), 0, Some(0)),
        (1300, 100, "all_gather", Some(16 * MB), 100, Some(10)),
        (1500, 60, "all_gather", Some(16 * MB), 60, Some(10)),
        (1600, 80, "reduce_scatter", Some(32 * MB), 60, Some(30)),
        (1720, 20, "all_reduce", None, 20, None),
        (1750, 10, "all_reduce", None, 0, None),
        (1800, 40, "send", Some(8 * MB), 40, Some(5)),
        (1850, 10, "send", None, 10, Some(5)),
        (1900, 30, "alltoall", Some(10 * MB), 30, Some(5)),
    ];
    let want = want
        .map(|(ts, dur, collective, bytes, exposed, delay)| (ts, dur, collective.to_owned(), bytes, exposed, delay));
    assert_eq!(found, want);
    let reasons = "SELECT ts / 1000, unattributed, evidence FROM kernel_launch JOIN slice ON slice.id = kernel_id WHERE launch_id IS NULL";
    let reasons = database.connection().query_row(reasons, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let reasons: (i64, String, Option<String>) = reasons.unwrap();
    assert_eq!(reasons, (10, "before-trace".to_owned(), None));
}

/// 18 of the 36 NCCL kernels of `sglang_decode` are eager and carry arguments (`testdata/README.md`).
#[test]
fn operations_have_their_rank_and_group() {
    let database = database(&in_repository("testdata/sglang_decode.json.gz"), None).unwrap();
    let sql = "SELECT communicator, COUNT(*), COUNT(bytes), COUNT(seq), MIN(rank), MAX(rank) FROM collective GROUP BY 1 ORDER BY 1";
    let mut statement = database.connection().prepare(sql).unwrap();
    let row = |row: &Row<'_>| {
        Ok((row.get::<_, Option<String>>(0)?, (1..6).map(|i| row.get(i)).collect::<Result<Vec<i64>, _>>()?))
    };
    let found: Vec<_> = statement.query_map([], row).unwrap().map(Result::unwrap).collect();
    let want = [(None, vec![18, 0, 0, 0, 0]), (Some("tp [0,1,2,3]".to_owned()), vec![18, 18, 18, 0, 0])];
    assert_eq!(found, want);
}

/// Three of four forward passes are replays of a graph, for which nothing was recorded.
#[test]
fn operations_of_a_rank_of_a_server() {
    let Some(shared) = shared() else { return };
    for rank in 0..4 {
        let trace = shared.join(format!("traces/lora-dev-script__sglang_tp4_A_mixed_rank{rank}.json.gz"));
        let database = database(&trace, None).unwrap();
        let sql = "SELECT count(*), count(bytes), count(communicator), count(DISTINCT communicator), min(rank), max(rank), \
                   count(DISTINCT path_id) > 3, count(launch_id) FROM collective";
        let row = |row: &Row<'_>| (0..8).map(|i| row.get(i)).collect::<Result<Vec<i64>, _>>();
        assert_eq!(database.connection().query_row(sql, [], row).unwrap(), [392, 98, 98, 1, rank, rank, 1, 392]);
        let group = "SELECT DISTINCT communicator FROM collective WHERE bytes IS NOT NULL";
        let group: String = database.connection().query_row(group, [], |row| row.get(0)).unwrap();
        assert_eq!(group, "undefined [0,1,2,3]");
    }
}

/// `nccl-stacks sql` reads the captures beside the trace, as the main job does, but only for statements that name their tables.
#[test]
fn the_command_reads_captures() {
    let query = in_repository("queries/stacks.sql");
    let output = run(&["sql", "testdata/replay/trace.json", "--file", query.to_str().unwrap()]);
    let (answer, notes) = (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output));
    has(&notes, "Capture loaded: testdata/replay/capture_traces/capture.json, 4 graphs");
    for stack in ["model.py(5): mlp -> ", "model.py(9): attention -> ", "embed.py(3): gather -> "] {
        has(&answer, stack);
    }
    let output = run(&["sql", "testdata/replay/trace.json", "SELECT count(*) FROM slice"]);
    assert!(!stderr(&output).contains("Capture"), "{}", stderr(&output));
}
