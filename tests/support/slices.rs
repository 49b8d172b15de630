//! A slice as a row of trace_processor's table.

use nccl_stacks::id::SliceId;
use nccl_stacks::store::Store;

/// The oracle's columns of a slice, except its thread numbers.
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
