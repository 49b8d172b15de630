//! The source of the tables: a store, the attribution of its kernels, and the comparison of its ranks, both computed on first use.
//!
//! Attributing every kernel of a large trace takes about as long as `stacks` itself; most queries do not need it.

use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::ranks::{Compare, RankRows};
use crate::attribution::capture::{Captured, Captures};
use crate::attribution::launches;
use crate::attribution::operations::Operations;
use crate::attribution::ranks::Ranks;
use crate::attribution::selection::{Wanted, family_of};
use crate::attribution::{Attribution, AttributionOptions, Attributor};
use crate::id::{OperationId, RankId, SliceId};
use crate::operation::Operation;
use crate::store::Store;

/// A store and what is derived from it. It dereferences to the store.
#[derive(Debug)]
pub struct Source {
    store: Arc<Store>,
    /// Present until the attribution is computed.
    captures: Mutex<Option<Captures>>,
    attributed: OnceLock<Attributed>,
    /// How the ranks are compared.
    pub(super) compare: Option<Compare>,
    compared: OnceLock<Result<RankRows, String>>,
}

/// The attribution of all kernels, with the default [`AttributionOptions`].
#[derive(Debug)]
pub(super) struct Attributed {
    pub(super) attribution: Attribution,
    pub(super) operations: Operations,
    /// By row of the attribution.
    pub(super) ranks: Vec<Option<RankId>>,
    /// By row of the attribution: the operation that the kernel carries out.
    pub(super) operation_of: Vec<Option<OperationId>>,
    /// By [`StringId`](crate::store::strings::StringId) of a kernel's name: the first family with it.
    families: Vec<Option<&'static str>>,
}

impl Source {
    pub(super) fn new(store: Store, captures: Option<Captures>) -> Self {
        Source {
            store: Arc::new(store),
            captures: Mutex::new(captures),
            attributed: OnceLock::new(),
            compare: None,
            compared: OnceLock::new(),
        }
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub(super) fn attributed(&self) -> &Attributed {
        self.attributed.get_or_init(|| {
            let captures = self.captures.lock().unwrap_or_else(PoisonError::into_inner).take();
            Attributed::new(&self.store, captures)
        })
    }

    /// A row of `collective`.
    pub(super) fn operation(&self, row: usize) -> &Operation {
        &self.attributed().operations.rows[row]
    }

    /// The row of `collective` that a kernel carries out.
    pub(super) fn operation_of(&self, kernel: SliceId) -> Option<OperationId> {
        let rows = &self.attributed().operations.rows;
        rows.binary_search_by_key(&Some(kernel), |operation| operation.kernel).ok().map(OperationId::of_row)
    }

    fn compared(&self) -> &Result<RankRows, String> {
        self.compared
            .get_or_init(|| self.compare.map_or_else(|| Ok(RankRows::default()), |compare| compare(&self.store)))
    }

    /// The comparison of the ranks; no rows if they cannot be compared.
    pub(super) fn rank_rows(&self) -> &RankRows {
        static NONE: RankRows = RankRows { ranks: Vec::new(), matches: Vec::new() };
        self.compared().as_ref().unwrap_or(&NONE)
    }

    /// Why the ranks cannot be compared.
    pub(super) fn incomparable(&self) -> Option<&str> {
        self.compared().as_ref().err().map(String::as_str)
    }

    /// The family of the kernel of a row of `kernel_launch`.
    pub(super) fn family(&self, row: usize) -> Option<&'static str> {
        let attributed = self.attributed();
        let name = self.store.slices.name(attributed.attribution.kernels[row].launched.kernel);
        attributed.families[name.0 as usize]
    }
}

impl Deref for Source {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl Attributed {
    fn new(store: &Store, captures: Option<Captures>) -> Self {
        let wanted = Wanted::collectives();
        let mut launches = launches::of(store, store.kernels.clone());
        let captured = captures.map_or_else(Captured::default, |known| known.stacks(store, &mut launches));
        let attributor = Attributor::new(store, &wanted, captured);
        let attribution = attributor.attribute(launches.kernels.iter(), AttributionOptions::default());
        let operations = Operations::of(store, &wanted, &attribution);
        let ranks = Ranks::of(store, &attribution.kernels);
        let ranks = attribution.kernels.iter().map(|row| ranks.of_kernel(row)).collect();
        // Both are in the order of kernels.
        let mut next = operations.rows.iter().enumerate().peekable();
        let operation_of = attribution.kernels.iter().map(|row| {
            let found = next.next_if(|(_, operation)| operation.kernel == Some(row.launched.kernel));
            found.map(|(number, _)| OperationId::of_row(number))
        });
        let operation_of = operation_of.collect();
        Attributed { operation_of, ranks, families: families(store), operations, attribution }
    }
}

/// See [`Attributed::families`].
fn families(store: &Store) -> Vec<Option<&'static str>> {
    let mut families = vec![None; store.strings.len()];
    for name in store.names.iter().filter(|name| name.of_kernel) {
        let text = store.strings.get(name.id).unwrap_or_default();
        families[name.id.0 as usize] = family_of(text).map(|family| family.name);
    }
    families
}
