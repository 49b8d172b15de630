//! Short lists in errors and notes: the slices to choose from, or the kernels that a trace has instead.

use super::missing::NameCount;
use super::{Candidate, several_processes};
use crate::document::format::visible;
use crate::document::table::{Cell, Column, Table, name, number, words};

/// The index of the candidate, and whether there are several processes.
type Context = (usize, bool);

const CANDIDATES: &[Column<Candidate, Context>] = &[
    number("", "index").read(|_, (index, _)| Cell::Id(*index as i64)),
    number("", "start (ns)").read(|candidate, _| Cell::Id(candidate.window.start.0)),
    number("", "duration").read(|candidate, _| Cell::Time(candidate.window.duration())),
    number("", "kernels").read(|candidate, _| Cell::Count(candidate.kernels)),
    number("", "GPU time").read(|candidate, _| Cell::Time(candidate.gpu_time)),
    words("", "thread").read(|candidate, (_, several)| Cell::Text(thread(candidate, *several))),
    name("name").read(|candidate, _| Cell::Text(visible(&candidate.name).into_owned())),
];

const NAME_COUNTS: &[Column<NameCount>] = &[
    number("", "count").read(|row, ()| Cell::Count(row.count)),
    name("name").room(0).read(|row, ()| Cell::Text(visible(&row.name).into_owned())),
];

/// The first slices that match a name, each with its index and start, either of which selects it.
pub fn candidates(found: &[Candidate], limit: usize) -> String {
    let several = several_processes(found);
    let rows = found.iter().enumerate().map(|(index, candidate)| (candidate, (index, several)));
    Table::new("candidates", "Slices", CANDIDATES, rows).first(Some(limit)).text(None)
}

/// Names and how often they occur, in lines of at most `width`. Kernel names are shortened at their end: a pattern may be the start of a
/// name, so what is left still finds them.
pub fn name_counts(rows: &[NameCount], width: usize) -> String {
    Table::new("names", "Names", NAME_COUNTS, rows.iter().map(|row| (row, ()))).text(Some(width))
}

/// A slice's thread, with its process and its trace if there are several of these.
pub fn thread(candidate: &Candidate, several_processes: bool) -> String {
    let mut name = visible(candidate.thread.trim_end()).into_owned();
    if let Some(pid) = candidate.pid.filter(|_| several_processes) {
        name.push_str(&format!(", pid {pid}"));
    }
    if let Some(trace) = &candidate.trace {
        name.push_str(&format!(", {}", visible(trace)));
    }
    name
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
