//! What tells stacks apart: their frames, their thread, and the call paths of a capture and of the forward pass.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::attribution::call_tree::{CallPath, CallTree};
use crate::attribution::launches::Reason;
use crate::attribution::threads::thread_name;
use crate::attribution::{Attribution, KernelLaunch};
use crate::nccl::collectives::{ANNOTATION, Collective};
use crate::nccl::frames::{UserCode, is_library, is_plumbing, without_line};
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
    /// Why there is no code: then this is what kernels without a launch have in common. No stack has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_launch: Option<Reason>,
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
            no_launch: kernel.no_launch(),
        }
    }

    /// The frames that say most about where it comes from, the one that says most first. These are those of the user's own code, the
    /// innermost first; without any, those above what every collective has in common; without any of these either, all. The code that a graph
    /// captured, or whose gradient this is, says more than the code that replayed the graph or went backward.
    pub fn telling_frames(&self, code: &UserCode) -> Vec<&str> {
        let paths = [&self.captured, &self.forward].into_iter().flatten().map(|path| &path.frames);
        let all = paths.chain([&self.frames]).flat_map(|frames| frames.iter().rev());
        let all: Vec<&str> = all.map(String::as_str).collect();
        let tells: [&dyn Fn(&str) -> bool; 3] =
            [&|frame| code.has(frame), &|frame| !is_plumbing(frame) && !is_library(frame), &|frame| {
                !is_plumbing(frame)
            }];
        let only = |tells: &dyn Fn(&str) -> bool| all.iter().copied().filter(|frame| tells(frame)).collect::<Vec<_>>();
        tells.into_iter().map(only).find(|found| !found.is_empty()).unwrap_or(all)
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
            no_launch: self.no_launch,
        }
    }
}
/// Rows by rank and stack.
pub(super) type ByStack<'k, R> = BTreeMap<(R, StackKey), Vec<&'k KernelLaunch>>;

/// The kernels of each stack, and those without a launch by reason. Rows are grouped by the numbers of their call paths first, so that each
/// path is written out once; then paths of equal frames become one stack. Rows of one group keep their order.
pub(super) fn by_stack<'k, R: Ord + Copy>(
    store: &Store,
    attribution: &'k Attribution,
    exact_names: bool,
    rank: impl Fn(&KernelLaunch) -> R,
) -> ByStack<'k, R> {
    let mut paths: BTreeMap<_, Vec<&KernelLaunch>> = BTreeMap::new();
    for kernel in &attribution.kernels {
        let (call, code) = ((kernel.path, kernel.helper_thread), (kernel.capture, kernel.forward));
        let path = (rank(kernel), call, code, kernel.no_launch());
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
