//! The records of all rings, in memory, each found by its handle.

use std::io::{self, BufRead};

use nccl_stacks_recorder_format::layout::{RECORD, RINGS, RINGS_AT, ring_at};
use nccl_stacks_recorder_format::{Handle, Kind, Record, Slot, slot};

use super::facts::Facts;
use super::fill;
use crate::records::file::RecordFile;

/// The most records of a file that are kept: a damaged file may have been compressed to almost nothing.
const MOST: usize = 1 << 24;

/// How many slots are read at a time.
const SLOTS: usize = 1024;

static ZEROS: [u8; SLOTS * RECORD] = [0; SLOTS * RECORD];

/// What a handle names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    /// Nothing.
    None,
    /// A record: its place.
    At(usize),
    /// A record that its ring has overwritten.
    Overwritten,
    /// None that is here.
    Unknown,
}

/// All records that a file has, ring after ring, in each by position.
pub(super) struct Rings {
    all: Vec<(u64, Record)>,
    /// Where each ring begins, and where the last ends.
    begins: [usize; RINGS + 1],
    ring_records: u64,
    /// Whether the file has lost its end, and records with it.
    pub(super) lacks_end: bool,
}

impl Rings {
    /// Reads what follows the tables. What a file that is cut off has is read.
    pub(super) fn read(bytes: &mut dyn BufRead, facts: &Facts, file: &mut RecordFile) -> io::Result<Self> {
        let ring_records = facts.ring_records;
        let mut rings = Rings { all: Vec::new(), begins: [0; RINGS + 1], ring_records, lacks_end: false };
        let mut left_out = 0;
        for ring in 0..RINGS {
            let begin = rings.all.len();
            rings.begins[ring] = begin;
            let mut at = 0;
            let mut chunk = Vec::with_capacity(SLOTS * RECORD);
            while at < ring_records {
                chunk.clear();
                let wanted = usize::try_from(ring_records - at).unwrap_or(SLOTS).min(SLOTS) * RECORD;
                fill(bytes, &mut chunk, wanted)?;
                let offset = ring_at(ring, ring_records) + at * RECORD as u64;
                left_out += rings.take(&chunk, at, offset, ring_records, file);
                if chunk.len() < wanted {
                    let here = at + (chunk.len() / RECORD) as u64;
                    let missing = missing(ring, here, facts);
                    rings.lacks_end = missing > 0;
                    cut_off(offset + chunk.len() as u64, missing, ring_records, file);
                    at = u64::MAX;
                    break;
                }
                at += (chunk.len() / RECORD) as u64;
            }
            // In memory the newest may come before the oldest.
            rings.all[begin..].sort_by_key(|(position, _)| *position);
            if at == u64::MAX {
                rings.begins[ring + 1..].fill(rings.all.len());
                break;
            }
        }
        rings.begins[RINGS] = rings.all.len();
        if left_out > 0 {
            file.skip_several("records beyond the first 16,777,216", left_out, None);
        }
        Ok(rings)
    }

    /// Takes the records of some slots; how many there is no room for.
    fn take(&mut self, chunk: &[u8], first: u64, offset: u64, ring_records: u64, file: &mut RecordFile) -> u64 {
        let mut left_out = 0;
        // Most rings of most files are empty.
        if chunk == &ZEROS[..chunk.len()] {
            return left_out;
        }
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

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// A record by its place.
    pub(super) fn record(&self, at: usize) -> &Record {
        &self.all[at].1
    }

    /// What the number of a handle names.
    pub(super) fn named(&self, number: u64) -> Named {
        let Some(handle) = Handle::from_number(number) else { return Named::None };
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
            Err(_) if position.saturating_add(self.ring_records) <= *last => Named::Overwritten,
            Err(_) => Named::Unknown,
        }
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

/// How many records were after the end of a file that has so many slots of this ring, and none of the later ones.
fn missing(ring: usize, slots: u64, facts: &Facts) -> u64 {
    let used = facts.claimed.iter().map(|claimed| facts.ring_records.min(*claimed));
    let here = |at: usize| if at == ring { slots } else { 0 };
    let missing = used.enumerate().skip(ring).map(|(at, used)| used.saturating_sub(here(at)));
    missing.fold(0, u64::saturating_add)
}

fn cut_off(here: u64, missing: u64, ring_records: u64, file: &mut RecordFile) {
    let whole = ring_at(RINGS, ring_records);
    if missing > 0 {
        file.lose("records in a part of the file that is missing", missing, Some(here));
    }
    file.note(format!(
        "It is cut off: {} of the {} bytes of its rings are here.",
        here - RINGS_AT as u64,
        whole - RINGS_AT as u64
    ));
}
