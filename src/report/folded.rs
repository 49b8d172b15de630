//! Stacks as flame graph tools take them: `outermost;…;launch;kernel 97`, one line each.

use std::borrow::Cow;
use std::io::{self, Write};

use super::Weight;
use super::flame::{Way, ways};
use super::text::lines;
use crate::analysis::stack_key::StackKey;
use crate::analysis::stacks::StackReport;

/// Writes what weighs anything.
///
/// # Errors
/// What the writer fails with.
pub fn stacks(report: &StackReport, weight: Weight, out: &mut impl Write) -> io::Result<()> {
    for Way { frames, kernels } in ways(report) {
        match weight.of(kernels) {
            0 => {}
            weight => writeln!(out, "{} {weight}", joined(&frames))?,
        }
    }
    Ok(())
}

/// The frames of a stack as one text.
pub fn line(key: &StackKey) -> String {
    joined(&lines(key))
}

/// Frames, as the text has them, with what a reader would take for something else replaced: a semicolon in a name by a colon; a
/// blank before a number at the end, behind which the weight stands, by an underscore.
fn joined(frames: &[Cow<'_, str>]) -> String {
    let frames: Vec<String> = frames.iter().map(|frame| frame.replace(';', ":")).collect();
    let line = frames.join(";");
    match line.rsplit_once(' ') {
        Some((before, number)) if number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
            format!("{before}_{number}")
        }
        _ => line,
    }
}
