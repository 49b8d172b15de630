//! `nccl-stacks sql`: statements in, result sets out.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::answers::ranks::rows::rank_rows;
use crate::attribution::capture::may_have_replays;
use crate::document::results::ResultSets;
use crate::document::{Form, results};
use crate::error::Error;
use crate::event::ArgsWanted;
use crate::records::Records;
use crate::run::Run;
use crate::run::inputs::Alone;
use crate::run::inputs::is_named_like_a_trace;
use crate::sql::ranks::Compare;
use crate::sql::{Database, script};

use super::args::Sql;
use super::output::Output;
use super::session::Session;
use super::stop::Stop;
use super::terminal;
use super::{notes, opening, prompt};

pub(super) fn run(args: &Sql) -> Result<(), Stop> {
    if args.span.is_narrowed() {
        return Err(Stop::Usage(
            "a window is for --query; write a condition on ts into your own statements".to_owned(),
        ));
    }
    let asked = args.form().map_err(Stop::Usage)?;
    let (traces, query) = words(args);
    if let (Some(_), Some(_)) = (query, &args.file) {
        return Err(Stop::Usage("the argument '--file <FILE>' cannot be used with a query".to_owned()));
    }
    let run = opening::run(&args.reading);
    let (files, records) = run.traces_and_records(&traces, &args.records, Alone::Allowed)?;
    let traces = files.as_traces();
    let query = statements(args, &traces, query)?;
    let output = output(args, &run, &traces)?;
    let wants_captures = query.as_deref().is_none_or(reads_attribution);
    let mut database = database(args, &run, (&traces, records), ArgsWanted::All, wants_captures)?;
    let session = Session::new(&mut database)?;
    let form = form(asked, matches!(output, Output::Stdout));
    let Some(query) = query else {
        notes::damage(session.database.store());
        return prompt::run(&session, form);
    };
    let is_csv = matches!(form, results::Form::Csv { .. });
    let is_table = matches!(form, results::Form::Table { .. });
    // A guarded answer has to be complete before it is printed.
    if is_table && matches!(output, Output::Stdout) && terminal::may_page() {
        let mut answer = Vec::new();
        let answered = session.answer(&query, &mut ResultSets::new(&mut answer, form), None);
        output.finish_text(&answer, String::new)?;
        answered?;
    } else if let (Output::Stdout, false) = (&output, is_csv && terminal::settings().guards_csv) {
        session.to_stdout(&query, form, None)?;
    } else {
        let mut answer = Vec::new();
        session.answer(&query, &mut ResultSets::new(&mut answer, form), None)?;
        output.finish_csv(is_csv, &answer)?;
    }
    let store = session.database.store();
    notes::damage(store);
    Stop::unless(store.damage.is_unknown())
}

/// Where the answer goes, which must not be one of these traces, nor another input.
pub(super) fn output(args: &Sql, run: &Run<'_>, traces: &[PathBuf]) -> Result<Output, Stop> {
    let captures = run.capture_files_beside(traces);
    let inputs = traces.iter().chain(&args.file).chain(&args.family_file).chain(&captures);
    Output::open(args.answering.output.as_deref(), inputs)
}

/// A database of traces and records. Captures beside the traces are read if they are wanted and there is something to capture.
pub(super) fn database(
    args: &Sql,
    run: &Run<'_>,
    (traces, records): (&[PathBuf], Option<Arc<Records>>),
    wanted: ArgsWanted,
    wants_captures: bool,
) -> Result<Database, Stop> {
    let store = run.load_all(traces, run.load_options(wanted))?;
    let wants_captures = wants_captures && may_have_replays(&store);
    let captures = wants_captures.then(|| run.captures_beside(traces)).transpose()?;
    let given = args.rank.clone();
    let compare = Compare::new(move |store| {
        rank_rows(store, &given).map_err(|why| if given.is_empty() { format!("{why}. {SAY_RANK}") } else { why })
    });
    let database = Database::open_with_ranks(store, captures, compare)?;
    let database = database.with_families(opening::own_families(&args.family_file)?)?;
    Ok(if let Some(records) = records { database.with_records(records) } else { database })
}

/// The advice if the rank of a trace is unknown.
const SAY_RANK: &str = "--rank RANK=TRACE says which rank a trace is";

/// The traces, and the query if the last word is one.
pub(super) fn words(args: &Sql) -> (Vec<PathBuf>, Option<&str>) {
    let mut further: Vec<&OsStr> = args.second.iter().chain(&args.more).map(OsString::as_os_str).collect();
    let query = further.last().and_then(|word| word.to_str()).filter(|word| is_query(word));
    if query.is_some() {
        further.pop();
    }
    let further = further.into_iter().map(PathBuf::from);
    (args.trace.iter().cloned().chain(further).collect(), query)
}

/// First words of statements without spaces, such as `SELECT*FROM(…)`.
const FIRST_WORDS: &[&str] = &["select", "values", "with", "explain", "begin", "commit", "rollback", "end", "pragma"];

/// Whether a word is a query and not the name of a file, which may be mistyped. Queries contain spaces, file names of traces hardly ever do.
fn is_query(word: &str) -> bool {
    if word == "-" || Path::new(word).exists() {
        return false;
    }
    let first: String = word.chars().take_while(char::is_ascii_alphabetic).collect::<String>().to_ascii_lowercase();
    // Excludes file names such as `select.json`.
    let follows =
        word[first.len()..].chars().next().is_none_or(|next| !next.is_alphanumeric() && !"._-/\\".contains(next));
    let begins = FIRST_WORDS.contains(&first.as_str()) && follows;
    let has_blanks = word.contains(|c: char| c.is_whitespace() || c == ';') && !is_named_like_a_trace(word);
    word.is_empty() || begins || has_blanks
}

/// Whether statements may read the attribution tables, which need the captures of CUDA graphs.
pub(super) fn reads_attribution(query: &str) -> bool {
    let query = query.to_ascii_lowercase();
    ["kernel_launch", "call_path", "collective"].iter().any(|table| query.contains(table))
}

/// The statements from the arguments, from a file or from standard input; `None` if the user is to be prompted.
fn statements(args: &Sql, traces: &[PathBuf], query: Option<&str>) -> Result<Option<String>, Stop> {
    let is_piped = traces.iter().any(|trace| trace == Path::new("-"));
    let read = |source: &Path| {
        if source != Path::new("-") {
            let failed = |error| Stop::from(Error::Read { name: source.display().to_string(), source: error });
            return std::fs::read_to_string(source).map_err(failed);
        }
        if is_piped {
            return Err(Stop::Usage(
                "the trace comes from standard input, so the query must be an argument or in a file".to_owned(),
            ));
        }
        let mut text = String::new();
        let failed = |error| Stop::from(Error::Read { name: "standard input".to_owned(), source: error });
        io::stdin().read_to_string(&mut text).map_err(failed)?;
        Ok(text)
    };
    let can_ask = io::stdin().is_terminal() && !is_piped;
    let text = match (query, &args.file) {
        (Some(query), _) => query.to_owned(),
        (None, Some(file)) => read(file)?,
        (None, None) if !can_ask => read(Path::new("-"))?,
        (None, None) if io::stdout().is_terminal() && args.answering.output.is_none() => return Ok(None),
        (None, None) => {
            return Err(Stop::Usage(
                "there is no query: write it after the trace, or name its file with --file".to_owned(),
            ));
        }
    };
    if script::statements(&text).is_empty() {
        return Err(Stop::Usage(
            "the query is empty; write it after the trace, name its file with --file, or pass it on standard input"
                .to_owned(),
        ));
    }
    Ok(Some(text))
}

/// How rows of a form are written. Without a form they are a table on a screen, and CSV for other programs.
pub(super) fn form(asked: Option<Form>, to_stdout: bool) -> results::Form {
    let on_screen = to_stdout && io::stdout().is_terminal();
    let width = || terminal::size_of(io::stdout()).and_then(|(width, _)| u16::try_from(width).ok());
    match asked {
        Some(Form::Json) => results::Form::Json,
        // A terminal would obey control characters in names; elsewhere they are data.
        Some(Form::Csv) => results::Form::Csv { for_screen: on_screen },
        None if !on_screen => results::Form::Csv { for_screen: false },
        _ => results::Form::Table { width: if on_screen { width() } else { None } },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_distinguished_from_mistyped_files() {
        for query in [
            "",
            "SELECT 1",
            "select*from(rank)",
            "VALUES(1)",
            "-- nothing\n;",
            "slice ; x",
            "\n",
            "SELECT 'a.json",
            "DROP TABLE a",
        ] {
            assert!(is_query(query), "{query:?}");
        }
        let files = "-|rank1.jsn|select.json|with-rank0.json.gz|traces/|my trace 1.json.gz|ranks*.json|/tmp";
        for file in files.split('|') {
            assert!(!is_query(file), "{file:?}");
        }
    }
}
