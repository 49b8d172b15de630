//! A source of bytes to which bytes can be given back.
//!
//! What was taken for a packet and is none has to be looked at once more, for the packet that may begin within.

use std::io::{self, BufRead, BufReader, Read};

/// Bytes are read in pieces of this size.
const BLOCK: usize = 256 * 1024;

/// Reads the bytes that were given back first.
pub(super) struct Ahead<R> {
    /// Bytes that were given back and how many of them have been read again; the next ones last, and none that are
    /// read.
    given_back: Vec<(Vec<u8>, usize)>,
    source: BufReader<R>,
}

impl<R: Read> Ahead<R> {
    pub(super) fn new(source: R) -> Self {
        Ahead { given_back: Vec::new(), source: BufReader::with_capacity(BLOCK, source) }
    }

    /// Gives bytes back, from one of them on.
    pub(super) fn give_back(&mut self, bytes: Vec<u8>, from: usize) {
        if from < bytes.len() {
            self.given_back.push((bytes, from));
        }
    }

    /// The next byte; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.fill_buf() {
                Ok(bytes) => {
                    let byte = bytes.first().copied();
                    self.consume(usize::from(byte.is_some()));
                    return Ok(byte);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl<R: Read> Read for Ahead<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let Some((bytes, at)) = self.given_back.last() else { return self.source.read(buf) };
        let read = (&bytes[*at..]).read(buf)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: Read> BufRead for Ahead<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self.given_back.last() {
            Some((bytes, at)) => Ok(&bytes[*at..]),
            None => self.source.fill_buf(),
        }
    }

    fn consume(&mut self, n: usize) {
        let Some((bytes, at)) = self.given_back.last_mut() else { return self.source.consume(n) };
        *at += n;
        if *at >= bytes.len() {
            self.given_back.pop();
        }
    }
}
