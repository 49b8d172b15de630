//! What a zip has: by the directory at its end, or by its members' own headers.
//!
//! The crate `zip` would refuse a whole archive for one bad record, know only the later of two equal names, and try every end
//! record of an archive that consists of them. Here each record is compared with the members: the member has to be at the
//! record's offset, overlap no other member, and no member may be unlisted. The directory is needed: the headers of GitHub's
//! artifacts and of macOS's Finder have no lengths, and the end of a stored member is nowhere else. Without a directory, as in a
//! download that was cut off, the headers are followed as far as they go; where one has no length, the member is decompressed to
//! find its end.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;

use flate2::bufread::DeflateDecoder;
use memchr::memmem;

use super::entry::{DEFLATED, ENCRYPTED, Entry};
use super::header::{ELSEWHERE, Header, LOCAL, LOCAL_LENGTH};
use super::header::{begins, exactly, long, next_bytes, short, wide, zip64_field};
use crate::input::containers::limit::{Budget, LimitReached, Limited};
use crate::input::containers::names;
use crate::input::containers::packed::BLOCK;
use crate::input::containers::region::Region;

/// The mark of a directory record, and the record's length without its texts.
const RECORD: [u8; 4] = *b"PK\x01\x02";
const RECORD_LENGTH: usize = 46;

/// The same of the end record, which a comment may follow.
const END: [u8; 4] = *b"PK\x05\x06";
const END_LENGTH: usize = 22;
const MAX_COMMENT: u64 = 0xffff;

/// The same of the ZIP64 end record, and of the locator after it, which has its offset.
const ZIP64_END: [u8; 4] = *b"PK\x06\x06";
const ZIP64_END_LENGTH: usize = 56;
const LOCATOR: [u8; 4] = *b"PK\x06\x07";
const LOCATOR_LENGTH: u64 = 20;

/// What an archive has.
#[derive(Debug, Default)]
pub(super) struct Directory {
    pub(super) entries: Vec<Entry>,
    /// Files that it lists at an offset without a header, or at that of another file.
    pub(super) unreadable: Vec<String>,
    /// The offset where an archive without a directory breaks off, or of bytes after the archive.
    pub(super) broken: Option<u64>,
    /// The offset of a file that it does not list.
    pub(super) unlisted: Option<u64>,
}

impl Directory {
    /// Reads it. The budget's layers pay for what has to be decompressed.
    pub(super) fn read(archive: &Region, budget: &Budget) -> io::Result<Self> {
        if let Some(end) = End::find(archive)?
            && let Some(records) = records(archive, &end)?
        {
            return Directory::from_records(archive, records, &end);
        }
        let (entries, end) = in_sequence(archive, &budget.of_layers())?;
        Ok(Directory { entries, broken: Some(end), ..Directory::default() })
    }

    /// Compares the records with the members.
    fn from_records(archive: &Region, records: Vec<Record>, end: &End) -> io::Result<Self> {
        let mut directory = Directory { broken: end.after, ..Directory::default() };
        let (mut members, mut places) = (Vec::new(), HashSet::new());
        for Record { at, entry } in records {
            match Header::read(archive, at)? {
                Some(header) if places.insert(at) => members.push((at, Entry { start: header.entry.start, ..entry })),
                _ => directory.unreadable.push(entry.name),
            }
        }
        let mut places: Vec<u64> = places.into_iter().chain([end.start]).collect();
        places.sort_unstable();
        directory.unlisted = unlisted(archive, 0..places[0])?;
        for (at, mut entry) in members {
            // No member overlaps the next one, so no byte of an archive is read as two files.
            let next = places.get(places.partition_point(|place| *place <= at)).copied().unwrap_or(u64::MAX);
            entry.stored = entry.stored.min(next.saturating_sub(entry.start));
            if directory.unlisted.is_none() {
                directory.unlisted = unlisted(archive, entry.start + entry.stored..next)?;
            }
            directory.entries.push(entry);
        }
        Ok(directory)
    }
}

/// The offset of a header at the start of a gap between members. A member's checksum and lengths may be before it.
fn unlisted(archive: &Region, gap: Range<u64>) -> io::Result<Option<u64>> {
    for descriptor in [0, 12, 16, 20, 24] {
        let at = gap.start.saturating_add(descriptor);
        if at.saturating_add(LOCAL_LENGTH as u64) <= gap.end && begins(archive, at, LOCAL)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// The contents of the end record.
struct End {
    /// The offset of the directory.
    start: u64,
    /// The offset of its end.
    end: u64,
    /// The number of bytes before the archive; the records' offsets count from its start.
    shift: u64,
    /// The offset of bytes after the archive.
    after: Option<u64>,
}

impl End {
    /// The last end record that leads to a directory.
    fn find(archive: &Region) -> io::Result<Option<Self>> {
        let length = archive.length()?;
        let from = length.saturating_sub(END_LENGTH as u64 + MAX_COMMENT);
        let Some(tail) = exactly(archive, from, (length - from) as usize)? else { return Ok(None) };
        for at in memmem::rfind_iter(&tail, &END) {
            if let Some(end) = End::read(archive, &tail[at..], from + at as u64)? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// Parses an end record; `bytes` reach from it to the archive's end. `None` if it leads to no directory.
    fn read(archive: &Region, bytes: &[u8], at: u64) -> io::Result<Option<Self>> {
        if bytes.len() < END_LENGTH || short(bytes, 4) != short(bytes, 6) {
            return Ok(None);
        }
        let length = END_LENGTH + usize::from(short(bytes, 20));
        let Some(rest) = bytes.get(length..) else { return Ok(None) };
        // Zeros pad the last block of a tape.
        let after = rest.iter().any(|byte| *byte != 0).then_some(at + length as u64);
        let mut numbers = (at, u64::from(short(bytes, 10)), u64::from(long(bytes, 12)), u64::from(long(bytes, 16)));
        if let Some((place, record)) = zip64_end(archive, at)? {
            numbers = (place, wide(&record, 32), wide(&record, 40), wide(&record, 48));
        }
        let (end, count, size, offset) = numbers;
        // It is right before its end record, or at its offset with other bytes between.
        for start in [end.checked_sub(size), Some(offset)].into_iter().flatten() {
            let is_empty = count == 0 && start == end;
            if start >= offset && (is_empty || start < end && begins(archive, start, RECORD)?) {
                return Ok(Some(End { start, end, shift: start - offset, after }));
            }
        }
        Ok(None)
    }
}

/// The ZIP64 end record and its offset, if there is one before the end record at `at`: at the locator's offset, or right before the
/// locator.
fn zip64_end(archive: &Region, at: u64) -> io::Result<Option<(u64, Vec<u8>)>> {
    let Some(locator) = at.checked_sub(LOCATOR_LENGTH) else { return Ok(None) };
    let Some(found) = exactly(archive, locator, LOCATOR_LENGTH as usize)? else { return Ok(None) };
    if found[..4] != LOCATOR {
        return Ok(None);
    }
    for place in [Some(wide(&found, 8)), locator.checked_sub(ZIP64_END_LENGTH as u64)].into_iter().flatten() {
        if let Some(record) = exactly(archive, place, ZIP64_END_LENGTH)?
            && record[..4] == ZIP64_END
        {
            return Ok(Some((place, record)));
        }
    }
    Ok(None)
}

/// The directory's record of a member.
struct Record {
    /// The offset of its header.
    at: u64,
    /// Everything but `start`.
    entry: Entry,
}

/// All records; `None` if other bytes are between them.
fn records(archive: &Region, end: &End) -> io::Result<Option<Vec<Record>>> {
    let mut source = BufReader::new(archive.part(end.start, end.end - end.start));
    let mut records = Vec::new();
    while !source.fill_buf()?.is_empty() {
        let Some(fixed) = next_bytes(&mut source, RECORD_LENGTH)? else { return Ok(None) };
        let [name, extra, comment] = [28, 30, 32].map(|at| usize::from(short(&fixed, at)));
        if fixed[..4] != RECORD {
            return Ok(None);
        }
        let Some(texts) = next_bytes(&mut source, name + extra + comment)? else { return Ok(None) };
        let mut wide_numbers = zip64_field(&texts[name..name + extra]).unwrap_or_default();
        // The field has them in this order, each only if it is needed.
        let [length, stored, at] = [24, 20, 42].map(|at| match long(&fixed, at) {
            ELSEWHERE if wide_numbers.len() >= 8 => {
                let number = wide(wide_numbers, 0);
                wide_numbers = &wide_numbers[8..];
                number
            }
            number => number.into(),
        });
        let entry = Entry {
            name: names::kept(&texts[..name]),
            start: 0,
            stored,
            method: short(&fixed, 10),
            flags: short(&fixed, 8),
            sums: Some((long(&fixed, 16), length)),
        };
        records.push(Record { at: at.saturating_add(end.shift), entry });
    }
    Ok(Some(records))
}

/// The files that the headers name, one after the other, and the offset where that ends.
fn in_sequence(archive: &Region, budget: &Budget) -> io::Result<(Vec<Entry>, u64)> {
    let end = archive.length()?;
    let (mut entries, mut at) = (Vec::new(), 0);
    while let Some(Header { mut entry, has_length }) = Header::read(archive, at)? {
        at = entry.start.saturating_add(entry.stored);
        if !has_length {
            let rest = end.saturating_sub(entry.start);
            entry.stored = stored_length(archive, &entry, rest, budget)?.unwrap_or(rest);
            at = after_lengths(archive, entry.start.saturating_add(entry.stored), end)?;
        }
        entries.push(entry);
    }
    Ok((entries, at.min(end)))
}

/// The number of compressed bytes of a member, found by decompressing them; `None` if they have no end.
fn stored_length(archive: &Region, entry: &Entry, rest: u64, budget: &Budget) -> io::Result<Option<u64>> {
    if entry.method != DEFLATED || entry.flags & ENCRYPTED != 0 {
        return Ok(None);
    }
    let rest = archive.part(entry.start, rest);
    let mut contents = DeflateDecoder::new(BufReader::with_capacity(BLOCK, rest));
    match io::copy(&mut Limited::new(&mut contents, budget.clone()), &mut io::sink()) {
        Ok(_) => Ok(Some(contents.total_in())),
        Err(error) if error.raw_os_error().is_some() || LimitReached::find_in(&error).is_some() => Err(error),
        Err(_) => Ok(None),
    }
}

/// The offset of the next header, after the checksum and the lengths that follow such data: with or without a mark, of four or
/// eight bytes each.
fn after_lengths(archive: &Region, at: u64, end: u64) -> io::Result<u64> {
    for length in [16, 12, 24, 20] {
        let next = at.saturating_add(length);
        if next == end || exactly(archive, next, 2)?.is_some_and(|mark| mark == b"PK") {
            return Ok(next);
        }
    }
    Ok(at)
}
