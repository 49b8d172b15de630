//! From stored bytes to the text of a trace: removes layers of compression and goes through archives.
//!
//! The traces of an archive are read one after the other, as trace_processor does: those in Perfetto's protobuf format first,
//! then compressed files and archives, then JSON, each by name. Hidden files (macOS, editors and archivers create them)
//! are skipped silently; files that are not traces and files that cannot be read are skipped and reported. Nothing is
//! decompressed to memory: a file is read as a stream, and only its first bytes decide its rank.
//!
//! That order needs seeking. A tar that is compressed, in a zip, or comes through a pipe has to be read in its own order: writing
//! the text of many ranks to a disk first would take tens of GB. A zip has its directory at the end, so a zip that comes as a stream is
//! copied to a temporary file.
//!
//! Opening a file of an archive is opening any file, so both are here. A database of Nsight Systems with several processes is an
//! archive of their traces.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use memchr::memmem;

use super::archive::Findings;
use super::archive::listing::{Entry, File, Listing};
use super::archive::names::is_hidden;
use super::format::{Formats, Rank, Reader, Text};
use super::limit::{Budget, Limited, Limits, failure};
use super::nsys::{self, Process};
use super::proto;
use super::source::{Bytes, Head, Source};
use crate::error::Error;

/// A file with more layers of compression was not meant to be read.
const MAX_LAYERS: usize = 4;

/// An archive in an archive is read, an archive in that one is not. A GitHub artifact, which is a zip, of a `traces.tar.gz`
/// is one in another.
const MAX_DEPTH: usize = 2;

/// How much of a text [`Archive::likely_traces`] reads: fields before the events are mostly shorter.
const LOOKED_AT: u64 = 256 * 1024;

/// The text of a trace, by its format.
pub enum Contents {
    /// JSON, or bytes that the reader of JSON will refuse.
    Json(Box<dyn Read + Send>),
    /// Perfetto's protobuf: a list of packets.
    Packets(proto::Stream),
    /// A process of an export of Nsight Systems.
    Process(Process),
    /// Several files, some of which may be traces.
    Archive(Box<Archive>),
}

impl Contents {
    /// What it is in words.
    pub fn what(&self) -> &'static str {
        match self {
            Contents::Packets(_) => "a trace in Perfetto's protobuf format",
            Contents::Process(_) => EXPORT,
            Contents::Archive(archive) if archive.is_database() => EXPORT,
            Contents::Archive(_) => "an archive",
            Contents::Json(_) => "JSON",
        }
    }
}

const EXPORT: &str = "an export of Nsight Systems";

/// Opens sources. All texts of one budget end with an error where a limit is reached.
pub(super) struct Opener {
    formats: Formats,
    budget: Budget,
    /// How many archives the source is in.
    depth: usize,
}

impl Opener {
    /// For a file whose bytes read are counted by `taken`.
    pub(super) fn new(formats: Formats, limits: Limits, taken: Arc<AtomicU64>) -> Self {
        Opener { formats, budget: Budget::new(limits, taken), depth: 0 }
    }

    pub(super) fn open(&self, name: &str, mut source: Source) -> Result<Contents, Error> {
        let text = |source: Source| Box::new(Limited::new(source.into_bytes(), self.budget.clone()));
        let unsupported = |what, advice| Error::Unsupported { name: name.to_owned(), what, advice };
        for _ in 0..=MAX_LAYERS {
            let (head, whole) = source.peek();
            let Some(format) = self.formats.of(&head) else {
                // The reader of JSON says where this is not JSON.
                return Ok(Contents::Json(text(whole)));
            };
            source = match format.reader {
                Reader::Layer(decompress) => Source::Stream(decompress(whole.within(&self.budget).into_bytes())),
                Reader::Archive(list) => return Ok(Contents::Archive(Box::new(self.archive(name, list, whole)?))),
                Reader::Trace(Text::Json) => return Ok(Contents::Json(text(whole))),
                Reader::Trace(Text::Packets) => {
                    let packets = proto::Stream::new(text(whole), self.budget.clone());
                    return packets.map(Contents::Packets).map_err(|(what, advice)| unsupported(what, advice));
                }
                Reader::Database => return Ok(self.database(name, nsys::open(name, whole, &self.budget)?)),
            };
        }
        Err(unsupported("this is compressed more than four times over", "Decompress it by hand"))
    }

    /// The only process of a database, or all as the traces of an archive.
    fn database(&self, name: &str, mut processes: Vec<Process>) -> Contents {
        match processes.pop() {
            Some(only) if processes.is_empty() => Contents::Process(only),
            last => {
                let mut archive = Archive::new(name, Opener { budget: self.budget.clone(), ..*self });
                archive.processes = processes.into_iter().chain(last).collect();
                Contents::Archive(Box::new(archive))
            }
        }
    }

    fn archive(
        &self,
        name: &str,
        list: fn(Source, &Budget) -> io::Result<Listing>,
        source: Source,
    ) -> Result<Archive, Error> {
        if self.depth >= MAX_DEPTH {
            return Err(Error::Unsupported {
                name: name.to_owned(),
                what: "this is an archive in an archive in an archive",
                advice: "Unpack the outer ones",
            });
        }
        let failed = |source| failure(name, source);
        let listing = list(source.within(&self.budget), &self.budget).map_err(failed)?;
        let opener = Opener { budget: listing.budget.clone(), depth: self.depth + 1, ..*self };
        let mut archive = Archive::new(name, opener);
        if listing.can_seek {
            archive.sort(listing).map_err(failed)?;
        } else {
            archive.unsorted = Some(listing);
        }
        Ok(archive)
    }
}

/// An archive that is being read.
pub struct Archive {
    name: String,
    /// Opens its files.
    opener: Opener,
    /// The files that are still to be read, in order.
    sorted: VecDeque<File>,
    /// The rest of an archive that is read in its own order.
    unsorted: Option<Listing>,
    /// The traces of a database, instead of files.
    processes: VecDeque<Process>,
    /// An archive in it that is being read now.
    inner: Option<(String, Box<Archive>)>,
    /// How many files of it have been handed out.
    handed: usize,
    findings: Findings,
}

/// A file of an archive that may be a trace.
pub struct Member {
    /// Its name in the archive.
    pub name: String,
    /// Its number among the files that are handed out, from 0.
    pub place: usize,
    /// Its text.
    pub contents: Contents,
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archive").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Archive {
    /// One without files.
    fn new(name: &str, opener: Opener) -> Self {
        Archive {
            name: name.to_owned(),
            opener,
            sorted: VecDeque::new(),
            unsorted: None,
            processes: VecDeque::new(),
            inner: None,
            handed: 0,
            findings: Findings::default(),
        }
    }

    /// Whether this is a database with the traces of several processes. It cannot be unpacked.
    pub fn is_database(&self) -> bool {
        !self.processes.is_empty()
    }

    /// Puts all files that may be traces in order.
    fn sort(&mut self, mut listing: Listing) -> io::Result<()> {
        let mut files: Vec<(Rank, File)> = Vec::new();
        while let Some(file) = self.next_listed(&mut listing)? {
            let head = Head::of((file.open)().into_bytes())?;
            if let Some(rank) = self.rank(&file.name, &head) {
                files.push((rank, file));
            }
        }
        // Files with the same name stay in the order of the archive.
        files.sort_by(|(rank, file), (other_rank, other)| (rank, &file.name).cmp(&(other_rank, &other.name)));
        self.sorted = files.into_iter().map(|(_, file)| file).collect();
        Ok(())
    }

    /// The next file that is not hidden; everything else that is listed goes to the findings.
    fn next_listed(&mut self, listing: &mut Listing) -> io::Result<Option<File>> {
        for entry in &mut listing.entries {
            match entry? {
                Entry::Damaged(kind, offset) => self.findings.damage.count(kind, Some(offset)),
                Entry::Unreadable(name) => self.findings.unreadable(name),
                Entry::File(File { name, .. }) | Entry::Refused { name, .. } if is_hidden(&name) => {}
                Entry::Refused { name, what, advice } => self.findings.refuse(&self.name, name, what, advice),
                Entry::File(file) => return Ok(Some(file)),
            }
        }
        Ok(None)
    }

    /// The rank of a file; `None`, and reported, if it does not begin as a trace.
    fn rank(&mut self, name: &str, head: &Head) -> Option<Rank> {
        let rank = self.opener.formats.rank(&head.bytes);
        match (rank, &head.failure) {
            (Some(_), _) => {}
            (None, Some(_)) => self.findings.unreadable(name.to_owned()),
            (None, None) => self.findings.no_trace(name.to_owned()),
        }
        rank
    }

    /// Reports that a file turned out not to be a trace.
    pub fn is_no_trace(&mut self, name: String) {
        self.findings.no_trace(name);
    }

    /// Reports that nothing of a file could be read.
    pub fn is_unreadable(&mut self, name: String) {
        self.findings.unreadable(name);
    }

    /// Everything else in the archive, once all files have been handed out.
    pub fn into_findings(mut self) -> Findings {
        self.findings.sort();
        self.findings
    }

    /// The next file that may be a trace. The file before it cannot be read any more. Files that this program cannot read
    /// are among the findings.
    ///
    /// # Errors
    /// Those of reading, and too much text.
    #[expect(clippy::should_implement_trait, reason = "an iterator of results would go on after an error")]
    pub fn next(&mut self) -> Result<Option<Member>, Error> {
        if let Some(process) = self.processes.pop_front() {
            return Ok(Some(self.hand_out(process.name(), Contents::Process(process))));
        }
        loop {
            if let Some((folder, inner)) = &mut self.inner {
                if let Some(member) = inner.next()? {
                    let name = format!("{folder}/{}", member.name);
                    return Ok(Some(self.hand_out(name, member.contents)));
                }
                if let Some((folder, inner)) = self.inner.take() {
                    self.findings.take(&folder, inner.findings);
                }
            }
            let next = self.next_file().map_err(|error| failure(&self.name, error))?;
            let Some((name, source)) = next else { return Ok(None) };
            match self.opener.open(&format!("{}/{name}", self.name), source) {
                Err(Error::Unsupported { what, advice, .. }) => self.findings.refuse(&self.name, name, what, advice),
                Err(Error::NotATrace { .. }) => self.findings.no_trace(name),
                Err(Error::CorruptDatabase { .. }) => self.findings.unreadable(name),
                Err(error) => return Err(error),
                Ok(Contents::Archive(inner)) => self.inner = Some((name, inner)),
                Ok(contents) => return Ok(Some(self.hand_out(name, contents))),
            }
        }
    }

    fn hand_out(&mut self, name: String, contents: Contents) -> Member {
        self.handed += 1;
        Member { name, place: self.handed - 1, contents }
    }

    fn next_file(&mut self) -> io::Result<Option<(String, Source)>> {
        let Some(mut listing) = self.unsorted.take() else {
            return Ok(self.sorted.pop_front().map(|file| (file.name, (file.open)())));
        };
        while let Some(file) = self.next_listed(&mut listing)? {
            let mut rest: Bytes = (file.open)().into_bytes();
            let head = Head::of(&mut rest)?;
            if self.rank(&file.name, &head).is_some() {
                self.unsorted = Some(listing);
                return Ok(Some((file.name, head.before(rest))));
            }
        }
        Ok(None)
    }

    /// The names of the files that look like traces by their first bytes, for a caller that has to know them before it
    /// reads one.
    ///
    /// # Errors
    /// As [`Archive::next`].
    pub fn likely_traces(mut self) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        while let Some(member) = self.next()? {
            let is_likely = match member.contents {
                Contents::Json(text) => {
                    let mut head = Vec::new();
                    // An error here occurs again when the file is read.
                    let _ = text.take(LOOKED_AT).read_to_end(&mut head);
                    head.trim_ascii_start().first() == Some(&b'[') || memmem::find(&head, b"\"traceEvents\"").is_some()
                }
                Contents::Packets(_) | Contents::Process(_) | Contents::Archive(_) => true,
            };
            names.extend(is_likely.then_some(member.name));
        }
        Ok(names)
    }
}
