//! The functions that have records: those that Megatrace intercepts, and those that NCCL added later.

use nccl_stacks_recorder_format::Writer;

/// Their names without `nccl`, and the names under which the flow extractor has them.
pub(crate) const FUNCTIONS: &[(&str, &str)] = &[
    ("AllReduce", "AllReduce"),
    ("AllGather", "AllGather"),
    ("ReduceScatter", "ReduceScatter"),
    ("Broadcast", "Broadcast"),
    ("Bcast", "Broadcast"),
    ("Reduce", "Reduce"),
    ("AlltoAll", "AlltoAll"),
    ("Gather", "Gather"),
    ("Scatter", "Scatter"),
    ("Send", "Send"),
    ("Recv", "Recv"),
];

/// The index of a function among these, by the number of its name in the file.
#[inline(never)]
pub(crate) fn function(writer: &Writer, text: u8) -> Option<usize> {
    let name = writer.text_at(text)?;
    let name = name.strip_prefix(b"nccl").unwrap_or(&name);
    let name = name.strip_suffix(b"Config").unwrap_or(name);
    FUNCTIONS.iter().position(|(known, _)| known.as_bytes() == name)
}
