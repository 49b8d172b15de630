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
pub mod launches;
pub mod module_frames;
pub mod operations;
pub(crate) mod ranks;
pub(crate) mod records;
pub mod selection;
pub(crate) mod threads;

use call_tree::{CallTree, Climber};
use capture::{CaptureTally, Captured};
use exposure::GpuActivity;
use forward::{Forward, Forwards};
use launches::{Evidence, Launched};
use selection::{Wanted, collectives};
use threads::MainThreads;

use crate::id::{PathId, SliceId, ThreadId};
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
        !matches!(self.launched.evidence, Evidence::None(_))
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
    /// ([`crate::nccl::frames::fold`]), so that layers and runs share call paths.
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
        Attributor { store, activity: GpuActivity::new(store, collectives(store, wanted)), captured }
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
        let mut climber = Climber::new(store, options.exact_names);
        let mut forwards = Forwards::new(store);
        let main = MainThreads::of(store);
        let mut sweep = activity.sweep(store);
        let row = |launched: &Launched| {
            let mut row = KernelLaunch {
                launched: *launched,
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
            if let Some(backward) = found.backward.filter(|_| options.forward) {
                match forwards.of(backward, &mut climber.callers) {
                    Forward::Operator(operator) => row.forward = climber.caller(&mut tree, operator).path,
                    Forward::NotRecorded | Forward::Ambiguous => row.forward_unknown = true,
                }
            }
            row
        };
        let kernels = kernels.map(row).collect();
        Attribution { kernels, paths: tree, activity, captures: tally }
    }
}

fn queue_delay(store: &Store, launched: &Launched) -> Option<Ns> {
    let call = launched.call.filter(|_| matches!(launched.evidence, Evidence::Correlation | Evidence::Flow))?;
    let (ts, dur) = (store.slices.ts(call), store.slices.dur(call));
    (dur != UNFINISHED).then(|| (store.slices.ts(launched.kernel) - (ts + dur)).max(Ns::ZERO))
}
