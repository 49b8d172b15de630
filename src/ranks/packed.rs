//! The long columns of a part in few bytes: rows and segments as text of a JSON document.
//!
//! A row has 14 numbers, most of which follow from others: a collective starts when what ran before it has ended, is exposed for as long as it
//! runs, and has the number after that of the one before. Only the differences to what would be expected are written. The bytes are
//! those of `packing`. A row of a real trace takes 7 to 9 bytes, nearly all of them digits of times below a microsecond.

use std::collections::HashMap;

use super::segment::Segment;
use crate::operations::rows::Row;
use crate::packing::{CUT_OFF, Expected, Reader, Writer, Wrong, difference, number, optional, sum, unoptional};
use crate::time::Ns;

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
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

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
        let bytes = STANDARD.decode(write_rows(rows).unwrap()).unwrap();
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
