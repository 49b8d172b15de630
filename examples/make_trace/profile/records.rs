//! The profiler's records, and which `args` each kind of record has in the file.

use std::fmt;
use std::io::{self, Write};

use super::super::kineto::{Args, Group, Kineto, Lane, Span, rank_list};
use super::catalog::{Api, Input, KernelSpec, Shape};

/// The name of a slice, formatted only when it is written: most passes over a big trace only simulate most of its slices.
#[derive(Clone, Copy)]
pub(crate) enum Name {
    Fixed(&'static str),
    Numbered(&'static str, u32),
    Builtin { method: &'static str, of: &'static str, address: u64 },
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(text) => f.write_str(text),
            Self::Numbered(text, number) => write!(f, "{text}{number}"),
            Self::Builtin { method, of, address } => {
                write!(f, "<built-in method {method} of {of} object at {address:#x}>")
            }
        }
    }
}

impl From<&'static str> for Name {
    fn from(text: &'static str) -> Self {
        Self::Fixed(text)
    }
}

/// One collective call, as in `record_param_comms` and again in its kernel.
#[derive(Clone, Copy)]
pub(crate) struct Collective {
    pub(crate) name: &'static str,
    pub(crate) dtype: &'static str,
    pub(crate) elements_in: u64,
    pub(crate) elements_out: u64,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    pub(crate) group: Group<'static>,
    pub(crate) sequence: u32,
}

impl Collective {
    fn sizes(&self, args: &mut Args<'_>) {
        args.text("Collective name", self.name)
            .raw("In msg nelems", self.elements_in)
            .raw("Out msg nelems", self.elements_out)
            .raw("Group size", self.ranks)
            .text("dtype", self.dtype)
            .text("In split size", "[]")
            .text("Out split size", "[]")
            .text("Process Group Name", self.group.name)
            .text("Process Group Description", self.group.description)
            .text("Process Group Ranks", rank_list(self.ranks))
            .raw("Seq", self.sequence);
    }
}

/// What a CPU operator records of its inputs.
#[derive(Clone, Copy)]
pub(crate) enum Detail {
    Bare,
    Tensors { inputs: &'static [Input], rows: u32, columns: u32 },
    Comms(Collective),
}

/// A `cpu_op` or `user_annotation`: the records that `External id` numbers.
#[derive(Clone, Copy)]
pub(crate) struct Op {
    pub(crate) cat: &'static str,
    pub(crate) name: Name,
    pub(crate) detail: Detail,
    pub(crate) external: u32,
    pub(crate) lane: Lane,
    pub(crate) span: Span,
}

impl Op {
    pub(crate) fn write<W: Write>(&self, trace: &mut Kineto<W>, index: u32) -> io::Result<()> {
        trace.slice(self.cat, self.name, self.lane, self.span, |args| {
            args.raw("External id", self.external);
            args.raw("Record function id", 0);
            match self.detail {
                Detail::Bare => {}
                Detail::Tensors { inputs, rows, columns } => tensors(args, inputs, rows, columns),
                Detail::Comms(comms) => {
                    comms.sizes(args);
                    args.raw("Rank", comms.rank).raw("Global rank start", 0).raw("Global rank stride", 1);
                }
            }
            args.raw("Ev Idx", index);
        })
    }
}

/// The four parallel lists that `record_shapes` adds to an operator.
fn tensors(args: &mut Args<'_>, inputs: &[Input], rows: u32, columns: u32) {
    let list = |each: &dyn Fn(&Input) -> String| {
        let items: Vec<String> = inputs.iter().map(each).collect();
        format!("[{}]", items.join(", "))
    };
    args.raw(
        "Concrete Inputs",
        list(&|input| match input.shape {
            Shape::Sizes => format!("\"[{rows}, {columns}]\""),
            _ => format!("\"{}\"", input.concrete),
        }),
    );
    args.raw("Input type", list(&|input| format!("\"{}\"", input.kind)));
    args.raw(
        "Input Strides",
        list(&|input| match input.shape {
            Shape::Activation => format!("[{columns}, 1]"),
            Shape::Weight => format!("[1, {columns}]"),
            Shape::None | Shape::Sizes => "[]".to_owned(),
        }),
    );
    args.raw(
        "Input Dims",
        list(&|input| match input.shape {
            Shape::Activation => format!("[{rows}, {columns}]"),
            Shape::Weight => format!("[{columns}, {columns}]"),
            Shape::None | Shape::Sizes => "[]".to_owned(),
        }),
    );
}

/// A frame of Python or of a C function called from Python.
#[derive(Clone, Copy)]
pub(crate) struct Python {
    pub(crate) name: Name,
    pub(crate) id: u32,
    pub(crate) parent: Option<u32>,
    pub(crate) module: Option<u32>,
    pub(crate) lane: Lane,
    pub(crate) span: Span,
}

impl Python {
    pub(crate) fn write<W: Write>(&self, trace: &mut Kineto<W>, index: u32) -> io::Result<()> {
        trace.slice("python_function", self.name, self.lane, self.span, |args| {
            match self.parent {
                Some(parent) => args.raw("Python parent id", parent),
                None => args.raw("Python parent id", "null"),
            };
            args.raw("Python id", self.id).maybe("Python module id", self.module).raw("Ev Idx", index);
        })
    }
}

/// A call into the CUDA runtime or driver.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) api: &'static Api,
    pub(crate) external: Option<u32>,
    pub(crate) correlation: u32,
    pub(crate) lane: Lane,
    pub(crate) span: Span,
}

impl Call {
    fn write<W: Write>(&self, trace: &mut Kineto<W>) -> io::Result<()> {
        trace.slice(self.api.cat, self.api.name, self.lane, self.span, |args| {
            args.maybe("External id", self.external).raw("cbid", self.api.cbid).raw("correlation", self.correlation);
        })?;
        trace.flow(self.api.launches, self.correlation, self.lane, self.span.ts)
    }
}

/// The work of a device.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    Kernel { spec: &'static KernelSpec, grid: u32, collective: Option<Collective>, node: Option<Node> },
    Copy { name: &'static str, bytes: u32 },
    Set { bytes: u32 },
}

/// The CUDA graph of a kernel, and its node.
#[derive(Clone, Copy)]
pub(crate) struct Node {
    pub(crate) graph: u32,
    pub(crate) node: u32,
}

/// A record of the device: a kernel, a copy or a memset.
#[derive(Clone, Copy)]
pub(crate) struct Gpu {
    pub(crate) work: Work,
    pub(crate) external: Option<u32>,
    pub(crate) correlation: u32,
    pub(crate) lane: Lane,
    pub(crate) span: Span,
}

impl Gpu {
    fn write<W: Write>(&self, trace: &mut Kineto<W>) -> io::Result<()> {
        let (cat, name) = match self.work {
            Work::Kernel { spec, .. } => ("kernel", spec.name),
            Work::Copy { name, .. } => ("gpu_memcpy", name),
            Work::Set { .. } => ("gpu_memset", "Memset (Device)"),
        };
        trace.slice(cat, name, self.lane, self.span, |args| {
            args.maybe("External id", self.external);
            match self.work {
                Work::Kernel { spec, grid, collective, node } => {
                    self.kernel(args, spec, grid, node);
                    if let Some(collective) = collective {
                        collective.sizes(args);
                    }
                }
                Work::Copy { bytes, .. } | Work::Set { bytes } => self.transfer(args, bytes),
            }
        })?;
        trace.flow(false, self.correlation, self.lane, self.span.ts)
    }

    fn kernel(&self, args: &mut Args<'_>, spec: &KernelSpec, grid: u32, node: Option<Node>) {
        const MULTIPROCESSORS: f64 = 132.0;
        let blocks = f64::from(grid) / MULTIPROCESSORS;
        let warps = blocks * f64::from(spec.block) / 32.0;
        let Node { graph, node } = node.unwrap_or(Node { graph: 0, node: 0 });
        args.raw("queued", 0)
            .raw("device", self.lane.pid)
            .raw("context", 1)
            .raw("stream", self.lane.tid)
            .raw("correlation", self.correlation)
            .raw("registers per thread", spec.registers)
            .raw("shared memory", spec.shared_memory)
            .raw("blocks per SM", format_args!("{blocks:.6}"))
            .raw("warps per SM", format_args!("{warps:.6}"))
            .raw("grid", format_args!("[{grid}, 1, 1]"))
            .raw("block", format_args!("[{}, 1, 1]", spec.block))
            .raw("est. achieved occupancy %", (warps / 64.0 * 100.0).min(100.0) as u32)
            .raw("graph id", graph)
            .raw("graph node id", node);
    }

    fn transfer(&self, args: &mut Args<'_>, bytes: u32) {
        args.raw("device", self.lane.pid)
            .raw("context", 1)
            .raw("stream", self.lane.tid)
            .raw("correlation", self.correlation)
            .raw("bytes", bytes)
            .raw("memory bandwidth (GB/s)", f64::from(bytes) / self.span.dur as f64);
    }
}

/// Launches and device work come from one source in the profiler, interleaved.
#[derive(Clone, Copy)]
pub(crate) enum Device {
    Call(Call),
    Gpu(Gpu),
}

impl Device {
    pub(crate) fn write<W: Write>(&self, trace: &mut Kineto<W>) -> io::Result<()> {
        match self {
            Self::Call(call) => call.write(trace),
            Self::Gpu(gpu) => gpu.write(trace),
        }
    }
}

/// A `gpu_user_annotation`: a CPU annotation, repeated on a stream.
#[derive(Clone, Copy)]
pub(crate) struct Note {
    pub(crate) name: Name,
    pub(crate) external: u32,
    pub(crate) lane: Lane,
    pub(crate) span: Span,
}

impl Note {
    pub(crate) fn write<W: Write>(&self, trace: &mut Kineto<W>) -> io::Result<()> {
        trace.slice("gpu_user_annotation", self.name, self.lane, self.span, |args| {
            args.raw("External id", self.external);
        })
    }
}
