//! What the measures of both traces are divided by.

use std::collections::{BTreeMap, BTreeSet};

use crate::answers::diff::Diff;
use crate::answers::diff::delta::{NotPerStep, Per};
use crate::answers::stacks::launching_steps::LaunchingSteps;
use crate::document::format::{count, ranks as ranks_in_words, visible};

/// ` per step`, which follows a divided measure.
pub fn suffix(per: Per) -> &'static str {
    match per {
        Per::Step => " per step",
        Per::Call => " per call",
        Per::Total => "",
    }
}

/// What both traces are divided by, why, and how many of it each has: `Per step: 3 steps before, 6 after`.
pub fn compared(diff: &Diff) -> String {
    let calls = [&diff.before, &diff.after].map(|side| side.kernels.totals.count);
    by_what(diff.per, diff.not_per_step, [&diff.before.steps, &diff.after.steps], ("call", calls))
}

/// The same for any two runs. `calls` measures the work where no step is marked: a noun, and its number in each run.
pub(crate) fn by_what(
    per: Per,
    not_per_step: Option<NotPerStep>,
    steps: [&LaunchingSteps; 2],
    (call, calls): (&str, [u64; 2]),
) -> String {
    let of = |what: &str, [before, after]: [u64; 2]| {
        let plural = if before == 1 { "" } else { "s" };
        format!("{} {what}{plural} before, {} after", count(before), count(after))
    };
    let counted = of("step", steps.map(|steps| steps.count));
    let calls = of(call, calls);
    let has_steps = steps.iter().any(|steps| steps.count > 0);
    match (per, not_per_step) {
        (Per::Step, _) => format!("Per step: {counted}"),
        (Per::Total, _) if !has_steps => "In all".to_owned(),
        (Per::Total, _) => format!("In all: {counted}"),
        (Per::Call, Some(NotPerStep::OtherKind)) => {
            let [before, after] = steps.map(|steps| names(&steps.names));
            format!("Per {call}: {calls}; their steps are of different kinds: {before}, and {after}")
        }
        (Per::Call, Some(NotPerStep::NotMarked)) if has_steps => {
            format!("Per {call}: {calls}; not all that was traced marks steps: {counted}")
        }
        (Per::Call, _) => format!("Per {call}: {calls}; no step is marked"),
    }
}

/// The ranks of both sides, if they differ. `None` is a trace that does not say which it is.
pub fn other_ranks([before, after]: [&BTreeSet<Option<u32>>; 2]) -> Option<String> {
    let known = |side: &BTreeSet<Option<u32>>| match side.iter().copied().collect::<Option<Vec<u32>>>() {
        Some(ranks) => ranks_in_words(&ranks),
        None => "ranks without numbers".to_owned(),
    };
    (before != after).then(|| format!("{} before, {} after", known(before), known(after)))
}

/// How much more of one kind the steps may be on one side, as a share of them.
const MIX: f64 = 0.01;

/// Says so if the steps have different names, as with different batch sizes, or other shares of them: the runs may have done different work.
pub fn other_steps(steps: [&LaunchingSteps; 2]) -> Option<String> {
    let [before, after] = steps.map(|steps| &steps.names);
    let share = |names: &BTreeMap<String, u64>, name: &str| {
        names.get(name).copied().unwrap_or(0) as f64 / names.values().sum::<u64>().max(1) as f64
    };
    let is_same_mix = before.keys().all(|name| (share(before, name) - share(after, name)).abs() < MIX);
    let what = match before.keys().eq(after.keys()) {
        false => "the steps have other names",
        true if !is_same_mix => "the kinds of steps have other shares",
        true => return None,
    };
    Some(format!("{what}: {} before, {} after", names(before), names(after)))
}

/// `step[DECODE bs=1] ×3, step[EXTEND bs=1] ×1`; a single name has no number.
pub(crate) fn names(names: &BTreeMap<String, u64>) -> String {
    match names.iter().collect::<Vec<_>>()[..] {
        [] => "none".to_owned(),
        [(name, _)] => visible(name).into_owned(),
        ref several => {
            let one = |(name, steps): &(&String, &u64)| format!("{} ×{}", visible(name), count(**steps));
            several.iter().map(one).collect::<Vec<_>>().join(", ")
        }
    }
}
