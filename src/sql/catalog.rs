//! The names that a query can use, for completion and suggestions: tables and views with their columns, and functions.

use std::collections::BTreeMap;

use rusqlite::named_params;
use serde_json::json;

use super::{Database, absent, call_tables, queries, rank_tables, table_functions, tables};
use crate::error::Error;

/// The names in a database.
#[derive(Debug, Default, Clone)]
pub struct Catalog {
    /// Tables, views and table-valued functions, with their columns in order.
    pub tables: BTreeMap<String, Vec<String>>,
    /// Scalar, aggregate and window functions, by name.
    pub functions: Vec<String>,
}

impl Catalog {
    /// Reads the names, including tables and views created by the user.
    pub fn read(database: &Database) -> Result<Self, Error> {
        let ranks =
            rank_tables::TABLES.iter().chain(rank_tables::OF_ONE).filter(|_| database.source().compare.is_some());
        let ours =
            tables::TABLES.iter().chain(call_tables::TABLES).chain(absent::TABLES).chain(ranks).map(|table| table.name);
        let ours = ours.chain(table_functions::FUNCTIONS.iter().map(|function| function.name));
        let ours: Vec<&str> = ours.filter_map(|name| name.to_str().ok()).collect();
        let mut catalog = Catalog::default();
        let columns = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let params = named_params! { ":tables": json!(ours).to_string() };
        for (table, column) in database.rows::<(String, String)>(queries::TABLE_COLUMNS, params, columns)? {
            catalog.tables.entry(table).or_default().push(column);
        }
        catalog.functions = database.rows(queries::SQL_FUNCTIONS, [], |row| row.get(0))?;
        Ok(catalog)
    }

    /// The name nearest to the unknown one in an SQLite error message; `None` if none is near. Columns of tables named in `statement` come first.
    pub fn nearest(&self, message: &str, statement: &str) -> Option<&str> {
        let (kind, name) = message.strip_prefix("no such ")?.split_once(": ")?;
        // `s.nmae`, or with a note from SQLite: `nmae - should this be a string literal in single-quotes?`
        let name = name.split(" - ").next()?.trim();
        let name = name.rsplit('.').next()?;
        match kind {
            "table" => nearest(name, self.tables.keys().map(String::as_str)),
            "function" => nearest(name, self.functions.iter().map(String::as_str)),
            "column" => {
                let words: Vec<&str> = statement.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
                let is_named = |table: &str| words.iter().any(|word| word.eq_ignore_ascii_case(table));
                let columns = |named: bool| {
                    let tables = self.tables.iter().filter(move |(table, _)| is_named(table) || !named);
                    tables.flat_map(|(_, columns)| columns.iter().map(String::as_str))
                };
                nearest(name, columns(true)).or_else(|| nearest(name, columns(false)))
            }
            _ => None,
        }
    }
}

/// The nearest of the known names, the first by alphabet if several are; `None` if too many letters differ.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let most = 1 + name.chars().count() / 4;
    known
        .map(|known| (strsim::damerau_levenshtein(&name, &known.to_lowercase()), known))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, known)| known)
}
