//! Whether a job hangs, as a page.

use std::io;

use super::HangAnswer;
use super::words::operation;
use crate::analysis::hang::{HangReport, HungGroup};
use crate::report::OnPage;
use crate::report::document::Answer;
use crate::report::form::Form;
use crate::report::format::ranks;
use crate::report::html::{Command, Page, ROWS, Top};

pub(super) fn hang(answer: &HangAnswer<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    let HangAnswer { report, name, on_page: OnPage { inputs, options, notes, .. } } = answer;
    let command = |what: &'static str, text: String| Command { view: "hang", what, text };
    let document = answer.document();
    let page = Page {
        kind: "hang",
        names: (*name).to_owned(),
        notes: [&document.notes[..], notes].concat(),
        document,
        top: top(report),
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

fn top(report: &HangReport) -> Option<Top> {
    let list = |of: &[u32]| if of.is_empty() { String::new() } else { ranks(of) };
    let row = |group: &HungGroup| {
        vec![
            group.name.group.clone(),
            operation(group.collective.as_deref(), group.sequence),
            list(&group.missing_ranks),
            list(&group.stuck_ranks),
            list(&group.odd_ranks),
            list(&group.waiting_ranks),
        ]
    };
    let groups: Vec<&HungGroup> = report.hung.iter().chain(&report.lagging).collect();
    (!groups.is_empty()).then(|| Top {
        title: "Groups that wait",
        columns: vec!["group", "operation", "not enqueued by", "stuck on", "other call on", "waiting"],
        rows: groups.iter().take(ROWS).map(|group| row(group)).collect(),
        found: groups.len(),
    })
}
