//! The page of two traces: its figures, their order, and what a search finds. `testdata/README.md` works out `costs.json` and `costs_later.json`.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::page::pages::{kind, write};
use crate::page::tab::{Tab, open, open_at};
use crate::support::program::{has, scratch};

/// The page of both, with figures per call of the trace.
fn page(name: &str) -> PathBuf {
    write(name, &["diff", "testdata/costs.json", "testdata/costs_later.json", "--format", "html"], 0)
}

/// The cells of the table of changes: name, then exposed before and after, and its change.
fn rows(tab: &Tab) -> Vec<Vec<String>> {
    let rows = tab.evaluate(
        "(() => { const titles = [...document.querySelectorAll('#diff thead th')].map((of) => of.textContent.trim());
            const wanted = ['Where it comes from', 'Exposed before', 'Exposed after', 'Change'].map((title) => titles.indexOf(title));
            return [...document.querySelectorAll('#diff tbody tr.row')].map((row) => wanted.map((at) => row.cells[at].innerText.trim())); })()",
    );
    serde_json::from_value(rows).unwrap()
}

fn names(tab: &Tab) -> Vec<String> {
    let name = |row: Vec<String>| {
        row[0].trim_start_matches(['▸', '▾', '\n', ' ']).split(['(', ':']).next().unwrap().to_owned()
    };
    rows(tab).into_iter().map(name).collect()
}

/// Per call of the trace by default, and in all with `--total`: what the program divides by. 4 calls of `backward` take 500 and 580 µs, of which 200
/// and 230 are exposed; each trace has 13 calls in 2000 µs.
#[test]
fn figures_are_divided_as_in_the_answer() {
    for (page, wanted, measured) in [
        (page("diff-figures"), ["15.4 µs", "17.7 µs", "+2.31 µs"], "153.8 µs"),
        (kind("diff").page(), ["200.0 µs", "230.0 µs", "+30.0 µs"], "2.00 ms"),
    ] {
        let Some(tab) = open(&page) else { return };
        let backward = rows(&tab).into_iter().find(|row| row[0].contains("backward")).unwrap();
        assert_eq!(backward[1..], wanted);
        let sides = tab.text("document.querySelector('#sides tbody').innerText").replace('\t', " ");
        assert!(sides.contains(&format!("window {measured} {measured} =")), "{sides}");
        // The bars of both are as long as that.
        let bars = tab.texts(
            "[...document.querySelectorAll('#picture .bars li')].map((of) => of.innerText.replaceAll('\\n', ' '))",
        );
        assert_eq!(bars, [format!("before {measured}"), format!("after {measured}")]);
        tab.assert_quiet();
    }
}

#[test]
fn the_order_is_in_the_address() {
    let page = page("diff-order");
    let Some(tab) = open(&page) else { return };
    // What grew most, then what shrank. Per call of the trace: +50/13, +30/13 and −60/13 µs.
    assert_eq!(names(&tab), ["checkpoint.py", "model.py", "optimizer.py"]);
    let sorted = |tab: &Tab| {
        tab.texts(
            "[...document.querySelectorAll('#diff th[aria-sort]')].map((of) => `${of.dataset.key} ${of.ariaSort}`)",
        )
    };
    assert_eq!(sorted(&tab), ["change descending"]);
    for (key, order, wanted) in [
        ("change", "change ascending", ["optimizer.py", "model.py", "checkpoint.py"]),
        ("label", "label ascending", ["checkpoint.py", "model.py", "optimizer.py"]),
        ("exposed-before", "exposed-before descending", ["model.py", "optimizer.py", "checkpoint.py"]),
        ("exposed-after", "exposed-after descending", ["model.py", "checkpoint.py", "optimizer.py"]),
    ] {
        tab.click(&format!("#diff th[data-key={key}] button"));
        assert_eq!((names(&tab), sorted(&tab)), (wanted.map(str::to_owned).to_vec(), vec![order.to_owned()]));
        let there = tab.text("document.activeElement.closest('th').dataset.key");
        assert_eq!(there, key, "the focus stays on the head");
        let address = tab.text("location.hash");
        let Some(other) = open_at(&page, &address) else { return };
        assert_eq!(names(&other), wanted, "opened with {address}");
    }
    let Some(other) = open_at(&page, "#sort=nothing.asc") else { return };
    assert_eq!(sorted(&other), ["number ascending"]);
    tab.assert_quiet();
}

#[test]
fn a_search_looks_at_names_frames_and_kernels() {
    let page = page("diff-search");
    let found = |tab: &Tab| tab.text("document.querySelector('#diff .search + [role=status]').innerText");
    // A name, a frame that two stacks do not have, a kernel, and a frame of all.
    for (query, wanted, number) in [
        ("CHECKPOINT", &["checkpoint.py"][..], "1 of 3 match"),
        ("c10d::_reduce_scatter_base_", &["optimizer.py"], "1 of 3 match"),
        ("NcclDevKernel_allreduce", &["model.py"], "1 of 3 match"),
        ("MAIN", &["checkpoint.py", "model.py", "optimizer.py"], "3 of 3 match"),
        ("nobody", &[], "0 of 3 match"),
    ] {
        let Some(tab) = open(&page) else { return };
        tab.click("#diff input[type=search]");
        tab.type_text(query);
        tab.settle();
        assert_eq!((names(&tab), found(&tab)), (wanted.iter().map(|of| (*of).to_owned()).collect(), number.to_owned()));
        let Some(other) = open_at(&page, &tab.text("location.hash")) else { return };
        assert_eq!((names(&other).len(), found(&other)), (wanted.len(), number.to_owned()));
        let words = tab.text("document.querySelector('#diff').innerText");
        assert_eq!(words.contains("Nothing has this text"), wanted.is_empty(), "{words}");
        tab.assert_quiet();
    }
}

/// An opened stack has its frames, and its kernels of both traces where these differ.
#[test]
fn a_call_stack_is_built_when_it_is_opened() {
    let Some(tab) = open(&kind("diff").page()) else { return };
    let frames = |tab: &Tab| tab.number("document.querySelectorAll('#diff .frames li').length");
    assert_eq!(frames(&tab), 0.0);
    tab.click("#diff .expand");
    assert!(frames(&tab) >= 4.0, "{} frames", frames(&tab));
    let words = tab.text("document.querySelector('#diff tr.detail').innerText");
    has(&words, "train.py(10): main");
    has(&words, "Kernels after\nncclDevKernel_AllGather");
    tab.assert_quiet();
}

/// A trace in which a function and a kernel have a name of a megabyte that does not compress to nothing.
fn long_names(dur: u64) -> String {
    let mut state = 1_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + (state % 26) as u8)
    };
    let name: String = (0..1_000_000).map(|_| next()).collect();
    let slice = |cat: &str, name: &str, at: u64, dur: u64, args: Value| json!({"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": 9, "ts": at, "dur": dur, "args": args});
    let mut kernel = slice("kernel", &format!("ncclDevKernel_AllReduce_{name}"), 40, dur, json!({"correlation": 1}));
    (kernel["pid"], kernel["tid"]) = (0.into(), 7.into());
    let events = [
        slice("python_function", &format!("model.py(1): {name}_end"), 0, 900, json!({})),
        slice("cuda_runtime", "cudaLaunchKernel", 20, 10, json!({"correlation": 1})),
        kernel,
    ];
    json!({"traceEvents": events}).to_string()
}

#[test]
fn names_of_a_megabyte_are_shortened() {
    let (_one, first) = scratch("first.json", long_names(300).as_bytes());
    let (_other, second) = scratch("second.json", long_names(450).as_bytes());
    let page = write("diff-long", &["diff", &first, &second, "--format", "html"], 0);
    let Some(tab) = open(&page) else { return };
    tab.click("#diff .expand");
    let written = tab.number("document.querySelector('main').innerText.length");
    assert!(written < 20_000.0, "{written} characters");
    let name = tab.text("document.querySelector('#diff button.name').textContent");
    assert!(name.starts_with("model.py(1): ") && name.contains('…') && name.ends_with("_end"), "{name}");
    assert_eq!(name.chars().count(), 400);
    // All of it is there for a search.
    tab.evaluate("location.hash = '#q=zzz_end'");
    tab.settle();
    let status = |tab: &Tab| tab.text("document.querySelector('#diff .search + [role=status]').innerText");
    assert_eq!(status(&tab), "0 of 1 match");
    tab.evaluate("location.hash = '#q=_END'");
    tab.settle();
    assert_eq!(status(&tab), "1 of 1 match");
    tab.assert_quiet();
}

/// Every sign of a change is the same on the page, in what needs no script, too.
#[test]
fn less_has_a_minus_sign() {
    let Some(tab) = open(&page("diff-minus")) else { return };
    let words = tab.text("document.body.innerText");
    assert!(words.matches('−').count() >= 4, "{words}");
    let hyphens: Vec<&str> = words
        .split_whitespace()
        .filter(|word| word.starts_with('-') && word[1..].starts_with(|c: char| c.is_ascii_digit()))
        .collect();
    assert_eq!(hyphens, [""; 0]);
    let cells = tab.texts("[...document.querySelectorAll('#diff td')].map((of) => of.textContent)");
    assert!(cells.iter().any(|cell| cell == "−4.62 µs"), "{cells:?}");
}

/// Of two runs of many ranks: waiting 6,166,608 and transfer 609,537 ns in three steps.
#[test]
fn two_runs_have_a_bar_each() {
    let args = ["diff", "--ranks", "testdata/ranks", "testdata/ranks", "--format", "html"];
    let Some(tab) = open(&write("diff-runs", &args, 0)) else { return };
    let bars = tab.texts(
        "[...document.querySelectorAll('#picture .bars li')].map((of) => of.innerText.replaceAll('\\n', ' ') + ': ' +
            of.querySelector('[role=img]').getAttribute('aria-label'))",
    );
    let of =
        |side: &str| format!("{side} 2.26 ms: {side}: transfer 203.2 µs (9.0 %), waiting for a rank 2.06 ms (91.0 %)");
    assert_eq!(bars, [of("before"), of("after")]);
    tab.assert_quiet();
}
