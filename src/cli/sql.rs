//! `nccl-stacks sql`: statements in, result sets out.

use std::io::{self, IsTerminal, Read};
use std::path::Path;

use nccl_stacks::attribution::capture::may_have_replays;
use nccl_stacks::error::Error;
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::report::results::{Form, ResultSets};
use nccl_stacks::sql::{Database, script};

use super::args::{Sql, TableFormat};
use super::output::Output;
use super::session::Session;
use super::stop::Stop;
use super::terminal::stdout_width;
use super::{captures, notes, opening, prompt};

pub(super) fn run(args: &Sql) -> Result<(), Stop> {
    let query = query(args)?;
    let of_captures = captures::paths(&[], &args.trace);
    let inputs = opening::inputs(&args.trace, args.file.iter().chain(&of_captures));
    let output = Output::open(args.output.as_deref(), &inputs)?;
    let options = opening::options(&args.reading, ArgsWanted::All);
    let store = opening::read(&args.trace, &args.reading, options)?;
    let wants_captures = query.as_deref().is_none_or(reads_attribution) && may_have_replays(&store);
    let captures = wants_captures.then(|| captures::read(&[], &args.trace, options, false)).transpose()?;
    let mut database = Database::open_with(store, captures)?;
    let watch = database.restrict()?;
    let session = Session::new(&database, watch);
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

/// Whether statements may read the tables of attribution, which name the captures of graphs.
fn reads_attribution(query: &str) -> bool {
    let query = query.to_ascii_lowercase();
    ["kernel_launch", "call_path", "collective"].iter().any(|table| query.contains(table))
}

/// The statements of the arguments, of a file or of standard input; `None` if the user is to be asked for them.
fn query(args: &Sql) -> Result<Option<String>, Stop> {
    let read = |source: &Path| {
        if source != Path::new("-") {
            let failed = |error| Stop::from(Error::Read { name: source.display().to_string(), source: error });
            return std::fs::read_to_string(source).map_err(failed);
        }
        if args.trace == Path::new("-") {
            return Err(Stop::Usage(
                "the trace comes from standard input, so the query has to be an argument or a file".to_owned(),
            ));
        }
        let mut text = String::new();
        let failed = |error| Stop::from(Error::Read { name: "standard input".to_owned(), source: error });
        io::stdin().read_to_string(&mut text).map_err(failed)?;
        Ok(text)
    };
    let can_ask = io::stdin().is_terminal() && args.trace != Path::new("-");
    let text = match (&args.query, &args.file) {
        (Some(query), _) => query.clone(),
        (None, Some(file)) => read(file)?,
        (None, None) if !can_ask => read(Path::new("-"))?,
        (None, None) if io::stdout().is_terminal() && args.output.is_none() => return Ok(None),
        (None, None) => {
            return Err(Stop::Usage(
                "there is no query: write it after the trace, or name a file of it with --file".to_owned(),
            ));
        }
    };
    if script::statements(&text).is_empty() {
        return Err(Stop::Usage(
            "the query is empty; write it after the trace, name a file of it with --file, or pass it on standard input"
                .to_owned(),
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
        Some(TableFormat::Table) | None => Form::Table { width: if on_screen { stdout_width() } else { None } },
    }
}
