//! Stacks as a flame graph for a browser: a frame is as wide as its cost, and the frames that it called are above it.

use std::io::{self, Write};

use inferno::flamegraph::{self, Options};

use super::folded;
use super::format::{base_name, shorten, weight_name};
use crate::analysis::stacks::StackReport;
use crate::analysis::weight::Weight;

/// How many characters of a trace's name fit a title.
const TITLE: usize = 80;

/// Writes the picture.
///
/// # Errors
/// What the writer fails with; no stack with a weight; a sum of weights that does not fit.
pub fn stacks(report: &StackReport, trace: &str, weight: Weight, out: &mut impl Write) -> io::Result<()> {
    let mut folded = Vec::new();
    folded::stacks(report, weight, &mut folded)?;
    let folded = String::from_utf8(folded).map_err(io::Error::other)?;
    if folded.is_empty() {
        return Err(io::Error::other(format!("no stack has any {}, so there is nothing to draw", weight_name(weight))));
    }
    if report.weight(weight).is_none() {
        return Err(io::Error::other(format!(
            "the {} of all stacks is too large a number to draw",
            weight_name(weight)
        )));
    }
    let mut options = Options::default();
    options.title = format!("Call stacks by {}", weight_name(weight));
    options.subtitle = Some(shorten(base_name(trace), TITLE));
    options.count_name = if weight == Weight::Count { "kernels" } else { "ns" }.to_owned();
    // The same answer is the same picture: no random colours.
    options.deterministic = true;
    flamegraph::from_lines(&mut options, folded.lines(), &mut *out).map_err(io::Error::other)?;
    writeln!(out)
}
