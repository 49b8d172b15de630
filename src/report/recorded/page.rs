//! The contents of NCCL's own records, as a page.

use std::io;

use super::RecordsAnswer;
use super::table::sheets;
use crate::report::OnPage;
use crate::report::answer::Answer;
use crate::report::form::Form;
use crate::report::html::{Command, Page};

pub(super) fn records(answer: &RecordsAnswer<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    let RecordsAnswer { report, name, on_page: OnPage { inputs, options, notes, .. }, .. } = answer;
    let plain = RecordsAnswer::new(report, name);
    let command = |what: &'static str, rest: &str| Command {
        view: "records",
        what,
        text: format!("nccl-stacks records {inputs}{options}{rest}"),
    };
    let page = Page {
        kind: "records",
        names: (*name).to_owned(),
        document: answer.document(),
        sheets: sheets(report),
        documents: vec![("records", plain.bytes(Form::Json)?)],
        tables: vec![("records", plain.bytes(Form::Csv)?)],
        commands: vec![
            command("All tables", " --format table"),
            command("Everything, for programs", " --format json --output records.json"),
            command("For spreadsheets", " --format csv --output records.csv"),
        ],
        notes: notes.clone(),
        ..Page::default()
    };
    page.write(out)
}
