//! Lines of logs. A line within one block of the reader is not copied.
//!
//! Logs reach gigabytes, and a damaged one may be a single line. So a line is cut at a limit, and what follows in it is skipped.

use std::io::{self, BufRead};

use memchr::{memchr_iter, memrchr};

/// The longest line of a log, in bytes.
const LONGEST: usize = 64 * 1024;

/// Calls `each` with every line, without its line break, and the offset at which it begins. Returns how many lines were too long; `each`
/// gets their beginnings.
pub(super) fn for_each(bytes: &mut dyn BufRead, mut each: impl FnMut(&[u8], u64)) -> io::Result<u64> {
    let mut carry = Carry::default();
    let mut offset = 0_u64;
    loop {
        let block = match bytes.fill_buf() {
            Ok(block) => block,
            // The text before the error counts as a line.
            Err(error) => {
                carry.finish(&mut each);
                return Err(error);
            }
        };
        if block.is_empty() {
            carry.finish(&mut each);
            return Ok(carry.too_long);
        }
        let length = block.len();
        match memrchr(b'\n', block) {
            None => carry.add(block, offset),
            Some(last) => {
                let mut start = 0;
                for end in memchr_iter(b'\n', &block[..=last]) {
                    if start == 0 && !carry.line.is_empty() {
                        carry.add(&block[..end], offset);
                        carry.finish(&mut each);
                    } else {
                        let line = &block[start..end];
                        carry.too_long += u64::from(line.len() > LONGEST);
                        each(without_return(&line[..line.len().min(LONGEST)]), offset + start as u64);
                    }
                    start = end + 1;
                }
                carry.add(&block[start..], offset + start as u64);
            }
        }
        bytes.consume(length);
        offset += length as u64;
    }
}

/// The beginning of a line that goes on in the next block.
#[derive(Default)]
struct Carry {
    line: Vec<u8>,
    offset: u64,
    is_cut: bool,
    too_long: u64,
}

impl Carry {
    fn add(&mut self, part: &[u8], offset: u64) {
        if self.line.is_empty() {
            self.offset = offset;
        }
        let room = LONGEST - self.line.len();
        self.is_cut |= part.len() > room;
        self.line.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn finish(&mut self, each: &mut impl FnMut(&[u8], u64)) {
        if self.line.is_empty() {
            return;
        }
        each(without_return(&self.line), self.offset);
        self.too_long += u64::from(self.is_cut);
        self.is_cut = false;
        self.line.clear();
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn lines(text: &[u8], block: usize) -> (Vec<(String, u64)>, u64) {
        let mut found = Vec::new();
        let mut reader = BufReader::with_capacity(block, text);
        let too_long =
            for_each(&mut reader, |line, at| found.push((String::from_utf8_lossy(line).into_owned(), at))).unwrap();
        (found, too_long)
    }

    #[test]
    fn blocks_of_any_size_give_the_same_lines() {
        let text = b"one\n\nthree is longer\r\nlast";
        let wanted: Vec<(String, u64)> =
            [("one", 0), ("three is longer", 5), ("last", 22)].map(|(line, at)| (line.to_owned(), at)).into();
        for block in 1..40 {
            let (mut found, too_long) = lines(text, block);
            found.retain(|(line, _)| !line.is_empty());
            assert_eq!((found, too_long), (wanted.clone(), 0), "{block}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_cut() {
        let mut text = vec![b'x'; 3 * LONGEST];
        text.extend_from_slice(b"\nnext\n");
        // Also where it lies within a block.
        for block in [1000, 4 * LONGEST] {
            let (found, too_long) = lines(&text, block);
            assert_eq!((found[0].0.len(), found[1].0.as_str(), found[1].1), (LONGEST, "next", 3 * LONGEST as u64 + 1));
            assert_eq!(too_long, 1);
        }
    }
}
