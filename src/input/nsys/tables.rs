//! Which tables and columns a database has, and reading their rows.
//!
//! Only plain tables are read, and only columns that are stored: a view or a computed column may be a program that never ends. A file
//! has fewer rows than bytes, so more rows than that come from a damaged tree of pages.

use std::collections::{HashMap, HashSet};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result, Row, ToSql};

/// A table of the export, with the columns that are read. Those that it does not have are null.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) columns: &'static [&'static str],
    /// The column that says which process a row is of: a `globalPid` or `globalTid`. `None`: rows of all processes are read.
    pub(super) process: Option<&'static str>,
}

/// The bits of a `globalTid` below those of the process.
pub(super) const THREAD_BITS: u32 = 24;

/// The tables of a database and their columns.
#[derive(Debug)]
pub(super) struct Tables(HashMap<String, HashSet<String>>);

const LIST: &str = "SELECT t.name, c.name FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c \
                    WHERE t.type = 'table' AND t.sql NOT LIKE 'CREATE VIRTUAL%'";

impl Tables {
    pub(super) fn of(connection: &Connection) -> Result<Self> {
        let mut tables: HashMap<String, HashSet<String>> = HashMap::new();
        let mut statement = connection.prepare(LIST)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            tables.entry(row.get(0)?).or_default().insert(row.get(1)?);
        }
        Ok(Tables(tables))
    }

    pub(super) fn has(&self, table: &str) -> bool {
        self.0.contains_key(table)
    }

    fn has_column(&self, table: &str, column: &str) -> bool {
        self.0.get(table).is_some_and(|columns| columns.contains(column))
    }

    /// The statement that reads a table, in the order of the file; with the number of the process as its parameter if one is asked
    /// for. `None` if there is no such table.
    fn select(&self, table: &Table, of_process: bool) -> Option<String> {
        let there = self.0.get(table.name)?;
        let column = |name: &&str| if there.contains(*name) { format!("\"{name}\"") } else { "NULL".to_owned() };
        let columns: Vec<String> = table.columns.iter().map(column).collect();
        let of = table.process.filter(|_| of_process);
        // Exports of before 2020 say of no kernel which process it is of. Then all belong to each.
        let of = of.filter(|column| there.contains(*column));
        let condition = of.map_or(String::new(), |column| format!(" WHERE \"{column}\" >> {THREAD_BITS} = ?1"));
        Some(format!("SELECT {} FROM \"{}\"{condition} ORDER BY rowid", columns.join(", "), table.name))
    }

    /// Calls `each` with every row of a table, of one process if one is given, until that returns false. `bytes` is the file's size.
    ///
    /// # Errors
    /// Those of SQLite and of `each`.
    pub(super) fn each(
        &self,
        connection: &Connection,
        table: &Table,
        process: Option<i64>,
        bytes: u64,
        mut each: impl FnMut(Fields<'_>) -> Result<bool>,
    ) -> Result<()> {
        let Some(select) = self.select(table, process.is_some()) else { return Ok(()) };
        let mut statement = connection.prepare(&select)?;
        let process = process.filter(|_| statement.parameter_count() > 0);
        let parameters: &[&dyn ToSql] = match &process {
            Some(process) => &[process],
            None => &[],
        };
        let (mut rows, mut count) = (statement.query(parameters)?, 0);
        while let Some(row) = rows.next()? {
            count += 1;
            if count > bytes {
                return Err(corrupt(&format!("{} has more rows than the file has bytes", table.name)));
            }
            if !each(Fields(row))? {
                break;
            }
        }
        Ok(())
    }

    /// The numbers of the processes of a table's rows; none if it does not say.
    pub(super) fn processes(&self, connection: &Connection, table: &Table) -> Result<Vec<i64>> {
        let Some(column) = table.process.filter(|column| self.has_column(table.name, column)) else {
            return Ok(Vec::new());
        };
        let sql = format!(
            "SELECT DISTINCT \"{column}\" >> {THREAD_BITS} FROM \"{}\" WHERE \"{column}\" IS NOT NULL",
            table.name
        );
        connection.prepare(&sql)?.query_map([], |row| row.get(0))?.collect()
    }

    /// At most how many rows a table has: its highest row number.
    pub(super) fn rows(&self, connection: &Connection, table: &Table) -> Result<u64> {
        if !self.has(table.name) {
            return Ok(0);
        }
        let sql = format!("SELECT max(rowid) FROM \"{}\"", table.name);
        let highest: Option<i64> = connection.query_row(&sql, [], |row| row.get(0))?;
        Ok(highest.and_then(|highest| u64::try_from(highest).ok()).unwrap_or(0))
    }
}

/// SQLite's error for a damaged file, with a message of our own.
fn corrupt(message: &str) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT), Some(message.to_owned()))
}

/// The fields of a row, by their place among [`Table::columns`]. What is not of the type that is asked for counts as null.
pub(super) struct Fields<'r>(&'r Row<'r>);

impl<'r> Fields<'r> {
    pub(super) fn number(&self, at: usize) -> Option<i64> {
        match self.0.get_ref(at) {
            Ok(ValueRef::Integer(number)) => Some(number),
            _ => None,
        }
    }

    pub(super) fn real(&self, at: usize) -> Option<f64> {
        match self.0.get_ref(at) {
            Ok(ValueRef::Real(number)) => Some(number),
            _ => None,
        }
    }

    /// The bytes of a text or of binary data; nothing if they are empty.
    pub(super) fn bytes(&self, at: usize) -> Option<&'r [u8]> {
        match self.0.get_ref(at) {
            Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) if !bytes.is_empty() => Some(bytes),
            _ => None,
        }
    }
}
