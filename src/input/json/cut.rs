//! Cutting a JSON trace into its events, chunk by chunk.
//!
//! The cutter knows the container only: an object with `traceEvents` anywhere in it, or a bare list, perhaps without its
//! closing bracket. It finds where each event begins and ends and leaves its meaning to the parser. What
//! stands beside the events (the header) is handed out field by field. Cutting first keeps an event with wrong fields from taking
//! its neighbours along (a stray quote or bracket still does).
//!
//! A chunk may end anywhere. What passes from one to the next is a [`State`] and the text of what was begun and not ended; where
//! the chunks are cut changes nothing in what is found.

use super::marks::Marks;
use super::scan::{Nesting, is_space};

/// A header field longer than this is passed over: it is no header (some tools append tables of their own).
const MAX_HEADER_FIELD: usize = 4 << 20;

/// A key and the white space around its colon are not longer than this: they are kept until the value is whole.
const MAX_BEFORE_VALUE: usize = 2 * MAX_HEADER_FIELD;

/// No event is longer; a stray quote makes strings that are.
const MAX_EVENT: usize = 64 << 20;

/// What the cutter finds, in file order.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// One event object, and whether it was recognised.
    Event { event: Marked<'a>, offset: u64, recognised: bool },
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

/// What a cutter has to know of all text before its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    place: Place,
    seen_events: bool,
}

/// Where in the container the cutter is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Start,
    Object,
    List {
        in_object: bool,
    },
    /// Within a value that is too long to keep; `key` is its key if it is a header's.
    TooLong {
        nesting: Nesting,
        offset: u64,
        key: Option<Vec<u8>>,
        in_object: bool,
    },
    /// Behind the container's closing bracket.
    Closed,
    Over(End),
}

impl State {
    /// That of a file's beginning.
    pub(super) const START: State = State { place: Place::Start, seen_events: false };

    /// That between two events of the list.
    pub(super) fn in_list(in_object: bool) -> State {
        State { place: Place::List { in_object }, seen_events: true }
    }

    /// Whether a list of events was met at all.
    pub(super) fn seen_events(&self) -> bool {
        self.seen_events
    }

    /// How the text ended. Known once a cutter was told that its text is the last.
    pub(super) fn end(&self) -> Option<End> {
        if let Place::Over(end) = self.place { Some(end) } else { None }
    }
}

/// What comes behind a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behind {
    /// More text.
    More,
    /// The file's end.
    Nothing,
    /// Nobody knows: reading failed.
    Failure,
}

/// How long a value is.
enum Length {
    Known(usize),
    /// Over the limit.
    TooLong,
    /// Its end is not in the text.
    Open,
}

/// What one step led to.
enum Step {
    Found(Found),
    Again,
    /// The text is over; what begins at the cutter's place is not.
    Pause,
}

/// A [`Piece`] by its place in the text.
enum Found {
    Event { from: usize, to: usize, offset: u64, recognised: bool },
    NotObject { offset: u64 },
    TooLong { offset: u64 },
    Header { value: Option<(usize, usize)>, offset: u64 },
}

/// See the file's header.
pub(super) struct Cutter<'t> {
    text: &'t [u8],
    at: usize,
    /// The place of the text's first byte in the file's.
    base: u64,
    behind: Behind,
    state: State,
    key: Vec<u8>,
    marks: &'t mut Marks,
}

impl<'t> Cutter<'t> {
    pub(super) fn new(text: &'t [u8], base: u64, behind: Behind, state: State, marks: &'t mut Marks) -> Self {
        marks.restart(0);
        Cutter { text, at: 0, base, behind, state, key: Vec::new(), marks }
    }

    /// The state behind this text, and how much of the text was used: the rest belongs in front of the next.
    pub(super) fn into_rest(self) -> (State, usize) {
        let used = if self.state.end().is_some() { self.text.len() } else { self.at };
        (self.state, used)
    }

    /// The next piece, or `None` at the text's end. `recognise` may know where an event ends that begins at a byte.
    #[inline]
    pub(super) fn next(
        &mut self,
        mut recognise: impl FnMut(&[u8], usize, &mut Marks) -> Option<usize>,
    ) -> Option<Piece<'_>> {
        loop {
            let step = match &self.state.place {
                Place::List { in_object } => self.element(*in_object, &mut recognise),
                Place::Start => self.start(),
                Place::Object => self.field(),
                Place::TooLong { .. } => self.pass_over(),
                Place::Closed => self.closed(),
                Place::Over(_) => Step::Pause,
            };
            // The borrow checker does not let a piece leave a loop that goes on otherwise; so the steps return places.
            return Some(match step {
                Step::Again => continue,
                Step::Pause => return None,
                Step::Found(Found::Event { from, to, offset, recognised }) => {
                    let event = Marked { text: self.text.get(..to)?, at: from, marks: self.marks };
                    Piece::Event { event, offset, recognised }
                }
                Step::Found(Found::NotObject { offset }) => Piece::NotObject { offset },
                Step::Found(Found::TooLong { offset }) => Piece::TooLong { offset },
                Step::Found(Found::Header { value, offset }) => {
                    Piece::Header { key: &self.key, text: value.map(|(from, to)| &self.text[from..to]), offset }
                }
            });
        }
    }

    fn start(&mut self) -> Step {
        if self.base == 0 && self.at == 0 {
            if self.text.len() < 3 && self.behind == Behind::More {
                return Step::Pause;
            }
            if self.text.starts_with(b"\xef\xbb\xbf") {
                self.at = 3;
            }
        }
        match self.skip_separators() {
            Some(b'{') => self.state.place = Place::Object,
            Some(b'[') => self.state = State::in_list(false),
            Some(_) => return self.stop(End::Broken { offset: self.offset() }),
            None => {
                let end = self.offset();
                return self.wait_from(self.at, end);
            }
        }
        self.at += 1;
        Step::Again
    }

    /// One field of the top-level object.
    fn field(&mut self) -> Step {
        match self.skip_separators() {
            Some(b'"') => {}
            Some(b'}') => {
                self.at += 1;
                self.state.place = Place::Closed;
                return Step::Again;
            }
            Some(_) => return self.stop(End::Broken { offset: self.offset() }),
            None => {
                let end = self.offset();
                return self.wait_from(self.at, end);
            }
        }
        let (offset, begin) = (self.offset(), self.at);
        let Length::Known(length) = self.value_length(MAX_HEADER_FIELD) else {
            // A key that is too long will not get better with more text.
            let is_hopeless = self.text.len() - begin > MAX_HEADER_FIELD;
            return if is_hopeless { self.stop(End::Broken { offset }) } else { self.wait_from(begin, offset) };
        };
        self.key.clear();
        self.key.extend_from_slice(&self.text[self.at + 1..self.at + length - 1]);
        self.at += length;
        let colon = self.skip_separators();
        if self.at - begin > MAX_BEFORE_VALUE {
            return self.stop(End::Broken { offset });
        }
        match colon {
            Some(b':') => self.at += 1,
            Some(_) => return self.stop(End::Broken { offset: self.offset() }),
            None => return self.wait_from(begin, offset),
        }
        let first = self.skip_separators();
        if self.at - begin > MAX_BEFORE_VALUE {
            return self.stop(End::Broken { offset });
        }
        match first {
            Some(b'[') if self.key == b"traceEvents" => {
                self.at += 1;
                self.state = State::in_list(true);
                return Step::Again;
            }
            Some(b'}' | b']' | b':') => return self.stop(End::Broken { offset: self.offset() }),
            Some(_) => {}
            None => return self.wait_from(begin, offset),
        }
        match self.value_length(MAX_HEADER_FIELD) {
            Length::Known(length) => {
                let from = self.at;
                self.at += length;
                Step::Found(Found::Header { value: Some((from, from + length)), offset })
            }
            Length::TooLong => self.too_long(offset, true, true),
            Length::Open => self.wait_from(begin, offset),
        }
    }

    /// One element of the event list.
    #[inline]
    fn element(
        &mut self,
        in_object: bool,
        recognise: &mut impl FnMut(&[u8], usize, &mut Marks) -> Option<usize>,
    ) -> Step {
        let first = self.skip_separators();
        let (offset, from) = (self.offset(), self.at);
        if first == Some(b'{') {
            self.align_marks(b'{');
            if let Some(to) = recognise(self.text, from, self.marks).filter(|to| to - from <= MAX_EVENT) {
                self.at = to;
                return Step::Found(Found::Event { from, to, offset, recognised: true });
            }
        }
        self.any_element(first, in_object)
    }

    fn any_element(&mut self, first: Option<u8>, in_object: bool) -> Step {
        let (offset, from) = (self.offset(), self.at);
        match first {
            Some(b']') => {
                self.at += 1;
                self.state.place = if in_object { Place::Object } else { Place::Closed };
                return Step::Again;
            }
            Some(b'}' | b':') => return self.stop(End::Broken { offset }),
            Some(_) => {}
            // A list without its closing bracket is how programs that may crash write traces: legal, if nothing failed.
            None if !in_object && self.behind == Behind::Nothing => return self.stop(End::Whole),
            None => return self.wait_from(from, offset),
        }
        match self.value_length(MAX_EVENT) {
            Length::Known(length) => {
                let to = from + length;
                self.at = to;
                Step::Found(if first == Some(b'{') {
                    Found::Event { from, to, offset, recognised: false }
                } else {
                    Found::NotObject { offset }
                })
            }
            Length::TooLong => self.too_long(offset, false, in_object),
            Length::Open => self.wait_from(from, offset),
        }
    }

    /// Behind the container: what follows it?
    fn closed(&mut self) -> Step {
        while let Some(byte) = self.peek() {
            if !is_space(byte) && byte != 0 {
                return self.stop(End::Trailing { offset: self.offset() });
            }
            self.at += 1;
        }
        if self.behind == Behind::More { Step::Pause } else { self.stop(End::Whole) }
    }

    /// The text is over in the middle of something that begins at a byte. If there is no more text, the file was cut off at
    /// `offset`.
    fn wait_from(&mut self, at: usize, offset: u64) -> Step {
        if self.behind != Behind::More {
            return self.stop(End::CutOff { offset });
        }
        self.at = at;
        Step::Pause
    }

    fn stop(&mut self, end: End) -> Step {
        self.at = self.text.len();
        self.state.place = Place::Over(end);
        Step::Pause
    }

    /// A quote too many before this place would have turned the marks inside out; here no string is open.
    #[inline]
    fn align_marks(&mut self, first: u8) {
        let mark = match first {
            b'{' | b'[' => self.marks.bracket(self.text, self.at),
            _ => self.marks.quote(self.text, self.at),
        };
        if mark != Some(self.at) {
            self.marks.restart(self.at);
        }
    }

    /// How long the value at the current place is.
    fn value_length(&mut self, limit: usize) -> Length {
        let rest = &self.text[self.at..];
        let first = rest.first().copied().unwrap_or_default();
        let end = match first {
            b'{' | b'[' => {
                self.align_marks(first);
                self.marks.container_end(self.text, self.at)
            }
            b'"' => {
                self.align_marks(first);
                self.marks.quote(self.text, self.at + 1).map(|quote| quote + 1)
            }
            _ => rest.iter().position(|b| is_space(*b) || matches!(b, b',' | b']' | b'}')).map(|end| self.at + end),
        };
        match end {
            Some(end) if end - self.at <= limit => Length::Known(end - self.at),
            None if rest.len() <= limit => Length::Open,
            _ => Length::TooLong,
        }
    }

    fn too_long(&mut self, offset: u64, is_header: bool, in_object: bool) -> Step {
        if !matches!(self.peek(), Some(b'{' | b'[' | b'"')) {
            return self.stop(End::Broken { offset });
        }
        let key = is_header.then(|| self.key.clone());
        self.state.place = Place::TooLong { nesting: Nesting::default(), offset, key, in_object };
        Step::Again
    }

    /// Drops a value that is too long to keep.
    fn pass_over(&mut self) -> Step {
        let Place::TooLong { nesting, offset, key, in_object } = &mut self.state.place else { return Step::Again };
        let offset = *offset;
        let Some(length) = nesting.end(&self.text[self.at..]) else {
            self.at = self.text.len();
            return self.wait_from(self.at, offset);
        };
        self.at += length;
        match key.take() {
            Some(key) => {
                self.key = key;
                self.state.place = Place::Object;
                Step::Found(Found::Header { value: None, offset })
            }
            None => {
                self.state.place = Place::List { in_object: *in_object };
                Step::Found(Found::TooLong { offset })
            }
        }
    }

    /// Past white space and commas; the byte that follows.
    #[inline]
    fn skip_separators(&mut self) -> Option<u8> {
        loop {
            let byte = self.peek()?;
            if !is_space(byte) && byte != b',' {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn offset(&self) -> u64 {
        self.base + self.at as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts a text that comes in chunks of this size.
    fn pieces_of(text: &[u8], chunk: usize) -> (Vec<String>, End) {
        let (mut out, mut marks, mut state) = (Vec::new(), Marks::default(), State::START);
        let (mut from, mut to) = (0, 0);
        loop {
            to = text.len().min(to + chunk);
            let behind = if to == text.len() { Behind::Nothing } else { Behind::More };
            let mut cutter = Cutter::new(&text[from..to], from as u64, behind, state, &mut marks);
            while let Some(piece) = cutter.next(|_, _, _| None) {
                let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                out.push(match piece {
                    Piece::Event { event, .. } => show(&event.text[event.at..]),
                    Piece::NotObject { offset } => format!("not an object @{offset}"),
                    Piece::TooLong { offset } => format!("too long @{offset}"),
                    Piece::Header { key, text, offset } => match text {
                        Some(text) => format!("{}={}", show(key), show(text)),
                        None => format!("{} too long @{offset}", show(key)),
                    },
                });
            }
            let (after, used) = cutter.into_rest();
            if let Some(end) = after.end() {
                return (out, end);
            }
            (state, from) = (after, from + used);
        }
    }

    /// The same whatever the chunks are.
    fn pieces(text: &str) -> (Vec<String>, End) {
        let whole = pieces_of(text.as_bytes(), text.len().max(1));
        for chunk in 1..text.len() {
            assert_eq!(pieces_of(text.as_bytes(), chunk), whole, "chunks of {chunk} bytes");
        }
        whole
    }

    proptest::proptest! {
        #[test]
        fn chunks_change_nothing(text in "[\\[{]([{}\\[\\]\",:a\\\\ ]|\"traceEvents\":\\[|\\{\"a\":1\\},){0,40}") {
            pieces(&text);
        }
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
    fn what_is_too_long_is_passed_over() {
        let event = format!(r#"[{{"a":"{}"}},{{}}"#, "x".repeat(MAX_EVENT / 2 * 3));
        let header = format!(r#"{{"log":"{}","traceEvents":[{{}}]}}"#, "x".repeat(MAX_HEADER_FIELD * 2));
        for chunk in [1 << 20, usize::MAX / 2] {
            assert_eq!(pieces_of(event.as_bytes(), chunk), (vec!["too long @1".into(), "{}".into()], End::Whole));
            assert_eq!(pieces_of(header.as_bytes(), chunk), (vec!["log too long @1".into(), "{}".into()], End::Whole));
        }
        let mut marks = Marks::default();
        let mut cutter = Cutter::new(event.as_bytes(), 0, Behind::Nothing, State::START, &mut marks);
        let piece = cutter.next(|text, at, marks| marks.container_end(text, at));
        assert!(matches!(piece, Some(Piece::TooLong { offset: 1 })), "recognised or not");
    }
}
