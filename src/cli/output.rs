//! Where results go: standard output, or a file that is written whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::Stop;
use crate::error::Error;

/// Where the results of a run go. Opened before the trace is read, so that a file which cannot be written fails at once and
/// not after minutes of loading.
pub(super) enum Output {
    /// Standard output.
    Stdout,
    /// A new file beside the one that it will replace.
    File { temporary: NamedTempFile, path: PathBuf },
    /// Something that is no regular file, such as /dev/null or a named pipe: written in place.
    Device { file: fs::File, path: PathBuf },
}

impl Output {
    /// Prepares the output. `trace` is the file that is read, which must not be overwritten.
    pub(super) fn open(path: Option<&Path>, trace: &Path) -> Result<Self, Stop> {
        let Some(path) = path else { return Ok(Output::Stdout) };
        let failed = |source| Stop::Failed(Error::Write { path: path.to_owned(), source });
        if let (Ok(a), Ok(b)) = (path.canonicalize(), trace.canonicalize())
            && a == b
        {
            return Err(Stop::Usage(format!("--output {}: this is the trace itself", path.display())));
        }
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => return Err(failed(io::Error::other("this is a directory"))),
            Ok(metadata) if !metadata.is_file() => {
                let file = fs::OpenOptions::new().write(true).open(path).map_err(failed)?;
                return Ok(Output::Device { file, path: path.to_owned() });
            }
            Ok(metadata) if metadata.permissions().readonly() => {
                return Err(failed(io::Error::from(io::ErrorKind::PermissionDenied)));
            }
            _ => {}
        }
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // The library's error names the temporary file; the kind alone says what the person needs.
        let temporary = new_file(folder).map_err(|e| failed(e.kind().into()))?;
        Ok(Output::File { temporary, path: path.to_owned() })
    }

    /// Writes the results and makes the file visible under its name.
    pub(super) fn finish(self, text: &[u8]) -> Result<(), Stop> {
        match self {
            Output::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(text).and_then(|()| stdout.flush()).map_err(|e| match e.kind() {
                    io::ErrorKind::BrokenPipe => Stop::NobodyListens,
                    _ => Stop::Failed(Error::Stdout(e)),
                })
            }
            Output::File { mut temporary, path } => {
                let result = temporary
                    .write_all(text)
                    .and_then(|()| temporary.as_file().sync_all())
                    .and_then(|()| temporary.persist(&path).map(drop).map_err(|e| e.error));
                result.map_err(|source| Stop::Failed(Error::Write { path, source }))
            }
            Output::Device { mut file, path } => {
                file.write_all(text).map_err(|source| Stop::Failed(Error::Write { path, source }))
            }
        }
    }
}

/// A new file with the permissions that any new file gets; temporary files are private otherwise.
fn new_file(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".nccl-stacks-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}
