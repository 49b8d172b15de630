//! NCCL's own records in the forms of other programs: a trace that viewers open, Megatrace's logs, the flow extractor's files, Inspector's
//! lines.
//!
//! All are made from the tables that every reader fills, so a dump of the example plugin, Inspector's logs and the recorder's files are
//! converted alike. What a source does not say is not written, and counted: a conversion invents nothing.

pub mod chrome;
mod flow_shape;
pub mod flows;
pub mod inspector;
mod kineto;
mod lanes;
pub mod megatrace;
mod trees;

use std::collections::BTreeMap;

use crate::names::collectives::Collective;
use crate::operation::{Communicator, Counts, Operation, Source};
use crate::records::Records;

/// A file of a conversion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Converted {
    /// The folder within that of the conversion; empty for that itself.
    pub folder: String,
    /// `rank_3.log`.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// How much of the records a conversion could use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// How many operations are in its result.
    pub written: u64,
    /// How many are not, because their source does not say what the form needs.
    pub left_out: u64,
    /// How many are not, because another source has those of the same rank.
    pub elsewhere: u64,
    /// How many channels without a proxy are in it, of which nothing says with whom they exchange data.
    pub without_peers: u64,
}

impl Coverage {
    fn count(&mut self, is_written: bool) {
        *(if is_written { &mut self.written } else { &mut self.left_out }) += 1;
    }
}

/// The source of each rank: several may have recorded the same calls, and the one with the most of them has it.
fn sources<K: Ord + Copy>(usable: impl Iterator<Item = (K, Source)>) -> BTreeMap<K, Source> {
    let mut counts: BTreeMap<(K, Source), u64> = BTreeMap::new();
    usable.for_each(|of| *counts.entry(of).or_default() += 1);
    let mut best: BTreeMap<K, (u64, Source)> = BTreeMap::new();
    for ((key, source), count) in counts {
        let known = best.entry(key).or_insert((count, source));
        if known.0 < count {
            *known = (count, source);
        }
    }
    best.into_iter().map(|(key, (_, source))| (key, source)).collect()
}

/// How many ranks the communicator of an operation has.
fn size_of(records: &Records, operation: &Operation) -> Option<u64> {
    let own = records.communicator_of(operation)?;
    // Of one communicator some sources know the size, and others only the hash.
    let same = |of: &&Communicator| of.hash.is_some() && of.hash == own.hash;
    own.rank_count().or_else(|| records.communicators.iter().filter(same).find_map(Communicator::rank_count))
}

/// NCCL's own number of a collective: among those of its function in the communicator.
fn nccl_number(operation: &Operation) -> Option<i64> {
    if operation.counts == Counts::Function { operation.sequence } else { operation.nccl_sequence }
}

fn collective_of(operation: &Operation) -> Option<Collective> {
    Collective::of_record(operation.collective.as_deref()?)
}

/// The name of NCCL's function, without `nccl`.
fn function(collective: Collective) -> &'static str {
    match collective {
        Collective::AllReduce => "AllReduce",
        Collective::AllGather => "AllGather",
        Collective::ReduceScatter => "ReduceScatter",
        Collective::AllToAll => "AlltoAll",
        Collective::Broadcast => "Broadcast",
        Collective::Reduce => "Reduce",
        Collective::Gather => "Gather",
        Collective::Scatter => "Scatter",
        Collective::Send => "Send",
        Collective::Recv => "Recv",
        Collective::SendRecv => "SendRecv",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_read_as_what_they_are() {
        let all =
            ["all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "gather", "scatter"];
        for name in all.into_iter().chain(["send", "recv", "sendrecv"]) {
            let collective = Collective::of_record(name).unwrap();
            assert_eq!(collective.name(), name);
            assert_eq!(Collective::of_record(function(collective)), Some(collective));
        }
    }
}
