//! The terminal's view of a run: shows what the run reports, and asks the user what it asks.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::answers::window::Candidate;
use crate::load::Progress;
use crate::run::{Event, NotChosen, Watcher};
use crate::time::Ns;

use super::failure::with_flags;
use super::terminal::{note, say};
use super::{notes, picker};

/// How often what turns while the program computes is drawn anew.
const TURN: Duration = Duration::from_millis(100);

/// What most of the time of a comparison of ranks is spent on.
pub(super) const RERUNNING: &str = "Rerunning the job";

/// The terminal, with the bar that shows how much has been read.
pub(super) struct Terminal(Mutex<Option<ProgressBar>>);

pub(super) static TERMINAL: Terminal = Terminal(Mutex::new(None));

impl Terminal {
    fn show(&self, progress: Progress) {
        let bar = || match progress.size {
            Some(size) => ProgressBar::new(size).with_style(style("{bytes} of {total_bytes} [{bar:40}] {eta}")),
            None => ProgressBar::new_spinner().with_style(style("{spinner} {bytes}")),
        };
        // Blocks are read ahead, so more may be taken than the size.
        self.set(bar, progress.size.map_or(progress.taken, |size| progress.taken.min(size)));
    }

    fn count(&self, what: &'static str, done: usize, of: usize) {
        let style = || style("{msg}: {pos} of {len} [{bar:40}] {eta}");
        self.set(|| ProgressBar::new(of as u64).with_style(style()).with_message(what), done as u64);
    }

    fn set(&self, bar: impl FnOnce() -> ProgressBar, position: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(bar).set_position(position);
    }

    /// Shows what the program does while it computes, where how long that takes is unknown.
    pub(super) fn meanwhile<T>(&self, what: &'static str, compute: impl FnOnce() -> T) -> T {
        self.clear();
        let bar = ProgressBar::new_spinner().with_style(style("{spinner} {msg} ({elapsed})")).with_message(what);
        bar.enable_steady_tick(TURN);
        let found = compute();
        bar.finish_and_clear();
        found
    }

    /// Removes the bar from the screen, until there is more to show.
    fn clear(&self) {
        if let Some(bar) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            bar.finish_and_clear();
        }
    }
}

impl Watcher for Terminal {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Progress(progress) => self.show(progress),
            Event::Counted { what, done, of } => self.count(what, done, of),
            Event::ReadingEnded => self.clear(),
            // The line is written above the bar.
            event => match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
                Some(bar) => bar.suspend(|| tell(event)),
                None => tell(event),
            },
        }
    }

    fn can_choose(&self) -> bool {
        picker::can_ask()
    }

    fn choose(&self, list: &[Candidate], origin: Ns) -> Result<usize, NotChosen> {
        picker::pick(list, origin)
    }
}

fn tell(event: Event<'_>) {
    match event {
        Event::Loaded(loaded) => notes::loaded(loaded),
        Event::Archive { name, findings } => notes::findings(Some(name), findings),
        Event::ProbablyNanoseconds(file) => notes::probably_nanoseconds(file),
        Event::Traces { names, text_bytes, events, choice, by_step } => {
            notes::traces(names, (text_bytes, events), choice, by_step);
        }
        Event::Spans(spans) => notes::apart(spans),
        Event::Window { chosen, window } => notes::window(&chosen, window),
        Event::LeftOut(error) => say(&format!("Left out: {}", with_flags(error))),
        Event::CaptureLeftOut(error) => say(&format!("Note: left out as a capture: {}", with_flags(error))),
        Event::Note(line) => note(line),
        Event::Warning(line) => say(line),
        _ => {}
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants above; with a wrong one, indicatif's default bar is shown.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}
