//! Finding the numbers in an event's `args` that tie it to other events, without looking at anything else.
//!
//! Every event that has arguments is looked at, so this must cost next to nothing. Kineto writes the keys that are asked for at
//! the beginning, or one behind the other: where a value ends the next key is tried first, and only if it is not there is the
//! rest searched for it. What an event is (its category) says which keys it can have.

use std::ops::Range;

use memchr::memmem::Finder;

use super::args::{number, with_scalar};
use super::flat::{FlatValues, Flats, Prefix};
use super::layout::Piece;
use super::marks::Marks;
use super::number::{is_part, short_whole_number};
use super::scan::{Token, is_space, value_behind_key};
use super::text::unescape;
use crate::event::ids::{IdArg, IdSource, IdValue};
use crate::event::{ArgList, ArgValue, EventIds};
use crate::nccl::args;
use crate::nccl::category::CategoryKind;

/// What stands before a key is looked at anew when it was something else so often.
const RELEARN: u32 = 16;

/// Categories are remembered up to this many; Kineto has a dozen.
const MAX_KINDS: usize = 16;

/// How much of a kernel's name is looked at: a mangled one begins with `_ZN` and a number.
const NAME_START: usize = 16;

/// Finds ids in `args`.
pub(super) struct IdFinder {
    /// By [`IdArg`].
    keys: [Key; IdArg::COUNT],
    /// Finds what all records of collectives have.
    collective: Finder<'static>,
    /// What these tell, each with its key in the table of arguments.
    of_collectives: Vec<(Key, String)>,
    /// Categories as they stand in the file, and what they stand for.
    kinds: Vec<(Vec<u8>, CategoryKind)>,
    /// The one that was asked for last, if it has at most 16 bytes: events come in runs.
    last: (Piece, usize, CategoryKind),
    /// By the forms of flat arguments, which member each key is.
    forms: Vec<Members>,
}

/// A key that is asked for.
struct Key {
    /// Finds it with its quotes.
    finder: Finder<'static>,
    /// What stood between the value before it and its own value, when it was looked at.
    before: Option<Prefix>,
    /// Whether there were other members between.
    skips: bool,
    /// How often something else stood there.
    misses: u32,
}

impl Key {
    fn new(key: &str) -> Self {
        Key { finder: Finder::new(format!("\"{key}\"").as_bytes()).into_owned(), before: None, skips: false, misses: 0 }
    }

    fn text(&self) -> &[u8] {
        self.finder.needle()
    }
}

impl IdFinder {
    pub(super) fn new() -> Self {
        IdFinder {
            keys: IdArg::ALL.map(|arg| Key::new(arg.key())),
            collective: Finder::new(args::COLLECTIVE.as_bytes()).into_owned(),
            of_collectives: args::OF_COLLECTIVES.iter().map(|key| (Key::new(key), args::in_table(key))).collect(),
            kinds: Vec::new(),
            last: (Piece::default(), 0, CategoryKind::Cpu),
            forms: Vec::new(),
        }
    }

    /// Looks at forms of flat arguments that were learned since the last time.
    #[inline]
    pub(super) fn know(&mut self, flats: &Flats) {
        if self.forms.len() < flats.len() {
            self.learn(flats);
        }
    }

    #[cold]
    fn learn(&mut self, flats: &Flats) {
        for form in self.forms.len()..flats.len() {
            let member =
                |arg: IdArg| flats.keys(form).position(|key| key == arg.key().as_bytes()).map(|member| member as u8);
            self.forms.push(Members(IdArg::ALL.map(member)));
        }
    }

    /// The ids in an `args` object within a marked text, by what its event is. No key is looked for twice. `flat` are the numbers
    /// that are known already.
    #[inline]
    pub(super) fn find(
        &mut self,
        kind: CategoryKind,
        text: &[u8],
        object: Range<usize>,
        flat: &FlatValues,
        marks: &mut Marks,
    ) -> EventIds {
        if let Some(members) = flat.form.and_then(|form| self.forms.get(usize::from(form))) {
            return EventIds::read(kind, &mut FlatIds { members, flat });
        }
        self.search(kind, text, object, marks)
    }

    fn search(&mut self, kind: CategoryKind, text: &[u8], object: Range<usize>, marks: &mut Marks) -> EventIds {
        let search = Search { text, at: object.start + 1, object, skipped: false, marks };
        EventIds::read(kind, &mut TextIds { search, keys: &mut self.keys })
    }

    /// Whether an `args` object may tell of a collective: it is the record of one, or a kernel's that Kineto has copied one to.
    #[inline]
    pub(super) fn tells_of_collective(&self, kind: CategoryKind, name: Option<Token<'_>>, object: &[u8]) -> bool {
        match kind {
            CategoryKind::Kernel => match name {
                // NCCL's and RCCL's kernels say what they are, if not with the first letter, then soon.
                Some(Token::Text(name)) => {
                    name[..name.len().min(NAME_START)].windows(3).any(|part| part == b"ccl")
                        && self.collective.find(object).is_some()
                }
                _ => false,
            },
            CategoryKind::Cpu => name == Some(Token::Text(args::COLLECTIVE_RECORD.as_bytes())),
            _ => false,
        }
    }

    /// What such an object within a marked text tells of the collective.
    pub(super) fn collective(&mut self, text: &[u8], object: Range<usize>, marks: &mut Marks, list: &mut ArgList) {
        let mut search = Search { text, at: object.start + 1, object, skipped: false, marks };
        for (key, in_table) in &mut self.of_collectives {
            if let Some(token) = search.value(key) {
                with_scalar(token, |value| list.push(in_table, None, value));
            }
        }
    }

    /// What the category at a place stands for. Without one an event may be a call.
    #[inline]
    pub(super) fn kind_of(&mut self, text: &[u8], category: Option<Range<usize>>) -> CategoryKind {
        category.map_or(CategoryKind::Runtime, |category| self.kind(text, category))
    }

    /// What the category at a place stands for.
    #[inline]
    fn kind(&mut self, text: &[u8], category: Range<usize>) -> CategoryKind {
        let (piece, length, kind) = self.last;
        if category.len() == length && piece.stands_at(text, category.start) {
            return kind;
        }
        self.another_kind(text.get(category).unwrap_or_default())
    }

    fn another_kind(&mut self, category: &[u8]) -> CategoryKind {
        let known = self.kinds.iter().find(|(known, _)| known == category).map(|(_, kind)| *kind);
        let kind = known.unwrap_or_else(|| {
            // Forgetting all is rarer than it is worth to choose.
            if self.kinds.len() == MAX_KINDS {
                self.kinds.clear();
            }
            let kind = CategoryKind::of(&unescape(category));
            self.kinds.push((category.to_owned(), kind));
            kind
        });
        if category.len() <= 16 {
            self.last = (Piece::of(category), category.len(), kind);
        }
        kind
    }
}

/// Which member of a flat object each [`IdArg`] is.
struct Members([Option<u8>; IdArg::COUNT]);

/// The ids of a flat object.
struct FlatIds<'a> {
    members: &'a Members,
    flat: &'a FlatValues,
}

impl IdSource for FlatIds<'_> {
    #[inline]
    fn value(&mut self, arg: IdArg) -> IdValue {
        self.flat.get(self.members.0[arg as usize]).map_or(IdValue::Missing, IdValue::Number)
    }
}

/// The ids in the text of any other object.
struct TextIds<'a, 'm, 'k> {
    search: Search<'a, 'm>,
    keys: &'k mut [Key; IdArg::COUNT],
}

impl IdSource for TextIds<'_, '_, '_> {
    #[inline]
    fn value(&mut self, arg: IdArg) -> IdValue {
        let key = &mut self.keys[arg as usize];
        match self.search.next_number(key) {
            Some(number) => IdValue::Number(number),
            None => self.search.unusual_id(key),
        }
    }
}

/// A way through the members of an object.
struct Search<'a, 'm> {
    text: &'a [u8],
    object: Range<usize>,
    /// Behind the value that was found last.
    at: usize,
    /// Whether members before it were passed over, which may have keys that are asked for later.
    skipped: bool,
    marks: &'m mut Marks,
}

impl<'a> Search<'a, '_> {
    /// The number behind a key that comes next, if all looks as it did the last time.
    #[inline]
    fn next_number(&mut self, key: &Key) -> Option<i64> {
        let start = key.before.as_ref()?.pass(self.text, self.at)?;
        let (id, end) = short_whole_number(self.text, start)?;
        if is_part(*self.text.get(end)?) {
            return None;
        }
        self.at = end;
        self.skipped |= key.skips;
        Some(id)
    }

    /// The id with a key that is not where it was the last time.
    #[inline(never)]
    fn unusual_id(&mut self, key: &mut Key) -> IdValue {
        match self.value(key) {
            Some(Token::Null) => IdValue::Null,
            Some(token) => as_number(token).map_or(IdValue::Missing, IdValue::Number),
            None => IdValue::Missing,
        }
    }

    /// The value behind a key: the next member's if that has it, otherwise that of the first with this key.
    fn value(&mut self, key: &mut Key) -> Option<Token<'a>> {
        let text: &'a [u8] = &self.text[..self.object.end];
        let next = self.colon_of_next(key);
        let colon = next.or_else(|| self.find(key))?;
        let value = value_behind_key(text, colon, self.marks).ok()?;
        if let Token::Number(digits) = value {
            let start = colon + 1 + text[colon + 1..].iter().position(|byte| !is_space(*byte))?;
            key.misses += 1;
            if key.misses % RELEARN == 1 && start > self.at {
                key.before = Prefix::of(&text[self.at..start]);
                key.skips = next.is_none();
            }
            self.at = start + digits.len();
        }
        self.skipped |= next.is_none();
        Some(value)
    }

    /// Where the colon stands behind a key, if that comes next.
    fn colon_of_next(&self, key: &Key) -> Option<usize> {
        let text = self.text;
        let mut at = self.at;
        while is_space(*text.get(at)?) || text[at] == b',' {
            at += 1;
        }
        at += text.get(at..)?.starts_with(key.text()).then_some(key.text().len())?;
        (*text.get(at)? == b':').then_some(at)
    }

    /// The place behind a key, wherever it is: it is looked for from here on, then from the start.
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
            let at = from + key.finder.find(text.get(from..)?)?;
            let behind = at + key.text().len();
            // What looks like the key may be part of a longer text, or lie deeper.
            let is_string =
                self.marks.quote(text, at) == Some(at) && self.marks.quote(text, at + 1) == Some(behind - 1);
            if is_string && is_key(self.text, behind) && depth.is_one(text, at, self.marks) {
                return Some(behind);
            }
            from = at + 1;
        }
    }
}

/// How deep keys of an object lie, asked for from left to right: nothing is looked at twice.
struct Depth {
    /// So far there is no other object.
    searched: usize,
    object: Option<usize>,
    /// Brackets before this one are counted.
    bracket: Option<usize>,
    depth: i64,
}

impl Depth {
    /// Whether a key is one of the object itself: if no other object begins before it, it must be.
    fn is_one(&mut self, text: &[u8], place: usize, marks: &mut Marks) -> bool {
        if self.object.is_none() {
            self.object = memchr::memchr(b'{', &text[self.searched..place]);
            self.searched = place;
        }
        if self.object.is_none() {
            return true;
        }
        while let Some(bracket) = self.bracket.filter(|bracket| *bracket < place) {
            self.depth += if matches!(text.get(bracket), Some(b'{' | b'[')) { 1 } else { -1 };
            self.bracket = marks.bracket(text, bracket + 1);
        }
        self.depth == 1
    }
}

/// Whether a colon stands behind a text.
fn is_key(text: &[u8], behind: usize) -> bool {
    text[behind..].iter().find(|byte| !is_space(**byte)) == Some(&b':')
}

/// The number that a value is. Tools that rewrite traces turn numbers into text, or into 5.0.
fn as_number(token: Token<'_>) -> Option<i64> {
    match token {
        Token::Number(digits) => match number(digits) {
            Some(ArgValue::Int(id)) => Some(id),
            Some(ArgValue::Real(id)) if id.fract() == 0.0 && id.abs() < 9.0e15 => Some(id as i64),
            _ => None,
        },
        Token::Text(raw) => unescape(raw).parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ids::PythonCaller;

    fn ids(category: &str, object: &str) -> EventIds {
        let text = format!(r#"{{"cat":"{category}","args":{object}}}"#);
        let object = text.len() - 1 - object.len()..text.len() - 1;
        let mut finder = IdFinder::new();
        let kind = finder.kind_of(text.as_bytes(), Some(8..8 + category.len()));
        finder.find(kind, text.as_bytes(), object, &FlatValues::NONE, &mut Marks::default())
    }

    /// Among them what only looks like the key: values, parts of texts, escaped quotes, deeper places.
    #[test]
    fn the_correlation_id_is_found() {
        for (object, want) in [
            (r#"{"x":{"correlation":9},"correlation":7,"External id":1,"stream":7.5}"#, 7),
            (r#"{"a":"correlation","correlation" : 5}"#, 5),
            (r#"{"a":"\"correlation\":3","b":["correlation",{"correlation":4}]}"#, 0),
            (r#"{"correlation":1,"correlation":2}"#, 1),
            (r#"{"correlation":1,"correlation":null}"#, 1),
            (r#"{"correlation":true,"correlation":1}"#, 0),
            (r#"{"a":{},"correlation":"6"}"#, 6),
            (r#"{"a":{},"correlation":"text"}"#, 0),
            (r#"{"correlation":5.0}"#, 5),
            (r#"{"correlation":5.5}"#, 0),
            (r#"{"correlation":-5}"#, 0),
            (r#"{"correlation":9223372036854775807}"#, i64::MAX),
            (r#"{"correlation":18446744073709551615}"#, 0),
            (r#"{"correlation":[1]}"#, 0),
            (r#"{"correlation":}"#, 0),
            (r#"{"correlations":1,"correlation":null}"#, 0),
            ("{}", 0),
        ] {
            assert_eq!(ids("cuda_runtime", object), EventIds::Call { correlation: want }, "{object}");
            let EventIds::Gpu { correlation, .. } = ids("kernel", object) else { panic!("{object}") };
            assert_eq!(correlation, want, "{object}");
        }
    }

    #[test]
    fn each_category_has_its_own_ids() {
        use PythonCaller::{Frame, Nobody, Unknown};
        let python = |python_id, python_caller| EventIds::Python { python_id, python_caller };
        let operator =
            |sequence_number, forward_thread| EventIds::Operator { external_id: 3, sequence_number, forward_thread };
        let gpu = |external_id, graph_id, graph_node_id| EventIds::Gpu {
            correlation: 4,
            external_id,
            graph_id,
            graph_node_id,
        };
        for (category, object, want) in [
            ("python_function", r#"{"Python parent id": 4, "Python id": 5, "Ev Idx": 6}"#, python(5, Frame(4))),
            ("python_function", r#"{ "Python parent id": null, "Python id": 5 }"#, python(5, Nobody)),
            ("python_function", r#"{"Python id":5,"Ev Idx":1,"Python parent id":0}"#, python(5, Nobody)),
            ("python_function", r#"{"Python id":5}"#, python(5, Unknown)),
            ("python_function", r#"{"Ev Idx":{"Python id":5}}"#, python(0, Unknown)),
            ("python_function", r#"{"Python parent id":"7","Python id":8.0,"correlation":3}"#, python(8, Frame(7))),
            (
                "cpu_op",
                r#"{"External id": 3,"Record function id": 0, "Sequence number": 9, "Fwd thread id": 1}"#,
                operator(Some(9), 1),
            ),
            ("cpu_op", r#"{"External id":3,"Fwd thread id":2,"Sequence number":0,"x":1}"#, operator(Some(0), 2)),
            ("cpu_op", r#"{"Ev Idx":1,"External id":3,"Fwd thread id":2}"#, operator(None, 0)),
            ("cpu_op", r#"{"External id":3,"Sequence number":-1}"#, operator(None, 0)),
            ("cpu_op", r#"{"External id":3,"Call stack":"a \"Sequence number\": 4"}"#, operator(None, 0)),
            ("kernel", r#"{"External id":3,"correlation":4,"stream":7,"graph id":5,"graph node id":6}"#, gpu(3, 5, 6)),
            ("kernel", r#"{"correlation":4,"graph node id":0,"graph id":5}"#, gpu(0, 0, 0)),
            ("gpu_memcpy", r#"{"graph node id":7,"correlation":4}"#, gpu(0, 0, 7)),
            ("cuda_runtime", r#"{"External id":3,"cbid":1,"correlation":4}"#, EventIds::Call { correlation: 4 }),
        ] {
            assert_eq!(ids(category, object), want, "{category} {object}");
        }
        let finder = &mut IdFinder::new();
        for i in 0..40 {
            assert_eq!(finder.kind(format!("category {i}").as_bytes(), 0..10), CategoryKind::Cpu);
        }
        assert_eq!(finder.kind(b"Kernel, or a longer text", 0..6), CategoryKind::Kernel);
        assert_eq!(finder.kind(b"Kernel, or a longer text", 0..6), CategoryKind::Kernel);
        assert_eq!(finder.kind(b"Kernel, or a longer text", 0..7), CategoryKind::Cpu);
        assert!(finder.kinds.len() <= MAX_KINDS);
    }
}
