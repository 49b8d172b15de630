//! What every form says of two traces side by side: how much changed, the stacks that changed most, and facts.

use super::measure::suffix;
use super::summary::damaged;
use super::{compared, other_steps};
use crate::analysis::cost::Order;
use crate::analysis::delta::{Delta, Per, SideTotals};
use crate::analysis::diff::{Diff, Side};
use crate::analysis::origin::Names;
use crate::report::document::{Document, Finding, FindingKind, Link, Place};
use crate::report::format::{change, count, duration, percent_or_unknown, value};
use crate::time::Ns;

/// The smallest change that is a finding, as a share of the exposed time.
const NOTABLE: f64 = 0.01;

/// What all forms say.
pub(super) fn document(diff: &Diff) -> Document {
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
    let exposed = delta(diff, |side| side.kernels.totals.exposed);
    let gpu = delta(diff, |side| side.kernels.totals.gpu_time);
    let of = |delta: Delta| format!("{} → {}", duration(Ns::rounded(delta.before)), duration(Ns::rounded(delta.after)));
    let how = |delta: Delta| match delta.growth() {
        0.0 => "as before".to_owned(),
        _ => change(Order::GpuTime, delta),
    };
    let mut text = vec![
        format!("{}.", compared(diff)),
        format!("Exposed time of these kernels: {}, {}.", of(exposed), how(exposed)),
        format!("Their GPU time: {}, {}.", of(gpu), how(gpu)),
    ];
    let differ = other_steps([&diff.before.steps, &diff.after.steps]).filter(|_| diff.per == Per::Step);
    text.extend(differ.map(|differ| format!("The work may have changed: {differ}.")));
    let without = delta(diff, |side| side.without_launch.exposed);
    if without.growth() != 0.0 {
        text.push(format!(
            "Exposed time of kernels without a launch, which have no stack: {}, {}.",
            of(without),
            how(without)
        ));
    }
    text.push(match (diff.changed, diff.unchanged) {
        (0, unchanged) => format!("No stack changed; {} are as before.", count(unchanged)),
        (changed, unchanged) => format!(
            "{} stacks changed, of which {} are new and {} vanished; {} are as before.",
            count(changed),
            count(diff.new),
            count(diff.vanished),
            count(unchanged)
        ),
    });
    text
}

fn facts(diff: &Diff) -> Vec<(&'static str, String)> {
    let both = |get: &dyn Fn(&Side) -> String| format!("{} → {}", get(&diff.before), get(&diff.after));
    let share = |side: &Side, time: Ns| percent_or_unknown(side.summary.share(time));
    vec![
        ("Steps", both(&|side| count(side.steps.count))),
        ("Window", both(&|side| duration(side.summary.wall))),
        ("Compute", both(&|side| share(side, side.summary.compute))),
        ("Collectives", both(&|side| share(side, side.summary.collectives))),
        ("Exposed", both(&|side| share(side, side.summary.exposed))),
        ("Kernels", both(&|side| count(side.kernels.totals.count))),
        ("Outside of it", both(&|side| count(side.outside))),
    ]
}

/// The stacks whose exposed time changed most.
fn findings(diff: &Diff) -> Vec<Finding> {
    let names = Names::new(diff.changes.iter().map(|change| change.telling.as_slice()));
    let mut order: Vec<usize> = (0..diff.changes.len()).collect();
    let growth = |at: usize| diff.changes[at].growth(Order::Exposed);
    // Regressions come first.
    order.sort_by(|a, b| growth(*b).total_cmp(&growth(*a)));
    let better = order.iter().rev().copied().filter(|at| growth(*at) < 0.0).collect::<Vec<_>>();
    order.retain(|at| growth(*at) > 0.0);
    order.extend(better);
    let least = NOTABLE * diff.before.kernels.by(Order::Exposed).max(diff.after.kernels.by(Order::Exposed));
    let notable = order.into_iter().filter(|at| growth(*at) != 0.0 && growth(*at).abs() >= least);
    let per = suffix(diff.per);
    let finding = |at: usize| {
        let of = &diff.changes[at];
        let of_side = |side: Option<SideTotals>, measure| side.map_or(0.0, |of_side| of_side.by(measure));
        let delta = Delta { before: of_side(of.before, Order::Exposed), after: of_side(of.after, Order::Exposed) };
        let kernels = |side: Option<SideTotals>| value(Order::Count, of_side(side, Order::Count));
        let mean = |side: Option<SideTotals>| super::measure::value(side, Order::Mean);
        let text = match (of.before, of.after) {
            (None, _) => format!("New: {} kernels{per}, mean {}.", kernels(of.after), mean(of.after)),
            (_, None) => {
                format!("Vanished: there were {} kernels{per}, mean {}.", kernels(of.before), mean(of.before))
            }
            _ => format!(
                "{} → {} kernels{per}, mean {} → {}.",
                kernels(of.before),
                kernels(of.after),
                mean(of.before),
                mean(of.after)
            ),
        };
        Finding {
            kind: FindingKind::Change,
            cost_ns: Some(Ns::rounded(growth(at))),
            place: Place { line: of.telling.first().cloned(), row: Some(at), ..Place::default() },
            cost: format!("{} exposed{per}", change(Order::Exposed, delta)),
            what: if of.telling.is_empty() { "(no frames)".to_owned() } else { names.name(at).join(" in ") },
            evidence: vec![text],
            is_better: growth(at) < 0.0,
            link: Some(Link { text: "Before and after", view: "diff", stack: Some(at), ..Link::default() }),
            ..Finding::default()
        }
    };
    notable.map(finding).collect()
}
