//! Stacks as a flame graph that a browser shows: wide is what costs, above each frame stands what it called.

use std::io::{self, Write};

use inferno::flamegraph::{self, Options};

use super::Weight;
use super::file_name;
use super::flame::ways;
use super::folded;
use super::table::shorten;
use crate::analysis::stacks::StackReport;

/// How many characters of a trace's name fit a title.
const TITLE: usize = 80;

/// Writes the picture.
///
/// # Errors
/// What the writer fails with; that no stack weighs anything.
pub fn stacks(report: &StackReport, trace: &str, weight: Weight, out: &mut impl Write) -> io::Result<()> {
    let mut folded = Vec::new();
    folded::stacks(report, weight, &mut folded)?;
    let folded = String::from_utf8(folded).map_err(io::Error::other)?;
    if folded.is_empty() {
        return Err(io::Error::other(format!("no stack has any {}, so there is nothing to draw", weight.name())));
    }
    let mut weights = ways(report).into_iter().map(|way| weight.of(way.kernels));
    if weights.try_fold(0, u64::checked_add).is_none() {
        return Err(io::Error::other(format!("the {} of all stacks is too large a number to draw", weight.name())));
    }
    let mut options = Options::default();
    options.title = format!("Call stacks by {}", weight.name());
    options.subtitle = Some(shorten(file_name(trace), TITLE));
    options.count_name = if weight == Weight::Count { "kernels" } else { "ns" }.to_owned();
    // The same answer is the same picture: no colours by chance.
    options.deterministic = true;
    flamegraph::from_lines(&mut options, folded.lines(), &mut *out).map_err(io::Error::other)?;
    writeln!(out)
}
