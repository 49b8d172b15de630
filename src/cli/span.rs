//! The window: as the arguments have it, the slice of a function, or chosen from a list.

use std::path::PathBuf;

use nccl_stacks::analysis::launching_steps::LaunchingSteps;
use nccl_stacks::analysis::steps::{StepRange, Steps};
use nccl_stacks::analysis::window::{self, Candidate};
use nccl_stacks::attribution::launches::{self, Launches, WindowOn};
use nccl_stacks::attribution::selection::{Pattern, choose as chosen_kernels};
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::report::format::{thread, visible};
use nccl_stacks::report::lists::candidates;
use nccl_stacks::sql::Database;
use nccl_stacks::time::{Ns, Window};

use super::args::{Reading, Selection, Span, Start};
use super::stop::Stop;
use super::typed::quote;
use super::{notes, opening, picker};

/// What is said of a trace without steps.
const NO_STEPS: &str =
    "Nothing in the trace looks like a step. Choose with --function-name, or with --start-ts and --duration.";

/// How many slices an error lists.
const MAX_LISTED: usize = 40;

/// What the window is if none is asked for.
const WHOLE: &str = "the whole trace (choose a part with --step, --interactive or --start-ts)";

/// How a window is chosen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// The user may be asked.
    pub(super) asks: bool,
    /// The window is reported.
    pub(super) says: bool,
    /// Where no part is chosen, all steps are taken instead of the whole trace.
    pub(super) by_step: bool,
}

impl Manner {
    /// In the only trace.
    pub(super) const ALONE: Manner = Manner { asks: true, says: true, by_step: false };
}

/// Refuses, before anything is read, a question that needs a terminal where there is none.
pub(super) fn check(span: &Span) -> Result<(), Stop> {
    if span.interactive && span.start_ts.is_none() && !picker::can_ask() {
        return Err(Stop::Usage(
            "--interactive needs a terminal; choose with --function-name and --index, or with --start-ts and --duration".to_owned(),
        ));
    }
    let Some(name) = &span.function_name else { return Ok(()) };
    Pattern::parse(name).map(drop).map_err(|error| Stop::Usage(format!("--function-name: {error}")))
}

/// The window that the arguments mean in a trace, and by what kernels are in it.
pub(super) fn choose(
    span: &Span,
    database: &Database,
    launches: &Launches,
    manner: Manner,
) -> Result<(Window, WindowOn), Stop> {
    let on = span.window_on.into();
    if let Some(window) = asked(span, database, launches, manner)? {
        return Ok((window, on));
    }
    let store = database.store();
    let (window, on) = window::whole(store, on);
    if window == Window::ALL && manner.by_step && on == WindowOn::Launch {
        // What kernels are in it by their launches is what the steps launched, between the steps, too.
        if let Some(steps) = LaunchingSteps::find(store, window, on).span {
            manner.say("all steps (--total takes the whole trace; --step chooses some of them)", steps);
            return Ok((steps, on));
        }
    }
    match window {
        Window::ALL => manner.say(WHOLE, store.span),
        survived => manner.say("where kernels survived, by when they ran (--window-on kernel)", survived),
    }
    Ok((window, on))
}

/// The same for what is not about kernels: the whole of a trace is all of it, also where it ends early.
pub(super) fn choose_any(
    span: &Span,
    database: &Database,
    launches: &Launches,
    manner: Manner,
) -> Result<Window, Stop> {
    let window = asked(span, database, launches, manner)?;
    Ok(window.unwrap_or_else(|| {
        manner.say(WHOLE, database.store().span);
        Window::ALL
    }))
}

/// The window that the arguments ask for in a trace; `None` for the whole of it.
fn asked(span: &Span, database: &Database, launches: &Launches, manner: Manner) -> Result<Option<Window>, Stop> {
    let on: WindowOn = span.window_on.into();
    let trace = database.store().span;
    if let (Some(start), Some(duration)) = (span.start_ts, span.duration) {
        let start = match start {
            Start::At(start) => start,
            Start::After(after) => trace.start + after,
        };
        let window = Window::new(start, duration);
        let aside = if span.function_name.is_some() { " (--function-name is overridden)" } else { "" };
        manner.say(&format!("as given{aside}"), window);
        return Ok(Some(window));
    }
    if let Some(range) = span.step {
        return steps(range, database, manner).map(Some);
    }
    let found = match &span.function_name {
        Some(name) => window::functions(database, name, launches, on)?,
        None if span.interactive => window::steps(database, launches, on)?,
        None => return Ok(None),
    };
    let index = choose_index(span, database, &found, trace.start, manner)?;
    let Some(chosen) = found.get(index) else {
        return Err(Stop::Usage(format!(
            "--index {index}: {}\n{}",
            match found.len() {
                1 => "there is one such slice, --index 0".to_owned(),
                n => format!("there are {n} such slices, numbered from 0 to {}", n - 1),
            },
            candidates(&found, MAX_LISTED)
        )));
    };
    let again = match &span.function_name {
        Some(_) => format!("[{} of {}, --index {index}]", index + 1, found.len()),
        None => format!("[{}]", again(database, chosen)?.words()),
    };
    manner.say(&format!("{} {again} on {}", visible(&chosen.name), thread(chosen, true)), chosen.window);
    Ok(Some(chosen.window))
}

/// The window of some steps. Those of several processes in one file are side by side.
fn steps(range: StepRange, database: &Database, manner: Manner) -> Result<Window, Stop> {
    let steps = Steps::find(database.store());
    let chosen = steps.chosen(range);
    let Some(window) = chosen.iter().map(|step| step.window).reduce(Window::around) else {
        let numbers = steps.numbers();
        let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else {
            return Err(Stop::NotFound(NO_STEPS.to_owned()));
        };
        return Err(Stop::Usage(format!(
            "--step {range}: the trace has {}; --group-by step lists them",
            if first == last { format!("step {first} alone") } else { format!("the steps {first} to {last}") }
        )));
    };
    let processes = steps.processes().filter(|(_, steps)| steps.iter().any(|step| range.contains(step.number))).count();
    let of = match &chosen[..] {
        [only] => visible(&only.label).into_owned(),
        _ if processes == 1 => format!("{} steps", chosen.len()),
        _ => format!("{} steps of {processes} processes, from the first start to the last end", chosen.len()),
    };
    manner.say(&format!("{of} [--step {range}]"), window);
    Ok(window)
}

/// How a slice of the list of steps is chosen again.
enum Again {
    Step(u64),
    Slice { name: String, index: usize },
}

impl Again {
    /// The options, for a shell.
    fn words(&self) -> String {
        match self {
            Again::Step(number) => format!("--step {number}"),
            Again::Slice { name, index } => format!("--function-name {} --index {index}", quote(name)),
        }
    }
}

/// How the chosen slice is chosen again without a list: by its number if it is a step and no other process has a step of that number, else by its
/// name and its place among the slices of that name.
fn again(database: &Database, chosen: &Candidate) -> Result<Again, Stop> {
    let steps = Steps::find(database.store());
    let step = steps.processes().flat_map(|(_, steps)| steps).find(|step| step.slice == chosen.slice);
    match step.map(|step| step.number) {
        Some(number) if steps.chosen(StepRange::one(number)).len() == 1 => Ok(Again::Step(number)),
        _ => {
            let same = window::functions(database, &chosen.name, &Launches::default(), WindowOn::Launch)?;
            let index = same.iter().position(|other| other.slice == chosen.slice).unwrap_or_default();
            Ok(Again::Slice { name: chosen.name.clone(), index })
        }
    }
}

/// The arguments with the window that the user chooses in the first of several traces, for all of them.
pub(super) fn of_all(
    span: &Span,
    files: &[PathBuf],
    selection: &Selection,
    reading: &Reading,
) -> Result<Option<Span>, Stop> {
    let [first, _, ..] = files else { return Ok(None) };
    if !span.interactive || span.start_ts.is_some() || opening::is_read_once(first) {
        return Ok(None);
    }
    check(span)?;
    let database = opening::open(first, reading, opening::options(reading, ArgsWanted::COLLECTIVES))?;
    let launches =
        launches::find(database.store(), &chosen_kernels(database.store(), &opening::wanted(selection, reading)?));
    let on: WindowOn = span.window_on.into();
    let found = match &span.function_name {
        Some(name) => window::functions(&database, name, &launches, on)?,
        None => window::steps(&database, &launches, on)?,
    };
    let index = choose_index(span, &database, &found, database.store().span.start, Manner::ALONE)?;
    let of_all = Span { interactive: false, index: Some(index), ..span.clone() };
    let Some(chosen) = found.get(index).filter(|_| span.function_name.is_none()) else { return Ok(Some(of_all)) };
    Ok(Some(match again(&database, chosen)? {
        Again::Step(number) => Span { step: Some(StepRange::one(number)), index: None, ..of_all },
        Again::Slice { name, index } => Span { function_name: Some(name), index: Some(index), ..of_all },
    }))
}

impl Manner {
    fn say(self, what: &str, window: Window) {
        if self.says {
            notes::window(what, window);
        }
    }
}

/// Which of the slices is meant: by `--index`, because there is only one, or by asking the user.
fn choose_index(
    span: &Span,
    database: &Database,
    found: &[Candidate],
    origin: Ns,
    manner: Manner,
) -> Result<usize, Stop> {
    match (found.len(), span.index, &span.function_name) {
        (0, _, Some(name)) => Err(Stop::NotFound(no_such_function(database, name)?)),
        (0, _, None) => Err(Stop::NotFound(NO_STEPS.to_owned())),
        (_, Some(index), _) => Ok(index),
        (1, None, Some(_)) => Ok(0),
        _ if manner.asks && picker::can_ask() => picker::pick(found, origin),
        (n, None, _) => Err(Stop::Usage(format!(
            "{n} slices have this name; choose one with --index\n{}",
            candidates(found, MAX_LISTED)
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
