//! Config files: where they are found, which of their options apply, and the messages on those that are wrong.

use std::path::Path;
use std::process::{Output, Stdio};

use crate::support::program::{program, run, stderr, stdout, testdata};
use tempfile::TempDir;

/// A folder to run in, with this config file.
fn folder(config: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("nccl-stacks.conf"), config).unwrap();
    folder
}

/// Runs the program in a folder that is also its home, with nothing else that could name a config file.
fn run_in(folder: &Path, args: &[&str]) -> Output {
    let mut program = program();
    program.env_remove("NCCL_STACKS_CONFIG").env_remove("XDG_CONFIG_HOME").env("HOME", folder);
    program.args(args).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

/// Runs it beside a config file.
fn with(config: &str, args: &[&str]) -> Output {
    run_in(folder(config).path(), args)
}

/// The message on the config file.
fn config_note(output: &Output) -> Option<String> {
    stderr(output).lines().find_map(|line| line.strip_prefix("Config: ").map(str::to_owned))
}

/// How many kernels have a stack in an answer, by the note on them.
fn kernels(output: &Output) -> u64 {
    let notes = stderr(output);
    let (_, rest) = notes.split_once("Coverage: ").unwrap_or_else(|| panic!("{notes}"));
    rest.split_once(' ').unwrap().0.parse().unwrap()
}

#[test]
fn the_first_place_that_has_one_counts() {
    let trace = testdata("two_matches.json");
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    for place in
        ["nccl-stacks.conf", ".config/nccl-stacks/nccl-stacks.conf", "xdg/nccl-stacks/nccl-stacks.conf", "a", "b"]
    {
        std::fs::create_dir_all(home.path().join(place).parent().unwrap()).unwrap();
        std::fs::write(home.path().join(place), "").unwrap();
    }
    let run = |args: &[&str], env: &[(&str, &str)]| {
        let mut program = program();
        program.env_remove("NCCL_STACKS_CONFIG").env_remove("XDG_CONFIG_HOME").env("HOME", home.path());
        program.envs(env.iter().copied()).arg(&trace).args(args).current_dir(home.path());
        let output = program.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        config_note(&output)
    };
    let xdg = ("XDG_CONFIG_HOME", path("xdg"));
    let xdg = (xdg.0, xdg.1.as_str());
    let named = ("NCCL_STACKS_CONFIG", "b");
    assert_eq!(run(&["--config", "a"], &[named, xdg]).unwrap(), "a");
    assert_eq!(run(&[], &[named, xdg]).unwrap(), "b");
    assert_eq!(run(&[], &[xdg]).unwrap(), "nccl-stacks.conf");
    assert_eq!(run(&[], &[("NCCL_STACKS_CONFIG", ""), xdg]), None);
    assert_eq!(run(&["--no-config"], &[named, xdg]), None);
    std::fs::remove_file(home.path().join("nccl-stacks.conf")).unwrap();
    assert_eq!(run(&[], &[xdg]).unwrap(), path("xdg/nccl-stacks/nccl-stacks.conf"));
    assert_eq!(run(&[], &[]).unwrap(), path(".config/nccl-stacks/nccl-stacks.conf"));
    assert_eq!(run(&[], &[("XDG_CONFIG_HOME", "xdg")]).unwrap(), path(".config/nccl-stacks/nccl-stacks.conf"));
}

#[test]
fn a_file_that_was_named_has_to_be_there() {
    let trace = testdata("two_matches.json");
    let output = with("", &[&trace, "--config", "no_such.conf"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no_such.conf: cannot be read"), "{}", stderr(&output));
    let both = run(&[&trace, "--config", "a", "--no-config"]);
    assert_eq!(both.status.code(), Some(2), "{}", stderr(&both));
}

/// The trace has 3 AllReduce and 1 AllGather, below one and two functions.
#[test]
fn the_command_line_wins() {
    let trace = testdata("two_matches.json");
    let gather = "# one kind\n--kernel-name=ncclDevKernel_AllGather\n\n  --stack-depth=1  \n";
    let output = with(gather, &[&trace, "--format", "script"]);
    assert_eq!(config_note(&output).unwrap(), "nccl-stacks.conf (--kernel-name, --stack-depth)");
    let want = "Found 1 unique call stacks:\n\nc10d::_allgather_base_\n ->\ncudaLaunchKernelExC\nAppeared 1 times\n\n";
    assert_eq!(stdout(&output), want);
    // A list on the command line replaces the file's.
    let all = ["--kernel-name", "ncclDevKernel_AllReduce", "--stack-depth", "0", "--format", "script"];
    let output = with(gather, &[&[trace.as_str()], &all[..]].concat());
    assert_eq!(config_note(&output).unwrap(), "nccl-stacks.conf");
    assert_eq!(kernels(&output), 3);
    // Both stacks begin with the outermost caller.
    assert_eq!(stdout(&output).matches("\n\ntrain.py(12): main\n").count(), 2, "{}", stdout(&output));
    assert_eq!(config_note(&with(gather, &[&trace, "--quiet"])), None, "quiet from the first line on");
    // A file does not hide that it was read.
    assert_eq!(stderr(&with("--quiet", &[&trace])), "Config: nccl-stacks.conf (--quiet)\n");
    // --family answers the same question.
    let output = with(gather, &[&trace, "--family", "nccl"]);
    assert_eq!((kernels(&output), config_note(&output).unwrap().as_str()), (4, "nccl-stacks.conf (--stack-depth)"));
    assert_eq!(kernels(&with("--family=deepep", &[&trace, "-k", "ncclDevKernel_AllGather"])), 1);
}

#[test]
fn a_typed_option_may_rest_on_one_of_the_file() {
    let trace = testdata("two_matches.json");
    let step = "--threads=1\n--function-name=%train_step";
    // One kernel in the first of these slices, two in the second.
    assert_eq!(kernels(&with(step, &[&trace, "--index", "0"])), 1);
    assert_eq!(kernels(&with(step, &[&trace, "--index", "1"])), 2);
    assert_eq!(with("", &[&trace, "--index", "1"]).status.code(), Some(2));
    // A span of time overrides a function wherever that is named.
    assert_eq!(kernels(&with(step, &[&trace, "--start-ts", "0", "--duration", "1s"])), 4);
}

#[test]
fn the_file_never_contradicts_the_command_line() {
    let trace = testdata("two_matches.json");
    let asking = "--interactive";
    let output = with(asking, &[&trace]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--interactive needs a terminal"), "{}", stderr(&output));
    assert_eq!(kernels(&with(asking, &[&trace, "--function-name", "%train_step", "--index", "1"])), 2);
    assert_eq!(kernels(&with(asking, &[&trace, "--no-interactive"])), 4);
    // --json is short for another --format, and the file's --index has no function here.
    let output = with("--json\n--index=1", &[&trace, "--format", "csv"]);
    assert_eq!((config_note(&output).unwrap().as_str(), output.status.code()), ("nccl-stacks.conf", Some(0)));
}

#[test]
fn switches_are_turned_on_and_off() {
    let damaged = testdata("damaged.json");
    let code = |config: &str, args: &[&str]| with(config, &[&[damaged.as_str()], args].concat()).status.code();
    assert_eq!(code("", &[]), Some(6));
    assert_eq!(code("--strict", &[]), Some(1));
    assert_eq!(code("--strict", &["--no-strict"]), Some(6));
    assert_eq!(code("--strict", &["--no-config"]), Some(6));
    assert_eq!(code("--strict", &["--strict"]), Some(1));
    assert_eq!(code("--no-strict", &["--strict"]), Some(1));
    assert_eq!(code("", &["--strict", "--no-strict"]), Some(6));
}

#[test]
fn commands_take_what_they_have() {
    let trace = testdata("two_matches.json");
    // --sort and --family do not apply to sql; speedscope is no form of it.
    let config = "--format=speedscope\n--sort=mean\n--limit=1\n--family=nccl";
    let output = with(config, &["sql", &trace, "--query", "kernels"]);
    assert_eq!(config_note(&output).unwrap(), "nccl-stacks.conf (--limit)");
    assert_eq!(stdout(&output).lines().count(), 2, "{}", stdout(&output));
    assert!(stdout(&output).contains("Instances"), "{}", stdout(&output));
    // Statements of the user's own have no --limit.
    let output = with("--format=json\n--limit=1", &["sql", &trace, "SELECT 1 AS one"]);
    assert_eq!(config_note(&output).unwrap(), "nccl-stacks.conf (--format)");
    assert_eq!(stdout(&output).trim().replace([' ', '\n'], ""), "[{\"one\":1}]");
    // Options of sql do not apply to the main job.
    assert_eq!(kernels(&with("--param=family=nccl", &[&trace])), 4);
}

#[test]
fn a_whole_trace_is_exported_in_spite_of_defaults_for_a_part() {
    let trace = testdata("two_matches.json");
    let config = "--kernel-name=ncclDevKernel_AllGather\n--function-name=%main\n--threads=1";
    let output = with(config, &["export", &trace, "--sqlite", "trace.db"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(config_note(&output).unwrap(), "nccl-stacks.conf (--threads)");
    let output = with(config, &["export", &trace, "--trace", "part.json.gz"]);
    assert_eq!(config_note(&output).unwrap(), "nccl-stacks.conf (--kernel-name, --function-name, --threads)");
    assert!(stderr(&output).contains(" 1 kernel marked"), "{}", stderr(&output));
}

#[test]
fn families_of_the_users_own_are_for_all_runs() {
    let trace = testdata("two_matches.json");
    let folder = folder("--family-file=mine.json");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("mine.json", r#"{"mine": ["*AllGather*"], "also mine": ["/All(Gather|Reduce)_Sum/"]}"#);
    write("more.json", r#"{"more": ["ncclDevKernel_AllReduce"]}"#);
    let run = |args: &[&str]| run_in(folder.path(), &[&[trace.as_str()], args].concat());
    assert_eq!(kernels(&run(&["--family", "mine"])), 1);
    assert_eq!(kernels(&run(&["--family", "also mine"])), 3);
    assert_eq!(kernels(&run(&["--family-file", "more.json", "--family", "more"])), 3);
    let unknown = run(&["--family", "yours"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("the families are also mine, mine, nccl"), "{}", stderr(&unknown));
}

#[test]
fn mistakes_are_reported_with_file_and_line() {
    let trace = testdata("two_matches.json");
    let unexpected = "unexpected argument '--stak-depth' found";
    for (config, line, messages) in [
        ("stack-depth=4", 1, &["stack-depth=4: expected an option with its value, such as --sort=gpu"][..]),
        ("--sort=gpu\n--sort=mean", 2, &["the argument '--sort <BY>' cannot be used multiple times"]),
        ("--quiet\n\n--verbose", 3, &["the argument '--quiet' cannot be used with '--verbose'"]),
        ("# depth\n  --stak-depth=4", 2, &[unexpected, "a similar argument exists: '--stack-depth'"]),
        ("--sort gpu", 1, &["unexpected argument '--sort gpu' found"]),
        ("--sort=size", 1, &["invalid value 'size' for '--sort <BY>'", "[possible values: count, gpu, exposed, mean"]),
        ("--sort", 1, &["a value is required for '--sort <BY>'"]),
        ("--threads=0", 1, &["expected a whole number from 1 up"]),
        ("--min-share=101.5", 1, &["expected a number from 0 to 100"]),
        ("--strict=yes", 1, &["unexpected value 'yes' for '--strict' found"]),
    ] {
        let output = with(config, &[&trace]);
        let text = stderr(&output);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""), "{config}\n{text}");
        assert!(text.starts_with(&format!("error: nccl-stacks.conf:{line}: ")), "{config}\n{text}");
        assert!(messages.iter().all(|message| text.contains(message)), "{config}\n{text}");
        assert!(!text.contains("Usage") && !text.contains("--help"), "{config}\n{text}");
    }
}

/// A file in the current folder may be of a stranger's.
#[test]
fn a_file_chooses_no_files() {
    let trace = testdata("two_matches.json");
    for name in ["trace", "output", "sqlite", "capture-trace", "records", "file", "config", "help", "version"] {
        let output = with(&format!("--{name}=x"), &[&trace]);
        let why = "is not for a config file: it names a file of one run, or asks about the program";
        let expected = format!("error: nccl-stacks.conf:1: --{name} {why}\n");
        assert_eq!((output.status.code(), stderr(&output)), (Some(1), expected), "{name}");
    }
}

/// Not every run reads it.
#[test]
fn help_and_commands_without_a_trace_leave_it_alone() {
    for args in [&["--help"][..], &["--version"], &["sql", "--help"], &["man"], &["completions", "bash"]] {
        let output = with("this is no option", args);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{args:?}");
    }
    // What is wrong with the arguments alone is reported as ever.
    for args in
        [&["--bogus"][..], &["t.json", "--sort", "size"], &["sql"], &["ranks", "--limit"], &["sql", "t.json", "--file"]]
    {
        let (with_file, without) = (with("--sort=gpu", args), run(args));
        assert_eq!((with_file.status.code(), without.status.code()), (Some(2), Some(2)), "{args:?}");
        assert_eq!(stderr(&with_file), stderr(&without), "{args:?}");
    }
}

#[test]
fn the_documentation_shows_a_config_file() {
    let page = include_str!("../../docs/options.md");
    let example = page.split_once("go into `nccl-stacks.conf`:\n\n```text\n").unwrap().1.split_once("```\n").unwrap().0;
    let folder = folder(example);
    std::fs::write(folder.path().join("families.json"), r#"{"mine": ["myAllReduce*"]}"#).unwrap();
    let output = run_in(folder.path(), &[&testdata("two_matches.json")]);
    let names = "--family-file, --family, --family, --user-code, --stack-depth";
    assert_eq!(config_note(&output).unwrap(), format!("nccl-stacks.conf ({names})"));
}
