//! The critical path of a rank by itself, as far as one trace shows it: what other ranks do is unknown, so a collective takes as long as its kernel.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::FixedState;

use super::reduce::launchers;
use crate::analysis::steps::Steps;
use crate::attribution::{Attribution, launches};
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
#[non_exhaustive]
pub struct Alone {
    /// How long each kernel, copy or fill is on the path of its rank.
    pub on_path: HashMap<SliceId, Ns, FixedState>,
    /// How long the paths are, by kind.
    pub kinds: BTreeMap<PathKind, Ns>,
    /// The graphs of the ranks.
    pub graphs: Vec<RankGraph>,
}

impl Alone {
    /// Finds the critical path of each process that launches, in a window of a trace.
    pub fn find(store: &Store, attribution: &Attribution, window: Window) -> Self {
        let activity = &attribution.activity;
        let mut found = Alone::default();
        let (steps, work) = (Steps::find(store), launches::of_all_work(store).kernels);
        for (process, gpus) in gpus_by_process(store) {
            let is_row = |kernel: &SliceId| {
                activity.is_collective[store.slices.name(*kernel).0 as usize] && gpus.contains(&store.gpu_of(*kernel))
            };
            let rows = store.kernels.iter().copied().filter(is_row).map(|kernel| (kernel, None)).collect();
            let steps = steps.of_process(process).iter().map(|step| step.window);
            let steps = steps.filter(|step| step.start < window.end && window.start < step.end).collect();
            let graph = build(&Source { store, work: &work, gpus: &gpus, window, rows, steps });
            let job = JobGraph::join(&[&graph], &Matches::default(), &Clocks::given(&[Ns::ZERO]));
            for piece in job.critical_path() {
                let time = Ns(piece.end - piece.start);
                *found.kinds.entry(piece.kind).or_default() += time;
                let slice = graph.slices[job.nodes[piece.node as usize].of as usize];
                let runs = matches!(piece.kind, PathKind::Compute | PathKind::Transfer);
                slice.filter(|_| runs).into_iter().for_each(|slice| *found.on_path.entry(slice).or_default() += time);
            }
            found.graphs.push(graph);
        }
        found
    }
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
