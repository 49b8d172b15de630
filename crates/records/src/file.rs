//! The report on a file of records: its source, how much it holds, and what is wrong with it.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::operation::Source;
use nccl_stacks_trace::time::{Ns, Window};

#[derive(Debug, Clone, Default, Serialize)]
pub struct RecordFile {
    /// Its name, with that of its archive before it.
    pub name: String,
    /// What wrote it; `None` if it is none of the known sources.
    pub source: Option<Source>,
    /// The version of its format, if it says so.
    pub version: Option<String>,
    /// How many records were read from it.
    pub records: u64,
    /// How many bytes of decompressed text it has.
    pub bytes: u64,
    /// The checksum of these, by which a file that is there twice is found.
    #[serde(skip)]
    pub(super) checksum: u32,
    /// Whether its name holds something that its text does not, such as its rank. Then two files with equal text may belong to two ranks.
    #[serde(skip)]
    pub(super) name_counts: bool,
    /// Whether it says how things are without saying when: then a second one with equal text says something, too.
    #[serde(skip)]
    pub(super) is_timeless: bool,
    /// When its lines were written, on a clock of which neither year nor zone are known.
    #[serde(skip)]
    pub(super) said: Option<Window>,
    /// When its records were written, since the Unix epoch.
    #[serde(skip)]
    pub(super) written: Option<Window>,
    /// Whether it is a dump whose last operations are lost. Then the absence of an operation proves nothing.
    #[serde(skip)]
    pub is_cut: bool,
    /// Whether its ring has overwritten its first operations, so that those before the first that is there may be complete or not.
    #[serde(skip)]
    pub has_overwritten: bool,
    /// The ranks that went on after it was written, so that what it lacks of them proves nothing.
    #[serde(skip)]
    pub older_than: BTreeSet<u32>,
    /// Why the process could not record, if it left nothing but that.
    #[serde(skip)]
    pub not_recorded: Option<NotRecorded>,
    /// The events that NCCL's plugin was asked for, as bits of its mask; `None` of other sources, and without a plugin.
    #[serde(skip)]
    pub events: Option<u64>,
    /// What its rings still hold, if they have overwritten anything.
    #[serde(skip)]
    pub ring: Option<RingSpan>,
    /// What was skipped: it is in no table.
    pub skipped: Vec<Remark>,
    /// What violates the format and was understood nevertheless.
    pub repaired: Vec<Remark>,
    /// Further remarks, a sentence each.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotRecorded {
    /// `the disk is full`.
    pub why: String,
    /// What helps, as a sentence.
    pub advice: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingSpan {
    pub began: Ns,
    /// Of full rings of calls, what all of them still have; `None` if none has overwritten anything.
    pub calls: Option<Window>,
    pub events: Option<Window>,
    /// How many records are left, and how many there were.
    pub kept: u64,
    pub all: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// What is counted: `lines that are cut off at 127 bytes`.
    pub what: &'static str,
    pub count: u64,
    /// The byte offset of the first in the decompressed text.
    pub first_offset: Option<u64>,
    /// Whether it may be the last thing that a rank did, so that the absence of an operation proves nothing.
    #[serde(skip)]
    pub may_be_last: bool,
    /// What helps, as a sentence, where something does.
    #[serde(skip)]
    pub advice: Option<&'static str>,
}

impl Remark {
    /// How often any of several occurred. A number from a damaged file may be near the largest, so the sum saturates.
    pub fn sum(remarks: &[Remark]) -> u64 {
        remarks.iter().fold(0, |sum, remark| sum.saturating_add(remark.count))
    }
}

impl RecordFile {
    pub fn new(name: String) -> Self {
        RecordFile { name, ..RecordFile::default() }
    }

    /// The folder that it is in, of an archive or of the disk; empty if its name has none.
    pub fn folder(&self) -> &str {
        self.name.rsplit_once(['/', std::path::MAIN_SEPARATOR]).map_or("", |(folder, _)| folder)
    }

    /// Whether another file has the same text. Files of flows have neither times nor names, so equal files in two folders belong to two runs.
    pub(super) fn is_same(&self, other: &RecordFile) -> bool {
        fn base(file: &RecordFile) -> Option<&str> {
            file.name.rsplit(['/', '\\']).next()
        }
        let text = |file: &RecordFile| (file.source, file.bytes, file.checksum, file.name_counts);
        let is_other_run = self.source == Some(Source::FLOW) && self.folder() != other.folder();
        // RAS's text has no time: the same answer under another name says that nothing has moved.
        let is_other_file = (self.name_counts || self.is_timeless) && base(self) != base(other);
        self.source.is_some() && self.bytes > 0 && text(self) == text(other) && !is_other_run && !is_other_file
    }

    pub(super) fn skip(&mut self, what: &'static str, offset: Option<u64>) {
        self.skip_several(what, 1, offset);
    }

    pub(super) fn skip_several(&mut self, what: &'static str, several: u64, offset: Option<u64>) {
        count(&mut self.skipped, what, several, offset);
    }

    /// Counts things that are skipped and that may be what a rank did last, with a sentence on what helps.
    pub(super) fn lose(&mut self, what: &'static str, several: u64, offset: Option<u64>, advice: Option<&'static str>) {
        if let Some(remark) = count(&mut self.skipped, what, several, offset) {
            (remark.may_be_last, remark.advice) = (true, advice);
        }
    }

    pub(super) fn repair(&mut self, what: &'static str, offset: Option<u64>) {
        self.repair_several(what, 1, offset);
    }

    /// Counts several things that are wrong and understood nevertheless, or none.
    pub(super) fn repair_several(&mut self, what: &'static str, several: u64, offset: Option<u64>) {
        count(&mut self.repaired, what, several, offset);
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(super) fn end_is_unread(&mut self, at: u64, failure: &std::io::Error) {
        self.note(format!("what follows byte {at} cannot be read: {failure}"));
        self.skip("ends of files that cannot be read", Some(at));
    }

    /// What is left of it in the report if its records do not count.
    pub(super) fn left_out(&self, why: String) -> RecordFile {
        RecordFile { source: self.source, notes: vec![why], ..RecordFile::new(self.name.clone()) }
    }

    /// What is wrong with it, a line each: `rank_0.log: skipped 2 lines that are cut off, the first at byte 7`.
    pub fn damage_lines(&self) -> impl Iterator<Item = String> + '_ {
        let line = |verb: &'static str| {
            move |remark: &Remark| {
                let first = remark.first_offset.map_or(String::new(), |offset| match remark.count {
                    1 => format!(", at byte {offset}"),
                    _ => format!(", the first at byte {offset}"),
                });
                format!("{}: {verb} {} {}{first}", self.name, remark.count, remark.what)
            }
        };
        self.skipped.iter().map(line("skipped")).chain(self.repaired.iter().map(line("repaired")))
    }
}

fn count<'a>(
    remarks: &'a mut Vec<Remark>,
    what: &'static str,
    several: u64,
    offset: Option<u64>,
) -> Option<&'a mut Remark> {
    let at = remarks.iter().position(|remark| remark.what == what).unwrap_or(remarks.len());
    if at == remarks.len() && several > 0 {
        remarks.push(Remark { what, count: 0, first_offset: offset, may_be_last: false, advice: None });
    }
    let remark = remarks.get_mut(at)?;
    remark.count = remark.count.saturating_add(several);
    Some(remark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_counted_with_its_first_offset() {
        let mut file = RecordFile::new("a.log".to_owned());
        file.skip("lines that are cut off", Some(7));
        file.skip("lines that are cut off", Some(9));
        file.repair("missing commas", Some(1));
        let lines: Vec<String> = file.damage_lines().collect();
        assert_eq!(lines[0], "a.log: skipped 2 lines that are cut off, the first at byte 7");
        assert_eq!(lines[1], "a.log: repaired 1 missing commas, at byte 1");
    }
}
