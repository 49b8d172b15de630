//! The Chrome trace format: JSON as Kineto, Perfetto's tools and Chrome write it.
//!
//! `split` divides the text into chunks, `cut` finds the events in them with `container` for what is beside them (`mend`,
//! `rest` and `resync` help it where the text is not JSON), `event` gives each its meaning with the help of `fields` and `layout`, `ids`
//! and `flat` find what ties it to others, `args` and `header` flatten the rest; `scan`, `marks`, `number` and `text` know
//! JSON's grammar. `copy` goes through a text once more to copy a part of it, `edit` adds to single events.
//!
//! One thread after the other takes a chunk from the [`Splitter`], each reads its own with a [`Reader`], and the
//! [`Joiner`] is given the parts in file order. What comes out is the same whatever the number of threads.

mod args;
mod container;
pub mod copy;
mod cut;
mod edit;
mod event;
mod fields;
mod flat;
pub(super) mod format;
mod header;
mod ids;
mod layout;
mod marks;
mod mend;
mod number;
mod rest;
mod resync;
mod scan;
mod split;
mod text;

use std::io;

use crate::damage::{Damage, DamageReport};
use crate::event::{ArgsWanted, Event, HeaderField};
use crate::input::packed::{PackedCause, PackedFailure};
use crate::time::TimeRule;
#[cfg(feature = "proto")]
pub(super) use args::flatten_value_of;
use cut::{Behind, Cutter, End, Events, Fault, Piece, State, Tools};
use marks::Marks;
pub use split::{Buffer, CHUNK, Chunk, Splitter};

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

/// Reads chunks. Each thread has its own.
pub struct Reader {
    parser: event::Parser,
    tools: Tools,
}

/// What was read of a chunk besides its events.
#[derive(Debug)]
pub struct Part {
    summary: Summary,
    /// The state behind the text that was used.
    state: State,
    used: usize,
}

impl Reader {
    /// A reader with these rules.
    pub fn new(time: TimeRule, wanted: ArgsWanted) -> Self {
        Reader { parser: event::Parser::new(time, wanted), tools: Tools::default() }
    }

    /// Reads a chunk, without knowing what is before it, and hands each event to `take`, in file order, with its byte offset in
    /// the text. `None` if a chunk cannot be read so.
    pub fn read(&mut self, chunk: &Chunk, take: impl FnMut(&Event<'_>, u64)) -> Option<Part> {
        Some(self.read_from(chunk.text(), chunk.base, chunk.behind, chunk.start.clone()?, take))
    }

    /// How many elements a chunk has, found without reading them: for measuring what cutting alone costs.
    pub fn count(&mut self, chunk: &Chunk) -> Option<u64> {
        let mut cutter = Cutter::new(chunk.text(), chunk.base, chunk.behind, chunk.start.clone()?, &mut self.tools);
        let mut elements = 0;
        while let Some(piece) = cutter.next(&mut Unread) {
            elements += u64::from(matches!(piece, Piece::Event { .. }));
        }
        Some(elements)
    }

    fn read_from(
        &mut self,
        text: &[u8],
        base: u64,
        behind: Behind,
        state: State,
        mut take: impl FnMut(&Event<'_>, u64),
    ) -> Part {
        let Reader { parser, tools } = self;
        let mut cutter = Cutter::new(text, base, behind, state, tools);
        let mut summary = Summary::default();
        while let Some(piece) = cutter.next(parser) {
            match piece {
                Piece::Event { event, offset, bytes, recognised } => {
                    summary.elements += 1;
                    let take = |event: &Event<'_>| {
                        summary.events += 1;
                        take(event, offset);
                    };
                    if let Err(kind) = parser.parse(event, recognised, take) {
                        summary.damage.lose(kind, Some(offset), bytes);
                    }
                    for kind in parser.faults() {
                        summary.damage.count(kind, Some(offset));
                    }
                }
                Piece::Fault(Fault { kind, offset, bytes }) => {
                    let is_element =
                        matches!(kind, Damage::ElementNotObject | Damage::EventTooLong | Damage::EventSyntax);
                    summary.elements += u64::from(is_element);
                    summary.damage.lose(kind, Some(offset), bytes);
                }
                Piece::Header { key, text, offset, bytes } => summary.header_field(key, text, offset, bytes),
            }
        }
        let (state, used) = cutter.into_rest();
        Part { summary, state, used }
    }
}

/// Reads no events: for measuring what cutting alone costs.
struct Unread;

impl Events for Unread {
    fn recognise(&mut self, _: &[u8], _: usize, _: &mut Marks) -> Option<usize> {
        None
    }

    fn read(&mut self, _: &[u8], _: usize, _: &mut Marks) -> bool {
        true
    }
}

/// Puts parts together, in file order.
pub struct Joiner {
    state: State,
    /// The text of what was begun and not ended, and where it begins.
    rest: Vec<u8>,
    base: u64,
    /// How much of the rest has been looked at in vain.
    searched: usize,
    summary: Summary,
    failure: Option<io::Error>,
    text_bytes: u64,
}

impl Default for Joiner {
    fn default() -> Self {
        Joiner {
            state: State::START,
            rest: Vec::new(),
            base: 0,
            searched: 0,
            summary: Summary::default(),
            failure: None,
            text_bytes: 0,
        }
    }
}

impl Joiner {
    /// Whether what was read of the next chunk stands, because it begins as was thought.
    pub fn accepts(&self, chunk: &Chunk) -> bool {
        self.rest.is_empty() && chunk.start.as_ref() == Some(&self.state)
    }

    /// Adds the next chunk, whose part stands.
    pub fn add(&mut self, chunk: &mut Chunk, part: Part) {
        self.rest.extend_from_slice(&chunk.text()[part.used..]);
        self.base = chunk.base + part.used as u64;
        self.state = part.state;
        self.summary.add(part.summary);
        self.take_end(chunk);
    }

    /// Adds the next chunk by reading it, with what is left of those before it.
    pub fn read(&mut self, chunk: &mut Chunk, reader: &mut Reader, take: impl FnMut(&Event<'_>, u64)) {
        self.rest.extend_from_slice(chunk.text());
        self.take_end(chunk);
        // The end of a value that goes on and on is looked for from its start each time; a quarter more text each time keeps
        // that linear.
        if !chunk.behind.is_end() && self.rest.len() - self.searched < self.searched / 4 {
            return;
        }
        let Part { summary, state, used } =
            reader.read_from(&self.rest, self.base, chunk.behind, self.state.clone(), take);
        self.rest.drain(..used);
        self.searched = self.rest.len();
        self.base += used as u64;
        self.state = state;
        self.summary.add(summary);
    }

    fn take_end(&mut self, chunk: &mut Chunk) {
        self.text_bytes += chunk.text().len() as u64;
        self.failure = self.failure.take().or(chunk.failure.take());
    }

    /// Whether the trace is over, whatever else the file holds.
    pub fn is_over(&self) -> bool {
        self.state.end().is_some()
    }

    /// How many bytes of text the chunks had.
    pub fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    /// All that was read besides the events.
    pub fn into_summary(mut self) -> Summary {
        self.summary.has_event_list = self.state.seen_events();
        let end = self.state.end().unwrap_or(End::Whole);
        self.summary.end(end, self.text_bytes, self.failure);
        self.summary
    }
}

impl Summary {
    /// Adds what comes behind it.
    fn add(&mut self, more: Summary) {
        self.header.extend(more.header);
        self.keys.extend(more.keys);
        self.elements += more.elements;
        self.events += more.events;
        self.damage.add(&more.damage);
    }

    fn header_field(&mut self, key: &[u8], value: Option<&[u8]>, offset: u64, bytes: u64) {
        let key = text::unescape(key);
        if key == "displayTimeUnit" {
            self.damage.count(Damage::DisplayTimeUnit, None);
        }
        let faults = value.map(|value| header::read(&key, value, &mut self.header));
        match faults {
            Some(faults) => faults.into_iter().for_each(|kind| self.damage.count(kind, Some(offset))),
            None => self.damage.lose(Damage::HeaderSkipped, Some(offset), bytes),
        }
        self.keys.push(key.into_owned());
    }

    fn end(&mut self, end: End, text_bytes: u64, failure: Option<io::Error>) {
        let packed = failure.as_ref().and_then(PackedFailure::of);
        match packed.map(|failure| failure.cause) {
            Some(PackedCause::CutOff) => self.damage.count(Damage::PackedCutOff, packed.map(|f| f.offset)),
            Some(PackedCause::Corrupt) => self.damage.count(Damage::PackedCorrupt, packed.map(|f| f.offset)),
            Some(PackedCause::TrailingBytes) => self.damage.count(Damage::TrailingBytes, None),
            None => {}
        }
        let mut lose = |kind, offset| self.damage.lose(kind, Some(offset), text_bytes - offset);
        match end {
            End::Whole => {}
            End::CutOff { offset } => {
                self.cut_off_at = Some(offset);
                // What the decompressor has said already need not be said of the text too.
                if packed.is_none() {
                    lose(Damage::Truncated, offset);
                }
            }
            End::Broken { offset } => lose(Damage::BrokenStructure, offset),
            End::Trailing { offset } => lose(Damage::TrailingBytes, offset),
        }
        self.failure = failure;
    }
}
