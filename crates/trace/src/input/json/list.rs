//! Tokenizing a JSON trace: from text to single events, chunk by chunk.
//!
//! The tokenizer knows the container only: an object with `traceEvents` anywhere in it, or a bare list, perhaps without its closing
//! bracket. It finds where each event begins and ends and leaves its meaning to the parser. What is beside the events (the
//! header) is handed out field by field.
//!
//! An event counts if it looks like one before, or can be walked through, if nothing in it is suspect (`marks`) and if what comes
//! after it may follow an event. All others are doubtful and go to the recovering reader (see `repair`), so that one broken event
//! takes no other along.
//!
//! A chunk may end anywhere. What passes from one to the next is a [`State`] and the text of what was begun and not ended; where
//! the chunks end changes nothing in what is found, if the text is JSON. Of a broken event that lies across the end of a chunk
//! less may be saved than of one whose closing bracket is at hand; waiting for that would be waiting for the file's end where a
//! quote is missing.

use std::collections::VecDeque;

use super::keys::{has_one_phase, holds_list_of_events};
use super::marks::{LONG, Marks};
use super::repair::{Outcome, Recoverer};
use super::rest::is_rest;
use super::value::{Nesting, is_space};
use crate::damage::Damage;

/// A header field longer than this is skipped: it is no header (some tools append tables of their own).
const MAX_HEADER_FIELD: usize = 4 << 20;

/// A key and the white space around its colon are not longer than this: they are kept until the value is whole.
const MAX_BEFORE_VALUE: usize = 2 * MAX_HEADER_FIELD;

/// Objects that are given up are read in vain up to so many times the text, and a little more.
const MAX_IN_VAIN: usize = 4;

/// Beyond that no longer object is read, in bytes: as much may be skipped where one is broken.
const MAX_BEYOND: usize = 4 << 10;

#[derive(Debug, Default)]
pub(super) struct Tools {
    pub(super) marks: Marks,
    pub(super) recoverer: Recoverer,
    /// The marks of the JSON that the recoverer has written.
    pub(super) recovered: Marks,
}

enum Length {
    Known(usize),
    TooLong,
    /// Its end is not in the text.
    Open,
}

/// What a step has found: a piece, by its offsets in the text. What is wrong is among the [faults](Tokenizer::faults).
pub(super) enum Step {
    Event {
        from: usize,
        to: usize,
        read: Read,
    },
    Header {
        value: Option<(usize, usize)>,
        offset: u64,
        bytes: u64,
    },
    /// The next step can be taken.
    Again,
    /// The text ends; what begins here does not.
    Pause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// By a template.
    Recognised,
    Walked,
    /// By the recoverer, which has written it anew.
    Recovered,
}

/// No event is longer; a stray quote makes strings that are. Less in tests, which have to exceed it.
pub(super) const MAX_EVENT: usize = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// What the tokenizer finds, in file order.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// One event object that is JSON as far as it was read, and whether it was recognised.
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
    /// Its offset in the file's text.
    pub(super) offset: u64,
    /// How many bytes it cost.
    pub(super) bytes: u64,
}

#[derive(Debug)]
pub(super) struct Marked<'a> {
    /// The text up to the object's closing brace.
    pub(super) text: &'a [u8],
    /// Where its opening brace is.
    pub(super) at: usize,
    pub(super) marks: &'a mut Marks,
}

/// The parser of events: it decides where they end and whether they are objects.
pub(super) trait Events {
    /// The byte after the event that begins at a byte, if it looks like one before.
    fn recognise(&mut self, text: &[u8], at: usize, marks: &mut Marks) -> Option<usize>;

    /// Whether what begins at a byte and goes to the text's end is an object, its members' insides aside.
    fn read(&mut self, text: &[u8], at: usize, marks: &mut Marks) -> bool;
}

/// If this many bytes are lost before anything plausible, the search ends: some files, such as `/dev/zero`, never end. Smaller in tests,
/// which have to exceed it.
const MAX_EARLY_LOSS: usize = if cfg!(test) { 6 << 20 } else { 256 << 20 };

/// What begins later in the text, in bytes, comes after something plausible, which may be no more than the beginning of a list.
const EARLY: u64 = 64;

/// Whether what begins at one offset and has not ended at another has gone on for too long.
pub(super) fn is_endless(begin: u64, at: u64) -> bool {
    begin < EARLY && at - begin > MAX_EARLY_LOSS as u64
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Whole,
    /// In the middle of something.
    CutOff {
        offset: u64,
    },
    /// At something that cannot be there.
    Broken {
        offset: u64,
    },
    /// After the trace's end comes more.
    Trailing {
        offset: u64,
    },
}

/// What a tokenizer has to know of all text before its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) position: Position,
    pub(super) seen_events: bool,
    /// Whether a comma comes before the bracket that ended the list: then that may be one of an event whose beginning is lost.
    pub(super) ended_after_comma: bool,
}

/// Where in the container the tokenizer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Position {
    /// Before it.
    Start,
    /// Between the fields of the object.
    Object,
    /// In the list of events. `commas` is how many came after the last element; at the list's beginning, where none belongs, it
    /// is 1.
    List {
        in_object: bool,
        commas: u8,
    },
    /// In a value that is too long to keep; `key` is its key if it is a header's.
    TooLong {
        nesting: Nesting,
        offset: u64,
        key: Option<Vec<u8>>,
        in_object: bool,
    },
    /// After its closing bracket.
    Closed {
        in_object: bool,
    },
    Lost(Lost),
    /// After all text.
    Over(End),
}

impl State {
    pub(super) const START: State = State { position: Position::Start, seen_events: false, ended_after_comma: false };

    /// Before an event of the list, after a comma.
    pub(super) fn in_list(in_object: bool) -> State {
        State { position: Position::List { in_object, commas: 1 }, seen_events: true, ended_after_comma: false }
    }

    /// How the text ended. Known once a tokenizer has read the last text.
    pub(super) fn end(&self) -> Option<End> {
        if let Position::Over(end) = self.position { Some(end) } else { None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// More text, which begins with what looks like an event.
    Event,
    More,
    Nothing,
    Failure,
}

impl After {
    pub(super) fn is_end(self) -> bool {
        matches!(self, After::Nothing | After::Failure)
    }
}

/// Where in the container the text is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    /// Before it.
    Nothing,
    /// Between the fields of the object.
    Object,
    /// In the list of events.
    List { in_object: bool },
    /// After its closing bracket.
    Closed { in_object: bool },
}

/// A stretch of text that is lost, up to where the tokenizer has resynchronised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) begin: u64,
    pub(super) kind: Damage,
    pub(super) within: Within,
    /// If the stretch begins with an event that had a name: the offset where this event is broken.
    pub(super) named_up_to: Option<u64>,
}

impl Lost {
    /// How the text ends if nothing is found any more.
    pub(super) fn end(self) -> End {
        let offset = self.begin;
        match self.within {
            Within::Closed { .. } => End::Trailing { offset },
            Within::List { .. } if self.kind == Damage::EventSyntax => End::CutOff { offset },
            Within::Nothing | Within::Object | Within::List { .. } => End::Broken { offset },
        }
    }
}

enum Next {
    /// What may come there; where the text goes on, and how many commas it has skipped.
    Proper {
        at: usize,
        commas: u8,
    },
    Unknown,
    Odd,
}

/// Finds the events of a text, and what is beside them. See the file's header.
pub(super) struct Tokenizer<'t> {
    pub(super) text: &'t [u8],
    pub(super) at: usize,
    /// The offset of the text's first byte in the file's text.
    pub(super) base: u64,
    /// What comes after the text.
    pub(super) after: After,
    pub(super) state: State,
    /// The key of the header's field that is read.
    pub(super) key: Vec<u8>,
    /// How many bytes of objects that were given up have been read. See [`Tokenizer::give_up`].
    in_vain: usize,
    pub(super) tools: &'t mut Tools,
    /// What is wrong and has not been handed out.
    pub(super) faults: VecDeque<Fault>,
}

impl<'t> Tokenizer<'t> {
    pub(super) fn new(text: &'t [u8], base: u64, after: After, state: State, tools: &'t mut Tools) -> Self {
        tools.marks.restart(0);
        Tokenizer { text, at: 0, base, after, state, key: Vec::new(), in_vain: 0, tools, faults: VecDeque::new() }
    }

    pub(super) fn stop(&mut self, end: End) -> Step {
        self.at = self.text.len();
        self.state.position = Position::Over(end);
        Step::Pause
    }

    /// The text ends in the middle of something that begins at a byte. If there is no more text, the file was cut off at
    /// `offset`.
    fn wait_from(&mut self, at: usize, offset: u64) -> Step {
        if self.after.is_end() {
            return self.stop(End::CutOff { offset });
        }
        self.at = at;
        Step::Pause
    }

    /// Marks the text anew if the marks are inside out, as after a stray quote: here no string is open.
    #[inline]
    fn align_marks(&mut self, first: u8) {
        let is_marked = match first {
            b'{' | b'[' => self.tools.marks.is_bracket(self.text, self.at),
            _ => self.tools.marks.is_quote(self.text, self.at),
        };
        if !is_marked {
            self.tools.marks.restart(self.at);
        }
    }

    /// How long the value is that begins here.
    fn value_length(&mut self, limit: usize) -> Length {
        let rest = &self.text[self.at..];
        let first = rest.first().copied().unwrap_or_default();
        let end = match first {
            b'{' | b'[' => {
                self.align_marks(first);
                self.tools.marks.container_end_within(self.text, self.at, limit)
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

    /// Gives up a value that is too long to keep.
    fn too_long(&mut self, offset: u64, is_header: bool, in_object: bool) -> Step {
        if !matches!(self.peek(), Some(b'{' | b'[' | b'"')) {
            return self.lose(self.at, Damage::HeaderSkipped, Within::Object);
        }
        let key = is_header.then(|| self.key.clone());
        self.state.position = Position::TooLong { nesting: Nesting::default(), offset, key, in_object };
        Step::Again
    }

    /// Drops a value that is too long to keep.
    fn skip_too_long(&mut self) -> Step {
        let Position::TooLong { nesting, offset, key, in_object } = &mut self.state.position else {
            return Step::Again;
        };
        let offset = *offset;
        let Some(length) = nesting.end(&self.text[self.at..]) else {
            self.at = self.text.len();
            if is_endless(offset, self.offset()) {
                return self.stop(End::Broken { offset });
            }
            return self.wait_from(self.at, offset);
        };
        self.at += length;
        let bytes = self.base + self.at as u64 - offset;
        match key.take() {
            Some(key) => {
                self.key = key;
                self.state.position = Position::Object;
                Step::Header { value: None, offset, bytes }
            }
            None => {
                self.state.position = Position::List { in_object: *in_object, commas: 0 };
                self.lost(Damage::EventTooLong, offset, bytes);
                Step::Again
            }
        }
    }

    /// Reports what is wrong and cost no text.
    #[cold]
    pub(super) fn fault(&mut self, kind: Damage, at: usize) {
        self.lost(kind, self.base + at as u64, 0);
    }

    /// Reports what is wrong, and how much text it cost.
    pub(super) fn lost(&mut self, kind: Damage, offset: u64, bytes: u64) {
        self.faults.push_back(Fault { kind, offset, bytes });
    }

    /// Skips white space and commas, and returns the byte that follows.
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
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Its offset in the file's text.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Reads the object that begins at a byte with the recoverer.
    #[cold]
    pub(super) fn recover(&mut self, at: usize) -> Outcome {
        let end = self.text.len();
        let to = if self.is_over_budget() { end.min(at + MAX_BEYOND) } else { end };
        match self.tools.recoverer.object(&self.text[..to], at, to == end && self.after.is_end()) {
            Outcome::Open if to < end => Outcome::Broken { at: to },
            outcome => outcome,
        }
    }

    /// Gives up the object at a byte that was read last. Returns where the search for the next event goes on: in the object, which may
    /// hold whole ones. Objects that are broken within each other would be read again and again like that, so beyond a budget what was
    /// read is skipped.
    pub(super) fn give_up(&mut self, at: usize) -> usize {
        let read = self.tools.recoverer.reached - at;
        self.in_vain += read;
        if self.is_over_budget() { at + read.clamp(1, MAX_BEYOND) } else { at + 1 }
    }

    fn is_over_budget(&self) -> bool {
        self.in_vain > MAX_IN_VAIN * self.text.len() + LONG
    }

    /// Gives up what begins at a byte.
    #[cold]
    pub(super) fn lose(&mut self, from: usize, kind: Damage, within: Within) -> Step {
        let begin = self.base + from as u64;
        self.state.position = Position::Lost(Lost { begin, kind, within, named_up_to: None });
        self.at = from;
        Step::Again
    }

    /// Gives up an object that was read; events in it may be whole.
    fn lose_object(&mut self, from: usize, kind: Damage, within: Within) -> Step {
        let step = self.lose(from, kind, within);
        self.at = self.give_up(from);
        step
    }

    /// The state after this text, and how much of the text was used: the rest belongs before the next text.
    pub(super) fn into_rest(self) -> (State, usize) {
        let used = if self.state.end().is_some() { self.text.len() } else { self.at };
        (self.state, used)
    }

    /// The next piece, or `None` at the text's end.
    // A call for each event would pass it through memory.
    #[inline(always)]
    pub(super) fn next(&mut self, events: &mut impl Events) -> Option<Piece<'_>> {
        loop {
            if !self.faults.is_empty() {
                return self.faults.pop_front().map(Piece::Fault);
            }
            let step = match &self.state.position {
                Position::List { in_object, commas } => self.element(*in_object, *commas, events),
                Position::Start => self.start(),
                Position::Object => self.field(),
                Position::TooLong { .. } => self.skip_too_long(),
                Position::Closed { in_object } => self.closed(*in_object),
                Position::Lost(lost) => self.search(*lost),
                Position::Over(_) => Step::Pause,
            };
            // The borrow checker does not let a piece leave a loop that goes on otherwise; so the steps return offsets.
            return Some(match step {
                Step::Again => continue,
                Step::Pause if self.faults.is_empty() => return None,
                Step::Pause => continue,
                Step::Event { from, to, read } => {
                    let (offset, bytes) = (self.base + from as u64, (to - from) as u64);
                    let Tools { marks, recoverer, recovered } = &mut *self.tools;
                    let event = match read {
                        Read::Recovered => Marked { text: &recoverer.json, at: 0, marks: recovered },
                        Read::Recognised | Read::Walked => Marked { text: &self.text[..to], at: from, marks },
                    };
                    Piece::Event { event, offset, bytes, recognised: read == Read::Recognised }
                }
                Step::Header { value, offset, bytes } => {
                    Piece::Header { key: &self.key, text: value.map(|(from, to)| &self.text[from..to]), offset, bytes }
                }
            });
        }
    }

    pub(super) fn element(&mut self, in_object: bool, mut commas: u8, events: &mut impl Events) -> Step {
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
            self.state.position = Position::List { in_object, commas };
            return if self.faults.is_empty() { self.other_element(first, in_object) } else { Step::Again };
        }
        if commas == 0 {
            self.fault(Damage::MissingComma, self.at);
        }
        // When this element is read again, the comma is not reported again.
        self.state.position = Position::List { in_object, commas: 1 };
        if self.faults.is_empty() { self.event(in_object, events) } else { Step::Again }
    }

    fn event(&mut self, in_object: bool, events: &mut impl Events) -> Step {
        let (text, from) = (self.text, self.at);
        self.align_marks(b'{');
        let marks = &mut self.tools.marks;
        let (end, read) = match events.recognise(text, from, marks) {
            Some(to) => (Some(to), Read::Recognised),
            None => {
                let end = marks.container_end_within(text, from, LONG);
                // What is wrong with the part of it that is there says nothing of an event that will be read once it is all there.
                if end.is_none() && !self.after.is_end() && text.len() - from < LONG {
                    return Step::Pause;
                }
                let end = end.filter(|to| has_one_phase(&text[from..*to]));
                (end.filter(|to| events.read(&text[..*to], from, marks)), Read::Walked)
            }
        };
        if let Some(to) = end.filter(|to| to - from <= MAX_EVENT)
            && !self.tools.marks.is_suspect(from, to)
        {
            match self.next_begins(to) {
                Next::Proper { at, commas } => {
                    self.at = at;
                    self.state.position = Position::List { in_object, commas };
                    return Step::Event { from, to, read };
                }
                Next::Unknown => return Step::Pause,
                Next::Odd => {}
            }
        }
        self.doubtful_event(in_object, events)
    }

    /// What comes after an event that ends before a byte.
    #[inline]
    fn next_begins(&self, to: usize) -> Next {
        let (mut at, mut commas) = (to, 0u8);
        loop {
            match self.text.get(at) {
                Some(b',') => commas = commas.saturating_add(1),
                Some(byte) if is_space(*byte) => {}
                Some(b'{' | b']') if commas <= 1 => return Next::Proper { at, commas },
                Some(b'{') => return Next::Proper { at: to, commas: 0 },
                None if self.after == After::More => return Next::Unknown,
                None if commas <= 1 => return Next::Proper { at, commas },
                _ => return Next::Odd,
            }
            at += 1;
        }
    }

    /// An event that is not understood, or whose end may be somewhere else.
    #[cold]
    fn doubtful_event(&mut self, in_object: bool, events: &mut impl Events) -> Step {
        let (text, from, offset) = (self.text, self.at, self.offset());
        let within = Within::List { in_object };
        let outcome = self.recover(from);
        let Tools { marks, recoverer, recovered, .. } = &mut *self.tools;
        match outcome {
            // An object that is no event and holds some: the beginning of another trace, say.
            Outcome::Whole { .. } if !recoverer.has("ph") && recoverer.inner_phase.is_some() => {
                self.lose_object(from, Damage::Garbage, within)
            }
            Outcome::Whole { end } if end - from <= MAX_EVENT => {
                match is_rest(recoverer, text, end, self.after.is_end()) {
                    None => return Step::Pause,
                    Some(true) => return self.lose_object(from, Damage::EventSyntax, within),
                    Some(false) => {}
                }
                self.at = end;
                self.state.position = Position::List { in_object, commas: 0 };
                if recoverer.faults.is_empty() {
                    marks.restart(from);
                    let is_object = events.read(&text[..end], from, marks);
                    debug_assert!(is_object, "it was read byte by byte");
                    return Step::Event { from, to: end, read: Read::Walked };
                }
                // A stray quote has turned the marks of what comes next inside out.
                marks.restart(end);
                recovered.restart(0);
                let faults = recoverer.faults.iter().map(|(kind, at)| (*kind, self.base + *at as u64));
                self.faults.extend(faults.map(|(kind, offset)| Fault { kind, offset, bytes: 0 }));
                let is_object = events.read(&recoverer.json, 0, recovered);
                debug_assert!(is_object, "what the recoverer writes is JSON");
                Step::Event { from, to: end, read: Read::Recovered }
            }
            // Events have got into one whose closing bracket is missing. One that is too long and holds events would not be open for so long.
            Outcome::Open if text.len() - from > MAX_EVENT && recoverer.inner_phase.is_some() => {
                self.lose_object(from, Damage::EventSyntax, within)
            }
            Outcome::Open if text.len() - from > MAX_EVENT => self.too_long(offset, false, in_object),
            Outcome::Whole { .. } => self.too_long(offset, false, in_object),
            Outcome::Open if !self.after.is_end() => Step::Pause,
            // Nothing is wrong with it up to where the text is cut off.
            Outcome::Open if recoverer.inner_phase.is_none() => self.stop(End::CutOff { offset }),
            Outcome::Open => self.lose_object(from, Damage::EventSyntax, within),
            Outcome::Broken { at } => {
                let named = recoverer.has("name").then_some(self.base + at as u64);
                let step = self.lose_object(from, Damage::EventSyntax, within);
                if let Position::Lost(lost) = &mut self.state.position {
                    lost.named_up_to = named;
                }
                step
            }
        }
    }

    fn other_element(&mut self, first: Option<u8>, in_object: bool) -> Step {
        let (offset, from) = (self.offset(), self.at);
        let lost = |all: &mut Self| all.lose(from, Damage::Garbage, Within::List { in_object });
        match first {
            Some(b']') => {
                self.at += 1;
                self.state.ended_after_comma = !matches!(self.state.position, Position::List { commas: 0, .. });
                self.state.position = if in_object { Position::Object } else { Position::Closed { in_object } };
                return Step::Again;
            }
            Some(b'}' | b':') => return lost(self),
            Some(_) => {}
            // A list without its closing bracket is how programs that may crash write traces: legal, if nothing failed.
            None if !in_object && self.after == After::Nothing => return self.stop(End::Whole),
            None => return self.wait_from(from, offset),
        }
        // What holds a brace before it ends is lost, wherever it ends.
        if first == Some(b'[')
            && let Some(brace) = memchr::memchr(b'{', &self.text[from..])
            && !matches!(self.value_length(brace), Length::Known(_))
        {
            return lost(self);
        }
        let length = match self.value_length(MAX_EVENT) {
            Length::Known(length) => length,
            Length::TooLong => return lost(self),
            Length::Open if !self.after.is_end() => return Step::Pause,
            Length::Open => return lost(self),
        };
        let value = &self.text[from..from + length];
        let next = self.text[from + length..].iter().find(|byte| !is_space(**byte));
        match next {
            None if !self.after.is_end() => Step::Pause,
            Some(b',' | b']') | None if length > 0 && !value.contains(&b'{') => {
                self.at += length;
                self.state.position = Position::List { in_object, commas: 0 };
                self.lost(Damage::ElementNotObject, offset, length as u64);
                Step::Again
            }
            _ => lost(self),
        }
    }

    pub(super) fn start(&mut self) -> Step {
        if self.base == 0 && self.at == 0 {
            if self.text.len() < 3 && self.after == After::More {
                return Step::Pause;
            }
            if self.text.starts_with(b"\xef\xbb\xbf") {
                self.at = 3;
            }
        }
        match self.skip_separators() {
            Some(b'{') => self.state.position = Position::Object,
            Some(b'[') => self.state = State::in_list(false),
            Some(_) => return self.lose(self.at, Damage::Garbage, Within::Nothing),
            None => {
                let end = self.offset();
                return if is_endless(0, end) {
                    self.stop(End::Broken { offset: 0 })
                } else {
                    self.wait_from(self.at, end)
                };
            }
        }
        self.at += 1;
        Step::Again
    }

    pub(super) fn field(&mut self) -> Step {
        match self.skip_separators() {
            Some(b'"') => {}
            Some(b'}') => {
                self.at += 1;
                self.state.position = Position::Closed { in_object: true };
                return Step::Again;
            }
            Some(_) => return self.lose(self.at, Damage::Garbage, Within::Object),
            None => {
                let end = self.offset();
                return self.wait_from(self.at, end);
            }
        }
        let (offset, begin) = (self.offset(), self.at);
        let Length::Known(length) = self.value_length(MAX_HEADER_FIELD) else {
            // A key that is too long will not get better with more text.
            let is_hopeless = self.text.len() - begin > MAX_HEADER_FIELD;
            return if is_hopeless { self.lose_field(begin) } else { self.wait_from(begin, offset) };
        };
        self.key.clear();
        self.key.extend_from_slice(&self.text[self.at + 1..self.at + length - 1]);
        self.at += length;
        let colon = self.skip_separators();
        if self.at - begin > MAX_BEFORE_VALUE {
            return self.lose_field(begin);
        }
        match colon {
            Some(b':') => self.at += 1,
            Some(_) => return self.lose_field(begin),
            None => return self.wait_from(begin, offset),
        }
        let first = self.skip_separators();
        if self.at - begin > MAX_BEFORE_VALUE {
            return self.lose_field(begin);
        }
        self.value(begin, first)
    }

    /// The value that begins here, of the field that begins at a byte.
    fn value(&mut self, begin: usize, first: Option<u8>) -> Step {
        let offset = self.base + begin as u64;
        match first {
            Some(b'[') if self.key == b"traceEvents" => {
                self.at += 1;
                self.state = State::in_list(true);
                return Step::Again;
            }
            Some(b'}' | b']' | b':') => return self.lose_field(begin),
            Some(_) => {}
            None => return self.wait_from(begin, offset),
        }
        let (from, length) = (self.at, self.value_length(MAX_HEADER_FIELD));
        let to = if let Length::Known(length) = length {
            from + length
        } else {
            self.text.len().min(from + MAX_HEADER_FIELD)
        };
        // A value in which the events are has not ended where it should have.
        if holds_list_of_events(&self.text[from..to]) {
            return self.lose_field(begin);
        }
        match length {
            Length::Known(_) => {
                self.at = to;
                Step::Header { value: Some((from, to)), offset, bytes: (to - begin) as u64 }
            }
            Length::TooLong => self.too_long(offset, true, true),
            Length::Open => self.wait_from(begin, offset),
        }
    }

    fn lose_field(&mut self, begin: usize) -> Step {
        self.lose(begin, Damage::HeaderSkipped, Within::Object)
    }

    /// What follows the container. Another trace there, or the rest of an older and longer one, is not of this one: several ranks wrote one file, or a
    /// program has appended to it.
    pub(super) fn closed(&mut self, in_object: bool) -> Step {
        while let Some(byte) = self.peek() {
            if byte != 0 && !is_space(byte) {
                // A bracket too many may have ended a bare list. Nothing less than two ends an object with its list, as an event does whose beginning is
                // lost within its arguments.
                let is_rest = self.state.ended_after_comma && matches!(byte, b'}' | b']' | b',');
                let is_over = self.state.seen_events && (in_object && !is_rest || byte == b'[');
                return if is_over {
                    self.stop(End::Trailing { offset: self.offset() })
                } else {
                    self.lose(self.at, Damage::Garbage, Within::Closed { in_object })
                };
            }
            self.at += 1;
        }
        if self.after.is_end() { self.stop(End::Whole) } else { Step::Pause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::json::fields::Fields;
    use crate::input::json::marks::Marks;

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

    /// Tokenizes a text that comes in chunks of this size.
    fn pieces_of(text: &[u8], chunk: usize) -> (Vec<String>, End) {
        pieces_with(text, chunk, &mut Tools::default())
    }

    fn pieces_with(text: &[u8], chunk: usize, tools: &mut Tools) -> (Vec<String>, End) {
        let (mut out, mut state) = (Vec::new(), State::START);
        let (mut from, mut to) = (0, 0);
        loop {
            to = text.len().min(to + chunk);
            let after = if to == text.len() { After::Nothing } else { After::More };
            let mut tokenizer = Tokenizer::new(&text[from..to], from as u64, after, state, tools);
            while let Some(piece) = tokenizer.next(&mut Walked) {
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
            let (next, used) = tokenizer.into_rest();
            if let Some(end) = next.end() {
                return (out, end);
            }
            (state, from) = (next, from + used);
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
    fn events_may_be_anywhere_in_the_object() {
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
    fn ends_are_distinguished() {
        assert_eq!(pieces(r#"{"traceEvents":[{}"#).1, End::CutOff { offset: 18 });
        assert_eq!(pieces(r#"{"traceEvents":[{}]"#).1, End::CutOff { offset: 19 });
        assert_eq!(pieces(r#"{"traceEvents":[{}]} x"#).1, End::Trailing { offset: 21 });
        assert_eq!(pieces(r#"{"traceEvents":[{}]}} x"#).1, End::Trailing { offset: 20 });
        assert_eq!(pieces(r#"{"traceEvents":[{}}"#).1, End::Broken { offset: 18 });
        assert_eq!(pieces("\u{89}PNG").1, End::Broken { offset: 0 });
        assert_eq!(pieces("").1, End::CutOff { offset: 0 });
    }

    const E: &str = r#"{"ph":"X","ts":1}"#;

    /// What is found in a list of events before, in and after which there are whole ones.
    fn between_events(middle: &str) -> (Vec<String>, End) {
        let (found, end) = pieces(&format!("{{\"traceEvents\":[{E},{middle},{E}],\"traceName\":\"t\"}}"));
        assert_eq!(found.first().map(String::as_str), Some(E), "{middle}");
        assert_eq!(found[found.len() - 2..], [E, "traceName=\"t\""], "{middle}");
        (found[1..found.len() - 2].to_vec(), end)
    }

    /// What is left begins with a bracket, which looks like that of the list of events.
    #[test]
    fn an_event_whose_beginning_is_lost_in_a_list_does_not_end_all() {
        let (found, _) = between_events(r#"],"block":[1,1,1],"graph id":0}}"#);
        assert!(!found.contains(&E.to_owned()), "{found:?}");
    }

    #[test]
    fn an_event_with_a_doubled_key_is_whole() {
        let middle = r#"{"ph":"X","name":"n","ts":1,"args":{"a":[5,{"c":"}]"}]},"name":"m","ts":2}"#;
        assert_eq!(between_events(middle), (vec![middle.to_owned()], End::Whole));
    }

    /// Quotes within a string cost their own event, whatever they do to the strings after it.
    #[test]
    fn two_stray_quotes_do_not_hide_what_is_between_them() {
        let odd = r#"{"ph":"X","args":{"a":"b"c"}}"#;
        let (found, end) = pieces(&format!("[{odd},\n{E},{odd},{E}"));
        let lost = |at: usize, bytes: usize| format!("EventSyntax @{at} {bytes}");
        let second = 1 + odd.len() + 2 + E.len() + 1;
        assert_eq!(found, [lost(1, odd.len() + 2), E.to_owned(), lost(second, odd.len() + 1), E.to_owned()]);
        assert_eq!(end, End::Whole);
    }

    #[test]
    fn garbage_between_events_is_skipped() {
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
    fn any_number_of_commas_is_counted() {
        let found = pieces_of(format!("[{E}{}{E}]", ",".repeat(300)).as_bytes(), usize::MAX / 2).0;
        assert_eq!(found.iter().filter(|piece| piece.starts_with("StrayComma")).count(), 299);
        assert_eq!(found.iter().filter(|piece| *piece == E).count(), 2);
    }

    /// How many bytes and words were read of a text that comes as a whole.
    fn work(text: &str) -> usize {
        let mut tools = Tools::default();
        pieces_with(text.as_bytes(), text.len(), &mut tools);
        tools.recoverer.work + tools.marks.work + tools.recovered.work
    }

    /// Texts in which a search for the end of each event would go through all that follows.
    #[test]
    fn no_damage_takes_the_square_of_the_length() {
        const OPEN: &str = r#"{"ph": "X", "name": "k", "d": [1, 2, "#;
        const ODD: &str = r#"{"ph": "X", "name": "k",, "d": ["#;
        const WHOLE: &str = r#"{"ph": "X", "name": "k", "ts": 1, "dur": 2}, "#;
        type Case = (&'static str, fn(usize) -> String);
        let all: [Case; 13] = [
            ("open", |n| OPEN.repeat(n)),
            ("open, then broken", |n| OPEN.repeat(n) + "?"),
            ("open, then a stray quote", |n| OPEN.repeat(n) + r#"{"name": "a"b"}"#),
            ("open, with whole ones between", |n| format!("{OPEN}{}", WHOLE.repeat(4)).repeat(n)),
            ("open, with quotes", |n| r#"{"ph": "X", "name": "a"b", "d": [1, "#.repeat(n)),
            ("strings that end nowhere", |n| r#"{"ts": 1, "ph": "X" x}, "#.repeat(n)),
            ("open strings", |n| r#"{"ph": "X", "name": "k, "d": [1, "#.repeat(n)),
            ("no phase", |n| r#"{"name": "k", "d": [1, "#.repeat(n) + "?"),
            ("closed, with a fault", |n| ODD.repeat(n) + &"]}".repeat(n)),
            ("closed, with a rest", |n| r#"{"ph": "X", "a": "#.repeat(n) + "1" + &r#"}, "b": 1}"#.repeat(n)),
            ("brackets of the wrong kind", |n| OPEN.repeat(n) + &"}}".repeat(n)),
            ("a broken word in each", |n| r#"{"ph": "X", "d": [nul, [[ "#.repeat(n)),
            ("lists in the list", |n| format!("[[1], {WHOLE}").repeat(n)),
        ];
        for (name, text) in all {
            let text = |n| format!(r#"{{"traceEvents": [{{"ph": "Z, {}"#, text(n));
            let [once, twice, fourfold] = [500, 1000, 2000].map(|n| work(&text(n)));
            assert!(fourfold < 5 * once && twice < 5 * once / 2, "{name}: {once}, {twice}, {fourfold}");
            assert!(once < 400 * text(500).len(), "{name}: {once} for {} bytes", text(500).len());
        }
    }

    /// Objects that are broken within each other take others along only if there are many.
    #[test]
    fn few_nested_events_hide_none_that_is_whole() {
        let (open, whole) = (r#"{"ph":"X","name":"k","d":[1,"#, r#"{"ph":"X","name":"k"}"#);
        let (found, end) = pieces(&format!("[{}{}", open.repeat(40), [whole; 3].join(",")));
        assert_eq!((found.len(), end), (4, End::Whole));
        assert!(found[1..].iter().all(|piece| piece == whole));
        let many = format!("[{}{}", open.repeat(10_000), vec![whole; 10_000].join(","));
        let (found, end) = pieces_of(many.as_bytes(), many.len());
        assert_eq!(end, End::Whole);
        assert!(found.iter().filter(|piece| *piece == whole).count() > 9_000, "{}", found.len());
    }

    /// Where nothing plausible comes, reading stops before the text does.
    #[test]
    fn what_is_no_trace_is_not_read_to_its_end() {
        let endless = 2 * MAX_EARLY_LOSS;
        for (begin, byte) in [
            ("", 0),
            ("", b' '),
            ("", b'x'),
            ("{", 0),
            ("{", b'{'),
            ("[", 0),
            ("[", b'['),
            ("[{", 0),
            ("{\"a\": \"", b'x'),
        ] {
            let text = [begin.as_bytes(), &vec![byte; endless]].concat();
            let (mut tools, mut state, mut from, mut to) = (Tools::default(), State::START, 0, 0);
            while state.end().is_none() && to < text.len() {
                to += 1 << 20;
                let mut tokenizer =
                    Tokenizer::new(&text[from..to.min(text.len())], from as u64, After::More, state, &mut tools);
                while let Some(piece) = tokenizer.next(&mut Walked) {
                    assert!(!matches!(piece, Piece::Event { .. }), "{begin} {byte}");
                }
                let used;
                (state, used) = tokenizer.into_rest();
                from += used;
            }
            assert!(state.end().is_some_and(|end| end != End::Whole), "{begin} {byte}: {:?}", state.position);
            assert!(to < MAX_EARLY_LOSS + 2 * MAX_EVENT, "{begin} {byte}");
        }
        // What is lost later is searched for the next event.
        let text = format!("[{E},{E},{E},{E}{}{E}", "x".repeat(MAX_EARLY_LOSS));
        assert_eq!(pieces_of(text.as_bytes(), 1 << 18).0.iter().filter(|piece| *piece == E).count(), 5);
    }

    /// An event without its closing bracket takes none along that comes after it, however long the text is.
    #[test]
    fn an_event_that_stays_open_does_not_swallow_the_rest() {
        let whole = r#"{"ph":"X","name":"k"}"#;
        let count = 2 * MAX_EVENT / (whole.len() + 1);
        let text = format!(r#"[{{"ph":"X","d":[1,{}"#, vec![whole; count].join(","));
        let (found, end) = pieces_of(text.as_bytes(), 1 << 18);
        assert_eq!((found.len(), end), (count + 1, End::Whole));
        assert_eq!(found[0], "EventSyntax @1 17");
        assert!(found[1..].iter().all(|piece| piece == whole));
    }

    #[test]
    fn what_is_too_long_is_skipped() {
        let event = format!(r#"[{{"a":"{}"}},{{}}"#, "x".repeat(MAX_EVENT / 2 * 3));
        let header = format!(r#"{{"log":"{}","traceEvents":[{{}}]}}"#, "x".repeat(MAX_HEADER_FIELD / 4 * 5));
        for chunk in [1 << 18, usize::MAX / 2] {
            assert_eq!(
                pieces_of(event.as_bytes(), chunk),
                (vec!["EventTooLong @1 1572872".into(), "{}".into()], End::Whole)
            );
            assert_eq!(pieces_of(header.as_bytes(), chunk), (vec!["log too long @1".into(), "{}".into()], End::Whole));
        }
    }
}
