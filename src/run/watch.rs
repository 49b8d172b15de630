//! What a run reports while it goes on, and what it asks.

use crate::answers::stacks::steps::StepRange;
use crate::answers::window::Candidate;
use crate::error::Error;
use crate::input::containers::Findings;
use crate::load::{Loaded, Progress};
use crate::time::{Ns, Window};

use super::choice::{Again, NotChosen, WindowChoice};

/// Something that a run reports.
#[derive(Debug)]
pub enum Event<'a> {
    /// How far the only input has been read, all records, or all files of parts.
    Progress(Progress),
    /// How many of several files, or of the parts in them, have been reduced to what an answer needs.
    Counted { what: &'static str, done: usize, of: usize },
    /// Reading ended, or pauses for an answer.
    ReadingEnded,
    /// A trace was loaded, or several into one store.
    Loaded(&'a Loaded),
    /// What an archive holds beside traces, and its name.
    Archive { name: &'a str, findings: &'a Findings },
    /// The times of a trace, by its name, are probably nanoseconds, and were read as microseconds.
    ProbablyNanoseconds(&'a str),
    /// Several traces were read.
    Traces {
        names: &'a [&'a str],
        /// How many bytes of text they have.
        text_bytes: u64,
        events: u64,
        /// Which part of each is asked about.
        choice: &'a WindowChoice,
        /// Whether all steps of each are asked about where no part is chosen.
        by_step: bool,
    },
    /// When each of several traces was recorded, with its name.
    Spans(&'a [(Window, String)]),
    /// Which window of the only trace is asked about.
    Window { chosen: Chosen<'a>, window: Window },
    /// A file cannot be read, and is left out.
    LeftOut(&'a Error),
    /// A capture beside a trace cannot be read, and is left out.
    CaptureLeftOut(&'a Error),
    /// How the answer came about, in a sentence.
    Note(&'a str),
    /// What is wrong or missing, in a sentence.
    Warning(&'a str),
}

#[derive(Debug)]
pub enum Chosen<'a> {
    Times {
        /// Whether a function was named, too, which does not count then.
        overrides_function: bool,
    },
    Whole,
    AllSteps,
    /// It is the time in which the kernels of a damaged trace survived, by when they ran.
    Survived,
    Slice {
        slice: &'a Candidate,
        /// If its function was named: its place among the slices of this name, and how many there are.
        place: Option<(usize, usize)>,
        /// How it is chosen again, if it was chosen from a list of steps.
        again: Option<Again>,
    },
    Steps {
        /// Their numbers, as asked for.
        range: StepRange,
        label: Option<&'a str>,
        count: usize,
        processes: usize,
    },
}

/// Who runs a job gets what it reports, and chooses where a question leaves it open.
pub trait Watcher: Sync {
    /// Gets an event. Threads that read different files report at the same time.
    fn event(&self, event: Event<'_>) {
        let _ = event;
    }

    /// Whether somebody can choose from a list.
    fn can_choose(&self) -> bool {
        false
    }

    /// Chooses one of these slices by its position. Starts are shown from `origin`, the trace's first instant.
    /// Errors: nothing was chosen, which ends the run.
    fn choose(&self, list: &[Candidate], origin: Ns) -> Result<usize, NotChosen> {
        let _ = (list, origin);
        Err(NotChosen::Left)
    }
}

/// Watches nothing, and chooses nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Watcher for Silent {}
