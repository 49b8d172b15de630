//! Where the recorder's library is used from: the installation, or a folder of the user's own, and never the folder of the recordings, which
//! several people may share.
//!
//! The library is part of this program. It is written into a folder once, and each use looks again at who could have changed it: processes of the
//! job load it by its path.

use std::env;
use std::fs::{self, DirBuilder};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::run::inputs::RECORDER_LIBRARY;

use super::trust;
use crate::cli::config::own_folder;
use crate::cli::failure::Failure;
use crate::cli::stop::Stop;

/// The recorder's library, if it was built with this program.
#[cfg(has_recorder)]
const BYTES: Option<&[u8]> = Some(include_bytes!(env!("NCCL_STACKS_RECORDER")));
#[cfg(not(has_recorder))]
const BYTES: Option<&[u8]> = None;

/// The path of the library, which only this user and root can change. `folder`: where the user wants it.
pub(super) fn place(folder: Option<&Path>) -> Result<PathBuf, Stop> {
    let Some(library) = BYTES else { return Err(Failure::NoRecorder.into()) };
    if let Some(folder) = folder {
        return unpack(library, folder, 0o755);
    }
    if let Some(installed) = installed(library) {
        return Ok(installed);
    }
    let mut failure = None;
    let temporary = env::temp_dir().join(format!("nccl-stacks-{}", trust::user()));
    for folder in own_folder("XDG_CACHE_HOME", ".cache").into_iter().chain([temporary]) {
        match unpack(library, &folder, 0o700) {
            Ok(path) => return Ok(path),
            Err(stop) => failure = failure.or(Some(stop)),
        }
    }
    Err(failure.unwrap_or_else(|| Failure::NoLibraryFolder.into()))
}

/// The library beside this program, or in the folder `lib` beside the program's, as packages install it.
fn installed(library: &[u8]) -> Option<PathBuf> {
    let program = fs::canonicalize(env::current_exe().ok()?).ok()?;
    let folder = program.parent()?;
    let folders = [folder.to_owned(), folder.parent()?.join("lib/nccl-stacks")];
    folders.into_iter().map(|folder| folder.join(RECORDER_LIBRARY)).find(|path| {
        let folder = path.parent().and_then(|folder| fs::canonicalize(folder).ok());
        can_be_preloaded(path) && is_ours(library, path) && folder.is_some_and(|folder| trust::folder(&folder).is_ok())
    })
}

/// Whether the dynamic linker can preload from a path. It splits its list at spaces and colons, and has no quoting.
fn can_be_preloaded(path: &Path) -> bool {
    !path.as_os_str().as_encoded_bytes().iter().any(|byte| byte.is_ascii_whitespace() || *byte == b':')
}

/// Whether a file is the library, and only this user and root can change it. A link is none.
fn is_ours(library: &[u8], path: &Path) -> bool {
    let open = fs::OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let Ok(mut file) = open else { return false };
    let is_safe = file.metadata().is_ok_and(|about| trust::file(&about) && about.len() == library.len() as u64);
    let mut found = Vec::new();
    is_safe && file.read_to_end(&mut found).is_ok() && found == library
}

/// Writes the library into a folder, unless it is there. The folder is created with this mode.
fn unpack(library: &[u8], folder: &Path, mode: u32) -> Result<PathBuf, Stop> {
    let failed = |source| Error::Write { path: folder.to_owned(), source };
    DirBuilder::new().recursive(true).mode(mode).create(folder).map_err(failed)?;
    let folder = fs::canonicalize(folder).map_err(failed)?;
    trust::folder(&folder).map_err(|why| Failure::OpenLibraryFolder { folder: folder.clone(), why })?;
    let path = folder.join(RECORDER_LIBRARY);
    if !can_be_preloaded(&path) {
        return Err(Stop::Usage(format!(
            "{}: the dynamic linker cannot preload from a path with a space or a colon; give another --library-dir",
            path.display()
        )));
    }
    if !is_ours(library, &path) {
        write(library, &folder, &path).map_err(|source| Error::Write { path: path.clone(), source })?;
    }
    Ok(path)
}

/// Writes it whole or not at all: other nodes may be writing the same file, or running from it.
fn write(library: &[u8], folder: &Path, path: &Path) -> std::io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(library)?;
    file.as_file().set_permissions(fs::Permissions::from_mode(0o755))?;
    file.persist(path).map(drop).map_err(|error| error.error)
}
