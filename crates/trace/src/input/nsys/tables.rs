//! Which tables and columns a database has, and reading their rows.
//!
//! Only plain tables are read, and only columns that are stored: a view or a computed column may be a program that never ends. A file
//! has fewer rows than bytes, so more rows than that come from a damaged tree of pages; so does more text. Rows of other processes are
//! left out here and not by SQLite, so that they count, too.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, HashSet};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result, Row};

/// A table of the export, with the columns that are read; missing ones are null.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) columns: &'static [&'static str],
    /// The column that holds the process of a row: a `globalPid` or `globalTid`. `None`: the rows of all processes are read.
    pub(super) process: Option<&'static str>,
}

/// The lowest bits of a `globalTid`, below the process.
pub(super) const THREAD_BITS: u32 = 24;

#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    /// Its number, with the bits of its machine.
    pub(super) id: i64,
    /// Whether there is no other, so that rows which name no process are its own.
    pub(super) is_only: bool,
}

/// SQLite gives texts that are stored in UTF-16 with up to one and a half times as many bytes.
pub(super) const TEXT_FACTOR: u64 = 2;

#[derive(Debug)]
pub(super) struct Database {
    pub(super) connection: Connection,
    /// The columns of each table.
    tables: HashMap<String, HashSet<String>>,
    /// The file's size.
    pub(super) bytes: u64,
}

const LIST: &str = "SELECT t.name, c.name FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c \
                    WHERE t.type = 'table' AND t.sql NOT LIKE 'CREATE VIRTUAL%'";

impl Database {
    pub(super) fn read(connection: Connection, bytes: u64) -> Result<Self> {
        let mut tables: HashMap<String, HashSet<String>> = HashMap::new();
        connection.prepare(LIST)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.try_for_each(|row| {
            let (table, column) = row?;
            tables.entry(table).or_default().insert(column);
            Ok::<_, rusqlite::Error>(())
        })?;
        Ok(Database { connection, tables, bytes })
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.tables.keys().map(String::as_str).collect()
    }

    pub(super) fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    /// The column with the process of a row. Before 2020 kernels had none: they belong to every process.
    fn process(&self, table: &Table) -> Option<&'static str> {
        table.process.filter(|column| self.tables.get(table.name).is_some_and(|columns| columns.contains(*column)))
    }

    /// The statement that reads a table, in the order of the file; the process comes after the columns. `None` if there is no such table.
    fn select(&self, table: &Table) -> Option<String> {
        let there = self.tables.get(table.name)?;
        let column = |name: &str| if there.contains(name) { format!("\"{name}\"") } else { "NULL".to_owned() };
        let columns: Vec<String> = table.columns.iter().copied().chain(self.process(table)).map(column).collect();
        Some(format!("SELECT {} FROM \"{}\" ORDER BY rowid", columns.join(", "), table.name))
    }

    /// Calls `each` with every row of a table, of one process if one is given, until that returns false. Returns how many rows were left out because they name no process, and there are several.
    pub(super) fn each(
        &self,
        table: &Table,
        owner: Option<Owner>,
        mut each: impl FnMut(Fields<'_>) -> Result<bool>,
    ) -> Result<u64> {
        let Some(select) = self.select(table) else { return Ok(0) };
        let owner = owner.filter(|_| self.process(table).is_some());
        let mut statement = self.connection.prepare(&select)?;
        let (mut rows, mut count, mut of_none, text) = (statement.query([])?, 0, 0, Cell::new(0));
        while let Some(row) = rows.next()? {
            count += 1;
            if count > self.bytes {
                return Err(corrupt(&format!("{} has more rows than the file has bytes", table.name)));
            }
            let fields = Fields { row, text: &text };
            let is_own = match (owner, fields.process(table)) {
                (None, _) => true,
                (Some(owner), Some(id)) => id == owner.id,
                (Some(owner), None) => owner.is_only,
            };
            of_none += u64::from(!is_own && fields.process(table).is_none());
            if is_own && !each(fields)? {
                break;
            }
            if text.get() > self.bytes.saturating_mul(TEXT_FACTOR) {
                return Err(corrupt(&format!("{} has more text than the file has bytes", table.name)));
            }
        }
        Ok(of_none)
    }

    /// The numbers of the processes of a table's rows; empty if it has no column for them.
    pub(super) fn processes(&self, table: &Table) -> Result<BTreeSet<i64>> {
        let mut found = BTreeSet::new();
        let only_process = Table { columns: &[], ..*table };
        if self.process(table).is_some() {
            self.each(&only_process, None, |row| {
                found.extend(row.process(&only_process));
                Ok(true)
            })?;
        }
        Ok(found)
    }

    /// At most how many rows a table has: its highest row number.
    pub(super) fn rows(&self, table: &Table) -> Result<u64> {
        if !self.has(table.name) {
            return Ok(0);
        }
        let sql = format!("SELECT max(rowid) FROM \"{}\"", table.name);
        let highest: Option<i64> = self.connection.query_row(&sql, [], |row| row.get(0))?;
        Ok(highest.and_then(|highest| u64::try_from(highest).ok()).unwrap_or(0))
    }
}

/// SQLite's error for a damaged file, with a message of our own.
pub(super) fn corrupt(message: &str) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT), Some(message.to_owned()))
}

/// The fields of a row, by their place among [`Table::columns`]. A value of another type than the one asked for counts as null.
pub(super) struct Fields<'r> {
    row: &'r Row<'r>,
    /// Counts the bytes of the texts that are asked for.
    text: &'r Cell<u64>,
}

impl<'r> Fields<'r> {
    pub(super) fn number(&self, at: usize) -> Option<i64> {
        self.row.get_ref(at).ok()?.as_i64().ok()
    }

    pub(super) fn real(&self, at: usize) -> Option<f64> {
        self.row.get_ref(at).ok()?.as_f64().ok()
    }

    /// The bytes of a text or of binary data; nothing if they are empty.
    pub(super) fn bytes(&self, at: usize) -> Option<&'r [u8]> {
        match self.row.get_ref(at) {
            Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) if !bytes.is_empty() => {
                self.text.set(self.text.get().saturating_add(bytes.len() as u64));
                Some(bytes)
            }
            _ => None,
        }
    }

    /// The number of the process, which follows the columns of the table.
    fn process(&self, table: &Table) -> Option<i64> {
        self.number(table.columns.len()).map(|global| global >> THREAD_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: Table = Table { name: "rows", columns: &["value"], process: Some("globalTid") };

    fn database(bytes: u64) -> Database {
        let connection = Connection::open_in_memory().unwrap();
        let sql = "CREATE TABLE rows (value TEXT, globalTid INTEGER);
                   INSERT INTO rows VALUES ('abcd', 1 << 24), ('abcd', 2 << 24), ('abcd', NULL), ('abcd', 'x')";
        connection.execute_batch(sql).unwrap();
        Database::read(connection, bytes).unwrap()
    }

    fn count(owner: Option<Owner>, bytes: u64) -> Result<u64> {
        let mut found = 0;
        database(bytes).each(&ROWS, owner, |row| {
            found += u64::from(row.bytes(0).is_some());
            Ok(true)
        })?;
        Ok(found)
    }

    #[test]
    fn rows_that_name_no_process_are_of_the_only_one() {
        assert_eq!(database(100).processes(&ROWS).unwrap(), BTreeSet::from([1, 2]));
        for (owner, want) in [
            (None, 4),
            (Some(Owner { id: 1, is_only: false }), 1),
            (Some(Owner { id: 1, is_only: true }), 3),
            (Some(Owner { id: 0, is_only: true }), 2),
        ] {
            assert_eq!(count(owner, 100).unwrap(), want, "{owner:?}");
        }
    }

    #[test]
    fn there_is_no_more_than_the_file_can_hold() {
        assert_eq!(count(None, 8).unwrap(), 4);
        let failed = |owner, bytes| count(owner, bytes).unwrap_err().to_string();
        assert_eq!(failed(None, 7), "rows has more text than the file has bytes");
        assert_eq!(failed(None, 1), "rows has more text than the file has bytes");
        // Rows of another process count.
        assert_eq!(failed(Some(Owner { id: 9, is_only: false }), 3), "rows has more rows than the file has bytes");
    }
}
