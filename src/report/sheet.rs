//! The tables of a page: values in columns that have a title, a unit and a meaning, from the same declarations as the tables of the other forms.

use serde::{Serialize, Serializer};

use super::column::{Cell, Column};

/// A table of a page.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Sheet {
    pub(crate) title: &'static str,
    columns: Vec<Head>,
    rows: Vec<Vec<Cell>>,
    /// The number of rows, including those left out.
    pub(crate) found: usize,
}

#[derive(Debug, Clone, Serialize)]
struct Head {
    title: &'static str,
    /// `count`, `ns`, `share`, `bytes`, `gb_per_s` or `text`.
    unit: &'static str,
    help: &'static str,
}

impl Sheet {
    /// The columns that people see, after a column of names.
    pub(crate) fn named<'r, Row: 'r, Context>(
        title: &'static str,
        name: &'static str,
        columns: &[Column<Row, Context>],
        rows: impl Iterator<Item = (String, &'r Row, Context)>,
    ) -> Self {
        let shown = || columns.iter().filter(|column| column.is_shown());
        let cells = |(name, row, context): (String, &Row, Context)| {
            std::iter::once(Cell::Text(name)).chain(shown().map(|column| column.cell(row, &context))).collect()
        };
        let heads = std::iter::once((name, "")).chain(shown().map(|column| (column.header, column.meaning)));
        Sheet::of_cells(title, heads, rows.map(cells).collect())
    }

    /// The columns that people see, of which the first names the row.
    pub(crate) fn from_rows<'r, Row: 'r>(
        title: &'static str,
        columns: &[Column<Row>],
        rows: impl Iterator<Item = &'r Row>,
    ) -> Self {
        let shown = || columns.iter().filter(|column| column.is_shown());
        let cells = |row: &Row| shown().map(|column| column.cell(row, &())).collect();
        let heads = shown().map(|column| (column.header, column.meaning));
        Sheet::of_cells(title, heads, rows.map(cells).collect())
    }

    /// Columns without any value are left out. Each has its header and, if it has one of its own, its meaning.
    fn of_cells(
        title: &'static str,
        heads: impl Iterator<Item = (&'static str, &'static str)>,
        rows: Vec<Vec<Cell>>,
    ) -> Self {
        let has_value =
            |at: usize| rows.iter().any(|row| row[at] != Cell::Empty && row[at] != Cell::Text(String::new()));
        let unit = |at: usize| rows.iter().find_map(|row| row[at].unit()).unwrap_or("text");
        let (kept, columns): (Vec<usize>, Vec<Head>) = heads
            .enumerate()
            .filter(|(at, _)| *at == 0 || has_value(*at))
            .map(|(at, (title, meaning))| {
                let help = if meaning.is_empty() { help(title) } else { meaning };
                (at, Head { title, unit: unit(at), help })
            })
            .unzip();
        let found = rows.len();
        let rows = rows.into_iter().map(|row| {
            let mut row: Vec<Option<Cell>> = row.into_iter().map(Some).collect();
            kept.iter().filter_map(|at| row[*at].take()).collect()
        });
        Sheet { title, columns, rows: rows.collect(), found }
    }

    /// The same, of a table of this many rows.
    #[must_use]
    pub(crate) fn found(self, found: usize) -> Self {
        Sheet { found, ..self }
    }

    /// The same with a last column of texts.
    #[must_use]
    pub(crate) fn with(mut self, title: &'static str, texts: impl Iterator<Item = String>) -> Self {
        self.columns.push(Head { title, unit: "text", help: help(title) });
        self.rows.iter_mut().zip(texts).for_each(|(row, text)| row.push(Cell::Text(text)));
        self
    }

    /// Keeps the first rows.
    pub(crate) fn truncate(&mut self, most: usize) {
        self.rows.truncate(most);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn titles(&self) -> impl Iterator<Item = &'static str> {
        self.columns.iter().map(|column| column.title)
    }

    /// The first rows as people see them.
    pub(crate) fn shown(&self, most: usize) -> impl Iterator<Item = impl Iterator<Item = String> + '_> {
        self.rows.iter().take(most).map(|row| row.iter().map(Cell::shown))
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::Empty | Cell::Unknown => serializer.serialize_none(),
            Cell::Count(n) | Cell::Bytes(n) => serializer.serialize_u64(*n),
            Cell::Time(time) => serializer.serialize_i64(time.0),
            Cell::Nanos(number) | Cell::Share(number) | Cell::Bandwidth(number) => serializer.serialize_f64(*number),
            Cell::Text(text) | Cell::Both(text, _) => serializer.serialize_str(text),
        }
    }
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

fn help(title: &str) -> &'static str {
    MEANINGS.iter().find(|(known, _)| *known == title).map_or("", |(_, meaning)| meaning)
}
