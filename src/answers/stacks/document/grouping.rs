//! Groups of kernels: a tree for people, a table with one row each, and rows for spreadsheets.

use std::io::{self, Write};

use crate::answers::cost::Totals;
use crate::answers::stacks::grouping::tree::Branch;
use crate::answers::stacks::grouping::{Grouped, GroupedKernels};
use crate::answers::stacks::step_costs::StepCost;
use crate::document::Screen;
use crate::document::format::{count, duration, kernels, percent, percent_or_unknown, values_of, visible};
use crate::document::table::{Cell, Column, Table, name, number, words};
use crate::time::Ns;

/// The numbers of a branch; the context is the GPU time of all groups.
const TREE: &[Column<Branch, Ns>] = &[
    number("", "count").read(|row, _| Cell::Count(row.totals.count)),
    number("", "GPU time").read(|row, _| Cell::Time(row.totals.gpu_time_ns)),
    number("", "share").read(|row, all| Cell::known(row.totals.gpu_time_ns.share_of(*all), Cell::Share)),
    number("", "exposed").read(|row, _| Cell::Time(row.totals.exposed_ns)),
    number("", "critical").read(|row, _| Cell::some(row.totals.critical, Cell::Time)),
    number("", "mean").dropped(0).read(|row, _| Cell::Nanos(row.totals.mean())),
    name("").read(|row, _| Cell::Text(format!("{}{}", "  ".repeat(row.depth), visible(&row.label)))),
];

/// The columns of groups; the context is the row number. For spreadsheets they follow a column for each key.
const COLUMNS: &[Column<GroupedKernels, usize>] = &[
    number("", "#").read(|_, number| Cell::Id(*number as i64)),
    number("count", "count").read(|group, _| Cell::Count(group.count)),
    number("attributed", "").read(|group, _| Cell::Count(group.attributed)),
    number("gpu_time_ns", "GPU time").read(|group, _| Cell::Time(group.cost.gpu_time.total_ns)),
    number("share_of_groups", "share").read(|group, _| Cell::Share(group.share_of_groups)),
    number("share_of_window", "of window")
        .dropped(4)
        .read(|group, _| Cell::known(group.cost.share_of_window, Cell::Share)),
    number("exposed_ns", "exposed").dropped(5).read(|group, _| Cell::Time(group.cost.exposed_ns)),
    number("critical_ns", "critical").dropped(6).read(|group, _| Cell::some(group.cost.critical_ns, Cell::Time)),
    number("mean_ns", "mean").dropped(3).read(|group, _| Cell::Nanos(group.cost.gpu_time.mean_ns)),
    number("median_ns", "").read(|group, _| Cell::Nanos(group.cost.gpu_time.median_ns)),
    number("p95_ns", "").read(|group, _| Cell::Time(group.cost.gpu_time.p95_ns)),
    number("min_ns", "").read(|group, _| Cell::Time(group.cost.gpu_time.min_ns)),
    number("max_ns", "max").dropped(1).read(|group, _| Cell::Time(group.cost.gpu_time.max_ns)),
    words("collectives", "collective").dropped(2).read(|group, _| Cell::Text(collectives(group))),
    name("group").read(|group, _| Cell::Text(visible(&group.label()).into_owned())),
];

/// The columns of a group that is a step, after [`COLUMNS`] for spreadsheets, and in their place for people. The context is the name, and the stack with
/// the most exposed time.
const STEPS: &[Column<StepCost, (String, String)>] = &[
    number("step_number", "step").read(|step, _| Cell::Id(step.number as i64)),
    number("step_ts_ns", "").read(|step, _| Cell::Time(step.ts_ns)),
    number("step_dur_ns", "length").dropped(4).read(|step, _| Cell::Time(step.dur_ns)),
    number("step_gpus", "").read(|step, _| Cell::Count(step.gpus)),
    number("step_gpu_span_ns", "GPU span").dropped(2).read(|step, _| Cell::Time(step.gpu_span_ns)),
    number("step_busy_ns", "GPU busy").dropped(0).read(|step, _| of_span(step, step.busy_ns)),
    number("step_compute_ns", "compute").dropped(1).read(|step, _| of_span(step, step.compute_ns)),
    number("step_collectives_ns", "collectives").dropped(3).read(|step, _| of_span(step, step.collectives_ns)),
    number("step_exposed_ns", "exposed").read(|step, _| {
        let share = percent_or_unknown(step.share(step.exposed_ns));
        Cell::Both(format!("{} ({share})", duration(step.exposed_ns)), step.exposed_ns.to_string())
    }),
    words("step_largest_stack", "")
        .read(|step, _| Cell::some(step.largest_stack.as_ref(), |stack| Cell::Text(stack.headline.clone()))),
    words("", "name").short(30).read(|_, (name, _)| Cell::Text(visible(name).into_owned())),
    name("largest stack").room(24).read(|_, (_, stack)| Cell::Text(stack.clone())),
];

/// A time as people see it, as a share of the step's GPU span.
fn of_span(step: &StepCost, time: Ns) -> Cell {
    Cell::Both(percent_or_unknown(step.share(time)), time.to_string())
}

/// Writes the groups as a tree, in lines that fit the screen, and their totals.
pub(crate) fn text(groups: &Grouped, screen: &Screen, out: &mut impl Write) -> io::Result<()> {
    if groups.are_steps() {
        return steps_text(groups, screen, out);
    }
    let (all, mut rows) = (groups.totals(), groups.tree());
    let shown = groups.groups.iter().map(|group| group.count).sum::<u64>();
    if shown < all.count {
        let hidden = groups.left_out();
        rows.push(Branch::leaf(format!("({} more groups)", count(hidden.groups)), hidden.totals));
    }
    rows.push(Branch::leaf("all".to_owned(), all));
    let table = Table::new("tree", "Groups", TREE, rows.iter().map(|row| (row, all.gpu_time_ns)));
    let by: Vec<_> = groups.grouped_by.iter().map(|by| visible(by)).collect();
    writeln!(out, "{}", screen.accent(&format!("By {}", by.join(", then "))))?;
    out.write_all(table.text(screen.width).as_bytes())
}

/// Writes steps in order of time, then the kernels outside of all steps.
fn steps_text(groups: &Grouped, screen: &Screen, out: &mut impl Write) -> io::Result<()> {
    let (costs, others): (Vec<&GroupedKernels>, Vec<&GroupedKernels>) =
        groups.groups.iter().partition(|group| group.step.is_some());
    let gpus = costs.iter().filter_map(|group| group.step.as_ref()).map(|step| step.gpus).max().unwrap_or(0);
    let summed = if gpus > 1 { format!(", summed over {gpus} GPUs") } else { String::new() };
    let heading = format!("By step; times are of the GPU span of what was launched in it{summed}");
    if !costs.is_empty() {
        writeln!(out, "{}", screen.accent(&screen.fill(&heading)))?;
        out.write_all(steps_of(groups).text(screen.width).as_bytes())?;
    }
    let hidden: Totals = groups.hidden.iter().map(GroupedKernels::totals).sum();
    let more = match groups.hidden.len() {
        0 => None,
        n => Some((format!("{} more steps", count(n as u64)), hidden)),
    };
    let in_none = || others.iter().map(|group| group.totals()).sum();
    let outside = (!others.is_empty()).then(|| ("In no step".to_owned(), in_none()));
    for (what, totals) in more.into_iter().chain(outside).chain([("All".to_owned(), groups.totals())]) {
        let (gpu_time, exposed) = (duration(totals.gpu_time_ns), duration(totals.exposed_ns));
        writeln!(out, "{what}: {}, GPU {gpu_time}, exposed {exposed}", kernels(totals.count))?;
    }
    Ok(())
}

/// The groups, after the steps if the groups are steps.
pub(crate) fn tables(groups: &Grouped) -> Vec<Table> {
    let all = Table::new("stacks", "Groups", COLUMNS, groups.groups.iter().zip(1..));
    if groups.are_steps() { vec![steps_of(groups), all] } else { vec![all] }
}

/// A row for each step: its numbers, its name, and the stack with the most exposed time.
fn steps_of(groups: &Grouped) -> Table {
    let steps = groups.groups.iter().filter_map(|group| Some((group.step.as_ref()?, group)));
    let rows = steps.map(|(step, group)| (step, (group.label(), largest_stack(group))));
    Table::new("steps", "Steps", STEPS, rows)
}

/// The same by their names, without stacks.
pub(crate) fn steps<'s>(steps: impl Iterator<Item = (String, &'s StepCost)>) -> Table {
    Table::new("steps", "Steps", STEPS, steps.map(|(name, step)| (step, (name, String::new()))))
}

/// `model.py(50): backward (92.1 %)`, with its share of the exposed time of the step's selected kernels.
fn largest_stack(group: &GroupedKernels) -> String {
    let Some(stack) = group.step.as_ref().and_then(|step| step.largest_stack.as_ref()) else { return "-".to_owned() };
    let share = stack.totals.exposed_ns.share_of(group.cost.exposed_ns);
    let share = share.map_or_else(String::new, |of| format!(" ({})", percent(of)));
    format!("{}{share}", visible(&stack.headline))
}

/// Writes the groups for spreadsheets: a column for each key, then numbers, then those of steps if these are a key.
pub(crate) fn csv(groups: &Grouped, out: &mut impl Write) -> io::Result<()> {
    let numbers = Table::for_programs("group", COLUMNS, groups.groups.iter().zip(1..));
    let columns = if groups.grouped_by.iter().any(|key| key == "step") { STEPS } else { &[] };
    let costs = groups.groups.iter().filter_map(|group| group.step.as_ref());
    let steps = Table::for_programs("step", columns, costs.map(|step| (step, Default::default())));
    let mut writer = csv::Writer::from_writer(out);
    let keys = groups.grouped_by.iter().map(|key| -> &str { key });
    writer
        .write_record(keys.chain(numbers.ids().map(|id| -> &str { id })).chain(steps.ids().map(|id| -> &str { id })))?;
    let mut of_steps = steps.plain();
    for (group, numbers) in groups.groups.iter().zip(numbers.plain()) {
        let of_step = group.step.as_ref().and_then(|_| of_steps.next());
        let of_step = of_step.unwrap_or_else(|| vec![String::new(); steps.ids().count()]);
        writer.write_record(group.key.iter().map(|(_, value)| value.text()).chain(numbers).chain(of_step))?;
    }
    writer.flush()
}

/// The collectives of a group; empty if none of its kernels is one.
fn collectives(group: &GroupedKernels) -> String {
    let found = &group.messages.collectives;
    if found.is_empty() { String::new() } else { values_of(found, group.count) }
}
