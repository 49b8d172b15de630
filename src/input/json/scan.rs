//! Finding where JSON values end, and walking through the keys of one object, without building anything.

/// How far into a value the search for its end has come; lets the search go on when more text arrives.
#[derive(Debug, Default, Clone, Copy)]
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
            if self.escaped {
                self.escaped = false;
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
    table[b'{' as usize] = true;
    table[b'}' as usize] = true;
    table[b'[' as usize] = true;
    table[b']' as usize] = true;
    table
};

/// A value as it stands in the text.
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

/// The text is not what it should be at this place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SyntaxError;

/// Walks through the members of one object or the elements of one array, given with their brackets.
pub(super) struct Walker<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Walker<'a> {
    pub(super) fn new(container: &'a [u8]) -> Self {
        Walker { text: container, at: 1 }
    }

    /// The next key, still escaped, and its value; `None` at the closing brace. A comma before the brace is let pass, as
    /// Perfetto does.
    pub(super) fn member(&mut self) -> Result<Option<(&'a [u8], Token<'a>)>, SyntaxError> {
        match self.skip_separators()? {
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

    /// The next element; `None` at the closing bracket.
    pub(super) fn element(&mut self) -> Result<Option<Token<'a>>, SyntaxError> {
        if self.skip_separators()? == b']' {
            return Ok(None);
        }
        self.value().map(Some)
    }

    fn skip_space(&mut self) -> Result<u8, SyntaxError> {
        while let Some(&byte) = self.text.get(self.at) {
            if !is_space(byte) {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err(SyntaxError)
    }

    /// Past white space and at most one comma.
    fn skip_separators(&mut self) -> Result<u8, SyntaxError> {
        if self.skip_space()? == b',' {
            self.at += 1;
        }
        self.skip_space()
    }

    fn string(&mut self) -> Result<&'a [u8], SyntaxError> {
        let start = self.at + 1;
        let mut at = start;
        loop {
            at += self
                .text
                .get(at..)
                .and_then(|rest| rest.iter().position(|b| matches!(b, b'"' | b'\\')))
                .ok_or(SyntaxError)?;
            if self.text[at] == b'"' {
                self.at = at + 1;
                return Ok(&self.text[start..at]);
            }
            at += 2;
        }
    }

    fn value(&mut self) -> Result<Token<'a>, SyntaxError> {
        let rest = self.text.get(self.at..).ok_or(SyntaxError)?;
        let token = match rest.first() {
            Some(b'"') => return self.string().map(Token::Text),
            Some(open @ (b'{' | b'[')) => {
                let end = Nesting::default().end(rest).ok_or(SyntaxError)?;
                self.at += end;
                return Ok(if *open == b'{' { Token::Object(&rest[..end]) } else { Token::Array(&rest[..end]) });
            }
            Some(b'-' | b'0'..=b'9') => {
                let end = rest.iter().position(|b| !matches!(b, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'));
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

/// JSON's white space.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_found_wherever_the_text_is_cut() {
        let value = br#"{"a}":[1,{"b":"\"}]\\"}],"c":"]"}"#;
        let text = [&value[..], b", {}"].concat();
        for cut in 0..text.len() {
            let mut nesting = Nesting::default();
            let end = nesting.end(&text[..cut]).or_else(|| nesting.end(&text[cut..]).map(|end| end + cut));
            assert_eq!(end, Some(value.len()), "cut at {cut}");
        }
        assert_eq!(Nesting::default().end(b"\"a\\\"b\" tail"), Some(6));
        assert_eq!(Nesting::default().end(b"{\"a\":1"), None);
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
