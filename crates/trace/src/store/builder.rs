//! Merges the batches of all shards into one [`Store`].
//!
//! Each shard numbers texts, threads and tracks itself. These numbers are mapped to ids in file order, whatever the number of threads.

use std::collections::BTreeSet;
use std::num::NonZero;

use super::EventOffsets;
use super::args::{Arg, ArgSetId, Args};
use super::batch::Batch;
use super::extent::{Counted, Counts, Extent, Named, category_kinds, strays, without};
use super::flows::{Binder, Bound, Flows, Marks};
use super::order::{Events, OrderWatch, STRETCH, Segment, Stretches};
use super::raw::{DescribedNames, Extra, Extras, IdKey, Mark, RawEvent, RawKind, TrackChange};
use super::slices::{Rows, Slices};
use super::stages::{self, Assembled, Assembler};
use super::strings::{StringId, Strings};
use super::traces::{Field, Trace};
use super::tracks::{Owner, Track, Tracks};
use super::{Store, survived};
use crate::damage::{Damage, DamageReport};
use crate::event::producers::{Facts, Producer};
use crate::event::{ArgValue, Format, HeaderField};
use crate::id::{ProcessId, SliceId, ThreadId, TraceId, TrackId};
use crate::names::calls::Work;
use crate::names::category::CategoryKind;
use crate::names::described::SCHEMA_VERSION;
use crate::time::Ns;

/// Collects batches, trace by trace; [`Builder::finish`] makes the store.
#[derive(Debug, Default)]
pub struct Builder {
    rows: Rows,
    categories: BTreeSet<StringId>,
    marks: Vec<Mark>,
    /// The byte offset of each mark in the text, if the load keeps offsets.
    mark_offsets: Vec<u64>,
    extras: Extras,
    segments: Vec<Segment>,
    shard_ids: Vec<ShardIds>,
    strings: Strings,
    args: Args,
    tracks: Tracks,
    /// The traces read so far. The current one is not among them.
    traces: Vec<Trace>,
    header: Vec<Field>,
    /// By trace: the time from which events at equal times are reordered, see [`OrderWatch`].
    reorder_from: Vec<i64>,
    damage: DamageReport,
    order: OrderWatch,
    /// The rows of all traces that cannot be when they say, in order.
    strays: Vec<u32>,
    /// How many argument sets of the current trace have a duplicate key.
    duplicate_keys: u64,
    /// The approximate number of events to order and nest at a time; `None`: [`STRETCH`].
    stretch: Option<NonZero<usize>>,
}

/// Maps a shard's numbers to the store's ids.
#[derive(Debug, Default)]
struct ShardIds {
    strings: Vec<StringId>,
    threads: Vec<ThreadId>,
    tracks: Vec<TrackId>,
}

impl ShardIds {
    fn string(&self, id: StringId) -> StringId {
        self.strings[id.0 as usize]
    }

    fn id_key(&self, id: IdKey) -> IdKey {
        if let IdKey::Text(text) = id { IdKey::Text(self.string(text)) } else { id }
    }
}

impl Builder {
    /// A builder that orders and nests about this many events at a time; `None`: 16,384, the fastest.
    pub fn of_stretches(stretch: Option<NonZero<usize>>) -> Self {
        Builder { stretch, ..Builder::default() }
    }

    /// Whether the 32-bit ids could overflow with another batch.
    pub fn is_full(&self) -> bool {
        // Well below 2^32: one batch may add many events, argument rows and strings.
        const LIMIT: usize = u32::MAX as usize - (1 << 28);
        let events = self.rows.len().max(self.marks.len());
        events > LIMIT || self.args.rows().len() > LIMIT || self.strings.len() > LIMIT
    }

    /// Adds the next batch of the file.
    pub fn add(&mut self, mut batch: Batch) {
        if self.shard_ids.len() <= batch.shard {
            self.shard_ids.resize_with(batch.shard + 1, ShardIds::default);
        }
        let ids = &mut self.shard_ids[batch.shard];
        if ids.strings.is_empty() {
            ids.strings.push(StringId::NULL);
        }
        let mut start = 0;
        for end in batch.text_ends.drain(..) {
            ids.strings.push(self.strings.intern(&batch.texts[start..end]));
            start = end;
        }
        self.damage.add(&batch.damage);
        self.order.append(&batch.watch);
        let args = self.args_of(&mut batch);
        for changes in std::mem::take(&mut batch.changes) {
            self.apply(batch.shard, changes, &args);
        }
        self.events(&batch, &args);
    }

    /// Adds the events of a batch, with the store's ids.
    fn events(&mut self, batch: &Batch, args: &[ArgSetId]) {
        let ids = &self.shard_ids[batch.shard];
        let rows = &mut self.rows;
        let (first_row, first_mark) = (rows.len() as u32, self.marks.len() as u32);
        let mut offsets = batch.offsets.iter().copied();
        let mut last_category = StringId::NULL;
        for raw in &batch.raws {
            let offset = offsets.next();
            let extra = if raw.has_extra { batch.extras.get(raw.ids.0 as usize) } else { None };
            let raw = RawEvent {
                name: ids.string(raw.name),
                category: ids.string(raw.category),
                track: ids.tracks[raw.track as usize].0,
                args: args[raw.args.0 as usize],
                ..*raw
            };
            if raw.kind.is_slice() {
                if let Some(bind) = extra.and_then(|extra| extra.bind) {
                    self.extras.binds.insert(rows.len() as u32, bind);
                }
                if raw.category != last_category {
                    self.categories.insert(raw.category);
                    last_category = raw.category;
                }
                rows.push(&raw, extra);
                rows.offsets.extend(offset);
                continue;
            }
            if raw.kind == RawKind::End && (raw.has_extra || raw.ids != (0, 0)) {
                let extra = extra.copied().unwrap_or(Extra { ids: raw.small_ids(), ..Extra::default() });
                self.extras.ends.insert(self.marks.len() as u32, extra);
            }
            self.marks.push(Mark::new(&raw, rows.len() as u32));
            self.mark_offsets.extend(offset);
        }
        let (rows, marks) = (first_row..rows.len() as u32, first_mark..self.marks.len() as u32);
        self.segments.push(Segment { trace: self.traces.len(), rows, marks });
    }

    /// Stores the argument sets of a batch. Returns the store's ids by the numbers of the sets in the batch.
    fn args_of(&mut self, batch: &mut Batch) -> Vec<ArgSetId> {
        let ids = &self.shard_ids[batch.shard];
        let mut sets = vec![ArgSetId::NONE];
        let (mut start, mut set) = (0, Vec::new());
        for end in batch.args_ends.drain(..) {
            set.clear();
            set.extend(batch.args[start as usize..end as usize].iter().map(|arg| Arg {
                key: ids.string(arg.key),
                flat_key: ids.string(arg.flat_key),
                value: arg.value.map(|text| ids.string(text)),
            }));
            let rows = set.len();
            sets.push(self.args.add_set(&mut set));
            self.duplicate_keys += u64::from(set.len() < rows);
            start = end;
        }
        sets
    }

    fn apply(&mut self, shard: usize, changes: TrackChange, args: &[ArgSetId]) {
        let ids = &mut self.shard_ids[shard];
        let utid = |thread: u32| ids.threads[thread as usize];
        match changes {
            TrackChange::Thread { pid, tid } => {
                let utid = self.tracks.thread_of_event(ids.id_key(pid), ids.id_key(tid));
                ids.threads.push(utid);
            }
            TrackChange::Track(of, name) => {
                let track = self.tracks.track_of(of, ids.string(name), utid);
                ids.tracks.push(track);
            }
            TrackChange::Description { track, owner, names } => {
                let DescribedNames { track: name, thread, process } = names;
                let [name, thread, process] = [name, thread, process].map(|id| ids.string(id));
                let track = track.map(|track| ids.tracks[track as usize]);
                self.tracks.describe(track, owner, DescribedNames { track: name, thread, process });
            }
            TrackChange::Name { thread, of_process, name, ts } => {
                self.tracks.rename(utid(thread), of_process, ids.string(name), ts);
            }
            TrackChange::Args { thread, of_process, args: set } => {
                self.tracks.set_args(utid(thread), of_process, args[set.0 as usize]);
            }
        }
    }

    /// Ends a trace. The next batches belong to the next trace and to new shards. `header` and `trace` come from the reader.
    pub fn end_trace(&mut self, header: Vec<HeaderField>, mut trace: Trace) {
        let number = TraceId::of_row(self.traces.len());
        trace.damage.add(&std::mem::take(&mut self.damage));
        // A key may repeat in Perfetto's protobuf.
        let duplicate_keys = std::mem::take(&mut self.duplicate_keys);
        if duplicate_keys > 0 && trace.format.is_none_or(Format::has_unique_keys) {
            trace.damage.count_several(Damage::DuplicateArgument, duplicate_keys);
        }
        let whole = |field: &HeaderField| if let ArgValue::Int(value) = field.value { Some(value) } else { None };
        let numbers = header.iter().filter_map(|field| Some((field.key.as_str(), whole(field)?)));
        numbers.clone().for_each(|(key, value)| trace.damage.take_over(key, value.unsigned_abs()));
        trace.survived = DamageReport::survived(numbers);
        self.header.extend(Field::from_header(number, header));
        trace.producer = self.producer(number);
        if let Some(producer) = trace.producer.filter(|producer| !producer.gpu_work.is_empty()) {
            self.mark_gpu_work(producer);
        }
        self.leave_out_strays(&mut trace.damage);
        self.reorder_from.push(std::mem::take(&mut self.order).reorder_from());
        self.traces.push(trace);
        self.tracks.set_trace(TraceId(number.0 + 1));
        self.shard_ids.clear();
    }

    fn current(&self) -> &[Segment] {
        let first = self.segments.partition_point(|segment| segment.trace < self.traces.len());
        &self.segments[first..]
    }

    /// What wrote the current trace, unless it is Kineto.
    fn producer(&self, trace: TraceId) -> Option<&'static Producer> {
        let text = |id: StringId| self.strings.get(id).unwrap_or_default();
        let header: Vec<&str> =
            self.header.iter().filter(|field| field.trace == trace).map(|field| field.key.as_str()).collect();
        if header.contains(&SCHEMA_VERSION) {
            return None;
        }
        let is_of_trace = |process: ProcessId| self.tracks.processes[process.row()].trace == trace;
        let processes = self.tracks.processes.iter().filter(|process| process.trace == trace);
        let threads = self.tracks.threads.iter().filter(|thread| is_of_trace(thread.upid));
        let facts = Facts {
            header,
            processes: processes.map(|process| text(process.name)).collect(),
            threads: threads.map(|thread| text(thread.name)).collect(),
            categories: self.categories.iter().map(|id| text(*id)).collect(),
        };
        Producer::find(&facts, |name| self.strings.find(name).is_some())
    }

    /// Gives the GPU work of a producer, and the calls that launch it, the categories of Kineto's.
    fn mark_gpu_work(&mut self, producer: &Producer) {
        let [kernel, copy, fill, call] =
            ["kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime"].map(|category| self.strings.intern(category));
        let rows: Vec<u32> = self.current().iter().flat_map(|segment| segment.rows.clone()).collect();
        for row in rows.into_iter().map(|row| row as usize) {
            let Some(thread) = self.tracks.thread_of(TrackId(self.rows.track[row])) else { continue };
            let thread = self.tracks.thread(thread);
            let text = |id: StringId| self.strings.get(id).unwrap_or_default();
            let (name, category) = (text(self.rows.name[row]), text(self.rows.category[row]));
            let process = text(self.tracks.processes[thread.upid.row()].name);
            let marked = if producer.is_gpu_work(category, process, text(thread.name)) {
                match Work::of_slice(name, false) {
                    Some(Work::Copy) => copy,
                    Some(Work::Fill) => fill,
                    Some(Work::Kernel) | None => kernel,
                }
            } else if category.is_empty() && Work::is_launch(name) {
                call
            } else {
                continue;
            };
            self.rows.category[row] = marked;
            self.categories.insert(marked);
        }
    }

    /// Takes the slices of the current trace that cannot be when they say out of its segments.
    fn leave_out_strays(&mut self, damage: &mut DamageReport) {
        let kind = |row: usize| CategoryKind::from_name(self.strings.get(self.rows.category[row]).unwrap_or_default());
        let strays = strays(&self.rows, self.current(), kind);
        if strays.is_empty() {
            return;
        }
        let segments = self.segments.split_off(self.segments.len() - self.current().len());
        self.segments.extend(without(segments, |mark| self.marks[mark as usize].rows_before, &strays));
        for row in &strays {
            damage.count(Damage::TimeAlone, self.rows.offsets.get(*row as usize).copied());
        }
        self.strays.extend(strays);
    }

    /// How many traces have ended.
    pub fn traces(&self) -> usize {
        self.traces.len()
    }

    /// Drops the current trace, whose text turned out not to be a trace: damaged and without events. Returns whether it has events after all; they
    /// cannot be separated from the next trace, and the load has failed.
    pub fn drop_trace(&mut self) -> bool {
        let (trace, mut has_events) = (self.traces.len(), false);
        while let Some(segment) = self.segments.pop_if(|segment| segment.trace == trace) {
            has_events |= !segment.rows.is_empty() || !segment.marks.is_empty();
        }
        self.damage = DamageReport::default();
        self.duplicate_keys = 0;
        self.order = OrderWatch::default();
        self.shard_ids.clear();
        has_events
    }

    /// Nests the slices and binds the flows, on this many threads. `damage` is that of the archive.
    pub fn finish(mut self, mut damage: DamageReport, threads: NonZero<usize>) -> Store {
        if self.traces.is_empty() || self.segments.last().is_some_and(|last| last.trace == self.traces.len()) {
            self.end_trace(Vec::new(), Trace::default());
        }
        let category_kinds = category_kinds(&self.categories, &self.strings);
        let rows = std::mem::take(&mut self.rows);
        let is_cut_off = |trace: &Trace| trace.damage.is_cut_off() && trace.survived.is_none();
        for (number, trace) in self.traces.iter_mut().enumerate().filter(|(_, trace)| is_cut_off(trace)) {
            trace.survived = survived::survived(number, &rows, &self.segments, &self.tracks, &category_kinds);
        }
        let (mut assembled, bound) = self.assemble(&rows, &category_kinds, threads);
        let marks = Marks { marks: &self.marks, offsets: &self.mark_offsets, extras: &self.extras };
        let slices = assembled.slices(rows, marks, &mut self.args);
        let flows = bound.flows.in_order_of_time(&slices);
        for (trace, found) in self.traces.iter_mut().zip(assembled.damage.iter().zip(&bound.damage)) {
            trace.damage.add(found.0);
            trace.damage.add(found.1);
            damage.add(&trace.damage);
        }
        let flow_args = flow_args(&flows, &mut self.args, &mut self.strings);
        let counted = Counted::find(&assembled.tracks, &slices, &assembled.kernels, &assembled.runtime_calls);
        let Named { names, ends } = Named::find(&slices.rows, &assembled.dropped, &category_kinds, &counted, threads);
        let kind = |slice| category_kinds[slices.category(slice).0 as usize];
        let extent = Extent::find(ends, &slices, |slice| {
            kind(slice) == CategoryKind::Kernel
                || slices.dur(slice) != Ns::ZERO && counted.counts(kind(slice), slices.track(slice)) != Counts::No
        });
        let tracks = assembled.tracks;
        let mut store = Store {
            names,
            kernels: assembled.kernels,
            runtime_calls: assembled.runtime_calls,
            spilled: in_lanes(&assembled.spilled, &tracks, &slices),
            first_slices: assembled.first_slices,
            threads,
            offsets: EventOffsets { ends: assembled.end_offsets, flows: bound.ends },
            bounds: extent.bounds(),
            span: extent.span(),
            thread_tracks: tracks_of(&tracks, |owner| owner.thread().is_some()),
            process_tracks: tracks_of(&tracks, |owner| owner.process().is_some()),
            slices,
            flows,
            strings: self.strings,
            args: self.args,
            tracks,
            metadata: self.header.iter().filter_map(Field::metadata).collect(),
            header: self.header,
            damage,
            events: self.traces.iter().map(|trace| trace.events).sum(),
            traces: self.traces,
            gpus: Vec::new(),
            category_kinds,
            flow_args,
        };
        store.add_copies();
        store.find_names_of_families();
        store.find_gpus();
        store
    }

    /// Runs all events through the stages.
    fn assemble(&mut self, rows: &Rows, kinds: &[CategoryKind], threads: NonZero<usize>) -> (Assembled, Bound) {
        let events = Events { rows, marks: &self.marks, kinds, reorder_from: &self.reorder_from };
        let marks = Marks { marks: &self.marks, offsets: &self.mark_offsets, extras: &self.extras };
        let (tracks, segments) = (std::mem::take(&mut self.tracks), std::mem::take(&mut self.segments));
        let (assembler, binder) = stages::run(
            Stretches::new(segments, self.stretch.map_or(STRETCH, NonZero::get), events),
            events,
            Assembler::new(tracks, rows, marks, self.traces.len()),
            Binder::new(marks, self.traces.len()),
            threads,
        );
        let mut assembled = assembler.finish();
        assembled.dropped.append(&mut self.strays);
        assembled.dropped.sort_unstable();
        (assembled, binder.finish())
    }
}

/// The slices on lanes, in id order: they partly overlap others on their thread, or the trace describes the lane.
fn in_lanes(spilled: &[(SliceId, TrackId)], tracks: &Tracks, slices: &Slices) -> Vec<SliceId> {
    let mut all: Vec<SliceId> = spilled.iter().map(|(slice, _)| *slice).collect();
    let is_lane: Vec<bool> = tracks.tracks.iter().map(Track::is_described_lane).collect();
    if is_lane.contains(&true) {
        all.extend(slices.ids().filter(|slice| is_lane[slices.track(*slice).row()]));
        all.sort_unstable();
    }
    all
}

/// The tracks whose owner is wanted, by id.
fn tracks_of(tracks: &Tracks, is_wanted: fn(Owner) -> bool) -> Vec<TrackId> {
    let all = (0..tracks.tracks.len()).map(TrackId::of_row);
    all.filter(|track| is_wanted(tracks.track(*track).owner)).collect()
}

/// See [`Store::flow_args`].
fn flow_args(flows: &Flows, args: &mut Args, strings: &mut Strings) -> Vec<((StringId, StringId), ArgSetId)> {
    let mut labels = flows.label.clone();
    labels.sort_unstable();
    labels.dedup();
    let keys = ["name", "cat"].map(|key| strings.intern(key));
    labels.retain(|label| *label != (StringId::NULL, StringId::NULL));
    let arg = |key, value| Arg { key, flat_key: key, value: ArgValue::Text(value) };
    let mut set = |label: (StringId, StringId)| args.add_set(&mut vec![arg(keys[0], label.0), arg(keys[1], label.1)]);
    labels.into_iter().map(|label| (label, set(label))).collect()
}
