//! What makes an event suspect: control characters, unknown escapes, halves of surrogate pairs, bytes that are no
//! UTF-8, and what cannot be between strings.

use std::ops::Range;

use super::words::Odd;

/// Adds the offsets of what JSON forbids in a word that begins at a byte. Returns whether the word has bytes that are not ASCII.
pub(super) fn find(text: &[u8], base: usize, odd: Odd, suspects: &mut Vec<usize>) -> bool {
    for at in offsets(odd.escaped & odd.inside, base) {
        // The last byte of the text may be a backslash.
        if at < text.len() && !is_escape(text, at) {
            suspects.push(at);
        }
    }
    suspects.extend(offsets(odd.odd & odd.inside, base).filter(|at| text[*at] < b' '));
    let outside = offsets(odd.odd & !odd.inside, base);
    suspects.extend(outside.filter(|at| text[*at] < b'\t' || !text[*at].is_ascii()));
    offsets(odd.odd, base).any(|at| !text[at].is_ascii())
}

/// The offsets that the bits of a word mean.
fn offsets(mut bits: u64, base: usize) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = (bits != 0).then(|| base + bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        at
    })
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
pub(super) fn find_invalid_utf8(text: &[u8], range: Range<usize>, suspects: &mut Vec<usize>) {
    // A character may begin before the range, and end after it.
    let start = (range.start.saturating_sub(3)..range.start).find(|at| text[*at] >= 0xc0).unwrap_or(range.start);
    let end = text.len().min(range.end + 3);
    match std::str::from_utf8(&text[start..end]) {
        Ok(_) => {}
        Err(error) if start + error.valid_up_to() >= range.end => {}
        Err(_) => list_invalid_utf8(text, start..end, range, suspects),
    }
}

#[cold]
fn list_invalid_utf8(text: &[u8], all: Range<usize>, range: Range<usize>, suspects: &mut Vec<usize>) {
    let mut at = all.start;
    for chunk in text[all].utf8_chunks() {
        at += chunk.valid().len();
        if !chunk.invalid().is_empty() && range.contains(&at) {
            suspects.push(at);
        }
        at += chunk.invalid().len();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// All that JSON forbids in a text that begins outside of strings, byte by byte.
    pub(in super::super) fn slowly(text: &[u8]) -> Vec<usize> {
        let (mut in_string, mut escaped, mut suspects) = (false, false, Vec::new());
        for (at, byte) in text.iter().enumerate() {
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
        list_invalid_utf8(text, 0..text.len(), 0..text.len(), &mut suspects);
        suspects.sort_unstable();
        suspects.dedup();
        suspects
    }
}
