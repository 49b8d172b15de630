//! Archives: files that hold several, of which some are traces. Zip and tar, in one another one level deep.
//!
//! The traces of an archive are read one after the other, as a trace_processor does: those in Perfetto's protobuf format first, then
//! what is packed, then JSON, each by name. What begins with a dot (macOS, editors and archivers leave such files behind) is passed
//! over without a word; what is no trace is passed over and told. Nothing is unpacked to memory: a member is read as a stream, and
//! while it is looked for only its first bytes are.
//!
//! That order takes going back and forth in the file. A tar that is compressed or comes through a pipe cannot be gone back in; its
//! traces are read in its own order. The alternative would be to write it to a disk first, which for the text of many ranks is
//! tens of GB, for nothing but the numbers of the machines. A zip has its directory at the end, so it is written to a temporary file if
//! it comes as a stream; the same holds for a zip that is packed within something else.

mod tar;
mod zip;

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};

use memchr::memmem;

use super::limit::Budget;
use super::region::Region;
use super::{Contents, SNIFF, Source, contents, packing_of, proto};
use crate::damage::{Damage, DamageReport};
use crate::error::Error;
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

/// What is in an archive besides traces.
#[derive(Debug, Default)]
pub struct Findings {
    /// Files that are no traces, by name.
    pub no_traces: Vec<String>,
    /// Files of which nothing could be read, by name.
    pub unreadable: Vec<String>,
    /// What was wrong with the archive; the files above are counted there, too.
    pub damage: DamageReport,
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

/// The order in which files are read, by what they begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Packets,
    Packed,
    Json,
}

impl Rank {
    /// `None` for what is no trace for sure.
    fn of(head: &[u8]) -> Option<Self> {
        if packing_of(head).is_some_and(|format| format.is_container()) {
            return Some(Rank::Packed);
        }
        if proto::begins(head) {
            return Some(Rank::Packets);
        }
        let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
        let may_be_json = text.first().map_or(!head.is_empty(), |first| matches!(first, b'{' | b'['));
        may_be_json.then_some(Rank::Json)
    }
}

/// Whether a file is passed over for its name.
fn is_hidden(name: &str) -> bool {
    name.split(['/', '\\']).any(|part| part == "__MACOSX" || part.starts_with('.') && !matches!(part, "." | ".."))
}

/// The first bytes of a file; fewer if they cannot be read.
fn head(mut file: impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(SNIFF);
    match file.by_ref().take(SNIFF as u64).read_to_end(&mut head) {
        Err(error) if super::packed::PackedFailure::of(&error).is_none() => Err(error),
        _ => Ok(head),
    }
}

impl Archive {
    pub(super) fn zip(name: &str, depth: usize, source: Source, budget: &Budget) -> Result<Self, Error> {
        let read = |source| Error::Read { name: name.to_owned(), source };
        let mut archive = Archive::new(name, depth, budget)?;
        let region = match source {
            Source::File(region) => region,
            Source::Stream(stream) => Region::of_stream(stream)
                .map_err(|e| read(io::Error::new(e.kind(), format!("it cannot be copied to a temporary file: {e}"))))?,
        };
        archive.budget = budget.of_file(region.taken());
        let directory = zip::Directory::read(&region).map_err(read)?;
        archive.break_off(directory.broken);
        let mut files = Vec::new();
        for entry in directory.entries {
            if entry.name.ends_with('/') || is_hidden(&entry.name) {
                continue;
            }
            if let Some((what, advice)) = entry.refusal() {
                return Err(Error::Unsupported { name: format!("{name}/{}", entry.name), what, advice });
            }
            let head = if entry.is_empty() { Vec::new() } else { head(entry.open(&region)).map_err(read)? };
            archive.sort_in(&mut files, &head, entry.name.clone(), entry);
        }
        archive.rest = Rest::Zip { archive: region, files: in_order(files) };
        Ok(archive)
    }

    pub(super) fn tar(name: &str, depth: usize, source: Source, budget: &Budget) -> Result<Self, Error> {
        let read = |source| Error::Read { name: name.to_owned(), source };
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
            match walk.next().map_err(read)? {
                Next::File(entry) if is_hidden(&entry.name) => {}
                Next::File(entry) => {
                    archive.refuse_sparse(&entry)?;
                    let head = head(region.part(entry.offset, entry.size)).map_err(read)?;
                    archive.sort_in(&mut files, &head, entry.name.clone(), entry);
                }
                Next::End => break,
                Next::Broken { offset } => {
                    archive.break_off(Some(offset));
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
    fn sort_in<E>(&mut self, files: &mut Vec<(Rank, String, E)>, head: &[u8], name: String, entry: E) {
        match Rank::of(head) {
            Some(rank) => files.push((rank, name, entry)),
            None => self.is_no_trace(name),
        }
    }

    fn refuse_sparse(&self, entry: &tar::Entry) -> Result<(), Error> {
        if !entry.is_sparse {
            return Ok(());
        }
        Err(Error::Unsupported {
            name: format!("{}/{}", self.name, entry.name),
            what: "this file of the archive is stored with holes (a sparse file)",
            advice: "Unpack the archive and name the trace",
        })
    }

    fn break_off(&mut self, at: Option<u64>) {
        if at.is_some() {
            self.findings.damage.count(Damage::ArchiveBroken, at);
        }
    }

    /// Tells that a file turned out to be no trace.
    pub fn is_no_trace(&mut self, name: String) {
        self.findings.damage.count(Damage::NoTraceInFile, None);
        self.findings.no_traces.push(name);
    }

    /// Tells that nothing of a file could be read.
    pub fn is_unreadable(&mut self, name: String) {
        self.findings.damage.count(Damage::FileUnreadable, None);
        self.findings.unreadable.push(name);
    }

    /// What else was found, once all files have been handed out.
    pub fn into_findings(mut self) -> Findings {
        self.findings.no_traces.sort();
        self.findings.unreadable.sort();
        self.findings
    }

    /// The next file that may be a trace. The one before is over then.
    ///
    /// # Errors
    /// Those of reading, and what cannot be read: files that are packed too many times over, or not at all as this program can.
    pub fn next(&mut self, threads: usize) -> Result<Option<Member>, Error> {
        loop {
            if let Some((folder, inner)) = &mut self.inner {
                if let Some(member) = inner.next(threads)? {
                    let name = format!("{folder}/{}", member.name);
                    self.handed += 1;
                    return Ok(Some(Member { name, place: self.handed - 1, ..member }));
                }
                if let Some((folder, inner)) = self.inner.take() {
                    self.take_findings(&folder, inner.findings);
                }
            }
            let Some((name, source)) = self.next_file()? else { return Ok(None) };
            match contents(&format!("{}/{name}", self.name), source, &self.budget, threads, self.depth + 1)? {
                Contents::Archive(inner) => self.inner = Some((name, inner)),
                contents => {
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

    fn take_findings(&mut self, folder: &str, of_inner: Findings) {
        let within = |name: String| format!("{folder}/{name}");
        self.findings.no_traces.extend(of_inner.no_traces.into_iter().map(within));
        self.findings.unreadable.extend(of_inner.unreadable.into_iter().map(within));
        self.findings.damage.add(&of_inner.damage);
    }

    fn next_file(&mut self) -> Result<Option<(String, Source)>, Error> {
        match &mut self.rest {
            Rest::Zip { archive, files } => Ok(files.pop_front().map(|entry| {
                let source = match entry.plain(archive) {
                    // What is to be gone back and forth in, if it is an archive itself.
                    Some(region) if head(region.clone()).is_ok_and(|head| packing_of(&head).is_some()) => {
                        Source::File(region)
                    }
                    _ => Source::Stream(entry.open(archive)),
                };
                (entry.name, source)
            })),
            Rest::Tar { archive, files } => {
                let part = |entry: tar::Entry| (entry.name, Source::File(archive.part(entry.offset, entry.size)));
                Ok(files.pop_front().map(part))
            }
            Rest::Nothing => Ok(None),
            Rest::Stream(walk) => {
                let walk = Arc::clone(walk);
                self.next_of_stream(&walk)
            }
        }
    }

    fn next_of_stream(&mut self, walk: &tar::Stream) -> Result<Option<(String, Source)>, Error> {
        let read = |name: &str, source| Error::Read { name: name.to_owned(), source };
        loop {
            let next = tar::lock(walk).next().map_err(|e| read(&self.name, e))?;
            let entry = match next {
                Next::File(entry) => entry,
                end => {
                    self.rest = Rest::Nothing;
                    self.break_off(if let Next::Broken { offset } = end { Some(offset) } else { None });
                    return Ok(None);
                }
            };
            if is_hidden(&entry.name) {
                continue;
            }
            self.refuse_sparse(&entry)?;
            let (head, source) = Source::Stream(Box::new(Current::new(walk, &entry))).peek();
            if Rank::of(&head).is_some() {
                return Ok(Some((entry.name, source)));
            }
            self.is_no_trace(entry.name);
        }
    }
}

fn in_order<E>(mut files: Vec<(Rank, String, E)>) -> VecDeque<E> {
    // Of equal names the first in the archive stays first.
    files.sort_by(|(rank, name, _), (other_rank, other_name, _)| (rank, name).cmp(&(other_rank, other_name)));
    files.into_iter().map(|(.., entry)| entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_names_are_known() {
        for name in [".DS_Store", "a/.git/x", "__MACOSX/._trace.json", "a/__MACOSX/b", "a/._trace.json", "a\\.x"] {
            assert!(is_hidden(name), "{name}");
        }
        for name in ["trace.json", "./trace.json", "../a/b.json", "a/b.c/d.json", "MACOSX/a"] {
            assert!(!is_hidden(name), "{name}");
        }
    }

    #[test]
    fn files_are_ranked_by_what_they_begin_with() {
        for (head, rank) in [
            (&b"{\"traceEvents\""[..], Some(Rank::Json)),
            (b"\xef\xbb\xbf \n[{", Some(Rank::Json)),
            (b"   ", Some(Rank::Json)),
            (b"\x1f\x8b\x08", Some(Rank::Packed)),
            (b"PK\x03\x04", Some(Rank::Packed)),
            (b"\x28\xb5\x2f\xfd", Some(Rank::Packed)),
            (b"SQLite format 3\0", None),
            (b"rank 0\n", None),
            (b"", None),
        ] {
            assert_eq!(Rank::of(head), rank, "{head:?}");
        }
    }
}
