//! Stacks as flame graph tools take them: `outermost;…;launch 97`, one line each.

use std::io::{self, Write};

use super::Weight;
use super::text::lines;
use crate::analysis::shape::Shape;
use crate::analysis::stacks::StackReport;

/// Writes the stacks that weigh anything.
///
/// # Errors
/// What the writer fails with.
pub fn stacks(report: &StackReport, weight: Weight, out: &mut impl Write) -> io::Result<()> {
    for stack in report.stacks.iter().filter(|stack| weight.of(stack) > 0) {
        writeln!(out, "{} {}", line(&stack.shape), weight.of(stack))?;
    }
    Ok(())
}

/// The frames of a stack, as the text has them. What separates frames here can be part of a name there, and becomes a colon.
pub fn line(shape: &Shape) -> String {
    let frames: Vec<String> = lines(shape).iter().map(|frame| frame.replace(';', ":")).collect();
    frames.join(";")
}
