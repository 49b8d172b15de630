//! Stacks in the format of flame graph tools: `outermost;…;launch;kernel 97`, one line each.

use std::borrow::Cow;
use std::io::{self, Write};

use super::flame::{Sample, samples};
use crate::answers::stacks::data::StackReport;
use crate::answers::stacks::weight::Weight;
use crate::attribution::stack_key::StackKey;
use crate::document::frames::lines;

/// Writes the samples whose weight is not zero.
pub(crate) fn stacks(report: &StackReport, weight: Weight, out: &mut impl Write) -> io::Result<()> {
    for Sample { frames, kernels } in samples(report) {
        match weight.measure(kernels) {
            0 => {}
            weight => writeln!(out, "{} {weight}", joined(&frames))?,
        }
    }
    Ok(())
}

/// The frames of a stack as one line.
pub(crate) fn line(key: &StackKey) -> String {
    joined(&lines(key))
}

/// Frames as one line, with the characters that readers would misread replaced: a semicolon in a name by a colon, and the blank before
/// a trailing number, which would be read as the weight, by an underscore.
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
