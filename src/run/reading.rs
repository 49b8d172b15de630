//! A run: how files are read, and who watches.

use std::num::NonZero;
use std::path::{Path, PathBuf};

use super::error::RunError;
use super::memory;
use super::watch::{Event, Silent, Watcher};
use crate::answers::damage::lines::{store_faults, store_lines};
use crate::error::Error;
use crate::event::ArgsWanted;
use crate::input::limit::Limits;
use crate::input::{self, Input};
use crate::load::{LoadOptions, Loaded, load_all};
use crate::sql::Database;
use crate::store::Store;
use crate::time::TimeRule;

/// More threads than this have nothing to do: they wait for the disk.
const MAX_THREADS: usize = 16;

#[derive(Debug, Clone, Copy, Default)]
pub struct Reading {
    /// What the times of JSON traces are; `None`: microseconds, with a warning where they are probably something else.
    pub time: Option<TimeRule>,
    /// How many threads read; `None`: as many as the machine has, up to 16. The answer is the same.
    pub threads: Option<NonZero<usize>>,
    /// How much text a trace may have.
    pub limits: Limits,
    /// Whether to fail if anything is damaged.
    pub strict: bool,
    /// Whether to name damage that needs no action as well.
    pub names_all_damage: bool,
    /// Of several runs of a job in the files: which one, 1 the oldest; `None`: the newest.
    pub run: Option<usize>,
    /// How many bytes of memory there are; `None`: as many as the system says.
    pub memory: Option<u64>,
}

/// Reads inputs and answers questions about them, watched by somebody.
#[derive(Clone, Copy)]
pub struct Run<'w> {
    pub reading: Reading,
    watcher: &'w dyn Watcher,
}

impl Default for Run<'_> {
    fn default() -> Self {
        Run::new(Reading::default(), &Silent)
    }
}

impl std::fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("reading", &self.reading).finish_non_exhaustive()
    }
}

impl<'w> Run<'w> {
    /// A run that reads files in this way, and reports to this watcher.
    pub fn new(reading: Reading, watcher: &'w dyn Watcher) -> Self {
        Run { reading, watcher }
    }

    pub(super) fn watcher(&self) -> &'w dyn Watcher {
        self.watcher
    }

    pub(super) fn report(&self, event: Event<'_>) {
        self.watcher.event(event);
    }

    pub(super) fn note(&self, line: &str) {
        self.report(Event::Note(line));
    }

    pub(super) fn warn(&self, line: &str) {
        self.report(Event::Warning(line));
    }

    /// How many threads read and answer, at most as many as help.
    pub(super) fn threads(&self) -> usize {
        let available = || std::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
        self.reading.threads.map_or_else(available, NonZero::get)
    }

    /// How many bytes of memory there are, as far as that is known.
    pub(super) fn memory(&self) -> Option<u64> {
        self.reading.memory.or_else(memory::available)
    }

    /// The options of a load that keeps these arguments of events.
    pub fn load_options(&self, args: ArgsWanted) -> LoadOptions {
        let Reading { time, threads, limits, .. } = self.reading;
        LoadOptions { time: time.unwrap_or_default(), args, threads, limits, ..LoadOptions::default() }
    }

    /// A trace's bytes.
    pub fn input(&self, trace: &Path) -> Result<Input, Error> {
        let mut input = input::open(trace)?;
        input.limits = self.reading.limits;
        Ok(input)
    }

    /// Loads a trace, ready for questions in SQL. Without all arguments the tables are for this library's own queries only.
    pub fn open(&self, trace: &Path, options: LoadOptions) -> Result<Database, RunError> {
        let store = self.load_all(&[trace.to_owned()], options)?;
        let open = if options.args == ArgsWanted::All { Database::open } else { Database::of_tables };
        Ok(open(store)?)
    }

    /// Loads several traces into one store; without any it is empty. A file that cannot be read is left out, unless all are like that.
    /// Errors: what [`load_all`] fails with, and damage where nothing may be damaged.
    pub fn load_all(&self, traces: &[PathBuf], options: LoadOptions) -> Result<Store, RunError> {
        let result = load_all(traces, options, |progress| self.report(Event::Progress(progress)));
        self.report(Event::ReadingEnded);
        let mut loaded = result?;
        for error in loaded.unread.drain(..) {
            if self.reading.strict {
                return Err(error.into());
            }
            self.report(Event::LeftOut(&error));
        }
        if !traces.is_empty() {
            self.report(Event::Loaded(&loaded));
            self.check(&loaded)?;
        }
        Ok(loaded.store)
    }

    /// Reports times that are probably nanoseconds, and refuses what is damaged if nothing may be.
    pub fn check(&self, loaded: &Loaded) -> Result<(), RunError> {
        if self.reading.time.is_none() {
            for trace in loaded.store.in_nanoseconds() {
                let file = loaded.store.traces.get(trace.row()).map_or(&*loaded.name, |trace| &*trace.file);
                self.report(Event::ProbablyNanoseconds(file));
            }
        }
        let list = if self.reading.strict { store_faults(&loaded.store) } else { String::new() };
        if list.is_empty() { Ok(()) } else { Err(RunError::Strict { name: loaded.name.clone(), list }) }
    }

    /// What is wrong with a trace, in lines.
    pub fn damage_lines(&self, store: &Store) -> Vec<String> {
        store_lines(store, self.reading.names_all_damage)
    }
}
