//! A table for people: numbers aligned right, long texts on several lines if the screen is narrow. If texts would get only a few letters
//! per line, each row becomes a record with a line for each column.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table as Layout, TableStyle};
use rusqlite::types::ValueRef;

use super::blob::hexadecimal;
use crate::report::format::visible;

/// Blanks between columns.
const GAP: usize = 2;

/// The least width of a column of long texts.
const LEAST_TEXT: usize = 20;

pub(super) struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    /// For each column, whether it has only numbers and NULL so far.
    numeric: Vec<bool>,
    width: Option<u16>,
}

impl Table {
    pub(super) fn new(columns: &[&str], width: Option<u16>) -> Self {
        let columns: Vec<String> = columns.iter().map(|name| visible(name).into_owned()).collect();
        Table { numeric: vec![true; columns.len()], columns, rows: Vec::new(), width }
    }

    pub(super) fn row(&mut self, values: &[ValueRef<'_>]) {
        for (numeric, value) in self.numeric.iter_mut().zip(values) {
            *numeric &= matches!(value, ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_));
        }
        self.rows.push(values.iter().map(|value| shown(*value)).collect());
    }

    pub(super) fn text(&self) -> String {
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

fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "[NULL]".to_owned(),
        ValueRef::Integer(value) => value.to_string(),
        ValueRef::Real(value) => format!("{value:?}"),
        ValueRef::Text(text) => visible(&String::from_utf8_lossy(text)).into_owned(),
        ValueRef::Blob(bytes) => hexadecimal(bytes),
    }
}
