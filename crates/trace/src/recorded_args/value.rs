//! Values that are lists: from the rows of a JSON array, or from JSON or Python text.
//!
//! The text may be truncated, so parsing is lenient: single or double quotes, `...` for omissions, words such as `tensor(1.5, device='cuda')`
//! unchanged. Depth, length and text are bounded, because a value may be a megabyte of tensor elements.

use std::fmt;

/// The deepest nesting of lists: tensors have at most 64 dimensions, and lists of them one level more.
const MAX_DEPTH: usize = 66;

/// The maximum number of elements in a value, over all its lists.
const MAX_ELEMENTS: usize = 100_000;

/// The maximum length of a parsed text in bytes.
const MAX_TEXT: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    List(Vec<Value>),
    Int(i64),
    Real(f64),
    /// A text, or a word without quotes.
    Text(String),
    /// An omission: `...`
    Cut,
}

impl Value {
    /// Parses a text. `None` if its brackets or quotes do not match, or if it is too long or nested too deeply.
    pub fn parse(text: &str) -> Option<Value> {
        if text.len() > MAX_TEXT {
            return None;
        }
        let mut parser = Parser { text, at: 0, elements: 0 };
        let value = parser.value(0)?;
        parser.blanks();
        (parser.at == text.len()).then_some(value)
    }

    /// Puts an element at a path of indexes: `[0, 1]` is the second element of the first list. Creates missing lists, and fills the
    /// elements before with empty lists, because a JSON array's empty lists have no rows. Returns whether there was room.
    pub(super) fn put(&mut self, path: &[usize], value: Value) -> bool {
        let Some((first, rest)) = path.split_first() else {
            *self = value;
            return true;
        };
        if path.len() > MAX_DEPTH || *first >= MAX_ELEMENTS {
            return false;
        }
        if !matches!(self, Value::List(_)) {
            *self = Value::List(Vec::new());
        }
        let Value::List(elements) = self else { return false };
        if elements.len() <= *first {
            elements.resize(first + 1, Value::List(Vec::new()));
        }
        elements[*first].put(rest, value)
    }

    pub fn elements(&self) -> Option<&[Value]> {
        if let Value::List(elements) = self { Some(elements) } else { None }
    }

    /// Its numbers, if it is a complete list of whole numbers: the sizes or strides of a tensor.
    pub fn numbers(&self) -> Option<Vec<i64>> {
        self.elements()?
            .iter()
            .map(|element| if let Value::Int(number) = element { Some(*number) } else { None })
            .collect()
    }

    pub fn is_cut(&self) -> bool {
        match self {
            Value::Cut => true,
            Value::List(elements) => elements.iter().any(Value::is_cut),
            _ => false,
        }
    }
}

/// As Python prints it, but without quotes: `[2, 3], [], float`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(number) => write!(f, "{number}"),
            Value::Real(number) => write!(f, "{number}"),
            Value::Text(text) => f.write_str(text),
            Value::Cut => f.write_str("..."),
            Value::List(elements) => {
                f.write_str("[")?;
                for (at, element) in elements.iter().enumerate() {
                    write!(f, "{}{element}", if at > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    elements: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn take(&mut self, token: &str) -> bool {
        let is_next = self.rest().starts_with(token);
        self.at += if is_next { token.len() } else { 0 };
        is_next
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.blanks();
        self.elements += 1;
        if depth > MAX_DEPTH || self.elements > MAX_ELEMENTS {
            return None;
        }
        if self.take("...") || self.take("…") {
            return Some(Value::Cut);
        }
        match self.rest().chars().next()? {
            '[' => self.list(']', depth),
            '(' => self.list(')', depth),
            quote @ ('"' | '\'') => self.quoted(quote).map(Value::Text),
            _ => self.word(),
        }
    }

    fn list(&mut self, close: char, depth: usize) -> Option<Value> {
        self.at += 1;
        let mut elements = Vec::new();
        loop {
            self.blanks();
            if self.take(close.encode_utf8(&mut [0; 4])) {
                return Some(Value::List(elements));
            }
            // Truncated within an element, which shows it already.
            if self.rest().is_empty() && elements.last() == Some(&Value::Cut) {
                return Some(Value::List(elements));
            }
            elements.push(self.value(depth + 1)?);
            self.blanks();
            if !self.take(",") && !self.rest().starts_with(close) && !self.rest().is_empty() {
                return None;
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Option<String> {
        self.at += 1;
        let mut text = String::new();
        let mut is_escaped = false;
        for (offset, c) in self.rest().char_indices() {
            match c {
                _ if is_escaped => {
                    text.push(c);
                    is_escaped = false;
                }
                '\\' => is_escaped = true,
                c if c == quote => {
                    self.at += offset + c.len_utf8();
                    return Some(text);
                }
                c => text.push(c),
            }
        }
        None
    }

    /// A word up to the next comma or closing bracket outside its own brackets and quotes.
    fn word(&mut self) -> Option<Value> {
        let (mut open, mut quoted, mut end) = (Vec::new(), None, self.rest().len());
        for (offset, c) in self.rest().char_indices() {
            match (quoted, c) {
                (Some(quote), c) if c == quote => quoted = None,
                (Some(_), _) => {}
                (None, '"') => quoted = Some(c),
                (None, '\'') if !open.is_empty() => quoted = Some(c),
                (None, '(') => open.push(')'),
                (None, '[') => open.push(']'),
                (None, ')' | ']') if open.pop() == Some(c) => {}
                (None, ',' | ')' | ']') if open.is_empty() => {
                    end = offset;
                    break;
                }
                (None, ')' | ']') => return None,
                (None, _) => {}
            }
        }
        if !open.is_empty() || quoted.is_some() {
            return None;
        }
        let word = self.rest()[..end].trim_end().to_owned();
        self.at += end;
        Some(match (word.parse::<i64>(), word.parse::<f64>()) {
            (Ok(number), _) if number.to_string() == word => Value::Int(number),
            // Numbers that would print differently stay text: long integers, and `1.0`.
            (_, Ok(number)) if number.to_string() == word => Value::Real(number),
            _ if word.is_empty() => return None,
            _ => Value::Text(word),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        Value::parse(text).map_or("malformed".to_owned(), |value| value.to_string())
    }

    #[test]
    fn texts_of_both_profilers_are_read() {
        for (text, want) in [
            ("[[2, 3], [2,3]]", "[[2, 3], [2, 3]]"),
            ("[[],[2],[]]", "[[], [2], []]"),
            ("['Float', 'Float']", "[Float, Float]"),
            (r#"["float", "", "it\"s"]"#, r#"[float, , it"s]"#),
            ("[[50176, 196, 14, 1], ...]", "[[50176, 196, 14, 1], ...]"),
            ("[tensor([[1.0, 2.0], [3.0, 4.0]]), ...]", "[tensor([[1.0, 2.0], [3.0, 4.0]]), ...]"),
            ("[tensor([[...]]), ...]", "[tensor([[...]]), ...]"),
            ("[tensor(1, device='cuda:0'), True]", "[tensor(1, device='cuda:0'), True]"),
            ("(1, 1.5)", "[1, 1.5]"),
            ("[1, 2,]", "[1, 2]"),
            ("[1, 2, …", "[1, 2, ...]"),
            ("  [ 7 ] ", "[7]"),
            ("12345", "12345"),
            (
                "[18446744073709551615, 9007199254740993.0, 1e300, +1, 1.0]",
                "[18446744073709551615, 9007199254740993.0, 1e300, +1, 1.0]",
            ),
            ("don't", "don't"),
            ("forward;encode", "forward;encode"),
        ] {
            assert_eq!(shown(text), want, "{text}");
        }
        for text in ["", "[", "[1, 2", "[1] 2", "['a]", "[(1]", "]", "[,]"] {
            assert_eq!(shown(text), "malformed", "{text}");
        }
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Value::parse(&nested(MAX_DEPTH)).is_some());
        assert!(Value::parse(&nested(1_000)).is_none());
        assert!(Value::parse(&format!("[{}]", "1,".repeat(MAX_ELEMENTS))).is_none());
        assert!(
            Value::parse(&format!("tensor([{}])", "0.25, ".repeat(150_000))).is_some(),
            "a word of 900 kB is one element"
        );
        assert!(Value::parse(&"1".repeat(MAX_TEXT + 1)).is_none());
        let mut value = Value::List(Vec::new());
        assert!(!value.put(&[MAX_ELEMENTS], Value::Int(1)) && !value.put(&[0; MAX_DEPTH + 1], Value::Int(1)));
    }

    #[test]
    fn rows_become_lists() {
        let mut value = Value::List(Vec::new());
        for (path, number) in [(&[1, 0][..], 2), (&[1, 1], 3), (&[3, 0, 0], 4)] {
            assert!(value.put(path, Value::Int(number)));
        }
        assert_eq!(value.to_string(), "[[], [2, 3], [], [[4]]]");
        assert_eq!(value.elements().map(|all| all[1].numbers()), Some(Some(vec![2, 3])));
        assert!(!value.is_cut() && Value::parse("[[...]]").is_some_and(|value| value.is_cut()));
    }
}
