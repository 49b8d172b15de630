//! Strings in JSON.

use core::fmt::{self, Write as _};

/// Bytes as the contents of a JSON string. Invalid UTF-8 becomes `?`.
pub(crate) struct Escaped<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.utf8_chunks() {
            for letter in part.valid().chars() {
                match letter {
                    '"' => f.write_str("\\\"")?,
                    '\\' => f.write_str("\\\\")?,
                    control if control < ' ' => write!(f, "\\u{:04x}", u32::from(control))?,
                    letter => f.write_char(letter)?,
                }
            }
            if !part.invalid().is_empty() {
                f.write_char('?')?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn every_byte_has_a_place_in_json() {
        assert_eq!(Escaped(b"a\"b\\c\n\xff\xc3\xa9").to_string(), "a\\\"b\\\\c\\u000a?\u{e9}");
    }
}
