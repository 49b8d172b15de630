//! Putting together what was read of the chunks, in file order.

use std::io;

use super::chunk_reader::{ChunkReader, ChunkSummary};
use super::split::Chunk;
use super::state::{End, State};
use super::summary::Summary;
use crate::event::Event;

/// Puts parts together, in file order.
pub(super) struct Joiner {
    state: State,
    /// The text of what was begun and not ended, and its offset.
    rest: Vec<u8>,
    base: u64,
    /// How much of the rest has been searched without a result.
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
    /// Whether what was read of the next chunk is right, because the chunk begins in the state that was guessed.
    pub(super) fn accepts(&self, chunk: &Chunk) -> bool {
        self.rest.is_empty() && chunk.start.as_ref() == Some(&self.state)
    }

    /// Adds the next chunk, whose part is right.
    pub(super) fn add(&mut self, chunk: &mut Chunk, part: ChunkSummary) {
        self.rest.extend_from_slice(&chunk.text()[part.used..]);
        self.base = chunk.base + part.used as u64;
        self.state = part.state;
        self.summary.add(part.summary);
        self.take_end(chunk);
    }

    /// Adds the next chunk by reading it, with what is left of those before it.
    pub(super) fn read(&mut self, chunk: &mut Chunk, reader: &mut ChunkReader, take: impl FnMut(&Event<'_>, u64)) {
        self.rest.extend_from_slice(chunk.text());
        self.take_end(chunk);
        // The end of a value that goes on and on is searched for from its start each time; a quarter more text each time keeps
        // that linear.
        if !chunk.after.is_end() && self.rest.len() - self.searched < self.searched / 4 {
            return;
        }
        let ChunkSummary { summary, state, used } =
            reader.read_from(&self.rest, self.base, chunk.after, self.state.clone(), take);
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

    /// Whether the trace is over, and no more of the file need be read: text after a trace is counted.
    pub(super) fn is_over(&self) -> bool {
        self.state.end().is_some_and(|end| !matches!(end, End::Trailing { .. }))
    }

    /// All that was read beside the events.
    pub(super) fn into_summary(mut self) -> Summary {
        self.summary.has_event_list = self.state.seen_events;
        let end = self.state.end().unwrap_or(End::Whole);
        self.summary.end(end, self.text_bytes, self.failure);
        self.summary
    }
}
