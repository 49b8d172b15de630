//! The rank of each trace in the job, and the ranks of its process groups.
//!
//! The header has both if the profiler knew them (`distributedInfo`). Otherwise they come from the records of collectives, and last from the name
//! of the file, by which people distinguish their ranks.
//!
//! People merge the traces of several ranks into one file. They keep the processes apart: other numbers (torch's `profile_analysis --combine`),
//! texts for numbers (SGLang: `[TP03] 4711`), names (`RANK 3 - GPU`), an argument `rank` on each event. The header, if one is kept, is
//! that of one rank, and so is nothing in such a file.

use std::collections::{BTreeSet, HashMap};

use super::KernelLaunch;
use crate::event::ArgValue;
use crate::id::{ProcessId, RankId, SliceId, TraceId};
use crate::names::args::{COLLECTIVE, GROUP_RANKS, MERGED_RANK, RANK};
use crate::names::collectives::Collective;
use crate::names::ranks::{rank_of_file, ranks_of_text};
use crate::store::Store;
use crate::store::strings::StringId;
use crate::store::traces::Trace;

/// The ranks of kernels, and of process groups.
#[derive(Debug)]
pub(crate) struct Ranks<'a> {
    store: &'a Store,
    keys: Keys,
    traces: Vec<OfTrace>,
    /// By launching process: its rank according to its records; by GPU, according to the arguments of its kernels. `None` if they disagree.
    processes: HashMap<ProcessId, Option<RankId>>,
}

/// The keys of records' arguments, if the trace has them.
#[derive(Debug)]
struct Keys {
    collective: Option<StringId>,
    ranks: Option<StringId>,
    rank: Option<StringId>,
}

/// What a record says of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Recorded {
    collective: Option<StringId>,
    /// The ranks of its group.
    listed: StringId,
    place: i64,
}

#[derive(Debug, Default)]
struct OfTrace {
    rank: Option<RankId>,
    file_rank: Option<RankId>,
    /// Whether several ranks are in it. Then the header and the name of the file are not about all of it.
    is_merged: bool,
    /// By name of the process group.
    groups: HashMap<String, Vec<u32>>,
}

/// The keys of `distributedInfo.pg_config[i]` for one group.
#[derive(Debug, Default)]
struct Config {
    name: Option<String>,
    ranks: Vec<u32>,
}

impl<'a> Ranks<'a> {
    /// The ranks of a store and of kernels with their records.
    pub(crate) fn find(store: &'a Store, kernels: &[KernelLaunch]) -> Self {
        let key = |key| store.arg_key(key);
        let keys = Keys { collective: key(COLLECTIVE), ranks: key(GROUP_RANKS), rank: key(RANK) };
        let mut ranks = Ranks { store, keys, traces: of_header(store), processes: HashMap::new() };
        let argument = store.arg_key(MERGED_RANK);
        let argued = kernels.iter().filter_map(|row| {
            let rank = store.whole_arg(store.slices.args(row.launched.kernel), argument?)?;
            Some((row.launched.kernel, RankId(u32::try_from(rank).ok()?)))
        });
        let records: BTreeSet<SliceId> = kernels.iter().filter_map(|row| row.record).collect();
        let mut known: HashMap<Recorded, Option<RankId>> = HashMap::new();
        let recorded = records.into_iter().filter_map(|slice| {
            let recorded = ranks.record(slice)?;
            Some((slice, (*known.entry(recorded).or_insert_with(|| ranks.recorded(recorded)))?))
        });
        for (slice, rank) in argued.chain(recorded).collect::<Vec<_>>() {
            let Some(process) = store.process_of(slice) else { continue };
            let known = ranks.processes.entry(process).or_insert(Some(rank));
            *known = known.filter(|known| *known == rank);
        }
        ranks.separate();
        ranks
    }

    /// Finds the traces of several ranks: of several processes that call the runtime, or whose ranks differ. The profiler records only its own.
    fn separate(&mut self) {
        let store = self.store;
        let trace_of = |process: ProcessId| store.tracks.process(process).trace;
        let callers: Vec<TraceId> = store.calling_processes().into_iter().map(trace_of).collect();
        let known: BTreeSet<(TraceId, RankId)> =
            self.processes.iter().filter_map(|(process, rank)| Some((trace_of(*process), (*rank)?))).collect();
        for (trace, of) in (0..).map(TraceId).zip(&mut self.traces) {
            of.is_merged = callers.iter().filter(|of| **of == trace).nth(1).is_some()
                || known.iter().filter(|(of, _)| *of == trace).nth(1).is_some();
            if of.is_merged {
                (of.rank, of.file_rank) = (None, None);
            }
        }
    }

    /// The rank that ran a kernel: from the header; else from its arguments; else from its record or other records of the process that launched it;
    /// else from the name of this process, or of the GPU; else from the name of the file. `None` if none of them has it.
    pub(crate) fn of_kernel(&self, row: &KernelLaunch) -> Option<RankId> {
        let trace = self.traces.get(self.store.trace_of(row.launched.kernel).row())?;
        let of_record = || row.record.and_then(|slice| self.recorded(self.record(slice)?));
        let of_process = || {
            let process = self.store.process_of(row.launched.call?)?;
            *self.processes.get(&process)?
        };
        let of_arguments = || *self.processes.get(&self.store.process_of(row.launched.kernel)?)?;
        let named = |slice: SliceId| self.store.rank_in_name(self.store.process_of(slice)?).map(RankId);
        // A trace of one rank may have this name for all GPUs of the host.
        let of_name = || row.launched.call.and_then(named).or_else(|| named(row.launched.kernel));
        let known = trace.rank.or_else(of_arguments).or_else(of_record).or_else(of_process);
        known.or_else(of_name).or(trace.file_rank)
    }

    /// Whether several ranks are in a trace.
    pub(crate) fn is_merged(&self, trace: TraceId) -> bool {
        self.traces.get(trace.row()).is_some_and(|of| of.is_merged)
    }

    /// The global ranks of a process group, as the header lists them.
    pub(crate) fn group(&self, trace: TraceId, name: &str) -> Option<&[u32]> {
        self.traces.get(trace.row())?.groups.get(name).map(Vec::as_slice)
    }

    pub(crate) fn of_header(&self, trace: TraceId) -> Option<RankId> {
        self.traces.get(trace.row())?.rank
    }

    /// The rank in the name of a trace's file.
    pub(crate) fn of_file(&self, trace: TraceId) -> Option<RankId> {
        self.traces.get(trace.row())?.file_rank
    }

    /// The rank in the records of the process that launched a kernel.
    pub(crate) fn of_records(&self, row: &KernelLaunch) -> Option<RankId> {
        *self.processes.get(&self.store.process_of(row.launched.call?)?)?
    }

    /// What a `record_param_comms` says of ranks.
    fn record(&self, slice: SliceId) -> Option<Recorded> {
        let set = self.store.slices.args(slice);
        let text = |key: Option<StringId>| match self.store.args.get(set, key?) {
            Some(ArgValue::Text(text)) => Some(text),
            _ => None,
        };
        let (collective, listed) = (text(self.keys.collective), text(self.keys.ranks)?);
        Some(Recorded { collective, listed, place: self.store.whole_arg(set, self.keys.rank?)? })
    }

    /// The global rank of a `record_param_comms`. Its `Rank` is an index in the group's list of ranks (`ProcessGroupNCCL::getRank`); for
    /// collectives with a root it is the root's (`opts.rootRank`), and for a send or receive the peer's.
    fn recorded(&self, Recorded { collective, listed, place }: Recorded) -> Option<RankId> {
        let text = |id: StringId| self.store.strings.get(id);
        let is_of_another = |of: Collective| of.has_root() || of.is_point_to_point();
        if collective.and_then(text).and_then(Collective::of_record).is_some_and(is_of_another) {
            return None;
        }
        ranks_of_text(text(listed)?)?.get(usize::try_from(place).ok()?).copied().map(RankId)
    }
}

/// The rank of a trace: from its header, else from the name of its file.
pub fn rank_of_trace(store: &Store, trace: TraceId) -> Option<RankId> {
    let ranks = Ranks::find(store, &[]);
    ranks.of_header(trace).or_else(|| ranks.of_file(trace))
}

/// The ranks and groups in the headers, by trace.
fn of_header(store: &Store) -> Vec<OfTrace> {
    let of_file = |trace: &Trace| OfTrace { file_rank: rank_of_file(&trace.file).map(RankId), ..OfTrace::default() };
    let mut traces: Vec<OfTrace> = store.traces.iter().map(of_file).collect();
    let mut configs: HashMap<(TraceId, &str), Config> = HashMap::new();
    for field in &store.header {
        let Some(key) = field.key.strip_prefix("distributedInfo.") else { continue };
        if let Some((group, key)) = key.strip_prefix("pg_config[").and_then(|rest| rest.split_once("].")) {
            configs.entry((field.trace, group)).or_default().take(key, &field.value);
        } else if let (Some(trace), "rank") = (traces.get_mut(field.trace.row()), key) {
            trace.rank = number(&field.value).map(RankId);
        }
    }
    for ((trace, _), Config { name, ranks }) in configs {
        if let (Some(trace), Some(name), false) = (traces.get_mut(trace.row()), name, ranks.is_empty()) {
            trace.groups.insert(name, ranks);
        }
    }
    traces
}

impl Config {
    /// `pg_name`, and `ranks[0]`, `ranks[1]` …, or `ranks` as text.
    fn take(&mut self, key: &str, value: &ArgValue<String>) {
        match (key, value) {
            ("pg_name", ArgValue::Text(name)) => self.name = Some(name.clone()),
            ("pg_name", ArgValue::Int(name)) => self.name = Some(name.to_string()),
            ("ranks", ArgValue::Text(ranks)) => self.ranks = ranks_of_text(ranks).unwrap_or_default(),
            (key, value) if key.starts_with("ranks[") => self.ranks.extend(number(value)),
            _ => {}
        }
    }
}

fn number(value: &ArgValue<String>) -> Option<u32> {
    value.whole(|text| Some(text.as_str())).and_then(|number| u32::try_from(number).ok())
}
