//! The units of a named query's columns, and how people see values in them.

use rusqlite::types::ValueRef;

use super::hexadecimal;
use crate::document::format::{count, duration, grouped, percent, size, visible};
use crate::time::Ns;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// None: the value as it is.
    Text,
    /// None, and the column is left out of tables.
    Detail,
    /// A length of time in ns.
    Duration,
    /// A time on the trace's clock in ns, which people see as the time since the start of the window.
    Time,
    Bytes,
    /// A share from 0 to 1.
    Share,
    Count,
    /// A count of exceptions: the column is left out of a table if there are none.
    Exceptions,
    Decimal,
    /// A ratio of two counts, with two decimals.
    Ratio,
}

impl Unit {
    /// The words for the units in a query's header.
    pub const WORDS: &[(&str, Unit)] = &[
        ("text", Unit::Text),
        ("id", Unit::Text),
        ("detail", Unit::Detail),
        ("ns", Unit::Duration),
        ("time", Unit::Time),
        ("bytes", Unit::Bytes),
        ("share", Unit::Share),
        ("count", Unit::Count),
        ("exceptions", Unit::Exceptions),
        ("decimal", Unit::Decimal),
        ("ratio", Unit::Ratio),
    ];

    /// The unit with a word, if it is one.
    pub fn parse(word: &str) -> Option<Unit> {
        Unit::WORDS.iter().find(|(known, _)| *known == word).map(|(_, unit)| *unit)
    }

    /// A value as people see it; times since `origin`. NULL is empty. A value that is not a number is shown as it is.
    pub(super) fn show(self, value: ValueRef<'_>, origin: Ns) -> String {
        let number = match value {
            ValueRef::Null => return String::new(),
            ValueRef::Integer(number) => number as f64,
            ValueRef::Real(number) => number,
            ValueRef::Text(_) | ValueRef::Blob(_) => return raw(value),
        };
        let whole = if let ValueRef::Integer(number) = value { number } else { number.round() as i64 };
        let signed = |show: &dyn Fn(u64) -> String| {
            let sign = if whole < 0 { "-" } else { "" };
            format!("{sign}{}", show(whole.unsigned_abs()))
        };
        match self {
            Unit::Text | Unit::Detail => raw(value),
            Unit::Duration => duration(Ns(whole)),
            Unit::Time => duration(Ns(whole) - origin),
            Unit::Bytes => signed(&size),
            Unit::Share => percent(number),
            Unit::Exceptions if whole == 0 => String::new(),
            Unit::Count | Unit::Exceptions => signed(&count),
            Unit::Decimal => grouped(number, 1),
            Unit::Ratio => grouped(number, 2),
        }
    }
}

pub(super) fn raw(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "[NULL]".to_owned(),
        ValueRef::Integer(value) => value.to_string(),
        ValueRef::Real(value) => format!("{value:?}"),
        ValueRef::Text(text) => visible(&String::from_utf8_lossy(text)).into_owned(),
        ValueRef::Blob(bytes) => hexadecimal(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_by_their_unit() {
        for (word, value, want) in [
            ("text", ValueRef::Text(b"a\n"), "a\\n"),
            ("ns", ValueRef::Integer(1_500), "1.50 µs"),
            ("ns", ValueRef::Text(b"none"), "none"),
            ("time", ValueRef::Integer(2_500), "1.50 µs"),
            ("bytes", ValueRef::Integer(-2_000), "-2.00 kB"),
            ("share", ValueRef::Real(0.1234), "12.3 %"),
            ("count", ValueRef::Integer(-1_234), "-1,234"),
            ("exceptions", ValueRef::Integer(0), ""),
            ("exceptions", ValueRef::Integer(7), "7"),
            ("decimal", ValueRef::Integer(1_234), "1,234.0"),
            ("ratio", ValueRef::Real(1.0 / 3.0), "0.33"),
            ("count", ValueRef::Null, ""),
        ] {
            assert_eq!(Unit::parse(word).unwrap().show(value, Ns(1_000)), want, "{word}");
        }
        assert_eq!(Unit::parse("parsecs"), None);
    }
}
