//! Attribution: the code that launched each kernel, and the cost. One row per kernel.
//!
//! [`launches`] finds the call that launched each kernel, by the strongest evidence there is. [`Attributor`] adds the call paths of that call
//! (`callers` from slice to slice, [`call_tree`] shares prefixes), the forward pass of kernels that autograd launched (`forward`), the capture of
//! kernels that a CUDA graph replayed ([`capture`]), and the time that no computation hides (`exposure`). Everything else aggregates these rows:
//! stacks group them by call path. [`operations`] has the collective that a kernel carries out.
//!
//! SQL shows the rows as the table `kernel_launch`, the call tree as `call_path`, and the operations as `collective`.

pub(crate) mod backward;
pub(crate) mod batches;
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
pub(crate) mod nearest;
pub mod operations;
mod pieces;
pub mod possible;
pub(crate) mod ranks;
pub(crate) mod records;
pub mod selection;
pub mod stack_key;
mod start_lines;
pub(crate) mod threads;

pub use ranks::rank_of_trace;

use std::borrow::Cow;
use std::collections::HashMap;

use batches::Batches;
use call_tree::{CallTree, Climber};
use capture::{CaptureTally, Captured};
use exposure::GpuActivity;
use forward::Forwards;
use gradients::{Gradients, Sent};
use launches::{Evidence, Launched, Reason};
use records::Records;
use selection::Wanted;
use threads::MainThreads;

use crate::id::{PathId, SliceId, ThreadId};
use crate::names::args;
use crate::names::frames::fold_levels;
use crate::parallel::in_parts;
use crate::store::Store;
use crate::store::slices::UNFINISHED;
use crate::store::strings::StringId;
use crate::time::Ns;

/// One kernel, the call that launched it, and the code that made the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelLaunch {
    /// The kernel, its launch if that is in the trace, and the evidence.
    pub launched: Launched,
    /// The call path that ends with the launching call, or with the kernel's own annotation below it; `None` without a launch.
    pub path: Option<PathId>,
    /// For kernels of the backward pass, the call path of the operator of the forward pass.
    pub forward: Option<PathId>,
    /// Whether the launch belongs to the backward pass, but no operator of the forward pass, or several, have its number.
    pub forward_unknown: bool,
    /// The call path of the capture of the kernel into its graph.
    pub capture: Option<PathId>,
    /// The thread of the launch, if it is not the main thread of its process.
    pub helper_thread: Option<ThreadId>,
    /// The `record_param_comms` slice among the callers of the launch: PyTorch's record of the collective. Of several sends and receives that are
    /// launched together, the record of the first.
    pub record: Option<SliceId>,
    /// Whether there are several such sends and receives.
    pub is_batch: bool,
    /// The kernel's duration; 0 if it never ended.
    pub gpu_time: Ns,
    /// The part of it during which no other compute kernel ran on the GPU.
    pub exposed: Ns,
    /// How much of it is on the critical path of its rank alone; `None` unless that is asked for.
    pub critical: Option<Ns>,
    /// From the end of the launching call to the start of the kernel; 0 if the kernel starts earlier. `None` for kernels of a graph, where one
    /// call launches many, and if the call or its end is unknown.
    pub queue_delay: Option<Ns>,
}

impl KernelLaunch {
    /// Whether any code is known for it: a launch, or the capture of its graph.
    pub fn is_attributed(&self) -> bool {
        self.no_launch().is_none()
    }

    /// The reason, if it is unattributed.
    pub fn no_launch(&self) -> Option<Reason> {
        match self.launched.evidence {
            Evidence::None(reason) => Some(reason),
            _ => None,
        }
    }
}

/// The rows, and the tree with their call paths.
#[derive(Debug, Default)]
pub struct Attribution {
    /// One row per kernel, in order of their starts.
    pub kernels: Vec<KernelLaunch>,
    pub paths: CallTree,
    pub(crate) activity: GpuActivity,
    /// How many kernels of the whole trace got call paths from captures of graphs.
    pub captures: CaptureTally,
    /// Sends and receives that one kernel carries out.
    pub(crate) batches: Batches,
}

/// Options: which facts a row gets, and in which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttributionOptions {
    /// Keep names unchanged. Otherwise trailing digits of callers' names and the addresses of objects are folded ([`crate::names::frames::fold`]),
    /// so that layers and runs share call paths.
    pub exact_names: bool,
    /// Whether to leave out the forward pass of kernels of the backward pass.
    pub without_forward: bool,
}

/// Makes rows from kernels whose launches are known.
#[derive(Debug)]
pub struct Attributor<'a> {
    store: &'a Store,
    activity: GpuActivity,
    captured: Captured,
}

impl<'a> Attributor<'a> {
    /// For a trace and the chosen kernels. `captured` has the call paths from captures of graphs, if any.
    pub fn new(store: &'a Store, wanted: &Wanted, captured: Captured) -> Self {
        Attributor { store, activity: GpuActivity::new(store, wanted), captured }
    }

    pub fn store(&self) -> &'a Store {
        self.store
    }

    /// The rows of some kernels in order of their starts.
    pub fn attribute<'l>(
        self,
        kernels: impl Iterator<Item = &'l Launched>,
        options: AttributionOptions,
    ) -> Attribution {
        let Attributor { store, activity, captured } = self;
        let Captured { mut tree, stacks: captures, tally } = captured;
        let kernels: Vec<&Launched> = kernels.collect();
        let batches = Batches::find(store, &kernels);
        let rows = Rows {
            store,
            options,
            captures: &captures,
            main: MainThreads::find(store),
            climber: Climber::new(store, options.exact_names),
            forwards: Forwards::new(store),
            gradients: Gradients::new(store),
            activity: &activity,
            batches: &batches,
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
        Attribution { kernels: rows, paths: tree, activity, captures: tally, batches }
    }
}

/// What kernels say themselves that they belong to: the annotation of a node of a CUDA graph, or JAX's path of an operation.
struct Annotations<'a> {
    store: &'a Store,
    key: Option<StringId>,
    exact_names: bool,
}

impl<'a> Annotations<'a> {
    fn new(store: &'a Store, exact_names: bool) -> Self {
        Annotations { store, key: store.arg_key(args::ANNOTATION), exact_names }
    }

    fn of(&self, kernel: SliceId) -> Option<Cow<'a, str>> {
        let text = self.store.text_arg(self.store.slices.args(kernel), self.key?).filter(|text| !text.is_empty())?;
        Some(if self.exact_names { Cow::Borrowed(text) } else { fold_levels(text) })
    }
}

/// The minimum number of kernels per thread.
const MIN_KERNELS: usize = 1 << 10;

/// The shared inputs of all threads that make rows.
struct Rows<'a> {
    store: &'a Store,
    options: AttributionOptions,
    captures: &'a HashMap<SliceId, PathId>,
    main: MainThreads,
    /// A climber without results. Its clones, like those of `forwards`, share the indexes that take a pass over the trace.
    climber: Climber<'a>,
    forwards: Forwards<'a>,
    gradients: Gradients<'a>,
    activity: &'a GpuActivity,
    batches: &'a Batches,
}

impl Rows<'_> {
    /// The rows of consecutive kernels, and the tree with their paths, except those of captures.
    fn make(&self, kernels: &[&Launched]) -> (Vec<KernelLaunch>, CallTree) {
        let Rows { store, options, captures, main, .. } = self;
        let (mut climber, mut forwards, mut tree) = (self.climber.clone(), self.forwards.clone(), CallTree::default());
        let mut gradients = self.gradients.clone();
        let (mut sweep, mut records) = (self.activity.sweep(store), Records::new(store));
        let annotations = Annotations::new(store, options.exact_names);
        let row = |launched: &&Launched| {
            let mut row = KernelLaunch {
                launched: **launched,
                path: None,
                forward: None,
                forward_unknown: false,
                capture: captures.get(&launched.kernel).copied(),
                helper_thread: None,
                record: None,
                is_batch: false,
                gpu_time: launched.gpu_time(store),
                exposed: sweep.exposed(launched),
                critical: None,
                queue_delay: queue_delay(store, launched),
            };
            let Some(call) = launched.call else { return row };
            let found = climber.launch(&mut tree, call);
            let record = found.record.or_else(|| self.batches.first(found.batch?));
            (row.path, row.record, row.helper_thread) = (found.path, record, main.helper(store, call));
            if let Some(annotation) = annotations.of(launched.kernel).filter(|_| row.capture.is_none()) {
                row.path = Some(tree.add(found.path, &annotation));
            }
            row.is_batch = record.is_some_and(|record| self.batches.records(record).len() > 1);
            // The inner one begins later: a checkpoint runs nodes within a node.
            if !options.without_forward && found.gradient.is_some() && found.gradient > found.backward {
                let name = store.slices.name(launched.kernel);
                let set = records.set_of(launched.kernel, record);
                let bytes = self.activity.is_collective[name.0 as usize].then(|| records.get(set)?.bytes);
                match gradients.sent(call, bytes, (&mut forwards, &mut climber, &mut tree)) {
                    Sent::Path(path) => row.forward = Some(path),
                    Sent::Own => {}
                    Sent::Unknown => row.forward_unknown = true,
                }
            } else if let Some(backward) = found.backward.filter(|_| !options.without_forward) {
                match forwards.forward(backward, &mut climber.callers).operator() {
                    Some(operator) => row.forward = climber.caller(&mut tree, operator).path,
                    None => row.forward_unknown = true,
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
