//! What a page may do: run its own script, use its own style, and nothing else. The browser is the judge where it can be.

use serde_json::Value;

use crate::page::pages::{KINDS, kind, unpack};
use crate::page::tab::{blank, open};

/// A page in parts: its text without what is packed into it, its scripts, its style, and how many bytes of the file are code and style.
struct Parts {
    markup: String,
    script: String,
    style: String,
    bytes: usize,
}

fn parts(name: &str) -> Parts {
    let text = std::fs::read_to_string(kind(name).page()).unwrap();
    let between = |open: &str, close: &str| {
        assert_eq!(text.matches(open).count(), 1, "{name}: {open}");
        let (_, rest) = text.split_once(open).unwrap();
        rest.split_once(close).unwrap().0.to_owned()
    };
    let (script, style) = (between("<script>", "</script>"), between("<style>", "</style>"));
    let packed = between(r#"<script type="application/json" id="page">"#, "</script>");
    let code = between(r#"<script type="application/gzip" id="code">"#, "</script>");
    let markup = [&script, &style, &packed, &code].into_iter().fold(text.clone(), |rest, part| rest.replace(part, ""));
    let bytes = script.len() + code.len() + style.len();
    let unpacked = String::from_utf8(unpack(&Value::String(code))).unwrap();
    let (of_views, of_page) = unpacked.split_once('\0').unwrap();
    Parts { markup, script: script + of_page, style: style + of_views, bytes }
}

#[test]
fn the_policy_allows_the_pages_own_script_and_style_alone() {
    let policy = regex::Regex::new(
        r#"<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'sha256-[A-Za-z0-9+/]{43}=' 'sha256-[A-Za-z0-9+/]{43}='; style-src 'sha256-[A-Za-z0-9+/]{43}=' 'sha256-[A-Za-z0-9+/]{43}='; base-uri 'none'; form-action 'none'">"#,
    );
    let policy = policy.unwrap();
    for kind in KINDS {
        let Parts { markup, .. } = parts(kind.name);
        let found: Vec<_> = policy.find_iter(&markup).collect();
        assert_eq!((found.len(), markup.matches("http-equiv").count()), (1, 1), "{}", kind.name);
        // What is before it is not under it.
        let before = &markup[..found[0].start()];
        assert!(!before.contains("<script") && !before.contains("<style") && !before.contains("<link"), "{before}");
    }
}

#[test]
fn nothing_is_loaded_or_kept() {
    let loads = regex::Regex::new(
        r#"(?i)<(?:link|img|iframe|object|embed|base|form|video|audio|svg|image|source|template)\b|\s(?:src|srcset|action|style|on[a-z]+|background|ping)\s*="#,
    );
    let (loads, tag) = (loads.unwrap(), regex::Regex::new(r"<[a-zA-Z][^>]*>").unwrap());
    for kind in KINDS {
        let Parts { markup, script, style, bytes } = parts(kind.name);
        for tag in tag.find_iter(&markup) {
            assert!(!loads.is_match(tag.as_str()), "{}: {}", kind.name, tag.as_str());
        }
        assert!(!style.contains("url(") && !style.contains("@import"), "{}: the style loads", kind.name);
        let forbidden = [
            "localStorage",
            "sessionStorage",
            "indexedDB",
            "document.cookie",
            "caches",
            "serviceWorker",
            "fetch(",
            "XMLHttpRequest",
            "WebSocket",
            "EventSource",
            "sendBeacon",
            "importScripts",
            "import(",
            "Worker(",
            "eval(",
            "Function(",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "http:",
            "https:",
            "<script",
            "</",
        ];
        let used: Vec<_> = forbidden.iter().filter(|word| script.contains(**word)).collect();
        assert!(used.is_empty(), "{}: the script uses {used:?}", kind.name);
        assert!(bytes <= 120_000, "{}: code and style are {bytes} bytes", kind.name);
    }
}

/// Were a page altered, its script would not run: the policy is in force, and the hash is that of the script as it is.
#[test]
fn an_altered_script_does_not_run() {
    let path = kind("costs").page();
    let text = std::fs::read_to_string(&path).unwrap();
    let altered = text.replacen("<script>", "<script>window.pwned = 1;", 1).replacen(
        "</main>",
        "</main><script>window.pwned = 2</script>",
        1,
    );
    let altered = altered.replacen("<h1", r#"<h1 onclick="window.pwned = 3""#, 1).replacen(
        "<style>",
        "<style>h1 { color: red }",
        1,
    );
    let other = path.with_file_name("altered.html");
    std::fs::write(&other, altered).unwrap();
    let Some(tab) = blank() else { return };
    tab.call("Page.navigate", serde_json::json!({"url": format!("file://{}", other.display())}));
    let state =
        "new Promise((done) => document.readyState === 'complete' ? done(1) : addEventListener('load', () => done(1)))";
    while tab.text("location.href") == "about:blank" {}
    tab.evaluate(state);
    tab.click("h1");
    assert_eq!(tab.text("String(window.pwned)"), "undefined");
    assert_ne!(tab.text("getComputedStyle(document.querySelector('h1')).color"), "rgb(255, 0, 0)");
    let violations = tab.problems().into_iter().filter(|problem| problem.starts_with("violation:")).count();
    assert_eq!(violations, 4, "{:?}", tab.problems());
}

/// The page makes no request after it is used, either.
#[test]
fn nothing_is_requested_by_use() {
    let Some(tab) = open(&kind("ranks").page()) else { return };
    tab.evaluate("location.hash = '#stack=0&rank=1&step=0&collective=0'");
    tab.settle();
    for at in 0..tab.number("document.querySelectorAll('canvas').length") as usize {
        tab.click_element(&format!("document.querySelectorAll('canvas')[{at}]"), 0.4, 0.4);
    }
    tab.assert_quiet();
    assert_eq!(tab.number("performance.getEntriesByType('resource').length"), 0.0);
}
