//! Two traces side by side, as a page.

use std::io;

use super::DiffAnswer;
use crate::answers::diff::{Change, Diff};
use crate::answers::stacks::origin::labels;
use crate::document::answer::Answer;
use crate::document::format::shorten_middle;
use crate::document::html::Page;

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
