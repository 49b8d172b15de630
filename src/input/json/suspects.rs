//! What makes an event suspect, byte by byte: control characters, unknown escapes, halves of surrogate pairs, bytes that are no
//! UTF-8, and what cannot be between strings.

use std::ops::Range;

/// The state before a range that is read once more, because something in it is suspect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    pub(super) in_string: bool,
    pub(super) escaped: bool,
}

impl Before {
    /// Adds the offsets of what JSON forbids in a range.
    pub(super) fn find(self, text: &[u8], range: Range<usize>, suspects: &mut Vec<usize>) {
        let Before { mut in_string, mut escaped } = self;
        for at in range {
            let byte = text[at];
            let is_escaped = std::mem::take(&mut escaped);
            if is_escaped && in_string && !is_escape(text, at) {
                suspects.push(at);
            }
            match byte {
                b'\\' if !is_escaped => escaped = true,
                b'"' if !is_escaped => in_string = !in_string,
                ..b' ' if in_string => suspects.push(at),
                ..b'\t' | 0x80.. if !in_string => suspects.push(at),
                _ => {}
            }
        }
    }
}

/// Whether the text after a backslash makes an escape with it, as far as there is text.
fn is_escape(text: &[u8], at: usize) -> bool {
    match text[at] {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => true,
        b'u' => match code_unit(text, at) {
            None => text.len() < at + 5,
            Some(0xd800..=0xdbff) => {
                let next = text.get(at + 5..at + 7);
                next.is_none() || next == Some(b"\\u") && matches!(code_unit(text, at + 6), Some(0xdc00..=0xdfff))
            }
            Some(0xdc00..=0xdfff) => {
                let first = at
                    .checked_sub(6)
                    .filter(|first| first.checked_sub(1).is_some_and(|at| text[at..].starts_with(b"\\u")));
                first.is_some_and(|first| matches!(code_unit(text, first), Some(0xd800..=0xdbff)))
            }
            Some(_) => true,
        },
        _ => false,
    }
}

/// The number of the escape whose `u` is at a byte.
fn code_unit(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at + 1..at + 5)?;
    let digits = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_hexdigit))?;
    u16::from_str_radix(digits, 16).ok()
}

/// Adds the offsets in a range where there is no UTF-8.
#[cold]
pub(super) fn find_invalid_utf8(text: &[u8], range: Range<usize>, suspects: &mut Vec<usize>) {
    // A character may begin before the range, and end after it.
    let start = (range.start.saturating_sub(3)..range.start).find(|at| text[*at] >= 0xc0).unwrap_or(range.start);
    let end = text.len().min(range.end + 3);
    let mut at = start;
    for chunk in text[start..end].utf8_chunks() {
        at += chunk.valid().len();
        if !chunk.invalid().is_empty() && range.contains(&at) {
            suspects.push(at);
        }
        at += chunk.invalid().len();
    }
}
