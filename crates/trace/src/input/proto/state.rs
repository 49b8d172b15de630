//! The incremental state of a sequence of packets.
//!
//! A writer sends a name once, under a number (it interns it), and the defaults of its packets once. Both hold until it starts anew; if a
//! packet was lost in between, packets that depend on the state are dropped until then. A name that is defined after its first use is
//! counted as unknown: Perfetto would find it, and none of its own writers do that.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::messages::{InternedText, TracePacketDefaults};
use super::wire::{Fields, FromField, Malformed};

/// The fields of `InternedData` that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub(super) enum Table {
    Categories = 1,
    EventNames = 2,
    AnnotationNames = 3,
    /// Whole `SourceLocation` messages.
    SourceLocations = 4,
    AnnotationTexts = 29,
    CorrelationIds = 43,
}

const TABLES: [Table; 6] = [
    Table::Categories,
    Table::EventNames,
    Table::AnnotationNames,
    Table::SourceLocations,
    Table::AnnotationTexts,
    Table::CorrelationIds,
];

/// How many bytes all names may take; in real traces some MiB.
const MAX_NAMES: usize = 1 << 30;

/// How many bytes an entry takes besides its text.
const ENTRY: usize = 64;

/// The names from one start of a sequence to the next.
#[derive(Debug)]
pub(super) struct Names {
    texts: HashMap<(Table, u64), Box<[u8]>, foldhash::fast::FixedState>,
    bytes: usize,
    /// The bytes of all names that are still needed.
    all_bytes: Rc<Cell<usize>>,
}

impl Drop for Names {
    fn drop(&mut self) {
        self.all_bytes.set(self.all_bytes.get() - self.bytes);
    }
}

impl Names {
    fn new(all_bytes: Rc<Cell<usize>>) -> Self {
        Names { texts: HashMap::default(), bytes: 0, all_bytes }
    }

    fn define(&mut self, table: Table, iid: u64, text: &[u8]) {
        let takes = ENTRY + text.len();
        if self.all_bytes.get() + takes <= MAX_NAMES && !self.texts.contains_key(&(table, iid)) {
            self.texts.insert((table, iid), text.into());
            self.bytes += takes;
            self.all_bytes.set(self.all_bytes.get() + takes);
        }
    }
}

/// Looks names up for one event, and counts those that are not defined.
#[derive(Debug)]
pub(super) struct Lookup<'a> {
    names: &'a Names,
    pub(super) unknown: Cell<usize>,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(names: &'a Names) -> Self {
        Lookup { names, unknown: Cell::new(0) }
    }

    pub(super) fn text(&self, table: Table, iid: u64) -> Option<&'a [u8]> {
        let text = self.names.texts.get(&(table, iid));
        self.unknown.update(|unknown| unknown + usize::from(text.is_none()));
        text.map(|text| &**text)
    }
}

#[derive(Debug)]
pub(super) struct Sequence {
    /// Whether no packet since the last start was lost.
    pub(super) is_whole: bool,
    pub(super) default_clock: Option<u64>,
    pub(super) default_track: Option<u64>,
    pub(super) names: Rc<RefCell<Names>>,
}

impl Sequence {
    /// A sequence whose start was not read. `all_bytes` counts the bytes of all sequences' names.
    pub(super) fn new(all_bytes: Rc<Cell<usize>>) -> Self {
        let names = Rc::new(RefCell::new(Names::new(all_bytes)));
        Sequence { is_whole: false, default_clock: None, default_track: None, names }
    }

    pub(super) fn start_anew(&mut self) {
        let all_bytes = Rc::clone(&self.names.borrow().all_bytes);
        *self = Sequence { is_whole: true, ..Sequence::new(all_bytes) };
    }

    pub(super) fn set_defaults(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let defaults = TracePacketDefaults::read(message)?;
        (self.default_clock, self.default_track) = (defaults.clock, defaults.event.track);
        Ok(())
    }

    /// Adds an `InternedData`. The first definition of a number wins, as in Perfetto.
    pub(super) fn intern(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let mut names = self.names.borrow_mut();
        for field in Fields::new(message) {
            let field = field?;
            let Some(table) = TABLES.into_iter().find(|table| *table as u32 == field.number) else { continue };
            let InternedText { message, iid, text } = FromField::from_field(field)?.ok_or(Malformed)?;
            names.define(table, iid, if table == Table::SourceLocations { message } else { text });
        }
        Ok(())
    }
}
