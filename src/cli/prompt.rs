//! The prompt for SQL on a terminal: a line editor with a history, completion of names, and statements over several lines.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use crate::document::results::Form;
use crate::sql::catalog::Catalog;
use crate::sql::script::is_complete;

use super::config::own_folder;
use super::failure::Failure;
use super::session::Session;
use super::stop::Stop;
use super::terminal::say;

/// How many rows of one answer are shown. Nobody reads more on a screen.
const MOST_ROWS: usize = 1000;

const HELP: &str = "\
Write SQL, ended with a semicolon; it may take several lines. Tab completes names of tables, columns and functions.
  .tables           the tables and views
  .schema [TABLE]   their columns
  .help             this
  .quit             leave (also quit, exit, Ctrl-D)
Ctrl-C stops a query that runs, and drops one that is being written.";

const KEYWORDS: &str = "\
    SELECT, FROM, WHERE, GROUP BY, ORDER BY, LIMIT, OFFSET, HAVING, JOIN, LEFT JOIN, ON, USING, AS, AND, OR, NOT, IN, IS, \
    NULL, LIKE, GLOB, REGEXP, BETWEEN, CASE, WHEN, THEN, ELSE, END, DISTINCT, UNION ALL, WITH, RECURSIVE, OVER, PARTITION \
    BY, ASC, DESC, CREATE, TABLE, VIEW, DROP, EXPLAIN QUERY PLAN, EXISTS, CAST, VALUES";

/// Reads and answers statements until the user leaves.
pub(super) fn run(session: &Session<'_>, form: Form) -> Result<(), Stop> {
    let catalog = Rc::new(RefCell::new(Catalog::read(session.database)?));
    let config = Config::builder().completion_type(CompletionType::List).build();
    let mut editor: Editor<Assistant, FileHistory> = Editor::with_config(config).map_err(failed)?;
    editor.set_helper(Some(Assistant { catalog: Rc::clone(&catalog), before: String::new() }));
    let history = history();
    if let Some(path) = &history {
        // The first time, there is no history.
        let _ = editor.load_history(path);
    }
    say("SQL statements end with a semicolon; .help shows more, .quit leaves.");
    loop {
        let Some(text) = read(&mut editor)? else { return Ok(()) };
        if text.is_empty() {
            continue;
        }
        let _ = editor.add_history_entry(text.as_str());
        if let Some(path) = &history {
            // If the history cannot be written, it is lost after this run.
            let _ = editor.append_history(path);
        }
        match text.trim().strip_prefix('.') {
            Some(command) => say(&dot_command(command, &catalog.borrow())),
            None => {
                match session.to_stdout(&text, form, Some(MOST_ROWS)) {
                    Ok(()) => {}
                    Err(Stop::Failed(Failure::Stdout(error))) => return Err(Failure::Stdout(error).into()),
                    Err(Stop::Failed(error)) => say(&format!("error: {error}")),
                    Err(Stop::Interrupted) => say("Interrupted."),
                    Err(other) => return Err(other),
                }
                catalog.replace(Catalog::read(session.database)?);
            }
        }
    }
}

fn failed(error: ReadlineError) -> Stop {
    Stop::Usage(format!("the terminal cannot be read ({error}); write the query as an argument"))
}

/// Reads lines until they are a command with a dot, or whole statements. In the middle of one, the prompt is another. Empty where Ctrl-C dropped
/// statements; `None` where the user wants to leave.
fn read(editor: &mut Editor<Assistant, FileHistory>) -> Result<Option<String>, Stop> {
    let mut text = String::new();
    loop {
        if let Some(assistant) = editor.helper_mut() {
            assistant.before.clone_from(&text);
        }
        let line = match editor.readline(if text.is_empty() { "sql> " } else { "...> " }) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => return Ok(Some(String::new())),
            Err(ReadlineError::Eof) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        if leaves(&line) {
            return Ok(None);
        }
        if text.is_empty() && line.trim().is_empty() {
            return Ok(Some(text));
        }
        let is_command = text.is_empty() && line.trim_start().starts_with('.');
        text.push_str(&line);
        if is_command || is_complete(&text) {
            return Ok(Some(text));
        }
        text.push('\n');
    }
}

/// Whether a line alone says that the user wants to leave. No statement has such a line.
fn leaves(line: &str) -> bool {
    let word = line.trim().trim_end_matches(';').trim_end().trim_start_matches('.');
    ["quit", "exit"].iter().any(|known| word.eq_ignore_ascii_case(known)) || line.trim() == ".q"
}

/// The answer to a command that begins with a dot.
fn dot_command(command: &str, catalog: &Catalog) -> String {
    let lines = |names: Vec<String>| names.join("\n");
    let described = |(table, columns): (&String, &Vec<String>)| format!("{table}({})", columns.join(", "));
    let words: Vec<&str> = command.split_whitespace().map(|word| word.trim_end_matches(';')).collect();
    match words[..] {
        ["tables"] => lines(catalog.tables.keys().cloned().collect()),
        ["schema"] => lines(catalog.tables.iter().map(described).collect()),
        ["schema", wanted] => {
            let found = catalog.tables.iter().find(|(table, _)| table.eq_ignore_ascii_case(wanted));
            match (found, catalog.nearest(&format!("no such table: {wanted}"), "")) {
                (Some(found), _) => described(found),
                (None, Some(near)) => format!("There is no table {wanted}. Did you mean {near}?"),
                (None, None) => format!("There is no table {wanted}; .tables lists them."),
            }
        }
        ["help"] => HELP.to_owned(),
        _ => format!("There is no command .{command}.\n{HELP}"),
    }
}

/// The path of the history; `None` if its folder cannot be created.
fn history() -> Option<PathBuf> {
    let folder = own_folder("XDG_STATE_HOME", ".local/state")?;
    fs::create_dir_all(&folder).ok()?;
    Some(folder.join("sql_history"))
}

struct Assistant {
    catalog: Rc<RefCell<Catalog>>,
    /// The lines of the statement before the one that is being typed.
    before: String,
}

impl Completer for Assistant {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let before = format!("{}{}", self.before, &line[..pos]);
        let (start, names) = completions(&self.catalog.borrow(), &before);
        Ok((start.saturating_sub(self.before.len()), names))
    }
}

impl Validator for Assistant {}

impl Hinter for Assistant {
    type Hint = String;
}

impl Highlighter for Assistant {}

impl Helper for Assistant {}

/// The completions of the last word of a text, and where the word begins. After `table.` or an alias these are columns, after FROM and JOIN
/// tables.
fn completions(catalog: &Catalog, before: &str) -> (usize, Vec<String>) {
    let start = before.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_').len();
    let (head, word) = before.split_at(start);
    let word = word.to_lowercase();
    let begins = |name: &&str| name.to_lowercase().starts_with(&word);
    let tables = || catalog.tables.keys().map(String::as_str);
    let columns = || catalog.tables.values().flatten().map(String::as_str);
    if let Some(command) = before.trim_start().strip_prefix('.') {
        let names: Vec<&str> = match command.split_once(' ') {
            Some(_) => tables().filter(begins).collect(),
            None => ["tables", "schema", "help", "quit"].into_iter().filter(|name| name.starts_with(command)).collect(),
        };
        return (start, sorted(names));
    }
    let last = head.split_whitespace().next_back().unwrap_or_default().to_uppercase();
    let names: Vec<&str> = if head.ends_with('.') {
        columns().filter(begins).collect()
    } else if ["FROM", "JOIN"].contains(&last.as_str()) {
        tables().filter(begins).collect()
    } else if word.is_empty() {
        Vec::new()
    } else {
        let functions = catalog.functions.iter().map(String::as_str);
        columns().chain(tables()).chain(functions).chain(KEYWORDS.split(", ")).filter(begins).collect()
    };
    (start, sorted(names))
}

fn sorted(mut names: Vec<&str>) -> Vec<String> {
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Catalog {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let tables = [("slice", list(&["id", "ts", "name"])), ("thread", list(&["utid", "name"]))];
        Catalog {
            tables: tables.into_iter().map(|(table, columns)| (table.to_owned(), columns)).collect(),
            functions: list(&["sqrt", "sum"]),
        }
    }

    #[test]
    fn words_are_completed_by_what_can_follow() {
        let catalog = catalog();
        for (before, start, want) in [
            ("SELECT na", 7, &["name"][..]),
            ("SELECT s", 7, &["SELECT", "slice", "sqrt", "sum"]),
            ("sel", 0, &["SELECT"]),
            ("SELECT * FROM ", 14, &["slice", "thread"]),
            ("SELECT * FROM slice s JOIN t", 27, &["thread"]),
            ("SELECT t.", 9, &["id", "name", "ts", "utid"]),
            ("SELECT ☃.n", 11, &["name"]),
            ("SELECT ", 7, &[]),
            (".s", 1, &["schema"]),
            (".schema th", 8, &["thread"]),
        ] {
            assert_eq!(
                completions(&catalog, before),
                (start, want.iter().map(|s| (*s).to_owned()).collect()),
                "{before}"
            );
        }
    }

    #[test]
    fn dot_commands_show_tables() {
        let catalog = catalog();
        assert_eq!(dot_command("tables", &catalog), "slice\nthread");
        assert_eq!(dot_command("schema THREAD;", &catalog), "thread(utid, name)");
        assert_eq!(dot_command("schema", &catalog), "slice(id, ts, name)\nthread(utid, name)");
        assert_eq!(dot_command("schema slcie", &catalog), "There is no table slcie. Did you mean slice?");
        assert!(dot_command("what", &catalog).starts_with("There is no command .what.\nWrite SQL"));
    }
}
