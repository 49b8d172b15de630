//! The slices of a trace that are steps of training or serving by their names.

use std::collections::HashMap;
use std::hash::Hash;

use crate::id::SliceId;
use crate::nccl::steps::priority;
use crate::store::Store;
use crate::store::slices::UNFINISHED;
use crate::store::strings::StringId;
use crate::time::Window;

/// Annotations that are no steps by their names have this priority or a higher number.
const NO_STEP: u8 = 2;

/// The slices that are steps, in order, each with its priority, 0 the highest: names of profilers before functions of frameworks.
pub(crate) fn named_steps(store: &Store) -> Vec<(u8, SliceId)> {
    let named = store.names.iter().filter(|name| name.of_cpu);
    let likely: HashMap<StringId, u8> = named
        .filter_map(|name| Some((name.id, priority(store.strings.get(name.id)?, true)?)))
        .filter(|(_, priority)| *priority < NO_STEP)
        .collect();
    if likely.is_empty() {
        return Vec::new();
    }
    store.slices.ids().filter_map(|slice| Some((*likely.get(&store.slices.name(slice))?, slice))).collect()
}

/// The outermost steps of each owner, such as a process, in order: those of the highest priority that it has. Merged ranks have steps of their own.
pub(crate) fn outermost_steps<O: Hash + Eq + Copy>(
    store: &Store,
    owner: impl Fn(SliceId) -> Option<O>,
) -> HashMap<O, Vec<(Window, SliceId)>> {
    let all = named_steps(store);
    let mut best: HashMap<O, u8> = HashMap::new();
    let owned = |(priority, slice): &(u8, SliceId)| Some((owner(*slice)?, *priority, *slice));
    for (owner, priority, _) in all.iter().filter_map(owned) {
        let known = best.entry(owner).or_insert(priority);
        *known = (*known).min(priority);
    }
    let mut found: HashMap<O, Vec<(Window, SliceId)>> = HashMap::new();
    for (owner, priority, slice) in all.iter().filter_map(owned) {
        let (start, dur) = (store.slices.ts(slice), store.slices.dur(slice));
        let end = if dur == UNFINISHED { store.span.end } else { start + dur };
        let steps = found.entry(owner).or_default();
        let is_nested = steps.last().is_some_and(|(last, _)| start < last.end);
        if best.get(&owner) == Some(&priority) && !is_nested {
            steps.push((Window { start, end }, slice));
        }
    }
    found
}
