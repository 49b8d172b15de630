//! PerfettoSQL's functions of texts that SQLite lacks or defines differently.
//!
//! Patterns use the syntax of the `regex` crate, which has no backreferences and no look-around. A pattern that is the same for all rows of a
//! query is compiled once. A number in place of text counts as its text, as in SQLite.

use std::borrow::Cow;

use regex::Regex;
use rusqlite::functions::Context;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Result};

use super::functions::{PURE, failed};

type Function = fn(&Context<'_>) -> Result<Value>;

/// Name, number of arguments, function. SQLite calls `regexp` for the operator REGEXP.
const FUNCTIONS: &[(&str, i32, Function)] = &[
    ("regexp", 2, regexp),
    ("regexp_extract", 2, regexp_extract),
    ("regexp_replace_simple", 3, regexp_replace_simple),
    ("unhex", 1, unhex),
];

/// Adds the functions to a connection. Fails if SQLite does.
pub(super) fn register(connection: &Connection) -> Result<()> {
    FUNCTIONS.iter().try_for_each(|(name, arguments, function)| {
        connection.create_scalar_function(*name, *arguments, PURE, function)
    })
}

/// An argument as text; `None` for NULL.
fn text<'a>(context: &'a Context<'_>, argument: usize) -> Option<Cow<'a, str>> {
    as_text(context.get_raw(argument))
}

fn as_text(value: ValueRef<'_>) -> Option<Cow<'_, str>> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(value) => Some(value.to_string().into()),
        ValueRef::Real(value) => Some(format!("{value:?}").into()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes)),
    }
}

/// The pattern in a non-NULL argument. Fails if it is not a valid regular expression.
fn pattern(context: &Context<'_>, argument: i32) -> Result<std::sync::Arc<Regex>> {
    context.get_or_create_aux(argument, |value| Regex::new(&as_text(value).unwrap_or_default()))
}

/// `regexp(pattern, text)`, `text REGEXP pattern`: whether the pattern is found anywhere in the text.
fn regexp(context: &Context<'_>) -> Result<Value> {
    let (Some(_), Some(text)) = (text(context, 0), text(context, 1)) else { return Ok(Value::Null) };
    Ok(Value::Integer(pattern(context, 0)?.is_match(&text).into()))
}

/// `regexp_extract(text, pattern)`: the match of the pattern's only group, or of the pattern if it has none; NULL if it does not match.
fn regexp_extract(context: &Context<'_>) -> Result<Value> {
    let (Some(text), Some(_)) = (text(context, 0), text(context, 1)) else { return Ok(Value::Null) };
    let pattern = pattern(context, 1)?;
    if pattern.captures_len() > 2 {
        return Err(failed("regexp_extract", "the pattern has more than one group; write (?:…) for the others"));
    }
    let Some(found) = pattern.captures(&text) else { return Ok(Value::Null) };
    // As in Perfetto, an empty group counts as no group.
    let group = found.get(1).filter(|group| !group.is_empty()).or(found.get(0));
    Ok(group.map_or(Value::Null, |group| Value::Text(group.as_str().to_owned())))
}

/// `regexp_replace_simple(text, pattern, replacement)`: replaces all matches with the replacement, in which `$1` has no meaning.
fn regexp_replace_simple(context: &Context<'_>) -> Result<Value> {
    let (Some(input), Some(_), Some(replacement)) = (text(context, 0), text(context, 1), text(context, 2)) else {
        return Ok(Value::Null);
    };
    let replaced = pattern(context, 1)?.replace_all(&input, regex::NoExpand(&replacement)).into_owned();
    Ok(Value::Text(replaced))
}

/// `unhex(text)`: the number with these hexadecimal digits, with or without 0x, as in Perfetto. SQLite's own `unhex`, which returns bytes, takes
/// two arguments: `unhex(text, '')`.
fn unhex(context: &Context<'_>) -> Result<Value> {
    let digits = match context.get_raw(0) {
        ValueRef::Null => return Ok(Value::Null),
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes),
        _ => return Err(failed("unhex", "the argument is not text")),
    };
    let trimmed = digits.trim();
    let digits = trimmed.strip_prefix("0x").or_else(|| trimmed.strip_prefix("0X")).unwrap_or(trimmed);
    i64::from_str_radix(digits, 16)
        .map(Value::Integer)
        .map_err(|_| failed("unhex", "the text is not a hexadecimal number of at most 64 bits"))
}
