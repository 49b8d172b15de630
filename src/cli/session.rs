//! Answers SQL statements one after the other, with errors that have a position and a suggestion.

use std::cell::{Cell, RefCell};
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::document::format::visible;
use crate::document::results::{Form, ResultSets};
use crate::sql::Database;
use crate::sql::absent::why_empty;
use crate::sql::catalog::Catalog;
use crate::sql::restrict::{NO_FILES, Watch};
use crate::sql::script::{self, Kind};
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Batch, ErrorCode, Statement};

use super::failure::Failure;
use super::interrupt::catch;
use super::output::not_written;
use super::stop::Stop;
use super::terminal::say;

/// A database that answers statements, and what it has answered so far.
pub(super) struct Session<'a> {
    pub(super) database: &'a Database,
    watch: Watch,
    /// Whether the user wants the running query to stop.
    is_interrupted: Arc<AtomicBool>,
    /// Whether a Perfetto module was included. Modules have fewer tables here than in Perfetto.
    included: Cell<bool>,
    /// The values of the parameters of all that is answered next.
    pub(super) params: RefCell<Vec<(String, Value)>>,
}

/// A statement and its position in the text, for messages.
struct Located<'a> {
    text: &'a str,
    piece: script::Statement<'a>,
    number: usize,
}

impl<'a> Session<'a> {
    /// A session on a database, whose statements are watched. From now on, Ctrl-C stops a running query.
    pub(super) fn new(database: &'a mut Database) -> Result<Self, Stop> {
        let watch = database.restrict()?;
        let is_interrupted = catch(database.connection().get_interrupt_handle());
        Ok(Session { database, watch, is_interrupted, included: Cell::new(false), params: RefCell::default() })
    }

    /// Writes the answers to all statements of a text to standard output, with at most `most` rows each.
    pub(super) fn to_stdout(&self, text: &str, form: Form, most: Option<usize>) -> Result<(), Stop> {
        let mut sets = ResultSets::new(BufWriter::new(io::stdout().lock()), form);
        let result = self.answer(text, &mut sets, most);
        // Answers before an error are printed all the same.
        let flushed = sets.flush().map_err(not_written);
        result.and(flushed)
    }

    /// The same for any writer.
    pub(super) fn answer(
        &self,
        text: &str,
        sets: &mut ResultSets<impl Write>,
        most: Option<usize>,
    ) -> Result<(), Stop> {
        self.is_interrupted.store(false, Ordering::SeqCst);
        for (i, piece) in script::statements(text).into_iter().enumerate() {
            let located = Located { text, piece, number: i + 1 };
            match piece.kind() {
                Kind::Include => self.included.set(true),
                Kind::Refused(message) => return Err(located.error(message, None)),
                Kind::Sql => {
                    let mut batch = Batch::new(self.database.connection(), piece.text);
                    while let Some(mut statement) = batch.next().map_err(|e| self.failed(&located, e))? {
                        self.note_empty_tables();
                        self.statement(&mut statement, &located, sets, most)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn bind(&self, statement: &mut Statement<'_>, located: &Located<'_>) -> Result<(), Stop> {
        for at in 1..=statement.parameter_count() {
            let name = statement.parameter_name(at).unwrap_or("?").to_owned();
            let params = self.params.borrow();
            let Some((_, value)) = params.iter().find(|(known, _)| name.get(1..) == Some(known)) else {
                let why = format!(
                    "{name} is a parameter without a value; write the value itself, or use --query and --param"
                );
                return Err(located.error(why, None));
            };
            statement.raw_bind_parameter(at, value).map_err(|error| self.failed(located, error))?;
        }
        Ok(())
    }

    fn statement(
        &self,
        statement: &mut Statement<'_>,
        located: &Located<'_>,
        sets: &mut ResultSets<impl Write>,
        most: Option<usize>,
    ) -> Result<(), Stop> {
        self.bind(statement, located)?;
        let failed = |error| self.failed(located, error);
        let columns = statement.column_count();
        if columns == 0 {
            return statement.raw_execute().map(drop).map_err(failed);
        }
        let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut rows = statement.raw_query();
        // Only fetching the first row shows whether the statement runs at all.
        let mut next = rows.next().map_err(failed)?;
        sets.begin(&names.iter().map(String::as_str).collect::<Vec<_>>()).map_err(not_written)?;
        let mut count = 0;
        while let Some(row) = next {
            if self.is_interrupted.load(Ordering::SeqCst) {
                return Err(Stop::Interrupted);
            }
            if most == Some(count) {
                sets.end().and_then(|()| sets.flush()).map_err(not_written)?;
                say(&format!(
                    "Note: only the first {count} rows are shown; given as an argument, a query shows all of them"
                ));
                return Ok(());
            }
            let values: Result<Vec<ValueRef<'_>>, _> = (0..columns).map(|i| row.get_ref(i)).collect();
            sets.row(&values.map_err(failed)?).map_err(not_written)?;
            count += 1;
            next = rows.next().map_err(failed)?;
        }
        sets.end().map_err(not_written)
    }

    fn note_empty_tables(&self) {
        for table in self.watch.take().absent {
            if let Some(why) = why_empty(&table, self.database.store()) {
                say(&format!("Note: {why}"));
            }
        }
    }

    /// An error of SQLite with its position and a suggestion.
    fn failed(&self, located: &Located<'_>, error: rusqlite::Error) -> Stop {
        if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) {
            return Stop::Interrupted;
        }
        let refused = self.watch.take().refused;
        let (message, at) = match error {
            rusqlite::Error::SqlInputError { msg, sql, offset, .. } => {
                let end = located.piece.start + located.piece.text.len();
                (msg, usize::try_from(offset).ok().and_then(|offset| end.checked_sub(sql.len())?.checked_add(offset)))
            }
            rusqlite::Error::SqliteFailure(_, Some(message)) => (message, None),
            other => (other.to_string(), None),
        };
        if let Some(reason) = refused {
            let flag = if reason == NO_FILES { "; --output writes an answer" } else { "" };
            return located.error(format!("{reason}{flag}"), None);
        }
        let mut text = visible(&message).into_owned();
        text.push_str(&at.map_or(String::new(), |at| located.caret(at)));
        if let Some(advice) = script::advice(&message) {
            return located.error(text, Some(advice.to_owned()));
        }
        let catalog = Catalog::read(self.database).unwrap_or_default();
        let advice =
            catalog.nearest(&message, located.piece.text).map(|name| format!("Did you mean {}?", visible(name)));
        let of_module = (self.included.get() && message.starts_with("no such table"))
            .then(|| "INCLUDE PERFETTO MODULE only brings the tables of slices.with_context here".to_owned());
        located.error(text, advice.or(of_module))
    }
}

impl Located<'_> {
    fn error(&self, message: String, advice: Option<String>) -> Stop {
        let line = 1 + self.text[..self.piece.first_word()].matches('\n').count();
        let message = match advice {
            Some(advice) => format!("{message}\n{advice}"),
            None => message,
        };
        Stop::Failed(Failure::Statement { number: self.number, line, message })
    }

    /// The line at an offset of the text, with a mark under the column.
    fn caret(&self, at: usize) -> String {
        /// How many characters of a long line are shown: before the mark, and in total.
        const BEFORE: usize = 50;
        const SHOWN: usize = 100;
        let Some(before) = self.text.get(..at) else { return String::new() };
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = self.text[start..].lines().next().unwrap_or_default();
        let column = before[start..].chars().count();
        let skipped = column.saturating_sub(BEFORE);
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let shown: String = line.chars().skip(skipped).take(SHOWN).map(plain).collect();
        format!("\n  {}\n  {}^", shown.trim_end(), " ".repeat(column - skipped))
    }
}
