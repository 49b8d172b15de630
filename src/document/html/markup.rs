//! Text as HTML. Names come from traces, which anybody can write, so everything that is written here is escaped.

use std::borrow::Cow;

use crate::document::format::{is_hidden, visible};

/// A text between tags or in a double-quoted attribute.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// A sentence: what is between two backticks is code. A backtick without another is a letter.
pub(crate) fn sentence(text: &str) -> String {
    let mut written = escape(&visible(text)).into_owned();
    while let Some((before, rest)) = written.split_once('`')
        && let Some((code, after)) = rest.split_once('`')
    {
        written = format!("{before}<code>{code}</code>{after}");
    }
    written
}

/// A name from a trace: visible, and isolated from the direction of the surrounding text.
pub(crate) fn name(name: &str) -> String {
    format!("<bdi>{}</bdi>", escape(&visible(name)))
}

/// JSON inside a script: whatever could end the script, and invisible characters, are escaped.
pub(crate) fn json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '<' || is_hidden(c) {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}")));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_be_markup() {
        assert_eq!(escape("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
        assert_eq!(json("[\"</script>\u{202e}\u{e0041}\"]"), "[\"\\u003c/script>\\u202e\\udb40\\udc41\"]");
        assert_eq!(sentence("`a<b>` or `c`, not `"), "<code>a&lt;b&gt;</code> or <code>c</code>, not `");
        assert_eq!(name("</script>\u{202e}\n"), "<bdi>&lt;/script&gt;\\u{202e}\\n</bdi>");
    }
}
