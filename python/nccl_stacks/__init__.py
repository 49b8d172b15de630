"""Questions on PyTorch profiler traces, answered by the program `nccl-stacks` that this package brings along."""
