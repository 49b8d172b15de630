//! Attribution: which code launched each kernel, and at what cost. One row per kernel.
//!
//! [`launches`] finds the call that launched each kernel, by the strongest evidence there is. [`Attributor`] adds the call paths
//! above that call (`callers` from slice to slice, [`call_tree`] shares their prefixes), the forward pass of kernels that autograd
//! launched (`forward`), the capture of kernels that a CUDA graph replayed ([`capture`]), and the time that no computation hides
//! (`exposure`). The rows are what everything else aggregates: stacks are a grouping of them by call path. [`operations`] says
//! which collective a kernel carries out.
//!
//! SQL shows the rows as the table `kernel_launch`, the call tree as `call_path`, and the operations as `collective`.

pub(crate) mod busy;
pub mod call_tree;
#[doc(hidden)]
pub mod callers;
pub mod capture;
pub(crate) mod exposure;
pub(crate) mod forward;
pub(crate) mod gradients;
pub mod launches;
pub mod module_frames;
pub mod operations;
mod pieces;
pub mod possible;
pub(crate) mod ranks;
pub(crate) mod records;
pub mod selection;
mod start_lines;
pub(crate) mod threads;

pub use ranks::rank_of_trace;

use std::collections::HashMap;

use call_tree::{CallTree, Climber};
use capture::{CaptureTally, Captured};
use exposure::GpuActivity;
use forward::{Forward, Forwards};
use gradients::{Gradients, Sent};
use launches::{Evidence, Launched, Reason};
use records::Records;
use selection::Wanted;
use threads::MainThreads;

use crate::id::{PathId, SliceId, ThreadId};
use crate::parallel::in_parts;
use crate::store::Store;
use crate::store::slices::UNFINISHED;
use crate::time::Ns;

/// One kernel, the call that launched it, and the code that made the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelLaunch {
    /// The kernel, its launch if that is in the trace, and what ties the two.
    pub launched: Launched,
    /// The call path of the launch, which ends with the launching call; `None` without a launch.
    pub path: Option<PathId>,
    /// The call path of the operator of the forward pass, for kernels of the backward pass.
    pub forward: Option<PathId>,
    /// Whether the launch belongs to the backward pass, but no or several operators of the forward pass have its number.
    pub forward_unknown: bool,
    /// The call path with which the kernel was captured into its graph.
    pub capture: Option<PathId>,
    /// The thread of the launch, if it is not the main thread of its process.
    pub helper_thread: Option<ThreadId>,
    /// The `record_param_comms` slice among the callers of the launch: what PyTorch recorded of the collective.
    pub record: Option<SliceId>,
    /// How long the kernel ran; 0 for one that never ended.
    pub gpu_time: Ns,
    /// How long no compute kernel ran on the GPU beside this one.
    pub exposed: Ns,
    /// From the end of the launching call to the kernel's start; 0 for a kernel that starts before that. `None` for kernels of a
    /// graph, of which one call launches many, and where the call or its end is unknown.
    pub queue_delay: Option<Ns>,
}

impl KernelLaunch {
    /// Whether some code is known for it: a launch, or the capture of its graph.
    pub fn is_attributed(&self) -> bool {
        self.no_launch().is_none()
    }

    /// Why it is unattributed, if it is.
    pub fn no_launch(&self) -> Option<Reason> {
        match self.launched.evidence {
            Evidence::None(reason) => Some(reason),
            _ => None,
        }
    }
}

/// The rows, and the tree that has their call paths.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Attribution {
    /// One row per kernel, in the order of their starts.
    pub kernels: Vec<KernelLaunch>,
    /// The call tree.
    pub paths: CallTree,
    /// What ran on each GPU when.
    pub(crate) activity: GpuActivity,
    /// What the captures of graphs gave, for the kernels of the whole trace.
    pub captures: CaptureTally,
}

/// Which facts a row gets, and in which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributionOptions {
    /// Keep names as they are. Otherwise digits at the end of callers' names and addresses of objects are folded
    /// ([`crate::names::frames::fold`]), so that layers and runs share call paths.
    pub exact_names: bool,
    /// Whether to look for the forward pass of kernels of the backward pass.
    pub forward: bool,
}

impl Default for AttributionOptions {
    fn default() -> Self {
        AttributionOptions { exact_names: false, forward: true }
    }
}

/// Makes rows of kernels whose launches have been found.
#[derive(Debug)]
pub struct Attributor<'a> {
    store: &'a Store,
    activity: GpuActivity,
    captured: Captured,
}

impl<'a> Attributor<'a> {
    /// For a trace and the kernels that are asked for. `captured` has the call paths of graphs' captures, if there are any.
    pub fn new(store: &'a Store, wanted: &Wanted, captured: Captured) -> Self {
        Attributor { store, activity: GpuActivity::new(store, wanted), captured }
    }

    /// The trace.
    pub fn store(&self) -> &'a Store {
        self.store
    }

    /// The rows of some kernels, which are in the order of their starts.
    pub fn attribute<'l>(
        self,
        kernels: impl Iterator<Item = &'l Launched>,
        options: AttributionOptions,
    ) -> Attribution {
        let Attributor { store, activity, captured } = self;
        let Captured { mut tree, stacks: captures, tally } = captured;
        let kernels: Vec<&Launched> = kernels.collect();
        let rows = Rows {
            store,
            options,
            captures: &captures,
            main: MainThreads::find(store),
            climber: Climber::new(store, options.exact_names),
            forwards: Forwards::new(store),
            gradients: Gradients::new(store),
            activity: &activity,
        };
        let parts = in_parts(kernels.len(), MIN_KERNELS, store.threads, |part| rows.make(&kernels[part]));
        let mut rows = Vec::with_capacity(kernels.len());
        for (of_part, tree_of_part) in parts {
            let ids = tree.append(&tree_of_part);
            let in_tree = |path: Option<PathId>| path.map(|path| ids[path.row()]);
            rows.extend(of_part.into_iter().map(|row: KernelLaunch| KernelLaunch {
                path: in_tree(row.path),
                forward: in_tree(row.forward),
                ..row
            }));
        }
        Attribution { kernels: rows, paths: tree, activity, captures: tally }
    }
}

/// A thread is started for so many kernels at least.
const MIN_KERNELS: usize = 1 << 10;

/// What all parts of the rows are made with.
struct Rows<'a> {
    store: &'a Store,
    options: AttributionOptions,
    captures: &'a HashMap<SliceId, PathId>,
    main: MainThreads,
    /// Has climbed nowhere. Its clones share what takes a pass over the trace, and so do those of `forwards`.
    climber: Climber<'a>,
    forwards: Forwards<'a>,
    gradients: Gradients<'a>,
    activity: &'a GpuActivity,
}

impl Rows<'_> {
    /// The rows of kernels that follow each other, and the tree that has their paths, but for those of captures.
    fn make(&self, kernels: &[&Launched]) -> (Vec<KernelLaunch>, CallTree) {
        let Rows { store, options, captures, main, .. } = self;
        let (mut climber, mut forwards, mut tree) = (self.climber.clone(), self.forwards.clone(), CallTree::default());
        let mut gradients = self.gradients.clone();
        let (mut sweep, mut records) = (self.activity.sweep(store), Records::new(store));
        let row = |launched: &&Launched| {
            let mut row = KernelLaunch {
                launched: **launched,
                path: None,
                forward: None,
                forward_unknown: false,
                capture: captures.get(&launched.kernel).copied(),
                helper_thread: None,
                record: None,
                gpu_time: launched.gpu_time(store),
                exposed: sweep.exposed(launched),
                queue_delay: queue_delay(store, launched),
            };
            let Some(call) = launched.call else { return row };
            let found = climber.launch(&mut tree, call);
            (row.path, row.record, row.helper_thread) = (found.path, found.record, main.helper(store, call));
            // The inner one begins later: a checkpoint runs nodes in a node.
            if options.forward && found.gradient.is_some() && found.gradient > found.backward {
                let name = store.slices.name(launched.kernel);
                let set = records.set_of(launched.kernel, found.record);
                let bytes = self.activity.is_collective[name.0 as usize].then(|| records.get(set)?.bytes);
                match gradients.sent(call, bytes, (&mut forwards, &mut climber, &mut tree)) {
                    Sent::Path(path) => row.forward = Some(path),
                    Sent::Own => {}
                    Sent::Unknown => row.forward_unknown = true,
                }
            } else if let Some(backward) = found.backward.filter(|_| options.forward) {
                match forwards.forward(backward, &mut climber.callers) {
                    Forward::Operator(operator) => row.forward = climber.caller(&mut tree, operator).path,
                    Forward::NotRecorded | Forward::Ambiguous => row.forward_unknown = true,
                }
            }
            row
        };
        (kernels.iter().map(row).collect(), tree)
    }
}

fn queue_delay(store: &Store, launched: &Launched) -> Option<Ns> {
    let call = launched.call.filter(|_| matches!(launched.evidence, Evidence::Correlation | Evidence::Flow))?;
    let (ts, dur) = (store.slices.ts(call), store.slices.dur(call));
    (dur != UNFINISHED).then(|| (store.slices.ts(launched.kernel) - (ts + dur)).max(Ns::ZERO))
}
