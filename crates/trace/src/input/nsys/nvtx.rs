//! Ranges and marks of NVTX: their kinds, names and categories.
//!
//! PyTorch (`torch.autograd.profiler.emit_nvtx`, `nsys --pytorch`) makes a range for each operator and appends what differs from call
//! to call: `aten::mm, seq = 12, op_id = 345`. That goes to the arguments, so that calls of one operator have one name.

use super::output::Named;
use super::tables::Table;
use crate::names::args::COLLECTIVE_RECORD;
use crate::names::steps::ANNOTATION;

/// Ranges, marks and the definitions of domains.
pub(super) const EVENTS: Table = Table {
    name: "NVTX_EVENTS",
    columns: &[
        "start",
        "end",
        "eventType",
        "text",
        "textId",
        "domainId",
        "globalTid",
        "jsonTextId",
        "jsonText",
        "binaryData",
        "uint64Value",
        "int64Value",
        "uint32Value",
        "int32Value",
        "doubleValue",
        "floatValue",
    ],
    process: Some("globalTid"),
};

/// Places in [`EVENTS`].
pub(super) mod at {
    pub(in super::super) const START: usize = 0;
    pub(in super::super) const END: usize = 1;
    pub(in super::super) const KIND: usize = 2;
    pub(in super::super) const TEXT: usize = 3;
    pub(in super::super) const TEXT_ID: usize = 4;
    pub(in super::super) const DOMAIN: usize = 5;
    pub(in super::super) const THREAD: usize = 6;
    pub(in super::super) const JSON_ID: usize = 7;
    pub(in super::super) const JSON: usize = 8;
    pub(in super::super) const BINARY: usize = 9;
    /// The first of the integers, and the first number after them.
    pub(in super::super) const INTEGERS: [usize; 2] = [10, 14];
    pub(in super::super) const FRACTIONS: [usize; 2] = [14, 16];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowKind {
    /// A range that its thread opened and closed.
    Nested,
    /// A range that is bound to no thread.
    Free,
    /// An instant of a thread.
    Mark,
    Domain,
    Other,
}

impl RowKind {
    /// By `ENUM_NSYS_EVENT_TYPE`; events that were imported from text have the second number of each.
    pub(super) fn from_number(number: Option<i64>) -> Self {
        match number {
            Some(59 | 70) => RowKind::Nested,
            Some(60 | 71) => RowKind::Free,
            Some(34 | 65) => RowKind::Mark,
            Some(75) => RowKind::Domain,
            _ => RowKind::Other,
        }
    }
}

/// The category of ranges of libraries, which have domains of their own: NCCL, cuDNN, cuBLAS.
const LIBRARY: &str = "nvtx";

const OPERATOR: &str = "cpu_op";

/// The parts that PyTorch appends to the name of an operator, and their arguments.
const PARTS: [(&str, &str); 4] = [
    (", seq = ", "Sequence number"),
    (", op_id = ", "op_id"),
    (", sizes = ", "sizes"),
    (", input_op_ids = ", "input_op_ids"),
];

/// A range as it is named without what PyTorch appends, and the rest. Only the default domain has no name.
pub(super) fn split(text: &str, is_default_domain: bool) -> (Named<'_>, &str) {
    if !is_default_domain {
        return (Named { name: text, category: LIBRARY }, "");
    }
    let Some(at) = PARTS.iter().filter_map(|(mark, _)| text.find(mark)).min() else {
        return (Named { name: text, category: ANNOTATION }, "");
    };
    let (name, rest) = text.split_at(at);
    // `record_function` makes ranges of the user's own in the same way, but only operators have numbers of autograd or namespaces.
    let is_operator = name.contains("::") || name == COLLECTIVE_RECORD || rest.contains(PARTS[0].0);
    (Named { name, category: if is_operator { OPERATOR } else { ANNOTATION } }, rest)
}

/// The arguments in what PyTorch has appended.
pub(super) fn parts(rest: &str) -> impl Iterator<Item = (&'static str, &str)> {
    PARTS.into_iter().filter_map(move |(mark, key)| {
        let value = &rest[rest.find(mark)? + mark.len()..];
        let end = PARTS.iter().filter_map(|(mark, _)| value.find(mark)).min().unwrap_or(value.len());
        Some((key, &value[..end]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_call_to_call_is_no_name() {
        for (text, name, category, found) in [
            (
                "aten::mm, seq = 12, op_id = 345",
                "aten::mm",
                "cpu_op",
                vec![("Sequence number", "12"), ("op_id", "345")],
            ),
            ("nccl:all_to_all, op_id = 991144", "nccl:all_to_all", "user_annotation", vec![("op_id", "991144")]),
            ("record_param_comms, op_id = 1", "record_param_comms", "cpu_op", vec![("op_id", "1")]),
            (
                "MulBackward0, seq = 3, op_id = 4",
                "MulBackward0",
                "cpu_op",
                vec![("Sequence number", "3"), ("op_id", "4")],
            ),
            (
                "aten::add, op_id = 4, sizes = [[2, 3], []]",
                "aten::add",
                "cpu_op",
                vec![("op_id", "4"), ("sizes", "[[2, 3], []]")],
            ),
            ("train_step", "train_step", "user_annotation", vec![]),
            ("a, b", "a, b", "user_annotation", vec![]),
        ] {
            let (named, rest) = split(text, true);
            assert_eq!((named, parts(rest).collect::<Vec<_>>()), (Named { name, category }, found), "{text}");
        }
        assert_eq!(split("ncclAllReduce", false).0, Named { name: "ncclAllReduce", category: "nvtx" });
    }
}
