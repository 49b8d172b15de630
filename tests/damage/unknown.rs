//! Files of which nobody knows what is missing, or what is wrong: cut off, corrupt, with a checksum that does not match. This is said
//! before the verdict, and the window of a file that ends early is limited to what survived.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::support::program::{ended, has, run, stderr, stderr_of, stdout, stdout_of, verdict_of};
use crate::support::{read_text, shared};

/// Eight kernels on one stream, 90 µs each, every 100 µs from 100 µs on: all-reduces and products in turn. As Kineto writes it, the code that
/// launched them is before them, and lasts to 1,000 µs.
fn trace() -> String {
    let mut events = vec![
        r#"{"ph": "X", "cat": "python_function", "name": "train.py(3): main", "pid": 1, "tid": 1, "ts": 0, "dur": 1000, "args": {"Python id": 1}}"#
            .to_owned(),
    ];
    events.extend((0..8).map(|i| {
        format!(
            r#"{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": 1, "tid": 1, "ts": {}, "dur": 5, "args": {{"correlation": {}}}}}"#,
            10 + 10 * i,
            i + 1
        )
    }));
    events.extend((0..8).map(|i| {
        let name = if i % 2 == 0 { "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)" } else { "gemm" };
        format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": 7, "ts": {}, "dur": 90, "args": {{"correlation": {}}}}}"#,
            100 + 100 * i,
            i + 1
        )
    }));
    format!("{{\"traceEvents\": [\n{}\n]}}\n", events.join(",\n"))
}

/// The offset of the kernel with this number in the text.
fn kernel_at(text: &str, number: usize) -> usize {
    text.match_indices(r#"{"ph": "X", "cat": "kernel""#).nth(number).unwrap().0
}

/// Gzip in which each byte of the text is a byte of the file, after the first 15.
fn stored(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    encoder.write_all(text.as_bytes()).unwrap();
    let bytes = encoder.finish().unwrap();
    assert_eq!(bytes[STORED..STORED + 10], text.as_bytes()[..10]);
    bytes
}

/// The header of a member and of a block.
const STORED: usize = 15;

fn write(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The answer for programs, and its exit code.
fn answer(path: &str, more: &[&str]) -> (Value, Option<i32>) {
    let output = run(&[&[path, "--json"], more].concat());
    let json = serde_json::from_str(&stdout(&output)).unwrap_or_else(|e| panic!("{path}: {e}: {}", stderr(&output)));
    (json, output.status.code())
}

const CUT_OFF: &str = "is cut off (copy it again, or record again), and how much is missing is unknown.";

/// Cut in the sixth kernel, it has five, from 100 to 590 µs: all-reduces for 270 of these 490 µs, products for 180. In the whole span of the
/// code, 1,000 µs, these would be 27 and 18 %, of which nobody knows whether they are right.
#[test]
fn the_window_of_a_file_that_is_cut_off_is_what_survived() {
    let (text, folder) = (trace(), tempfile::tempdir().unwrap());
    let cut = kernel_at(&text, 5) + 40;
    for (name, bytes) in [("cut.json", &text.as_bytes()[..cut]), ("cut.json.gz", &stored(&text)[..STORED + cut])] {
        let path = write(&folder, name, bytes);
        let output = ended(&[&path], 6);
        let said = stdout(&output);
        let mut lines = said.lines();
        let limited = "The window is limited to the 490.0 µs in which an unbroken run of kernels survived.";
        assert_eq!(lines.next(), Some(format!("The trace {CUT_OFF} {limited}").as_str()));
        let share = "Collectives take 270.0 µs of 490.0 µs (55.1 %), all of it exposed";
        assert!(lines.next().unwrap().starts_with(share), "{said}");
        has(&said, "Of 490.0 µs: GPU busy 91.8 %, compute 36.7 %, collectives 55.1 %");
        has(&stderr(&output), "Lost in all: unknown");
        let (json, code) = answer(&path, &[]);
        assert_eq!(code, Some(6));
        let survived = json!({"start_ns": 100_000, "end_ns": 590_000});
        assert_eq!(json["traces"][0]["window"], survived);
        let damage = &json["damage"];
        assert_eq!((&damage["lost_bytes"], &damage["lost_share"]), (&Value::Null, &Value::Null));
        let unknown = json!([{"trace": path, "cause": "cut_off", "text_bytes": cut, "implausible_from": null, "survived": survived}]);
        assert_eq!(damage["unknown"], unknown);
        // A window that was asked for is taken, and is said to be another.
        let chosen = stdout(&run(&[&path, "--start-ts", "0", "--duration", "1ms"]));
        let other =
            "An unbroken run of kernels survived from 100000 ns to 590000 ns (490.0 µs), which is not the window.";
        assert!(chosen.starts_with(&format!("The trace {CUT_OFF} {other}\n")), "{chosen}");
        let strict = run(&[&path, "--strict"]);
        assert_eq!((strict.status.code(), stdout(&strict).as_str()), (Some(1), ""));
    }
    let whole = write(&folder, "whole.json", text.as_bytes());
    assert!(stdout(&run(&[&whole])).contains("Collectives take 360.0 µs of 1.00 ms (36.0 %)"));
    assert_eq!(answer(&whole, &[]).0["damage"]["lost_bytes"], 0);
}

/// A bit in a digit makes another time, one in a brace breaks an event, and one in the checksum itself nothing.
#[test]
fn a_checksum_that_does_not_match_is_said_before_the_verdict() {
    let (text, folder) = (trace(), tempfile::tempdir().unwrap());
    let dur = kernel_at(&text, 2) + text[kernel_at(&text, 2)..].find("90").unwrap();
    let brace = kernel_at(&text, 3);
    let whole = stored(&text);
    let cases = [
        (STORED + dur, 1, None, 4, 360 - 10),
        (STORED + brace, 1, Some(brace), 4, 360),
        (whole.len() - 8, 4, None, 4, 360),
        (whole.len() - 4, 1, None, 4, 360),
    ];
    for (at, bit, from, kernels, micros) in cases {
        let mut bytes = whole.clone();
        bytes[at] ^= bit;
        let path = write(&folder, "flipped.json.gz", &bytes);
        let output = ended(&[&path], 6);
        let looks = match from {
            Some(from) => format!("Its text looks wrong from byte {} of {} on.", grouped(from), grouped(text.len())),
            None => "Nothing in its text looks wrong.".to_owned(),
        };
        let said = "The trace does not match its checksum (copy it again): any byte may be wrong, and so may any number below.";
        assert!(stdout(&output).starts_with(&format!("{said} {looks}\n")), "{at}: {}", stdout(&output));
        let (json, code) = answer(&path, &[]);
        assert_eq!((code, &json["damage"]["lost_bytes"]), (Some(6), &Value::Null));
        let unknown = json!([{"trace": path, "cause": "checksum", "text_bytes": text.len(), "implausible_from": from, "survived": null}]);
        assert_eq!(json["damage"]["unknown"], unknown);
        assert_eq!(json["damage"]["kinds"][0]["trace"], Value::from(path.as_str()), "{}", json["damage"]);
        let found = (&json["coverage"]["kernels"], &json["summary"]["collectives_ns"]);
        assert_eq!(found, (&kernels.into(), &(micros * 1_000).into()));
        let strict = run(&[&path, "--strict"]);
        assert_eq!((strict.status.code(), stdout(&strict).as_str()), (Some(1), ""));
        has(&stderr(&strict), "a checksum does not match, so that any byte may be wrong");
    }
}

fn grouped(number: usize) -> String {
    let digits = number.to_string();
    match digits.len() {
        0..=3 => digits,
        n => format!("{},{}", &digits[..n - 3], &digits[n - 3..]),
    }
}

/// All text is read, also of what follows: nothing looks cut off.
#[test]
fn what_follows_a_wrong_checksum_is_read() {
    let (text, folder) = (trace(), tempfile::tempdir().unwrap());
    let (first, second) = text.split_at(kernel_at(&text, 4));
    let mut wrong = stored(first);
    let at = wrong.len() - 8;
    wrong[at] ^= 1;
    let members = [wrong, stored(second)].concat();
    let frame = |text: &str| {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.include_checksum(true).unwrap();
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let mut last = frame(&text);
    *last.last_mut().unwrap() ^= 1;
    for (name, bytes) in [("two.json.gz", members), ("one.json.zst", last)] {
        let path = write(&folder, name, &bytes);
        let (json, code) = answer(&path, &[]);
        let damage = &json["damage"];
        assert_eq!((code, &damage["unknown"][0]["cause"]), (Some(6), &"checksum".into()), "{name}: {damage}");
        let found = (&damage["text_bytes"], &json["kernels_in_trace"]);
        assert_eq!(found, (&text.len().into(), &4.into()), "{name}: {damage}");
    }
}

/// Of several traces the damaged one is named, in every form.
#[test]
fn of_several_traces_the_damaged_one_is_named() {
    let (text, folder) = (trace(), tempfile::tempdir().unwrap());
    let whole = write(&folder, "rank0.json", text.as_bytes());
    let cut = write(&folder, "rank1.json", &text.as_bytes()[..kernel_at(&text, 5) + 40]);
    let (json, code) = answer(&whole, &[&cut]);
    assert_eq!(code, Some(6));
    let kinds: Vec<&Value> = json["damage"]["kinds"].as_array().unwrap().iter().map(|kind| &kind["trace"]).collect();
    assert_eq!(kinds, [&Value::from(cut.as_str())]);
    assert_eq!(json["damage"]["unknown"][0]["trace"], Value::from(cut.as_str()));
    let said = format!("{cut} {CUT_OFF} The window is limited to the 490.0 µs");
    assert!(stdout(&run(&[&whole, &cut])).starts_with(&said));
    let ranks = ended(&["ranks", &whole, &cut], 6);
    assert!(stdout(&ranks).starts_with(&said), "{}", stdout(&ranks));
    let (of_ranks, _) = answer(&whole, &[]);
    assert!(of_ranks["damage"]["unknown"].as_array().unwrap().is_empty());
    let of_ranks = run(&["ranks", &whole, &cut, "--json"]);
    let of_ranks: Value = serde_json::from_str(&stdout(&of_ranks)).unwrap();
    assert!(verdict_of(&of_ranks).starts_with(&said));
    assert_eq!(of_ranks["damage"]["unknown"], json["damage"]["unknown"]);
    let diff = ended(&["diff", &whole, &cut], 6);
    let after = format!("After: The trace {CUT_OFF} The window is limited");
    assert!(stdout(&diff).starts_with(&after), "{}", stdout(&diff));
    let same = stdout_of(&["diff", &whole, &whole]);
    assert!(!same.contains("cut off"), "{same}");
    let page = folder.path().join("page.html");
    stderr_of(&[&cut, "--format", "html", "--output", page.to_str().unwrap()], 6);
    let page = std::fs::read_to_string(page).unwrap();
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
    assert!(at(CUT_OFF) < at("Collectives take 270.0 µs"));
}

/// What is said of a real trace that is cut off is what the whole one has in the same time.
#[test]
fn what_survived_of_real_traces_is_right() {
    let Some(shared) = shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    for (name, share) in [
        ("HTA__nccl_data_a100", 54),
        ("HTA__nccl_data_a100", 50),
        ("lora-dev-script__sglang_tp4_A_mixed_rank0", 90),
        ("TraceLens__mi300_ddp_resnet_rank0", 90),
    ] {
        let packed = shared.join(format!("traces/{name}.json.gz"));
        let whole = packed.to_str().unwrap();
        let (text, bytes) = (read_text(Path::new(whole)), std::fs::read(&packed).unwrap());
        let cut = |bytes: &[u8]| bytes[..bytes.len() * share / 100].to_vec();
        for (file, bytes) in [("cut.json", cut(text.as_bytes())), ("cut.json.gz", cut(&bytes))] {
            let path = write(&folder, file, &bytes);
            let (of_cut, code) = answer(&path, &[]);
            assert_eq!(code, Some(6), "{name} {file}");
            let window = &of_cut["traces"][0]["window"];
            assert_eq!(window, &of_cut["damage"]["unknown"][0]["survived"]);
            let (start, end) = (window["start_ns"].as_i64().unwrap(), window["end_ns"].as_i64().unwrap());
            let (start, length) = (start.to_string(), (end - start).to_string());
            let same = ["--start-ts", &start, "--duration", &length, "--window-on", "kernel"];
            let (of_whole, _) = answer(whole, &same);
            // What starts in it is the same. What began before, in a buffer that is missing, may run into it.
            for kernels in ["top_kernels", "kernel_names_found", "wall_ns"] {
                assert_eq!(of_cut["summary"][kernels], of_whole["summary"][kernels], "{name} {file} {kernels}");
            }
            assert_eq!(of_cut["coverage"]["kernels"], of_whole["coverage"]["kernels"], "{name} {file}");
        }
    }
}

/// Why nothing was found is said of each trace, and not of the first alone.
#[test]
fn why_nothing_is_found_is_said_of_all_traces() {
    let (text, folder) = (trace(), tempfile::tempdir().unwrap());
    let no_kernel = write(&folder, "rank0.json", text.replace(r#""cat": "kernel""#, r#""cat": "cpu_op""#).as_bytes());
    let no_collective = write(&folder, "rank1.json", text.replace("ncclDevKernel_AllReduce", "sum").as_bytes());
    let same = write(&folder, "rank2.json", text.replace(r#""cat": "kernel""#, r#""cat": "cpu_op""#).as_bytes());
    let said = stderr_of(&[&no_kernel, &no_collective, &same, "--format", "json"], 3);
    has(&said, "Nothing found in 3 traces.\n");
    has(&said, &format!("{no_kernel}, {same}: Nothing found: the trace has no GPU kernels:"));
    has(&said, &format!("{no_collective}: Nothing found: 8 kernels ran in the window, no collective"));
    let nothing = "In each of 2 traces: Nothing found: the trace has no GPU kernels:";
    has(&stderr(&run(&[&no_kernel, &same, "--format", "json"])), nothing);
}
