//! What collectors of logs put around the lines of a program: JSON (Docker, Loki, journald and others), the time, stream and mark of a container's runtime, a
//! time alone; and UTF-16, which PowerShell writes.
//!
//! It is taken off before a reader sees the text, so that offsets are those in what is left.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Cursor, Read};

use serde_json::{Map, Value};

/// The keys of the text of a line.
const KEYS: [&str; 6] = ["log", "line", "message", "MESSAGE", "msg", "textPayload"];

/// A longer first line is no line of a log. Docker cuts lines at 16 KiB.
const LONGEST_FIRST: usize = 64 * 1024 / 2;

/// So many lines are looked at for a time: what is before them may be of whoever copied them.
const FIRST: usize = 16;

/// A line is taken in parts of this size, and not put together beyond it.
const LONGEST: usize = 1 << 20;

/// One collector may read what another has written.
const MOST: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Around {
    Utf16 {
        is_little_endian: bool,
    },
    /// `2025-06-26T06:24:44.9Z stderr F text`: a line with the mark `P` goes on in the next of its stream.
    Runtime,
    Time,
    /// A text that ends without a line break goes on in the next, where others end with one.
    Json {
        key: &'static str,
        has_breaks: bool,
    },
}

/// What is around the lines of a file, from the outside, and its first bytes without that. What `is_known` recognises is no line of a collector in JSON.
pub(super) fn around(head: &[u8], is_known: impl Fn(&[u8]) -> bool) -> (Vec<Around>, Cow<'_, [u8]>) {
    let (mut all, mut seen) = (Vec::new(), Cow::Borrowed(head));
    while all.len() < MOST
        && let Some(of) = Around::of(&seen, &is_known)
    {
        let mut within = Vec::new();
        // Reading from memory does not fail.
        let _ = Lines::new(of, Box::new(Cursor::new(&seen[..]))).read_to_end(&mut within);
        seen = Cow::Owned(within);
        all.push(of);
    }
    (all, seen)
}

impl Around {
    fn of(head: &[u8], is_known: impl Fn(&[u8]) -> bool) -> Option<Self> {
        match head {
            [0xFF, 0xFE, ..] => return Some(Around::Utf16 { is_little_endian: true }),
            [0xFE, 0xFF, ..] => return Some(Around::Utf16 { is_little_endian: false }),
            _ => {}
        }
        let mut lines = head.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        let first = lines.clone().next()?;
        if first.starts_with(b"{") && first.len() <= LONGEST_FIRST {
            let object = object(first)?;
            let key = KEYS.into_iter().find(|key| object.get(*key).is_some_and(Value::is_string))?;
            let has_breaks = lines.any(|line| object_text(line, key).is_some_and(|text| text.ends_with('\n')));
            return (!is_known(head)).then_some(Around::Json { key, has_breaks });
        }
        let rest = lines.take(FIRST).find_map(after_time)?;
        Some(if runtime(rest).is_some() { Around::Runtime } else { Around::Time })
    }

    /// Adds what a line has within.
    fn unwrap(self, line: &[u8], parts: &mut [Vec<u8>; 2], into: &mut Vec<u8>) {
        match self {
            Around::Utf16 { is_little_endian } => {
                let unit = if is_little_endian { u16::from_le_bytes } else { u16::from_be_bytes };
                let units = line.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).filter(|unit| *unit != 0xFEFF);
                let text = char::decode_utf16(units).map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER));
                into.extend(text.collect::<String>().bytes());
            }
            Around::Time => into.extend(after_time(line).unwrap_or(line)),
            Around::Runtime => match after_time(line).and_then(runtime) {
                Some((stream, is_part, text)) => {
                    let part = &mut parts[stream];
                    part.extend(text.strip_suffix(b"\n").filter(|_| is_part).unwrap_or(text));
                    if !is_part || part.len() > LONGEST {
                        into.append(part);
                    }
                }
                None => into.extend(line),
            },
            Around::Json { key, has_breaks } => match object_text(line, key) {
                Some(text) => {
                    into.extend(text.bytes());
                    if !has_breaks {
                        into.push(b'\n');
                    }
                }
                None => into.extend(line),
            },
        }
    }
}

fn object(line: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(line.trim_ascii()).ok()
}

fn object_text(line: &[u8], key: &str) -> Option<String> {
    match object(line)?.remove(key)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// What follows a time such as `2025-06-26T06:24:44.907Z` and a blank.
fn after_time(line: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr2(b' ', b'\n', line).unwrap_or(line.len());
    let time = &line[..end];
    let is_time = time.len() > 18
        && time.iter().zip(b"0000-00-00T00:00:00").all(|(byte, like)| match like {
            b'0' => byte.is_ascii_digit(),
            _ => byte == like,
        })
        && time.iter().skip(19).all(|byte| byte.is_ascii_digit() || b".:+-Z".contains(byte));
    is_time.then(|| line[end..].strip_prefix(b" ").unwrap_or(&line[end..]))
}

/// The stream of a line, whether it is a part of a line, and its text.
fn runtime(line: &[u8]) -> Option<(usize, bool, &[u8])> {
    let streams = [&b"stdout "[..], b"stderr "].into_iter().enumerate();
    let (stream, rest) = streams.filter_map(|(at, word)| Some((at, line.strip_prefix(word)?))).next()?;
    let (mark, rest) = rest.split_first()?;
    let is_end = rest.first().is_none_or(u8::is_ascii_whitespace);
    (matches!(mark, b'F' | b'P') && is_end).then(|| (stream, *mark == b'P', rest.strip_prefix(b" ").unwrap_or(rest)))
}

/// A text without what is around its lines.
pub(super) struct Lines<'a> {
    of: Around,
    from: Box<dyn BufRead + 'a>,
    line: Vec<u8>,
    within: Vec<u8>,
    taken: usize,
    parts: [Vec<u8>; 2],
}

impl<'a> Lines<'a> {
    fn new(of: Around, from: Box<dyn BufRead + 'a>) -> Self {
        Lines { of, from, line: Vec::new(), within: Vec::new(), taken: 0, parts: Default::default() }
    }
}

/// The text within all that is around its lines.
pub(super) fn within<'a>(around: Vec<Around>, bytes: Box<dyn BufRead + 'a>) -> Box<dyn BufRead + 'a> {
    around.into_iter().fold(bytes, |bytes, of| Box::new(BufReader::new(Lines::new(of, bytes))))
}

impl Read for Lines<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.within.len() {
            self.line.clear();
            self.within.clear();
            self.taken = 0;
            let mut line = (&mut self.from).take(LONGEST as u64);
            line.read_until(b'\n', &mut self.line)?;
            // The other half of a unit of UTF-16.
            if matches!(self.of, Around::Utf16 { .. }) && self.line.len() % 2 == 1 {
                line.take(1).read_to_end(&mut self.line)?;
            }
            if self.line.is_empty() {
                self.parts.iter_mut().for_each(|part| self.within.append(part));
                if self.within.is_empty() {
                    return Ok(0);
                }
            } else {
                self.of.unwrap(&self.line, &mut self.parts, &mut self.within);
            }
        }
        let n = buf.len().min(self.within.len() - self.taken);
        buf[..n].copy_from_slice(&self.within[self.taken..self.taken + n]);
        self.taken += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_out_of_what_is_around_them() {
        let utf16 =
            |unit: fn(u16) -> [u8; 2]| "\u{feff}one\r\nĊwo\n".encode_utf16().flat_map(unit).collect::<Vec<u8>>();
        for (text, wanted) in [
            (utf16(u16::to_le_bytes), "one\r\nĊwo\n"),
            (utf16(u16::to_be_bytes), "one\r\nĊwo\n"),
            // Docker divides long lines; the last one has no end yet.
            (br#"{"log":"on","stream":"stderr"}
{"log":"e\n"}
{"log":"two"}
"#.to_vec(), "one\ntwo"),
            (b"{\"labels\":{},\"line\":\"one\"}\n{\"line\":\"two\"}\nthree\n".to_vec(), "one\ntwo\nthree\n"),
            (
                b"2025-06-26T06:24:44.9Z stderr P on\n2025-06-26T06:24:44.9Z stdout F two\n2025-06-26T06:24:44.9Z stderr F e\n2025-06-26T06:24:44.9Z stdout F\n"
                    .to_vec(),
                "two\none\n\n",
            ),
            // One within the other.
            (br#"{"message":"2025-06-26T06:24:44+02:00 one"}"#.to_vec(), "one\n"),
            (b"2025-06-26T06:24:44Z one\n2025-06-26T06:24:44Z\nx two\n".to_vec(), "one\n\nx two\n"),
            (b"2025-06-26 06:24:44 one\n".to_vec(), "2025-06-26 06:24:44 one\n"),
            (br#"{"entries":[],"message":3}"#.to_vec(), r#"{"entries":[],"message":3}"#),
        ] {
            let (of, head) = around(&text, |_| false);
            assert_eq!(String::from_utf8_lossy(&head), wanted);
            let mut whole = String::new();
            within(of, Box::new(BufReader::with_capacity(3, &text[..]))).read_to_string(&mut whole).unwrap();
            assert_eq!(whole, wanted);
        }
        assert!(around(br#"{"message":"one"}"#, |_| true).0.is_empty(), "a reader knows it");
    }
}
