//! The layout of a file: offsets in bytes. The offsets in each module are relative to the start of what it describes.

/// The first bytes of a file. They are written last when the file is created.
pub const MAGIC: [u8; 8] = *b"NCCLSTK\x01";
/// The version of this layout. A reader also reads version 1, in which all rings have the same size, and refuses others.
pub const VERSION: u32 = 2;
/// The size of a record in bytes.
pub const RECORD: usize = 64;
pub const RINGS: usize = 16;
/// How many rings are for calls: the first ones. A call makes many events, which would overwrite the calls of minutes within seconds.
pub const CALL_RINGS: usize = 10;
/// How many times as large as a ring for events a ring for calls is.
pub const CALL_RING_TIMES: u64 = 4;
pub const COMMUNICATORS_AT: usize = 4096;
/// How many communicators a file holds.
pub const COMMUNICATORS: usize = 512;
/// The size of a communicator's entry in bytes.
pub const COMMUNICATOR: usize = 256;
pub const TEXTS_AT: usize = COMMUNICATORS_AT + COMMUNICATORS * COMMUNICATOR;
/// How many texts there are. Their numbers fit into a byte, and 0 means none.
pub const TEXTS: usize = 255;
/// The size of a text in bytes. Its first byte is its length, which includes that byte.
pub const TEXT: usize = 64;
/// Where the rings begin, aligned to a page.
pub const RINGS_AT: usize = (TEXTS_AT + TEXTS * TEXT).next_multiple_of(4096);
/// The smallest and the largest number of records in a ring for events.
pub const RING_RECORDS: core::ops::RangeInclusive<u64> = 64..=1 << 24;

/// Offsets in the header.
pub mod header {
    /// [`MAGIC`](super::MAGIC).
    pub const MAGIC: usize = 0;
    /// [`VERSION`](super::VERSION), u32.
    pub const VERSION: usize = 8;
    /// Whether the process has closed the file at its exit, u32.
    pub const CLOSED: usize = 12;
    /// The number of records in a ring for events, u64; in version 1 in each ring.
    pub const RING_RECORDS: usize = 16;
    /// The process id, u32.
    pub const PID: usize = 24;
    /// The process's rank in the job, i32; -1 if its environment does not say.
    pub const RANK: usize = 28;
    /// How many ranks the job has, i32; -1 if unknown.
    pub const WORLD: usize = 32;
    /// The rank among the processes on its host, i32; -1 if unknown.
    pub const LOCAL_RANK: usize = 36;
    /// `CLOCK_REALTIME` when the file was created, i64.
    pub const REALTIME: usize = 40;
    /// `CLOCK_MONOTONIC` at that moment, i64.
    pub const MONOTONIC: usize = 48;
    /// `CLOCK_REALTIME` when a communicator was last made or ended, i64. If the offset between the two clocks changed, a clock was set or slewed.
    pub const LAST_REALTIME: usize = 56;
    /// `CLOCK_MONOTONIC` at that moment, i64.
    pub const LAST_MONOTONIC: usize = 64;
    /// NCCL's version as `ncclGetVersion` returns it, u32: 23203 is 2.32.3. 0 if unknown.
    pub const NCCL: usize = 72;
    /// The version of the plugin interface that NCCL chose, u32; 0 if it loaded no plugin.
    pub const PLUGIN: usize = 76;
    /// The events that NCCL was asked for, u64.
    pub const EVENTS: usize = 80;
    /// How many records were lost because there was no space for their ring, u64.
    pub const LOST: usize = 88;
    /// Communicators for which there was no room, u64.
    pub const LOST_COMMUNICATORS: usize = 96;
    /// How many communicators the process has registered, u64.
    pub const KNOWN_COMMUNICATORS: usize = 104;
    /// The machine's boot id, 36 bytes: processes with the same one share `CLOCK_MONOTONIC`.
    pub const BOOT: usize = 112;
    pub const BOOT_LENGTH: usize = 36;
    /// The host's name, 64 bytes, padded with zeros.
    pub const HOST: usize = 160;
    pub const HOST_LENGTH: usize = 64;
    /// How often the entry of an ended communicator was reused for a newer one, u64; 0 in files of recorders that did not reuse entries.
    pub const REUSED: usize = 224;
    /// How many calls and events were not recorded because the program had switched recording off, u64.
    pub const LEFT_OUT: usize = 232;
    /// Why there was no space for a ring, u32: the errno of the last attempt; 0 if all succeeded, or in files of recorders that did not note it.
    pub const LOST_WHY: usize = 240;
    /// The number of records in a ring for calls, u64.
    pub const CALL_RECORDS: usize = 248;
    /// The program and its first arguments, 512 bytes, padded with zeros.
    pub const COMMAND: usize = 256;
    pub const COMMAND_LENGTH: usize = 512;
    /// The state of each ring, 128 bytes each.
    pub const RINGS: usize = 1024;
    pub const RING: usize = 128;
    /// In a ring: how many positions were claimed, u64.
    pub const RING_CLAIMED: usize = 0;
    /// In a ring: its state, u64; 0 unused, 1 being reserved, 2 in use, 3 without space.
    pub const RING_STATE: usize = 8;
}

/// Offsets in a communicator's entry.
pub mod communicator {
    /// Its state, u32: 0 none, 1 being written, 2 in use, 3 ended. An entry in state 3 may be reused for another communicator.
    pub const STATE: usize = 0;
    /// What registered it, u32: 1 the profiler plugin, 2 the interceptor.
    pub const BY: usize = 4;
    /// NCCL's `commHash`, u64; 0 if unknown.
    pub const HASH: usize = 8;
    /// Megatrace's `groupHash`, u64; 0 if unknown.
    pub const GROUP_HASH: usize = 16;
    /// The number of the communicator that it was split from, from 1, u32; 0 for none.
    pub const PARENT: usize = 24;
    /// The rank in it, i32; -1 if unknown.
    pub const RANK: usize = 28;
    /// How many ranks it has, i32; -1 if unknown.
    pub const SIZE: usize = 32;
    /// The number of nodes that it spans, i32; -1 if unknown.
    pub const NODES: usize = 36;
    /// The colour of its split, i32.
    pub const COLOR: usize = 40;
    /// The key of its split, i32.
    pub const KEY: usize = 44;
    /// The address of NCCL's structure in the process, u64; 0 if unknown.
    pub const ADDRESS: usize = 48;
    /// When it was registered, ns, i64. Older records with this number belong to a communicator that had the entry before.
    pub const MADE: usize = 56;
    /// When it ended or was finalized, ns, i64; 0 if neither.
    pub const ENDED: usize = 64;
    /// How many communicators were split from it, u32.
    pub const CHILDREN: usize = 72;
    /// How many collectives were called on it, as far as its source counts them, u32.
    pub const COLLECTIVES: usize = 76;
    /// How many sends and receives were called on it, u64; 0 in files that did not count them.
    pub const SENDS: usize = 80;
    /// How many communicators had the entry before, u64; 0 in files of recorders that did not reuse entries.
    pub const BEFORE: usize = 88;
    /// Its name, 128 bytes, padded with zeros.
    pub const NAME: usize = 128;
    pub const NAME_LENGTH: usize = 128;
}

const _: () = assert!(RINGS_AT.is_multiple_of(4096) && header::RINGS + RINGS * header::RING <= COMMUNICATORS_AT);
const _: () = assert!(header::COMMAND + header::COMMAND_LENGTH <= header::RINGS);
const _: () = assert!(communicator::NAME + communicator::NAME_LENGTH <= COMMUNICATOR);

/// How many records the rings of a file have. All numbers are powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingSizes {
    /// In each of the first [`CALL_RINGS`] rings.
    pub calls: u64,
    pub events: u64,
}

impl RingSizes {
    /// The sizes of a new file whose rings for events have so many records.
    pub const fn new(events: u64) -> RingSizes {
        RingSizes { calls: events * CALL_RING_TIMES, events }
    }

    /// How many records a ring has.
    #[inline]
    pub const fn of(self, ring: usize) -> u64 {
        if ring < CALL_RINGS { self.calls } else { self.events }
    }

    /// How many records the rings before this one have together.
    #[inline]
    pub const fn before(self, ring: usize) -> u64 {
        if ring < CALL_RINGS {
            return ring as u64 * self.calls;
        }
        CALL_RINGS as u64 * self.calls + (ring - CALL_RINGS) as u64 * self.events
    }

    /// The offset of a ring in the file; that of ring [`RINGS`] is the file's length.
    #[inline]
    pub const fn at(self, ring: usize) -> u64 {
        RINGS_AT as u64 + self.before(ring) * RECORD as u64
    }
}
