//! Perfetto's protobuf. The first byte says whether the rest is the file itself or a list of packets to make.
//!
//! Whatever is read is sound, no more is lost than there was, and keeping the arguments changes nothing else
//! (except for broken packets: one with broken arguments is skipped if they are to be kept, and they are not read otherwise).
//!
//! Packets that are whole and only have odd contents never count as broken.

use std::num::NonZero;

use nccl_stacks::damage::{Damage, DamageReport};
use nccl_stacks::event::{ArgsWanted, Shard as _, TrackItem};
use nccl_stacks::id::{SliceId, TrackId};
use nccl_stacks::input::proto::Stream;
use nccl_stacks::store::batch::Shard;
use nccl_stacks::store::traces::Trace;
use nccl_stacks::store::{Builder, Store};
use nccl_stacks::time::Ns;

use super::sound;
use super::writer::{Message, event, file, legacy, named, packet, thread, track};

/// More packets add no new cases.
const MAX_PACKETS: usize = 40;

/// The bytes of a packet.
const WIDTH: usize = 4;

/// All packets of a file, as the loader reads them.
fn read(bytes: &[u8], args: ArgsWanted) -> (Store, DamageReport) {
    let (mut shard, mut builder) = (Shard::new(0, false), Builder::default());
    let summary = Stream::unlimited(bytes.to_vec()).read(args, |item| {
        match item {
            TrackItem::Event { track, event, offset } => shard.add_on(track, event, offset),
            TrackItem::Track(description) => shard.describe(&description),
        }
        true
    });
    assert!(summary.failure.is_none() && summary.text_bytes == bytes.len() as u64);
    builder.add(shard.take_in_file_order());
    builder.end_trace(summary.header, Trace { events: summary.events, ..Trace::default() });
    (builder.finish(DamageReport::default(), NonZero::<usize>::MIN), summary.damage)
}

/// Time, length, depth, track, name and parent of a slice.
type Slice<'a> = (Ns, Ns, u16, TrackId, Option<&'a str>, Option<SliceId>);

/// All slices, without their arguments.
fn slices(store: &Store) -> Vec<Slice<'_>> {
    let slices = &store.slices;
    let name = |id| store.strings.get(slices.name(id));
    (slices.ids())
        .map(|id| (slices.ts(id), slices.dur(id), slices.depth(id), slices.track(id), name(id), slices.parent(id)))
        .collect()
}

pub fn check(bytes: &[u8]) {
    let [how, rest @ ..] = bytes else { return };
    let is_structured = how % 4 != 0;
    let bytes = match how % 4 {
        0 => rest.to_vec(),
        // Whole packets, and sometimes one that is cut off or has a byte changed.
        1 | 2 => file(&packets(rest)),
        _ => {
            let mut bytes = file(&packets(rest));
            let at = (usize::from(how >> 2) * bytes.len()) >> 6;
            if how & 4 == 0 {
                bytes.truncate(at)
            } else if at < bytes.len() {
                bytes[at] ^= 1 << (how >> 5)
            }
            bytes
        }
    };
    let (store, damage) = read(&bytes, ArgsWanted::All);
    sound::check(&store);
    assert!(damage.lost_bytes() <= bytes.len() as u64);
    let (bare, _) = read(&bytes, ArgsWanted::COLLECTIVES);
    if damage.get(Damage::PacketSyntax).count == 0 {
        assert_eq!(slices(&store), slices(&bare));
    }
    if is_structured && how % 4 != 3 {
        for kind in [Damage::PacketStructure, Damage::PacketSyntax, Damage::PacketTooLong, Damage::Truncated] {
            assert_eq!(damage.get(kind).count, 0, "{kind:?}");
        }
    }
}

fn packets(bytes: &[u8]) -> Vec<Message> {
    let bytes = bytes.chunks_exact(WIDTH).take(MAX_PACKETS);
    bytes.map(|bytes| one(bytes.try_into().unwrap())).collect()
}

/// One packet; few values of anything, so that they meet.
fn one([kind, what, ts, number]: [u8; WIDTH]) -> Message {
    let (time, uuid, small) = (u64::from(ts % 64), u64::from(what & 3), u64::from(number & 7));
    let name = || Message::default().bytes(23, ["a", "b", "", "ncclDevKernel_X"][usize::from(what >> 2 & 3)]);
    let interned = || Message::default().number(10, small).number(3, small);
    let text = |field, text: &str| Message::default().bytes(field, text);
    let entry = |iid: u64, text: &str| Message::default().number(1, iid).bytes(2, text);
    match kind % 24 {
        0 => event(time, 1, uuid, name()),
        1 => event(time, 2, uuid, Message::default()),
        2 => event(time, 3, uuid, name().bytes(22, "kernel")),
        3 => event(time, 1, uuid, interned()),
        4 => event(time, 1 + u64::from(what >> 2 & 3), uuid, name().fixed(47, small)),
        5 => event(time, 3, uuid, name().fixed(48, small)),
        6 => legacy(
            time,
            b"XBEibens"[usize::from(what >> 4 & 7)],
            uuid,
            name(),
            Message::default().number(3, small).number(6, small),
        ),
        7 => legacy(
            time,
            b"stfXnbeP"[usize::from(what >> 4 & 7)],
            uuid,
            name(),
            Message::default().number(6, small).number(8, small).number(13, small & 3),
        ),
        8 => event(time, 1, uuid, annotated(small, number)),
        9 => thread(uuid, small & 1, u64::from(what >> 4 & 3)),
        10 => packet().message(60, track(uuid).number(5, u64::from(what >> 2 & 3)).bytes(2, "t")),
        11 => packet().message(60, track(uuid).message(3, Message::default().number(1, small).bytes(6, "p"))),
        12 => packet()
            .number(13, 1)
            .message(12, Message::default().message(2, entry(small, "late")).message(1, entry(small, "cat"))),
        13 => packet().message(12, Message::default().message(2, entry(small, "name")).message(3, entry(small, "key"))),
        14 => packet().number(13, u64::from(what & 3)),
        15 => packet().number(42, small & 1),
        16 => packet().message(
            59,
            Message::default().number(58, 64 + (small & 3)).message(11, Message::default().number(11, uuid)),
        ),
        17 => {
            let clock = |id: u64, ts: u64| Message::default().number(1, id).number(2, ts);
            let incremental =
                clock(64 + (small & 3), time).number(3, u64::from(what & 1)).number(4, u64::from(what >> 1 & 7));
            packet().message(6, Message::default().message(1, clock(6, 10 * time)).message(1, incremental).number(2, 6))
        }
        18 => packet()
            .number(58, 64 + (small & 3))
            .number(8, time)
            .message(11, Message::default().number(9, 3).number(11, uuid)),
        19 => packet().message(44, Message::default().number(1, small).number(2, small).number(6, time)),
        20 => packet().number(8, time).message(11, Message::default().number(1, time).number(9, 1 + (small & 1))),
        21 => Message::default().number(10, 8).number(8, time).message(11, name().number(9, 1).number(11, uuid)),
        22 => packet().and(text(900, "unknown")),
        _ => event(time | u64::MAX << (32 + (small << 2)), 3, uuid, named("far")),
    }
}

/// Annotations that nest as deep as a number says.
fn annotated(small: u64, number: u8) -> Message {
    let mut value = match number >> 4 & 7 {
        0 => Message::default().number(3, small),
        1 => Message::default().number(4, u64::MAX - small),
        2 => Message::default().fixed(5, small << 60),
        3 => Message::default().bytes(6, "text"),
        4 => Message::default().number(2, small & 1),
        5 => Message::default().bytes(9, "{\"a\":[1,null,{}]}"),
        6 => Message::default().number(17, small),
        _ => Message::default(),
    };
    for depth in 0..small {
        let entry = value.bytes(10, ["k", "a.b"][(depth & 1) as usize]);
        value = Message::default().message(if depth & 1 == 0 { 11 } else { 12 }, entry);
    }
    Message::default().message(4, value.bytes(10, "key")).message(4, Message::default().number(1, small).number(4, 1))
}
