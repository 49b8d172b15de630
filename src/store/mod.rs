//! The trace in memory: columns of slices and flows, interned strings, argument sets, threads and tracks.
//!
//! [`Builder`] takes events in file order. Nothing can be nested yet then, because files are in no order of time; so it keeps
//! 33 bytes per event, and [`Builder::finish`] sorts them and lays them as slices and flows. What comes out is
//! [`Store`]: read-only, in id order, shared by whoever asks.

pub mod args;
pub mod flows;
mod nest;
mod order;
mod replay;
pub mod slices;
pub mod strings;
pub mod tracks;

use std::collections::HashMap;

use crate::damage::{Damage, DamageReport};
use crate::event::{ArgValue, Bind, Event, HeaderField, Kind, Scope};
use crate::nccl::args::CORRELATION;
use crate::nccl::category::CategoryKind;
use args::{Arg, ArgSetId, Args};
use flows::Flows;
use nest::Layer;
use replay::{Extra, Raw, RawKind, Replay};
use slices::Slices;
use strings::{StringId, Strings};
use tracks::{Owner, Tracks};

/// A whole trace, ready to be asked.
#[derive(Debug)]
pub struct Store {
    /// Slices in id order.
    pub slices: Slices,
    /// Flows in id order.
    pub flows: Flows,
    /// All texts.
    pub strings: Strings,
    /// All argument sets.
    pub args: Args,
    /// Processes, threads and tracks.
    pub tracks: Tracks,
    /// The header's fields.
    pub header: Vec<HeaderField>,
    /// The fields of the header's `metadata` object, under the names that Perfetto gives them.
    pub metadata: Vec<HeaderField>,
    /// What was wrong with the trace.
    pub damage: DamageReport,
    /// How many events were read.
    pub events: u64,
    /// The distinct names of slices, and what such slices are.
    pub names: Vec<Name>,
    /// First start and last end of all slices, in ns: half-open, so that a trace of one moment ends 1 ns after it.
    pub bounds: (i64, i64),
    /// The tracks that belong to threads, and those that belong to processes.
    pub thread_tracks: Vec<u32>,
    /// See [`Store::thread_tracks`].
    pub process_tracks: Vec<u32>,
    correlation_key: Option<StringId>,
    /// The distinct categories of slices and what they stand for.
    categories: Vec<(StringId, CategoryKind)>,
    /// The arguments of flows: as many sets as there are pairs of name and category.
    flow_args: Vec<((StringId, StringId), ArgSetId)>,
}

/// A name that slices have.
#[derive(Debug, Clone, Copy)]
pub struct Name {
    /// The name.
    pub id: StringId,
    /// Whether a kernel has it.
    pub of_kernel: bool,
    /// Whether a slice of a CPU has it.
    pub of_cpu: bool,
}

impl Store {
    /// The correlation id in a slice's arguments: the number that a kernel shares with the call that launched it. CUPTI
    /// counts from 1; 0 and below mean that there is none.
    pub fn correlation(&self, slice: usize) -> Option<i64> {
        let set = *self.slices.args.get(slice)?;
        let id = match self.args.get(set, self.correlation_key?)? {
            ArgValue::Int(id) => id,
            ArgValue::Real(id) if id.fract() == 0.0 && id.abs() < 9.0e15 => id as i64,
            // Tools that rewrite traces turn numbers into text.
            ArgValue::Text(id) => self.strings.get(id)?.parse().ok()?,
            ArgValue::Real(_) | ArgValue::Bool(_) => return None,
        };
        (id > 0).then_some(id)
    }

    /// The arguments of a flow: its name and category.
    pub fn flow_args(&self, flow: usize) -> ArgSetId {
        let label = self.flows.label.get(flow).copied().unwrap_or_default();
        self.flow_args.iter().find(|(known, _)| *known == label).map_or(ArgSetId::NONE, |(_, set)| *set)
    }

    /// What sort of work a slice's category stands for.
    pub fn category_kind(&self, slice: usize) -> CategoryKind {
        let category = self.slices.category.get(slice).copied().unwrap_or_default();
        kind_of(&self.categories, category)
    }
}

/// Collects events; see the file's header.
#[derive(Debug, Default)]
pub struct Builder {
    raws: Vec<Raw>,
    kinds: Vec<RawKind>,
    strings: Strings,
    args: Args,
    tracks: Tracks,
    damage: DamageReport,
    order: order::Watch,
    binds: HashMap<u32, Bind>,
    thread_times: HashMap<u32, (Option<i64>, Option<i64>)>,
}

impl Builder {
    /// Whether another event would make ids overflow.
    pub fn is_full(&self) -> bool {
        // A safe distance below 2^32: one event may bring many argument rows and strings.
        const LIMIT: usize = u32::MAX as usize - (1 << 26);
        self.raws.len() > LIMIT || self.args.rows().len() > LIMIT || self.strings.len() > LIMIT
    }

    /// Takes an event; `offset` is its byte in the text.
    pub fn add(&mut self, event: Event<'_>, offset: u64) {
        let utid = self.tracks.thread(&event.pid, &event.tid, &mut self.strings);
        self.order.see(event.ts, matches!(event.kind, Kind::Complete { .. }));
        if event.ts < 0 {
            return self.damage.count(Damage::NegativeTimestamp, Some(offset));
        }
        let name = event.name.as_deref().map_or(StringId::NULL, |name| self.strings.intern(name));
        let category = event.category.as_deref().map_or(StringId::NULL, |category| self.strings.intern(category));
        let (kind, value, track) = match event.kind {
            Kind::Complete { dur } if dur < 0 => return self.damage.count(Damage::NegativeDuration, Some(offset)),
            Kind::Complete { dur } if event.ts.checked_add(dur).is_none() => {
                return self.damage.count(Damage::InvalidDuration, Some(offset));
            }
            Kind::Complete { dur } => (RawKind::Complete, dur, self.tracks.thread_track(utid)),
            Kind::Begin => (RawKind::Begin, 0, self.tracks.thread_track(utid)),
            Kind::End => (RawKind::End, 0, self.tracks.thread_track(utid)),
            Kind::Instant(scope) => (RawKind::Instant, 0, self.tracks.instant_track(scope, utid)),
            Kind::AsyncBegin(ref id) | Kind::AsyncEnd(ref id) | Kind::AsyncInstant(ref id) => {
                let category = event.category.as_deref().unwrap_or_default();
                let track = self.tracks.async_track(id, category, utid, name);
                let kind = match event.kind {
                    Kind::AsyncBegin(_) => RawKind::Begin,
                    Kind::AsyncEnd(_) => RawKind::End,
                    _ => RawKind::Instant,
                };
                (kind, 0, track)
            }
            Kind::FlowStart(id) => self.flow(RawKind::FlowStart, id, utid),
            Kind::FlowStep(id) => self.flow(RawKind::FlowStep, id, utid),
            Kind::FlowEnd { id, enclosing: true } => self.flow(RawKind::FlowEnd, id, utid),
            Kind::FlowEnd { id, enclosing: false } => self.flow(RawKind::FlowEndAtNext, id, utid),
            _ => return self.metadata(&event, utid),
        };
        let nameless = matches!(
            event.kind,
            Kind::Complete { .. } | Kind::Begin | Kind::AsyncBegin(_) | Kind::Instant(Scope::Thread)
        );
        let name = if nameless && name == StringId::NULL { self.strings.intern("[No name]") } else { name };
        let row = self.raws.len() as u32;
        if let Some(bind) = event.bind {
            self.binds.insert(row, bind);
        }
        if event.thread_time != (None, None) {
            self.thread_times.insert(row, event.thread_time);
        }
        let has_args = kind.is_slice() || kind == RawKind::End;
        let args = if has_args { self.args.add(event.args, &mut self.strings) } else { ArgSetId::NONE };
        self.raws.push(Raw { ts: event.ts, value, track, name, category, args });
        self.kinds.push(kind);
    }

    fn flow(&mut self, kind: RawKind, id: Option<u64>, utid: u32) -> (RawKind, i64, u32) {
        let track = self.tracks.thread_track(utid);
        match id {
            Some(id) => (kind, id as i64, track),
            None => (RawKind::FlowInvalid, 0, track),
        }
    }

    fn metadata(&mut self, event: &Event<'_>, utid: u32) {
        match &event.kind {
            Kind::ProcessName(name) => {
                let name = self.strings.intern(name);
                self.tracks.name_process(utid, name, event.ts);
            }
            Kind::ThreadName(name) => {
                let name = self.strings.intern(name);
                self.tracks.name_thread(utid, name, event.ts);
            }
            Kind::ProcessSortIndex(index) => {
                let args = self.hint("process_sort_index_hint", *index);
                let upid = self.tracks.threads[utid as usize].upid;
                self.tracks.processes[upid as usize].args = args;
            }
            Kind::ThreadSortIndex(index) => {
                self.tracks.threads[utid as usize].args = self.hint("thread_sort_index_hint", *index);
            }
            _ => self.damage.count(Damage::PhaseNotShown, None),
        }
    }

    fn hint(&mut self, key: &str, value: i64) -> ArgSetId {
        let key = self.strings.intern(key);
        self.args.add_set(&mut vec![Arg { key, flat_key: key, value: ArgValue::Int(value) }])
    }

    /// Sorts the events, nests the slices and binds the flows. `header`, `events` and `damage` are what the reader found.
    pub fn finish(mut self, header: Vec<HeaderField>, events: u64, mut damage: DamageReport) -> Store {
        damage.add(&self.damage);
        let sorted = self.order.sort(&self.raws, &self.kinds);
        let capacity = self.kinds.iter().filter(|kind| kind.is_slice()).count();
        let mut replay = Replay::new(self.tracks, self.args, damage, capacity);
        for i in sorted {
            let extra = Extra { bind: self.binds.get(&i).copied(), thread_time: self.thread_times.get(&i).copied() };
            replay.event(self.kinds[i as usize], self.raws[i as usize], extra);
        }
        let Replay { layer: Layer { slices, tracks, .. }, binder, mut args, damage } = replay;
        let flows = binder.flows;
        let categories: Vec<(StringId, CategoryKind)> = distinct(&slices.category)
            .into_iter()
            .map(|id| (id, self.strings.get(id).map_or(CategoryKind::Cpu, CategoryKind::of)))
            .collect();
        let flow_args = flow_args(&flows, &mut args, &mut self.strings);
        let tracks_of = |wanted: fn(Owner) -> bool| -> Vec<u32> {
            (0..tracks.tracks.len() as u32).filter(|track| wanted(tracks.tracks[*track as usize].owner)).collect()
        };
        Store {
            names: names(&slices, &categories),
            bounds: bounds(&slices),
            thread_tracks: tracks_of(|owner| matches!(owner, Owner::Thread(_) | Owner::ThreadOverlap(_))),
            process_tracks: tracks_of(|owner| matches!(owner, Owner::Process(_) | Owner::AsyncProcess(_))),
            correlation_key: self.strings.find(CORRELATION),
            slices,
            flows,
            strings: self.strings,
            args,
            tracks,
            metadata: header.iter().filter_map(metadata_field).collect(),
            header,
            damage,
            events,
            categories,
            flow_args,
        }
    }
}

fn metadata_field(field: &HeaderField) -> Option<HeaderField> {
    let key = field.key.strip_prefix("metadata.")?;
    Some(HeaderField { key: format!("json_metadata.{key}"), value: field.value.clone() })
}

fn kind_of(categories: &[(StringId, CategoryKind)], category: StringId) -> CategoryKind {
    // A trace has a dozen categories: a short list is faster than hashing.
    categories.iter().find(|(id, _)| *id == category).map_or(CategoryKind::Cpu, |(_, kind)| *kind)
}

fn names(slices: &Slices, categories: &[(StringId, CategoryKind)]) -> Vec<Name> {
    let ids = distinct(&slices.name);
    let mut places = vec![0u32; ids.last().map_or(0, |id| id.0 as usize + 1)];
    for (place, id) in (0..).zip(&ids) {
        places[id.0 as usize] = place;
    }
    let mut names: Vec<Name> = ids.into_iter().map(|id| Name { id, of_kernel: false, of_cpu: false }).collect();
    for (name, category) in slices.name.iter().zip(&slices.category).filter(|(name, _)| **name != StringId::NULL) {
        let name = &mut names[places[name.0 as usize] as usize];
        match kind_of(categories, *category) {
            CategoryKind::Kernel => name.of_kernel = true,
            CategoryKind::Cpu | CategoryKind::Runtime => name.of_cpu = true,
            CategoryKind::Gpu => {}
        }
    }
    names
}

fn bounds(slices: &Slices) -> (i64, i64) {
    let start = slices.ts.first().copied().unwrap_or(0);
    let end = slices.ts.iter().zip(&slices.dur).map(|(ts, dur)| ts + dur.max(&0)).max().unwrap_or(0);
    (start, if slices.is_empty() || end > start { end } else { start + 1 })
}

/// The ids that occur in a column, in order, NULL left out.
fn distinct(column: &[StringId]) -> Vec<StringId> {
    let mut seen = vec![false; column.iter().map(|id| id.0 as usize + 1).max().unwrap_or(0)];
    for id in column {
        seen[id.0 as usize] = true;
    }
    (1..seen.len()).filter(|id| seen[*id]).map(|id| StringId(id as u32)).collect()
}

fn flow_args(flows: &Flows, args: &mut Args, strings: &mut Strings) -> Vec<((StringId, StringId), ArgSetId)> {
    let mut labels = flows.label.clone();
    labels.sort_unstable();
    labels.dedup();
    let keys = ["name", "cat"].map(|key| strings.intern(key));
    labels.retain(|label| *label != (StringId::NULL, StringId::NULL));
    labels
        .into_iter()
        .map(|label| {
            let arg = |key, value| Arg { key, flat_key: key, value: ArgValue::Text(value) };
            (label, args.add_set(&mut vec![arg(keys[0], label.0), arg(keys[1], label.1)]))
        })
        .collect()
}
