//! What stacks cost, against independent computations: sums in SQL, and exposed time by going through all compute
//! kernels for each collective. On real traces, and on random kernels.

use crate::support::events::tied;

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::program::{json_of, trace_of};
use crate::support::random::Random;
use nccl_stacks::answers::stacks::data::{StackOptions, StackReport};
use nccl_stacks::answers::stacks::reduction::stacks;
use nccl_stacks::attribution::launches::WindowOn;
use nccl_stacks::attribution::selection::{OwnFamilies, Wanted};
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::load::{LoadOptions, load};
use nccl_stacks::sql::Database;
use nccl_stacks::time::{Ns, Window};
use serde_json::Value;

const TRACES: [&str; 5] = [
    "lora-dev-script__sglang_tp4_A_mixed_rank0",
    "lora-dev-script__sglang_tp4_A_mixed_rank1",
    "lora-dev-script__sglang_tp4_A_mixed_rank2",
    "lora-dev-script__sglang_tp4_A_mixed_rank3",
    "TraceLens__mi300_ddp_resnet_rank0",
];

fn json(args: &[&str]) -> Value {
    json_of(&[args, &["--format", "json"]].concat())
}

/// A sum over the stacks of an answer.
fn sum(answer: &Value, pointer: &str) -> i64 {
    answer["stacks"].as_array().unwrap().iter().map(|stack| stack.pointer(pointer).unwrap().as_i64().unwrap()).sum()
}

/// NCCL's kernels, how many have a call with their correlation id, and how long they ran.
const BY_SQL: &str = "
    WITH calls AS (
        SELECT DISTINCT EXTRACT_ARG(arg_set_id, 'args.correlation') AS id FROM slice
        WHERE category IN ('cuda_runtime', 'cuda_driver')
    ), kernels AS (
        SELECT dur, EXTRACT_ARG(arg_set_id, 'args.correlation') IN (SELECT id FROM calls) AS has_launch FROM slice
        WHERE category = 'kernel' AND name LIKE 'nccl%'
    )
    SELECT has_launch, count(*) AS kernels, sum(dur) AS ns FROM kernels GROUP BY 1 ORDER BY 1 DESC";

#[test]
fn stacks_have_the_gpu_time_that_sql_finds() {
    let Some(shared) = crate::support::shared() else { return };
    let mut without = 0;
    for name in TRACES {
        let path = shared.join(format!("traces/{name}.json.gz"));
        let path = path.to_str().unwrap();
        let rows = json(&["sql", path, BY_SQL]);
        let of = |has_launch: i64, column: &str| {
            let row = rows.as_array().unwrap().iter().find(|row| row["has_launch"] == has_launch);
            row.map_or(0, |row| row[column].as_i64().unwrap())
        };
        let kernels =
            crate::support::program::rows(path, "kernels", &["--param", "family=nccl", "--window-on", "kernel"]);
        let time: i64 = kernels.iter().map(|row| row["Total Time (ns)"].as_i64().unwrap()).sum();
        assert_eq!(time, of(1, "ns") + of(0, "ns"), "{name}: those without a launch included");
        for depth in ["12", "2", "0"] {
            let answer = json(&[path, "--stack-depth", depth]);
            assert_eq!(sum(&answer, "/count"), of(1, "kernels"), "{name}");
            assert_eq!(sum(&answer, "/cost/gpu_time/total_ns"), of(1, "ns"), "{name}");
            for stack in answer["stacks"].as_array().unwrap() {
                let ns = |pointer| stack.pointer(pointer).unwrap().as_i64().unwrap();
                assert_eq!(ns("/cost/exposed_ns") + ns("/cost/overlapped_ns"), ns("/cost/gpu_time/total_ns"), "{name}");
                assert!(ns("/cost/exposed_ns") >= 0 && ns("/cost/overlapped_ns") >= 0, "{name}");
                for (field, all) in [
                    ("count", "/count"),
                    ("gpu_time_ns", "/cost/gpu_time/total_ns"),
                    ("exposed_ns", "/cost/exposed_ns"),
                ] {
                    let by_name = stack["kernels_by_name"].as_object().unwrap().values();
                    assert_eq!(by_name.map(|n| n[field].as_i64().unwrap()).sum::<i64>(), ns(all), "{name}");
                }
            }
            let missed = answer["coverage"]["without_launch"].as_object().unwrap().values();
            let of_missed = |field: &str| missed.clone().map(|missed| missed[field].as_i64().unwrap()).sum::<i64>();
            assert_eq!(of_missed("gpu_time_ns"), of(0, "ns"), "{name}");
            let missed = of_missed("count");
            assert_eq!(missed, of(0, "kernels"), "{name}");
            without += missed;
        }
    }
    assert_eq!(without, 3 * 5, "the first five all-reduces of mi300_ddp_resnet, at each depth");
}

/// A kernel as the table `slice` has it.
struct Kernel {
    start: i64,
    end: i64,
    name: String,
    /// The process that represents its GPU, and the thread that represents its stream.
    gpu: i64,
    stream: i64,
    is_nccl: bool,
}

fn kernels(database: &Database) -> Vec<Kernel> {
    let query = "
        SELECT s.ts, s.ts + s.dur, s.name, t.upid, s.name LIKE 'nccl%', utid
        FROM slice s JOIN thread_track tt ON s.track_id = tt.id JOIN thread t USING (utid) WHERE s.category = 'kernel'";
    let row = |row: &rusqlite::Row<'_>| {
        let (start, end) = (row.get(0)?, row.get(1)?);
        Ok(Kernel { start, end, name: row.get(2)?, gpu: row.get(3)?, stream: row.get(5)?, is_nccl: row.get(4)? })
    };
    let mut statement = database.connection().prepare(query).unwrap();
    let kernels: Vec<Kernel> = statement.query_map([], row).unwrap().map(Result::unwrap).collect();
    assert_eq!(kernels.len(), database.store().kernels.len(), "each is on a thread's track");
    kernels
}

/// The parts of a span that other spans cover, in order, each from the end of the one before.
fn parts(spans: impl Iterator<Item = (i64, i64)>, start: i64, end: i64) -> Vec<(i64, i64)> {
    let mut inside: Vec<(i64, i64)> =
        spans.filter(|span| span.0 < end && span.1 > start).map(|(from, to)| (from.max(start), to.min(end))).collect();
    inside.sort_unstable();
    let (mut parts, mut at) = (Vec::new(), start);
    for (from, to) in inside {
        if to > at {
            parts.push((from.max(at), to));
            at = to;
        }
    }
    parts
}

/// How many ns of a span other spans cover.
fn covered(spans: impl Iterator<Item = (i64, i64)>, start: i64, end: i64) -> i64 {
    parts(spans, start, end).into_iter().map(|(from, to)| to - from).sum()
}

fn span(kernel: &Kernel) -> (i64, i64) {
    (kernel.start, kernel.end)
}

/// The parts of a collective that no compute kernel of its GPU covers, on another stream than its own.
fn exposed_parts(kernel: &Kernel, all: &[Kernel]) -> Vec<(i64, i64)> {
    let hides = |other: &&Kernel| !other.is_nccl && other.gpu == kernel.gpu && other.stream != kernel.stream;
    let covered = parts(all.iter().filter(hides).map(span), kernel.start, kernel.end);
    let starts = std::iter::once(kernel.start).chain(covered.iter().map(|part| part.1));
    let ends = covered.iter().map(|part| part.0).chain([kernel.end]);
    starts.zip(ends).filter(|(from, to)| from < to).collect()
}

/// How many ns these are.
fn exposed(kernel: &Kernel, all: &[Kernel]) -> i64 {
    exposed_parts(kernel, all).into_iter().map(|(from, to)| to - from).sum()
}

/// The stacks of the kernels with these names that start in a window.
fn ask(database: &Database, patterns: &[String], window: Window) -> StackReport {
    let wanted = Wanted::parse(patterns, &[], &OwnFamilies::default()).unwrap();
    let how = StackOptions { window_on: WindowOn::Kernel, ..StackOptions::default() };
    stacks(database.store(), &wanted, window, how)
}

fn open(path: &Path) -> Database {
    let options = LoadOptions { args: ArgsWanted::COLLECTIVES, ..LoadOptions::default() };
    Database::open(load(path, options, |_| {}).unwrap().store).unwrap()
}

/// Asks for each name of a collective, and in each part of the trace, and compares what the stacks report with the naive sum. `has_launch`
/// says which kernels can have stacks at all. Returns how many questions had kernels.
fn compare(database: &Database, parts: i64, has_launch: impl Fn(&Kernel) -> bool) -> usize {
    let all = kernels(database);
    let Window { start: Ns(start), end: Ns(end) } = database.store().bounds;
    let chosen: Vec<(&Kernel, i64)> =
        all.iter().filter(|k| k.is_nccl && has_launch(k)).map(|kernel| (kernel, exposed(kernel, &all))).collect();
    let names: BTreeSet<&str> = chosen.iter().map(|(kernel, _)| kernel.name.as_str()).collect();
    let mut questions: Vec<(Option<&str>, Window)> = names.into_iter().map(|name| (Some(name), Window::ALL)).collect();
    let edge = |part: i64| start + (end - start) * part / parts;
    questions.extend((0..parts).map(|part| (None, Window { start: Ns(edge(part)), end: Ns(edge(part + 1)) })));
    questions.push((None, Window::ALL));
    let mut compared = 0;
    for (name, window) in questions {
        let patterns: Vec<String> = name.iter().map(|name| (*name).to_owned()).collect();
        let report = ask(database, &patterns, window);
        let of = |kernel: &Kernel| {
            name.is_none_or(|name| kernel.name.starts_with(name)) && window.contains(Ns(kernel.start))
        };
        let mine: Vec<&(&Kernel, i64)> = chosen.iter().filter(|(kernel, _)| of(kernel)).collect();
        let total = |ns: fn(&(&Kernel, i64)) -> i64| Ns(mine.iter().map(|pair| ns(pair)).sum());
        let costs = || report.stacks.iter().map(|stack| &stack.cost);
        assert_eq!(report.coverage.attributed(), mine.len() as u64, "{name:?} {window:?}");
        assert_eq!(costs().map(|cost| cost.gpu_time.total_ns).sum::<Ns>(), total(|(k, _)| k.end - k.start), "{name:?}");
        assert_eq!(costs().map(|cost| cost.exposed_ns).sum::<Ns>(), total(|(_, ns)| *ns), "{name:?} {window:?}");
        compared += usize::from(!mine.is_empty());
        let gpus: BTreeSet<i64> = all.iter().map(|kernel| kernel.gpu).collect();
        let (mut busy, mut compute, mut nccl, mut bare) = (0, 0, 0, 0);
        let (from, to) = if window == Window::ALL { (start, end) } else { (window.start.0, window.end.0) };
        for gpu in gpus {
            let of = |is: fn(&Kernel) -> bool| all.iter().filter(move |k| k.gpu == gpu && is(k));
            let ns = |is: fn(&Kernel) -> bool| covered(of(is).map(span), from, to);
            (busy, compute, nccl) = (busy + ns(|_| true), compute + ns(|k| !k.is_nccl), nccl + ns(|k| k.is_nccl));
            bare += covered(of(|k| k.is_nccl).flat_map(|kernel| exposed_parts(kernel, &all)), from, to);
        }
        let summary = &report.summary;
        let found = [summary.busy_ns, summary.compute_ns, summary.collectives_ns, summary.exposed_ns];
        assert_eq!(found, [busy, compute, nccl, bare].map(Ns), "{window:?}");
    }
    compared
}

#[test]
fn exposed_time_is_what_a_naive_program_finds() {
    let Some(shared) = crate::support::shared() else { return };
    for name in TRACES {
        let database = open(&shared.join(format!("traces/{name}.json.gz")));
        // The five that were launched before the recording began are the first of all.
        let first = if name.contains("mi300") { 5 } else { 0 };
        let mut starts: Vec<i64> = kernels(&database).iter().filter(|k| k.is_nccl).map(|k| k.start).collect();
        starts.sort_unstable();
        assert!(compare(&database, 7, |kernel| kernel.start >= starts[first]) >= 4, "{name}");
    }
}

#[test]
fn exposed_time_of_kernels_at_random() {
    let mut random = Random(42);
    let mut compared = 0;
    for _ in 0..60 {
        let names = ["ncclDevKernel_AllReduce", "ncclDevKernel_AllGather", "gemm", "norm"];
        let mut events = Vec::new();
        for id in 1..=1 + random.below(40) {
            let (gpu, stream, start) = (random.below(2), 7 + random.below(3), 100 + random.below(300));
            let (name, dur) = (names[random.below(4)], random.below(40));
            events.push(tied("cuda_runtime", "launch", (9, 9), id, 1, id));
            events.push(format!(
                r#""ph":"X","name":"{name}","cat":"kernel","pid":{gpu},"tid":{stream},"ts":{start}.{dur},"dur":{dur}.5,"args":{{"correlation":{id}}}"#
            ));
        }
        let (_folder, path) = trace_of(&events);
        compared += compare(&open(path.as_ref()), 3, |_| true);
    }
    assert!(compared > 200, "{compared}");
}
