//! Strings and words of an object that is not quite JSON, copied as the JSON that they were meant to be.

use std::ops::Range;

use super::keys::{EVENT_KEYS, begins_with_key};
use super::number::{as_number, is_number, is_part};
use super::scan::is_space;
use crate::damage::Damage;

/// Objects with stray quotes are given up after so many bytes: the end of a string is not found.
const MAX_WITH_QUOTES: usize = 1 << 20;

/// Keys are not longer where quotes are stray.
const MAX_KEY: usize = 256;

/// The meaning of a quote within a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quotes {
    /// The string's end.
    End,
    /// The string's end if what follows may follow a string, otherwise a part of it.
    MayBeContent,
}

/// Why reading stopped.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stop {
    /// The text ends.
    Open,
    /// The object is broken at a byte.
    Broken(usize),
}

/// What a string is, which decides what may follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Key,
    Member,
    Element,
}

/// Copies from a text, from a byte on.
pub(super) struct Scalars<'a, 'm> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
    /// Where the object begins.
    pub(super) from: usize,
    /// Whether there is no more text.
    pub(super) is_last: bool,
    pub(super) quotes: Quotes,
    /// The copy.
    pub(super) json: &'m mut Vec<u8>,
    /// What was wrong, and where in the text.
    pub(super) faults: &'m mut Vec<(Damage, usize)>,
}

impl Scalars<'_, '_> {
    /// Copies a string.
    pub(super) fn string(&mut self, role: Role) -> Result<(), Stop> {
        let start = self.at;
        let (mut has_quotes, mut has_controls) = (false, false);
        self.json.push(b'"');
        self.at += 1;
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.iter().position(|byte| !is_plain(*byte)).ok_or(Stop::Open)?;
            self.json.extend_from_slice(&rest[..plain]);
            self.at += plain;
            match rest[plain] {
                b'"' if self.quotes == Quotes::End || self.ends(role)? => break,
                // A key, which a list has none of: its bracket is missing.
                b'"' if role == Role::Element && !has_quotes && self.next_is_colon()? => {
                    return Err(Stop::Broken(start));
                }
                // This and the next key, and the value between them.
                b'"' if role == Role::Key && has_quotes => return Err(Stop::Broken(start)),
                b'"' => {
                    has_quotes = true;
                    if self.at - self.from > MAX_WITH_QUOTES {
                        return Err(Stop::Broken(start));
                    }
                    self.replace(Damage::StrayQuote, br#"\""#, 1);
                }
                b'\\' => self.escape()?,
                // Zeros that a disk wrote over the end of this string and the beginning of something else.
                0 if rest.get(plain + 1) == Some(&0) => return Err(Stop::Broken(self.at)),
                0 if rest.len() == plain + 1 => return Err(Stop::Open),
                control @ ..b' ' => {
                    has_controls = true;
                    let escape = format!("\\u{control:04x}");
                    self.replace(Damage::ControlCharacter, escape.as_bytes(), 1);
                }
                _ => self.character()?,
            }
        }
        // Programs that forget escapes write no line breaks: a string with both has run into what follows it.
        if has_quotes && (has_controls || self.holds_event_key(start + 1..self.at)?) {
            return Err(Stop::Broken(start));
        }
        self.json.push(b'"');
        self.at += 1;
        Ok(())
    }

    /// Copies an escape, or escapes the backslash.
    fn escape(&mut self) -> Result<(), Stop> {
        let rest = &self.text[self.at..];
        match rest.get(1).ok_or(Stop::Open)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.copy(2),
            b'u' => match unit(rest) {
                None if rest.len() < UNIT && !self.is_last => return Err(Stop::Open),
                None => self.replace(Damage::BadEscape, br"\\", 1),
                Some(0xd800..=0xdbff) => {
                    let second = &rest[UNIT..];
                    if second.len() < UNIT && !self.is_last {
                        return Err(Stop::Open);
                    }
                    match unit(second) {
                        Some(0xdc00..=0xdfff) => self.copy(2 * UNIT),
                        _ => self.replace(Damage::LoneSurrogate, br"\ufffd", UNIT),
                    }
                }
                Some(0xdc00..=0xdfff) => self.replace(Damage::LoneSurrogate, br"\ufffd", UNIT),
                Some(_) => self.copy(UNIT),
            },
            _ => self.replace(Damage::BadEscape, br"\\", 1),
        }
        Ok(())
    }

    /// Copies a character that is not ASCII, or replaces bytes that are none.
    fn character(&mut self) -> Result<(), Stop> {
        let rest = &self.text[self.at..];
        let length = match rest[0] {
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            _ => 4,
        };
        let head = &rest[..rest.len().min(length)];
        if std::str::from_utf8(head).is_ok_and(|text| text.chars().count() == 1) {
            self.copy(length);
            return Ok(());
        }
        if head.len() < length && !self.is_last {
            return Err(Stop::Open);
        }
        let invalid = head.utf8_chunks().find(|chunk| !chunk.invalid().is_empty());
        let length = invalid.map_or(1, |chunk| chunk.invalid().len());
        self.replace(Damage::InvalidUtf8, "\u{fffd}".as_bytes(), length);
        Ok(())
    }

    /// Copies what is a value without quotes, or what can only mean one.
    pub(super) fn word(&mut self) -> Result<(), Stop> {
        let start = self.at;
        let rest = &self.text[start..];
        let length = rest.iter().position(|byte| !is_part(*byte) && !byte.is_ascii_alphanumeric());
        let length = length.or(self.is_last.then_some(rest.len())).ok_or(Stop::Open)?;
        let word = &rest[..length];
        if matches!(word, b"true" | b"false" | b"null") || is_number(word) {
            self.copy(length);
            return Ok(());
        }
        let unsigned = word.strip_prefix(b"-").or_else(|| word.strip_prefix(b"+")).unwrap_or(word);
        let is_no_number = [&b"nan"[..], b"inf", b"infinity"].iter().any(|known| unsigned.eq_ignore_ascii_case(known));
        let json = match word {
            b"True" => b"true".to_vec(),
            b"False" => b"false".to_vec(),
            b"None" => b"null".to_vec(),
            _ if is_no_number => [b"\"", word, b"\""].concat(),
            _ => as_number(word).ok_or(Stop::Broken(start))?,
        };
        self.replace(Damage::InvalidValue, &json, length);
        Ok(())
    }

    /// Whether the quote that comes next ends a string.
    fn ends(&self, role: Role) -> Result<bool, Stop> {
        let Some((at, next)) = self.visible(self.at + 1)? else { return Ok(false) };
        Ok(match (role, next) {
            (Role::Key, next) => next == b':',
            (Role::Member, b'}') | (Role::Element, b']') => self.may_follow_container(at + 1)?,
            (Role::Member, b',') => match self.visible(at + 1)? {
                Some((at, b'"')) => self.is_key(at)?,
                Some((at, b'}')) => self.may_follow_container(at + 1)?,
                _ => false,
            },
            (Role::Member, b'"') => self.is_key(at)?,
            (Role::Element, b',') => match self.visible(at + 1)? {
                Some((_, next)) => matches!(next, b'"' | b'{' | b'[' | b't' | b'f' | b'n' | b'-' | b'0'..=b'9'),
                None => false,
            },
            _ => false,
        })
    }

    /// Whether a colon follows the quote that comes next.
    fn next_is_colon(&self) -> Result<bool, Stop> {
        Ok(self.visible(self.at + 1)?.is_some_and(|(_, next)| next == b':'))
    }

    /// Whether a key of events begins in a range of the text.
    fn holds_event_key(&self, range: Range<usize>) -> Result<bool, Stop> {
        for quote in memchr::memchr_iter(b'"', &self.text[range.clone()]) {
            match begins_with_key(&self.text[range.start + quote..], EVENT_KEYS) {
                Some(true) => return Ok(true),
                None if !self.is_last => return Err(Stop::Open),
                _ => {}
            }
        }
        Ok(false)
    }

    fn may_follow_container(&self, at: usize) -> Result<bool, Stop> {
        Ok(self.visible(at)?.is_none_or(|(_, next)| matches!(next, b',' | b'}' | b']' | b'{')))
    }

    /// Whether a key and its colon begin at a quote.
    fn is_key(&self, quote: usize) -> Result<bool, Stop> {
        let (rest, mut is_escaped) = (&self.text[quote + 1..], false);
        let ends = |byte: &u8| {
            let was_escaped = is_escaped;
            is_escaped = *byte == b'\\' && !was_escaped;
            *byte == b'"' && !was_escaped
        };
        let Some(length) = rest.iter().take(MAX_KEY).position(ends) else {
            return if rest.len() < MAX_KEY && !self.is_last { Err(Stop::Open) } else { Ok(false) };
        };
        Ok(self.visible(quote + length + 2)?.is_some_and(|(_, next)| next == b':'))
    }

    /// The next byte that is no white space, from a byte on, and its offset; `None` at the end of all text.
    fn visible(&self, from: usize) -> Result<Option<(usize, u8)>, Stop> {
        let rest = self.text.get(from..).unwrap_or_default();
        match rest.iter().position(|byte| !is_space(*byte)) {
            Some(length) => Ok(Some((from + length, rest[length]))),
            None if self.is_last => Ok(None),
            None => Err(Stop::Open),
        }
    }

    /// Skips white space, and returns the byte that follows.
    pub(super) fn skip_space(&mut self) -> Result<u8, Stop> {
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|byte| !is_space(*byte)).ok_or(Stop::Open)?;
        self.at += length;
        Ok(rest[length])
    }

    fn copy(&mut self, length: usize) {
        self.json.extend_from_slice(&self.text[self.at..self.at + length]);
        self.at += length;
    }

    /// Writes something else for so many bytes.
    fn replace(&mut self, fault: Damage, json: &[u8], length: usize) {
        self.fault(fault);
        self.json.extend_from_slice(json);
        self.at += length;
    }

    pub(super) fn fault(&mut self, kind: Damage) {
        self.faults.push((kind, self.at));
    }
}

/// The length of `\u1234`.
const UNIT: usize = 6;

/// The code unit of the escape that a text begins with.
fn unit(text: &[u8]) -> Option<u16> {
    let digits =
        text.get(2..UNIT).filter(|digits| text.starts_with(br"\u") && digits.iter().all(u8::is_ascii_hexdigit))?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn is_plain(byte: u8) -> bool {
    !matches!(byte, b'"' | b'\\' | ..b' ') && byte.is_ascii()
}
