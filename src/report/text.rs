//! Stacks as text, in the form that `get_call_stacks.py` made known: the outermost caller first, the launch last.

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
        writeln!(out, "{}", stack.frames.join("\n ->\n"))?;
        writeln!(out, "Appeared {} times", stack.count)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::stacks::Stack;

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
