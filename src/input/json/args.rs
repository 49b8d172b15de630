//! Flattening an event's `args` the way Perfetto does, or picking the one key that every command asks for.

use std::ops::Range;

use memchr::memmem::Finder;

use super::marks::Marks;
use super::scan::{SyntaxError, Token, Walker, value_behind_key};
use super::text::unescape;
use crate::event::{ArgList, ArgValue};
use crate::nccl::args::CORRELATION;

/// Arguments nested deeper than this are left out; real ones have four levels.
const MAX_DEPTH: usize = 64;

/// Fills `list` with all of an `args` object. Rows before a syntax error are kept, as in Perfetto.
pub(super) fn flatten(object: &[u8], list: &mut ArgList) {
    let mut path = Path { key: "args".to_owned(), flat_key: "args".to_owned(), indexed: false };
    // An error here ends the arguments and nothing else.
    let _ = flatten_object(object, &mut path, list, 0);
}

/// Finds the correlation id in `args`.
pub(super) struct Correlation {
    /// Finds the key with its quotes.
    key: Finder<'static>,
}

impl Correlation {
    pub(super) fn new() -> Self {
        Correlation { key: Finder::new(format!("\"{CORRELATION}\"").as_bytes()).into_owned() }
    }

    /// The id in an `args` object within a marked text, by searching for the key and looking at nothing else: most events have
    /// none. 0 if there is none; CUPTI counts from 1. Of two the last counts.
    #[inline]
    pub(super) fn find(&self, text: &[u8], object: Range<usize>, marks: &mut Marks) -> i64 {
        let Some(found) = text.get(object.clone()).and_then(|args| self.key.find(args)) else { return 0 };
        self.find_from(object.start + found, text, object, marks)
    }

    fn find_from(&self, first: usize, text: &[u8], object: Range<usize>, marks: &mut Marks) -> i64 {
        let mut depth = Depth { bracket: Some(object.start), depth: 0 };
        let mut id = 0;
        let (rest, text) = (&text[first..object.end], &text[..object.end]);
        for found in self.key.find_iter(rest) {
            let at = first + found;
            let last_quote = at + self.key.needle().len() - 1;
            // What looks like the key may be part of a longer text, or lie deeper.
            let is_string = marks.quote(text, at) == Some(at) && marks.quote(text, at + 1) == Some(last_quote);
            if !is_string || depth.at(text, at, marks) != 1 {
                continue;
            }
            let value = value_behind_key(text, last_quote + 1, marks);
            if let Ok(token @ (Token::Number(_) | Token::Text(_) | Token::True | Token::False)) = value {
                id = as_id(token);
            }
        }
        id
    }
}

/// The id that a value is. Tools that rewrite traces turn numbers into text, or into 5.0.
fn as_id(token: Token<'_>) -> i64 {
    let id = match token {
        Token::Number(digits) => match number(digits) {
            Some(ArgValue::Int(id)) => id,
            Some(ArgValue::Real(id)) if id.fract() == 0.0 && id.abs() < 9.0e15 => id as i64,
            _ => 0,
        },
        Token::Text(raw) => unescape(raw).parse().unwrap_or(0),
        _ => 0,
    };
    id.max(0)
}

/// How deep places of a text lie, asked for from left to right: each bracket is looked at once.
struct Depth {
    bracket: Option<usize>,
    depth: i64,
}

impl Depth {
    fn at(&mut self, text: &[u8], place: usize, marks: &mut Marks) -> i64 {
        while let Some(bracket) = self.bracket.filter(|bracket| *bracket < place) {
            self.depth += if matches!(text.get(bracket), Some(b'{' | b'[')) { 1 } else { -1 };
            self.bracket = marks.bracket(text, bracket + 1);
        }
        self.depth
    }
}

/// The key under construction; steps are taken back by cutting the text.
struct Path {
    key: String,
    flat_key: String,
    indexed: bool,
}

fn flatten_object(object: &[u8], path: &mut Path, list: &mut ArgList, depth: usize) -> Result<(), SyntaxError> {
    let mut walker = Walker::new(object);
    while let Some((key, token)) = walker.member()? {
        let (before, flat_before) = (path.key.len(), path.flat_key.len());
        let name = unescape(key);
        path.key.push('.');
        path.key.push_str(&name);
        path.flat_key.push('.');
        path.flat_key.push_str(&name);
        let result = flatten_value(token, path, list, depth);
        path.key.truncate(before);
        path.flat_key.truncate(flat_before);
        result?;
    }
    Ok(())
}

fn flatten_array(array: &[u8], path: &mut Path, list: &mut ArgList, depth: usize) -> Result<(), SyntaxError> {
    use std::fmt::Write;
    let mut walker = Walker::new(array);
    let was_indexed = std::mem::replace(&mut path.indexed, true);
    let mut index = 0;
    while let Some(token) = walker.element()? {
        // A null gives no row and uses no index; an empty array or object gives none but uses one.
        if token == Token::Null {
            continue;
        }
        let before = path.key.len();
        write!(path.key, "[{index}]").expect("writing to a String does not fail");
        let result = flatten_value(token, path, list, depth);
        path.key.truncate(before);
        result?;
        index += 1;
    }
    path.indexed = was_indexed;
    Ok(())
}

fn flatten_value(token: Token<'_>, path: &mut Path, list: &mut ArgList, depth: usize) -> Result<(), SyntaxError> {
    match token {
        Token::Object(_) | Token::Array(_) if depth >= MAX_DEPTH => Ok(()),
        Token::Object(object) => flatten_object(object, path, list, depth + 1),
        Token::Array(array) => flatten_array(array, path, list, depth + 1),
        _ => {
            with_scalar(token, |value| list.push(&path.key, path.indexed.then_some(&*path.flat_key), value));
            Ok(())
        }
    }
}

fn with_scalar(token: Token<'_>, push: impl FnOnce(ArgValue<&str>)) {
    match token {
        Token::Text(raw) => push(ArgValue::Text(&unescape(raw))),
        Token::True => push(ArgValue::Bool(true)),
        Token::False => push(ArgValue::Bool(false)),
        Token::Number(digits) => {
            if let Some(value) = number(digits) {
                push(value);
            }
        }
        Token::Null | Token::Object(_) | Token::Array(_) => {}
    }
}

/// A number as an argument. An integer that fits no `i64` stays text, digit for digit: half of NCCL's communicator ids
/// are such numbers, and a double (let alone Perfetto's wrapped one) would make different ids equal.
pub(super) fn number(digits: &[u8]) -> Option<ArgValue<&str>> {
    let text = std::str::from_utf8(digits).ok()?;
    if let Ok(value) = text.parse::<i64>() {
        return Some(ArgValue::Int(value));
    }
    let value = text.parse::<f64>().ok()?;
    if text.bytes().skip(usize::from(digits[0] == b'-')).all(|b| b.is_ascii_digit()) {
        return Some(ArgValue::Text(text));
    }
    Some(ArgValue::Real(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_rows(object: &str) -> Vec<String> {
        let mut list = ArgList::default();
        flatten(object.as_bytes(), &mut list);
        shown(&list)
    }

    fn correlation(object: &str) -> i64 {
        let text = format!(r#"{{"name":"x","args":{object}}}"#);
        let object = text.len() - 1 - object.len()..text.len() - 1;
        Correlation::new().find(text.as_bytes(), object, &mut Marks::default())
    }

    fn shown(list: &ArgList) -> Vec<String> {
        list.iter()
            .map(
                |(key, flat_key, value)| {
                    if key == flat_key { format!("{key} {value:?}") } else { format!("{key} {flat_key} {value:?}") }
                },
            )
            .collect()
    }

    /// The examples of the trace-semantics notes, run on a real trace_processor.
    #[test]
    fn flattened_as_perfetto_does() {
        let object = r#"{"grid":[512,1],"occupancy":{"limitingFactors":"REGS"},"Input Dims":[[],[2,null,3]],"ok":true,"none":null}"#;
        assert_eq!(
            all_rows(object),
            [
                "args.grid[0] args.grid Int(512)",
                "args.grid[1] args.grid Int(1)",
                r#"args.occupancy.limitingFactors Text("REGS")"#,
                "args.Input Dims[1][0] args.Input Dims Int(2)",
                "args.Input Dims[1][1] args.Input Dims Int(3)",
                "args.ok Bool(true)",
            ]
        );
    }

    /// Among them what only looks like the key: values, parts of texts, escaped quotes, deeper places.
    #[test]
    fn the_correlation_id_is_found() {
        for (object, want) in [
            (r#"{"x":{"correlation":9},"correlation":7,"External id":1,"stream":7.5}"#, 7),
            (r#"{"a":"correlation","correlation" : 5}"#, 5),
            (r#"{"a":"\"correlation\":3","b":["correlation",{"correlation":4}]}"#, 0),
            (r#"{"correlation":1,"correlation":2}"#, 2),
            (r#"{"correlation":1,"correlation":null}"#, 1),
            (r#"{"correlation":1,"correlation":true}"#, 0),
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
            assert_eq!(correlation(object), want, "{object}");
        }
    }

    #[test]
    fn rows_before_a_fault_are_kept() {
        assert_eq!(all_rows(r#"{"a":1,"b":NaN,"c":2}"#), ["args.a Int(1)"]);
        assert_eq!(all_rows(r#"{"a":1.5e3,"b":-0}"#), ["args.a Real(1500.0)", "args.b Int(0)"]);
        let deep = format!(r#"{{"a":{}1{},"b":2}}"#, "[".repeat(500), "]".repeat(500));
        assert_eq!(all_rows(&deep), ["args.b Int(2)"]);
    }
}
