//! What changed from the first trace of a diff to the second: a measure before and after, and the unit that both are divided by.
//!
//! Two traces rarely have the same number of steps, so sums would show which trace is longer, not which is faster. So values are compared per step.
//! If a trace marks no steps, values are compared per kernel, that is per call of the collective: a step of the same program always makes as many
//! calls.

use serde::Serialize;

use crate::answers::cost::{Order, Totals};
use crate::answers::stacks::launching_steps::LaunchingSteps;
use crate::document::format::{duration, grouped, percent, sign};
use crate::names::steps::kind;
use crate::time::Ns;

/// What the values of both traces are divided by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Per {
    /// Per step that launched kernels. Each rank has its own steps.
    #[default]
    Step,
    /// Per chosen kernel; of many ranks, per measured collective, counted once for all ranks.
    Call,
    /// Not divided: sums are compared.
    Total,
}

/// Why traces are not compared per step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NotPerStep {
    /// A trace, or one of its ranks, marks no step that launched kernels.
    NotMarked,
    /// The two traces have no kind of step in common.
    OtherKind,
}

/// What both traces are divided by, and the number of those units in each.
pub(crate) type Divided = (Per, u64, u64);

impl Per {
    /// The name in JSON and CSV.
    pub fn name(self) -> &'static str {
        match self {
            Per::Step => "step",
            Per::Call => "call",
            Per::Total => "total",
        }
    }

    /// The unit by which two traces can be compared, given the requested one, and why it differs from that.
    pub(crate) fn fitting(self, before: &LaunchingSteps, after: &LaunchingSteps) -> (Per, Option<NotPerStep>) {
        let is_marked = |steps: &LaunchingSteps| steps.count > 0 && steps.unmarked == 0;
        let has = |name: &String| after.names.keys().any(|other| kind(other) == kind(name));
        match self {
            Per::Step if !is_marked(before) || !is_marked(after) => (Per::Call, Some(NotPerStep::NotMarked)),
            Per::Step if !before.names.keys().any(has) => (Per::Call, Some(NotPerStep::OtherKind)),
            per => (per, None),
        }
    }

    /// The number of units in a trace.
    pub(crate) fn units(self, steps: u64, calls: u64) -> u64 {
        match self {
            Per::Step => steps.max(1),
            Per::Call => calls.max(1),
            Per::Total => 1,
        }
    }
}

/// The kernels of one of the traces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SideTotals {
    /// The sums.
    #[serde(flatten)]
    pub totals: Totals,
    /// The sums divided by the side's `divided_by`.
    pub each: Each,
}

/// Totals divided by a number of steps or calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Each {
    /// The number of kernels.
    pub count: f64,
    /// How long they ran, in ns.
    pub gpu_time_ns: f64,
    /// How long no compute kernel ran beside them on their GPU, in ns.
    pub exposed_ns: f64,
}

impl SideTotals {
    /// Divides totals by a number of units.
    pub(super) fn divided(totals: Totals, units: u64) -> Self {
        // Equal ratios of integers below 2^53 give equal floats, because division rounds correctly.
        let by = |order: Order| totals.by(order) / units as f64;
        let each = Each { count: by(Order::Count), gpu_time_ns: by(Order::GpuTime), exposed_ns: by(Order::Exposed) };
        SideTotals { totals, each }
    }

    /// The value that an order sorts by: divided, except for the mean, which is per kernel already.
    pub fn by(&self, order: Order) -> f64 {
        match order {
            Order::Count => self.each.count,
            Order::GpuTime => self.each.gpu_time_ns,
            Order::Exposed => self.each.exposed_ns,
            Order::Mean => self.totals.mean(),
            // It is asked of one answer only.
            Order::Critical => 0.0,
        }
    }
}

/// A measure in both traces: a number of kernels or ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delta {
    /// In the first trace.
    pub before: f64,
    /// In the second trace.
    pub after: f64,
}

impl Delta {
    /// The growth from the first trace to the second; negative if it shrank.
    pub fn growth(self) -> f64 {
        self.after - self.before
    }

    /// The growth as a fraction of the first value; `None` if that is zero.
    pub fn share(self) -> Option<f64> {
        (self.before > 0.0).then(|| self.growth() / self.before)
    }
}

/// A value of a measure: a count, which has a fraction if it is per step, or a length of time.
pub fn value(measure: Order, number: f64) -> String {
    match measure {
        Order::Count => grouped(number, if number.fract() == 0.0 { 0 } else { 3 }),
        Order::GpuTime | Order::Exposed | Order::Mean | Order::Critical => duration(Ns::rounded(number)),
    }
}

/// A change: `+1.23 ms (+12.3 %)`, `−1.23 ms (−12.3 %)`, or `=` if there is none.
pub fn change(measure: Order, delta: Delta) -> String {
    let share = delta.share().filter(|share| *share != 0.0);
    let share = share.map_or(String::new(), |share| format!(" ({}{})", sign(share), percent(share.abs())));
    format!("{}{share}", growth(measure, delta.growth()))
}

/// A change without its share: `+1.23 ms`, `−1.23 ms`, or `=` if there is none.
pub(crate) fn growth(measure: Order, growth: f64) -> String {
    if growth == 0.0 { "=".to_owned() } else { format!("{}{}", sign(growth), value(measure, growth.abs())) }
}
