//! How much text a trace may become.
//!
//! A few megabytes can be made that decompress to terabytes. What is read takes memory only as far as it has events, but reading it takes
//! time, and a trace of events that no machine can hold takes all memory that there is. So there is a limit to the text, and unless a
//! person has set one, a limit to how much of it a piece of the file may become: what programs record shrinks to a
//! tenth or a thirtieth, and hardly any to less than a hundredth; what was made to harm shrinks to a thousandth, which is the
//! least that gzip can do, or to far less with zstd. Stretches are looked at one by one, so that an honest beginning is no
//! cover; and all texts in a file count as one, so that it is no use to divide them. What is unpacked only to be unpacked further, an
//! archive in an archive say, is no text and has a limit of its own, or layers of nothing in nothing could go on for ever.

use std::error::Error;
use std::fmt;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// Of text that was packed several times over there may be so much that is no text yet for each byte that is, and so much beside it.
const LAYERS: u64 = 4;
const BESIDE: u64 = 16 << 20;

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

/// Bytes of text, and what they came of.
#[derive(Debug, Default)]
struct Count {
    /// How many bytes of text there have been.
    given: Arc<AtomicU64>,
    /// How many there had been when the stretch began, and how many bytes of the file had been taken.
    stretch: Mutex<Both>,
    /// The same when the layer began that is unpacked now.
    layer: Mutex<Both>,
}

/// Bytes of text, and bytes of the file.
#[derive(Debug, Clone, Copy, Default)]
struct Both {
    given: u64,
    taken: u64,
}

impl Both {
    /// How many bytes of text one of the file has become since then. A piece that was taken before may have been for a part of it.
    fn ratio_since(self, before: Both) -> u64 {
        (self.given - before.given) / (self.taken - before.taken + BLOCK as u64)
    }
}

impl Count {
    fn now(&self, taken: &AtomicU64) -> Both {
        Both { given: self.given.load(Ordering::Relaxed), taken: taken.load(Ordering::Relaxed) }
    }

    /// Of a stretch that is over, how much text came of a byte of the file.
    fn ratio_of_stretch(&self, taken: &AtomicU64) -> Option<u64> {
        let (now, mut stretch) = (self.now(taken), lock(&self.stretch));
        if now.given - stretch.given < STRETCH {
            return None;
        }
        Some(now.ratio_since(std::mem::replace(&mut *stretch, now)))
    }

    /// The same bytes of text, and others of a file.
    fn of_other(&self, taken: &AtomicU64) -> Arc<Self> {
        let now = self.now(taken);
        Arc::new(Count { given: Arc::clone(&self.given), stretch: Mutex::new(now), layer: Mutex::new(now) })
    }
}

/// Nothing panics while it holds one of these.
fn lock(both: &Mutex<Both>) -> MutexGuard<'_, Both> {
    both.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The limits of a file, and what is used up of them by all the texts in it together.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    limits: Limits,
    /// As many bytes of text may come of a byte of the file.
    ratio: u64,
    /// How many bytes of the file have been taken.
    taken: Arc<AtomicU64>,
    /// The text that is read.
    text: Arc<Count>,
    /// What is unpacked only to be unpacked further, all layers together.
    layers: Arc<Count>,
}

impl Budget {
    /// `taken` is counted by what reads the file.
    pub(super) fn new(limits: Limits, taken: Arc<AtomicU64>) -> Self {
        Budget { limits, ratio: RATIO, taken, text: Arc::default(), layers: Arc::default() }
    }

    /// That of bytes which are no text yet: archives within archives, and what is compressed more than once. One text may be in several
    /// of these, and beside other files.
    pub(super) fn of_layers(&self) -> Self {
        *lock(&self.layers.layer) = self.layers.now(&self.taken);
        let limits = Limits { text: self.limits.text.saturating_mul(LAYERS).saturating_add(BESIDE), ..self.limits };
        Budget { limits, text: Arc::clone(&self.layers), ..self.clone() }
    }

    /// The same, of a file which may be one to which the last layer was copied: that is where the bytes are taken from then, and each has
    /// become some already.
    pub(super) fn of_file(&self, taken: Arc<AtomicU64>) -> Self {
        if Arc::ptr_eq(&taken, &self.taken) {
            return self.clone();
        }
        let before = *lock(&self.layers.layer);
        let ratio = self.ratio / self.layers.now(&self.taken).ratio_since(before).max(1);
        let (text, layers) = (self.text.of_other(&taken), self.layers.of_other(&taken));
        Budget { limits: self.limits, ratio, taken, text, layers }
    }
}

/// A text that ends with an error where a limit is reached.
pub(super) struct Limited<R> {
    text: R,
    budget: Budget,
}

impl<R: Read> Limited<R> {
    /// A text that is paid for by a budget.
    pub(super) fn new(text: R, budget: Budget) -> Self {
        Limited { text, budget }
    }

    fn reached(&self, limit: Limit) -> io::Error {
        let Both { given, taken } = self.budget.text.now(&self.budget.taken);
        LimitReached { text: given, taken, limit }.into()
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let Budget { limits, ratio, taken, text: count, .. } = &self.budget;
        if !limits.any_ratio && count.ratio_of_stretch(taken).is_some_and(|of_stretch| of_stretch > *ratio) {
            return Err(self.reached(Limit::Ratio));
        }
        let left = limits.text.saturating_sub(count.given.load(Ordering::Relaxed));
        if left == 0 && !buf.is_empty() {
            // Whether the text is longer than that is only known now.
            return match self.text.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(self.reached(Limit::Text)),
            };
        }
        let wanted = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        let n = self.text.read(&mut buf[..wanted])?;
        self.budget.text.given.fetch_add(n as u64, Ordering::Relaxed);
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
        before: u64,
        taken: Arc<AtomicU64>,
    }

    impl Read for Zeros {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let n = usize::try_from(self.left).unwrap().min(buf.len());
            self.left -= n as u64;
            self.given += n as u64;
            self.taken.store(self.before + self.given / self.ratio, Ordering::Relaxed);
            Ok(n)
        }
    }

    fn read(bytes: u64, ratio: u64, limits: Limits) -> (u64, Option<Limit>) {
        read_of(&Budget::new(limits, Arc::default()), bytes, ratio)
    }

    /// How much of so many bytes is read, and what stops it.
    fn read_of(budget: &Budget, bytes: u64, ratio: u64) -> (u64, Option<Limit>) {
        let taken = Arc::clone(&budget.taken);
        let zeros = Zeros { left: bytes, given: 0, ratio, before: taken.load(Ordering::Relaxed), taken };
        let mut limited = Limited::new(zeros, budget.clone());
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

    /// However many files of an archive the text is in.
    #[test]
    fn all_texts_are_one_text() {
        let budget = Budget::new(Limits::default(), Arc::default());
        let half = STRETCH / 2;
        assert_eq!(read_of(&budget, half, 1032), (half, None));
        assert_eq!(read_of(&budget, half - 1, 1032), (half - 1, None));
        // It is found once a stretch is over.
        assert_eq!(read_of(&budget, half, 1032), (512 * 1024, Some(Limit::Ratio)));
        let budget = Budget::new(Limits::of_text(100), Arc::default());
        assert_eq!(read_of(&budget, 60, 1), (60, None));
        assert_eq!(read_of(&budget, 60, 1), (40, Some(Limit::Text)));
    }

    /// What is unpacked to be unpacked further counts apart, all of it together, and may be more than the text.
    #[test]
    fn layers_have_limits_too() {
        let budget = Budget::new(Limits::of_text(100), Arc::default());
        assert_eq!(read_of(&budget.of_layers(), BESIDE, 1), (BESIDE, None));
        assert_eq!(read_of(&budget.of_layers(), BESIDE, 1), (4 * 100, Some(Limit::Text)));
        assert_eq!(read_of(&budget, 100, 1), (100, None));
        let budget = Budget::new(Limits::default(), Arc::default());
        assert_eq!(read_of(&budget.of_layers(), 2 * STRETCH, 1032), (STRETCH, Some(Limit::Ratio)));
    }

    /// A file that was copied and unpacked has become 64 times as large by that: eightfold is all that is left.
    #[test]
    fn layers_multiply() {
        for (ratio, stops) in [(7, None), (10, Some(Limit::Ratio))] {
            let budget = Budget::new(Limits::default(), Arc::default());
            assert_eq!(read_of(&budget.of_layers(), STRETCH / 2, 64), (STRETCH / 2, None));
            let copy = budget.of_file(Arc::default());
            assert_eq!(read_of(&copy, 2 * STRETCH, ratio).1, stops, "{ratio}");
        }
    }
}
