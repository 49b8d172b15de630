//! Resynchronising: finding the next event after text that is lost.
//!
//! The next event is a brace and one of the keys that events begin with, an object that can be read to its end, and a phase. So
//! what is found is a whole event, or what somebody has put into an argument to look like one. Everything between the broken byte
//! and the next event counts as lost. The end of the list is recognised by what comes after it, and the list's beginning by its
//! key.

use memchr::memmem;

use super::list::{End, Lost, MAX_EVENT, Position, State, Step, Tokenizer, Within, is_endless};
use super::repair::{Outcome, Recoverer};
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
                    self.state = State { position, seen_events };
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

/// No more of the text is read.
const MAX_REST: usize = 512;

/// Whether the text after an object is the rest of it. The object is the one that the recoverer read last. `None`: the text ends
/// too early to know.
pub(super) fn is_rest(recoverer: &Recoverer, text: &[u8], end: usize, is_last: bool) -> Option<bool> {
    let after = &text[end..text.len().min(end + MAX_REST)];
    // Up to where something else may begin.
    let length = after.iter().position(|byte| matches!(byte, b'{' | b']'));
    if length.is_none() && after.len() < MAX_REST && !is_last {
        return None;
    }
    let rest = &after[..length.unwrap_or(after.len())];
    let first = rest.iter().copied().find(|byte| !is_space(*byte));
    if first == Some(b'}') {
        return Some(recoverer.has_strange_member);
    }
    let key = rest.iter().position(|byte| !is_space(*byte) && *byte != b',').unwrap_or(rest.len());
    let goes_on = rest.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || b".+-".contains(byte));
    if goes_on {
        let has_key = memchr::memchr_iter(b'"', rest).any(|at| begins_with_key(&rest[at..], EVENT_KEYS) == Some(true));
        return Some(has_key || rest.contains(&b'}'));
    }
    let next = EVENT_KEYS.iter().find(|known| begins_with_key(&rest[key..], &[known]) == Some(true));
    Some(next.is_some_and(|next| recoverer.lacks(next)))
}

pub(super) const PHASE: &[u8] = b"\"ph\"";

/// Whether an event has a phase, and nothing else in it looks like one. The recoverer reads all others.
pub(super) fn has_one_phase(event: &[u8]) -> bool {
    memmem::find_iter(event, PHASE).take(2).count() == 1
}

/// Keys of events. A string in which one of them looks like a key has run into what follows it.
pub(super) const EVENT_KEYS: &[&str] =
    &["ph", "name", "cat", "pid", "tid", "ts", "dur", "id", "args", "bp", "s", "tts", "tdur", "id2"];

/// The position of a phase in [`EVENT_KEYS`].
pub(super) const PHASE_BIT: usize = 0;

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

/// Whether a text begins with one of some keys in quotes, and a colon, white space aside. `None`: the text ends too early to know.
fn begins_with_key(text: &[u8], keys: &[&str]) -> Option<bool> {
    let mut is_open = false;
    for key in keys {
        let quoted = text.iter().copied();
        let wanted = std::iter::once(b'"').chain(key.bytes()).chain(std::iter::once(b'"'));
        let length = key.len() + 2;
        if !quoted.zip(wanted).all(|(is, should)| is == should) {
            continue;
        }
        match text.get(length..).and_then(|rest| rest.iter().find(|byte| !is_space(**byte))) {
            Some(b':') => return Some(true),
            Some(_) => {}
            None => is_open = true,
        }
    }
    if is_open { None } else { Some(false) }
}

/// Whether a list of events begins in a text.
pub(super) fn holds_list_of_events(text: &[u8]) -> bool {
    memmem::find_iter(text, b"\"traceEvents\"").any(|at| {
        let mut visible = text[at + b"\"traceEvents\"".len()..].iter().filter(|byte| !is_space(**byte));
        visible.next() == Some(&b':') && visible.next() == Some(&b'[')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the rest of the object that a text begins with comes after it.
    fn found(text: &str, is_last: bool) -> Option<bool> {
        let mut recoverer = Recoverer::default();
        let Outcome::Whole { end } = recoverer.object(text.as_bytes(), 0, is_last) else { panic!("{text}") };
        is_rest(&recoverer, text.as_bytes(), end, is_last)
    }

    #[test]
    fn what_goes_on_is_the_rest() {
        for text in [
            r#"{"ph":"X","name":"n","pid":1,"tid":1,"ts":1,"dur":2,"args":{"a":1},"b":2}},{"#,
            r#"{"ph":"X","name":"n","pid":1,"tid":1,"ts":1,"dur":2},"args":{"a":1}},{"#,
            r#"{"ph":"X","name":"n","pid":1,"tid":1,"ts":12}4,"dur":2},{"#,
            r#"{"ph":"X","name":"n","pid":1,"tid":1,"ts":1,"dur":1}2},{"#,
            "{\"ph\":\"X\",\"name\":\"n\"},\n \"pid\":1,\"tid\":1,\"ts\":1,\"dur\":12}\n,{",
            r#"{"ph":"s","name":"n","pid":1,"tid":1},"ts":1}]"#,
        ] {
            assert_eq!(found(text, false), Some(true), "{text}");
            assert_eq!(found(&text[..text.len() - 1], true), Some(true), "{text}");
            // However much of what follows is known, the answer is never another.
            let end =
                (1..text.len()).find(|end| serde_json::from_str::<serde_json::Value>(&text[..*end]).is_ok()).unwrap();
            assert!((end + 1..text.len()).all(|end| found(&text[..end], false) != Some(false)), "{text}");
        }
    }

    #[test]
    fn what_belongs_to_something_else_is_not() {
        const WHOLE: &str = r#"{"ph":"X","name":"n","pid":1,"tid":1,"ts":1,"dur":2,"args":{"a":1}}"#;
        for after in [
            "},{",
            ",\u{1}gar}bage,{",
            "\n4,\"dur\":2},{",
            r#","ts":5,"dur":2},{"#,
            r#","bp":"e"},{"#,
            r#","text",{"#,
            "\nINFO: \"loss\": 0.5\n,{",
            "]",
        ] {
            assert_eq!(found(&format!("{WHOLE}{after}"), false), Some(false), "{after}");
        }
        assert_eq!(found(r#"{"ph":"M","name":"thread_name","pid":1},"ts":1},{"#, false), Some(false));
    }
}
