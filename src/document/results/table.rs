//! A table for people: numbers aligned right, long texts on several lines if the screen is narrow. If texts would get only a few letters
//! per line, each row becomes a record with a line for each column.
//!
//! The columns of a named query have titles and units. A column of details is left out, and one in which all cells are empty.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table as Layout, TableStyle};
use rusqlite::types::ValueRef;

use super::Shown;
use super::unit::{Unit, raw};
use crate::document::format::visible;
use crate::document::table::keep;
use crate::time::Ns;

/// Blanks between columns.
const GAP: usize = 2;

/// The least width of a column of long texts.
const LEAST_TEXT: usize = 20;

pub(super) struct Table {
    columns: Vec<String>,
    /// For each column, the unit if a query declares it.
    units: Vec<Option<Unit>>,
    /// What times are shown since.
    origin: Ns,
    rows: Vec<Vec<String>>,
    /// For each column, whether it has only numbers and NULL so far.
    numeric: Vec<bool>,
    width: Option<u16>,
}

impl Table {
    pub(super) fn new(columns: &[&str], shown: &Shown, width: Option<u16>) -> Self {
        let titled = |name: &&str| shown.columns.iter().find(|column| column.name == *name);
        let title =
            |name: &&str| titled(name).map_or_else(|| visible(name).into_owned(), |column| column.title.clone());
        Table {
            units: columns.iter().map(|name| titled(name).map(|column| column.unit)).collect(),
            numeric: vec![true; columns.len()],
            columns: columns.iter().map(title).collect(),
            origin: shown.origin,
            rows: Vec::new(),
            width,
        }
    }

    pub(super) fn row(&mut self, values: &[ValueRef<'_>]) {
        for (numeric, value) in self.numeric.iter_mut().zip(values) {
            *numeric &= matches!(value, ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_));
        }
        let cell = |(value, unit): (&ValueRef<'_>, &Option<Unit>)| {
            unit.map_or_else(|| raw(*value), |unit| unit.show(*value, self.origin))
        };
        self.rows.push(values.iter().zip(&self.units).map(cell).collect());
    }

    /// Leaves out the columns of details, and titled columns without a value.
    fn drop_empty(&mut self) {
        let is_shown = |at: usize| match self.units[at] {
            Some(Unit::Detail) => false,
            Some(_) => self.rows.iter().any(|row| !row[at].is_empty()),
            None => true,
        };
        let is_shown: Vec<bool> = (0..self.units.len()).map(is_shown).collect();
        keep(&mut self.columns, &is_shown);
        keep(&mut self.numeric, &is_shown);
        self.rows.iter_mut().for_each(|row| keep(row, &is_shown));
    }

    pub(super) fn text(mut self) -> String {
        self.drop_empty();
        match self.width {
            Some(width) if self.least_width() > usize::from(width) => self.records(width),
            _ => self.table(),
        }
    }

    /// The least readable width: numbers and column names unbroken, texts with a few words per line.
    fn least_width(&self) -> usize {
        let length = |text: &String| text.chars().count();
        let least = |i: usize| {
            let content = self.rows.iter().filter_map(|row| row.get(i)).map(length).max().unwrap_or(0);
            let content = if self.numeric[i] { content } else { content.min(LEAST_TEXT) };
            content.max(length(&self.columns[i])) + GAP
        };
        (0..self.columns.len()).map(least).sum::<usize>().saturating_sub(GAP)
    }

    fn table(&self) -> String {
        let style = NOTHING.header_separator(LineStyle::none().fill('─'));
        let mut layout = layout(style, self.width);
        layout.set_header(self.cells(&self.columns));
        for row in &self.rows {
            layout.add_row(self.cells(row));
        }
        for (column, numeric) in layout.column_iter_mut().zip(&self.numeric) {
            if *numeric {
                // A number broken over two lines would read as two.
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        lines(layout)
    }

    fn records(&self, width: u16) -> String {
        let record = |(i, row): (usize, &Vec<String>)| {
            let mut layout = layout(NOTHING, Some(width));
            for (name, value) in self.columns.iter().zip(row) {
                layout.add_row([name, value]);
            }
            layout.column_mut(0).map(|names| names.set_constraint(ColumnConstraint::ContentWidth));
            format!("── row {} ──\n{}", i + 1, lines(layout))
        };
        self.rows.iter().enumerate().map(record).collect()
    }

    fn cells(&self, texts: &[String]) -> Vec<Cell> {
        let align = |numeric: bool| if numeric { CellAlignment::Right } else { CellAlignment::Left };
        texts.iter().zip(&self.numeric).map(|(text, numeric)| Cell::new(text).set_alignment(align(*numeric))).collect()
    }
}

fn layout(style: TableStyle, width: Option<u16>) -> Layout {
    let mut layout = Layout::new();
    layout.load_style(style);
    match width {
        Some(width) => layout.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
        None => layout.set_content_arrangement(ContentArrangement::Disabled),
    };
    layout
}

/// The lines of a layout, with columns [`GAP`] apart.
fn lines(mut layout: Layout) -> String {
    let last = layout.column_count().saturating_sub(1);
    for (i, column) in layout.column_iter_mut().enumerate() {
        column.set_padding((0, if i == last { 0 } else { GAP as u16 }));
    }
    layout.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
