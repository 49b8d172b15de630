//! Groups of kernels: a tree for people, a table with one row each, and rows for spreadsheets.

use std::io::{self, Write};

use crate::analysis::cost::Totals;
use crate::analysis::grouping::tree::Branch;
use crate::analysis::grouping::{Grouped, GroupedKernels};
use crate::analysis::step_costs::StepCost;
use crate::report::Screen;
use crate::report::column::{Align, Cell, Column, Table};
use crate::report::format::{count, duration, kernels, percent, percent_or_unknown, shorten_right, values_of, visible};
use crate::report::frames::shorten_frame;
use crate::report::sheet::Sheet;
use crate::time::Ns;

/// The numbers of a branch; the context is the GPU time of all groups.
const TREE: &[Column<Branch, Ns>] = &[
    Column::right("count", |row, _| count(row.totals.count)),
    Column::right("GPU time", |row, _| duration(row.totals.gpu_time_ns)),
    Column::right("share", |row, all| share(row.totals, *all)),
    Column::right("exposed", |row, _| duration(row.totals.exposed_ns)),
    Column::right("critical", |row, _| row.totals.critical.map_or(String::new(), duration)),
    Column::dropped(0, Align::Right, "mean", |row, _| duration(Ns::rounded(row.totals.mean()))),
];

/// The columns of groups; the context is the row number. For spreadsheets they follow a column for each key.
const COLUMNS: &[Column<GroupedKernels, usize>] = &[
    Column::number("", "#", |_, number| Cell::Text(number.to_string())),
    Column::number("count", "count", |group, _| Cell::Count(group.count)),
    Column::number("attributed", "", |group, _| Cell::Count(group.attributed)),
    Column::number("gpu_time_ns", "GPU time", |group, _| Cell::Time(group.cost.gpu_time.total_ns)),
    Column::number("share_of_groups", "share", |group, _| Cell::Share(group.share_of_groups)),
    Column::number_at(4, "share_of_window", "of window", |group, _| {
        Cell::known(group.cost.share_of_window, Cell::Share)
    }),
    Column::number_at(5, "exposed_ns", "exposed", |group, _| Cell::Time(group.cost.exposed_ns)),
    Column::number_at(6, "critical_ns", "critical", |group, _| group.cost.critical_ns.map_or(Cell::Empty, Cell::Time)),
    Column::number_at(3, "mean_ns", "mean", |group, _| Cell::Nanos(group.cost.gpu_time.mean_ns)),
    Column::number("median_ns", "", |group, _| Cell::Nanos(group.cost.gpu_time.median_ns)),
    Column::number("p95_ns", "", |group, _| Cell::Time(group.cost.gpu_time.p95_ns)),
    Column::number("min_ns", "", |group, _| Cell::Time(group.cost.gpu_time.min_ns)),
    Column::number_at(1, "max_ns", "max", |group, _| Cell::Time(group.cost.gpu_time.max_ns)),
    Column::words_at(2, "collectives", "collective", |group, _| Cell::Text(collectives(group))),
];

/// The columns of a group that is a step, after [`COLUMNS`] for spreadsheets, and in their place for people.
const STEPS: &[Column<StepCost>] = &[
    Column::number("step_number", "step", |step, ()| Cell::Text(step.number.to_string())),
    Column::number("step_ts_ns", "", |step, ()| Cell::Time(step.ts_ns)),
    Column::number_at(4, "step_dur_ns", "length", |step, ()| Cell::Time(step.dur_ns)),
    Column::number("step_gpus", "", |step, ()| Cell::Count(step.gpus)),
    Column::number_at(2, "step_gpu_span_ns", "GPU span", |step, ()| Cell::Time(step.gpu_span_ns)),
    Column::number_at(0, "step_busy_ns", "GPU busy", |step, ()| of_span(step, step.busy_ns)),
    Column::number_at(1, "step_compute_ns", "compute", |step, ()| of_span(step, step.compute_ns)),
    Column::number_at(3, "step_collectives_ns", "collectives", |step, ()| of_span(step, step.collectives_ns)),
    Column::number("step_exposed_ns", "exposed", |step, ()| {
        let share = percent_or_unknown(step.share(step.exposed_ns));
        Cell::Both(format!("{} ({share})", duration(step.exposed_ns)), step.exposed_ns.to_string())
    }),
    Column::words("step_largest_stack", "", |step, ()| {
        step.largest_stack.as_ref().map_or(Cell::Empty, |stack| Cell::Text(stack.headline.clone()))
    }),
];

/// A time as people see it, as a share of the step's GPU span.
fn of_span(step: &StepCost, time: Ns) -> Cell {
    Cell::Both(percent_or_unknown(step.share(time)), time.to_string())
}

/// The least width of the column with each step's stack.
const LEAST_STACK: usize = 24;

/// The least width of the column of keys.
const LEAST: usize = 30;

/// Writes the groups as a tree, in lines that fit the screen, and their totals.
pub(super) fn text(groups: &Grouped, screen: &Screen, out: &mut impl Write) -> io::Result<()> {
    if groups.are_steps() {
        return steps(groups, screen, out);
    }
    let (all, mut rows) = (groups.totals(), groups.tree());
    let shown = groups.groups.iter().map(|group| group.count).sum::<u64>();
    if shown < all.count {
        let hidden = groups.left_out();
        rows.push(Branch::leaf(format!("({} more groups)", count(hidden.groups)), hidden.totals));
    }
    rows.push(Branch::leaf("all".to_owned(), all));
    let mut table = Table::from_rows(TREE, rows.iter().map(|row| (row, all.gpu_time_ns)));
    table.drop_empty();
    table.drop_to(screen.width.map_or(usize::MAX, |width| width.saturating_sub(LEAST)));
    let room = screen.room(table.width() + 2).max(LEAST);
    let label = |row: &Branch| shorten_right(&format!("{}{}", "  ".repeat(row.depth), visible(&row.label)), room);
    table.push("", rows.iter().map(label).collect());
    let by: Vec<_> = groups.grouped_by.iter().map(|by| visible(by)).collect();
    writeln!(out, "{}", screen.accent(&format!("By {}", by.join(", then "))))?;
    out.write_all(table.text().as_bytes())
}

/// Writes steps in order of time, then the kernels outside of all steps.
fn steps(groups: &Grouped, screen: &Screen, out: &mut impl Write) -> io::Result<()> {
    let (costs, others): (Vec<&GroupedKernels>, Vec<&GroupedKernels>) =
        groups.groups.iter().partition(|group| group.step.is_some());
    let gpus = costs.iter().filter_map(|group| group.step.as_ref()).map(|step| step.gpus).max().unwrap_or(0);
    let summed = if gpus > 1 { format!(", summed over {gpus} GPUs") } else { String::new() };
    let heading = format!("By step; times are of the GPU span of what was launched in it{summed}");
    if !costs.is_empty() {
        writeln!(out, "{}", screen.accent(&screen.fill(&heading)))?;
        out.write_all(step_table(&costs, screen.width).text().as_bytes())?;
    }
    let sum = |of: &mut dyn Iterator<Item = &GroupedKernels>| {
        of.fold(Totals::default(), |mut sum, group| {
            sum.add(group.totals());
            sum
        })
    };
    let hidden = (groups.hidden.len(), sum(&mut groups.hidden.iter()));
    let more = (hidden.0 > 0).then(|| (format!("{} more steps", count(hidden.0 as u64)), hidden.1));
    let outside = (!others.is_empty()).then(|| ("In no step".to_owned(), sum(&mut others.into_iter())));
    for (what, totals) in more.into_iter().chain(outside).chain([("All".to_owned(), groups.totals())]) {
        let (gpu_time, exposed) = (duration(totals.gpu_time_ns), duration(totals.exposed_ns));
        writeln!(out, "{what}: {}, GPU {gpu_time}, exposed {exposed}", kernels(totals.count))?;
    }
    Ok(())
}

/// A row for each step: its numbers, its name, and the stack with the most exposed time.
fn step_table(groups: &[&GroupedKernels], width: Option<usize>) -> Table {
    let mut table = Table::from_rows(STEPS, groups.iter().filter_map(|group| Some((group.step.as_ref()?, ()))));
    let width = width.unwrap_or(usize::MAX);
    let names: Vec<String> = groups.iter().map(|group| shorten_right(&visible(&group.label()), LEAST)).collect();
    let of_names = names.iter().map(|name| name.chars().count() + 2).max().unwrap_or(0);
    table.drop_to(width.saturating_sub(of_names + LEAST_STACK + 2));
    table.push("name", names);
    let room = width.saturating_sub(table.width() + 2).max(LEAST_STACK);
    table.push("largest stack", groups.iter().map(|group| largest_stack(group, room)).collect());
    table
}

/// The tables of a page: the groups, after the steps if the groups are steps.
pub(super) fn sheets(groups: &Grouped, names: impl Iterator<Item = String>) -> Vec<(&'static str, Sheet)> {
    let rows = names.zip(&groups.groups).zip(1..).map(|((name, group), number)| (name, group, number));
    let all = ("stacks", Sheet::named("Groups", "from", COLUMNS, rows));
    if !groups.are_steps() {
        return vec![all];
    }
    let steps = || groups.groups.iter().filter_map(|group| Some((group, group.step.as_ref()?)));
    let sheet = steps_sheet(steps().map(|(group, step)| (group.label(), step)));
    vec![("steps", sheet.with("largest stack", steps().map(|(group, _)| largest_stack(group, usize::MAX)))), all]
}

/// The table of steps of a page, by their names.
pub(super) fn steps_sheet<'s>(steps: impl Iterator<Item = (String, &'s StepCost)>) -> Sheet {
    Sheet::named("Steps", "name", STEPS, steps.map(|(name, step)| (name, step, ())))
}

/// `model.py(50): backward (92.1 %)`, with its share of the exposed time of the step's selected kernels.
fn largest_stack(group: &GroupedKernels, room: usize) -> String {
    let Some(stack) = group.step.as_ref().and_then(|step| step.largest_stack.as_ref()) else { return "-".to_owned() };
    let share = stack.totals.exposed_ns.share_of(group.cost.exposed_ns);
    let share = share.map_or_else(String::new, |of| format!(" ({})", percent(of)));
    format!("{}{share}", shorten_frame(&visible(&stack.headline), room.saturating_sub(share.chars().count())))
}

/// Writes the groups as a table, one row each.
pub(super) fn table(groups: &Grouped, width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    if groups.are_steps() {
        let steps: Vec<&GroupedKernels> = groups.groups.iter().filter(|group| group.step.is_some()).collect();
        return out.write_all(step_table(&steps, width).text().as_bytes());
    }
    let mut table = Table::from_rows(COLUMNS, groups.groups.iter().zip(1..));
    table.drop_empty();
    let width = width.unwrap_or(usize::MAX);
    table.drop_to(width.saturating_sub(LEAST));
    let room = width.saturating_sub(table.width() + 2).max(LEAST);
    let label = |group: &GroupedKernels| shorten_right(&visible(&group.label()), room);
    table.push("group", groups.groups.iter().map(label).collect());
    out.write_all(table.text().as_bytes())
}

/// Writes the groups, one row each: a column for each key, then numbers without units.
pub(super) fn csv(groups: &Grouped, out: &mut impl Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    let of_steps = if groups.grouped_by.iter().any(|key| key == "step") { STEPS } else { &[] };
    let headers = COLUMNS.iter().filter_map(Column::name).chain(of_steps.iter().filter_map(Column::name));
    writer
        .write_record(groups.grouped_by.iter().map(String::as_str).chain(headers.map(|header| -> &str { header })))?;
    for group in &groups.groups {
        let key = group.key.iter().map(|(_, value)| value.text());
        let of_step = |column: &Column<StepCost>| {
            group.step.as_ref().map_or_else(String::new, |step| column.cell(step, &()).plain())
        };
        let numbers = COLUMNS.iter().filter(|column| column.name().is_some());
        let numbers = numbers.map(|column| column.cell(group, &0).plain());
        writer.write_record(key.chain(numbers).chain(of_steps.iter().map(of_step)))?;
    }
    writer.flush()
}

/// The collectives of a group; empty if none of its kernels is one.
fn collectives(group: &GroupedKernels) -> String {
    let found = &group.messages.collectives;
    if found.is_empty() { String::new() } else { values_of(found, group.count) }
}

fn share(totals: Totals, all: Ns) -> String {
    percent_or_unknown(totals.gpu_time_ns.share_of(all))
}
