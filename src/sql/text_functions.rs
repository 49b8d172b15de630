//! PerfettoSQL's text, byte and number functions that SQLite lacks or defines differently.
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
    ("reverse", 1, reverse),
    ("unhex", 1, unhex),
    ("base64_encode", 1, base64_encode),
    ("base64_decode", 1, base64_decode),
    ("ln", 1, ln),
    ("exp", 1, |context| of_number(context, f64::exp)),
    ("sqrt", 1, |context| of_number(context, f64::sqrt)),
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

/// `reverse(text)`: reverses characters; Perfetto reverses bytes.
fn reverse(context: &Context<'_>) -> Result<Value> {
    match context.get_raw(0) {
        ValueRef::Null => Ok(Value::Null),
        ValueRef::Text(bytes) => Ok(Value::Text(String::from_utf8_lossy(bytes).chars().rev().collect())),
        _ => Err(failed("reverse", "the argument is not text")),
    }
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

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// `base64_encode(bytes)`, with padding. Text counts as its bytes.
fn base64_encode(context: &Context<'_>) -> Result<Value> {
    match context.get_raw(0) {
        ValueRef::Null => Ok(Value::Null),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(Value::Text(encode(bytes))),
        _ => Err(failed("base64_encode", "the argument is neither bytes nor text")),
    }
}

fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0u32, |bits, i| bits << 8 | u32::from(three.get(i).copied().unwrap_or(0)));
        for i in 0..4 {
            let letter = BASE64[(bits >> (18 - 6 * i)) as usize & 63];
            text.push(if i <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// `base64_decode(text)`: the decoded bytes.
fn base64_decode(context: &Context<'_>) -> Result<Value> {
    match context.get_raw(0) {
        ValueRef::Null => Ok(Value::Null),
        ValueRef::Text(text) | ValueRef::Blob(text) => {
            decode(text).map(Value::Blob).ok_or_else(|| failed("base64_decode", "the text is not base64"))
        }
        _ => Err(failed("base64_decode", "the argument is neither text nor bytes")),
    }
}

fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let padding = text.iter().rev().take(2).take_while(|c| **c == b'=').count();
    let letters = &text[..text.len() - padding];
    // A single letter holds less than a byte; padding, if present, completes groups of four letters.
    if letters.len() % 4 == 1 || (padding > 0 && !text.len().is_multiple_of(4)) {
        return None;
    }
    let mut bytes = Vec::with_capacity(letters.len() * 3 / 4);
    let (mut bits, mut count) = (0u32, 0);
    for letter in letters {
        let value = BASE64.iter().position(|known| known == letter)? as u32;
        bits = (bits << 6 | value) & 0xffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

/// `ln(number)`: NULL for numbers that are not positive.
fn ln(context: &Context<'_>) -> Result<Value> {
    of_number(context, |number| if number > 0.0 { number.ln() } else { f64::NAN })
}

/// Applies a function to a number. Text that is a number counts as one; other arguments and NaN results give NULL.
fn of_number(context: &Context<'_>, function: fn(f64) -> f64) -> Result<Value> {
    let number = match context.get_raw(0) {
        ValueRef::Integer(value) => value as f64,
        ValueRef::Real(value) => value,
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes).ok().and_then(number) {
            Some(value) => value,
            None => return Ok(Value::Null),
        },
        _ => return Ok(Value::Null),
    };
    let result = function(number);
    Ok(if result.is_nan() { Value::Null } else { Value::Real(result) })
}

/// Parses a number as SQLite does, without `inf` and `nan`.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let looks = text.bytes().all(|c| c.is_ascii_digit() || b"+-.eE".contains(&c));
    if looks { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 4648.
    #[test]
    fn base64_is_that_of_the_rfc() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(plain.as_bytes()), coded);
            assert_eq!(decode(coded.as_bytes()).unwrap(), plain.as_bytes());
            assert_eq!(decode(coded.trim_end_matches('=').as_bytes()).unwrap(), plain.as_bytes());
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(encode(&all).as_bytes()).unwrap(), all);
        for wrong in ["Z", "Zg=", "Z===", "Zm9v!", "Zm 9v", "=", "Zg==Zg=="] {
            assert_eq!(decode(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn numbers_are_sqlites() {
        assert_eq!(
            [" 2.5 ", "1e3", "inf", "nan", "", "x"].map(number),
            [Some(2.5), Some(1000.0), None, None, None, None]
        );
    }
}
