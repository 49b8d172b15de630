//! What passes from one chunk to the next: where in the container the text ends, and what was being read there.

use super::scan::Nesting;
use crate::damage::Damage;

/// If this many bytes are lost before anything plausible, the search ends: some files, such as `/dev/zero`, never end. Smaller in tests,
/// which have to exceed it.
pub(super) const MAX_EARLY_LOSS: usize = if cfg!(test) { 6 << 20 } else { 256 << 20 };

/// What begins later in the text, in bytes, comes after something plausible, which may be no more than the beginning of a list.
const EARLY: u64 = 64;

/// Whether what begins at one offset and has not ended at another has gone on for too long.
pub(super) fn is_endless(begin: u64, at: u64) -> bool {
    begin < EARLY && at - begin > MAX_EARLY_LOSS as u64
}

/// How the text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// As it should.
    Whole,
    /// In the middle of something.
    CutOff { offset: u64 },
    /// At something that cannot be there.
    Broken { offset: u64 },
    /// After the trace's end comes more.
    Trailing { offset: u64 },
}

/// What a tokenizer has to know of all text before its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) position: Position,
    /// Whether a list of events began.
    pub(super) seen_events: bool,
}

/// Where in the container the tokenizer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Position {
    /// Before it.
    Start,
    /// Between the fields of the object.
    Object,
    /// In the list of events. `commas` is how many came after the last element; at the list's beginning, where none belongs, it
    /// is 1.
    List { in_object: bool, commas: u8 },
    /// In a value that is too long to keep; `key` is its key if it is a header's.
    TooLong { nesting: Nesting, offset: u64, key: Option<Vec<u8>>, in_object: bool },
    /// After its closing bracket.
    Closed { in_object: bool },
    /// Where text is lost.
    Lost(Lost),
    /// After all text.
    Over(End),
}

impl State {
    /// At a file's beginning.
    pub(super) const START: State = State { position: Position::Start, seen_events: false };

    /// Before an event of the list, after a comma.
    pub(super) fn in_list(in_object: bool) -> State {
        State { position: Position::List { in_object, commas: 1 }, seen_events: true }
    }

    /// How the text ended. Known once a tokenizer has read the last text.
    pub(super) fn end(&self) -> Option<End> {
        if let Position::Over(end) = self.position { Some(end) } else { None }
    }
}

/// What comes after a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// More text, which begins with what looks like an event.
    Event,
    /// More text.
    More,
    /// The file's end.
    Nothing,
    /// Reading failed.
    Failure,
}

impl After {
    /// Whether there is no more text.
    pub(super) fn is_end(self) -> bool {
        matches!(self, After::Nothing | After::Failure)
    }
}

/// Where in the container the text is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    /// Before it.
    Nothing,
    /// Between the fields of the object.
    Object,
    /// In the list of events.
    List { in_object: bool },
    /// After its closing bracket.
    Closed { in_object: bool },
}

/// A stretch of text that is lost, up to where the tokenizer has resynchronised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) begin: u64,
    pub(super) kind: Damage,
    pub(super) within: Within,
    /// If the stretch begins with an event that had a name: the offset where this event is broken.
    pub(super) named_up_to: Option<u64>,
}

impl Lost {
    /// How the text ends if nothing is found any more.
    pub(super) fn end(self) -> End {
        let offset = self.begin;
        match self.within {
            Within::Closed { .. } => End::Trailing { offset },
            Within::List { .. } if self.kind == Damage::EventSyntax => End::CutOff { offset },
            Within::Nothing | Within::Object | Within::List { .. } => End::Broken { offset },
        }
    }
}
