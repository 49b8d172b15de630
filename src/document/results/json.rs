//! JSON: an array of objects, one row per line. Integers keep all their digits.
//!
//! A result set may have several columns of one name, an object may not. Repeated names get a number: `name`, `name:1`, `name:2`, as SQLite
//! names them when it makes a table of such a result. JSON has no notation for bytes, which become SQL literals in strings, `"x'0aff'"`,
//! nor for infinity, which becomes 9e999: readers take it as infinite or refuse it.

use std::collections::HashSet;
use std::io::{self, Write};

use rusqlite::types::ValueRef;

use super::hexadecimal;

pub(super) struct Json {
    keys: Vec<String>,
    has_rows: bool,
}

impl Json {
    pub(super) fn new(columns: &[&str]) -> Self {
        Json { keys: unique(columns), has_rows: false }
    }

    pub(super) fn row(&mut self, values: &[ValueRef<'_>], out: &mut impl Write) -> io::Result<()> {
        out.write_all(if self.has_rows { b",\n{" } else { b"[\n{" })?;
        self.has_rows = true;
        for (i, (key, value)) in self.keys.iter().zip(values).enumerate() {
            if i > 0 {
                out.write_all(b",")?;
            }
            serde_json::to_writer(&mut *out, key)?;
            out.write_all(b":")?;
            match value {
                ValueRef::Null => out.write_all(b"null")?,
                ValueRef::Integer(value) => write!(out, "{value}")?,
                ValueRef::Real(value) if value.is_finite() => write!(out, "{value:?}")?,
                ValueRef::Real(value) => write!(out, "{}9e999", if *value < 0.0 { "-" } else { "" })?,
                ValueRef::Text(text) => serde_json::to_writer(&mut *out, &String::from_utf8_lossy(text))?,
                ValueRef::Blob(bytes) => serde_json::to_writer(&mut *out, &hexadecimal(bytes))?,
            }
        }
        out.write_all(b"}")
    }

    pub(super) fn end(self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(if self.has_rows { b"\n]\n" } else { b"[]\n" })
    }
}

/// The names of columns, made unique.
fn unique(columns: &[&str]) -> Vec<String> {
    let mut taken: HashSet<String> = columns.iter().map(|name| (*name).to_owned()).collect();
    let mut seen = HashSet::new();
    columns
        .iter()
        .map(|name| {
            if seen.insert(*name) {
                return (*name).to_owned();
            }
            let free = (1..).map(|n| format!("{name}:{n}")).find(|key| !taken.contains(key)).unwrap_or_default();
            taken.insert(free.clone());
            free
        })
        .collect()
}
