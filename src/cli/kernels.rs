//! Kernels by name.

use super::args::{Kernels, TableFormat};
use super::output::Output;
use super::{Stop, notes, opening, span};
use crate::analysis::summary::kernel_table;
use crate::attribution::launches;
use crate::attribution::selection::{Wanted, choose};
use crate::error::Error;
use crate::event::ArgsWanted;
use crate::report::{csv, json, table};

/// The pattern that every name fits.
const ALL: &str = "*";

pub(super) fn run(args: &Kernels) -> Result<(), Stop> {
    let own = opening::own_families(&args.family_file, &args.reading)?;
    let mut patterns = args.kernel_name.clone();
    if patterns.is_empty() && args.family.is_empty() {
        patterns.push(ALL.to_owned());
    }
    let wanted = Wanted::parse(&patterns, &args.family, &own).map_err(|e| Stop::Usage(e.to_string()))?;
    span::check(&args.span)?;
    let output = Output::open(args.output.as_deref(), &opening::inputs(&args.trace, &args.family_file))?;
    let options = opening::options(&args.reading, ArgsWanted::COLLECTIVES);
    let database = opening::open(&args.trace, &args.reading, options)?;
    let store = database.store();
    let launches = launches::find(store, &choose(database.store(), &wanted));
    let window = span::choose(&args.span, &database, &launches)?;
    let on = args.span.window_on.into();
    let inside = launches.kernels.iter().filter(|launched| window.contains(launched.at(on)));
    let rows = inside.map(|launched| (store.slices.name(launched.kernel), launched.kernel_dur));
    let found = kernel_table(store, rows, args.limit.unwrap_or(usize::MAX));
    notes::kernel_table(&found, launches.kernels.len() as u64);
    if found.kernels == 0 {
        notes::damage(store);
        return Err(Stop::NotFound("Nothing found: no such kernel was launched in the window.".to_owned()));
    }
    let mut answer = Vec::new();
    match args.format {
        TableFormat::Table => answer.extend(table::kernels(&found.rows, output.width()).into_bytes()),
        TableFormat::Csv => csv::kernels(&found, &mut answer).map_err(|source| Error::Form { source })?,
        TableFormat::Json => {
            let name = args.trace.display().to_string();
            json::kernels(&found, &name, &mut answer).map_err(|source| Error::Form { source })?;
        }
    }
    output.finish(&answer)?;
    notes::damage(store);
    Ok(())
}
