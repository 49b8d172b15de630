//! Rules about the project itself that a review would otherwise have to enforce: which module may use which, and that the
//! documentation shows what the program does.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Which modules each module may use: a picture of the house, from the ground up.
const MAY_USE: &[(&str, &[&str])] = &[
    ("time", &[]),
    ("unfinished", &[]),
    ("id", &[]),
    ("parallel", &[]),
    ("names", &[]),
    ("chrome", &["time"]),
    ("operation", &["id", "names", "time"]),
    ("damage", &["time"]),
    ("error", &[]),
    ("event", &["names", "time"]),
    ("input", &["chrome", "damage", "error", "event", "names", "parallel", "time", "unfinished"]),
    ("store", &["damage", "event", "parallel", "id", "names", "time"]),
    ("recorded_args", &["event", "id", "names", "store"]),
    ("records", &["error", "id", "input", "names", "numbers", "operation", "parallel", "statistics", "time"]),
    ("statistics", &["time"]),
    ("load", &["damage", "error", "event", "input", "store", "time"]),
    ("attribution", &["damage", "error", "event", "parallel", "id", "names", "numbers", "operation", "store", "time"]),
    ("operations", &["attribution", "id", "names", "numbers", "operation", "records", "statistics", "time"]),
    (
        "sql",
        &[
            "attribution",
            "damage",
            "error",
            "event",
            "id",
            "names",
            "operation",
            "operations",
            "recorded_args",
            "records",
            "statistics",
            "store",
            "time",
        ],
    ),
    ("packing", &["time"]),
    ("numbers", &[]),
    (
        "replay",
        &["attribution", "id", "names", "numbers", "operations", "packing", "parallel", "statistics", "store", "time"],
    ),
    (
        "answers",
        &[
            "attribution",
            "chrome",
            "damage",
            "document",
            "error",
            "event",
            "id",
            "names",
            "numbers",
            "operation",
            "operations",
            "packing",
            "recorded_args",
            "records",
            "replay",
            "sql",
            "statistics",
            "store",
            "time",
        ],
    ),
    ("parts", &["answers", "operation", "parallel", "time"]),
    ("document", &["attribution", "names", "operation", "time"]),
    (
        "export",
        &[
            "answers",
            "chrome",
            "damage",
            "error",
            "event",
            "id",
            "input",
            "names",
            "operation",
            "records",
            "sql",
            "store",
            "time",
        ],
    ),
    (
        "run",
        &[
            "answers",
            "attribution",
            "document",
            "error",
            "event",
            "id",
            "input",
            "load",
            "names",
            "operation",
            "operations",
            "parallel",
            "parts",
            "records",
            "sql",
            "store",
            "time",
        ],
    ),
    (
        "cli",
        &[
            "answers",
            "attribution",
            "damage",
            "document",
            "error",
            "event",
            "export",
            "input",
            "load",
            "names",
            "operation",
            "operations",
            "parts",
            "records",
            "run",
            "sql",
            "store",
            "time",
            "unfinished",
        ],
    ),
];

pub(crate) fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

/// Where the rooms are: what reads are crates of their own, whose modules `src/lib.rs` shows as its own. All of `crates/records` but
/// `operation` is the room `records`.
const ROOMS: &[&str] = &["crates/trace/src", "crates/records/src", "src"];

#[test]
fn modules_use_only_what_they_may() {
    let mut files = Vec::new();
    ROOMS.iter().for_each(|folder| rust_files(&root().join(folder), &mut files));
    let uses = regex::Regex::new(r"\b(?:crate|nccl_stacks|nccl_stacks_trace|nccl_stacks_records)::(\w+)").unwrap();
    let (mut wrong, mut seen) = (Vec::new(), 0);
    let is_room = |name: &str| MAY_USE.iter().any(|(room, _)| *room == name);
    for file in files {
        let relative = file.strip_prefix(root()).unwrap();
        let inside = ROOMS.iter().find_map(|folder| relative.strip_prefix(folder).ok()).unwrap();
        let module = match inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs") {
            part if relative.starts_with("crates/records") && part != "operation" => "records",
            part => part,
        };
        let room = |used| if relative.starts_with("crates/records") && !is_room(used) { "records" } else { used };
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == module) else {
            assert!(["lib", "main"].contains(&module), "{module} is not in the table");
            continue;
        };
        let text = std::fs::read_to_string(&file).unwrap();
        // What tests use is not the module's own dependency; they are at the end of a file.
        let (code, tests) = text.split_once("#[cfg(test)]\nmod tests {").unwrap_or((&text, ""));
        assert!(!tests.contains("\n}\n\n"), "{}: there is code after the tests", relative.display());
        // Examples use what a caller has.
        let code_lines = || code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        assert!(
            !code_lines().any(|(_, line)| line.contains("use crate::{")),
            "{}: one `use crate::module` a line, so that this can read it",
            relative.display()
        );
        for (number, line) in code_lines() {
            for found in uses.captures_iter(line) {
                seen += 1;
                let used = room(found.get(1).unwrap().as_str());
                if used != module && !allowed.contains(&used) {
                    wrong.push(format!("{}:{}: {module} may not use {used}", relative.display(), number + 1));
                }
            }
        }
    }
    assert!(seen > 80, "only {seen} uses found: has the way of writing them changed?");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A module: its path in its crate (`["store", "nest"]`), and its code without tests.
type Module = (Vec<String>, String);

/// The modules of a crate.
fn modules(source: &Path) -> Vec<Module> {
    let mut files = Vec::new();
    rust_files(source, &mut files);
    let module = |file: PathBuf| {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split_once("#[cfg(test)]\nmod tests {").map_or(text.as_str(), |(code, _)| code).to_owned();
        let path = file.strip_prefix(source).unwrap().with_extension("");
        let mut path: Vec<String> = path.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        path.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
        (path, code)
    };
    files.into_iter().map(module).collect()
}

/// The module paths that a file's code names with `crate::` or `super::`.
fn named((module, code): &Module) -> Vec<Vec<String>> {
    let path = regex::Regex::new(r"\b(crate|(?:super::)*super)::").unwrap();
    let comment = regex::Regex::new(r"(?m)^\s*//.*$").unwrap();
    let code = comment.replace_all(code, "");
    let mut found = Vec::new();
    for start in path.captures_iter(&code) {
        let base = match &start[1] {
            "crate" => Vec::new(),
            supers => module[..module.len().saturating_sub(supers.split("::").count())].to_vec(),
        };
        tree_paths(&code[start.get(0).unwrap().end()..], &base, &mut found);
    }
    found
}

/// Adds the paths that a tree of `use` begins with, `a::{b, c::d}`, to those found. Returns how long the tree is.
fn tree_paths(code: &str, base: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let mut path = base.to_vec();
    let mut at = 0;
    loop {
        let rest = &code[at..];
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if word > 0 {
            path.push(rest[..word].to_owned());
            at += word;
            if code[at..].starts_with("::") {
                at += 2;
                continue;
            }
        } else if rest.starts_with('{') {
            at += 1;
            loop {
                at += code[at..].find(|c: char| !c.is_whitespace() && c != ',').unwrap_or(code.len() - at);
                let length = tree_paths(&code[at..], &path, found);
                if length == 0 {
                    return at + 1;
                }
                at += length;
            }
        } else if at == 0 {
            return 0;
        }
        found.push(path);
        return at;
    }
}

/// Which files and folders beside each other use each other, by folder: `a` may use `b`, or `b` may use `a`, also by way of others. A
/// folder's `mod.rs` is not counted: it is what the folder has in common. Returns the number of uses, and the parts of each circle.
fn circles(modules: &[Module]) -> (usize, Vec<String>) {
    let exists = |path: &[String]| modules.iter().any(|(module, _)| module.starts_with(path));
    // By folder: which of its parts uses which.
    let mut uses: BTreeMap<Vec<String>, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for module in modules {
        for used in named(module) {
            let module = &module.0;
            let same = module.iter().zip(&used).take_while(|(a, b)| a == b).count();
            if same < module.len() && same < used.len() && exists(&used[..=same]) {
                let folder = uses.entry(module[..same].to_vec()).or_default();
                folder.entry(module[same].clone()).or_default().insert(used[same].clone());
            }
        }
    }
    let edges = uses.values().flat_map(BTreeMap::values).map(BTreeSet::len).sum();
    let mut circles = Vec::new();
    for (folder, uses) in &uses {
        let reaches_itself = |start: &&String| {
            let (mut reached, mut next) = (BTreeSet::new(), vec![start.as_str()]);
            while let Some(part) = next.pop() {
                // A part that uses nothing has no entry, and ends only its own way.
                let used = uses.get(part).into_iter().flatten().map(String::as_str);
                next.extend(used.filter(|part| reached.insert(*part)));
            }
            reached.contains(start.as_str())
        };
        let circle: Vec<&str> = uses.keys().filter(reaches_itself).map(String::as_str).collect();
        if !circle.is_empty() {
            circles.push(format!("{}: {}", folder.join("/"), circle.join(", ")));
        }
    }
    (edges, circles)
}

#[test]
fn no_files_of_a_folder_form_a_circle() {
    let crates = std::fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path().join("src"));
    let mut all = 0;
    for source in crates.chain([root().join("src")]) {
        let (edges, circles) = circles(&modules(&source));
        all += edges;
        assert!(
            circles.is_empty(),
            "{}: these use themselves by way of others: {}",
            source.display(),
            circles.join("; ")
        );
    }
    assert!(all > 300, "only {all} uses found: has the way of writing them changed?");
}

/// A module with files below it is a folder with a `mod.rs`, never a file beside a folder.
#[test]
fn a_module_is_a_file_or_a_folder() {
    let mut files = Vec::new();
    ["src", "crates"].iter().for_each(|folder| rust_files(&root().join(folder), &mut files));
    let twice: Vec<PathBuf> = files.iter().map(|file| file.with_extension("")).filter(|file| file.is_dir()).collect();
    assert!(twice.is_empty(), "both a file and a folder: {twice:?}");
}

#[test]
fn a_planted_circle_is_found() {
    let module = |path: &str, code: &str| {
        (path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect(), code.to_owned())
    };
    let of = |modules: &[Module]| circles(modules).1;
    // A part that uses nothing (`z`) is on the way, before and after the part that closes the circle.
    let leaf =
        [module("z", ""), module("y", ""), module("c", "use crate::{a, z};"), module("b", "use super::{c, y, z};")];
    let closed = |code: &str| of(&[&leaf[..], &[module("a", code)]].concat());
    assert_eq!(closed("use crate::b::{x, y};"), [": a, b, c"]);
    assert_eq!(closed("use crate::z;"), [""; 0]);
    // What is named in comments alone is not used.
    assert_eq!(closed("// crate::b\n/// [`b`](crate::b)\nuse crate::z;"), [""; 0]);
    // Within a folder, with nested braces, over several lines and without `use`.
    let deep = |code: &str| {
        of(&[module("f/a", code), module("f/b", "use super::a;"), module("f", "use self::b;"), module("g", "")])
    };
    for code in [
        "use crate::{g::{h, i::j}, f::{self, b::{c}}};",
        "use super::{\n    a,\n    b,\n};",
        "fn f() { super::b::x() }",
    ] {
        assert_eq!(deep(code), ["f: a, b"], "{code}");
    }
    assert_eq!(deep("use crate::{g::{b}, f::c};"), [""; 0]);
    // A folder counts as one.
    assert_eq!(of(&[module("f/a", "use crate::g;"), module("f/b", ""), module("g", "use crate::f::b;")]), [": f, g"]);
}

/// Words that the glossary replaces (`src/lib.rs`, "Words"): the field has another word for the thing, or none.
const REPLACED: &[(&str, &str)] = &[
    ("arrow", "flow"),
    ("arrows", "flows"),
    ("trail", "call path"),
    ("trails", "call paths"),
    ("spread", "distribution"),
    ("behind", "after"),
    ("told", "reported"),
    ("stands", "is"),
    ("stood", "was"),
    ("missed", "unattributed"),
    ("mend", "recover"),
    ("mended", "recovered"),
    ("mender", "recovery"),
    ("mending", "recovery"),
    ("sender", "kernel"),
    ("amount", "totals"),
];

/// Phrases in which such a word means something else.
const NOT_MEANT: &[&str] = &["arrow keys", "stands out", "told apart"];

/// Comments, documentation, names and texts in `src` and `crates`, the schemas, and the prose of the documentation use the glossary's words.
#[test]
fn the_glossarys_words_are_used() {
    let word = regex::Regex::new(r"[A-Z]?[a-z]+").unwrap();
    let mut files = Vec::new();
    rust_files(&root().join("src"), &mut files);
    rust_files(&root().join("crates"), &mut files);
    let schemas = std::fs::read_dir(root().join("schema")).unwrap().map(|entry| entry.unwrap().path());
    let text = |file: PathBuf| (file.clone(), std::fs::read_to_string(file).unwrap());
    let prose = pages().into_iter().map(|page| (root().join(&page), prose(&page)));
    let mut wrong = Vec::new();
    for (file, text) in files.into_iter().chain(schemas).map(text).chain(prose) {
        for (number, line) in text.lines().enumerate() {
            let line = NOT_MEANT.iter().fold(line.to_owned(), |line, phrase| line.replace(phrase, ""));
            for found in word.find_iter(&line) {
                let lower = found.as_str().to_ascii_lowercase();
                if let Some((_, say)) = REPLACED.iter().find(|(word, _)| *word == lower) {
                    let at = file.strip_prefix(root()).unwrap().display();
                    wrong.push(format!("{at}:{}: `{lower}`; say `{say}`", number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} lines:\n{}", wrong.len(), wrong.join("\n"));
}

/// The pages of the documentation.
pub(crate) fn pages() -> Vec<String> {
    let folder = std::fs::read_dir(root().join("docs")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<String> =
        names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}")).collect();
    pages.extend(["README.md", "CHANGELOG.md"].map(str::to_owned));
    pages.sort();
    pages
}

pub(crate) fn read(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).unwrap()
}

/// A page without its blocks of code, whose lines become empty.
fn prose(page: &str) -> String {
    let mut is_code = false;
    let line = |line: &str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if is_code || is_fence { String::new() } else { line.to_owned() }
    };
    read(page).lines().map(line).collect::<Vec<_>>().join("\n")
}

/// What a terminal shows of a run of the program: both of its streams, in the order in which it writes them.
fn screen(args: &[String]) -> String {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nccl-stacks"));
    command.args(args).env("NCCL_STACKS_CONFIG", "").current_dir(root());
    command.stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut child = command.spawn().unwrap();
    // Else the pipe is never closed.
    drop(command);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    let speed = regex::Regex::new(r"in \d+\.\d s \(\d+ MB/s\)").unwrap();
    speed.replace_all(&text, "in 0.0 s (200 MB/s)").into_owned()
}

/// Whether to write what the program prints instead of comparing with it, as with the goldens.
pub(crate) fn updates() -> bool {
    std::env::var_os("UPDATE_GOLDENS").is_some()
}

/// Every console session: the command runs, and prints what is shown; of `… | head -9` that is the first 9 lines, and of `… | tail -9` the
/// last. Speed is not compared.
/// `UPDATE_GOLDENS=1 cargo test --test project` writes what is printed.
#[test]
fn sessions_print_what_is_shown() {
    const START: &str = "```console\n";
    let mut checked = 0;
    for page in pages() {
        let text = read(&page);
        let mut parts = text.split(START);
        let mut written = parts.next().unwrap().to_owned();
        for part in parts {
            let (session, rest) = part.split_once("```").unwrap();
            let (command, shown) = session.split_once('\n').unwrap();
            let arguments = command.strip_prefix("$ nccl-stacks ").unwrap();
            let (arguments, filter) = arguments.split_once(" | ").unwrap_or((arguments, ""));
            let printed = filtered(&screen(&shell_words(arguments)), filter);
            if !updates() {
                assert_eq!(shown, printed, "{page}: {command}");
            }
            written.push_str(&format!("{START}{command}\n{printed}```{rest}"));
            checked += 1;
        }
        if updates() {
            std::fs::write(root().join(&page), written).unwrap();
        }
    }
    assert!(checked >= 7, "only {checked} sessions");
}

/// What a shell's `head -N` or `tail -N` leaves of a text.
fn filtered(text: &str, filter: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let of = |name| filter.strip_prefix(name).map(|count| lines.len().min(str::parse(count).unwrap()));
    match (of("head -"), of("tail -")) {
        (Some(first), _) => lines[..first].concat(),
        (_, Some(last)) => lines[lines.len() - last..].concat(),
        _ => {
            assert_eq!(filter, "", "only these filters are known");
            text.to_owned()
        }
    }
}

/// Splits a command as a shell does, as far as the sessions need it.
fn shell_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            _ => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// The flame graph in the documentation is the program's own, of a trace of `testdata/`. `UPDATE_GOLDENS=1` writes it.
#[test]
#[cfg(feature = "flamegraph")]
fn the_picture_is_what_the_program_draws() {
    const PICTURE: &str = "docs/flamegraph.svg";
    let command = "testdata/sglang_decode.json.gz --format svg --weight exposed";
    assert!(read("docs/exporting.md").contains(&format!("nccl-stacks {command} --output flamegraph.svg\n")));
    let drawn = screen(&shell_words(&format!("{command} --quiet")));
    if updates() {
        std::fs::write(root().join(PICTURE), &drawn).unwrap();
    }
    assert!(read(PICTURE) == drawn, "{PICTURE} is not what the program draws; UPDATE_GOLDENS=1 writes it");
}

#[test]
fn the_readme_is_short() {
    let lines = read("README.md").lines().count();
    assert!(lines <= 100, "README.md has {lines} lines");
}

/// What a heading is linked by: as GitHub and others make it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Relative links of the documentation lead to files that exist, and to headings in them.
#[test]
fn links_lead_somewhere() {
    let link = regex::Regex::new(r#"\]\(([^)\s]+)\)|src="([^"]+)""#).unwrap();
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for page in pages().into_iter().chain(["CONTRIBUTING.md", "SECURITY.md"].map(str::to_owned)) {
        for found in link.captures_iter(&prose(&page)) {
            let target = found.get(1).or(found.get(2)).unwrap().as_str();
            if target.contains("://") {
                continue;
            }
            checked += 1;
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let folder = Path::new(&page).parent().unwrap();
            let file = if file.is_empty() { PathBuf::from(&page) } else { folder.join(file) };
            let has_heading =
                || prose(file.to_str().unwrap()).lines().any(|line| line.starts_with('#') && anchor(line) == heading);
            if !root().join(&file).exists() || (!heading.is_empty() && !has_heading()) {
                wrong.push(format!("{page}: {target}"));
            }
        }
    }
    assert!(checked > 20, "only {checked} links");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Options of other programs that the documentation names, and those that turn off what a config file turns on, which have no help.
const OTHER_OPTIONS: &[&str] = &[
    "--no-strict",
    "--no-interactive",
    "--no-exact-names",
    "--release",
    "--open",
    "--example",
    "--features",
    "--locked",
    "--no-default-features",
    "--path",
    "--files",
    "--from",
    "--no-index",
    "--quick",
    "--cuda-graph-trace",
    "--cudabacktrace",
    "--include-blobs",
    "--pytorch",
    "--type",
    "--output-format",
    "--test",
    "--bench",
    "--nproc-per-node",
    "--out",
    "--engine",
    "--address",
    "--workers",
    "--batch",
    "--retries",
    "--parts",
    "--merge",
    "--stacks",
    "--no-merge",
    "--parsable",
    "--pid",
    "--dependency",
    "--wrap",
    "--job-name",
    "--array",
    "--ntasks",
    "--cpus-per-task",
    "--mem",
    "--time",
    "--nodes",
    "--ntasks-per-node",
    "--gpus-per-node",
    "--nnodes",
    "--rdzv-backend",
    "--rdzv-endpoint",
    "--hostfile",
    "--rm",
    "--gpus",
    "--ipc",
    "--user",
    "--sparse",
];

/// The documentation names every option and every command, and none that does not exist.
#[test]
fn options_and_commands_are_documented() {
    let name = regex::Regex::new(r"(?m)(?:^|[\s`'(\[])(--[a-z][a-z-]*)").unwrap();
    let help = screen(&["--help".to_owned()]);
    let commands = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let command = regex::Regex::new(r"(?m)^  ([a-z-]+) ").unwrap();
    let commands: Vec<&str> = command
        .captures_iter(commands)
        .map(|found| found.get(1).unwrap().as_str())
        .filter(|name| *name != "help")
        .collect();
    assert!(commands.len() >= 7, "{commands:?}");
    let heading = regex::Regex::new(r"(?m)^ +(?:-\w, )?(--[a-z-]+)").unwrap();
    let helps = commands.iter().map(|command| screen(&[(*command).to_owned(), "--help".to_owned()]));
    let helps = helps.chain([help.clone()]).collect::<Vec<_>>().join("\n");
    let known: BTreeSet<&str> = heading.captures_iter(&helps).map(|found| found.get(1).unwrap().as_str()).collect();
    let text =
        pages().iter().filter(|page| *page != "CHANGELOG.md").map(|page| read(page)).collect::<Vec<_>>().join("\n");
    let named: BTreeSet<&str> = name.captures_iter(&text).map(|found| found.get(1).unwrap().as_str()).collect();
    let missing: Vec<_> = known.difference(&named).collect();
    assert!(missing.is_empty(), "not in the documentation: {missing:?}");
    let unknown: Vec<_> = named.difference(&known).filter(|name| !OTHER_OPTIONS.contains(name)).collect();
    assert!(unknown.is_empty(), "no such options: {unknown:?}");
    let options = read("docs/options.md");
    let missing: Vec<_> = commands.iter().filter(|command| !options.contains(&format!("`{command}`"))).collect();
    assert!(missing.is_empty(), "commands that are not in docs/options.md: {missing:?}");
}

/// The page on SQL names every column of our own tables. A test of the library writes the fields of JSON from the schemas.
#[test]
fn columns_are_documented() {
    let trace = "testdata/costs.json".to_owned();
    let columns = |table: &str| -> Vec<String> {
        let query = format!("SELECT name FROM pragma_table_info('{table}')");
        let lines = screen(&["sql".to_owned(), trace.clone(), query, "--quiet".to_owned()]);
        lines.lines().skip(1).map(|line| line.trim_matches('"').to_owned()).collect()
    };
    let own = [
        "kernel_launch",
        "backward_node",
        "call_path",
        "collective",
        "rank",
        "collective_match",
        "critical_path",
        "communicator",
        "record_file",
    ];
    let own = own.into_iter().chain(["op", "memory_event", "op_call", "memory_call"]);
    let of_records = [
        "rank_status",
        "nccl_process",
        "kernel_channel",
        "proxy_op",
        "proxy_step",
        "profiler_event",
        "flow_op",
        "flow_step",
    ];
    let columns = own.chain(of_records).flat_map(columns).collect::<Vec<String>>();
    assert!(columns.len() > 40, "{} columns", columns.len());
    let text = read("docs/sql.md");
    let missing: Vec<_> = columns.iter().filter(|name| !text.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "not in docs/sql.md: {missing:?}");
}
