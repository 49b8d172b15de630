//! The page of two traces: its figures, their order, and what a search finds. `testdata/README.md` works out `costs.json` and `costs_later.json`.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::page::pages::{kind, write};
use crate::page::tab::{Tab, open, open_at};
use crate::support::program::scratch;

/// The page of both, with figures per call of the trace.
fn page(name: &str) -> PathBuf {
    write(name, &["diff", "testdata/costs.json", "testdata/costs_later.json", "--format", "html"], 0)
}

/// The cells of the table of stacks, without the bar.
fn rows(tab: &Tab) -> Vec<Vec<String>> {
    let rows = tab.evaluate(
        "[...document.querySelectorAll('#diff .diff tbody tr')].map((row) => [...row.cells].slice(0, 4).map((of) => of.innerText.trim()))",
    );
    serde_json::from_value(rows).unwrap()
}

fn names(tab: &Tab) -> Vec<String> {
    rows(tab).into_iter().map(|row| row[0].split(['(', ':']).next().unwrap().to_owned()).collect()
}

#[test]
fn figures_are_per_call_of_the_stack_or_of_the_trace_or_in_all() {
    let backward = |tab: &Tab| rows(tab).into_iter().find(|row| row[0].contains("backward")).unwrap()[1..].to_vec();
    let total =
        |tab: &Tab| tab.text("document.querySelector('#diff [aria-label=Totals]').innerText").replace('\t', " ");
    let page = page("diff-figures");
    // 4 calls of `backward` take 500 and 580 µs, of which 200 and 230 are exposed; the trace has 13 calls in 2000 µs.
    for (fragment, wanted, measured) in [
        ("", ["15.385 µs", "17.692 µs", "+2.308 µs (+15.0 %)"], "153.846 µs"),
        ("#per=kernel", ["50.000 µs", "57.500 µs", "+7.500 µs (+15.0 %)"], "153.846 µs"),
        ("#per=kernel&measure=gpu_time_ns", ["125.000 µs", "145.000 µs", "+20.000 µs (+16.0 %)"], "153.846 µs"),
        ("#per=total", ["200.000 µs", "230.000 µs", "+30.000 µs (+15.0 %)"], "2.000 ms"),
    ] {
        let Some(tab) = open_at(&page, fragment) else { return };
        assert_eq!(backward(&tab), wanted, "{fragment}");
        assert!(total(&tab).contains(&format!("measured {measured} {measured} 0")), "{fragment}: {}", total(&tab));
        tab.assert_quiet();
    }
    // A call has one kernel: its count is no measure, and is one again for sums.
    let Some(tab) = open_at(&page, "#per=kernel&measure=count") else { return };
    let measures = "[...document.querySelectorAll('#diff [aria-label=Compare] button')].filter((of) => of.checkVisibility()).map((of) => of.textContent)";
    assert_eq!(tab.texts(measures), ["exposed", "GPU time"]);
    let figures = |tab: &Tab| tab.text("document.querySelector('#diff th[data-key=before]').innerText");
    assert_eq!(figures(&tab), "exposed before, per call of the stack");
    tab.click("#diff [aria-label=Figures] button[data-value=total]");
    assert_eq!(
        (figures(&tab), backward(&tab)),
        ("count before, in all".into(), vec!["4".into(), "4".into(), "0".into()])
    );
    assert!(tab.text("location.hash").contains("per=total"));
    tab.assert_quiet();
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
        ("name", "name ascending", ["checkpoint.py", "model.py", "optimizer.py"]),
        ("before", "before descending", ["model.py", "optimizer.py", "checkpoint.py"]),
        ("after", "after descending", ["model.py", "checkpoint.py", "optimizer.py"]),
        ("size", "size descending", ["optimizer.py", "checkpoint.py", "model.py"]),
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
    assert_eq!(sorted(&other), ["change descending"]);
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
        assert_eq!(words.contains("No stack has this text"), wanted.is_empty(), "{words}");
        tab.assert_quiet();
    }
}

/// An opened stack has its frames, and its kernels of both traces where these differ.
#[test]
fn a_call_stack_is_built_when_it_is_opened() {
    let Some(tab) = open(&kind("diff").page()) else { return };
    let frames = |tab: &Tab| tab.number("document.querySelectorAll('#diff .frames li').length");
    assert_eq!(frames(&tab), 0.0);
    tab.click("#diff summary");
    assert!(frames(&tab) >= 4.0, "{} frames", frames(&tab));
    let words = tab.text("document.querySelector('#diff details[open]').innerText");
    assert!(words.contains("train.py(10): main") && words.contains("Kernels: ncclDevKernel_AllGather"), "{words}");
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
    tab.click("#diff summary");
    let written = tab.number("document.querySelector('main').innerText.length");
    assert!(written < 20_000.0, "{written} characters");
    let titles =
        tab.number("Math.max(...[...document.querySelectorAll('#diff [title]')].map((of) => of.title.length))");
    assert!((1_000.0..=2_000.0).contains(&titles), "the longest title has {titles} characters");
    let name = tab.text("document.querySelector('#diff summary bdi').innerText");
    assert!(name.starts_with("model.py(1): ") && name.contains('…') && name.ends_with("_end"), "{name}");
    assert_eq!(name.chars().count(), 160);
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
    let hidden = tab.texts("[...document.querySelectorAll('#top td')].map((of) => of.textContent)");
    assert!(hidden.iter().any(|cell| cell == "−4.615 µs"), "{hidden:?}");
}
