//! Calls of NCCL by rank and stream, in the order of their times.

pub mod groups;
pub mod host_clocks;
pub mod layout;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::alignment::{by_number, by_order};
use super::communicators::Communicators;
use super::recorded_ranks::RecordedRanks;
use crate::numbers::Numbers;
use crate::operation::{Counts, Operation, Source};
use crate::records::Records;
use crate::time::Ns;

/// Calls with fewer elements than this are barriers, flags or lengths, not data.
const CONTROL: u64 = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// When NCCL was entered.
    pub time: Ns,
    /// What was called: a position in the kinds.
    pub kind: u32,
    /// Its number on the stream or in the communicator.
    pub number: Option<i64>,
    /// How long it took on the GPU, of a collective that ends on all ranks at once: the sooner a rank is there, the longer it takes.
    pub took: Option<Ns>,
}

/// A function with its number of elements.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CallKind {
    pub collective: Option<Arc<str>>,
    /// What this rank gives.
    pub in_elements: Option<u64>,
    pub out_elements: Option<u64>,
}

impl CallKind {
    pub fn is_point_to_point(&self) -> bool {
        matches!(self.collective.as_deref(), Some("send" | "recv" | "sendrecv"))
    }

    /// Whether it is too small to be data: a barrier or a flag.
    pub fn is_control(&self) -> bool {
        self.in_elements.or(self.out_elements).is_some_and(|elements| elements < CONTROL)
    }
}

/// The calls of a rank on a stream, or in a communicator where the source names it.
#[derive(Debug, Clone, Default)]
pub struct Stream {
    pub rank: u32,
    /// The handle of the stream; of a communicator that of its first call.
    pub handle: Option<u64>,
    /// The communicator: a position among those of the records, each counted once.
    pub communicator: Option<usize>,
    pub calls: Vec<Call>,
}

impl Stream {
    /// The calls that both streams have, as positions in each: by number where both have numbers, otherwise by order.
    pub(super) fn pairs(&self, other: &Stream) -> Vec<(usize, usize)> {
        let is_same = |a: &Call, b: &Call| a.kind == b.kind;
        let numbered = by_number(&self.calls, &other.calls, |call| call.number, is_same);
        numbered.unwrap_or_else(|| by_order(&self.calls, &other.calls, is_same))
    }
}

#[derive(Debug, Clone, Default)]
pub struct Calls {
    pub kinds: Vec<CallKind>,
    /// The ranks, ascending.
    pub ranks: Vec<u32>,
    /// By rank, as far as it is known: its host.
    pub hosts: BTreeMap<u32, String>,
    /// By rank, then by the time of the first call.
    pub streams: Vec<Stream>,
    pub calls: u64,
    /// How many were left out because their rank is unknown.
    pub without_rank: u64,
    /// How many were left out because another source recorded more.
    pub of_other_sources: u64,
}

impl Calls {
    /// The calls among some records: operations whose call has a time.
    pub fn from_records(records: &Records) -> Self {
        let mut calls = Calls::default();
        let mut kinds: Numbers<CallKind> = Numbers::default();
        let mut streams: HashMap<(u32, Option<usize>, Option<u64>), usize> = HashMap::new();
        let owners = RecordedRanks::find(records);
        let ranks: Vec<Option<u32>> = (0..records.operations.len()).map(|at| owners.rank(records, at)).collect();
        let users = users(records, &ranks, &owners.communicators);
        let source = fullest(records, &ranks);
        for (operation, rank) in records.operations.iter().zip(ranks) {
            let Some(time) = operation.enqueued.filter(|_| !operation.did_not_run) else { continue };
            let Some(rank) = rank else {
                calls.without_rank += 1;
                continue;
            };
            if Some(operation.source) != source {
                calls.of_other_sources += 1;
                continue;
            }
            let Operation { collective, in_elements, out_elements, .. } = operation;
            let (collective, in_elements, out_elements) = (collective.clone(), *in_elements, *out_elements);
            let kind = kinds.number(CallKind { collective, in_elements, out_elements });
            let communicator = owners.communicators.of_operation(operation);
            let handle = operation.stream_handle.filter(|_| communicator.is_none());
            let at = *streams.entry((rank, communicator, handle)).or_insert_with(|| {
                let handle = operation.stream_handle;
                calls.streams.push(Stream { rank, handle, communicator, calls: Vec::new() });
                calls.streams.len() - 1
            });
            // Numbers of one collective each, or of a stream that several communicators use, do not say which call is which.
            let is_ordering = match operation.counts {
                Counts::Function => false,
                Counts::Stream => users.get(&(rank, operation.stream_handle)) == Some(&Some(communicator)),
                Counts::Group | Counts::Communicator | Counts::Collectives => true,
            };
            let number = operation.sequence.filter(|_| is_ordering);
            let is_of_all = operation.known_collective().is_some_and(|of| !of.has_root() && !of.is_point_to_point());
            let took = operation.duration.filter(|_| is_of_all);
            calls.streams[at].calls.push(Call { time, kind, number, took });
            calls.calls += 1;
        }
        calls.streams.iter_mut().for_each(|stream| stream.calls.sort_by_key(|call| call.time));
        calls.streams.sort_by_key(|stream| (stream.rank, stream.calls.first().map(|call| call.time), stream.handle));
        calls.kinds = kinds.list;
        calls.ranks = calls.streams.iter().map(|stream| stream.rank).collect();
        calls.ranks.dedup();
        for status in &records.rank_status {
            if let (Some(rank), Some(host)) = (status.rank.map(|rank| rank.0), &status.host) {
                calls.hosts.insert(rank, host.clone());
            }
        }
        calls
    }

    /// Calls that several streams have, as rows: when each of the streams enters, `None` where it lacks the call. Of many calls so many are
    /// taken, evenly.
    pub(super) fn rows(&self, streams: &[usize], most: usize) -> Vec<Vec<Option<Ns>>> {
        self.rows_of(streams, most, |call| Some(call.time))
    }

    /// The same for any value of a call.
    pub(super) fn rows_of(
        &self,
        streams: &[usize],
        most: usize,
        value: impl Fn(&Call) -> Option<Ns>,
    ) -> Vec<Vec<Option<Ns>>> {
        let streams: Vec<&Stream> = streams.iter().map(|at| &self.streams[*at]).collect();
        let Some(reference) = streams.iter().copied().max_by_key(|stream| stream.calls.len()) else {
            return Vec::new();
        };
        let step = reference.calls.len().div_ceil(most).max(1);
        let mut rows = vec![vec![None; streams.len()]; reference.calls.len().div_ceil(step)];
        for (member, stream) in streams.iter().enumerate() {
            for (of_reference, own) in reference.pairs(stream) {
                if of_reference.is_multiple_of(step) {
                    rows[of_reference / step][member] = value(&stream.calls[own]);
                }
            }
        }
        rows
    }

    /// Whether all calls of a stream are of a kind.
    pub(super) fn all(&self, stream: &Stream, is: fn(&CallKind) -> bool) -> bool {
        stream.calls.iter().all(|call| is(&self.kinds[call.kind as usize]))
    }
}

/// The source with the most calls of known rank. Sources name communicators and streams differently, so one call would count twice.
fn fullest(records: &Records, ranks: &[Option<u32>]) -> Option<Source> {
    let mut calls: BTreeMap<Source, u64> = BTreeMap::new();
    for (operation, rank) in records.operations.iter().zip(ranks) {
        if operation.enqueued.is_some() && rank.is_some() && !operation.did_not_run {
            *calls.entry(operation.source).or_default() += 1;
        }
    }
    calls.into_iter().max_by_key(|(source, calls)| (*calls, std::cmp::Reverse(*source))).map(|(source, _)| source)
}

/// By rank and stream: the communicator that uses it; `None` if there are several.
type Users = HashMap<(u32, Option<u64>), Option<Option<usize>>>;

fn users(records: &Records, ranks: &[Option<u32>], communicators: &Communicators) -> Users {
    let mut users = Users::new();
    for (operation, rank) in records.operations.iter().zip(ranks).filter(|(of, _)| of.counts == Counts::Stream) {
        if let Some(rank) = rank {
            let communicator = communicators.of_operation(operation);
            let user = users.entry((*rank, operation.stream_handle)).or_insert(Some(communicator));
            *user = user.filter(|user| *user == communicator);
        }
    }
    users
}
