//! `nccl-stacks kernels`: a table of kernels by name.

use nccl_stacks::analysis::summary::kernel_table;
use nccl_stacks::attribution::launches;
use nccl_stacks::attribution::selection::choose;
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::report::{json, kernels};

use super::args::{Kernels, TableFormat};
use super::failure::Failure;
use super::output::Output;
use super::span::Manner;
use super::stop::Stop;
use super::{notes, opening, span};

/// The pattern that matches every name.
const ALL: &str = "*";

pub(super) fn run(args: &Kernels) -> Result<(), Stop> {
    let own = opening::own_families(&args.family_file, &args.reading)?;
    let mut patterns = args.kernel_name.clone();
    if patterns.is_empty() && args.family.is_empty() {
        patterns.push(ALL.to_owned());
    }
    let wanted = opening::parse_wanted(&patterns, &args.family, &own)?;
    span::check(&args.span)?;
    let output = Output::open(args.output.as_deref(), &opening::inputs(&args.trace, &args.family_file))?;
    let options = opening::options(&args.reading, ArgsWanted::COLLECTIVES);
    let database = opening::open(&args.trace, &args.reading, options)?;
    let store = database.store();
    let launches = launches::find(store, &choose(database.store(), &wanted));
    let window = span::choose(&args.span, &database, &launches, Manner::ALONE)?;
    let on = args.span.window_on.into();
    let inside = launches.kernels.iter().filter(|launched| window.contains(launched.at(store, on)));
    let rows = inside.map(|launched| (store.slices.name(launched.kernel), store.slices.dur(launched.kernel)));
    let found = kernel_table(store, rows, args.limit.unwrap_or(usize::MAX));
    notes::kernel_table(&found, launches.kernels.len() as u64);
    if found.kernels == 0 {
        notes::damage(store);
        return Err(Stop::NotFound("Nothing found: no such kernel was launched in the window.".to_owned()));
    }
    let (name, mut answer) = (args.trace.display().to_string(), Vec::new());
    match args.format {
        TableFormat::Table => kernels::write_table(&found.rows, output.width(), &mut answer),
        TableFormat::Csv => kernels::write_csv(&found, &mut answer),
        TableFormat::Json => json::kernels(&found, &name, &mut answer),
    }
    .map_err(|source| Failure::Form { source })?;
    notes::damage(store);
    output.finish(&answer)?;
    Ok(())
}
