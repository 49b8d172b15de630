//! Columns of integers in few bytes: LEB128 varints, gzip, base64. The page's `decode.js` reads them.
//!
//! A window's drawing has tens of thousands of rows, and pages are sent by mail. JSON would be five times as large, and slower for the browser
//! to parse.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

/// Compresses with gzip and encodes in base64. The gzip header has neither time nor name, so that equal input gives equal output.
pub(crate) fn pack(bytes: &[u8]) -> io::Result<String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(STANDARD.encode(encoder.finish()?))
}

/// A table in packed form.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Packed {
    rows: usize,
    /// Their names, each with its mark, with a blank between them: pages have up to a thousand columns.
    columns: String,
    data: String,
}

/// What follows the name of a column: of signed values, and of differences from the value before.
const SIGNED: &str = "-";
const NEAR: &str = "~";

/// A table that is built column by column, each with all rows.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    rows: usize,
    columns: Vec<String>,
    bytes: Vec<u8>,
}

impl Packed {
    /// The bytes of its data on a page.
    pub(crate) fn len(&self) -> usize {
        self.data.len()
    }
}

impl Columns {
    pub(crate) fn plain(&mut self, name: &'static str, values: impl Iterator<Item = u64>) {
        self.add(name, "", values);
    }

    pub(crate) fn signed(&mut self, name: &'static str, values: impl Iterator<Item = i64>) {
        self.add(name, SIGNED, values.map(zigzag));
    }

    /// Adds a column whose neighbouring values differ little: differences are stored.
    pub(crate) fn near(&mut self, name: &'static str, values: impl Iterator<Item = i64>) {
        let mut before = 0;
        let differences = values.map(|value| zigzag(value - std::mem::replace(&mut before, value)));
        self.add(name, NEAR, differences);
    }

    fn add(&mut self, name: &'static str, mark: &str, values: impl Iterator<Item = u64>) {
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
        self.columns.push(format!("{name}{mark}"));
    }

    pub(crate) fn pack(self) -> io::Result<Packed> {
        Ok(Packed { rows: self.rows, columns: self.columns.join(" "), data: pack(&self.bytes)? })
    }
}

/// Maps signed numbers near 0 to small unsigned ones: 0, -1, 1, -2 become 0, 1, 2, 3.
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 300 is 0b10_0101100: seven bits with the continuation bit, then the rest. The differences of 5, 3, 3 are 5, -2, 0, as zigzag 10, 3, 0.
    #[test]
    fn columns_are_varints() {
        let mut columns = Columns::default();
        columns.plain("a", [0, 127, 300].into_iter());
        columns.signed("b", [0, -1, 64].into_iter());
        columns.near("c", [5, 3, 3].into_iter());
        assert_eq!(columns.bytes, [0, 127, 0xac, 2, 0, 1, 128, 1, 10, 3, 0]);
        let packed = columns.pack().unwrap();
        assert_eq!((packed.rows, &*packed.columns), (3, "a b- c~"));
    }
}
