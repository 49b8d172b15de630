//! Stacks as text, in the form that `get_call_stacks.py` made known: the outermost caller first, the launch last.

use std::io::{self, Write};

use super::format::{count, duration, kernel_names, percent, process_group, size, values};
use super::frames::lines;
use crate::analysis::collective_info::{Bandwidth, Bytes, CollectiveInfo};
use crate::analysis::cost::{Cost, Distribution};
use crate::analysis::stacks::{Stack, StackReport};
use crate::time::Ns;

/// Writes the stacks.
///
/// # Errors
/// What the writer fails with.
pub(super) fn stacks(report: &StackReport, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "Found {} unique call stacks:", report.stacks_found)?;
    for stack in &report.stacks {
        writeln!(out, "\n{}", lines(&stack.key).join("\n ->\n"))?;
        writeln!(out, "Appeared {} times", stack.count)?;
        cost(stack, out)?;
        collective(stack, out)?;
        writeln!(out, "  Kernels: {}", kernel_names(stack))?;
    }
    Ok(())
}

/// The lines on a stack's cost.
fn cost(stack: &Stack, out: &mut impl Write) -> io::Result<()> {
    let Cost { gpu_time, share, exposed, overlapped, queue_delay, .. } = &stack.cost;
    let mean = |distribution: &Distribution| duration(Ns::rounded(distribution.mean));
    let median = |distribution: &Distribution| duration(Ns::rounded(distribution.median));
    let share = share.map_or(String::new(), |share| format!(", {} of the window", percent(share)));
    write!(out, "  GPU time {}{share}", duration(gpu_time.total))?;
    if stack.count > 1 {
        write!(out, ": mean {}, median {}, p95 {}", mean(gpu_time), median(gpu_time), duration(gpu_time.p95))?;
        write!(out, ", min {}, max {}", duration(gpu_time.min), duration(gpu_time.max))?;
    }
    writeln!(out)?;
    let of_it = stack.cost.exposed_share().map_or(String::new(), |share| format!(" ({})", percent(share)));
    write!(out, "  Exposed {}{of_it}, overlapped {}", duration(*exposed), duration(*overlapped))?;
    match queue_delay {
        Some(delay) => writeln!(out, "; launch to start: median {}, p95 {}", median(delay), duration(delay.p95)),
        None => writeln!(out),
    }
}

/// The lines on what the collectives of a stack move, as far as it is known.
fn collective(stack: &Stack, out: &mut impl Write) -> io::Result<()> {
    let CollectiveInfo { collectives, algorithms, protocols, dtypes, groups, bytes, bandwidth, .. } = &stack.collective;
    if collectives.is_empty() && algorithms.is_empty() {
        return Ok(());
    }
    let mut parts = vec![values(collectives, stack)];
    parts.push(bytes.map_or("size unknown".to_owned(), |bytes| sizes(stack, bytes)));
    if !dtypes.is_empty() {
        parts.push(values(dtypes, stack));
    }
    for (what, found) in [("algorithm", algorithms), ("protocol", protocols)] {
        if !found.is_empty() {
            parts.push(format!("{what} {}", values(found, stack)));
        }
    }
    writeln!(out, "  Collective: {}", parts.join(", "))?;
    for group in groups {
        writeln!(out, "  Process group: {}", process_group(group, stack.count))?;
    }
    if let Some(Bandwidth { algorithm, bus, best_bus, kernels, .. }) = bandwidth {
        let of = match *kernels {
            n if n == stack.count => String::new(),
            1 => ", of 1 kernel".to_owned(),
            n => format!(", of {} kernels", count(n)),
        };
        writeln!(out, "  Bandwidth: algbw {algorithm:.2} GB/s, busbw {bus:.2} GB/s, at best {best_bus:.2} GB/s{of}")?;
    }
    Ok(())
}

/// `1.84 MB to 8.39 MB each (unknown ×2)`
fn sizes(stack: &Stack, bytes: Bytes) -> String {
    let from = if bytes.min == bytes.max { String::new() } else { format!("{} to ", size(bytes.min)) };
    let unknown = match stack.unknown(std::iter::once(bytes.kernels)) {
        0 => String::new(),
        unknown => format!(" (unknown ×{})", count(unknown)),
    };
    format!("{from}{} each{unknown}", size(bytes.max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::stack_key::StackKey;

    #[test]
    fn the_form_that_scripts_read() {
        let stack = |frames: &[&str], truncated, count| Stack {
            key: StackKey {
                frames: frames.iter().map(|f| (*f).to_owned()).collect(),
                truncated,
                ..StackKey::default()
            },
            count,
            ..Stack::default()
        };
        let stacks_found =
            vec![stack(&["function_a", "function_b", "ncclLaunchKernel"], false, 15), stack(&["b"], true, 1)];
        let report = StackReport { stacks: stacks_found, stacks_found: 2, ..StackReport::default() };
        let mut out = Vec::new();
        stacks(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let without_cost: Vec<&str> = text.lines().filter(|line| !line.starts_with("  ")).collect();
        let want = "Found 2 unique call stacks:\n\nfunction_a\n ->\nfunction_b\n ->\nncclLaunchKernel\nAppeared 15 times\n\
                    \n...\n ->\nb\nAppeared 1 times";
        assert_eq!(without_cost.join("\n"), want);
    }
}
