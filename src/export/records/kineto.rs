//! Operations as Kineto writes them: the categories, names and arguments by which this program and others recognise an NCCL call and its kernel.
//!
//! A call has the category of runtime calls, and a correlation id ties it to its kernel. A kernel's name is composed as NCCL composes it, from
//! what is known; no recorder has the symbol itself. Ranks are global, or left out.

use serde_json::{Map, Value};

use super::{function, size_of};
use crate::names::args;
use crate::names::collectives::Collective;
use crate::operation::{Counts, Operation};
use crate::records::Records;

/// The category of calls. Categories that end like this are calls that launch kernels.
pub(super) const CALL: &str = "nccl_runtime";

pub(super) const KERNEL: &str = "kernel";

/// The function that was called: `ncclAllReduce`.
pub(super) fn call(operation: &Operation) -> String {
    operation.known_collective().map_or_else(|| name(operation), |collective| format!("nccl{}", function(collective)))
}

/// A kernel's name: `ncclDevKernel_AllReduce_RING_LL128`.
pub(super) fn kernel(operation: &Operation) -> String {
    let function = match operation.known_collective() {
        // One kernel does both.
        Some(Collective::Send | Collective::Recv) => "SendRecv".to_owned(),
        Some(collective) => function(collective).to_owned(),
        None => name(operation),
    };
    let method = [&operation.algorithm, &operation.protocol].into_iter().flatten();
    method.fold(format!("ncclDevKernel_{function}"), |name, part| name + "_" + part)
}

fn name(operation: &Operation) -> String {
    operation.collective.as_deref().unwrap_or("operation").to_owned()
}

/// The arguments of an operation at an index: Kineto's, and additional ones.
pub(super) fn args(records: &Records, at: usize, operation: &Operation) -> Value {
    let communicator = records.communicator_of(operation);
    let mut args = Map::new();
    let mut put = |key: &str, value: Value| {
        if !value.is_null() {
            args.insert(key.to_owned(), value);
        }
    };
    put(args::CORRELATION, (at + 1).into());
    put(args::COLLECTIVE, operation.collective.as_deref().into());
    put(args::DTYPE, operation.dtype.as_deref().into());
    put(args::IN_ELEMENTS, operation.in_elements.into());
    put(args::OUT_ELEMENTS, operation.out_elements.into());
    put(args::GROUP_SIZE, size_of(records, operation).into());
    put(args::GROUP_NAME, communicator.and_then(|of| of.key().or_else(|| of.name.clone())).into());
    put(args::GROUP_DESCRIPTION, communicator.and_then(|of| of.description.clone().or_else(|| of.name.clone())).into());
    put(args::GROUP_RANKS, communicator.and_then(|of| of.ranks.as_ref()).map(|ranks| format!("{ranks:?}")).into());
    if matches!(operation.counts, Counts::Group | Counts::Collectives) {
        put(args::SEQ, operation.sequence.into());
    }
    put(args::MERGED_RANK, operation.rank.map(|rank| rank.0).into());
    put("source", operation.source.name().into());
    put("sequence", operation.sequence.into());
    put("bytes", operation.bytes.into());
    put("peer", operation.peer.into());
    put("algorithm", operation.algorithm.as_deref().into());
    put("protocol", operation.protocol.as_deref().into());
    put("channels", operation.channels.into());
    put("stream", operation.stream_handle.map(|stream| format!("{stream:#x}")).into());
    put("state", operation.state.name().into());
    args.into()
}
