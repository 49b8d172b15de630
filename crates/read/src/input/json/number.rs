//! Numbers, read eight digits at a time as they are met.

/// A number in the text.
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

    /// The value of a whole number.
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

/// Whether numbers have this byte.
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

/// Whether a word is a number by JSON's grammar.
pub(super) fn is_number(word: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let word = word.strip_prefix(b"-").unwrap_or(word);
    let whole = digits(word);
    if whole == 0 || whole > 1 && word[0] == b'0' {
        return false;
    }
    let mut rest = &word[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let length = digits(fraction);
        if length == 0 {
            return false;
        }
        rest = &fraction[length..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = exponent.strip_prefix(b"-").or_else(|| exponent.strip_prefix(b"+")).unwrap_or(exponent);
        return !exponent.is_empty() && digits(exponent) == exponent.len();
    }
    rest.is_empty()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{TimeRule, scaled_decimal};

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
}
