//! The stacks of a diff as text, each with its frames.

use std::io::{self, Write};

use super::measure::{change, fate, suffix, value};
use crate::answers::cost::Order;
use crate::answers::diff::Diff;
use crate::answers::diff::delta::{Per, SideTotals};
use crate::document::frames::lines;

/// The measures below a stack, besides its count.
const MEASURES: &[(&str, Order)] =
    &[("Count", Order::Count), ("GPU time", Order::GpuTime), ("Exposed", Order::Exposed), ("Mean", Order::Mean)];

/// Writes the stacks.
pub(crate) fn write(diff: &Diff, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "Found {} call stacks that changed:", diff.changed)?;
    for stack in &diff.changes {
        writeln!(out, "\n{}", lines(&stack.key).join("\n ->\n"))?;
        let fate = fate(stack).map_or(String::new(), |fate| format!(" ({fate})"));
        let times = |side: Option<SideTotals>| side.unwrap_or_default().totals.count;
        writeln!(out, "Appeared {} times before, {} times after{fate}", times(stack.before), times(stack.after))?;
        for (label, measure) in MEASURES {
            if (*measure, diff.per) == (Order::Count, Per::Total) {
                continue;
            }
            let per = if *measure == Order::Mean { "" } else { suffix(diff.per) };
            let (before, after) = (value(stack.before, *measure), value(stack.after, *measure));
            let change = change(stack, *measure).map_or(String::new(), |change| format!(", {change}"));
            writeln!(out, "  {label}{per}: {before} before, {after} after{change}")?;
        }
    }
    Ok(())
}
