//! What ties slices to others: the numbers among their arguments, by what their category makes of them.
//!
//! The columns hold two numbers for every slice, whatever these mean ([`crate::event::Ids`]); here each has its name.

use super::Store;
use super::strings::StringId;
use crate::nccl::category::CategoryKind;

impl Store {
    /// The number that GPU work shares with the call that launched it; CUPTI counts from 1. Slices without a category may have it
    /// too.
    pub fn correlation(&self, slice: usize) -> Option<i64> {
        let has_one = match self.category_kind(slice) {
            CategoryKind::Kernel | CategoryKind::Gpu | CategoryKind::Runtime => true,
            CategoryKind::Frame => false,
            CategoryKind::Cpu => self.slices.category(slice) == StringId::NULL,
        };
        Some(self.slices.own_id(slice)).filter(|id| has_one && *id != 0)
    }

    /// The same with the slice's machine: other machines count alike.
    pub fn machine_correlation(&self, slice: usize) -> Option<(u32, i64)> {
        Some((self.machine_of(slice), self.correlation(slice)?))
    }

    /// The number of an operator, and of the GPU work beneath it.
    pub fn external_id(&self, slice: usize) -> Option<i64> {
        let id = match self.category_kind(slice) {
            CategoryKind::Kernel | CategoryKind::Gpu => self.slices.other_id(slice),
            CategoryKind::Cpu if self.slices.category(slice) != StringId::NULL => self.slices.own_id(slice),
            _ => 0,
        };
        Some(id).filter(|id| *id != 0)
    }

    /// The number of a Python function's call, and that of its caller as the profiler has it.
    pub fn python_ids(&self, slice: usize) -> Option<(i64, PythonCaller)> {
        if self.category_kind(slice) != CategoryKind::Frame {
            return None;
        }
        let caller = match self.slices.other_id(slice) {
            0 => PythonCaller::Unknown,
            1 => PythonCaller::Nobody,
            more => PythonCaller::Frame(more - 1),
        };
        Some((self.slices.own_id(slice), caller))
    }

    /// What autograd says of an operator.
    pub fn autograd(&self, slice: usize) -> Option<Autograd> {
        let number = self.slices.other_id(slice);
        (number != 0 && self.category_kind(slice) == CategoryKind::Cpu)
            .then(|| Autograd { sequence: number - 1, forward_thread: self.slices.ids(slice).more.0 })
    }

    /// The graph by which GPU work was launched, and the node of this graph.
    pub fn graph_node(&self, slice: usize) -> Option<(i64, i64)> {
        let is_work = matches!(self.category_kind(slice), CategoryKind::Kernel | CategoryKind::Gpu);
        Some(self.slices.ids(slice).more).filter(|(_, node)| is_work && *node != 0)
    }
}

/// Who called a Python function, by the profiler's own account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PythonCaller {
    /// It does not say.
    Unknown,
    /// Nobody: the function is the first of its thread.
    Nobody,
    /// The call with this number.
    Frame(i64),
}

/// What ties an operator of the backward pass to that of the forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Autograd {
    /// The number that both have.
    pub sequence: i64,
    /// The thread of the forward pass in PyTorch's own count; 0 if this operator is of the forward pass itself.
    pub forward_thread: i64,
}
