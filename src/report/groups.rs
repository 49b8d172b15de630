//! Groups of kernels: a tree for people, a table with one row each, and rows for spreadsheets.

use std::io::{self, Write};

use super::Screen;
use super::column::{Align, Column, Table};
use super::csv::known;
use super::format::{count, duration, percent, percent_or_unknown, shorten_right, values_of, visible};
use crate::analysis::cost::Totals;
use crate::analysis::groups::tree::Branch;
use crate::analysis::groups::{Group, Groups};
use crate::time::Ns;

/// A row of numbers; the context is the GPU time of all groups.
const TREE: &[Column<Branch, Ns>] = &[
    Column::right("count", |row, _| count(row.totals.count)),
    Column::right("GPU time", |row, _| duration(row.totals.gpu_time)),
    Column::right("share", |row, all| share(row.totals, *all)),
    Column::right("exposed", |row, _| duration(row.totals.exposed)),
    Column::dropped(0, Align::Right, "mean", |row, _| duration(Ns::rounded(row.totals.mean()))),
];

/// The numbers of groups; the context is the number of the row.
const NUMBERS: &[Column<Group, usize>] = &[
    Column::right("#", |_, number| number.to_string()),
    Column::right("count", |group, _| count(group.count)),
    Column::right("GPU time", |group, _| duration(group.cost.gpu_time.total)),
    Column::right("share", |group, _| percent(group.share)),
    Column::dropped(4, Align::Right, "of window", |group, _| percent_or_unknown(group.cost.share)),
    Column::dropped(5, Align::Right, "exposed", |group, _| duration(group.cost.exposed)),
    Column::dropped(3, Align::Right, "mean", |group, _| duration(Ns::rounded(group.cost.gpu_time.mean))),
    Column::dropped(1, Align::Right, "max", |group, _| duration(group.cost.gpu_time.max)),
    Column::dropped(2, Align::Left, "collective", |group, _| collectives(group)),
];

const COLUMNS: &[Column<Group>] = &[
    Column::right("count", |group, ()| group.count.to_string()),
    Column::right("attributed", |group, ()| group.attributed.to_string()),
    Column::right("gpu_time_ns", |group, ()| group.cost.gpu_time.total.to_string()),
    Column::right("share_of_groups", |group, ()| group.share.to_string()),
    Column::right("share_of_window", |group, ()| known(group.cost.share)),
    Column::right("exposed_ns", |group, ()| group.cost.exposed.to_string()),
    Column::right("mean_ns", |group, ()| group.cost.gpu_time.mean.to_string()),
    Column::right("median_ns", |group, ()| group.cost.gpu_time.median.to_string()),
    Column::right("p95_ns", |group, ()| group.cost.gpu_time.p95.to_string()),
    Column::right("min_ns", |group, ()| group.cost.gpu_time.min.to_string()),
    Column::right("max_ns", |group, ()| group.cost.gpu_time.max.to_string()),
    Column::left("collectives", |group, ()| collectives(group)),
];

/// The narrowest column of keys.
const LEAST: usize = 30;

/// Writes the groups as a tree, in lines that fit the screen, and what they add up to.
///
/// # Errors
/// What the writer fails with.
pub(super) fn text(groups: &Groups, screen: &Screen, out: &mut impl Write) -> io::Result<()> {
    let (all, mut rows) = (groups.totals(), groups.tree());
    let shown = groups.groups.iter().map(|group| group.count).sum::<u64>();
    if shown < all.count {
        let hidden = groups.hidden.iter().fold(Totals::default(), |mut sum, group| {
            sum.add(group.totals());
            sum
        });
        rows.push(Branch::leaf(format!("({} more groups)", count(groups.hidden.len() as u64)), hidden));
    }
    rows.push(Branch::leaf("all".to_owned(), all));
    let mut table = Table::of(TREE, rows.iter().map(|row| (row, all.gpu_time)));
    table.drop_to(screen.width.map_or(usize::MAX, |width| width.saturating_sub(LEAST)));
    let room = screen.room(table.width() + 2).max(LEAST);
    let label = |row: &Branch| shorten_right(&format!("{}{}", "  ".repeat(row.depth), visible(&row.label)), room);
    table.push("", rows.iter().map(label).collect());
    let by: Vec<_> = groups.by.iter().map(|by| visible(by)).collect();
    writeln!(out, "{}", screen.accent(&format!("By {}", by.join(", then "))))?;
    out.write_all(table.text().as_bytes())
}

/// Writes the groups as a table, one row each.
///
/// # Errors
/// What the writer fails with.
pub(super) fn table(groups: &Groups, width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::of(NUMBERS, groups.groups.iter().zip(1..));
    table.drop_empty();
    let width = width.unwrap_or(usize::MAX);
    table.drop_to(width.saturating_sub(LEAST));
    let room = width.saturating_sub(table.width() + 2).max(LEAST);
    let label = |group: &Group| shorten_right(&visible(&group.label()), room);
    table.push("group", groups.groups.iter().map(label).collect());
    out.write_all(table.text().as_bytes())
}

/// Writes the groups, one row each: first a column for each key, then numbers without units.
///
/// # Errors
/// What the writer fails with.
pub(super) fn csv(groups: &Groups, out: &mut impl Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(groups.by.iter().map(String::as_str).chain(COLUMNS.iter().map(|column| column.header)))?;
    for group in &groups.groups {
        let key = group.key.iter().map(|(_, value)| value.text());
        writer.write_record(key.chain(COLUMNS.iter().map(|column| (column.get)(group, &()))))?;
    }
    writer.flush()
}

/// The collectives of a group; empty if none of its kernels is one.
fn collectives(group: &Group) -> String {
    let found = &group.collective.collectives;
    if found.is_empty() { String::new() } else { values_of(found, group.count) }
}

fn share(totals: Totals, all: Ns) -> String {
    percent_or_unknown(totals.gpu_time.share_of(all))
}
