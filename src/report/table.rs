//! Small tables for people: the slices to choose from, the kernels that are there instead.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};

use super::text::visible;
use crate::analysis::missing::NameCount;
use crate::analysis::window::Candidate;
use crate::time::Nanos;

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(header.to_vec());
    table
}

fn right(value: impl ToString) -> Cell {
    Cell::new(value).set_alignment(CellAlignment::Right)
}

fn lines(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The slices that match a name, with the number by which `--index` chooses and the times that `--start-ts` takes.
pub fn candidates(found: &[Candidate], limit: usize) -> String {
    let mut table = table(&["index", "start (ns)", "duration", "kernels", "GPU time", "thread", "name"]);
    let several = several_processes(found);
    for (index, candidate) in found.iter().take(limit).enumerate() {
        table.add_row(vec![
            right(index),
            right(candidate.window.start),
            right(Nanos(candidate.window.duration())),
            right(count(candidate.kernels)),
            right(Nanos(candidate.gpu_time)),
            Cell::new(thread(candidate, several)),
            Cell::new(visible(&candidate.name)),
        ]);
    }
    let mut text = lines(&table);
    if found.len() > limit {
        text.push_str(&format!(" … and {} more\n", found.len() - limit));
    }
    text
}

/// Whether these slices are of several processes, as where ranks share a file.
pub fn several_processes(found: &[Candidate]) -> bool {
    found.windows(2).any(|pair| pair[0].pid != pair[1].pid)
}

/// A slice's thread, with its process where there are several.
pub fn thread(candidate: &Candidate, several_processes: bool) -> String {
    let name = visible(candidate.thread.trim_end());
    match candidate.pid {
        Some(pid) if several_processes => format!("{name}, pid {pid}"),
        _ => name.into_owned(),
    }
}

/// Names and how often they occur, in lines of at most `width`. Names of kernels are cut at their end: what is left finds
/// them, since a pattern need only be a name's beginning.
pub fn name_counts(rows: &[NameCount], width: usize) -> String {
    let mut table = table(&["count", "name"]);
    for row in rows {
        table.add_row(vec![right(count(row.count)), Cell::new(visible(&row.name))]);
    }
    lines(&table).lines().map(|line| format!("{}\n", shorten_right(line, width))).collect()
}

/// A count with commas: `239,093`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A name cut to a width, from the left: the function at its end says more than the folders at its beginning.
pub fn shorten(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let kept: String = name.chars().skip(length - width.saturating_sub(1)).collect();
    format!("…{kept}")
}

/// A text cut to a width at its end.
pub fn shorten_right(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_commas() {
        assert_eq!([0, 999, 1_000, 239_093, 1_234_567].map(count), ["0", "999", "1,000", "239,093", "1,234,567"]);
    }

    #[test]
    fn names_are_cut_from_the_left() {
        assert_eq!(shorten("a/b.py(1): run", 20), "a/b.py(1): run");
        assert_eq!(shorten("a/b.py(1): run", 8), "…1): run");
    }

    #[test]
    fn tables_line_up() {
        let rows = [("ncclDevKernel_A", 97), ("gather", 1)].map(|(name, count)| NameCount { name: name.into(), count });
        assert_eq!(name_counts(&rows, 80), " count  name\n    97  ncclDevKernel_A\n     1  gather\n");
        assert_eq!(name_counts(&rows, 16), " count  name\n    97  ncclDev…\n     1  gather\n");
    }
}
