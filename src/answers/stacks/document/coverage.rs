//! How far to trust the stacks: how many kernels have a launch and by what evidence, which records are joined, and what is left out.

use crate::answers::stacks::data::{Coverage, StackReport, Unattributed, UnattributedKernel};
use crate::attribution::capture::CaptureTally;
use crate::attribution::launches::{Evidence, Reason, WindowOn};
use crate::document::format::{count, duration, kernels, shorten_right, visible};

/// The width of a kernel's name in a note. Names differ at their beginnings.
const NAME_WIDTH: usize = 60;

/// A line, and whether it is only for those who want to know everything.
pub type Line = (String, bool);

/// All lines. `window_on` is what the window selects kernels by.
pub fn lines(report: &StackReport, window_on: WindowOn) -> Vec<Line> {
    let mut lines = launches(report);
    left_out(report, window_on, &mut lines);
    joined(report, &mut lines);
    lines
}

/// How many kernels there are, and by what evidence each was attributed, or why it was not.
pub fn launches(report: &StackReport) -> Vec<Line> {
    let coverage = &report.coverage;
    let mut lines = vec![
        (
            format!("Kernels: {} match, {} in the window", count(report.kernels_in_trace), count(coverage.kernels)),
            false,
        ),
        (format!("Coverage: {}", attributed(coverage)), false),
    ];
    for (reason, unattributed) in &coverage.without_launch {
        lines.extend(without_launch(*reason, unattributed));
    }
    lines
}

/// How many of NCCL's own records are joined to kernels, and which are not.
fn joined(report: &StackReport, lines: &mut Vec<Line>) {
    let Some(records) = &report.records else { return };
    let of_all = format!(
        "Records: {} of {} joined to kernels; {} of {} in the window have one",
        count(records.joined),
        count(records.records),
        count(records.kernels_with),
        kernels(records.kernels_with + records.kernels_without)
    );
    lines.push((of_all, false));
    for (reason, unjoined) in &records.unjoined {
        lines.push((format!("Not joined: {}, {}", count(*unjoined), reason.phrase()), false));
    }
    for group in &records.groups {
        let rank = group.rank.map_or(String::new(), |rank| format!(" rank {rank}"));
        let clock = group.offset_ns.zip(group.deviation_ns).map_or(String::new(), |(offset, deviation)| {
            format!(", clock {} ahead, ± {}", duration(offset), duration(deviation))
        });
        let of_group = format!(
            "Joined: {} ({}) with{rank} {}: {} of {} records{clock}",
            visible(&group.file),
            group.source.name(),
            visible(group.group.as_deref().unwrap_or("without a group")),
            count(group.joined),
            count(group.records)
        );
        lines.push((of_group, true));
    }
}

/// `392 of 392 kernels attributed: 98 by correlation, 294 by graph replay; 0 without a launch`
fn attributed(coverage: &Coverage) -> String {
    let by: Vec<String> = Evidence::TIES
        .iter()
        .filter_map(|evidence| {
            Some(format!("{} by {}", count(*coverage.attributed_by.get(evidence)?), evidence_name(*evidence)))
        })
        .collect();
    let by = if by.is_empty() { String::new() } else { format!(": {}", by.join(", ")) };
    format!(
        "{} of {} attributed{by}; {} without a launch",
        count(coverage.attributed()),
        kernels(coverage.kernels),
        count(coverage.unattributed())
    )
}

fn evidence_name(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Correlation => "correlation",
        Evidence::Flow => "flow",
        Evidence::ExternalId => "External id",
        Evidence::GraphReplay => "graph replay",
        Evidence::Capture => "graph capture alone",
        Evidence::None(_) => "nothing",
    }
}

/// `Without a launch: 5 kernels (25.0 ms), launched before recording began`, and which they are.
fn without_launch(reason: Reason, unattributed: &Unattributed) -> [Line; 2] {
    let Unattributed { all, first, .. } = unattributed;
    let name = |name: &str| shorten_right(&visible(name), NAME_WIDTH);
    let of = |trace: &Option<String>| trace.as_ref().map_or(String::new(), |trace| format!(" in {}", visible(trace)));
    let one =
        |kernel: &UnattributedKernel| format!("{} at {} ns{}", name(&kernel.name), kernel.ts_ns, of(&kernel.trace));
    let named: Vec<String> = first.iter().map(one).collect();
    let more = match unattributed.all.count.saturating_sub(unattributed.first.len() as u64) {
        0 => String::new(),
        more => format!(" and {} more", count(more)),
    };
    let said = format!("Without a launch: {} ({}), {}", kernels(all.count), duration(all.gpu_time_ns), why(reason));
    [(said, false), (format!("These are: {}{more}", named.join(", ")), true)]
}

pub(super) fn why(reason: Reason) -> &'static str {
    match reason {
        Reason::NoCalls => "because the trace has no runtime calls (recorded without ProfilerActivity.CPU?)",
        Reason::BeforeTrace => "launched before recording began",
        Reason::NoId => "with nothing that ties them to a call: no correlation id, no flow",
        Reason::NotRecorded => "whose call is not in the trace, though earlier ones are (records dropped?)",
    }
}

/// What the stacks and counts leave out, and what is uncertain.
fn left_out(report: &StackReport, window_on: WindowOn, lines: &mut Vec<Line>) {
    let coverage = &report.coverage;
    let mut some = |n: u64, line: String| lines.extend((n > 0).then_some((line, false)));
    let (stacks, hidden) = (report.stacks_left_out(), kernels(report.kernels_left_out));
    some(stacks, format!("Not shown: {} of {} stacks, with {hidden}", count(stacks), count(report.stacks_found)));
    let (groups, found) = report.groups().map_or((0, 0), |all| (all.left_out().groups, all.groups_found));
    some(groups, format!("Not shown: {} of {} groups, with {hidden}", count(groups), count(found)));
    let (inside, outside) = match window_on {
        WindowOn::Launch => ("run", "launched"),
        WindowOn::Kernel => ("launched", "run"),
    };
    let elsewhere = kernels(report.kernels_elsewhere);
    some(
        report.kernels_elsewhere,
        format!("Not in the stacks: {elsewhere}, {inside} in the window, {outside} outside of it"),
    );
    some(
        coverage.uncertain,
        format!(
            "Uncertain: {} whose correlation id or External id belongs to several calls (several ranks in one file?); the latest call before each was taken",
            kernels(coverage.uncertain)
        ),
    );
    if coverage.flow_disagrees > 0 {
        let line = format!(
            "Flows disagree for {}: the flow comes from a different call than the one with the same correlation id, which was taken",
            kernels(coverage.flow_disagrees)
        );
        lines.push((line, true));
    }
    match (&coverage.captures, coverage.attributed_by.get(&Evidence::GraphReplay)) {
        (Some(captures), _) => lines.push((format!("Graph captures: {}", captured(captures)), false)),
        (None, Some(replayed)) => {
            let line = format!(
                "Graph replays: {} have the stack of the replay; --capture-trace FILE, a trace of the capture, shows the code that was captured",
                kernels(*replayed)
            );
            lines.push((line, false));
        }
        (None, None) => {}
    }
    if coverage.forward_unknown > 0 {
        let line = format!(
            "Forward pass: {} of the backward pass without a stack of the forward pass (its operator is not in the trace, or several have its number)",
            kernels(coverage.forward_unknown)
        );
        lines.push((line, false));
    }
}

/// `stacks for 294 kernels, 0 ambiguous (captured in several places), 3 of a graph that no capture holds`
fn captured(tally: &CaptureTally) -> String {
    let order = match tally.by_order {
        0 => String::new(),
        n => format!(" ({} by order alone, because the calls name no kernels)", count(n)),
    };
    format!(
        "stacks for {}{order}, {} ambiguous (captured in several places), {} of a graph that no capture holds",
        kernels(tally.matched),
        count(tally.ambiguous),
        count(tally.unknown)
    )
}
