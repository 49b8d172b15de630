//! Tokenizing a JSON trace: from text to single events, chunk by chunk.
//!
//! The tokenizer knows the container only: an object with `traceEvents` anywhere in it, or a bare list, perhaps without its closing
//! bracket. It finds where each event begins and ends and leaves its meaning to the parser. What is beside the events (the
//! header) is handed out field by field.
//!
//! An event counts if it looks like one before, or can be walked through, if nothing in it is suspect (`marks`) and if what comes
//! after it may follow an event. All others are doubtful and go to the recovering reader (see `repair`), so that one broken event
//! takes no other along.
//!
//! A chunk may end anywhere. What passes from one to the next is a [`State`] and the text of what was begun and not ended; where
//! the chunks end changes nothing in what is found, if the text is JSON. Of a broken event that lies across the end of a chunk
//! less may be saved than of one whose closing bracket is at hand; waiting for that would be waiting for the file's end where a
//! quote is missing.

use super::cursor::{Cursor, FoundPiece, Step, Tools};
use super::elements::Next;
use super::piece::{Events, MAX_EVENT, Marked, Piece};
use super::state::{After, Position, State};

/// See the file's header.
pub(super) struct Tokenizer<'t> {
    cursor: Cursor<'t>,
}

impl<'t> Tokenizer<'t> {
    pub(super) fn new(text: &'t [u8], base: u64, after: After, state: State, tools: &'t mut Tools) -> Self {
        Tokenizer { cursor: Cursor::new(text, base, after, state, tools) }
    }

    /// The state after this text, and how much of the text was used: the rest belongs before the next text.
    pub(super) fn into_rest(self) -> (State, usize) {
        let Cursor { text, at, state, .. } = self.cursor;
        let used = if state.end().is_some() { text.len() } else { at };
        (state, used)
    }

    /// The next piece, or `None` at the text's end.
    // A call for each event would pass it through memory.
    #[inline(always)]
    pub(super) fn next(&mut self, events: &mut impl Events) -> Option<Piece<'_>> {
        match self.next_like_others(events) {
            Some((from, to)) => Some(self.event_at(from, to, true)),
            None => self.next_of_any_kind(events),
        }
    }

    /// The next event, if nothing is unusual: it looks like one before, and another one follows. This is nearly all of a trace.
    #[inline(always)]
    fn next_like_others(&mut self, events: &mut impl Events) -> Option<(usize, usize)> {
        let (Position::List { commas: 1, .. }, true) = (&self.cursor.state.position, self.cursor.faults.is_empty())
        else {
            return None;
        };
        let (text, from) = (self.cursor.text, self.cursor.at);
        if text.get(from) != Some(&b'{') {
            return None;
        }
        self.cursor.align_marks(b'{');
        let to = events.recognise(text, from, &mut self.cursor.tools.marks).filter(|to| to - from <= MAX_EVENT)?;
        let Next::Proper { at, commas: 1 } = self.cursor.next_begins(to) else { return None };
        if self.cursor.tools.marks.is_suspect(from, to) {
            return None;
        }
        self.cursor.at = at;
        Some((from, to))
    }

    #[inline]
    fn event_at(&mut self, from: usize, to: usize, recognised: bool) -> Piece<'_> {
        let event = Marked { text: &self.cursor.text[..to], at: from, marks: &mut self.cursor.tools.marks };
        Piece::Event { event, offset: self.cursor.base + from as u64, bytes: (to - from) as u64, recognised }
    }

    #[inline(never)]
    fn next_of_any_kind(&mut self, events: &mut impl Events) -> Option<Piece<'_>> {
        loop {
            if !self.cursor.faults.is_empty() {
                return self.cursor.faults.pop_front().map(Piece::Fault);
            }
            let step = match &self.cursor.state.position {
                Position::List { in_object, commas } => self.cursor.element(*in_object, *commas, events),
                Position::Start => self.cursor.start(),
                Position::Object => self.cursor.field(),
                Position::TooLong { .. } => self.cursor.skip_too_long(),
                Position::Closed { in_object } => self.cursor.closed(*in_object),
                Position::Lost(lost) => self.cursor.search(*lost),
                Position::Over(_) => Step::Pause,
            };
            // The borrow checker does not let a piece leave a loop that goes on otherwise; so the steps return offsets.
            return Some(match step {
                Step::Again => continue,
                Step::Pause if self.cursor.faults.is_empty() => return None,
                Step::Pause => continue,
                Step::Found(FoundPiece::Event { from, to, recognised }) => self.event_at(from, to, recognised),
                Step::Found(FoundPiece::Recovered { from, to }) => {
                    let Tools { recoverer, recovered, .. } = &mut *self.cursor.tools;
                    let event = Marked { text: &recoverer.json, at: 0, marks: recovered };
                    Piece::Event {
                        event,
                        offset: self.cursor.base + from as u64,
                        bytes: (to - from) as u64,
                        recognised: false,
                    }
                }
                Step::Found(FoundPiece::Fault(fault)) => Piece::Fault(fault),
                Step::Found(FoundPiece::Header { value, offset, bytes }) => Piece::Header {
                    key: &self.cursor.key,
                    text: value.map(|(from, to)| &self.cursor.text[from..to]),
                    offset,
                    bytes,
                },
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::json::container::MAX_HEADER_FIELD;
    use crate::input::json::fields::Fields;
    use crate::input::json::marks::Marks;
    use crate::input::json::piece::Fault;
    use crate::input::json::state::{End, MAX_EARLY_LOSS};

    /// Reads events as objects, and no more.
    struct Walked;

    impl Events for Walked {
        fn recognise(&mut self, _: &[u8], _: usize, _: &mut Marks) -> Option<usize> {
            None
        }

        fn read(&mut self, text: &[u8], at: usize, marks: &mut Marks) -> bool {
            Fields::default().read(text, at, marks).is_ok()
        }
    }

    /// Tokenizes a text that comes in chunks of this size.
    fn pieces_of(text: &[u8], chunk: usize) -> (Vec<String>, End) {
        pieces_with(text, chunk, &mut Tools::default())
    }

    fn pieces_with(text: &[u8], chunk: usize, tools: &mut Tools) -> (Vec<String>, End) {
        let (mut out, mut state) = (Vec::new(), State::START);
        let (mut from, mut to) = (0, 0);
        loop {
            to = text.len().min(to + chunk);
            let after = if to == text.len() { After::Nothing } else { After::More };
            let mut tokenizer = Tokenizer::new(&text[from..to], from as u64, after, state, tools);
            while let Some(piece) = tokenizer.next(&mut Walked) {
                let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                out.push(match piece {
                    Piece::Event { event, .. } => show(&event.text[event.at..]),
                    Piece::Fault(Fault { kind, offset, bytes }) => format!("{kind:?} @{offset} {bytes}"),
                    Piece::Header { key, text, offset, .. } => match text {
                        Some(text) => format!("{}={}", show(key), show(text)),
                        None => format!("{} too long @{offset}", show(key)),
                    },
                });
            }
            let (next, used) = tokenizer.into_rest();
            if let Some(end) = next.end() {
                return (out, end);
            }
            (state, from) = (next, from + used);
        }
    }

    /// The same whatever the chunks are.
    fn pieces(text: &str) -> (Vec<String>, End) {
        let whole = pieces_of(text.as_bytes(), text.len().max(1));
        for chunk in 1..text.len() {
            assert_eq!(pieces_of(text.as_bytes(), chunk), whole, "chunks of {chunk} bytes");
        }
        whole
    }

    proptest::proptest! {
        #[test]
        fn chunks_change_nothing(text in "[\\[{]([{}\\[\\]\",:a\\\\ ]|\"traceEvents\":\\[|\\{\"a\":1\\},){0,40}") {
            pieces(&text);
        }
    }

    #[test]
    fn events_may_be_anywhere_in_the_object() {
        let (found, end) =
            pieces(r#" {"a":1,"traceEvents":[{"x":"}"}, {"y":[{}]} ,],"b":{"c":[2]},"traceEvents":[{}]} "#);
        assert_eq!(found, ["a=1", r#"{"x":"}"}"#, r#"{"y":[{}]}"#, r#"b={"c":[2]}"#, "{}"]);
        assert_eq!(end, End::Whole);
    }

    #[test]
    fn a_bare_list_needs_no_end() {
        assert_eq!(
            pieces("\u{feff}[{\"a\":1},{\"b\":2}"),
            (vec![r#"{"a":1}"#.into(), r#"{"b":2}"#.into()], End::Whole)
        );
        assert_eq!(pieces("[{\"a\":1},{\"b\":").1, End::CutOff { offset: 9 });
        assert_eq!(pieces("[]"), (vec![], End::Whole));
    }

    #[test]
    fn ends_are_distinguished() {
        assert_eq!(pieces(r#"{"traceEvents":[{}"#).1, End::CutOff { offset: 18 });
        assert_eq!(pieces(r#"{"traceEvents":[{}]"#).1, End::CutOff { offset: 19 });
        assert_eq!(pieces(r#"{"traceEvents":[{}]} x"#).1, End::Trailing { offset: 21 });
        assert_eq!(pieces(r#"{"traceEvents":[{}}"#).1, End::Broken { offset: 18 });
        assert_eq!(pieces("\u{89}PNG").1, End::Broken { offset: 0 });
        assert_eq!(pieces("").1, End::CutOff { offset: 0 });
    }

    #[test]
    fn elements_that_are_no_objects_are_named() {
        assert_eq!(
            pieces(r#"[null,1,"a",[2],{}]"#).0,
            ["ElementNotObject @1 4", "ElementNotObject @6 1", "ElementNotObject @8 3", "ElementNotObject @12 3", "{}"]
        );
    }

    /// An event that is whole.
    const E: &str = r#"{"ph":"X","ts":1}"#;

    /// What is found in a list of events before, in and after which there are whole ones.
    fn between_events(middle: &str) -> (Vec<String>, End) {
        let (found, end) = pieces(&format!("{{\"traceEvents\":[{E},{middle},{E}],\"traceName\":\"t\"}}"));
        assert_eq!(found.first().map(String::as_str), Some(E), "{middle}");
        assert_eq!(found[found.len() - 2..], [E, "traceName=\"t\""], "{middle}");
        (found[1..found.len() - 2].to_vec(), end)
    }

    /// Where the middle begins.
    const MIDDLE: usize = 34;

    #[test]
    fn after_a_broken_event_the_next_is_found() {
        for middle in [
            r#"{"ph":"X","name":"a,"ts":1}"#,
            r#"{"ph":"X","name":a","ts":1}"#,
            r#"{"ph":"X","args":{"a":1}"#,
            r#"{"ph":"X","args":{"a":[1},"ts":1}"#,
            r#"{"ph":"X","args":{"a":"b"#,
            r#"{"ph":"X","ts":1"#,
            r#"{"ph":"X","ts":1,"args":{"name":"x"y z","b":{"name":1"#,
            r#"{"ph":"X","ts":nul}"#,
            r#"{"ph":"X",ts:1}"#,
            r#"{"ph":"X","name":"n","pid":1,"tid":1,"ts":1,"args":{"a":1},"b":2}}"#,
            r#"{"ph":"X","name":"n","pid":1,"tid":1,"ts":1},"dur":12}"#,
            // The end of the first and the head of the second are lost; counted without regard to kind, the brackets are even.
            r#"{"ph":"X","name":"n","ts":1,"args":{"a":5[6}},"name":"m","ts":2,"args":{"b":1}}"#,
        ] {
            let bytes = middle.len() + 1;
            assert_eq!(
                between_events(middle),
                (vec![format!("EventSyntax @{MIDDLE} {bytes}")], End::Whole),
                "{middle}"
            );
        }
    }

    #[test]
    fn an_event_with_a_doubled_key_is_whole() {
        let middle = r#"{"ph":"X","name":"n","ts":1,"args":{"a":[5,{"c":"}]"}]},"name":"m","ts":2}"#;
        assert_eq!(between_events(middle), (vec![middle.to_owned()], End::Whole));
    }

    /// Quotes within a string cost their own event, whatever they do to the strings after it.
    #[test]
    fn two_stray_quotes_do_not_hide_what_is_between_them() {
        let odd = r#"{"ph":"X","args":{"a":"b"c"}}"#;
        let (found, end) = pieces(&format!("[{odd},\n{E},{odd},{E}"));
        let lost = |at: usize, bytes: usize| format!("EventSyntax @{at} {bytes}");
        let second = 1 + odd.len() + 2 + E.len() + 1;
        assert_eq!(found, [lost(1, odd.len() + 2), E.to_owned(), lost(second, odd.len() + 1), E.to_owned()]);
        assert_eq!(end, End::Whole);
    }

    #[test]
    fn garbage_between_events_is_skipped() {
        for (middle, bytes) in [
            ("\u{1}\u{2}gar}bage", 11),
            ("}", 2),
            ("]", 0),
            ("\"ts\":5}", 8),
            (r#"[[{"a":1}]]"#, 12),
            (r#"{"ph":1}}"#, 2),
        ] {
            let (found, end) = between_events(middle);
            assert_eq!(end, End::Whole);
            let lost = found.last().map(String::as_str).unwrap_or_default();
            let (kind, cost) = lost.rsplit_once(' ').unwrap();
            assert!(kind.starts_with("Garbage @"), "{middle}: {found:?}");
            assert_eq!(cost, bytes.to_string(), "{middle}: {found:?}");
        }
        assert_eq!(
            pieces(&format!("INFO: log\n{{\"schemaVersion\":1,\"traceEvents\":[{E}]}}")).0,
            ["Garbage @0 10", "schemaVersion=1", E]
        );
        assert_eq!(pieces(&format!("{{\"a\":\"x\"y\",\"traceEvents\":[{E}]}}")).0, ["a=\"x\"", "Garbage @8 3", E]);
    }

    #[test]
    fn commas_are_counted() {
        assert_eq!(pieces("[,2,").0, ["StrayComma @1 0", "ElementNotObject @2 1"]);
        assert_eq!(
            pieces(&format!("[{E}{E},,{E},\n,{E},]")).0,
            [E, "MissingComma @18 0", E, "StrayComma @36 0", E, "StrayComma @56 0", E,]
        );
    }

    #[test]
    fn any_number_of_commas_is_counted() {
        let found = pieces_of(format!("[{E}{}{E}]", ",".repeat(300)).as_bytes(), usize::MAX / 2).0;
        assert_eq!(found.iter().filter(|piece| piece.starts_with("StrayComma")).count(), 299);
        assert_eq!(found.iter().filter(|piece| *piece == E).count(), 2);
    }

    #[test]
    fn text_after_a_trace_is_not_of_it() {
        let trace = format!("{{\"traceEvents\":[{E}]}}");
        for after in ["[{}]", "{}", "\"dur\":5},{},{}]}", "Done."] {
            let (found, end) = pieces(&format!("{trace}\0\n{}", after.replace("{}", E)));
            assert_eq!(
                (&found[..], end),
                (&[E.to_owned()][..], End::Trailing { offset: trace.len() as u64 + 2 }),
                "{after}"
            );
        }
        let list = format!("[{E}]\n");
        let offset = list.len() as u64;
        assert_eq!(pieces(&format!("{list}[{E}]")), (vec![E.to_owned()], End::Trailing { offset }));
        let (found, end) = pieces(&format!("{list}, {trace}"));
        assert_eq!((&found[..], end), (&[E.to_owned()][..], End::Trailing { offset }));
        // A list that a stray bracket ended goes on.
        assert_eq!(pieces(&format!("{list}{E},{E}]")).0, [E, &format!("Garbage @{offset} 0"), E, E]);
    }

    /// How many bytes and words were read of a text that comes as a whole.
    fn work(text: &str) -> usize {
        let mut tools = Tools::default();
        pieces_with(text.as_bytes(), text.len(), &mut tools);
        tools.recoverer.work + tools.marks.work + tools.recovered.work
    }

    /// Texts in which a search for the end of each event would go through all that follows.
    #[test]
    fn no_damage_takes_the_square_of_the_length() {
        const OPEN: &str = r#"{"ph": "X", "name": "k", "d": [1, 2, "#;
        const ODD: &str = r#"{"ph": "X", "name": "k",, "d": ["#;
        const WHOLE: &str = r#"{"ph": "X", "name": "k", "ts": 1, "dur": 2}, "#;
        type Case = (&'static str, fn(usize) -> String);
        let all: [Case; 13] = [
            ("open", |n| OPEN.repeat(n)),
            ("open, then broken", |n| OPEN.repeat(n) + "?"),
            ("open, then a stray quote", |n| OPEN.repeat(n) + r#"{"name": "a"b"}"#),
            ("open, with whole ones between", |n| format!("{OPEN}{}", WHOLE.repeat(4)).repeat(n)),
            ("open, with quotes", |n| r#"{"ph": "X", "name": "a"b", "d": [1, "#.repeat(n)),
            ("strings that end nowhere", |n| r#"{"ts": 1, "ph": "X" x}, "#.repeat(n)),
            ("open strings", |n| r#"{"ph": "X", "name": "k, "d": [1, "#.repeat(n)),
            ("no phase", |n| r#"{"name": "k", "d": [1, "#.repeat(n) + "?"),
            ("closed, with a fault", |n| ODD.repeat(n) + &"]}".repeat(n)),
            ("closed, with a rest", |n| r#"{"ph": "X", "a": "#.repeat(n) + "1" + &r#"}, "b": 1}"#.repeat(n)),
            ("brackets of the wrong kind", |n| OPEN.repeat(n) + &"}}".repeat(n)),
            ("a broken word in each", |n| r#"{"ph": "X", "d": [nul, [[ "#.repeat(n)),
            ("lists in the list", |n| format!("[[1], {WHOLE}").repeat(n)),
        ];
        for (name, text) in all {
            let text = |n| format!(r#"{{"traceEvents": [{{"ph": "Z, {}"#, text(n));
            let [once, twice, fourfold] = [500, 1000, 2000].map(|n| work(&text(n)));
            assert!(fourfold < 5 * once && twice < 5 * once / 2, "{name}: {once}, {twice}, {fourfold}");
            assert!(once < 400 * text(500).len(), "{name}: {once} for {} bytes", text(500).len());
        }
    }

    /// Objects that are broken within each other take others along only if there are many.
    #[test]
    fn few_nested_events_hide_none_that_is_whole() {
        let (open, whole) = (r#"{"ph":"X","name":"k","d":[1,"#, r#"{"ph":"X","name":"k"}"#);
        let (found, end) = pieces(&format!("[{}{}", open.repeat(40), [whole; 3].join(",")));
        assert_eq!((found.len(), end), (4, End::Whole));
        assert!(found[1..].iter().all(|piece| piece == whole));
        let many = format!("[{}{}", open.repeat(10_000), vec![whole; 10_000].join(","));
        let (found, end) = pieces_of(many.as_bytes(), many.len());
        assert_eq!(end, End::Whole);
        assert!(found.iter().filter(|piece| *piece == whole).count() > 9_000, "{}", found.len());
    }

    /// Where nothing plausible comes, reading stops before the text does.
    #[test]
    fn what_is_no_trace_is_not_read_to_its_end() {
        let endless = 2 * MAX_EARLY_LOSS;
        for (begin, byte) in [
            ("", 0),
            ("", b' '),
            ("", b'x'),
            ("{", 0),
            ("{", b'{'),
            ("[", 0),
            ("[", b'['),
            ("[{", 0),
            ("{\"a\": \"", b'x'),
        ] {
            let text = [begin.as_bytes(), &vec![byte; endless]].concat();
            let (mut tools, mut state, mut from, mut to) = (Tools::default(), State::START, 0, 0);
            while state.end().is_none() && to < text.len() {
                to += 1 << 20;
                let mut tokenizer =
                    Tokenizer::new(&text[from..to.min(text.len())], from as u64, After::More, state, &mut tools);
                while let Some(piece) = tokenizer.next(&mut Walked) {
                    assert!(!matches!(piece, Piece::Event { .. }), "{begin} {byte}");
                }
                let used;
                (state, used) = tokenizer.into_rest();
                from += used;
            }
            assert!(state.end().is_some_and(|end| end != End::Whole), "{begin} {byte}: {:?}", state.position);
            assert!(to < MAX_EARLY_LOSS + 2 * MAX_EVENT, "{begin} {byte}");
        }
        // What is lost later is searched for the next event.
        let text = format!("[{E},{E},{E},{E}{}{E}", "x".repeat(MAX_EARLY_LOSS));
        assert_eq!(pieces_of(text.as_bytes(), 1 << 18).0.iter().filter(|piece| *piece == E).count(), 5);
    }

    /// An event without its closing bracket takes none along that comes after it, however long the text is.
    #[test]
    fn an_event_that_stays_open_does_not_swallow_the_rest() {
        let whole = r#"{"ph":"X","name":"k"}"#;
        let count = 2 * MAX_EVENT / (whole.len() + 1);
        let text = format!(r#"[{{"ph":"X","d":[1,{}"#, vec![whole; count].join(","));
        let (found, end) = pieces_of(text.as_bytes(), 1 << 18);
        assert_eq!((found.len(), end), (count + 1, End::Whole));
        assert_eq!(found[0], "EventSyntax @1 17");
        assert!(found[1..].iter().all(|piece| piece == whole));
    }

    #[test]
    fn what_is_too_long_is_skipped() {
        let event = format!(r#"[{{"a":"{}"}},{{}}"#, "x".repeat(MAX_EVENT / 2 * 3));
        let header = format!(r#"{{"log":"{}","traceEvents":[{{}}]}}"#, "x".repeat(MAX_HEADER_FIELD / 4 * 5));
        for chunk in [1 << 18, usize::MAX / 2] {
            assert_eq!(
                pieces_of(event.as_bytes(), chunk),
                (vec!["EventTooLong @1 1572872".into(), "{}".into()], End::Whole)
            );
            assert_eq!(pieces_of(header.as_bytes(), chunk), (vec!["log too long @1".into(), "{}".into()], End::Whole));
        }
    }
}
