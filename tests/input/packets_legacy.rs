//! Perfetto's protobuf as older tools and Chrome write it: phases of JSON, interned names, and older arguments.

use nccl_stacks::damage::Damage;
use nccl_stacks::event::{ArgValue, ArgsWanted, HeaderField};
use nccl_stacks::id::SliceId;
use nccl_stacks::store::Store;
use nccl_stacks::time::Ns;

use crate::support::packets::{
    Message, args, event, file, flow_rows, legacy, load_packets, named, packet, read, rows, thread, track,
};
use crate::support::sound::check;

fn value() -> Message {
    Message::default()
}

fn annotation(name: &str, value: Message) -> Message {
    Message::default().message(4, value.bytes(10, name))
}

fn interned(table: u64, iid: u64, text: &str) -> Message {
    packet().message(12, value().message(table, value().number(1, iid).bytes(2, text)))
}

fn count(store: &Store, kind: Damage) -> u64 {
    store.damage.get(kind).count
}

/// The first definition of a generation wins, and holds until the sequence starts anew.
#[test]
fn names_hold_for_a_generation() {
    let name = |iid| value().number(10, iid);
    let category = |iid| value().number(3, iid);
    let clear = |packet: Message| packet.number(13, 1);
    let by_iid = value().message(4, value().number(1, 1).number(17, 1));
    let store = load_packets(&[
        // Before its definition a name is unknown, and the event is kept.
        clear(event(5, 3, 5, name(1))),
        // Another sequence does not define it.
        interned(2, 1, "of another").number(10, 8),
        interned(2, 1, "outer"),
        interned(2, 1, "too late"),
        interned(1, 1, "kernel"),
        interned(3, 1, "correlation"),
        interned(29, 1, "77"),
        event(10, 1, 5, name(1).and(category(1)).and(by_iid)),
        event(10, 1, 5, named("inner")),
        event(10, 2, 5, value()),
        event(20, 2, 5, value()),
        // Never defined before all starts anew; a single category says so, and of several it is left out.
        event(30, 3, 5, name(2).and(category(2))),
        event(31, 3, 5, category(2).and(category(1))),
        clear(interned(2, 2, "of the next generation")),
        event(40, 3, 5, name(2)),
        event(50, 3, 5, name(3)),
        event(51, 3, 5, name(2)),
    ]);
    check(&store);
    let got: Vec<_> = rows(&store);
    assert_eq!(
        got,
        [
            (5, 0, 0, ""),
            (10, 10, 0, "outer"),
            (10, 0, 1, "inner"),
            (30, 0, 0, ""),
            (31, 0, 0, ""),
            (40, 0, 0, "of the next generation"),
            (50, 0, 0, ""),
            (51, 0, 0, "of the next generation"),
        ]
    );
    let category = |slice| store.strings.get(store.slices.category(slice));
    assert_eq!([1, 3, 4].map(SliceId).map(category), [Some("kernel"), Some("unknown(2)"), Some("kernel")]);
    assert_eq!(args(&store, SliceId(1)), ["debug.correlation debug.correlation \"77\""]);
    assert_eq!(store.correlation(SliceId(1)), Some(77));
    assert_eq!(store.kernels, [1, 4].map(SliceId));
    // The name at 5, the name and the category at 30, the category at 31, the name at 50.
    assert_eq!(count(&store, Damage::NameUnknown), 5);
}

#[test]
fn phases_are_those_of_json() {
    let us = |us| value().number(3, us);
    let store = load_packets(&[
        thread(5, 33, 34),
        legacy(1000, b'X', 5, named("outer").and(value().number(17, 7)), us(10).number(4, 3)),
        legacy(2000, b'X', 5, value(), us(4).number(1, 1))
            .message(12, value().message(2, value().number(1, 1).bytes(2, "inner")))
            .number(13, 1),
        // It ends after `outer`.
        legacy(8000, b'X', 5, named("overlaps"), us(9)),
        legacy(20_000, b'B', 5, named("begins"), value()),
        legacy(21_000, b'i', 5, named("moment"), value()),
        legacy(21_000, b'I', 5, named("of all"), value().number(14, 1)),
        legacy(21_000, b'I', 5, named("of its process"), value().number(14, 2)),
        legacy(22_000, b'E', 5, value(), value()),
        legacy(23_000, b'C', 5, named("counter"), value()),
        legacy(24_000, b'X', 5, named("negative"), us(-1i64 as u64)),
    ]);
    check(&store);
    assert_eq!(
        rows(&store),
        [
            (1000, 10_000, 0, "outer"),
            (2000, 4000, 1, "inner"),
            (20_000, 2000, 0, "begins"),
            (21_000, 0, 1, "moment"),
            (21_000, 0, 0, "of all"),
            (21_000, 0, 0, "of its process"),
        ]
    );
    assert_eq!(store.slices.thread_times(SliceId(0)), (Some(Ns(7000)), Some(Ns(3000))));
    let kind = |slice| store.tracks.track(store.slices.track(slice)).owner.track_type();
    assert_eq!(
        [0, 3, 4, 5].map(SliceId).map(kind),
        ["thread_execution", "thread_execution", "legacy_chrome_global_instants", "chrome_process_instant"]
    );
    let process = |slice| store.tracks.track(store.slices.track(slice)).owner.process();
    assert_eq!(process(SliceId(5)), store.process_of(SliceId(0)));
    assert_eq!(count(&store, Damage::AsyncOverlap), 1);
    assert_eq!(count(&store, Damage::PhaseNotShown), 1);
    assert_eq!(count(&store, Damage::NegativeDuration), 1);
}

/// The key of an operation is its number and its category, or its scope with it; a local number is unique within its process.
#[test]
fn operations_have_tracks_of_their_own() {
    let category = |name: &str| value().bytes(22, name);
    let id = |id| value().number(6, id);
    let local = |id| value().number(10, id);
    let store = load_packets(&[
        thread(5, 33, 34),
        thread(6, 33, 35),
        thread(7, 44, 45),
        legacy(1, b'b', 5, named("a").and(category("c")), id(1)),
        legacy(2, b'b', 6, named("b").and(category("c")), value().number(11, 1)),
        legacy(3, b'n', 6, named("n").and(category("d")), id(1)),
        legacy(4, b'n', 6, named("m").and(category("c")), id(1).bytes(7, "scope")),
        legacy(5, b'e', 6, category("c"), id(1)),
        legacy(6, b'e', 7, category("c"), id(1)),
        legacy(10, b'b', 5, named("l"), local(1)),
        legacy(11, b'b', 7, named("other l"), local(1)),
        legacy(12, b'e', 6, value(), local(1)),
        legacy(13, b'e', 7, value(), local(1)),
        legacy(20, b'S', 5, named("s").and(category("c")), id(9)),
        legacy(21, b'T', 5, named("s").and(category("d")), id(9)),
        legacy(22, b'F', 5, named("s"), id(9)),
        legacy(30, b'b', 5, named("without a number"), value()),
    ]);
    check(&store);
    let found: Vec<(&str, i64, u16, &str, Option<&str>)> = (store.slices.ids().zip(rows(&store)))
        .map(|(slice, (_, dur, depth, name))| {
            let track = store.tracks.track(store.slices.track(slice));
            (name, dur, depth, track.owner.track_type(), store.strings.get(track.name))
        })
        .collect();
    let (all, own) = ("legacy_async_global_slice", "legacy_async_process_slice");
    assert_eq!(
        found,
        [
            ("a", 5, 0, all, Some("a")),
            ("b", 3, 1, all, Some("a")),
            ("n", 0, 0, all, Some("n")),
            ("m", 0, 0, all, Some("m")),
            ("l", 2, 0, own, Some("l")),
            ("other l", 2, 0, own, Some("other l")),
            ("s", 2, 0, all, Some("s")),
            ("s", 0, 1, all, Some("s")),
        ]
    );
    assert_eq!(count(&store, Damage::PacketSyntax), 1);
}

/// The same flows as in JSON: `s`, `t`, `f` by their time on the track, and those that are bound to a slice.
#[test]
fn flows_of_both_versions() {
    let us = |us| value().number(3, us);
    let x = |ts, track, more: Message| legacy(ts, b'X', track, named("x"), us(5).and(more));
    let flow = |ts, phase, track, id: u64| {
        legacy(ts, phase, track, named("ac2g").and(value().bytes(22, "ac2g")), value().number(6, id).number(12, 1))
    };
    let tied = |id, direction| value().number(8, id).number(13, direction);
    let store = load_packets(&[
        x(1000, 5, value()),
        flow(1000, b's', 5, 7),
        x(10_000, 6, value()),
        flow(10_000, b't', 6, 7),
        x(20_000, 6, value()),
        flow(20_000, b'f', 6, 7),
        flow(20_000, b'f', 6, 8),
        legacy(20_000, b's', 6, value(), value()),
        x(30_000, 5, tied(900, 2)),
        x(31_000, 6, tied(900, 3)),
        x(40_000, 6, tied(900, 1)),
        x(50_000, 6, value().number(8, 900)),
    ]);
    assert_eq!(flow_rows(&store), [(0, 1, 0), (1, 2, 0), (3, 4, 900), (4, 5, 900)]);
    assert_eq!(count(&store, Damage::FlowEndWithoutStart), 1);
    assert_eq!(count(&store, Damage::FlowInvalidId), 1);
    assert_eq!(count(&store, Damage::FlowWithoutDirection), 1);
}

/// A sequence's thread comes from its descriptor, and a legacy event may be of another thread. An event without a time in its packet
/// is counted.
#[test]
fn threads_come_from_descriptors_and_legacy_events() {
    let descriptor = packet().message(44, value().number(1, 33).number(2, 34).bytes(5, "main"));
    let of_own = |ts, name: &str| packet().number(8, ts).message(11, named(name).number(9, 3));
    let of = |message: Message| {
        let phase = value().number(2, b'i'.into()).and(message);
        packet().number(8, 3000).message(11, named("of another").message(6, phase))
    };
    let store = load_packets(&[
        descriptor.number(13, 1),
        of_own(2000, "a"),
        // The times of 2020.
        packet().message(11, named("absolute").number(9, 3).number(16, 2)),
        packet().message(11, named("since the one before").number(9, 3).number(1, 5)),
        of(value().number(19, 35)),
        of(value().number(18, 44).number(19, 45)),
        packet().number(8, 4000).message(
            11,
            value()
                .bytes(23, "thread_name")
                .message(6, value().number(2, b'M'.into()).number(19, 35))
                .message(4, value().bytes(10, "name").bytes(6, "worker")),
        ),
        packet().message(43, value().number(1, 33).bytes(6, "python")),
    ]);
    let got: Vec<_> = rows(&store).into_iter().map(|(ts, .., name)| (ts, name)).collect();
    assert_eq!(got, [(2000, "a"), (3000, "of another"), (3000, "of another")]);
    assert_eq!(count(&store, Damage::EventWithoutTime), 2);
    let thread = |slice| {
        let thread = store.tracks.thread(store.thread_of(SliceId(slice)).unwrap());
        let process = store.tracks.process(thread.upid);
        (process.pid, thread.tid, store.strings.get(thread.name), store.strings.get(process.name))
    };
    assert_eq!(thread(0), (33, 34, Some("main"), Some("python")));
    assert_eq!(thread(1), (33, 35, Some("worker"), Some("python")));
    assert_eq!(thread(2), (44, 45, None, None));
}

/// All forms in which an argument may be written.
#[test]
fn arguments_of_all_forms() {
    let nested = |kind| value().number(1, kind);
    let leaf = |n: u64| value().number(5, n);
    let list = nested(2).message(4, leaf(1)).message(4, value()).message(4, leaf(2));
    let dict = nested(1)
        .bytes(2, "a.b")
        .bytes(2, "list")
        .bytes(2, "no value")
        .message(3, value().bytes(8, "x"))
        .message(3, list.clone());
    let location = value().number(1, 3).bytes(2, "a.cc").bytes(3, "f").number(4, 7);
    let more = named("k")
        .and(annotation("nested", value().message(8, dict)))
        .and(annotation("list", value().message(8, list)))
        .and(annotation("flag", value().message(8, value().number(7, 1))))
        .and(annotation("json", value().bytes(9, "{\"a.b\":[1,{\"c\":null,\"d\":\"x\"}],\"e\":1.5}")))
        .and(annotation("plain", value().bytes(9, "\"text\"")))
        .and(annotation("broken", value().bytes(9, "{\"a\":1,NaN")))
        .and(annotation("small", value().number(3, 5)))
        .and(annotation("id", value().number(3, u64::MAX)))
        .and(annotation("pointer", value().number(7, 0x1000)))
        .and(annotation("high", value().number(7, 0xffff_8000_0000_0000)))
        .and(annotation("none", value()))
        .and(annotation("empty list", value().message(12, value()).message(12, value().number(4, 1))))
        // The number wins over the name as text.
        .and(value().message(4, value().bytes(10, "unused").number(1, 1).number(4, 1)))
        .number(34, 3)
        .message(33, value().bytes(2, "b.cc"))
        .number(52, 9);
    let defined = value().message(3, value().number(1, 1).bytes(2, "named")).message(4, location);
    let store = load_packets(&[event(1, 3, 5, more).number(13, 1).message(12, defined)]);
    assert_eq!(
        args(&store, SliceId(0)),
        [
            "source.file_name source.file_name \"a.cc\"",
            "source.function_name source.function_name \"f\"",
            "source.line_number source.line_number Int(7)",
            "source_location.file_name source_location.file_name \"b.cc\"",
            "correlation_id correlation_id \"tp:#9\"",
            "debug.nested.a_b debug.nested.a_b \"x\"",
            "debug.nested.list[0] debug.nested.list Int(1)",
            "debug.nested.list[1] debug.nested.list Int(2)",
            "debug.list[0] debug.list Int(1)",
            "debug.list[1] debug.list Int(2)",
            "debug.flag debug.flag Bool(true)",
            "debug.json.a.b[0] debug.json.a.b Int(1)",
            "debug.json.a.b[1].d debug.json.a.b.d \"x\"",
            "debug.json.e debug.json.e Real(1.5)",
            "debug.plain debug.plain \"text\"",
            "debug.broken.a debug.broken.a Int(1)",
            "debug.small debug.small Int(5)",
            "debug.id debug.id \"18446744073709551615\"",
            "debug.pointer debug.pointer Int(4096)",
            "debug.high debug.high \"0xffff800000000000\"",
            "debug.empty list[0] debug.empty list Int(1)",
            "debug.named debug.named Int(1)",
        ]
    );
}

#[test]
fn attributes_are_metadata() {
    let attribute = |key: &str, value: Message| Message::default().message(1, value.bytes(1, key));
    let attributes = attribute("rank", value().number(2, 3))
        .and(attribute("job", value().bytes(3, "train")))
        .and(attribute("none", value()));
    let store = load_packets(&[packet().message(126, attributes), event(1, 3, track(5).0.len() as u64, named("a"))]);
    let field = |key: &str, value| HeaderField { key: key.to_owned(), value };
    let want = vec![
        field("trace_attribute.rank", ArgValue::Int(3)),
        field("trace_attribute.job", ArgValue::Text("train".to_owned())),
    ];
    for fields in [&store.metadata, &store.header] {
        let found: Vec<_> = fields.iter().map(|f| HeaderField { key: f.key.clone(), value: f.value.clone() }).collect();
        assert_eq!(found, want);
    }
    // A file of attributes alone is no trace.
    assert!(read(&file(&[packet().message(126, value())]), ArgsWanted::All).is_err());
}

/// A slice belongs to the process of its track wherever the track is described.
#[test]
fn operations_and_instants_of_a_process_may_come_before_it() {
    let local = |id| value().number(10, id);
    let store = load_packets(&[
        legacy(1000, b'b', 5, named("operation"), local(1)),
        legacy(1200, b'i', 5, named("of the process"), value().number(14, 2)),
        thread(5, 33, 34),
        legacy(1500, b'b', 5, named("of another number"), local(2)),
        legacy(2000, b'e', 5, value(), local(1)),
        legacy(2500, b'e', 5, value(), local(2)),
        // A track without a description.
        legacy(3000, b'b', 6, named("of nobody"), local(1)),
    ]);
    check(&store);
    let got: Vec<_> = rows(&store).into_iter().map(|(ts, dur, _, name)| (ts, dur, name)).collect();
    assert_eq!(
        got,
        [
            (1000, 1000, "operation"),
            (1200, 0, "of the process"),
            (1500, 1000, "of another number"),
            (3000, -1, "of nobody"),
        ]
    );
    let track = |slice| store.tracks.track(store.slices.track(slice));
    let pid = |slice| track(slice).owner.process().map(|upid| store.tracks.process(upid).pid);
    assert_eq!([0, 1, 2, 3].map(SliceId).map(pid), [Some(33), Some(33), Some(33), None]);
}

/// Without any snapshot all events are taken to be on one clock, however many there are.
#[test]
fn a_clock_needs_no_snapshot() {
    let filler = "x".repeat(1 << 20);
    let packets: Vec<Message> =
        (1..80).map(|ts| event(ts, 3, 5, named("a").and(value().bytes(99, &filler))).number(58, 3)).collect();
    let store = load_packets(&packets);
    let times: Vec<_> = rows(&store).into_iter().map(|(ts, ..)| ts).collect();
    assert_eq!(times, (1..80).collect::<Vec<_>>());
    assert_eq!(count(&store, Damage::ClockUnknown), 0);
}

/// The name is the text in the event. Without it nothing is named.
#[test]
fn a_name_that_is_not_there_takes_none_away() {
    let naming = |text: Message| annotation("name", text);
    let store = load_packets(&[
        packet().message(60, track(5).message(4, value().number(1, 33).number(2, 34).bytes(5, "worker"))),
        legacy(1, b'M', 5, named("thread_name").and(naming(value().number(17, 1))), value()),
        legacy(2, b'M', 5, named("thread_name"), value()),
        event(3, 3, 5, named("a")),
    ]);
    let utid = store.thread_of(SliceId(0)).unwrap();
    assert_eq!(store.strings.get(store.tracks.thread(utid).name), Some("worker"));
}
