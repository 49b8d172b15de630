//! Traces of models that were compiled and split into pieces, in the manner of SGLang and vLLM, with one slice per line.

use super::kineto::Lane;
use super::tiny::{ALL_REDUCE, CPU, GEMM, STREAM_7, Tiny};

const ATTENTION: &str = "vllm::unified_attention_with_output";
const VLLM_WRAPPER: &str = "vllm/compilation/cuda_graph.py(208): __call__";
const STREAM_8: Lane = Lane { pid: 0, tid: 8 };

/// A trace whose slices are given by start and end.
#[derive(Default)]
struct Compiled {
    trace: Tiny,
    launches: u32,
}

impl Compiled {
    fn python(&mut self, name: &str, from: u32, to: u32) {
        self.trace.python(name, (from, to - from));
    }

    fn op(&mut self, name: &str, from: u32, to: u32) {
        self.trace.op(name, (from, to - from));
    }

    /// A call of 2 µs, and the kernels that it launches on a stream 1,000 µs later, of 5 µs each.
    fn launch(&mut self, call: &str, at: u32, lane: Lane, kernels: &[&str]) {
        self.launches += 1;
        self.trace.launch(call, (at, 2), self.launches);
        for (kernel, start) in kernels.iter().zip((at + 1_000..).step_by(5)) {
            self.trace.unlinked_kernel(kernel, lane, (start, 5), self.launches);
        }
    }

    /// A wrapper of 20 µs that replays the graph of a piece.
    fn piece(&mut self, wrapper: &str, at: u32) {
        self.python(wrapper, at, at + 20);
        self.python("torch/cuda/graphs.py(137): replay", at + 2, at + 18);
        self.launch("cudaGraphLaunch", at + 4, STREAM_7, &[GEMM, ALL_REDUCE]);
    }
}

/// A model of three pieces, with attention and an all-reduce that stay eager between them, in two batches. The profiler was started within the
/// first batch, so the function of that batch has the line that it was at.
pub(crate) fn pieces() -> Vec<u8> {
    let mut t = Compiled::default();
    t.python("serve.py(1): main", 0, 1900);
    t.python("sglang/srt/managers/scheduler.py(1487): event_loop_overlap", 1, 1899);
    for (at, line) in [(0, 2982), (700, 2972)] {
        t.python(&format!("sglang/srt/managers/scheduler.py({line}): run_batch"), at + 10, at + 600);
        if line == 2982 {
            t.python("torch/profiler/profiler.py(872): start", 11, 31);
            t.python("torch/autograd/profiler.py(398): _start_trace", 12, 22);
        }
        t.python("sglang/srt/model_executor/model_runner.py(3344): _forward_raw", at + 40, at + 599);
        t.python("nn.Module: NetModel_0", at + 41, at + 598);
        t.op("Torch-Compiled Region: 1/0", at + 42, at + 597);
        t.python("sglang/srt/models/net.py(50): forward", at + 43, at + 596);
        t.python("nn.Module: GraphModule_0", at + 44, at + 595);
        t.python("<eval_with_key>.505(4): forward", at + 50, at + 590);
        let wrapper = "sglang/srt/compilation/cuda_piecewise_backend.py(109): __call__";
        t.piece(wrapper, at + 60);
        t.python("torch/fx/graph_module.py(948): call_wrapped", at + 90, at + 180);
        t.python("nn.Module: GraphModule_1", at + 91, at + 179);
        t.python("<eval_with_key>.507(4): forward", at + 92, at + 178);
        t.op("sglang::unified_attention_with_output", at + 95, at + 175);
        t.python("sglang/srt/layers/radix_attention.py(150): unified_attention_with_output", at + 97, at + 170);
        t.op("aten::mm", at + 100, at + 120);
        t.launch("cudaLaunchKernel", at + 105, STREAM_7, &[GEMM]);
        t.piece(wrapper, at + 200);
        t.python("torch/fx/graph_module.py(948): call_wrapped", at + 230, at + 320);
        t.python("nn.Module: GraphModule_2", at + 231, at + 319);
        t.python("<eval_with_key>.509(4): forward", at + 232, at + 318);
        t.op("aten::view", at + 235, at + 240);
        t.op("sglang::all_reduce", at + 245, at + 300);
        t.op("c10d::allreduce_", at + 250, at + 290);
        t.launch("cudaLaunchKernelExC", at + 255, STREAM_8, &[ALL_REDUCE]);
        t.op("aten::view", at + 305, at + 310);
        t.piece(wrapper, at + 350);
    }
    t.trace.finish()
}

/// A forward pass of vLLM: pieces with attention between them, in a generated function.
fn forward(t: &mut Compiled, model: &str, generated: &str, at: u32, pieces: u32) {
    let to = at + 50 * pieces + 10;
    t.python("vllm/v1/worker/gpu_model_runner.py(3102): _model_forward", at, to);
    t.python(VLLM_WRAPPER, at + 1, to - 1);
    t.python(&format!("nn.Module: {model}_0"), at + 2, to - 2);
    t.python(generated, at + 3, to - 3);
    for piece in 0..pieces {
        let at = at + 5 + 50 * piece;
        if piece > 0 {
            t.op("vllm::unified_kv_cache_update", at - 20, at - 15);
            t.op(ATTENTION, at - 15, at - 5);
        }
        t.piece(VLLM_WRAPPER, at);
    }
}

/// A draft model and a target model, whose pieces are run by generated functions with the same name; a batch whose last pieces were not
/// recorded; a function that was generated again with a different split; and a graph of the whole model, whose capture contains pieces.
pub(crate) fn two_models() -> Vec<u8> {
    let mut t = Compiled::default();
    t.python("serve.py(1): main", 0, 2000);
    forward(&mut t, "Draft", "<string>(3): execution_fn", 100, 2);
    forward(&mut t, "Target", "<string>(3): execution_fn", 300, 5);
    forward(&mut t, "Target", "<string>(3): execution_fn", 600, 3);
    forward(&mut t, "Target", "<eval_with_key>.9(4): forward", 800, 4);
    t.python("vllm/v1/worker/gpu_model_runner.py(3102): _model_forward", 1100, 1200);
    t.python(VLLM_WRAPPER, 1101, 1199);
    t.python("torch/cuda/graphs.py(137): replay", 1102, 1198);
    t.launch("hipGraphLaunch", 1110, STREAM_7, &[ALL_REDUCE, GEMM, ALL_REDUCE, ALL_REDUCE]);
    t.trace.finish()
}

/// The capture of that graph: two pieces, each with generated code that calls an operator, and attention between them.
pub(crate) fn whole_model() -> Vec<u8> {
    let mut t = Compiled::default();
    let inductor = format!("/tmp/cache/ab/cab{}.py(9): call", "c".repeat(49));
    t.python("serve.py(1): main", 0, 2000);
    t.trace.slice("cuda_runtime", "hipStreamBeginCapture", CPU, (10, 1), "");
    t.python("vllm/v1/worker/gpu_model_runner.py(4712): _dummy_run", 20, 1000);
    t.python(VLLM_WRAPPER, 21, 999);
    t.python("nn.Module: Target_0", 22, 998);
    t.python("<string>(3): execution_fn", 23, 997);
    let kernel = |t: &mut Compiled, name: &str, at: u32| {
        t.trace.slice("cuda_runtime", "hipLaunchKernel", CPU, (at, 2), &format!("\"kernel\": \"{name}\""));
    };
    for at in [100, 400] {
        t.python(VLLM_WRAPPER, at, at + 200);
        t.python("vllm/compilation/piecewise_backend.py(334): __call__", at + 1, at + 199);
        t.python(&inductor, at + 2, at + 198);
        t.op("vllm::all_reduce", at + 10, at + 50);
        kernel(&mut t, ALL_REDUCE, at + 20);
        if at == 100 {
            t.op(ATTENTION, 310, 350);
            kernel(&mut t, GEMM, 320);
        } else {
            t.python("vllm/model_executor/models/net.py(7): mlp", at + 60, at + 100);
            kernel(&mut t, ALL_REDUCE, at + 70);
        }
    }
    t.trace.slice("cuda_runtime", "hipStreamEndCapture", CPU, (1100, 1), "");
    t.trace.finish()
}
