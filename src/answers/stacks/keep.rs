//! Chooses what to keep of a trace so that a window of it can be viewed, and analysed again, without the rest.
//!
//! That is more than the window's content: kernels run after their launch, functions began before the window, the forward pass ran long before. A few
//! more slices are kept because callers are found through them.

use std::collections::{BTreeMap, HashMap, HashSet};

use foldhash::fast::FixedState;

use super::gpu_spans::{is_by_launches, launched_in, spans_of};
use crate::attribution::busy::Busy;
use crate::attribution::callers::{Callers, end};
use crate::attribution::forward::Forwards;
use crate::attribution::gradients::Gradients;
use crate::attribution::launches;
use crate::attribution::launches::{Evidence, Launched, Launches, WindowOn};
use crate::attribution::nearest::Nearest;
use crate::attribution::threads::MainThreads;
use crate::id::{GpuId, ProcessId, SliceId, ThreadId};
use crate::names::category::CategoryKind;
use crate::names::gradients::is_node;
use crate::store::Store;
use crate::time::{Ns, Window};

#[derive(Debug)]
pub struct Kept {
    /// By slice id: whether it is kept.
    pub slices: Vec<bool>,
    /// The chosen kernels in the window, in order.
    pub matched: Vec<SliceId>,
}

/// Finds what to keep for a window, given the launches of the chosen kernels:
///
/// - everything that overlaps the window;
/// - the chosen kernels in it, and the kernels that ran beside them, which determine their exposed time;
/// - all GPU work launched in it, what runs on the GPU meanwhile, and everything launched by the same graph replays;
/// - the launches of all this GPU work with their callers, and the forward pass of the chosen kernels.
pub fn keep(store: &Store, chosen: &Launches, window: Window, on: WindowOn) -> Kept {
    let in_window = |launched: &&Launched| window.contains(launched.at(store, on));
    let matched: Vec<&Launched> = chosen.kernels.iter().filter(in_window).collect();
    let mut keeper = Keeper::new(store, window);
    matched.iter().for_each(|launched| keeper.slices[launched.kernel.row()] = true);
    let meanwhile = Busy::from_spans(
        matched.iter().map(|launched| (store.slices.ts(launched.kernel), store.slices.dur(launched.kernel))),
    );
    for kernel in store.kernels.iter().copied() {
        let (start, dur) = (store.slices.ts(kernel), store.slices.dur(kernel));
        keeper.slices[kernel.row()] |= meanwhile.within(start, start + dur) > Ns::ZERO;
    }
    let work = store.slices.ids().filter(|slice| is_work(store, *slice)).collect();
    let work = launches::for_work(store, work).kernels;
    if is_by_launches(window, on) {
        keeper.beside(&spans_of(store, &launched_in(store, &work, window)));
    }
    let calls = || work.iter().filter_map(|launched| Some((launched, launched.call?)));
    // A replay is matched by order, so it is kept as a whole.
    let is_replayed = |launched: &Launched| launched.evidence == Evidence::GraphReplay;
    let shown = calls().filter(|(launched, _)| is_replayed(launched) && keeper.slices[launched.kernel.row()]);
    let replays: HashSet<SliceId> = shown.map(|(_, call)| call).collect();
    for (launched, call) in calls() {
        let kernel = &mut keeper.slices[launched.kernel.row()];
        *kernel |= window.contains(store.slices.ts(call)) || replays.contains(&call);
        if *kernel {
            keeper.launch(call);
        }
    }
    for launched in &matched {
        if let Some(call) = launched.call {
            keeper.launch(call);
            keeper.forward(call);
        }
    }
    Kept { slices: keeper.finish(), matched: matched.iter().map(|launched| launched.kernel).collect() }
}

fn is_work(store: &Store, slice: SliceId) -> bool {
    match store.category_kind(slice) {
        CategoryKind::Kernel => true,
        CategoryKind::Gpu => store.correlation(slice).is_some(),
        _ => false,
    }
}

struct Keeper<'a> {
    store: &'a Store,
    slices: Vec<bool>,
    callers: Callers<'a>,
    forwards: Forwards<'a>,
    gradients: Gradients<'a>,
    /// Slices whose callers are kept already.
    climbed: Vec<bool>,
    /// The innermost backward operators.
    backwards: Nearest,
    /// By slice: the outermost run of `AccumulateGrad` that it is or lies in.
    nodes: HashMap<SliceId, Option<SliceId>, FixedState>,
    /// The backward passes whose gradients are kept already.
    passes: HashSet<usize>,
    processes: HashSet<ProcessId>,
}

impl<'a> Keeper<'a> {
    fn new(store: &'a Store, window: Window) -> Self {
        let count = store.slices.len();
        let slices = store.slices.ids().map(|slice| overlaps(store, slice, window)).collect();
        let (callers, forwards, gradients) = (Callers::new(store), Forwards::new(store), Gradients::new(store));
        Keeper {
            store,
            slices,
            callers,
            forwards,
            gradients,
            climbed: vec![false; count],
            backwards: Nearest::default(),
            nodes: HashMap::default(),
            passes: HashSet::new(),
            processes: HashSet::new(),
        }
    }

    /// Keeps all that runs on the GPUs in these spans: in them the GPU is busy or idle.
    fn beside(&mut self, spans: &BTreeMap<GpuId, Window>) {
        let Keeper { store, slices, .. } = self;
        for slice in store.slices.ids().filter(|slice| is_work(store, *slice)) {
            let is_inside = |span: &Window| overlaps(store, slice, *span);
            slices[slice.row()] |= spans.get(&store.gpu_of(slice)).is_some_and(is_inside);
        }
    }

    fn launch(&mut self, call: SliceId) {
        if !std::mem::replace(&mut self.climbed[call.row()], true) {
            self.processes.extend(self.store.process_of(call));
            self.with_parents(call);
            if let Some(caller) = self.callers.caller_of_launch(call) {
                self.with_callers(caller);
            }
        }
    }

    fn with_callers(&mut self, slice: SliceId) {
        let mut next = Some(slice);
        while let Some(slice) = next
            && !std::mem::replace(&mut self.climbed[slice.row()], true)
        {
            self.with_parents(slice);
            next = self.callers.caller(slice);
        }
    }

    /// Also keeps the slices around a slice on its track that did not call it: a viewer shows them nested.
    fn with_parents(&mut self, slice: SliceId) {
        let mut next = Some(slice);
        while let Some(slice) = next {
            self.slices[slice.row()] = true;
            next = self.store.slices.parent(slice);
        }
    }

    /// Keeps the forward operator that a backward launch belongs to.
    fn forward(&mut self, call: SliceId) {
        if let Some(node) = self.gradient(call) {
            let Keeper { gradients, callers, forwards, passes, .. } = self;
            let pass = gradients.pass_of(node, callers, forwards).filter(|pass| passes.insert(*pass));
            let witnesses = pass.map(|pass| gradients.witnesses(pass, callers, forwards)).unwrap_or_default();
            witnesses.into_iter().for_each(|slice| self.with_callers(slice));
        }
        let is_backward = |slice| self.store.autograd(slice).is_some_and(|number| number.forward_thread != 0);
        if let Some(backward) = self.backwards.of_launch(&mut self.callers, call, is_backward)
            && let Some(operator) = self.forwards.forward(backward, &mut self.callers).operator()
        {
            self.with_callers(operator);
        }
    }

    /// The outermost run of `AccumulateGrad` around a launch. Each slice is visited once.
    fn gradient(&mut self, call: SliceId) -> Option<SliceId> {
        if !self.gradients.has_any() {
            return None;
        }
        let caller = self.callers.caller_of_launch(call);
        self.callers.inherited(caller, &mut self.nodes, None, |around, slice| {
            around.or_else(|| is_node(self.store.slice_name(slice)).then_some(slice))
        })
    }

    /// Adds the slices that decide how other slices are interpreted.
    fn finish(mut self) -> Vec<bool> {
        let store = self.store;
        let mut telling: Vec<SliceId> = self.callers.witnesses().chain(self.forwards.witnesses()).collect();
        // The first call of all decides why a kernel is unattributed.
        telling.extend(store.runtime_calls.first());
        let with_id = store.runtime_calls.iter().filter(|call| store.correlation(**call).is_some());
        telling.extend(with_id.min_by_key(|call| store.correlation(**call)));
        // A launch on a helper thread names that thread; the main thread is recognised by having slices.
        let mains = MainThreads::find(store);
        let of_launches = mains.iter().filter(|(process, _)| self.processes.contains(process));
        let mut main: HashSet<ThreadId> = of_launches.map(|(_, thread)| thread).collect();
        for slice in store.slices.ids() {
            if main.is_empty() {
                break;
            }
            if store.thread_of(slice).is_some_and(|thread| main.remove(&thread)) {
                telling.push(slice);
            }
        }
        telling.into_iter().for_each(|slice| self.slices[slice.row()] = true);
        self.slices
    }
}

/// Whether a slice overlaps a window; for a slice of zero length, whether it starts in it.
fn overlaps(store: &Store, slice: SliceId, window: Window) -> bool {
    let start = store.slices.ts(slice);
    start < window.end && (end(store, slice) > window.start || start >= window.start)
}
