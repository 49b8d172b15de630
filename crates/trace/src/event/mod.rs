//! What a reader of any format passes to the store: one [`Event`] at a time, in file order.
//!
//! Nothing else passes from `input` to `store`. An event borrows from the reader's buffer, its times are whole nanoseconds, and its ids
//! have names ([`ids`]). The kinds follow the phases of the Chrome trace format.

mod args;
mod format;
pub mod ids;
pub mod producers;

use std::borrow::Cow;

pub use args::{ArgList, ArgValue, ArgsWanted, EventsOf, Keep, KeySet};
pub use format::{Format, Support, Writer};
pub use ids::EventIds;

use crate::time::Ns;

#[derive(Debug)]
pub struct Event<'a> {
    pub kind: Kind<'a>,
    /// Its time on the trace's own clock (0 for metadata without a time).
    pub ts: Ns,
    /// The process; for Kineto's GPU work the device number.
    pub pid: Id<'a>,
    /// The thread; for Kineto's GPU work the stream number.
    pub tid: Id<'a>,
    /// Its name; `None` if missing, empty or not text.
    pub name: Option<Text<'a>>,
    /// Its category; `None` if missing, empty or not text.
    pub category: Option<Text<'a>>,
    pub ids: EventIds,
    /// CPU time of the thread: at the start, and how much passed during the event (`tts`, `tdur`).
    pub thread_time: (Option<Ns>, Option<Ns>),
    /// A flow bound to the slice itself (`bind_id`), not to a time on its track.
    pub bind: Option<Bind>,
    /// Its arguments, flattened; only those the load asked for.
    pub args: &'a ArgList,
}

impl<'a> Event<'a> {
    /// One without a name.
    pub fn new(kind: Kind<'a>, ts: Ns, (pid, tid): (Id<'a>, Id<'a>), args: &'a ArgList) -> Self {
        let (name, category, ids, thread_time, bind) = (None, None, EventIds::NONE, (None, None), None);
        Event { kind, ts, pid, tid, name, category, ids, thread_time, bind, args }
    }
}

/// A text as the file has it. Most are only compared, for which the bytes are enough.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a> {
    /// The bytes in the file. If they are UTF-8 without a backslash, they are the text.
    pub raw: &'a [u8],
    pub decode: fn(&[u8]) -> Cow<'_, str>,
}

impl<'a> Text<'a> {
    pub fn decoded(self) -> Cow<'a, str> {
        (self.decode)(self.raw)
    }
}

#[derive(Debug)]
pub enum Kind<'a> {
    /// `X`: a slice with its length.
    Complete {
        /// Its length; may be negative in damaged files.
        dur: Ns,
    },
    /// `B`: a slice opens on its thread.
    Begin,
    /// `E`: closes the innermost open slice with this name and category.
    End,
    /// `b`: a slice opens on the track of an asynchronous operation.
    AsyncBegin(AsyncId<'a>),
    /// `e`: it closes.
    AsyncEnd(AsyncId<'a>),
    /// `n`: an instant on such a track.
    AsyncInstant(AsyncId<'a>),
    /// `i`, `I`, `R`: an instant.
    Instant(Scope),
    /// `s`: a flow leaves the slice that is open here. `None`: its id cannot be read.
    FlowStart(Option<u64>),
    /// `t`: a flow passes through the slice that is open here.
    FlowStep(Option<u64>),
    /// `f`: a flow arrives at the slice that is open here (`bp` is `e`) or at the next one.
    FlowEnd {
        /// The flow's id, `None` if it cannot be read.
        id: Option<u64>,
        /// Whether it binds to the slice that is open here.
        enclosing: bool,
    },
    /// A flow of the slice that the previous event opened or closed (Perfetto's protobuf): if it has not started yet, it leaves the slice,
    /// otherwise it arrives there and leaves again.
    SliceFlow(SliceFlow),
    /// `M process_name`
    ProcessName(Cow<'a, str>),
    /// `M thread_name`
    ThreadName(Cow<'a, str>),
    /// `M process_sort_index`
    ProcessSortIndex(i64),
    /// `M thread_sort_index`
    ThreadSortIndex(i64),
    /// `M` of any other name. Its process and thread exist.
    Metadata,
    /// A phase that no table shows (counters, samples, memory dumps). Its process and thread exist.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceFlow {
    pub id: u64,
    /// The flow ends here, and its id is free again; if it has not started, nothing happens.
    pub terminates: bool,
    /// The slice is the one that was closed, not the one that was opened.
    pub of_closed: bool,
}

/// How a trace that describes its tracks identifies one (Perfetto's protobuf); JSON identifies them by process and thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrackKey {
    Uuid(u64),
    /// By the process and thread of its packet sequence, as the earliest of these traces did.
    OfSequence(i64, i64),
    /// An asynchronous operation, by a number from the reader.
    Operation(u64),
    /// The instants of this process, or of the whole trace.
    Instants(Option<i64>),
}

/// The description of such a track. It may come after the events of the track.
#[derive(Debug)]
pub struct TrackDescription<'a> {
    pub key: TrackKey,
    pub owner: TrackOwner,
    pub name: Option<Cow<'a, str>>,
    pub thread_name: Option<Cow<'a, str>>,
    pub process_name: Option<Cow<'a, str>>,
}

/// Whose a track is: by (pid, tid) and pid as a trace describes it, by ids in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrackOwner<T = (i64, i64), P = i64> {
    Thread(T),
    /// A track that the trace describes, below or beside the thread's own.
    UnderThread(T),
    /// A lane for slices that partly overlap others on the thread's own track.
    Lane(T),
    /// The process's own track, as the trace describes it.
    Process(P),
    UnderProcess(P),
    /// The whole trace: a track described without an owner.
    Global,
    /// A track below such a track.
    UnderGlobal,
    /// An asynchronous operation of this process, or of the whole trace.
    Operation(Option<P>),
    /// The instants of this process, or of the whole trace.
    Instants(Option<P>),
}

impl<T: Copy, P: Copy> TrackOwner<T, P> {
    pub fn thread(self) -> Option<T> {
        match self {
            TrackOwner::Thread(thread) | TrackOwner::Lane(thread) | TrackOwner::UnderThread(thread) => Some(thread),
            _ => None,
        }
    }

    /// The process, if the owner is one and not a thread.
    pub fn process(self) -> Option<P> {
        match self {
            TrackOwner::Process(process) | TrackOwner::UnderProcess(process) => Some(process),
            TrackOwner::Operation(process) | TrackOwner::Instants(process) => process,
            _ => None,
        }
    }

    /// Perfetto's name for this type of track.
    pub fn track_type(self) -> &'static str {
        match self {
            TrackOwner::Thread(_) => "thread_execution",
            TrackOwner::Lane(_) => "thread_overlapping_slice",
            TrackOwner::UnderThread(_) => "thread_merged_track_event",
            TrackOwner::Process(_) => "process_track_event",
            TrackOwner::UnderProcess(_) => "process_merged_track_event",
            TrackOwner::Global => "global_track_event",
            TrackOwner::UnderGlobal => "global_merged_track_event",
            TrackOwner::Operation(Some(_)) => "legacy_async_process_slice",
            TrackOwner::Operation(None) => "legacy_async_global_slice",
            TrackOwner::Instants(Some(_)) => "chrome_process_instant",
            TrackOwner::Instants(None) => "legacy_chrome_global_instants",
        }
    }
}

/// What a reader of described tracks passes on.
#[derive(Debug)]
pub enum TrackItem<'a> {
    /// An event on a track; the event's own process and thread are absent.
    Event {
        track: TrackKey,
        event: &'a Event<'a>,
        /// Its byte offset in the file.
        offset: u64,
    },
    /// The description of a track: at most one per track, after all events.
    Track(TrackDescription<'a>),
}

pub trait Collect {
    type Batch: Send;
    /// Takes an event; `offset` is its byte in the text.
    fn add(&mut self, event: &Event<'_>, offset: u64);

    /// Takes the events since the last batch.
    fn take(&mut self) -> Self::Batch;
}

/// Collects the events of one thread, in the form that the store takes.
pub trait Shard: Collect {
    /// A shard with this number, which no other shard of the trace may have.
    fn new(number: usize, keep_offsets: bool) -> Self;

    /// Takes an event of a track that the file describes; `offset` is its byte in the file.
    fn add_on(&mut self, track: TrackKey, event: &Event<'_>, offset: u64);

    fn describe(&mut self, description: &TrackDescription<'_>);

    /// How many events it has taken since the last batch.
    fn pending(&self) -> usize;

    /// The events since the last batch; those at equal times stay in file order, as in Perfetto for its own format.
    fn take_in_file_order(&mut self) -> Self::Batch;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Thread,
    Process,
    Global,
}

/// A process or thread id as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Id<'a> {
    /// No id, or one of another type.
    Absent,
    /// A number that fits 32 bits; others count as 0, as in Perfetto.
    Number(u32),
    /// Text: Kineto writes `"Spans"`, `"Traces"`; traces of 2021 write `"stream 7"`.
    Text(Cow<'a, str>),
}

/// The identity of an asynchronous track, compared as text.
#[derive(Debug)]
pub struct AsyncId<'a> {
    pub id: Cow<'a, str>,
    /// Whether it is unique only within its process (`id2.local`).
    pub per_process: bool,
}

/// A flow that is bound to its slice (`bind_id` with `flow_in`, `flow_out`).
#[derive(Debug, Clone, Copy)]
pub struct Bind {
    /// The flow's id, `None` if it cannot be read.
    pub id: Option<u64>,
    /// It arrives at this slice.
    pub flow_in: bool,
    /// It leaves from this slice.
    pub flow_out: bool,
}

/// One field of a file's header, which is everything beside the events.
#[derive(Debug, Clone, PartialEq)]
pub struct HeaderField {
    /// The path of the value: `distributedInfo.rank`, `deviceProperties[0].name`.
    pub key: String,
    pub value: ArgValue<String>,
}
