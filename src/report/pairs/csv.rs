//! Pairs for spreadsheets: one row for each group, numbers without units. The groups add up to the modules.

use std::io::{self, Write};

use super::column::Column;
use super::column::write_rows;
use crate::analysis::pairs::{PairReport, PairedNodes};
use crate::report::format::visible;

use super::sentences::tie;

const COLUMNS: &[Column<PairedNodes>] = &[
    Column::left("module", |group, ()| visible(&group.module).into_owned()),
    Column::left("operator", |group, ()| shown(group.operator.as_deref())),
    Column::left("named_alike", |group, ()| group.named_alike.map_or(String::new(), |alike| alike.to_string())),
    Column::left("headline", |group, ()| shown(group.headline.as_deref())),
    Column::left("node", |group, ()| visible(&group.node).into_owned()),
    Column::left("tie", |group, ()| tie(group.tie).to_owned()),
    Column::right("operators", |group, ()| group.forward.operators.to_string()),
    Column::right("forward_cpu_time_ns", |group, ()| group.forward.cpu_time_ns.to_string()),
    Column::right("forward_kernels", |group, ()| group.forward.load.kernels.to_string()),
    Column::right("forward_gpu_time_ns", |group, ()| group.forward.load.gpu_time_ns.to_string()),
    Column::right("forward_collectives", |group, ()| group.forward.load.collectives.to_string()),
    Column::right("forward_collective_time_ns", |group, ()| group.forward.load.collective_time_ns.to_string()),
    Column::right("forward_collective_exposed_ns", |group, ()| group.forward.load.collective_exposed_ns.to_string()),
    Column::right("nodes", |group, ()| group.backward.operators.to_string()),
    Column::right("backward_cpu_time_ns", |group, ()| group.backward.cpu_time_ns.to_string()),
    Column::right("backward_kernels", |group, ()| group.backward.load.kernels.to_string()),
    Column::right("backward_gpu_time_ns", |group, ()| group.backward.load.gpu_time_ns.to_string()),
    Column::right("backward_recomputed_ns", |group, ()| group.backward.load.recomputed_ns.to_string()),
    Column::right("backward_collectives", |group, ()| group.backward.load.collectives.to_string()),
    Column::right("backward_collective_time_ns", |group, ()| group.backward.load.collective_time_ns.to_string()),
    Column::right("backward_collective_exposed_ns", |group, ()| group.backward.load.collective_exposed_ns.to_string()),
];

fn shown(name: Option<&str>) -> String {
    name.map_or(String::new(), |name| visible(name).into_owned())
}

/// Writes groups.
pub(super) fn pairs(report: &PairReport, limit: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    write_rows(COLUMNS.iter(), report.groups.iter().take(limit.unwrap_or(usize::MAX)).map(|group| (group, ())), out)
}
