//! The keys by which damaged text is read: those of events, and those around their list.

use memchr::memmem;

use super::value::is_space;

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
pub(super) const HEADER_KEYS: &[&str] = &[
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
pub(super) fn begins_with_key(text: &[u8], keys: &[&str]) -> Option<bool> {
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
