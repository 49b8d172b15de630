//! Reads a file, also while it is being written.

use core::fmt;
use core::ops::RangeInclusive;

use crate::layout::{self, RECORD, RingSizes, communicator as offsets, header};
use crate::record::Record;

/// Both clocks at the same moment, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// ns since 1970.
    pub realtime: i64,
    /// ns of the clock of records.
    pub monotonic: i64,
}

/// The header of a file. Its fields are described at their [offsets](layout::header); `None` is what the environment does not say.
#[derive(Debug, Clone, Copy)]
pub struct Header<'a> {
    pub version: u32,
    pub rings: RingSizes,
    pub pid: u32,
    pub rank: Option<u32>,
    pub world: Option<u32>,
    pub local_rank: Option<u32>,
    /// The clocks when the file was created.
    pub start: Clock,
    /// The clocks when they were last read.
    pub last: Clock,
    pub is_closed: bool,
    pub nccl: u32,
    pub plugin: u32,
    pub events: u64,
    pub lost: u64,
    pub lost_why: i32,
    pub lost_communicators: u64,
    pub reused: u64,
    pub left_out: u64,
    pub boot: &'a [u8],
    pub host: &'a [u8],
    pub command: &'a [u8],
    /// How many records each ring has claimed.
    pub claimed: [u64; layout::RINGS],
}

/// Why bytes are not a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotARecording {
    /// The bytes are something else, or a file whose creation never finished.
    Magic,
    Version(u32),
    /// The file ends before the records.
    Short,
    /// A ring would have this many records.
    RingRecords(u64),
}

impl fmt::Display for NotARecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotARecording::Magic => write!(f, "it is not a recording: its first bytes differ"),
            NotARecording::Version(version) => {
                write!(f, "its layout has version {version}, and this program reads versions 1 to {}", layout::VERSION)
            }
            NotARecording::Short => write!(f, "it is cut off before its first record"),
            NotARecording::RingRecords(records) => write!(f, "it says that a ring has {records} records"),
        }
    }
}

impl core::error::Error for NotARecording {}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    if let Some(found) = bytes.get(at..at + N) {
        array.copy_from_slice(found);
    }
    array
}

fn u64_of(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

fn i64_of(bytes: &[u8], at: usize) -> i64 {
    i64::from_le_bytes(array(bytes, at))
}

fn u32_of(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

fn i32_of(bytes: &[u8], at: usize) -> i32 {
    i32::from_le_bytes(array(bytes, at))
}

/// The bytes up to the first zero.
fn until_zero(bytes: &[u8], at: usize, room: usize) -> &[u8] {
    let bytes = bytes.get(at..at + room).unwrap_or_default();
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

impl<'a> Header<'a> {
    /// Parses the first [`layout::RINGS_AT`] bytes of a file.
    pub fn parse(bytes: &'a [u8]) -> Result<Header<'a>, NotARecording> {
        match header_of(bytes) {
            Ok(_) if bytes.len() < layout::RINGS_AT => Err(NotARecording::Short),
            header => header,
        }
    }

    /// How many records of a ring are in the file.
    pub fn used(&self, ring: usize) -> u64 {
        self.rings.of(ring).min(self.claimed[ring])
    }

    /// Converts a record's time to `CLOCK_REALTIME`, with the nearer pair of clocks.
    pub fn realtime(&self, monotonic: i64) -> i64 {
        let distance = |clock: &Clock| monotonic.abs_diff(clock.monotonic);
        let clock = if distance(&self.last) < distance(&self.start) { &self.last } else { &self.start };
        monotonic.wrapping_sub(clock.monotonic).wrapping_add(clock.realtime)
    }
}

/// Parses a header, whatever follows it.
pub(crate) fn header_of(bytes: &[u8]) -> Result<Header<'_>, NotARecording> {
    if !bytes.starts_with(&layout::MAGIC) {
        return Err(NotARecording::Magic);
    }
    let events = u64_of(bytes, header::RING_RECORDS);
    let calls = match u32_of(bytes, header::VERSION) {
        1 => events,
        layout::VERSION => u64_of(bytes, header::CALL_RECORDS),
        version => return Err(NotARecording::Version(version)),
    };
    let (fewest, most) = (*layout::RING_RECORDS.start(), *layout::RING_RECORDS.end() * layout::CALL_RING_TIMES);
    let is_no_size = |records: &u64| !(fewest..=most).contains(records) || !records.is_power_of_two();
    if let Some(records) = [events, calls].into_iter().find(is_no_size) {
        return Err(NotARecording::RingRecords(records));
    }
    let known = |at| u32::try_from(i32_of(bytes, at)).ok();
    let clock = |realtime, monotonic| Clock { realtime: i64_of(bytes, realtime), monotonic: i64_of(bytes, monotonic) };
    Ok(Header {
        version: u32_of(bytes, header::VERSION),
        rings: RingSizes { calls, events },
        pid: u32_of(bytes, header::PID),
        rank: known(header::RANK),
        world: known(header::WORLD),
        local_rank: known(header::LOCAL_RANK),
        start: clock(header::REALTIME, header::MONOTONIC),
        last: clock(header::LAST_REALTIME, header::LAST_MONOTONIC),
        is_closed: u32_of(bytes, header::CLOSED) != 0,
        nccl: u32_of(bytes, header::NCCL),
        plugin: u32_of(bytes, header::PLUGIN),
        events: u64_of(bytes, header::EVENTS),
        lost: u64_of(bytes, header::LOST),
        lost_why: i32_of(bytes, header::LOST_WHY),
        lost_communicators: u64_of(bytes, header::LOST_COMMUNICATORS),
        reused: u64_of(bytes, header::REUSED),
        left_out: u64_of(bytes, header::LEFT_OUT),
        boot: until_zero(bytes, header::BOOT, header::BOOT_LENGTH),
        host: until_zero(bytes, header::HOST, header::HOST_LENGTH),
        command: until_zero(bytes, header::COMMAND, header::COMMAND_LENGTH),
        claimed: core::array::from_fn(|ring| u64_of(bytes, header::RINGS + ring * header::RING + header::RING_CLAIMED)),
    })
}

/// A communicator. Its fields are described at their [offsets](layout::communicator).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Communicator<'a> {
    /// Empty if it has none.
    pub name: &'a [u8],
    pub by: u32,
    pub hash: u64,
    pub group_hash: u64,
    pub parent: u16,
    pub rank: i32,
    pub size: i32,
    pub nodes: i32,
    pub color: i32,
    pub key: i32,
    pub address: u64,
    pub made: i64,
    pub ended: i64,
    pub before: u64,
}

/// The communicator with this number, from 1, in the first [`layout::RINGS_AT`] bytes of a file.
pub fn communicator(bytes: &[u8], number: u16) -> Option<Communicator<'_>> {
    let index = usize::from(number).checked_sub(1).filter(|index| *index < layout::COMMUNICATORS)?;
    let bytes = bytes.get(layout::COMMUNICATORS_AT + index * layout::COMMUNICATOR..)?.get(..layout::COMMUNICATOR)?;
    matches!(u32_of(bytes, offsets::STATE), 2 | 3).then(|| communicator_of(bytes))
}

pub(crate) fn communicator_of(bytes: &[u8]) -> Communicator<'_> {
    Communicator {
        name: until_zero(bytes, offsets::NAME, offsets::NAME_LENGTH),
        by: u32_of(bytes, offsets::BY),
        hash: u64_of(bytes, offsets::HASH),
        group_hash: u64_of(bytes, offsets::GROUP_HASH),
        parent: u32_of(bytes, offsets::PARENT) as u16,
        rank: i32_of(bytes, offsets::RANK),
        size: i32_of(bytes, offsets::SIZE),
        nodes: i32_of(bytes, offsets::NODES),
        color: i32_of(bytes, offsets::COLOR),
        key: i32_of(bytes, offsets::KEY),
        address: u64_of(bytes, offsets::ADDRESS),
        made: i64_of(bytes, offsets::MADE),
        ended: i64_of(bytes, offsets::ENDED),
        before: u64_of(bytes, offsets::BEFORE),
    }
}

impl Communicator<'_> {
    /// The times of its records. Records with its number at other times belong to a communicator that had the number before or has it now.
    pub fn times(&self) -> RangeInclusive<i64> {
        let first = if self.before == 0 { i64::MIN } else { self.made };
        first..=if self.ended == 0 { i64::MAX } else { self.ended }
    }
}

/// How many collectives were called on the communicator with this number, as far as they are counted.
pub fn collectives(bytes: &[u8], number: u16) -> u32 {
    let index = usize::from(number).checked_sub(1).filter(|index| *index < layout::COMMUNICATORS);
    let at = |index| layout::COMMUNICATORS_AT + index * layout::COMMUNICATOR;
    index.map_or(0, |index| u32_of(bytes, at(index) + offsets::COLLECTIVES))
}

/// The text with this number, from 1, in the first [`layout::RINGS_AT`] bytes of a file.
pub fn text(bytes: &[u8], number: u8) -> Option<&[u8]> {
    let index = usize::from(number).checked_sub(1)?;
    text_of(bytes.get(layout::TEXTS_AT + index * layout::TEXT..)?.get(..layout::TEXT)?)
}

/// Parses the bytes of a text: its length, which includes the length byte, then the bytes.
pub(crate) fn text_of(bytes: &[u8]) -> Option<&[u8]> {
    let length = usize::from(*bytes.first()?).checked_sub(1)?;
    bytes.get(1..=length)
}

/// The contents of a slot in a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// Nothing was ever written to it.
    Empty,
    /// A record that is being written, was never finished, or mixes the records of two threads.
    Incomplete,
    /// A record and its position, from 1.
    Record(u64, Record),
}

/// Parses slot `index` of a ring from its 64 bytes.
pub fn slot(bytes: &[u8; RECORD], index: u64, ring_records: u64) -> Slot {
    let words: [u64; 8] = core::array::from_fn(|word| u64_of(bytes, 8 * word));
    match words[0].checked_sub(1) {
        None if words == [0; 8] => Slot::Empty,
        Some(position) if position & (ring_records - 1) == index => {
            Record::from_words(words).map_or(Slot::Incomplete, |record| Slot::Record(words[0], record))
        }
        _ => Slot::Incomplete,
    }
}
