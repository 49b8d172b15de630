//! The source of the tables: a store, the attribution of its kernels, and the comparison of its ranks, both computed on first use.
//!
//! Attributing every kernel of a large trace takes about as long as `stacks` itself, and most queries do not need it.

use std::ops::Deref;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use super::ranks::{Compare, RankRows};
use super::stacks::CallerStacks;
use crate::attribution::backward::Backward;
use crate::attribution::callers::Callers;
use crate::attribution::capture::{Captured, Captures};
use crate::attribution::launches::{self, Launched, Launches};
use crate::attribution::module_frames::ModuleFrames;
use crate::attribution::nearest::Nearest;
use crate::attribution::operations::Operations;
use crate::attribution::ranks::Ranks;
use crate::attribution::selection::{Wanted, family_in};
use crate::attribution::{Attribution, AttributionOptions, Attributor};
use crate::id::{OperationId, RankId, SliceId};
use crate::names::args::COLLECTIVE_RECORD;
use crate::operation::{Communicator, Operation};
use crate::operations::communicators::Communicators;
use crate::operations::join::{Joined, Unjoined};
use crate::operations::processes::{Process, Processes};
use crate::recorded_args::{Keys, List, MemoryKeys, Operators};
use crate::records::Records;
use crate::store::Store;

/// A store and the data derived from it. It dereferences to the store.
#[derive(Debug)]
pub struct Source {
    store: Arc<Store>,
    /// Present until the launches are found.
    captures: Mutex<Option<Captures>>,
    /// With what the captures add to them, until the attribution is computed.
    launches: OnceLock<(Launches, Mutex<Captured>)>,
    attributed: OnceLock<Attributed>,
    /// By row of the attribution: the innermost operator with recorded arguments.
    kernel_ops: OnceLock<Vec<Option<SliceId>>>,
    backward: OnceLock<Backward>,
    /// The comparison of the ranks.
    pub(super) compare: Option<Compare>,
    compared: OnceLock<Result<RankRows, String>>,
    /// NCCL's own records.
    pub(super) records: OnceLock<Arc<Records>>,
    processes: OnceLock<Processes>,
    /// Which records belong to which kernels.
    joined: OnceLock<Joined>,
    operators: OnceLock<(Arc<Keys>, Vec<SliceId>)>,
    /// By index among the operators.
    module_frames: OnceLock<ModuleFrames>,
    memory_events: OnceLock<(MemoryKeys, Vec<SliceId>)>,
    /// By index among the operators: the innermost operator around each.
    op_callers: OnceLock<Vec<Option<SliceId>>>,
    op_stacks: OnceLock<CallerStacks>,
    memory_stacks: OnceLock<CallerStacks>,
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
            launches: OnceLock::new(),
            attributed: OnceLock::new(),
            kernel_ops: OnceLock::new(),
            backward: OnceLock::new(),
            compare: None,
            compared: OnceLock::new(),
            records: OnceLock::new(),
            processes: OnceLock::new(),
            joined: OnceLock::new(),
            operators: OnceLock::new(),
            module_frames: OnceLock::new(),
            memory_events: OnceLock::new(),
            op_callers: OnceLock::new(),
            op_stacks: OnceLock::new(),
            memory_stacks: OnceLock::new(),
        }
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub(super) fn attributed(&self) -> &Attributed {
        self.attributed.get_or_init(|| {
            let (launches, captured) = self.found_launches();
            let captured = std::mem::take(&mut *captured.lock().unwrap_or_else(PoisonError::into_inner));
            Attributed::new(&self.store, launches, captured)
        })
    }

    fn found_launches(&self) -> &(Launches, Mutex<Captured>) {
        self.launches.get_or_init(|| {
            let captures = self.captures.lock().unwrap_or_else(PoisonError::into_inner).take();
            let mut launches = launches::for_work(&self.store, self.store.kernels.clone());
            let captured = captures.map_or_else(Captured::default, |known| known.stacks(&self.store, &mut launches));
            (launches, Mutex::new(captured))
        })
    }

    /// The launches of all kernels, in the order of the attribution's rows: a question that needs no more is spared the attribution.
    pub(super) fn launches(&self) -> &Launches {
        &self.found_launches().0
    }

    /// A row of [`Source::launches`].
    pub(super) fn launched(&self, row: usize) -> &Launched {
        &self.launches().kernels[row]
    }

    /// The innermost operator with recorded arguments around the launch of a kernel. The record of a collective's parameters does not count, because
    /// it repeats the arguments of the operator around it.
    pub(super) fn op_of_kernel(&self, row: usize) -> Option<SliceId> {
        self.kernel_ops.get_or_init(|| {
            let operators = Operators::with(&self.store, self.operator_keys().clone());
            let record = self.store.strings.find(COLLECTIVE_RECORD);
            let counts = |slice: SliceId| {
                operators.is_operator(slice)
                    && Some(self.store.slices.name(slice)) != record
                    && List::ALL.iter().any(|list| operators.has(slice, *list))
            };
            let (mut nearest, mut callers) = (Nearest::default(), Callers::new(&self.store));
            let mut op = |launched: &Launched| nearest.of_launch(&mut callers, launched.call?, counts);
            self.launches().kernels.iter().map(&mut op).collect()
        })[row]
    }

    /// The backward pass, with the places of the kernels by row of [`Source::launches`].
    pub(super) fn backward(&self) -> &Backward {
        self.backward.get_or_init(|| Backward::find(&self.store, self.launches()))
    }

    fn operators(&self) -> &(Arc<Keys>, Vec<SliceId>) {
        self.operators.get_or_init(|| {
            let operators = Operators::new(&self.store);
            let slices = self.store.slices.ids().filter(|slice| operators.is_operator(*slice)).collect();
            (operators.keys(), slices)
        })
    }

    pub(super) fn operator_keys(&self) -> &Arc<Keys> {
        &self.operators().0
    }

    /// The slices of operators, in order.
    pub(super) fn operator_slices(&self) -> &[SliceId] {
        &self.operators().1
    }

    /// The modules of operators, from the frames around them.
    pub(super) fn module_frames(&self) -> &ModuleFrames {
        self.module_frames
            .get_or_init(|| ModuleFrames::find(&self.store, &mut Callers::new(&self.store), self.operator_slices()))
    }

    /// The innermost operator around an operator.
    pub(super) fn op_caller(&self, row: usize) -> Option<SliceId> {
        self.op_callers.get_or_init(|| {
            let operators = Operators::with(&self.store, self.operator_keys().clone());
            let mut callers = Callers::new(&self.store);
            let mut outer = |op: &SliceId| {
                let mut next = callers.caller(*op);
                while let Some(slice) = next.filter(|slice| !operators.is_operator(*slice)) {
                    next = callers.caller(slice);
                }
                next
            };
            self.operator_slices().iter().map(&mut outer).collect()
        })[row]
    }

    /// The call paths of operators.
    pub(super) fn op_stacks(&self) -> &CallerStacks {
        self.op_stacks.get_or_init(|| CallerStacks::find(&self.store, self.operator_slices()))
    }

    /// The call paths of memory events.
    pub(super) fn memory_stacks(&self) -> &CallerStacks {
        self.memory_stacks.get_or_init(|| CallerStacks::find(&self.store, &self.memory_events().1))
    }

    /// The memory events that the profiler recorded.
    pub(super) fn memory_events(&self) -> &(MemoryKeys, Vec<SliceId>) {
        self.memory_events.get_or_init(|| {
            let keys = MemoryKeys::new(&self.store);
            let events = keys.events(&self.store);
            (keys, events)
        })
    }

    /// NCCL's own records; empty if there are none.
    pub(super) fn records(&self) -> &Records {
        static NONE: LazyLock<Records> = LazyLock::new(Records::default);
        self.records.get().map_or(&NONE, |records| records)
    }

    /// The number of rows of `collective`: operations of the trace, then of the records.
    pub(super) fn operations(&self) -> usize {
        self.attributed().operations.rows.len() + self.records().operations.len()
    }

    /// A row of `collective`.
    pub(super) fn operation(&self, row: usize) -> &Operation {
        let of_trace = &self.attributed().operations.rows;
        of_trace.get(row).unwrap_or_else(|| &self.records().operations[row - of_trace.len()])
    }

    /// The index among the operations of the records for a row of `collective`; `None` for rows of the trace.
    pub(super) fn record_of_row(&self, row: usize) -> Option<usize> {
        row.checked_sub(self.attributed().operations.rows.len())
    }

    /// The row of `collective` for an operation of the records.
    pub(super) fn row_of_record(&self, operation: usize) -> usize {
        self.attributed().operations.rows.len() + operation
    }

    /// The kernel of a row of `collective`: its own, or the one a record is joined to, or the reason why the record has none.
    pub(super) fn kernel_of_row(&self, row: usize) -> Option<Result<SliceId, Unjoined>> {
        match self.record_of_row(row) {
            None => self.operation(row).kernel.map(Ok),
            Some(record) => self.joined().kernels.get(record).copied().flatten(),
        }
    }

    /// The processes that the records name.
    pub(super) fn processes(&self) -> &[Process] {
        let find = || Processes::find(self.records(), &Communicators::find(self.records()));
        &self.processes.get_or_init(find).all
    }

    fn joined(&self) -> &Joined {
        self.joined.get_or_init(|| Joined::find(&self.attributed().operations, self.records()))
    }

    /// The number of communicators: those of the trace, then those of the records.
    pub(super) fn communicators(&self) -> usize {
        self.attributed().operations.communicators.len() + self.records().communicators.len()
    }

    /// A row of `communicator`.
    pub(super) fn communicator(&self, row: usize) -> &Communicator {
        let of_trace = &self.attributed().operations.communicators;
        of_trace.get(row).unwrap_or_else(|| &self.records().communicators[row - of_trace.len()])
    }

    /// The row of `communicator` for an index among those of the records.
    pub(super) fn communicator_of_record(&self, communicator: Option<usize>) -> Option<usize> {
        communicator.map(|communicator| self.attributed().operations.communicators.len() + communicator)
    }

    /// The row of `communicator` for a row of `collective`.
    pub(super) fn communicator_of_row(&self, row: usize) -> Option<usize> {
        let communicator = self.operation(row).communicator;
        if self.record_of_row(row).is_some() { self.communicator_of_record(communicator) } else { communicator }
    }

    /// The row of `collective` for the operation that a kernel carries out.
    pub(super) fn operation_of(&self, kernel: SliceId) -> Option<OperationId> {
        let rows = &self.attributed().operations.rows;
        rows.binary_search_by_key(&Some(kernel), |operation| operation.kernel).ok().map(OperationId::of_row)
    }

    fn compared(&self) -> &Result<RankRows, String> {
        self.compared
            .get_or_init(|| self.compare.as_ref().map_or_else(|| Ok(RankRows::default()), |by| by.rows(&self.store)))
    }

    /// The comparison of the ranks; without rows if they cannot be compared.
    pub(super) fn rank_rows(&self) -> &RankRows {
        static NONE: RankRows =
            RankRows { ranks: Vec::new(), matches: Vec::new(), path: Vec::new(), incomparable: None };
        self.compared().as_ref().unwrap_or(&NONE)
    }

    /// The reason why the ranks cannot be compared.
    pub(super) fn incomparable(&self) -> Option<&str> {
        match self.compared() {
            Ok(rows) => rows.incomparable.as_deref(),
            Err(why) => Some(why),
        }
    }

    /// The reason why nothing has a critical path.
    pub(super) fn without_path(&self) -> Option<&str> {
        self.compared().as_ref().err().map(String::as_str)
    }

    /// The family of the kernel of a row of `kernel_launch`.
    pub(super) fn family(&self, row: usize) -> Option<&'static str> {
        let attributed = self.attributed();
        let name = self.store.slices.name(self.launched(row).kernel);
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
    fn new(store: &Store, launches: &Launches, captured: Captured) -> Self {
        let wanted = Wanted::collectives();
        let attributor = Attributor::new(store, &wanted, captured);
        let attribution = attributor.attribute(launches.kernels.iter(), AttributionOptions::default());
        let operations = Operations::find(store, &attribution);
        let ranks = Ranks::find(store, &attribution.kernels);
        let ranks = attribution.kernels.iter().map(|row| ranks.of_kernel(row)).collect();
        // Both are in kernel order.
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
        families[name.id.0 as usize] = family_in(store, name).map(|family| family.name);
    }
    families
}
