//! What distinguishes stacks: their frames, their thread, and the call paths of a capture and of the forward pass.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::call_tree::{CallPath, CallTree};
use super::launches::Reason;
use super::threads::thread_name;
use super::{Attribution, KernelLaunch};
use crate::names::calls::{GRAPH_LAUNCHES, Work};
use crate::names::collectives::{ANNOTATION, Collective};
use crate::names::communication::SYMMETRIC;
use crate::names::frames::{
    UserCode, fsdp_module, is_compiled_code, is_framework_plumbing, is_library, is_node, is_operator, is_piece,
    is_plumbing, model_class, module, without_line,
};
use crate::names::gradients::{Fsdp, fsdp, is_fsdp, is_line, is_zero};
use crate::store::Store;

/// The call paths and thread of a stack. Kernels with equal keys share a stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StackKey {
    /// From the outermost caller to the launch. Digits at the end of names and addresses are folded unless `--exact-names` is given. Empty if the
    /// trace lacks the launch but has the capture of its graph.
    pub frames: Vec<String>,
    /// The thread, unless it is the main thread of its process.
    pub thread: Option<String>,
    /// The call path that captured the kernel into its graph; `None` for kernels outside graphs, or without a known capture.
    pub captured: Option<CallPath>,
    /// For kernels of the backward pass: the call path of the forward operator. For a collective that a gradient hook launched, what the operators of
    /// its parameters have in common, then a line on these parameters.
    pub forward: Option<CallPath>,
    /// Why there is no code. Set only on the key of kernels without a launch, never on a stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(skip))]
    pub no_launch: Option<Reason>,
}

impl StackKey {
    /// The key of a kernel. A kernel attributed only by the capture of its graph has no frames of its own.
    pub fn from_kernel(store: &Store, paths: &CallTree, kernel: &KernelLaunch, exact: bool) -> Self {
        let part = |path| paths.call_path(path);
        StackKey {
            frames: kernel.path.map_or(Vec::new(), |path| part(path).frames),
            thread: kernel.helper_thread.map(|thread| thread_name(store, thread, exact)),
            captured: kernel.capture.map(part),
            forward: kernel.forward.map(part),
            no_launch: kernel.no_launch(),
        }
    }

    /// The frames that best show where the stack comes from, the best first. These are the frames of the user's own code and lines on gradients,
    /// innermost first. Without any, the frames above what all collectives share; without these, all frames. Captured code and forward code take
    /// precedence over the code that replayed the graph or ran the backward pass. Where compiled code or a graph hides the user's own code, the first
    /// frame is a line that says so (`hidden`). The module whose parameters FSDP or ZeRO gathers or scatters takes precedence over everything else.
    pub fn telling_frames(&self, code: &UserCode) -> Vec<String> {
        let paths = [self.captured.as_ref(), self.forward.as_ref()].into_iter().flatten().map(|path| &path.frames);
        let paths: Vec<&Vec<String>> = paths.chain([&self.frames]).collect();
        let all = || paths.iter().flat_map(|frames| frames.iter().rev()).map(String::as_str);
        let tells: [&dyn Fn(&str) -> bool; 3] = [
            &|frame| is_line(frame) || code.has(frame),
            &|frame| !is_plumbing(frame) && !is_library(frame),
            &|frame| !is_plumbing(frame),
        ];
        let only = |tells: &dyn Fn(&str) -> bool| all().filter(|frame| tells(frame)).collect::<Vec<_>>();
        let found = tells.into_iter().map(only).find(|found| !found.is_empty());
        let frames = found.unwrap_or_else(|| all().collect());
        let sharded = self.sharded();
        let telling = paths.iter().find(|frames| !frames.is_empty());
        let unnamed = telling.filter(|frames| !frames.last().is_some_and(|frame| is_line(frame)));
        let hidden = unnamed.and_then(|frames| hidden(frames, code));
        let first = sharded.or_else(|| self.annotation());
        let others = frames.into_iter().filter(|frame| Some(*frame) != first).map(str::to_owned);
        let first = first.map(str::to_owned).or(hidden);
        first.into_iter().chain(others).collect()
    }

    /// The frame that names the module whose parameters FSDP or ZeRO gathers or scatters: a frame of FSDP or ZeRO itself, else the module around the
    /// hook; in the backward pass, the module of the forward pass. `None` for a collective of the model itself, which has model frames below those of
    /// FSDP.
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
                // The module inside is more specific.
                Some(Fsdp::Wrapper) => return inner.or(Some(frame)),
                None => inner = Some(frame),
            }
        }
        nearest
    }

    /// What the kernel says itself that it belongs to: a frame below its launch.
    fn annotation(&self) -> Option<&str> {
        let [.., launch, annotation] = self.frames.as_slice() else { return None };
        let is_launch = GRAPH_LAUNCHES.contains(&launch.as_str()) || Work::of_call(launch).is_some();
        (is_launch && !is_plumbing(annotation)).then_some(annotation)
    }

    /// The collective named by the innermost `nccl:…` annotation, which PyTorch puts around each launch, or operator of symmetric memory.
    pub fn collective(&self) -> Option<Collective> {
        let captured = self.captured.iter().flat_map(|path| path.frames.iter().rev());
        let mut frames = self.frames.iter().rev().chain(captured);
        let of_annotation = |frame: &String| frame.strip_prefix(ANNOTATION).map(Collective::of_record);
        let of_operator = |frame: &String| frame.strip_prefix(SYMMETRIC).map(Collective::of_kernel);
        frames.find_map(|frame| of_annotation(frame).or_else(|| of_operator(frame))).flatten()
    }

    /// The key without line numbers, which differ between versions of a program.
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
pub(crate) type ByStack<'k, R> = BTreeMap<(R, StackKey), Vec<&'k KernelLaunch>>;

/// The kernels of each stack, and those without a launch by reason. Rows are first grouped by the ids of their call paths, so that each path is
/// formatted once; then paths with equal frames merge into one stack. Rows keep their order within a stack.
pub(crate) fn by_stack<'k, R: Ord + Copy>(
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
        let key = StackKey::from_kernel(store, &attribution.paths, first, exact_names);
        groups.entry((rank, key)).or_default().extend(kernels);
    }
    groups
}

/// Names a call path whose innermost user frames are above compiled code or above the wrappers of a CUDA graph:
///
/// - `compiled SD3Transformer2DModel: aten::addmm`, if the innermost user frame is outside the compiled module;
/// - `piece 1 of 3 of Net, before vllm::attention: aten::addmm`, with the operator that the compiled code calls;
/// - `a CUDA graph replayed by runner.py(7): forward`.
fn hidden(frames: &[String], code: &UserCode) -> Option<String> {
    let (mut is_compiled, mut is_wrapped, mut operator) = (false, false, None);
    for frame in frames.iter().rev() {
        let with_operator =
            |what: String| operator.map_or_else(|| what.clone(), |operator| format!("{what}: {operator}"));
        if is_piece(frame) {
            return is_compiled.then(|| with_operator(frame.clone()));
        }
        if code.has(frame) {
            let is_graph = frames.last().is_some_and(|launch| GRAPH_LAUNCHES.contains(&launch.as_str()));
            return (is_graph && is_wrapped).then(|| format!("a CUDA graph replayed by {frame}"));
        }
        match model_class(frame) {
            Some(class) if is_compiled => return Some(with_operator(format!("compiled {class}"))),
            _ => {}
        }
        is_wrapped |= is_framework_plumbing(frame);
        is_compiled |= is_compiled_code(frame);
        if !is_compiled && is_operator(frame) {
            operator = Some(frame);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hides_the_users_own_code_is_named() {
        let module = "nn.Module: Net_";
        let inductor = "/x/ab/cabcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrs.py(9): call";
        let runner = "sglang/srt/model_executor/cuda_graph_runner.py(9): replay";
        for (frames, want) in [
            (
                &["a.py(1): f", module, "Torch-Compiled Region: 0/", inductor, "aten::mm", "launch"][..],
                "compiled Net: aten::mm",
            ),
            (&["a.py(1): f", module, inductor, "aten::a", "aten::b", "launch"], "compiled Net: aten::a"),
            (&["a.py(1): f", module, inductor, "cuLaunchKernelEx"], "compiled Net"),
            // The model's own line is in the compiled module, or below it.
            (&["a.py(1): f", module, "net.py(2): forward", inductor, "aten::mm", "launch"], "net.py(2): forward"),
            (&["a.py(1): f", module, inductor, "net.py(3): op", "aten::mm", "launch"], "net.py(3): op"),
            // Nothing is compiled.
            (&["a.py(1): f", module, "aten::mm", "launch"], "a.py(1): f"),
            (&["a.py(1): f", runner, "cudaGraphLaunch"], "a CUDA graph replayed by a.py(1): f"),
            (&["a.py(1): f", "torch/cuda/graphs.py(1): replay", "cudaGraphLaunch"], "a.py(1): f"),
            (&["a.py(1): f", runner, "cudaLaunchKernel"], "a.py(1): f"),
            (&[runner, "cudaGraphLaunch"], runner),
        ] {
            let key = StackKey { frames: frames.iter().map(|f| (*f).to_owned()).collect(), ..StackKey::default() };
            assert_eq!(key.telling_frames(&UserCode::default())[0], want, "{frames:?}");
        }
    }
}
