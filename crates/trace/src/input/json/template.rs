//! Recognising events by templates: the text that events of one kind have in common.
//!
//! A program writes all events of one kind alike: the same keys in the same order, with the same spaces between, and mostly the same
//! phase and category. So one event is the template of the next: the text between its values is compared, sixteen bytes at once, and
//! nothing is read byte by byte. The numbers with which its arguments begin are such values too: the ids are among them. An event
//! that matches a template is read just as the walker would read it, because the same text between the same kinds of values means the
//! same; one that matches none is read by the walker, and becomes a template.

use std::ops::Range;

use memchr::memmem::Finder;

use super::args::KnownIds;
use super::fields::{Field, Fields, Span, ValueKind};
use super::keys::PHASE;
use super::marks::{LONG, Marks};
use super::value::{Digits, MAX_PASSED, MAX_SHORT, Number, Token, Walker, digits_end, number, short_whole_number};
use crate::event::ids::{IdArg, IdValue};

/// How many templates are kept. Kineto's events need a dozen.
const MAX_TEMPLATES: usize = 32;

/// After so many templates only keys are taken from events: categories or arguments differ too often to be remembered.
const MAX_SPECIFIC: usize = 4 * MAX_TEMPLATES;

/// Events with more fields are left to the walker.
const MAX_VALUES: usize = 24;

/// Longer texts between two values are left to the walker.
const MAX_BETWEEN: usize = 96;

#[derive(Debug)]
pub(super) struct Templates {
    known: Vec<Template>,
    /// The one that was recognised last.
    last: usize,
    /// How many there have been. Beyond [`MAX_TEMPLATES`] each replaces the oldest.
    learned: usize,
    /// Finds the key of a phase. If it is in a container that an event has, the container's end may be that of a later event,
    /// because a quote or a bracket is stray or missing.
    phase: Finder<'static>,
}

impl Default for Templates {
    fn default() -> Self {
        Templates { known: Vec::new(), last: 0, learned: 0, phase: Finder::new(PHASE) }
    }
}

/// How events of one kind look.
#[derive(Debug)]
struct Template {
    /// The phase and the category where they come before all other values: a part of the text. Offsets are from the event's brace.
    constants: Vec<(Field, Span)>,
    values: Vec<Value>,
    args: Option<Args>,
    /// The text after the last value.
    tail: Between,
    /// Texts between values beyond their first sixteen bytes.
    more: Vec<Piece>,
    /// The values of the event that was recognised last.
    fields: Fields,
    /// The template of the event that came after one like this: events come in patterns, a call, its flow, the next call.
    followed_by: usize,
}

/// A value and the text before it.
#[derive(Debug, Clone, Copy)]
struct Value {
    before: Between,
    field: Field,
    kind: ValueKind,
    /// The last value here, if it is a short whole number: events come in runs of one thread.
    last: Repeated,
}

/// The arguments of an event whose last member they are, as far as they begin with whole numbers and nulls.
#[derive(Debug, PartialEq, Eq)]
struct Args {
    /// Where their brace is, from the end of the value before.
    start: usize,
    /// The numbers up to the last id, or all if there is nothing else; each with the text before it.
    numbers: Vec<(Between, Option<IdArg>)>,
    /// The text after the last of them, which shows that it has ended; if there is nothing else, up to the closing brace.
    after: Between,
}

/// Text that is the same in all events of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Between {
    first: Piece,
    length: u32,
    /// Its other pieces, in [`Template::more`].
    more: (u32, u32),
}

/// Up to sixteen bytes of a text: `text & mask == value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    value: [u64; 2],
    mask: [u64; 2],
}

/// A number of up to seven bytes and the byte after it: `text & mask == bytes`.
#[derive(Debug, Clone, Copy, Default)]
struct Repeated {
    bytes: u64,
    /// 0: there is none.
    mask: u64,
    length: u32,
    value: i64,
}

impl Templates {
    /// Compares the event that begins at a byte with the templates. The byte after it if it matches one of them.
    #[inline]
    pub(super) fn recognise(&mut self, text: &[u8], at: usize, marks: &mut Marks) -> Option<usize> {
        // Offsets are kept in 32 bits.
        u32::try_from(text.len()).ok()?;
        let expected = self.known.get(self.last)?.followed_by;
        if let Some(end) = self.known.get_mut(expected)?.matches(text, at, marks, &self.phase) {
            self.last = expected;
            return Some(end);
        }
        self.recognise_another(expected, text, at, marks)
    }

    #[cold]
    fn recognise_another(&mut self, not: usize, text: &[u8], at: usize, marks: &mut Marks) -> Option<usize> {
        let Templates { known, phase, .. } = self;
        let mut others = (0..known.len()).filter(|i| *i != not);
        let (i, end) = others.find_map(|i| Some((i, known[i].matches(text, at, marks, phase)?)))?;
        self.known[self.last].followed_by = i;
        self.last = i;
        Some(end)
    }

    /// The values of the event that was recognised last.
    #[inline]
    pub(super) fn fields(&self) -> &Fields {
        const NONE: &Fields = &Fields::NONE;
        self.known.get(self.last).map_or(NONE, |template| &template.fields)
    }

    /// Learns from an event that begins at a byte and has these fields.
    pub(super) fn learn(&mut self, text: &[u8], at: usize, fields: &Fields) {
        let specific = || Template::parse(text, at, fields, true).filter(|_| self.learned < MAX_SPECIFIC);
        let Some(template) = specific().or_else(|| Template::parse(text, at, fields, false)) else { return };
        // The last event of a text is not recognised, because comparing needs sixteen bytes after it.
        if let Some(known) = self.known.iter().position(|known| known.is_like(&template)) {
            self.last = known;
            return;
        }
        let index = self.learned % MAX_TEMPLATES;
        self.learned += 1;
        match self.known.get_mut(index) {
            Some(oldest) => *oldest = template,
            None => self.known.push(template),
        }
        self.known[index].followed_by = index;
        self.known[self.last].followed_by = index;
        self.last = index;
    }
}

impl Template {
    /// The template that an event is. `is_specific`: with its category, and the numbers of its arguments.
    fn parse(text: &[u8], at: usize, fields: &Fields, is_specific: bool) -> Option<Template> {
        // What has doubled keys may be two events, so each is read in full.
        if fields.members.len() > MAX_VALUES || fields.has_duplicates {
            return None;
        }
        let (mut constants, mut values, mut args, mut more) = (Vec::new(), Vec::new(), None, Vec::new());
        let mut known = Fields::default();
        let mut from = at;
        for (i, member) in fields.members.iter().enumerate() {
            let Span { kind, start, end, .. } = member.value;
            // The length of the others cannot be known from where they begin.
            if !matches!(kind, ValueKind::Text | ValueKind::Number | ValueKind::Object | ValueKind::Array) {
                return None;
            }
            let (begin, range) = (at as u32, start as usize..end as usize);
            if is_specific && matches!((member.field, kind), (Field::Ph | Field::Cat, ValueKind::Text)) && from == at {
                constants.push((member.field, Span { start: start - begin, end: end - begin, ..member.value }));
                continue;
            }
            if is_specific && (member.field, kind, i + 1) == (Field::Args, ValueKind::Object, fields.members.len()) {
                let pieces = more.len();
                match Args::parse(text, from, range.clone(), &mut more) {
                    Some((found, ids)) => (args, known.ids) = (Some(found), ids),
                    None => more.truncate(pieces),
                }
            }
            if args.is_none() {
                let before = Between::parse(text.get(from..range.start)?, &mut more)?;
                values.push(Value { before, field: member.field, kind, last: Repeated::default() });
            }
            from = range.end;
        }
        let tail = Between::parse(text.get(from..)?, &mut more)?;
        if values.iter().all(|value| value.field != Field::Cat) {
            known.category_kind = Some(fields.category_kind(text));
        }
        Some(Template { constants, values, args, tail, more, fields: known, followed_by: 0 })
    }

    fn is_like(&self, other: &Template) -> bool {
        let value = |value: &Value| (value.before, value.field, value.kind);
        (self.tail, &self.args, &self.more) == (other.tail, &other.args, &other.more)
            && self.values.iter().map(value).eq(other.values.iter().map(value))
    }

    #[inline]
    fn matches(&mut self, text: &[u8], begin: usize, marks: &mut Marks, phase: &Finder<'_>) -> Option<usize> {
        let Template { constants, values, args, tail, more, fields, .. } = self;
        let mut at = begin;
        for Value { before, field, kind, last } in values {
            let start = before.pass(text, at, more)?;
            let mut digits = Digits::UNKNOWN;
            at = match kind {
                ValueKind::Text => marks.quote(text, start)?,
                ValueKind::Number => {
                    let number = last.number(text, start)?;
                    digits = number.digits;
                    number.end
                }
                ValueKind::Object => container_end(text, start, b'{', marks, phase)?,
                ValueKind::Array => container_end(text, start, b'[', marks, phase)?,
                _ => return None,
            };
            fields.set(*field, Span { kind: *kind, start: start as u32, end: at as u32, digits });
        }
        if let Some(args) = args {
            let start = at + args.start;
            at = args.pass(text, at, more, &mut fields.ids)?;
            if !fields.ids.are_all {
                at = container_end(text, start, b'{', marks, phase)?;
            }
            let (start, end) = (start as u32, at as u32);
            fields.set(Field::Args, Span { kind: ValueKind::Object, start, end, digits: Digits::UNKNOWN });
        }
        let end = tail.pass(text, at, more)?;
        for (field, span) in constants {
            let (start, end) = (span.start + begin as u32, span.end + begin as u32);
            fields.set(*field, Span { start, end, ..*span });
        }
        Some(end)
    }
}

impl Args {
    /// The arguments in a range of the text, after a value that ends at `from`, and the ids that are nulls. `None`: all have to be searched.
    fn parse(text: &[u8], from: usize, object: Range<usize>, more: &mut Vec<Piece>) -> Option<(Args, KnownIds)> {
        let (mut ids, mut numbers, mut keys, mut last_id) = (KnownIds::NONE, Vec::new(), Vec::new(), None);
        let mut walker = Walker::new(&text[object.clone()]);
        ids.are_all = loop {
            let Ok(member) = walker.member() else { break false };
            let Some((key, token)) = member else { break true };
            let (id, end) = (IdArg::of_key(key), object.start + walker.offset());
            let most = if id.is_some() { MAX_SHORT } else { MAX_PASSED };
            match token {
                // Which of two equal keys wins is not decided here.
                _ if keys.contains(&key) || numbers.len() == MAX_VALUES => break false,
                Token::Number(digits) if digits.len() <= most && digits.iter().all(u8::is_ascii_digit) => {
                    numbers.push((end - digits.len()..end, id));
                }
                Token::Null => id.into_iter().for_each(|id| ids.values[id as usize] = IdValue::Null),
                _ => break false,
            }
            keys.push(key);
            last_id = id.map(|_| end).or(last_id);
        };
        // The byte after a number shows that it has ended.
        let end = if ids.are_all { object.end } else { last_id? + 1 };
        let mut after = from;
        let before = |(number, id): (Range<usize>, _)| {
            let before = Between::parse(&text[std::mem::replace(&mut after, number.end)..number.start], more)?;
            Some((before, id))
        };
        let numbers: Option<_> = numbers.into_iter().filter(|(number, _)| number.end < end).map(before).collect();
        let (numbers, after) = (numbers?, Between::parse(&text[after..end], more)?);
        Some((Args { start: object.start - from, numbers, after }, ids))
    }

    /// The byte after this text, if it is at a byte; fills in the ids.
    #[inline]
    fn pass(&self, text: &[u8], at: usize, more: &[Piece], ids: &mut KnownIds) -> Option<usize> {
        let mut at = at;
        for (before, id) in &self.numbers {
            let start = before.pass(text, at, more)?;
            at = match id {
                Some(id) => {
                    let (value, end) = short_whole_number(text, start)?;
                    ids.values[*id as usize] = IdValue::Number(value);
                    end
                }
                None => digits_end(text, start)?,
            };
        }
        at = self.after.pass(text, at, more)?;
        ids.end = at as u32;
        Some(at)
    }
}

impl Between {
    fn parse(text: &[u8], more: &mut Vec<Piece>) -> Option<Between> {
        if text.len() > MAX_BETWEEN {
            return None;
        }
        let (first, rest) = text.split_at(text.len().min(16));
        let from = more.len() as u32;
        more.extend(rest.chunks(16).map(Piece::new));
        Some(Between { first: Piece::new(first), length: text.len() as u32, more: (from, more.len() as u32) })
    }

    /// The byte after this text, if it is at a byte.
    #[inline]
    fn pass(&self, text: &[u8], at: usize, more: &[Piece]) -> Option<usize> {
        if !self.first.is_at(text, at) {
            return None;
        }
        if self.length > 16 {
            let more = more.get(self.more.0 as usize..self.more.1 as usize)?;
            if !more.iter().enumerate().all(|(i, piece)| piece.is_at(text, at + 16 * (i + 1))) {
                return None;
            }
        }
        Some(at + self.length as usize)
    }
}

impl Piece {
    /// A piece of at most sixteen bytes.
    fn new(text: &[u8]) -> Piece {
        let (mut value, mut mask) = ([0; 16], [0; 16]);
        value[..text.len()].copy_from_slice(text);
        mask[..text.len()].fill(0xff);
        Piece { value: halves(value), mask: halves(mask) }
    }

    /// Whether it is at a byte of a text that goes on for sixteen bytes from there.
    #[inline]
    fn is_at(&self, text: &[u8], at: usize) -> bool {
        let Some(Ok(found)) = text.get(at..at + 16).map(TryInto::try_into) else { return false };
        let ([low, high], [low_mask, high_mask], [low_value, high_value]) = (halves(found), self.mask, self.value);
        ((low & low_mask) ^ low_value) | ((high & high_mask) ^ high_value) == 0
    }
}

#[inline]
fn halves(bytes: [u8; 16]) -> [u64; 2] {
    let all = u128::from_le_bytes(bytes);
    [all as u64, (all >> 64) as u64]
}

/// The byte after the container that begins with this bracket at a byte, if it ends with the same kind and no event has got into it.
#[inline]
fn container_end(text: &[u8], at: usize, bracket: u8, marks: &mut Marks, phase: &Finder<'_>) -> Option<usize> {
    if text.get(at) != Some(&bracket) {
        return None;
    }
    let end = marks.container_end_within(text, at, LONG)?;
    (text[end - 1] == bracket + 2 && phase.find(&text[at..end]).is_none()).then_some(end)
}

impl Repeated {
    #[inline]
    fn number(&mut self, text: &[u8], at: usize) -> Option<Number> {
        let bytes = u64::from_le_bytes(text.get(at..at + 8)?.try_into().ok()?);
        if bytes & self.mask == self.bytes && self.mask != 0 {
            let digits = Digits { value: self.value, decimals: 0 };
            return Some(Number { end: at + self.length as usize, digits });
        }
        let number = number(text, at)?;
        let length = number.end - at;
        if let (Some(value), 1..=7) = (number.digits.whole(), length) {
            // With the byte after it, which shows that the number does not go on.
            let mask = u64::MAX >> (8 * (7 - length));
            *self = Repeated { bytes: bytes & mask, mask, length: length as u32, value };
        }
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::json::args::IdFinder;
    use proptest::prelude::*;

    const FIELDS: [Field; 6] = [Field::Ph, Field::Name, Field::Pid, Field::Ts, Field::Args, Field::Bp];

    /// Learns the events one after the other, as the reader does, and returns how many were recognised. Whatever is recognised
    /// must be what the walker reads.
    fn recognised(events: &[String]) -> usize {
        let (mut templates, mut count) = (Templates::default(), 0);
        for (at, event) in events.iter().enumerate() {
            // Templates compare ahead; the text around an event may be anything.
            let text = format!("{}{event},{}", " ".repeat(at), "{\"next\": 1234567890}".repeat(4));
            let mut walked = Fields::default();
            // An event whose quotes or brackets are wrong ends somewhere else.
            let Some(end) = Marks::default().container_end(text.as_bytes(), at) else { continue };
            let is_event = walked.read(&text.as_bytes()[..end], at, &mut Marks::default()).is_ok();
            match templates.recognise(text.as_bytes(), at, &mut Marks::default()) {
                Some(found) => {
                    count += 1;
                    assert!(is_event, "{event}");
                    assert_eq!(found, end, "{event}");
                    for field in FIELDS {
                        let got = templates.fields().get(text.as_bytes(), field);
                        assert_eq!(got, walked.get(text.as_bytes(), field), "{field:?} of {event}");
                        if let Some(value) = templates.fields().digits(field).whole() {
                            let Some(Token::Number(digits)) = got else { panic!("{got:?}") };
                            assert_eq!(value.to_string().as_bytes(), digits, "{event}");
                        }
                    }
                    let kind = walked.category_kind(text.as_bytes());
                    assert_eq!(templates.fields().category_kind(text.as_bytes()), kind, "{event}");
                    let ids = |fields: &Fields| {
                        let (marks, object) = (&mut Marks::default(), fields.range(Field::Args));
                        IdFinder::new().find(kind, text.as_bytes(), object, &fields.ids, marks)
                    };
                    if let Some(Token::Object(_)) = walked.get(text.as_bytes(), Field::Args) {
                        assert_eq!(ids(templates.fields()), ids(&walked), "{event}");
                    }
                }
                None if is_event => templates.learn(&text.as_bytes()[..end], at, &walked),
                None => {}
            }
        }
        count
    }

    #[test]
    fn events_that_look_alike_are_recognised() {
        let event = |pid: &str, name: &str, args: &str| {
            format!(r#"{{"ph": "X", "name": "{name}", "pid": {pid}, "ts": 17.25,  "args": {{{args}}} }}"#)
        };
        let events = [
            event("12", "a", r#""x": 1"#),
            event("123", r#"b\"c"#, ""),
            event("1", "", r#""x": {"y": [1, "}"]}"#),
            event("1.5", "d", ""),
            event("1", "e", ""),
            event("1e5", "f", ""),
            event("-1", "g", ""),
            event("1234567", "h", ""),
            event("12345678", "i", ""),
        ];
        // Those without arguments, with numbers alone, and with others have a template each.
        assert_eq!(recognised(&events), events.len() - 3);
        assert_eq!(recognised(&[event("1", "a", ""), event("\"1\"", "a", ""), event("null", "a", "")]), 0);
        let twice = r#"{"pid": 1, "pid": 2}"#.to_owned();
        assert_eq!(recognised(&[twice.clone(), twice]), 0, "it may be two events");
    }

    /// Whole numbers and nulls at the beginning of arguments are read with the event; what comes after them is searched.
    #[test]
    fn arguments_are_a_part_of_the_template() {
        let events = |args: &[&str]| -> Vec<String> {
            let event =
                |args: &&str| format!(r#"{{"ph": "X", "cat": "python_function", "ts": 1, "args": {{{args}}}}}"#);
            args.iter().map(event).collect()
        };
        assert_eq!(
            recognised(&events(&[
                r#""Python parent id": 4, "Python id": 5, "Ev Idx": 6"#,
                r#""Python parent id": 123456789012, "Python id": 1234567, "Ev Idx": 7"#,
                r#""Python parent id": 0, "Python id": 0, "Ev Idx": 12345678"#,
            ])),
            2
        );
        assert_eq!(
            recognised(&events(&[
                r#""Python parent id": null, "Python id": 5, "Ev Idx": 6, "Call stack": "a""#,
                r#""Python parent id": null, "Python id": 9, "Ev Idx": 7, "Python id": 8"#,
                r#""Python parent id": null, "Python id": 9"#,
            ])),
            1
        );
        for other in [
            r#""Python parent id": null, "Python id": 5"#,
            r#""Python parent id": -4, "Python id": 5"#,
            r#""Python parent id": 4.5, "Python id": 5"#,
            r#""Python parent id": 4, "Python id": 5e1"#,
            r#""Python parent id": 4, "Python id": 12345678901234567890"#,
            r#""Python parent id": 4,  "Python id": 5"#,
            r#""Python parent id": 4"#,
            "",
        ] {
            assert_eq!(recognised(&events(&[r#""Python parent id": 4, "Python id": 5"#, other])), 0, "{other}");
        }
    }

    /// Where categories differ again and again they are a value.
    #[test]
    fn any_number_of_categories_is_recognised() {
        let event =
            |i: usize| format!(r#"{{"ph": "X", "cat": "category {i}", "ts": {i}, "args": {{"External id": 1}}}}"#);
        let events: Vec<String> = (0..2 * MAX_SPECIFIC).map(event).collect();
        assert_eq!(recognised(&events), MAX_SPECIFIC - 1);
    }

    proptest! {}
}
