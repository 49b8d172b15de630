//! The format in the registry: how an export is recognised, which processes it has, and how a process is read. One thread reads, table by
//! table, and hands on a batch of events now and then.

use std::rc::Rc;

use super::export::Export;
use super::names;
use super::process::{self, Process};
use super::strings::STRINGS;
use super::summary::{Item, Summary};
use crate::event::{Format, Support, Writer};
use crate::input::containers::Turn;
use crate::input::others;
use crate::input::reader::{self, File, Fit, Reading, Refusal, Shard, TraceReader};

const MAGIC: &[u8] = b"SQLite format 3\0";

/// How many events make a batch.
const BATCH: usize = 1 << 16;

/// A row of a database has no byte offset.
const NO_OFFSET: u64 = 0;

impl TraceReader for Process {
    const FORMAT: Format = Format {
        name: "Nsight Systems SQLite",
        what: "an export of Nsight Systems",
        written_by: "`nsys export --type sqlite`",
        support: Support::Read {
            expected: "an SQLite export of Nsight Systems (`nsys export --type sqlite`)",
            writer: &Writer::NSIGHT_SYSTEMS,
            has_unique_keys: false,
        },
    };

    const TURN: Turn = Turn::Packed;

    fn sniff(head: &[u8]) -> Fit {
        Fit::sure_if(head.starts_with(MAGIC))
    }

    /// The processes by number: those that used a GPU or, if none did, those that have ranges.
    fn open(file: File<'_>) -> Result<Vec<Self>, Refusal> {
        let export = Export::open(file.name, file.source, file.budget)?;
        if let Some(format) = others::recognise_tables(&export.tables.names()) {
            return Err(Refusal::Other(format));
        }
        let not_a_trace = |what: String| Err(Refusal::NotATrace(what));
        if !export.tables.has(STRINGS.name) {
            return not_a_trace(format!(
                "this is an SQLite database, but not an export of Nsight Systems: it has no table {}",
                STRINGS.name
            ));
        }
        let mut found = export.processes(process::OF_GPU)?;
        if found.is_empty() {
            found = export.processes(&[process::NVTX])?;
        }
        if found.is_empty() {
            return not_a_trace(
                "this export of Nsight Systems has neither GPU work nor NVTX ranges (record with --trace=cuda,nvtx)"
                    .to_owned(),
            );
        }
        let (export, count) = (Rc::new(export), found.len() as u64);
        let process = |(at, id): (u64, i64)| Process::new(Rc::clone(&export), id, (at, count));
        Ok((0..).zip(found).map(process).collect())
    }

    /// `pid144`
    fn name(&self) -> String {
        format!("pid{}", names::process(self.id()))
    }

    fn read<S: Shard>(
        self,
        reading: &mut Reading<'_>,
        mut add: impl FnMut(S::Batch) -> bool + Send,
    ) -> Result<reader::Summary, Refusal> {
        let mut shard = S::new(0, reading.keep_offsets);
        let mut goes_on = true;
        let summary = self.read(reading.args, |item| {
            match item {
                Item::Event(event) => shard.add(event, NO_OFFSET),
                Item::Range(track, event) => shard.add_on(track, event, NO_OFFSET),
                Item::Track(description) => shard.describe(&description),
            }
            if shard.pending() >= BATCH {
                goes_on = add(shard.take());
                (reading.progress)();
            }
            goes_on
        })?;
        add(shard.take());
        let Summary { header, events, damage, bytes } = summary;
        *reading.text_bytes += bytes;
        Ok(reader::Summary { header, events, damage, text_bytes: bytes })
    }
}
