//! The files that paths mean: files themselves, the traces of folders, and what a pattern matches where no shell has done that.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::error::RunError;
use crate::attribution::selection::Pattern;
use crate::error::Error;

/// The endings of files that are traces.
const TRACES: &[&str] =
    &[".json", ".json.gz", ".json.zst", ".pftrace", ".perfetto-trace", ".sqlite", ".sqlite.gz", ".sqlite.zst"];

/// The endings of archives, of traces or of records.
const ARCHIVES: &[&str] = &[".zip", ".tar", ".tar.gz", ".tgz", ".tar.zst"];

/// The ending of tables. Parts are tables or `.json`.
const TABLE: &str = ".parquet";

/// How alike, from 0 to 1, the name of a file must be to one that does not exist for it to be named.
pub const ALIKE: f64 = 0.8;

/// How many such files are named.
const NAMED: usize = 3;

/// Whether a name ends as those of traces do.
pub fn is_named_like_a_trace(name: &str) -> bool {
    is_named_like_an_archive(name) || TRACES.iter().any(|ending| name.ends_with(ending))
}

/// Whether a name ends as those of archives do.
pub fn is_named_like_an_archive(name: &str) -> bool {
    ARCHIVES.iter().any(|ending| name.ends_with(ending))
}

/// Whether a name ends as those of parts do.
pub fn is_named_like_a_part(file: &Path) -> bool {
    let name = file.to_string_lossy();
    name.ends_with(TABLE) || name.ends_with(".json")
}

/// All files that paths mean, those of a folder by name. A file that is named twice is read once.
///
/// # Errors
/// A path to nothing, a folder without traces or one that cannot be read.
pub fn expand(arguments: &[PathBuf]) -> Result<Vec<PathBuf>, RunError> {
    let mut files: Vec<PathBuf> = Vec::new();
    for argument in arguments {
        let found = if argument.is_dir() {
            of_folder(argument)?
        } else if argument.as_os_str() == "-" || argument.exists() {
            vec![argument.clone()]
        } else {
            matching(argument)?
        };
        files.extend(found);
    }
    let mut seen = HashSet::new();
    files.retain(|file| seen.insert(file.clone()));
    Ok(files)
}

/// The tables of a folder, which parts may be in.
///
/// # Errors
/// A folder that cannot be read.
pub fn tables_in(folder: &Path) -> Result<Vec<PathBuf>, RunError> {
    files_in(folder, |name| name.ends_with(TABLE))
}

/// The files of a folder with such a name, not of the folders in it.
fn files_in(folder: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, RunError> {
    let names = names_in(folder).map_err(|source| Error::Read { name: folder.display().to_string(), source })?;
    let wanted = names.into_iter().filter(|name| is_wanted(&name.to_string_lossy())).map(|name| folder.join(name));
    // A pipe would be waited for. What a broken link leads to is reported where it is read.
    Ok(wanted.filter(|file| !file.exists() || file.is_file()).collect())
}

/// Profilers write a folder for each rank or each iteration, and no deeper.
const DEPTH: usize = 2;

/// The traces of a folder; of one that has nothing but folders, those of these. What is below a folder with other files can be a disk full of other things.
fn of_folder(folder: &Path) -> Result<Vec<PathBuf>, RunError> {
    let mut traces = files_in(folder, is_named_like_a_trace)?;
    let mut folders = vec![folder.to_owned()];
    for _ in 0..DEPTH {
        let has_files = folders.iter().map(|folder| files_in(folder, |_| true)).collect::<Result<Vec<_>, _>>()?;
        if !traces.is_empty() || has_files.iter().any(|files| !files.is_empty()) {
            break;
        }
        folders = folders.iter().map(|folder| folders_in(folder)).collect::<Result<Vec<_>, _>>()?.concat();
        traces = folders
            .iter()
            .map(|folder| files_in(folder, is_named_like_a_trace))
            .collect::<Result<Vec<_>, _>>()?
            .concat();
    }
    if traces.is_empty() {
        let endings = [TRACES, ARCHIVES].concat().join(", ");
        return Err(RunError::NoTraceInFolder { folder: folder.to_owned(), endings });
    }
    Ok(traces)
}

/// The folders in a folder, by name. Links are not followed: they may lead back.
fn folders_in(folder: &Path) -> Result<Vec<PathBuf>, RunError> {
    let names = names_in(folder).map_err(|source| Error::Read { name: folder.display().to_string(), source })?;
    let is_folder = |path: &PathBuf| path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    Ok(names.into_iter().map(|name| folder.join(name)).filter(is_folder).collect())
}

/// The files whose names match the last part of a path.
fn matching(path: &Path) -> Result<Vec<PathBuf>, RunError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let names = names_in(folder).unwrap_or_default();
    let inside = |name: &OsString| path.parent().unwrap_or(Path::new("")).join(name);
    if name.contains(['*', '?']) {
        let pattern = Pattern::parse(&name)?;
        let found: Vec<PathBuf> =
            names.iter().filter(|name| pattern.fits(&name.to_string_lossy())).map(inside).collect();
        if !found.is_empty() {
            return Ok(found);
        }
    }
    let mut near: Vec<(f64, PathBuf)> =
        names.iter().map(|other| (strsim::jaro_winkler(&other.to_string_lossy(), &name), inside(other))).collect();
    near.retain(|(alike, file)| *alike > ALIKE && file.is_file());
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.truncate(NAMED);
    Err(RunError::NoSuchFile { path: path.to_owned(), near: near.into_iter().map(|(_, file)| file).collect() })
}

/// What the arguments are called together. In any order they are the same answer.
pub fn in_order(arguments: &[PathBuf]) -> String {
    let mut names: Vec<String> = arguments.iter().map(|argument| argument.display().to_string()).collect();
    names.sort();
    names.join(", ")
}

/// Whether a file can be read only once. Opening a named pipe again would wait for a writer that does not come.
pub fn is_read_once(file: &Path) -> bool {
    let is_pipe = std::fs::metadata(file).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir());
    file.as_os_str() == "-" || is_pipe
}

/// The names in a folder, sorted. They need not be text.
fn names_in(folder: &Path) -> std::io::Result<Vec<OsString>> {
    let names = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name()));
    let mut names = names.collect::<std::io::Result<Vec<OsString>>>()?;
    names.retain(|name| !name.as_encoded_bytes().starts_with(b"."));
    names.sort();
    Ok(names)
}
