//! Makes events of what the rows say, with times of the day, and hands them on in batches.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::damage::{Damage, DamageReport};
use crate::event::{ArgList, Event, EventIds, Id, Kind, Shard, Text, TrackDescription, TrackKey, TrackOwner};
use crate::time::Ns;

/// How many events make a batch.
const BATCH: usize = 1 << 16;

/// A row of a database has no byte offset.
const NO_OFFSET: u64 = 0;

/// Where an event is: process and thread, or device and stream.
pub(super) type Place = (u32, u32);

/// A slice or an instant, as it is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named<'a> {
    pub(super) name: &'a str,
    pub(super) category: &'static str,
}

/// `S` collects the events, `F` takes the batches and returns whether to go on.
pub(super) struct Output<'s, S, F> {
    shard: &'s mut S,
    take: F,
    pid: u32,
    /// The arguments of the next event.
    pub(super) args: ArgList,
    lanes: Lanes,
    streams: BTreeSet<Place>,
    pub(super) events: u64,
    /// Whether the receiver wants no more.
    pub(super) is_stopped: bool,
}

impl<'s, S: Shard, F: FnMut(S::Batch) -> bool> Output<'s, S, F> {
    pub(super) fn new(pid: u32, shard: &'s mut S, take: F) -> Self {
        let (args, lanes, streams) = (ArgList::default(), Lanes::default(), BTreeSet::new());
        Output { shard, take, pid, args, lanes, streams, events: 0, is_stopped: false }
    }

    /// An event of a thread of the process.
    pub(super) fn of_thread(&mut self, thread: u32, at: Ns, kind: Kind<'_>, named: Named<'_>, ids: EventIds) {
        let place = (Id::Number(self.pid), Id::Number(thread));
        self.add(place, at, kind, named, ids, None);
    }

    /// A slice of a stream of a device.
    pub(super) fn of_stream(&mut self, place: Place, at: Ns, dur: Ns, named: Named<'_>, ids: EventIds) {
        self.streams.insert(place);
        self.add(self.stream(place), at, Kind::Complete { dur }, named, ids, None);
    }

    /// A range that is bound to no thread.
    pub(super) fn free(&mut self, at: Ns, dur: Ns, named: Named<'_>) {
        let track = TrackKey::Operation(self.lanes.put(at, at + dur));
        self.add((Id::Absent, Id::Absent), at, Kind::Complete { dur }, named, EventIds::NONE, Some(track));
    }

    /// What is known of a thread or of the process. It is no event.
    pub(super) fn name(&mut self, thread: u32, kind: Kind<'_>) {
        self.name_at((Id::Number(self.pid), Id::Number(thread)), kind);
    }

    /// Names devices and streams, and describes the tracks of free ranges.
    pub(super) fn end(&mut self) {
        let mut last = None;
        for place in std::mem::take(&mut self.streams) {
            if last.replace(place.0) != Some(place.0) {
                self.name_at(self.stream(place), Kind::ProcessName(Cow::Owned(format!("GPU {}", place.0))));
            }
            self.name_at(self.stream(place), Kind::ThreadName(Cow::Owned(format!("stream {}", place.1))));
        }
        for lane in 0..self.lanes.ends.len() {
            self.shard.describe(&TrackDescription {
                key: TrackKey::Operation(lane as u64),
                owner: TrackOwner::Operation(Some(i64::from(self.pid))),
                name: Some(Cow::Borrowed("ranges of no thread")),
                thread_name: None,
                process_name: None,
            });
            self.hand_on();
        }
    }

    /// Kineto numbers a GPU as a process. In a container a process may have the number of a GPU: then the GPU is known by a name.
    fn stream(&self, (device, stream): Place) -> (Id<'static>, Id<'static>) {
        let is_taken = device == self.pid;
        let device = if is_taken { Id::Text(Cow::Owned(format!("GPU {device}"))) } else { Id::Number(device) };
        // 0 would be the first thread of the process.
        let stream = if stream == 0 { Id::Text(Cow::Borrowed("stream 0")) } else { Id::Number(stream) };
        (device, stream)
    }

    fn name_at(&mut self, place: (Id<'_>, Id<'_>), kind: Kind<'_>) {
        self.shard.add(&Event::new(kind, Ns::ZERO, place, &ArgList::default()), NO_OFFSET);
        self.hand_on();
    }

    fn add(
        &mut self,
        place: (Id<'_>, Id<'_>),
        ts: Ns,
        kind: Kind<'_>,
        Named { name, category }: Named<'_>,
        ids: EventIds,
        track: Option<TrackKey>,
    ) {
        self.events += 1;
        let event = Event {
            name: Some(name).filter(|name| !name.is_empty()).map(text),
            category: Some(text(category)),
            ids,
            ..Event::new(kind, ts, place, &self.args)
        };
        match track {
            Some(track) => self.shard.add_on(track, &event, NO_OFFSET),
            None => self.shard.add(&event, NO_OFFSET),
        }
        self.hand_on();
    }

    fn hand_on(&mut self) {
        if self.shard.pending() >= BATCH {
            self.is_stopped |= !(self.take)(self.shard.take());
        }
    }
}

fn text(text: &str) -> Text<'_> {
    Text { raw: text.as_bytes(), decode: String::from_utf8_lossy }
}

/// Puts ranges that are bound to no thread onto as few tracks as there are open at once.
#[derive(Debug, Default)]
struct Lanes {
    /// When the last range of each ends.
    ends: Vec<Ns>,
}

impl Lanes {
    /// More are not searched: then every range gets a track of its own.
    const SEARCHED: usize = 256;

    fn put(&mut self, start: Ns, end: Ns) -> u64 {
        let searched = self.ends.len().min(Self::SEARCHED);
        let free = self.ends[..searched].iter().position(|last| *last <= start);
        let lane = free.unwrap_or_else(|| {
            self.ends.push(end);
            self.ends.len() - 1
        });
        self.ends[lane] = end;
        lane as u64
    }
}

/// Converts the times of rows, in ns since the start of the recording, to those of the day, and counts the impossible ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// When the recording started, in ns since 1970; 0 if the export does not say so.
    pub(super) start: i64,
}

impl Clock {
    pub(super) fn at(self, start: Option<i64>, damage: &mut DamageReport) -> Option<Ns> {
        let Some(start) = start else {
            damage.count(Damage::EventWithoutTimestamp, None);
            return None;
        };
        let at = self.start.checked_add(start);
        if at.is_none_or(|at| at < 0) {
            damage.count(Damage::NegativeTimestamp, None);
        }
        at.filter(|at| *at >= 0).map(Ns)
    }

    pub(super) fn span(self, start: Option<i64>, end: Option<i64>, damage: &mut DamageReport) -> Option<(Ns, Ns)> {
        if (start, end) == (Some(0), Some(0)) {
            // CUPTI writes this for work whose end it has not seen.
            damage.count(Damage::EventWithoutTimestamp, None);
            return None;
        }
        let at = self.at(start, damage)?;
        let end = end.and_then(|end| self.start.checked_add(end));
        match end.map(|end| end.saturating_sub(at.0)) {
            Some(length) if length >= 0 => Some((at, Ns(length))),
            length => {
                let is_negative = length.is_some();
                damage.count(if is_negative { Damage::NegativeDuration } else { Damage::InvalidDuration }, None);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_counted() {
        let clock = Clock { start: 1_000 };
        let mut damage = DamageReport::default();
        assert_eq!(clock.span(Some(5), Some(8), &mut damage), Some((Ns(1_005), Ns(3))));
        assert_eq!(clock.span(Some(5), Some(5), &mut damage), Some((Ns(1_005), Ns(0))));
        for (start, end, kind) in [
            (None, Some(1), Damage::EventWithoutTimestamp),
            (Some(0), Some(0), Damage::EventWithoutTimestamp),
            (Some(9), Some(8), Damage::NegativeDuration),
            (Some(9), None, Damage::InvalidDuration),
            (Some(9), Some(i64::MAX), Damage::InvalidDuration),
            (Some(9), Some(i64::MIN), Damage::NegativeDuration),
            (Some(-2_000), Some(9), Damage::NegativeTimestamp),
            (Some(i64::MAX), Some(i64::MAX), Damage::NegativeTimestamp),
        ] {
            let before = damage.get(kind).count;
            assert_eq!(clock.span(start, end, &mut damage), None, "{start:?} {end:?}");
            assert_eq!(damage.get(kind).count, before + 1, "{start:?} {end:?}");
        }
    }

    #[test]
    fn ranges_at_once_are_on_several_tracks() {
        let mut lanes = Lanes::default();
        for (start, end, lane) in [(0, 10, 0), (5, 20, 1), (10, 12, 0), (12, 12, 0), (12, 13, 0), (12, 13, 2)] {
            assert_eq!(lanes.put(Ns(start), Ns(end)), lane, "{start} {end}");
        }
        assert_eq!(lanes.ends.len(), 3);
    }
}
