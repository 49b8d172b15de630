//! The models: properties that must hold in every order.

use loom::thread;

use crate::layout::{self, COMMUNICATOR, COMMUNICATORS_AT, RECORD, TEXT, TEXTS_AT, communicator, header};
use crate::layout::RingSizes;
use crate::memory::{Ordering, Words};
use crate::{Communicator, Handle, Kind, Record, Writer};

/// The number of slots in a model's ring.
const SLOTS: u64 = 1;

const SIZES: RingSizes = RingSizes { calls: SLOTS, events: SLOTS };

fn words(from: usize, length: usize) -> impl Iterator<Item = usize> {
    (from..from + length).step_by(8)
}

/// A writer with this many texts, all communicators, and ring 0, which is ready. Only the words at these offsets of its communicators and
/// records are watched; the other words are written in the same way.
fn writer(texts: usize, of_communicators: &[usize], of_records: &[usize]) -> Writer {
    let head = [header::LOST, header::LOST_COMMUNICATORS, header::KNOWN_COMMUNICATORS, header::REUSED];
    let ring = words(header::RINGS, 16);
    let entries = (0..layout::COMMUNICATORS).map(|index| COMMUNICATORS_AT + index * COMMUNICATOR);
    let slots = (0..SLOTS as usize).map(|index| SIZES.at(0) as usize + index * RECORD);
    let of_entries = entries.flat_map(|at| of_communicators.iter().map(move |offset| at + offset));
    let of_slots = slots.flat_map(|at| of_records.iter().map(move |offset| at + offset));
    let watched = head.into_iter().chain(ring).chain(of_entries).chain(of_slots);
    let watched = watched.chain(words(TEXTS_AT, texts * TEXT));
    let clocks = [header::LAST_REALTIME, header::LAST_MONOTONIC];
    let entries = words(COMMUNICATORS_AT, layout::COMMUNICATORS * COMMUNICATOR);
    let others = entries.chain(words(SIZES.at(0) as usize, SLOTS as usize * RECORD)).chain(clocks);
    let words = Words::new(watched, others);
    words.at(header::RINGS + header::RING_STATE).store(2, Ordering::Relaxed);
    Writer::over(words, SIZES, crate::system::File::NONE)
}

/// Explores orders with up to this many forced preemptions.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Record `n`. All of its words differ from those of other records, so a mixture equals none of them.
fn record(n: u64) -> Record {
    Record { time: n as i64, thread: n as u32, parent: n, a: n << 8, b: n << 16, c: n << 24, ..Record::new(Kind::Call) }
}

/// The watched words of a record: its position, its time, and `c`, its last word.
const POSITION_AND_TWO: [usize; 3] = [0, 8, 56];

/// Two writers share one slot: a reader gets one of their records, whole and at its position.
#[test]
fn a_ring_that_comes_round() {
    check(3, || {
        let writer = writer(0, &[], &POSITION_AND_TWO);
        let other = thread::spawn(move || writer.put(0, 0, &record(1)).unwrap());
        let reader = thread::spawn(move || writer.at(0, 2));
        let own = writer.put(0, 0, &record(2)).unwrap();
        let (other, seen) = (other.join().unwrap(), reader.join().unwrap());
        let of = |position| if own.position() == position { 2 } else { 1 };
        assert_eq!((own.position() + other.position(), writer.claimed(0)), (3, 2));
        assert!(seen.is_none_or(|(handle, found)| handle.position() == 2 && found == record(of(2))), "{seen:?}");
        // The later record may be mixed with the other; the check detects that.
        assert!(writer.at(0, 2).is_none_or(|(_, found)| found == record(of(2))));
        // A writer that was stopped for a whole round may win the slot in the end.
        assert!(writer.at(0, 1).is_none_or(|(_, found)| found == record(of(1))));
    });
}

/// A time that can replace the time of a ring's first record without changing its check.
fn unnoticed_time() -> i64 {
    let words = record(1).words(1);
    let is_unnoticed = |time: &u64| {
        let mut mixed = words;
        mixed[1] = *time;
        *time != words[1] && Record::from_words(mixed).is_some()
    };
    (0..).find(is_unnoticed).unwrap() as i64
}

/// A record that is being overwritten is read whole or not at all, even if its check would not detect a mixture.
#[test]
fn a_record_that_is_overwritten() {
    let time = unnoticed_time();
    check(3, move || {
        let writer = writer(0, &[], &[0, 8, 16]);
        writer.put(0, 0, &record(1)).unwrap();
        let other = thread::spawn(move || writer.put(0, 0, &Record { time, ..record(1) }).unwrap());
        let seen = writer.at(0, 1);
        assert!(seen.is_none_or(|(_, found)| found == record(1)), "{seen:?}");
        let other = other.join().unwrap();
        assert_eq!(writer.get(other), Some(Record { time, ..record(1) }));
    });
}

/// A record whose handle is passed on is visible to the receiver of the handle.
#[test]
fn a_record_is_there_once_it_is_put() {
    check(3, || {
        let writer = writer(0, &[], &[0, 8, 16, 24, 32, 40, 48, 56]);
        let other = thread::spawn(move || writer.put(0, 0, &record(1)).unwrap());
        let other = other.join().unwrap();
        assert_eq!(writer.get(other), Some(record(1)));
    });
}

/// Two threads enter texts: each finds its own, once or twice, and nobody sees a partial text.
#[test]
fn texts_are_whole() {
    const TEXTS: [&[u8]; 2] = [b"ncclAllReduce", b"ncclAllGather"];
    for second in TEXTS {
        check(3, move || {
            let writer = writer(3, &[], &[]);
            let other = thread::spawn(move || writer.text(second));
            for number in 1..=2 {
                let Some(text) = writer.text_at(number) else { continue };
                assert_eq!(*text, *second);
            }
            let own = writer.text(TEXTS[0]);
            let other = other.join().unwrap();
            assert_eq!(*writer.text_at(own).unwrap(), *TEXTS[0]);
            assert_eq!(*writer.text_at(other).unwrap(), *second);
            let again = writer.text(TEXTS[0]);
            assert!(own.max(other) <= 2 && *writer.text_at(again).unwrap() == *TEXTS[0]);
        });
    }
}

fn about(hash: u64) -> Communicator<'static> {
    Communicator { hash, address: hash, by: 2, made: hash as i64, ..Communicator::default() }
}

/// Two threads want the number of one ended communicator: one gets it, and a copy is never mixed.
#[test]
fn one_gets_a_number() {
    check(3, || {
        let watched =
            [communicator::STATE, communicator::HASH, communicator::ADDRESS, communicator::MADE, communicator::BEFORE];
        let writer = writer(0, &watched, &[]);
        assert_eq!((writer.communicator(&about(1)), writer.communicator(&about(2))), (1, 2));
        writer.ended(2, 3);
        let other = thread::spawn(move || writer.communicator(&about(4)));
        let seen = writer.known(2).map(|entry| {
            let known = entry.communicator();
            (known.hash, known.address, known.made)
        });
        let own = writer.communicator(&about(5));
        let other = other.join().unwrap();
        let hash = if own == 0 { 4 } else { 5 };
        assert_eq!((own.min(other), own.max(other)), (0, 2));
        assert_eq!(writer.hash(2), hash);
        assert!([None, Some((2, 2, 2)), Some((4, 4, 4))].contains(&seen), "{seen:?}");
    });
}
