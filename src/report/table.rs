//! Tables for people: stacks, kernels, the slices to choose from, the kernels that are there instead.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};

use super::text::visible;
use crate::analysis::cost::Cost;
use crate::analysis::missing::NameCount;
use crate::analysis::stack_key::StackKey;
use crate::analysis::stacks::{Stack, StackReport};
use crate::analysis::summary::KernelRow;
use crate::analysis::window::Candidate;
use crate::nccl::frames::location;
use crate::time::Nanos;

pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(header.to_vec());
    table
}

pub(super) fn right(value: impl ToString) -> Cell {
    Cell::new(value).set_alignment(CellAlignment::Right)
}

pub(super) fn lines(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The numbers of stacks, and in which order they go if a screen is too narrow for all; those that never go have no place in it.
const NUMBERS: [(&str, Option<u8>); 9] = [
    ("#", None),
    ("count", None),
    ("GPU time", None),
    ("share", Some(4)),
    ("exposed", Some(5)),
    ("mean", Some(1)),
    ("max", Some(0)),
    ("collective", Some(3)),
    ("busbw (GB/s)", Some(2)),
];

/// The one of these that is a text.
const COLLECTIVE: usize = 7;

const CALLED_FROM: &str = "called from, innermost first";

/// How many frames of a stack a row shows.
const FRAMES: usize = 3;

/// Stands before frames that stand below their row.
pub(super) const INDENT: &str = "    ";

/// Stacks, one row each, in lines of at most `width`. A stack shows the frames that tell most of where it comes from: beside its
/// numbers, or below them where `file.py(line): function` would have to be cut otherwise. Numbers for which there is no room even
/// so are left out, a column at a time.
///
/// # Errors
/// What the writer fails with.
pub fn stacks(report: &StackReport, width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let rows: Vec<[String; 9]> = report.stacks.iter().zip(1..).map(|(stack, number)| numbers(number, stack)).collect();
    let frames = telling(report.stacks.iter().map(|stack| &stack.key));
    let Layout { columns, beside, left } = Layout::of(&rows, &frames, width.unwrap_or(usize::MAX));
    let shortened = |frames: &Vec<Cow<'_, str>>| frames.iter().map(|frame| shorten_frame(frame, left)).collect();
    let frames: Vec<Vec<String>> = frames.iter().map(shortened).collect();
    let header = columns.iter().map(|column| NUMBERS[*column].0).chain(beside.then_some(CALLED_FROM));
    let mut table = table(&header.collect::<Vec<_>>());
    for (row, frames) in rows.iter().zip(&frames) {
        let number =
            |column: &usize| if *column == COLLECTIVE { Cell::new(&row[*column]) } else { right(&row[*column]) };
        let cells = columns.iter().map(number).chain(beside.then(|| Cell::new(frames.join("\n"))));
        table.add_row(cells.collect::<Vec<_>>());
    }
    let text = lines(&table);
    if beside {
        return out.write_all(text.as_bytes());
    }
    for (line, frames) in text.lines().zip(std::iter::once(&vec![]).chain(&frames)) {
        writeln!(out, "{line}")?;
        frames.iter().try_for_each(|frame| writeln!(out, "{INDENT}{frame}"))?;
    }
    Ok(())
}

/// For each stack the innermost of the frames that tell most. Where stacks would look alike by these, the last of them gives way to
/// the innermost by which they differ.
pub(super) fn telling<'a>(stacks: impl Iterator<Item = &'a StackKey>) -> Vec<Vec<Cow<'a, str>>> {
    let all: Vec<Vec<&str>> = stacks.map(StackKey::telling_frames).collect();
    let mut alike: BTreeMap<&[&str], Vec<usize>> = BTreeMap::new();
    for (at, frames) in all.iter().enumerate() {
        alike.entry(&frames[..frames.len().min(FRAMES)]).or_default().push(at);
    }
    let mut shown: Vec<Vec<Cow<'_, str>>> =
        all.iter().map(|frames| frames.iter().take(FRAMES).map(|frame| visible(frame)).collect()).collect();
    for twins in alike.into_values() {
        let longest = twins.iter().map(|at| all[*at].len()).max().unwrap_or(0);
        let differ = |place: &usize| twins.iter().any(|at| all[*at].get(*place) != all[twins[0]].get(*place));
        let Some(place) = (FRAMES..longest).find(differ) else { continue };
        for at in twins {
            if let (Some(frame), Some(last)) = (all[at].get(place), shown[at].last_mut()) {
                *last = visible(frame);
            }
        }
    }
    shown
}

/// A stack's numbers, in the order of their columns.
fn numbers(number: usize, stack: &Stack) -> [String; 9] {
    let Cost { gpu_time, share, exposed, .. } = &stack.cost;
    [
        number.to_string(),
        count(stack.count),
        Nanos(gpu_time.total).to_string(),
        share.map_or("?".to_owned(), percent),
        Nanos(*exposed).to_string(),
        Nanos(gpu_time.mean.round() as i64).to_string(),
        Nanos(gpu_time.max).to_string(),
        values(&stack.collective.collectives, stack.count),
        stack.collective.bandwidth.map_or("?".to_owned(), |bandwidth| format!("{:.1}", bandwidth.bus)),
    ]
}

/// What of a table of stacks stands where.
struct Layout {
    /// Which numbers are shown.
    columns: Vec<usize>,
    /// Whether frames stand beside them.
    beside: bool,
    /// How much room a frame has.
    left: usize,
}

impl Layout {
    fn of(rows: &[[String; 9]], frames: &[Vec<Cow<'_, str>>], width: usize) -> Self {
        let length = |text: &str| text.chars().count();
        let widest = |column: usize| rows.iter().map(|row| length(&row[column])).max().unwrap_or(0);
        // Each column has a blank before and behind.
        let taken = |column: &usize| widest(*column).max(length(NUMBERS[*column].0)) + 2;
        let mut columns: Vec<usize> = (0..NUMBERS.len()).collect();
        let all: usize = columns.iter().map(taken).sum();
        let whole =
            frames.iter().flatten().filter(|frame| location(frame).is_some()).map(|frame| length(file_name(frame)));
        let needed = whole.chain([length(CALLED_FROM)]).max().unwrap_or(0);
        if let Some(left) = width.checked_sub(all + 2).filter(|left| *left >= needed) {
            return Layout { columns, beside: true, left };
        }
        let mut by_need: Vec<usize> = columns.iter().copied().filter(|column| NUMBERS[*column].1.is_some()).collect();
        by_need.sort_by_key(|column| NUMBERS[*column].1);
        for least in by_need {
            if columns.iter().map(taken).sum::<usize>() <= width {
                break;
            }
            columns.retain(|column| *column != least);
        }
        Layout { columns, beside: false, left: width.saturating_sub(INDENT.len()) }
    }
}

/// Kernels by name, with the columns of `nsys stats -r cuda_gpu_kern_sum`, in lines of at most `width`: where names would have next to
/// no room, numbers give way.
pub fn kernels(rows: &[KernelRow], width: Option<usize>) -> String {
    let cells: Vec<[String; 8]> = rows.iter().map(kernel_numbers).collect();
    let widest = |at: usize| cells.iter().map(|row| row[at].len()).max().unwrap_or(0).max(KERNEL_COLUMNS[at].len()) + 2;
    let mut columns: Vec<usize> = (0..8).collect();
    for least in LEAST_FIRST {
        let taken: usize = columns.iter().map(|at| widest(*at)).sum();
        if width.is_none_or(|width| taken + NAME_ROOM <= width) {
            break;
        }
        columns.retain(|at| *at != least);
    }
    let header: Vec<&str> = columns.iter().map(|at| KERNEL_COLUMNS[*at]).chain(["Name"]).collect();
    let mut table = table(&header);
    for (row, cells) in rows.iter().zip(&cells) {
        let numbers = columns.iter().map(|at| right(&cells[*at]));
        table.add_row(numbers.chain([Cell::new(visible(&row.name))]).collect::<Vec<_>>());
    }
    let cut = |line: &str| width.map_or(line.to_owned(), |width| shorten_right(line, width));
    lines(&table).lines().map(|line| format!("{}\n", cut(line))).collect()
}

/// How much of a name has to be seen to know the kernel: `ncclDevKernel_AllReduce_Sum_bf16_RING_LL`.
const NAME_ROOM: usize = 42;

/// Of the columns of kernels, those that are missed least.
const LEAST_FIRST: [usize; 5] = [7, 4, 5, 6, 3];

fn kernel_numbers(row: &KernelRow) -> [String; 8] {
    let KernelRow { instances, time, share, .. } = row;
    [
        format!("{:.1}", share * 100.0),
        grouped(time.total as f64, 0),
        count(*instances),
        grouped(time.mean, 1),
        grouped(time.median, 1),
        grouped(time.min as f64, 0),
        grouped(time.max as f64, 0),
        grouped(time.std_dev, 1),
    ]
}

/// The columns of `nsys stats -r cuda_gpu_kern_sum`, which scripts know by these names.
pub const KERNEL_COLUMNS: [&str; 9] =
    ["Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)", "Name"];

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

/// A slice's thread, with its process where there are several, and the trace where there are several of these.
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

/// A number with commas and so many decimals.
fn grouped(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    let (whole, rest) =
        text.split_once('.').map_or((&*text, String::new()), |(whole, rest)| (whole, format!(".{rest}")));
    whole.parse::<u64>().map_or(text.clone(), |whole| format!("{}{rest}", count(whole)))
}

/// A share: `12.3 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Values and of how many kernels each is; the number is left out if it is all of them. What is missing is unknown.
pub fn values(values: &BTreeMap<String, u64>, all: u64) -> String {
    let known: u64 = values.values().sum();
    let one = |(value, kernels): (&String, &u64)| match *kernels == all {
        true => visible(value).into_owned(),
        false => format!("{} ×{}", visible(value), count(*kernels)),
    };
    let mut parts: Vec<String> = values.iter().map(one).collect();
    match all.saturating_sub(known) {
        0 => {}
        missing if known > 0 => parts.push(format!("unknown ×{}", count(missing))),
        _ => parts.push("unknown".to_owned()),
    }
    parts.join(", ")
}

/// The names of a stack's kernels, as [`values`] has them.
pub fn kernel_names(stack: &Stack) -> String {
    let counts = stack.kernels.iter().map(|(name, kernels)| (name.clone(), kernels.count)).collect();
    values(&counts, stack.count)
}

/// A frame cut to a width. Of a path the folders go first, from the left, while `file.py(line): function` stays whole; only then the
/// rest, from its end.
pub fn shorten_frame(frame: &str, width: usize) -> String {
    if frame.chars().count() <= width {
        return frame.to_owned();
    }
    let Some((file, ..)) = location(frame) else { return shorten_right(frame, width) };
    let folders = file.match_indices('/').map(|(at, _)| format!("…{}", &frame[at..]));
    let mut shorter = folders.chain([file_name(frame).to_owned()]);
    let fitting = shorter.find(|text| text.chars().count() <= width);
    fitting.unwrap_or_else(|| shorten_right(file_name(frame), width))
}

/// A frame without the folders of its file.
fn file_name(frame: &str) -> &str {
    let folders = location(frame).and_then(|(file, ..)| file.rfind('/'));
    folders.map_or(frame, |at| &frame[at + 1..])
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
    fn stacks_that_look_alike_show_where_they_differ() {
        let stack = |frames: [&str; 5]| StackKey {
            frames: frames.map(|f| format!("a.py(1): {f}")).into(),
            ..StackKey::default()
        };
        let stacks = [["x", "u", "c", "b", "a"], ["x", "v", "c", "b", "a"], ["y", "u", "d", "b", "a"]].map(stack);
        let short = |frame: &Cow<'_, str>| frame.rsplit(' ').next().unwrap_or_default().to_owned();
        let shown: Vec<String> =
            telling(stacks.iter()).iter().map(|frames| frames.iter().map(short).collect()).collect();
        assert_eq!(shown, ["abu", "abv", "abd"]);
        assert_eq!(telling([&stacks[0], &stacks[0]].into_iter())[0].len(), 3, "the same twice");
    }

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
    fn numbers_and_values_read_well() {
        assert_eq!(grouped(1_234_567.25, 1), "1,234,567.2");
        assert_eq!(grouped(999.96, 1), "1,000.0");
        assert_eq!((grouped(0.0, 0), percent(0.1234)), ("0".to_owned(), "12.3 %".to_owned()));
        let some = |pairs: &[(&str, u64)]| pairs.iter().map(|(value, n)| ((*value).to_owned(), *n)).collect();
        assert_eq!(values(&some(&[("a", 3)]), 3), "a");
        assert_eq!(values(&some(&[("a", 2), ("b", 1)]), 5), "a ×2, b ×1, unknown ×2");
        assert_eq!(values(&some(&[]), 5), "unknown");
    }

    #[test]
    fn frames_lose_their_folders_first() {
        let frame = "sglang/srt/layers/linear.py(1389): forward";
        for (width, want) in [
            (42, frame),
            (41, "…/srt/layers/linear.py(1389): forward"),
            (31, "…/linear.py(1389): forward"),
            (25, "linear.py(1389): forward"),
            (24, "linear.py(1389): forward"),
            (12, "linear.py(1…"),
        ] {
            assert_eq!(shorten_frame(frame, width), want);
        }
        assert_eq!(shorten_frame("<built-in method run_backward of x>", 10), "<built-in…");
    }

    #[test]
    fn tables_line_up() {
        let rows = [("ncclDevKernel_A", 97), ("gather", 1)].map(|(name, count)| NameCount { name: name.into(), count });
        assert_eq!(name_counts(&rows, 80), " count  name\n    97  ncclDevKernel_A\n     1  gather\n");
        assert_eq!(name_counts(&rows, 16), " count  name\n    97  ncclDev…\n     1  gather\n");
    }
}
