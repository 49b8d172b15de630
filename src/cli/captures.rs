//! The traces of graph captures: those that the user named, or those in a folder beside the trace.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use nccl_stacks::attribution::capture::Captures;
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::load::{LoadOptions, load};
use nccl_stacks::report::format::count;

use super::failure::Failure;
use super::stop::Stop;
use super::terminal::say;

/// The folder of captures, beside the trace.
const FOLDER: &str = "capture_traces";

/// The endings of files that are traces.
const ENDINGS: &[&str] = &[".json", ".json.gz", ".json.zst"];

/// Reads the captures that belong to a trace. One that the user did not name is left out if it cannot be read.
pub(super) fn read(named: &[PathBuf], trace: &Path, options: LoadOptions, exact_names: bool) -> Result<Captures, Stop> {
    read_all(&paths(named, trace), !named.is_empty(), options, exact_names)
}

/// Reads the captures beside several traces, each file once.
pub(super) fn read_beside(traces: &[PathBuf], options: LoadOptions) -> Result<Captures, Stop> {
    read_all(&beside_all(traces), false, options, false)
}

fn read_all(found: &[PathBuf], are_named: bool, options: LoadOptions, exact_names: bool) -> Result<Captures, Stop> {
    let mut captures = Captures::new(exact_names);
    for path in found {
        let options = LoadOptions { args: ArgsWanted::All, ..options };
        match load(path, options, |_| {}) {
            Ok(loaded) => {
                let graphs = captures.add(&loaded.store);
                say(&match graphs {
                    0 => format!("Note: {}: no call in this trace puts anything into a graph", path.display()),
                    1 => format!("Capture loaded: {}, 1 graph", path.display()),
                    n => format!("Capture loaded: {}, {} graphs", path.display(), count(n as u64)),
                });
            }
            Err(error) if !are_named => {
                say(&format!("Note: left out as a capture: {}", Failure::from(error)));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(captures)
}

/// The captures that are read with a trace.
pub(super) fn paths(named: &[PathBuf], trace: &Path) -> Vec<PathBuf> {
    if named.is_empty() { beside(trace) } else { named.to_vec() }
}

/// The captures beside several traces, each once.
pub(super) fn beside_all(traces: &[PathBuf]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = traces.iter().flat_map(|trace| beside(trace)).collect();
    found.sort();
    found.dedup();
    found
}

/// The traces in the folder beside a trace, by name.
fn beside(trace: &Path) -> Vec<PathBuf> {
    let folder = trace.parent().unwrap_or(Path::new("")).join(FOLDER);
    let found = std::fs::read_dir(&folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<PathBuf>>>());
    let mut paths = match found {
        Ok(paths) => paths,
        Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => return Vec::new(),
        Err(error) => {
            say(&format!("Note: left out as captures: {}: {error}", folder.display()));
            return Vec::new();
        }
    };
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        ENDINGS.iter().any(|ending| name.ends_with(ending)) && path.is_file()
    });
    paths.sort();
    paths
}
