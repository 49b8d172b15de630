//! The library as `examples/stacks.rs` uses it, against the answers of `testdata/README.md`.

use nccl_stacks::answers::cost::Order;
use nccl_stacks::answers::stacks::reduction::stack_report;
use nccl_stacks::attribution::Attributor;
use nccl_stacks::attribution::capture::Captured;
use nccl_stacks::attribution::launches;
use nccl_stacks::attribution::selection::choose;
use nccl_stacks::{Database, LoadOptions, StackOptions, Wanted, Window, load, stacks};

fn database() -> Database {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/sglang_decode.json.gz");
    Database::open(load(path, LoadOptions::default(), |_| {}).unwrap().store).unwrap()
}

#[test]
fn the_example_finds_what_is_in_the_trace() {
    let database = database();
    let how = StackOptions::default();
    let wanted = Wanted::collectives();

    let launches = launches::find(database.store(), &choose(database.store(), &wanted));
    let attributor = Attributor::new(database.store(), &wanted, Captured::default());
    let mut report = stack_report(attributor, &launches, Window::ALL, how.clone());
    assert_eq!((report.coverage.attributed(), report.coverage.kernels), (36, 36));
    // 16 replayed all-reduces and 2 all-gathers under one stack; the others are of attention, MLP and logits, in prefill and decode.
    let counts: Vec<(u64, &str)> =
        report.stacks.iter().map(|stack| (stack.count, stack.key.frames.last().unwrap().as_str())).collect();
    let call = "cudaLaunchKernelExC";
    assert_eq!(counts, [(18, "cudaGraphLaunch"), (4, call), (4, call), (4, call), (4, call), (1, call), (1, call)]);

    // The short way returns the same.
    let short = stacks(database.store(), &wanted, Window::ALL, how);
    assert_eq!(short.stacks, report.stacks);

    report.arrange(Order::Exposed, 0.0, Some(3));
    assert_eq!((report.stacks.len(), report.stacks_found), (3, 7));
    assert!(report.stacks.is_sorted_by(|a, b| a.cost.exposed_ns >= b.cost.exposed_ns));

    let sql = "SELECT thread.name, count(*) FROM slice
               JOIN thread_track ON slice.track_id = thread_track.id JOIN thread USING (utid)
               WHERE slice.category = 'kernel' AND slice.name GLOB 'nccl*' GROUP BY utid ORDER BY 2 DESC, 1";
    let mut statement = database.connection().prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?.trim().to_owned(), row.get::<_, i64>(1)?)));
    let rows: Vec<(String, i64)> = rows.unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(rows, [("stream 20".to_owned(), 18), ("stream 7".to_owned(), 18)]);
}

#[test]
fn kernels_are_chosen_by_patterns() {
    let database = database();
    let kernels =
        |wanted: &Wanted| stacks(database.store(), wanted, Window::ALL, StackOptions::default()).coverage.kernels;
    assert_eq!(kernels(&Wanted::patterns(&["ncclDevKernel_AllReduce"]).unwrap()), 32);
    assert_eq!(kernels(&Wanted::patterns(&["*AllGather*", "/AllReduce/"]).unwrap()), 36);
    assert_eq!(kernels(&Wanted::patterns(&[]).unwrap()), 36);
    assert_eq!(kernels(&Wanted::default()), 0);
    assert!(Wanted::patterns(&["/(/"]).unwrap_err().to_string().contains("not a regular expression"));
}
