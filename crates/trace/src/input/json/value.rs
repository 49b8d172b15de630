//! JSON's values: finding where they end, walking through the members of one object without building anything, numbers that are
//! read eight digits at a time as they are met, and the texts of strings.

use std::borrow::Cow;

use super::bits::code_unit;
use super::marks::Marks;
pub(super) use crate::time::is_number;

/// How far into a value the search for its end has come, so that it can go on when more text arrives.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Nesting {
    depth: u32,
    in_string: bool,
    escaped: bool,
}

impl Nesting {
    /// Goes on through `text`. Returns how many bytes belong to the value if its end was found. Must begin at the value's
    /// first byte, which is `{`, `[` or `"`.
    pub(super) fn end(&mut self, text: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < text.len() {
            // Outside of strings, where no backslash may be, it hides a quote all the same: the marks take it so, and both
            // have to find the same end.
            if std::mem::take(&mut self.escaped) && (self.in_string || matches!(text[at], b'"' | b'\\')) {
                at += 1;
                continue;
            }
            if self.in_string {
                at += text[at..].iter().position(|b| matches!(b, b'"' | b'\\'))?;
                if text[at] == b'\\' {
                    self.escaped = true;
                } else {
                    self.in_string = false;
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                at += 1;
                continue;
            }
            at += text[at..].iter().position(|b| STRUCTURAL[*b as usize])?;
            match text[at] {
                b'"' => self.in_string = true,
                b'\\' => self.escaped = true,
                b'{' | b'[' => self.depth += 1,
                _ => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
            }
            at += 1;
        }
        None
    }
}

const STRUCTURAL: [bool; 256] = {
    let mut table = [false; 256];
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table[b'{' as usize] = true;
    table[b'}' as usize] = true;
    table[b'[' as usize] = true;
    table[b']' as usize] = true;
    table
};

/// A value as it is in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// What is between the quotes, escapes and all.
    Text(&'a [u8]),
    /// A number, not yet checked.
    Number(&'a [u8]),
    Object(&'a [u8]),
    Array(&'a [u8]),
    True,
    False,
    Null,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SyntaxError;

/// The end of a string, from a byte within it on.
fn string_end(text: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += text.get(at..)?.iter().position(|b| matches!(b, b'"' | b'\\'))?;
        if text[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// Whether each bracket of a container is closed by one of its own kind. Its end was found by counting brackets of either kind, which is
/// all that is asked of most events.
pub(super) fn pairs_its_brackets(container: &[u8]) -> bool {
    let (mut open, mut at) = (Vec::new(), 0);
    while let Some(&byte) = container.get(at) {
        at += 1;
        match byte {
            b'"' => match string_end(container, at) {
                Some(end) => at = end + 1,
                None => return false,
            },
            b'{' => open.push(b'}'),
            b'[' => open.push(b']'),
            b'}' | b']' if open.pop() != Some(byte) => return false,
            _ => {}
        }
    }
    open.is_empty()
}

/// Walks through the members of one object or the elements of one array.
pub(super) struct Walker<'a, 'm> {
    text: &'a [u8],
    at: usize,
    /// The text's marks; `None` for small pieces, in which ends are found byte by byte.
    marks: Option<&'m mut Marks>,
    /// Whether something was read already, and whether a comma was missing or stray.
    is_after_first: bool,
    has_wrong_commas: bool,
}

impl<'a, 'm> Walker<'a, 'm> {
    /// Walks through a container given with its brackets.
    pub(super) fn new(container: &'a [u8]) -> Self {
        Walker { text: container, at: 1, marks: None, is_after_first: false, has_wrong_commas: false }
    }

    /// Walks through the container that begins at a byte of a marked text, which ends with the container.
    pub(super) fn marked(text: &'a [u8], at: usize, marks: &'m mut Marks) -> Self {
        Walker { at: at + 1, marks: Some(marks), ..Walker::new(text) }
    }

    /// The next key, still escaped, and its value; `None` at the closing brace. A comma before the brace is accepted, as in
    /// Perfetto.
    #[inline(always)]
    pub(super) fn member(&mut self) -> Result<Option<(&'a [u8], Token<'a>)>, SyntaxError> {
        let (first, has_comma) = self.skip_separators()?;
        self.has_wrong_commas |= has_comma != (self.is_after_first && first != b'}');
        self.is_after_first = true;
        match first {
            b'}' => return Ok(None),
            b'"' => {}
            _ => return Err(SyntaxError),
        }
        let key = self.string()?;
        if self.skip_space()? != b':' {
            return Err(SyntaxError);
        }
        self.at += 1;
        self.skip_space()?;
        Ok(Some((key, self.value()?)))
    }

    /// Whether a comma was missing between the members that were read, or one was where none belongs.
    pub(super) fn has_wrong_commas(&self) -> bool {
        self.has_wrong_commas
    }

    /// The byte after what was read last.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// The next element; `None` at the closing bracket.
    pub(super) fn element(&mut self) -> Result<Option<Token<'a>>, SyntaxError> {
        let (first, has_comma) = self.skip_separators()?;
        self.has_wrong_commas |= has_comma != (self.is_after_first && first != b']');
        self.is_after_first = true;
        if first == b']' {
            return Ok(None);
        }
        self.value().map(Some)
    }

    #[inline]
    fn skip_space(&mut self) -> Result<u8, SyntaxError> {
        while let Some(&byte) = self.text.get(self.at) {
            if !is_space(byte) {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err(SyntaxError)
    }

    /// Skips white space and at most one comma. The byte that follows, and whether there was a comma.
    #[inline]
    fn skip_separators(&mut self) -> Result<(u8, bool), SyntaxError> {
        let has_comma = self.skip_space()? == b',';
        self.at += usize::from(has_comma);
        Ok((self.skip_space()?, has_comma))
    }

    #[inline(always)]
    fn string(&mut self) -> Result<&'a [u8], SyntaxError> {
        let start = self.at + 1;
        let end = match &mut self.marks {
            Some(marks) => marks.quote(self.text, start),
            None => string_end(self.text, start),
        };
        let end = end.ok_or(SyntaxError)?;
        let string = self.text.get(start..end).ok_or(SyntaxError)?;
        self.at = end + 1;
        Ok(string)
    }

    // Called from one place per event; a call would pass each token through memory, which costs more than the rest.
    #[inline(always)]
    fn value(&mut self) -> Result<Token<'a>, SyntaxError> {
        let rest = self.text.get(self.at..).ok_or(SyntaxError)?;
        let token = match rest.first() {
            Some(b'"') => return self.string().map(Token::Text),
            Some(open @ (b'{' | b'[')) => {
                let end = match &mut self.marks {
                    Some(marks) => marks.container_end(self.text, self.at),
                    None => Nesting::default().end(&self.text[self.at..]).map(|length| self.at + length),
                };
                let end = end.ok_or(SyntaxError)?;
                let container = self.text.get(self.at..end).ok_or(SyntaxError)?;
                self.at = end;
                return Ok(if *open == b'{' { Token::Object(container) } else { Token::Array(container) });
            }
            Some(b'-' | b'0'..=b'9') => {
                let end = rest.iter().position(|byte| !is_part(*byte));
                let end = end.unwrap_or(rest.len());
                self.at += end;
                return Ok(Token::Number(&rest[..end]));
            }
            _ if rest.starts_with(b"true") => Token::True,
            _ if rest.starts_with(b"false") => Token::False,
            _ if rest.starts_with(b"null") => Token::Null,
            _ => return Err(SyntaxError),
        };
        self.at += if token == Token::False { 5 } else { 4 };
        Ok(token)
    }
}

/// The value of a key that ends before a byte of a marked text, and the byte after it; an error if no key ends there.
pub(super) fn value_after_key<'a>(
    text: &'a [u8],
    at: usize,
    marks: &mut Marks,
) -> Result<(Token<'a>, usize), SyntaxError> {
    let mut walker = Walker { at, ..Walker::marked(text, at, marks) };
    if walker.skip_space()? != b':' {
        return Err(SyntaxError);
    }
    walker.at += 1;
    walker.skip_space()?;
    let value = walker.value()?;
    Ok((value, walker.at))
}

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    /// The byte after it.
    pub(super) end: usize,
    /// What it is, if it is a simple one.
    pub(super) digits: Digits,
}

/// A number that is `value / 10^decimals`; [`Digits::UNKNOWN`] is any that is not made of digits and a point, or has
/// more digits than fit, or is not read yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Digits {
    pub(super) value: i64,
    pub(super) decimals: u8,
}

impl Digits {
    pub(super) const UNKNOWN: Digits = Digits { value: 0, decimals: u8::MAX };

    #[inline]
    pub(super) fn whole(self) -> Option<i64> {
        (self.decimals == 0).then_some(self.value)
    }
}

impl Default for Digits {
    fn default() -> Self {
        Digits::UNKNOWN
    }
}

/// Passes over a number. `None` if there is none, or it goes on to within eight bytes of the text's end.
#[inline(always)]
pub(super) fn number(text: &[u8], at: usize) -> Option<Number> {
    let (value, end) = digits(text, at, 0)?;
    let whole = end - at;
    // JSON writes no zero before other digits.
    let is_simple = whole > 0 && (whole == 1 || text[at] != b'0');
    let (value, end, decimals) = match text.get(end)? {
        b'.' => {
            let (value, after) = digits(text, end + 1, value)?;
            (value, after, after - end - 1)
        }
        _ => (value, end, 0),
    };
    let last = *text.get(end)?;
    let has_no_fraction = decimals == 0 && end > at + whole;
    // Nineteen digits fit unless the first is a 9: times since 1970 with three decimals have as many.
    let fits = whole + decimals <= if text[at] == b'9' { 18 } else { 19 };
    if !is_simple || has_no_fraction || !fits || is_part(last) {
        return other_number(text, at);
    }
    Some(Number { end, digits: Digits { value, decimals: decimals as u8 } })
}

#[cold]
fn other_number(text: &[u8], at: usize) -> Option<Number> {
    if !matches!(text.get(at)?, b'-' | b'0'..=b'9') {
        return None;
    }
    let length = text.get(at..)?.iter().position(|byte| !is_part(*byte))?;
    if !is_number(&text[at..at + length]) {
        return None;
    }
    Some(Number { end: at + length, digits: Digits::UNKNOWN })
}

#[inline]
pub(super) fn is_part(byte: u8) -> bool {
    matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')
}

/// How many digits [`short_whole_number`] reads at most.
pub(super) const MAX_SHORT: usize = 16;

/// How many digits [`digits_end`] passes at most.
pub(super) const MAX_PASSED: usize = 8;

/// The digits at a byte as a whole number and the byte after them, whatever that is; `None` if there are none, or too many.
#[inline(always)]
pub(super) fn short_whole_number(text: &[u8], at: usize) -> Option<(i64, usize)> {
    let (value, end) = digits(text, at, 0)?;
    (end > at && end <= at + MAX_SHORT).then_some((value, end))
}

/// The byte after some digits; `None` if there are none, or too many.
#[inline(always)]
pub(super) fn digits_end(text: &[u8], at: usize) -> Option<usize> {
    let eight = u64::from_le_bytes(text.get(at..at + 8)?.try_into().ok()?);
    let count = others(eight ^ ZEROS).trailing_zeros() as usize / 8;
    match count {
        0 => None,
        8 => text.get(at + 8).filter(|byte| !byte.is_ascii_digit()).map(|_| at + 8),
        _ => Some(at + count),
    }
}

/// Eight times the digit 0.
const ZEROS: u64 = u64::from_ne_bytes([b'0'; 8]);

/// The highest bit of each byte that is no digit, of bytes from which [`ZEROS`] were taken: a digit is now 0 to 9; to anything else
/// adding 0x76 sets the highest bit, if it was not set before.
#[inline(always)]
fn others(digits: u64) -> u64 {
    let seven_bits = digits & u64::from_ne_bytes([0x7f; 8]);
    ((seven_bits + u64::from_ne_bytes([0x76; 8])) | digits) & u64::from_ne_bytes([0x80; 8])
}

/// Appends the digits at a byte to a value, which wraps where there are too many. The byte after them.
#[inline]
fn digits(text: &[u8], mut at: usize, mut value: i64) -> Option<(i64, usize)> {
    const POWERS: [i64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
    loop {
        let eight = u64::from_le_bytes(text.get(at..at + 8)?.try_into().ok()?);
        let digits = eight ^ ZEROS;
        let others = others(digits);
        if others == 0 {
            value = value.wrapping_mul(100_000_000).wrapping_add(joined(digits));
            at += 8;
            continue;
        }
        let count = others.trailing_zeros() as usize / 8;
        if count > 0 {
            // Moved to the end, the digits have zeros before them.
            value = value.wrapping_mul(POWERS[count]).wrapping_add(joined(digits << (64 - 8 * count)));
        }
        return Some((value, at + count));
    }
}

/// The number of eight digits, the first of which is the highest. Neighbours are joined: to pairs, to fours, to eight.
#[inline]
fn joined(digits: u64) -> i64 {
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    ((fours * 10_000 + (fours >> 32)) & 0xffff_ffff) as i64
}

/// The number that is meant by one with a plus or zeros before it, or with nothing before or after its point.
pub(super) fn as_number(word: &[u8]) -> Option<Vec<u8>> {
    let (sign, rest) = match word {
        [b'-', rest @ ..] => (&b"-"[..], rest),
        [b'+', rest @ ..] => (&b""[..], rest),
        rest => (&b""[..], rest),
    };
    let zeros = rest.iter().take_while(|byte| **byte == b'0').count();
    let rest = &rest[zeros..];
    let has_whole = rest.first().is_some_and(u8::is_ascii_digit);
    let mut number = [sign, if has_whole { b"" } else { b"0" }, rest].concat();
    if !has_whole && zeros == 0 && !rest.starts_with(b".") {
        return None;
    }
    if let Some(point) = number.iter().position(|byte| *byte == b'.')
        && !number.get(point + 1).is_some_and(u8::is_ascii_digit)
    {
        // Of `.` alone nothing is a digit.
        if !has_whole && zeros == 0 {
            return None;
        }
        number.insert(point + 1, b'0');
    }
    is_number(&number).then_some(number)
}

/// The text of a JSON string, given without its quotes.
///
/// Borrows where there is nothing to change. Real traces hold what JSON forbids, and nothing of it is fatal here: a
/// backslash before any other character (Windows paths) stays as it is, bytes that are no UTF-8 and surrogates without
/// a partner become U+FFFD, raw control characters pass. (Perfetto drops unknown escapes with the character after them, and
/// gives up on any `\uD800`–`\uDFFF`, which Python writes for every emoji.)
pub(super) fn unescape(raw: &[u8]) -> Cow<'_, str> {
    let text = match std::str::from_utf8(raw) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(raw),
    };
    if memchr::memchr(b'\\', raw).is_none() {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(escape) = rest.chars().next() else {
            out.push('\\');
            break;
        };
        let plain = match escape {
            '"' | '\\' | '/' => escape,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let Some((c, used)) = unicode_escape(rest) else {
                    out.push('\\');
                    continue;
                };
                out.push(c);
                rest = &rest[used..];
                continue;
            }
            _ => {
                out.push('\\');
                continue;
            }
        };
        out.push(plain);
        rest = &rest[1..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The character of `uXXXX` or of a surrogate pair `uXXXX\uXXXX`, and how many bytes it takes.
fn unicode_escape(text: &str) -> Option<(char, usize)> {
    let unit = |at: usize| text.as_bytes().get(at..).and_then(code_unit).map(u32::from);
    let first = unit(1)?;
    if let Some(c) = char::from_u32(first) {
        return Some((c, 5));
    }
    if first < 0xdc00
        && text.get(5..7) == Some("\\u")
        && let Some(second @ 0xdc00..=0xdfff) = unit(7)
    {
        let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return Some((char::from_u32(code)?, 11));
    }
    Some((char::REPLACEMENT_CHARACTER, 5))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{TimeRule, scaled_decimal};

    proptest::proptest! {
        /// A value that is too long to keep is skipped with the one, after its end was searched for with the other.
        #[test]
        fn both_ways_find_the_same_end(text in "[\\[{][a\"\\\\{}\\[\\]]{0,60}", cut in 0usize..60) {
            let text = text.as_bytes();
            let cut = cut.min(text.len());
            let mut nesting = Nesting::default();
            let end = nesting.end(&text[..cut]).or_else(|| nesting.end(&text[cut..]).map(|end| end + cut));
            proptest::prop_assert_eq!(end, Marks::default().container_end(text, 0));
        }
    }

    #[test]
    fn brackets_are_paired_by_kind() {
        for whole in [r#"{"a": [{"b": "]}"}, []], "c": "\\\"{"}"#, "[]", "{}"] {
            assert!(pairs_its_brackets(whole.as_bytes()), "{whole}");
        }
        for mixed in [r#"{"a": {"b": [1, 2}, "a": 3]}"#, "[}", r#"{"a": "}"#, "{", "{}}"] {
            assert!(!pairs_its_brackets(mixed.as_bytes()), "{mixed}");
        }
        let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
        assert!(pairs_its_brackets(&deep));
    }

    fn read(number: &str) -> Option<(usize, Digits)> {
        let text = format!("\"ts\": {number}, \"next\"");
        super::number(text.as_bytes(), 6).map(|number| (number.end - 6, number.digits))
    }

    #[test]
    fn simple_numbers_are_read() {
        let known = |value, decimals| Digits { value, decimals };
        for (text, want) in [
            ("0", known(0, 0)),
            ("7", known(7, 0)),
            ("12345678", known(12_345_678, 0)),
            ("123456789012345678", known(123_456_789_012_345_678, 0)),
            ("3412907118310.153", known(3_412_907_118_310_153, 3)),
            ("1712195495501688.500", known(1_712_195_495_501_688_500, 3)),
            ("0.5", known(5, 1)),
            ("0.123456789", known(123_456_789, 9)),
        ] {
            assert_eq!(read(text), Some((text.len(), want)), "{text}");
        }
        for text in ["-1", "1.5e3", "1e3", "9234567890123456789", "12345678901234567890", "1234567890123456.7890"] {
            assert_eq!(read(text), Some((text.len(), Digits::UNKNOWN)), "{text}");
        }
        for text in ["x", ".5", "+1", "\"5\"", "01", "1.", "1.2.3", "1-2"] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(number(b"12345678", 0), None, "the text may go on");
    }

    proptest::proptest! {
        #[test]
        fn digits_are_what_the_text_says(text in "-?[0-9]{0,19}([.:/e][0-9]{0,6})?") {
            if let Some((length, digits)) = read(&text) {
                let number = &text.as_bytes()[..length];
                for rule in [TimeRule::Exact, TimeRule::Nanoseconds] {
                    if let Some(nanos) = rule.digits_to_nanos(digits.value, digits.decimals) {
                        proptest::prop_assert_eq!(Some(nanos), rule.text_to_nanos(number));
                    }
                }
                let integer = text[..length].parse::<i64>().ok().filter(|_| scaled_decimal(number, 0).is_some() && digits != Digits::UNKNOWN);
                proptest::prop_assert_eq!(digits.whole(), integer);
            }
        }
    }

    #[test]
    fn escapes_are_resolved() {
        for (raw, want) in [
            (&b"plain"[..], "plain"),
            (br#"a\"b\\c\/d\n"#, "a\"b\\c/d\n"),
            (br"\u0041\u00e9", "A\u{e9}"),
            (br"\ud83d\ude00!", "\u{1f600}!"),
            (br"\ud83d!", "\u{fffd}!"),
            (br"\ude00", "\u{fffd}"),
            (br"torch\cuda\__init__.py", r"torch\cuda\__init__.py"),
            (br"\u12", r"\u12"),
            (b"bad \xff byte", "bad \u{fffd} byte"),
            (b"end\\", "end\\"),
        ] {
            assert_eq!(unescape(raw), want);
        }
        assert!(matches!(unescape(b"plain"), Cow::Borrowed(_)));
    }

    proptest::proptest! {}
}
