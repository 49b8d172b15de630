//! Processes, threads, and the tracks of slices.
//!
//! The rules are Perfetto's for JSON: a thread is its (pid, tid); the first event of a process also creates its main thread; a missing or zero tid
//! means the main thread; row 0 of processes and threads is the operating system's idle one, and a trace's own pid 0 (Kineto's GPU 0) is another
//! process. So `upid` and `utid` identify rows; pid and tid never do.
//!
//! Perfetto's own format describes tracks. There pid 0 is the idle process, tid 0 an ordinary thread, and a second track for a thread means that
//! its number was reused.

use std::collections::HashMap;

use super::args::ArgSetId;
use super::raw::{DescribedNames, IdKey, TrackOf};
use super::strings::StringId;
use crate::event::TrackOwner;
use crate::id::{ProcessId, ThreadId, TraceId, TrackId};

#[derive(Debug, Clone)]
pub struct Process {
    pub trace: TraceId,
    /// Its pid; a generated number of 2^32 or more if the trace has a text.
    pub pid: i64,
    pub name: StringId,
    /// `process_sort_index_hint`, if the trace has one.
    pub args: ArgSetId,
    /// The time of the event that named it, in ns.
    named_at: i64,
}

#[derive(Debug, Clone)]
pub struct Thread {
    /// Its tid; a generated number of 2^32 or more if the trace has a text.
    pub tid: i64,
    pub upid: ProcessId,
    pub name: StringId,
    /// `thread_sort_index_hint`, if the trace has one.
    pub args: ArgSetId,
    /// The time of the event that named it, in ns.
    named_at: i64,
    track: Option<TrackId>,
}

impl Process {
    fn new(trace: TraceId, pid: i64, name: StringId) -> Self {
        Process { trace, pid, name, args: ArgSetId::NONE, named_at: i64::MIN }
    }
}

impl Thread {
    fn new(upid: ProcessId, tid: i64) -> Self {
        Thread { tid, upid, name: StringId::NULL, args: ArgSetId::NONE, named_at: i64::MIN, track: None }
    }
}

/// Whose a track is.
pub type Owner = TrackOwner<ThreadId, ProcessId>;

/// A track: a timeline of slices that are disjoint or enclose each other.
#[derive(Debug, Clone)]
pub struct Track {
    pub owner: Owner,
    /// Its name. Asynchronous tracks have the name of their first event, described tracks their own; others have none.
    pub name: StringId,
    /// Whether the trace describes it. A slice that partly overlaps another on such a track is dropped and counted, as in Perfetto.
    is_described: bool,
    pub trace: TraceId,
}

impl Track {
    /// Whether the trace itself has a lane for slices of a thread that partly overlap others.
    pub(super) fn is_described_lane(&self) -> bool {
        self.is_described && matches!(self.owner, Owner::Lane(_))
    }
}

#[derive(Debug)]
pub struct Tracks {
    /// By upid; 0 is the idle process.
    pub processes: Vec<Process>,
    /// By utid; 0 is the idle thread.
    pub threads: Vec<Thread>,
    /// By track id.
    pub tracks: Vec<Track>,
    /// The trace being read. Equal numbers in another trace mean something else.
    trace: TraceId,
    upids: HashMap<(TraceId, i64), ProcessId>,
    utids: HashMap<(ProcessId, i64), ThreadId>,
    /// The generated numbers for ids that are text.
    text_ids: HashMap<StringId, i64>,
    others: HashMap<(TraceId, Owner, String), TrackId>,
}

/// The first generated number for ids that are text, above any real pid.
const FIRST_TEXT_ID: i64 = 1 << 32;

impl Default for Tracks {
    fn default() -> Self {
        Tracks {
            processes: vec![Process::new(TraceId(0), 0, StringId::NULL)],
            threads: vec![Thread::new(ProcessId(0), 0)],
            tracks: Vec::new(),
            trace: TraceId(0),
            upids: HashMap::new(),
            utids: HashMap::new(),
            text_ids: HashMap::new(),
            others: HashMap::new(),
        }
    }
}

impl Tracks {
    /// Makes the following changes apply to this trace.
    pub(super) fn set_trace(&mut self, trace: TraceId) {
        self.trace = trace;
    }

    /// The thread of an event; created for a new pid and tid.
    pub(super) fn thread_of_event(&mut self, pid: IdKey, tid: IdKey) -> ThreadId {
        let pid_number = self.number(pid);
        let upid = self.process_numbered(pid_number, pid);
        let mut tid_number = self.number(tid);
        if tid_number == 0 && !matches!(tid, IdKey::Text(_)) {
            tid_number = pid_number;
        }
        let utid = self.thread_numbered(upid, tid_number);
        if let IdKey::Text(name) = tid {
            let thread = &mut self.threads[utid.row()];
            if thread.name == StringId::NULL {
                thread.name = name;
            }
        }
        utid
    }

    fn number(&mut self, id: IdKey) -> i64 {
        match id {
            IdKey::Absent => 0,
            IdKey::Number(n) => i64::from(n),
            IdKey::Text(text) => {
                let next = FIRST_TEXT_ID + self.text_ids.len() as i64;
                *self.text_ids.entry(text).or_insert(next)
            }
        }
    }

    fn process_numbered(&mut self, pid: i64, id: IdKey) -> ProcessId {
        if let Some(upid) = self.upids.get(&(self.trace, pid)) {
            return *upid;
        }
        let upid = ProcessId::of_row(self.processes.len());
        let name = if let IdKey::Text(name) = id { name } else { StringId::NULL };
        self.processes.push(Process::new(self.trace, pid, name));
        self.upids.insert((self.trace, pid), upid);
        self.thread_numbered(upid, pid);
        upid
    }

    fn thread_numbered(&mut self, upid: ProcessId, tid: i64) -> ThreadId {
        let next = ThreadId::of_row(self.threads.len());
        let utid = *self.utids.entry((upid, tid)).or_insert(next);
        if utid == next {
            self.threads.push(Thread::new(upid, tid));
        }
        utid
    }

    fn thread_track(&mut self, utid: ThreadId) -> TrackId {
        if let Some(track) = self.threads[utid.row()].track {
            return track;
        }
        let track = self.new_track(Owner::Thread(utid), StringId::NULL);
        self.threads[utid.row()].track = Some(track);
        track
    }

    /// The track that a shard means, whose threads `utid` knows. One that the trace may describe later belongs to the whole trace until then.
    pub(super) fn track_of(&mut self, of: TrackOf, name: StringId, utid: impl Fn(u32) -> ThreadId) -> TrackId {
        let upid = |thread: u32| self.threads[utid(thread).row()].upid;
        let key = match of {
            TrackOf::Thread(thread) => return self.thread_track(utid(thread)),
            TrackOf::Described(_) => {
                let track = self.new_track(Owner::Global, name);
                self.tracks[track.row()].is_described = true;
                return track;
            }
            TrackOf::Instants(thread) => (self.trace, Owner::Instants(thread.map(upid)), String::new()),
            TrackOf::Operation(thread, key) => (self.trace, Owner::Operation(thread.map(upid)), key),
        };
        if let Some(track) = self.others.get(&key) {
            return *track;
        }
        let track = self.new_track(key.1, name);
        self.others.insert(key, track);
        track
    }

    /// The thread whose lanes take the slices that partly overlap others on a track; `None` for tracks without lanes.
    pub(super) fn thread_with_lanes(&self, track: TrackId) -> Option<ThreadId> {
        let track = self.tracks.get(track.row()).filter(|track| !track.is_described)?;
        track.owner.thread()
    }

    /// Sets the owner and names of a described track. `track` is `None` if it has no events.
    pub(super) fn describe(&mut self, track: Option<TrackId>, described: TrackOwner, names: DescribedNames) {
        let owner = match described {
            TrackOwner::Thread(thread) => Owner::Thread(self.described_thread(thread, track)),
            TrackOwner::UnderThread(thread) => Owner::UnderThread(self.described_thread(thread, None)),
            TrackOwner::Lane(thread) => Owner::Lane(self.described_thread(thread, None)),
            TrackOwner::Process(pid) => Owner::Process(self.described_process(pid)),
            TrackOwner::UnderProcess(pid) => Owner::UnderProcess(self.described_process(pid)),
            TrackOwner::Global => Owner::Global,
            TrackOwner::UnderGlobal => Owner::UnderGlobal,
            TrackOwner::Operation(pid) => Owner::Operation(pid.map(|pid| self.described_process(pid))),
            TrackOwner::Instants(pid) => Owner::Instants(pid.map(|pid| self.described_process(pid))),
        };
        let upid = owner.thread().map(|utid| self.threads[utid.row()].upid).or(owner.process());
        if let (Some(utid), true) = (owner.thread(), names.thread != StringId::NULL) {
            self.threads[utid.row()].name = names.thread;
        }
        if let (Some(upid), true) = (upid, names.process != StringId::NULL) {
            self.processes[upid.row()].name = names.process;
        }
        if let Some(track) = track.map(|track| &mut self.tracks[track.row()]) {
            track.owner = owner;
            track.name = if matches!(owner, Owner::Thread(_)) { StringId::NULL } else { names.track };
        }
    }

    fn described_process(&mut self, pid: i64) -> ProcessId {
        // The idle process of the first trace exists from the start.
        if (self.trace, pid) == (TraceId(0), 0) { ProcessId(0) } else { self.process_numbered(pid, IdKey::Absent) }
    }

    /// The thread with these numbers; a new one if `track` is a thread's own and the known thread already has a track.
    fn described_thread(&mut self, (pid, tid): (i64, i64), track: Option<TrackId>) -> ThreadId {
        let upid = self.described_process(pid);
        let mut utid = if (upid, tid) == (ProcessId(0), 0) { ThreadId(0) } else { self.thread_numbered(upid, tid) };
        if track.is_some() && self.threads[utid.row()].track.is_some() {
            utid = ThreadId::of_row(self.threads.len());
            self.utids.insert((upid, tid), utid);
            self.threads.push(Thread::new(upid, tid));
        }
        self.threads[utid.row()].track = self.threads[utid.row()].track.or(track);
        utid
    }

    /// A new lane for slices of this thread that partly overlap others.
    pub(super) fn new_lane(&mut self, utid: ThreadId) -> TrackId {
        self.new_track(Owner::Lane(utid), StringId::NULL)
    }

    fn new_track(&mut self, owner: Owner, name: StringId) -> TrackId {
        let trace = owner.thread().map_or(self.trace, |utid| self.process_of(utid).trace);
        self.tracks.push(Track { owner, name, trace, is_described: false });
        TrackId::of_row(self.tracks.len() - 1)
    }

    #[inline]
    pub fn track(&self, track: TrackId) -> &Track {
        &self.tracks[track.row()]
    }

    #[inline]
    pub fn thread(&self, utid: ThreadId) -> &Thread {
        &self.threads[utid.row()]
    }

    /// The text that the trace has in place of a number of a process or thread.
    pub fn text_of(&self, number: i64) -> Option<StringId> {
        self.text_ids.iter().find(|(_, known)| **known == number).map(|(text, _)| *text)
    }

    /// The thread of a process with a number as an event may have it.
    pub(super) fn find_thread(&self, upid: ProcessId, tid: i64) -> Option<ThreadId> {
        let tid = if tid == 0 { self.process(upid).pid } else { tid };
        self.utids.get(&(upid, tid)).copied()
    }

    #[inline]
    pub fn process(&self, upid: ProcessId) -> &Process {
        &self.processes[upid.row()]
    }

    pub fn process_of(&self, utid: ThreadId) -> &Process {
        self.process(self.thread(utid).upid)
    }

    /// Names a thread or its process. If there are several names, the latest in time wins; at equal times, the last in the file.
    pub(super) fn rename(&mut self, utid: ThreadId, of_process: bool, name: StringId, ts: i64) {
        let thread = &mut self.threads[utid.row()];
        let process = &mut self.processes[thread.upid.row()];
        let (known, named_at) = match of_process {
            true => (&mut process.name, &mut process.named_at),
            false => (&mut thread.name, &mut thread.named_at),
        };
        if ts >= *named_at {
            (*known, *named_at) = (name, ts);
        }
    }

    pub(super) fn set_args(&mut self, utid: ThreadId, of_process: bool, args: ArgSetId) {
        let thread = &mut self.threads[utid.row()];
        let process = &mut self.processes[thread.upid.row()];
        *(if of_process { &mut process.args } else { &mut thread.args }) = args;
    }

    /// The thread that a track belongs to, if any.
    pub fn thread_of(&self, track: TrackId) -> Option<ThreadId> {
        self.tracks.get(track.row())?.owner.thread()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_zero_tids_mean_the_main_thread() {
        let mut tracks = Tracks::default();
        let mut thread = |pid, tid| {
            let utid = tracks.thread_of_event(pid, tid);
            (utid, tracks.process_of(utid).pid, tracks.thread(utid).tid)
        };
        let main = thread(IdKey::Number(33), IdKey::Absent);
        assert_eq!((main.1, main.2), (33, 33));
        assert_eq!(thread(IdKey::Number(33), IdKey::Number(0)), main);
        assert_eq!(thread(IdKey::Number(33), IdKey::Number(33)), main);
        assert_ne!(thread(IdKey::Number(33), IdKey::Number(7)), main);
        let gpu = thread(IdKey::Number(0), IdKey::Number(0));
        assert_eq!((gpu.1, gpu.2), (0, 0));
        assert_ne!(gpu.0, ThreadId(0), "the trace's pid 0 is not the idle process");
        let spans = thread(IdKey::Text(StringId(5)), IdKey::Number(0));
        assert_eq!(spans.1, spans.2);
        assert!(thread(IdKey::Text(StringId(123)), IdKey::Absent).1 >= FIRST_TEXT_ID);
        let named = thread(IdKey::Number(1), IdKey::Text(StringId(9))).0;
        assert_eq!(tracks.thread(named).name, StringId(9));
    }
}
