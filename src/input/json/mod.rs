//! The Chrome trace format: JSON as Kineto, Perfetto's tools and Chrome write it.
//!
//! `cut` finds the events in the stream, `event` gives each its meaning, `args` and `header` flatten what hangs on
//! them; `scan` and `text` know JSON's grammar.

mod args;
mod cut;
mod event;
mod header;
mod marks;
mod scan;
mod text;

use std::io::{self, Read};

use crate::damage::{Damage, DamageReport};
use crate::event::{ArgsWanted, Event, HeaderField};
use crate::input::gzip::{GzipCause, GzipFailure};
use crate::time::TimeRule;
use cut::{Cutter, End, Piece};

/// What was read besides the events.
#[derive(Debug, Default)]
pub struct Summary {
    /// The header, flattened.
    pub header: Vec<HeaderField>,
    /// The header's fields by name, in file order, to say what a file is that is no trace.
    pub keys: Vec<String>,
    /// Whether there was a list of events.
    pub has_event_list: bool,
    /// How many elements that list had, whatever they were.
    pub elements: u64,
    /// How many of them were events.
    pub events: u64,
    /// What was wrong.
    pub damage: DamageReport,
    /// Where the text ended before its time.
    pub cut_off_at: Option<u64>,
    /// What the source of the text failed with.
    pub failure: Option<io::Error>,
}

/// Reads a whole trace and hands each event to `take`, in file order, with its byte offset in the text.
pub fn read(source: impl Read, time: TimeRule, wanted: ArgsWanted, mut take: impl FnMut(Event<'_>, u64)) -> Summary {
    let mut cutter = Cutter::new(source);
    let mut parser = event::Parser::new(time, wanted);
    let mut summary = Summary::default();
    while let Some(piece) = cutter.next() {
        match piece {
            Piece::Event { event, offset } => {
                summary.elements += 1;
                match parser.parse(event) {
                    Ok(Some(event)) => {
                        summary.events += 1;
                        take(event, offset);
                    }
                    Ok(None) => {}
                    Err(kind) => summary.damage.count(kind, Some(offset)),
                }
            }
            Piece::NotObject { offset } => {
                summary.elements += 1;
                summary.damage.count(Damage::ElementNotObject, Some(offset));
            }
            Piece::TooLong { offset } => {
                summary.elements += 1;
                summary.damage.count(Damage::EventTooLong, Some(offset));
            }
            Piece::Header { key, text, offset } => summary.header_field(key, text, offset),
        }
    }
    summary.has_event_list = cutter.seen_events();
    let (end, failure) = cutter.into_end();
    summary.end(end, failure);
    summary
}

impl Summary {
    fn header_field(&mut self, key: &[u8], value: Option<&[u8]>, offset: u64) {
        let key = text::unescape(key);
        if key == "displayTimeUnit" {
            self.damage.count(Damage::DisplayTimeUnit, None);
        }
        let readable = value.is_some_and(|value| header::read(&key, value, &mut self.header));
        if !readable {
            self.damage.count(Damage::HeaderSkipped, Some(offset));
        }
        self.keys.push(key.into_owned());
    }

    fn end(&mut self, end: End, failure: Option<io::Error>) {
        let gzip = failure.as_ref().and_then(GzipFailure::of);
        match gzip.map(|failure| failure.cause) {
            Some(GzipCause::CutOff) => self.damage.count(Damage::GzipCutOff, gzip.map(|f| f.offset)),
            Some(GzipCause::Corrupt) => self.damage.count(Damage::CorruptGzip, gzip.map(|f| f.offset)),
            Some(GzipCause::TrailingBytes) => self.damage.count(Damage::TrailingBytes, None),
            None => {}
        }
        match end {
            End::Whole => {}
            End::CutOff { offset } => {
                self.cut_off_at = Some(offset);
                // What the decompressor has said already need not be said of the text too.
                if gzip.is_none() {
                    self.damage.count(Damage::Truncated, Some(offset));
                }
            }
            End::Broken { offset } => self.damage.count(Damage::BrokenStructure, Some(offset)),
            End::Trailing { offset } => self.damage.count(Damage::TrailingBytes, Some(offset)),
        }
        self.failure = failure;
    }
}
