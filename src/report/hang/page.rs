//! Whether a job hangs, as a page.

use std::io;

use super::HangAnswer;
use super::words::operation;
use crate::analysis::hang::{HangReport, HungGroup};
use crate::report::OnPage;
use crate::report::answer::Answer;
use crate::report::column::Column;
use crate::report::form::Form;
use crate::report::format::ranks;
use crate::report::html::{Command, Page};
use crate::report::sheet::Sheet;

pub(super) fn hang(answer: &HangAnswer<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    let HangAnswer { report, name, on_page: OnPage { inputs, options, notes, .. } } = answer;
    let command = |what: &'static str, text: String| Command { view: "hang", what, text };
    let document = answer.document();
    let page = Page {
        kind: "hang",
        names: (*name).to_owned(),
        notes: [&document.notes[..], notes].concat(),
        document,
        sheets: vec![("groups", sheet(report))],
        documents: vec![("hang", answer.bytes(Form::Json)?)],
        commands: vec![
            command("Whether it hangs, with all evidence", format!("nccl-stacks hang {inputs}{options} --verbose")),
            command(
                "The same for a script, with exit code 4 if it hangs",
                format!("nccl-stacks hang {inputs}{options} --json"),
            ),
            command("What the records have beside that", format!("nccl-stacks records {inputs}{options}")),
        ],
        ..Page::default()
    };
    page.write(out)
}

const COLUMNS: &[Column<HungGroup>] = &[
    Column::left("operation", |group, ()| operation(group.collective.as_deref(), group.sequence)),
    Column::left("not enqueued by", |group, ()| list(&group.missing_ranks)),
    Column::left("stuck on", |group, ()| list(&group.stuck_ranks)),
    Column::left("other call on", |group, ()| list(&group.odd_ranks)),
    Column::left("waiting", |group, ()| list(&group.waiting_ranks)),
];

fn list(of: &[u32]) -> String {
    if of.is_empty() { String::new() } else { ranks(of) }
}

fn sheet(report: &HangReport) -> Sheet {
    let groups = report.hung.iter().chain(&report.lagging);
    Sheet::named("Groups that wait", "group", COLUMNS, groups.map(|group| (group.name.group.clone(), group, ())))
}
