//! Whether a job hangs, as a page.

use std::io;

use super::HangAnswer;
use super::words::operation;
use crate::answers::hang::{HangReport, HungGroup};
use crate::document::answer::Answer;
use crate::document::format::ranks;
use crate::document::html::Page;
use crate::document::table::{Cell, Column, Table, name, words};

pub(crate) fn hang<'a>(answer: &HangAnswer<'a>) -> io::Result<Page<'a>> {
    let page = answer.page_of("hang", answer.name.to_owned(), &answer.on_page.notes)?;
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
    Ok(Page { sheets: vec![groups(answer.report)], commands, notes, ..page })
}

const COLUMNS: &[Column<HungGroup>] = &[
    words("", "operation").read(|group, ()| Cell::Text(operation(group.collective.as_deref(), group.sequence))),
    words("", "not enqueued by").read(|group, ()| list(&group.missing_ranks)),
    words("", "stuck on").read(|group, ()| list(&group.stuck_ranks)),
    words("", "other call on").read(|group, ()| list(&group.odd_ranks)),
    words("", "waiting").read(|group, ()| list(&group.waiting_ranks)),
    name("group").read(|group, ()| Cell::Text(group.name.group.clone())),
];

fn list(of: &[u32]) -> Cell {
    if of.is_empty() { Cell::Empty } else { Cell::Text(ranks(of)) }
}

fn groups(report: &HangReport) -> Table {
    let groups = report.hung.iter().chain(&report.lagging);
    Table::new("hung", "Groups that wait", COLUMNS, groups.map(|group| (group, ())))
}
