//! Tables for people. Their columns are data: a header, an alignment, a rank by which they are dropped where a screen is narrow, and
//! the function that reads a cell.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ContentArrangement};

/// The header of the column with a stack's origin.
pub(super) const CALLED_FROM: &str = "called from, innermost first";

/// Blanks before frames that are below their row.
pub(super) const INDENT: &str = "    ";

/// A column over rows of a type. `Context` is what a cell needs beside its row.
pub(super) struct Column<Row, Context = ()> {
    pub(super) header: &'static str,
    align: Align,
    rank: Option<u8>,
    pub(super) get: fn(&Row, &Context) -> String,
}

/// Where the texts of a column are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    /// Cells and header at the left.
    Left,
    /// The cells at the right, the header at the left.
    Right,
    /// Cells and header at the right.
    AllRight,
}

impl<Row, Context> Column<Row, Context> {
    /// A column of texts.
    pub(super) const fn left(header: &'static str, get: fn(&Row, &Context) -> String) -> Self {
        Column { header, align: Align::Left, rank: None, get }
    }

    /// A column of numbers.
    pub(super) const fn right(header: &'static str, get: fn(&Row, &Context) -> String) -> Self {
        Column { header, align: Align::Right, rank: None, get }
    }

    /// A column of numbers whose header is aligned with them.
    pub(super) const fn all_right(header: &'static str, get: fn(&Row, &Context) -> String) -> Self {
        Column { header, align: Align::AllRight, rank: None, get }
    }

    /// A column that is dropped from a table that is too wide; those of the lowest rank go first.
    pub(super) const fn dropped(
        rank: u8,
        align: Align,
        header: &'static str,
        get: fn(&Row, &Context) -> String,
    ) -> Self {
        Column { header, align, rank: Some(rank), get }
    }
}

/// The columns of a table with the cells of all its rows.
pub(super) struct Table {
    columns: Vec<Filled>,
    rows: usize,
}

/// A column with its cells. A cell may have several lines.
struct Filled {
    header: &'static str,
    align: Align,
    rank: Option<u8>,
    cells: Vec<String>,
}

impl Filled {
    /// The width, with the blank on either side.
    fn width(&self) -> usize {
        let length = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        self.cells.iter().map(|cell| length(cell)).max().unwrap_or(0).max(length(self.header)) + 2
    }
}

impl Table {
    /// The cells of some rows, each with its context.
    pub(super) fn from_rows<'r, Row: 'r, Context>(
        columns: &[Column<Row, Context>],
        rows: impl Iterator<Item = (&'r Row, Context)>,
    ) -> Self {
        let empty = |column: &Column<Row, Context>| Filled {
            header: column.header,
            align: column.align,
            rank: column.rank,
            cells: Vec::new(),
        };
        let mut table = Table { columns: columns.iter().map(empty).collect(), rows: 0 };
        for (row, context) in rows {
            for (filled, column) in table.columns.iter_mut().zip(columns) {
                filled.cells.push((column.get)(row, &context));
            }
            table.rows += 1;
        }
        table
    }

    /// The width of all columns.
    pub(super) fn width(&self) -> usize {
        self.columns.iter().map(Filled::width).sum()
    }

    /// Drops the columns without any text.
    pub(super) fn drop_empty(&mut self) {
        self.columns.retain(|column| column.cells.iter().any(|cell| !cell.is_empty()));
    }

    /// Drops columns by their ranks until the others fit a width, or none with a rank is left.
    pub(super) fn drop_to(&mut self, width: usize) {
        while self.width() > width {
            let ranked = self.columns.iter().enumerate().filter_map(|(at, column)| Some((column.rank?, at)));
            let Some((_, at)) = ranked.min() else { break };
            self.columns.remove(at);
        }
    }

    /// Adds a column of texts at the end.
    pub(super) fn push(&mut self, header: &'static str, cells: Vec<String>) {
        self.columns.push(Filled { header, align: Align::Left, rank: None, cells });
    }

    /// The table as lines: the header, then the rows.
    pub(super) fn text(&self) -> String {
        let mut layout = comfy_table::Table::new();
        layout.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        let cell = |text: &str, is_right: bool| {
            Cell::new(text).set_alignment(if is_right { CellAlignment::Right } else { CellAlignment::Left })
        };
        layout.set_header(self.columns.iter().map(|column| cell(column.header, column.align == Align::AllRight)));
        for row in 0..self.rows {
            layout.add_row(self.columns.iter().map(|column| cell(&column.cells[row], column.align != Align::Left)));
        }
        layout.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}
