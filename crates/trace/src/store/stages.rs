//! Runs the events through three stages on several threads: ordering, nesting, flows.
//!
//! The time is divided into stretches. Any number of stretches can be ordered at once. Nesting and the binding of flows take one stretch after the
//! other, because each starts from the state that the previous one left; but one stretch can be nested while the flows of an earlier one are
//! bound. So a free thread takes the job that the most others depend on, and no stage has its own thread. Each stage receives the stretches in the
//! same order whatever the threads do, so the result is the same.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZero;

use super::assemble::Assembler;
use super::flows::{Binder, FlowItem};
use super::order::{Events, Ordered, Segment, Stretches, order};
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

/// The state that the threads share.
struct Work<'a> {
    events: Events<'a>,
    /// How many stretches may be handed out before they are nested.
    ahead: usize,
    line: Shared<Line<'a>>,
}

/// The progress of the stages.
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
    /// The loop of each thread.
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
