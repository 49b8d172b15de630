//! Traces, each loaded, reduced to a part of the answer, and dropped. Several files are read by several threads, so that as many traces are in memory as
//! there are threads.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::error::RunError;
use super::inputs::{is_named_like_a_trace, is_read_once};
use super::missing;
use super::next_steps::next_steps;
use super::question::Question;
use super::reading::Run;
use super::watch::Event;
use super::window::Manner;
use crate::answers::MOST_DRAWN;
use crate::answers::damage::Losses;
use crate::answers::ranks::alone::Alone;
use crate::answers::ranks::reduce::reduce;
use crate::answers::ranks::reduction::RankReduction;
use crate::answers::stacks::data::StackOptions;
use crate::answers::stacks::reduction::{Attributed, StackReduction};
use crate::answers::stacks::timeline::Timeline;
use crate::answers::window::missing::Missing;
use crate::attribution::capture::Captured;
use crate::attribution::launches::{self, Evidence, Launched, Launches};
use crate::attribution::possible::choose_or_possible;
use crate::attribution::{Attributor, KernelLaunch, rank_of_trace};
use crate::document::format::visible;
use crate::event::ArgsWanted;
use crate::id::{RankId, TraceId};
use crate::input::{Contents, Input};
use crate::load::{LoadOptions, Loaded, load_each};
use crate::parallel::in_order;
use crate::sql::Database;
use crate::store::Store;
use crate::time::{Ns, Window};

/// How many rows the timeline of a trace has at most, and those of all traces of a page.
const ROWS_OF_ONE: usize = 40_000;
const ROWS_OF_ALL: usize = 160_000;

/// What is kept of each trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// Its stacks, and why it has none.
    Stacks,
    /// Its ranks; if they are drawn, what a page needs beside them.
    Ranks,
    /// Its stacks and its ranks.
    Parts,
}

/// What is asked of each trace.
#[derive(Clone, Copy)]
struct Asked<'a> {
    question: &'a Question,
    kept: Kept,
    /// How many files there are.
    files: usize,
}

impl Asked<'_> {
    fn has_stacks(self) -> bool {
        self.kept != Kept::Ranks || self.question.draws
    }

    /// A comparison of ranks compares their clocks itself.
    fn has_ranks(self) -> bool {
        self.kept != Kept::Stacks
    }

    /// Records are joined by the numbers of operations, and so are ranks.
    fn args(self) -> ArgsWanted {
        let StackOptions { records, grouping, .. } = &self.question.stacks;
        let needs_operations = self.has_ranks() || records.is_some();
        grouping.args(if needs_operations { ArgsWanted::OPERATIONS } else { ArgsWanted::COLLECTIVES })
    }
}

/// What is kept of a trace, which is dropped then.
#[derive(Debug)]
pub(super) struct Reduced {
    pub(super) name: String,
    /// The file that it was read from.
    pub(super) file: PathBuf,
    /// The rank that it is, if it says so.
    pub(super) rank: Option<RankId>,
    /// From its first event to its last.
    pub(super) span: Window,
    /// Its name in messages: of a file of an archive with that before it.
    pub(super) title: String,
    /// Whether it is a file of an archive.
    pub(super) is_member: bool,
    /// What is wrong with it, in lines.
    pub(super) damage: Vec<String>,
    pub(super) losses: Losses,
    pub(super) stacks: Option<StackReduction>,
    pub(super) ranks: Vec<RankReduction>,
    /// When its kernels ran, if the answer is drawn.
    pub(super) timeline: Option<Timeline>,
    /// Why it has no stacks, if it has none.
    pub(super) missing: Option<Missing>,
    /// The critical path of each rank alone, if that is asked for.
    pub(super) path: BTreeMap<&'static str, Ns>,
    /// What to do next, in sentences, if it is the only trace.
    pub(super) next_steps: Vec<String>,
    text_bytes: u64,
    events: u64,
}

/// The traces of some files.
#[derive(Debug, Default)]
pub(super) struct ReducedTraces {
    /// In the order of the files.
    pub(super) traces: Vec<Reduced>,
    /// Stores without traces, with what is wrong with archives as a whole.
    pub(super) archives: Vec<Store>,
    /// Which files were left out, and why.
    pub(super) left_out: Vec<String>,
    /// How many of these should have been traces, and nothing of them could be read.
    pub(super) lost: usize,
    /// Files of archives that are named like traces, and are none.
    pub(super) no_traces: Vec<String>,
}

impl Run<'_> {
    /// Loads the traces of some files, and reduces each of them.
    /// Errors: what reading and reducing a trace fails with. A file that cannot be read is left out, unless all are like that.
    pub(super) fn reduce(&self, files: &[PathBuf], question: &Question, kept: Kept) -> Result<ReducedTraces, RunError> {
        let asked = Asked { question, kept, files: files.len() };
        let mut answers = match files {
            [file] => self.file(file, true, self.reading.threads, asked)?,
            files => self.files(files, asked)?,
        };
        if !asked.has_ranks() {
            self.count_once(&mut answers)?;
        }
        let answered = &answers.traces;
        if answered.len() > 1 || answered.iter().any(|answered| answered.is_member) {
            // Where there is nothing but an archive, it need not be named.
            let are_several = files.len() > 1;
            let names: Vec<&str> =
                answered.iter().map(|of| if are_several { of.title.as_str() } else { of.name.as_str() }).collect();
            let (bytes, events) = answered
                .iter()
                .fold((0, 0), |(bytes, events), answered| (bytes + answered.text_bytes, events + answered.events));
            let (choice, by_step) = (&question.window, question.by_step);
            self.report(Event::Traces { names: &names, text_bytes: bytes, events, choice, by_step });
            let spans: Vec<_> = answered.iter().zip(&names).map(|(of, name)| (of.span, (*name).to_owned())).collect();
            if !asked.has_ranks() {
                self.report(Event::Spans(&spans));
            }
        }
        Ok(answers)
    }

    /// Looks at the beginnings of some files whether there is a trace among them, for an answer that needs others, too.
    /// Errors: why the first of them is none, if all are like that.
    pub fn find_trace(&self, files: &[PathBuf]) -> Result<(), RunError> {
        let mut failure = None;
        for file in files {
            let may_be_one = |contents| match contents {
                Contents::File(trace) => Ok(trace.looks_like_one()),
                Contents::Archive(archive) => archive.has_likely_trace(),
            };
            let looked = || self.input(file).and_then(Input::into_contents).and_then(may_be_one);
            let found = match if is_read_once(file) { Ok(true) } else { looked() } {
                Ok(true) => Ok(()),
                // Reading it says what it is instead.
                Ok(false) => {
                    self.each_trace(file, self.load_options(ArgsWanted::COLLECTIVES), false, |_| Ok(())).map(drop)
                }
                Err(error) => Err(error.into()),
            };
            match found {
                Ok(()) => return Ok(()),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Loads several files, as many at once as there are threads. A file that cannot be read is left out, unless all are like that.
    fn files(&self, files: &[PathBuf], asked: Asked<'_>) -> Result<ReducedTraces, RunError> {
        asked.question.refuse_for_several()?;
        let threads = self.threads();
        let workers = threads.min(files.len());
        let each = NonZero::new(threads / workers);
        let done = AtomicUsize::new(0);
        let answers = in_order(files.len(), workers, |at| {
            let found = self.file(&files[at], false, each, asked);
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            self.report(Event::Counted { what: "Traces", done, of: files.len() });
            found
        });
        self.report(Event::ReadingEnded);
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
    fn file(
        &self,
        file: &Path,
        alone: bool,
        threads: Option<NonZero<usize>>,
        asked: Asked<'_>,
    ) -> Result<ReducedTraces, RunError> {
        let options = LoadOptions { threads, ..self.load_options(asked.args()) };
        let mut found = Vec::new();
        let whole = self.each_trace(file, options, alone, |loaded| {
            let is_member = loaded.store.traces.first().is_some_and(|trace| trace.name.is_some());
            let (asks, says) = (alone && found.is_empty(), alone && !is_member);
            let manner = Manner { asks, says, by_step: asked.question.by_step };
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
                if shows_progress {
                    self.report(Event::ReadingEnded);
                }
                match each(loaded) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => {
                        failure = Some(error);
                        ControlFlow::Break(())
                    }
                }
            },
        );
        if shows_progress {
            self.report(Event::ReadingEnded);
        }
        match failure {
            Some(error) => Err(error),
            None => {
                let whole = whole?;
                self.report(Event::Archive { name: &whole.name, findings: &whole.findings });
                Ok(whole)
            }
        }
    }

    fn trace(
        &self,
        file: &Path,
        loaded: Loaded,
        manner: Manner,
        asked @ Asked { question, kept, files }: Asked<'_>,
    ) -> Result<Reduced, RunError> {
        if manner.says {
            self.report(Event::Loaded(&loaded));
        }
        self.check(&loaded)?;
        if !manner.asks {
            question.refuse_for_several()?;
        }
        let Loaded { store, name, text_bytes, .. } = loaded;
        let member = store.traces.iter().find_map(|trace| Some((trace.name.clone()?, trace.file.clone())));
        let is_member = member.is_some();
        let (name, title) = member.unwrap_or_else(|| (name.clone(), name));
        let (rank, span, events) = (rank_of_trace(&store, TraceId(0)), store.span, store.events);
        let damage = self.damage_lines(&store);
        // Those of an archive's traces have their names already.
        let is_named = manner.asks || is_member;
        let damage = damage.into_iter().map(|line| if is_named { line } else { format!("{name}: {line}") }).collect();
        let database = Database::of_tables(store)?;
        let store = database.store();
        let mut launches = launches::find(store, &choose_or_possible(store, &question.wanted));
        let (window, window_on) = self
            .window(&question.window, &database, &launches, manner)
            .map_err(|error| if manner.says { error } else { error.in_trace(&title) })?;
        let captured = self.captured(file, question, &database, &mut launches)?;
        let attributor = Attributor::new(store, &question.wanted, captured);
        let is_alone = manner.asks && !is_member;
        // In a trace that ends early, kernels are in the window by when they ran.
        let mut options = StackOptions { window_on, ..question.stacks.clone() };
        options.largest_groups = options.largest_groups.filter(|_| is_alone);
        let mut reduced = Reduced {
            file: file.to_owned(),
            rank,
            span,
            title,
            is_member,
            damage,
            losses: Losses::count(store),
            stacks: None,
            ranks: Vec::new(),
            timeline: None,
            missing: None,
            path: BTreeMap::new(),
            next_steps: Vec::new(),
            text_bytes,
            events,
            name,
        };
        let name = &*reduced.name;
        let mut of_window = Attributed::new(name, attributor, &launches, window, &options);
        if asked.has_ranks() {
            reduced.ranks = reduce(&of_window);
        }
        if question.critical {
            let found = Alone::find(&of_window);
            let of_kernel = |kernel: &KernelLaunch| found.on_path.get(&kernel.launched.kernel).copied();
            let critical = |kernel: &mut KernelLaunch| kernel.critical = Some(of_kernel(kernel).unwrap_or_default());
            of_window.attribution.kernels.iter_mut().for_each(critical);
            reduced.path = found.kinds.into_iter().map(|(kind, time)| (kind.word(), time)).collect();
        }
        if asked.has_stacks() {
            let part = StackReduction::reduce(&of_window);
            if question.draws && files <= MOST_DRAWN {
                let most = (ROWS_OF_ALL / files).min(ROWS_OF_ONE);
                let mut timeline = Timeline::new(&of_window, most);
                // A file of several ranks is none of them.
                timeline.rank = part.trace().rank.filter(|_| reduced.ranks.len() < 2).map(|rank| rank.0);
                if kept == Kept::Stacks && files == 1 {
                    timeline.add_costs(&of_window);
                }
                reduced.timeline = Some(timeline);
            }
            if kept != Kept::Parts {
                reduced.missing = missing::explain(&database, window, &part)?;
            }
            reduced.stacks = Some(part);
        }
        if kept == Kept::Stacks && is_alone {
            reduced.next_steps = next_steps(name, store, &of_window.attribution.kernels);
        }
        Ok(reduced)
    }

    /// The stacks with which replayed kernels were captured. Captures are read only if the trace has kernels that can be in them.
    fn captured(
        &self,
        trace: &Path,
        question: &Question,
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
    fn count_once(&self, answers: &mut ReducedTraces) -> Result<(), RunError> {
        let mut kept: Vec<Reduced> = Vec::new();
        // By rank and beginning, or end: the first. No two recordings of a rank begin or end at the same nanosecond.
        let mut known: HashMap<(Option<RankId>, bool, Ns), usize> = HashMap::new();
        let keep = |trace: Reduced, ends: [_; 2], kept: &mut Vec<Reduced>, known: &mut HashMap<_, usize>| {
            ends.into_iter().for_each(|end| {
                known.entry(end).or_insert(kept.len());
            });
            kept.push(trace);
        };
        for trace in std::mem::take(&mut answers.traces) {
            let has_time = trace.span.start < trace.span.end;
            let ends = [(false, trace.span.start), (true, trace.span.end)];
            let ends = ends.map(|(is_end, time)| (trace.rank, is_end, time));
            let first = ends.iter().filter_map(|end| known.get(end)).min().filter(|_| has_time);
            let Some(first) = first.map(|at| &kept[*at]) else {
                keep(trace, ends, &mut kept, &mut known);
                continue;
            };
            if (first.span, first.events) == (trace.span, trace.events) {
                let line =
                    format!("There twice, and counted once: {} and {}", visible(&first.title), visible(&trace.title));
                self.warn(&line);
                answers.left_out.push(line);
            } else if let Some(rank) = trace.rank {
                let [first, second] = [first, &trace].map(|trace| visible(&trace.title).into_owned());
                return Err(RunError::RankTwice { rank: rank.0, first, second });
            } else {
                keep(trace, ends, &mut kept, &mut known);
            }
        }
        answers.traces = kept;
        Ok(())
    }
}
