//! Two traces side by side, as a page.

use std::io;

use super::DiffAnswer;
use crate::answers::cost::Order;
use crate::answers::diff::delta::{Per, SideTotals};
use crate::answers::diff::{Change, Diff};
use crate::answers::stacks::origin::labels;
use crate::document::answer::Answer;
use crate::document::format::shorten_middle;
use crate::document::html::Page;
use crate::document::table::{Cell, Column, Table, name, number};

/// The longest name outside of the page's documents: C++ and compiled code have names of any length.
const NAME: usize = 400;

pub(crate) fn page<'a>(answer: &DiffAnswer<'a>) -> io::Result<Page<'a>> {
    let DiffAnswer { diff, on_page } = answer;
    let names = format!("{} → {}", diff.before.trace, diff.after.trace);
    let mut page = answer.page_of("diff", names, &on_page.notes)?;
    page.document.findings.iter_mut().for_each(|finding| finding.what = shorten_middle(&finding.what, NAME));
    let commands = on_page.commands(
        "diff",
        "diff ",
        &[
            ("The changes, as a table", ""),
            ("Everything, for programs", " --format json --output diff.json"),
            ("For CI: exit code 5 if exposed time grows by a tenth", " --fail-if 'exposed>+10%'"),
        ],
    );
    Ok(Page { commands, labels: labels_of(diff), ..page })
}

pub(super) fn labels_of(diff: &Diff) -> Vec<Vec<String>> {
    let mut labels = labels(diff.changes.iter().map(Change::naming));
    labels.iter_mut().flatten().for_each(|name| *name = shorten_middle(name, NAME));
    labels
}

/// The context is the stack's label.
const COLUMNS: &[Column<Change, String>] = &[
    number("", "count before").read(|of, _| each(of.before, Order::Count)),
    number("", "count after").read(|of, _| each(of.after, Order::Count)),
    number("", "GPU time before").read(|of, _| each(of.before, Order::GpuTime)),
    number("", "GPU time after").read(|of, _| each(of.after, Order::GpuTime)),
    number("", "exposed before").read(|of, _| each(of.before, Order::Exposed)),
    number("", "exposed after").read(|of, _| each(of.after, Order::Exposed)),
    number("", "change").means("Of the exposed time").read(|of, _| Cell::Growth(of.growth(Order::Exposed))),
    name("from").read(|_, label| Cell::Text(label.clone())),
];

fn each(side: Option<SideTotals>, measure: Order) -> Cell {
    let cell = if measure == Order::Count { Cell::Ratio } else { Cell::Nanos };
    Cell::some(side, |side| cell(side.by(measure)))
}

pub(super) fn table(diff: &Diff, labels: &[Vec<String>]) -> Table {
    let title = match diff.per {
        Per::Step => "Stacks that changed, per step",
        Per::Call => "Stacks that changed, per call",
        Per::Total => "Stacks that changed",
    };
    Table::new("changes", title, COLUMNS, diff.changes.iter().zip(labels.iter().map(|label| label.join(" in "))))
}
