//! What the inputs are: traces, parts that were written before, and NCCL's own records. File names decide only which files of a folder are looked at.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::RunError;
use super::files::{self, is_read_once};
use super::reading::Run;
use crate::error::Error;
use crate::input;
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
    /// Traces and parts.
    pub traces: Vec<PathBuf>,
    /// NCCL's own records.
    pub records: Vec<PathBuf>,
}

impl Sources {
    /// Distinguishes files by their first bytes. In a folder it looks at the files named like traces or, if there are none, at all files.
    pub fn sort(paths: &[PathBuf]) -> Result<Self, RunError> {
        let mut inputs = Sources::default();
        for path in paths {
            let path_alone = std::slice::from_ref(path);
            let files = match files::expand(path_alone) {
                Err(_) if path.is_dir() => {
                    let files = record_files(path_alone)?;
                    // Files of no known source are named where the others are read; without any there is no trace either.
                    if files.iter().any(|file| has_records(file)) {
                        inputs.records.extend(files);
                        continue;
                    }
                    files::expand(path_alone)?
                }
                found => found?,
            };
            for file in files {
                let of_kind = if has_records(&file) { &mut inputs.records } else { &mut inputs.traces };
                if !of_kind.contains(&file) {
                    of_kind.push(file);
                }
            }
        }
        Ok(inputs)
    }

    /// Which records are left out beside traces, in a sentence.
    pub fn left_out(&self) -> Option<String> {
        let names: Vec<String> =
            self.records.iter().map(|file| visible(&file.display().to_string()).into_owned()).collect();
        let names = Some(names.join(", ")).filter(|names| !names.is_empty())?;
        Some(format!("Left out, because they are records and the others are traces: {names}"))
    }
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
        let (found, depth) = match files::expand(std::slice::from_ref(path)) {
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
    let mut seen = HashSet::new();
    files.retain(|file| seen.insert(file.clone()));
    let (of_files, traces): (Vec<PathBuf>, Vec<PathBuf>) = files.into_iter().partition(|file| is_record(file));
    among.extend(of_files);
    Ok(Sources { traces, records: among })
}

/// Traces, and records that are read at once, if there are any.
#[derive(Debug, Clone, Default)]
pub struct TracesAndRecords {
    /// The traces.
    pub traces: Vec<PathBuf>,
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
        let Sources { traces, mut records } = with_records(paths, alone)?;
        records.extend(named.iter().cloned());
        let records = if records.is_empty() { None } else { Some(Arc::new(self.records(&records, Keep::All)?)) };
        Ok(TracesAndRecords { traces, records })
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

/// Whether a file has parts. Standard input and pipes are read once, and so are traces.
pub fn is_part(file: &Path) -> bool {
    if is_read_once(file) {
        return false;
    }
    let mut beginning = Vec::new();
    let opened = std::fs::File::open(file);
    let read = opened.and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut beginning));
    read.is_ok() && set::is_part(&beginning)
}
