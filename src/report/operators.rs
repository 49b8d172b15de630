//! Findings in the arguments of operators: sections for people, the operators with several shapes as CSV.

use std::io::{self, Write};

use super::column::Column;
use super::csv::write_rows;
use super::format::{count, duration, grouped, percent, shorten_right, visible};
use crate::analysis::operators::counters::CounterRow;
use crate::analysis::operators::layouts::LayoutRow;
use crate::analysis::operators::scalars::ScalarRow;
use crate::analysis::operators::shapes::{Dimension, ShapeRow, ShapeSums, Varies};
use crate::analysis::operators::{OperatorReport, Place};
use crate::time::Ns;

/// The advice on a missing key.
const SEE: &str = "`nccl-stacks describe` says what to turn on";

/// Writes lines of at most `width`.
struct Lines<'a, W> {
    out: &'a mut W,
    width: Option<usize>,
}

impl<W: Write> Lines<'_, W> {
    fn line(&mut self, text: &str) -> io::Result<()> {
        let text = visible(text);
        let text = self.width.map_or_else(|| text.to_string(), |width| shorten_right(&text, width));
        writeln!(self.out, "{text}")
    }

    /// Writes a section's title, with `none` if it has no rows, or a single line if `key` was not recorded. Returns whether rows follow.
    fn title(&mut self, title: &str, key: &str, has: u64, of: u64, rows: u64, none: &str) -> io::Result<bool> {
        writeln!(self.out)?;
        if has == 0 {
            self.line(&format!("{title}: {key} is not recorded on any of {} operators; {SEE}.", count(of)))?;
            return Ok(false);
        }
        let recorded = format!("{key} on {} of {} operators", count(has), count(of));
        let end = if rows == 0 { none } else { ":" };
        self.line(&format!("{title} ({recorded}){end}"))?;
        Ok(rows > 0)
    }

    fn more(&mut self, shown: usize, found: u64, what: &str) -> io::Result<()> {
        let more = found.saturating_sub(shown as u64);
        if more > 0 { self.line(&format!("  … and {} more {what}", count(more))) } else { Ok(()) }
    }
}

/// Writes all sections in lines of at most `width`.
///
/// # Errors
/// Returns the writer's error.
pub fn write_text(report: &OperatorReport, width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let lines = &mut Lines { out, width };
    let mut head = format!("{} operators; {} kernels", count(report.operators), count(report.kernels));
    if report.kernels > 0 {
        head.push_str(&format!(
            " of {}, {} of them ({} of the time) below an operator with recorded arguments",
            duration(report.gpu),
            count(report.kernels_below),
            percent(report.gpu_below.share_of(report.gpu).unwrap_or(0.0)),
        ));
    }
    lines.line(&format!("{head}."))?;
    shapes(report, lines)?;
    layouts(report, lines)?;
    scalars(report, lines)?;
    counters(report, lines)?;
    malformed(report, lines)
}

fn calls_of(calls: u64) -> String {
    if calls == 1 { "1 call".to_owned() } else { format!("{} calls", count(calls)) }
}

fn has(report: &OperatorReport, key: &str) -> u64 {
    report.operators_with.iter().find(|of| of.key == key).map_or(0, |of| of.operators)
}

/// `412.100 ms of GPU time (33.4 %)`
fn cost(gpu: Ns, report: &OperatorReport) -> String {
    match gpu.share_of(report.gpu).filter(|_| report.gpu_below > Ns::ZERO) {
        Some(share) => format!("{} on GPUs ({})", duration(gpu), percent(share)),
        None => "no kernel".to_owned(),
    }
}

fn place(place: &Place) -> String {
    let headline = place.headline.as_deref().unwrap_or("(no caller recorded)");
    match place.stacks {
        0 | 1 => format!("      from {headline}"),
        2 => format!("      from {headline}, and 1 other stack"),
        more => format!("      from {headline}, and {} other stacks", count(more - 1)),
    }
}

fn shapes<W: Write>(report: &OperatorReport, lines: &mut Lines<'_, W>) -> io::Result<()> {
    let (key, found) = ("Input Dims", report.shapes_found);
    let none = ": no operator with kernels has more than one.";
    if !lines.title("Different shapes", key, has(report, key), report.operators, found, none)? {
        return Ok(());
    }
    for row in &report.shapes {
        let (shapes, calls, cost) = (count(row.shapes), calls_of(row.calls), cost(row.gpu, report));
        lines.line(&format!("  {}: {shapes} shapes in {calls}, {cost}", row.operator))?;
        lines.line(&place(&row.place))?;
        if let Some(varies) = row.varies.as_ref() {
            lines.line(&format!("      {}", variation(varies)))?;
        }
        lines.line(&format!("      most calls: {}", shape(&row.most_frequent, report)))?;
        if row.most_costly.gpu > Ns::ZERO && row.most_costly != row.most_frequent {
            lines.line(&format!("      most GPU time: {}", shape(&row.most_costly, report)))?;
        }
    }
    lines.more(report.shapes.len(), found, "operators")
}

fn shape(shape: &ShapeSums, report: &OperatorReport) -> String {
    // Without types, an input without sizes may also be a tensor without dimensions.
    let tensors = match (shape.tensors.as_str(), shape.input_types.as_str()) {
        ("", "") => "no sizes",
        ("", _) => "no tensor",
        (tensors, _) => tensors,
    };
    format!("{} × {tensors}: {}", count(shape.calls), cost(shape.gpu, report))
}

fn variation(varies: &Varies) -> String {
    let (Some(from), Some(to)) = (varies.from, varies.to) else {
        return match varies.sizes {
            0 => "the same sizes, but other types or inputs".to_owned(),
            sizes => format!("{sizes} sizes vary"),
        };
    };
    let at: Vec<String> = varies.at.iter().map(dimension).collect();
    format!("only one size varies, from {} to {}: {}", signed(from), signed(to), at.join(" = "))
}

fn signed(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", count(number.unsigned_abs()))
}

fn dimension(at: &Dimension) -> String {
    let tensor = at.tensor.map_or(String::new(), |tensor| format!(" tensor {tensor}"));
    format!("input {}{tensor} dimension {}", at.input, at.dimension)
}

fn layouts<W: Write>(report: &OperatorReport, lines: &mut Lines<'_, W>) -> io::Result<()> {
    let (key, found) = ("Input Strides", report.layouts_found);
    let none = ": all inputs of operators with kernels are contiguous.";
    if !lines.title("Inputs that are not contiguous", key, has(report, key), report.operators, found, none)? {
        return Ok(());
    }
    for row in &report.layouts {
        let LayoutRow { operator, inputs, layout, dims, strides, gpu, .. } = row;
        let inputs: Vec<String> = inputs.iter().map(u32::to_string).collect();
        lines.line(&format!(
            "  {operator}: input {} {dims:?}, strides {strides:?} ({}), {}, {}",
            inputs.join(", "),
            layout.name(),
            calls_of(row.calls),
            cost(*gpu, report)
        ))?;
        lines.line(&place(&row.place))?;
    }
    lines.more(report.layouts.len(), found, "inputs")?;
    let channels = report.channels_last;
    if channels.calls > 0 {
        let text = format!("{} with channels-last inputs, {}", calls_of(channels.calls), cost(channels.gpu, report));
        lines.line(&format!("  Not counted: {text}."))?;
    }
    Ok(())
}

fn scalars<W: Write>(report: &OperatorReport, lines: &mut Lines<'_, W>) -> io::Result<()> {
    let (key, found) = ("Concrete Inputs", report.scalars_found);
    let none = ": no scalar of an operator with kernels differs between calls from one stack.";
    if !lines.title("Scalars that differ at one stack", key, has(report, key), report.operators, found, none)? {
        return Ok(());
    }
    for row in &report.scalars {
        let ScalarRow { operator, input, values, gpu, .. } = row;
        let range = match (row.min, row.max) {
            (Some(min), Some(max)) => format!("{min} to {max}"),
            _ => format!("such as {}", row.examples.join(", ")),
        };
        let (values, calls, cost) = (count(*values), calls_of(row.calls), cost(*gpu, report));
        lines.line(&format!("  {operator}: input {input}, {values} values, {range}, in {calls}, {cost}"))?;
        lines.line(&place(&row.place))?;
    }
    lines.more(report.scalars.len(), found, "inputs")
}

fn counters<W: Write>(report: &OperatorReport, lines: &mut Lines<'_, W>) -> io::Result<()> {
    let (rows, none) = (report.counter_operators_found, ".");
    if !lines.title("Hardware counters", "a counter", report.counted, report.operators, rows, none)? {
        return Ok(());
    }
    for row in &report.counters.operators {
        lines.line(&format!("  {}", counted(row)))?;
    }
    lines.more(report.counters.operators.len(), rows, "operators")?;
    if !report.counters.modules.is_empty() {
        lines.line("  By module:")?;
        for row in &report.counters.modules {
            lines.line(&format!("  {}", counted(row)))?;
        }
        lines.more(report.counters.modules.len(), report.counter_modules_found, "modules")?;
    }
    Ok(())
}

fn counted(row: &CounterRow) -> String {
    let mut text = format!("{}: {}", row.name, calls_of(row.calls));
    let ratios = [
        (row.ipc, "instructions per cycle", 2, 1.0),
        (row.cache_miss_rate, "% cache misses", 1, 100.0),
        (row.branch_misses_per_1000_instructions, "branch misses per 1,000 instructions", 2, 1.0),
    ];
    for (ratio, name, decimals, factor) in ratios {
        if let Some(ratio) = ratio {
            text.push_str(&format!(", {} {name}", grouped(ratio * factor, decimals)));
        }
    }
    for of in &row.sums {
        text.push_str(&format!(", {} {}", of.counter, grouped(of.sum, 0)));
    }
    text
}

fn malformed<W: Write>(report: &OperatorReport, lines: &mut Lines<'_, W>) -> io::Result<()> {
    if report.malformed.is_empty() {
        return Ok(());
    }
    writeln!(lines.out)?;
    lines.line("Malformed values, which are in no row above:")?;
    for row in &report.malformed {
        let examples: Vec<String> = row.examples.iter().map(|text| format!("{text:?}")).collect();
        lines.line(&format!("  {}: {}, such as {}", row.key, count(row.count), examples.join(", ")))?;
    }
    Ok(())
}

const COLUMNS: &[Column<ShapeRow>] = &[
    Column::left("operator", |row, ()| row.operator.clone()),
    Column::right("calls", |row, ()| row.calls.to_string()),
    Column::right("shapes", |row, ()| row.shapes.to_string()),
    Column::right("gpu_ns", |row, ()| row.gpu.to_string()),
    Column::left("most_frequent_dims", |row, ()| row.most_frequent.input_dims.clone()),
    Column::left("most_frequent_types", |row, ()| row.most_frequent.input_types.clone()),
    Column::right("most_frequent_calls", |row, ()| row.most_frequent.calls.to_string()),
    Column::right("most_frequent_gpu_ns", |row, ()| row.most_frequent.gpu.to_string()),
    Column::left("most_costly_dims", |row, ()| row.most_costly.input_dims.clone()),
    Column::left("most_costly_types", |row, ()| row.most_costly.input_types.clone()),
    Column::right("most_costly_calls", |row, ()| row.most_costly.calls.to_string()),
    Column::right("most_costly_gpu_ns", |row, ()| row.most_costly.gpu.to_string()),
    Column::left("headline", |row, ()| row.place.headline.clone().unwrap_or_default()),
    Column::right("stacks", |row, ()| row.place.stacks.to_string()),
    Column::left("stack", |row, ()| row.place.frames.join(";")),
];

/// Writes the operators with several shapes as CSV.
///
/// # Errors
/// Returns the writer's error.
pub fn write_csv(report: &OperatorReport, out: &mut impl Write) -> io::Result<()> {
    write_rows(COLUMNS.iter(), report.shapes.iter().map(|row| (row, ())), out)
}
