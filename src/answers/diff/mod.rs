//! Compares two traces: which stacks cost more in the second, which are new, which vanished.
//!
//! Values are compared per step, or per call if there are no steps, see [`Per`].
//!
//! Groups by other keys are compared as stacks whose frames are the values of the keys.
//!
//! Stacks are matched by their frames without line numbers: another version of a program has the same functions in the same files, on other lines.

pub mod delta;
pub mod document;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::bound::{Bound, Bounded};
use super::cost::{Order, Totals};
use super::damage::Losses;
use super::diff::delta::{Delta, Fate, NotPerStep, Per, SideTotals};
use super::stacks::data::{Stack, StackReport};
use super::stacks::grouping::GroupedKernels;
use super::stacks::launching_steps::LaunchingSteps;
use super::stacks::origin::Frames;
use super::stacks::summary::Summary;
use crate::attribution::stack_key::StackKey;
use crate::time::Ns;

/// Windows whose lengths differ by more than this factor hardly cover the same work.
const ALIKE: f64 = 1.25;

/// One of the two traces.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Side {
    /// The trace, as it was named.
    pub trace: String,
    /// The steps of its window that launched kernels.
    pub steps: LaunchingSteps,
    /// The number of units that its values are divided by: its steps or calls according to `per`, or 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub divided_by: u64,
    /// The summary of its window, as sums. If neither a part of the trace nor totals were asked for, the window is from the first launch of the first
    /// step to the end of the last step.
    pub summary: Summary,
    /// The number of its stacks; stacks that differ only in line numbers count as one.
    pub stacks: u64,
    /// All chosen kernels in its window, including those without a launch.
    pub kernels: SideTotals,
    /// The number of chosen kernels of the trace outside the window.
    pub kernels_outside: u64,
    /// The unattributed ones of these, which have no stack.
    pub without_launch: Totals,
    /// What is wrong with the trace.
    pub damage: Losses,
}

impl Side {
    /// How long its window is, or idle, as a bound is on it; nothing of what only ranks have.
    fn time_of(&self, of: Bounded) -> Ns {
        match of {
            Bounded::Step => self.summary.wall_ns,
            Bounded::Idle => self.summary.wall_ns - self.summary.busy_ns,
            _ => Ns::ZERO,
        }
    }

    /// A time in its window divided by the number of units, in ns.
    pub fn each(&self, time: Ns) -> f64 {
        time.as_f64() / self.divided_by as f64
    }
}

/// A stack of either trace or of both.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Change {
    /// The frames; those of the second trace if it has the stack.
    #[serde(flatten)]
    pub key: StackKey,
    /// The frame that best shows where the stack comes from: the innermost frame of the user's own code, if it has any. `None` for a stack without
    /// frames.
    pub headline: Option<String>,
    /// See [`Stack::telling`].
    #[serde(skip)]
    pub telling: Vec<String>,
    /// The names of its kernels in the first trace.
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    pub kernels_before: BTreeSet<String>,
    /// The names of its kernels in the second trace.
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    pub kernels_after: BTreeSet<String>,
    /// Its kernels in the first trace; `None` if it is new.
    pub before: Option<SideTotals>,
    /// Its kernels in the second trace; `None` if it vanished.
    pub after: Option<SideTotals>,
}

impl Change {
    pub fn naming(&self) -> Frames<'_> {
        (&self.telling, &self.key.frames)
    }

    /// How much more the second trace has, per unit.
    pub fn growth(&self, order: Order) -> f64 {
        let of_side = |side: Option<SideTotals>| side.map_or(0.0, |of_side| of_side.by(order));
        of_side(self.after) - of_side(self.before)
    }

    /// Which of the traces has the stack.
    pub fn fate(&self) -> Fate {
        match (self.before, self.after) {
            (None, _) => Fate::New,
            (_, None) => Fate::Vanished,
            _ => Fate::Changed,
        }
    }

    /// A measure of the stack, if both traces have it.
    pub fn delta(&self, measure: Order) -> Option<Delta> {
        let (before, after) = self.before.zip(self.after)?;
        Some(Delta { before: before.by(measure), after: after.by(measure) })
    }

    /// Whether the stack costs the same per unit in both traces.
    fn is_same(&self) -> bool {
        self.before.map(|of_side| of_side.each) == self.after.map(|of_side| of_side.each)
    }
}

/// Two traces compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Diff {
    /// The first trace.
    pub before: Side,
    /// The second trace.
    pub after: Side,
    /// What the values of both are divided by.
    pub per: Per,
    /// Why that is not the step; `None` if it is, or if steps were not asked for.
    pub not_per_step: Option<NotPerStep>,
    /// The keys that kernels are grouped by; empty for stacks. The frames of a group are the values of its keys, outermost first.
    pub grouped_by: Vec<String>,
    /// The number of stacks that only the second trace has.
    pub new: u64,
    /// The number of stacks that only the first trace has.
    pub vanished: u64,
    /// The number of stacks with the same kernels at the same cost per unit in both.
    pub unchanged: u64,
    /// The number of stacks that changed, including those that `--limit` left out.
    pub changed: u64,
    /// The stacks that changed, largest change per unit first, or in the order that was asked for. They are as the second trace has them, or as the
    /// first has them if they vanished.
    pub changes: Vec<Change>,
}

impl Diff {
    /// Compares the answers of two traces per `per`, or per call if steps are requested but missing. Stacks of one trace that differ only in line
    /// numbers count as one. The reports must have been made with [`StackOptions::counts_steps`](crate::answers::stacks::data::StackOptions::counts_steps).
    pub fn new(before: (&str, StackReport), after: (&str, StackReport), per: Per) -> Diff {
        let mut changes: BTreeMap<StackKey, Change> = BTreeMap::new();
        let grouped_by = after.1.grouped.grouped_by.clone();
        let (per, not_per_step) = per.fitting(&before.1.steps, &after.1.steps);
        let (mut before, left) = side(before, per);
        let (mut after, right) = side(after, per);
        // The second trace comes last, so that its frames are kept.
        for (stacks, is_after) in [(left, false), (right, true)] {
            for stack in stacks {
                let totals = stack.totals();
                let key = stack.key.without_lines();
                let change = changes.entry(key).or_default();
                let (known, kernels) = match is_after {
                    true => (&mut change.after, &mut change.kernels_after),
                    false => (&mut change.before, &mut change.kernels_before),
                };
                kernels.extend(stack.kernels_by_name.into_keys());
                // The first of several is the most frequent one.
                if known.is_none() {
                    (change.key, change.headline, change.telling) = (stack.key, stack.headline, stack.telling);
                }
                known.get_or_insert_default().totals.add(totals);
            }
        }
        for change in changes.values_mut() {
            change.before = change.before.map(|of_side| SideTotals::divided(of_side.totals, before.divided_by));
            change.after = change.after.map(|of_side| SideTotals::divided(of_side.totals, after.divided_by));
        }
        let stacks = changes.len() as u64;
        before.stacks = changes.values().filter(|change| change.before.is_some()).count() as u64;
        after.stacks = changes.values().filter(|change| change.after.is_some()).count() as u64;
        let changes: Vec<Change> = changes.into_values().filter(|change| !change.is_same()).collect();
        let count = |is: fn(&Change) -> bool| changes.iter().filter(|change| is(change)).count() as u64;
        let (new, vanished) = (count(|change| change.before.is_none()), count(|change| change.after.is_none()));
        let changed = changes.len() as u64;
        let unchanged = stacks - changed;
        let mut diff =
            Diff { before, after, per, not_per_step, grouped_by, new, vanished, unchanged, changed, changes };
        diff.arrange(Order::GpuTime, None);
        diff
    }

    /// Sorts the changes by a measure, largest first, equal changes by text, and keeps the first `limit`.
    pub fn arrange(&mut self, order: Order, limit: Option<usize>) {
        self.changes
            .sort_by(|a, b| b.growth(order).abs().total_cmp(&a.growth(order).abs()).then_with(|| a.key.cmp(&b.key)));
        self.changes.truncate(limit.unwrap_or(usize::MAX));
    }

    /// A measure of all chosen kernels.
    pub fn delta(&self, measure: Order) -> Delta {
        Delta { before: self.before.kernels.by(measure), after: self.after.kernels.by(measure) }
    }

    /// Whether the second trace is beyond a bound.
    pub fn exceeds(&self, bound: &Bound) -> bool {
        let sides = [&self.before, &self.after];
        let units = match bound.of {
            Bounded::Cost(Order::Mean) => [1, 1],
            _ => sides.map(|side| side.divided_by),
        };
        let sums = sides.map(|side| match bound.of {
            Bounded::Cost(measure) => side.kernels.totals.by(measure),
            of => side.time_of(of).as_f64(),
        });
        bound.is_growth_exceeded(sums, units)
    }

    /// What is bounded, on each side and divided, and as what its numbers are shown.
    pub fn bounded(&self, of: Bounded) -> (Order, Delta) {
        match of {
            Bounded::Cost(measure) => (measure, self.delta(measure)),
            of => {
                let [before, after] = [&self.before, &self.after].map(|side| side.each(side.time_of(of)));
                (Order::GpuTime, Delta { before, after })
            }
        }
    }

    /// Whether a bound is on a value that cannot change, or is not there: per call, the count is always 1, and there are no steps.
    pub fn is_void(&self, bound: &Bound) -> bool {
        self.per == Per::Call && matches!(bound.of, Bounded::Cost(Order::Count) | Bounded::Step)
    }

    /// The number of changed stacks left out.
    pub fn left_out(&self) -> u64 {
        self.changed.saturating_sub(self.changes.len() as u64)
    }

    /// The length of a step in each trace, or of the windows if sums are compared, in ns; `None` unless they differ so much that they hardly cover
    /// the same work.
    pub fn differing_lengths(&self) -> Option<[f64; 2]> {
        let of = |side: &Side| match self.per {
            Per::Step => side.each(side.summary.wall_ns),
            _ => side.summary.window.duration().as_f64(),
        };
        let [before, after] = [of(&self.before), of(&self.after)];
        let differ = self.per != Per::Call && before.min(after) * ALIKE < before.max(after);
        differ.then_some([before, after])
    }
}

/// Turns a group into a stack whose frames are the levels of its values.
fn as_stack(group: GroupedKernels) -> Stack {
    let label = group.label();
    Stack {
        key: StackKey { frames: group.path().map(str::to_owned).collect(), ..StackKey::default() },
        headline: Some(label.clone()),
        telling: vec![label],
        count: group.count,
        kernels_by_name: group.kernels_by_name,
        cost: group.cost,
        messages: group.messages,
        recorded: group.recorded,
        ..Stack::default()
    }
}

fn side((trace, report): (&str, StackReport), per: Per) -> (Side, Vec<Stack>) {
    let StackReport { mut stacks, coverage, summary, damage, grouped, steps, kernels_in_trace, .. } = report;
    let is_grouped = !grouped.grouped_by.is_empty();
    stacks.extend(grouped.groups.into_iter().map(as_stack));
    let mut without_launch = Totals::default();
    for unattributed in coverage.without_launch.values() {
        without_launch.add(unattributed.all);
    }
    // Groups include them already.
    let mut kernels = if is_grouped { Totals::default() } else { without_launch };
    stacks.iter().for_each(|stack| kernels.add(stack.totals()));
    let (trace, units) = (trace.to_owned(), per.units(steps.count, kernels.count));
    let (kernels, outside) = (SideTotals::divided(kernels, units), kernels_in_trace.saturating_sub(coverage.kernels));
    (
        Side {
            trace,
            steps,
            divided_by: units,
            summary,
            stacks: 0,
            kernels,
            kernels_outside: outside,
            without_launch,
            damage,
        },
        stacks,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::cost::{Cost, Distribution};
    use crate::answers::stacks::data::Unattributed;
    use crate::attribution::launches::Reason;

    fn stack(frames: &str, count: u64, gpu_time: i64, exposed: i64) -> Stack {
        let gpu_time = Distribution { total_ns: Ns(gpu_time), ..Distribution::default() };
        Stack {
            key: StackKey { frames: frames.split(';').map(str::to_owned).collect(), ..StackKey::default() },
            count,
            cost: Cost { gpu_time, exposed_ns: Ns(exposed), ..Cost::default() },
            ..Stack::default()
        }
    }

    fn report(stacks: Vec<Stack>) -> StackReport {
        StackReport { stacks, ..StackReport::default() }
    }

    fn totals(count: u64, gpu_time: i64, exposed: i64) -> Option<Totals> {
        Some(Totals { count, gpu_time_ns: Ns(gpu_time), exposed_ns: Ns(exposed), critical: None })
    }

    fn sums(side: Option<SideTotals>) -> Option<Totals> {
        side.map(|of_side| of_side.totals)
    }

    #[test]
    fn stacks_are_matched_by_file_and_function() {
        let before = vec![
            stack("a.py(1): f;launch", 4, 400, 100),
            stack("a.py(1): g;launch", 1, 50, 50),
            stack("same", 1, 9, 9),
        ];
        let after = vec![
            stack("a.py(9): f;launch", 3, 330, 200),
            stack("a.py(11): f;launch", 1, 70, 0),
            stack("b.py(1): f;launch", 2, 20, 20),
            stack("same", 1, 9, 9),
        ];
        let mut unattributed = report(before);
        unattributed.coverage.without_launch.insert(
            Reason::NoId,
            Unattributed {
                all: Totals { count: 1, gpu_time_ns: Ns(7), exposed_ns: Ns(5), critical: None },
                ..Unattributed::default()
            },
        );
        let mut diff = Diff::new(("before.json", unattributed), ("after.json", report(after)), Per::Total);
        let of = |change: &Change| (change.key.frames[0].clone(), sums(change.before), sums(change.after));
        let found: Vec<(String, Option<Totals>, Option<Totals>)> = diff.changes.iter().map(of).collect();
        assert_eq!(
            found,
            [
                ("a.py(1): g".to_owned(), totals(1, 50, 50), None),
                ("b.py(1): f".to_owned(), None, totals(2, 20, 20)),
                ("a.py(9): f".to_owned(), totals(4, 400, 100), totals(4, 400, 200)),
            ]
        );
        assert_eq!((diff.new, diff.vanished, diff.unchanged, diff.changed), (1, 1, 1, 3));
        assert_eq!(
            (sums(Some(diff.before.kernels)), sums(Some(diff.after.kernels))),
            (totals(7, 466, 164), totals(7, 429, 229))
        );
        assert_eq!((Some(diff.before.without_launch), diff.before.stacks, diff.after.stacks), (totals(1, 7, 5), 3, 3));
        diff.arrange(Order::Exposed, Some(1));
        assert_eq!(diff.changes[0].key.frames[0], "a.py(9): f");
        assert_eq!((diff.changes.len(), diff.changed), (1, 3));
    }

    #[test]
    fn bounds_are_on_growth() {
        let diff = |before, after| {
            let all = |totals| report(vec![stack("a", 10, totals, totals)]);
            Diff::new(("b", all(before)), ("a", all(after)), Per::Total)
        };
        for (text, before, after, exceeded) in [
            ("exposed>+5%", 1000, 1050, false),
            ("exposed>+5%", 1000, 1051, true),
            ("exposed > +5 %", 1000, 900, false),
            ("gpu>+0%", 1000, 1000, false),
            ("gpu>+0%", 0, 1, true),
            ("gpu>+900%", 0, 1, true),
            ("gpu>+1us", 0, 1000, false),
            ("gpu>+1us", 0, 1001, true),
            ("mean>+99", 0, 1000, true),
            ("mean>+100", 0, 1000, false),
            ("count>+0", 0, 1000, false),
        ] {
            assert_eq!(
                diff(before, after).exceeds(&Bound::on_changes(text).unwrap()),
                exceeded,
                "{text} {before} {after}"
            );
        }
        for text in [
            "",
            "exposed",
            "exposed>5%",
            "exposed<+5%",
            "cost>+5%",
            "exposed>+x%",
            "exposed>+-5%",
            "count>+1ms",
            "gpu>+-1",
            "gpu>+NaN%",
        ] {
            assert!(Bound::on_changes(text).is_err(), "{text}");
        }
    }
}
