//! Writes Perfetto's protobuf: enough of it to express a trace of the profiler. Field numbers are from `protos/perfetto/trace`.

use std::collections::{BTreeMap, HashMap};
use std::io::Cursor;

use nccl_stacks::event::{ArgValue, ArgsWanted};
use nccl_stacks::id::SliceId;
use nccl_stacks::input::from_reader;
use nccl_stacks::load::{LoadOptions, load_input};
use nccl_stacks::store::Store;
use serde_json::Value;

/// A message under construction.
#[derive(Default, Clone)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    fn raw(mut self, mut value: u64) -> Self {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    pub(crate) fn number(self, field: u64, value: u64) -> Self {
        self.raw(field << 3).raw(value)
    }

    pub(crate) fn fixed(self, field: u64, value: u64) -> Self {
        let mut message = self.raw(field << 3 | 1);
        message.0.extend(value.to_le_bytes());
        message
    }

    pub(crate) fn bytes(self, field: u64, value: impl AsRef<[u8]>) -> Self {
        let mut message = self.raw(field << 3 | 2).raw(value.as_ref().len() as u64);
        message.0.extend_from_slice(value.as_ref());
        message
    }

    /// The fields of this message, then those of `more`.
    pub(crate) fn and(mut self, more: Message) -> Self {
        self.0.extend(more.0);
        self
    }

    pub(crate) fn message(self, field: u64, value: Message) -> Self {
        self.bytes(field, value.0)
    }
}

/// How a trace is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Style {
    /// Every event is self-contained; tracks are described after the events.
    Plain,
    /// Names are sent once, tracks and clocks have defaults, times are relative to the previous packet, and all of this restarts every few
    /// packets.
    Incremental,
    /// Each slice is one event with phase `X`, as from tools that convert JSON to packets; structured arguments have the older form, and numbers
    /// the unsigned type.
    Legacy,
}

/// The packets of a trace with the contents of a JSON trace: its slices, its flows, the names of its threads. Slices that partly overlap on a
/// thread get a track below the thread's.
pub(crate) fn from_json(text: &str, style: Style) -> Vec<Message> {
    let json: Value = serde_json::from_str(text).unwrap();
    let events = json["traceEvents"].as_array().or(json.as_array()).unwrap();
    let mut lanes = lanes(events);
    let mut writer = Writer::new(style);
    let mut steps = Vec::new();
    for (number, lane) in lanes.values_mut().flatten().enumerate() {
        lane.steps(100 + number as u64, &mut steps);
    }
    if style == Style::Legacy {
        steps.retain(|step| step.begins.is_some());
        assert!(steps.iter().all(|step| (step.end - step.ts) % 1000 == 0), "a legacy slice has whole microseconds");
    }
    steps.sort_by_key(|step| step.ts);
    for step in &steps {
        writer.event(step, events);
    }
    writer.describe(&lanes, events);
    writer.packets
}

/// A packet of the sequence that all tests use.
pub(crate) fn packet() -> Message {
    Message::default().number(10, 7)
}

/// A track event at a time, on a track: 1 begins, 2 ends, 3 is an instant.
pub(crate) fn event(ts: u64, kind: u64, track: u64, more: Message) -> Message {
    let event = Message::default().number(9, kind).number(11, track);
    packet().number(8, ts).message(11, event.and(more))
}

/// An event with one of JSON's phases; `more` goes into the event, `of_phase` into the message of the phase.
pub(crate) fn legacy(ts: u64, phase: u8, track: u64, more: Message, of_phase: Message) -> Message {
    let of_phase = Message::default().number(2, u64::from(phase)).and(of_phase);
    packet().number(8, ts).message(11, Message::default().number(11, track).and(more).message(6, of_phase))
}

pub(crate) fn named(name: &str) -> Message {
    Message::default().bytes(23, name)
}

/// The beginning of a track's description.
pub(crate) fn track(uuid: u64) -> Message {
    Message::default().number(1, uuid)
}

pub(crate) fn thread(uuid: u64, pid: u64, tid: u64) -> Message {
    packet().message(60, track(uuid).message(4, Message::default().number(1, pid).number(2, tid)))
}

/// A trace in memory, loaded.
pub(crate) fn read(bytes: &[u8], args: ArgsWanted) -> Result<Store, String> {
    let input = from_reader("trace".to_owned(), None, Box::new(Cursor::new(bytes.to_vec())));
    let options = LoadOptions { args, ..LoadOptions::default() };
    input.and_then(|input| load_input(input, options, |_| {})).map(|loaded| loaded.store).map_err(|e| e.to_string())
}

pub(crate) fn load_packets(packets: &[Message]) -> Store {
    read(&file(packets), ArgsWanted::All).unwrap()
}

/// Time, length, depth and name of all slices.
pub(crate) fn rows(store: &Store) -> Vec<(i64, i64, u16, &str)> {
    let slices = &store.slices;
    slices.ids().map(|id| (slices.ts(id).0, slices.dur(id).0, slices.depth(id), store.slice_name(id))).collect()
}

/// The slices that flows leave and enter, as row numbers, and Perfetto's numbers of the flows.
pub(crate) fn flow_rows(store: &Store) -> Vec<(usize, usize, u64)> {
    let flows = &store.flows;
    (0..flows.len()).map(|i| (flows.slice_out[i].row(), flows.slice_in[i].row(), flows.trace_id[i])).collect()
}

/// A slice's arguments: key, flat key and value.
pub(crate) fn args(store: &Store, slice: SliceId) -> Vec<String> {
    let text = |id| store.strings.get(id).unwrap();
    (store.args.set(store.slices.args(slice)).iter())
        .map(|arg| match arg.value {
            ArgValue::Text(id) => format!("{} {} {:?}", text(arg.key), text(arg.flat_key), text(id)),
            ref value => format!("{} {} {value:?}", text(arg.key), text(arg.flat_key)),
        })
        .collect()
}

/// Packets as a file.
pub(crate) fn file(packets: &[Message]) -> Vec<u8> {
    packets.iter().fold(Message::default(), |file, packet| file.bytes(1, &packet.0)).0
}

fn ns(event: &Value, key: &str) -> i64 {
    (event[key].as_f64().unwrap() * 1000.0).round() as i64
}

fn thread_of(event: &Value) -> (i64, i64) {
    (event["pid"].as_i64().unwrap(), event["tid"].as_i64().unwrap())
}

/// Slices that nest or are disjoint: their events by number, and the flows that leave or enter them.
#[derive(Default)]
struct Lane {
    slices: Vec<(i64, i64, usize)>,
    open: Vec<i64>,
    flows: HashMap<usize, Vec<u64>>,
}

struct Step {
    ts: i64,
    /// The end of the slice that begins here.
    end: i64,
    track: u64,
    /// The event that begins; `None` ends the innermost one.
    begins: Option<usize>,
    flows: Vec<u64>,
}

fn lanes(events: &[Value]) -> BTreeMap<(i64, i64), Vec<Lane>> {
    let mut slices: Vec<usize> = (0..events.len()).filter(|i| events[*i]["ph"] == "X").collect();
    slices.sort_by_key(|i| (ns(&events[*i], "ts"), -ns(&events[*i], "dur")));
    let mut lanes: BTreeMap<(i64, i64), Vec<Lane>> = BTreeMap::new();
    for slice in slices {
        let (start, dur) = (ns(&events[slice], "ts"), ns(&events[slice], "dur"));
        let of_thread = lanes.entry(thread_of(&events[slice])).or_default();
        let mut fits = |lane: &mut Lane| {
            lane.open.retain(|end| *end > start);
            lane.open.last().is_none_or(|end| *end >= start + dur)
        };
        let at = of_thread.iter_mut().position(&mut fits).unwrap_or(of_thread.len());
        if at == of_thread.len() {
            of_thread.push(Lane::default());
        }
        of_thread[at].open.push(start + dur);
        of_thread[at].slices.push((start, start + dur, slice));
    }
    for event in events.iter().filter(|event| matches!(event["ph"].as_str(), Some("s" | "f"))) {
        let id = event["id"].as_u64().unwrap() + if event["cat"] == "ac2g" { 0 } else { 1 << 40 };
        // The last event that begins at this time: the innermost. On a thread without slices, a flow has none.
        let of_thread = lanes.entry(thread_of(event)).or_default();
        for lane in of_thread.iter_mut().rev() {
            if let Some((.., slice)) = lane.slices.iter().rev().find(|(start, ..)| *start == ns(event, "ts")) {
                lane.flows.entry(*slice).or_default().push(id);
                break;
            }
        }
    }
    lanes
}

impl Lane {
    fn steps(&self, track: u64, steps: &mut Vec<Step>) {
        let mut ends: Vec<i64> = Vec::new();
        let end = |ts| Step { ts, end: ts, track, begins: None, flows: Vec::new() };
        for (start, stop, slice) in &self.slices {
            while ends.last().is_some_and(|end| end <= start) {
                steps.extend(ends.pop().map(end));
            }
            let flows = self.flows.get(slice).cloned().unwrap_or_default();
            steps.push(Step { ts: *start, end: *stop, track, begins: Some(*slice), flows });
            ends.push(*stop);
        }
        steps.extend(ends.into_iter().rev().map(end));
    }
}

impl Style {
    fn is_incremental(self) -> bool {
        self == Style::Incremental
    }
}

/// A `NestedValue`.
fn nested(value: &Value) -> Message {
    let message = Message::default();
    match value {
        Value::Null => message,
        Value::Bool(value) => message.number(7, u64::from(*value)),
        Value::Number(number) => match number.as_i64() {
            Some(int) => message.number(5, int as u64),
            None => message.fixed(6, number.as_f64().unwrap().to_bits()),
        },
        Value::String(text) => message.bytes(8, text),
        Value::Array(values) => values.iter().fold(message.number(1, 2), |list, value| list.message(4, nested(value))),
        Value::Object(members) => {
            let keys = members.keys().fold(message.number(1, 1), |dict, key| dict.bytes(2, key));
            members.values().fold(keys, |dict, value| dict.message(3, nested(value)))
        }
    }
}

struct Writer {
    style: Style,
    packets: Vec<Message>,
    /// The number of each text, by its field in `InternedData`.
    interned: HashMap<(u64, String), u64>,
    new: Message,
    /// Definitions that still have to be sent.
    last_ts: i64,
    default_track: u64,
}

/// All state restarts after this many packets.
const RESTART: usize = 15;

impl Writer {
    fn new(style: Style) -> Self {
        let mut packets = Vec::new();
        if style.is_incremental() {
            // The boot clock is the trace's clock. The sequence's clock 64 shows 500 when the boot clock shows 0, and is relative.
            let boottime = Message::default().number(1, 6).number(2, 0);
            let own = Message::default().number(1, 64).number(2, 500).number(3, 1);
            let snapshot = Message::default().message(1, boottime).message(1, own);
            packets.push(Message::default().number(10, 7).message(6, snapshot));
        }
        let (interned, new) = (HashMap::new(), Message::default());
        Writer { style, packets, interned, new, last_ts: 0, default_track: 0 }
    }

    /// A text, either in one field or as a number in another.
    fn named(&mut self, message: Message, (text_field, iid_field): (u64, u64), table: u64, text: &str) -> Message {
        if !self.style.is_incremental() {
            return message.bytes(text_field, text);
        }
        let next = self.interned.len() as u64 + 1;
        let iid = *self.interned.entry((table, text.to_owned())).or_insert(next);
        if iid == next {
            let entry = Message::default().number(1, iid).bytes(2, text);
            self.new = std::mem::take(&mut self.new).message(table, entry);
        }
        message.number(iid_field, iid)
    }

    fn event(&mut self, step: &Step, events: &[Value]) {
        let restarts = self.style.is_incremental() && (self.interned.is_empty() || self.packets.len() % RESTART == 1);
        if restarts {
            self.interned.clear();
            self.default_track = step.track;
        }
        let mut event = match (self.style, step.begins) {
            (Style::Legacy, _) => {
                let duration = (step.end - step.ts) as u64 / 1000;
                Message::default().message(6, Message::default().number(2, u64::from(b'X')).number(3, duration))
            }
            (_, begins) => Message::default().number(9, if begins.is_some() { 1 } else { 2 }),
        };
        if step.track != self.default_track {
            event = event.number(11, step.track);
        }
        if let Some(of) = step.begins.map(|slice| &events[slice]) {
            event = self.named(event, (23, 10), 2, of["name"].as_str().unwrap());
            if let Some(category) = of["cat"].as_str() {
                event = self.named(event, (22, 3), 1, category);
            }
            for (name, value) in of["args"].as_object().into_iter().flatten() {
                if let Some(value) = self.annotation(Message::default(), value) {
                    let annotation = self.named(value, (10, 1), 3, name);
                    event = event.message(4, annotation);
                }
            }
        }
        event = step.flows.iter().fold(event, |event, flow| event.fixed(47, *flow));
        let mut packet = Message::default().number(10, 7);
        if self.style.is_incremental() {
            packet = packet.number(13, if restarts { 3 } else { 2 }).number(8, (step.ts - self.last_ts) as u64);
            self.last_ts = step.ts;
            if restarts {
                let defaults = Message::default().message(11, Message::default().number(11, step.track)).number(58, 64);
                packet = packet.message(59, defaults);
            }
            match std::mem::take(&mut self.new) {
                new if new.0.is_empty() => {}
                new => packet = packet.message(12, new),
            }
        } else {
            packet = packet.number(8, step.ts as u64);
        }
        self.packets.push(packet.message(11, event));
    }

    fn annotation(&mut self, message: Message, value: &Value) -> Option<Message> {
        Some(match value {
            Value::Null => return None,
            Value::Bool(value) => message.number(2, u64::from(*value)),
            Value::Array(_) | Value::Object(_) if self.style == Style::Legacy => message.message(8, nested(value)),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (_, Some(uint)) if self.style == Style::Legacy => message.number(3, uint),
                (Some(int), _) => message.number(4, int as u64),
                (None, Some(uint)) => message.number(3, uint),
                _ => message.fixed(5, number.as_f64().unwrap().to_bits()),
            },
            Value::String(text) => self.named(message, (6, 17), 29, text),
            Value::Array(values) => {
                values.iter().fold(message, |message, value| match self.annotation(Message::default(), value) {
                    Some(value) => message.message(12, value),
                    None => message,
                })
            }
            Value::Object(members) => members.iter().fold(message, |message, (name, value)| {
                match self.annotation(Message::default(), value) {
                    Some(value) => message.message(11, self.named(value, (10, 10), 3, name)),
                    None => message,
                }
            }),
        })
    }

    fn describe(&mut self, lanes: &BTreeMap<(i64, i64), Vec<Lane>>, events: &[Value]) {
        let name_of = |kind: &str, is: &dyn Fn(&Value) -> bool| {
            let named = events.iter().find(|e| e["ph"] == "M" && e["name"] == kind && is(e));
            named.and_then(|event| event["args"]["name"].as_str())
        };
        let mut uuid = 100;
        for ((pid, tid), of_thread) in lanes {
            let own = uuid;
            for _ in of_thread {
                let mut track = Message::default().number(1, uuid);
                if uuid == own {
                    let mut thread = Message::default().number(1, *pid as u64).number(2, *tid as u64);
                    if let Some(name) = name_of("thread_name", &|e| e["pid"] == *pid && e["tid"] == *tid) {
                        thread = thread.bytes(5, name);
                    }
                    let mut process = Message::default().number(1, *pid as u64);
                    if let Some(name) = name_of("process_name", &|e| e["pid"] == *pid) {
                        process = process.bytes(6, name);
                    }
                    track = track.message(3, process).message(4, thread);
                } else {
                    track = track.number(5, own).bytes(2, "beside");
                }
                self.packets.push(Message::default().number(10, 7).message(60, track));
                uuid += 1;
            }
        }
    }
}
