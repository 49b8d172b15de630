//! Resynchronising: finding the next event after text that is lost.
//!
//! The next event is a brace and one of the keys that events begin with, an object that can be read to its end, and a phase. So
//! what is found is a whole event, or what somebody has put into an argument to look like one. Everything between the broken byte
//! and the next event counts as lost. The end of the list is recognised by what comes after it, and the list's beginning by its
//! key.

use super::keys::{EVENT_KEYS, HEADER_KEYS, begins_with_key};
use super::list::{End, Lost, MAX_EVENT, Position, State, Step, Tokenizer, Within, is_endless};
use super::repair::Outcome;
use super::value::is_space;

/// What the text at a byte is.
enum Sight {
    /// The text is in step again: it is read from here in this state.
    InStep(Position),
    /// The search goes on at a byte.
    Not { next: usize },
    /// More text is needed to know.
    Unknown,
}

impl Tokenizer<'_> {
    pub(super) fn search(&mut self, lost: Lost) -> Step {
        loop {
            let rest = &self.text[self.at..];
            let found = match lost.within {
                Within::Nothing | Within::Object => memchr::memchr2(b'{', b'"', rest),
                Within::List { .. } => memchr::memchr2(b'{', b']', rest),
                Within::Closed { .. } => memchr::memchr(b'{', rest),
            };
            let Some(at) = found.map(|found| self.at + found) else {
                self.at = self.text.len();
                self.state.position = Position::Lost(lost);
                let is_over = self.after.is_end() || is_endless(lost.begin, self.offset());
                return if is_over { self.stop(lost.end()) } else { Step::Pause };
            };
            if is_endless(lost.begin, self.base + at as u64) {
                return self.stop(lost.end());
            }
            let sight = match self.text[at] {
                b'{' => self.brace(at, lost),
                b'"' => self.list_key(at),
                _ => self.list_end(at, lost.within),
            };
            match sight {
                Sight::InStep(Position::Start) if self.state.seen_events => {
                    return self.stop(End::Trailing { offset: lost.begin });
                }
                Sight::InStep(position) => {
                    self.at = at;
                    let seen_events = self.state.seen_events || matches!(position, Position::List { .. });
                    self.state = State { position, seen_events, ..self.state };
                    let bytes = self.base + at as u64 - lost.begin;
                    self.lost(lost.kind, lost.begin, bytes);
                    return Step::Again;
                }
                Sight::Not { next } => self.at = next,
                Sight::Unknown if self.after.is_end() => self.at = at + 1,
                Sight::Unknown => {
                    self.at = at;
                    self.state.position = Position::Lost(lost);
                    return Step::Pause;
                }
            }
        }
    }

    /// Whether an event begins at a brace, or a trace.
    fn brace(&mut self, at: usize, lost: Lost) -> Sight {
        let not = Sight::Not { next: at + 1 };
        let Some(space) = self.text[at + 1..].iter().position(|byte| !is_space(*byte)) else { return Sight::Unknown };
        let key = &self.text[at + 1 + space..];
        if matches!(lost.within, Within::Nothing | Within::Closed { .. }) {
            match begins_with_key(key, HEADER_KEYS) {
                Some(true) => return Sight::InStep(Position::Start),
                Some(false) => {}
                None => return Sight::Unknown,
            }
        }
        match begins_with_key(key, EVENT_KEYS) {
            Some(true) => {}
            Some(false) => return not,
            None => return Sight::Unknown,
        }
        let outcome = self.recover(at);
        let recoverer = &self.tools.recoverer;
        match outcome {
            Outcome::Whole { end } if !recoverer.has("ph") => Sight::Not { next: end },
            // The second half of an event that has a stray brace in it.
            Outcome::Whole { end } if !recoverer.has("name") && lost.named_up_to == Some(self.base + at as u64) => {
                Sight::Not { next: end }
            }
            Outcome::Whole { .. } => {
                let in_object = match lost.within {
                    Within::Nothing => false,
                    Within::Object => true,
                    Within::List { in_object } | Within::Closed { in_object } => in_object,
                };
                Sight::InStep(Position::List { in_object, commas: 1 })
            }
            Outcome::Open if !self.after.is_end() && self.text.len() - at <= MAX_EVENT => Sight::Unknown,
            Outcome::Open | Outcome::Broken { .. } => Sight::Not { next: self.give_up(at) },
        }
    }

    /// Whether the key of the list of events begins at a quote.
    fn list_key(&self, at: usize) -> Sight {
        match begins_with_key(&self.text[at..], &["traceEvents"]) {
            Some(false) => Sight::Not { next: at + 1 },
            None => Sight::Unknown,
            Some(true) => {
                let after = &self.text[at + b"\"traceEvents\"".len()..];
                match after.iter().filter(|byte| !is_space(**byte)).nth(1) {
                    Some(b'[') => Sight::InStep(Position::Object),
                    Some(_) => Sight::Not { next: at + 1 },
                    None => Sight::Unknown,
                }
            }
        }
    }

    /// Whether a bracket ends the list of events.
    fn list_end(&self, at: usize, within: Within) -> Sight {
        let Within::List { in_object } = within else { return Sight::Not { next: at + 1 } };
        let not = Sight::Not { next: at + 1 };
        let mut visible = self.text[at + 1..].iter().enumerate().filter(|(_, byte)| !is_space(**byte));
        let next = visible.next();
        match next {
            None if self.after.is_end() && !in_object => {}
            None if self.after.is_end() => return not,
            None => return Sight::Unknown,
            Some((_, b'}')) if in_object => match visible.next() {
                None if self.after.is_end() => {}
                None => return Sight::Unknown,
                Some(_) => return not,
            },
            Some((_, b',')) if in_object => match visible.next() {
                None if self.after.is_end() => return not,
                None => return Sight::Unknown,
                Some((key, _)) => match begins_with_key(&self.text[at + 1 + key..], HEADER_KEYS) {
                    Some(true) => {}
                    Some(false) => return not,
                    None => return Sight::Unknown,
                },
            },
            Some(_) => return not,
        }
        Sight::InStep(Position::List { in_object, commas: 1 })
    }
}
