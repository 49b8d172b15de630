//! What a diff leaves out, what makes its traces hard to compare, and which bounds they exceed.

use nccl_stacks::analysis::diff::{Bound, Diff};
use nccl_stacks::report::format::{change, count, duration, value};

use crate::cli::terminal::note;

/// What a diff leaves out, and what makes its traces hard to compare.
/// `is_narrowed`: the user chose a part of each.
pub(crate) fn diff(diff: &Diff, is_narrowed: bool) {
    if diff.unchanged > 0 {
        note(&format!("Unchanged: {} stacks", count(diff.unchanged)));
    }
    if diff.left_out() > 0 {
        note(&format!("Not shown: {} of {} stacks", count(diff.left_out()), count(diff.changed)));
    }
    let [before, after] = [&diff.before, &diff.after].map(|side| side.summary.gpus);
    if before != after {
        note(&format!("Note: the traces are of {before} and {after} GPUs, whose times are summed"));
    }
    if diff.windows_differ() {
        let [before, after] = [&diff.before, &diff.after].map(|side| duration(side.summary.window.duration()));
        let advice = if is_narrowed { "" } else { "; --function-name and --index choose one step of each" };
        note(&format!("Note: the windows differ in length ({before} before, {after} after){advice}"));
    }
}

/// That one of the traces has none of the kernels, if it has none.
pub(crate) fn nothing_on_a_side(diff: &Diff, what: &str) -> Option<String> {
    let side = [&diff.before, &diff.after].into_iter().find(|side| side.kernels.count == 0)?;
    Some(format!("{}: no {what} ran in the window", side.trace))
}

/// `Exceeded: exposed>+5%: 120.000 ms before, 128.100 ms after, +8.100 ms (+6.8 %)`
pub(crate) fn exceeded(diff: &Diff, bounds: &[&Bound]) -> String {
    let line = |bound: &&Bound| {
        let delta = diff.delta(bound.measure);
        let [before, after] = [delta.before, delta.after].map(|number| value(bound.measure, number));
        format!("Exceeded: {}: {before} before, {after} after, {}", bound.text, change(bound.measure, delta))
    };
    bounds.iter().map(line).collect::<Vec<_>>().join("\n")
}
