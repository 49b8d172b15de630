//! Facts about a trace format besides how to read it: its name, what writes it, and what to do with a file that this program does not read.

use serde::{Serialize, Serializer};

#[derive(Debug, PartialEq, Eq)]
pub struct Format {
    /// Its name in tables: `Perfetto protobuf`.
    pub name: &'static str,
    /// Its name in a sentence: `a trace in Perfetto's protobuf format`.
    pub what: &'static str,
    pub written_by: &'static str,
    pub support: Support,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Support {
    Read {
        /// What a file of this format contains, for the message about what was expected.
        expected: &'static str,
        /// The writer of a file whose header does not name one.
        writer: &'static Writer,
        /// Whether each key of an event is unique, so that a repeated key is damage.
        has_unique_keys: bool,
    },
    /// No. What to do instead, as a sentence without a full stop.
    Instead(&'static str),
}

impl Format {
    pub fn writer(&self) -> Option<&'static Writer> {
        match self.support {
            Support::Read { writer, .. } => Some(writer),
            Support::Instead(_) => None,
        }
    }

    /// What to do instead of reading such a file, as a sentence without a full stop; empty if it is read.
    pub fn instead(&self) -> &'static str {
        match self.support {
            Support::Read { .. } => "",
            Support::Instead(instead) => instead,
        }
    }

    pub fn has_unique_keys(&self) -> bool {
        matches!(self.support, Support::Read { has_unique_keys: true, .. })
    }
}

/// The program that wrote a trace, as far as the file shows it.
#[derive(Debug, PartialEq, Eq)]
pub struct Writer {
    /// Its name in JSON: `kineto`.
    pub name: &'static str,
    /// A trace from it, as a sentence goes on: `a trace of PyTorch's profiler`.
    pub title: &'static str,
    /// Whether it is a profiler that can record everything this program needs, so that missing data were not asked for.
    pub is_profiler: bool,
}

impl Serialize for Writer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

impl Writer {
    /// Kineto, with its header: PyTorch's profiler, or another that writes its format, such as XSigma's.
    pub const KINETO: Writer =
        Writer { name: "kineto", title: "a trace of PyTorch's profiler (Kineto's JSON)", is_profiler: true };

    /// Events as Kineto writes them, without its header: a file from 2021, or one that a script has merged or rewritten.
    pub const KINETO_EVENTS: Writer = Writer {
        name: "kineto-events",
        title: "a trace of PyTorch's profiler without Kineto's header, from 2021 or rewritten by a script",
        is_profiler: true,
    };

    /// Chrome JSON as XSigma's XPlane exporter writes it: the header's unit is ns, and no slice has a category.
    pub const XPLANE_JSON: Writer =
        Writer { name: "xplane", title: "a Chrome trace as XSigma's XPlane exporter writes it", is_profiler: false };

    /// Another program that writes Chrome JSON.
    pub const CHROME: Writer =
        Writer { name: "chrome", title: "a trace in Chrome's JSON, not from PyTorch's profiler", is_profiler: false };

    /// A program that writes Perfetto's protobuf.
    pub const PERFETTO: Writer = Writer {
        name: "perfetto",
        title: "a trace in Perfetto's protobuf, not from PyTorch's profiler",
        is_profiler: false,
    };

    /// PyTorch's events, which a script has written as Perfetto's protobuf.
    pub const KINETO_PROTO: Writer = Writer {
        name: "kineto-perfetto",
        title: "a trace of PyTorch's profiler in Perfetto's protobuf",
        is_profiler: true,
    };

    pub const NSIGHT_SYSTEMS: Writer =
        Writer { name: "nsight-systems", title: "an SQLite export of Nsight Systems", is_profiler: true };
}
