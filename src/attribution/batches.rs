//! Sends and receives that PyTorch gives to NCCL together (`batch_isend_irecv`), so that one kernel carries them out.
//!
//! Each of them is recorded when it is added (`record_param_comms`), and the kernel is launched afterwards, in the annotation `nccl:coalesced` of the same
//! thread. So the record is not among the callers of the launch. Seen in traces of PyTorch 2.11 (`torch.distributed.pipelining`): 1,308 batches of one or
//! two operations, each with one kernel.

use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;

use super::launches::Launched;
use crate::id::{SliceId, ThreadId};
use crate::names::args::{COLLECTIVE, COLLECTIVE_RECORD};
use crate::names::collectives::{BATCH, Collective};
use crate::store::Store;
use crate::store::strings::StringId;

#[derive(Debug, Default)]
pub(crate) struct Batches {
    /// By annotation: the records of its sends and receives, in their order.
    of_annotation: HashMap<SliceId, Vec<SliceId>, FixedState>,
    /// By its first record: the annotation.
    by_first: HashMap<SliceId, SliceId, FixedState>,
}

impl Batches {
    /// Finds the batches in which collective kernels are launched.
    pub(super) fn find(store: &Store, kernels: &[&Launched]) -> Self {
        let mut found = Batches::default();
        let names = [BATCH, COLLECTIVE_RECORD].map(|name| store.strings.find(name));
        let ([Some(batch), Some(record)], Some(key)) = (names, store.arg_key(COLLECTIVE)) else { return found };
        let name = |slice: SliceId| store.slices.name(slice);
        let callers = |launched: &&Launched| std::iter::successors(launched.call, |slice| store.slices.parent(*slice));
        // A send by itself is launched in its record.
        let alone: HashSet<SliceId, FixedState> =
            kernels.iter().filter_map(|launched| callers(launched).find(|slice| name(*slice) == record)).collect();
        let mut added: HashMap<ThreadId, Vec<SliceId>, FixedState> = HashMap::default();
        for slice in store.slices.ids().filter(|slice| name(*slice) == batch || name(*slice) == record) {
            let Some(thread) = store.thread_of(slice) else { continue };
            let added = added.entry(thread).or_default();
            if name(slice) == batch {
                if let Some(first) = added.first() {
                    found.by_first.insert(*first, slice);
                    found.of_annotation.insert(slice, std::mem::take(added));
                }
            } else if !alone.contains(&slice) && is_message(store, slice, key) {
                added.push(slice);
            }
        }
        found
    }

    /// The first record of the batch with this annotation.
    pub(super) fn first(&self, annotation: SliceId) -> Option<SliceId> {
        self.of_annotation.get(&annotation)?.first().copied()
    }

    /// The records of the batch with this first record.
    pub(crate) fn records(&self, first: SliceId) -> &[SliceId] {
        self.by_first.get(&first).and_then(|of| self.of_annotation.get(of)).map_or(&[], Vec::as_slice)
    }
}

fn is_message(store: &Store, record: SliceId, key: StringId) -> bool {
    let collective = store.text_arg(store.slices.args(record), key).and_then(Collective::of_record);
    matches!(collective, Some(Collective::Send | Collective::Recv))
}
