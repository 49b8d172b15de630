//! Merges the batches of all shards into one [`Store`].
//!
//! Each shard numbers texts, threads and tracks by itself. The builder takes the batches in file order and maps these numbers to the
//! store's, so that the result does not depend on how many threads have read the file.

use super::args::{Arg, ArgSetId, Args};
use super::assemble::{Assembler, Extras};
use super::batch::Batch;
use super::extent::Extent;
use super::flows::{Binder, Flows};
use super::nest::Nester;
use super::offsets::EventOffsets;
use super::order::{Merge, OrderWatch, Segment};
use super::raw::{DescribedNames, Extra, IdKey, Mark, RawEvent, RawKind, TrackChange};
use super::slices::Slices;
use super::strings::{StringId, Strings};
use super::traces::{Field, Trace};
use super::tracks::{Owner, Tracks};
use super::{Name, Store};
use crate::damage::DamageReport;
use crate::event::{ArgValue, HeaderField};
use crate::id::{SliceId, ThreadId, TraceId, TrackId};
use crate::nccl::category::CategoryKind;
use crate::time::Window;

/// Collects batches, trace by trace; [`Builder::finish`] makes the store.
#[derive(Debug, Default)]
pub struct Builder {
    slices: Slices,
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
    /// By trace: the time from which on events at equal times are reordered, see [`OrderWatch`].
    reorder_from: Vec<i64>,
    /// Of the current trace.
    damage: DamageReport,
    order: OrderWatch,
}

/// The store's ids by a shard's numbers.
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
    /// Whether the 32-bit ids may overflow if another batch is added.
    pub fn is_full(&self) -> bool {
        // A safe distance below 2^32: one batch may bring many events, argument rows and strings.
        const LIMIT: usize = u32::MAX as usize - (1 << 28);
        let events = self.slices.rows.len().max(self.marks.len());
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

    /// Adds the events of a batch, under the store's ids.
    fn events(&mut self, batch: &Batch, args: &[ArgSetId]) {
        let ids = &self.shard_ids[batch.shard];
        let rows = &mut self.slices.rows;
        let (first_row, first_mark) = (rows.len() as u32, self.marks.len() as u32);
        let mut offsets = batch.offsets.iter().copied();
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

    /// Stores the argument sets of a batch. Returns the store's ids, by the sets' numbers in the batch.
    fn args_of(&mut self, batch: &mut Batch) -> Vec<ArgSetId> {
        let ids = &self.shard_ids[batch.shard];
        let mut sets = vec![ArgSetId::NONE];
        let (mut start, mut set) = (0, Vec::new());
        for end in batch.args_ends.drain(..) {
            set.clear();
            set.extend(batch.args[start as usize..end as usize].iter().map(|arg| Arg {
                key: ids.string(arg.key),
                flat_key: ids.string(arg.flat_key),
                value: match arg.value {
                    ArgValue::Text(id) => ArgValue::Text(ids.string(id)),
                    other => other,
                },
            }));
            sets.push(self.args.add_set(&mut set));
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
            TrackChange::ThreadTrack { thread } => {
                let track = self.tracks.thread_track(utid(thread));
                ids.tracks.push(track);
            }
            TrackChange::InstantTrack { scope, thread } => {
                let track = self.tracks.instant_track(scope, utid(thread));
                ids.tracks.push(track);
            }
            TrackChange::AsyncTrack { per_process, thread, key, name } => {
                let name = ids.string(name);
                let track = self.tracks.async_track(per_process, key, utid(thread), name);
                ids.tracks.push(track);
            }
            TrackChange::DescribedTrack { name } => {
                let track = self.tracks.described_track(ids.string(name));
                ids.tracks.push(track);
            }
            TrackChange::Description { track, owner, names } => {
                let DescribedNames { track: name, thread, process } = names;
                let [name, thread, process] = [name, thread, process].map(|id| ids.string(id));
                let track = track.map(|track| ids.tracks[track as usize]);
                self.tracks.describe(track, owner, DescribedNames { track: name, thread, process });
            }
            TrackChange::ProcessName { thread, name, ts } => {
                self.tracks.name_process(utid(thread), ids.string(name), ts);
            }
            TrackChange::ThreadName { thread, name, ts } => {
                self.tracks.name_thread(utid(thread), ids.string(name), ts);
            }
            TrackChange::ProcessArgs { thread, args: set } => {
                let upid = self.tracks.threads[utid(thread).row()].upid;
                self.tracks.processes[upid.row()].args = args[set.0 as usize];
            }
            TrackChange::ThreadArgs { thread, args: set } => {
                self.tracks.threads[utid(thread).row()].args = args[set.0 as usize];
            }
        }
    }

    /// Ends a trace. The next batches belong to the next trace and to new shards. `header` and `trace` are what the reader found.
    pub fn end_trace(&mut self, header: Vec<HeaderField>, mut trace: Trace) {
        let number = TraceId::of_row(self.traces.len());
        trace.damage.add(&std::mem::take(&mut self.damage));
        self.header.extend(Field::of(number, header));
        self.reorder_from.push(std::mem::take(&mut self.order).reorder_from());
        self.traces.push(trace);
        self.tracks.set_trace(TraceId(number.0 + 1));
        self.shard_ids.clear();
    }

    /// How many traces have ended.
    pub fn traces(&self) -> usize {
        self.traces.len()
    }

    /// Drops the current trace, for a text that turned out not to be one: it has damage and no event. Returns whether it has events after
    /// all; then what they mean is not separate from the next trace, and the load has failed.
    pub fn drop_trace(&mut self) -> bool {
        let (trace, mut has_events) = (self.traces.len(), false);
        while let Some(segment) = self.segments.pop_if(|segment| segment.trace == trace) {
            has_events |= !segment.rows.is_empty() || !segment.marks.is_empty();
        }
        self.damage = DamageReport::default();
        self.order = OrderWatch::default();
        self.shard_ids.clear();
        has_events
    }

    /// Nests the slices and binds the flows. `damage` is that of the archive of the traces.
    pub fn finish(mut self, mut damage: DamageReport) -> Store {
        if self.traces.is_empty() || self.segments.last().is_some_and(|last| last.trace == self.traces.len()) {
            self.end_trace(Vec::new(), Trace::default());
        }
        let mut traces = self.traces;
        let mut assembler = Assembler {
            closed: None,
            trace: TraceId(0),
            nester: Nester::new(self.tracks, self.slices),
            binder: Binder::new(traces.len()),
            args: self.args,
            damage: traces.iter_mut().map(|trace| std::mem::take(&mut trace.damage)).collect(),
            marks: &self.marks,
            mark_offsets: &self.mark_offsets,
            extras: &self.extras,
            offsets: EventOffsets::default(),
        };
        assembler.run(|events| Merge::new(self.segments, self.reorder_from, events));
        let Assembler {
            nester: Nester { slices, tracks, spilled, .. },
            binder,
            mut args,
            damage: damages,
            mut offsets,
            ..
        } = assembler;
        for (trace, found) in traces.iter_mut().zip(damages) {
            damage.add(&found);
            trace.damage = found;
        }
        offsets.flows = binder.ends;
        let flows = binder.flows;
        let category_kinds = category_kinds(&slices.rows.category, &self.strings);
        let flow_args = flow_args(&flows, &mut args, &mut self.strings);
        let Roles { names, kernels, runtime_calls } = roles(&slices, &category_kinds);
        let (bounds, span) = bounds_and_span(&slices, &kernels);
        Store {
            names,
            kernels,
            runtime_calls,
            spilled,
            offsets,
            bounds,
            span,
            thread_tracks: tracks_of(&tracks, |owner| owner.thread().is_some()),
            process_tracks: tracks_of(&tracks, |owner| owner.process().is_some()),
            slices,
            flows,
            strings: self.strings,
            args,
            tracks,
            metadata: self.header.iter().filter_map(Field::metadata).collect(),
            header: self.header,
            damage,
            events: traces.iter().map(|trace| trace.events).sum(),
            traces,
            category_kinds,
            flow_args,
        }
    }
}

/// The tracks with such an owner, by id.
fn tracks_of(tracks: &Tracks, is_wanted: fn(Owner) -> bool) -> Vec<TrackId> {
    let all = (0..tracks.tracks.len()).map(TrackId::of_row);
    all.filter(|track| is_wanted(tracks.track(*track).owner)).collect()
}

/// By [`StringId`]: the kind of this text as a category.
fn category_kinds(categories: &[StringId], strings: &Strings) -> Vec<CategoryKind> {
    let distinct = distinct(categories);
    let mut category_kinds = vec![CategoryKind::Cpu; distinct.last().map_or(1, |id| id.0 as usize + 1)];
    for id in distinct {
        category_kinds[id.0 as usize] = strings.get(id).map_or(CategoryKind::Cpu, CategoryKind::of);
    }
    category_kinds
}

/// Slices and their names by kind.
#[derive(Default)]
struct Roles {
    names: Vec<Name>,
    kernels: Vec<SliceId>,
    runtime_calls: Vec<SliceId>,
}

fn roles(slices: &Slices, category_kinds: &[CategoryKind]) -> Roles {
    let mut roles = Roles::default();
    let mut names = vec![Name::default(); slices.rows.name.iter().map(|id| id.0 as usize + 1).max().unwrap_or(0)];
    for slice in slices.ids() {
        let name = &mut names[slices.name(slice).0 as usize];
        match category_kinds[slices.category(slice).0 as usize] {
            CategoryKind::Kernel => {
                name.of_kernel = true;
                roles.kernels.push(slice);
            }
            CategoryKind::Runtime => {
                name.of_cpu = true;
                roles.runtime_calls.push(slice);
            }
            CategoryKind::Frame | CategoryKind::Cpu => name.of_cpu = true,
            CategoryKind::Gpu => name.of_gpu = true,
        }
    }
    let known = (0..).zip(names).skip(1).filter(|(_, name)| name.of_kernel || name.of_cpu || name.of_gpu);
    roles.names = known.map(|(id, name)| Name { id: StringId(id), ..name }).collect();
    roles
}

/// See [`Store::bounds`] and [`Store::span`]. Slices are in the order of their starts.
fn bounds_and_span(slices: &Slices, kernels: &[SliceId]) -> (Window, Window) {
    let mut extent = Extent::default();
    slices.ids().for_each(|slice| extent.add(slices.ts(slice), slices.dur(slice)));
    kernels.iter().for_each(|kernel| extent.add_kernel(slices.ts(*kernel)));
    (extent.bounds(), extent.span())
}

/// The ids that occur in a column, in order, without NULL.
fn distinct(column: &[StringId]) -> Vec<StringId> {
    let mut seen = vec![false; column.iter().map(|id| id.0 as usize + 1).max().unwrap_or(0)];
    for id in column {
        seen[id.0 as usize] = true;
    }
    (1..seen.len()).filter(|id| seen[*id]).map(|id| StringId(id as u32)).collect()
}

/// See [`Store::flow_args`].
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
