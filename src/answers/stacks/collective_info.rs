//! What the collectives of a stack move: which operation, how much, between which ranks, how fast.
//!
//! This comes from what PyTorch recorded (`attribution::records`). Without a record, as for kernels replayed by a graph, only the names of callers
//! and kernels give some information. Unknown values are counted as unknown, never guessed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::FixedState;
use serde::{Deserialize, Serialize};

use crate::answers::add_up;
use crate::attribution::batches::Batches;
use crate::attribution::call_tree::{CallTree, Climber};
use crate::attribution::launches::{Evidence, Launched};
use crate::attribution::records::{Record, RecordedGroup, Records};
use crate::attribution::{Attribution, KernelLaunch};
use crate::id::{GpuId, SliceId};
use crate::names::collectives::{Collective, Method};
use crate::store::Store;
use crate::store::args::ArgSetId;
use crate::store::strings::StringId;
use crate::time::Ns;

/// What collectives move. Each map has the number of kernels per value; kernels missing from a map are unknown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CollectiveInfo {
    /// Collectives by the names of nccl-tests (`all_reduce`, `all_gather`, `reduce_scatter`, `alltoall`, `broadcast`, `reduce`, `gather`, `scatter`,
    /// `send`, `recv`, `sendrecv`), or as recorded if nccl-tests has no equivalent.
    pub collectives: BTreeMap<String, u64>,
    /// NCCL's algorithms, where kernel names contain them: `RING`, `TREE`, `NVLS`.
    pub algorithms: BTreeMap<String, u64>,
    /// NCCL's protocols, where kernel names contain them.
    #[cfg_attr(test, schemars(extend("propertyNames" = {"enum": ["LL", "LL128", "SIMPLE"]})))]
    pub protocols: BTreeMap<String, u64>,
    /// Element types, by their PyTorch names: `BFloat16`, `Float`.
    pub dtypes: BTreeMap<String, u64>,
    /// Process groups.
    pub groups: Vec<ProcessGroup>,
    /// Sizes in bytes; `None` if none is known.
    pub bytes: Option<Bytes>,
    /// Bandwidths; `None` if no size or no number of ranks is known.
    pub bandwidth: Option<Bandwidth>,
    /// The time of the fastest kernel with this collective, size and number of ranks in all traces, in ns, also outside the window, in another stack
    /// or on another rank: it waited least. `None` if the kernels differ in these, or none carries out a record alone.
    #[cfg_attr(test, schemars(with = "Option<u64>", range(min = 1)))]
    pub fastest_ns: Option<Ns>,
    #[serde(skip)]
    moved: Moved,
}

/// What determines how long a collective takes if no rank waits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Transfer {
    collective: String,
    bytes: u64,
    ranks: Option<u64>,
}

/// The time of the fastest kernel, by transfer.
pub(super) type Fastest = BTreeMap<Transfer, Ns>;

impl CollectiveInfo {
    /// Adds the collectives of the same stack in another trace.
    pub(super) fn add(&mut self, other: CollectiveInfo) {
        let CollectiveInfo { collectives, algorithms, protocols, dtypes, groups, bytes, moved, .. } = other;
        add_up(&mut self.collectives, collectives);
        add_up(&mut self.algorithms, algorithms);
        add_up(&mut self.protocols, protocols);
        add_up(&mut self.dtypes, dtypes);
        for group in groups {
            let is_it =
                |known: &&mut ProcessGroup| ProcessGroup { kernels: group.kernels, ..(*known).clone() } == group;
            match self.groups.iter_mut().find(is_it) {
                Some(known) => known.kernels += group.kernels,
                None => self.groups.push(group),
            }
        }
        self.groups.sort();
        self.bytes = Bytes::sum(self.bytes, bytes);
        self.moved.sum(&moved);
        self.bandwidth = self.moved.bandwidth();
    }

    /// Whether several kernels carry out one collective, such as the copies of a copy engine: then its size is that of all together.
    pub fn is_shared(&self) -> bool {
        self.moved.shared > 0
    }

    /// The transfer of `kernels` kernels, if it is the same for all.
    pub(super) fn transfer(&self, kernels: u64) -> Option<Transfer> {
        let bytes = self.bytes.filter(|of| of.min == of.max && of.kernels == kernels)?.min;
        let ranks: BTreeSet<Option<u64>> = self.groups.iter().map(|group| group.size).collect();
        let (mut names, mut sizes) = (self.collectives.keys(), ranks.into_iter());
        let transfer = Transfer { collective: names.next()?.clone(), bytes, ranks: sizes.next().flatten() };
        (names.next().is_none() && sizes.next().is_none()).then_some(transfer)
    }
}

/// Sizes of collectives in bytes, as nccl-tests counts them: all that a rank gives, or gets if that is more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Bytes {
    /// The smallest, in bytes.
    pub min: u64,
    /// The largest, in bytes.
    pub max: u64,
    /// The number of kernels whose size is known.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub kernels: u64,
}

impl Bytes {
    fn sum(a: Option<Bytes>, b: Option<Bytes>) -> Option<Bytes> {
        let both = a.zip(b).map(|(a, b)| Bytes {
            min: a.min.min(b.min),
            max: a.max.max(b.max),
            kernels: a.kernels + b.kernels,
        });
        both.or(a).or(b)
    }
}

/// A process group.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProcessGroup {
    /// PyTorch's name for it, usually a number.
    pub name: Option<String>,
    /// Its purpose as PyTorch recorded it: `default_pg`, `undefined`.
    pub description: Option<String>,
    /// The number of its ranks.
    pub size: Option<u64>,
    /// Its global ranks, as recorded: `[0, 1, 2, 3]`; a large group has an ellipsis.
    pub ranks: Option<String>,
    /// The number of kernels that belong to it.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub kernels: u64,
}

/// Bandwidths as nccl-tests defines them, in GB/s (10⁹ bytes): the bytes of all kernels divided by their time, which includes waiting for other
/// ranks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Bandwidth {
    /// Size divided by time (algbw), in GB/s.
    pub algorithm_gb_per_s: f64,
    /// The algorithm bandwidth times the collective's factor (busbw), in GB/s: comparable with what links can do, for any number of ranks.
    pub bus_gb_per_s: f64,
    /// The bus bandwidth of the fastest kernel, which waited least for other ranks, in GB/s.
    pub best_bus_gb_per_s: f64,
    /// The number of kernels measured. Those of unknown size or without duration are not, nor those that share a record with other kernels.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub kernels: u64,
}

#[derive(Debug)]
pub struct CollectiveSums<'a> {
    store: &'a Store,
    records: Records<'a>,
    batches: &'a Batches,
    /// The number of chosen kernels with an External id, by GPU and id.
    sharers: HashMap<(GpuId, i64), u64, FixedState>,
    /// The number of kernels without an External id that were launched below a record.
    below: HashMap<SliceId, u64, FixedState>,
    /// Over all kernels summed up or added.
    fastest: Fastest,
}

impl<'a> CollectiveSums<'a> {
    pub fn new(store: &'a Store, kernels: &[Launched], attribution: &'a Attribution) -> Self {
        let records = Records::new(store);
        let (mut sharers, mut below): (HashMap<_, u64, _>, HashMap<_, u64, _>) = Default::default();
        if records.has_any() {
            for kernel in kernels.iter().map(|launched| launched.kernel) {
                if let Some(id) = store.external_id(kernel) {
                    *sharers.entry((store.gpu_of(kernel), id)).or_default() += 1;
                }
            }
        }
        for row in attribution.kernels.iter().filter(|row| store.external_id(row.launched.kernel).is_none()) {
            row.record.into_iter().for_each(|record| *below.entry(record).or_default() += 1);
        }
        CollectiveSums { store, records, batches: &attribution.batches, sharers, below, fastest: Fastest::new() }
    }

    /// The time of the fastest kernel of each transfer, over the kernels so far and those of the trace that are not rows. Both are in order.
    pub(super) fn into_fastest(mut self, kernels: &[Launched], rows: &[KernelLaunch]) -> Fastest {
        if !self.records.has_any() || kernels.len() == rows.len() {
            return self.fastest;
        }
        let mut rows = rows.iter().map(|row| row.launched.kernel).peekable();
        let outside: Vec<&Launched> =
            kernels.iter().filter(|launched| rows.next_if_eq(&launched.kernel).is_none()).collect();
        // Built only if a kernel has no copy of its record.
        let mut climber: Option<(Climber<'_>, CallTree)> = None;
        let mut sets: Vec<(&Launched, Option<SliceId>, ArgSetId)> = Vec::with_capacity(outside.len());
        for launched in outside {
            let mut set = self.records.set_of(launched.kernel, None);
            let call = launched.call.filter(|_| set == ArgSetId::NONE && launched.evidence != Evidence::GraphReplay);
            let record = call.and_then(|call| {
                let (climber, tree) =
                    climber.get_or_insert_with(|| (Climber::new(self.store, false), CallTree::default()));
                climber.launch(tree, call).record
            });
            if let Some(record) = record {
                set = self.records.set_of(launched.kernel, Some(record));
                if self.store.external_id(launched.kernel).is_none() {
                    *self.below.entry(record).or_default() += 1;
                }
            }
            sets.push((launched, record, set));
        }
        for (launched, record, set) in sets {
            let Some(of) = self.records.get(set) else { continue };
            let time = launched.gpu_time(self.store);
            if time > Ns::ZERO && !self.is_shared(launched.kernel, record) {
                self.note_time(&of, time);
            }
        }
        self.fastest
    }

    /// Notes how long a kernel of a record took.
    fn note_time(&mut self, record: &Record, time: Ns) {
        let Some(bytes) = record.bytes else { return };
        let name = record.collective.map(Collective::name).or(record.name.as_deref()).unwrap_or_default();
        let transfer = Transfer { collective: name.to_owned(), bytes, ranks: record.group.size };
        self.fastest.entry(transfer).and_modify(|known| *known = time.min(*known)).or_insert(time);
    }

    /// Sums up the collectives of kernels. `called` is the collective that their callers name. Kernels with the same name and record, as most have,
    /// are processed together.
    pub fn summarise(&mut self, called: Option<Collective>, kernels: &[&KernelLaunch]) -> CollectiveInfo {
        let mut alike: HashMap<AlikeKey, Alike, FixedState> = HashMap::default();
        let mut last: Option<(AlikeKey, Alike)> = None;
        for row in kernels {
            let kernel = row.launched.kernel;
            let key = (self.store.slices.name(kernel), self.records.set_of(kernel, row.record), row.is_batch);
            let is_shared = row.is_batch || self.is_shared(kernel, row.record);
            match &mut last {
                Some((known, alike)) if *known == key => alike.add(row.gpu_time, is_shared),
                _ => {
                    alike.extend(last.take());
                    let mut of_key = alike.remove(&key).unwrap_or_default();
                    of_key.add(row.gpu_time, is_shared);
                    last = Some((key, of_key));
                }
            }
        }
        alike.extend(last);
        let mut info = self.sum_up(called, alike);
        for first in kernels.iter().filter(|row| row.is_batch).filter_map(|row| row.record) {
            if let Some(bytes) = self.records.bytes_of_batch(self.batches.records(first)) {
                info.bytes = Bytes::sum(info.bytes, Some(Bytes { min: bytes, max: bytes, kernels: 1 }));
            }
        }
        info
    }

    fn sum_up(&mut self, called: Option<Collective>, alike: HashMap<AlikeKey, Alike, FixedState>) -> CollectiveInfo {
        let mut info = CollectiveInfo::default();
        let mut groups: BTreeMap<ProcessGroup, u64> = BTreeMap::new();
        for ((name, set, is_batch), alike) in alike {
            let name = self.store.strings.get(name).unwrap_or_default();
            let Method { algorithm, protocol } = Method::of_kernel(name);
            count(&mut info.algorithms, algorithm, alike.kernels);
            count(&mut info.protocols, protocol, alike.kernels);
            let Some(record) = self.records.get(set) else {
                // Older NCCL kernels can carry out any collective, so their names are less specific.
                let collective = called.or_else(|| Collective::of_kernel(name));
                count(&mut info.collectives, collective.map(Collective::name), alike.kernels);
                continue;
            };
            let recorded = if is_batch { Some(Collective::SendRecv) } else { record.collective };
            let collective = recorded.map(Collective::name).or(record.name.as_deref());
            count(&mut info.collectives, collective, alike.kernels);
            count(&mut info.dtypes, record.dtype.as_deref(), alike.kernels);
            if record.group != RecordedGroup::default() {
                let RecordedGroup { name, description, size, ranks } = record.group.clone();
                *groups.entry(ProcessGroup { name, description, size, ranks, kernels: 0 }).or_default() +=
                    alike.kernels;
            }
            // Of several sends and receives this is the size of one.
            let Some(bytes) = record.bytes.filter(|_| !is_batch) else { continue };
            if alike.timed > 0 {
                self.note_time(&record, alike.least);
            }
            info.moved.shared += alike.shared;
            info.bytes = Bytes::sum(info.bytes, Some(Bytes { min: bytes, max: bytes, kernels: alike.kernels }));
            if let (Some(collective), Some(ranks)) = (record.collective, record.group.size) {
                info.moved.add(bytes, &alike, collective.bus_factor(ranks));
            }
        }
        info.groups = groups.into_iter().map(|(group, kernels)| ProcessGroup { kernels, ..group }).collect();
        info.bandwidth = info.moved.bandwidth();
        info
    }

    /// Whether several kernels carry out one record.
    fn is_shared(&self, kernel: SliceId, record: Option<SliceId>) -> bool {
        let sharers = match (self.store.external_id(kernel), record) {
            (Some(id), _) => self.sharers.get(&(self.store.gpu_of(kernel), id)),
            (None, Some(record)) => self.below.get(&record),
            (None, None) => None,
        };
        sharers.is_some_and(|kernels| *kernels > 1)
    }
}

fn count(values: &mut BTreeMap<String, u64>, value: Option<&str>, kernels: u64) {
    if let Some(value) = value {
        *values.entry(value.to_owned()).or_default() += kernels;
    }
}

/// The name of a kernel, its record, and whether that is one of several.
type AlikeKey = (StringId, ArgSetId, bool);

/// Kernels with the same name and record.
#[derive(Debug, Default)]
struct Alike {
    kernels: u64,
    /// Those that do not carry out a record alone.
    shared: u64,
    /// The kernels that took time and carry out a record alone: their number, total time and shortest time.
    timed: u64,
    time: Ns,
    least: Ns,
}

impl Alike {
    fn add(&mut self, gpu_time: Ns, is_shared: bool) {
        self.kernels += 1;
        self.shared += u64::from(is_shared);
        if gpu_time > Ns::ZERO && !is_shared {
            self.least = if self.timed == 0 { gpu_time } else { self.least.min(gpu_time) };
            self.timed += 1;
            self.time += gpu_time;
        }
    }
}

/// Bytes moved, and the time this took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Moved {
    bytes: f64,
    bus_bytes: f64,
    nanos: f64,
    best: f64,
    kernels: u64,
    /// The kernels of known size that carry out a collective together with others.
    #[serde(default)]
    shared: u64,
}

impl Moved {
    /// One byte per nanosecond is 10⁹ bytes per second.
    fn add(&mut self, each: u64, alike: &Alike, factor: f64) {
        if alike.timed == 0 {
            return;
        }
        let bytes = each as f64 * alike.timed as f64;
        self.bytes += bytes;
        self.bus_bytes += bytes * factor;
        self.nanos += alike.time.as_f64();
        self.best = self.best.max(each as f64 * factor / alike.least.as_f64());
        self.kernels += alike.timed;
    }

    fn sum(&mut self, other: &Moved) {
        self.bytes += other.bytes;
        self.bus_bytes += other.bus_bytes;
        self.nanos += other.nanos;
        self.best = self.best.max(other.best);
        self.kernels += other.kernels;
        self.shared += other.shared;
    }

    fn bandwidth(&self) -> Option<Bandwidth> {
        (self.kernels > 0).then(|| Bandwidth {
            algorithm_gb_per_s: self.bytes / self.nanos,
            bus_gb_per_s: self.bus_bytes / self.nanos,
            best_bus_gb_per_s: self.best,
            kernels: self.kernels,
        })
    }
}

/// Serialises also the fields that an answer does not show but a merge needs.
pub(super) mod stored {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{CollectiveInfo, Moved};

    pub(in super::super) fn serialize<S: Serializer>(info: &CollectiveInfo, serializer: S) -> Result<S::Ok, S::Error> {
        (info, info.moved).serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<CollectiveInfo, D::Error> {
        let (info, moved): (CollectiveInfo, Moved) = Deserialize::deserialize(deserializer)?;
        Ok(CollectiveInfo { moved, ..info })
    }
}
