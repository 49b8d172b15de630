//! From one track event to an [`Event`] and the flows of its slice.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::BuildHasher;

use super::annotations::Annotations;
use super::legacy::{Legacy, ns};
use super::state::{Lookup, Names, Table};
use super::ties::Owner;
use super::typed::Typed;
use super::wire::{Field, Fields, Malformed, Value, fixed64, varint};
use crate::damage::Damage;
use crate::event::{ArgsWanted, Event, EventIds, Id, Kind, Scope, SliceFlow, Text};
use crate::names::category::CategoryKind;
use crate::time::Ns;

/// The fields of `TrackEvent`. Chrome wrote the event's time into it until 2020; now such events are counted as without a time.
const CATEGORY_IIDS: u32 = 3;
const ANNOTATION: u32 = 4;
const LEGACY: u32 = 6;
const TYPE: u32 = 9;
const NAME_IID: u32 = 10;
const TRACK: u32 = 11;
const THREAD_ABSOLUTE_US: u32 = 17;
const CATEGORY: u32 = 22;
const NAME: u32 = 23;
const OLD_FLOWS: u32 = 36;
const OLD_LAST_FLOWS: u32 = 42;
const FLOWS: u32 = 47;
const LAST_FLOWS: u32 = 48;

/// The field of `DebugAnnotation` with the name of a thread or process.
const ANNOTATION_TEXT: u32 = 6;

/// How many bytes the categories of an event may take together. They may be interned.
const MAX_CATEGORY: usize = 64 << 10;

/// How many bytes all categories may take that consist of several.
const MAX_JOINED: usize = 256 << 20;

/// How many flows an event may have: one may be a byte of a packet, and takes a hundred in the tables.
const MAX_FLOWS: usize = 1 << 17;

/// The parsed fields of an event.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TrackEvent<'a> {
    pub(super) message: &'a [u8],
    /// The uuid of its track.
    pub(super) track: Option<u64>,
    /// The CPU time of its thread, in microseconds.
    thread_us: Option<i64>,
    pub(super) legacy: Legacy<'a>,
    kind: u64,
    name_iid: u64,
    name: Option<&'a [u8]>,
    has_categories: bool,
    has_annotations: bool,
    has_flows: bool,
    typed: Typed<'a>,
}

impl<'a> TrackEvent<'a> {
    pub(super) fn new(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut event = TrackEvent { message, ..TrackEvent::default() };
        for field in Fields::new(message) {
            let Field { number, value } = field?;
            match (number, value) {
                (TYPE, Value::Varint(kind)) => event.kind = kind,
                (NAME_IID, Value::Varint(iid)) => event.name_iid = iid,
                (NAME, Value::Bytes(name)) => event.name = Some(name),
                (TRACK, Value::Varint(track)) => event.track = Some(track),
                (THREAD_ABSOLUTE_US, Value::Varint(us)) => event.thread_us = Some(us as i64),
                (LEGACY, Value::Bytes(legacy)) => event.legacy = Legacy::new(legacy)?,
                (CATEGORY_IIDS | CATEGORY, _) => event.has_categories = true,
                (ANNOTATION, _) => event.has_annotations = true,
                (FLOWS | LAST_FLOWS | OLD_FLOWS | OLD_LAST_FLOWS, _) => event.has_flows = true,
                _ => event.typed.see(number, value),
            }
        }
        Ok(event)
    }

    /// Whether it has a type, apart from a legacy phase.
    pub(super) fn has_type(&self) -> bool {
        self.kind != 0
    }

    /// Its kind; `None` if no table shows such events.
    fn kind(&self) -> Option<Kind<'static>> {
        match self.kind {
            _ if self.legacy.has_phase() => self.legacy.kind(),
            1 => Some(Kind::Begin),
            2 => Some(Kind::End),
            3 => Some(Kind::Instant(Scope::Thread)),
            _ => None,
        }
    }

    /// The number of its interned name; 0 if it has none.
    fn name_iid(&self) -> u64 {
        if self.name_iid == 0 { self.legacy.name_iid } else { self.name_iid }
    }

    /// The flows of its slice, those that end there last; at most one more than [`MAX_FLOWS`].
    fn flows(&self, of_closed: bool) -> Vec<SliceFlow> {
        let mut found = Vec::new();
        for (new, old, terminates) in [(FLOWS, OLD_FLOWS, false), (LAST_FLOWS, OLD_LAST_FLOWS, true)] {
            let (before, room) = (found.len(), MAX_FLOWS + 1 - found.len());
            let flow = |id| SliceFlow { id, terminates, of_closed };
            found.extend(Fields::numbers(self.message, new, fixed64).take(room).map(flow));
            if found.len() == before {
                found.extend(Fields::numbers(self.message, old, varint).take(room).map(flow));
            }
        }
        found
    }
}

/// Turns one track event after the other into events, with the same buffers.
#[derive(Debug)]
pub(super) struct Parser {
    annotations: Annotations,
    category: Vec<u8>,
    /// The hashes of the categories that consist of several, and how many bytes they take.
    joined: HashSet<u64, foldhash::fast::FixedState>,
    joined_bytes: usize,
    /// The last category and its kind: consecutive events mostly share it.
    last_kind: (Vec<u8>, CategoryKind),
    /// Whether an event had a category of a profiler's GPU work, calls or Python functions.
    pub(super) has_seen_profiler: bool,
}

impl Parser {
    pub(super) fn new(wanted: ArgsWanted) -> Self {
        let last_kind = (Vec::new(), CategoryKind::Runtime);
        let annotations = Annotations::new(wanted);
        Parser {
            annotations,
            category: Vec::new(),
            joined: HashSet::default(),
            joined_bytes: 0,
            last_kind,
            has_seen_profiler: false,
        }
    }

    /// Passes the event to `take`, and after it the flows of its slice.
    pub(super) fn parse(
        &mut self,
        event: &TrackEvent<'_>,
        ts: Ns,
        names: &Names,
        mut damage: impl FnMut(Damage),
        mut take: impl FnMut(&Event<'_>),
    ) -> Result<(), Malformed> {
        let Some(kind) = event.kind().or_else(|| event.legacy.is_metadata().then_some(Kind::Metadata)) else {
            damage(Damage::PhaseNotShown);
            return Ok(());
        };
        let names = Lookup::new(names);
        let name = match event.name_iid() {
            0 => event.name,
            iid => names.text(Table::EventNames, iid),
        };
        self.category.clear();
        let mut is_full = event.has_categories && !self.category(event.message, &names)?;
        self.annotations.clear();
        if self.annotations.wants_all() {
            event.typed.add(&names, &mut self.annotations)?;
        }
        let mut ids = EventIds::NONE;
        if event.has_annotations {
            let owner = Owner { kind: self.category_kind(), name: name.unwrap_or_default() };
            ids = self.annotations.read(event.message, ANNOTATION, owner, &names)?;
        }
        is_full |= self.annotations.is_full();
        (0..names.unknown()).for_each(|_| damage(Damage::NameUnknown));
        let flows = if event.has_flows { event.flows(matches!(kind, Kind::End)) } else { Vec::new() };
        if is_full || flows.len() > MAX_FLOWS {
            damage(Damage::PacketTooLong);
        }
        let kind = match (kind, name) {
            (Kind::Metadata, Some(b"thread_name")) => Kind::ThreadName(first_text(event.message)),
            (Kind::Metadata, Some(b"process_name")) => Kind::ProcessName(first_text(event.message)),
            (kind, _) => kind,
        };
        if let Kind::ThreadName(name) | Kind::ProcessName(name) = &kind
            && name.is_empty()
        {
            return Ok(());
        }
        let mut parsed = self.event(event, kind, (ts, ids), name);
        take(&parsed);
        (parsed.name, parsed.category, parsed.ids) = (None, None, EventIds::NONE);
        (parsed.thread_time, parsed.bind) = ((None, None), None);
        for flow in flows.into_iter().take(MAX_FLOWS) {
            parsed.kind = Kind::SliceFlow(flow);
            take(&parsed);
        }
        Ok(())
    }

    fn event<'a>(
        &'a self,
        event: &TrackEvent<'a>,
        kind: Kind<'a>,
        (ts, ids): (Ns, EventIds),
        name: Option<&'a [u8]>,
    ) -> Event<'a> {
        let text = |raw| Text { raw, decode: decoded };
        Event {
            ts,
            pid: Id::Absent,
            tid: Id::Absent,
            name: name.filter(|name| !name.is_empty()).map(text),
            category: Some(&*self.category).filter(|category| !category.is_empty()).map(text),
            ids,
            thread_time: (event.thread_us.map(ns), event.thread_us.and(event.legacy.thread_time())),
            // The flow of an end event would belong to the slice that it closes; nothing writes that.
            bind: event.legacy.bind().filter(|_| !matches!(kind, Kind::End)),
            args: &self.annotations.list,
            kind,
        }
    }

    /// Joins several categories by commas. Undefined ones are dropped if there are several, as in Perfetto. Returns whether there was
    /// room for all.
    fn category(&mut self, event: &[u8], names: &Lookup<'_>) -> Result<bool, Malformed> {
        let mut push = |category: &[u8]| {
            let has_room = self.category.len() + category.len() < MAX_CATEGORY;
            if has_room {
                if !self.category.is_empty() {
                    self.category.push(b',');
                }
                self.category.extend_from_slice(category);
            }
            has_room
        };
        let (mut count, mut unknown, mut has_room) = (0, None, true);
        for iid in Fields::numbers(event, CATEGORY_IIDS, varint) {
            count += 1;
            match names.text(Table::Categories, iid) {
                Some(category) => has_room &= push(category),
                None => unknown = Some(iid),
            }
            if !has_room {
                return Ok(false);
            }
        }
        let by_number = count;
        for field in Fields::new(event) {
            let Field { number, value } = field?;
            if let (CATEGORY, Value::Bytes(category)) = (number, value) {
                count += 1;
                has_room &= push(category);
            }
        }
        if let (1, Some(iid)) = (count, unknown) {
            has_room &= push(format!("unknown({iid})").as_bytes());
        }
        Ok(has_room && (by_number < 2 || self.may_join()))
    }

    /// Whether there is room for a category that consists of several interned ones. If not, it is dropped.
    fn may_join(&mut self) -> bool {
        let hash = self.joined.hasher().hash_one(&self.category);
        if self.joined.contains(&hash) {
            return true;
        }
        let bytes = self.joined_bytes + self.category.len();
        if bytes > MAX_JOINED {
            self.category.clear();
            return false;
        }
        self.joined_bytes = bytes;
        self.joined.insert(hash)
    }

    /// The kind of the category. An event without one may be a runtime call.
    fn category_kind(&mut self) -> CategoryKind {
        if self.category.is_empty() {
            return CategoryKind::Runtime;
        }
        if self.last_kind.0 != self.category {
            self.last_kind.1 = CategoryKind::from_name(&String::from_utf8_lossy(&self.category));
            self.has_seen_profiler |= self.last_kind.1 != CategoryKind::Cpu;
            self.last_kind.0.clone_from(&self.category);
        }
        self.last_kind.1
    }
}

/// Invalid UTF-8 is shown as U+FFFD.
fn decoded(raw: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(raw)
}

/// The text of an event's first annotation: the name of a thread or process.
fn first_text(event: &[u8]) -> Cow<'_, str> {
    let field = |message, wanted| Fields::new(message).flatten().find(|field| field.number == wanted)?.value.bytes();
    let text = field(event, ANNOTATION).and_then(|annotation| field(annotation, ANNOTATION_TEXT));
    decoded(text.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_categories_have_a_limit() {
        let mut parser = Parser::new(ArgsWanted::All);
        parser.joined_bytes = MAX_JOINED - 3;
        let mut joins = |category: &[u8]| {
            parser.category = category.to_vec();
            (parser.may_join(), parser.category.clone())
        };
        assert_eq!(joins(b"a,b"), (true, b"a,b".to_vec()));
        assert_eq!(joins(b"a,c"), (false, Vec::new()));
        assert_eq!(joins(b"a,b"), (true, b"a,b".to_vec()), "it is there already");
    }
}
