//! Arguments that are nothing but a few whole numbers, recognised by the text between them.
//!
//! The arguments of Python functions and of runtime calls look like `{"Python parent id": 4, "Python id": 5, "Ev Idx": 6}`, and
//! such events are most of a trace. Comparing the text between the numbers finds their end and all ids in one pass, faster than
//! searching for the closing bracket alone.

use std::ops::Range;

use super::compare::Prefix;
use super::marks::Marks;
use super::number::{digits_end, short_whole_number};
use super::scan::{Token, Walker};
use crate::event::ids::IdArg;

/// Objects with more members are not flat.
const MAX_MEMBERS: usize = 6;

/// Longer objects are not tried.
const MAX_LENGTH: usize = 200;

/// How many forms are kept.
const MAX_FORMS: usize = 6;

/// One in so many objects without a known form is learned from: most of them are not flat.
const SAMPLE: u32 = 32;

/// The forms of flat objects met so far.
#[derive(Debug, Default)]
pub(super) struct Flats {
    forms: Vec<Form>,
    /// The one that was recognised last.
    last: usize,
    unknown: u32,
}

/// Objects with the same text between their numbers.
#[derive(Debug, PartialEq, Eq)]
struct Form {
    before: Vec<(Prefix, Use)>,
    tail: Prefix,
    keys: Vec<Box<[u8]>>,
}

/// Whether a member's number is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Value,
    Nothing,
}

/// The numbers of a flat object.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FlatValues {
    /// The number of its form; `None`: the object is not known to be flat.
    pub(super) form: Option<u8>,
    values: [i64; MAX_MEMBERS],
}

impl FlatValues {
    pub(super) const NONE: FlatValues = FlatValues { form: None, values: [0; MAX_MEMBERS] };

    /// The value of a member.
    #[inline]
    pub(super) fn get(&self, member: Option<u8>) -> Option<i64> {
        self.values.get(usize::from(member?)).copied()
    }
}

impl Flats {
    /// The end of the object that begins at a byte, if it has a known form; fills in its numbers.
    #[inline]
    pub(super) fn recognise(&mut self, text: &[u8], at: usize, values: &mut FlatValues) -> Option<usize> {
        let last = self.forms.get(self.last)?;
        match last.read(text, at, values) {
            Some(end) => {
                values.form = Some(self.last as u8);
                Some(end)
            }
            None => self.recognise_another(text, at, values),
        }
    }

    fn recognise_another(&mut self, text: &[u8], at: usize, values: &mut FlatValues) -> Option<usize> {
        for form in (0..self.forms.len()).filter(|form| *form != self.last) {
            if let Some(end) = self.forms[form].read(text, at, values) {
                self.last = form;
                values.form = Some(form as u8);
                return Some(end);
            }
        }
        None
    }

    /// Learns the form of an object of a known length, if it is flat.
    #[inline]
    pub(super) fn learn(&mut self, text: &[u8], object: Range<usize>, marks: &mut Marks) {
        self.unknown = self.unknown.wrapping_add(1);
        if self.unknown % SAMPLE == 1 && object.len() <= MAX_LENGTH && self.forms.len() < MAX_FORMS {
            self.learn_form(text, object, marks);
        }
    }

    #[cold]
    fn learn_form(&mut self, text: &[u8], object: Range<usize>, marks: &mut Marks) {
        let form = Form::parse(&text[..object.end], object.start, marks);
        self.forms.extend(form.filter(|form| !self.forms.contains(form)));
    }

    /// The keys of a form, in order.
    pub(super) fn keys(&self, form: usize) -> impl Iterator<Item = &[u8]> {
        self.forms.get(form).into_iter().flat_map(|form| form.keys.iter().map(|key| &**key))
    }

    /// How many forms there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.forms.len()
    }
}

impl Form {
    fn parse(text: &[u8], at: usize, marks: &mut Marks) -> Option<Form> {
        let mut before = Vec::new();
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        let mut from = at;
        let mut walker = Walker::marked(text, at, marks);
        while let Some((key, token)) = walker.member().ok()? {
            let (Token::Number(digits), true) = (token, before.len() < MAX_MEMBERS) else { return None };
            let end = walker.offset();
            // Which of two equal keys wins is not decided here.
            if keys.iter().any(|known| **known == *key) {
                return None;
            }
            let wanted = if IdArg::of_key(key).is_some() { Use::Value } else { Use::Nothing };
            before.push((Prefix::new(&text[from..end - digits.len()])?, wanted));
            keys.push(key.into());
            from = end;
        }
        // The text after a number shows that the number has ended.
        let tail = Prefix::new(&text[from..]).filter(|_| !keys.is_empty())?;
        Some(Form { before, tail, keys })
    }

    #[inline]
    fn read(&self, text: &[u8], at: usize, found: &mut FlatValues) -> Option<usize> {
        let mut at = at;
        for ((before, wanted), value) in self.before.iter().zip(&mut found.values) {
            let start = before.pass(text, at)?;
            if *wanted == Use::Value {
                (*value, at) = short_whole_number(text, start)?;
            } else {
                at = digits_end(text, start)?;
            }
        }
        self.tail.pass(text, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is recognised is what a walk over the members finds.
    #[test]
    fn flat_objects_are_recognised() {
        let mut flats = Flats::default();
        let mut read = |object: &str| {
            let text = format!("{object}, \"next\": 12345678901234567890");
            let mut values = FlatValues::NONE;
            let end = flats.recognise(text.as_bytes(), 0, &mut values);
            // Each is tried to be learned, however few of its sort there have been.
            flats.learn_form(text.as_bytes(), 0..object.len(), &mut Marks::default());
            end.map(|end| {
                assert_eq!(end, object.len(), "{object}");
                values.values
            })
        };
        assert_eq!(read(r#"{"Python parent id": 4, "Python id": 5}"#), None, "not known yet");
        assert_eq!(read(r#"{"Python parent id": 44, "Python id": 0}"#), Some([44, 0, 0, 0, 0, 0]));
        assert_eq!(
            read(r#"{"Python parent id": 123456789012, "Python id": 1234567}"#),
            Some([123_456_789_012, 1_234_567, 0, 0, 0, 0])
        );
        for other in [
            r#"{"Python parent id": null, "Python id": 5}"#,
            r#"{"Python parent id": -4, "Python id": 5}"#,
            r#"{"Python parent id": 4.5, "Python id": 5}"#,
            r#"{"Python parent id": 4, "Python id": 5e1}"#,
            r#"{"Python parent id": 4, "Python id": 12345678901234567890}"#,
            r#"{"Python parent id": 4,  "Python id": 5}"#,
            r#"{"Python parent id": 4}"#,
            r#"{"a": [1]}"#,
            r#"{"a": 1, "b": "x"}"#,
            r#"{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1}"#,
            "{}",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(read(r#"{"Python parent id": 9}"#), Some([9, 0, 0, 0, 0, 0]));
        assert_eq!(read(r#"{"Ev Idx": 9, "Python id": 8}"#), None);
        assert_eq!(read(r#"{"Ev Idx": 12345678, "Python id": 7}"#), Some([0, 7, 0, 0, 0, 0]), "the first is no id");
    }
}
