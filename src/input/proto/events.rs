//! The way of an event through the reader: onto the trace's clock, onto its track, and out, unless it has to wait.

use std::rc::Rc;

use super::clocks::{Clock, MONOTONIC};
use super::held::{MAX_HELD, Place};
use super::packet::Packet;
use super::state::Sequence;
use super::track_event::{Awaited, TrackEvent};
use super::tracks::{OfThread, some_thread_of};
use super::wire::Malformed;
use super::{Reader, Summary};
use crate::damage::Damage;
use crate::event::{Kind, Told, TrackKey};

/// An event whose clock is not known yet.
#[derive(Debug)]
pub(super) struct Waiting {
    event: Box<[u8]>,
    ns: i64,
    clock: Option<Clock>,
    place: Place,
}

impl Reader {
    /// Puts an event onto the trace's clock.
    pub(super) fn event(
        &mut self,
        message: &[u8],
        packet: &Packet<'_>,
        offset: u64,
        tell: &mut impl FnMut(Told<'_>) -> bool,
    ) -> Result<(), Malformed> {
        let Some(number) = packet.sequence else {
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
        let (clock, written) = match (event.delta_us, event.absolute_us, packet.timestamp, &mut sequence.reference) {
            (Some(_), .., None) => {
                self.summary.damage.count(Damage::PacketWithoutState, Some(offset));
                return Ok(());
            }
            (Some(delta), .., Some(reference)) => {
                reference.us = reference.us.wrapping_add(delta);
                (Some(MONOTONIC), in_ns(reference.us))
            }
            (None, Some(us), ..) => (Some(MONOTONIC), in_ns(us)),
            (None, None, Some(time), _) => (packet.clock.or(sequence.default_clock), time),
            (None, None, None, _) => {
                self.summary.damage.count(Damage::EventWithoutTime, Some(offset));
                return Ok(());
            }
        };
        let clock = clock.map(|clock| Clock::new(clock, number));
        let ns = self.clocks.ns(clock, written);
        let mut place = Place { ts: ns, track, thread_ns, names: Rc::clone(&sequence.names), offset };
        if let Some(ts) = self.clocks.on_trace(clock, ns) {
            place.ts = ts;
            return self.tell_event(&event, place, tell);
        }
        self.waiting_bytes += message.len() + size_of::<Waiting>();
        if self.waiting_bytes > MAX_HELD {
            self.summary.damage.count(Damage::ClockUnknown, Some(offset));
            return Ok(());
        }
        self.waiting.push(Waiting { event: message.into(), ns, clock, place });
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
        tell: &mut impl FnMut(Told<'_>) -> bool,
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
    pub(super) fn release(&mut self, may_wait: bool, tell: &mut impl FnMut(Told<'_>) -> bool) -> bool {
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
        tell: &mut impl FnMut(Told<'_>) -> bool,
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
                *is_stopped |= !tell(Told::Event { track, event, offset });
            },
        )
    }

    /// Events whose clock was not known when they came. If no clock is known at all, all are on the trace's.
    pub(super) fn retry(&mut self, tell: &mut impl FnMut(Told<'_>) -> bool) {
        for Waiting { event, ns, clock, mut place } in std::mem::take(&mut self.waiting) {
            if self.is_stopped {
                return;
            }
            let ts = if self.clocks.is_empty() { Some(ns) } else { self.clocks.on_trace(clock, ns) };
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

/// Microseconds as an `i64` in ns as one. What is before all time, or behind it, is no time that there can be.
fn in_ns(us: u64) -> u64 {
    (us as i64).checked_mul(1000).map_or(u64::MAX, |ns| ns as u64)
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
    Some(Some((us as i64).saturating_mul(1000)))
}
