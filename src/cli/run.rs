//! One run, from the arguments to the answer.

use super::args::Args;
use super::output::Output;
use super::{Stop, notes, picker, progress};
use crate::analysis::kernels::{Pattern, choose};
use crate::analysis::launches::{self, Launches};
use crate::analysis::missing;
use crate::analysis::stacks::{Climb, climb};
use crate::analysis::window::{self, Candidate};
use crate::error::Error;
use crate::event::ArgsWanted;
use crate::load::{LoadOptions, load};
use crate::report::text::visible;
use crate::report::{table, text};
use crate::sql::Database;
use crate::time::Window;

/// How many slices an error lists.
const MAX_LISTED: usize = 40;

pub(super) fn run(args: &Args) -> Result<(), Stop> {
    let patterns = args.kernel_name.iter().map(|p| Pattern::parse(p)).collect::<Result<Vec<_>, _>>();
    let patterns = patterns.map_err(|e| Stop::Usage(e.to_string()))?;
    if args.interactive && args.start_ts.is_none() && !picker::can_ask() {
        return Err(Stop::Usage(
            "--interactive needs a terminal; choose with --function-name and --index, or with --start-ts and --duration".to_owned(),
        ));
    }
    let output = Output::open(args.output.as_deref(), &args.trace)?;
    let database = open(args)?;
    let launches = launches::find(&database, &choose(&database, &patterns)?)?;
    let window = choose_window(args, &database, &launches)?;
    let max_callers = (args.stack_depth > 0).then_some(args.stack_depth);
    let how = Climb { max_callers, exact_names: args.exact_names };
    let report = climb(database.store(), &launches, window, how);
    if report.stacks.is_empty() {
        let missing = missing::explain(&database, window, &report)?;
        notes::damage(&database.store().damage);
        let what = if patterns.is_empty() { "NCCL or RCCL kernel" } else { "such kernel" };
        return Err(Stop::NotFound(notes::missing(&missing, what)));
    }
    let mut answer = Vec::new();
    text::stacks(&report, &mut answer).map_err(Error::Stdout)?;
    output.finish(&answer)?;
    notes::left_out(&report, max_callers);
    notes::damage(&database.store().damage);
    Ok(())
}

fn open(args: &Args) -> Result<Database, Stop> {
    let options = LoadOptions { args: ArgsWanted::Ids, threads: args.threads, ..LoadOptions::default() };
    let mut bar = progress::Bar::new();
    let result = load(&args.trace, options, |progress| bar.show(progress));
    bar.clear();
    let loaded = result?;
    notes::loaded(&loaded);
    let list = notes::damage_list(&loaded.store.damage);
    if args.strict && !list.is_empty() {
        return Err(Stop::Failed(Error::Strict { name: loaded.name, list }));
    }
    Ok(Database::open(loaded.store)?)
}

fn choose_window(args: &Args, database: &Database, launches: &Launches) -> Result<Window, Stop> {
    let trace = window::trace_span(database)?;
    if let (Some(start), Some(duration)) = (args.start_ts, args.duration) {
        let window = Window::new(start, duration);
        let aside = if args.function_name.is_some() { " (--function-name is overridden)" } else { "" };
        notes::window(&format!("as given{aside}"), window);
        return Ok(window);
    }
    let found = match &args.function_name {
        Some(name) => window::functions(database, name, launches)?,
        None if args.interactive => window::steps(database, launches)?,
        None => {
            notes::window("the whole trace (choose a part with --function-name, --interactive or --start-ts)", trace);
            return Ok(Window::ALL);
        }
    };
    let index = choose_index(args, database, &found, trace.start)?;
    let Some(chosen) = found.get(index) else {
        return Err(Stop::Usage(format!(
            "--index {index}: there are {} such slices, numbered from 0 to {}\n{}",
            found.len(),
            found.len() - 1,
            table::candidates(&found, MAX_LISTED)
        )));
    };
    notes::window(
        &format!("{} [{index} of {}] on {}", visible(&chosen.name), found.len(), table::thread(chosen, true)),
        chosen.window,
    );
    Ok(chosen.window)
}

/// Which of the slices is meant: by `--index`, because there is only one, or by asking.
fn choose_index(args: &Args, database: &Database, found: &[Candidate], origin: i64) -> Result<usize, Stop> {
    match (found.len(), args.index, &args.function_name) {
        (0, _, Some(name)) => Err(Stop::NotFound(no_such_function(database, name)?)),
        (0, _, None) => Err(Stop::NotFound(
            "Nothing in the trace looks like a step. Choose with --function-name, or with --start-ts and --duration."
                .to_owned(),
        )),
        (_, Some(index), _) => Ok(index),
        (1, None, Some(_)) => Ok(0),
        _ if picker::can_ask() => picker::pick(found, origin),
        (n, None, _) => Err(Stop::Usage(format!(
            "{n} slices have this name; choose one with --index\n{}",
            table::candidates(found, MAX_LISTED)
        ))),
    }
}

fn no_such_function(database: &Database, name: &str) -> Result<String, Stop> {
    let nearest = window::nearest_names(database, name, 5)?;
    let mut text = format!("Nothing found: no CPU slice is named `{name}`.");
    match nearest.first() {
        None => text.push_str(" No name in the trace comes near it; --interactive lists what looks like a step."),
        Some(first) => {
            text.push_str(" The nearest names in the trace:\n");
            nearest.iter().for_each(|name| text.push_str(&format!("  {}\n", visible(name))));
            text.push_str(&format!("For example: --function-name '{first}'"));
        }
    }
    Ok(text)
}
