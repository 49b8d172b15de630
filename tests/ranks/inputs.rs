//! What the ranks are read from: traces, parts, archives, in any order and mixture; and traces that are broken, of an unknown rank, of
//! another job or of other steps.

use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::job::{How, Job, Late, Offsets, When};
use crate::support::pack::{tar_of, zip_of};
use crate::support::program::{ended, run, stderr, stdout};

/// A job of four ranks whose clocks differ.
pub(crate) fn small() -> Job {
    Job { steps: 3, layers: 3, offsets: Offsets::Random { max_ns: 1_000_000 }, ..Job::default() }
}

/// One whose rank 2 is late in each step.
pub(crate) fn late() -> Job {
    let how = How::Cpu { function: "mlp.py(50): mlp".to_owned() };
    Job { late: Some(Late { rank: 2, extra_ns: 300_000, how, when: When::EveryStep }), ..small() }
}

/// Traces in a folder of their own.
pub(crate) struct Files {
    folder: TempDir,
}

impl Files {
    pub(crate) fn new(job: &Job) -> Self {
        let files = Files { folder: tempfile::tempdir().unwrap() };
        job.make().traces.into_iter().for_each(|(rank, text)| {
            files.put(&format!("rank{rank}.json"), &text);
        });
        files
    }

    /// Writes a file.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn root(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    /// Writes the trace of a rank again, with the text of each event as it is edited: `None` leaves it out. Not as parsed JSON, whose floating point
    /// numbers would change the times.
    pub(crate) fn edited(&self, rank: u32, name: &str, mut edit: impl FnMut(&str) -> Option<String>) -> String {
        let text = std::fs::read_to_string(self.path(&format!("rank{rank}.json"))).unwrap();
        self.put(name, with_edited_events(&text, &mut edit).as_bytes())
    }

    /// The traces of some ranks.
    pub(crate) fn ranks(&self, ranks: &[u32]) -> Vec<String> {
        ranks.iter().map(|rank| self.path(&format!("rank{rank}.json"))).collect()
    }
}

/// The text of a made trace, with that of each event as it is edited.
pub(crate) fn with_edited_events(text: &str, mut edit: impl FnMut(&str) -> Option<String>) -> String {
    const BETWEEN: &str = "\n  {\n    ";
    let (header, events) = text.split_once(BETWEEN).unwrap();
    let events = events.split(BETWEEN).filter_map(|event| Some(format!("{BETWEEN}{}", edit(event)?)));
    header.to_owned() + &events.collect::<String>()
}

fn ranks_of<S: AsRef<str>>(traces: &[S], options: &[&str]) -> Output {
    let traces: Vec<&str> = traces.iter().map(AsRef::as_ref).collect();
    run(&[&["ranks", "--quiet"], options, &traces].concat())
}

/// The answer, without the line that lists the arguments.
fn answer<S: AsRef<str>>(traces: &[S], options: &[&str]) -> Value {
    let output = ranks_of(traces, &[&["--json"], options].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(answer.as_object_mut().unwrap().remove("trace").is_some());
    answer
}

/// Without the names of the traces of each rank.
fn without_names(mut answer: Value) -> Value {
    for rank in answer["ranks"].as_array_mut().unwrap() {
        assert!(rank.as_object_mut().unwrap().remove("trace").is_some());
    }
    answer
}

/// What is said on standard error where there is no answer.
#[track_caller]
fn refused<S: AsRef<str>>(traces: &[S], options: &[&str]) -> String {
    let output = ranks_of(traces, options);
    assert_eq!(output.status.code(), Some(1), "{}{}", stdout(&output), stderr(&output));
    assert!(output.stdout.is_empty(), "{}", stdout(&output));
    stderr(&output)
}

#[track_caller]
pub(crate) fn assert_names(said: &str, words: &[&str]) {
    words.iter().for_each(|word| assert!(said.contains(word), "{word:?} is not in {said:?}"));
}

#[test]
fn the_order_of_files_is_nothing() {
    let files = Files::new(&Job { tp: 2, pp: 2, ..late() });
    for options in [&["--format", "csv"][..], &["--format", "perfetto"], &["--clock", "none", "--format", "csv"]] {
        let first = ranks_of(&files.ranks(&[0, 1, 2, 3]), options);
        assert_eq!(first.status.code(), Some(0), "{}", stderr(&first));
        for order in [[3, 2, 1, 0], [1, 3, 0, 2]] {
            assert_eq!(ranks_of(&files.ranks(&order), options).stdout, first.stdout, "{options:?} {order:?}");
        }
    }
    let first = answer(&files.ranks(&[0, 1, 2, 3]), &[]);
    for order in [[3, 2, 1, 0], [2, 0, 3, 1]] {
        assert_eq!(answer(&files.ranks(&order), &[]), first, "{order:?}");
    }
    assert_eq!(answer(&[files.root()], &["--threads", "1"]), first);
}

#[test]
fn parts_and_traces_may_be_mixed() {
    let files = Files::new(&late());
    let traces = files.ranks(&[0, 1, 2, 3]);
    let parts = crate::ranks::parts::parts_of(&files, &traces, &[]);
    let part = |rank: u32| format!("{parts}/rank{rank}.part.json");
    let all = answer(&traces, &[]);
    assert_eq!(answer(&[&part(0), &traces[1], &part(2), &traces[3]], &[]), all);
    assert_eq!(answer(&[&traces[2], &part(3), &traces[0], &part(1)], &[]), all);
    // A part and the trace that it is of are the same rank, once.
    let both = [&traces[..], &[part(0)]].concat();
    assert_eq!(answer(&both, &[]), all);
    let said = format!("There twice, and counted once: {} and its part\n", traces[0]);
    assert_names(&stderr(&ranks_of(&both, &[])), &[&said]);
}

#[test]
fn traces_in_archives_are_the_same() {
    let files = Files::new(&late());
    let all = without_names(answer(&[files.root()], &[]));
    let texts = [1, 0, 3, 2]
        .map(|rank| (format!("rank{rank}.json"), std::fs::read(files.path(&format!("rank{rank}.json"))).unwrap()));
    let members = texts.each_ref().map(|(name, text)| (&name[..], &text[..]));
    let tar = files.put("job/all.tar", &tar_of(&members));
    let zip = files.put("job/all.zip", &zip_of(&members));
    // The rest of an archive that is cut off is missing from the parts, which say so.
    let whole = std::fs::read(&tar).unwrap();
    let cut = files.put("job/cut.tar", &whole[..whole.len() * 5 / 8]);
    let part = format!("{cut}.part.json");
    let output = ended(&["part", "--quiet", &cut, "--output", &part], 6);
    assert_names(&stderr(&output), &["An archive is damaged"]);
    let damage = run(&["--quiet", &part]);
    assert_names(&stderr(&damage), &["cut off"]);
    std::fs::remove_file(cut).unwrap();
    for archive in [tar, zip] {
        let of_archive = answer(&[&archive], &[]);
        for (rank, of) in (0..).zip(of_archive["ranks"].as_array().unwrap()) {
            assert_names(of["trace"].as_str().unwrap(), &[&format!("rank{rank}.json")]);
        }
        assert_eq!(without_names(of_archive), all, "{archive}");
        let part = format!("{archive}.part.json");
        assert_eq!(run(&["part", "--quiet", &archive, "--output", &part]).status.code(), Some(0));
        assert_eq!(std::fs::read_to_string(&part).unwrap().lines().count(), 4, "a line for each trace of {archive}");
        assert_eq!(without_names(answer(&[&part], &[])), all, "{archive}");
    }
}

#[test]
fn a_copy_of_a_rank_counts_once() {
    let files = Files::new(&small());
    let all = answer(&[files.root()], &[]);
    let again = files.put("again/rank0.json", &std::fs::read(files.path("rank0.json")).unwrap());
    let said = stderr(&ranks_of(&[files.root(), &again], &[]));
    assert_names(&said, &["There twice, and counted once: ", &files.path("rank0.json"), &again]);
    assert_eq!(answer(&[files.root(), &again], &[])["ranks"], all["ranks"]);
    // Given again by the same name it is one file.
    assert_eq!(answer(&[files.root(), &files.path("rank0.json")], &[]), all);
}

/// The name of a file is a hint, which the header overrules: on several hosts it has the local rank.
#[test]
fn the_header_overrules_the_name_of_a_file() {
    let files = Files::new(&small());
    let all = without_names(answer(&[files.root()], &[]));
    for name in ["rank7.json", "local_rank1.json", "worker7.json"] {
        let renamed = files.put(&format!("named/{name}"), &std::fs::read(files.path("rank0.json")).unwrap());
        let mut traces = files.ranks(&[1, 2, 3]);
        traces.push(renamed);
        assert_eq!(without_names(answer(&traces, &[])), all, "{name}");
        assert_eq!(without_names(answer(&traces, &["--rank", &format!("0={name}")])), all);
        assert_eq!(without_names(answer(&traces, &["--rank", &format!("0=named/{name}")])), all);
        for (given, says) in [("0=rank8.json", "no such trace"), (name, "--rank")] {
            let output = ranks_of(&traces, &["--rank", given]);
            assert_eq!(output.status.code(), Some(2), "{given}: {}", stderr(&output));
            assert_names(&stderr(&output), &[says]);
        }
    }
    // Each host names its files by its local ranks.
    let traces = [0, 1, 2, 3].map(|rank| {
        let trace = std::fs::read(files.path(&format!("rank{rank}.json"))).unwrap();
        files.put(&format!("hosts/node{}/rank{}.json", rank / 2, rank % 2), &trace)
    });
    assert_eq!(without_names(answer(&traces, &[])), all);
}

/// Some exporters move kernels that overlap others of their stream to another thread, and the stream stays in the arguments. Kernels that a graph
/// replays have no record, so their group is that of their stream.
#[test]
fn the_stream_of_a_kernel_is_not_always_its_thread() {
    let files = Files::new(&Job { graphs: true, ..late() });
    let moved = |folder: &str, keeps_stream: bool| -> Vec<String> {
        let of_rank = |rank: u32| {
            let (mut kernels, mut is_moved) = (0, false);
            files.edited(rank, &format!("{folder}/rank{rank}.json"), |event| {
                let is_kernel = event.contains("\"cat\": \"kernel\"");
                if is_kernel {
                    kernels += 1;
                    // Other kernels on each rank, as those that overlap are.
                    is_moved = kernels % (rank + 2) == 0;
                }
                // The end of its flow follows a kernel.
                if !is_moved || !is_kernel && !event.contains("\"ph\": \"f\"") {
                    return Some(event.to_owned());
                }
                let (before, rest) = event.split_once("\"tid\": ").unwrap();
                let (stream, rest) = rest.split_once(',').unwrap();
                let rest = if keeps_stream { rest.to_owned() } else { rest.replace("\"stream\"", "\"lost\"") };
                Some(format!("{before}\"tid\": \"{stream}_hack\",{rest}"))
            })
        };
        (0..4).map(of_rank).collect()
    };
    let expected = without_names(answer(&[files.root()], &[]));
    assert_eq!(expected["groups"].as_array().unwrap().len(), 1, "{}", expected["groups"]);
    let mut of_moved = without_names(answer(&moved("moved", true), &[]));
    of_moved["damage"]["text_bytes"] = expected["damage"]["text_bytes"].clone();
    assert_eq!(of_moved, expected);
    let output = ranks_of(&moved("lost", false), &["--json"]);
    let groups =
        |output: &Output| serde_json::from_str::<Value>(&stdout(output)).map(|answer| answer["groups"].clone());
    assert_ne!(groups(&output).ok().as_ref(), Some(&expected["groups"]), "nothing says that they are of one stream");
}

/// A trace of which nothing says which rank it is.
fn nameless(files: &Files, rank: u32, name: &str) -> String {
    let text = std::fs::read_to_string(files.path(&format!("rank{rank}.json"))).unwrap();
    let text = text.replace("\"distributedInfo\"", "\"somethingElse\"").replace("\"Process Group Ranks\"", "\"Else\"");
    files.put(name, text.as_bytes())
}

#[test]
fn a_trace_without_a_rank_asks_for_one() {
    let files = Files::new(&small());
    let traces = [nameless(&files, 0, "nameless/a.json"), nameless(&files, 1, "nameless/b.json")];
    let said = refused(&traces, &[]);
    assert_names(&said, &["nameless/a.json", "--rank RANK=TRACE"]);
    let said = refused(&traces, &["--rank", "0=a.json"]);
    assert_names(&said, &["nameless/b.json", "--rank RANK=TRACE"]);
    let report = answer(&traces, &["--rank", "1=b.json", "--rank", "0=a.json"]);
    let whole = answer(&files.ranks(&[0, 1]), &[]);
    for field in ["offset_ns", "waited_ns", "caused_ns", "kernels"] {
        for rank in 0..2 {
            assert_eq!(report["ranks"][rank][field], whole["ranks"][rank][field], "{field}");
        }
    }
    // The name of the file alone is enough.
    let named = [nameless(&files, 0, "named/x_rank0.json"), nameless(&files, 1, "named/x_rank1.json")];
    assert_eq!(without_names(answer(&named, &[])), without_names(report));
}

#[test]
fn a_broken_trace_costs_its_rank() {
    let files = Files::new(&small());
    let broken = files.put("broken/rank3.json", b"<html>502 Bad Gateway</html>");
    let mut traces = files.ranks(&[0, 1, 2]);
    traces.push(broken.clone());
    let output = ranks_of(&traces, &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_names(&stderr(&output), &["Left out", &broken]);
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["missing_ranks"], json!([3]));
    let text = ranks_of(&traces, &[]);
    assert_eq!(text.status.code(), Some(0));
    assert_names(&refused(&traces, &["--strict"]), &[&broken]);
    let mut without = files.ranks(&[0, 1, 2]);
    let mut expected = answer(&without, &[]);
    let mut report = report;
    report.as_object_mut().unwrap().remove("trace");
    assert_eq!(report, expected);
    // What there is of a trace that was cut is compared.
    let whole = std::fs::read(files.path("rank3.json")).unwrap();
    without.push(files.put("cut/rank3.json", &whole[..whole.len() * 97 / 100]));
    let output = ranks_of(&without, &["--json"]);
    assert_eq!(output.status.code(), Some(6), "{}", stderr(&output));
    assert_names(&stderr(&output), &["cut/rank3.json"]);
    expected = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(expected["missing_ranks"], json!([]));
    assert_names(&refused(&without, &["--strict"]), &["cut/rank3.json"]);
}

#[test]
fn a_missing_rank_is_named() {
    let files = Files::new(&Job { missing: vec![1], ..late() });
    let report = answer(&[files.root()], &[]);
    assert_eq!((&report["missing_ranks"], &report["world_size"]), (&json!([1]), &json!(4)));
    let matches = &report["matches"];
    assert_eq!((&matches["matched"], &matches["partial"]), (&json!(0), &matches["kernels"]), "{matches}");
    let text = stdout(&ranks_of(&[files.root()], &[]));
    assert_names(&text, &["Not here: rank 1. "]);
    assert!(!text.contains("record the other ranks"), "{text}");
    let kernels = matches["kernels"].as_u64().unwrap();
    let page = stdout(&ranks_of(&[files.root()], &["--format", "html"]));
    assert_names(&page, &[&format!("{kernels} of {kernels} kernels matched, with the ranks that are here")]);
}

#[test]
fn a_trace_of_another_job_is_left_out() {
    let files = Files::new(&small());
    let large = Files::new(&Job { tp: 8, steps: 3, layers: 3, ..Job::default() });
    let mut traces = files.ranks(&[0, 1, 2]);
    let expected = answer(&traces, &[]);
    let other = large.path("rank3.json");
    traces.push(other.clone());
    let mut report = answer(&traces, &[]);
    let [refusal] = &report["refused"].as_array().unwrap()[..] else { panic!("{}", report["refused"]) };
    assert_eq!((&refusal["trace"], &refusal["rank"]), (&json!(other), &json!(3)));
    assert_names(refusal["why"].as_str().unwrap(), &["a job of 8 ranks", "4"]);
    assert!(report["notes"].to_string().contains("a job of 8 ranks"), "{}", report["notes"]);
    report["refused"] = json!([]);
    report["notes"] = expected["notes"].clone();
    // It was given, and is not here all the same.
    let first = report["verdict"][0].as_str().unwrap();
    assert!(first.starts_with("Left out: rank 3, since it is of a job of 8 ranks, the others of one of 4."), "{first}");
    report["verdict"][0] = expected["verdict"][0].clone();
    assert_eq!(report, expected);
    let text = ranks_of(&traces, &[]);
    assert_eq!(text.status.code(), Some(0));
    assert_names(&(stdout(&text) + &stderr(&text)), &[&other, "a job of 8 ranks"]);
    assert_names(&stderr(&ranks_of(&traces, &["--json"])), &["Left out", &other]);
    assert_names(&refused(&traces, &["--strict"]), &[&other, "a job of 8 ranks"]);
    // As many of one as of the other: neither is the other job.
    let halves =
        [files.path("rank0.json"), files.path("rank1.json"), large.path("rank2.json"), large.path("rank3.json")];
    assert_names(&refused(&halves, &[]), &["rank0.json is of a job of 4 ranks", "rank2.json of one of 8"]);
}

/// A rank whose collectives are at other times: from another run, with more work in each step.
#[test]
fn a_rank_of_another_run_is_not_averaged() {
    let files = Files::new(&Job { steps: 6, layers: 8, ..small() });
    for seed in [77, 78, 79] {
        let how = How::SlowCpu { factor: 2.5 };
        let late = (0..4).map(|rank| Late { rank, extra_ns: 0, how: how.clone(), when: When::EveryLayer }).nth(3);
        let other = Files::new(&Job { steps: 6, layers: 8, seed, late, jitter_ns: 900_000, ..small() });
        let mut traces = files.ranks(&[0, 1, 2]);
        traces.push(other.path("rank3.json"));
        let output = ranks_of(&traces, &["--json"]);
        let said = stderr(&output);
        match output.status.code() {
            Some(1) => assert_names(&said, &["do not fit together", "--clock none"]),
            Some(0) => {
                let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
                let [refusal] = &report["refused"].as_array().unwrap()[..] else {
                    panic!("seed {seed}: {}", report["refused"])
                };
                assert_eq!(refusal["rank"], 3, "seed {seed}: {refusal}");
                assert_names(&said, &["Left out", &traces[3]]);
                assert_names(&refused(&traces, &["--strict"]), &[&traces[3]]);
            }
            code => panic!("{code:?}: {said}"),
        }
        // Two of one run and two of the other.
        let halves =
            [files.path("rank0.json"), files.path("rank1.json"), other.path("rank2.json"), other.path("rank3.json")];
        assert_names(&refused(&halves, &[]), &["do not fit together"]);
    }
}

/// PyTorch numbers collectives, and those of other steps have other numbers.
#[test]
fn a_rank_of_later_steps_is_not_matched() {
    let files = Files::new(&small());
    let text = std::fs::read_to_string(files.path("rank3.json")).unwrap();
    let after = |text: &str, key: &str, more: &dyn Fn(&str) -> String| -> String {
        let parts = text.split_inclusive(key).enumerate();
        parts.map(|(at, part)| if at == 0 { part.to_owned() } else { more(part) }).collect()
    };
    let later = after(&text, "\"Seq\": ", &|part| format!("70{part}"));
    assert!(later.contains("\"Seq\": 701"));
    // A minute later.
    let later = after(&later, "\"ts\": ", &|part| {
        let number = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        format!("{}{}", part[..number].parse::<f64>().unwrap() + 6e7, &part[number..])
    });
    let mut traces = files.ranks(&[0, 1, 2]);
    traces.push(files.put("later/rank3.json", later.as_bytes()));
    let report = answer(&traces, &[]);
    let matches = &report["matches"];
    assert_eq!(matches["matched"], 0);
    assert_eq!(matches["unmatched"], json!({ "no other rank has it": 9 }));
    assert_eq!(matches["partial"], 27);
    assert!(report["ranks"][3]["offset_ns"].is_null(), "{}", report["ranks"][3]);
    assert_eq!((&report["ranks"][3]["waited_ns"], &report["ranks"][3]["caused_ns"]), (&json!(0), &json!(0)));
    // Of rank 3 nothing is measured.
    let text = stdout(&ranks_of(&traces, &[]));
    let unknown =
        |rank: &str| text.lines().find(|line| line.starts_with(rank)).is_some_and(|line| line.contains(" ? "));
    assert_eq!([unknown("    2 "), unknown("    3 ")], [false, true], "{text}");
    assert_eq!(report["clock"]["refused"].as_array().unwrap().len(), 1);
}

#[test]
fn bounds_decide_the_exit_code() {
    let files = Files::new(&late());
    let code = |bounds: &[&str]| {
        let options: Vec<&str> = bounds.iter().flat_map(|bound| ["--fail-if", bound]).collect();
        let output = ranks_of(&[files.root()], &options);
        (output.status.code().unwrap(), stderr(&output), stdout(&output))
    };
    let (exceeded, said, text) = code(&["waited>1%"]);
    assert_eq!(exceeded, 5, "{said}");
    assert_names(&said, &["waited>1%"]);
    assert!(!text.is_empty(), "the answer is there all the same");
    for bound in ["waited>100%", "waited > 100 %", "late>1000000", "caused(rank=0)>100s"] {
        assert_eq!(code(&[bound]).0, 0, "{bound}");
    }
    for bound in ["caused(rank=2)>1us", "caused( rank = 2 ) > 10%", "late(rank=2)>0", "waited>0.5ms"] {
        assert_eq!(code(&[bound]).0, 5, "{bound}");
    }
    let (both, said, _) = code(&["waited>100%", "late>0"]);
    assert_eq!(both, 5);
    assert!(said.contains("late>0") && !said.contains("waited>100%"), "{said}");
    for bound in [
        "waited",
        "waited>",
        "waited<1%",
        "waited>lots",
        "waited>1%%",
        "spent>1%",
        "late>1ms",
        "caused(2)>1%",
        "waited>-",
    ] {
        let (wrong, said, text) = code(&[bound]);
        assert_eq!(wrong, 2, "{bound}: {said}");
        assert!(text.is_empty());
        assert_names(&said, &["--fail-if"]);
    }
    let report = answer(&[files.root()], &[]);
    let of = |field: &str| report[field].as_f64().unwrap();
    let share = of("waited_ns") / of("measured_ns") * 100.0;
    assert_eq!(code(&[&format!("waited>{:.3}%", share - 0.01)]).0, 5);
    assert_eq!(code(&[&format!("waited>{:.3}%", share + 0.01)]).0, 0);
    assert_eq!(code(&[&format!("waited>{}ns", report["waited_ns"])]).0, 0, "beyond is more than");
    assert_eq!(code(&[&format!("waited>{}ns", report["waited_ns"].as_i64().unwrap() - 1)]).0, 5);
}

#[test]
fn without_clocks_lengths_count() {
    let files = Files::new(&late());
    let report = answer(&[files.root()], &["--clock", "none"]);
    let clock = &report["clock"];
    assert_eq!((&clock["method"], &clock["anchors"]), (&json!("none"), &json!(0)));
    assert!(clock["residual_median_ns"].is_null());
    let aligned = answer(&[files.root()], &[]);
    for (rank, with_clock) in report["ranks"].as_array().unwrap().iter().zip(aligned["ranks"].as_array().unwrap()) {
        assert!(rank["offset_ns"].is_null() && rank["uncertainty_ns"].is_null(), "{rank}");
        assert_eq!(rank["possible_offset_ns"], json!([null, null]));
        assert_eq!(rank["waited_ns"], rank["by_lengths"]["waited_ns"]);
        assert_eq!(rank["caused_ns"], rank["by_lengths"]["caused_ns"]);
        assert_eq!(rank["by_lengths"], with_clock["by_lengths"], "lengths need no clock");
    }
    assert!(report["groups"].as_array().unwrap().iter().all(|group| group["by_clocks"] == false));
}

#[test]
fn a_window_is_of_each_rank() {
    let job = Job { offsets: Offsets::Random { max_ns: 1_000_000_000 }, ..late() };
    let files = Files::new(&job);
    let whole = answer(&[files.root()], &[]);
    let kernels = |report: &Value| -> Vec<u64> {
        report["ranks"].as_array().unwrap().iter().map(|rank| rank["kernels"].as_u64().unwrap()).collect()
    };
    let mut sum = vec![0; 4];
    for step in 0..3 {
        let name = format!("ProfilerStep#{step}");
        let report = answer(&[files.root()], &["-f", &name, "--index", "0"]);
        let found = kernels(&report);
        assert_eq!(found[0] * 3, kernels(&whole)[0], "{name}");
        assert!(found.iter().all(|count| *count == found[0]), "{name}: {found:?}");
        let steps: Vec<&str> =
            report["steps"].as_array().unwrap().iter().map(|of| of["name"].as_str().unwrap()).collect();
        assert_eq!(steps, [&name]);
        assert_eq!(report["matches"]["matched"], report["matches"]["kernels"]);
        for (at, rank) in report["ranks"].as_array().unwrap().iter().enumerate() {
            let length = |rank: &Value| {
                rank["window"]["end_ns"].as_i64().unwrap() - rank["window"]["start_ns"].as_i64().unwrap()
            };
            assert!(length(rank) * 2 < length(&whole["ranks"][at]), "{rank}");
        }
        sum.iter_mut().zip(found).for_each(|(sum, count)| *sum += count);
    }
    assert_eq!(sum, kernels(&whole));
    let nothing = ranks_of(&[files.root()], &["-f", "ProfilerStep#9", "--index", "0"]);
    assert_ne!(nothing.status.code(), Some(0), "{}", stdout(&nothing));
}
