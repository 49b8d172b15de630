//! Columns of numbers in few bytes, as text of a JSON document.
//!
//! Each column is first the lowest bytes of all its numbers, then the next bytes, because the high ones are nearly all zero; and each column is
//! compressed by itself, because columns have little in common. Whoever writes a column writes only what cannot be expected from what is before.
//!
//! The bytes: a varint (LEB128) with the number of items; for each column a varint with the length of what follows, a byte with how many bytes a
//! number has, and these bytes through zstd. All of it is base64. Signed numbers are written as zigzag. Differences wrap, so that any times are
//! read as they were written.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zstd::bulk::Decompressor;

use crate::time::Ns;

/// How hard zstd tries: beyond this, times do not get smaller.
const LEVEL: i32 = 9;

/// How many items there are at most.
const MOST: u64 = 1 << 22;

/// Why packed columns cannot be read.
pub(crate) type Wrong = &'static str;

pub(crate) const CUT_OFF: Wrong = "its packed columns end too early";

/// Columns that are written one after another.
pub(crate) struct Writer {
    bytes: Vec<u8>,
    /// Why one could not be compressed.
    failed: Option<std::io::Error>,
}

impl Writer {
    pub(crate) fn new(items: usize) -> Self {
        let failed = (items as u64 > MOST).then(|| std::io::Error::other("a rank has more than 4 million collectives"));
        let mut writer = Writer { bytes: Vec::new(), failed };
        writer.unsigned(items as u64);
        writer
    }

    pub(crate) fn unsigned(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    pub(crate) fn column<T>(&mut self, items: &[T], value: impl FnMut(&T) -> u64) {
        let values: Vec<u64> = items.iter().map(value).collect();
        let all = values.iter().fold(0, |all, value| all | value);
        let width = (u64::BITS - all.leading_zeros()).div_ceil(8);
        let planes: Vec<u8> =
            (0..width).flat_map(|byte| values.iter().map(move |value| (value >> (8 * byte)) as u8)).collect();
        match zstd::bulk::compress(&planes, LEVEL) {
            Ok(packed) => {
                self.unsigned(packed.len() as u64 + 1);
                self.bytes.push(width as u8);
                self.bytes.extend(packed);
            }
            Err(error) => self.failed = Some(error),
        }
    }

    pub(crate) fn text(self) -> Result<String, std::io::Error> {
        self.failed.map_or_else(|| Ok(STANDARD.encode(self.bytes)), Err)
    }
}

/// Columns that are read.
pub(crate) struct Reader {
    bytes: Vec<u8>,
    at: usize,
    zstd: Decompressor<'static>,
}

impl Reader {
    pub(crate) fn from_text(text: &str) -> Result<Self, Wrong> {
        let bytes = STANDARD.decode(text).map_err(|_| "its packed columns are no base64")?;
        let zstd = Decompressor::new().map_err(|_| "there is no zstd")?;
        Ok(Reader { bytes, at: 0, zstd })
    }

    pub(crate) fn unsigned(&mut self) -> Result<u64, Wrong> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = *self.bytes.get(self.at).ok_or(CUT_OFF)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number in its packed columns is too long")
    }

    /// How many items follow.
    pub(crate) fn count(&mut self) -> Result<usize, Wrong> {
        match self.unsigned()? {
            count @ 0..=MOST => Ok(count as usize),
            _ => Err("its packed columns have more than 4 million items"),
        }
    }

    /// The numbers of the next column.
    pub(crate) fn values(&mut self, items: usize) -> Result<Vec<u64>, Wrong> {
        let length = usize::try_from(self.unsigned()?).map_err(|_| CUT_OFF)?;
        let end = self.at.checked_add(length).ok_or(CUT_OFF)?;
        let (width, packed) = self.bytes.get(self.at..end).and_then(<[u8]>::split_first).ok_or(CUT_OFF)?;
        let bytes = items * usize::from((*width).min(8));
        let planes = self.zstd.decompress(packed, bytes).map_err(|_| "a packed column is no zstd, or too long")?;
        if planes.len() != bytes || *width > 8 {
            return Err("a packed column has not as many numbers as the others");
        }
        self.at = end;
        let mut values = vec![0; items];
        for (byte, plane) in planes.chunks_exact(items.max(1)).enumerate() {
            values.iter_mut().zip(plane).for_each(|(value, part)| *value |= u64::from(*part) << (8 * byte));
        }
        Ok(values)
    }

    pub(crate) fn column<T>(
        &mut self,
        items: &mut [T],
        mut put: impl FnMut(&mut T, u64) -> Result<(), Wrong>,
    ) -> Result<(), Wrong> {
        let values = self.values(items.len())?;
        items.iter_mut().zip(values).try_for_each(|(item, value)| put(item, value))
    }

    pub(crate) fn end(self) -> Result<(), Wrong> {
        if self.at == self.bytes.len() { Ok(()) } else { Err("more follows its packed columns") }
    }
}

/// Small for numbers near 0.
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The difference of two times, which may be anything.
pub(crate) fn difference(a: Ns, b: Ns) -> u64 {
    zigzag(a.0.wrapping_sub(b.0))
}

pub(crate) fn sum(a: Ns, difference: u64) -> Ns {
    Ns(a.0.wrapping_add(unzigzag(difference)))
}

pub(crate) fn number(value: u64) -> Result<u32, Wrong> {
    u32::try_from(value).map_err(|_| "a number in its packed columns is too large")
}

/// 0 for none, else the number and 1.
pub(crate) fn optional(value: Option<u32>) -> u64 {
    value.map_or(0, |value| u64::from(value) + 1)
}

pub(crate) fn unoptional(value: u64) -> Result<Option<u32>, Wrong> {
    value.checked_sub(1).map(number).transpose()
}

/// Numbers that mostly grow by one, each group for itself: the difference to the one expected; 0 for none.
#[derive(Default)]
pub(crate) struct Expected {
    next: HashMap<Option<u32>, i64>,
}

impl Expected {
    pub(crate) fn write(&mut self, group: Option<u32>, value: Option<u32>) -> u64 {
        let Some(value) = value.map(i64::from) else { return 0 };
        let expected = self.next.insert(group, value + 1).unwrap_or_default();
        zigzag(value - expected) + 1
    }

    pub(crate) fn read(&mut self, group: Option<u32>, written: u64) -> Result<Option<u32>, Wrong> {
        let Some(difference) = written.checked_sub(1) else { return Ok(None) };
        let expected = self.next.get(&group).copied().unwrap_or_default();
        let value = expected.wrapping_add(unzigzag(difference));
        self.next.insert(group, value.wrapping_add(1));
        number(value as u64).map(Some)
    }
}
