//! The Chrome trace format: JSON as Kineto, Perfetto's tools and Chrome write it.
//!
//! This file says how JSON is recognised, what of it is read, and which of it is no trace. From bytes to events, in the order in which
//! the others work:
//!
//! - `threads` divides the text into chunks, lets several threads read them, and puts together what was read. The result is the same
//!   for any number of threads.
//! - `list` finds the events of a chunk, and the fields beside their list. `marks` finds quotes and brackets, and text that is not
//!   JSON, with `bits`.
//! - `repair` and `resync` read what is not JSON; how they work together is in `repair`.
//! - `event` gives one event its meaning: its members are found by walking (`value`) or by comparing it with events seen before
//!   (`template`). `args` reads its arguments.
//! - `header` is all that is beside the events. `value` knows JSON's numbers and strings.
//! - [`copy`] copies a part of a trace, and adds to single events.

mod args;
mod bits;
pub mod copy;
mod event;
mod fields;
mod header;
mod keys;
mod list;
mod marks;
mod repair;
mod rest;
mod resync;
mod template;
mod threads;
mod value;

use std::io::{self, Read};

use memchr::memmem;

use crate::damage::Damage;
use crate::error::Error;
use crate::event::{Format, Shard, Support, Writer};
use crate::input::containers::Turn;
use crate::input::reader::{File, Fit, Reading, Refusal, TraceReader, source_failure};
use crate::names::described::SCHEMA_VERSION;

pub use crate::event::Collect;
pub use crate::input::reader::Summary;
pub(super) use args::flatten_value_of;
pub use threads::{Division, Reader};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// How much of a text [`Stream::looks_like_one`] reads: fields before the events are mostly shorter.
const LOOKED_AT: u64 = 256 * 1024;

/// The text of a trace in JSON, not read yet.
pub struct Stream(Box<dyn Read + Send>);

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

impl TraceReader for Stream {
    const FORMAT: Format = Format {
        name: "Chrome JSON",
        what: "JSON",
        written_by: "the PyTorch profiler (Kineto), XSigma, Chrome, and others",
        support: Support::Read {
            expected: "a Chrome trace as the PyTorch profiler writes it (JSON with `traceEvents`, or a list of events)",
            writer: &Writer::CHROME,
            has_unique_keys: true,
        },
    };

    const TURN: Turn = Turn::Last;

    /// JSON opens a list or an object, after blanks at most.
    fn sniff(head: &[u8]) -> Fit {
        let text = head.strip_prefix(BOM).unwrap_or(head).trim_ascii_start();
        let may_be_json = text.first().map_or(!head.is_empty(), |first| matches!(first, b'{' | b'['));
        if may_be_json { Fit::Maybe } else { Fit::No }
    }

    fn open(file: File<'_>) -> Result<Vec<Self>, Refusal> {
        Ok(vec![Stream(file.into_text())])
    }

    fn looks_like_one(self) -> bool {
        let mut head = Vec::new();
        // An error here occurs again when the file is read.
        let _ = self.take(LOOKED_AT).read_to_end(&mut head);
        head.trim_ascii_start().first() == Some(&b'[') || memmem::find(&head, b"\"traceEvents\"").is_some()
    }

    /// Several threads read, each into a shard of its own.
    fn read<S: Shard>(
        self,
        reading: &mut Reading<'_>,
        add: impl FnMut(S::Batch) -> bool + Send,
    ) -> Result<Summary, Refusal> {
        let Reading { name, time, args, threads, chunk, keep_offsets, progress, text_bytes } = reading;
        let keep_offsets = *keep_offsets;
        let summary = Reader::new(*time, *args, *threads).read(
            self.0,
            Division { chunk: *chunk, in_order: false },
            |number| S::new(number, keep_offsets),
            add,
            progress,
        );
        **text_bytes += summary.text_bytes;
        refuse(name, summary)
    }
}

/// Refuses JSON that is no trace, or is damaged before the first whole event.
fn refuse(name: &str, mut summary: Summary) -> Result<Summary, Refusal> {
    if let Some(source) = summary.failure.take() {
        source_failure(name, source, summary.events)?;
    }
    if summary.events > 0 {
        return Ok(summary);
    }
    let broken = summary.damage.get(Damage::BrokenStructure).first_offset;
    Err(Refusal::NotATrace(match broken {
        Some(0) => "this is not JSON".to_owned(),
        Some(offset) if !summary.has_event_list => {
            format!("the JSON is invalid at byte {offset}, and has no event before it")
        }
        _ if summary.elements > 0 => format!("none of the {} elements of its list is an event", summary.elements),
        _ if summary.has_event_list && summary.cut_off_at.is_none() => return Ok(summary),
        _ => match summary.cut_off_at {
            Some(offset) if offset == 0 || summary.has_event_list || is_of_header(&summary.keys) => {
                return Err(Error::NothingWhole { name: name.to_owned(), offset }.into());
            }
            _ if summary.keys.iter().any(|key| key == "traceEvents") => "its `traceEvents` is not a list".to_owned(),
            _ => format!("this is another tool's JSON: it has no `traceEvents`, but {}", some_keys(&summary.keys)),
        },
    }))
}

/// Whether fields are those before the list of events, as far as they go.
fn is_of_header(keys: &[String]) -> bool {
    keys.iter().all(|key| key != "traceEvents") && (keys.is_empty() || keys.iter().any(|key| key == SCHEMA_VERSION))
}

fn some_keys(keys: &[String]) -> String {
    let shown: Vec<String> = keys.iter().take(4).map(|key| format!("`{key}`")).collect();
    match keys.len() {
        0 => "nothing at all".to_owned(),
        n if n > shown.len() => format!("{} and {} more fields", shown.join(", "), n - shown.len()),
        _ => shown.join(", "),
    }
}
