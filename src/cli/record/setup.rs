//! What is needed to record a job: a folder for the recordings, and the variables that load the library.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::error::Error;

use super::{library, trust};
use crate::cli::args::{CALLS, Record};
use crate::cli::failure::Failure;
use crate::cli::stop::Stop;
use crate::cli::terminal::say;

/// The length of a record in bytes.
const RECORD: u64 = nccl_stacks_recorder_format::layout::RECORD as u64;

/// The extensions of recordings, and of the marks left by processes that could not record.
const ENDINGS: [&str; 2] = ["ncclrec", "ncclrec-failed"];

/// The folder and the variables of a recorded job.
pub(super) struct Setup {
    pub(super) folder: PathBuf,
    pub(super) variables: Vec<(&'static str, OsString)>,
}

impl Setup {
    /// Creates the folder, and finds a place for the library.
    pub(super) fn new(args: &Record) -> Result<Self, Stop> {
        let path = library::place(args.library_dir.as_deref())?;
        let folder = args.dir.clone().unwrap_or_else(free_folder);
        let failed = |source| Error::Write { path: folder.clone(), source };
        // The umask of many systems lets the user's group write what is created, which is refused below.
        let mode = if args.shared_dir { 0o777 } else { 0o755 };
        DirBuilder::new().recursive(true).mode(mode).create(&folder).map_err(failed)?;
        // The job's processes may have other working directories.
        let folder = fs::canonicalize(&folder).map_err(failed)?;
        if !args.shared_dir {
            trust::folder(&folder).map_err(|why| Failure::OpenFolder { folder: folder.clone(), why })?;
        }
        // A process that cannot write there can leave no word of it.
        tempfile::tempfile_in(&folder).map_err(|error| failed(error.kind().into()))?;
        let mut variables = vec![
            ("NCCL_STACKS_DIR", folder.clone().into_os_string()),
            ("NCCL_STACKS_RING_RECORDS", (args.ring_size / RECORD).to_string().into()),
        ];
        let mask = args.events.iter().fold(0, |all, bits| all | bits);
        let has_calls = args.events.contains(&CALLS);
        if has_calls {
            variables.push(("LD_PRELOAD", preload(&path)));
        }
        if mask != 0 {
            let plugin = if has_calls { "STATIC_PLUGIN".into() } else { path.into_os_string() };
            match env::var_os("NCCL_PROFILER_PLUGIN").filter(|own| !own.is_empty() && *own != plugin) {
                // NCCL loads only one profiler, and the user chose it.
                Some(own) => say(&format!(
                    "NCCL_PROFILER_PLUGIN is set to {}: NCCL sends its events there, so only calls are recorded. Unset it to record both.",
                    own.display()
                )),
                None => {
                    variables.push(("NCCL_PROFILER_PLUGIN", plugin));
                    variables.push(("NCCL_PROFILE_EVENT_MASK", mask.to_string().into()));
                }
            }
        }
        Ok(Setup { folder, variables })
    }
}

/// The first of `nccl-stacks-records`, `nccl-stacks-records-2` … without recordings, so that two jobs do not mix.
fn free_folder() -> PathBuf {
    let name = |n: u32| {
        PathBuf::from(if n == 1 { "nccl-stacks-records".to_owned() } else { format!("nccl-stacks-records-{n}") })
    };
    (1..).map(name).find(|folder| recordings(folder).is_empty()).unwrap_or_else(|| name(1))
}

/// The recordings in a folder and the marks of processes that could not record, sorted by name.
pub(super) fn recordings(folder: &Path) -> Vec<PathBuf> {
    let is_one = |ending: &OsStr| ENDINGS.iter().any(|known| ending == *known);
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(is_one)).collect();
    found.sort();
    found
}

/// The library, followed by what the user preloads.
fn preload(library: &Path) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(own) = env::var_os("LD_PRELOAD").filter(|own| !own.is_empty()) {
        list.push(":");
        list.push(own);
    }
    list
}
