//! Text, JSON and page say the same: each sentence of the verdict, each of the first findings, and what to do first.

use std::path::Path;

use serde_json::Value;

use crate::support::program::{program, stderr, stdout};

/// Commands, run in the project's folder; their exit code; whether they have a page; and whether their findings have to be there.
const COMMANDS: &[(&[&str], i32, bool, bool)] = &[
    (&["testdata/costs.json"], 0, true, true),
    (&["testdata/sglang_decode.json.gz"], 0, true, true),
    (&["testdata/ddp_backward.json.gz"], 0, true, true),
    (&["testdata/costs.json", "--group-by", "collective"], 0, true, true),
    (&["testdata/ranks"], 0, true, true),
    (&["testdata/no_launch_link.json"], 3, true, false),
    (&["testdata/damaged.json"], 6, true, false),
    (&["ranks", "testdata/ranks"], 0, true, true),
    (&["ranks", "testdata/records/megatrace"], 0, true, false),
    (&["ranks", "testdata/records/job/records"], 0, true, false),
    (&["hang", "testdata/records/hang"], 4, true, true),
    (&["records", "testdata/records/job/records"], 0, true, false),
    (&["diff", "testdata/costs.json", "testdata/costs_later.json"], 0, true, true),
    (&["diff", "--ranks", "testdata/ranks", "testdata/ranks"], 0, true, false),
    (&["describe", "testdata/costs.json"], 0, false, false),
];

/// The most findings that people see at first.
const FINDINGS: usize = 3;

fn answer(command: &[&str], form: &str, code: i32) -> String {
    let output = program()
        .args(command)
        .args(["--format", form, "--quiet"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(code), "{command:?} {form}: {}", stderr(&output));
    stdout(&output)
}

/// The words of a text, so that line ends and indents do not matter.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text of a page without its tags, up to its data. Code is between backticks, as in the text.
fn page_words(page: &str) -> String {
    let mut text = String::new();
    for part in page.replace("<code>", "`").replace("</code>", "`").split("<script").next().unwrap().split('<') {
        text.push(' ');
        text.push_str(part.split_once('>').map_or(part, |(_, text)| text));
    }
    let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    words(&plain.iter().fold(text, |text, (from, to)| text.replace(from, to)))
}

fn texts(of: &Value) -> Vec<&str> {
    of.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn all_forms_say_the_same() {
    let mut with_findings = 0;
    for (command, code, has_page, has_findings) in COMMANDS {
        let data: Value = serde_json::from_str(&answer(command, "json", *code)).unwrap();
        let text = words(&answer(command, "text", *code));
        let page = has_page.then(|| page_words(&answer(command, "html", *code)));
        let findings = data["findings"].as_array().unwrap();
        assert!(!has_findings || !findings.is_empty(), "{command:?} has no findings");
        assert!(!texts(&data["verdict"]).is_empty(), "{command:?} has no verdict");
        with_findings += usize::from(!findings.is_empty());
        let expect = |part: &str| {
            let part = words(part);
            assert!(text.contains(&part), "{command:?}: the text lacks {part:?}:\n{text}");
            let page = page.as_deref().unwrap_or(&part);
            assert!(page.contains(&part), "{command:?}: the page lacks {part:?}:\n{page}");
        };
        texts(&data["verdict"]).into_iter().for_each(expect);
        for (at, finding) in findings.iter().take(FINDINGS).enumerate() {
            // The text of a hang has a group for each finding, and that of records a line.
            if !["hang", "records"].contains(&command[0]) {
                expect(finding["cost"].as_str().unwrap());
            }
            let what = finding["what"].as_str().unwrap();
            if command[0] != "hang" {
                expect(what);
            }
            if at == 0 {
                texts(&finding["evidence"]).into_iter().for_each(expect);
                finding["advice"].as_str().into_iter().for_each(|advice| expect(&format!("First: {advice}")));
            }
        }
    }
    assert!(with_findings >= 9, "{with_findings}");
}
