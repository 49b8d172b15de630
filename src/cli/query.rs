//! `nccl-stacks sql --query`: named queries. Which there are, what they need, and their answers.

use std::io;
use std::path::{Path, PathBuf};

use crate::attribution::launches::{Launches, WindowOn};
use crate::document;
use crate::document::format::visible;
use crate::document::results::{Form, ResultSets, Shown, Titled, Unit};
use crate::error::Error;
use crate::event::ArgsWanted;
use crate::run::Run;
use crate::run::inputs::Alone;
use crate::sql::Database;
use crate::sql::catalog::nearest;
use crate::sql::header::{Header, TitledColumn};
use crate::sql::queries::{NamedQuery, named};
use crate::time::{Ns, Window};
use rusqlite::types::{Value, ValueRef};

use super::args::Sql;
use super::output::{Output, not_written};
use super::session::Session;
use super::stop::Stop;
use super::terminal::{note, say};
use super::{config, notes, opening, sql};

/// Runs the named queries of the arguments, or lists those that there are.
pub(super) fn run(args: &Sql) -> Result<(), Stop> {
    let asked = args.form().map_err(Stop::Usage)?;
    if args.query.iter().any(String::is_empty) {
        let output = Output::open(args.answering.output.as_deref(), [""; 0])?;
        return match asked {
            Some(document::Form::Csv | document::Form::Json) => {
                let form = sql::form(asked, matches!(output, Output::Stdout));
                output.finish_csv(matches!(form, Form::Csv { .. }), &rows_of_list(form).map_err(not_written)?)
            }
            _ => output.finish_text(list().as_bytes(), String::new),
        };
    }
    let queries: Vec<NamedQuery> = args.query.iter().map(|name| find(name)).collect::<Result<_, _>>()?;
    let shown: Vec<Vec<Titled>> = queries.iter().map(titles).collect::<Result<_, _>>()?;
    let values = values(&queries, &args.param)?;
    if args.span.is_narrowed() && !queries.iter().any(NamedQuery::takes_window) {
        return Err(Stop::Usage(format!("{} has no :start and :end, and so no window", names(&queries))));
    }
    opening::check_window(&args.span)?;
    let run = opening::run(&args.reading);
    let wanted = queries[1..].iter().fold(queries[0].header.reads, |wanted, query| {
        if query.header.reads == wanted { wanted } else { ArgsWanted::All }
    });
    let wants_captures = wanted == ArgsWanted::All && queries.iter().any(|query| sql::reads_attribution(&query.sql));
    let (files, records) = run.traces_and_records(&traces(args)?, &args.records, Alone::Allowed)?;
    let traces = files.as_traces();
    let output = sql::output(args, &run, &traces)?;
    let mut database = sql::database(args, &run, (&traces, records), wanted, wants_captures)?;
    let window = window(args, &run, &database, &queries)?;
    let session = Session::new(&mut database)?;
    let form = sql::form(asked, matches!(output, Output::Stdout));
    let mut answer = Vec::new();
    let mut sets = ResultSets::new(&mut answer, form);
    for ((query, columns), values) in queries.iter().zip(shown).zip(values) {
        let heading = (queries.len() > 1).then(|| format!("{}:", question(&query.header)));
        sets.show(Shown { heading, columns, origin: window.origin, limit: args.limit });
        session.params.replace([values, window.values.clone()].concat());
        session.answer(&query.sql, &mut sets, None)?;
    }
    let rows = sets.rows();
    let store = session.database.store();
    notes::damage(store);
    let is_damaged = store.damage.is_unknown();
    if let (0, Some(query)) = (rows, queries.iter().find(|query| !query.header.nothing.is_empty())) {
        return Err(Stop::NotFound(format!("Nothing found: {}", query.header.nothing)).or_damaged(is_damaged));
    }
    match form {
        Form::Table { .. } => output.finish_text(&answer, String::new),
        form => output.finish_csv(matches!(form, Form::Csv { .. }), &answer),
    }?;
    Stop::unless(is_damaged)
}

/// What a query answers, up to the first colon or stop.
fn question(header: &Header) -> &str {
    let about = &header.about;
    let end = [": ", ". "].into_iter().filter_map(|stop| about.find(stop)).min().unwrap_or(about.len());
    about[..end].trim_end_matches('.')
}

/// The traces of the arguments, which have no statements of their own.
fn traces(args: &Sql) -> Result<Vec<PathBuf>, Stop> {
    match sql::words(args) {
        (_, Some(statements)) => {
            Err(Stop::Usage(format!("the argument '--query <NAME>' cannot be used with the statements {statements:?}")))
        }
        (traces, None) if traces.is_empty() => Err(Stop::Usage(format!(
            "a query needs a trace: nccl-stacks sql TRACE --query {}",
            args.query.join(" --query ")
        ))),
        (traces, None) => Ok(traces),
    }
}

/// The window that the options choose, for the parameters of queries and for times in tables.
struct Chosen {
    origin: Ns,
    values: Vec<(String, Value)>,
}

fn window(args: &Sql, run: &Run<'_>, database: &Database, queries: &[NamedQuery]) -> Result<Chosen, Stop> {
    let store = database.store();
    if !queries.iter().any(NamedQuery::takes_window) {
        return Ok(Chosen { origin: store.span.start, values: Vec::new() });
    }
    let choice = args.span.choice();
    let (window, on) = if queries.iter().any(|query| query.has("window_on")) {
        run.only_window(&choice, database, database.launches())?
    } else {
        // Their launches are counted only for a list of windows.
        let none = Launches::default();
        let launches = if args.span.is_narrowed() { database.launches() } else { &none };
        (run.only_window_of_anything(&choice, database, launches)?, choice.on)
    };
    // The whole trace has its instants, too, which shares are not measured over.
    let (origin, Window { start, end }) = match window {
        Window::ALL => (store.span.start, Window { start: store.bounds.start, end: store.bounds.end + Ns(1) }),
        window => (window.start, window),
    };
    let values = [
        ("start", Value::Integer(start.0)),
        ("end", Value::Integer(end.0)),
        ("window_on", Value::Text(if on == WindowOn::Kernel { "kernel" } else { "launch" }.to_owned())),
    ];
    Ok(Chosen { origin, values: values.map(|(name, value)| (name.to_owned(), value)).into() })
}

/// The query with a name: one of the project's, a file, or one in the user's settings.
fn find(name: &str) -> Result<NamedQuery, Stop> {
    if name.contains(std::path::MAIN_SEPARATOR) || name.ends_with(".sql") {
        return read(Path::new(name), name);
    }
    let own = config::folder().map(|folder| folder.join(QUERIES).join(format!("{name}.sql")));
    let own = own.filter(|path| path.is_file());
    match (named().find(|query| query.name == name), own) {
        (Some(query), None) => Ok(query),
        (Some(query), Some(own)) => {
            say(&format!("Note: {name} is the program's own query; --query {} is yours", own.display()));
            Ok(query)
        }
        (None, Some(own)) => {
            note(&format!("Query: {}", own.display()));
            read(&own, name)
        }
        (None, None) => Err(unknown(name)),
    }
}

/// The folder of queries in the user's settings.
const QUERIES: &str = "queries";

fn read(path: &Path, name: &str) -> Result<NamedQuery, Stop> {
    let failed = |source| Error::Read { name: path.display().to_string(), source };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    NamedQuery::new(name.to_owned(), text.into()).map_err(Stop::Usage)
}

fn unknown(name: &str) -> Stop {
    let known: Vec<String> =
        named().map(|query| query.name).chain(own_queries().into_iter().map(|(name, _)| name)).collect();
    let meant = nearest(name, known.iter().map(String::as_str)).map(|near| format!(" Did you mean {near}?"));
    Stop::Usage(format!("there is no query {}.{} --query alone lists them", visible(name), meant.unwrap_or_default()))
}

/// The user's own queries: name and path, by name.
fn own_queries() -> Vec<(String, PathBuf)> {
    let folder = config::folder().map(|folder| folder.join(QUERIES));
    let entries = folder.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let named = |path: PathBuf| {
        let is_sql = path.extension().is_some_and(|extension| extension == "sql");
        Some((path.file_stem().filter(|_| is_sql)?.to_str()?.to_owned(), path))
    };
    let mut found: Vec<(String, PathBuf)> = entries.filter_map(|entry| named(entry.path())).collect();
    found.sort();
    found
}

/// All queries: the name, and what it answers.
fn all() -> Vec<(String, String)> {
    let own = |(name, path): (String, PathBuf)| {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let about = Header::parse(&text).map_or_else(|why| why, |header| question(&header).to_owned());
        (name, format!("{about} ({})", path.display()))
    };
    let ours = |query: NamedQuery| (query.name, question(&query.header).to_owned());
    named().map(ours).chain(own_queries().into_iter().map(own)).collect()
}

/// The list for people, one line each.
fn list() -> String {
    let all = all();
    let width = all.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    all.iter().map(|(name, about)| format!("{:width$}  {}\n", visible(name), visible(about))).collect()
}

/// The list for programs.
fn rows_of_list(form: Form) -> io::Result<Vec<u8>> {
    let mut rows = Vec::new();
    let mut sets = ResultSets::new(&mut rows, form);
    sets.begin(&["query", "answers"])?;
    for (name, about) in all() {
        sets.row(&[name.as_bytes(), about.as_bytes()].map(ValueRef::Text))?;
    }
    sets.end()?;
    Ok(rows)
}

fn names(queries: &[NamedQuery]) -> String {
    let names: Vec<String> = queries.iter().map(|query| visible(&query.name).into_owned()).collect();
    names.join(", ")
}

/// The values of all parameters of each query.
fn values(queries: &[NamedQuery], given: &[(String, String)]) -> Result<Vec<Vec<(String, Value)>>, Stop> {
    let params = |query: &NamedQuery| -> Vec<String> {
        let typed = query.header.params.iter().filter(|param| !param.is_of_window());
        typed.map(|param| format!("  {}", param.line())).collect()
    };
    let wrong = |why: String, queries: &[NamedQuery]| {
        let lines: Vec<String> = queries.iter().flat_map(params).collect();
        let lines = if lines.is_empty() { vec!["  none".to_owned()] } else { lines };
        Stop::Usage(format!("{why}. The parameters of {}:\n{}", names(queries), lines.join("\n")))
    };
    if let Some((name, _)) = given.iter().find(|(name, _)| !queries.iter().any(|query| query.takes(name))) {
        let known = queries.iter().flat_map(|query| &query.header.params).map(|param| param.name.as_str());
        let meant = nearest(name, known).map_or(String::new(), |near| format!("; did you mean {near}?"));
        return Err(wrong(format!("there is no parameter {}{meant}", visible(name)), queries));
    }
    queries.iter().map(|query| query.values(given).map_err(|why| wrong(why, std::slice::from_ref(query)))).collect()
}

/// The columns of a query with their titles and units.
fn titles(query: &NamedQuery) -> Result<Vec<Titled>, Stop> {
    let titled = |column: &TitledColumn| match Unit::parse(&column.unit) {
        Some(unit) => Ok(Titled { name: column.name.clone(), title: column.title.clone(), unit }),
        None => {
            let known: Vec<&str> = Unit::WORDS.iter().map(|(word, _)| *word).collect();
            Err(Stop::Usage(format!(
                "{}: column {}: the unit {:?} is none of {}",
                query.name,
                column.name,
                column.unit,
                known.join(", ")
            )))
        }
    };
    query.header.columns.iter().map(titled).collect()
}
