//! Programs that call a made NCCL under the recorder, and what was recorded of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use nccl_stacks_recorder_format::{
    Communicator, Header, Kind, NotARecording, Record, Slot, communicator, layout, slot, text,
};
use tempfile::TempDir;

/// The recorder's library.
pub(crate) const RECORDER: &str = env!("NCCL_STACKS_RECORDER");

/// The C programs and libraries, compiled once.
pub(crate) struct Built {
    folder: TempDir,
}

/// Compiles from `tests/recorder`, with these arguments after the output.
fn cc(output: &Path, arguments: &[&str]) {
    let done = Command::new("cc")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorder"))
        .args(["-O2", "-Wall", "-Wextra", "-o"])
        .arg(output)
        .args(arguments)
        .output()
        .unwrap();
    assert!(done.status.success() && done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
}

impl Built {
    /// A program, or a folder with a library.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

pub(crate) fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let built = Built { folder: tempfile::tempdir().unwrap() };
        let library = ["-fPIC", "-shared", "fake_nccl.c", "-Wl,-soname,libnccl.so.2"];
        for (folder, version) in [("new", "-DFAKE_VERSION=23203"), ("old", "-DFAKE_VERSION=21805")] {
            fs::create_dir(built.path(folder)).unwrap();
            cc(&built.path(folder).join("libnccl.so.2"), &[&library[..], &[version]].concat());
        }
        // A library that has NCCL within itself, as PyTorch may have.
        cc(&built.path("libwith_nccl.so"), &["-fPIC", "-shared", "fake_nccl.c"]);
        for (name, define) in [("libnext.so", "-DBY_NEXT"), ("libhandle.so", "-DBY_HANDLE")] {
            cc(&built.path(name), &["-fPIC", "-shared", define, "second.c"]);
        }
        let new = format!("-L{}", built.path("new").display());
        cc(&built.path("linked"), &["driver.c", "-Wl,--no-as-needed", &new, "-l:libnccl.so.2", "-lpthread", "-ldl"]);
        cc(&built.path("job"), &["job.c", "-Wl,--no-as-needed", &new, "-l:libnccl.so.2", "-lpthread", "-ldl"]);
        cc(&built.path("flows"), &["flows.c", "-Wl,--no-as-needed", &new, "-l:libnccl.so.2", "-ldl"]);
        cc(&built.path("libextractor.so"), &["-fPIC", "-shared", "extractor.c"]);
        cc(&built.path("hazards"), &["hazards.c", "-Wl,--no-as-needed", &new, "-l:libnccl.so.2", "-lpthread", "-ldl"]);
        cc(
            &built.path("stress"),
            &["stress.c", "profiled.c", "-Wl,--no-as-needed", &new, "-l:libnccl.so.2", "-lpthread", "-ldl"],
        );
        cc(&built.path("libplugged.so"), &["-fPIC", "-shared", "plugged.c", "-ldl"]);
        cc(&built.path("libslow.so"), &["-fPIC", "-shared", "slow.c", "-ldl"]);
        cc(&built.path("alone"), &["driver.c", "-lpthread", "-ldl"]);
        cc(&built.path("static"), &["driver.c", "fake_nccl.c", "-lpthread", "-ldl"]);
        built
    })
}

/// A run of the driver.
pub(crate) struct Job {
    pub(crate) folder: TempDir,
    pub(crate) command: Command,
}

impl Job {
    /// Of the linked driver, with these steps.
    pub(crate) fn new(steps: &[&str]) -> Job {
        Job::assemble(&built().path("linked"), steps)
    }

    /// Of a program.
    pub(crate) fn assemble(program: &Path, arguments: &[&str]) -> Job {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("LD_PRELOAD", RECORDER)
            .env("LD_LIBRARY_PATH", built().path("new"))
            .env("NCCL_STACKS_DIR", folder.path().join("records"))
            .env("FAKE_NCCL_LOG", folder.path().join("log"))
            .env("NCCL_STACKS_RING_RECORDS", "4096");
        Job { folder, command }
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Job {
        self.command.env(name, value);
        self
    }

    /// Runs it; its output without errors.
    pub(crate) fn run(&mut self) -> Output {
        let output = self.command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output
    }

    /// Runs it; what it printed.
    pub(crate) fn lines(&mut self) -> Vec<String> {
        let output = self.run();
        assert!(output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    /// What the made NCCL wrote.
    pub(crate) fn log(&self) -> Vec<String> {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// All recordings, in the order of their processes.
    pub(crate) fn recordings(&self) -> Vec<Recording> {
        let Ok(files) = fs::read_dir(self.folder.path().join("records")) else { return Vec::new() };
        let read = |file: std::io::Result<fs::DirEntry>| Recording::try_of(fs::read(file.unwrap().path()).unwrap());
        let mut all: Vec<Recording> = files.filter_map(read).collect();
        all.sort_by_key(|recording| recording.header().start.monotonic);
        all
    }

    /// The only recording.
    pub(crate) fn recording(&self) -> Recording {
        let mut all = self.recordings();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }
}

/// A file of the recorder's.
pub(crate) struct Recording {
    bytes: Vec<u8>,
    /// By time, with the position in their ring.
    pub(crate) records: Vec<(u64, Record)>,
    pub(crate) incomplete: usize,
}

impl Recording {
    pub(crate) fn new(bytes: Vec<u8>) -> Recording {
        Recording::try_of(bytes).unwrap()
    }

    /// `None` of a file whose process was killed while it created it.
    pub(crate) fn try_of(mut bytes: Vec<u8>) -> Option<Recording> {
        let (sizes, used) = match Header::parse(&bytes) {
            Ok(header) => (header.rings, std::array::from_fn::<_, { layout::RINGS }, _>(|ring| header.used(ring))),
            Err(NotARecording::Magic) if bytes.iter().take(8).all(|byte| *byte == 0) => return None,
            Err(error) => panic!("{error}"),
        };
        let (mut records, mut incomplete) = (Vec::new(), 0);
        for (ring, used) in used.into_iter().enumerate() {
            // The rest are holes, hundreds of megabytes of them.
            let slots = bytes[sizes.at(ring) as usize..][..used as usize * layout::RECORD].chunks_exact(layout::RECORD);
            for (index, bytes) in (0..).zip(slots) {
                match slot(bytes.try_into().unwrap(), index, sizes.of(ring)) {
                    Slot::Record(position, record) => records.push((position, record)),
                    Slot::Incomplete => incomplete += 1,
                    Slot::Empty => {}
                }
            }
        }
        records.sort_by_key(|(position, record)| (record.time, *position));
        bytes.truncate(layout::RINGS_AT);
        bytes.shrink_to_fit();
        Some(Recording { bytes, records, incomplete })
    }

    pub(crate) fn header(&self) -> Header<'_> {
        Header::parse(&self.bytes).unwrap()
    }

    /// Calls and their functions.
    pub(crate) fn calls(&self) -> Vec<(&str, Record)> {
        let calls = self.records.iter().filter(|(_, record)| record.kind == Kind::Call);
        calls.map(|(_, record)| (self.function(record), *record)).collect()
    }

    /// Functions whose end is recorded, and their results.
    pub(crate) fn results(&self) -> Vec<(&str, u64)> {
        let stops = self.records.iter().filter(|(_, record)| record.kind == Kind::Stop);
        stops
            .map(|(_, stop)| {
                // One thread writes into one ring, so the position names the call.
                let mut calls = self.records.iter().filter(|(position, record)| {
                    record.kind == Kind::Call && *position == stop.parent >> 8 && record.thread == stop.thread
                });
                (self.function(&calls.next().unwrap().1), stop.a)
            })
            .collect()
    }

    fn function(&self, record: &Record) -> &str {
        std::str::from_utf8(text(&self.bytes, record.function).unwrap()).unwrap()
    }

    pub(crate) fn communicators(&self) -> Vec<Communicator<'_>> {
        (1..=512).map_while(|number| communicator(&self.bytes, number)).collect()
    }
}
