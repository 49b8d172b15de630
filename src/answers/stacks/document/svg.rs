//! Stacks as a flame graph for a browser: a frame is as wide as its cost, and the frames that it called are above it.

use std::collections::BTreeSet;
use std::io::{self, Write};

use inferno::flamegraph::{self, Options};

use super::flame::{self, Weight};
use crate::answers::stacks::data::StackReport;
use crate::document::format::{base_name, count, shorten, shorten_right};

/// How many characters of trace names fit a title.
const TITLE: usize = 80;

/// Writes the image.
/// Errors: returns the writer's error, or an error if no stack has any weight or the sum of the weights overflows.
pub(crate) fn stacks(report: &StackReport, trace: &str, weight: Weight, out: &mut impl Write) -> io::Result<()> {
    let mut folded = Vec::new();
    flame::folded(report, weight, &mut folded)?;
    let folded = String::from_utf8(folded).map_err(io::Error::other)?;
    if folded.is_empty() {
        return Err(io::Error::other(format!("no stack has any {}, so there is nothing to draw", weight.name())));
    }
    if report.weight(weight).is_none() {
        return Err(io::Error::other(format!("the {} of all stacks is too large a number to draw", weight.name())));
    }
    let mut options = Options::default();
    options.title = format!("Call stacks by {}", weight.name());
    options.subtitle = Some(subtitle(report, trace));
    options.count_name = if weight == Weight::Count { "kernels" } else { "ns" }.to_owned();
    // Equal answers give equal images: no random colours.
    options.deterministic = true;
    flamegraph::from_lines(&mut options, folded.lines(), &mut *out).map_err(io::Error::other)?;
    writeln!(out)
}

/// The traces: their names if all of them fit a title, otherwise their number with the first and the last.
fn subtitle(report: &StackReport, trace: &str) -> String {
    let names: Vec<&str> = report.traces.iter().map(|trace| base_name(&trace.name)).collect();
    let (Some(first), Some(last), true) = (names.first(), names.last(), names.len() > 1) else {
        return shorten(base_name(trace), TITLE);
    };
    let (all, n) = (names.join(", "), count(names.len() as u64));
    // Traces in several folders can share a name.
    let are_distinct = names.iter().collect::<BTreeSet<_>>().len() == names.len();
    match are_distinct {
        true if all.chars().count() <= TITLE => all,
        true => shorten_right(&format!("{n} traces, {first} to {last}"), TITLE),
        false => shorten_right(&format!("{n} traces of {trace}"), TITLE),
    }
}
