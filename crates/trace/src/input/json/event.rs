//! One event's text to an [`Event`]: its fields as spans of the text, and the rules of the Chrome trace format as Kineto writes it and
//! Perfetto reads it.

use std::cell::Cell;

use super::args::{IdFinder, KeptArgs, Owner};
use super::fields::{Field, Fields};
use super::keys::has_one_phase;
use super::list::{Events, Marked};
use super::marks::Marks;
use super::template::Templates;
use super::value::{Digits, Token, Walker, unescape};
use crate::damage::Damage;
use crate::event::{ArgList, ArgsWanted, AsyncId, Bind, Event, EventIds, Id, Kind, Scope, Text};
use crate::time::{Ns, TimeRule, scaled_decimal};

/// Turns event texts into events. Keeps the buffers that they share.
pub(super) struct Parser {
    time: TimeRule,
    args: Arguments,
    templates: Templates,
    /// Those of an event that has none of the known templates.
    fields: Fields,
    /// What was wrong with the event that was passed on last.
    faults: Vec<Damage>,
}

/// Reads the arguments of events. Keeps what they have in common.
struct Arguments {
    ids: IdFinder,
    kept: KeptArgs,
    list: ArgList,
}

impl Parser {
    pub(super) fn new(time: TimeRule, wanted: ArgsWanted) -> Self {
        Parser {
            time,
            args: Arguments { ids: IdFinder::new(), kept: KeptArgs::new(wanted), list: ArgList::default() },
            templates: Templates::default(),
            fields: Fields::default(),
            faults: Vec::new(),
        }
    }

    /// Whether the event that was passed on last has an invalid length, though its phase needs none: some readers give up there.
    /// `text` is the text that it was passed in.
    pub(super) fn has_bad_time(&self, text: &[u8], recognised: bool) -> bool {
        let fields = if recognised { self.templates.fields() } else { &self.fields };
        let is_bad = |field| match fields.get(text, field) {
            None => false,
            Some(Token::Number(number) | Token::Text(number)) => self.time.text_to_nanos(number).is_none(),
            Some(_) => true,
        };
        [Field::Dur, Field::Tts, Field::Tdur].into_iter().any(is_bad)
    }

    /// What was wrong with the event that was passed on last.
    #[inline]
    pub(super) fn faults(&mut self) -> impl Iterator<Item = Damage> {
        self.faults.drain(..)
    }

    /// Passes the event to `take` that was recognised or read last. `Err` is what is wrong with an event that has to be left out.
    #[inline]
    pub(super) fn parse(
        &mut self,
        event: Marked<'_>,
        recognised: bool,
        take: impl FnOnce(&Event<'_>),
    ) -> Result<(), Damage> {
        if recognised { self.parse_known(event, take) } else { self.parse_other(event, take) }
    }

    #[inline]
    fn parse_known(&mut self, event: Marked<'_>, take: impl FnOnce(&Event<'_>)) -> Result<(), Damage> {
        let Parser { time, args, templates, faults, .. } = self;
        meaning(*time, args, templates.fields(), faults, event, take)
    }

    fn parse_other(&mut self, event: Marked<'_>, take: impl FnOnce(&Event<'_>)) -> Result<(), Damage> {
        let Parser { time, args, templates, fields, faults } = self;
        // `{}` is no event, and no damage either.
        if fields.members.is_empty() {
            return Ok(());
        }
        // The recoverer reads others byte by byte, and has to read those that look like them, too.
        if has_one_phase(&event.text[event.at..]) {
            templates.learn(event.text, event.at, fields);
        }
        meaning(*time, args, fields, faults, event, take)
    }
}

impl Events for Parser {
    #[inline]
    fn recognise(&mut self, text: &[u8], at: usize, marks: &mut Marks) -> Option<usize> {
        self.templates.recognise(text, at, marks)
    }

    fn read(&mut self, text: &[u8], at: usize, marks: &mut Marks) -> bool {
        self.fields.read(text, at, marks).is_ok()
    }
}

/// Passes the event with these fields to `take`, because it is too large to be returned by value.
#[inline]
fn meaning(
    time: TimeRule,
    args: &mut Arguments,
    fields: &Fields,
    faults: &mut Vec<Damage>,
    event: Marked<'_>,
    take: impl FnOnce(&Event<'_>),
) -> Result<(), Damage> {
    let Marked { text, marks, .. } = event;
    let get = |field| fields.get(text, field);
    // A time: a number, or text that is nothing but a number.
    let has_text_time = Cell::new(false);
    let nanos = |field| {
        let Digits { value, decimals } = fields.digits(field);
        time.digits_to_nanos(value, decimals).or_else(|| {
            if fields.has(field) { unusual_time(time, fields.get(text, field), &has_text_time) } else { None }
        })
    };
    let phase = phase(fields, text).ok_or(Damage::EventWithoutTimestamp)?;
    let ts = match nanos(Field::Ts) {
        Some(ts) => ts,
        None if phase == b'M' => Ns::ZERO,
        None => return Err(Damage::EventWithoutTimestamp),
    };
    let ids = args.read(text, fields, phase != b'M', marks, faults);
    let kind = match phase {
        b'X' => match get(Field::Dur) {
            None => return Err(Damage::IncompleteEvent),
            Some(_) => Kind::Complete { dur: nanos(Field::Dur).ok_or(Damage::InvalidDuration)? },
        },
        _ => other_kind(phase, fields, text)?,
    };
    let bind = bind(&kind, fields, text);
    take(&Event {
        kind,
        ts,
        pid: thread_id(fields, text, Field::Pid),
        tid: thread_id(fields, text, Field::Tid),
        name: nonempty(get(Field::Name)),
        category: nonempty(get(Field::Cat)),
        ids,
        thread_time: (nanos(Field::Tts), nanos(Field::Tdur)),
        bind,
        args: &args.list,
    });
    if fields.has_duplicates {
        faults.push(Damage::DuplicateKey);
    }
    if has_text_time.get() {
        faults.push(Damage::TextTime);
    }
    Ok(())
}

#[inline]
fn phase(fields: &Fields, text: &[u8]) -> Option<u8> {
    match fields.get(text, Field::Ph) {
        Some(Token::Text(raw @ [b'\\', ..])) => Some(first_of(raw)),
        Some(Token::Text([first, ..])) => Some(*first),
        _ => None,
    }
}

/// The flow that is bound to a slice.
#[inline]
fn bind(kind: &Kind<'_>, fields: &Fields, text: &[u8]) -> Option<Bind> {
    let id = fields.get(text, Field::BindId)?;
    if !matches!(kind, Kind::Complete { .. } | Kind::Begin | Kind::AsyncBegin(_) | Kind::AsyncInstant(_)) {
        return None;
    }
    let is_true = |field| fields.get(text, field) == Some(Token::True);
    Some(Bind { id: flow_id(Some(id)), flow_in: is_true(Field::FlowIn), flow_out: is_true(Field::FlowOut) })
}

/// The time of a value that is no simple number.
#[cold]
#[inline(never)]
fn unusual_time(time: TimeRule, value: Option<Token<'_>>, is_text: &Cell<bool>) -> Option<Ns> {
    match value? {
        Token::Number(text) => time.text_to_nanos(text),
        Token::Text(text) => time.text_to_nanos(unescape(text).as_bytes()).inspect(|_| is_text.set(true)),
        _ => None,
    }
}

impl Arguments {
    /// Reads the arguments into the list, and returns the ids among them. Those of metadata are read elsewhere.
    // A call for each event would pass all of this through memory.
    #[inline(always)]
    fn read(
        &mut self,
        text: &[u8],
        fields: &Fields,
        are_read: bool,
        marks: &mut Marks,
        faults: &mut Vec<Damage>,
    ) -> EventIds {
        self.list.clear();
        let (Some(Token::Object(_)), true) = (fields.get(text, Field::Args), are_read) else { return EventIds::NONE };
        let (kind, object) = (fields.category_kind(text), fields.range(Field::Args));
        let ids = self.ids.find(kind, text, object.clone(), &fields.ids, marks);
        let has_category = nonempty(fields.get(text, Field::Cat)).is_some();
        let name = if let Some(Token::Text(name)) = fields.get(text, Field::Name) { name } else { &[] };
        let owner = Owner { kind, has_category, ids: &ids, name, is_flat: fields.ids.are_all };
        self.kept.read(owner, text, object, marks, &mut self.list, faults);
        ids
    }
}

fn other_kind<'a>(phase: u8, fields: &Fields, text: &'a [u8]) -> Result<Kind<'a>, Damage> {
    let get = |field| fields.get(text, field);
    Ok(match phase {
        b'B' => Kind::Begin,
        b'E' => Kind::End,
        b'b' => Kind::AsyncBegin(async_id(fields, text)?),
        b'e' => Kind::AsyncEnd(async_id(fields, text)?),
        b'n' => Kind::AsyncInstant(async_id(fields, text)?),
        b'i' | b'I' | b'R' => {
            let scope = if let Some(Token::Text(raw)) = get(Field::S) { first_of(raw) } else { 0 };
            match (scope, get(Field::Pid), get(Field::Tid)) {
                (b'g', _, _) => Kind::Instant(Scope::Global),
                (b'p', Some(_), _) => Kind::Instant(Scope::Process),
                (b'p', None, _) | (_, _, None) => return Err(Damage::IncompleteEvent),
                _ => Kind::Instant(Scope::Thread),
            }
        }
        b's' => Kind::FlowStart(flow_id(get(Field::Id))),
        b't' => Kind::FlowStep(flow_id(get(Field::Id))),
        b'f' => Kind::FlowEnd { id: flow_id(get(Field::Id)), enclosing: encloses(get(Field::Bp)) },
        b'M' => metadata(fields, text)?,
        _ => Kind::Other,
    })
}

/// The first byte of a text.
fn first_of(raw: &[u8]) -> u8 {
    unescape(raw).bytes().next().unwrap_or_default()
}

/// Whether a text is this one: letters may be written as escapes, though no known program does so.
fn is_text(raw: &[u8], what: &str) -> bool {
    raw == what.as_bytes() || raw.contains(&b'\\') && unescape(raw) == what
}

fn encloses(binding_point: Option<Token<'_>>) -> bool {
    matches!(binding_point, Some(Token::Text(raw)) if is_text(raw, "e"))
}

fn nonempty(token: Option<Token<'_>>) -> Option<Text<'_>> {
    match token {
        Some(Token::Text(raw)) if !raw.is_empty() => Some(Text { raw, decode: unescape }),
        _ => None,
    }
}

/// Process and thread ids: whole numbers of 32 bits; negative and larger ones count as 0, fractions are truncated.
#[inline]
fn thread_id<'a>(fields: &Fields, text: &'a [u8], field: Field) -> Id<'a> {
    match fields.get(text, field) {
        Some(Token::Text(raw)) => Id::Text(unescape(raw)),
        Some(Token::Number(digits)) => {
            let value = fields.digits(field).whole().or_else(|| {
                let is_whole = digits.iter().all(u8::is_ascii_digit);
                if is_whole { scaled_decimal(digits, 0) } else { None }
            });
            let value = value.or_else(|| {
                // A fraction is truncated, where the conversion above would round it.
                std::str::from_utf8(digits).ok().and_then(|t| t.parse::<f64>().ok()).map(|v| v.trunc() as i64)
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
            let text = unescape(raw);
            let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(&text);
            if digits.starts_with('+') {
                return None;
            }
            u64::from_str_radix(digits, 16).ok()
        }
        _ => None,
    }
}

/// The track of an asynchronous event. It needs a process and an id; `id` goes before `id2`, `global` before `local`.
fn async_id<'a>(fields: &Fields, text: &'a [u8]) -> Result<AsyncId<'a>, Damage> {
    if fields.get(text, Field::Pid).is_none() {
        return Err(Damage::IncompleteEvent);
    }
    // The quotes around text keep it apart from numbers.
    let as_text = |token: Token<'a>| match token {
        Token::Text(raw) => Some(std::borrow::Cow::Owned(format!("\"{}\"", unescape(raw)))),
        Token::Number(raw) => Some(String::from_utf8_lossy(raw)),
        _ => None,
    };
    if let Some(id) = fields.get(text, Field::Id).and_then(as_text) {
        return Ok(AsyncId { id, per_process: false });
    }
    let Some(Token::Object(object)) = fields.get(text, Field::Id2) else { return Err(Damage::IncompleteEvent) };
    let (mut global, mut local) = (None, None);
    let mut walker = Walker::new(object);
    while let Ok(Some((key, value))) = walker.member() {
        if is_text(key, "global") {
            global = as_text(value);
        } else if is_text(key, "local") {
            local = as_text(value);
        }
    }
    let per_process = global.is_none();
    global.or(local).map(|id| AsyncId { id, per_process }).ok_or(Damage::IncompleteEvent)
}

fn metadata<'a>(fields: &Fields, text: &'a [u8]) -> Result<Kind<'a>, Damage> {
    let Some(Token::Text(name)) = fields.get(text, Field::Name) else { return Ok(Kind::Metadata) };
    let Some(Token::Object(object)) = fields.get(text, Field::Args) else { return Ok(Kind::Metadata) };
    let name = &*unescape(name);
    let wanted = match name {
        "process_name" | "thread_name" => "name",
        "process_sort_index" | "thread_sort_index" => "sort_index",
        _ => return Ok(Kind::Metadata),
    };
    let mut value = None;
    let mut walker = Walker::new(object);
    while let Ok(Some((key, token))) = walker.member() {
        if is_text(key, wanted) {
            value = Some(token);
        }
    }
    Ok(match (name, value) {
        ("process_name", Some(Token::Text(raw))) if !raw.is_empty() => Kind::ProcessName(unescape(raw)),
        ("thread_name", Some(Token::Text(raw))) if !raw.is_empty() => Kind::ThreadName(unescape(raw)),
        ("process_sort_index", Some(Token::Number(text))) => Kind::ProcessSortIndex(index(text)?),
        ("thread_sort_index", Some(Token::Number(text))) => Kind::ThreadSortIndex(index(text)?),
        _ => return Err(Damage::IncompleteEvent),
    })
}

/// A sort index: a whole number, as in Perfetto.
fn index(text: &[u8]) -> Result<i64, Damage> {
    let is_whole = !text.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
    scaled_decimal(text, 0).filter(|_| is_whole).ok_or(Damage::IncompleteEvent)
}
