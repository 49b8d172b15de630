//! The stored bytes of a file: on the disk, where they can be read in any order, or a stream, which can be read once.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::limit::{Budget, Limited};
use super::packed::PackedFailure;

pub(in crate::input) type Bytes = Box<dyn Read + Send>;

/// How many bytes decide the format: enough for tar's mark at offset 257.
pub(in crate::input) const SNIFF: usize = 512;

/// Whether a text that may be cut off anywhere is UTF-8 so far.
pub fn is_utf8(text: &[u8]) -> bool {
    std::str::from_utf8(text).err().is_none_or(|error| error.error_len().is_none())
}

pub(in crate::input) enum Source {
    File(Region),
    Stream(Bytes),
}

/// The first bytes of a file, at most [`SNIFF`]: they are read once, for all that recognise files.
pub(in crate::input) struct Head {
    pub(in crate::input) bytes: Vec<u8>,
    /// Whether damage to an archive or to compressed data ended them early.
    pub(in crate::input) is_cut: bool,
}

impl Source {
    /// The first bytes, and the source with these bytes still to be read. Damage is reported again where the source is read.
    pub(in crate::input) fn head(self) -> io::Result<(Head, Self)> {
        Ok(match self {
            Source::File(region) => (Head::read(&mut region.clone())?, Source::File(region)),
            Source::Stream(mut rest) => {
                let head = Head::read(&mut rest)?;
                let whole = io::Cursor::new(head.bytes.clone()).chain(rest);
                (head, Source::Stream(Box::new(whole)))
            }
        })
    }

    /// Charges a stream to the budget of bytes that are not text yet.
    pub(in crate::input) fn within(self, budget: &Budget) -> Self {
        match self {
            Source::Stream(stream) => Source::Stream(Box::new(Limited::new(stream, budget.of_layers()))),
            file => file,
        }
    }
}

impl Read for Source {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Source::File(region) => region.read(buf),
            Source::Stream(stream) => stream.read(buf),
        }
    }
}

impl Head {
    fn read(file: &mut impl Read) -> io::Result<Self> {
        let mut bytes = Vec::with_capacity(SNIFF);
        match file.take(SNIFF as u64).read_to_end(&mut bytes) {
            Err(error) if PackedFailure::find_in(&error).is_none() => Err(error),
            read => Ok(Head { bytes, is_cut: read.is_err() }),
        }
    }
}

/// A part of a file, read as if it were a file: the members of an archive are read in another order than they are stored in. All regions
/// share one open file; each has its own position. No two are read at the same time, so no thread waits for the lock. Offsets are the file's.
#[derive(Debug, Clone)]
pub(in crate::input) struct Region {
    file: Arc<Mutex<File>>,
    /// The path, if this is the whole of a file that the user named.
    path: Option<Arc<Path>>,
    /// Counts the bytes that are read.
    taken: Arc<AtomicU64>,
    start: u64,
    at: u64,
    /// The offset of its end; `None`: the end of the file.
    end: Option<u64>,
    /// The end of the region that it is a part of, which may be earlier.
    limit: u64,
}

impl Region {
    pub(in crate::input) fn taken(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.taken)
    }

    /// A whole file, which may still grow.
    pub(in crate::input) fn from_file(file: File, taken: Arc<AtomicU64>) -> Self {
        Region { file: Arc::new(Mutex::new(file)), path: None, taken, start: 0, at: 0, end: None, limit: u64::MAX }
    }

    /// The same, for a file that has a path.
    pub(in crate::input) fn at_path(self, path: &Path) -> Self {
        Region { path: Some(path.into()), ..self }
    }

    pub(in crate::input) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Copies a stream to a temporary file, which is removed with the last region. Damage to the compression ends the copy, and is returned.
    pub(in crate::input) fn from_stream(mut stream: impl Read) -> io::Result<(Self, Option<PackedFailure>)> {
        let mut file = tempfile::tempfile()?;
        let failure = match io::copy(&mut stream, &mut file) {
            Ok(_) => None,
            Err(error) => Some(PackedFailure::find_in(&error).cloned().ok_or(error)?),
        };
        Ok((Region::from_file(file, Arc::default()), failure))
    }

    /// A part of it, which may claim more bytes than there are.
    pub(in crate::input) fn part(&self, offset: u64, length: u64) -> Self {
        let start = self.start.saturating_add(offset);
        let (end, limit) = (Some(start.saturating_add(length)), self.stop());
        Region { path: None, start, at: start, end, limit, ..self.clone() }
    }

    /// The offset of its end, at the latest.
    fn stop(&self) -> u64 {
        self.end.map_or(self.limit, |end| end.min(self.limit))
    }

    /// How many bytes of it have been read or skipped.
    pub(in crate::input) fn position(&self) -> u64 {
        self.at - self.start
    }

    /// In bytes, as far as there are any.
    pub(in crate::input) fn length(&self) -> io::Result<u64> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).metadata()?.len();
        Ok(self.stop().min(file).saturating_sub(self.start))
    }
}

impl Read for Region {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.stop().saturating_sub(self.at)).map_or(buf.len(), |room| room.min(buf.len()));
        let mut n = 0;
        if room > 0 {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            n = match file.seek(SeekFrom::Start(self.at)) {
                // No file of this system is this long.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => 0,
                at => at.and_then(|_| file.read(&mut buf[..room]))?,
            };
        }
        if n == 0 && !buf.is_empty() && self.end.is_some_and(|end| self.at < end) {
            return Err(PackedFailure::in_archive(self.position()).into());
        }
        self.at += n as u64;
        self.taken.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

impl Seek for Region {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let offset = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(by) => self.position().checked_add_signed(by),
            SeekFrom::End(by) => self.length()?.checked_add_signed(by),
        };
        let offset = offset.ok_or(io::ErrorKind::InvalidInput)?;
        self.at = self.start.saturating_add(offset);
        Ok(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(bytes: &[u8]) -> Region {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Region::from_file(file, Arc::default())
    }

    fn text(mut region: Region) -> (String, Option<u64>) {
        let mut text = String::new();
        let end = region.read_to_string(&mut text);
        (text, end.err().map(|e| PackedFailure::find_in(&e).unwrap().offset))
    }

    #[test]
    fn parts_of_parts_end_where_they_should() {
        let whole = file(b"0123456789");
        assert_eq!(text(whole.clone()), ("0123456789".to_owned(), None));
        let inner = whole.part(2, 6);
        assert_eq!(text(inner.clone()), ("234567".to_owned(), None));
        assert_eq!(text(inner.part(1, 3)), ("345".to_owned(), None));
        assert_eq!(inner.part(1, 3).length().unwrap(), 3);
        // Beyond the outer region, and beyond the file.
        assert_eq!(text(inner.part(4, 4)), ("67".to_owned(), Some(2)));
        assert_eq!(text(whole.part(8, 5)), ("89".to_owned(), Some(2)));
        assert_eq!(whole.part(8, 5).length().unwrap(), 2);
        assert_eq!(text(whole.part(20, 5)), (String::new(), Some(0)));
        // Longer, and further on, than any file.
        assert_eq!(text(whole.part(8, u64::MAX)), ("89".to_owned(), Some(2)));
        assert_eq!(text(whole.part(1 << 63, 5)), (String::new(), Some(0)));
        assert_eq!(text(whole.part(u64::MAX, u64::MAX)), (String::new(), None));
        let mut beyond = whole.clone();
        beyond.seek(SeekFrom::Start(1 << 63)).unwrap();
        assert_eq!(text(beyond), (String::new(), None));
    }
}
