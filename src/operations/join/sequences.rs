//! Operations in the order of their communicator and rank, on both sides of a join.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use crate::attribution::operations::Operations;
use crate::id::{RankId, TraceId};
use crate::names::collectives::Collective;
use crate::operation::{Communicator, Counts, Operation, Source};
use crate::records::Records;

/// The operations of a communicator on a rank of a trace.
pub(super) struct TraceSequence<'a> {
    pub(super) rank: Option<RankId>,
    pub(super) communicator: Option<&'a Communicator>,
    /// In the order of starts.
    pub(super) kernels: Vec<&'a Operation>,
}

impl<'a> TraceSequence<'a> {
    pub(super) fn all(operations: &'a Operations) -> Vec<Self> {
        type Key = (Option<TraceId>, Option<RankId>, Option<usize>);
        let mut found: BTreeMap<Key, Vec<&Operation>> = BTreeMap::new();
        for operation in &operations.rows {
            let key = (operation.gpu.map(|gpu| gpu.trace), operation.rank, operation.communicator);
            found.entry(key).or_default().push(operation);
        }
        let sequence = |((_, rank, communicator), kernels): (Key, Vec<&'a Operation>)| {
            let communicator = communicator.and_then(|at| operations.communicators.get(at));
            TraceSequence { rank, communicator, kernels }
        };
        found.into_iter().map(sequence).collect()
    }
}

/// The operations of a communicator and rank in a file of records.
pub(super) struct RecordSequence<'a> {
    pub(super) source: Source,
    pub(super) file: u32,
    pub(super) communicator: Option<&'a Communicator>,
    pub(super) rank: Option<RankId>,
    pub(super) place: Option<u32>,
    /// Positions among the operations of the records, in their order, and these.
    pub(super) rows: Vec<usize>,
    pub(super) operations: Vec<&'a Operation>,
}

impl<'a> RecordSequence<'a> {
    pub(super) fn all(records: &'a Records) -> Vec<Self> {
        type Key = (Source, u32, Option<usize>, Option<RankId>, Option<u32>, Option<u64>);
        let mut found: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
        for (row, operation) in records.operations.iter().enumerate() {
            let Operation { source, rank, communicator, place, stream_handle, .. } = *operation;
            // Without groups a stream is what keeps sequences apart.
            let stream = stream_handle.filter(|_| communicator.is_none());
            let file = records.file_of.get(row).copied().unwrap_or_default();
            found.entry((source, file, communicator, rank, place, stream)).or_default().push(row);
        }
        let sequence = |((source, file, communicator, rank, place, _), mut rows): (Key, Vec<usize>)| {
            let time = |row: &usize| records.operations[*row].enqueued.or(records.operations[*row].start);
            if rows.iter().all(|row| time(row).is_some()) {
                rows.sort_by_key(time);
            }
            let operations = rows.iter().map(|row| &records.operations[*row]).collect();
            let communicator = communicator.and_then(|at| records.communicators.get(at));
            RecordSequence { source, file, communicator, rank, place, rows, operations }
        };
        found.into_iter().map(sequence).collect()
    }
}

/// Whether a record may be of a sequence of a trace.
pub(super) enum Likeness {
    /// Nothing that both sides know contradicts that they are the same communicator and rank.
    Same,
    /// Nothing but the place within the communicator does: then the record is of another rank.
    OtherPlace,
    Other,
}

impl Likeness {
    pub(super) fn of(trace: &TraceSequence<'_>, record: &RecordSequence<'_>) -> Self {
        let differ = |a: Option<u64>, b: Option<u64>| matches!((a, b), (Some(a), Some(b)) if a != b);
        let number = |rank: Option<RankId>| rank.map(|rank| u64::from(rank.0));
        if differ(number(trace.rank), number(record.rank)) {
            return Likeness::Other;
        }
        let (Some(group), Some(known)) = (trace.communicator, record.communicator) else { return Likeness::Same };
        if differ(group.rank_count(), known.rank_count())
            || matches!((&group.ranks, &known.ranks), (Some(a), Some(b)) if a != b)
            || matches!((&group.description, &known.description), (Some(a), Some(b)) if a != b)
        {
            return Likeness::Other;
        }
        let place = || {
            let rank = trace.rank?.0;
            group.ranks.as_ref()?.iter().position(|of| *of == rank).map(|place| place as u64)
        };
        if differ(place(), record.place.map(u64::from)) { Likeness::OtherPlace } else { Likeness::Same }
    }
}

/// The size of an operation, as it is compared.
pub(super) type SizeOf = fn(&Operation) -> Option<u64>;

/// The size that all of some records have: the count that NCCL was given, or bytes.
pub(super) fn size_of(operations: &[&Operation]) -> SizeOf {
    let has = |of: &SizeOf| operations.iter().all(|operation| of(operation).is_some());
    let sizes: [SizeOf; 2] = [count_of, |operation| operation.bytes];
    sizes.into_iter().find(has).unwrap_or(|_| None)
}

/// The count that NCCL was given for a collective of these elements.
fn count_of(operation: &Operation) -> Option<u64> {
    match operation.known_collective() {
        Some(Collective::ReduceScatter | Collective::Scatter | Collective::Recv) => operation.out_elements,
        _ => operation.in_elements.or(operation.out_elements),
    }
}

/// The name of a collective on both sides: sends and receives share kernels, and so one name.
pub(super) fn word(operation: &Operation) -> Option<&'static str> {
    let collective = operation.known_collective()?;
    Some(if collective.is_point_to_point() { Collective::SendRecv.name() } else { collective.name() })
}

/// Which times of records are compared with which of kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    /// The end on the GPU, or as the CPU saw it.
    End,
    /// PyTorch's own record of the call, which a trace has, too.
    Record,
    /// NCCL's function: with the call that launched the kernel.
    Call,
    Nothing,
}

/// Which times most of some records have. A flight recorder sees starts and ends late, when its watchdog looks.
pub(super) fn anchor(record: &RecordSequence<'_>) -> Anchor {
    let with =
        |has: fn(&&&Operation) -> bool| 2 * record.operations.iter().filter(has).count() > record.operations.len();
    if record.source != Source::FLIGHT_RECORDER && with(|operation| operation.end.is_some()) {
        Anchor::End
    } else if with(|operation| operation.enqueued.is_some()) {
        if record.source == Source::FLIGHT_RECORDER { Anchor::Record } else { Anchor::Call }
    } else {
        Anchor::Nothing
    }
}

/// The time of an operation, in ns; of a kernel the same as of a record.
pub(super) fn time_of(operation: &Operation, anchor: Anchor) -> Option<i64> {
    let time = match anchor {
        Anchor::End => operation.end,
        Anchor::Record => operation.enqueued.or(operation.launched),
        Anchor::Call => operation.launched.or(operation.enqueued),
        Anchor::Nothing => None,
    };
    time.map(|time| time.0)
}

/// From the first to the last of some operations with a time in a span; all of them if none has.
pub(super) fn within(operations: &[&Operation], anchor: Anchor, span: RangeInclusive<i64>) -> Range<usize> {
    let is_inside = |of: &&Operation| time_of(of, anchor).is_some_and(|time| span.contains(&time));
    let ends = operations.iter().position(is_inside).zip(operations.iter().rposition(is_inside));
    ends.map_or(0..operations.len(), |(start, end)| start..end + 1)
}

pub(super) fn is_numbered(operations: &[&Operation]) -> bool {
    operations.iter().all(|operation| operation.counts == Counts::Function && operation.sequence.is_some())
}
