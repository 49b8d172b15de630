//! Stacks as text, in the form that `get_call_stacks.py` made known: the outermost caller first, the launch last.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::analysis::stacks::StackReport;

/// Stands for callers that were cut off.
const CUT: &str = "...";

/// Writes the stacks.
///
/// # Errors
/// What the writer fails with.
pub fn stacks(report: &StackReport, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "Found {} unique call stacks:", report.stacks.len())?;
    for stack in &report.stacks {
        writeln!(out)?;
        if stack.cut {
            writeln!(out, "{CUT}\n ->")?;
        }
        let frames: Vec<_> = stack.frames.iter().map(|frame| visible(frame)).collect();
        writeln!(out, "{}", frames.join("\n ->\n"))?;
        writeln!(out, "Appeared {} times", stack.count)?;
    }
    Ok(())
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
    use crate::analysis::stacks::Stack;

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
}
