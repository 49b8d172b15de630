//! What a trace has beside its events: the header, what was wrong, how it ended.

use std::io;

use super::header;
use super::state::End;
use super::text;
use crate::damage::{Damage, DamageReport};
use crate::event::HeaderField;
use crate::input::containers::packed::{PackedCause, PackedFailure};

/// What was read beside the events.
#[derive(Debug, Default)]
pub struct Summary {
    /// The header, flattened.
    pub header: Vec<HeaderField>,
    /// The names of the header's fields, in file order, to say what a file is that is no trace.
    pub keys: Vec<String>,
    /// Whether there was a list of events.
    pub has_event_list: bool,
    /// How many elements that list had, whatever they were.
    pub elements: u64,
    /// How many of them were events.
    pub events: u64,
    /// What was wrong.
    pub damage: DamageReport,
    /// The offset where the text was cut off.
    pub cut_off_at: Option<u64>,
    /// What the source of the text failed with.
    pub failure: Option<io::Error>,
    /// How many bytes of text there were.
    pub text_bytes: u64,
}

impl Summary {
    /// Adds what comes after it.
    pub(super) fn add(&mut self, more: Summary) {
        self.header.extend(more.header);
        self.keys.extend(more.keys);
        self.elements += more.elements;
        self.events += more.events;
        self.damage.add(&more.damage);
    }

    /// Adds a field of the header; `value` is `None` if it was too long to keep.
    pub(super) fn header_field(&mut self, key: &[u8], value: Option<&[u8]>, offset: u64, bytes: u64) {
        let key = text::unescape(key);
        if key == "displayTimeUnit" {
            self.damage.count(Damage::DisplayTimeUnit, None);
        }
        let faults = value.map(|value| header::read(&key, value, &mut self.header));
        match faults {
            Some(faults) => faults.into_iter().for_each(|kind| self.damage.count(kind, Some(offset))),
            None => self.damage.lose(Damage::HeaderSkipped, Some(offset), bytes),
        }
        self.keys.push(key.into_owned());
    }

    /// Adds how the text ended.
    pub(super) fn end(&mut self, end: End, text_bytes: u64, failure: Option<io::Error>) {
        let packed = failure.as_ref().and_then(PackedFailure::find_in);
        match packed.map(|failure| failure.cause) {
            Some(PackedCause::CutOff) => self.damage.count(Damage::PackedCutOff, packed.map(|f| f.offset)),
            Some(PackedCause::Corrupt) => self.damage.count(Damage::PackedCorrupt, packed.map(|f| f.offset)),
            Some(PackedCause::Checksum) => self.damage.count(Damage::PackedChecksum, packed.map(|f| f.offset)),
            Some(PackedCause::TrailingBytes) => self.damage.count(Damage::TrailingBytes, None),
            None => {}
        }
        let mut lose = |kind, offset| self.damage.lose(kind, Some(offset), text_bytes - offset);
        match end {
            End::Whole => {}
            End::CutOff { offset } => {
                self.cut_off_at = Some(offset);
                // What the decompressor has reported is not reported of the text too.
                if packed.is_none_or(|failure| failure.cause == PackedCause::Checksum) {
                    lose(Damage::Truncated, offset);
                }
            }
            End::Broken { offset } => lose(Damage::BrokenStructure, offset),
            End::Trailing { offset } => lose(Damage::TrailingBytes, offset),
        }
        (self.failure, self.text_bytes) = (failure, text_bytes);
    }
}
