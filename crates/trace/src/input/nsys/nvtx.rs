//! Ranges and marks of NVTX: their kinds, names and categories.
//!
//! PyTorch (`torch.autograd.profiler.emit_nvtx`, `nsys --pytorch`) makes a range for each operator and appends what differs from call
//! to call: `aten::mm, seq = 12, op_id = 345`. That goes to the arguments, so that calls of one operator have one name.

use std::collections::HashMap;

use super::tables::Table;
use crate::names::args::COLLECTIVE_RECORD;
use crate::names::steps::ANNOTATION;
use crate::time::Ns;

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
    pub(in crate::input::nsys) const START: usize = 0;
    pub(in crate::input::nsys) const END: usize = 1;
    pub(in crate::input::nsys) const KIND: usize = 2;
    pub(in crate::input::nsys) const TEXT: usize = 3;
    pub(in crate::input::nsys) const TEXT_ID: usize = 4;
    pub(in crate::input::nsys) const DOMAIN: usize = 5;
    pub(in crate::input::nsys) const THREAD: usize = 6;
    pub(in crate::input::nsys) const JSON_ID: usize = 7;
    pub(in crate::input::nsys) const JSON: usize = 8;
    pub(in crate::input::nsys) const BINARY: usize = 9;
    /// The first of the integers, and the first number after them.
    pub(in crate::input::nsys) const INTEGERS: [usize; 2] = [10, 14];
    pub(in crate::input::nsys) const FRACTIONS: [usize; 2] = [14, 16];
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
    /// By `ENUM_NSYS_EVENT_TYPE`; the second number of each is that of events that were imported from text.
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

/// The category of PyTorch's operators.
const OPERATOR: &str = "cpu_op";

/// The parts that PyTorch appends to the name of an operator, and their arguments.
const PARTS: [(&str, &str); 4] = [
    (", seq = ", "Sequence number"),
    (", op_id = ", "op_id"),
    (", sizes = ", "sizes"),
    (", input_op_ids = ", "input_op_ids"),
];

/// The name of a range without what PyTorch appends, and its category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named<'t> {
    pub(super) name: &'t str,
    pub(super) category: &'static str,
    rest: &'t str,
}

impl<'t> Named<'t> {
    /// For a text, in the domain that has no name or in another.
    pub(super) fn parse(text: &'t str, is_default_domain: bool) -> Self {
        if !is_default_domain {
            return Named { name: text, category: LIBRARY, rest: "" };
        }
        let Some(at) = PARTS.iter().filter_map(|(mark, _)| text.find(mark)).min() else {
            return Named { name: text, category: ANNOTATION, rest: "" };
        };
        let (name, rest) = text.split_at(at);
        // `record_function` makes ranges of the user's own in the same way, but only operators have numbers of autograd or namespaces.
        let is_operator = name.contains("::") || name == COLLECTIVE_RECORD || rest.contains(PARTS[0].0);
        Named { name, category: if is_operator { OPERATOR } else { ANNOTATION }, rest }
    }

    /// The arguments in what PyTorch has appended.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&'static str, &'t str)> {
        let rest = self.rest;
        PARTS.into_iter().filter_map(move |(mark, key)| {
            let value = &rest[rest.find(mark)? + mark.len()..];
            let end = PARTS.iter().filter_map(|(mark, _)| value.find(mark)).min().unwrap_or(value.len());
            Some((key, &value[..end]))
        })
    }
}

/// Puts ranges that are bound to no thread onto as few tracks as there are open at once.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// When the last range of each ends.
    ends: Vec<Ns>,
}

impl Lanes {
    /// More are not searched: then every range gets a track of its own.
    const SEARCHED: usize = 256;

    /// The track for a range.
    pub(super) fn put(&mut self, start: Ns, end: Ns) -> u64 {
        let searched = self.ends.len().min(Self::SEARCHED);
        let free = self.ends[..searched].iter().position(|last| *last <= start);
        let lane = free.unwrap_or_else(|| {
            self.ends.push(end);
            self.ends.len() - 1
        });
        self.ends[lane] = end;
        lane as u64
    }

    pub(super) fn len(&self) -> u64 {
        self.ends.len() as u64
    }
}

/// The names of domains by number, each of the process that is read.
pub(super) type Domains = HashMap<i64, String>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_call_to_call_is_no_name() {
        for (text, name, category, parts) in [
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
            let named = Named::parse(text, true);
            assert_eq!((named.name, named.category), (name, category), "{text}");
            assert_eq!(named.parts().collect::<Vec<_>>(), parts, "{text}");
        }
        let library = Named::parse("ncclAllReduce", false);
        assert_eq!((library.name, library.category), ("ncclAllReduce", "nvtx"));
    }

    #[test]
    fn ranges_at_once_are_on_several_tracks() {
        let mut lanes = Lanes::default();
        let put = |lanes: &mut Lanes, start, end| lanes.put(Ns(start), Ns(end));
        assert_eq!(put(&mut lanes, 0, 10), 0);
        assert_eq!(put(&mut lanes, 5, 20), 1);
        assert_eq!(put(&mut lanes, 10, 12), 0);
        assert_eq!(put(&mut lanes, 12, 12), 0);
        assert_eq!(put(&mut lanes, 12, 13), 0);
        assert_eq!(put(&mut lanes, 12, 13), 2);
        assert_eq!(lanes.len(), 3);
    }
}
