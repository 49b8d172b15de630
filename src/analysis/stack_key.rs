//! What tells stacks apart: their frames, their thread, and the call paths of a capture and of the forward pass.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::attribution::call_tree::{CallPath, CallTree};
use crate::attribution::threads::thread_name;
use crate::attribution::{Attribution, KernelLaunch};
use crate::nccl::collectives::{ANNOTATION, Collective};
use crate::nccl::frames::{UserCode, fsdp_module, is_library, is_node, is_plumbing, module, without_line};
use crate::nccl::gradients::{Fsdp, fsdp, is_fsdp, is_line, is_zero};
use crate::store::Store;

/// The parts of a stack. Kernels with equal keys have one stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StackKey {
    /// From the outermost caller to the launch. Empty if the launch is not in the trace, but its graph's capture is.
    pub frames: Vec<String>,
    /// The thread, if it is not its process's main thread.
    pub thread: Option<String>,
    /// The call path with which the kernel was captured into its graph.
    pub captured: Option<CallPath>,
    /// The call path of the operator of the forward pass.
    pub forward: Option<CallPath>,
}

impl StackKey {
    /// The key of a kernel. A kernel that only its graph's capture attributes has no frames of its own.
    pub fn of(store: &Store, paths: &CallTree, kernel: &KernelLaunch, exact: bool) -> Self {
        let part = |path| paths.call_path(path);
        StackKey {
            frames: kernel.path.map_or(Vec::new(), |path| part(path).frames),
            thread: kernel.helper_thread.map(|thread| thread_name(store, thread, exact)),
            captured: kernel.capture.map(part),
            forward: kernel.forward.map(part),
        }
    }

    /// The frames that say most about where it comes from, the one that says most first. These are those of the user's own code and lines on
    /// gradients, the innermost first; without any, those above what every collective has in common; without any of these either, all. The code that a graph
    /// captured, or whose gradient this is, says more than the code that replayed the graph or went backward. The module whose parameters FSDP or
    /// ZeRO gathers or scatters says more than all of these.
    pub fn telling_frames(&self, code: &UserCode) -> Vec<&str> {
        let paths = [&self.captured, &self.forward].into_iter().flatten().map(|path| &path.frames);
        let all = paths.chain([&self.frames]).flat_map(|frames| frames.iter().rev());
        let all: Vec<&str> = all.map(String::as_str).collect();
        let tells: [&dyn Fn(&str) -> bool; 3] = [
            &|frame| is_line(frame) || code.has(frame),
            &|frame| !is_plumbing(frame) && !is_library(frame),
            &|frame| !is_plumbing(frame),
        ];
        let only = |tells: &dyn Fn(&str) -> bool| all.iter().copied().filter(|frame| tells(frame)).collect::<Vec<_>>();
        let found = tells.into_iter().map(only).find(|found| !found.is_empty()).unwrap_or(all);
        let sharded = self.sharded();
        sharded.into_iter().chain(found.into_iter().filter(|frame| Some(*frame) != sharded)).collect()
    }

    /// The frame that names the module whose parameters FSDP or ZeRO gathers or scatters: their own, else the module around the hook, in the
    /// backward pass that of the forward pass. A collective of the model's own has frames of the model below theirs.
    fn sharded(&self) -> Option<&str> {
        let ends = |frame: &&String| module(frame).is_some() || is_node(frame) || UserCode::default().has(frame);
        let own = self.frames.iter().rev().take_while(|frame| !ends(frame));
        let mut own = own.filter(|frame| is_fsdp(frame) || is_zero(frame)).peekable();
        own.peek()?;
        if self.forward.as_ref().and_then(|path| path.frames.last()).is_some_and(|frame| is_line(frame)) {
            return None;
        }
        if let Some(named) = own.find(|frame| fsdp_module(frame).is_some()) {
            return Some(named);
        }
        let backward = self.frames.iter().rposition(|frame| is_node(frame)).map_or(0, |node| node + 1);
        let forward = self.forward.iter().flat_map(|path| path.frames.iter().rev());
        let around = self.frames[backward..].iter().rev().chain(forward).filter(|frame| module(frame).is_some());
        let mut around = around.map(String::as_str).peekable();
        let (nearest, mut inner) = (around.peek().copied(), None);
        for frame in around {
            match fsdp(frame) {
                Some(Fsdp::Class) => return Some(frame),
                // The module in it says more.
                Some(Fsdp::Wrapper) => return inner.or(Some(frame)),
                None => inner = Some(frame),
            }
        }
        nearest
    }

    /// The collective of the innermost `nccl:…` annotation, which PyTorch puts around a launch.
    pub fn collective(&self) -> Option<Collective> {
        let captured = self.captured.iter().flat_map(|path| path.frames.iter().rev());
        let mut frames = self.frames.iter().rev().chain(captured);
        frames.find_map(|frame| frame.strip_prefix(ANNOTATION)).and_then(Collective::of_record)
    }

    /// The same key without line numbers, which differ between versions of a program.
    pub fn without_lines(&self) -> StackKey {
        let frames =
            |frames: &[String]| frames.iter().map(|frame| without_line(frame)).map(Cow::into_owned).collect::<Vec<_>>();
        let path = |path: &CallPath| CallPath { frames: frames(&path.frames) };
        StackKey {
            frames: frames(&self.frames),
            thread: self.thread.clone(),
            captured: self.captured.as_ref().map(path),
            forward: self.forward.as_ref().map(path),
        }
    }
}
/// Rows by rank and stack.
pub(super) type ByStack<'k, R> = BTreeMap<(R, StackKey), Vec<&'k KernelLaunch>>;

/// The attributed kernels of each stack. Rows are grouped by the numbers of their call paths first, so that each path is written
/// out once; then paths of equal frames become one stack. Rows of one group keep their order.
pub(super) fn by_stack<'k, R: Ord + Copy>(
    store: &Store,
    attribution: &'k Attribution,
    exact_names: bool,
    rank: impl Fn(&KernelLaunch) -> R,
) -> ByStack<'k, R> {
    let attributed = attribution.kernels.iter().filter(|kernel| kernel.path.is_some() || kernel.capture.is_some());
    let mut paths: BTreeMap<_, Vec<&KernelLaunch>> = BTreeMap::new();
    for kernel in attributed {
        let path = (rank(kernel), kernel.path, kernel.helper_thread, kernel.capture, kernel.forward);
        paths.entry(path).or_default().push(kernel);
    }
    let mut groups: ByStack<'k, R> = BTreeMap::new();
    for ((rank, ..), kernels) in paths {
        let Some(first) = kernels.first() else { continue };
        let key = StackKey::of(store, &attribution.paths, first, exact_names);
        groups.entry((rank, key)).or_default().extend(kernels);
    }
    groups
}
