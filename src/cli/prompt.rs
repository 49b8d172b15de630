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
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use crate::document::results::Form;
use crate::sql::catalog::Catalog;
use crate::sql::script::is_complete;

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
  .quit             leave (also Ctrl-D)
Ctrl-C stops a query that runs, and drops one that is being written.";

const KEYWORDS: &str = "\
    SELECT, FROM, WHERE, GROUP BY, ORDER BY, LIMIT, OFFSET, HAVING, JOIN, LEFT JOIN, ON, USING, AS, AND, OR, NOT, IN, IS, \
    NULL, LIKE, GLOB, REGEXP, BETWEEN, CASE, WHEN, THEN, ELSE, END, DISTINCT, UNION ALL, WITH, RECURSIVE, OVER, PARTITION \
    BY, ASC, DESC, CREATE, TABLE, VIEW, DROP, EXPLAIN QUERY PLAN, EXISTS, CAST, VALUES";

/// Reads and answers statements until the user leaves.
pub(super) fn run(session: &Session<'_>, form: Form) -> Result<(), Stop> {
    let catalog = Rc::new(RefCell::new(Catalog::read(session.database)?));
    let failed = |error: ReadlineError| {
        Stop::Usage(format!("the terminal cannot be read ({error}); write the query as an argument"))
    };
    let config = Config::builder().completion_type(CompletionType::List).build();
    let mut editor: Editor<Assistant, FileHistory> = Editor::with_config(config).map_err(failed)?;
    editor.set_helper(Some(Assistant { catalog: Rc::clone(&catalog) }));
    let history = history();
    if let Some(path) = &history {
        // The first time, there is no history.
        let _ = editor.load_history(path);
    }
    say("SQL statements end with a semicolon; .help shows more, .quit leaves.");
    loop {
        let text = match editor.readline("sql> ") {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        if text.trim().is_empty() {
            continue;
        }
        let _ = editor.add_history_entry(text.as_str());
        if let Some(path) = &history {
            // If the history cannot be written, it is lost after this run.
            let _ = editor.append_history(path);
        }
        match text.trim().strip_prefix('.') {
            Some("quit" | "exit" | "q") => return Ok(()),
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
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder =
        absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?.join("nccl-stacks");
    fs::create_dir_all(&folder).ok()?;
    Some(folder.join("sql_history"))
}

/// Tells the line editor whether a statement is complete, and how to complete a word.
struct Assistant {
    catalog: Rc<RefCell<Catalog>>,
}

impl Completer for Assistant {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(completions(&self.catalog.borrow(), &line[..pos]))
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input();
        let whole = text.trim().is_empty() || text.trim_start().starts_with('.') || is_complete(text);
        Ok(if whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Hinter for Assistant {
    type Hint = String;
}

impl Highlighter for Assistant {}

impl Helper for Assistant {}

/// The completions of the last word of a text, and where the word begins. After `table.` or an alias these are columns, after FROM and JOIN
/// tables.
fn completions(catalog: &Catalog, before: &str) -> (usize, Vec<String>) {
    let start = before.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + char_width(before, at));
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

fn char_width(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(0, char::len_utf8)
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
