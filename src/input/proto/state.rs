//! What a sequence of packets remembers from one to the next.
//!
//! A writer sends a long name once, under a number, and says once what most of its packets have in common. All that
//! holds until it says that it starts anew; if a packet was lost in between, what builds on it has to be left out until
//! then.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::wire::{Fields, Malformed, Value};

/// The fields of `InternedData` that are remembered: what each table is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub(super) enum Table {
    Categories = 1,
    EventNames = 2,
    AnnotationNames = 3,
    /// Whole messages, `SourceLocation`.
    SourceLocations = 4,
    LogBodies = 20,
    AnnotationTexts = 29,
    CorrelationIds = 43,
}

const TABLES: [Table; 7] = [
    Table::Categories,
    Table::EventNames,
    Table::AnnotationNames,
    Table::SourceLocations,
    Table::LogBodies,
    Table::AnnotationTexts,
    Table::CorrelationIds,
];

/// The fields of an entry of all of them.
const IID: u32 = 1;
const TEXT: u32 = 2;

/// All names that hold take so many bytes at most. Those of real traces take some MiB.
const MAX_NAMES: usize = 1 << 30;

/// What an entry takes besides its text.
const ENTRY: usize = 64;

/// The names that hold from one start of a sequence to the next. Events that wait for one of them share them.
#[derive(Debug)]
pub(super) struct Names {
    texts: HashMap<(Table, u64), Box<[u8]>, foldhash::fast::FixedState>,
    /// The sequence has started anew: none will come any more.
    pub(super) is_over: bool,
    bytes: usize,
    /// How much all names take that are still needed.
    all_bytes: Rc<Cell<usize>>,
}

impl Drop for Names {
    fn drop(&mut self) {
        self.all_bytes.set(self.all_bytes.get() - self.bytes);
    }
}

impl Names {
    fn new(all_bytes: Rc<Cell<usize>>) -> Self {
        Names { texts: HashMap::default(), is_over: false, bytes: 0, all_bytes }
    }

    fn define(&mut self, table: Table, iid: u64, text: &[u8]) {
        let takes = ENTRY + text.len();
        if self.all_bytes.get() + takes <= MAX_NAMES && !self.texts.contains_key(&(table, iid)) {
            self.texts.insert((table, iid), text.into());
            self.bytes += takes;
            self.all_bytes.set(self.all_bytes.get() + takes);
        }
    }

    /// Whether a number has been defined.
    pub(super) fn has(&self, (table, iid): (Table, u64)) -> bool {
        self.texts.contains_key(&(table, iid))
    }
}

/// An event is held back for so many names at most.
const MAX_MISSING: usize = 4096;

/// Looks names up for one event, and remembers which were not there.
#[derive(Debug)]
pub(super) struct Lookup<'a> {
    names: &'a Names,
    missing: RefCell<Vec<(Table, u64)>>,
    count: Cell<usize>,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(names: &'a Names) -> Self {
        Lookup { names, missing: RefCell::default(), count: Cell::new(0) }
    }

    /// The text behind a number.
    pub(super) fn text(&self, table: Table, iid: u64) -> Option<&'a [u8]> {
        let text = self.names.texts.get(&(table, iid));
        if text.is_none() {
            self.count.set(self.count.get() + 1);
            let mut missing = self.missing.borrow_mut();
            if missing.len() < MAX_MISSING {
                missing.push((table, iid));
            }
        }
        text.map(|text| &**text)
    }

    /// How many were not there.
    pub(super) fn missed(&self) -> usize {
        self.count.get()
    }

    /// Which ones may still come; `None` if none, or too many to wait for.
    pub(super) fn awaited(self) -> Option<Vec<(Table, u64)>> {
        let may_come = !self.names.is_over && (1..=MAX_MISSING).contains(&self.count.get());
        may_come.then(|| self.missing.into_inner())
    }
}

/// The fields of `TracePacketDefaults`, and of the `TrackEventDefaults` in it.
const DEFAULT_CLOCK: u32 = 58;
const EVENT_DEFAULTS: u32 = 11;
const DEFAULT_TRACK: u32 = 11;

/// What the times of old track events are counted from, in microseconds. Each moves it on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reference {
    pub(super) us: u64,
    /// The same of the thread's CPU time.
    pub(super) thread_us: u64,
}

/// What a sequence remembers.
#[derive(Debug)]
pub(super) struct Sequence {
    /// Whether all since the last start has been seen.
    pub(super) is_whole: bool,
    pub(super) default_clock: Option<u64>,
    pub(super) default_track: Option<u64>,
    pub(super) reference: Option<Reference>,
    pub(super) names: Rc<RefCell<Names>>,
}

impl Sequence {
    /// A sequence whose start has not been seen. `all_bytes` counts what the names of all sequences take.
    pub(super) fn new(all_bytes: Rc<Cell<usize>>) -> Self {
        let names = Rc::new(RefCell::new(Names::new(all_bytes)));
        Sequence { is_whole: false, default_clock: None, default_track: None, reference: None, names }
    }

    /// All that was remembered counts no longer.
    pub(super) fn start_anew(&mut self) {
        let all_bytes = {
            let mut names = self.names.borrow_mut();
            names.is_over = true;
            Rc::clone(&names.all_bytes)
        };
        *self = Sequence { is_whole: true, ..Sequence::new(all_bytes) };
    }

    /// Something was lost: what builds on it has to be left out.
    pub(super) fn lose(&mut self) {
        (self.is_whole, self.reference) = (false, None);
    }

    /// Takes a `TracePacketDefaults`.
    pub(super) fn set_defaults(&mut self, message: &[u8]) -> Result<(), Malformed> {
        (self.default_clock, self.default_track) = (None, None);
        for field in Fields::new(message) {
            let field = field?;
            match (field.number, field.value) {
                (DEFAULT_CLOCK, Value::Varint(clock)) => self.default_clock = Some(clock),
                (EVENT_DEFAULTS, Value::Bytes(event)) => {
                    for field in Fields::new(event) {
                        let field = field?;
                        if field.number == DEFAULT_TRACK {
                            self.default_track = field.value.number();
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes an `InternedData`. The first definition of a number counts.
    pub(super) fn intern(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let mut names = self.names.borrow_mut();
        for field in Fields::new(message) {
            let field = field?;
            let Some(table) = TABLES.into_iter().find(|table| *table as u32 == field.number) else { continue };
            let entry = field.value.bytes().ok_or(Malformed)?;
            let (mut iid, mut text) = (0, &[][..]);
            for field in Fields::new(entry) {
                let field = field?;
                match (field.number, field.value) {
                    (IID, Value::Varint(value)) => iid = value,
                    (TEXT, Value::Bytes(value)) => text = value,
                    _ => {}
                }
            }
            names.define(table, iid, if table == Table::SourceLocations { entry } else { text });
        }
        Ok(())
    }
}
