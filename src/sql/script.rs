//! Splits SQL text into statements, and recognises PerfettoSQL beyond SQLite's own language.
//!
//! SQLite itself decides where a statement is complete; it knows strings, comments and triggers. This module reads only the first words of a
//! statement, for the few forms that SQLite would reject with a bare syntax error.

use std::ffi::CString;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statement<'a> {
    /// Its byte offset in the whole text; whitespace and comments before it are part of it.
    pub start: usize,
    /// Its text, with the semicolon if there is one.
    pub text: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// For SQLite to run.
    Sql,
    /// `INCLUDE PERFETTO MODULE`, which does nothing here.
    Include,
    /// An unsupported form of PerfettoSQL: its name, and what to write instead.
    Refused(String),
}

/// Whether a text is complete for SQLite: it ends with a semicolon outside strings, comments and triggers.
pub fn is_complete(text: &str) -> bool {
    let Ok(text) = CString::new(text) else { return true };
    // SAFETY: the pointer is to a zero-terminated string that lives through the call, which does not keep it.
    unsafe { rusqlite::ffi::sqlite3_complete(text.as_ptr()) != 0 }
}

/// Splits a text into statements. The last one may lack its semicolon; empty ones are left out.
pub fn statements(text: &str) -> Vec<Statement<'_>> {
    let (mut statements, mut start) = (Vec::new(), 0);
    for (at, _) in text.match_indices(';') {
        let statement = &text[start..=at];
        if is_complete(statement) {
            statements.push(Statement { start, text: statement });
            start = at + 1;
        }
    }
    statements.push(Statement { start, text: &text[start..] });
    statements.retain(|statement| !code(statement.text).is_empty());
    statements
}

impl Statement<'_> {
    /// The byte offset of its first word in the whole text, after whitespace and comments.
    pub fn first_word(&self) -> usize {
        self.start + self.text.len() - code(self.text).len()
    }

    /// Its kind, by its first words.
    pub fn kind(&self) -> Kind {
        let words: Vec<String> = words(code(self.text)).take(6).map(str::to_uppercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["INCLUDE", "PERFETTO", ..] => Kind::Include,
            ["CREATE", "OR", "REPLACE", "PERFETTO", what, ..] | ["CREATE", "PERFETTO", what, ..] => refuse(what),
            ["DROP", "PERFETTO", what, ..] => Kind::Refused(format!(
                "DROP PERFETTO {what} is PerfettoSQL's own; plain DROP TABLE and DROP VIEW drop the tables and views that you have created here"
            )),
            _ => Kind::Sql,
        }
    }
}

fn refuse(what: &str) -> Kind {
    let instead = match what {
        "TABLE" | "VIEW" => format!("write plain SQL: DROP {what} IF EXISTS name; CREATE {what} name AS SELECT …"),
        "INDEX" => "leave it out: the trace's tables have the indexes that they need".to_owned(),
        "FUNCTION" => "write the expression itself, or a view: CREATE VIEW name AS SELECT …".to_owned(),
        "MACRO" => "write out the macro's expansion, or create a view: CREATE VIEW name AS SELECT …".to_owned(),
        _ => "write plain SQL".to_owned(),
    };
    Kind::Refused(format!("CREATE PERFETTO {what} is PerfettoSQL's own; {instead}"))
}

/// Advice for an SQLite error message caused by PerfettoSQL; `None` for other errors.
pub fn advice(message: &str) -> Option<&'static str> {
    let message = message.to_lowercase();
    if message.contains("unrecognized token: \"!\"") {
        return Some("Macros, name!(…), are PerfettoSQL's own; write out the macro's expansion");
    }
    if message.starts_with("no such module: span_") {
        return Some(
            "Span joins are Perfetto's own; join on the times: ON a.ts < b.ts + b.dur AND b.ts < a.ts + a.dur",
        );
    }
    None
}

/// The text without whitespace, comments and empty statements at its beginning.
fn code(text: &str) -> &str {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ';');
        rest = if let Some(comment) = rest.strip_prefix("--") {
            comment.find('\n').map_or("", |end| &comment[end..])
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or("", |end| &comment[end + 2..])
        } else {
            return rest;
        };
    }
}

/// The words at the beginning of a statement, without comments between them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = code(rest);
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        statements(text).iter().map(|statement| statement.text).collect()
    }

    #[test]
    fn statements_end_where_sqlite_says() {
        assert_eq!(texts("SELECT 1; SELECT ';' ; SELECT 2"), ["SELECT 1;", " SELECT ';' ;", " SELECT 2"]);
        assert_eq!(texts("SELECT 1 -- a; b\n; /* c; */ SELECT 2;"), ["SELECT 1 -- a; b\n;", " /* c; */ SELECT 2;"]);
        let trigger = "CREATE TRIGGER t INSTEAD OF INSERT ON v BEGIN SELECT 1; SELECT 2; END;";
        assert_eq!(texts(&format!("{trigger}SELECT 3")), [trigger, "SELECT 3"]);
        assert_eq!(texts(" ;; -- nothing\n ; /* at all */"), Vec::<&str>::new());
        assert_eq!(texts("SELECT 'unfinished; SELECT 2"), ["SELECT 'unfinished; SELECT 2"]);
        assert_eq!(texts("SELECT '\0';"), ["SELECT '\0';"]);
        let offsets: Vec<usize> = statements("SELECT 1;\n-- two\nSELECT 2").iter().map(Statement::first_word).collect();
        assert_eq!(offsets, [0, 17]);
    }

    #[test]
    fn first_words_show_what_is_perfettos_own() {
        let kind = |text| Statement { start: 0, text }.kind();
        assert_eq!(kind("include\n perfetto /* x */ module slices.with_context;"), Kind::Include);
        for (text, what) in [
            (
                "CREATE PERFETTO TABLE t AS SELECT 1",
                "CREATE PERFETTO TABLE is PerfettoSQL's own; write plain SQL: DROP TABLE IF",
            ),
            ("-- c\ncreate or replace perfetto view v as select 1", "CREATE PERFETTO VIEW is PerfettoSQL's own"),
            ("CREATE PERFETTO FUNCTION f() RETURNS INT AS SELECT 1", "write the expression itself"),
            ("CREATE PERFETTO MACRO m() RETURNS Expr AS 1", "write out the macro's expansion"),
            ("CREATE PERFETTO INDEX i ON t(c)", "leave it out"),
            ("DROP PERFETTO TABLE t", "plain DROP TABLE"),
        ] {
            let Kind::Refused(message) = kind(text) else { panic!("{text}") };
            assert!(message.contains(what), "{message}");
        }
        for text in
            ["CREATE TABLE perfetto(a)", "SELECT 1", "", "'CREATE PERFETTO TABLE'", "CREATE VIEW include AS SELECT 1"]
        {
            assert_eq!(kind(text), Kind::Sql, "{text}");
        }
        assert!(advice("unrecognized token: \"!\"").is_some());
        assert!(advice("no such module: SPAN_JOIN").is_some());
        assert_eq!(advice("no such table: x"), None);
    }
}
