//! Reading NCCL's own records: which files the arguments mean, and what is said of them.

use std::num::NonZero;
use std::path::{Path, PathBuf};

use nccl_stacks::error::Error;
use nccl_stacks::records::{Keep, Records, read_all};
use nccl_stacks::report::format::visible;

use super::args::Reading;
use super::failure::Failure;
use super::stop::Stop;
use super::terminal::{note, say};

/// More threads than this have nothing to do: they wait for the disk.
const MAX_THREADS: usize = 16;

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
    let mut seen = std::collections::HashSet::new();
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
