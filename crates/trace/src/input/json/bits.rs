//! Sixty-four bytes of text to words of bits: where quotes and brackets are, compared up to 32 bytes at a time; and what in them makes
//! an event suspect: control characters, unknown escapes, halves of surrogate pairs, bytes that are no UTF-8, and what cannot be
//! between strings.

use std::ops::Range;

/// How many bytes one word of bits marks.
pub(super) const WORD: usize = 64;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Word {
    /// Quotes that open or close a string.
    pub(super) quotes: u64,
    /// `{` and `[` outside of strings.
    pub(super) opens: u64,
    /// `}` and `]` outside of strings.
    pub(super) closes: u64,
    /// How many they are: counting bits is slow where the processor may not be asked to.
    pub(super) opened: u8,
    pub(super) closed: u8,
}

/// What passes from one word to the next.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    pub(super) in_string: bool,
    pub(super) escaped: bool,
    /// Not zero if the words since this was last cleared have anything suspect, or bytes that are not ASCII.
    pub(super) suspect: u64,
    pub(super) has_escapes: bool,
    /// Those that have either, if they are to be noted.
    pub(super) odd: Vec<Odd>,
}

/// What has to be looked at in a word.
#[derive(Debug, Clone, Copy)]
pub(super) struct Odd {
    pub(super) word: usize,
    /// Which bytes are in strings.
    pub(super) inside: u64,
    /// Which bytes have a backslash before them that is not itself escaped.
    pub(super) escaped: u64,
    /// Which are control characters or no ASCII.
    pub(super) odd: u64,
}

/// How wide the machine can compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Default for Level {
    fn default() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") && is_x86_feature_detected!("bmi1") {
            return Level::Avx2;
        }
        Level::Portable
    }
}

impl Level {
    /// Marks blocks of the text. `note`: and notes which words are odd.
    pub(super) fn mark(self, blocks: &[[u8; WORD]], note: bool, state: &mut State, words: &mut Vec<Word>) {
        match self {
            Level::Portable => mark_with(compare_portably, blocks, note, state, words),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this level is chosen only where the processor has these features.
            Level::Avx2 => unsafe { mark_avx2(blocks, note, state, words) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt,bmi1")]
fn mark_avx2(blocks: &[[u8; WORD]], note: bool, state: &mut State, words: &mut Vec<Word>) {
    mark_with(|block| compare_avx2(block), blocks, note, state, words);
}

/// Inlined into each of the functions above, so that all of it is made for their instructions.
#[inline(always)]
fn mark_with(
    compare: impl Fn(&[u8; WORD]) -> ByteMarks,
    blocks: &[[u8; WORD]],
    note: bool,
    state: &mut State,
    words: &mut Vec<Word>,
) {
    words.reserve(blocks.len());
    // Not `extend` with a closure: the iterator's own functions are not made for these instructions, so nothing that is could be inlined there.
    if note {
        for block in blocks {
            words.push(state.word::<true>(words.len(), compare(block)));
        }
    } else {
        for block in blocks {
            words.push(state.word::<false>(words.len(), compare(block)));
        }
    }
}

impl State {
    #[inline(always)]
    fn word<const NOTE: bool>(&mut self, word: usize, found: ByteMarks) -> Word {
        let escaped = self.escapes(found.backslashes);
        let quotes = found.quotes & !escaped;
        // A bit is set from each opening quote up to its closing one: the sum, without carry, of all quotes before it.
        let mut inside = quotes;
        for shift in [1, 2, 4, 8, 16, 32] {
            inside ^= inside << shift;
        }
        if self.in_string {
            inside = !inside;
        }
        self.in_string = inside >> 63 == 1;
        let suspect = (found.odd & inside) | found.never;
        self.suspect |= suspect;
        if NOTE && suspect | escaped != 0 {
            self.odd.push(Odd { word, inside, escaped, odd: found.odd });
        }
        let (opens, closes) = (found.opens & !inside, found.closes & !inside);
        Word { quotes, opens, closes, opened: opens.count_ones() as u8, closed: closes.count_ones() as u8 }
    }

    /// Which bytes have a backslash before them that is not itself escaped.
    #[inline(always)]
    fn escapes(&mut self, backslashes: u64) -> u64 {
        if backslashes == 0 && !self.escaped { 0 } else { self.escapes_of(backslashes) }
    }

    #[cold]
    fn escapes_of(&mut self, mut backslashes: u64) -> u64 {
        self.has_escapes = true;
        let mut escaped = u64::from(self.escaped);
        backslashes &= !escaped;
        self.escaped = false;
        while backslashes != 0 {
            let at = backslashes.trailing_zeros();
            backslashes &= !(1 << at);
            if at == 63 {
                self.escaped = true;
            } else {
                escaped |= 2 << at;
                backslashes &= !(2 << at);
            }
        }
        escaped
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ByteMarks {
    quotes: u64,
    backslashes: u64,
    opens: u64,
    closes: u64,
    /// Control characters, and what is not ASCII.
    odd: u64,
    /// Not zero if there is a byte that may be neither between strings nor in them, or that is not ASCII.
    never: u64,
}

/// `[` and `{` differ in this bit, and so do `]` and `}`; no other byte becomes one of them by setting it.
const CASE: u8 = 0x20;

/// One byte at a time, on machines without the instructions below.
fn compare_portably(block: &[u8; WORD]) -> ByteMarks {
    let mut found = ByteMarks::default();
    for (i, byte) in block.iter().enumerate() {
        found.quotes |= u64::from(*byte == b'"') << i;
        found.backslashes |= u64::from(*byte == b'\\') << i;
        found.opens |= u64::from(byte | CASE == b'{') << i;
        found.closes |= u64::from(byte | CASE == b'}') << i;
        found.odd |= u64::from(*byte < b' ' || !byte.is_ascii()) << i;
        found.never |= u64::from(*byte < b'\t' || !byte.is_ascii());
    }
    found
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn compare_avx2(block: &[u8; WORD]) -> ByteMarks {
    use std::arch::x86_64::{
        _mm256_cmpeq_epi8, _mm256_cmpgt_epi8, _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_or_si256,
        _mm256_set1_epi8,
    };
    let mut found = ByteMarks::default();
    for (part, bytes) in block.as_chunks::<32>().0.iter().enumerate() {
        // SAFETY: `bytes` is 32 bytes long, and the instruction asks for no alignment.
        let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
        let lower = _mm256_or_si256(bytes, _mm256_set1_epi8(CASE as i8));
        let equal = |bytes, byte: u8| {
            let equal = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(byte as i8));
            u64::from(_mm256_movemask_epi8(equal) as u32) << (part * 32)
        };
        found.quotes |= equal(bytes, b'"');
        found.backslashes |= equal(bytes, b'\\');
        found.opens |= equal(lower, b'{');
        found.closes |= equal(lower, b'}');
        // The comparison is of signed numbers, by which what is not ASCII is below the space too.
        let below = _mm256_cmpgt_epi8(_mm256_set1_epi8(0x20), bytes);
        found.odd |= u64::from(_mm256_movemask_epi8(below) as u32) << (part * 32);
        let never = _mm256_cmpgt_epi8(_mm256_set1_epi8(b'\t' as i8), bytes);
        found.never |= u64::from(_mm256_movemask_epi8(never) as u32);
    }
    found
}

/// Adds the offsets of what JSON forbids in a word that begins at a byte. Returns whether the word has bytes that are not ASCII.
pub(super) fn find(text: &[u8], base: usize, odd: Odd, suspects: &mut Vec<usize>) -> bool {
    for at in offsets(odd.escaped & odd.inside, base) {
        // The last byte of the text may be a backslash.
        if at < text.len() && !is_escape(text, at) {
            suspects.push(at);
        }
    }
    suspects.extend(offsets(odd.odd & odd.inside, base).filter(|at| text[*at] < b' '));
    let outside = offsets(odd.odd & !odd.inside, base);
    suspects.extend(outside.filter(|at| text[*at] < b'\t' || !text[*at].is_ascii()));
    offsets(odd.odd, base).any(|at| !text[at].is_ascii())
}

/// The offsets that the bits of a word mean.
fn offsets(mut bits: u64, base: usize) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = (bits != 0).then(|| base + bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        at
    })
}

/// Whether the text after a backslash makes an escape with it, as far as there is text.
fn is_escape(text: &[u8], at: usize) -> bool {
    let unit_at = |at: usize| text.get(at..).and_then(code_unit);
    match text[at] {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => true,
        b'u' => match unit_at(at + 1) {
            None => text.len() < at + 5,
            Some(0xd800..=0xdbff) => {
                let next = text.get(at + 5..at + 7);
                next.is_none() || next == Some(b"\\u") && matches!(unit_at(at + 7), Some(0xdc00..=0xdfff))
            }
            Some(0xdc00..=0xdfff) => {
                let first = at
                    .checked_sub(6)
                    .filter(|first| first.checked_sub(1).is_some_and(|at| text[at..].starts_with(b"\\u")));
                first.is_some_and(|first| matches!(unit_at(first + 1), Some(0xd800..=0xdbff)))
            }
            Some(_) => true,
        },
        _ => false,
    }
}

/// The code unit that the digits after `\u` are.
pub(super) fn code_unit(digits: &[u8]) -> Option<u16> {
    let digits = digits.get(..4)?;
    let value = |digit: &u8| (*digit as char).to_digit(16);
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | value(digit)? as u16))
}

/// Adds the offsets in a range where there is no UTF-8.
pub(super) fn find_invalid_utf8(text: &[u8], range: Range<usize>, suspects: &mut Vec<usize>) {
    // A character may begin before the range, and end after it.
    let start = (range.start.saturating_sub(3)..range.start).find(|at| text[*at] >= 0xc0).unwrap_or(range.start);
    let end = text.len().min(range.end + 3);
    match std::str::from_utf8(&text[start..end]) {
        Ok(_) => {}
        Err(error) if start + error.valid_up_to() >= range.end => {}
        Err(_) => list_invalid_utf8(text, start..end, range, suspects),
    }
}

#[cold]
fn list_invalid_utf8(text: &[u8], all: Range<usize>, range: Range<usize>, suspects: &mut Vec<usize>) {
    let mut at = all.start;
    for chunk in text[all].utf8_chunks() {
        at += chunk.valid().len();
        if !chunk.invalid().is_empty() && range.contains(&at) {
            suspects.push(at);
        }
        at += chunk.invalid().len();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// All that JSON forbids in a text that begins outside of strings, byte by byte.
    pub(in super::super) fn slowly(text: &[u8]) -> Vec<usize> {
        let (mut in_string, mut escaped, mut suspects) = (false, false, Vec::new());
        for (at, byte) in text.iter().enumerate() {
            let is_escaped = std::mem::take(&mut escaped);
            if is_escaped && in_string && !is_escape(text, at) {
                suspects.push(at);
            }
            match byte {
                b'\\' if !is_escaped => escaped = true,
                b'"' if !is_escaped => in_string = !in_string,
                ..b' ' if in_string => suspects.push(at),
                ..b'\t' | 0x80.. if !in_string => suspects.push(at),
                _ => {}
            }
        }
        list_invalid_utf8(text, 0..text.len(), 0..text.len(), &mut suspects);
        suspects.sort_unstable();
        suspects.dedup();
        suspects
    }
}
