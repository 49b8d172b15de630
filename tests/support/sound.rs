//! Invariants of every store, whatever was read into it.

use nccl_stacks::store::Store;

/// Checks the invariants of every trace, damaged or not.
pub(crate) fn check(store: &Store) {
    let slices = &store.slices;
    assert!(slices.ids().is_sorted_by_key(|slice| slices.ts(slice)));
    for slice in slices.ids() {
        let Some(parent) = slices.parent(slice) else {
            assert_eq!(slices.depth(slice), 0);
            continue;
        };
        assert!(parent < slice && slices.track(parent) == slices.track(slice));
        assert_eq!(slices.depth(parent) + 1, slices.depth(slice));
        assert!(slices.ts(parent) <= slices.ts(slice));
    }
    assert!(store.flows.slice_in.iter().chain(&store.flows.slice_out).all(|slice| slice.row() < slices.len()));
}
