//! The text between the braces of one event: what is read from it equals what serde_json and plain arithmetic compute.
//!
//! Left out: the ids among the arguments, which are searched where Kineto writes them, and what [`super::cutter`] leaves out. For text
//! that is not JSON, the only claim is that it does no harm.

use std::borrow::Cow;

use nccl_stacks::damage::Damage;
use nccl_stacks::event::{ArgValue, ArgsWanted, AsyncId, Bind, Event, Id, Kind, Scope};
use nccl_stacks::time::Ns;

use super::plain;

/// Arguments that are nested deeper, or have longer keys, are not kept unchanged.
const MAX_DEPTH: usize = 60;
const MAX_KEYS: usize = 1000;

/// What is compared.
#[derive(Debug, PartialEq)]
struct Content {
    fields: String,
    args: Vec<(String, String, ArgValue<String>)>,
}

/// `Err`: why there is no event; `None` if no reason is counted.
type Outcome = Result<Content, Option<Damage>>;

pub fn check(bytes: &[u8]) {
    let text = [b"[{", bytes, b"}]"].concat();
    let (mut reader, division) = (plain::reader(ArgsWanted::All), plain::in_order(text.len() + 1));
    let (mut found, summary) = plain::read(&mut reader, &text[..], division, |event, _| fields_and_args(event));
    let (damage, count) = (summary.damage, found.len());
    let event = &text[1..text.len() - 1];
    let has_two_phases = memchr::memmem::find_iter(event, b"\"ph\"").nth(1).is_some();
    if has_two_phases || !plain::is_valid(event) {
        return;
    }
    let got = match found.pop() {
        Some(content) => Ok(content),
        None => Err(damage.iter().find(|(d, tally)| d.cost.is_fault() && tally.count > 0).map(|(d, _)| d.kind)),
    };
    assert!(count <= 1);
    let Some(wanted) = outcome(event) else { return };
    assert_eq!(got, wanted);
}

fn fields_and_args(event: &Event<'_>) -> Content {
    let args = event.args.iter().map(|(key, flat, value)| (key.to_owned(), flat.to_owned(), owned(value))).collect();
    Content { fields: fields(event), args }
}

fn owned(value: ArgValue<&str>) -> ArgValue<String> {
    match value {
        ArgValue::Int(value) => ArgValue::Int(value),
        ArgValue::Real(value) => ArgValue::Real(value),
        ArgValue::Bool(value) => ArgValue::Bool(value),
        ArgValue::Text(value) => ArgValue::Text(value.to_owned()),
    }
}

fn fields(event: &Event<'_>) -> String {
    let Event { kind, ts, pid, tid, name, category, thread_time, bind, .. } = event;
    let texts = (name.map(|text| text.decoded()), category.map(|text| text.decoded()));
    format!("{kind:?} {ts} {pid:?} {tid:?} {texts:?} {thread_time:?} {bind:?}")
}

/// A value as it is in the text.
#[derive(Debug, Clone, PartialEq)]
enum Value<'a> {
    Text(String),
    Number(&'a str),
    Object(&'a [u8]),
    Array(&'a [u8]),
    True,
    False,
    Null,
}

impl<'a> Value<'a> {
    fn new(raw: &'a [u8]) -> Self {
        match raw[0] {
            b'"' => Value::Text(serde_json::from_slice(raw).unwrap()),
            b'{' => Value::Object(raw),
            b'[' => Value::Array(raw),
            b't' => Value::True,
            b'-' | b'0'..=b'9' => Value::Number(std::str::from_utf8(raw).unwrap()),
            b'f' => Value::False,
            _ => Value::Null,
        }
    }

    /// A time, or text that is one, in ns.
    fn nanos(&self) -> Option<Ns> {
        match self {
            Value::Text(text) => decimal(text, 3).map(Ns),
            Value::Number(text) => decimal(text, 3).map(Ns),
            _ => None,
        }
    }

    /// A whole number without point and exponent.
    fn whole(&self) -> Option<i64> {
        if let Value::Number(text) = self { text.parse().ok() } else { None }
    }

    fn text(self) -> Option<String> {
        if let Value::Text(text) = self { Some(text).filter(|text| !text.is_empty()) } else { None }
    }

    fn flow_id(&self) -> Option<u64> {
        match self {
            Value::Number(_) => self.whole().map(|id| id as u64),
            Value::Text(text) => {
                let digits = text.strip_prefix("0x").or(text.strip_prefix("0X")).unwrap_or(text);
                let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                if is_hex { u64::from_str_radix(digits, 16).ok() } else { None }
            }
            _ => None,
        }
    }
}

/// The number in a text times a power of ten, rounded half away from zero, by moving the decimal point among the digits.
fn decimal(text: &str, scale: i64) -> Option<i64> {
    // The text must be a number and nothing else; a number too large for a double counts, too.
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let is_number =
        |mantissa: &str| serde_json::from_str::<serde_json::Number>(mantissa).is_ok() && mantissa.trim() == mantissa;
    if !is_number(mantissa) || !is_number(&format!("{}e{}", 1, exponent.replace(|c: char| c.is_ascii_digit(), "0"))) {
        return None;
    }
    let exponent = exponent.parse::<i64>().unwrap_or(if exponent.starts_with('-') { -1_000_000 } else { 1_000_000 });
    let exponent = exponent.clamp(-1_000_000, 1_000_000) + scale;
    let unsigned = mantissa.trim_start_matches('-');
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = [whole, fraction].concat();
    let point = whole.len() as i64 + exponent;
    let first = digits.bytes().position(|digit| digit != b'0');
    let Some(first) = first else { return Some(0) };
    if point - first as i64 > 20 {
        return None;
    }
    let digit =
        |at: i64| usize::try_from(at).ok().and_then(|at| digits.as_bytes().get(at)).map_or(0, |d| i128::from(d - b'0'));
    let mut value = 0i128;
    for at in first as i64..point {
        value = value * 10 + digit(at);
    }
    value += i128::from(digit(point) >= 5);
    i64::try_from(if mantissa.starts_with('-') { -value } else { value }).ok()
}

fn thread_id(value: Option<Value<'_>>) -> Id<'static> {
    match value {
        Some(Value::Text(text)) => Id::Text(text.into()),
        Some(Value::Number(text)) => {
            let is_whole = text.bytes().all(|byte| byte.is_ascii_digit());
            let value =
                if is_whole { text.parse::<i64>().ok() } else { text.parse::<f64>().ok().map(|v| v.trunc() as i64) };
            Id::Number(value.and_then(|value| u32::try_from(value).ok()).unwrap_or(0))
        }
        _ => Id::Absent,
    }
}

/// The expected outcome of an event; `None` if its arguments are not kept unchanged.
fn outcome(event: &[u8]) -> Option<Outcome> {
    let members: Vec<(String, Value<'_>)> = plain::members(event, 0)
        .into_iter()
        .map(|(key, value)| (serde_json::from_slice(&event[key]).unwrap(), Value::new(&event[value])))
        .collect();
    let get = |wanted: &str| members.iter().rev().find(|(key, _)| key == wanted).map(|(_, value)| value.clone());
    if members.is_empty() {
        return Some(Err(None));
    }
    let no_time = Some(Err(Some(Damage::EventWithoutTimestamp)));
    let Some(phase) = get("ph").and_then(Value::text).and_then(|text| text.chars().next()) else { return no_time };
    let ts = match get("ts").and_then(|value| value.nanos()) {
        Some(ts) => ts,
        None if phase == 'M' => Ns::ZERO,
        None => return no_time,
    };
    let mut args = Vec::new();
    if let (Some(Value::Object(object)), true) = (get("args"), phase != 'M') {
        flatten(Value::Object(object), "args", "args", 0, &mut args)?;
    }
    let kind = match kind(phase, &get) {
        Ok(kind) => kind,
        Err(damage) => return Some(Err(Some(damage))),
    };
    let binds = matches!(kind, Kind::Complete { .. } | Kind::Begin | Kind::AsyncBegin(_) | Kind::AsyncInstant(_));
    let bind = get("bind_id").filter(|_| binds).map(|id| Bind {
        id: id.flow_id(),
        flow_in: get("flow_in") == Some(Value::True),
        flow_out: get("flow_out") == Some(Value::True),
    });
    let thread_time = (get("tts").and_then(|v| v.nanos()), get("tdur").and_then(|v| v.nanos()));
    let (name, category) = (get("name").and_then(Value::text), get("cat").and_then(Value::text));
    let (pid, tid) = (thread_id(get("pid")), thread_id(get("tid")));
    let fields = format!("{kind:?} {ts} {pid:?} {tid:?} {:?} {thread_time:?} {bind:?}", (name, category));
    Some(Ok(Content { fields, args }))
}

fn kind<'a>(phase: char, get: &impl Fn(&str) -> Option<Value<'a>>) -> Result<Kind<'static>, Damage> {
    let text = |key: &str| get(key).and_then(Value::text).unwrap_or_default();
    let flow = || get("id").and_then(|id| id.flow_id());
    Ok(match phase {
        'X' => {
            let dur = get("dur").ok_or(Damage::IncompleteEvent)?.nanos();
            Kind::Complete { dur: dur.ok_or(Damage::InvalidDuration)? }
        }
        'B' => Kind::Begin,
        'E' => Kind::End,
        'b' => Kind::AsyncBegin(async_id(get)?),
        'e' => Kind::AsyncEnd(async_id(get)?),
        'n' => Kind::AsyncInstant(async_id(get)?),
        'i' | 'I' | 'R' => match text("s").chars().next() {
            Some('g') => Kind::Instant(Scope::Global),
            Some('p') => get("pid").map(|_| Kind::Instant(Scope::Process)).ok_or(Damage::IncompleteEvent)?,
            _ => get("tid").map(|_| Kind::Instant(Scope::Thread)).ok_or(Damage::IncompleteEvent)?,
        },
        's' => Kind::FlowStart(flow()),
        't' => Kind::FlowStep(flow()),
        'f' => Kind::FlowEnd { id: flow(), enclosing: text("bp") == "e" },
        'M' => metadata(&text("name"), get("args"))?,
        _ => Kind::Other,
    })
}

fn metadata(name: &str, args: Option<Value<'_>>) -> Result<Kind<'static>, Damage> {
    let Some(Value::Object(object)) = args else { return Ok(Kind::Metadata) };
    let arg = |wanted: &str| {
        let is_wanted = |key: &[u8]| serde_json::from_slice::<String>(key).unwrap() == wanted;
        let found = plain::members(object, 0).into_iter().rev().find(|(key, _)| is_wanted(&object[key.clone()]));
        found.map(|(_, value)| Value::new(&object[value]))
    };
    let text = || arg("name").and_then(Value::text).map(Cow::Owned).ok_or(Damage::IncompleteEvent);
    let index = || arg("sort_index").and_then(|value| value.whole()).ok_or(Damage::IncompleteEvent);
    Ok(match name {
        "process_name" => Kind::ProcessName(text()?),
        "thread_name" => Kind::ThreadName(text()?),
        "process_sort_index" => Kind::ProcessSortIndex(index()?),
        "thread_sort_index" => Kind::ThreadSortIndex(index()?),
        _ => Kind::Metadata,
    })
}

fn async_id<'a>(get: &impl Fn(&str) -> Option<Value<'a>>) -> Result<AsyncId<'static>, Damage> {
    let of = |value: Value<'_>| match value {
        Value::Text(text) => Some(Cow::Owned(format!("\"{text}\""))),
        Value::Number(text) => Some(Cow::Owned(text.to_owned())),
        _ => None,
    };
    get("pid").ok_or(Damage::IncompleteEvent)?;
    if let Some(id) = get("id").and_then(of) {
        return Ok(AsyncId { id, per_process: false });
    }
    let Some(Value::Object(object)) = get("id2") else { return Err(Damage::IncompleteEvent) };
    let member = |wanted: &str| {
        let is_wanted = |key: &[u8]| serde_json::from_slice::<String>(key).unwrap() == wanted;
        let found = plain::members(object, 0).into_iter().rev().find(|(key, _)| is_wanted(&object[key.clone()]));
        found.and_then(|(_, value)| of(Value::new(&object[value])))
    };
    match (member("global"), member("local")) {
        (Some(id), _) => Ok(AsyncId { id, per_process: false }),
        (None, Some(id)) => Ok(AsyncId { id, per_process: true }),
        (None, None) => Err(Damage::IncompleteEvent),
    }
}

/// `None` if this value is not kept unchanged.
fn flatten(
    value: Value<'_>,
    key: &str,
    flat: &str,
    depth: usize,
    rows: &mut Vec<(String, String, ArgValue<String>)>,
) -> Option<()> {
    if depth > MAX_DEPTH || key.len() > MAX_KEYS {
        return None;
    }
    let row = match value {
        Value::Object(object) => {
            for (name, value) in plain::members(object, 0) {
                let name: String = serde_json::from_slice(&object[name]).unwrap();
                flatten(
                    Value::new(&object[value]),
                    &format!("{key}.{name}"),
                    &format!("{flat}.{name}"),
                    depth + 1,
                    rows,
                )?;
            }
            return Some(());
        }
        Value::Array(array) => {
            let elements = plain::elements(array, 0).into_iter().map(|element| &array[element]);
            for (i, element) in elements.filter(|element| *element != b"null").enumerate() {
                flatten(Value::new(element), &format!("{key}[{i}]"), flat, depth + 1, rows)?;
            }
            return Some(());
        }
        Value::Text(text) => ArgValue::Text(text),
        Value::True => ArgValue::Bool(true),
        Value::False => ArgValue::Bool(false),
        Value::Number(text) if text.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) => {
            text.parse().map_or_else(|_| ArgValue::Text(text.to_owned()), ArgValue::Int)
        }
        Value::Number(text) => ArgValue::Real(text.parse().unwrap()),
        Value::Null => return Some(()),
    };
    rows.push((key.to_owned(), flat.to_owned(), row));
    Some(())
}
