//! `nccl-stacks memory`: allocations, their peaks, and the code that holds the most memory at a peak.

use nccl_stacks::analysis::memory::memory_report;
use nccl_stacks::attribution::launches;
use nccl_stacks::attribution::selection::choose;
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::report::{json, memory};

use super::args::{Memory, TableFormat};
use super::failure::Failure;
use super::output::Output;
use super::stop::Stop;
use super::{notes, opening};

/// How many call paths per device are shown in text and tables.
const STACKS: usize = 10;

pub(super) fn run(args: &Memory) -> Result<(), Stop> {
    let own = opening::own_families(&[], &args.reading)?;
    let all = opening::parse_wanted(&["*".to_owned()], &[], &own)?;
    opening::check_window(&args.span)?;
    let output = Output::open(args.output.as_deref(), &[args.trace.as_path()])?;
    let run = opening::run(&args.reading);
    let database = run.open(&args.trace, run.load_options(ArgsWanted::MEMORY))?;
    let store = database.store();
    // The list of slices to choose from shows how many kernels each has.
    let launches = launches::find(store, &choose(store, &all));
    let window = run.only_window_of_anything(&args.span.choice(), &database, &launches)?;
    let default = if args.format == TableFormat::Table { STACKS } else { usize::MAX };
    let found = memory_report(store, window, args.limit.unwrap_or(default));
    if found.events == 0 {
        notes::damage(store);
        let nothing = Stop::NotFound(
            "Nothing found: the window has no memory events, which the profiler records with profile_memory=True."
                .to_owned(),
        );
        return Err(nothing.or_damaged(store.damage.is_unknown()));
    }
    let (name, mut answer) = (args.trace.display().to_string(), Vec::new());
    match args.format {
        TableFormat::Table => memory::write_text(&found, output.width(), &mut answer),
        TableFormat::Csv => memory::write_csv(&found, &mut answer),
        TableFormat::Json => json::memory(&found, &name, &mut answer),
    }
    .map_err(|source| Failure::Form { source })?;
    notes::damage(store);
    output.finish_csv(args.format == TableFormat::Csv, &answer)?;
    Stop::unless(store.damage.is_unknown())
}
