//! An object that is not quite JSON, read byte by byte and written as the JSON that it was meant to be.
//!
//! Programs that write traces forget escapes and write what Python or C call a number; disks and editors do worse. What
//! is meant is often clear all the same: a quote within a string is no end of it if nothing follows that may stand behind a
//! string. Where it is not clear the object is given up, at the byte where it went wrong: half of one is never taken for a
//! whole one. Only what the fast way stumbles over comes here, so this may be slow; it is linear in the text.

use std::ops::Range;

use memchr::memmem;

use super::number::{as_number, is_number, is_part};
use super::scan::is_space;
use crate::damage::Damage;

/// What came of reading an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mending {
    /// It ends before a byte of the text.
    Whole { end: usize },
    /// Its end is not in the text.
    Open,
    /// It is broken at a byte.
    Broken { at: usize },
}

/// Keys of events. A string in which one of them stands like a key has run into what follows it.
pub(super) const EVENT_KEYS: &[&str] =
    &["ph", "name", "cat", "pid", "tid", "ts", "dur", "id", "args", "bp", "s", "tts", "tdur", "id2"];

/// Objects with quotes too many are given up beyond so many bytes: the end of a string is looked for in vain.
const MAX_WITH_QUOTES: usize = 1 << 20;

/// Keys are not longer where quotes are too many.
const MAX_KEY: usize = 256;

/// Reads objects. Keeps what it has read last.
#[derive(Debug, Default)]
pub(super) struct Mender {
    /// The object as JSON.
    pub(super) json: Vec<u8>,
    /// What was wrong with it, and where in the text.
    pub(super) faults: Vec<(Damage, usize)>,
    /// How deep containers may lie in each other; deeper ones become `null`. 0: as deep as they want.
    max_depth: usize,
    /// Which keys of events it has: a bit for each of [`EVENT_KEYS`].
    keys: u16,
    /// Whether a member that events do not have comes behind one that holds others: it may have been meant to be within that.
    pub(super) has_strange_member: bool,
    /// Whether an object within it has a phase, as if an event had got into it.
    pub(super) has_inner_phase: bool,
    open: Vec<u8>,
    /// How much of the JSON is the beginning with all members that are whole.
    whole_members: usize,
}

/// How a quote within a string is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quotes {
    /// As the string's end.
    End,
    /// As the string's end if what follows may follow a string, otherwise as a part of it.
    MayBeContent,
}

impl Mender {
    /// One that keeps containers up to so deep in each other; deeper ones become `null`.
    pub(super) fn up_to_depth(max_depth: usize) -> Self {
        Mender { max_depth, ..Mender::default() }
    }

    /// Whether it has a member of this name.
    pub(super) fn has(&self, key: &str) -> bool {
        EVENT_KEYS.iter().zip(0..).any(|(known, bit)| *known == key && self.keys >> bit & 1 == 1)
    }

    /// Whether it lacks a member that programs write in events of its phase.
    pub(super) fn lacks(&self, key: &str) -> bool {
        let is_of = |phase: &[u8]| memmem::find(&self.json, phase).is_some();
        let (is_complete, is_metadata) = (is_of(br#""ph":"X""#), is_of(br#""ph":"M""#));
        let may_lack = match key {
            "args" => is_complete || is_metadata || is_of(br#""ph":"C""#),
            "bp" => is_of(br#""ph":"f""#),
            _ => false,
        };
        let lacks_any = ["ph", "name", "pid", "tid", "ts"].iter().any(|key| !self.has(key));
        !self.has(key) && (may_lack || !is_metadata && (lacks_any || is_complete && !self.has("dur")))
    }

    /// Reads the object that begins at a byte. `is_last`: behind the text there is nothing more.
    pub(super) fn object(&mut self, text: &[u8], from: usize, is_last: bool) -> Mending {
        let strictly = self.pass(text, from, is_last, Quotes::End);
        let at = match strictly {
            Mending::Open => return strictly,
            Mending::Broken { at } => at,
            // A quote too many before a brace within a string looks like the end of all.
            Mending::Whole { end } => match next_visible(text, end) {
                None if !is_last => return Mending::Open,
                None | Some(b',' | b'{' | b']') => return strictly,
                Some(_) => end,
            },
        };
        match self.pass(text, from, is_last, Quotes::MayBeContent) {
            Mending::Whole { end } if end > at => Mending::Whole { end },
            Mending::Open if !is_last => Mending::Open,
            _ if matches!(strictly, Mending::Whole { .. }) => self.pass(text, from, is_last, Quotes::End),
            _ => strictly,
        }
    }

    /// The object that begins at a text's first byte, up to the member that is broken.
    pub(super) fn beginning(&mut self, text: &[u8]) -> Vec<u8> {
        match self.pass(text, 0, true, Quotes::End) {
            Mending::Whole { .. } => self.json.clone(),
            Mending::Open | Mending::Broken { .. } => [&self.json[..self.whole_members.max(1)], b"}"].concat(),
        }
    }

    fn pass(&mut self, text: &[u8], from: usize, is_last: bool, quotes: Quotes) -> Mending {
        self.json.clear();
        self.faults.clear();
        self.open.clear();
        (self.keys, self.has_strange_member, self.whole_members) = (0, false, 0);
        let mut pass = Pass { text, from, at: from, is_last, quotes, inner_phase: None, muted: None, mender: self };
        let end = pass.run();
        pass.mender.has_inner_phase = pass.inner_phase.is_some();
        match end {
            // The ends of two events that are broken seem to be one, with all that is between them.
            Ok(()) if pass.inner_phase.is_some() && !pass.mender.faults.is_empty() => {
                Mending::Broken { at: pass.inner_phase.unwrap_or(from) }
            }
            Ok(()) => Mending::Whole { end: pass.at },
            Err(Stop::Open) => Mending::Open,
            Err(Stop::Broken(at)) => Mending::Broken { at },
        }
    }
}

/// Why reading stopped.
#[derive(Debug, Clone, Copy)]
enum Stop {
    Open,
    Broken(usize),
}

/// What a string is: that decides what may follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Key,
    Member,
    Element,
}

struct Pass<'a, 'm> {
    text: &'a [u8],
    from: usize,
    at: usize,
    is_last: bool,
    quotes: Quotes,
    /// Where an object within this one has a phase.
    inner_phase: Option<usize>,
    /// Up to where the JSON stands, if what is read now is too deep.
    muted: Option<(usize, usize)>,
    mender: &'m mut Mender,
}

impl Pass<'_, '_> {
    fn run(&mut self) -> Result<(), Stop> {
        self.open(b'{');
        let (mut is_first, mut commas) = (true, 0);
        while let Some(container) = self.mender.open.last().copied() {
            let byte = self.skip_space()?;
            match byte {
                b',' => {
                    commas += 1;
                    // The first is where it belongs, if there is something before and behind it.
                    if is_first || commas > 1 {
                        self.fault(Damage::StrayComma);
                    }
                    self.at += 1;
                    continue;
                }
                b'}' | b']' => {
                    if byte != container + 2 {
                        return Err(Stop::Broken(self.at));
                    }
                    if !is_first && commas > 0 {
                        self.fault(Damage::StrayComma);
                    }
                    self.mender.open.pop();
                    self.mender.json.push(byte);
                    self.at += 1;
                    if let Some((_, kept)) = self.muted.take_if(|(depth, _)| *depth == self.mender.open.len()) {
                        self.mender.json.truncate(kept);
                        self.mender.json.extend_from_slice(b"null");
                    }
                    self.end_member();
                    (is_first, commas) = (false, 0);
                    continue;
                }
                _ => {}
            }
            if !is_first {
                if commas == 0 {
                    self.fault(Damage::MissingComma);
                }
                self.mender.json.push(b',');
            }
            commas = 0;
            if container == b'{' {
                self.key()?;
            }
            is_first = self.value(if container == b'{' { Role::Member } else { Role::Element })?;
            self.end_member();
        }
        Ok(())
    }

    fn end_member(&mut self) {
        if self.mender.open.len() == 1 {
            self.mender.whole_members = self.mender.json.len();
        }
    }

    fn open(&mut self, bracket: u8) {
        self.mender.open.push(bracket);
        self.mender.json.push(bracket);
        self.at += 1;
    }

    fn key(&mut self) -> Result<(), Stop> {
        if self.text[self.at] != b'"' {
            return Err(Stop::Broken(self.at));
        }
        let (start, key_at) = (self.mender.json.len(), self.at);
        self.string(Role::Key)?;
        if self.mender.open.len() == 1 {
            let Mender { json, keys, has_strange_member, .. } = &mut *self.mender;
            let key = &json[start + 1..json.len() - 1];
            match EVENT_KEYS.iter().position(|known| known.as_bytes() == key) {
                Some(bit) => *keys |= 1 << bit,
                None => *has_strange_member |= json[..start].ends_with(b"},") || json[..start].ends_with(b"],"),
            }
        } else if self.mender.json[start..] == *br#""ph""# {
            self.inner_phase = self.inner_phase.or(Some(key_at));
        }
        if self.skip_space()? != b':' {
            return Err(Stop::Broken(self.at));
        }
        self.at += 1;
        self.mender.json.push(b':');
        self.skip_space().map(drop)
    }

    /// Whether a container begins.
    fn value(&mut self, role: Role) -> Result<bool, Stop> {
        match self.text[self.at] {
            b'"' => self.string(role)?,
            bracket @ (b'{' | b'[') => {
                let (depth, max) = (self.mender.open.len(), self.mender.max_depth);
                if max > 0 && depth >= max && self.muted.is_none() {
                    self.fault(Damage::ArgsTooDeep);
                    self.muted = Some((depth, self.mender.json.len()));
                }
                self.open(bracket);
                return Ok(true);
            }
            _ => self.word()?,
        }
        Ok(false)
    }

    fn string(&mut self, role: Role) -> Result<(), Stop> {
        let start = self.at;
        let (mut has_quotes, mut has_controls) = (false, false);
        self.mender.json.push(b'"');
        self.at += 1;
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.iter().position(|byte| !is_plain(*byte)).ok_or(Stop::Open)?;
            self.mender.json.extend_from_slice(&rest[..plain]);
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
                // A disk's zeros, over the end of this and the beginning of something else.
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
        // Whoever forgets escapes writes no line breaks: a string with both has run into what follows it.
        if has_quotes && (has_controls || self.holds_event_key(start + 1..self.at)?) {
            return Err(Stop::Broken(start));
        }
        self.mender.json.push(b'"');
        self.at += 1;
        Ok(())
    }

    /// Copies an escape, or makes one of the backslash.
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

    /// Copies a character that is not ASCII, or replaces what is none.
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
    fn word(&mut self) -> Result<(), Stop> {
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

    /// Whether a key of events begins in a stretch.
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

    /// Whether a key and its colon stand at a quote.
    fn is_key(&self, quote: usize) -> Result<bool, Stop> {
        let rest = &self.text[quote + 1..];
        let Some(length) = rest.iter().take(MAX_KEY).position(|byte| *byte == b'"') else {
            return if rest.len() < MAX_KEY && !self.is_last { Err(Stop::Open) } else { Ok(false) };
        };
        Ok(self.visible(quote + length + 2)?.is_some_and(|(_, next)| next == b':'))
    }

    /// The next byte that is no space, from a byte on, and its place; `None` at the end of all text.
    fn visible(&self, from: usize) -> Result<Option<(usize, u8)>, Stop> {
        let rest = self.text.get(from..).unwrap_or_default();
        match rest.iter().position(|byte| !is_space(*byte)) {
            Some(length) => Ok(Some((from + length, rest[length]))),
            None if self.is_last => Ok(None),
            None => Err(Stop::Open),
        }
    }

    fn skip_space(&mut self) -> Result<u8, Stop> {
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|byte| !is_space(*byte)).ok_or(Stop::Open)?;
        self.at += length;
        Ok(rest[length])
    }

    fn copy(&mut self, length: usize) {
        self.mender.json.extend_from_slice(&self.text[self.at..self.at + length]);
        self.at += length;
    }

    /// Writes something else for so many bytes.
    fn replace(&mut self, fault: Damage, json: &[u8], length: usize) {
        self.fault(fault);
        self.mender.json.extend_from_slice(json);
        self.at += length;
    }

    fn fault(&mut self, kind: Damage) {
        self.mender.faults.push((kind, self.at));
    }
}

/// The next byte that is no space.
fn next_visible(text: &[u8], from: usize) -> Option<u8> {
    text.get(from..)?.iter().copied().find(|byte| !is_space(*byte))
}

/// The length of `\u1234`.
const UNIT: usize = 6;

/// The number of the escape that a text begins with.
fn unit(text: &[u8]) -> Option<u16> {
    let digits =
        text.get(2..UNIT).filter(|digits| text.starts_with(br"\u") && digits.iter().all(u8::is_ascii_hexdigit))?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn is_plain(byte: u8) -> bool {
    !matches!(byte, b'"' | b'\\' | ..b' ') && byte.is_ascii()
}

/// Whether a text begins with one of some keys in quotes, and a colon, white space aside. `None`: the text is too short to tell.
pub(super) fn begins_with_key(text: &[u8], keys: &[&str]) -> Option<bool> {
    let mut is_open = false;
    for key in keys {
        let quoted = text.iter().copied();
        let wanted = std::iter::once(b'"').chain(key.bytes()).chain(std::iter::once(b'"'));
        let length = key.len() + 2;
        if !quoted.zip(wanted).all(|(is, should)| is == should) {
            continue;
        }
        match text.get(length..).and_then(|rest| rest.iter().find(|byte| !is_space(**byte))) {
            Some(b':') => return Some(true),
            Some(_) => {}
            None => is_open = true,
        }
    }
    if is_open { None } else { Some(false) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The JSON of a text that is all there, and what was wrong with it; `Err` is the byte where it is broken.
    fn mended(text: &[u8]) -> Result<(String, Vec<(Damage, usize)>), usize> {
        let mut mender = Mender::default();
        match mender.object(text, 0, true) {
            Mending::Whole { end } => {
                assert_eq!(end, text.len());
                Ok((String::from_utf8(mender.json).unwrap(), mender.faults))
            }
            Mending::Open => Err(text.len()),
            Mending::Broken { at } => Err(at),
        }
    }

    #[test]
    fn what_is_meant_is_written() {
        use Damage::{
            BadEscape, ControlCharacter, InvalidUtf8, InvalidValue, LoneSurrogate, MissingComma, StrayComma, StrayQuote,
        };
        for (text, json, faults) in [
            (&br#"{"a":1 , "b" : [ ] }"#[..], r#"{"a":1,"b":[]}"#, vec![]),
            (br#"{"a\n\u00e9":"\ud83d\ude00"}"#, r#"{"a\n\u00e9":"\ud83d\ude00"}"#, vec![]),
            (
                br#"{"a":"torch\cuda\__init__.py"}"#,
                r#"{"a":"torch\\cuda\\__init__.py"}"#,
                vec![(BadEscape, 11), (BadEscape, 16)],
            ),
            (br#"{"a":"\u12"}"#, r#"{"a":"\\u12"}"#, vec![(BadEscape, 6)]),
            (br#"{"a":"\ud83d!\udc00"}"#, r#"{"a":"\ufffd!\ufffd"}"#, vec![(LoneSurrogate, 6), (LoneSurrogate, 13)]),
            (b"{\"a\":\"x\n\x01\"}", r#"{"a":"x\u000a\u0001"}"#, vec![(ControlCharacter, 7), (ControlCharacter, 8)]),
            (
                b"{\"a\":\"\xc3\xa9\xff\xe2\x82\"}",
                "{\"a\":\"\u{e9}\u{fffd}\u{fffd}\"}",
                vec![(InvalidUtf8, 8), (InvalidUtf8, 9)],
            ),
            (
                br#"{"a":NaN,"b":[-Infinity,inf],"c":None}"#,
                r#"{"a":"NaN","b":["-Infinity","inf"],"c":null}"#,
                vec![(InvalidValue, 5), (InvalidValue, 14), (InvalidValue, 24), (InvalidValue, 33)],
            ),
            (
                br#"{"a":01,"b":.5,"c":+1.,"d":-00}"#,
                r#"{"a":1,"b":0.5,"c":1.0,"d":-0}"#,
                vec![(InvalidValue, 5), (InvalidValue, 12), (InvalidValue, 19), (InvalidValue, 27)],
            ),
            (br#"{"a":1 "b":[2 3]}"#, r#"{"a":1,"b":[2,3]}"#, vec![(MissingComma, 7), (MissingComma, 14)]),
            (
                br#"{,"a":1,,"b":[2,],}"#,
                r#"{"a":1,"b":[2]}"#,
                vec![(StrayComma, 1), (StrayComma, 8), (StrayComma, 16), (StrayComma, 18)],
            ),
            (
                br#"{"name":"f({"device": "cpu"}(12): run","ts":1}"#,
                r#"{"name":"f({\"device\": \"cpu\"}(12): run","ts":1}"#,
                vec![(StrayQuote, 12), (StrayQuote, 19), (StrayQuote, 22), (StrayQuote, 26)],
            ),
            (br#"{"a":["x"y", "z"]}"#, r#"{"a":["x\"y","z"]}"#, vec![(StrayQuote, 8)]),
            (br#"{"a"b":"c"}"#, r#"{"a\"b":"c"}"#, vec![(StrayQuote, 3)]),
        ] {
            assert_eq!(mended(text), Ok((json.to_owned(), faults)), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn what_is_not_clear_is_broken() {
        for (text, at) in [
            (r#"{"ph":"X","args":{"a":1,{"ph":"X"}"#, 24),
            (r#"{"ph":"X","name":"abc,"ts":1,"dur":2}"#, 23),
            (r#"{"ph":"X","name":"abc{"ph":"X","ts":1}"#, 23),
            (r#"{"a":[1}"#, 7),
            (r#"{"a":["x", "b": ["y"], "c": "z"}"#, 14),
            (r#"{"a"]:1, "b":2}"#, 4),
            (r#"{"a":{"b":1]}"#, 11),
            (r#"{"a" 1}"#, 5),
            (r#"{a:1}"#, 1),
            (r#"{"a":nul}"#, 5),
            (r#"{"a":1-2}"#, 5),
            (r#"{"a":.}"#, 5),
            (r#"{"a":}"#, 5),
            ("{\"a\":\"b\0\0c\"}", 7),
            (r#"{"a":1"#, 6),
            (r#"{"a":"b"#, 7),
        ] {
            assert_eq!(mended(text.as_bytes()), Err(at), "{text}");
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            ".{0,9}".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                prop::collection::vec((".{0,5}", inner), 0..5)
                    .prop_map(|members| members.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        /// JSON is left as it is, with anything behind it, and nothing before its end is taken for a whole.
        #[test]
        fn json_stays(value in json(), behind in "[{}\\[\\],:a ]{0,9}") {
            let text = serde_json::json!({ "a": value }).to_string();
            let all = format!("{text}{behind}");
            let mut mender = Mender::default();
            prop_assert_eq!(mender.object(all.as_bytes(), 0, true), Mending::Whole { end: text.len() });
            prop_assert!(mender.faults.is_empty());
            prop_assert_eq!(std::str::from_utf8(&mender.json).unwrap(), text.as_str());
            for cut in 1..text.len() {
                prop_assert_eq!(mender.object(&text.as_bytes()[..cut], 0, false), Mending::Open);
            }
        }

        /// What is called whole is JSON, and the same is said of the text however much of what follows is known.
        #[test]
        fn what_is_whole_is_json(
            text in "\\{(\"[a\\\\\"é\u{1}]{0,3}\":?|[{}\\[\\],:]|1|nan|\\.5|\\\\u00| |\"ph\":){0,20}",
            garbage in prop::collection::vec(any::<u8>(), 0..4), at in 1usize..40,
        ) {
            let mut text = text.into_bytes();
            let at = at.min(text.len());
            text.splice(at..at, garbage);
            let mut mender = Mender::default();
            let all = mender.object(&text, 0, true);
            if let Mending::Whole { .. } = all {
                let json = std::str::from_utf8(&mender.json).unwrap();
                prop_assert!(serde_json::from_str::<serde_json::Value>(json).is_ok(), "{}", json);
            }
            for cut in 1..text.len() {
                match mender.object(&text[..cut], 0, false) {
                    Mending::Open => {}
                    told => prop_assert_eq!(told, all),
                }
            }
        }
    }
}
