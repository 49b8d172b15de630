//! Records, and the handles by which one record refers to another.

use core::num::NonZeroU64;

use crate::layout::RINGS;

/// What a record describes. The numbers and the parent are documented with each kind; words that are not mentioned are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The parent ended. `a`: the result of a call. `KernelChannel` and `KernelPhase` have no `Stop`: their ends are the states 22 and 31.
    Stop = 1,
    /// The parent entered a state of NCCL's (A5 of its headers: 8 `SendGPUWait` …). `a`: the state; `b`: bytes (states 9 and 11), GPU time (22
    /// and 31) or appended operations (17). Only the first entry into state 20 is recorded, which a step enters repeatedly.
    State = 2,
    /// More about the parent. For a collective, a send, or a call of either: `a`: the user's tag; `b`: the number of its group event; without `More`
    /// it is the communicator's last `Group` before it, and 0 means none; the function's text is the kernel variant. For a `CeColl`: `a`: the user's
    /// tag; `b`: operations of a batch in the low half, batches in the high half; `c`: the stream's address.
    More = 3,
    /// An API call that groups others. `a`: its depth.
    GroupApi = 16,
    /// An API call of a collective. `a`: elements; `b`: the stream's address; `c`: root. Function and type.
    CollApi = 17,
    /// An API call of a send or receive. `a`: elements; `b`: the stream's address. Function and type.
    P2pApi = 18,
    /// The launch of a kernel. `b`: the stream's address.
    KernelLaunch = 19,
    Group = 20,
    /// A collective. `a`: elements; `b`: NCCL's sequence number; `c`: root in the low half; in the high half its number among the communicator's
    /// collectives, from 1, or 0 if they were not counted. All small numbers: `channel` is the number of channels, `small` the number of warps.
    Coll = 21,
    /// A send or receive. `a`: elements; `c`: peer. Function, type, `channel`: the number of channels.
    P2p = 22,
    /// The work of a proxy for one operation, channel and peer. `a`: the process of the parent; `b`: steps in the low half, bytes of a chunk in the
    /// high half; `c`: peer. `channel`; `small` is 1 for a send. If the work is for another process, which a flag marks, the parent is a record in
    /// that process's file, the communicator is 0, and the high half of `c` has that process's rank.
    ProxyOp = 23,
    /// A step of a proxy. `a`: its number.
    ProxyStep = 24,
    ProxyControl = 25,
    /// A kernel's work on a channel. `a`: the GPU's time, ns. `channel`.
    KernelChannel = 26,
    /// A transfer of a network plugin with an unknown payload. `a`: the plugin's id.
    NetPlugin = 27,
    /// A collective on copy engines. As `Coll`, but `c`: root in the low half, its number among copy-engine collectives in the high half; the
    /// protocol's text is how its ranks synchronise; `small`: 1 if they also synchronise within batches.
    CeColl = 28,
    /// A synchronisation of copy engines. `a`: 1 if at the end; `b`: ranks.
    CeSync = 29,
    /// A batch of copies. `a`: operations; `b`: bytes; `small`: 1 if its copies are synchronised.
    CeBatch = 30,
    /// A phase of a kernel on a channel. `a`: the GPU's time, ns. `channel`; `small`: the phase; the function's text is its name.
    KernelPhase = 31,
    /// A transfer over InfiniBand for its parent, a step. `a`: the queue pair in the low half, the device in the high half; `b`: bytes; `c`: the
    /// work request; `small`: the operation.
    NetIb = 32,
    /// A transfer over a socket for its parent, a step. `a`: the file descriptor; `b`: bytes; `c`: the operation.
    NetSocket = 33,
    /// An event of a type that the recorder does not know. `a`: the type.
    UnknownEvent = 34,
    /// A call of NCCL's function `function`. `a`: elements; `b`: the stream's address; `c`: root or peer in the low half; in the high half the number
    /// of a collective, as in `Coll`, or of a send or receive among all of the communicator, from 1, or 0 if they were not counted. `dtype` and
    /// `algorithm` are NCCL's numbers of type and reduction, from 1; 255 if they do not fit, as for user-defined ones. Parent: depth of the group
    /// around it; an end of a group has the depth of its beginning. `Stop` follows errors and calls that may wait: ends of groups, and all calls that
    /// make or end communicators. Functions that make one from an id: `a` is the size, `c` the rank, and the communicator is the new one. Functions
    /// that derive one from another have the old one here and the new one in `Stop`; a split has its colour in `a` and its key in `c`.
    Call = 64,
}

impl Kind {
    pub fn for_column(number: u8) -> Option<Kind> {
        use Kind::*;
        const ALL: &[Kind] = &[
            Stop,
            State,
            More,
            GroupApi,
            CollApi,
            P2pApi,
            KernelLaunch,
            Group,
            Coll,
            P2p,
            ProxyOp,
            ProxyStep,
            ProxyControl,
            KernelChannel,
            NetPlugin,
            CeColl,
            CeSync,
            CeBatch,
            KernelPhase,
            NetIb,
            NetSocket,
            UnknownEvent,
            Call,
        ];
        ALL.iter().copied().find(|kind| *kind as u8 == number)
    }
}

/// Bits of [`Record::flags`].
pub mod flag {
    /// The operation was captured into a graph.
    pub const CAPTURED: u8 = 1;
    pub const SYMMETRIC: u8 = 2;
    /// The parent is unknown.
    pub const NO_PARENT: u8 = 4;
    /// The record was made after the call had returned: `Stop` has the result.
    pub const INSIDE_CALL: u8 = 8;
    /// The parent is a record of another process.
    pub const FOREIGN: u8 = 16;
}

/// Refers to a record by its ring and its position there. It is never 0, fits into a pointer, and stays valid when the record is overwritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Handle(NonZeroU64);

const _: () = assert!(RINGS == 16 && size_of::<Option<Handle>>() == 8);

impl Handle {
    /// The handle of the record at this position, from 1. `note` is a number from 0 to 15 for the holder.
    pub(crate) fn new(ring: usize, position: u64, note: u8) -> Option<Handle> {
        NonZeroU64::new(position << 8 | u64::from(note & 15) << 4 | (ring % RINGS) as u64).map(Handle)
    }

    /// The number that represents the handle in files and pointers.
    pub fn number(self) -> u64 {
        self.0.get()
    }

    pub fn from_number(number: u64) -> Option<Handle> {
        NonZeroU64::new(number).map(Handle)
    }

    pub fn ring(self) -> usize {
        (self.0.get() & 15) as usize
    }

    /// The position of its record in the ring, from 1.
    pub fn position(self) -> u64 {
        self.0.get() >> 8
    }

    pub fn note(self) -> u8 {
        (self.0.get() >> 4 & 15) as u8
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    pub kind: Kind,
    pub flags: u8,
    /// The thread that wrote it: a number that is unique per thread, but not the system's thread id.
    pub thread: u32,
    /// When, ns of the monotonic clock.
    pub time: i64,
    /// The record that this one belongs to, a [`Handle`]'s number; 0 for none.
    pub parent: u64,
    pub a: u64,
    pub b: u64,
    pub c: u64,
    /// The communicator, from 1; 0 if unknown.
    pub communicator: u16,
    /// The number of a text, as in the next three fields; 0 for none.
    pub function: u8,
    pub dtype: u8,
    pub algorithm: u8,
    pub protocol: u8,
    pub channel: u8,
    pub small: u8,
}

impl Record {
    pub const fn new(kind: Kind) -> Record {
        Record {
            kind,
            flags: 0,
            thread: 0,
            time: 0,
            parent: 0,
            a: 0,
            b: 0,
            c: 0,
            communicator: 0,
            function: 0,
            dtype: 0,
            algorithm: 0,
            protocol: 0,
            channel: 0,
            small: 0,
        }
    }

    /// Its words; the first is the position.
    #[inline]
    pub(crate) fn words(&self, position: u64) -> [u64; 8] {
        let small = [self.function, self.dtype, self.algorithm, self.protocol, self.channel, self.small];
        let small = u64::from_le_bytes([0, 0, small[0], small[1], small[2], small[3], small[4], small[5]]);
        let head = u64::from(self.kind as u8) | u64::from(self.flags) << 8 | u64::from(self.thread) << 32;
        let mut words = [
            position,
            self.time as u64,
            head,
            self.parent,
            self.a,
            self.b,
            small | u64::from(self.communicator),
            self.c,
        ];
        words[2] |= u64::from(check(&words)) << 16;
        words
    }

    /// The record in these words; `None` if the check is wrong or the kind is unknown.
    pub(crate) fn from_words(mut words: [u64; 8]) -> Option<Record> {
        let found = (words[2] >> 16) as u16;
        words[2] &= !(0xffff << 16);
        if check(&words) != found {
            return None;
        }
        let small = words[6].to_le_bytes();
        Some(Record {
            kind: Kind::for_column(words[2] as u8)?,
            flags: (words[2] >> 8) as u8,
            thread: (words[2] >> 32) as u32,
            time: words[1] as i64,
            parent: words[3],
            a: words[4],
            b: words[5],
            c: words[7],
            communicator: words[6] as u16,
            function: small[2],
            dtype: small[3],
            algorithm: small[4],
            protocol: small[5],
            channel: small[6],
            small: small[7],
        })
    }
}

/// A check over all words, with 0 in its own place. Words are rotated so that swapping two of them changes the check.
#[inline]
fn check(words: &[u64; 8]) -> u16 {
    let mut sum = 0u64;
    for (at, word) in words.iter().enumerate() {
        sum ^= word.rotate_left(7 * at as u32);
    }
    (sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_no_word_can_change() {
        let record = Record {
            flags: flag::CAPTURED,
            thread: 0xdead_beef,
            time: i64::MAX,
            parent: u64::MAX,
            a: 1,
            b: 2,
            c: u64::MAX - 3,
            communicator: 0xfffe,
            function: 1,
            dtype: 2,
            algorithm: 3,
            protocol: 4,
            channel: 63,
            small: 255,
            ..Record::new(Kind::Coll)
        };
        let words = record.words(77);
        assert_eq!(Record::from_words(words), Some(record));
        for at in 0..8 {
            for bit in 0..64 {
                let mut other = words;
                other[at] ^= 1 << bit;
                assert_ne!(Record::from_words(other), Some(record), "word {at} bit {bit}");
                assert_eq!(Record::from_words(other), None, "word {at} bit {bit}");
            }
        }
    }

    #[test]
    fn handles_are_numbers_that_are_never_0() {
        let handle = Handle::new(15, 1 << 50, 9).unwrap();
        assert_eq!((handle.ring(), handle.position(), handle.note()), (15, 1 << 50, 9));
        assert_eq!(Handle::from_number(handle.number()), Some(handle));
        assert_eq!(Handle::from_number(0), None);
    }

    #[test]
    fn kinds_have_their_numbers() {
        assert_eq!((0..=255).filter_map(Kind::for_column).count(), 23);
        assert_eq!(Kind::for_column(26), Some(Kind::KernelChannel));
    }
}
