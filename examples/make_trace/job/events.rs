//! The events that a profiler would record of one rank, with true times, before they are text. The simulation makes them, and the writer turns
//! them into Kineto's JSON on the rank's own clock.

use std::fmt;

/// The name of an event, formatted only when it is written.
#[derive(Clone, Copy)]
pub(super) enum Name<'a> {
    Text(&'a str),
    Step(u32),
    /// PyTorch's annotation of a send, with places in the group.
    Send {
        from: u32,
        to: u32,
    },
    /// The same for a receive.
    Recv {
        to: u32,
        from: u32,
    },
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) if text.contains(|c: char| c == '"' || c == '\\' || c.is_control()) => {
                let quoted = serde_json::Value::from(*text).to_string();
                f.write_str(&quoted[1..quoted.len() - 1])
            }
            Self::Text(text) => f.write_str(text),
            Self::Step(step) => write!(f, "ProfilerStep#{step}"),
            Self::Send { from, to } => write!(f, "nccl:send {from}->{to}"),
            Self::Recv { to, from } => write!(f, "nccl:recv {to}<-{from}"),
        }
    }
}

/// A communication operation as `record_param_comms` describes it.
#[derive(Clone, Copy)]
pub(super) struct Comm {
    /// PyTorch's name: `allreduce`.
    pub(super) collective: &'static str,
    pub(super) elements_in: u64,
    pub(super) elements_out: u64,
    /// Index in the job's layout.
    pub(super) group: usize,
    pub(super) seq: u32,
    /// The argument `Rank`: the rank's place in the group; for a send or receive, the peer's.
    pub(super) place: u32,
    pub(super) peer: Option<Peer>,
}

/// The peer of a send or receive, as a rank of the job.
#[derive(Clone, Copy)]
pub(super) enum Peer {
    To(u32),
    From(u32),
}

/// A stream of the GPU; the number is the one in traces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Compute = 7,
    Tensor = 20,
    Data = 24,
    Pipeline = 28,
    Expert = 32,
    /// With microbatches: what comes back, what is sent forward, and what is sent back.
    FromNext = 29,
    ToNext = 30,
    ToPrevious = 31,
}

impl Stream {
    pub(super) const ALL: [Self; 8] = [
        Self::Compute,
        Self::Tensor,
        Self::Data,
        Self::Pipeline,
        Self::Expert,
        Self::FromNext,
        Self::ToNext,
        Self::ToPrevious,
    ];

    /// Its index in [`Self::ALL`].
    pub(super) fn index(self) -> usize {
        match self {
            Self::Compute => 0,
            Self::Tensor => 1,
            Self::Data => 2,
            Self::Pipeline => 3,
            Self::Expert => 4,
            Self::FromNext => 5,
            Self::ToNext => 6,
            Self::ToPrevious => 7,
        }
    }
}

/// The launch of a kernel: the ids of the launching call and of the operator around it.
#[derive(Clone, Copy, Default)]
pub(super) struct Launch {
    pub(super) external: Option<u32>,
    pub(super) correlation: u32,
}

/// The kind of an event, with its arguments.
pub(super) enum What {
    Frame { id: u32, parent: Option<u32> },
    Op { external: u32 },
    Record { external: u32, comm: Comm },
    Note { external: u32 },
    Call { launch: Launch, launches: bool },
    Kernel { launch: Launch, stream: Stream, comm: Option<Comm>, node: Option<u32> },
    Copy { launch: Launch, stream: Stream, bytes: u32 },
}

/// One slice. Times are nanoseconds since the start of the job.
pub(super) struct Event<'a> {
    pub(super) name: Name<'a>,
    /// The thread of what is on the CPU: 0 is the main one, 1 that of the autograd engine.
    pub(super) thread: u32,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) what: What,
}

/// Collects the events of a rank. Enclosing CPU events are opened and closed like a stack.
#[derive(Default)]
pub(super) struct Recorder<'a> {
    /// CPU events are in the order of their beginnings.
    pub(super) events: Vec<Event<'a>>,
    open: Vec<usize>,
    operators: Vec<u32>,
    frames: Vec<u32>,
    pub(super) thread: u32,
    last_external: u32,
    last_frame: u32,
    last_correlation: u32,
}

impl<'a> Recorder<'a> {
    fn begin(&mut self, name: Name<'a>, now: i64, what: What) {
        self.open.push(self.events.len());
        self.events.push(Event { name, thread: self.thread, start: now, end: now, what });
    }

    pub(super) fn frame(&mut self, name: &'a str, now: i64) {
        self.last_frame += 1;
        let (id, parent) = (self.last_frame, self.frames.last().copied());
        self.frames.push(id);
        self.begin(Name::Text(name), now, What::Frame { id, parent });
    }

    /// Opens an operator; with a communication, also its record.
    pub(super) fn operator(&mut self, name: &'a str, now: i64, comm: Option<Comm>) {
        self.last_external += 1;
        let external = self.last_external;
        self.operators.push(external);
        let what = comm.map_or(What::Op { external }, |comm| What::Record { external, comm });
        self.begin(Name::Text(name), now, what);
    }

    pub(super) fn note(&mut self, name: Name<'a>, now: i64) {
        self.last_external += 1;
        let external = self.last_external;
        self.begin(name, now, What::Note { external });
    }

    /// Closes the innermost open event.
    pub(super) fn end(&mut self, now: i64) {
        let Some(event) = self.open.pop().and_then(|index| self.events.get_mut(index)) else { return };
        event.end = now;
        match event.what {
            What::Frame { .. } => self.frames.pop(),
            What::Op { .. } | What::Record { .. } => self.operators.pop(),
            _ => None,
        };
    }

    /// A call into the CUDA runtime.
    pub(super) fn call(&mut self, name: &'static str, start: i64, end: i64, launches: bool) -> Launch {
        self.last_correlation += 1;
        let launch = Launch { external: self.operators.last().copied(), correlation: self.last_correlation };
        let what = What::Call { launch, launches };
        self.events.push(Event { name: Name::Text(name), thread: self.thread, start, end, what });
        launch
    }

    /// What ran on the GPU.
    pub(super) fn work(&mut self, event: Event<'a>) {
        self.events.push(event);
    }
}
