//! What pairs cost: the kernels of each place, added up by module, operator and node.

use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;

use super::matching::Matcher;
use super::nodes::Nodes;
use super::places::{Place, Places};
use super::{Launchers, Load, NOT_RECORDED, PairOptions, PairReport, PairedNodes, Side, Tie};
use crate::analysis::losses::Losses;
use crate::attribution::call_tree::{CallTree, Climber};
use crate::attribution::exposure::GpuActivity;
use crate::attribution::launches::{Launched, Launches, WindowOn};
use crate::attribution::selection::Wanted;
use crate::id::{PathId, SliceId};
use crate::names::frames::{self, fold_level};
use crate::recorded_args::Operators;
use crate::store::Store;
use crate::time::{Ns, Window};

/// Pairs the nodes of the backward pass with the operators that made them, and adds up what the kernels launched in both cost. A node counts if it
/// begins in the window or launches a kernel in it. Of its own kernels, those in the window count; of its forward operator's, all. To name modules
/// and code, the trace must have been loaded with [`crate::names::args::MODULE_HIERARCHY`] and [`crate::names::args::CALL_STACK`].
pub fn pairs(
    name: &str,
    store: &Store,
    wanted: &Wanted,
    launches: &Launches,
    (window, on): (Window, WindowOn),
    options: &PairOptions,
) -> PairReport {
    let mut climber = Climber::new(store, options.exact_names);
    let nodes = Nodes::find(store, &mut climber.callers);
    let mut matcher = Matcher::new(store, &nodes);
    let is_in = |slice: SliceId| window.contains(store.slices.ts(slice));
    let operators = nodes.operators_of();
    // The operators of all nodes, also outside the window, must be known before kernels are placed.
    let made_by: Vec<Option<SliceId>> =
        (0..nodes.numbered.len()).map(|node| matcher.operator(node, &operators[node])).collect();
    let mut costs = Costs::new(store, wanted, &nodes, &made_by);
    let inside = |launched: &Launched| window.contains(launched.at(store, on));
    let kernels = costs.add_kernels(&mut climber, launches, inside);
    let is_asked = |node: usize| is_in(nodes.numbered[node].outermost) || costs.numbered.contains_key(&node);
    let mut paired: Vec<(usize, Option<SliceId>)> = Vec::new();
    let mut seen: HashSet<SliceId, FixedState> = HashSet::default();
    for node in (0..nodes.numbered.len()).filter(|node| is_asked(*node)) {
        let operator = matcher.pair(node, &operators[node]);
        if let Some(operator) = operator
            && !seen.insert(operator)
        {
            matcher.ran_again(node, operator);
        }
        paired.push((node, operator));
    }
    matcher.count_other_flows(is_in);
    let mut pairing = std::mem::take(&mut matcher.pairing);
    pairing.unused_numbers = nodes.unused_numbers(is_in);
    let mut named = Named::new(store, climber, options);
    let mut groups = named.groups(&nodes, &costs, &paired);
    let unnumbered =
        nodes.unnumbered.iter().copied().filter(|slice| is_in(*slice) || costs.unnumbered.contains_key(slice));
    for slice in unnumbered {
        pairing.unnumbered += 1;
        groups.push(named.unnumbered(&nodes, &costs, &made_by, slice));
    }
    let mut report = PairReport {
        traces: vec![name.to_owned()],
        pairing,
        kernels,
        damage: Losses::count(store),
        ..PairReport::default()
    };
    report.set_groups(groups);
    report
}

/// The kernels by the place of their launch.
struct Costs<'a> {
    store: &'a Store,
    activity: GpuActivity,
    places: Places<'a>,
    /// By forward operator of a pair.
    forward: HashMap<SliceId, Load, FixedState>,
    /// By index of a node.
    numbered: HashMap<usize, Load, FixedState>,
    /// By outermost operator of an unnumbered node.
    unnumbered: HashMap<SliceId, Load, FixedState>,
}

impl<'a> Costs<'a> {
    fn new(store: &'a Store, wanted: &Wanted, nodes: &'a Nodes, operators: &[Option<SliceId>]) -> Self {
        let operators = operators.iter().flatten().copied().collect();
        Costs {
            store,
            activity: GpuActivity::new(store, wanted),
            places: Places::new(store, nodes, operators),
            forward: HashMap::default(),
            numbered: HashMap::default(),
            unnumbered: HashMap::default(),
        }
    }

    /// Adds the backward kernels in the window and all forward kernels. Returns those in the window by place.
    fn add_kernels(
        &mut self,
        climber: &mut Climber<'_>,
        launches: &Launches,
        inside: impl Fn(&Launched) -> bool,
    ) -> Launchers {
        let mut whole = Launchers::default();
        let mut sweep = self.activity.sweep(self.store);
        for launched in &launches.kernels {
            let exposed = sweep.exposed(launched);
            let place =
                launched.call.map_or(Place::Elsewhere, |call| self.places.of_launch(&mut climber.callers, call));
            let name = self.store.slices.name(launched.kernel);
            let is_collective = self.activity.is_collective[name.0 as usize];
            let mut load = load(launched.gpu_time(self.store), is_collective.then_some(exposed));
            if matches!(place, Place::Node { recomputed: true, .. }) {
                (load.recomputed, load.recomputed_ns) = (load.kernels, load.gpu_time_ns);
            }
            if let Place::Operator(operator) = place {
                self.forward.entry(operator).or_default().add(load);
            }
            if !inside(launched) {
                continue;
            }
            whole.all.add(load);
            match place {
                Place::Elsewhere => whole.elsewhere.add(load),
                Place::Operator(_) => whole.forward.add(load),
                Place::Node { node, .. } => {
                    whole.numbered.add(load);
                    self.numbered.entry(node).or_default().add(load);
                }
                Place::Unnumbered(slice) => {
                    whole.unnumbered.add(load);
                    self.unnumbered.entry(slice).or_default().add(load);
                }
            }
        }
        whole
    }
}

/// The load of one kernel, with its exposed time if it is a collective.
fn load(time: Ns, exposed: Option<Ns>) -> Load {
    match exposed {
        Some(exposed) => {
            Load { collectives: 1, collective_time_ns: time, collective_exposed_ns: exposed, ..Load::default() }
        }
        None => Load { kernels: 1, gpu_time_ns: time, ..Load::default() },
    }
}

/// Names modules and code.
struct Named<'a> {
    store: &'a Store,
    climber: Climber<'a>,
    tree: CallTree,
    metadata: Operators<'a>,
    options: &'a PairOptions,
    /// By call path of an operator: its modules, if it has module frames, and its headline.
    known: HashMap<PathId, (Option<String>, Option<String>), FixedState>,
}

impl<'a> Named<'a> {
    fn new(store: &'a Store, climber: Climber<'a>, options: &'a PairOptions) -> Self {
        let (tree, metadata) = (CallTree::default(), Operators::new(store));
        Named { store, climber, tree, metadata, options, known: HashMap::default() }
    }

    /// The module of a forward operator, and the innermost function of the user's code that called it.
    fn origin(&mut self, operator: SliceId) -> (String, Option<String>) {
        let path = self.climber.caller(&mut self.tree, operator).path;
        let (module, headline) = path.map_or((None, None), |path| self.of_path(path));
        let module = module.or_else(|| self.metadata.module(operator).map(|module| self.folded(module)));
        let headline = headline.or_else(|| self.headline(self.metadata.call_stack(operator)?));
        (module.unwrap_or_else(|| NOT_RECORDED.to_owned()), headline)
    }

    fn of_path(&mut self, path: PathId) -> (Option<String>, Option<String>) {
        if let Some(known) = self.known.get(&path) {
            return known.clone();
        }
        let frames = self.tree.call_path(path).frames;
        let modules: Vec<&str> = frames.iter().filter_map(|frame| frames::module(frame)).collect();
        let module = (!modules.is_empty()).then(|| modules.join("."));
        let headline = frames.iter().rev().find(|frame| self.options.user_code.has(frame)).cloned();
        self.known.insert(path, (module.clone(), headline.clone()));
        (module, headline)
    }

    /// The headline of a call stack in an argument. PyTorch writes files and lines, innermost first; XSigma writes only functions, innermost last.
    fn headline(&self, stack: &str) -> Option<String> {
        let mut frames = stack.split(';').map(str::trim).filter(|frame| !frame.is_empty());
        let has_files = frames.clone().any(|frame| frames::location(frame).is_some());
        let found = if has_files { frames.find(|frame| self.options.user_code.has(frame)) } else { frames.next_back() };
        found.map(str::to_owned)
    }

    /// The modules of a hierarchy as shown to users.
    fn folded(&self, hierarchy: &str) -> String {
        if self.options.exact_names {
            return hierarchy.to_owned();
        }
        hierarchy.split('.').map(fold_level).collect::<Vec<_>>().join(".")
    }

    fn side(&self, slice: SliceId, load: Option<Load>) -> Side {
        let cpu_time = self.store.slices.dur(slice).max(Ns::ZERO);
        Side { operators: 1, cpu_time_ns: cpu_time, load: load.unwrap_or_default() }
    }

    /// The numbered nodes. A forward operator counts once, however often its node ran.
    fn groups(&mut self, nodes: &Nodes, costs: &Costs<'_>, paired: &[(usize, Option<SliceId>)]) -> Vec<PairedNodes> {
        let mut seen: HashSet<SliceId, FixedState> = HashSet::default();
        let mut group = |(node, operator): &(usize, Option<SliceId>)| {
            let outermost = nodes.numbered[*node].outermost;
            let backward = self.side(outermost, costs.numbered.get(node).copied());
            let name = frames::node(self.store.slice_name(outermost)).to_owned();
            let Some(operator) = *operator else {
                let module = NOT_RECORDED.to_owned();
                let forward = Side::default();
                return PairedNodes {
                    module,
                    operator: None,
                    named_alike: None,
                    headline: None,
                    node: name,
                    tie: Tie::Orphan,
                    forward,
                    backward,
                };
            };
            let (module, headline) = self.origin(operator);
            let is_first = seen.insert(operator);
            let side = || self.side(operator, costs.forward.get(&operator).copied());
            let forward = if is_first { side() } else { Side::default() };
            let operator = Some(self.store.slice_name(operator).to_owned());
            PairedNodes { module, operator, named_alike: None, headline, node: name, tie: Tie::Pair, forward, backward }
        };
        paired.iter().map(&mut group).collect()
    }

    /// The row of an unnumbered node. `operators` are the forward operators of all nodes.
    fn unnumbered(
        &mut self,
        nodes: &Nodes,
        costs: &Costs<'_>,
        operators: &[Option<SliceId>],
        slice: SliceId,
    ) -> PairedNodes {
        let before = nodes.last_before(self.store, slice);
        let tie = if before.is_some() { Tie::LastNodeBefore } else { Tie::None };
        let module = match before.and_then(|node| operators[node]) {
            Some(operator) => self.origin(operator).0,
            None => NOT_RECORDED.to_owned(),
        };
        let node = frames::node(self.store.slice_name(slice)).to_owned();
        let backward = self.side(slice, costs.unnumbered.get(&slice).copied());
        PairedNodes {
            module,
            operator: None,
            named_alike: None,
            headline: None,
            node,
            tie,
            forward: Side::default(),
            backward,
        }
    }
}
