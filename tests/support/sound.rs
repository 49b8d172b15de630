//! What a store has to be, whatever was read into it.

use nccl_stacks::store::Store;
use nccl_stacks::store::slices::NO_PARENT;

/// What holds of every trace, damaged or not.
pub(crate) fn check(store: &Store) {
    let slices = &store.slices;
    for i in 0..slices.len() {
        assert!(i == 0 || slices.ts(i - 1) <= slices.ts(i));
        let parent = slices.parent(i);
        if parent == NO_PARENT {
            assert_eq!(slices.depth(i), 0);
            continue;
        }
        let p = parent as usize;
        assert!(p < i && slices.track(p) == slices.track(i) && slices.depth(p) + 1 == slices.depth(i));
        assert!(slices.ts(p) <= slices.ts(i));
    }
    let rows = slices.len() as u32;
    assert!(store.flows.slice_in.iter().chain(&store.flows.slice_out).all(|slice| *slice < rows));
}
