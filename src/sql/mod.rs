//! The store as an SQLite database: read-only tables over its columns, functions, and the project's own queries.
//!
//! Nothing is copied into SQLite. The tables carry PerfettoSQL's names and columns, so that queries written for a
//! trace_processor run here; the connection is an ordinary in-memory one. What is beside PerfettoSQL's tables: its views
//! (`views.sql`), its functions, and its functions that are used as tables.

pub mod absent;
pub mod catalog;
mod engine;
mod functions;
mod index;
mod launch_tables;
pub mod queries;
mod relations;
pub mod restrict;
pub mod script;
pub mod source;
mod table_functions;
mod tables;
mod text_functions;

use std::sync::Arc;

use rusqlite::{Connection, Params, Row};

use crate::attribution::capture::Captures;
use crate::error::Error;
use crate::store::Store;
pub use engine::{Cell, Column, Table};
use queries::Query;
/// The version of rusqlite that [`Database::connection`] is of.
pub use rusqlite;
use source::Source;
pub use tables::TABLES;

/// The views of `views.sql`.
const VIEWS: &[&str] = &["slices", "instant", "thread_slice", "process_slice", "thread_or_process_slice"];

/// A database over a store.
#[derive(Debug)]
pub struct Database {
    connection: Connection,
    source: Arc<Source>,
}

impl Database {
    /// Opens an in-memory database whose tables are views of the store, with all functions and views.
    ///
    /// # Errors
    /// Only if SQLite itself cannot be started.
    pub fn open(store: Store) -> Result<Self, Error> {
        Database::open_with(store, None)
    }

    /// The same with the captures of the trace's CUDA graphs, which `kernel_launch` names then.
    ///
    /// # Errors
    /// The same.
    pub fn open_with(store: Store, captures: Option<Captures>) -> Result<Self, Error> {
        let database = Database::over(Source::new(store, captures))?;
        let Database { connection, source } = &database;
        for table in absent::TABLES {
            engine::register(connection, source, table)?;
        }
        functions::register(connection, source.store())?;
        text_functions::register(connection)?;
        table_functions::register(connection, source)?;
        connection.execute_batch(include_str!("views.sql"))?;
        Ok(database)
    }

    /// The same with the tables alone, which is all that the queries of this project need.
    ///
    /// # Errors
    /// The same.
    pub fn of_tables(store: Store) -> Result<Self, Error> {
        Database::over(Source::new(store, None))
    }

    fn over(source: Source) -> Result<Self, Error> {
        let source = Arc::new(source);
        let connection = Connection::open_in_memory()?;
        connection.set_prepared_statement_cache_capacity(queries::ALL.len());
        // Sorting goes to files otherwise as soon as there is a little more of it.
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        for table in tables::TABLES {
            engine::register(&connection, &source, table)?;
        }
        Ok(Database { connection, source })
    }

    /// The store behind it.
    pub fn store(&self) -> &Store {
        self.source.store()
    }

    /// What its tables read, for code that reads their columns without SQL.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The connection, for queries of one's own.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Runs one of the project's queries and collects its rows.
    ///
    /// # Errors
    /// What SQLite or `row` fails with.
    pub fn rows<T>(
        &self,
        query: Query,
        params: impl Params,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Error> {
        let mut statement = self.connection.prepare_cached(query.sql)?;
        let rows = statement.query_map(params, row)?.collect::<rusqlite::Result<Vec<T>>>()?;
        Ok(rows)
    }
}
