//! The slices of a trace that are steps of training or serving by their names.

use std::collections::HashMap;

use crate::id::SliceId;
use crate::nccl::steps::priority;
use crate::store::Store;
use crate::store::strings::StringId;

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
