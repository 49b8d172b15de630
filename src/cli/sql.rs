//! `nccl-stacks sql`: statements in, result sets out.

use std::cell::Cell;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::Path;

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::types::ValueRef;
use rusqlite::{Batch, ErrorCode, Statement};

use super::args::{Sql, TableFormat};
use super::interrupt::Interrupts;
use super::output::Output;
use super::{Stop, notes, opening, prompt, say};
use crate::error::Error;
use crate::event::ArgsWanted;
use crate::report::results::{Form, ResultSets};
use crate::report::text::visible;
use crate::sql::Database;
use crate::sql::absent::why_empty;
use crate::sql::catalog::Catalog;
use crate::sql::restrict::Watch;
use crate::sql::script::{self, Kind};

pub(super) fn run(args: &Sql) -> Result<(), Stop> {
    let query = query(args)?;
    let output = Output::open(args.output.as_deref(), &opening::inputs(&args.trace, &args.file))?;
    let options = opening::options(&args.reading, ArgsWanted::All);
    let mut database = opening::open(&args.trace, &args.reading, options)?;
    let watch = database.restrict()?;
    let interrupts = Interrupts::catch(database.connection().get_interrupt_handle());
    let session = Session { database: &database, watch, interrupts, included: Cell::new(false) };
    let form = form(args.format, matches!(output, Output::Stdout));
    let Some(query) = query else {
        notes::damage(database.store());
        return prompt::run(&session, form);
    };
    if let Output::Stdout = output {
        session.to_stdout(&query, form, None)?;
    } else {
        let mut answer = Vec::new();
        session.answer(&query, &mut ResultSets::new(&mut answer, form), None)?;
        output.finish(&answer)?;
    }
    notes::damage(database.store());
    Ok(())
}

/// What is asked; `None` if a person is to be asked for it.
fn query(args: &Sql) -> Result<Option<String>, Stop> {
    let read = |source: &Path| {
        if source != Path::new("-") {
            let failed = |error| Stop::Failed(Error::Read { name: source.display().to_string(), source: error });
            return std::fs::read_to_string(source).map_err(failed);
        }
        if args.trace == Path::new("-") {
            return Err(Stop::Usage(
                "the trace comes from standard input, so the query has to be an argument or a file".to_owned(),
            ));
        }
        let mut text = String::new();
        let failed = |error| Stop::Failed(Error::Read { name: "standard input".to_owned(), source: error });
        io::stdin().read_to_string(&mut text).map_err(failed)?;
        Ok(text)
    };
    let is_person = io::stdin().is_terminal() && args.trace != Path::new("-");
    let text = match (&args.query, &args.file) {
        (Some(query), _) => query.clone(),
        (None, Some(file)) => read(file)?,
        (None, None) if !is_person => read(Path::new("-"))?,
        (None, None) if io::stdout().is_terminal() && args.output.is_none() => return Ok(None),
        (None, None) => {
            return Err(Stop::Usage(
                "there is no query: write it behind the trace, or name a file of it with --file".to_owned(),
            ));
        }
    };
    if script::statements(&text).is_empty() {
        return Err(Stop::Usage(
            "the query is empty; write it behind the trace, name a file of it with --file, or pass it on standard input".to_owned(),
        ));
    }
    Ok(Some(text))
}

fn form(asked: Option<TableFormat>, to_stdout: bool) -> Form {
    let on_screen = to_stdout && io::stdout().is_terminal();
    match asked {
        Some(TableFormat::Csv) => Form::Csv,
        Some(TableFormat::Json) => Form::Json,
        None if !on_screen => Form::Csv,
        Some(TableFormat::Table) | None => {
            let size = if on_screen { terminal_size::terminal_size_of(io::stdout()) } else { None };
            Form::Table { width: size.map(|(width, _)| width.0) }
        }
    }
}

/// A database that answers statements, and what is known about those that it has answered.
pub(super) struct Session<'a> {
    pub(super) database: &'a Database,
    watch: Watch,
    interrupts: Interrupts,
    /// Whether a module has been included, which brings less here than in Perfetto.
    included: Cell<bool>,
}

/// Where a statement stands, for messages.
struct Place<'a> {
    text: &'a str,
    piece: script::Statement<'a>,
    number: usize,
}

impl Session<'_> {
    /// Answers all statements of a text on standard output; of each no more than `most` rows.
    pub(super) fn to_stdout(&self, text: &str, form: Form, most: Option<usize>) -> Result<(), Stop> {
        let mut sets = ResultSets::new(BufWriter::new(io::stdout().lock()), form);
        let result = self.answer(text, &mut sets, most);
        // What was answered before an error is an answer all the same.
        let flushed = sets.flush().map_err(not_written);
        result.and(flushed)
    }

    /// The same to any writer.
    fn answer(&self, text: &str, sets: &mut ResultSets<impl Write>, most: Option<usize>) -> Result<(), Stop> {
        self.interrupts.reset();
        for (i, piece) in script::statements(text).into_iter().enumerate() {
            let place = Place { text, piece, number: i + 1 };
            match piece.kind() {
                Kind::Include => self.included.set(true),
                Kind::Refused(message) => return Err(place.error(message, None)),
                Kind::Sql => {
                    let mut batch = Batch::new(self.database.connection(), piece.text);
                    while let Some(mut statement) = batch.next().map_err(|e| self.failed(&place, e))? {
                        self.tell_of_empty_tables();
                        self.statement(&mut statement, &place, sets, most)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn statement(
        &self,
        statement: &mut Statement<'_>,
        place: &Place<'_>,
        sets: &mut ResultSets<impl Write>,
        most: Option<usize>,
    ) -> Result<(), Stop> {
        if statement.parameter_count() > 0 {
            let name = statement.parameter_name(1).unwrap_or("?").to_owned();
            return Err(place.error(format!("{name} is a parameter without a value; write the value itself"), None));
        }
        let failed = |error| self.failed(place, error);
        let columns = statement.column_count();
        if columns == 0 {
            return statement.raw_execute().map(drop).map_err(failed);
        }
        let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut rows = statement.raw_query();
        // Only with the first row is it known that the statement can be run at all.
        let mut next = rows.next().map_err(failed)?;
        sets.begin(&names.iter().map(String::as_str).collect::<Vec<_>>()).map_err(not_written)?;
        let mut count = 0;
        while let Some(row) = next {
            if self.interrupts.wanted() {
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

    fn tell_of_empty_tables(&self) {
        for table in self.watch.take().absent {
            if let Some(why) = why_empty(&table, self.database.store()) {
                say(&format!("Note: {why}"));
            }
        }
    }

    /// An error of SQLite's as a person needs it: where, what, and what may have been meant.
    fn failed(&self, place: &Place<'_>, error: rusqlite::Error) -> Stop {
        if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) {
            return Stop::Interrupted;
        }
        let refused = self.watch.take().refused;
        let (message, at) = match error {
            rusqlite::Error::SqlInputError { msg, sql, offset, .. } => {
                let end = place.piece.start + place.piece.text.len();
                (msg, usize::try_from(offset).ok().and_then(|offset| end.checked_sub(sql.len())?.checked_add(offset)))
            }
            rusqlite::Error::SqliteFailure(_, Some(message)) => (message, None),
            other => (other.to_string(), None),
        };
        if let Some(reason) = refused {
            return place.error(reason, None);
        }
        let mut text = visible(&message).into_owned();
        text.push_str(&at.map_or(String::new(), |at| place.caret(at)));
        if let Some(advice) = script::advice(&message) {
            return place.error(text, Some(advice.to_owned()));
        }
        let catalog = Catalog::read(self.database).unwrap_or_default();
        let advice = catalog.nearest(&message, place.piece.text).map(|name| format!("Did you mean {}?", visible(name)));
        let of_module = (self.included.get() && message.starts_with("no such table"))
            .then(|| "INCLUDE PERFETTO MODULE brings no tables here but those of slices.with_context".to_owned());
        place.error(text, advice.or(of_module))
    }
}

impl Place<'_> {
    fn error(&self, message: String, advice: Option<String>) -> Stop {
        let line = 1 + self.text[..self.piece.first_word()].matches('\n').count();
        let message = match advice {
            Some(advice) => format!("{message}\n{advice}"),
            None => message,
        };
        Stop::Failed(Error::Statement { number: self.number, line, message })
    }

    /// The line at a byte of the text, and below it a mark under this place.
    fn caret(&self, at: usize) -> String {
        /// How much of a long line is shown before the place, and in all.
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

fn not_written(error: io::Error) -> Stop {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Stop::NobodyListens,
        _ => Stop::Failed(Error::Stdout(error)),
    }
}
