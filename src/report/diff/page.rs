//! Two traces side by side, as a page.

use std::io;

use super::measure::suffix;
use super::summary::damaged;
use super::{DiffForm, compared, other_steps, write};
use crate::analysis::cost::Order;
use crate::analysis::delta::{Delta, Per, SideTotals};
use crate::analysis::diff::{Change, Diff, Side};
use crate::report::OnPage;
use crate::report::format::{change, count, duration, percent_or_unknown, value};
use crate::report::html::{Command, FINDINGS, Finding, Link, Page, ROWS, Top, labels};
use crate::time::Ns;

/// The smallest change that is a finding, as a share of the exposed time.
const NOTABLE: f64 = 0.01;

pub(super) fn diff(diff: &Diff, on_page: &OnPage, out: &mut Vec<u8>) -> io::Result<()> {
    let (mut document, mut table) = (Vec::new(), Vec::new());
    write(diff, DiffForm::Json, None, &OnPage::default(), &mut document)?;
    write(diff, DiffForm::Csv, None, &OnPage::default(), &mut table)?;
    let labels = labels(diff.changes.iter().map(|change| change.telling.as_slice()));
    let OnPage { inputs, options, .. } = on_page;
    let command = |what: &'static str, rest: &str| Command {
        view: "diff",
        what,
        text: format!("nccl-stacks diff {inputs}{options}{rest}"),
    };
    let page = Page {
        kind: "diff",
        title: "What changed".to_owned(),
        names: format!("{} → {}", diff.before.trace, diff.after.trace),
        verdict: [damaged(diff), verdict(diff)].concat(),
        facts: facts(diff),
        findings: findings(diff, &labels),
        top: top(diff, &labels),
        documents: vec![("diff", document)],
        tables: vec![("diff", table)],
        commands: vec![
            command("The changes, as a table", ""),
            command("Everything, for programs", " --format json --output diff.json"),
            command("For CI: exit code 5 if exposed time grows by a tenth", " --fail-if 'exposed>+10%'"),
        ],
        notes: on_page.notes.clone(),
        labels,
        ..Page::default()
    };
    page.write(out)
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
    let window = delta(diff, |side| side.summary.wall);
    let compute = delta(diff, |side| side.summary.compute);
    text.push(format!(
        "The window: {}, {}; compute in it: {}, {}.",
        of(window),
        how(window),
        of(compute),
        how(compute)
    ));
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
fn findings(diff: &Diff, labels: &[Vec<String>]) -> Vec<Finding> {
    let mut order: Vec<usize> = (0..diff.changes.len()).collect();
    let growth = |at: usize| diff.changes[at].growth(Order::Exposed);
    // Regressions come first.
    order.sort_by(|a, b| growth(*b).total_cmp(&growth(*a)));
    let better = order.iter().rev().copied().filter(|at| growth(*at) < 0.0).collect::<Vec<_>>();
    order.retain(|at| growth(*at) > 0.0);
    order.extend(better);
    let least = NOTABLE * diff.before.kernels.by(Order::Exposed).max(diff.after.kernels.by(Order::Exposed));
    let notable = order.into_iter().filter(|at| growth(*at) != 0.0 && growth(*at).abs() >= least).take(FINDINGS);
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
            cost: format!("{} exposed{per}", change(Order::Exposed, delta)),
            what: labels[at].join(" in "),
            text,
            is_good: growth(at) < 0.0,
            link: Some(Link { text: "Before and after", view: "diff", stack: Some(at), ..Link::default() }),
        }
    };
    notable.map(finding).collect()
}

fn top(diff: &Diff, labels: &[Vec<String>]) -> Option<Top> {
    let row = |(of, label): (&Change, &Vec<String>)| {
        let cell = super::measure::value;
        vec![
            label.join(" in "),
            cell(of.before, Order::Count),
            cell(of.after, Order::Count),
            cell(of.before, Order::Exposed),
            cell(of.after, Order::Exposed),
            duration(Ns::rounded(of.growth(Order::Exposed))),
        ]
    };
    (!diff.changes.is_empty()).then(|| Top {
        title: match diff.per {
            Per::Step => "Stacks that changed, per step",
            Per::Call => "Stacks that changed, per call",
            Per::Total => "Stacks that changed",
        },
        columns: vec!["from", "count before", "after", "exposed before", "after", "change"],
        rows: diff.changes.iter().zip(labels).take(ROWS).map(row).collect(),
        found: diff.changes.len(),
    })
}
