//! The header before each member of a zip, and how the numbers of a zip are written.

use std::io::{self, Read, Seek, SeekFrom};

use super::entry::Entry;
use crate::input::containers::names;
use crate::input::containers::packed::PackedFailure;
use crate::input::containers::region::Region;

/// The mark of a member's header, and the header's length without its name and extra fields.
pub(super) const LOCAL: [u8; 4] = *b"PK\x03\x04";
pub(super) const LOCAL_LENGTH: usize = 30;

/// Flag: the lengths follow the data (a data descriptor). macOS's Finder, GitHub's artifacts and all programs that write to a
/// pipe use it.
const LENGTH_AFTER: u16 = 8;

/// The number is in the ZIP64 extra field.
pub(super) const ELSEWHERE: u32 = u32::MAX;

/// A member's own header.
pub(super) struct Header {
    pub(super) entry: Entry,
    /// Whether it has the member's length.
    pub(super) has_length: bool,
}

impl Header {
    /// The header at an offset, if there is a whole one.
    pub(super) fn read(archive: &Region, at: u64) -> io::Result<Option<Self>> {
        let Some(fixed) = exactly(archive, at, LOCAL_LENGTH)? else { return Ok(None) };
        if fixed[..4] != LOCAL {
            return Ok(None);
        }
        let (name, extra) = (usize::from(short(&fixed, 26)), usize::from(short(&fixed, 28)));
        let after = at + LOCAL_LENGTH as u64;
        let Some(texts) = exactly(archive, after, name + extra)? else { return Ok(None) };
        let (mut stored, mut length) = (u64::from(long(&fixed, 18)), u64::from(long(&fixed, 22)));
        if let Some(numbers) = zip64_field(&texts[name..])
            && [stored, length].contains(&ELSEWHERE.into())
            && numbers.len() >= 16
        {
            (length, stored) = (wide(numbers, 0), wide(numbers, 8));
        }
        let flags = short(&fixed, 6);
        let has_length = flags & LENGTH_AFTER == 0;
        let entry = Entry {
            name: names::kept(&texts[..name]),
            start: after + texts.len() as u64,
            stored,
            method: short(&fixed, 8),
            flags,
            sums: has_length.then_some((long(&fixed, 14), length)),
        };
        Ok(Some(Header { entry, has_length }))
    }
}

/// The extra field with the numbers that do not fit 32 bits.
pub(super) fn zip64_field(mut extra: &[u8]) -> Option<&[u8]> {
    const ZIP64: u16 = 1;
    loop {
        let (head, rest) = extra.split_at_checked(4)?;
        let (field, rest) = rest.split_at_checked(usize::from(short(head, 2)))?;
        if short(head, 0) == ZIP64 {
            return Some(field);
        }
        extra = rest;
    }
}

pub(super) fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(super) fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from(short(bytes, at)) | u32::from(short(bytes, at + 2)) << 16
}

pub(super) fn wide(bytes: &[u8], at: usize) -> u64 {
    u64::from(long(bytes, at)) | u64::from(long(bytes, at + 4)) << 32
}

/// `length` bytes from an offset on, if there are as many.
pub(super) fn exactly(archive: &Region, at: u64, length: usize) -> io::Result<Option<Vec<u8>>> {
    let mut source = archive.clone();
    source.seek(SeekFrom::Start(at))?;
    next_bytes(&mut source, length)
}

pub(super) fn next_bytes(source: &mut impl Read, length: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::with_capacity(length);
    match source.by_ref().take(length as u64).read_to_end(&mut bytes) {
        Err(error) if PackedFailure::find_in(&error).is_none() => Err(error),
        _ => Ok((bytes.len() == length).then_some(bytes)),
    }
}

pub(super) fn begins(archive: &Region, at: u64, mark: [u8; 4]) -> io::Result<bool> {
    Ok(exactly(archive, at, 4)?.is_some_and(|bytes| bytes == mark))
}
