//! Writes the JSON of Kineto, PyTorch's profiler back end: same header, same event layout, same notation of times. A reader of these files can read
//! real ones, because the details that readers fail on (relative times with three decimals, a flow event right after its slice, flow ends
//! without a start) are as Kineto writes them.

use std::fmt::{Display, Write as _};
use std::io::{self, Write};

/// Bytes collected before they are passed to the underlying writer.
const FLUSH_AT: usize = 1 << 16;

/// Start of the time the `ts` fields count from, on the three-month grid Kineto uses.
const BASE_TIME_NANOSECONDS: i64 = 1_759_300_374_000_000_000;

/// The row of an event: a CPU thread of a process, or a stream of a device.
#[derive(Clone, Copy)]
pub(crate) struct Lane {
    pub(crate) pid: i64,
    pub(crate) tid: i64,
}

/// When a slice ran, in nanoseconds since the base time.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) ts: i64,
    pub(crate) dur: i64,
}

/// The header's data on the job.
pub(crate) struct Header<'a> {
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    pub(crate) group: Group<'a>,
    pub(crate) with_stack: bool,
    pub(crate) trace_id: u64,
}

/// The process group of a trace's collectives.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a> {
    pub(crate) name: &'a str,
    pub(crate) description: &'a str,
}

/// A trace being written, one event after the other.
pub(crate) struct Kineto<W: Write> {
    out: W,
    buf: String,
    written: u64,
    events: u64,
}

impl<W: Write> Kineto<W> {
    pub(crate) fn begin(out: W, header: &Header<'_>) -> Self {
        let mut trace = Self { out, buf: String::with_capacity(FLUSH_AT * 2), written: 0, events: 0 };
        trace.header(header);
        trace
    }

    fn header(&mut self, header: &Header<'_>) {
        self.buf.push_str("{\n    \"schemaVersion\": 1,\n    \"deviceProperties\": [");
        for device in 0..header.ranks {
            let comma = if device == 0 { "" } else { "," };
            self.put(format_args!(
                "{comma}\n    {{\n      \"id\": {device}, \"name\": \"NVIDIA H100 80GB HBM3\", \"totalGlobalMem\": 84942979072,\n      \
                 \"computeMajor\": 9, \"computeMinor\": 0,\n      \
                 \"maxThreadsPerBlock\": 1024, \"maxThreadsPerMultiprocessor\": 2048,\n      \
                 \"regsPerBlock\": 65536, \"warpSize\": 32,\n      \
                 \"sharedMemPerBlock\": 49152, \"numSms\": 132\n    \
                 , \"regsPerMultiprocessor\": 65536, \"sharedMemPerBlockOptin\": 232448, \"sharedMemPerMultiprocessor\": 233472\n    }}"
            ));
        }
        let stack = i32::from(header.with_stack);
        let Group { name, description } = header.group;
        let ranks = rank_list(header.ranks);
        self.put(format_args!(
            "\n    ],\n      \"trace_id\": \"{:032X}\",\n      \"with_stack\": {stack},\n      \"record_shapes\": 1,\n      \
             \"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {}, \"world_size\": {size}, \"pg_count\": 1, \"pg_config\": \
             [{{\"pg_name\": \"{name}\", \"pg_desc\": \"{description}\", \"backend_config\": \"cuda:nccl\", \"pg_size\": {size}, \
             \"ranks\": {ranks}}}], \"nccl_version\": \"2.28.9\"}},\n      \
             \"cuda_driver_version\": 13000,\n      \"cuda_runtime_version\": 12090,\n      \"cupti_version\": 130000,\n  \
             \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": {BASE_TIME_NANOSECONDS},\n  \"traceEvents\": [",
            u128::from(header.trace_id).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835),
            header.rank,
            size = header.ranks,
        ));
    }

    /// Writes a complete slice. `args` is called on the open `args` object.
    pub(crate) fn slice(
        &mut self,
        cat: &str,
        name: impl Display,
        lane: Lane,
        span: Span,
        args: impl FnOnce(&mut Args<'_>),
    ) -> io::Result<()> {
        self.open_event()?;
        let Lane { pid, tid } = lane;
        self.put(format_args!(
            "\"ph\": \"X\", \"cat\": \"{cat}\", \"name\": \"{name}\", \"pid\": {pid}, \"tid\": {tid},\n    "
        ));
        self.time("\"ts\": ", span.ts);
        self.time(", \"dur\": ", span.dur);
        self.buf.push_str(",\n    \"args\": {\n      ");
        args(&mut Args { buf: &mut self.buf, first: true });
        self.buf.push_str("\n    }\n  }");
        Ok(())
    }

    /// Writes one end of the flow between a launch and what it started. Only Kineto's launching
    /// calls get an `s`; every other record with a correlation id gets an `f`, paired or not.
    pub(crate) fn flow(&mut self, start: bool, id: u32, lane: Lane, ts: i64) -> io::Result<()> {
        self.open_event()?;
        let phase = if start { 's' } else { 'f' };
        let Lane { pid, tid } = lane;
        self.put(format_args!("\"ph\": \"{phase}\", \"id\": {id}, \"pid\": {pid}, \"tid\": {tid}, "));
        self.time("\"ts\": ", ts);
        self.buf.push_str(",\n    \"cat\": \"ac2g\", \"name\": \"ac2g\"");
        self.buf.push_str(if start { "\n  }" } else { ", \"bp\": \"e\"\n  }" });
        Ok(())
    }

    /// Names a process and sets its position in the viewer's list.
    pub(crate) fn process(
        &mut self,
        pid: i64,
        ts: i64,
        name: &str,
        label: impl Display,
        sort_index: i64,
    ) -> io::Result<()> {
        let lane = Lane { pid, tid: 0 };
        self.metadata("process_name", lane, ts, format_args!("\"name\": \"{name}\""))?;
        self.metadata("process_labels", lane, ts, format_args!("\"labels\": \"{label}\""))?;
        self.metadata("process_sort_index", lane, ts, format_args!("\"sort_index\": {sort_index}"))
    }

    /// Names a thread or stream; Kineto sorts them by their own number.
    pub(crate) fn thread(&mut self, lane: Lane, ts: i64, name: impl Display) -> io::Result<()> {
        let index = lane.tid;
        self.metadata("thread_name", lane, ts, format_args!("\"name\": \"{name}\""))?;
        self.metadata("thread_sort_index", lane, ts, format_args!("\"sort_index\": {index}"))
    }

    fn metadata(&mut self, what: &str, lane: Lane, ts: i64, arg: impl Display) -> io::Result<()> {
        self.open_event()?;
        self.put(format_args!("\"name\": \"{what}\", \"ph\": \"M\", "));
        self.time("\"ts\": ", ts);
        let Lane { pid, tid } = lane;
        self.put(format_args!(", \"pid\": {pid}, \"tid\": {tid},\n    \"args\": {{\n      {arg}\n    }}\n  }}"));
        Ok(())
    }

    /// Writes the marks of the recording itself and closes the file.
    pub(crate) fn finish(mut self, recorded: Span, trace_name: &str) -> io::Result<Written> {
        self.open_event()?;
        self.time("\"ph\": \"X\", \"cat\": \"Trace\", \"ts\": ", recorded.ts);
        self.time(", \"dur\": ", recorded.dur);
        self.buf.push_str(
            ",\n    \"pid\": \"Spans\", \"tid\": \"PyTorch Profiler\",\n    \
             \"name\": \"PyTorch Profiler (0)\",\n    \"args\": {\n      \"Op count\": 0\n    }\n  }",
        );
        self.open_event()?;
        self.time("\"name\": \"process_sort_index\", \"ph\": \"M\", \"ts\": ", recorded.ts);
        self.buf.push_str(
            ",\n    \"pid\": \"Spans\", \"tid\": 0,\n    \"args\": {\n      \"sort_index\": 536870912\n    }\n  }",
        );
        self.open_event()?;
        self.buf.push_str(
            "\"name\": \"Iteration Start: PyTorch Profiler\", \"ph\": \"i\", \"s\": \"g\",\n    \
             \"pid\": \"Traces\", \"tid\": \"Trace PyTorch Profiler\"",
        );
        self.time(", \"ts\": ", recorded.ts);
        self.buf.push_str("\n  }");
        self.open_event()?;
        self.buf.push_str(
            "\"name\": \"Record Window End\", \"ph\": \"i\", \"s\": \"g\",\n    \"pid\": \"\", \"tid\": \"\"",
        );
        self.time(", \"ts\": ", recorded.ts + recorded.dur);
        self.put(format_args!("\n  }}\n  ],\n  \"traceName\": \"{trace_name}\"\n}}"));
        self.flush()?;
        self.out.flush()?;
        Ok(Written { bytes: self.written, events: self.events })
    }

    fn open_event(&mut self) -> io::Result<()> {
        if self.buf.len() >= FLUSH_AT {
            self.flush()?;
        }
        self.buf.push_str(if self.events == 0 { "\n  {\n    " } else { ",\n  {\n    " });
        self.events += 1;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(self.buf.as_bytes())?;
        self.written += self.buf.len() as u64;
        self.buf.clear();
        Ok(())
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String never fails.
        let _ = self.buf.write_fmt(text);
    }

    /// Microseconds with exactly three decimals, so that no nanosecond is lost in the text.
    fn time(&mut self, key: &str, ns: i64) {
        self.put(format_args!("{key}{}.{:03}", ns / 1000, ns % 1000));
    }
}

/// The counts of a finished trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) bytes: u64,
    pub(crate) events: u64,
}

/// The `args` object of a slice. Names and texts are not escaped, as in older Kineto; those used here contain no quotes or
/// backslashes.
pub(crate) struct Args<'a> {
    buf: &'a mut String,
    first: bool,
}

impl Args<'_> {
    /// A value that already is JSON: a number, a list, `null`.
    pub(crate) fn raw(&mut self, key: &str, value: impl Display) -> &mut Self {
        let comma = if self.first { "" } else { ", " };
        self.first = false;
        let _ = write!(self.buf, "{comma}\"{key}\": {value}");
        self
    }

    pub(crate) fn text(&mut self, key: &str, value: impl Display) -> &mut Self {
        self.raw(key, format_args!("\"{value}\""))
    }

    /// Leaves the key out when there is no value, which is how Kineto writes an id of 0.
    pub(crate) fn maybe(&mut self, key: &str, value: Option<u32>) -> &mut Self {
        if let Some(value) = value {
            self.raw(key, value);
        }
        self
    }
}

/// `[0, 1, 2, 3]`, as used for the ranks of a process group.
pub(crate) fn rank_list(ranks: u32) -> String {
    let list: Vec<String> = (0..ranks).map(|rank| rank.to_string()).collect();
    format!("[{}]", list.join(", "))
}
