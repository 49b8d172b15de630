//! What is needed to record a job: a folder, the library in it, and the variables that load it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nccl_stacks::error::Error;

use crate::cli::args::{EventKind, Record};
use crate::cli::failure::Failure;
use crate::cli::stop::Stop;
use crate::cli::terminal::say;
use nccl_stacks::run::sources::RECORDER_LIBRARY;

/// The recorder's library, if it was built with this program.
#[cfg(has_recorder)]
const BYTES: Option<&[u8]> = Some(include_bytes!(env!("NCCL_STACKS_RECORDER")));
#[cfg(not(has_recorder))]
const BYTES: Option<&[u8]> = None;

/// The length of a record in bytes.
const RECORD: u64 = nccl_stacks_recorder_format::layout::RECORD as u64;

/// The extensions of recordings, and of the marks left by processes that could not record.
const ENDINGS: [&str; 2] = ["ncclrec", "ncclrec-failed"];

/// Bits of a file's mode: who else may write it, and that only owners may rename files in a folder.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// The folder and the variables of a recorded job.
pub(super) struct Setup {
    pub(super) folder: PathBuf,
    pub(super) variables: Vec<(&'static str, OsString)>,
}

impl Setup {
    /// Creates the folder with the library.
    pub(super) fn new(args: &Record) -> Result<Self, Stop> {
        let Some(library) = BYTES else { return Err(Failure::NoRecorder.into()) };
        let folder = args.dir.clone().unwrap_or_else(free_folder);
        let failed = |source| Error::Write { path: folder.clone(), source };
        fs::create_dir_all(&folder).map_err(failed)?;
        // The job's processes may have other working directories.
        let folder = fs::canonicalize(&folder).map_err(failed)?;
        let mode = fs::metadata(&folder).map_err(failed)?.mode();
        if mode & OTHERS_WRITE != 0 && mode & STICKY == 0 {
            return Err(Failure::OpenFolder { folder }.into());
        }
        let path = folder.join(RECORDER_LIBRARY);
        unpack(library, &path).map_err(|source| Error::Write { path: path.clone(), source })?;
        let mut variables = vec![
            ("NCCL_STACKS_DIR", folder.clone().into_os_string()),
            ("NCCL_STACKS_RING_RECORDS", (args.ring_size / RECORD).to_string().into()),
        ];
        let mask: u64 = args.events.iter().map(|kind| kind.mask()).fold(0, |all, bits| all | bits);
        let has_calls = args.events.contains(&EventKind::Calls);
        if has_calls {
            variables.push(("LD_PRELOAD", preload(&path)?));
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

/// Whether a file is the library, and nobody else can replace it: it is not a link, and belongs to this user or to root.
fn is_ours(library: &[u8], path: &Path) -> std::io::Result<bool> {
    let mut file = fs::OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let about = file.metadata()?;
    // SAFETY: `geteuid` has no preconditions.
    let user = unsafe { libc::geteuid() };
    let is_safe =
        about.is_file() && [user, 0].contains(&about.uid()) && about.mode() & (GROUP_WRITES | OTHERS_WRITE) == 0;
    let mut found = Vec::new();
    Ok(is_safe && about.len() == library.len() as u64 && file.read_to_end(&mut found).is_ok() && found == library)
}

/// Writes the library atomically: other nodes may be writing the same file, or running from it.
fn unpack(library: &[u8], path: &Path) -> std::io::Result<()> {
    if is_ours(library, path).unwrap_or(false) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(library)?;
    file.as_file().set_permissions(fs::Permissions::from_mode(0o755))?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// The library, followed by what the user preloads. The dynamic linker splits this list at spaces and colons, and has no quoting.
fn preload(library: &Path) -> Result<OsString, Stop> {
    if library.as_os_str().as_encoded_bytes().iter().any(|byte| byte.is_ascii_whitespace() || *byte == b':') {
        return Err(Stop::Usage(format!(
            "{}: the dynamic linker cannot preload from a path with a space or a colon; give another --dir",
            library.display()
        )));
    }
    let mut list = library.as_os_str().to_owned();
    if let Some(own) = env::var_os("LD_PRELOAD").filter(|own| !own.is_empty()) {
        list.push(":");
        list.push(own);
    }
    Ok(list)
}
