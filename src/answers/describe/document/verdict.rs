//! The verdict on some files: what they are, how many questions they can answer, and what to turn on first next time.

use super::words::{counted, rank};
use crate::answers::damage;
use crate::answers::describe::{Answered, Descriptions, First, TraceDescription};
use crate::document::format::count;

/// The verdict, a sentence each. What is damaged or left out comes first, because it may have made the rest wrong.
pub(crate) fn verdict(of: &Descriptions) -> Vec<String> {
    let losses = of.traces().map(|trace| trace.damage.clone()).reduce(|mut all, more| {
        all.add(more);
        all
    });
    let mut said = damage::sentences(&losses.unwrap_or_default(), of.traces().count(), &[]);
    let rows = of.records().flat_map(|records| &records.sources);
    let skipped = rows.fold(0, |n: u64, row| n.saturating_add(row.skipped));
    let left_out = [(skipped, "parts of records"), (of.unread.len() as u64, "files that cannot be read")];
    let left_out = left_out.into_iter().filter(|(n, _)| *n > 0);
    said.extend(left_out.map(|(n, what)| format!("Left out: {}.", counted(n, what))));
    let is_whole = said.is_empty();
    let [traces, records] = of.answered();
    let is_all = traces.full + records.full == traces.questions + records.questions;
    said.push(what(of));
    said.extend(no_profile(of));
    let it_answers = if of.files.len() == 1 { "It answers" } else { "They answer" };
    match (traces.questions, records.questions) {
        (0, 0) => return said,
        (_, 0) => said.push(format!("{it_answers} {}.", answered(traces))),
        (0, _) => said.push(format!("They answer {}.", answered(records))),
        _ => said.push(format!("The traces answer {}; the records answer {}.", answered(traces), answered(records))),
    }
    said.push(match of.first() {
        Some(First { turn_on, questions, .. }) => {
            format!("Next time, first: {turn_on}, for {}.", counted(questions, "more questions"))
        }
        None if is_all && is_whole => "Nothing is missing.".to_owned(),
        None if traces.questions > 0 => "No other setting of the profiler adds to that.".to_owned(),
        None => "No other recorder adds to that.".to_owned(),
    });
    said
}

/// `This is a trace of PyTorch's profiler (Kineto's JSON), rank 0 of 4, with 228 kernels, 36 collectives among them.`
fn what(of: &Descriptions) -> String {
    let traces: Vec<&TraceDescription> = of.traces().collect();
    match (&traces[..], of.records().next()) {
        ([], Some(records)) => {
            let rows = records.sources.iter().filter(|_| of.files.len() == 1);
            let sources: Vec<&str> = rows.map(|row| row.title).collect();
            let colon = if sources.is_empty() { "" } else { ": " };
            format!("These are NCCL's own records{colon}{}.", sources.join(", "))
        }
        ([trace], None) => {
            let rank = rank(trace).map_or(String::new(), |rank| format!(", {rank}"));
            let kernels = match (trace.counts.kernels, trace.counts.collectives) {
                _ if !trace.header.writer.is_profiler => String::new(),
                (0, _) => ", without kernels of CUDA or ROCm".to_owned(),
                (n, 0) => format!(", with {} and no collectives", counted(n, "kernels")),
                (n, all) if n == all => format!(", with {} and no other kernels", counted(n, "collectives")),
                (n, some) => format!(", with {}, {} among them", counted(n, "kernels"), counted(some, "collectives")),
            };
            format!("This is {}{rank}{kernels}.", trace.header.writer.title)
        }
        (_, records) => {
            let records = if records.is_some() { " and NCCL's own records" } else { "" };
            format!("These are {}{records}.", counted(traces.len() as u64, "traces"))
        }
    }
}

/// What to do with traces that no profiler wrote.
fn no_profile(of: &Descriptions) -> Option<String> {
    let others = of.traces().filter(|trace| !trace.header.writer.is_profiler).count();
    let which = match (others, of.files.len()) {
        (0, _) => return None,
        (1, 1) => "this trace".to_owned(),
        (n, all) if n == all => "these traces".to_owned(),
        (n, _) => format!("{} of them", count(n as u64)),
    };
    let others = "the other commands answer questions about traces of torch.profiler and exports of Nsight Systems";
    Some(format!("Query {which} with nccl-stacks sql: {others}."))
}

/// `9 of 18 questions, and 5 in part`
fn answered(of: Answered) -> String {
    let questions = counted(of.questions, "questions");
    let full = match of.full {
        full if full == of.questions => format!("all {questions}"),
        0 => format!("none of {questions}"),
        full => format!("{} of {questions}", count(full)),
    };
    let partly = if of.partly > 0 { format!(", and {} in part", count(of.partly)) } else { String::new() };
    format!("{full}{partly}")
}
