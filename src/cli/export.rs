//! A trace in other forms: an SQLite database, Parquet files, a smaller trace.

use std::io;
use std::path::Path;
use std::time::Instant;

use super::args::Export;
use super::output::Place;
use super::{Stop, notes, opening, span};
use crate::error::Error;
use crate::event::ArgsWanted;
use crate::export::sqlite;
use crate::sql::Database;

pub(super) fn run(args: &Export) -> Result<(), Stop> {
    check(args)?;
    let place = |flag, path: Option<&Path>| path.map(|path| Place::open(flag, path, &args.trace)).transpose();
    let sqlite = place("--sqlite", args.sqlite.as_deref())?;
    let options = opening::options(&args.reading, ArgsWanted::All);
    let database = opening::open(&args.trace, &args.reading, options)?;
    if let Some(place) = sqlite {
        write_sqlite(&database, &place)?;
    }
    notes::damage(&database.store().damage);
    Ok(())
}

/// Refuses what contradicts itself, before anything is read.
fn check(args: &Export) -> Result<(), Stop> {
    span::check(&args.span)
}

fn write_sqlite(database: &Database, place: &Place) -> Result<(), Error> {
    let start = Instant::now();
    let size = place.fill(|file, _| {
        sqlite::write(database, file)
            .map_err(|e| Error::Write { path: place.name().to_owned(), source: io::Error::other(e) })
    })?;
    notes::written(place.name(), size, start.elapsed());
    Ok(())
}
