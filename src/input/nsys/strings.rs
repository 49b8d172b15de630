//! The texts of an export, most of which are in one table, by number.

use std::collections::HashMap;
use std::rc::Rc;

use rusqlite::{Connection, OptionalExtension, Result};

/// Looks up texts, each once: an export may have millions that no event uses.
pub(super) struct Strings<'e> {
    connection: &'e Connection,
    known: HashMap<i64, Option<Rc<str>>, foldhash::fast::FixedState>,
}

impl<'e> Strings<'e> {
    /// For a database with the table `StringIds`.
    pub(super) fn new(connection: &'e Connection) -> Self {
        Strings { connection, known: HashMap::default() }
    }

    /// The text with a number.
    ///
    /// # Errors
    /// Those of SQLite.
    pub(super) fn get(&mut self, id: Option<i64>) -> Result<Option<Rc<str>>> {
        let Some(id) = id else { return Ok(None) };
        if let Some(known) = self.known.get(&id) {
            return Ok(known.clone());
        }
        let mut statement = self.connection.prepare_cached("SELECT value FROM StringIds WHERE id = ?1")?;
        let bytes = |row: &rusqlite::Row<'_>| Ok(row.get_ref(0)?.as_bytes().map(<[u8]>::to_vec).unwrap_or_default());
        let text: Option<Vec<u8>> = statement.query_row([id], bytes).optional()?;
        let text = text.filter(|text| !text.is_empty()).map(|text| Rc::from(String::from_utf8_lossy(&text)));
        self.known.insert(id, text.clone());
        Ok(text)
    }

    /// The first of several numbers that has a text.
    ///
    /// # Errors
    /// Those of SQLite.
    pub(super) fn first(&mut self, ids: impl IntoIterator<Item = Option<i64>>) -> Result<Option<Rc<str>>> {
        for id in ids {
            if let Some(text) = self.get(id)? {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }
}
