//! The long columns of a part in few bytes: rows and segments as text of a JSON document.
//!
//! A row has 14 numbers, most of which follow from others: a collective starts when what ran before it has ended, is exposed for as long as it
//! runs, and has the number after that of the one before. Only the differences to what would be expected are written. Each column is first the
//! lowest bytes of all its numbers, then the next bytes, because the high ones are nearly all zero; and each column is compressed by itself,
//! because they have little in common. A row of a real trace takes 7 to 9 bytes, nearly all of them digits of times below a microsecond.
//!
//! The bytes: a varint (LEB128) with the number of items; for each column a varint with the length of what follows, a byte with how many bytes a
//! number has, and these bytes through zstd. All of it is base64. Signed numbers are written as zigzag. Differences wrap, so that any times are
//! read as they were written.

use std::collections::HashMap;
use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::segment::Segment;
use crate::operations::rows::Row;
use crate::time::Ns;

/// How hard zstd tries: beyond this, times do not get smaller.
const LEVEL: i32 = 9;

/// How many items there are at most.
const MOST: u64 = 1 << 22;

/// Why packed columns cannot be read.
type Wrong = &'static str;

const CUT_OFF: Wrong = "its packed columns end too early";

/// Columns that are written one after another.
struct Writer {
    bytes: Vec<u8>,
    /// Why one could not be compressed.
    failed: Option<std::io::Error>,
}

impl Writer {
    fn new(items: usize) -> Self {
        let failed = (items as u64 > MOST).then(|| std::io::Error::other("a rank has more than 4 million collectives"));
        let mut writer = Writer { bytes: Vec::new(), failed };
        writer.unsigned(items as u64);
        writer
    }

    fn unsigned(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn column<T>(&mut self, items: &[T], value: impl FnMut(&T) -> u64) {
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

    fn text(self) -> Result<String, std::io::Error> {
        self.failed.map_or_else(|| Ok(STANDARD.encode(self.bytes)), Err)
    }
}

/// Columns that are read.
struct Reader {
    bytes: Vec<u8>,
    at: usize,
}

impl Reader {
    fn from_text(text: &str) -> Result<Self, Wrong> {
        let bytes = STANDARD.decode(text).map_err(|_| "its packed columns are no base64")?;
        Ok(Reader { bytes, at: 0 })
    }

    fn unsigned(&mut self) -> Result<u64, Wrong> {
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
    fn count(&mut self) -> Result<usize, Wrong> {
        match self.unsigned()? {
            count @ 0..=MOST => Ok(count as usize),
            _ => Err("its packed columns have more than 4 million items"),
        }
    }

    /// The numbers of the next column.
    fn values(&mut self, items: usize) -> Result<Vec<u64>, Wrong> {
        let length = usize::try_from(self.unsigned()?).map_err(|_| CUT_OFF)?;
        let end = self.at.checked_add(length).ok_or(CUT_OFF)?;
        let (width, packed) = self.bytes.get(self.at..end).and_then(<[u8]>::split_first).ok_or(CUT_OFF)?;
        let bytes = items * usize::from((*width).min(8));
        let mut planes = Vec::new();
        let wrong = |_| "a packed column is no zstd";
        let decoder = zstd::stream::Decoder::new(packed).map_err(wrong)?;
        decoder.take(bytes as u64 + 1).read_to_end(&mut planes).map_err(wrong)?;
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

    fn column<T>(
        &mut self,
        items: &mut [T],
        mut put: impl FnMut(&mut T, u64) -> Result<(), Wrong>,
    ) -> Result<(), Wrong> {
        let values = self.values(items.len())?;
        items.iter_mut().zip(values).try_for_each(|(item, value)| put(item, value))
    }

    fn end(self) -> Result<(), Wrong> {
        if self.at == self.bytes.len() { Ok(()) } else { Err("more follows its packed columns") }
    }
}

/// Small for numbers near 0.
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The difference of two times, which may be anything.
fn difference(a: Ns, b: Ns) -> u64 {
    zigzag(a.0.wrapping_sub(b.0))
}

fn sum(a: Ns, difference: u64) -> Ns {
    Ns(a.0.wrapping_add(unzigzag(difference)))
}

fn number(value: u64) -> Result<u32, Wrong> {
    u32::try_from(value).map_err(|_| "a number in its packed columns is too large")
}

/// 0 for none, else the number and 1.
fn optional(value: Option<u32>) -> u64 {
    value.map_or(0, |value| u64::from(value) + 1)
}

fn unoptional(value: u64) -> Result<Option<u32>, Wrong> {
    value.checked_sub(1).map(number).transpose()
}

/// Numbers that mostly grow by one, each group for itself: the difference to the one expected; 0 for none.
#[derive(Default)]
struct Expected {
    next: HashMap<Option<u32>, i64>,
}

impl Expected {
    fn write(&mut self, group: Option<u32>, value: Option<u32>) -> u64 {
        let Some(value) = value.map(i64::from) else { return 0 };
        let expected = self.next.insert(group, value + 1).unwrap_or_default();
        zigzag(value - expected) + 1
    }

    fn read(&mut self, group: Option<u32>, written: u64) -> Result<Option<u32>, Wrong> {
        let Some(difference) = written.checked_sub(1) else { return Ok(None) };
        let expected = self.next.get(&group).copied().unwrap_or_default();
        let value = expected.wrapping_add(unzigzag(difference));
        self.next.insert(group, value.wrapping_add(1));
        number(value as u64).map(Some)
    }
}

/// When everything before a row has ended, and with it the time since in which something ran or nothing did.
#[derive(Default)]
struct Ends {
    last: Ns,
}

impl Ends {
    /// When the row would start.
    fn expected(&self, row: &Row) -> Ns {
        Ns(self.last.0.wrapping_add(row.busy_before.0).wrapping_add(row.idle_before.0))
    }

    fn after(&mut self, row: &Row) {
        self.last = self.last.max(row.end());
    }
}

fn write_rows(rows: &[Row]) -> Result<String, std::io::Error> {
    let mut writer = Writer::new(rows.len());
    writer.column(rows, |row| difference(row.dur, Ns::ZERO));
    writer.column(rows, |row| difference(row.exposed, row.dur));
    writer.column(rows, |row| difference(row.busy_before, Ns::ZERO));
    writer.column(rows, |row| difference(row.idle_before, Ns::ZERO));
    let mut ends = Ends::default();
    writer.column(rows, |row| {
        let written = difference(row.start, ends.expected(row));
        ends.after(row);
        written
    });
    writer.column(rows, |row| u64::from(row.kind));
    writer.column(rows, |row| optional(row.group));
    let mut seqs = Expected::default();
    writer.column(rows, |row| seqs.write(row.group, row.seq));
    writer.column(rows, |row| optional(row.stack));
    writer.column(rows, |row| u64::from(row.stream));
    writer.column(rows, |row| optional(row.step));
    let mut segments = Expected::default();
    writer.column(rows, |row| segments.write(None, row.segment));
    writer.column(rows, |row| optional(row.gpu_class));
    writer.column(rows, |row| u64::from(row.is_replay));
    writer.text()
}

fn read_rows(text: &str) -> Result<Vec<Row>, Wrong> {
    let mut reader = Reader::from_text(text)?;
    let mut rows = vec![Row::default(); reader.count()?];
    let rows_ref = &mut rows[..];
    let mut time = |put: fn(&mut Row, u64)| {
        reader.column(rows_ref, |row, value| {
            put(row, value);
            Ok(())
        })
    };
    time(|row, value| row.dur = sum(Ns::ZERO, value))?;
    time(|row, value| row.exposed = sum(row.dur, value))?;
    time(|row, value| row.busy_before = sum(Ns::ZERO, value))?;
    time(|row, value| row.idle_before = sum(Ns::ZERO, value))?;
    let mut ends = Ends::default();
    reader.column(&mut rows, |row, value| {
        row.start = sum(ends.expected(row), value);
        ends.after(row);
        Ok(())
    })?;
    reader.column(&mut rows, |row, value| number(value).map(|kind| row.kind = kind))?;
    reader.column(&mut rows, |row, value| unoptional(value).map(|group| row.group = group))?;
    let mut seqs = Expected::default();
    reader.column(&mut rows, |row, value| seqs.read(row.group, value).map(|seq| row.seq = seq))?;
    reader.column(&mut rows, |row, value| unoptional(value).map(|stack| row.stack = stack))?;
    reader.column(&mut rows, |row, value| number(value).map(|stream| row.stream = stream))?;
    reader.column(&mut rows, |row, value| unoptional(value).map(|step| row.step = step))?;
    let mut segments = Expected::default();
    reader.column(&mut rows, |row, value| segments.read(None, value).map(|segment| row.segment = segment))?;
    reader.column(&mut rows, |row, value| unoptional(value).map(|class| row.gpu_class = class))?;
    reader.column(&mut rows, |row, value| {
        row.is_replay = value != 0;
        Ok(())
    })?;
    reader.end()?;
    Ok(rows)
}

/// A segment mostly starts where the one before it on its thread ended.
fn write_segments(segments: &[Segment]) -> Result<String, std::io::Error> {
    let mut writer = Writer::new(segments.len());
    writer.column(segments, |segment| u64::from(segment.thread));
    writer.column(segments, |segment| u64::from(segment.class));
    let mut ends: HashMap<u32, Ns> = HashMap::new();
    writer.column(segments, |segment| {
        let last = ends.insert(segment.thread, segment.end).unwrap_or_default();
        difference(segment.start, last)
    });
    writer.column(segments, |segment| difference(segment.call, segment.start));
    writer.column(segments, |segment| difference(segment.end, segment.call));
    writer.column(segments, |segment| difference(segment.blocked, Ns::ZERO));
    writer.text()
}

fn read_segments(text: &str) -> Result<Vec<Segment>, Wrong> {
    let mut reader = Reader::from_text(text)?;
    let mut segments = vec![Segment::default(); reader.count()?];
    reader.column(&mut segments, |segment, value| number(value).map(|thread| segment.thread = thread))?;
    reader.column(&mut segments, |segment, value| number(value).map(|class| segment.class = class))?;
    // Where a segment starts follows from where the one before ended, which is read last.
    let starts = reader.values(segments.len())?;
    let calls = reader.values(segments.len())?;
    let mut ends: HashMap<u32, Ns> = HashMap::new();
    let mut before = starts.into_iter().zip(calls);
    reader.column(&mut segments, |segment, value| {
        let (start, call) = before.next().ok_or(CUT_OFF)?;
        let last = ends.get(&segment.thread).copied().unwrap_or_default();
        segment.start = sum(last, start);
        segment.call = sum(segment.start, call);
        segment.end = sum(segment.call, value);
        ends.insert(segment.thread, segment.end);
        Ok(())
    })?;
    reader.column(&mut segments, |segment, value| {
        segment.blocked = sum(Ns::ZERO, value);
        Ok(())
    })?;
    reader.end()?;
    Ok(segments)
}

macro_rules! as_text {
    ($(#[$doc:meta])* $name:ident, $item:ty, $write:ident, $read:ident) => {
        $(#[$doc])*
        pub(super) mod $name {
            use serde::de::Error;
            use serde::{Deserialize, Deserializer, Serializer};

            pub(in super::super) fn serialize<S: Serializer>(items: &[$item], to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&super::$write(items).map_err(serde::ser::Error::custom)?)
            }

            pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<$item>, D::Error> {
                super::$read(&String::deserialize(from)?).map_err(D::Error::custom)
            }
        }
    };
}

as_text!(
    /// Rows as text.
    rows, super::Row, write_rows, read_rows
);
as_text!(
    /// Segments as text.
    segments, super::Segment, write_segments, read_segments
);

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |at: i64| Row {
            start: Ns(1_700_000_000_000_000_000 + at * 1000),
            dur: Ns(900 - at % 7),
            exposed: Ns(if at % 3 == 0 { 0 } else { 900 - at % 7 }),
            busy_before: Ns(80),
            idle_before: Ns(20 + at % 5),
            kind: (at % 4) as u32,
            group: (at % 2 == 0).then_some((at % 3) as u32),
            seq: (at % 5 != 0).then_some(at as u32 / 2),
            stack: Some((at % 9) as u32),
            segment: (at % 11 != 0).then_some(at as u32),
            is_replay: at % 13 == 0,
            ..Row::default()
        };
        (0..1000).map(row).collect()
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let mut rows = rows();
        let text = write_rows(&rows).unwrap();
        assert_eq!(read_rows(&text).unwrap(), rows);
        assert!(text.len() < 9 * rows.len(), "{} bytes", text.len());
        // Hostile times: nothing overflows.
        for (row, time) in rows.iter_mut().zip([i64::MIN, i64::MAX, 0, -1]) {
            (row.start, row.dur, row.busy_before, row.exposed) = (Ns(time), Ns(!time), Ns(time), Ns(time));
            (row.seq, row.segment) = (Some(u32::MAX), Some(0));
        }
        assert_eq!(read_rows(&write_rows(&rows).unwrap()).unwrap(), rows);
        assert_eq!(read_rows(&write_rows(&[]).unwrap()).unwrap(), []);
    }

    #[test]
    fn segments_are_read_as_they_were_written() {
        let segment = |at: i64| Segment {
            thread: (at % 2) as u32,
            class: (at % 5) as u32,
            start: Ns(at * 100),
            call: Ns(at * 100 + 60 - at % 3),
            end: Ns(if at == 7 { i64::MAX } else { at * 100 + 100 }),
            blocked: Ns(at % 2),
        };
        let segments: Vec<Segment> = (0..50).map(segment).collect();
        assert_eq!(read_segments(&write_segments(&segments).unwrap()).unwrap(), segments);
    }

    /// Every byte changed, and every length that is too short.
    #[test]
    fn damage_is_an_error_or_other_rows() {
        let rows = &rows()[..20];
        let bytes = Reader::from_text(&write_rows(rows).unwrap()).unwrap().bytes;
        for end in 0..bytes.len() {
            assert!(read_rows(&STANDARD.encode(&bytes[..end])).is_err(), "{end}");
            let mut other = bytes.clone();
            other[end] ^= 0x81;
            // Some bits of zstd's header mean nothing.
            drop(read_rows(&STANDARD.encode(&other)));
        }
        // More rows than there are bytes for, and a column of nine bytes each.
        for wrong in [&[0xff, 0xff, 0xff, 0x7f, 1, 1][..], &[0x80, 0x80, 0x80, 0x01, 1, 0][..], &[1, 1, 9][..]] {
            assert!(read_rows(&STANDARD.encode(wrong)).is_err(), "{wrong:?}");
        }
        for wrong in ["", "!", "AAAA"] {
            assert!(read_rows(wrong).is_err(), "{wrong}");
        }
    }
}
