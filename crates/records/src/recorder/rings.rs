//! The records of all rings, in memory, each found by its handle.

use std::io;
use std::ops::Range;

use nccl_stacks_recorder_format::layout::{RECORD, RINGS, RINGS_AT, RingSizes};
use nccl_stacks_recorder_format::{Handle, Kind, Record, Slot, slot};

use super::bytes::Bytes;
use super::facts::Facts;
use crate::file::RecordFile;
use nccl_stacks_trace::time::Window;

/// The most records of a file that are kept: a damaged file may have been compressed to almost nothing.
const MOST: usize = 1 << 24;

const SLOTS: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    At(usize),
    /// A record that its ring has overwritten.
    Overwritten,
    Unknown,
}

/// All records that a file has, ring after ring, in each by position.
pub(super) struct Rings {
    all: Vec<(u64, Record)>,
    /// Where each ring begins, and where the last ends.
    begins: [usize; RINGS + 1],
    sizes: RingSizes,
    /// Whether the file has lost its end, and records with it.
    pub(super) lacks_end: bool,
}

impl Rings {
    /// Reads what follows the tables, as far as it is in use. What a file that is cut off has is read.
    pub(super) fn read(bytes: &mut Bytes<'_>, facts: &Facts<'_>, file: &mut RecordFile) -> io::Result<Self> {
        let sizes = facts.header.rings;
        let mut rings = Rings { all: Vec::new(), begins: [0; RINGS + 1], sizes, lacks_end: false };
        let mut left_out = 0;
        for ring in 0..RINGS {
            let begin = rings.all.len();
            rings.begins[ring] = begin;
            let used = facts.header.used(ring);
            let mut at = 0;
            while at < used {
                let wanted = usize::try_from(used - at).unwrap_or(SLOTS).min(SLOTS) * RECORD;
                let offset = sizes.at(ring) + at * RECORD as u64;
                let slots = bytes.part(offset, wanted)?;
                left_out += rings.take(&slots, at, offset, sizes.of(ring), file);
                at += SLOTS as u64;
                if slots.len() < wanted {
                    break;
                }
            }
            // In memory the newest may come before the oldest.
            rings.all[begin..].sort_by_key(|(position, _)| *position);
        }
        rings.begins[RINGS] = rings.all.len();
        file.skip_several("records beyond the first 16,777,216", left_out, None);
        let length = bytes.length()?;
        if length < sizes.at(RINGS) {
            let missing = missing(length, facts);
            rings.lacks_end = missing > 0;
            file.lose("records in a part of the file that is missing", missing, Some(length), None);
            let (here, all) = (length.saturating_sub(RINGS_AT as u64), sizes.at(RINGS) - RINGS_AT as u64);
            file.note(format!("It is cut off: {here} of the {all} bytes of its rings are here."));
        }
        Ok(rings)
    }

    /// Takes the records of some slots; how many there is no room for.
    fn take(&mut self, chunk: &[u8], first: u64, offset: u64, ring_records: u64, file: &mut RecordFile) -> u64 {
        let mut left_out = 0;
        let (slots, _) = chunk.as_chunks::<RECORD>();
        for (index, bytes) in (0..).zip(slots) {
            match slot(bytes, first + index, ring_records) {
                Slot::Empty => {}
                Slot::Record(..) if self.all.len() >= MOST => left_out += 1,
                Slot::Record(position, record) => self.all.push((position, record)),
                Slot::Incomplete => {
                    file.skip("records that are not complete", Some(offset + index * RECORD as u64));
                }
            }
        }
        left_out
    }

    /// From when to when all of some rings have records, of those that have overwritten any; `None` if none has.
    pub(super) fn left(&self, of: Range<usize>, facts: &Facts<'_>) -> Option<Window> {
        let spans = of.filter(|ring| facts.header.claimed[*ring] > self.sizes.of(*ring)).filter_map(|ring| {
            let times = self.all[self.begins[ring]..self.begins[ring + 1]].iter().map(|(_, record)| record.time);
            let (first, last) = (times.clone().min()?, times.max()?);
            facts.time(first).zip(facts.time(last))
        });
        let all = spans.reduce(|(start, end), (first, last)| (start.max(first), end.max(last)))?;
        Some(Window { start: all.0.min(all.1), end: all.1 })
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn record(&self, at: usize) -> &Record {
        &self.all[at].1
    }

    pub(super) fn named(&self, number: u64) -> Named {
        let Some(handle) = Handle::from_number(number) else { return Named::Unknown };
        let (ring, position) = (handle.ring(), handle.position());
        let begin = self.begins[ring];
        let of_ring = &self.all[begin..self.begins[ring + 1]];
        let (Some((first, _)), Some((last, _))) = (of_ring.first(), of_ring.last()) else { return Named::Unknown };
        // Mostly no position is missing.
        let guess = position.checked_sub(*first).and_then(|guess| usize::try_from(guess).ok());
        if let Some(guess) = guess.filter(|guess| of_ring.get(*guess).is_some_and(|(at, _)| *at == position)) {
            return Named::At(begin + guess);
        }
        match of_ring.binary_search_by_key(&position, |(position, _)| *position) {
            Ok(at) => Named::At(begin + at),
            Err(_) if position.saturating_add(self.sizes.of(ring)) <= *last => Named::Overwritten,
            Err(_) => Named::Unknown,
        }
    }

    pub(super) fn place(&self, number: u64) -> Option<usize> {
        if let Named::At(at) = self.named(number) { Some(at) } else { None }
    }

    /// The places of all records in the order of their times. At one time, beginnings come before what belongs to them.
    pub(super) fn by_time(&self) -> impl Iterator<Item = usize> + use<> {
        let key = |(at, (_, record)): (usize, &(u64, Record))| (record.time, level(record.kind), at as u32);
        let mut order: Vec<(i64, u8, u32)> = self.all.iter().enumerate().map(key).collect();
        // Rings are sorted, or nearly so, by themselves.
        order.sort();
        order.into_iter().map(|(_, _, at)| at as usize)
    }
}

/// How deep a kind of record is below others.
fn level(kind: Kind) -> u8 {
    match kind {
        Kind::Call => 0,
        Kind::GroupApi | Kind::Group => 1,
        Kind::CollApi | Kind::P2pApi | Kind::KernelLaunch => 2,
        Kind::Coll | Kind::P2p | Kind::CeColl => 3,
        Kind::ProxyOp | Kind::KernelChannel => 4,
        Kind::State => 6,
        Kind::Stop => 7,
        _ => 5,
    }
}

/// How many records were after the end of a file of this length.
fn missing(length: u64, facts: &Facts<'_>) -> u64 {
    let of_ring = |ring| {
        let here = length.saturating_sub(facts.header.rings.at(ring)) / RECORD as u64;
        facts.header.used(ring).saturating_sub(here)
    };
    (0..RINGS).map(of_ring).fold(0, u64::saturating_add)
}
