//! NCCL's numbers and names of types and operations, and the number of elements that an NCCL call moves.
//!
//! From `nccl.h`: `ncclDataType_t`, `ncclRedOp_t`, and the meaning of `count` in each function.

use super::collectives::{Collective, element_bytes};

/// NCCL's types in numeric order: NCCL's name, and PyTorch's.
const DTYPES: &[(&str, &str)] = &[
    ("ncclInt8", "Char"),
    ("ncclUint8", "Byte"),
    ("ncclInt32", "Int"),
    ("ncclUint32", "UInt32"),
    ("ncclInt64", "Long"),
    ("ncclUint64", "UInt64"),
    ("ncclFloat16", "Half"),
    ("ncclFloat32", "Float"),
    ("ncclFloat64", "Double"),
    ("ncclBfloat16", "BFloat16"),
    ("ncclFloat8e4m3", "Float8_e4m3fn"),
    ("ncclFloat8e5m2", "Float8_e5m2"),
];

/// PyTorch's name for an NCCL type name; `None` if it is unknown. NCCL prints `Unknown` for `ncclUint8`, and possibly for others.
pub fn dtype_of_name(name: &str) -> Option<&'static str> {
    DTYPES.iter().find(|(nccl, _)| *nccl == name).map(|(_, torch)| *torch)
}

pub fn dtype_of_number(number: u64) -> Option<&'static str> {
    DTYPES.get(usize::try_from(number).ok()?).map(|(_, torch)| *torch)
}

/// The NCCL number of a type in PyTorch's words.
pub fn number_of_dtype(dtype: &str) -> Option<u32> {
    DTYPES.iter().position(|(_, torch)| *torch == dtype).and_then(|number| u32::try_from(number).ok())
}

/// Collectives and sends, in the event mask of NCCL's profiler plugins; the next two constants belong to the same mask.
pub const OPERATIONS: u64 = 2 | 4;
pub const PROXY_STEPS: u64 = 16;
pub const KERNEL_CHANNELS: u64 = 64;

/// NCCL's result codes in numeric order.
const RESULTS: &[&str] = &[
    "ncclSuccess",
    "ncclUnhandledCudaError",
    "ncclSystemError",
    "ncclInternalError",
    "ncclInvalidArgument",
    "ncclInvalidUsage",
    "ncclRemoteError",
    "ncclInProgress",
    "ncclTimeout",
];

pub fn result_of_number(number: u32) -> Option<&'static str> {
    RESULTS.get(usize::try_from(number).ok()?).copied()
}

/// Whether a result is an error. A non-blocking communicator may also report that it continues in the background.
pub fn is_error(result: u64) -> bool {
    !matches!(result, 0 | 7)
}

/// NCCL's algorithms in numeric order.
const ALGORITHMS: &[&str] = &["TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"];

/// NCCL's protocols in numeric order.
const PROTOCOLS: &[&str] = &["LL", "LL128", "SIMPLE"];

pub fn algorithm_of_number(number: u64) -> Option<&'static str> {
    ALGORITHMS.get(usize::try_from(number).ok()?).copied()
}

pub fn protocol_of_number(number: u64) -> Option<&'static str> {
    PROTOCOLS.get(usize::try_from(number).ok()?).copied()
}

/// The input and output elements of a rank in a call with this count. `None` if that depends on an unknown number of ranks. The count of an
/// all-gather is each rank's input, of a reduce-scatter each rank's output, of an all-to-all the part for each peer.
pub fn elements(collective: Collective, count: u64, ranks: Option<u64>) -> (Option<u64>, Option<u64>) {
    use Collective::*;
    let of_all = ranks.map(|ranks| count.saturating_mul(ranks));
    match collective {
        AllGather | Gather => (Some(count), of_all),
        ReduceScatter | Scatter => (of_all, Some(count)),
        AllToAll => (of_all, of_all),
        Send => (Some(count), None),
        Recv => (None, Some(count)),
        AllReduce | Broadcast | Reduce | SendRecv => (Some(count), Some(count)),
    }
}

/// The size in bytes, counted as in nccl-tests, of a call with this count; `None` if a part of it is unknown.
pub fn bytes(collective: Collective, count: u64, dtype: &str, ranks: Option<u64>) -> Option<u64> {
    use Collective::*;
    let (input, output) = elements(collective, count, ranks);
    let of_type = element_bytes(dtype)?;
    let one = input.or(output)?.saturating_mul(of_type);
    let size = |elements: Option<u64>| elements.map_or(one, |elements| elements.saturating_mul(of_type));
    let is_by_rank = matches!(collective, AllGather | ReduceScatter | AllToAll | Gather | Scatter);
    match ranks {
        None if is_by_rank => None,
        ranks => Some(collective.size(size(input), size(output), ranks.unwrap_or(1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_nccl_tests() {
        for (collective, count, ranks, size) in [
            (Collective::AllReduce, 1024, None, Some(4096)),
            // Each of 8 ranks sends 1024 floats and receives 8192.
            (Collective::AllGather, 1024, Some(8), Some(32_768)),
            (Collective::ReduceScatter, 1024, Some(8), Some(32_768)),
            (Collective::AllToAll, 1024, Some(8), Some(32_768)),
            (Collective::AllGather, 1024, None, None),
            (Collective::Send, 1024, None, Some(4096)),
            (Collective::Recv, 1024, Some(2), Some(4096)),
        ] {
            assert_eq!(bytes(collective, count, "Float", ranks), size, "{collective:?}");
        }
    }

    #[test]
    fn types_have_two_names_and_a_number() {
        assert_eq!(dtype_of_number(9), Some("BFloat16"));
        assert_eq!(dtype_of_name("ncclFloat16"), Some("Half"));
        assert_eq!((dtype_of_name("Unknown"), dtype_of_number(12)), (None, None));
        assert_eq!((number_of_dtype("BFloat16"), number_of_dtype("Bool")), (Some(9), None));
        assert!(DTYPES.iter().all(|(_, torch)| element_bytes(torch).is_some()));
        assert_eq!((result_of_number(6), result_of_number(9)), (Some("ncclRemoteError"), None));
        assert_eq!([0, 1, 7, 8].map(is_error), [false, true, false, true]);
    }
}
