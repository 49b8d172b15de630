//! Stacks as text, in the form that `get_call_stacks.py` made known: the outermost caller first, the launch last.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::analysis::stacks::{Stack, StackReport};

/// Stands for callers that were cut off.
const CUT: &str = "...";

/// Writes the stacks.
///
/// # Errors
/// What the writer fails with.
pub fn stacks(report: &StackReport, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "Found {} unique call stacks:", report.stacks.len())?;
    for stack in &report.stacks {
        writeln!(out, "\n{}", lines(stack).join("\n ->\n"))?;
        writeln!(out, "Appeared {} times", stack.count)?;
    }
    Ok(())
}

/// All lines of a stack. What is no function stands in brackets: where a capture or the forward pass ends and the launch's own
/// stack begins, and on which thread.
fn lines(stack: &Stack) -> Vec<Cow<'_, str>> {
    let mut lines: Vec<Cow<'_, str>> = Vec::new();
    if let Some(captured) = &stack.captured {
        lines.push("[graph capture]".into());
        add(&mut lines, &captured.frames, captured.cut);
    }
    if let Some(forward) = &stack.forward {
        lines.push("[forward]".into());
        add(&mut lines, &forward.frames, forward.cut);
    }
    if stack.frames.is_empty() {
        return lines;
    }
    let thread = stack.thread.as_deref().map(visible);
    match (&stack.captured, &stack.forward, thread) {
        (_, Some(_), Some(thread)) => lines.push(format!("[backward on thread {thread}]").into()),
        (_, Some(_), None) => lines.push("[backward]".into()),
        (Some(_), None, Some(thread)) => lines.push(format!("[graph replay on thread {thread}]").into()),
        (Some(_), None, None) => lines.push("[graph replay]".into()),
        (None, None, Some(thread)) => lines.push(format!("[thread {thread}]").into()),
        (None, None, None) => {}
    }
    add(&mut lines, &stack.frames, stack.cut);
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
    use crate::analysis::stacks::Trail;

    #[test]
    fn control_characters_are_shown_as_escapes() {
        assert_eq!(visible("evil\nAppeared 9 times\u{1b}[31m"), "evil\\nAppeared 9 times\\u{1b}[31m");
        assert!(matches!(visible("naïve …"), Cow::Borrowed(_)));
    }

    #[test]
    fn the_form_that_scripts_read() {
        let stack = |frames: &[&str], cut, count| Stack {
            frames: frames.iter().map(|f| (*f).to_owned()).collect(),
            cut,
            count,
            ..Stack::default()
        };
        let stacks_found =
            vec![stack(&["function_a", "function_b", "ncclLaunchKernel"], false, 15), stack(&["b"], true, 1)];
        let report = StackReport { stacks: stacks_found, ..StackReport::default() };
        let mut out = Vec::new();
        stacks(&report, &mut out).unwrap();
        let want = "Found 2 unique call stacks:\n\nfunction_a\n ->\nfunction_b\n ->\nncclLaunchKernel\nAppeared 15 times\n\
                    \n...\n ->\nb\nAppeared 1 times\n";
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn parts_of_a_stack_are_marked() {
        let trail = |frames: &[&str], cut| Trail { frames: frames.iter().map(|f| (*f).to_owned()).collect(), cut };
        let frames = vec!["replay".to_owned(), "cudaGraphLaunch".to_owned()];
        let replayed =
            Stack { frames, captured: Some(trail(&["model", "launch"], true)), count: 1, ..Stack::default() };
        let captured = Stack { frames: Vec::new(), ..replayed.clone() };
        let hop = Stack { captured: None, thread: Some("pt_autograd_".to_owned()), ..replayed.clone() };
        let backward = Stack { forward: Some(trail(&["aten::mul"], false)), ..hop.clone() };
        for (stack, want) in [
            (&replayed, "[graph capture] ... model launch [graph replay] replay cudaGraphLaunch"),
            (&captured, "[graph capture] ... model launch"),
            (&hop, "[thread pt_autograd_] replay cudaGraphLaunch"),
            (&backward, "[forward] aten::mul [backward on thread pt_autograd_] replay cudaGraphLaunch"),
        ] {
            assert_eq!(lines(stack).join(" "), want);
        }
    }
}
