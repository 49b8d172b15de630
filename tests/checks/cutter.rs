//! Any bytes through the JSON reader.
//!
//! - Chunks read in order and chunks read before it is known how they begin, as threads read them, give the same result.
//! - The way a text is divided into chunks does not change the result, if the text is JSON. For other texts this does not hold to
//!   the last byte: an event ends at its brackets if its end is within reach, and is given up where it breaks otherwise. Chunks end
//!   where an event seems to begin, so an event hardly ever spans two chunks.
//! - Events begin one after another, each with its brace.
//! - If serde_json reads the text as a trace, every event is passed on or counted by what it lacks, nothing else is, and
//!   nothing counts as broken or repaired.
//!
//! The last rule leaves out texts with a phase in an argument or twice in an event, and with a list of events in a header field. There
//! valid JSON looks like two traces that ran into each other, and is deliberately read as that where something else is odd.

use nccl_stacks::damage::{Damage, DamageReport};
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::input::json::{Division, Reader, Summary};

use super::plain;

/// The result: each event with its offset, and the rest.
type Found = (Vec<(u64, String)>, Summary);

fn read(text: &[u8], division: Division, reader: &mut Reader) -> Found {
    plain::read(reader, text, division, |event, offset| (offset, describe(event)))
}

fn describe(event: &nccl_stacks::event::Event<'_>) -> String {
    let nccl_stacks::event::Event { kind, ts, pid, tid, name, category, ids, thread_time, bind, args } = event;
    let texts = (name.map(|text| text.decoded()), category.map(|text| text.decoded()));
    format!("{kind:?} {ts} {pid:?} {tid:?} {texts:?} {ids:?} {thread_time:?} {bind:?} {args:?}")
}

fn damage(report: &DamageReport) -> Vec<String> {
    let met = report.iter().filter(|(_, tally)| tally.count > 0);
    met.map(|(description, tally)| format!("{} {tally:?}", description.name)).collect()
}

fn assert_same(a: &Found, b: &Found, how: &str) {
    assert_eq!(a.0, b.0, "{how}");
    assert_eq!(damage(&a.1.damage), damage(&b.1.damage), "{how}");
    let rest = |s: &Summary| {
        format!("{:?} {:?} {:?} {:?}", s.header, s.keys, (s.elements, s.events), (s.has_event_list, s.cut_off_at))
    };
    assert_eq!(rest(&a.1), rest(&b.1), "{how}");
}

/// Faults that a valid event can have: it lacks something.
const LACKING: [Damage; 3] = [Damage::EventWithoutTimestamp, Damage::IncompleteEvent, Damage::InvalidDuration];

/// The first byte says how the text after it is divided.
pub fn check(bytes: &[u8]) {
    let [size, text @ ..] = bytes else { return };
    let mut reader = plain::reader(ArgsWanted::All);
    let whole = read(text, plain::in_order(text.len() + 1), &mut reader);
    // A reader that has seen the events before knows them by their looks.
    // Very small chunks are mostly the same thing over and over again.
    let chunk = if *size == 0 { 1 } else { 16 + usize::from(*size) };
    let in_order = read(text, plain::in_order(chunk), &mut reader);
    let guessing = read(text, Division { in_order: false, ..plain::in_order(chunk) }, &mut reader);
    assert_same(&in_order, &guessing, "in order and guessing");
    let is_valid = plain::is_valid(text);
    if is_valid {
        assert_same(&whole, &in_order, "whole and in chunks");
    }
    let (found, summary) = &whole;
    assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0), "{found:?}");
    assert!(found.iter().all(|(at, _)| text[*at as usize] == b'{'), "{found:?}");
    assert_eq!(summary.events, found.len() as u64);
    assert!(summary.damage.lost_bytes() <= text.len() as u64, "{:?}", damage(&summary.damage));
    if is_valid {
        check_valid(text, found, summary);
    }
}

fn check_valid(text: &[u8], found: &[(u64, String)], summary: &Summary) {
    let Some(events) = plain::events(text) else { return };
    let phases = |event: &std::ops::Range<usize>| memchr::memmem::find_iter(&text[event.clone()], b"\"ph\"").count();
    let lists = memchr::memmem::find_iter(text, b"\"traceEvents\"").count();
    if lists > 1 || events.iter().any(|event| phases(event) > 1) {
        return;
    }
    for (at, _) in found {
        assert!(events.iter().any(|event| event.start as u64 == *at), "what begins at {at} is no event");
    }
    let empty = events.iter().filter(|event| plain::members(text, event.start).is_empty()).count() as u64;
    let lacking: u64 = LACKING.iter().map(|kind| summary.damage.get(*kind).count).sum();
    assert_eq!((summary.elements, summary.events + empty + lacking), (events.len() as u64, events.len() as u64));
    for (description, tally) in summary.damage.faults() {
        let may_be = LACKING.contains(&description.kind) || description.kind == Damage::ArgsTooDeep;
        assert!(may_be, "{} {tally:?} in a valid trace", description.name);
    }
}
