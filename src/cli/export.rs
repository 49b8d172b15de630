//! `nccl-stacks export`: a trace as an SQLite database, as Parquet files, or as a smaller trace; and records in the formats of
//! [other recorders](super::conversions).

use std::io;
use std::path::Path;

use crate::answers::stacks::keep::keep;
use crate::attribution::launches::{self, WindowOn};
use crate::attribution::selection::{Wanted, choose};
use crate::error::Error;
use crate::event::ArgsWanted;
use crate::export::{cut, sqlite};
use crate::input::{Contents, Trace};
use crate::load::LoadOptions;
use crate::run::inputs::{self, Alone};
use crate::sql::Database;
use crate::time::Window;

use super::args::Export;
use super::output::Target;
use super::stop::Stop;
use super::{conversions, notes, opening};

pub(super) fn run(args: &Export) -> Result<(), Stop> {
    check(args)?;
    if conversions::are_wanted(args) {
        conversions::run(args)?;
        if args.sqlite.is_none() && args.parquet.is_none() && args.cut.is_none() {
            return Ok(());
        }
    }
    let wanted = opening::wanted(&args.selection)?;
    let target = |flag, path: Option<&Path>| {
        let inputs = std::iter::once(&args.trace).chain(&args.selection.family_file);
        path.map(|path| Target::open(flag, path, inputs)).transpose()
    };
    let sqlite = target("--sqlite", args.sqlite.as_deref())?;
    let smaller = target("--trace", args.cut.as_deref())?;
    let parquet = args.parquet.as_deref().map(|path| Target::folder("--parquet", path)).transpose()?;
    if let (Some(sqlite), Some(smaller)) = (&sqlite, &smaller)
        && sqlite.is_same(smaller)
    {
        return Err(Stop::Usage(SAME.to_owned()));
    }
    let all = if args.sqlite.is_some() || args.parquet.is_some() { ArgsWanted::All } else { ArgsWanted::COLLECTIVES };
    let options = LoadOptions { keep_offsets: args.cut.is_some(), ..opening::run(&args.reading).load_options(all) };
    if args.cut.is_some() {
        refuse_what_cannot_be_cut(args)?;
    }
    let database = database(args, options)?;
    if let Some(target) = sqlite {
        let failed = |error| Error::Write { path: target.name().to_owned(), source: io::Error::other(error) };
        target.fill(|file, _| sqlite::write(&database, file).map_err(failed))?.1.note();
    }
    if let Some(folder) = parquet {
        write_parquet(&database, &folder)?;
    }
    if let Some(target) = smaller {
        write_cut(args, &wanted, &database, &target)?;
    }
    notes::damage(database.store());
    Stop::unless(database.store().damage.is_unknown())
}

fn database(args: &Export, options: LoadOptions) -> Result<Database, Stop> {
    let run = opening::run(&args.reading);
    // Only records may be in a folder, and standard input can be read only once.
    if args.records.is_empty() && !args.trace.is_dir() && !inputs::has_records(&args.trace) {
        return Ok(run.open(&args.trace, options)?);
    }
    let (files, records) = run.traces_and_records(std::slice::from_ref(&args.trace), &args.records, Alone::Allowed)?;
    let traces = files.as_traces();
    if args.cut.is_some() && traces.is_empty() {
        return Err(Stop::Usage("--trace cuts a trace, and these are NCCL's own records".to_owned()));
    }
    let database = Database::open(run.load_all(&traces, options)?)?;
    Ok(match records {
        Some(records) => database.with_records(records),
        None => database,
    })
}

/// Refuses impossible combinations, before anything is read.
fn check(args: &Export) -> Result<(), Stop> {
    opening::check_window(&args.span)?;
    let usage = |message: &str| Err(Stop::Usage(message.to_owned()));
    if args.parquet.is_some() && cfg!(not(feature = "parquet")) {
        return usage("this build was made without Parquet; `cargo install --locked --path .` makes one with it");
    }
    if args.cut.is_none() && chooses(args) {
        return usage("options for kernels and windows need --trace; --sqlite and --parquet write the whole trace");
    }
    if args.cut.is_some() && inputs::is_read_once(&args.trace) {
        return usage(
            "--trace reads the trace twice, which standard input and pipes do not allow; save it to a file first",
        );
    }
    let paths =
        [&args.sqlite, &args.parquet, &args.cut, &args.chrome, &args.megatrace, &args.flows].map(Option::as_ref);
    if (1..paths.len()).any(|at| paths[at].is_some() && paths[..at].contains(&paths[at])) {
        return usage(SAME);
    }
    Ok(())
}

const SAME: &str = "two results cannot have the same name";

const ONE: &str = "--trace cuts one trace";

/// Refuses inputs other than one JSON trace. The contents are checked first, because loading takes longer.
fn refuse_what_cannot_be_cut(args: &Export) -> Result<(), Stop> {
    let input = opening::run(&args.reading).input(&args.trace)?;
    let name = input.name.clone();
    match input.into_contents()? {
        Contents::File(Trace::Json(_)) => Ok(()),
        Contents::Archive(archive) if archive.next_part().is_none() => {
            opening::refuse_if_several(ONE, &archive.likely_traces()?)
        }
        other => Err(Error::CannotCut { name, what: other.what() }.into()),
    }
}

/// Whether the arguments choose kernels or a window.
fn chooses(args: &Export) -> bool {
    let (selection, span) = (&args.selection, &args.span);
    let kernels =
        !selection.kernel_name.is_empty() || !selection.family.is_empty() || !selection.family_file.is_empty();
    kernels || span.is_narrowed() || span.window_on != WindowOn::Launch
}

fn write_cut(args: &Export, wanted: &Wanted, database: &Database, target: &Target) -> Result<(), Stop> {
    let (run, store) = (opening::run(&args.reading), database.store());
    let names: Vec<String> = store.traces.iter().filter_map(|trace| trace.name.clone()).collect();
    opening::refuse_if_several(ONE, &names)?;
    let launches = launches::find(store, &choose(store, wanted));
    let window = run.only_window_of_anything(&args.span.choice(), database, &launches)?;
    let Window { start: first, end: last } = store.bounds;
    if window.end <= first || window.start > last {
        return Err(Stop::NotFound(format!(
            "Nothing found: the window lies outside of the trace, which goes from {first} ns to {last} ns."
        )));
    }
    let kept = keep(store, &launches, window, args.span.window_on);
    let time = run.load_options(ArgsWanted::COLLECTIVES).time;
    let plan = cut::plan(store, &kept, window, time);
    let plan = if args.lanes { plan.on_lanes(store) } else { plan };
    let failed = |source| Error::Write { path: target.name().to_owned(), source };
    let (copied, written) = target.fill(|_, file| -> Result<cut::Copied, Error> {
        cut::write(run.input(&args.trace)?, &plan, file, target.is_packed(), failed)
    })?;
    notes::cut(&copied, opening::what(&args.selection));
    written.note();
    Ok(())
}

#[cfg(feature = "parquet")]
fn write_parquet(database: &Database, target: &Target) -> Result<(), Error> {
    let failed = |error| Error::Write { path: target.name().to_owned(), source: io::Error::other(error) };
    target
        .fill_folder(|folder| crate::export::parquet::write(database.source(), folder).map_err(failed))
        .map(|written| written.note())
}

#[cfg(not(feature = "parquet"))]
fn write_parquet(_: &Database, target: &Target) -> Result<(), Error> {
    Err(Error::Write { path: target.name().to_owned(), source: io::ErrorKind::Unsupported.into() })
}
