//! The SQLite exports of Nsight Systems (`nsys export --type sqlite`), read into the events of a trace.
//!
//! Kernels, copies and fills become slices of GPUs, calls of the CUDA runtime and driver and the ranges of NVTX slices of threads,
//! all with the categories and arguments that Kineto gives them. So all that works on a trace of the PyTorch profiler works on these,
//! as far as the export has the data.
//!
//! CUPTI numbers correlations in each process by itself. So each process that has used CUDA is a trace of its own, and an export of
//! several is an archive of their traces: then a kernel can only have a launch of its own process.
//!
//! This file is the line of the registry: it recognises an export and finds its processes. `export` is the open file, with its texts, call
//! chains and facts of the recording. `tables` knows the tables and columns: an export has a table only if it has rows, and columns have been
//! added over the years. `process` reads one process, with one thread and table by table: `names` names its work, `nvtx` reads its ranges,
//! `payload` what NCCL attaches to them, and `output` makes events. Rows are read one by one, in the order of the file; memory holds the texts
//! that occur, and 16 bytes for each function of a call chain.
//!
//! The schema is that of "SQLite Export Schema Reference" in the documentation of Nsight Systems, and of a real export of 2026.2.

mod export;
mod names;
mod nvtx;
mod output;
mod payload;
mod process;
mod tables;

use std::rc::Rc;

pub use process::Process;

use crate::event::{Format, Shard, Support, Writer};
use crate::input::containers::Turn;
use crate::input::others;
use crate::input::reader::{File, Fit, Reading, Refusal, Summary, TraceReader};
use export::{Export, STRINGS};

const MAGIC: &[u8] = b"SQLite format 3\0";

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

    /// The processes by number: the users of a GPU or, if there are none, what has ranges.
    fn open(file: File<'_>) -> Result<Vec<Self>, Refusal> {
        let export = Export::open(file.name, file.source, file.budget)?;
        if let Some(format) = others::recognise_tables(&export.database.names()) {
            return Err(Refusal::Other(format));
        }
        let not_a_trace = |what: String| Err(Refusal::NotATrace(what));
        if !export.database.has(STRINGS.name) {
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
        let process = |(at, id)| Process { export: Rc::clone(&export), id, place: (at, count) };
        Ok((0..).zip(found).map(process).collect())
    }

    /// `pid144`
    fn name(&self) -> String {
        format!("pid{}", names::own_number(self.id))
    }

    fn read<S: Shard>(
        self,
        reading: &mut Reading<'_>,
        mut add: impl FnMut(S::Batch) -> bool + Send,
    ) -> Result<Summary, Refusal> {
        let mut shard = S::new(0, reading.keep_offsets);
        let summary = self.read_into(reading.args, &mut shard, |batch| {
            let goes_on = add(batch);
            (reading.progress)();
            goes_on
        })?;
        add(shard.take());
        *reading.text_bytes += summary.text_bytes;
        Ok(summary)
    }
}
