//! Traces that are each broken in one way, and the report that a reader should give.
//!
//! All are made from one small trace: a Python frame; twice an operator with its call and NCCL kernel; and another kernel between them. The damage
//! is applied here, so its offset, its cost and the intact events are known without reading the trace.

use std::io::Write as _;

use flate2::{Compression, GzBuilder};

/// A file and its report: `name.json` and `name.report.json`.
pub(crate) fn all() -> Vec<(String, Vec<u8>)> {
    cases()
        .into_iter()
        .flat_map(|case| {
            let stem = case.name.split('.').next().unwrap_or_default().to_owned();
            let report = case.report();
            [(format!("broken/{}", case.name), case.bytes), (format!("broken/{stem}.report.json"), report.into_bytes())]
        })
        .collect()
}

/// A broken trace.
struct Case {
    name: &'static str,
    shows: &'static str,
    bytes: Vec<u8>,
    faults: Vec<Fault>,
    /// How many of the ten events of each document are read, intact or recovered.
    events: usize,
    /// How many of the two NCCL kernels have a launch.
    attributed: usize,
}

struct Fault {
    kind: &'static str,
    offsets: Vec<usize>,
    count: usize,
    bytes: usize,
}

impl Case {
    fn report(&self) -> String {
        let list = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let faults: Vec<String> = self
            .faults
            .iter()
            .map(|Fault { kind, offsets, count, bytes }| {
                let first = list(&offsets[..offsets.len().min(3)]);
                format!("    {{\"kind\": \"{kind}\", \"count\": {count}, \"offsets\": [{first}], \"bytes\": {bytes}}}")
            })
            .collect();
        format!(
            "{{\n  \"shows\": \"{}\",\n  \"kinds\": [\n{}\n  ],\n  \"events\": {},\n  \"attributed\": {}\n}}\n",
            self.shows,
            faults.join(",\n"),
            self.events,
            self.attributed
        )
    }
}

/// One fault at an offset, with its cost in bytes.
fn fault(kind: &'static str, offset: usize, bytes: usize) -> Fault {
    Fault { kind, offsets: vec![offset], count: 1, bytes }
}

/// Faults of one kind at several offsets, without a cost.
fn faults(kind: &'static str, offsets: Vec<usize>) -> Fault {
    Fault { kind, count: offsets.len(), offsets, bytes: 0 }
}

const HEAD: &str = "{\n  \"schemaVersion\": 1,\n  \"traceEvents\": [\n  ";
const BETWEEN: &str = ",\n  ";
const TAIL: &str = "\n  ],\n  \"traceName\": \"broken\"\n}\n";
const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

/// The ten events.
fn events() -> Vec<Vec<u8>> {
    let event = |category: &str, name: &str, pid: u32, tid: u32, ts: u32, dur: u32, args: &str| {
        format!(
            "{{\n    \"ph\": \"X\", \"cat\": \"{category}\", \"name\": \"{name}\", \"pid\": {pid}, \"tid\": {tid},\n    \
             \"ts\": {ts}.000, \"dur\": {dur}.000,\n    \"args\": {{\n      {args}\n    }}\n  }}"
        )
        .into_bytes()
    };
    let cpu = |category: &str, name: &str, ts, dur, args: &str| event(category, name, 7000, 7000, ts, dur, args);
    let gpu = |name: &str, stream: u32, ts, dur, correlation: u32| {
        let args = format!("\"device\": 0, \"stream\": {stream}, \"correlation\": {correlation}");
        event("kernel", name, 0, stream, ts, dur, &args)
    };
    vec![
        cpu("python_function", "train.py(3): main", 100, 900, "\"Python id\": 1"),
        cpu("cpu_op", "c10d::allreduce_", 200, 100, "\"External id\": 2"),
        cpu("cuda_runtime", "cudaLaunchKernelExC", 220, 10, "\"External id\": 2, \"correlation\": 5"),
        gpu(ALL_REDUCE, 20, 260, 40, 5),
        cpu("cpu_op", "aten::mm", 400, 50, "\"External id\": 3, \"Sequence number\": 12"),
        cpu("cuda_runtime", "cudaLaunchKernel", 410, 10, "\"External id\": 3, \"correlation\": 6"),
        gpu("gemm_bf16_128x64_tn", 7, 500, 20, 6),
        cpu("cpu_op", "c10d::allreduce_", 600, 100, "\"External id\": 4"),
        cpu("cuda_runtime", "cudaLaunchKernelExC", 620, 10, "\"External id\": 4, \"correlation\": 7"),
        gpu(ALL_REDUCE, 20, 700, 30, 7),
    ]
}

/// A text and the offsets of its events.
struct Text {
    bytes: Vec<u8>,
    offsets: Vec<usize>,
}

fn text(events: &[Vec<u8>], between: &[Vec<u8>]) -> Text {
    let (mut bytes, mut offsets) = (HEAD.as_bytes().to_vec(), Vec::new());
    for (i, event) in events.iter().enumerate() {
        offsets.push(bytes.len());
        bytes.extend_from_slice(event);
        bytes.extend_from_slice(between.get(i).map_or(TAIL.as_bytes(), |between| between));
    }
    Text { bytes, offsets }
}

/// The text after each event but the last.
fn separators() -> Vec<Vec<u8>> {
    vec![BETWEEN.as_bytes().to_vec(); events().len() - 1]
}

/// The trace with part of one event replaced, and the offset of the replacement.
fn with(event: usize, old: &str, new: &[u8]) -> (Text, usize) {
    let mut events = events();
    let body = &mut events[event];
    let at = find(body, old.as_bytes());
    body.splice(at..at + old.len(), new.iter().copied());
    let text = text(&events, &separators());
    let offset = text.offsets[event] + at;
    (text, offset)
}

/// The trace with something else between two events, and the offset of that.
fn with_between(after: usize, new: &[u8]) -> (Text, usize) {
    let mut between = separators();
    between[after] = new.to_vec();
    let text = text(&events(), &between);
    let offset = text.offsets[after + 1] - new.len();
    (text, offset)
}

fn find(text: &[u8], part: &[u8]) -> usize {
    text.windows(part.len()).position(|window| window == part).expect("the recipe names what is there")
}

/// The fifth event, an operator whose loss changes nothing else.
const MM: usize = 4;

/// A case that loses the operator, up to where the next event begins.
fn lost(name: &'static str, shows: &'static str, old: &str, new: &[u8]) -> Case {
    let (Text { bytes, offsets }, _) = with(MM, old, new);
    let faults = vec![fault("json_event_syntax", offsets[MM], offsets[MM + 1] - offsets[MM])];
    Case { name, shows, bytes, faults, events: 9, attributed: 2 }
}

/// A case in which everything can be recovered; `at` are the offsets of the faults, relative to the new text.
fn recovered(
    name: &'static str,
    shows: &'static str,
    kind: &'static str,
    (old, new, at): (&str, &[u8], &[usize]),
) -> Case {
    let (Text { bytes, .. }, offset) = with(MM, old, new);
    let faults = vec![faults(kind, at.iter().map(|at| offset + at).collect())];
    Case { name, shows, bytes, faults, events: 10, attributed: 2 }
}

/// A case with a faulty event that is read all the same.
fn counted(name: &'static str, shows: &'static str, kind: &'static str, old: &str, new: &[u8]) -> Case {
    let (Text { bytes, offsets }, _) = with(MM, old, new);
    Case { name, shows, bytes, faults: vec![faults(kind, vec![offsets[MM]])], events: 10, attributed: 2 }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(in_strings());
    cases.extend(in_values());
    cases.extend(lost_events());
    cases.extend(between_events());
    cases.extend(beside_the_events());
    cases.extend(packed());
    cases
}

fn in_strings() -> [Case; 4] {
    [
        recovered(
            "bad_escape.json",
            "a Windows path whose backslashes were not escaped: \\\\m and \\\\l are no escapes, \\\\b is one",
            "json_bad_escape",
            ("aten::mm", br"D:\model\bin\loop.py", &[2, 12]),
        ),
        recovered(
            "lone_surrogate.json",
            "one half of a character that takes two escapes",
            "json_lone_surrogate",
            ("aten::mm", br"aten::mm \ud83d", &[9]),
        ),
        recovered(
            "control_character.json",
            "a line break and a byte 1 within a name",
            "json_control_character",
            ("aten::mm", b"aten\n::\x01mm", &[4, 7]),
        ),
        recovered(
            "invalid_utf8.json",
            "bytes that are no UTF-8: 0xff, and the first two of a character of three",
            "json_invalid_utf8",
            ("aten::mm", b"aten\xff::\xe2\x82mm", &[4, 7]),
        ),
    ]
}

fn in_values() -> [Case; 7] {
    let deep = [&b"\"deep\": "[..], &vec![b'['; 10_000], &vec![b']'; 10_000], b", \"External id\": 3"].concat();
    let (Text { bytes, offsets }, at) = with(MM, "50.000", b"Infinity");
    let length = events()[MM].len() + "Infinity".len() - "50.000".len();
    let faults = vec![fault("json_invalid_value", at, 0), fault("json_invalid_duration", offsets[MM], length)];
    let infinite = Case {
        name: "infinite_duration.json",
        shows: "a duration that is no number: the event is lost",
        bytes,
        faults,
        events: 9,
        attributed: 2,
    };
    [
        infinite,
        counted(
            "not_a_number.json",
            "an argument that is NaN, which JSON does not know",
            "json_invalid_value",
            "\"Sequence number\": 12",
            b"\"Sequence number\": NaN",
        ),
        counted(
            "deep_arguments.json",
            "an argument nested 10,000 deep",
            "json_args_too_deep",
            "\"External id\": 3",
            &deep,
        ),
        counted(
            "duplicate_key.json",
            "a key that an event has twice: the last counts",
            "json_duplicate_key",
            "\"pid\": 7000",
            b"\"pid\": 1, \"pid\": 7000",
        ),
        counted("text_time.json", "a time in quotes", "json_text_time", "400.000", b"\"400.000\""),
        recovered(
            "comma_missing_within.json",
            "no comma between two fields of an event: what is missing is missed where the second begins",
            "json_missing_comma",
            (", \"tid\"", b" \"tid\"", &[1]),
        ),
        recovered(
            "two_commas_within.json",
            "two commas within an event",
            "json_stray_comma",
            (", \"tid\"", b",, \"tid\"", &[1]),
        ),
    ]
}

fn lost_events() -> [Case; 10] {
    let mut events = events();
    let half = events[MM].len() / 2;
    let mut between = separators();
    events[MM][half..].fill(0);
    between[MM].fill(0);
    events[MM + 1][..half].fill(0);
    let Text { bytes, offsets } = text(&events, &between);
    let hole = Case {
        name: "hole.json",
        shows: "zeros over the end of one event and the beginning of the next, as of a disk",
        bytes,
        faults: vec![fault("json_event_syntax", offsets[MM], offsets[MM + 2] - offsets[MM])],
        events: 8,
        attributed: 2,
    };
    [
        hole,
        lost("missing_quote.json", "a name without its closing quote", "mm\"", b"mm"),
        lost("missing_bracket.json", "arguments without their closing brace", "\n    }\n", b"\n    \n"),
        lost("wrong_bracket.json", "arguments that end with the bracket of a list", "\n    }\n", b"\n    ]\n"),
        lost(
            "half_event.json",
            "an event of which the end was never written, and others behind it",
            ",\n    \"args\": {\n      \"External id\": 3, \"Sequence number\": 12\n    }\n  }",
            b"",
        ),
        lost("no_value.json", "a field without a value", "\"dur\": 50.000", b"\"dur\": "),
        lost("no_word.json", "a value that means nothing", "400.000", b"4oo"),
        lost("missing_key_quote.json", "a key without its opening quote", "\"ph\"", b"ph\""),
        lost(
            "stray_quote.json",
            "a name with quotes that were not escaped, as Kineto wrote them until 2026",
            "aten::mm",
            br#"f({"device": "cpu"})"#,
        ),
        lost(
            "stray_quote_in_argument.json",
            "a quote too many in an argument, which hides brackets from who counts quotes",
            "\"External id\": 3",
            b"\"note\": \"a\"b\", \"External id\": 3",
        ),
    ]
}

fn between_events() -> [Case; 6] {
    let (no_comma, _) = with_between(MM, b"\n  ");
    let (commas, second) = with_between(MM, b",,\n  ");
    let (garbage, garbage_at) = with_between(MM, b",\n  gar}bage\x01\x02,\n  ");
    let (value, value_at) = with_between(MM, b",\n  null,\n  ");
    let (stray, stray_at) = with_between(MM, b"},\n  ");
    let middle = b"\n  ]\n}\n{\"traceEvents\": [\n  ";
    let (Text { bytes, .. }, end) = with_between(MM, middle);
    let next = end + b"\n  ]\n}\n".len();
    let trailing = fault("trailing_bytes", next, bytes.len() - next);
    let shows = "two traces one behind the other in one file, with five events each: the first is read";
    let offset = no_comma.offsets[MM + 1];
    let case = |name, shows, text: Text, fault| Case {
        name,
        shows,
        bytes: text.bytes,
        faults: vec![fault],
        events: 10,
        attributed: 2,
    };
    [
        case("comma_missing.json", "no comma between two events", no_comma, faults("json_missing_comma", vec![offset])),
        case("two_commas.json", "two commas between two events", commas, faults("json_stray_comma", vec![second + 1])),
        // `gar` alone would count as an element that is not an object.
        case(
            "garbage.json",
            "letters, a brace and control characters between two events",
            garbage,
            fault("json_garbage", garbage_at + 4, b"gar}bage\x01\x02,\n  ".len()),
        ),
        case("null.json", "an element that is no event", value, fault("json_element_not_object", value_at + 4, 4)),
        case(
            "stray_brace.json",
            "a brace too many behind an event",
            stray,
            fault("json_garbage", stray_at, b"},\n  ".len()),
        ),
        Case { name: "two_documents.json", shows, bytes, faults: vec![trailing], events: 5, attributed: 1 },
    ]
}

fn beside_the_events() -> [Case; 6] {
    let whole = text(&events(), &separators()).bytes;
    let case = |name, shows, bytes, faults| Case { name, shows, bytes, faults, events: 10, attributed: 2 };
    let log = b"W1121 a warning that went to the same file\n";
    let header = |field: &str| {
        let at = find(&whole, b"  \"traceEvents\"");
        [&whole[..at], field.as_bytes(), &whole[at..]].concat()
    };
    let at = find(&whole, b"  \"traceEvents\"");
    let devices = "  \"deviceProperties\": [{\"name\": \"H100 \"SXM\"}],\n";
    let quotes = "  \"deviceProperties\": [{\"name\": \"H100 \"SXM\"\"}],\n";
    let nan = "  \"load\": NaN,\n";
    let (Text { bytes: cut, offsets }, _) = with(MM, "aten::mm", b"aten::mm");
    let end = offsets[6] + 30;
    let mut cut_off = case(
        "cut_off.json",
        "the text ends in the middle of the seventh event",
        cut[..end].to_vec(),
        vec![fault("trace_truncated", offsets[6], 30)],
    );
    cut_off.events = 6;
    cut_off.attributed = 1;
    [
        cut_off,
        case(
            "log_line.json",
            "a line of a log before the trace",
            [&log[..], &whole].concat(),
            vec![fault("json_garbage", 0, log.len())],
        ),
        case(
            "broken_header.json",
            "a field beside the events with a quote too many, which hides where it ends",
            header(devices),
            vec![fault("header_skipped", at + 2, devices.len())],
        ),
        case(
            "header_quotes.json",
            "a field beside the events with quotes that were not escaped",
            header(quotes),
            vec![fault("header_skipped", at + 2, 0)],
        ),
        case(
            "header_value.json",
            "a field beside the events that is no number",
            header(nan),
            vec![fault("json_invalid_value", at + 2, 0)],
        ),
        case(
            "trailing.json",
            "something behind the trace that is none",
            [&whole[..], b"Done.\n"].concat(),
            vec![fault("trailing_bytes", whole.len(), 6)],
        ),
    ]
}

/// Gzip without compression, so that the bytes do not depend on the compressor.
fn stored(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzBuilder::new().operating_system(super::UNKNOWN_SYSTEM).write(Vec::new(), Compression::none());
    encoder.write_all(text).expect("writing to memory does not fail");
    encoder.finish().expect("writing to memory does not fail")
}

fn packed() -> [Case; 2] {
    let Text { bytes, offsets } = text(&events(), &separators());
    let whole = stored(&bytes);
    // The header of the file, and the header of its only block.
    const BEFORE: usize = 10 + 5;
    let cut = whole[..BEFORE + offsets[7] + 5].to_vec();
    let mut wrong_sum = whole.clone();
    let at = wrong_sum.len() - 8;
    wrong_sum[at] ^= 1;
    [
        Case {
            name: "cut_off_packed.json.gz",
            shows: "a gzip file that ends in the middle of the eighth event",
            faults: vec![fault("compressed_cut_off", cut.len(), 0)],
            bytes: cut,
            events: 7,
            attributed: 1,
        },
        Case {
            name: "wrong_sum.json.gz",
            shows: "a gzip file whose checksum is wrong: all of its text is there",
            // The offset is after the checksum.
            faults: vec![fault("compressed_checksum", wrong_sum.len() - 4, 0)],
            bytes: wrong_sum,
            events: 10,
            attributed: 2,
        },
    ]
}
