//! Lanes: separate threads for slices that partly overlap others on their thread, which viewers drop or draw wrongly.
//!
//! They are placed beside that thread, as in Perfetto's newest reader. A store knows which slices to move, so this needs a load first.

use std::collections::HashMap;

use crate::event::{Event, Id, Kind};
use crate::id::{ThreadId, TrackId};
use crate::input::json::copy::Lane;
use crate::store::Store;
use crate::store::tracks::Owner;
use crate::time::Ns;

/// The first tid for new threads; tids in use are skipped. Larger than any tid or pid of Linux, and small enough for all viewers.
const FIRST_TID: u32 = 1_000_000_000;

/// Maps slices to their new threads.
#[derive(Debug, Default)]
pub struct Lanes {
    /// The index of a slice's thread, by the slice's offset in the text.
    moves: HashMap<u64, usize>,
    threads: Vec<Thread>,
}

/// A thread beside another one.
#[derive(Debug)]
struct Thread {
    tid: u32,
    name: String,
}

/// Moves the events of a text to their lanes, in order.
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

    /// The lane of the next copied event.
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
    /// The lanes of a store, which must have been loaded with `keep_offsets`.
    pub fn new(store: &Store) -> Self {
        Lanes::after(store, 0)
    }

    /// The same when this many free tids are already taken.
    pub(super) fn after(store: &Store, taken: usize) -> Self {
        let mut lanes = Lanes::default();
        let mut tids = free_tids(store).skip(taken);
        let mut of_tracks: HashMap<TrackId, usize> = HashMap::new();
        let mut of_threads: HashMap<ThreadId, usize> = HashMap::new();
        for slice in store.slices.ids() {
            let track = store.slices.track(slice);
            let Owner::Lane(utid) = store.tracks.track(track).owner else { continue };
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

/// `stream 7 (overlapping 1)`, with JSON's escapes but without the quotes.
fn lane_name(store: &Store, utid: ThreadId, number: usize) -> String {
    let thread = store.tracks.thread(utid);
    let name = match store.strings.get(thread.name) {
        Some(name) => name.trim().to_owned(),
        None => format!("thread {}", thread.tid),
    };
    let quoted = serde_json::Value::from(format!("{name} (overlapping {number})")).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Tids that are in use neither by a thread nor by a process.
pub(super) fn free_tids(store: &Store) -> impl Iterator<Item = u32> + use<> {
    let threads = store.tracks.threads.iter().map(|thread| thread.tid);
    let mut used: Vec<i64> = threads.chain(store.tracks.processes.iter().map(|process| process.pid)).collect();
    used.sort_unstable();
    (FIRST_TID..).filter(move |tid| used.binary_search(&i64::from(*tid)).is_err())
}

/// The process and thread of an event, as written.
fn thread_of(event: &Event<'_>) -> String {
    let id = |id: &Id<'_>| format!("{id:?}");
    format!("{} {}", id(&event.pid), id(&event.tid))
}
