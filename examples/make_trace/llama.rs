//! The frames and operators of one pass through a tensor-parallel Llama, from `ModelRunner.forward` down to the launches: two all-reduces per
//! layer, at the ends of attention and MLP, and one all-gather for the logits.

use super::profile::catalog::{self, KernelSpec};
use super::profile::recorder::{Recorder, address};
use super::profile::records::{Collective, Detail, Name};
use super::sglang::{COMMS, COMPUTE, GROUP, RANKS, Serving, Step, TOKENS};

const HIDDEN: u32 = 4096;
const VOCABULARY: u32 = 128_256;

/// One pass through the model.
pub(crate) struct Forward<'a> {
    pub(crate) serving: &'a Serving,
    pub(crate) kind: Step,
    pub(crate) step: u32,
    pub(crate) rows: u32,
}

impl Forward<'_> {
    pub(crate) fn run(&self, rec: &mut Recorder) {
        rec.python("sglang/srt/model_executor/model_runner.py(2177): forward", |rec| {
            rec.chatter(self.serving.chatter);
            rec.python("sglang/srt/model_executor/model_runner.py(2240): _forward_raw", |rec| match self.kind {
                Step::Replay => self.replay(rec),
                Step::Prefill => {
                    rec.python("sglang/srt/model_executor/model_runner.py(2096): forward_extend", |rec| self.eager(rec))
                }
            });
        });
    }

    fn replay(&self, rec: &mut Recorder) {
        let graph = self.graph();
        rec.python("sglang/srt/model_executor/cuda_graph_runner.py(793): replay", |rec| {
            rec.python("sglang/srt/model_executor/cuda_graph_runner.py(732): replay_prepare", |rec| {
                rec.chatter(4 * self.serving.chatter);
                for input in [8, 8, 4] {
                    self.op(rec, "aten::copy_", &catalog::COPY, |rec| {
                        rec.copy("Memcpy DtoD (Device -> Device)", self.rows * input, COMPUTE);
                    });
                }
            });
            rec.python("torch/cuda/graphs.py(137): replay", |rec| {
                rec.python(self.capsule("replay"), |rec| {
                    rec.replay(3, &graph, COMPUTE, self.serving.early_kernels);
                });
            });
        });
    }

    /// The kernels of one decode step, in the order they were captured.
    fn graph(&self) -> Vec<(&'static KernelSpec, u32)> {
        use catalog::{ALL_GATHER, ALL_REDUCE, ATTENTION, ATTENTION_COMBINE, EMBEDDING, GEMM, GEMM_SPLIT};
        use catalog::{RMS_NORM, ROPE, SILU, SPLIT_REDUCE, STORE_KV};
        let mut kernels = vec![(&EMBEDDING, self.rows)];
        for _ in 0..self.serving.layers {
            kernels.extend([(&RMS_NORM, self.rows), (&GEMM_SPLIT, 132), (&SPLIT_REDUCE, 48), (&ROPE, self.rows)]);
            kernels.extend([(&STORE_KV, self.rows), (&ATTENTION, 132), (&ATTENTION_COMBINE, 2 * self.rows)]);
            kernels.extend([(&GEMM_SPLIT, 128), (&ALL_REDUCE, 24), (&RMS_NORM, self.rows), (&GEMM, 112)]);
            kernels.extend([(&SILU, self.rows), (&GEMM_SPLIT, 128), (&ALL_REDUCE, 24)]);
        }
        kernels.extend([(&RMS_NORM, self.rows), (&GEMM, 132), (&ALL_GATHER, 16)]);
        kernels
    }

    fn eager(&self, rec: &mut Recorder) {
        rec.chatter(2 * self.serving.chatter);
        rec.python("torch/utils/_contextlib.py(120): decorate_context", |rec| {
            rec.python("sglang/srt/models/llama.py(489): forward", |rec| {
                rec.module("nn.Module: LlamaModel_", 0, "sglang/srt/models/llama.py(351): forward", |rec| {
                    self.embedding(rec);
                    for layer in 0..self.serving.layers {
                        self.layer(rec, layer);
                    }
                    self.norm(rec, 2 * self.serving.layers);
                });
                self.logits(rec);
            });
        });
    }

    fn embedding(&self, rec: &mut Recorder) {
        let forward = "sglang/srt/layers/vocab_parallel_embedding.py(473): forward";
        rec.module("nn.Module: VocabParallelEmbedding_", 0, forward, |rec| {
            rec.chatter(self.serving.chatter);
            self.op(rec, "aten::embedding", &catalog::LINEAR, |rec| {
                self.op(rec, "aten::index_select", &catalog::LINEAR, |rec| {
                    self.op(rec, "aten::empty", &catalog::EMPTY, |_| {});
                    rec.launch(&catalog::LAUNCH_KERNEL, &catalog::EMBEDDING, self.rows, COMPUTE, None);
                });
            });
        });
    }

    fn layer(&self, rec: &mut Recorder, layer: u32) {
        rec.module("nn.Module: LlamaDecoderLayer_", layer, "sglang/srt/models/llama.py(266): forward", |rec| {
            rec.chatter(self.serving.chatter);
            self.norm(rec, 2 * layer);
            self.attention(rec, layer);
            self.norm(rec, 2 * layer + 1);
            self.mlp(rec, layer);
        });
    }

    fn norm(&self, rec: &mut Recorder, index: u32) {
        rec.module("nn.Module: RMSNorm_", index, "sglang/srt/layers/layernorm.py(95): forward_cuda", |rec| {
            rec.chatter(self.serving.chatter);
            self.op(rec, "sgl_kernel::fused_add_rmsnorm", &catalog::MATMUL, |rec| {
                rec.call(&catalog::DEVICE_GET_ATTRIBUTE);
                rec.launch(&catalog::LAUNCH_KERNEL_EX, &catalog::RMS_NORM, self.rows, COMPUTE, None);
            });
        });
    }

    fn attention(&self, rec: &mut Recorder, layer: u32) {
        rec.module("nn.Module: LlamaAttention_", layer, "sglang/srt/models/llama.py(197): forward", |rec| {
            let forward = "sglang/srt/layers/linear.py(441): forward";
            rec.module("nn.Module: QKVParallelLinear_", layer, forward, |rec| self.matmul(rec, &catalog::GEMM));
            rec.module(
                "nn.Module: RotaryEmbedding_",
                layer,
                "sglang/srt/layers/rotary_embedding.py(231): forward_cuda",
                |rec| {
                    rec.chatter(self.serving.chatter);
                    self.op(rec, "sgl_kernel::apply_rope_pos_ids_cos_sin_cache", &catalog::COPY, |rec| {
                        rec.launch(&catalog::LAUNCH_KERNEL, &catalog::ROPE, self.rows, COMPUTE, None);
                    });
                },
            );
            let forward = "sglang/srt/layers/radix_attention.py(101): forward";
            rec.module("nn.Module: RadixAttention_", layer, forward, |rec| {
                let backend = "sglang/srt/layers/attention/flashattention_backend.py(642): forward_extend";
                rec.python(backend, |rec| self.attend(rec));
            });
            self.row_parallel(rec, 2 * layer);
        });
    }

    fn attend(&self, rec: &mut Recorder) {
        rec.chatter(4 * self.serving.chatter);
        rec.python("sglang/srt/mem_cache/memory_pool.py(412): set_kv_buffer", |rec| {
            rec.chatter(self.serving.chatter);
            rec.launch(&catalog::LAUNCH_KERNEL, &catalog::STORE_KV, self.rows, COMPUTE, None);
        });
        self.op(rec, "sgl_kernel::fwd", &catalog::LINEAR, |rec| {
            self.op(rec, "aten::empty", &catalog::EMPTY, |_| {});
            rec.call(&catalog::DEVICE_GET_ATTRIBUTE);
            rec.launch(&catalog::LAUNCH_KERNEL_EX, &catalog::ATTENTION, 132, COMPUTE, None);
        });
    }

    fn mlp(&self, rec: &mut Recorder, layer: u32) {
        rec.module("nn.Module: LlamaMLP_", layer, "sglang/srt/models/llama.py(98): forward", |rec| {
            let forward = "sglang/srt/layers/linear.py(441): forward";
            rec.module("nn.Module: MergedColumnParallelLinear_", layer, forward, |rec| {
                self.matmul(rec, &catalog::GEMM)
            });
            rec.module("nn.Module: SiluAndMul_", layer, "sglang/srt/layers/activation.py(68): forward_cuda", |rec| {
                rec.chatter(self.serving.chatter);
                self.op(rec, "sgl_kernel::silu_and_mul", &catalog::ONE, |rec| {
                    rec.launch(&catalog::LAUNCH_KERNEL_EX, &catalog::SILU, self.rows, COMPUTE, None);
                });
            });
            self.row_parallel(rec, 2 * layer + 1);
        });
    }

    /// A matrix product whose terms are distributed over the ranks, so that a sum over them follows: `o_proj` of the attention and `down_proj` of
    /// the MLP.
    fn row_parallel(&self, rec: &mut Recorder, index: u32) {
        rec.module("nn.Module: RowParallelLinear_", index, "sglang/srt/layers/linear.py(1389): forward", |rec| {
            self.matmul(rec, &catalog::GEMM_SPLIT);
            rec.python("sglang/srt/distributed/communication_op.py(13): tensor_model_parallel_all_reduce", |rec| {
                rec.python("sglang/srt/distributed/parallel_state.py(497): all_reduce", |rec| {
                    rec.chatter(self.serving.chatter);
                    self.all_reduce(rec);
                });
            });
        });
    }

    fn matmul(&self, rec: &mut Recorder, spec: &'static KernelSpec) {
        rec.python("sglang/srt/layers/quantization/unquant.py(137): apply", |rec| {
            rec.chatter(2 * self.serving.chatter);
            self.op(rec, "aten::linear", &catalog::LINEAR, |rec| {
                self.op(rec, "aten::t", &catalog::ONE, |rec| {
                    self.op(rec, "aten::transpose", &catalog::TRANSPOSE, |_| {});
                });
                self.op(rec, "aten::matmul", &catalog::MATMUL, |rec| {
                    self.op(rec, "aten::mm", &catalog::MATMUL, |rec| {
                        rec.launch(&catalog::DRIVER_LAUNCH, spec, 128, COMPUTE, None);
                    });
                });
            });
            self.op(rec, "aten::view", &catalog::VIEW, |_| {});
        });
    }

    fn all_reduce(&self, rec: &mut Recorder) {
        let elements = u64::from(self.rows) * u64::from(HIDDEN);
        rec.python("torch/distributed/c10d_logger.py(81): wrapper", |rec| {
            rec.python("torch/distributed/distributed_c10d.py(2930): all_reduce", |rec| {
                rec.chatter(self.serving.chatter / 2);
                rec.python(self.capsule("allreduce"), |rec| {
                    let collective = self.collective(rec, "allreduce", elements, elements);
                    self.op(rec, "c10d::allreduce_", &catalog::ALL_REDUCE_INPUTS, |rec| {
                        self.communicate(rec, "nccl:all_reduce", &catalog::ALL_REDUCE, collective);
                    });
                });
            });
        });
    }

    fn communicate(&self, rec: &mut Recorder, note: &'static str, spec: &'static KernelSpec, collective: Collective) {
        rec.op("record_param_comms", Detail::Comms(collective), |rec| {
            rec.annotation(note, self.tensors(&catalog::ONE), |rec| {
                rec.call(&catalog::STREAM_IS_CAPTURING);
                rec.call(&catalog::EVENT_RECORD);
                rec.call(&catalog::STREAM_WAIT_EVENT);
                rec.call(&catalog::GET_FUNC_BY_SYMBOL);
                rec.launch(&catalog::LAUNCH_KERNEL_EX, spec, 24, COMMS, Some(collective));
                rec.call(&catalog::EVENT_RECORD);
            });
        });
    }

    fn logits(&self, rec: &mut Recorder) {
        let forward = "sglang/srt/layers/logits_processor.py(287): forward";
        rec.module("nn.Module: LogitsProcessor_", 0, forward, |rec| {
            rec.chatter(self.serving.chatter);
            rec.python("sglang/srt/layers/logits_processor.py(563): _get_logits", |rec| {
                self.matmul(rec, &catalog::GEMM);
                rec.python("sglang/srt/distributed/communication_op.py(27): tensor_model_parallel_all_gather", |rec| {
                    rec.python("sglang/srt/distributed/parallel_state.py(654): all_gather", |rec| {
                        rec.python("sglang/srt/distributed/parallel_state.py(586): all_gather_into_tensor", |rec| {
                            self.all_gather(rec);
                        });
                    });
                });
            });
        });
    }

    fn all_gather(&self, rec: &mut Recorder) {
        // Only the last token of a prompt has a next token to predict.
        let rows = if self.kind == Step::Prefill { self.rows / TOKENS } else { self.rows };
        let elements = u64::from(rows) * u64::from(VOCABULARY / RANKS);
        rec.python("torch/distributed/c10d_logger.py(81): wrapper", |rec| {
            rec.python("torch/distributed/distributed_c10d.py(3906): all_gather_into_tensor", |rec| {
                rec.python(self.capsule("_allgather_base"), |rec| {
                    let collective = self.collective(rec, "_allgather_base", elements, elements * u64::from(RANKS));
                    self.op(rec, "c10d::_allgather_base_", &catalog::ALL_GATHER_INPUTS, |rec| {
                        self.communicate(rec, "nccl:_all_gather_base", &catalog::ALL_GATHER, collective);
                    });
                });
            });
        });
    }

    pub(crate) fn sample(&self, rec: &mut Recorder) {
        rec.python("sglang/srt/model_executor/model_runner.py(2301): sample", |rec| {
            rec.module("nn.Module: Sampler_", 0, "sglang/srt/layers/sampler.py(72): forward", |rec| {
                rec.chatter(2 * self.serving.chatter);
                self.op(rec, "aten::argmax", &catalog::ONE, |rec| {
                    self.op(rec, "aten::empty", &catalog::EMPTY, |_| {});
                    rec.set(4, COMPUTE);
                    rec.launch(&catalog::LAUNCH_KERNEL, &catalog::ARGMAX, self.rows, COMPUTE, None);
                });
            });
        });
    }

    pub(crate) fn take_result(&self, rec: &mut Recorder) {
        let mixin = "sglang/srt/managers/scheduler_output_processor_mixin.py(231): process_batch_result_decode";
        rec.python(mixin, |rec| {
            rec.chatter(4 * self.serving.chatter);
            self.op(rec, "aten::copy_", &catalog::COPY, |rec| {
                rec.copy("Memcpy DtoH (Device -> Pinned)", 8 * self.rows, COMPUTE);
                rec.synchronize(&catalog::STREAM_SYNCHRONIZE);
            });
            rec.python("torch/cuda/streams.py(231): synchronize", |rec| rec.call(&catalog::EVENT_SYNCHRONIZE));
        });
    }

    fn op(
        &self,
        rec: &mut Recorder,
        name: &'static str,
        inputs: &'static [catalog::Input],
        body: impl FnOnce(&mut Recorder),
    ) {
        rec.op(name, self.tensors(inputs), body);
    }

    fn tensors(&self, inputs: &'static [catalog::Input]) -> Detail {
        Detail::Tensors { inputs, rows: self.rows, columns: HIDDEN }
    }

    /// A method of an object that is new in each step, so that its address means nothing.
    fn capsule(&self, method: &'static str) -> Name {
        Name::Builtin { method, of: "PyCapsule", address: address(1_000 + u64::from(self.step)) }
    }

    fn collective(&self, rec: &mut Recorder, name: &'static str, elements_in: u64, elements_out: u64) -> Collective {
        Collective {
            name,
            dtype: "BFloat16",
            elements_in,
            elements_out,
            rank: self.serving.rank,
            ranks: RANKS,
            group: GROUP,
            sequence: rec.next_collective(),
        }
    }
}
