//! The pages that the tests look at, each written once by the program, and what is packed into them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use base64::Engine;
use serde_json::Value;

use crate::support::pack::gunzip;
use crate::support::program::{run, stderr, stderr_of, stdout};
use crate::support::random::is_long;

/// A kind of page: its name, the command without `--format html`, with `testdata/` before what is a file of it, the command that gives its first
/// document, that document's name, the exit code, and the sections that it must have.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) command: &'static [&'static str],
    pub(crate) document: &'static str,
    pub(crate) code: i32,
    pub(crate) views: &'static [&'static str],
}

pub(crate) const KINDS: &[Kind] = &[
    Kind {
        name: "trace",
        command: &["testdata/sglang_decode.json.gz"],
        document: "stacks",
        code: 0,
        views: &["timeline", "steps", "stacks", "icicle", "commands"],
    },
    Kind {
        name: "costs",
        command: &["testdata/costs.json"],
        document: "stacks",
        code: 0,
        views: &["timeline", "stacks", "icicle", "commands"],
    },
    Kind {
        name: "ranks",
        command: &["ranks", "testdata/ranks"],
        document: "ranks",
        code: 0,
        views: &[
            "ranks",
            "steps",
            "stacks",
            "icicle",
            "critical",
            "what-if",
            "heat",
            "timeline",
            "pairs",
            "bandwidths",
            "groups",
            "commands",
        ],
    },
    Kind {
        name: "pipeline",
        command: &["ranks", "testdata/pipeline"],
        document: "ranks",
        code: 0,
        views: &[
            "timeline",
            "ranks",
            "steps",
            "stacks",
            "icicle",
            "critical",
            "what-if",
            "heat",
            "pairs",
            "pipeline",
            "bandwidths",
            "groups",
            "commands",
        ],
    },
    Kind {
        name: "hang",
        command: &["hang", "testdata/records/hang"],
        document: "hang",
        code: 4,
        views: &["hang", "hung", "commands"],
    },
    Kind {
        name: "diff",
        command: &["diff", "testdata/costs.json", "testdata/costs_later.json", "--total"],
        document: "diff",
        code: 0,
        views: &["sides", "diff", "commands"],
    },
    Kind {
        name: "records",
        command: &["records", "testdata/records/job/records"],
        document: "records",
        code: 0,
        views: &["commands"],
    },
];

/// The kinds of which a test uses every link or control. By day without those of which others have the same parts.
pub(crate) fn swept() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|kind| is_long() || !["trace", "pipeline"].contains(&kind.name))
}

pub(crate) fn kind(name: &str) -> &'static Kind {
    KINDS.iter().find(|kind| kind.name == name).unwrap()
}

impl Kind {
    /// From the project's folder, where tests run: so no page, and no picture of one, has a path of the machine.
    fn arguments(&self) -> Vec<String> {
        self.command.iter().map(|word| (*word).to_owned()).collect()
    }

    /// The page that the program writes.
    pub(crate) fn page(&self) -> PathBuf {
        static WRITTEN: Mutex<BTreeMap<&str, PathBuf>> = Mutex::new(BTreeMap::new());
        let mut written = WRITTEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let write = || {
            let command = [self.arguments(), vec!["--format".into(), "html".into()]].concat();
            write(self.name, &command.iter().map(String::as_str).collect::<Vec<_>>(), self.code)
        };
        written.entry(self.name).or_insert_with(write).clone()
    }

    /// What the same command prints for programs.
    pub(crate) fn json(&self) -> String {
        let command = [self.arguments(), vec!["--format".into(), "json".into(), "--quiet".into()]].concat();
        let output = run(&command.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(self.code), "{}: {}", self.name, stderr(&output));
        stdout(&output)
    }
}

/// The page of a command, in the folder for what tests write, where a person can open it too.
pub(crate) fn write(name: &str, command: &[&str], code: i32) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.html"));
    let _ = std::fs::remove_file(&path);
    stderr_of(&[command, &["--output", path.to_str().unwrap()]].concat(), code);
    path
}

/// The JSON that is in a page for its script.
pub(crate) fn packed(page: &Path) -> Value {
    let text = std::fs::read_to_string(page).unwrap();
    let (_, rest) = text.split_once(r#"<script type="application/json" id="page">"#).unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// What is packed with gzip and base64.
pub(crate) fn unpack(packed: &Value) -> Vec<u8> {
    gunzip(&base64::engine::general_purpose::STANDARD.decode(packed.as_str().unwrap()).unwrap())
}

/// A document of a page.
pub(crate) fn document(page: &Path, name: &str) -> Value {
    serde_json::from_slice(&unpack(&packed(page)["documents"][name]["data"])).unwrap()
}
