//! The operations of a trace.
//!
//! The rows come from the trace's kernels, with PyTorch's records of them and the ranks and groups from the header. Unknown values are `None`,
//! never guessed: a replayed kernel has no record, so its size and group are unknown. Nothing is matched across ranks.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::ranks::Ranks;
use super::records::{Record, RecordedGroup, Records};
use super::{Attribution, KernelLaunch};
use crate::id::{GpuId, PathId, SliceId, TraceId};
use crate::names::args;
use crate::names::category::CategoryKind;
use crate::names::collectives::{ANNOTATION, Collective, Method};
use crate::names::ranks::ranks_of_text;
use crate::operation::{Communicator, Message, Operation, Source, Split, State};
use crate::store::Store;
use crate::store::args::ArgSetId;
use crate::store::slices::UNFINISHED;
use crate::store::strings::StringId;

/// The operations of a trace, or of all traces of an archive.
#[derive(Debug, Default)]
pub struct Operations {
    /// In the order of their kernels' starts.
    pub rows: Vec<Operation>,
    /// The communicators in the rows, each once.
    pub communicators: Vec<Communicator>,
}

impl Operations {
    /// Finds the operations of all collective kernels in an attribution. The trace must have been loaded with the argument keys
    /// [`args::OF_COLLECTIVES`]; with all arguments there are also sequence numbers and peers.
    pub fn find(store: &Store, attribution: &Attribution) -> Self {
        let mut rows = Vec::new();
        let ranks = Ranks::find(store, &attribution.kernels);
        let communicators = Operations::each(store, attribution, &ranks, |operation, _| rows.push(operation));
        Operations { rows, communicators }
    }

    /// Passes the operations one by one, because each takes some hundred bytes, with the rows of the attribution. Returns the communicators.
    pub(crate) fn each<'k>(
        store: &Store,
        attribution: &'k Attribution,
        ranks: &Ranks<'_>,
        mut each: impl FnMut(Operation, &'k KernelLaunch),
    ) -> Vec<Communicator> {
        let is_collective = &attribution.activity.is_collective;
        let chosen = |row: &&KernelLaunch| is_collective[store.slices.name(row.launched.kernel).0 as usize];
        let mut reader = Reader::new(store, attribution, ranks);
        for row in attribution.kernels.iter().filter(chosen) {
            each(reader.operation(row), row);
        }
        let mut communicators: Vec<(Communicator, usize)> = reader.communicators.into_iter().collect();
        communicators.sort_unstable_by_key(|(_, number)| *number);
        communicators.into_iter().map(|(known, _)| known).collect()
    }
}

/// Makes operations from kernels.
struct Reader<'a> {
    store: &'a Store,
    attribution: &'a Attribution,
    records: Records<'a>,
    ranks: &'a Ranks<'a>,
    communicators: BTreeMap<Communicator, usize>,
    numbers: HashMap<TraceId, HashMap<RecordedGroup, usize, FixedState>, FixedState>,
    keys: Keys,
    /// By name of a kernel: what it says.
    methods: HashMap<StringId, Method<'a>, FixedState>,
    /// By call path: the collective in PyTorch's innermost annotation.
    annotated: HashMap<PathId, Option<Collective>>,
    /// By GPU and External id: how many copies carry out one collective.
    copies: HashMap<(GpuId, i64), u64, FixedState>,
}

/// The keys of arguments that are no part of a [`Record`], if the trace has them.
struct Keys {
    sequence: Option<StringId>,
    rank: Option<StringId>,
    peers: [Option<StringId>; 2],
    splits: [Option<StringId>; 2],
}

/// See [`Reader::copies`].
fn copies(store: &Store, kernels: &[KernelLaunch]) -> HashMap<(GpuId, i64), u64, FixedState> {
    let mut found = HashMap::default();
    let kernels = kernels.iter().map(|row| row.launched.kernel);
    for copy in kernels.filter(|kernel| store.category_kind(*kernel) == CategoryKind::Gpu) {
        if let Some(id) = store.external_id(copy) {
            *found.entry((store.gpu_of(copy), id)).or_default() += 1;
        }
    }
    found
}

impl<'a> Reader<'a> {
    fn new(store: &'a Store, attribution: &'a Attribution, ranks: &'a Ranks<'a>) -> Self {
        let key = |key| store.arg_key(key);
        let keys = Keys {
            sequence: key(args::SEQ),
            rank: key(args::RANK),
            peers: [args::DST_RANK, args::SRC_RANK].map(key),
            splits: [args::IN_SPLIT, args::OUT_SPLIT].map(key),
        };
        Reader {
            store,
            attribution,
            records: Records::new(store),
            ranks,
            communicators: BTreeMap::new(),
            numbers: HashMap::default(),
            keys,
            methods: HashMap::default(),
            annotated: HashMap::new(),
            copies: copies(store, &attribution.kernels),
        }
    }

    fn operation(&mut self, row: &KernelLaunch) -> Operation {
        let (store, launched) = (self.store, &row.launched);
        let kernel = launched.kernel;
        let set = self.records.set_of(kernel, row.record);
        let record = self.records.get(set);
        let record = record.as_deref();
        let name = store.slice_name(kernel);
        let method = self.methods.entry(store.slices.name(kernel)).or_insert_with(|| Method::of_kernel(name));
        let Method { algorithm, protocol } = *method;
        let gpu = store.gpu_of(kernel);
        let (start, dur) = (store.slices.ts(kernel), store.slices.dur(kernel));
        let end = (dur != UNFINISHED).then(|| start + dur);
        let text = |known: Option<&str>| known.map(Arc::from);
        let operation = Operation {
            source: Source::TRACE,
            kernel: Some(kernel),
            rank: self.ranks.of_kernel(row),
            communicator: record.and_then(|record| self.communicator(gpu, &record.group)),
            sequence: self.sequence(set, row),
            collective: self.collective(row, record, name).map(Arc::from),
            dtype: text(record.and_then(|record| record.dtype.as_deref())),
            in_elements: record.and_then(|record| record.in_elements),
            out_elements: record.and_then(|record| record.out_elements),
            bytes: record.and_then(|record| record.bytes).map(|bytes| bytes / self.copies_with(kernel)),
            peer: self.peer(set, row, record),
            enqueued: row.record.map(|slice| store.slices.ts(slice)),
            launch: launched.call,
            launched: launched.call.map(|call| store.slices.ts(call)),
            start: Some(start),
            end,
            state: if end.is_some() { State::Completed } else { State::Started },
            algorithm: text(algorithm),
            protocol: text(protocol),
            split: self.split(set),
            path: row.path,
            capture: row.capture,
            gpu: Some(gpu),
            stream: store.stream_of(kernel),
            ..Operation::default()
        };
        match row.record.filter(|_| row.is_batch) {
            Some(first) => self.batch(operation, self.attribution.batches.records(first)),
            None => operation,
        }
    }

    /// How many copies a copy shares its collective with, itself included: each has its part of the size. 1 for a kernel.
    fn copies_with(&self, kernel: SliceId) -> u64 {
        let id = self.store.external_id(kernel).filter(|_| !self.copies.is_empty());
        id.and_then(|id| self.copies.get(&(self.store.gpu_of(kernel), id))).copied().unwrap_or(1)
    }

    /// The operation of a kernel that carries out several sends and receives, from that of the first.
    fn batch(&mut self, first: Operation, records: &[SliceId]) -> Operation {
        let mut messages = Vec::new();
        for slice in records {
            let set = self.store.slices.args(*slice);
            let Some(record) = self.records.get(set) else { continue };
            let is_send = record.collective == Some(Collective::Send);
            let peer = self.keys.peers.into_iter().find_map(|key| self.number(set, key));
            messages.extend(peer.map(|peer| Message { peer, is_send }));
        }
        messages.sort_unstable();
        messages.dedup();
        let peer = messages.first().filter(|first| messages.iter().all(|of| of.peer == first.peer)).map(|of| of.peer);
        let collective = Some(Arc::from(Collective::SendRecv.name()));
        let bytes = self.records.bytes_of_batch(records);
        Operation { collective, bytes, peer, messages, in_elements: None, out_elements: None, ..first }
    }

    /// The collective from the record, else from PyTorch's annotation, else from the kernel's name. Older NCCL kernels carry out any collective,
    /// so their names say less.
    fn collective(&mut self, row: &KernelLaunch, record: Option<&Record>, kernel: &str) -> Option<String> {
        if let Some(record) = record {
            return record.collective.map(|known| known.name().to_owned()).or(record.name.clone());
        }
        let annotated = [row.path, row.capture].into_iter().flatten().find_map(|path| self.annotation(path));
        annotated.or_else(|| Collective::of_kernel(kernel)).map(|collective| collective.name().to_owned())
    }

    fn annotation(&mut self, path: PathId) -> Option<Collective> {
        let paths = &self.attribution.paths;
        let find = || paths.upwards(path).find_map(|frame| paths.name(frame).strip_prefix(ANNOTATION));
        *self.annotated.entry(path).or_insert_with(|| find().and_then(Collective::of_record))
    }

    fn communicator(&mut self, gpu: GpuId, group: &RecordedGroup) -> Option<usize> {
        if *group == RecordedGroup::default() {
            return None;
        }
        if let Some(number) = self.numbers.get(&gpu.trace).and_then(|numbers| numbers.get(group)) {
            return Some(*number);
        }
        let of_header = || self.ranks.group(gpu.trace, group.name.as_deref()?).map(<[u32]>::to_vec);
        let mut ranks =
            group.ranks.as_deref().and_then(ranks_of_text).filter(|ranks| !ranks.is_empty()).or_else(of_header);
        ranks.iter_mut().for_each(|ranks| ranks.sort_unstable());
        let RecordedGroup { name, description, size, .. } = group.clone();
        let next = self.communicators.len();
        let known = Communicator { ranks, description, name, size, ..Communicator::default() };
        let number = *self.communicators.entry(known).or_insert(next);
        self.numbers.entry(gpu.trace).or_default().insert(group.clone(), number);
        Some(number)
    }

    /// The number is in the record; its copy in the kernel's arguments may lack it.
    fn sequence(&self, set: ArgSetId, row: &KernelLaunch) -> Option<i64> {
        let of_record = || self.number(self.store.slices.args(row.record?), self.keys.sequence);
        self.number(set, self.keys.sequence).or_else(of_record)
    }

    /// The peer of a send or receive, or the root. Only the record has the root; for other collectives it has this rank's own.
    fn peer(&self, set: ArgSetId, row: &KernelLaunch, record: Option<&Record>) -> Option<i64> {
        let other = self.keys.peers.into_iter().find_map(|key| self.number(set, key));
        let has_root = || record.and_then(|record| record.collective).is_some_and(Collective::has_root);
        let root = || self.number(self.store.slices.args(row.record?), self.keys.rank);
        other.or_else(|| if has_root() { root() } else { None })
    }

    /// How data is divided among the ranks. Without lists of parts these are equal.
    fn split(&self, set: ArgSetId) -> Split {
        let text = |key: Option<StringId>| self.store.text_arg(set, key?);
        let split = |text: &str| match ranks_of_text(text) {
            Some(parts) if parts.contains(&0) => Split::Unknown,
            Some(parts) if parts.windows(2).any(|pair| pair[0] != pair[1]) => Split::Uneven,
            Some(_) => Split::Even,
            // Long lists are abbreviated.
            None => Split::Unknown,
        };
        self.keys.splits.into_iter().filter_map(text).map(split).max().unwrap_or_default()
    }

    fn number(&self, set: ArgSetId, key: Option<StringId>) -> Option<i64> {
        self.store.whole_arg(set, key?)
    }
}
