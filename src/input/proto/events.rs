//! The way of an event through the reader: onto the trace's clock, onto its track, and out, unless it has to wait.

use std::rc::Rc;

use super::clocks::Clock;
use super::held::{MAX_HELD, Place};
use super::legacy;
use super::state::Sequence;
use super::track_event::{Awaited, TrackEvent};
use super::tracks::{OfThread, some_thread_of};
use super::wire::Malformed;
use super::{Reader, Summary};
use crate::damage::Damage;
use crate::event::{Kind, TrackItem, TrackKey};

/// An event that waits for the end. Its time is on this clock, or on the trace's.
#[derive(Debug)]
pub(super) struct Waiting {
    event: Box<[u8]>,
    clock: Option<Clock>,
    place: Place,
}

impl Reader {
    /// Puts an event onto the trace's clock. What is known of it: its sequence, and the time of its packet in ns.
    pub(super) fn event(
        &mut self,
        message: &[u8],
        (number, time): (Option<u64>, Option<(Option<Clock>, i64)>),
        offset: u64,
        tell: &mut impl FnMut(TrackItem<'_>) -> bool,
    ) -> Result<(), Malformed> {
        let Some(number) = number else {
            self.summary.damage.count(Damage::EventWithoutSequence, Some(offset));
            return Ok(());
        };
        let event = TrackEvent::new(message)?;
        let of_thread = self.threads.get(&number).copied();
        let track = self.track(&event, number, of_thread);
        let Some(sequence) = self.sequences.get_mut(&number) else { return Ok(()) };
        let Some(thread_ns) = thread_time(&event, sequence) else {
            self.summary.damage.count(Damage::PacketWithoutState, Some(offset));
            return Ok(());
        };
        let (clock, ns) = match (event.delta_us, event.absolute_us, time, &mut sequence.reference) {
            (Some(_), .., None) => {
                self.summary.damage.count(Damage::PacketWithoutState, Some(offset));
                return Ok(());
            }
            (Some(delta), .., Some(reference)) => {
                reference.us = reference.us.wrapping_add(delta);
                (None, self.clocks.on_monotonic(in_ns(reference.us)))
            }
            (None, Some(us), ..) => (None, self.clocks.on_monotonic(in_ns(us))),
            (None, None, Some(time), _) => time,
            (None, None, None, _) => {
                self.summary.damage.count(Damage::EventWithoutTime, Some(offset));
                return Ok(());
            }
        };
        let place = Place { ts: ns, track, thread_ns, names: Rc::clone(&sequence.names), offset };
        self.tell_or_wait(&event, clock, place, tell)
    }

    /// An event waits for the end if nothing ties its clock to the trace's yet, or if it belongs to the process of its
    /// track and that is not described yet; unless too much waits already.
    fn tell_or_wait(
        &mut self,
        event: &TrackEvent<'_>,
        clock: Option<Clock>,
        mut place: Place,
        tell: &mut impl FnMut(TrackItem<'_>) -> bool,
    ) -> Result<(), Malformed> {
        let on_trace = self.clocks.on_trace(clock, place.ts);
        let lacks_process = event.legacy.is_of_process() && self.descriptors.pid(place.track).is_none();
        let takes = event.message.len() + size_of::<Waiting>();
        let may_wait = self.waiting_bytes + takes <= MAX_HELD;
        place.ts = on_trace.unwrap_or(place.ts);
        match on_trace {
            Some(_) if !lacks_process || !may_wait => return self.tell_event(event, place, tell),
            None if !may_wait => self.summary.damage.count(Damage::ClockUnknown, Some(place.offset)),
            _ => {
                let clock = clock.filter(|_| on_trace.is_none());
                self.waiting_bytes += takes;
                self.waiting.push(Waiting { event: event.message.into(), clock, place });
            }
        }
        Ok(())
    }

    /// The track of an event: that which it names, that of its sequence, or that of its sequence's thread.
    fn track(&mut self, event: &TrackEvent<'_>, number: u64, of_thread: Option<OfThread>) -> TrackKey {
        let default = self.sequences.get(&number).and_then(|sequence| sequence.default_track);
        let uuid = event.track.or(default).unwrap_or(0);
        if uuid != 0 {
            return TrackKey::Uuid(uuid);
        }
        let (pid, tid) = (event.legacy.pid, event.legacy.tid);
        let own = of_thread.filter(|_| event.track.is_none() || !event.has_type());
        match (pid, tid, of_thread) {
            (Some(pid), tid, _) => self.descriptors.thread_track(pid, tid.unwrap_or_else(|| some_thread_of(pid))),
            (None, Some(tid), Some(of_thread)) => self.descriptors.thread_track(of_thread.pid, tid),
            _ => own.map_or(TrackKey::Uuid(0), |of_thread| of_thread.track),
        }
    }

    /// Tells of an event, or holds it back if others are held back or it has to wait itself.
    fn tell_event(
        &mut self,
        event: &TrackEvent<'_>,
        place: Place,
        tell: &mut impl FnMut(TrackItem<'_>) -> bool,
    ) -> Result<(), Malformed> {
        let awaited = if self.held.is_empty() { self.parse(event, &place, true, tell)? } else { Some(Vec::new()) };
        if let Some(awaited) = awaited {
            self.held.push(place, event.message, Some(awaited).filter(|awaited| !awaited.is_empty()));
            while self.held.is_too_much() && !self.is_stopped {
                self.release(false, tell);
                while !self.is_stopped && self.release(true, tell) {}
            }
        }
        Ok(())
    }

    /// Tells of the first event that is held back, or says that there is none. It may have to stay if it may wait.
    pub(super) fn release(&mut self, may_wait: bool, tell: &mut impl FnMut(TrackItem<'_>) -> bool) -> bool {
        let Some(first) = (if may_wait { self.held.next() } else { self.held.pop() }) else { return false };
        let told = TrackEvent::new(&first.message).and_then(|event| self.parse(&event, &first.place, may_wait, tell));
        match told {
            Ok(None) => {}
            Ok(Some(awaited)) => {
                self.held.put_back(first, awaited);
                return false;
            }
            Err(Malformed) => self.summary.damage.count(Damage::PacketSyntax, Some(first.place.offset)),
        }
        true
    }

    fn parse(
        &mut self,
        event: &TrackEvent<'_>,
        place: &Place,
        may_wait: bool,
        tell: &mut impl FnMut(TrackItem<'_>) -> bool,
    ) -> Result<Option<Awaited>, Malformed> {
        let Reader { parser, summary, is_stopped, descriptors, .. } = self;
        let elsewhere = event.legacy.elsewhere()?;
        let Summary { damage, events, .. } = summary;
        let (offset, own) = (place.offset, place.track);
        // The arrows of an event lie where its slice does.
        let mut track = own;
        let names = place.names.borrow();
        parser.parse(
            event,
            (place.ts, place.thread_ns),
            (&names, may_wait),
            |kind| damage.count(kind, Some(offset)),
            |event| {
                match &event.kind {
                    Kind::ThreadName(name) => return descriptors.name_thread(own, name),
                    Kind::ProcessName(name) => return descriptors.name_process(own, name),
                    Kind::SliceFlow(_) => {}
                    _ => {
                        *events += 1;
                        if let Some(elsewhere) = elsewhere {
                            track = descriptors.elsewhere(own, elsewhere, event);
                        }
                    }
                }
                *is_stopped |= !tell(TrackItem::Event { track, event, offset });
            },
        )
    }

    /// Events that have waited for the end. If no clock is known at all, all are on the trace's.
    pub(super) fn retry(&mut self, tell: &mut impl FnMut(TrackItem<'_>) -> bool) {
        for Waiting { event, clock, mut place } in std::mem::take(&mut self.waiting) {
            if self.is_stopped {
                return;
            }
            let clock = clock.filter(|_| !self.clocks.is_empty());
            let ts = self.clocks.on_trace(clock, place.ts);
            let Some(ts) = ts else {
                self.summary.damage.count(Damage::ClockUnknown, Some(place.offset));
                continue;
            };
            place.ts = ts;
            if TrackEvent::new(&event).and_then(|event| self.parse(&event, &place, false, tell)).is_err() {
                self.summary.damage.count(Damage::PacketSyntax, Some(place.offset));
            }
        }
    }
}

/// A time in microseconds in ns. What is before all time, or behind it, is no time that there can be.
fn in_ns(us: u64) -> i64 {
    (us as i64).checked_mul(1000).unwrap_or(i64::MIN)
}

/// The CPU time of an event's thread in ns, if the event says it; `None` if what it is counted from is not known.
fn thread_time(event: &TrackEvent<'_>, sequence: &mut Sequence) -> Option<Option<i64>> {
    let us = match (event.thread_delta_us, event.thread_absolute_us) {
        (Some(delta), _) => {
            let reference = sequence.reference.as_mut()?;
            reference.thread_us = reference.thread_us.wrapping_add(delta);
            reference.thread_us
        }
        (None, Some(us)) => us,
        (None, None) => return Some(None),
    };
    Some(Some(legacy::ns(us as i64)))
}
