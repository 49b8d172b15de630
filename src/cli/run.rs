//! One run, from the arguments to the answer.

use super::args::{Args, On, Switch};
use super::output::Output;
use super::{Stop, captures, notes, picker, progress};
use crate::analysis::capture::Captured;
use crate::analysis::kernels::{OwnFamilies, Wanted, choose};
use crate::analysis::launches::{self, Evidence, Launched, Launches, WindowOn};
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
    let wanted = wanted(args)?;
    if args.interactive && args.start_ts.is_none() && !picker::can_ask() {
        return Err(Stop::Usage(
            "--interactive needs a terminal; choose with --function-name and --index, or with --start-ts and --duration".to_owned(),
        ));
    }
    let output = Output::open(args.output.as_deref(), &args.trace)?;
    let options = LoadOptions { args: ArgsWanted::Ids, threads: args.threads, ..LoadOptions::default() };
    let database = open(args, options)?;
    let mut launches = launches::find(database.store(), &choose(&database, &wanted)?);
    let window_on = if args.window_on == On::Launch { WindowOn::Launch } else { WindowOn::Kernel };
    let window = choose_window(args, &database, &launches, window_on)?;
    let how = Climb {
        max_callers: (args.stack_depth > 0).then_some(args.stack_depth),
        exact_names: args.exact_names,
        window_on,
        forward: args.forward_stacks == Switch::On,
    };
    let captured = captured(args, options, &database, &mut launches, &how)?;
    let report = climb(database.store(), &launches, captured, window, how);
    if report.stacks.is_empty() {
        let missing = missing::explain(&database, window, &report)?;
        if report.coverage.kernels > 0 {
            notes::coverage(&report);
        }
        notes::damage(&database.store().damage);
        let asked = !args.kernel_name.is_empty() || !args.family.is_empty();
        let what = if asked { "such kernel" } else { "NCCL or RCCL kernel" };
        return Err(Stop::NotFound(notes::missing(&missing, what)));
    }
    let mut answer = Vec::new();
    text::stacks(&report, &mut answer).map_err(Error::Stdout)?;
    output.finish(&answer)?;
    notes::coverage(&report);
    notes::left_out(&report, &how);
    notes::damage(&database.store().damage);
    Ok(())
}

/// The kernels that the arguments ask for.
fn wanted(args: &Args) -> Result<Wanted, Stop> {
    let mut own = OwnFamilies::default();
    for path in &args.family_file {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read { name: name.clone(), source })?;
        own.parse(&name, &text)?;
    }
    Wanted::parse(&args.kernel_name, &args.family, &own).map_err(|e| Stop::Usage(e.to_string()))
}

/// The stacks with which replayed kernels were captured. Captures are read only if there is something to find in them.
fn captured(
    args: &Args,
    options: LoadOptions,
    database: &Database,
    launches: &mut Launches,
    how: &Climb,
) -> Result<Captured, Stop> {
    let store = database.store();
    let may_be_captured = |launched: &Launched| {
        launched.evidence == Evidence::GraphReplay || store.graph_node(launched.kernel as usize).is_some()
    };
    if args.capture_trace.is_empty() && !launches.kernels.iter().any(may_be_captured) {
        return Ok(Captured::default());
    }
    let captures = captures::read(&args.capture_trace, &args.trace, options, args.exact_names)?;
    Ok(captures.stacks(store, launches, how.max_callers))
}

fn open(args: &Args, options: LoadOptions) -> Result<Database, Stop> {
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

fn choose_window(args: &Args, database: &Database, launches: &Launches, on: WindowOn) -> Result<Window, Stop> {
    let trace = window::trace_span(database)?;
    if let (Some(start), Some(duration)) = (args.start_ts, args.duration) {
        let window = Window::new(start, duration);
        let aside = if args.function_name.is_some() { " (--function-name is overridden)" } else { "" };
        notes::window(&format!("as given{aside}"), window);
        return Ok(window);
    }
    let found = match &args.function_name {
        Some(name) => window::functions(database, name, launches, on)?,
        None if args.interactive => window::steps(database, launches, on)?,
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
