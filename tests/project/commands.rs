//! Every command line of the README and of `docs/` runs as it is written, with the program as it is built by default: each page in an empty
//! folder, its commands one after another, with the inputs that they name, which are made of `testdata/`.
//!
//! A command line is a line in a block `sh`, and a text `like this` that begins with the name of a program and says what it works on. Sessions
//! (`console`) are run by `sessions_print_what_is_shown`. What not every machine can run says so in the page's source, on the same line or above
//! the block or paragraph: `<!-- not run: needs GPUs -->`. These are counted below.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::Compression;
use flate2::write::GzEncoder;
use regex::Regex;

use crate::guards::{pages, read, root};

/// What is not run, and how many lines of it there are.
const NOT_RUN: &[(&str, usize)] = &[
    ("asks on a terminal", 1),
    ("builds this clone", 11),
    ("needs GPUs", 2),
    ("needs Nsight Systems", 6),
    ("needs Slurm", 2),
    ("needs a Ray or Dask cluster", 2),
    ("needs a cluster", 2),
    ("needs a recording", 2),
    ("needs the wheel; dist/check installs it", 7),
    ("needs torchrun and GPUs", 3),
];

/// The programs that begin a command line in the middle of a text.
const PROGRAMS: &[&str] =
    &["nccl-stacks", "python", "cargo", "pip", "uv", "uvx", "cat", "curl", "torchrun", "nsys", "mkdir", "jq"];

/// The programs that this needs and that a machine may not have.
const NEEDED: &[&str] = &["jq", "man", "python", "xargs"];

/// The options that name what is written.
const WRITES: &[&str] =
    &["-o", "--output", "--out", "--sqlite", "--parquet", "--trace", "--chrome", "--megatrace", "--flows"];

/// Where an input comes from.
enum Source {
    /// A copy of this file, through gzip if the name says so and it is not yet.
    File(&'static str),
    /// A copy of this folder.
    Folder(&'static str),
    /// A zip of files of this folder: all, or those of these names.
    Zip(&'static str, &'static [&'static str]),
    /// The same as a tar through gzip.
    Tar(&'static str, &'static [&'static str]),
    /// An export of Nsight Systems, of two processes.
    Nsys,
    /// A link into this repository.
    Link(&'static str),
}

use Source::{Folder, Link, Nsys, Tar, Zip};

/// The inputs by the names that pages have for them. A page's own come first.
const INPUTS: &[(&str, &str, Source)] = &[
    ("docs/exporting.md", "trace.json.gz", Source::File("sglang_decode.json.gz")),
    ("docs/record.md", "trace.json.gz", Source::File("records/job/rank0.json.gz")),
    ("", "trace.json.gz", Source::File("metadata_pytorch.json")),
    ("", "warmup.json.gz", Source::File("replay/capture_traces/capture.json")),
    ("", "rank0.json.gz", Source::File("ranks/rank0.json.gz")),
    ("", "rank1.json.gz", Source::File("ranks/rank1.json.gz")),
    ("", "rank3.json.gz", Source::File("ranks/rank3.json.gz")),
    ("README.md", "before.json.gz", Source::File("ranks/rank0.json.gz")),
    ("README.md", "after.json.gz", Source::File("ranks/rank0.json.gz")),
    ("", "before.json.gz", Source::File("costs.json")),
    ("", "after.json.gz", Source::File("costs_later.json")),
    ("", "baseline.json.gz", Source::File("ranks/rank0.json.gz")),
    ("", "today.json.gz", Source::File("ranks/rank0.json.gz")),
    ("", "traces", Folder("ranks")),
    ("", "before", Folder("ranks")),
    ("", "after", Folder("ranks")),
    ("", "traces.zip", Zip("ranks", &["rank0.json.gz", "rank1.json.gz"])),
    ("docs/many-ranks.md", "logs.tar.gz", Tar("ranks", &["rank2.json.gz", "rank3.json.gz"])),
    ("", "logs.tar.gz", Tar("records/megatrace", &[])),
    ("", "logs", Folder("records/megatrace")),
    ("", "rank0.log", Source::File("records/megatrace/rank_0.log")),
    ("", "rank1.log.gz", Source::File("records/megatrace/rank_1.log")),
    ("", "inspector", Folder("records/pair/inspector")),
    ("", "dumps", Folder("records/hang")),
    ("", "dumps.tar.gz", Tar("records/hang", &[])),
    ("", "job", Folder("records/job")),
    ("", "records", Folder("records/job/records")),
    ("", "nccl-stacks-records", Folder("records/job/records")),
    ("", "report.sqlite", Nsys),
    ("", "testdata", Link("testdata")),
    ("", "queries", Link("queries")),
];

/// A command line of a page.
struct Line {
    number: usize,
    text: String,
    /// Why it is not run.
    why_not: Option<String>,
}

/// Whether the last line is of a script, which is one command line.
fn is_script_of(lines: &[Line]) -> bool {
    lines.last().is_some_and(|line| line.text.starts_with("#!"))
}

/// The command lines of a page, in order.
fn lines(page: &str) -> Vec<Line> {
    let mark = Regex::new(r"<!-- not run: (.*?) -->").unwrap();
    let span = Regex::new(r"`([^`]+)`").unwrap();
    let mut lines: Vec<Line> = Vec::new();
    let (mut block, mut of_block, mut goes_on) = (None, None, false);
    for (number, line) in (1..).zip(read(page).lines()) {
        let marked = mark.captures(line).map(|found| found[1].to_owned());
        if let Some(language) = line.trim_start().strip_prefix("```") {
            of_block = of_block.filter(|_| block.is_none());
            block = if block.is_some() { None } else { Some(language.to_owned()) };
            goes_on = false;
            continue;
        }
        match block.as_deref() {
            Some("sh") => {
                let is_script = line.starts_with("#!") || (goes_on && is_script_of(&lines));
                match lines.last_mut().filter(|_| goes_on) {
                    Some(last) => last.text.push_str(&format!("\n{line}")),
                    None if !is_script && (line.trim().is_empty() || line.starts_with('#')) => continue,
                    None => lines.push(Line { number, text: line.to_owned(), why_not: Option::clone(&of_block) }),
                }
                goes_on = is_script || line.ends_with('\\');
            }
            Some(_) => {}
            None => {
                let found = span.captures_iter(line).map(|found| found[1].to_owned()).filter(|text| is_command(text));
                lines.extend(found.map(|text| Line {
                    number,
                    text,
                    why_not: marked.clone().or_else(|| of_block.clone()),
                }));
                of_block = if line.starts_with("<!--") { marked } else { of_block.filter(|_| !line.trim().is_empty()) };
            }
        }
    }
    lines
}

/// Whether a text in the middle of others is a whole command line. `nccl-stacks sql` names a command, and `nccl-stacks diff BEFORE AFTER` explains
/// one.
fn is_command(text: &str) -> bool {
    // In quotes it may be SQL.
    let text = Regex::new("'[^']*'").unwrap().replace_all(text, "''");
    let words: Vec<&str> = text.split_whitespace().collect();
    let [program, rest @ ..] = &words[..] else { return false };
    let is_word =
        |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') && !word.starts_with('-');
    let is_place = |word: &&&str| {
        let name = word.trim_end_matches("...");
        name.len() > 2 && name.bytes().all(|byte| byte.is_ascii_uppercase())
    };
    match rest {
        ["-m", "nccl_stacks.fleet"] => false,
        _ if rest.iter().all(is_word) => false,
        _ => PROGRAMS.contains(program) && !rest.iter().any(|word| is_place(&word)),
    }
}

/// Makes what a command reads and is not there yet; the words after these options are written, or are not to be there.
fn make_inputs(page: &str, text: &str, folder: &Path) {
    let words: Vec<&str> = text.split([' ', '=', '\'', '"', '\n']).filter(|word| !word.is_empty()).collect();
    for (at, word) in words.iter().enumerate() {
        let name = word.trim_start_matches('@').split('/').next().unwrap();
        let is_written = at > 0 && (WRITES.contains(&words[at - 1]) || words[at - 1] == ">");
        if is_written || folder.join(name).exists() {
            continue;
        }
        if let Some((_, _, source)) =
            INPUTS.iter().find(|(of, input, _)| (of.is_empty() || *of == page) && *input == name)
        {
            make(source, &folder.join(name));
        }
    }
}

fn make(source: &Source, path: &Path) {
    let testdata = root().join("testdata");
    let files = |folder: &str, names: &[&str]| {
        let entries = std::fs::read_dir(testdata.join(folder)).unwrap().map(|entry| entry.unwrap());
        let name = |entry: &std::fs::DirEntry| entry.file_name().into_string().unwrap();
        let mut files: Vec<_> = entries.map(|entry| (name(&entry), entry.path())).collect();
        files.retain(|(name, _)| names.is_empty() || names.contains(&name.as_str()));
        files.sort();
        files
    };
    match source {
        Source::File(name) => {
            let content = std::fs::read(testdata.join(name)).unwrap();
            let is_packed = path.extension().is_some_and(|ending| ending == "gz") && !content.starts_with(b"\x1f\x8b");
            std::fs::write(path, if is_packed { gzip(&content) } else { content }).unwrap();
        }
        Folder(of) => {
            let copied = Command::new("cp").arg("-r").args([&testdata.join(of), path]).status();
            assert!(copied.unwrap().success(), "{of}");
        }
        Zip(of, names) => {
            let mut zip = zip::ZipWriter::new(File::create(path).unwrap());
            let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
            for (name, file) in files(of, names) {
                zip.start_file(name, stored).unwrap();
                zip.write_all(&std::fs::read(file).unwrap()).unwrap();
            }
            zip.finish().unwrap();
        }
        Tar(of, names) => {
            let mut tar = tar::Builder::new(Vec::new());
            for (name, file) in files(of, names) {
                tar.append_path_with_name(&file, name).unwrap();
            }
            std::fs::write(path, gzip(&tar.into_inner().unwrap())).unwrap();
        }
        Link(to) => std::os::unix::fs::symlink(root().join(to), path).unwrap(),
        Nsys => nsys(path),
    }
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(content).unwrap();
    packed.finish().unwrap()
}

/// An export of two processes, 144 and 145, each with two kernels of NCCL.
fn nsys(path: &Path) {
    let database = rusqlite::Connection::open(path).unwrap();
    database
        .execute_batch(
            "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
            INSERT INTO StringIds VALUES (1, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)'),
              (2, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL'), (3, 'cudaLaunchKernelExC_v11060');
            CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, systemClockNs INTEGER);
            INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, '', 0);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,
              correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);",
        )
        .unwrap();
    for process in [144_i64, 145] {
        let global = process << 24;
        for collective in 0..2_i64 {
            let (call, end) = (1_000 + 10_000 * collective + process, 9_000 + 10_000 * collective);
            let id = 10 * process + collective;
            let runtime = "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?1, ?1 + 500, ?2, ?3, 3)";
            database.execute(runtime, (call, global + process, id)).unwrap();
            let kernel = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?1, ?2, ?3, 1, 7, ?4, ?5, 1, 2)";
            database.execute(kernel, (call + 1_000, end, process - 144, id, global)).unwrap();
        }
    }
}

/// The exit codes that a command may end with. What is wrong with the arguments (2), or with the inputs (1), is none of them.
fn codes(text: &str) -> &'static [i32] {
    let has = |words: &str| text.contains(words);
    // The job of `testdata/` has four ranks.
    if has("--expect") {
        &[6]
    } else if has("nccl-stacks parts/") || has("ranks parts/") || has("nccl_stacks.fleet") {
        &[0, 6]
    } else if has("--fail-if") {
        &[0, 5]
    } else if has("hang dumps") || has("records/hang") {
        &[4]
    } else {
        &[0]
    }
}

/// What a command that has run should have written, and has not.
fn not_written(text: &str, folder: &Path) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let written = words.windows(2).filter(|pair| WRITES.contains(&pair[0])).map(|pair| pair[1]);
    // In quotes it is made of variables.
    let plain = written.filter(|name| !name.contains('"'));
    plain
        .filter(|name| std::fs::metadata(folder.join(name)).map_or(true, |found| found.len() == 0))
        .map(str::to_owned)
        .collect()
}

/// Runs what a page has; what is wrong with it.
fn run(page: &str, lines: &[Line]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let tools = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_nccl-stacks"), tools.path().join("nccl-stacks")).unwrap();
    let path = format!("{}:{}", tools.path().display(), std::env::var("PATH").unwrap());
    let mut wrong = Vec::new();
    for Line { number, text, .. } in lines.iter().filter(|line| line.why_not.is_none()) {
        make_inputs(page, text, folder.path());
        let mut command = Command::new("bash");
        command.args(["-o", "pipefail", "-c", text]).current_dir(folder.path()).stdin(Stdio::null());
        command.env("PATH", &path).env("HOME", folder.path()).env("PYTHONPATH", root().join("python"));
        // As Slurm has them in the second of two tasks of an array.
        command.env("SLURM_ARRAY_TASK_COUNT", "2").env("SLURM_ARRAY_TASK_ID", "1");
        command.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("NCCL_STACKS_CONFIG").env_remove("NCCL_STACKS_BIN");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.code().is_some_and(|code| codes(text).contains(&code)) {
            wrong.push(format!("{page}:{number}: {text}\n{}: {said}", output.status));
        }
        wrong.extend(
            not_written(text, folder.path()).iter().map(|name| format!("{page}:{number}: {text}: no {name}: {said}")),
        );
    }
    wrong
}

/// Whether a program is there.
fn has(program: &str) -> bool {
    let command = format!("command -v {program}");
    Command::new("bash").args(["-c", &command]).stdout(Stdio::null()).status().unwrap().success()
}

#[test]
fn command_lines_run_as_they_are_written() {
    let absent: Vec<&str> = NEEDED.iter().copied().filter(|program| !has(program)).collect();
    let (mut not_run, mut count): (BTreeMap<String, usize>, usize) = (BTreeMap::new(), 0);
    let mut pages: Vec<(String, Vec<Line>)> = pages()
        .into_iter()
        .filter(|page| page != "CHANGELOG.md")
        .map(|page| (lines(&page), page))
        .map(|(lines, page)| (page, lines))
        .collect();
    for (page, lines) in &mut pages {
        for line in lines {
            let uses = |program: &&&str| line.text.split_whitespace().any(|word| word == **program);
            match (&line.why_not, absent.iter().find(uses)) {
                (Some(why), _) => {
                    *not_run.entry(why.clone()).or_default() += 1;
                    let _ = writeln!(std::io::stderr(), "not run: {why}: {page}:{}: {}", line.number, line.text);
                }
                (None, Some(program)) => {
                    let _ = writeln!(std::io::stderr(), "SKIPPED: no {program}: {page}:{}: {}", line.number, line.text);
                    line.why_not = Some(format!("no {program}"));
                }
                (None, None) => count += 1,
            }
        }
    }
    let expected: BTreeMap<String, usize> = NOT_RUN.iter().map(|(why, lines)| ((*why).to_owned(), *lines)).collect();
    assert_eq!(not_run, expected, "what the pages mark as not run");
    assert!(count > 60, "only {count} command lines");
    // Those with most commands first, so that no thread waits for them alone.
    pages.sort_by_key(|(_, lines)| std::cmp::Reverse(lines.len()));
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((page, lines)) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    wrong.lock().unwrap().extend(run(page, lines));
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}
