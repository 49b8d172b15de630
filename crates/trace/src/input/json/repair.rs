//! The recovering reader: an object that is not quite JSON, read byte by byte and written as the JSON that it was meant to be.
//!
//! Programs that write traces forget escapes and write numbers as Python or C print them; disks and editors do worse. The meaning is
//! often clear all the same: a backslash that begins no escape is a backslash. Where it is not clear the object is given up, at the
//! byte where it went wrong: half of one is never taken for a whole one. A quote is always the end of its string, so an event with
//! quotes in a text is given up. Only events that the tokenizer doubts come here, so this may be slow.
//!
//! Three files work together, and `list` calls the others in this order:
//!
//! 1. [`Recoverer::object`] (this file) reads the event that begins at a byte.
//! 2. If the object is whole, [`is_rest`](super::rest::is_rest) decides whether the text after it is the rest of it: then a stray bracket ended it too
//!    early, and it is given up.
//! 3. A whole object becomes an event, with a fault for each repair that the recoverer made. If the recoverer changed
//!    anything, the parser reads its JSON instead of the file's text.
//! 4. An object that is given up is lost from its first byte on, and `resync` searches for the next event from the byte after it:
//!    it tries every brace that looks like an event's with [`Recoverer::object`] again, until one is whole. All text up to there is
//!    counted as one fault. What was read in vain is counted too: beyond a budget it is skipped, not searched (`list`).

use memchr::memmem;

use super::bits::code_unit;
use super::keys::{EVENT_KEYS, PHASE_BIT};
use super::value::{as_number, is_number, is_part, is_space};
use crate::damage::Damage;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It ends before a byte of the text.
    Whole {
        end: usize,
    },
    /// Its end is not in the text.
    Open,
    Broken {
        at: usize,
    },
}

#[derive(Debug, Clone, Copy)]
enum Stop {
    Open,
    /// The object is broken at a byte.
    Broken(usize),
}

/// Reads objects. Keeps what it has read last.
#[derive(Debug, Default)]
pub(super) struct Recoverer {
    pub(super) json: Vec<u8>,
    /// What was wrong with it, and where in the text.
    pub(super) faults: Vec<(Damage, usize)>,
    /// How deep containers may be nested; deeper ones become `null`. 0: without limit.
    max_depth: usize,
    /// Which keys of events it has: a bit for each of [`EVENT_KEYS`].
    keys: u16,
    /// Where the first phase in an object within it is, as if an event had got into it.
    pub(super) inner_phase: Option<usize>,
    /// Whether an unknown key follows a nested value, so that it may belong inside that value.
    pub(super) has_strange_member: bool,
    open: Vec<u8>,
    /// How much of the JSON is the beginning with all members that are whole.
    whole_members: usize,
    /// How far it has read, which may be further than where the object is broken: a string can be so from its start on.
    pub(super) reached: usize,
    /// How many bytes it has read in all.
    #[cfg(test)]
    pub(super) work: usize,
}

impl Recoverer {
    /// A recoverer that keeps containers up to this depth; deeper ones become `null`.
    pub(super) fn up_to_depth(max_depth: usize) -> Self {
        Recoverer { max_depth, ..Recoverer::default() }
    }

    /// Whether it has a member of this name, which is one of [`EVENT_KEYS`].
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

    /// Reads the object that begins at a byte. `is_last`: there is no more text after this.
    pub(super) fn object(&mut self, text: &[u8], from: usize, is_last: bool) -> Outcome {
        self.json.clear();
        self.faults.clear();
        self.open.clear();
        (self.keys, self.inner_phase, self.has_strange_member, self.whole_members) = (0, None, false, 0);
        let mut pass = Pass { text, at: from, is_last, muted: None, all: self };
        let result = pass.object();
        self.reached = if matches!(result, Err(Stop::Open)) { text.len() } else { pass.at };
        #[cfg(test)]
        {
            self.work += self.reached - from;
        }
        match (result, self.inner_phase) {
            // The beginning of one broken event and the end of another look like one, with all that is between them.
            (Ok(()), Some(inner_phase)) if !self.faults.is_empty() => Outcome::Broken { at: inner_phase },
            (Ok(()), _) => Outcome::Whole { end: self.reached },
            (Err(Stop::Open), _) => Outcome::Open,
            (Err(Stop::Broken(at)), _) => Outcome::Broken { at },
        }
    }

    /// The object that begins at a text's first byte, up to the member that is broken.
    pub(super) fn beginning(&mut self, text: &[u8]) -> Vec<u8> {
        match self.object(text, 0, true) {
            Outcome::Whole { .. } => self.json.clone(),
            Outcome::Open | Outcome::Broken { .. } => [&self.json[..self.whole_members.max(1)], b"}"].concat(),
        }
    }
}

struct Pass<'a, 'm> {
    text: &'a [u8],
    at: usize,
    /// Whether there is no more text.
    is_last: bool,
    /// If what is read now is nested too deep: the depth, and the length of the JSON before it.
    muted: Option<(usize, usize)>,
    all: &'m mut Recoverer,
}

impl Pass<'_, '_> {
    fn object(&mut self) -> Result<(), Stop> {
        self.open_container(b'{');
        let (mut is_first, mut commas) = (true, 0);
        while let Some(container) = self.all.open.last().copied() {
            let byte = self.skip_space()?;
            match byte {
                b',' => {
                    commas += 1;
                    // The first is where it belongs, if something comes before and after it.
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
                    self.all.open.pop();
                    self.copy(1);
                    if let Some((_, kept)) = self.muted.take_if(|(depth, _)| *depth == self.all.open.len()) {
                        self.all.json.truncate(kept);
                        self.all.json.extend_from_slice(b"null");
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
                self.all.json.push(b',');
            }
            commas = 0;
            if container == b'{' {
                self.key()?;
            }
            is_first = self.value()?;
            self.end_member();
        }
        Ok(())
    }

    fn end_member(&mut self) {
        if self.all.open.len() == 1 {
            self.all.whole_members = self.all.json.len();
        }
    }

    fn open_container(&mut self, bracket: u8) {
        self.all.open.push(bracket);
        self.copy(1);
    }

    fn key(&mut self) -> Result<(), Stop> {
        if self.text[self.at] != b'"' {
            return Err(Stop::Broken(self.at));
        }
        let (start, key_at) = (self.all.json.len(), self.at);
        self.string()?;
        let Recoverer { json, open, keys, inner_phase, has_strange_member, .. } = &mut *self.all;
        let key = &json[start + 1..json.len() - 1];
        let known = EVENT_KEYS.iter().position(|known| known.as_bytes() == key);
        match known {
            Some(bit) if open.len() == 1 => *keys |= 1 << bit,
            Some(PHASE_BIT) => *inner_phase = inner_phase.or(Some(key_at)),
            None if open.len() == 1 => {
                *has_strange_member |= json[..start].ends_with(b"},") || json[..start].ends_with(b"],");
            }
            _ => {}
        }
        if self.skip_space()? != b':' {
            return Err(Stop::Broken(self.at));
        }
        self.copy(1);
        self.skip_space().map(drop)
    }

    /// Reads a value, or the opening bracket of one. Whether a container begins.
    fn value(&mut self) -> Result<bool, Stop> {
        match self.text[self.at] {
            b'"' => self.string()?,
            bracket @ (b'{' | b'[') => {
                let (depth, max) = (self.all.open.len(), self.all.max_depth);
                if max > 0 && depth >= max && self.muted.is_none() {
                    self.fault(Damage::ArgsTooDeep);
                    self.muted = Some((depth, self.all.json.len()));
                }
                self.open_container(bracket);
                return Ok(true);
            }
            _ => self.word()?,
        }
        Ok(false)
    }

    fn string(&mut self) -> Result<(), Stop> {
        self.copy(1);
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.iter().position(|byte| !is_plain(*byte)).ok_or(Stop::Open)?;
            self.copy(plain);
            match rest[plain] {
                b'"' => break,
                b'\\' => self.escape()?,
                // Zeros that a disk wrote over the end of this string and the beginning of something else.
                0 if rest.get(plain + 1) == Some(&0) => return Err(Stop::Broken(self.at)),
                0 if rest.len() == plain + 1 => return Err(Stop::Open),
                control @ ..b' ' => {
                    self.replace(Damage::ControlCharacter, format!("\\u{control:04x}").as_bytes(), 1);
                }
                _ => self.character()?,
            }
        }
        self.copy(1);
        Ok(())
    }

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

    /// Skips white space, and returns the byte that follows.
    fn skip_space(&mut self) -> Result<u8, Stop> {
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|byte| !is_space(*byte)).ok_or(Stop::Open)?;
        self.at += length;
        Ok(rest[length])
    }

    fn copy(&mut self, length: usize) {
        self.all.json.extend_from_slice(&self.text[self.at..self.at + length]);
        self.at += length;
    }

    /// Writes something else for so many bytes.
    fn replace(&mut self, fault: Damage, json: &[u8], length: usize) {
        self.fault(fault);
        self.all.json.extend_from_slice(json);
        self.at += length;
    }

    fn fault(&mut self, kind: Damage) {
        self.all.faults.push((kind, self.at));
    }
}

/// The length of `\u1234`.
const UNIT: usize = 6;

/// The code unit of the escape that a text begins with.
fn unit(text: &[u8]) -> Option<u16> {
    text.strip_prefix(br"\u").and_then(code_unit)
}

fn is_plain(byte: u8) -> bool {
    !matches!(byte, b'"' | b'\\' | ..b' ') && byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The JSON of a text that is all there, and what was wrong with it; `Err` is the byte where it is broken.
    fn recovered(text: &[u8]) -> Result<(String, Vec<(Damage, usize)>), usize> {
        let mut recoverer = Recoverer::default();
        match recoverer.object(text, 0, true) {
            Outcome::Whole { end } => {
                assert_eq!(end, text.len());
                Ok((String::from_utf8(recoverer.json).unwrap(), recoverer.faults))
            }
            Outcome::Open => Err(text.len()),
            Outcome::Broken { at } => Err(at),
        }
    }

    #[test]
    fn what_is_meant_is_written() {
        use Damage::{BadEscape, ControlCharacter, InvalidUtf8, InvalidValue, LoneSurrogate, MissingComma, StrayComma};
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
        ] {
            assert_eq!(recovered(text), Ok((json.to_owned(), faults)), "{}", String::from_utf8_lossy(text));
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
            (r#"{"name":"f({"device": "cpu"}(12): run","ts":1}"#, 13),
            (r#"{"a":["x"y", "z"]}"#, 9),
            (r#"{"a"b":"c"}"#, 4),
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
            assert_eq!(recovered(text.as_bytes()), Err(at), "{text}");
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
        /// JSON is left as it is, with anything after it, and nothing before its end is taken for a whole.
        #[test]
        fn json_stays(value in json(), after in "[{}\\[\\],:a ]{0,9}") {
            let text = serde_json::json!({ "a": value }).to_string();
            let all = format!("{text}{after}");
            let mut recoverer = Recoverer::default();
            prop_assert_eq!(recoverer.object(all.as_bytes(), 0, true), Outcome::Whole { end: text.len() });
            prop_assert!(recoverer.faults.is_empty());
            prop_assert_eq!(std::str::from_utf8(&recoverer.json).unwrap(), text.as_str());
            for cut in 1..text.len() {
                prop_assert_eq!(recoverer.object(&text.as_bytes()[..cut], 0, false), Outcome::Open);
            }
        }

        /// What is called whole is JSON, and the outcome is the same however much of what follows is known.
        #[test]
        fn what_is_whole_is_json(
            text in "\\{(\"[a\\\\\"é\u{1}]{0,3}\":?|[{}\\[\\],:]|1|nan|\\.5|\\\\u00| |\"ph\":){0,20}",
            garbage in prop::collection::vec(any::<u8>(), 0..4), at in 1usize..40,
        ) {
            let mut text = text.into_bytes();
            let at = at.min(text.len());
            text.splice(at..at, garbage);
            let mut recoverer = Recoverer::default();
            let all = recoverer.object(&text, 0, true);
            if let Outcome::Whole { .. } = all {
                let json = std::str::from_utf8(&recoverer.json).unwrap();
                prop_assert!(serde_json::from_str::<serde_json::Value>(json).is_ok(), "{}", json);
            }
            for cut in 1..text.len() {
                match recoverer.object(&text[..cut], 0, false) {
                    Outcome::Open => {}
                    outcome => prop_assert_eq!(outcome, all),
                }
            }
        }
    }
}
