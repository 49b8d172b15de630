//! Where results go: standard output, or files that are written whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::Stop;
use super::interrupt::Unfinished;
use crate::error::Error;

/// Where the results of a run go. Opened before the trace is read, so that a file which cannot be written fails at once and
/// not after minutes of loading.
pub(super) enum Output {
    /// Standard output.
    Stdout,
    /// A regular file, there already or not, with all links followed.
    File { path: PathBuf },
    /// Something that is no regular file, such as /dev/null, /dev/stdout or a named pipe: written in place.
    Device { file: fs::File, path: PathBuf },
}

impl Output {
    /// Prepares the output; `-` is standard output, as for other programs. `inputs` are the files that are read, which must not be overwritten.
    pub(super) fn open(path: Option<&Path>, inputs: &[&Path]) -> Result<Self, Stop> {
        let path = path.filter(|path| path.as_os_str() != "-");
        path.map_or(Ok(Output::Stdout), |path| Output::at("--output", path, inputs))
    }

    /// The same for a path that was given with this flag.
    fn at(flag: &str, path: &Path, inputs: &[&Path]) -> Result<Self, Stop> {
        let failed = |source| Stop::Failed(Error::Write { path: path.to_owned(), source });
        let (target, is_open_already) = follow_links(path);
        if inputs.iter().any(|input| input.canonicalize().is_ok_and(|input| input == target)) {
            return Err(Stop::Usage(format!("{flag} {}: this is a file that is read", path.display())));
        }
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => return Err(failed(io::Error::other("this is a directory"))),
            // What a link of /proc leads to is open already, by its number and not by the name that it has there.
            Ok(metadata) if !metadata.is_file() || is_open_already => {
                let file = fs::OpenOptions::new().append(true).open(path).map_err(failed)?;
                return Ok(Output::Device { file, path: path.to_owned() });
            }
            Ok(metadata) if metadata.permissions().readonly() => {
                return Err(failed(io::Error::from(io::ErrorKind::PermissionDenied)));
            }
            _ => {}
        }
        // Whether a file can be made there is tried and not asked; it is gone again at once, so that nothing stays behind
        // if the load is interrupted. The library's error names the temporary file; the kind says what a person needs.
        new_file_beside(&target).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => failed(io::Error::other("the folder does not exist")),
            kind => failed(kind.into()),
        })?;
        Ok(Output::File { path: target })
    }

    /// How many columns there are, if it is a screen.
    pub(super) fn width(&self) -> Option<usize> {
        match self {
            Output::Stdout => terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0.into()),
            Output::File { .. } | Output::Device { .. } => None,
        }
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
            Output::File { path } => replace(&path, text).map_err(|source| Stop::Failed(Error::Write { path, source })),
            Output::Device { mut file, path } => {
                file.write_all(text).map_err(|source| Stop::Failed(Error::WriteDevice { path, source }))
            }
        }
    }
}

/// Writes a new file and puts it in the place of the old one, whose permissions it takes over.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut temporary = new_file_beside(path).map_err(|e| io::Error::from(e.kind()))?;
    let _unfinished = Unfinished::at(temporary.path());
    temporary.write_all(text)?;
    put(temporary, path)
}

/// Puts a file that is whole in the place of the old one.
fn put(temporary: NamedTempFile, path: &Path) -> io::Result<()> {
    if let Ok(old) = fs::metadata(path) {
        temporary.as_file().set_permissions(old.permissions())?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(path).map(drop).map_err(|e| e.error)
}

/// The place of a large result, which is written bit by bit: a file, there already or not.
#[derive(Debug)]
pub(super) struct Place {
    /// As it was given.
    name: PathBuf,
    /// With all links followed.
    target: PathBuf,
}

impl Place {
    /// Prepares the place, before the trace is read, as [`Output::open`] does. What is no file cannot be replaced.
    pub(super) fn open(flag: &str, path: &Path, inputs: &[&Path]) -> Result<Self, Stop> {
        let no_file = || Stop::Usage(format!("{flag} {}: this is no regular file", path.display()));
        let is_special = || fs::metadata(path).is_ok_and(|metadata| !metadata.is_dir() && !metadata.is_file());
        if path.as_os_str() == "-" || is_special() {
            return Err(no_file());
        }
        match Output::at(flag, path, inputs)? {
            Output::File { path: target } => Ok(Place { name: path.to_owned(), target }),
            Output::Stdout | Output::Device { .. } => Err(no_file()),
        }
    }

    /// Lets `write` fill a new file beside the place, then puts it there. How large it became, in bytes.
    pub(super) fn fill(&self, write: impl FnOnce(&Path, &mut fs::File) -> Result<(), Error>) -> Result<u64, Error> {
        let failed = |source| Error::Write { path: self.name.clone(), source };
        let mut temporary = new_file_beside(&self.target).map_err(|e| failed(e.kind().into()))?;
        let path = temporary.path().to_owned();
        let _unfinished = Unfinished::at(&path);
        write(&path, temporary.as_file_mut())?;
        let size = temporary.as_file().metadata().map_err(failed)?.len();
        put(temporary, &self.target).map_err(failed)?;
        Ok(size)
    }

    /// Prepares the place of a folder, which must be empty or not there.
    #[cfg(feature = "parquet")]
    pub(super) fn folder(flag: &str, path: &Path) -> Result<Self, Stop> {
        let failed = |source| Stop::Failed(Error::Write { path: path.to_owned(), source });
        let (target, _) = follow_links(path);
        match fs::read_dir(&target).map(|mut entries| entries.next().is_none()) {
            Ok(true) => {}
            Ok(false) => {
                return Err(Stop::Usage(format!("{flag} {}: this folder is not empty", path.display())));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(failed(io::Error::from(e.kind()))),
        }
        // As for files: tried and gone again.
        new_folder_beside(&target).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => failed(io::Error::other("the folder around it does not exist")),
            kind => failed(kind.into()),
        })?;
        Ok(Place { name: path.to_owned(), target })
    }

    /// Lets `write` fill a new folder beside the place, then puts it there. What `write` gives.
    #[cfg(feature = "parquet")]
    pub(super) fn fill_folder<T>(&self, write: impl FnOnce(&Path) -> Result<T, Error>) -> Result<T, Error> {
        let failed = |source| Error::Write { path: self.name.clone(), source };
        let temporary = new_folder_beside(&self.target).map_err(|e| failed(e.kind().into()))?;
        let _unfinished = Unfinished::at(temporary.path());
        let result = write(temporary.path())?;
        if self.target.exists() {
            // Only if it is empty still.
            fs::remove_dir(&self.target).map_err(failed)?;
        }
        fs::rename(temporary.path(), &self.target).map_err(failed)?;
        // It is not there any more under its old name, where it would be looked for to be removed.
        let _ = temporary.keep();
        Ok(result)
    }

    /// Whether two results would go to one file, whatever it is called.
    pub(super) fn is_same(&self, other: &Place) -> bool {
        self.target == other.target
    }

    /// Whether a trace is packed there: other programs go by the name, too.
    pub(super) fn is_packed(&self) -> bool {
        self.name.extension().is_none_or(|extension| extension != "json")
    }

    /// Its name, as it was given.
    pub(super) fn name(&self) -> &Path {
        &self.name
    }
}

/// The file to which a path leads, also where it is not there yet, and whether the way goes through the kernel's list of open
/// files, as that of /dev/stdout does.
fn follow_links(path: &Path) -> (PathBuf, bool) {
    /// As many as Linux follows.
    const MAX_LINKS: usize = 40;
    let (mut target, mut is_open_already) = (path.to_owned(), false);
    for _ in 0..MAX_LINKS {
        let Ok(link) = fs::read_link(&target) else { break };
        let folder = target.parent().unwrap_or(Path::new(""));
        is_open_already |= folder.canonicalize().is_ok_and(|folder| folder.starts_with("/proc"));
        target = folder.join(link);
    }
    (target.canonicalize().unwrap_or(target), is_open_already)
}

/// A new file with the permissions that any new file gets; temporary files are private otherwise.
fn new_file_beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".nccl-stacks-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}

/// The same for a folder.
#[cfg(feature = "parquet")]
fn new_folder_beside(path: &Path) -> io::Result<tempfile::TempDir> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".nccl-stacks-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o777));
    }
    builder.tempdir_in(folder)
}
