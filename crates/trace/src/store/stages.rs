//! Runs the events through three stages on several threads: ordering, nesting, flows.
//!
//! The time is divided into stretches. Any number can be ordered at once; nesting and the binding of flows take one after the other, but one can be
//! nested while the flows of an earlier one are bound. So a free thread takes the job that the most others depend on. Each stage receives the
//! stretches in the same order whatever the threads do, so the result is the same.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::num::NonZero;

use super::args::{ArgSetId, Args};
use super::flows::{Binder, FlowEvent, FlowItem, Marks};
use super::nest::{Nester, NewSlice};
use super::order::{Events, Next, Ordered, Segment, Stretches, order};
use super::raw::{Mark, RawKind};
use super::slices::{EndedSlices, Nested, Rows, Slices, UNFINISHED};
use super::tracks::Tracks;
use crate::damage::{Damage, DamageReport};
use crate::id::{SliceId, TraceId, TrackId};
use crate::names::category::CategoryKind;
use crate::parallel::Shared;

/// More threads than this have nothing to do: only the ordering is divided further.
const MAX_THREADS: usize = 4;

/// Below this many stretches, starting a thread takes longer than it saves.
const MIN_STRETCHES: usize = 4;

/// Runs all events through the stages. Returns the stages with their results.
pub(super) fn run<'a>(
    stretches: Stretches,
    events: Events<'a>,
    assembler: Assembler<'a>,
    binder: Binder<'a>,
    threads: NonZero<usize>,
) -> (Assembler<'a>, Binder<'a>) {
    let threads = if stretches.len() < MIN_STRETCHES { 1 } else { threads.get().min(MAX_THREADS) };
    let work = Work {
        events,
        // One stretch is nested, and one waits for that while the others are ordered.
        ahead: threads + 1,
        line: Shared::new(Line {
            stretches,
            given: 0,
            ordered: BTreeMap::new(),
            assembler: Some(Box::new(assembler)),
            nested: 0,
            items: VecDeque::new(),
            binder: Some(Box::new(binder)),
            spare: Spare::default(),
        }),
    };
    work.line.on_threads(threads, |_| work.run());
    let line = work.line.into_inner();
    match (line.assembler, line.binder) {
        (Some(assembler), Some(binder)) => (*assembler, *binder),
        // If a thread holding a stage panicked, the scope has panicked too.
        _ => unreachable!("a thread that has not panicked gives a stage back"),
    }
}

struct Work<'a> {
    events: Events<'a>,
    /// How many stretches may be handed out before they are nested.
    ahead: usize,
    line: Shared<Line<'a>>,
}

struct Line<'a> {
    stretches: Stretches,
    /// How many stretches have been handed out.
    given: u64,
    /// The ordered stretches that wait to be nested, by number.
    ordered: BTreeMap<u64, Vec<Ordered>>,
    /// `None` while a thread has it.
    assembler: Option<Box<Assembler<'a>>>,
    /// How many stretches have been nested.
    nested: u64,
    /// The flow events to bind, by stretch.
    items: VecDeque<Vec<FlowItem>>,
    /// `None` while a thread has it.
    binder: Option<Box<Binder<'a>>>,
    spare: Spare,
}

#[derive(Default)]
struct Spare {
    ordered: Vec<Vec<Ordered>>,
    items: Vec<Vec<FlowItem>>,
}

enum Job<'a> {
    Order(u64, Vec<Segment>, Vec<Ordered>),
    Nest(Box<Assembler<'a>>, Vec<Ordered>, Vec<FlowItem>),
    Bind(Box<Binder<'a>>, Vec<FlowItem>),
}

impl<'a> Line<'a> {
    /// The job that the most others depend on.
    fn job(&mut self, events: Events<'a>, ahead: usize) -> Option<Job<'a>> {
        if self.ordered.contains_key(&self.nested)
            && let Some(assembler) = self.assembler.take()
        {
            let ordered = self.ordered.remove(&self.nested)?;
            return Some(Job::Nest(assembler, ordered, self.spare.items.pop().unwrap_or_default()));
        }
        if !self.items.is_empty()
            && let Some(binder) = self.binder.take()
        {
            return Some(Job::Bind(binder, self.items.pop_front()?));
        }
        if self.given >= self.nested + ahead as u64 {
            return None;
        }
        let stretch = self.stretches.next(events)?;
        self.given += 1;
        Some(Job::Order(self.given - 1, stretch, self.spare.ordered.pop().unwrap_or_default()))
    }

    /// Whether no job is left, except those already running.
    fn is_over(&self) -> bool {
        self.stretches.len() == 0 && self.nested == self.given && self.items.is_empty()
    }
}

impl<'a> Work<'a> {
    fn run(&self) {
        while let Some(job) = self.next() {
            self.carry_out(job);
            self.line.notify();
        }
    }

    fn next(&self) -> Option<Job<'a>> {
        let mut line = self.line.lock();
        loop {
            if line.is_over() {
                return None;
            }
            if let Some(job) = line.job(self.events, self.ahead) {
                return Some(job);
            }
            line = self.line.wait(line)?;
        }
    }

    fn carry_out(&self, job: Job<'a>) {
        match job {
            Job::Order(number, stretch, mut ordered) => {
                order(&stretch, self.events, &mut ordered);
                self.line.lock().ordered.insert(number, ordered);
            }
            Job::Nest(mut assembler, ordered, mut items) => {
                assembler.run(&ordered, &mut items);
                let mut line = self.line.lock();
                line.assembler = Some(assembler);
                line.nested += 1;
                line.items.push_back(items);
                line.spare.ordered.push(ordered);
            }
            Job::Bind(mut binder, mut items) => {
                binder.run(&items);
                items.clear();
                let mut line = self.line.lock();
                line.binder = Some(binder);
                line.spare.items.push(items);
            }
        }
    }
}

/// The stage in the middle: nests slices, closes open ones, and finds the slice at each end of a flow. Changes to slices are collected and
/// applied at the end, so that other threads can read the rows meanwhile.
pub(super) struct Assembler<'a> {
    rows: &'a Rows,
    nester: Nester<'a>,
    marks: Marks<'a>,
    /// The first nested slice of each trace.
    first: Vec<Option<SliceId>>,
    /// The slice that the last end closed.
    closed: Option<SliceId>,
    /// The tracks on whose next slice a flow waits.
    awaited: HashSet<TrackId, foldhash::fast::FixedState>,
    found: Assembled,
}

/// The results of the pass. What the nester has comes at the end.
#[derive(Default)]
pub(super) struct Assembled {
    nested: Nested,
    ended: EndedSlices,
    /// The slices whose end events add more than a time, and the indexes of these events.
    additions: Vec<(SliceId, u32)>,
    /// See [`super::Store::kernels`].
    pub(super) kernels: Vec<SliceId>,
    /// See [`super::Store::runtime_calls`].
    pub(super) runtime_calls: Vec<SliceId>,
    /// The rows that could not be nested.
    pub(super) dropped: Vec<u32>,
    /// See [`super::Store::first_slices`].
    pub(super) first_slices: Vec<Option<SliceId>>,
    /// See [`Nester::spilled`].
    pub(super) spilled: Vec<(SliceId, TrackId)>,
    /// The tracks, including lanes.
    pub(super) tracks: Tracks,
    /// By trace.
    pub(super) damage: Vec<DamageReport>,
    /// See [`super::EventOffsets::ends`].
    pub(super) end_offsets: Vec<(SliceId, u64)>,
}

impl<'a> Assembler<'a> {
    pub(super) fn new(tracks: Tracks, rows: &'a Rows, marks: Marks<'a>, traces: usize) -> Self {
        Assembler {
            rows,
            nester: Nester::new(tracks, rows),
            marks,
            first: vec![None; traces],
            closed: None,
            awaited: HashSet::default(),
            found: Assembled { damage: vec![DamageReport::default(); traces], ..Assembled::default() },
        }
    }

    /// Processes the next events. Appends those that concern flows to `items`.
    pub(super) fn run(&mut self, events: &[Ordered], items: &mut Vec<FlowItem>) {
        for event in events {
            let trace = TraceId::of_row(event.trace());
            match event.event() {
                Next::Slice(row) => self.slice(row, *event, trace, items),
                Next::Mark(at) => self.mark(at, trace, items),
            }
        }
    }

    #[inline]
    fn slice(&mut self, row: u32, event: Ordered, trace: TraceId, items: &mut Vec<FlowItem>) {
        let dur = Some(event.dur(self.rows)).filter(|dur| *dur != UNFINISHED.0);
        let new = NewSlice { row, ts: event.ts, dur, track: event.track() };
        let is_kernel = event.is_of(CategoryKind::Kernel);
        let last = self.nester.top(event.track()).filter(|_| is_kernel);
        let is_twice = last.is_some_and(|last| self.rows.are_one(self.nester.nested.row(last), row as usize));
        let Some((slice, track)) = self.nester.nest(new, &mut self.found.damage[trace.row()]) else {
            self.found.dropped.push(row);
            return;
        };
        if is_twice {
            self.found.damage[trace.row()].count(Damage::Duplicate, self.rows.offsets.get(row as usize).copied());
        } else if is_kernel {
            self.found.kernels.push(slice);
        } else if event.is_of(CategoryKind::Runtime) {
            self.found.runtime_calls.push(slice);
        }
        let first = *self.first[trace.row()].get_or_insert(slice);
        if !self.awaited.is_empty() && self.awaited.remove(&track) {
            items.push(FlowItem { trace, what: FlowEvent::Opened(track, slice, first) });
        }
        let binds = &self.marks.extras.binds;
        if !binds.is_empty() && binds.contains_key(&row) {
            items.push(FlowItem { trace, what: FlowEvent::Bind(row, slice) });
        }
    }

    fn mark(&mut self, at: u32, trace: TraceId, items: &mut Vec<FlowItem>) {
        let mark = &self.marks.marks[at as usize];
        let slice = match mark.kind {
            RawKind::End => return self.end(at, *mark, trace),
            // In the file it follows the event of its slice, and here too.
            RawKind::SliceFlow { of_closed: true, .. } => self.closed,
            RawKind::SliceFlow { of_closed: false, .. } => self.nester.nested.last_id(mark.rows_before.wrapping_sub(1)),
            RawKind::FlowEndAtNext => {
                self.awaited.insert(mark.track);
                None
            }
            _ => self.nester.top(mark.track),
        };
        items.push(FlowItem { trace, what: FlowEvent::Mark(at, slice) });
    }

    fn end(&mut self, at: u32, mark: Mark, trace: TraceId) {
        let Mark { ts, track, name, category, .. } = mark;
        self.closed = self.nester.close(track, ts, name, category, &mut self.found.damage[trace.row()]);
        let Some(slice) = self.closed else { return };
        self.found.end_offsets.extend(self.marks.offsets.get(at as usize).map(|offset| (slice, *offset)));
        if mark.args != ArgSetId::NONE || self.marks.extras.ends.contains_key(&at) {
            self.found.additions.push((slice, at));
        }
    }

    pub(super) fn finish(self) -> Assembled {
        let first_slices = self.nester.first_slices();
        let Nester { nested, tracks, spilled, ended, .. } = self.nester;
        Assembled { nested, ended, first_slices, spilled, tracks, ..self.found }
    }
}

impl Assembled {
    /// The slices, with the additions of their end events, and on the tracks of their lanes. May be called only once.
    pub(super) fn slices(&mut self, rows: Rows, marks: Marks<'_>, args: &mut Args) -> Slices {
        let mut slices = std::mem::take(&mut self.nested).into_slices(rows);
        slices.set_tracks(&self.spilled);
        slices.set_durs(&self.ended);
        for (slice, at) in std::mem::take(&mut self.additions) {
            let of_end = marks.marks[at as usize].args;
            if of_end != ArgSetId::NONE {
                slices.set_args(slice, args.merge(slices.args(slice), of_end));
            }
            let Some(extra) = marks.extras.ends.get(&at) else { continue };
            slices.add_ids(slice, extra.ids);
            if let (Some(end), _) = extra.thread_time {
                slices.set_thread_end(slice, end);
            }
        }
        slices
    }
}
