//! Numbers and names in the texts of records, read in one way by all readers of logs.
//!
//! Logs are bytes, which need not be UTF-8. A number is nothing but its digits: a sign or a blank that its writer does not put is damage.

use nccl_stacks_trace::names::collectives::Collective;

/// A whole number; `None` if a byte is no digit, or if it is out of range.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    let digits = str::from_utf8(text).ok().filter(|_| text.first().is_some_and(u8::is_ascii_digit))?;
    digits.parse().ok()
}

/// A number that fits into 32 bits, such as a rank.
pub(super) fn small(text: &[u8]) -> Option<u32> {
    decimal(text).and_then(|number| u32::try_from(number).ok())
}

pub(super) fn signed(text: &[u8]) -> Option<i64> {
    let (digits, sign) = text.strip_prefix(b"-").map_or((text, 1), |digits| (digits, -1));
    decimal(digits).and_then(|number| i64::try_from(number).ok()).map(|number| sign * number)
}

/// At most 16 hexadecimal digits.
pub(super) fn hex(text: &[u8]) -> Option<u64> {
    let is_number = text.len() <= 16 && text.first().is_some_and(u8::is_ascii_hexdigit);
    u64::from_str_radix(str::from_utf8(text).ok().filter(|_| is_number)?, 16).ok()
}

/// A pointer as printf writes it.
pub(super) fn pointer(text: &[u8]) -> Option<u64> {
    match text {
        b"(nil)" => Some(0),
        _ => text.strip_prefix(b"0x").and_then(hex),
    }
}

/// The hash of a communicator: hexadecimal, with or without `0x`.
pub(super) fn hash(text: &str) -> Option<u64> {
    hex(text.strip_prefix("0x").unwrap_or(text).as_bytes())
}

pub(super) fn contains(text: &[u8], words: &str) -> bool {
    memchr::memmem::find(text, words.as_bytes()).is_some()
}

/// The name of a collective in nccl-tests, or as recorded if nccl-tests does not have it.
pub(super) fn collective_name(recorded: &str) -> &str {
    Collective::of_record(recorded).map_or(recorded, |of| of.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_nothing_but_their_digits() {
        assert_eq!(
            ["0", "007", "18446744073709551615"].map(|text| decimal(text.as_bytes())),
            [0, 7, u64::MAX].map(Some)
        );
        assert_eq!(["", "+1", "1 ", "1a", "18446744073709551616"].map(|text| decimal(text.as_bytes())), [None; 5]);
        assert_eq!((small(b"4294967295"), small(b"4294967296")), (Some(u32::MAX), None));
        assert_eq!(["-7", "7", "--7", "-"].map(|text| signed(text.as_bytes())), [Some(-7), Some(7), None, None]);
        assert_eq!([&b"(nil)"[..], b"0xFf", b"ff", b"0x"].map(pointer), [Some(0), Some(255), None, None]);
        assert_eq!(["0xff", "ff", "0x10000000000000000"].map(hash), [Some(255), Some(255), None]);
    }
}
