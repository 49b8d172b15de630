//! Round trips: files of the writer, read by the functions that read files.

use std::ffi::{CString, c_void};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::vec::Vec;
use std::{format, fs, thread, vec};

use crate::layout::{CALL_RINGS, RECORD, RINGS, RingSizes};
use crate::{Communicator, Facts, Handle, Header, Kind, NotCancelled, Record, Slot, Writer, communicator, slot, text};

/// A unique path for each test.
fn path(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("nccl-stacks-format-{}-{name}", std::process::id()));
    let _ = fs::remove_file(&path);
    path
}

fn facts(ring_records: u64) -> Facts<'static> {
    let (boot, host, command): (&[u8], &[u8], &[u8]) = (b"0123", b"node7", b"python train.py");
    Facts { ring_records, pid: 77, ranks: [3, 8, -1], boot, host, command, events: 4095 }
}

fn create(path: &std::path::Path, ring_records: u64) -> Writer {
    Writer::create(&CString::new(path.to_str().unwrap()).unwrap(), &facts(ring_records)).unwrap()
}

/// A writer without a file, whose memory is never freed: the memory checkers cannot map files.
fn memory(ring_records: u64) -> Writer {
    let words = RingSizes::new(ring_records).at(RINGS) as usize / 8;
    Writer::in_memory(vec![0; words].leak(), &facts(ring_records)).unwrap()
}

/// The bytes that its file would have.
fn bytes(writer: &Writer) -> Vec<u8> {
    let mut bytes = vec![0; writer.ring_sizes().at(RINGS) as usize];
    writer.words.copy(0, &mut bytes);
    bytes
}

/// Fewer repetitions under the checkers, which are a thousand times slower.
fn repetitions(many: u64) -> u64 {
    if cfg!(miri) { many / 1000 } else { many }
}

/// All records of a file by ring, and the number of incomplete slots.
fn records(bytes: &[u8]) -> (Vec<Vec<(u64, Record)>>, usize) {
    let header = Header::parse(bytes).unwrap();
    let mut incomplete = 0;
    let rings = (0..RINGS).map(|ring| {
        let [at, end] = [ring, ring + 1].map(|ring| header.rings.at(ring) as usize);
        let mut found = Vec::new();
        for (index, bytes) in bytes[at..end].chunks_exact(RECORD).enumerate() {
            match slot(bytes.try_into().unwrap(), index as u64, header.rings.of(ring)) {
                Slot::Record(position, record) => found.push((position, record)),
                Slot::Incomplete => incomplete += 1,
                Slot::Empty => {}
            }
        }
        found.sort_by_key(|(position, _)| *position);
        found
    });
    (rings.collect(), incomplete)
}

#[test]
fn what_is_written_is_read() {
    let writer = memory(128);
    let about = Communicator { name: b"tp", by: 1, hash: u64::MAX, rank: 3, size: 8, ..Default::default() };
    assert_eq!((writer.communicator(&about), writer.communicator(&about)), (1, 2));
    assert_eq!((writer.next_child(2), writer.next_child(2)), (Some((u64::MAX, 0)), Some((u64::MAX, 1))));
    assert_eq!(writer.next_child(0), None);
    assert_eq!((writer.hash(2), writer.hash(0), writer.hash(900)), (u64::MAX, 0, 0));
    writer.set_rank(1, 5, 16);
    writer.set_rank(0, 5, 16);
    assert_eq!([0, 2, 2].map(|number| writer.next_collective(number)), [0, 1, 2]);
    writer.ended(2, 9);
    let long = [b'x'; 80];
    let texts: [&[u8]; 6] = [b"AllReduce", b"RING", b"", b"AllReduceX", b"AllReduce", &long];
    assert_eq!(texts.map(|text| writer.text(text)), [1, 2, 3, 4, 1, 5]);
    let record = Record { time: 5, communicator: 1, function: 1, ..Record::new(Kind::Coll) };
    let handle = writer.put(11, 7, &record).unwrap();
    assert_eq!((handle.position(), handle.note(), writer.get(handle)), (1, 7, Some(record)));

    let bytes = bytes(&writer);
    let header = Header::parse(&bytes).unwrap();
    assert_eq!((header.rings.events, header.pid, header.plugin, header.is_closed), (128, 77, 0, false));
    assert_eq!((header.rank, header.world, header.local_rank), (Some(3), Some(8), None));
    assert_eq!((header.boot, header.host, header.command), (&b"0123"[..], &b"node7"[..], &b"python train.py"[..]));
    assert_eq!(header.realtime(header.start.monotonic + 5), header.start.realtime + 5);
    assert_eq!(communicator(&bytes, 1), Some(Communicator { nodes: 0, rank: 5, size: 16, ..about }));
    assert_eq!(communicator(&bytes, 2).unwrap().ended, 9);
    assert_eq!(communicator(&bytes, 3), None);
    assert_eq!([0, 1, 2, 600].map(|number| crate::collectives(&bytes, number)), [0, 0, 2, 0]);
    assert_eq!(
        [1, 3, 4, 5, 6].map(|number| text(&bytes, number)),
        [Some(&b"AllReduce"[..]), Some(&b""[..]), Some(&b"AllReduceX"[..]), Some(&long[..63]), None]
    );
    let (rings, incomplete) = records(&bytes);
    assert_eq!((rings[handle.ring()].as_slice(), incomplete), (&[(1, record)][..], 0));
}

#[test]
fn a_ring_keeps_its_last_records() {
    let writer = memory(64);
    let handles: Vec<Handle> =
        (0..200).map(|n| writer.put(CALL_RINGS, 0, &Record { a: n, ..Record::new(Kind::Call) }).unwrap()).collect();
    let bytes = bytes(&writer);
    let ring = handles[0].ring();
    let (rings, _) = records(&bytes);
    let kept: Vec<u64> = rings[ring].iter().map(|(_, record)| record.a).collect();
    assert_eq!(kept, (136..200).collect::<Vec<u64>>());
    assert_eq!(Header::parse(&bytes).unwrap().claimed[ring], 200);
    assert_eq!((writer.get(handles[135]), writer.get(handles[136]).map(|record| record.a)), (None, Some(136)));
}

/// Every state in which a writer can be stopped: the words of a record are stored one after the other.
#[test]
fn a_writer_may_be_stopped_anywhere() {
    let old = Record { time: 1, a: 11, ..Record::new(Kind::Call) }.words(3);
    let new = Record { time: 2, a: 22, ..Record::new(Kind::Coll) }.words(64 + 3);
    let read = |words: [u64; 8]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        slot(bytes.as_slice().try_into().unwrap(), 2, 64)
    };
    let mut now = old;
    assert_eq!(read(now), Slot::Record(3, Record::from_words(old).unwrap()));
    now[0] = 0;
    assert_eq!(read(now), Slot::Incomplete);
    for word in 1..8 {
        now[word] = new[word];
        assert_eq!(read(now), Slot::Incomplete, "{word}");
    }
    now[0] = new[0];
    assert_eq!((now, read(now)), (new, Slot::Record(67, Record::from_words(new).unwrap())));
    // Two writers whose words are mixed, but with the right position.
    now[5] = old[4];
    assert_eq!(read(now), Slot::Incomplete);
}

#[test]
fn threads_share_rings_and_lose_nothing() {
    let writer = memory(if cfg!(miri) { 1 << 10 } else { 1 << 16 });
    thread::scope(|scope| {
        for thread in 0..32u64 {
            scope.spawn(move || {
                for n in 0..repetitions(2_000) {
                    let record = Record { a: thread, b: n, ..Record::new(Kind::Call) };
                    writer.put(thread as usize, 0, &record).unwrap();
                }
            });
        }
    });
    let (rings, incomplete) = records(&bytes(&writer));
    let mut all: Vec<(u64, u64)> = rings.iter().flatten().map(|(_, record)| (record.a, record.b)).collect();
    all.sort_unstable();
    let want: Vec<(u64, u64)> = (0..32).flat_map(|thread| (0..repetitions(2_000)).map(move |n| (thread, n))).collect();
    assert!(all == want && incomplete == 0, "{} of {} records, {incomplete} incomplete", all.len(), want.len());
    // The threads use several rings, so that they do not slow each other down.
    assert!(rings.iter().filter(|ring| !ring.is_empty()).count() > 6);
}

/// Three writers wrap around a ring of 64 slots while it is read: every record that is read is the one put at that position.
#[test]
fn a_ring_that_is_written_has_whole_records_or_none() {
    const WRITERS: u64 = 3;
    const RING: usize = CALL_RINGS;
    let writer = memory(64);
    let is_done = AtomicU32::new(0);
    let whole = thread::scope(|scope| {
        for thread in 0..WRITERS {
            let is_done = &is_done;
            scope.spawn(move || {
                for n in 0..repetitions(100_000) {
                    let a = thread << 32 | n;
                    let record = Record { a, b: !a, c: a.rotate_left(17), time: n as i64, ..Record::new(Kind::Call) };
                    let handle = writer.put(RING, 0, &record).unwrap();
                    assert!(writer.get(handle).is_none_or(|found| found == record));
                }
                is_done.fetch_add(1, Ordering::Release);
            });
        }
        let (mut whole, mut is_last) = (0, false);
        // On a machine with few processors the writers may be done before the first look: then the last one finds what they left.
        while !is_last {
            is_last = is_done.load(Ordering::Acquire) == WRITERS as u32;
            let claimed = writer.claimed(RING);
            for position in claimed.saturating_sub(70)..claimed + 2 {
                let Some((handle, record)) = writer.at(RING, position) else { continue };
                assert_eq!((handle.position(), record.b, record.c), (position, !record.a, record.a.rotate_left(17)));
                whole += 1;
            }
        }
        whole
    });
    assert!(whole > 0 && writer.claimed(RING) == WRITERS * repetitions(100_000));
}

/// Recorders that came before had rings of one size, and no word for that of the rings for calls.
#[test]
fn files_of_version_1_have_rings_of_one_size() {
    let mut bytes = bytes(&memory(128));
    bytes[crate::layout::header::VERSION] = 1;
    bytes[crate::layout::header::CALL_RECORDS..][..8].fill(0);
    let rings = Header::parse(&bytes).unwrap().rings;
    assert_eq!(rings, RingSizes { calls: 128, events: 128 });
    assert_eq!((rings.at(7) - rings.at(0), rings.of(0), rings.of(15)), (7 * 128 * 64, 128, 128));
    let sizes = RingSizes::new(128);
    assert_eq!((sizes.at(10) - sizes.at(0), sizes.at(11) - sizes.at(10)), (10 * 512 * 64, 128 * 64));
    bytes[crate::layout::header::VERSION] = 3;
    assert_eq!(Header::parse(&bytes).err(), Some(crate::NotARecording::Version(3)));
}

#[test]
fn tables_that_are_full_say_so() {
    let writer = memory(64);
    let numbers: Vec<u16> = (0..514).map(|_| writer.communicator(&Communicator::default())).collect();
    assert_eq!((numbers[511], numbers[512], numbers[513]), (512, 0, 0));
    let texts: Vec<u8> = (0..257).map(|n| writer.text(format!("text {n}").as_bytes())).collect();
    assert_eq!((texts[0], texts[254], texts[255], texts[256]), (1, 255, 0, 0));
    let bytes = bytes(&writer);
    assert_eq!(Header::parse(&bytes).unwrap().lost_communicators, 2);
}

#[test]
fn numbers_of_what_has_ended_are_given_again() {
    let writer = memory(64);
    let about = |made| Communicator { name: b"tensor parallel", by: 2, made, size: 8, ..Default::default() };
    assert!((1..=512).all(|number| writer.communicator(&about(i64::from(number))) == number as u16));
    writer.next_child(3);
    writer.next_collective(3);
    writer.next_send_or_receive(3);
    assert_eq!(writer.communicator(&about(513)), 0);
    writer.finalized(9, 600);
    writer.ended(7, 2_000);
    writer.ended(3, 1_000);
    // It was created before the other one ended. The other's records must not become its own.
    let new = Communicator { name: b"dp", by: 1, made: 999, hash: 77, ..Default::default() };
    assert_eq!([&new, &about(3_000), &about(3_001)].map(|about| writer.communicator(about)), [3, 7, 0]);
    assert_eq!(writer.known(3).unwrap().communicator(), Communicator { made: 1_000, before: 1, ..new });
    assert_eq!((writer.next_child(3), writer.next_collective(3)), (Some((77, 0)), 1));
    assert_eq!(writer.next_send_or_receive(3), 1);
    // A finalized communicator still has its number, for its destruction.
    assert_eq!(writer.known(9).unwrap().communicator(), Communicator { ended: 600, ..about(9) });
    let bytes = bytes(&writer);
    let header = Header::parse(&bytes).unwrap();
    assert_eq!((header.lost_communicators, header.reused), (2, 2));
    let times = |number| communicator(&bytes, number).unwrap().times();
    assert_eq!((times(3), times(7)), (1_000..=i64::MAX, 3_000..=i64::MAX));
    assert_eq!((times(9), times(10)), (i64::MIN..=600, i64::MIN..=i64::MAX));
}

/// Threads make and end more communicators than there are numbers: no two have a number at once, and a copy is never mixed.
#[test]
fn threads_share_the_numbers_of_what_has_ended() {
    const THREADS: u64 = 4;
    let each = repetitions(2_000);
    let writer = memory(64);
    // All numbers but three, so that those three are reused at once.
    (0..509).for_each(|_| _ = writer.communicator(&Communicator { size: 1, ..Default::default() }));
    let is_done = AtomicU32::new(0);
    let lost: u64 = thread::scope(|scope| {
        let makers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let is_done = &is_done;
                scope.spawn(move || {
                    let mut lost = 0;
                    for n in 0..each {
                        let own = 1 + thread * each + n;
                        let name = own.to_le_bytes();
                        let about = Communicator { name: &name, hash: own, address: own, ..Default::default() };
                        let number = writer.communicator(&about);
                        if number == 0 {
                            lost += 1;
                            continue;
                        }
                        assert_eq!(writer.known(number).unwrap().communicator().hash, own);
                        writer.ended(number, own.cast_signed());
                    }
                    is_done.fetch_add(1, Ordering::Relaxed);
                    lost
                })
            })
            .collect();
        while is_done.load(Ordering::Relaxed) < THREADS as u32 {
            for number in 510..=512 {
                let Some(entry) = writer.known(number) else { continue };
                let known = entry.communicator();
                assert_eq!(known.hash, known.address);
                let name: &[u8] = &known.hash.to_le_bytes();
                assert!(name.starts_with(known.name), "{known:?}");
            }
        }
        makers.into_iter().map(|maker| maker.join().unwrap()).sum()
    });
    let bytes = bytes(&writer);
    let header = Header::parse(&bytes).unwrap();
    assert_eq!((header.lost_communicators, header.reused), (lost, THREADS * each - lost - 3));
}

#[test]
fn other_files_are_refused() {
    let bytes = bytes(&memory(64));
    use crate::NotARecording::*;
    let sizes = [65, 0, 1 << 40].map(|size| (16, size, RingRecords(size)));
    for (at, value, why) in [(0, 5, Magic), (8, 3, Version(3))].into_iter().chain(sizes) {
        let mut bytes = bytes.clone();
        bytes[at..at + 8].copy_from_slice(&u64::to_le_bytes(value));
        assert_eq!(Header::parse(&bytes).err(), Some(why));
    }
    assert_eq!([&bytes[..9000], b""].map(|bytes| Header::parse(bytes).err()), [Some(Short), Some(Magic)]);
}

#[test]
#[cfg_attr(miri, ignore = "it calls the system")]
fn files_that_cannot_be_created_leave_nothing() {
    let path = path("twice");
    fs::write(&path, "mine").unwrap();
    let name = CString::new(path.to_str().unwrap()).unwrap();
    assert_eq!(Writer::create(&name, &facts(64)).err(), Some(libc::EEXIST));
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    fs::remove_file(path).unwrap();
    assert_eq!(Writer::create(c"/nonexistent/folder/file", &facts(64)).err(), Some(libc::ENOENT));
}

#[test]
#[cfg_attr(miri, ignore = "it calls the system")]
fn nobody_writes_a_file_that_is_recorded() {
    let path = path("mode");
    let writer = create(&path, 65);
    assert_eq!(writer.ring_sizes(), RingSizes { calls: 512, events: 128 });
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o222;
    assert_eq!(mode(), 0);
    writer.put(0, 0, &Record::new(Kind::Call)).unwrap();
    writer.close();
    assert_eq!(mode(), 0o200);
    let written = fs::read(&path).unwrap();
    assert!(Header::parse(&written).unwrap().is_closed);
    assert!(written == bytes(&writer) && records(&written).0[0].len() == 1);
    fs::remove_file(path).unwrap();
}

#[test]
fn copies_are_what_the_file_has() {
    let writer = memory(64);
    let about = Communicator { name: b"tp", by: 2, hash: 7, rank: 3, size: 8, made: 5, ..Default::default() };
    writer.communicator(&about);
    let long = writer.text(b"ncclAllGatherConfig");
    assert_eq!([0, 1, 1, 600].map(|number| writer.next_send_or_receive(number)), [0, 1, 2, 0]);
    assert_eq!(writer.next_collective(1), 1);
    let mut bytes = [0; crate::layout::COMMUNICATORS_AT];
    let header = writer.header(&mut bytes).unwrap();
    assert_eq!((header.pid, header.rank, header.host, header.boot), (77, Some(3), &b"node7"[..], &b"0123"[..]));
    assert_eq!(writer.known(1).map(|entry| entry.communicator() == about), Some(true));
    assert!(writer.known(0).is_none() && writer.known(2).is_none() && writer.known(513).is_none());
    writer.ended(1, 9);
    assert_eq!(writer.known(1).unwrap().communicator(), Communicator { ended: 9, ..about });
    assert_eq!(writer.text_at(long).as_deref(), Some(&b"ncclAllGatherConfig"[..]));
    assert!(writer.text_at(0).is_none() && writer.text_at(long + 1).is_none());
}

/// A text that another thread has begun to write is not a text yet, neither for writers nor for readers of the file.
#[test]
fn a_text_counts_once_it_is_complete() {
    let writer = memory(64);
    writer.words.at(crate::layout::TEXTS_AT).store(1 << 8, Ordering::Relaxed);
    assert_eq!((writer.text(b"ncclAllReduce"), writer.text(b"ncclAllReduce")), (2, 2));
    assert!(writer.text_at(1).is_none());
    let bytes = bytes(&writer);
    assert_eq!((text(&bytes, 1), text(&bytes, 2)), (None, Some(&b"ncclAllReduce"[..])));
}

#[test]
#[cfg_attr(miri, ignore = "it calls the system")]
fn signals_wait_while_something_is_begun() {
    static HANDLED: AtomicU32 = AtomicU32::new(0);
    extern "C" fn handler(_: i32) {
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }
    let raise = || {
        // SAFETY: the thread signals itself, and the signal has a handler.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR2) };
        HANDLED.load(Ordering::Relaxed)
    };
    // SAFETY: zeros are a valid `sigaction`, and the handler only counts.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut());
    }
    let guard = NotCancelled::new();
    assert_eq!(raise(), 0);
    drop(guard);
    assert_eq!((HANDLED.load(Ordering::Relaxed), raise()), (1, 2));
}

#[test]
#[cfg_attr(miri, ignore = "it calls the system")]
fn a_thread_that_is_cancelled_finishes_what_others_wait_for() {
    extern "C" fn run(path: *mut c_void) -> *mut c_void {
        // SAFETY: the path is the caller's; the thread cancels itself, which takes effect in a system call.
        unsafe {
            let path = &*path.cast::<PathBuf>();
            libc::pthread_cancel(libc::pthread_self());
            let writer = create(path, 64);
            let put = writer.put(0, 0, &Record::new(Kind::Call)).is_some();
            let mut before = 0;
            crate::system::pthread_setcancelstate(1, &raw mut before);
            // Cancellation is enabled again afterwards.
            usize::from(put && before == 0) as *mut c_void
        }
    }
    let mut path = path("cancel");
    // SAFETY: the path lives until the thread has ended.
    let result = unsafe {
        let (mut thread, mut result) = (std::mem::zeroed(), std::ptr::null_mut());
        libc::pthread_create(&raw mut thread, std::ptr::null(), run, (&raw mut path).cast());
        libc::pthread_join(thread, &raw mut result);
        result as usize
    };
    assert_eq!(result, 1);
    fs::remove_file(path).unwrap();
}
