//! The ids in an event's annotations that link it to other events, and whether it is the event of a collective.
//!
//! The keys are those that Kineto writes into the `args` of its JSON: a tool that converts such a trace keeps them.

use super::annotation::Content;
use crate::event::Ids;
use crate::nccl::args;
use crate::nccl::category::CategoryKind;

/// How many bytes of a kernel's name may have its library's name: a mangled one begins with `_ZN` and a number.
const NAME_START: usize = 16;

/// The event that has the annotations.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) kind: CategoryKind,
    pub(super) name: &'a [u8],
}

impl Owner<'_> {
    /// Whether it is the CPU record of a collective.
    pub(super) fn is_record(self) -> bool {
        self.kind == CategoryKind::Cpu && self.name == args::COLLECTIVE_RECORD.as_bytes()
    }

    /// Whether it may be the kernel of a collective: NCCL and RCCL put their name into it.
    pub(super) fn is_collective(self) -> bool {
        self.kind == CategoryKind::Kernel && self.name.windows(3).take(NAME_START - 2).any(|part| part == b"ccl")
    }
}

/// The numbers that link an event to others.
#[derive(Debug, Default)]
pub(super) struct Ties {
    /// In the order of [`args::IDS`].
    numbers: [Option<i64>; args::IDS.len()],
}

impl Ties {
    /// Takes an annotation. If there are several with one name, the first wins.
    pub(super) fn see(&mut self, name: &[u8], value: Content<'_>) {
        let Some(at) = args::IDS.iter().position(|key| key.as_bytes() == name) else { return };
        let number = match value {
            Content::Int(number) => Some(number),
            Content::Uint(number) => i64::try_from(number).ok(),
            Content::Real(number) if number.fract() == 0.0 && number.abs() < 9.0e15 => Some(number as i64),
            Content::Text(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
            _ => None,
        };
        self.numbers[at] = self.numbers[at].or(number);
    }

    fn number(&self, key: &str) -> Option<i64> {
        args::IDS.iter().position(|known| *known == key).and_then(|at| self.numbers[at])
    }

    fn id(&self, key: &str) -> i64 {
        self.number(key).unwrap_or(0).max(0)
    }

    fn one_more(&self, key: &str) -> i64 {
        self.number(key).map_or(0, |number| number.saturating_add(1).max(0))
    }

    /// See [`Ids`].
    pub(super) fn ids(&self, kind: CategoryKind) -> Ids {
        let correlation = self.id(args::CORRELATION);
        match kind {
            CategoryKind::Frame => {
                Ids { own: self.id(args::PYTHON_ID), other: self.one_more(args::PYTHON_PARENT_ID), more: (0, 0) }
            }
            CategoryKind::Cpu => {
                let other = self.one_more(args::SEQUENCE_NUMBER);
                let thread = if other == 0 { 0 } else { self.id(args::FORWARD_THREAD) };
                Ids { own: self.id(args::EXTERNAL_ID), other, more: (thread, 0) }
            }
            CategoryKind::Kernel | CategoryKind::Gpu => {
                let node = self.id(args::GRAPH_NODE_ID);
                let graph = if node == 0 { 0 } else { self.id(args::GRAPH_ID) };
                Ids { own: correlation, other: self.id(args::EXTERNAL_ID), more: (graph, node) }
            }
            CategoryKind::Runtime => Ids { own: correlation, ..Ids::default() },
        }
    }
}
