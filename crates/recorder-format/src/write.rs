//! Writes a file through mapped memory.
//!
//! What happens for each record is in [`Writer::put`]: one atomic addition and eight stores. Nothing there calls the system, allocates or
//! waits. A ring's space is reserved with its first record, for a store into a page that the disk has no room for would kill the job.

use core::ffi::CStr;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering, fence};

use crate::layout::{self, RECORD, RINGS, RINGS_AT, communicator, header, ring_at};
use crate::record::{Handle, Record};

const UNUSED: u64 = 0;
const RESERVING: u64 = 1;
const READY: u64 = 2;
const WITHOUT_MEMORY: u64 = 3;

/// What a file says of its process.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// How many records each ring has: rounded up to a power of two within [`layout::RING_RECORDS`].
    pub ring_records: u64,
    /// The process.
    pub pid: u32,
    /// Its rank, the number of ranks, and the rank on its host; -1 for what is unknown.
    pub ranks: [i32; 3],
    /// The machine's boot id; cut off at 36 bytes.
    pub boot: &'a [u8],
    /// The host's name; cut off at 64 bytes.
    pub host: &'a [u8],
    /// The program; cut off at 512 bytes.
    pub command: &'a [u8],
    /// The events that are asked for.
    pub events: u64,
}

/// A mapped file. It is a pointer: copies write into the same file, from any thread.
#[derive(Debug, Clone, Copy)]
pub struct Writer {
    base: NonNull<u8>,
    ring_records: u64,
    fd: i32,
}

// SAFETY: all stores after `create` are atomic, and the mapping is never taken away.
unsafe impl Send for Writer {}
// SAFETY: as above.
unsafe impl Sync for Writer {}

/// Both clocks, ns, read one after the other.
pub fn realtime_and_monotonic() -> (i64, i64) {
    let read = |clock| {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `now` is a timespec that may be written.
        unsafe { libc::clock_gettime(clock, &raw mut now) };
        now.tv_sec.wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec)
    };
    // The middle of two readings, so that an interruption between the clocks shows in neither.
    let (before, realtime, after) =
        (read(libc::CLOCK_MONOTONIC), read(libc::CLOCK_REALTIME), read(libc::CLOCK_MONOTONIC));
    (realtime, before + (after - before) / 2)
}

/// The system's number of the last error.
fn errno() -> i32 {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() }
}

/// Reserves a part of a file; the system's error number if there is no room.
fn reserve(fd: i32, from: u64, length: u64) -> Result<(), i32> {
    let (from, length) = (from as libc::off_t, length as libc::off_t);
    // SAFETY: calls on a file descriptor, without memory.
    unsafe {
        if libc::fallocate(fd, 0, from, length) == 0 {
            return Ok(());
        }
        match errno() {
            // File systems that cannot: glibc writes a byte into each block.
            libc::EOPNOTSUPP | libc::ENOSYS => match libc::posix_fallocate(fd, from, length) {
                0 => Ok(()),
                error => Err(error),
            },
            error => Err(error),
        }
    }
}

impl Writer {
    /// Creates a file, which must not be there yet. Errors are the system's numbers; then no file is left.
    pub fn create(path: &CStr, facts: &Facts<'_>) -> Result<Writer, i32> {
        let (fewest, most) = (*layout::RING_RECORDS.start(), *layout::RING_RECORDS.end());
        let ring_records = facts.ring_records.clamp(fewest, most).next_power_of_two();
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        // SAFETY: `path` ends with a zero.
        let fd = unsafe { libc::open(path.as_ptr(), flags, 0o644) };
        if fd < 0 {
            return Err(errno());
        }
        let mapped = Self::map(fd, ring_records);
        match mapped {
            Ok(writer) => {
                writer.describe(facts);
                Ok(writer)
            }
            Err(error) => {
                // SAFETY: the file is ours, and nothing is mapped.
                unsafe {
                    libc::close(fd);
                    libc::unlink(path.as_ptr());
                }
                Err(error)
            }
        }
    }

    fn map(fd: i32, ring_records: u64) -> Result<Writer, i32> {
        let length = ring_at(RINGS, ring_records);
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: calls on our own descriptor; `limit` may be written; the mapping is new memory.
        unsafe {
            // Above this limit the system would not refuse, but kill the process.
            if libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) == 0 && limit.rlim_cur < length {
                return Err(libc::EFBIG);
            }
            if libc::ftruncate(fd, length as libc::off_t) != 0 {
                return Err(errno());
            }
            reserve(fd, 0, RINGS_AT as u64)?;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let base = libc::mmap(core::ptr::null_mut(), length as usize, protection, libc::MAP_SHARED, fd, 0);
            match NonNull::new(base.cast::<u8>()) {
                Some(start) if base != libc::MAP_FAILED => Ok(Writer { base: start, ring_records, fd }),
                _ => Err(errno()),
            }
        }
    }

    fn describe(&self, facts: &Facts<'_>) {
        let (realtime, monotonic) = realtime_and_monotonic();
        self.u32_at(header::VERSION).store(layout::VERSION, Ordering::Relaxed);
        self.u64_at(header::RING_RECORDS).store(self.ring_records, Ordering::Relaxed);
        self.u32_at(header::PID).store(facts.pid, Ordering::Relaxed);
        for (at, rank) in [header::RANK, header::WORLD, header::LOCAL_RANK].into_iter().zip(facts.ranks) {
            self.u32_at(at).store(rank.cast_unsigned(), Ordering::Relaxed);
        }
        for at in [header::REALTIME, header::LAST_REALTIME] {
            self.i64_at(at).store(realtime, Ordering::Relaxed);
        }
        for at in [header::MONOTONIC, header::LAST_MONOTONIC] {
            self.i64_at(at).store(monotonic, Ordering::Relaxed);
        }
        self.u64_at(header::EVENTS).store(facts.events, Ordering::Relaxed);
        self.bytes(header::BOOT, 36, facts.boot);
        self.bytes(header::HOST, header::HOST_LENGTH, facts.host);
        self.bytes(header::COMMAND, header::COMMAND_LENGTH, facts.command);
        let magic = u64::from_le_bytes(layout::MAGIC);
        self.u64_at(header::MAGIC).store(magic, Ordering::Release);
    }

    fn u64_at(&self, at: usize) -> &AtomicU64 {
        // SAFETY: offsets are multiples of 8 within the mapping, which is never taken away.
        unsafe { self.base.add(at).cast::<AtomicU64>().as_ref() }
    }

    fn i64_at(&self, at: usize) -> &AtomicI64 {
        // SAFETY: as in `u64_at`.
        unsafe { self.base.add(at).cast::<AtomicI64>().as_ref() }
    }

    fn u32_at(&self, at: usize) -> &AtomicU32 {
        // SAFETY: offsets are multiples of 4 within the mapping.
        unsafe { self.base.add(at).cast::<AtomicU32>().as_ref() }
    }

    fn bytes(&self, at: usize, room: usize, bytes: &[u8]) {
        let length = bytes.len().min(room);
        // SAFETY: the caller's place has `room` bytes, and nobody else writes there.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(at).as_ptr(), length) };
    }

    /// Writes a record and returns its handle, with a note of 4 bits in it; `None` if its ring has no memory. `thread` chooses the ring: any
    /// number that a thread keeps.
    #[inline]
    pub fn put(&self, thread: u64, note: u8, record: &Record) -> Option<Handle> {
        let ring = (thread.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize % RINGS;
        let about = header::RINGS + ring * header::RING;
        if self.u64_at(about + header::RING_STATE).load(Ordering::Relaxed) != READY && !self.open_ring(ring) {
            self.u64_at(header::LOST).fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let claimed = self.u64_at(about + header::RING_CLAIMED).fetch_add(1, Ordering::Relaxed);
        let slot = (claimed & (self.ring_records - 1)) as usize;
        let at = ring_at(ring, self.ring_records) as usize + slot * RECORD;
        let words = record.words(claimed + 1);
        self.u64_at(at).store(0, Ordering::Relaxed);
        // No other word is written before the 0, and the position after all of them.
        fence(Ordering::Release);
        for (index, word) in words.iter().enumerate().skip(1) {
            self.u64_at(at + 8 * index).store(*word, Ordering::Relaxed);
        }
        self.u64_at(at).store(words[0], Ordering::Release);
        Handle::new(ring, words[0], note)
    }

    /// Reserves a ring's space, once. Another thread that comes meanwhile waits, but not for ever: after that its record is lost, and counted.
    #[cold]
    fn open_ring(&self, ring: usize) -> bool {
        let state = self.u64_at(header::RINGS + ring * header::RING + header::RING_STATE);
        if state.compare_exchange(UNUSED, RESERVING, Ordering::Acquire, Ordering::Acquire).is_err() {
            // Reserving takes microseconds, and happens once. But the thread that does it may have lost its processor to those that wait.
            for attempt in 0..100_000 {
                match state.load(Ordering::Acquire) {
                    READY => return true,
                    WITHOUT_MEMORY => return false,
                    _ if attempt < 1_000 => core::hint::spin_loop(),
                    _ => {
                        // SAFETY: has no condition.
                        unsafe { libc::sched_yield() };
                    }
                }
            }
            return false;
        }
        let length = self.ring_records * RECORD as u64;
        let reserved = reserve(self.fd, ring_at(ring, self.ring_records), length).is_ok();
        state.store(if reserved { READY } else { WITHOUT_MEMORY }, Ordering::Release);
        if reserved {
            // Otherwise each 64th record, as many as a page has, would wait for its page. Older systems cannot, and do that.
            let at = ring_at(ring, self.ring_records) as usize;
            // SAFETY: the ring is within the mapping.
            unsafe { libc::madvise(self.base.as_ptr().add(at).cast(), length as usize, libc::MADV_POPULATE_WRITE) };
        }
        reserved
    }

    /// The record of a handle, if the ring still has it.
    pub fn get(&self, handle: Handle) -> Option<Record> {
        let position = handle.position();
        let slot = (position.checked_sub(1)? & (self.ring_records - 1)) as usize;
        let at = ring_at(handle.ring(), self.ring_records) as usize + slot * RECORD;
        let mut words = [0; 8];
        for (index, word) in words.iter_mut().enumerate() {
            *word = self.u64_at(at + 8 * index).load(Ordering::Acquire);
        }
        Record::of(words).filter(|_| words[0] == position)
    }

    /// The record at a position of a ring, counted from 1, if the ring has it and it is complete.
    pub fn at(&self, ring: usize, position: u64) -> Option<(Handle, Record)> {
        let handle = Handle::new(ring, position, 0)?;
        self.get(handle).map(|record| (handle, record))
    }

    /// How many positions of a ring were claimed. The last of them may still be written.
    pub fn claimed(&self, ring: usize) -> u64 {
        self.u64_at(header::RINGS + ring % RINGS * header::RING + header::RING_CLAIMED).load(Ordering::Acquire)
    }

    /// How many records each ring has.
    pub fn ring_records(&self) -> u64 {
        self.ring_records
    }

    /// What is before the rings, for the functions that read it. Of what they return for a number that is in use, only when a communicator
    /// ended and where NCCL has it may change.
    pub fn tables(&self) -> &[u8] {
        // SAFETY: so many bytes are mapped, and never taken away.
        unsafe { core::slice::from_raw_parts(self.base.as_ptr(), RINGS_AT) }
    }

    /// Makes a communicator known; its number, from 1, or 0 if there is no room for it.
    pub fn communicator(&self, about: &crate::Communicator<'_>) -> u16 {
        let number = self.u64_at(header::KNOWN_COMMUNICATORS).fetch_add(1, Ordering::Relaxed);
        if number >= layout::COMMUNICATORS as u64 {
            self.u64_at(header::LOST_COMMUNICATORS).fetch_add(1, Ordering::Relaxed);
            return 0;
        }
        let at = layout::COMMUNICATORS_AT + number as usize * layout::COMMUNICATOR;
        self.u32_at(at + communicator::STATE).store(1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.u32_at(at + communicator::BY).store(about.by, Ordering::Relaxed);
        self.u32_at(at + communicator::PARENT).store(u32::from(about.parent), Ordering::Relaxed);
        let numbers = [
            (communicator::RANK, about.rank),
            (communicator::SIZE, about.size),
            (communicator::NODES, about.nodes),
            (communicator::COLOR, about.color),
            (communicator::KEY, about.key),
        ];
        for (offset, value) in numbers {
            self.u32_at(at + offset).store(value.cast_unsigned(), Ordering::Relaxed);
        }
        self.u64_at(at + communicator::HASH).store(about.hash, Ordering::Relaxed);
        self.u64_at(at + communicator::GROUP_HASH).store(about.group_hash, Ordering::Relaxed);
        self.u64_at(at + communicator::ADDRESS).store(about.address, Ordering::Relaxed);
        self.i64_at(at + communicator::MADE).store(about.made, Ordering::Relaxed);
        self.bytes(at + communicator::NAME, communicator::NAME_LENGTH, about.name);
        self.u32_at(at + communicator::STATE).store(2, Ordering::Release);
        self.take_clocks();
        number as u16 + 1
    }

    /// Where a communicator with this number is; `None` for 0 and what is no number.
    fn communicator_at(number: u16) -> Option<usize> {
        let index = usize::from(number).checked_sub(1).filter(|index| *index < layout::COMMUNICATORS)?;
        Some(layout::COMMUNICATORS_AT + index * layout::COMMUNICATOR)
    }

    /// The hash of a communicator, and the number of its next child, from 0.
    pub fn next_child(&self, number: u16) -> Option<(u64, u32)> {
        let at = Self::communicator_at(number)?;
        let child = self.u32_at(at + communicator::CHILDREN).fetch_add(1, Ordering::Relaxed);
        Some((self.u64_at(at + communicator::HASH).load(Ordering::Relaxed), child))
    }

    /// The hash of a communicator; 0 if it is unknown.
    pub fn hash(&self, number: u16) -> u64 {
        Self::communicator_at(number).map_or(0, |at| self.u64_at(at + communicator::HASH).load(Ordering::Relaxed))
    }

    /// Says the rank in a communicator and its size, once they are known; -1 for what is not.
    pub fn set_rank(&self, number: u16, rank: i32, size: i32) {
        if let Some(at) = Self::communicator_at(number) {
            self.u32_at(at + communicator::RANK).store(rank.cast_unsigned(), Ordering::Relaxed);
            self.u32_at(at + communicator::SIZE).store(size.cast_unsigned(), Ordering::Release);
        }
    }

    /// Counts a collective of a communicator: its number, from 1; 0 if there is no such communicator. The numbers of its ranks are comparable
    /// also after a ring has overwritten the first of them.
    #[inline]
    pub fn next_collective(&self, number: u16) -> u32 {
        let Some(at) = Self::communicator_at(number) else { return 0 };
        self.u32_at(at + communicator::COLLECTIVES).fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// A communicator has ended.
    pub fn ended(&self, number: u16, time: i64) {
        if let Some(at) = Self::communicator_at(number) {
            self.i64_at(at + communicator::ENDED).store(time, Ordering::Relaxed);
            self.u32_at(at + communicator::STATE).store(3, Ordering::Release);
            self.take_clocks();
        }
    }

    /// Says where NCCL has a communicator, once that is known.
    pub fn set_address(&self, number: u16, address: u64) {
        if let Some(at) = Self::communicator_at(number) {
            self.u64_at(at + communicator::ADDRESS).store(address, Ordering::Release);
        }
    }

    /// Writes the pair of clocks once more.
    pub fn take_clocks(&self) {
        let (realtime, monotonic) = realtime_and_monotonic();
        self.i64_at(header::LAST_REALTIME).store(realtime, Ordering::Relaxed);
        self.i64_at(header::LAST_MONOTONIC).store(monotonic, Ordering::Release);
    }

    /// The number of a text, from 1; 0 if there is no room for another. Texts of more than 63 bytes are cut off. Slow: callers keep what
    /// they got.
    pub fn text(&self, text: &[u8]) -> u8 {
        let length = text.len().min(layout::TEXT - 1);
        let text = &text[..length];
        for number in 0..layout::TEXTS {
            let at = layout::TEXTS_AT + number * layout::TEXT;
            let word = self.u64_at(at);
            // The first word has the length and up to seven bytes, and claims the place. It is never 0, for the length counts itself.
            let mut first = [0; 8];
            first[0] = length as u8 + 1;
            let head = length.min(7);
            first[1..=head].copy_from_slice(&text[..head]);
            let first = u64::from_le_bytes(first);
            let found = match word.compare_exchange(0, first, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    if length > 7 {
                        self.bytes(at + 8, layout::TEXT - 8, &text[7..]);
                    }
                    first
                }
                Err(found) => found,
            };
            // What differs after seven bytes is another text. One that is being written by another thread may be entered twice: harmless.
            // SAFETY: the place is within the mapping.
            let rest = || unsafe { core::slice::from_raw_parts(self.base.add(at + 8).as_ptr(), length - 7) };
            if found == first && (length <= 7 || rest() == &text[7..]) {
                return number as u8 + 1;
            }
        }
        0
    }

    /// Says which version of NCCL is there.
    pub fn set_nccl(&self, version: u32) {
        self.u32_at(header::NCCL).store(version, Ordering::Relaxed);
    }

    /// Says which version of the plugin's interface NCCL chose, and for which events.
    pub fn set_plugin(&self, version: u32, events: u64) {
        self.u32_at(header::PLUGIN).store(version, Ordering::Relaxed);
        self.u64_at(header::EVENTS).store(events, Ordering::Relaxed);
    }

    /// Says that the process ends.
    pub fn close(&self) {
        self.take_clocks();
        self.u32_at(header::CLOSED).store(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Slot, communicator, slot, text};
    use std::ffi::CString;
    use std::path::PathBuf;
    use std::vec::Vec;
    use std::{format, fs, thread};

    /// A path of its own for each test.
    fn path(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("nccl-stacks-format-{}-{name}", std::process::id()));
        let _ = fs::remove_file(&path);
        path
    }

    fn create(path: &std::path::Path, ring_records: u64) -> Writer {
        let facts = Facts {
            ring_records,
            pid: 77,
            ranks: [3, 8, -1],
            boot: b"0123",
            host: b"node7",
            command: b"python train.py",
            events: 4095,
        };
        Writer::create(&CString::new(path.to_str().unwrap()).unwrap(), &facts).unwrap()
    }

    /// All records of a file by ring, and how many slots are incomplete.
    fn records(bytes: &[u8]) -> (Vec<Vec<(u64, Record)>>, usize) {
        let header = crate::Header::of(bytes).unwrap();
        let mut incomplete = 0;
        let rings = (0..RINGS).map(|ring| {
            let at = ring_at(ring, header.ring_records) as usize;
            let bytes = &bytes[at..at + header.ring_records as usize * RECORD];
            let slots = bytes.chunks_exact(RECORD).enumerate();
            let mut found = Vec::new();
            for (index, bytes) in slots {
                match slot(bytes.try_into().unwrap(), index as u64, header.ring_records) {
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
        let path = path("round");
        let writer = create(&path, 100);
        let about = crate::Communicator { name: b"tp", by: 1, hash: u64::MAX, rank: 3, size: 8, ..Default::default() };
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
        let handle = writer.put(1, 7, &record).unwrap();
        assert_eq!((handle.position(), handle.note(), writer.get(handle)), (1, 7, Some(record)));

        let bytes = fs::read(&path).unwrap();
        let header = crate::Header::of(&bytes).unwrap();
        assert_eq!((header.ring_records, header.pid, header.plugin, header.is_closed), (128, 77, 0, false));
        assert_eq!((header.rank, header.world, header.local_rank), (Some(3), Some(8), None));
        assert_eq!((header.boot, header.host, header.command), (&b"0123"[..], &b"node7"[..], &b"python train.py"[..]));
        assert_eq!(header.realtime(header.start.monotonic + 5), header.start.realtime + 5);
        assert_eq!(communicator(&bytes, 1), Some(crate::Communicator { nodes: 0, rank: 5, size: 16, ..about }));
        assert_eq!(communicator(&bytes, 2).unwrap().ended, 9);
        assert_eq!(communicator(&bytes, 3), None);
        assert_eq!([0, 1, 2, 600].map(|number| crate::collectives(&bytes, number)), [0, 0, 2, 0]);
        assert_eq!(
            [1, 3, 4, 5, 6].map(|number| text(&bytes, number)),
            [Some(&b"AllReduce"[..]), Some(&b""[..]), Some(&b"AllReduceX"[..]), Some(&long[..63]), None]
        );
        let (rings, incomplete) = records(&bytes);
        assert_eq!((rings[handle.ring()].as_slice(), incomplete), (&[(1, record)][..], 0));
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_ring_keeps_its_last_records() {
        let path = path("overflow");
        let writer = create(&path, 64);
        let handles: Vec<Handle> =
            (0..200).map(|n| writer.put(9, 0, &Record { a: n, ..Record::new(Kind::Call) }).unwrap()).collect();
        let bytes = fs::read(&path).unwrap();
        let ring = handles[0].ring();
        let (rings, _) = records(&bytes);
        let kept: Vec<u64> = rings[ring].iter().map(|(_, record)| record.a).collect();
        assert_eq!(kept, (136..200).collect::<Vec<u64>>());
        assert_eq!(crate::Header::of(&bytes).unwrap().claimed[ring], 200);
        assert_eq!((writer.get(handles[135]), writer.get(handles[136]).map(|record| record.a)), (None, Some(136)));
        fs::remove_file(path).unwrap();
    }

    /// Every state in which a writer can be stopped: the words of a record are stored one after the other.
    #[test]
    fn a_writer_may_be_stopped_anywhere() {
        let old = Record { time: 1, a: 11, ..Record::new(Kind::Call) }.words(3);
        let new = Record { time: 2, a: 22, ..Record::new(Kind::Coll) }.words(64 + 3);
        let mut now = old;
        let mut states = std::vec![now];
        now[0] = 0;
        states.push(now);
        for word in 1..8 {
            now[word] = new[word];
            states.push(now);
        }
        now[0] = new[0];
        states.push(now);
        let read: Vec<Slot> = states
            .iter()
            .map(|words| {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                slot(bytes.as_slice().try_into().unwrap(), 2, 64)
            })
            .collect();
        assert_eq!(read[0], Slot::Record(3, Record::of(old).unwrap()));
        assert_eq!(read[9], Slot::Record(67, Record::of(new).unwrap()));
        assert!(read[1..9].iter().all(|slot| *slot == Slot::Incomplete), "{read:?}");
        // Two writers whose words are mixed, though the position is right.
        let mut mixed = new;
        mixed[5] = old[4];
        let bytes: Vec<u8> = mixed.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(slot(bytes.as_slice().try_into().unwrap(), 2, 64), Slot::Incomplete);
    }

    #[test]
    fn threads_share_rings_and_lose_nothing() {
        let path = path("threads");
        let writer = create(&path, 1 << 16);
        thread::scope(|scope| {
            for thread in 0..32u64 {
                scope.spawn(move || {
                    for n in 0..2_000 {
                        let record = Record { a: thread, b: n, ..Record::new(Kind::Call) };
                        writer.put(thread, 0, &record).unwrap();
                    }
                });
            }
        });
        let (rings, incomplete) = records(&fs::read(&path).unwrap());
        let mut all: Vec<(u64, u64)> = rings.iter().flatten().map(|(_, record)| (record.a, record.b)).collect();
        all.sort_unstable();
        let want: Vec<(u64, u64)> = (0..32).flat_map(|thread| (0..2_000).map(move |n| (thread, n))).collect();
        assert!(all == want && incomplete == 0, "{} of {} records, {incomplete} incomplete", all.len(), want.len());
        // More rings than one, or threads would only be in each other's way.
        assert!(rings.iter().filter(|ring| !ring.is_empty()).count() > 6);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn tables_that_are_full_say_so() {
        let path = path("full");
        let writer = create(&path, 64);
        let numbers: Vec<u16> = (0..514).map(|_| writer.communicator(&crate::Communicator::default())).collect();
        assert_eq!((numbers[511], numbers[512], numbers[513]), (512, 0, 0));
        let texts: Vec<u8> = (0..257).map(|n| writer.text(format!("text {n}").as_bytes())).collect();
        assert_eq!((texts[0], texts[254], texts[255], texts[256]), (1, 255, 0, 0));
        let bytes = fs::read(&path).unwrap();
        assert_eq!(crate::Header::of(&bytes).unwrap().lost_communicators, 2);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn other_files_are_refused() {
        let path = path("other");
        create(&path, 64);
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(path).unwrap();
        let with = |at: usize, value: u64| {
            let mut bytes = bytes.clone();
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            crate::Header::of(&bytes).map(|_| ()).unwrap_err()
        };
        use crate::NotARecording::*;
        assert_eq!(with(0, 5), Magic);
        assert_eq!(with(8, 2), Version(2));
        assert_eq!(
            (with(16, 65), with(16, 0), with(16, 1 << 40)),
            (RingRecords(65), RingRecords(0), RingRecords(1 << 40))
        );
        assert_eq!(crate::Header::of(&bytes[..9000]).map(|_| ()), Err(Short));
        assert_eq!(crate::Header::of(b"").map(|_| ()), Err(Magic));
    }

    #[test]
    fn files_that_cannot_be_created_leave_nothing() {
        let path = path("twice");
        fs::write(&path, "mine").unwrap();
        let facts = Facts { ring_records: 64, pid: 1, ranks: [-1; 3], boot: b"", host: b"", command: b"", events: 0 };
        let name = CString::new(path.to_str().unwrap()).unwrap();
        assert_eq!(Writer::create(&name, &facts).err(), Some(libc::EEXIST));
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        fs::remove_file(path).unwrap();
        assert_eq!(Writer::create(c"/nonexistent/folder/file", &facts).err(), Some(libc::ENOENT));
    }
}
