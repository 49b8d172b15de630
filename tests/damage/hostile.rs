//! Hostile traces: numbers at the limits of what fits, and structures for which a search through all events
//! would take the square of the time.
//!
//! Debug builds check every addition, so a number that is too large shows here, and count how often slices are looked at: four times as
//! many events must not take sixteen times as many looks.

use crate::support::random::{is_long, rounds};

use std::fmt::Write;
use std::io::Cursor;
use std::num::NonZero;

use crate::support::facts::facts;
use crate::support::hostile;
use crate::support::program::{has, run, scratch, stderr_of};
use crate::support::queries::ask_queries;
use crate::support::sound::check;
use nccl_stacks::answers::OnPage;
use nccl_stacks::answers::cost::Order;
use nccl_stacks::answers::diff::Diff;
use nccl_stacks::answers::diff::delta::Per;
use nccl_stacks::answers::diff::document::DiffAnswer;
use nccl_stacks::answers::stacks::data::{StackOptions, StackReport};
use nccl_stacks::answers::stacks::document::{StacksAnswer, Weight};
use nccl_stacks::answers::stacks::keep::keep;
use nccl_stacks::answers::stacks::reduction::{Attributed, StackReduction};
use nccl_stacks::answers::stacks::timeline::Timeline;
use nccl_stacks::answers::window::lists;
use nccl_stacks::attribution::Attributor;
use nccl_stacks::attribution::capture::{Captured, Captures};
use nccl_stacks::attribution::launches::{self, WindowOn};
use nccl_stacks::attribution::selection::{Wanted, choose};
use nccl_stacks::document::{Answer, Form, Screen};
use nccl_stacks::error::Error;
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::export::{cut, sqlite};
use nccl_stacks::input::from_reader;
use nccl_stacks::input::limit::Limits;
use nccl_stacks::load::{LoadOptions, load_input};
use nccl_stacks::run::{missing, slices};
use nccl_stacks::sql::{Database, TABLES};
use nccl_stacks::store::Store;
use nccl_stacks::store::slices::Slices;
use nccl_stacks::time::{Ns, TimeRule, Window};
use proptest::prelude::*;

fn load(text: &str, options: LoadOptions) -> Result<Store, Error> {
    let input = from_reader("hostile".to_owned(), None, Box::new(Cursor::new(text.as_bytes().to_vec())))?;
    load_input(input, options, |_| {}).map(|loaded| loaded.store)
}

fn everything() -> LoadOptions {
    LoadOptions { args: ArgsWanted::All, keep_offsets: true, threads: NonZero::new(1), ..LoadOptions::default() }
}

fn part(database: &Database, wanted: &Wanted, window: Window, how: &StackOptions) -> StackReduction {
    let store = database.store();
    let mut found = launches::find(store, &choose(database.store(), wanted));
    let mut captures = Captures::new(how.exact_names);
    captures.add(store);
    let captured = captures.stacks(store, &mut found);
    StackReduction::reduce(&Attributed::new("hostile", Attributor::new(store, wanted, captured), &found, window, how))
}

fn screen(width: usize) -> Screen {
    Screen { width: Some(width), depth: Some(6), ..Screen::default() }
}

/// A picture needs something to draw; all other forms can be empty.
fn write(answer: &StacksAnswer<'_>, form: Form) {
    if let Err(error) = answer.write(form, &screen(80), &mut Vec::new()) {
        assert!(form == Form::Svg && error.to_string().contains("nothing to draw"), "{error}");
    }
}

/// All that the program can be asked of a window.
fn ask_window(text: &str, database: &Database, wanted: &Wanted, window: Window) {
    let store = database.store();
    let found = launches::find(store, &choose(database.store(), wanted));
    for on in [WindowOn::Launch, WindowOn::Kernel] {
        let how = StackOptions {
            window_on: on,
            exact_names: on == WindowOn::Kernel,
            counts_steps: true,
            ..StackOptions::default()
        };
        let of_window = part(database, wanted, window, &how);
        missing::explain(database, window, &of_window).unwrap();
        // The same trace twice, as two ranks would be.
        let parts = vec![of_window, part(database, wanted, window, &how)];
        let mut stacks = StackReport::merge(parts, &how);
        for order in [Order::GpuTime, Order::Exposed, Order::Mean, Order::Count] {
            stacks.arrange(order, 0.0, None);
        }
        for weight in [Weight::Gpu, Weight::Exposed, Weight::Count] {
            let answer = StacksAnswer { weight, ..StacksAnswer::new(&stacks, "hostile") };
            for form in [
                Form::Text,
                Form::Table,
                Form::Script,
                Form::Json,
                Form::Csv,
                Form::Folded,
                Form::Speedscope,
                Form::Svg,
            ] {
                write(&answer, form);
            }
        }
        let attributor = Attributor::new(store, wanted, Captured::default());
        let timeline = Timeline::new(&Attributed::new("hostile", attributor, &found, window, &how), 20);
        let on_page = OnPage::default().timelines(vec![timeline]);
        write(&StacksAnswer { on_page, ..StacksAnswer::new(&stacks, "hostile") }, Form::Html);
        ask_queries(database, window, on);
        let kept = keep(store, &found, window, on);
        let plan = cut::plan(store, &kept, window, TimeRule::Exact);
        let input = from_reader("hostile".to_owned(), None, Box::new(Cursor::new(text.as_bytes().to_vec()))).unwrap();
        let mut copy = Vec::new();
        let failed = |source| Error::Write { path: "copy".into(), source };
        cut::write(input, &plan, &mut copy, false, failed).unwrap();
        if let Ok(store) = load(&String::from_utf8_lossy(&copy), everything()) {
            check(&store);
        }
        let whole = StackReport::merge(vec![part(database, wanted, Window::ALL, &how)], &how);
        let mut diff = Diff::new(("all", whole), ("part", stacks), Per::Step);
        for order in [Order::Count, Order::GpuTime, Order::Exposed, Order::Mean] {
            diff.arrange(order, None);
        }
        for form in DiffAnswer::forms() {
            DiffAnswer { diff: &diff, on_page: OnPage::default() }.write(form, &screen(100), &mut Vec::new()).unwrap();
        }
    }
}

/// All that the program can be asked of a trace.
fn ask(text: &str, store: Store) {
    check(&store);
    let database = Database::open(store).unwrap();
    let bounds = database.store().bounds;
    let windows = [
        Window::ALL,
        Window::new(bounds.start, bounds.duration()),
        Window::new(Ns::ZERO, Ns::ZERO),
        Window::new(Ns::MIN, Ns::MAX),
        Window::new(Ns::MAX, Ns::MAX),
        Window::new(bounds.start, Ns(1)),
        Window::new(bounds.end, Ns(1)),
    ];
    for wanted in [Wanted::collectives(), Wanted::patterns(&["*"]).unwrap()] {
        for window in windows {
            ask_window(text, &database, &wanted, window);
        }
        let found = launches::find(database.store(), &choose(database.store(), &wanted));
        for on in [WindowOn::Launch, WindowOn::Kernel] {
            let mut all = slices::steps(&database, &found, on).unwrap();
            all.extend(slices::functions(&database, "%", &found, on).unwrap());
            lists::candidates(&all, usize::MAX);
        }
        slices::nearest_names(&database, "a", 3).unwrap();
    }
    for table in TABLES {
        let all = format!("SELECT * FROM \"{}\" ORDER BY 1 DESC", table.name());
        let mut statement = database.connection().prepare(&all).unwrap();
        let mut rows = statement.query([]).unwrap();
        while rows.next().unwrap().is_some() {}
    }
    for query in [
        "SELECT count(f.id) FROM slice s, following_flow(s.id) f",
        "SELECT count(f.id) FROM slice s, preceding_flow(s.id) f",
        "SELECT count(f.id) FROM slice s, directly_connected_flow(s.id) f",
        "SELECT count(a.id) FROM slice s, ancestor_slice(s.id) a",
        "SELECT count(d.id) FROM slice s, descendant_slice(s.id) d",
        "SELECT count(*) FROM slice WHERE ts >= 9223372036854775807 OR ts < -9223372036854775807 OR dur > 9.1e18",
        "SELECT count(*) FROM slice a JOIN slice b ON a.parent_id = b.id AND a.ts + 0 >= b.ts",
    ] {
        database.connection().query_row(query, [], |row| row.get::<_, i64>(0)).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    sqlite::write(&database, &folder.path().join("all.db")).unwrap();
}

/// Numbers at the limits of something.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "5",
    "5.001",
    "-0",
    "-1",
    "-0.0004",
    "0.0001",
    "1e-400",
    "1e308",
    "-1e308",
    "1e400",
    "4294967295",
    "4294967296",
    "2147483648",
    "-2147483649",
    "9007199254740993",
    "9223372036854775.807",
    "9223372036854775.806",
    "9223372036854774",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "4611686018427387.904",
    "1e15",
    "9.223372036854775e15",
    "0x10",
    "\"7\"",
    "\"0xffffffffffffffff\"",
    "\"\"",
    "null",
    "true",
    "[1]",
    "{\"a\":1}",
];

fn number() -> impl Strategy<Value = String> {
    let long = (1usize..300, any::<bool>()).prop_map(|(digits, fraction)| {
        let digits = "1234567890".repeat(digits);
        if fraction { format!("3.{digits}") } else { digits }
    });
    prop_oneof![
        6 => prop::sample::select(NUMBERS).prop_map(str::to_owned),
        30 => (0i64..40).prop_map(|n| n.to_string()),
        1 => long,
    ]
}

/// The same for values that several events should share.
fn few() -> impl Strategy<Value = String> {
    prop_oneof![1 => number(), 12 => (1i64..3).prop_map(|n| n.to_string())]
}

fn event() -> impl Strategy<Value = String> {
    let phase = prop::sample::select(&["X", "X", "X", "X", "B", "E", "i", "b", "e", "n", "s", "t", "f", "M", "C"][..]);
    let category = prop::sample::select(
        &[
            "kernel",
            "kernel",
            "cuda_runtime",
            "cpu_op",
            "python_function",
            "gpu_memcpy",
            "user_annotation",
            "fwdbwd",
            "ac2g",
            "",
        ][..],
    );
    let name = prop::sample::select(
        &[
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            "cudaLaunchKernel",
            "cudaGraphLaunch",
            "cudaStreamBeginCapture",
            "cudaStreamEndCapture",
            "<built-in method run>",
            "train.py(3): step",
            "ProfilerStep#1",
            "record_param_comms",
            "process_name",
            "a",
        ][..],
    );
    let arg = (
        prop::sample::select(
            &[
                "correlation",
                "External id",
                "Python id",
                "Python parent id",
                "Sequence number",
                "Fwd thread id",
                "stream",
                "device",
                "graph id",
                "graph node id",
                "Collective name",
                "In msg nelems",
                "Out msg nelems",
                "Group size",
                "dtype",
                "name",
                "sort_index",
                "kernel",
                "queued",
            ][..],
        ),
        prop_oneof![number(), Just("\"BFloat16\"".to_owned()), Just("\"allreduce\"".to_owned())],
    );
    let field = (
        prop::sample::select(&["id", "bind_id", "tts", "tdur", "s", "flow_in", "flow_out", "bp", "scope", "id2"][..]),
        prop_oneof![
            number(),
            Just("\"e\"".to_owned()),
            Just("true".to_owned()),
            Just("\"g\"".to_owned()),
            Just("\"p\"".to_owned())
        ],
    );
    (
        (phase, category, name),
        (prop::array::uniform2(number()), prop::array::uniform2(few())),
        prop::collection::vec(arg, 0..4),
        (prop::option::of(few()), prop::collection::vec(field, 0..3)),
    )
        .prop_map(|((phase, category, name), ([ts, dur], [pid, tid]), args, (id, fields))| {
            let mut event = format!(r#"{{"ph":"{phase}","cat":"{category}","name":"{name}","ts":{ts}"#);
            let pid = if category == "kernel" { "0".to_owned() } else { pid };
            write!(event, r#","dur":{dur},"pid":{pid},"tid":{tid},"args":{{"#).unwrap();
            let args: Vec<String> = args.iter().map(|(key, value)| format!(r#""{key}":{value}"#)).collect();
            write!(event, "{}}}", args.join(",")).unwrap();
            id.iter().for_each(|id| write!(event, r#","id":{id}"#).unwrap());
            fields.iter().for_each(|(key, value)| write!(event, r#","{key}":{value}"#).unwrap());
            event + "}"
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: rounds(8) as u32, ..ProptestConfig::default() })]

    /// No number is too large for anything, and threads change nothing.
    #[test]
    fn numbers_at_the_limits_do_not_panic(events in prop::collection::vec(event(), 0..40)) {
        let text = format!("{{\"traceEvents\":[{}]}}", events.join(",\n"));
        let several = LoadOptions { threads: NonZero::new(3), chunk: NonZero::new(200), ..everything() };
        match (load(&text, everything()), load(&text, several)) {
            (Ok(store), Ok(other)) => {
                prop_assert!(facts(&store) == facts(&other));
                ask(&text, store);
            }
            (Err(one), Err(other)) => prop_assert_eq!(one.to_string(), other.to_string()),
            (one, other) => prop_assert!(false, "{:?} {:?}", one.err(), other.err()),
        }
    }
}

/// Asks for what all commands need, and returns how often slices were looked at. What loading alone takes is counted where it is done.
fn looks_at_slices(name: &str, text: &str) -> u64 {
    let store = load(text, everything()).unwrap_or_else(|e| panic!("{name}: {e}"));
    check(&store);
    let before = Slices::looks();
    let database = Database::open(store).unwrap();
    let wanted = Wanted::patterns(&["*"]).unwrap();
    let how = StackOptions::default();
    let stacks = StackReport::merge(vec![part(&database, &wanted, Window::ALL, &how)], &how);
    for form in [Form::Text, Form::Table, Form::Svg] {
        let answer = StacksAnswer::new(&stacks, "hostile");
        write(&answer, form);
    }
    let found = launches::find(database.store(), &choose(database.store(), &wanted));
    slices::functions(&database, "%", &found, WindowOn::Launch).unwrap();
    let kept = keep(database.store(), &found, Window::ALL, WindowOn::Launch);
    cut::plan(database.store(), &kept, Window::ALL, TimeRule::Exact);
    let again = StackReport::merge(vec![part(&database, &wanted, Window::ALL, &how)], &how);
    Diff::new(("one", stacks), ("other", again), Per::Step);
    let fan = "SELECT count(*) FROM directly_connected_flow(0)";
    if !database.store().slices.is_empty() {
        database.connection().query_row(fan, [], |row| row.get::<_, i64>(0)).unwrap();
    }
    Slices::looks() - before
}

#[test]
fn no_trace_takes_the_square_of_its_length() {
    let events = if is_long() { 15_000 } else { 2_500 };
    for (name, make) in hostile::ALL {
        let [once, fourfold] = [events, 4 * events].map(|events| looks_at_slices(name, &make(events)));
        // Searches take a little more than four times as many; comparing each slice with every other would take sixteen times.
        assert!(fourfold < 8 * once + 1_000, "{name}: {once} looks, and {fourfold} at four times as many events");
    }
}

/// One call cannot request more than the limit.
#[test]
fn a_text_that_is_too_long_is_refused() {
    let events = vec![r#"{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1}"#; 3_000];
    let text = format!("[{}]", events.join(","));
    let allow = |bytes: usize| LoadOptions { limits: Limits::of_text(bytes as u64), ..LoadOptions::default() };
    assert_eq!(load(&text, allow(text.len())).unwrap().events, 3_000);
    let error = load(&text, allow(text.len() - 1)).unwrap_err().to_string();
    assert!(error.ends_with(&format!("there are more than {} bytes of text", text.len() - 1)), "{error}");
    let (_folder, path) = scratch("trace.json", text.as_bytes());
    let said = stderr_of(&[&path, "--max-bytes", "10k"], 1);
    let message = "there are more than 10240 bytes of text. If the trace is fine and fits into memory, allow its size with --max-bytes SIZE";
    has(&said, &format!("error: {path}: {message}"));
    assert_eq!(run(&[&path, "--max-bytes", "1M", "--kernel-name", "*"]).status.code(), Some(3), "there are no kernels");
}
