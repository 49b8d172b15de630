//! Compares two traces: which stacks cost more in the second, which are new, which vanished.
//!
//! Values are compared per step, or per call if there are no steps, see [`Per`].
//!
//! Groups by other keys are compared as stacks whose frames are the values of the keys.
//!
//! Where one trace alone has Python functions, stacks are compared without these. Stacks are matched by their frames without line numbers: another version of a program has the same functions in the same files, on other lines.

pub mod delta;
pub mod document;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::bound::{Bound, Bounded};
use super::cost::{Order, Totals};
use super::damage::Losses;
use super::diff::delta::{Delta, Measured, NotPerStep, Per, SideTotals};
use super::stacks::data::{Stack, StackReport};
use super::stacks::grouping::GroupedKernels;
use super::stacks::launching_steps::LaunchingSteps;
use super::stacks::origin::Frames;
use super::stacks::summary::Summary;
use crate::attribution::stack_key::StackKey;
use crate::names::frames::is_python;
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
    /// What is measured of that for one unit.
    pub measured: Measured,
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
    /// The ranks of its traces; `None` of one that does not say which it is.
    #[serde(skip)]
    pub ranks: BTreeSet<Option<u32>>,
}

impl Side {
    /// A time in its window divided by the number of units, in ns.
    pub fn each(&self, time: Ns) -> f64 {
        time.as_f64() / self.divided_by as f64
    }

    /// What is measured as a share of all that is, 0 to 1; `None` if that is nothing.
    pub fn share(&self, measured: f64) -> Option<f64> {
        (self.measured.wall_ns > 0.0).then(|| measured / self.measured.wall_ns)
    }

    /// The number of GPUs of a unit. The times of many ranks are divided by the steps of all of them.
    pub fn gpus(&self, per: Per) -> f64 {
        let (all, steps) = (self.summary.gpus, self.steps.alone.gpus);
        match per {
            Per::Step => all.max(steps) as f64 / self.divided_by as f64,
            Per::Call => 1.0,
            Per::Total => all as f64,
        }
    }

    fn calls(&self) -> u64 {
        self.kernels.totals.count
    }

    fn divide(&mut self, per: Per) {
        self.divided_by = per.units(self.steps.count, self.calls());
        self.kernels = SideTotals::divided(self.kernels.totals, self.divided_by);
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
        self.delta(order).growth()
    }

    /// `new` or `vanished`; `None` for a stack that both traces have.
    pub fn fate(&self) -> Option<&'static str> {
        match (self.before, self.after) {
            (None, _) => Some("new"),
            (_, None) => Some("vanished"),
            _ => None,
        }
    }

    /// A measure of the stack; 0 in a trace without it.
    pub fn delta(&self, measure: Order) -> Delta {
        let [before, after] = [self.before, self.after].map(|side| side.map_or(0.0, |of_side| of_side.by(measure)));
        Delta { before, after }
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
    /// The trace without Python functions, where the other one has them: stacks are compared without these.
    pub without_python: Option<String>,
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
    /// Those that `--limit` left out.
    #[serde(skip)]
    pub unlisted: Vec<Change>,
}

impl Diff {
    /// Compares the answers of two traces per `per`, or per call if steps are requested but missing. Stacks of one trace that differ only in line
    /// numbers count as one. The reports must have been made with [`StackOptions::counts_steps`](crate::answers::stacks::data::StackOptions::counts_steps).
    pub fn new(before: (&str, StackReport), after: (&str, StackReport), per: Per) -> Diff {
        let mut changes: BTreeMap<StackKey, Change> = BTreeMap::new();
        let grouped_by = after.1.grouped.grouped_by.clone();
        let (mut before, mut left) = side(before);
        let (mut after, mut right) = side(after);
        let has_python =
            [&left, &right].map(|stacks| stacks.iter().any(|stack| paths(&stack.key).any(|of| is_python(of))));
        let without_python = match has_python {
            _ if !grouped_by.is_empty() || left.is_empty() || right.is_empty() => None,
            [true, false] => Some(after.trace.clone()),
            [false, true] => Some(before.trace.clone()),
            _ => None,
        };
        if without_python.is_some() {
            left.iter_mut().chain(&mut right).for_each(remove_python);
        }
        let (per, not_per_step) = per.fitting([&before, &after].map(|side| (&side.steps, side.calls())));
        before.divide(per);
        after.divide(per);
        let sides = [&before, &after];
        let measured = sides.map(|side| (&side.summary, &side.steps.alone));
        [before.measured, after.measured] = Measured::both(per, measured, sides.map(Side::calls));
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
                known.get_or_insert_default().totals += totals;
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
        let mut diff = Diff {
            before,
            after,
            per,
            not_per_step,
            grouped_by,
            without_python,
            new,
            vanished,
            unchanged,
            changed,
            changes,
            unlisted: Vec::new(),
        };
        diff.arrange(Order::GpuTime, None);
        diff
    }

    /// Sorts the changes by a measure, largest first, equal changes by text, and lists the first `limit`.
    pub fn arrange(&mut self, order: Order, limit: Option<usize>) {
        self.changes.append(&mut self.unlisted);
        self.changes
            .sort_by(|a, b| b.growth(order).abs().total_cmp(&a.growth(order).abs()).then_with(|| a.key.cmp(&b.key)));
        self.unlisted = self.changes.split_off(limit.unwrap_or(usize::MAX).min(self.changes.len()));
    }

    /// A measure of all chosen kernels.
    pub fn delta(&self, measure: Order) -> Delta {
        Delta { before: self.before.kernels.by(measure), after: self.after.kernels.by(measure) }
    }

    /// Whether the second trace is beyond a bound.
    pub fn exceeds(&self, bound: &Bound) -> bool {
        let sides = [&self.before, &self.after];
        match bound.of {
            Bounded::Cost(measure) if measure != Order::Mean => {
                let sums = sides.map(|side| side.kernels.totals.by(measure));
                bound.is_growth_exceeded(sums, sides.map(|side| side.divided_by))
            }
            of => {
                let Delta { before, after } = self.bounded(of);
                bound.is_growth_exceeded([before, after], [1, 1])
            }
        }
    }

    /// What is bounded, on each side and divided.
    pub fn bounded(&self, of: Bounded) -> Delta {
        match of {
            Bounded::Cost(measure) => self.delta(measure),
            Bounded::Step => self.measured(|of| of.wall_ns),
            Bounded::Idle => self.measured(|of| of.idle_ns),
            // Only ranks have the others.
            Bounded::Waited | Bounded::Caused | Bounded::Late => self.measured(|_| 0.0),
        }
    }

    /// What is measured of a unit on each side.
    pub fn measured(&self, get: fn(&Measured) -> f64) -> Delta {
        Delta { before: get(&self.before.measured), after: get(&self.after.measured) }
    }

    /// Whether a bound is on a value that cannot change, or is not there: per call, the count is always 1, and there are no steps.
    pub fn is_void(&self, bound: &Bound) -> bool {
        self.per == Per::Call && matches!(bound.of, Bounded::Cost(Order::Count) | Bounded::Step)
    }

    /// The stacks that changed, those that are listed first.
    pub fn all_changes(&self) -> impl Iterator<Item = &Change> + Clone {
        self.changes.iter().chain(&self.unlisted)
    }

    /// The number of changed stacks left out.
    pub fn left_out(&self) -> u64 {
        self.unlisted.len() as u64
    }

    /// The length of a step in each trace, or of the windows if sums are compared, in ns; `None` unless they differ so much that they hardly cover
    /// the same work.
    pub fn differing_lengths(&self) -> Option<[f64; 2]> {
        let of = |side: &Side| match self.per {
            Per::Step => side.measured.wall_ns,
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

/// All frames of a stack.
fn paths(key: &StackKey) -> impl Iterator<Item = &String> {
    let others = [&key.captured, &key.forward].into_iter().flatten().flat_map(|path| &path.frames);
    key.frames.iter().chain(others)
}

fn remove_python(stack: &mut Stack) {
    let key = &mut stack.key;
    let others = [&mut key.captured, &mut key.forward].into_iter().flatten().map(|path| &mut path.frames);
    let frames = others.chain([&mut key.frames, &mut stack.telling]);
    frames.for_each(|frames| frames.retain(|frame| !is_python(frame)));
    stack.headline = stack.headline.take().filter(|headline| !is_python(headline));
}

/// A side that is not divided yet.
fn side((trace, report): (&str, StackReport)) -> (Side, Vec<Stack>) {
    let StackReport { mut stacks, coverage, summary, damage, grouped, steps, kernels_in_trace, traces, .. } = report;
    let is_grouped = !grouped.grouped_by.is_empty();
    stacks.extend(grouped.groups.into_iter().map(as_stack));
    let without_launch = coverage.without_launch();
    // Groups include them already.
    let apart = if is_grouped { Totals::default() } else { without_launch };
    let kernels: Totals = stacks.iter().map(Stack::totals).chain([apart]).sum();
    let side = Side {
        trace: trace.to_owned(),
        kernels: SideTotals { totals: kernels, ..SideTotals::default() },
        kernels_outside: kernels_in_trace.saturating_sub(coverage.kernels),
        steps,
        summary,
        without_launch,
        damage,
        ranks: traces.iter().map(|trace| trace.rank.map(|rank| rank.0)).collect(),
        ..Side::default()
    };
    (side, stacks)
}
