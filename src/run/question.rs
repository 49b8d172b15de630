//! What is asked of traces: which kernels of which part of each, and what the answer has.

use std::path::PathBuf;

use super::choice::{Start, WindowChoice, WindowError};
use super::error::RunError;
use crate::answers::ranks::reduction::GivenRank;
use crate::answers::stacks::data::StackOptions;
use crate::attribution::selection::Wanted;
use crate::operations::clocks::ClockMode;

/// A question about traces: their stacks, or the ranks of a job beside each other.
#[derive(Debug, Default)]
pub struct Question {
    /// Which kernels.
    pub wanted: Wanted,
    /// Which part of each trace.
    pub window: WindowChoice,
    /// What tells stacks apart, and what they show.
    pub stacks: StackOptions,
    /// The captures of graphs; empty for those in the folder beside the trace.
    pub captures: Vec<PathBuf>,
    /// Whether all steps are asked about where no part is chosen.
    pub by_step: bool,
    /// Whether the answer is drawn, which needs the times of all kernels.
    pub draws: bool,
    /// Whether the critical path of each rank alone is found.
    pub critical: bool,
    /// The options that decide what parts contain. Parts that were made with other options are refused, but without any options these need not be
    /// repeated.
    pub asked: String,
    /// The ranks of traces that name none.
    pub given: Vec<GivenRank>,
    pub clock: ClockMode,
}

impl Question {
    /// About all kernels of these in whole traces.
    pub fn about(wanted: Wanted) -> Self {
        Question { wanted, ..Question::default() }
    }

    /// The options that parts must have been made with; `None` if any will do.
    pub(super) fn asked_of_parts(&self) -> Option<&str> {
        Some(&*self.asked).filter(|asked| !asked.is_empty())
    }

    /// Each trace has its own clock and its own steps.
    pub(super) fn refuse_for_several(&self) -> Result<(), RunError> {
        if matches!(self.window.times, Some((Start::At(_), _))) {
            return Err(WindowError::SeveralClocks.into());
        }
        if self.window.is_interactive {
            return Err(WindowError::SeveralToChooseIn.into());
        }
        Ok(())
    }
}
