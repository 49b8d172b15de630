//! The stacks of a window as a page.

use std::collections::BTreeSet;
use std::io;

use super::streams::Streams;
use super::{StacksAnswer, coverage, grouping, table};
use crate::answers::stacks::data::{Stack, StackReport};
use crate::answers::stacks::origin::Names;
use crate::document::answer::Answer;
use crate::document::form::Form;
use crate::document::html::{Documents, Page};
use crate::document::table::Table;

pub(crate) fn stacks<'a>(answer: &'a StacksAnswer<'_>) -> io::Result<Page<'a>> {
    let StacksAnswer { report, trace, ref on_page, .. } = *answer;
    let mut page = answer.page_of("stacks", trace.to_owned(), &on_page.notes)?;
    let lines = coverage::lines(report, answer.window_on).into_iter().map(|(line, _)| line);
    page.document.notes.extend(lines);
    page.notes.splice(..0, page.document.notes.iter().cloned());
    page.document.verdict.splice(..0, on_page.reason.clone());
    let texts = [
        ("The stacks, as text", ""),
        ("Everything, for programs", " --format json --output stacks.json"),
        ("A row for each stack, for spreadsheets", " --format csv --output stacks.csv"),
    ];
    let pictures = [
        ("The call paths, for a browser", " --format svg --weight exposed --output stacks.svg"),
        ("The call paths, for speedscope.app", " --format speedscope --output stacks.speedscope.json"),
    ];
    Ok(Page {
        shorten: Some(Box::new(|most| document(&report.first(most), trace))),
        commands: [on_page.commands("stacks", "", &texts), on_page.commands("icicle", "", &pictures)]
            .into_iter()
            .flatten()
            .collect(),
        labels: labels_of(report),
        telling: telling(report),
        streams: Streams::collect(&on_page.timelines, report.stacks.iter().map(|stack| (&stack.rank, &stack.key))),
        ..page
    })
}

/// The stacks or groups, and the steps of a single trace.
pub(crate) fn tables_of(answer: &StacksAnswer<'_>) -> Vec<Table> {
    let mut all = tables(answer.report, &labels_of(answer.report));
    if let ([timeline], false) = (&answer.on_page.timelines[..], all.iter().any(|table| table.id == "steps"))
        && !timeline.costs.is_empty()
    {
        let names = timeline.steps.iter().map(|(name, _)| name.clone());
        all.push(grouping::steps(names.zip(&timeline.costs)));
    }
    all
}

/// The stacks for programs, with the name of their document.
pub(crate) fn document(report: &StackReport, trace: &str) -> io::Result<Documents> {
    Ok(vec![("stacks", StacksAnswer::new(report, trace).bytes(Form::Json)?)])
}

/// The labels of each stack or group, which distinguish it from the others.
pub(crate) fn labels_of(report: &StackReport) -> Vec<Vec<String>> {
    let names = names_of(report);
    let rows = report.groups().map_or(report.stacks.len(), |grouped| grouped.groups.len());
    (0..rows).map(|at| label(report, &names, at)).collect()
}

pub(crate) fn names_of(report: &StackReport) -> Names<'_> {
    Names::new(report.stacks.iter().map(Stack::naming))
}

/// The label of a stack or group: its rank, if ranks are distinguished, then its name.
pub(crate) fn label(report: &StackReport, names: &Names<'_>, at: usize) -> Vec<String> {
    if let Some(grouped) = report.groups() {
        return vec![grouped.groups[at].label()];
    }
    report.stacks[at].rank.clone().into_iter().chain(names.label(at)).collect()
}

/// The frames that name the stacks.
pub(crate) fn telling(report: &StackReport) -> BTreeSet<String> {
    report.stacks.iter().flat_map(|stack| stack.telling.iter().cloned()).collect()
}

/// The table of stacks or groups, or of steps.
pub(crate) fn tables(report: &StackReport, labels: &[Vec<String>]) -> Vec<Table> {
    report.groups().map_or_else(|| vec![table::labelled(report, labels)], grouping::tables)
}
