//! The traces of graph captures: the named ones, or the ones in the folder `capture_traces` beside a trace.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::error::RunError;
use super::reading::Run;
use super::watch::Event;
use crate::attribution::capture::Captures;
use crate::document::format::count;
use crate::event::ArgsWanted;
use crate::load::load;

/// The folder of captures, beside the trace.
const FOLDER: &str = "capture_traces";

/// The endings of files that are traces.
const ENDINGS: &[&str] = &[".json", ".json.gz", ".json.zst"];

impl Run<'_> {
    /// Reads the captures that belong to a trace: the named ones, else the ones beside it. A capture beside it that cannot be read is left out.
    /// Errors: a named capture that cannot be read.
    pub fn captures(&self, named: &[PathBuf], trace: &Path, exact_names: bool) -> Result<Captures, RunError> {
        self.read_captures(&self.capture_files(named, trace), !named.is_empty(), exact_names)
    }

    /// Reads the captures beside several traces, each file once.
    /// Errors: none so far: a capture that cannot be read is left out.
    pub fn captures_beside(&self, traces: &[PathBuf]) -> Result<Captures, RunError> {
        self.read_captures(&self.capture_files_beside(traces), false, false)
    }

    fn read_captures(&self, found: &[PathBuf], are_named: bool, exact_names: bool) -> Result<Captures, RunError> {
        let mut captures = Captures::new(exact_names);
        let options = self.load_options(ArgsWanted::All);
        for path in found {
            match load(path, options, |_| {}) {
                Ok(loaded) => {
                    let graphs = captures.add(&loaded.store);
                    self.warn(&match graphs {
                        0 => format!("Note: {}: no call in this trace puts anything into a graph", path.display()),
                        1 => format!("Capture loaded: {}, 1 graph", path.display()),
                        n => format!("Capture loaded: {}, {} graphs", path.display(), count(n as u64)),
                    });
                }
                Err(error) if !are_named => self.report(Event::CaptureLeftOut(&error)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(captures)
    }

    /// The captures that are read with a trace.
    pub fn capture_files(&self, named: &[PathBuf], trace: &Path) -> Vec<PathBuf> {
        if named.is_empty() { self.beside(trace) } else { named.to_vec() }
    }

    /// The captures beside several traces, each once.
    pub fn capture_files_beside(&self, traces: &[PathBuf]) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = traces.iter().flat_map(|trace| self.beside(trace)).collect();
        found.sort();
        found.dedup();
        found
    }

    /// The traces in the folder beside a trace, by name.
    fn beside(&self, trace: &Path) -> Vec<PathBuf> {
        let folder = trace.parent().unwrap_or(Path::new("")).join(FOLDER);
        let found = std::fs::read_dir(&folder)
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<PathBuf>>>());
        let mut paths = match found {
            Ok(paths) => paths,
            Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => return Vec::new(),
            Err(error) => {
                self.warn(&format!("Note: left out as captures: {}: {error}", folder.display()));
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
}
