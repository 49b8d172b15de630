//! Plain implementations to compare with: JSON read one byte after another, of texts that serde_json accepts; a
//! trace loaded by one thread without anything that only files need.

use std::io::Read;
use std::num::NonZero;
use std::ops::Range;

use nccl_stacks::damage::DamageReport;
use nccl_stacks::event::{ArgsWanted, Event, Shard as _};
use nccl_stacks::input::json::{Collect, Division, Reader, Summary};
use nccl_stacks::store::batch::Shard;
use nccl_stacks::store::traces::Trace;
use nccl_stacks::store::{Builder, Store};
use nccl_stacks::time::TimeRule;

/// Whether a text is JSON for serde_json, strictly: UTF-8, escapes, numbers that a double can hold.
pub fn is_valid(text: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(text).is_ok()
}

/// The offset after the value that begins at an offset.
fn value_end(text: &[u8], at: usize) -> usize {
    let (mut depth, mut at) = (0, at);
    loop {
        match text[at] {
            b'"' => at = string_end(text, at),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            _ => at += 1,
        }
        let is_over = at == text.len() || matches!(text[at], b',' | b'}' | b']' | b' ' | b'\n' | b'\t' | b'\r');
        if depth == 0 && (is_over || matches!(text[at - 1], b'"' | b'}' | b']')) {
            return at;
        }
    }
}

/// The offset after the string that begins at an offset.
fn string_end(text: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

fn skip(text: &[u8], mut at: usize, also: &[u8]) -> usize {
    while at < text.len() && (matches!(text[at], b' ' | b'\n' | b'\t' | b'\r') || also.contains(&text[at])) {
        at += 1;
    }
    at
}

/// The elements of the list that begins at an offset.
pub fn elements(text: &[u8], at: usize) -> Vec<Range<usize>> {
    let (mut at, mut found) = (skip(text, at + 1, b","), Vec::new());
    while text[at] != b']' {
        let end = value_end(text, at);
        found.push(at..end);
        at = skip(text, end, b",");
    }
    found
}

/// The members of the object that begins at an offset: their keys with the quotes, and their values.
pub fn members(text: &[u8], at: usize) -> Vec<(Range<usize>, Range<usize>)> {
    let (mut at, mut found) = (skip(text, at + 1, b","), Vec::new());
    while text[at] != b'}' {
        let key = at..string_end(text, at);
        let value = skip(text, key.end, b":");
        let end = value_end(text, value);
        found.push((key, value..end));
        at = skip(text, end, b",");
    }
    found
}

/// The events of a valid trace; `None` if this is none: a list, or an object with lists of that name, of objects only.
pub fn events(text: &[u8]) -> Option<Vec<Range<usize>>> {
    let at = skip(text, 0, b"");
    let all: Vec<Range<usize>> = match text.get(at)? {
        b'[' => elements(text, at),
        b'{' => {
            let lists: Vec<_> =
                members(text, at).into_iter().filter(|(key, _)| &text[key.clone()] == b"\"traceEvents\"").collect();
            if lists.is_empty() || lists.iter().any(|(_, list)| text[list.start] != b'[') {
                return None;
            }
            lists.into_iter().flat_map(|(_, list)| elements(text, list.start)).collect()
        }
        _ => return None,
    };
    all.iter().all(|event| text[event.start] == b'{').then_some(all)
}

/// Loads a trace from memory.
pub fn load(text: &str) -> Store {
    load_divided(text, None)
}

/// The same, and nests so many events at a time.
pub fn load_divided(text: &str, stretch: Option<NonZero<usize>>) -> Store {
    let mut builder = Builder::of_stretches(stretch);
    let add = |batch| {
        builder.add(batch);
        true
    };
    let (shard, division) = (|number| Shard::new(number, false), in_order(text.len() + 1));
    let summary = reader(ArgsWanted::All).read(text.as_bytes(), division, shard, add, || {});
    builder.end_trace(summary.header, Trace { events: summary.events, damage: summary.damage, ..Trace::default() });
    builder.finish(DamageReport::default(), NonZero::<usize>::MIN)
}

/// A reader with one thread.
pub fn reader(args: ArgsWanted) -> Reader {
    Reader::new(TimeRule::Exact, args, NonZero::<usize>::MIN)
}

/// Chunks of this size, read in order.
pub fn in_order(chunk: usize) -> Division {
    Division { chunk: NonZero::new(chunk), in_order: true }
}

/// What is seen of each event, in file order.
struct Seen<F, T> {
    see: F,
    seen: Vec<T>,
}

impl<F: Fn(&Event<'_>, u64) -> T, T: Send> Collect for Seen<F, T> {
    type Batch = Vec<T>;

    fn add(&mut self, event: &Event<'_>, offset: u64) {
        self.seen.push((self.see)(event, offset));
    }

    fn take(&mut self) -> Vec<T> {
        std::mem::take(&mut self.seen)
    }
}

/// What `see` sees of the events of a text, and the rest.
pub fn read<T: Send>(
    reader: &mut Reader,
    text: impl Read + Send,
    division: Division,
    see: impl Fn(&Event<'_>, u64) -> T + Copy + Sync,
) -> (Vec<T>, Summary) {
    let mut found = Vec::new();
    let add = |mut seen| {
        found.append(&mut seen);
        true
    };
    let summary = reader.read(text, division, |_| Seen { see, seen: Vec::new() }, add, || {});
    (found, summary)
}
