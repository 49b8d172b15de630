//! Cutting a JSON trace into its events, as the text streams by.
//!
//! The cutter knows the container only: an object with `traceEvents` anywhere in it, or a bare list, perhaps without its
//! closing bracket. It finds where each event begins and ends and leaves its meaning to the parser. What
//! stands beside the events (the header) is handed out field by field. Cutting first keeps an event with wrong fields from taking
//! its neighbours along (a stray quote or bracket still does), and keeps memory at one block and one event.

use std::io::{self, Read};

use super::marks::Marks;
use super::scan::{Find, Nesting, is_space};

/// The text is read in pieces of this size.
const BLOCK: usize = 512 * 1024;

/// A header field longer than this is passed over: it is no header (some tools append tables of their own).
const MAX_HEADER_FIELD: usize = 4 << 20;

/// No event is longer; a stray quote makes strings that are.
const MAX_EVENT: usize = 64 << 20;

/// What the cutter finds, in file order.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// One event object.
    Event { event: Marked<'a>, offset: u64 },
    /// An element of the event list that is no object.
    NotObject { offset: u64 },
    /// An element that is too long to keep.
    TooLong { offset: u64 },
    /// A field beside the events, its key still escaped; `text` is `None` if it is too long to keep.
    Header { key: &'a [u8], text: Option<&'a [u8]>, offset: u64 },
}

/// An object in a marked text.
#[derive(Debug)]
pub(super) struct Marked<'a> {
    /// The text up to the object's closing brace.
    pub(super) text: &'a [u8],
    /// Where its opening brace is.
    pub(super) at: usize,
    /// The text's marks.
    pub(super) marks: &'a mut Marks,
}

/// How the text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// As it should.
    Whole,
    /// In the middle of something.
    CutOff { offset: u64 },
    /// Something stands there that cannot.
    Broken { offset: u64 },
    /// After the trace's end comes more.
    Trailing { offset: u64 },
}

/// Where in the container the cutter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    Object,
    List { in_object: bool },
    Over,
}

/// How long a value is.
enum Length {
    Known(usize),
    /// Over the limit; it has been passed over, or the text ended in it.
    TooLong,
    CutOff,
}

/// See the file's header.
pub(super) struct Cutter<R> {
    source: R,
    buffer: Vec<u8>,
    /// What is read and not yet handed out is `buffer[at..filled]`; refilling keeps it and nothing before it.
    at: usize,
    filled: usize,
    /// The place of the buffer's first byte in the text.
    base: u64,
    source_ended: bool,
    failure: Option<io::Error>,
    place: Place,
    seen_events: bool,
    end: End,
    key: Vec<u8>,
    marks: Marks,
}

impl<R: Read> Cutter<R> {
    pub(super) fn new(source: R) -> Self {
        Cutter {
            source,
            buffer: Vec::new(),
            at: 0,
            filled: 0,
            base: 0,
            source_ended: false,
            failure: None,
            place: Place::Start,
            seen_events: false,
            end: End::Whole,
            key: Vec::new(),
            marks: Marks::default(),
        }
    }

    /// Whether a list of events was met at all.
    pub(super) fn seen_events(&self) -> bool {
        self.seen_events
    }

    /// How the text ended, and the error with which the source did. Final once [`Cutter::next`] has returned `None`.
    pub(super) fn into_end(self) -> (End, Option<io::Error>) {
        (self.end, self.failure)
    }

    /// The next piece, or `None` at the end.
    pub(super) fn next(&mut self) -> Option<Piece<'_>> {
        loop {
            let found = match self.place {
                Place::Start => self.start(),
                Place::Object => self.field(),
                Place::List { in_object } => self.element(in_object),
                Place::Over => return None,
            };
            // The borrow checker does not let a piece leave a loop that goes on otherwise; so the steps return ranges.
            let Some(found) = found else { continue };
            return Some(match found {
                Found::Event { from, to, offset } => {
                    let event = Marked { text: &self.buffer[..to], at: from, marks: &mut self.marks };
                    Piece::Event { event, offset }
                }
                Found::NotObject { offset } => Piece::NotObject { offset },
                Found::TooLong { offset } => Piece::TooLong { offset },
                Found::Header { value, offset } => {
                    Piece::Header { key: &self.key, text: value.map(|(from, to)| &self.buffer[from..to]), offset }
                }
            });
        }
    }

    fn start(&mut self) -> Option<Found> {
        while self.filled < 3 && self.fill() {}
        if self.buffer[..self.filled].starts_with(b"\xef\xbb\xbf") {
            self.at = 3;
        }
        match self.skip_separators() {
            Some(b'{') => self.place = Place::Object,
            Some(b'[') => {
                self.seen_events = true;
                self.place = Place::List { in_object: false };
            }
            Some(_) => return self.stop(End::Broken { offset: self.offset() }),
            None => return self.stop(End::CutOff { offset: self.offset() }),
        }
        self.at += 1;
        None
    }

    /// One field of the top-level object.
    fn field(&mut self) -> Option<Found> {
        match self.skip_separators() {
            Some(b'"') => {}
            Some(b'}') => return self.finish(),
            Some(_) => return self.stop(End::Broken { offset: self.offset() }),
            None => return self.stop(End::CutOff { offset: self.offset() }),
        }
        let offset = self.offset();
        let Length::Known(length) = self.value_length(MAX_HEADER_FIELD) else {
            return self.stop(End::CutOff { offset });
        };
        self.key.clear();
        self.key.extend_from_slice(&self.buffer[self.at + 1..self.at + length - 1]);
        self.at += length;
        match self.skip_separators() {
            Some(b':') => self.at += 1,
            Some(_) => return self.stop(End::Broken { offset: self.offset() }),
            None => return self.stop(End::CutOff { offset }),
        }
        match self.skip_separators() {
            Some(b'[') if self.key == b"traceEvents" => {
                self.at += 1;
                self.seen_events = true;
                self.place = Place::List { in_object: true };
                return None;
            }
            Some(b'}' | b']' | b':') => return self.stop(End::Broken { offset: self.offset() }),
            Some(_) => {}
            None => return self.stop(End::CutOff { offset }),
        }
        match self.value_length(MAX_HEADER_FIELD) {
            Length::Known(length) => {
                let from = self.at;
                self.at += length;
                Some(Found::Header { value: Some((from, from + length)), offset })
            }
            Length::TooLong => Some(Found::Header { value: None, offset }),
            Length::CutOff => self.stop(End::CutOff { offset }),
        }
    }

    /// One element of the event list.
    fn element(&mut self, in_object: bool) -> Option<Found> {
        let first = self.skip_separators();
        let offset = self.offset();
        match first {
            Some(b']') => {
                if !in_object {
                    return self.finish();
                }
                self.at += 1;
                self.place = Place::Object;
                return None;
            }
            Some(b'}' | b':') => return self.stop(End::Broken { offset }),
            Some(_) => {}
            // A list without its closing bracket is how programs that may crash write traces: legal, if nothing failed.
            None if in_object || self.failure.is_some() => return self.stop(End::CutOff { offset }),
            None => return self.stop(End::Whole),
        }
        match self.value_length(MAX_EVENT) {
            Length::Known(length) => {
                let from = self.at;
                self.at += length;
                if first == Some(b'{') {
                    Some(Found::Event { from, to: from + length, offset })
                } else {
                    Some(Found::NotObject { offset })
                }
            }
            Length::TooLong => Some(Found::TooLong { offset }),
            Length::CutOff => self.stop(End::CutOff { offset }),
        }
    }

    /// At the container's closing bracket: what follows it?
    fn finish(&mut self) -> Option<Found> {
        self.at += 1;
        let mut rest = self.peek();
        while rest.is_some_and(|b| is_space(b) || b == 0) {
            self.at += 1;
            rest = self.peek();
        }
        self.stop(if rest.is_some() { End::Trailing { offset: self.offset() } } else { End::Whole })
    }

    fn stop(&mut self, end: End) -> Option<Found> {
        self.end = end;
        self.place = Place::Over;
        None
    }

    /// How long the value at the current place is. The buffer holds all of it if the length is known.
    fn value_length(&mut self, limit: usize) -> Length {
        let first = self.peek();
        // A quote too many before this place would have turned the marks inside out; here no string is open.
        let text = &self.buffer[..self.filled];
        let marked = match first {
            Some(b'{' | b'[') => self.marks.bracket(text, self.at) == Some(self.at),
            Some(b'"') => self.marks.quote(text, self.at) == Some(self.at),
            _ => true,
        };
        if !marked {
            self.marks.restart(self.at);
        }
        loop {
            let text = &self.buffer[..self.filled];
            let end = match first {
                Some(b'{' | b'[') => (&mut self.marks).container_end(text, self.at),
                Some(b'"') => self.marks.quote(text, self.at + 1).map(|quote| quote + 1),
                _ => {
                    let rest = &text[self.at..];
                    rest.iter().position(|b| is_space(*b) || matches!(b, b',' | b']' | b'}')).map(|end| self.at + end)
                }
            };
            if let Some(end) = end {
                return Length::Known(end - self.at);
            }
            if self.filled - self.at > limit {
                return if self.pass_over() { Length::TooLong } else { Length::CutOff };
            }
            if !self.fill() {
                return Length::CutOff;
            }
        }
    }

    /// Drops a value that is too long to keep. Whether its end was found.
    fn pass_over(&mut self) -> bool {
        let mut nesting = Nesting::default();
        if !matches!(self.peek(), Some(b'{' | b'[' | b'"')) {
            return false;
        }
        loop {
            if let Some(end) = nesting.end(&self.buffer[self.at..self.filled]) {
                self.at += end;
                return true;
            }
            self.at = self.filled;
            if !self.fill() {
                return false;
            }
        }
    }

    /// Past white space and commas; the byte that follows.
    fn skip_separators(&mut self) -> Option<u8> {
        loop {
            let byte = self.peek()?;
            if !is_space(byte) && byte != b',' {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    fn peek(&mut self) -> Option<u8> {
        while self.at == self.filled {
            if !self.fill() {
                return None;
            }
        }
        Some(self.buffer[self.at])
    }

    fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Reads on, keeping what is not yet handed out. `false` at the end of the source.
    fn fill(&mut self) -> bool {
        if self.source_ended {
            return false;
        }
        self.buffer.copy_within(self.at..self.filled, 0);
        self.base += self.at as u64;
        self.filled -= self.at;
        self.at = 0;
        // Whoever reads on stands at the beginning of something, not within a string.
        self.marks.restart(0);
        // The end of a value that goes on and on is looked for from its start each time; a quarter more text each time keeps
        // that linear.
        let wanted = self.filled + BLOCK.max(self.filled / 4);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        let before = self.filled;
        while self.filled < wanted && !self.source_ended {
            match self.source.read(&mut self.buffer[self.filled..wanted]) {
                Ok(0) => self.source_ended = true,
                Ok(n) => self.filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.failure = Some(e);
                    self.source_ended = true;
                }
            }
            // The usual case: a block has come, and a little is left of the one before.
            if before < BLOCK && self.filled > before {
                break;
            }
        }
        self.filled > before
    }
}

/// A [`Piece`] by its place in the buffer.
enum Found {
    Event { from: usize, to: usize, offset: u64 },
    NotObject { offset: u64 },
    TooLong { offset: u64 },
    Header { value: Option<(usize, usize)>, offset: u64 },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out a byte at a time, so that every buffer boundary is tried.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let n = self.0.len().min(1);
            buf[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn pieces(text: &str) -> (Vec<String>, End) {
        let mut cutter = Cutter::new(Trickle(text.as_bytes()));
        let mut out = Vec::new();
        while let Some(piece) = cutter.next() {
            let show = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            out.push(match piece {
                Piece::Event { event, .. } => show(&event.text[event.at..]),
                Piece::NotObject { offset } => format!("not an object @{offset}"),
                Piece::TooLong { offset } => format!("too long @{offset}"),
                Piece::Header { key, text, .. } => format!("{}={}", show(key), show(text.unwrap())),
            });
        }
        (out, cutter.into_end().0)
    }

    #[test]
    fn events_may_stand_anywhere_in_the_object() {
        let (found, end) =
            pieces(r#" {"a":1,"traceEvents":[{"x":"}"}, {"y":[{}]} ,],"b":{"c":[2]},"traceEvents":[{}]} "#);
        assert_eq!(found, ["a=1", r#"{"x":"}"}"#, r#"{"y":[{}]}"#, r#"b={"c":[2]}"#, "{}"]);
        assert_eq!(end, End::Whole);
    }

    #[test]
    fn a_bare_list_needs_no_end() {
        assert_eq!(
            pieces("\u{feff}[{\"a\":1},{\"b\":2}"),
            (vec![r#"{"a":1}"#.into(), r#"{"b":2}"#.into()], End::Whole)
        );
        assert_eq!(pieces("[{\"a\":1},{\"b\":").1, End::CutOff { offset: 9 });
        assert_eq!(pieces("[]"), (vec![], End::Whole));
    }

    #[test]
    fn ends_are_told_apart() {
        assert_eq!(pieces(r#"{"traceEvents":[{}"#).1, End::CutOff { offset: 18 });
        assert_eq!(pieces(r#"{"traceEvents":[{}]"#).1, End::CutOff { offset: 19 });
        assert_eq!(pieces(r#"{"traceEvents":[{}]} x"#).1, End::Trailing { offset: 21 });
        assert_eq!(pieces(r#"{"traceEvents":[{}}"#).1, End::Broken { offset: 18 });
        assert_eq!(pieces("\u{89}PNG").1, End::Broken { offset: 0 });
        assert_eq!(pieces("").1, End::CutOff { offset: 0 });
    }

    #[test]
    fn elements_that_are_no_objects_are_named() {
        assert_eq!(
            pieces(r#"[null,1,"a",[2],{}]"#).0,
            ["not an object @1", "not an object @6", "not an object @8", "not an object @12", "{}"]
        );
    }

    #[test]
    fn a_long_event_is_passed_over() {
        let long = format!(r#"[{{"a":"{}"}},{{}}"#, "x".repeat(MAX_EVENT / 2 * 3));
        let mut cutter = Cutter::new(long.as_bytes());
        assert!(matches!(cutter.next(), Some(Piece::TooLong { offset: 1 })));
        assert!(matches!(cutter.next(), Some(Piece::Event { .. })));
        assert!(cutter.next().is_none());
    }

    #[test]
    fn a_long_header_field_is_passed_over() {
        let long = format!(r#"{{"log":"{}","traceEvents":[{{}}]}}"#, "x".repeat(MAX_HEADER_FIELD * 2));
        let mut cutter = Cutter::new(long.as_bytes());
        assert!(matches!(cutter.next(), Some(Piece::Header { key: b"log", text: None, offset: 1 })));
        assert!(matches!(cutter.next(), Some(Piece::Event { event: Marked { .. }, .. })));
        assert!(cutter.next().is_none());
        assert_eq!(cutter.into_end().0, End::Whole);
    }
}
