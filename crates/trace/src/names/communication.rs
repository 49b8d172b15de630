//! Signs of communication for kernels that no family has: the names of operators, annotations and C functions, and the kernel's own name.
//!
//! Names of Python code are no evidence: a Python function `all_gather` itself launches mostly copies and sums, which prepare the data.

use super::args::COLLECTIVE_RECORD;
use super::collectives::{ANNOTATION, own_name};
use super::described::MODULE_FRAME;
use super::kernels::says_collective;

/// PyTorch's operators and annotations for communication only: `torch/csrc/distributed/c10d/` (`Ops.cpp`, `Functional.cpp`, `symm_mem/`).
const COMMUNICATE: &[&str] = &[ANNOTATION, "c10d::", "_c10d_functional", SYMMETRIC];

/// The namespace of PyTorch's operators of symmetric memory: `symm_mem::one_shot_all_reduce`.
pub const SYMMETRIC: &str = "symm_mem::";

/// Operators whose names are no evidence: PyTorch's own never communicate, and Inductor names its kernels and the operators around them after the
/// operators that they replace.
const SILENT: &[&str] = &["aten::", "prims::", "triton_", MODULE_FRAME];

/// Words in lower case, without separators.
const WORDS: &[&str] = &["allreduce", "allgather", "reducescatter", "alltoall", "all2all"];

/// Words that count only as a whole: `Dispatcher` and `combined` do not.
const WHOLE_WORDS: &[&str] = &["dispatch", "combine", "a2a"];

/// Words that give the others a different meaning: PyTorch's operator dispatch (`torch_dispatch`, `DispatchKey`), and copies before and after a
/// collective on its own GPU (`fsdp::all_gather_copy_in`).
const OTHERWISE: &[&str] = &["torch", "key", "mode", "copy"];

/// Python's prefixes for C functions.
const BUILT_IN: &[&str] = &["<built-in method ", "<built-in function "];

/// Whether the kernels that an operator, an annotation or a C function launches itself communicate, judged by its name.
pub fn says_communication(caller: &str) -> bool {
    if caller == COLLECTIVE_RECORD || COMMUNICATE.iter().any(|prefix| caller.starts_with(prefix)) {
        return true;
    }
    let function = BUILT_IN.iter().find_map(|prefix| caller.strip_prefix(prefix));
    let name = match function {
        Some(function) => function.split([' ', '>']).next().unwrap_or_default(),
        // `file.py(line): function`
        None if caller.contains("): ") => return false,
        None => caller,
    };
    if SILENT.iter().any(|prefix| name.starts_with(prefix)) {
        return false;
    }
    let words = words(name);
    let has = |word: &&str| words.iter().any(|own| own == word);
    let plain = words.concat();
    (WHOLE_WORDS.iter().any(has) || WORDS.iter().any(|word| plain.contains(word))) && !OTHERWISE.iter().any(has)
}

/// Which of the copies that an operator launches are communication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copying {
    /// All on its GPU and between GPUs: it does nothing else.
    All,
    /// Those between GPUs: it computes, too.
    FromPeers,
}

impl Copying {
    /// Of an operator of PyTorch's symmetric memory (`torch/distributed/_symmetric_memory/__init__.py`), by its name: `_low_contention_all_gather`
    /// communicates, `fused_all_gather_matmul` multiplies what it copies. `None` for other operators.
    pub fn of_operator(name: &str) -> Option<Copying> {
        let name = name.strip_prefix(SYMMETRIC)?;
        Some(if says_communication(name) && !name.starts_with("fused_") { Copying::All } else { Copying::FromPeers })
    }
}

/// The words of a name in lower case: `EpDispatch_v2` has `ep`, `dispatch` and `v2`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_after_small = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || c.is_ascii_uppercase() && is_after_small {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_ascii_alphanumeric()) {
            word.push(c.to_ascii_lowercase());
        }
        is_after_small = c.is_ascii_lowercase();
    }
    words
}

/// Parts of the names of kernels that compute on one GPU, whatever launches them, in lower case: libraries (PyTorch, CUB, Thrust, CUTLASS, cuBLAS,
/// Tensile), Inductor, and any matrix products, elementwise functions and normalizations.
const COMPUTE: &[&str] = &[
    "at::native",
    "at::cuda",
    "cub::",
    "thrust::",
    "cutlass",
    "gemm",
    "nvjet",
    "cijk_",
    "triton_",
    "elementwise",
    "softmax",
    "norm",
];

/// Whether a kernel computes, judged by its name.
pub fn computes(kernel: &str) -> bool {
    let lower = kernel.to_ascii_lowercase();
    COMPUTE.iter().any(|part| lower.contains(part))
}

/// Whether the name of a kernel that no family has indicates a collective. All-reduces within a block or a warp do not count, nor what XLA fuses
/// (`loop_reduce_scatter_slice_fusion`): its collectives are calls of NCCL.
pub fn own_name_says_collective(kernel: &str) -> bool {
    let own = own_name(kernel);
    let is_of_xla = ["loop_", "input_"].iter().any(|prefix| own.starts_with(prefix)) && own.contains("fusion");
    says_collective(own)
        && !is_of_xla
        && !SILENT.iter().any(|prefix| own.starts_with(prefix))
        && !words(own).iter().any(|word| ["block", "warp", "cta", "wave"].contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_callers_that_say_it() {
        for (name, says) in [
            ("record_param_comms", true),
            ("nccl:all_reduce", true),
            ("c10d::broadcast_", true),
            ("_c10d_functional::reduce_scatter_tensor", true),
            ("symm_mem::one_shot_all_reduce", true),
            ("dispatch(B)", true),
            ("combine(F)", true),
            ("mylib::moe_dispatch", true),
            ("EpCombineBackward", true),
            ("All2All_Pooled_Req", true),
            ("vllm::all_gather", true),
            ("tutel::a2a_ffn", true),
            ("<built-in method all_reduce of PyCapsule object at 0x7f1>", true),
            ("<built-in function intranode_dispatch>", true),
            ("fsdp::all_gather_copy_in", false),
            ("aten::copy_", false),
            ("triton_red_fused_all_reduce_wait_tensor_0", false),
            ("nn.Module: MoECombine_3", false),
            ("model.py(10): all_gather", false),
            ("torch/utils/_python_dispatch.py(77): __torch_dispatch__", false),
            ("<built-in method combined of object>", false),
            ("<built-in method to of all_gather object at 0x7f1>", false),
            ("DispatchKeySet", false),
            ("Dispatcher::call", false),
            ("TorchDispatchMode", false),
            ("combined_loss", false),
            ("Optimizer.step#AdamW.step", false),
            ("ProfilerStep#5", false),
            ("gather", false),
        ] {
            assert_eq!(says_communication(name), says, "{name}");
        }
    }

    #[test]
    fn copies_of_operators() {
        for (name, copying) in [
            ("symm_mem::_low_contention_all_gather", Some(Copying::All)),
            ("symm_mem::_low_contention_reduce_scatter", Some(Copying::All)),
            ("symm_mem::fused_all_gather_matmul", Some(Copying::FromPeers)),
            ("symm_mem::memset32_", Some(Copying::FromPeers)),
            ("aten::copy_", None),
            ("c10d::_allgather_base_", None),
        ] {
            assert_eq!(Copying::of_operator(name), copying, "{name}");
        }
    }

    #[test]
    fn kernels_that_compute_and_kernels_that_say_it() {
        for (name, compute, says) in [
            ("void at::native::vectorized_elementwise_kernel<4, FillFunctor>(int)", true, false),
            ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>(float*)", true, false),
            ("void cutlass::Kernel2<cutlass_80_tensorop_bf16>(Params)", true, false),
            ("Cijk_Ailk_Bljk_BBS_BH_MT128x128", true, false),
            ("triton_red_fused_all_reduce_wait_tensor_0", true, false),
            ("gemm_all_reduce_kernel", true, true),
            ("void mylib::ep_send_tokens<8>(int4*)", false, false),
            ("my_all_to_all<float>", false, true),
            ("loop_reduce_scatter_slice_fusion_3", false, false),
            ("my_all_reduce_fusion<float>", false, true),
            ("block_all_reduce_kernel(float*)", false, false),
            ("void copy_kernel<ncclDevKernelArgs>(ncclDevKernelArgs)", false, false),
            ("__amd_rocclr_copyBuffer", false, false),
        ] {
            assert_eq!((computes(name), own_name_says_collective(name)), (compute, says), "{name}");
        }
    }
}
