//! Where quotes and brackets are in a stretch of text, as bits: what both cutting and parsing look for.
//!
//! Up to 32 bytes are compared at a time, so that the text is gone through at memory speed, once, and everything after jumps
//! from mark to mark. A stretch is marked piece by piece, only as far as somebody looks: where a stray quote has turned
//! strings inside out, marking starts anew at the next event and has little to do again.
//!
//! On the way it is noticed what makes an event suspect: what JSON forbids in strings, which is control characters, unknown escapes,
//! halves of surrogate pairs, bytes that are no UTF-8; and what it forbids between them, as zeros are that a disk has put over a
//! part of the file. Who is handed a suspect event reads it byte by byte.

use std::ops::Range;

/// Bytes that one word of bits stands for.
const WORD: usize = 64;

/// How far marking goes ahead of what is asked for.
const AHEAD: usize = 64 * WORD;

/// The bits of 64 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Word {
    /// Quotes that open or close a string.
    quotes: u64,
    /// `{` and `[` outside of strings.
    opens: u64,
    /// `}` and `]` outside of strings.
    closes: u64,
    /// How many they are: counting bits is slow where the processor may not be asked to.
    opened: u8,
    closed: u8,
}

/// The marks of a buffer, from some byte on.
#[derive(Debug, Default)]
pub(super) struct Marks {
    origin: usize,
    words: Vec<Word>,
    state: State,
    level: Level,
    /// Places that make the event they are in suspect, in order.
    suspects: Vec<usize>,
}

/// What passes from one word to the next.
#[derive(Debug, Clone, Default)]
struct State {
    in_string: bool,
    escaped: bool,
    /// Not zero if there is anything suspect in the words since this was last asked, or a string that is not all ASCII.
    suspect: u64,
    /// Whether there was an escape.
    has_escapes: bool,
}

impl Marks {
    /// Starts anew at a byte that is in no string.
    pub(super) fn restart(&mut self, origin: usize) {
        self.origin = origin;
        self.words.clear();
        self.state = State::default();
        self.suspects.clear();
    }

    /// Whether what lies between two bytes has to be read byte by byte. Only what has been marked is known of.
    #[inline]
    pub(super) fn is_suspect(&mut self, from: usize, to: usize) -> bool {
        !self.suspects.is_empty() && self.has_suspects(from, to)
    }

    #[cold]
    fn has_suspects(&mut self, from: usize, to: usize) -> bool {
        let passed = self.suspects.partition_point(|at| *at < from);
        self.suspects.drain(..passed);
        self.suspects.first().is_some_and(|at| *at < to)
    }

    /// The first opening or closing quote at or after a byte of `text`. `None`: not in what there is of the text.
    #[inline]
    pub(super) fn quote(&mut self, text: &[u8], from: usize) -> Option<usize> {
        self.next(text, from, |word| word.quotes)
    }

    /// The first bracket outside of strings at or after a byte of `text`.
    #[inline]
    pub(super) fn bracket(&mut self, text: &[u8], from: usize) -> Option<usize> {
        self.next(text, from, |word| word.opens | word.closes)
    }

    #[inline]
    fn next(&mut self, text: &[u8], from: usize, bits: impl Fn(&Word) -> u64) -> Option<usize> {
        let relative = from.checked_sub(self.origin)?;
        let mut at = relative / WORD;
        let mut mask = u64::MAX << (relative % WORD);
        loop {
            let found = bits(self.word(text, at)?) & mask;
            if found != 0 {
                return Some(self.origin + at * WORD + found.trailing_zeros() as usize);
            }
            mask = u64::MAX;
            at += 1;
        }
    }

    /// The byte behind the container that begins at a byte of `text`. `None`: its end is not in what there is of the text.
    #[inline]
    pub(super) fn container_end(&mut self, text: &[u8], from: usize) -> Option<usize> {
        let relative = from.checked_sub(self.origin)?;
        let mut at = relative / WORD;
        let first = u64::MAX << (relative % WORD);
        let word = self.word(text, at)?;
        let (mut opens, mut closes) = (word.opens & first, word.closes & first);
        let mut depth = 0;
        // In the first word, and in every other that holds as many closing brackets as are open, the end may be: there they are
        // taken one by one. All others count as a whole, which is what makes long arguments cheap.
        loop {
            while closes != 0 {
                let close = closes.trailing_zeros();
                let before = opens & !(u64::MAX << close);
                depth += before.count_ones();
                opens ^= before;
                if depth <= 1 {
                    return Some(self.origin + at * WORD + close as usize + 1);
                }
                depth -= 1;
                closes &= closes - 1;
            }
            depth += opens.count_ones();
            loop {
                at += 1;
                let word = self.word(text, at)?;
                if u32::from(word.closed) >= depth {
                    (opens, closes) = (word.opens, word.closes);
                    break;
                }
                depth = depth + u32::from(word.opened) - u32::from(word.closed);
            }
        }
    }

    #[inline]
    fn word(&mut self, text: &[u8], at: usize) -> Option<&Word> {
        while at >= self.words.len() {
            if !self.mark_more(text) {
                return None;
            }
        }
        self.words.get(at)
    }

    /// Marks the next piece. `false` at the end of the text. Text must not grow between calls without a restart, because its
    /// last word may be marked in part.
    #[cold]
    fn mark_more(&mut self, text: &[u8]) -> bool {
        let from = self.origin + self.words.len() * WORD;
        let Some(rest) = text.get(from..).filter(|rest| !rest.is_empty()) else { return false };
        let (state, words) = (&mut self.state, &mut self.words);
        let before = Before { in_string: state.in_string, escaped: state.escaped };
        let (blocks, tail) = rest[..rest.len().min(AHEAD)].as_chunks::<WORD>();
        self.level.mark(blocks, state, words);
        if !tail.is_empty() {
            let mut block = [b' '; WORD];
            block[..tail.len()].copy_from_slice(tail);
            self.level.mark(&[block], state, words);
        }
        if state.suspect != 0 || state.has_escapes {
            self.look(text, from..from + rest.len().min(AHEAD), before);
        }
        true
    }

    /// Looks at a stretch once more in which there may be something suspect.
    #[cold]
    fn look(&mut self, text: &[u8], range: Range<usize>, before: Before) {
        (self.state.suspect, self.state.has_escapes) = (0, false);
        before.look(text, range.clone(), &mut self.suspects);
        if !text[range.clone()].is_ascii() {
            not_utf8(text, range, &mut self.suspects);
            self.suspects.sort_unstable();
        }
    }
}

/// How wide the machine can compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    #[cfg_attr(all(target_arch = "x86_64", not(test)), expect(dead_code, reason = "what every other machine uses"))]
    Portable,
    #[cfg(target_arch = "x86_64")]
    Sse2,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Default for Level {
    #[cfg(not(target_arch = "x86_64"))]
    fn default() -> Self {
        Level::Portable
    }

    #[cfg(target_arch = "x86_64")]
    fn default() -> Self {
        let has_avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt");
        if has_avx2 && is_x86_feature_detected!("bmi1") { Level::Avx2 } else { Level::Sse2 }
    }
}

impl Level {
    fn mark(self, blocks: &[[u8; WORD]], state: &mut State, words: &mut Vec<Word>) {
        match self {
            Level::Portable => mark_with(compare_portably, blocks, state, words),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: SSE2 is part of x86-64; there is no such machine without it.
            Level::Sse2 => unsafe { mark_sse2(blocks, state, words) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this level is chosen only where the processor was asked for these features.
            Level::Avx2 => unsafe { mark_avx2(blocks, state, words) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
fn mark_sse2(blocks: &[[u8; WORD]], state: &mut State, words: &mut Vec<Word>) {
    mark_with(|block| compare_sse2(block), blocks, state, words);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt,bmi1")]
fn mark_avx2(blocks: &[[u8; WORD]], state: &mut State, words: &mut Vec<Word>) {
    mark_with(|block| compare_avx2(block), blocks, state, words);
}

/// Inlined into each of the functions above, so that all of it is made for their instructions.
#[inline(always)]
fn mark_with(compare: impl Fn(&[u8; WORD]) -> Found, blocks: &[[u8; WORD]], state: &mut State, words: &mut Vec<Word>) {
    words.extend(blocks.iter().map(|block| state.word(compare(block))));
}

impl State {
    #[inline(always)]
    fn word(&mut self, found: Found) -> Word {
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
        self.suspect |= (found.odd & inside) | found.never;
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

/// What comparing 64 bytes finds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Found {
    quotes: u64,
    backslashes: u64,
    opens: u64,
    closes: u64,
    /// Control characters, and what is not ASCII.
    odd: u64,
    /// Not zero if there is a byte that may stand between strings no more than in them.
    never: u64,
}

/// `[` and `{` differ in this bit, and so do `]` and `}`; no other byte becomes one of them by setting it.
const CASE: u8 = 0x20;

/// One byte at a time, on machines without the instructions below.
fn compare_portably(block: &[u8; WORD]) -> Found {
    let mut found = Found::default();
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

/// Sixteen bytes at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
fn compare_sse2(block: &[u8; WORD]) -> Found {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_cmpgt_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    let mut found = Found::default();
    for (part, bytes) in block.as_chunks::<16>().0.iter().enumerate() {
        // SAFETY: `bytes` is 16 bytes long, and the instruction asks for no alignment.
        let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
        let lower = _mm_or_si128(bytes, _mm_set1_epi8(CASE as i8));
        let equal = |bytes, byte: u8| {
            u64::from(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8))) as u16) << (part * 16)
        };
        found.quotes |= equal(bytes, b'"');
        found.backslashes |= equal(bytes, b'\\');
        found.opens |= equal(lower, b'{');
        found.closes |= equal(lower, b'}');
        // The comparison is of signed numbers, by which what is not ASCII is below the space too.
        let below = _mm_cmpgt_epi8(_mm_set1_epi8(0x20), bytes);
        found.odd |= u64::from(_mm_movemask_epi8(below) as u16) << (part * 16);
        let never = _mm_cmpgt_epi8(_mm_set1_epi8(b'\t' as i8), bytes);
        found.never |= u64::from(_mm_movemask_epi8(never) as u16);
    }
    found
}

/// Thirty-two bytes at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn compare_avx2(block: &[u8; WORD]) -> Found {
    use std::arch::x86_64::{
        _mm256_cmpeq_epi8, _mm256_cmpgt_epi8, _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_or_si256,
        _mm256_set1_epi8,
    };
    let mut found = Found::default();
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
        // As above.
        let below = _mm256_cmpgt_epi8(_mm256_set1_epi8(0x20), bytes);
        found.odd |= u64::from(_mm256_movemask_epi8(below) as u32) << (part * 32);
        let never = _mm256_cmpgt_epi8(_mm256_set1_epi8(b'\t' as i8), bytes);
        found.never |= u64::from(_mm256_movemask_epi8(never) as u32);
    }
    found
}

/// The state before a stretch that is looked at once more, because something in it is suspect.
#[derive(Debug, Clone, Copy)]
struct Before {
    in_string: bool,
    escaped: bool,
}

impl Before {
    fn look(self, text: &[u8], range: Range<usize>, suspects: &mut Vec<usize>) {
        let Before { mut in_string, mut escaped } = self;
        for at in range {
            let byte = text[at];
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
    }
}

/// Whether what stands behind a backslash makes an escape with it, as far as there is text.
fn is_escape(text: &[u8], at: usize) -> bool {
    match text[at] {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => true,
        b'u' => match code_unit(text, at) {
            None => text.len() < at + 5,
            Some(0xd800..=0xdbff) => {
                let next = text.get(at + 5..at + 7);
                next.is_none() || next == Some(b"\\u") && matches!(code_unit(text, at + 6), Some(0xdc00..=0xdfff))
            }
            Some(0xdc00..=0xdfff) => {
                let first = at
                    .checked_sub(6)
                    .filter(|first| first.checked_sub(1).is_some_and(|at| text[at..].starts_with(b"\\u")));
                first.is_some_and(|first| matches!(code_unit(text, first), Some(0xd800..=0xdbff)))
            }
            Some(_) => true,
        },
        _ => false,
    }
}

/// The number of the escape whose `u` is at a byte.
fn code_unit(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at + 1..at + 5)?;
    let digits = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_hexdigit))?;
    u16::from_str_radix(digits, 16).ok()
}

/// The places of a stretch where there is no UTF-8.
#[cold]
fn not_utf8(text: &[u8], range: Range<usize>, suspects: &mut Vec<usize>) {
    // A character may begin before the stretch, and end behind it.
    let start = (range.start.saturating_sub(3)..range.start).find(|at| text[*at] >= 0xc0).unwrap_or(range.start);
    let end = text.len().min(range.end + 3);
    let mut at = start;
    for chunk in text[start..end].utf8_chunks() {
        at += chunk.valid().len();
        if !chunk.invalid().is_empty() && range.contains(&at) {
            suspects.push(at);
        }
        at += chunk.invalid().len();
    }
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
        fn containers_end_where_their_brackets_are_paired(text in "[{\\[]([a\"\\\\{}\\[\\] ]{0,9}|[\\[\\]]{0,90}){0,9}") {
            let text = text.as_bytes();
            let mut depth = 0;
            let end = slowly(text).1.into_iter().find(|at| {
                depth += if matches!(text[*at], b'{' | b'[') { 1 } else { -1 };
                depth == 0
            });
            proptest::prop_assert_eq!(Marks::default().container_end(text, 0), end.map(|end| end + 1));
        }

        #[test]
        fn all_levels_agree(blocks in proptest::collection::vec(proptest::collection::vec(some_byte(), WORD), 1..5)) {
            let blocks: Vec<[u8; WORD]> = blocks.iter().map(|block| block[..].try_into().unwrap()).collect();
            let all: Vec<Vec<Word>> = levels().into_iter().map(|level| words(level, &blocks)).collect();
            for words in &all {
                proptest::prop_assert_eq!(words, &all[0]);
            }
        }
    }

    /// Any byte, and often one of those that matter.
    fn some_byte() -> impl proptest::strategy::Strategy<Value = u8> {
        proptest::prop_oneof![0u8.., proptest::sample::select(b"\"\\{}[]".to_vec())]
    }

    /// Those that this machine can run; the portable one first.
    fn levels() -> Vec<Level> {
        let mut levels = vec![Level::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            levels.push(Level::Sse2);
            if Level::default() == Level::Avx2 {
                levels.push(Level::Avx2);
            }
        }
        levels
    }

    fn words(level: Level, blocks: &[[u8; WORD]]) -> Vec<Word> {
        let mut words = Vec::new();
        level.mark(blocks, &mut State::default(), &mut words);
        words
    }

    #[test]
    fn every_byte_is_compared_alike() {
        let every: Vec<[u8; WORD]> = (0..=255u8).map(|byte| [byte; WORD]).collect();
        for level in levels() {
            for block in &every {
                assert_eq!(words(level, &[*block]), words(Level::Portable, &[*block]), "{level:?} {}", block[0]);
            }
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
