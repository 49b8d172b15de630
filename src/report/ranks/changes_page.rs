//! Two runs of many ranks beside each other, as a page.

use std::io;

use super::changes as write;
use crate::analysis::cost::Order;
use crate::analysis::delta::Delta;
use crate::ranks::change::{RankChanges, RunWaits, StackChange, Waits};
use crate::report::OnPage;
use crate::report::diff::DiffForm;
use crate::report::format::{change, count, duration, percent_or_unknown};
use crate::report::html::{Command, FINDINGS, Finding, Link, Page, ROWS, Top};
use crate::time::Ns;

/// How large a change is at least that is a finding, as a share of all waiting.
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
        verdict: vec![format!(
            "Waiting over all ranks: {}, {}. It is {} of the collectives' time.",
            both(&|run| duration(run.waited)),
            grown(before.waited, after.waited),
            both(&share)
        )],
        facts: vec![
            ("Ranks", both(&|run| count(run.ranks))),
            ("Collectives", both(&|run| count(run.collectives))),
            ("Transfer", both(&|run| duration(run.transfer))),
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

fn grown(before: Ns, after: Ns) -> String {
    match change(Order::GpuTime, Delta { before: before.as_f64(), after: after.as_f64() }) {
        same if same == "=" => "as before".to_owned(),
        change => change,
    }
}

fn waited(of: Option<Waits>) -> Ns {
    of.map_or(Ns::ZERO, |waits| waits.waited)
}

fn label(stack: &StackChange) -> String {
    stack.headline.clone().unwrap_or_else(|| "(no launch)".to_owned())
}

fn findings(changes: &RankChanges) -> Vec<Finding> {
    let least = NOTABLE * changes.before.waited.max(changes.after.waited).as_f64();
    let growth = |stack: &StackChange| (waited(stack.after) - waited(stack.before)).as_f64().abs();
    let notable = changes.stacks.iter().enumerate().filter(|(_, stack)| growth(stack) > 0.0 && growth(stack) >= least);
    let kernels = |of: Option<Waits>| count(of.map_or(0, |waits| waits.kernels));
    let finding = |(at, stack): (usize, &StackChange)| Finding {
        cost: format!("{} waited", grown(waited(stack.before), waited(stack.after))),
        what: label(stack),
        text: format!(
            "{} → {} waited, by {} → {} kernels.",
            duration(waited(stack.before)),
            duration(waited(stack.after)),
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
            duration(waited(stack.before)),
            duration(waited(stack.after)),
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
