//! Lines of logs.
//!
//! Logs reach gigabytes, and a damaged one may be a single line. So a line is cut at a limit, and what follows in it is skipped.

use std::io::{self, BufRead, Read};

/// The longest line of a log, in bytes.
const LONGEST: usize = 64 * 1024;

/// Calls `each` with every line, without its line break, and the offset at which it begins. Returns how many lines were too long; `each`
/// gets their beginnings.
pub(super) fn for_each(bytes: &mut dyn BufRead, mut each: impl FnMut(&[u8], u64)) -> io::Result<u64> {
    let (mut line, mut offset, mut too_long) = (Vec::new(), 0, 0);
    loop {
        line.clear();
        let mut end = (&mut *bytes).take(LONGEST as u64 + 1).read_until(b'\n', &mut line);
        let mut length = line.len() as u64;
        if line.pop_if(|byte| *byte == b'\n').is_none() && line.len() > LONGEST {
            too_long += 1;
            line.truncate(LONGEST);
            end = end.and_then(|_| bytes.skip_until(b'\n')).inspect(|skipped| length += *skipped as u64);
        }
        // The text before an error counts as a line.
        if length > 0 {
            each(without_return(&line), offset);
        }
        offset += length;
        if end? == 0 {
            return Ok(too_long);
        }
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
