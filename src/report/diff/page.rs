//! Two traces side by side, as a page.

use std::io;

use super::DiffAnswer;
use crate::analysis::cost::Order;
use crate::analysis::delta::Per;
use crate::analysis::diff::{Change, Diff};
use crate::report::OnPage;
use crate::report::document::Answer;
use crate::report::form::Form;
use crate::report::format::duration;
use crate::report::html::{Command, Page, ROWS, Top, labels};
use crate::time::Ns;

pub(super) fn write(answer: &DiffAnswer<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    let DiffAnswer { diff, on_page: OnPage { inputs, options, notes, .. } } = answer;
    let labels = labels(diff.changes.iter().map(|change| change.telling.as_slice()));
    let command = |what: &'static str, rest: &str| Command {
        view: "diff",
        what,
        text: format!("nccl-stacks diff {inputs}{options}{rest}"),
    };
    let page = Page {
        kind: "diff",
        names: format!("{} → {}", diff.before.trace, diff.after.trace),
        document: answer.document(),
        top: top(diff, &labels),
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
