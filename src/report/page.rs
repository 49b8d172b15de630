//! The stacks of a window as a page.

use std::collections::BTreeSet;
use std::io;

use super::format::{count, duration, kernels, percent, percent_or_unknown, size};
use super::html::timeline::Streams;
use super::html::{Bytes, Command, Documents, FINDINGS, Finding, Page, ROWS, Top, in_steps, labels};
use super::{Answer, Form, summary};
use crate::analysis::stacks::{Stack, StackReport};
use crate::analysis::verdict::Waiting;
use crate::time::Ns;

/// Which share of the exposed time a stack has at least that is a finding.
const NOTABLE: f64 = 0.05;

/// Writes the page of an answer.
///
/// # Errors
/// What the writer fails with.
pub(super) fn stacks(answer: &Answer<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    let Answer { report, trace, on_page, .. } = answer;
    let labels = labels_of(report);
    let streams = Streams::of(&on_page.timelines, report.stacks.iter().map(|stack| (&stack.rank, &stack.key)));
    let mut verdict = summary::whole(report);
    verdict.splice(..0, on_page.reason.clone());
    let page = Page {
        kind: "stacks",
        title: if report.has_answer() { "What collectives cost".to_owned() } else { "No call stacks".to_owned() },
        names: (*trace).to_owned(),
        verdict,
        facts: facts(report),
        findings: findings(report, &labels, &streams),
        top: top(report, &labels),
        documents: document(report, trace)?,
        shorten: Some(Box::new(|most| document(&report.first(most), trace))),
        tables: vec![("stacks", in_form(report, trace, Form::Csv)?)],
        commands: commands(&on_page.words),
        notes: on_page.notes.clone(),
        labels,
        telling: telling(report),
        streams,
        lanes: None,
    };
    page.write(out)
}

/// The stacks for programs, and what a page calls that.
pub(super) fn document(report: &StackReport, trace: &str) -> io::Result<Documents> {
    Ok(vec![("stacks", in_form(report, trace, Form::Json)?)])
}

/// The stacks in a form.
pub(super) fn in_form(report: &StackReport, trace: &str, form: Form) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    Answer::new(report, trace).write(form, &mut bytes)?;
    Ok(bytes)
}

/// For each stack, or group, what it is called beside the others.
pub(super) fn labels_of(report: &StackReport) -> Vec<Vec<String>> {
    if let Some(grouped) = report.groups() {
        return grouped.groups.iter().map(|group| vec![group.label()]).collect();
    }
    let mut labels = labels(report.stacks.iter().map(|stack| stack.telling.as_slice()));
    for (label, stack) in labels.iter_mut().zip(&report.stacks) {
        label.splice(..0, stack.rank.clone());
    }
    labels
}

/// The frames that tell where the stacks come from.
pub(super) fn telling(report: &StackReport) -> BTreeSet<String> {
    report.stacks.iter().flat_map(|stack| stack.telling.iter().cloned()).collect()
}

/// The window and what is known of its kernels.
fn facts(report: &StackReport) -> Vec<(&'static str, String)> {
    let (summary, coverage) = (&report.summary, &report.coverage);
    let of_gpus = if summary.gpus == 1 { String::new() } else { format!(" on {} GPUs, summed", summary.gpus) };
    let share = |time: Ns| percent_or_unknown(summary.share(time));
    let mut facts = vec![
        ("Window", format!("{}{of_gpus}", duration(summary.wall))),
        ("GPU busy", share(summary.busy)),
        ("Compute", share(summary.compute)),
        ("Collectives", share(summary.collectives)),
        ("Exposed", share(summary.exposed)),
        ("Coverage", format!("{} of {} have a launch", count(coverage.attributed()), kernels(coverage.kernels))),
    ];
    if report.damage.lost_share > 0.0 {
        facts.push(("Lost", format!("{} of the text", percent(report.damage.lost_share))));
    }
    facts
}

/// The stacks with most exposed time.
fn findings(report: &StackReport, labels: &[Vec<String>], streams: &[Streams]) -> Vec<Finding> {
    if report.groups().is_some() {
        return Vec::new();
    }
    let all: Vec<&Stack> = report.stacks.iter().chain(&report.hidden).collect();
    let exposed: Ns = all.iter().map(|stack| stack.cost.exposed).sum();
    let mut order: Vec<usize> = (0..report.stacks.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(report.stacks[*at].cost.exposed));
    let share = |stack: &Stack| stack.cost.exposed.share_of(exposed).unwrap_or(0.0);
    let notable = order.into_iter().filter(|at| share(&report.stacks[*at]) >= NOTABLE).take(FINDINGS);
    let finding = |at: usize| {
        let stack = &report.stacks[at];
        let mut text = format!("{} of the exposed time: {}", percent(share(stack)), kernels(stack.count));
        let collectives: Vec<&str> = stack.collective.collectives.keys().map(String::as_str).collect();
        if !collectives.is_empty() {
            text.push_str(&format!(", {}", collectives.join(", ")));
        }
        if let Some(bytes) = stack.collective.bytes {
            let to = if bytes.min == bytes.max { " each".to_owned() } else { format!(" to {}", size(bytes.max)) };
            text.push_str(&format!(" of {}{to}", size(bytes.min)));
        }
        text.push('.');
        if let Some(Waiting { mean, best, .. }) = Waiting::of(stack, &all) {
            text.push_str(&format!(
                " One takes {} in the mean, the fastest took {}: the rest is waiting for other ranks, or contention.",
                duration(Ns::rounded(mean)),
                duration(best)
            ));
            if report.traces.len() == 1 {
                text.push_str(" The traces of all ranks show for whom: nccl-stacks report TRACES.");
            }
        }
        if labels[at].first().is_some_and(|label| label.contains("torch::autograd::")) {
            text.push_str(" Autograd launched them in the backward pass, not a line of the model: nccl-stacks pairs TRACE names the modules.");
        }
        Finding {
            cost: in_steps(stack.cost.exposed, "exposed", &steps(streams, at)),
            what: labels[at].join(" in "),
            text,
            link: format!("view=stacks&stack={at}"),
            evidence: "Its call stack",
        }
    };
    notable.map(finding).collect()
}

/// The steps in which a stack has kernels. Those of several traces are the same steps on each, if they have as many.
fn steps(streams: &[Streams], stack: usize) -> Vec<&str> {
    let of_traces = streams.iter().filter_map(|streams| streams.steps_of(stack));
    of_traces.max_by_key(Vec::len).unwrap_or_default()
}

fn top(report: &StackReport, labels: &[Vec<String>]) -> Option<Top> {
    if report.groups().is_some() || report.stacks.is_empty() {
        return None;
    }
    let row = |(stack, label): (&Stack, &Vec<String>)| {
        let busbw = stack.collective.bandwidth.map_or(String::new(), |of| format!("{:.1} GB/s", of.bus));
        vec![
            label.join(" in "),
            count(stack.count),
            duration(stack.cost.gpu_time.total),
            stack.cost.share.map_or(String::new(), percent),
            duration(stack.cost.exposed),
            duration(Ns::rounded(stack.cost.gpu_time.mean)),
            busbw,
        ]
    };
    Some(Top {
        title: "Call stacks",
        columns: vec!["from", "count", "GPU time", "of the window", "exposed", "mean", "busbw"],
        rows: report.stacks.iter().zip(labels).take(ROWS).map(row).collect(),
        found: report.stacks.len(),
    })
}

fn commands(words: &str) -> Vec<Command> {
    let command = |view: &'static str, what: &'static str, rest: &str| Command {
        view,
        what,
        text: format!("nccl-stacks {words}{rest}"),
    };
    vec![
        command("stacks", "The stacks, as text", ""),
        command("stacks", "Everything, for programs", " --format json --output stacks.json"),
        command("stacks", "A row for each stack, for spreadsheets", " --format csv --output stacks.csv"),
        command("icicle", "The call paths, for a browser", " --format svg --weight exposed --output stacks.svg"),
        command("icicle", "The call paths, for speedscope.app", " --format speedscope --output stacks.speedscope.json"),
    ]
}
