//! Whether a job hangs, as a page.

use std::io;

use super::HangAnswer;
use super::words::operation;
use crate::analysis::hang::{HangReport, HungGroup};
use crate::report::answer::Answer;
use crate::report::column::Column;
use crate::report::format::ranks;
use crate::report::html::Page;
use crate::report::sheet::Sheet;

pub(super) fn hang<'a>(answer: &HangAnswer<'a>) -> io::Result<Page<'a>> {
    let page = answer.page_of("hang", answer.name.to_owned(), &answer.on_page)?;
    let mut commands = answer.on_page.commands(
        "hang",
        "hang ",
        &[
            ("Whether it hangs, with all evidence", " --verbose"),
            ("The same for a script, with exit code 4 if it hangs", " --json"),
        ],
    );
    let others = [("What the records have beside that", "")];
    commands.extend(answer.on_page.commands("hang", "records ", &others));
    let notes = [&page.document.notes[..], &page.notes].concat();
    Ok(Page { sheets: vec![("groups", sheet(answer.report))], commands, notes, ..page })
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
