//! The timeline of one trace: the sums of a selected span, its search, the times of the trace, and the calls of threads. Its keys are those that
//! its help names.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::answers::ranks_forms::written;
use crate::job::{How, Job, Late, Offsets, When};
use crate::page::pages::{document, kind, packed, write};
use crate::page::tab::{Tab, open, open_at};
use crate::support::program::{run, stderr, stdout};
use nccl_stacks::document::format::duration;
use nccl_stacks::time::Ns;

const CANVAS: &str = "document.querySelector('#timeline canvas')";

fn focus(tab: &Tab) {
    tab.evaluate(&format!("{CANVAS}.focus(), 1"));
}

/// What the line below the chart says of the cursor.
fn says(tab: &Tab) -> String {
    tab.settle();
    tab.text("document.querySelector('#timeline .readout').textContent")
}

/// The sums of the selected span, by their labels, without their shares.
fn sums(tab: &Tab) -> BTreeMap<String, String> {
    let facts = tab.evaluate(
        "[...document.querySelectorAll('#timeline .area .facts > div')]
            .map((of) => [of.querySelector('dt').innerText, of.querySelector('dd').innerText])",
    );
    let facts: Vec<(String, String)> = serde_json::from_value(facts).unwrap();
    facts.into_iter().map(|(label, value)| (label, value.split(" (").next().unwrap().to_owned())).collect()
}

/// The rows of a table of the selected span: 0 by stream, 1 by kernel.
fn table(tab: &Tab, number: usize) -> Vec<Vec<String>> {
    let rows = format!(
        "[...document.querySelectorAll('#timeline .area table')[{number}].querySelectorAll('tbody tr')]
            .map((row) => [...row.cells].map((cell) => cell.innerText))"
    );
    serde_json::from_value(tab.evaluate(&rows)).unwrap()
}

fn program(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

/// Within [250, 650) µs of costs.json (testdata/README.md): all of the AllReduce of [250, 350), three quarters of that of [500, 700), three
/// quarters of the product of [200, 400) and a quarter of that of [600, 800).
#[test]
fn a_span_is_summed_as_worked_out() {
    let Some(tab) = open_at(&kind("costs").page(), "#begin=250000&end=650000") else { return };
    let wanted = [
        ("GPU busy", "300.000 µs"),
        ("Compute", "200.000 µs"),
        ("Collectives", "250.000 µs"),
        ("Exposed", "100.000 µs"),
        ("Kernels", "4"),
    ];
    assert_eq!(sums(&tab), wanted.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect());
    let streams = [
        ["GPU 0, stream 7", "2", "200.000 µs", "0 ns", "0 ns"],
        ["GPU 0, stream 20", "2", "250.000 µs", "250.000 µs", "100.000 µs"],
    ];
    assert_eq!(table(&tab, 0), streams);
    let kernels = [
        ["ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "2", "250.000 µs", "100.000 µs"],
        ["gemm_bf16_128x64_tn", "2", "200.000 µs", "0 ns"],
    ];
    assert_eq!(table(&tab, 1), kernels);
    // The box keeps what has its text.
    tab.click("#timeline .area input");
    tab.type_text("GEMM");
    tab.settle();
    assert_eq!(table(&tab, 1), kernels[1..]);
    tab.assert_quiet();
}

/// Spans of two traces, some of which cut kernels, have the sums of the program's own summary of the same window.
#[test]
fn a_span_has_the_programs_sums() {
    for (name, file) in [("costs", "testdata/costs.json"), ("trace", "testdata/sglang_decode.json.gz")] {
        let page = kind(name).page();
        let timeline = packed(&page)["timelines"][0].take();
        let origin: i64 = timeline["origin_ns"].as_str().unwrap().parse().unwrap();
        let span = timeline["window_ns"].as_i64().unwrap();
        assert_eq!((timeline["merged_ns"].as_i64(), timeline["left_out"].as_i64()), (Some(0), Some(0)));
        for (begin, end) in [(0, span), (span / 7, span / 3), (span / 8, span / 4), (span * 3 / 5, span)] {
            let Some(tab) = open_at(&page, &format!("#begin={begin}&end={end}")) else { return };
            let (start, length) = ((origin + begin).to_string(), (end - begin).to_string());
            let window = ["--start-ts", start.as_str(), "--duration", length.as_str(), "--window-on", "kernel"];
            let answer: Value =
                serde_json::from_str(&program(&[&[file, "--json", "--quiet"], &window[..]].concat())).unwrap();
            let time = |key: &str| duration(Ns(answer["summary"][key].as_i64().unwrap()));
            let shown = sums(&tab);
            for (label, key) in [
                ("GPU busy", "busy_ns"),
                ("Compute", "compute_ns"),
                ("Collectives", "collectives_ns"),
                ("Exposed", "exposed_ns"),
            ] {
                assert_eq!(shown[label], time(key), "{name} [{begin}, {end}): {label}");
            }
            let end = origin + end;
            let start = origin + begin;
            let kernels = format!(
                "SELECT count(*) FROM slice WHERE category = 'kernel' AND ts < {end} AND (ts + dur > {start} OR ts >= {start})"
            );
            let counted = program(&["sql", file, &kernels, "--format", "csv", "--quiet"]);
            assert_eq!(shown["Kernels"].replace(',', ""), counted.lines().nth(1).unwrap(), "{name} [{begin}, {end})");
            tab.assert_quiet();
        }
    }
}

/// The same by kernel, as SQL cuts and adds them.
#[test]
fn a_span_has_the_sums_of_sql() {
    let (begin, end) = (130_000, 1_610_000);
    let Some(tab) = open_at(&kind("costs").page(), &format!("#begin={begin}&end={end}")) else { return };
    let query = format!(
        "SELECT substr(name, 1, instr(name || '(', '(') - 1) AS kernel, count(*), sum(min(ts + dur, {end}) - max(ts, {begin})) AS ns
         FROM slice WHERE category = 'kernel' AND ts < {end} AND ts + dur > {begin} GROUP BY kernel ORDER BY ns DESC"
    );
    let text = program(&["sql", "testdata/costs.json", &query, "--format", "csv", "--quiet"]);
    let row = |line: &str| -> Vec<String> {
        let [name, count, ns] = line.split(',').collect::<Vec<_>>()[..] else { panic!("{line}") };
        vec![name.trim_matches('"').to_owned(), count.to_owned(), duration(Ns(ns.parse().unwrap()))]
    };
    let wanted: Vec<Vec<String>> = text.lines().skip(1).map(row).collect();
    assert_eq!(wanted.len(), 4, "{wanted:?}");
    let shown: Vec<Vec<String>> = table(&tab, 1).into_iter().map(|row| row[..3].to_vec()).collect();
    assert_eq!(shown, wanted);
    tab.assert_quiet();
}

/// A trace with more kernels than a timeline has rows: 41,000 of 1 µs, 1 µs apart, and one collective beside the last. Neighbours are merged, and
/// the page says that its sums are approximate.
#[test]
fn sums_of_merged_rows_are_called_approximate() {
    const KERNELS: usize = 41_000;
    let kernel = |name: &str, stream: usize, start: usize, dur: usize| {
        json!({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": dur,
            "args": {"device": 0, "stream": stream, "correlation": start + 1}})
    };
    let mut events: Vec<Value> = (0..KERNELS).map(|at| kernel(["gemm", "relu"][at % 2], 7, 2 * at, 1)).collect();
    events.push(kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, 2 * KERNELS, 100));
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.json");
    std::fs::write(&trace, json!({"schemaVersion": 1, "traceEvents": events}).to_string()).unwrap();
    let page = write("merged", &[trace.to_str().unwrap(), "--format", "html"], 3);
    assert!(packed(&page)["timelines"][0]["merged_ns"].as_u64() > Some(0));
    let Some(tab) = open_at(&page, &format!("#begin=0&end={}", (2 * KERNELS + 100) * 1000)) else { return };
    let sums = sums(&tab);
    assert_eq!(sums["Kernels"], "approximately 41,001");
    assert_eq!(sums["Collectives"], "approximately 100.000 µs");
    assert!(
        table(&tab, 1).iter().any(|row| row[0] == "kernels of several names, drawn as one"),
        "{:?}",
        table(&tab, 1)
    );
    assert!(tab.text("document.querySelector('#timeline').innerText").contains("apart are drawn as one"));
    tab.assert_quiet();
}

/// Shift with drag selects, and does not pan; the keys [ and ] select at the cursor; Escape takes it back. The command has the selected span.
#[test]
fn a_span_is_selected_by_mouse_and_keys() {
    let Some(tab) = open(&kind("costs").page()) else { return };
    let hash = || {
        tab.settle();
        tab.text("location.hash")
    };
    let command = || tab.text("document.querySelector('#timeline .area code').innerText");
    assert_eq!(
        command(),
        "nccl-stacks export testdata/costs.json --trace span.json.gz --start-ts 0 --duration 2000000"
    );
    let (x, y) = tab.move_to(CANVAS, 0.25, 0.6);
    let mouse = |kind: &str, x: f64| {
        tab.call(
            "Input.dispatchMouseEvent",
            json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1, "modifiers": 8}),
        );
    };
    mouse("mousePressed", x);
    mouse("mouseMoved", x + 60.0);
    mouse("mouseMoved", x + 100.0);
    mouse("mouseReleased", x + 100.0);
    let dragged = hash();
    assert!(dragged.contains("begin=") && dragged.contains("end=") && !dragged.contains("from="), "{dragged}");
    assert!(!sums(&tab).is_empty());
    focus(&tab);
    tab.key("Escape");
    assert_eq!(hash(), "");
    assert!(tab.evaluate("document.querySelector('#timeline .area .facts').checkVisibility()") == false);
    // The first product, [200, 400) µs, then the next one, [600, 800).
    tab.key("ArrowRight");
    assert!(says(&tab).contains("gemm_bf16_128x64_tn at 200.000 µs, ran 200.000 µs"), "{}", says(&tab));
    tab.key("[");
    tab.key("ArrowRight");
    tab.key("]");
    assert_eq!(hash(), "#begin=200000&end=800000");
    assert_eq!(sums(&tab)["Compute"], "400.000 µs");
    let selected = "nccl-stacks export testdata/costs.json --trace span.json.gz --start-ts 200000 --duration 600000";
    assert_eq!(command(), selected);
    tab.click("#timeline .area .command button");
    assert_eq!(tab.text("navigator.clipboard.readText()"), selected);
    tab.assert_quiet();
}

/// The command of a span runs, and its trace has the kernels of the span.
#[test]
fn the_command_of_a_span_writes_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("span.json.gz");
    let Some(tab) = open_at(&kind("costs").page(), "#begin=200000&end=800000") else { return };
    let command = tab.text("document.querySelector('#timeline .area code').innerText");
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let words = words.into_iter().map(|word| if word == "span.json.gz" { file.to_str().unwrap() } else { word });
    program(&words.collect::<Vec<_>>());
    let query = "SELECT count(*) FROM slice WHERE category = 'kernel' AND ts < 800000 AND ts + dur > 200000";
    let count = |file: &str| program(&["sql", file, query, "--format", "csv", "--quiet"]);
    assert_eq!(count(file.to_str().unwrap()), count("testdata/costs.json"));
}

/// costs.json has two AllGathers, [1300, 1400) and [1500, 1560) µs, among its 13 collectives and 6 products.
#[test]
fn kernels_are_found() {
    let page = kind("costs").page();
    let Some(tab) = open(&page) else { return };
    let status = || {
        tab.settle();
        tab.text("document.querySelector('#timeline .toolbar [role=status]').innerText")
    };
    let before = tab.pictures("#timeline canvas");
    focus(&tab);
    tab.key("/");
    tab.type_text("allGATHER");
    assert_eq!(status(), "2 of 19 kernels, 160.000 µs");
    assert!(tab.pictures("#timeline canvas") != before, "nothing is outlined");
    for (start, number) in [("1.300 ms", 1), ("1.500 ms", 2), ("1.300 ms", 1)] {
        tab.key("Enter");
        assert!(says(&tab).contains(&format!("ncclDevKernel_AllGather_RING_LL · model.py(20): forward at {start}")));
        assert_eq!(status(), format!("2 of 19 kernels, 160.000 µs; number {number}"));
    }
    assert!(tab.evaluate("document.activeElement === document.querySelector('#timeline input')") == true);
    tab.key("Escape");
    assert!(tab.evaluate(&format!("document.activeElement === {CANVAS}")) == true);
    // Whoever gets the address sees the same. Names of stacks are found, too.
    let Some(other) = open_at(&page, "#find=optimizer.py") else { return };
    assert_eq!(
        other.text("document.querySelector('#timeline .toolbar [role=status]').innerText"),
        "1 of 19 kernels, 80.000 µs"
    );
    tab.assert_quiet();
}

/// What is copied is the start that the trace has: of costs.json by hand, of another trace, with a time of day, as SQL has it.
#[test]
fn the_time_of_the_trace_is_copied() {
    let Some(tab) = open(&kind("costs").page()) else { return };
    focus(&tab);
    tab.key("ArrowRight");
    tab.key("ArrowDown");
    assert!(says(&tab).contains("at 250.000 µs"), "{}", says(&tab));
    let copied = || tab.text("navigator.clipboard.readText()");
    tab.key("c");
    tab.settle();
    assert_eq!(copied(), "250");
    tab.click("#timeline .times button:last-child");
    assert_eq!(copied(), "250000");
    tab.assert_quiet();

    let file = "testdata/sglang_decode.json.gz";
    let query = "SELECT ts FROM slice WHERE category = 'kernel' ORDER BY ts LIMIT 1";
    let first = program(&["sql", file, query, "--format", "csv", "--quiet"]).lines().nth(1).unwrap().to_owned();
    let Some(tab) = open(&kind("trace").page()) else { return };
    focus(&tab);
    tab.key("ArrowRight");
    tab.settle();
    assert_eq!(
        tab.texts("[...document.querySelectorAll('#timeline .times button')].map((of) => of.innerText)"),
        [micros(&first), format!("{first} ns")]
    );
    let origin = tab.text("document.querySelector('#timeline .origin').innerText");
    let start = packed(&kind("trace").page())["timelines"][0]["origin_ns"].take();
    assert!(origin.contains(&format!("({} ns)", start.as_str().unwrap())), "{origin}");
    tab.assert_quiet();
}

/// On the clock of all ranks, times to copy are those of each rank's own trace, to the nanosecond, whether or not clocks drift. Steps have their names.
#[test]
fn all_ranks_have_steps_and_times_of_their_traces() {
    let how = How::Cpu { function: "mlp.py(50): mlp".to_owned() };
    let late = Some(Late { rank: 2, extra_ns: 150_000, how, when: When::EveryLayer });
    let offsets = Offsets::Random { max_ns: 3_000_000 };
    let drifts = Job { steps: 3, offsets, late, drift_ppm: 50.0, length_ns: 20_000_000_000, ..Job::default() };
    let (_folder, drifting) = written(&drifts);
    let pages = [
        (kind("ranks").page(), "testdata/ranks", "json.gz"),
        (write("drift", &["ranks", &drifting, "--format", "html"], 0), &drifting, "json"),
    ];
    let ranks = document(&pages[1].0, "ranks");
    assert!(ranks["ranks"].as_array().unwrap().iter().any(|rank| rank["drift_ns_per_ms"] != 0.0), "no clock drifts");
    for (page, folder, ending) in pages {
        let starts = |rank: &str| {
            let query = "SELECT ts FROM slice WHERE category = 'kernel' AND name LIKE 'nccl%' ORDER BY ts";
            let file = format!("{folder}/rank{rank}.{ending}");
            let text = program(&["sql", &file, query, "--format", "csv", "--quiet"]);
            text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        let last = starts("0").len() - 1;
        let Some(tab) = open_at(&page, &format!("#trace=4&collective={last}")) else { return };
        let arrivals = tab.texts(
            "[...document.querySelectorAll('#collective tbody tr')].map(({ cells: [rank, ...of] }) => `${parseInt(rank.innerText)} ${of.at(-1).innerText}`)",
        );
        assert!(arrivals.len() > 1, "{arrivals:?}");
        for arrival in &arrivals {
            let [rank, start, "ns"] = arrival.split(' ').collect::<Vec<_>>()[..] else { panic!("{arrival}") };
            assert!(starts(rank).iter().any(|known| known == start), "{folder}: {arrival}");
        }

        tab.evaluate(
            "window.drawn = []; const real = CanvasRenderingContext2D.prototype.fillText;
            CanvasRenderingContext2D.prototype.fillText = function (...of) {
                if (this.canvas.closest('#timeline')) window.drawn.push(of[0]); return real.apply(this, of); }",
        );
        focus(&tab);
        tab.key("ArrowDown");
        assert!(says(&tab).contains("rank 1"), "{}", says(&tab));
        let copies = "[...document.querySelectorAll('#timeline .times button')].map((of) => of.innerText)";
        assert_eq!(tab.texts(copies)[1], format!("{} ns", starts("1")[0]), "{folder}");
        tab.key("c");
        tab.settle();
        assert_eq!(format!("{} µs", tab.text("navigator.clipboard.readText()")), micros(&starts("1")[0]), "{folder}");
        let drawn = tab.texts("window.drawn");
        // A step of a job of 20 s has no room for its name.
        let is_named = drawn.iter().any(|text| text == "ProfilerStep#0");
        assert_eq!(is_named, folder == "testdata/ranks", "{folder}: {drawn:?}");
        // The path is on a rank, but no slice of a trace.
        tab.key("ArrowUp");
        tab.key("ArrowUp");
        assert!(says(&tab).starts_with("Critical path"), "{}", says(&tab));
        assert_eq!(tab.text("document.querySelector('#timeline .times').style.visibility"), "hidden");
        tab.assert_quiet();
    }
}

/// A time in ns as the page writes it in µs.
fn micros(ns: &str) -> String {
    let (micros, nanos) = ns.split_at(ns.len() - 3);
    format!("{micros}.{nanos}").trim_end_matches('0').trim_end_matches('.').to_owned() + " µs"
}

/// All that the line below the chart says on the lane above the first stream, from left to right.
fn calls(tab: &Tab) -> Vec<String> {
    focus(tab);
    tab.key("ArrowRight");
    tab.key("ArrowUp");
    let mut at = says(tab);
    let step = |key: &str, at: &mut String| {
        tab.key(key);
        let next = says(tab);
        let is_other = next != *at;
        *at = next;
        is_other
    };
    while step("ArrowLeft", &mut at) {}
    let mut all = vec![at.clone()];
    while step("ArrowRight", &mut at) {
        all.push(at.clone());
    }
    all
}

fn by_name(calls: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for call in calls {
        *counts.entry(call.split(' ').find(|word| word.starts_with("cu")).unwrap()).or_default() += 1;
    }
    counts
}

/// The calls of costs.json on its one thread: 10 launches of collectives, 5 of products, and a graph.
#[test]
fn calls_of_threads_have_rows() {
    // Zoomed in, so that keys go to each row.
    let Some(tab) = open_at(&kind("costs").page(), "#from=0&to=2000") else { return };
    let all = calls(&tab);
    let wanted = [("cudaGraphLaunch", 1), ("cudaLaunchKernel", 5), ("cudaLaunchKernelExC", 10)];
    assert_eq!(by_name(&all), wanted.into_iter().collect());
    assert_eq!(
        all[..2],
        [
            "thread 5000: cudaLaunchKernelExC at 70.000 µs, took 10.000 µs, launched 1 kernel of a stack",
            "thread 5000: cudaLaunchKernel at 180.000 µs, took 5.000 µs",
        ]
    );
    let graph = all.iter().find(|call| call.contains("cudaGraphLaunch")).unwrap();
    assert!(graph.ends_with("at 1.700 ms, took 10.000 µs, launched 2 kernels of a stack"), "{graph}");
    // A collective names its launch, and the other way round: Enter on a call chooses the stack.
    let Some(tab) = open_at(&kind("costs").page(), "#find=AllReduce") else { return };
    tab.evaluate("document.querySelector('#timeline input').focus(), 1");
    tab.key("Enter");
    assert!(!says(&tab).contains("launched"), "it was launched before the recording: {}", says(&tab));
    tab.key("Enter");
    let launched = "launched 30.000 µs before its start by cudaLaunchKernelExC on thread 5000";
    assert!(says(&tab).ends_with(launched), "{}", says(&tab));
    focus(&tab);
    tab.key("ArrowUp");
    tab.key("ArrowUp");
    assert!(says(&tab).contains("cudaLaunchKernelExC at 220.000 µs"), "{}", says(&tab));
    tab.key("ArrowRight");
    tab.key("Enter");
    tab.settle();
    assert!(tab.text("location.hash").contains("stack=0"), "{}", says(&tab));
    tab.assert_quiet();
}

/// The calls of sglang_decode.json.gz, counted by hand: none is inside another one, and none of its copies ends within its call.
#[test]
fn blocking_calls_have_rows() {
    let Some(tab) = open_at(&kind("trace").page(), "#from=0&to=1000") else { return };
    let all = calls(&tab);
    let wanted = [
        ("cuLaunchKernelEx", 34),
        ("cudaEventSynchronize", 4),
        ("cudaGraphLaunch", 2),
        ("cudaLaunchKernel", 22),
        ("cudaLaunchKernelExC", 52),
        ("cudaStreamSynchronize", 4),
    ];
    assert_eq!(by_name(&all), wanted.into_iter().collect());
    let blocks = |call: &&String| call.contains("blocks its thread");
    assert_eq!(all.iter().filter(blocks).count(), 8);
    assert!(all.iter().filter(blocks).all(|call| call.contains("Synchronize")), "{all:?}");
    tab.assert_quiet();
}

/// The schedule of a pipeline, which was recorded: all ranks are shown first, and the pieces of a lane are in the order of microbatches. Rank 3 has four
/// forward and four back in each of two steps, in turn; without threads of a backward pass there are none.
#[test]
fn a_pipelines_pieces_are_on_the_lanes_of_its_ranks() {
    let page = kind("pipeline").page();
    let pieces = &packed(&page)["lanes"]["pieces"];
    assert_eq!(pieces["rows"], 4 * 2 * 8);
    let Some(tab) = open(&page) else { return };
    tab.settle();
    // The first piece of the last lane, and from there by keys.
    let is_piece = |x: i32| {
        tab.move_to(CANVAS, f64::from(x) / 200.0, 0.93);
        says(&tab).contains("microbatch")
    };
    assert!((0..200).any(is_piece), "no piece is on the last lane");
    focus(&tab);
    let seen: Vec<String> = (0..16)
        .map(|of| {
            if of > 0 {
                tab.key("ArrowRight");
            }
            says(&tab).split_once(", at ").unwrap().0.to_owned()
        })
        .collect();
    let of_step = (0..4).flat_map(|of| ["forward", "backward"].map(|way| format!("Rank 3, {way} of microbatch {of}")));
    let wanted: Vec<String> = of_step.clone().chain(of_step).collect();
    assert_eq!(seen, wanted);
    tab.assert_quiet();
    assert_eq!(packed(&kind("ranks").page())["lanes"]["pieces"]["rows"], 0);
}
