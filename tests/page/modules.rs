//! The page's own modules, each tested by a script in the browser (`modules/*.js`), and against what the program itself writes.

use std::path::Path;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;

use nccl_stacks::document::format;
use nccl_stacks::time::Ns;

use crate::page::tab::{Tab, blank};

fn page_folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/document/html/page")
}

/// A module with all that it imports before it, as the program puts them together: without the lines that import, and without `export`.
fn put_together(module: &str, done: &mut Vec<String>, code: &mut String) {
    if done.iter().any(|name| name == module) {
        return;
    }
    done.push(module.to_owned());
    let text = std::fs::read_to_string(page_folder().join(module)).unwrap();
    let import = regex::Regex::new(r"(?m)^import \{.*\} from '\./(.*)';$").unwrap();
    import.captures_iter(&text).for_each(|found| put_together(&found[1], done, code));
    code.push_str(&import.replace_all(&text, "").replace("\nexport ", "\n"));
}

/// Runs a test script after the modules that it uses. It returns how many things it has compared; a difference is an exception.
fn run(modules: &[&str], script: &str) -> Option<Tab> {
    const COMPARE: &str = "let compared = 0;
        const equal = (is, want, what = '') => { compared += 1; const [a, b] = [JSON.stringify(is), JSON.stringify(want)];
            if (a !== b) throw new Error(`${what}: ${a}, not ${b}`); };";
    let tab = blank()?;
    let (mut done, mut code) = (Vec::new(), String::new());
    modules.iter().for_each(|module| put_together(module, &mut done, &mut code));
    let compared =
        tab.number(&format!("(async () => {{ 'use strict';\n{code}\n{COMPARE}\n{script}\nreturn compared; }})()"));
    assert!(compared > 0.0, "nothing was compared");
    Some(tab)
}

#[test]
fn packed_columns_are_read() {
    run(&["decode.js"], include_str!("modules/decode.js"));
}

#[test]
fn numbers_and_names_are_written() {
    run(&["format.js"], include_str!("modules/format.js"));
}

#[test]
fn a_fragment_is_a_state() {
    run(&["state.js"], include_str!("modules/state.js"));
}

#[test]
fn names_of_steps_become_labels() {
    run(&["order.js"], include_str!("modules/order.js"));
}

#[test]
fn times_of_the_trace_are_exact() {
    run(&["format.js"], include_str!("modules/clock.js"));
}

#[test]
fn names_become_text_alone() {
    run(&["dom.js"], include_str!("modules/dom.js"));
}

/// Each module can be put together with what it imports, without names that collide.
#[test]
fn modules_fit_together() {
    let Some(tab) = blank() else { return };
    let (mut done, mut code) = (Vec::new(), String::new());
    let mut modules: Vec<String> = std::fs::read_dir(page_folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".js") && name != "app.js")
        .collect();
    modules.sort();
    assert!(modules.len() >= 4, "{modules:?}");
    modules.iter().for_each(|module| put_together(module, &mut done, &mut code));
    // The code is compiled, not run.
    let source = json!(format!("'use strict';\n{code}"));
    assert_eq!(tab.evaluate(&format!("typeof new Function({source})")), "function");
}

/// Lengths of time and counts are written as the program writes them.
#[test]
fn numbers_are_written_as_the_program_writes_them() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let mut times: Vec<i64> = vec![0, 1, 999, 1_000, 999_999, 1_000_000, 999_999_499, 999_999_500, 1_000_000_000];
    // The largest that a script's number holds exactly.
    times.extend([(1 << 52), (1 << 53) - 1, 139_078_775, 2_500, 1_234_500, 1_000_500_000]);
    let more = proptest::collection::vec((0..53_u32, any::<i64>()).prop_map(|(bits, n)| (n >> 11) >> bits), 2_000);
    times.extend(more.new_tree(&mut runner).unwrap().current());
    times.extend(times.clone().iter().map(|time| -time));
    let durations: Vec<String> = times.iter().map(|time| format::duration(Ns(*time))).collect();
    let counts: Vec<String> = times.iter().map(|time| format::count(time.unsigned_abs())).collect();
    let (times, durations, counts) = (json!(times), json!(durations), json!(counts));
    let script = format!(
        "const [times, durations, counts] = [{times}, {durations}, {counts}];
        times.forEach((time, at) => {{ equal(duration(time), durations[at], `duration of ${{time}}`);
            equal(count(Math.abs(time)), counts[at], `count of ${{time}}`); }});"
    );
    run(&["format.js"], &script);
}
