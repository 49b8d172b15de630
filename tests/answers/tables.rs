//! Answers as tables: CSV by RFC 4180, and rows that fit a screen.

use crate::support::random::is_long;

use std::path::{Path, PathBuf};

use crate::support::program::{run, stdout, stdout_of, testdata, trace_of};
use nccl_stacks::answers::OnPage;
use nccl_stacks::answers::diff::Diff;
use nccl_stacks::answers::diff::delta::Per;
use nccl_stacks::answers::diff::document::DiffAnswer;
use nccl_stacks::answers::stacks::data::{StackOptions, StackReport};
use nccl_stacks::answers::stacks::document::StacksAnswer;
use nccl_stacks::answers::stacks::reduction::stacks;
use nccl_stacks::attribution::selection::{OwnFamilies, Wanted};
use nccl_stacks::document::{Answer, Form, Screen};
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::load::{LoadOptions, load};
use nccl_stacks::names::frames::location;
use nccl_stacks::sql::Database;
use nccl_stacks::time::Window;

const STACKS_HEADER: &str = "rank,count,gpu_time_ns,share_of_window,exposed_ns,critical_ns,overlapped_ns,mean_ns,median_ns,p95_ns,min_ns,max_ns,fastest_ns,\
    queue_delay_median_ns,collective,dtype,bytes_min,bytes_max,process_group,algbw_gb_per_s,busbw_gb_per_s,best_busbw_gb_per_s,\
    thread,kernels,headline,stack";

/// The field of a stack in a column.
fn field<'r>(record: &'r csv::StringRecord, column: &str) -> &'r str {
    &record[STACKS_HEADER.split(',').position(|name| name == column).unwrap()]
}

/// The header of `nsys stats -r cuda_gpu_kern_sum --format csv`.
const KERNELS_HEADER: &str = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name";

/// The records of an answer in CSV; a record whose number of fields differs from the header's is an error.
fn records(args: &[&str], header: &str) -> Vec<csv::StringRecord> {
    let text = stdout_of(&[args, &["--format", "csv"]].concat());
    let mut reader = csv::ReaderBuilder::new().flexible(false).from_reader(text.as_bytes());
    assert_eq!(reader.headers().unwrap(), &csv::StringRecord::from(header.split(',').collect::<Vec<_>>()));
    reader.records().map(|record| record.unwrap()).collect()
}

#[test]
fn csv_has_one_record_for_each_stack_and_each_reason() {
    for trace in ["costs.json", "sglang_decode.json.gz", "ddp_backward.json.gz", "replay/trace.json", "evidence.json"] {
        let path = testdata(trace);
        let records = records(&[&path], STACKS_HEADER);
        let whole: serde_json::Value = serde_json::from_slice(&run(&[&path, "--format", "json"]).stdout).unwrap();
        let stacks = whole["stacks"].as_array().unwrap();
        let reasons = whole["coverage"]["without_launch"].as_object().unwrap();
        assert_eq!(records.len(), stacks.len() + reasons.len(), "{trace}");
        for (record, of) in records[stacks.len()..].iter().zip(reasons.values()) {
            assert_eq!(
                (field(record, "count"), field(record, "gpu_time_ns")),
                (&*of["count"].to_string(), &*of["gpu_time_ns"].to_string()),
                "{trace}"
            );
        }
        for (record, stack) in records.iter().zip(stacks) {
            let cost = &stack["cost"];
            let times = [&stack["count"], &cost["gpu_time"]["total_ns"], &cost["share_of_window"]];
            for (name, value) in ["count", "gpu_time_ns", "share_of_window"].into_iter().zip(times) {
                let (field, value) = (field(record, name).parse::<f64>().unwrap(), value.as_f64().unwrap());
                // `serde_json` reads the last digit of a fraction as it can.
                assert!((field - value).abs() <= value * 1e-15, "{trace}: {field} and {value}");
            }
            assert_eq!(field(record, "exposed_ns").parse::<i64>().ok(), cost["exposed_ns"].as_i64());
            assert_eq!(field(record, "thread"), stack["thread"].as_str().unwrap_or_default());
            let launch = stack["frames"].as_array().unwrap().last().and_then(|frame| frame.as_str());
            let frames = field(record, "stack");
            assert!(launch.is_none_or(|launch| frames.ends_with(&format!(";{launch}")) || frames == launch));
        }
        let kernels = crate::support::program::rows(&path, "kernels", &[]);
        let rows = self::records(&["sql", &path, "--query", "kernels"], KERNELS_HEADER);
        assert_eq!(rows.len(), kernels.len(), "{trace}");
        let percent: f64 = rows.iter().map(|row| row[0].parse::<f64>().unwrap()).sum();
        assert!((percent - 100.0).abs() < 0.06 * rows.len() as f64, "{trace}: {percent}");
    }
}

/// Quotes, commas and line breaks in names, which are all that CSV has to quote.
#[test]
fn csv_quotes_what_it_must() {
    let (_folder, path) = trace_of(&[
        r#""ph":"X","name":"a, \"b\"\nc","cat":"cpu_op","pid":9,"tid":9,"ts":1,"dur":50"#,
        r#""ph":"X","name":"cudaLaunchKernel","cat":"cuda_runtime","pid":9,"tid":9,"ts":10,"dur":1,"args":{"correlation":1}"#,
        r#""ph":"X","name":"nccl, \"X\"\r\n","cat":"kernel","pid":0,"tid":7,"ts":20,"dur":5,"args":{"correlation":1}"#,
    ]);
    let stacks = records(&[&path], STACKS_HEADER);
    assert_eq!(field(&stacks[0], "kernels"), r#"nccl, "X"\r\n"#);
    assert_eq!(field(&stacks[0], "headline"), r#"a, "b"\nc"#);
    assert_eq!(field(&stacks[0], "stack"), r#"a, "b"\nc;cudaLaunchKernel"#);
    let kernels = records(&["sql", &path, "--query", "kernels"], KERNELS_HEADER);
    assert_eq!(&kernels[0][8], "nccl, \"X\"\r\n", "as the trace has it");
    let text = stdout(&run(&[&path, "--format", "csv"]));
    let headline = r#""a, ""b""\nc","#;
    let end = format!("\"nccl, \"\"X\"\"\\r\\n\",{headline}\"a, \"\"b\"\"\\nc;cudaLaunchKernel\"\n");
    assert!(text.ends_with(&end), "{text}");
}

fn report(path: &Path) -> StackReport {
    let options = LoadOptions { args: ArgsWanted::COLLECTIVES, ..LoadOptions::default() };
    let database = Database::open(load(path, options, |_| {}).unwrap().store).unwrap();
    let wanted = Wanted::parse(&[], &["all-collectives".to_owned()], &OwnFamilies::default()).unwrap();
    let how = StackOptions::default();
    stacks(database.store(), &wanted, Window::ALL, how)
}

/// The table of stacks alone, without the summary before it.
fn table(report: &StackReport, width: Option<usize>) -> String {
    let (screen, mut out) = (Screen { width, ..Screen::default() }, Vec::new());
    StacksAnswer::new(report, "trace").write(Form::Table, &screen, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    text[text.find("\n #  ").unwrap() + 1..].to_owned()
}

#[test]
fn tables_fit_the_screen_and_keep_functions_whole() {
    let mut paths: Vec<_> =
        ["costs.json", "sglang_decode.json.gz", "ddp_backward.json.gz"].map(|name| testdata(name).into()).into();
    if let Some(shared) = crate::support::shared() {
        let traces = crate::support::real_traces(&shared).into_iter();
        paths.extend(traces.filter(|(name, _)| name.contains("sglang") || name.contains("ddp")).map(|(_, path)| path));
    }
    for path in paths {
        let report = report(&path);
        if report.stacks.is_empty() {
            continue;
        }
        for width in (60..=200).step_by(if is_long() { 1 } else { 7 }) {
            // Text: every line but a word that is longer than a line.
            let screen = Screen { width: Some(width), depth: Some(6), colour: width % 2 == 0, ..Screen::default() };
            let mut out = Vec::new();
            StacksAnswer::new(&report, "trace").write(Form::Text, &screen, &mut out).unwrap();
            let plain = String::from_utf8(out).unwrap().replace("\x1b[1;36m", "").replace("\x1b[0m", "");
            for line in plain.lines() {
                let is_word = !line.trim().contains(' ') || line.contains("): ");
                assert!(line.chars().count() <= width || is_word, "{} at {width}:\n{line}", path.display());
            }
            let text = table(&report, Some(width));
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{} at {width}:\n{line}", path.display());
            }
            for frame in report.stacks.iter().flat_map(|stack| stack.telling.iter().take(2)) {
                let Some((file, ..)) = location(frame) else { continue };
                let whole = &frame[file.rfind('/').map_or(0, |at| at + 1)..];
                assert!(
                    text.contains(whole) || whole.chars().count() + 4 > width,
                    "{}, {width}: {whole}\n{text}",
                    path.display()
                );
            }
        }
    }
}

/// From the width of an old terminal on.
#[test]
fn diffs_fit_the_screen() {
    let mut pairs = vec![["costs.json", "costs_later.json"].map(|name| PathBuf::from(testdata(name)))];
    if let Some(shared) = crate::support::shared() {
        let trace = |name: &str| shared.join(format!("traces/HTA__trace_diff_{name}.json.gz"));
        pairs.push(["control_a100", "test_v100_cudagraph"].map(trace));
    }
    for [before, after] in pairs {
        let diff = Diff::new(("before", report(&before)), ("after", report(&after)), Per::Step);
        for width in 80..=200 {
            let mut out = Vec::new();
            let screen = Screen { width: Some(width), ..Screen::default() };
            DiffAnswer { diff: &diff, on_page: OnPage::default() }.write(Form::Table, &screen, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{} at {width}:\n{line}", before.display());
            }
            for change in &diff.changes {
                let frame = &change.telling[0];
                let end: String = frame.chars().take(12).collect();
                assert!(text.contains(&end), "{width}: {frame}\n{text}");
            }
        }
    }
}

/// If no frame is the user's own Python, the frames that every collective passes through are left out: they show nothing.
#[test]
fn frames_above_the_collective_are_shown() {
    let text = table(&report(testdata("ddp_backward.json.gz").as_ref()), None);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].ends_with("  autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"), "{text}");
    assert!(lines[2].ends_with("  DistributedDataParallel.forward"), "{text}");
    assert!(lines[3].ends_with("  [no launch: before the first recorded call]") && lines.len() == 4, "{text}");
    let only = report(testdata("evidence.json").as_ref());
    assert!(only.stacks.iter().all(|stack| stack.telling == ["serve.py(1): main"]), "{only:?}");
}

/// All columns with frames beside them, all with frames below, and the columns that remain where there is no room.
#[test]
fn a_narrow_screen_has_fewer_columns() {
    let report = report(testdata("costs.json").as_ref());
    let columns = |width| {
        table(&report, width)
            .lines()
            .next()
            .unwrap()
            .split("  ")
            .filter(|c| !c.is_empty())
            .map(|c| c.trim().to_owned())
            .collect::<Vec<_>>()
    };
    let all = ["#", "count", "GPU time", "share", "exposed", "mean", "max", "collective", "busbw (GB/s)"];
    let beside = [&all[..], &["called from, innermost first"]].concat();
    assert_eq!(columns(None), beside);
    assert_eq!(columns(Some(132)), beside);
    assert_eq!(columns(Some(100)), all);
    assert_eq!(columns(Some(45)), ["#", "count", "GPU time", "share", "exposed"]);
    assert_eq!(columns(Some(10)), ["#", "count", "GPU time"]);
    let text = table(&report, Some(45));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], " 1      4  500.0 µs  25.0 %  200.0 µs");
    assert_eq!(lines[2..4], ["    model.py(50): backward", "    train.py(10): main"]);
    assert_eq!(lines[4], " 2      2   30.0 µs   1.5 %   20.0 µs");
}
