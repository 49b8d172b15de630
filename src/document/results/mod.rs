//! The results of SQL statements, one result set after another, in one of three forms. A blank line separates the sets.
//!
//! CSV and JSON are written row by row, so that memory stays flat for results of any size; a table needs all rows first.

mod csv;
mod json;
mod table;
mod unit;

use std::io::{self, Write};

use rusqlite::types::ValueRef;
pub use unit::Unit;

use super::format::count;
use crate::time::Ns;

/// How a result set is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people: aligned columns, no wider than the screen.
    Table {
        /// The columns of the screen; `None` for no limit.
        width: Option<u16>,
    },
    /// For programs: in the form of trace_processor's shell.
    Csv {
        /// Whether it goes to a screen, where control characters must have no effect: they are written as escapes.
        for_screen: bool,
    },
    /// For programs: an array of objects for each set.
    Json,
}

/// How the result set of a named query is shown. The default is a set without titles, and all of its rows.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// A line above a table.
    pub heading: Option<String>,
    pub columns: Vec<Titled>,
    /// What a table shows times since.
    pub origin: Ns,
    /// The number of rows that are written.
    pub limit: Option<usize>,
}

/// The title and unit of a column in a table. Other forms have its name and its values as they are.
#[derive(Debug, Clone)]
pub struct Titled {
    pub name: String,
    pub title: String,
    pub unit: Unit,
}

/// The set that is being written.
enum Open {
    Table(table::Table),
    Csv { for_screen: bool },
    Json(json::Json),
}

pub struct ResultSets<W> {
    out: W,
    form: Form,
    open: Option<Open>,
    begun: usize,
    shown: Shown,
    /// The rows of the open set so far, and of all sets.
    rows: (usize, usize),
}

impl<W: Write> ResultSets<W> {
    pub fn new(out: W, form: Form) -> Self {
        ResultSets { out, form, open: None, begun: 0, shown: Shown::default(), rows: (0, 0) }
    }

    /// Shows the following sets like this.
    pub fn show(&mut self, shown: Shown) {
        self.shown = shown;
    }

    /// The number of rows of all sets so far, including those that a limit leaves out.
    pub fn rows(&self) -> usize {
        self.rows.1
    }

    pub fn begin(&mut self, columns: &[&str]) -> io::Result<()> {
        if self.begun > 0 {
            self.out.write_all(b"\n")?;
        }
        self.begun += 1;
        self.rows.0 = 0;
        if let (Form::Table { .. }, Some(heading)) = (self.form, &self.shown.heading) {
            writeln!(self.out, "{heading}")?;
        }
        self.open = Some(match self.form {
            Form::Table { width } => Open::Table(table::Table::new(columns, &self.shown, width)),
            Form::Csv { for_screen } => {
                csv::header(columns, for_screen, &mut self.out)?;
                Open::Csv { for_screen }
            }
            Form::Json => Open::Json(json::Json::new(columns)),
        });
        Ok(())
    }

    pub fn row(&mut self, values: &[ValueRef<'_>]) -> io::Result<()> {
        self.rows = (self.rows.0 + 1, self.rows.1 + 1);
        if self.shown.limit.is_some_and(|limit| self.rows.0 > limit) {
            return Ok(());
        }
        match &mut self.open {
            Some(Open::Table(table)) => {
                table.row(values);
                Ok(())
            }
            Some(Open::Json(json)) => json.row(values, &mut self.out),
            Some(Open::Csv { for_screen }) => csv::row(values, *for_screen, &mut self.out),
            None => csv::row(values, false, &mut self.out),
        }
    }

    pub fn end(&mut self) -> io::Result<()> {
        match self.open.take() {
            Some(Open::Table(_)) if self.rows.0 == 0 && self.shown.heading.is_some() => writeln!(self.out, "none"),
            Some(Open::Table(table)) => {
                self.out.write_all(table.text().as_bytes())?;
                match self.rows.0.saturating_sub(self.shown.limit.unwrap_or(usize::MAX)) {
                    0 => Ok(()),
                    more => writeln!(self.out, "… and {} more rows", count(more as u64)),
                }
            }
            Some(Open::Json(json)) => json.end(&mut self.out),
            Some(Open::Csv { .. }) | None => Ok(()),
        }
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Bytes as SQL writes them, for forms that have no notation for them: `x'0aff'`.
fn hexadecimal(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("x'{digits}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(form: Form, columns: &[&str], rows: &[&[ValueRef<'_>]]) -> String {
        let mut out = Vec::new();
        let mut sets = ResultSets::new(&mut out, form);
        sets.begin(columns).unwrap();
        rows.iter().for_each(|row| sets.row(row).unwrap());
        sets.end().unwrap();
        String::from_utf8(out).unwrap()
    }

    const ODD: &[&[ValueRef<'_>]] = &[
        &[ValueRef::Integer(i64::MIN), ValueRef::Text(b"a \"b\",\nc\x1b[0m"), ValueRef::Null],
        &[ValueRef::Integer(7), ValueRef::Text(b"5"), ValueRef::Real(5.0)],
        &[ValueRef::Null, ValueRef::Blob(&[0, 255]), ValueRef::Real(f64::NEG_INFINITY)],
    ];

    const CSV: Form = Form::Csv { for_screen: false };

    #[test]
    fn csv_on_a_screen_moves_no_cursor() {
        assert_eq!(
            written(Form::Csv { for_screen: true }, &["n\x1b[2J"], &[&[ValueRef::Text(b"a \"b\",\nc\x1b[0m")]]),
            "\"n\\u{1b}[2J\"\n\"a \"\"b\"\",\\nc\\u{1b}[0m\"\n"
        );
    }

    #[test]
    fn csv_has_a_trace_processors_shape() {
        assert_eq!(
            written(CSV, &["n", "a \"name\"", "n"], ODD),
            "\"n\",\"a \"\"name\"\"\",\"n\"\n-9223372036854775808,\"a \"\"b\"\",\nc\u{1b}[0m\",\"[NULL]\"\n\
             7,\"5\",5.0\n\"[NULL]\",\"x'00ff'\",-inf\n"
        );
        assert_eq!(written(CSV, &["n"], &[]), "\"n\"\n");
    }

    #[test]
    fn json_loses_nothing() {
        assert_eq!(
            written(Form::Json, &["n", "a \"name\"", "n"], ODD),
            "[\n{\"n\":-9223372036854775808,\"a \\\"name\\\"\":\"a \\\"b\\\",\\nc\\u001b[0m\",\"n:1\":null},\n\
             {\"n\":7,\"a \\\"name\\\"\":\"5\",\"n:1\":5.0},\n\
             {\"n\":null,\"a \\\"name\\\"\":\"x'00ff'\",\"n:1\":-9e999}\n]\n"
        );
        assert_eq!(written(Form::Json, &["n"], &[]), "[]\n");
        assert_eq!(
            written(Form::Json, &["n", "n", "n:1", "n"], &[&[ValueRef::Integer(1); 4]]),
            "[\n{\"n\":1,\"n:2\":1,\"n:1\":1,\"n:3\":1}\n]\n"
        );
    }

    #[test]
    fn tables_line_up() {
        let line = |n: &str, text: &str, last: &str| format!("{n:>20}  {text:<18}  {last:>6}\n");
        let want = [
            line("n", "text", "n"),
            format!("{}\n", "─".repeat(48)),
            line("-9223372036854775808", "a \"b\",\\nc\\u{1b}[0m", "[NULL]"),
            line("7", "5", "5.0"),
            line("[NULL]", "x'00ff'", "-inf"),
        ];
        assert_eq!(written(Form::Table { width: None }, &["n", "text", "n"], ODD), want.concat());
        assert_eq!(written(Form::Table { width: None }, &["n"], &[]), "n\n─\n");
    }

    #[test]
    fn tables_fit_the_screen() {
        let name = "torch/distributed/distributed_c10d.py(2930): all_reduce".repeat(3);
        let row = [ValueRef::Integer(1_234_567_890), ValueRef::Text(name.as_bytes())];
        let text = written(Form::Table { width: Some(60) }, &["ts", "name"], &[&row]);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(text.contains("1234567890") && text.lines().count() > 3, "{text}");
    }

    #[test]
    fn rows_become_records_where_the_screen_is_too_narrow() {
        let row = [ValueRef::Integer(7), ValueRef::Text(b"a text that is long enough"), ValueRef::Null];
        let columns = ["id", "name", "thread_instruction_count"];
        let text = written(Form::Table { width: Some(46) }, &columns, &[&row, &row]);
        let record = "id                        7\n\
                      name                      a text that is long\n\
                      \u{20}                         enough\n\
                      thread_instruction_count  [NULL]\n";
        assert_eq!(text, format!("── row 1 ──\n{record}── row 2 ──\n{record}"));
        assert!(written(Form::Table { width: Some(52) }, &columns, &[&row]).starts_with("id  name"));
    }
}
