"""Records the jobs of `full_queue/` and `pipeline/`: ranks that share one GPU, with PyTorch's profiler.

CUDA MPS has to run (`nvidia-cuda-mps-control -d`), and NCCL to be 2.30 or newer. For each rank, at the same time:

    RANK=0 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_NCHANNELS=4 \\
    CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25 python3 record.py pipeline

`full_queue` has two ranks, each with half of the GPU, and also prints how long steps take without its cause.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
GPU = torch.device("cuda:0")


def measure(step, warm, measured):
    """Prints how long a step takes without the profiler, in ms."""
    for _ in range(warm):
        step()
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(measured):
        step()
    torch.cuda.synchronize()
    print(f"rank {RANK}: {(time.perf_counter() - began) * 1e3 / measured:.3f} ms a step")


def record(step, folder, active):
    dist.barrier()
    torch.cuda.synchronize()
    os.makedirs(folder, exist_ok=True)
    with torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=0, warmup=2, active=active, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(f"{folder}/rank{RANK}.json.gz"),
    ) as profiler:
        for number in range(2 + active):
            step()
            if number + 1 == 2 + active:
                torch.cuda.synchronize()
            profiler.step()


def full_queue():
    """Kernels of 0.25 ms that a CPU launches in 6 µs. Every 99 of them are followed by an all-reduce; rank 1 runs 11 more."""
    large, small = torch.zeros(64 << 20, device=GPU), torch.zeros(1 << 16, device=GPU)

    def step(more):
        for _ in range(4):
            for _ in range(99 + (more if RANK == 1 else 0)):
                large.add_(1.0)
            dist.all_reduce(small)

    measure(lambda: step(0), 6, 12)
    measure(lambda: step(11), 6, 12)
    record(lambda: step(11), "full_queue", 3)


class Block(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.up, self.down = nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))


def pipeline():
    """Four equal stages of two blocks, four microbatches in the order that is called 1F1B."""
    width, tokens, microbatches = 2048, 512, 4
    blocks = nn.Sequential(*[Block(width, 4 * width) for _ in range(2)]).to(GPU, torch.bfloat16)
    shape = torch.zeros(tokens, width, device=GPU, dtype=torch.bfloat16)
    stage = pipelining.PipelineStage(blocks, RANK, SIZE, GPU, input_args=(shape,), output_args=(shape,))
    loss = lambda output, target: (output.float() - target.float()).pow(2).mean()
    schedule = pipelining.Schedule1F1B(stage, n_microbatches=microbatches, loss_fn=loss)
    batch = torch.randn(tokens * microbatches, width, device=GPU, dtype=torch.bfloat16)

    def step():
        blocks.zero_grad(set_to_none=True)
        given = (batch,) if RANK == 0 else ()
        schedule.step(*given, **({"target": batch, "losses": []} if RANK == SIZE - 1 else {}))

    measure(step, 3, 8)
    record(step, "pipeline", 2)


torch.cuda.set_device(0)
dist.init_process_group("nccl", device_id=GPU)
dist.all_reduce(torch.ones(1, device=GPU))
{"full_queue": full_queue, "pipeline": pipeline}[sys.argv[1]]()
# Communicators of several ranks on one GPU do not always end.
os._exit(0)
