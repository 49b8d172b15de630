//! What the inputs are: traces, parts that were written before, and NCCL's own records. File names decide only which files of a folder are looked at.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::RunError;
use super::files::{self, is_named_like_a_part, is_read_once};
use super::reading::Run;
use crate::error::Error;
use crate::input::{self, Contents, Input};
use crate::parts::{MAGIC, set};
use crate::records::{Keep, Records, source_of_input, source_of_name};
use crate::report::format::visible;

/// The name of the recorder's library.
pub const RECORDER_LIBRARY: &str = "libnccl_stacks_recorder.so";

/// Folders deeper than this are not looked into. A flow extractor writes into `output/<topology>/`.
const DEPTH: usize = 8;

/// The files that some paths mean.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Traces.
    pub traces: Vec<PathBuf>,
    /// Parts that were written before.
    pub parts: Vec<PathBuf>,
    /// NCCL's own records.
    pub records: Vec<PathBuf>,
}

impl Sources {
    /// Distinguishes files by their first bytes. In a folder it looks at the files named like traces or parts or, if there are none, at all files.
    ///
    /// # Errors
    /// As [`files::expand`].
    pub fn sort(paths: &[PathBuf]) -> Result<Self, RunError> {
        let (mut files, mut records) = (Vec::new(), Vec::new());
        for path in paths {
            match traces_or_parts(path) {
                Err(error) if path.is_dir() => {
                    let all = record_files(std::slice::from_ref(path))?;
                    // Files of no known source are named where the others are read; without any there is no trace either.
                    if !all.iter().any(|file| has_records(file)) {
                        return Err(error);
                    }
                    records.extend(all);
                }
                found => found?.into_iter().for_each(|file| {
                    (if has_records(&file) { &mut records } else { &mut files }).push(file);
                }),
            }
        }
        Ok(Sources::divided(files, records))
    }

    /// Traces and parts alone: the traces of a folder, or the parts if it has no traces.
    ///
    /// # Errors
    /// As [`files::expand`].
    pub fn without_records(paths: &[PathBuf]) -> Result<Self, RunError> {
        let files: Vec<Vec<PathBuf>> = paths.iter().map(|path| traces_or_parts(path)).collect::<Result<_, _>>()?;
        Ok(Sources::divided(files.concat(), Vec::new()))
    }

    /// Divides traces from parts. A file named like a part that is no trace is a broken part if there are others, and has to be named.
    fn divided(mut files: Vec<PathBuf>, mut records: Vec<PathBuf>) -> Self {
        for of_kind in [&mut files, &mut records] {
            let mut seen = HashSet::new();
            of_kind.retain(|file| seen.insert(file.clone()));
        }
        let (mut parts, mut traces): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| is_part(file));
        if !parts.is_empty() {
            let broken;
            (broken, traces) = traces
                .into_iter()
                .partition(|file| !is_read_once(file) && is_named_like_a_part(file) && !is_trace(file));
            parts.extend(broken);
        }
        Sources { traces, parts, records }
    }

    /// Traces and parts, for what answers from no part: reading one says what does.
    pub fn as_traces(self) -> Vec<PathBuf> {
        [self.traces, self.parts].concat()
    }

    /// Whether these are parts, which then have to be alone.
    ///
    /// # Errors
    /// Parts beside traces.
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
    let found = files::expand(&[path.to_owned()]);
    let tables = if path.is_dir() { files::tables_in(path)? } else { Vec::new() };
    if tables.is_empty() || found.iter().flatten().any(|file| is_trace(file)) {
        return found;
    }
    Ok([found.unwrap_or_default(), tables].concat())
}

/// Whether records without any trace are an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alone {
    /// They are.
    Allowed,
    /// They are not.
    Refused,
}

/// The traces that some paths mean, and the records among them and in their folders. Archives are taken for archives of traces. Of a folder with traces only its own files and those of a folder `records` in it are looked at: what else is below it can be a
/// disk full of other things.
///
/// # Errors
/// As [`files::expand`], and a folder with neither.
pub fn with_records(paths: &[PathBuf], alone: Alone) -> Result<Sources, RunError> {
    let (mut files, mut among) = (Vec::new(), Vec::new());
    for path in paths {
        let (found, depth) = match traces_or_parts(path) {
            Ok(found) => (found, 0),
            Err(RunError::NoTraceInFolder { .. }) if alone == Alone::Allowed => (Vec::new(), DEPTH),
            Err(error) => return Err(error),
        };
        if path.is_dir() {
            let records = among.len();
            let mut beside = Vec::new();
            of_folder(path, depth, &mut beside)?;
            let folder = path.join("records");
            if depth == 0 && folder.is_dir() {
                of_folder(&folder, DEPTH, &mut beside)?;
            }
            let known: HashSet<&PathBuf> = found.iter().collect();
            among.extend(beside.into_iter().filter(|file| !known.contains(file) && is_record(file)));
            if found.is_empty() && among.len() == records {
                return Err(RunError::NeitherInFolder { folder: path.clone() });
            }
        }
        files.extend(found);
    }
    let (of_files, others): (Vec<PathBuf>, Vec<PathBuf>) = files.into_iter().partition(|file| is_record(file));
    among.extend(of_files);
    Ok(Sources::divided(others, among))
}

/// Files, of which the records are read at once, if there are any.
#[derive(Debug, Clone, Default)]
pub struct TracesAndRecords {
    /// The files.
    pub files: Sources,
    /// NCCL's own records.
    pub records: Option<Arc<Records>>,
}

impl Run<'_> {
    /// The traces that some paths mean, and the records among them, beside them, and among some files that are named as records.
    ///
    /// # Errors
    /// As [`with_records`], and records that cannot be read.
    pub fn traces_and_records(
        &self,
        paths: &[PathBuf],
        named: &[PathBuf],
        alone: Alone,
    ) -> Result<TracesAndRecords, RunError> {
        let files = with_records(paths, alone)?;
        let of_records = [&files.records, named].concat();
        let records = if of_records.is_empty() { None } else { Some(Arc::new(self.records(&of_records, Keep::All)?)) };
        Ok(TracesAndRecords { files, records })
    }
}

/// Whether a file, which is no archive, is of a known source.
pub fn is_record(file: &Path) -> bool {
    !files::is_named_like_an_archive(&file.to_string_lossy()) && has_records(file)
}

/// Whether a file is of a known source, or an archive whose first file of use is. Standard input and pipes are read once, and so are traces.
pub fn has_records(file: &Path) -> bool {
    // An error here occurs again when the file is read.
    source_of_name(file).is_some()
        || !is_read_once(file) && input::open(file).and_then(source_of_input).is_ok_and(|source| source.is_some())
}

/// All files that some paths mean, whatever they are. Those of a folder, and of the folders in it, by name; hidden ones are not read.
///
/// # Errors
/// A folder without files, or one that cannot be read.
pub fn record_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, RunError> {
    let mut files: Vec<PathBuf> = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = files.len();
            of_folder(path, DEPTH, &mut files)?;
            if files.len() == before {
                return Err(RunError::NoFileInFolder { folder: path.clone() });
            }
        } else {
            files.push(path.clone());
        }
    }
    let mut seen = HashSet::new();
    files.retain(|file| seen.insert(file.clone()));
    Ok(files)
}

fn of_folder(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    let failed = |source| Error::Read { name: folder.display().to_string(), source };
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        entries.push(entry.map_err(failed)?.path());
    }
    entries.sort();
    for path in entries {
        // The recorder's library lies beside its files.
        let is_left_out =
            path.file_name().is_some_and(|name| name == RECORDER_LIBRARY || name.to_string_lossy().starts_with('.'));
        if is_left_out {
            continue;
        }
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                if depth > 0 {
                    of_folder(&path, depth - 1, files)?;
                }
            }
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
