//! `nccl-stacks operators`: what the arguments of operators show.

use nccl_stacks::analysis::operators::operator_report;
use nccl_stacks::attribution::launches;
use nccl_stacks::attribution::selection::choose;
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::report::{json, operators};

use super::args::{Operators, TableFormat};
use super::failure::Failure;
use super::output::Output;
use super::span::Manner;
use super::stop::Stop;
use super::{notes, opening, span};

/// How many rows a section has for people.
const ROWS: usize = 10;

pub(super) fn run(args: &Operators) -> Result<(), Stop> {
    let own = opening::own_families(&[], &args.reading)?;
    let all = opening::parse_wanted(&["*".to_owned()], &[], &own)?;
    span::check(&args.span)?;
    let output = Output::open(args.output.as_deref(), &[args.trace.as_path()])?;
    let options = opening::options(&args.reading, ArgsWanted::OPERATORS);
    let database = opening::open(&args.trace, &args.reading, options)?;
    let store = database.store();
    let launches = launches::find(store, &choose(store, &all));
    let (window, on) = span::choose(&args.span, &database, &launches, Manner::ALONE)?;
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
