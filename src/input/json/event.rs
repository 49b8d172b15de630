//! One event's text to an [`Event`]: the rules of the Chrome trace format as Kineto writes it and Perfetto reads it.

use super::args;
use super::cut::Marked;
use super::marks::Marks;
use super::scan::{Token, Walker};
use super::text::unescape;
use crate::damage::Damage;
use crate::event::{ArgList, ArgsWanted, AsyncId, Bind, Event, Id, Kind, Scope};
use crate::time::{TimeRule, scaled_decimal};

/// Turns event texts into events. Keeps the buffers that they share.
pub(super) struct Parser {
    time: TimeRule,
    wanted: Wanted,
    args: ArgList,
}

/// Which arguments to read, made ready.
enum Wanted {
    All,
    Keys(args::Keys),
}

/// The fields of one event as they stand in the text. Of a key that comes twice the last counts.
#[derive(Default)]
struct Fields<'a> {
    ph: Option<Token<'a>>,
    cat: Option<Token<'a>>,
    name: Option<Token<'a>>,
    pid: Option<Token<'a>>,
    tid: Option<Token<'a>>,
    ts: Option<Token<'a>>,
    dur: Option<Token<'a>>,
    tts: Option<Token<'a>>,
    tdur: Option<Token<'a>>,
    id: Option<Token<'a>>,
    id2: Option<Token<'a>>,
    bp: Option<Token<'a>>,
    s: Option<Token<'a>>,
    args: Option<Token<'a>>,
    bind_id: Option<Token<'a>>,
    flow_in: Option<Token<'a>>,
    flow_out: Option<Token<'a>>,
}

impl<'a> Fields<'a> {
    /// `Ok(None)` for an empty object, which is no event and no damage either.
    fn read(text: &'a [u8], at: usize, marks: &mut Marks) -> Result<Option<Self>, Damage> {
        let mut fields = Fields::default();
        let mut walker = Walker::marked(text, at, marks);
        let mut empty = true;
        while let Some((key, value)) = walker.member().map_err(|_| Damage::EventSyntax)? {
            empty = false;
            if let Some(slot) = fields.slot(key) {
                *slot = Some(value);
            } else if key.contains(&b'\\')
                && let Some(slot) = fields.slot(unescape(key).as_bytes())
            {
                *slot = Some(value);
            }
        }
        Ok((!empty).then_some(fields))
    }

    fn slot(&mut self, key: &[u8]) -> Option<&mut Option<Token<'a>>> {
        Some(match key {
            b"ph" => &mut self.ph,
            b"cat" => &mut self.cat,
            b"name" => &mut self.name,
            b"pid" => &mut self.pid,
            b"tid" => &mut self.tid,
            b"ts" => &mut self.ts,
            b"dur" => &mut self.dur,
            b"tts" => &mut self.tts,
            b"tdur" => &mut self.tdur,
            b"id" => &mut self.id,
            b"id2" => &mut self.id2,
            b"bp" => &mut self.bp,
            b"s" => &mut self.s,
            b"args" => &mut self.args,
            b"bind_id" => &mut self.bind_id,
            b"flow_in" => &mut self.flow_in,
            b"flow_out" => &mut self.flow_out,
            _ => return None,
        })
    }
}

impl Parser {
    pub(super) fn new(time: TimeRule, wanted: ArgsWanted) -> Self {
        let wanted = match wanted {
            ArgsWanted::All => Wanted::All,
            ArgsWanted::Keys(keys) => Wanted::Keys(args::Keys::new(keys)),
        };
        Parser { time, wanted, args: ArgList::default() }
    }

    /// Reads one event object. `Ok(None)` for `{}`; `Err` says what is wrong with an event that has to be left out.
    pub(super) fn parse<'a>(&'a mut self, event: Marked<'a>) -> Result<Option<Event<'a>>, Damage> {
        let Marked { text, at, marks } = event;
        let Some(fields) = Fields::read(text, at, marks)? else { return Ok(None) };
        let phase = match fields.ph {
            Some(Token::Text([phase, ..])) => *phase,
            _ => return Err(Damage::EventWithoutTimestamp),
        };
        let ts = match self.nanos(fields.ts) {
            Some(ts) => ts,
            None if phase == b'M' => 0,
            None => return Err(Damage::EventWithoutTimestamp),
        };
        self.args.clear();
        if let (Some(Token::Object(object)), true) = (fields.args, phase != b'M') {
            match &self.wanted {
                Wanted::All => args::flatten(object, &mut self.args),
                Wanted::Keys(keys) => keys.pick(text, object, marks, &mut self.args),
            }
        }
        let kind = self.kind(phase, &fields)?;
        let bind = match fields.bind_id {
            Some(token)
                if matches!(
                    kind,
                    Kind::Complete { .. } | Kind::Begin | Kind::AsyncBegin(_) | Kind::AsyncInstant(_)
                ) =>
            {
                let flow_in = fields.flow_in == Some(Token::True);
                let flow_out = fields.flow_out == Some(Token::True);
                Some(Bind { id: flow_id(Some(token)), flow_in, flow_out })
            }
            _ => None,
        };
        Ok(Some(Event {
            kind,
            ts,
            pid: thread_id(fields.pid),
            tid: thread_id(fields.tid),
            name: nonempty(fields.name),
            category: nonempty(fields.cat),
            thread_time: (self.nanos(fields.tts), self.nanos(fields.tdur)),
            bind,
            args: &self.args,
        }))
    }

    fn kind<'a>(&self, phase: u8, fields: &Fields<'a>) -> Result<Kind<'a>, Damage> {
        Ok(match phase {
            b'X' => match fields.dur {
                None => return Err(Damage::IncompleteEvent),
                some => Kind::Complete { dur: self.nanos(some).ok_or(Damage::InvalidDuration)? },
            },
            b'B' => Kind::Begin,
            b'E' => Kind::End,
            b'b' => Kind::AsyncBegin(async_id(fields)?),
            b'e' => Kind::AsyncEnd(async_id(fields)?),
            b'n' => Kind::AsyncInstant(async_id(fields)?),
            b'i' | b'I' | b'R' => match (fields.s, fields.pid, fields.tid) {
                (Some(Token::Text([b'g', ..])), _, _) => Kind::Instant(Scope::Global),
                (Some(Token::Text([b'p', ..])), Some(_), _) => Kind::Instant(Scope::Process),
                (Some(Token::Text([b'p', ..])), None, _) | (_, _, None) => return Err(Damage::IncompleteEvent),
                _ => Kind::Instant(Scope::Thread),
            },
            b's' => Kind::FlowStart(flow_id(fields.id)),
            b't' => Kind::FlowStep(flow_id(fields.id)),
            b'f' => Kind::FlowEnd { id: flow_id(fields.id), enclosing: fields.bp == Some(Token::Text(b"e")) },
            b'M' => metadata(fields)?,
            _ => Kind::Other,
        })
    }

    /// A time in microseconds: a number, or text that is nothing but a number.
    fn nanos(&self, token: Option<Token<'_>>) -> Option<i64> {
        match token? {
            Token::Number(text) | Token::Text(text) => self.time.micros_to_nanos(text),
            _ => None,
        }
    }
}

fn nonempty<'a>(token: Option<Token<'a>>) -> Option<std::borrow::Cow<'a, str>> {
    match token {
        Some(Token::Text(raw)) if !raw.is_empty() => Some(unescape(raw)),
        _ => None,
    }
}

/// Process and thread ids: whole numbers of 32 bits; negative and larger ones count as 0, fractions are cut off.
fn thread_id<'a>(token: Option<Token<'a>>) -> Id<'a> {
    match token {
        Some(Token::Text(raw)) => Id::Text(unescape(raw)),
        Some(Token::Number(text)) => {
            let value = scaled_decimal(text, 0).filter(|_| text.iter().all(u8::is_ascii_digit)).or_else(|| {
                // A fraction is cut off, where the conversion above would round it.
                std::str::from_utf8(text).ok().and_then(|t| t.parse::<f64>().ok()).map(|v| v.trunc() as i64)
            });
            Id::Number(value.and_then(|v| u32::try_from(v).ok()).unwrap_or(0))
        }
        _ => Id::Absent,
    }
}

/// The id of a flow: text is hexadecimal with or without `0x`, so `"10"` is 16; a number is itself, negative ones wrap.
fn flow_id(token: Option<Token<'_>>) -> Option<u64> {
    match token? {
        Token::Number(text) => {
            if text.iter().any(|b| matches!(b, b'.' | b'e' | b'E')) {
                return None;
            }
            scaled_decimal(text, 0).map(|id| id as u64)
        }
        Token::Text(raw) => {
            let raw = std::str::from_utf8(raw).ok()?;
            let digits = raw.strip_prefix("0x").or_else(|| raw.strip_prefix("0X")).unwrap_or(raw);
            if digits.starts_with('+') {
                return None;
            }
            u64::from_str_radix(digits, 16).ok()
        }
        _ => None,
    }
}

/// The track of an asynchronous event. It needs a process and an id; `id` goes before `id2`, `global` before `local`.
fn async_id<'a>(fields: &Fields<'a>) -> Result<AsyncId<'a>, Damage> {
    if fields.pid.is_none() {
        return Err(Damage::IncompleteEvent);
    }
    // Text and number stay apart by the quotes that stand around the one and not around the other.
    let as_text = |token: Token<'a>| match token {
        Token::Text(raw) => Some(std::borrow::Cow::Owned(format!("\"{}\"", unescape(raw)))),
        Token::Number(raw) => Some(String::from_utf8_lossy(raw)),
        _ => None,
    };
    if let Some(id) = fields.id.and_then(as_text) {
        return Ok(AsyncId { id, per_process: false });
    }
    let Some(Token::Object(object)) = fields.id2 else { return Err(Damage::IncompleteEvent) };
    let (mut global, mut local) = (None, None);
    let mut walker = Walker::new(object);
    while let Ok(Some((key, value))) = walker.member() {
        match key {
            b"global" => global = as_text(value),
            b"local" => local = as_text(value),
            _ => {}
        }
    }
    let per_process = global.is_none();
    global.or(local).map(|id| AsyncId { id, per_process }).ok_or(Damage::IncompleteEvent)
}

fn metadata<'a>(fields: &Fields<'a>) -> Result<Kind<'a>, Damage> {
    let Some(Token::Text(name)) = fields.name else { return Ok(Kind::Other) };
    let Some(Token::Object(object)) = fields.args else { return Ok(Kind::Other) };
    let wanted: &[u8] = match name {
        b"process_name" | b"thread_name" => b"name",
        b"process_sort_index" | b"thread_sort_index" => b"sort_index",
        _ => return Ok(Kind::Other),
    };
    let mut value = None;
    let mut walker = Walker::new(object);
    while let Ok(Some((key, token))) = walker.member() {
        if key == wanted {
            value = Some(token);
        }
    }
    Ok(match (name, value) {
        (b"process_name", Some(Token::Text(raw))) if !raw.is_empty() => Kind::ProcessName(unescape(raw)),
        (b"thread_name", Some(Token::Text(raw))) if !raw.is_empty() => Kind::ThreadName(unescape(raw)),
        (b"process_sort_index", Some(Token::Number(text))) => {
            Kind::ProcessSortIndex(scaled_decimal(text, 0).ok_or(Damage::IncompleteEvent)?)
        }
        (b"thread_sort_index", Some(Token::Number(text))) => {
            Kind::ThreadSortIndex(scaled_decimal(text, 0).ok_or(Damage::IncompleteEvent)?)
        }
        _ => return Err(Damage::IncompleteEvent),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(text: &str, see: impl FnOnce(Result<Option<Event<'_>>, Damage>) -> T) -> T {
        let event = Marked { text: text.as_bytes(), at: 0, marks: &mut Marks::default() };
        see(Parser::new(TimeRule::Exact, ArgsWanted::All).parse(event))
    }

    fn ids(pid: &str) -> Id<'static> {
        with(&format!(r#"{{"ph":"X","ts":1,"dur":1,"pid":{pid}}}"#), |event| match event.unwrap().unwrap().pid {
            Id::Text(text) => Id::Text(text.into_owned().into()),
            Id::Number(n) => Id::Number(n),
            Id::Absent => Id::Absent,
        })
    }

    #[test]
    fn process_and_thread_ids() {
        assert_eq!(ids("4294967295"), Id::Number(u32::MAX));
        assert_eq!(ids("4294967296"), Id::Number(0));
        assert_eq!(ids("-1"), Id::Number(0));
        assert_eq!(ids("7.9"), Id::Number(7));
        assert_eq!(ids("\"stream 7\""), Id::Text("stream 7".into()));
        assert_eq!(ids("null"), Id::Absent);
    }

    #[test]
    fn times_may_be_text_and_must_be_numbers() {
        with(r#"{"ph":"X","ts":"5.1","dur":"2","name":"a"}"#, |event| {
            let event = event.unwrap().unwrap();
            assert_eq!(event.ts, 5_100);
            assert!(matches!(event.kind, Kind::Complete { dur: 2_000 }));
        });
        for (text, want) in [
            (r#"{"ph":"X","ts":"100a","dur":1}"#, Damage::EventWithoutTimestamp),
            (r#"{"ph":"X","ts":null,"dur":1}"#, Damage::EventWithoutTimestamp),
            (r#"{"ph":"X","dur":1}"#, Damage::EventWithoutTimestamp),
            (r#"{"ts":1,"dur":1}"#, Damage::EventWithoutTimestamp),
            (r#"{"ph":"","ts":1}"#, Damage::EventWithoutTimestamp),
            (r#"{"ph":"X","ts":1}"#, Damage::IncompleteEvent),
            (r#"{"ph":"X","ts":1,"dur":null}"#, Damage::InvalidDuration),
            (r#"{"ph":"X","ts":1,"dur" 1,"name":"a"}"#, Damage::EventSyntax),
            (r#"{"ph":"b","ts":1,"pid":1}"#, Damage::IncompleteEvent),
            (r#"{"ph":"i","ts":1,"pid":1,"s":"t"}"#, Damage::IncompleteEvent),
            (r#"{"ph":"i","ts":1,"tid":1,"s":"p"}"#, Damage::IncompleteEvent),
            (r#"{"ph":"M","name":"thread_name","args":{"name":""}}"#, Damage::IncompleteEvent),
        ] {
            with(text, |event| assert_eq!(event.unwrap_err(), want, "{text}"));
        }
        with("{ }", |event| assert!(event.unwrap().is_none()));
        with(r#"{"ph":"M","name":"process_labels","args":{"labels":"GPU 0"}}"#, |event| {
            assert!(matches!(event.unwrap().unwrap().kind, Kind::Other));
        });
    }

    #[test]
    fn flow_ids_are_hexadecimal_in_text() {
        for (id, want) in [
            ("16", Some(16)),
            ("\"10\"", Some(16)),
            ("\"0x402\"", Some(0x402)),
            ("\"402\"", Some(0x402)),
            ("-1", Some(u64::MAX)),
            ("1.5", None),
            ("\"\"", None),
            ("\"12 x\"", None),
            ("null", None),
        ] {
            with(&format!(r#"{{"ph":"s","ts":1,"id":{id}}}"#), |event| {
                let Kind::FlowStart(got) = event.unwrap().unwrap().kind else { panic!() };
                assert_eq!(got, want, "{id}");
            });
        }
    }

    #[test]
    fn the_last_of_equal_keys_counts_and_escaped_keys_are_keys() {
        with(r#"{"ph":"X","ts":1,"dur":1,"name":"a","n\u0061me":"b"}"#, |event| {
            assert_eq!(event.unwrap().unwrap().name.unwrap(), "b");
        });
    }
}
