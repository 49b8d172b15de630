//! Copies that carry out collectives. NCCL may leave a collective to the copy engines of a GPU: then no kernel runs, and the copies have the
//! External id of the collective's record. Operators of symmetric memory launch copies from the memory of their peers themselves
//! (`_low_contention_all_gather`).
//!
//! These copies count as kernels from here on: like kernels they have a stack, a cost and a place in the order of collectives.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::Store;
use crate::id::{SliceId, TraceId};
use crate::names::args::COLLECTIVE_RECORD;
use crate::names::calls::{is_device_copy, is_peer_copy};
use crate::names::category::{CategoryKind, MARKED};
use crate::names::communication::Copying;
use crate::store::slices::UNFINISHED;

type ById = HashMap<(TraceId, i64), Vec<SliceId>, FixedState>;

impl Store {
    /// Adds the copies that carry out collectives to the kernels.
    pub(super) fn add_copies(&mut self) {
        let copies = self.copies_of_collectives();
        if copies.is_empty() {
            return;
        }
        for copy in &copies {
            let id = self.slices.name(*copy);
            if let Ok(at) = self.names.binary_search_by_key(&id, |name| name.id) {
                self.names[at].of_kernel = true;
            }
        }
        self.kernels.extend(copies);
        self.kernels.sort_unstable();
    }

    /// The copies between or within GPUs that have the External id of a record and were launched while it was open (a script may have merged several
    /// ranks into one file, each with its own operator of that id), and those launched by an operator that communicates by copies.
    fn copies_of_collectives(&self) -> Vec<SliceId> {
        let record = self.strings.find(COLLECTIVE_RECORD);
        let (mut is_copy, mut copying) = (vec![false; self.strings.len()], vec![None; self.strings.len()]);
        for name in &self.names {
            let (text, at) = (self.strings.get(name.id).unwrap_or_default(), name.id.0 as usize);
            is_copy[at] = name.of_gpu && is_device_copy(text);
            copying[at] = if name.of_cpu { Copying::of_operator(text) } else { None };
        }
        let has_operators = copying.iter().any(Option::is_some);
        if !is_copy.contains(&true) || record.is_none() && !has_operators {
            return Vec::new();
        }
        let (mut records, mut copies): (ById, Vec<SliceId>) = Default::default();
        for slice in self.slices.ids() {
            let name = self.slices.name(slice);
            if is_copy[name.0 as usize] {
                copies.push(slice);
            } else if Some(name) == record
                && let Some(id) = self.external_id(slice)
            {
                records.entry((self.trace_of(slice), id)).or_default().push(slice);
            }
        }
        let marked = self.strings.find(MARKED);
        copies.retain(|copy| {
            let is_work = self.category_kind(*copy) == CategoryKind::Gpu && Some(self.slices.category(*copy)) != marked;
            is_work && (has_operators || self.records_of(*copy, &records).is_some())
        });
        let mut calls: ById =
            copies.iter().filter_map(|copy| Some((self.trace_correlation(*copy)?, Vec::new()))).collect();
        let runtime_calls = if calls.is_empty() { &[][..] } else { &self.runtime_calls };
        for call in runtime_calls {
            if let Some(with_id) = self.trace_correlation(*call).and_then(|id| calls.get_mut(&id)) {
                with_id.push(*call);
            }
        }
        copies.retain(|copy| {
            let calls = self.trace_correlation(*copy).and_then(|id| calls.get(&id)).map_or(&[][..], Vec::as_slice);
            let records = self.records_of(*copy, &records).unwrap_or_default();
            let is_of_record = match (calls, records) {
                ([], [only]) => self.slices.ts(*only) <= self.slices.ts(*copy),
                _ => records.iter().any(|record| calls.iter().any(|call| self.is_open_at(*record, *call))),
            };
            is_of_record || has_operators && calls.iter().any(|call| self.communicates(*call, *copy, &copying))
        });
        copies
    }

    /// Whether a copy that a call launches carries out a collective, by the operators around the call. `copying` says it of names.
    fn communicates(&self, call: SliceId, copy: SliceId, copying: &[Option<Copying>]) -> bool {
        let mut callers = std::iter::successors(Some(call), |slice| self.slices.parent(*slice));
        match callers.find_map(|slice| copying[self.slices.name(slice).0 as usize]) {
            Some(Copying::All) => true,
            Some(Copying::FromPeers) => self.strings.get(self.slices.name(copy)).is_some_and(is_peer_copy),
            None => false,
        }
    }

    /// The records with a copy's External id.
    fn records_of<'r>(&self, copy: SliceId, records: &'r ById) -> Option<&'r [SliceId]> {
        records.get(&(self.trace_of(copy), self.external_id(copy)?)).map(Vec::as_slice)
    }

    /// Whether a record is open in the process of a call when the call begins.
    fn is_open_at(&self, record: SliceId, call: SliceId) -> bool {
        let (start, dur, at) = (self.slices.ts(record), self.slices.dur(record), self.slices.ts(call));
        self.process_of(record) == self.process_of(call) && start <= at && (dur == UNFINISHED || at < start + dur)
    }
}
