//! Which record is of which kernel: NCCL's own records beside a trace say what the trace does not, the algorithm, the protocol, the
//! channels and what the proxy threads waited for.
//!
//! No id connects the two. What is equal is the order of the operations of a communicator on a rank, their collectives, types and sizes; what
//! nearly agrees, up to one offset between the clocks of a trace and of a source, are their times. So each sequence of records (one
//! source, file, communicator and rank) is aligned with the sequences of the trace that it may be, and belongs to the one that it fits
//! best, if there is one. What cannot be joined is counted with its reason.

mod fit;
mod sequences;

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::attribution::operations::Operations;
use crate::id::{RankId, SliceId};
use crate::operation::Source;
use crate::records::Records;
use crate::time::Ns;
use fit::Fit;
use sequences::{OfRecords, OfTrace};

/// Why a record has no kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Unjoined {
    /// No group of the trace has such operations.
    NoGroup,
    /// Several groups of the trace fit equally well.
    SeveralGroups,
    /// Its group is joined. It comes before the first of these kernels, or after the last.
    BesideTrace,
    /// Its group is joined, and the trace has no such kernel at its place.
    NoKernel,
    /// There is a kernel at its place, and their times are too far apart.
    OtherTime,
}

impl Unjoined {
    /// As a sentence says it: `12 records: …`.
    pub fn phrase(self) -> &'static str {
        match self {
            Unjoined::NoGroup => "no process group of the trace has these operations",
            Unjoined::SeveralGroups => "several process groups of the trace fit equally well",
            Unjoined::BesideTrace => "they come before or after what the trace covers",
            Unjoined::NoKernel => "the trace has no kernel at their place",
            Unjoined::OtherTime => "the kernel at their place ran at another time",
        }
    }

    /// Its name in SQL and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Unjoined::NoGroup => "no-group",
            Unjoined::SeveralGroups => "several-groups",
            Unjoined::BesideTrace => "beside-trace",
            Unjoined::NoKernel => "no-kernel",
            Unjoined::OtherTime => "other-time",
        }
    }
}

/// How the records of a file fit a process group of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JoinedGroup {
    /// The source.
    #[serde(serialize_with = "name_of")]
    pub source: Source,
    /// The file.
    pub file: String,
    /// The rank of the trace.
    pub rank: Option<RankId>,
    /// The process group of the trace.
    pub group: Option<String>,
    /// How many records are joined.
    pub joined: u64,
    /// How many it has.
    pub records: u64,
    /// How far the source's clock is ahead of the trace's: the median of all pairs. `None` for a source without times.
    #[serde(rename = "offset_ns")]
    pub offset: Option<Ns>,
    /// How far the pairs are from that: the median of the distances.
    #[serde(rename = "deviation_ns")]
    pub deviation: Option<Ns>,
}

fn name_of<S: serde::Serializer>(source: &Source, serializer: S) -> Result<S::Ok, S::Error> {
    source.name().serialize(serializer)
}

/// Which record is of which kernel.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Joined {
    /// By operation of the records: its kernel, or why it has none.
    pub kernels: Vec<Option<Result<SliceId, Unjoined>>>,
    /// By kernel: the operations of the records that are of it, in the order of the records.
    pub records: HashMap<SliceId, Vec<usize>>,
    /// The groups that fit.
    pub groups: Vec<JoinedGroup>,
}

impl Joined {
    /// Joins the operations of a trace, or of several, with records.
    pub fn of(operations: &Operations, records: &Records) -> Self {
        let mut joined = Joined { kernels: vec![None; records.operations.len()], ..Joined::default() };
        let of_trace = OfTrace::all(operations);
        let of_records = OfRecords::all(records);
        for fit in fit::assign(operations, &of_trace, records, &of_records) {
            joined.take(operations, records, &of_trace, &of_records, fit);
        }
        for (at, kernel) in joined.kernels.iter().enumerate() {
            if let Some(Ok(kernel)) = kernel {
                joined.records.entry(*kernel).or_default().push(at);
            }
        }
        joined
    }

    fn take(
        &mut self,
        operations: &Operations,
        records: &Records,
        of_trace: &[OfTrace],
        of_records: &[OfRecords],
        fit: Fit,
    ) {
        let own = &of_records[fit.records];
        let Some(best) = fit.best else {
            own.rows.iter().for_each(|row| self.kernels[*row] = Some(Err(fit.otherwise)));
            return;
        };
        let trace = &of_trace[best.trace];
        let (first, last) = (best.pairs.first().map(|pair| pair.1), best.pairs.last().map(|pair| pair.1));
        for (place, row) in own.rows.iter().enumerate() {
            let beside = first.is_none_or(|first| place < first) || last.is_none_or(|last| place > last);
            self.kernels[*row] = Some(Err(if beside { Unjoined::BesideTrace } else { Unjoined::NoKernel }));
        }
        for (kernel, record) in &best.pairs {
            let kernel = operations.rows[trace.rows[*kernel]].kernel;
            self.kernels[own.rows[*record]] = kernel.map(Ok);
        }
        for record in &best.refused {
            self.kernels[own.rows[*record]] = Some(Err(Unjoined::OtherTime));
        }
        let group = trace.communicator.and_then(|at| operations.communicators.get(at));
        self.groups.push(JoinedGroup {
            source: own.source,
            file: records.files.get(own.file as usize).map(|file| file.name.clone()).unwrap_or_default(),
            rank: trace.rank,
            group: group.and_then(|known| known.key().or_else(|| known.description.clone())),
            joined: best.pairs.len() as u64,
            records: own.rows.len() as u64,
            offset: best.offset,
            deviation: best.deviation,
        });
    }

    /// How many records are joined.
    pub fn count(&self) -> u64 {
        self.kernels.iter().flatten().filter(|kernel| kernel.is_ok()).count() as u64
    }

    /// How many records are not joined, by source and reason.
    pub fn unjoined(&self, records: &Records) -> BTreeMap<(Source, Unjoined), u64> {
        let mut found = BTreeMap::new();
        for (operation, kernel) in records.operations.iter().zip(&self.kernels) {
            if let Some(Err(reason)) = kernel {
                *found.entry((operation.source, *reason)).or_default() += 1;
            }
        }
        found
    }
}
