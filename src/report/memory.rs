//! Allocations: devices with their peaks and the memory in use at them, for people; the call paths at the peaks as CSV.

use std::io::{self, Write};

use super::column::Column;
use super::csv::write_rows;
use super::format::{count, duration, percent, shorten_right, size, visible};
use crate::analysis::memory::device::{HeldStack, Peak};
use crate::analysis::memory::steps::StepPeak;
use crate::analysis::memory::{DeviceMemory, MemoryReport};
use crate::analysis::origin::names;
use crate::time::Ns;

/// How many steps people see.
const STEPS: usize = 20;

/// Writes devices in lines of at most `width`.
///
/// # Errors
/// Returns the writer's error.
pub fn write_text(report: &MemoryReport, width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let mut lines = vec![head(report)];
    // Ranks in separate containers may have equal process ids.
    let of: Vec<_> = report.devices.iter().map(|device| (&device.trace, device.pid)).collect();
    let several = of.iter().any(|process| *process != of[0]);
    for device in &report.devices {
        lines.push(String::new());
        device_lines(device, report, several, &mut lines);
    }
    if !report.malformed.is_empty() {
        lines.push("\nMalformed values:".to_owned());
    }
    for of in &report.malformed {
        let examples: Vec<String> = of.examples.iter().map(|text| format!("{text:?}")).collect();
        lines.push(format!("  {}: {}, such as {}", of.key, count(of.count), examples.join(", ")));
    }
    for line in lines.iter().flat_map(|line| line.split('\n')) {
        let line = visible(line);
        writeln!(out, "{}", width.map_or_else(|| line.to_string(), |width| shorten_right(&line, width)))?;
    }
    Ok(())
}

fn head(report: &MemoryReport) -> String {
    let mut text = format!("{} of memory", number(report.events, "event"));
    if report.incomplete > 0 {
        text.push_str(&format!("; {} without an address or bytes, which no sum includes", count(report.incomplete)));
    }
    text + "."
}

fn number(of: u64, what: &str) -> String {
    format!("{} {what}{}", count(of), if of == 1 { "" } else { "s" })
}

fn device_lines(device: &DeviceMemory, report: &MemoryReport, several: bool, lines: &mut Vec<String>) {
    let totals = &device.totals;
    let mut process = device.pid.filter(|_| several).map_or(String::new(), |pid| format!(" of process {pid}"));
    if let Some(trace) = device.trace.as_ref().filter(|_| several) {
        process.push_str(&format!(" in {trace}"));
    }
    lines.push(format!(
        "{}{process}: {} of {}, {} of {}; {} of {} in use at the end",
        device.name,
        number(totals.allocations, "allocation"),
        size(totals.allocated_bytes),
        number(totals.releases, "release"),
        size(totals.released_bytes),
        count(totals.alive_at_end),
        size(totals.alive_at_end_bytes),
    ));
    match (&device.peak_allocated, &device.peak_reserved) {
        (None, None) => lines.push("  The totals of the allocator are not recorded.".to_owned()),
        (allocated, reserved) => {
            lines.push(format!("  Peak of Total Allocated: {}", peak(*allocated, report)));
            lines.push(format!("  Peak of Total Reserved: {}", peak(*reserved, report)));
        }
    }
    lines.extend(doubts(device));
    held(device, lines);
    steps(&device.steps, report, lines);
}

/// `151.81 GB, 12.345 ms after the start`
fn peak(peak: Option<Peak>, report: &MemoryReport) -> String {
    peak.map_or("not recorded".to_owned(), |peak| {
        format!("{}, {} after the start", signed(peak.bytes), duration(peak.at - report.start))
    })
}

fn signed(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    format!("{sign}{}", size(bytes.unsigned_abs()))
}

/// Counts of events that contradict each other.
fn doubts(device: &DeviceMemory) -> Vec<String> {
    let totals = &device.totals;
    let mut doubts = Vec::new();
    let mut add = |number: u64, text: String| {
        if number > 0 {
            doubts.push(format!("  {}: {text}", count(number)));
        }
    };
    let bytes = size(totals.unknown_released_bytes);
    add(totals.unknown_releases, format!("releases of what was allocated before, {bytes}"));
    add(totals.other_size_releases, "releases of another size than was allocated at their address".to_owned());
    add(totals.overwritten, "allocations at an address in use, whose release is not recorded".to_owned());
    add(totals.unsteady, "events whose Total Allocated is not the total before and their bytes".to_owned());
    doubts
}

fn held(device: &DeviceMemory, lines: &mut Vec<String>) {
    let held = &device.held;
    let before = match held.before_bytes {
        Some(before) => format!(", {} were in use before the first event", signed(before)),
        None => String::new(),
    };
    lines.push(format!("  In use at the peak: {} allocated here{before}", size(held.bytes)));
    let telling: Vec<&[String]> = held.stacks.iter().map(|stack| stack.telling.as_slice()).collect();
    for (HeldStack { bytes, allocations, .. }, name) in held.stacks.iter().zip(names(&telling)) {
        // Equal headlines are followed by the frames that distinguish the stacks.
        let from = if name.is_empty() { "(no caller recorded)".to_owned() } else { name.join(" in ") };
        let share = percent(if held.bytes == 0 { 0.0 } else { *bytes as f64 / held.bytes as f64 });
        let allocations = number(*allocations, "allocation");
        lines.push(format!("    {} ({share}) in {allocations}, from {from}", size(*bytes)));
    }
    let more = held.stacks_found.saturating_sub(held.stacks.len() as u64);
    if more > 0 {
        lines.push(format!("    … and {} more stacks", count(more)));
    }
}

fn steps(steps: &[StepPeak], report: &MemoryReport, lines: &mut Vec<String>) {
    if steps.is_empty() {
        return;
    }
    lines.push("  Peaks by step:".to_owned());
    for step in steps.iter().take(STEPS) {
        let bytes = |peak: Option<Peak>| peak.map_or("?".to_owned(), |peak| signed(peak.bytes));
        let at = step.peak_allocated.map_or(step.at, |peak| peak.at) - report.start;
        lines.push(format!(
            "    {}: {} allocated, {} after the start; {} reserved; {}",
            step.name,
            bytes(step.peak_allocated),
            duration(at.max(Ns::ZERO)),
            bytes(step.peak_reserved),
            number(step.events, "event")
        ));
    }
    let more = steps.len().saturating_sub(STEPS);
    if more > 0 {
        lines.push(format!("    … and {} more steps", count(more as u64)));
    }
}

/// The trace, the process id, and the device.
type OfDevice = (String, Option<i64>, String);

const COLUMNS: &[Column<HeldStack, OfDevice>] = &[
    Column::left("trace", |_, (trace, ..)| trace.clone()),
    Column::right("pid", |_, (_, pid, _)| pid.map_or(String::new(), |pid| pid.to_string())),
    Column::left("device", |_, (.., name)| name.clone()),
    Column::right("bytes", |row, _| row.bytes.to_string()),
    Column::right("allocations", |row, _| row.allocations.to_string()),
    Column::right("largest", |row, _| row.largest.to_string()),
    Column::left("headline", |row, _| row.headline.clone().unwrap_or_default()),
    Column::left("stack", |row, _| row.frames.join(";")),
];

/// Writes the call paths that hold the most memory at the peak of each device as CSV.
///
/// # Errors
/// Returns the writer's error.
pub fn write_csv(report: &MemoryReport, out: &mut impl Write) -> io::Result<()> {
    let of = |device: &DeviceMemory| (device.trace.clone().unwrap_or_default(), device.pid, device.name.clone());
    let rows = report.devices.iter().flat_map(|device| device.held.stacks.iter().map(move |row| (row, of(device))));
    write_rows(COLUMNS.iter(), rows, out)
}
