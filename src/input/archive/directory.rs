//! What a zip holds: by the directory at its end, or by its members' own headers.
//!
//! The directory is read here, and not by the crate `zip`, which refuses a whole archive for one bad record, knows the later of two
//! equal names only, and tries every end record that an archive of nothing else has. What it lists is held against the members: there
//! has to be one where it says, of which no other is a part, and none that it does not list. Where there is no directory, as in a
//! download that was cut off, the members' own headers are gone through instead, as far as they go. These may not say how long a
//! member is; then the end of its compressed data tells.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;

use flate2::bufread::DeflateDecoder;
use memchr::memmem;

use super::names;
use super::zip::{DEFLATED, ENCRYPTED, Entry};
use crate::input::limit::{Budget, LimitReached, Limited};
use crate::input::packed::{BLOCK, PackedFailure};
use crate::input::region::Region;

/// What the header of a member begins with, and how long it is without what varies.
const LOCAL: [u8; 4] = *b"PK\x03\x04";
const LOCAL_LENGTH: usize = 30;

/// The same of the directory's record of it.
const RECORD: [u8; 4] = *b"PK\x01\x02";
const RECORD_LENGTH: usize = 46;

/// The same of the record at the archive's end, behind which there may be a comment.
const END: [u8; 4] = *b"PK\x05\x06";
const END_LENGTH: usize = 22;
const MOST_COMMENT: u64 = 0xffff;

/// The same of the one for large archives, and of the one that tells where that is and stands behind it.
const LONG_END: [u8; 4] = *b"PK\x06\x06";
const LONG_END_LENGTH: usize = 56;
const LOCATOR: [u8; 4] = *b"PK\x06\x07";
const LOCATOR_LENGTH: u64 = 20;

/// Flag: how long it is stands behind it.
const LENGTH_BEHIND: u16 = 8;

/// This number stands in a further field.
const ELSEWHERE: u32 = u32::MAX;

/// What an archive holds.
#[derive(Debug, Default)]
pub(super) struct Directory {
    pub(super) entries: Vec<Entry>,
    /// Files that it lists where there are none, or where there is another.
    pub(super) unreadable: Vec<String>,
    /// Where the archive breaks off, if it has no directory; or where it goes on behind it.
    pub(super) broken: Option<u64>,
    /// Where there is a file that it does not list.
    pub(super) unlisted: Option<u64>,
}

impl Directory {
    /// Reads it. What has to be decompressed for that is paid for by this budget's layers.
    pub(super) fn read(archive: &Region, budget: &Budget) -> io::Result<Self> {
        if let Some(end) = End::find(archive)?
            && let Some(records) = records(archive, &end)?
        {
            return Directory::of(archive, records, &end);
        }
        let (entries, end) = in_sequence(archive, &budget.of_layers())?;
        Ok(Directory { entries, broken: Some(end), ..Directory::default() })
    }

    /// Holds the records against the members.
    fn of(archive: &Region, records: Vec<Record>, end: &End) -> io::Result<Self> {
        let mut directory = Directory { broken: end.behind, ..Directory::default() };
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
            // No member takes bytes of the next one, so that no archive is read more often than it is long.
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

/// Where a member's header stands at the beginning of what no member takes. Behind a member there may be its checksum and its lengths.
fn unlisted(archive: &Region, gap: Range<u64>) -> io::Result<Option<u64>> {
    for behind in [0, 12, 16, 20, 24] {
        let at = gap.start.saturating_add(behind);
        if at.saturating_add(LOCAL_LENGTH as u64) <= gap.end && begins(archive, at, LOCAL)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// What the record at the archive's end tells.
struct End {
    /// Where the directory begins.
    start: u64,
    /// Where it ends.
    end: u64,
    /// How many bytes stand before the archive, from whose beginning the records count.
    shift: u64,
    /// Where something stands behind the archive.
    behind: Option<u64>,
}

impl End {
    /// The last one that leads to a directory.
    fn find(archive: &Region) -> io::Result<Option<Self>> {
        let length = archive.length()?;
        let from = length.saturating_sub(END_LENGTH as u64 + MOST_COMMENT);
        let Some(tail) = exactly(archive, from, (length - from) as usize)? else { return Ok(None) };
        for at in memmem::rfind_iter(&tail, &END) {
            if let Some(end) = End::read(archive, &tail[at..], from + at as u64)? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// That of a record, of which these are the bytes up to the archive's end, if it leads to a directory.
    fn read(archive: &Region, bytes: &[u8], at: u64) -> io::Result<Option<Self>> {
        if bytes.len() < END_LENGTH || short(bytes, 4) != short(bytes, 6) {
            return Ok(None);
        }
        let length = END_LENGTH + usize::from(short(bytes, 20));
        let Some(rest) = bytes.get(length..) else { return Ok(None) };
        // Zeros fill up the last block of a tape.
        let behind = rest.iter().any(|byte| *byte != 0).then_some(at + length as u64);
        let mut numbers = (at, u64::from(short(bytes, 10)), u64::from(long(bytes, 12)), u64::from(long(bytes, 16)));
        if let Some((place, record)) = long_end(archive, at)? {
            numbers = (place, wide(&record, 32), wide(&record, 40), wide(&record, 48));
        }
        let (end, count, size, offset) = numbers;
        // It stands before its end; or where it says, with something between.
        for start in [end.checked_sub(size), Some(offset)].into_iter().flatten() {
            let is_empty = count == 0 && start == end;
            if start >= offset && (is_empty || start < end && begins(archive, start, RECORD)?) {
                return Ok(Some(End { start, end, shift: start - offset, behind }));
            }
        }
        Ok(None)
    }
}

/// The end record of a large archive, whose other one is at `at`, and its place: that which is told, or that before the record which tells.
fn long_end(archive: &Region, at: u64) -> io::Result<Option<(u64, Vec<u8>)>> {
    let Some(locator) = at.checked_sub(LOCATOR_LENGTH) else { return Ok(None) };
    let Some(told) = exactly(archive, locator, LOCATOR_LENGTH as usize)? else { return Ok(None) };
    if told[..4] != LOCATOR {
        return Ok(None);
    }
    for place in [Some(wide(&told, 8)), locator.checked_sub(LONG_END_LENGTH as u64)].into_iter().flatten() {
        if let Some(record) = exactly(archive, place, LONG_END_LENGTH)?
            && record[..4] == LONG_END
        {
            return Ok(Some((place, record)));
        }
    }
    Ok(None)
}

/// What the directory says of a member.
struct Record {
    /// Where its header is.
    at: u64,
    /// All but where its bytes begin.
    entry: Entry,
}

/// All records; `None` if something else is between them.
fn records(archive: &Region, end: &End) -> io::Result<Option<Vec<Record>>> {
    let mut source = BufReader::new(archive.part(end.start, end.end - end.start));
    let mut records = Vec::new();
    while !source.fill_buf()?.is_empty() {
        let Some(fixed) = bytes_of(&mut source, RECORD_LENGTH)? else { return Ok(None) };
        let [name, extra, comment] = [28, 30, 32].map(|at| usize::from(short(&fixed, at)));
        if fixed[..4] != RECORD {
            return Ok(None);
        }
        let Some(texts) = bytes_of(&mut source, name + extra + comment)? else { return Ok(None) };
        let mut wide_numbers = field(&texts[name..name + extra]).unwrap_or_default();
        // They stand there in this order, each if it is needed.
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

/// A member's own header.
struct Header {
    entry: Entry,
    /// Whether it says how long the member is.
    has_length: bool,
}

impl Header {
    /// The header at a place, if there is a whole one.
    fn read(archive: &Region, at: u64) -> io::Result<Option<Self>> {
        let Some(fixed) = exactly(archive, at, LOCAL_LENGTH)? else { return Ok(None) };
        if fixed[..4] != LOCAL {
            return Ok(None);
        }
        let (name, extra) = (usize::from(short(&fixed, 26)), usize::from(short(&fixed, 28)));
        let behind = at + LOCAL_LENGTH as u64;
        let Some(texts) = exactly(archive, behind, name + extra)? else { return Ok(None) };
        let (mut stored, mut length) = (u64::from(long(&fixed, 18)), u64::from(long(&fixed, 22)));
        if let Some(numbers) = field(&texts[name..])
            && [stored, length].contains(&ELSEWHERE.into())
            && numbers.len() >= 16
        {
            (length, stored) = (wide(numbers, 0), wide(numbers, 8));
        }
        let flags = short(&fixed, 6);
        let has_length = flags & LENGTH_BEHIND == 0;
        let entry = Entry {
            name: names::kept(&texts[..name]),
            start: behind + texts.len() as u64,
            stored,
            method: short(&fixed, 8),
            flags,
            sums: has_length.then_some((long(&fixed, 14), length)),
        };
        Ok(Some(Header { entry, has_length }))
    }
}

/// The field that has the numbers which are too large for a header.
fn field(mut extra: &[u8]) -> Option<&[u8]> {
    const NUMBERS: u16 = 1;
    loop {
        let (head, rest) = extra.split_at_checked(4)?;
        let (field, rest) = rest.split_at_checked(usize::from(short(head, 2)))?;
        if short(head, 0) == NUMBERS {
            return Some(field);
        }
        extra = rest;
    }
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from(short(bytes, at)) | u32::from(short(bytes, at + 2)) << 16
}

fn wide(bytes: &[u8], at: usize) -> u64 {
    u64::from(long(bytes, at)) | u64::from(long(bytes, at + 4)) << 32
}

/// So many bytes from a place on, if there are as many.
fn exactly(archive: &Region, at: u64, length: usize) -> io::Result<Option<Vec<u8>>> {
    let mut source = archive.clone();
    source.seek(SeekFrom::Start(at))?;
    bytes_of(&mut source, length)
}

fn bytes_of(source: &mut impl Read, length: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::with_capacity(length);
    match source.by_ref().take(length as u64).read_to_end(&mut bytes) {
        Err(error) if PackedFailure::of(&error).is_none() => Err(error),
        _ => Ok((bytes.len() == length).then_some(bytes)),
    }
}

fn begins(archive: &Region, at: u64, mark: [u8; 4]) -> io::Result<bool> {
    Ok(exactly(archive, at, 4)?.is_some_and(|bytes| bytes == mark))
}

/// The files that the members' own headers name, one behind the other, and where these end.
fn in_sequence(archive: &Region, budget: &Budget) -> io::Result<(Vec<Entry>, u64)> {
    let end = archive.length()?;
    let (mut entries, mut at) = (Vec::new(), 0);
    while let Some(Header { mut entry, has_length }) = Header::read(archive, at)? {
        at = entry.start.saturating_add(entry.stored);
        if !has_length {
            let rest = end.saturating_sub(entry.start);
            entry.stored = stored_length(archive, &entry, rest, budget)?.unwrap_or(rest);
            at = behind_lengths(archive, entry.start.saturating_add(entry.stored), end)?;
        }
        entries.push(entry);
    }
    Ok((entries, at.min(end)))
}

/// How many bytes the compressed data of a member are, found by decompressing them; `None` if they have no end.
fn stored_length(archive: &Region, entry: &Entry, rest: u64, budget: &Budget) -> io::Result<Option<u64>> {
    if entry.method != DEFLATED || entry.flags & ENCRYPTED != 0 {
        return Ok(None);
    }
    let rest = archive.part(entry.start, rest);
    let mut contents = DeflateDecoder::new(BufReader::with_capacity(BLOCK, rest));
    match io::copy(&mut Limited::new(&mut contents, budget.clone()), &mut io::sink()) {
        Ok(_) => Ok(Some(contents.total_in())),
        Err(error) if error.raw_os_error().is_some() || LimitReached::of(&error).is_some() => Err(error),
        Err(_) => Ok(None),
    }
}

/// Where the next header is, behind the checksum and the lengths that follow such data: with or without a mark, of four bytes each or
/// of eight.
fn behind_lengths(archive: &Region, at: u64, end: u64) -> io::Result<u64> {
    for length in [16, 12, 24, 20] {
        let next = at.saturating_add(length);
        if next == end || exactly(archive, next, 2)?.is_some_and(|mark| mark == b"PK") {
            return Ok(next);
        }
    }
    Ok(at)
}
