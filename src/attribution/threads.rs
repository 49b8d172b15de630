//! Threads of launches: the main thread of each process, and the names of the others in stacks.

use std::collections::HashMap;

use crate::id::{ProcessId, SliceId, ThreadId, TrackId};
use crate::store::Store;
use crate::store::strings::StringId;

/// The main thread of each process: the one whose number is the process's. If that has no slices, as when a tool renumbered the processes of
/// several ranks, the thread with the lowest number, because it started the others.
#[derive(Debug)]
pub(crate) struct MainThreads(HashMap<ProcessId, ThreadId>);

impl MainThreads {
    /// The main threads of a trace.
    pub(crate) fn find(store: &Store) -> Self {
        let mut main: HashMap<ProcessId, ThreadId> = HashMap::new();
        for utid in threads_with_slices(store) {
            let thread = store.tracks.thread(utid);
            let pid = store.tracks.process(thread.upid).pid;
            let order = |utid: ThreadId| {
                let tid = store.tracks.thread(utid).tid;
                (tid != pid, tid)
            };
            let known = main.entry(thread.upid).or_insert(utid);
            if order(utid) < order(*known) {
                *known = utid;
            }
        }
        MainThreads(main)
    }

    /// The main threads with their processes, unordered.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ProcessId, ThreadId)> {
        self.0.iter().map(|(process, thread)| (*process, *thread))
    }

    /// The thread of a slice, unless it is the main thread of its process.
    pub(crate) fn helper(&self, store: &Store, slice: SliceId) -> Option<ThreadId> {
        let utid = store.thread_of(slice)?;
        (self.0.get(&store.tracks.thread(utid).upid) != Some(&utid)).then_some(utid)
    }
}

/// The threads with slices, in order of their first. Flow events alone make tracks too: Kineto of 2021 wrote them with thread numbers that no
/// slice has.
fn threads_with_slices(store: &Store) -> Vec<ThreadId> {
    let with_slices = (0..).map(TrackId::of_row).zip(&store.first_slices);
    let mut tracks: Vec<(SliceId, TrackId)> =
        with_slices.filter_map(|(track, first)| Some(((*first)?, track))).collect();
    tracks.sort_unstable();
    tracks.into_iter().filter_map(|(_, track)| store.tracks.thread_of(track)).collect()
}

/// A thread's name as shown in stacks: without Kineto's decoration (`thread 639 (pt_autograd_0)`) and, unless exact names are wanted, without the
/// number that distinguishes it from threads with the same task.
pub(crate) fn thread_name(store: &Store, utid: ThreadId, exact: bool) -> String {
    let thread = store.tracks.thread(utid);
    let name = store.strings.get(thread.name).filter(|_| thread.name != StringId::NULL).unwrap_or_default().trim();
    let inner = name.strip_prefix(&format!("thread {} (", thread.tid)).and_then(|rest| rest.strip_suffix(')'));
    match (inner.unwrap_or(name), exact) {
        ("", _) => thread.tid.to_string(),
        (inner, true) => format!("{} ({inner})", thread.tid),
        // `pt_autograd_0`, but `python3.8`.
        (inner, false) => match inner.trim_end_matches(|c: char| c.is_ascii_digit()) {
            folded if folded.ends_with(['_', '-', '#']) => folded.to_owned(),
            _ => inner.to_owned(),
        },
    }
}
