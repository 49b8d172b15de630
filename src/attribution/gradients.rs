//! The parameters whose gradients a hook sends: DDP's buckets, and the units of FSDP and ZeRO.
//!
//! `AccumulateGrad` adds a gradient to a parameter's, and has no operator of the forward pass. The engine runs it directly after the node that
//! made the gradient, so the last node with a number before it on its thread says which operator of the forward pass, and which module, the
//! parameter is of. Its hooks send the gradients of several parameters together, once the last of them is there: those accumulated since the
//! last hook that sent any, in the same backward pass. A pass begins where the numbers of a thread's nodes, which fall within a pass, rise.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use foldhash::fast::FixedState;

use super::call_tree::{CallTree, Climber};
use super::callers::Callers;
use super::forward::{Forward, Forwards};
use super::module_frames::ModuleFrames;
use crate::id::{PathId, SliceId};
use crate::names::category::CategoryKind;
use crate::names::described::is_operator;
use crate::names::frames::{UserCode, is_collective, is_node_of, node};
use crate::names::gradients;
use crate::store::Store;
use crate::store::slices::UNFINISHED;
use crate::store::strings::StringId;
use crate::time::Ns;

/// What the name of a slice shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Other,
    /// It is a run of `AccumulateGrad`.
    Gradient,
    /// It is around the launch of a collective.
    Collective,
}

/// Finds what hooks of gradients send. The index is built when it is first needed; a clone shares it.
#[derive(Debug, Clone)]
pub(crate) struct Gradients<'a> {
    store: &'a Store,
    index: Arc<OnceLock<Index>>,
    hooks: Hooks,
    known: HashMap<Sending, Sent, FixedState>,
}

/// What decides what a launch sends: the hook around it, and the size of a collective.
type Sending = (Hook, Option<Option<u64>>);

/// The places of gradients by their nodes.
type ByNode = HashMap<SliceId, usize, FixedState>;

/// All gradients of a trace.
#[derive(Debug, Default)]
struct Index {
    /// Those of a thread follow each other, in order.
    gradients: Vec<Gradient>,
    by_node: ByNode,
    /// How many of the gradients before each have hooks that send.
    sent: Vec<usize>,
    modules: ModuleFrames,
    /// The last operator that is in no node: a pass that ends before it was recorded to its end.
    last_outside: Option<SliceId>,
}

/// One run of `AccumulateGrad`.
#[derive(Debug)]
struct Gradient {
    node: SliceId,
    /// The number of its backward pass, among those of all threads.
    pass: usize,
    /// The node with a number that made the gradient.
    producer: Option<SliceId>,
    /// The operator of the forward pass that made that node.
    operator: Option<SliceId>,
    /// The name of the operator around that one that no other operator is around, and its number among those of its name in the pass. A node
    /// that is not named after its operator has its own name: what made it is not in the trace under a name of its own.
    outermost: (StringId, usize),
    /// A slice around a launch by which its hooks send gradients.
    sends: Option<SliceId>,
}

/// What is between a node and a launch in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Hook {
    /// The place of the node's gradient.
    gradient: usize,
    /// A function that is neither a library's nor plumbing.
    is_own: bool,
    /// ZeRO's: it sends what was there before this gradient, which does not fit in any more. The rest is sent after the pass, from no hook.
    is_late: bool,
    /// FSDP's: it sends the gradients of one module.
    is_unit: bool,
}

/// What is known of a launch in `AccumulateGrad`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// The call path in the forward pass, which ends with a line on the gradients if they are sent.
    Path(PathId),
    /// A function of the user's own sends it: it says more.
    Own,
    /// No operator of the forward pass is known.
    Unknown,
}

impl<'a> Gradients<'a> {
    /// For the slices of a trace.
    pub(crate) fn new(store: &'a Store) -> Self {
        Gradients { store, index: Arc::default(), hooks: Hooks::default(), known: HashMap::default() }
    }

    /// What a launch in `AccumulateGrad` is of. `bytes` is the size of a collective; `None` for a kernel that is none.
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

    /// Whether the trace has any.
    pub(crate) fn has_any(&self) -> bool {
        gradients::NODES.iter().any(|name| self.store.strings.find(name).is_some())
    }

    /// The number of the backward pass that a node is of.
    pub(crate) fn pass_of(
        &self,
        node: SliceId,
        callers: &mut Callers<'a>,
        forwards: &mut Forwards<'a>,
    ) -> Option<usize> {
        let index = self.index.get_or_init(|| Index::new(self.store, callers, forwards));
        index.by_node.get(&node).map(|at| index.gradients[*at].pass)
    }

    /// The slices by which the launches in a backward pass are judged: all of it.
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
        let of = |gradient: &Gradient| [Some(gradient.node), gradient.producer, gradient.operator, gradient.sends];
        pass.iter().flat_map(of).chain([index.last_outside]).flatten().collect()
    }
}

impl Hook {
    /// With one slice more between the node and the launch.
    fn within(self, name: &str) -> Self {
        Hook {
            is_own: self.is_own || UserCode::default().has(name),
            is_late: self.is_late || gradients::is_zero(name),
            is_unit: self.is_unit || gradients::is_fsdp(name),
            ..self
        }
    }
}

/// The hooks around slices, of which each is passed once.
#[derive(Debug, Clone, Default)]
struct Hooks(HashMap<SliceId, Option<Hook>, FixedState>);

impl Hooks {
    /// What is between a node and what a slice launches.
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
            if let Some(producer) = gradient.producer
                && let Forward::Operator(operator) = forwards.forward(producer, callers)
            {
                gradient.operator = Some(operator);
            }
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
        let around = around.into_iter().find(|frame| gradients::tells_where(frame));
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

    /// Which of the pass's buckets a hook sends, and how many there are; `None` if the pass is not recorded as a whole.
    fn bucket(&self, store: &Store, at: usize) -> Option<(usize, usize)> {
        let pass = self.pass(self.gradients[at].pass);
        let last_outside = self.last_outside.map_or(Ns::ZERO, |slice| store.slices.ts(slice));
        let whole = self.gradients[pass.start].operator.is_some()
            && end(store, self.gradients[pass.end - 1].node) <= last_outside;
        let sent = |range: Range<usize>| self.sent[range.end] - self.sent[range.start];
        let sends = self.gradients[at].sends.is_some();
        (whole && sends).then(|| (sent(pass.start..at + 1), sent(pass)))
    }

    /// The paths of the modules of some gradients' parameters, the outermost first. Where no module is recorded, the operator and its number.
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

/// What one pass over the slices finds.
#[derive(Debug, Default)]
struct Threads {
    /// By thread, as far as the last that has any.
    threads: Vec<Thread>,
    /// Slices around launches of collectives, on threads that had gradients before.
    collectives: Vec<SliceId>,
    last_outside: Option<SliceId>,
}

/// The backward passes of a thread.
#[derive(Debug, Default)]
struct Thread {
    gradients: Vec<Gradient>,
    /// The last node with a number.
    producer: Option<SliceId>,
    /// When the last node ends that is in no other.
    until: Ns,
    pass: usize,
    /// By thread of the forward pass: the number of the pass's last node that is in no other.
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
                // One with a number would make others' numbers look ambiguous, or not, in a copy of a part of the trace.
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

    /// All gradients, those of a thread in order, the threads by their first. Passes are numbered in this order.
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
        // The engine's operator is around the node's own.
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
        // A node in another is of a pass in the pass: a checkpoint's.
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

/// Whether a slice is an operator outside of the backward pass.
fn is_forward(store: &Store, slice: SliceId) -> bool {
    store.strings.get(store.slices.category(slice)).is_some_and(is_operator)
        && store.autograd(slice).is_none_or(|number| number.forward_thread == 0)
        && !gradients::is_node(store.slice_name(slice))
}

/// When a slice ends; [`Ns::MAX`] for one whose end is unknown.
fn end(store: &Store, slice: SliceId) -> Ns {
    match store.slices.dur(slice) {
        UNFINISHED => Ns::MAX,
        dur => store.slices.ts(slice) + dur,
    }
}
