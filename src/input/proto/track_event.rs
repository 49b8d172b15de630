//! One track event to an [`Event`] and the arrows of its slice.

use std::borrow::Cow;

use super::annotations::{Annotations, Owner};
use super::state::{Sequence, Table};
use super::wire::{Field, Fields, Malformed, Value, fixed64, varint};
use crate::damage::Damage;
use crate::event::{ArgsWanted, Event, Id, Ids, Kind, Scope, SliceFlow, Text};
use crate::nccl::category::CategoryKind;

/// The fields of `TrackEvent`.
const CATEGORY_IIDS: u32 = 3;
const ANNOTATION: u32 = 4;
const TYPE: u32 = 9;
const NAME_IID: u32 = 10;
const TRACK: u32 = 11;
const ABSOLUTE_US: u32 = 16;
const CATEGORY: u32 = 22;
const NAME: u32 = 23;
const OLD_FLOWS: u32 = 36;
const OLD_LAST_FLOWS: u32 = 42;
const FLOWS: u32 = 47;
const LAST_FLOWS: u32 = 48;

/// The fields of an event that are looked at once.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TrackEvent<'a> {
    pub(super) message: &'a [u8],
    /// The track that it names.
    pub(super) track: Option<u64>,
    /// A time of its own, in microseconds of the monotonic clock, as the first of these traces had it.
    pub(super) absolute_us: Option<u64>,
    kind: u64,
    name_iid: u64,
    name: Option<&'a [u8]>,
    has_categories: bool,
    has_annotations: bool,
    has_flows: bool,
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
                (ABSOLUTE_US, Value::Varint(time)) => event.absolute_us = Some(time),
                (CATEGORY_IIDS | CATEGORY, _) => event.has_categories = true,
                (ANNOTATION, _) => event.has_annotations = true,
                (FLOWS | LAST_FLOWS | OLD_FLOWS | OLD_LAST_FLOWS, _) => event.has_flows = true,
                _ => {}
            }
        }
        Ok(event)
    }

    /// What it is; `None` if no table shows such events.
    fn kind(&self) -> Option<Kind<'static>> {
        match self.kind {
            1 => Some(Kind::Begin),
            2 => Some(Kind::End),
            3 => Some(Kind::Instant(Scope::Thread)),
            _ => None,
        }
    }

    /// The arrows of its slice, those that end there last.
    fn flows(&self, of_closed: bool) -> Vec<SliceFlow> {
        let mut found = Vec::new();
        for (new, old, terminates) in [(FLOWS, OLD_FLOWS, false), (LAST_FLOWS, OLD_LAST_FLOWS, true)] {
            let mut ids = Fields::numbers(self.message, new, fixed64);
            if ids.is_empty() {
                ids = Fields::numbers(self.message, old, varint);
            }
            found.extend(ids.into_iter().map(|id| SliceFlow { id, terminates, of_closed }));
        }
        found
    }
}

/// Turns track events into events. Keeps the buffers that they share.
#[derive(Debug)]
pub(super) struct Parser {
    annotations: Annotations,
    category: Vec<u8>,
    /// The category that was met last, and its kind: events come in runs.
    last_kind: (Vec<u8>, CategoryKind),
}

impl Parser {
    pub(super) fn new(wanted: ArgsWanted) -> Self {
        let last_kind = (Vec::new(), CategoryKind::Runtime);
        Parser { annotations: Annotations::new(wanted), category: Vec::new(), last_kind }
    }

    /// Hands the event to `take`, and after it the arrows of its slice.
    pub(super) fn parse(
        &mut self,
        event: &TrackEvent<'_>,
        ts: i64,
        sequence: &Sequence,
        mut damage: impl FnMut(Damage),
        mut take: impl FnMut(&Event<'_>),
    ) -> Result<(), Malformed> {
        let Some(kind) = event.kind() else {
            damage(Damage::PhaseNotShown);
            return Ok(());
        };
        let of_closed = matches!(kind, Kind::End);
        let name = match event.name_iid {
            0 => event.name,
            iid => {
                let name = sequence.text(Table::EventNames, iid);
                if name.is_none() {
                    damage(Damage::NameUnknown);
                }
                name
            }
        };
        self.category.clear();
        if event.has_categories {
            self.category(event.message, sequence, &mut damage)?;
        }
        self.annotations.clear();
        let mut ids = Ids::default();
        if event.has_annotations {
            let owner = Owner { kind: self.category_kind(), name: name.unwrap_or_default() };
            ids = self.annotations.read(event.message, ANNOTATION, owner, sequence, damage)?;
        }
        let text = |raw| Text { raw, decode: decoded };
        let mut told = Event {
            kind,
            ts,
            pid: Id::Absent,
            tid: Id::Absent,
            name: name.filter(|name| !name.is_empty()).map(text),
            category: Some(&*self.category).filter(|category| !category.is_empty()).map(text),
            ids,
            thread_time: (None, None),
            bind: None,
            args: &self.annotations.list,
        };
        take(&told);
        if event.has_flows {
            (told.name, told.category, told.ids) = (None, None, Ids::default());
            for flow in event.flows(of_closed) {
                told.kind = Kind::SliceFlow(flow);
                take(&told);
            }
        }
        Ok(())
    }

    /// Several categories are one with commas.
    fn category(
        &mut self,
        event: &[u8],
        sequence: &Sequence,
        damage: &mut impl FnMut(Damage),
    ) -> Result<(), Malformed> {
        let mut push = |category: &[u8]| {
            if !self.category.is_empty() {
                self.category.push(b',');
            }
            self.category.extend_from_slice(category);
        };
        for iid in Fields::numbers(event, CATEGORY_IIDS, varint) {
            match sequence.text(Table::Categories, iid) {
                Some(category) => push(category),
                None => {
                    damage(Damage::NameUnknown);
                    push(format!("unknown({iid})").as_bytes());
                }
            }
        }
        for field in Fields::new(event) {
            let Field { number, value } = field?;
            if let (CATEGORY, Value::Bytes(category)) = (number, value) {
                push(category);
            }
        }
        Ok(())
    }

    /// What the category stands for. Without one an event may be a call.
    fn category_kind(&mut self) -> CategoryKind {
        if self.last_kind.0 != self.category {
            self.last_kind.1 = match &*self.category {
                [] => CategoryKind::Runtime,
                category => CategoryKind::of(&String::from_utf8_lossy(category)),
            };
            self.last_kind.0.clone_from(&self.category);
        }
        self.last_kind.1
    }
}

/// What is no UTF-8 is shown as such.
fn decoded(raw: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(raw)
}
