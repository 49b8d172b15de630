//! Flattening an event's `args` the way Perfetto does, or picking the few keys that a command asks for.

use memchr::memmem::Finder;

use super::marks::Marks;
use super::scan::{SyntaxError, Token, Walker, value_behind_key};
use super::text::unescape;
use crate::event::{ArgList, ArgValue};

/// Arguments nested deeper than this are left out; real ones have four levels.
const MAX_DEPTH: usize = 64;

/// Fills `list` with all of an `args` object. Rows before a syntax error are kept, as in Perfetto.
pub(super) fn flatten(object: &[u8], list: &mut ArgList) {
    let mut path = Path { key: "args".to_owned(), flat_key: "args".to_owned(), indexed: false };
    // An error here ends the arguments and nothing else.
    let _ = flatten_object(object, &mut path, list, 0);
}

/// The keys that a load asks for.
pub(super) struct Keys(Vec<Key>);

struct Key {
    /// As the `args` table shows it.
    name: String,
    /// Finds the key with its quotes.
    finder: Finder<'static>,
}

impl Keys {
    pub(super) fn new(keys: &[&str]) -> Self {
        let key = |name: &&str| Key {
            name: format!("args.{name}"),
            finder: Finder::new(format!("\"{name}\"").as_bytes()).into_owned(),
        };
        Keys(keys.iter().map(key).collect())
    }

    /// Fills `list` with these keys of an `args` object within a marked text, by searching for the keys and looking at
    /// nothing else: most events have none of them.
    pub(super) fn pick(&self, text: &[u8], object: &[u8], marks: &mut Marks, list: &mut ArgList) {
        let start = object.as_ptr().addr() - text.as_ptr().addr();
        let text = &text[..start + object.len()];
        for key in &self.0 {
            let mut depth = Depth { bracket: Some(start), depth: 0 };
            for found in key.finder.find_iter(object) {
                let at = start + found;
                let last_quote = at + key.finder.needle().len() - 1;
                // What looks like the key may be part of a longer text, or lie deeper.
                let is_string = marks.quote(text, at) == Some(at) && marks.quote(text, at + 1) == Some(last_quote);
                if !is_string || depth.at(text, at, marks) != 1 {
                    continue;
                }
                if let Ok(token) = value_behind_key(text, last_quote + 1, marks) {
                    with_scalar(token, |value| list.push(&key.name, None, value));
                }
            }
        }
    }
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

    fn wanted_rows(object: &str, keys: &[&str]) -> Vec<String> {
        let text = format!(r#"{{"name":"x","args":{object}"#);
        let mut marks = Marks::default();
        let mut list = ArgList::default();
        let object = &text.as_bytes()[text.len() - object.len()..];
        Keys::new(keys).pick(text.as_bytes(), object, &mut marks, &mut list);
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
    fn wanted_keys_alone_are_kept() {
        let object = r#"{"x":{"correlation":9},"correlation":7,"External id":18446744073709551615,"stream":7.5}"#;
        assert_eq!(
            wanted_rows(object, &["correlation", "External id", "x"]),
            ["args.correlation Int(7)", r#"args.External id Text("18446744073709551615")"#]
        );
    }

    /// What only looks like the key: values, parts of texts, escaped quotes, deeper places.
    #[test]
    fn wanted_keys_are_keys() {
        for (object, want) in [
            (r#"{"a":"correlation","correlation" : 5}"#, vec!["args.correlation Int(5)"]),
            (r#"{"a":"\"correlation\":3","b":["correlation",{"correlation":4}]}"#, vec![]),
            (r#"{"correlation":1,"correlation":2}"#, vec!["args.correlation Int(1)", "args.correlation Int(2)"]),
            (r#"{"a":{},"correlation":"text"}"#, vec![r#"args.correlation Text("text")"#]),
            (r#"{"correlation":[1]}"#, vec![]),
            (r#"{"correlation":}"#, vec![]),
            (r#"{"correlations":1,"correlation":null}"#, vec![]),
            ("{}", vec![]),
        ] {
            assert_eq!(wanted_rows(object, &["correlation"]), want, "{object}");
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
