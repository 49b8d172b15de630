//! The stacks of a window as a page.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;

use super::format::{count, duration, kernels, percent, percent_or_unknown, size};
use super::frames::lines;
use super::html::timeline::Streams;
use super::html::{Bytes, Command, Documents, FINDINGS, Finding, Link, Page, ROWS, Top, in_steps, labels};
use super::{Answer, Form, grouping, summary};
use crate::analysis::collective_info::CollectiveInfo;
use crate::analysis::cost::Totals;
use crate::analysis::stacks::{Stack, StackReport};
use crate::analysis::verdict::Waiting;
use crate::ranks::verdict::LAUNCH_BOUND;
use crate::time::Ns;

/// The smallest share of the exposed time that makes a stack a finding.
const NOTABLE: f64 = 0.05;

/// Writes the page of an answer.
///
/// # Errors
/// Returns the writer's error.
pub(super) fn stacks(answer: &Answer<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    let Answer { report, trace, on_page, .. } = answer;
    let labels = labels_of(report);
    let streams = Streams::collect(&on_page.timelines, report.stacks.iter().map(|stack| (&stack.rank, &stack.key)));
    let mut verdict = summary::whole(report);
    if on_page.reason.is_some() && !report.has_answer() {
        verdict.clear();
    }
    verdict.splice(..0, on_page.reason.clone());
    verdict.extend(idle(report));
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
        commands: commands(&on_page.inputs, &on_page.options),
        notes: on_page.notes.clone(),
        labels,
        telling: telling(report),
        streams,
        lanes: None,
    };
    page.write(out)
}

/// The stacks for programs, with the name of their document.
pub(super) fn document(report: &StackReport, trace: &str) -> io::Result<Documents> {
    Ok(vec![("stacks", in_form(report, trace, Form::Json)?)])
}

/// The stacks in a form.
pub(super) fn in_form(report: &StackReport, trace: &str, form: Form) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    Answer::new(report, trace).write(form, &mut bytes)?;
    Ok(bytes)
}

/// The labels of each stack or group, which distinguish it from the others.
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

/// The frames that name the stacks.
pub(super) fn telling(report: &StackReport) -> BTreeSet<String> {
    report.stacks.iter().flat_map(|stack| stack.telling.iter().cloned()).collect()
}

/// The share of the window in which the GPUs were idle, if it is large: no collective explains that.
fn idle(report: &StackReport) -> Option<String> {
    let summary = &report.summary;
    let idle = 1.0 - summary.share(summary.busy)?;
    (summary.gpus > 0 && idle >= LAUNCH_BOUND).then(|| {
        let gpus = if summary.gpus == 1 { "the GPU".to_owned() } else { format!("{} GPUs", count(summary.gpus)) };
        format!(
            "For {} of the {} no kernel ran on {gpus}: there the CPU sets the pace, and not the collectives.",
            percent(idle),
            summary.whole()
        )
    })
}

/// The window, and facts about its kernels.
fn facts(report: &StackReport) -> Vec<(&'static str, String)> {
    let (summary, coverage) = (&report.summary, &report.coverage);
    let share = |time: Ns| percent_or_unknown(summary.share(time));
    if summary.gpus == 0 {
        return vec![("Window", duration(summary.window.duration())), ("GPUs", "none in the trace".to_owned())];
    }
    let mut facts = vec![
        (if summary.gpu_span.is_some() { "Measured" } else { "Window" }, summary::measured(report)),
        ("GPU busy", share(summary.busy)),
        ("Compute", share(summary.compute)),
        ("Collectives", share(summary.collectives)),
        ("Exposed", share(summary.exposed)),
        ("Coverage", format!("{} of {} have a launch", count(coverage.attributed()), kernels(coverage.kernels))),
    ];
    match report.damage.lost_share {
        Some(share) if share > 0.0 => facts.push(("Lost", format!("{} of the text", percent(share)))),
        Some(_) => {}
        None => facts.push(("Lost", "unknown".to_owned())),
    }
    facts
}

/// The stacks or groups with the most exposed time, and the kernels without a launch.
fn findings(report: &StackReport, labels: &[Vec<String>], streams: &[Streams]) -> Vec<Finding> {
    let without: Totals = report.coverage.unattributed.values().fold(Totals::default(), |mut sum, of| {
        sum.add(of.all);
        sum
    });
    let rows: Vec<Totals> = match report.groups() {
        Some(grouped) => grouped.groups.iter().map(|group| group.totals()).collect(),
        None => report.stacks.iter().map(Stack::totals).collect(),
    };
    let hidden = report.hidden.iter().map(|stack| stack.cost.exposed);
    // Groups include the kernels without a launch.
    let apart = if report.groups().is_some() { Totals::default() } else { without };
    let all: Ns = rows.iter().map(|row| row.exposed).chain(hidden).chain([apart.exposed]).sum();
    let share = |of: Totals| of.exposed.share_of(all).unwrap_or(0.0);
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(rows[*at].exposed));
    let notable = order.into_iter().filter(|at| share(rows[*at]) >= NOTABLE);
    let mut found: Vec<(Ns, Finding)> = notable
        .take(FINDINGS)
        .map(|at| {
            let finding = match report.groups() {
                Some(_) => group_finding(&labels[at], rows[at], share(rows[at])),
                None => stack_finding(report, at, &labels[at], share(rows[at]), streams),
            };
            let link = Link { text: "Its row", view: "stacks", stack: Some(at), ..Link::default() };
            (rows[at].exposed, Finding { link: Some(link), ..finding })
        })
        .collect();
    if share(apart) >= NOTABLE {
        found.push((apart.exposed, without_launch(apart, share(apart))));
        found.sort_by_key(|(exposed, _)| std::cmp::Reverse(*exposed));
    }
    found.into_iter().map(|(_, finding)| finding).take(FINDINGS).collect()
}

fn group_finding(label: &[String], row: Totals, share: f64) -> Finding {
    Finding {
        cost: in_steps(row.exposed, "exposed", &[]),
        what: label.join(" in "),
        text: format!(
            "{} of the exposed time: {}, GPU time {}.",
            percent(share),
            kernels(row.count),
            duration(row.gpu_time)
        ),
        ..Finding::default()
    }
}

fn without_launch(row: Totals, share: f64) -> Finding {
    Finding {
        cost: in_steps(row.exposed, "exposed", &[]),
        what: "(no launch)".to_owned(),
        text: format!(
            "{} of the exposed time comes from {} without a launch: nothing in the trace says which code launched them.",
            percent(share),
            kernels(row.count)
        ),
        link: Some(Link { text: "Why", view: "trust", ..Link::default() }),
        ..Finding::default()
    }
}

fn stack_finding(report: &StackReport, at: usize, label: &[String], share: f64, streams: &[Streams]) -> Finding {
    let stack = &report.stacks[at];
    let traces = report.traces.len();
    let mut text = format!("{} of the exposed time", percent(share));
    if traces > 1 {
        text.push_str(&format!(" of {} traces, {} in all", count(traces as u64), duration(stack.cost.exposed)));
    }
    text.push_str(&format!(": {}", kernels(stack.count)));
    let collectives: Vec<&str> = stack.collective.collectives.keys().map(String::as_str).collect();
    if !collectives.is_empty() {
        text.push_str(&format!(", {}", collectives.join(", ")));
    }
    if let Some(bytes) = stack.collective.bytes {
        let to = if bytes.min == bytes.max { " each".to_owned() } else { format!(" to {}", size(bytes.max)) };
        text.push_str(&format!(" of {}{to}", size(bytes.min)));
    }
    text.push('.');
    if let Some(Waiting { mean, best, .. }) = Waiting::find(stack) {
        text.push_str(&format!(
            " They take a mean of {}; the fastest with this collective, size and number of ranks takes {}: the rest is waiting for other ranks, or contention.",
            duration(Ns::rounded(mean)),
            duration(best)
        ));
        if traces == 1 {
            text.push_str(" The traces of all ranks show for whom: nccl-stacks report TRACES.");
        }
    }
    if label.iter().any(|label| label.contains("torch::autograd::")) {
        text.push_str(
            " Autograd launched them in the backward pass, not a line of the model: nccl-stacks pairs TRACE names the modules.",
        );
    }
    let each = Ns::rounded(stack.cost.exposed.as_f64() / traces.max(1) as f64);
    let what = if traces > 1 { "exposed per trace" } else { "exposed" };
    Finding { cost: in_steps(each, what, &steps(streams, at)), what: label.join(" in "), text, ..Finding::default() }
}

/// The steps in which a stack has kernels, from the trace with the most of them: steps of several traces are assumed to be the same.
fn steps(streams: &[Streams], stack: usize) -> Vec<&str> {
    let of_traces = streams.iter().filter_map(|streams| streams.steps_of(stack));
    of_traces.max_by_key(Vec::len).unwrap_or_default()
}

fn top(report: &StackReport, labels: &[Vec<String>]) -> Option<Top> {
    if let Some(grouped) = report.groups().filter(|grouped| grouped.are_steps()) {
        let rows = grouping::step_rows(grouped, ROWS);
        return (!rows.is_empty()).then(|| Top {
            title: "Steps",
            columns: grouping::step_headers(),
            rows,
            found: grouped.groups.iter().filter(|group| group.step.is_some()).count(),
        });
    }
    let row = |label: &[String], totals: Totals, share: Option<f64>, bus: Option<f64>| {
        vec![
            label.join(" in "),
            count(totals.count),
            duration(totals.gpu_time),
            share.map_or(String::new(), percent),
            duration(totals.exposed),
            duration(Ns::rounded(totals.mean())),
            bus.map_or(String::new(), |bus| format!("{bus:.1} GB/s")),
        ]
    };
    let bus = |of: &CollectiveInfo| of.bandwidth.map(|of| of.bus);
    let rows: Vec<Vec<String>> = match report.groups() {
        Some(grouped) => {
            let shown = grouped.groups.iter().zip(labels).take(ROWS);
            shown.map(|(of, label)| row(label, of.totals(), of.cost.share, bus(&of.collective))).collect()
        }
        None => {
            let shown = report.stacks.iter().zip(labels).take(ROWS);
            let without = report.without_launch.iter().map(|of| {
                let label = of.rank.iter().cloned().chain(lines(&of.key).into_iter().map(Cow::into_owned));
                row(&label.collect::<Vec<_>>(), of.totals(), of.cost.share, bus(&of.collective))
            });
            let stacks = shown.map(|(of, label)| row(label, of.totals(), of.cost.share, bus(&of.collective)));
            stacks.chain(without).collect()
        }
    };
    (!rows.is_empty()).then(|| Top {
        title: if report.groups().is_some() { "Groups" } else { "Call stacks" },
        columns: vec!["from", "count", "GPU time", "share", "exposed", "mean", "busbw"],
        rows,
        found: labels.len(),
    })
}

fn commands(inputs: &str, options: &str) -> Vec<Command> {
    let command = |view: &'static str, what: &'static str, rest: &str| Command {
        view,
        what,
        text: format!("nccl-stacks {inputs}{options}{rest}"),
    };
    vec![
        command("stacks", "The stacks, as text", ""),
        command("stacks", "Everything, for programs", " --format json --output stacks.json"),
        command("stacks", "A row for each stack, for spreadsheets", " --format csv --output stacks.csv"),
        command("icicle", "The call paths, for a browser", " --format svg --weight exposed --output stacks.svg"),
        command("icicle", "The call paths, for speedscope.app", " --format speedscope --output stacks.speedscope.json"),
    ]
}
