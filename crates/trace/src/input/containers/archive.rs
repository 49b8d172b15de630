//! Removes the layers of compression around a file, and goes through the files of an archive.
//!
//! The files of an archive come in trace_processor's order: what its [`Opening`] puts first, then compressed files and archives, then the
//! rest, each by name. Hidden files (macOS, editors and archivers create them) are skipped silently; files of no known format and files
//! that cannot be read are skipped and reported. Each is read as a stream, and only its first bytes decide when it comes.
//!
//! That order needs seeking. A tar that is compressed, in a zip, or comes through a pipe is read in its own order: to write the text of
//! many ranks to a disk first would take tens of GB. A zip that comes as a stream is copied to a temporary file, for its directory is at
//! its end. A file with several traces, such as a database with several processes, is an archive of these.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::limit::{Budget, Limits, failure};
use super::listing::{Entry, File, Findings, Listing, is_hidden};
use super::source::{Head, Source};
use super::{Kind, List, recognise};
use crate::error::Error;

/// A file with more layers of compression was not meant to be read.
const MAX_LAYERS: usize = 4;

/// An archive in an archive is read (a GitHub artifact is a zip, perhaps of a `traces.tar.gz`), an archive in that one is not.
const MAX_DEPTH: usize = 2;

/// What files are opened as, once their containers are removed.
pub(in crate::input) struct Opening<T> {
    /// When a file that begins so is read; `None` if it is certainly not one of these files.
    pub(in crate::input) turn: fn(&[u8]) -> Option<Turn>,
    /// Opens a file by its name and its first bytes. Most files hold one `T`.
    pub(in crate::input) open: Open<T>,
    /// The name of one that shares its file with others.
    pub(in crate::input) name: fn(&T) -> String,
}

type Open<T> = fn(&str, &[u8], Source, &Budget) -> Result<Vec<T>, Error>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::input) enum Turn {
    First,
    /// With the compressed files and the archives.
    Packed,
    Last,
}

pub enum Contents<T: 'static> {
    File(T),
    Archive(Box<Archive<T>>),
}

/// Opens sources. All texts of one budget end with an error where a limit is reached.
pub(in crate::input) struct Opener<T: 'static> {
    opening: &'static Opening<T>,
    budget: Budget,
    /// How many archives the source is in.
    depth: usize,
}

impl<T> Opener<T> {
    /// `taken` counts the bytes of the file that have been read.
    pub(in crate::input) fn new(opening: &'static Opening<T>, limits: Limits, taken: Arc<AtomicU64>) -> Self {
        Opener { opening, budget: Budget::new(limits, taken), depth: 0 }
    }

    pub(in crate::input) fn open(&self, name: &str, mut head: Head, mut source: Source) -> Result<Contents<T>, Error> {
        for _ in 0..=MAX_LAYERS {
            let text = match recognise(&head).map(|container| &container.kind) {
                Some(Kind::Layer(decompress)) => decompress(Box::new(source.within(&self.budget))),
                Some(Kind::Archive(list)) => {
                    return Ok(Contents::Archive(Box::new(self.archive(name, *list, source)?)));
                }
                None => return Ok(self.contents(name, (self.opening.open)(name, &head.bytes, source, &self.budget)?)),
            };
            (head, source) = Source::Stream(text).head().map_err(|error| failure(name, error))?;
        }
        Err(Error::Unsupported {
            name: name.to_owned(),
            what: "this is compressed more than four times over",
            advice: "Decompress it by hand",
        })
    }

    /// The only part of a file, or all as the files of an archive.
    fn contents(&self, name: &str, mut parts: Vec<T>) -> Contents<T> {
        match parts.pop() {
            Some(only) if parts.is_empty() => Contents::File(only),
            last => {
                let mut archive = Archive::new(name, Opener { budget: self.budget.clone(), ..*self });
                archive.parts = parts.into_iter().chain(last).collect();
                Contents::Archive(Box::new(archive))
            }
        }
    }

    fn archive(&self, name: &str, list: List, source: Source) -> Result<Archive<T>, Error> {
        if self.depth >= MAX_DEPTH {
            return Err(Error::Unsupported {
                name: name.to_owned(),
                what: "this is an archive in an archive in an archive",
                advice: "Unpack the outer ones",
            });
        }
        let listing = list(name, source.within(&self.budget))?;
        let opener = Opener { budget: self.budget.clone(), depth: self.depth + 1, ..*self };
        let mut archive = Archive::new(name, opener);
        if listing.can_seek {
            archive.sort(listing).map_err(|error| failure(name, error))?;
        } else {
            archive.unsorted = Some(listing);
        }
        Ok(archive)
    }
}

pub struct Archive<T: 'static> {
    name: String,
    opener: Opener<T>,
    /// The files still to be read, in order.
    sorted: VecDeque<(File, Head)>,
    /// The rest of an archive that is read in its own order.
    unsorted: Option<Listing>,
    /// What a file with several parts holds, instead of files.
    parts: VecDeque<T>,
    /// An archive in it that is being read now.
    inner: Option<(String, Box<Archive<T>>)>,
    handed: usize,
    pub(crate) findings: Findings,
}

pub struct Member<T> {
    pub name: String,
    /// Its number among the files handed out, from 0.
    pub place: usize,
    pub file: T,
}

impl<T> Archive<T> {
    fn new(name: &str, opener: Opener<T>) -> Self {
        Archive {
            name: name.to_owned(),
            opener,
            sorted: VecDeque::new(),
            unsorted: None,
            parts: VecDeque::new(),
            inner: None,
            handed: 0,
            findings: Findings::default(),
        }
    }

    /// The next part of a file that holds several and cannot be unpacked; `None` if this is an archive of files.
    pub fn next_part(&self) -> Option<&T> {
        self.parts.front()
    }

    /// Puts all files that may be of the kind in order.
    fn sort(&mut self, mut listing: Listing) -> io::Result<()> {
        let mut files: Vec<(Turn, (File, Head))> = Vec::new();
        while let Some(file) = self.next_listed(&mut listing)? {
            let (head, _) = (file.open)().head()?;
            if let Some(turn) = self.turn(&file.name, &head) {
                files.push((turn, (file, head)));
            }
        }
        // Files with the same name stay in the order of the archive.
        files.sort_by(|(turn, (file, _)), (other_turn, (other, _))| (turn, &file.name).cmp(&(other_turn, &other.name)));
        self.sorted = files.into_iter().map(|(_, file)| file).collect();
        Ok(())
    }

    /// The next file that is not hidden; everything else that is listed goes to the findings.
    fn next_listed(&mut self, listing: &mut Listing) -> io::Result<Option<File>> {
        for entry in &mut listing.entries {
            match entry? {
                Entry::Damaged(kind, offset) => self.findings.damage.count(kind, Some(offset)),
                Entry::File(File { name, .. }) | Entry::Refused { name, .. } if is_hidden(&name) => {}
                Entry::Refused { name, what, advice } => {
                    let full = format!("{}/{name}", self.name);
                    self.findings.refuse(format!("{name} ({what})"), Error::Unsupported { name: full, what, advice });
                }
                Entry::File(file) => return Ok(Some(file)),
            }
        }
        Ok(None)
    }

    /// When a file is read; `None`, and reported, if it does not begin as one of the kind.
    fn turn(&mut self, name: &str, head: &Head) -> Option<Turn> {
        let turn = recognise(head).map(|_| Turn::Packed).or_else(|| (self.opener.opening.turn)(&head.bytes));
        match turn {
            Some(_) => {}
            None if head.is_cut => self.findings.unreadable(name.to_owned()),
            None => self.findings.no_trace(name.to_owned()),
        }
        turn
    }

    /// What else is in the archive, once all files have been handed out.
    pub fn into_findings(mut self) -> Findings {
        self.findings.sort();
        self.findings
    }

    /// The next file. The file before it cannot be read any more. Files that this program cannot read are among the findings.
    #[expect(clippy::should_implement_trait, reason = "an iterator of results would go on after an error")]
    pub fn next(&mut self) -> Result<Option<Member<T>>, Error> {
        if let Some(part) = self.parts.pop_front() {
            return Ok(Some(self.hand_out((self.opener.opening.name)(&part), part)));
        }
        loop {
            if let Some((folder, inner)) = &mut self.inner {
                if let Some(member) = inner.next()? {
                    let name = format!("{folder}/{}", member.name);
                    return Ok(Some(self.hand_out(name, member.file)));
                }
                if let Some((folder, inner)) = self.inner.take() {
                    self.findings.take(&folder, inner.findings);
                }
            }
            let next = self.next_file().map_err(|error| failure(&self.name, error))?;
            let Some((name, head, source)) = next else { return Ok(None) };
            match self.opener.open(&format!("{}/{name}", self.name), head, source) {
                Err(error @ Error::Unsupported { what, .. }) => self.findings.refuse(format!("{name} ({what})"), error),
                Err(error @ Error::BrokenZip { .. }) => {
                    let what = "this zip is cut off, or its directory does not describe it";
                    self.findings.refuse(format!("{name} ({what})"), error);
                }
                Err(error @ Error::OtherFormat { what, .. }) => {
                    self.findings.no_trace(format!("{name} ({what})"));
                    self.findings.refusal.get_or_insert(error);
                }
                Err(Error::NotATrace { .. }) => self.findings.no_trace(name),
                Err(Error::CorruptDatabase { .. }) => self.findings.unreadable(name),
                Err(error) => return Err(error),
                Ok(Contents::Archive(inner)) => self.inner = Some((name, inner)),
                Ok(Contents::File(file)) => return Ok(Some(self.hand_out(name, file))),
            }
        }
    }

    fn hand_out(&mut self, name: String, file: T) -> Member<T> {
        self.handed += 1;
        Member { name, place: self.handed - 1, file }
    }

    fn next_file(&mut self) -> io::Result<Option<(String, Head, Source)>> {
        let Some(mut listing) = self.unsorted.take() else {
            return Ok(self.sorted.pop_front().map(|(file, head)| (file.name, head, (file.open)())));
        };
        while let Some(file) = self.next_listed(&mut listing)? {
            let (head, source) = (file.open)().head()?;
            if self.turn(&file.name, &head).is_some() {
                self.unsorted = Some(listing);
                return Ok(Some((file.name, head, source)));
            }
        }
        Ok(None)
    }
}
