//! The contents of NCCL's own records, as a page.

use std::io;

use super::RecordsAnswer;
use crate::document::answer::Answer;
use crate::document::html::Page;

pub(crate) fn records<'a>(RecordsAnswer { report, name, on_page, .. }: &RecordsAnswer<'a>) -> io::Result<Page<'a>> {
    Ok(Page {
        commands: on_page.commands(
            "records",
            "records ",
            &[
                ("All tables", " --format table"),
                ("Everything, for programs", " --format json --output records.json"),
                ("For spreadsheets", " --format csv --output records.csv"),
            ],
        ),
        ..RecordsAnswer::new(report, name).page_of("records", (*name).to_owned(), &on_page.notes)?
    })
}
