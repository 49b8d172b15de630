//! The tables as an SQLite database file, which any SQLite opens.
//!
//! SQLite itself copies each virtual table into a real one and then builds the indexes, which is several times faster than inserting rows one by
//! one. Hidden columns are included, because the project's queries use them.
//!
//! The statements are built from the static declarations of the tables and the lists below. SQL text is built only here, and it contains only the
//! project's own names.

use std::path::Path;

use rusqlite::{Connection, Result};

use crate::sql::{Column, Database, TABLES, Table};

/// `nccl` in ASCII: by this number `file` and other programs recognise the database.
pub const APPLICATION_ID: i32 = 0x6e63_636c;

/// The version of tables and columns. It grows when one is removed or changes its meaning.
pub const SCHEMA_VERSION: i32 = 1;

/// The view that Perfetto has under its own name, with the columns that are not hidden.
const SLICES: (&str, &str) = ("slices", "slice");

/// The columns that queries search in large tables. Columns that are mostly NULL get an index of the other values only.
const INDEXES: &[(&str, &[&str], Rows)] = &[
    ("slice", &["ts"], Rows::All),
    ("slice", &["track_id"], Rows::All),
    ("slice", &["category"], Rows::All),
    ("slice", &["name"], Rows::All),
    ("slice", &["name_id"], Rows::All),
    ("slice", &["parent_id"], Rows::NotNull),
    ("slice", &["arg_set_id"], Rows::NotNull),
    ("slice", &["correlation"], Rows::NotNull),
    ("slice", &["kernel_name_id"], Rows::NotNull),
    ("flow", &["slice_out"], Rows::All),
    ("flow", &["slice_in"], Rows::All),
    ("args", &["arg_set_id", "key"], Rows::All),
    ("thread", &["tid"], Rows::All),
    ("thread", &["upid"], Rows::All),
    ("process", &["pid"], Rows::All),
    ("thread_track", &["utid"], Rows::All),
    ("process_track", &["upid"], Rows::All),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    All,
    NotNull,
}

/// Writes all tables into a file that is empty or missing. After an error the file is unusable.
pub fn write(database: &Database, file: &Path) -> Result<()> {
    let connection = database.connection();
    let name = file.to_str().ok_or_else(|| rusqlite::Error::InvalidPath(file.to_owned()))?;
    connection.execute("ATTACH ?1 AS copy", [name])?;
    let copied = copy_tables(connection);
    // A failed transaction is still open, and its database cannot be detached before it ends.
    let ended = if connection.is_autocommit() { Ok(()) } else { connection.execute_batch("ROLLBACK") };
    let detached = ended.and_then(|()| connection.execute_batch("DETACH copy"));
    copied.and(detached)?;
    let plain = Connection::open(file)?;
    forget_safety(&plain, "main")?;
    plain.pragma_update(None, "temp_store", "MEMORY")?;
    plain.execute_batch("BEGIN")?;
    for (table, columns, rows) in INDEXES {
        plain.execute_batch(&create_index(table, columns, *rows))?;
    }
    make_views(&plain, &views(connection)?)?;
    plain.pragma_update(None, "application_id", APPLICATION_ID)?;
    plain.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    plain.execute_batch("COMMIT")?;
    // Samples each index, so that SQLite can choose between them.
    plain.execute_batch("PRAGMA analysis_limit = 1000; ANALYZE")?;
    plain.close().map_err(|(_, error)| error)
}

/// A file that is removed on any failure needs no journal, and no waiting for the disk.
fn forget_safety(connection: &Connection, schema: &str) -> Result<()> {
    connection.pragma_update(Some(schema), "journal_mode", "OFF")?;
    connection.pragma_update(Some(schema), "synchronous", "OFF")
}

fn copy_tables(connection: &Connection) -> Result<()> {
    forget_safety(connection, "copy")?;
    connection.execute_batch("BEGIN")?;
    for table in TABLES {
        connection.execute_batch(&create_table(table))?;
        connection.execute_batch(&fill_table(table))?;
    }
    connection.execute_batch("COMMIT")
}

fn create_table(table: &Table) -> String {
    let is_key = |column: &Column| table.key().is_some_and(|key| key.name == column.name);
    let columns = table.columns.iter().map(|column| {
        let key = if is_key(column) { " PRIMARY KEY" } else { "" };
        format!("\"{}\" {}{key}", column.name, column.sql_type).trim_end().to_owned()
    });
    format!("CREATE TABLE copy.\"{}\"(\n  {}\n)", table.name(), columns.collect::<Vec<_>>().join(",\n  "))
}

fn fill_table(table: &Table) -> String {
    let columns: Vec<String> = table.columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
    format!("INSERT INTO copy.\"{0}\" SELECT {1} FROM main.\"{0}\"", table.name(), columns.join(", "))
}

fn create_index(table: &str, columns: &[&str], rows: Rows) -> String {
    let condition = match rows {
        Rows::All => String::new(),
        Rows::NotNull => format!(" WHERE {} IS NOT NULL", columns.join(" IS NOT NULL AND ")),
    };
    format!("CREATE INDEX {table}_by_{} ON {table}({}){condition}", columns.join("_"), columns.join(", "))
}

/// A view: its name, and the statement that creates it.
type View = (String, String);

/// The views of the in-memory database, and [`SLICES`].
fn views(connection: &Connection) -> Result<Vec<View>> {
    let mut statement = connection.prepare(
        "SELECT name, sql FROM main.sqlite_schema WHERE type = 'view' \
         UNION SELECT name, sql FROM temp.sqlite_schema WHERE type = 'view' ORDER BY name",
    )?;
    let mut views = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<Vec<View>>>()?;
    let (name, of) = SLICES;
    if let Some(table) = TABLES.iter().find(|table| table.name() == of) {
        let shown: Vec<&str> = table.columns.iter().filter(|c| !c.hidden).map(|c| c.name).collect();
        views.retain(|(known, _)| known != name);
        views.push((name.to_owned(), format!("CREATE VIEW {name} AS SELECT {} FROM {of}", shown.join(", "))));
    }
    Ok(views)
}

/// Creates the views, which may use each other, except those that need functions of this program: outside it SQLite could not even list their
/// columns.
fn make_views(plain: &Connection, views: &[View]) -> Result<()> {
    for (_, sql) in views {
        plain.execute_batch(sql)?;
    }
    for (name, _) in views {
        if plain.prepare(&format!("SELECT * FROM \"{name}\"")).is_err() {
            plain.execute_batch(&format!("DROP VIEW \"{name}\""))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_that_need_more_than_sqlite_are_left_out() {
        let plain = Connection::open_in_memory().unwrap();
        plain.execute_batch("CREATE TABLE slice(id)").unwrap();
        let view = |name: &str, select: &str| (name.to_owned(), format!("CREATE VIEW {name} AS {select}"));
        let views = [
            view("above", "SELECT id FROM below"),
            view("above_ours", "SELECT * FROM ours"),
            view("below", "SELECT id FROM slice"),
            view("ours", "SELECT EXTRACT_ARG(id, 'a') FROM slice"),
        ];
        make_views(&plain, &views).unwrap();
        let left: Vec<String> = {
            let mut statement =
                plain.prepare("SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY name").unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_>>().unwrap()
        };
        assert_eq!(left, ["above", "below"]);
    }
}
