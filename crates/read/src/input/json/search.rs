//! Searching an object's text for a few keys, without reading anything else.
//!
//! Most events that have arguments are searched, so this must cost next to nothing. Kineto writes the keys that are wanted one after
//! the other: where a value ends the next key is compared first, and only if it is not there is the rest searched for it.

use std::ops::Range;

use memchr::memmem::Finder;

use super::args::number;
use super::marks::Marks;
use super::scan::{Token, is_space, value_after_key};
use super::text::unescape;
use crate::event::ArgValue;
use crate::event::ids::IdValue;

/// A key in quotes, to search for.
pub(super) struct Key(Finder<'static>);

impl Key {
    pub(super) fn new(key: &str) -> Self {
        Key(Finder::new(format!("\"{key}\"").as_bytes()).into_owned())
    }

    fn text(&self) -> &[u8] {
        self.0.needle()
    }
}

/// A search through the members of one object. No key must be searched for twice.
pub(super) struct Search<'a, 'm> {
    text: &'a [u8],
    object: Range<usize>,
    /// After the value that was found last.
    at: usize,
    /// Whether members before it were skipped, which may have keys that are searched for later.
    skipped: bool,
    marks: &'m mut Marks,
}

impl<'a, 'm> Search<'a, 'm> {
    /// A search through an object within a marked text. Before `from` there is none of the keys.
    #[inline]
    pub(super) fn new(text: &'a [u8], object: Range<usize>, from: usize, marks: &'m mut Marks) -> Self {
        Search { text, at: from, object, skipped: false, marks }
    }

    /// The id with a key.
    #[inline(never)]
    pub(super) fn id(&mut self, key: &Key) -> IdValue {
        match self.value(key) {
            Some(Token::Null) => IdValue::Null,
            Some(token) => as_number(token).map_or(IdValue::Missing, IdValue::Number),
            None => IdValue::Missing,
        }
    }

    /// The value of a key: the next member's if that has it, otherwise that of the first with this key.
    pub(super) fn value(&mut self, key: &Key) -> Option<Token<'a>> {
        let text: &'a [u8] = &self.text[..self.object.end];
        let next = self.colon_of_next(key);
        let colon = next.or_else(|| self.find(key))?;
        let (value, end) = value_after_key(text, colon, self.marks).ok()?;
        self.at = end;
        self.skipped |= next.is_none();
        Some(value)
    }

    /// Where the colon after a key is, if this key comes next.
    fn colon_of_next(&self, key: &Key) -> Option<usize> {
        let text = self.text;
        let mut at = self.at;
        while is_space(*text.get(at)?) || text[at] == b',' {
            at += 1;
        }
        at += text.get(at..)?.starts_with(key.text()).then_some(key.text().len())?;
        (*text.get(at)? == b':').then_some(at)
    }

    /// The byte after a key, wherever it is: the search begins here and goes on from the start.
    fn find(&mut self, key: &Key) -> Option<usize> {
        if let Some(found) = self.find_between(key, self.at..self.object.end) {
            return Some(found);
        }
        if !self.skipped {
            return None;
        }
        let end = (self.at + key.text().len()).min(self.object.end);
        self.find_between(key, self.object.start..end)
    }

    fn find_between(&mut self, key: &Key, within: Range<usize>) -> Option<usize> {
        let text = self.text.get(..within.end)?;
        let start = self.object.start;
        let mut depth = Depth { searched: start + 1, object: None, bracket: Some(start), depth: 0 };
        let mut from = within.start;
        loop {
            let at = from + key.0.find(text.get(from..)?)?;
            let after = at + key.text().len();
            // What looks like the key may be part of a longer text, or be nested deeper.
            let is_string = self.marks.quote(text, at) == Some(at) && self.marks.quote(text, at + 1) == Some(after - 1);
            if is_string && is_key(self.text, after) && depth.is_one(text, at, self.marks) {
                return Some(after);
            }
            from = at + 1;
        }
    }
}

/// How deep keys of an object are nested, asked from left to right, so that nothing is counted twice.
struct Depth {
    /// Up to here there is no other object.
    searched: usize,
    object: Option<usize>,
    /// Brackets before this one are counted.
    bracket: Option<usize>,
    depth: i64,
}

impl Depth {
    /// Whether a key is one of the object itself: if no other object begins before it, it must be.
    fn is_one(&mut self, text: &[u8], key: usize, marks: &mut Marks) -> bool {
        if self.object.is_none() {
            self.object = memchr::memchr(b'{', &text[self.searched..key]);
            self.searched = key;
        }
        if self.object.is_none() {
            return true;
        }
        while let Some(bracket) = self.bracket.filter(|bracket| *bracket < key) {
            self.depth += if matches!(text.get(bracket), Some(b'{' | b'[')) { 1 } else { -1 };
            self.bracket = marks.bracket(text, bracket + 1);
        }
        self.depth == 1
    }
}

/// Whether a colon is the next visible byte.
fn is_key(text: &[u8], from: usize) -> bool {
    text[from..].iter().find(|byte| !is_space(**byte)) == Some(&b':')
}

/// The number that a value is, by the rule for all arguments.
fn as_number(token: Token<'_>) -> Option<i64> {
    match token {
        // What is too large for an integer is kept as text, and fits no better then.
        Token::Number(digits) => number(digits)?.whole(|_| None),
        Token::Text(raw) => ArgValue::Text(unescape(raw)).whole(|text| Some(text)),
        _ => None,
    }
}
