//! Writes the events of one rank in Kineto's format: its header, order of events, and notation of times. Times are on the rank's own clock.

use std::fmt::{Arguments, Write as _};

use super::Job;
use super::clock::Clock;
use super::events::{Comm, Event, Launch, Name, Peer, Stream, What};
use super::layout::{Layout, list};

/// The GPU of each rank: the first of its machine.
const DEVICE: u32 = 0;
/// Where Kineto sorts the GPUs: after all processes.
const DEVICE_SORT_INDEX: u32 = 5_000_000;
/// How long the recording runs before the first event and after the last.
const MARGIN: i64 = 100_000;

pub(super) struct Text<'a> {
    out: String,
    layout: &'a Layout,
    clock: Clock,
    pid: u32,
    arguments: bool,
    has_microbatches: bool,
    is_first: bool,
}

/// The whole trace of a rank.
pub(super) fn trace(job: &Job, layout: &Layout, rank: u32, clock: Clock, events: &[Event<'_>]) -> Vec<u8> {
    let out = String::with_capacity(events.len() * 320 + 10_000);
    let mut text = Text {
        out,
        layout,
        clock,
        pid: 40_000 + rank,
        arguments: job.arguments,
        has_microbatches: job.microbatches.is_some(),
        is_first: true,
    };
    text.header(rank, job.stacks);
    let parts: [fn(&What) -> bool; 3] = [
        |what| matches!(what, What::Op { .. } | What::Record { .. } | What::Note { .. }),
        |what| matches!(what, What::Frame { .. }),
        |what| matches!(what, What::Call { .. } | What::Kernel { .. } | What::Copy { .. }),
    ];
    for is_part in parts {
        events.iter().filter(|event| is_part(&event.what)).for_each(|event| text.event(event));
    }
    let start = events.iter().map(|event| event.start).min().unwrap_or_default();
    let end = events.iter().map(|event| event.end).max().unwrap_or_default();
    text.names(start);
    text.marks(start - MARGIN, end + MARGIN);
    text.put(format_args!("\n  ],\n  \"traceName\": \"rank{rank}.json\"\n}}\n"));
    text.out.into_bytes()
}

impl Text<'_> {
    fn put(&mut self, text: Arguments<'_>) {
        // Writing to a String never fails.
        let _ = self.out.write_fmt(text);
    }

    fn header(&mut self, rank: u32, stacks: bool) {
        let stack = u8::from(stacks);
        self.put(format_args!(
            "{{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {{\n      \
             \"id\": {DEVICE}, \"name\": \"NVIDIA A100-SXM4-80GB\", \"totalGlobalMem\": 85100003328,\n      \
             \"computeMajor\": 8, \"computeMinor\": 0,\n      \
             \"maxThreadsPerBlock\": 1024, \"maxThreadsPerMultiprocessor\": 2048,\n      \
             \"regsPerBlock\": 65536, \"warpSize\": 32,\n      \
             \"sharedMemPerBlock\": 49152, \"numSms\": 108\n    }}\n  ],\n  \
             \"trace_id\": \"{rank:032X}\",\n  \"with_stack\": {stack},\n  "
        ));
        let layout = self.layout;
        let count = layout.groups_of(rank).count();
        let ranks = layout.ranks();
        self.put(format_args!(
            "\"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {rank}, \"world_size\": {ranks}, "
        ));
        if self.arguments {
            self.put(format_args!("\"pg_count\": {count}, \"pg_config\": ["));
            self.process_groups(rank);
            self.put(format_args!("], "));
        }
        self.out.push_str(
            "\"nccl_version\": \"2.27.5\"},\n  \
             \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": 0,\n  \"traceEvents\": [",
        );
    }

    fn process_groups(&mut self, rank: u32) {
        let layout = self.layout;
        for (index, group) in layout.groups_of(rank).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            self.put(format_args!(
                "{comma}{{\"pg_name\": \"{}\", \"pg_desc\": \"{}\", \"backend_config\": \"cuda:nccl\", \"pg_size\": {}, \
                 \"ranks\": {}}}",
                group.name,
                group.description,
                group.ranks.len(),
                list(&group.ranks)
            ));
        }
    }

    /// Begins an event.
    fn begin(&mut self, text: Arguments<'_>) {
        self.out.push_str(if self.is_first { "\n  {\n    " } else { ",\n  {\n    " });
        self.is_first = false;
        self.put(text);
    }

    /// A time of the rank's clock, in microseconds with three decimals.
    fn time(&mut self, key: &str, clock_ns: i64) {
        self.put(format_args!("\"{key}\": {}.{:03}", clock_ns / 1_000, clock_ns % 1_000));
    }

    /// The start of a slice, up to its arguments.
    fn slice(&mut self, cat: &str, name: Name<'_>, (pid, tid): (u32, u32), start: i64, end: i64) {
        self.begin(format_args!(
            "\"ph\": \"X\", \"cat\": \"{cat}\", \"name\": \"{name}\", \"pid\": {pid}, \"tid\": {tid},\n    "
        ));
        let (start, end) = (self.clock.at(start), self.clock.at(end));
        self.time("ts", start);
        self.out.push_str(", ");
        self.time("dur", end - start);
        self.out.push_str(",\n    \"args\": {");
    }

    /// The end of a slice.
    fn close(&mut self) {
        self.out.push_str("}\n  }");
    }

    /// One end of the flow from a launching call to what it launched.
    fn flow(&mut self, is_start: bool, id: u32, (pid, tid): (u32, u32), at: i64) {
        let phase = if is_start { 's' } else { 'f' };
        self.begin(format_args!("\"ph\": \"{phase}\", \"id\": {id}, \"pid\": {pid}, \"tid\": {tid}, "));
        self.time("ts", self.clock.at(at));
        self.out.push_str(",\n    \"cat\": \"ac2g\", \"name\": \"ac2g\"");
        self.out.push_str(if is_start { "\n  }" } else { ", \"bp\": \"e\"\n  }" });
    }

    fn event(&mut self, event: &Event<'_>) {
        let &Event { name, thread, start, end, ref what } = event;
        let thread = (self.pid, self.pid + thread);
        match *what {
            What::Frame { id, parent } => {
                self.slice("python_function", name, thread, start, end);
                match parent {
                    Some(parent) => self.put(format_args!("\"Python parent id\": {parent}, \"Python id\": {id}")),
                    None => self.put(format_args!("\"Python parent id\": null, \"Python id\": {id}")),
                }
                self.close();
            }
            What::Op { external } | What::Note { external } => {
                let cat = if matches!(what, What::Note { .. }) { "user_annotation" } else { "cpu_op" };
                self.slice(cat, name, thread, start, end);
                self.put(format_args!("\"External id\": {external}, \"Record function id\": 0"));
                self.close();
            }
            What::Record { external, comm } => {
                self.slice("cpu_op", name, thread, start, end);
                self.put(format_args!("\"External id\": {external}, \"Record function id\": 0"));
                if self.arguments {
                    self.comm(&comm);
                    self.put(format_args!(", \"Seq\": {}, \"Rank\": {}", comm.seq, comm.place));
                }
                self.close();
            }
            What::Call { launch, launches } => {
                self.slice("cuda_runtime", name, thread, start, end);
                self.external(launch);
                self.put(format_args!("\"cbid\": {}, \"correlation\": {}", callback(name), launch.correlation));
                self.close();
                self.flow(launches, launch.correlation, thread, start);
            }
            What::Kernel { launch, stream, comm, node } => {
                let lane = (DEVICE, stream as u32);
                self.slice("kernel", name, lane, start, end);
                self.kernel(launch, stream, comm, node);
                self.close();
                self.flow(false, launch.correlation, lane, start);
            }
            What::Copy { launch, stream, bytes } => {
                let lane = (DEVICE, stream as u32);
                self.slice("gpu_memcpy", name, lane, start, end);
                self.external(launch);
                let per_ns = f64::from(bytes) / (end - start).max(1) as f64;
                self.put(format_args!(
                    "\"device\": {DEVICE}, \"context\": 1, \"stream\": {}, \"correlation\": {}, \"bytes\": {bytes}, \
                     \"memory bandwidth (GB/s)\": {per_ns}",
                    stream as u32, launch.correlation
                ));
                self.close();
                self.flow(false, launch.correlation, lane, start);
            }
        }
    }

    fn external(&mut self, launch: Launch) {
        if let Some(external) = launch.external {
            self.put(format_args!("\"External id\": {external}, "));
        }
    }

    fn kernel(&mut self, launch: Launch, stream: Stream, comm: Option<Comm>, node: Option<u32>) {
        self.external(launch);
        self.put(format_args!(
            "\"queued\": 0, \"device\": {DEVICE}, \"context\": 1, \"stream\": {}, \"correlation\": {}, \
             \"grid\": [24, 1, 1], \"block\": [512, 1, 1]",
            stream as u32, launch.correlation
        ));
        if let Some(node) = node {
            self.put(format_args!(", \"graph id\": 1, \"graph node id\": {node}"));
        }
        if let Some(comm) = comm.filter(|_| self.arguments) {
            self.comm(&comm);
        }
    }

    /// The arguments that an operator's record and its kernel share.
    fn comm(&mut self, comm: &Comm) {
        let group = &self.layout.groups[comm.group];
        self.put(format_args!(
            ", \"Collective name\": \"{}\", \"In msg nelems\": {}, \"Out msg nelems\": {}, \"Group size\": {}, \
             \"dtype\": \"BFloat16\", \"In split size\": \"[]\", \"Out split size\": \"[]\", \
             \"Process Group Name\": \"{}\", \"Process Group Description\": \"{}\", \"Process Group Ranks\": \"{}\"",
            comm.collective,
            comm.elements_in,
            comm.elements_out,
            group.ranks.len(),
            group.name,
            group.description,
            group.text
        ));
        match comm.peer {
            Some(Peer::To(rank)) => self.put(format_args!(", \"Dst Rank\": {rank}")),
            Some(Peer::From(rank)) => self.put(format_args!(", \"Src Rank\": {rank}")),
            None => {}
        }
    }

    /// Names the process, its thread, the GPU and its streams.
    fn names(&mut self, start: i64) {
        let pid = self.pid;
        for (process, label, sort_index) in [(pid, "CPU", pid), (DEVICE, "GPU 0", DEVICE_SORT_INDEX)] {
            self.metadata("process_name", (process, 0), start, format_args!("\"name\": \"python\""));
            self.metadata("process_labels", (process, 0), start, format_args!("\"labels\": \"{label}\""));
            self.metadata("process_sort_index", (process, 0), start, format_args!("\"sort_index\": {sort_index}"));
        }
        let (has_experts, has_microbatches) = (self.layout.has_experts(), self.has_microbatches);
        let is_used = |stream: &Stream| match stream {
            Stream::Expert => has_experts,
            Stream::FromNext | Stream::ToNext | Stream::ToPrevious => has_microbatches,
            _ => true,
        };
        let streams = Stream::ALL.into_iter().filter(is_used);
        for stream in streams.map(|stream| stream as u32) {
            self.metadata("thread_name", (DEVICE, stream), start, format_args!("\"name\": \"stream {stream} \""));
            self.metadata("thread_sort_index", (DEVICE, stream), start, format_args!("\"sort_index\": {stream}"));
        }
        self.metadata("thread_name", (pid, pid), start, format_args!("\"name\": \"thread {pid} (python)\""));
        self.metadata("thread_sort_index", (pid, pid), start, format_args!("\"sort_index\": {pid}"));
    }

    fn metadata(&mut self, what: &str, (pid, tid): (u32, u32), at: i64, argument: Arguments<'_>) {
        self.begin(format_args!("\"name\": \"{what}\", \"ph\": \"M\", "));
        self.time("ts", self.clock.at(at));
        self.put(format_args!(", \"pid\": {pid}, \"tid\": {tid},\n    \"args\": {{{argument}}}\n  }}"));
    }

    /// The marks of the recording itself.
    fn marks(&mut self, start: i64, end: i64) {
        let (start, end) = (self.clock.at(start), self.clock.at(end));
        self.begin(format_args!(
            "\"ph\": \"X\", \"cat\": \"Trace\", \"name\": \"PyTorch Profiler (0)\", \
             \"pid\": \"Spans\", \"tid\": \"PyTorch Profiler\",\n    "
        ));
        self.time("ts", start);
        self.out.push_str(", ");
        self.time("dur", end - start);
        self.out.push_str(",\n    \"args\": {\"Op count\": 0}\n  }");
        self.begin(format_args!(
            "\"name\": \"Iteration Start: PyTorch Profiler\", \"ph\": \"i\", \"s\": \"g\",\n    \
             \"pid\": \"Traces\", \"tid\": \"Trace PyTorch Profiler\", "
        ));
        self.time("ts", start);
        self.out.push_str("\n  }");
        self.begin(format_args!(
            "\"name\": \"Record Window End\", \"ph\": \"i\", \"s\": \"g\",\n    \"pid\": \"\", \"tid\": \"\", "
        ));
        self.time("ts", end);
        self.out.push_str("\n  }");
    }
}

/// CUPTI's number of a runtime call.
fn callback(name: Name<'_>) -> u32 {
    match name {
        Name::Text("cudaLaunchKernel") => 211,
        Name::Text("cudaLaunchKernelExC") => 430,
        Name::Text("cudaGraphLaunch") => 311,
        Name::Text("cudaMemcpyAsync") => 41,
        Name::Text("cudaEventRecord") => 135,
        Name::Text("cudaEventSynchronize") => 137,
        Name::Text("cudaStreamSynchronize") => 131,
        Name::Text("cudaDeviceSynchronize") => 165,
        _ => 0,
    }
}
