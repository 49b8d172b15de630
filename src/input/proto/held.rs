//! Events that wait for names.
//!
//! A name holds for the whole time from one start of its sequence to the next, also for events that come before its
//! definition. An event whose names are not all known is held back until they are, or until its sequence starts anew;
//! and all events behind it are, since events at equal times nest in the file's order. Perfetto's own writers define a
//! name before or with its first use, so that nothing waits. To patch names in later instead would keep the order, too,
//! but a name is not only shown: the category says what an event's numbers mean, and the names of arguments, which of
//! them are kept.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::state::{Names, Table};
use crate::event::TrackKey;

/// Events wait up to so many bytes in all. Beyond that the oldest goes on without the names that it lacks.
pub(super) const MAX_HELD: usize = 64 << 20;

/// What is known of an event besides its message.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) ts: i64,
    /// Its track, if no legacy phase asks for another.
    pub(super) track: TrackKey,
    /// The CPU time of its thread, in ns.
    pub(super) thread_ns: Option<i64>,
    pub(super) names: Rc<RefCell<Names>>,
    pub(super) offset: u64,
}

/// An event that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) place: Place,
    pub(super) message: Box<[u8]>,
    /// The names it waits for, if that is known already.
    awaited: Option<Vec<(Table, u64)>>,
}

impl Waiting {
    /// What it takes. The names that it waits for are not counted: only the first one's are known, and they are not
    /// many.
    fn bytes(&self) -> usize {
        size_of::<Waiting>() + self.message.len()
    }

    /// Whether it is known that it still has to wait.
    fn has_to(&mut self) -> bool {
        let names = self.place.names.borrow();
        let Some(awaited) = self.awaited.as_mut().filter(|_| !names.is_over) else { return false };
        while awaited.last().is_some_and(|name| names.has(*name)) {
            awaited.pop();
        }
        !awaited.is_empty()
    }
}

/// The events that wait, in the file's order.
#[derive(Debug, Default)]
pub(super) struct Held {
    queue: VecDeque<Waiting>,
    bytes: usize,
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether more wait than may.
    pub(super) fn is_too_much(&self) -> bool {
        self.bytes > MAX_HELD
    }

    /// One more, behind all others.
    pub(super) fn push(&mut self, place: Place, message: &[u8], awaited: Option<Vec<(Table, u64)>>) {
        let waiting = Waiting { place, message: message.into(), awaited };
        self.bytes += waiting.bytes();
        self.queue.push_back(waiting);
    }

    /// Back to the front: it has to wait for these names.
    pub(super) fn put_back(&mut self, waiting: Waiting, awaited: Vec<(Table, u64)>) {
        let waiting = Waiting { awaited: Some(awaited), ..waiting };
        self.bytes += waiting.bytes();
        self.queue.push_front(waiting);
    }

    /// The first one, unless it has to wait.
    pub(super) fn next(&mut self) -> Option<Waiting> {
        if self.queue.front_mut()?.has_to() {
            return None;
        }
        self.pop()
    }

    /// The first one.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let first = self.queue.pop_front()?;
        self.bytes -= first.bytes();
        Some(first)
    }
}
