//! JSON strings to Rust strings.

use std::borrow::Cow;

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
    let unit = |at: usize| -> Option<u32> {
        let hex = text.get(at..at + 4)?;
        hex.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(hex, 16).ok())?
    };
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

    proptest::proptest! {
        #[test]
        fn agrees_with_serde_json(text in ".*") {
            let quoted = serde_json::to_string(&text).unwrap();
            proptest::prop_assert_eq!(unescape(&quoted.as_bytes()[1..quoted.len() - 1]), text);
        }

        #[test]
        fn never_panics(raw: Vec<u8>) {
            unescape(&raw);
        }
    }
}
