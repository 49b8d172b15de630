//! The ids in an event's annotations that link it to other events.
//!
//! The keys are those that Kineto writes into the `args` of its JSON: a tool that converts such a trace keeps them.

use super::annotation::Content;
use crate::event::ids::{IdArg, IdSource, IdValue};
use crate::names::category::CategoryKind;

/// The event that has the annotations.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) kind: CategoryKind,
    pub(super) name: &'a [u8],
}

/// The numbers that link an event to others.
#[derive(Debug, Default)]
pub(super) struct Ties {
    /// By [`IdArg`].
    numbers: [Option<i64>; IdArg::COUNT],
}

impl Ties {
    /// Takes an annotation. If there are several with one name, the first wins.
    pub(super) fn see(&mut self, name: &[u8], value: Content<'_>) {
        let Some(arg) = IdArg::of_key(name) else { return };
        let number = match value {
            Content::Int(number) => Some(number),
            Content::Uint(number) => i64::try_from(number).ok(),
            Content::Real(number) if number.fract() == 0.0 && number.abs() < 9.0e15 => Some(number as i64),
            Content::Text(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
            _ => None,
        };
        let known = &mut self.numbers[arg as usize];
        *known = known.or(number);
    }
}

impl IdSource for Ties {
    fn value(&mut self, arg: IdArg) -> IdValue {
        self.numbers[arg as usize].map_or(IdValue::Missing, IdValue::Number)
    }
}
