//! Archives: files that hold several, of which some are traces. Zip and tar, in one another one level deep.
//!
//! The traces of an archive are read one after the other, as a trace_processor does: those in Perfetto's protobuf format first, then
//! what is packed, then JSON, each by name. What begins with a dot (macOS, editors and archivers leave such files behind) is passed
//! over without a word; what is no trace, and what cannot be read, is passed over and told. Nothing is unpacked to memory: a member is
//! read as a stream, and while it is looked for only its first bytes are.
//!
//! That order takes going back and forth in the file. A tar that is compressed or comes through a pipe cannot be gone back in; its
//! traces are read in its own order. The alternative would be to write it to a disk first, which for the text of many ranks is
//! tens of GB, for nothing but the numbers of the machines. A zip has its directory at the end, so it is written to a temporary file if
//! it comes as a stream; the same holds for a zip that is packed within something else.

mod directory;
mod findings;
mod head;
mod names;
mod tar;
mod zip;

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};

use memchr::memmem;

use super::limit::{Budget, LimitReached};
use super::packed::PackedCause;
use super::region::Region;
use super::{Begun, Contents, Reading, Source, contents, failure, packing_of};
use crate::damage::Damage;
use crate::error::Error;
use directory::Directory;
pub use findings::{Findings, InnerDamage};
use head::{Head, Rank};
use names::is_hidden;
use tar::{Current, Next, Walk};

/// Of a trace's text: what stands before the events is mostly shorter.
const LOOKED_AT: u64 = 256 * 1024;

/// An archive within an archive is read, one within that is not.
const MAX_DEPTH: usize = 2;

/// An archive that is being read.
pub struct Archive {
    name: String,
    depth: usize,
    rest: Rest,
    /// An archive that was found in it, and is being read now.
    inner: Option<(String, Box<Archive>)>,
    /// How many files of it have been handed out.
    handed: usize,
    /// How much text its files may have.
    budget: Budget,
    findings: Findings,
}

/// A file of an archive that may be a trace.
pub struct Member {
    /// Its name in the archive.
    pub name: String,
    /// Which of those it is that are handed out.
    pub place: usize,
    /// Its text.
    pub contents: Contents,
}

/// What has not been read yet.
enum Rest {
    /// Files in the order in which they are to be read.
    Zip {
        archive: Region,
        files: VecDeque<zip::Entry>,
    },
    Tar {
        archive: Region,
        files: VecDeque<tar::Entry>,
    },
    /// All behind the current file.
    Stream(tar::Stream),
    Nothing,
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archive").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Archive {
    pub(super) fn zip(name: &str, depth: usize, source: Source, budget: &Budget) -> Result<Self, Error> {
        let failed = |source| failure(name, source);
        let mut archive = Archive::new(name, depth, budget)?;
        let (region, failure) = match source {
            Source::File(region) => (region, None),
            Source::Stream(stream) => Region::of_stream(stream).map_err(|e| match LimitReached::of(&e) {
                Some(_) => failed(e),
                None => failed(io::Error::new(e.kind(), format!("it cannot be copied to a temporary file: {e}"))),
            })?,
        };
        archive.budget = budget.of_file(region.taken());
        let directory = Directory::read(&region, &archive.budget).map_err(failed)?;
        // What is wrong with what the archive is packed in has ended it.
        let end = failure.map(|_| region.length()).transpose().map_err(failed)?;
        archive.damaged(Damage::ArchiveBroken, directory.broken.or(end));
        archive.damaged(Damage::FileNotListed, directory.unlisted);
        for name in directory.unreadable {
            archive.findings.unreadable(name);
        }
        let mut files = Vec::new();
        for entry in directory.entries {
            if entry.name.ends_with('/') || is_hidden(&entry.name) {
                continue;
            }
            if let Some((what, advice)) = entry.refusal() {
                archive.findings.refuse(name, entry.name, what, advice);
                continue;
            }
            let head = if entry.is_empty() { Head::of(io::empty()) } else { Head::of(entry.open(&region)) };
            archive.sort_in(&mut files, &head.map_err(failed)?, entry.name.clone(), entry);
        }
        archive.rest = Rest::Zip { archive: region, files: in_order(files) };
        Ok(archive)
    }

    pub(super) fn tar(name: &str, depth: usize, source: Source, budget: &Budget) -> Result<Self, Error> {
        let failed = |source| failure(name, source);
        let mut archive = Archive::new(name, depth, budget)?;
        let region = match source {
            Source::File(region) => region,
            Source::Stream(stream) => {
                archive.rest = Rest::Stream(Arc::new(Mutex::new(Walk::new(stream))));
                return Ok(archive);
            }
        };
        let (mut walk, mut files) = (Walk::new(region.clone()), Vec::new());
        loop {
            match walk.next().map_err(failed)? {
                Next::File(entry) if is_hidden(&entry.name) => {}
                Next::File(entry) if entry.is_sparse => archive.refuse_sparse(entry.name),
                Next::File(entry) => {
                    let head = Head::of(region.part(entry.offset, entry.size)).map_err(failed)?;
                    archive.sort_in(&mut files, &head, entry.name.clone(), entry);
                }
                Next::End => break,
                Next::Broken { offset } => {
                    archive.damaged(Damage::ArchiveBroken, Some(offset));
                    break;
                }
            }
        }
        archive.rest = Rest::Tar { archive: region, files: in_order(files) };
        Ok(archive)
    }

    fn new(name: &str, depth: usize, budget: &Budget) -> Result<Self, Error> {
        if depth >= MAX_DEPTH {
            return Err(Error::Unsupported {
                name: name.to_owned(),
                what: "this is an archive in an archive in an archive",
                advice: "Unpack the outer ones",
            });
        }
        let (name, rest) = (name.to_owned(), Rest::Nothing);
        let budget = budget.clone();
        Ok(Archive { name, depth, rest, inner: None, handed: 0, budget, findings: Findings::default() })
    }

    /// Takes a file among those to be read, if it may be a trace.
    fn sort_in<E>(&mut self, files: &mut Vec<(Rank, String, E)>, head: &Head, name: String, entry: E) {
        match Rank::of(&head.bytes) {
            Some(rank) => files.push((rank, name, entry)),
            None => self.pass_over(name, head),
        }
    }

    /// Tells of a file that does not begin as a trace, as far as that is known.
    fn pass_over(&mut self, name: String, head: &Head) {
        match head.failure {
            Some(_) => self.findings.unreadable(name),
            None => self.findings.no_trace(name),
        }
    }

    fn refuse_sparse(&mut self, file: String) {
        let what = "this is stored with holes (a sparse file)";
        self.findings.refuse(&self.name, file, what, "Unpack the archive and name the trace");
    }

    fn damaged(&mut self, kind: Damage, at: Option<u64>) {
        if at.is_some() {
            self.findings.damage.count(kind, at);
        }
    }

    /// Tells that a file turned out to be no trace.
    pub fn is_no_trace(&mut self, name: String) {
        self.findings.no_trace(name);
    }

    /// Tells that nothing of a file could be read.
    pub fn is_unreadable(&mut self, name: String) {
        self.findings.unreadable(name);
    }

    /// What else was found, once all files have been handed out.
    pub fn into_findings(mut self) -> Findings {
        self.findings.sort();
        self.findings
    }

    /// The next file that may be a trace. The one before is over then. Those that this program cannot read are among the findings.
    ///
    /// # Errors
    /// Those of reading, and too much text.
    pub fn next(&mut self, threads: usize) -> Result<Option<Member>, Error> {
        loop {
            if let Some((folder, inner)) = &mut self.inner {
                if let Some(member) = inner.next(threads)? {
                    let name = format!("{folder}/{}", member.name);
                    self.handed += 1;
                    return Ok(Some(Member { name, place: self.handed - 1, ..member }));
                }
                if let Some((folder, inner)) = self.inner.take() {
                    self.findings.take(&folder, inner.findings);
                }
            }
            let Some((name, source)) = self.next_file()? else { return Ok(None) };
            match contents(&format!("{}/{name}", self.name), source, &self.budget, threads, self.depth + 1) {
                Err(Error::Unsupported { what, advice, .. }) => self.findings.refuse(&self.name, name, what, advice),
                Err(error) => return Err(error),
                Ok(Contents::Archive(inner)) => self.inner = Some((name, inner)),
                Ok(contents) => {
                    self.handed += 1;
                    return Ok(Some(Member { name, place: self.handed - 1, contents }));
                }
            }
        }
    }

    /// The names of the files that look like traces, for who has to know that before he reads them: by their first bytes alone.
    ///
    /// # Errors
    /// As [`Archive::next`].
    pub fn likely_traces(mut self) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        while let Some(member) = self.next(1)? {
            let is_likely = match member.contents {
                Contents::Json(text) => {
                    let mut head = Vec::new();
                    // What fails here fails again when it is read.
                    let _ = text.take(LOOKED_AT).read_to_end(&mut head);
                    head.trim_ascii_start().first() == Some(&b'[') || memmem::find(&head, b"\"traceEvents\"").is_some()
                }
                Contents::Packets(_) | Contents::Archive(_) => true,
            };
            names.extend(is_likely.then_some(member.name));
        }
        Ok(names)
    }

    fn next_file(&mut self) -> Result<Option<(String, Source)>, Error> {
        match &mut self.rest {
            Rest::Zip { archive, files } => {
                let (archive, next) = (archive.clone(), files.pop_front());
                next.map(|entry| self.file_of_zip(&archive, entry)).transpose().map_err(|e| failure(&self.name, e))
            }
            Rest::Tar { archive, files } => {
                let part = |entry: tar::Entry| (entry.name, Source::File(archive.part(entry.offset, entry.size)));
                Ok(files.pop_front().map(part))
            }
            Rest::Nothing => Ok(None),
            Rest::Stream(walk) => {
                let walk = Arc::clone(walk);
                self.next_of_stream(&walk).map_err(|e| failure(&self.name, e))
            }
        }
    }

    /// An archive that is stored as it is can be gone back and forth in. Who does that does not read all of it, so its checksum is
    /// looked at before.
    fn file_of_zip(&mut self, archive: &Region, entry: zip::Entry) -> io::Result<(String, Source)> {
        let Some(region) = entry.plain(archive) else {
            return Ok((entry.name.clone(), Source::Stream(entry.open(archive))));
        };
        if !matches!(packing_of(&Head::of(region.clone())?.bytes), Some(Reading::Zip | Reading::Tar)) {
            return Ok((entry.name.clone(), Source::Stream(entry.open(archive))));
        }
        // Of one that is cut off its own reader will tell that.
        if let Some(failure) = entry.check(archive)?
            && failure.cause == PackedCause::Corrupt
        {
            self.findings.damaged_within(entry.name.clone(), Damage::ArchiveBroken, failure.offset);
        }
        Ok((entry.name, Source::File(region)))
    }

    fn next_of_stream(&mut self, walk: &tar::Stream) -> io::Result<Option<(String, Source)>> {
        loop {
            let entry = match tar::lock(walk).next()? {
                Next::File(entry) => entry,
                end => {
                    self.rest = Rest::Nothing;
                    let at = if let Next::Broken { offset } = end { Some(offset) } else { None };
                    self.damaged(Damage::ArchiveBroken, at);
                    return Ok(None);
                }
            };
            if is_hidden(&entry.name) {
                continue;
            }
            if entry.is_sparse {
                self.refuse_sparse(entry.name);
                continue;
            }
            let mut rest: Box<dyn Read + Send> = Box::new(Current::new(walk, &entry));
            let head = Head::of(&mut rest)?;
            if Rank::of(&head.bytes).is_none() {
                self.pass_over(entry.name, &head);
                continue;
            }
            let Head { bytes, failure } = head;
            return Ok(Some((
                entry.name,
                Source::Stream(Box::new(Begun { head: io::Cursor::new(bytes), failure, rest })),
            )));
        }
    }
}

fn in_order<E>(mut files: Vec<(Rank, String, E)>) -> VecDeque<E> {
    // Of equal names the first in the archive stays first.
    files.sort_by(|(rank, name, _), (other_rank, other_name, _)| (rank, name).cmp(&(other_rank, other_name)));
    files.into_iter().map(|(.., entry)| entry).collect()
}
