//! A clock with call stacks. Code written against it reads like the program it imitates, and records what a profiler would have recorded.

use std::collections::HashMap;

use super::super::kineto::{Lane, Span};
use super::catalog::{self, Api, KernelSpec, LEAVES, METHODS};
use super::records::{Call, Collective, Detail, Device, Gpu, Name, Node, Note, Op, Python, Work};
use super::rng::{Rng, mix};

/// The first time in a trace, in nanoseconds since the base time. It is 39 days in, so that a reader fails that keeps microseconds in single
/// precision, or truncates digits.
const START: i64 = 3_412_907_118_204_331;

/// Objects whose addresses show up in the names of built-in methods.
const OBJECTS: u64 = 160;

/// A CPU thread with its open calls.
struct Thread {
    lane: Lane,
    pythons: Vec<u32>,
    ops: Vec<u32>,
}

/// The records since the last step, in the order of the profiler's numbers.
#[derive(Default)]
pub(crate) struct Records {
    pub(crate) ops: Vec<Op>,
    pub(crate) pythons: Vec<Python>,
    pub(crate) device: Vec<Device>,
    pub(crate) notes: Vec<Note>,
}

pub(crate) struct Recorder {
    pub(crate) records: Records,
    /// Frames that stay open until the trace ends, so that their durations are known last.
    pub(crate) outer: Vec<Python>,
    pub(crate) rng: Rng,
    now: i64,
    device: i64,
    /// When the device has finished all its work so far.
    device_free: i64,
    threads: Vec<Thread>,
    thread: usize,
    modules: HashMap<(&'static str, u32), u32>,
    last_python: u32,
    last_external: u32,
    last_correlation: u32,
    last_collective: u32,
}

impl Recorder {
    pub(crate) fn new(seed: u64, device: i64, threads: &[Lane]) -> Self {
        let threads = threads.iter().map(|&lane| Thread { lane, pythons: Vec::new(), ops: Vec::new() });
        Self {
            records: Records::default(),
            outer: Vec::new(),
            rng: Rng::new(seed),
            now: START,
            device,
            device_free: START,
            threads: threads.collect(),
            thread: 0,
            modules: HashMap::new(),
            last_python: 0,
            last_external: 0,
            last_correlation: 0,
            last_collective: 0,
        }
    }

    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    pub(crate) fn start() -> i64 {
        START
    }

    /// Drops the records of the previous step; clocks, ids and open calls continue.
    pub(crate) fn next_step(&mut self) {
        let Records { ops, pythons, device, notes } = &mut self.records;
        ops.clear();
        pythons.clear();
        device.clear();
        notes.clear();
    }

    /// The sequence number of the next collective of the group.
    pub(crate) fn next_collective(&mut self) -> u32 {
        self.last_collective += 1;
        self.last_collective
    }

    /// Keeps the CPU busy without a recorded event.
    pub(crate) fn spend(&mut self, low: u64, high: u64) {
        self.now += self.rng.skewed(low, high) as i64;
    }

    /// Runs `body` on another thread of the process. The clock continues: a thread that hands work to another one here waits for it.
    pub(crate) fn on_thread(&mut self, thread: usize, body: impl FnOnce(&mut Self)) {
        let home = std::mem::replace(&mut self.thread, thread);
        body(self);
        self.thread = home;
    }

    /// Runs `body` at an earlier time, on a thread with its own work.
    pub(crate) fn meanwhile(&mut self, thread: usize, since: i64, body: impl FnOnce(&mut Self, i64)) {
        let now = std::mem::replace(&mut self.now, since);
        self.on_thread(thread, |rec| body(rec, now));
        self.now = now;
    }

    /// Opens a Python frame that lasts as long as the trace.
    pub(crate) fn stay_in(&mut self, name: impl Into<Name>) {
        self.spend(600, 2_000);
        self.last_python += 1;
        let (id, thread) = (self.last_python, &mut self.threads[self.thread]);
        let span = Span { ts: self.now, dur: 0 };
        let parent = thread.pythons.last().copied();
        self.outer.push(Python { name: name.into(), id, parent, module: None, lane: thread.lane, span });
        thread.pythons.push(id);
    }

    pub(crate) fn python(&mut self, name: impl Into<Name>, body: impl FnOnce(&mut Self)) {
        self.frame(name.into(), None, body);
    }

    /// Calls an `nn.Module`, which shows as three frames: the module, `_call_impl`, its `forward`.
    pub(crate) fn module(
        &mut self,
        class: &'static str,
        index: u32,
        forward: &'static str,
        body: impl FnOnce(&mut Self),
    ) {
        let unseen = self.modules.len() as u32;
        let id = *self.modules.entry((class, index)).or_insert(unseen);
        self.frame(Name::Numbered(class, index), Some(id), |rec| {
            rec.python("torch/nn/modules/module.py(1783): _call_impl", |rec| rec.python(forward, body));
        });
    }

    fn frame(&mut self, name: Name, module: Option<u32>, body: impl FnOnce(&mut Self)) {
        self.spend(40, 400);
        self.last_python += 1;
        let (id, at, ts) = (self.last_python, self.records.pythons.len(), self.now);
        let thread = &mut self.threads[self.thread];
        let parent = thread.pythons.last().copied();
        self.records.pythons.push(Python { name, id, parent, module, lane: thread.lane, span: Span { ts, dur: 0 } });
        thread.pythons.push(id);
        self.spend(60, 500);
        body(self);
        self.spend(40, 300);
        self.threads[self.thread].pythons.pop();
        self.records.pythons[at].span.dur = self.now - ts;
    }

    /// The many tiny calls between the ones that matter.
    pub(crate) fn chatter(&mut self, calls: u32) {
        for _ in 0..calls {
            if self.rng.range(0, 3) == 0 {
                let (method, of) = METHODS[self.rng.skewed(0, METHODS.len() as u64) as usize];
                let address = address(self.rng.skewed(0, OBJECTS));
                self.leaf(Name::Builtin { method, of, address });
            } else {
                let name = LEAVES[self.rng.skewed(0, LEAVES.len() as u64) as usize];
                self.leaf(name.into());
            }
        }
    }

    fn leaf(&mut self, name: Name) {
        self.spend(30, 300);
        self.last_python += 1;
        let thread = &self.threads[self.thread];
        let span = Span { ts: self.now, dur: self.rng.skewed(31, 1_200) as i64 };
        let (id, parent) = (self.last_python, thread.pythons.last().copied());
        self.records.pythons.push(Python { name, id, parent, module: None, lane: thread.lane, span });
        self.now += span.dur;
    }

    /// Runs a CPU operator.
    pub(crate) fn op(&mut self, name: impl Into<Name>, detail: Detail, body: impl FnOnce(&mut Self)) {
        let at = self.open_op("cpu_op", name.into(), detail);
        let external = self.records.ops[at].external;
        self.threads[self.thread].ops.push(external);
        body(self);
        self.threads[self.thread].ops.pop();
        self.close_op(at);
    }

    /// Runs `body` under a `user_annotation`, which is repeated on each stream that got work from it.
    pub(crate) fn annotation(&mut self, name: impl Into<Name>, detail: Detail, body: impl FnOnce(&mut Self)) {
        let from = self.records.device.len();
        let at = self.open_op("user_annotation", name.into(), detail);
        body(self);
        self.close_op(at);
        self.annotate_streams(at, from);
    }

    fn open_op(&mut self, cat: &'static str, name: Name, detail: Detail) -> usize {
        self.spend(100, 900);
        self.last_external += 1;
        let (lane, span) = (self.threads[self.thread].lane, Span { ts: self.now, dur: 0 });
        self.records.ops.push(Op { cat, name, detail, external: self.last_external, lane, span });
        self.spend(400, 2_500);
        self.records.ops.len() - 1
    }

    fn close_op(&mut self, at: usize) {
        self.spend(200, 1_500);
        let span = &mut self.records.ops[at].span;
        span.dur = self.now - span.ts;
    }

    fn annotate_streams(&mut self, op: usize, from: usize) {
        let Op { name, external, .. } = self.records.ops[op];
        let first = self.records.notes.len();
        for record in &self.records.device[from..] {
            let Device::Gpu(Gpu { lane, span, .. }) = *record else { continue };
            let (start, end) = (span.ts - 1, span.ts + span.dur + 1);
            let notes = &mut self.records.notes;
            if let Some(note) = notes[first..].iter_mut().find(|note| note.lane.tid == lane.tid) {
                note.span.dur = note.span.dur.max(end - note.span.ts);
            } else {
                notes.push(Note { name, external, lane, span: Span { ts: start, dur: end - start } });
            }
        }
    }

    /// Calls into CUDA without launching anything.
    pub(crate) fn call(&mut self, api: &'static Api) {
        self.spend(150, 900);
        let dur = self.rng.skewed(250, 6_000) as i64;
        self.record_call(api, dur);
    }

    /// Waits until the device has finished everything.
    pub(crate) fn synchronize(&mut self, api: &'static Api) {
        self.spend(150, 900);
        let dur = (self.device_free - self.now).max(0) + self.rng.skewed(3_000, 12_000) as i64;
        self.record_call(api, dur);
    }

    fn record_call(&mut self, api: &'static Api, dur: i64) -> u32 {
        self.last_correlation += 1;
        let thread = &self.threads[self.thread];
        let external = thread.ops.last().copied();
        let (correlation, span) = (self.last_correlation, Span { ts: self.now, dur });
        self.records.device.push(Device::Call(Call { api, external, correlation, lane: thread.lane, span }));
        self.now += dur;
        correlation
    }

    pub(crate) fn launch(
        &mut self,
        api: &'static Api,
        spec: &'static KernelSpec,
        grid: u32,
        stream: i64,
        collective: Option<Collective>,
    ) {
        let runs = self.rng.skewed(spec.runs.0, spec.runs.1) as i64;
        self.give(api, Work::Kernel { spec, grid, collective, node: None }, stream, runs);
    }

    pub(crate) fn copy(&mut self, name: &'static str, bytes: u32, stream: i64) {
        let runs = self.rng.skewed(900, 2_500) as i64 + i64::from(bytes / 64);
        self.give(&catalog::MEMCPY_ASYNC, Work::Copy { name, bytes }, stream, runs);
    }

    pub(crate) fn set(&mut self, bytes: u32, stream: i64) {
        let runs = self.rng.skewed(700, 1_600) as i64;
        self.give(&catalog::MEMSET_ASYNC, Work::Set { bytes }, stream, runs);
    }

    /// Gives the device a piece of work. Its record comes before the record of the call, which is the order in which the buffers of a short kernel
    /// are returned.
    fn give(&mut self, api: &'static Api, work: Work, stream: i64, runs: i64) {
        self.spend(200, 1_200);
        let dur = self.rng.skewed(2_500, 20_000) as i64;
        let external = self.threads[self.thread].ops.last().copied();
        let correlation = self.last_correlation + 1;
        let gap = self.rng.skewed(200, 900) as i64;
        let ts = (self.now + dur + self.rng.skewed(700, 3_500) as i64).max(self.device_free + gap);
        self.device_free = ts + runs;
        let (lane, span) = (Lane { pid: self.device, tid: stream }, Span { ts, dur: runs });
        self.records.device.push(Device::Gpu(Gpu { work, external, correlation, lane, span }));
        self.record_call(api, dur);
    }

    /// Replays a CUDA graph: one call, and kernels that all carry its correlation id. With `early`,
    /// a kernel may begin before the collective ahead of it has ended (programmatic dependent launch).
    pub(crate) fn replay(&mut self, graph: u32, kernels: &[(&'static KernelSpec, u32)], stream: i64, early: bool) {
        self.spend(300, 1_500);
        let dur = 30_000 + self.rng.skewed(900, 1_400) as i64 * kernels.len() as i64;
        let mut free = self.device_free.max(self.now + 9_000);
        let correlation = self.record_call(&catalog::GRAPH_LAUNCH, dur);
        let lane = Lane { pid: self.device, tid: stream };
        for (node, pair) in kernels.iter().enumerate() {
            let (spec, grid) = *pair;
            let after_collective = node > 0 && kernels[node - 1].0.name.starts_with("nccl");
            let gap = self.rng.skewed(250, 1_100) as i64;
            let ts = if early && after_collective { free - gap } else { free + gap };
            let span = Span { ts, dur: self.rng.skewed(spec.runs.0, spec.runs.1) as i64 };
            free = free.max(ts + span.dur);
            let node = Some(Node { graph, node: node as u32 + 1 });
            let work = Work::Kernel { spec, grid, collective: None, node };
            self.records.device.push(Device::Gpu(Gpu { work, external: None, correlation, lane, span }));
        }
        self.device_free = free;
    }
}

/// The address of one of the process's objects. The same number always has the same address.
pub(crate) fn address(object: u64) -> u64 {
    0x7f3c_4000_0000 | (mix(object) & 0x3fff_fff0)
}
