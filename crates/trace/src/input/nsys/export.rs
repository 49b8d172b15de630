//! An export as a database that is open: its connection, its tables, and how much of it was read.
//!
//! SQLite reads a file in any order. A plain file is read in place and as immutable, so that SQLite writes nothing beside it; a file from
//! an archive, a pipe or a layer of compression is copied to a temporary file.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, OpenFlags};
use tempfile::{NamedTempFile, TempPath};

use super::tables::{Table, Tables, corrupt};
use crate::error::Error;
use crate::input::containers::limit::{Budget, Limited, failure};
use crate::input::containers::source::Source;
use crate::unfinished::Unfinished;

/// The most processes of an export. A machine has some for each of its GPUs, and each is read by itself.
const PROCESSES: usize = 1024;

#[derive(Debug)]
pub(super) struct Export {
    pub(super) name: String,
    pub(super) connection: Connection,
    pub(super) tables: Tables,
    pub(super) bytes: u64,
    /// Counts how much of it has been read, if it is the file itself: a copy was counted when it was made.
    taken: Option<Arc<AtomicU64>>,
    /// The temporary file, which is removed after the connection is closed.
    _copy: Option<(TempPath, Unfinished)>,
}

impl Export {
    /// Opens the database, in place or from a temporary copy.
    ///
    /// # Errors
    /// A damaged database, and too much text.
    pub(super) fn open(name: &str, source: Source, budget: &Budget) -> Result<Self, Error> {
        let failed = |source| failure(name, source);
        let in_place = match &source {
            Source::File(region) => region.path().map(|path| (path.to_owned(), region.taken())),
            Source::Stream(_) => None,
        };
        let (path, taken, copy) = match in_place {
            Some((path, taken)) => (path, Some(taken), None),
            None => {
                let copy = copy(source, budget).map_err(failed)?;
                (copy.0.to_path_buf(), None, Some(copy))
            }
        };
        let bytes = std::fs::metadata(&path).map_err(failed)?.len();
        if copy.is_none() {
            budget.charge(bytes).map_err(failed)?;
        }
        let opened = connect(&path).and_then(|connection| {
            check_length(&connection, bytes)?;
            Ok((Tables::read(&connection)?, connection))
        });
        let (tables, connection) = opened.map_err(|error| damaged(name, &error))?;
        Ok(Export { name: name.to_owned(), connection, tables, bytes, taken, _copy: copy })
    }

    /// The numbers of the processes that have rows in some tables, in order.
    pub(super) fn processes(&self, tables: &[Table]) -> Result<BTreeSet<i64>, Error> {
        let mut found = BTreeSet::new();
        let mut is_empty = true;
        for table in tables {
            let of_table = self.tables.processes(&self.connection, table, self.bytes);
            found.extend(of_table.map_err(|error| self.damaged(&error))?);
            let rows = self.tables.rows(&self.connection, table);
            is_empty &= rows.map_err(|error| self.damaged(&error))? == 0;
        }
        if found.len() > PROCESSES {
            let message = format!("it names {} processes, more than {PROCESSES}", found.len());
            return Err(self.damaged(&corrupt(&message)));
        }
        // Rows that name no process are of the only one.
        if found.is_empty() && !is_empty {
            found.insert(0);
        }
        Ok(found)
    }

    /// The error for a database that SQLite cannot read on.
    pub(super) fn damaged(&self, error: &rusqlite::Error) -> Error {
        damaged(&self.name, error)
    }

    /// Reports which share of the export has been read.
    pub(super) fn report(&self, share: f64) {
        if let Some(taken) = &self.taken {
            taken.store((self.bytes as f64 * share.clamp(0.0, 1.0)) as u64, Ordering::Relaxed);
        }
    }
}

/// Refuses a database that is cut off within its last page: SQLite reads zeros there.
fn check_length(connection: &Connection, bytes: u64) -> rusqlite::Result<()> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, u64>(0));
    let whole = number("page_count")?.saturating_mul(number("page_size")?);
    if bytes >= whole {
        return Ok(());
    }
    Err(corrupt(&format!("it is cut off: it has {bytes} of {whole} bytes (copy it again, or export it again)")))
}

fn damaged(name: &str, error: &rusqlite::Error) -> Error {
    Error::CorruptDatabase { name: name.to_owned(), message: error.to_string() }
}

/// Copies a source to a temporary file, as text of the budget.
fn copy(source: Source, budget: &Budget) -> io::Result<(TempPath, Unfinished)> {
    let mut text = Limited::new(source.into_bytes(), budget.clone());
    let mut file = NamedTempFile::new()?;
    let unfinished = Unfinished::at(file.path());
    io::copy(&mut text, file.as_file_mut())?;
    Ok((file.into_temp_path(), unfinished))
}

/// Opens a file for reading, as one that does not change: SQLite then looks for no journal beside it, and takes no lock.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri(path), flags)?;
    // Nothing in the file may call functions, and what does not fit into memory is not kept there.
    connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA mmap_size = 0; PRAGMA cache_size = -16384")?;
    Ok(connection)
}

/// A path as SQLite takes it with parameters: all but plain characters as numbers.
fn uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => uri.push(char::from(*byte)),
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_may_have_any_characters() {
        assert_eq!(uri(Path::new("a/b c?d=%é.db")), "file:a/b%20c%3Fd%3D%25%C3%A9.db?immutable=1");
    }
}
