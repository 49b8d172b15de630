//! What is known of objects that were read within others: to read each of them again would take the square of the time.
//!
//! Where a reading stops, at the text's end or at a broken byte, some objects are open. Each of them was read as it would be from its own
//! brace. So its outcome is the same, and need not be found out again. Objects that ended are not kept: they nest no deeper than
//! [`MAX_HEIGHT`].

use super::keys::{EVENT_KEYS, PHASE_BIT};

/// The result of reading an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It ends before a byte of the text.
    Whole { end: usize },
    /// Its end is not in the text.
    Open,
    /// It is broken at a byte.
    Broken { at: usize },
}

/// Objects that have a phase, or hold one that has, nest no deeper in one that is whole. Nothing writes such a thing. A broken event in a
/// broken event is read with each of those around it.
pub(super) const MAX_HEIGHT: u8 = 16;

/// No offset.
const NONE: u32 = u32::MAX;

/// What has been read of an object. Offsets are from where the reading began; nothing that is read is longer than 4 GiB.
#[derive(Debug, Clone, Copy)]
pub(super) struct Object {
    at: u32,
    /// Its own phase's key.
    phase: u32,
    /// The first key of a phase in an object within it.
    inner_phase: u32,
    /// Which keys of events it has: a bit for each of [`EVENT_KEYS`].
    keys: u16,
    /// How deep objects that have a phase nest in it.
    height: u8,
}

impl Object {
    /// An object whose brace is at an offset.
    pub(super) fn new(at: usize) -> Self {
        Object { at: at as u32, phase: NONE, inner_phase: NONE, keys: 0, height: 0 }
    }

    /// Adds the key of events with this bit, which is at an offset.
    pub(super) fn add_key(&mut self, bit: usize, at: usize) {
        self.keys |= 1 << bit;
        if bit == PHASE_BIT {
            self.phase = self.phase.min(at as u32);
        }
    }

    /// Adds an object that it holds.
    pub(super) fn add_inner(&mut self, inner: Object) {
        self.inner_phase = self.inner_phase.min(inner.phase).min(inner.inner_phase);
        self.height = self.height.max(inner.height());
    }

    /// How deep objects that have a phase nest, with this one.
    pub(super) fn height(&self) -> u8 {
        if self.phase.min(self.inner_phase) == NONE { 0 } else { self.height.saturating_add(1) }
    }

    /// Whether it has a member of this name.
    pub(super) fn has(&self, key: &str) -> bool {
        EVENT_KEYS.iter().zip(0..).any(|(known, bit)| *known == key && self.keys >> bit & 1 == 1)
    }

    /// Where the first phase of an object within it is, as an offset.
    pub(super) fn inner_phase(&self) -> Option<usize> {
        (self.inner_phase != NONE).then_some(self.inner_phase as usize)
    }
}

/// Where a reading stopped, and the objects that were open there, outermost first.
#[derive(Debug)]
struct Stop {
    from: usize,
    end: usize,
    outcome: Outcome,
    open: Vec<Object>,
}

/// The stops in one text, which must not change.
#[derive(Debug, Default)]
pub(super) struct Stops {
    stops: Vec<Stop>,
    /// Knows nothing, so that what is known can be compared with what is read.
    #[cfg(test)]
    pub(super) is_off: bool,
}

impl Stops {
    /// Forgets all: for another text.
    pub(super) fn clear(&mut self) {
        self.stops.clear();
    }

    /// The outcome of the object that begins at a byte, and what has been read of it, if that is known.
    pub(super) fn get(&self, at: usize) -> Option<(Outcome, Object)> {
        self.stops.iter().find_map(|stop| {
            let wanted = u32::try_from(at.checked_sub(stop.from)?).ok()?;
            let found = stop.open.binary_search_by_key(&wanted, |object| object.at).ok()?;
            Some((stop.outcome, stop.open[found]))
        })
    }

    /// Adds where a reading stopped that began at `from` and went up to `end`.
    pub(super) fn add(&mut self, from: usize, end: usize, outcome: Outcome, open: &mut Vec<Object>) {
        // Only what is within another is asked for again.
        if open.len() < 2 {
            return;
        }
        #[cfg(test)]
        if self.is_off {
            return;
        }
        // Two readings are alike from where neither, or both, are in a string: few stops are ahead at a time.
        self.stops.retain(|stop| stop.end > from);
        self.stops.push(Stop { from, end, outcome, open: std::mem::take(open) });
    }
}

/// Adds to open objects, outermost first, what those within them have.
pub(super) fn add_inner_phases(open: &mut [Object]) {
    let mut inner = NONE;
    for object in open.iter_mut().rev() {
        object.inner_phase = object.inner_phase.min(inner);
        inner = object.phase.min(object.inner_phase);
    }
}
