//! What is around and beside the events: the container's beginning and end, and the fields of its object.

use super::cursor::{Cursor, FoundPiece, Length, Step};
use super::keys::holds_list_of_events;
use super::scan::is_space;
use super::state::{After, End, Position, State, Within, is_endless};
use crate::damage::Damage;

/// A header field longer than this is skipped: it is no header (some tools append tables of their own).
pub(super) const MAX_HEADER_FIELD: usize = 4 << 20;

/// A key and the white space around its colon are not longer than this: they are kept until the value is whole.
const MAX_BEFORE_VALUE: usize = 2 * MAX_HEADER_FIELD;

impl Cursor<'_> {
    /// The beginning of the text.
    pub(super) fn start(&mut self) -> Step {
        if self.base == 0 && self.at == 0 {
            if self.text.len() < 3 && self.after == After::More {
                return Step::Pause;
            }
            if self.text.starts_with(b"\xef\xbb\xbf") {
                self.at = 3;
            }
        }
        match self.skip_separators() {
            Some(b'{') => self.state.position = Position::Object,
            Some(b'[') => self.state = State::in_list(false),
            Some(_) => return self.lose(self.at, Damage::Garbage, Within::Nothing),
            None => {
                let end = self.offset();
                return if is_endless(0, end) {
                    self.stop(End::Broken { offset: 0 })
                } else {
                    self.wait_from(self.at, end)
                };
            }
        }
        self.at += 1;
        Step::Again
    }

    /// One field of the top-level object.
    pub(super) fn field(&mut self) -> Step {
        match self.skip_separators() {
            Some(b'"') => {}
            Some(b'}') => {
                self.at += 1;
                self.state.position = Position::Closed { in_object: true };
                return Step::Again;
            }
            Some(_) => return self.lose(self.at, Damage::Garbage, Within::Object),
            None => {
                let end = self.offset();
                return self.wait_from(self.at, end);
            }
        }
        let (offset, begin) = (self.offset(), self.at);
        let Length::Known(length) = self.value_length(MAX_HEADER_FIELD) else {
            // A key that is too long will not get better with more text.
            let is_hopeless = self.text.len() - begin > MAX_HEADER_FIELD;
            return if is_hopeless { self.lose_field(begin) } else { self.wait_from(begin, offset) };
        };
        self.key.clear();
        self.key.extend_from_slice(&self.text[self.at + 1..self.at + length - 1]);
        self.at += length;
        let colon = self.skip_separators();
        if self.at - begin > MAX_BEFORE_VALUE {
            return self.lose_field(begin);
        }
        match colon {
            Some(b':') => self.at += 1,
            Some(_) => return self.lose_field(begin),
            None => return self.wait_from(begin, offset),
        }
        let first = self.skip_separators();
        if self.at - begin > MAX_BEFORE_VALUE {
            return self.lose_field(begin);
        }
        self.value(begin, first)
    }

    /// The value at the cursor, of the field that begins at a byte.
    fn value(&mut self, begin: usize, first: Option<u8>) -> Step {
        let offset = self.base + begin as u64;
        match first {
            Some(b'[') if self.key == b"traceEvents" => {
                self.at += 1;
                self.state = State::in_list(true);
                return Step::Again;
            }
            Some(b'}' | b']' | b':') => return self.lose_field(begin),
            Some(_) => {}
            None => return self.wait_from(begin, offset),
        }
        let (from, length) = (self.at, self.value_length(MAX_HEADER_FIELD));
        let to = if let Length::Known(length) = length {
            from + length
        } else {
            self.text.len().min(from + MAX_HEADER_FIELD)
        };
        // A value in which the events are has not ended where it should have.
        if holds_list_of_events(&self.text[from..to]) {
            return self.lose_field(begin);
        }
        match length {
            Length::Known(_) => {
                self.at = to;
                Step::Found(FoundPiece::Header { value: Some((from, to)), offset, bytes: (to - begin) as u64 })
            }
            Length::TooLong => self.too_long(offset, true, true),
            Length::Open => self.wait_from(begin, offset),
        }
    }

    fn lose_field(&mut self, begin: usize) -> Step {
        self.lose(begin, Damage::HeaderSkipped, Within::Object)
    }

    /// What follows the container. Another trace there, or the rest of an older and longer one, is not of this one: several ranks wrote one file, or a
    /// program has appended to it.
    pub(super) fn closed(&mut self, in_object: bool) -> Step {
        while let Some(byte) = self.peek() {
            if byte != 0 && !is_space(byte) {
                // A bracket too many may have ended a bare list. Nothing less than two ends an object with its list.
                let is_over = self.state.seen_events && (in_object || byte == b'[');
                return if is_over {
                    self.stop(End::Trailing { offset: self.offset() })
                } else {
                    self.lose(self.at, Damage::Garbage, Within::Closed { in_object })
                };
            }
            self.at += 1;
        }
        if self.after.is_end() { self.stop(End::Whole) } else { Step::Pause }
    }
}
