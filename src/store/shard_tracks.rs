//! Threads and tracks on their way into the store, in a shard's own numbers: see [`super::batch`].

use std::collections::HashMap;

use super::raw::{IdKey, News};
use super::strings::{StringId, Strings};
use crate::event::{AsyncId, Id, Scope, TrackKey};

/// Threads and tracks in a shard's own numbers.
#[derive(Debug, Default)]
pub(super) struct ShardTracks {
    threads: HashMap<(IdKey, IdKey), u32, foldhash::fast::FixedState>,
    /// The track of each thread, once it has one.
    of_threads: Vec<Option<u32>>,
    /// Tracks of other things: by their sort, the thread if it matters, and the operation's key.
    others: HashMap<(OtherTrack, Option<u32>, String), u32>,
    /// Those that the file describes.
    described: HashMap<TrackKey, u32, foldhash::fast::FixedState>,
    /// Events come in runs of one thread.
    last: Option<((u32, u32), u32)>,
    tracks: u32,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum OtherTrack {
    Process,
    Global,
    Operation,
}

impl ShardTracks {
    /// The thread of an event.
    #[inline]
    pub(super) fn thread(&mut self, pid: &Id<'_>, tid: &Id<'_>, strings: &mut Strings, news: &mut Vec<News>) -> u32 {
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
            news.push(News::Thread { pid, tid });
        }
        self.last = numbers.map(|numbers| (numbers, thread));
        thread
    }

    /// The track on which a thread's slices lie.
    #[inline]
    pub(super) fn of_thread(&mut self, thread: u32, news: &mut Vec<News>) -> u32 {
        let track = &mut self.of_threads[thread as usize];
        if let Some(track) = *track {
            return track;
        }
        let next = self.tracks;
        *track = Some(next);
        self.tracks += 1;
        news.push(News::ThreadTrack { thread });
        next
    }

    pub(super) fn of_instant(&mut self, scope: Scope, thread: u32, news: &mut Vec<News>) -> u32 {
        let key = match scope {
            Scope::Thread => return self.of_thread(thread, news),
            Scope::Process => (OtherTrack::Process, Some(thread), String::new()),
            Scope::Global => (OtherTrack::Global, None, String::new()),
        };
        self.other(key, news, || News::InstantTrack { scope, thread })
    }

    pub(super) fn of_operation(
        &mut self,
        id: &AsyncId<'_>,
        category: &str,
        thread: u32,
        name: StringId,
        news: &mut Vec<News>,
    ) -> u32 {
        let per_process = id.per_process;
        let key = format!("{category}\0{}", id.id);
        // Otherwise the operation's id counts for the whole trace.
        let its_thread = per_process.then_some(thread);
        self.other((OtherTrack::Operation, its_thread, key.clone()), news, || News::AsyncTrack {
            per_process,
            thread,
            key,
            name,
        })
    }

    /// A track that the file describes; `name` is that of its first event.
    pub(super) fn described(&mut self, key: TrackKey, name: StringId, news: &mut Vec<News>) -> u32 {
        let next = self.tracks;
        let track = *self.described.entry(key).or_insert(next);
        if track == next {
            self.tracks += 1;
            news.push(News::DescribedTrack { name });
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
        news: &mut Vec<News>,
        tell: impl FnOnce() -> News,
    ) -> u32 {
        let next = self.tracks;
        let track = *self.others.entry(key).or_insert(next);
        if track == next {
            self.tracks += 1;
            news.push(tell());
        }
        track
    }
}
