//! Which part of a trace is asked about, how it was chosen, and why it could not be.

use crate::answers::stacks::steps::StepRange;
use crate::answers::window::Candidate;
use crate::attribution::launches::WindowOn;
use crate::time::Ns;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// On the trace's own clock, in ns.
    At(Ns),
    /// From the start of the trace on, in ns.
    After(Ns),
}

/// Which part of a trace is asked about; by default all of it.
#[derive(Debug, Clone, Default)]
pub struct WindowChoice {
    /// Start and length. They take precedence over the other fields.
    pub times: Option<(Start, Ns)>,
    /// Some steps, by their numbers.
    pub steps: Option<StepRange>,
    /// The slices of this name; if there are none, those that match this pattern, which plain text does at the beginning of a name.
    pub function: Option<String>,
    /// Which of these, counted from 0 by their start.
    pub index: Option<usize>,
    /// Whether the watcher chooses: one of these slices or, without a function, of the slices that look like steps.
    pub is_interactive: bool,
    /// What has to start in the window.
    pub on: WindowOn,
}

/// Why there is no window.
#[derive(Debug)]
pub enum WindowError {
    /// Nothing in the trace looks like a step.
    NoSteps,
    /// The trace has steps with other numbers, from the first to the last.
    NoSuchStep {
        range: StepRange,
        /// The lowest number.
        first: u64,
        /// The highest number.
        last: u64,
    },
    /// No CPU slice has a name that is or begins with this, or matches this pattern.
    NoSuchFunction {
        name: String,
        /// Names of the trace that are near it, the nearest first.
        near: Vec<String>,
    },
    /// There are fewer slices of the name.
    NoSuchIndex { index: usize, found: Vec<Candidate> },
    /// Several slices have the name, and nothing says which is meant.
    Several(Vec<Candidate>),
    /// The times are before those of the trace, and as times from its start they would be within it.
    BeforeTrace {
        /// The start that was given, in ns.
        start: Ns,
        /// The first instant of the trace.
        first: Ns,
    },
    /// Each trace has its own clock, so a time on one of them means nothing on the others.
    SeveralClocks,
    /// A choice from a list needs a single trace.
    SeveralToChooseIn,
}

impl std::error::Error for WindowError {}

impl std::fmt::Display for WindowError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WindowError::NoSteps => f.write_str("nothing in the trace looks like a step"),
            WindowError::NoSuchStep { range, first, last } => {
                write!(f, "there is no step {range}; the trace has the steps {first} to {last}")
            }
            WindowError::NoSuchFunction { name, near } => {
                write!(f, "no CPU slice is named `{name}`")?;
                if near.is_empty() { Ok(()) } else { write!(f, "; near it: {}", near.join(", ")) }
            }
            WindowError::NoSuchIndex { index, found } => {
                write!(f, "there is no slice {index}: {} have the name, counted from 0", found.len())
            }
            WindowError::Several(found) => {
                write!(f, "{} slices have the name; choose one by its position", found.len())
            }
            WindowError::BeforeTrace { start, first } => {
                write!(f, "{start} ns is before the trace, which begins at {first} ns")
            }
            WindowError::SeveralClocks => {
                f.write_str("several traces have clocks of their own; give a time from the start of each")
            }
            WindowError::SeveralToChooseIn => {
                f.write_str("a window is chosen from a list in one trace alone; name a function and its position")
            }
        }
    }
}

/// How a slice of a list of steps is chosen again without the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Again {
    /// By its number.
    Step(u64),
    /// By its name, and its position among the slices of this name.
    Slice { name: String, index: usize },
}

/// Why nothing was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotChosen {
    /// The person who was asked left the list.
    Left,
    /// The list cannot be shown, for this reason.
    NotShown(String),
}
