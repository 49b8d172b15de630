//! Values that do not match their keys. The file is valid JSON; only its contents are wrong.

use std::fmt::Write;

/// Key and value, each on an operator of its own. `testdata/README.md` has what a reader may make of them.
const CASES: [(&str, &str); 29] = [
    // Texts, numbers and other values instead of a list.
    ("Input Dims", r#""no list""#),
    ("Input Dims", "7"),
    ("Input Dims", "true"),
    ("Input Dims", "null"),
    ("Input Dims", r#"{"a": [1]}"#),
    ("Input Dims", r#""""#),
    ("Input Dims", r#"["4", "5"]"#),
    ("Input Dims", "[[-1, 1.5, 99999999999999999999]]"),
    // Truncated lists.
    ("Input Dims", r#""[[2, 3], ...]""#),
    ("Input Dims", "\"[[2, 3], \u{2026}\""),
    ("Input Dims", r#""[[2, 3], [4""#),
    ("Input Strides", r#""[[3, 1], ...""#),
    ("Input Strides", r#""...""#),
    // Unbalanced brackets and quotes.
    ("Input Dims", r#""[[2, 3]]]""#),
    ("Input Dims", r#""]][[""#),
    ("Input type", r#""['Float', 'Fl""#),
    ("Input type", r#""['Float', \"Float']""#),
    ("Input type", "3"),
    ("Input type", r#"[1, null, ["Float"]]"#),
    ("Concrete Inputs", r#""[tensor([[1, 2), ]""#),
    // Invalid numbers, and numbers instead of a text.
    ("Sequence number", r#""forty-two""#),
    ("Sequence number", "-1"),
    ("Sequence number", "[42]"),
    ("Fwd thread id", r#""0x7fff""#),
    ("Record function id", "99999999999999999999"),
    ("Module Hierarchy", "12"),
    ("Module Hierarchy", r#""..a...b.""#),
    ("Call stack", r#"["main", "forward"]"#),
    ("cache_misses", r#""12,345""#),
];

/// The depth of the nested list: as JSON deeper than the arguments that are kept, but not so deep that JSON libraries refuse the whole file; as
/// text deeper than any of them accepts.
const DEPTH: usize = 100;
const TEXT_DEPTH: usize = 1_000;
/// The length of the tensor's text.
const TENSOR: usize = 4_096;

/// The trace: operators of 10 µs, one after another, each of which launches a kernel of 5 µs.
pub(crate) fn trace() -> Vec<u8> {
    let mut cases: Vec<(&str, String)> = CASES.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
    cases.push(("Input Dims", format!("{}{}", "[".repeat(DEPTH), "]".repeat(DEPTH))));
    cases.push(("Input Dims", format!("\"{}{}\"", "[".repeat(TEXT_DEPTH), "]".repeat(TEXT_DEPTH))));
    let start = "[tensor([[";
    let end = "]])]";
    let numbers = "0.5, ".repeat(TENSOR).chars().take(TENSOR - start.len() - end.len()).collect::<String>();
    cases.push(("Concrete Inputs", format!("\"{start}{numbers}{end}\"")));
    let mut text = String::from("{\"schemaVersion\": 1,\n\"traceEvents\": [\n");
    for (number, (key, value)) in (1..).zip(&cases) {
        let ts = 20 * number;
        let comma = if number == cases.len() { "" } else { "," };
        let _ = writeln!(
            text,
            r#"{{"ph": "X", "cat": "cpu_op", "name": "op_{number}", "pid": 4100, "tid": 4100, "ts": {ts}, "dur": 10, "args": {{"External id": {number}, "{key}": {value}}}}},
{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4100, "tid": 4100, "ts": {launch}, "dur": 2, "args": {{"External id": {number}, "correlation": {number}}}}},
{{"ph": "X", "cat": "kernel", "name": "kernel_{number}", "pid": 0, "tid": 7, "ts": {run}, "dur": 5, "args": {{"External id": {number}, "correlation": {number}, "device": 0, "stream": 7}}}}{comma}"#,
            launch = ts + 2,
            run = ts + 8,
        );
    }
    text.push_str("]}\n");
    text.into_bytes()
}
