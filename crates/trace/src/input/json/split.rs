//! Dividing the text into chunks that several threads can read at once.
//!
//! A chunk should begin where an event does; but to know that for sure, all text before it has to be read. So the splitter
//! guesses, by searching for text that comes only between two events, and adds from which state its guess may be read. The code
//! that puts the parts together (`join`) knows the true state and has a chunk read again if the guess was wrong: a wrong guess
//! costs time and changes nothing.

use std::io::{self, Read};

use super::scan::is_space;
use super::state::{After, State};

/// A chunk's usual size, in bytes: that of a processor's own cache, less what the parser needs.
pub(super) const CHUNK: usize = 512 * 1024;

/// A chunk in which no event begins grows up to so many times the usual size, and ends anywhere then.
const MAX_GROWTH: usize = 16;

/// What looks like an event's beginning is not longer than this.
const LOOK_BACK: usize = 1024;

/// Events begin with one of these keys.
const FIRST_KEYS: &[&[u8]] = &[b"ph", b"name", b"cat", b"pid", b"tid", b"ts", b"dur", b"id", b"args"];

/// A part of the text.
#[derive(Debug)]
pub(super) struct Chunk {
    /// How many chunks are before it.
    pub(super) number: u64,
    buffer: Buffer,
    /// The offset of its first byte in the file's text.
    pub(super) base: u64,
    pub(super) after: After,
    /// The state in which it probably begins, if it can be read without knowing what is before it.
    pub(super) start: Option<State>,
    /// What reading failed with, after this chunk.
    pub(super) failure: Option<io::Error>,
}

impl Chunk {
    pub(super) fn text(&self) -> &[u8] {
        self.buffer.text()
    }

    /// The memory, to be used again.
    pub(super) fn into_buffer(self) -> Buffer {
        self.buffer
    }
}

/// Memory for a chunk's text.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    /// Once grown it is not shrunk, so that it is not filled with zeros again each time.
    bytes: Vec<u8>,
    filled: usize,
}

impl Buffer {
    fn text(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    fn set(&mut self, text: &[u8]) {
        self.filled = 0;
        self.room(text.len())[..text.len()].copy_from_slice(text);
        self.filled = text.len();
    }

    /// At least `n` bytes after the text.
    fn room(&mut self, n: usize) -> &mut [u8] {
        if self.bytes.is_empty() {
            // The system's fresh pages are zeros already: most of a chunk's memory is never touched by a small trace.
            self.bytes = vec![0; self.filled + n];
        } else if self.bytes.len() < self.filled + n {
            self.bytes.resize(self.filled + n, 0);
        }
        &mut self.bytes[self.filled..]
    }

    /// Reads up to `n` bytes after the text; fewer only at the source's end. `Ok(false)`: it has ended.
    fn read(&mut self, source: &mut impl Read, n: usize) -> io::Result<bool> {
        let wanted = self.filled + n;
        while self.filled < wanted {
            let left = wanted - self.filled;
            match source.read(&mut self.room(left)[..left]) {
                Ok(0) => return Ok(false),
                Ok(read) => self.filled += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }
}

/// Reads the source and divides it.
pub(super) struct Splitter<R> {
    source: R,
    /// The size that chunks should have.
    size: usize,
    /// What is read and belongs to the next chunk.
    carry: Vec<u8>,
    base: u64,
    number: u64,
    start: Option<State>,
    /// Whether the file begins with an object, in which the list of events is.
    in_object: bool,
    ended: bool,
}

impl<R: Read> Splitter<R> {
    /// Begins with the source's first byte. `size` is what chunks should have, in bytes; [`CHUNK`] is best.
    pub(super) fn new(source: R, size: usize) -> Self {
        Splitter {
            source,
            size,
            carry: Vec::new(),
            base: 0,
            number: 0,
            start: Some(State::START),
            in_object: false,
            ended: false,
        }
    }

    /// The next chunk, in the memory given. `None` after the last.
    pub(super) fn next(&mut self, mut buffer: Buffer) -> Option<Chunk> {
        if self.ended {
            return None;
        }
        if buffer.bytes.len() > 4 * self.size {
            // It has held something unusual.
            buffer = Buffer::default();
        }
        buffer.set(&self.carry);
        self.carry.clear();
        let mut failure = None;
        let mut after = After::More;
        let mut event = None;
        let mut searched = 0;
        while event.is_none() && after == After::More && buffer.filled < MAX_GROWTH * self.size {
            match buffer.read(&mut self.source, self.size) {
                Ok(true) => {
                    event = last_event(buffer.text(), searched);
                    // What looks like an event's beginning may lie across the end of what has been searched.
                    searched = buffer.filled.saturating_sub(LOOK_BACK);
                }
                Ok(false) => after = After::Nothing,
                Err(e) => (after, failure) = (After::Failure, Some(e)),
            }
        }
        if self.number == 0 {
            let text = buffer.text();
            let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
            self.in_object = text.iter().find(|b| !is_space(**b)) == Some(&b'{');
        }
        if event.is_some() {
            after = After::Event;
        }
        let next_start = event.map(|_| State::in_list(self.in_object));
        if let Some(event) = event {
            self.carry.extend_from_slice(&buffer.text()[event..]);
            buffer.filled = event;
        }
        self.ended = after.is_end();
        let start = std::mem::replace(&mut self.start, next_start);
        let chunk = Chunk { number: self.number, base: self.base, buffer, after, start, failure };
        self.number += 1;
        self.base += chunk.text().len() as u64;
        Some(chunk)
    }
}

/// Where in a text, at `from` or after it, the last event probably begins.
fn last_event(text: &[u8], from: usize) -> Option<usize> {
    let mut end = text.len();
    while let Some(brace) = memchr::memrchr(b'{', text.get(from..end)?) {
        end = from + brace;
        let (before, after) = text.split_at(end);
        if end > 0 && ends_an_event(before) && begins_an_event(&after[1..]) {
            return Some(end);
        }
    }
    None
}

/// Whether a text ends with `},`, white space aside.
fn ends_an_event(text: &[u8]) -> bool {
    let mut visible = text.iter().rev().filter(|b| !is_space(**b));
    visible.next() == Some(&b',') && visible.next() == Some(&b'}')
}

/// Whether a text begins with a key that events begin with, white space aside.
fn begins_an_event(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    FIRST_KEYS.iter().any(|key| {
        let rest = text.strip_prefix(b"\"").and_then(|text| text.strip_prefix(*key));
        rest.and_then(|rest| rest.strip_prefix(b"\"")).is_some_and(|rest| rest.trim_ascii_start().starts_with(b":"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_begin_after_others_and_with_their_keys() {
        for (text, want) in [
            (r#"{"a":1}, {"ph":"X"}"#, Some(9)),
            ("},\n  {\n  \"name\" : 1", Some(5)),
            (r#"},{"ph":1},{"other":1}"#, Some(2)),
            (r#"[{"ph":1}"#, None),
            (r#"},{"ph"#, None),
            ("", None),
        ] {
            assert_eq!(last_event(text.as_bytes(), 0), want, "{text}");
        }
        assert_eq!(last_event(br#"},{"ph":1}"#, 3), None);
    }

    #[test]
    fn chunks_are_the_text() {
        let event = r#"{"ph":"X","ts":1,"dur":1,"name":"a"},"#;
        let text = format!("{{\"traceEvents\":[{}{{}}]}}", event.repeat(3 * CHUNK / event.len()));
        let mut splitter = Splitter::new(text.as_bytes(), CHUNK);
        let (mut all, mut numbers) = (Vec::new(), Vec::new());
        while let Some(chunk) = splitter.next(Buffer::default()) {
            assert_eq!(chunk.base, all.len() as u64);
            assert!(chunk.start.is_some());
            assert!(chunk.number == 0 || chunk.text().starts_with(br#"{"ph""#));
            assert_eq!(chunk.number, numbers.len() as u64);
            assert_eq!(!chunk.after.is_end(), all.len() + chunk.text().len() < text.len());
            all.extend_from_slice(chunk.text());
            numbers.push(chunk.number);
        }
        assert_eq!(all, text.as_bytes());
        assert!(numbers.len() >= 3);
    }

    #[test]
    fn text_without_events_is_divided_anywhere() {
        let text = "x".repeat(MAX_GROWTH * 1000 + 500);
        let mut splitter = Splitter::new(text.as_bytes(), 1000);
        let first = splitter.next(Buffer::default()).unwrap();
        assert_eq!(first.text().len(), MAX_GROWTH * 1000);
        let second = splitter.next(first.into_buffer()).unwrap();
        assert_eq!((second.text().len(), second.base), (500, MAX_GROWTH as u64 * 1000));
        assert_eq!(second.start, None);
        assert!(splitter.next(second.into_buffer()).is_none());
    }
}
