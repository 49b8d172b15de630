//! The window of a trace: as it is given, the slice of a function, some steps, or chosen from a list.

use std::path::PathBuf;

use super::choice::{Again, Start, WindowChoice, WindowError};
use super::error::RunError;
use super::inputs::is_read_once;
use super::question::Question;
use super::reading::Run;
use super::slices;
use super::watch::{Chosen, Event};
use crate::answers::stacks::launching_steps::LaunchingSteps;
use crate::answers::stacks::steps::{Step, StepRange, Steps};
use crate::answers::window;
use crate::answers::window::Candidate;
use crate::attribution::launches::{self, Launches, WindowOn};
use crate::attribution::selection::choose;
use crate::error::Error;
use crate::event::ArgsWanted;
use crate::sql::Database;
use crate::time::{Ns, Window};

/// How many names that are near a wrong one an error has.
const NEAR: usize = 5;

/// How a window is chosen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// The watcher may be asked.
    pub(super) asks: bool,
    /// The window is reported.
    pub(super) says: bool,
    /// Where no part is chosen, all steps are taken instead of the whole trace.
    pub(super) by_step: bool,
}

impl Manner {
    /// In the only trace.
    const ALONE: Manner = Manner { asks: true, says: true, by_step: false };
}

impl Run<'_> {
    /// The window of the only trace, and what has to start in it, which differs from the question if the trace ends early.
    /// Errors: a window that the trace does not have, or that is not certain.
    pub fn only_window(
        &self,
        choice: &WindowChoice,
        database: &Database,
        launches: &Launches,
    ) -> Result<(Window, WindowOn), RunError> {
        self.window(choice, database, launches, Manner::ALONE)
    }

    /// The window for a question that is not about kernels: the whole trace is all of it, even where the trace ends early.
    pub fn only_window_of_anything(
        &self,
        choice: &WindowChoice,
        database: &Database,
        launches: &Launches,
    ) -> Result<Window, RunError> {
        let window = self.asked_window(choice, database, launches, Manner::ALONE)?;
        Ok(window.unwrap_or_else(|| {
            self.report(Event::Window { chosen: Chosen::Whole, window: database.store().span });
            Window::ALL
        }))
    }

    pub(super) fn window(
        &self,
        choice: &WindowChoice,
        database: &Database,
        launches: &Launches,
        manner: Manner,
    ) -> Result<(Window, WindowOn), RunError> {
        if let Some(window) = self.asked_window(choice, database, launches, manner)? {
            return Ok((window, choice.on));
        }
        let store = database.store();
        let (window, on) = window::whole(store, choice.on);
        if window == Window::ALL && manner.by_step && on == WindowOn::Launch {
            // What kernels are in it by their launches is what the steps launched, between the steps, too.
            if let Some(steps) = LaunchingSteps::find(store, window, on).span {
                self.say(manner, Chosen::AllSteps, steps);
                return Ok((steps, on));
            }
        }
        match window {
            Window::ALL => self.say(manner, Chosen::Whole, store.span),
            survived => self.say(manner, Chosen::Survived, survived),
        }
        Ok((window, on))
    }

    /// The window that is asked for; `None` for the whole trace.
    fn asked_window(
        &self,
        choice: &WindowChoice,
        database: &Database,
        launches: &Launches,
        manner: Manner,
    ) -> Result<Option<Window>, RunError> {
        let trace = database.store().span;
        if let Some((start, duration)) = choice.times {
            let start = match start {
                Start::At(start) => start,
                Start::After(after) => trace.start + after,
            };
            let window = Window::new(start, duration);
            let is_within_as_length = trace.start + start < trace.end;
            if window.end <= trace.start && is_within_as_length {
                return Err(WindowError::BeforeTrace { start, first: trace.start }.into());
            }
            self.say(manner, Chosen::Times { overrides_function: choice.function.is_some() }, window);
            return Ok(Some(window));
        }
        if let Some(range) = choice.steps {
            return self.steps_window(range, database, manner).map(Some);
        }
        let mut found = match &choice.function {
            Some(name) => slices::functions(database, name, launches, choice.on)?,
            None if choice.is_interactive => slices::steps(database, launches, choice.on)?,
            None => return Ok(None),
        };
        let index = self.choose_index(choice, database, &mut found, trace.start, manner)?;
        if index >= found.len() {
            return Err(WindowError::NoSuchIndex { index, found }.into());
        }
        let (slice, count) = (&found[index], found.len());
        let (place, again) = match &choice.function {
            Some(_) => (Some((index, count)), None),
            None => (None, Some(again(database, slice)?)),
        };
        self.say(manner, Chosen::Slice { slice, place, again }, slice.window);
        Ok(Some(slice.window))
    }

    /// The window of some steps. Those of several processes in one file are side by side.
    fn steps_window(&self, range: StepRange, database: &Database, manner: Manner) -> Result<Window, RunError> {
        let steps = Steps::find(database.store());
        let chosen = steps.chosen(range);
        let Some(window) = chosen.iter().map(|step| step.window).reduce(Window::around) else {
            let numbers = steps.numbers();
            return Err(match (numbers.first(), numbers.last()) {
                (Some(first), Some(last)) => WindowError::NoSuchStep { range, first: *first, last: *last },
                _ => WindowError::NoSteps,
            }
            .into());
        };
        let has_any = |steps: &[Step]| steps.iter().any(|step| range.contains(step.number));
        let processes = steps.processes().filter(|(_, steps)| has_any(steps)).count();
        let label = match &chosen[..] {
            [only] => Some(&*only.label),
            _ => None,
        };
        self.say(manner, Chosen::Steps { range, label, count: chosen.len(), processes }, window);
        Ok(window)
    }

    fn say(&self, manner: Manner, chosen: Chosen<'_>, window: Window) {
        if manner.says {
            self.report(Event::Window { chosen, window });
        }
    }

    /// Which of the slices is meant: by its position, because there is only one, or as the watcher chooses.
    fn choose_index(
        &self,
        choice: &WindowChoice,
        database: &Database,
        found: &mut Vec<Candidate>,
        origin: Ns,
        manner: Manner,
    ) -> Result<usize, RunError> {
        match (found.len(), choice.index, &choice.function) {
            (0, _, Some(name)) => {
                let near = slices::nearest_names(database, name, NEAR)?;
                Err(WindowError::NoSuchFunction { name: name.clone(), near }.into())
            }
            (0, _, None) => Err(WindowError::NoSteps.into()),
            (_, Some(index), _) => Ok(index),
            (1, None, Some(_)) => Ok(0),
            _ if manner.asks && self.watcher().can_choose() => {
                self.report(Event::ReadingEnded);
                self.watcher().choose(found, origin).map_err(RunError::NotChosen)
            }
            (_, None, _) => Err(WindowError::Several(std::mem::take(found)).into()),
        }
    }

    /// Lets the watcher choose the window of several traces in the first of them, where the question leaves it open.
    /// Errors: as [`Run::only_window`], and a first trace that cannot be read.
    pub fn choose_for_all(&self, question: &mut Question, files: &[PathBuf]) -> Result<(), RunError> {
        let [first, _, ..] = files else { return Ok(()) };
        let choice = &mut question.window;
        if !choice.is_interactive || choice.times.is_some() || is_read_once(first) {
            return Ok(());
        }
        let database = self.open(first, self.load_options(ArgsWanted::COLLECTIVES))?;
        let store = database.store();
        let launches = launches::find(store, &choose(store, &question.wanted));
        let mut found = match &choice.function {
            Some(name) => slices::functions(&database, name, &launches, choice.on)?,
            None => slices::steps(&database, &launches, choice.on)?,
        };
        let index = self.choose_index(choice, &database, &mut found, store.span.start, Manner::ALONE)?;
        (choice.is_interactive, choice.index) = (false, Some(index));
        if let Some(chosen) = found.get(index).filter(|_| choice.function.is_none()) {
            match again(&database, chosen)? {
                Again::Step(number) => (choice.steps, choice.index) = (Some(StepRange::one(number)), None),
                Again::Slice { name, index } => (choice.function, choice.index) = (Some(name), Some(index)),
            }
        }
        Ok(())
    }
}

/// How the chosen slice is chosen again without a list: by its number if it is a step and no other process has a step of that number, else by its
/// name and its position among the slices of that name.
fn again(database: &Database, chosen: &Candidate) -> Result<Again, Error> {
    let steps = Steps::find(database.store());
    let step = steps.processes().flat_map(|(_, steps)| steps).find(|step| step.slice == chosen.slice);
    match step.map(|step| step.number) {
        Some(number) if steps.chosen(StepRange::one(number)).len() == 1 => Ok(Again::Step(number)),
        _ => {
            let same = slices::functions(database, &chosen.name, &Launches::default(), WindowOn::Launch)?;
            let index = same.iter().position(|other| other.slice == chosen.slice).unwrap_or_default();
            Ok(Again::Slice { name: chosen.name.clone(), index })
        }
    }
}
