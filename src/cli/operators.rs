//! `nccl-stacks operators`: what the arguments of operators show.

use nccl_stacks::analysis::operators::operator_report;
use nccl_stacks::attribution::launches;
use nccl_stacks::attribution::selection::choose;
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::report::{json, operators};

use super::args::{Operators, TableFormat};
use super::failure::Failure;
use super::output::Output;
use super::stop::Stop;
use super::{notes, opening};

/// How many rows of each section are shown in a table.
const ROWS: usize = 10;

pub(super) fn run(args: &Operators) -> Result<(), Stop> {
    let own = opening::own_families(&[], &args.reading)?;
    let all = opening::parse_wanted(&["*".to_owned()], &[], &own)?;
    opening::check_window(&args.span)?;
    let output = Output::open(args.output.as_deref(), &[args.trace.as_path()])?;
    let run = opening::run(&args.reading);
    let database = run.open(&args.trace, run.load_options(ArgsWanted::OPERATORS))?;
    let store = database.store();
    let launches = launches::find(store, &choose(store, &all));
    let (window, on) = run.only_window(&args.span.choice(), &database, &launches)?;
    let default = if args.format == TableFormat::Table { ROWS } else { usize::MAX };
    let limit = args.limit.unwrap_or(default);
    let found = operator_report(store, &launches, window, on, limit);
    if found.operators == 0 {
        notes::damage(store);
        let nothing = Stop::NotFound("Nothing found: the window has no operator.".to_owned());
        return Err(nothing.or_damaged(store.damage.is_unknown()));
    }
    let (name, mut answer) = (args.trace.display().to_string(), Vec::new());
    match args.format {
        TableFormat::Table => operators::write_text(&found, output.width(), &mut answer),
        TableFormat::Csv => operators::write_csv(&found, &mut answer),
        TableFormat::Json => json::operators(&found, &name, &mut answer),
    }
    .map_err(|source| Failure::Form { source })?;
    notes::damage(store);
    output.finish_csv(args.format == TableFormat::Csv, &answer)?;
    Stop::unless(store.damage.is_unknown())
}
