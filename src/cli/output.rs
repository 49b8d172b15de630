//! Where results go: standard output, or files that are written whole or not at all. Missing folders are created.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

use crate::document::{format, without_formulas};
use crate::error::Error;
use crate::unfinished::Unfinished;

use super::args::Colour;
use super::failure::Failure;
use super::stop::Stop;
use super::terminal::check_stdout;
use super::{notes, pager, terminal};

/// The destination of a run's results. It is opened before the trace is read, so that a file which cannot be written fails at
/// once and not after minutes of loading.
pub(super) enum Output {
    Stdout,
    /// A regular file, existing or new.
    File(Target),
    /// Not a regular file, such as /dev/null, /dev/stdout or a named pipe: written directly.
    Device {
        file: fs::File,
        path: PathBuf,
    },
}

impl Output {
    /// Prepares the output; `-` is standard output. `inputs` are the files that are read, which must not be overwritten.
    pub(super) fn open(path: Option<&Path>, inputs: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<Self, Stop> {
        let path = path.filter(|path| path.as_os_str() != "-");
        match path {
            Some(path) => Output::at("--output", path, inputs),
            None => check_stdout().map(|()| Output::Stdout).map_err(|error| Failure::Stdout(error).into()),
        }
    }

    /// The same for a path that was given with `flag`.
    fn at(flag: &str, path: &Path, inputs: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<Self, Stop> {
        let failed = |source| Stop::from(Error::Write { path: path.to_owned(), source });
        let (target, is_open_already) = follow_links(path);
        if inputs.into_iter().any(|input| input.as_ref().canonicalize().is_ok_and(|input| input == target)) {
            return Err(Stop::Usage(format!("{flag} {}: this is an input file", path.display())));
        }
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => return Err(failed(io::Error::other("this is a directory"))),
            // The target of a link in /proc is already open: it is used by its descriptor, not by its name.
            Ok(metadata) if !metadata.is_file() || is_open_already => {
                let file = fs::OpenOptions::new().append(true).open(path).map_err(failed)?;
                return Ok(Output::Device { file, path: path.to_owned() });
            }
            Ok(metadata) if metadata.permissions().readonly() => {
                return Err(failed(io::Error::from(io::ErrorKind::PermissionDenied)));
            }
            _ => {}
        }
        try_beside(&target).map_err(failed)?;
        Ok(Output::File(Target { given: path.to_owned(), resolved: target }))
    }

    pub(super) fn is_file(&self) -> bool {
        matches!(self, Output::File(_))
    }

    pub(super) fn width(&self) -> Option<usize> {
        match self {
            Output::Stdout => terminal::size_of(io::stdout()).map(|(width, _)| width),
            Output::File(_) | Output::Device { .. } => None,
        }
    }

    pub(super) fn has_colours(&self, when: Colour) -> bool {
        match when {
            Colour::Auto => self.width().is_some() && terminal::stdout_has_colours(),
            Colour::Always => true,
            Colour::Never => false,
        }
    }

    /// [`Output::finish`] for an answer that may be CSV, which may have to be guarded.
    pub(super) fn finish_csv(self, is_csv: bool, text: &[u8]) -> Result<(), Stop> {
        if is_csv && terminal::settings().guards_csv { self.finish(&without_formulas(text)) } else { self.finish(text) }
    }

    /// [`Output::finish`] for a text for people, which goes through a pager if it is longer than the terminal. Without a pager its end is what one sees: there
    /// `last` is put.
    pub(super) fn finish_text(self, text: &[u8], last: impl FnOnce() -> String) -> Result<(), Stop> {
        let is_longer = matches!(self, Output::Stdout) && pager::is_longer(text);
        match is_longer {
            true if pager::show(text) => Ok(()),
            true => self.finish(&[text, last().as_bytes()].concat()),
            false => self.finish(text),
        }
    }

    /// Writes the results. A file appears under its name only when it is complete.
    pub(super) fn finish(self, text: &[u8]) -> Result<(), Stop> {
        match self {
            Output::Stdout => {
                let mut stdout = io::stdout().lock();
                let written = check_stdout().and_then(|()| stdout.write_all(text)).and_then(|()| stdout.flush());
                written.map_err(not_written)
            }
            Output::File(target) => {
                let failed = |source| Stop::from(Error::Write { path: target.given.clone(), source });
                target.fill(|_, file| file.write_all(text).map_err(failed)).map(drop)
            }
            Output::Device { mut file, path } => {
                file.write_all(text).map_err(|source| Stop::Failed(Failure::WriteDevice { path, source }))
            }
        }
    }
}

/// Why standard output was not written.
pub(super) fn not_written(error: io::Error) -> Stop {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Stop::OutputClosed,
        _ => Stop::Failed(Failure::Stdout(error)),
    }
}

/// Moves a complete file over the old one, whose permissions it keeps.
fn put(temporary: NamedTempFile, path: &Path) -> io::Result<()> {
    if let Ok(old) = fs::metadata(path) {
        temporary.as_file().set_permissions(old.permissions())?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(path).map(drop).map_err(|e| e.error)
}

/// The destination of a large result that is written piece by piece: a file, existing or new.
#[derive(Debug)]
pub(super) struct Target {
    given: PathBuf,
    /// The path with all links resolved.
    resolved: PathBuf,
}

impl Target {
    /// Prepares the file before the trace is read, as [`Output::open`] does. Only a regular file can be replaced.
    pub(super) fn open(
        flag: &str,
        path: &Path,
        inputs: impl IntoIterator<Item = impl AsRef<Path>>,
    ) -> Result<Self, Stop> {
        let no_file = || Stop::Usage(format!("{flag} {}: this is not a regular file", path.display()));
        let is_special = || fs::metadata(path).is_ok_and(|metadata| !metadata.is_dir() && !metadata.is_file());
        if path.as_os_str() == "-" || is_special() {
            return Err(no_file());
        }
        match Output::at(flag, path, inputs)? {
            Output::File(target) => Ok(target),
            Output::Stdout | Output::Device { .. } => Err(no_file()),
        }
    }

    /// Lets `write` fill a new file beside the target, then moves it into place. Returns what `write` does, too.
    pub(super) fn fill<T, E: From<Error>>(
        &self,
        write: impl FnOnce(&Path, &mut fs::File) -> Result<T, E>,
    ) -> Result<(T, Written<'_>), E> {
        let start = Instant::now();
        let failed = |source| E::from(Error::Write { path: self.given.clone(), source });
        let mut temporary = new_beside(&self.resolved, 0o666, |builder, folder| builder.tempfile_in(folder))
            .map_err(|e| failed(e.kind().into()))?;
        let path = temporary.path().to_owned();
        let _unfinished = Unfinished::at(&path);
        let done = write(&path, temporary.as_file_mut())?;
        let size = temporary.as_file().metadata().map_err(failed)?.len();
        put(temporary, &self.resolved).map_err(failed)?;
        Ok((done, Written { path: &self.given, size, time: start.elapsed() }))
    }

    /// Prepares a folder, which must be empty or missing.
    pub(super) fn folder(flag: &str, path: &Path) -> Result<Self, Stop> {
        let failed = |source| Stop::from(Error::Write { path: path.to_owned(), source });
        let (target, _) = follow_links(path);
        match fs::read_dir(&target).map(|mut entries| entries.next().is_none()) {
            Ok(true) => {}
            Ok(false) => {
                return Err(Stop::Usage(format!("{flag} {}: this folder is not empty", path.display())));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(failed(io::Error::from(e.kind()))),
        }
        try_beside(&target).map_err(failed)?;
        Ok(Target { given: path.to_owned(), resolved: target })
    }

    /// Lets `write` fill a new folder beside the target, then moves it into place. `write` returns its size in bytes.
    #[cfg(feature = "parquet")]
    pub(super) fn fill_folder(&self, write: impl FnOnce(&Path) -> Result<u64, Error>) -> Result<Written<'_>, Error> {
        let start = Instant::now();
        let failed = |source| Error::Write { path: self.given.clone(), source };
        let temporary = new_beside(&self.resolved, 0o777, |builder, folder| builder.tempdir_in(folder))
            .map_err(|e| failed(e.kind().into()))?;
        let _unfinished = Unfinished::at(temporary.path());
        let size = write(temporary.path())?;
        if self.resolved.exists() {
            // Fails unless the folder is still empty.
            fs::remove_dir(&self.resolved).map_err(failed)?;
        }
        fs::rename(temporary.path(), &self.resolved).map_err(failed)?;
        // The folder no longer has the name that dropping `temporary` would remove.
        let _ = temporary.keep();
        Ok(Written { path: &self.given, size, time: start.elapsed() })
    }

    /// Whether two results would go to the same file, under whatever names.
    pub(super) fn is_same(&self, other: &Target) -> bool {
        self.resolved == other.resolved
    }

    /// Whether a trace is compressed in this file. Its name decides, as for other programs.
    pub(super) fn is_packed(&self) -> bool {
        self.given.extension().is_none_or(|extension| extension != "json")
    }

    /// The path as the user gave it.
    pub(super) fn name(&self) -> &Path {
        &self.given
    }
}

/// What was written: the path as the user gave it, the size in bytes, and how long that took.
pub(super) struct Written<'a> {
    path: &'a Path,
    pub(super) size: u64,
    time: Duration,
}

impl Written<'_> {
    /// Reports it: `Written: trace.db, 64.30 MB in 1.2 s`.
    pub(super) fn note(self) {
        let size = format::size(self.size);
        terminal::note(&format!("Written: {}, {size} in {:.1} s", self.path.display(), self.time.as_secs_f64()));
    }
}

/// Writes files, each with the folder that it goes to and its name, with the option `flag`. All lie in `folder`, which is reported.
pub(super) fn write_files<'f>(
    flag: &str,
    folder: &Path,
    files: impl Iterator<Item = (PathBuf, &'f str)>,
    inputs: &[PathBuf],
) -> Result<(), Stop> {
    let mut size = 0;
    for (path, text) in files {
        let failed = |path: &Path, source| Stop::from(Error::Write { path: path.to_owned(), source });
        let own = folder_of(&path);
        fs::create_dir_all(own).map_err(|source| failed(own, source))?;
        let write =
            |_: &Path, file: &mut fs::File| file.write_all(text.as_bytes()).map_err(|source| failed(&path, source));
        size += Target::open(flag, &path, inputs)?.fill(write)?.1.size;
    }
    notes::answer_written(folder, size);
    Ok(())
}

/// The file that a path leads to, existing or not, and whether its links go through the kernel's list of open files, as /dev/stdout
/// does.
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

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Fails if nothing can be written beside a path. Creating a file is the only reliable test. The file is removed at once. Missing folders
/// are only created when there is a result, so that a run which fails before leaves nothing.
fn try_beside(path: &Path) -> io::Result<()> {
    let there = folder_of(path).ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("."));
    // The error names the temporary file, so only its kind is passed on to the user.
    tempfile::tempfile_in(there).map(drop).map_err(|e| e.kind().into())
}

/// Creates a new file or folder beside a path with default permissions; temporary files are private otherwise.
fn new_beside<T>(
    path: &Path,
    mode: u32,
    create: fn(&tempfile::Builder<'_, '_>, &Path) -> io::Result<T>,
) -> io::Result<T> {
    let folder = folder_of(path);
    fs::create_dir_all(folder)?;
    create(tempfile::Builder::new().prefix(".nccl-stacks-").permissions(fs::Permissions::from_mode(mode)), folder)
}
