//! Gradients and parameters that hooks send: DDP's buckets on two autograd threads, with and without Python frames; FSDP of both kinds; ZeRO. Each
//! program is written in order, with one microsecond for each beginning and end, so that the answer can be read off the recipe.

use super::kineto::Lane;
use super::tiny::{ALL_GATHER, ALL_REDUCE, CPU, REDUCE_SCATTER, STREAM_20, Tiny};

/// The threads of autograd's engine, one for each GPU.
const FIRST: Lane = Lane { pid: 5000, tid: 5001 };
const SECOND: Lane = Lane { pid: 5000, tid: 5002 };

const EVALUATE: &str = "autograd::engine::evaluate_function: ";
const ACCUMULATE: &str = "torch::autograd::AccumulateGrad";

/// When the first kernel runs, and how long each kernel takes, in microseconds.
const KERNELS_FROM: u32 = 100_000;
const KERNEL: u32 = 50;

/// A program while it runs.
#[derive(Default)]
struct Program {
    trace: Tiny,
    now: u32,
    launches: u32,
    frames: u32,
    with_stack: bool,
}

impl Program {
    fn within(&mut self, lane: Lane, cat: &str, name: &str, args: &str, body: impl FnOnce(&mut Self)) {
        let start = self.now;
        self.now += 1;
        body(self);
        self.now += 1;
        self.trace.slice(cat, name, lane, (start, self.now - start), args);
        self.now += 1;
    }

    fn op(&mut self, lane: Lane, name: &str, body: impl FnOnce(&mut Self)) {
        self.within(lane, "cpu_op", name, "", body);
    }

    fn note(&mut self, lane: Lane, name: &str, body: impl FnOnce(&mut Self)) {
        self.within(lane, "user_annotation", name, "", body);
    }

    /// A call of a Python function; without stacks, only its body.
    fn python(&mut self, lane: Lane, name: &str, body: impl FnOnce(&mut Self)) {
        if !self.with_stack {
            return body(self);
        }
        self.frames += 1;
        let id = format!("\"Python id\": {}", self.frames);
        self.within(lane, "python_function", name, &id, body);
    }

    /// An operator of the forward pass, around the operator that makes node `number`.
    fn forward(&mut self, around: &str, name: &str, number: u32) {
        let args = format!("\"Sequence number\": {number}, \"Fwd thread id\": 0");
        self.op(CPU, around, |run| run.within(CPU, "cpu_op", name, &args, |_| {}));
    }

    /// Node `number` of the backward pass.
    fn node(&mut self, lane: Lane, name: &str, number: u32, body: impl FnOnce(&mut Self)) {
        let args = format!("\"Sequence number\": {number}, \"Fwd thread id\": 1");
        let around = format!("{EVALUATE}{name}");
        self.within(lane, "cpu_op", &around, &args, |run| {
            run.within(lane, "cpu_op", name, &args, |_| {});
            body(run);
        });
    }

    /// The gradient of the last node is accumulated, then the hooks run.
    fn accumulate(&mut self, lane: Lane, hooks: impl FnOnce(&mut Self)) {
        self.op(lane, &format!("{EVALUATE}{ACCUMULATE}"), |run| {
            run.op(lane, ACCUMULATE, |_| {});
            hooks(run);
        });
    }

    /// A collective on two ranks, with `input` floats of this rank.
    fn collective(&mut self, lane: Lane, name: &str, input: u32) {
        let (operator, kernel, output) = match name {
            "_allgather_base" => ("c10d::_allgather_base_", ALL_GATHER, 2 * input),
            "_reduce_scatter_base" => ("c10d::_reduce_scatter_base_", REDUCE_SCATTER, input / 2),
            _ => ("c10d::allreduce_", ALL_REDUCE, input),
        };
        let args = format!(
            "\"Collective name\": \"{name}\", \"In msg nelems\": {input}, \"Out msg nelems\": {output}, \"Group size\": 2, \"dtype\": \"Float\""
        );
        self.op(lane, operator, |run| {
            run.within(lane, "cpu_op", "record_param_comms", &args, |run| {
                run.launches += 1;
                let correlation = run.launches;
                run.within(
                    lane,
                    "cuda_runtime",
                    "cudaLaunchKernelExC",
                    &format!("\"correlation\": {correlation}"),
                    |_| {},
                );
                run.trace.unlinked_kernel(
                    kernel,
                    STREAM_20,
                    (KERNELS_FROM + correlation * KERNEL, KERNEL),
                    correlation,
                );
            });
        });
    }

    fn finish(mut self) -> Vec<u8> {
        for (lane, name) in [(FIRST, "pt_autograd_0"), (SECOND, "pt_autograd_1")] {
            self.trace.name_thread(lane, name);
        }
        self.trace.finish()
    }
}

/// Two micro-batches: the first accumulates its gradients without sending them, the second sends three buckets, one of them from the second thread.
pub(crate) fn ddp(with_stack: bool) -> Vec<u8> {
    let mut run = Program { with_stack, ..Program::default() };
    run.python(CPU, "train.py(10): main", |run| {
        for batch in [0, 1] {
            let first = batch * 10;
            run.note(CPU, "## tower ##", |run| ddp_forward(run, first));
            ddp_backward(run, first, batch == 1);
        }
        run.op(CPU, "aten::_foreach_add_", |_| {});
    });
    run.finish()
}

/// Nodes 1 to 6: an embedding, two blocks of a linear layer and a ReLU, a linear layer.
fn ddp_forward(run: &mut Program, first: u32) {
    run.python(CPU, "nn.Module: Net_0", |run| {
        let linear = |run: &mut Program, number: u32| run.forward("aten::linear", "aten::addmm", first + number);
        run.python(CPU, "nn.Module: Embedding_0", |run| run.forward("aten::embedding", "aten::embedding", first + 1));
        for block in [0, 1] {
            run.python(CPU, &format!("nn.Module: Block_{block}"), |run| {
                run.python(CPU, &format!("nn.Module: Linear_{block}"), |run| linear(run, 2 + 2 * block));
                run.forward("aten::relu", "aten::relu", first + 3 + 2 * block);
            });
        }
        run.python(CPU, "nn.Module: Linear_2", |run| linear(run, 6));
    });
}

fn ddp_backward(run: &mut Program, first: u32, sends: bool) {
    let send = |run: &mut Program, lane: Lane, elements: u32| {
        if sends {
            run.collective(lane, "allreduce", elements);
        }
    };
    // Bias and weight of a layer.
    run.node(FIRST, "AddmmBackward0", first + 6, |_| {});
    run.accumulate(FIRST, |_| {});
    run.accumulate(FIRST, |_| {});
    run.node(FIRST, "ReluBackward0", first + 5, |_| {});
    run.node(FIRST, "AddmmBackward0", first + 4, |_| {});
    run.accumulate(FIRST, |run| {
        if sends {
            // One of the user's own, with a single number. Without stacks it looks like DDP's.
            run.python(FIRST, "hooks.py(40): sum_norms", |run| {
                if run.with_stack {
                    run.collective(FIRST, "allreduce", 1)
                }
            });
        }
    });
    // Meanwhile, the thread of the other GPU.
    run.node(SECOND, "EmbeddingBackward0", first + 1, |_| {});
    run.accumulate(SECOND, |run| send(run, SECOND, 64));
    run.accumulate(FIRST, |run| send(run, FIRST, 1_000_000));
    run.node(FIRST, "ReluBackward0", first + 3, |_| {});
    run.node(FIRST, "AddmmBackward0", first + 2, |_| {});
    run.accumulate(FIRST, |_| {});
    run.accumulate(FIRST, |run| send(run, FIRST, 2_500));
}

/// A model whose blocks are wrapped by `fully_shard`. The first block has its own collective.
pub(crate) fn fsdp2() -> Vec<u8> {
    let mut run = Program { with_stack: true, ..Program::default() };
    let gather = |run: &mut Program, lane: Lane, block: u32| {
        run.note(lane, &format!("FSDP::all_gather (blocks.{block})"), |run| {
            run.collective(lane, "_allgather_base", 500)
        });
    };
    run.python(CPU, "train.py(10): main", |run| {
        run.python(CPU, "nn.Module: FSDPNet_0", |run| {
            run.python(CPU, "net.py(20): forward", |run| {
                for block in [0, 1] {
                    run.python(CPU, &format!("nn.Module: FSDPBlock_{block}"), |run| {
                        run.python(
                            CPU,
                            "torch/distributed/fsdp/_fully_shard/_fsdp_state.py(230): _pre_forward",
                            |run| {
                                run.note(CPU, &format!("FSDP::pre_forward (blocks.{block})"), |run| {
                                    gather(run, CPU, block)
                                });
                                run.forward(
                                    "RegisterPostBackwardFunction",
                                    "RegisterPostBackwardFunction",
                                    1 + 3 * block,
                                );
                            },
                        );
                        run.python(CPU, "net.py(30): forward", |run| {
                            run.forward("aten::linear", "aten::addmm", 2 + 3 * block);
                            if block == 0 {
                                run.collective(CPU, "allreduce", 10);
                            }
                            run.forward("aten::mul", "aten::mul", 3 + 3 * block);
                        });
                    });
                }
            });
        });
        for block in [1, 0] {
            run.node(FIRST, "MulBackward0", 3 + 3 * block, |run| {
                run.note(FIRST, &format!("FSDP::pre_backward (blocks.{block})"), |run| {
                    if block == 1 {
                        gather(run, FIRST, 1);
                        run.note(FIRST, "FSDP::backward_prefetch for blocks.0", |run| gather(run, FIRST, 0));
                    }
                });
            });
            run.node(FIRST, "AddmmBackward0", 2 + 3 * block, |_| {});
            run.accumulate(FIRST, |_| {});
            run.node(FIRST, "RegisterPostBackwardFunctionBackward", 1 + 3 * block, |run| {
                run.note(FIRST, &format!("FSDP::post_backward_reduce (blocks.{block})"), |run| {
                    run.collective(FIRST, "_reduce_scatter_base", 1_000);
                });
            });
        }
    });
    run.finish()
}

/// Two layers, each with one flat parameter (`FullyShardedDataParallel`).
pub(crate) fn fsdp1() -> Vec<u8> {
    let mut run = Program { with_stack: true, ..Program::default() };
    let unit = |layer: u32| format!("nn.Module: FullyShardedDataParallel_{}", layer + 1);
    run.python(CPU, "train.py(10): main", |run| {
        run.python(CPU, "nn.Module: FullyShardedDataParallel_0", |run| {
            run.python(CPU, "net.py(20): forward", |run| {
                for layer in [0, 1] {
                    run.python(CPU, &unit(layer), |run| {
                        run.note(CPU, "FullyShardedDataParallel.forward", |run| {
                            run.note(CPU, "FullyShardedDataParallel._pre_forward", |run| {
                                run.collective(CPU, "_allgather_base", 500);
                                run.forward("aten::split_with_sizes", "aten::split_with_sizes", 1 + 2 * layer);
                            });
                            run.python(CPU, &format!("nn.Module: Linear_{layer}"), |run| {
                                run.forward("aten::linear", "aten::addmm", 2 + 2 * layer);
                            });
                        });
                    });
                }
            });
        });
        for layer in [1, 0] {
            run.node(FIRST, "AddmmBackward0", 2 + 2 * layer, |run| {
                run.note(FIRST, "FullyShardedDataParallel._pre_backward_hook", |run| {
                    run.collective(FIRST, "_allgather_base", 500);
                });
            });
            run.node(FIRST, "SplitWithSizesBackward0", 1 + 2 * layer, |_| {});
            run.accumulate(FIRST, |run| {
                run.note(FIRST, "FullyShardedDataParallel._post_backward_hook", |run| {
                    run.collective(FIRST, "_reduce_scatter_base", 1_000);
                });
            });
        }
    });
    run.finish()
}

/// Three layers under ZeRO stage 3. The gradient of the first no longer fits into the bucket, so its hook sends those of the others.
pub(crate) fn zero3() -> Vec<u8> {
    const OFFLOAD: &str = "deepspeed/runtime/zero/parameter_offload.py(405): _pre_forward_module_hook";
    const BACKWARD: &str = "deepspeed/runtime/zero/parameter_offload.py(430): _run_before_backward_function";
    const REDUCE: &str = "deepspeed/runtime/zero/stage3.py(1180): reduce_ready_partitions_and_remove_grads";
    let mut run = Program { with_stack: true, ..Program::default() };
    run.python(CPU, "train.py(10): main", |run| {
        run.python(CPU, "nn.Module: Net_0", |run| {
            run.python(CPU, "net.py(20): forward", |run| {
                for layer in [0, 1, 2] {
                    run.python(CPU, &format!("nn.Module: Linear_{layer}"), |run| {
                        run.python(CPU, OFFLOAD, |run| run.collective(CPU, "_allgather_base", 500));
                        run.forward("aten::linear", "aten::addmm", 1 + 2 * layer);
                        run.forward("PreBackwardFunctionForModule", "PreBackwardFunctionForModule", 2 + 2 * layer);
                    });
                }
            });
        });
        for layer in [2, 1, 0] {
            run.node(FIRST, "PreBackwardFunctionForModuleBackward", 2 + 2 * layer, |run| {
                run.python(FIRST, BACKWARD, |run| run.collective(FIRST, "_allgather_base", 500));
            });
            run.node(FIRST, "AddmmBackward0", 1 + 2 * layer, |_| {});
            run.accumulate(FIRST, |run| {
                run.python(FIRST, REDUCE, |run| {
                    if layer == 0 {
                        run.collective(FIRST, "_reduce_scatter_base", 2_000)
                    }
                });
            });
        }
        run.op(CPU, "aten::_foreach_add_", |_| {});
    });
    run.finish()
}
