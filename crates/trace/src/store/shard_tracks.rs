//! Threads and tracks in a shard's own numbering, before the builder gives them ids: see [`super::batch`].

use std::collections::HashMap;

use super::raw::{IdKey, TrackChange};
use super::strings::{StringId, Strings};
use crate::event::{AsyncId, Id, Scope, TrackKey};

/// The numbers that a shard gave to threads and tracks.
#[derive(Debug, Default)]
pub(super) struct ShardTracks {
    threads: HashMap<(IdKey, IdKey), u32, foldhash::fast::FixedState>,
    /// The track of each thread, once it has one.
    of_threads: Vec<Option<u32>>,
    /// Other tracks: by kind, thread if it matters, and key of the operation.
    others: HashMap<(OtherTrack, Option<u32>, String), u32>,
    described: HashMap<TrackKey, u32, foldhash::fast::FixedState>,
    /// The pid, tid and thread of the last event: events come in runs of one thread.
    last: Option<((u32, u32), u32)>,
    tracks: u32,
}

/// The kind of a track that is neither a thread's own nor described.
#[derive(Debug, PartialEq, Eq, Hash)]
enum OtherTrack {
    Process,
    Global,
    Operation,
}

impl ShardTracks {
    #[inline]
    pub(super) fn thread(
        &mut self,
        pid: &Id<'_>,
        tid: &Id<'_>,
        strings: &mut Strings,
        changes: &mut Vec<TrackChange>,
    ) -> u32 {
        let numbers = match (pid, tid) {
            (Id::Number(pid), Id::Number(tid)) => Some((*pid, *tid)),
            _ => None,
        };
        if let (Some(numbers), Some((last, thread))) = (numbers, self.last)
            && numbers == last
        {
            return thread;
        }
        let mut key = |id: &Id<'_>| match id {
            Id::Absent => IdKey::Absent,
            Id::Number(n) => IdKey::Number(*n),
            Id::Text(text) => IdKey::Text(strings.intern(text)),
        };
        let (pid, tid) = (key(pid), key(tid));
        let next = self.of_threads.len() as u32;
        let thread = *self.threads.entry((pid, tid)).or_insert(next);
        if thread == next {
            self.of_threads.push(None);
            changes.push(TrackChange::Thread { pid, tid });
        }
        self.last = numbers.map(|numbers| (numbers, thread));
        thread
    }

    #[inline]
    pub(super) fn of_thread(&mut self, thread: u32, changes: &mut Vec<TrackChange>) -> u32 {
        let track = &mut self.of_threads[thread as usize];
        if let Some(track) = *track {
            return track;
        }
        let next = self.tracks;
        *track = Some(next);
        self.tracks += 1;
        changes.push(TrackChange::ThreadTrack { thread });
        next
    }

    /// The track of instants with this scope.
    pub(super) fn of_instant(&mut self, scope: Scope, thread: u32, changes: &mut Vec<TrackChange>) -> u32 {
        let key = match scope {
            Scope::Thread => return self.of_thread(thread, changes),
            Scope::Process => (OtherTrack::Process, Some(thread), String::new()),
            Scope::Global => (OtherTrack::Global, None, String::new()),
        };
        self.other(key, changes, || TrackChange::InstantTrack { scope, thread })
    }

    pub(super) fn of_operation(
        &mut self,
        id: &AsyncId<'_>,
        category: &str,
        thread: u32,
        name: StringId,
        changes: &mut Vec<TrackChange>,
    ) -> u32 {
        let per_process = id.per_process;
        let key = format!("{category}\0{}", id.id);
        // The ids of other operations are unique in the whole trace.
        let its_thread = per_process.then_some(thread);
        self.other((OtherTrack::Operation, its_thread, key.clone()), changes, || TrackChange::AsyncTrack {
            per_process,
            thread,
            key,
            name,
        })
    }

    /// A track that the file describes; `name` is the name of its first event.
    pub(super) fn described(&mut self, key: TrackKey, name: StringId, changes: &mut Vec<TrackChange>) -> u32 {
        let next = self.tracks;
        let track = *self.described.entry(key).or_insert(next);
        if track == next {
            self.tracks += 1;
            changes.push(TrackChange::DescribedTrack { name });
        }
        track
    }

    /// The number of a track that the file describes, if it has events.
    pub(super) fn find_described(&self, key: TrackKey) -> Option<u32> {
        self.described.get(&key).copied()
    }

    fn other(
        &mut self,
        key: (OtherTrack, Option<u32>, String),
        changes: &mut Vec<TrackChange>,
        change: impl FnOnce() -> TrackChange,
    ) -> u32 {
        let next = self.tracks;
        let track = *self.others.entry(key).or_insert(next);
        if track == next {
            self.tracks += 1;
            changes.push(change());
        }
        track
    }
}
