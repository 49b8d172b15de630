//! Formats that this program knows and does not read. A file of one is refused by the name of its format, with what to do instead.
//!
//! To add one, add a row to [`OTHERS`], and a test with a small file. Sources: `xplane.proto` of XLA, `execution_trace_observer.cpp` of
//! PyTorch, `et_def.proto` of Chakra, the documentation of rocprofiler-sdk and of Parquet.

use memchr::memmem;

use super::containers::source::is_utf8;
use super::proto::wire::{take_bytes, take_number, varint};
use crate::event::{Format, Support};

pub(super) struct Other {
    pub(super) format: Format,
    mark: Mark,
}

enum Mark {
    /// The first bytes are these.
    Start(&'static [u8]),
    Head(fn(&[u8]) -> bool),
    Tables(fn(&[&str]) -> bool),
}

/// All of them: what shows one, its name, what it is, what writes it, and what to do instead.
pub(super) static OTHERS: [Other; 14] = [
    other(
        Mark::Head(is_xspace),
        "XPlane",
        "an XPlane profile (protobuf `XSpace`)",
        "the profiler of JAX and TensorFlow",
        "JAX writes Chrome's JSON of the same run, which can be read: `jax.profiler.trace(DIR, create_perfetto_trace=True)`",
    ),
    other(
        Mark::Head(|head| opens_with_key(head, "schema") && memmem::find(head, b"\"nodes\"").is_some()),
        "PyTorch execution trace",
        "an execution trace of PyTorch (operators without times)",
        "PyTorch's `ExecutionTraceObserver`",
        "Read the profiler's trace of the same run: `export_chrome_trace` writes it",
    ),
    other(
        Mark::Head(is_chakra),
        "Chakra",
        "a Chakra execution trace (protobuf)",
        "MLCommons' `chakra_converter`",
        "Read the PyTorch profiler's trace that it was made from",
    ),
    other(
        Mark::Head(|head| opens_with_key(head, "rocprofiler-sdk-tool")),
        "rocprofv3 JSON",
        "rocprofv3's own JSON",
        "`rocprofv3 --output-format json`",
        "Record Perfetto's protobuf, which can be read: `rocprofv3 --output-format pftrace`",
    ),
    other(
        Mark::Tables(|tables| tables.iter().any(|table| table.starts_with("rocpd_"))),
        "rocpd",
        "a rocpd database",
        "rocprofv3, rocprof-sys",
        "Convert it to Perfetto's protobuf, which can be read: `rocpd convert -i FILE --output-format pftrace`",
    ),
    other(
        Mark::Start(b"PAR1"),
        "Parquet",
        "a Parquet file",
        "`nsys export --type parquetdir`; this program, for parts of ranks and for tables",
        "Export a report of Nsight Systems as a database, which can be read: `nsys export --type sqlite`. The main command and `nccl-stacks ranks` answer from parts",
    ),
    other(
        Mark::Head(|head| opens_with_key(head, "nccl_stacks_part")),
        "part of a rank",
        "a part of a rank",
        "this program",
        "The main command and `nccl-stacks ranks` answer from parts",
    ),
    other(
        Mark::Tables(|tables| ["kernel_launch", "call_path"].iter().all(|table| tables.contains(table))),
        "exported database",
        "an SQLite database that nccl-stacks exported",
        "this program",
        "Any SQLite opens it",
    ),
    other(
        Mark::Head(is_json_lines),
        "JSON lines",
        "Chrome's JSON with an event in each line, without a list around them",
        "programs that append to a log",
        "Make a list of them: `jq -s . FILE > trace.json`",
    ),
    other(
        Mark::Head(|head| {
            [&b"\xff\xfe"[..], b"\xfe\xff", b"{\0", b"[\0", b"\0{", b"\0["].iter().any(|start| head.starts_with(start))
        }),
        "UTF-16",
        "text in UTF-16",
        "PowerShell's `>`, and editors on Windows",
        "Convert it: `iconv -f UTF-16 -t UTF-8 FILE > trace.json`",
    ),
    other(Mark::Start(b"\xfd7zXZ\0"), "xz", "compressed with xz", "`xz`", "Decompress it: `xz -dk FILE`"),
    other(Mark::Start(b"BZh"), "bzip2", "compressed with bzip2", "`bzip2`", "Decompress it: `bzip2 -dk FILE`"),
    other(Mark::Start(b"\x04\x22\x4d\x18"), "LZ4", "compressed with LZ4", "`lz4`", "Decompress it: `lz4 -dk FILE`"),
    other(
        Mark::Start(b"\x89PNG"),
        "picture",
        "a picture (PNG)",
        "programs that draw",
        "A picture has no events: read the trace that it shows",
    ),
];

const fn other(
    mark: Mark,
    name: &'static str,
    what: &'static str,
    written_by: &'static str,
    instead: &'static str,
) -> Other {
    Other { format: Format { name, what, written_by, support: Support::Instead(instead) }, mark }
}

/// Whether a text is objects with a phase, one after another without a comma: a list has a bracket before them.
fn is_json_lines(head: &[u8]) -> bool {
    let Some(end) = memchr::memchr(b'\n', head) else { return false };
    let (first, rest) = (head[..end].trim_ascii(), head[end..].trim_ascii_start());
    let is_object = first.starts_with(b"{") && first.ends_with(b"}") && rest.starts_with(b"{");
    is_object && memmem::find(first, b"\"ph\"").is_some()
}

pub(super) fn recognise(head: &[u8]) -> Option<&'static Format> {
    let other = OTHERS.iter().find(|other| match other.mark {
        Mark::Start(bytes) => head.starts_with(bytes),
        Mark::Head(begins) => begins(head),
        Mark::Tables(_) => false,
    })?;
    Some(&other.format)
}

pub(super) fn recognise_tables(tables: &[&str]) -> Option<&'static Format> {
    let other = OTHERS.iter().find(|other| matches!(other.mark, Mark::Tables(has) if has(tables)))?;
    Some(&other.format)
}

fn opens_with_key(head: &[u8], key: &str) -> bool {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let Some(text) = text.strip_prefix(b"{") else { return false };
    let Some(text) = text.trim_ascii_start().strip_prefix(b"\"") else { return false };
    text.strip_prefix(key.as_bytes()).is_some_and(|rest| rest.starts_with(b"\""))
}

/// An `XSpace`: its field 1 is an `XPlane`, whose field 1, if present, is a number, and whose field 2 is its name. Field 2 of Perfetto's
/// packets is a message, which is no text.
fn is_xspace(head: &[u8]) -> bool {
    let mut rest = head;
    let Some(mut plane) = take_bytes(&mut rest, 1) else { return false };
    take_number(&mut plane, 1);
    take_bytes(&mut plane, 2).is_some_and(is_text)
}

/// Chakra's traces begin with the length of a `GlobalMetadata`: its version (field 1) and attributes (2), which begin with their names.
fn is_chakra(head: &[u8]) -> bool {
    let mut rest = head;
    let Some(length) = varint(&mut rest) else { return false };
    let mut metadata = &rest[..rest.len().min(usize::try_from(length).unwrap_or(usize::MAX))];
    let mut fields = 0;
    while !metadata.is_empty() {
        let is_known = match (take_bytes(&mut metadata, 1), fields) {
            (Some(version), 0) => {
                version.first().is_some_and(u8::is_ascii_digit)
                    && version.iter().all(|byte| byte.is_ascii_alphanumeric() || b".-+_".contains(byte))
            }
            (Some(_), _) => false,
            (None, _) => take_bytes(&mut metadata, 2)
                .is_some_and(|mut attribute| take_bytes(&mut attribute, 1).is_some_and(is_text)),
        };
        if !is_known {
            return false;
        }
        fields += 1;
    }
    fields > 0
}

/// Printable characters, possibly without the end of the last one.
fn is_text(bytes: &[u8]) -> bool {
    is_utf8(bytes) && !bytes.is_empty() && !bytes.iter().any(u8::is_ascii_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(head: &[u8]) -> Option<&'static str> {
        recognise(head).map(|format| format.name)
    }

    /// A long plane, Chakra's description of its schema, and a list of events.
    #[test]
    fn formats_have_several_beginnings() {
        for (head, want) in [
            (&b"\x0a\x90\x4e\x08\x01\x12\x0d/device:GPU:0\x22\x05"[..], "XPlane"),
            (b"\x1d\x12\x1b\x0a\x06schema\xea\x01\x101.0.2-chakra.0.0", "Chakra"),
            (b"[\0{\0", "UTF-16"),
        ] {
            assert_eq!(name(head), Some(want), "{}", String::from_utf8_lossy(head));
        }
    }

    #[test]
    fn traces_are_none_of_these() {
        for head in [
            &b"\x0a\x04\x40\x01\x50\x02"[..],
            // A packet with a process tree, whose first process has the id 1.
            b"\x0a\x08\x12\x06\x0a\x04\x08\x01\x10\x01",
            b"\x0a\x02\x12\x00",
            b"{\"schemaVersion\": 1, \"traceEvents\": [",
            b"{\n                                  \"nodes\": 1}",
            b"{\"schema\": \"x\", \"traceEvents\": [",
            b"[",
            b"{\"ph\": \"X\",\n{\"ph\"",
            b"{\"rank\": 1}\n{\"rank\": 2}",
            b"",
            b"\x00",
        ] {
            assert_eq!(name(head), None, "{head:?}");
        }
    }
}
