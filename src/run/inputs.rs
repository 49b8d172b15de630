//! What the inputs are: the files that paths mean, and which of them are traces, parts that were written before, and NCCL's own records. File names
//! decide only which files of a folder are looked at.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::RunError;
use super::reading::Run;
use crate::attribution::selection::Pattern;
use crate::document::format::visible;
use crate::error::Error;
use crate::input::{self, Contents, Input};
use crate::parts::{MAGIC, set};
use crate::records::{Keep, Records, source_of_input, source_of_name};

/// The name of the recorder's library.
pub const RECORDER_LIBRARY: &str = "libnccl_stacks_recorder.so";

/// Folders deeper than this are not looked into. A flow extractor writes into `output/<topology>/`.
const DEPTH: usize = 8;

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

/// The files that some paths mean.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    pub traces: Vec<PathBuf>,
    /// Parts that were written before.
    pub parts: Vec<PathBuf>,
    /// NCCL's own records.
    pub records: Vec<PathBuf>,
}

impl Inputs {
    /// Distinguishes files by their first bytes. In a folder it looks at the files named like traces or parts or, if there are none, at all files.
    pub fn sort(paths: &[PathBuf]) -> Result<Self, RunError> {
        let (mut files, mut records) = (Vec::new(), Vec::new());
        for path in paths {
            match traces_or_parts(path) {
                Ok(found) => {
                    let (of_records, others) = divide(found);
                    records.extend(of_records);
                    files.extend(others);
                }
                // Files of no known source are named where the others are read; without any there is no trace either.
                Err(error) if path.is_dir() => {
                    let all = record_files(std::slice::from_ref(path))?;
                    records.extend(Some(all).filter(|all| all.iter().any(|file| has_records(file))).ok_or(error)?);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Inputs::divided(files, records))
    }

    /// Traces and parts alone: the traces of a folder, or the parts if it has no traces.
    pub fn without_records(path: &Path) -> Result<Self, RunError> {
        Ok(Inputs::divided(traces_or_parts(path)?, Vec::new()))
    }

    /// Traces and parts, and the records among them and in their folders. Of a folder with traces only its own files and those of a folder
    /// `records` in it are looked at: what else is below it can be a disk full of other things.
    /// Errors: a path to nothing, and a folder with neither.
    pub fn with_records(paths: &[PathBuf], alone: Alone) -> Result<Self, RunError> {
        let (mut files, mut records) = (Vec::new(), Vec::new());
        for path in paths {
            let (found, depth) = match traces_or_parts(path) {
                Ok(found) => (found, 0),
                Err(RunError::NoTraceInFolder { .. }) if alone == Alone::Allowed => (Vec::new(), DEPTH),
                Err(error) => return Err(error),
            };
            if path.is_dir() {
                let mut beside = Vec::new();
                all_files(path, depth, &mut beside)?;
                let folder = path.join("records");
                if depth == 0 && folder.is_dir() {
                    all_files(&folder, DEPTH, &mut beside)?;
                }
                let known: HashSet<&PathBuf> = found.iter().collect();
                beside.retain(|file| !known.contains(file) && has_records(file));
                if found.is_empty() && beside.is_empty() {
                    return Err(RunError::NeitherInFolder { folder: path.clone() });
                }
                records.extend(beside);
            }
            files.extend(found);
        }
        let (among, others) = divide(files);
        records.extend(among);
        Ok(Inputs::divided(others, records))
    }

    /// Divides traces from parts. A file named like a part that is no trace is a broken part if there are others, and has to be named.
    fn divided(mut files: Vec<PathBuf>, mut records: Vec<PathBuf>) -> Self {
        once(&mut files);
        once(&mut records);
        let (mut parts, mut traces): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| is_part(file));
        if !parts.is_empty() {
            let broken;
            (broken, traces) = traces
                .into_iter()
                .partition(|file| !is_read_once(file) && is_named_like_a_part(file) && !is_trace(file));
            parts.extend(broken);
        }
        Inputs { traces, parts, records }
    }

    /// All files, which must not be overwritten.
    pub fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.traces.iter().chain(&self.parts).chain(&self.records)
    }

    /// Traces and parts, for what answers from no part: reading one says what does.
    pub fn as_traces(self) -> Vec<PathBuf> {
        [self.traces, self.parts].concat()
    }

    /// Whether these are parts, which then have to be alone.
    /// Errors: parts beside traces.
    pub fn are_parts(&self) -> Result<bool, RunError> {
        match (self.parts.first(), self.traces.first()) {
            (Some(part), Some(trace)) => Err(RunError::PartsBesideTraces { part: part.clone(), trace: trace.clone() }),
            (part, _) => Ok(part.is_some()),
        }
    }

    /// Which records are left out beside traces or parts, in a sentence.
    pub fn left_out(&self) -> Option<String> {
        let others = match (self.traces.is_empty(), self.parts.is_empty()) {
            (true, true) => return None,
            (true, false) => "parts",
            _ => "traces",
        };
        let names: Vec<String> =
            self.records.iter().map(|file| visible(&file.display().to_string()).into_owned()).collect();
        let names = Some(names.join(", ")).filter(|names| !names.is_empty())?;
        Some(format!("Left out, because they are records and the others are {others}: {names}"))
    }
}

/// The files of a path that may be traces or parts. In a folder they are the files named like traces and, if none of these is a trace, the
/// tables: parts may be written beside their traces.
fn traces_or_parts(path: &Path) -> Result<Vec<PathBuf>, RunError> {
    let found = expand(&[path.to_owned()]);
    let tables = if path.is_dir() { files_in(path, |name| name.ends_with(TABLE))? } else { Vec::new() };
    if tables.is_empty() || found.iter().flatten().any(|file| is_trace(file)) {
        return found;
    }
    Ok([found.unwrap_or_default(), tables].concat())
}

/// Whether records without any trace are an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alone {
    Allowed,
    /// They are not.
    Refused,
}

impl Run<'_> {
    /// Traces and parts, and the records among them, beside them, and among some files that are named as records, read.
    pub fn traces_and_records(
        &self,
        paths: &[PathBuf],
        named: &[PathBuf],
        alone: Alone,
    ) -> Result<(Inputs, Option<Arc<Records>>), RunError> {
        let files = Inputs::with_records(paths, alone)?;
        let of_records = [&files.records, named].concat();
        let records = if of_records.is_empty() { None } else { Some(Arc::new(self.records(&of_records, Keep::All)?)) };
        Ok((files, records))
    }
}

/// Files with records, and others.
fn divide(files: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    files.into_iter().partition(|file| has_records(file))
}

/// A file that is named twice is read once.
fn once(files: &mut Vec<PathBuf>) {
    let mut seen = HashSet::new();
    files.retain(|file| seen.insert(file.clone()));
}

/// Whether a file is of a known source, or an archive that has such files and no trace. Standard input and pipes are read once, and so are traces.
pub fn has_records(file: &Path) -> bool {
    // An error here occurs again when the file is read.
    source_of_name(file).is_some()
        || !is_read_once(file) && input::open(file).and_then(source_of_input).is_ok_and(|source| source.is_some())
}

/// All files that some paths mean, whatever they are. Those of a folder, and of the folders in it, by name; hidden ones are not read.
/// Errors: a folder without files, or one that cannot be read.
pub fn record_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, RunError> {
    let mut files: Vec<PathBuf> = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = files.len();
            all_files(path, DEPTH, &mut files)?;
            if files.len() == before {
                return Err(RunError::NoFileInFolder { folder: path.clone() });
            }
        } else {
            files.push(path.clone());
        }
    }
    once(&mut files);
    Ok(files)
}

fn all_files(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), RunError> {
    // The recorder's library lies beside its files.
    for path in entries(folder)?.into_iter().filter(|path| !path.ends_with(RECORDER_LIBRARY)) {
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() && depth > 0 => all_files(&path, depth - 1, files)?,
            // Opening a pipe without a writer would wait for ever.
            Ok(metadata) if !metadata.is_file() => {}
            // A file that cannot be read is reported when it is read.
            _ => files.push(path),
        }
    }
    Ok(())
}

/// Whether a file is a trace or an archive by its beginning, whatever its name.
fn is_trace(file: &Path) -> bool {
    let contents = input::open(file).and_then(Input::into_contents);
    contents.is_ok_and(|contents| match contents {
        Contents::Archive(_) => true,
        Contents::File(trace) => trace.looks_like_one(),
    })
}

/// Whether a file has parts. Standard input and pipes are read once, and so are traces.
fn is_part(file: &Path) -> bool {
    if is_read_once(file) {
        return false;
    }
    let mut beginning = Vec::new();
    let opened = std::fs::File::open(file);
    let read = opened.and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut beginning));
    read.is_ok() && set::is_part(&beginning)
}

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
/// Errors: a path to nothing, a folder without traces or one that cannot be read.
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
    once(&mut files);
    Ok(files)
}

/// The files of a folder with such a name, not of the folders in it.
fn files_in(folder: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, RunError> {
    let wanted = |file: &PathBuf| is_wanted(&file.file_name().unwrap_or_default().to_string_lossy());
    let mut files = entries(folder)?;
    // A pipe would be waited for. What a broken link leads to is reported where it is read.
    files.retain(|file| wanted(file) && (!file.exists() || file.is_file()));
    Ok(files)
}

/// Profilers write a folder for each rank or each iteration, and no deeper.
const OF_PROFILERS: usize = 2;

/// The traces of a folder; of one that has nothing but folders, those of these. What is below a folder with other files can be a disk full of other things.
fn of_folder(folder: &Path) -> Result<Vec<PathBuf>, RunError> {
    let mut traces = files_in(folder, is_named_like_a_trace)?;
    let mut folders = vec![folder.to_owned()];
    for _ in 0..OF_PROFILERS {
        let in_each = |of: fn(&Path) -> Result<Vec<PathBuf>, RunError>, folders: &[PathBuf]| {
            folders.iter().map(|folder| of(folder)).collect::<Result<Vec<_>, _>>().map(|found| found.concat())
        };
        if !traces.is_empty() || !in_each(|folder| files_in(folder, |_| true), &folders)?.is_empty() {
            break;
        }
        folders = in_each(folders_in, &folders)?;
        traces = in_each(|folder| files_in(folder, is_named_like_a_trace), &folders)?;
    }
    if traces.is_empty() {
        let endings = [TRACES, ARCHIVES].concat().join(", ");
        return Err(RunError::NoTraceInFolder { folder: folder.to_owned(), endings });
    }
    Ok(traces)
}

/// The folders in a folder, by name. Links are not followed: they may lead back.
fn folders_in(folder: &Path) -> Result<Vec<PathBuf>, RunError> {
    let mut folders = entries(folder)?;
    folders.retain(|path| path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()));
    Ok(folders)
}

/// What is in a folder, by name. Hidden files are not read.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, RunError> {
    let names = names_in(folder).map_err(|source| Error::Read { name: folder.display().to_string(), source })?;
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
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
