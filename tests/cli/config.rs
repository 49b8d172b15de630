//! Config files: where they are found, which settings apply, and the messages on those that are wrong.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::support;

use std::path::Path;
use std::process::{Output, Stdio};

use support::program::{program, run, stderr, stdout, testdata};
use tempfile::TempDir;

/// A folder to run in, with this config file.
fn folder(config: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("nccl-stacks.toml"), config).unwrap();
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
        ["nccl-stacks.toml", ".config/nccl-stacks/nccl-stacks.toml", "xdg/nccl-stacks/nccl-stacks.toml", "a", "b"]
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
    assert_eq!(run(&[], &[xdg]).unwrap(), "nccl-stacks.toml");
    assert_eq!(run(&[], &[("NCCL_STACKS_CONFIG", ""), xdg]), None);
    assert_eq!(run(&["--no-config"], &[named, xdg]), None);
    std::fs::remove_file(home.path().join("nccl-stacks.toml")).unwrap();
    assert_eq!(run(&[], &[xdg]).unwrap(), path("xdg/nccl-stacks/nccl-stacks.toml"));
    assert_eq!(run(&[], &[]).unwrap(), path(".config/nccl-stacks/nccl-stacks.toml"));
    assert_eq!(run(&[], &[("XDG_CONFIG_HOME", "xdg")]).unwrap(), path(".config/nccl-stacks/nccl-stacks.toml"));
}

#[test]
fn a_file_that_was_named_has_to_be_there() {
    let trace = testdata("two_matches.json");
    let output = with("", &[&trace, "--config", "no_such.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no_such.toml: cannot be read"), "{}", stderr(&output));
    let both = run(&[&trace, "--config", "a", "--no-config"]);
    assert_eq!(both.status.code(), Some(2), "{}", stderr(&both));
}

/// The trace has 3 AllReduce and 1 AllGather, below one and two functions.
#[test]
fn the_command_line_wins() {
    let trace = testdata("two_matches.json");
    let gather = "[defaults]\nkernel-name = [\"ncclDevKernel_AllGather\"]\nstack-depth = 1";
    let output = with(gather, &[&trace, "--format", "script"]);
    assert_eq!(config_note(&output).unwrap(), "nccl-stacks.toml (--kernel-name, --stack-depth)");
    let want = "Found 1 unique call stacks:\n\nc10d::_allgather_base_\n ->\ncudaLaunchKernelExC\nAppeared 1 times\n\n";
    assert_eq!(stdout(&output), want);
    // A list on the command line replaces the file's.
    let all = ["--kernel-name", "ncclDevKernel_AllReduce", "--stack-depth", "0", "--format", "script"];
    let output = with(gather, &[&[trace.as_str()], &all[..]].concat());
    assert_eq!(config_note(&output).unwrap(), "nccl-stacks.toml");
    assert_eq!(kernels(&output), 3);
    // Both stacks begin with the outermost caller.
    assert_eq!(stdout(&output).matches("\n\ntrain.py(12): main\n").count(), 2, "{}", stdout(&output));
    assert_eq!(config_note(&with(gather, &[&trace, "--quiet"])), None, "quiet from the first line on");
    // A file does not hide that it was read.
    let quiet = with("[defaults]\nquiet = true", &[&trace]);
    assert_eq!(stderr(&quiet), "Config: nccl-stacks.toml (--quiet)\n");
    // --family answers the same question.
    let output = with(gather, &[&trace, "--family", "nccl"]);
    assert_eq!((kernels(&output), config_note(&output).unwrap().as_str()), (4, "nccl-stacks.toml (--stack-depth)"));
    let deepep = with("[defaults]\nfamily = \"deepep\"", &[&trace, "-k", "ncclDevKernel_AllGather"]);
    assert_eq!(kernels(&deepep), 1);
}

#[test]
fn a_typed_option_may_rest_on_one_of_the_file() {
    let trace = testdata("two_matches.json");
    let step = "[defaults]\nfunction-name = '%train_step'";
    // One kernel in the first of these slices, two in the second.
    assert_eq!(kernels(&with(step, &[&trace, "--index", "0"])), 1);
    assert_eq!(kernels(&with(step, &[&trace, "--index", "1"])), 2);
    assert_eq!(with("", &[&trace, "--index", "1"]).status.code(), Some(2));
    // A span of time is another answer to the same question.
    let span = with(step, &[&trace, "--start-ts", "0", "--duration", "1s"]);
    assert_eq!((kernels(&span), config_note(&span).unwrap().as_str()), (4, "nccl-stacks.toml"));
}

#[test]
fn the_file_never_contradicts_the_command_line() {
    let trace = testdata("two_matches.json");
    let asking = "[defaults]\ninteractive = true";
    let output = with(asking, &[&trace]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--interactive needs a terminal"), "{}", stderr(&output));
    assert_eq!(kernels(&with(asking, &[&trace, "--function-name", "%train_step", "--index", "1"])), 2);
    assert_eq!(kernels(&with(asking, &[&trace, "--no-interactive"])), 4);
}

#[test]
fn switches_are_turned_on_and_off() {
    let damaged = testdata("damaged.json");
    let code = |config: &str, args: &[&str]| with(config, &[&[damaged.as_str()], args].concat()).status.code();
    let strict = "[defaults]\nstrict = true";
    assert_eq!(code("", &[]), Some(6));
    assert_eq!(code(strict, &[]), Some(1));
    assert_eq!(code(strict, &["--no-strict"]), Some(6));
    assert_eq!(code(strict, &["--no-config"]), Some(6));
    assert_eq!(code(strict, &["--strict"]), Some(1));
    assert_eq!(code("[defaults]\nstrict = false", &["--strict"]), Some(1));
    assert_eq!(code("", &["--strict", "--no-strict"]), Some(6));
    assert_eq!(code("[defaults]\nstrict = false\n", &[]), Some(6));
}

#[test]
fn commands_take_what_they_have() {
    let trace = testdata("two_matches.json");
    // --sort and --family do not apply to sql; speedscope is no form of it.
    let config = "[defaults]\nformat = 'speedscope'\nsort = 'mean'\nlimit = 1\nfamily = 'nccl'";
    let query = ["sql", &trace, "--query", "kernels"];
    let output = with(config, &query);
    assert_eq!(config_note(&output).unwrap(), "nccl-stacks.toml (--limit)");
    assert!(stdout(&output).contains("Instances"), "{}", stdout(&output));
    let output = with(&format!("{config}\n[defaults.sql]\nformat = 'csv'\nlimit = 2"), &query);
    assert_eq!(config_note(&output).unwrap(), "nccl-stacks.toml (--format, --limit)");
    assert_eq!(stdout(&output).lines().count(), 3, "{}", stdout(&output));
    let output = with("[defaults.sql]\nformat = 'json'", &["sql", &trace, "SELECT 1 AS one"]);
    assert_eq!(stdout(&output).trim().replace([' ', '\n'], ""), "[{\"one\":1}]");
    // Options of sql do not apply to the main job.
    assert_eq!(kernels(&with("[defaults.sql]\nformat = 'json'", &[&trace])), 4);
}

#[test]
fn a_whole_trace_is_exported_in_spite_of_defaults_for_a_part() {
    let trace = testdata("two_matches.json");
    let config = "[defaults]\nkernel-name = 'ncclDevKernel_AllGather'\nfunction-name = '%main'\nthreads = 1";
    let output = with(config, &["export", &trace, "--sqlite", "trace.db"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(config_note(&output).unwrap(), "nccl-stacks.toml (--threads)");
    let output = with(config, &["export", &trace, "--trace", "part.json.gz"]);
    assert_eq!(config_note(&output).unwrap(), "nccl-stacks.toml (--function-name, --kernel-name, --threads)");
    assert!(stderr(&output).contains(" 1 kernel marked"), "{}", stderr(&output));
}

#[test]
fn families_join_those_of_other_files() {
    let trace = testdata("two_matches.json");
    let folder = folder("[families]\nmine = ['*AllGather*']\n'also mine' = '/All(Gather|Reduce)_Sum/'");
    std::fs::write(folder.path().join("more.json"), r#"{"more": ["ncclDevKernel_AllReduce"], "mine": ["nothing"]}"#)
        .unwrap();
    let count = |args: &[&str]| kernels(&run_in(folder.path(), &[&[trace.as_str()], args].concat()));
    assert_eq!(count(&["--family", "mine"]), 1);
    assert_eq!(count(&["--family", "also mine"]), 3);
    assert_eq!(count(&["--family-file", "more.json", "--family", "more"]), 3);
    assert_eq!(count(&["--family-file", "more.json", "--family", "more", "--family", "mine"]), 4);
    let unknown = run_in(folder.path(), &[&trace, "--family", "yours"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("the families are also mine, mine, nccl"), "{}", stderr(&unknown));
}

#[test]
fn mistakes_are_reported_with_line_and_column() {
    let trace = testdata("two_matches.json");
    for (config, place, messages) in [
        ("[defaults\n", "1:10", &["not TOML"][..]),
        ("[defaults]\nsort = 'gpu'\nsort = 'mean'", "3:1", &["duplicate key"]),
        ("threads = 4", "1:1", &["threads is not known; expected [families] or [defaults]"]),
        ("defaults = 4", "1:1", &["write [defaults]"]),
        (
            "[defaults]\n  stak-depth = 4",
            "2:3",
            &["no option --stak-depth", "Did you mean stack-depth?", "exact-names, "],
        ),
        (
            "[defaults]\nxyz = 4",
            "2:1",
            &["no option --xyz. Defaults can be given for clock, color, depth, exact-names, fail-if, family, format"],
        ),
        ("[defaults]\nsort = 'size'", "2:8", &["sort = \"size\": expected one of count, gpu, exposed, mean"]),
        ("[defaults]\nsort = true", "2:8", &["sort: expected a number or a quoted string"]),
        ("[defaults]\nsort = ['gpu']", "2:8", &["sort: expected a number or a quoted string"]),
        ("[defaults]\nthreads = 0", "2:11", &["threads = \"0\": number would be zero for non-zero type"]),
        ("[defaults]\nstack-depth = -1", "2:15", &["stack-depth = \"-1\": invalid digit"]),
        ("[defaults]\nmin-share = 101.5", "2:13", &["min-share = \"101.5\": expected a number from 0 to 100"]),
        ("[defaults]\nstrict = 'yes'", "2:10", &["strict: expected true or false"]),
        (
            "[defaults]\nkernel-name = ['a', 4.5, []]",
            "2:26",
            &["kernel-name: expected a quoted string, or a list of them"],
        ),
        (
            "[defaults.sql]\nsort = 'gpu'",
            "2:1",
            &[
                "no option --sort. Defaults can be given for format, function-name, guard-csv, interactive, limit, max-bytes, quiet, step, \
                 strict, threads, ts-unit, verbose, window-on",
            ],
        ),
        ("[defaults.sql]\nformat = 'svg'", "2:10", &["format = \"svg\": expected one of table, csv, json"]),
        (
            "[defaults.stacks]\nsort = 'gpu'",
            "1:11",
            &[
                "no command stacks takes defaults; these do: ranks, what-if, part, records, hang, report, diff, sql, export",
            ],
        ),
        ("[defaults.man]\ndir = 'x'", "1:11", &["no command man"]),
        ("[families]\nfine = ['a*']\nnot = ['b*', '/(/']", "3:14", &["not: \"/(/\": not a regular expression"]),
        ("[families]\nmine = 4", "2:8", &["mine: expected patterns in quotes"]),
        ("[families]\nmine = []", "2:1", &["mine: a family needs a pattern"]),
        ("[defaults]\nkernel-name = ['nccl', '/(/']", "2:24", &["kernel-name = \"/(/\": not a regular expression"]),
        ("[defaults]\nfunction-name = ''", "2:17", &["function-name = \"\": it is empty"]),
        // Columns are letters, not bytes.
        ("[families]\n'ä' = ['ö', '']", "2:13", &["the pattern is empty"]),
    ] {
        let output = with(config, &[&trace]);
        let text = stderr(&output);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""), "{config}\n{text}");
        assert!(text.starts_with(&format!("error: nccl-stacks.toml:{place}: ")), "{config}\n{text}");
        for message in messages {
            assert!(text.contains(message), "{config}\n{text}");
        }
    }
}

#[test]
fn some_options_are_of_one_run() {
    let trace = testdata("two_matches.json");
    for (key, why) in [
        ("trace = 'x'", "it names a file of one run"),
        ("output = 'x'", "it names a file of one run"),
        ("sqlite = 'x'", "it names a file of one run"),
        ("rank = '3=x'", "it names a file of one run"),
        ("expect = 4", "it is the size of one job"),
        ("capture-trace = 'x'", "it names a file of one run"),
        ("family-file = 'x'", "families of your own go under [families]"),
        ("index = 0", "it counts the slices of one trace"),
        ("start-ts = 0", "it is a time of one trace"),
        ("duration = '1s'", "it is a time of one trace"),
        ("config = 'x'", "a config file does not say which one is read"),
        ("no-config = true", "a config file does not say which one is read"),
        ("help = true", "it asks about the program"),
        ("version = true", "it asks about the program"),
    ] {
        let output = with(&format!("[defaults]\n{key}"), &[&trace]);
        let name = key.split(' ').next().unwrap();
        let expected = format!("error: nccl-stacks.toml:2:1: {name} cannot be a default: {why}\n");
        assert_eq!((output.status.code(), stderr(&output)), (Some(1), expected), "{key}");
    }
}

/// Not every run reads it.
#[test]
fn help_and_commands_without_a_trace_leave_it_alone() {
    for args in [&["--help"][..], &["--version"], &["sql", "--help"], &["man"], &["completions", "bash"]] {
        let output = with("this is not TOML", args);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{args:?}");
    }
    // What is wrong with the arguments alone is reported as ever.
    for args in
        [&["--bogus"][..], &["t.json", "--sort", "size"], &["sql"], &["ranks", "--limit"], &["sql", "t.json", "--file"]]
    {
        let (with_file, without) = (with("[defaults]\nsort = 'gpu'", args), run(args));
        assert_eq!((with_file.status.code(), without.status.code()), (Some(2), Some(2)), "{args:?}");
        assert_eq!(stderr(&with_file), stderr(&without), "{args:?}");
    }
}

#[test]
fn the_manual_shows_a_config_file() {
    let page = stdout(&run(&["man"]));
    let example = page.split_once("For example:\n.RS 4\n.nf\n").unwrap().1.split_once(".fi\n").unwrap().0;
    let example = example.replace("\\-", "-").replace("\\*(Aq", "'");
    let trace = testdata("two_matches.json");
    assert_eq!(config_note(&with(&example, &[&trace])).unwrap(), "nccl-stacks.toml (--family, --sort, --stack-depth)");
    let sql = with(&example, &["sql", &trace, "SELECT 1"]);
    assert_eq!(config_note(&sql).unwrap(), "nccl-stacks.toml (--format)");
}
