//! Recognising events by their layout.
//!
//! A program writes all events of one kind alike: the same keys in the same order, with the same spaces between. So the layout of
//! one event shows where the next one's values are: the text between them is compared, sixteen bytes at once, and nothing is read
//! byte by byte. An event that matches a layout is read just as the walker would read it, because the same text between the same
//! kinds of values means the same; one that matches none is read by the walker, and a layout is learned from it.

use memchr::memmem::Finder;

use super::compare::Piece;
use super::fields::{Field, Fields, Span, ValueKind};
use super::flat::Flats;
use super::keys::PHASE;
use super::marks::{LONG, Marks};
use super::number::{Digits, Number, number};

/// How many layouts are kept. Kineto writes four or five.
const MAX_LAYOUTS: usize = 8;

/// Events with more fields are left to the walker.
const MAX_STEPS: usize = 24;

/// Longer texts between two values are left to the walker.
const MAX_BETWEEN: usize = 96;

/// The layouts met so far.
#[derive(Debug)]
pub(super) struct Layouts {
    known: Vec<Layout>,
    /// The one that was recognised last.
    last: usize,
    /// The one that is replaced next when there are too many.
    oldest: usize,
    /// The forms of simple arguments, which events of all layouts may have.
    flats: Flats,
    /// Finds the key of a phase. If it is in a container that an event has, the container's end may be that of a later event,
    /// because a quote or a bracket is stray or missing.
    phase: Finder<'static>,
}

impl Default for Layouts {
    fn default() -> Self {
        Layouts { known: Vec::new(), last: 0, oldest: 0, flats: Flats::default(), phase: Finder::new(PHASE) }
    }
}

/// How events of one kind look.
#[derive(Debug)]
struct Layout {
    steps: Vec<Step>,
    /// The text after the last value.
    tail: Between,
    /// Texts between values beyond their first sixteen bytes.
    more: Vec<Piece>,
    /// The values of the event that was recognised last.
    fields: Fields,
    /// The layout of the event that came after one like this: events come in patterns, a call, its flow, the next call.
    followed_by: usize,
}

/// A value and the text before it.
#[derive(Debug, Clone, Copy)]
struct Step {
    before: Between,
    field: Field,
    kind: ValueKind,
    /// The last value here, if it is a short whole number: events come in runs of one thread.
    last: Repeated,
}

/// Text that is the same in all events of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Between {
    first: Piece,
    length: u32,
    /// Its other pieces, in [`Layout::more`].
    more: (u32, u32),
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

impl Layouts {
    /// Compares the event that begins at a byte with the layouts. The byte after it if it has one of them.
    #[inline]
    pub(super) fn recognise(&mut self, text: &[u8], at: usize, marks: &mut Marks) -> Option<usize> {
        // Offsets are kept in 32 bits.
        u32::try_from(text.len()).ok()?;
        let expected = self.known.get(self.last)?.followed_by;
        if let Some(end) = self.known.get_mut(expected)?.matches(text, at, marks, &mut self.flats, &self.phase) {
            self.last = expected;
            return Some(end);
        }
        self.recognise_another(expected, text, at, marks)
    }

    #[cold]
    fn recognise_another(&mut self, not: usize, text: &[u8], at: usize, marks: &mut Marks) -> Option<usize> {
        let found = (0..self.known.len()).filter(|i| *i != not);
        let Layouts { known, flats, phase, .. } = self;
        let (i, end) = found.into_iter().find_map(|i| Some((i, known[i].matches(text, at, marks, flats, phase)?)))?;
        self.known[self.last].followed_by = i;
        self.last = i;
        Some(end)
    }

    /// The values of the event that was recognised last.
    #[inline]
    pub(super) fn fields(&self) -> &Fields {
        const NONE: &Fields = &Fields::NONE;
        self.known.get(self.last).map_or(NONE, |layout| &layout.fields)
    }

    /// The forms of simple arguments.
    #[inline]
    pub(super) fn flats(&self) -> &Flats {
        &self.flats
    }

    /// Learns from an event that begins at a byte and has these fields.
    pub(super) fn learn(&mut self, text: &[u8], at: usize, fields: &Fields) {
        let Some(layout) = Layout::parse(text, at, fields) else { return };
        // The last event of a text is not recognised, because comparing needs sixteen bytes after it.
        if let Some(known) = self.known.iter().position(|known| known.is_like(&layout)) {
            self.last = known;
            return;
        }
        let index = if self.known.len() < MAX_LAYOUTS {
            self.known.push(layout);
            self.known.len() - 1
        } else {
            let index = self.oldest;
            self.oldest = (self.oldest + 1) % MAX_LAYOUTS;
            self.known[index] = layout;
            index
        };
        self.known[index].followed_by = index;
        self.known[self.last].followed_by = index;
        self.last = index;
    }
}

impl Layout {
    fn parse(text: &[u8], at: usize, fields: &Fields) -> Option<Layout> {
        // What has doubled keys may be two events, so each is read in full.
        if fields.members.len() > MAX_STEPS || fields.has_duplicates {
            return None;
        }
        let (mut steps, mut more) = (Vec::new(), Vec::new());
        let mut from = at;
        for member in &fields.members {
            let Span { kind, start, end, .. } = member.value;
            // The length of the others cannot be known from where they begin.
            if !matches!(kind, ValueKind::Text | ValueKind::Number | ValueKind::Object | ValueKind::Array) {
                return None;
            }
            let before = Between::parse(text.get(from..start as usize)?, &mut more)?;
            steps.push(Step { before, field: member.field, kind, last: Repeated::default() });
            from = end as usize;
        }
        let tail = Between::parse(text.get(from..)?, &mut more)?;
        Some(Layout { steps, tail, more, fields: Fields::default(), followed_by: 0 })
    }

    fn is_like(&self, other: &Layout) -> bool {
        let steps = |layout: &Layout| layout.steps.iter().map(|s| (s.before, s.field, s.kind)).collect::<Vec<_>>();
        self.tail == other.tail && self.more == other.more && steps(self) == steps(other)
    }

    #[inline]
    fn matches(
        &mut self,
        text: &[u8],
        at: usize,
        marks: &mut Marks,
        flats: &mut Flats,
        phase: &Finder<'_>,
    ) -> Option<usize> {
        let Layout { steps, tail, more, fields, .. } = self;
        fields.flat.form = None;
        let mut at = at;
        for step in steps {
            at = step.before.pass(text, at, more)?;
            let start = at;
            let mut digits = Digits::UNKNOWN;
            at = match step.kind {
                ValueKind::Text => marks.quote(text, at)?,
                ValueKind::Number => {
                    let number = step.last.number(text, at)?;
                    digits = number.digits;
                    number.end
                }
                ValueKind::Object if text.get(at) == Some(&b'{') => {
                    if step.field != Field::Args {
                        container_end(text, at, b'}', marks, phase)?
                    } else if let Some(end) = flats.recognise(text, at, &mut fields.flat) {
                        end
                    } else {
                        // Of two `args` the last one wins.
                        fields.flat.form = None;
                        let end = container_end(text, at, b'}', marks, phase)?;
                        flats.learn(text, at..end, marks);
                        end
                    }
                }
                ValueKind::Array if text.get(at) == Some(&b'[') => container_end(text, at, b']', marks, phase)?,
                _ => return None,
            };
            fields.set(step.field, Span { kind: step.kind, start: start as u32, end: at as u32, digits });
        }
        tail.pass(text, at, more)
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

/// The byte after the container that begins at a byte, if it ends with the right bracket and no event has got into it.
#[inline]
fn container_end(text: &[u8], at: usize, last: u8, marks: &mut Marks, phase: &Finder<'_>) -> Option<usize> {
    let end = marks.container_end_within(text, at, LONG)?;
    (text[end - 1] == last && phase.find(&text[at..end]).is_none()).then_some(end)
}

impl Repeated {
    /// The number at a byte.
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
    use crate::input::json::scan::Token;
    use proptest::prelude::*;

    const FIELDS: [Field; 6] = [Field::Ph, Field::Name, Field::Pid, Field::Ts, Field::Args, Field::Bp];

    /// Learns the events one after the other, as the reader does, and returns how many were recognised. Whatever is recognised
    /// must be what the walker reads.
    fn recognised(events: &[String]) -> usize {
        let (mut layouts, mut count) = (Layouts::default(), 0);
        for (at, event) in events.iter().enumerate() {
            // Layouts compare ahead; the text around an event may be anything.
            let text = format!("{}{event},{}", " ".repeat(at), "{\"next\": 1234567890}".repeat(4));
            let mut walked = Fields::default();
            // An event whose quotes or brackets are wrong ends somewhere else.
            let Some(end) = Marks::default().container_end(text.as_bytes(), at) else { continue };
            let is_event = walked.read(&text.as_bytes()[..end], at, &mut Marks::default()).is_ok();
            match layouts.recognise(text.as_bytes(), at, &mut Marks::default()) {
                Some(found) => {
                    count += 1;
                    assert!(is_event, "{event}");
                    assert_eq!(found, end, "{event}");
                    for field in FIELDS {
                        let got = layouts.fields().get(text.as_bytes(), field);
                        assert_eq!(got, walked.get(text.as_bytes(), field), "{field:?} of {event}");
                        if let Some(value) = layouts.fields().digits(field).whole() {
                            let Some(Token::Number(digits)) = got else { panic!("{got:?}") };
                            assert_eq!(value.to_string().as_bytes(), digits, "{event}");
                        }
                    }
                }
                None if is_event => layouts.learn(&text.as_bytes()[..end], at, &walked),
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
        assert_eq!(recognised(&events), events.len() - 1);
        assert_eq!(recognised(&[event("1", "a", ""), event("\"1\"", "a", ""), event("null", "a", "")]), 0);
        let twice = r#"{"pid": 1, "pid": 2}"#.to_owned();
        assert_eq!(recognised(&[twice.clone(), twice]), 0, "it may be two events");
    }

    proptest! {
        #[test]
        fn what_is_recognised_is_what_the_walker_reads(
            events in prop::collection::vec(
                (
                    prop::sample::select(vec!["1", "12", "123", "1.5", "1-2", "1e5", "-1", "1234567", "12345678", "01"]),
                    "[a-z\\\\\"{}\\[\\]]{0,9}",
                    prop::sample::select(vec!["{}", "{\"a\":[1]}", "{\"a\":{\"b\":\"}\"}}", "[]", "{", "\"\"", "nul"]),
                    0usize..3,
                ),
                1..12,
            )
        ) {
            let events: Vec<String> = events
                .iter()
                .map(|(pid, name, args, style)| match style {
                    0 => format!(r#"{{"ph":"X","name":"{name}","pid":{pid},"args":{args}}}"#),
                    1 => format!(r#"{{"ph": "X", "pid": {pid}, "args": {args}, "n\u0061me": "{name}"}}"#),
                    _ => format!(r#"{{"ts":{pid} ,"bp":"{name}","ts":{pid}}}"#),
                })
                .collect();
            recognised(&events);
        }
    }
}
