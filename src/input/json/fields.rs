//! The fields of one event, as places in the text.

use std::ops::Range;

use super::flat::FlatValues;
use super::marks::Marks;
use super::number::{Digits, is_number};
use super::scan::{SyntaxError, Token, Walker};
use super::text::unescape;

/// The fields of an event that mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Field {
    Ph,
    Cat,
    Name,
    Pid,
    Tid,
    Ts,
    Dur,
    Tts,
    Tdur,
    Id,
    Id2,
    Bp,
    S,
    Args,
    BindId,
    FlowIn,
    FlowOut,
    /// Any other; it is passed over.
    Other,
}

const COUNT: usize = Field::Other as usize + 1;

impl Field {
    fn of(key: &[u8]) -> Field {
        match key {
            b"ph" => Field::Ph,
            b"cat" => Field::Cat,
            b"name" => Field::Name,
            b"pid" => Field::Pid,
            b"tid" => Field::Tid,
            b"ts" => Field::Ts,
            b"dur" => Field::Dur,
            b"tts" => Field::Tts,
            b"tdur" => Field::Tdur,
            b"id" => Field::Id,
            b"id2" => Field::Id2,
            b"bp" => Field::Bp,
            b"s" => Field::S,
            b"args" => Field::Args,
            b"bind_id" => Field::BindId,
            b"flow_in" => Field::FlowIn,
            b"flow_out" => Field::FlowOut,
            _ if key.contains(&b'\\') => Field::of_plain(&unescape(key)),
            _ => Field::Other,
        }
    }

    /// A key without escapes, which may hold backslashes of its own.
    fn of_plain(key: &str) -> Field {
        if key.contains('\\') { Field::Other } else { Field::of(key.as_bytes()) }
    }
}

/// What sort of value stands at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Absent,
    /// The place is that between the quotes.
    Text,
    Number,
    Object,
    Array,
    True,
    False,
    Null,
}

/// A value's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) sort: Sort,
    pub(super) start: u32,
    pub(super) end: u32,
    /// Of a number that was read already.
    pub(super) digits: Digits,
}

impl Place {
    const NONE: Place = Place { sort: Sort::Absent, start: 0, end: 0, digits: Digits::UNKNOWN };
}

/// One field of an event, for whoever wants to know their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) field: Field,
    pub(super) value: Place,
}

/// The fields of one event. Of a key that comes twice the last counts.
#[derive(Debug)]
pub(super) struct Fields {
    places: [Place; COUNT],
    /// All of them in order.
    pub(super) members: Vec<Member>,
    /// Whether a key that means something comes twice.
    pub(super) has_duplicates: bool,
    /// The numbers of its arguments, if these are known to be nothing else.
    pub(super) flat: FlatValues,
}

impl Fields {
    /// No fields.
    pub(super) const NONE: Fields =
        Fields { places: [Place::NONE; COUNT], members: Vec::new(), has_duplicates: false, flat: FlatValues::NONE };

    /// Reads all fields of the object that begins at a byte.
    pub(super) fn read(&mut self, text: &[u8], at: usize, marks: &mut Marks) -> Result<(), SyntaxError> {
        self.places = [Place::NONE; COUNT];
        self.members.clear();
        self.has_duplicates = false;
        self.flat = FlatValues::NONE;
        let mut walker = Walker::marked(text, at, marks);
        while let Some((key, token)) = walker.member()? {
            let is_wrong = match token {
                Token::Number(number) => !is_number(number),
                // Where containers end was found by counting brackets of either kind.
                Token::Object(object) => !object.ends_with(b"}"),
                Token::Array(array) => !array.ends_with(b"]"),
                _ => false,
            };
            if is_wrong {
                return Err(SyntaxError);
            }
            let value = place(text, token, walker.offset());
            let member = Member { field: Field::of(key), value };
            let before = std::mem::replace(&mut self.places[member.field as usize], value);
            self.has_duplicates |= before.sort != Sort::Absent && member.field != Field::Other;
            self.members.push(member);
        }
        if walker.has_wrong_commas() { Err(SyntaxError) } else { Ok(()) }
    }

    /// Sets a field.
    #[inline]
    pub(super) fn set(&mut self, field: Field, value: Place) {
        self.places[field as usize] = value;
    }

    /// A field's value.
    #[inline]
    pub(super) fn get<'a>(&self, text: &'a [u8], field: Field) -> Option<Token<'a>> {
        let Place { sort, start, end, .. } = self.places[field as usize];
        let at = || text.get(start as usize..end as usize);
        Some(match sort {
            Sort::Absent => return None,
            Sort::Text => Token::Text(at()?),
            Sort::Number => Token::Number(at()?),
            Sort::Object => Token::Object(at()?),
            Sort::Array => Token::Array(at()?),
            Sort::True => Token::True,
            Sort::False => Token::False,
            Sort::Null => Token::Null,
        })
    }

    /// Whether there is such a field.
    #[inline]
    pub(super) fn has(&self, field: Field) -> bool {
        self.places[field as usize].sort != Sort::Absent
    }

    /// The digits of a field's value, if it is a number that was read already.
    #[inline]
    pub(super) fn digits(&self, field: Field) -> Digits {
        self.places[field as usize].digits
    }

    /// Where a field's value stands; the empty range at the text's start if there is none.
    #[inline]
    pub(super) fn range(&self, field: Field) -> Range<usize> {
        let Place { start, end, .. } = self.places[field as usize];
        start as usize..end as usize
    }
}

/// The place of a token that ends before a byte.
fn place(text: &[u8], token: Token<'_>, end: usize) -> Place {
    let (sort, range) = match token {
        Token::Text(inner) => (Sort::Text, end - 1 - inner.len()..end - 1),
        Token::Number(all) => (Sort::Number, end - all.len()..end),
        Token::Object(all) => (Sort::Object, end - all.len()..end),
        Token::Array(all) => (Sort::Array, end - all.len()..end),
        Token::True => (Sort::True, end - 4..end),
        Token::False => (Sort::False, end - 5..end),
        Token::Null => (Sort::Null, end - 4..end),
    };
    debug_assert!(range.end <= text.len());
    Place { sort, start: range.start as u32, end: range.end as u32, digits: Digits::UNKNOWN }
}

impl Default for Fields {
    fn default() -> Self {
        Fields::NONE
    }
}
