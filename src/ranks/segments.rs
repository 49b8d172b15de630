//! What ran on the GPU between collectives, and texts by their numbers.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::reduction::Row;
use crate::attribution::busy::Busy;
use crate::id::SliceId;
use crate::store::Store;
use crate::time::Ns;

/// Texts, each once.
#[derive(Debug, Clone, Default)]
pub(super) struct Texts {
    pub(super) list: Vec<String>,
    at: HashMap<String, u32, FixedState>,
}

impl Texts {
    pub(super) fn intern(&mut self, text: &str) -> u32 {
        if let Some(at) = self.at.get(text) {
            return *at;
        }
        let at = self.list.len() as u32;
        self.list.push(text.to_owned());
        self.at.insert(text.to_owned(), at);
        at
    }
}

/// Finds for how long kernels ran, and none did, between the collectives; `kernels` are those that compute.
pub(super) fn find_busy(store: &Store, rows: &mut [Row], kernels: &[SliceId]) {
    let spans = kernels.iter().map(|kernel| (store.slices.ts(*kernel), store.slices.dur(*kernel).max(Ns::ZERO)));
    let busy = Busy::from_spans(spans);
    let mut last: Option<Ns> = None;
    for row in rows {
        let start = last.unwrap_or(row.start);
        row.busy_before = busy.within(start, row.start);
        row.idle_before = (row.start - start).max(Ns::ZERO) - row.busy_before;
        last = Some(row.end().max(start));
    }
}
