//! What changed from the first trace of a diff to the second: a measure before and after, and the unit that both are divided by.
//!
//! Two traces rarely have the same number of steps, so sums would show which trace is longer, not which is faster. So values are compared per step.
//! If a trace marks no steps, values are compared per kernel, that is per call of the collective: a step of the same program always makes as many
//! calls.

use serde::Serialize;

use crate::answers::cost::{Order, Totals};
use crate::answers::stacks::launching_steps::LaunchingSteps;
use crate::answers::stacks::summary::Summary;
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
    /// `sides` are the steps and the number of calls of each.
    pub(crate) fn fitting(self, sides: [(&LaunchingSteps, u64); 2]) -> (Per, Option<NotPerStep>) {
        let [(before, _), (after, _)] = sides;
        let is_marked = |steps: &LaunchingSteps| steps.count > 0 && steps.unmarked == 0;
        let has = |name: &String| after.names.keys().any(|other| kind(other) == kind(name));
        let (per, why) = match self {
            Per::Step if !is_marked(before) || !is_marked(after) => (Per::Call, Some(NotPerStep::NotMarked)),
            Per::Step if !before.names.keys().any(has) => (Per::Call, Some(NotPerStep::OtherKind)),
            per => (per, None),
        };
        // The work of a run without calls cannot be measured by them.
        let is_any_without = sides.iter().any(|(_, calls)| *calls == 0);
        (if per == Per::Call && is_any_without { Per::Total } else { per }, why)
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

/// What GPUs did for a unit, as the mean of the GPUs, in ns.
///
/// Steps of which only one trace has several are compared each alone: what lies between steps is counted once less than the steps. If both traces have
/// several, the mean of what lies between them is added, which is the time from the start of one to the start of the next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Measured {
    /// How long it took.
    pub wall_ns: f64,
    /// When any kernel ran.
    pub busy_ns: f64,
    /// When none did.
    pub idle_ns: f64,
    /// When compute kernels ran.
    pub compute_ns: f64,
    /// When collectives ran.
    pub collectives_ns: f64,
    /// When collectives ran and no compute kernel did.
    pub exposed_ns: f64,
}

impl Measured {
    fn of(time: impl Fn(fn(&Summary) -> Ns) -> f64) -> Self {
        Measured {
            wall_ns: time(|of| of.wall_ns),
            busy_ns: time(|of| of.busy_ns),
            idle_ns: time(|of| of.wall_ns - of.busy_ns),
            compute_ns: time(|of| of.compute_ns),
            collectives_ns: time(|of| of.collectives_ns),
            exposed_ns: time(|of| of.exposed_ns),
        }
    }

    /// What the windows of both sides were measured as, and their steps; `calls` is the number of calls of each.
    pub(super) fn both(per: Per, sides: [(&Summary, &Summary); 2], calls: [u64; 2]) -> [Self; 2] {
        // On each GPU, one less than its steps.
        let gaps = sides.map(|(all, steps)| match all.gpu_span {
            Some(_) => steps.gpus.saturating_sub(all.gpus),
            None => 0,
        });
        let of = |at: usize| {
            let ((all, steps), gap) = (sides[at], gaps[at] as f64);
            let gpus = all.gpus.max(1) as f64;
            let of_steps = all.gpus.max(steps.gpus).max(1) as f64;
            Measured::of(|time| match (per, gaps.map(|gaps| gaps > 0)) {
                (Per::Total, _) => time(all).as_f64() / gpus,
                (Per::Call, _) => time(all).as_f64() / calls[at].max(1) as f64,
                (Per::Step, [false, false]) => time(all).as_f64() / of_steps,
                (Per::Step, [true, true]) => time(steps).as_f64() / of_steps + (time(all) - time(steps)).as_f64() / gap,
                (Per::Step, _) => time(steps).as_f64() / of_steps,
            })
        };
        [of(0), of(1)]
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
