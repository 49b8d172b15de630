//! Plays NCCL for the profiler plugin: loads the library, calls its tables, and reads back what it wrote.
//!
//! Descriptors are bytes at the offsets that NCCL's headers give, written here without any structure of the recorder's, in memory that is
//! not longer than the version's descriptor.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What NCCL loads.
pub(crate) fn library() -> &'static str {
    env!("NCCL_STACKS_RECORDER")
}

/// Loads a library as NCCL does.
pub(crate) fn load(path: &str) -> *mut c_void {
    let path = CString::new(path).unwrap();
    // SAFETY: a path that ends with a zero.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!library.is_null(), "{path:?} cannot be loaded");
    library
}

type Start = unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut c_void) -> c_int;
type Stop = unsafe extern "C" fn(*mut c_void) -> c_int;
type State = unsafe extern "C" fn(*mut c_void, c_int, *mut c_void) -> c_int;
type Init4 =
    unsafe extern "C" fn(*mut usize, *mut c_int, *const c_char, u64, c_int, c_int, c_int, *mut c_void) -> c_int;
type Init5 =
    unsafe extern "C" fn(*mut usize, u64, *mut c_int, *const c_char, c_int, c_int, c_int, *mut c_void) -> c_int;

/// A table of the plugin, as six words.
#[derive(Clone, Copy)]
pub(crate) struct Plugin {
    pub(crate) version: u32,
    table: &'static [usize; 6],
}

/// A communicator as NCCL knows it.
#[derive(Clone, Copy)]
pub(crate) struct Comm<'a> {
    pub(crate) name: Option<&'a CStr>,
    pub(crate) hash: u64,
    pub(crate) nodes: i32,
    pub(crate) size: i32,
    pub(crate) rank: i32,
}

/// A communicator for those who do not care.
pub(crate) const COMM: Comm<'static> = Comm { name: Some(c"tp_group"), hash: 0x1234, nodes: 2, size: 8, rank: 3 };

impl Plugin {
    pub(crate) fn loaded(library: *mut c_void, version: u32) -> Plugin {
        let name = CString::new(format!("ncclProfiler_v{version}")).unwrap();
        // SAFETY: the library is loaded.
        let table = unsafe { libc::dlsym(library, name.as_ptr()) };
        assert!(!table.is_null(), "{name:?} is missing");
        // SAFETY: a table is six words, in each version.
        Plugin { version, table: unsafe { &*table.cast::<[usize; 6]>() } }
    }

    pub(crate) fn new(version: u32) -> Plugin {
        Plugin::loaded(load(library()), version)
    }

    pub(crate) fn name(&self) -> &CStr {
        // SAFETY: the first word is a text.
        unsafe { CStr::from_ptr(self.table[0] as *const c_char) }
    }

    /// `init`; the context and the mask, which is not touched if `init` does not.
    pub(crate) fn init(&self, comm: Comm<'_>) -> (usize, i32) {
        let (mut context, mut mask) = (0x55, -1);
        let name = comm.name.map_or(std::ptr::null(), CStr::as_ptr);
        let no_logger = std::ptr::null_mut();
        let Comm { hash, nodes, size, rank, .. } = comm;
        // SAFETY: the second word is `init` of the version.
        let result = unsafe {
            if self.version == 4 {
                let init = std::mem::transmute::<usize, Init4>(self.table[1]);
                init(&raw mut context, &raw mut mask, name, hash, nodes, size, rank, no_logger)
            } else {
                let init = std::mem::transmute::<usize, Init5>(self.table[1]);
                init(&raw mut context, hash, &raw mut mask, name, nodes, size, rank, no_logger)
            }
        };
        assert_eq!(result, 0);
        (context, mask)
    }

    /// `startEvent` with a descriptor at an address; the handle. The place of the handle has another one before, as NCCL's may have.
    pub(crate) fn start_at(&self, context: usize, descriptor: *mut c_void) -> u64 {
        let mut handle = 0xdead_beef as *mut c_void;
        // SAFETY: the third word is `startEvent`.
        let start = unsafe { std::mem::transmute::<usize, Start>(self.table[2]) };
        // SAFETY: as NCCL calls it.
        assert_eq!(unsafe { start(context as *mut c_void, &raw mut handle, descriptor) }, 0);
        handle as u64
    }

    pub(crate) fn start(&self, context: usize, event: &Event) -> u64 {
        // Exactly as long as the version's, and on the heap, where Valgrind sees what is read after it.
        let mut bytes: Box<[u64]> = event.words(self.version).into();
        self.start_at(context, bytes.as_mut_ptr().cast())
    }

    /// `startEvent` without a place for the handle, or without descriptor.
    pub(crate) fn start_nothing(&self, context: usize) {
        // SAFETY: the third word is `startEvent`.
        let start = unsafe { std::mem::transmute::<usize, Start>(self.table[2]) };
        let mut handle = 0x77 as *mut c_void;
        let null = std::ptr::null_mut();
        let mut group = Event::new(1).words(self.version);
        // SAFETY: what is borne.
        unsafe {
            assert_eq!(start(context as *mut c_void, &raw mut handle, null), 0);
            assert_eq!(handle, null);
            assert_eq!(start(context as *mut c_void, null.cast(), group.as_mut_ptr().cast()), 0);
        }
    }

    pub(crate) fn stop(&self, handle: u64) {
        // SAFETY: the fourth word is `stopEvent`.
        let stop = unsafe { std::mem::transmute::<usize, Stop>(self.table[3]) };
        // SAFETY: as NCCL calls it.
        assert_eq!(unsafe { stop(handle as *mut c_void) }, 0);
    }

    /// `recordEventState`, with an argument or with null.
    pub(crate) fn state(&self, handle: u64, state: i32, argument: Option<u64>) {
        let mut word = argument.unwrap_or_default();
        let argument = argument.map_or(std::ptr::null_mut(), |_| (&raw mut word).cast());
        // SAFETY: the fifth word is `recordEventState`.
        let record = unsafe { std::mem::transmute::<usize, State>(self.table[4]) };
        // SAFETY: as NCCL calls it.
        assert_eq!(unsafe { record(handle as *mut c_void, state, argument) }, 0);
    }

    pub(crate) fn finalize(&self, context: usize) {
        // SAFETY: the sixth word is `finalize`.
        let finalize = unsafe { std::mem::transmute::<usize, Stop>(self.table[5]) };
        // SAFETY: as NCCL calls it.
        assert_eq!(unsafe { finalize(context as *mut c_void) }, 0);
    }
}

/// A descriptor in the making: 136 bytes, of which a version takes the first ones.
#[derive(Clone)]
pub(crate) struct Event {
    bytes: [u8; 136],
}

impl Event {
    /// Of a type; what is not set is 0.
    pub(crate) fn new(kind: u64) -> Event {
        Event { bytes: [0; 136] }.u64(0, kind)
    }

    /// How long a version's descriptor is.
    pub(crate) fn length(version: u32) -> usize {
        [104, 112, 112, 136][version as usize - 4]
    }

    pub(crate) fn u64(mut self, at: usize, value: u64) -> Event {
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn i32(mut self, at: usize, value: i32) -> Event {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u8(mut self, at: usize, value: u8) -> Event {
        self.bytes[at] = value;
        self
    }

    pub(crate) fn text(self, at: usize, text: &'static CStr) -> Event {
        self.u64(at, text.as_ptr() as u64)
    }

    pub(crate) fn parent(self, handle: u64) -> Event {
        self.u64(8, handle)
    }

    pub(crate) fn rank(self, rank: i32) -> Event {
        self.i32(16, rank)
    }

    /// As many words as the version's descriptor has. Version 4 has one byte for the type; what comes after it is not its to read.
    pub(crate) fn words(&self, version: u32) -> Vec<u64> {
        let mut bytes = self.bytes;
        if version == 4 {
            bytes[1..8].fill(0xa5);
        }
        let words = bytes[..Self::length(version)].chunks_exact(8);
        words.map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
    }
}

/// The recorder's files in a folder, by name; none if there is no folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "ncclrec"));
    files.sort();
    files
}

/// Which scenario a process of ours is.
pub(crate) const SCENARIO: &str = "NCCL_STACKS_TEST_SCENARIO";

/// This program as a process with a scenario of its own: the recorder has one file in a process, and reads its settings once.
pub(crate) fn process(test: &str, scenario: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    for name in ["NCCL_PROFILE_EVENT_MASK", "NCCL_STACKS_RECORD", "NCCL_STACKS_LOG", "RANK", "WORLD_SIZE"] {
        command.env_remove(name);
    }
    command.env(SCENARIO, scenario).env("NCCL_STACKS_DIR", folder).env("NCCL_STACKS_RING_RECORDS", "4096");
    command
}

/// Requires that a process ended well.
pub(crate) fn succeeded(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr));
    text(&output.stderr)
}
