//! Sizes in bytes, as users type them.

/// The units, each 1024 of the one before it.
const UNITS: [&str; 5] = ["", "k", "m", "g", "t"];

/// Parses a number of bytes: `1000`, `512M`, `1.5G`, `64 GiB`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let expected = || format!("`{text}` is not a size; write bytes, or a number with K, M, G or T: 512M, 64G");
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len()));
    let unit = unit.to_ascii_lowercase();
    let unit = unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit);
    let power = UNITS.iter().position(|known| *known == unit).ok_or_else(expected)?;
    let scale = 1024_u64.pow(power as u32);
    let number = number.trim();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = whole.parse().map_err(|_| expected())?;
    let part = match fraction {
        "" if !number.ends_with('.') => 0,
        _ if power == 0 => return Err(expected()),
        // Nobody types more than nine digits.
        _ if !fraction.is_empty() && fraction.len() <= 9 && fraction.bytes().all(|b| b.is_ascii_digit()) => {
            let digits: u64 = fraction.parse().map_err(|_| expected())?;
            (u128::from(digits) * u128::from(scale) / 10_u128.pow(fraction.len() as u32)) as u64
        }
        _ => return Err(expected()),
    };
    whole.checked_mul(scale).and_then(|bytes| bytes.checked_add(part)).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, want) in [
            ("0", 0),
            ("1000", 1000),
            ("1k", 1024),
            ("512M", 512 << 20),
            ("64G", 64 << 30),
            ("64 GiB", 64 << 30),
            ("64GB", 64 << 30),
            ("1.5G", 3 << 29),
            ("16777215T", 16_777_215 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(want), "{text}");
        }
        let wrong = " G -1 1.5 1. 1.x5M 1,5G 5P 16777216T 1e9 99999999999999999999 1.0000000001G";
        for text in wrong.split(' ') {
            assert!(parse_size(text).unwrap_err().contains("512M"), "{text}");
        }
    }
}
