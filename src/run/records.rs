//! Reading NCCL's own records, what is wrong with them, and whether a job hangs by them.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use super::error::RunError;
use super::inputs::record_files;
use super::reading::Run;
use super::running::{STANDSTILL, settle};
use super::runs::{NamedRun, sentence};
use super::watch::Event;
use crate::answers::hang::{HangReport, Outcome, hang};
use crate::answers::ranks::recorded_reductions::RecordedReductions;
use crate::answers::ranks::reduction::GivenRank;
use crate::answers::recording::words::lacks;
use crate::answers::recording::{Loss, covered, losses};
use crate::document::format;
use crate::document::format::visible;
use crate::load::Progress;
use crate::operation::{Operation, Source};
use crate::operations::recorded_ranks::set_rank;
use crate::records::{Keep, RecordFile, Records, Remark, Taken, merge, read_each, runs};

/// How many files that are no records are named.
const NAMED: usize = 5;

/// So many calls of each rank and communicator are compared for a hang, the last ones: a call takes several times the memory of its line, and
/// what hangs is among them.
const LAST_CALLS: usize = 1 << 14;

/// How often it is reported how far records are read.
const TICK: Duration = Duration::from_millis(100);

impl Run<'_> {
    /// The records of all files and folders.
    /// Errors: files of which none has records, and damage where nothing may be damaged.
    pub fn records(&self, paths: &[PathBuf], keep: Keep) -> Result<Records, RunError> {
        self.read_records(paths, keep, true)
    }

    /// The same for an answer that says itself what is wrong with the files.
    pub fn records_without_notes(&self, paths: &[PathBuf], keep: Keep) -> Result<Records, RunError> {
        self.read_records(paths, keep, false)
    }

    /// Whether a job hangs by some files, and what is wrong with these. Recordings of a job that runs are read once more, unless nothing has moved for `wait`.
    pub fn hang(&self, paths: &[PathBuf], wait: Option<Duration>) -> Result<(HangReport, Vec<String>), RunError> {
        let read = || {
            let of_files = self.read_each(&record_files(paths)?, Keep::Ends(LAST_CALLS));
            self.hang_of_run(of_files)
        };
        let now = SystemTime::now();
        let (records, report) = settle(read()?, now, wait.unwrap_or(STANDSTILL), read)?;
        self.report_records(&records, true)?;
        let called: u64 = records.calls.iter().map(|(_, count)| count).sum();
        let is_of_log = |operation: &&Operation| matches!(operation.source, Source::DEBUG_LOG | Source::MEGATRACE);
        let is_of_all = called <= records.operations.iter().filter(is_of_log).count() as u64 && records.left_out == 0;
        if !report.is_empty() && !is_of_all {
            let last = format::count(LAST_CALLS as u64);
            self.note(&format!("Compared are the last {last} calls of each rank and communicator"));
        }
        Ok((report, damage_lines(&records)))
    }

    /// The records of one run and the answer about it. Of runs at the same time as the newest that is the one that hangs, if one does.
    fn hang_of_run(&self, of_files: Vec<Records>) -> Result<(Records, HangReport), RunError> {
        let found = runs(&of_files);
        let newest = found.last().filter(|_| self.reading.run.is_none());
        let mut at_once: Vec<usize> = newest.map_or_else(Vec::new, |_| vec![found.len() - 1]);
        // Those at the same time as any of these.
        for at in (0..found.len().saturating_sub(1)).rev() {
            if at_once.iter().any(|other| found[at].overlaps(&found[*other])) {
                at_once.push(at);
            }
        }
        let (Some((newest, others)), true) = (at_once.split_first(), at_once.len() > 1) else {
            let (records, said) = self.records_of_run(of_files, &found)?;
            let report = HangReport { run: said, ..hang(&records) };
            return Ok((records, report));
        };
        let named: Vec<NamedRun> = found.iter().map(NamedRun::of_records).collect();
        let judged = |at: usize| {
            let files = of_files.iter().enumerate().filter(|(file, _)| found[at].files.binary_search(file).is_ok());
            let records = merge(files.map(|(_, records)| records.clone()));
            let report = HangReport { run: Some(sentence(&named, at, true)), ..hang(&records) };
            (records, report)
        };
        let weight = |report: &HangReport| match report.outcome {
            Outcome::Hung => 0,
            Outcome::Lagging => 1,
            Outcome::Unclear => 2,
            _ => 3,
        };
        let mut best = judged(*newest);
        for at in others {
            let other = judged(*at);
            if weight(&other.1) < weight(&best.1) {
                best = other;
            }
        }
        Ok(best)
    }

    /// The records of each file, while it is reported how far they are read.
    fn read_each(&self, files: &[PathBuf], keep: Keep) -> Vec<Records> {
        let size =
            |file: &PathBuf| std::fs::metadata(file).ok().filter(|about| about.is_file()).map(|about| about.len());
        let (taken, size) = (&Taken::default(), files.iter().map(size).sum());
        let records = thread::scope(|scope| {
            let (reading, ended) = mpsc::channel::<()>();
            let show = move || {
                while ended.recv_timeout(TICK) == Err(mpsc::RecvTimeoutError::Timeout) {
                    self.report(Event::Progress(Progress { taken: taken.bytes(), size }));
                }
            };
            // Without a thread for it, nothing is shown.
            let _ = thread::Builder::new().spawn_scoped(scope, show);
            let records = read_each(files, keep, self.threads(), taken);
            drop(reading);
            records
        });
        self.report(Event::ReadingEnded);
        records
    }

    fn read_records(&self, paths: &[PathBuf], keep: Keep, says: bool) -> Result<Records, RunError> {
        let of_files = self.read_each(&record_files(paths)?, keep);
        let found = runs(&of_files);
        let (records, said) = self.records_of_run(of_files, &found)?;
        said.iter().for_each(|line| self.warn(line));
        self.report_records(&records, says)?;
        Ok(records)
    }

    /// Reports what is wrong with the files, and fails if none has records.
    fn report_records(&self, records: &Records, says: bool) -> Result<(), RunError> {
        let (known, unknown): (Vec<_>, Vec<_>) = records.files.iter().partition(|file| file.source.is_some());
        let (unread, others): (Vec<_>, Vec<_>) = unknown.into_iter().partition(|file| !file.notes.is_empty());
        let why = |file: &RecordFile| {
            // An error of the system names the file itself.
            let notes = file.notes.join("; ");
            let name = if notes.starts_with(&file.name) { String::new() } else { format!("{}: ", file.name) };
            visible(&format!("{name}{notes}")).into_owned()
        };
        if known.is_empty() {
            return Err(match unread.first() {
                Some(file) => RunError::UnreadRecords { why: why(file) },
                None => RunError::NoRecords { names: names(&others) },
            });
        }
        if !others.is_empty() {
            self.warn(&format!("Left out, because they are no records: {}", visible(&names(&others))));
        }
        unread.iter().take(NAMED).for_each(|file| self.warn(&format!("Left out: {}", why(file))));
        if unread.len() > NAMED {
            self.warn(&format!("Left out: {} more files, for such reasons", unread.len() - NAMED));
        }
        let unread: Vec<String> =
            unread.iter().filter(|file| file.bytes == 0 || !file.skipped.is_empty()).map(|file| why(file)).collect();
        if says {
            note_lines(&known).iter().for_each(|line| self.note(line));
        }
        if says {
            let processes: Vec<Loss> = losses(records).into_iter().filter(|loss| loss.why.is_some()).collect();
            lacks(&processes).iter().for_each(|line| self.warn(line));
        }
        let lost = damage_lines(records);
        let repaired = remark_lines(known.iter().map(|file| (*file, &file.repaired)), "Repaired");
        if self.reading.strict && !(unread.is_empty() && lost.is_empty() && repaired.is_empty()) {
            let list = unread.iter().chain(&lost).chain(&repaired).map(|line| format!("\n  {line}")).collect();
            return Err(RunError::Strict { name: "the records".to_owned(), list });
        }
        if says {
            lost.iter().for_each(|line| self.warn(line));
            repaired.iter().for_each(|line| self.note(line));
        }
        Ok(())
    }

    /// Reports which operations are not compared.
    pub fn report_recorded_parts(&self, found: &RecordedReductions) {
        left_out_operations(found).iter().for_each(|line| self.warn(line));
        if !found.reductions.is_empty() && found.of_other_sources > 0 {
            self.note(&format!(
                "Compared are the records of {}; {} operations of other sources are left out",
                found.source.title(),
                found.of_other_sources
            ));
        }
    }
}

/// What was skipped in the files, a line for each kind.
pub fn damage_lines(records: &Records) -> Vec<String> {
    let known = records.files.iter().filter(|file| file.source.is_some());
    let skipped = remark_lines(known.map(|file| (file, &file.skipped)), "Skipped");
    covered(records).map(|of| crate::answers::recording::words::covered(&of)).into_iter().chain(skipped).collect()
}

/// The notes on some files. One that all ranks' files have is said once.
fn note_lines(files: &[&RecordFile]) -> Vec<String> {
    let mut found: Vec<(&str, &RecordFile, usize)> = Vec::new();
    for (file, note) in files.iter().flat_map(|file| file.notes.iter().map(move |note| (file, note))) {
        match found.iter_mut().find(|(known, ..)| known == note) {
            Some((.., count)) => *count += 1,
            None => found.push((note, file, 1)),
        }
    }
    let line = |(note, first, files): (&str, &RecordFile, usize)| {
        let more =
            if files == 1 { String::new() } else { format!(" (and {} more files)", format::count(files as u64 - 1)) };
        format!("{}{more}: {}", visible(&first.name), visible(note))
    };
    found.into_iter().map(line).collect()
}

/// Whether there is a file of records of which nothing could be read.
pub fn is_damaged(records: &Records) -> bool {
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
fn remark_lines<'r>(remarks: impl Iterator<Item = (&'r RecordFile, &'r Vec<Remark>)>, verb: &str) -> Vec<String> {
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

/// Which operations have no part in the comparison, a line for each reason.
pub fn left_out_operations(found: &RecordedReductions) -> Vec<String> {
    if found.reductions.is_empty() {
        return Vec::new();
    }
    let reasons = [(found.without_times, "when they ran"), (found.without_rank, "on which rank they ran")];
    let reasons = reasons.into_iter().filter(|(count, _)| *count > 0);
    reasons.map(|(count, why)| format!("Left out: {count} operations, because nothing says {why}")).collect()
}

/// Sets ranks that are given for files of records.
/// Errors: a name that no file or several files have, and a file of several ranks.
pub fn give_ranks(given: &[GivenRank], records: &mut Records) -> Result<(), RunError> {
    for GivenRank { rank, trace } in given {
        let of = format!("--rank {rank}={}", trace.display());
        let is_it = |file: &RecordFile| Path::new(&file.name).ends_with(trace);
        let found: Vec<usize> = (0..records.files.len()).filter(|at| is_it(&records.files[*at])).collect();
        match found[..] {
            [file] if set_rank(records, file, *rank) => {}
            [_] => return Err(RunError::GivenRank(format!("{of}: its records are of several ranks"))),
            [] => return Err(RunError::GivenRank(format!("{of}: no such file is among those given"))),
            _ => return Err(RunError::GivenRank(format!("{of}: {} of the files end with that name", found.len()))),
        }
    }
    Ok(())
}
