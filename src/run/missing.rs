//! Finds out why an answer has no stacks: what is in the window instead.

use std::collections::{HashMap, HashSet};

use rusqlite::named_params;
use serde_json::json;

use crate::answers::describe::header;
use crate::answers::stacks::reduction::StackReduction;
use crate::answers::window::missing::{Communication, Missing, NameCount};
use crate::attribution::selection::is_of_a_family;
use crate::error::Error;
use crate::event::Writer;
use crate::id::SliceId;
use crate::names::calls::GRAPH_LAUNCHES;
use crate::names::category::{CategoryKind, OPERATORS};
use crate::names::communication::says_communication;
use crate::names::kernels::says_collective;
use crate::sql::{Database, queries};
use crate::store::strings::StringId;
use crate::store::{Name, Store};
use crate::time::{Ns, Window};

/// The reason why a trace has no stacks; `None` if it has any.
pub fn explain(database: &Database, window: Window, reduction: &StackReduction) -> Result<Option<Missing>, Error> {
    if reduction.has_stacks() {
        return Ok(None);
    }
    reason(database, window, reduction).map(Some)
}

fn reason(database: &Database, window: Window, reduction: &StackReduction) -> Result<Missing, Error> {
    if reduction.unattributed() > 0 {
        return Ok(Missing::NoLaunchLink {
            kernels: reduction.unattributed(),
            elsewhere: reduction.elsewhere,
            graph_launches: graph_launches(database, window)?,
        });
    }
    if reduction.elsewhere > 0 {
        return Ok(Missing::LaunchedElsewhere { kernels: reduction.elsewhere });
    }
    let kernels = kernels_in(database.store(), window);
    if kernels.is_empty() {
        let spans = database.rows(queries::KERNEL_SPAN, [], |row| {
            let span = row.get::<_, Option<i64>>(0)?.zip(row.get::<_, Option<i64>>(1)?);
            Ok(span.map(|(start, end)| (Window { start: Ns(start), end: Ns(end) }, row.get::<_, u64>(2).unwrap_or(0))))
        })?;
        let span = spans.first().copied().flatten();
        let store = database.store();
        let is_cut_off = store.damage.is_unknown();
        let writer = writer(store);
        let producer = store.traces.iter().find_map(|trace| trace.producer);
        return Ok(Missing::NoKernels {
            span,
            accelerator: accelerator(store),
            writer,
            advice: producer.map_or("", |producer| producer.advice),
            communication: if writer.is_profiler { Vec::new() } else { communication(store) },
            is_cut_off,
            is_before_zero: store.is_before_zero(),
            without_time: store.without_time(),
        });
    }
    Ok(Missing::OtherKernels {
        kernels: kernels.iter().map(|kernel| kernel.count).sum(),
        elsewhere: reduction.kernels_in_trace,
        possible: reduction.not_asked.possibly_communication.iter().map(|known| known.of.kernels).sum(),
        collectives: kernels.into_iter().filter(|kernel| is_of_a_family(&kernel.name)).collect(),
    })
}

/// The kernels that start in a window, counted by name, the most frequent first, equal counts by name. A query would sort all kernels.
fn kernels_in(store: &Store, window: Window) -> Vec<NameCount> {
    let mut counts = vec![0; store.strings.len()];
    for kernel in store.kernels.iter().filter(|kernel| window.contains(store.slices.ts(**kernel))) {
        counts[store.slices.name(*kernel).0 as usize] += 1;
    }
    let name = |id| store.strings.get(StringId(id)).unwrap_or_default().to_owned();
    let counted = (0..).zip(counts).filter(|(_, count)| *count > 0);
    let mut kernels: Vec<NameCount> = counted.map(|(id, count)| NameCount { name: name(id), count }).collect();
    kernels.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    kernels
}

/// What wrote the first trace.
pub(super) fn writer(store: &Store) -> &'static Writer {
    let mut has = vec![false; store.strings.len()];
    store.slices.ids().for_each(|slice| has[store.slices.category(slice).0 as usize] = true);
    let categories = (0..).zip(has).filter(|(_, has)| *has).map(|(id, _)| StringId(id));
    let names: Vec<&str> = categories.filter_map(|id| store.strings.get(id)).filter(|name| !name.is_empty()).collect();
    let is_of_kineto = |name: &&str| CategoryKind::from_name(name) != CategoryKind::Cpu || OPERATORS.contains(name);
    header::writer(store, !names.is_empty(), names.iter().any(is_of_kineto))
}

/// The slices of which the name says that they communicate, by name and category, the most time first.
fn communication(store: &Store) -> Vec<Communication> {
    let is_named = |name: &&Name| {
        let text = store.strings.get(name.id).unwrap_or_default();
        says_communication(text) || says_collective(text)
    };
    let named: HashSet<StringId> = store.names.iter().filter(is_named).map(|name| name.id).collect();
    let mut found: HashMap<(String, String), (u64, Ns)> = HashMap::new();
    let text = |id: StringId| store.strings.get(id).unwrap_or_default();
    for slice in store.slices.ids().filter(|slice| named.contains(&store.slices.name(*slice))) {
        // Many names end with the numbers of the call.
        let name = text(store.slices.name(slice)).trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
        let (count, time) = found.entry((name.to_owned(), text(store.slices.category(slice)).to_owned())).or_default();
        (*count, *time) = (*count + 1, *time + store.slices.dur(slice).max(Ns::ZERO));
    }
    let mut found: Vec<Communication> = found
        .into_iter()
        .map(|((name, category), (count, time))| Communication { name, category, count, time })
        .collect();
    found.sort_by(|a, b| (b.time, &a.name, &a.category).cmp(&(a.time, &b.name, &b.category)));
    found
}

/// See [`Missing::NoKernels`]. Kineto writes CUDA's and ROCm's calls as `cuda_runtime` and `cuda_driver`, once as `Runtime`.
fn accelerator(store: &Store) -> Option<String> {
    let category = |call: &SliceId| store.strings.get(store.slices.category(*call)).map(str::to_ascii_lowercase);
    let of = |category: String| category.split_once('_').map(|(accelerator, _)| accelerator.to_owned());
    let calls = store.runtime_calls.iter().filter_map(category).filter_map(of);
    calls.into_iter().find(|accelerator| accelerator != "cuda")
}

fn graph_launches(database: &Database, window: Window) -> Result<Vec<NameCount>, Error> {
    let names = json!(GRAPH_LAUNCHES).to_string();
    let params = named_params! { ":start": window.start.0, ":end": window.end.0, ":names": names };
    database.rows(queries::GRAPH_LAUNCHES, params, |row| Ok(NameCount { name: row.get(0)?, count: row.get(1)? }))
}
