//! The recovering reader: an object that is not quite JSON, read byte by byte and written as the JSON that it was meant to be.
//!
//! Programs that write traces forget escapes and write numbers as Python or C print them; disks and editors do worse. The meaning is
//! often clear all the same: a quote within a string is not its end if what follows cannot follow a string. Where it is not
//! clear the object is given up, at the byte where it went wrong: half of one is never taken for a whole one. Only events that the
//! tokenizer doubts come here, so this may be slow; it is linear in the text (`stops`).
//!
//! Four files work together, and `elements` calls them in this order:
//!
//! 1. [`Recoverer::object`] (this file) reads the event that begins at a byte. Its containers, keys and commas are read here; the
//!    strings, numbers and words in them are copied by `recover_scalars`, which also decides which quotes are stray. Each object is
//!    read strictly first, every quote as a string's end. If that breaks, it is read again with quotes that may be stray, and
//!    the second result counts if it is a whole object that goes further.
//! 2. If the object is whole, `rest` decides whether the text after it is the rest of it: then a stray bracket ended it too
//!    early, and it is given up.
//! 3. A whole object becomes an event, with a fault for each repair that the recoverer made. If the recoverer changed
//!    anything, the parser reads its JSON instead of the file's text.
//! 4. An object that is given up is lost from its first byte on, and `resync` searches for the next event from the byte after it:
//!    it tries every brace that looks like an event's with [`Recoverer::object`] again, until one is whole. All text up to there is
//!    counted as one fault.

use memchr::memmem;

use super::keys::{EVENT_KEYS, PHASE_BIT};
use super::recover_scalars::{Quotes, Role, Scalars, Stop};
use super::scan::is_space;
pub(super) use super::stops::Outcome;
use super::stops::{MAX_HEIGHT, Object, Stops, add_inner_phases};
use crate::damage::Damage;

/// Objects that have stray quotes nest no deeper in such an object. Each of them is read with all those around it.
const MAX_OBJECTS: usize = 16;

/// Reads objects. Keeps what it has read last.
#[derive(Debug, Default)]
pub(super) struct Recoverer {
    /// The object as JSON.
    pub(super) json: Vec<u8>,
    /// What was wrong with it, and where in the text.
    pub(super) faults: Vec<(Damage, usize)>,
    /// How deep containers may be nested; deeper ones become `null`. 0: without limit.
    max_depth: usize,
    /// What else was read of it.
    read: Option<Object>,
    /// Whether a member that events do not have comes after one that holds others: it may have been meant to be within that.
    pub(super) has_strange_member: bool,
    /// The brackets that are open.
    open: Vec<u8>,
    /// The objects among them.
    objects: Vec<Object>,
    /// How much of the JSON is the beginning with all members that are whole.
    whole_members: usize,
    /// How far the last object was read as if it had stray quotes, if that reading has failed.
    pub(super) in_vain_to: Option<usize>,
    /// How far it has read, which may be further than where the object is broken: a string can be so from its start on.
    reached: usize,
    /// How many bytes it has read in all.
    #[cfg(test)]
    pub(super) work: usize,
}

impl Recoverer {
    /// A recoverer that keeps containers up to this depth; deeper ones become `null`.
    pub(super) fn up_to_depth(max_depth: usize) -> Self {
        Recoverer { max_depth, ..Recoverer::default() }
    }

    /// Whether it has a member of this name.
    pub(super) fn has(&self, key: &str) -> bool {
        self.read.is_some_and(|read| read.has(key))
    }

    /// Whether an object within it has a phase, as if an event had got into it.
    pub(super) fn has_inner_phase(&self) -> bool {
        self.read.is_some_and(|read| read.inner_phase().is_some())
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
        self.object_among(text, from, is_last, Quotes::MayBeContent, &mut Stops::default())
    }

    /// The same, of a text in which readings have stopped before. `quotes`: whether it may be read as if it had stray quotes.
    pub(super) fn object_among(
        &mut self,
        text: &[u8],
        from: usize,
        is_last: bool,
        quotes: Quotes,
        stops: &mut Stops,
    ) -> Outcome {
        self.in_vain_to = None;
        let strictly = match stops.get(from) {
            Some((outcome, read)) => {
                self.read = Some(read);
                outcome
            }
            None => self.pass(text, from, is_last, Quotes::End, stops),
        };
        let at = match strictly {
            Outcome::Open => return strictly,
            Outcome::Broken { at } => at,
            // A stray quote before a brace within a string looks like the end of all.
            Outcome::Whole { end } => match next_visible(text, end) {
                None if !is_last => return Outcome::Open,
                None | Some(b',' | b'{' | b']') => return strictly,
                Some(_) => end,
            },
        };
        if quotes == Quotes::End {
            return strictly;
        }
        let read = self.read;
        let freely = self.pass(text, from, is_last, Quotes::MayBeContent, stops);
        self.in_vain_to = match freely {
            Outcome::Whole { .. } => None,
            Outcome::Open => is_last.then_some(self.reached),
            Outcome::Broken { .. } => Some(self.reached),
        };
        match freely {
            Outcome::Whole { end } if end > at => return Outcome::Whole { end },
            Outcome::Open if !is_last => return Outcome::Open,
            _ if matches!(strictly, Outcome::Whole { .. }) => {
                return self.pass(text, from, is_last, Quotes::End, stops);
            }
            _ => {}
        }
        self.read = read;
        strictly
    }

    /// The object that begins at a text's first byte, up to the member that is broken.
    pub(super) fn beginning(&mut self, text: &[u8]) -> Vec<u8> {
        match self.pass(text, 0, true, Quotes::End, &mut Stops::default()) {
            Outcome::Whole { .. } => self.json.clone(),
            Outcome::Open | Outcome::Broken { .. } => [&self.json[..self.whole_members.max(1)], b"}"].concat(),
        }
    }

    fn pass(&mut self, text: &[u8], from: usize, is_last: bool, quotes: Quotes, stops: &mut Stops) -> Outcome {
        self.json.clear();
        self.faults.clear();
        self.open.clear();
        self.objects.clear();
        (self.read, self.has_strange_member, self.whole_members) = (None, false, 0);
        let Recoverer { json, faults, max_depth, read, has_strange_member, open, objects, whole_members, .. } = self;
        let scalars = Scalars { text, at: from, from, is_last, quotes, json, faults };
        let mut pass = Pass {
            scalars,
            max_depth: *max_depth,
            open,
            objects,
            read,
            has_strange_member,
            whole_members,
            muted: None,
        };
        let (result, at) = (pass.run(), pass.scalars.at);
        self.reached = at;
        #[cfg(test)]
        {
            self.work += at - from;
        }
        let outcome = match result {
            Ok(()) => match self.read.and_then(|read| read.inner_phase()) {
                // The beginning of one broken event and the end of another look like one, with all that is between them.
                Some(inner_phase) if !self.faults.is_empty() => Outcome::Broken { at: from + inner_phase },
                _ => Outcome::Whole { end: at },
            },
            Err(Stop::Open) => Outcome::Open,
            Err(Stop::Broken(at)) => Outcome::Broken { at },
        };
        if result.is_err() {
            add_inner_phases(&mut self.objects);
            self.read = self.objects.first().copied();
            if quotes == Quotes::End {
                stops.add(from, at, outcome, &mut self.objects);
            }
        }
        outcome
    }
}

/// One reading of an object. What is borrowed is the recoverer's, see there.
struct Pass<'a, 'm> {
    scalars: Scalars<'a, 'm>,
    max_depth: usize,
    open: &'m mut Vec<u8>,
    objects: &'m mut Vec<Object>,
    read: &'m mut Option<Object>,
    has_strange_member: &'m mut bool,
    whole_members: &'m mut usize,
    /// If what is read now is nested too deep: the depth, and the length of the JSON before it.
    muted: Option<(usize, usize)>,
}

impl Pass<'_, '_> {
    fn run(&mut self) -> Result<(), Stop> {
        self.open_container(b'{')?;
        let (mut is_first, mut commas) = (true, 0);
        while let Some(container) = self.open.last().copied() {
            let byte = self.scalars.skip_space()?;
            match byte {
                b',' => {
                    commas += 1;
                    // The first is where it belongs, if something comes before and after it.
                    if is_first || commas > 1 {
                        self.scalars.fault(Damage::StrayComma);
                    }
                    self.scalars.at += 1;
                    continue;
                }
                b'}' | b']' => {
                    if byte != container + 2 {
                        return Err(Stop::Broken(self.scalars.at));
                    }
                    if !is_first && commas > 0 {
                        self.scalars.fault(Damage::StrayComma);
                    }
                    if byte == b'}' {
                        self.end_object()?;
                    }
                    self.open.pop();
                    self.scalars.json.push(byte);
                    self.scalars.at += 1;
                    if let Some((_, kept)) = self.muted.take_if(|(depth, _)| *depth == self.open.len()) {
                        self.scalars.json.truncate(kept);
                        self.scalars.json.extend_from_slice(b"null");
                    }
                    self.end_member();
                    (is_first, commas) = (false, 0);
                    continue;
                }
                _ => {}
            }
            if !is_first {
                if commas == 0 {
                    self.scalars.fault(Damage::MissingComma);
                }
                self.scalars.json.push(b',');
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
        if self.open.len() == 1 {
            *self.whole_members = self.scalars.json.len();
        }
    }

    fn open_container(&mut self, bracket: u8) -> Result<(), Stop> {
        if bracket == b'{' {
            if self.objects.len() == MAX_OBJECTS && self.scalars.quotes == Quotes::MayBeContent {
                return Err(Stop::Broken(self.scalars.at));
            }
            self.objects.push(Object::new(self.scalars.at - self.scalars.from));
        }
        self.open.push(bracket);
        self.scalars.json.push(bracket);
        self.scalars.at += 1;
        Ok(())
    }

    /// Ends the object that was opened last.
    fn end_object(&mut self) -> Result<(), Stop> {
        let ended = self.objects.last().copied();
        if ended.is_some_and(|ended| ended.height() > MAX_HEIGHT) {
            return Err(Stop::Broken(self.scalars.at));
        }
        self.objects.pop();
        match (self.objects.last_mut(), ended) {
            (Some(outer), Some(ended)) => outer.add_inner(ended),
            _ => *self.read = ended,
        }
        Ok(())
    }

    fn key(&mut self) -> Result<(), Stop> {
        if self.scalars.text[self.scalars.at] != b'"' {
            return Err(Stop::Broken(self.scalars.at));
        }
        let (start, key_at) = (self.scalars.json.len(), self.scalars.at);
        self.scalars.string(Role::Key)?;
        let Pass { scalars: Scalars { json, from, quotes, .. }, objects, has_strange_member, .. } = self;
        let key = &json[start + 1..json.len() - 1];
        let known = EVENT_KEYS.iter().position(|known| known.as_bytes() == key);
        if objects.len() == 1 {
            **has_strange_member |=
                known.is_none() && (json[..start].ends_with(b"},") || json[..start].ends_with(b"],"));
        } else if known == Some(PHASE_BIT) && *quotes == Quotes::MayBeContent {
            // An object that has a stray quote is broken if an event has got into it.
            return Err(Stop::Broken(key_at));
        }
        if let (Some(bit), Some(object)) = (known, objects.last_mut()) {
            object.add_key(bit, key_at - *from);
        }
        if self.scalars.skip_space()? != b':' {
            return Err(Stop::Broken(self.scalars.at));
        }
        self.scalars.at += 1;
        self.scalars.json.push(b':');
        self.scalars.skip_space().map(drop)
    }

    /// Reads a value, or the opening bracket of one. Whether a container begins.
    fn value(&mut self, role: Role) -> Result<bool, Stop> {
        match self.scalars.text[self.scalars.at] {
            b'"' => self.scalars.string(role)?,
            bracket @ (b'{' | b'[') => {
                let (depth, max) = (self.open.len(), self.max_depth);
                if max > 0 && depth >= max && self.muted.is_none() {
                    self.scalars.fault(Damage::ArgsTooDeep);
                    self.muted = Some((depth, self.scalars.json.len()));
                }
                self.open_container(bracket)?;
                return Ok(true);
            }
            _ => self.scalars.word()?,
        }
        Ok(false)
    }
}

/// The next byte that is no white space.
fn next_visible(text: &[u8], from: usize) -> Option<u8> {
    text.get(from..)?.iter().copied().find(|byte| !is_space(*byte))
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
            assert_eq!(recovered(text), Ok((json.to_owned(), faults)), "{}", String::from_utf8_lossy(text));
        }
    }

    /// What follows would else be taken for the rest of a string that began before the key.
    #[test]
    fn a_key_may_have_escaped_quotes() {
        for text in [r#"{"a":{"a":{"":"","\"":null},"b":""}}"#, r#"{"a":{"a":{"":"","b\\\"c\"":1},"b":""}}"#] {
            let all = format!("{text}}}");
            let mut recoverer = Recoverer::default();
            assert_eq!(recoverer.object(all.as_bytes(), 0, true), Outcome::Whole { end: text.len() }, "{text}");
            assert_eq!((recoverer.json, recoverer.faults), (text.as_bytes().to_vec(), vec![]));
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
