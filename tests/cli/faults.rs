//! Writing that fails: the old file is unchanged, and nothing else remains.

#![cfg(unix)]
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::program::{is_ignored, program, scratch, stderr, testdata};

/// Everything that writes a file: the arguments before its name.
fn writers() -> Vec<Vec<String>> {
    let trace = testdata("costs.json");
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let mut all: Vec<Vec<String>> = ["text", "table", "json", "csv", "folded", "speedscope", "svg"]
        .iter()
        .map(|form| words(&[&trace, "--format", form, "--output"]))
        .collect();
    all.push(words(&["sql", &trace, "--query", "kernels", "--output"]));
    all.push(words(&["diff", &trace, &testdata("costs_later.json"), "--output"]));
    all.push(words(&["sql", &trace, "SELECT * FROM slice", "--output"]));
    all.push(words(&["export", &trace, "--sqlite"]));
    all.push(words(&["export", &trace, "--trace"]));
    all
}

/// Runs a shell command before the program.
fn after(preparation: &str, args: &[String], file: &Path) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{preparation}; exec \"$0\" \"$@\"")]).arg(env!("CARGO_BIN_EXE_nccl-stacks"));
    shell.args(args).arg(file).env("NCCL_STACKS_CONFIG", "").stdin(Stdio::null()).output().unwrap()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries
}

/// The run failed, printed why, and left the folder unchanged: with an old file, or empty.
fn nothing_happened(output: &Output, args: &[String], file: &Path, old: Option<&[u8]>) {
    let message = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {:?} {message}", output.status);
    assert!(message.contains(&format!("error: {}: cannot be written: ", file.display())), "{args:?}: {message}");
    assert!(message.contains("Nothing was written"), "{args:?}: {message}");
    assert_eq!(fs::read(file).ok().as_deref(), old, "{args:?}");
    let left = entries(file.parent().unwrap());
    assert_eq!(left.len(), usize::from(old.is_some()), "{args:?}: {left:?}");
}

/// The limit of a file's size: at the first byte, and in the middle.
#[test]
fn beyond_the_size_that_files_may_have() {
    for args in writers() {
        for blocks in ["0", "1"] {
            for old in [None, Some(&b"what was there before"[..])] {
                let folder = tempfile::tempdir().unwrap();
                let file = folder.path().join("answer");
                if let Some(old) = old {
                    fs::write(&file, old).unwrap();
                }
                let output = after(&format!("ulimit -f {blocks}"), &args, &file);
                // An answer may be as small as that.
                if blocks == "1" && output.status.success() {
                    assert!(fs::metadata(&file).unwrap().len() <= 1024);
                    continue;
                }
                nothing_happened(&output, &args, &file, old);
            }
        }
    }
}

/// What is packed can be read; the archive cannot be written.
#[test]
fn an_archive_beyond_the_size_that_files_may_have() {
    let args = ["record", "--collect", &testdata("records/hang"), "--output"].map(str::to_owned);
    for name in ["answer.tar", "answer.tar.zst"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        nothing_happened(&after("ulimit -f 1", &args, &file), &args, &file, None);
    }
}

#[cfg(feature = "parquet")]
#[test]
fn folders_are_written_whole_or_not_at_all() {
    let args = ["export", &testdata("costs.json"), "--parquet"].map(str::to_owned);
    for (blocks, is_there) in [("0", false), ("0", true), ("4", false), ("4", true)] {
        let around = tempfile::tempdir().unwrap();
        let folder = around.path().join("tables");
        if is_there {
            fs::create_dir(&folder).unwrap();
        }
        let output = after(&format!("ulimit -f {blocks}"), &args, &folder);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert_eq!(entries(around.path()).len(), usize::from(is_there), "{blocks} {}", stderr(&output));
        assert!(!is_there || entries(&folder).is_empty());
    }
}

/// A file system that holds 16 KiB, for as long as this lives.
struct Small(tempfile::TempDir);

impl Small {
    /// `None` where that is not permitted, which is printed.
    fn new() -> Option<Small> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=16k", "tmpfs"]).arg(folder.path()).stderr(Stdio::null());
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(Small(folder));
        }
        let _ = writeln!(std::io::stderr(), "SKIPPED: no file system may be mounted");
        None
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn onto_a_full_disk() {
    let Some(disk) = Small::new() else { return };
    // All but one page is taken, of which the old file needs one.
    let old = vec![b'o'; 4096];
    for args in writers() {
        let folder = disk.0.path().join("folder");
        fs::create_dir(&folder).unwrap();
        let file = folder.join("answer");
        fs::write(&file, &old).unwrap();
        let filling = disk.0.path().join("filling");
        let mut rest = fs::File::create(&filling).unwrap();
        // Blocks of removed files may become free a little later.
        for _ in 0..3 {
            while rest.write_all(&[0; 512]).is_ok() {}
            std::thread::sleep(Duration::from_millis(5));
        }
        nothing_happened(&after(":", &args, &file), &args, &file, Some(&old));
        fs::remove_file(&filling).unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }
}

/// A device that is always full is written in place, and standard output, too.
#[test]
fn onto_a_full_device() {
    if !Path::new("/dev/full").exists() {
        let _ = writeln!(std::io::stderr(), "SKIPPED: there is no /dev/full");
        return;
    }
    for args in writers().into_iter().filter(|args| args[0] != "export") {
        let output = after(":", &args, Path::new("/dev/full"));
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(stderr(&output).contains("error: /dev/full: cannot be written: No space left"), "{}", stderr(&output));
        let output = after("exec > /dev/full", &args, Path::new("-"));
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(stderr(&output).contains("standard output cannot be written: No space left"), "{}", stderr(&output));
    }
    for script in [vec!["completions", "bash"], vec!["man"], vec!["-h"], vec!["ranks", "--help"], vec!["--version"]] {
        let script: Vec<String> = script.into_iter().map(str::to_owned).collect();
        let (last, args) = script.split_last().unwrap();
        let output = after("exec > /dev/full", args, Path::new(last));
        assert_eq!(output.status.code(), Some(1), "{script:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("standard output cannot be written"), "{}", stderr(&output));
    }
}

/// Where standard output was closed before, nothing can be written, and nothing is read for it. A file needs none.
#[test]
fn without_standard_output() {
    for args in writers().into_iter().filter(|args| args[0] != "export") {
        let output = after("exec >&-", &args, Path::new("-"));
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", stderr(&output));
        let said = stderr(&output);
        let closed = "error: standard output cannot be written: Bad file descriptor";
        assert!(said.starts_with(closed), "{args:?}: {said}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("answer");
        let output = after("exec >&-", &args, &file);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        assert!(fs::metadata(&file).unwrap().len() > 0, "{args:?}");
    }
    for (command, last) in [("completions", "bash"), ("ranks", "--help"), ("diff", "-h")] {
        let output = after("exec >&-", &[command.to_owned()], Path::new(last));
        assert_eq!(output.status.code(), Some(1), "{command}: {}", stderr(&output));
    }
}

/// A closed pipe is no failure, and nothing is printed about it.
#[test]
fn into_a_closed_pipe() {
    for mut args in writers().into_iter().filter(|args| args[0] != "export") {
        args.pop();
        let mut child =
            program().args(&args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        assert!(!stderr(&output).contains("error"), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn over_a_file_that_may_not_be_written() {
    for args in writers() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("answer");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
        nothing_happened(&after(":", &args, &file), &args, &file, Some(b"old"));
    }
}

#[test]
fn into_a_folder_that_may_not_be_written() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(folder.path().join("probe"), "").is_ok() {
        let _ = writeln!(std::io::stderr(), "SKIPPED: this user may write everywhere");
        return;
    }
    for args in writers() {
        let file = folder.path().join("answer");
        nothing_happened(&after(":", &args, &file), &args, &file, None);
    }
}

/// A trace whose export takes a while.
fn long_trace() -> (tempfile::TempDir, String) {
    let event = |i: usize| {
        format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"op {i}","pid":1,"tid":1,"ts":{i},"dur":1,"args":{{"External id":{i}}}}}"#
        )
    };
    let events: Vec<String> = (0..60_000).map(event).collect();
    scratch("trace.json", format!("[{}]", events.join(",\n")).as_bytes())
}

/// Killed while it writes, the program leaves the old file unchanged. Ended by any other signal, it removes what it has begun, and whoever waits
/// for it sees that signal.
#[test]
fn killed_in_the_middle() {
    let (_trace_folder, trace) = long_trace();
    let all = [
        ("--sqlite", "KILL", (None, Some(9)), 2),
        ("--sqlite", "INT", (Some(130), None), 1),
        ("--trace", "INT", (Some(130), None), 1),
        ("--sqlite", "TERM", (None, Some(15)), 1),
        ("--sqlite", "HUP", (None, Some(1)), 1),
    ];
    for (form, signal, ended, left) in all.into_iter().filter(|(_, signal, ..)| !is_ignored(signal)) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("answer.json");
        fs::write(&file, "old").unwrap();
        let mut export = program();
        export.args(["export", &trace, form]).arg(&file).args(["--threads", "1"]);
        if form == "--trace" {
            // A window in which no kernel is launched, so that all events are kept for their own sake.
            export.args(["--start-ts", "0", "--duration", "1000s", "--kernel-name", "*"]);
        }
        let mut child = export.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = |path: &PathBuf| *path != file && fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0);
        let deadline = Instant::now() + Duration::from_secs(60);
        while !entries(folder.path()).iter().any(begun) {
            assert!(
                Instant::now() < deadline && child.try_wait().unwrap().is_none(),
                "{form}: it never began, or is over"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        let output = child.wait_with_output().unwrap();
        let status = output.status;
        assert_eq!((status.code(), status.signal()), ended, "{form} {signal}: {}", stderr(&output));
        assert_eq!(fs::read(&file).unwrap(), b"old", "{form} {signal}");
        assert_eq!(entries(folder.path()).len(), left, "{form} {signal}: {:?}", entries(folder.path()));
    }
}

/// A database that comes through a pipe is copied to a temporary file, which no signal leaves there.
#[test]
fn ended_while_a_database_is_copied() {
    let all = [("TERM", (None, Some(15))), ("HUP", (None, Some(1))), ("INT", (Some(130), None))];
    for (signal, ended) in all.into_iter().filter(|(signal, _)| !is_ignored(signal)) {
        let folder = tempfile::tempdir().unwrap();
        let mut program = program();
        program.arg("-").env("TMPDIR", folder.path()).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = program.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&[b"SQLite format 3\0".as_slice(), &[0; 1 << 20]].concat()).unwrap();
        let begun = |path: &PathBuf| fs::metadata(path).is_ok_and(|metadata| metadata.len() > 1 << 19);
        let deadline = Instant::now() + Duration::from_secs(60);
        while !entries(folder.path()).iter().any(begun) {
            assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "it never began, or is over");
        }
        let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        let status = output.status;
        assert_eq!((status.code(), status.signal()), ended, "{signal}: {}", stderr(&output));
        assert_eq!(entries(folder.path()), Vec::<PathBuf>::new(), "{signal}");
    }
}

/// As under `nohup`, a signal that is ignored stays ignored.
#[test]
fn an_ignored_signal_stays_ignored() {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" -", env!("CARGO_BIN_EXE_nccl-stacks")]).env("NCCL_STACKS_CONFIG", "");
    let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // The shell has to be as far.
    let name = || fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap_or_default();
    let deadline = Instant::now() + Duration::from_secs(60);
    while name().trim() != "nccl-stacks" {
        assert!(Instant::now() < deadline, "the program never began");
    }
    let trace = fs::read(testdata("costs.json")).unwrap();
    stdin.write_all(&trace[..trace.len() / 2]).unwrap();
    for _ in 0..10 {
        assert!(Command::new("kill").args(["-s", "HUP", &child.id().to_string()]).status().unwrap().success());
        std::thread::sleep(Duration::from_millis(20));
    }
    stdin.write_all(&trace[trace.len() / 2..]).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}
