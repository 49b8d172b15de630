//! The timeline: its search, the times of the trace, and the calls of threads. Its keys are those that its help names.

use std::collections::BTreeMap;

use crate::answers::ranks_forms::written;
use crate::job::{How, Job, Late, Offsets, When};
use crate::page::pages::{document, kind, packed, write};
use crate::page::tab::{Tab, open, open_at};
use crate::support::program::{has, run, stderr, stdout};

const CANVAS: &str = "document.querySelector('#timeline canvas')";

fn focus(tab: &Tab) {
    tab.evaluate(&format!("{CANVAS}.focus(), 1"));
}

/// What the line below the chart says of the cursor.
fn says(tab: &Tab) -> String {
    tab.settle();
    tab.text("document.querySelector('#timeline .readout').textContent")
}

fn program(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    stdout(&output)
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
    tab.type_text("allGATHER_ring");
    assert_eq!(status(), "2 of 19 kernels, 160.0 µs");
    assert!(tab.pictures("#timeline canvas") != before, "nothing is outlined");
    for (start, number) in [("1.30 ms", 1), ("1.50 ms", 2), ("1.30 ms", 1)] {
        tab.key("Enter");
        assert!(says(&tab).contains(&format!("ncclDevKernel_AllGather_RING_LL · model.py(20): forward at {start}")));
        assert_eq!(status(), format!("2 of 19 kernels, 160.0 µs; number {number}"));
    }
    assert!(tab.evaluate("document.activeElement === document.querySelector('#timeline input')") == true);
    tab.key("Escape");
    assert!(tab.evaluate(&format!("document.activeElement === {CANVAS}")) == true);
    // Whoever gets the address sees the same. Names of stacks are found, too.
    let Some(other) = open_at(&page, "#find=optimizer.py") else { return };
    // The kernel is found by its stack. The function is the only one of its file.
    assert_eq!(
        other.text("document.querySelector('#timeline .toolbar [role=status]').innerText"),
        "1 of 19 kernels, 80.0 µs; 1 of 73 functions"
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
    assert!(says(&tab).contains("at 250.0 µs"), "{}", says(&tab));
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
    let origin = tab.text("document.querySelector('#timeline .origin').textContent");
    let start = packed(&kind("trace").page())["timelines"][0]["origin_ns"].take();
    has(&origin, &format!("({} ns)", start.as_str().unwrap()));
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
        let Some(tab) = open_at(&page, "#trace=4") else { return };
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
            "thread 5000: cudaLaunchKernelExC at 70.0 µs, took 10.0 µs, launched 1 kernel of a stack",
            "thread 5000: cudaLaunchKernel at 180.0 µs, took 5.00 µs",
        ]
    );
    let graph = all.iter().find(|call| call.contains("cudaGraphLaunch")).unwrap();
    assert!(graph.ends_with("at 1.70 ms, took 10.0 µs, launched 2 kernels of a stack"), "{graph}");
    // A collective names its launch, and the other way round: Enter on a call chooses the stack.
    let Some(tab) = open_at(&kind("costs").page(), "#find=ncclDevKernel_AllReduce") else { return };
    tab.evaluate("document.querySelector('#timeline input').focus(), 1");
    tab.key("Enter");
    assert!(!says(&tab).contains("launched"), "it was launched before the recording: {}", says(&tab));
    tab.key("Enter");
    let launched = "launched 30.0 µs before its start by cudaLaunchKernelExC on thread 5000";
    assert!(says(&tab).ends_with(launched), "{}", says(&tab));
    focus(&tab);
    tab.key("ArrowUp");
    tab.key("ArrowUp");
    assert!(says(&tab).contains("cudaLaunchKernelExC at 220.0 µs"), "{}", says(&tab));
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

/// On the lanes of all ranks the same keys work as on those of one: find, zoom, move, and fit.
#[test]
fn lanes_of_all_ranks_have_the_same_keys() {
    let page = kind("ranks").page();
    let Some(tab) = open(&page) else { return };
    focus(&tab);
    tab.key("/");
    tab.type_text("all_reduce");
    tab.settle();
    let status = tab.text("document.querySelector('#timeline .toolbar [role=status]').innerText");
    let all = packed(&page)["lanes"]["rows"]["rows"].as_u64().unwrap();
    has(&status, &format!("of {all} collectives, "));
    tab.key("Enter");
    assert!(says(&tab).contains("all_reduce"), "{}", says(&tab));
    tab.key("Escape");
    let shown = || {
        tab.settle();
        tab.text(&format!("{CANVAS}.getAttribute('aria-label')"))
    };
    let mut seen = vec![shown()];
    for key in ["f", "w", "d", "a", "s", "Home"] {
        tab.key(key);
        let now = shown();
        assert!(*seen.last().unwrap() != now, "{key} changes nothing: {now}");
        seen.push(now);
    }
    assert_eq!(seen[0], seen[6]);
    assert_eq!(seen[2], seen[4], "a does not take back what d does");
    tab.assert_quiet();
}

/// What one sees of the functions of threads: their names on the lanes, by the colour of the letters.
const DRAWN: &str = "window.drawn = []; const real = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (...of) { window.drawn.push(of[0]); return real.apply(this, of); }";

/// Functions come as one zooms in. Those of costs.json are all there, to the nanosecond: its first collective has these callers.
#[test]
fn functions_appear_as_one_zooms_in() {
    let page = kind("costs").page();
    assert_eq!(packed(&page)["timelines"][0]["cpu"]["functions_left_out"], 0);
    let Some(tab) = open(&page) else { return };
    tab.evaluate(DRAWN);
    let named = |from: u32, to: u32| {
        tab.evaluate(&format!("window.drawn = [], location.hash = '#from={from}&to={to}'"));
        tab.settle();
        tab.texts("window.drawn")
    };
    let wide = named(0, 2_000_000);
    let near = named(55_000, 90_000);
    let is_there = |texts: &[String], name: &str| texts.iter().any(|text| text.contains(name));
    assert!(is_there(&wide, "train.py(10): main") && !is_there(&wide, "c10d::allreduce_"), "{wide:?}");
    assert!(is_there(&near, "c10d::allreduce_") && is_there(&near, "cudaLaunchKernelExC"), "{near:?}");
    tab.assert_quiet();
}

/// Where a page has no room for all functions, it has those of the costliest step down to an eighth of the length of others, and says so.
#[test]
fn functions_that_are_not_there_are_said() {
    let how = How::Cpu { function: "mlp.py(50): mlp".to_owned() };
    let late = Some(Late { rank: 0, extra_ns: 2_000_000, how, when: When::EveryLayer });
    let (_folder, files) = written(&Job { steps: 40, late, ..Job::default() });
    let page = write("functions", &[&format!("{files}/rank0.json"), "--format", "html"], 0);
    let cpu = packed(&page)["timelines"][0]["cpu"].take();
    let (left, kept) = (cpu["functions_left_out"].as_u64().unwrap(), cpu["functions"]["rows"].as_u64().unwrap());
    assert!(left > 0 && kept > 500, "{left} are left out, {kept} are there");
    assert!(cpu["functions"]["data"].as_str().unwrap().len() < 9_000);
    let Some(tab) = open(&page) else { return };
    let help = tab.text("document.querySelector('#timeline details.legend').textContent");
    let least = crate::page::numbers::duration(cpu["least_ns"].as_u64().unwrap());
    has(&help, &format!("in the costliest step than {least}."));
    tab.assert_quiet();
}
