//! The rows of a part in few bytes: text of a JSON document.
//!
//! A row has 13 numbers, most of which follow from others: a collective starts when what ran before it has ended, is exposed for as long as it
//! runs, and has the number after that of the one before. Only the differences to what would be expected are written. The bytes are
//! those of `packing`. A row of a real trace takes 7 to 9 bytes, nearly all of them digits of times below a microsecond.

use crate::operations::rows::Row;
use crate::packing::{Expected, Reader, Writer, Wrong, difference, number, optional, sum, unoptional};
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
    reader.column(&mut rows, |row, value| {
        row.is_replay = value != 0;
        Ok(())
    })?;
    reader.end()?;
    Ok(rows)
}

/// Rows as text.
pub(super) mod rows {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Row;

    pub(in super::super) fn serialize<S: Serializer>(rows: &[Row], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::write_rows(rows).map_err(serde::ser::Error::custom)?)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Row>, D::Error> {
        super::read_rows(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

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
            row.seq = Some(u32::MAX);
        }
        assert_eq!(read_rows(&write_rows(&rows).unwrap()).unwrap(), rows);
        assert_eq!(read_rows(&write_rows(&[]).unwrap()).unwrap(), []);
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
