//! What a sequence of packets remembers from one to the next.
//!
//! A writer sends a long name once, under a number, and says once what most of its packets have in common. All that holds until
//! it says that it starts anew; if a packet was lost in between, what builds on it has to be left out until then.

use std::collections::HashMap;

use super::wire::{Fields, Malformed, Value};

/// The fields of `InternedData`: what each table is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Table {
    Categories,
    EventNames,
    AnnotationNames,
    AnnotationTexts,
}

/// The number of the field of each table.
const TABLES: [(u32, Table); 4] =
    [(1, Table::Categories), (2, Table::EventNames), (3, Table::AnnotationNames), (29, Table::AnnotationTexts)];

/// The fields of an entry of all of them.
const IID: u32 = 1;
const TEXT: u32 = 2;

/// The fields of `TracePacketDefaults`, and of the `TrackEventDefaults` in it.
const DEFAULT_CLOCK: u32 = 58;
const EVENT_DEFAULTS: u32 = 11;
const DEFAULT_TRACK: u32 = 11;

/// What a sequence remembers.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// Whether all since the last start has been seen.
    pub(super) is_whole: bool,
    /// How often it has started anew.
    pub(super) generation: u64,
    pub(super) default_clock: Option<u64>,
    pub(super) default_track: Option<u64>,
    interned: [HashMap<u64, Box<[u8]>, foldhash::fast::FixedState>; 4],
}

impl Sequence {
    /// All that was remembered counts no longer.
    pub(super) fn start_anew(&mut self) {
        let generation = self.generation + 1;
        *self = Sequence { is_whole: true, generation, ..Sequence::default() };
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
        for field in Fields::new(message) {
            let field = field?;
            let Some((_, table)) = TABLES.iter().find(|(number, _)| *number == field.number) else { continue };
            let (mut iid, mut text) = (0, &[][..]);
            for field in Fields::new(field.value.bytes().ok_or(Malformed)?) {
                let field = field?;
                match (field.number, field.value) {
                    (IID, Value::Varint(value)) => iid = value,
                    (TEXT, Value::Bytes(value)) => text = value,
                    _ => {}
                }
            }
            self.interned[*table as usize].entry(iid).or_insert_with(|| text.into());
        }
        Ok(())
    }

    /// The text behind a number.
    pub(super) fn text(&self, table: Table, iid: u64) -> Option<&[u8]> {
        self.interned[table as usize].get(&iid).map(|text| &**text)
    }
}
