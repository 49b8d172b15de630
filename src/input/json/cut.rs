//! Cutting a JSON trace into its events, chunk by chunk.
//!
//! The cutter knows the container only: an object with `traceEvents` anywhere in it, or a bare list, perhaps without its
//! closing bracket. It finds where each event begins and ends and leaves its meaning to the parser. What
//! stands beside the events (the header) is handed out field by field.
//!
//! An event counts if it looks like one before, or can be walked through, if nothing in it is suspect (`marks`) and if what comes behind it
//! may follow an event. All others are doubtful: the mender reads them byte by byte, and if it gives them up, the way back is
//! searched for (`resync`). So one broken event takes no other along.
//!
//! A chunk may end anywhere. What passes from one to the next is a [`State`] and the text of what was begun and not ended; where
//! the chunks are cut changes nothing in what is found, if the text is JSON. Of an event that is broken and lies across the end of
//! a chunk less may be saved than of one whose closing bracket is at hand; waiting for that would be waiting for the file's end where
//! a quote is missing.

use std::collections::VecDeque;

use memchr::memmem;

use super::marks::Marks;
use super::mend::{Mender, Mending};
use super::rest::is_rest;
use super::resync::{Lost, Within};
use super::scan::{Nesting, is_space};
use crate::damage::Damage;

/// No event is longer; a stray quote makes strings that are.
pub(super) const MAX_EVENT: usize = 64 << 20;

/// What the cutter finds, in file order.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// One event object that is JSON as far as it was looked at, and whether it was recognised.
    Event { event: Marked<'a>, offset: u64, bytes: u64, recognised: bool },
    /// Something that is wrong, and how many bytes of the text it cost.
    Fault(Fault),
    /// A field beside the events, its key still escaped; `text` is `None` if it is too long to keep.
    Header { key: &'a [u8], text: Option<&'a [u8]>, offset: u64, bytes: u64 },
}

/// Something that is wrong with the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: Damage,
    /// Its place in the file's text.
    pub(super) offset: u64,
    /// How many bytes it cost.
    pub(super) bytes: u64,
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

/// Who reads events says where they end, and whether they are objects.
pub(super) trait Events {
    /// The byte behind the event that begins at a byte, if it looks like one before.
    fn recognise(&mut self, text: &[u8], at: usize, marks: &mut Marks) -> Option<usize>;

    /// Whether what begins at a byte and goes to the text's end is an object, its members' insides aside.
    fn read(&mut self, text: &[u8], at: usize, marks: &mut Marks) -> bool;
}

/// What a cutter works with.
#[derive(Debug, Default)]
pub(super) struct Tools {
    pub(super) marks: Marks,
    pub(super) mender: Mender,
    /// Those of what the mender has written.
    pub(super) mended: Marks,
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
    pub(super) place: Place,
    pub(super) seen_events: bool,
}

/// Where in the container the cutter is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Start,
    Object,
    /// `commas` have come since the last element; at the list's beginning there is none to come, which is as if one had.
    List {
        in_object: bool,
        commas: u8,
    },
    /// Within a value that is too long to keep; `key` is its key if it is a header's.
    TooLong {
        nesting: Nesting,
        offset: u64,
        key: Option<Vec<u8>>,
        in_object: bool,
    },
    /// Behind the container's closing bracket.
    Closed {
        in_object: bool,
    },
    Lost(Lost),
    Over(End),
}

impl State {
    /// That of a file's beginning.
    pub(super) const START: State = State { place: Place::Start, seen_events: false };

    /// That before an event of the list, behind a comma.
    pub(super) fn in_list(in_object: bool) -> State {
        State { place: Place::List { in_object, commas: 1 }, seen_events: true }
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

/// The key of an event's phase.
pub(super) const PHASE: &[u8] = b"\"ph\"";

/// Whether an event has a phase, and nothing else in it looks like one. All others are read byte by byte.
pub(super) fn has_one_phase(event: &[u8]) -> bool {
    memmem::find_iter(event, PHASE).count() == 1
}

/// What comes behind a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behind {
    /// More text, which begins with what looks like an event.
    Event,
    /// More text.
    More,
    /// The file's end.
    Nothing,
    /// Nobody knows: reading failed.
    Failure,
}

impl Behind {
    /// Whether there is no more text.
    pub(super) fn is_end(self) -> bool {
        matches!(self, Behind::Nothing | Behind::Failure)
    }
}

/// How long a value is.
pub(super) enum Length {
    Known(usize),
    /// Over the limit.
    TooLong,
    /// Its end is not in the text.
    Open,
}

/// What one step led to.
pub(super) enum Step {
    Found(Found),
    Again,
    /// The text is over; what begins at the cutter's place is not.
    Pause,
}

/// What stands behind an event.
enum Next {
    /// What may stand there; where the cutter goes on, and how many commas it has passed.
    Proper { at: usize, commas: u8 },
    /// The text is over.
    Unknown,
    /// Anything else.
    Odd,
}

/// A [`Piece`] by its place in the text.
pub(super) enum Found {
    Event {
        from: usize,
        to: usize,
        recognised: bool,
    },
    /// What the mender has written of these bytes.
    Mended {
        from: usize,
        to: usize,
    },
    Fault(Fault),
    Header {
        value: Option<(usize, usize)>,
        offset: u64,
        bytes: u64,
    },
}

/// See the file's header.
pub(super) struct Cutter<'t> {
    pub(super) text: &'t [u8],
    pub(super) at: usize,
    /// The place of the text's first byte in the file's.
    pub(super) base: u64,
    pub(super) behind: Behind,
    pub(super) state: State,
    pub(super) key: Vec<u8>,
    pub(super) tools: &'t mut Tools,
    /// What is wrong and has not been handed out.
    faults: VecDeque<Fault>,
}

impl<'t> Cutter<'t> {
    pub(super) fn new(text: &'t [u8], base: u64, behind: Behind, state: State, tools: &'t mut Tools) -> Self {
        tools.marks.restart(0);
        Cutter { text, at: 0, base, behind, state, key: Vec::new(), tools, faults: VecDeque::new() }
    }

    /// The state behind this text, and how much of the text was used: the rest belongs in front of the next.
    pub(super) fn into_rest(self) -> (State, usize) {
        let used = if self.state.end().is_some() { self.text.len() } else { self.at };
        (self.state, used)
    }

    /// The next piece, or `None` at the text's end.
    // A call for each event would pass it through memory.
    #[inline(always)]
    pub(super) fn next(&mut self, events: &mut impl Events) -> Option<Piece<'_>> {
        match self.next_like_others(events) {
            Some((from, to)) => Some(self.event_at(from, to, true)),
            None => self.next_of_any_kind(events),
        }
    }

    /// The next event, if nothing is unusual: it looks like one before, and another one follows. This is nearly all of a trace.
    #[inline(always)]
    fn next_like_others(&mut self, events: &mut impl Events) -> Option<(usize, usize)> {
        let (Place::List { commas: 1, .. }, true) = (&self.state.place, self.faults.is_empty()) else { return None };
        let (text, from) = (self.text, self.at);
        if text.get(from) != Some(&b'{') {
            return None;
        }
        self.align_marks(b'{');
        let to = events.recognise(text, from, &mut self.tools.marks).filter(|to| to - from <= MAX_EVENT)?;
        let Next::Proper { at, commas: 1 } = self.next_begins(to) else { return None };
        if self.tools.marks.is_suspect(from, to) {
            return None;
        }
        self.at = at;
        Some((from, to))
    }

    #[inline]
    fn event_at(&mut self, from: usize, to: usize, recognised: bool) -> Piece<'_> {
        let event = Marked { text: &self.text[..to], at: from, marks: &mut self.tools.marks };
        Piece::Event { event, offset: self.base + from as u64, bytes: (to - from) as u64, recognised }
    }

    #[inline(never)]
    fn next_of_any_kind(&mut self, events: &mut impl Events) -> Option<Piece<'_>> {
        loop {
            if !self.faults.is_empty() {
                return self.faults.pop_front().map(Piece::Fault);
            }
            let step = match &self.state.place {
                Place::List { in_object, commas } => self.element(*in_object, *commas, events),
                Place::Start => self.start(),
                Place::Object => self.field(),
                Place::TooLong { .. } => self.pass_over(),
                Place::Closed { in_object } => self.closed(*in_object),
                Place::Lost(lost) => self.search(*lost),
                Place::Over(_) => Step::Pause,
            };
            // The borrow checker does not let a piece leave a loop that goes on otherwise; so the steps return places.
            return Some(match step {
                Step::Again => continue,
                Step::Pause if self.faults.is_empty() => return None,
                Step::Pause => continue,
                Step::Found(Found::Event { from, to, recognised }) => self.event_at(from, to, recognised),
                Step::Found(Found::Mended { from, to }) => {
                    let Tools { mender, mended, .. } = &mut *self.tools;
                    let event = Marked { text: &mender.json, at: 0, marks: mended };
                    Piece::Event {
                        event,
                        offset: self.base + from as u64,
                        bytes: (to - from) as u64,
                        recognised: false,
                    }
                }
                Step::Found(Found::Fault(fault)) => Piece::Fault(fault),
                Step::Found(Found::Header { value, offset, bytes }) => {
                    Piece::Header { key: &self.key, text: value.map(|(from, to)| &self.text[from..to]), offset, bytes }
                }
            });
        }
    }

    /// One element of the event list.
    fn element(&mut self, in_object: bool, mut commas: u8, events: &mut impl Events) -> Step {
        let first = loop {
            match self.peek() {
                Some(b',') => {
                    if commas > 0 {
                        self.fault(Damage::StrayComma, self.at);
                    }
                    commas = commas.saturating_add(1);
                }
                Some(byte) if is_space(byte) => {}
                first => break first,
            }
            self.at += 1;
        };
        if first != Some(b'{') {
            self.state.place = Place::List { in_object, commas };
            return if self.faults.is_empty() { self.other_element(first, in_object) } else { Step::Again };
        }
        if commas == 0 {
            self.fault(Damage::MissingComma, self.at);
        }
        // Whoever comes back here finds that this was said.
        self.state.place = Place::List { in_object, commas: 1 };
        if self.faults.is_empty() { self.event(in_object, events) } else { Step::Again }
    }

    /// The event that begins here.
    fn event(&mut self, in_object: bool, events: &mut impl Events) -> Step {
        let (text, from) = (self.text, self.at);
        self.align_marks(b'{');
        let marks = &mut self.tools.marks;
        let (end, recognised) = match events.recognise(text, from, marks) {
            Some(to) => (Some(to), true),
            None => {
                let end = marks.container_end(text, from).filter(|to| to - from <= MAX_EVENT);
                let end = end.filter(|to| has_one_phase(&text[from..*to]));
                (end.filter(|to| events.read(&text[..*to], from, marks)), false)
            }
        };
        if let Some(to) = end.filter(|to| to - from <= MAX_EVENT)
            && !self.tools.marks.is_suspect(from, to)
        {
            match self.next_begins(to) {
                Next::Proper { at, commas } => {
                    self.at = at;
                    self.state.place = Place::List { in_object, commas };
                    return Step::Found(Found::Event { from, to, recognised });
                }
                Next::Unknown => return Step::Pause,
                Next::Odd => {}
            }
        }
        self.doubtful_event(in_object, events)
    }

    /// What stands behind an event that ends before a byte.
    #[inline]
    fn next_begins(&self, to: usize) -> Next {
        let (mut at, mut commas) = (to, 0u8);
        loop {
            match self.text.get(at) {
                Some(b',') => commas = commas.saturating_add(1),
                Some(byte) if is_space(*byte) => {}
                Some(b'{' | b']') if commas <= 1 => return Next::Proper { at, commas },
                Some(b'{') => return Next::Proper { at: to, commas: 0 },
                None if self.behind == Behind::More => return Next::Unknown,
                None if commas <= 1 => return Next::Proper { at, commas },
                _ => return Next::Odd,
            }
            at += 1;
        }
    }

    /// An event that was not understood, or whose end may be somewhere else.
    #[cold]
    fn doubtful_event(&mut self, in_object: bool, events: &mut impl Events) -> Step {
        let (text, from, offset) = (self.text, self.at, self.offset());
        let within = Within::List { in_object };
        let Tools { marks, mender, mended } = &mut *self.tools;
        match mender.object(text, from, self.behind.is_end()) {
            // An object that is no event and holds some: the beginning of another trace, say.
            Mending::Whole { .. } if !mender.has("ph") && mender.has_inner_phase => {
                self.lose_object(from, Damage::Garbage, within)
            }
            Mending::Whole { end } if end - from <= MAX_EVENT => {
                match is_rest(mender, text, end, self.behind.is_end()) {
                    None => return Step::Pause,
                    Some(true) => return self.lose_object(from, Damage::EventSyntax, within),
                    Some(false) => {}
                }
                self.at = end;
                self.state.place = Place::List { in_object, commas: 0 };
                if mender.faults.is_empty() {
                    marks.restart(from);
                    let is_object = events.read(&text[..end], from, marks);
                    debug_assert!(is_object, "it was read byte by byte");
                    return Step::Found(Found::Event { from, to: end, recognised: false });
                }
                // A quote too many has turned what comes next inside out.
                marks.restart(end);
                mended.restart(0);
                let faults = mender.faults.iter().map(|(kind, at)| (*kind, self.base + *at as u64));
                self.faults.extend(faults.map(|(kind, offset)| Fault { kind, offset, bytes: 0 }));
                let is_object = events.read(&mender.json, 0, mended);
                debug_assert!(is_object, "what the mender writes is JSON");
                Step::Found(Found::Mended { from, to: end })
            }
            Mending::Open if text.len() - from > MAX_EVENT => self.too_long(offset, false, in_object),
            Mending::Whole { .. } => self.too_long(offset, false, in_object),
            Mending::Open if !self.behind.is_end() => Step::Pause,
            // Nothing is wrong with it up to the end: there the text breaks off.
            Mending::Open if !mender.has_inner_phase => self.stop(End::CutOff { offset }),
            Mending::Open => self.lose_object(from, Damage::EventSyntax, within),
            Mending::Broken { at } => {
                let named = mender.has("name").then_some(self.base + at as u64);
                let step = self.lose_object(from, Damage::EventSyntax, within);
                if let Place::Lost(lost) = &mut self.state.place {
                    lost.named_up_to = named;
                }
                step
            }
        }
    }

    fn other_element(&mut self, first: Option<u8>, in_object: bool) -> Step {
        let (offset, from) = (self.offset(), self.at);
        let lost = |cutter: &mut Self| cutter.lose(from, Damage::Garbage, Within::List { in_object });
        match first {
            Some(b']') => {
                self.at += 1;
                self.state.place = if in_object { Place::Object } else { Place::Closed { in_object } };
                return Step::Again;
            }
            Some(b'}' | b':') => return lost(self),
            Some(_) => {}
            // A list without its closing bracket is how programs that may crash write traces: legal, if nothing failed.
            None if !in_object && self.behind == Behind::Nothing => return self.stop(End::Whole),
            None => return self.wait_from(from, offset),
        }
        let length = match self.value_length(MAX_EVENT) {
            Length::Known(length) => length,
            Length::TooLong => return lost(self),
            Length::Open if !self.behind.is_end() => return Step::Pause,
            Length::Open => return lost(self),
        };
        let value = &self.text[from..from + length];
        let next = self.text[from + length..].iter().find(|byte| !is_space(**byte));
        match next {
            None if !self.behind.is_end() => Step::Pause,
            Some(b',' | b']') | None if length > 0 && !value.contains(&b'{') => {
                self.at += length;
                self.state.place = Place::List { in_object, commas: 0 };
                Step::Found(Found::Fault(Fault { kind: Damage::ElementNotObject, offset, bytes: length as u64 }))
            }
            _ => lost(self),
        }
    }

    /// The text is over in the middle of something that begins at a byte. If there is no more text, the file was cut off at
    /// `offset`.
    pub(super) fn wait_from(&mut self, at: usize, offset: u64) -> Step {
        if self.behind.is_end() {
            return self.stop(End::CutOff { offset });
        }
        self.at = at;
        Step::Pause
    }

    pub(super) fn stop(&mut self, end: End) -> Step {
        self.at = self.text.len();
        self.state.place = Place::Over(end);
        Step::Pause
    }

    /// A quote too many before this place would have turned the marks inside out; here no string is open.
    #[inline]
    fn align_marks(&mut self, first: u8) {
        let mark = match first {
            b'{' | b'[' => self.tools.marks.bracket(self.text, self.at),
            _ => self.tools.marks.quote(self.text, self.at),
        };
        if mark != Some(self.at) {
            self.tools.marks.restart(self.at);
        }
    }

    /// How long the value at the current place is.
    pub(super) fn value_length(&mut self, limit: usize) -> Length {
        let rest = &self.text[self.at..];
        let first = rest.first().copied().unwrap_or_default();
        let end = match first {
            b'{' | b'[' => {
                self.align_marks(first);
                self.tools.marks.container_end(self.text, self.at)
            }
            b'"' => {
                self.align_marks(first);
                self.tools.marks.quote(self.text, self.at + 1).map(|quote| quote + 1)
            }
            _ => rest.iter().position(|b| is_space(*b) || b",:[]{}\"".contains(b)).map(|end| self.at + end),
        };
        match end {
            Some(end) if end - self.at <= limit => Length::Known(end - self.at),
            None if rest.len() <= limit => Length::Open,
            _ => Length::TooLong,
        }
    }

    pub(super) fn too_long(&mut self, offset: u64, is_header: bool, in_object: bool) -> Step {
        if !matches!(self.peek(), Some(b'{' | b'[' | b'"')) {
            return self.lose(self.at, Damage::HeaderSkipped, Within::Object);
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
        let bytes = self.base + self.at as u64 - offset;
        match key.take() {
            Some(key) => {
                self.key = key;
                self.state.place = Place::Object;
                Step::Found(Found::Header { value: None, offset, bytes })
            }
            None => {
                self.state.place = Place::List { in_object: *in_object, commas: 0 };
                Step::Found(Found::Fault(Fault { kind: Damage::EventTooLong, offset, bytes }))
            }
        }
    }

    #[cold]
    pub(super) fn fault(&mut self, kind: Damage, at: usize) {
        self.lost(kind, self.base + at as u64, 0);
    }

    pub(super) fn lost(&mut self, kind: Damage, offset: u64, bytes: u64) {
        self.faults.push_back(Fault { kind, offset, bytes });
    }

    /// Past white space and commas; the byte that follows.
    #[inline]
    pub(super) fn skip_separators(&mut self) -> Option<u8> {
        loop {
            let byte = self.peek()?;
            if !is_space(byte) && byte != b',' {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(super) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::json::container::MAX_HEADER_FIELD;
    use crate::input::json::fields::Fields;

    /// Reads events as objects, and no more.
    struct Walked;

    impl Events for Walked {
        fn recognise(&mut self, _: &[u8], _: usize, _: &mut Marks) -> Option<usize> {
            None
        }

        fn read(&mut self, text: &[u8], at: usize, marks: &mut Marks) -> bool {
            Fields::default().read(text, at, marks).is_ok()
        }
    }

    /// Cuts a text that comes in chunks of this size.
    fn pieces_of(text: &[u8], chunk: usize) -> (Vec<String>, End) {
        let (mut out, mut tools, mut state) = (Vec::new(), Tools::default(), State::START);
        let (mut from, mut to) = (0, 0);
        loop {
            to = text.len().min(to + chunk);
            let behind = if to == text.len() { Behind::Nothing } else { Behind::More };
            let mut cutter = Cutter::new(&text[from..to], from as u64, behind, state, &mut tools);
            while let Some(piece) = cutter.next(&mut Walked) {
                let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                out.push(match piece {
                    Piece::Event { event, .. } => show(&event.text[event.at..]),
                    Piece::Fault(Fault { kind, offset, bytes }) => format!("{kind:?} @{offset} {bytes}"),
                    Piece::Header { key, text, offset, .. } => match text {
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
            ["ElementNotObject @1 4", "ElementNotObject @6 1", "ElementNotObject @8 3", "ElementNotObject @12 3", "{}"]
        );
    }

    /// An event that is whole.
    const E: &str = r#"{"ph":"X","ts":1}"#;

    /// What is found in a list of events before, in and behind which there are whole ones.
    fn between_events(middle: &str) -> (Vec<String>, End) {
        let (found, end) = pieces(&format!("{{\"traceEvents\":[{E},{middle},{E}],\"traceName\":\"t\"}}"));
        assert_eq!(found.first().map(String::as_str), Some(E), "{middle}");
        assert_eq!(found[found.len() - 2..], [E, "traceName=\"t\""], "{middle}");
        (found[1..found.len() - 2].to_vec(), end)
    }

    /// Where the middle begins, and the comma behind it.
    const MIDDLE: usize = 34;

    #[test]
    fn behind_a_broken_event_the_next_is_found() {
        for middle in [
            r#"{"ph":"X","name":"a,"ts":1}"#,
            r#"{"ph":"X","name":a","ts":1}"#,
            r#"{"ph":"X","args":{"a":1}"#,
            r#"{"ph":"X","args":{"a":[1},"ts":1}"#,
            r#"{"ph":"X","args":{"a":"b"#,
            r#"{"ph":"X","ts":1"#,
            r#"{"ph":"X","ts":1,"args":{"name":"x"y z","b":{"name":1"#,
            r#"{"ph":"X","ts":nul}"#,
            r#"{"ph":"X",ts:1}"#,
            r#"{"ph":"X","name":"n","pid":1,"tid":1,"ts":1,"args":{"a":1},"b":2}}"#,
            r#"{"ph":"X","name":"n","pid":1,"tid":1,"ts":1},"dur":12}"#,
        ] {
            let bytes = middle.len() + 1;
            assert_eq!(
                between_events(middle),
                (vec![format!("EventSyntax @{MIDDLE} {bytes}")], End::Whole),
                "{middle}"
            );
        }
    }

    #[test]
    fn two_stray_quotes_do_not_hide_what_is_between_them() {
        for space in ["", " ", "\n  "] {
            let odd = format!(
                "{{{space}\"ph\":{space}\"X\",{space}\"args\":{space}{{{space}\"a\":{space}\"b\"c\"{space}}}{space}}}"
            );
            let text = format!("[{odd},{space}{{{space}\"ph\":{space}\"X\"}},{space}{odd},{space}{E}");
            let (found, end) = pieces(&text);
            let mended = r#"{"ph":"X","args":{"a":"b\"c"}}"#;
            let plain = format!("{{{space}\"ph\":{space}\"X\"}}");
            let faults: Vec<_> = found.iter().filter(|piece| piece.starts_with("StrayQuote")).collect();
            let events: Vec<_> = found.iter().filter(|piece| !piece.starts_with("StrayQuote")).collect();
            assert_eq!(
                (events, faults.len(), end),
                (
                    [mended, &plain, mended, E].iter().map(|e| e.to_string()).collect::<Vec<_>>().iter().collect(),
                    2,
                    End::Whole
                ),
                "{text}"
            );
        }
    }

    #[test]
    fn garbage_between_events_is_passed_over() {
        for (middle, bytes) in [
            ("\u{1}\u{2}gar}bage", 11),
            ("}", 2),
            ("]", 0),
            ("\"ts\":5}", 8),
            (r#"[[{"a":1}]]"#, 12),
            (r#"{"ph":1}}"#, 2),
        ] {
            let (found, end) = between_events(middle);
            assert_eq!(end, End::Whole);
            let lost = found.last().map(String::as_str).unwrap_or_default();
            let (kind, cost) = lost.rsplit_once(' ').unwrap();
            assert!(kind.starts_with("Garbage @"), "{middle}: {found:?}");
            assert_eq!(cost, bytes.to_string(), "{middle}: {found:?}");
        }
        assert_eq!(
            pieces(&format!("INFO: log\n{{\"schemaVersion\":1,\"traceEvents\":[{E}]}}")).0,
            ["Garbage @0 10", "schemaVersion=1", E]
        );
        assert_eq!(pieces(&format!("{{\"a\":\"x\"y\",\"traceEvents\":[{E}]}}")).0, ["a=\"x\"", "Garbage @8 3", E]);
    }

    #[test]
    fn commas_are_counted() {
        assert_eq!(pieces("[,2,").0, ["StrayComma @1 0", "ElementNotObject @2 1"]);
        assert_eq!(
            pieces(&format!("[{E}{E},,{E},\n,{E},]")).0,
            [E, "MissingComma @18 0", E, "StrayComma @36 0", E, "StrayComma @56 0", E,]
        );
    }

    #[test]
    fn any_number_of_commas_is_counted() {
        let found = pieces_of(format!("[{E}{}{E}]", ",".repeat(300)).as_bytes(), usize::MAX / 2).0;
        assert_eq!(found.iter().filter(|piece| piece.starts_with("StrayComma")).count(), 299);
        assert_eq!(found.iter().filter(|piece| *piece == E).count(), 2);
    }

    #[test]
    fn documents_may_follow_each_other() {
        let (found, end) = pieces(&format!("{{\"traceEvents\":[{E}]}}\n[{E},{E}"));
        assert_eq!(found, [E, "Documents @36 0", E, E]);
        assert_eq!(end, End::Whole);
    }

    #[test]
    fn what_is_too_long_is_passed_over() {
        let event = format!(r#"[{{"a":"{}"}},{{}}"#, "x".repeat(MAX_EVENT / 2 * 3));
        let header = format!(r#"{{"log":"{}","traceEvents":[{{}}]}}"#, "x".repeat(MAX_HEADER_FIELD * 2));
        for chunk in [1 << 20, usize::MAX / 2] {
            assert_eq!(
                pieces_of(event.as_bytes(), chunk),
                (vec!["EventTooLong @1 100663304".into(), "{}".into()], End::Whole)
            );
            assert_eq!(pieces_of(header.as_bytes(), chunk), (vec!["log too long @1".into(), "{}".into()], End::Whole));
        }
    }
}
