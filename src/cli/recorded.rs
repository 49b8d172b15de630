//! Reading NCCL's own records: which files the arguments mean, and what is said of them.

use std::collections::HashSet;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nccl_stacks::analysis::recording::{Loss, losses};
use nccl_stacks::error::Error;
use nccl_stacks::input;
use nccl_stacks::load::{LoadOptions, load_all};
use nccl_stacks::records::{Keep, RecordFile, Records, Remark, read_all, source_of_input, source_of_name};
use nccl_stacks::report::format::{self, visible};
use nccl_stacks::report::recording::lacks;
use nccl_stacks::store::Store;

use super::args::Reading;
use super::failure::Failure;
use super::stop::Stop;
use super::terminal::{note, say};
use super::{opening, traces};

/// More threads than this have nothing to do: they wait for the disk.
const MAX_THREADS: usize = 16;

/// The name of the recorder's library.
pub(super) const LIBRARY: &str = "libnccl_stacks_recorder.so";

/// How many files that are no records are named.
const NAMED: usize = 5;

/// Folders deeper than this are not looked into. A flow extractor writes into `output/<topology>/`.
const DEPTH: usize = 8;

/// The records of all files and folders, with notes about what is wrong with them.
pub(super) fn read(arguments: &[PathBuf], keep: Keep, reading: &Reading) -> Result<Records, Stop> {
    read_and_say(arguments, keep, reading, true)
}

/// The same for a command whose answer says what is wrong with the files.
pub(super) fn read_silently(arguments: &[PathBuf], keep: Keep, reading: &Reading) -> Result<Records, Stop> {
    read_and_say(arguments, keep, reading, false)
}

fn read_and_say(arguments: &[PathBuf], keep: Keep, reading: &Reading, says: bool) -> Result<Records, Stop> {
    let files = expand(arguments)?;
    let available = || std::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    let records = read_all(&files, keep, reading.threads.map_or_else(available, NonZero::get));
    report(&records, reading, says)?;
    Ok(records)
}

/// Says what is wrong with the files, and fails if none has records.
fn report(records: &Records, reading: &Reading, says: bool) -> Result<(), Stop> {
    let (known, unknown): (Vec<_>, Vec<_>) = records.files.iter().partition(|file| file.source.is_some());
    if known.is_empty() {
        let why = unknown.iter().find_map(|file| file.notes.first().cloned());
        return Err(Failure::NoRecords { names: names(&unknown), why }.into());
    }
    let (unread, others): (Vec<_>, Vec<_>) = unknown.into_iter().partition(|file| !file.notes.is_empty());
    if !others.is_empty() {
        say(&format!("Left out, because they are no records: {}", visible(&names(&others))));
    }
    let why = |file: &RecordFile| {
        // An error of the system names the file itself.
        let notes = file.notes.join("; ");
        let name = if notes.starts_with(&file.name) { String::new() } else { format!("{}: ", file.name) };
        visible(&format!("{name}{notes}")).into_owned()
    };
    unread.iter().take(NAMED).for_each(|file| say(&format!("Left out: {}", why(file))));
    if unread.len() > NAMED {
        say(&format!("Left out: {} more files, for such reasons", unread.len() - NAMED));
    }
    let unread: Vec<String> =
        unread.iter().filter(|file| file.bytes == 0 || !file.skipped.is_empty()).map(|file| why(file)).collect();
    for file in known.iter().filter(|_| says) {
        file.notes.iter().for_each(|line| note(&format!("{}: {}", visible(&file.name), visible(line))));
    }
    if says {
        let processes: Vec<Loss> = losses(records).into_iter().filter(|loss| loss.why.is_some()).collect();
        lacks(&processes).iter().for_each(|line| say(line));
    }
    let lost = damage(records);
    let repaired = damage_lines(known.iter().map(|file| (*file, &file.repaired)), "Repaired");
    if reading.strict && !(unread.is_empty() && lost.is_empty() && repaired.is_empty()) {
        let list = unread.iter().chain(&lost).chain(&repaired).map(|line| format!("\n  {line}")).collect();
        return Err(Failure::Strict { name: "the records".to_owned(), list }.into());
    }
    if says {
        lost.iter().for_each(|line| say(line));
        repaired.iter().for_each(|line| note(line));
    }
    Ok(())
}

/// What was skipped in the files, a line for each kind.
pub(super) fn damage(records: &Records) -> Vec<String> {
    let known = records.files.iter().filter(|file| file.source.is_some());
    damage_lines(known.map(|file| (file, &file.skipped)), "Skipped")
}

/// Whether there is a file of records of which nothing could be read.
pub(super) fn is_damaged(records: &Records) -> bool {
    let is_refused = |file: &RecordFile| file.records == 0 && !file.skipped.is_empty();
    records.files.iter().any(is_refused)
}

/// The first of some files.
fn names(files: &[&RecordFile]) -> String {
    let names: Vec<&str> = files.iter().take(NAMED).map(|file| file.name.as_str()).collect();
    let more = files.len() - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names.join(", "))
}

/// What occurred in some files, a line for each kind: `Skipped 12 lines that are cut off, in 3 files; the first is in rank_0.log at byte 7`. A
/// writer's bug is in the files of all ranks.
fn damage_lines<'r>(remarks: impl Iterator<Item = (&'r RecordFile, &'r Vec<Remark>)>, verb: &str) -> Vec<String> {
    let mut found: Vec<(&str, u64, u64, String)> = Vec::new();
    for (file, remark) in remarks.flat_map(|(file, remarks)| remarks.iter().map(move |remark| (file, remark))) {
        match found.iter_mut().find(|(what, ..)| *what == remark.what) {
            Some((_, count, files, _)) => {
                *count = count.saturating_add(remark.count);
                *files += 1;
            }
            None => {
                let at = remark.first_offset.map_or(String::new(), |offset| format!(" at byte {offset}"));
                found.push((remark.what, remark.count, 1, format!("{}{at}", file.name)));
            }
        }
    }
    let line = |(what, count, files, first): (&str, u64, u64, String)| {
        let place = match (count, files) {
            (1, _) => format!("in {first}"),
            (_, 1) => format!("the first in {first}"),
            _ => format!("in {files} files, the first in {first}"),
        };
        format!("{verb}: {} {what}, {}", format::count(count), visible(&place))
    };
    found.into_iter().map(line).collect()
}

/// What a command reads.
pub(super) struct Inputs {
    pub(super) traces: Vec<PathBuf>,
    /// NCCL's own records, if there are any.
    pub(super) records: Option<Arc<Records>>,
}

/// Whether records without any trace are an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alone {
    Allowed,
    Refused,
}

/// The traces that some arguments mean, and the records among them and in their folders. Archives among the arguments are taken for archives
/// of traces. Of a folder with traces only its own files and those of a folder `records` in it are looked at: what else is below it can be a
/// disk full of other things.
pub(super) fn distinguish(arguments: &[PathBuf], alone: Alone) -> Result<(Vec<PathBuf>, Vec<PathBuf>), Stop> {
    let (mut files, mut among) = (Vec::new(), Vec::new());
    for argument in arguments {
        let (found, depth) = match traces::expand(std::slice::from_ref(argument)) {
            Ok(found) => (found, 0),
            Err(Stop::Failed(Failure::NoTraceInFolder { .. })) if alone == Alone::Allowed => (Vec::new(), DEPTH),
            Err(stop) => return Err(stop),
        };
        if argument.is_dir() {
            let records = among.len();
            let mut beside = Vec::new();
            of_folder(argument, depth, &mut beside)?;
            let folder = argument.join("records");
            if depth == 0 && folder.is_dir() {
                of_folder(&folder, DEPTH, &mut beside)?;
            }
            let known: HashSet<&PathBuf> = found.iter().collect();
            among.extend(beside.into_iter().filter(|file| !known.contains(file) && is_record(file)));
            if found.is_empty() && among.len() == records {
                return Err(Failure::NeitherInFolder { folder: argument.clone() }.into());
            }
        }
        files.extend(found);
    }
    let mut seen = HashSet::new();
    files.retain(|file| seen.insert(file.clone()));
    let (of_files, traces): (Vec<PathBuf>, Vec<PathBuf>) = files.into_iter().partition(|file| is_record(file));
    among.extend(of_files);
    Ok((traces, among))
}

/// The same, with the records read at once with those that are named as records.
pub(super) fn inputs(
    arguments: &[PathBuf],
    named: &[PathBuf],
    reading: &Reading,
    alone: Alone,
) -> Result<Inputs, Stop> {
    let (traces, mut among) = distinguish(arguments, alone)?;
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

/// Whether a file, which is no archive, is of a known source.
pub(super) fn is_record(file: &Path) -> bool {
    !traces::is_named_like_an_archive(&file.to_string_lossy()) && has_records(file)
}

/// Whether a file is of a known source, or an archive whose first file of use is. Standard input and pipes are read once, and so are traces.
pub(super) fn has_records(file: &Path) -> bool {
    // An error here occurs again when the file is read.
    source_of_name(file).is_some()
        || !opening::is_read_once(file)
            && input::open(file).and_then(source_of_input).is_ok_and(|source| source.is_some())
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
        // The recorder's library lies beside its files.
        let is_left_out =
            path.file_name().is_some_and(|name| name == LIBRARY || name.to_string_lossy().starts_with('.'));
        if is_left_out {
            continue;
        }
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                if depth > 0 {
                    of_folder(&path, depth - 1, files)?;
                }
            }
            // Opening a pipe that nobody writes into would wait for ever.
            Ok(metadata) if !metadata.is_file() => {}
            // What cannot be read is said where it is read.
            _ => files.push(path),
        }
    }
    Ok(())
}
