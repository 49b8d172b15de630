//! The timing of one simulated rank: its CPU, which runs ahead, and the streams of its GPU, which follow the launches. Times depend on the CPU's
//! work and on the ends of collectives, which come from outside.

use super::events::{Comm, Event, Launch, Name, Recorder, Stream, What};
use super::model::{COPY_PAGEABLE, COPY_PINNED};
use super::path::{Moments, Place};
use super::rng::Rng;
use super::{How, Job, Late, StepSync};

/// From the end of a launching call to the earliest start of its kernel.
const LAUNCH_LATENCY: i64 = 4_000;
/// The gap between two kernels of a graph.
const NODE_GAP: i64 = 800;
/// The minimum time of a synchronising call, and its time after the work that it waits for.
const SYNC: i64 = 3_000;

// The calls at the end of a step are as in real traces. There a call that waits returns 5 to 9 µs after the end of what it waits for, mostly 6 to 8, and one that
// has nothing to wait for takes a time of its own. Both vary by this.
const SYNC_VARIES: i64 = 2_000;
const WAKE: i64 = 6_000;
const STREAM_SYNC: i64 = 3_000;
const EVENT_SYNC: i64 = 6_000;
const DEVICE_SYNC: i64 = 12_000;

/// A copy of one number, and its call.
const COPY: i64 = 2_000;
const COPY_BYTES: u32 = 4;
const COPY_CALL: i64 = 10_000;
/// From the beginning of a call that blocks until its copy has ended to the earliest start of the copy.
const COPY_LATENCY: i64 = 6_000;

/// A place in the job; without a layer, once per step.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) step: u32,
    pub(super) layer: Option<u32>,
}

/// A communication kernel that has started, and whose end other ranks decide.
pub(super) struct Pending {
    pub(super) start: i64,
    /// How long it takes once all members have started.
    pub(super) transfer: i64,
    pub(super) comm: Comm,
    kernel: &'static str,
    launch: Launch,
    stream: Stream,
    node: Option<u32>,
    /// Whether later launches on the compute stream wait for it.
    blocks: bool,
    /// Its place among the communications of its rank.
    pub(super) number: usize,
    /// Its start, if the moments are kept.
    pub(super) moment: Option<Place>,
}

/// The launch arguments of a communication kernel.
pub(super) struct Transfer {
    pub(super) kernel: &'static str,
    pub(super) stream: Stream,
    pub(super) comm: Comm,
    pub(super) transfer: i64,
    pub(super) blocks: bool,
}

/// A graph that is being replayed.
struct Replay {
    launch: Launch,
    earliest: i64,
    nodes: u32,
    launched: Place,
}

pub(super) struct Machine<'a> {
    pub(super) rank: u32,
    jitter: i64,
    factor: f64,
    stacks: bool,
    /// The fault, if this rank is the late one.
    late: Option<&'a Late>,
    rng: Rng,
    now: i64,
    /// By stream: the end of its last kernel.
    busy: [i64; Stream::ALL.len()],
    replay: Option<Replay>,
    /// If they are kept; the last one of the CPU, and those of the streams.
    moments: Option<Moments>,
    cpu: Place,
    streams: [Place; Stream::ALL.len()],
    recorder: Option<Recorder<'a>>,
}

impl<'a> Machine<'a> {
    pub(super) fn new(job: &'a Job, rank: u32, records: bool) -> Self {
        let late = job.late_of(rank);
        let factor = match late.map(|late| &late.how) {
            Some(How::SlowCpu { factor }) => *factor,
            _ => 1.0,
        };
        let mut rng = Rng::new(job.seed, u64::from(rank) + 1_000);
        let now = rng.up_to(job.jitter_ns);
        let recorder = records.then(Recorder::default);
        let (jitter, stacks) = (job.jitter_ns, job.stacks);
        let moments = (job.path && !records).then(|| Moments::new(rank, now));
        let (busy, first) = ([0; Stream::ALL.len()], (rank, 0));
        let streams = [first; Stream::ALL.len()];
        Self {
            rank,
            jitter,
            factor,
            stacks,
            late,
            rng,
            now,
            busy,
            replay: None,
            moments,
            cpu: first,
            streams,
            recorder,
        }
    }

    pub(super) fn moments(&self) -> Option<&Moments> {
        self.moments.as_ref()
    }

    /// A moment after another one; without moments, that one.
    fn moment(&mut self, kind: &'static str, time: i64, before: Place) -> Place {
        self.moments.as_mut().map_or(before, |moments| moments.push(kind, time, before))
    }

    /// The CPU is at another moment.
    fn cpu_until_now(&mut self) {
        self.cpu = self.moment("cpu", self.now, self.cpu);
    }

    fn show(&mut self, at: Place) {
        self.moments.iter_mut().for_each(|moments| moments.show(at));
    }

    pub(super) fn events(self) -> Vec<Event<'a>> {
        self.recorder.map_or_else(Vec::new, |recorder| recorder.events)
    }

    /// The duration of a piece of work, with its random part.
    fn piece(&mut self, ns: i64) -> i64 {
        ns + self.rng.up_to(self.jitter)
    }

    /// Lets the CPU compute.
    pub(super) fn work(&mut self, ns: i64) {
        let piece = self.piece(ns);
        self.now += self.slowed(piece);
        self.cpu_until_now();
    }

    /// How long work takes this CPU.
    fn slowed(&self, ns: i64) -> i64 {
        if self.factor == 1.0 { ns } else { (ns as f64 * self.factor).round() as i64 }
    }

    /// Lets the CPU idle, without a recorded event.
    pub(super) fn idle(&mut self, ns: i64) {
        self.now += ns;
        self.cpu_until_now();
    }

    /// Enters a Python function. If this is the late function, it first takes its extra time.
    pub(super) fn enter(&mut self, function: &'a str, moment: Moment) {
        if let Some(recorder) = self.recorder.as_mut().filter(|_| self.stacks) {
            recorder.frame(function, self.now);
        }
        if let Some(Late { how: How::Cpu { function: slow }, extra_ns, when, .. }) = self.late
            && slow == function
            && when.is_due(moment)
        {
            self.now += extra_ns;
            self.cpu_until_now();
        }
    }

    pub(super) fn leave(&mut self) {
        if self.stacks {
            self.close();
        }
    }

    /// Goes on on this thread, while the other one waits for it.
    pub(super) fn on_thread(&mut self, thread: u32) {
        self.recorder.iter_mut().for_each(|recorder| recorder.thread = thread);
    }

    /// Calls the late function, if this is the moment for it.
    pub(super) fn call_late(&mut self, moment: Moment) {
        if let Some(Late { how: How::Cpu { function }, when, .. }) = self.late
            && when.is_due(moment)
        {
            self.enter(function, moment);
            self.leave();
        }
    }

    /// Waits for the GPU, if that is what is late.
    pub(super) fn synchronize_late(&mut self) {
        if let Some(Late { how: How::Sync, .. }) = self.late {
            self.operator("aten::item", None);
            self.synchronize("cudaDeviceSynchronize");
            self.close();
        }
    }

    /// Takes the one-time delay, before anything else.
    pub(super) fn lag(&mut self) {
        if let Some(Late { how: How::Lag, extra_ns, .. }) = self.late {
            self.now += extra_ns;
            self.cpu_until_now();
        }
    }

    pub(super) fn operator(&mut self, name: &'static str, comm: Option<Comm>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.operator(name, self.now, comm);
        }
    }

    pub(super) fn note(&mut self, name: Name<'a>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.note(name, self.now);
        }
    }

    /// Ends the innermost operator or annotation.
    pub(super) fn close(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.end(self.now);
        }
    }

    fn call(&mut self, name: &'static str, ns: i64, launches: bool) -> Launch {
        let start = self.now;
        self.work(ns);
        if launches {
            self.show(self.cpu);
        }
        let (end, recorder) = (self.now, self.recorder.as_mut());
        recorder.map_or_else(Launch::default, |recorder| recorder.call(name, start, end, launches))
    }

    /// Waits for the GPU.
    pub(super) fn synchronize(&mut self, call: &'static str) {
        let start = self.now;
        let done = self.busy.iter().copied().max().unwrap_or_default();
        self.now = start.max(done) + SYNC;
        let waited = (0..self.busy.len()).find(|stream| done > start && self.busy[*stream] == done);
        let before = waited.map_or(self.cpu, |stream| self.streams[stream]);
        self.cpu = self.moment("cpu", self.now, before);
        if waited.is_some() {
            self.show(self.cpu);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.call(call, start, self.now, false);
        }
    }

    /// Has an event recorded after what was queued last on the compute stream, if that is what the step waits for.
    pub(super) fn record_event(&mut self, sync: Option<StepSync>) {
        if sync == Some(StepSync::Event) {
            self.call("cudaEventRecord", 1_500, false);
        }
    }

    /// Waits for the GPU at the end of a step. Nothing is queued after the event, so it is passed when the compute stream is done.
    pub(super) fn end_step(&mut self, sync: StepSync) {
        let stream = Some(Stream::Compute);
        match sync {
            StepSync::Stream => self.wait("cudaStreamSynchronize", STREAM_SYNC, stream),
            StepSync::Device => self.wait("cudaDeviceSynchronize", DEVICE_SYNC, None),
            StepSync::Event => self.wait("cudaEventSynchronize", EVENT_SYNC, stream),
            StepSync::Item | StepSync::PinnedItem => {
                self.operator("aten::item", None);
                self.work(1_500);
                self.operator("aten::_local_scalar_dense", None);
                self.work(1_500);
                if sync == StepSync::Item {
                    self.copy_and_wait();
                } else {
                    self.copy();
                }
                self.wait("cudaStreamSynchronize", STREAM_SYNC, stream);
                for _ in 0..2 {
                    self.work(1_500);
                    self.close();
                }
            }
        }
    }

    /// A call is back that takes the CPU so long if there is nothing to wait for, and otherwise returns after the last end of a stream, or of all. The random
    /// numbers are the same in both cases, so that a job with and without something late has the same.
    fn back(&mut self, start: i64, own: i64, stream: Option<Stream>) {
        let [longer, later] = [(); 2].map(|()| self.rng.up_to(SYNC_VARIES));
        let (own, wake) = (self.slowed(own + longer), WAKE + later);
        let streams = stream.map_or(0..self.busy.len(), |stream| stream.index()..stream.index() + 1);
        let last = streams.max_by_key(|stream| self.busy[*stream]);
        let last = last.filter(|stream| self.busy[*stream] > start && self.busy[*stream] + wake >= start + own);
        self.now = last.map_or(start + own, |stream| self.busy[stream] + wake);
        let (kind, before) = last.map_or(("cpu", self.cpu), |stream| ("idle", self.streams[stream]));
        self.cpu = self.moment(kind, self.now, before);
        self.show(self.cpu);
    }

    /// A call that waits for a stream, or for all.
    fn wait(&mut self, call: &'static str, own: i64, stream: Option<Stream>) {
        let start = self.now;
        self.back(start, own, stream);
        if let Some(recorder) = &mut self.recorder {
            recorder.call(call, start, self.now, false);
        }
    }

    /// Copies to pageable memory: the copy starts within its call, which returns after the copy has ended.
    fn copy_and_wait(&mut self) {
        let start = self.now;
        let (began, ended) = self.copy_at(start + COPY_LATENCY);
        self.back(start, COPY_CALL, Some(Stream::Compute));
        let end = self.now;
        if let Some(recorder) = &mut self.recorder {
            let launch = recorder.call("cudaMemcpyAsync", start, end, true);
            let what = What::Copy { launch, stream: Stream::Compute, bytes: COPY_BYTES };
            recorder.work(Event { name: Name::Text(COPY_PAGEABLE), thread: 0, start: began, end: ended, what });
        }
    }

    /// Copies to pinned memory: the call returns at once.
    fn copy(&mut self) {
        let launch = self.call("cudaMemcpyAsync", COPY_CALL, true);
        let (start, end) = self.copy_at(self.now + LAUNCH_LATENCY);
        if let Some(recorder) = &mut self.recorder {
            let what = What::Copy { launch, stream: Stream::Compute, bytes: COPY_BYTES };
            recorder.work(Event { name: Name::Text(COPY_PINNED), thread: 0, start, end, what });
        }
    }

    /// Lets a copy run on the compute stream: when.
    fn copy_at(&mut self, earliest: i64) -> (i64, i64) {
        let compute = Stream::Compute.index();
        let start = earliest.max(self.busy[compute]);
        let started = self.start(start, &[Stream::Compute]);
        self.busy[compute] = start + COPY;
        self.streams[compute] = self.moment("compute", start + COPY, started);
        self.show(self.streams[compute]);
        (start, start + COPY)
    }

    /// Launches a graph: kernels are its nodes until [`Self::end_graph`].
    pub(super) fn launch_graph(&mut self, ns: i64) {
        let launch = self.call("cudaGraphLaunch", ns, true);
        self.replay = Some(Replay { launch, earliest: self.now + LAUNCH_LATENCY, nodes: 0, launched: self.cpu });
    }

    pub(super) fn end_graph(&mut self) {
        self.replay = None;
    }

    pub(super) fn is_replaying(&self) -> bool {
        self.replay.is_some()
    }

    /// Launches a kernel with `call`, or takes it from the graph. Returns its launch, its node, and its earliest start.
    fn queue(&mut self, call: &'static str, ns: i64) -> (Launch, Option<u32>, i64) {
        if let Some(replay) = &mut self.replay {
            replay.nodes += 1;
            let after = self.busy[Stream::Compute.index()] + NODE_GAP;
            return (replay.launch, Some(replay.nodes), replay.earliest.max(after));
        }
        let launch = self.call(call, ns, true);
        (launch, None, self.now + LAUNCH_LATENCY)
    }

    /// The start of a kernel at a time: after its stream, or after its launch.
    fn start(&mut self, start: i64, after: &[Stream]) -> Place {
        let (launched, gap) = self.replay.as_ref().map_or((self.cpu, 0), |replay| (replay.launched, NODE_GAP));
        let before = after.iter().map(|stream| stream.index()).find(|stream| self.busy[*stream] + gap == start);
        match before {
            Some(stream) => self.moment("idle", start, self.streams[stream]),
            None => self.moment("launch-latency", start, launched),
        }
    }

    /// Launches a kernel on the compute stream.
    pub(super) fn compute(&mut self, kernel: &'static str, ns: i64, moment: Moment) {
        let (launch, node, earliest) = self.queue("cudaLaunchKernel", 6_000);
        let start = earliest.max(self.busy[Stream::Compute.index()]);
        let started = self.start(start, &[Stream::Compute]);
        let mut end = start + self.piece(ns);
        if let Some(Late { how: How::Gpu { kernel: slow }, extra_ns, when, .. }) = self.late
            && slow == kernel
            && when.is_due(moment)
        {
            end += extra_ns;
        }
        self.busy[Stream::Compute.index()] = end;
        let ended = self.moment("compute", end, started);
        self.streams[Stream::Compute.index()] = ended;
        self.show(ended);
        if let Some(recorder) = &mut self.recorder {
            let what = What::Kernel { launch, stream: Stream::Compute, comm: None, node };
            recorder.work(Event { name: Name::Text(kernel), thread: 0, start, end, what });
        }
    }

    /// Launches the kernel of a communication. It starts after everything queued before it on the compute stream and on its own stream; a graph runs
    /// everything on the compute stream.
    pub(super) fn communicate(&mut self, transfer: Transfer) -> Pending {
        let (launch, node, earliest) = self.queue("cudaLaunchKernelExC", 8_000);
        let stream = if node.is_some() { Stream::Compute } else { transfer.stream };
        let start = earliest.max(self.busy[Stream::Compute.index()]).max(self.busy[stream.index()]);
        let Transfer { kernel, comm, transfer, blocks, .. } = transfer;
        let moment = self.moments.is_some().then(|| self.start(start, &[Stream::Compute, stream]));
        Pending { start, transfer, comm, kernel, launch, stream, node, blocks, number: 0, moment }
    }

    /// Ends such a kernel after the last member has started. A lost kernel has run, but is not recorded.
    pub(super) fn complete(&mut self, pending: &Pending, (end, after): (i64, Option<Place>), is_lost: bool) {
        let &Pending { start, comm, kernel, launch, stream, node, blocks, .. } = pending;
        self.busy[stream.index()] = end;
        let ended = self.moment("transfer", end, after.unwrap_or(self.cpu));
        self.streams[stream.index()] = ended;
        self.show(ended);
        if blocks && end >= self.busy[Stream::Compute.index()] {
            (self.busy[Stream::Compute.index()], self.streams[Stream::Compute.index()]) = (end, ended);
        }
        if let Some(recorder) = self.recorder.as_mut().filter(|_| !is_lost) {
            let comm = node.is_none().then_some(comm);
            let what = What::Kernel { launch, stream, comm, node };
            recorder.work(Event { name: Name::Text(kernel), thread: 0, start, end, what });
        }
    }
}
