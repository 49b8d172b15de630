//! The stacks of traces: what the main job and `diff` share.
//!
//! Each trace is loaded, reduced to a part of the answer, and dropped. Several files are read by several threads, so that as many traces
//! are in memory as there are threads.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nccl_stacks::analysis::cost::Order;
use nccl_stacks::analysis::delta::Per;
use nccl_stacks::analysis::losses::Losses;
use nccl_stacks::analysis::missing::{self, Missing};
use nccl_stacks::analysis::part::{Part, attributed};
use nccl_stacks::analysis::stacks::{StackOptions, StackReport};
use nccl_stacks::analysis::timeline::Timeline;
use nccl_stacks::attribution::capture::Captured;
use nccl_stacks::attribution::launches::{self, Evidence, Launched, Launches, WindowOn};
use nccl_stacks::attribution::possible::choose_or_possible;
use nccl_stacks::attribution::selection::Wanted;
use nccl_stacks::attribution::{Attribution, Attributor, rank_of_trace};
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::id::{RankId, TraceId};
use nccl_stacks::load::{LoadOptions, Loaded, load_each};
use nccl_stacks::nccl::frames::UserCode;
use nccl_stacks::records::Records;
use nccl_stacks::report::MOST_DRAWN;
use nccl_stacks::report::format::visible;
use nccl_stacks::sql::Database;
use nccl_stacks::store::Store;
use nccl_stacks::time::Window;

use super::args::{Climbing, Reading, Span, Start, Switch};
use super::failure::Failure;
use super::span::Manner;
use super::stop::Stop;
use super::terminal::say;
use super::{captures, notes, opening, progress, span};

/// More threads than this have nothing to do: they wait for the disk.
const MAX_THREADS: usize = 16;

/// How many rows the timeline of a trace has at most, and those of all traces of a page.
const ROWS_OF_ONE: usize = 40_000;
const ROWS_OF_ALL: usize = 160_000;

/// What is asked of traces.
pub(super) struct Question<'a> {
    pub(super) wanted: Wanted,
    pub(super) span: &'a Span,
    pub(super) climbing: &'a Climbing,
    /// Whether to tell the stacks of different ranks apart.
    pub(super) per_rank: bool,
    /// The captures that the user named; empty for those in the folder beside the trace.
    pub(super) captures: &'a [PathBuf],
    pub(super) reading: &'a Reading,
    /// NCCL's own records of the job.
    pub(super) records: Option<Arc<Records>>,
    /// Whether the answer is drawn, which needs the times of all kernels.
    pub(super) draws: bool,
    /// By what it is compared with another, if it is.
    pub(super) compared: Option<Per>,
    /// See [`StackOptions::largest_groups`].
    pub(super) largest_groups: Option<Order>,
}

/// The answer of some traces. It may have no stacks.
pub(super) struct Asked {
    pub(super) report: StackReport,
    /// Why there are no stacks, if there are none, by trace.
    pub(super) missing: Vec<(String, Missing)>,
    /// What is wrong with the traces.
    pub(super) damage: Vec<String>,
    /// Which files were left out, and why.
    pub(super) left_out: Vec<String>,
    /// When kernels ran, by trace, if the answer is drawn.
    pub(super) timelines: Vec<Timeline>,
}

/// One trace, ready to be reduced.
pub(super) struct Prepared<'a> {
    pub(super) name: &'a str,
    pub(super) database: &'a Database,
    pub(super) attributor: Attributor<'a>,
    pub(super) launches: &'a Launches,
    pub(super) window: Window,
    /// By what kernels are in it, which is not what the arguments say if the trace ends early.
    pub(super) window_on: WindowOn,
    /// Whether there is no other trace.
    pub(super) is_alone: bool,
}

impl Prepared<'_> {
    /// What its stacks show, if those of other traces show this.
    pub(super) fn how(&self, how: &StackOptions) -> StackOptions {
        StackOptions { window_on: self.window_on, ..how.clone() }
    }
}

/// What a trace is reduced to.
pub(super) struct Answered<T> {
    pub(super) part: T,
    pub(super) name: String,
    /// The file that it was read from.
    pub(super) file: PathBuf,
    rank: Option<RankId>,
    span: Window,
    pub(super) is_member: bool,
    pub(super) damage: Vec<String>,
    text_bytes: u64,
    events: u64,
}

/// The answers of some files.
pub(super) struct Answers<T> {
    pub(super) of_traces: Vec<Answered<T>>,
    /// Stores without traces, with what is wrong with archives as a whole.
    pub(super) of_archives: Vec<Store>,
    /// Which files were left out, and why.
    pub(super) left_out: Vec<String>,
    /// Files of archives that are named like traces, and are none.
    pub(super) no_traces: Vec<String>,
}

impl<T> Default for Answers<T> {
    fn default() -> Self {
        Answers { of_traces: Vec::new(), of_archives: Vec::new(), left_out: Vec::new(), no_traces: Vec::new() }
    }
}

/// How each trace is reduced, and which arguments this needs.
pub(super) struct Reduce<'r, T> {
    pub(super) args: ArgsWanted,
    /// Whether it finds out itself how the traces' clocks differ.
    pub(super) compares_clocks: bool,
    pub(super) by: &'r (dyn Fn(Prepared<'_>) -> Result<T, Stop> + Sync),
}

/// What stacks show by these arguments, without records.
pub(super) fn stack_options(span: &Span, climbing: &Climbing, per_rank: bool) -> StackOptions {
    let Climbing { forward_stacks, exact_names, ref user_code, .. } = *climbing;
    StackOptions {
        exact_names,
        window_on: span.window_on.into(),
        forward: forward_stacks == Switch::On,
        per_rank,
        user_code: UserCode::new(user_code.clone()),
        records: None,
        grouping: climbing.groups.grouping(),
        counts_steps: false,
        largest_groups: None,
    }
}

impl Question<'_> {
    /// What the stacks show.
    pub(super) fn how(&self) -> StackOptions {
        StackOptions {
            records: self.records.clone(),
            counts_steps: self.compared.is_some(),
            ..stack_options(self.span, self.climbing, self.per_rank)
        }
    }

    /// Whether all steps are asked about, where no part is chosen.
    fn is_by_step(&self) -> bool {
        self.compared == Some(Per::Step)
    }

    /// Loads the traces of some files and finds their stacks.
    pub(super) fn ask(&self, files: &[PathBuf]) -> Result<Asked, Stop> {
        let how = self.how();
        let by = |prepared: Prepared<'_>| {
            let how = prepared.how(&how);
            let Prepared { name, database, attributor, launches, window, is_alone, .. } = prepared;
            let store = database.store();
            let how = StackOptions { largest_groups: self.largest_groups.filter(|_| is_alone), ..how.clone() };
            let attribution = attributed(attributor, launches, window, &how);
            let part = Part::of_attributed(name, store, &attribution, launches, window, &how);
            let timeline = self.timeline(name, store, &attribution, window, &part, files.len());
            let missing = match part.has_stacks() {
                true => None,
                false => Some(missing::explain(database, window, &part)?),
            };
            Ok((part, missing, timeline))
        };
        // Records are joined by the numbers of operations, too.
        let args = if self.records.is_some() { ArgsWanted::OPERATIONS } else { ArgsWanted::COLLECTIVES };
        let args = how.grouping.args(args);
        let Answers { of_traces, of_archives, left_out, .. } =
            self.reduce(files, &Reduce { args, compares_clocks: false, by: &by })?;
        let (mut parts, mut reasons, mut damage, mut timelines) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for Answered { part: (part, missing, timeline), name, damage: of_trace, .. } in of_traces {
            parts.push(part);
            timelines.extend(timeline);
            reasons.extend(missing.map(|missing| (name, missing)));
            damage.extend(of_trace);
        }
        let mut report = StackReport::of(parts, &how);
        for archive in &of_archives {
            report.damage.add(Losses::of(archive));
            damage.extend(notes::damage_lines(archive));
        }
        if report.has_answer() {
            reasons.clear();
        }
        Ok(Asked { report, missing: reasons, damage, left_out, timelines })
    }

    /// When the kernels of one of so many files ran, if the answer is drawn.
    pub(super) fn timeline(
        &self,
        name: &str,
        store: &Store,
        attribution: &Attribution,
        window: Window,
        part: &Part,
        files: usize,
    ) -> Option<Timeline> {
        if !self.draws || files > MOST_DRAWN {
            return None;
        }
        let most = (ROWS_OF_ALL / files.max(1)).min(ROWS_OF_ONE);
        let mut timeline = Timeline::of(name, store, attribution, window, &self.how(), most);
        timeline.rank = part.trace().rank.map(|rank| rank.0);
        Some(timeline)
    }

    /// Loads the traces of some files, and reduces each of them.
    pub(super) fn reduce<T: Send>(&self, files: &[PathBuf], reduce: &Reduce<'_, T>) -> Result<Answers<T>, Stop> {
        let mut answers = match files {
            [file] => self.file(file, true, self.reading.threads, reduce)?,
            files => self.files(files, reduce)?,
        };
        if !reduce.compares_clocks {
            count_once(&mut answers)?;
        }
        let answered = &answers.of_traces;
        if answered.len() > 1 || answered.iter().any(|answered| answered.is_member) {
            let names: Vec<&str> = answered.iter().map(|answered| answered.name.as_str()).collect();
            let (bytes, events) = answered
                .iter()
                .fold((0, 0), |(bytes, events), answered| (bytes + answered.text_bytes, events + answered.events));
            notes::traces(&names, bytes, events, self.span, self.is_by_step());
            let spans: Vec<_> = answered.iter().map(|answered| (answered.span, answered.name.clone())).collect();
            if !reduce.compares_clocks {
                notes::apart(&spans);
            }
        }
        Ok(answers)
    }

    /// Loads several files, as many at once as there are threads. A file that cannot be read is left out, unless all are like that.
    fn files<T: Send>(&self, files: &[PathBuf], reduce: &Reduce<'_, T>) -> Result<Answers<T>, Stop> {
        self.refuse_for_several()?;
        let available = || std::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
        let threads = self.reading.threads.map_or_else(available, NonZero::get);
        let workers = threads.min(files.len());
        let each = NonZero::new(threads / workers);
        let next = AtomicUsize::new(0);
        let answers = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some((at, file)) = files.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed)) {
                        let answer = self.file(file, false, each, reduce);
                        answers.lock().unwrap_or_else(PoisonError::into_inner).push((at, answer));
                    }
                });
            }
        });
        let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
        answers.sort_by_key(|(at, _)| *at);
        let (mut found, mut failure) = (Answers::default(), None);
        for (_, answer) in answers {
            match answer {
                Ok(of_file) => {
                    found.of_traces.extend(of_file.of_traces);
                    found.of_archives.extend(of_file.of_archives);
                    found.no_traces.extend(of_file.no_traces);
                }
                Err(Stop::Failed(broken @ Failure::Library(_))) if !self.reading.strict => {
                    let line = format!("Left out: {broken}");
                    say(&line);
                    found.left_out.push(line);
                    failure = failure.or(Some(broken));
                }
                Err(stop) => return Err(stop),
            }
        }
        match failure {
            Some(failure) if found.of_traces.is_empty() => Err(failure.into()),
            _ => Ok(found),
        }
    }

    /// Each trace has its own clock and its own steps.
    fn refuse_for_several(&self) -> Result<(), Stop> {
        if matches!(self.span.start_ts, Some(Start::At(_))) {
            return Err(Stop::Usage(
                "--start-ts: several traces have clocks of their own; give a time from the start of each, such as +10ms, or choose \
                 with --function-name and --index"
                    .to_owned(),
            ));
        }
        if self.span.interactive {
            return Err(Stop::Usage(
                "--interactive chooses in one trace; for several choose with --function-name and --index".to_owned(),
            ));
        }
        Ok(())
    }

    /// Loads the traces of a file one after the other. `alone` is for a file that is the only one: it may ask and report at once.
    fn file<T>(
        &self,
        file: &Path,
        alone: bool,
        threads: Option<NonZero<usize>>,
        reduce: &Reduce<'_, T>,
    ) -> Result<Answers<T>, Stop> {
        let options = LoadOptions { threads, ..opening::options(self.reading, reduce.args) };
        // Both the reader's thread and what asks for a window use the screen.
        let bar = Mutex::new(progress::Bar::new());
        let on_screen = || bar.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut found, mut stop) = (Vec::new(), None);
        let whole = load_each(
            opening::input(file, self.reading)?,
            options,
            |progress| {
                if alone {
                    on_screen().show(progress);
                }
            },
            |loaded| {
                on_screen().clear();
                let is_member = loaded.store.traces.first().is_some_and(|trace| trace.name.is_some());
                let (asks, says) = (alone && found.is_empty(), alone && !is_member);
                let manner = Manner { asks, says, by_step: self.is_by_step() };
                let answer = self.trace(file, loaded, manner, options, reduce);
                answer.map(|answered| found.push(answered)).map_or_else(
                    |stopped| {
                        stop = Some(stopped);
                        ControlFlow::Break(())
                    },
                    ControlFlow::Continue,
                )
            },
        );
        on_screen().clear();
        if let Some(stop) = stop {
            return Err(stop);
        }
        let whole = whole?;
        notes::findings(&whole.findings);
        opening::check_strict(self.reading, &whole)?;
        let named = notes::named_like_traces(&whole.findings);
        let no_traces = named.map(|name| format!("{}/{name}", file.display())).collect();
        Ok(Answers { of_traces: found, of_archives: vec![whole.store], left_out: Vec::new(), no_traces })
    }

    /// The answer of one trace, which is dropped then.
    fn trace<T>(
        &self,
        file: &Path,
        loaded: Loaded,
        manner: Manner,
        options: LoadOptions,
        reduce: &Reduce<'_, T>,
    ) -> Result<Answered<T>, Stop> {
        if manner.says {
            notes::loaded(&loaded);
        }
        notes::units(&loaded, self.reading);
        if !manner.asks {
            self.refuse_for_several()?;
        }
        opening::check_strict(self.reading, &loaded)?;
        let Loaded { store, name, text_bytes, .. } = loaded;
        // Of the traces of an archive the archive is named once.
        let member = store.traces.iter().find_map(|trace| trace.name.clone());
        let is_member = member.is_some();
        let name = member.unwrap_or(name);
        let (rank, span) = (rank_of_trace(&store, TraceId(0)), store.span);
        let damage = notes::damage_lines(&store);
        // Those of an archive's traces have their names already.
        let is_named = manner.asks || is_member;
        let damage = damage.into_iter().map(|line| if is_named { line } else { format!("{name}: {line}") }).collect();
        let events = store.events;
        let database = Database::of_tables(store)?;
        let store = database.store();
        let mut launches = launches::find(store, &choose_or_possible(store, &self.wanted));
        let (window, window_on) = span::choose(self.span, &database, &launches, manner)
            .map_err(|stop| if manner.says { stop } else { stop.of(&name) })?;
        let captured = self.captured(file, options, &database, &mut launches)?;
        let attributor = Attributor::new(store, &self.wanted, captured);
        let is_alone = manner.asks && !is_member;
        let part = (reduce.by)(Prepared {
            name: &name,
            database: &database,
            attributor,
            launches: &launches,
            window,
            window_on,
            is_alone,
        })?;
        Ok(Answered { part, name, file: file.to_owned(), rank, span, is_member, damage, text_bytes, events })
    }

    /// The stacks with which replayed kernels were captured. Captures are read only if the trace has kernels that can be in them.
    fn captured(
        &self,
        trace: &Path,
        options: LoadOptions,
        database: &Database,
        launches: &mut Launches,
    ) -> Result<Captured, Stop> {
        let store = database.store();
        let may_be_captured = |launched: &Launched| {
            launched.evidence == Evidence::GraphReplay || store.graph_node(launched.kernel).is_some()
        };
        if self.captures.is_empty() && !launches.kernels.iter().any(may_be_captured) {
            return Ok(Captured::default());
        }
        let captures = captures::read(self.captures, trace, options, self.climbing.exact_names)?;
        Ok(captures.stacks(store, launches))
    }
}

/// Leaves out traces that are there again under another name, compressed say. A trace of which only a part is there again is refused: nothing
/// says which of the two is meant.
fn count_once<T>(answers: &mut Answers<T>) -> Result<(), Stop> {
    let mut kept: Vec<Answered<T>> = Vec::new();
    for trace in std::mem::take(&mut answers.of_traces) {
        let has_time = trace.span.start < trace.span.end;
        let Some(first) =
            kept.iter().find(|first| has_time && first.rank == trace.rank && first.is_of_recording(&trace))
        else {
            kept.push(trace);
            continue;
        };
        if (first.span, first.events) == (trace.span, trace.events) {
            let line = format!("There twice, and counted once: {} and {}", visible(&first.name), visible(&trace.name));
            say(&line);
            answers.left_out.push(line);
        } else if let Some(rank) = trace.rank {
            let [first, second] = [first, &trace].map(|trace| visible(&trace.name).into_owned());
            return Err(Failure::RankTwice { rank: rank.0, first, second }.into());
        } else {
            kept.push(trace);
        }
    }
    answers.of_traces = kept;
    Ok(())
}

impl<T> Answered<T> {
    /// Whether it begins or ends at the same nanosecond as another: no two recordings of a rank do.
    fn is_of_recording(&self, other: &Self) -> bool {
        self.span.start == other.span.start || self.span.end == other.span.end
    }
}
