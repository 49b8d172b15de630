//! Files that a tar stores without their holes, as `tar -S` does: the stored bytes are the parts between the holes.
//!
//! GNU tar writes the map of the parts into the header and blocks after it (`S`), into `pax` records (versions 0.0 and 0.1), or before the
//! stored bytes (1.0).

use std::io::{self, ErrorKind, Read};

use tar::{GnuExtSparseHeader, Header};

/// A map with more parts is damage.
const MOST_PARTS: usize = 1 << 16;

/// A file that is larger, and by so many times larger than what is stored, is refused: zeros without end take no room in an archive.
const LARGEST: u64 = 64 << 30;
const LARGEST_RATIO: u64 = 100_000;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Map {
    /// Offset and length of each part.
    parts: Vec<(u64, u64)>,
    size: u64,
    /// Whether the parts are before the stored bytes, and not known yet.
    is_in_data: bool,
}

impl Map {
    /// The map in a header of GNU's, as far as it is there: `true` if blocks with more follow.
    pub(super) fn of_header(header: &Header) -> Option<(Self, bool)> {
        let gnu = header.as_gnu()?;
        let mut map = Map { size: gnu.real_size().ok()?, ..Map::default() };
        for part in gnu.sparse.iter().filter(|part| !part.is_empty()) {
            map.parts.push((part.offset().ok()?, part.length().ok()?));
        }
        Some((map, gnu.is_extended()))
    }

    /// Adds the parts of a block after the header: `true` if another follows, `None` if it is damaged.
    pub(super) fn extend(&mut self, block: &[u8]) -> Option<bool> {
        let mut header = GnuExtSparseHeader::new();
        *header.as_mut_bytes() = block.try_into().ok()?;
        for part in header.sparse.iter().filter(|part| !part.is_empty()) {
            self.parts.push((part.offset().ok()?, part.length().ok()?));
        }
        (self.parts.len() <= MOST_PARTS).then(|| header.is_extended())
    }

    /// Adds a `pax` record. `None` if it is damaged.
    pub(super) fn record(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let text = std::str::from_utf8(value).ok()?;
        match key {
            b"GNU.sparse.size" | b"GNU.sparse.realsize" => self.size = text.parse().ok()?,
            b"GNU.sparse.major" => self.is_in_data = text == "1",
            b"GNU.sparse.offset" => self.parts.push((text.parse().ok()?, 0)),
            b"GNU.sparse.numbytes" => self.parts.last_mut()?.1 = text.parse().ok()?,
            b"GNU.sparse.map" => {
                let numbers: Option<Vec<u64>> = text.split(',').map(|number| number.parse().ok()).collect();
                self.parts = numbers?.chunks(2).map(|pair| Some((pair[0], *pair.get(1)?))).collect::<Option<_>>()?;
            }
            _ => {}
        }
        (self.parts.len() <= MOST_PARTS).then_some(())
    }

    /// Whether the parts follow each other within the file and are what is stored.
    pub(super) fn fits(&self, stored: u64) -> bool {
        let is_bounded = self.size <= LARGEST || self.size / LARGEST_RATIO <= stored;
        is_bounded && (self.is_in_data || self.is_ordered() && self.stored() == Some(stored))
    }

    fn is_ordered(&self) -> bool {
        let mut at = 0;
        self.parts.iter().all(|(offset, length)| {
            let is_next = *offset >= at;
            at = offset.saturating_add(*length);
            is_next && at <= self.size
        })
    }

    fn stored(&self) -> Option<u64> {
        self.parts.iter().try_fold(0_u64, |sum, (_, length)| sum.checked_add(*length))
    }
}

/// A file with its holes, from the bytes that are stored.
pub(super) struct Sparse<R> {
    stored: R,
    map: Map,
    /// The part that is being read, and where in the file that is.
    part: usize,
    at: u64,
}

impl<R: Read> Sparse<R> {
    pub(super) fn new(stored: R, map: Map) -> Self {
        Sparse { stored, map, part: 0, at: 0 }
    }

    /// Reads the map before the stored bytes: the number of parts, then the offset and length of each, a number a line, padded to a block.
    fn read_map(&mut self) -> io::Result<()> {
        let mut taken = 0_usize;
        let mut number = |stored: &mut R| -> io::Result<u64> {
            let (mut value, mut byte) = (0_u64, [0]);
            loop {
                stored.read_exact(&mut byte)?;
                taken += 1;
                match byte[0] {
                    b'\n' => return Ok(value),
                    digit @ b'0'..=b'9' => value = value.saturating_mul(10).saturating_add(u64::from(digit - b'0')),
                    _ => return Err(damaged()),
                }
            }
        };
        let count =
            usize::try_from(number(&mut self.stored)?).ok().filter(|count| *count <= MOST_PARTS).ok_or_else(damaged)?;
        for _ in 0..count {
            let offset = number(&mut self.stored)?;
            self.map.parts.push((offset, number(&mut self.stored)?));
        }
        let rest = taken.wrapping_neg() % 512;
        io::copy(&mut self.stored.by_ref().take(rest as u64), &mut io::sink())?;
        self.map.is_in_data = false;
        if self.map.is_ordered() { Ok(()) } else { Err(damaged()) }
    }
}

fn damaged() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the archive's map of the holes in this file is damaged")
}

impl<R: Read> Read for Sparse<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.map.is_in_data {
            self.read_map()?;
        }
        while self.map.parts.get(self.part).is_some_and(|(offset, length)| self.at >= offset + length) {
            self.part += 1;
        }
        let part = self.map.parts.get(self.part);
        let (from, to) = part.map_or((self.map.size, self.map.size), |(offset, length)| (*offset, offset + length));
        let is_hole = self.at < from;
        let room = if is_hole { from - self.at } else { to - self.at };
        let room = usize::try_from(room).map_or(buf.len(), |room| room.min(buf.len()));
        let n = if is_hole { io::repeat(0).read(&mut buf[..room])? } else { self.stored.read(&mut buf[..room])? };
        self.at += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(map: Map, stored: &[u8]) -> io::Result<Vec<u8>> {
        let mut found = Vec::new();
        Sparse::new(stored, map).read_to_end(&mut found).map(|_| found)
    }

    #[test]
    fn holes_are_zeros() {
        let map = |parts: &[(u64, u64)], size| Map { parts: parts.to_vec(), size, is_in_data: false };
        assert_eq!(read(map(&[(1, 2), (5, 1)], 7), b"abc").unwrap(), b"\0ab\0\0c\0");
        assert_eq!(read(map(&[(0, 1), (3, 0)], 3), b"a").unwrap(), b"a\0\0");
        assert_eq!(read(map(&[], 2), b"").unwrap(), b"\0\0");
        assert!(map(&[(1, 2), (5, 1)], 7).fits(3) && !map(&[(1, 2), (5, 1)], 7).fits(4));
        assert!(!map(&[(1, 2), (2, 1)], 7).fits(3), "they overlap");
        assert!(!map(&[(1, 2)], 2).fits(2), "beyond the end");
        assert!(!map(&[(0, 1)], u64::MAX).fits(1), "zeros without end");
    }

    #[test]
    fn a_map_may_be_before_the_bytes() {
        let mut stored = b"2\n1\n2\n5\n1\n".to_vec();
        stored.resize(512, 0);
        stored.extend(b"abc");
        let map = Map { parts: Vec::new(), size: 7, is_in_data: true };
        assert_eq!(read(map.clone(), &stored).unwrap(), b"\0ab\0\0c\0");
        assert!(read(map.clone(), b"2\n1\n").is_err() && read(map, b"x\n").is_err());
    }

    #[test]
    fn records_say_the_map_in_two_ways() {
        let mut one = Map::default();
        for (key, value) in [("size", "7"), ("offset", "1"), ("numbytes", "2"), ("offset", "5"), ("numbytes", "1")] {
            one.record(format!("GNU.sparse.{key}").as_bytes(), value.as_bytes()).unwrap();
        }
        let mut other = Map::default();
        other.record(b"GNU.sparse.size", b"7").unwrap();
        other.record(b"GNU.sparse.map", b"1,2,5,1").unwrap();
        assert_eq!((one.clone(), one.fits(3)), (other, true));
        assert!(Map::default().record(b"GNU.sparse.map", b"1,2,5").is_none());
    }
}
