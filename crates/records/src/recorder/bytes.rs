//! The bytes of a recording, of which only those that are in use are read.
//!
//! A recording is as long as all of its rings, and a ring as its size: nearly all of that are holes, which take no space on the disk but would take
//! time to read. The header says how much of each ring is in use. In a compressed file and in an archive the rest passes by unread.

use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom};

use flate2::Crc;

pub(super) enum From<'a> {
    Stream(&'a mut dyn BufRead),
    Disk(&'a File),
}

pub(super) struct Bytes<'a> {
    from: From<'a>,
    /// How many bytes a stream has given.
    at: u64,
    /// How many bytes are in use, and their checksum. They are the same in each copy of a recording, whatever it is packed into.
    pub(super) used: u64,
    pub(super) checksum: Crc,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(from: From<'a>) -> Self {
        Bytes { from, at: 0, used: 0, checksum: Crc::new() }
    }

    /// Reads a part; less at the end of the file. Parts are asked for in the order of the file.
    pub(super) fn part(&mut self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut part = Vec::with_capacity(length);
        match &mut self.from {
            From::Stream(stream) => {
                self.at += io::copy(&mut stream.take(offset.saturating_sub(self.at)), &mut io::sink())?;
                self.at += stream.take(length as u64).read_to_end(&mut part)? as u64;
            }
            From::Disk(file) => {
                file.seek(SeekFrom::Start(offset))?;
                file.take(length as u64).read_to_end(&mut part)?;
            }
        }
        self.used += part.len() as u64;
        self.checksum.update(&part);
        Ok(part)
    }

    /// The length of the whole file. Nothing can be read after that.
    pub(super) fn length(&mut self) -> io::Result<u64> {
        match &mut self.from {
            From::Stream(stream) => {
                self.at += io::copy(stream, &mut io::sink())?;
                Ok(self.at)
            }
            From::Disk(file) => file.metadata().map(|about| about.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_same_in_order_and_on_the_disk() {
        let text: Vec<u8> = (0..=255).collect();
        let mut disk = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut disk, &text).unwrap();
        let mut stream: &[u8] = &text;
        let read = |mut bytes: Bytes<'_>| {
            let parts = [bytes.part(0, 3).unwrap(), bytes.part(100, 2).unwrap(), bytes.part(254, 9).unwrap()];
            (parts, bytes.used, bytes.checksum.sum(), bytes.length().unwrap())
        };
        let found = read(Bytes::new(From::Stream(&mut stream)));
        assert_eq!((&found.0, found.1, found.3), (&[vec![0, 1, 2], vec![100, 101], vec![254, 255]], 7, 256));
        assert_eq!(read(Bytes::new(From::Disk(&disk))), found);
    }
}
