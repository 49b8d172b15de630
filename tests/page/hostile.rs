//! Names that want to be more than names, and files that are damaged or have nothing to show.

use serde_json::{Value, json};

use crate::page::pages::write;
use crate::page::tab::{How, Tab, open, open_as};
use crate::support::program::{scratch, testdata};

const SCRIPT: &str = "</script><script>window.pwned=1</script>";
const IMAGE: &str = "<img src=x onerror=window.pwned=2>";
const TURNED: &str = "safe\u{202e}txt.exe\u{2066}\u{200b}";
const CONTROLS: &str = "a\u{0}b\u{1b}[31mc\r\nd\u{85}e\u{2028}f";
const ATTRIBUTE: &str = "x\"onmouseover=\"window.pwned=3\" style=\"position:fixed";
const COMMENT: &str = "<!--<script>";

/// A trace of two ranks' worth of such names: frames, kernels, groups, threads.
fn trace() -> String {
    let slice = |cat: &str, name: &str, at: u64, dur: u64, args: Value| json!({"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": 9, "ts": at, "dur": dur, "args": args});
    let mut events = vec![json!({"ph": "M", "name": "thread_name", "pid": 9, "tid": 9, "args": {"name": IMAGE}})];
    for (at, name) in [SCRIPT, IMAGE, TURNED, CONTROLS, ATTRIBUTE, COMMENT].iter().enumerate() {
        let (at, id) = (1000 * at as u64, at + 1);
        let group = json!({"correlation": id, "Collective name": format!("all_reduce{name}"), "Process Group Name": name,
            "Process Group Description": name, "dtype": name, "In msg nelems": 4096, "Out msg nelems": 4096, "Group size": 2});
        events.push(slice("python_function", &format!("{name}.py(1): {name}"), at, 900, json!({})));
        events.push(slice("cpu_op", name, at + 10, 800, json!({})));
        events.push(slice("cuda_runtime", "cudaLaunchKernel", at + 20, 10, json!({"correlation": id})));
        let mut kernel = slice("kernel", &format!("ncclDevKernel_AllReduce_{name}"), at + 40, 300, group);
        kernel["tid"] = 7.into();
        kernel["pid"] = 0.into();
        events.push(kernel);
    }
    json!({"traceEvents": events}).to_string()
}

/// All that is written on the page, and all that is said of its parts.
fn all_words(tab: &Tab) -> String {
    tab.text(
        "document.title + '\\n' + document.body.innerText + '\\n' + [...document.querySelectorAll('#verdict *, #top *, #bar *, #views *')]
            .flatMap((of) => of.getAttributeNames().filter((name) => name !== 'href').map((name) => of.getAttribute(name))).join('\\n')",
    )
}

fn assert_harmless(tab: &Tab, what: &str) {
    assert_eq!(tab.text("String(window.pwned)"), "undefined", "{what}");
    let made = "document.querySelectorAll('img, iframe, object, [onmouseover], [onerror], main script:not(#page) ~ script').length";
    assert_eq!(tab.number(made), 0.0, "{what}: elements that names have made");
    let words = all_words(tab);
    let is_wrong =
        |c: &char| (c.is_control() && !['\n', '\t'].contains(c)) || "\u{202e}\u{2066}\u{200b}\u{2028}".contains(*c);
    if let Some(at) = words.find(|c| is_wrong(&c)) {
        let around: String = words[..at].chars().rev().take(60).collect::<Vec<_>>().into_iter().rev().collect();
        panic!("{what}: {:?} after {around:?}", words[at..].chars().next().unwrap());
    }
}

#[test]
fn hostile_names_are_names() {
    let (_folder, path) = scratch(&format!("{}.json", IMAGE.replace(' ', "\u{202e}")), trace().as_bytes());
    let page = write("hostile", &[&path, "--format", "html"], 0);
    let bytes = std::fs::read_to_string(&page).unwrap();
    assert!(!bytes.contains(SCRIPT) && !bytes.contains("<img") && !bytes.contains('\u{202e}'));
    let Some(tab) = open(&page) else { return };
    assert_harmless(&tab, "opened");
    let words = all_words(&tab);
    for name in [SCRIPT, IMAGE, ATTRIBUTE, COMMENT, "safe\\u{202e}txt.exe"] {
        assert!(words.contains(name), "{name:?} is not shown as it is: {words}");
    }
    for id in 0..6 {
        tab.evaluate(&format!("location.hash = '#stack={id}'"));
        tab.settle();
        assert_harmless(&tab, &format!("stack {id} is chosen"));
    }
    while tab.number("document.querySelectorAll('#stacks [aria-expanded=false]').length") > 0.0 {
        tab.click("#stacks [aria-expanded=false]");
    }
    assert_harmless(&tab, "call stacks are open");
    for at in 0..tab.number("document.querySelectorAll('canvas').length") as usize {
        for x in [0.1, 0.3, 0.5, 0.7, 0.9] {
            tab.move_to(&format!("document.querySelectorAll('canvas')[{at}]"), x, 0.5);
            tab.settle();
            assert_harmless(&tab, "the pointer is on a chart");
        }
    }
    tab.assert_quiet();
    let Some(plain) = open_as(&page, How { without_scripts: true, ..How::default() }) else { return };
    assert_harmless(&plain, "without scripts");
}

/// The ranks' names and a comparison go other ways through the program.
#[test]
fn hostile_names_are_names_in_other_answers() {
    let (_one, first) = scratch("first.json", trace().as_bytes());
    let (_other, second) = scratch("second.json", trace().replace("\"dur\":300", "\"dur\":450").as_bytes());
    let commands: [(&str, &[&str]); 2] =
        [("hostile-diff", &["diff", &first, &second]), ("hostile-report", &["report", &first])];
    for (name, command) in commands {
        let command = if command[0] == "report" { command.to_vec() } else { [command, &["--format", "html"]].concat() };
        let page = write(name, &command, 0);
        let Some(tab) = open(&page) else { return };
        assert_harmless(&tab, name);
        tab.assert_quiet();
    }
}

/// What is wrong with a trace is said in words, with and without scripts.
#[test]
fn damage_is_said() {
    for (name, said, code) in [
        ("damaged.json", "is cut off", 6),
        ("broken/cut_off_packed.json.gz", "is cut off", 6),
        ("broken/hole.json", "could not be read, and what they had is missing", 0),
    ] {
        let page = write(&name.replace('/', "-"), &[&testdata(name), "--format", "html"], code);
        for without_scripts in [false, true] {
            let Some(tab) = open_as(&page, How { without_scripts, ..How::default() }) else { return };
            let words = tab.text("document.body.innerText");
            assert!(words.contains(said), "{name}: no {said:?} in {words}");
            tab.assert_quiet();
        }
    }
}

/// A page of nothing says so, and why.
#[test]
fn nothing_found_is_said() {
    let (no_kernels, window) = (testdata("begin_end_async.json"), testdata("two_matches.json"));
    let cases: [(&str, Vec<&str>, i32, &str); 2] = [
        ("no-kernels", vec![&no_kernels], 3, "no GPU kernels"),
        ("no-launches", vec![&window, "--function-name", "%train_step", "--index", "2"], 3, "launched outside"),
    ];
    for (name, command, code, said) in cases {
        let page = write(name, &[&command[..], &["--format", "html"]].concat(), code);
        for without_scripts in [false, true] {
            let Some(tab) = open_as(&page, How { without_scripts, ..How::default() }) else { return };
            let words = tab.text("document.body.innerText");
            assert!(words.contains(said), "{name}: no {said:?} in {words}");
            assert!(!words.contains("NaN") && !words.contains("undefined"), "{name}: {words}");
            tab.assert_quiet();
        }
    }
}
