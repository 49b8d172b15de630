//! How much text a file may decompress to.
//!
//! A few megabytes can be made that decompress to terabytes, which take time to read, and, if they are events, all memory. So the text
//! has a limit in bytes, and unless the user has set it, a limit of its ratio to the file: recorded traces compress to a tenth or a
//! thirtieth, hardly any to less than a hundredth; a bomb to a thousandth, which is gzip's best, or with zstd to far less. All texts of a
//! file count as one. Bytes that are decompressed only to be decompressed again, an archive in an archive say, are not text; they have
//! limits of their own, or empty archives nested in each other would never end.

use std::error::Error;
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::packed::BLOCK;
use crate::error;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub text: u64,
    /// Whether any ratio of text to file is allowed.
    pub any_ratio: bool,
}

/// No store can number the events of more text: four thousand million, of 256 bytes each.
const MAX_TEXT: u64 = 1 << 40;

/// Any file may become this many bytes of text...
const ANY_RATIO: u64 = 1 << 30;

/// ... and after that each byte of it at most this many.
const RATIO: u64 = 512;

/// How many bytes that are not text yet there may be: so many for each byte of text, and so many besides.
const LAYERS: u64 = 4;
const BESIDE: u64 = 16 << 20;

impl Default for Limits {
    fn default() -> Self {
        Limits { text: MAX_TEXT, any_ratio: false }
    }
}

impl Limits {
    /// This many bytes of text, at any ratio.
    pub fn of_text(bytes: u64) -> Self {
        Limits { text: bytes, any_ratio: true }
    }
}

/// A limit was reached. Travels inside an [`io::Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitReached {
    /// How many bytes of text had been read, and from how many of the file.
    pub text: u64,
    pub taken: u64,
    pub limit: Limit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Text,
    Ratio,
}

impl LimitReached {
    pub fn find_in(error: &io::Error) -> Option<&LimitReached> {
        error.get_ref()?.downcast_ref()
    }
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LimitReached { text, taken, limit } = self;
        match limit {
            Limit::Text => write!(f, "there are more than {text} bytes of text"),
            Limit::Ratio => write!(
                f,
                "{taken} bytes of the file became {text} bytes of text, as in a decompression bomb; no recording compresses that well"
            ),
        }
    }
}

impl Error for LimitReached {}

/// The library's error for a failure to read the named file.
pub fn failure(name: &str, source: io::Error) -> error::Error {
    let name = name.to_owned();
    match LimitReached::find_in(&source) {
        Some(reached) => error::Error::TooMuchText { name, what: reached.to_string() },
        None => error::Error::Read { name, source },
    }
}

/// The limits of a file, and how much of them all its texts together have used.
#[derive(Debug, Clone)]
pub(in crate::input) struct Budget {
    limits: Limits,
    /// How many bytes of the file have been read.
    taken: Arc<AtomicU64>,
    text: Arc<AtomicU64>,
    /// How many bytes that are decompressed again, all layers together.
    layers: Arc<AtomicU64>,
}

impl Budget {
    /// `taken` is counted by the reader of the file.
    pub(in crate::input) fn new(limits: Limits, taken: Arc<AtomicU64>) -> Self {
        Budget { limits, taken, text: Arc::default(), layers: Arc::default() }
    }

    /// Charges bytes of text that something else reads. The error is a [`LimitReached`].
    pub(in crate::input) fn charge(&self, bytes: u64) -> io::Result<()> {
        let before = self.text.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= self.limits.text { Ok(()) } else { Err(self.reached(Limit::Text)) }
    }

    /// The budget of bytes that are not text yet. A text may be in several layers, beside other files.
    pub(in crate::input) fn of_layers(&self) -> Self {
        let limits = Limits { text: self.limits.text.saturating_mul(LAYERS).saturating_add(BESIDE), ..self.limits };
        Budget { limits, text: Arc::clone(&self.layers), ..self.clone() }
    }

    fn reached(&self, limit: Limit) -> io::Error {
        let text = self.text.load(Ordering::Relaxed).min(self.limits.text);
        let reached = LimitReached { text, taken: self.taken.load(Ordering::Relaxed), limit };
        io::Error::new(io::ErrorKind::QuotaExceeded, reached)
    }
}

/// A text that ends with an error where a limit is reached.
pub(in crate::input) struct Limited<R> {
    text: R,
    budget: Budget,
}

impl<R: Read> Limited<R> {
    pub(in crate::input) fn new(text: R, budget: Budget) -> Self {
        Limited { text, budget }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let Budget { limits, taken, text: count, .. } = &self.budget;
        let text = count.load(Ordering::Relaxed);
        // A part of the block that was read last counts, too.
        if !limits.any_ratio && text > ANY_RATIO && text / (taken.load(Ordering::Relaxed) + BLOCK as u64) > RATIO {
            return Err(self.budget.reached(Limit::Ratio));
        }
        let left = limits.text.saturating_sub(text);
        if left == 0 && !buf.is_empty() {
            // Only another read says whether the text is longer.
            return if self.text.read(&mut [0])? == 0 { Ok(0) } else { Err(self.budget.reached(Limit::Text)) };
        }
        let wanted = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        let n = self.text.read(&mut buf[..wanted])?;
        count.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This many zeros, of which each takes a part of a byte of the file.
    struct Zeros {
        left: u64,
        ratio: u64,
        taken: Arc<AtomicU64>,
    }

    impl Read for Zeros {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let n = usize::try_from(self.left).unwrap().min(buf.len());
            self.left -= n as u64;
            self.taken.fetch_add(n as u64 / self.ratio, Ordering::Relaxed);
            Ok(n)
        }
    }

    fn read(bytes: u64, ratio: u64, limits: Limits) -> (u64, Option<Limit>) {
        read_of(&Budget::new(limits, Arc::default()), bytes, ratio)
    }

    /// How many of these bytes are read, and the limit that ends them.
    fn read_of(budget: &Budget, bytes: u64, ratio: u64) -> (u64, Option<Limit>) {
        let zeros = Zeros { left: bytes, ratio, taken: Arc::clone(&budget.taken) };
        let mut limited = Limited::new(zeros, budget.clone());
        // The usual length of a chunk; the bytes themselves are never read.
        let (mut buf, mut given) = (vec![0; 512 * 1024], 0);
        loop {
            match limited.read(&mut buf) {
                Ok(0) => return (given, None),
                Ok(n) => given += n as u64,
                Err(e) => return (given, Some(LimitReached::find_in(&e).unwrap().limit)),
            }
        }
    }

    #[test]
    fn a_text_may_be_as_long_as_the_limit() {
        for limit in [0, 1000] {
            assert_eq!(read(limit, 1, Limits::of_text(limit)), (limit, None));
            assert_eq!(read(limit + 1, 1, Limits::of_text(limit)), (limit, Some(Limit::Text)));
        }
    }

    /// Recorded traces compress to a hundredth at most; gzip's limit is 1032, and a small file may have any ratio.
    #[test]
    fn a_text_of_next_to_nothing_is_refused() {
        let limits = Limits::default();
        assert_eq!(read(3 * ANY_RATIO, 400, limits), (3 * ANY_RATIO, None));
        assert_eq!(read(ANY_RATIO, 1_000_000, limits), (ANY_RATIO, None));
        let (given, limit) = read(3 * ANY_RATIO, 1032, limits);
        assert!(given < ANY_RATIO + (1 << 20) && limit == Some(Limit::Ratio), "{given}");
        assert_eq!(read(3 * ANY_RATIO, 1032, Limits::of_text(4 * ANY_RATIO)), (3 * ANY_RATIO, None));
    }

    #[test]
    fn all_texts_are_one_text() {
        let budget = Budget::new(Limits::default(), Arc::default());
        let thirds = [(); 3].map(|()| read_of(&budget, ANY_RATIO / 2, 1032).1);
        assert_eq!(thirds, [None, None, Some(Limit::Ratio)]);
        let budget = Budget::new(Limits::of_text(100), Arc::default());
        assert_eq!(read_of(&budget, 60, 1), (60, None));
        assert_eq!(read_of(&budget, 60, 1), (40, Some(Limit::Text)));
    }

    /// Bytes that are decompressed again count apart, all together, and may be more than the text.
    #[test]
    fn layers_have_limits_too() {
        let budget = Budget::new(Limits::of_text(100), Arc::default());
        assert_eq!(read_of(&budget.of_layers(), BESIDE, 1), (BESIDE, None));
        assert_eq!(read_of(&budget.of_layers(), BESIDE, 1), (4 * 100, Some(Limit::Text)));
        assert_eq!(read_of(&budget, 100, 1), (100, None));
        let budget = Budget::new(Limits::default(), Arc::default());
        assert_eq!(read_of(&budget.of_layers(), 2 * ANY_RATIO, 1032).1, Some(Limit::Ratio));
    }
}
