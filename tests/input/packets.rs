//! Perfetto's protobuf loads like the same trace in JSON; damage to it is counted and never panics.

use std::path::Path;

use nccl_stacks::damage::Damage;
use nccl_stacks::event::{ArgsWanted, EventsOf, KeySet};
use nccl_stacks::id::{ProcessId, SliceId};
use nccl_stacks::input::from_reader;
use nccl_stacks::load::{LoadOptions, load_input};
use proptest::prelude::*;

use crate::support::pack::{gzip, zlib};
use crate::support::packets::{
    Message, Style, args, event, file, flow_rows, from_json, load_packets, named, packet, read, rows, thread, track,
};
use crate::support::program::{has, refused, run, scratch, stderr, stdout, stdout_of, testdata};
use crate::support::random::{Random, damage};
use crate::support::sound::check;

fn json(name: &str) -> String {
    crate::support::read_text(Path::new(&testdata(name)))
}

/// All ways in which the packets of a trace may be compressed.
fn packings(packets: &[Message]) -> Vec<Vec<u8>> {
    let plain = file(packets);
    // Several packets in one, and the next ones in another.
    let (first, second) = packets.split_at(packets.len() / 2);
    let inside = |field, pack: &dyn Fn(&[u8]) -> Vec<u8>| {
        file(&[first, second].map(|half| Message::default().bytes(field, pack(&file(half)))))
    };
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 3).unwrap();
    vec![inside(50, &|bytes| zlib(bytes)), inside(50, &gzip), inside(133, &zstd), gzip(&plain), zstd(&plain), plain]
}

/// The whole answer of the program: kernels, launches, their callers, times and collective info.
#[test]
fn the_answer_is_that_of_the_same_trace_in_json() {
    for name in ["costs.json", "two_matches.json", "overlap_pdl.json", "forward_backward.json", "flow_only.json"] {
        let text = stdout_of(&[&testdata(name), "--no-interactive"]);
        for style in [Style::Plain, Style::Incremental, Style::Legacy] {
            for (number, bytes) in packings(&from_json(&json(name), style)).iter().enumerate() {
                let (_folder, path) = scratch("trace.pftrace", bytes);
                let got = run(&[&path, "--no-interactive"]);
                assert_eq!(stdout(&got), text, "{name} {style:?} {number}: {}", stderr(&got));
            }
        }
    }
}

#[test]
fn equal_times_stay_in_file_order() {
    let store = load_packets(&[
        event(10, 1, 5, named("a")),
        event(20, 1, 5, named("b")),
        // If ends went first, this would close `a`.
        event(20, 2, 5, Message::default()),
        event(30, 2, 5, Message::default()),
        // A late one, which does not change the order of others.
        event(5, 3, 5, named("early")),
        event(40, 1, 5, named("open")),
    ]);
    assert_eq!(rows(&store), [(5, 0, 0, "early"), (10, 20, 0, "a"), (20, 0, 1, "b"), (40, -1, 0, "open")]);
}

/// A flow goes from each slice that has it to the next one, whether their begin or their end names it; a
/// terminating id may be reused.
#[test]
fn flows_pass_slices() {
    let flow = |id| Message::default().fixed(47, id);
    let last = |id| Message::default().fixed(48, id);
    let store = load_packets(&[
        event(10, 1, 5, flow(900)),
        event(11, 1, 5, flow(901)),
        // The inner slice ends, and flow 902 leaves it.
        event(12, 2, 5, flow(902)),
        event(13, 2, 5, Message::default()),
        event(20, 3, 6, flow(900)),
        event(30, 1, 6, Message::default().fixed(48, 900).fixed(48, 901)),
        event(31, 2, 6, last(902)),
        // Not started: nothing; after this it is another flow.
        event(40, 3, 6, last(900)),
        event(50, 3, 6, flow(900)),
        event(60, 3, 5, Message::default().number(36, 900)),
    ]);
    assert_eq!(flow_rows(&store), [(0, 2, 900), (2, 3, 900), (1, 3, 901), (1, 3, 902), (5, 6, 900)]);
}

#[test]
fn tracks_belong_to_threads_processes_and_nobody() {
    let store = load_packets(&[
        event(1, 3, 10, named("on a thread")),
        event(2, 3, 11, named("under it")),
        event(3, 3, 12, named("on a process")),
        event(4, 3, 13, named("under it")),
        event(5, 3, 14, named("alone")),
        event(6, 3, 15, named("under that")),
        event(7, 3, 16, named("nowhere described")),
        packet().number(8, 8).message(11, Message::default().number(9, 3).bytes(23, "nowhere")),
        event(9, 3, 17, named("of pid 0")),
        event(10, 3, 18, named("of another thread with the number of the first")),
        packet().message(60, track(11).number(5, 10).bytes(2, "child")),
        packet().message(60, track(12).message(3, Message::default().number(1, 33).bytes(6, "python"))),
        packet().message(60, track(13).number(5, 12)),
        packet().message(60, track(14).bytes(2, "root")),
        packet().message(60, track(15).number(5, 14)),
        thread(17, 0, 7),
        thread(10, 33, 34),
        thread(18, 33, 34),
    ]);
    let tracks = &store.tracks;
    let shown: Vec<(&str, Option<&str>)> =
        (tracks.tracks.iter()).map(|track| (track.owner.track_type(), store.strings.get(track.name))).collect();
    assert_eq!(
        shown,
        [
            ("thread_execution", None),
            ("thread_merged_track_event", Some("child")),
            ("process_track_event", None),
            ("process_merged_track_event", None),
            ("global_track_event", Some("root")),
            ("global_merged_track_event", None),
            ("global_track_event", Some("nowhere described")),
            ("global_track_event", Some("Default Track")),
            ("thread_execution", None),
            ("thread_execution", None),
        ]
    );
    let thread = |slice| {
        let utid = store.thread_of(slice)?;
        let thread = tracks.thread(utid);
        Some((utid, thread.upid, tracks.process(thread.upid).pid, thread.tid))
    };
    let (first, second) = (thread(SliceId(0)).unwrap(), thread(SliceId(9)).unwrap());
    assert_eq!((first.2, first.3), (33, 34));
    assert_eq!((second.2, second.3), (33, 34));
    assert_ne!(first.0, second.0);
    assert_eq!(thread(SliceId(1)), Some(first));
    assert_eq!(
        thread(SliceId(8)).map(|(_, upid, pid, tid)| (upid, pid, tid)),
        Some((ProcessId(0), 0, 7)),
        "the idle process"
    );
    assert_eq!((2..8).map(SliceId).filter_map(thread).count(), 0);
    assert_eq!(store.process_of(SliceId(2)), Some(first.1));
    assert_eq!(store.process_of(SliceId(3)), Some(first.1));
    assert_eq!(store.strings.get(tracks.process(first.1).name), Some("python"));
}

#[test]
fn annotations_are_arguments() {
    let annotation = |name: &str, value: Message| value.bytes(10, name);
    let value = Message::default;
    let dict = value().message(11, annotation("x.y", value().number(2, 1))).message(11, annotation("z", value()));
    let list = value().message(12, value().number(4, 512)).message(12, dict.clone());
    let more = named("k")
        .bytes(22, "kernel")
        .message(4, annotation("grid[0]", list))
        .message(4, annotation("correlation", value().number(3, 77)))
        .message(4, annotation("External id", value().bytes(6, "5")))
        .message(4, annotation("rate", value().fixed(5, 1.5f64.to_bits())))
        .message(4, value().number(4, 9));
    // The end brings one more.
    let end = value().message(4, annotation("bytes", value().number(4, u64::MAX)));
    let store = load_packets(&[event(1, 1, 5, more), event(2, 2, 5, end)]);
    let got = args(&store, SliceId(0));
    assert_eq!(
        got,
        [
            "debug.grid_0_[0] debug.grid_0_ Int(512)",
            "debug.grid_0_[1].x_y debug.grid_0_.x_y Bool(true)",
            "debug.correlation debug.correlation Int(77)",
            "debug.External id debug.External id \"5\"",
            "debug.rate debug.rate Real(1.5)",
            "debug.bytes debug.bytes Int(-1)",
        ]
    );
    let slice = SliceId(0);
    assert_eq!((store.correlation(slice), store.external_id(slice)), (Some(77), Some(5)));
    assert_eq!(store.kernels, [SliceId(0)]);
}

#[test]
fn packets_that_depend_on_lost_ones_are_left_out() {
    let clear = |packet: Message| packet.number(13, 1);
    let needs = |packet: Message| packet.number(13, 2);
    let interned = |iid, name: &str| {
        Message::default().message(12, Message::default().message(2, Message::default().number(1, iid).bytes(2, name)))
    };
    let with = |packet: Message, more: Message| Message([packet.0, more.0].concat());
    let iid = |iid| Message::default().number(10, iid);
    let store = load_packets(&[
        needs(event(1, 3, 5, named("before the state"))),
        with(clear(event(2, 3, 5, iid(1))), interned(1, "one")),
        needs(event(3, 3, 5, iid(1))),
        // The first definition wins.
        with(needs(event(4, 3, 5, iid(1))), interned(1, "other")),
        needs(event(5, 3, 5, iid(9))),
        event(6, 3, 5, named("needs nothing")).number(42, 1),
        needs(event(7, 3, 5, iid(1))),
        with(clear(event(8, 3, 5, iid(1))), interned(1, "anew")),
        packet().number(8, 9),
        Message::default().number(8, 9).message(11, Message::default().number(9, 3)),
        packet().message(11, Message::default().number(9, 3)),
        event(10, 4, 5, Message::default()),
    ]);
    let got: Vec<_> = rows(&store).into_iter().map(|(ts, .., name)| (ts, name)).collect();
    assert_eq!(got, [(2, "one"), (3, "one"), (4, "one"), (5, ""), (6, "needs nothing"), (8, "anew")]);
    let count = |kind| store.damage.get(kind).count;
    assert_eq!(count(Damage::PacketWithoutState), 2);
    assert_eq!(count(Damage::NameUnknown), 1);
    assert_eq!(count(Damage::EventWithoutSequence), 1);
    assert_eq!(count(Damage::EventWithoutTime), 1);
    assert_eq!(count(Damage::PhaseNotShown), 1, "a counter");
}

#[test]
fn times_come_onto_one_clock() {
    let clock = |number, ts| Message::default().number(1, number).number(2, ts);
    let snapshot = |a, b| packet().message(6, Message::default().message(1, a).message(1, b));
    let on = |ts, clock, name: &str| {
        Message::default()
            .number(10, 7)
            .number(8, ts)
            .number(58, clock)
            .message(11, Message::default().number(9, 3).number(11, 5).bytes(23, name))
    };
    let store = load_packets(&[
        // Its clock becomes known later.
        on(60, 3, "monotonic"),
        on(1, 77, "of no known clock"),
        snapshot(clock(6, 1000), clock(3, 50)),
        snapshot(clock(6, 1100), clock(3, 160)),
        snapshot(clock(3, 50), clock(1, 10)),
        on(55, 3, "monotonic, too"),
        on(40, 3, "before the first snapshot"),
        on(170, 3, "after the second"),
        on(14, 1, "through another"),
        on(1002, 6, "boottime"),
        event(1003, 3, 5, named("of no clock")),
    ]);
    let got: Vec<_> = rows(&store).into_iter().map(|(ts, .., name)| (ts, name)).collect();
    assert_eq!(
        got,
        [
            (990, "before the first snapshot"),
            (1002, "boottime"),
            (1003, "of no clock"),
            (1004, "through another"),
            (1005, "monotonic, too"),
            (1010, "monotonic"),
            (1110, "after the second"),
        ]
    );
    assert_eq!(store.damage.get(Damage::ClockUnknown).count, 1);
    let without_snapshot = load_packets(&[on(60, 3, "as it is")]);
    assert_eq!(rows(&without_snapshot), [(60, 0, 0, "as it is")]);
}

/// As Perfetto's own writers do it: a sequence's clock advances with every packet, also with one that describes a
/// track; an event at the same time then has the difference 0. The clock counts in units of 10 ns.
#[test]
fn each_packet_moves_a_clock_on() {
    let clock = |number, ts| Message::default().number(1, number).number(2, ts);
    let defaults = Message::default().number(58, 64).message(11, Message::default().number(11, 1));
    let instant = |name: &str| Message::default().number(9, 3).bytes(23, name);
    let at = |delta| packet().number(13, 2).number(8, delta);
    let snapshot = Message::default().message(1, clock(6, 1000)).message(1, clock(64, 100).number(3, 1).number(4, 10));
    let store = load_packets(&[
        packet().number(13, 1).number(8, 7).number(58, 6).message(59, defaults).message(6, snapshot),
        at(0).message(60, track(1)),
        at(10).message(11, instant("first")),
        at(500).message(60, track(2)),
        at(0).message(11, instant("on the new track").number(11, 2)),
        // Packets left out for lack of state do not advance it.
        Message::default().number(10, 8).number(13, 2).number(8, 90).number(58, 64).message(11, instant("lost")),
        at(5).message(11, instant("last")),
    ]);
    let times: Vec<i64> = rows(&store).into_iter().map(|(ts, ..)| ts).collect();
    assert_eq!(times, [1100, 6100, 6150]);
}

/// Clock 0 is none: the default clock holds, or the trace's.
#[test]
fn clock_0_is_none() {
    let clock = |number, ts| Message::default().number(1, number).number(2, ts);
    let snapshot = Message::default().message(1, clock(6, 100)).message(1, clock(3, 50));
    let defaults = |clock| Message::default().number(58, clock);
    let store = load_packets(&[
        packet().message(6, snapshot),
        event(1000, 3, 5, named("the trace's")).number(58, 0),
        event(2000, 3, 5, named("the trace's, too")).number(13, 1).message(59, defaults(0)),
        event(3000, 3, 5, named("monotonic")).number(58, 0).message(59, defaults(3)),
    ]);
    let times: Vec<i64> = rows(&store).into_iter().map(|(ts, ..)| ts).collect();
    assert_eq!(times, [1000, 2000, 3050]);
}

/// A packet's clocks, names and facts about the trace count, though the rest of it depends on lost packets.
#[test]
fn a_packet_without_state_still_defines_clocks() {
    let clock = |number, ts| Message::default().number(1, number).number(2, ts);
    let snapshot = Message::default().message(1, clock(6, 100)).message(1, clock(3, 50));
    let store = load_packets(&[
        packet().number(13, 2).message(6, snapshot),
        event(1000, 3, 5, named("monotonic")).number(58, 3).number(10, 8),
    ]);
    assert_eq!(rows(&store), [(1050, 0, 0, "monotonic")]);
    assert_eq!(store.damage.get(Damage::PacketWithoutState).count, 1);
}

/// The times of a clock that went backwards are unknown.
#[test]
fn times_of_a_clock_that_went_backwards_are_unknown() {
    let clock = |number, ts| Message::default().number(1, number).number(2, ts);
    let snapshot = |a, b| packet().message(6, Message::default().message(1, a).message(1, b));
    let store = load_packets(&[
        snapshot(clock(6, 100), clock(1, 1000)),
        event(1010, 3, 5, named("before")).number(58, 1),
        snapshot(clock(6, 200), clock(1, 900)),
        event(1010, 3, 5, named("behind")).number(58, 1),
    ]);
    assert_eq!(rows(&store), [(110, 0, 0, "before")]);
    assert_eq!(store.damage.get(Damage::ClockUnknown).count, 1);
    // The trace's own clock does not go backwards: that snapshot does not count.
    let store = load_packets(&[
        snapshot(clock(6, 100), clock(3, 1000)),
        snapshot(clock(6, 50), clock(3, 1100)),
        event(1150, 3, 5, named("a")).number(58, 3),
    ]);
    assert_eq!(rows(&store), [(250, 0, 0, "a")]);
    assert_eq!(store.damage.get(Damage::SnapshotInvalid).count, 1);
}

/// If all events are lost for one reason, the error names it.
#[test]
fn a_trace_without_events_says_why() {
    let clock = |number, ts| Message::default().number(1, number).number(2, ts);
    let snapshot = packet().message(6, Message::default().message(1, clock(6, 100)));
    let bytes = file(&[snapshot, event(5, 3, 5, named("a")).number(58, 3)]);
    let error = read(&bytes, ArgsWanted::All).unwrap_err();
    let want = "none of its 2 packets is a track event that can be shown; \
        there are 1 packets on a clock that no snapshot relates to the trace's clock";
    has(&error, want);
}

#[test]
fn packets_of_other_machines_are_counted() {
    let store = load_packets(&[event(1, 3, 5, named("a")), event(2, 3, 5, named("b")).number(98, 7)]);
    assert_eq!(store.slices.len(), 2);
    assert_eq!(store.damage.get(Damage::OtherMachine).count, 1);
}

/// Wherever a file breaks off, everything whole before is there.
#[test]
fn cut_at_every_byte() {
    for style in [Style::Plain, Style::Incremental] {
        let packets = from_json(&json("overlap_pdl.json"), style);
        let bytes = file(&packets);
        let whole = read(&bytes, ArgsWanted::All).unwrap();
        assert_eq!((whole.slices.len(), whole.damage.faults().count()), (13, 0));
        let mut events = 0;
        for end in 0..bytes.len() {
            match read(&bytes[..end], ArgsWanted::All) {
                Ok(store) => {
                    check(&store);
                    assert!(store.events == events || store.events == events + 1, "{end}: {} {events}", store.events);
                    events = store.events;
                }
                Err(error) => assert!(events == 0 && !error.is_empty(), "{end}: {error}"),
            }
        }
        assert_eq!(events, whole.events);
        let cut = read(&bytes[..bytes.len() - 1], ArgsWanted::All).unwrap();
        let last = bytes.len() - file(&packets[packets.len() - 1..]).len();
        assert_eq!(cut.damage.get(Damage::Truncated).first_offset, Some(last as u64));
    }
}

#[test]
fn damage_does_not_panic() {
    let mut random = Random(11);
    let (mut answers, mut errors) = (0, 0);
    for style in [Style::Plain, Style::Incremental] {
        for bytes in packings(&from_json(&json("two_matches.json"), style)) {
            for _ in 0..300 {
                match read(&damage(&bytes, &mut random), ArgsWanted::All) {
                    Ok(store) => {
                        check(&store);
                        answers += 1;
                    }
                    Err(error) => {
                        assert!(!error.is_empty());
                        errors += 1;
                    }
                }
            }
        }
    }
    assert!(answers > 500 && errors > 100, "{answers} answers, {errors} errors: the damage is one-sided");
}

/// A field of any number and type that may be right or not.
fn field() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![0u64..64, Just(133), Just(126)];
    let content = prop::collection::vec(any::<u8>(), 0..24);
    (number, 0u64..6, any::<u64>(), content).prop_map(|(number, kind, value, content)| match kind {
        0 => Message::default().number(number, value).0,
        1 => Message::default().fixed(number, value).0,
        _ => Message::default().bytes(number, content).0,
    })
}

proptest! {
    #[test]
    fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        // A correct first packet, so that the file is recognised as packets.
        let start = file(&[event(1, 3, 5, named("first"))]);
        let store = read(&[start, bytes].concat(), ArgsWanted::All).unwrap();
        check(&store);
        prop_assert!(store.events >= 1);
    }

    #[test]
    fn random_fields_do_not_panic(
        packets in prop::collection::vec((prop::collection::vec(field(), 0..6), prop::collection::vec(field(), 0..8)), 0..20)
    ) {
        let mut all = vec![event(1, 1, 5, named("first"))];
        for (outside, inside) in packets {
            let event = Message::default().number(10, 7).number(8, 3).bytes(11, inside.concat());
            all.push(Message([event.0, outside.concat()].concat()));
        }
        let store = read(&file(&all), ArgsWanted::All).unwrap();
        check(&store);
        prop_assert!(store.events >= 1);
    }
}

/// A packet that declares the length of a disk takes no memory for bytes that do not exist; one whose length alone
/// distinguishes it from JSON is read.
#[test]
fn lengths_may_lie() {
    let good = file(&[event(1, 3, 5, named("first"))]);
    let long = [&good[..], b"\x0a\xff\xff\xff\xff\xff\xff\x7f", &good].concat();
    let store = read(&long, ArgsWanted::All).unwrap();
    assert_eq!(store.slices.len(), 1);
    assert_eq!(store.damage.get(Damage::PacketStructure).first_offset, Some(good.len() as u64));
    let name = "n".repeat(123 - 13);
    let brace = file(&[event(1, 3, 5, named(&name))]);
    assert_eq!(brace[1], b'{');
    assert_eq!(read(&brace, ArgsWanted::All).unwrap().slices.len(), 1);
    let text = format!("\n{}", json("overlap_pdl.json"));
    assert_eq!(read(text.as_bytes(), ArgsWanted::All).unwrap().slices.len(), 13);
}

/// A window of a trace in this format cannot be written as a trace: that is an error, and nothing is written.
#[test]
fn it_cannot_be_cut() {
    let (folder, path) = scratch("trace.pftrace", &file(&from_json(&json("two_matches.json"), Style::Plain)));
    let out = folder.path().join("out.json");
    refused(
        &["export", &path, "--trace", out.to_str().unwrap()],
        1,
        "cannot be written as a trace. --sqlite exports the whole trace",
    );
    assert!(!out.exists());
    // The first bytes decide that: loading this one would fail.
    let (_folder, path) = scratch("trace.pftrace", &file(&[packet().number(8, 1)]));
    let output = run(&["export", &path, "--trace", out.to_str().unwrap()]);
    assert!(
        stderr(&output).contains("cannot be written as a trace") && !stderr(&output).contains("loaded"),
        "{}",
        stderr(&output)
    );
}

/// A question that names argument keys gets these and no others, of events of any category, from both formats.
#[test]
fn named_keys_are_kept() {
    let text = r#"{"traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 5,
            "args": {"External id": 3, "Input Dims": [[2, 3], [], [[4]]], "Ev Idx": 1}},
        {"ph": "X", "cat": "python_function", "name": "f", "pid": 1, "tid": 1, "ts": 2, "dur": 1, "args": {"Python id": 5}},
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 1, "tid": 1, "ts": 4, "dur": 1,
            "args": {"stream": 7, "correlation": 4, "x": {"stream": 8}}},
        {"ph": "X", "name": "no category", "pid": 1, "tid": 1, "ts": 7, "dur": 1, "args": {"stream": "s"}}
    ]}"#;
    let wanted = ArgsWanted::Keys(KeySet { keys: &["Input Dims", "stream", "nowhere"], of: EventsOf::Any });
    let of_json = {
        let input = from_reader("test".to_owned(), None, Box::new(text.as_bytes())).unwrap();
        load_input(input, LoadOptions { args: wanted, ..LoadOptions::default() }, |_| {}).unwrap().store
    };
    let of_packets = read(&file(&from_json(text, Style::Plain)), wanted).unwrap();
    for (store, root) in [(of_json, "args"), (of_packets, "debug")] {
        let dims = |path: &str, value| format!("{root}.Input Dims{path} {root}.Input Dims Int({value})");
        let rows: Vec<Vec<String>> = store.slices.ids().map(|slice| args(&store, slice)).collect();
        assert_eq!(
            rows,
            [
                vec![
                    dims("[0][0]", 2),
                    dims("[0][1]", 3),
                    dims(if root == "args" { "[2][0][0]" } else { "[1][0][0]" }, 4)
                ],
                vec![],
                vec![format!("{root}.stream {root}.stream Int(7)")],
                vec![format!("{root}.stream {root}.stream \"s\"")],
            ]
        );
        assert_eq!(
            (store.external_id(SliceId(0)), store.correlation(SliceId(2))),
            (Some(3), Some(4)),
            "ids are read all the same"
        );
    }
}
