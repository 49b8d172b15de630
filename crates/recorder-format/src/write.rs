//! Writes records into the rings of a file in mapped memory. The rest of the file is written in [`tables`](crate::tables).
//!
//! The hot path is [`Writer::put`]: one atomic addition and eight stores. It makes no system call, allocates nothing and never waits. A ring's
//! space is reserved with its first record, because a store into a page for which the disk has no room would kill the job.

use core::ffi::CStr;
use core::ptr::NonNull;

use crate::layout::{self, CALL_RING_TIMES, CALL_RINGS, RECORD, RINGS, RINGS_AT, RingSizes, header};
use crate::record::{Handle, Record};
use crate::system::{self, File, NotCancelled};
use crate::words::{Ordering, Words, fence};

const UNUSED: u64 = 0;
const RESERVING: u64 = 1;
const READY: u64 = 2;
const WITHOUT_SPACE: u64 = 3;

/// The process's data for the header.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The number of records in a ring for events, rounded up to a power of two within [`layout::RING_RECORDS`].
    pub ring_records: u64,
    pub pid: u32,
    /// Its rank, the number of ranks, and the rank on its host; -1 for unknown.
    pub ranks: [i32; 3],
    /// The machine's boot id; cut off at 36 bytes.
    pub boot: &'a [u8],
    /// The host's name; cut off at 64 bytes.
    pub host: &'a [u8],
    /// The program and its arguments; cut off at 512 bytes.
    pub command: &'a [u8],
    pub events: u64,
}

/// A mapped file. It is a pointer: copies write to the same file, from any thread.
#[derive(Debug, Clone, Copy)]
pub struct Writer {
    pub(crate) words: Words,
    sizes: RingSizes,
    file: File,
}

impl Writer {
    /// Creates a file, which must not exist. Nobody else may write to it until [`close`](Writer::close). After an error, an errno, no file is left.
    pub fn create(path: &CStr, facts: &Facts<'_>) -> Result<Writer, i32> {
        let _guard = NotCancelled::new();
        let (fewest, most) = (*layout::RING_RECORDS.start(), *layout::RING_RECORDS.end());
        let sizes = RingSizes::new(facts.ring_records.clamp(fewest, most).next_power_of_two());
        let (words, file) = system::create(path, sizes)?;
        let writer = Writer::over(words, sizes, file);
        writer.describe(sizes, facts);
        Ok(writer)
    }

    pub(crate) fn over(words: Words, sizes: RingSizes, file: File) -> Writer {
        Writer { words, sizes, file }
    }

    /// Writes into zeroed memory, for checkers that cannot map files; `None` if it is too small. Such a writer cannot be closed.
    #[doc(hidden)]
    pub fn in_memory(memory: &'static mut [u64], facts: &Facts<'_>) -> Option<Writer> {
        let sizes = RingSizes::new(facts.ring_records);
        let is_enough = memory.len() as u64 >= sizes.at(RINGS) / 8;
        if !sizes.events.is_power_of_two() || !is_enough {
            return None;
        }
        // SAFETY: from here on, only the writer uses the memory, and all offsets are within it.
        let words = unsafe { Words::new(NonNull::from(memory).cast()) };
        let writer = Writer::over(words, sizes, File::NONE);
        writer.describe(sizes, facts);
        for ring in 0..RINGS {
            words.at(header::RINGS + ring * header::RING + header::RING_STATE).store(READY, Ordering::Relaxed);
        }
        Some(writer)
    }

    /// Writes a record into ring `ring` modulo [`RINGS`], and returns its handle with a note of 4 bits; `None` if there is no space for the ring.
    /// Handles of calls, in the first [`CALL_RINGS`] rings, have no note. Threads in one ring contend for its counter.
    #[inline]
    pub fn put(&self, ring: usize, note: u8, record: &Record) -> Option<Handle> {
        match ring % RINGS {
            ring @ 0..CALL_RINGS => self.put_call(ring, record),
            ring => self.put_event(ring, note, record),
        }
    }

    /// Writes into a ring for calls: 0 if there is none of this number.
    #[inline]
    pub fn put_call(&self, ring: usize, record: &Record) -> Option<Handle> {
        let ring = if ring < CALL_RINGS { ring } else { 0 };
        let begin = RINGS_AT + ring * self.sizes.calls as usize * RECORD;
        self.put_into(ring, (begin, self.sizes.calls), 0, record)
    }

    /// Writes into a ring for events: the first of them if there is none of this number.
    #[inline]
    pub fn put_event(&self, ring: usize, note: u8, record: &Record) -> Option<Handle> {
        let ring = if CALL_RINGS < ring && ring < RINGS { ring } else { CALL_RINGS };
        // In rings for events: one load and one multiplication, because `RingSizes::at` costs 1 ns of a record's 50.
        let before = CALL_RINGS as u64 * (CALL_RING_TIMES - 1) + ring as u64;
        let begin = RINGS_AT + (before * self.sizes.events) as usize * RECORD;
        self.put_into(ring, (begin, self.sizes.events), note, record)
    }

    #[inline]
    fn put_into(&self, ring: usize, (begin, records): (usize, u64), note: u8, record: &Record) -> Option<Handle> {
        let about = header::RINGS + ring * header::RING;
        if self.words.at(about + header::RING_STATE).load(Ordering::Relaxed) != READY && !self.open_ring(ring) {
            self.words.at(header::LOST).fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let claimed = self.words.at(about + header::RING_CLAIMED).fetch_add(1, Ordering::Relaxed);
        let at = begin + (claimed & (records - 1)) as usize * RECORD;
        let words = record.words(claimed + 1);
        self.words.at(at).store(0, Ordering::Relaxed);
        // The 0 is stored before the other words, and the position after them.
        fence(Ordering::Release);
        for (index, word) in words.iter().enumerate().skip(1) {
            self.words.at(at + 8 * index).store(*word, Ordering::Relaxed);
        }
        self.words.at(at).store(words[0], Ordering::Release);
        Handle::new(ring, words[0], note)
    }

    /// The offset of the slot for a position, counted from 0.
    #[inline]
    fn slot_at(&self, ring: usize, position: u64) -> usize {
        self.sizes.at(ring) as usize + (position & (self.sizes.of(ring) - 1)) as usize * RECORD
    }

    /// Reserves a ring's space once. Other threads wait for that, but not for ever: after a limit, their record is lost, and counted.
    #[cold]
    #[inline(never)]
    fn open_ring(&self, ring: usize) -> bool {
        let state = self.words.at(header::RINGS + ring * header::RING + header::RING_STATE);
        // This check runs for every record of such a ring, so nothing slow may come before it.
        if state.load(Ordering::Acquire) == WITHOUT_SPACE {
            return false;
        }
        let _guard = NotCancelled::new();
        if state.compare_exchange(UNUSED, RESERVING, Ordering::Acquire, Ordering::Acquire).is_err() {
            // Reserving takes microseconds, and happens once. But its thread may have been preempted by the threads that wait.
            for attempt in 0..100_000 {
                match state.load(Ordering::Acquire) {
                    READY => return true,
                    WITHOUT_SPACE => return false,
                    _ if attempt < 1_000 => core::hint::spin_loop(),
                    _ => system::give_way(),
                }
            }
            return false;
        }
        let (from, length) = (self.sizes.at(ring), self.sizes.of(ring) * RECORD as u64);
        let reserved = self.file.reserve(from, length);
        if let Err(error) = reserved {
            self.words.set_half(header::LOST_WHY, error.cast_unsigned());
        }
        let reserved = reserved.is_ok();
        state.store(if reserved { READY } else { WITHOUT_SPACE }, Ordering::Release);
        if reserved {
            // Otherwise every 64th record, the first of a page, would wait for a page fault.
            system::populate(&self.words, from, length);
        }
        reserved
    }

    /// The record of a handle, if it is still in the ring.
    pub fn get(&self, handle: Handle) -> Option<Record> {
        let position = handle.position();
        let at = self.slot_at(handle.ring(), position.checked_sub(1)?);
        let mut words = [0; 8];
        words[0] = self.words.at(at).load(Ordering::Acquire);
        for (index, word) in words.iter_mut().enumerate().skip(1) {
            *word = self.words.at(at + 8 * index).load(Ordering::Relaxed);
        }
        // If any word belongs to a newer record, the first word is that record's by now, or 0.
        fence(Ordering::Acquire);
        let is_same = words[0] == position && self.words.at(at).load(Ordering::Relaxed) == position;
        Record::from_words(words).filter(|_| is_same)
    }

    /// The record at a position in a ring, from 1, if the ring still has it and it is complete.
    pub fn at(&self, ring: usize, position: u64) -> Option<(Handle, Record)> {
        let handle = Handle::new(ring, position, 0)?;
        self.get(handle).map(|record| (handle, record))
    }

    /// How many positions of a ring were claimed. The last records may still be being written.
    pub fn claimed(&self, ring: usize) -> u64 {
        self.words.at(header::RINGS + ring % RINGS * header::RING + header::RING_CLAIMED).load(Ordering::Acquire)
    }

    pub fn lost(&self) -> u64 {
        self.words.at(header::LOST).load(Ordering::Relaxed)
    }

    #[inline]
    pub fn ring_sizes(&self) -> RingSizes {
        self.sizes
    }

    /// Marks the file as closed by its process, and makes it writable for its owner.
    pub fn close(&self) {
        let _guard = NotCancelled::new();
        self.take_clocks();
        self.words.set_half(header::CLOSED, 1);
        self.file.allow_writing();
    }
}
