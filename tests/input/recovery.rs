//! Whatever is whole in a damaged trace is read, whatever is wrong beside it.
//!
//! Real traces and the small ones are damaged in every way that is known from users, at random offsets, and cut off everywhere.
//! Which events are whole is known because the damage is done here; another JSON parser finds their offsets.
//! `NCCL_STACKS_TEST_ROUNDS` times 300 is how many damaged texts are made.

use crate::support::random::{is_long, rounds};

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};
use std::num::NonZero;
use std::path::Path;

use crate::support::random::Random;
use nccl_stacks::damage::{Damage, DamageReport};
use nccl_stacks::event::{ArgsWanted, Event};
use nccl_stacks::input::from_reader;
use nccl_stacks::input::json::copy::{Choice, repair};
use nccl_stacks::input::json::{Collect, Division, Reader};
use nccl_stacks::load::{LoadOptions, load_input};
use nccl_stacks::time::TimeRule;
use serde::de::IgnoredAny;

/// The events, by offset.
type Found = BTreeMap<usize, String>;

/// All events of a text, and what was wrong with it.
fn read(text: impl Read + Send) -> (Found, DamageReport) {
    let mut reader = Reader::new(TimeRule::Exact, ArgsWanted::COLLECTIVES, NonZero::<usize>::MIN);
    let mut found = Found::new();
    let add = |events: Vec<(usize, String)>| {
        for (offset, says) in events {
            assert!(found.insert(offset, says).is_none(), "two events at byte {offset}");
        }
        true
    };
    let summary = reader.read(text, Division { chunk: None, in_order: true }, |_| Says::default(), add, || {});
    (found, summary.damage)
}

/// What the events of a chunk say.
#[derive(Default)]
struct Says(Vec<(usize, String)>);

impl Collect for Says {
    type Batch = Vec<(usize, String)>;

    fn add(&mut self, event: &Event<'_>, offset: u64) {
        let name = event.name.map(|name| name.decoded().into_owned());
        let says = format!("{:?} {} {:?} {:?} {name:?}", event.kind, event.ts, event.pid, event.tid);
        self.0.push((offset as usize, says));
    }

    fn take(&mut self) -> Self::Batch {
        std::mem::take(&mut self.0)
    }
}

/// The ranges of the events of a whole trace, found by serde_json.
fn events(text: &[u8]) -> Vec<std::ops::Range<usize>> {
    let key = memchr::memmem::find(text, b"\"traceEvents\"").unwrap_or(0);
    let mut at = key + text[key..].iter().position(|byte| *byte == b'[').unwrap() + 1;
    let mut events = Vec::new();
    loop {
        at += text[at..].iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b',').count();
        if !matches!(text.get(at), Some(b'{')) {
            return events;
        }
        let mut values = serde_json::Deserializer::from_slice(&text[at..]).into_iter::<IgnoredAny>();
        if values.next().is_none_or(|value| value.is_err()) {
            return events;
        }
        let end = at + values.byte_offset();
        events.push(at..end);
        at = end;
    }
}

/// A kind of damage.
#[derive(Debug, Clone, Copy)]
enum Harm {
    /// To one event, which can be recovered: the change to its text.
    Recoverable(&'static str, fn(&[u8], &mut Random) -> Option<Vec<u8>>),
    /// To one event, which may be lost.
    Fatal(&'static str, fn(&[u8], &mut Random) -> Option<Vec<u8>>),
    /// To what is between two events.
    Between(&'static str, fn(&[u8], &mut Random) -> Vec<u8>),
    /// Zeros over the ends of some events and all between them, as from a hole in a file.
    Hole,
}

/// An offset within the text of the name, if it has any.
fn in_name(event: &[u8], random: &mut Random) -> Option<usize> {
    let key = memchr::memmem::find(event, b"\"name\"")? + 6;
    let start = key + event[key..].iter().position(|byte| *byte == b'"')? + 1;
    let length = event[start..].iter().position(|byte| *byte == b'"')?;
    // Not after a backslash, whose escape would change.
    let at = start + random.below(length.max(1));
    (length > 2 && !event[start..start + length].contains(&b'\\') && std::str::from_utf8(&event[..at]).is_ok())
        .then_some(at)
}

fn put(event: &[u8], at: usize, text: &[u8]) -> Vec<u8> {
    [&event[..at], text, &event[at..]].concat()
}

fn put_in_name(event: &[u8], random: &mut Random, texts: &[&[u8]]) -> Option<Vec<u8>> {
    let at = in_name(event, random)?;
    Some(put(event, at, texts[random.below(texts.len())]))
}

/// The event with a whole-number argument replaced.
fn replace_number(event: &[u8], random: &mut Random, values: &[&str]) -> Option<Vec<u8>> {
    let args = memchr::memmem::find(event, b"\"args\"")?;
    let colons: Vec<usize> = (args..event.len()).filter(|at| event[*at..].starts_with(b"\": ")).collect();
    let at = colons.get(random.below(colons.len()))? + 3;
    let length = event[at..].iter().position(|byte| !byte.is_ascii_digit())?;
    // Ids and times are numbers.
    let key = event[..at].rsplit(|byte| *byte == b'"').nth(1)?;
    (length > 0
        && event[at + length] != b'.'
        && !matches!(key, b"ts" | b"dur" | b"pid" | b"tid" | b"id" | b"sort_index"))
    .then(|| [&event[..at], values[random.below(values.len())].as_bytes(), &event[at + length..]].concat())
}

/// The offset of this text outside of the name.
fn offset_of(event: &[u8], text: &[u8], random: &mut Random) -> Option<usize> {
    let offsets: Vec<usize> = memchr::memmem::find_iter(event, text).collect();
    offsets.get(random.below(offsets.len())).copied()
}

const HARMS: &[Harm] = &[
    Harm::Recoverable("bad escape", |event, random| {
        put_in_name(event, random, &[b"\\x", b"\\ ", b"\\uzz", b"C:\\dir\\c"])
    }),
    Harm::Recoverable("lone surrogate", |event, random| put_in_name(event, random, &[b"\\ud800", b"\\udc00 "])),
    Harm::Recoverable("control character", |event, random| {
        put_in_name(event, random, &[b"\n", b"\t", b"\x00", b"\x1b"])
    }),
    Harm::Recoverable("no UTF-8", |event, random| put_in_name(event, random, &[b"\xff", b"\xc3\x28", b"\xed\xa0\x80"])),
    Harm::Recoverable("no number", |event, random| {
        replace_number(event, random, &["NaN", "Infinity", "-inf", "01", "None"])
    }),
    Harm::Recoverable("missing comma", |event, random| {
        let at = offset_of(event, b", \"", random)?;
        Some([&event[..at], &event[at + 1..]].concat())
    }),
    Harm::Recoverable("two commas", |event, random| Some(put(event, offset_of(event, b", \"", random)?, b","))),
    Harm::Recoverable("duplicate key", |event, _| Some(put(event, 1, b"\"ph\": \"Z\", "))),
    Harm::Recoverable("deep arguments", |event, random| {
        let at = memchr::memmem::find(event, b"\"args\"")?;
        let brace = at + event[at..].iter().position(|byte| *byte == b'{')? + 1;
        let is_empty = event[brace..].trim_ascii_start().starts_with(b"}");
        let depth = 1 + random.below(10_000);
        let deep = format!("\"deep\": {}{}{}", "[".repeat(depth), "]".repeat(depth), if is_empty { "" } else { ", " });
        Some(put(event, brace, deep.as_bytes()))
    }),
    Harm::Fatal("stray quote", |event, random| put_in_name(event, random, &[b"\"", b"{\"device\": \"cpu\"}(1)"])),
    Harm::Fatal("missing quote", |event, random| {
        let at = offset_of(event, b"\"", random)?;
        Some([&event[..at], &event[at + 1..]].concat())
    }),
    Harm::Fatal("missing bracket", |event, random| {
        let bracket = [&b"{"[..], b"}", b"[", b"]"][random.below(4)];
        let at = offset_of(event, bracket, random)?;
        Some([&event[..at], &event[at + 1..]].concat())
    }),
    Harm::Fatal("stray bracket", |event, random| {
        Some(put(event, random.below(event.len()), [&b"{"[..], b"}", b"[", b"]"][random.below(4)]))
    }),
    Harm::Fatal("cut off", |event, random| Some(event[..1 + random.below(event.len() - 1)].to_vec())),
    Harm::Fatal("head lost", |event, random| Some(event[1 + random.below(event.len() - 1)..].to_vec())),
    Harm::Fatal("flipped bits", |event, random| {
        let mut event = event.to_vec();
        for _ in 0..1 + random.below(4) {
            let at = random.below(event.len());
            event[at] ^= 1 << random.below(8);
        }
        Some(event)
    }),
    Harm::Fatal("lost stretch", |event, random| {
        let (a, b) = (random.below(event.len()), random.below(event.len()));
        let left = [&event[..a.min(b)], &event[a.max(b)..]].concat();
        // That is no event, and nothing is wrong with it.
        (left.iter().filter(|byte| !byte.is_ascii_whitespace()).ne(b"{}")).then_some(left)
    }),
    Harm::Fatal("text for time", |event, _| {
        let at = memchr::memmem::find(event, b"\"ts\": ")? + 6;
        let length = event[at..].iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
        Some([&event[..at], b"\"soon\"", &event[at + length..]].concat())
    }),
    Harm::Between("no comma", |separator, _| separator.iter().copied().filter(|byte| *byte != b',').collect()),
    Harm::Between("commas", |separator, random| [&b",,,"[..1 + random.below(3)], separator].concat()),
    Harm::Between("garbage", |separator, random| {
        let garbage: Vec<u8> = (0..1 + random.below(60)).map(|_| random.below(256) as u8).collect();
        let garbage: Vec<u8> = garbage.into_iter().filter(|byte| !matches!(byte, b'"')).collect();
        [separator, &garbage, b" ,"].concat()
    }),
    Harm::Between("a value", |separator, random| {
        let values = [&b"null"[..], b"12.5", b"\"text\"", b"[1, [2]]", b"}", b"]", b"{}"];
        [separator, values[random.below(values.len())], b","].concat()
    }),
    Harm::Between("a list's end", |_, random| {
        [&b"],\n\"traceEvents\": [\n"[..], b"],\n\"traceName\": \"a\", \"traceEvents\": ["][random.below(2)].to_vec()
    }),
    Harm::Hole,
];

/// These may leave valid JSON that is not all of the event.
const STRUCTURAL: &[&str] = &["missing bracket", "stray bracket", "cut off", "head lost"];

/// A damaged text: the offsets of its events, and which of them are unchanged, which can be recovered.
struct Damaged {
    text: Vec<u8>,
    offsets: Vec<usize>,
    whole: Vec<bool>,
    recoverable: Vec<bool>,
    /// Which are harmed in a way of [`STRUCTURAL`].
    halved: Vec<bool>,
    what: String,
}

const HEAD: &[u8] = b"{\"schemaVersion\": 1,\n\"traceEvents\": [\n";
const TAIL: &[u8] = b"\n],\n\"traceName\": \"t\"}\n";

fn harm(text: &[u8], events: &[std::ops::Range<usize>], harms: &[Harm], random: &mut Random) -> Damaged {
    let count = events.len();
    let mut bodies: Vec<Vec<u8>> = events.iter().map(|event| text[event.clone()].to_vec()).collect();
    let mut separators: Vec<Vec<u8>> =
        (1..count).map(|i| text[events[i - 1].end..events[i].start].to_vec()).chain([TAIL.to_vec()]).collect();
    let (mut whole, mut recoverable, mut what) = (vec![true; count], vec![true; count], String::new());
    let mut halved = vec![false; count];
    for harm in harms {
        let at = random.below(count - 1);
        if !whole[at] {
            continue;
        }
        let describe = |name: &str| format!("{name} at event {at}; ");
        match harm {
            Harm::Recoverable(name, change) | Harm::Fatal(name, change) => {
                let Some(body) = change(&bodies[at], random) else { continue };
                recoverable[at] = matches!(harm, Harm::Recoverable(..));
                halved[at] = STRUCTURAL.contains(name);
                whole[at] = body == bodies[at];
                bodies[at] = body;
                what += &describe(name);
            }
            Harm::Between(name, change) => {
                separators[at] = change(&separators[at], random);
                what += &describe(name);
            }
            Harm::Hole => {
                let last = (at + random.below(4)).min(count - 2);
                if whole[at..=last].contains(&false) {
                    continue;
                }
                let start = 1 + random.below(bodies[at].len() - 1);
                let end = 1 + random.below(bodies[last].len() - 1);
                for i in at..=last {
                    let to = if i == last { end } else { bodies[i].len() };
                    let from = (if i == at { start } else { 0 }).min(to);
                    bodies[i][from..to].fill(0);
                    (whole[i], recoverable[i]) = (false, false);
                    if i < last {
                        separators[i].fill(0);
                    }
                }
                what += &describe("hole");
            }
        }
    }
    let (mut out, mut offsets) = (HEAD.to_vec(), Vec::new());
    for (body, separator) in bodies.iter().zip(&separators) {
        offsets.push(out.len());
        out.extend_from_slice(body);
        out.extend_from_slice(separator);
    }
    Damaged { text: out, offsets, whole, recoverable, halved, what }
}

/// All keys in a value, in order, without the brackets that were inserted into them.
fn keys(value: &serde_json::Value) -> Vec<String> {
    let mut keys: Vec<String> = match value {
        serde_json::Value::Object(members) => {
            let plain = |key: &str| key.replace(['{', '}', '[', ']'], "");
            members.iter().flat_map(|(key, value)| std::iter::once(plain(key)).chain(self::keys(value))).collect()
        }
        serde_json::Value::Array(elements) => elements.iter().flat_map(self::keys).collect(),
        _ => Vec::new(),
    };
    keys.sort_unstable();
    keys
}

/// Every whole event is read unchanged, every recoverable one is read, and no other event begins anywhere. The repaired
/// text is JSON to another parser, with the same content.
fn check(trace: &str, text: &[u8], events: &[std::ops::Range<usize>], harms: &[Harm], random: &mut Random) -> bool {
    let clean = harm(text, events, &[], random);
    let (want, damage) = read(&clean.text[..]);
    assert_eq!(damage.faults().count(), 0, "{trace}");
    let damaged = harm(text, events, harms, random);
    let (found, damage) = read(&damaged.text[..]);
    let context = || {
        let _ = std::fs::write(std::env::temp_dir().join("nccl-stacks-recovery.json"), &damaged.text);
        let faults: Vec<_> =
            damage.faults().map(|(d, t)| format!("{} {} {:?}", d.name, t.count, t.first_offset)).collect();
        format!("{trace}: {} {faults:?}", damaged.what)
    };
    let mut lost = 0;
    for i in 0..events.len() {
        let (is, should) = (found.get(&damaged.offsets[i]), want.get(&clean.offsets[i]));
        if damaged.whole[i] {
            assert_eq!(is, should, "event {i} at byte {}: {}", damaged.offsets[i], context());
        } else if damaged.recoverable[i] {
            assert_eq!(is.is_some(), should.is_some(), "event {i} could be recovered: {}", context());
        }
        lost += usize::from(is.is_none() && should.is_some());
    }
    for (at, is) in &found {
        // A brace too many may be before an event, which then begins after it.
        let i = damaged.offsets.partition_point(|offset| offset <= at) - 1;
        let should = want.get(&clean.offsets[i]);
        let is_itself = damaged.offsets[i] == *at || !damaged.whole[i] && Some(is) == should;
        assert!(is_itself, "an event at byte {at}: {}", context());
    }
    if random.below(4) == 0 {
        let mut whole = Vec::new();
        repair(&damaged.text[..], &mut whole, |_, _| Choice::Copy, || None).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&whole).unwrap_or_else(|e| panic!("{e}: {}", context()));
        let salvaged = json["traceEvents"].as_array().unwrap();
        assert_eq!(salvaged.len(), found.len(), "{}", context());
        for (at, is) in found.keys().zip(salvaged) {
            if let Ok(i) = damaged.offsets.binary_search(at)
                && damaged.halved[i]
            {
                let should: serde_json::Value = serde_json::from_slice(&text[events[i].clone()]).unwrap();
                assert_eq!(keys(is), keys(&should), "event {i} at byte {at} is a part of itself: {}", context());
            }
        }
        let (again, damage) = read(&whole[..]);
        assert_eq!((again.len(), damage.faults().count()), (found.len(), 0), "{}", context());
        assert!(again.values().eq(found.values()), "{}", context());
    }
    assert!(lost == 0 || damage.faults().count() > 0, "{lost} events are lost and nothing is reported: {}", context());
    assert!(damage.lost_bytes() <= damaged.text.len() as u64, "{}", context());
    lost > 0
}

/// The traces: the small ones, and the real ones if they are available.
fn traces() -> Vec<(String, Vec<u8>)> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let small =
        ["ddp_backward.json.gz", "sglang_decode.json.gz", "costs.json"].map(|name| (name.to_owned(), own.join(name)));
    let real = crate::support::shared().map(|shared| crate::support::real_traces(&shared)).unwrap_or_default();
    let all = small.into_iter().chain(real);
    all.map(|(name, path)| (name, crate::support::read_text(&path).into_bytes())).collect()
}

#[test]
fn whatever_is_damaged_the_rest_is_read() {
    let traces: Vec<_> = traces().into_iter().map(|(name, text)| (name, events(&text), text)).collect();
    let traces: Vec<_> = traces.into_iter().filter(|(_, events, _)| events.len() > 20).collect();
    assert!(traces.len() >= 3);
    let mut random = Random(2026);
    let (mut lossy, runs) = (0, rounds(120));
    for run in 0..runs {
        let (name, events, text) = &traces[run % traces.len()];
        let count = (5 + random.below(120)).min(events.len());
        let from = random.below(events.len() - count + 1);
        let harms: Vec<Harm> = (0..1 + random.below(4)).map(|_| HARMS[random.below(HARMS.len())]).collect();
        lossy += usize::from(check(name, text, &events[from..from + count], &harms, &mut random));
    }
    assert!(lossy > runs / 10, "{lossy} of {runs} lost anything");
}

/// Ten real traces, of different programs and years, in object form and as bare lists.
const CUT: &[&str] = &[
    "HTA__cpu_only_gloo_rank34",
    "HTA__dlrm_sampled_rank0",
    "HTA__nccl_data_a100",
    "TraceLens__h100_nsfw_small",
    "TraceLens__mi300_ddp_resnet_rank0",
    "TraceLens__mi_sglang_decode",
    "TraceLens__mi_vllm_piecewise_execution",
    "kineto__resnet50_2021_bare_array",
    "lora-dev-script__sglang_tp4_F_decode_lora_compat_rank0",
    "param__dlrm_kineto_worker0_step_12_1694128201545_pt_trace",
];

/// What remains of a file: the number of events, and the damage. `None`: nothing.
fn left(bytes: &[u8]) -> Option<(u64, DamageReport)> {
    let input = from_reader("cut".to_owned(), Some(bytes.len() as u64), Box::new(Cursor::new(bytes.to_vec())));
    let store = load_input(input.ok()?, LoadOptions::default(), |_| {}).ok()?.store;
    Some((store.events, store.traces[0].damage.clone()))
}

/// How many of the events of a whole text end before each byte, by their ends.
fn ends(text: &[u8]) -> Vec<usize> {
    let (found, _) = read(text);
    events(text).into_iter().filter(|event| found.contains_key(&event.start)).map(|event| event.end).collect()
}

/// Whatever remains of a file, all events that are wholly in it are read, and the report says where it breaks off.
#[test]
fn wherever_a_trace_is_cut_off_what_is_before_is_read() {
    let Some(shared) = crate::support::shared() else { return };
    // All of 1 to 99 % where many runs are requested.
    let step = if is_long() { 1 } else { 33 };
    let mut cuts = 0;
    // By day every second of them: a bare list, too.
    for name in CUT.iter().skip(if is_long() { 0 } else { 1 }).step_by(if is_long() { 1 } else { 2 }) {
        let path = shared.join("traces").join(format!("{name}.json.gz"));
        let text = crate::support::read_text(&path).into_bytes();
        let packed = std::fs::read(&path).unwrap();
        let ends = ends(&text);
        assert!(ends.len() > 100, "{name}");
        let (mut before, mut before_packed) = (0, 0);
        for percent in (1..100).step_by(step).chain([100]) {
            let cut = text.len() * percent / 100;
            let whole = ends.partition_point(|end| *end <= cut) as u64;
            let (events, damage) = left(&text[..cut]).unwrap_or_default();
            assert_eq!(events, whole, "{name} at {percent} %");
            assert!(events >= before, "{name} at {percent} %");
            before = events;
            let truncated = damage.get(Damage::Truncated);
            // A bare list may end after any of its events.
            let may_end = text.trim_ascii_start().starts_with(b"[");
            if events > 0 && percent < 100 {
                let offset = truncated.first_offset.unwrap_or(cut as u64) as usize;
                assert!(truncated.count == 1 || may_end, "{name} at {percent} %");
                assert!(offset <= cut && offset >= ends[events as usize - 1], "{name} at {percent} %: {offset}");
                assert_eq!(truncated.bytes, if truncated.count == 1 { (cut - offset) as u64 } else { 0 }, "{name}");
            }
            let others = damage.faults().filter(|(d, _)| d.kind != Damage::Truncated).count();
            assert!(others == 0, "{name} at {percent} %: {others} other kinds");

            let cut = packed.len() * percent / 100;
            let mut unpacked = Vec::new();
            let is_cut = flate2::read::MultiGzDecoder::new(&packed[..cut]).read_to_end(&mut unpacked).is_err();
            let whole = ends.partition_point(|end| *end <= unpacked.len()) as u64;
            let (events, damage) = left(&packed[..cut]).unwrap_or_default();
            assert!(events >= whole && events >= before_packed, "{name} at {percent} %: {events} of {whole}");
            before_packed = events;
            if events > 0 {
                let cut_off = damage.get(Damage::PackedCutOff);
                assert_eq!((cut_off.count, is_cut), (u64::from(percent < 100), percent < 100), "{name} at {percent} %");
                assert_eq!(cut_off.first_offset, is_cut.then_some(cut as u64), "{name} at {percent} %");
            }
            cuts += 2;
        }
        assert_eq!((before, before_packed), (ends.len() as u64, ends.len() as u64), "{name}");
    }
    let _ = writeln!(std::io::stderr(), "{cuts} cuts");
}
