//! Lanes: threads of their own for slices that partly overlap others on their thread, which viewers drop or draw wrongly.
//!
//! They are beside that thread, as those of Perfetto's newest reader are. A store knows which slices they are, so that needs a load first.

use std::collections::HashMap;

use crate::event::{Event, Id, Kind};
use crate::id::{ThreadId, TrackId};
use crate::input::json::copy::Lane;
use crate::store::Store;
use crate::store::tracks::Owner;
use crate::time::Ns;

/// The first tid of threads that no trace has; tids that a process or thread has are skipped. Larger than any tid or pid of Linux, and
/// small enough for all viewers.
const FIRST_TID: u32 = 1_000_000_000;

/// Which slices are moved to which threads.
#[derive(Debug, Default)]
pub struct Lanes {
    /// By a slice's offset in the text: the index of its thread.
    moves: HashMap<u64, usize>,
    threads: Vec<Thread>,
}

/// A thread beside another.
#[derive(Debug)]
struct Thread {
    tid: u32,
    name: String,
}

/// Moves the events of a text to their lanes, one after the other.
#[derive(Debug)]
pub(super) struct Moves<'l> {
    lanes: &'l Lanes,
    is_named: Vec<bool>,
    /// The flow events of a slice follow it directly, and move with it.
    last: Option<(Ns, String, usize)>,
}

impl<'l> Moves<'l> {
    pub(super) fn new(lanes: &'l Lanes) -> Self {
        Moves { lanes, is_named: vec![false; lanes.threads.len()], last: None }
    }

    /// The lane of the next event that is copied.
    pub(super) fn lane(&mut self, event: &Event<'_>, offset: u64) -> Option<Lane> {
        let is_flow = matches!(event.kind, Kind::FlowStart(_) | Kind::FlowStep(_) | Kind::FlowEnd { .. });
        let lane = match (self.lanes.moves.get(&offset).copied(), &self.last) {
            (Some(lane), _) => Some(lane),
            (None, Some((ts, thread, lane))) if is_flow && *ts == event.ts && *thread == thread_of(event) => {
                Some(*lane)
            }
            _ => None,
        };
        self.last = lane.map(|lane| (event.ts, thread_of(event), lane));
        let Thread { tid, name } = &self.lanes.threads[lane?];
        let is_first = !std::mem::replace(&mut self.is_named[lane?], true);
        Some(Lane { tid: *tid, name: is_first.then(|| name.clone()) })
    }
}

impl Lanes {
    /// Those of a store, which must have been loaded with `places`.
    pub fn new(store: &Store) -> Self {
        Lanes::after(store, 0)
    }

    /// The same, if so many free tids are taken.
    pub(super) fn after(store: &Store, taken: usize) -> Self {
        let mut lanes = Lanes::default();
        let mut tids = free_tids(store).skip(taken);
        let mut of_tracks: HashMap<TrackId, usize> = HashMap::new();
        let mut of_threads: HashMap<ThreadId, usize> = HashMap::new();
        for slice in store.slices.ids() {
            let track = store.slices.track(slice);
            let Owner::ThreadOverlap(utid) = store.tracks.track(track).owner else { continue };
            let Some(offset) = store.slices.offset(slice) else { continue };
            let lane = match of_tracks.get(&track) {
                Some(lane) => *lane,
                None => {
                    let Some(tid) = tids.next() else { break };
                    let number = of_threads.entry(utid).or_insert(0);
                    *number += 1;
                    lanes.threads.push(Thread { tid, name: lane_name(store, utid, *number) });
                    of_tracks.insert(track, lanes.threads.len() - 1);
                    lanes.threads.len() - 1
                }
            };
            lanes.moves.insert(offset, lane);
        }
        lanes
    }
}

/// `stream 7 (overlapping 1)`, as JSON writes it between quotes.
fn lane_name(store: &Store, utid: ThreadId, number: usize) -> String {
    let thread = store.tracks.thread(utid);
    let name = match store.strings.get(thread.name) {
        Some(name) => name.trim().to_owned(),
        None => format!("thread {}", thread.tid),
    };
    let quoted = serde_json::Value::from(format!("{name} (overlapping {number})")).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Tids that no thread and no process has.
pub(super) fn free_tids(store: &Store) -> impl Iterator<Item = u32> + use<> {
    let threads = store.tracks.threads.iter().map(|thread| thread.tid);
    let mut used: Vec<i64> = threads.chain(store.tracks.processes.iter().map(|process| process.pid)).collect();
    used.sort_unstable();
    (FIRST_TID..).filter(move |tid| used.binary_search(&i64::from(*tid)).is_err())
}

/// The process and thread of an event, as it has them.
fn thread_of(event: &Event<'_>) -> String {
    let id = |id: &Id<'_>| format!("{id:?}");
    format!("{} {}", id(&event.pid), id(&event.tid))
}
