//! Data-parallel training without Python stacks: gradients are summed over the ranks from the thread
//! of autograd's backward pass, so the stacks of those collectives never meet the training
//! loop. The first kernels were launched before the recording began.

use super::kineto::{Group, Header, Lane};
use super::profile::catalog::{self, KernelSpec};
use super::profile::recorder::Recorder;
use super::profile::records::{Collective, Detail, Name};
use super::profile::{Process, Workload};

const PID: i64 = 90_412;
const COMPUTE: i64 = 7;
const COMMS: i64 = 20;
const RANKS: u32 = 8;
const GROUP: Group<'static> = Group { name: "0", description: "default_pg" };

const AUTOGRAD: usize = 1;

const ROWS: u32 = 256;
const WIDTH: u32 = 1024;
const LAYERS: u32 = 8;
/// Layers whose gradients are in one bucket.
const BUCKET: u32 = 2;
/// Kernels that are still to run when the recording begins.
const LEFTOVERS: u32 = 3;

pub(crate) struct Training;

impl Workload for Training {
    fn process(&self) -> Process {
        let thread = |offset| (Lane { pid: PID, tid: PID + offset }, "python");
        Process {
            header: Header { rank: 0, ranks: RANKS, group: GROUP, with_stack: false, trace_id: 2 },
            name: "python".to_owned(),
            device: 0,
            threads: vec![thread(0), thread(318)],
            streams: vec![COMPUTE, COMMS],
            trace_name: "/tmp/ddp/rank0.pt.trace.json".to_owned(),
            seed: 2,
        }
    }

    fn begin(&self, _: &mut Recorder) {}

    fn step(&self, rec: &mut Recorder, step: u32) {
        if step == 0 {
            for _ in 0..LEFTOVERS {
                rec.leftover(&catalog::ALL_REDUCE_F32, 24, COMMS);
            }
        }
        rec.annotation(Name::Numbered("ProfilerStep#", step + 10), Detail::Bare, |rec| {
            rec.annotation("DistributedDataParallel.forward", Detail::Bare, |rec| {
                sync_buffers(rec);
                for layer in 0..LAYERS {
                    forward(rec, step * LAYERS + layer);
                }
            });
            // The main thread waits inside `loss.backward()`, which records nothing of its own.
            rec.on_thread(AUTOGRAD, |rec| {
                for layer in (0..LAYERS).rev() {
                    backward(rec, step * LAYERS + layer, layer % BUCKET == 0);
                }
            });
            rec.annotation("Optimizer.step#SGD.step", Detail::Bare, |rec| {
                rec.op("aten::_foreach_add_", Detail::Bare, |rec| {
                    rec.launch(&catalog::LAUNCH_KERNEL, &catalog::ELEMENTWISE, 4096, COMPUTE, None);
                });
                rec.synchronize(&catalog::STREAM_SYNCHRONIZE);
            });
        });
    }
}

/// Rank 0 sends the buffers of the model, such as running means, before each forward pass.
fn sync_buffers(rec: &mut Recorder) {
    let collective = collective(rec, "broadcast", 4_800);
    rec.op("c10d::broadcast_", tensors(&catalog::ALL_REDUCE_INPUTS), |rec| {
        communicate(rec, "nccl:broadcast", &catalog::BROADCAST, collective);
    });
}

fn forward(rec: &mut Recorder, sequence: u32) {
    rec.op("aten::linear", tensors(&catalog::LINEAR), |rec| {
        rec.tracked_op("aten::addmm", sequence, |rec| {
            rec.launch(&catalog::LAUNCH_KERNEL_EX, &catalog::GEMM, 128, COMPUTE, None);
        });
    });
}

/// The gradient of one layer; with `full`, its bucket is complete and sent off.
fn backward(rec: &mut Recorder, sequence: u32, full: bool) {
    rec.op("autograd::engine::evaluate_function: AddmmBackward0", Detail::Bare, |rec| {
        rec.tracked_op("AddmmBackward0", sequence, |rec| {
            for _ in ["input", "weight"] {
                rec.op("aten::mm", tensors(&catalog::MATMUL), |rec| {
                    rec.launch(&catalog::LAUNCH_KERNEL_EX, &catalog::GEMM, 128, COMPUTE, None);
                });
            }
        });
    });
    rec.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", Detail::Bare, |rec| {
        rec.op("torch::autograd::AccumulateGrad", Detail::Bare, |rec| {
            rec.op("aten::add_", tensors(&catalog::COPY), |rec| {
                rec.launch(&catalog::LAUNCH_KERNEL, &catalog::ELEMENTWISE, 1024, COMPUTE, None);
            });
        });
        // The reducer is a post hook of the node, so it runs after the node itself has ended.
        if full {
            let collective = collective(rec, "allreduce", u64::from(BUCKET * WIDTH * (WIDTH + 1)));
            rec.op("c10d::allreduce_", tensors(&catalog::ALL_REDUCE_INPUTS), |rec| {
                communicate(rec, "nccl:all_reduce", &catalog::ALL_REDUCE_F32, collective);
            });
        }
    });
}

fn communicate(rec: &mut Recorder, note: &'static str, spec: &'static KernelSpec, collective: Collective) {
    rec.op("record_param_comms", Detail::Comms(collective), |rec| {
        rec.annotation(note, tensors(&catalog::ONE), |rec| {
            rec.call(&catalog::EVENT_RECORD);
            rec.call(&catalog::STREAM_WAIT_EVENT);
            rec.launch(&catalog::LAUNCH_KERNEL_EX, spec, 24, COMMS, Some(collective));
            rec.call(&catalog::EVENT_RECORD);
        });
    });
}

fn tensors(inputs: &'static [catalog::Input]) -> Detail {
    Detail::Tensors { inputs, rows: ROWS, columns: WIDTH }
}

fn collective(rec: &mut Recorder, name: &'static str, elements: u64) -> Collective {
    Collective {
        name,
        dtype: "Float",
        elements_in: elements,
        elements_out: elements,
        rank: 0,
        ranks: RANKS,
        group: GROUP,
        sequence: rec.next_collective(),
    }
}
