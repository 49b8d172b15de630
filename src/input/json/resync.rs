//! Finding the way back into a trace behind a place where it is broken.
//!
//! What is looked for is the next event: a brace and one of the keys that events begin with, an object that can be read to its end,
//! and a phase. So what is found is a whole event, or what somebody has put into an argument to look like one. Between the broken place
//! and the next event everything counts as lost. The end of the list is recognised by what comes behind it, and the list's
//! beginning by its key.

use std::ops::Range;

use memchr::memmem;

use super::cut::{Cutter, End, MAX_EVENT, Place, State, Step};
use super::mend::{EVENT_KEYS, Mending, begins_with_key};
use super::scan::is_space;
use crate::damage::Damage;

/// Keys of the object in which the list of events is.
const HEADER_KEYS: &[&str] = &[
    "traceEvents",
    "schemaVersion",
    "deviceProperties",
    "displayTimeUnit",
    "baseTimeNanoseconds",
    "distributedInfo",
    "traceName",
    "trace_id",
    "metadata",
    "otherData",
    "systemTraceEvents",
    "stackFrames",
    "record_shapes",
    "with_stack",
    "INFO",
];

/// Whatever looks like an event within something that does so and is broken is tried so often, before it is passed over.
const MAX_TRIES: u8 = 4;

/// Where the text was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    /// Before the container.
    Nothing,
    /// Beside the events.
    Object,
    List {
        in_object: bool,
    },
    /// Behind the container.
    Closed {
        in_object: bool,
    },
}

/// A stretch of text that is lost, up to where the way back is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost {
    begin: u64,
    kind: Damage,
    within: Within,
    /// Up to here something was read that looked like an event, and how much in it has been tried.
    tried_to: u64,
    tries: u8,
    /// Where the event is broken that begins the stretch, if it had a name up to there.
    pub(super) named_up_to: Option<u64>,
}

impl Lost {
    /// How the text ends if there is no way back.
    fn end(self) -> End {
        let offset = self.begin;
        match self.within {
            Within::Closed { .. } => End::Trailing { offset },
            Within::List { .. } if self.kind == Damage::EventSyntax => End::CutOff { offset },
            Within::Nothing | Within::Object | Within::List { .. } => End::Broken { offset },
        }
    }
}

/// What a place turned out to be.
enum Sight {
    /// From here on the text is read in this state.
    Way(Place),
    /// The search goes on at a byte.
    Not { next: usize },
    /// More text is needed to tell.
    Unknown,
}

impl Cutter<'_> {
    /// Gives up what begins at a byte.
    #[cold]
    pub(super) fn lose(&mut self, from: usize, kind: Damage, within: Within) -> Step {
        let begin = self.base + from as u64;
        self.state.place = Place::Lost(Lost { begin, kind, within, tried_to: begin, tries: 0, named_up_to: None });
        self.at = from;
        Step::Again
    }

    /// Gives up an object that was read; what is in it may be whole.
    pub(super) fn lose_object(&mut self, from: usize, kind: Damage, within: Within) -> Step {
        let step = self.lose(from, kind, within);
        self.at = from + 1;
        step
    }

    /// Looks for the way back.
    pub(super) fn search(&mut self, mut lost: Lost) -> Step {
        loop {
            let rest = &self.text[self.at..];
            let found = match lost.within {
                Within::Nothing | Within::Object => memchr::memchr2(b'{', b'"', rest),
                Within::List { .. } => memchr::memchr2(b'{', b']', rest),
                Within::Closed { .. } => memchr::memchr(b'{', rest),
            };
            let Some(at) = found.map(|found| self.at + found) else {
                self.at = self.text.len();
                self.state.place = Place::Lost(lost);
                return if self.behind.is_end() { self.stop(lost.end()) } else { Step::Pause };
            };
            let sight = match self.text[at] {
                b'{' => self.brace(at, &mut lost),
                b'"' => self.list_key(at),
                _ => self.list_end(at, lost.within),
            };
            match sight {
                Sight::Way(place) => {
                    self.at = at;
                    let seen_events = self.state.seen_events || matches!(place, Place::List { .. });
                    self.state = State { place, seen_events };
                    let bytes = self.base + at as u64 - lost.begin;
                    self.lost(lost.kind, lost.begin, bytes);
                    return Step::Again;
                }
                Sight::Not { next } => self.at = next,
                Sight::Unknown if self.behind.is_end() => self.at = at + 1,
                Sight::Unknown => {
                    self.at = at;
                    self.state.place = Place::Lost(lost);
                    return Step::Pause;
                }
            }
        }
    }

    /// Whether an event begins at a brace, or a trace.
    fn brace(&mut self, at: usize, lost: &mut Lost) -> Sight {
        let not = Sight::Not { next: at + 1 };
        let Some(space) = self.text[at + 1..].iter().position(|byte| !is_space(*byte)) else { return Sight::Unknown };
        let key = &self.text[at + 1 + space..];
        if matches!(lost.within, Within::Nothing | Within::Closed { .. }) {
            match begins_with_key(key, HEADER_KEYS) {
                Some(true) => return Sight::Way(Place::Start),
                Some(false) => {}
                None => return Sight::Unknown,
            }
        }
        match begins_with_key(key, EVENT_KEYS) {
            Some(true) => {}
            Some(false) => return not,
            None => return Sight::Unknown,
        }
        match self.tools.mender.object(self.text, at, self.behind.is_end()) {
            Mending::Whole { end } if !self.tools.mender.has("ph") => Sight::Not { next: end },
            // The second half of an event that has a stray brace in it.
            Mending::Whole { end }
                if !self.tools.mender.has("name") && lost.named_up_to == Some(self.base + at as u64) =>
            {
                Sight::Not { next: end }
            }
            Mending::Whole { .. } => {
                let in_object = match lost.within {
                    Within::Nothing => false,
                    Within::Object => true,
                    Within::List { in_object } | Within::Closed { in_object } => in_object,
                };
                Sight::Way(Place::List { in_object, commas: 1 })
            }
            Mending::Open if self.text.len() - at > MAX_EVENT => not,
            Mending::Open => Sight::Unknown,
            Mending::Broken { at: broken } => {
                let (here, broken_at) = (self.base + at as u64, self.base + broken as u64);
                lost.tries = if here < lost.tried_to { lost.tries + 1 } else { 0 };
                lost.tried_to = lost.tried_to.max(broken_at);
                if lost.tries < MAX_TRIES {
                    return not;
                }
                // Reading everything within it again and again would take for ever.
                Sight::Not { next: (at + 1).max((lost.tried_to - self.base) as usize) }
            }
        }
    }

    /// Whether the key of the list of events stands at a quote.
    fn list_key(&self, at: usize) -> Sight {
        match begins_with_key(&self.text[at..], &["traceEvents"]) {
            Some(false) => Sight::Not { next: at + 1 },
            None => Sight::Unknown,
            Some(true) => {
                let behind = &self.text[at + b"\"traceEvents\"".len()..];
                match behind.iter().filter(|byte| !is_space(**byte)).nth(1) {
                    Some(b'[') => Sight::Way(Place::Object),
                    Some(_) => Sight::Not { next: at + 1 },
                    None => Sight::Unknown,
                }
            }
        }
    }

    /// Whether a list of events begins in a stretch of the text.
    pub(super) fn holds_list_of_events(&self, range: Range<usize>) -> bool {
        let text = &self.text[range];
        memmem::find_iter(text, b"\"traceEvents\"").any(|at| {
            let mut visible = text[at + b"\"traceEvents\"".len()..].iter().filter(|byte| !is_space(**byte));
            visible.next() == Some(&b':') && visible.next() == Some(&b'[')
        })
    }

    /// Whether a bracket ends the list of events.
    fn list_end(&self, at: usize, within: Within) -> Sight {
        let Within::List { in_object } = within else { return Sight::Not { next: at + 1 } };
        let not = Sight::Not { next: at + 1 };
        let mut visible = self.text[at + 1..].iter().enumerate().filter(|(_, byte)| !is_space(**byte));
        let next = visible.next();
        match next {
            None if self.behind.is_end() && !in_object => {}
            None if self.behind.is_end() => return not,
            None => return Sight::Unknown,
            Some((_, b'}')) if in_object => match visible.next() {
                None if self.behind.is_end() => {}
                None => return Sight::Unknown,
                Some(_) => return not,
            },
            Some((_, b',')) if in_object => match visible.next() {
                None if self.behind.is_end() => return not,
                None => return Sight::Unknown,
                Some((key, _)) => match begins_with_key(&self.text[at + 1 + key..], HEADER_KEYS) {
                    Some(true) => {}
                    Some(false) => return not,
                    None => return Sight::Unknown,
                },
            },
            Some(_) => return not,
        }
        Sight::Way(Place::List { in_object, commas: 1 })
    }
}
