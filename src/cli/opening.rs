//! What all commands do first: load the trace, and read which kernels are asked for.

use std::path::{Path, PathBuf};

use nccl_stacks::attribution::selection::{OwnFamilies, Wanted};
use nccl_stacks::error::Error;
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::input;
use nccl_stacks::input::Input;
use nccl_stacks::input::limit::Limits;
use nccl_stacks::load::{LoadOptions, Loaded, load_all};
use nccl_stacks::sql::Database;
use nccl_stacks::store::Store;
use nccl_stacks::time::TimeRule;

use super::args::{Reading, Selection};
use super::failure::Failure;
use super::stop::Stop;
use super::terminal::say;
use super::{notes, progress};

/// The options of a load, from the arguments.
pub(super) fn options(reading: &Reading, args: ArgsWanted) -> LoadOptions {
    let time = reading.ts_unit.map_or_else(TimeRule::default, TimeRule::from);
    LoadOptions { time, args, threads: reading.threads, limits: limits(reading), ..LoadOptions::default() }
}

/// How much text the arguments allow.
fn limits(reading: &Reading) -> Limits {
    reading.max_bytes.map_or_else(Limits::default, Limits::of_text)
}

/// A trace's bytes, with the limits of the arguments.
pub(super) fn input(trace: &Path, reading: &Reading) -> Result<Input, Error> {
    let mut input = input::open(trace)?;
    input.limits = limits(reading);
    Ok(input)
}

/// The files that a command reads, which must not be overwritten.
pub(super) fn inputs<'a>(trace: &'a Path, others: impl IntoIterator<Item = &'a PathBuf>) -> Vec<&'a Path> {
    std::iter::once(trace).chain(others.into_iter().map(PathBuf::as_path)).collect()
}

/// Loads a trace, and prints how that went.
pub(super) fn open(trace: &Path, reading: &Reading, options: LoadOptions) -> Result<Database, Stop> {
    let store = read(trace, reading, options)?;
    // Without all arguments the tables are for the program's own queries only.
    let open = if options.args == ArgsWanted::All { Database::open } else { Database::of_tables };
    Ok(open(store)?)
}

/// Loads a trace, with progress and notes.
pub(super) fn read(trace: &Path, reading: &Reading, options: LoadOptions) -> Result<Store, Stop> {
    read_all(&[trace.to_owned()], reading, options)
}

/// Loads several traces into one store, with progress and notes. A file that cannot be read is left out, unless all are like that.
pub(super) fn read_all(traces: &[PathBuf], reading: &Reading, options: LoadOptions) -> Result<Store, Stop> {
    let mut bar = progress::Bar::new();
    let result = load_all(traces, options, |progress| bar.show(progress));
    bar.clear();
    let mut loaded = result?;
    for error in loaded.unread.drain(..) {
        let failure = Failure::from(error);
        if reading.strict {
            return Err(failure.into());
        }
        say(&format!("Left out: {failure}"));
    }
    notes::loaded(&loaded);
    notes::units(&loaded, reading);
    check_strict(reading, &loaded)?;
    Ok(loaded.store)
}

/// Refuses what is damaged if the user wants nothing that is.
pub(super) fn check_strict(reading: &Reading, loaded: &Loaded) -> Result<(), Failure> {
    let list = if reading.strict { notes::damage_list(&loaded.store) } else { String::new() };
    if list.is_empty() { Ok(()) } else { Err(Failure::Strict { name: loaded.name.clone(), list }) }
}

/// Whether a trace can be read only once. Opening a named pipe again would wait for a writer that does not come.
pub(super) fn is_read_once(trace: &Path) -> bool {
    let is_pipe = std::fs::metadata(trace).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir());
    trace.as_os_str() == "-" || is_pipe
}

/// Refuses several traces where one is needed; `one` says why.
pub(super) fn refuse_if_several(one: &str, names: &[String]) -> Result<(), Stop> {
    if names.len() < 2 {
        return Ok(());
    }
    Err(Stop::Usage(format!(
        "{one}, and this archive has {}: {}. Unpack it and name one of them",
        names.len(),
        notes::some_names(names)
    )))
}

/// The kernels that the arguments ask for.
pub(super) fn wanted(selection: &Selection, reading: &Reading) -> Result<Wanted, Stop> {
    let own = own_families(&selection.family_file, reading)?;
    parse_wanted(&selection.kernel_name, &selection.family, &own)
}

/// The kernels of some patterns and families.
pub(super) fn parse_wanted(patterns: &[String], families: &[String], own: &OwnFamilies) -> Result<Wanted, Stop> {
    Wanted::parse(patterns, families, own).map_err(|error| Stop::Usage(Failure::from(error).to_string()))
}

/// The families of some files and of the config file.
pub(super) fn own_families(files: &[PathBuf], reading: &Reading) -> Result<OwnFamilies, Stop> {
    let mut own = reading.families.clone();
    for path in files {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read { name: name.clone(), source })?;
        own.parse(&name, &text)?;
    }
    Ok(own)
}

/// What these kernels are called if none is found.
pub(super) fn what(selection: &Selection) -> &'static str {
    let asked = !selection.kernel_name.is_empty() || !selection.family.is_empty();
    if asked { "such kernel" } else { "collective" }
}
