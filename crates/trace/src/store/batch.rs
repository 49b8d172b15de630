//! Events on their way into the store, as one of several reading threads collects them.
//!
//! Each reading thread has a [`Shard`] that numbers the texts, threads and tracks of its events itself, so that threads do not wait for each
//! other. It passes on the events of a segment of the file as a [`Batch`], which lists everything new to it, in order of occurrence.
//! [`super::Builder`] takes the batches in file order and gives ids to what no earlier batch has listed: the same as with a single thread.

use std::borrow::Cow;
use std::collections::HashMap;

use super::args::{Arg, ArgSetId};
use super::ids::PackedIds;
use super::order::OrderWatch;
use super::raw::{DescribedNames, Extra, IdKey, RawEvent, RawKind, TrackChange, TrackOf};
use super::strings::{StringId, Strings};
use crate::damage::{Damage, DamageReport};
use crate::event::{
    self, ArgList, ArgValue, Collect, Event, Id, Kind, Scope, SliceFlow, Text, TrackDescription, TrackKey,
};
use crate::time::Ns;

/// The events of one segment of the file, in time order; at equal times in file order.
#[derive(Debug, Default)]
pub struct Batch {
    pub(super) shard: usize,
    pub(super) raws: Vec<RawEvent>,
    /// The byte offset of each event in the text, if the load keeps offsets.
    pub(super) offsets: Vec<u64>,
    /// The fields that few events have; [`RawEvent::ids`] holds the index.
    pub(super) extras: Vec<Extra>,
    /// Sets of arguments: set `i` is `args[args_ends[i - 1]..args_ends[i]]`, and its [`ArgSetId`] is `i + 1`.
    pub(super) args: Vec<Arg>,
    pub(super) args_ends: Vec<u32>,
    /// The texts that are new to the shard, concatenated, and the end of each.
    pub(super) texts: String,
    pub(super) text_ends: Vec<usize>,
    pub(super) changes: Vec<TrackChange>,
    pub(super) damage: DamageReport,
    pub(super) watch: OrderWatch,
}

/// Collects the events that one thread reads.
#[derive(Debug)]
pub struct Shard {
    number: usize,
    strings: Strings,
    /// The first text that no batch has listed yet.
    first_unsent: usize,
    tracks: ShardTracks,
    /// The category of the last event: its bytes in the file, and its id.
    last_category: (Vec<u8>, StringId),
    keep_offsets: bool,
    batch: Batch,
}

impl Collect for Shard {
    type Batch = Batch;

    /// Counts the event as damage if its times are invalid.
    #[inline]
    fn add(&mut self, event: &Event<'_>, offset: u64) {
        let batch = &mut self.batch;
        let thread = self.tracks.thread(&event.pid, &event.tid, &mut self.strings, &mut batch.changes);
        batch.watch.observe(event.ts.0, matches!(event.kind, Kind::Complete { .. }));
        if let Some(damage) = bad_time(event) {
            return batch.damage.count(damage, Some(offset));
        }
        let mut name = event.name.map_or(StringId::NULL, |name| self.strings.intern_text(name));
        let category = event.category.map_or(StringId::NULL, |category| self.category(category));
        let Some((kind, value)) = raw_kind(&event.kind) else { return self.metadata(event, thread) };
        let changes = &mut self.batch.changes;
        let track = match &event.kind {
            Kind::Instant(Scope::Process) => {
                self.tracks.other(TrackOf::Instants(Some(thread)), StringId::NULL, changes)
            }
            Kind::Instant(Scope::Global) => self.tracks.other(TrackOf::Instants(None), StringId::NULL, changes),
            Kind::AsyncBegin(id) | Kind::AsyncEnd(id) | Kind::AsyncInstant(id) => {
                let category = event.category.map(|category| category.decoded()).unwrap_or_default();
                // The ids of other operations are unique in the whole trace.
                let its_thread = id.per_process.then_some(thread);
                let of = TrackOf::Operation(its_thread, format!("{category}\0{}", id.id));
                self.tracks.other(of, name, changes)
            }
            _ => self.tracks.of_thread(thread, changes),
        };
        let may_not_be_nameless = matches!(
            event.kind,
            Kind::Complete { .. } | Kind::Begin | Kind::AsyncBegin(_) | Kind::Instant(Scope::Thread)
        );
        if may_not_be_nameless && name == StringId::NULL {
            name = self.strings.intern("[No name]");
        }
        let raw = RawEvent { ts: event.ts.0, value, track, name, category, kind, ..RawEvent::default() };
        self.keep(event, raw, offset);
    }

    /// In time order.
    fn take(&mut self) -> Batch {
        let next = Batch {
            shard: self.number,
            // Batches have similar sizes, so the next one will hardly be larger.
            raws: Vec::with_capacity(self.batch.raws.len() + self.batch.raws.len() / 16),
            ..Batch::default()
        };
        let mut batch = std::mem::replace(&mut self.batch, next);
        for id in self.first_unsent..self.strings.len() {
            batch.texts.push_str(self.strings.get(StringId(id as u32)).unwrap_or_default());
            batch.text_ends.push(batch.texts.len());
        }
        self.first_unsent = self.strings.len();
        // Most files are nearly in time order.
        if !batch.raws.is_sorted_by_key(|raw| raw.ts) {
            if self.keep_offsets {
                let mut order: Vec<usize> = (0..batch.raws.len()).collect();
                order.sort_by_key(|at| batch.raws[*at].ts);
                batch.offsets = order.into_iter().map(|at| batch.offsets[at]).collect();
            }
            batch.raws.sort_by_key(|raw| raw.ts);
        }
        batch
    }
}

impl event::Shard for Shard {
    fn new(number: usize, keep_offsets: bool) -> Self {
        let strings = Strings::default();
        Shard {
            number,
            first_unsent: strings.len(),
            strings,
            tracks: ShardTracks::default(),
            last_category: (Vec::new(), StringId::NULL),
            keep_offsets,
            batch: Batch { shard: number, ..Batch::default() },
        }
    }

    /// Slices there may lack a name.
    fn add_on(&mut self, key: TrackKey, event: &Event<'_>, offset: u64) {
        if let Some(damage) = bad_time(event) {
            // The event is counted, not its flows as well.
            if !matches!(event.kind, Kind::SliceFlow(_)) {
                self.batch.damage.count(damage, Some(offset));
            }
            return;
        }
        let Some((kind, value)) = raw_kind(&event.kind) else {
            return self.batch.damage.count(Damage::PhaseNotShown, None);
        };
        let name = event.name.map_or(StringId::NULL, |name| self.strings.intern_text(name));
        let category = event.category.map_or(StringId::NULL, |category| self.category(category));
        let track = self.tracks.other(TrackOf::Described(key), name, &mut self.batch.changes);
        let raw = RawEvent { ts: event.ts.0, value, track, name, category, kind, ..RawEvent::default() };
        self.keep(event, raw, offset);
    }

    fn describe(&mut self, description: &TrackDescription<'_>) {
        let track = self.tracks.others.get(&TrackOf::Described(description.key)).copied();
        let strings = &mut self.strings;
        let mut name = |name: &Option<Cow<'_, str>>| match name.as_deref() {
            Some(name) if !name.is_empty() => strings.intern(name),
            _ => StringId::NULL,
        };
        let names = DescribedNames {
            track: name(&description.name),
            thread: name(&description.thread_name),
            process: name(&description.process_name),
        };
        self.batch.changes.push(TrackChange::Description { track, owner: description.owner, names });
    }

    fn pending(&self) -> usize {
        self.batch.raws.len()
    }

    fn take_in_file_order(&mut self) -> Batch {
        Batch { watch: OrderWatch::default(), ..self.take() }
    }
}

impl Shard {
    #[inline(always)]
    fn keep(&mut self, event: &Event<'_>, raw: RawEvent, offset: u64) {
        let kind = raw.kind;
        let has_args = kind.is_slice() || kind == RawKind::End;
        let args = if has_args && !event.args.is_empty() { self.args(event.args) } else { ArgSetId::NONE };
        let batch = &mut self.batch;
        let packed = PackedIds::pack(event.ids.without_own_stream(&event.tid));
        let small = match (u32::try_from(packed.first), u32::try_from(packed.second)) {
            (Ok(first), Ok(second)) if packed.rare == [0; 3] => Some((first, second)),
            _ => None,
        };
        let has_extra = event.bind.is_some() || event.thread_time != (None, None) || small.is_none();
        let ids = match small {
            Some(ids) if !has_extra => ids,
            _ => {
                let (bind, thread_time) = (event.bind, event.thread_time);
                batch.extras.push(Extra { bind, thread_time, ids: packed });
                ((batch.extras.len() - 1) as u32, 0)
            }
        };
        batch.raws.push(RawEvent { args, ids, has_extra, ..raw });
        if self.keep_offsets {
            batch.offsets.push(offset);
        }
    }

    /// The id of a category. Most events have the category of the previous event.
    #[inline]
    fn category(&mut self, category: Text<'_>) -> StringId {
        if category.raw != self.last_category.0 {
            self.last_category.0.clear();
            self.last_category.0.extend_from_slice(category.raw);
            self.last_category.1 = self.strings.intern_text(category);
        }
        self.last_category.1
    }

    #[cold]
    fn metadata(&mut self, event: &Event<'_>, thread: u32) {
        let of_process = matches!(event.kind, Kind::ProcessName(_) | Kind::ProcessSortIndex(_));
        let change = match &event.kind {
            Kind::ProcessName(name) | Kind::ThreadName(name) => {
                TrackChange::Name { thread, of_process, name: self.strings.intern(name), ts: event.ts.0 }
            }
            Kind::ProcessSortIndex(index) | Kind::ThreadSortIndex(index) => {
                let key = if of_process { "process_sort_index_hint" } else { "thread_sort_index_hint" };
                TrackChange::Args { thread, of_process, args: self.hint(key, *index) }
            }
            _ => return self.batch.damage.count(Damage::PhaseNotShown, None),
        };
        self.batch.changes.push(change);
    }

    fn hint(&mut self, key: &str, value: i64) -> ArgSetId {
        let key = self.strings.intern(key);
        self.batch.args.push(Arg { key, flat_key: key, value: ArgValue::Int(value) });
        self.end_of_args()
    }

    fn args(&mut self, list: &ArgList) -> ArgSetId {
        for (key, flat_key, value) in list.iter() {
            let key_id = self.strings.intern(key);
            let flat_key = if flat_key == key { key_id } else { self.strings.intern(flat_key) };
            let value = value.map(|text| self.strings.intern(text));
            self.batch.args.push(Arg { key: key_id, flat_key, value });
        }
        self.end_of_args()
    }

    fn end_of_args(&mut self) -> ArgSetId {
        self.batch.args_ends.push(self.batch.args.len() as u32);
        ArgSetId(self.batch.args_ends.len() as u32)
    }
}

/// What an event on a track becomes, with its length or the id of its flow; `None` for other events.
#[inline]
fn raw_kind(kind: &Kind<'_>) -> Option<(RawKind, i64)> {
    let flow = |kind, id: Option<u64>| id.map_or((RawKind::FlowInvalid, 0), |id| (kind, id as i64));
    Some(match *kind {
        Kind::Complete { dur } => (RawKind::Complete, dur.0),
        Kind::Begin | Kind::AsyncBegin(_) => (RawKind::Begin, 0),
        Kind::End | Kind::AsyncEnd(_) => (RawKind::End, 0),
        Kind::Instant(_) | Kind::AsyncInstant(_) => (RawKind::Instant, 0),
        Kind::FlowStart(id) => flow(RawKind::FlowStart, id),
        Kind::FlowStep(id) => flow(RawKind::FlowStep, id),
        Kind::FlowEnd { id, enclosing: true } => flow(RawKind::FlowEnd, id),
        Kind::FlowEnd { id, enclosing: false } => flow(RawKind::FlowEndAtNext, id),
        Kind::SliceFlow(SliceFlow { id, terminates, of_closed }) => {
            (RawKind::SliceFlow { terminates, of_closed }, id as i64)
        }
        _ => return None,
    })
}

/// What is wrong with the times of an event: sums and differences of those that are right fit into 64 bits.
#[inline]
fn bad_time(event: &Event<'_>) -> Option<Damage> {
    // As unsigned numbers, negative ones are larger than all others.
    let is_within = |time: Ns, last: Ns| time.0 as u64 <= last.0 as u64;
    let is_fine = is_within(event.ts, Ns::LATEST)
        && match event.kind {
            Kind::Complete { dur } => is_within(dur, Ns(Ns::LATEST.0 - event.ts.0)),
            _ => true,
        };
    if is_fine { None } else { what_is_bad(event) }
}

#[cold]
fn what_is_bad(event: &Event<'_>) -> Option<Damage> {
    match event.kind {
        _ if event.ts < Ns::ZERO => Some(Damage::NegativeTimestamp),
        _ if event.ts > Ns::LATEST => Some(Damage::EventWithoutTimestamp),
        Kind::Complete { dur } if dur < Ns::ZERO => Some(Damage::NegativeDuration),
        Kind::Complete { dur } if dur > Ns::LATEST - event.ts => Some(Damage::InvalidDuration),
        _ => None,
    }
}

/// The numbers that a shard gave to threads and tracks.
#[derive(Debug, Default)]
struct ShardTracks {
    threads: HashMap<(IdKey, IdKey), u32, foldhash::fast::FixedState>,
    /// The track of each thread, once it has one.
    of_threads: Vec<Option<u32>>,
    others: HashMap<TrackOf, u32, foldhash::fast::FixedState>,
    /// The pid, tid and thread of the last event: events come in runs of one thread.
    last: Option<((u32, u32), u32)>,
    tracks: u32,
}

impl ShardTracks {
    #[inline]
    fn thread(&mut self, pid: &Id<'_>, tid: &Id<'_>, strings: &mut Strings, changes: &mut Vec<TrackChange>) -> u32 {
        let numbers = match (pid, tid) {
            (Id::Number(pid), Id::Number(tid)) => Some((*pid, *tid)),
            _ => None,
        };
        if let (Some(numbers), Some((last, thread))) = (numbers, self.last)
            && numbers == last
        {
            return thread;
        }
        let mut key = |id: &Id<'_>| match id {
            Id::Absent => IdKey::Absent,
            Id::Number(n) => IdKey::Number(*n),
            Id::Text(text) => IdKey::Text(strings.intern(text)),
        };
        let (pid, tid) = (key(pid), key(tid));
        let next = self.of_threads.len() as u32;
        let thread = *self.threads.entry((pid, tid)).or_insert(next);
        if thread == next {
            self.of_threads.push(None);
            changes.push(TrackChange::Thread { pid, tid });
        }
        self.last = numbers.map(|numbers| (numbers, thread));
        thread
    }

    #[inline]
    fn of_thread(&mut self, thread: u32, changes: &mut Vec<TrackChange>) -> u32 {
        let track = &mut self.of_threads[thread as usize];
        if let Some(track) = *track {
            return track;
        }
        let next = self.tracks;
        *track = Some(next);
        self.tracks += 1;
        changes.push(TrackChange::Track(TrackOf::Thread(thread), StringId::NULL));
        next
    }

    /// Any other track; `name` is its name if this is its first event.
    fn other(&mut self, of: TrackOf, name: StringId, changes: &mut Vec<TrackChange>) -> u32 {
        let next = self.tracks;
        *self.others.entry(of).or_insert_with_key(|of| {
            self.tracks += 1;
            changes.push(TrackChange::Track(of.clone(), name));
            next
        })
    }
}
