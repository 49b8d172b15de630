//! The definition of a table: its rows, its columns, and how the rows with a value are found.
//!
//! Tables are declared as data (`tables.rs`, `launch_tables.rs`, `absent.rs`); [`super::engine`] runs queries over them.

use std::ffi::CStr;

use rusqlite::Result;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::vtab::Context;

use super::source::Source;
use crate::id::SliceId;
use crate::store::strings::StringId;

/// One value of a table: a column of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell<'a> {
    Null,
    Int(i64),
    /// A floating-point number.
    Real(f64),
    Text(&'a str),
    /// A text made for this cell.
    Owned(String),
}

impl<'a> From<Option<i64>> for Cell<'a> {
    fn from(value: Option<i64>) -> Self {
        value.map_or(Cell::Null, Cell::Int)
    }
}

impl<'a> From<Option<&'a str>> for Cell<'a> {
    fn from(value: Option<&'a str>) -> Self {
        value.map_or(Cell::Null, Cell::Text)
    }
}

impl Cell<'_> {
    /// Sets the value as SQLite's result. Fails if SQLite cannot take it.
    pub(super) fn set_result(self, context: &mut Context) -> Result<()> {
        match self {
            Cell::Null => Ok(()),
            Cell::Int(value) => context.set_result(value),
            Cell::Real(value) => context.set_result(value),
            Cell::Text(text) => context.set_result(ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes()))),
            Cell::Owned(text) => context.set_result(text),
        }
    }
}

/// How the rows with a value are found.
pub(super) enum Lookup {
    /// By a scan of all rows.
    Scan,
    /// The value is the row's number.
    Row,
    /// Integers that never decrease from row to row.
    Sorted,
    Integer,
    /// The same, with many rows per value: the maximum number of distinct values.
    FewValues(fn(&Source) -> usize),
    /// In a table of slices: integers for these slices, NULL for all others.
    IntegerIn(fn(&Source) -> &[SliceId]),
    /// Texts of the store: the id of the text in a row.
    Text(fn(&Source, usize) -> StringId),
}

pub struct Column {
    pub name: &'static str,
    /// Its declared type in SQLite; empty if its values have several types.
    pub sql_type: &'static str,
    /// Whether `SELECT *` leaves it out: a column that PerfettoSQL does not have, for the project's own queries.
    pub hidden: bool,
    pub(super) lookup: Lookup,
    /// Its value in a row.
    pub cell: fn(&Source, usize) -> Cell<'_>,
}

/// The value of a column in a row.
pub(super) type CellOf = fn(&Source, usize) -> Cell<'_>;

pub(super) const fn int(name: &'static str, lookup: Lookup, cell: CellOf) -> Column {
    Column { name, sql_type: "INTEGER", hidden: false, lookup, cell }
}

/// A column of texts, found by a scan.
pub(super) const fn text(name: &'static str, cell: CellOf) -> Column {
    Column { name, sql_type: "TEXT", hidden: false, lookup: Lookup::Scan, cell }
}

/// A column of floating-point numbers.
pub(super) const fn real(name: &'static str, cell: CellOf) -> Column {
    Column { name, sql_type: "REAL", hidden: false, lookup: Lookup::Scan, cell }
}

/// A column of Perfetto that is always NULL here.
pub(super) const fn null(name: &'static str) -> Column {
    int(name, Lookup::Scan, |_, _| Cell::Null)
}

/// The column with the row's number.
pub(super) const fn id() -> Column {
    int("id", Lookup::Row, |_, i| Cell::Int(i as i64))
}

/// An id or a time; NULL if unknown.
pub(super) fn known<T: Into<i64>>(value: Option<T>) -> Cell<'static> {
    value.map(Into::into).into()
}

/// A count or a size; NULL if unknown, or too large for SQLite.
pub(super) fn size(value: Option<u64>) -> Cell<'static> {
    value.and_then(|value| i64::try_from(value).ok()).into()
}

/// A table. Its rows are numbered from 0.
pub struct Table {
    pub(super) name: &'static CStr,
    pub rows: fn(&Source) -> usize,
    /// Its columns, in order.
    pub columns: &'static [Column],
}

impl Table {
    pub fn name(&self) -> &'static str {
        self.name.to_str().expect("the names of all tables are ASCII literals")
    }

    /// The key: the first column if the rows are sorted by it, otherwise `None`.
    pub fn key(&self) -> Option<&'static Column> {
        self.columns.first().filter(|column| matches!(column.lookup, Lookup::Row | Lookup::Sorted))
    }

    /// The statement that declares it to SQLite.
    pub(super) fn declaration(&self) -> String {
        let columns: Vec<String> = self
            .columns
            .iter()
            .map(|c| format!("\"{}\" {}{}", c.name, c.sql_type, if c.hidden { " HIDDEN" } else { "" }))
            .collect();
        format!("CREATE TABLE t({})", columns.join(", "))
    }
}
