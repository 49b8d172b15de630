//! What changed between two runs of many ranks: what every form says, and the page.

use std::io;

use serde::Serialize;

use super::changes_tables::{all, compared, csv, growth, tables, time};
use crate::answers::OnPage;
use crate::answers::cost::Order;
use crate::answers::diff::delta::value;
use crate::answers::diff::document::DiffAnswer;
use crate::answers::ranks::change::{RankChange, RankChanges, RunWaits, StackChange, Waits};
use crate::document::answer::Answer;
use crate::document::findings::{Document, Finding, FindingKind, Link, Place};
use crate::document::form::Form;
use crate::document::format::{count, percent_or_unknown};
use crate::document::html::Page;
use crate::document::table::Table;
use crate::time::Ns;

/// The smallest change that is a finding, as a share of all waiting.
const NOTABLE: f64 = 0.01;

/// Two runs of many ranks side by side, and what a page shows besides.
#[derive(Debug, Clone)]
pub struct ChangesAnswer<'a> {
    pub changes: &'a RankChanges,
    /// What a page shows besides.
    pub on_page: OnPage,
}

/// `Not comparable: ranks 1 and 2 are here only after. Waiting for a rank that is not here counts as transfer.`
fn not_comparable(changes: &RankChanges) -> Option<String> {
    let only = |is: fn(&RankChange) -> bool, when: &str| {
        let ranks: Vec<u32> = changes.ranks.iter().filter(|of| is(of)).map(|of| of.rank).collect();
        let are = if ranks.len() == 1 { "is" } else { "are" };
        (!ranks.is_empty()).then(|| format!("{} {are} here only {when}", crate::document::format::ranks(&ranks)))
    };
    let of = [only(|of| of.after.is_none(), "before"), only(|of| of.before.is_none(), "after")];
    let mut said: Vec<String> = of.into_iter().flatten().collect();
    let (before, after) = (&changes.before.missing_ranks, &changes.after.missing_ranks);
    if said.is_empty() && before.is_empty() && after.is_empty() {
        return None;
    }
    if said.is_empty() {
        let ranks = if before.is_empty() { after } else { before };
        let are = if ranks.len() == 1 { "is" } else { "are" };
        said.push(format!("{} {are} not here", crate::document::format::ranks(ranks)));
    }
    Some(format!("Not comparable: {}. Waiting for a rank that is not here counts as transfer.", said.join(", and ")))
}

impl Answer for ChangesAnswer<'_> {
    const SCHEMA: &'static str = "ranks-diff";

    const OWN_FORMS: &'static [Form] = DiffAnswer::OWN_FORMS;

    fn inputs(&self) -> Option<&str> {
        None
    }

    fn document(&self) -> Document {
        let RankChanges { before, after, .. } = self.changes;
        let share = |run: &RunWaits| percent_or_unknown(run.waited_ns.share_of(run.measured_ns));
        let both = |get: &dyn Fn(&RunWaits) -> String| format!("{} → {}", get(before), get(after));
        Document {
            title: "What changed between two runs".to_owned(),
            damage: not_comparable(self.changes).into_iter().collect(),
            verdict: vec![
                format!("{}.", compared(self.changes)),
                format!(
                    "Waiting over all ranks: {}, {}. It is {} of the collectives' time.",
                    both(&|run| time(run.each(run.waited_ns))),
                    how_changed(before.each(before.waited_ns), after.each(after.waited_ns)),
                    both(&share)
                ),
            ],
            findings: findings(self.changes),
            facts: vec![
                ("Ranks", both(&|run| count(run.ranks))),
                ("Collectives", both(&|run| count(run.collectives))),
                ("Transfer", both(&|run| time(run.each(run.transfer_ns)))),
                ("Clocks", both(&|run| run.clock.to_owned())),
            ],
            ..Document::default()
        }
    }

    fn data(&self) -> impl Serialize {
        self.changes
    }

    fn tables(&self) -> Vec<Table> {
        tables(self.changes)
    }

    fn page_tables(&self) -> Vec<Table> {
        all(self.changes)
    }

    fn csv(&self, out: &mut Vec<u8>) -> io::Result<()> {
        csv(self.changes, out)
    }

    fn page(&self) -> io::Result<Page<'_>> {
        let names = format!("{} → {}", self.changes.before.trace, self.changes.after.trace);
        Ok(Page {
            labels: self.changes.stacks.iter().map(|stack| vec![label(stack)]).collect(),
            commands: self.on_page.commands(
                "diff",
                "diff --ranks ",
                &[
                    ("The changes, as a table", ""),
                    ("Everything, for programs", " --format json --output ranks-diff.json"),
                ],
            ),
            ..self.page_of("ranks-diff", names, &self.on_page.notes)?
        })
    }
}

fn how_changed(before: f64, after: f64) -> String {
    match growth(before, after) {
        same if same == "=" => "as before".to_owned(),
        change => change,
    }
}

fn waited(of: Option<Waits>) -> f64 {
    of.map_or(0.0, |waits| waits.each.waited_ns)
}

fn label(stack: &StackChange) -> String {
    stack.headline.clone().unwrap_or_else(|| "(no launch)".to_owned())
}

fn findings(changes: &RankChanges) -> Vec<Finding> {
    let least =
        NOTABLE * changes.before.each(changes.before.waited_ns).max(changes.after.each(changes.after.waited_ns));
    let size = |stack: &StackChange| stack.growth().abs();
    let notable = changes.stacks.iter().enumerate().filter(|(_, stack)| size(stack) > 0.0 && size(stack) >= least);
    let kernels = |of: Option<Waits>| value(Order::Count, of.map_or(0.0, |waits| waits.each.kernels));
    let finding = |(at, stack): (usize, &StackChange)| Finding {
        kind: FindingKind::Change,
        cost: format!("{} waited", how_changed(waited(stack.before), waited(stack.after))),
        what: label(stack),
        cost_ns: Some(Ns::rounded(stack.growth())),
        place: Place { line: stack.headline.clone(), row: Some(at), ..Place::default() },
        evidence: vec![format!(
            "{} → {} waited, by {} → {} kernels.",
            time(waited(stack.before)),
            time(waited(stack.after)),
            kernels(stack.before),
            kernels(stack.after)
        )],
        is_better: waited(stack.after) < waited(stack.before),
        link: Some(Link { text: "Before and after", view: "diff", stack: Some(at), ..Link::default() }),
        ..Finding::default()
    };
    notable.map(finding).collect()
}
