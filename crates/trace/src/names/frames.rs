//! Names of stack frames: their parts, library and entry-point frames, and the parts that differ only between repetitions.

use std::borrow::Cow;

use super::args::COLLECTIVE_RECORD;
use super::calls::{GRAPH_LAUNCHES, Work};
use super::described::MODULE_FRAME;

/// The category of Kineto's flows from the forward pass to the backward pass.
pub const FORWARD_BACKWARD: &str = "fwdbwd";

/// Autograd's prefix for a node of the backward pass that its engine runs.
const EVALUATE: &str = "autograd::engine::evaluate_function: ";

/// The node that adds a gradient to a parameter's. It has no sequence number, and runs the hooks of data parallelism.
pub(super) const ACCUMULATE: &str = "torch::autograd::AccumulateGrad";

/// The text before an object's address in Python's `repr`.
const OBJECT: &str = "object at 0x";

/// The file of functions that `torch.fx` generates, without its number.
const GENERATED: &str = "<eval_with_key>";

/// A frame's name without the parts that differ between layers and runs: trailing digits (`nn.Module: Linear_`, `ProfilerStep#`), addresses
/// (`object at 0x…`), the numbers of functions that `torch.fx` generates (`<eval_with_key>(4): forward`), and layers in the names of FSDP's ranges
/// (`FSDP::all_gather (layers.*)`). A name of digits only stays unchanged.
pub fn fold(name: &str) -> Cow<'_, str> {
    if let Some(rest) = name.strip_prefix(GENERATED) {
        let rest = rest.strip_prefix('.').map_or(rest, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
        return Cow::Owned(format!("{GENERATED}{rest}"));
    }
    if let Some(module) = fsdp_module(name) {
        return Cow::Owned(name.replace(module, &folded(module)));
    }
    let trimmed = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let name = if trimmed.is_empty() { name } else { trimmed };
    if !name.contains(OBJECT) {
        return Cow::Borrowed(name);
    }
    let mut parts = name.split(OBJECT);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.extend([OBJECT, "…", part.trim_start_matches(|c: char| c.is_ascii_hexdigit())]);
    }
    Cow::Owned(out)
}

/// A path of modules without the numbers of layers: `layers.*.mlp`.
pub fn fold_levels(name: &str) -> Cow<'_, str> {
    Cow::Owned(fold(&folded(name)).into_owned())
}

fn folded(path: &str) -> String {
    path.split('.').map(fold_level).collect::<Vec<_>>().join(".")
}

/// A name with `*` for each of its numbers that may not stay, and for ids in hexadecimal: `layer *, microbatch *`, `req-*`.
pub fn without_numbers(name: &str, may_stay: impl Fn(&str) -> bool) -> String {
    let is_digit = |c: char| c.is_ascii_digit();
    let (mut out, mut rest) = (String::with_capacity(name.len()), name);
    while let Some(start) = rest.find(|c: char| c.is_ascii_hexdigit()) {
        let (text, from) = rest.split_at(start);
        out.push_str(text);
        let is_word = out.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let id = if is_word { 0 } else { id_length(from) };
        let digits = from.find(|c| !is_digit(c)).unwrap_or(from.len());
        let taken = match (id, digits) {
            // A letter.
            (0, 0) => 1,
            (0, digits) => digits,
            (id, _) => id,
        };
        let is_kept = id == 0 && (digits == 0 || may_stay(&from[..digits]));
        out.push_str(if is_kept { &from[..taken] } else { "*" });
        rest = &from[taken..];
    }
    out.push_str(rest);
    out
}

/// So many hexadecimal digits at least, with a decimal one among them, are an id and not a word.
const ID: usize = 8;

/// How long the id in hexadecimal is with which a text begins, such as a UUID; 0 if it begins with none.
fn id_length(text: &str) -> usize {
    // Hexadecimal digits that are no part of a word.
    let digits = |text: &str| {
        let length = text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len());
        let is_word = text[length..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
        if is_word { 0 } else { length }
    };
    let mut length = digits(text);
    if length < ID {
        return 0;
    }
    while let Some(more) = text[length..].strip_prefix('-').map(digits).filter(|more| *more > 0) {
        length += 1 + more;
    }
    let has = |is: fn(&char) -> bool| text[..length].chars().any(|c| is(&c));
    if has(char::is_ascii_digit) && has(char::is_ascii_alphabetic) { length } else { 0 }
}

/// One level of a module hierarchy, without layer numbers: `*` for the `12` of `model.layers.12.mlp`.
pub fn fold_level(name: &str) -> &str {
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) { "*" } else { name }
}

/// Packages that are not anyone's model: Python functions in them are library code. Kineto writes paths relative to the folder on `sys.path` that
/// contains them.
const LIBRARIES: &[&str] = &[
    // PyTorch: wrappers around every module, operator and collective.
    "torch/",
    "torchvision/",
    "triton/",
    // Other packages' wrappers, through which a model calls its collectives and kernels.
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
    // Code generated by `torch.fx`.
    GENERATED,
    // Python itself: code that starts programs and threads, and decorators.
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

/// Folders and files of frameworks that pass a model's collectives on to PyTorch or to their own kernels: the model calls them. Frameworks often
/// run from a checkout, so these may occur anywhere in a path.
const PLUMBING: &[&str] = &[
    // `parallel_state.py`, `communication_op.py`, `device_communicators/`
    "sglang/srt/distributed/",
    "vllm/distributed/",
    "tensorrt_llm/_torch/distributed/",
    "xfuser/core/distributed/",
    // SGLang: gathers and scatters between attention and MLP, for any layer.
    "sglang/srt/layers/communicator.py",
    "sglang/srt/layers/dp_attention.py",
    // Megatron: the autograd functions around its collectives, and its bucketed data parallelism.
    "megatron/core/tensor_parallel/mappings.py",
    "megatron/core/distributed/",
    "megatron/core/pipeline_parallel/p2p_communication.py",
    // Code that runs compiled models and replays CUDA graphs.
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

/// Folders in [`PLUMBING`] whose `__call__` runs one piece of a compiled model.
const PIECES: &[&str] = &[
    "sglang/srt/compilation/",
    "sglang/srt/model_executor/compilation/",
    "vllm/compilation/",
    "tensorrt_llm/_torch/compilation/",
];

/// The end of the names of files and folders that replay a model's CUDA graphs, in SGLang, TensorRT-LLM and LMDeploy: `cuda_graph_runner.py`,
/// `eagle_draft_cuda_graph_runner.py`.
const GRAPH_RUNNER: &str = "graph_runner";

/// Modules that PyTorch itself makes around compiled code.
const MADE_MODULES: &[&str] = &["GraphModule", "OptimizedModule"];

/// The user's own code, recognised by the names of frames.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserCode {
    prefixes: Vec<String>,
}

impl UserCode {
    /// Python functions outside libraries and plumbing, and functions in files whose paths begin with one of the prefixes.
    pub fn new(prefixes: Vec<String>) -> Self {
        UserCode { prefixes }
    }

    pub fn prefixes(&self) -> &[String] {
        &self.prefixes
    }

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

/// Whether a path contains one of these folders or files.
fn has_one_of(file: &str, paths: &[&str]) -> bool {
    let has = |from: usize| paths.iter().any(|path| file[from..].starts_with(path));
    has(0) || file.match_indices('/').any(|(at, _)| has(at + 1))
}

fn is_graph_runner(file: &str) -> bool {
    let is_runner = |name: &str| name == GRAPH_RUNNER || name.ends_with("_graph_runner");
    file.split('/').any(|name| is_runner(name.strip_suffix(".py").unwrap_or(name)))
}

/// Whether Inductor generated a file: its name is the hash of its content, `c` and 51 base-32 digits, in a folder named after the first two of
/// these digits. The cache around it may be anywhere.
fn is_inductor_file(file: &str) -> bool {
    let Some((folder, name)) = file.rsplit_once('/') else { return false };
    let Some(hash) = name.strip_suffix(".py").and_then(|stem| stem.strip_prefix('c')) else { return false };
    let is_digit = |byte: u8| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(&byte);
    hash.len() == 51 && hash.bytes().all(is_digit) && folder.rsplit('/').next() == Some(&hash[..2])
}

/// Whether this is a generated function that may run the pieces of a compiled model: from `torch.fx`, or from vLLM.
pub fn is_generated(name: &str) -> bool {
    function(name).is_some_and(|(file, function)| {
        file.starts_with(GENERATED) || (file == "<string>" && function == "execution_fn")
    })
}

/// Whether this runs a piece of a compiled model, provided a generated function calls it.
pub fn is_piece_wrapper(name: &str) -> bool {
    function(name).is_some_and(|(file, function)| function == "__call__" && has_one_of(file, PIECES))
}

/// Whether this frame runs compiled code: the ranges of Inductor and Dynamo, and the code that they generated.
pub fn is_compiled_code(name: &str) -> bool {
    ["## Call CompiledFxGraph", "Torch-Compiled Region", GENERATED].iter().any(|prefix| name.starts_with(prefix))
        || function(name).is_some_and(|(file, _)| is_inductor_file(file))
}

/// Whether this frame is an operator or a kernel's wrapper, not Python code, a module or a range around compiled code.
pub fn is_operator(name: &str) -> bool {
    function(name).is_none() && module(name).is_none() && !is_plumbing(name) && !is_compiled_code(name)
}

/// The class of a model's module: `Net` of `nn.Module: Net_0`. `None` for other frames, and for modules that PyTorch makes.
pub fn model_class(name: &str) -> Option<&str> {
    let class = module(name)?.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_');
    (!class.is_empty() && !MADE_MODULES.contains(&class)).then_some(class)
}

/// Whether this frame names pieces of a compiled model, as in attribution: `piece 2 of 3 of Net, …`, `a piece of Net`.
pub fn is_piece(name: &str) -> bool {
    let rest = name.strip_prefix("pieces ").or_else(|| name.strip_prefix("piece "));
    let is_numbered = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.contains(" of ");
    rest.is_some_and(is_numbered) || name.starts_with("a piece of ")
}

/// A file's path from its package on: without the folder of installed packages or of Python itself.
fn in_package(file: &str) -> &str {
    // Every name passes here, and single characters are faster to find than texts.
    let is_packages = |at: &usize| ["site-packages", "dist-packages"].iter().any(|name| file[..*at].ends_with(name));
    if let Some(at) = file.rmatch_indices('/').map(|(at, _)| at).find(is_packages) {
        return &file[at + 1..];
    }
    let mut slashes = file.match_indices('/').map(|(at, _)| &file[at..]);
    let of_python = slashes.find_map(|rest| rest.strip_prefix("/lib/python3.")).and_then(|rest| rest.split_once('/'));
    of_python.map_or(file, |(_, rest)| rest)
}

/// Whether this frame is in every stack of a collective, so that it does not show the origin: the launch call, and the frames that PyTorch's
/// process groups and NCCL put around it (`c10d::allreduce_`, `record_param_comms`, `nccl:all_reduce`, `ncclAllReduce`).
pub fn is_plumbing(name: &str) -> bool {
    is_nccl_call(name)
        || is_collective(name)
        || is_c_function(name)
        || GRAPH_LAUNCHES.contains(&name)
        || Work::of_call(name).is_some()
}

/// Whether PyTorch puts this frame around the launch of a collective.
pub fn is_collective(name: &str) -> bool {
    name == COLLECTIVE_RECORD || ["nccl:", "c10d::"].iter().any(|prefix| name.starts_with(prefix))
}

/// Whether this is an NCCL function, for which NCCL creates an NVTX range: `ncclGroupEnd`.
fn is_nccl_call(name: &str) -> bool {
    name.strip_prefix("nccl").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// The owner of a frame, for a line that sums up several: the folder of a Python function as a package (`torch.distributed`), `c10d` for PyTorch's
/// process groups, `nccl` for NCCL's functions. `None` for names that show neither.
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

/// The name of a C function without the type that has it as a method: `<built-in replay>`. Other names are unchanged.
pub fn short_c_function(name: &str) -> Cow<'_, str> {
    let method = name.strip_prefix("<built-in method ").and_then(|rest| Some(rest.split_once(" of ")?.0));
    let function = || name.strip_prefix("<built-in function ").and_then(|rest| rest.strip_suffix('>'));
    method.or_else(function).map_or(Cow::Borrowed(name), |function| Cow::Owned(format!("<built-in {function}>")))
}

/// The module in Kineto's frame for a call of `torch.nn.Module`: `Linear_0` of `nn.Module: Linear_0`. The number distinguishes the objects of a
/// class, in the order in which they first ran.
pub fn module(name: &str) -> Option<&str> {
    name.strip_prefix(MODULE_FRAME)
}

/// The module in the name of an FSDP range: `layers.3` of `FSDP::all_gather (layers.3)` and of `FSDP::backward_prefetch for layers.3`.
pub fn fsdp_module(name: &str) -> Option<&str> {
    let range = name.strip_prefix("FSDP::")?;
    let named = range.split_once(" (").and_then(|(_, rest)| rest.strip_suffix(')'));
    named.or_else(|| range.split_once(" for ").map(|(_, module)| module))
}

/// The node of the backward pass that an operator runs, without the engine's prefix: `AddmmBackward0`.
pub fn node(name: &str) -> &str {
    name.strip_prefix(EVALUATE).unwrap_or(name)
}

/// Whether this operator is autograd's engine running a node of the backward pass, by its name.
pub fn is_node(name: &str) -> bool {
    name.starts_with(EVALUATE) || name == ACCUMULATE
}

/// Whether a backward node has the name that PyTorch derives from this operator's: `aten::_to_copy` gives `ToCopyBackward0`, a class `Scale` of
/// `torch.autograd.Function` gives `ScaleBackward`. An operator with another name may still have made the node: a TorchScript graph runs many.
pub fn is_node_of(node: &str, operator: &str) -> bool {
    let letters = |name: &str| -> String {
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    let last = |name: &str| letters(name.rsplit("::").next().unwrap_or(name));
    // A C++ node has its function as a type argument: `CppNode<fbgemm_gpu::Lookup>`.
    let node = node.split_once("CppNode<").map_or(node, |(_, function)| function);
    let node = last(node.trim_end_matches(|c: char| c.is_ascii_digit()));
    let node = node.strip_suffix("backward").or_else(|| node.strip_suffix("backwards")).unwrap_or(&node);
    let operator = last(operator);
    !node.is_empty() && (operator == node || operator.strip_suffix("forward") == Some(node))
}

/// Whether this is the first function of a thread started by Python: `threading.py(1030): _bootstrap`.
pub fn is_thread_entry(name: &str) -> bool {
    function(name).is_some_and(|(file, function)| function == "_bootstrap" && file.ends_with("threading.py"))
}

/// Whether Python starts a program or a `multiprocessing` process with this function: `<frozen runpy>(198): _run_module_as_main`, `<string>(1):
/// <module>`. Code that a program generates and runs may have the same name.
pub fn is_program_entry(name: &str) -> bool {
    function(name).is_some_and(|(file, function)| {
        function == "_run_module_as_main" || (function == "<module>" && file == "<string>")
    })
}

/// Whether PyTorch starts its profiler with this function: `torch/autograd/profiler.py(398): _start_trace`.
pub fn is_profiler_start(name: &str) -> bool {
    let is_start = ["): _start_trace", "): __enter__"].iter().any(|end| name.ends_with(end));
    is_start && function(name).is_some_and(|(file, _)| in_package(file) == "torch/autograd/profiler.py")
}

/// Whether this is a C function called from Python: `<built-in method run_backward of …>`.
pub fn is_c_function(name: &str) -> bool {
    name.starts_with("<built-in ") || name.starts_with("<method ")
}

/// Whether only a profiler that records Python functions writes this name: `file.py(line): function`, a module, a C function.
pub fn is_python(name: &str) -> bool {
    function(name).is_some() || is_c_function(name) || module(name).is_some()
}

/// The file, line and function of `file.py(line): function`; `None` for other names.
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

/// The file and function of `file.py(line): function`.
fn function(name: &str) -> Option<(&str, &str)> {
    location(name).map(|(file, _, function)| (file, function))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ids_are_left_out() {
        for (name, without) in [
            ("layer 3, microbatch 12", "layer *, microbatch *"),
            ("fp8 gather", "fp* gather"),
            ("req-9e3779b1-0001", "req-*"),
            ("req-08123456-0001", "req-*-*"),
            ("req-deadbeef", "req-deadbeef"),
            ("8f14e45f-ceea-467f-9d2a-1c3b5a7e9f01: decode", "*: decode"),
            ("chatcmpl-0a1b2c3d4e5f", "chatcmpl-*"),
            ("9e3779b1-decode", "*-decode"),
            ("added 7 faces", "added * faces"),
        ] {
            assert_eq!(super::without_numbers(name, |_| false), without);
        }
    }

    fn check(is: fn(&str) -> bool, yes: &[&str], no: &[&str]) {
        yes.iter().for_each(|name| assert!(is(name), "{name}"));
        no.iter().for_each(|name| assert!(!is(name), "{name}"));
    }

    #[test]
    fn frames_of_every_collective_are_plumbing() {
        let calls = ["c10d::allreduce_", "record_param_comms", "nccl:all_reduce", "ncclGroupEnd", "hipExtLaunchKernel"];
        let others = ["DistributedDataParallel.forward", "aten::mm", "nccl_step"];
        check(is_plumbing, &calls, &others);
        let c_function = "<built-in method allreduce of PyCapsule object at 0x…>";
        check(is_plumbing, &["cudaGraphLaunch", c_function], &["torch/nn/parallel/distributed.py(1637): forward"]);
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
        check(
            is_piece_wrapper,
            &["vllm/compilation/cuda_graph.py(208): __call__", "/w/vllm/compilation/cuda_graph.py(208): __call__"],
            &["vllm/compilation/cuda_graph.py(195): __getattr__", "my_vllm/compilation/cuda_graph.py(208): __call__"],
        );
        let generated = ["<eval_with_key>.50(4): forward", "<string>(3): execution_fn"];
        check(is_generated, &generated, &["<string>(3): other", "execution_fn"]);
        let pieces = ["piece 2 of 3 of Net, before a", "pieces 2 to 4 of 5", "a piece of Net"];
        check(is_piece, &pieces, &["piece of cake", "pieces.py(3): piece 1 of 2"]);
        check(
            is_operator,
            &["aten::mm", "triton_poi_fused_add_0", "_c10d_functional::all_reduce_"],
            &["a.py(1): f", "nn.Module: A_0", "c10d::allreduce_", "cudaLaunchKernel", "Torch-Compiled Region: 0/0"],
        );
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
        check(is_node, &["autograd::engine::evaluate_function: X", ACCUMULATE], &["TBackward0"]);
    }

    #[test]
    fn layers_and_addresses_fold() {
        let ranges =
            ["FSDP::all_gather (layers.3)", "FSDP::backward_prefetch for layers.2", "FSDP::all_gather", "f (x)"];
        assert_eq!(ranges.map(fsdp_module), [Some("layers.3"), Some("layers.2"), None, None]);
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
        let c_function = "<built-in method run_backward of torch._C._EngineBase object at 0x7f>";
        check(is_c_function, &[c_function], &["a.py(1): <built-in>"]);
    }
}
