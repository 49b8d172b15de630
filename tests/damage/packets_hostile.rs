//! Perfetto's protobuf, hostile or damaged in parts: work and memory are bounded, and what is whole is read.
//!
//! The sizes are such that work which grows with their square would take minutes.

use crate::support::random::is_long;

use std::io::{Cursor, Read};
use std::path::Path;

use nccl_stacks::damage::Damage;
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::id::SliceId;
use nccl_stacks::input::from_reader;
use nccl_stacks::input::limit::Limits;
use nccl_stacks::load::{LoadOptions, load_input};
use nccl_stacks::store::Store;

use crate::support::pack::{gzip, zlib};
use crate::support::packets::{
    Message, Style, args, event, file, from_json, legacy, load_packets, named, packet, read, rows, track,
};
use crate::support::program::{has, run, scratch, stderr, stderr_of, testdata};
use crate::support::sound::check;

const MANY: u64 = 100_000;

fn value() -> Message {
    Message::default()
}

fn count(store: &Store, kind: Damage) -> (u64, Option<u64>) {
    let tally = store.damage.get(kind);
    (tally.count, tally.first_offset)
}

fn instants(times: std::ops::Range<u64>) -> Vec<u8> {
    file(&times.map(|ts| event(ts, 3, 5, named("a"))).collect::<Vec<_>>())
}

fn times(store: &Store) -> Vec<i64> {
    rows(store).into_iter().map(|(ts, ..)| ts).collect()
}

/// Nothing marks where a packet begins, so that the rest is lost, as in Perfetto: it is counted, and the answer says so.
#[test]
fn the_list_ends_where_it_breaks() {
    let garbage: [&[u8]; 4] = [&[0xff; 300], b"\x00\x0a\x0a\x0a", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\xff\xff\x7f"];
    for (garbage, kind) in garbage.into_iter().zip([
        Damage::PacketStructure,
        Damage::PacketStructure,
        Damage::PacketStructure,
        Damage::Truncated,
    ]) {
        let start = instants(1..4);
        let bytes = [&start[..], garbage, &instants(4..9)].concat();
        let store = read(&bytes, ArgsWanted::All).unwrap();
        check(&store);
        assert_eq!(times(&store), [1, 2, 3], "{garbage:?}");
        let lost = (bytes.len() - start.len()) as u64;
        assert_eq!((count(&store, kind), store.damage.lost_bytes()), ((1, Some(start.len() as u64)), lost));
        assert_eq!(store.damage.faults().count(), 1);
        assert_eq!(store.traces[0].text_bytes, bytes.len() as u64);
    }
    // A length that is too small leaves an invalid packet, and the rest of it.
    let mut bytes = instants(1..9);
    bytes[1] -= 3;
    assert!(read(&bytes, ArgsWanted::All).is_err());
}

#[test]
fn an_answer_after_a_break_is_partial() {
    let packets = from_json(&crate::support::read_text(Path::new(&testdata("two_matches.json"))), Style::Plain);
    let (start, rest) = packets.split_at(packets.len() - 1);
    let (start, rest) = (file(start), file(rest));
    let (_folder, path) = scratch("trace.pftrace", &[&start[..], b"\x00", &rest].concat());
    let output = stderr_of(&[&path, "--no-interactive"], 6);
    let said = format!(
        "Left out: everything after the byte where the list of packets breaks, at byte {} of the text",
        start.len()
    );
    has(&output, &said);
}

#[test]
fn a_damaged_list_without_a_whole_event_reports_its_offset() {
    let message = |bytes: &[u8]| {
        let (_folder, path) = scratch("trace.pftrace", bytes);
        stderr_of(&[&path, "--no-interactive"], 1)
    };
    let instants = instants(1..3);
    let cut_short = [&b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"[..], &instants[..instants.len() - 1]].concat();
    has(&message(&cut_short), "a damaged list of packets: it is corrupt at byte 0,");
    let first = packet().message(60, track(5));
    let broken = file(&[first.clone(), value().bytes(11, [0xff; 3]).number(10, 7).number(8, 1)]);
    let message = message(&broken);
    let offset = file(&[first]).len();
    has(&message, &format!("the one at byte {offset} is not valid protobuf"));
}

/// Numbers, lengths and depths at the limits of what can be written.
#[test]
fn edges() {
    let eleven = [&[0x50][..], &[0xff; 10], &[1]].concat();
    let length = [&[0x5a][..], &[0xff; 9], &[1]].concat();
    let mut nested = value().number(5, 1);
    let mut entries = value().number(4, 1);
    for _ in 0..10_000 {
        nested = value().number(1, 2).message(4, nested);
        entries = value().message(12, entries);
    }
    let deep = |value: Message| Message::default().message(4, value.bytes(10, "deep"));
    let all = deep(value().message(8, nested)).and(deep(entries)).and(deep(value().bytes(9, "[".repeat(10_000))));
    let store = load_packets(&[
        event(1, 3, 5, named("first").and(all)),
        Message(eleven),
        Message(length),
        event(u64::MAX, 3, 5, named("before time").fixed(47, 9).fixed(48, 8)),
        event(i64::MAX as u64, 3, 5, named("end of time")),
        legacy(i64::MAX as u64, b'X', 5, named("beyond"), value().number(3, i64::MAX as u64)),
        event(2, 3, u64::MAX, named("last").fixed(47, u64::MAX)),
    ]);
    check(&store);
    assert_eq!(times(&store), [1, 2]);
    assert_eq!(args(&store, SliceId(0)), [""; 0]);
    assert_eq!(count(&store, Damage::PacketSyntax).0, 2);
    assert_eq!(count(&store, Damage::NegativeTimestamp).0, 1);
    assert_eq!(count(&store, Damage::EventWithoutTimestamp).0, 2);
}

/// A packet of some hundred KiB that expands to half a GiB of packets, and one with a packet that declares a length of a GiB.
#[test]
fn bombs_are_stopped() {
    let start = instants(1..2);
    // A packet of one unknown field, of 999 bytes.
    let unknown = [&b"\x0a\xea\x07\x7a\xe7\x07"[..], &[0; 999]].concat().repeat(1 << 10);
    let mut bomb =
        (0..512).fold(Box::new(std::io::empty()) as Box<dyn Read>, |all, _| Box::new(all.chain(&unknown[..])));
    let zeros =
        zstd::encode_all((&b"\x0a\x80\x80\x80\x80\x04"[..]).chain(std::io::repeat(0).take(1 << 28)), 1).unwrap();
    let bytes = [start.clone(), file(&[value().bytes(50, zlib(&mut bomb)), value().bytes(133, zeros)]), instants(2..3)];
    let store = read(&bytes.concat(), ArgsWanted::All).unwrap();
    assert_eq!(times(&store), [1, 2]);
    assert_eq!(count(&store, Damage::PacketTooLong), (1, Some(start.len() as u64)));
    assert_eq!(count(&store, Damage::PacketSyntax).0, 1);
    let (_folder, path) = scratch("trace.pftrace", &bytes.concat());
    let said = stderr(&run(&["sql", &path, "select 1"]));
    has(&said, "packets longer than 256 MiB after decompression");
}

/// What is compressed within the file counts as text of it, byte for byte.
#[test]
fn what_is_unpacked_is_limited() {
    let inside = instants(2..2000);
    let zstd = zstd::encode_all(&inside[..], 3).unwrap();
    let packed = [value().bytes(50, zlib(&inside[..])), value().bytes(133, zstd)];
    let bytes = [instants(1..2), file(&packed)].concat();
    let read_within = |text| {
        let input = from_reader("trace".to_owned(), None, Box::new(Cursor::new(bytes.clone()))).unwrap();
        let options = LoadOptions { limits: Limits::of_text(text), ..LoadOptions::default() };
        load_input(input, options, |_| {}).map(|loaded| loaded.store.events).map_err(|e| e.to_string())
    };
    let all = (bytes.len() + 2 * inside.len()) as u64;
    assert_eq!(read_within(all), Ok(1 + 2 * 1998));
    let refused = read_within(all - 1).unwrap_err();
    has(&refused, &format!("more than {} bytes of text", all - 1));
    assert!(!refused.contains("--"), "the library knows no flags: {refused}");
}

/// A flow takes a byte, and an event can have only so many.
#[test]
fn an_event_has_a_limited_number_of_flows() {
    const MOST: usize = 1 << 17;
    let fan = |more| value().bytes(36, [vec![1; MOST + more], vec![2]].concat());
    let store = load_packets(&[event(1, 3, 5, value().number(36, 1)), event(2, 3, 5, fan(0))]);
    assert_eq!((store.flows.len(), count(&store, Damage::PacketTooLong).0), (MOST, 1));
    let store =
        load_packets(&[event(1, 3, 5, value().number(36, 1)), event(2, 3, 5, value().bytes(36, vec![1; MOST]))]);
    assert_eq!((store.flows.len(), count(&store, Damage::PacketTooLong).0), (MOST, 0));
}

/// Numbers for long names, as categories, as parts of a key: their expansion is limited.
#[test]
fn names_do_not_add_up() {
    let name = "n".repeat(30 << 10);
    let defined = |table| value().message(table, value().number(1, 1).bytes(2, &name));
    let of_categories = |n| (0..n).fold(value(), |all, _| all.number(3, 1));
    let key = |n| (0..n).fold(value().number(4, 1), |inner, _| value().message(11, inner.number(1, 1)));
    let store = load_packets(&[
        packet().number(13, 1).message(12, defined(1).and(defined(3))),
        event(1, 3, 5, of_categories(2)),
        event(2, 3, 5, of_categories(3)),
        // The name itself, of a dictionary that contains it, and of another one in that.
        event(3, 3, 5, value().message(4, key(1).number(1, 1))),
        event(4, 3, 5, value().message(4, key(2).number(1, 1))),
    ]);
    check(&store);
    assert_eq!(times(&store), [1, 2, 3, 4]);
    assert_eq!(count(&store, Damage::PacketTooLong).0, 2);
    assert_eq!((args(&store, SliceId(2)).len(), args(&store, SliceId(3)).len()), (1, 0));
}

/// Nothing after a zlib stream can be read; gzip may have several members.
#[test]
fn what_follows_compressed_packets_is_damage() {
    let zlibs = [zlib(&instants(1..2)[..]), zlib(&instants(2..3)[..])].concat();
    let gzips = [gzip(&instants(3..4)), gzip(&instants(4..5))].concat();
    let store = load_packets(&[value().bytes(50, zlibs), value().bytes(50, gzips)]);
    assert_eq!(times(&store), [1, 3, 4]);
    assert_eq!(count(&store, Damage::PacketSyntax), (1, Some(0)));
}

/// JSON with long keys: its rows are bounded, and what is too long for that stays text.
#[test]
fn json_does_not_multiply() {
    let members = |n| (0..n).map(|n| format!("\"{n}\":1")).collect::<Vec<_>>().join(",");
    let json = format!("{{\"{}\":{{{}}}}}", "k".repeat(1_000), members(1500));
    let annotation = |name: &str, json: &str| value().message(4, value().bytes(10, name).bytes(9, json));
    let many = (0..100).fold(value(), |all, n| all.and(annotation(&n.to_string(), &json)));
    let long = format!("[{}]", "1,".repeat(20_000));
    let store = load_packets(&[event(1, 3, 5, many), event(2, 3, 5, annotation("long", &long))]);
    assert_eq!(count(&store, Damage::PacketTooLong).0, 1);
    assert_eq!(args(&store, SliceId(1)), [format!("debug.long debug.long {long:?}")]);
}

/// One name of a MiB, used a thousand times in one event: its expansion is bounded.
#[test]
fn names_do_not_multiply() {
    let name = "n".repeat(1 << 20);
    let by_iid = (0..1000).fold(value(), |all, _| all.message(4, value().number(1, 1).number(17, 1)));
    let defined =
        value().message(3, value().number(1, 1).bytes(2, &name)).message(29, value().number(1, 1).bytes(2, &name));
    let store = load_packets(&[event(1, 3, 5, by_iid).number(13, 1).message(12, defined), event(2, 3, 5, named("b"))]);
    assert_eq!(times(&store), [1, 2]);
    assert_eq!(count(&store, Damage::PacketTooLong).0, 1);
}

#[test]
fn many_sequences_names_and_clocks() {
    let many = if is_long() { MANY } else { MANY / 8 };
    let mut packets = Vec::new();
    for n in 0..many {
        let clock = |id, time| value().number(1, id).number(2, time);
        // A sequence, a clock and a snapshot of its own; every other clock is unknown.
        let snapshot = value().message(1, clock(64, 1)).message(1, clock(if n % 2 == 0 { 6 } else { 3 }, 1));
        let name = value().message(2, value().number(1, n).bytes(2, n.to_string()));
        let event = value().number(9, 3).number(11, 5).number(10, n);
        packets.push(
            value()
                .number(10, n + 1)
                .number(13, 1)
                .number(8, n + 1)
                .number(58, 64)
                .message(6, snapshot)
                .message(12, name)
                .message(11, event),
        );
    }
    let store = read(&file(&packets), ArgsWanted::COLLECTIVES).unwrap();
    // A name of number 0 is none.
    assert_eq!(store.slices.len() as u64, many / 2);
    assert_eq!(count(&store, Damage::ClockUnknown).0, many / 2);
    assert_eq!(store.slice_name(SliceId(1)), "2");
}

#[test]
fn tracks_in_circles_and_in_long_chains() {
    let mut packets: Vec<Message> = (1..MANY).map(|n| packet().message(60, track(n).number(5, n + 1))).collect();
    packets.push(packet().message(60, track(MANY).number(5, 1)));
    packets.push(packet().message(60, track(MANY + 1).number(5, MANY + 1)));
    packets.extend((1..MANY + 2).map(|n| event(n, 3, n, named("a"))));
    let store = read(&file(&packets), ArgsWanted::COLLECTIVES).unwrap();
    check(&store);
    assert_eq!(store.slices.len() as u64, MANY + 1);
}

#[test]
fn fans_of_flows() {
    let fan = |field| (0..MANY).fold(value(), |all, n| all.fixed(field, n));
    let store = load_packets(&[
        event(1, 3, 5, fan(47)),
        event(2, 3, 6, fan(47)),
        event(3, 3, 5, fan(48)),
        event(4, 3, 5, fan(48)),
    ]);
    assert_eq!(store.flows.len() as u64, 2 * MANY);
    let mut packets: Vec<Message> = (0..MANY).map(|n| event(n, 3, 5, value().fixed(47, 9))).collect();
    packets.extend((0..MANY).map(|n| legacy(MANY + n, b'f', 5, value(), value().number(6, n))));
    packets.push(event(2 * MANY, 3, 5, named("last")));
    let store = read(&file(&packets), ArgsWanted::COLLECTIVES).unwrap();
    assert_eq!(store.flows.len() as u64, MANY - 1 + MANY, "parked ends arrive at the last one");
}
