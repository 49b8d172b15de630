//! From one packet to its event: the state of its sequence, the trace's clock, the event's track.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::clocks::{Clock, Clocks};
use super::messages::{Attribute, NEEDS_STATE, STARTS_ANEW, TraceAttributes, TracePacket, TrackEvent};
use super::state::{Names, Sequence};
use super::track_event::Parser;
use super::tracks::{Descriptors, SequenceThread, some_thread_of};
use super::wire::Malformed;
use crate::damage::Damage;
use crate::event::{ArgValue, ArgsWanted, HeaderField, Kind, TrackItem, TrackKey};
use crate::input::reader::Summary;
use crate::time::Ns;

/// Takes events, and then tracks. Returns whether to go on.
pub(super) trait Emit: FnMut(TrackItem<'_>) -> bool {}

impl<T: FnMut(TrackItem<'_>) -> bool> Emit for T {}

/// How many bytes of events may wait in all.
const MAX_WAITING: usize = 64 << 20;

/// How many attributes of a trace are kept, and how many bytes each may have.
const MAX_ATTRIBUTES: usize = 10_000;
const MAX_TEXT: usize = 64 << 10;

/// An event that waits for the end of the file. Its time is on this clock, or on the trace's.
#[derive(Debug)]
struct Waiting {
    message: Box<[u8]>,
    clock: Option<Clock>,
    place: Place,
}

/// What is known about an event besides its message.
#[derive(Debug)]
struct Place {
    ts: i64,
    /// Its track, unless a legacy phase asks for another.
    track: TrackKey,
    names: Rc<RefCell<Names>>,
    offset: u64,
}

#[derive(Debug, Default)]
pub(super) struct Events {
    parser: Parser,
    sequences: HashMap<u64, Sequence, foldhash::fast::FixedState>,
    threads: HashMap<u64, SequenceThread, foldhash::fast::FixedState>,
    /// How many bytes the names of all sequences take.
    names_bytes: Rc<Cell<usize>>,
    clocks: Clocks,
    descriptors: Descriptors,
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    /// The receiver of the events wants no more, or a limit is reached.
    pub(super) is_stopped: bool,
    pub(super) summary: Summary,
}

impl Events {
    pub(super) fn new(wanted: ArgsWanted) -> Self {
        Events { parser: Parser::new(wanted), ..Events::default() }
    }

    /// Reads a packet that is not compressed. What it says of the trace, its sequence and clocks applies before its event, and also if that
    /// depends on a lost packet.
    pub(super) fn packet(
        &mut self,
        packet: &TracePacket<'_>,
        offset: u64,
        emit: &mut impl Emit,
    ) -> Result<(), Malformed> {
        if let Some(attributes) = packet.attributes {
            self.attributes(attributes)?;
        }
        if packet.machine != 0 {
            self.summary.damage.count(Damage::OtherMachine, Some(offset));
        }
        let number = packet.sequence.unwrap_or(0);
        let names_bytes = &self.names_bytes;
        let sequence = self.sequences.entry(number).or_insert_with(|| Sequence::new(Rc::clone(names_bytes)));
        if packet.flags & STARTS_ANEW != 0 || packet.was_cleared {
            sequence.start_anew();
        } else if packet.has_lost_some {
            sequence.is_whole = false;
        }
        if let Some(defaults) = packet.defaults {
            sequence.set_defaults(defaults)?;
        }
        if let Some(interned) = packet.interned.filter(|_| sequence.is_whole) {
            sequence.intern(interned)?;
        }
        if let Some(snapshot) = packet.snapshot
            && !self.clocks.snapshot(snapshot, number)?
        {
            self.summary.damage.count(Damage::SnapshotInvalid, Some(offset));
        }
        if packet.flags & NEEDS_STATE != 0 && !sequence.is_whole {
            self.summary.damage.count(Damage::PacketWithoutState, Some(offset));
            return Ok(());
        }
        // Each time advances an incremental clock, whatever else the packet has.
        let is_timed = packet.snapshot.is_none() || packet.event.is_some();
        let time = packet.timestamp.filter(|_| is_timed).map(|written| {
            let clock = [packet.clock, sequence.default_clock].into_iter().flatten().find(|clock| *clock != 0);
            let clock = clock.map(|clock| Clock::new(clock, number));
            (clock, self.clocks.ns(clock, written))
        });
        self.describe(packet, number)?;
        let shown = [packet.event, packet.track, packet.thread, packet.process, packet.attributes, packet.snapshot];
        if packet.other.is_some() && shown.iter().all(|message| message.is_none()) {
            self.summary.damage.count(Damage::PhaseNotShown, None);
        }
        match packet.event {
            Some(event) => self.event(event, packet.sequence, time, offset, emit),
            None => Ok(()),
        }
    }

    /// Keys and values, shown as metadata under Perfetto's names, `trace_attribute.` and the key.
    fn attributes(&mut self, message: &[u8]) -> Result<(), Malformed> {
        for attribute in TraceAttributes::read(message)?.attributes() {
            let Attribute { key: Some(key), int, text, .. } = attribute? else { continue };
            let text_value = |text| ArgValue::Text(String::from_utf8_lossy(text).into_owned());
            let Some(value) = text.map(text_value).or(int.map(ArgValue::Int)) else { continue };
            let Summary { header, damage, .. } = &mut self.summary;
            if key.len() + text.map_or(0, <[u8]>::len) > MAX_TEXT || header.len() >= MAX_ATTRIBUTES {
                damage.count(Damage::HeaderSkipped, None);
            } else {
                header.push(HeaderField { key: format!("trace_attribute.{}", String::from_utf8_lossy(key)), value });
            }
        }
        Ok(())
    }

    fn describe(&mut self, packet: &TracePacket<'_>, number: u64) -> Result<(), Malformed> {
        if let Some(process) = packet.process {
            self.descriptors.add_process(process)?;
        }
        let thread = match (packet.track, packet.thread) {
            (Some(track), _) => self.descriptors.add(track)?,
            (None, Some(thread)) => Some(self.descriptors.add_thread(thread)?),
            (None, None) => None,
        };
        self.threads.extend(thread.map(|thread| (number, thread)));
        Ok(())
    }

    /// Puts an event onto its track and the trace's clock. `time` is in ns on the packet's clock.
    fn event(
        &mut self,
        message: &[u8],
        sequence: Option<u64>,
        time: Option<(Option<Clock>, i64)>,
        offset: u64,
        emit: &mut impl Emit,
    ) -> Result<(), Malformed> {
        let Some(number) = sequence else {
            self.summary.damage.count(Damage::EventWithoutSequence, Some(offset));
            return Ok(());
        };
        let event = TrackEvent::read(message)?;
        let track = self.track(&event, number);
        let Some(sequence) = self.sequences.get(&number) else { return Ok(()) };
        let Some((clock, ts)) = time else {
            self.summary.damage.count(Damage::EventWithoutTime, Some(offset));
            return Ok(());
        };
        let place = Place { ts, track, names: Rc::clone(&sequence.names), offset };
        self.emit_or_wait(&event, clock, place, emit)
    }

    /// An event waits for the end if no snapshot has its clock yet, or if it belongs to the process of its track and that is not described
    /// yet. If too many bytes wait, a trace without any snapshot is taken to be on one clock; in another the event is lost, or has no process.
    fn emit_or_wait(
        &mut self,
        event: &TrackEvent<'_>,
        clock: Option<Clock>,
        mut place: Place,
        emit: &mut impl Emit,
    ) -> Result<(), Malformed> {
        let on_trace = self.clocks.on_trace(clock, place.ts);
        let lacks_process = event.legacy.is_of_process() && self.descriptors.pid(place.track).is_none();
        let takes = event.message.len() + size_of::<Waiting>();
        let may_wait = self.waiting_bytes + takes <= MAX_WAITING;
        place.ts = on_trace.unwrap_or(place.ts);
        match on_trace {
            Some(_) if !lacks_process || !may_wait => return self.parse(event, &place, emit),
            None if !may_wait && self.clocks.is_empty() => {
                self.retry(emit);
                return self.parse(event, &place, emit);
            }
            None if !may_wait => self.summary.damage.count(Damage::ClockUnknown, Some(place.offset)),
            _ => {
                let clock = clock.filter(|_| on_trace.is_none());
                self.waiting_bytes += takes;
                self.waiting.push(Waiting { message: event.message.into(), clock, place });
            }
        }
        Ok(())
    }

    /// The track of an event: the one that it names, the default of its sequence, or that of its sequence's thread.
    fn track(&mut self, event: &TrackEvent<'_>, number: u64) -> TrackKey {
        let thread = self.threads.get(&number).copied();
        let default = self.sequences.get(&number).and_then(|sequence| sequence.default_track);
        let uuid = event.track.or(default).unwrap_or(0);
        if uuid != 0 {
            return TrackKey::Uuid(uuid);
        }
        let (pid, tid) = (event.legacy.pid.map(i64::from), event.legacy.tid.map(i64::from));
        let own = thread.filter(|_| event.track.is_none() || event.kind == 0);
        match (pid, tid, thread) {
            (Some(pid), tid, _) => self.descriptors.thread_track(pid, tid.unwrap_or_else(|| some_thread_of(pid))),
            (None, Some(tid), Some(thread)) => self.descriptors.thread_track(thread.pid, tid),
            _ => own.map_or(TrackKey::Uuid(0), |thread| thread.track),
        }
    }

    fn parse(&mut self, event: &TrackEvent<'_>, place: &Place, emit: &mut impl Emit) -> Result<(), Malformed> {
        let Events { parser, summary, is_stopped, descriptors, .. } = self;
        let elsewhere = event.legacy.elsewhere()?;
        let Summary { damage, events, .. } = summary;
        let (offset, own) = (place.offset, place.track);
        // The flows of an event are on the track of its slice.
        let mut track = own;
        let count = |kind| damage.count(kind, Some(offset));
        parser.parse(event, Ns(place.ts), &place.names.borrow(), count, |event| {
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
            *is_stopped |= !emit(TrackItem::Event { track, event, offset });
        })
    }

    /// Emits the events that wait. Without any snapshot all are on the trace's clock.
    fn retry(&mut self, emit: &mut impl Emit) {
        self.waiting_bytes = 0;
        for Waiting { message, clock, mut place } in std::mem::take(&mut self.waiting) {
            if self.is_stopped {
                return;
            }
            let clock = clock.filter(|_| !self.clocks.is_empty());
            let Some(ts) = self.clocks.on_trace(clock, place.ts) else {
                self.summary.damage.count(Damage::ClockUnknown, Some(place.offset));
                continue;
            };
            place.ts = ts;
            if TrackEvent::read(&message).and_then(|event| self.parse(&event, &place, emit)).is_err() {
                self.summary.damage.count(Damage::PacketSyntax, Some(place.offset));
            }
        }
    }

    /// The end of the file: emits the events that wait, and what all tracks are.
    pub(super) fn finish(mut self, emit: &mut impl Emit) -> Summary {
        self.retry(emit);
        self.descriptors.emit(self.parser.has_seen_profiler, |description| {
            emit(TrackItem::Track(description));
        });
        self.summary
    }
}
