//! A slice as a real trace_processor's table shows it.

use nccl_stacks::id::SliceId;
use nccl_stacks::store::Store;

/// The columns that the oracle has of a slice, less its numbers for threads.
pub(crate) fn slice_row(store: &Store, slice: SliceId) -> Vec<Option<String>> {
    let (slices, tracks) = (&store.slices, &store.tracks);
    let text = |id| store.strings.get(id).map(str::to_owned);
    let owner = tracks.track(slices.track(slice)).owner;
    vec![
        Some(slice.to_string()),
        Some(slices.ts(slice).to_string()),
        Some(slices.dur(slice).to_string()),
        text(slices.category(slice)),
        text(slices.name(slice)),
        Some(slices.depth(slice).to_string()),
        slices.parent(slice).map(|parent| parent.to_string()),
        Some(owner.track_type().to_owned()),
        owner.thread().map(|utid| tracks.thread(utid).tid.to_string()),
        owner.thread().map(|utid| tracks.process_of(utid).pid.to_string()),
    ]
}
