//! The window: as the arguments have it, the slice of a function, or chosen from a list.

use nccl_stacks::analysis::window::{self, Candidate};
use nccl_stacks::attribution::launches::{Launches, WindowOn};
use nccl_stacks::report::format::{thread, visible};
use nccl_stacks::report::lists::candidates;
use nccl_stacks::sql::Database;
use nccl_stacks::time::{Ns, Window};

use super::args::{Span, Start};
use super::stop::Stop;
use super::{notes, picker};

/// How many slices an error lists.
const MAX_LISTED: usize = 40;

/// How a window is chosen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// The user may be asked.
    pub(super) asks: bool,
    /// The window is reported.
    pub(super) says: bool,
}

impl Manner {
    /// In the only trace.
    pub(super) const ALONE: Manner = Manner { asks: true, says: true };
}

/// Refuses, before anything is read, a question that needs a terminal where there is none.
pub(super) fn check(span: &Span) -> Result<(), Stop> {
    if span.interactive && span.start_ts.is_none() && !picker::can_ask() {
        return Err(Stop::Usage(
            "--interactive needs a terminal; choose with --function-name and --index, or with --start-ts and --duration".to_owned(),
        ));
    }
    Ok(())
}

/// The window that the arguments mean in a trace.
pub(super) fn choose(span: &Span, database: &Database, launches: &Launches, manner: Manner) -> Result<Window, Stop> {
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
        return Ok(window);
    }
    let found = match &span.function_name {
        Some(name) => window::functions(database, name, launches, on)?,
        None if span.interactive => window::steps(database, launches, on)?,
        None => {
            manner.say("the whole trace (choose a part with --function-name, --interactive or --start-ts)", trace);
            return Ok(Window::ALL);
        }
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
    manner.say(
        &format!(
            "{} [{} of {}, --index {index}] on {}",
            visible(&chosen.name),
            index + 1,
            found.len(),
            thread(chosen, true)
        ),
        chosen.window,
    );
    Ok(chosen.window)
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
        (0, _, None) => Err(Stop::NotFound(
            "Nothing in the trace looks like a step. Choose with --function-name, or with --start-ts and --duration."
                .to_owned(),
        )),
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
