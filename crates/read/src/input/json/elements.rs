//! The list of events: where each event begins and ends, and what to do with one that is not understood.

use super::cursor::{Cursor, FoundPiece, Length, Step, Tools};
use super::keys::has_one_phase;
use super::marks::LONG;
use super::piece::{Events, Fault, MAX_EVENT};
use super::repair::Outcome;
use super::rest::is_rest;
use super::scan::is_space;
use super::state::{After, End, Position, Within};
use crate::damage::Damage;

/// What comes after an event.
pub(super) enum Next {
    /// What may come there; where the cursor goes on, and how many commas it has skipped.
    Proper { at: usize, commas: u8 },
    /// The text ends.
    Unknown,
    /// Anything else.
    Odd,
}

impl Cursor<'_> {
    /// One element of the event list.
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

    /// The event that begins here.
    fn event(&mut self, in_object: bool, events: &mut impl Events) -> Step {
        let (text, from) = (self.text, self.at);
        self.align_marks(b'{');
        let marks = &mut self.tools.marks;
        let (end, recognised) = match events.recognise(text, from, marks) {
            Some(to) => (Some(to), true),
            None => {
                let end = marks.container_end_within(text, from, LONG);
                // What is wrong with the part of it that is there says nothing of an event that will be read once it is all there.
                if end.is_none() && !self.after.is_end() && text.len() - from < LONG {
                    return Step::Pause;
                }
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
                    self.state.position = Position::List { in_object, commas };
                    return Step::Found(FoundPiece::Event { from, to, recognised });
                }
                Next::Unknown => return Step::Pause,
                Next::Odd => {}
            }
        }
        self.doubtful_event(in_object, events)
    }

    /// What comes after an event that ends before a byte.
    #[inline]
    pub(super) fn next_begins(&self, to: usize) -> Next {
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
                    return Step::Found(FoundPiece::Event { from, to: end, recognised: false });
                }
                // A stray quote has turned the marks of what comes next inside out.
                marks.restart(end);
                recovered.restart(0);
                let faults = recoverer.faults.iter().map(|(kind, at)| (*kind, self.base + *at as u64));
                self.faults.extend(faults.map(|(kind, offset)| Fault { kind, offset, bytes: 0 }));
                let is_object = events.read(&recoverer.json, 0, recovered);
                debug_assert!(is_object, "what the recoverer writes is JSON");
                Step::Found(FoundPiece::Recovered { from, to: end })
            }
            // Events have got into one whose closing bracket is missing. One that is too long and holds events would not be open for so long.
            Outcome::Open if text.len() - from > MAX_EVENT && recoverer.inner_phase.is_some() => {
                self.lose_object(from, Damage::EventSyntax, within)
            }
            Outcome::Open if text.len() - from > MAX_EVENT => self.too_long(offset, false, in_object),
            Outcome::Whole { .. } => self.too_long(offset, false, in_object),
            Outcome::Open if !self.after.is_end() => Step::Pause,
            // Nothing is wrong with it up to where the text is cut off.
            Outcome::Open if !recoverer.inner_phase.is_some() => self.stop(End::CutOff { offset }),
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
        let lost = |cursor: &mut Self| cursor.lose(from, Damage::Garbage, Within::List { in_object });
        match first {
            Some(b']') => {
                self.at += 1;
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
                Step::Found(FoundPiece::Fault(Fault { kind: Damage::ElementNotObject, offset, bytes: length as u64 }))
            }
            _ => lost(self),
        }
    }
}
