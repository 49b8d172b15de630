//! Nesting: which slice encloses which. Slices are pushed in time order onto one stack per track, as in Perfetto.
//!
//! A slice that partly overlaps an open one on its thread goes to a lane: a separate track beside the thread's own, with its own stack, so that its
//! parent can only be another such slice. Examples are kernels that overlap on one stream (programmatic dependent launch) and Python frames that
//! end a microsecond late.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::max_tree::MaxTree;
use super::slices::{EndedSlices, Nested, Rows};
use super::strings::StringId;
use super::tracks::Tracks;
use crate::damage::{Damage, DamageReport};
use crate::id::{SliceId, ThreadId, TrackId};

/// Perfetto drops slices nested deeper than this.
const MAX_DEPTH: usize = 512;

#[derive(Debug, Clone, Copy)]
pub(super) struct NewSlice {
    pub(super) row: u32,
    /// In ns.
    pub(super) ts: i64,
    /// In ns; `None`: open until its end event.
    pub(super) dur: Option<i64>,
    pub(super) track: TrackId,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    slice: SliceId,
    /// In ns.
    ts: i64,
    /// In ns; `None`: still open.
    end: Option<i64>,
}

impl Entry {
    fn is_instant(&self) -> bool {
        self.end == Some(self.ts)
    }
}

/// The slices of a track that may enclose the next one, the innermost last.
#[derive(Debug, Default)]
struct Stack {
    entries: Vec<Entry>,
    /// The number of entries still open.
    open: usize,
    /// Whether any entry was open since the stack was last empty. If so, a finished entry need not enclose those above it.
    had_open: bool,
    first: Option<SliceId>,
}

/// The lanes of a thread, for slices that partly overlap others on it.
///
/// A slice goes to the first lane that is free when it begins, or whose latest running slice encloses it. Slices come in order of their starts, so
/// a slice that has ended by then is removed for good. The tree holds the end of each lane's latest slice, or [`FREE`], so that a search takes
/// logarithmic time in the number of lanes.
#[derive(Debug, Default)]
struct Lanes {
    /// By lane: its track, and the ends of its running slices in ns, the innermost last.
    lanes: Vec<(TrackId, Vec<i64>)>,
    /// By lane: the latest end, in ns, of a slice that fits on it.
    room: MaxTree,
    /// The end and lane of each slice that is or was the innermost on its lane.
    ending: BinaryHeap<Reverse<(i64, usize)>>,
    /// The number of steps so far: lane assignments and removals.
    #[cfg(test)]
    steps: usize,
}

const FREE: i64 = i64::MAX;

impl Lanes {
    /// Assigns a slice to a lane and returns its track; `None` if the slice needs a new lane.
    fn assign(&mut self, ts: i64, end: i64) -> Option<TrackId> {
        while let Some(Reverse((over, lane))) = self.ending.peek().copied().filter(|Reverse((over, _))| *over <= ts) {
            self.ending.pop();
            let ends = &mut self.lanes[lane].1;
            while ends.last().is_some_and(|last| *last <= over) {
                ends.pop();
            }
            self.room.set(lane, ends.last().copied().unwrap_or(FREE));
            self.step();
        }
        let lane = self.room.first_at_least(end)?;
        self.put(lane, end);
        Some(self.lanes[lane].0)
    }

    /// Adds a lane with a slice on it.
    fn add(&mut self, track: TrackId, end: i64) {
        self.lanes.push((track, Vec::new()));
        self.room.push(FREE);
        self.put(self.lanes.len() - 1, end);
    }

    fn put(&mut self, lane: usize, end: i64) {
        self.lanes[lane].1.push(end);
        self.room.set(lane, end);
        self.ending.push(Reverse((end, lane)));
        self.step();
    }

    fn step(&mut self) {
        #[cfg(test)]
        {
            self.steps += 1;
        }
    }
}

/// Why a slice cannot be nested.
enum Refusal {
    Overlap,
    TooDeep,
}

/// The stacks of all tracks, and the slices nested so far.
pub(super) struct Nester<'a> {
    rows: &'a Rows,
    pub(super) nested: Nested,
    pub(super) tracks: Tracks,
    /// The slices on lanes, in id order, and the tracks of the lanes.
    pub(super) spilled: Vec<(SliceId, TrackId)>,
    pub(super) ended: EndedSlices,
    stacks: Vec<Stack>,
    lanes: HashMap<ThreadId, Lanes>,
}

impl<'a> Nester<'a> {
    pub(super) fn new(tracks: Tracks, rows: &'a Rows) -> Self {
        Nester {
            rows,
            nested: Nested::with_capacity(rows.len()),
            tracks,
            spilled: Vec::new(),
            ended: EndedSlices::default(),
            stacks: Vec::new(),
            lanes: HashMap::new(),
        }
    }

    /// The first slice of each track. Tracks after the last one with slices are missing.
    pub(super) fn first_slices(&self) -> Vec<Option<SliceId>> {
        self.stacks.iter().map(|stack| stack.first).collect()
    }

    /// The slice on top of a track, whether or not it has ended.
    pub(super) fn top(&self, track: TrackId) -> Option<SliceId> {
        self.stacks.get(track.row())?.entries.last().map(|entry| entry.slice)
    }

    /// Nests a slice. Returns its id and its track, which may be a lane; `None` if it was dropped and counted.
    #[inline]
    pub(super) fn nest(&mut self, new: NewSlice, damage: &mut DamageReport) -> Option<(SliceId, TrackId)> {
        let track = new.track;
        match self.push(new, damage) {
            Ok(slice) => Some((slice, track)),
            Err(Refusal::TooDeep) => {
                damage.count(Damage::TooDeep, None);
                None
            }
            Err(Refusal::Overlap) => {
                let Some(utid) = self.tracks.thread_with_lanes(track) else {
                    damage.count(Damage::AsyncOverlap, None);
                    return None;
                };
                damage.count(Damage::Spilled, None);
                let lane = self.lane(utid, new.ts, new.ts + new.dur.unwrap_or(0));
                match self.push(NewSlice { track: lane, ..new }, damage) {
                    Ok(slice) => {
                        self.spilled.push((slice, lane));
                        Some((slice, lane))
                    }
                    Err(_) => {
                        damage.count(Damage::TooDeep, None);
                        None
                    }
                }
            }
        }
    }

    /// Closes the innermost open slice on a track with this name and category; NULL matches any. `None` if there is none.
    pub(super) fn close(
        &mut self,
        track: TrackId,
        ts: i64,
        name: StringId,
        category: StringId,
        damage: &mut DamageReport,
    ) -> Option<SliceId> {
        let stack = self.stacks.get_mut(track.row())?;
        // An end has no length, so it cannot overlap.
        let _ = stack.make_room(ts, None, &mut self.ended, damage);
        let fits = |wanted: StringId, is: StringId| wanted == StringId::NULL || wanted == is;
        // Any end event closes a slice without a name.
        let is_named = |wanted: StringId, is: StringId| is == StringId::NULL || fits(wanted, is);
        let at = stack.entries.iter().rposition(|entry| {
            let row = self.nested.row(entry.slice);
            entry.end.is_none() && is_named(name, self.rows.name[row]) && fits(category, self.rows.category[row])
        })?;
        let entry = &mut stack.entries[at];
        self.ended.push(entry.slice, ts - entry.ts);
        entry.end = Some(ts);
        let slice = entry.slice;
        stack.open -= 1;
        if at + 1 == stack.entries.len() {
            stack.entries.pop();
        }
        Some(slice)
    }

    fn push(&mut self, new: NewSlice, damage: &mut DamageReport) -> Result<SliceId, Refusal> {
        if self.stacks.len() <= new.track.row() {
            self.stacks.resize_with(new.track.row() + 1, Stack::default);
        }
        let stack = &mut self.stacks[new.track.row()];
        stack.make_room(new.ts, new.dur, &mut self.ended, damage)?;
        let depth = stack.entries.len();
        if depth >= MAX_DEPTH {
            return Err(Refusal::TooDeep);
        }
        let parent = stack.entries.last().map(|entry| entry.slice);
        let slice = self.nested.push(new.row, depth as u16, parent);
        stack.first.get_or_insert(slice);
        stack.open += usize::from(new.dur.is_none());
        stack.had_open = new.dur.is_none() || (stack.had_open && depth > 0);
        stack.entries.push(Entry { slice, ts: new.ts, end: new.dur.map(|dur| new.ts + dur) });
        Ok(slice)
    }

    /// The track of the lane that takes a slice.
    fn lane(&mut self, utid: ThreadId, ts: i64, end: i64) -> TrackId {
        let lanes = self.lanes.entry(utid).or_default();
        lanes.assign(ts, end).unwrap_or_else(|| {
            let track = self.tracks.new_lane(utid);
            lanes.add(track, end);
            track
        })
    }
}

impl Stack {
    /// Pops the entries that ended by `ts`. Fails if a slice of this length would partly overlap a remaining one.
    fn make_room(
        &mut self,
        ts: i64,
        dur: Option<i64>,
        ended: &mut EndedSlices,
        damage: &mut DamageReport,
    ) -> Result<(), Refusal> {
        let mut open_above = false;
        for at in (0..self.entries.len()).rev() {
            let entry = self.entries[at];
            let Some(end) = entry.end else {
                open_above = true;
                continue;
            };
            if open_above {
                if ts > end {
                    self.end_all_above(at, end, ended);
                    damage.count(Damage::MisplacedEnd, None);
                    open_above = false;
                }
                continue;
            }
            if end < ts || (end == ts && !(entry.is_instant() && dur == Some(0))) {
                // Usually the entries above have ended and been popped. If not, the top one is popped in place of this one, as in Perfetto.
                self.entries.pop();
            } else if dur.is_some_and(|dur| ts < end && ts + dur > end) {
                return Err(Refusal::Overlap);
            } else if !self.had_open {
                // Finished entries enclose each other, so a slice that fits into this one fits into all below.
                break;
            }
        }
        Ok(())
    }

    /// Ends all entries above a finished one that is over: they end with it at the latest.
    fn end_all_above(&mut self, at: usize, end: i64, ended: &mut EndedSlices) {
        for entry in &self.entries[at + 1..] {
            ended.push(entry.slice, end - entry.ts);
            self.open -= usize::from(entry.end.is_none());
        }
        self.entries.truncate(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assign(lanes: &mut Lanes, ts: i64, end: i64) -> TrackId {
        lanes.assign(ts, end).unwrap_or_else(|| {
            let next = TrackId::of_row(lanes.lanes.len());
            lanes.add(next, end);
            next
        })
    }

    /// Each slice is put on a lane once and removed once.
    #[test]
    fn overlapping_slices_take_two_steps_each() {
        for n in [1_000, 2_000] {
            let mut lanes = Lanes::default();
            for ts in 0..n {
                assert_eq!(assign(&mut lanes, ts, ts + n), TrackId(ts as u32));
            }
            assert_eq!(assign(&mut lanes, 2 * n, 3 * n), TrackId(0));
            assert_eq!(lanes.steps as i64, 2 * n + 1);
        }
    }
}
