//! What goes wrong, comes late or comes often. Each function is the scenario of a process.

use std::path::Path;

use nccl_stacks_recorder_format::{Kind, Record, flag};

use crate::recorder::driver::{COMM, Comm, Event, Plugin};
use crate::recorder::plugin_surroundings::{fork, twice, unload};
use crate::recorder::recording::Recording;

/// A name, the settings of its process, and what that does.
pub(crate) type Case = (&'static str, &'static [(&'static str, &'static str)], fn(&Path));

pub(crate) const CASES: &[Case] = &[
    ("types", &[ALL], types),
    ("copies", &[ALL], copies),
    ("nulls", &[], nulls),
    ("late", &[], late),
    ("replay", &[], replay),
    ("foreign", &[], foreign),
    ("p2p", &[("NCCL_STACKS_RING_RECORDS", "65536")], p2p),
    ("communicators", &[], communicators),
    ("pages", &[], pages),
    ("unknown", &[], unknown),
    ("overflow", &[("NCCL_STACKS_RING_RECORDS", "64")], overflow),
    ("groups", &[], groups),
    ("waits", &[], waits),
    ("fork", &[], fork),
    ("unload", &[], unload),
    ("twice", &[], twice),
];

/// All events.
pub(crate) const ALL: (&str, &str) = ("NCCL_PROFILE_EVENT_MASK", "65535");

/// The types that a collective over the network does not show.
fn types(folder: &Path) {
    let plugin = Plugin::new(7);
    let (context, _) = plugin.init(COMM);
    let control = plugin.start(context, &Event::new(32));
    for (state, appended) in [(13, None), (14, None), (17, Some(5)), (18, Some(7))] {
        plugin.state(control, state, appended);
    }
    plugin.stop(control);

    let send =
        Event::new(4).parent(control).rank(3).text(24, c"Send").text(40, c"Unknown").u64(48, 33).i32(56, 7).u8(60, 4);
    let send = plugin.start(context, &send.u64(72, 8));
    let call = Event::new(1024).text(24, c"Send").u64(32, 33).text(40, c"Unknown").u64(48, 0xabc).u8(56, 0).u64(64, 11);
    let call = plugin.start(context, &call);

    let step = plugin.start(context, &Event::new(16).i32(24, 33));
    let mut pair = [0u64; 5];
    pair[0] = 1;
    pair[1] = 6;
    pair[2] = 0xfeed_0000_0001;
    pair[3] = 4321 << 32 | 2;
    pair[4] = 65_536;
    let socket = [1u64, 5 << 32 | 21, 1_000_000];
    let net = |id: u64, data: u64| plugin.start(context, &Event::new(128).parent(step).u64(24, id).u64(32, data));
    let pair_event = net(0x10001, pair.as_ptr() as u64);
    let socket_event = net(0x20001, socket.as_ptr() as u64);
    // Without payload, of a version that nobody knows, of a kind that nobody knows, and of another plugin.
    let other_kind = [9u64; 5];
    let others = [(0x10001, 0), (0x10002, pair.as_ptr() as u64), (0x10001, other_kind.as_ptr() as u64), (u64::MAX, 1)]
        .map(|(id, data)| net(id, data));
    plugin.state(pair_event, 21, Some(pair.as_ptr() as u64));
    plugin.stop(pair_event);

    let recording = Recording::only(folder);
    let get = |handle| recording.get(handle).unwrap();
    assert_eq!(get(control).kind, Kind::ProxyControl);
    assert_eq!(recording.states(control), [(13, 0), (14, 0), (17, 5), (18, 0)]);
    let record = get(send);
    assert_eq!((record.kind, record.parent, record.a, record.c, record.channel), (Kind::P2p, control, 33, 7, 4));
    assert_eq!(recording.texts(&record), ["Send", "Unknown", "", ""]);
    assert_eq!(recording.of(send, Kind::More).iter().map(|more| (more.a, more.b)).collect::<Vec<_>>(), [(8, 0)]);
    let record = get(call);
    assert_eq!((record.kind, record.a, record.b, record.flags), (Kind::P2pApi, 33, 0xabc, flag::NO_PARENT));
    assert_eq!(recording.of(call, Kind::More)[0].a, 11);
    let record = get(pair_event);
    assert_eq!((record.kind, record.parent, record.small), (Kind::NetIb, step, 2));
    assert_eq!((record.a, record.b, record.c), (6 << 32 | 4321, 65_536, 0xfeed_0000_0001));
    assert_eq!((recording.states(pair_event), recording.stops(pair_event)), (vec![(21, 0)], 1));
    let record = get(socket_event);
    assert_eq!((record.kind, record.parent), (Kind::NetSocket, step));
    assert_eq!((record.a, record.b, record.c), (21, 1_000_000, 5));
    let ids = others.map(|other| (get(other).kind, get(other).a));
    assert_eq!(ids, [0x10001, 0x10002, 0x10001, u64::MAX].map(|id| (Kind::NetPlugin, id)));
    assert_eq!(get(step).a, 33);
}

/// A collective of copy engines, with a synchronisation and a batch.
fn copies(folder: &Path) {
    let plugin = Plugin::new(7);
    let (context, _) = plugin.init(COMM);
    let copies =
        Event::new(4096).rank(3).u64(24, 9).text(32, c"AllGather").u64(56, 77).i32(64, 1).text(72, c"ncclInt8");
    let copies = copies.text(80, c"MC").u8(88, 1).i32(92, 32).i32(96, 3).i32(100, 12).u64(104, 0xdef).u64(112, 13);
    let copies = plugin.start(context, &copies);
    let sync = plugin.start(context, &Event::new(8192).parent(copies).u8(24, 1).i32(28, 8));
    let batch = plugin.start(context, &Event::new(16384).parent(copies).i32(24, 7).u64(32, 1 << 33).u8(40, 1));
    [batch, sync, copies].into_iter().for_each(|handle| plugin.stop(handle));

    let recording = Recording::only(folder);
    let get = |handle| recording.get(handle).unwrap();
    let record = get(copies);
    assert_eq!((record.kind, record.a, record.b, record.c, record.small), (Kind::CeColl, 77, 9, 12 << 32 | 1, 1));
    assert_eq!(recording.texts(&record), ["AllGather", "ncclInt8", "", "MC"]);
    let more = recording.of(copies, Kind::More);
    assert_eq!((more.len(), more[0].a, more[0].b, more[0].c), (1, 13, 3 << 32 | 32, 0xdef));
    assert_eq!((get(sync).kind, get(sync).a, get(sync).b, get(sync).parent), (Kind::CeSync, 1, 8, copies));
    let record = get(batch);
    assert_eq!((record.kind, record.a, record.b, record.small), (Kind::CeBatch, 7, 1 << 33, 1));
}

/// Null handles, contexts, arguments, descriptors and places, in each version.
fn nulls(folder: &Path) {
    for version in 4..=7 {
        let plugin = Plugin::new(version);
        // Before any communicator.
        let orphan = plugin.start(0, &Event::new(2).text(32, c"AllReduce"));
        assert!(orphan != 0);
        plugin.stop(0);
        plugin.state(0, 23, None);
        plugin.finalize(0);
        plugin.finalize(0x1234_5678);
        plugin.start_nothing(0);
        let (context, _) = plugin.init(Comm { name: None, hash: 0, nodes: 0, size: 0, rank: 0 });
        let kernel = plugin.start(context, &Event::new(64));
        for state in 0..40 {
            plugin.state(kernel, state, None);
        }
        // What is no context of ours is no communicator.
        let stranger = plugin.start(context ^ 1 << 60, &Event::new(1));
        plugin.start_nothing(context);

        let recording = Recording::only(folder);
        let bare = Record { time: 0, thread: 0, function: 0, ..recording.get(orphan).unwrap() };
        assert_eq!(bare, Record { flags: flag::NO_PARENT, ..Record::new(Kind::Coll) });
        let states: Vec<(u64, u64)> = (0..40).map(|state| (state, 0)).collect();
        assert_eq!(recording.states(kernel), states);
        assert_eq!(recording.get(stranger).unwrap().communicator, 0);
        let comm = recording.communicator(version as u16 - 3).unwrap();
        assert_eq!((comm.name, comm.hash, comm.size), (&b""[..], 0, 0));
    }
    assert_eq!(Recording::only(folder).all(Kind::Stop), []);
}

/// Parents that have ended, states after the end, ends that never come, a mask that changes, an end of the communicator in between.
fn late(folder: &Path) {
    let plugin = Plugin::new(6);
    let (context, mask) = plugin.init(COMM);
    let coll = plugin.start(context, &Event::new(2));
    plugin.stop(coll);
    let op = plugin.start(context, &Event::new(8).parent(coll).i32(24, std::process::id() as i32));
    plugin.stop(op);
    plugin.state(op, 19, None);
    plugin.stop(op);
    let open: Vec<u64> = (0..40).map(|step| plugin.start(context, &Event::new(16).parent(op).i32(24, step))).collect();
    // NCCL reads its mask anew: whoever changes it makes events begin without parents, and children come without grandparents.
    assert_eq!(mask, 78);
    let alone = plugin.start(context, &Event::new(16).parent(0).i32(24, 41));
    let (_, again) = plugin.init(COMM);
    assert_eq!(again, 78);
    plugin.finalize(context);
    plugin.state(open[7], 9, Some(123));
    let after = plugin.start(context, &Event::new(16).parent(op).i32(24, 42));
    plugin.stop(after);

    let recording = Recording::only(folder);
    assert_eq!(recording.get(op).unwrap().parent, coll);
    assert_eq!((recording.states(op), recording.stops(op)), (vec![(19, 0)], 2));
    let steps: Vec<u64> = recording.of(op, Kind::ProxyStep).iter().map(|step| step.a).collect();
    assert_eq!(steps, (0..40).chain([42]).collect::<Vec<u64>>());
    assert!(open.iter().all(|step| recording.stops(*step) == 0));
    assert_eq!(recording.states(open[7]), [(9, 123)]);
    assert_eq!(recording.get(alone).unwrap().flags, flag::NO_PARENT);
    assert_eq!(recording.get(after).unwrap().communicator, 1);
    let ended: Vec<bool> = recording.communicators().iter().map(|comm| comm.ended > 0).collect();
    assert_eq!(ended, [true, false]);
}

/// The call was made once; its collective comes a thousand times, from another thread.
fn replay(folder: &Path) {
    let plugin = Plugin::new(5);
    let (context, _) = plugin.init(COMM);
    let group = plugin.start(context, &Event::new(256).u8(24, 1).i32(28, 1));
    let call = plugin.start(context, &Event::new(512).parent(group).u8(64, 1));
    plugin.stop(call);
    plugin.stop(group);
    let thread = std::thread::spawn(move || {
        for _ in 0..1000 {
            let group = plugin.start(context, &Event::new(1));
            let coll = plugin.start(context, &Event::new(2).parent(call).u64(24, 7).u64(104, group));
            plugin.stop(coll);
            plugin.stop(group);
        }
    });
    thread.join().unwrap();
    let recording = Recording::only(folder);
    let colls = recording.of(call, Kind::Coll);
    assert_eq!((colls.len(), recording.of(call, Kind::Stop).len()), (1000, 1));
    assert!(colls.iter().all(|coll| coll.b == 7 && coll.thread != recording.get(call).unwrap().thread));
    assert_eq!(recording.all(Kind::More), []);
    assert_eq!(recording.len(), 4 + 4000);
}

/// An operation of another process: its parent and context are numbers in that process.
fn foreign(folder: &Path) {
    let plugin = Plugin::new(7);
    let (context, _) = plugin.init(COMM);
    let theirs = 0x0300_0000_0012_3405;
    let pid = std::process::id() as i32 + 1;
    let op = Event::new(8).parent(theirs).rank(6).i32(24, pid).u8(28, 63).i32(32, 5).i32(36, 1).i32(40, 1).i32(44, 1);
    let op = plugin.start(context, &op);
    let step = plugin.start(context, &Event::new(16).parent(op).rank(6));
    plugin.state(step, 9, Some(10));
    plugin.stop(step);
    plugin.stop(op);
    let recording = Recording::only(folder);
    let record = recording.get(op).unwrap();
    // The number of its forks, three, is not part of the record's.
    assert_eq!((record.parent, record.flags, record.communicator), (0x12_3405, flag::FOREIGN, 0));
    assert_eq!((record.a, record.c, record.channel), (pid as u64, 6 << 32 | 5, 63));
    let record = recording.get(step).unwrap();
    assert_eq!((record.parent, record.communicator), (op, 0));
    assert_eq!((recording.states(step), recording.stops(step)), (vec![(9, 10)], 1));
}

/// A send and a receive on each of 64 channels, with 40 steps each, while the application goes on.
fn p2p(folder: &Path) {
    let plugin = Plugin::new(7);
    let (context, _) = plugin.init(COMM);
    let send = plugin.start(context, &Event::new(4).text(24, c"Send").i32(56, 4).u8(60, 64));
    plugin.stop(send);
    let op = |channel: u8, is_send: i32| {
        Event::new(8).parent(send).i32(24, std::process::id() as i32).u8(28, channel).i32(36, 40).i32(44, is_send)
    };
    std::thread::scope(|scope| {
        let proxy = scope.spawn(move || {
            for (channel, is_send) in (0..64).flat_map(|channel| [(channel, 0), (channel, 1)]) {
                let op = plugin.start(context, &op(channel, is_send));
                for number in 0..40 {
                    let step = plugin.start(context, &Event::new(16).parent(op).i32(24, number));
                    plugin.state(step, if is_send == 1 { 9 } else { 11 }, Some(1000 + u64::from(channel)));
                    plugin.stop(step);
                }
                plugin.stop(op);
            }
        });
        scope.spawn(move || {
            for channel in 0..64 {
                let kernel = plugin.start(context, &Event::new(64).parent(send).u8(24, channel).u64(32, 1));
                plugin.state(kernel, 22, Some(2));
                plugin.stop(kernel);
            }
        });
        for _ in 0..500 {
            plugin.stop(plugin.start(context, &Event::new(1)));
        }
        proxy.join().unwrap();
    });
    let recording = Recording::only(folder);
    assert_eq!(recording.get(send).unwrap().channel, 64);
    let ops = recording.of(send, Kind::ProxyOp);
    let found: Vec<(u8, u8)> = ops.iter().map(|op| (op.channel, op.small)).collect();
    assert_eq!(found, (0..64).flat_map(|channel| [(channel, 0), (channel, 1)]).collect::<Vec<_>>());
    let bytes: u64 =
        recording.all(Kind::State).iter().filter(|(_, state)| state.a != 22).map(|(_, state)| state.b).sum();
    // 80 steps of each channel.
    assert_eq!(bytes, (0..64).map(|channel| 80 * (1000 + channel)).sum::<u64>());
    assert_eq!((recording.all(Kind::ProxyStep).len(), recording.all(Kind::Group).len()), (128 * 40, 500));
    assert_eq!((recording.all(Kind::KernelChannel).len(), recording.incomplete), (64, 0));
    assert_eq!(recording.len(), 2 + 128 * (2 + 40 * 3) + 64 * 2 + 1000);
}

/// 64 communicators that begin at the same time on eight threads, and work at the same time.
fn communicators(folder: &Path) {
    let plugin = Plugin::new(7);
    let barrier = std::sync::Barrier::new(8);
    let begun: Vec<(u64, usize, u64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8u64)
            .map(|thread| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    let begin = |number: u64| {
                        let hash = u64::MAX - (8 * thread + number);
                        let (context, mask) = plugin.init(Comm { hash, rank: thread as i32, ..COMM });
                        assert_eq!(mask, 78);
                        let coll = Event::new(2).text(32, c"AllGather").text(88, c"NVLS").u64(24, hash);
                        (hash, context, plugin.start(context, &coll))
                    };
                    (0..8).map(begin).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    for (_, context, _) in begun.iter().step_by(2) {
        plugin.finalize(*context);
    }
    let recording = Recording::only(folder);
    let comms = recording.communicators();
    assert_eq!(comms.len(), 64);
    for (index, (hash, _, coll)) in begun.iter().enumerate() {
        let record = recording.get(*coll).unwrap();
        let comm = recording.communicator(record.communicator).unwrap();
        assert_eq!((comm.hash, record.b), (*hash, *hash));
        assert_eq!((comm.ended > 0, comm.rank), (index % 2 == 0, index as i32 / 8));
        assert_eq!(recording.texts(&record)[..3], ["AllGather", "", "NVLS"]);
    }
}

/// Descriptors of each version at the end of a page that nothing follows.
fn pages(folder: &Path) {
    const PAGE: usize = 4096;
    // SAFETY: new memory, of which the second page may not be touched.
    let pages = unsafe {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let pages = libc::mmap(std::ptr::null_mut(), 2 * PAGE, protection, flags, -1, 0);
        assert_eq!(libc::mprotect(pages.byte_add(PAGE), PAGE, libc::PROT_NONE), 0);
        pages.cast::<u8>()
    };
    let mut started = 0;
    for version in 4..=7 {
        let plugin = Plugin::new(version);
        let (context, _) = plugin.init(COMM);
        for bit in 0..if version == 4 { 8 } else { 64 } {
            let words = Event::new(1 << bit).i32(24, std::process::id() as i32).words(version);
            // Texts are addresses: what is read as one has to be null, or the process ends.
            let words = if bit == 3 { words } else { [&words[..1], &vec![0; words.len() - 1]].concat() };
            // SAFETY: so many bytes are before the end of the first page.
            let handle = unsafe {
                let at = pages.add(PAGE - 8 * words.len());
                std::ptr::copy_nonoverlapping(words.as_ptr().cast(), at, 8 * words.len());
                plugin.start_at(context, at.cast())
            };
            assert!(handle != 0);
            started += 1;
        }
    }
    let recording = Recording::only(folder);
    let beginnings = recording.len() - recording.all(Kind::More).len();
    assert_eq!((started, beginnings), (8 + 3 * 64, 8 + 3 * 64));
}

/// Types of later versions, and what is no type.
fn unknown(folder: &Path) {
    for (version, types) in [(4, [3, 0x41, 0]), (5, [4096, 32768, 1 << 63]), (7, [65536, 1 << 40, 6])] {
        let plugin = Plugin::new(version);
        let (context, _) = plugin.init(COMM);
        let parent = plugin.start(context, &Event::new(1));
        // What comes after the head may be anything.
        let handles = types.map(|kind| {
            let event = (24..104).fold(Event::new(kind).parent(parent), |event, at| event.u8(at, 0xff));
            plugin.start(context, &event)
        });
        handles.into_iter().for_each(|handle| plugin.state(handle, 1000, Some(u64::MAX)));
        handles.into_iter().for_each(|handle| plugin.stop(handle));
        let recording = Recording::only(folder);
        for (handle, kind) in handles.into_iter().zip(types) {
            let record = recording.get(handle).unwrap();
            assert_eq!((record.kind, record.a, record.parent), (Kind::UnknownEvent, kind, parent));
            assert_eq!((recording.states(handle), recording.stops(handle)), (vec![(1000, 0)], 1));
        }
    }
}

/// What was begun before the ring came round ends afterwards.
fn overflow(folder: &Path) {
    let plugin = Plugin::new(7);
    let (context, _) = plugin.init(COMM);
    let coll = plugin.start(context, &Event::new(2));
    let steps: Vec<u64> = (0..1000)
        .map(|number| {
            let step = plugin.start(context, &Event::new(16).parent(coll).i32(24, number));
            plugin.stop(step);
            step
        })
        .collect();
    plugin.stop(coll);
    let recording = Recording::only(folder);
    assert_eq!(recording.get(coll), None);
    assert_eq!((recording.stops(coll), recording.len(), recording.incomplete), (1, 64, 0));
    assert_eq!(recording.header().claimed.iter().sum::<u64>(), 2 + 2000);
    let kept: Vec<u64> = recording.of(coll, Kind::ProxyStep).iter().map(|step| step.a).collect();
    // The last 64 records: of 31 steps both, of the one before them the end, and the collective's end.
    assert_eq!(kept, (969..1000).collect::<Vec<u64>>());
    assert_eq!(recording.stops(steps[968]), 1);
}

/// Which group a collective belongs to is said only if it is not the communicator's last one.
fn groups(folder: &Path) {
    let plugin = Plugin::new(5);
    let ((one, _), (two, _)) = (plugin.init(COMM), plugin.init(COMM));
    let coll = |context, group: u64| plugin.start(context, &Event::new(2).u64(104, group));
    let send = |context, group: u64| plugin.start(context, &Event::new(4).u64(64, group));
    let first = plugin.start(one, &Event::new(1));
    let other = plugin.start(two, &Event::new(1));
    let usual = [coll(one, first), coll(two, other), send(one, first)];
    let second = plugin.start(one, &Event::new(1));
    let unusual = [(coll(one, first), first), (send(one, 0), 0), (coll(two, second), second), (coll(0, first), first)];
    let no_group = coll(0, 0);
    let recording = Recording::only(folder);
    let said = |handle| recording.of(handle, Kind::More).iter().map(|more| (more.a, more.b)).collect::<Vec<_>>();
    for handle in usual.into_iter().chain([no_group]) {
        assert_eq!(said(handle), []);
    }
    for (handle, group) in unusual {
        assert_eq!(said(handle), [(0, group)]);
    }
}

/// NCCL reports that a step waits for its peer each time it looks.
fn waits(folder: &Path) {
    let plugin = Plugin::new(4);
    let (context, _) = plugin.init(COMM);
    let steps = [0, 1].map(|step| plugin.start(context, &Event::new(16).i32(24, step)));
    for _ in 0..1000 {
        steps.into_iter().for_each(|step| plugin.state(step, 20, Some(0)));
    }
    for state in [9, 9, 8, 8] {
        plugin.state(steps[0], state, Some(5));
    }
    let recording = Recording::only(folder);
    assert_eq!(recording.states(steps[0]), [(20, 0), (9, 5), (9, 5), (8, 0), (8, 0)]);
    assert_eq!(recording.states(steps[1]), [(20, 0)]);
}
