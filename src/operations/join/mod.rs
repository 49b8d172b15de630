//! Which record is of which kernel. NCCL's own records have what a trace lacks: the algorithm, the protocol, the channels, and what the
//! proxy threads waited for.
//!
//! No id connects the two. What is equal is the order of the operations of a communicator on a rank, their collectives, types and sizes; what
//! nearly agrees, up to one offset between the clocks of a trace and of a source, are their times. So each sequence of records (one
//! source, file, communicator and rank) is aligned with the sequences of the trace that it may be, and belongs to the one that it fits
//! best, if there is one. What cannot be joined is counted with its reason.

mod fit;
mod numbers;
mod offset;
mod sequences;

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::attribution::operations::Operations;
use crate::id::{RankId, SliceId};
use crate::operation::Source;
use crate::records::Records;
use crate::time::Ns;
use fit::Fit;
use sequences::{RecordSequence, TraceSequence};

/// Why a record has no kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Unjoined {
    /// Its rank has no trace here.
    OtherRank,
    /// No group of the trace has such operations.
    NoGroup,
    /// Several groups of the trace fit equally well.
    SeveralGroups,
    /// Its group may be one of the trace, but its order fits at several places.
    SeveralPlaces,
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
            Unjoined::OtherRank => "they are of ranks without a trace",
            Unjoined::NoGroup => "no process group of the trace has these operations",
            Unjoined::SeveralGroups => "several process groups of the trace fit equally well",
            Unjoined::SeveralPlaces => "their order fits that of the kernels at several places, and they have no times",
            Unjoined::BesideTrace => "they come before or after what the trace covers",
            Unjoined::NoKernel => "the trace has no kernel at their place",
            Unjoined::OtherTime => "the kernel at their place ran at another time",
        }
    }

    /// Its name in SQL and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Unjoined::OtherRank => "other-rank",
            Unjoined::NoGroup => "no-group",
            Unjoined::SeveralGroups => "several-groups",
            Unjoined::SeveralPlaces => "several-places",
            Unjoined::BesideTrace => "beside-trace",
            Unjoined::NoKernel => "no-kernel",
            Unjoined::OtherTime => "other-time",
        }
    }
}

/// How the records of a file fit a process group of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JoinedGroup {
    /// The source.
    #[cfg_attr(test, schemars(with = "crate::operations::written::Source"))]
    pub source: Source,
    /// The file of records.
    pub file: String,
    /// The rank of the trace.
    #[cfg_attr(test, schemars(with = "Option<u32>"))]
    pub rank: Option<RankId>,
    /// The process group of the trace, if it names one.
    pub group: Option<String>,
    /// How many of its records are joined to a kernel.
    pub joined: u64,
    /// How many records it has.
    pub records: u64,
    /// How far the source's clock is ahead of the trace's: the median of all pairs. `None` for a source without times.
    #[cfg_attr(test, schemars(with = "Option<i64>"))]
    pub offset_ns: Option<Ns>,
    /// How far the pairs are from that: the median of the distances.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub deviation_ns: Option<Ns>,
}

/// Which record is of which kernel.
#[derive(Debug, Clone, Default)]
pub struct Joined {
    /// By operation of the records: its kernel, or why it has none.
    pub kernels: Vec<Option<Result<SliceId, Unjoined>>>,
    /// By kernel: the operations of the records that are of it, in the order of the records.
    pub records: HashMap<SliceId, Vec<usize>>,
    pub groups: Vec<JoinedGroup>,
}

impl Joined {
    /// Joins the operations of a trace, or of several, with records.
    pub fn find(operations: &Operations, records: &Records) -> Self {
        let mut joined = Joined { kernels: vec![None; records.operations.len()], ..Joined::default() };
        let of_trace = TraceSequence::all(operations);
        let of_records = RecordSequence::all(records);
        let fits = fit::assign(&of_trace, &of_records);
        for (own, fit) in of_records.iter().zip(fits) {
            joined.take(records, &of_trace, own, fit);
        }
        for (at, kernel) in joined.kernels.iter().enumerate() {
            if let Some(Ok(kernel)) = kernel {
                joined.records.entry(*kernel).or_default().push(at);
            }
        }
        joined
    }

    fn take(&mut self, records: &Records, of_trace: &[TraceSequence<'_>], own: &RecordSequence<'_>, fit: Fit) {
        let Some(best) = fit.best else {
            own.rows.iter().for_each(|row| self.kernels[*row] = Some(Err(fit.otherwise)));
            return;
        };
        let trace = &of_trace[best.trace];
        // Functions that are numbered by themselves need not be in the order of their kernels.
        let places = || best.pairs.iter().map(|pair| pair.1);
        let (first, last) = (places().min(), places().max());
        for (place, row) in own.rows.iter().enumerate() {
            let beside = first.is_none_or(|first| place < first) || last.is_none_or(|last| place > last);
            self.kernels[*row] = Some(Err(if beside { Unjoined::BesideTrace } else { Unjoined::NoKernel }));
        }
        for (kernel, record) in &best.pairs {
            self.kernels[own.rows[*record]] = trace.kernels[*kernel].kernel.map(Ok);
        }
        for record in &best.refused {
            self.kernels[own.rows[*record]] = Some(Err(Unjoined::OtherTime));
        }
        self.groups.push(JoinedGroup {
            source: own.source,
            file: records.files.get(own.file as usize).map(|file| file.name.clone()).unwrap_or_default(),
            rank: trace.rank,
            group: trace.communicator.and_then(|known| known.key().or_else(|| known.description.clone())),
            joined: best.pairs.len() as u64,
            records: own.rows.len() as u64,
            offset_ns: best.offset,
            deviation_ns: best.deviation,
        });
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Communicator, Counts, Operation};

    /// A communicator of some ranks, as a trace knows it.
    fn group(ranks: &[u32]) -> Communicator {
        Communicator { ranks: Some(ranks.to_vec()), size: Some(ranks.len() as u64), ..Communicator::default() }
    }

    /// A communicator as NCCL knows it.
    fn hashed(hash: u64, size: u64) -> Communicator {
        Communicator { hash: Some(hash), size: Some(size), ..Communicator::default() }
    }

    /// The kernels of a rank: all-reduces of a size each, at uneven times, in one of two groups by turns.
    fn trace(kernels: usize) -> Operations {
        let communicators = vec![group(&[0, 1]), group(&[1, 3])];
        Operations { rows: (0..kernels).map(kernel).collect(), communicators }
    }

    fn kernel(at: usize) -> Operation {
        Operation {
            kernel: Some(SliceId(at as u32)),
            rank: Some(RankId(1)),
            communicator: Some(at % 2),
            collective: Some("all_reduce".into()),
            in_elements: Some(1024),
            out_elements: Some(1024),
            start: Some(start(at)),
            end: Some(start(at) + length(at)),
            launched: Some(start(at) - Ns(7_000)),
            ..Operation::default()
        }
    }

    /// A number below `below` without a pattern.
    fn random(at: usize, below: u64) -> i64 {
        let mixed = (at as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33) % below) as i64
    }

    fn start(at: usize) -> Ns {
        Ns(1_000_000_000_000 + at as i64 * 500_000 + random(at, 300_000))
    }

    fn length(at: usize) -> Ns {
        Ns(20_000 + random(at, 50_000))
    }

    /// Records of those kernels, made by `of`.
    fn records(kernels: usize, of: impl Fn(usize) -> Operation) -> Records {
        let mut records = Records::default();
        records.communicator(hashed(0xA, 2));
        records.communicator(hashed(0xB, 2));
        for at in 0..kernels {
            records.push(of(at));
        }
        records
    }

    fn recorded(at: usize) -> Operation {
        Operation {
            source: Source::PLUGIN_DUMP,
            communicator: Some(at % 2),
            sequence: Some(40 + at as i64 / 2),
            counts: Counts::Function,
            collective: Some("all_reduce".into()),
            in_elements: Some(1024),
            out_elements: Some(1024),
            ..Operation::default()
        }
    }

    #[test]
    fn what_the_trace_does_not_have_is_counted_with_its_reason() {
        // The trace lacks a kernel, and ends before the records do.
        let of = |at: usize| Operation { end: Some(start(at) + length(at)), ..recorded(at) };
        let records = records(200, of);
        let mut operations = trace(190);
        operations.rows.remove(100);
        let joined = Joined::find(&operations, &records);
        assert_eq!(joined.count(), 189);
        let expected =
            [((Source::PLUGIN_DUMP, Unjoined::BesideTrace), 10), ((Source::PLUGIN_DUMP, Unjoined::NoKernel), 1)];
        assert_eq!(joined.unjoined(&records), BTreeMap::from(expected));
    }

    #[test]
    fn what_nothing_distinguishes_is_not_guessed() {
        // No times, no lengths, equal sizes: either communicator may be either group, and begin anywhere.
        let records = records(200, recorded);
        let joined = Joined::find(&trace(200), &records);
        assert_eq!(joined.unjoined(&records), BTreeMap::from([((Source::PLUGIN_DUMP, Unjoined::SeveralPlaces), 200)]));
    }

    /// Two groups of the trace are alike, and a third is worse: it is not the answer because the others are two.
    #[test]
    fn what_fits_worse_than_two_others_is_not_taken() {
        let mut operations =
            Operations { rows: Vec::new(), communicators: vec![group(&[0, 1]), group(&[1, 3]), group(&[1, 5])] };
        for at in 0..120 {
            let place = at / 3;
            // The ends of the third group are up to 40 microseconds elsewhere.
            let end = start(place) + length(place) + Ns(if at % 3 == 2 { random(at, 40_000) } else { 0 });
            let (start, end, communicator) = (Some(end - length(place)), Some(end), Some(at % 3));
            operations.rows.push(Operation { communicator, start, end, launched: None, ..kernel(at) });
        }
        let of = |at: usize| Operation { communicator: Some(0), end: Some(start(at) + length(at)), ..recorded(at) };
        let records = records(40, of);
        let joined = Joined::find(&operations, &records);
        assert_eq!(joined.unjoined(&records), BTreeMap::from([((Source::PLUGIN_DUMP, Unjoined::SeveralGroups), 40)]));
    }

    /// Functions are numbered by themselves: the record of the first kernel need not be the first record.
    #[test]
    fn records_between_joined_ones_are_not_beside_the_trace() {
        let name = |at: usize| if at.is_multiple_of(2) { "all_reduce" } else { "all_gather" };
        let mut operations = trace(80);
        for (at, row) in operations.rows.iter_mut().enumerate() {
            (row.communicator, row.collective) = (Some(0), Some(name(at).into()));
        }
        let of = |at: usize| Operation {
            communicator: Some(0),
            collective: Some(name(at).into()),
            duration: Some(length(at)),
            ..recorded(at)
        };
        // Written one function after the other. A kernel of the first function is not in the trace, and one has another size.
        let mut records = Records::default();
        records.communicator(hashed(0xA, 2));
        let order: Vec<usize> = (0..80).step_by(2).chain((1..80).step_by(2)).collect();
        for at in &order {
            records.push(of(*at));
        }
        operations.rows[0].collective = Some("broadcast".into());
        operations.rows[20].in_elements = Some(2048);
        let joined = Joined::find(&operations, &records);
        assert_eq!(joined.count(), 78);
        // The first kernel of all that is joined is of the second function.
        assert_eq!(joined.kernels[10], Some(Err(Unjoined::NoKernel)));
        assert_eq!(joined.kernels[0], Some(Err(Unjoined::BesideTrace)));
    }
}
