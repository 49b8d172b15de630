//! What changed from the first trace of a diff to the second: a measure before and after, by what both are divided, and the fate of a stack.
//!
//! Two traces are hardly of the same number of steps, and then sums say which is longer, not which is faster. So everything is compared by
//! step. Where a trace marks no steps, the number of kernels is taken for the work: everything is then compared by kernel, a call of the
//! collective, of which a step of the same program has always as many.

use serde::Serialize;

use super::cost::{Order, Totals};
use super::launching_steps::LaunchingSteps;
use crate::names::steps::kind;

/// By what the numbers of both traces are divided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Per {
    /// By the number of steps that launched kernels. Each rank has its own.
    #[default]
    Step,
    /// By the number of chosen kernels.
    Call,
    /// By nothing: they are sums.
    Total,
}

/// Why traces are not compared by step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotPerStep {
    /// One of them, or a rank in it, marks no step that launched kernels.
    NotMarked,
    /// No step of one is of the same kind as any of the other.
    OtherKind,
}

/// By what the numbers of both traces are divided, and how many of it each has.
pub(crate) type Divided = (Per, u64, u64);

impl Per {
    /// Its name in JSON and CSV.
    pub fn name(self) -> &'static str {
        match self {
            Per::Step => "step",
            Per::Call => "call",
            Per::Total => "total",
        }
    }

    /// By what two traces can be compared, if they are to be compared by this, and why it is another.
    pub(crate) fn fitting(self, before: &LaunchingSteps, after: &LaunchingSteps) -> (Per, Option<NotPerStep>) {
        let is_marked = |steps: &LaunchingSteps| steps.count > 0 && steps.unmarked == 0;
        let has = |name: &String| after.names.keys().any(|other| kind(other) == kind(name));
        match self {
            Per::Step if !is_marked(before) || !is_marked(after) => (Per::Call, Some(NotPerStep::NotMarked)),
            Per::Step if !before.names.keys().any(has) => (Per::Call, Some(NotPerStep::OtherKind)),
            per => (per, None),
        }
    }

    /// How many of these a trace has.
    pub(crate) fn units(self, steps: u64, calls: u64) -> u64 {
        match self {
            Per::Step => steps.max(1),
            Per::Call => calls.max(1),
            Per::Total => 1,
        }
    }
}

/// Some kernels of one of the traces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SideTotals {
    /// Their sums.
    #[serde(flatten)]
    pub totals: Totals,
    /// These, divided.
    pub each: Each,
}

/// Totals, divided by a number of steps or calls, see [`Diff::per`](super::diff::Diff::per).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Each {
    /// How many kernels.
    pub count: f64,
    /// How long they ran, in ns.
    #[serde(rename = "gpu_time_ns")]
    pub gpu_time: f64,
    /// How long no compute kernel ran beside them on their GPU, in ns.
    #[serde(rename = "exposed_ns")]
    pub exposed: f64,
}

impl SideTotals {
    /// Totals, divided by a number of units.
    pub(super) fn divided(totals: Totals, units: u64) -> Self {
        // Equal ratios of whole numbers below 2^53 become equal numbers, because a division is rounded correctly.
        let by = |order: Order| totals.by(order) / units as f64;
        let each = Each { count: by(Order::Count), gpu_time: by(Order::GpuTime), exposed: by(Order::Exposed) };
        SideTotals { totals, each }
    }

    /// What an order sorts by: divided, but for the mean, which is that of a kernel anyway.
    pub fn by(&self, order: Order) -> f64 {
        match order {
            Order::Count => self.each.count,
            Order::GpuTime => self.each.gpu_time,
            Order::Exposed => self.each.exposed,
            Order::Mean => self.totals.mean(),
        }
    }
}

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
