//! The texts of an export, most of which are in one table, by number.

use std::collections::HashMap;
use std::rc::Rc;

use rusqlite::{OptionalExtension, Result};

use super::export::Export;
use super::tables::{TEXT_FACTOR, Table, corrupt};

pub(super) const STRINGS: Table = Table { name: "StringIds", columns: &["id", "value"], process: None };

type Text = Option<Rc<str>>;

/// Looks up texts, each once: an export may have millions that no event uses.
pub(super) struct Strings<'e> {
    export: &'e Export,
    known: HashMap<i64, Text, foldhash::fast::FixedState>,
    /// Whether all texts are loaded: where the number is no key, each look-up would read the whole table.
    is_whole: bool,
    /// How many bytes of text were looked up.
    bytes: u64,
}

impl<'e> Strings<'e> {
    pub(super) fn new(export: &'e Export) -> Result<Self> {
        let sql = "SELECT max(pk) FROM pragma_table_info(?1) WHERE name = 'id'";
        let key: Option<i64> = export.connection.query_row(sql, [STRINGS.name], |row| row.get(0))?;
        let is_whole = key != Some(1);
        let mut known: HashMap<i64, Text, foldhash::fast::FixedState> = HashMap::default();
        if is_whole {
            export.tables.each(&export.connection, &STRINGS, None, export.bytes, |row| {
                if let Some(id) = row.number(0) {
                    known.entry(id).or_insert_with(|| row.bytes(1).and_then(text));
                }
                Ok(true)
            })?;
        }
        Ok(Strings { export, known, is_whole, bytes: 0 })
    }

    pub(super) fn get(&mut self, id: Option<i64>) -> Result<Text> {
        let Some(id) = id else { return Ok(None) };
        if let Some(known) = self.known.get(&id) {
            return Ok(known.clone());
        }
        if self.is_whole {
            return Ok(None);
        }
        let mut statement = self.export.connection.prepare_cached("SELECT value FROM StringIds WHERE id = ?1")?;
        let bytes = |row: &rusqlite::Row<'_>| Ok(row.get_ref(0)?.as_bytes().ok().and_then(text));
        let found = statement.query_row([id], bytes).optional()?.flatten();
        self.bytes += found.as_ref().map_or(0, |text| text.len() as u64);
        // Texts that share their pages come from a damaged file.
        if self.bytes > self.export.bytes.saturating_mul(TEXT_FACTOR) {
            return Err(corrupt("StringIds has more text than the file has bytes"));
        }
        self.known.insert(id, found.clone());
        Ok(found)
    }

    /// The first of several numbers that has a text.
    pub(super) fn first(&mut self, ids: impl IntoIterator<Item = Option<i64>>) -> Result<Option<Rc<str>>> {
        for id in ids {
            if let Some(text) = self.get(id)? {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }
}

fn text(bytes: &[u8]) -> Text {
    Some(bytes).filter(|bytes| !bytes.is_empty()).map(|bytes| Rc::from(String::from_utf8_lossy(bytes)))
}
