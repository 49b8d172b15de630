//! How much text a trace may become.
//!
//! A few megabytes can be made that decompress to terabytes. What is read takes memory only as far as it has events, but reading it takes
//! time, and a trace of events that no machine can hold takes all memory that there is. So there is a limit to the text, and unless a
//! person has set one, a limit to how much of it a piece of the file may become: what programs record shrinks to a
//! tenth or a thirtieth, and hardly any to less than a hundredth; what was made to harm shrinks to a thousandth, which is the
//! least that gzip can do, or to far less with zstd. Stretches are looked at one by one, so that an honest beginning is no
//! cover.

use std::error::Error;
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::packed::BLOCK;

/// How much text there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of text in all.
    pub text: u64,
    /// Whether a stretch of the text may come of next to nothing.
    pub any_ratio: bool,
}

/// More text than this no store can number the events of: four thousand million, of 256 bytes each.
const MOST: u64 = 1 << 40;

/// So much text...
const STRETCH: u64 = 1 << 30;

/// ... has to come of the 512th part of that at least.
const RATIO: u64 = 512;

impl Default for Limits {
    fn default() -> Self {
        Limits { text: MOST, any_ratio: false }
    }
}

impl Limits {
    /// So many bytes of text, whatever they come of.
    pub fn of_text(bytes: u64) -> Self {
        Limits { text: bytes, any_ratio: true }
    }
}

/// A limit was reached. Travels inside an [`io::Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitReached {
    /// How many bytes of text had been read.
    pub text: u64,
    /// Of how many bytes of the file.
    pub taken: u64,
    /// What was wrong with that.
    pub limit: Limit,
}

/// The ways in which a text is too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// It is longer than it may be.
    Text,
    /// It comes of next to nothing.
    Ratio,
}

impl LimitReached {
    /// The limit inside an error that reading a trace returned, if it is one.
    pub fn of(error: &io::Error) -> Option<&LimitReached> {
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
                "{taken} bytes of the file have become {text} bytes of text, as in a file that is made to fill a machine; no recording shrinks so much"
            ),
        }
    }
}

impl Error for LimitReached {}

impl From<LimitReached> for io::Error {
    fn from(reached: LimitReached) -> Self {
        io::Error::new(io::ErrorKind::QuotaExceeded, reached)
    }
}

/// The limits of a file, and what is used up of them by all the texts in it.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    limits: Limits,
    /// How many bytes of the file have been taken.
    taken: Arc<AtomicU64>,
    /// How many bytes of text they have become.
    given: Arc<AtomicU64>,
}

impl Budget {
    /// `taken` is counted by what reads the file.
    pub(super) fn new(limits: Limits, taken: Arc<AtomicU64>) -> Self {
        Budget { limits, taken, given: Arc::default() }
    }

    /// The same limits, of which nothing is used up.
    pub(super) fn apart(&self) -> Self {
        Budget::new(self.limits, Arc::clone(&self.taken))
    }

    /// The same, of a file to which the bytes were copied: that is where they are taken from.
    pub(super) fn of_copy(&self, taken: Arc<AtomicU64>) -> Self {
        Budget { taken, ..self.clone() }
    }
}

/// A text that ends with an error where a limit is reached.
pub(super) struct Limited<R> {
    text: R,
    budget: Budget,
    /// How many bytes of this text have been read.
    given: u64,
    /// Both at the beginning of the stretch.
    stretch: (u64, u64),
}

impl<R: Read> Limited<R> {
    /// A text that is paid for by a budget.
    pub(super) fn new(text: R, budget: Budget) -> Self {
        let taken = budget.taken.load(Ordering::Relaxed);
        Limited { text, budget, given: 0, stretch: (0, taken) }
    }

    fn reached(&self, limit: Limit) -> io::Error {
        let (given, taken) = (&self.budget.given, &self.budget.taken);
        LimitReached { text: given.load(Ordering::Relaxed), taken: taken.load(Ordering::Relaxed), limit }.into()
    }

    /// Looks at a stretch when it is over.
    fn look(&mut self) -> io::Result<()> {
        let taken = self.budget.taken.load(Ordering::Relaxed);
        let (given_before, taken_before) = std::mem::replace(&mut self.stretch, (self.given, taken));
        // A piece that was taken before the stretch may have been for a part of it.
        let (given, taken) = (self.given - given_before, taken - taken_before + BLOCK as u64);
        if given / RATIO > taken { Err(self.reached(Limit::Ratio)) } else { Ok(()) }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if !self.budget.limits.any_ratio && self.given - self.stretch.0 >= STRETCH {
            self.look()?;
        }
        let left = self.budget.limits.text.saturating_sub(self.budget.given.load(Ordering::Relaxed));
        if left == 0 && !buf.is_empty() {
            // Whether the text is longer than that is only known now.
            return match self.text.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(self.reached(Limit::Text)),
            };
        }
        let wanted = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        let n = self.text.read(&mut buf[..wanted])?;
        self.given += n as u64;
        self.budget.given.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many zeros, of which each takes a part of a byte.
    struct Zeros {
        left: u64,
        given: u64,
        ratio: u64,
        taken: Arc<AtomicU64>,
    }

    impl Read for Zeros {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let n = usize::try_from(self.left).unwrap().min(buf.len());
            self.left -= n as u64;
            self.given += n as u64;
            self.taken.store(self.given / self.ratio, Ordering::Relaxed);
            Ok(n)
        }
    }

    /// How much of so many bytes is read, and what stops it.
    fn read(bytes: u64, ratio: u64, limits: Limits) -> (u64, Option<Limit>) {
        let taken = Arc::new(AtomicU64::new(0));
        let zeros = Zeros { left: bytes, given: 0, ratio, taken: Arc::clone(&taken) };
        let mut limited = Limited::new(zeros, Budget::new(limits, taken));
        // As long as a chunk is usually; the bytes themselves are never touched.
        let (mut buf, mut given) = (vec![0; 512 * 1024], 0);
        loop {
            match limited.read(&mut buf) {
                Ok(0) => return (given, None),
                Ok(n) => given += n as u64,
                Err(e) => return (given, Some(LimitReached::of(&e).unwrap().limit)),
            }
        }
    }

    #[test]
    fn a_text_may_be_as_long_as_the_limit() {
        assert_eq!(read(1000, 1, Limits::of_text(1000)), (1000, None));
        assert_eq!(read(1001, 1, Limits::of_text(1000)), (1000, Some(Limit::Text)));
        assert_eq!(read(0, 1, Limits::of_text(0)), (0, None));
        assert_eq!(read(1, 1, Limits::of_text(0)), (0, Some(Limit::Text)));
    }

    /// What honest programs write shrinks to a hundredth at most; gzip's worst is 1032, and in small files anything may be.
    #[test]
    fn a_text_of_next_to_nothing_is_refused() {
        let limits = Limits::default();
        assert_eq!(read(3 * STRETCH, 100, limits), (3 * STRETCH, None));
        assert_eq!(read(3 * STRETCH, 400, limits), (3 * STRETCH, None));
        assert_eq!(read(STRETCH - 1, 1_000_000, limits), (STRETCH - 1, None));
        assert_eq!(read(3 * STRETCH, 1032, limits), (STRETCH, Some(Limit::Ratio)));
        assert_eq!(read(3 * STRETCH, 1032, Limits::of_text(4 * STRETCH)), (3 * STRETCH, None));
    }
}
