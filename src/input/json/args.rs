//! Flattening an event's `args` the way Perfetto does, or picking the few keys that a command asks for.

use super::scan::{SyntaxError, Token, Walker};
use super::text::unescape;
use crate::event::{ArgList, ArgValue, ArgsWanted};

/// Arguments nested deeper than this are left out; real ones have four levels.
const MAX_DEPTH: usize = 64;

/// Fills `list` from the text of an `args` object. Rows before a syntax error are kept, as in Perfetto.
pub(super) fn read(object: &[u8], wanted: ArgsWanted, list: &mut ArgList) {
    match wanted {
        ArgsWanted::Keys(keys) => pick(object, keys, list),
        ArgsWanted::All => {
            let mut path = Path { key: "args".to_owned(), flat_key: "args".to_owned(), indexed: false };
            // An error here ends the arguments and nothing else.
            let _ = flatten_object(object, &mut path, list, 0);
        }
    }
}

fn pick(object: &[u8], wanted: &[&str], list: &mut ArgList) {
    let mut walker = Walker::new(object);
    while let Ok(Some((key, token))) = walker.member() {
        let Some(name) = wanted.iter().find(|name| name.as_bytes() == key) else { continue };
        let key = format_key(name);
        with_scalar(token, |value| list.push(&key, None, value));
    }
}

fn format_key(name: &str) -> String {
    ["args.", name].concat()
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
        let result = flatten(token, path, list, depth);
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
        let result = flatten(token, path, list, depth);
        path.key.truncate(before);
        result?;
        index += 1;
    }
    path.indexed = was_indexed;
    Ok(())
}

fn flatten(token: Token<'_>, path: &mut Path, list: &mut ArgList, depth: usize) -> Result<(), SyntaxError> {
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

    fn rows(object: &str, wanted: ArgsWanted) -> Vec<String> {
        let mut list = ArgList::default();
        read(object.as_bytes(), wanted, &mut list);
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
            rows(object, ArgsWanted::All),
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
    fn wanted_keys_alone_are_kept() {
        let object = r#"{"x":{"correlation":9},"correlation":7,"External id":18446744073709551615,"stream":7.5}"#;
        assert_eq!(
            rows(object, ArgsWanted::Keys(&["correlation", "External id", "x"])),
            ["args.correlation Int(7)", r#"args.External id Text("18446744073709551615")"#,]
        );
    }

    #[test]
    fn rows_before_a_fault_are_kept() {
        assert_eq!(rows(r#"{"a":1,"b":NaN,"c":2}"#, ArgsWanted::All), ["args.a Int(1)"]);
        assert_eq!(rows(r#"{"a":1.5e3,"b":-0}"#, ArgsWanted::All), ["args.a Real(1500.0)", "args.b Int(0)"]);
        let deep = format!(r#"{{"a":{}1{},"b":2}}"#, "[".repeat(500), "]".repeat(500));
        assert_eq!(rows(&deep, ArgsWanted::All), ["args.b Int(2)"]);
    }
}
