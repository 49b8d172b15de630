//! Notes on the window: which was taken, or why there is none, with the options that choose one.

use crate::answers::window::lists::{candidates, thread};
use crate::attribution::selection::Pattern;
use crate::document::format::{duration, shell_word, visible};
use crate::run::{Again, Chosen, WindowError};
use crate::time::{Ns, Window};

use crate::cli::terminal::{note, say};

const MAX_LISTED: usize = 40;

/// The window, with the options that choose it again.
pub(crate) fn window(chosen: &Chosen<'_>, window: Window) {
    let what = chosen_text(chosen);
    let Window { start, .. } = window;
    let length = window.duration();
    note(&format!("Window: {what}, {} (--start-ts {start} --duration {length})", duration(length)));
    if length == Ns::ZERO {
        say("The window is empty: it has no length, so it contains no launch.");
    }
}

fn chosen_text(chosen: &Chosen<'_>) -> String {
    match chosen {
        Chosen::Times { overrides_function: true } => "as given (--function-name is overridden)".to_owned(),
        Chosen::Times { .. } => "as given".to_owned(),
        Chosen::AllSteps => "all steps (--total takes the whole trace; --step chooses some of them)".to_owned(),
        Chosen::Survived => "where kernels survived, by when they ran (--window-on kernel)".to_owned(),
        Chosen::Slice { slice, place, again } => {
            let again = match (place, again) {
                (Some((index, count)), _) => format!("{} of {count}, --index {index}", index + 1),
                (None, Some(again)) => words(again),
                (None, None) => String::new(),
            };
            format!("{} [{again}] on {}", visible(&slice.name), thread(slice, true))
        }
        Chosen::Steps { range, label, count, processes } => {
            let steps = match label {
                Some(label) => visible(label).into_owned(),
                None if *processes == 1 => format!("{count} steps"),
                None => format!("{count} steps of {processes} processes, from the first start to the last end"),
            };
            format!("{steps} [--step {range}]")
        }
        _ => "the whole trace (choose a part with --step, --interactive or --start-ts)".to_owned(),
    }
}

fn words(again: &Again) -> String {
    match again {
        Again::Step(number) => format!("--step {number}"),
        Again::Slice { name, index } => format!("--function-name {} --index {index}", shell_word(name)),
    }
}

/// Why there is no window.
pub(crate) fn window_text(error: &WindowError) -> String {
    match error {
        WindowError::BeforeTrace { start, first } => format!(
            "Nothing found: the window is before the trace, which begins at {first} ns. A time from there on has a plus sign: --start-ts +{}",
            exact(*start)
        ),
        WindowError::NoSteps => {
            "Nothing in the trace looks like a step. Choose with --function-name, or with --start-ts and --duration."
                .to_owned()
        }
        WindowError::NoSuchStep { range, first, last } => format!(
            "Nothing found: --step {range}: the trace has {}; --group-by step lists them",
            if first == last { format!("step {first} alone") } else { format!("the steps {first} to {last}") }
        ),
        WindowError::NoSuchFunction { name, near } => no_such_function(name, near),
        WindowError::NoSuchIndex { index, found } => format!(
            "Nothing found: --index {index}: {}\n{}",
            match found.len() {
                1 => "there is one such slice, --index 0".to_owned(),
                n => format!("there are {n} such slices, numbered from 0 to {}", n - 1),
            },
            candidates(found, MAX_LISTED)
        ),
        WindowError::Several(found) => format!(
            "{} slices have this name; choose one with --index\n{}",
            found.len(),
            candidates(found, MAX_LISTED)
        ),
        WindowError::SeveralClocks => {
            "--start-ts: several traces have clocks of their own; give a time from the start of each, such as +10ms, or choose \
             with --function-name and --index"
                .to_owned()
        }
        WindowError::SeveralToChooseIn => {
            "--interactive chooses in one trace; for several choose with --function-name and --index".to_owned()
        }
    }
}

/// A length of time in the largest unit in which it is a whole number: `10ms`.
fn exact(length: Ns) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000), ("ns", 1)];
    let (unit, ns) = units.into_iter().find(|(_, ns)| length.0 % ns == 0).unwrap_or(("ns", 1));
    format!("{}{unit}", length.0 / ns)
}

fn no_such_function(name: &str, near: &[String]) -> String {
    let other_case = near.iter().find(|near| near.eq_ignore_ascii_case(name));
    let meant = other_case.map_or(".".to_owned(), |near| format!("; did you mean `{}`?", visible(near)));
    let mut text = format!("Nothing found: no CPU slice is named `{name}`{meant}");
    match near.first() {
        None => text.push_str(" No name in the trace is similar; --interactive lists slices that look like steps."),
        Some(first) => {
            text.push_str(" The nearest names in the trace:\n");
            near.iter().for_each(|name| text.push_str(&format!("  {}\n", visible(name))));
            text.push_str(&format!("For example: --function-name '{first}'"));
            let is_plain = Pattern::parse(name).is_ok_and(|pattern| pattern.is_plain());
            if is_plain && near.iter().any(|near| near.contains(name)) {
                text.push_str(&format!(". '*{name}*' matches anywhere in a name"));
            } else if is_plain && near.iter().any(|near| near.to_lowercase().contains(&name.to_lowercase())) {
                text.push_str(&format!(". '%{name}%' matches anywhere in a name, in upper and lower case"));
            }
        }
    }
    text
}
