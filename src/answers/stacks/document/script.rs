//! Stacks as `get_call_stacks.py` prints them, for programs that read its output, and nothing else.
//!
//! The output starts with `Found N unique call stacks:` and an empty line. Each stack follows with its frames, outermost first, a line ` ->`
//! between two frames, then `Appeared N times` and an empty line. A stack is the launch and a limited number of callers: callers further up
//! do not distinguish stacks. The most frequent stacks come first; equal counts are sorted by frames.
//!
//! The script knows one path of slices per kernel. A kernel whose launch is not in the trace gets the path of its graph's capture, if there is
//! one. Frames that name pieces of a compiled model are left out.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::answers::stacks::data::{Stack, StackReport};
use crate::document::format::visible;
use crate::names::frames::is_piece;

/// The stacks with at most `max_callers` callers above the launch, or with all, and their counts.
pub fn grouped(report: &StackReport, max_callers: Option<usize>) -> Vec<(Vec<&str>, u64)> {
    let mut counts: BTreeMap<Vec<&str>, u64> = BTreeMap::new();
    for stack in &report.stacks {
        let mut frames: Vec<&str> = frames(stack).iter().map(String::as_str).filter(|frame| !is_piece(frame)).collect();
        let above = max_callers.map_or(0, |max| frames.len().saturating_sub(max.saturating_add(1)));
        *counts.entry(frames.split_off(above)).or_default() += stack.count;
    }
    let mut grouped: Vec<(Vec<&str>, u64)> = counts.into_iter().collect();
    grouped.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    grouped
}

fn frames(stack: &Stack) -> &[String] {
    match (&stack.key.frames[..], &stack.key.captured) {
        ([], Some(captured)) => &captured.frames,
        (frames, _) => frames,
    }
}

pub(crate) fn stacks(report: &StackReport, max_callers: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let grouped = grouped(report, max_callers);
    writeln!(out, "Found {} unique call stacks:\n", grouped.len())?;
    for (frames, count) in grouped {
        let lines: Vec<_> = frames.iter().map(|frame| visible(frame)).collect();
        writeln!(out, "{}\nAppeared {count} times\n", lines.join("\n ->\n"))?;
    }
    Ok(())
}
