//! Two runs of many ranks side by side, as a page.

use std::io;

use super::changes as write;
use super::changes::{compared, growth};
use crate::analysis::cost::Order;
use crate::ranks::change::{RankChanges, RunWaits, StackChange, Waits};
use crate::report::OnPage;
use crate::report::diff::DiffForm;
use crate::report::format::{count, percent_or_unknown, value};
use crate::report::html::{Command, FINDINGS, Finding, Link, Page, ROWS, Top};

/// The smallest change that is a finding, as a share of all waiting.
const NOTABLE: f64 = 0.01;

pub(super) fn page(changes: &RankChanges, on_page: &OnPage, out: &mut Vec<u8>) -> io::Result<()> {
    let (mut document, mut table) = (Vec::new(), Vec::new());
    write(changes, DiffForm::Json, None, &OnPage::default(), &mut document)?;
    write(changes, DiffForm::Csv, None, &OnPage::default(), &mut table)?;
    let RankChanges { before, after, .. } = changes;
    let OnPage { inputs, options, .. } = on_page;
    let command = |what: &'static str, rest: &str| Command {
        view: "diff",
        what,
        text: format!("nccl-stacks diff --ranks {inputs}{options}{rest}"),
    };
    let share = |run: &RunWaits| percent_or_unknown(run.waited.share_of(run.measured));
    let both = |get: &dyn Fn(&RunWaits) -> String| format!("{} → {}", get(before), get(after));
    let page = Page {
        kind: "ranks-diff",
        title: "What changed between two runs".to_owned(),
        names: format!("{} → {}", before.trace, after.trace),
        verdict: vec![
            format!("{}.", compared(changes)),
            format!(
                "Waiting over all ranks: {}, {}. It is {} of the collectives' time.",
                both(&|run| time(run.each(run.waited))),
                grown(before.each(before.waited), after.each(after.waited)),
                both(&share)
            ),
        ],
        facts: vec![
            ("Ranks", both(&|run| count(run.ranks))),
            ("Collectives", both(&|run| count(run.collectives))),
            ("Transfer", both(&|run| time(run.each(run.transfer)))),
            ("Clocks", both(&|run| run.clock.to_owned())),
        ],
        findings: findings(changes),
        top: top(changes),
        labels: changes.stacks.iter().map(|stack| vec![label(stack)]).collect(),
        documents: vec![("ranks-diff", document)],
        tables: vec![("ranks-diff", table)],
        commands: vec![
            command("The changes, as a table", ""),
            command("Everything, for programs", " --format json --output ranks-diff.json"),
        ],
        notes: on_page.notes.clone(),
        ..Page::default()
    };
    page.write(out)
}

fn time(nanos: f64) -> String {
    value(Order::GpuTime, nanos)
}

fn grown(before: f64, after: f64) -> String {
    match growth(before, after) {
        same if same == "=" => "as before".to_owned(),
        change => change,
    }
}

fn waited(of: Option<Waits>) -> f64 {
    of.map_or(0.0, |waits| waits.each.waited)
}

fn label(stack: &StackChange) -> String {
    stack.headline.clone().unwrap_or_else(|| "(no launch)".to_owned())
}

fn findings(changes: &RankChanges) -> Vec<Finding> {
    let least = NOTABLE * changes.before.each(changes.before.waited).max(changes.after.each(changes.after.waited));
    let size = |stack: &StackChange| stack.growth().abs();
    let notable = changes.stacks.iter().enumerate().filter(|(_, stack)| size(stack) > 0.0 && size(stack) >= least);
    let kernels = |of: Option<Waits>| value(Order::Count, of.map_or(0.0, |waits| waits.each.kernels));
    let finding = |(at, stack): (usize, &StackChange)| Finding {
        cost: format!("{} waited", grown(waited(stack.before), waited(stack.after))),
        what: label(stack),
        text: format!(
            "{} → {} waited, by {} → {} kernels.",
            time(waited(stack.before)),
            time(waited(stack.after)),
            kernels(stack.before),
            kernels(stack.after)
        ),
        is_good: waited(stack.after) < waited(stack.before),
        link: Some(Link { text: "Before and after", view: "diff", stack: Some(at), ..Link::default() }),
    };
    notable.take(FINDINGS).map(finding).collect()
}

fn top(changes: &RankChanges) -> Option<Top> {
    let row = |stack: &StackChange| {
        vec![
            label(stack),
            time(waited(stack.before)),
            time(waited(stack.after)),
            grown(waited(stack.before), waited(stack.after)),
        ]
    };
    (!changes.stacks.is_empty()).then(|| Top {
        title: "Stacks by the change of their waiting",
        columns: vec!["from", "waited before", "after", "change"],
        rows: changes.stacks.iter().take(ROWS).map(row).collect(),
        found: changes.stacks.len(),
    })
}
