//! A slice as a real trace_processor's table shows it.

use nccl_stacks::store::Store;
use nccl_stacks::store::slices::NO_PARENT;

/// The columns that the oracle has of a slice, less its numbers for threads.
pub(crate) fn slice_row(store: &Store, i: usize) -> Vec<Option<String>> {
    let slices = &store.slices;
    let text = |id| store.strings.get(id).map(str::to_owned);
    let owner = store.tracks.tracks[slices.track(i) as usize].owner;
    let thread = owner.thread().map(|utid| &store.tracks.threads[utid as usize]);
    let parent = slices.parent(i);
    vec![
        Some(i.to_string()),
        Some(slices.ts(i).to_string()),
        Some(slices.dur(i).to_string()),
        text(slices.category(i)),
        text(slices.name(i)),
        Some(slices.depth(i).to_string()),
        (parent != NO_PARENT).then(|| parent.to_string()),
        Some(owner.track_type().to_owned()),
        thread.map(|thread| thread.tid.to_string()),
        thread.map(|thread| store.tracks.processes[thread.upid as usize].pid.to_string()),
    ]
}
