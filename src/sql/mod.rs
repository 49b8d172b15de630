//! The store as an SQLite database: read-only tables over its columns, functions, and the project's own queries.
//!
//! Nothing is copied into SQLite. The tables have PerfettoSQL's names and columns, so that queries written for trace_processor run here; the
//! connection is an ordinary in-memory one. PerfettoSQL's views (`views.sql`), scalar functions and table-valued functions exist too.

pub mod absent;
mod call_tables;
pub mod catalog;
mod engine;
mod functions;
pub mod header;
mod index;
mod launch_tables;
mod metadata_tables;
pub mod queries;
mod rank_tables;
pub mod ranks;
mod record_tables;
mod relations;
pub mod restrict;
pub mod script;
pub mod source;
mod stacks;
mod table;
mod table_functions;
mod tables;
mod text_functions;

use std::sync::Arc;

use rusqlite::{Connection, Params, Row};

use crate::attribution::capture::Captures;
use crate::attribution::launches::Launches;
use crate::attribution::selection::OwnFamilies;
use crate::error::Error;
use crate::records::Records;
use crate::store::Store;
use queries::Query;
use ranks::Compare;
/// The version of rusqlite in [`Database::connection`].
pub use rusqlite;
use source::Source;
pub use table::{Cell, Column, Table};
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
    /// Opens an in-memory database whose tables read the store, with all functions and views.
    pub fn open(store: Store) -> Result<Self, Error> {
        Database::open_with(store, None)
    }

    /// The same with the captures of the trace's CUDA graphs, so that `kernel_launch` has their call paths.
    pub fn open_with(store: Store, captures: Option<Captures>) -> Result<Self, Error> {
        Database::whole(Source::new(store, captures))
    }

    /// The same with the tables `rank` and `collective_match`. Calls `compare` when a query first reads one of them.
    pub fn open_with_ranks(store: Store, captures: Option<Captures>, compare: Compare) -> Result<Self, Error> {
        let mut source = Source::new(store, captures);
        source.compare = Some(compare);
        let database = Database::whole(source)?;
        for table in rank_tables::TABLES {
            engine::register_if(&database.connection, &database.source, table, Source::incomparable)?;
        }
        for table in rank_tables::OF_ONE {
            engine::register_if(&database.connection, &database.source, table, Source::without_path)?;
        }
        Ok(database)
    }

    /// Adds NCCL's own records of the same job to the store, or replaces it. Call this before the first query.
    #[must_use]
    pub fn with_records(self, records: Arc<Records>) -> Self {
        // Only the first call takes effect: later ones would change tables that have been read.
        let _ = self.source.records.set(records);
        self
    }

    /// Adds a user's own families to those that the function `in_family` knows.
    pub fn with_families(self, own: OwnFamilies) -> Result<Self, Error> {
        functions::register_families(&self.connection, own)?;
        Ok(self)
    }

    fn whole(source: Source) -> Result<Self, Error> {
        let database = Database::over(source)?;
        let Database { connection, source } = &database;
        for table in absent::TABLES.iter().chain(call_tables::TABLES) {
            engine::register(connection, source, table)?;
        }
        functions::register(connection, source.store())?;
        text_functions::register(connection)?;
        table_functions::register(connection, source)?;
        connection.execute_batch(include_str!("views.sql"))?;
        Ok(database)
    }

    /// The same with only the tables, which are all that the project's own queries need.
    pub fn of_tables(store: Store) -> Result<Self, Error> {
        Database::over(Source::new(store, None))
    }

    fn over(source: Source) -> Result<Self, Error> {
        let source = Arc::new(source);
        let connection = Connection::open_in_memory()?;
        connection.set_prepared_statement_cache_capacity(queries::ALL.len());
        // By default SQLite sorts in temporary files even for moderate sizes.
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        for table in tables::TABLES {
            engine::register(&connection, &source, table)?;
        }
        Ok(Database { connection, source })
    }

    pub fn store(&self) -> &Store {
        self.source.store()
    }

    pub fn launches(&self) -> &Launches {
        self.source.launches()
    }

    /// The source of its tables, for reading columns without SQL.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The connection, for any other query.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Runs one of the project's queries and collects its rows.
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
