//! Flattening an event's `args` the way Perfetto does.

use super::scan::{SyntaxError, Token, Walker};
use super::text::unescape;
use crate::event::{ArgList, ArgValue};

/// Arguments nested deeper than this are left out; real ones have four levels.
const MAX_DEPTH: usize = 64;

/// Keys, with all that they are within, that are longer are left out; real ones have up to a hundred bytes.
const MAX_KEY: usize = 1024;

/// The keys of one event's arguments are written out up to so many times the text that they come from, and a little more: a long key
/// around a list of a million numbers would come a million times.
const MAX_KEYS: usize = 64;
const MAX_KEYS_MORE: usize = 64 << 10;

/// Fills `list` with all of an `args` object. Returns whether anything was left out: nested too deep, or with keys too long.
/// Rows before a syntax error are kept, as in Perfetto.
pub(super) fn flatten(object: &[u8], list: &mut ArgList) -> Result<bool, SyntaxError> {
    let key = "args".to_owned();
    let mut path = Path { flat_key: key.clone(), key, indexed: false, left_out: false, room: room(object) };
    flatten_object(object, &mut path, list, 0)?;
    Ok(path.left_out)
}

/// Adds the rows of one member, given with its key in the table. Returns whether anything was left out.
pub(super) fn flatten_member(key: &str, value: Token<'_>, list: &mut ArgList) -> Result<bool, SyntaxError> {
    let (Token::Object(text) | Token::Array(text)) = value else {
        with_scalar(value, |value| list.push(key, None, value));
        return Ok(false);
    };
    let (key, flat_key) = (key.to_owned(), key.to_owned());
    let mut path = Path { flat_key, key, indexed: false, left_out: false, room: room(text) };
    flatten_value(value, &mut path, list, 0)?;
    Ok(path.left_out)
}

/// The same for one JSON value of any sort, under keys that there are already. Whether there is a row.
pub(in crate::input) fn flatten_value_of(text: &[u8], key: &str, flat_key: &str, list: &mut ArgList) -> bool {
    let had = list.len();
    let mut path = Path {
        key: key.to_owned(),
        flat_key: flat_key.to_owned(),
        indexed: key != flat_key,
        left_out: false,
        room: room(text),
    };
    let container = [b"[", text, b"]"].concat();
    if let Ok(Some(token)) = Walker::new(&container).element() {
        let _ = flatten_value(token, &mut path, list, 0);
    }
    list.len() > had
}

/// The key under construction; steps are taken back by truncating the text.
struct Path {
    key: String,
    flat_key: String,
    indexed: bool,
    /// Whether anything was left out.
    left_out: bool,
    /// How many bytes of keys may still be written.
    room: usize,
}

fn room(text: &[u8]) -> usize {
    (MAX_KEYS * text.len()).min(64 << 20) + 8 * text.len() + MAX_KEYS_MORE
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
    if walker.has_wrong_commas() { Err(SyntaxError) } else { Ok(()) }
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
    if walker.has_wrong_commas() { Err(SyntaxError) } else { Ok(()) }
}

fn flatten_value(token: Token<'_>, path: &mut Path, list: &mut ArgList, depth: usize) -> Result<(), SyntaxError> {
    match token {
        Token::Object(_) | Token::Array(_) if depth >= MAX_DEPTH => {
            path.left_out = true;
            Ok(())
        }
        Token::Object(object) => flatten_object(object, path, list, depth + 1),
        Token::Array(array) => flatten_array(array, path, list, depth + 1),
        _ => {
            let length = path.key.len() + if path.indexed { path.flat_key.len() } else { 0 };
            match path.room.checked_sub(length).filter(|_| path.key.len() <= MAX_KEY) {
                Some(room) => {
                    path.room = room;
                    with_scalar(token, |value| list.push(&path.key, path.indexed.then_some(&*path.flat_key), value));
                }
                None => path.left_out = true,
            }
            Ok(())
        }
    }
}

/// Passes on a value, if it is no object and no array.
pub(super) fn with_scalar(token: Token<'_>, push: impl FnOnce(ArgValue<&str>)) {
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
        let _ = flatten(object.as_bytes(), &mut list);
        shown(&list)
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

    #[test]
    fn rows_before_a_fault_are_kept() {
        assert_eq!(all_rows(r#"{"a":1,"b":NaN,"c":2}"#), ["args.a Int(1)"]);
        assert_eq!(all_rows(r#"{"a":1.5e3,"b":-0}"#), ["args.a Real(1500.0)", "args.b Int(0)"]);
        assert_eq!(flatten(br#"{"a":[1]}"#, &mut ArgList::default()), Ok(false));
        assert_eq!(flatten(br#"{"a":[1 2]}"#, &mut ArgList::default()), Err(SyntaxError));
        let deep = format!(r#"{{"a":{}1{},"b":2}}"#, "[".repeat(500), "]".repeat(500));
        assert_eq!(all_rows(&deep), ["args.b Int(2)"]);
        assert_eq!(flatten(deep.as_bytes(), &mut ArgList::default()), Ok(true));
        let long = format!(r#"{{"{}":1,"b":2}}"#, "k".repeat(MAX_KEY));
        assert_eq!(all_rows(&long), ["args.b Int(2)"]);
        // A key of a thousand bytes around a hundred thousand numbers.
        let many = format!(r#"{{"{}":[{}1]}}"#, "k".repeat(1000), "1,".repeat(100_000));
        let mut list = ArgList::default();
        assert_eq!(flatten(many.as_bytes(), &mut list), Ok(true));
        assert!(
            list.text_len() <= room(many.as_bytes()) && list.len() > 1_000,
            "{} of {}",
            list.text_len(),
            many.len()
        );
    }
}
