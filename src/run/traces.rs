//! Traces, each loaded, reduced to a part of the answer, and dropped. Several files are read by several threads, so that as many traces are in memory as
//! there are threads.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::choice::{Start, WindowChoice, WindowError};
use super::error::RunError;
use super::inputs::is_named_like_a_trace;
use super::reading::Run;
use super::watch::Event;
use super::window::Manner;
use crate::answers::stacks::data::StackOptions;
use crate::attribution::capture::Captured;
use crate::attribution::launches::{self, Evidence, Launched, Launches, WindowOn};
use crate::attribution::possible::choose_or_possible;
use crate::attribution::selection::Wanted;
use crate::attribution::{Attributor, rank_of_trace};
use crate::document::format::visible;
use crate::event::ArgsWanted;
use crate::id::{RankId, TraceId};
use crate::load::{LoadOptions, Loaded, load_each};
use crate::parallel::in_order;
use crate::sql::Database;
use crate::store::Store;
use crate::time::Window;

/// What is asked of each trace.
#[derive(Debug, Default)]
pub struct TraceQuestion {
    /// Which kernels.
    pub wanted: Wanted,
    /// Which part of it.
    pub window: WindowChoice,
    /// What its stacks show.
    pub stacks: StackOptions,
    /// The captures of graphs; empty for those in the folder beside the trace.
    pub captures: Vec<PathBuf>,
    /// Whether all steps are asked about where no part is chosen.
    pub by_step: bool,
}

/// A question, and how its answer is reduced.
type Asked<'a, T> = (&'a TraceQuestion, &'a Reducer<'a, T>);

impl TraceQuestion {
    /// About all kernels of these in whole traces.
    pub fn about(wanted: Wanted) -> Self {
        TraceQuestion { wanted, ..TraceQuestion::default() }
    }

    /// Each trace has its own clock and its own steps.
    fn refuse_for_several(&self) -> Result<(), RunError> {
        if matches!(self.window.times, Some((Start::At(_), _))) {
            return Err(WindowError::SeveralClocks.into());
        }
        if self.window.is_interactive {
            return Err(WindowError::SeveralToChooseIn.into());
        }
        Ok(())
    }
}

/// One trace, ready to be reduced.
#[derive(Debug)]
pub struct Prepared<'a> {
    pub name: &'a str,
    /// The trace.
    pub database: &'a Database,
    /// Attributes its kernels, with the captures that belong to it.
    pub attributor: Attributor<'a>,
    /// The chosen kernels and their launches.
    pub launches: &'a Launches,
    /// What is asked about.
    pub window: Window,
    /// What has to start in the window. It differs from the question if the trace ends early.
    pub window_on: WindowOn,
    /// Whether there is no other trace.
    pub is_alone: bool,
}

impl Prepared<'_> {
    /// The options for this trace, given those for all traces.
    pub fn options(&self, how: &StackOptions) -> StackOptions {
        StackOptions { window_on: self.window_on, ..how.clone() }
    }
}

/// What a trace is reduced to.
#[derive(Debug)]
pub struct Reduced<T> {
    pub reduction: T,
    /// The trace's name.
    pub name: String,
    /// The file that it was read from.
    pub file: PathBuf,
    /// The rank that it is, if it says so.
    pub rank: Option<RankId>,
    /// From its first event to its last.
    pub span: Window,
    /// Whether it is a file of an archive.
    pub is_member: bool,
    /// What is wrong with it, in lines.
    pub damage: Vec<String>,
    text_bytes: u64,
    events: u64,
}

/// What the traces of some files are reduced to.
#[derive(Debug)]
pub struct ReducedTraces<T> {
    /// By trace, in the order of the files.
    pub traces: Vec<Reduced<T>>,
    /// Stores without traces, with what is wrong with archives as a whole.
    pub archives: Vec<Store>,
    /// Which files were left out, and why.
    pub left_out: Vec<String>,
    /// How many of these should have been traces, and nothing of them could be read.
    pub lost: usize,
    /// Files of archives that are named like traces, and are none.
    pub no_traces: Vec<String>,
}

impl<T> Default for ReducedTraces<T> {
    fn default() -> Self {
        ReducedTraces { traces: Vec::new(), archives: Vec::new(), left_out: Vec::new(), lost: 0, no_traces: Vec::new() }
    }
}

/// How each trace is reduced, and which arguments this needs.
pub struct Reducer<'r, T> {
    /// The arguments.
    pub args: ArgsWanted,
    /// Whether the reduction compares the clocks of the traces itself.
    pub compares_clocks: bool,
    /// Reduces a trace.
    pub by: &'r (dyn Fn(Prepared<'_>) -> Result<T, RunError> + Sync),
}

impl Run<'_> {
    /// Loads the traces of some files, and reduces each of them.
    /// Errors: what reading and reducing a trace fails with. A file that cannot be read is left out, unless all are like that.
    pub fn reduce<T: Send>(
        &self,
        files: &[PathBuf],
        question: &TraceQuestion,
        reducer: &Reducer<'_, T>,
    ) -> Result<ReducedTraces<T>, RunError> {
        let mut answers = match files {
            [file] => self.file(file, true, self.reading.threads, (question, reducer))?,
            files => self.files(files, (question, reducer))?,
        };
        if !reducer.compares_clocks {
            self.count_once(&mut answers)?;
        }
        let answered = &answers.traces;
        if answered.len() > 1 || answered.iter().any(|answered| answered.is_member) {
            let names: Vec<&str> = answered.iter().map(|answered| answered.name.as_str()).collect();
            let (bytes, events) = answered
                .iter()
                .fold((0, 0), |(bytes, events), answered| (bytes + answered.text_bytes, events + answered.events));
            let (choice, by_step) = (&question.window, question.by_step);
            self.report(Event::Traces { names: &names, text_bytes: bytes, events, choice, by_step });
            let spans: Vec<_> = answered.iter().map(|answered| (answered.span, answered.name.clone())).collect();
            if !reducer.compares_clocks {
                self.report(Event::Spans(&spans));
            }
        }
        Ok(answers)
    }

    /// Loads several files, as many at once as there are threads. A file that cannot be read is left out, unless all are like that.
    fn files<T: Send>(&self, files: &[PathBuf], asked: Asked<'_, T>) -> Result<ReducedTraces<T>, RunError> {
        asked.0.refuse_for_several()?;
        let threads = self.threads();
        let workers = threads.min(files.len());
        let each = NonZero::new(threads / workers);
        let answers = in_order(files.len(), workers, |at| self.file(&files[at], false, each, asked));
        let (mut found, mut failure) = (ReducedTraces::default(), None);
        for answer in answers {
            match answer {
                Ok(of_file) => {
                    found.traces.extend(of_file.traces);
                    found.archives.extend(of_file.archives);
                    found.no_traces.extend(of_file.no_traces);
                }
                Err(RunError::Library(error)) if !self.reading.strict => {
                    self.report(Event::LeftOut(&error));
                    found.left_out.push(format!("Left out: {error}"));
                    found.lost += usize::from(error.is_lost_trace());
                    failure = failure.or(Some(error));
                }
                Err(error) => return Err(error),
            }
        }
        match failure {
            Some(failure) if found.traces.is_empty() => Err(failure.into()),
            _ => Ok(found),
        }
    }

    /// Loads the traces of a file one after the other. `alone` says that it is the only file, which may ask and report at once.
    fn file<T>(
        &self,
        file: &Path,
        alone: bool,
        threads: Option<NonZero<usize>>,
        asked: Asked<'_, T>,
    ) -> Result<ReducedTraces<T>, RunError> {
        let options = LoadOptions { threads, ..self.load_options(asked.1.args) };
        let mut found = Vec::new();
        let whole = self.each_trace(file, options, alone, |loaded| {
            let is_member = loaded.store.traces.first().is_some_and(|trace| trace.name.is_some());
            let (asks, says) = (alone && found.is_empty(), alone && !is_member);
            let manner = Manner { asks, says, by_step: asked.0.by_step };
            found.push(self.trace(file, loaded, manner, asked)?);
            Ok(())
        })?;
        self.check(&whole)?;
        let named = whole.findings.no_traces.iter().filter(|name| is_named_like_a_trace(name));
        let no_traces = named.map(|name| format!("{}/{name}", file.display())).collect();
        Ok(ReducedTraces { traces: found, archives: vec![whole.store], left_out: Vec::new(), lost: 0, no_traces })
    }

    /// Loads the traces of a file one after the other, so that one is in memory at a time. What concerns an archive as a whole is reported and
    /// returned.
    /// Errors: what loading fails with, and what `each` fails with, which ends the load.
    pub fn each_trace(
        &self,
        file: &Path,
        options: LoadOptions,
        shows_progress: bool,
        mut each: impl FnMut(Loaded) -> Result<(), RunError>,
    ) -> Result<Loaded, RunError> {
        let mut failure = None;
        let whole = load_each(
            self.input(file)?,
            options,
            |progress| {
                if shows_progress {
                    self.report(Event::Progress(progress));
                }
            },
            |loaded| {
                self.report(Event::ReadingEnded);
                match each(loaded) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => {
                        failure = Some(error);
                        ControlFlow::Break(())
                    }
                }
            },
        );
        self.report(Event::ReadingEnded);
        match failure {
            Some(error) => Err(error),
            None => {
                let whole = whole?;
                self.report(Event::Archive(&whole.findings));
                Ok(whole)
            }
        }
    }

    /// The answer of one trace, which is dropped then.
    fn trace<T>(
        &self,
        file: &Path,
        loaded: Loaded,
        manner: Manner,
        (question, reducer): Asked<'_, T>,
    ) -> Result<Reduced<T>, RunError> {
        if manner.says {
            self.report(Event::Loaded(&loaded));
        }
        self.check(&loaded)?;
        if !manner.asks {
            question.refuse_for_several()?;
        }
        let Loaded { store, name, text_bytes, .. } = loaded;
        // Of the traces of an archive the archive is named once.
        let member = store.traces.iter().find_map(|trace| trace.name.clone());
        let is_member = member.is_some();
        let name = member.unwrap_or(name);
        let (rank, span) = (rank_of_trace(&store, TraceId(0)), store.span);
        let damage = self.damage_lines(&store);
        // Those of an archive's traces have their names already.
        let is_named = manner.asks || is_member;
        let damage = damage.into_iter().map(|line| if is_named { line } else { format!("{name}: {line}") }).collect();
        let events = store.events;
        let database = Database::of_tables(store)?;
        let store = database.store();
        let mut launches = launches::find(store, &choose_or_possible(store, &question.wanted));
        let (window, window_on) = self
            .window(&question.window, &database, &launches, manner)
            .map_err(|error| if manner.says { error } else { error.in_trace(&name) })?;
        let captured = self.captured(file, question, &database, &mut launches)?;
        let attributor = Attributor::new(store, &question.wanted, captured);
        let is_alone = manner.asks && !is_member;
        let reduction = (reducer.by)(Prepared {
            name: &name,
            database: &database,
            attributor,
            launches: &launches,
            window,
            window_on,
            is_alone,
        })?;
        Ok(Reduced { reduction, name, file: file.to_owned(), rank, span, is_member, damage, text_bytes, events })
    }

    /// The stacks with which replayed kernels were captured. Captures are read only if the trace has kernels that can be in them.
    fn captured(
        &self,
        trace: &Path,
        question: &TraceQuestion,
        database: &Database,
        launches: &mut Launches,
    ) -> Result<Captured, RunError> {
        let store = database.store();
        let may_be_captured = |launched: &Launched| {
            launched.evidence == Evidence::GraphReplay || store.graph_node(launched.kernel).is_some()
        };
        if question.captures.is_empty() && !launches.kernels.iter().any(may_be_captured) {
            return Ok(Captured::default());
        }
        let captures = self.captures(&question.captures, trace, question.stacks.exact_names)?;
        Ok(captures.stacks(store, launches))
    }

    /// Leaves out traces that are there again under another name, compressed say. A trace of which only a part is there again is refused: nothing
    /// says which of the two is meant.
    fn count_once<T>(&self, answers: &mut ReducedTraces<T>) -> Result<(), RunError> {
        let mut kept: Vec<Reduced<T>> = Vec::new();
        for trace in std::mem::take(&mut answers.traces) {
            let has_time = trace.span.start < trace.span.end;
            let Some(first) =
                kept.iter().find(|first| has_time && first.rank == trace.rank && first.is_of_recording(&trace))
            else {
                kept.push(trace);
                continue;
            };
            if (first.span, first.events) == (trace.span, trace.events) {
                let line =
                    format!("There twice, and counted once: {} and {}", visible(&first.name), visible(&trace.name));
                self.warn(&line);
                answers.left_out.push(line);
            } else if let Some(rank) = trace.rank {
                let [first, second] = [first, &trace].map(|trace| visible(&trace.name).into_owned());
                return Err(RunError::RankTwice { rank: rank.0, first, second });
            } else {
                kept.push(trace);
            }
        }
        answers.traces = kept;
        Ok(())
    }
}

impl<T> Reduced<T> {
    /// Whether it begins or ends at the same nanosecond as another: no two recordings of a rank do.
    fn is_of_recording(&self, other: &Self) -> bool {
        self.span.start == other.span.start || self.span.end == other.span.end
    }
}
