//! Notes on a diff: what it leaves out, what makes its traces hard to compare, and which bounds are exceeded.

use std::collections::BTreeSet;

use crate::answers::bound::{Bound, Limit};
use crate::answers::cost::Order;
use crate::answers::diff::Diff;
use crate::answers::diff::delta::{Delta, NotPerStep, Per, change, value};
use crate::answers::diff::document::{other_ranks, other_steps};
use crate::answers::ranks::change::RankChanges;
use crate::answers::ranks::data::RankReport;
use crate::answers::stacks::launching_steps::LaunchingSteps;
use crate::document::format;
use crate::document::format::{count, duration, kernels};
use crate::time::Ns;

use crate::cli::terminal::note;

/// What a diff leaves out, and what makes its traces hard to compare. `is_narrowed`: the user chose a part of each trace.
pub(crate) fn diff(diff: &Diff, is_narrowed: bool) {
    if diff.unchanged > 0 {
        note(&format!("Unchanged: {} stacks", count(diff.unchanged)));
    }
    if diff.left_out() > 0 {
        note(&format!("Not shown: {} of {} stacks", count(diff.left_out()), count(diff.changed)));
    }
    let [before, after] = [&diff.before, &diff.after].map(|side| side.gpus(diff.per));
    if before != after {
        let [before, after] = [before, after].map(|gpus| value(Order::Count, gpus));
        note(&format!("Note: the traces are of {before} and {after} GPUs, whose times are summed"));
    }
    let sides = [&diff.before, &diff.after];
    let [before, after] = sides.map(|side| side.kernels_outside);
    if !is_narrowed && before + after > 0 {
        note(&format!(
            "Left out: {} before, {} after, launched before the first step or after the last",
            kernels(before),
            count(after)
        ));
    }
    of_steps((diff.per, diff.not_per_step), sides.map(|side| &side.steps));
    if let Some(lengths) = diff.differing_lengths() {
        let [before, after] = lengths.map(|length| duration(Ns::rounded(length)));
        let advice = if is_narrowed { "" } else { "; --step chooses one of each" };
        let what = if diff.per == Per::Step { "steps" } else { "windows" };
        note(&format!("Note: the {what} differ in length ({before} before, {after} after){advice}"));
    }
}

/// What makes two runs of many ranks hard to compare.
pub(crate) fn rank_changes(changes: &RankChanges) {
    of_steps((changes.per, changes.not_per_step), [&changes.before.steps, &changes.after.steps]);
}

/// Warns if the steps have different names, or if sums are over different numbers of steps.
fn of_steps((per, not_per_step): (Per, Option<NotPerStep>), [before, after]: [&LaunchingSteps; 2]) {
    if per == Per::Total && not_per_step.is_none() && before.count != after.count {
        let [before, after] = [before, after].map(|steps| count(steps.count));
        note(&format!(
            "Note: the sums are over {before} steps before and {after} after; without --total steps are compared"
        ));
    }
    if let (Per::Step, Some(differ)) = (per, other_steps([before, after])) {
        note(&format!("Note: {differ}; --step chooses one of each"));
    }
}

/// The trace that has none of the kernels, if there is one.
pub(crate) fn nothing_on_a_side(diff: &Diff, what: &str) -> Option<String> {
    let side = [&diff.before, &diff.after].into_iter().find(|side| side.kernels.totals.count == 0)?;
    Some(format!("{}: no {what} ran in the window", side.trace))
}

/// `Exceeded: exposed>+5%: 120.0 ms before, 128.1 ms after, +8.10 ms (+6.8 %)`
pub(crate) fn exceeded(diff: &Diff, bound: &Bound) -> String {
    grown(bound, &diff.bounded(bound.of), diff.per)
}

/// The same for what is bounded in any two runs.
pub(crate) fn grown(bound: &Bound, delta: &Delta, per: Per) -> String {
    let measure = bound.measure();
    let [before, after] = [delta.before, delta.after].map(|number| value(measure, number));
    let per = if measure == Order::Mean { "" } else { crate::answers::diff::document::suffix(per) };
    format!("Exceeded: {}: {before} before, {after} after{per}, {}", bound.text, change(measure, *delta))
}

/// `Exceeded: waited>20%: 3.10 ms, which is 31.0 % of the measured time`
pub(crate) fn exceeded_by_ranks(report: &RankReport, bound: &Bound) -> String {
    let number = report.bounded(bound);
    let share = format::percent_or_unknown(Ns::rounded(number).share_of(report.measured_ns));
    let share = match bound.limit {
        Limit::Share(_) => format!(", which is {share} of the measured time"),
        _ => String::new(),
    };
    format!("Exceeded: {}: {}{share}", bound.text, value(bound.measure(), number))
}

/// Why a growth from one side to the other says nothing, if it does: `Not comparable: 3 steps before, 4 after`. `ranks` are those of each side, as far as
/// they are known.
pub(crate) fn not_comparable(
    (per, not_per_step): (Per, Option<NotPerStep>),
    ranks: [&BTreeSet<Option<u32>>; 2],
    steps: [&LaunchingSteps; 2],
    are_damaged: [bool; 2],
) -> Option<String> {
    let mut why = Vec::new();
    why.extend(other_ranks(ranks));
    why.extend(other_steps(steps).filter(|_| per == Per::Step));
    let [before, after] = steps.map(|steps| steps.count);
    if per == Per::Total && not_per_step.is_none() && before != after {
        why.push(format!("{} steps before, {} after; without --total steps are compared", count(before), count(after)));
    }
    why.extend(match are_damaged {
        [true, true] => Some("both are cut off or corrupt".to_owned()),
        [true, false] => Some("the first is cut off or corrupt".to_owned()),
        [false, true] => Some("the second is cut off or corrupt".to_owned()),
        [false, false] => None,
    });
    if why.is_empty() { None } else { Some(format!("Not comparable: {}", why.join("; "))) }
}
