//! The slices that could be the window: the slices of a function, by name, or the slices that look like steps. Named queries find them.

use std::collections::HashMap;

use rusqlite::named_params;
use serde_json::json;

use crate::answers::window::Candidate;
use crate::attribution::launches::{Launches, WindowOn};
use crate::attribution::selection::Pattern;
use crate::error::Error;
use crate::id::SliceId;
use crate::names::steps;
use crate::sql::{Database, queries};
use crate::store::Store;
use crate::store::slices::UNFINISHED;
use crate::time::{Ns, Window};

/// The CPU slices that a name means, in time order: those of exactly this name, or if there are none, those that it matches as a [`Pattern`].
pub fn functions(database: &Database, name: &str, launches: &Launches, on: WindowOn) -> Result<Vec<Candidate>, Error> {
    let pattern = Pattern::parse(name)?;
    let (mut exact, mut matching) = (Vec::new(), Vec::new());
    database.rows(queries::CPU_NAMES, [], |row| {
        let (id, text) = (row.get::<_, i64>(0)?, row.get_ref(1)?.as_str()?);
        if text == name {
            exact.push(id);
        } else if pattern.fits(text) {
            matching.push(id);
        }
        Ok(())
    })?;
    // A name may have an asterisk or a percent sign itself.
    slices(database, if exact.is_empty() { matching } else { exact }, launches, on)
}

/// The slices that look like steps: the most likely first, then in time order. One in a likelier one of its thread with the same kernels is the
/// same step; annotations are of the user.
pub fn steps(database: &Database, launches: &Launches, on: WindowOn) -> Result<Vec<Candidate>, Error> {
    let named = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
    let annotations =
        database.rows(queries::ANNOTATION_NAMES, named_params! { ":category": steps::ANNOTATION }, named)?;
    let others = database.rows(queries::CPU_NAMES, [], named)?;
    let annotated = annotations.iter().filter_map(|(id, name)| Some((*id, steps::priority(name, true)?)));
    let plain = others.iter().filter_map(|(id, name)| Some((*id, steps::priority(name, false)?)));
    let mut names: Vec<i64> = annotated.chain(plain).map(|(id, _)| id).collect();
    names.sort_unstable();
    names.dedup();
    let mut found = slices(database, names, launches, on)?;
    found.sort_by_key(|candidate| steps::priority(&candidate.name, true));
    let mut known: HashMap<_, Vec<Window>> = HashMap::new();
    found.retain(|Candidate { name, window, thread, pid, trace, kernels, gpu_time, .. }| {
        let same = known.entry((trace.clone(), *pid, thread.clone(), *kernels, *gpu_time)).or_default();
        let is_chosen_by_user = steps::priority(name, false).is_none();
        let is_new = is_chosen_by_user || !same.iter().any(|of| of.start <= window.start && window.end <= of.end);
        same.extend(is_new.then_some(*window));
        is_new
    });
    Ok(found)
}

fn slices(database: &Database, names: Vec<i64>, launches: &Launches, on: WindowOn) -> Result<Vec<Candidate>, Error> {
    let kernels = KernelTime::new(database.store(), launches, on);
    let store = database.store();
    database.rows(queries::FUNCTION_SLICES, named_params! { ":names": json!(names).to_string() }, |row| {
        let (start, dur) = (Ns(row.get(1)?), Ns(row.get(2)?));
        // A slice that was never closed was open to the end.
        let window =
            if dur == UNFINISHED { Window { start, end: store.span.end.max(start) } } else { Window::new(start, dur) };
        let thread = match (row.get::<_, Option<String>>(4)?, row.get::<_, Option<i64>>(5)?) {
            (Some(name), _) => name,
            (None, Some(tid)) => tid.to_string(),
            (None, None) => "-".to_owned(),
        };
        let (kernels, gpu_time) = kernels.within(window);
        let (slice, name, pid) = (row.get(0)?, row.get(3)?, row.get(6)?);
        let of = store.trace_of(SliceId(slice)).row();
        let trace = store.traces.get(of).filter(|_| store.traces.len() > 1).and_then(|trace| trace.name.clone());
        Ok(Candidate { slice: SliceId(slice), name, window, thread, pid, trace, kernels, gpu_time })
    })
}

/// How many kernels there were up to a time and how long they ran, for any number of windows.
struct KernelTime {
    /// The times by which kernels are in a window, sorted.
    launched_at: Vec<Ns>,
    /// `sums[i]` is the GPU time of the first `i` launches.
    sums: Vec<Ns>,
}

impl KernelTime {
    fn new(store: &Store, launches: &Launches, on: WindowOn) -> Self {
        let mut pairs: Vec<(Ns, Ns)> =
            launches.kernels.iter().map(|launched| (launched.at(store, on), launched.gpu_time(store))).collect();
        pairs.sort_unstable();
        let mut sums = vec![Ns::ZERO];
        sums.extend(pairs.iter().scan(Ns::ZERO, |sum, (_, dur)| {
            *sum += *dur;
            Some(*sum)
        }));
        KernelTime { launched_at: pairs.into_iter().map(|(ts, _)| ts).collect(), sums }
    }

    fn within(&self, window: Window) -> (u64, Ns) {
        let before = |ts: Ns| self.launched_at.partition_point(|at| *at < ts);
        let (from, to) = (before(window.start), before(window.end));
        let to = to.max(from);
        ((to - from) as u64, self.sums[to] - self.sums[from])
    }
}

/// The names of CPU slices nearest to one that was not found: first the names that contain it, then the names spelled alike.
pub fn nearest_names(database: &Database, wanted: &str, limit: usize) -> Result<Vec<String>, Error> {
    let names = database.rows(queries::CPU_NAMES, [], |row| row.get::<_, String>(1))?;
    let wanted = wanted.replace(['%', '*'], "").to_lowercase();
    let score = |name: &str| {
        let name = name.to_lowercase();
        if name.contains(&wanted) {
            return 2.0;
        }
        // A path may be given without its folders or with another line; the function's name counts most.
        let function = |text: &str| text.rsplit_once("): ").map_or(text.to_owned(), |(_, f)| f.to_owned());
        strsim::jaro_winkler(&function(&name), &function(&wanted)).max(strsim::jaro_winkler(&name, &wanted))
    };
    let mut scored: Vec<(f64, String)> =
        names.into_iter().map(|name| (score(&name), name)).filter(|(s, _)| *s > 0.75).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    Ok(scored.into_iter().take(limit).map(|(_, name)| name).collect())
}
