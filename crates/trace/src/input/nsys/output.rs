//! Makes events of what the rows say, and keeps what is to be described after them: streams, and tracks of free ranges.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::nvtx::Lanes;
use super::summary::Item;
use crate::event::{ArgList, Event, EventIds, Id, Kind, Text, TrackDescription, TrackKey, TrackOwner};
use crate::time::Ns;

/// Where an event is: process and thread, or device and stream.
pub(super) type Place = (u32, u32);

/// A slice or an instant, as it is named.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) name: &'a str,
    pub(super) category: &'static str,
}

pub(super) struct Output<F> {
    pid: u32,
    /// The arguments of the next event.
    pub(super) args: ArgList,
    lanes: Lanes,
    streams: BTreeSet<Place>,
    /// How many events there were.
    pub(super) events: u64,
    /// Whether the receiver wants no more.
    pub(super) is_stopped: bool,
    emit: F,
}

impl<F: FnMut(Item<'_>) -> bool> Output<F> {
    pub(super) fn new(pid: u32, emit: F) -> Self {
        let (args, lanes, streams) = (ArgList::default(), Lanes::default(), BTreeSet::new());
        Output { pid, args, lanes, streams, events: 0, is_stopped: false, emit }
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
        for lane in 0..self.lanes.len() {
            (self.emit)(Item::Track(TrackDescription {
                key: TrackKey::Operation(lane),
                owner: TrackOwner::Operation(Some(i64::from(self.pid))),
                name: Some(Cow::Borrowed("ranges of no thread")),
                thread_name: None,
                process_name: None,
            }));
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

    fn name_at(&mut self, (pid, tid): (Id<'_>, Id<'_>), kind: Kind<'_>) {
        let (thread_time, args) = ((None, None), &ArgList::default());
        let event = Event {
            kind,
            ts: Ns::ZERO,
            pid,
            tid,
            name: None,
            category: None,
            ids: EventIds::NONE,
            thread_time,
            bind: None,
            args,
        };
        self.is_stopped |= !(self.emit)(Item::Event(&event));
    }

    fn add(
        &mut self,
        (pid, tid): (Id<'_>, Id<'_>),
        ts: Ns,
        kind: Kind<'_>,
        Named { name, category }: Named<'_>,
        ids: EventIds,
        track: Option<TrackKey>,
    ) {
        self.events += 1;
        let event = Event {
            kind,
            ts,
            pid,
            tid,
            name: Some(name).filter(|name| !name.is_empty()).map(text),
            category: Some(text(category)),
            ids,
            thread_time: (None, None),
            bind: None,
            args: &self.args,
        };
        let goes_on = match track {
            Some(track) => (self.emit)(Item::Range(track, &event)),
            None => (self.emit)(Item::Event(&event)),
        };
        self.is_stopped |= !goes_on;
    }
}

fn text(text: &str) -> Text<'_> {
    Text { raw: text.as_bytes(), decode: String::from_utf8_lossy }
}
