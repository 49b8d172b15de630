//! A byte in a text that is being tokenized, and the steps that all parts of the tokenizer take from there.

use std::collections::VecDeque;

use super::marks::{LONG, Marks};
use super::piece::Fault;
use super::repair::{Outcome, Recoverer};
use super::scan::{Nesting, is_space};
use super::state::{After, End, Lost, Position, State, Within, is_endless};
use crate::damage::Damage;

/// Objects that are given up are read in vain up to so many times the text, and a little more.
const MAX_IN_VAIN: usize = 4;

/// Beyond that no longer object is read, in bytes: as much may be skipped where one is broken.
const MAX_BEYOND: usize = 4 << 10;

/// What cursors share.
#[derive(Debug, Default)]
pub(super) struct Tools {
    pub(super) marks: Marks,
    pub(super) recoverer: Recoverer,
    /// The marks of the JSON that the recoverer has written.
    pub(super) recovered: Marks,
}

/// How long a value is.
pub(super) enum Length {
    Known(usize),
    /// Over the limit.
    TooLong,
    /// Its end is not in the text.
    Open,
}

/// The result of one step.
pub(super) enum Step {
    Found(FoundPiece),
    /// The next step can be taken.
    Again,
    /// The text ends; what begins at the cursor does not.
    Pause,
}

/// A piece, by its offsets in the text.
pub(super) enum FoundPiece {
    Event {
        from: usize,
        to: usize,
        recognised: bool,
    },
    /// What the recoverer has written for these bytes.
    Recovered {
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

/// Where the tokenizer is in a text.
pub(super) struct Cursor<'t> {
    pub(super) text: &'t [u8],
    pub(super) at: usize,
    /// The offset of the text's first byte in the file's text.
    pub(super) base: u64,
    /// What comes after the text.
    pub(super) after: After,
    pub(super) state: State,
    /// The key of the header's field that is read.
    pub(super) key: Vec<u8>,
    /// How many bytes of objects that were given up have been read. See [`Cursor::give_up`].
    in_vain: usize,
    pub(super) tools: &'t mut Tools,
    /// What is wrong and has not been handed out.
    pub(super) faults: VecDeque<Fault>,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t [u8], base: u64, after: After, state: State, tools: &'t mut Tools) -> Self {
        tools.marks.restart(0);
        Cursor { text, at: 0, base, after, state, key: Vec::new(), in_vain: 0, tools, faults: VecDeque::new() }
    }

    /// Ends the text.
    pub(super) fn stop(&mut self, end: End) -> Step {
        self.at = self.text.len();
        self.state.position = Position::Over(end);
        Step::Pause
    }

    /// The text ends in the middle of something that begins at a byte. If there is no more text, the file was cut off at
    /// `offset`.
    pub(super) fn wait_from(&mut self, at: usize, offset: u64) -> Step {
        if self.after.is_end() {
            return self.stop(End::CutOff { offset });
        }
        self.at = at;
        Step::Pause
    }

    /// Marks the text anew if the marks are inside out, as after a stray quote: here no string is open.
    #[inline]
    pub(super) fn align_marks(&mut self, first: u8) {
        let is_marked = match first {
            b'{' | b'[' => self.tools.marks.is_bracket(self.text, self.at),
            _ => self.tools.marks.is_quote(self.text, self.at),
        };
        if !is_marked {
            self.tools.marks.restart(self.at);
        }
    }

    /// How long the value is that begins here.
    pub(super) fn value_length(&mut self, limit: usize) -> Length {
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
    pub(super) fn too_long(&mut self, offset: u64, is_header: bool, in_object: bool) -> Step {
        if !matches!(self.peek(), Some(b'{' | b'[' | b'"')) {
            return self.lose(self.at, Damage::HeaderSkipped, Within::Object);
        }
        let key = is_header.then(|| self.key.clone());
        self.state.position = Position::TooLong { nesting: Nesting::default(), offset, key, in_object };
        Step::Again
    }

    /// Drops a value that is too long to keep.
    pub(super) fn skip_too_long(&mut self) -> Step {
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
                Step::Found(FoundPiece::Header { value: None, offset, bytes })
            }
            None => {
                self.state.position = Position::List { in_object: *in_object, commas: 0 };
                Step::Found(FoundPiece::Fault(Fault { kind: Damage::EventTooLong, offset, bytes }))
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

    /// The byte here.
    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
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
    pub(super) fn lose_object(&mut self, from: usize, kind: Damage, within: Within) -> Step {
        let step = self.lose(from, kind, within);
        self.at = self.give_up(from);
        step
    }
}
