//! The critical path of a rank by itself, as far as one trace shows it: what other ranks do is unknown, so a collective takes as long as its kernel.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::FixedState;

use super::critical::{PlacedPiece, placed};
use super::reduce::launchers;
use crate::answers::stacks::reduction::Attributed;
use crate::answers::stacks::steps::Steps;
use crate::attribution::launches;
use crate::attribution::selection::{Wanted, collectives};
use crate::id::{GpuId, ProcessId, SliceId};
use crate::operations::clocks::Clocks;
use crate::operations::matching::Matches;
use crate::replay::build::{Source, build};
use crate::replay::critical::PathKind;
use crate::replay::job::JobGraph;
use crate::replay::rank::RankGraph;
use crate::store::Store;
use crate::time::{Ns, Window};

/// What the critical paths of a trace's ranks consist of.
#[derive(Debug, Default)]
pub struct Alone {
    /// How long each kernel, copy or fill is on the path of its rank.
    pub on_path: HashMap<SliceId, Ns, FixedState>,
    /// How long the paths are, by kind.
    pub kinds: BTreeMap<PathKind, Ns>,
    pub graphs: Vec<RankGraph>,
}

impl Alone {
    /// Finds the critical path of each process that launches, in the window.
    pub fn find(of: &Attributed<'_>) -> Self {
        let Attributed { store, ref attribution, window, .. } = *of;
        let activity = &attribution.activity;
        let is_collective = |kernel: SliceId| activity.is_collective[store.slices.name(kernel).0 as usize];
        let mut found = Alone::default();
        for (graph, path) in graphs(store, &is_collective, window) {
            for PlacedPiece { kind, node, window, .. } in path {
                *found.kinds.entry(kind).or_default() += window.duration();
                let runs = matches!(kind, PathKind::Compute | PathKind::Transfer);
                let slice = graph.slices[node as usize].filter(|_| runs);
                slice.into_iter().for_each(|slice| *found.on_path.entry(slice).or_default() += window.duration());
            }
            found.graphs.push(graph);
        }
        found
    }
}

/// The graph of each process that launches, with its path in the order of time.
pub(super) fn paths(store: &Store, window: Window) -> Vec<(RankGraph, Vec<PlacedPiece>)> {
    let is_collective = collectives(store, &Wanted::collectives());
    let is_collective = |kernel: SliceId| is_collective[store.slices.name(kernel).0 as usize];
    graphs(store, &is_collective, window)
}

fn graphs(
    store: &Store,
    is_collective: &dyn Fn(SliceId) -> bool,
    window: Window,
) -> Vec<(RankGraph, Vec<PlacedPiece>)> {
    let (steps, work) = (Steps::find(store), launches::of_all_work(store).kernels);
    let of_process = |(process, gpus): (ProcessId, Vec<GpuId>)| {
        let is_row = |kernel: &SliceId| is_collective(*kernel) && gpus.contains(&store.gpu_of(*kernel));
        let rows = store.kernels.iter().copied().filter(is_row).map(|kernel| (kernel, None)).collect();
        let steps: Vec<_> = steps.of_process(process).iter().filter(|of| of.window.overlaps(window)).collect();
        let last_step = steps.last().map(|step| step.slice);
        let steps = steps.into_iter().map(|step| step.window).collect();
        let graph =
            build(&Source { store, work: &work, gpus: &gpus, window, rows, steps, last_step, profiled_from: None });
        let job = JobGraph::join(&[&graph], &Matches::default(), &Clocks::given(&[Ns::ZERO]));
        let path = placed(&job, &[&graph], &job.critical_path());
        (graph, path)
    };
    gpus_by_process(store).into_iter().map(of_process).collect()
}

/// The GPUs on which each process launches most of what runs there; those on which none does count by their own process.
fn gpus_by_process(store: &Store) -> BTreeMap<ProcessId, Vec<GpuId>> {
    let launched = launches::for_work(store, store.kernels.clone());
    let launchers = launchers(store, launched.kernels.iter());
    let gpus: BTreeSet<GpuId> = store.kernels.iter().map(|kernel| store.gpu_of(*kernel)).collect();
    let mut found: BTreeMap<ProcessId, Vec<GpuId>> = BTreeMap::new();
    for gpu in gpus {
        found.entry(launchers.get(&gpu).copied().unwrap_or(gpu.process)).or_default().push(gpu);
    }
    found
}
