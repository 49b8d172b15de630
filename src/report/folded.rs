//! Stacks as flame graph tools take them: `outermost;…;launch 97`, one line each.

use std::io::{self, Write};

use super::Weight;
use super::text::lines;
use crate::analysis::stacks::{Stack, StackReport};

/// Writes the stacks that weigh anything.
///
/// # Errors
/// What the writer fails with.
pub fn stacks(report: &StackReport, weight: Weight, out: &mut impl Write) -> io::Result<()> {
    for stack in report.stacks.iter().filter(|stack| weight.of(stack) > 0) {
        writeln!(out, "{} {}", line(stack), weight.of(stack))?;
    }
    Ok(())
}

/// The frames of a stack, as the text has them, with what a reader would take for something else replaced: a semicolon in a name by a
/// colon; a blank before a number at the end, behind which the weight stands, by an underscore.
pub fn line(stack: &Stack) -> String {
    let frames: Vec<String> = lines(stack).iter().map(|frame| frame.replace(';', ":")).collect();
    let line = frames.join(";");
    match line.rsplit_once(' ') {
        Some((before, number)) if number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
            format!("{before}_{number}")
        }
        _ => line,
    }
}
