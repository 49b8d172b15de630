//! Two traces side by side, as a page.

use std::io;

use super::DiffAnswer;
use super::measure::value;
use crate::analysis::cost::Order;
use crate::analysis::delta::Per;
use crate::analysis::diff::{Change, Diff};
use crate::report::OnPage;
use crate::report::answer::Answer;
use crate::report::column::Column;
use crate::report::document::Document;
use crate::report::form::Form;
use crate::report::format::{growth, shorten_middle};
use crate::report::html::{Command, Page, labels};
use crate::report::sheet::Sheet;

/// The longest name outside of the page's documents: C++ and compiled code have names of any length.
const NAME: usize = 400;

/// The document with names that a browser can lay out.
fn shortened(mut document: Document) -> Document {
    document.findings.iter_mut().for_each(|finding| finding.what = shorten_middle(&finding.what, NAME));
    document
}

pub(super) fn write(answer: &DiffAnswer<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    let DiffAnswer { diff, on_page: OnPage { inputs, options, notes, .. } } = answer;
    let mut labels = labels(diff.changes.iter().map(Change::naming));
    labels.iter_mut().flatten().for_each(|name| *name = shorten_middle(name, NAME));
    let command = |what: &'static str, rest: &str| Command {
        view: "diff",
        what,
        text: format!("nccl-stacks diff {inputs}{options}{rest}"),
    };
    let page = Page {
        kind: "diff",
        names: format!("{} → {}", diff.before.trace, diff.after.trace),
        document: shortened(answer.document()),
        sheets: vec![("changes", sheet(diff, &labels))],
        documents: vec![("diff", answer.bytes(Form::Json)?)],
        tables: vec![("diff", answer.bytes(Form::Csv)?)],
        commands: vec![
            command("The changes, as a table", ""),
            command("Everything, for programs", " --format json --output diff.json"),
            command("For CI: exit code 5 if exposed time grows by a tenth", " --fail-if 'exposed>+10%'"),
        ],
        notes: notes.clone(),
        labels,
        ..Page::default()
    };
    page.write(out)
}

const COLUMNS: &[Column<Change>] = &[
    Column::right("count before", |of, ()| value(of.before, Order::Count)),
    Column::right("after", |of, ()| value(of.after, Order::Count)),
    Column::right("exposed before", |of, ()| value(of.before, Order::Exposed)),
    Column::right("after", |of, ()| value(of.after, Order::Exposed)),
    Column::right("change", |of, ()| growth(Order::Exposed, of.growth(Order::Exposed))),
];

fn sheet(diff: &Diff, labels: &[Vec<String>]) -> Sheet {
    let title = match diff.per {
        Per::Step => "Stacks that changed, per step",
        Per::Call => "Stacks that changed, per call",
        Per::Total => "Stacks that changed",
    };
    Sheet::named(
        title,
        "from",
        COLUMNS,
        labels.iter().zip(&diff.changes).map(|(label, of)| (label.join(" in "), of, ())),
    )
}
