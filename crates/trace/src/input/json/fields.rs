//! Where the fields of an event are in its text.

use std::ops::Range;

use super::args::KnownIds;
use super::marks::Marks;
use super::value::{Digits, SyntaxError, Token, Walker, is_number, pairs_its_brackets, unescape};
use crate::names::category::CategoryKind;

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
    Other,
}

const COUNT: usize = Field::Other as usize + 1;

impl Field {
    fn from_key(key: &[u8]) -> Field {
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
        if key.contains('\\') { Field::Other } else { Field::from_key(key.as_bytes()) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    Absent,
    /// Its span is the text between the quotes.
    Text,
    Number,
    Object,
    Array,
    True,
    False,
    Null,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) kind: ValueKind,
    pub(super) start: u32,
    pub(super) end: u32,
    /// Of a number that was read already.
    pub(super) digits: Digits,
}

impl Span {
    const NONE: Span = Span { kind: ValueKind::Absent, start: 0, end: 0, digits: Digits::UNKNOWN };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) field: Field,
    pub(super) value: Span,
}

/// The fields of one event. If a key comes twice, the last one wins.
#[derive(Debug)]
pub(super) struct Fields {
    spans: [Span; COUNT],
    /// All of them in order.
    pub(super) members: Vec<Member>,
    /// Whether a key that means something comes twice.
    pub(super) has_duplicates: bool,
    /// The ids among its arguments that are known already.
    pub(super) ids: KnownIds,
    /// What its category means, if that is known already.
    pub(super) category_kind: Option<CategoryKind>,
}

impl Fields {
    pub(super) const NONE: Fields = Fields {
        spans: [Span::NONE; COUNT],
        members: Vec::new(),
        has_duplicates: false,
        ids: KnownIds::NONE,
        category_kind: None,
    };

    /// Reads all fields of the object that begins at a byte.
    pub(super) fn read(&mut self, text: &[u8], at: usize, marks: &mut Marks) -> Result<(), SyntaxError> {
        self.spans = [Span::NONE; COUNT];
        self.members.clear();
        self.has_duplicates = false;
        (self.ids, self.category_kind) = (KnownIds::NONE, None);
        let mut walker = Walker::marked(text, at, marks);
        while let Some((key, token)) = walker.member()? {
            let is_wrong = match token {
                Token::Number(number) => !is_number(number),
                // The ends of containers were found by counting brackets of either kind.
                Token::Object(object) => !object.ends_with(b"}"),
                Token::Array(array) => !array.ends_with(b"]"),
                _ => false,
            };
            if is_wrong {
                return Err(SyntaxError);
            }
            let value = span(text, token, walker.offset());
            let member = Member { field: Field::from_key(key), value };
            let before = std::mem::replace(&mut self.spans[member.field as usize], value);
            self.has_duplicates |= before.kind != ValueKind::Absent && member.field != Field::Other;
            self.members.push(member);
        }
        // An event that lost its end and one that lost its head look like one event with doubled keys.
        let is_two = || self.has_duplicates && !pairs_its_brackets(&text[at..=walker.offset()]);
        if walker.has_wrong_commas() || is_two() { Err(SyntaxError) } else { Ok(()) }
    }

    #[inline]
    pub(super) fn set(&mut self, field: Field, value: Span) {
        self.spans[field as usize] = value;
    }

    #[inline]
    pub(super) fn get<'a>(&self, text: &'a [u8], field: Field) -> Option<Token<'a>> {
        let Span { kind, start, end, .. } = self.spans[field as usize];
        let at = || text.get(start as usize..end as usize);
        Some(match kind {
            ValueKind::Absent => return None,
            ValueKind::Text => Token::Text(at()?),
            ValueKind::Number => Token::Number(at()?),
            ValueKind::Object => Token::Object(at()?),
            ValueKind::Array => Token::Array(at()?),
            ValueKind::True => Token::True,
            ValueKind::False => Token::False,
            ValueKind::Null => Token::Null,
        })
    }

    #[inline]
    pub(super) fn has(&self, field: Field) -> bool {
        self.spans[field as usize].kind != ValueKind::Absent
    }

    /// The digits of a field's value, if it is a number that was read already.
    #[inline]
    pub(super) fn digits(&self, field: Field) -> Digits {
        self.spans[field as usize].digits
    }

    /// What its category means. An event without one may be a call.
    #[inline]
    pub(super) fn category_kind(&self, text: &[u8]) -> CategoryKind {
        self.category_kind.unwrap_or_else(|| match self.get(text, Field::Cat) {
            Some(Token::Text(raw)) if !raw.is_empty() => CategoryKind::from_name(&unescape(raw)),
            _ => CategoryKind::Runtime,
        })
    }

    /// Where a field's value is; the empty range at the text's start if there is none.
    #[inline]
    pub(super) fn range(&self, field: Field) -> Range<usize> {
        let Span { start, end, .. } = self.spans[field as usize];
        start as usize..end as usize
    }
}

/// The span of a token that ends before a byte.
fn span(text: &[u8], token: Token<'_>, end: usize) -> Span {
    let (kind, range) = match token {
        Token::Text(inner) => (ValueKind::Text, end - 1 - inner.len()..end - 1),
        Token::Number(all) => (ValueKind::Number, end - all.len()..end),
        Token::Object(all) => (ValueKind::Object, end - all.len()..end),
        Token::Array(all) => (ValueKind::Array, end - all.len()..end),
        Token::True => (ValueKind::True, end - 4..end),
        Token::False => (ValueKind::False, end - 5..end),
        Token::Null => (ValueKind::Null, end - 4..end),
    };
    debug_assert!(range.end <= text.len());
    Span { kind, start: range.start as u32, end: range.end as u32, digits: Digits::UNKNOWN }
}

impl Default for Fields {
    fn default() -> Self {
        Fields::NONE
    }
}
