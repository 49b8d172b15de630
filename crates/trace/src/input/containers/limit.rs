//! How much text a file may decompress to.
//!
//! A few megabytes can be made that decompress to terabytes, which take time to read, and, if they are events, all memory. So the
//! text has a limit in bytes, and unless the user has set it, a limit of its ratio to the file: recorded traces compress to a tenth
//! or a thirtieth, hardly any to less than a hundredth; a decompression bomb to a thousandth, which is gzip's best, or with zstd to
//! far less. The ratio is checked for each stretch of the text, so that an honest beginning hides nothing, and all texts of a file
//! count as one, so that dividing them is no use. Bytes that are decompressed only to be decompressed again, an archive in an
//! archive say, are not text; they have limits of their own, or layers of nothing in nothing could go on for ever.

use std::error::Error;
use std::fmt;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::packed::BLOCK;
use crate::error;

/// How much text a file may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of text in total.
    pub text: u64,
    /// Whether any ratio of text to file is allowed.
    pub any_ratio: bool,
}

/// No store can number the events of more text: four thousand million, of 256 bytes each.
const MAX_TEXT: u64 = 1 << 40;

/// In each stretch of this many bytes of text...
const STRETCH: u64 = 1 << 30;

/// ... a byte of the file may become this many bytes of text.
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
    /// How many bytes of text had been read.
    pub text: u64,
    /// From how many bytes of the file.
    pub taken: u64,
    /// Which limit.
    pub limit: Limit,
}

/// The limits of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Its length.
    Text,
    /// Its ratio to the file.
    Ratio,
}

impl LimitReached {
    /// The limit inside an error that reading a trace returned, if it is one.
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

impl From<LimitReached> for io::Error {
    fn from(reached: LimitReached) -> Self {
        io::Error::new(io::ErrorKind::QuotaExceeded, reached)
    }
}

/// The bytes of text so far, and where the ratio is counted from.
#[derive(Debug, Default)]
struct Count {
    text: Arc<AtomicU64>,
    /// The amounts at the start of the stretch.
    stretch: Mutex<Amounts>,
    /// The amounts at the start of the layer that is decompressed now.
    layer: Mutex<Amounts>,
}

/// Bytes of text, and bytes taken from the file.
#[derive(Debug, Clone, Copy, Default)]
struct Amounts {
    text: u64,
    taken: u64,
}

impl Amounts {
    /// How many bytes of text one byte of the file has become since then. A part of the block read before counts, too.
    fn ratio_since(self, before: Amounts) -> u64 {
        (self.text - before.text) / (self.taken - before.taken + BLOCK as u64)
    }
}

impl Count {
    fn now(&self, taken: &AtomicU64) -> Amounts {
        Amounts { text: self.text.load(Ordering::Relaxed), taken: taken.load(Ordering::Relaxed) }
    }

    /// How many bytes of text a byte of the file became in a stretch, if one is over.
    fn ratio_of_stretch(&self, taken: &AtomicU64) -> Option<u64> {
        let (now, mut stretch) = (self.now(taken), lock(&self.stretch));
        if now.text - stretch.text < STRETCH {
            return None;
        }
        Some(now.ratio_since(std::mem::replace(&mut *stretch, now)))
    }

    /// The same bytes of text, counted against another file.
    fn of_other(&self, taken: &AtomicU64) -> Arc<Self> {
        let now = self.now(taken);
        Arc::new(Count { text: Arc::clone(&self.text), stretch: Mutex::new(now), layer: Mutex::new(now) })
    }
}

/// Nothing panics while it holds such a lock.
fn lock(amounts: &Mutex<Amounts>) -> MutexGuard<'_, Amounts> {
    amounts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The limits of a file, and how much of them all its texts together have used.
#[derive(Debug, Clone)]
pub(in crate::input) struct Budget {
    limits: Limits,
    /// How many bytes of text a byte of the file may become.
    ratio: u64,
    /// How many bytes of the file have been read.
    taken: Arc<AtomicU64>,
    /// The text.
    text: Arc<Count>,
    /// Bytes that are decompressed only to be decompressed again, all layers together.
    layers: Arc<Count>,
}

impl Budget {
    /// `taken` is counted by the reader of the file.
    pub(in crate::input) fn new(limits: Limits, taken: Arc<AtomicU64>) -> Self {
        Budget { limits, ratio: RATIO, taken, text: Arc::default(), layers: Arc::default() }
    }

    /// Charges bytes of text that something else reads.
    ///
    /// # Errors
    /// [`LimitReached`] if there are too many.
    pub(in crate::input) fn charge(&self, bytes: u64) -> io::Result<()> {
        let before = self.text.text.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= self.limits.text {
            return Ok(());
        }
        let (text, taken) = (self.limits.text, self.taken.load(Ordering::Relaxed));
        Err(LimitReached { text, taken, limit: Limit::Text }.into())
    }

    /// The budget of bytes that are not text yet: archives in archives, and files that are compressed more than once. A text may be in
    /// several of these, beside other files.
    pub(in crate::input) fn of_layers(&self) -> Self {
        *lock(&self.layers.layer) = self.layers.now(&self.taken);
        let limits = Limits { text: self.limits.text.saturating_mul(LAYERS).saturating_add(BESIDE), ..self.limits };
        Budget { limits, text: Arc::clone(&self.layers), ..self.clone() }
    }

    /// The budget of a file to which the last layer may have been copied. Its bytes are counted by `taken`, and each was decompressed
    /// from some bytes of the outer file before.
    pub(in crate::input) fn of_file(&self, taken: Arc<AtomicU64>) -> Self {
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
pub(in crate::input) struct Limited<R> {
    text: R,
    budget: Budget,
}

impl<R: Read> Limited<R> {
    /// A text that is charged to a budget.
    pub(in crate::input) fn new(text: R, budget: Budget) -> Self {
        Limited { text, budget }
    }

    fn reached(&self, limit: Limit) -> io::Error {
        let Amounts { text, taken } = self.budget.text.now(&self.budget.taken);
        LimitReached { text, taken, limit }.into()
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let Budget { limits, ratio, taken, text: count, .. } = &self.budget;
        if !limits.any_ratio && count.ratio_of_stretch(taken).is_some_and(|of_stretch| of_stretch > *ratio) {
            return Err(self.reached(Limit::Ratio));
        }
        let left = limits.text.saturating_sub(count.text.load(Ordering::Relaxed));
        if left == 0 && !buf.is_empty() {
            // Only another read says whether the text is longer.
            return match self.text.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(self.reached(Limit::Text)),
            };
        }
        let wanted = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        let n = self.text.read(&mut buf[..wanted])?;
        self.budget.text.text.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This many zeros, of which each takes a part of a byte of the file.
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

    /// How many of these bytes are read, and the limit that ends them.
    fn read_of(budget: &Budget, bytes: u64, ratio: u64) -> (u64, Option<Limit>) {
        let taken = Arc::clone(&budget.taken);
        let zeros = Zeros { left: bytes, given: 0, ratio, before: taken.load(Ordering::Relaxed), taken };
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
        assert_eq!(read(1000, 1, Limits::of_text(1000)), (1000, None));
        assert_eq!(read(1001, 1, Limits::of_text(1000)), (1000, Some(Limit::Text)));
        assert_eq!(read(0, 1, Limits::of_text(0)), (0, None));
        assert_eq!(read(1, 1, Limits::of_text(0)), (0, Some(Limit::Text)));
    }

    /// Recorded traces compress to a hundredth at most; gzip's limit is 1032, and a small file may have any ratio.
    #[test]
    fn a_text_of_next_to_nothing_is_refused() {
        let limits = Limits::default();
        assert_eq!(read(3 * STRETCH, 100, limits), (3 * STRETCH, None));
        assert_eq!(read(3 * STRETCH, 400, limits), (3 * STRETCH, None));
        assert_eq!(read(STRETCH - 1, 1_000_000, limits), (STRETCH - 1, None));
        assert_eq!(read(3 * STRETCH, 1032, limits), (STRETCH, Some(Limit::Ratio)));
        assert_eq!(read(3 * STRETCH, 1032, Limits::of_text(4 * STRETCH)), (3 * STRETCH, None));
    }

    /// However many files of an archive have it.
    #[test]
    fn all_texts_are_one_text() {
        let budget = Budget::new(Limits::default(), Arc::default());
        let half = STRETCH / 2;
        assert_eq!(read_of(&budget, half, 1032), (half, None));
        assert_eq!(read_of(&budget, half - 1, 1032), (half - 1, None));
        // It is noticed at the end of a stretch.
        assert_eq!(read_of(&budget, half, 1032), (512 * 1024, Some(Limit::Ratio)));
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
        assert_eq!(read_of(&budget.of_layers(), 2 * STRETCH, 1032), (STRETCH, Some(Limit::Ratio)));
    }

    /// Decompressing a file to a copy has made it 64 times as large: a factor of eight is left.
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
