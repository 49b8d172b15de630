//! The trace, or several, in memory: columns of slices and flows, interned strings, argument sets, threads and tracks.
//!
//! [`batch`] takes events from the threads that read them, [`Builder`] takes batches in file order. Nothing can be nested yet
//! then, because files are in no order of time; so the builder keeps rows in the file's order, and [`Builder::finish`] goes through
//! them in order of time and lays them as slices and flows. What comes out is [`Store`]: read-only, in id order, shared by
//! whoever asks.

pub mod args;
mod assemble;
pub mod batch;
pub mod flows;
pub mod highest;
pub mod ids;
mod nest;
pub mod offsets;
mod order;
mod raw;
mod shard_tracks;
pub mod slices;
pub mod strings;
pub mod traces;
pub mod tracks;

use crate::damage::DamageReport;
use crate::event::{ArgValue, HeaderField};
use crate::id::{ProcessId, SliceId, ThreadId, TraceId, TrackId};
use crate::nccl::args as args_of;
use crate::nccl::category::CategoryKind;
use args::{Arg, ArgSetId, Args};
use assemble::{Assembler, Extras};
use batch::Batch;
use flows::{Binder, Flows};
use nest::Layer;
use offsets::EventOffsets;
use order::{Sequence, Stretch};
use raw::{DescribedNames, Extra, IdKey, Mark, News, Raw, RawKind};
use slices::Slices;
use strings::{StringId, Strings};
use traces::{Field, Trace};
use tracks::{Owner, Tracks};

/// A whole trace, or those of an archive, ready to be asked.
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
    /// The traces that it is made of, by machine.
    pub traces: Vec<Trace>,
    /// The fields of their headers.
    pub header: Vec<Field>,
    /// The fields of the headers' `metadata` objects, and the attributes of Perfetto's protobuf, under the names that Perfetto gives them.
    pub metadata: Vec<Field>,
    /// What was wrong with all traces, and with the archive that they were in.
    pub damage: DamageReport,
    /// How many events were read.
    pub events: u64,
    /// The distinct names of slices, and what such slices are.
    pub names: Vec<Name>,
    /// The slices that are kernels, in order.
    pub kernels: Vec<SliceId>,
    /// The slices that are calls into a runtime or driver, in order.
    pub runtime_calls: Vec<SliceId>,
    /// The slices that lie on lanes beside their thread's track, in order.
    pub spilled: Vec<SliceId>,
    /// Where in the text the events stand, if the load was asked to keep that.
    pub offsets: EventOffsets,
    /// First start and last end of all slices, in ns: half-open, so that a trace of one moment ends 1 ns after it.
    pub bounds: (i64, i64),
    /// The tracks that belong to threads, and those that belong to processes.
    pub thread_tracks: Vec<TrackId>,
    /// See [`Store::thread_tracks`].
    pub process_tracks: Vec<TrackId>,
    /// What each text stands for if it is a category.
    kinds: Vec<CategoryKind>,
    /// The arguments of flows: as many sets as there are pairs of name and category.
    flow_args: Vec<((StringId, StringId), ArgSetId)>,
}

/// A name that slices have.
#[derive(Debug, Clone, Copy, Default)]
pub struct Name {
    /// The name.
    pub id: StringId,
    /// Whether a kernel has it.
    pub of_kernel: bool,
    /// Whether a slice of a CPU has it.
    pub of_cpu: bool,
    /// Whether GPU work that is no kernel has it.
    pub of_gpu: bool,
}

impl Store {
    /// The arguments of a flow: its name and category.
    pub fn flow_args(&self, flow: usize) -> ArgSetId {
        let label = self.flows.label.get(flow).copied().unwrap_or_default();
        self.flow_args.iter().find(|(known, _)| *known == label).map_or(ArgSetId::NONE, |(_, set)| *set)
    }

    /// A slice's name; empty if it has none.
    pub fn slice_name(&self, slice: SliceId) -> &str {
        self.strings.get(self.slices.name(slice)).unwrap_or_default()
    }

    /// The thread that a slice lies on, on its own track or on a lane beside it.
    pub fn thread_of(&self, slice: SliceId) -> Option<ThreadId> {
        self.tracks.thread_of(self.slices.track(slice))
    }

    /// The process of this thread, or that of the track itself where a trace describes one.
    pub fn process_of(&self, slice: SliceId) -> Option<ProcessId> {
        if let Some(thread) = self.thread_of(slice) {
            return Some(self.tracks.thread(thread).upid);
        }
        match self.tracks.track(self.slices.track(slice)).owner {
            Owner::ProcessEvents(upid) | Owner::UnderProcess(upid) => Some(upid),
            _ => None,
        }
    }

    /// The text that is an argument's key in this trace: the formats put different words before the name that the profiler gave.
    pub fn arg_key(&self, name: &str) -> Option<StringId> {
        self.strings.find(&args_of::in_table(name)).or_else(|| self.strings.find(&args_of::in_annotations(name)))
    }

    /// What sort of work a slice's category stands for.
    pub fn category_kind(&self, slice: SliceId) -> CategoryKind {
        self.kinds.get(self.slices.category(slice).0 as usize).copied().unwrap_or(CategoryKind::Cpu)
    }
}

/// Collects batches; see the file's header.
#[derive(Debug, Default)]
pub struct Builder {
    slices: Slices,
    marks: Vec<Mark>,
    /// Where each mark stands in the text, if that was asked for.
    mark_offsets: Vec<u64>,
    extras: Extras,
    stretches: Vec<Stretch>,
    dictionaries: Vec<Dictionary>,
    strings: Strings,
    args: Args,
    tracks: Tracks,
    /// The traces that are whole.
    traces: Vec<Trace>,
    header: Vec<Field>,
    /// By trace: from which time on equal times have another order than the file's.
    rule_from: Vec<i64>,
    /// Of the trace that is being taken.
    damage: DamageReport,
    order: order::Watch,
}

/// What the numbers of a shard are here.
#[derive(Debug, Default)]
struct Dictionary {
    strings: Vec<StringId>,
    threads: Vec<ThreadId>,
    tracks: Vec<TrackId>,
}

impl Dictionary {
    fn string(&self, id: StringId) -> StringId {
        self.strings[id.0 as usize]
    }

    fn id(&self, id: IdKey) -> IdKey {
        if let IdKey::Text(text) = id { IdKey::Text(self.string(text)) } else { id }
    }
}

impl Builder {
    /// Whether ids would overflow if there were much more.
    pub fn is_full(&self) -> bool {
        // A safe distance below 2^32: one batch may bring many events, argument rows and strings.
        const LIMIT: usize = u32::MAX as usize - (1 << 28);
        let events = self.slices.rows.len().max(self.marks.len());
        events > LIMIT || self.args.rows().len() > LIMIT || self.strings.len() > LIMIT
    }

    /// Takes the next batch of the file.
    pub fn add(&mut self, mut batch: Batch) {
        if self.dictionaries.len() <= batch.shard {
            self.dictionaries.resize_with(batch.shard + 1, Dictionary::default);
        }
        let dictionary = &mut self.dictionaries[batch.shard];
        if dictionary.strings.is_empty() {
            dictionary.strings.push(StringId::NULL);
        }
        let mut start = 0;
        for end in batch.text_ends.drain(..) {
            dictionary.strings.push(self.strings.intern(&batch.texts[start..end]));
            start = end;
        }
        self.damage.add(&batch.damage);
        self.order.join(&batch.watch);
        let args = self.args_of(&mut batch);
        for news in std::mem::take(&mut batch.news) {
            self.news(batch.shard, news, &args);
        }
        self.events(&batch, &args);
    }

    /// Adds the events of a batch, in the numbers used here.
    fn events(&mut self, batch: &Batch, args: &[ArgSetId]) {
        let dictionary = &self.dictionaries[batch.shard];
        let rows = &mut self.slices.rows;
        let (first_row, first_mark) = (rows.len() as u32, self.marks.len() as u32);
        let mut offsets = batch.offsets.iter().copied();
        for raw in &batch.raws {
            let offset = offsets.next();
            let extra = if raw.has_extra { batch.extras.get(raw.ids.0 as usize) } else { None };
            let raw = Raw {
                name: dictionary.string(raw.name),
                category: dictionary.string(raw.category),
                track: dictionary.tracks[raw.track as usize].0,
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
        self.stretches.push(Stretch { trace: self.traces.len(), rows, marks });
    }

    /// Stores the argument sets of a batch. What they are numbered here, by their number in the batch.
    fn args_of(&mut self, batch: &mut Batch) -> Vec<ArgSetId> {
        let dictionary = &self.dictionaries[batch.shard];
        let mut sets = vec![ArgSetId::NONE];
        let (mut start, mut set) = (0, Vec::new());
        for end in batch.args_ends.drain(..) {
            set.clear();
            set.extend(batch.args[start as usize..end as usize].iter().map(|arg| Arg {
                key: dictionary.string(arg.key),
                flat_key: dictionary.string(arg.flat_key),
                value: match arg.value {
                    ArgValue::Text(id) => ArgValue::Text(dictionary.string(id)),
                    other => other,
                },
            }));
            sets.push(self.args.add_set(&mut set));
            start = end;
        }
        sets
    }

    fn news(&mut self, shard: usize, news: News, args: &[ArgSetId]) {
        let dictionary = &mut self.dictionaries[shard];
        let utid = |thread: u32| dictionary.threads[thread as usize];
        match news {
            News::Thread { pid, tid } => {
                let utid = self.tracks.thread_of_event(dictionary.id(pid), dictionary.id(tid));
                dictionary.threads.push(utid);
            }
            News::ThreadTrack { thread } => {
                let track = self.tracks.thread_track(utid(thread));
                dictionary.tracks.push(track);
            }
            News::InstantTrack { scope, thread } => {
                let track = self.tracks.instant_track(scope, utid(thread));
                dictionary.tracks.push(track);
            }
            News::AsyncTrack { per_process, thread, key, name } => {
                let name = dictionary.string(name);
                let track = self.tracks.async_track(per_process, key, utid(thread), name);
                dictionary.tracks.push(track);
            }
            News::DescribedTrack { name } => {
                let track = self.tracks.described_track(dictionary.string(name));
                dictionary.tracks.push(track);
            }
            News::Description { track, owner, names } => {
                let DescribedNames { track: name, thread, process } = names;
                let [name, thread, process] = [name, thread, process].map(|id| dictionary.string(id));
                let track = track.map(|track| dictionary.tracks[track as usize]);
                self.tracks.describe(track, owner, DescribedNames { track: name, thread, process });
            }
            News::ProcessName { thread, name, ts } => {
                self.tracks.name_process(utid(thread), dictionary.string(name), ts);
            }
            News::ThreadName { thread, name, ts } => {
                self.tracks.name_thread(utid(thread), dictionary.string(name), ts);
            }
            News::ProcessArgs { thread, args: set } => {
                let upid = self.tracks.threads[utid(thread).row()].upid;
                self.tracks.processes[upid.row()].args = args[set.0 as usize];
            }
            News::ThreadArgs { thread, args: set } => {
                self.tracks.threads[utid(thread).row()].args = args[set.0 as usize];
            }
        }
    }

    /// Ends a trace. What comes behind it is another machine's, and of new shards. `header` and `trace` are what the reader found.
    pub fn end_trace(&mut self, header: Vec<HeaderField>, mut trace: Trace) {
        let number = TraceId::of_row(self.traces.len());
        trace.damage.add(&std::mem::take(&mut self.damage));
        self.header.extend(Field::of(number, header));
        self.rule_from.push(std::mem::take(&mut self.order).rule_from());
        self.traces.push(trace);
        self.tracks.go_to_trace(TraceId(number.0 + 1));
        self.dictionaries.clear();
    }

    /// Forgets what a text had that turned out to be no trace: no event, but things that were wrong.
    pub fn drop_trace(&mut self) {
        let trace = self.traces.len();
        while self.stretches.pop_if(|stretch| stretch.trace == trace).is_some() {}
        self.damage = DamageReport::default();
        self.order = order::Watch::default();
        self.dictionaries.clear();
    }

    /// Nests the slices and binds the flows. `damage` is what was wrong with the archive that the traces were in.
    pub fn finish(mut self, mut damage: DamageReport) -> Store {
        if self.traces.is_empty() || self.stretches.last().is_some_and(|last| last.trace == self.traces.len()) {
            self.end_trace(Vec::new(), Trace::default());
        }
        let mut traces = self.traces;
        let mut assembler = Assembler {
            closed: None,
            trace: TraceId(0),
            layer: Layer::new(self.tracks, self.slices),
            binder: Binder::new(traces.len()),
            args: self.args,
            damage: traces.iter_mut().map(|trace| std::mem::take(&mut trace.damage)).collect(),
            marks: &self.marks,
            mark_offsets: &self.mark_offsets,
            extras: &self.extras,
            offsets: EventOffsets::default(),
        };
        let (stretches, rule_from) = (self.stretches, self.rule_from);
        assembler.run(|events| Sequence::new(stretches, rule_from, events));
        let Assembler {
            layer: Layer { slices, tracks, spilled, .. },
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
        let kinds = kinds(&slices.rows.category, &self.strings);
        let flow_args = flow_args(&flows, &mut args, &mut self.strings);
        let tracks_of = |wanted: fn(Owner) -> bool| -> Vec<TrackId> {
            let all = (0..tracks.tracks.len()).map(TrackId::of_row);
            all.filter(|track| wanted(tracks.track(*track).owner)).collect()
        };
        let Roles { names, kernels, runtime_calls } = roles(&slices, &kinds);
        Store {
            names,
            kernels,
            runtime_calls,
            spilled,
            offsets,
            bounds: bounds(&slices),
            thread_tracks: tracks_of(|owner| owner.thread().is_some()),
            process_tracks: tracks_of(|owner| owner.process().is_some()),
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
            kinds,
            flow_args,
        }
    }
}

/// By text: what it stands for as a category.
fn kinds(categories: &[StringId], strings: &Strings) -> Vec<CategoryKind> {
    let distinct = distinct(categories);
    let mut kinds = vec![CategoryKind::Cpu; distinct.last().map_or(1, |id| id.0 as usize + 1)];
    for id in distinct {
        kinds[id.0 as usize] = strings.get(id).map_or(CategoryKind::Cpu, CategoryKind::of);
    }
    kinds
}

/// Slices and their names by what they are.
#[derive(Default)]
struct Roles {
    names: Vec<Name>,
    kernels: Vec<SliceId>,
    runtime_calls: Vec<SliceId>,
}

fn roles(slices: &Slices, kinds: &[CategoryKind]) -> Roles {
    let mut roles = Roles::default();
    let mut names = vec![Name::default(); slices.rows.name.iter().map(|id| id.0 as usize + 1).max().unwrap_or(0)];
    for slice in slices.ids() {
        let name = &mut names[slices.name(slice).0 as usize];
        match kinds[slices.category(slice).0 as usize] {
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

fn bounds(slices: &Slices) -> (i64, i64) {
    let start = if slices.is_empty() { 0 } else { slices.ts(SliceId(0)) };
    let end = slices.ids().map(|slice| slices.ts(slice) + slices.dur(slice).max(0)).max().unwrap_or(0);
    (start, if slices.is_empty() || end > start { end } else { start.saturating_add(1) })
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
