//! Several traces in one answer, and what a screen shows of it.

use crate::support::events::tied;
use crate::support::pack::{gzip, tar_of_files};
use crate::support::program::{
    ended, has, json_of, program, refused, run, says, scratch, stderr, stderr_of, stdout, testdata, trace_of,
};
use serde_json::{Value, json};

/// The answer in JSON without the names of the traces.
fn answer(args: &[&str]) -> Value {
    let mut answer: Value = json_of(&[&["--json", "--sort", "count"], args].concat());
    answer.as_object_mut().unwrap().remove("trace");
    for trace in answer["traces"].as_array_mut().unwrap() {
        trace.as_object_mut().unwrap().remove("name");
    }
    for reason in answer["coverage"]["without_launch"].as_object_mut().unwrap().values_mut() {
        for kernel in reason["first"].as_array_mut().unwrap() {
            kernel.as_object_mut().unwrap().remove("trace");
        }
    }
    answer
}

/// A folder with two traces, which have 13 kernels each.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, from) in [("rank0.json", "costs.json"), ("rank1.json", "costs_later.json")] {
        std::fs::copy(testdata(from), folder.path().join(name)).unwrap();
    }
    std::fs::write(folder.path().join("notes.txt"), "no trace").unwrap();
    folder
}

#[test]
fn files_folders_patterns_and_archives_are_the_same() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (_other, tar) = scratch("job.tar", &tar_of_files(["rank0.json", "rank1.json"].map(path)));
    let files = answer(&[&path("rank0.json"), &path("rank1.json")]);
    assert_eq!(files["kernels_in_trace"], 26);
    assert_eq!(files["traces"].as_array().unwrap().len(), 2);
    for args in [&[folder.path().to_str().unwrap()][..], &[&path("rank*.json")], &[&tar]] {
        for threads in ["1", "3"] {
            let again = answer(&[args, &["--threads", threads]].concat());
            assert!(again == files, "{args:?} with {threads} threads");
        }
    }
    // A file that is named twice is one rank.
    assert_eq!(answer(&[&path("rank0.json"), &path("rank0.json")]), answer(&[&path("rank0.json")]));
    // Sums are those of the traces one by one.
    let [one, two] = ["rank0.json", "rank1.json"].map(|name| answer(&[&path(name)]));
    for sum in ["wall_ns", "busy_ns", "compute_ns", "collectives_ns", "exposed_ns", "gpus"] {
        let [all, one, two] = [&files, &one, &two].map(|answer| answer["summary"][sum].as_i64().unwrap());
        assert_eq!(all, one + two, "{sum}");
    }
}

#[test]
fn ranks_are_kept_apart_where_asked() {
    let folder = folder();
    let path = folder.path().to_str().unwrap();
    let together = answer(&[path]);
    let apart = answer(&[path, "--per-rank"]);
    let sum = |answer: &Value| -> u64 {
        answer["stacks"].as_array().unwrap().iter().map(|stack| stack["count"].as_u64().unwrap()).sum()
    };
    assert_eq!(sum(&together), sum(&apart));
    assert!(together["stacks"].as_array().unwrap().iter().all(|stack| stack["rank"].is_null()));
    let ranks = |rank: &str| apart["stacks"].as_array().unwrap().iter().filter(|stack| stack["rank"] == rank).count();
    assert_eq!((ranks("rank 0"), ranks("rank 1")), (6, 6), "{apart:#}");
    for (form, want) in
        [("text", "   rank 1:  "), ("table", "  rank 1  "), ("csv", "\nrank 1,"), ("folded", "[rank 1];")]
    {
        says(&[(&[path, "--per-rank", "--format", form], 0, &[want], &[])]);
    }
    // A limit counts stacks, not ranks.
    let twins = tempfile::tempdir().unwrap();
    for name in ["rank0.json", "rank1.json"] {
        std::fs::copy(testdata("costs.json"), twins.path().join(name)).unwrap();
    }
    let limited = answer(&[twins.path().to_str().unwrap(), "--per-rank", "--limit", "1"]);
    assert_eq!(limited["stacks"].as_array().unwrap().len(), 2);
}

/// The trace has train_step three times, at 1, 2 and 3 ms; the copy lies an hour later.
#[test]
fn each_trace_has_its_own_window() {
    let one = std::fs::read_to_string(testdata("two_matches.json")).unwrap();
    let mut later: Value = serde_json::from_str(&one).unwrap();
    for event in later["traceEvents"].as_array_mut().unwrap() {
        if let Some(ts) = event.get("ts").and_then(Value::as_f64) {
            event["ts"] = json!(ts + 3_600e6);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a_rank0.json"), &one).unwrap();
    std::fs::write(folder.path().join("b_rank1.json"), later.to_string()).unwrap();
    let path = folder.path().to_str().unwrap();
    let single = testdata("two_matches.json");
    for args in [
        &["--function-name", "%train_step", "--index", "1"][..],
        &["--start-ts", "+1ms", "--duration", "500us"],
        &["--start-ts", "+0", "--duration", "1s"],
    ] {
        let count = |trace: &str| answer(&[&[trace], args].concat())["coverage"]["kernels"].as_u64().unwrap();
        assert_eq!(count(path), 2 * count(&single), "{args:?}");
        assert!(count(path) > 0, "{args:?}");
    }
    // Both second steps launch what takes 500 µs; the hour between the clocks is no window.
    let second = ["--function-name", "%train_step", "--index", "1"];
    let text = stdout(&run(&[&[path], &second[..]].concat()));
    has(&text, "\nOf 1.00 ms of GPU work on 2 GPUs, summed: GPU busy with any work 30.0 %,");
    assert!(!text.contains("launched within"), "{text}");
    for (args, code, message) in [
        (&["--start-ts", "2ms", "--duration", "1ms"][..], 2, "several traces have clocks of their own"),
        (&["--function-name", "%train_step"], 2, "a_rank0.json: 3 slices have this name; choose one with --index"),
        (&["--function-name", "nothing"], 3, "a_rank0.json: Nothing found: no CPU slice is named `nothing`."),
    ] {
        refused(&[&[path], args].concat(), code, message);
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = folder();
    std::fs::write(folder.path().join("rank2.json"), "not a trace").unwrap();
    let path = folder.path().to_str().unwrap();
    says(&[(&[path], 0, &["Left out: ", "rank2.json"], &[])]);
    ended(&[path, "--strict"], 1);
    // A trace of which nothing can be read is a rank that is missing from the answer.
    let whole = std::fs::read(testdata("sglang_decode.json.gz")).unwrap();
    std::fs::write(folder.path().join("rank4.json.gz"), &whole[..20]).unwrap();
    refused(&[path], 6, "Files that cannot be used: 1");
    std::fs::remove_file(folder.path().join("rank4.json.gz")).unwrap();
    let none = tempfile::tempdir().unwrap();
    let near = "there is no such file; near it: ";
    says(&[
        (&[&format!("{path}/rank7.json")], 1, &[near], &[]),
        (&[&format!("{path}/rank1.jsno")], 1, &[&format!("rank1.jsno: {near}")], &[]),
        (&[none.path().to_str().unwrap()], 1, &["this folder has no traces"], &[]),
        (&["dif", path, path], 1, &["dif: there is no such file; is the command `diff` meant?"], &[]),
        (
            &[&testdata("two_matches.json"), "--kernel-name", "AllGather"],
            3,
            &["--kernel-name '*AllGather*' matches anywhere"],
            &[],
        ),
    ]);
    let help = ended(&["help", "diff"], 0);
    assert_eq!(stderr(&help), "");
    has(&stdout(&help), "Two traces side by side");
}

/// NCCL's, PyTorch's and SGLang's all-reduces, 10, 20, 30 and 40 µs.
#[test]
fn all_libraries_are_asked_for_and_a_narrowed_answer_says_what_it_leaves_out() {
    let names = [
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "void all_reduce_two_shot_push_kernel<4>(Params)",
        "void c10d::(anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(float*)",
        "void all_reduce_one_shot_kernel<2>(Params)",
    ];
    let launched = |(id, name): (u32, &str)| {
        let call = tied("cuda_runtime", "cudaLaunchKernel", (9, 9), id * 10, 2, id);
        [call, tied("kernel", name, (0, 7), id * 1000, id * 10, id)]
    };
    let (_folder, trace) = trace_of(&(1..).zip(names).flat_map(launched).collect::<Vec<_>>());
    let all = answer(&[&trace]);
    assert_eq!(all["stacks"][0]["count"], 4);
    assert_eq!(all["stacks"][0]["messages"]["collectives"], json!({"all_reduce": 4}));
    assert_eq!(all["stacks"][0]["cost"]["gpu_time"]["total_ns"], all["summary"]["collectives_ns"]);
    let none = json!({"collectives_ns": 100_000, "families": [], "fused_ns": 0, "possibly_communication": []});
    assert_eq!(all["not_asked"], none);
    let want = "90.0 µs of 100.0 µs of communication is in kernels that are not asked for: custom-allreduce 90.0 µs.";
    let share = "The kernels asked for take 10.0 µs of 4.03 ms (0.2 %), all of it exposed: no compute kernel hides it.";
    says(&[
        (&[&trace, "--family", "nccl,rccl"], 0, &[want, share], &[]),
        (&[&trace], 0, &[], &["asked for"]),
        (&["diff", &trace, &trace, "--family", "nccl"], 0, &[want], &[]),
    ]);
}

/// A matrix product that communicates hides a collective as computation does, and is neither hidden nor exposed itself: 30 of 50 µs of the
/// all-reduce run beside it.
#[test]
fn products_that_communicate_are_said() {
    let call = tied("cuda_runtime", "cudaLaunchKernel", (9, 9), 0, 2, 1);
    let fused = tied("kernel", "void deep_gemm::sm90_fp8_fp4_mega_moe_impl<1u>(void*)", (0, 7), 10, 40, 1);
    let collective = tied("kernel", "ncclDevKernel_AllReduce", (0, 8), 20, 50, 1);
    let (_folder, trace) = trace_of(&[&call, &fused, &collective]);
    let all = answer(&[&trace]);
    let times = ["collectives_ns", "compute_ns", "exposed_ns"].map(|time| all["summary"][time].as_u64().unwrap());
    assert_eq!((times, &all["not_asked"]["fused_ns"]), ([50_000, 40_000, 20_000], &json!(40_000)));
    let said = "40.0 µs are matrix products that communicate themselves: neither hidden nor exposed.";
    let (_folder, without) = trace_of(&[call, collective]);
    says(&[(&[&trace], 0, &[said], &[]), (&[&without], 0, &[], &["matrix products"])]);
    assert_eq!(answer(&[&trace, "--family", "fused-gemm"])["stacks"][0]["count"], 1);
}

#[test]
fn text_fits_the_screen_in_colours_or_without() {
    let trace = testdata("sglang_decode.json.gz");
    let colours = |args: &[&str], variable: &str| {
        let output = program().args([&[trace.as_str()], args].concat()).env("NO_COLOR", variable).output().unwrap();
        stdout(&output).contains('\u{1b}')
    };
    assert!(!colours(&[], ""), "no terminal");
    assert!(colours(&["--color", "always"], "1"), "what is typed counts more");
    assert!(!colours(&["--color", "never"], ""));
    for args in ["--help", "--nonsense"] {
        let output = program().arg(args).env("NO_COLOR", "1").output().unwrap();
        assert!(!(stdout(&output) + &stderr(&output)).contains('\u{1b}'), "{args}");
    }
    assert_eq!(stderr_of(&[&trace, "--quiet"], 0), "");
    let [text, full] = [&[][..], &["--full-stacks", "--stack-depth", "0"]]
        .map(|args| stdout(&run(&[&[trace.as_str()], args].concat())));
    has(&text, "… 8 frames of sglang.srt.distributed, torch.distributed, c10d");
    assert!(!full.contains("frames of"), "{full}");
    assert!(text.contains("<built-in ") || full.contains("-> <built-in replay>"), "{full}");
    // A prefix makes its files the user's own code.
    let own: Value = json_of(&["--json", "--sort", "count", &trace, "--user-code", "sglang/srt/distributed"]);
    assert_eq!(own["stacks"][1]["headline"], "sglang/srt/distributed/parallel_state.py(497): all_reduce");
}

/// A picture of several traces is not of the last one: it names all that fit, and says how many they are otherwise.
#[cfg(feature = "flamegraph")]
#[test]
fn a_picture_is_of_all_its_traces() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let subtitle = |args: &[&str]| {
        let svg = stdout(&run(&[args, &["--format", "svg"]].concat()));
        let after = svg.split_once("id=\"subtitle\"").unwrap_or_else(|| panic!("{svg:.2000}")).1;
        after.split_once('>').unwrap().1.split_once("</text>").unwrap().0.to_owned()
    };
    assert_eq!(subtitle(&[&path("rank0.json"), &path("rank1.json")]), "rank0.json, rank1.json");
    assert_eq!(subtitle(&[folder.path().to_str().unwrap()]), "rank0.json, rank1.json");
    assert_eq!(subtitle(&[&path("rank1.json")]), "rank1.json");
    for rank in 2..16 {
        std::fs::copy(testdata("costs.json"), path(&format!("rank{rank}.json"))).unwrap();
    }
    assert_eq!(subtitle(&[folder.path().to_str().unwrap()]), "16 traces, rank0.json to rank9.json");
}

/// A trace that was compressed beside itself is one rank; of one that was cut off nobody knows which of the two is meant.
#[test]
fn a_trace_beside_its_copy_counts_once() {
    let folder = folder();
    let path = folder.path().to_str().unwrap();
    let before = answer(&[path]);
    let trace = std::fs::read(testdata("costs.json")).unwrap();
    let copy = folder.path().join("rank0.json.gz");
    std::fs::write(&copy, gzip(&trace)).unwrap();
    says(&[(&[path], 0, &["There twice, and counted once: ", "rank0.json and ", "rank0.json.gz"], &[])]);
    assert_eq!(answer(&[path]), before);
    // Cut off after two thirds of its events.
    let cut = trace.len() * 2 / 3;
    std::fs::write(&copy, &trace[..cut]).unwrap();
    says(&[(&[path], 1, &["rank 0 is there twice: ", "rank0.json and "], &[])]);
    // Another rank with the same times is another rank.
    std::fs::write(folder.path().join("rank7.json"), &trace).unwrap();
    std::fs::remove_file(&copy).unwrap();
    assert_eq!(answer(&[path])["traces"].as_array().unwrap().len(), 3);
}

/// Names need not be text, and a link to what is not there is a trace that is missing.
#[cfg(target_os = "linux")]
#[test]
fn no_file_of_a_folder_is_skipped_silently() {
    use std::os::unix::ffi::OsStrExt;
    let folder = folder();
    let path = folder.path().to_str().unwrap();
    let odd = folder.path().join(std::ffi::OsStr::from_bytes(b"rank2_\xff.json"));
    std::fs::copy(testdata("costs.json"), odd).unwrap();
    let traces = answer(&[path])["traces"].as_array().unwrap().len();
    assert_eq!(traces, 3);
    std::os::unix::fs::symlink("/no/such/file", folder.path().join("rank3.json")).unwrap();
    says(&[(&[path], 0, &["Left out: ", "rank3.json"], &[])]);
}
