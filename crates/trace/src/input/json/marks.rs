//! Where quotes and brackets are in a text, as bits, for both tokenizing and parsing.
//!
//! Up to 32 bytes are compared at a time (`words`), so that the text is read at memory speed, once, and everything after jumps from
//! mark to mark. A text is marked piece by piece, only as far as it is needed: where a stray quote has turned strings inside
//! out, marking starts anew at the next event and has little to do again.
//!
//! Marking also finds what makes an event suspect (`suspects`): what JSON forbids in strings, which is control characters, unknown
//! escapes, halves of surrogate pairs, bytes that are no UTF-8; and what it forbids between them, such as zeros that a disk has
//! written over a part of the file. The recoverer reads suspect events byte by byte.

use std::ops::Range;

use super::bits::{Level, State, WORD, Word, find, find_invalid_utf8};

/// How many bytes are marked ahead of what is needed.
const AHEAD: usize = 64 * WORD;

/// What is longer, in bytes, is read byte by byte. Where a closing bracket is missing, its container would be searched for its end up to
/// the end of the text, and so would the next one's.
pub(super) const LONG: usize = 64 << 10;

/// The marks of a buffer, from some byte on.
#[derive(Debug, Default)]
pub(super) struct Marks {
    origin: usize,
    words: Vec<Word>,
    state: State,
    level: Level,
    /// Offsets that make the event they are in suspect, in order.
    suspects: Vec<usize>,
    /// How many words were made, and looked at for the ends of containers.
    #[cfg(test)]
    pub(super) work: usize,
}

impl Marks {
    /// Starts anew at a byte that is in no string.
    pub(super) fn restart(&mut self, origin: usize) {
        self.origin = origin;
        self.words.clear();
        self.state = State::default();
        self.suspects.clear();
    }

    /// Whether the text between two bytes has to be read byte by byte, as far as it has been marked.
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

    /// Whether an opening or closing quote is at a byte of `text`.
    #[inline]
    pub(super) fn is_quote(&mut self, text: &[u8], at: usize) -> bool {
        self.is_at(text, at, |word| word.quotes)
    }

    /// Whether a bracket outside of strings is at a byte of `text`.
    #[inline]
    pub(super) fn is_bracket(&mut self, text: &[u8], at: usize) -> bool {
        self.is_at(text, at, |word| word.opens | word.closes)
    }

    #[inline]
    fn is_at(&mut self, text: &[u8], at: usize, bits: impl Fn(&Word) -> u64) -> bool {
        let Some(relative) = at.checked_sub(self.origin) else { return false };
        self.word(text, relative / WORD).is_some_and(|word| bits(word) >> (relative % WORD) & 1 == 1)
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

    /// The byte after the container that begins at a byte of `text`. `None`: its end is not in what there is of the text.
    #[inline]
    pub(super) fn container_end(&mut self, text: &[u8], from: usize) -> Option<usize> {
        self.container_end_within(text, from, usize::MAX)
    }

    /// The same, if the container is not longer than so many bytes. That of one that is a little longer may be found, too.
    #[inline]
    pub(super) fn container_end_within(&mut self, text: &[u8], from: usize, most: usize) -> Option<usize> {
        let relative = from.checked_sub(self.origin)?;
        let mut at = relative / WORD;
        let last = relative.saturating_add(most) / WORD;
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
                #[cfg(test)]
                {
                    self.work += 1;
                }
                if at > last {
                    return None;
                }
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
        let piece = &rest[..rest.len().min(AHEAD)];
        #[cfg(test)]
        {
            self.work += piece.len() / WORD;
        }
        let (in_string, escaped) = (self.state.in_string, self.state.escaped);
        self.mark(piece, false);
        if self.state.suspect != 0 || self.state.has_escapes {
            // Once more, to know where: to note it each time would cost all texts that have nothing odd.
            (self.state.in_string, self.state.escaped) = (in_string, escaped);
            self.words.truncate((from - self.origin) / WORD);
            self.mark(piece, true);
            (self.state.suspect, self.state.has_escapes) = (0, false);
            self.find_suspects(text, from..from + piece.len());
        }
        true
    }

    fn mark(&mut self, piece: &[u8], note: bool) {
        let (blocks, tail) = piece.as_chunks::<WORD>();
        self.level.mark(blocks, note, &mut self.state, &mut self.words);
        if !tail.is_empty() {
            let mut block = [b' '; WORD];
            block[..tail.len()].copy_from_slice(tail);
            self.level.mark(&[block], note, &mut self.state, &mut self.words);
        }
    }

    /// Looks at the words of a range in which there may be something suspect.
    #[cold]
    fn find_suspects(&mut self, text: &[u8], range: Range<usize>) {
        let (known, mut has_other) = (self.suspects.len(), false);
        for odd in self.state.odd.drain(..) {
            has_other |= find(text, self.origin + odd.word * WORD, odd, &mut self.suspects);
        }
        if has_other {
            find_invalid_utf8(text, range, &mut self.suspects);
        }
        self.suspects[known..].sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::json::bits::tests::slowly as slowly_suspect;

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

    fn all_of(marks: &mut Marks, text: &[u8]) -> usize {
        let mut words = 0;
        while marks.word(text, words).is_some() {
            words += 1;
        }
        words
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
            proptest::prop_assert_eq!(&all(text, |marks, from| marks.quote(text, from)), &quotes);
            proptest::prop_assert_eq!(&all(text, |marks, from| marks.bracket(text, from)), &brackets);
            for at in 0..text.len() {
                let mut marks = Marks::default();
                proptest::prop_assert_eq!(marks.is_quote(text, at), quotes.contains(&at));
                proptest::prop_assert_eq!(marks.is_bracket(text, at), brackets.contains(&at));
            }
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
        fn suspects_are_those_of_a_walk(
            text in proptest::collection::vec(proptest::prop_oneof![
                4 => proptest::sample::select(vec![&b"\""[..], b"\\", b"u", b"d83d", b"\\udc00", b"n", b"{", b" ", b"\n"]),
                2 => proptest::sample::select(vec!["é".as_bytes(), "→".as_bytes(), "😀".as_bytes(), b"\x01", b"\xe2", b"\x80"]),
                6 => proptest::strategy::Just(&b"abcdefghijklmnop"[..]),
            ], 0..900)
        ) {
            let text = text.concat();
            let mut marks = Marks::default();
            let _ = all_of(&mut marks, &text);
            let mut found = marks.suspects;
            found.dedup();
            proptest::prop_assert_eq!(found, slowly_suspect(&text));
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
        let mut levels = vec![Level::Portable, Level::default()];
        levels.dedup();
        levels
    }

    fn words(level: Level, blocks: &[[u8; WORD]]) -> Vec<Word> {
        let mut words = Vec::new();
        level.mark(blocks, false, &mut State::default(), &mut words);
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
