//! A heat map of ranks and steps as an SVG image: how long each rank waited in each step, and how long others waited for it.
//!
//! With very many ranks or steps, a cell covers several of them and shows their maximum, so that a single bad rank stays visible.

use std::io::{self, Write};

use crate::ranks::report::{RankReport, StepWaits};
use crate::report::format::{count, duration, shorten_right, visible};
use crate::time::Ns;

/// The most rows and columns.
const ROWS: usize = 128;
const COLUMNS: usize = 200;

/// The colour scale from zero to the maximum: lightness falls evenly (OKLCH, from 0.975 to 0.375).
const COLOURS: [&str; 21] = [
    "#f9f7ee", "#f3edda", "#eee2c7", "#e9d7b5", "#e5cca3", "#e0c092", "#dcb482", "#d8a873", "#d49c66", "#cf9059",
    "#ca844d", "#c57843", "#bf6c3a", "#b86033", "#b1542d", "#a94928", "#a13d25", "#983223", "#8f2621", "#851b20",
    "#7a0e20",
];

/// The space to the left of the cells, for the ranks.
const LEFT: usize = 90;

/// The space above a panel's cells, for its heading and legend.
const ABOVE: usize = 46;

/// The space above the panels, around them, and between the labels.
const TOP: usize = 62;
const MARGIN: usize = 20;
const LABEL: usize = 12;

/// How many characters fit below for a step's name, and to the left for the common prefix of all names; the width of a character.
const NAME: usize = 22;
const COMMON: usize = 13;
const CHARACTER: usize = 7;

/// The least width of a panel, for its legend, and of the image, for its title.
const PANEL: usize = 350;
const PICTURE: usize = 700;

/// One of the two panels.
struct Panel<'a> {
    class: &'static str,
    heading: &'static str,
    /// The text of a cell, before and after its value.
    says: (&'static str, &'static str),
    values: fn(&'a StepWaits) -> &'a [Ns],
}

/// The ranks of each row and the steps of each column.
struct Grid<'a> {
    report: &'a RankReport,
    ranks_of_row: usize,
    steps_of_column: usize,
    rows: usize,
    columns: usize,
    /// The size of a cell.
    width: usize,
    height: usize,
    /// The common prefix of all step names, if numbers follow it.
    prefix: &'a str,
}

pub(super) fn ranks(report: &RankReport, out: &mut Vec<u8>) -> io::Result<()> {
    let panels = [
        Panel { class: "waited", heading: "waited", says: ("waited ", ""), values: |step| &step.waited },
        Panel {
            class: "caused",
            heading: "others waited for it",
            says: ("others waited ", " for it"),
            values: |step| &step.caused,
        },
    ];
    let grid = Grid::new(report);
    let (width, height) = (grid.panel_width(), ABOVE + grid.rows * grid.height + grid.below());
    let is_beside = width <= PANEL || grid.rows * grid.height > grid.columns * grid.width;
    let (across, down) = if is_beside { (2, 1) } else { (1, 2) };
    let size = ((MARGIN + across * (width + MARGIN)).max(PICTURE), TOP + down * height);
    head(&grid, size, out)?;
    for (at, panel) in panels.iter().enumerate() {
        let (x, y) = if is_beside { (MARGIN + at * (width + MARGIN), TOP) } else { (MARGIN, TOP + at * height) };
        writeln!(out, "<g class=\"{}\" transform=\"translate({x},{y})\">", panel.class)?;
        grid.panel(panel, out)?;
        writeln!(out, "</g>")?;
    }
    writeln!(out, "</svg>")
}

fn head(grid: &Grid<'_>, (width, height): (usize, usize), out: &mut Vec<u8>) -> io::Result<()> {
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    write!(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" ")?;
    writeln!(out, "viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\" fill=\"#222\">")?;
    writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>")?;
    writeln!(out, "<text x=\"{MARGIN}\" y=\"28\" font-size=\"18\">Waiting by rank and step</text>")?;
    writeln!(out, "<text x=\"{MARGIN}\" y=\"48\">{}</text>", escaped(&grid.subtitle()))
}

impl<'a> Grid<'a> {
    fn new(report: &'a RankReport) -> Self {
        let (ranks, steps) = (report.ranks.len().max(1), report.steps.len().max(1));
        let (ranks_of_row, steps_of_column) = (ranks.div_ceil(ROWS), steps.div_ceil(COLUMNS));
        let (rows, columns) = (ranks.div_ceil(ranks_of_row), steps.div_ceil(steps_of_column));
        Grid {
            report,
            ranks_of_row,
            steps_of_column,
            rows,
            columns,
            width: (640 / columns).clamp(4, 60),
            height: (640 / rows).clamp(6, 24),
            prefix: prefix(&report.steps),
        }
    }

    fn panel_width(&self) -> usize {
        (LEFT + self.columns * self.width).max(PANEL)
    }

    /// The space below the cells, for the steps.
    fn below(&self) -> usize {
        let longest = if self.is_turned() { self.longest() } else { 1 };
        (longest * CHARACTER).max(2 * LABEL) + 2 * MARGIN
    }

    fn label<'b>(&self, step: &'b StepWaits) -> std::borrow::Cow<'b, str> {
        visible(step.name.strip_prefix(self.prefix).unwrap_or(&step.name))
    }

    /// The length of the longest step label.
    fn longest(&self) -> usize {
        self.report.steps.iter().map(|step| self.label(step).chars().count()).max().unwrap_or(0).min(NAME)
    }

    /// Whether the step labels are too long for their columns, and are turned.
    fn is_turned(&self) -> bool {
        self.longest() * CHARACTER > self.width
    }

    fn what(&self) -> &'static str {
        if self.report.has_spans { "span" } else { "step" }
    }

    /// The size of the grid, and of a cell if it covers several ranks or steps.
    fn subtitle(&self) -> String {
        let some = |number: usize, what: &str| match number {
            1 => format!("1 {what}"),
            _ => format!("{} {what}s", count(number as u64)),
        };
        let (ranks, steps) = (self.report.ranks.len(), self.report.steps.len());
        let mut text = format!("{}, {}", some(ranks, "rank"), some(steps, self.what()));
        let of = [(self.ranks_of_row, "rank"), (self.steps_of_column, self.what())];
        let of: Vec<String> = of.iter().filter(|(of, _)| *of > 1).map(|(of, what)| format!("{of} {what}s")).collect();
        if !of.is_empty() {
            text.push_str(&format!("; a cell has the maximum of {}", of.join(" and ")));
        }
        text
    }

    /// The value of a cell.
    fn value(&self, panel: &Panel<'a>, row: usize, column: usize) -> Ns {
        let steps = self.report.steps.iter().skip(column * self.steps_of_column).take(self.steps_of_column);
        let of_step = |step| (panel.values)(step).iter().skip(row * self.ranks_of_row).take(self.ranks_of_row);
        steps.flat_map(of_step).copied().max().unwrap_or_default()
    }

    fn panel(&self, panel: &Panel<'a>, out: &mut Vec<u8>) -> io::Result<()> {
        let cells = |row| (0..self.columns).map(move |column| (row, column));
        let most = (0..self.rows).flat_map(cells).map(|(row, column)| self.value(panel, row, column)).max();
        let most = most.unwrap_or_default();
        writeln!(out, "<text x=\"{LEFT}\" y=\"12\" font-size=\"13\" font-weight=\"bold\">{}</text>", panel.heading)?;
        legend(most, out)?;
        for row in 0..self.rows {
            self.row_label(row, out)?;
            for column in 0..self.columns {
                self.cell(panel, (row, column), most, out)?;
            }
        }
        let label_every = LABEL.div_ceil(self.width);
        for column in (0..self.columns).step_by(label_every) {
            self.column_label(column, out)?;
        }
        self.axis_titles(out)
    }

    fn cell(&self, panel: &Panel<'a>, (row, column): (usize, usize), most: Ns, out: &mut Vec<u8>) -> io::Result<()> {
        let value = self.value(panel, row, column);
        let (x, y) = (LEFT + column * self.width, ABOVE + row * self.height);
        // Only tiny cells touch each other.
        let gap = usize::from(self.width >= 10 && self.height >= 10);
        let (width, height, fill) = (self.width - gap, self.height - gap, colour(value, most));
        let is_one = self.ranks_of_row * self.steps_of_column == 1;
        let (before, after) = panel.says;
        let (ranks, steps) = (self.ranks(row), escaped(&self.steps(column)));
        write!(out, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\">")?;
        let value = format!("{}{}", if is_one { "" } else { "at most " }, duration(value));
        let are = if ranks.contains('-') { "ranks" } else { "rank" };
        writeln!(out, "<title>{are} {ranks}, {steps}: {before}{value}{after}</title></rect>")
    }

    /// The ranks of a row.
    fn ranks(&self, row: usize) -> String {
        let mut of =
            self.report.ranks.iter().skip(row * self.ranks_of_row).take(self.ranks_of_row).map(|rank| rank.rank);
        match (of.next(), of.next_back()) {
            (Some(first), Some(last)) => format!("{first}-{last}"),
            (Some(first), None) => first.to_string(),
            _ => String::new(),
        }
    }

    /// The steps of a column.
    fn steps(&self, column: usize) -> String {
        let mut of = self.report.steps.iter().skip(column * self.steps_of_column).take(self.steps_of_column);
        match (of.next(), of.next_back()) {
            (Some(first), Some(last)) => format!("{} to {}", visible(&first.name), visible(&last.name)),
            (Some(first), None) => visible(&first.name).into_owned(),
            _ => String::new(),
        }
    }

    fn row_label(&self, row: usize, out: &mut Vec<u8>) -> io::Result<()> {
        if !row.is_multiple_of(LABEL.div_ceil(self.height)) {
            return Ok(());
        }
        let (x, y) = (LEFT - 6, ABOVE + row * self.height + self.height / 2 + 4);
        writeln!(out, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{}</text>", self.ranks(row))
    }

    fn column_label(&self, column: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let Some(step) = self.report.steps.get(column * self.steps_of_column) else { return Ok(()) };
        let name = escaped(&shorten_right(&self.label(step), NAME));
        let (x, y) = (LEFT + column * self.width + self.width / 2, ABOVE + self.rows * self.height);
        if !self.is_turned() {
            return writeln!(out, "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{name}</text>", y + 14);
        }
        let (x, y) = (x + 4, y + 6);
        let turned = format!("text-anchor=\"end\" transform=\"rotate(-90 {x} {y})\"");
        writeln!(out, "<text x=\"{x}\" y=\"{y}\" {turned}>{name}</text>")
    }

    fn axis_titles(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let (x, y) = (LEFT - 6, ABOVE + self.rows * self.height + 14);
        writeln!(out, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\" fill=\"#666\">rank \u{2191}</text>")?;
        let prefix = if self.prefix.is_empty() { String::new() } else { shorten_right(&visible(self.prefix), COMMON) };
        let axis = if self.report.has_spans { "time" } else { "step" };
        let text = format!("{} \u{2192}", if prefix.is_empty() { axis } else { &prefix });
        writeln!(out, "<text x=\"{x}\" y=\"{}\" text-anchor=\"end\" fill=\"#666\">{}</text>", y + 14, escaped(&text))
    }
}

/// The colour scale with its labels.
fn legend(most: Ns, out: &mut Vec<u8>) -> io::Result<()> {
    const WIDTH: usize = 6;
    let text = |x: usize, text: &str| format!("<text x=\"{x}\" y=\"33\">{text}</text>");
    writeln!(out, "{}", text(LEFT, "0"))?;
    for (at, colour) in COLOURS.iter().enumerate() {
        let x = LEFT + 12 + at * WIDTH;
        writeln!(out, "<path d=\"M{x},24h{WIDTH}v10h-{WIDTH}z\" fill=\"{colour}\"/>")?;
    }
    writeln!(out, "{}", text(LEFT + 18 + COLOURS.len() * WIDTH, &format!("{} ms", millis(most))))
}

fn colour(value: Ns, most: Ns) -> &'static str {
    let share = value.share_of(most).unwrap_or(0.0);
    let at = (share * (COLOURS.len() - 1) as f64).round() as usize;
    COLOURS[at.min(COLOURS.len() - 1)]
}

fn millis(time: Ns) -> String {
    format!("{}.{:03}", time.0 / 1_000_000, time.0 / 1000 % 1000)
}

/// The common prefix of all names, if every name continues with a number.
fn prefix(steps: &[StepWaits]) -> &str {
    let Some(first) = steps.first().filter(|_| steps.len() > 1) else { return "" };
    let prefix = first.name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_numbered = |step: &StepWaits| {
        let number = step.name.strip_prefix(prefix);
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if steps.iter().all(is_numbered) { prefix } else { "" }
}

/// Text for XML, without the characters that XML forbids.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_alone_label_numbered_steps() {
        let steps = |names: &[&str]| -> Vec<StepWaits> {
            names.iter().map(|name| StepWaits { name: (*name).to_owned(), ..StepWaits::default() }).collect()
        };
        assert_eq!(prefix(&steps(&["ProfilerStep#9", "ProfilerStep#10"])), "ProfilerStep#");
        assert_eq!(prefix(&steps(&["step[DECODE bs=1]", "step[EXTEND bs=2]"])), "");
        assert_eq!(prefix(&steps(&["ProfilerStep#9"])), "");
        assert_eq!(prefix(&steps(&["0.0-2.5 ms", "2.5-5.0 ms"])), "");
    }

    #[test]
    fn colours_grow_with_the_value() {
        assert_eq!(colour(Ns::ZERO, Ns::ZERO), COLOURS[0]);
        assert_eq!(colour(Ns(50), Ns(100)), COLOURS[10]);
        assert_eq!(colour(Ns(100), Ns(100)), COLOURS[20]);
        assert_eq!(millis(Ns(12_345_678)), "12.345");
    }
}
