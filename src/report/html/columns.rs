//! Columns of integers in few bytes: LEB128 varints through gzip, in base64. The page's `decode.js` reads them.
//!
//! A picture of a window has tens of thousands of rows, and a page is sent by mail. As JSON they would take five times as much, and the browser
//! longer to read them.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

/// Bytes through gzip, in base64. The header has neither a time nor a name, so that equal bytes stay equal.
pub(crate) fn pack(bytes: &[u8]) -> io::Result<String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    Ok(STANDARD.encode(encoder.finish()?))
}

/// A table, packed.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Packed {
    rows: usize,
    columns: Vec<Column>,
    data: String,
}

#[derive(Debug, Clone, Serialize)]
struct Column {
    name: &'static str,
    signed: bool,
    delta: bool,
}

/// A table whose columns are added one after the other, each with all its rows.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    rows: usize,
    columns: Vec<Column>,
    bytes: Vec<u8>,
}

impl Columns {
    /// A column of numbers from 0 on.
    pub(crate) fn plain(&mut self, name: &'static str, values: impl Iterator<Item = u64>) {
        self.add(name, false, false, values);
    }

    /// A column of any numbers.
    pub(crate) fn signed(&mut self, name: &'static str, values: impl Iterator<Item = i64>) {
        self.add(name, true, false, values.map(zigzag));
    }

    /// A column whose neighbours differ little.
    pub(crate) fn near(&mut self, name: &'static str, values: impl Iterator<Item = i64>) {
        let mut before = 0;
        let differences = values.map(|value| zigzag(value - std::mem::replace(&mut before, value)));
        self.add(name, true, true, differences);
    }

    fn add(&mut self, name: &'static str, signed: bool, delta: bool, values: impl Iterator<Item = u64>) {
        let mut rows = 0;
        for mut value in values {
            while value > 127 {
                self.bytes.push(value as u8 | 128);
                value >>= 7;
            }
            self.bytes.push(value as u8);
            rows += 1;
        }
        debug_assert!(self.columns.is_empty() || rows == self.rows, "{name}: {rows} rows beside {}", self.rows);
        self.rows = rows;
        self.columns.push(Column { name, signed, delta });
    }

    /// The table.
    ///
    /// # Errors
    /// What gzip fails with.
    pub(crate) fn pack(self) -> io::Result<Packed> {
        Ok(Packed { rows: self.rows, columns: self.columns, data: pack(&self.bytes)? })
    }
}

/// Numbers near 0 as small numbers without a sign: 0, -1, 1, -2 become 0, 1, 2, 3.
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 300 is 0b10_0101100: seven bits with the mark of more, then the rest. The differences of 5, 3, 3 are 5, -2, 0, as zigzag 10, 3, 0.
    #[test]
    fn columns_are_varints() {
        let mut columns = Columns::default();
        columns.plain("a", [0, 127, 300].into_iter());
        columns.signed("b", [0, -1, 64].into_iter());
        columns.near("c", [5, 3, 3].into_iter());
        assert_eq!(columns.bytes, [0, 127, 0xac, 2, 0, 1, 128, 1, 10, 3, 0]);
        let packed = columns.pack().unwrap();
        assert_eq!(packed.rows, 3);
        let head = serde_json::to_value(&packed.columns).unwrap();
        assert_eq!(head[2], serde_json::json!({ "name": "c", "signed": true, "delta": true }));
    }
}
