//! The columns of tables, declared once for people, spreadsheets and the page: names, an alignment, a rank that decides which columns a narrow
//! screen drops first, and the function that reads a cell.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement};

use crate::report::format::{count, duration, percent, size};
use crate::time::Ns;

/// The header of the column that shows where a stack comes from.
pub(crate) const CALLED_FROM: &str = "called from, innermost first";

/// The indent of frames printed below their row.
pub(crate) const INDENT: &str = "    ";

/// A column over rows of one type, declared once for people and for programs. `Context` is what a cell needs besides its row.
pub(crate) struct Column<Row, Context = ()> {
    /// Its name for programs, with its unit; empty for a column of tables for people alone.
    id: &'static str,
    /// Its header for people; empty for a column of programs alone.
    pub(crate) header: &'static str,
    /// What it means in its table; empty where that is what its header means in all tables.
    pub(crate) meaning: &'static str,
    align: Align,
    rank: Option<u8>,
    get: Get<Row, Context>,
}

impl<Row, Context> Clone for Column<Row, Context> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Row, Context> Copy for Column<Row, Context> {}

/// The function that reads a cell.
enum Get<Row, Context> {
    /// A text that people and programs share.
    Text(fn(&Row, &Context) -> String),
    Cell(fn(&Row, &Context) -> Cell),
}

impl<Row, Context> Clone for Get<Row, Context> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Row, Context> Copy for Get<Row, Context> {}

/// A value with its unit. People see the unit; programs get the number, whose column names the unit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    /// Nothing to say.
    Empty,
    /// A value that is not known: `?` for people.
    Unknown,
    Count(u64),
    Time(Ns),
    /// A time in ns with a fraction, such as a mean.
    Nanos(f64),
    /// A fraction, shown in percent.
    Share(f64),
    /// In 10^9 bytes per second.
    Bandwidth(f64),
    Bytes(u64),
    Text(String),
    /// What people see, and what programs get.
    Both(String, String),
}

impl Cell {
    /// The cell of a value that may be unknown.
    pub(crate) fn known<T>(value: Option<T>, cell: impl FnOnce(T) -> Cell) -> Self {
        value.map_or(Cell::Unknown, cell)
    }

    /// What people see.
    pub(crate) fn shown(&self) -> String {
        match self {
            Cell::Empty => String::new(),
            Cell::Unknown => "?".to_owned(),
            Cell::Count(n) => count(*n),
            Cell::Time(time) => duration(*time),
            Cell::Nanos(nanos) => duration(Ns::rounded(*nanos)),
            Cell::Share(share) => percent(*share),
            Cell::Bandwidth(of) => format!("{of:.1}"),
            Cell::Bytes(bytes) => size(*bytes),
            Cell::Text(text) | Cell::Both(text, _) => text.clone(),
        }
    }

    /// The name of its unit; `None` if it has no value.
    pub(crate) fn unit(&self) -> Option<&'static str> {
        Some(match self {
            Cell::Empty | Cell::Unknown => return None,
            Cell::Count(_) => "count",
            Cell::Time(_) | Cell::Nanos(_) => "ns",
            Cell::Share(_) => "share",
            Cell::Bandwidth(_) => "gb_per_s",
            Cell::Bytes(_) => "bytes",
            Cell::Text(_) | Cell::Both(..) => "text",
        })
    }

    /// What programs get.
    pub(crate) fn plain(&self) -> String {
        match self {
            Cell::Empty | Cell::Unknown => String::new(),
            Cell::Count(n) | Cell::Bytes(n) => n.to_string(),
            Cell::Time(time) => time.to_string(),
            Cell::Nanos(number) | Cell::Share(number) | Cell::Bandwidth(number) => number.to_string(),
            Cell::Text(text) | Cell::Both(_, text) => text.clone(),
        }
    }
}

/// The alignment of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// Cells and header to the left.
    Left,
    /// Cells to the right, header to the left.
    Right,
    /// Cells and header to the right.
    AllRight,
}

impl<Row, Context> Column<Row, Context> {
    const fn text(header: &'static str, align: Align, get: fn(&Row, &Context) -> String) -> Self {
        Column { id: "", header, meaning: "", align, rank: None, get: Get::Text(get) }
    }

    /// A column of text.
    pub(crate) const fn left(header: &'static str, get: fn(&Row, &Context) -> String) -> Self {
        Self::text(header, Align::Left, get)
    }

    /// A column of numbers.
    pub(crate) const fn right(header: &'static str, get: fn(&Row, &Context) -> String) -> Self {
        Self::text(header, Align::Right, get)
    }

    /// A column of numbers whose header is aligned with them.
    pub(crate) const fn all_right(header: &'static str, get: fn(&Row, &Context) -> String) -> Self {
        Self::text(header, Align::AllRight, get)
    }

    /// A column that is dropped when the table is too wide; the lowest rank goes first.
    pub(crate) const fn dropped(
        rank: u8,
        align: Align,
        header: &'static str,
        get: fn(&Row, &Context) -> String,
    ) -> Self {
        Column { rank: Some(rank), ..Self::text(header, align, get) }
    }

    /// A column of numbers for people, under `header`, and for programs, under `id`. Either may be empty.
    pub(crate) const fn number(id: &'static str, header: &'static str, get: fn(&Row, &Context) -> Cell) -> Self {
        Column { id, header, meaning: "", align: Align::Right, rank: None, get: Get::Cell(get) }
    }

    /// The same for text.
    pub(crate) const fn words(id: &'static str, header: &'static str, get: fn(&Row, &Context) -> Cell) -> Self {
        Column { align: Align::Left, ..Self::number(id, header, get) }
    }

    /// A column of numbers that is dropped when a table for people is too wide; the lowest rank goes first.
    pub(crate) const fn number_at(
        rank: u8,
        id: &'static str,
        header: &'static str,
        get: fn(&Row, &Context) -> Cell,
    ) -> Self {
        Column { rank: Some(rank), ..Self::number(id, header, get) }
    }

    /// The same for text.
    pub(crate) const fn words_at(
        rank: u8,
        id: &'static str,
        header: &'static str,
        get: fn(&Row, &Context) -> Cell,
    ) -> Self {
        Column { align: Align::Left, ..Self::number_at(rank, id, header, get) }
    }

    /// The same with its meaning in this table.
    pub(crate) const fn means(self, meaning: &'static str) -> Self {
        Column { meaning, ..self }
    }

    pub(crate) fn cell(&self, row: &Row, context: &Context) -> Cell {
        match self.get {
            Get::Text(get) => Cell::Text(get(row, context)),
            Get::Cell(get) => get(row, context),
        }
    }

    /// Its name in CSV, if programs get it. A column of shared text has one name.
    pub(crate) fn name(&self) -> Option<&'static str> {
        match self.get {
            Get::Text(_) => Some(self.header),
            Get::Cell(_) => Some(self.id).filter(|id| !id.is_empty()),
        }
    }

    /// Whether people see it.
    pub(crate) fn is_shown(&self) -> bool {
        !self.header.is_empty() || matches!(self.get, Get::Text(_))
    }
}

/// The columns of a table, with the cells of every row.
pub(crate) struct Table {
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
    pub(crate) fn from_rows<'r, Row: 'r, Context>(
        columns: &[Column<Row, Context>],
        rows: impl Iterator<Item = (&'r Row, Context)>,
    ) -> Self {
        let empty = |column: &Column<Row, Context>| Filled {
            header: column.header,
            align: column.align,
            rank: column.rank,
            cells: Vec::new(),
        };
        let columns = || columns.iter().filter(|column| column.is_shown());
        let mut table = Table { columns: columns().map(empty).collect(), rows: 0 };
        for (row, context) in rows {
            for (filled, column) in table.columns.iter_mut().zip(columns()) {
                filled.cells.push(column.cell(row, &context).shown());
            }
            table.rows += 1;
        }
        table
    }

    /// The width of the whole table.
    pub(crate) fn width(&self) -> usize {
        self.columns.iter().map(Filled::width).sum()
    }

    /// Drops columns in which every cell is empty.
    pub(crate) fn drop_empty(&mut self) {
        self.columns.retain(|column| column.cells.iter().any(|cell| !cell.is_empty()));
    }

    /// Drops columns by rank until the rest fits `width`, or until no column with a rank is left.
    pub(crate) fn drop_to(&mut self, width: usize) {
        while self.width() > width {
            let ranked = self.columns.iter().enumerate().filter_map(|(at, column)| Some((column.rank?, at)));
            let Some((_, at)) = ranked.min() else { break };
            self.columns.remove(at);
        }
    }

    /// Appends a column of text.
    pub(crate) fn push(&mut self, header: &'static str, cells: Vec<String>) {
        self.columns.push(Filled { header, align: Align::Left, rank: None, cells });
    }

    /// The table as text: the header, then the rows.
    pub(crate) fn text(&self) -> String {
        let mut layout = comfy_table::Table::new();
        layout.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        let cell = |text: &str, is_right: bool| {
            comfy_table::Cell::new(text).set_alignment(if is_right {
                CellAlignment::Right
            } else {
                CellAlignment::Left
            })
        };
        layout.set_header(self.columns.iter().map(|column| cell(column.header, column.align == Align::AllRight)));
        for row in 0..self.rows {
            layout.add_row(self.columns.iter().map(|column| cell(&column.cells[row], column.align != Align::Left)));
        }
        layout.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

pub(super) fn write_rows<'r, Row: 'r, Context: 'r>(
    columns: impl Iterator<Item = &'r Column<Row, Context>> + Clone,
    rows: impl Iterator<Item = (&'r Row, Context)>,
    out: &mut impl std::io::Write,
) -> std::io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(columns.clone().filter_map(Column::name))?;
    for (row, context) in rows {
        let named = columns.clone().filter(|column| column.name().is_some());
        writer.write_record(named.map(|column| column.cell(row, &context).plain()))?;
    }
    writer.flush()
}
