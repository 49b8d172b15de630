//! What changed from the first trace of a diff to the second: a measure before and after, and the fate of a stack.

use super::cost::Order;
use super::diff::{Change, Diff};

/// Windows whose lengths differ by more than this factor are hardly of the same work.
const ALIKE: f64 = 1.25;

/// A measure in both traces: kernels or ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delta {
    /// In the first trace.
    pub before: f64,
    /// In the second trace.
    pub after: f64,
}

impl Delta {
    /// By how much it grew; negative if it shrank.
    pub fn growth(self) -> f64 {
        self.after - self.before
    }

    /// The growth as a fraction of the first; `None` if that is zero.
    pub fn share(self) -> Option<f64> {
        (self.before > 0.0).then(|| self.growth() / self.before)
    }
}

/// In which of the two traces a stack is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// In both.
    Changed,
    /// Only in the second.
    New,
    /// Only in the first.
    Vanished,
}

impl Change {
    /// In which of the traces it is.
    pub fn fate(&self) -> Fate {
        match (self.before, self.after) {
            (None, _) => Fate::New,
            (_, None) => Fate::Vanished,
            _ => Fate::Changed,
        }
    }

    /// A measure of a stack that both traces have.
    pub fn delta(&self, measure: Order) -> Option<Delta> {
        let (before, after) = self.before.zip(self.after)?;
        Some(Delta { before: before.by(measure), after: after.by(measure) })
    }
}

impl Diff {
    /// A measure of all chosen kernels.
    pub fn delta(&self, measure: Order) -> Delta {
        Delta { before: self.before.kernels.by(measure), after: self.after.kernels.by(measure) }
    }

    /// How many stacks changed and were left out.
    pub fn left_out(&self) -> u64 {
        self.changed.saturating_sub(self.changes.len() as u64)
    }

    /// Whether the windows differ so much in length that they are hardly of the same work.
    pub fn windows_differ(&self) -> bool {
        let [before, after] = [&self.before, &self.after].map(|side| side.summary.window.duration());
        before.min(after).as_f64() * ALIKE < before.max(after).as_f64()
    }
}
