//! What is known of a format of traces besides how it is read: its name, what writes it, and what to do with a file of one that this
//! program does not read.

use serde::{Serialize, Serializer};

/// A format of traces.
#[derive(Debug, PartialEq, Eq)]
pub struct Format {
    /// Its name in tables: `Perfetto protobuf`.
    pub name: &'static str,
    /// Its name in a sentence: `a trace in Perfetto's protobuf format`.
    pub what: &'static str,
    /// The programs that write it.
    pub written_by: &'static str,
    /// Whether this program reads it.
    pub support: Support,
}

/// Whether this program reads a format.
#[derive(Debug, PartialEq, Eq)]
pub enum Support {
    /// It does.
    Read {
        /// What a file of it has, for the sentence on what was expected.
        expected: &'static str,
        /// What wrote a file whose header does not say it.
        writer: &'static Writer,
        /// Whether an event has each key once; then a key that it has twice is damage.
        has_unique_keys: bool,
    },
    /// It does not. What to do instead, as a sentence without its full stop.
    Instead(&'static str),
}

impl Format {
    /// What wrote a file whose header does not say it.
    pub fn writer(&self) -> Option<&'static Writer> {
        match self.support {
            Support::Read { writer, .. } => Some(writer),
            Support::Instead(_) => None,
        }
    }

    /// What to do instead of reading a file of it, as a sentence without its full stop; empty if it is read.
    pub fn instead(&self) -> &'static str {
        match self.support {
            Support::Read { .. } => "",
            Support::Instead(instead) => instead,
        }
    }

    /// Whether an event has each key once.
    pub fn has_unique_keys(&self) -> bool {
        matches!(self.support, Support::Read { has_unique_keys: true, .. })
    }
}

/// What wrote a trace, as far as the file shows it.
#[derive(Debug, PartialEq, Eq)]
pub struct Writer {
    /// Its name in JSON: `kineto`.
    pub name: &'static str,
    /// A trace of it, in a few words.
    pub title: &'static str,
    /// Whether it is a profiler that can record what this program asks for, so that what a trace lacks was not asked for.
    pub is_profiler: bool,
}

impl Serialize for Writer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

impl Writer {
    /// Kineto, with its header: the profiler of PyTorch, or another that writes its format, such as XSigma's.
    pub const KINETO: Writer =
        Writer { name: "kineto", title: "Trace of PyTorch's profiler (Kineto's JSON)", is_profiler: true };

    /// Events as Kineto writes them, without its header: a file of 2021, or one that a script has merged or rewritten.
    pub const KINETO_EVENTS: Writer = Writer {
        name: "kineto-events",
        title: "Events of PyTorch's profiler without Kineto's header: a file of 2021, or rewritten by a script",
        is_profiler: true,
    };

    /// Chrome's JSON as XSigma's exporter of XPlane writes it: with the header's unit ns, and with slices of which none has a category.
    /// Other programs may write the same.
    pub const XPLANE_JSON: Writer =
        Writer { name: "xplane", title: "Chrome trace as XSigma's XPlane exporter writes it", is_profiler: false };

    /// Some other program that writes Chrome's JSON.
    pub const CHROME: Writer =
        Writer { name: "chrome", title: "Trace in Chrome's JSON, not of PyTorch's profiler", is_profiler: false };

    /// Some program that writes Perfetto's protobuf.
    pub const PERFETTO: Writer = Writer {
        name: "perfetto",
        title: "Trace in Perfetto's protobuf, not of PyTorch's profiler",
        is_profiler: false,
    };

    /// Nsight Systems.
    pub const NSIGHT_SYSTEMS: Writer =
        Writer { name: "nsight-systems", title: "SQLite export of Nsight Systems", is_profiler: true };

    /// All of them.
    pub const ALL: [&Writer; 6] = [
        &Writer::KINETO,
        &Writer::KINETO_EVENTS,
        &Writer::XPLANE_JSON,
        &Writer::NSIGHT_SYSTEMS,
        &Writer::PERFETTO,
        &Writer::CHROME,
    ];
}
