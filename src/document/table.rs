//! Tables: columns are declared once, with a name for programs, a title for people, a meaning, a rule for narrow screens and the function that
//! reads a cell. A [`Table`] has the cells of all rows; text, CSV and the page are written from it.

use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement};
use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::Screen;
use super::format::{count, duration, percent, shorten_right, sign, size};
use super::frames::{least_width, shorten_frame};
use crate::time::Ns;

/// The indent of frames printed below their row.
pub(crate) const INDENT: &str = "    ";

/// The least room for the names of rows.
const LEAST: usize = 30;

/// A column over rows of one type. `Context` is what a cell needs besides its row.
pub(crate) struct Column<Row, Context = ()> {
    head: Head,
    get: fn(&Row, &Context) -> Cell,
}

/// What a column is, apart from its cells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    /// Its name for programs, with its unit; empty for a column of people alone.
    id: &'static str,
    /// Its title for people; empty for a column of programs alone, or where its cells need none.
    title: &'static str,
    /// What it means in its table; empty where that is what its title means in all tables.
    meaning: &'static str,
    /// Whether cells are aligned right, and whether the title is.
    is_right: (bool, bool),
    fit: Fit,
    /// Whether it names the row, and is the first on a page.
    leads: bool,
}

/// What a column does on a narrow screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// It keeps its width.
    Whole,
    /// It is left out; the lowest rank goes first.
    Drop(u8),
    /// Its cells have at most so many characters.
    Short(usize),
    /// It is the last, and its cells get what the others leave, but at least this much.
    Rest(usize),
    /// The same for frames, a line each. Where `file.py(line): function` would not fit, they go below their row.
    Frames,
}

/// A value with its unit. People see the unit; programs get the number, whose column names the unit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    /// Nothing to say.
    Empty,
    /// A value that is not known: `?` for people.
    Unknown,
    Count(u64),
    /// A number that names something, such as a rank.
    Id(i64),
    Time(Ns),
    /// A time in ns with a fraction, such as a mean.
    Nanos(f64),
    /// A change of a time in ns, shown with its sign.
    Growth(f64),
    /// A fraction, shown in percent.
    Share(f64),
    /// A number without a unit, shown with two decimals.
    Ratio(f64),
    /// In 10^9 bytes per second.
    Bandwidth(f64),
    Bytes(u64),
    Text(String),
    /// What people see, and what programs get.
    Both(String, String),
    /// Frames, the one that says most first.
    Frames(Vec<String>),
}

impl Cell {
    /// The cell of a value that may be unknown.
    pub(crate) fn known<T>(value: Option<T>, cell: impl FnOnce(T) -> Cell) -> Self {
        value.map_or(Cell::Unknown, cell)
    }

    /// The cell of a value that a row may lack.
    pub(crate) fn some<T>(value: Option<T>, cell: impl FnOnce(T) -> Cell) -> Self {
        value.map_or(Cell::Empty, cell)
    }

    /// What people see.
    pub(crate) fn shown(&self) -> String {
        match self {
            Cell::Empty => String::new(),
            Cell::Unknown => "?".to_owned(),
            Cell::Count(n) => count(*n),
            Cell::Id(id) => id.to_string(),
            Cell::Time(time) => duration(*time),
            Cell::Nanos(nanos) => duration(Ns::rounded(*nanos)),
            Cell::Growth(0.0) => "=".to_owned(),
            Cell::Growth(nanos) => format!("{}{}", sign(*nanos), duration(Ns::rounded(nanos.abs()))),
            Cell::Share(share) => percent(*share),
            Cell::Ratio(ratio) => format!("{ratio:.2}"),
            Cell::Bandwidth(bandwidth) => format!("{bandwidth:.1}"),
            Cell::Bytes(bytes) => size(*bytes),
            Cell::Text(text) | Cell::Both(text, _) => text.clone(),
            Cell::Frames(frames) => frames.join(" in "),
        }
    }

    /// The name of its unit; `None` if it has no value.
    fn unit(&self) -> Option<&'static str> {
        Some(match self {
            Cell::Empty | Cell::Unknown => return None,
            Cell::Count(_) => "count",
            Cell::Id(_) => "id",
            Cell::Time(_) | Cell::Nanos(_) => "ns",
            Cell::Growth(_) => "growth",
            Cell::Share(_) => "share",
            Cell::Ratio(_) => "ratio",
            Cell::Bandwidth(_) => "gb_per_s",
            Cell::Bytes(_) => "bytes",
            Cell::Text(_) | Cell::Both(..) | Cell::Frames(_) => "text",
        })
    }

    /// What programs get.
    fn plain(&self) -> String {
        match self {
            Cell::Empty | Cell::Unknown => String::new(),
            Cell::Count(n) | Cell::Bytes(n) => n.to_string(),
            Cell::Id(id) => id.to_string(),
            Cell::Time(time) => time.to_string(),
            Cell::Nanos(n) | Cell::Growth(n) | Cell::Share(n) | Cell::Ratio(n) | Cell::Bandwidth(n) => n.to_string(),
            Cell::Text(text) | Cell::Both(_, text) => text.clone(),
            Cell::Frames(frames) => frames.join(";"),
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Cell::Empty) || matches!(self, Cell::Text(text) | Cell::Both(text, _) if text.is_empty())
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::Empty | Cell::Unknown => serializer.serialize_none(),
            Cell::Count(n) | Cell::Bytes(n) => serializer.serialize_u64(*n),
            Cell::Id(id) => serializer.serialize_i64(*id),
            Cell::Time(time) => serializer.serialize_i64(time.0),
            Cell::Nanos(n) | Cell::Growth(n) | Cell::Share(n) | Cell::Ratio(n) | Cell::Bandwidth(n) => {
                serializer.serialize_f64(*n)
            }
            Cell::Text(_) | Cell::Both(..) | Cell::Frames(_) => serializer.serialize_str(&self.shown()),
        }
    }
}

/// A column of numbers for people, under `title`, and for programs, under `id`. Either may be empty.
pub(crate) const fn number(id: &'static str, title: &'static str) -> Head {
    Head { id, title, meaning: "", is_right: (true, false), fit: Fit::Whole, leads: false }
}

/// A column of text.
pub(crate) const fn words(id: &'static str, title: &'static str) -> Head {
    Head { is_right: (false, false), ..number(id, title) }
}

/// The last column, which names the row.
pub(crate) const fn name(title: &'static str) -> Head {
    Head { fit: Fit::Rest(LEAST), leads: true, ..words("", title) }
}

/// The last column, with frames that name the row.
pub(crate) const fn frames(title: &'static str) -> Head {
    Head { fit: Fit::Frames, ..name(title) }
}

impl Head {
    /// The same with another least room.
    pub(crate) const fn room(self, least: usize) -> Self {
        Head { fit: Fit::Rest(least), ..self }
    }

    /// The same, left out where a screen is too narrow; the lowest rank goes first.
    pub(crate) const fn dropped(self, rank: u8) -> Self {
        Head { fit: Fit::Drop(rank), ..self }
    }

    /// The same with at most so many characters on a screen, as the first column of a page.
    pub(crate) const fn short(self, most: usize) -> Self {
        Head { fit: Fit::Short(most), leads: true, ..self }
    }

    /// The same with its title above the numbers' last digits.
    pub(crate) const fn under_title(self) -> Self {
        Head { is_right: (true, true), ..self }
    }

    /// The same with its meaning in this table.
    pub(crate) const fn means(self, meaning: &'static str) -> Self {
        Head { meaning, ..self }
    }

    /// The column with the function that reads its cells.
    pub(crate) const fn read<Row, Context>(self, get: fn(&Row, &Context) -> Cell) -> Column<Row, Context> {
        Column { head: self, get }
    }
}

/// Rows under columns.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its name on a page, and that of its rows where CSV has the rows of several tables.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    heads: Vec<Head>,
    rows: Vec<Vec<Cell>>,
    /// The number of rows, including those left out.
    pub(crate) found: usize,
}

impl Table {
    /// The columns that people see, without those that have no value in any row.
    pub(crate) fn new<'r, Row: 'r, Context>(
        id: &'static str,
        title: &'static str,
        columns: &[Column<Row, Context>],
        rows: impl Iterator<Item = (&'r Row, Context)>,
    ) -> Self {
        let mut table = Self::read(id, title, columns, |head| !head.title.is_empty() || head.id.is_empty(), rows);
        let first = table.heads.iter().position(|head| head.leads);
        let is_kept = |at: usize| Some(at) == first || table.rows.iter().any(|row| !row[at].is_empty());
        let kept: Vec<bool> = (0..table.heads.len()).map(is_kept).collect();
        keep(&mut table.heads, &kept);
        table.rows.iter_mut().for_each(|row| keep(row, &kept));
        table
    }

    /// The columns that programs get.
    pub(crate) fn for_programs<'r, Row: 'r, Context>(
        id: &'static str,
        columns: &[Column<Row, Context>],
        rows: impl Iterator<Item = (&'r Row, Context)>,
    ) -> Self {
        Self::read(id, "", columns, |head| !head.id.is_empty(), rows)
    }

    /// A row for each number, with a text for each column.
    pub(crate) fn matrix(
        title: &'static str,
        rows: &[u32],
        columns: &[&'static str],
        word: impl Fn(u32, usize) -> String,
    ) -> Self {
        let texts = |row: u32| (0..columns.len()).map(move |at| (row, at)).map(|(row, at)| Cell::Text(word(row, at)));
        let cells = |row: &u32| std::iter::once(Cell::Id((*row).into())).chain(texts(*row)).collect();
        Table {
            id: "matrix",
            title,
            heads: std::iter::once(number("", title).under_title())
                .chain(columns.iter().map(|title| words("", title)))
                .collect(),
            rows: rows.iter().map(cells).collect(),
            found: rows.len(),
        }
    }

    fn read<'r, Row: 'r, Context>(
        id: &'static str,
        title: &'static str,
        columns: &[Column<Row, Context>],
        is_asked: fn(&Head) -> bool,
        rows: impl Iterator<Item = (&'r Row, Context)>,
    ) -> Self {
        let columns: Vec<&Column<Row, Context>> = columns.iter().filter(|column| is_asked(&column.head)).collect();
        let cells =
            |(row, context): (&Row, Context)| columns.iter().map(|column| (column.get)(row, &context)).collect();
        let rows: Vec<Vec<Cell>> = rows.map(cells).collect();
        Table { id, title, heads: columns.iter().map(|column| column.head).collect(), found: rows.len(), rows }
    }

    pub(crate) fn truncate(&mut self, most: usize) {
        self.rows.truncate(most);
    }

    #[must_use]
    pub(crate) fn first(mut self, most: Option<usize>) -> Self {
        self.truncate(most.unwrap_or(usize::MAX));
        self
    }

    /// What it answers; its title where nothing more is known.
    pub(crate) fn question(&self) -> &'static str {
        QUESTIONS.iter().find(|(known, _)| *known == self.id).map_or(self.title, |(_, question)| question)
    }

    /// The first rows alone, of which nothing says how many there are.
    #[must_use]
    pub(crate) fn top(self, most: usize) -> Self {
        let table = self.first(Some(most));
        Table { found: table.rows.len(), ..table }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes the table below its title, after an empty line, and how many rows were left out.
    pub(crate) fn write(&self, screen: &Screen, out: &mut impl Write) -> io::Result<()> {
        if self.is_empty() { Ok(()) } else { write!(out, "\n{}\n{}", self.title, self.text(screen.width)) }
    }

    /// The table in lines of at most `width`: titles, rows, how many rows were left out.
    pub(crate) fn text(&self, width: Option<usize>) -> String {
        let width = width.unwrap_or(usize::MAX);
        let is_rest = |head: &Head| matches!(head.fit, Fit::Rest(_) | Fit::Frames);
        let (rest, mut columns): (Vec<Shown>, Vec<Shown>) =
            (0..self.heads.len()).map(|at| self.column(at)).partition(|column| is_rest(&column.head));
        let mut text = match rest.into_iter().next() {
            None => {
                drop_to(&mut columns, width);
                layout(&columns, self.rows.len()).concat()
            }
            Some(Shown { head: head @ Head { fit: Fit::Rest(least), .. }, cells }) => {
                drop_to(&mut columns, width.saturating_sub(least));
                let room = width.saturating_sub(total(&columns) + 1).max(least);
                columns.push(Shown { head, cells: cells.iter().map(|cell| shorten_frame(cell, room)).collect() });
                layout(&columns, self.rows.len()).concat()
            }
            Some(frames) => self.with_frames(columns, frames.head, width),
        };
        match self.found - self.rows.len() {
            0 => {}
            more => text.push_str(&format!("… and {} more\n", count(more as u64))),
        }
        text
    }

    fn column(&self, at: usize) -> Shown {
        let head = self.heads[at];
        let cell = |row: &Vec<Cell>| match head.fit {
            Fit::Short(most) => shorten_right(&row[at].shown(), most),
            _ => row[at].shown(),
        };
        Shown { head, cells: self.rows.iter().map(cell).collect() }
    }

    /// The table with frames beside the numbers, or below them.
    fn with_frames(&self, mut columns: Vec<Shown>, head: Head, width: usize) -> String {
        let at = self.heads.iter().position(|head| head.fit == Fit::Frames).unwrap_or_default();
        let frames = |row: &Vec<Cell>| if let Cell::Frames(frames) = &row[at] { frames.clone() } else { vec![] };
        let frames: Vec<Vec<String>> = self.rows.iter().map(frames).collect();
        let whole = frames.iter().flatten().filter_map(|frame| least_width(frame));
        let needed = whole.chain([head.title.len()]).max().unwrap_or(0);
        let shorten = |frames: &Vec<String>, room| -> Vec<String> {
            frames.iter().map(|frame| shorten_frame(frame, room)).collect()
        };
        if let Some(room) = width.checked_sub(total(&columns) + 2).filter(|room| *room >= needed) {
            let gap = gap(&columns);
            let cells = frames.iter().map(|frames| shorten(frames, room).join("\n")).collect();
            columns.push(Shown { head, cells });
            return layout(&columns, self.rows.len()).join(gap);
        }
        drop_to(&mut columns, width);
        let mut rows = layout(&columns, self.rows.len());
        for (row, frames) in rows.iter_mut().skip(1).zip(&frames) {
            let frames = shorten(frames, width.saturating_sub(INDENT.len()));
            frames.iter().for_each(|frame| row.push_str(&format!("{INDENT}{frame}\n")));
        }
        rows.join(gap(&columns))
    }

    /// The names of its columns for programs.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.heads.iter().map(|head| head.id)
    }

    /// What programs get of each row.
    pub(crate) fn plain(&self) -> impl Iterator<Item = Vec<String>> + '_ {
        self.rows.iter().map(|row| row.iter().map(Cell::plain).collect())
    }

    /// The places of the columns on a page.
    fn on_page(&self) -> impl Iterator<Item = usize> + '_ {
        let first = self.heads.iter().position(|head| head.leads);
        first.into_iter().chain((0..self.heads.len()).filter(move |at| Some(*at) != first))
    }

    pub(crate) fn titles(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.on_page().map(|at| self.heads[at].title)
    }

    /// The first rows on a page.
    pub(crate) fn shown(&self, most: usize) -> impl Iterator<Item = impl Iterator<Item = String> + '_> {
        self.rows.iter().take(most).map(|row| self.on_page().map(|at| row[at].shown()))
    }
}

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Titled {
            title: &'static str,
            /// The name of a unit, or `text`.
            unit: &'static str,
            help: &'static str,
        }
        let titled = |at: usize| {
            let Head { title, meaning, .. } = self.heads[at];
            let help = if meaning.is_empty() { help(title) } else { meaning };
            Titled { title, unit: self.rows.iter().find_map(|row| row[at].unit()).unwrap_or("text"), help }
        };
        let row = |row: &'_ Vec<Cell>| self.on_page().map(|at| row[at].clone()).collect::<Vec<Cell>>();
        let mut table = serializer.serialize_struct("Table", 5)?;
        table.serialize_field("title", self.title)?;
        table.serialize_field("question", self.question())?;
        table.serialize_field("columns", &self.on_page().map(titled).collect::<Vec<_>>())?;
        table.serialize_field("rows", &self.rows.iter().map(row).collect::<Vec<_>>())?;
        table.serialize_field("found", &self.found)?;
        table.end()
    }
}

/// Writes rows for spreadsheets: numbers without units (the header names them), empty cells for unknown values. Rows of several tables have the
/// table's name first, and are empty in the columns of others.
pub(crate) fn write_csv(tables: &[Table], out: &mut impl Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    let mut ids: Vec<&str> = Vec::new();
    for id in tables.iter().flat_map(Table::ids) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let kind = |name: &'static str| (tables.len() > 1).then_some(name);
    writer.write_record(kind("row").into_iter().chain(ids.iter().copied()))?;
    for table in tables {
        let places: Vec<Option<usize>> = ids.iter().map(|id| table.ids().position(|own| own == *id)).collect();
        for row in table.plain() {
            let cells = places.iter().map(|at| at.map_or("", |at| &*row[at]));
            writer.write_record(kind(table.id).into_iter().chain(cells))?;
        }
    }
    writer.flush()
}

/// A column as people see it. A cell may have several lines.
struct Shown {
    head: Head,
    cells: Vec<String>,
}

impl Shown {
    /// The width, including one blank on either side.
    fn width(&self) -> usize {
        let length = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        self.cells.iter().map(|cell| length(cell)).max().unwrap_or(0).max(length(self.head.title)) + 2
    }
}

fn total(columns: &[Shown]) -> usize {
    columns.iter().map(Shown::width).sum()
}

/// Drops columns by rank until the others fit `width`, or until no column with a rank is left.
fn drop_to(columns: &mut Vec<Shown>, width: usize) {
    while total(columns) > width {
        let rank = |(at, column): (usize, &Shown)| match column.head.fit {
            Fit::Drop(rank) => Some((rank, at)),
            _ => None,
        };
        let Some((_, at)) = columns.iter().enumerate().filter_map(rank).min() else { break };
        columns.remove(at);
    }
}

/// The lines of the titles, then those of each row.
fn layout(columns: &[Shown], rows: usize) -> Vec<String> {
    let mut layout = comfy_table::Table::new();
    layout.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let cell = |text: &str, is_right: bool| {
        comfy_table::Cell::new(text).set_alignment(if is_right { CellAlignment::Right } else { CellAlignment::Left })
    };
    layout.set_header(columns.iter().map(|Shown { head, .. }| cell(head.title, head.is_right.1)));
    for row in 0..rows {
        layout.add_row(columns.iter().map(|Shown { head, cells }| cell(&cells[row], head.is_right.0)));
    }
    let mut lines = layout.lines().map(|line| format!("{}\n", line.trim_end()));
    let height = |row: usize| columns.iter().map(|column| column.cells[row].lines().count()).max().unwrap_or(1).max(1);
    std::iter::once(1)
        .chain((0..rows).map(height))
        .map(|lines_of_row| lines.by_ref().take(lines_of_row).collect())
        .collect()
}

/// What separates rows: an empty line if their numbers have several lines.
fn gap(columns: &[Shown]) -> &'static str {
    if columns.iter().flat_map(|column| &column.cells).any(|cell| cell.contains('\n')) { "\n" } else { "" }
}

pub(super) fn keep<T>(items: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    items.retain(|_| kept.next() == Some(&true));
}

/// What the columns of all tables mean, by their header.
const MEANINGS: &[(&str, &str)] = &[
    ("#", "the order of the answer"),
    ("added", "how long after the second last rank the last one came"),
    ("GPU compute", "how long work of it that is no collective ran, a mean over the ranks"),
    ("on the CPU", "how long its own slice is, on the rank on which it is longest; its work on the GPU may end later"),
    (
        "busbw (GB/s)",
        "bus bandwidth as nccl-tests defines it, of the whole kernels, waiting included; 1 GB is 10⁹ bytes",
    ),
    ("busbw of transfer (GB/s)", "bus bandwidth as nccl-tests defines it, without waiting; 1 GB is 10⁹ bytes"),
    ("caused", "how long other ranks waited for kernels of this stack where these came last"),
    ("collective", "what the kernels do"),
    ("collectives", "how long collectives of it ran, as a share of the GPU span"),
    ("compute", "how long work of it that is no collective ran; as a share, of the GPU span"),
    ("count", "how many kernels were launched from there"),
    ("exposed", "how long no compute kernel ran beside them on their GPU"),
    (
        "GPU busy",
        "with any work: as a share of the GPU span, also of other steps; as a time, of this step, a mean over the ranks",
    ),
    ("GPU span", "from the first start to the last end of what was launched in the step"),
    ("GPU time", "how long these kernels ran, in sum"),
    ("late", "how often a rank was late there"),
    ("max", "the longest kernel"),
    ("mean", "of the kernels' times"),
    ("mostly for", "the rank that the others waited for most, and its share of that waiting"),
    ("of window", "in which any of its kernels ran, as a share of what is measured, over its GPUs"),
    ("on the path", "how long it is on the critical path, in a mean step if there are steps"),
    ("of all", "of the time from the first start to the last end"),
    ("length", "how long its own slice is; its work on the GPU may end later"),
    ("left", "how long the job takes then"),
    ("rule", "what is different in the rerun: nccl-stacks what-if TRACES --if RULE"),
    ("share", "of the time that is measured, over its GPUs"),
    ("transfer", "how long they ran without waiting"),
    (
        "without it",
        "how much shorter a rerun is in which it takes no time on any rank, as a share: less than its own where another path is nearly as long",
    ),
    ("would save", "how much earlier the job ends in a rerun with this rule alone; what several save does not add up"),
    ("waited", "how long of that they waited for a rank that came later"),
];

/// The question of each table on a page, by its name.
const QUESTIONS: &[(&str, &str)] = &[
    ("bandwidths", "How fast is data moved, by collective and size?"),
    ("bytes", "How many bytes does each rank give to which other?"),
    ("changes", "Which code costs more or less than before?"),
    ("channels", "Is a channel slower than the others of its kernel, or has it more to move?"),
    ("communicators", "Which communicators are there, and how many of their ranks are in these files?"),
    ("critical", "What does the length of the job consist of?"),
    ("entries", "Which rank enters NCCL after its peers, and by how much?"),
    ("events", "What else did NCCL's profiler see?"),
    ("files", "What was read from which file, and what was left out?"),
    ("flows", "Did each run do the steps that were planned?"),
    ("groups", "In which groups are operations, and which group takes longest?"),
    ("hung", "Which group waits, and for whom?"),
    ("links", "Which link is slow?"),
    ("operations", "Which operations were recorded, how long did they take, and how fast were they?"),
    ("pipeline", "What do the stages of the pipeline compute, and for how long are they idle?"),
    ("planned", "How many bytes may each rank give to which other?"),
    ("proxies", "What do the network's threads wait for?"),
    ("ranks", "Which rank waits, and for which do others wait?"),
    ("runs", "What differs over all ranks?"),
    ("sides", "What differs over all that was measured?"),
    ("spans", "In which span of time do ranks wait longest?"),
    ("stacks", "Which code costs most?"),
    ("steps", "Which step takes longest, and what does it consist of?"),
    ("waits", "In which code do ranks wait?"),
    (
        "what-if",
        "What would the job take if something were different? Each row is a rerun with one rule; what several save does not add up.",
    ),
];

fn help(title: &str) -> &'static str {
    MEANINGS.iter().find(|(known, _)| *known == title).map_or("", |(_, meaning)| meaning)
}
