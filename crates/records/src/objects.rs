//! The objects of a file of JSON records, one after the other: a line each, or printed over several lines, or as an array.
//!
//! Records are written by processes that are killed, so an object may have no end: it ends where the next one begins. Some writers leave
//! out quotes; the loose reading adds quotes around bare words and takes typographic quotes for plain ones. Its output is JSON.

use std::io::{self, BufRead};

use super::file::RecordFile;
use nccl_stacks_trace::time::Ns;

/// The largest record, in bytes.
const LARGEST: usize = 4 * 1024 * 1024;

/// The deepest nesting of a record.
const DEEPEST: usize = 32;

#[derive(Default)]
pub(super) struct Objects {
    text: Vec<u8>,
    open: Vec<u8>,
    position: u64,
    start: u64,
    is_loose: bool,
    in_string: bool,
    is_escaped: bool,
    /// Whether the next byte is the first of its line.
    at_line_start: bool,
    /// The last byte outside of strings that is no blank.
    last: u8,
    /// Where in the text a word without quotes began.
    word: Option<usize>,
    /// Where text outside objects begins on this line, before the first of them or after one.
    junk: Option<u64>,
    /// Whether the rest of a too large object is being skipped.
    is_lost: bool,
    /// Whether the last object is cut off by the end of the file.
    pub(super) is_cut: bool,
    /// Whether the list of objects was ended after the last of them.
    pub(super) is_list_ended: bool,
    quotes: [u64; 2],
}

pub(super) struct FoundObject<'a> {
    pub(super) offset: u64,
    pub(super) text: &'a [u8],
}

enum Step {
    More,
    Done,
    /// The object before has no end, and another begins with this byte.
    Begins,
    Broken,
}

impl Objects {
    /// Of a file with one JSON object after the other.
    pub(super) fn strict() -> Self {
        Objects { at_line_start: true, ..Objects::default() }
    }

    /// Of a file whose writer leaves out quotes.
    pub(super) fn loose() -> Self {
        Objects { is_loose: true, ..Objects::strict() }
    }

    /// The next object; `None` at the end of the file. What is no object is counted in the file's report.
    pub(super) fn next(
        &mut self,
        bytes: &mut dyn BufRead,
        file: &mut RecordFile,
    ) -> io::Result<Option<FoundObject<'_>>> {
        self.clear();
        loop {
            let chunk = bytes.fill_buf()?;
            if chunk.is_empty() {
                if !self.open.is_empty() {
                    self.is_cut = true;
                    file.skip("records that are cut off by the end of the file", Some(self.start));
                }
                self.end_of_line(file);
                self.clear();
                return Ok(None);
            }
            let (mut used, mut is_done) = (0, false);
            for byte in chunk {
                used += 1;
                let at = self.position;
                self.position += 1;
                is_done = self.take(*byte, at, file);
                self.at_line_start = *byte == b'\n';
                if is_done {
                    break;
                }
            }
            bytes.consume(used);
            if is_done {
                self.count_repairs(file);
                return Ok(Some(FoundObject { offset: self.start, text: &self.text }));
            }
        }
    }

    /// Takes a byte; whether it ends an object.
    fn take(&mut self, byte: u8, at: u64, file: &mut RecordFile) -> bool {
        if self.open.is_empty() {
            self.between(byte, at, file);
            return false;
        }
        match self.step(byte) {
            Step::More => {}
            Step::Done => return true,
            Step::Begins => {
                file.skip("records that are cut off", Some(self.start));
                self.begin(at);
            }
            Step::Broken => {
                file.skip("records that are cut off", Some(self.start));
                self.clear();
            }
        }
        if self.text.len() > LARGEST || self.open.len() > DEEPEST {
            file.skip("records that are too large or too deep", Some(self.start));
            self.clear();
            self.is_lost = true;
        }
        false
    }

    fn between(&mut self, byte: u8, at: u64, file: &mut RecordFile) {
        match byte {
            // What is before the first object of a line is of whoever collects the lines.
            b'{' if !self.is_lost || self.at_line_start => {
                self.junk = None;
                self.begin(at);
            }
            b'\n' => self.end_of_line(file),
            // A list of objects, and the mark with which some editors begin a file.
            b']' => self.is_list_ended = true,
            b' ' | b'\t' | b'\r' | b',' | b'[' | 0xEF | 0xBB | 0xBF => {}
            _ if self.is_lost => {}
            _ => drop(self.junk.get_or_insert(at)),
        }
    }

    fn end_of_line(&mut self, file: &mut RecordFile) {
        if let Some(at) = self.junk.take() {
            file.skip("lines that are not records", Some(at));
        }
    }

    fn begin(&mut self, at: u64) {
        self.clear();
        (self.is_lost, self.is_list_ended) = (false, false);
        self.start = at;
        self.text.push(b'{');
        self.open.push(b'{');
        self.last = b'{';
    }

    fn clear(&mut self) {
        self.text.clear();
        self.open.clear();
        (self.in_string, self.is_escaped, self.word, self.quotes) = (false, false, None, [0; 2]);
    }

    fn step(&mut self, byte: u8) -> Step {
        // Objects within a record are indented.
        if byte == b'{' && self.at_line_start {
            return Step::Begins;
        }
        let byte = if self.is_loose { self.plain_quote(byte) } else { byte };
        if self.in_string {
            return self.in_string(byte);
        }
        let is_word = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'+' | b'-');
        if !is_word {
            self.end_word();
        } else if self.is_loose && self.word.is_none() {
            self.word = Some(self.text.len());
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' if !matches!((self.open.last(), self.last), (Some(b'{'), b':') | (Some(b'['), b'[' | b',')) => {
                return Step::Begins;
            }
            b'{' | b'[' => self.open.push(byte),
            b'}' | b']' if !self.closes(byte) => return Step::Broken,
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            self.last = byte;
        }
        self.text.push(byte);
        if self.open.is_empty() { Step::Done } else { Step::More }
    }

    /// Takes the innermost open bracket away; whether this one closes it. `}` is two after `{`, and `]` after `[`.
    fn closes(&mut self, byte: u8) -> bool {
        self.open.pop().is_some_and(|open| open + 2 == byte)
    }

    fn in_string(&mut self, byte: u8) -> Step {
        match byte {
            b'\n' => return Step::Broken,
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => self.is_escaped = true,
            b'"' => self.in_string = false,
            _ => {}
        }
        self.last = b'"';
        self.text.push(byte);
        Step::More
    }

    /// A quote for the last byte of a typographic one, U+201C or U+201D.
    fn plain_quote(&mut self, byte: u8) -> u8 {
        if !matches!(byte, 0x9C | 0x9D) || !self.text.ends_with(&[0xE2, 0x80]) {
            return byte;
        }
        self.text.truncate(self.text.len() - 2);
        self.quotes[0] += 1;
        b'"'
    }

    /// Puts quotes around a word that JSON does not have without them.
    fn end_word(&mut self) {
        let Some(start) = self.word.take() else { return };
        let word = &self.text[start..];
        let is_number = word.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'+' | b'-' | b'e' | b'E'));
        if !is_number && !matches!(word, b"true" | b"false" | b"null") {
            self.text.insert(start, b'"');
            self.text.push(b'"');
            self.quotes[1] += 1;
        }
    }

    fn count_repairs(&mut self, file: &mut RecordFile) {
        let [typographic, missing] = std::mem::take(&mut self.quotes);
        file.repair_several("typographic quotes", typographic, Some(self.start));
        file.repair_several("values without quotes", missing, Some(self.start));
    }
}

/// A duration or a time that is recorded in microseconds, whole or not; `None` if it is out of range.
pub(super) fn micros(number: &serde_json::Number) -> Option<Ns> {
    match number.as_i64() {
        // A double has no room for both the epoch and nanoseconds.
        Some(micros) => micros.checked_mul(1000).map(Ns),
        None => number.as_f64().filter(|micros| micros.abs() < 9e15).map(|micros| Ns::rounded(micros * 1000.0)),
    }
}

/// The first objects of a file, at most this many.
pub(super) fn first(head: &[u8], mut objects: Objects, most: usize) -> Vec<Vec<u8>> {
    let (mut bytes, mut nowhere, mut found) = (head, RecordFile::default(), Vec::new());
    while found.len() < most
        && let Ok(Some(object)) = objects.next(&mut bytes, &mut nowhere)
    {
        found.push(object.text.to_vec());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, mut objects: Objects) -> (Vec<(u64, String)>, RecordFile) {
        let (mut bytes, mut file, mut found) = (text.as_bytes(), RecordFile::default(), Vec::new());
        while let Some(object) = objects.next(&mut bytes, &mut file).unwrap() {
            found.push((object.offset, String::from_utf8(object.text.to_vec()).unwrap()));
        }
        (found, file)
    }

    fn texts(text: &str, objects: Objects) -> (Vec<String>, RecordFile) {
        let (found, file) = all(text, objects);
        (found.into_iter().map(|(_, text)| text).collect(), file)
    }

    #[test]
    fn objects_are_found_in_lines_in_lists_and_over_lines() {
        let (found, file) = all("[{\"a\":\"}\\\"\"},\n {\"b\":[{\"c\":1},\n  {\"d\":2}]\n}\n]", Objects::strict());
        assert_eq!(found[0], (1, r#"{"a":"}\""}"#.to_owned()));
        assert_eq!((found[1].0, found.len(), file.skipped.len()), (15, 2, 0));
    }

    #[test]
    fn what_is_before_an_object_is_no_line() {
        let (found, file) = texts("[pod/w] {\"a\":1}\nnone\n[pod/w] {\"a\":2}\nnor this", Objects::strict());
        assert_eq!((found.len(), file.skipped[0].count, file.skipped[0].first_offset), (2, 2, Some(16)));
    }

    #[test]
    fn an_object_without_an_end_ends_where_the_next_begins() {
        for cut in ["{\"a\":1,\"b\":[\n", "{\"a\":\"x\n", "{\"a\":1, ", "{\"a\":]\n"] {
            let (found, file) = texts(&format!("{cut}{{\"b\":2}}\n"), Objects::strict());
            assert_eq!(found, ["{\"b\":2}"], "{cut}");
            assert_eq!(file.skipped[0].count, 1, "{cut}");
        }
        let (found, file) = texts("log line\n{\"b\":2}\n{\"c\":", Objects::strict());
        assert_eq!((found.len(), file.skipped.len()), (1, 2));
    }

    #[test]
    fn words_without_quotes_get_some() {
        let text = "{\u{201c}a\": ncclFloat32, \"b\": 0x1f, \"c\": -1.5e3, \"d\": null,\"e\":nan}";
        let (found, file) = texts(text, Objects::loose());
        assert_eq!(found, [r#"{"a": "ncclFloat32", "b": "0x1f", "c": -1.5e3, "d": null,"e":"nan"}"#]);
        let repairs: Vec<u64> = file.repaired.iter().map(|remark| remark.count).collect();
        assert_eq!(repairs, [1, 3]);
    }

    #[test]
    fn what_is_too_deep_is_passed_over() {
        let deep = format!("{{\"a\":{}\n{{\"b\":1}}\n", "[".repeat(100));
        let (found, file) = texts(&deep, Objects::strict());
        assert_eq!((found, file.skipped.len()), (vec!["{\"b\":1}".to_owned()], 1));
    }
}
