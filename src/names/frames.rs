//! Names of stack frames: their parts, which frames are libraries or entry points, and the parts that differ only between repetitions.

use std::borrow::Cow;

use super::args::COLLECTIVE_RECORD;
use super::calls::{GRAPH_LAUNCHES, Work};

/// The category of Kineto's flows from the forward pass to the backward pass.
pub const FORWARD_BACKWARD: &str = "fwdbwd";

/// What autograd's engine puts before the name of a node of the backward pass while it runs it.
const EVALUATE: &str = "autograd::engine::evaluate_function: ";

/// The node that adds a gradient to a parameter's. It has no sequence number, and runs the hooks of data parallelism.
pub(super) const ACCUMULATE: &str = "torch::autograd::AccumulateGrad";

/// The text before an object's address in Python's `repr`.
const OBJECT: &str = "object at 0x";

/// The file of a function that `torch.fx` generates, before its number.
const GENERATED: &str = "<eval_with_key>";

/// A frame's name without the parts that differ between layers and runs: the digits at its end
/// (`nn.Module: Linear_12` becomes `nn.Module: Linear_`, `ProfilerStep#7` becomes `ProfilerStep#`), addresses of objects
/// (`object at 0x7f46…` becomes `object at 0x…`), the number that `torch.fx` gives to each function that it generates
/// (`<eval_with_key>.505(4): forward` becomes `<eval_with_key>(4): forward`), and layers in the names of FSDP's ranges (`FSDP::all_gather (layers.*)`). A
/// name of digits only stays unchanged.
pub fn fold(name: &str) -> Cow<'_, str> {
    if let Some(rest) = name.strip_prefix(GENERATED) {
        let rest = rest.strip_prefix('.').map_or(rest, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
        return Cow::Owned(format!("{GENERATED}{rest}"));
    }
    if let Some(module) = fsdp_module(name) {
        let levels: Vec<&str> = module.split('.').map(fold_level).collect();
        return Cow::Owned(name.replace(module, &levels.join(".")));
    }
    let trimmed = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let name = if trimmed.is_empty() { name } else { trimmed };
    if !name.contains(OBJECT) {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len());
    let mut parts = name.split(OBJECT);
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        out.push_str(OBJECT);
        out.push('…');
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    Cow::Owned(out)
}

/// A level of a hierarchy of modules without the number of a layer: `*` for the `12` of `model.layers.12.mlp`.
pub fn fold_level(name: &str) -> &str {
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) { "*" } else { name }
}

/// Packages that are nobody's model: Python functions in them are library code. Kineto writes paths without the folder on `sys.path`
/// that holds them.
const LIBRARIES: &[&str] = &[
    // PyTorch: wrappers around every module, operator and collective.
    "torch/",
    "torchvision/",
    "triton/",
    // Wrappers of other packages that a model calls its collectives and kernels through.
    "accelerate/",
    "aiter/",
    "apex/",
    "csrc/cpp_itfs/",
    "deep_ep/",
    "deepspeed/",
    "einops/",
    "flash_attn/",
    "flashinfer/",
    "horovod/",
    "lightning/",
    "lightning_fabric/",
    "numpy/",
    "pytorch_lightning/",
    "torch_guard.py",
    "tqdm/",
    "transformer_engine/",
    "triton_kernels/",
    // What `torch.fx` generates.
    GENERATED,
    // Python itself: what starts programs and threads, and what decorates functions.
    "<frozen ",
    "<string>",
    "_pytest/",
    "asyncio/",
    "cProfile.py",
    "concurrent/",
    "contextlib.py",
    "functools.py",
    "importlib/",
    "multiprocessing/",
    "queue.py",
    "runpy.py",
    "threading.py",
    "typing.py",
    "uvloop/",
];

/// Folders and files of frameworks that hand a model's collective on to PyTorch or to their own kernels: the model calls them. Frameworks
/// are often run from a checkout, so these may stand anywhere in a path.
const PLUMBING: &[&str] = &[
    // `parallel_state.py`, `communication_op.py`, `device_communicators/`
    "sglang/srt/distributed/",
    "vllm/distributed/",
    "tensorrt_llm/_torch/distributed/",
    "xfuser/core/distributed/",
    // SGLang: gathers and scatters between attention and MLP, for whichever layer.
    "sglang/srt/layers/communicator.py",
    "sglang/srt/layers/dp_attention.py",
    // Megatron: the autograd functions around its collectives, and its bucketed data parallelism.
    "megatron/core/tensor_parallel/mappings.py",
    "megatron/core/distributed/",
    "megatron/core/pipeline_parallel/p2p_communication.py",
    // What runs compiled models and replays CUDA graphs.
    "sglang/srt/compilation/",
    "sglang/srt/model_executor/compilation/",
    "vllm/compilation/",
    "vllm/v1/worker/gpu/cudagraph_utils.py",
    "vllm/v1/worker/gpu_ubatch_wrapper.py",
    "tensorrt_llm/_torch/compilation/",
    "megatron/core/transformer/cuda_graphs.py",
    // Decorators.
    "diffusers/utils/",
    "sglang/srt/utils/",
    "vllm/model_executor/parameter.py",
    "vllm/tracing/",
    "vllm/utils/",
];

/// Folders of [`PLUMBING`] whose `__call__` runs one piece of a compiled model.
const PIECES: &[&str] = &[
    "sglang/srt/compilation/",
    "sglang/srt/model_executor/compilation/",
    "vllm/compilation/",
    "tensorrt_llm/_torch/compilation/",
];

/// The end of the names of files, and folders, that replay a model's CUDA graphs, in SGLang, TensorRT-LLM and LMDeploy:
/// `cuda_graph_runner.py`, `eagle_draft_cuda_graph_runner.py`.
const GRAPH_RUNNER: &str = "graph_runner";

/// Modules that PyTorch makes itself around compiled code.
const MADE_MODULES: &[&str] = &["GraphModule", "OptimizedModule"];

/// Whose code a frame is, as far as its name shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserCode {
    prefixes: Vec<String>,
}

impl UserCode {
    /// Python functions outside libraries and plumbing, and those in files whose paths begin with one of these.
    pub fn new(prefixes: Vec<String>) -> Self {
        UserCode { prefixes }
    }

    /// These.
    pub fn prefixes(&self) -> &[String] {
        &self.prefixes
    }

    /// Whether a frame is the user's own code.
    pub fn has(&self, frame: &str) -> bool {
        let Some((file, _)) = function(frame) else { return is_piece(frame) };
        let in_package = in_package(file);
        let is_named = |prefix: &String| file.starts_with(&**prefix) || in_package.starts_with(&**prefix);
        self.prefixes.iter().any(is_named) || !(is_library_file(file) || is_plumbing_file(file))
    }
}

/// Whether this is a Python function of a library or of a framework's plumbing.
pub fn is_library(name: &str) -> bool {
    function(name).is_some_and(|(file, _)| is_library_file(file) || is_plumbing_file(file))
}

/// Whether this is a Python function of a framework's plumbing.
pub fn is_framework_plumbing(name: &str) -> bool {
    function(name).is_some_and(|(file, _)| is_plumbing_file(file))
}

fn is_library_file(file: &str) -> bool {
    let file = in_package(file);
    LIBRARIES.iter().any(|library| file.starts_with(library))
}

fn is_plumbing_file(file: &str) -> bool {
    has_one_of(file, PLUMBING) || is_graph_runner(file) || is_inductor_file(file)
}

/// Whether one of these folders or files is in a path.
fn has_one_of(file: &str, paths: &[&str]) -> bool {
    let has = |from: usize| paths.iter().any(|path| file[from..].starts_with(path));
    has(0) || file.match_indices('/').any(|(at, _)| has(at + 1))
}

fn is_graph_runner(file: &str) -> bool {
    let is_runner = |name: &str| name == GRAPH_RUNNER || name.ends_with("_graph_runner");
    file.split('/').any(|name| is_runner(name.strip_suffix(".py").unwrap_or(name)))
}

/// Whether a file is code that Inductor generated: it is named after the hash of its content, `c` and 51 digits of base 32, in a folder of the
/// first two of these digits. The cache around it may be anywhere.
fn is_inductor_file(file: &str) -> bool {
    let Some((folder, name)) = file.rsplit_once('/') else { return false };
    let Some(hash) = name.strip_suffix(".py").and_then(|stem| stem.strip_prefix('c')) else { return false };
    let is_digit = |byte: u8| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(&byte);
    hash.len() == 51 && hash.bytes().all(is_digit) && folder.rsplit('/').next() == Some(&hash[..2])
}

/// Whether this is a generated function that may run the pieces of a compiled model, and the operators between them: one of `torch.fx`, or
/// what vLLM generates in its place.
pub fn is_generated(name: &str) -> bool {
    function(name).is_some_and(|(file, function)| {
        file.starts_with(GENERATED) || (file == "<string>" && function == "execution_fn")
    })
}

/// Whether this runs a piece of a compiled model, if a generated function calls it.
pub fn is_piece_wrapper(name: &str) -> bool {
    function(name).is_some_and(|(file, function)| function == "__call__" && has_one_of(file, PIECES))
}

/// Whether this frame runs code that was compiled: Inductor's and Dynamo's ranges, and what they generated.
pub fn is_compiled_code(name: &str) -> bool {
    ["## Call CompiledFxGraph", "Torch-Compiled Region", GENERATED].iter().any(|prefix| name.starts_with(prefix))
        || function(name).is_some_and(|(file, _)| is_inductor_file(file))
}

/// Whether this frame is an operator or a kernel's wrapper, not Python code, a module or a range around compiled code.
pub fn is_operator(name: &str) -> bool {
    function(name).is_none() && module(name).is_none() && !is_plumbing(name) && !is_compiled_code(name)
}

/// The class of a model's module: `Qwen3MoeModel` of `nn.Module: Qwen3MoeModel_0`. `None` for other frames, and for modules that PyTorch makes
/// itself.
pub fn model_class(name: &str) -> Option<&str> {
    let class = module(name)?.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_');
    (!class.is_empty() && !MADE_MODULES.contains(&class)).then_some(class)
}

/// Whether this frame names pieces of a compiled model, as attribution does: `piece 2 of 3 of Net, …`, `a piece of Net`.
pub fn is_piece(name: &str) -> bool {
    let rest = name.strip_prefix("pieces ").or_else(|| name.strip_prefix("piece "));
    let is_numbered = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.contains(" of ");
    rest.is_some_and(is_numbered) || name.starts_with("a piece of ")
}

/// A file's path from its package on: without the folder of installed packages or of Python itself.
fn in_package(file: &str) -> &str {
    // All names pass here, and single characters are found faster than texts.
    let is_packages = |at: &usize| ["site-packages", "dist-packages"].iter().any(|name| file[..*at].ends_with(name));
    if let Some(at) = file.rmatch_indices('/').map(|(at, _)| at).find(is_packages) {
        return &file[at + 1..];
    }
    let mut slashes = file.match_indices('/').map(|(at, _)| &file[at..]);
    let of_python = slashes.find_map(|rest| rest.strip_prefix("/lib/python3.")).and_then(|rest| rest.split_once('/'));
    of_python.map_or(file, |(_, rest)| rest)
}

/// Whether this frame is in every stack of a collective and so does not show its origin: the launch call, and the frames that
/// PyTorch's process groups and NCCL put around it (`c10d::allreduce_`, `record_param_comms`, `nccl:all_reduce`, `ncclAllReduce`).
pub fn is_plumbing(name: &str) -> bool {
    is_nccl_call(name)
        || is_collective(name)
        || is_c_function(name)
        || GRAPH_LAUNCHES.contains(&name)
        || Work::of_call(name).is_some()
}

/// Whether PyTorch puts this around the launch of a collective.
pub fn is_collective(name: &str) -> bool {
    name == COLLECTIVE_RECORD || ["nccl:", "c10d::"].iter().any(|prefix| name.starts_with(prefix))
}

/// Whether this is a function of NCCL, for which it makes a range of NVTX: `ncclGroupEnd`.
fn is_nccl_call(name: &str) -> bool {
    name.strip_prefix("nccl").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// What a frame belongs to, for a line that sums up several: the folder of a Python function as a package
/// (`torch.distributed`), `c10d` for PyTorch's process groups, `nccl` for NCCL's functions. `None` for names that show neither.
pub fn package(name: &str) -> Option<String> {
    if let Some((file, _)) = function(name) {
        let folder = in_package(file).rsplit_once('/').map_or_else(|| in_package(file), |(folder, _)| folder);
        return Some(folder.trim_matches('/').trim_end_matches(".py").replace('/', "."));
    }
    if is_nccl_call(name) {
        return Some("nccl".to_owned());
    }
    is_collective(name).then(|| "c10d".to_owned())
}

/// The name of a C function without the type that it is a method of: `<built-in replay>`. Other names are unchanged.
pub fn short_c_function(name: &str) -> Cow<'_, str> {
    let method = name.strip_prefix("<built-in method ").and_then(|rest| Some(rest.split_once(" of ")?.0));
    let function = || name.strip_prefix("<built-in function ").and_then(|rest| rest.strip_suffix('>'));
    method.or_else(function).map_or(Cow::Borrowed(name), |function| Cow::Owned(format!("<built-in {function}>")))
}

/// The module of a frame that Kineto writes for a call of `torch.nn.Module`: `Linear_0` of `nn.Module: Linear_0`. The number tells the objects of a
/// class apart, by the order in which they ran first.
pub fn module(name: &str) -> Option<&str> {
    name.strip_prefix("nn.Module: ")
}

/// The module that FSDP names in one of its ranges: `layers.3` of `FSDP::all_gather (layers.3)` and of `FSDP::backward_prefetch for layers.3`.
pub fn fsdp_module(name: &str) -> Option<&str> {
    let range = name.strip_prefix("FSDP::")?;
    let named = range.split_once(" (").and_then(|(_, rest)| rest.strip_suffix(')'));
    named.or_else(|| range.split_once(" for ").map(|(_, module)| module))
}

/// The node of the backward pass that an operator runs, without what the engine puts before it: `AddmmBackward0`.
pub fn node(name: &str) -> &str {
    name.strip_prefix(EVALUATE).unwrap_or(name)
}

/// Whether autograd's engine runs a node of the backward pass by this operator, as its name shows.
pub fn is_node(name: &str) -> bool {
    name.starts_with(EVALUATE) || name == ACCUMULATE
}

/// Whether a node of the backward pass has the name that PyTorch derives from this operator's: `aten::_to_copy` gives `ToCopyBackward0`,
/// a class `Scale` of `torch.autograd.Function` gives `ScaleBackward`. An operator without a name of its own kind may have made the node all the
/// same: a TorchScript graph runs many.
pub fn is_node_of(node: &str, operator: &str) -> bool {
    let letters = |name: &str| -> String {
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    let last = |name: &str| letters(name.rsplit("::").next().unwrap_or(name));
    // A node of C++ has its function as the type that it is made of: `CppNode<fbgemm_gpu::Lookup>`.
    let node = node.split_once("CppNode<").map_or(node, |(_, function)| function);
    let node = last(node.trim_end_matches(|c: char| c.is_ascii_digit()));
    let node = node.strip_suffix("backward").or_else(|| node.strip_suffix("backwards")).unwrap_or(&node);
    let operator = last(operator);
    !node.is_empty() && (operator == node || operator.strip_suffix("forward") == Some(node))
}

/// Whether this is the first function of a thread that Python started: `threading.py(1030): _bootstrap`.
pub fn is_thread_entry(name: &str) -> bool {
    function(name).is_some_and(|(file, function)| function == "_bootstrap" && file.ends_with("threading.py"))
}

/// Whether Python runs a program or a process of `multiprocessing` by this function: `<frozen runpy>(198): _run_module_as_main`,
/// `<string>(1): <module>`. Code that a program generates and runs may have the same name.
pub fn is_program_entry(name: &str) -> bool {
    function(name).is_some_and(|(file, function)| {
        function == "_run_module_as_main" || (function == "<module>" && file == "<string>")
    })
}

/// Whether PyTorch starts its profiler by this function: `torch/autograd/profiler.py(398): _start_trace`.
pub fn is_profiler_start(name: &str) -> bool {
    let is_start = ["): _start_trace", "): __enter__"].iter().any(|end| name.ends_with(end));
    is_start && function(name).is_some_and(|(file, _)| in_package(file) == "torch/autograd/profiler.py")
}

/// Whether this is a C function that Python called: `<built-in method run_backward of …>`.
pub fn is_c_function(name: &str) -> bool {
    name.starts_with("<built-in ") || name.starts_with("<method ")
}

/// File, line and function of `file.py(line): function`; `None` for other names.
pub fn location(name: &str) -> Option<(&str, &str, &str)> {
    let closes = |at: &usize| name[at + 1..].starts_with(": ");
    let end = name.rmatch_indices(')').map(|(at, _)| at).find(closes)?;
    let (location, function) = (&name[..end], &name[end + "): ".len()..]);
    let (file, line) = location.rsplit_once('(')?;
    line.bytes().all(|byte| byte.is_ascii_digit()).then_some((file, line, function))
}

/// A name without its line number: `file.py: function`. Other names are unchanged.
pub fn without_line(name: &str) -> Cow<'_, str> {
    location(name).map_or(Cow::Borrowed(name), |(file, _, function)| Cow::Owned(format!("{file}: {function}")))
}

/// File and function of `file.py(line): function`.
fn function(name: &str) -> Option<(&str, &str)> {
    location(name).map(|(file, _, function)| (file, function))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_every_collective_are_plumbing() {
        for name in [
            "c10d::allreduce_",
            "record_param_comms",
            "nccl:all_reduce",
            "ncclGroupEnd",
            "hipExtLaunchKernel",
            "cudaGraphLaunch",
        ] {
            assert!(is_plumbing(name), "{name}");
        }
        for name in [
            "DistributedDataParallel.forward",
            "aten::mm",
            "nccl_step",
            "torch/nn/parallel/distributed.py(1637): forward",
        ] {
            assert!(!is_plumbing(name), "{name}");
        }
        assert!(is_plumbing("<built-in method allreduce of PyCapsule object at 0x…>"));
    }

    #[test]
    fn whose_code_it_is() {
        let code = UserCode::default();
        for (name, own, library) in [
            ("sglang/srt/models/qwen3_moe.py(320): forward_normal", true, false),
            ("sglang/srt/layers/logits_processor.py(843): _get_logits", true, false),
            ("sglang/srt/layers/communicator.py(952): _gather_hidden_states_and_residual", false, true),
            ("/sgl-workspace/sglang/python/sglang/srt/distributed/parallel_state.py(559): all_reduce", false, true),
            ("vllm/distributed/communication_op.py(14): tensor_model_parallel_all_reduce", false, true),
            ("my_distributed/train.py(3): step", true, false),
            ("mysglang/srt/distributed/x.py(3): step", true, false),
            ("transformers/models/llama/modeling_llama.py(7): forward", true, false),
            ("torch/nn/modules/module.py(1783): _call_impl", false, true),
            ("/usr/lib/python3/dist-packages/torch/_ops.py(1257): __call__", false, true),
            ("/opt/conda/lib/python3.11/contextlib.py(81): inner", false, true),
            ("/opt/conda/lib/python3.11/site-packages/mymodel/net.py(8): forward", true, false),
            ("/home/me/torch/train.py(8): main", true, false),
            ("<string>(1): <module>", false, true),
            ("python/sglang/srt/compilation/cuda_piecewise_backend.py(109): __call__", false, true),
            ("sglang/srt/speculative/eagle_draft_cuda_graph_runner.py(9): replay", false, true),
            ("sglang/srt/model_executor/cuda_graph_runner/decode_runner.py(9): replay", false, true),
            ("sglang/srt/model_executor/model_runner.py(3344): _forward_raw", true, false),
            ("lmdeploy/pytorch/backends/cuda/graph_runner.py(9): forward", false, true),
            ("my_graph_runners.py(9): forward", true, false),
            ("<eval_with_key>(4): forward", false, true),
            ("/x/ys/cys3tk2ndpymax7smyj6ciyp4njmsrra3hwe6bdgzttzknlbelul.py(232): call", false, true),
            ("/x/yt/cys3tk2ndpymax7smyj6ciyp4njmsrra3hwe6bdgzttzknlbelul.py(232): call", true, false),
            ("/x/ys/cys3tk2ndpymax7smyj6.py(232): call", true, false),
            ("piece 2 of 3 of Net, before vllm::attention", true, false),
            ("nn.Module: Linear_", false, false),
            ("aten::mm", false, false),
            ("<built-in method replay of T>", false, false),
        ] {
            assert_eq!((code.has(name), is_library(name)), (own, library), "{name}");
        }
        let more = UserCode::new(vec!["torch/nn/parallel".to_owned(), "/home/me".to_owned()]);
        assert!(more.has("torch/nn/parallel/distributed.py(1637): forward") && more.has("/home/me/x.py(1): f"));
        assert!(!more.has("torch/nn/modules/module.py(1783): _call_impl"));
    }

    #[test]
    fn what_a_line_for_several_frames_says() {
        for (name, want) in [
            ("torch/distributed/distributed_c10d.py(2978): all_reduce", Some("torch.distributed")),
            ("/opt/lib/python3.11/site-packages/torch/_ops.py(1): __call__", Some("torch")),
            ("contextlib.py(81): inner", Some("contextlib")),
            ("c10d::allreduce_", Some("c10d")),
            ("record_param_comms", Some("c10d")),
            ("cuLaunchKernelEx", None),
        ] {
            assert_eq!(package(name).as_deref(), want, "{name}");
        }
        for (name, want) in [
            ("<built-in method replay of pybind11_detail_v1 object at 0x…>", "<built-in replay>"),
            ("<built-in function linear>", "<built-in linear>"),
            ("<method 'acquire' of '_thread.lock' objects>", "<method 'acquire' of '_thread.lock' objects>"),
            ("a.py(1): f", "a.py(1): f"),
        ] {
            assert_eq!(short_c_function(name), want);
        }
    }

    #[test]
    fn frames_around_compiled_code() {
        for (name, is_wrapper) in [
            ("vllm/compilation/cuda_graph.py(208): __call__", true),
            ("/w/vllm/compilation/cuda_graph.py(208): __call__", true),
            ("vllm/compilation/cuda_graph.py(195): __getattr__", false),
            ("my_vllm/compilation/cuda_graph.py(208): __call__", false),
        ] {
            assert_eq!(is_piece_wrapper(name), is_wrapper, "{name}");
        }
        for (name, want) in [
            ("<eval_with_key>.50(4): forward", true),
            ("<string>(3): execution_fn", true),
            ("<string>(3): other", false),
            ("execution_fn", false),
        ] {
            assert_eq!(is_generated(name), want, "{name}");
        }
        for (name, want) in [
            ("nn.Module: Qwen3MoeModel_0", Some("Qwen3MoeModel")),
            ("nn.Module: Qwen3MoeModel_", Some("Qwen3MoeModel")),
            ("nn.Module: GraphModule_7", None),
            ("nn.Module: OptimizedModule_", None),
            ("nn.Module: ", None),
            ("Qwen3MoeModel_0", None),
        ] {
            assert_eq!(model_class(name), want, "{name}");
        }
        for (name, want) in [
            ("piece 2 of 3 of Net, before a", true),
            ("pieces 2 to 4 of 5", true),
            ("a piece of Net", true),
            ("piece of cake", false),
            ("pieces.py(3): piece 1 of 2", false),
        ] {
            assert_eq!(is_piece(name), want, "{name}");
        }
        for name in ["aten::mm", "triton_poi_fused_add_0", "_c10d_functional::all_reduce_"] {
            assert!(is_operator(name), "{name}");
        }
        for name in
            ["a.py(1): f", "nn.Module: A_0", "c10d::allreduce_", "cudaLaunchKernel", "Torch-Compiled Region: 0/0"]
        {
            assert!(!is_operator(name), "{name}");
        }
    }

    #[test]
    fn nodes_are_named_after_operators() {
        for (node, operator, want) in [
            ("ToCopyBackward0", "aten::_to_copy", true),
            ("ReluBackward0", "aten::relu_", true),
            ("NllLossBackward0", "aten::nll_loss_forward", true),
            ("MaxPool2DWithIndicesBackward0", "aten::max_pool2d_with_indices", true),
            ("CopyBackwards", "aten::copy_", true),
            ("_CopyToRegionBackward", "_CopyToRegion", true),
            ("torch::autograd::CppNode<fbgemm::Lookup>", "fbgemm::Lookup", true),
            ("TBackward0", "aten::linear", false),
            ("AddmmBackward0", "aten::add", false),
            ("AddBackward0", "aten::addmm", false),
            ("torch::jit::(anonymous namespace)::DifferentiableGraphBackward", "aten::detach_", false),
            ("Backward", "aten::", false),
        ] {
            assert_eq!(is_node_of(node, operator), want, "{node} of {operator}");
        }
        assert_eq!(node("autograd::engine::evaluate_function: TBackward0"), "TBackward0");
        assert!(is_node("autograd::engine::evaluate_function: X") && is_node(ACCUMULATE) && !is_node("TBackward0"));
    }

    #[test]
    fn modules_in_ranges_of_fsdp() {
        assert_eq!(fsdp_module("FSDP::all_gather (layers.3)"), Some("layers.3"));
        assert_eq!(fsdp_module("FSDP::backward_prefetch for layers.2"), Some("layers.2"));
        assert_eq!((fsdp_module("FSDP::all_gather"), fsdp_module("f (x)")), (None, None));
    }

    #[test]
    fn layers_and_addresses_fold() {
        for (name, want) in [
            ("nn.Module: Linear_12", "nn.Module: Linear_"),
            ("ProfilerStep#123", "ProfilerStep#"),
            ("<eval_with_key>.505(4): forward", "<eval_with_key>(4): forward"),
            ("<eval_with_key>(4): forward", "<eval_with_key>(4): forward"),
            ("FSDP::all_gather (layers.12.mlp)", "FSDP::all_gather (layers.*.mlp)"),
            ("FSDP::backward_prefetch for layers.3", "FSDP::backward_prefetch for layers.*"),
            ("torch/nn/modules/module.py(1743): _call_impl", "torch/nn/modules/module.py(1743): _call_impl"),
            ("<built-in method f of T object at 0x7f468be8c150>", "<built-in method f of T object at 0x…>"),
            ("<a object at 0x1f> <b object at 0x2>", "<a object at 0x…> <b object at 0x…>"),
            ("object at 0x12", "object at 0x…"),
            ("42", "42"),
            ("", ""),
        ] {
            assert_eq!(fold(name), want);
        }
    }

    #[test]
    fn names_of_functions_are_parsed() {
        for (name, thread, program) in [
            ("threading.py(1030): _bootstrap", true, false),
            ("/usr/lib/python3.12/threading.py(1030): _bootstrap", true, false),
            ("threading.py(1073): _bootstrap_inner", false, false),
            ("multiprocessing/process.py(314): _bootstrap", false, false),
            ("<string>(1): <module>", false, true),
            ("<frozen runpy>(198): _run_module_as_main", false, true),
            ("train.py(1): <module>", false, false),
            ("threading.py: _bootstrap", false, false),
            ("", false, false),
        ] {
            assert_eq!((is_thread_entry(name), is_program_entry(name)), (thread, program), "{name}");
        }
        for (name, want) in [
            ("a/b.py(12): forward", "a/b.py: forward"),
            ("<string>(1): <module>", "<string>: <module>"),
            ("f(3)", "f(3)"),
            ("a.py(x): f", "a.py(x): f"),
        ] {
            assert_eq!(without_line(name), want);
        }
        assert!(is_c_function("<built-in method run_backward of torch._C._EngineBase object at 0x7f>"));
        assert!(!is_c_function("a.py(1): <built-in>"));
    }
}
