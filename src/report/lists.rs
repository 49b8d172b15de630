//! Short lists in errors and notes: the slices to choose from, or the kernels that a trace has instead.

use super::column::{Column, Table};
use super::format::{count, duration, shorten_right, thread, visible};
use crate::analysis::missing::NameCount;
use crate::analysis::window::{Candidate, several_processes};

/// The index of the candidate, and whether there are several processes.
type Context = (usize, bool);

const CANDIDATES: &[Column<Candidate, Context>] = &[
    Column::right("index", |_, (index, _)| index.to_string()),
    Column::right("start (ns)", |candidate, _| candidate.window.start.to_string()),
    Column::right("duration", |candidate, _| duration(candidate.window.duration())),
    Column::right("kernels", |candidate, _| count(candidate.kernels)),
    Column::right("GPU time", |candidate, _| duration(candidate.gpu_time)),
    Column::left("thread", |candidate, (_, several)| thread(candidate, *several)),
    Column::left("name", |candidate, _| visible(&candidate.name).into_owned()),
];

const NAME_COUNTS: &[Column<NameCount>] =
    &[Column::right("count", |row, ()| count(row.count)), Column::left("name", |row, ()| visible(&row.name).into())];

/// The first slices that match a name, each with its index and start, either of which selects it.
pub fn candidates(found: &[Candidate], limit: usize) -> String {
    let several = several_processes(found);
    let rows = found.iter().take(limit).enumerate().map(|(index, candidate)| (candidate, (index, several)));
    let mut text = Table::from_rows(CANDIDATES, rows).text();
    if found.len() > limit {
        text.push_str(&format!(" … and {} more\n", found.len() - limit));
    }
    text
}

/// Names and how often they occur, in lines of at most `width`. Kernel names are shortened at their end: a pattern may be the start of a
/// name, so what is left still finds them.
pub fn name_counts(rows: &[NameCount], width: usize) -> String {
    let text = Table::from_rows(NAME_COUNTS, rows.iter().map(|row| (row, ()))).text();
    text.lines().map(|line| format!("{}\n", shorten_right(line, width))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up() {
        let rows = [("ncclDevKernel_A", 97), ("gather", 1)].map(|(name, count)| NameCount { name: name.into(), count });
        assert_eq!(name_counts(&rows, 80), " count  name\n    97  ncclDevKernel_A\n     1  gather\n");
        assert_eq!(name_counts(&rows, 16), " count  name\n    97  ncclDev…\n     1  gather\n");
    }
}
