//! Finding where JSON values end, and walking through the keys of one object, without building anything.

use super::marks::Marks;
use super::number::is_part;

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
    /// With its braces.
    Object(&'a [u8]),
    /// With its brackets.
    Array(&'a [u8]),
    True,
    False,
    Null,
}

/// The text is not JSON here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SyntaxError;

/// Finds where strings and containers end.
pub(super) trait Find {
    /// The next quote at or after a byte within a string: its end.
    fn quote(&mut self, text: &[u8], from: usize) -> Option<usize>;
    /// The byte after the container that begins at a byte.
    fn container_end(&mut self, text: &[u8], at: usize) -> Option<usize>;
}

/// Finds by walking: for small pieces of text without marks.
pub(super) struct Walking;

impl Find for Walking {
    fn quote(&mut self, text: &[u8], from: usize) -> Option<usize> {
        let mut at = from;
        loop {
            at += text.get(at..)?.iter().position(|b| matches!(b, b'"' | b'\\'))?;
            if text[at] == b'"' {
                return Some(at);
            }
            at += 2;
        }
    }

    fn container_end(&mut self, text: &[u8], at: usize) -> Option<usize> {
        Some(at + Nesting::default().end(text.get(at..)?)?)
    }
}

impl Find for &mut Marks {
    #[inline]
    fn quote(&mut self, text: &[u8], from: usize) -> Option<usize> {
        Marks::quote(self, text, from)
    }

    #[inline]
    fn container_end(&mut self, text: &[u8], at: usize) -> Option<usize> {
        Marks::container_end(self, text, at)
    }
}

/// Whether each bracket of a container is closed by one of its own kind. Its end was found by counting brackets of either kind, which is
/// all that is asked of most events.
pub(super) fn pairs_its_brackets(container: &[u8]) -> bool {
    let (mut open, mut at) = (Vec::new(), 0);
    while let Some(&byte) = container.get(at) {
        at += 1;
        match byte {
            b'"' => match Walking.quote(container, at) {
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
pub(super) struct Walker<'a, F> {
    text: &'a [u8],
    at: usize,
    find: F,
    /// Whether something was read already, and whether a comma was missing or stray.
    is_after_first: bool,
    has_wrong_commas: bool,
}

impl<'a> Walker<'a, Walking> {
    /// Walks through a container given with its brackets.
    pub(super) fn new(container: &'a [u8]) -> Self {
        Walker { text: container, at: 1, find: Walking, is_after_first: false, has_wrong_commas: false }
    }
}

impl<'a, 'm> Walker<'a, &'m mut Marks> {
    /// Walks through the container that begins at a byte of a marked text, which ends with the container.
    pub(super) fn marked(text: &'a [u8], at: usize, marks: &'m mut Marks) -> Self {
        Walker { text, at: at + 1, find: marks, is_after_first: false, has_wrong_commas: false }
    }
}

impl<'a, F: Find> Walker<'a, F> {
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
        let end = self.find.quote(self.text, start).ok_or(SyntaxError)?;
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
                let end = self.find.container_end(self.text, self.at).ok_or(SyntaxError)?;
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
    let mut walker = Walker { text, at, find: marks, is_after_first: false, has_wrong_commas: false };
    if walker.skip_space()? != b':' {
        return Err(SyntaxError);
    }
    walker.at += 1;
    walker.skip_space()?;
    let value = walker.value()?;
    Ok((value, walker.at))
}

/// JSON's white space.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_found_wherever_the_text_is_divided() {
        let value = br#"{"a}":[1,{"b":"\"}]\\"}],"c":"]"}"#;
        let text = [&value[..], b", {}"].concat();
        for cut in 0..text.len() {
            let mut nesting = Nesting::default();
            let end = nesting.end(&text[..cut]).or_else(|| nesting.end(&text[cut..]).map(|end| end + cut));
            assert_eq!(end, Some(value.len()), "divided at {cut}");
        }
        assert_eq!(Nesting::default().end(b"\"a\\\"b\" tail"), Some(6));
        assert_eq!(Nesting::default().end(b"{\"a\":1"), None);
    }

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
    fn members_and_elements_come_in_order() {
        let mut walker = Walker::new(br#"{ "a" : -1.5e3 , "b\"" : [1, "x",] , "c":null,"d":true,"e":false, }"#);
        assert_eq!(walker.member(), Ok(Some((&b"a"[..], Token::Number(b"-1.5e3")))));
        let Ok(Some((key, Token::Array(array)))) = walker.member() else { panic!() };
        assert_eq!(key, br#"b\""#);
        let mut inner = Walker::new(array);
        assert_eq!(inner.element(), Ok(Some(Token::Number(b"1"))));
        assert_eq!(inner.element(), Ok(Some(Token::Text(b"x"))));
        assert_eq!(inner.element(), Ok(None));
        assert_eq!(walker.member(), Ok(Some((&b"c"[..], Token::Null))));
        assert_eq!(walker.member(), Ok(Some((&b"d"[..], Token::True))));
        assert_eq!(walker.member(), Ok(Some((&b"e"[..], Token::False))));
        assert_eq!(walker.member(), Ok(None));
    }

    #[test]
    fn marked_text_is_walked_alike() {
        let text = br#"[{"skipped":1}, {"a":"x\"}","b":{"c":[1,"]"]},"d":[{}],"e":12}]"#;
        let mut marks = Marks::default();
        let end = marks.container_end(text, 16).unwrap();
        assert_eq!(end, text.len() - 1);
        let mut marked = Walker::marked(&text[..end], 16, &mut marks);
        let mut plain = Walker::new(&text[16..end]);
        for _ in 0..5 {
            assert_eq!(marked.member(), plain.member());
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

    #[test]
    fn broken_objects_are_errors_and_never_panics() {
        for text in [
            &br#"{"a" 1}"#[..],
            br#"{"a":}"#,
            br#"{a:1}"#,
            br#"{"a":NaN}"#,
            br#"{"a"#,
            b"{",
            br#"{"a\"#,
            br#"{"a":tru}"#,
        ] {
            let mut walker = Walker::new(text);
            let end = loop {
                match walker.member() {
                    Ok(Some(_)) => {}
                    other => break other,
                }
            };
            assert_eq!(end, Err(SyntaxError), "{}", String::from_utf8_lossy(text));
        }
    }
}
