//! What a reader of any format hands to the store: one [`Event`] at a time, in file order.
//!
//! This is the only thing that passes from `input` to `store`. It borrows from the reader's buffer, its times are integer
//! nanoseconds, and its texts know how they are to be read. The kinds follow the phases of the Chrome trace format.

use std::borrow::Cow;
use std::ops::Range;

/// One event of a trace.
#[derive(Debug)]
pub struct Event<'a> {
    /// What it is, with the fields that only this kind has.
    pub kind: Kind<'a>,
    /// Its time in ns on the trace's own clock (0 for metadata without a time).
    pub ts: i64,
    /// The process; for GPU work of Kineto the device's number.
    pub pid: Id<'a>,
    /// The thread; for GPU work of Kineto the stream's number.
    pub tid: Id<'a>,
    /// Its name; `None` if missing, empty or not text.
    pub name: Option<Text<'a>>,
    /// Its category; `None` if missing, empty or not text.
    pub category: Option<Text<'a>>,
    /// The numbers among its arguments that tie it to other events.
    pub ids: Ids,
    /// CPU time of the thread, in ns: at the start, and how much of it passed (`tts`, `tdur`).
    pub thread_time: (Option<i64>, Option<i64>),
    /// A flow that is tied to the slice itself (`bind_id`), rather than to a place on its track.
    pub bind: Option<Bind>,
    /// Its arguments, flattened; only those that the load asked for.
    pub args: &'a ArgList,
}

/// The numbers that tie an event to others, by what its category has. In all of them 0 is none, since all are counted from 1,
/// but for what is said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ids {
    /// Of GPU work, of calls that launch it, and of what has no category: the correlation id. Of a Python function: its own
    /// number. Of other CPU work: its External id.
    pub own: i64,
    /// Of GPU work: its External id. Of a Python function: one more than its caller's number, 1 if it is said to have no caller. Of
    /// other CPU work: one more than its sequence number.
    pub other: i64,
    /// Of GPU work: the ids of its graph and of its node there. Of other CPU work: the thread of its forward pass, and 0.
    pub more: (i64, i64),
}

/// A text as it stands in the file. Most are never looked at but to be recognised, which their bytes are good for.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a> {
    /// The bytes in the file. Those without a backslash that are UTF-8 mean themselves.
    pub raw: &'a [u8],
    /// What all others mean.
    pub decode: fn(&[u8]) -> Cow<'_, str>,
}

impl<'a> Text<'a> {
    /// What the text says.
    pub fn decoded(self) -> Cow<'a, str> {
        (self.decode)(self.raw)
    }
}

/// The kind of an [`Event`].
#[derive(Debug)]
pub enum Kind<'a> {
    /// `X`: a slice with its length in ns.
    Complete {
        /// Length in ns; may be negative in damaged files.
        dur: i64,
    },
    /// `B`: a slice opens on its thread.
    Begin,
    /// `E`: the innermost open slice with this name and category closes.
    End,
    /// `b`: a slice opens on the track of an asynchronous operation.
    AsyncBegin(AsyncId<'a>),
    /// `e`: it closes.
    AsyncEnd(AsyncId<'a>),
    /// `n`: a moment on such a track.
    AsyncInstant(AsyncId<'a>),
    /// `i`, `I`, `R`: a moment.
    Instant(Scope),
    /// `s`: an arrow leaves the slice here. `None`: the id cannot be read.
    FlowStart(Option<u64>),
    /// `t`: the arrow passes through the slice here.
    FlowStep(Option<u64>),
    /// `f`: the arrow arrives: at the slice here (`bp` is `e`) or at the next one.
    FlowEnd {
        /// The arrow's id, `None` if it cannot be read.
        id: Option<u64>,
        /// Whether it binds to the slice that is open here.
        enclosing: bool,
    },
    /// An arrow of the slice that the event before it opened or closed (Perfetto's protobuf): it leaves the slice if it is not under
    /// way yet, otherwise it arrives there and leaves again.
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

/// An arrow of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceFlow {
    /// The arrow's id.
    pub id: u64,
    /// It goes no further, and its id is free again; if it is not under way, nothing happens.
    pub terminates: bool,
    /// The slice is the one that was closed, not the one that was opened.
    pub of_closed: bool,
}

/// How a trace names a track that it describes (Perfetto's protobuf), rather than telling tracks by process and thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrackKey {
    /// By a number for nothing else.
    Uuid(u64),
    /// By the process and thread of the sequence of packets that it comes in, as the first of these traces did.
    OfSequence(i64, i64),
    /// An asynchronous operation, by a number of the reader's.
    Operation(u64),
    /// The moments of this process, or of everything.
    Instants(Option<i64>),
}

/// What a trace says of such a track; it may come behind the track's events.
#[derive(Debug)]
pub struct TrackDescription<'a> {
    /// Which one.
    pub key: TrackKey,
    /// What it belongs to.
    pub home: Home,
    /// Its own name.
    pub name: Option<Cow<'a, str>>,
    /// The name of the thread that it belongs to.
    pub thread_name: Option<Cow<'a, str>>,
    /// The name of the process that it belongs to.
    pub process_name: Option<Cow<'a, str>>,
}

/// What a described track belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// It is the line of this process's thread.
    Thread(i64, i64),
    /// It lies beneath that line, or beside it.
    UnderThread(i64, i64),
    /// It is the line of this process.
    Process(i64),
    /// It lies beneath that line.
    UnderProcess(i64),
    /// It belongs to nothing.
    Global,
    /// It lies beneath a line that belongs to nothing.
    UnderGlobal,
    /// It is an asynchronous operation, of this process or of everything.
    Operation(Option<i64>),
    /// It has the moments of this process, or of everything.
    Instants(Option<i64>),
}

/// What a reader of described tracks hands on.
#[derive(Debug)]
pub enum Told<'a> {
    /// An event of a track; the event's own process and thread are absent.
    Event {
        /// The track.
        track: TrackKey,
        /// The event.
        event: &'a Event<'a>,
        /// Where it stands in the file.
        offset: u64,
    },
    /// What a track is. There is at most one for each, behind all events.
    Track(TrackDescription<'a>),
}

/// Where an instant stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// On its thread.
    Thread,
    /// On its process.
    Process,
    /// On the whole trace.
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
    /// The id as written.
    pub id: Cow<'a, str>,
    /// Whether it counts within its process only (`id2.local`).
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

/// The value of one flattened argument.
#[derive(Debug, Clone, PartialEq)]
pub enum ArgValue<T> {
    /// An integer within `i64`.
    Int(i64),
    /// Any other number.
    Real(f64),
    /// `true` or `false`.
    Bool(bool),
    /// Text.
    Text(T),
}

/// The flattened arguments of one event, in a buffer that is used again for the next one.
///
/// `{"grid":[512,1]}` is two rows with the keys `args.grid[0]` and `args.grid[1]`, both with the flat key `args.grid`,
/// as in Perfetto's `args` table.
#[derive(Debug, Default)]
pub struct ArgList {
    text: String,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    key: Range<usize>,
    flat_key: Option<Range<usize>>,
    value: ArgValue<Range<usize>>,
}

impl ArgList {
    /// Forgets all rows, keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.rows.clear();
    }

    /// Adds a row. `flat_key` is `None` where it equals `key`.
    pub fn push(&mut self, key: &str, flat_key: Option<&str>, value: ArgValue<&str>) {
        let key = self.keep(key);
        let flat_key = flat_key.map(|k| self.keep(k));
        let value = match value {
            ArgValue::Int(v) => ArgValue::Int(v),
            ArgValue::Real(v) => ArgValue::Real(v),
            ArgValue::Bool(v) => ArgValue::Bool(v),
            ArgValue::Text(v) => ArgValue::Text(self.keep(v)),
        };
        self.rows.push(Row { key, flat_key, value });
    }

    fn keep(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// How many bytes their keys and texts have.
    pub fn text_len(&self) -> usize {
        self.text.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows: key, flat key, value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, ArgValue<&str>)> {
        self.rows.iter().map(|row| {
            let key = &self.text[row.key.clone()];
            let flat_key = row.flat_key.as_ref().map_or(key, |range| &self.text[range.clone()]);
            let value = match &row.value {
                ArgValue::Int(v) => ArgValue::Int(*v),
                ArgValue::Real(v) => ArgValue::Real(*v),
                ArgValue::Bool(v) => ArgValue::Bool(*v),
                ArgValue::Text(range) => ArgValue::Text(&self.text[range.clone()]),
            };
            (key, flat_key, value)
        })
    }
}

/// Which arguments a load keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ArgsWanted {
    /// Every argument of every event: for SQL and export.
    #[default]
    All,
    /// None but what tells of collectives (`OF_COLLECTIVES` of the module `nccl`): for the main job.
    Collectives,
}

/// A file's header: what stands beside the events.
#[derive(Debug, Clone, PartialEq)]
pub struct HeaderField {
    /// The path of the value: `distributedInfo.rank`, `deviceProperties[0].name`.
    pub key: String,
    /// The value.
    pub value: ArgValue<String>,
}
