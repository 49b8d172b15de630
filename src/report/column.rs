//! Tables for people. Their columns are data: a header, an alignment, a rank that decides which columns a narrow screen drops first,
//! and the function that reads a cell.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ContentArrangement};

/// The header of the column that shows where a stack comes from.
pub(super) const CALLED_FROM: &str = "called from, innermost first";

/// The indent of frames printed below their row.
pub(super) const INDENT: &str = "    ";

/// A column over rows of one type. `Context` is what a cell needs besides its row.
pub(super) struct Column<Row, Context = ()> {
    pub(super) header: &'static str,
    align: Align,
    rank: Option<u8>,
    pub(super) get: fn(&Row, &Context) -> String,
}

/// The alignment of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    /// Cells and header to the left.
    Left,
    /// Cells to the right, header to the left.
    Right,
    /// Cells and header to the right.
    AllRight,
}

impl<Row, Context> Column<Row, Context> {
    /// A column of text.
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

    /// A column that is dropped when the table is too wide; the lowest rank goes first.
    pub(super) const fn dropped(
        rank: u8,
        align: Align,
        header: &'static str,
        get: fn(&Row, &Context) -> String,
    ) -> Self {
        Column { header, align, rank: Some(rank), get }
    }
}

/// The columns of a table, with the cells of every row.
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
    /// The width, including one blank on either side.
    fn width(&self) -> usize {
        let length = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        self.cells.iter().map(|cell| length(cell)).max().unwrap_or(0).max(length(self.header)) + 2
    }
}

impl Table {
    /// Reads the cells of the rows, each with its context.
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

    /// The width of the whole table.
    pub(super) fn width(&self) -> usize {
        self.columns.iter().map(Filled::width).sum()
    }

    /// Drops columns in which every cell is empty.
    pub(super) fn drop_empty(&mut self) {
        self.columns.retain(|column| column.cells.iter().any(|cell| !cell.is_empty()));
    }

    /// Drops columns by rank until the rest fits `width`, or until no column with a rank is left.
    pub(super) fn drop_to(&mut self, width: usize) {
        while self.width() > width {
            let ranked = self.columns.iter().enumerate().filter_map(|(at, column)| Some((column.rank?, at)));
            let Some((_, at)) = ranked.min() else { break };
            self.columns.remove(at);
        }
    }

    /// Appends a column of text.
    pub(super) fn push(&mut self, header: &'static str, cells: Vec<String>) {
        self.columns.push(Filled { header, align: Align::Left, rank: None, cells });
    }

    /// The table as text: the header, then the rows.
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
