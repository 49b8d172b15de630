//! Copying a part of a trace, byte for byte: parsing events and writing them again would change them (numbers that no double
//! holds, keys that come twice, the order of members).
//!
//! The text is tokenized as it is for reading, so that what the reader leaves out is left out here too. What is written is JSON even
//! where the text is not: a broken part is written as it was meant, or left out and counted if the meaning is not clear.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, Read, Write};

use memchr::memmem;
use serde::de::IgnoredAny;

use super::event::Parser;
use super::fields::{Field, Fields};
use super::header;
use super::list::{Fault, Marked, Piece, Tokenizer, Tools};
use super::marks::Marks;
use super::repair::{Outcome, Recoverer};
use super::threads::{Buffer, CHUNK, ChunkSummary, Joiner, Splitter};
use super::value::{Token, Walker, is_space};
use crate::chrome::TraceWriter;
use crate::damage::{CARRIED, Damage, DamageReport};
use crate::event::{ArgValue, ArgsWanted, Event, HeaderField};
use crate::input::containers::packed::PackedFailure;
use crate::input::reader::Summary;
use crate::names::category::MARKED;
use crate::time::{TimeRule, Window};

#[derive(Debug)]
pub enum Choice<'a> {
    LeaveOut,
    Copy,
    /// It is copied with an argument that marks it, and again as a slice on a thread of its process.
    Mark {
        tid: u32,
        /// The thread's name, at the first event on it. Must need no escapes.
        name: Option<&'a str>,
        /// The thread that the event itself is moved to.
        lane: Option<Lane>,
    },
    /// It is copied to another thread of its process.
    Move(Lane),
}

/// A thread that an event is moved to.
#[derive(Debug)]
pub struct Lane {
    pub tid: u32,
    /// Its name, at the first event on it, as JSON writes it between the quotes.
    pub name: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    pub events: u64,
    pub kept: u64,
    pub marked: u64,
    /// How many were moved to another thread.
    pub moved: u64,
    /// How many events and fields of the header were not copied because nothing can make JSON of them.
    pub not_json: u64,
}

/// Why copying stopped.
#[derive(Debug)]
pub enum CopyError {
    /// The text cannot be read any more.
    Read(io::Error),
    Write(io::Error),
}

/// Copies the header, and the events that `choose` wants, by what they are, with the times of this rule, and the offsets of their text. `damage` is that of the trace,
/// which the copy's header says.
/// Errors: those of reading and writing. A compressed text that breaks off just ends, as it does for the reader.
pub fn copy<'a>(
    source: impl Read,
    out: impl Write,
    time: TimeRule,
    damage: Option<&str>,
    choose: impl FnMut(&Event<'_>, u64) -> Choice<'a>,
) -> Result<Copied, CopyError> {
    run(source, out, time, Manner::AsItIs(damage), choose, || None).map(|(copied, _)| copied)
}

/// The same, but what is written is JSON that every reader takes: nothing in it is nested deeply, no key of the header comes twice,
/// no text has half a character. Returns what was wrong, and what had to be left out. Asked of a text that ends early alone, `survived` is the time in
/// which its kernels survived, which the copy's header says.
pub fn repair<'a>(
    source: impl Read,
    out: impl Write,
    choose: impl FnMut(&Event<'_>, u64) -> Choice<'a>,
    survived: impl FnOnce() -> Option<Window>,
) -> Result<(Copied, Summary), CopyError> {
    // What it asks of times does not depend on their unit.
    run(source, out, TimeRule::Exact, Manner::Strictly, choose, survived)
}

#[derive(Clone, Copy)]
enum Manner<'d> {
    /// As they are, from a trace with this damage.
    AsItIs(Option<&'d str>),
    /// So that every reader takes them.
    Strictly,
}

fn run<'a>(
    source: impl Read,
    out: impl Write,
    time: TimeRule,
    manner: Manner<'_>,
    choose: impl FnMut(&Event<'_>, u64) -> Choice<'a>,
    survived: impl FnOnce() -> Option<Window>,
) -> Result<(Copied, Summary), CopyError> {
    let mut splitter = Splitter::new(source, CHUNK);
    let mut copier = Copier {
        choose,
        parser: Parser::new(time, ArgsWanted::COLLECTIVES),
        writer: TraceWriter::new(out),
        copied: Copied::default(),
        strictly: matches!(manner, Manner::Strictly).then(Strictly::default),
        summary: Summary::default(),
    };
    let (mut joiner, mut tools, mut buffer) = (Joiner::default(), Tools::default(), Buffer::default());
    while !joiner.is_over()
        && let Some(mut chunk) = splitter.next(buffer)
    {
        if let Some(failure) = chunk.failure.take_if(|failure| PackedFailure::find_in(failure).is_none()) {
            return Err(CopyError::Read(failure));
        }
        let mut written = Ok(());
        joiner.read(&mut chunk, |text, base, after, state| {
            let mut tokenizer = Tokenizer::new(text, base, after, state, &mut tools);
            written = copier.pieces(&mut tokenizer);
            let (state, used) = tokenizer.into_rest();
            ChunkSummary { summary: std::mem::take(&mut copier.summary), state, used }
        });
        written.map_err(CopyError::Write)?;
        buffer = chunk.into_buffer();
    }
    let summary = joiner.into_summary();
    let damage = match manner {
        Manner::AsItIs(damage) => damage.map(str::to_owned),
        Manner::Strictly => {
            let damage = &summary.damage;
            damage.carried(if damage.is_unknown() { survived() } else { None }, summary.text_bytes)
        }
    };
    if let Some(damage) = damage {
        let key = format!("\"{CARRIED}\"");
        copier.writer.field(key.as_bytes(), damage.as_bytes()).map_err(CopyError::Write)?;
    }
    copier.writer.finish().map_err(CopyError::Write)?;
    Ok((copier.copied, summary))
}

struct Copier<F, W> {
    choose: F,
    parser: Parser,
    writer: TraceWriter<W>,
    copied: Copied,
    strictly: Option<Strictly>,
    summary: Summary,
}

/// Makes JSON that every reader takes.
struct Strictly {
    recoverer: Recoverer,
    keys: HashSet<Vec<u8>>,
}

impl Default for Strictly {
    fn default() -> Self {
        Strictly { recoverer: Recoverer::up_to_depth(MAX_DEPTH), keys: HashSet::new() }
    }
}

/// Some readers refuse what is nested more deeply than 100 levels.
const MAX_DEPTH: usize = 64;

impl<'a, F: FnMut(&Event<'_>, u64) -> Choice<'a>, W: Write> Copier<F, W> {
    fn pieces(&mut self, tokenizer: &mut Tokenizer<'_>) -> io::Result<()> {
        while let Some(piece) = tokenizer.next(&mut self.parser) {
            match piece {
                Piece::Event { event, offset, bytes, recognised } => self.event(event, offset, bytes, recognised)?,
                // A second list of events would go before the first if its key came twice.
                Piece::Header { key, text: Some(text), offset, bytes } if key != b"traceEvents" => {
                    self.header(key, text, offset, bytes)?;
                }
                Piece::Fault(Fault { kind, offset, bytes }) => self.summary.damage.lose(kind, Some(offset), bytes),
                Piece::Header { text: None, offset, bytes, .. } => {
                    self.summary.damage.lose(Damage::HeaderSkipped, Some(offset), bytes);
                }
                Piece::Header { .. } => {}
            }
        }
        Ok(())
    }

    fn event(&mut self, event: Marked<'_>, offset: u64, bytes: u64, recognised: bool) -> io::Result<()> {
        let Copier { choose, parser, writer, copied, strictly, summary } = self;
        let (whole, text) = (event.text, &event.text[event.at..]);
        summary.elements += 1;
        let mut choice = Choice::LeaveOut;
        let read = parser.parse(event, recognised, |event| {
            copied.events += 1;
            choice = choose(event, offset);
        });
        parser.faults().for_each(|kind| summary.damage.count(kind, Some(offset)));
        // When copying, what is wrong with an event was reported when it was loaded.
        let fault = match read {
            Err(kind) => Some(kind),
            Ok(()) if strictly.is_some() && parser.has_bad_time(whole, recognised) => Some(Damage::InvalidDuration),
            Ok(()) => None,
        };
        if let Some(kind) = fault {
            summary.damage.lose(kind, Some(offset), bytes);
            return Ok(());
        }
        if matches!(choice, Choice::LeaveOut) {
            return Ok(());
        }
        let json = match strictly {
            Some(strictly) => strictly.object(text, offset, &mut summary.damage),
            None => as_json(text),
        };
        match json {
            Some(json) => write(writer, choice, &json, copied),
            None => {
                copied.not_json += 1;
                summary.damage.lose(Damage::EventSyntax, Some(offset), bytes);
                Ok(())
            }
        }
    }

    fn header(&mut self, key: &[u8], text: &[u8], offset: u64, bytes: u64) -> io::Result<()> {
        let Copier { writer, copied, strictly, summary, .. } = self;
        // A copy of a copy says both damages in one field.
        if key == CARRIED.as_bytes() {
            let mut fields = Vec::new();
            header::read(CARRIED, text, &mut fields);
            for HeaderField { key, value } in &fields {
                if let ArgValue::Int(value) = value {
                    summary.damage.take_over(key, value.unsigned_abs());
                }
            }
            return Ok(());
        }
        let is_known = strictly.as_mut().is_some_and(|strictly| !strictly.keys.insert(key.to_owned()));
        // Perfetto takes nothing else.
        let is_odd = strictly.is_some() && key == b"displayTimeUnit" && text.first() != Some(&b'"');
        let quoted = [b"\"", key, b"\""].concat();
        let json = |text| match strictly {
            Some(_) => header::recovered(text, MAX_DEPTH).map(|(json, kinds)| match kinds[..] {
                [] => (Cow::Borrowed(text), kinds),
                _ => (Cow::Owned(json), kinds),
            }),
            None => as_json(text).map(|json| (json, Vec::new())),
        };
        match (json(&quoted), json(text)) {
            (Some((key, of_key)), Some((text, of_text))) if !is_known && !is_odd => {
                of_key.into_iter().chain(of_text).for_each(|kind| summary.damage.count(kind, Some(offset)));
                writer.field(&key, &text)
            }
            _ => {
                copied.not_json += 1;
                summary.damage.lose(Damage::HeaderSkipped, Some(offset), bytes);
                Ok(())
            }
        }
    }
}

impl Strictly {
    /// An object as it is, or as what it was meant to be.
    fn object<'t>(&mut self, text: &'t [u8], offset: u64, damage: &mut DamageReport) -> Option<Cow<'t, [u8]>> {
        if self.recoverer.object(text, 0, true) != (Outcome::Whole { end: text.len() }) {
            damage.count(Damage::ArgsSyntax, Some(offset));
            return self.without_what_is_broken(text).map(Cow::Owned);
        }
        let faults = &self.recoverer.faults;
        faults.iter().for_each(|(kind, at)| damage.count(*kind, Some(offset + *at as u64)));
        Some(if faults.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(self.recoverer.json.clone()) })
    }
}

impl Strictly {
    /// An event that was read, so that what is broken is within a container that it has: mostly its arguments, of which the
    /// beginning is kept, otherwise one that is not read, before which all that matters may have come.
    fn without_what_is_broken(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        if let Some(args) = arguments(text) {
            let args = self.recoverer.beginning(args);
            let event = with_arguments(text, &args);
            if self.recoverer.object(&event, 0, true) == (Outcome::Whole { end: event.len() }) {
                return Some(self.recoverer.json.clone());
            }
        }
        let event = self.recoverer.beginning(text);
        [&b"\"ph\":"[..], b"\"ts\":"].iter().all(|key| memmem::find(&event, key).is_some()).then_some(event)
    }
}

/// A value as it is, if it is strictly JSON, otherwise as what it was meant to be.
fn as_json(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    if std::str::from_utf8(text).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok()) {
        return Some(Cow::Borrowed(text));
    }
    header::recovered(text, 0).map(|(json, _)| Cow::Owned(json))
}

/// Writes what was chosen. What comes after the events in the file comes after them here too.
fn write(writer: &mut TraceWriter<impl Write>, choice: Choice<'_>, text: &[u8], copied: &mut Copied) -> io::Result<()> {
    copied.kept += 1;
    let (tid, name, lane) = match choice {
        Choice::Mark { tid, name, lane } => (tid, name, lane),
        Choice::Move(lane) => return write_on_lane(writer, lane, text, copied),
        Choice::LeaveOut | Choice::Copy => return writer.event(text),
    };
    copied.marked += 1;
    let marked = with_argument(text, MARKED, "match");
    match lane {
        Some(lane) => write_on_lane(writer, lane, &marked, copied)?,
        None => writer.event(&marked)?,
    }
    let Some(copy) = on_thread(text, tid, MARKED) else { return Ok(()) };
    if let Some(name) = name {
        writer.event(&thread_name(text, tid, MARKED, name))?;
    }
    writer.event(&copy)
}

fn write_on_lane(
    writer: &mut TraceWriter<impl Write>,
    Lane { tid, name }: Lane,
    text: &[u8],
    copied: &mut Copied,
) -> io::Result<()> {
    copied.moved += 1;
    if let Some(name) = name {
        writer.event(&thread_name(text, tid, MARKED, &name))?;
    }
    writer.event(&with_tid(text, tid))
}

/// An event's text with one more argument, whose key and value need no escapes. One that has the key already stays as it is.
fn with_argument(event: &[u8], key: &str, value: &str) -> Vec<u8> {
    let fields = fields_of(event);
    let member = format!("\"{key}\": \"{value}\"");
    let (before, inserted, after) = match (fields.get(event, Field::Args), value_range(event, &fields, Field::Args)) {
        (Some(Token::Object(object)), Some(range)) => {
            let mut members = Walker::new(object);
            while let Ok(Some((known, _))) = members.member() {
                if known == key.as_bytes() {
                    return event.to_vec();
                }
            }
            let is_empty = object[1..object.len() - 1].iter().all(|byte| is_space(*byte));
            (range.end - 1, format!("{}{member}", if is_empty { "" } else { ", " }), range.end - 1)
        }
        (_, Some(range)) => (range.start, format!("{{{member}}}"), range.end),
        (_, None) => (event.len() - 1, format!(", \"args\": {{{member}}}"), event.len() - 1),
    };
    [&event[..before], inserted.as_bytes(), &event[after..]].concat()
}

pub(super) fn arguments(event: &[u8]) -> Option<&[u8]> {
    match fields_of(event).get(event, Field::Args)? {
        Token::Object(object) => Some(object),
        _ => None,
    }
}

fn with_arguments(event: &[u8], args: &[u8]) -> Vec<u8> {
    let range = fields_of(event).range(Field::Args);
    [&event[..range.start], args, &event[range.end..]].concat()
}

/// A slice of the same process and time as that of an event, on another thread, with another category and a name that begins with
/// `match: `. `None` if the event does not hold its length.
fn on_thread(event: &[u8], tid: u32, category: &str) -> Option<Vec<u8>> {
    let fields = fields_of(event);
    value_range(event, &fields, Field::Dur)?;
    let mut text = format!("{{\"ph\": \"X\", \"cat\": \"{category}\", \"tid\": {tid}").into_bytes();
    if let Some(range) = value_range(event, &fields, Field::Name) {
        // So queries that select kernels by the beginning of their names do not find them twice.
        let name = event[range.clone()].strip_prefix(b"\"").unwrap_or(b"\"");
        text.extend_from_slice(b", \"name\": \"match: ");
        text.extend_from_slice(name);
    }
    for (key, field) in [("pid", Field::Pid), ("ts", Field::Ts), ("dur", Field::Dur)] {
        add_member(&mut text, event, &fields, key, field);
    }
    text.push(b'}');
    Some(text)
}

/// An event's text with another number for its thread.
fn with_tid(event: &[u8], tid: u32) -> Vec<u8> {
    let fields = fields_of(event);
    let tid = tid.to_string();
    match value_range(event, &fields, Field::Tid) {
        Some(range) => [&event[..range.start], tid.as_bytes(), &event[range.end..]].concat(),
        None => [&event[..event.len() - 1], b", \"tid\": ", tid.as_bytes(), b"}"].concat(),
    }
}

/// The event that names this thread of the event's process. The name needs no escapes.
pub(super) fn thread_name(event: &[u8], tid: u32, category: &str, name: &str) -> Vec<u8> {
    let mut text =
        format!("{{\"ph\": \"M\", \"cat\": \"{category}\", \"name\": \"thread_name\", \"tid\": {tid}").into_bytes();
    add_member(&mut text, event, &fields_of(event), "pid", Field::Pid);
    text.extend_from_slice(format!(", \"args\": {{\"name\": \"{name}\"}}}}").as_bytes());
    text
}

/// The fields of an event that was read before, so that there is nothing wrong with it.
fn fields_of(event: &[u8]) -> Fields {
    let mut fields = Fields::default();
    let _ = fields.read(event, 0, &mut Marks::default());
    fields
}

fn add_member(text: &mut Vec<u8>, event: &[u8], fields: &Fields, key: &str, field: Field) {
    if let Some(range) = value_range(event, fields, field) {
        text.extend_from_slice(format!(", \"{key}\": ").as_bytes());
        text.extend_from_slice(&event[range]);
    }
}

/// Where a field's value is, with its quotes.
fn value_range(event: &[u8], fields: &Fields, field: Field) -> Option<std::ops::Range<usize>> {
    let range = fields.range(field);
    Some(match fields.get(event, field)? {
        Token::Text(_) => range.start - 1..range.end + 1,
        _ => range,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The copy of a text, with every kernel marked and all else copied.
    fn copied(text: &str) -> (String, Copied) {
        let mut out = Vec::new();
        let mut name = Some("matched");
        let choose = |event: &Event<'_>, _: u64| match event.category.map(|category| category.raw) {
            Some(b"kernel") => Choice::Mark { tid: 99, name: name.take(), lane: None },
            Some(b"other") => Choice::LeaveOut,
            _ => Choice::Copy,
        };
        let copied = copy(text.as_bytes(), &mut out, TimeRule::Exact, None, choose).unwrap();
        (String::from_utf8(out).unwrap(), copied)
    }

    #[test]
    fn what_is_chosen_is_copied_as_it_is() {
        let (text, tally) = copied(
            "{\"a\": 1.50,\"b\\u0041\":[ ], \"traceEvents\": [{\"ph\":\"X\",\"ts\":1,\"dur\":1,\"name\":\"\\u0061\"}, 7,\
             {\"ph\":\"X\",\"ts\":1,\"dur\":1,\"cat\":\"other\"},{},{\"ph\":\"X\",\"ts\":1},\
             {\"cat\":\"kernel\",\"ph\":\"X\",\"pid\":0,\"ts\":2.0,\"dur\":1}],\"traceEvents\":[{\"ph\":\"C\",\"ts\":18446744073709551615}\
             ,{\"ph\":\"C\",\"ts\":5,\"args\":{\"x\":18446744073709551615}}],\"z\":null}",
        );
        assert_eq!(
            text,
            "{\n\"a\": 1.50,\n\"b\\u0041\": [ ],\n\"traceEvents\": [\n{\"ph\":\"X\",\"ts\":1,\"dur\":1,\"name\":\"\\u0061\"},\n\
             {\"cat\":\"kernel\",\"ph\":\"X\",\"pid\":0,\"ts\":2.0,\"dur\":1, \"args\": {\"nccl-stacks\": \"match\"}},\n\
             {\"ph\": \"M\", \"cat\": \"nccl-stacks\", \"name\": \"thread_name\", \"tid\": 99, \"pid\": 0, \
             \"args\": {\"name\": \"matched\"}},\n\
             {\"ph\": \"X\", \"cat\": \"nccl-stacks\", \"tid\": 99, \"pid\": 0, \"ts\": 2.0, \"dur\": 1},\n\
             {\"ph\":\"C\",\"ts\":5,\"args\":{\"x\":18446744073709551615}}\n],\n\"z\": null\n}\n"
        );
        assert_eq!(tally, Copied { events: 4, kept: 3, marked: 1, ..Copied::default() });
    }

    #[test]
    fn what_is_written_is_json_even_if_what_is_read_is_not() {
        for (text, want) in [
            ("[", Copied::default()),
            (r#"{"a":1-2,"b":NaN,"traceEvents":[]}"#, Copied { not_json: 1, ..Copied::default() }),
            (
                r#"[{"ph":"C","ts":1,"args":{"x":NaN}},{"ph":"C","ts":1,"args":{"x":1-2}},{"ph":"C","ts":1,},{"ph":"#,
                Copied { events: 3, kept: 2, not_json: 1, ..Copied::default() },
            ),
        ] {
            let (copy, tally) = copied(text);
            assert!(
                serde_json::from_str::<serde_json::Value>(&copy).is_ok_and(|v| v["traceEvents"].is_array()),
                "{copy}"
            );
            assert_eq!(tally, want, "{text}");
        }
    }

    #[test]
    fn arguments_are_added_to_whatever_is_there() {
        for (event, want) in [
            (r#"{"ph":"X","args":{"a":[1,{}]} ,"b":2}"#, r#"{"ph":"X","args":{"a":[1,{}], "k": "v"} ,"b":2}"#),
            (r#"{"args":{ }}"#, r#"{"args":{ "k": "v"}}"#),
            (r#"{"args":null,"b":"}"}"#, r#"{"args":{"k": "v"},"b":"}"}"#),
            (r#"{"args":"x","b":1}"#, r#"{"args":{"k": "v"},"b":1}"#),
            (r#"{"b":"args"}"#, r#"{"b":"args", "args": {"k": "v"}}"#),
            (r#"{"args":{"k":"v"}}"#, r#"{"args":{"k":"v"}}"#),
            // Of equal keys the last counts.
            (r#"{"args":{},"args":{"a":1}}"#, r#"{"args":{},"args":{"a":1, "k": "v"}}"#),
        ] {
            assert_eq!(String::from_utf8(with_argument(event.as_bytes(), "k", "v")).unwrap(), want);
        }
    }

    #[test]
    fn threads_are_changed_alone() {
        for (event, want) in [
            (&br#"{"ph":"X","tid": 7,"ts":1}"#[..], r#"{"ph":"X","tid": 99,"ts":1}"#),
            (br#"{"ph":"X","tid":"stream 7"}"#, r#"{"ph":"X","tid":99}"#),
            (br#"{"ph":"X"}"#, r#"{"ph":"X", "tid": 99}"#),
        ] {
            assert_eq!(String::from_utf8(with_tid(event, 99)).unwrap(), want);
        }
    }

    #[test]
    fn copies_keep_the_text_of_their_values() {
        let event = br#"{"ph":"X","name":"a\"b","pid":"GPU 0","ts":1.250,"dur":0.5e1,"args":{}}"#;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(
            on_thread(event, 9, "c").map(text).as_deref(),
            Some(
                r#"{"ph": "X", "cat": "c", "tid": 9, "name": "match: a\"b", "pid": "GPU 0", "ts": 1.250, "dur": 0.5e1}"#
            )
        );
        assert_eq!(
            text(thread_name(event, 9, "c", "n")),
            r#"{"ph": "M", "cat": "c", "name": "thread_name", "tid": 9, "pid": "GPU 0", "args": {"name": "n"}}"#
        );
        assert_eq!(on_thread(br#"{"ph":"B","name":"a","ts":1}"#, 9, "c"), None);
    }
}
