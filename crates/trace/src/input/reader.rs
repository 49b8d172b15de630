//! What a reader of traces is, and what it hands on.
//!
//! The reader is chosen once for a file; its events then go to the store without any dispatch, so reading is generic over the [`Shard`].

use std::io::{self, Read};
use std::num::NonZero;

use super::containers::Turn;
use super::containers::limit::{Budget, Limited, failure};
use super::containers::packed::{PackedCause, PackedFailure};
use super::containers::source::Source;
use crate::damage::DamageReport;
use crate::error::Error;
use crate::event::{ArgsWanted, Format, HeaderField, Shard};
use crate::time::TimeRule;

pub(super) trait TraceReader: Sized {
    const FORMAT: Format;
    /// When a file of the format is read in an archive: trace_processor reads some formats before others.
    const TURN: Turn;

    /// How well the first bytes of a file fit the format; at most [`SNIFF`](super::containers::source::SNIFF) of them.
    fn sniff(head: &[u8]) -> Fit;

    /// Opens a file; most hold one trace. Refuses one without a trace, as far as that shows without reading it.
    fn open(file: File<'_>) -> Result<Vec<Self>, Refusal>;

    /// The name of a trace that shares its file with others.
    fn name(&self) -> String {
        String::new()
    }

    /// Whether its beginning looks like a trace, for a caller that has to know before it reads any.
    fn looks_like_one(self) -> bool {
        true
    }

    /// Reads the trace. `add` takes the batches in file order; `false` from it ends the reading. A file that turns out to hold no trace
    /// is refused, and one that is damaged before its first whole event.
    fn read<S: Shard>(
        self,
        reading: &mut Reading<'_>,
        add: impl FnMut(S::Batch) -> bool + Send,
    ) -> Result<Summary, Refusal>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// They are the format's mark.
    Sure,
    /// The format has no mark, or a damaged one. The first such format is taken if no other is sure.
    Maybe,
    No,
}

impl Fit {
    /// For a format that always begins with a mark.
    pub(super) fn sure_if(has_mark: bool) -> Self {
        if has_mark { Fit::Sure } else { Fit::No }
    }
}

pub(super) struct File<'a> {
    pub(super) name: &'a str,
    pub(super) source: Source,
    pub(super) budget: &'a Budget,
}

impl File<'_> {
    /// Its bytes as text of the budget.
    pub(super) fn into_text(self) -> Box<dyn Read + Send> {
        Box::new(Limited::new(self.source, self.budget.clone()))
    }
}

pub(super) enum Refusal {
    NotATrace(String),
    /// A format that is known and not read.
    Other(&'static Format),
    Failed(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::Failed(error)
    }
}

pub struct Reading<'a> {
    pub name: &'a str,
    /// How the times of JSON become nanoseconds. The other formats name their unit.
    pub time: TimeRule,
    pub args: ArgsWanted,
    /// Of a format that several threads can read.
    pub threads: NonZero<usize>,
    /// How many bytes of text a thread takes at a time; `None`: the best number.
    pub chunk: Option<NonZero<usize>>,
    pub keep_offsets: bool,
    /// Called now and then.
    pub progress: &'a mut (dyn FnMut() + Send),
    /// How many bytes of text have been read, also of files that are no traces.
    pub text_bytes: &'a mut u64,
}

/// What was read beside the events.
#[derive(Debug, Default)]
pub struct Summary {
    /// Flattened.
    pub header: Vec<HeaderField>,
    /// The names of the fields of JSON's header, in file order, to say what a file is that is no trace.
    pub keys: Vec<String>,
    /// Whether JSON has a list of events.
    pub has_event_list: bool,
    /// How many elements its list of events had, or packets its file, whatever they were.
    pub elements: u64,
    pub events: u64,
    pub damage: DamageReport,
    /// The offset where JSON was cut off.
    pub cut_off_at: Option<u64>,
    /// What the source of the text failed with.
    pub failure: Option<io::Error>,
    /// How many bytes of text were read for it.
    pub text_bytes: u64,
}

/// Refuses a source that failed, unless it is compressed data that are damaged after the first whole event.
pub(super) fn source_failure(name: &str, source: io::Error, events: u64) -> Result<(), Error> {
    match PackedFailure::find_in(&source) {
        None => Err(failure(name, source)),
        Some(packed) if events == 0 && packed.cause != PackedCause::TrailingBytes => {
            let (name, offset, message) = (name.to_owned(), packed.offset, packed.message.clone());
            Err(match packed.cause {
                PackedCause::CutOff => Error::NothingWhole { name, offset },
                _ => Error::CorruptBeforeFirstEvent { name, offset, message },
            })
        }
        Some(_) => Ok(()),
    }
}
