//! Going through a trace's text once more, to copy a part of it: byte for byte, because whatever reads a trace and writes it again
//! changes it (numbers that no double holds, keys that come twice, the order of all).
//!
//! The text is cut as it is for reading, so that what the reader leaves out is left out here too. What is written is JSON
//! even where the text was not quite: there it is what was meant, and if that is not clear it is left out and counted.

use std::borrow::Cow;
use std::io::{self, Read, Write};

use serde::de::IgnoredAny;

use super::cut::{Cutter, Piece, State, Tools};
use super::edit;
use super::event::Parser;
use super::header;
use super::split::{Buffer, CHUNK, Splitter};
use crate::event::{ArgsWanted, Event};
use crate::input::packed::PackedFailure;
use crate::nccl::category::MARKED;
use crate::time::TimeRule;

/// What is to become of an event.
#[derive(Debug)]
pub enum Choice<'a> {
    /// It is left out.
    LeaveOut,
    /// It is copied.
    Copy,
    /// It is copied with an argument that says so, and again as a slice on a thread of its process.
    Mark {
        /// The number of that thread.
        tid: u32,
        /// The thread's name, at the first event on it. Must need no escapes.
        name: Option<&'a str>,
    },
}

/// What was copied.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// How many events there are.
    pub events: u64,
    /// How many of them were copied.
    pub kept: u64,
    /// How many of these were marked.
    pub marked: u64,
    /// How many events and fields of the header were not copied because nothing can make JSON of them.
    pub not_json: u64,
}

/// Why copying stopped.
#[derive(Debug)]
pub enum CopyError {
    /// The text cannot be read any more.
    Read(io::Error),
    /// The copy cannot be written.
    Write(io::Error),
}

/// Copies the header, and the events that `choose` wants, by what they are and where their text begins.
///
/// # Errors
/// Those of reading and writing. A compressed text that breaks off just ends, as it does for the reader.
pub fn copy<'a>(
    source: impl Read,
    out: impl Write,
    choose: impl FnMut(&Event<'_>, u64) -> Choice<'a>,
) -> Result<Copied, CopyError> {
    let mut splitter = Splitter::new(source, CHUNK);
    let mut copier = Copier {
        choose,
        parser: Parser::new(TimeRule::Exact, ArgsWanted::Collectives),
        writer: Writer { out, place: Place::Start, late: Vec::new() },
        copied: Copied::default(),
    };
    let (mut state, mut tools, mut rest, mut base, mut searched) = (State::START, Tools::default(), Vec::new(), 0, 0);
    let mut buffer = Buffer::default();
    while state.end().is_none()
        && let Some(mut chunk) = splitter.next(buffer)
    {
        if let Some(failure) = chunk.failure.take().filter(|failure| PackedFailure::of(failure).is_none()) {
            return Err(CopyError::Read(failure));
        }
        rest.extend_from_slice(chunk.text());
        let behind = chunk.behind;
        buffer = chunk.into_buffer();
        // As in `Joiner`: the end of a long value is not looked for with every chunk.
        if !behind.is_end() && rest.len() - searched < searched / 4 {
            continue;
        }
        let mut cutter = Cutter::new(&rest, base, behind, state, &mut tools);
        copier.pieces(&mut cutter).map_err(CopyError::Write)?;
        let used;
        (state, used) = cutter.into_rest();
        rest.drain(..used);
        (base, searched) = (base + used as u64, rest.len());
    }
    copier.writer.finish().map_err(CopyError::Write)?;
    Ok(copier.copied)
}

struct Copier<F, W> {
    choose: F,
    parser: Parser,
    writer: Writer<W>,
    copied: Copied,
}

impl<'a, F: FnMut(&Event<'_>, u64) -> Choice<'a>, W: Write> Copier<F, W> {
    fn pieces(&mut self, cutter: &mut Cutter<'_>) -> io::Result<()> {
        let Copier { choose, parser, writer, copied } = self;
        while let Some(piece) = cutter.next(parser) {
            match piece {
                Piece::Event { event, offset, recognised, .. } => {
                    let text = &event.text[event.at..];
                    let mut choice = Choice::LeaveOut;
                    let take = |event: &Event<'_>| {
                        copied.events += 1;
                        choice = choose(event, offset);
                    };
                    // What is wrong with an event that is no event was said when it was read.
                    let _ = parser.parse(event, recognised, take);
                    writer.choice(choice, text, copied)?;
                }
                // A second list of events would go before the first if its key came twice.
                Piece::Header { key, text: Some(text), .. } if key != b"traceEvents" => {
                    let key = [b"\"", key, b"\""].concat();
                    match (as_json(&key), as_json(text)) {
                        (Some(key), Some(text)) => writer.header(&key, &text)?,
                        _ => copied.not_json += 1,
                    }
                }
                Piece::Fault(_) | Piece::Header { .. } => {}
            }
        }
        Ok(())
    }
}

/// A value as it stands, if it is JSON by the letter, otherwise as what it was meant to be.
fn as_json(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    if std::str::from_utf8(text).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok()) {
        return Some(Cow::Borrowed(text));
    }
    header::mended(text).map(|(json, _)| Cow::Owned(json))
}

/// Writes one object with one list of events. What stands behind the events in the file comes behind them here too.
struct Writer<W> {
    out: W,
    place: Place,
    /// Fields that came after the first event.
    late: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    Header,
    Events,
}

impl<W: Write> Writer<W> {
    fn header(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let member = [key, b": ", value].concat();
        if self.place == Place::Events {
            self.late.extend_from_slice(b",\n");
            self.late.extend_from_slice(&member);
            return Ok(());
        }
        self.out.write_all(if self.place == Place::Start { b"{\n" } else { b",\n" })?;
        self.place = Place::Header;
        self.out.write_all(&member)
    }

    fn choice(&mut self, choice: Choice<'_>, text: &[u8], copied: &mut Copied) -> io::Result<()> {
        if matches!(choice, Choice::LeaveOut) {
            return Ok(());
        }
        let Some(text) = as_json(text) else {
            copied.not_json += 1;
            return Ok(());
        };
        let text = &*text;
        copied.kept += 1;
        let Choice::Mark { tid, name } = choice else { return self.event(text) };
        copied.marked += 1;
        self.event(&edit::with_argument(text, MARKED, "match"))?;
        let Some(copy) = edit::on_thread(text, tid, MARKED) else { return Ok(()) };
        if let Some(name) = name {
            self.event(&edit::thread_name(text, tid, MARKED, name))?;
        }
        self.event(&copy)
    }

    fn event(&mut self, text: &[u8]) -> io::Result<()> {
        if self.place == Place::Events {
            self.out.write_all(b",\n")?;
        } else {
            self.begin_events()?;
        }
        self.out.write_all(text)
    }

    fn begin_events(&mut self) -> io::Result<()> {
        self.out.write_all(if self.place == Place::Start { b"{\n" } else { b",\n" })?;
        self.place = Place::Events;
        self.out.write_all(b"\"traceEvents\": [\n")
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.place != Place::Events {
            self.begin_events()?;
        }
        self.out.write_all(b"\n]")?;
        self.out.write_all(&self.late)?;
        self.out.write_all(b"\n}\n")?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The copy of a text, with every kernel marked and all else copied.
    fn copied(text: &str) -> (String, Copied) {
        let mut out = Vec::new();
        let mut name = Some("matched");
        let choose = |event: &Event<'_>, _: u64| match event.category.map(|category| category.raw) {
            Some(b"kernel") => Choice::Mark { tid: 99, name: name.take() },
            Some(b"other") => Choice::LeaveOut,
            _ => Choice::Copy,
        };
        let copied = copy(text.as_bytes(), &mut out, choose).unwrap();
        (String::from_utf8(out).unwrap(), copied)
    }

    #[test]
    fn what_is_chosen_is_copied_as_it_stands() {
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
        assert_eq!(tally, Copied { events: 4, kept: 3, marked: 1, not_json: 0 });
    }

    #[test]
    fn what_is_written_is_json_even_if_what_is_read_is_not() {
        for (text, want) in [
            ("[", Copied::default()),
            (r#"{"a":1-2,"b":NaN,"traceEvents":[]}"#, Copied { not_json: 1, ..Copied::default() }),
            (
                r#"[{"ph":"C","ts":1,"args":{"x":NaN}},{"ph":"C","ts":1,"args":{"x":1-2}},{"ph":"C","ts":1,},{"ph":"#,
                Copied { events: 3, kept: 2, marked: 0, not_json: 1 },
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
}
