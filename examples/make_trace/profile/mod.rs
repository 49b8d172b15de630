//! Turns a simulated program into a trace file of any size, while holding at most one step in memory.
//!
//! Kineto writes files in its own order: all operators, then all Python frames, then device work and CUDA calls, then annotations on the device,
//! then names. Readers meet thousands of events that go back in time, so this order is kept. The program is deterministic, so it runs again for
//! each part of the file, and everything else is dropped.

pub(crate) mod catalog;
pub(crate) mod recorder;
pub(crate) mod records;
pub(crate) mod rng;

use std::io::{self, Write};

use super::kineto::{Header, Kineto, Lane, Span};
use recorder::{Recorder, Records};
use records::{Device, Gpu, Work};

/// Number of devices Kineto names in every trace, used or not.
const NAMED_DEVICES: i64 = 8;

/// Where Kineto sorts the devices: after all processes.
const DEVICE_SORT_INDEX: i64 = 5_000_000;

/// The traced process.
pub(crate) struct Process {
    pub(crate) header: Header<'static>,
    pub(crate) name: String,
    pub(crate) device: i64,
    /// The CPU threads, main thread first, with the names the system gives them.
    pub(crate) threads: Vec<(Lane, &'static str)>,
    pub(crate) streams: Vec<i64>,
    pub(crate) trace_name: String,
    /// The seed for random times.
    pub(crate) seed: u64,
}

/// A program that can be run as often as needed and does the same each time.
pub(crate) trait Workload {
    fn process(&self) -> Process;
    /// Enters the frames that stay open for the whole trace.
    fn begin(&self, rec: &mut Recorder);
    fn step(&self, rec: &mut Recorder, step: u32);
}

/// The contents of a written trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    pub(crate) bytes: u64,
    pub(crate) events: u64,
    pub(crate) steps: u32,
    pub(crate) nccl_kernels: u64,
}

/// Writes the trace of `steps` steps.
pub(crate) fn write_trace(out: &mut impl Write, program: &impl Workload, steps: u32) -> io::Result<Summary> {
    let process = program.process();
    let mut nccl_kernels = 0;
    let end = run(program, &process, steps, |records, _| {
        nccl_kernels += records.device.iter().filter(|record| is_nccl(record)).count() as u64;
        Ok(())
    })?
    .now();

    let mut trace = Kineto::begin(out, &process.header);
    let mut index = 0..;
    run(program, &process, steps, |records, _| {
        records.ops.iter().zip(&mut index).try_for_each(|(op, index)| op.write(&mut trace, index))
    })?;
    run(program, &process, steps, |records, outer| {
        for (mut python, index) in outer.iter().copied().zip(&mut index) {
            // Enclosing frames close one after another, the outermost last.
            let levels = outer.iter().filter(|other| other.id > python.id).count() as i64;
            python.span.dur = end + 700 * (levels + 1) - python.span.ts;
            python.write(&mut trace, index)?;
        }
        records.pythons.iter().zip(&mut index).try_for_each(|(python, index)| python.write(&mut trace, index))
    })?;
    run(program, &process, steps, |records, _| records.device.iter().try_for_each(|record| record.write(&mut trace)))?;
    run(program, &process, steps, |records, _| records.notes.iter().try_for_each(|note| note.write(&mut trace)))?;

    names(&mut trace, &process)?;
    let ts = Recorder::start() - 145_281;
    let written = trace.finish(Span { ts, dur: end + 40_000 - ts }, &process.trace_name)?;
    Ok(Summary { bytes: written.bytes, events: written.events, steps, nccl_kernels })
}

/// Runs the program from its start and passes on the records of each step. Frames entered before the first step come with the first.
fn run(
    program: &impl Workload,
    process: &Process,
    steps: u32,
    mut each: impl FnMut(&Records, &[records::Python]) -> io::Result<()>,
) -> io::Result<Recorder> {
    let lanes: Vec<Lane> = process.threads.iter().map(|&(lane, _)| lane).collect();
    let mut rec = Recorder::new(process.seed, process.device, &lanes);
    program.begin(&mut rec);
    for step in 0..steps {
        rec.next_step();
        program.step(&mut rec, step);
        each(&rec.records, if step == 0 { &rec.outer } else { &[] })?;
    }
    Ok(rec)
}

fn is_nccl(record: &Device) -> bool {
    matches!(record, Device::Gpu(Gpu { work: Work::Kernel { spec, .. }, .. }) if spec.name.starts_with("nccl"))
}

/// Writes the names of processes, devices, streams and threads.
fn names(trace: &mut Kineto<impl Write>, process: &Process) -> io::Result<()> {
    let ts = Recorder::start() - 12_733;
    if let Some((main, _)) = process.threads.first() {
        trace.process(main.pid, ts, &process.name, "CPU", main.pid)?;
    }
    for device in 0..NAMED_DEVICES {
        let label = format_args!("GPU {device}");
        trace.process(device, ts, &process.name, label, DEVICE_SORT_INDEX + device)?;
    }
    for &tid in &process.streams {
        trace.thread(Lane { pid: process.device, tid }, ts, format_args!("stream {tid} "))?;
    }
    for &(lane, name) in &process.threads {
        trace.thread(lane, ts, format_args!("thread {} ({name})", lane.tid))?;
    }
    Ok(())
}
