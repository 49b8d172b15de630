//! Reading NCCL's own records: which files the arguments mean, and what is said of them.

use std::collections::HashSet;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nccl_stacks::error::Error;
use nccl_stacks::input;
use nccl_stacks::load::{LoadOptions, load_all};
use nccl_stacks::records::{Keep, Records, read_all, source_of_input};
use nccl_stacks::report::format::visible;
use nccl_stacks::store::Store;

use super::args::Reading;
use super::failure::Failure;
use super::stop::Stop;
use super::terminal::{note, say};
use super::{opening, traces};

/// More threads than this have nothing to do: they wait for the disk.
const MAX_THREADS: usize = 16;

/// The endings of archives.
const ARCHIVES: &[&str] = &[".zip", ".tar", ".tar.gz", ".tgz", ".tar.zst"];

/// How many files that are no records are named.
const NAMED: usize = 5;

/// Folders deeper than this are not looked into. A flow extractor writes into `output/<topology>/`.
const DEPTH: usize = 8;

/// The records of all files and folders.
pub(super) fn read(arguments: &[PathBuf], keep: Keep, reading: &Reading) -> Result<Records, Stop> {
    let files = expand(arguments)?;
    let available = || std::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    let records = read_all(&files, keep, reading.threads.map_or_else(available, NonZero::get));
    report(&records, reading)?;
    Ok(records)
}

/// Says what is wrong with the files, and fails if none has records.
fn report(records: &Records, reading: &Reading) -> Result<(), Stop> {
    let (known, unknown): (Vec<_>, Vec<_>) = records.files.iter().partition(|file| file.source.is_some());
    let names: Vec<&str> = unknown.iter().take(NAMED).map(|file| file.name.as_str()).collect();
    if known.is_empty() {
        let why = unknown.iter().find_map(|file| file.notes.first().cloned());
        return Err(Failure::NoRecords { names: names.join(", "), why }.into());
    }
    if !unknown.is_empty() {
        let more = unknown.len() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        say(&format!("Left out, because they are no records: {}{more}", visible(&names.join(", "))));
    }
    let mut lost = Vec::new();
    for file in known {
        file.damage_lines().for_each(|line| lost.push(line));
        file.notes.iter().for_each(|line| note(&format!("{}: {}", visible(&file.name), visible(line))));
    }
    if reading.strict && !lost.is_empty() {
        let list = lost.iter().map(|line| format!("\n  {}", visible(line))).collect();
        return Err(Failure::Strict { name: "the records".to_owned(), list }.into());
    }
    lost.iter().for_each(|line| say(&visible(line)));
    Ok(())
}

/// What a command reads.
pub(super) struct Inputs {
    pub(super) traces: Vec<PathBuf>,
    /// NCCL's own records, if there are any.
    pub(super) records: Option<Arc<Records>>,
}

/// The traces that some arguments mean, and the records among them and in their folders, which are read at once with those that are named
/// as records. Archives among the arguments are taken for archives of traces.
pub(super) fn inputs(arguments: &[PathBuf], named: &[PathBuf], reading: &Reading) -> Result<Inputs, Stop> {
    let (mut files, mut among) = (Vec::new(), Vec::new());
    for argument in arguments {
        match traces::expand(std::slice::from_ref(argument)) {
            Ok(found) => files.extend(found),
            Err(Stop::Failed(Failure::NoTraceInFolder { .. })) if has_records(argument)? => {}
            Err(stop) => return Err(stop),
        }
        if argument.is_dir() {
            let all = expand(std::slice::from_ref(argument))?;
            among.extend(all.into_iter().filter(|file| !files.contains(file) && is_record(file)));
        }
    }
    let mut seen = HashSet::new();
    files.retain(|file| seen.insert(file.clone()));
    let (of_files, traces): (Vec<PathBuf>, Vec<PathBuf>) = files.into_iter().partition(|file| is_record(file));
    among.extend(of_files);
    among.extend(named.iter().cloned());
    let records = if among.is_empty() { None } else { Some(Arc::new(read(&among, Keep::All, reading)?)) };
    Ok(Inputs { traces, records })
}

/// A store of some traces; without any it is empty.
pub(super) fn store(traces: &[PathBuf], reading: &Reading, options: LoadOptions) -> Result<Store, Stop> {
    match traces {
        [] => Ok(load_all(&[], options, |_| {})?.store),
        traces => opening::read_all(traces, reading, options),
    }
}

/// Whether a folder has any.
fn has_records(folder: &Path) -> Result<bool, Stop> {
    Ok(expand(&[folder.to_owned()])?.iter().any(|file| is_record(file)))
}

/// Whether a file, which is no archive, is of a known source.
pub(super) fn is_record(file: &Path) -> bool {
    let name = file.to_string_lossy();
    let is_archive = ARCHIVES.iter().any(|ending| name.ends_with(ending));
    // An error here occurs again when the file is read as a trace.
    !is_archive && file.is_file() && input::open(file).and_then(source_of_input).is_ok_and(|source| source.is_some())
}

/// All files that are meant. Those of a folder, and of the folders in it, by name; hidden ones are not read.
pub(super) fn expand(arguments: &[PathBuf]) -> Result<Vec<PathBuf>, Stop> {
    let mut files: Vec<PathBuf> = Vec::new();
    for argument in arguments {
        if argument.is_dir() {
            let before = files.len();
            of_folder(argument, DEPTH, &mut files)?;
            if files.len() == before {
                return Err(Failure::NoFileInFolder { folder: argument.clone() }.into());
            }
        } else {
            files.push(argument.clone());
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
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if is_hidden {
            continue;
        }
        if path.is_dir() {
            if depth > 0 {
                of_folder(&path, depth - 1, files)?;
            }
        } else {
            files.push(path);
        }
    }
    Ok(())
}
