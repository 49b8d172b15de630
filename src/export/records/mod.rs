//! NCCL's own records in other programs' formats: a trace for viewers, Megatrace's logs, the flow extractor's files.
//!
//! All are made from the tables that every reader fills, so dumps of the example plugin, Inspector's logs and the recorder's files are converted
//! alike. Values that a source lacks are left out and counted: a conversion invents nothing.

pub mod chrome;
pub mod flows;
mod kineto;
pub mod megatrace;

use crate::names::collectives::Collective;
use crate::operation::{Communicator, Counts, Operation};
use crate::records::Records;

/// A file of a conversion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Converted {
    /// The subfolder of the output folder; empty for the output folder itself.
    pub folder: String,
    /// `rank_3.log`.
    pub name: String,
    pub text: String,
}

/// How much of the records a conversion could use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// The number of operations written.
    pub written: u64,
    /// The number of operations left out because their source lacks what the format needs.
    pub left_out: u64,
    /// The number of operations left out because another source provides the same rank.
    pub elsewhere: u64,
    /// The number of channels written without a proxy, whose peers are unknown.
    pub without_peers: u64,
}

impl Coverage {
    fn count(&mut self, is_written: bool) {
        *(if is_written { &mut self.written } else { &mut self.left_out }) += 1;
    }
}

/// The number of ranks in an operation's communicator.
fn size_of(records: &Records, operation: &Operation) -> Option<u64> {
    let own = records.communicator_of(operation)?;
    // For the same communicator some sources have the size, and others only the hash.
    let same = |of: &&Communicator| of.hash.is_some() && of.hash == own.hash;
    own.rank_count().or_else(|| records.communicators.iter().filter(same).find_map(Communicator::rank_count))
}

/// NCCL's own number of a collective, among those of its function in the communicator.
fn nccl_number(operation: &Operation) -> Option<i64> {
    if operation.counts == Counts::Function { operation.sequence } else { operation.nccl_sequence }
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
