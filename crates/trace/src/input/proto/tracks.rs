//! Track descriptors: what the tracks of the events are.
//!
//! A track belongs to a thread or a process by its own descriptor or the nearest above it. A descriptor may come after the events of its
//! track, and again with more fields, so what a track is is known only at the end.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::messages::{ProcessDescriptor, ThreadDescriptor, TrackDescriptor};
use super::track_event::{Elsewhere, Operation};
use super::wire::Malformed;
use crate::event::{Event, Text, TrackDescription, TrackKey, TrackOwner};

/// The longest chain of tracks, as in Perfetto.
const MAX_CHAIN: usize = 100;

#[derive(Debug, Default)]
struct Described {
    name: Option<Rc<str>>,
    parent: Option<u64>,
    process: Option<Process>,
    thread: Option<Thread>,
    is_apart: bool,
    /// Of a track without a descriptor, which follows from its events.
    owner: Option<TrackOwner>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct SequenceThread {
    pub(super) track: TrackKey,
    pub(super) pid: i64,
}

/// The identity of an operation: the process if its id is local, the id, the category or name, the scope.
type OperationKey = (Option<Option<i64>>, u64, Rc<str>, Option<Rc<str>>);

#[derive(Debug, Default)]
pub(super) struct Descriptors {
    /// In the order of their first descriptor or event.
    order: Vec<TrackKey>,
    by_key: HashMap<TrackKey, Described, foldhash::fast::FixedState>,
    operations: HashMap<OperationKey, u64, foldhash::fast::FixedState>,
    /// The texts of operations, each once: they may be long, and interned in the file.
    texts: HashSet<Rc<str>, foldhash::fast::FixedState>,
}

impl Descriptors {
    /// Adds a `TrackDescriptor`. Returns the thread if it is one's.
    pub(super) fn add(&mut self, message: &[u8]) -> Result<Option<SequenceThread>, Malformed> {
        let TrackDescriptor { uuid, name, process, thread, parent, is_apart, .. } = TrackDescriptor::read(message)?;
        let key = TrackKey::Uuid(uuid.ok_or(Malformed)?);
        let known = self.get_or_add(key);
        known.name = name.map(|name| String::from_utf8_lossy(name).into()).or(known.name.take());
        known.parent = parent.or(known.parent);
        known.process = process.map(self::process).or(known.process.take());
        known.thread = thread.map(self::thread).or(known.thread.take());
        known.is_apart |= is_apart;
        Ok(thread.map(|thread| SequenceThread { track: key, pid: thread.pid }))
    }

    pub(super) fn add_thread(&mut self, message: &[u8]) -> Result<SequenceThread, Malformed> {
        let thread = thread(ThreadDescriptor::read(message)?);
        let (pid, tid) = (thread.0, thread.1);
        let track = self.thread_track(pid, tid);
        if thread.2.is_some() {
            self.get_or_add(track).thread = Some(thread);
        }
        Ok(SequenceThread { track, pid })
    }

    pub(super) fn add_process(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let process = process(ProcessDescriptor::read(message)?);
        let pid = process.0;
        self.instants(Some(pid)).process = Some(process);
        Ok(())
    }

    /// The track of a thread without a track descriptor.
    pub(super) fn thread_track(&mut self, pid: i64, tid: i64) -> TrackKey {
        let key = TrackKey::OfSequence(pid, tid);
        let known = self.get_or_add(key);
        known.thread = known.thread.take().or(Some((pid, tid, None)));
        key
    }

    fn instants(&mut self, pid: Option<i64>) -> &mut Described {
        let track = self.get_or_add(TrackKey::Instants(pid));
        track.owner = Some(TrackOwner::Instants(pid));
        track
    }

    pub(super) fn elsewhere(&mut self, own: TrackKey, elsewhere: Elsewhere<'_>, event: &Event<'_>) -> TrackKey {
        let Operation { id, is_local, scope, goes_by_name } = match elsewhere {
            Elsewhere::Operation(operation) => operation,
            Elsewhere::InstantsOfAll => {
                self.instants(None);
                return TrackKey::Instants(None);
            }
            Elsewhere::InstantsOfProcess => {
                let Some(pid) = self.pid(own) else { return own };
                self.instants(Some(pid));
                return TrackKey::Instants(Some(pid));
            }
        };
        let pid = is_local.then(|| self.pid(own));
        let of = if goes_by_name && scope.is_none() { event.name } else { event.category };
        let apart = self.shared(of.map_or(Cow::Borrowed(""), Text::decoded));
        let scope = scope.map(|scope| self.shared(String::from_utf8_lossy(scope)));
        let next = self.operations.len() as u64;
        let number = *self.operations.entry((pid, id, apart, scope)).or_insert(next);
        let key = TrackKey::Operation(number);
        if number == next {
            let name = event.name.map(|name| self.shared(name.decoded()));
            let track = self.get_or_add(key);
            track.name = name;
            track.owner = Some(TrackOwner::Operation(pid.flatten()));
        }
        key
    }

    fn shared(&mut self, text: Cow<'_, str>) -> Rc<str> {
        if let Some(known) = self.texts.get(&*text) {
            return Rc::clone(known);
        }
        let new: Rc<str> = text.into();
        self.texts.insert(Rc::clone(&new));
        new
    }

    pub(super) fn name_thread(&mut self, track: TrackKey, name: &str) {
        if let Some((.., known)) = self.by_key.get_mut(&track).and_then(|track| track.thread.as_mut()) {
            *known = Some(name.to_owned());
        }
    }

    /// Names the process of a track, unless that has a name.
    pub(super) fn name_process(&mut self, track: TrackKey, name: &str) {
        if let Some(pid) = self.pid(track) {
            let process = &mut self.instants(Some(pid)).process;
            if process.as_ref().is_none_or(|(_, name)| name.is_none()) {
                *process = Some((pid, Some(name.to_owned())));
            }
        }
    }

    /// The process of a track, if it is described by now.
    pub(super) fn pid(&self, track: TrackKey) -> Option<i64> {
        let owner = self.owner(self.by_key.get(&track)?);
        owner.thread().map(|(pid, _)| pid).or(owner.process())
    }

    fn get_or_add(&mut self, key: TrackKey) -> &mut Described {
        self.by_key.entry(key).or_insert_with(|| {
            self.order.push(key);
            Described::default()
        })
    }

    /// Emits what all tracks are. `by_names`: whether names alone make threads and processes ([`Descriptors::named`]).
    pub(super) fn emit(&self, by_names: bool, mut emit: impl FnMut(TrackDescription<'_>)) {
        let named = if by_names { self.named() } else { HashMap::default() };
        for key in &self.order {
            let described = &self.by_key[key];
            let (owner, thread, process) = match named.get(key) {
                Some((owner, process)) => (*owner, described.name.as_deref(), Some(*process)),
                None => (
                    self.owner(described),
                    described.thread.as_ref().and_then(|(.., name)| name.as_deref()),
                    described.process.as_ref().and_then(|(_, name)| name.as_deref()),
                ),
            };
            emit(TrackDescription {
                key: *key,
                owner,
                name: described.name.as_deref().map(Into::into),
                thread_name: thread.map(Into::into),
                process_name: process.map(Into::into),
            });
        }
        let default = TrackKey::Uuid(0);
        if !self.by_key.contains_key(&default) {
            let name = Some("Default Track".into());
            let owner = TrackOwner::Global;
            emit(TrackDescription { key: default, owner, name, thread_name: None, process_name: None });
        }
    }

    /// Threads and processes of a trace that has names for them, and no numbers, with the name of the process: a track with a name, under one
    /// that has only a name, is a thread, and others with the same two are its lanes. Perfetto's Python library writes PyTorch's traces so,
    /// for slices that overlap on one track need several.
    fn named(&self) -> HashMap<TrackKey, (TrackOwner, &str), foldhash::fast::FixedState> {
        let nobody = |track: &Described| track.owner.is_none() && track.thread.is_none() && track.process.is_none();
        let process = |track: &Described| {
            let parent = track.parent.filter(|_| nobody(track))?;
            let above = self.by_key.get(&TrackKey::Uuid(parent))?;
            Some((parent, above.name.as_deref().filter(|_| nobody(above) && above.parent.is_none())?))
        };
        let mut pids: HashMap<u64, i64> = HashMap::new();
        let mut tids: HashMap<(u64, &str), i64> = HashMap::new();
        let mut named = HashMap::default();
        for key in &self.order {
            let track = &self.by_key[key];
            let (Some((parent, of)), Some(name)) = (process(track), track.name.as_deref()) else { continue };
            let next = UNNUMBERED + pids.len() as i64;
            let pid = match pids.get(&parent) {
                Some(pid) => *pid,
                None => number_of(of).filter(|pid| !pids.values().any(|known| known == pid)).unwrap_or(next),
            };
            pids.insert(parent, pid);
            let next = UNNUMBERED + tids.len() as i64;
            let owner = match tids.get(&(parent, name)) {
                Some(tid) => TrackOwner::Lane((pid, *tid)),
                None => {
                    let tid = number_of(name).unwrap_or(next);
                    tids.insert((parent, name), tid);
                    TrackOwner::Thread((pid, tid))
                }
            };
            named.insert(*key, (owner, of));
        }
        named
    }

    /// What a track belongs to. At most [`MAX_CHAIN`] tracks above it are visited: they may be a cycle.
    fn owner(&self, described: &Described) -> TrackOwner {
        if let Some(owner) = described.owner {
            return owner;
        }
        match (&described.thread, &described.process) {
            (Some((pid, tid, _)), _) if described.is_apart => return TrackOwner::UnderThread((*pid, *tid)),
            (Some((pid, tid, _)), _) => return TrackOwner::Thread((*pid, *tid)),
            (None, Some((pid, _))) => return TrackOwner::Process(*pid),
            (None, None) => {}
        }
        let mut parent = described.parent;
        for _ in 0..MAX_CHAIN {
            let Some(above) = parent.and_then(|uuid| self.by_key.get(&TrackKey::Uuid(uuid))) else { break };
            match (&above.thread, &above.process) {
                (Some((pid, tid, _)), _) => return TrackOwner::UnderThread((*pid, *tid)),
                (None, Some((pid, _))) => return TrackOwner::UnderProcess(*pid),
                (None, None) => parent = above.parent,
            }
        }
        if described.parent.is_some_and(|uuid| uuid != 0) { TrackOwner::UnderGlobal } else { TrackOwner::Global }
    }
}

/// The first number for threads and processes whose names have none: above those of Linux.
const UNNUMBERED: i64 = 1 << 23;

/// The number at the end of a name: `stream 7`.
fn number_of(name: &str) -> Option<i64> {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name[name.len() - digits..].parse().ok().filter(|number| *number < UNNUMBERED)
}

/// The thread of a process whose events name none; Perfetto makes the same number.
pub(super) fn some_thread_of(pid: i64) -> i64 {
    pid << 32 | 0xffff_ffff
}

/// The pid and the name, if any.
type Process = (i64, Option<String>);

/// The pid, the tid and the name, if any.
type Thread = (i64, i64, Option<String>);

fn process(process: ProcessDescriptor<'_>) -> Process {
    (process.pid, process.name.map(text))
}

fn thread(thread: ThreadDescriptor<'_>) -> Thread {
    (thread.pid, thread.tid, thread.name.map(text))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{ArgList, Id, Kind};
    use crate::time::Ns;

    /// However many operations share a category and a name, each text is kept once.
    #[test]
    fn operations_share_their_texts() {
        let mut descriptors = Descriptors::default();
        let text = |raw| Some(Text { raw, decode: String::from_utf8_lossy });
        let (place, args) = ((Id::Absent, Id::Absent), &ArgList::default());
        let (name, category) = (text(b"name"), text(b"category"));
        let event = Event { name, category, ..Event::new(Kind::Begin, Ns(1), place, args) };
        for id in 0..100 {
            let operation = Operation { id, is_local: false, scope: Some(b"scope"), goes_by_name: false };
            let track = descriptors.elsewhere(TrackKey::Uuid(0), Elsewhere::Operation(operation), &event);
            assert_eq!(track, TrackKey::Operation(id));
        }
        let mut texts: Vec<&str> = descriptors.texts.iter().map(|text| &**text).collect();
        texts.sort_unstable();
        assert_eq!(texts, ["category", "name", "scope"]);
    }

    /// Two processes of one name are two, and a second track of one name under one of them is a lane.
    #[test]
    fn names_make_threads_where_nothing_else_does() {
        let mut descriptors = Descriptors::default();
        let mut add = |uuid, name: &str, parent| {
            let track = descriptors.get_or_add(TrackKey::Uuid(uuid));
            (track.name, track.parent) = (Some(name.into()), parent);
        };
        add(1, "python", None);
        add(2, "process 0", None);
        add(3, "python", None);
        add(4, "stream 1000", Some(1));
        add(5, "stream 7", Some(2));
        add(6, "stream 1000", Some(1));
        add(7, "stream 1000", Some(3));
        let mut owners = Vec::new();
        descriptors.emit(true, |described| owners.push(described.owner));
        let (first, second) = (UNNUMBERED, UNNUMBERED + 2);
        let streams = [(first, 1000), (0, 7), (second, 1000)].map(TrackOwner::Thread);
        assert_eq!(owners[..3], [TrackOwner::Global; 3]);
        assert_eq!(owners[3..7], [streams[0], streams[1], TrackOwner::Lane((first, 1000)), streams[2]]);
        let mut as_they_are = Vec::new();
        descriptors.emit(false, |described| as_they_are.push(described.owner));
        assert_eq!(as_they_are[3..7], [TrackOwner::UnderGlobal; 4]);
    }

    /// A hundred tracks above are visited, also of a cycle.
    #[test]
    fn chains_have_a_limit() {
        let mut descriptors = Descriptors::default();
        let last = MAX_CHAIN as u64 + 2;
        for uuid in 2..=last {
            descriptors.get_or_add(TrackKey::Uuid(uuid)).parent = Some(uuid - 1);
        }
        descriptors.get_or_add(TrackKey::Uuid(1)).thread = Some((7, 8, None));
        for uuid in [1001, 1002] {
            descriptors.get_or_add(TrackKey::Uuid(uuid)).parent = Some(2003 - uuid);
        }
        let owner = |uuid| descriptors.owner(&descriptors.by_key[&TrackKey::Uuid(uuid)]);
        assert_eq!([2, last - 1].map(owner), [TrackOwner::UnderThread((7, 8)); 2]);
        assert_eq!([last, 1001, 1002].map(owner), [TrackOwner::UnderGlobal; 3]);
        assert_eq!([last - 1, last].map(|uuid| descriptors.pid(TrackKey::Uuid(uuid))), [Some(7), None]);
    }
}
