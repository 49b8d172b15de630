//! The parameters whose gradients a hook sends: the buckets of DDP, and the units of FSDP and ZeRO.
//!
//! `AccumulateGrad` adds a gradient to that of a parameter, and has no operator of the forward pass. The engine runs it directly after the node
//! that made the gradient, so the last numbered node before it on its thread identifies the operator of the forward pass, and the module, that use
//! the parameter. Its hooks send the gradients of several parameters together, when the last of them is ready: those accumulated since the last
//! hook that sent any, in the same backward pass. The numbers of a thread's nodes fall within a pass; where they rise, a new pass begins.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use foldhash::fast::FixedState;

use super::call_tree::{CallTree, Climber};
use super::callers::{Callers, end};
use super::forward::Forwards;
use super::module_frames::ModuleFrames;
use crate::id::{PathId, SliceId};
use crate::names::category::CategoryKind;
use crate::names::described::is_operator;
use crate::names::frames::{UserCode, is_collective, is_node_of, node};
use crate::names::gradients;
use crate::store::Store;
use crate::store::strings::StringId;
use crate::time::Ns;

/// The role of a slice, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Other,
    /// A run of `AccumulateGrad`.
    Gradient,
    /// A slice around the launch of a collective.
    Collective,
}

/// Finds the gradients that hooks send. The index is built on first use; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Gradients<'a> {
    store: &'a Store,
    index: Arc<OnceLock<Index>>,
    hooks: Hooks,
    known: HashMap<Sending, Sent, FixedState>,
}

/// What determines the gradients that a launch sends: the hook around it, and the size if it is a collective.
type Sending = (Hook, Option<Option<u64>>);

/// The index of each node's gradient.
type ByNode = HashMap<SliceId, usize, FixedState>;

/// All gradients of a trace.
#[derive(Debug, Default)]
struct Index {
    /// Grouped by thread, in order.
    gradients: Vec<Gradient>,
    by_node: ByNode,
    /// By gradient: how many gradients before it have hooks that send.
    sent: Vec<usize>,
    modules: ModuleFrames,
    /// The last operator outside all nodes. A pass that ends before it starts was recorded completely.
    last_outside: Option<SliceId>,
}

/// One run of `AccumulateGrad`.
#[derive(Debug)]
struct Gradient {
    node: SliceId,
    /// The number of its backward pass, counted over all threads.
    pass: usize,
    /// The numbered node that made the gradient.
    producer: Option<SliceId>,
    /// The operator of the forward pass that made that node.
    operator: Option<SliceId>,
    /// The name of the outermost operator around that one, and its number among those with this name in the pass. If the node is not named after
    /// its operator, the node's name: the trace does not have the operator that made it under its own name.
    outermost: (StringId, usize),
    /// A slice around a launch by which its hooks send gradients.
    sends: Option<SliceId>,
}

/// The hook between a node and a launch in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Hook {
    /// The index of the node's gradient.
    gradient: usize,
    /// Whether the user's own function is among the frames: neither a library's nor plumbing.
    is_own: bool,
    /// Whether it is ZeRO's: it sends the gradients before this one, which no longer fits. The rest is sent after the pass, by no hook.
    is_late: bool,
    /// Whether it is FSDP's: it sends the gradients of one module.
    is_unit: bool,
}

/// What a launch in `AccumulateGrad` sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// The call path in the forward pass; for a bucket it ends with a line about the gradients.
    Path(PathId),
    /// A function of the user's own sends it, which says more.
    Own,
    /// No operator of the forward pass is known.
    Unknown,
}

impl<'a> Gradients<'a> {
    /// Finds the gradients of a trace.
    pub(crate) fn new(store: &'a Store) -> Self {
        Gradients { store, index: Arc::default(), hooks: Hooks::default(), known: HashMap::default() }
    }

    /// What a launch in `AccumulateGrad` sends. `bytes` is the size of a collective; `None` for other kernels.
    pub(super) fn sent(
        &mut self,
        launch: SliceId,
        bytes: Option<Option<u64>>,
        (forwards, climber, tree): (&mut Forwards<'a>, &mut Climber<'a>, &mut CallTree),
    ) -> Sent {
        let Gradients { store, index, hooks, known } = self;
        let index = index.get_or_init(|| Index::new(store, &mut climber.callers, forwards));
        let caller = climber.callers.caller_of_launch(launch);
        let Some(hook) = hooks.around(caller, store, &mut climber.callers, &index.by_node) else {
            return Sent::Unknown;
        };
        if hook.is_own {
            return Sent::Own;
        }
        *known.entry((hook, bytes)).or_insert_with(|| index.sent(store, hook, bytes, climber, tree))
    }

    /// Whether the trace has any gradients.
    pub(crate) fn has_any(&self) -> bool {
        gradients::NODES.iter().any(|name| self.store.strings.find(name).is_some())
    }

    /// The number of the backward pass to which a node belongs.
    pub(crate) fn pass_of(
        &self,
        node: SliceId,
        callers: &mut Callers<'a>,
        forwards: &mut Forwards<'a>,
    ) -> Option<usize> {
        let index = self.index.get_or_init(|| Index::new(self.store, callers, forwards));
        index.by_node.get(&node).map(|at| index.gradients[*at].pass)
    }

    /// The slices that attribute the launches in a backward pass: the whole pass.
    pub(crate) fn witnesses(
        &self,
        pass: usize,
        callers: &mut Callers<'a>,
        forwards: &mut Forwards<'a>,
    ) -> Vec<SliceId> {
        let index = self.index.get_or_init(|| Index::new(self.store, callers, forwards));
        let pass = &index.gradients[index.pass(pass)];
        if pass.iter().all(|gradient| gradient.operator.is_none()) {
            return Vec::new();
        }
        let slices = |gradient: &Gradient| [Some(gradient.node), gradient.producer, gradient.operator, gradient.sends];
        pass.iter().flat_map(slices).chain([index.last_outside]).flatten().collect()
    }
}

impl Hook {
    /// Adds one slice between the node and the launch.
    fn within(self, name: &str) -> Self {
        Hook {
            is_own: self.is_own || UserCode::default().has(name),
            is_late: self.is_late || gradients::is_zero(name),
            is_unit: self.is_unit || gradients::is_fsdp(name),
            ..self
        }
    }
}

/// The hooks around slices. Each slice is passed once.
#[derive(Debug, Clone, Default)]
struct Hooks(HashMap<SliceId, Option<Hook>, FixedState>);

impl Hooks {
    /// The hook between a node and the launches of a slice.
    fn around<'s>(
        &mut self,
        slice: Option<SliceId>,
        store: &'s Store,
        callers: &mut Callers<'s>,
        by_node: &ByNode,
    ) -> Option<Hook> {
        let of_node = |slice| by_node.get(&slice).map(|gradient| Some(Hook { gradient: *gradient, ..Hook::default() }));
        let (passed, known) =
            callers.up_to_known(slice, |slice| of_node(slice).or_else(|| self.0.get(&slice).copied()));
        let mut found = known.flatten();
        for slice in passed.into_iter().rev() {
            found = found.map(|hook| hook.within(store.slice_name(slice)));
            self.0.insert(slice, found);
        }
        found
    }
}

impl Index {
    fn new<'s>(store: &'s Store, callers: &mut Callers<'s>, forwards: &mut Forwards<'s>) -> Self {
        let mut found = Threads::find(store);
        let mut index = Index { last_outside: found.last_outside, ..Index::default() };
        index.gradients = found.gradients();
        index.by_node = index.gradients.iter().enumerate().map(|(at, gradient)| (gradient.node, at)).collect();
        let mut hooks = Hooks::default();
        for slice in found.collectives {
            let caller = callers.caller(slice);
            if let Some(hook) = hooks.around(caller, store, callers, &index.by_node).filter(|hook| !hook.is_own) {
                index.gradients[hook.gradient].sends.get_or_insert(slice);
            }
        }
        index.sent = vec![0];
        for gradient in &index.gradients {
            index.sent.push(index.sent.last().copied().unwrap_or(0) + usize::from(gradient.sends.is_some()));
        }
        for gradient in &mut index.gradients {
            gradient.operator = gradient.producer.and_then(|producer| forwards.forward(producer, callers).operator());
        }
        index.number(store, callers);
        let operators: Vec<SliceId> =
            index.gradients.iter().map(|gradient| gradient.operator.unwrap_or(gradient.node)).collect();
        index.modules = ModuleFrames::find(store, callers, &operators);
        index
    }

    /// What a hook sends.
    fn sent<'s>(
        &self,
        store: &'s Store,
        hook: Hook,
        bytes: Option<Option<u64>>,
        climber: &mut Climber<'s>,
        tree: &mut CallTree,
    ) -> Sent {
        let at = hook.gradient;
        let members = if bytes.is_some() { self.members(at, hook.is_late) } else { at..at + 1 };
        let mut operators: Vec<usize> = members.filter(|at| self.gradients[*at].operator.is_some()).collect();
        operators.sort_by_key(|at| self.gradients[*at].operator);
        let mut paths = operators.iter().filter_map(|at| climber.caller(tree, self.gradients[*at].operator?).path);
        let Some(first) = paths.next() else { return Sent::Unknown };
        let Some(bytes) = bytes else { return Sent::Path(first) };
        let paths: HashSet<PathId> = paths.collect();
        let shared = paths.into_iter().try_fold(first, |shared, path| tree.shared(shared, path));
        if hook.is_unit {
            return Sent::Path(shared.unwrap_or(first));
        }
        let around = shared.iter().flat_map(|path| tree.upwards(*path)).map(|path| tree.name(path));
        let around = around.into_iter().find(|frame| gradients::shows_place(frame));
        let names = self.names(store, &operators);
        let bucket = self.bucket(store, at).filter(|_| !hook.is_late);
        let line = gradients::line(&names, around, bucket, bytes);
        Sent::Path(tree.add(shared, &line))
    }

    /// Numbers the outermost operators of each pass by name, in the order of the forward pass.
    fn number(&mut self, store: &Store, callers: &mut Callers<'_>) {
        let mut passes: BTreeMap<(usize, SliceId), Vec<usize>> = BTreeMap::new();
        let mut known: HashMap<SliceId, SliceId, FixedState> = HashMap::default();
        for (at, gradient) in self.gradients.iter().enumerate() {
            let Some(operator) = gradient.operator else { continue };
            let (mut outermost, mut passed) = (operator, vec![operator]);
            while let Some(caller) = callers.caller(outermost).filter(|caller| is_forward(store, *caller)) {
                outermost = known.get(&caller).copied().unwrap_or(caller);
                if outermost != caller {
                    break;
                }
                passed.push(caller);
            }
            known.extend(passed.into_iter().map(|slice| (slice, outermost)));
            passes.entry((gradient.pass, outermost)).or_default().push(at);
        }
        let mut counts: HashMap<(usize, StringId), usize> = HashMap::new();
        for ((pass, operator), gradients) in passes {
            let first = &self.gradients[gradients[0]];
            let is_named = |producer: SliceId, operator: SliceId| {
                is_node_of(node(store.slice_name(producer)), store.slice_name(operator))
            };
            let unnamed = first.producer.filter(|producer| first.operator.is_some_and(|of| !is_named(*producer, of)));
            let name = store.slices.name(unnamed.unwrap_or(operator));
            let count = counts.entry((pass, name)).or_default();
            *count += 1;
            gradients.into_iter().for_each(|at| self.gradients[at].outermost = (name, *count));
        }
    }

    /// The gradients that a hook sends.
    fn members(&self, at: usize, is_late: bool) -> Range<usize> {
        let pass = self.pass(self.gradients[at].pass);
        let last = (pass.start..at).rev().find(|at| self.gradients[*at].sends.is_some());
        if is_late { last.unwrap_or(pass.start)..at } else { last.map_or(pass.start, |last| last + 1)..at + 1 }
    }

    /// The gradients of a backward pass on a thread.
    fn pass(&self, pass: usize) -> Range<usize> {
        let start = self.gradients.partition_point(|gradient| gradient.pass < pass);
        start..self.gradients.partition_point(|gradient| gradient.pass <= pass)
    }

    /// The number of the bucket that a hook sends, and the number of buckets in the pass; `None` if the pass was not recorded completely.
    fn bucket(&self, store: &Store, at: usize) -> Option<(usize, usize)> {
        let pass = self.pass(self.gradients[at].pass);
        let last_outside = self.last_outside.map_or(Ns::ZERO, |slice| store.slices.ts(slice));
        let whole = self.gradients[pass.start].operator.is_some()
            && end(store, self.gradients[pass.end - 1].node) <= last_outside;
        let sent = |range: Range<usize>| self.sent[range.end] - self.sent[range.start];
        let sends = self.gradients[at].sends.is_some();
        (whole && sends).then(|| (sent(pass.start..at + 1), sent(pass)))
    }

    /// The module paths of some gradients' parameters, outermost first. If no module is recorded, the operator and its number.
    fn names(&self, store: &Store, gradients: &[usize]) -> Vec<Vec<String>> {
        let name = |at: &usize| {
            let path = self.modules.path(store, *at);
            let (name, number) = self.gradients[*at].outermost;
            let operator = || vec![format!("{} #{number}", node(store.strings.get(name).unwrap_or_default()))];
            path.map_or_else(operator, |path| path.split('.').map(str::to_owned).collect())
        };
        gradients.iter().map(name).collect()
    }
}

/// The result of one pass over the slices.
#[derive(Debug, Default)]
struct Threads {
    /// By thread, up to the last one that has any.
    threads: Vec<Thread>,
    /// Slices around launches of collectives, on threads that had gradients before.
    collectives: Vec<SliceId>,
    last_outside: Option<SliceId>,
}

/// The backward passes of a thread.
#[derive(Debug, Default)]
struct Thread {
    gradients: Vec<Gradient>,
    /// The last numbered node.
    producer: Option<SliceId>,
    /// The end of the last outermost node.
    until: Ns,
    pass: usize,
    /// By thread of the forward pass: the number of the pass's last outermost node.
    numbers: HashMap<i64, i64>,
}

impl Threads {
    fn find(store: &Store) -> Self {
        let mut roles = vec![Role::Other; store.strings.len()];
        for name in store.names.iter().filter(|name| name.of_cpu) {
            roles[name.id.0 as usize] = match store.strings.get(name.id) {
                Some(name) if gradients::is_node(name) => Role::Gradient,
                Some(name) if is_collective(name) => Role::Collective,
                _ => Role::Other,
            };
        }
        let mut found = Threads::default();
        for slice in store.slices.ids().filter(|slice| store.category_kind(*slice) == CategoryKind::Cpu) {
            let Some(thread) = store.thread_of(slice) else { continue };
            let role = roles[store.slices.name(slice).0 as usize];
            let number = store.autograd(slice);
            let backward = number.filter(|number| number.forward_thread != 0);
            let start = store.slices.ts(slice);
            if role == Role::Other && backward.is_none() {
                let is_in_node = found.threads.get(thread.row()).is_some_and(|thread| start < thread.until);
                // Numbered operators do not count, so that a copy of a part of the trace gives the same result.
                let counts = !is_in_node && number.is_none();
                found.last_outside = if counts { Some(slice) } else { found.last_outside };
                continue;
            }
            if found.threads.len() <= thread.row() {
                found.threads.resize_with(thread.row() + 1, Thread::default);
            }
            let thread = &mut found.threads[thread.row()];
            match (role, backward) {
                (Role::Gradient, _) => thread.gradient(store, slice),
                (_, Some(number)) => thread.node(store, slice, (number.forward_thread, number.sequence)),
                _ if start < thread.until => found.collectives.push(slice),
                _ => {}
            }
        }
        found
    }

    /// All gradients: sorted within each thread, and the threads by their first gradient. Passes are numbered in this order.
    fn gradients(&mut self) -> Vec<Gradient> {
        let mut threads: Vec<Vec<Gradient>> = self.threads.drain(..).map(|thread| thread.gradients).collect();
        threads.sort_by_key(|gradients| gradients.first().map(|gradient| gradient.node));
        let mut passes = 0;
        for gradients in &mut threads {
            for same in gradients.chunk_by_mut(|a, b| a.pass == b.pass) {
                same.iter_mut().for_each(|gradient| gradient.pass = passes);
                passes += 1;
            }
        }
        threads.into_iter().flatten().collect()
    }
}

impl Thread {
    fn gradient(&mut self, store: &Store, node: SliceId) {
        // The engine's operator encloses the node's own.
        if self.gradients.last().is_some_and(|last| store.slices.ts(node) < end(store, last.node)) {
            return;
        }
        self.until = self.until.max(end(store, node));
        let (pass, producer) = (self.pass, self.producer);
        self.gradients.push(Gradient {
            node,
            pass,
            producer,
            operator: None,
            outermost: (StringId::NULL, 0),
            sends: None,
        });
    }

    fn node(&mut self, store: &Store, node: SliceId, (forward_thread, sequence): (i64, i64)) {
        self.producer = Some(node);
        // A nested node belongs to a pass within the pass: a checkpoint's.
        if store.slices.ts(node) < self.until {
            return;
        }
        self.until = end(store, node);
        if self.numbers.get(&forward_thread).is_some_and(|last| *last <= sequence) {
            self.pass += 1;
            self.numbers.clear();
        }
        self.numbers.insert(forward_thread, sequence);
    }
}

/// Whether a slice is an operator outside the backward pass.
fn is_forward(store: &Store, slice: SliceId) -> bool {
    store.strings.get(store.slices.category(slice)).is_some_and(is_operator)
        && store.autograd(slice).is_none_or(|number| number.forward_thread == 0)
        && !gradients::is_node(store.slice_name(slice))
}
