//! Functions whose recorded line is not the line of their definition.
//!
//! Kineto writes a Python function with the line of its definition. Functions that were running when the profiler started are an exception: they
//! have the line they had reached. If a server starts its profiler within a step, as SGLang does, the first recorded step has another line than
//! the others, and every stack appears twice. Such a function gets the line that its caller's other calls of it have.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;

use super::callers::Callers;
use crate::id::SliceId;
use crate::names::frames::{is_profiler_start, location};
use crate::store::Store;
use crate::store::strings::StringId;

/// The names of such functions with the lines of their definitions, by call. Used without exact names only.
pub(super) fn names(store: &Store, callers: &mut Callers<'_>) -> HashMap<SliceId, String, FixedState> {
    let all = || (0..store.strings.len() as u32).map(StringId).filter_map(|id| Some((id, store.strings.get(id)?)));
    let starts: Vec<StringId> = all().filter(|(_, name)| is_profiler_start(name)).map(|(id, _)| id).collect();
    if starts.is_empty() {
        return HashMap::default();
    }
    let mut running: HashMap<SliceId, Running<'_>> = HashMap::new();
    // A file may join the traces of several processes, so there may be several starts.
    for start in store.slices.ids().filter(|slice| starts.contains(&store.slices.name(*slice))) {
        let mut callee = Some(start);
        while let Some(slice) = callee {
            callee = callers.caller(slice);
            let Some(Entry::Vacant(vacant)) = callee.map(|caller| running.entry(caller)) else { break };
            if let Some((file, line, function)) = location(store.slice_name(slice)) {
                let line = line.parse().unwrap_or(0);
                vacant.insert(Running { slice, file, function, line, definition: None });
            }
        }
    }
    let functions: HashSet<(&str, &str)> = running.values().map(|running| (running.file, running.function)).collect();
    let is_running =
        |name: &str| location(name).is_some_and(|(file, _, function)| functions.contains(&(file, function)));
    let mut is_candidate = vec![false; store.strings.len()];
    all().filter(|(_, name)| is_running(name)).for_each(|(id, _)| is_candidate[id.0 as usize] = true);
    for slice in store.slices.ids().filter(|slice| is_candidate[store.slices.name(*slice).0 as usize]) {
        let Some(running) = callers.caller(slice).and_then(|caller| running.get_mut(&caller)) else { continue };
        running.see(slice, store.slice_name(slice));
    }
    running.into_values().filter_map(Running::name).collect()
}

/// A function that was running when the profiler started.
#[derive(Debug)]
struct Running<'a> {
    slice: SliceId,
    file: &'a str,
    function: &'a str,
    /// The line it had reached.
    line: u64,
    /// The line of its definition: the last one up to `line` among its caller's other calls of functions with the same name and file.
    definition: Option<u64>,
}

impl Running<'_> {
    /// Visits another call by the same caller.
    fn see(&mut self, slice: SliceId, name: &str) {
        let Some((file, line, function)) = location(name) else { return };
        let line = line.parse().ok().filter(|line| *line <= self.line);
        if slice != self.slice && (file, function) == (self.file, self.function) {
            self.definition = self.definition.max(line);
        }
    }

    /// Its name with the line of its definition, if that differs.
    fn name(self) -> Option<(SliceId, String)> {
        let line = self.definition.filter(|line| *line != self.line)?;
        Some((self.slice, format!("{}({line}): {}", self.file, self.function)))
    }
}
