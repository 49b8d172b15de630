//! Reading one chunk: the tokenizer finds its events, the parser gives them their meaning.

use super::cursor::Tools;
use super::event::Parser;
use super::marks::Marks;
use super::piece::{Events, Fault, Piece};
use super::split::Chunk;
use super::state::{After, State};
use super::summary::Summary;
use super::tokenizer::Tokenizer;
use crate::damage::Damage;
use crate::event::{ArgsWanted, Event};
use crate::time::TimeRule;

/// Reads chunks. Each thread has its own, which learns how events look.
pub(super) struct ChunkReader {
    parser: Parser,
    tools: Tools,
}

/// What was read of a chunk beside its events.
#[derive(Debug)]
pub(super) struct ChunkSummary {
    pub(super) summary: Summary,
    /// The state after the text that was used.
    pub(super) state: State,
    /// How many bytes were used.
    pub(super) used: usize,
}

impl ChunkReader {
    /// A reader with these rules.
    pub(super) fn new(time: TimeRule, wanted: ArgsWanted) -> Self {
        ChunkReader { parser: Parser::new(time, wanted), tools: Tools::default() }
    }

    /// Reads a chunk, without knowing what is before it, and hands each event to `take`, in file order, with its byte offset in
    /// the text. `None` if a chunk cannot be read so.
    pub(super) fn read(&mut self, chunk: &Chunk, take: impl FnMut(&Event<'_>, u64)) -> Option<ChunkSummary> {
        Some(self.read_from(chunk.text(), chunk.base, chunk.after, chunk.start.clone()?, take))
    }

    /// How many elements a chunk has, found without parsing them.
    pub(super) fn count(&mut self, chunk: &Chunk) -> Option<u64> {
        let start = chunk.start.clone()?;
        let mut tokenizer = Tokenizer::new(chunk.text(), chunk.base, chunk.after, start, &mut self.tools);
        let mut elements = 0;
        while let Some(piece) = tokenizer.next(&mut Unread) {
            elements += u64::from(matches!(piece, Piece::Event { .. }));
        }
        Some(elements)
    }

    /// Reads a text that begins at an offset in this state.
    pub(super) fn read_from(
        &mut self,
        text: &[u8],
        base: u64,
        after: After,
        state: State,
        mut take: impl FnMut(&Event<'_>, u64),
    ) -> ChunkSummary {
        let ChunkReader { parser, tools } = self;
        let mut tokenizer = Tokenizer::new(text, base, after, state, tools);
        let mut summary = Summary::default();
        while let Some(piece) = tokenizer.next(parser) {
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
        let (state, used) = tokenizer.into_rest();
        ChunkSummary { summary, state, used }
    }
}

/// Parses no events: for measuring what tokenizing alone costs.
struct Unread;

impl Events for Unread {
    fn recognise(&mut self, _: &[u8], _: usize, _: &mut Marks) -> Option<usize> {
        None
    }

    fn read(&mut self, _: &[u8], _: usize, _: &mut Marks) -> bool {
        true
    }
}
