//! Stacks as text, in the form that `get_call_stacks.py` made known: the outermost caller first, the launch last.

use std::borrow::Cow;
use std::io::{self, Write};

use super::table::{self, count, kernel_names, percent, telling, values};
use crate::analysis::collective_info::{Bandwidth, Bytes, CollectiveInfo, Group};
use crate::analysis::cost::{Cost, Distribution};
use crate::analysis::stack_key::StackKey;
use crate::analysis::stacks::{Stack, StackReport};
use crate::analysis::summary::Summary;
use crate::time::Nanos;

/// Wide enough for most names, short enough for a log.
pub const WIDTH_WITHOUT_SCREEN: usize = 160;

/// Stands for callers that were cut off.
const CUT: &str = "...";

/// Writes the window as a whole: a sentence on what it costs, then in numbers. Lines of the table of kernels are at most `width`.
///
/// # Errors
/// What the writer fails with.
pub fn summary(report: &StackReport, width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let Summary { wall, busy, compute, collectives, exposed, gpus, top_kernels, kernel_names, .. } = &report.summary;
    writeln!(out, "{}\n", verdict(report))?;
    for (what, time) in [("GPU busy", busy), ("Compute", compute), ("Collectives", collectives), ("Exposed", exposed)] {
        let share = if *wall > 0 { percent(*time as f64 / *wall as f64) } else { "?".to_owned() };
        writeln!(out, " {what:<12}{:>12}{share:>10}", Nanos(*time).to_string())?;
    }
    let of = if *gpus == 1 { String::new() } else { format!(" on {gpus} GPUs, summed") };
    writeln!(out, " {:<12}{:>12}{of}\n", "Window", Nanos(*wall).to_string())?;
    writeln!(out, "{}", table::kernels(top_kernels, Some(width.unwrap_or(WIDTH_WITHOUT_SCREEN))).trim_end())?;
    match kernel_names.saturating_sub(top_kernels.len() as u64) {
        0 => writeln!(out),
        more => writeln!(out, " … and {} more names\n", count(more)),
    }
}

/// What the window costs, in one sentence.
fn verdict(report: &StackReport) -> String {
    let Summary { wall, collectives, exposed, .. } = report.summary;
    if collectives == 0 {
        let launched = if report.stacks.is_empty() { "" } else { "; those below were launched in it" };
        return format!("No collective ran while the window lasted{launched}.");
    }
    let share = |time: i64, of: i64| percent(time as f64 / of.max(1) as f64);
    let mut text = format!(
        "Collectives ran for {} of the window; for {} of that time ({}, {} of the window) no compute kernel ran beside them.",
        share(collectives, wall),
        share(exposed, collectives),
        Nanos(exposed),
        share(exposed, wall)
    );
    // Of all that were asked for, shown or not.
    let stacks: Vec<&Stack> = report.stacks.iter().chain(&report.hidden).collect();
    let missed = report.coverage.unattributed.values().map(|missed| missed.all.exposed);
    let all = stacks.iter().map(|stack| stack.cost.exposed).chain(missed).fold(0, i64::saturating_add);
    let most = stacks.iter().enumerate().max_by_key(|(at, stack)| (stack.cost.exposed, std::cmp::Reverse(*at)));
    if let (Some((at, stack)), true) = (most.filter(|(_, stack)| stack.cost.exposed > 0), stacks.len() > 1) {
        let share = share(stack.cost.exposed, all);
        text.push_str(&format!(
            "\nOf the exposed time of the kernels asked for {share} is that of one stack{}.",
            from(&stacks, at)
        ));
    }
    text
}

/// Where a stack comes from, in a few words: `, from a.py(1): f`; and if others come from there, too, by what it differs from
/// them: `, from a.py(1): f in b.py(2): g`.
fn from(stacks: &[&Stack], at: usize) -> String {
    let told = telling(stacks.iter().map(|stack| &stack.key));
    let Some(first) = told[at].first() else { return String::new() };
    let is_shared = told.iter().enumerate().any(|(other, frames)| other != at && frames.first() == Some(first));
    match told[at].last().filter(|last| is_shared && *last != first) {
        Some(last) => format!(", from {first} in {last}"),
        None => format!(", from {first}"),
    }
}

/// Writes the stacks.
///
/// # Errors
/// What the writer fails with.
pub fn stacks(report: &StackReport, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "Found {} unique call stacks:", report.stacks_found)?;
    for stack in &report.stacks {
        writeln!(out, "\n{}", lines(&stack.key).join("\n ->\n"))?;
        writeln!(out, "Appeared {} times", stack.count)?;
        cost(stack, out)?;
    }
    Ok(())
}

/// The lines under a stack: its cost, and what its collectives move.
fn cost(stack: &Stack, out: &mut impl Write) -> io::Result<()> {
    let Cost { gpu_time, share, exposed, overlapped, queue_delay } = &stack.cost;
    let mean = |distribution: &Distribution| Nanos(distribution.mean.round() as i64);
    let median = |distribution: &Distribution| Nanos(distribution.median.round() as i64);
    let share = share.map_or(String::new(), |share| format!(", {} of the window", percent(share)));
    write!(out, "  GPU time {}{share}", Nanos(gpu_time.total))?;
    if stack.count > 1 {
        write!(out, ": mean {}, median {}, p95 {}", mean(gpu_time), median(gpu_time), Nanos(gpu_time.p95))?;
        write!(out, ", min {}, max {}", Nanos(gpu_time.min), Nanos(gpu_time.max))?;
    }
    writeln!(out)?;
    let of_it = if gpu_time.total > 0 {
        format!(" ({})", percent(*exposed as f64 / gpu_time.total as f64))
    } else {
        String::new()
    };
    write!(out, "  Exposed {}{of_it}, overlapped {}", Nanos(*exposed), Nanos(*overlapped))?;
    match queue_delay {
        Some(delay) => {
            writeln!(out, "; launch to start: median {}, p95 {}", median(delay), Nanos(delay.p95))?;
        }
        None => writeln!(out)?,
    }
    moved(stack, out)?;
    writeln!(out, "  Kernels: {}", kernel_names(stack))
}

/// What the collectives of a stack move, as far as anything is known of it.
fn moved(stack: &Stack, out: &mut impl Write) -> io::Result<()> {
    let CollectiveInfo { collectives, algorithms, protocols, dtypes, groups, bytes, bandwidth } = &stack.collective;
    if collectives.is_empty() && algorithms.is_empty() {
        return Ok(());
    }
    let mut parts = vec![values(collectives, stack.count)];
    parts.push(match bytes {
        Some(Bytes { min, max, kernels }) => {
            let from = if min == max { String::new() } else { format!("{} to ", size(*min)) };
            let unknown = match stack.count.saturating_sub(*kernels) {
                0 => String::new(),
                unknown => format!(" (unknown ×{})", count(unknown)),
            };
            format!("{from}{} each{unknown}", size(*max))
        }
        None => "size unknown".to_owned(),
    });
    if !dtypes.is_empty() {
        parts.push(values(dtypes, stack.count));
    }
    for (what, found) in [("algorithm", algorithms), ("protocol", protocols)] {
        if !found.is_empty() {
            parts.push(format!("{what} {}", values(found, stack.count)));
        }
    }
    writeln!(out, "  Collective: {}", parts.join(", "))?;
    for group in groups {
        writeln!(out, "  Process group: {}", process_group(group, stack.count))?;
    }
    if let Some(Bandwidth { algorithm, bus, best_bus, kernels }) = bandwidth {
        let of = match *kernels {
            n if n == stack.count => String::new(),
            1 => ", of 1 kernel".to_owned(),
            n => format!(", of {} kernels", count(n)),
        };
        writeln!(out, "  Bandwidth: algbw {algorithm:.2} GB/s, busbw {bus:.2} GB/s, at best {best_bus:.2} GB/s{of}")?;
    }
    Ok(())
}

/// `3 (tp), 4 ranks [0, 1, 2, 3]`
pub fn process_group(group: &Group, all: u64) -> String {
    let mut text = group.name.as_deref().map_or("unnamed".into(), visible).into_owned();
    if let Some(description) = &group.description {
        text.push_str(&format!(" ({})", visible(description)));
    }
    if let Some(size) = group.size {
        text.push_str(&format!(", {size} ranks"));
    }
    if let Some(ranks) = &group.ranks {
        text.push_str(&format!(" {}", visible(ranks)));
    }
    if group.kernels != all {
        text.push_str(&format!(" ×{}", count(group.kernels)));
    }
    text
}

/// A number of bytes, in powers of ten as bandwidths are: `8.39 MB`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.2} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

/// All lines of a stack. What is no function stands in brackets: where a capture or the forward pass ends and the launch's own
/// stack begins, and on which thread.
pub fn lines(key: &StackKey) -> Vec<Cow<'_, str>> {
    let mut lines: Vec<Cow<'_, str>> = Vec::new();
    if let Some(captured) = &key.captured {
        lines.push("[graph capture]".into());
        add(&mut lines, &captured.frames, captured.truncated);
    }
    if let Some(forward) = &key.forward {
        lines.push("[forward]".into());
        add(&mut lines, &forward.frames, forward.truncated);
    }
    if key.frames.is_empty() {
        return lines;
    }
    let thread = key.thread.as_deref().map(visible);
    match (&key.captured, &key.forward, thread) {
        (_, Some(_), Some(thread)) => lines.push(format!("[backward on thread {thread}]").into()),
        (_, Some(_), None) => lines.push("[backward]".into()),
        (Some(_), None, Some(thread)) => lines.push(format!("[graph replay on thread {thread}]").into()),
        (Some(_), None, None) => lines.push("[graph replay]".into()),
        (None, None, Some(thread)) => lines.push(format!("[thread {thread}]").into()),
        (None, None, None) => {}
    }
    add(&mut lines, &key.frames, key.truncated);
    lines
}

fn add<'a>(lines: &mut Vec<Cow<'a, str>>, frames: &'a [String], cut: bool) {
    if cut {
        lines.push(CUT.into());
    }
    lines.extend(frames.iter().map(|frame| visible(frame)));
}

/// A name as it can be shown: control characters, which could move a terminal's cursor or forge a line of the answer, are
/// written as escapes.
pub fn visible(name: &str) -> Cow<'_, str> {
    if !name.contains(char::is_control) {
        return Cow::Borrowed(name);
    }
    let escaped = name.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() });
    Cow::Owned(escaped.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::call_tree::CallPath;

    #[test]
    fn control_characters_are_shown_as_escapes() {
        assert_eq!(visible("evil\nAppeared 9 times\u{1b}[31m"), "evil\\nAppeared 9 times\\u{1b}[31m");
        assert!(matches!(visible("naïve …"), Cow::Borrowed(_)));
    }

    #[test]
    fn the_form_that_scripts_read() {
        let stack = |frames: &[&str], cut, count| Stack {
            key: StackKey {
                frames: frames.iter().map(|f| (*f).to_owned()).collect(),
                truncated: cut,
                ..StackKey::default()
            },
            count,
            ..Stack::default()
        };
        let stacks_found =
            vec![stack(&["function_a", "function_b", "ncclLaunchKernel"], false, 15), stack(&["b"], true, 1)];
        let report = StackReport { stacks: stacks_found, stacks_found: 2, ..StackReport::default() };
        let mut out = Vec::new();
        stacks(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let without_cost: Vec<&str> = text.lines().filter(|line| !line.starts_with("  ")).collect();
        let want = "Found 2 unique call stacks:\n\nfunction_a\n ->\nfunction_b\n ->\nncclLaunchKernel\nAppeared 15 times\n\
                    \n...\n ->\nb\nAppeared 1 times";
        assert_eq!(without_cost.join("\n"), want);
    }

    #[test]
    fn parts_of_a_stack_are_marked() {
        let trail = |frames: &[&str], cut| CallPath {
            frames: frames.iter().map(|f| (*f).to_owned()).collect(),
            truncated: cut,
        };
        let frames = vec!["replay".to_owned(), "cudaGraphLaunch".to_owned()];
        let replayed = StackKey { frames, captured: Some(trail(&["model", "launch"], true)), ..StackKey::default() };
        let captured = StackKey { frames: Vec::new(), ..replayed.clone() };
        let hop = StackKey { captured: None, thread: Some("pt_autograd_".to_owned()), ..replayed.clone() };
        let backward = StackKey { forward: Some(trail(&["aten::mul"], false)), ..hop.clone() };
        for (key, want) in [
            (&replayed, "[graph capture] ... model launch [graph replay] replay cudaGraphLaunch"),
            (&captured, "[graph capture] ... model launch"),
            (&hop, "[thread pt_autograd_] replay cudaGraphLaunch"),
            (&backward, "[forward] aten::mul [backward on thread pt_autograd_] replay cudaGraphLaunch"),
        ] {
            assert_eq!(lines(key).join(" "), want);
        }
    }
}
