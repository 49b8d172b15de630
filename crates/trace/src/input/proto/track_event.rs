//! From one track event to an [`Event`] and the flows of its slice.
//!
//! Chrome, and tools that convert JSON to packets, write the phase of a Chrome trace event and its fields into a `LegacyEvent`. The phases
//! mean the same as in JSON, with three differences: ids are numbers; a slice that partly overlaps another on its track is dropped, not
//! put onto a lane; and where Perfetto requires that a slice's track belongs to a thread, here it may be any.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::BuildHasher;

use super::annotations::Annotations;
use super::messages::{
    Content, DebugAnnotation, FLOW_IN, FLOW_OUT, LegacyEvent, SCOPE_GLOBAL, SCOPE_PROCESS, TrackEvent,
};
use super::state::{Lookup, Names, Table};
use super::wire::Malformed;
use crate::damage::Damage;
use crate::event::{ArgsWanted, Bind, Event, EventIds, Id, Kind, Scope, SliceFlow, Text};
use crate::names::category::CategoryKind;
use crate::time::Ns;

/// How many bytes the categories of an event may take together, which may be interned; and all categories that consist of several.
const MAX_CATEGORY: usize = 64 << 10;
const MAX_JOINED: usize = 256 << 20;

/// How many flows an event may have: one may be a byte of a packet, and takes a hundred in the tables.
const MAX_FLOWS: usize = 1 << 17;

impl TrackEvent<'_> {
    /// Its kind; `None` if no table shows such events.
    fn kind(&self) -> Option<Kind<'static>> {
        match self.kind {
            _ if self.legacy.phase != 0 => self.legacy.kind(),
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
    fn all_flows(&self, of_closed: bool) -> Vec<SliceFlow> {
        let flow = |terminates| move |id| SliceFlow { id, terminates, of_closed };
        let mut found: Vec<SliceFlow> = self.flows().flatten().flatten().map(flow(false)).take(MAX_FLOWS + 1).collect();
        if found.is_empty() {
            found.extend(self.old_flows().flatten().flatten().map(flow(false)).take(MAX_FLOWS + 1));
        }
        let (before, room) = (found.len(), MAX_FLOWS + 1 - found.len());
        found.extend(self.last_flows().flatten().flatten().map(flow(true)).take(room));
        if found.len() == before {
            found.extend(self.old_last_flows().flatten().flatten().map(flow(true)).take(room));
        }
        found
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Operation<'a> {
    pub(super) id: u64,
    pub(super) is_local: bool,
    /// Distinguishes it from others with this id, besides the category, or the name if `goes_by_name`.
    pub(super) scope: Option<&'a [u8]>,
    pub(super) goes_by_name: bool,
}

/// The track of an event that is not on its own track.
#[derive(Debug, Clone, Copy)]
pub(super) enum Elsewhere<'a> {
    Operation(Operation<'a>),
    InstantsOfProcess,
    InstantsOfAll,
}

impl<'a> LegacyEvent<'a> {
    /// The kind of its phase; `None` if no table shows such events.
    pub(super) fn kind(&self) -> Option<Kind<'static>> {
        Some(match self.phase {
            b'X' => Kind::Complete { dur: ns(self.duration_us) },
            b'B' | b'b' | b'S' => Kind::Begin,
            b'E' | b'e' | b'F' => Kind::End,
            b'i' | b'I' | b'R' | b'n' | b'T' | b'p' => Kind::Instant(Scope::Thread),
            b's' => Kind::FlowStart(self.unscoped_id),
            b't' => Kind::FlowStep(self.unscoped_id),
            b'f' => Kind::FlowEnd { id: self.unscoped_id, enclosing: self.binds_to_enclosing },
            // It may name a thread or process.
            b'M' => Kind::Metadata,
            _ => return None,
        })
    }

    /// The track of its phase. Malformed if that needs an id and there is none.
    pub(super) fn elsewhere(&self) -> Result<Option<Elsewhere<'a>>, Malformed> {
        match self.phase {
            b'b' | b'e' | b'n' | b'S' | b'T' | b'p' | b'F' => {
                let id = self.unscoped_id.or(self.global_id);
                let is_local = id.is_none();
                let id = id.or(self.local_id).ok_or(Malformed)?;
                let goes_by_name = self.phase.is_ascii_uppercase() || self.phase == b'p';
                Ok(Some(Elsewhere::Operation(Operation { id, is_local, scope: self.scope, goes_by_name })))
            }
            b'i' | b'I' if self.instant_scope == SCOPE_GLOBAL => Ok(Some(Elsewhere::InstantsOfAll)),
            b'i' | b'I' if self.instant_scope == SCOPE_PROCESS => Ok(Some(Elsewhere::InstantsOfProcess)),
            _ => Ok(None),
        }
    }

    /// Whether it is on a track of its process.
    pub(super) fn is_of_process(&self) -> bool {
        match self.elsewhere() {
            Ok(Some(Elsewhere::Operation(operation))) => operation.is_local,
            Ok(Some(Elsewhere::InstantsOfProcess)) => true,
            _ => false,
        }
    }

    /// The CPU time of its thread that passed; known for phases that are one event.
    pub(super) fn thread_time(&self) -> Option<Ns> {
        match self.phase {
            b'X' => Some(ns(self.thread_duration_us)),
            b'i' | b'I' | b'R' => Some(Ns::ZERO),
            _ => None,
        }
    }

    pub(super) fn bind(&self) -> Option<Bind> {
        let (flow_in, flow_out) = (self.direction & FLOW_IN != 0, self.direction & FLOW_OUT != 0);
        Some(Bind { id: Some(self.bind_id?), flow_in, flow_out })
    }
}

/// A time in microseconds; saturates.
fn ns(us: i64) -> Ns {
    Ns(us.saturating_mul(1000))
}

/// Turns one track event after the other into events, with the same buffers.
#[derive(Debug, Default)]
pub(super) struct Parser {
    annotations: Annotations,
    category: Vec<u8>,
    /// The hashes of the categories that consist of several, and how many bytes they take.
    joined: HashSet<u64, foldhash::fast::FixedState>,
    joined_bytes: usize,
    /// The last category and its kind: consecutive events mostly share it.
    last_kind: (Vec<u8>, Option<CategoryKind>),
    /// Whether an event had a category of a profiler's GPU work, calls or Python functions.
    pub(super) has_seen_profiler: bool,
}

impl Parser {
    pub(super) fn new(wanted: ArgsWanted) -> Self {
        Parser { annotations: Annotations::new(wanted), ..Parser::default() }
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
        let Some(kind) = event.kind() else {
            damage(Damage::PhaseNotShown);
            return Ok(());
        };
        let names = Lookup::new(names);
        let name = match event.name_iid() {
            0 => event.name,
            iid => names.text(Table::EventNames, iid),
        };
        self.category.clear();
        let mut is_full = event.has_categories.0 && !self.category(event, &names);
        self.annotations.clear();
        self.annotations.fields(event, &names)?;
        let mut ids = EventIds::NONE;
        if event.has_annotations.0 {
            let kind = self.category_kind();
            ids = self.annotations.read(event, kind, name.unwrap_or_default(), &names)?;
        }
        is_full |= self.annotations.is_full;
        (0..names.unknown.get()).for_each(|_| damage(Damage::NameUnknown));
        let flows = if event.has_flows.0 { event.all_flows(matches!(kind, Kind::End)) } else { Vec::new() };
        if is_full || flows.len() > MAX_FLOWS {
            damage(Damage::PacketTooLong);
        }
        let kind = match (kind, name) {
            (Kind::Metadata, Some(b"thread_name")) => Kind::ThreadName(first_text(event)),
            (Kind::Metadata, Some(b"process_name")) => Kind::ProcessName(first_text(event)),
            (kind, _) => kind,
        };
        if let Kind::ThreadName(name) | Kind::ProcessName(name) = &kind
            && name.is_empty()
        {
            return Ok(());
        }
        let text = |raw| Text { raw, decode: String::from_utf8_lossy };
        let mut parsed = Event {
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
        };
        take(&parsed);
        (parsed.name, parsed.category, parsed.ids) = (None, None, EventIds::NONE);
        (parsed.thread_time, parsed.bind) = ((None, None), None);
        for flow in flows.into_iter().take(MAX_FLOWS) {
            parsed.kind = Kind::SliceFlow(flow);
            take(&parsed);
        }
        Ok(())
    }

    /// Joins categories by commas. Undefined ones are dropped if there are several, as in Perfetto. Returns whether there was room for all.
    fn category(&mut self, event: &TrackEvent<'_>, names: &Lookup<'_>) -> bool {
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
        for iid in event.category_iids().flatten().flatten() {
            count += 1;
            match names.text(Table::Categories, iid) {
                Some(category) => has_room &= push(category),
                None => unknown = Some(iid),
            }
            if !has_room {
                return false;
            }
        }
        let by_number = count;
        for category in event.categories().flatten() {
            count += 1;
            has_room &= push(category);
        }
        if let (1, Some(iid)) = (count, unknown) {
            has_room &= push(format!("unknown({iid})").as_bytes());
        }
        has_room && (by_number < 2 || self.may_join())
    }

    /// Drops a category that consists of several interned ones if there is no room.
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
        if let (last, Some(kind)) = &self.last_kind
            && *last == self.category
        {
            return *kind;
        }
        let kind = CategoryKind::from_name(&String::from_utf8_lossy(&self.category));
        self.has_seen_profiler |= kind != CategoryKind::Cpu;
        self.last_kind.0.clone_from(&self.category);
        self.last_kind.1 = Some(kind);
        kind
    }
}

/// The text of an event's first annotation: the name of a thread or process.
fn first_text<'a>(event: &TrackEvent<'a>) -> Cow<'a, str> {
    let first = event.annotations().next().and_then(|annotation| DebugAnnotation::read(annotation.ok()?).ok()?.value);
    String::from_utf8_lossy(if let Some(Content::Text(text)) = first { text } else { &[] })
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
