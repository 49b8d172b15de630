//! The overall change: a table of both windows, before the stacks. The rows below it are all divided alike.

use std::io::{self, Write};

use crate::answers::cost::Order;
use crate::answers::damage;
use crate::answers::diff::delta::{Delta, change, value};
use crate::answers::diff::{Diff, Side};
use crate::document::format::percent_or_unknown;
use crate::document::table::{Cell, Column, Table, number, words};
use crate::time::Ns;

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
    get: fn(&Side) -> Ns,
    /// Whether it is shown as a share of the measured time. Times of kernels that overlap are not.
    is_share: bool,
}

const TIMES: &[Time] = &[
    Time { label: "GPU busy", get: |side| side.summary.busy_ns, is_share: true },
    Time { label: "compute", get: |side| side.summary.compute_ns, is_share: true },
    Time { label: "collectives", get: |side| side.summary.collectives_ns, is_share: true },
    Time { label: "exposed", get: |side| side.summary.exposed_ns, is_share: true },
    Time { label: "these kernels", get: |side| side.kernels.totals.gpu_time_ns, is_share: false },
    Time { label: " of it exposed", get: |side| side.kernels.totals.exposed_ns, is_share: false },
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
        [Some(_), Some(_)] => Time { label: "GPU span", get: |side| side.summary.wall_ns, is_share: false },
        _ => Time { label: "window", get: |side| side.summary.window.duration(), is_share: false },
    };
    let mut rows: Vec<Row> = std::iter::once(&whole)
        .chain(TIMES)
        .map(|Time { label, get, is_share }| Row {
            label,
            unit: Order::GpuTime,
            before: Some(diff.before.each(get(&diff.before))),
            after: Some(diff.after.each(get(&diff.after))),
            shares: is_share.then(|| sides.map(|side| side.summary.share(get(side)))),
        })
        .collect();
    let mut counts = |label, [before, after]: [Option<f64>; 2]| {
        rows.push(Row { label, unit: Order::Count, before, after, shares: None });
    };
    let gpus = sides.map(|side| side.summary.gpus as f64);
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
