//! Pairs for people: the modules, then the pairs, then what is odd.

use std::io::{self, Write};

use super::column::{Align, Column, Table};
use super::remarks;
use crate::analysis::pairs::{Load, Module, PairReport, PairedNodes, Tie};
use crate::report::Screen;
use crate::report::format::{count, duration, shorten, shorten_right, visible};
use crate::time::Ns;

/// A time, or nothing for 0.
fn time(time: Ns) -> String {
    if time == Ns::ZERO { String::new() } else { duration(time) }
}

/// `12 for 1.234 ms`
fn collectives(load: Load) -> String {
    if load.collectives == 0 {
        return String::new();
    }
    format!("{} for {}", count(load.collectives), duration(load.collective_time_ns))
}

const MODULES: &[Column<Module>] = &[
    Column::right("nodes", |module, ()| count(module.backward.operators)),
    Column::dropped(3, Align::Right, "forward", |module, ()| time(module.forward.load.gpu_time_ns)),
    Column::right("backward", |module, ()| time(module.backward.load.gpu_time_ns)),
    Column::dropped(2, Align::Right, "ratio", |module, ()| {
        module.ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"))
    }),
    Column::dropped(0, Align::Right, "recomputed", |module, ()| time(module.backward.load.recomputed_ns)),
    Column::dropped(1, Align::Right, "after them", |module, ()| time(module.unnumbered.load.gpu_time_ns)),
    Column::right("collectives in them", |module, ()| collectives(module.backward.load)),
    Column::right("collectives after them", |module, ()| collectives(module.unnumbered.load)),
    Column::right("exposed", |module, ()| time(module.collectives().collective_exposed_ns)),
    Column::left("module", |module, ()| visible(&module.module).into_owned()),
];

/// The room for a module's path next to a pair: its end says most, and the table of modules has the whole path.
const MODULE_ROOM: usize = 40;

const GROUPS: &[Column<PairedNodes>] = &[
    Column::right("nodes", |group, ()| count(group.backward.operators)),
    Column::dropped(2, Align::Right, "forward CPU", |group, ()| time(group.forward.cpu_time_ns)),
    Column::dropped(4, Align::Right, "GPU", |group, ()| time(group.forward.load.gpu_time_ns)),
    Column::dropped(1, Align::Right, "backward CPU", |group, ()| time(group.backward.cpu_time_ns)),
    Column::right("GPU", |group, ()| time(group.backward.load.gpu_time_ns)),
    Column::right("collectives", |group, ()| collectives(group.backward.load)),
    Column::dropped(5, Align::Right, "exposed", |group, ()| time(group.backward.load.collective_exposed_ns)),
    Column::left("operator -> node", |group, ()| pair(group)),
    Column::left("module", |group, ()| shorten(&visible(&group.module), MODULE_ROOM)),
    Column::left("called from", |group, ()| {
        group.headline.as_deref().map_or(String::new(), |headline| visible(headline).into_owned())
    }),
];

fn pair(group: &PairedNodes) -> String {
    let node = visible(&group.node);
    match (&group.operator, group.tie) {
        (Some(operator), _) if group.named_alike == Some(false) => format!("{} (?) -> {node}", visible(operator)),
        (Some(operator), _) => format!("{} -> {node}", visible(operator)),
        (None, Tie::Orphan) => format!("(not in the trace) -> {node}"),
        (None, Tie::LastNodeBefore) => format!("after the last node -> {node}"),
        (None, _) => format!("(no node before) -> {node}"),
    }
}

/// Writes pairs.
pub(super) fn pairs(
    report: &PairReport,
    limit: Option<usize>,
    screen: &Screen,
    out: &mut impl Write,
) -> io::Result<()> {
    let limit = limit.unwrap_or(usize::MAX);
    let of = |all: usize| if limit < all { format!(", {limit} of {}", count(all as u64)) } else { String::new() };
    if !report.modules.is_empty() {
        writeln!(out, "\nNodes by module, each without the modules in it{}:", of(report.modules.len()))?;
        let rows = report.modules.iter().take(limit).map(|module| (module, ()));
        table(Table::from_rows(MODULES, rows), screen, out)?;
    }
    if !report.groups.is_empty() {
        writeln!(out, "\nPairs{}:", of(report.groups.len()))?;
        let rows = report.groups.iter().take(limit).map(|group| (group, ()));
        table(Table::from_rows(GROUPS, rows), screen, out)?;
    }
    let lines = remarks::lines(report, screen.verbose);
    if !lines.is_empty() {
        writeln!(out, "\nHow numbers were read:")?;
        lines.iter().try_for_each(|line| writeln!(out, "{}", fit(line, screen)))?;
    }
    Ok(())
}

fn fit(line: &str, screen: &Screen) -> String {
    screen.width.map_or(line.to_owned(), |width| shorten_right(line, width))
}

fn table(mut table: Table, screen: &Screen, out: &mut impl Write) -> io::Result<()> {
    table.drop_empty();
    if let Some(width) = screen.width {
        table.drop_to(width);
    }
    table.text().lines().try_for_each(|line| writeln!(out, "{}", fit(line, screen)))
}
