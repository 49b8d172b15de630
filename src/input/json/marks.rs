//! Where quotes and brackets are in a stretch of text, as bits: what both cutting and parsing look for.
//!
//! Sixteen bytes are compared at a time, so that the text is gone through at memory speed, once, and everything after jumps
//! from mark to mark. A stretch is marked piece by piece, only as far as somebody looks: where a stray quote has turned
//! strings inside out, marking starts anew at the next event and has little to do again.

/// Bytes that one word of bits stands for.
const WORD: usize = 64;

/// How far marking goes ahead of what is asked for.
const AHEAD: usize = 64 * WORD;

/// The bits of 64 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Word {
    /// Quotes that open or close a string.
    quotes: u64,
    /// `{`, `}`, `[`, `]` outside of strings.
    brackets: u64,
}

/// The marks of a buffer, from some byte on.
#[derive(Debug, Default)]
pub(super) struct Marks {
    origin: usize,
    words: Vec<Word>,
    in_string: bool,
    escaped: bool,
}

impl Marks {
    /// Starts anew at a byte that is in no string.
    pub(super) fn restart(&mut self, origin: usize) {
        *self = Marks { origin, words: std::mem::take(&mut self.words), in_string: false, escaped: false };
        self.words.clear();
    }

    /// The first opening or closing quote at or after a byte of `text`. `None`: not in what there is of the text.
    pub(super) fn quote(&mut self, text: &[u8], from: usize) -> Option<usize> {
        self.next(text, from, |word| word.quotes)
    }

    /// The first bracket outside of strings at or after a byte of `text`.
    pub(super) fn bracket(&mut self, text: &[u8], from: usize) -> Option<usize> {
        self.next(text, from, |word| word.brackets)
    }

    #[inline]
    fn next(&mut self, text: &[u8], from: usize, bits: impl Fn(&Word) -> u64) -> Option<usize> {
        let relative = from.checked_sub(self.origin)?;
        let mut at = relative / WORD;
        let mut mask = u64::MAX << (relative % WORD);
        loop {
            let Some(word) = self.words.get(at) else {
                if !self.mark_more(text) {
                    return None;
                }
                continue;
            };
            let found = bits(word) & mask;
            if found != 0 {
                return Some(self.origin + at * WORD + found.trailing_zeros() as usize);
            }
            mask = u64::MAX;
            at += 1;
        }
    }

    /// Marks the next piece. `false` at the end of the text. Text must not grow between calls without a restart, because its
    /// last word may be marked in part.
    #[cold]
    fn mark_more(&mut self, text: &[u8]) -> bool {
        let from = self.origin + self.words.len() * WORD;
        let Some(rest) = text.get(from..).filter(|rest| !rest.is_empty()) else { return false };
        let piece = &rest[..rest.len().min(AHEAD)];
        let mut blocks = piece.chunks_exact(WORD);
        for block in &mut blocks {
            // `chunks_exact` gives nothing but blocks of this size.
            if let Ok(block) = block.try_into() {
                self.mark(compare(block));
            }
        }
        let tail = blocks.remainder();
        if !tail.is_empty() {
            let mut block = [b' '; WORD];
            block[..tail.len()].copy_from_slice(tail);
            self.mark(compare(&block));
        }
        true
    }

    fn mark(&mut self, found: Found) {
        let quotes = found.quotes & !self.escapes(found.backslashes);
        // A bit is set from each opening quote up to its closing one: the sum, without carry, of all quotes before it.
        let mut inside = quotes;
        for shift in [1, 2, 4, 8, 16, 32] {
            inside ^= inside << shift;
        }
        if self.in_string {
            inside = !inside;
        }
        self.in_string = inside >> 63 == 1;
        self.words.push(Word { quotes, brackets: found.brackets & !inside });
    }

    /// Which bytes have a backslash before them that is not itself escaped.
    #[inline]
    fn escapes(&mut self, mut backslashes: u64) -> u64 {
        if backslashes == 0 && !self.escaped {
            return 0;
        }
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

/// What comparing 64 bytes finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    quotes: u64,
    backslashes: u64,
    brackets: u64,
}

/// `[` and `{` differ in this bit, and so do `]` and `}`; no other byte becomes one of them by setting it.
const CASE: u8 = 0x20;

/// One byte at a time, on machines without the instructions below.
#[cfg_attr(all(target_arch = "x86_64", not(test)), expect(dead_code, reason = "what every other machine uses"))]
fn compare_portably(block: &[u8; WORD]) -> Found {
    let mut found = Found { quotes: 0, backslashes: 0, brackets: 0 };
    for (i, byte) in block.iter().enumerate() {
        found.quotes |= u64::from(*byte == b'"') << i;
        found.backslashes |= u64::from(*byte == b'\\') << i;
        found.brackets |= u64::from(matches!(byte | CASE, b'{' | b'}')) << i;
    }
    found
}

#[cfg(not(target_arch = "x86_64"))]
use compare_portably as compare;

#[cfg(target_arch = "x86_64")]
#[inline]
fn compare(block: &[u8; WORD]) -> Found {
    // SAFETY: SSE2 is part of x86-64; there is no such machine without it.
    unsafe { compare_sse2(block) }
}

/// Sixteen bytes at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
fn compare_sse2(block: &[u8; WORD]) -> Found {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8};
    let mut found = Found { quotes: 0, backslashes: 0, brackets: 0 };
    let every = |byte: u8| _mm_set1_epi8(byte as i8);
    let mask = |equal: __m128i, part: usize| u64::from(_mm_movemask_epi8(equal) as u16) << (part * 16);
    for (part, bytes) in block.chunks_exact(16).enumerate() {
        // SAFETY: `bytes` is 16 bytes long, and the instruction asks for no alignment.
        let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
        found.quotes |= mask(_mm_cmpeq_epi8(bytes, every(b'"')), part);
        found.backslashes |= mask(_mm_cmpeq_epi8(bytes, every(b'\\')), part);
        let lower = _mm_or_si128(bytes, every(CASE));
        let brackets = _mm_or_si128(_mm_cmpeq_epi8(lower, every(b'{')), _mm_cmpeq_epi8(lower, every(b'}')));
        found.brackets |= mask(brackets, part);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All marks of a text by walking it byte by byte.
    fn slowly(text: &[u8]) -> (Vec<usize>, Vec<usize>) {
        let (mut quotes, mut brackets, mut in_string, mut escaped) = (vec![], vec![], false, false);
        for (i, byte) in text.iter().enumerate() {
            if std::mem::take(&mut escaped) {
                if !in_string && matches!(byte, b'{' | b'}' | b'[' | b']') {
                    brackets.push(i);
                }
                continue;
            }
            match byte {
                b'\\' => escaped = true,
                b'"' => {
                    in_string = !in_string;
                    quotes.push(i);
                }
                b'{' | b'}' | b'[' | b']' if !in_string => brackets.push(i),
                _ => {}
            }
        }
        (quotes, brackets)
    }

    fn all(text: &[u8], next: impl Fn(&mut Marks, usize) -> Option<usize>) -> Vec<usize> {
        let mut marks = Marks::default();
        let mut found = Vec::new();
        while let Some(at) = next(&mut marks, found.last().map_or(0, |at| at + 1)) {
            found.push(at);
        }
        assert!(found.iter().all(|at| *at < text.len()));
        found
    }

    proptest::proptest! {
        #[test]
        fn marks_are_those_of_a_walk(text in "[a\"\\\\{}\\[\\] ]{0,300}") {
            let text = text.as_bytes();
            let (quotes, brackets) = slowly(text);
            proptest::prop_assert_eq!(all(text, |marks, from| marks.quote(text, from)), quotes);
            proptest::prop_assert_eq!(all(text, |marks, from| marks.bracket(text, from)), brackets);
        }

        #[test]
        fn all_ways_of_comparing_agree(bytes in proptest::collection::vec(0u8.., WORD)) {
            let block: &[u8; WORD] = bytes[..].try_into().unwrap();
            proptest::prop_assert_eq!(compare(block), compare_portably(block));
        }
    }

    #[test]
    fn every_byte_is_compared_alike() {
        for byte in 0..=255u8 {
            assert_eq!(compare(&[byte; WORD]), compare_portably(&[byte; WORD]), "{byte}");
        }
    }

    #[test]
    fn a_restart_forgets_open_strings() {
        let text = br#""open {"#;
        let mut marks = Marks::default();
        assert_eq!(marks.bracket(text, 0), None);
        marks.restart(6);
        assert_eq!(marks.bracket(text, 6), Some(6));
        assert_eq!(marks.bracket(text, 0), None, "before the restart there are no marks");
    }
}
