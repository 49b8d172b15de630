//! CSV that spreadsheet programs open.

/// CSV in which no cell starts like a spreadsheet formula, with `=`, `+`, `-`, `@`, a tab or a carriage return: such a cell gets a leading `'`,
/// which marks it as text. Numbers stay as they are.
pub fn without_formulas(csv: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(csv.len());
    let mut rest = csv;
    while !rest.is_empty() {
        let quotes = usize::from(rest[0] == b'"');
        let end = cell_end(rest);
        let text = &rest[quotes..end];
        let is_number = || std::str::from_utf8(text).is_ok_and(|text| text.parse::<f64>().is_ok());
        let begins = text.first().is_some_and(|first| b"=+-@\t\r".contains(first));
        out.extend_from_slice(&rest[..quotes]);
        if begins && !is_number() {
            out.push(b'\'');
        }
        // Includes the separator.
        let next = (end + 1).min(rest.len());
        out.extend_from_slice(&rest[quotes..next]);
        rest = &rest[next..];
    }
    out
}

/// The length of the cell at the start of `csv`: it ends at the first comma or line end outside quotes.
fn cell_end(csv: &[u8]) -> usize {
    let mut is_quoted = false;
    let is_end = |byte: &u8| {
        is_quoted ^= *byte == b'"';
        !is_quoted && matches!(byte, b',' | b'\n')
    };
    csv.iter().position(is_end).unwrap_or(csv.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_become_texts() {
        let guarded = |text: &str| String::from_utf8(without_formulas(text.as_bytes())).unwrap();
        for (csv, want) in [
            ("a,=1+1,-5\n", "a,'=1+1,-5\n"),
            ("=a\n@b\n+c\n-d", "'=a\n'@b\n'+c\n'-d"),
            ("\"=a,\"\"b\"\"\n=c\",\"d,=e\"\n", "\"'=a,\"\"b\"\"\n=c\",\"d,=e\"\n"),
            // In quotes it is text even if it looks like a number.
            ("-1.5e9,+3,-inf,--5,\"-7\"\n", "-1.5e9,+3,-inf,'--5,\"'-7\"\n"),
            ("\tx,,\"\"\n\n", "'\tx,,\"\"\n\n"),
            ("", ""),
        ] {
            assert_eq!(guarded(csv), want);
        }
    }
}
