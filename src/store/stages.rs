//! Takes the events through three stages: order, nesting, flows. Several threads share the work.
//!
//! The time is divided into stretches. Any number of stretches can be put into order at once. Nesting takes one after the other, because
//! the stacks of a stretch are those that the one before has left, and so does the binding of flows; but one stretch can be nested while
//! the flows of an earlier one are bound. So a free thread takes the job that most others wait for, and no stage has a thread of its own. A
//! stage gets the stretches in the same order whatever the threads do, and so the result is the same.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZero;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::assemble::Assembler;
use super::flows::{Binder, FlowItem};
use super::order::{Events, Ordered, Segment, Stretches, order};

/// More threads than this have nothing to do: only the order is divided further.
const MAX_THREADS: usize = 4;

/// For fewer stretches than this, starting a thread takes longer than it saves.
const MIN_STRETCHES: usize = 4;

/// Takes all events through the stages. Returns them with all that they have found.
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
        // One is nested, and one waits for that while the others are put into order.
        ahead: threads + 1,
        line: Mutex::new(Line {
            stretches,
            given: 0,
            ordered: BTreeMap::new(),
            assembler: Some(Box::new(assembler)),
            nested: 0,
            items: VecDeque::new(),
            binder: Some(Box::new(binder)),
            spare: Spare::default(),
            failed: false,
        }),
        moved_on: Condvar::new(),
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // If the system gives no more threads, those that there are do the work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, || work.run());
        }
        work.run();
    });
    let line = work.line.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (line.assembler, line.binder) {
        (Some(assembler), Some(binder)) => (*assembler, *binder),
        // The scope has ended with the panic of the thread that has it.
        _ => unreachable!("a thread that has not panicked gives a stage back"),
    }
}

/// What the threads share.
struct Work<'a> {
    events: Events<'a>,
    /// How many stretches may be given to threads and not nested.
    ahead: usize,
    line: Mutex<Line<'a>>,
    /// Notified when there may be another job.
    moved_on: Condvar,
}

/// How far the stages are.
struct Line<'a> {
    stretches: Stretches,
    /// How many stretches have been given to threads.
    given: u64,
    /// The stretches that are in order and not nested, by number.
    ordered: BTreeMap<u64, Vec<Ordered>>,
    /// `None` while a thread has it.
    assembler: Option<Box<Assembler<'a>>>,
    /// How many stretches have been nested.
    nested: u64,
    /// What is to be bound, stretch by stretch.
    items: VecDeque<Vec<FlowItem>>,
    /// `None` while a thread has it.
    binder: Option<Box<Binder<'a>>>,
    spare: Spare,
    /// Whether a thread has panicked.
    failed: bool,
}

/// Memory to be used again.
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
    /// The job that most others wait for.
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

    /// Whether all is done, but for what other threads are at.
    fn is_over(&self) -> bool {
        self.failed || (self.stretches.len() == 0 && self.nested == self.given && self.items.is_empty())
    }
}

impl<'a> Work<'a> {
    /// What each thread does.
    fn run(&self) {
        let _guard = StopIfPanicking(self);
        while let Some(job) = self.next() {
            self.carry_out(job);
            self.moved_on.notify_all();
        }
    }

    fn next(&self) -> Option<Job<'a>> {
        let mut line = self.lock();
        loop {
            if line.is_over() {
                return None;
            }
            if let Some(job) = line.job(self.events, self.ahead) {
                return Some(job);
            }
            line = self.moved_on.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn carry_out(&self, job: Job<'a>) {
        match job {
            Job::Order(number, stretch, mut ordered) => {
                order(&stretch, self.events, &mut ordered);
                self.lock().ordered.insert(number, ordered);
            }
            Job::Nest(mut assembler, ordered, mut items) => {
                assembler.run(&ordered, &mut items);
                let mut line = self.lock();
                line.assembler = Some(assembler);
                line.nested += 1;
                line.items.push_back(items);
                line.spare.ordered.push(ordered);
            }
            Job::Bind(mut binder, mut items) => {
                binder.run(&items);
                items.clear();
                let mut line = self.lock();
                line.binder = Some(binder);
                line.spare.items.push(items);
            }
        }
    }

    /// What a panicking thread has locked is never read: the panic goes on where the threads are joined.
    fn lock(&self) -> MutexGuard<'_, Line<'a>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets the other threads stop if one panics, rather than wait for it for ever.
struct StopIfPanicking<'w, 'a>(&'w Work<'a>);

impl Drop for StopIfPanicking<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().failed = true;
            self.0.moved_on.notify_all();
        }
    }
}
