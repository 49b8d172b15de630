//! The overall change: a table of both windows, before the stacks. The rows below it are all divided alike.

use std::io::{self, Write};

use crate::answers::cost::Order;
use crate::answers::damage;
use crate::answers::diff::delta::{Delta, change, value};
use crate::answers::diff::{Diff, Side};
use crate::document::format::percent_or_unknown;
use crate::document::table::{Cell, Column, Table, number, words};

/// A row of the table. `None` is left empty.
struct Row {
    label: &'static str,
    /// Whether the numbers are counts or times.
    unit: Order,
    before: Option<f64>,
    after: Option<f64>,
    /// The times as shares of the measured time.
    shares: Option<[Option<f64>; 2]>,
}

const COLUMNS: &[Column<Row>] = &[
    words("", "").read(|row, ()| Cell::Text(row.label.to_owned())),
    number("", "before")
        .under_title()
        .read(|row, ()| Cell::some(row.before, |number| Cell::Text(value(row.unit, number)))),
    number("", "after")
        .under_title()
        .read(|row, ()| Cell::some(row.after, |number| Cell::Text(value(row.unit, number)))),
    number("", "change").under_title().read(|row, ()| {
        let delta = row.before.zip(row.after).map(|(before, after)| Delta { before, after });
        Cell::some(delta, |delta| Cell::Text(change(row.unit, delta)))
    }),
    words("", "share")
        .read(|row, ()| Cell::some(row.shares, |shares| Cell::Text(shares.map(percent_or_unknown).join(" → ")))),
];

struct Time {
    label: &'static str,
    /// In ns per unit.
    get: fn(&Side) -> f64,
    scope: Scope,
}

/// Of what a time is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Of what is measured, as the mean of the GPUs: it is shown for all GPUs of the unit.
    Whole,
    /// The same, and shown as a share of that, too.
    Share,
    /// Of kernels that may overlap, or of the window.
    Sum,
}

const TIMES: &[Time] = &[
    Time { label: "GPU busy", get: |side| side.measured.busy_ns, scope: Scope::Share },
    Time { label: "compute", get: |side| side.measured.compute_ns, scope: Scope::Share },
    Time { label: "collectives", get: |side| side.measured.collectives_ns, scope: Scope::Share },
    Time { label: "exposed", get: |side| side.measured.exposed_ns, scope: Scope::Share },
    Time { label: "these kernels", get: |side| side.kernels.each.gpu_time_ns, scope: Scope::Sum },
    Time { label: " of it exposed", get: |side| side.kernels.each.exposed_ns, scope: Scope::Sum },
];

/// The sentences about damage that precede the numbers.
pub(crate) fn damaged(diff: &Diff) -> Vec<String> {
    let said = |which: &str, side: &Side| -> Vec<String> {
        let said = damage::sentences(&side.damage, 1, &[side.summary.window]);
        said.into_iter().map(|text| format!("{which}: {text}")).collect()
    };
    [said("Before", &diff.before), said("After", &diff.after)].concat()
}

pub(crate) fn write(diff: &Diff, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", table(diff).text(None))
}

/// Both sides and their change.
pub(super) fn table(diff: &Diff) -> Table {
    let sides = [&diff.before, &diff.after];
    let whole = match sides.map(|side| side.summary.gpu_span) {
        [Some(_), Some(_)] => Time { label: "GPU span", get: |side| side.measured.wall_ns, scope: Scope::Whole },
        _ => Time { label: "window", get: |side| side.each(side.summary.window.duration()), scope: Scope::Sum },
    };
    let mut rows: Vec<Row> = std::iter::once(&whole)
        .chain(TIMES)
        .map(|Time { label, get, scope }| {
            let gpus = |side: &Side| if *scope == Scope::Sum { 1.0 } else { side.gpus(diff.per) };
            let [before, after] = sides.map(|side| Some(get(side) * gpus(side)));
            let shares = (*scope == Scope::Share).then(|| sides.map(|side| side.share(get(side))));
            Row { label, unit: Order::GpuTime, before, after, shares }
        })
        .collect();
    let mut counts = |label, [before, after]: [Option<f64>; 2]| {
        rows.push(Row { label, unit: Order::Count, before, after, shares: None });
    };
    let gpus = sides.map(|side| side.gpus(diff.per));
    if gpus.iter().any(|gpus| *gpus > 1.0) {
        counts("GPUs, summed", gpus.map(Some));
    }
    counts(" how many", sides.map(|side| Some(side.kernels.by(Order::Count))));
    let what = if diff.grouped_by.is_empty() { "Stacks" } else { "Groups" };
    counts(what, sides.map(|side| Some(side.stacks as f64)));
    counts(" new", [None, Some(diff.new as f64)]);
    counts(" vanished", [Some(diff.vanished as f64), None]);
    Table::new("sides", "Both sides", COLUMNS, rows.iter().map(|row| (row, ())))
}
