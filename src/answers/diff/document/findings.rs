//! What every form says of two traces side by side: how much changed, the stacks that changed most, and facts.

use super::changes::value_on;
use super::measure::suffix;
use super::summary::damaged;
use super::{compared, other_ranks, other_steps};
use crate::answers::cost::Order;
use crate::answers::diff::delta::{Delta, Measured, Per, change, growth, value};
use crate::answers::diff::{Change, Diff, Side};
use crate::answers::stacks::origin::Names;
use crate::document::findings::{Document, Finding, FindingKind, Link, Place};
use crate::document::format::{
    count, duration, percent, percent_or_unknown, shell_word, shorten_middle, sign, visible,
};
use crate::time::Ns;

/// The smallest change that is a finding, as a share of the exposed time, and of the change of all that was measured.
const NOTABLE: f64 = 0.01;

/// The smallest part of a change of the measured time that the verdict names, as a share of that time. Less is rounding.
const NOTABLE_PART: f64 = 0.001;

const NAME: usize = 160;

pub(crate) fn document(diff: &Diff) -> Document {
    Document {
        title: "What changed".to_owned(),
        damage: damaged(diff),
        verdict: verdict(diff),
        findings: findings(diff),
        facts: facts(diff),
        ..Document::default()
    }
}

fn delta(diff: &Diff, get: fn(&Side) -> Ns) -> Delta {
    Delta { before: diff.before.each(get(&diff.before)), after: diff.after.each(get(&diff.after)) }
}

fn verdict(diff: &Diff) -> Vec<String> {
    let of = |delta: Delta| format!("{} → {}", duration(Ns::rounded(delta.before)), duration(Ns::rounded(delta.after)));
    let how = |delta: Delta| match delta.growth() {
        0.0 => "as before".to_owned(),
        _ => change(Order::GpuTime, delta),
    };
    let length = length(diff);
    let is_measured = length.is_some();
    let mut text: Vec<String> = not_alike(diff).into_iter().chain(length).collect();
    let exposed = delta(diff, |side| side.kernels.totals.exposed_ns);
    // What the first sentence says of all collectives.
    let is_said = is_measured && is_rounded_to(exposed, diff.measured(|of| of.exposed_ns));
    if !is_said {
        text.push(format!("Exposed time of these kernels: {}, {}.", of(exposed), how(exposed)));
    }
    let without = delta(diff, |side| side.without_launch.exposed_ns);
    if is_notable(exposed, without.growth()) {
        text.push(format!("Exposed time of kernels without a launch: {}, {}.", of(without), how(without)));
    }
    text.push(largest_change(diff));
    text.extend((diff.per != Per::Step).then(|| format!("{}.", compared(diff))));
    text
}

fn is_rounded_to(one: Delta, other: Delta) -> bool {
    let words = |of: Delta| [of.before, of.after].map(|time| duration(Ns::rounded(time)));
    words(one) == words(other)
}

/// What makes the sides hard to compare.
fn not_alike(diff: &Diff) -> Vec<String> {
    let [before, after] = [&diff.before.ranks, &diff.after.ranks];
    let are_several = before.len() > 1 || after.len() > 1;
    let ranks = other_ranks([before, after])
        .filter(|_| are_several)
        .map(|differ| format!("The sides are of other ranks: {differ}."));
    let steps = other_steps([&diff.before.steps, &diff.after.steps]).filter(|_| diff.per == Per::Step);
    let steps = steps.map(|differ| format!("The work may have changed: {differ}."));
    let python = diff.without_python.as_ref().map(|trace| {
        format!(
            "{} has no Python functions, and the other trace has: stacks are compared by operators and calls alone. Record both with with_stack=True to compare code.",
            visible(trace)
        )
    });
    ranks.into_iter().chain(steps).chain(python).collect()
}

fn kind(diff: &Diff) -> &'static str {
    if diff.grouped_by.is_empty() { "stack" } else { "group" }
}

/// If compute is this share of the change or more, the stacks of collectives do not explain it.
const MOST: f64 = 0.5;

const COMPUTE: &str = "compute";

/// A part of the measured time, and how long it is.
type PartTime = (&'static str, fn(&Measured) -> f64);

/// The parts of the measured time, by what a GPU did.
const PARTS: &[PartTime] = &[
    (COMPUTE, |of| of.compute_ns),
    ("exposed collectives", |of| of.exposed_ns),
    ("idle", |of| of.idle_ns),
    ("other work", |of| of.busy_ns - of.compute_ns - of.exposed_ns),
];

/// `Steps take 118.8 ms instead of 77.2 ms (+53.8 %): compute +38.9 ms, idle +5.52 ms.` `None` if nothing was measured.
fn length(diff: &Diff) -> Option<String> {
    let all = diff.measured(|of| of.wall_ns);
    if all.before <= 0.0 || all.after <= 0.0 {
        return None;
    }
    let subject = match diff.per {
        Per::Step => "Steps take",
        _ => "What was measured takes",
    };
    let per = if diff.per == Per::Call { suffix(diff.per) } else { "" };
    let [before, after] = [all.before, all.after].map(|time| duration(Ns::rounded(time)));
    let is_same = before == after;
    let share = all.growth() / all.before;
    let first = match is_same {
        true => format!("{subject} {after}{per}, as before"),
        false => format!("{subject} {after}{per} instead of {before} ({}{})", sign(share), percent(share.abs())),
    };
    let mut parts: Vec<(&str, f64)> = PARTS.iter().map(|(name, get)| (*name, diff.measured(*get).growth())).collect();
    parts.retain(|(_, growth)| is_notable(all, *growth));
    parts.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let parts: Vec<String> =
        parts.into_iter().map(|(name, by)| format!("{name} {}", growth(Order::GpuTime, by))).collect();
    let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    let several = [&diff.before, &diff.after].iter().any(|side| side.summary.gpus > 1);
    Some(format!("{first}{parts}{}.", if several { " (means of the GPUs)" } else { "" }))
}

/// Whether the growth of a part of what was measured is more than rounding.
fn is_notable(all: Delta, growth: f64) -> bool {
    growth.abs() >= NOTABLE_PART * all.before.max(all.after)
}

/// The compute, if most of the change is that and the stacks of these kernels do not have it.
fn unexplained_compute(diff: &Diff) -> Option<Delta> {
    let growth = |(_, get): &PartTime| diff.measured(*get).growth();
    let (name, get) = PARTS.iter().max_by(|a, b| growth(a).abs().total_cmp(&growth(b).abs()))?;
    let (compute, all) = (diff.measured(*get), diff.measured(|of| of.wall_ns));
    let chosen = delta(diff, |side| side.kernels.totals.gpu_time_ns);
    let is_most = *name == COMPUTE && is_notable(all, compute.growth()) && compute.growth() / all.growth() >= MOST;
    (is_most && chosen.growth() / compute.growth() < MOST).then_some(compute)
}

/// What changed besides the stacks: compute that they do not explain, or the time in which no kernel ran.
fn part_findings(diff: &Diff) -> Vec<Finding> {
    let all = diff.measured(|of| of.wall_ns);
    let [before, after] = [&diff.before.trace, &diff.after.trace].map(|trace| shell_word(trace));
    let finding = |part: &str, of: Delta, what: &str, advice: Option<String>| Finding {
        kind: FindingKind::Change,
        cost: format!("{} {part}{}", change(Order::GpuTime, of), suffix(diff.per)),
        cost_ns: Some(Ns::rounded(of.growth())),
        what: what.to_owned(),
        advice,
        is_better: of.growth() < 0.0,
        ..Finding::default()
    };
    let compute = unexplained_compute(diff).map(|of| {
        let advice = format!("compare the stacks of all kernels: nccl-stacks diff {before} {after} --kernel-name '*'");
        finding(COMPUTE, of, "kernels that are no collectives", Some(advice))
    });
    let idle =
        Some(diff.measured(|of| of.idle_ns)).filter(|of| of.growth().abs() >= NOTABLE * all.before.max(all.after));
    let idle = idle.map(|of| {
        let advice = format!("see what the GPU waits for: nccl-stacks ranks {after}");
        // Without collectives `ranks` finds nothing.
        let helps = of.growth() > 0.0 && diff.after.summary.collectives_ns > Ns::ZERO;
        finding("idle", of, "no kernel runs", helps.then_some(advice))
    });
    compute.into_iter().chain(idle).collect()
}

/// The stack that changed most, if that is notable.
fn largest_change(diff: &Diff) -> String {
    let changes: Vec<&Change> = diff.all_changes().collect();
    let names = Names::new(diff.all_changes().map(Change::naming));
    let what = kind(diff);
    let largest = |measure: Order| {
        let least = NOTABLE * diff.before.kernels.by(measure).max(diff.after.kernels.by(measure));
        let by = |at: &usize| changes[*at].growth(measure).abs();
        (0..changes.len()).rev().max_by(|a, b| by(a).total_cmp(&by(b))).filter(|at| by(at) > 0.0 && by(at) >= least)
    };
    let measures = [(Order::Exposed, "exposed"), (Order::GpuTime, "GPU time")];
    let Some((at, measure, noun)) =
        measures.into_iter().find_map(|(measure, noun)| Some((largest(measure)?, measure, noun)))
    else {
        return match diff.changed {
            0 => format!("No {what} changed."),
            _ => format!("No {what} changed by {} of the exposed time.", percent(NOTABLE)),
        };
    };
    let of = changes[at];
    let name = match of.telling.is_empty() {
        true => "(no frames)".to_owned(),
        false => shorten_middle(&names.name(at).join(" in "), NAME),
    };
    let fate = of.fate().map_or(String::new(), |fate| format!(" ({fate})"));
    let by = change(measure, of.delta(measure));
    format!("The {what} that changed most is {name}{fate}: {by} {noun}{}.", suffix(diff.per))
}

/// `1 kernel per step`
fn kernels(number: f64, per: &str) -> String {
    format!("{} kernel{}{per}", value(Order::Count, number), if number == 1.0 { "" } else { "s" })
}

fn facts(diff: &Diff) -> Vec<(&'static str, String)> {
    let both = |get: &dyn Fn(&Side) -> String| format!("{} → {}", get(&diff.before), get(&diff.after));
    let share = |side: &Side, time: f64| percent_or_unknown(side.share(time));
    vec![
        ("Steps", both(&|side| count(side.steps.count))),
        ("Window", both(&|side| duration(side.summary.wall_ns))),
        ("Compute", both(&|side| share(side, side.measured.compute_ns))),
        ("Collectives", both(&|side| share(side, side.measured.collectives_ns))),
        ("Exposed", both(&|side| share(side, side.measured.exposed_ns))),
        ("Kernels", both(&|side| count(side.kernels.totals.count))),
        ("Outside of it", both(&|side| count(side.kernels_outside))),
    ]
}

/// What changed most comes first.
fn findings(diff: &Diff) -> Vec<Finding> {
    let changes: Vec<&Change> = diff.all_changes().collect();
    let names = Names::new(diff.all_changes().map(Change::naming));
    let growth = |at: usize| changes[at].growth(Order::Exposed);
    let all = diff.measured(|of| of.wall_ns).growth().abs();
    let least = NOTABLE * diff.before.kernels.by(Order::Exposed).max(diff.after.kernels.by(Order::Exposed)).max(all);
    let notable = (0..changes.len()).filter(|at| growth(*at) != 0.0 && growth(*at).abs() >= least);
    let per = suffix(diff.per);
    let finding = |at: usize| {
        let of = changes[at];
        let listed = Some(at).filter(|at| *at < diff.changes.len());
        let Delta { before, after } = of.delta(Order::Count);
        let [mean_before, mean_after] = [of.before, of.after].map(|side| value_on(side, Order::Mean));
        let text = match (of.before, of.after) {
            (None, _) => format!("New: {}, mean {mean_after}.", kernels(after, per)),
            (_, None) => format!("Vanished: it had {}, mean {mean_before}.", kernels(before, per)),
            _ if before == after => {
                format!("{}, as before, mean {mean_before} → {mean_after}.", kernels(after, per))
            }
            _ => {
                format!("{} → {}, mean {mean_before} → {mean_after}.", value(Order::Count, before), kernels(after, per))
            }
        };
        Finding {
            kind: FindingKind::Change,
            cost_ns: Some(Ns::rounded(growth(at))),
            place: Place { line: of.telling.first().cloned(), row: listed, ..Place::default() },
            cost: format!("{} exposed{per}", change(Order::Exposed, of.delta(Order::Exposed))),
            what: if of.telling.is_empty() { "(no frames)".to_owned() } else { names.name(at).join(" in ") },
            evidence: vec![text],
            is_better: growth(at) < 0.0,
            link: listed.map(|at| Link { text: "Before and after", view: "diff", stack: Some(at), ..Link::default() }),
            ..Finding::default()
        }
    };
    let mut found: Vec<Finding> = part_findings(diff).into_iter().chain(notable.map(finding)).collect();
    found.sort_by_key(|finding| std::cmp::Reverse(finding.cost_ns.map(|cost| cost.0.abs())));
    found
}
